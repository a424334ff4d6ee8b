"""Edits of output code: what is right runs in the compiled function, and what is not is named, and leaves the original."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
import torch

import explorer
from explorer.errors import InputError, LiveError, NoVerbError
from explorer.lab.live.protocol import needs_live
from tests.facts import says, untold
from tests.trials import limit_the_launch_only

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]

PRODUCT = "extern_kernels.mm(arg0_1, arg1_1, out=buf0)"
ONE = "static_cast<float>(1.0)"
TWO = "static_cast<float>(2.0)"


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax((x @ w).sin(), -1).relu() + 1


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 32), torch.randn(32, 48)


@pytest.fixture(scope="module")
def traced_cpu() -> explorer.Trace:
    """A product by a library, and a C++ kernel that adds a one."""
    return explorer.trace(program, *inputs())


@pytest.fixture(scope="module")
def traced_absent() -> explorer.Trace:
    """The same for a GPU you don't have."""
    return explorer.trace(program, *inputs(), target="h100")


@pytest.fixture
def cpu(traced_cpu: explorer.Trace) -> Iterator[explorer.Trace]:
    """The program on the CPU, whose original code stands before and after the test."""
    yield traced_cpu
    traced_cpu.live.edits.reset()


@pytest.fixture
def absent(traced_absent: explorer.Trace) -> Iterator[explorer.Trace]:
    """The program for a GPU you don't have, whose original code stands before and after the test."""
    yield traced_absent
    traced_absent.live.edits.reset()


def edited(trace: explorer.Trace, before: str, after: str) -> str:
    """The output code with a text in place of another that it has."""
    text = trace.text("output_code")
    assert before in text
    return text.replace(before, after)


def equal(trace: explorer.Trace) -> list[object]:
    return [row["equal"] for row in trace.check()]


def line_of(text: str, part: str) -> int:
    """The first line with a part."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_a_right_edit_runs_until_it_is_put_back(cpu: explorer.Trace) -> None:
    """A product by ATen in place of extern_kernels' is in place, timed, and called; reset puts the original back, once."""
    variant = cpu.live.edit(wrapper=edited(cpu, PRODUCT, "torch.mm(arg0_1, arg1_1, out=buf0)"), timeout=600)
    assert variant.in_place and variant.kernels == (), repr(variant)
    assert variant.seconds and variant.original_seconds and variant.call_seconds
    assert equal(cpu) == [True] and cpu.live.edits.current == (variant,) and cpu.live.edits.table[-1]["form"] == "wrapper"
    assert needs_live(cpu, "").wrappers[0].text == variant.text
    assert cpu.live.edits.reset() and not cpu.live.edits.reset() and cpu.live.edits.current == ()


@pytest.mark.usefixtures("tried_here")
def test_what_runs_is_the_edit(cpu: explorer.Trace) -> None:
    """Unchecked, a doubled product and a two in a kernel give what eager gives with both; after reset they do not."""
    x, w = inputs()
    doubled = cpu.live.edit(wrapper=edited(cpu, PRODUCT, f"{PRODUCT}; buf0.mul_(2)"), check=False)
    assert doubled.in_place and torch.allclose(cpu.live.run(x, w), program(2 * x, w), atol=1e-6)
    both = cpu.live.edit(wrapper=doubled.text.replace(ONE, TWO), check=False)
    assert both.in_place and both.kernels == (cpu.kernels[0].name,)
    assert torch.allclose(cpu.live.run(x, w), program(2 * x, w) + 1, atol=1e-6) and equal(cpu) == [False]
    assert cpu.live.edits.reset() and torch.allclose(cpu.live.run(x, w), program(x, w), atol=1e-6)


@pytest.mark.usefixtures("tried_here")
def test_a_wrong_edit_is_named_and_what_stood_stays(cpu: explorer.Trace) -> None:
    """The check of the whole function finds the two in place of the one; an edit that stood stands again."""
    right = cpu.live.edit(wrapper=edited(cpu, PRODUCT, f"{PRODUCT}  # the same"))
    variant = cpu.live.edit(wrapper=edited(cpu, ONE, TWO))
    assert variant.status == "wrong result" and variant.max_abs == pytest.approx(1, rel=1e-5)
    assert cpu.live.edits.current == (right,) and equal(cpu) == [True] and cpu.live.edits.reset()


def product_line(trace: explorer.Trace) -> str:
    """The last line of the output code that calls the library's product."""
    return [line.strip() for line in trace.text("output_code").splitlines() if "extern_kernels.mm(" in line][-1]


#: What an edit has in place of the library's product, what it comes to, and what the message says.
BROKEN = {
    "torch.mm(": ("syntax error", ("SyntaxError",)),
    "missing()": ("launch error", ("missing",)),
    "import ctypes; ctypes.string_at(8)": ("crash", ("SIGSEGV",)),
    "while True: pass": ("timeout", ("launch", "0.5 s", "timeout")),
}


@pytest.mark.parametrize("statement", BROKEN)
def test_what_cannot_run_is_named_at_its_line_and_the_notebook_lives(
    absent: explorer.Trace, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A syntax error, an error of the code, a crash and a hang leave the original; errors are at their line."""
    status, facts = BROKEN[statement]
    if status == "timeout":
        limit_the_launch_only(monkeypatch)
    variant = absent.live.edit(
        wrapper=edited(absent, product_line(absent), statement), timeout=0.5 if status == "timeout" else 300
    )
    assert (variant.status, untold(variant.message, *facts)) == (status, []), repr(variant)
    if "error" in status:
        assert variant.line == line_of(variant.text, statement)
    assert absent.live.edits.current == () and equal(absent) == [True]


@pytest.mark.usefixtures("tried_here")
def test_errors_on_the_cpu_are_at_their_line_of_the_whole_text(cpu: explorer.Trace) -> None:
    """An unknown name in a C++ kernel is at its line of the output code, not of the kernel; so is one in a call."""
    variant = cpu.live.edit(wrapper=edited(cpu, ONE, "nothing"))
    assert variant.status == "compile error" and "nothing" in variant.message
    assert variant.line == line_of(variant.text, "nothing")
    variant = cpu.live.edit(wrapper=edited(cpu, PRODUCT, f"missing({PRODUCT})"))
    assert variant.status == "launch error" and variant.line == line_of(variant.text, "missing(")
    assert cpu.live.edits.current == () and equal(cpu) == [True]


def test_a_text_without_a_call_is_refused(cpu: explorer.Trace) -> None:
    """What defines no function `call` cannot stand in the place of output code."""
    variant = cpu.live.edit(wrapper="def other(args): ...")
    assert variant.status == "compile error" and "'call'" in variant.message


@pytest.mark.usefixtures("tried_here")
def test_an_edit_of_output_code_or_those_of_its_kernels_stand(cpu: explorer.Trace) -> None:
    """A kernel is edited in its own output code, and the edit that comes last stands."""
    kernel = cpu.kernels[0]
    whole = cpu.live.edit(wrapper=edited(cpu, PRODUCT, f"{PRODUCT}; buf0.mul_(2)"), check=False)
    assert kernel.edit(kernel.source.replace(ONE, TWO)).status == "wrong result" and cpu.live.edits.current == (whole,)
    own = kernel.edit(kernel.source + "\n")
    assert own.in_place and cpu.live.edits.current == (own,) and equal(cpu) == [True]
    again = cpu.live.edit(wrapper=cpu.text("output_code"))
    assert again.in_place and cpu.live.edits.current == (again,) and not kernel.edits.current
    assert cpu.live.edits.reset()


@pytest.mark.usefixtures("tried_here")
def test_verbs_see_the_edit(cpu: explorer.Trace) -> None:
    """The kernels of an edit are timed; a kernel that it does not have is said to be gone."""
    name = cpu.kernels[0].name
    cpu.live.edit(wrapper=cpu.text("output_code"))
    assert name in [row["kernel"] for row in cpu.live.profile(3)]
    for verb in (cpu.bisect, lambda: cpu.live.values("kernel")):
        with pytest.raises(NoVerbError, match=says("edited", "output code", "t.live.edits.reset()")):
            verb()
    renamed = cpu.live.edit(wrapper=edited(cpu, name, "another"))
    assert renamed.in_place and renamed.kernels == ("another",)
    with pytest.raises(InputError, match=says(repr(name), "edited", "t.live.edits.reset()")):
        cpu.live.profile(3)
    assert cpu.live.edits.reset()


@pytest.mark.usefixtures("tried_here")
def test_an_edit_for_a_gpu_you_dont_have_is_interpreted_and_priced(absent: explorer.Trace) -> None:
    """The interpreter runs it, its kernels are compiled for the GPU, and nothing is timed."""
    plus = edited(absent, "1.0, tl.float32)", "1.0 + 0.0, tl.float32)")
    variant = absent.live.edit(wrapper=plus)
    assert variant.in_place and variant.interpreted and variant.seconds is None and equal(absent) == [True]
    assert variant.kernels == (absent.kernels[0].name,)
    assert variant.cost["registers"] == absent.kernels[0].resources["registers"] == variant.original_cost["registers"]
    wrong = absent.live.edit(wrapper=edited(absent, "1.0, tl.float32)", "2.0, tl.float32)"))
    assert wrong.status == "wrong result" and absent.live.edits.current == (variant,)
    assert absent.live.edits.reset() and equal(absent) == [True]


@pytest.mark.usefixtures("tried_here")
def test_too_few_outputs_are_a_wrong_result(absent: explorer.Trace) -> None:
    """The message counts them; what is compared is not cut to what both have."""
    (line,) = [line for line in absent.text("output_code").splitlines() if line.strip().startswith("return (buf")]
    variant = absent.live.edit(wrapper=edited(absent, line, line.partition("return")[0] + "return ()"))
    assert variant.status == "wrong result" and not untold(variant.message, "0", "1"), repr(variant)
    assert absent.live.edits.current == ()


def test_a_kernel_that_does_not_compile_for_a_gpu_you_dont_have_is_at_its_line(absent: explorer.Trace) -> None:
    """triton's message is at the line of the output code."""
    last = [line for line in absent.text("output_code").splitlines() if "tl.store" in line][-1]
    variant = absent.live.edit(wrapper=edited(absent, last, "    tl.dot(1, 2)"))
    assert variant.status == "compile error" and variant.line == line_of(variant.text, "tl.dot(1, 2)"), repr(variant)


@pytest.mark.usefixtures("tried_here")
def test_a_graph_of_several_is_named() -> None:
    """Forward and backward have output code each; without a name it is asked for, and the backward's edit is the backward's."""
    x = torch.randn(8, 16, requires_grad=True)
    trace = explorer.trace(lambda x: (x.sin() * 2).cos(), x, target="h100", train=True)
    text = trace.text("output_code", graph="backward")
    with pytest.raises(InputError, match=says("graph='forward'", "graph='backward'")):
        trace.live.edit(wrapper=text)
    assert trace.live.edit(wrapper=text + "\n", graph="backward").in_place
    wrong = trace.live.edit(wrapper=text.replace("tl_math.cos", "tl_math.sin"), graph="backward")
    assert wrong.status == "wrong result" and [row["output"] for row in wrong.check] == ["a result"]


def test_what_cannot_be_edited_is_refused(cpu: explorer.Trace) -> None:
    """No text, a graph that is not there, a loaded trace, C++ wrappers and CUDA graphs."""
    text = cpu.text("output_code")
    with pytest.raises(InputError, match=says("wrapper", "a text", "not int", 't.text("output_code")')):
        cpu.live.edit(wrapper=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="graph='inference'"):
        cpu.live.edit(wrapper=text, graph="backward")
    with pytest.raises(LiveError, match=says("explorer.trace")):
        pickle.loads(pickle.dumps(cpu)).live.edit(wrapper=text)
    for options, words in (({"triton.cudagraphs": True}, "CUDA graphs"), ({"cpp_wrapper": True}, "cpp_wrapper")):
        trace = explorer.trace(program, *inputs(), target="h100" if "cpp_wrapper" in options else "cpu", options=options)
        with pytest.raises(NoVerbError, match=words):
            trace.live.edit(wrapper=trace.text("output_code"))


def test_a_kernel_is_edited_by_itself(cpu: explorer.Trace) -> None:
    """The name of a kernel is no text: an unknown one gets the names there are, a known one the verb that replaces it."""
    name = cpu.kernels[0].name
    with pytest.raises(InputError, match=says("unknown kernel 'x'", name)):
        cpu.live.edit("x")
    with pytest.raises(InputError, match=says(f"t.kernels[{name!r}].edit(source=text)")):
        cpu.live.edit(name)
    with pytest.raises(InputError, match=says("wrapper=t.text('output_code')")):
        cpu.live.edit()
