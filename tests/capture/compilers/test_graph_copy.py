"""The results of an engine's module, put together as the graph returns them."""

from __future__ import annotations

import torch

from explorer.capture.compilers.graph_copy import Results


def results_of(*values: object) -> Results:
    """The results of a graph that computes each of them."""
    return Results((True,) * len(values), (None,) * len(values), (None,) * len(values), values)


def test_a_result_in_the_memory_of_an_input_is_copied() -> None:
    """For `x + 0` an engine may return x itself; writing to the result must leave the argument as it is."""
    given = torch.arange(3.0)
    (result,) = results_of("y").put_together([torch.from_dlpack(given)], [given, 5])
    result.add_(1)
    assert result.tolist() == [1, 2, 3] and given.tolist() == [0, 1, 2]


def test_two_results_share_memory_only_if_they_are_one_node() -> None:
    """An engine may compute equal nodes once; torch gives each its own memory."""
    once = torch.arange(3.0)
    first, second, again = results_of("y", "z", "y").put_together([once, torch.from_dlpack(once), once])
    assert first.data_ptr() == again.data_ptr() != second.data_ptr() and torch.equal(first, second)


def test_results_without_elements_are_handed_through() -> None:
    """All of them are at address 0, and no two share memory."""
    empty = torch.empty(0)
    assert results_of("y", "z").put_together([empty, 3], [empty])[0] is empty
