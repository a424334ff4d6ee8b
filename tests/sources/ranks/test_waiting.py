"""Which rank others wait for: jobs whose times are known, since each test writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from explorer.analysis.questions.collectives import CollectiveRow
from explorer.model.trace_data import TraceData
from explorer.sources.ranks.waiting import (
    Exchange,
    RankRuns,
    incomplete_groups,
    late_by_rank,
    runs_of_rank,
    wait_rows,
    waited_by_rank,
    waits_of,
)
from explorer.stages.torch_compile.run_times import CallTime, ExchangeTime, RunTimes
from explorer.tracing.traced.ranks import _of_runs
from tests.facts import untold


def row(operator: str, group: tuple[int, ...] = (0, 1, 2)) -> CollectiveRow:
    """A collective on a line of its own."""
    told: dict[str, Any] = {
        "artifact": "0/0:post_grad",
        "node": operator,
        "operator": operator,
        "ranks": group,
        "group": "0",
        "sent_by": "",
    }
    return cast(CollectiveRow, {**told, "frame": "0/0", "graph": "inference", "file": "train.py", "line": 3, "code": operator})


def runs(
    *seconds: Sequence[float | None], operator: str = "all_reduce", group: tuple[int, ...] = (0, 1, 2)
) -> dict[int, RankRuns]:
    """Ranks, each with the seconds that it was in each run of one collective."""
    exchanges = [
        tuple(Exchange(row(operator, group), each, None, later=number > 0) for number, each in enumerate(own)) for own in seconds
    ]
    return {rank: RankRuns(len(own), 0.0, own, None, None) for rank, own in enumerate(exchanges)}


def test_the_rank_that_is_in_it_the_shortest_came_last() -> None:
    """The others waited for it, each as much longer as it was in it; the first run, which compiles, does not count."""
    waits = waits_of(runs((9.0, 0.5, 0.25), (0.0, 0.0, 0.125), (9.0, 0.25, 0.5)))
    assert [(wait.late, dict(wait.seconds)) for wait in waits] == [
        (1, {0: 0.5, 1: 0.0, 2: 0.25}),
        (1, {0: 0.25, 1: 0.125, 2: 0.5}),
    ]
    (only,) = wait_rows(waits)
    assert (only["late"], only["runs"], only["late_runs"], only["line"]) == (1, 2, 2, 3)
    assert only["waited"] == 0.5 + 0.375, "of each run the longest wait"
    assert late_by_rank(waits) == {1: 0.875}
    assert waited_by_rank(waits) == {0: 0.625, 1: 0.0, 2: 0.625}


def test_a_collective_that_runs_once_counts() -> None:
    """There is no later run that would be a better one."""
    (wait,) = waits_of(runs((2.0,), (0.5,), (1.0,)))
    assert wait.late == 1 and wait.waited(0) == 1.5


def test_ranks_that_exchange_otherwise_are_compared_up_to_there() -> None:
    """Behind the first other operator nothing says which runs belong together; of an unknown time nothing is said."""
    both = runs((1.0, 0.5), (1.0, 0.0))
    other = runs((1.0, 0.5), (1.0, 0.0), operator="all_to_all_single")
    assert waits_of({0: both[0], 1: other[1]}) == ()
    assert waits_of(runs((1.0, None), (1.0, 0.5))) == ()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_nothing_is_said_of_a_group_with_a_rank_that_was_not_profiled(missing: int) -> None:
    """That rank may be the last: what lacks is named instead. A group without it has its rows."""
    three = runs((0.0, 1.0), (0.0, 0.25), (0.0, 0.5))
    kept = {rank: own for rank, own in three.items() if rank != missing}
    assert waits_of(kept) == () and incomplete_groups(kept) == {(0, 1, 2): (missing,)}
    _, said = _of_runs(kept, ())
    assert not untold(said, "1 group", "profile", f"rank {missing}")
    pair = runs((0.0, 1.0), (0.0, 0.25), group=(0, 1))
    both = {0: replace(pair[0], exchanges=(*three[0].exchanges, *pair[0].exchanges)), 1: pair[1]}
    assert [wait.late for wait in waits_of(both)] == [1] and incomplete_groups(both) == {(0, 1, 2): (1, 2)}


def test_groups_that_are_known_by_name_are_not_merged() -> None:
    """Two groups of one job may have one name; without their ranks nothing says which belong together."""
    four = runs((0.0, 1.0), (0.0, 0.25), (0.0, 0.5), (0.0, 0.75), group=())
    assert waits_of(four) == () and incomplete_groups(four) == {"0": ()}
    _, said = _of_runs(four, ())
    assert not untold(said, "1 group", "traces", "ranks") and untold(said, "profile")


def test_the_only_call_of_a_frame_counts_beside_one_that_is_called_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a first call is left out is asked of each frame, and of its backward: calls and collectives are the same."""
    rows = {
        name: {**row("all_reduce"), "node": name, "frame": name[0], "graph": name[1:]}
        for name in ("aforward", "abackward", "bforward")
    }
    monkeypatch.setattr("explorer.sources.ranks.waiting.collective_rows", lambda _: tuple(rows.values()))

    def exchange(name: str, run: int, seconds: float) -> ExchangeTime:
        return ExchangeTime(
            artifact="0/0:post_grad", node=name, operator="all_reduce", run=run, seconds=seconds, overlapped=seconds / 2
        )

    def call(name: str, seconds: float) -> CallTime:
        return CallTime(frame=name[0], backward=name[1:] == "backward", outer=True, seconds=seconds, device=None)

    ran = [("aforward", 0, 64.0), ("aforward", 1, 1.0), ("abackward", 0, 2.0), ("bforward", 0, 4.0)]
    times = RunTimes(
        source="a profile", calls=tuple(call(name, s) for name, _, s in ran), exchanges=tuple(exchange(*one) for one in ran)
    )
    artifact = SimpleNamespace(data=times)
    found = runs_of_rank(cast(TraceData, SimpleNamespace(find=lambda stage: (artifact,) * (stage == "run_times"))))
    assert found is not None and (found.calls, found.seconds) == (3, 7.0)
    assert (found.in_collectives, found.overlapped) == (7.0, 3.5)


def hook(started: int, operator: str = "all_reduce") -> CollectiveRow:
    """What DDP sends outside of the graphs, listed at a line."""
    outside = {"artifact": "-:eager_collective", "node": "", "frame": "", "graph": "", "started": started}
    return cast(CollectiveRow, {**row(operator, (0, 1)), **outside, "sent_by": f"DDP bucket {started}"})


def ranks_of(*columns: tuple[CollectiveRow, bool, tuple[float, float]]) -> dict[int, RankRuns]:
    """Two ranks with the same collectives, each with whether it is later and the seconds of both; a fourth is overlapped."""
    exchanges = [tuple(Exchange(each, own[n], own[n] / 4, later) for each, later, own in columns) for n in (0, 1)]
    return {rank: RankRuns(1, 1.0, own, 8.0, 2.0, ("why",) * rank) for rank, own in enumerate(exchanges)}


def test_a_hooks_collective_names_the_late_rank_and_who_sent_it() -> None:
    """One row per collective, with what no other kernel ran beside; a run that a compile delays and a broadcast have none.

    Where ranks came last equally often, the row names the one that others waited for longest.
    """
    rows = ((hook(1), False, (9.0, 0.0)), (hook(9, "broadcast"), True, (0.0, 9.0)))
    job = ranks_of(*rows, (hook(2), True, (4.0, 1.0)), (hook(3), True, (1.0, 1.5)), (hook(2), True, (1.0, 2.0)))
    waits = waits_of(job)
    found = [(one["sent_by"], one["runs"], one["late"], one["waited"], one["seconds"]["0"]) for one in wait_rows(waits)]
    assert found == [("DDP bucket 2", 2, 1, 3.0, 5.0), ("DDP bucket 3", 1, 0, 0.5, 1.0)]
    assert wait_rows(waits)[0]["exposed"] == {"0": 5.0 * 3 / 4, "1": 3.0 * 3 / 4}
    said = _of_runs(job, waits)
    assert any(not untold(line, "last", "rank 1", "all_reduce", "DDP bucket 2") for line in said)
    assert any(not untold(line, "exposed", "6000.0 ms", "8000.0 ms", "DDP bucket 2") for line in said)
    assert "rank 1: why" in said


def test_a_graphs_collective_is_not_taken_for_a_hooks() -> None:
    """Where one rank has a graph's all_reduce and the other a hook's, they are not compared."""
    hooks, graphs = ranks_of((hook(2), True, (4.0, 1.0))), ranks_of((row("all_reduce", (0, 1)), True, (4.0, 1.0)))
    assert waits_of({0: hooks[0], 1: graphs[1]}) == () != waits_of(hooks)
