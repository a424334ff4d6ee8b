"""The edits of a trace: that of output code, and the table of what came of all."""

from __future__ import annotations

from explorer.analysis.questions.editable import editable_code, output_code_of
from explorer.capture.splice.variant import WRAPPER, Variant
from explorer.errors import InputError
from explorer.lab.live.editing import Edit
from explorer.lab.live.protocol import Live
from explorer.model.trace_data import TraceData
from explorer.model.values import Rows


class Variants(tuple[Variant, ...]):
    """Edits of kernels and of output code; `table()` compares them."""

    def table(self) -> Rows:
        """One row per edit: its number, form, status, line and message, error, times and what the compiled kernel takes.

        `seconds` is the time of a launch, `ratio` its ratio to the original's; `registers` and `spills` (bytes) are of a thread,
        `shared` (bytes) of a block, `warps` those that an SM runs at once. What is not known is None.
        """
        return Rows(variant.row() for variant in self)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def edited_wrapper(
    trace: TraceData, live: Live, text: str, place: tuple[str | None, str | None], *, timeout: float, check: bool
) -> Variant:
    """Edit the output code of one graph: see `Trace.edit`."""
    if not isinstance(text, str):
        raise InputError(f'wrapper is a text, not {type(text).__name__}: change t.text("output_code") and give that')
    code = output_code_of(trace, *place)
    with live.watchers.verb("edit()"):
        return live.edit(Edit(code, editable_code(code).file, WRAPPER, text, code.text, None, timeout, check))
