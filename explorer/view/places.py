"""Places in the texts of a payload: a text's index and a line in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.analysis.questions.cells import place
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.trace_data import TraceData, source_line
from explorer.view import wire


class Places:
    """Where the texts and user lines of a trace are in its payload."""

    def __init__(self, trace: TraceData, index: Mapping[str, int], cells: Mapping[str, str]) -> None:
        self._trace, self._index = trace, index
        self._files = {cell: file for file, cell in cells.items()}
        self._found: dict[UserLine, wire.UserPlace] = {}

    def of(self, artifact: str, line: int) -> tuple[int, int]:
        """Return the place of a line of an artifact."""
        return self._index[artifact], line

    def user_line(self, line: UserLine) -> wire.UserPlace:
        """Return the place of a user line: looked for once, since each further compile has kernels of the same lines."""
        if line not in self._found:
            found = source_line(self._trace, self._files.get(line.file, line.file), line.number)
            self._found[line] = (*(self.of(*found) if found else (-1, 0)), place({}, line.file, line.number), line.code)
        return self._found[line]
