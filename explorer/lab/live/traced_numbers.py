"""The numbers that a program took from its tensors when it was traced, for a check that computes them a little differently.

Dynamo compiles what follows `.item()` for the very number that it saw, and guards it. Interpreted kernels round otherwise
than the graph that ran while tracing, and a number that differs in its last digit would have what follows compiled anew. So a
check goes on with the traced number where the two agree, and has a row that says by how much they differ.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from explorer.capture.absent.taken_numbers import Taking
from explorer.lab.live.check_rows import CheckRow
from explorer.lab.live.judge import beside, gaps
from explorer.model.records import typed
from explorer.model.syntax import parsed
from explorer.model.values import Event
from explorer.stages.dynamo.guards import GuardTree, guard_rows
from explorer.stages.fx_graph import short
from explorer.stages.unread import read


def guarded_numbers(events: Sequence[Event]) -> tuple[float, ...]:
    """The floats that the guards of these events compare with, each once."""
    rows = (row for event in read(events).events for row in guard_rows(typed(GuardTree, event.data).text))
    return tuple(dict.fromkeys(number for row in rows for number in _compared_with(row.expression)))


def _compared_with(expression: str) -> Iterator[float]:
    """The float of a guard such as "L['scale'] == 2.5"; nothing for any other guard."""
    if "==" not in expression:
        return
    try:
        tree = parsed(expression)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            try:
                value = ast.literal_eval(node.comparators[0])
            except ValueError:
                continue
            if isinstance(value, float):
                yield value


@dataclass
class TracedNumbers:
    """Puts the numbers of the trace in place of those that interpreted code gives, and keeps a row on each."""

    numbers: tuple[float, ...]
    rows: dict[str, CheckRow] = field(default_factory=dict)

    def __call__(self, taking: Taking, value: float) -> float:
        """The nearest number of the trace if it agrees with `value` by the judge's tolerance, else `value`."""
        import torch

        if not self.numbers or value != value:
            return value
        traced = min(self.numbers, key=lambda number: abs(number - value))
        expected, given = (torch.tensor(number, dtype=taking.dtype, device="cpu") for number in (traced, value))
        verdict = beside(expected, given)
        if not verdict.equal:
            return value
        method = f".{taking.method}()" if not taking.method.startswith("_") else f"{taking.method.strip('_')}()"
        name = f"the number that {method} takes in {short(taking.file)}:{taking.line}"
        max_abs, max_rel = gaps(expected, given)
        note = f"what follows ran with {traced!r}, the number of the trace" if value != traced else ""
        self.rows[name] = CheckRow(
            name, True, max_abs=max_abs, max_rel=max_rel, bound=verdict.bound.partition(":")[0], compared="value", note=note
        )
        return traced
