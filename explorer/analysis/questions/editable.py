"""Which texts of a trace can be edited: the output code of each graph, and its kernels. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.analysis.questions import missing
from explorer.analysis.questions.kernels import wrapper_file
from explorer.errors import InputError
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact


@dataclass(frozen=True)
class Editable:
    """A text that can be edited, and the name of the file of its wrapper."""

    artifact: Artifact
    file: str


def editable(trace: TraceData) -> Iterator[Editable]:
    """The texts of output code, then the kernels."""
    for code in trace.find("output_code"):
        yield editable_code(code)
    for kernel in trace.find("kernel"):
        yield Editable(kernel, wrapper_file(trace, kernel))


def editable_code(code: Artifact) -> Editable:
    """The text of output code with the name of its file."""
    return Editable(code, typed(OutputCode, code.data).file)


def output_code_of(trace: TraceData, frame: str | None, graph: str | None) -> Artifact:
    """The output code of a frame and a graph; InputError, with the places that there are, for none and for several."""
    codes = trace.find("output_code", frame, graph)
    if len(codes) == 1:
        return codes[0]
    missing.explain_missing(trace, "output_code")
    missing.explain_place(trace, "output_code", frame, graph)
    if not codes:
        raise missing.no_text(trace, "output_code", is_live=True)
    places = " or ".join(f"frame={code.frame!r}, graph={code.graph!r}" for code in codes)
    raise InputError(f"this trace has output code of {len(codes)} graphs: say which, {places}")


__all__ = ["Editable", "editable", "editable_code", "output_code_of"]
