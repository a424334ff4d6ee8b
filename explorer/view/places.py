"""Places in the texts of a payload: a text's index and a line in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.analysis.questions.cells import place
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.trace_data import TraceData, source_line

#: The index of a source with a user line and the line's number in it, -1 and 0 for none; its place in words, and its code.
UserPlace = tuple[int, int, str, str]


class Places:
    """Where the texts and user lines of a trace are in its payload."""

    def __init__(self, trace: TraceData, index: Mapping[str, int], cells: Mapping[str, str]) -> None:
        self._trace, self._index = trace, index
        self._files = {cell: file for file, cell in cells.items()}

    def of(self, artifact: str, line: int) -> tuple[int, int]:
        """Return the place of a line of an artifact."""
        return self._index[artifact], line

    def user_line(self, line: UserLine) -> UserPlace:
        """Return the place of a user line."""
        found = source_line(self._trace, self._files.get(line.file, line.file), line.number)
        return (*(self.of(*found) if found else (-1, 0)), place({}, line.file, line.number), line.code)
