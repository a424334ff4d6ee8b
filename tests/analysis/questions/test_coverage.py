"""Coverage: which share of each stage's lines leads to a user line, which lines do not, and which need not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import explorer
from explorer.errors import InputError
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact, Link, plain
from explorer.stages.kinds import REASONS
from explorer.tracing.traced import Trace
from tests.facts import untold

KERNEL = """import triton
@triton.jit
def k(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 64
    xindex = tl.arange(0, XBLOCK)
    tmp0 = tl.load(in_ptr0 + xindex)
    tmp1 = tl_math.sin(tmp0)"""
TTIR = """module {
  %a = tt.load %0 loc(#loc1)
  %b = math.sin %a loc(#loc2)
  %c = tt.splat %i loc(#loc3)
  %d = arith.addi %c
}"""


def text(id: str, stage: str, language: str, body: str, **facts: object) -> Artifact:
    return Artifact(id, stage, "0/0", "inference", id, language, body, kernel="k", data=plain(facts))


@pytest.fixture
def small() -> Trace:
    """A source of one line, a kernel of which one line is linked to it and one not, and what is below the kernel."""
    parts = (
        text("source", "source", "python", "return x.sin()"),
        text("kernel", "kernel", "triton", KERNEL),
        text("ttir", "ttir", "mlir", TTIR),
    )
    links = (
        Link("kernel", (7,), "source", (1,), "codegen"),
        Link("ttir", (2,), "kernel", (6,), "mlir loc"),
        Link("ttir", (3,), "kernel", (7,), "mlir loc"),
        Link("ttir", (4,), "kernel", (5,), "mlir loc"),
    )
    return Trace(artifacts=parts, links=links)


def test_lines_that_compute_are_counted_and_the_others_named(small: Trace) -> None:
    """Of seven lines two compute, and one of these is linked; the others are named by what they are."""
    (row,) = small.coverage().where(stage="kernel")
    assert (row["lines"], row["counted"], row["linked"], row["share"]) == (7, 2, 1, 0.5)
    assert row["exempt"] == {"imports": 1, "heuristics": 1, "signature": 1, "constants": 1, "index arithmetic": 1}


def test_the_lines_that_do_not_link_are_listed(small: Trace) -> None:
    """With a stage, each text's missing lines, with their numbers."""
    (row,) = small.coverage("kernel")
    assert row["artifact"] == "kernel" and row["missing"] == ((6, "    tmp0 = tl.load(in_ptr0 + xindex)"),)


def test_a_line_below_a_kernel_is_what_the_kernels_line_is(small: Trace) -> None:
    """An operation of an index line is index arithmetic; the rest counts, one without a location too, which is missing."""
    (row,) = small.coverage().where(stage="ttir")
    assert (row["counted"], row["linked"]) == (3, 1)
    assert row["exempt"] == {"signature": 1, "index arithmetic": 1, "braces": 1}
    assert [n for n, _ in small.coverage("ttir")[0]["missing"]] == [2, 5]


def test_fewer_links_are_a_smaller_share(zoo: Callable[[str], Trace]) -> None:
    """For each stage half of its links are deleted, then all: its share falls, and is nothing at last."""
    made = zoo("block training h100")
    shares = {row["stage"] for row in made.coverage() if row["linked"]}
    assert {"kernel", "post_grad", "ttir", "ttgir", "llir", "ptx"} <= shares
    for stage in shares - {"dynamo_bytecode"}:  # of a few lines of the function itself
        texts = {a.id for a in made.find(stage)}
        others = tuple(link for link in made.links if link.source not in texts)
        odd = (odd_lines(link) for link in made.links if link.source in texts)
        for links, least, most in (((*others, *odd), 0.05, 0.95), (others, 0.0, 0.0)):
            rows = replace(made, links=links).coverage().where(stage=stage)
            share = sum(row["linked"] for row in rows) / sum(row["counted"] for row in rows)
            assert least <= share <= most, (stage, share)


def odd_lines(link: Link) -> Link:
    """The link without its even lines."""
    return replace(link, source_lines=tuple(n for n in link.source_lines if n % 2))


def test_each_kind_that_does_not_count_has_its_reason(replayed: Callable[[str], Trace]) -> None:
    """No line is left out of the count for a kind that nobody gave a reason for."""
    recordings = ("mlp_train-torch2.11-cuda", "attention-torch2.13-cpu")
    kinds = {kind for name in recordings for row in replayed(name).coverage() for kind in row["exempt"]}
    assert kinds and kinds <= set(REASONS) and all(REASONS.values())


def test_what_is_made_of_a_functions_braces_is_its_prologue_and_epilogue() -> None:
    """Instructions of C++ that compute nothing are named by what they do, not by the text they come from."""
    kernel = text("kernel", "kernel", "cpp", 'extern "C" void k()\n{\n    x = y;\n}')
    assembly = text("assembly", "assembly", "asm", "k:\n\tpushq\t%rbp\n\tmovss\t(%rdi), %xmm0\n\tret")
    links = (
        Link("assembly", (2,), "kernel", (2,), ".loc"),
        Link("assembly", (3,), "kernel", (3,), ".loc"),
        Link("assembly", (4,), "kernel", (4,), ".loc"),
    )
    (row,) = Trace(artifacts=(kernel, assembly), links=links).coverage().where(stage="assembly")
    assert row["counted"] == 1 and row["exempt"] == {"directives": 1, "prologue and epilogue": 2}


@pytest.mark.parametrize(
    ("body", "exempt"),
    [
        (
            "              0 COPY_FREE_VARS           1\n\n  1           2 RESUME                   0\n              4 LOAD_FAST",
            "3.12",
        ),
        (
            "  --           MAKE_CELL                1 (x)\n\n   1     RESUME              0\n               LOAD_FAST",
            "3.13",
        ),
    ],
    ids=["3.12", "3.13"],
)
def test_instructions_that_make_the_frame_have_no_line(body: str, exempt: str) -> None:
    """What CPython puts before the first line, to make the frame's cells, is named, not counted."""
    table = "\nExceptionTable:\n  4 to 8 -> 10"
    trace = Trace(artifacts=(Artifact("b", "bytecode", "0/0", "", "b", "bytecode", body + table),))
    (row,) = trace.coverage().where(stage="bytecode")
    assert (
        row["counted"] == 2
        and set(row["exempt"])
        == {
            "3.12": {"blank", "prologue and epilogue", "exception table"},
            "3.13": {"blank", "no line stated", "exception table"},
        }[exempt]
    )


def test_an_exempt_line_is_never_counted_as_linked(small: Trace) -> None:
    """A link of a constant changes neither share nor count."""
    more = replace(small, links=(*small.links, Link("kernel", (4,), "source", (1,), "codegen")))
    assert more.coverage("kernel")[0]["linked"] == 1


def test_a_link_to_the_source_through_a_whole_does_not_count(small: Trace) -> None:
    """A link of a kernel as a whole says nothing of its single lines."""
    more = replace(small, links=(*small.links, Link("kernel", (6,), "source", (1,), "origins")))
    assert more.coverage("kernel")[0]["linked"] == 1


def test_a_stage_without_lines_to_link_is_refused(small: Trace) -> None:
    """The error names the stages there are."""
    with pytest.raises(InputError, match="kernel"):
        small.coverage("guards")


@pytest.mark.parametrize("program", ["mlp_train", "attention", "sin_cos"])
def test_graphs_are_covered_in_recordings_of_every_version(program: str, replayed: Callable[[str], Trace]) -> None:
    """Each node of each graph leads to a user's line, whichever torch recorded it."""
    for version in ("2.11", "2.13", "2.15"):
        made = replayed(f"{program}-torch{version}-cpu")
        assert not [f for f in made.failures if f.stage not in ("compile",)]
        for row in made.coverage():
            if row["stage"] in ("dynamo", "forward", "backward", "inductor_input", "bytecode"):
                assert row["share"] == 1.0, (version, row)


def test_every_stage_of_an_mlp_is_covered_down_to_sass(
    zoo: Callable[[str], Trace], not_covered: Callable[[Trace], object]
) -> None:
    """Forward and backward: each node, operation and kernel's line leads to a user's line, and nearly each instruction.

    Missing are instructions that LLVM gives no line. What is inlined from triton's library is among those linked.
    """
    made = zoo("mlp training h100 sass")
    rows = made.coverage()
    assert {"sass", "ptx", "kernel", "post_grad", "ir_post_fusion", "output_code"} <= {row["stage"] for row in rows}
    assert not_covered(made) == []
    code = [(a, n) for a in made.find("sass") for n, line in enumerate(a.lines, 1) if "SHFL" in line]
    inlined = [made.follow(a.id, n).where(stage="source") for a, n in code]
    assert inlined and all(inlined)


def test_a_module_is_followed_to_all_that_it_became(replayed: Callable[[str], Trace]) -> None:
    """By the path that the graphs' nodes state; another module's nodes are not among it, an unknown path is refused."""
    made = replayed("mlp_train-torch2.13-cpu")
    rows = made.follow("up")
    lines = {(row["artifact"], n) for row in rows for n in row["lines"]}
    nodes = [(n["name"], n.get("module")) for n in made.find("dynamo")[0].nodes if n["op"] == "call_function"]
    assert {name for name, module in nodes if module == "up"}
    texts = {artifact_of(made, id).lines[n - 1] for id, n in lines if ":dynamo" in id}
    assert any("linear" in t and "up" in t for t in texts) and not any("l_self_modules_down" in t for t in texts)
    with pytest.raises(InputError, match="module"):
        made.follow("nowhere")


#: Traces, by what a line without a link was once seen in.
WHOLLY = {
    "calls of a mutating custom operator": "bumped h100",
    "a scatter that a pass decomposes": "jacobian h100",
    "switches in an autograd.Function": "own gradient training h100",
    "passes over a region's own joint graph": "regions training h100",
    "gradients added in a module of torch's": "encoder training h100",
}


@pytest.mark.parametrize("name", WHOLLY)
def test_every_line_is_linked(name: str, zoo: Callable[[str], Trace], not_covered: Callable[[Trace], object]) -> None:
    """Each line that computes leads to a user's line, in every stage, but for what LLVM gives no line."""
    assert not_covered(zoo(WHOLLY[name])) == []


class Towers(torch.nn.Module):
    """Two modules of one code: each has an addition and a product by the same line."""

    class Tower(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.silu(self.up(x))

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = self.Tower(), self.Tower()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.one(x) @ self.other(y)


@pytest.mark.compile
def test_an_operator_of_several_places_is_told_by_its_modules() -> None:
    """Of a pair the answer says which is meant and holds for all; of one name each place is answered. A node says so too."""
    trace = explorer.trace(Towers(), torch.randn(8, 16), torch.randn(16, 16), target="h100")
    answer = trace.why("silu", "mm")
    assert not answer.fused and not untold(answer.sentence, "Here silu is div_1", "in other`", "mm is that of")
    assert len(trace.why("silu").table) == 2
    first, *others = [n["name"] for n in trace.find("post_grad")[0].nodes if n.get("target") == "aten.div.Tensor"]
    assert not untold(trace.why(first, others[0]).sentence, f"Here {first} is that of", f"others are {others[0]}")


@pytest.mark.compile
def test_only_its_own_line_leads_to_a_call() -> None:
    """Inductor's origins of a product have what its argument was computed of; only the product's own line leads to the call."""

    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        soft = torch.softmax(x * 2, -1)
        turned = w.t()
        return soft @ turned

    made = explorer.trace(product, torch.randn(16, 16), torch.randn(16, 16), target="h100")
    (code,) = made.find("output_code")
    (call,) = (n for n, line in enumerate(code.lines, 1) if "extern_kernels.mm" in line)
    reached = [
        {n for row in made.follow("source", line) if row["artifact"] == code.id for n in row["lines"]} for line in (2, 3, 4)
    ]
    assert [call in lines for lines in reached] == [False, True, True]
    soft = made.follow("source", 2, into="ptx")
    assert all(len(row["text"].split("\n")) == len(row["lines"]) for row in soft) and any("ex2" in row["text"] for row in soft)
    none = made.follow("source", 4, into="ptx")
    assert not none and not untold(none.why_empty, "call of a library", "extern_kernels.mm") and none.why_empty in repr(none)
    with pytest.raises(IndexError, match=r"extern_kernels\.mm"):
        none[0]


def test_each_call_of_an_operator_is_its_own(zoo: Callable[[str], Trace]) -> None:
    """Two calls of one mutating operator in the wrapper lead to one line each."""
    made = zoo("bumped h100")
    (code,), (source,) = made.find("output_code"), [a for a in made.find("source") if "def bumped" in a.text]
    calls = [n for n, line in enumerate(code.lines, 1) if line.lstrip().startswith("torch.ops.explorer_zoo")]
    rows = [[row for row in made.follow(code.id, n) if row["artifact"] == source.id] for n in calls]
    found = [[row["lines"] for row in some if row["route"][0] == "extern kernel"] for some in rows]
    assert [{source.lines[n - 1].strip() for lines in some for n in lines} for some in found] == [{"bump(y)"}, {"bump(z)"}]
