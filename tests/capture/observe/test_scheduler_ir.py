"""The text of the scheduler's nodes."""

from __future__ import annotations

import re
import textwrap
from contextlib import ExitStack
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.observe import scheduler_ir
from explorer.capture.observe.patch import replaced
from explorer.capture.observe.scheduler_ir import unindented, unwritten_record

pytest.importorskip("triton")


def several(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Indirect loads, a masked part, a scan, reductions, a conversion, a random number, infinity."""
    padded = torch.nn.functional.pad(x[index], (1, 1)).half().float()[:, 1:-1]
    drawn = torch.nn.functional.dropout(padded * torch.where(x > 0, x, float("-inf")).clamp_min(0.5), 0.5)
    return torch.softmax(drawn, -1).cumsum(0) + x.var(-1, keepdim=True)


@pytest.mark.compile
def test_the_scheduler_s_text_is_inductor_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that nodes share are written once; each node's text is, letter by letter, what Inductor writes for it."""
    from sympy.printing import str as expressions
    from torch._inductor import ir, scheduler
    from torch._inductor.loop_body import LoopBody
    from torch._inductor.utils import IndentedBuffer

    places = [
        (expressions, "sstr"),
        (ir.Layout, "__str__"),
        (scheduler, "pformat"),
        (LoopBody, "debug_str"),
        (IndentedBuffer, "splice"),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name in places]
    texts: list[str] = []

    def both(nodes: Any, parts: Any) -> Any:
        assert all(getattr(owner, name) is not theirs for owner, name, theirs in originals)
        made = unwritten_record(nodes, parts)
        with ExitStack() as stack:
            for owner, name, theirs in originals:
                stack.enter_context(replaced(owner, name, lambda _, theirs=theirs: theirs))
            texts.append("".join(f"{node.debug_str()}\n\n\n" for node in nodes))
        return made

    monkeypatch.setattr(scheduler_ir, "unwritten_record", both)

    trace = explorer.trace(several, torch.randn(8, 8), torch.arange(8), target="h100")
    trace.raise_for_failures()
    assert len(texts) == 2
    assert all(getattr(owner, name) is theirs for owner, name, theirs in originals)
    for made, theirs in zip([*trace.find("ir_pre_fusion"), *trace.find("ir_post_fusion")], texts, strict=True):
        assert "_loop_body:" in made.text
        assert f"{made.text}\n\n\n" == theirs


@pytest.mark.compile
def test_layouts_of_a_size_that_the_data_decides_are_written() -> None:
    """Torch keeps the free symbols of such a layout in a dict beside its attributes."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        trace = explorer.trace(lambda x: x.nonzero() * 2, torch.tensor([0.0, 1.0, 2.0]), target="h100")
    assert trace.failures == ()
    assert "u0" in trace.text("ir_post_fusion")


@pytest.mark.parametrize(
    "text",
    [
        "one\n    two\n\n  three\n   \n",
        "    a.snodes[0] =\n    b: C(D)\n        e\n\n    f\n",
        "    a\n  \n    b",
        "    a\n\t\n     b",
        "  a\n    b\n c",
        "\ta\n\tb",
        "  \n a",
        " \ta\n \tb",
        "",
    ],
)
def test_lines_are_unindented_as_textwrap_does(text: str) -> None:
    """Line by line what torch adds of a text to a buffer; other texts are left to torch."""
    lines = unindented(text)
    theirs = textwrap.dedent(text).rstrip().split("\n")
    assert lines is None or ["" if line.isspace() else line for line in lines] == theirs
    assert (lines is None) == (text[:2] in ("  ", "\ta", " \t", "") and not text.startswith("    "))


def codes_of_blocks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, str]]:
    """The code of each block of a trace's loop bodies, as explorer writes it and as torch.fx does."""
    codes: list[tuple[str | None, str]] = []
    write = scheduler_ir.block_code

    def both(graph: Any) -> str | None:
        code = write(graph)
        codes.append((code, re.sub(r";[^\n]*", "", graph.python_code("self").src.strip())))
        return code

    with monkeypatch.context() as patched:
        patched.setattr(scheduler_ir, "block_code", both)
        explorer.trace(several, torch.randn(8, 8), torch.arange(8), target="h100").raise_for_failures()
    return codes


@pytest.mark.compile
def test_the_code_of_a_block_is_torch_fx_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Line by line what torch.fx writes, for blocks with a masked part and indirect loads; a scan's results are left to it."""
    codes = codes_of_blocks(monkeypatch)
    assert len(codes) > 5 and all(code == torchs for code, torchs in codes if code is not None or "getitem" not in torchs)
    whole = "".join(torchs for _, torchs in codes)
    assert all(
        word in whole
        for word in (
            "masked_subblock",
            "set_indirect",
            "self.scan",
            "src_dtype = torch",
            "ops.reduction(",
            "-inf",
            "torch.float32",
        )
    )


@pytest.mark.compile
def test_a_block_that_torch_fx_writes_otherwise_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first block's code is not torch's, all blocks have torch's."""
    asked = []
    monkeypatch.setattr(scheduler_ir, "block_code", lambda graph: asked.append(graph) or "def forward(self, ops):\n    wrong")
    trace = explorer.trace(several, torch.randn(8, 8), torch.arange(8), target="h100")
    trace.raise_for_failures()
    text = trace.text("ir_pre_fusion")
    assert len(asked) == 1 and "wrong" not in text and text.count("ops.store(") > 3


def test_what_loop_bodies_do_not_have_is_left_to_torch_fx() -> None:
    """Such as names that torch.fx changes, calls of functions, lists and tensors."""

    def graph(name: str, *args: Any, **kwargs: Any) -> torch.fx.Graph:
        made = torch.fx.Graph()
        ops = made.placeholder("ops")
        made.output(made.create_node("call_method", "load", (ops, *args), kwargs, name=name))
        return made

    plain = graph("load", "buf0", 1, None, float("inf"), torch.float32, (1,), (1, 2), by=1, to=None)
    assert scheduler_ir.block_code(plain) == plain.python_code("self").src.strip().split(";")[0] + "\n    return load"
    for other in (
        graph("load", by=[1]),
        graph("load", [1]),
        graph("load", torch.ones(1)),
        graph("load", "a;b"),
        graph("load", 1j),
    ):
        assert scheduler_ir.block_code(other) is None
    next(n for n in plain.nodes if n.op == "call_method").name = "inf"
    assert "inf_1 = " in plain.python_code("self").src and scheduler_ir.block_code(plain) is None
    made = torch.fx.Graph()
    made.output(made.call_function(torch.sin, (made.placeholder("ops"),)))
    assert scheduler_ir.block_code(made) is None
