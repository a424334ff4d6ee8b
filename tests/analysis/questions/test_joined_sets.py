"""Sets that share members are joined, in the order in which their members first appear."""

from __future__ import annotations

import random
from itertools import chain, pairwise

import networkx
import pytest

from explorer.analysis.questions.joined_sets import joined


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([], []),
        ([[]], []),
        ([[3], [1], [2]], [[3], [1], [2]]),
        ([[1, 2], [3], [2, 4]], [[1, 2, 4], [3]]),
        ([[5, 4], [3, 2], [1], [2, 5]], [[5, 4, 3, 2], [1]]),
        ([[None, 1], [1, 2]], [[None, 1, 2]]),
    ],
)
def test_what_shares_a_member_is_one_set(sets: list[list[object]], expected: list[list[object]]) -> None:
    """Sets are joined through other sets too; order is that of first appearance, and None is a member like another."""
    assert joined(sets) == expected


def test_the_joined_sets_are_the_connected_components_of_a_graph() -> None:
    """networkx, given an edge between neighbours in each set, finds the same components of random sets."""
    numbers = random.Random(0)
    for _ in range(200):
        sets = [[numbers.randrange(60) for _ in range(numbers.randrange(1, 4))] for _ in range(numbers.randrange(1, 40))]
        graph = networkx.Graph(chain.from_iterable(pairwise(members) for members in sets))
        graph.add_nodes_from(chain.from_iterable(sets))
        found = joined(sets)
        assert {frozenset(members) for members in found} == set(map(frozenset, networkx.connected_components(graph)))
        place = {member: n for n, member in reversed(list(enumerate(chain.from_iterable(sets))))}
        assert all(members == sorted(members, key=place.__getitem__) for members in found)
        assert [members[0] for members in found] == sorted((members[0] for members in found), key=place.__getitem__)
