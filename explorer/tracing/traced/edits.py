"""The edits of a trace or of one kernel: what was tried, what is in place, and how to undo it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from explorer.analysis.questions.editable import editable, editable_code, output_code_of
from explorer.capture.splice.edit import WRAPPER, Edit
from explorer.errors import InputError
from explorer.lab.live.editing import EditRequest
from explorer.lab.live.protocol import Live, needs_live
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Table


class Place(NamedTuple):
    """A kernel or output code that can be edited, and the file of its wrapper."""

    artifact: Artifact
    file: str


class Edits(tuple[Edit, ...]):
    """Edits of kernels and of output code, the oldest first; `table` compares them, `current` are those in place."""

    _live: Live
    _places: tuple[Place, ...]

    def __new__(cls, live: Live, places: Iterable[Place]) -> Edits:
        """Collect the edits of some places, each with its file."""
        each = tuple(places)
        edits = super().__new__(cls, (edit for place in each for edit in live.edits_of(place.artifact)))
        edits._live, edits._places = live, each
        return edits

    def __reduce__(self) -> tuple[type, tuple[tuple[Edit, ...]]]:
        return tuple, (tuple(self),)

    @property
    def table(self) -> Table:
        """One row per edit: its number, form, status, line and message, error, times and what the compiled kernel takes.

        `seconds` is the time of a launch, `ratio` its ratio to the original's; `registers` and `spills` (bytes) are of a thread,
        `shared` (bytes) of a block, `warps` those that an SM runs at once. What is not known is None.
        """
        return Table(edit.row() for edit in self)

    @property
    def current(self) -> tuple[Edit, ...]:
        """The edits that replace a kernel or output code now; () while the originals are in place.

        An edit's `message` says if the last call did not run it, as after a guard failed: torch.compile then runs other code.
        """
        standing = (self._live.standing(place.artifact, place.file) for place in self._places)
        return tuple(edit for edit in standing if edit is not None)

    def reset(self) -> bool:
        """Restore the originals; False if they are in place."""
        was_edited = [self._live.reset(place.artifact, place.file) for place in self._places]
        return any(was_edited)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "<no edits>"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def edits_of_trace(trace: TraceData) -> Edits:
    """The edits of output code, then of each kernel; LiveError for a loaded trace."""
    live = needs_live(trace, "the edits")
    return Edits(live, (Place(each.artifact, each.file) for each in editable(trace)))


def edits_of_kernel(trace: TraceData, kernel: Artifact, file: str) -> Edits:
    """The edits of one kernel in the wrapper of `file`; LiveError for a loaded trace."""
    return Edits(needs_live(trace, "the edits of a kernel"), [Place(kernel, file)])


def edited_wrapper(
    trace: TraceData, live: Live, text: str, place: tuple[str | None, str | None], *, timeout: float, check: bool
) -> Edit:
    """Edit the output code of one graph: see `LiveAccessor.edit`."""
    if not isinstance(text, str):
        raise InputError(f'wrapper is a text, not {type(text).__name__}: change t.text("output_code") and give that')
    code = output_code_of(trace, *place)
    with live.watchers.verb("live.edit()"):
        return live.edit(EditRequest(code, editable_code(code).file, WRAPPER, text, code.text, None, timeout, check))
