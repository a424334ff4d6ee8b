"""Ranks compared: what counts as equal, what is named where they differ, and what is not compared."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.model.records import changed
from explorer.model.values import Event, Failure
from explorer.sources.ranks.divergences import without_rank_numbers
from explorer.sources.ranks.parts import Item, Place, neutral
from explorer.stages.dynamo.same_text import same_text
from explorer.stages.replay import replay
from explorer.stages.torch_compile.eager_collective import EagerCollectives
from explorer.tracing.traced.ranks import Ranks
from tests.facts import in_a_line, says, untold
from tests.sent_collectives import ALL_REDUCE

LOGS = Path(__file__).parents[2] / "data" / "logs"


Zoo = Callable[[str], explorer.Trace]


@pytest.fixture
def small(zoo: Zoo) -> explorer.Trace:
    """What most ranks compute: a trace of Dynamo's graph alone, as those of the other ranks are."""
    return zoo("doubled")


def place(rank: int, item: Item) -> Place:
    """The place of an item that has it."""
    return item.place


def ranks_of(folder: Path, traces: Sequence[explorer.Trace]) -> Ranks:
    """Save a trace a rank into a folder, and load it."""
    for number, one in enumerate(traces):
        one.save(folder / f"trace.rank{number}.json.gz")
    loaded = explorer.load(folder)
    assert isinstance(loaded, Ranks)
    return loaded


def test_a_rank_with_another_shape_is_named_with_the_line(small: explorer.Trace, zoo: Zoo, tmp_path: Path) -> None:
    """The others are one group; the row has both shapes, and the line of the program."""
    ranks = ranks_of(tmp_path, [small, small, zoo("doubled of 5"), small])
    first = ranks.divergences[0]
    assert ranks.groups == ((0, 1, 3), (2,))
    assert (first["kind"], first["ranks"], first["others"]) == ("graph", (2,), (0, 1, 3))
    assert "[5]" in first["here"] and "[4]" in first["there"]
    assert Path(first["file"]).read_text(encoding="utf-8").split("\n")[first["line"] - 1].strip() == "return x + x"
    assert f"zoo_programs.py:{first['line']}" in str(ranks) and "rank 0-1, 3" in str(ranks)


def sending(trace: explorer.Trace, *sizes: int, sender: str = "DDP") -> explorer.Trace:
    """The trace of a rank that also sends all_reduces of these bytes outside of its graphs."""
    rows = tuple(
        changed(ALL_REDUCE, bytes=size, shape=(size // 4,), sender=sender, file="train.py", line=n)
        for n, size in enumerate(sizes, 1)
    )
    data = EagerCollectives(rows=rows, graphs=(), order=tuple(range(len(rows))), left_out=0)
    (artifact,) = replay([Event(kind="eager_collective", time=0.0, data=data)]).find("eager_collective")
    return replace(trace, artifacts=(*trace.artifacts, artifact))


def test_a_rank_whose_hooks_send_otherwise_is_named(small: explorer.Trace, tmp_path: Path) -> None:
    """The first collective of DDP's that is of another size, or missing, with who sends it; the group is that of both ranks."""
    ranks = ranks_of(tmp_path, [sending(small, 64, 128), sending(small, 64, 256)])
    (row,) = ranks.divergences
    assert (row["kind"], row["stage"], row["graph"], row["ranks"]) == ("collective size", "eager_collective", "0, 1", (1,))
    assert not untold(row["here"], "all_reduce", "256 bytes", "DDP") and "128 bytes" in row["there"] and row["line"] == 2
    (fewer,) = ranks_of(tmp_path, [sending(small, 64, 128), sending(small, 64)]).divergences
    assert (fewer["kind"], fewer["here"]) == ("number of collectives", "")


def test_what_python_sends_is_not_compared(small: explorer.Trace, tmp_path: Path) -> None:
    """Sizes may depend on each rank's data there, as in an all_to_all of experts."""
    ranks = ranks_of(tmp_path, [sending(small, 64, sender="Python"), sending(small, 128, sender="Python")])
    assert not ranks.divergences and ranks.groups == ((0, 1),)


def test_another_function_ends_the_comparison_with_the_others(small: explorer.Trace, zoo: Zoo, tmp_path: Path) -> None:
    """What comes after is compared among the ranks that compile the same function."""
    other = zoo("squared")
    ranks = ranks_of(tmp_path, [small, other, other])
    assert [(row["kind"], row["ranks"]) for row in ranks.divergences] == [("function", (0,))]
    assert ranks.groups == ((1, 2), (0,))


def test_nothing_compared_is_not_equal(small: explorer.Trace, tmp_path: Path) -> None:
    """A rank without guards, one that compiled nothing, a damaged file and one that is not there are each named, in no group."""
    without = replace(small, artifacts=tuple(a for a in small.artifacts if a.stage != "guards"))
    empty = explorer.Trace({"rank": 3, "world": 6})
    (tmp_path / "trace.rank4.json.gz").write_bytes(b"\x1f\x8b")
    ranks = ranks_of(tmp_path, [small, small, without, empty])
    assert ranks.groups == ((0, 1), (2,)) and not ranks.divergences
    assert [(row["rank"], row["stage"]) for row in ranks.not_compared] == [(2, "guards"), (3, "")]
    assert ranks.not_recorded == (5,) and list(ranks.unreadable) == [4]
    for facts in (("file", "rank 5"), ("rank 4", ranks.unreadable[4]), ("rank 2", "guards"), ("rank 3", "graph")):
        assert in_a_line(ranks, *facts)
    with pytest.raises(explorer.errors.FileError, match=says("rank 4", ranks.unreadable[4])):
        ranks[4]


def test_ranks_whose_frame_dynamo_skipped_are_not_called_equal(small: explorer.Trace, tmp_path: Path) -> None:
    """Their compiles began and made no graph, so there is nothing in which they are equal."""
    kept = tuple(a for a in small.artifacts if a.stage in ("source", "compile_call", "phase"))
    ranks = ranks_of(tmp_path, [replace(small, artifacts=kept)] * 2)
    assert ranks.groups == () and not ranks.divergences
    assert [(row["rank"], row["stage"]) for row in ranks.not_compared] == [(0, ""), (1, "")]
    assert in_a_line(ranks, "rank 0-1", "graph") and untold(str(ranks), "divergence")


def test_ranks_that_have_guards_alone_are_not_called_equal(small: explorer.Trace, tmp_path: Path) -> None:
    """As of functions that Dynamo leaves to Python: they have guards, and compute nothing that was compared."""
    kept = tuple(a for a in small.artifacts if a.stage in ("source", "guards"))
    ranks = ranks_of(tmp_path, [replace(small, artifacts=kept)] * 2)
    assert ranks.groups == () and in_a_line(ranks, "rank 0-1", "graph") and untold(str(ranks), "same")


def test_one_file_of_all_ranks_gives_the_same(small: explorer.Trace, zoo: Zoo, tmp_path: Path) -> None:
    """The file has each rank's trace unchanged, and equal ranks give equal bytes."""
    (tmp_path / "job").mkdir()
    ranks = ranks_of(tmp_path / "job", [small, zoo("doubled of 5")])
    ranks.save(tmp_path / "all.ranks")
    again = explorer.load(tmp_path / "all.ranks")
    assert dict(again) == dict(ranks) and again.divergences == ranks.divergences
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "all.ranks").read_bytes()
    (tmp_path / "all.ranks").write_bytes((tmp_path / "all.ranks").read_bytes()[:-300])
    with pytest.raises(explorer.errors.FileError):
        explorer.load(tmp_path / "all.ranks")


def test_which_ranks_there_are_is_told_without_reading_them(
    small: explorer.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that cannot be read is none of them, and no error until it is asked for."""
    ranks_of(tmp_path, [small] * 3)
    (tmp_path / "trace.rank1.json.gz").write_text("no trace")
    ranks = explorer.load(tmp_path)
    assert isinstance(ranks, Ranks) and list(ranks) == [0, 2]
    assert ranks.get(1) is None and ranks.get(0) == small
    monkeypatch.setattr(Ranks, "__getitem__", lambda *_: pytest.fail("a trace was read"))
    assert [rank in ranks for rank in (0, 1, 2, 3)] == [True, False, True, False] and "0" not in ranks


def test_two_files_of_one_rank_are_refused(small: explorer.Trace, tmp_path: Path) -> None:
    """They are of two jobs, and nothing says which belongs to the others."""
    small.save(tmp_path / "other.rank0.json.gz")
    with pytest.raises(explorer.errors.FileError, match=says("rank 0", "other.rank0.json.gz", "trace.rank0.json.gz")):
        ranks_of(tmp_path, [small, small])


def test_the_end_of_a_ranks_part_may_stand_in_another_node() -> None:
    """As in a sharded embedding, x < 64 × rank and x >= 64 × (rank + 1) on two ranks."""
    starts, ends = ("lt(x, 0)", "lt(x, 64)"), ("ge(x, 64)", "ge(x, 128)")
    items = {rank: [Item(text, text) for text in (starts[rank], ends[rank])] for rank in (0, 1)}
    keys, replaced = without_rank_numbers(items, place, {64})
    assert keys[0] == keys[1] and len(replaced) == 2


def test_two_ranks_need_the_length_of_a_dimension() -> None:
    """Any two numbers of which the first is 0 are n × rank, so of two ranks n is a part's length, or they differ."""
    items = {rank: [Item(text, text)] for rank, text in enumerate(("sub(x, 0)", "sub(x, 64)"))}
    for lengths in (set[int](), {32}):
        keys, replaced = without_rank_numbers(items, place, lengths)
        assert keys[0] != keys[1] and not replaced
    ones = {rank: [Item(text, text)] for rank, text in enumerate(("cumsum(x, 0)", "cumsum(x, 1)"))}
    keys, replaced = without_rank_numbers(ones, place, {1})
    assert keys[0] != keys[1] and not replaced


def test_another_argument_on_two_ranks_is_a_divergence(zoo: Zoo, tmp_path: Path) -> None:
    """cumsum along 0 on rank 0 and along 1 on rank 1 is no part of a whole."""
    ranks = ranks_of(tmp_path, [zoo(f"accumulated {rank}") for rank in (0, 1)])
    assert {"graph", "guards"} <= {row["kind"] for row in ranks.divergences}
    assert ranks.groups == ((0,), (1,))


def test_another_operand_is_a_divergence(zoo: Zoo, tmp_path: Path) -> None:
    """mm(x, x), mm(x, y) and mm(x, z) differ by a node, whose place is no number of the program."""
    traces = []
    for rank in (0, 1, 2):
        made = zoo(f"multiplied {rank}")
        traces.append(replace(made, artifacts=tuple(a for a in made.artifacts if a.stage == "dynamo" or a.stage == "source")))
    ranks = ranks_of(tmp_path, traces)
    assert {row["kind"] for row in ranks.divergences} == {"graph"} and len(ranks.groups) == 3


def test_long_numbers_are_compared(zoo: Zoo, tmp_path: Path) -> None:
    """1/3 and 1/7, and long integers, are what the program says and no addresses."""
    traces = [zoo(f"scaled {number}") for number in (1 / 3, 1 / 7)]
    assert "graph" in {row["kind"] for row in ranks_of(tmp_path, traces).divergences}
    assert neutral("seed=123456789012345") != neutral("seed=123456789012346")
    assert neutral("G['__builtins_dict___16']") == neutral("G['__builtins_dict___4']")
    assert neutral("G['___unnamed_scope_140059514723456_c7']") == neutral("G['___unnamed_scope_140122577162944_c7']")


@pytest.mark.parametrize("program", ["scaled in a branch", "with keyword"])
def test_graphs_inside_a_graph_and_keyword_arguments_are_compared(program: str, zoo: Zoo, tmp_path: Path) -> None:
    """The branches of torch.cond are graphs of their own; where only a keyword differs the two labels differ."""
    (row,) = ranks_of(tmp_path, [zoo(f"{program} {number}") for number in (0.5, 0.25)]).divergences.where(kind="graph")
    assert "0.5" in row["there"] and "0.25" in row["here"]


def test_a_graph_without_nodes_is_missing(small: explorer.Trace, tmp_path: Path) -> None:
    """A graph from a cache has no node to compare: of one rank or of all it is named, and never equal."""
    empty = replace(
        small,
        artifacts=tuple(
            replace(a, data={**a.data, "nodes": ()}) if a.stage == "dynamo" else a for a in small.artifacts if a.stage != "guards"
        ),
    )
    (tmp_path / "all").mkdir()
    (tmp_path / "one").mkdir()
    everywhere = ranks_of(tmp_path / "all", [empty, empty])
    assert everywhere.groups == () and not everywhere.divergences
    assert in_a_line(everywhere, "rank", "nodes", "dynamo", "cache")
    one = ranks_of(tmp_path / "one", [small, small, replace(empty, artifacts=(*empty.artifacts, *small.find("guards")))])
    assert [(row["rank"], row["stage"]) for row in one.not_compared] == [(2, "dynamo")]
    assert one.groups == ((0, 1), (2,))


def test_places_that_follow_the_rank_are_said_with_the_group(zoo: Zoo, tmp_path: Path) -> None:
    """Ranks are not called equal without a word where numbers follow the rank."""
    traces = [zoo(f"scaled {number}") for number in (0, 4)]
    ranks = ranks_of(tmp_path, [replace(t, artifacts=tuple(a for a in t.artifacts if a.stage != "guards")) for t in traces])
    assert ranks.groups == ((0, 1),)
    assert in_a_line(ranks, "same", "n × rank", "1 place", "rank 0-1")


@pytest.mark.parametrize("failing", [(1,), (0, 1)])
def test_a_failed_compile_is_named(small: explorer.Trace, tmp_path: Path, failing: Sequence[int]) -> None:
    """Where some ranks failed it is a divergence; where all did, it is said all the same."""
    failed = replace(small, failures=(Failure("compile", "TorchRuntimeError", "no such operator\nmore", fatal=True),))
    ranks = ranks_of(tmp_path, [failed if rank in failing else small for rank in (0, 1)])
    assert [(row["kind"], row["ranks"]) for row in ranks.divergences] == [("failed compile", (1,))] * (len(failing) == 1)
    which = "rank 1" if len(failing) == 1 else "rank 0-1"
    assert in_a_line(ranks, "compile", which, "TorchRuntimeError", "no such operator")


@pytest.mark.parametrize("name", ["trace.json.gz", "trace.rank0.json.gz"])
def test_a_folder_with_one_trace_is_that_trace(small: explorer.Trace, tmp_path: Path, name: str) -> None:
    """A single process, or the one rank that was asked for, leaves one file."""
    small.save(tmp_path / name)
    assert explorer.load(tmp_path) == explorer.load(tmp_path / name)


def test_the_rank_without_a_file_is_named_in_a_job_of_two(small: explorer.Trace, tmp_path: Path) -> None:
    """Where one rank of two left a file, what is loaded is ranks, which name the other."""
    replace(small, meta={**small.meta, "world": 2, "rank": 1}).save(tmp_path)
    ranks = explorer.load(tmp_path)
    assert list(ranks) == [1] and ranks.not_recorded == (0,) and ranks.world == 2
    assert in_a_line(ranks, "no file", "rank 0")


@pytest.mark.parametrize("has_groups", [True, False])
def test_exchanges_that_were_not_seen_are_said(small: explorer.Trace, tmp_path: Path, has_groups: bool) -> None:
    """With process groups and no collective in a graph, as with DDP and FSDP2, it is said that none was seen."""
    groups = {"process_groups": {"0": (0, 1)}} if has_groups else {}
    ranks = ranks_of(tmp_path, [replace(small, meta={**small.meta, **groups})] * 2)
    assert ranks.exchanges_unseen == has_groups == in_a_line(ranks, "exchanges", "DDP", "FSDP2")


def test_each_rank_of_a_cluster_has_its_file(small: explorer.Trace, tmp_path: Path) -> None:
    """Two ranks traced in one process are saved into one folder, and loaded as ranks."""
    for rank in (0, 1):
        replace(small, meta={**small.meta, "world": 2, "rank": rank}).save(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["trace.rank0.json.gz", "trace.rank1.json.gz"]
    assert list(explorer.load(tmp_path)) == [0, 1]


def test_addresses_devices_and_folders_are_no_difference() -> None:
    """What torch prints of a device, an object or a file on each rank is not what it computes; a size is."""
    ones = (
        "check_obj_id(L['fn'].__code__, 10805696)",
        "check_fake_script_type(G['dist'].group.WORLD, 93908256525744), type=<class 'ProcessGroup'>",
        "Tensor, device=0, size=[8]",
        "tensor on cuda:0 at 0x7f00",
        "__dtensor_spec_139623729968960",
        '#include "/tmp/a/b/x.h"',
    )
    others = (
        "check_obj_id(L['fn'].__code__, 10805760)",
        "check_fake_script_type(G['dist'].group.WORLD, 94408256525700), type=<class 'ProcessGroup'>",
        "Tensor, device=1, size=[8]",
        "tensor on cuda:1 at 0x7f10",
        "__dtensor_spec_140004624029056",
        '#include "/tmp/c/x.h"',
    )
    assert list(map(neutral, ones)) == list(map(neutral, others)) == list(map(neutral, map(same_text, ones)))
    assert neutral("size=[8]") != neutral("size=[16]")


@pytest.mark.parametrize(
    ("texts", "sizes", "equal"),
    [
        (("sub(x, 0)", "sub(x, 64)", "sub(x, 128)"), "", True),
        (("slice(x, 0, 64)", "slice(x, 64, 128)", "slice(x, 128, 192)"), "", True),
        (("sub(x, 0)", "sub(x, 64)", "sub(x, 65)"), "", False),
        (("add(x, 1)", "add(x, 2)", "add(x, 3)"), "", False),
        (("x", "x", "x"), "012", False),
        (("sub(x, 0)", "sub(x, 64)", "sub(x, 128)"), "012", False),
    ],
)
def test_numbers_that_follow_the_rank_are_told_apart(texts: Sequence[str], sizes: str, equal: bool) -> None:
    """Where a rank's part begins is n × its rank, and may end n later; any other number, and each size, is a difference."""
    items = {rank: [Item(text, text, size=sizes[rank] if sizes else "")] for rank, text in enumerate(texts)}
    keys, replaced = without_rank_numbers(items, place)
    assert (len(set(keys.values())) == 1) is equal and bool(replaced) is equal


# Logs of others ----------------------------------------------------------------------------------------------------------


def payloads(file: Path, name: str) -> list[Any]:
    """The JSON below each record of a name, read with nothing of explorer's."""
    text = gzip.decompress(file.read_bytes()).decode()
    found = re.findall(rf'"name": "{name}".*\n((?:\t.*\n)+)', text)
    return [json.loads(re.sub(r"(?m)^\t", "", payload)) for payload in found]


def test_the_collectives_of_tlparses_ranks_differ_where_their_schedules_do() -> None:
    """tlparse's own test logs of three ranks: rank 1 lacks the reduce_scatter that the others schedule."""
    ranks = explorer.load(LOGS / "multi_rank_schedule")
    files = sorted((LOGS / "multi_rank_schedule").iterdir())
    schedules = [[name for graph in payloads(file, "inductor_collective_schedule") for name in graph] for file in files]
    assert schedules[0] == schedules[2] != schedules[1]
    at = next(n for n, pair in enumerate(zip(schedules[0], schedules[1], strict=False)) if pair[0] != pair[1])
    (row,) = ranks.divergences
    assert (row["kind"], row["ranks"], row["others"]) == ("collective order", (1,), (0, 2))
    assert (row["there"], row["here"]) == (schedules[0][at], schedules[1][at])


def test_the_graphs_of_tlparses_ranks_run_in_another_order() -> None:
    """tlparse's own test logs of two ranks, which compile the same graphs and run them in another order."""
    ranks = explorer.load(LOGS / "graph_execution")
    files = sorted((LOGS / "graph_execution").iterdir())
    orders = [payloads(file, "graph_execution")[0]["graph_execution_order"] for file in files]
    at = next(n for n, pair in enumerate(zip(*orders, strict=True)) if pair[0] != pair[1])
    row = ranks.divergences.where(kind="order of graphs")[0]
    assert (row["there"], row["here"]) == (orders[0][at]["compile_id"], orders[1][at]["compile_id"])
    assert [time["compiles"] for time in ranks.times] == [2, 2]
