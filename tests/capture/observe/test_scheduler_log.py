"""What the scheduler considers in one graph is kept in few rows."""

from __future__ import annotations

import json

import pytest

from explorer.capture.observe.scheduler_log import Log, ranges
from explorer.stages.inductor.reasons import Rule
from explorer.stages.inductor.verdicts import Round


class Node:
    """As much of a scheduler node as a log asks for."""

    def __init__(self, name: str, order: int) -> None:
        self.name, self.min_order = name, order

    def get_name(self) -> str:
        return self.name

    def get_nodes(self) -> list[Node]:
        return [self]

    def is_foreach(self) -> bool:
        return False


def test_a_thousand_nodes_are_one_row_a_node_not_one_a_pair() -> None:
    """64,000 refusals in each of three rounds are kept in 1,000 rows from which every pair can be read again."""
    from explorer.stages.inductor.verdicts import spans

    log = Log(None)
    nodes = [Node(f"op{n}", n) for n in range(1_000)]
    log.begin(nodes)
    log.reason = Rule("no shared data", "", 0, "")
    for _ in range(3):
        log.rounds.append(Round(reorder=False, before=1_000, after=1_000))
        for n, node in enumerate(nodes):
            for other in nodes[n + 1 : n + 65]:
                log.record_answer(node, other, False, lambda: None)
    rows = log.record().pairs
    assert len(rows) == 999 and len(json.dumps(rows)) < 50_000
    assert rows[0] == (0, "refused", 0, 0, None, 0b111, "1-64")
    assert sum(high - low + 1 for row in rows for low, high in spans(row[-1])) == sum(min(64, 999 - n) for n in range(1_000))


@pytest.mark.parametrize(("numbers", "text"), [([5], "5"), ([3, 4, 5], "3-5"), ([9, 1, 2, 7], "1-2,7,9"), ([], "")], ids=str)
def test_numbers_are_written_as_ranges(numbers: list[int], text: str) -> None:
    """Numbers that follow each other are one range."""
    assert ranges(numbers) == text
