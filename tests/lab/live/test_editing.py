"""Edits of a kernel: what is right stays in place, and what is not is named, and leaves the original."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.splice.edit import Edit
from explorer.errors import InputError, LiveError
from explorer.lab.live.editing import _faults, _off
from explorer.lab.live.function import LiveFunction
from tests.facts import says, untold
from tests.trials import limit_the_launch_only, try_in_this_process

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.sin(), -1).relu() + 1


def edited(kernel: explorer.Kernel, before: str, after: str, **how: object) -> Edit:
    """Edit a kernel's source by replacing a text that it has."""
    assert before in kernel.source
    return kernel.edit(kernel.source.replace(before, after), **how)  # type: ignore[arg-type]


def equal(trace: explorer.Trace) -> list[object]:
    return [row["equal"] for row in trace.check()]


@pytest.mark.parametrize(
    ("part", "said"), [(1.0, "100 % of"), (0.000123, "0.012 % of"), (12.3456, "12 times"), (6012.0, "6,000 times")]
)
def test_a_wrong_value_says_its_part_in_digits(part: float, said: str) -> None:
    """A value that is off by all of the right one is off by 100 %, not by 1e+02 %; beyond ten times the value by a factor."""
    assert _off({"max_abs": 0.000493, "max_rel": part}) == f"off by up to 0.000493, {said} the right value"


def test_a_value_that_overflows_is_off_by_no_number() -> None:
    """The note says which side overflows, and is all that is said: "off by inf" says nothing."""
    note = "compiled overflows or is NaN at 2 elements"
    row = {"output": "out_ptr0", "note": note, "max_abs": math.inf, "max_rel": None}
    assert _faults([row]) == f"out_ptr0: {note}"
    assert _faults([{**row, "note": ""}]) == "out_ptr0: unequal, off by inf"


@pytest.mark.parametrize("target", ["h100", "mi300x"])
def test_an_edit_has_the_config_of_the_original(target: str) -> None:
    """The heuristics see the named GPU there as they did in the trace: a wide softmax has other configs where there is none."""
    trace = explorer.trace(lambda x: torch.softmax(x, -1), torch.randn(2048, 256), target=target)
    (kernel,) = trace.kernels
    edit = kernel.edit(f"{kernel.source}\n# as it was\n", check=False)
    assert edit.in_place and edit.config == edit.original_config and "config" not in repr(edit)


@pytest.fixture(scope="module")
def traced_cpp() -> explorer.Kernel:
    """The C++ kernel of a program that adds a one."""
    return explorer.trace(program, torch.randn(16, 48)).kernels[0]


@pytest.fixture(scope="module")
def traced_triton() -> explorer.Kernel:
    """The Triton kernel of the same program for a GPU you don't have."""
    return explorer.trace(program, torch.randn(16, 48), target="h100").kernels[0]


@pytest.fixture
def cpp(traced_cpp: explorer.Kernel) -> Iterator[explorer.Kernel]:
    """The C++ kernel, whose original stands before and after the test."""
    yield traced_cpp
    traced_cpp.edits.reset()


@pytest.fixture
def triton(traced_triton: explorer.Kernel) -> Iterator[explorer.Kernel]:
    """The Triton kernel, whose original stands before and after the test."""
    yield traced_triton
    traced_triton.edits.reset()


ONE = "static_cast<float>(1.0)"
TWO = "static_cast<float>(2.0)"
THREE = "static_cast<float>(3.0)"


def test_a_right_edit_stays_in_place_until_it_is_put_back(cpp: explorer.Kernel) -> None:
    """The function runs with it, is right, and both launches are timed; reset puts the original back, once.

    The edit has a row in the table of edits, with its number and status.
    """
    count = len(cpp.edits)
    variant = edited(cpp, ONE, f"({TWO} - {ONE})")
    assert variant.in_place and equal(cpp._trace) == [True]
    assert variant.seconds and variant.original_seconds and variant.call_seconds
    assert [line[:1] for line in variant.diff.splitlines() if ONE in line] == ["-", "+"]
    assert cpp.edits.reset() and not cpp.edits.reset()
    table = cpp.edits.table
    assert len(table) == count + 1 == variant.number and table[-1]["status"] == "in place"
    assert not untold(repr(variant), str(variant.number), cpp.name, "source", "in place")
    assert "<pre>" in variant._repr_html_()


@pytest.mark.usefixtures("tried_here")
def test_a_wrong_edit_is_named_and_the_original_stays(cpp: explorer.Kernel) -> None:
    """The check of the whole function finds the two in place of the one."""
    variant = edited(cpp, ONE, TWO)
    assert variant.status == "wrong result" and variant.max_abs == pytest.approx(1, rel=1e-5)
    assert equal(cpp._trace) == [True] and not cpp.edits.reset()


@pytest.mark.usefixtures("tried_here")
def test_what_runs_is_the_edit_that_came_last(cpp: explorer.Kernel) -> None:
    """Unchecked, an edit that adds another number in place of the one runs; one reset puts the original back after two edits."""
    x = torch.randn(16, 48)
    for number, more in ((TWO, 1), (THREE, 2)):
        assert edited(cpp, ONE, number, check=False).in_place
        assert torch.allclose(cpp._trace.live.run(x), program(x) + more) and equal(cpp._trace) == [False]
    assert cpp.edits.reset() and torch.allclose(cpp._trace.live.run(x), program(x))


@pytest.mark.usefixtures("tried_here")
def test_an_edit_is_held_to_the_original_and_not_to_an_earlier_edit(cpp: explorer.Kernel) -> None:
    """Over a standing edit that is wrong, a right one is right; a wrong one leaves the standing edit where it was."""
    x = torch.randn(16, 48)
    edited(cpp, ONE, TWO, check=False)
    assert edited(cpp, ONE, THREE).status == "wrong result"
    assert torch.allclose(cpp._trace.live.run(x), program(x) + 1) and cpp.edits.current and cpp.edits.current[0].text.count(TWO)
    right = edited(cpp, ONE, f"({TWO} - {ONE})")
    assert right.in_place and torch.allclose(cpp._trace.live.run(x), program(x))
    assert cpp.edits.reset() and not cpp.edits.reset()


#: What an edit puts at the beginning of the kernel, what it comes to, and what the message says.
BROKEN = {
    "int missing = nothing;": ("compile error", ("nothing",)),
    "*(volatile int*)8 = 1;": ("crash", ("SIGSEGV",)),
    "for (volatile int i = 0; i == 0;) {}": ("timeout", ("launch", "0.5 s", "timeout")),
    'throw std::runtime_error("no");': ("launch error", ("no",)),
    "out_ptr2[16 * 48 + 6] = 1;": ("launch error", ("4 bytes", "behind")),
}


@pytest.mark.parametrize("statement", BROKEN)
def test_what_cannot_run_is_named_and_the_notebook_lives(
    cpp: explorer.Kernel, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash and a hang end in the process of the trial; those and errors leave the original. A compile error is at its line."""
    status, facts = BROKEN[statement]
    if status == "timeout":
        limit_the_launch_only(monkeypatch)
    elif status != "crash":
        try_in_this_process(monkeypatch)
    text = cpp.source.replace("{", f"{{\n{statement}\n", 1)
    variant = cpp.edit(text, timeout=0.5 if status == "timeout" else 300)
    assert (variant.status, untold(variant.message, *facts)) == (status, []), repr(variant)
    assert not cpp.edits.current and equal(cpp._trace) == [True]
    if status == "compile error":
        assert variant.text.splitlines()[variant.line - 1].strip() == statement


def test_an_edit_for_a_gpu_you_dont_have_is_interpreted_and_priced(triton: explorer.Kernel) -> None:
    """The interpreter runs it in the whole function, and the machine code is compared with the original's.

    Where the function gives the original's bits, it is not called in eager mode, in float64 and with other roundings.
    """
    variant = edited(triton, "tl.store(", "tmp20 = tl.where(tmp20 < 9.0, tmp20, 9.0)\n    tl.store(")
    assert variant.in_place and variant.interpreted and variant.timed == "predicted" and equal(triton._trace) == [True]
    assert int(variant.cost["registers"]) > 0 and variant.cost != variant.original_cost
    assert not untold(variant.message, "launch", "original's to the bit") and not variant.check
    assert triton.edits.reset()


COMMENTED = [
    ("triton", "import triton\n", "import triton\n# a comment\n\n"),
    ("cpp", 'extern "C"', '// it\'s a comment\nextern "C"'),
]


@pytest.mark.parametrize(("language", "before", "after"), COMMENTED)
def test_an_edit_of_a_comment_is_judged_at_once(
    triton: explorer.Kernel, cpp: explorer.Kernel, language: str, before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compiled or run for it, of a kernel and of output code; it stands like others, and reset ends it."""
    kernel = triton if language == "triton" else cpp
    for name in ("launches", "check", "outcome"):
        monkeypatch.setattr(LiveFunction, name, lambda *of, **more: pytest.fail("something was run"))
    variant = edited(kernel, before, after)
    assert variant.in_place and not variant.interpreted and not untold(variant.message, "comments", "nothing to run")
    assert variant.cost == variant.original_cost and kernel.edits.current == (variant,) and kernel.edits.reset()
    code = kernel._trace.live.edit(wrapper=kernel._trace.text("output_code") + "\n# a comment\n")
    assert code.in_place and "nothing to run" in code.message and kernel._trace.live.edits.reset()


@pytest.mark.usefixtures("tried_here")
def test_what_compiles_to_the_same_code_is_not_run(triton: explorer.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant that the front end folds gives the same TTIR, a name in TTIR the same PTX; another constant is run and wrong.

    So is one in a line that only the decorator reads, such as an option of the backend.
    """
    assert edited(triton, "1.0, tl.float32)", "2.0, tl.float32)").status == "wrong result"
    monkeypatch.setattr(LiveFunction, "check", lambda *of, **more: pytest.fail("the function was checked"))
    folded = edited(triton, "1.0, tl.float32)", "1.0 + 0.0, tl.float32)")
    assert (folded.in_place, folded.interpreted) == (True, False) and not untold(folded.message, "same TTIR", "nothing to run")
    renamed = triton.edit(ttir=triton.text("ttir").replace("%tmp19", "%another"))
    assert renamed.in_place and "same PTX" in renamed.message
    assert folded.cost == folded.original_cost and int(folded.cost["registers"]) > 0
    other = edited(triton, "'enable_fp_fusion': True", "'enable_fp_fusion': False", check=False)
    assert "same TTIR" not in other.message


@pytest.mark.usefixtures("tried_here")
def test_an_edit_that_was_not_checked_can_be_judged(triton: explorer.Kernel) -> None:
    """Made with check=False it says that it was not checked, in place of that it is right; its text is then judged as any."""
    variant = edited(triton, "1.0, tl.float32)", "2.0, tl.float32)", check=False)
    assert variant.in_place and variant.meaning == "it was not checked"
    assert triton.edit(variant.text).status == "wrong result"


@pytest.mark.parametrize(
    ("line", "timeout", "status"),
    [("import os; os._exit(3)", 300, "crash"), ("while True: pass", 1, "timeout")],
)
def test_for_a_gpu_you_dont_have_too_an_edit_runs_in_another_process_first(
    triton: explorer.Kernel, line: str, timeout: float, status: str
) -> None:
    """Executing the text, and triton's front end, may end the process or take for ever."""
    assert triton.edit(f"{line}\n{triton.source}", timeout=timeout).status == status
    assert not triton.edits.current


@pytest.mark.usefixtures("tried_here")
def test_a_wrong_edit_for_a_gpu_you_dont_have_is_named(triton: explorer.Kernel) -> None:
    """What the interpreter computes with it is compared with eager; the edit that stood stays."""
    right = edited(triton, "1.0, tl.float32)", "1.0 + 0.0, tl.float32)")
    wrong = edited(triton, "1.0, tl.float32)", "2.0, tl.float32)")
    assert wrong.status == "wrong result" and wrong.max_abs == pytest.approx(1, rel=1e-5)
    assert triton.edits.current == (right,) and equal(triton._trace) == [True]


@pytest.mark.usefixtures("tried_here")
def test_another_config_costs_what_its_machine_code_says(triton: explorer.Kernel) -> None:
    """More warps and rows a program take other registers, shared memory and instructions."""
    variant = triton.edit(triton.source, config={"XBLOCK": 8, "num_warps": 4})
    assert variant.in_place and variant.config is not None and variant.config["XBLOCK"] == 8
    ladder = triton.candidates[{"XBLOCK": 8, "num_warps": 4}]
    assert variant.cost["registers"] == ladder.resources["registers"] != variant.original_cost["registers"]


def test_a_lower_form_is_compiled_and_said_not_to_have_run(triton: explorer.Kernel) -> None:
    """A changed constant of TTGIR compiles to other code than the original's; an unknown operator is named at its line."""
    text = triton.text("ttgir")
    assert "arith.addf" in text
    variant = triton.edit(ttgir=text.replace("arith.addf", "arith.subf"))
    assert variant.status == "compiled, not run" and variant.cost["registers"]
    assert variant.cost["mix"] != {} and not triton.edits.reset()
    wrong = triton.edit(ttgir=text.replace("arith.addf", "arith.added"))
    assert (
        wrong.status == "compile error"
        and "arith.added" in text.replace("arith.addf", "arith.added").splitlines()[wrong.line - 1]
    )


@pytest.mark.parametrize(("form", "before", "after"), [("ptx", "ld.global", "ld.globl"), ("ttir", "tt.store", "tt.stor")])
def test_an_error_below_the_source_is_at_its_line(triton: explorer.Kernel, form: str, before: str, after: str) -> None:
    """ptxas and MLIR name the line that has the changed word."""
    text = triton.text(form).replace(before, after)
    variant = triton.edit(**{form: text})
    assert variant.status == "compile error" and after in text.splitlines()[variant.line - 1]


def test_errors_of_triton_are_at_their_line(triton: explorer.Kernel) -> None:
    """A syntax error and an error of triton's front end."""
    last = [line for line in triton.source.splitlines() if "tl.store" in line][-1]
    syntax = edited(triton, last, "    tl.store(")
    assert (syntax.status, syntax.line) == ("syntax error", triton.source.splitlines().index(last) + 1)
    shape = edited(triton, last, "    tl.dot(1, 2)")
    assert shape.status == "compile error" and shape.text.splitlines()[shape.line - 1] == "    tl.dot(1, 2)"


def test_a_syntax_error_is_told_before_anything_runs(triton: explorer.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton source that is not Python is answered at once, with its line; nothing is interpreted or compiled for it."""
    monkeypatch.setattr(LiveFunction, "launches", lambda *of, **more: pytest.fail("the original was run"))
    first, *lines = triton.source.split("\n")
    variant = triton.edit("\n".join([first, "def (", *lines]))
    assert (variant.status, variant.line) == ("syntax error", 2) and "SyntaxError" in variant.message
    assert triton.edit("x = '\0'").status == "compile error" and not triton.edits.current


def test_input_that_cannot_be_is_refused(cpp: explorer.Kernel, triton: explorer.Kernel) -> None:
    """No text, two texts, a form that the kernel does not have, no text, a loaded trace."""
    with pytest.raises(InputError, match=says("source=…", "ttgir=…", "none", "k.edit(source=text)")):
        cpp.edit()
    with pytest.raises(InputError, match=says("source, ptx", "k.edit(source=text)")):
        triton.edit("", ptx="")
    with pytest.raises(InputError, match=says("ptx", "a text", "not int", "k.text()")):
        triton.edit(ptx=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ptx"):
        cpp.edit(ptx="")
    with pytest.raises(LiveError, match=says("explorer.trace")):
        pickle.loads(pickle.dumps(cpp._trace)).kernels[0].edit(cpp.source)


def test_cuda_graphs_are_said_to_replay_the_original() -> None:
    """A trace under CUDA graphs on an attached device refuses an edit, and says which mode takes one."""
    trace = explorer.trace(program, torch.randn(16, 48), options={"triton.cudagraphs": True})
    with pytest.raises(LiveError, match="max-autotune-no-cudagraphs"):
        trace.kernels[0].edit(trace.kernels[0].source)


@pytest.mark.parametrize(
    "given", [{"timeout": "a"}, {"timeout": 0}, {"timeout": None}, {"config": "a"}, {"config": [{"XBLOCK": 4}]}]
)
def test_a_timeout_or_a_config_that_is_none_is_refused(triton: explorer.Kernel, given: dict[str, Any]) -> None:
    """What is no number of seconds, or no mapping, is said before anything runs; so for a config of `tune`."""
    (name,) = given
    with pytest.raises(InputError, match=says(name, repr(given[name]))):
        triton.edit(triton.source, **given)
    other = "configs" if name == "config" else name
    with pytest.raises(InputError, match=says(other, "'a'")):
        triton.tune(**{other: "a"})


@pytest.mark.usefixtures("tried_here")
def test_an_edit_that_no_call_runs_any_more_says_so() -> None:
    """A guard fails: what runs was compiled anew, without the edit, as the result shows; as it was traced the edit runs."""
    settings = {"add": 1.0}

    def adding(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.sin()) + settings["add"]

    x = torch.randn(16, 48)
    kernel = explorer.trace(adding, x).kernels[0]
    variant = edited(kernel, ONE, TWO, check=False)
    assert torch.allclose(kernel._trace.live.run(), x.sin().relu() + 2) and kernel.edits.current == (variant,)
    settings["add"] = 5.0
    with pytest.warns(UserWarning, match=says(kernel.name, "edit", "guard")):
        assert torch.allclose(kernel._trace.live.run(), x.sin().relu() + 5)
    assert kernel.edits.current and not untold(kernel.edits.current[0].message, "edited", "guard", "torch.compile")
    with pytest.warns(UserWarning, match=says(kernel.name, "edit", "guard")):
        assert equal(kernel._trace) == [True]
    with pytest.warns(UserWarning, match=says(kernel.name, "edit", "guard")):
        kernel._trace.benchmark(2)
    settings["add"] = 1.0
    assert torch.allclose(kernel._trace.live.run(), x.sin().relu() + 2) and kernel.edits.current == (variant,)


@pytest.mark.usefixtures("tried_here")
def test_a_result_that_hides_a_fault_does_not_make_an_edit_right() -> None:
    """A mean over all elements hides that each is off by a fraction of a percent; the values that the kernel writes do not.

    The whole function is not called for that: its check would take minutes, and say nothing else. Another order of the same sum
    is rounding, in the kernel's values too.
    """

    def mean(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * 0.5
        return y.sum(0).mean() * 0.0 + torch.mm(y, y.t()).sign().mean()

    torch.manual_seed(0)
    trace = explorer.trace(mean, torch.randn(64, 96), target="h100")
    kernel = next(k for k in trace.kernels if "tl_math.sin" in k.source or "libdevice.sin" in k.source)
    edit = edited(kernel, "[1, 1], 0.5, ", "[1, 1], 0.502, ")
    assert edit.status == "wrong result" and [row["output"] for row in edit.check] == ["out_ptr0", "out_ptr1"]
    assert not untold(edit.message, "launch", "original", "out_ptr0") and equal(trace) == [True]
    assert "check=False" in edit.advice and edit.advice in edit.described() and "check=False" not in edit.message
    assert edited(kernel, "[1, 1], 0.5, ", "[1, 1], 0.5000001, ").in_place
