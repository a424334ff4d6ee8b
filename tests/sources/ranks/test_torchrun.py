"""Jobs of several ranks with gloo under torchrun: a rank that computes something else than the others is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import explorer
from explorer.entry import cli
from explorer.tracing.traced.ranks import Ranks
from tests.facts import untold
from tests.sources.ranks.torchrun import traced

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch with gloo"),
]

#: One function that every rank calls alike, rank 1 each time 50 ms after the others, and one that it calls with another shape.
PROGRAM = """
import time
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")

@torch.compile
def same(x):
    total = functional.all_reduce(x.sum(0), "sum", dist.group.WORLD)
    return functional.all_gather_tensor(total * 2, 0, dist.group.WORLD).relu()

@torch.compile
def other(x):
    return x.sin() + 1

for step in range(5):
    if dist.get_rank() == 1:
        time.sleep(0.05)
    same(torch.ones(8, 16))
other(torch.ones(24 if dist.get_rank() == 1 else 16))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory, warm: str) -> Ranks:
    """The ranks of the program above."""
    loaded = explorer.load(traced(warm, 2, PROGRAM, tmp_path_factory.mktemp("job"), "--profile"))
    assert isinstance(loaded, Ranks)
    return loaded


def test_the_rank_with_another_shape_is_found(ranks: Ranks) -> None:
    """The first divergence is in the second function, with its line and both shapes; the first function is equal."""
    first = ranks.divergences[0]
    assert list(ranks) == [0, 1] and ranks.world == 2
    assert (first["frame"], first["kind"], first["code"]) == ("1/0", "graph", "return x.sin() + 1")
    assert PROGRAM.split("\n")[first["line"] - 1].strip() == first["code"]
    assert "[24]" in first["here"] + first["there"] and "[16]" in first["here"] + first["there"]
    assert {row["frame"] for row in ranks.divergences} == {"1/0"}
    assert not ranks.not_compared


def test_the_collectives_of_each_rank_are_listed(ranks: Ranks) -> None:
    """In order, with the ranks of the group, though the program ended it, the bytes and the program's line."""
    for number in (0, 1):
        rows = ranks.collectives.where(rank=number)
        assert [(row["operator"], row["ranks"]) for row in rows] == [("all_reduce", (0, 1)), ("all_gather_into_tensor", (0, 1))]
        assert [row["bytes"] for row in rows] == [16 * 4, 2 * 16 * 4]
        assert [PROGRAM.split("\n")[row["line"] - 1].strip() for row in rows] == [row["code"] for row in rows]
        assert all("functional." in row["code"] for row in rows)


def test_times_are_per_rank(ranks: Ranks) -> None:
    """Each rank says how often it compiled and what the compiler's phases took."""
    assert [(row["rank"], row["compiles"]) for row in ranks.times] == [(0, 2), (1, 2)]
    assert all(row["compile_seconds"] > 0 for row in ranks.times)


def test_the_rank_that_comes_late_to_a_collective_is_named(ranks: Ranks) -> None:
    """Rank 1 sleeps 50 ms before each call: rank 0 waits as long in the first collective, whose line is named, not in the second.

    The first of the five calls, in which ranks compile, does not count.
    """
    waits = {row["operator"]: row for row in ranks.waits}
    row = waits["all_reduce"]
    assert (row["late"], row["runs"], row["late_runs"], row["group"]) == (1, 4, 4, (0, 1))
    assert row["waited"] > 4 * 0.045 and row["seconds"]["0"] > 4 * 0.045 > row["seconds"]["1"]
    assert PROGRAM.split("\n")[row["line"] - 1].strip() == row["code"] and "all_reduce" in row["code"]
    assert waits["all_gather_into_tensor"]["waited"] < row["waited"]
    late, waited = ([each[name] for each in ranks.times] for name in ("late", "waited"))
    assert late[1] >= row["waited"] and waited[0] > 4 * 0.045 > waited[1]
    lines = str(ranks).splitlines()
    assert any(not untold(line, "last", "rank 1", "others", "ms", "all_reduce") for line in lines) and row["code"] in str(ranks)


def test_merge_prints_the_divergence_and_writes_one_file(
    ranks: Ranks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explorer ranks` says what `str` of the ranks says, and `explorer show` says it of the file."""
    for rank, trace in ranks.items():
        trace.save(tmp_path / f"trace.rank{rank}.json.gz")
    file = tmp_path / "job.ranks"
    assert cli.main(["ranks", str(tmp_path), "-o", str(file)]) == 0
    merged = capsys.readouterr().out
    assert not untold(merged, str(len(ranks.divergences)), ranks.divergences[0]["kind"], "return x.sin() + 1")
    assert cli.main(["show", str(file)]) == 0
    assert capsys.readouterr().out.split("\n")[1:] == merged.split("\n")[1:]


def test_the_two_are_shown_side_by_side(ranks: Ranks, tmp_path: Path) -> None:
    """`compare` has the ranks of the first divergence, named, and the page has both."""
    comparison = ranks.compare()
    assert comparison.names == ("rank 0", "rank 1")
    ranks.to_html(tmp_path / "ranks.html")
    assert (tmp_path / "ranks.html").stat().st_size > 10_000


#: Three ranks: rank 2 calls `other` with another shape, rank 1 `mode` under another guard, rank 0 exchanges in another order, and
#: cannot compile `failing`. Where it does not matter there is no Inductor.
THREE = """
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank = dist.get_rank()
MODE = "train" if rank == 1 else "eval"

@torch.compile
def same(x):
    return functional.all_reduce(x.sum(0), "sum", dist.group.WORLD).relu()

@torch.compile(backend="aot_eager")
def other(x):
    return x.sin() + 1

@torch.compile
def mode(x):
    if MODE != "debug":
        return x.cos() + 1
    return x

def sums_first(x):
    a = functional.all_reduce(x, "sum", A)
    b = functional.all_gather_tensor(x, 0, B)
    return a + b[: len(x)]

def parts_first(x):
    b = functional.all_gather_tensor(x, 0, B)
    a = functional.all_reduce(x, "sum", A)
    return a + b[: len(x)]

@torch.compile
def ordered(x):
    return parts_first(x) if rank == 0 else sums_first(x)

@torch.compile(backend="aot_eager", fullgraph=True)
def failing(x):
    y = x + 1
    if rank == 0:
        return x.view(5) + y
    return x.cos() + y

A, B = dist.new_group([0, 1, 2]), dist.new_group([0, 1, 2])
same(torch.ones(8, 16))
other(torch.ones(24 if rank == 2 else 16))
mode(torch.ones(16))
ordered(torch.ones(8))
try:
    failing(torch.ones(16))
except RuntimeError:
    pass
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, warm: str) -> Ranks:
    """The three ranks of the program above."""
    loaded = explorer.load(traced(warm, 3, THREE, tmp_path_factory.mktemp("three")))
    assert isinstance(loaded, Ranks)
    return loaded


def rows_of(ranks: Ranks, frame: str) -> list[tuple[str, tuple[int, ...], tuple[int, ...], str]]:
    """The divergences of a compile: their kinds, who differs from whom, and the line."""
    return [(row["kind"], row["ranks"], row["others"], row["code"]) for row in ranks.divergences.where(frame=frame)]


def test_of_three_ranks_the_one_with_another_shape_is_named(three: Ranks) -> None:
    """Two ranks against one, with the line; the function that all call alike is equal on all three."""
    assert three.groups == ((0,), (1,), (2,))
    assert rows_of(three, "0/0") == []
    assert rows_of(three, "1/0")[0] == ("graph", (2,), (0, 1), "return x.sin() + 1")
    assert "[24]" in three.divergences[0]["here"] and "[16]" in three.divergences[0]["there"]


def test_a_rank_with_another_guard_only_is_named(three: Ranks) -> None:
    """Its graph and kernels are those of the others, and the guard has both values."""
    assert [row[:3] for row in rows_of(three, "2/0")] == [("guards", (1,), (0, 2))]
    (row,) = three.divergences.where(frame="2/0")
    assert "'train'" in row["here"] and "'eval'" in row["there"] and row["code"] == 'if MODE != "debug":'


def test_a_rank_that_exchanges_in_another_order_is_named(three: Ranks) -> None:
    """The first collective that is another one, with the line on which the rank calls it."""
    (row,) = (row for row in three.divergences if row["kind"] == "collective order")
    assert (row["ranks"], row["others"]) == ((0,), (1, 2))
    assert not untold(row["here"], "all_gather_into_tensor", "float32[8]")
    assert not untold(row["there"], "all_reduce", "float32[8]")
    assert row["code"] == "b = functional.all_gather_tensor(x, 0, B)"


def test_a_compile_that_fails_on_one_rank_is_named_with_the_line(three: Ranks) -> None:
    """Its compile id, the line of the program that torch names, and torch's message."""
    (row,) = (row for row in three.divergences if row["kind"] == "failed compile")
    assert (row["frame"], row["ranks"], row["others"]) == ("4/0", (0,), (1, 2))
    assert row["code"] == "return x.view(5) + y" == THREE.split("\n")[row["line"] - 1].strip()
    assert row["here"].startswith("TorchRuntimeError") and row["there"] == "compiled"
