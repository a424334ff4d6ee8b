"""What of ranks is read: each text once, however many ranks have it, and places only of what differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.sources.files import trace_file
from explorer.sources.ranks import parts
from explorer.tracing.traced import ranks as traced_ranks
from explorer.tracing.traced.ranks import Ranks
from tests.facts import untold

RANKS = 4


@pytest.fixture
def one(zoo: Callable[[str], explorer.Trace]) -> explorer.Trace:
    """What each rank computes."""
    return zoo("softmax h100")


@pytest.fixture
def saved(one: explorer.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of ranks that took different times, written in parts, as those of large traces are."""
    monkeypatch.setattr(trace_file, "LARGE", 0)
    for rank in range(RANKS):
        later = tuple(replace(a, seconds=rank + 0.5, time=rank * 1e-9) for a in one.artifacts)
        replace(one, artifacts=later).save(tmp_path / f"trace.rank{rank}.json.gz")
    return tmp_path


def file_of(trace: explorer.Trace) -> str:
    """The file of a trace's program."""
    return str(trace.find("source")[0].data["file"])


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """The calls of a function from now on, by its last argument."""
    calls: list[Any] = []
    function: Callable[..., Any] = getattr(module, name)

    def counting(*args: Any) -> Any:
        calls.append(args[-1])
        return function(*args)

    monkeypatch.setattr(module, name, counting)
    return calls


def loaded(folder: Path) -> Ranks:
    """The ranks of a folder."""
    ranks = explorer.load(folder)
    assert isinstance(ranks, Ranks)
    return ranks


def test_what_ranks_have_alike_is_made_once(one: explorer.Trace, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four ranks that took other times each graph and kernel is made into items once, and no place is looked for."""
    made, placed = counted(monkeypatch, parts, "_made_of"), counted(monkeypatch, parts, "origins")
    assert loaded(saved).groups == (tuple(range(RANKS)),)
    compared = [a.id for a in one.artifacts if a.stage in parts.GRAPHS or a.stage == "kernel"]
    assert sorted(a.id for a in made) == sorted(compared) and len(compared) > 2
    assert not placed


def test_graphs_are_not_read_for_collectives_that_no_graph_has(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question for collectives reads every graph of a rank: it is not asked where none has one."""
    asked = counted(monkeypatch, parts, "collective_rows")
    loaded(saved)
    assert not asked


def test_a_kernel_that_differs_is_placed(one: explorer.Trace, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of the program is that of the kernel on the rank that differs, and the only place that is read."""
    kernel = one.kernels[0].artifact
    other = tuple(
        replace(a, text=a.text.replace("tl.program_id(0)", "tl.program_id(1)")) if a == kernel else a for a in one.artifacts
    )
    replace(one, artifacts=other).save(saved / "trace.rank2.json.gz")
    placed = counted(monkeypatch, traced_ranks, "place_in")
    ranks = loaded(saved)
    (row,) = ranks.divergences
    assert len(placed) == 1
    assert (row["kind"], row["ranks"]) == ("kernels", (2,)) and "program_id(1)" in row["here"]
    assert row["file"] == file_of(one) and row["code"] == "y = torch.tanh(x @ w)"


def test_a_node_that_differs_is_placed(one: explorer.Trace, zoo: Callable[[str], explorer.Trace], saved: Path) -> None:
    """Of a graph the line is that of the node."""
    graph, other = one.find("dynamo")[0], zoo("softmax h100 edited").find("dynamo")[0]
    changed = tuple(replace(a, data=other.data) if a == graph else a for a in one.artifacts)
    replace(one, artifacts=changed).save(saved / "trace.rank1.json.gz")
    first = loaded(saved).divergences[0]
    assert (first["kind"], first["ranks"]) == ("graph", (1,))
    assert "sum" in first["here"] and first["file"] == file_of(one) and first["line"] > 0


def test_the_files_may_be_gone_once_they_are_loaded(saved: Path) -> None:
    """What is compared stays known; only the traces themselves are read again."""
    ranks = loaded(saved)
    for file in saved.iterdir():
        file.unlink()
    assert ranks.groups == (tuple(range(RANKS)),) and not untold(str(ranks), "same", f"rank 0-{RANKS - 1}")
