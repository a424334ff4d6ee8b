"""Live: every member works for a function and for a hand-written kernel, or says what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import explorer
from explorer.analysis.questions.kernels import wrapper_file
from explorer.capture.splice.tuning import Tune
from explorer.errors import ExplorerError, InputError, LiveError, NoVerbError
from explorer.lab.live.editing import EditRequest
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.kernel import LiveKernel
from explorer.lab.live.protocol import Live, MakesForms, needs_live
from explorer.model.records import blank
from explorer.model.shared import Kernel as KernelData
from explorer.model.values import Artifact
from tests.facts import says

triton = pytest.importorskip("triton")

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]
tl: Any = triton.language


@triton.autotune(configs=[triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})], key=["n"])
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    """x *= 2."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2


class Case(NamedTuple):
    """A live trace, one of its kernels, and what a check of it expects."""

    trace: explorer.Trace
    kernel: Artifact
    expected: Any = None

    @property
    def live(self) -> Live:
        return needs_live(self.trace, "the test")

    @property
    def file(self) -> str:
        """The file of the wrapper that launches the kernel."""
        return wrapper_file(self.trace, self.kernel)


def cpp_kernel() -> Artifact:
    data = blank(KernelData, name="cpp_0", language="cpp", wrapper_line=1)
    return Artifact("0/0:kernel:cpp_0", "kernel", "0/0", "", "cpp_0", "cpp", "int f() { return 1; }", kernel="cpp_0", data=data)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    """A function compiled for the CPU, one for a GPU you don't have, and hand-written kernels for two GPUs."""
    x = torch.randn(8, requires_grad=True)
    here = explorer.trace(program, x, backend="aot_eager", train=True)
    absent = explorer.trace(program, x, target="h100", train=True)
    launch: dict[str, Any] = {"grid": (1,), "sass": False}
    kernel = explorer.trace(double, torch.ones(8), 8, target="h100", **launch)
    amd = explorer.trace(double, torch.ones(8), 8, target="mi300x", **launch)
    return {
        "function": Case(here, cpp_kernel()),
        "function for a GPU": Case(absent, absent.kernels[0].artifact),
        "kernel": Case(kernel, kernel.kernels[0].artifact, torch.full((8,), 2.0)),
        "kernel for AMD": Case(amd, amd.kernels[0].artifact, torch.full((8,), 2.0)),
    }


#: How each member is asked.
ASK: dict[str, Callable[[Case], object]] = {
    "error": lambda case: case.live.error,
    "absent": lambda case: case.live.absent,
    "watchers": lambda case: case.live.watchers,
    "wrappers": lambda case: case.live.wrappers,
    "launches": lambda case: case.live.launches([]),
    "calls": lambda case: case.live.calls(),
    "result": lambda case: case.live.result,
    "gradients": lambda case: case.live.gradients,
    "run": lambda case: case.live.run(),
    "check": lambda case: case.live.check(None, case.expected),
    "sanitize": lambda case: case.live.sanitize(),
    "benchmark": lambda case: case.live.benchmark(1),
    "time_kernels": lambda case: case.live.time_kernels(case.trace, 1),
    "time_call": lambda case: case.live.time_call(case.trace, 1),
    "edit": lambda case: case.live.edit(EditRequest(case.kernel, case.file, "source", case.kernel.text, case.kernel.text)),
    "edits_of": lambda case: case.live.edits_of(case.kernel),
    "standing": lambda case: case.live.standing(case.kernel, case.file),
    "reset": lambda case: case.live.reset(case.kernel, case.file),
    "tune": lambda case: case.live.tune(Tune(case.kernel, case.file, [{"num_warps": 2}], (), 60.0)),
    "trace_again": lambda case: case.live.trace_again,
    "compare": lambda case: case.live.compare(case.live),
    "race": lambda case: case.live.race(case.live, 1),
    "assembly": lambda case: case.live.assembly(case.kernel),
    "form": lambda case: case.live.form(case.kernel, "pallas_jaxpr"),
    "sass": lambda case: case.live.sass(case.kernel),
    "ptx_lines": lambda case: case.live.ptx_lines([case.kernel]),
    "binary": lambda case: case.live.binary(case.kernel),
    "passes": lambda case: case.live.passes(case.kernel),
    "candidate": lambda case: case.live.candidate(case.kernel, 0),
    "choice": lambda case: case.live.choice("key"),
    "choice_stages": lambda case: case.live.choice_stages,
    "choice_passes": lambda case: case.live.choice_passes("key"),
    "choice_source": lambda case: case.live.choice_source("key"),
}
MEMBERS = [
    name
    for protocol in (MakesForms, Live)
    for name in (*protocol.__annotations__, *vars(protocol))
    if not name.startswith("_") and name != "keeps_call"
]

CPP, CHOICES = ("text('assembly')",), ("t.kernels[0].candidates.table", "t.kernels[0].candidates[n]")
OF_KERNEL: dict[str, tuple[str, ...]] = {
    "result": ("t.live.run()", "t.check(expected=…)"),
    "gradients": ("train=True",),
    "benchmark": ("do_bench",),
    "time_kernels": ("do_bench",),
    "time_call": ("do_bench",),
    "launches": ("t.live.run()", "launches"),
    "calls": ("output code", "explorer.trace(f, x)"),
    "trace_again": ("t.kernels[0].candidates[config]",),
    "compare": ("t.check(expected=…)",),
    "race": ("do_bench",),
    "assembly": ("'assembly'", "t.kernels[0].stages"),
    "form": ("'pallas_jaxpr'", "t.kernels[0].stages"),
    **dict.fromkeys(("choice", "choice_stages", "choice_passes", "choice_source"), CHOICES),
}
#: What is not there, with the advice that is given. Everything else works.
ADVICE: dict[str, dict[str, tuple[str, ...]]] = {
    "function": {
        "sanitize": ("watches", "target='h100'"),
        **dict.fromkeys(("sass", "ptx_lines", "binary", "passes", "candidate"), CPP),
        **dict.fromkeys(("choice", "choice_passes"), ("target='h100'",)),
        "choice_source": ("t.failures",),
        "time_kernels": ("t.attach(prof)",),
        "edit": ("backend='inductor'",),
        "tune": ("k.edit(source=…)",),
        "form": ("'pallas_jaxpr'", "t.kernels[n].stages"),
    },
    "function for a GPU": {
        **dict.fromkeys(("benchmark", "race", "time_kernels", "time_call"), ("'h100'", "t.kernels.table")),
        "assembly": ("'assembly'", "t.kernels[n].stages"),
        "form": ("'pallas_jaxpr'", "t.kernels[n].stages"),
        **dict.fromkeys(("choice", "choice_passes", "choice_source"), ("t.failures",)),
    },
    "kernel": OF_KERNEL,
    "kernel for AMD": dict.fromkeys(("sass", "ptx_lines"), ("SASS", "'amdgcn'")),
}


ASKED = [(name, member) for name in ("function", "function for a GPU", "kernel") for member in MEMBERS]
ASKED += [("kernel for AMD", member) for member in ("sass", "ptx_lines", "binary")]  # all else is as for the other kernel


@pytest.mark.parametrize(("name", "member"), ASKED)
def test_every_member_works_or_says_what_to_do_instead(name: str, member: str, cases: dict[str, Case]) -> None:
    """A member without a meaning for what was traced raises NoVerbError: what there is not, why, and what to do."""
    case, advice = cases[name], ADVICE[name].get(member)
    if advice is None:
        ASK[member](case)
        return
    with pytest.raises(NoVerbError, match=says(*advice)) as caught:
        ASK[member](case)
    assert len(re.findall(r"[^:;.]+(?:[:;.]\s|$)", str(caught.value))) >= 3, "what, why and what to do"
    assert isinstance(caught.value, LiveError) and isinstance(caught.value, InputError)


def test_both_implementations_are_walked(cases: dict[str, Case]) -> None:
    """The cases hold both classes, and neither has a public verb that the Protocol does not name."""
    assert {type(case.live) for case in cases.values()} == {LiveFunction, LiveKernel}
    own = {
        "call",
        "compiled",
        "returned",
        "gradients_by_name",
        "ladders",
        "retrace",
        "generated",
        "empty",
        "codes",
        "loaded",
        "options",
    }
    own |= {
        "edits",
        "compared_once",
        "outcome",
        "originals",
        "call_compiled",
        "begun",
        "uncompiled",
        "late_losses",
        "assembly_by_kernel",
        "ladder",
    }
    own |= {"forms", "compile_with", "launching", "guard_events", "trace_arguments", "traced_numbers", "remembered", "reference"}
    for kind in (LiveFunction, LiveKernel):
        bases = [base for base in kind.__mro__ if base.__module__.startswith("explorer.") and base not in (MakesForms, Live)]
        members = (name for base in bases for name in (*base.__annotations__, *vars(base)))
        assert {name for name in members if not name.startswith("_")} - own == set(MEMBERS)


VERBS: dict[str, tuple[Callable[[explorer.Trace], object], type[ExplorerError], tuple[str, ...]]] = {
    "result": (lambda t: t.live.result, NoVerbError, OF_KERNEL["result"]),
    "gradients": (lambda t: t.live.gradients, NoVerbError, OF_KERNEL["gradients"]),
    "benchmark": (lambda t: t.benchmark(), NoVerbError, OF_KERNEL["benchmark"]),
    "what_if": (lambda t: t.what_if(keep_apart=("op0", "op1")), NoVerbError, OF_KERNEL["trace_again"]),
    "text": (lambda t: t.kernels[0].text("assembly"), NoVerbError, OF_KERNEL["assembly"]),
    "with_assembly": (lambda t: t.attach("assembly"), InputError, ("assembly",)),
    "choice": (lambda t: t.inductor.choices[0], InputError, ("Inductor", "matrix products")),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_of_a_kernels_trace_says_what_to_do_instead(verb: str, cases: dict[str, Case]) -> None:
    """What a user asks of the trace of a hand-written kernel gives the advice of its live part, never an AttributeError."""
    ask, error, advice = VERBS[verb]
    with pytest.raises(error, match=says(*advice)):
        ask(cases["kernel"].trace)


def test_a_function_and_a_kernel_are_not_compared(cases: dict[str, Case]) -> None:
    """Asked either way, the error says how to compare what a kernel writes."""
    function, kernel = cases["function"].live, cases["kernel"].live
    for ask in (
        lambda: function.compare(kernel),
        lambda: function.race(kernel, 1),
        lambda: kernel.compare(function),
    ):
        with pytest.raises(NoVerbError, match=says("t.check(expected=…)")):
            ask()


def test_the_figures_of_a_kernels_gpu_are_those_asked_for(cases: dict[str, Case]) -> None:
    """`t.target` of a hand-written kernel has the figures of its target."""
    for name, target in (("kernel", "h100"), ("kernel for AMD", "mi300x")):
        gpu = cases[name].trace.target
        assert isinstance(gpu, explorer.Target) and gpu.name == target
