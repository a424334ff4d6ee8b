"""The errors of one line of the program: of eager's operators and of what the kernels write for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.capture.interpret.shadows import OperatorError, Place
from explorer.lab.drifting.kernel_errors import KernelValue

#: By how many roundings of the program's type an ordinary line may add to the error: a softmax of 4096 numbers adds 8.
ROUNDINGS = 16


@dataclass
class LineErrors:
    """A line, in a module and in the forward or backward: its operators in order, and the values that kernels write for it."""

    place: Place
    operators: list[OperatorError] = field(default_factory=list)
    kernels: list[KernelValue] = field(default_factory=list)

    @property
    def eager(self) -> float | None:
        """The largest error of eager's values; None if the line has none."""
        return max((operator.error for operator in self.operators), default=None)

    @property
    def compiled(self) -> float | None:
        """The largest error of the values that the kernels write; None if none could be compared."""
        return max((value.error for value in self.kernels if value.error is not None), default=None)

    @property
    def added(self) -> float:
        """What the line's operators together add to the errors of their operands."""
        return sum(operator.added for operator in self.operators)

    @property
    def most(self) -> OperatorError | None:
        """The operator that adds the most."""
        return max(self.operators, key=lambda operator: operator.added, default=None)

    @property
    def growth(self) -> float | None:
        """By what factor the error grows at that operator; None where its operands are exact."""
        most = self.most
        if most is None or not most.operand_error or not math.isfinite(most.operand_error):
            return None
        return most.error / most.operand_error

    def stands_out(self, rounding: float) -> bool:
        """Whether the line adds more than roundings of the program's type do."""
        return self.added > ROUNDINGS * rounding


def lines_of(operators: Iterable[OperatorError], kernels: Sequence[KernelValue]) -> list[LineErrors]:
    """Group errors by line, in the order in which the program reaches the lines."""
    lines: dict[Place, LineErrors] = {}
    for operator in operators:
        lines.setdefault(operator.place, LineErrors(operator.place)).operators.append(operator)
    for value in kernels:
        line = _line_of(value.place, lines) or lines.setdefault(value.place, LineErrors(value.place))
        line.kernels.append(value)
    return list(lines.values())


def _line_of(place: Place, lines: Mapping[Place, LineErrors]) -> LineErrors | None:
    """Find the line of a kernel's value by its number, if it is in one module only, or by the module if no line is known."""
    if place in lines:
        return lines[place]
    same_pass = [line for line in lines.values() if line.place.backward == place.backward]
    if not place.file:
        in_module = [line for line in same_pass if line.place.module == place.module]
        return in_module[0] if place.module and len(in_module) == 1 else None
    same_line = [line for line in same_pass if (line.place.file, line.place.line) == (place.file, place.line)]
    return same_line[0] if len(same_line) == 1 else None


__all__ = ["LineErrors", "lines_of"]
