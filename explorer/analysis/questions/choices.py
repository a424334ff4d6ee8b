"""Read the rows of `t.inductor.choices`: settings by name, the texts that a choice can have, why it has none."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from explorer.analysis.questions.target import compiled_for, gpu_of
from explorer.capture.ladder.ladder import TEXTS
from explorer.model.records import typed
from explorer.model.syntax import parsed_expression
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, plain
from explorer.stages.inductor.choice import ChoiceForm

#: One setting in Inductor's description of a choice. It ends where the next one begins, since a value may have commas.
_SETTING = re.compile(r"(\w+)=(.*?)(?=, \w+=|$)")
#: What a choice without a source is, by the class of Inductor's that it is.
NO_SOURCE = {
    "ExternKernelCaller": "is a call into a library, whose kernels have no source here",
    "pad_mm": "is the operation itself, with or without padding; its kernels are among Trace.kernels",
}
#: Inductor's class of a choice that is a Triton template.
TRITON_TEMPLATE = "TritonTemplateCaller"


def settings(config: str) -> Mapping[str, Plain]:
    """Read Inductor's description of a choice: its settings by name, such as BLOCK_M and num_warps; {} for a library call."""
    named: Mapping[str, Plain] = plain({name: _value(text) for name, text in _SETTING.findall(config)})
    return named


def _value(text: str) -> Plain:
    """Read a setting's value as a Python literal; what is none stays text."""
    try:
        return ast.literal_eval(parsed_expression(text))
    except (ValueError, SyntaxError):
        return text


def forms(trace: TraceData, row: Mapping[str, Plain]) -> tuple[str, ...]:
    """List the stages that a choice can have a text in, from its source down; () for one without a source."""
    if not row.get("source"):
        return ()
    target = gpu_of(trace)
    if row["kind"] != TRITON_TEMPLATE or compiled_for(trace).is_cpu:
        return ("kernel",)
    backend = target.backend if target else "cuda"
    return ("kernel", *TEXTS[backend], *(("sass",) if backend == "cuda" else ()))


def no_source(row: Mapping[str, Plain]) -> str:
    """Say why a choice has no source."""
    return NO_SOURCE.get(str(row["kind"]), "has no source that Inductor keeps")


def recorded_forms(trace: TraceData, row: Mapping[str, Plain]) -> dict[str, Artifact]:
    """Map the stages in which the trace holds a text of a choice to these texts; they are made on demand."""
    texts = trace.find("choice", str(row["frame"]), str(row["graph"]))
    return {form.form: a for a in texts if (form := typed(ChoiceForm, a.data)).choice == row["choice"]}
