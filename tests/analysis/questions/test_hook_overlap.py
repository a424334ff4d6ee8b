"""What hides the collectives of hooks: steps whose graphs and collectives take seconds that are counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from explorer.analysis.questions.hook_overlap import exposed_seconds, last_step
from explorer.model.records import changed
from explorer.stages.torch_compile.eager_collective import EagerCollective, EagerCollectives, RunGraph
from tests.sent_collectives import ALL_REDUCE

#: A forward and two backwards, and how long each takes; in an order they are -1, -2 and -3.
PLACES = (("forward", 0), ("backward", 1), ("backward", 0))
GRAPHS = tuple(RunGraph(frame="0/0", graph=graph, number=number) for graph, number in PLACES)
SECONDS = {("0/0", "forward", 0): 10.0, ("0/0", "backward", 1): 4.0, ("0/0", "backward", 0): 4.0}
FORWARD, SECOND, FIRST = -1, -2, -3


def recorded(rows: Sequence[EagerCollective], order: Sequence[int]) -> EagerCollectives:
    return EagerCollectives(rows=tuple(rows), graphs=GRAPHS, order=tuple(order), left_out=0)


def gather(module: str, hook: str = "pre_forward", *, prefetched: bool = False) -> EagerCollective:
    return changed(ALL_REDUCE, operator="all_gather_into_tensor", sender="FSDP2", module=module, hook=hook, prefetched=prefetched)


def test_a_bucket_is_hidden_by_the_backward_that_is_left() -> None:
    """The first bucket runs beside the last backward, 4 of its 5 s; the second waits for it, and has nothing beside it."""
    step = recorded([ALL_REDUCE, ALL_REDUCE], [FORWARD, SECOND, 0, FIRST, 1])
    assert exposed_seconds(step, SECONDS, {0: 5.0, 1: 5.0}) == {0: 1.0, 1: 5.0}
    assert exposed_seconds(step, SECONDS, {0: 3.0, 1: 5.0}) == {0: 0.0, 1: 5.0}


def test_a_module_is_gathered_while_the_one_before_runs() -> None:
    """The first gather of a step has nothing beside it; the second, of 12 s, has the forward of 10 s."""
    rows = [gather("a"), gather("b")]
    step = recorded(rows, [0, FORWARD, 1, FORWARD, SECOND])
    assert exposed_seconds(step, SECONDS, {0: 3.0, 1: 12.0}) == {0: 3.0, 1: 2.0}


def test_a_prefetched_module_is_waited_for_one_graph_later() -> None:
    """What the backward of the module before hides is not exposed, and the scatter that is sent behind it waits for it."""
    scatter = changed(ALL_REDUCE, operator="reduce_scatter_tensor", sender="FSDP2", hook="post_backward")
    rows = [gather("a", "pre_backward", prefetched=True), scatter, scatter]
    step = recorded(rows, [FORWARD, 0, SECOND, 1, FIRST, 2])
    # the gather runs from 10 to 17, SECOND from 10 to 14; FIRST waits 3 s for the gather and runs from 17 to 21
    # the first scatter runs from 17 to 18, beside FIRST; the second, from 21 to 22, has nothing beside it
    assert exposed_seconds(step, SECONDS, {0: 7.0, 1: 1.0, 2: 1.0}) == {0: 3.0, 1: 0.0, 2: 1.0}
    assert exposed_seconds(step, SECONDS, {0: 7.0, 1: 1.0, 2: 1.0}, left_out=[0]) == {1: 0.0, 2: 1.0}


def test_a_collective_of_the_programs_own_is_waited_for_at_once() -> None:
    """Whether Python waits later is not recorded."""
    step = recorded([changed(ALL_REDUCE, sender="Python")], [FORWARD, SECOND, 0, FIRST])
    assert exposed_seconds(step, SECONDS, {0: 2.0}) == {0: 2.0}


@pytest.mark.parametrize("seconds, prices", [({**SECONDS, ("0/0", "backward", 0): None}, {0: 5.0}), (SECONDS, {0: None})])
def test_what_depends_on_unknown_seconds_is_unknown(
    seconds: dict[tuple[str, str, int], float | None], prices: dict[int, float | None]
) -> None:
    """It is None, not 0: a graph beside the collective has no estimate, or the collective itself."""
    assert exposed_seconds(recorded([ALL_REDUCE], [FORWARD, SECOND, 0, FIRST]), seconds, prices) == {0: None}


def test_the_last_step_begins_with_what_it_gathers() -> None:
    """A forward without a backward behind it, as of an evaluation, is no step; without any backward there is none."""
    rows = [gather("a"), ALL_REDUCE]
    order = [0, FORWARD, SECOND, 1, 0, FORWARD, FORWARD, SECOND, FIRST, 1, 0, FORWARD]
    assert list(last_step(recorded(rows, order))) == [0, FORWARD, FORWARD, SECOND, FIRST, 1]
    assert list(last_step(recorded(rows, [0, FORWARD, 0, FORWARD]))) == []
    assert exposed_seconds(recorded(rows, [0, FORWARD]), SECONDS, {0: 1.0}) == {}
