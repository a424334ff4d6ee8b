"""Put something more into a trace: a profile, the result of a bisection, symbolic steps, a choice's texts, machine code."""

from __future__ import annotations

from collections.abc import Container, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from explorer.analysis.questions.choices import recorded_forms
from explorer.analysis.questions.missing import explain_missing
from explorer.errors import InputError
from explorer.lab.live.choice_texts import choice_texts
from explorer.lab.live.forms import assembled_here, forms_of, without_form
from explorer.lab.live.protocol import forms_of_kernels, needs_forms, needs_live, no_text
from explorer.model.values import Artifact
from explorer.stages import stage_of
from explorer.stages.cuda import CUDA_FORMS
from explorer.stages.halide import HALIDE_FORMS
from explorer.stages.pallas import PALLAS_FORMS
from explorer.stages.replay import extended
from explorer.tracing.traced.choice import Choice

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: The texts that are made on demand, as errors name them.
MACHINE_CODE = {
    "sass": "SASS",
    "assembly": "the assembly",
    **dict.fromkeys(PALLAS_FORMS, "a form of a Pallas kernel"),
    **dict.fromkeys(HALIDE_FORMS, "a form of a Halide kernel"),
    **dict.fromkeys(CUDA_FORMS, "a form of a kernel in CUDA C++"),
}


def attached(trace: Trace, what: object, stages: Sequence[str]) -> Trace:
    """Return the trace with what was given: see `Trace.attach`."""
    from explorer.analysis.counters.report import is_report
    from explorer.analysis.timing.profile import profiled
    from explorer.lab.bisecting.bisection import Bisection
    from explorer.lab.bisecting.marks import painted
    from explorer.lab.stepping.symbolic import SymbolicSteps, with_steps

    if isinstance(what, Choice):
        return _with_choice(trace, what, stages)
    if stages:
        raise InputError("stages are for a choice, t.attach(t.inductor.choices[0], 'ttgir'); other things take one argument")
    if isinstance(what, str) and what in MACHINE_CODE:
        return _with_forms(trace, what, _kernels_with(trace, what))
    if isinstance(what, Bisection):
        return painted(trace, what)
    if isinstance(what, SymbolicSteps):
        return with_steps(trace, what)
    if isinstance(what, (str, PathLike)) and is_report(what):
        return _with_report(trace, what)
    return profiled(trace, what)


def _with_report(trace: Trace, path: str | PathLike[str]) -> Trace:
    """Return the trace with the counters of Nsight Compute's report, and the SASS they are of where it can be made here."""
    from explorer.analysis.counters.joined import is_code_of, reported_kernels, with_counters
    from explorer.analysis.counters.report import launches_of

    launches = launches_of(path)
    reported = {kernel.id for kernel in reported_kernels(trace, launches)}
    kernels = [kernel for kernel in _kernels_with(trace, "sass") if kernel.id in reported]
    if kernels and forms_of_kernels(trace) is not None:
        trace = _with_forms(trace, "sass", kernels)
    elif lacking := without_form(trace, kernels, "sass"):
        trace = extended(trace, [sass for sass in assembled_here(trace, lacking) if is_code_of(sass, launches)])
    return with_counters(trace, launches)


def with_machine_code(trace: Trace, stage: str, texts: Container[str]) -> Trace:
    """Return the trace with the machine code of each kernel that has one of these texts, given by their ids."""
    places = {(a.frame, a.graph, a.kernel) for a in trace.artifacts if a.kernel and a.id in texts}
    kernels = _kernels_with(trace, stage)
    chosen = [a for a in kernels if (a.frame, a.graph, a.kernel) in places]
    return _with_forms(trace, stage, chosen) if chosen or not kernels else trace


def _kernels_with(trace: Trace, stage: str) -> list[Artifact]:
    """The kernels that a text is made of on demand: C++, Pallas, Halide, CUDA C++, or those with PTX, from which SASS is made."""
    if stage != "sass":
        return [a for a in trace.find("kernel") if a.language == stage_of(trace, stage).on_demand_of]
    have_ptx = {(a.frame, a.graph, a.kernel) for a in trace.find("ptx")}
    return [a for a in trace.find("kernel") if (a.frame, a.graph, a.kernel) in have_ptx]


def _with_forms(trace: Trace, stage: str, kernels: Sequence[Artifact]) -> Trace:
    """Return the trace with the texts of these kernels in `stage`; those that it does not hold are made."""
    if not kernels:
        raise no_text(trace, stage)
    lacking = without_form(trace, kernels, stage)
    if not lacking:
        return trace
    explain_missing(trace, stage)
    live = needs_forms(trace, MACHINE_CODE[stage], f"t.attach({stage!r}).save(file)")
    with live.watchers.verb(f"attach({stage!r})"):
        return extended(trace, forms_of(trace, live, lacking, stage))


def _with_choice(trace: Trace, choice: Choice, stages: Sequence[str]) -> Trace:
    """Return the trace with texts of a choice, its source always among them."""
    if choice._row not in trace.inductor.choices.table:
        raise InputError(f"{choice.name} is a choice of another trace: take it from t.inductor.choices")
    held = recorded_forms(trace, choice._row)
    if choice._row["source"] and {"kernel", *stages} <= held.keys():
        return trace
    choice.check_stages(stages)
    live = needs_live(trace, "the texts of a choice")
    with live.watchers.verb(f"attach({choice.name})"):
        return extended(trace, choice_texts(trace, live, choice._row, stages))
