"""Kernels that Helion writes, read from a wrapper's text, without Helion."""

from __future__ import annotations

import pytest

from explorer.model.values import Event
from explorer.stages.inductor.helion import COMMENT, Named, named_lines
from explorer.stages.inductor.launch import launches
from explorer.stages.kinds import COMMENT as IS_COMMENT
from explorer.stages.kinds import HOST, kernel_kinds
from explorer.stages.replay import replay
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of

#: What Helion 1.5 wrote of the function below, and Inductor put into its wrapper.
KERNEL = """\
import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from helion.runtime import default_launcher as _default_launcher
_BLOCK_SIZE_0_triton_unk_fused_sin_1 = tl.constexpr(32)

@triton.jit
def _helion_add_relu_triton_unk_fused_sin_1(x, y, out):
    # src[model.py:7]: for tile in hl.tile(x.size()):
    offset_0 = tl.program_id(0) * _BLOCK_SIZE_0_triton_unk_fused_sin_1
    indices_0 = offset_0 + tl.arange(0, _BLOCK_SIZE_0_triton_unk_fused_sin_1)
    # src[model.py:8]: s = x[tile] + y[tile]
    load = tl.load(x + indices_0, None)
    v_0 = load + tl.load(y + indices_0, None)
    # src[model.py:9]: out[tile] = torch.relu(s)
    v_2 = triton_helpers.maximum(tl.full([], 0, tl.int32), v_0)
    tl.store(out + indices_0, v_2, None)

def triton_unk_fused_sin_1(x, y, *, _launcher=_default_launcher):
    # src[model.py:6]: out = torch.empty_like(x)
    out = torch.empty_like(x)
    # src[model.py:7]: for tile in hl.tile(x.size()):
    # src[model.py:8]:     s = x[tile] + y[tile]
    # src[model.py:9]:     out[tile] = torch.relu(s)
    _launcher(_helion_add_relu_triton_unk_fused_sin_1, (4,), x, y, out, num_warps=4, num_stages=1)
    # src[model.py:10]: return out
    return out"""

WRAPPER = f"""\
import torch
# kernel path: /tmp/coa77yx.py
# Topologically Sorted Source Nodes: [sin], Original ATen: [aten.sin]
# Graph fragment:
#   %relu : Tensor = call_function[target=torch.ops.higher_order.helion_kernel_wrapper_functional](args = ())
{KERNEL}



sine = async_compile.triton('sine', '''
def sine(): ...
''')


async_compile.wait(globals())
del async_compile

def call(args):
    buf1 = triton_unk_fused_sin_1(buf0, arg1_1)
"""

FUNCTION = """\
@helion.kernel()
def add_relu(x, y):
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        s = x[tile] + y[tile]
        out[tile] = torch.relu(s)
    return out
"""


def traced(*sources: tuple[str, str]) -> Trace:
    """A trace of the wrapper and of functions, each with its file; their text begins on line 4."""
    events = [Event("output_code", 0.0, "0/0", "inference", {"text": WRAPPER, "file": "out.py"})]
    for file, text in sources:
        names = {"function": "add_relu", "qualname": "add_relu", "file": file, "line": 4}
        data = {**names, "resume": False, "text": text, "first_line": 4, "compiled": False, "inlined": True}
        events.append(Event("source", 0.0, "0/0", data=data))
    return trace_of(replay(events, (), {"name": "f"}), None)


def program_lines(trace: Trace) -> dict[str, set[str]]:
    """The lines of the kernel that are linked to a source by a comment, by the text of the line they are linked to."""
    kernel = next(k.artifact for k in trace.kernels if k.name == "triton_unk_fused_sin_1")
    found: dict[str, set[str]] = {}
    for link in trace.links:
        if link.how == COMMENT and link.source == kernel.id:
            (source,) = trace.find(link.target)
            (line,) = (source.lines[n - 1].strip() for n in link.target_lines)
            found.setdefault(line, set()).update(kernel.lines[n - 1].strip() for n in link.source_lines)
    return found


def test_a_helion_kernel_is_a_triton_kernel_of_the_wrapper() -> None:
    """It has the name that Inductor calls, its place, its text down to the launch, and Inductor's comment; others stay."""
    kernel, sine = traced().kernels
    assert (kernel.name, kernel.language, kernel.source) == ("triton_unk_fused_sin_1", "triton", KERNEL)
    assert sine.name == "sine"
    place = kernel.artifact.data["wrapper_line"]
    assert WRAPPER.split("\n")[place - 1 : place + len(KERNEL.split("\n")) - 1] == KERNEL.split("\n")
    assert kernel.artifact.data["comment"].startswith("# kernel path:")


def test_lines_are_linked_to_the_line_that_the_comment_above_them_quotes() -> None:
    """The load is of the sum's line; the launch is of the loop and its body; a function with another text has no links."""
    lines = program_lines(traced(("/home/model.py", FUNCTION)))
    assert set(lines) == {line.strip() for line in FUNCTION.split("\n")[2:7]}
    assert lines["s = x[tile] + y[tile]"] >= {"load = tl.load(x + indices_0, None)", "v_0 = load + tl.load(y + indices_0, None)"}
    launched = [line for line, kernel in lines.items() if any(text.startswith("_launcher(") for text in kernel)]
    assert launched == ["for tile in hl.tile(x.size()):", "s = x[tile] + y[tile]", "out[tile] = torch.relu(s)"]
    assert not program_lines(traced(("/home/model.py", FUNCTION.replace("    ", "  # other\n    "))))


@pytest.mark.parametrize("files", [(), ("/home/other.py",), ("/a/model.py", "/b/model.py")], ids=["none", "other", "two"])
def test_a_comment_that_may_mean_several_files_or_none_has_no_link(files: tuple[str, ...]) -> None:
    """Helion writes a file's name without its folder: where two files have the line, nothing says which one is meant."""
    assert not program_lines(traced(*((file, FUNCTION) for file in files)))


def test_a_launch_is_the_call_of_the_function_of_the_host() -> None:
    """It has its line in the wrapper and its arguments; the other kernel has no launch."""
    (launch,) = launches(WRAPPER, "triton_unk_fused_sin_1", ("x", "y"), ("4", "1", "1"))
    assert (dict(launch.arguments), launch.grid) == ({"x": "buf0", "y": "arg1_1"}, (4, 1, 1))
    assert WRAPPER.split("\n")[launch.line - 1].strip() == "buf1 = triton_unk_fused_sin_1(buf0, arg1_1)"
    assert not launches(WRAPPER, "sine", (), ())


def test_a_long_statement_and_one_of_unknown_source_name_what_their_comments_name() -> None:
    """Comments in a row name the code below them; one without a line names nothing, and a blank line ends a function."""
    text = [
        "def k():",
        "    # src[m.py:1]: a = f(",
        "    # src[m.py:2]:     b,",
        "    # src[m.py:3]:     c,",
        "    # src[m.py:1-5]: ...",
        "    v = 1",
        "    # src[unknown]: [source unavailable]",
        "    w = 2",
        "",
        "x = 3",
    ]
    assert list(named_lines(text)) == [
        Named("m.py", 1, "a = f(", (6,)),
        Named("m.py", 2, "b,", (6,)),
        Named("m.py", 3, "c,", (6,)),
    ]


def test_the_function_of_the_host_computes_nothing_of_the_kernel() -> None:
    """Its lines are of the host; those of the Triton function count."""
    kernel, _ = traced().kernels
    kinds = dict(zip(kernel.artifact.lines, kernel_kinds(kernel.artifact), strict=True))
    assert kinds["    load = tl.load(x + indices_0, None)"] == ""
    assert kinds["    return out"] == kinds["    out = torch.empty_like(x)"] == HOST
    assert kinds["    # src[model.py:10]: return out"] == IS_COMMENT
