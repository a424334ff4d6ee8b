"""The edits of a trace: which texts can be edited, and the table of what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.errors import InputError
from explorer.live.editing import Edit
from explorer.live.protocol import Live
from explorer.model.artifacts import OutputCode
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Rows
from explorer.questions import missing
from explorer.questions.kernels import wrapper_file
from explorer.splice.variant import WRAPPER, Variant


class Variants(tuple[Variant, ...]):
    """Edits of kernels and of output code; `table()` compares them."""

    def table(self) -> Rows:
        """One row an edit: its number, form, status, line and message, error, times and what the compiled kernel takes.

        `seconds` are those of a launch, `ratio` is to the original's; `registers` and `spills` (bytes) are of a thread, `shared`
        (bytes) of a block, `warps` those that an SM runs at once. What is not known is None.
        """
        return Rows(variant.row() for variant in self)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@dataclass(frozen=True)
class Editable:
    """A text that can be edited, and the file of its wrapper."""

    artifact: Artifact
    file: str


def editable(trace: TraceData) -> Iterator[Editable]:
    """The texts of output code, then the kernels."""
    for code in trace.find("output_code"):
        yield Editable(code, typed(OutputCode, code.data).file)
    for kernel in trace.find("kernel"):
        yield Editable(kernel, wrapper_file(trace, kernel))


def edited_wrapper(
    trace: TraceData, live: Live, text: str, place: tuple[str | None, str | None], *, limit: float, check: bool
) -> Variant:
    """Edit the output code of one graph: see `Trace.edit`."""
    if not isinstance(text, str):
        raise InputError(f'wrapper is a text, not {type(text).__name__}: change t.text("output_code") and give that')
    code = output_code(trace, place)
    with live.watchers.verb("edit()"):
        return live.edit(Edit(code, typed(OutputCode, code.data).file, WRAPPER, text, code.text, None, limit, check))


def output_code(trace: TraceData, place: tuple[str | None, str | None]) -> Artifact:
    """The output code of a frame and a graph; InputError, with the places that there are, for none and for several."""
    codes = trace.find("output_code", *place)
    if len(codes) == 1:
        return codes[0]
    missing.explain_missing(trace, "output_code")
    missing.explain_place(trace, "output_code", *place)
    if not codes:
        raise missing.no_text(trace, "output_code", is_live=True)
    places = " or ".join(f"frame={code.frame!r}, graph={code.graph!r}" for code in codes)
    raise InputError(f"this trace has output code of {len(codes)} graphs: say which, {places}")
