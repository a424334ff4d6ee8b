"""The types of what explorer returns and holds, for annotations and for plug-ins."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.analysis.advice.verdicts import Check as Check
    from explorer.analysis.advice.verdicts import Cost as Cost
    from explorer.analysis.advice.verdicts import Verdict as Verdict
    from explorer.analysis.questions.fusion import Fusion as Fusion
    from explorer.analysis.questions.memory import Memory as Memory
    from explorer.capture.compilers.compiler import Compiler as Compiler
    from explorer.capture.splice.edit import Edit as Edit
    from explorer.lab.bisecting.bisection import Bisection as Bisection
    from explorer.lab.drifting.drift import Drift as Drift
    from explorer.lab.live.sanitized import Sanitized as Sanitized
    from explorer.model.stage import Stage as Stage
    from explorer.model.values import Artifact as Artifact
    from explorer.model.values import Event as Event
    from explorer.model.values import Failure as Failure
    from explorer.model.values import Link as Link
    from explorer.model.values import Table as Table
    from explorer.stages import STAGES as STAGES
    from explorer.studies.fitting.answer import Fit as Fit
    from explorer.studies.fitting.budgets import Budgets as Budgets
    from explorer.studies.sweeping.sweep import Sweep as Sweep
    from explorer.studies.varying.called import Variations as Variations
    from explorer.studies.varying.modes import Modes as Modes
    from explorer.tracing.traced.choice import Choice as Choice
    from explorer.tracing.traced.comparison import Comparison as Comparison
    from explorer.tracing.traced.ranks import Ranks as Ranks
    from explorer.tracing.traced.what_if import WhatIf as WhatIf

#: Where each type is defined; it is imported when first asked for.
_HOMES = {
    "Artifact": "model.values",
    "Bisection": "lab.bisecting.bisection",
    "Budgets": "studies.fitting.budgets",
    "Check": "analysis.advice.verdicts",
    "Choice": "tracing.traced.choice",
    "Comparison": "tracing.traced.comparison",
    "Compiler": "capture.compilers.compiler",
    "Cost": "analysis.advice.verdicts",
    "Drift": "lab.drifting.drift",
    "Edit": "capture.splice.edit",
    "Event": "model.values",
    "Failure": "model.values",
    "Fit": "studies.fitting.answer",
    "Fusion": "analysis.questions.fusion",
    "Link": "model.values",
    "Memory": "analysis.questions.memory",
    "Modes": "studies.varying.modes",
    "Ranks": "tracing.traced.ranks",
    "STAGES": "stages",
    "Sanitized": "lab.live.sanitized",
    "Stage": "model.stage",
    "Sweep": "studies.sweeping.sweep",
    "Table": "model.values",
    "Variations": "studies.varying.called",
    "Verdict": "analysis.advice.verdicts",
    "WhatIf": "tracing.traced.what_if",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"explorer.{_HOMES[name]}"), name)
    raise AttributeError(f"explorer.types has no {name!r}; it has {', '.join(sorted(_HOMES))}")


def __dir__() -> list[str]:
    return __all__
