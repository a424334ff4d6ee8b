"""A sample of the faults of benchmarks/bisecting.py: each is found and named, and programs without one are left in peace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.nn import functional

import explorer
from explorer.errors import LiveError
from explorer.tracing.traced import Trace
from tests.facts import in_a_line, says, untold
from tests.state import difference, snapshot

FILE = Path(__file__).parents[3] / "benchmarks" / "bisecting.py"


def one_kernel(x: torch.Tensor) -> torch.Tensor:
    """What each search compiles several times: little."""
    return functional.gelu(x).sin()


def several(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A kernel, a library call, and a kernel."""
    return (functional.gelu(x) @ y).sin() * 0.5


@pytest.fixture
def script(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The script that plants them all."""
    return module_at(FILE)


@pytest.mark.usefixtures("warm_python")
@pytest.mark.compile
def test_a_wrong_lowering_is_found_with_its_kernel_and_lines(script: ModuleType) -> None:
    """The launch, the lowering, the kernel's line that has the wrong factor, and the program's line are named."""
    kind, result = script.found_at("lowering", "h100", script.of(several, (8, 16), (16, 16)))
    assert kind == "found", result
    assert result.first.suspects == ("sin",) and any("1.001" in text for _, text in result.first.kernel_lines)
    assert any(".sin()" in code for _, _, code in result.first.user_lines)
    assert [row["node"] for row in result.table if row["equal"] is False] == [row["node"] for row in result.first.outputs]
    assert "#f6b3ae" in result.diagram().source and "#c9e7c9" in result.diagram().source
    assert result.cause.kind == "lowerings" and in_a_line(repr(result), "lowering", "sin")


@pytest.mark.compile
def test_an_edit_is_shown_as_what_is_off() -> None:
    """Not the lines of the original: the line that the edit changed is named, and how to put the original back."""
    trace = explorer.trace(one_kernel, torch.randn(64), target="h100")
    kernel = trace.kernels[0]
    line = next(line for line in kernel.source.splitlines() if "libdevice.erf" in line or "tl_math.sin" in line)
    wrong = line.replace("libdevice.erf", "tl_math.cos").replace("tl_math.sin", "tl_math.cos")
    assert kernel.edit(kernel.source.replace(line, wrong), check=False).in_place
    result = trace.bisect()
    assert [text for _, text in result.first.kernel_lines] == [wrong]
    assert not untold(repr(result), wrong.strip(), "edit", "edits.reset()") and "traced again" not in repr(result)


@pytest.mark.compile
def test_a_wrong_lowering_in_place_is_found(script: ModuleType) -> None:
    """Each launch that writes the same memory is judged by its own node, and the operator that is lowered wrong is named."""
    kind, result = script.found_at("lowering in place", "h100", script.of(script.in_place, (8, 4)))
    assert kind == "found", result
    assert [row["node"] for row in result.table if row["equal"] is False] == ["index_put", "index_put_1"]
    assert {"sin", "cos"} <= {row["node"] for row in result.table if row["equal"]}


@pytest.mark.compile
@pytest.mark.parametrize("level", ["decomposition", "pattern"])
def test_a_fault_above_the_kernels_is_found(level: str, script: ModuleType) -> None:
    """No kernel is blamed for what a decomposition, a pass or a pattern did; that one is named."""
    before = snapshot()
    kind, result = script.found_at(level, "h100", script.of(one_kernel, (8, 16)))
    assert kind == "found", result
    assert result.first is None and result.off
    assert difference(before, snapshot()) == {}


#: A target, the program, and the constant of it that is changed in the kernel's text.
IN_TEXT = {
    "one of a block's kernels": ("h100", lambda script: script.RIGHT["block"], "0.7071067811865476", "0.707"),
    "a C++ kernel": ("cpu", lambda script: script.of(one_kernel, (8, 16)), "0.7071067811865476", "0.707"),
}


@pytest.mark.compile
@pytest.mark.parametrize("case", IN_TEXT)
def test_a_fault_in_the_text_of_a_kernel_is_found(case: str, script: ModuleType) -> None:
    """A constant that is changed in a kernel's text is found, with its line, and the compiler is not blamed for it."""
    target, build, before, after = IN_TEXT[case]
    kind, result = script.found_in_text(build(script), target, before, after)
    assert kind == "found", result
    assert result.cause.kind == "" and not untold(result.cause.note, "right", "fault", "code")


@pytest.mark.compile
@pytest.mark.parametrize(("name", "train"), [
    ("block", True), ("split reduction", False), ("bfloat16", False), ("in place of a copy", False), ("in place of a view", True),
])  # fmt: skip
def test_a_program_without_a_fault_is_left_in_peace(name: str, train: bool, script: ModuleType) -> None:
    """Rounding is no fault: not of a backward, of a reduction in two kernels, nor of 16 bits."""
    kind, result = script.silent(script.RIGHT[name], "h100", train)
    assert kind == "right", result
    assert not result.off and not untold(repr(result), "nothing", "off", str(len(result.table)))


@pytest.mark.compile
def test_an_earlier_fault_is_not_held_against_later_kernels(script: ModuleType) -> None:
    """Of three kernels in a row the first is wrong; the others are judged by what they were given, and are right."""
    function, arguments = script.PLANTED()
    with script.in_lowering():
        trace = explorer.trace(function, *(a.detach() for a in arguments), target="h100")
        result = trace.bisect(cause=False)
    launches = {row["launch"] for row in result.table if row["equal"] is False}
    assert len(launches) == 1 and len({row["launch"] for row in result.table}) > 1
    assert result.cause is None


def test_a_loaded_trace_cannot_be_bisected(replayed: Callable[[str], Trace]) -> None:
    """Nothing can be launched of a file."""
    with pytest.raises(LiveError, match=says("bisecting", "process", "explorer.trace")):
        replayed("sin_cos-torch2.13-cpu").bisect()
