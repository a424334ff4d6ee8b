"""Jobs of two ranks under torchrun with gloo: each is traced, and a rank that is given another shape is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import explorer
from explorer import cli
from explorer.traced.ranks import Ranks

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch with gloo")

#: One function that every rank calls alike, and one that rank 1 calls with another shape.
PROGRAM = """
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

same(torch.ones(8, 16))
other(torch.ones(24 if dist.get_rank() == 1 else 16))
dist.destroy_process_group()
"""


def torchrun(program: str, folder: Path) -> Path:
    """Trace a program on two ranks, as a user does, and return the folder of the traces."""
    (folder / "program.py").write_text(program)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    command = [*launch, sys.executable, "-m", "explorer", "trace", "-o", "out/", "program.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "out"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """The ranks of the program above."""
    loaded = explorer.load(torchrun(PROGRAM, tmp_path_factory.mktemp("job")))
    assert isinstance(loaded, Ranks)
    return loaded


def test_the_rank_with_another_shape_is_found(ranks: Ranks) -> None:
    """The first divergence is in the second function, with its line and both shapes; the first function is equal."""
    first = ranks.first
    assert list(ranks) == [0, 1] and ranks.world == 2 and first is not None
    assert (first["frame"], first["kind"], first["code"]) == ("1/0", "graph", "return x.sin() + 1")
    assert PROGRAM.split("\n")[first["line"] - 1].strip() == first["code"]
    assert "[24]" in first["here"] + first["there"] and "[16]" in first["here"] + first["there"]
    assert {row["frame"] for row in ranks.divergences} == {"1/0"}
    assert not ranks.missing


def test_the_collectives_of_each_rank_are_listed(ranks: Ranks) -> None:
    """In order, with the ranks of the group, though the program ended it, the bytes and the program's line."""
    for number in (0, 1):
        rows = ranks.collectives().where(rank=number)
        assert [(row["operator"], row["ranks"]) for row in rows] == [("all_reduce", (0, 1)), ("all_gather_into_tensor", (0, 1))]
        assert [row["bytes"] for row in rows] == [16 * 4, 2 * 16 * 4]
        assert [PROGRAM.split("\n")[row["line"] - 1].strip() for row in rows] == [row["code"] for row in rows]
        assert all("functional." in row["code"] for row in rows)


def test_times_are_per_rank(ranks: Ranks) -> None:
    """Each rank says how often it compiled and what the compiler's phases took."""
    assert [(row["rank"], row["compiles"]) for row in ranks.times()] == [(0, 2), (1, 2)]
    assert all(row["compile_seconds"] > 0 for row in ranks.times())


def test_merge_prints_the_divergence_and_writes_one_file(
    ranks: Ranks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explorer merge` says what `str` of the ranks says, and `explorer show` says it of the file."""
    for rank, trace in ranks.items():
        trace.save(tmp_path / f"trace.rank{rank}.json.gz")
    file = tmp_path / "job.ranks"
    assert cli.main(["merge", str(tmp_path), "-o", str(file)]) == 0
    merged = capsys.readouterr().out
    assert "first of" in merged and "return x.sin() + 1" in merged
    assert cli.main(["show", str(file)]) == 0
    assert capsys.readouterr().out.split("\n")[1:] == merged.split("\n")[1:]


def test_the_two_are_shown_side_by_side(ranks: Ranks, tmp_path: Path) -> None:
    """`compare` has the ranks of the first divergence, named, and the page has both."""
    comparison = ranks.compare()
    assert comparison.names == ("rank 0", "rank 1")
    ranks.to_html(tmp_path / "ranks.html")
    assert (tmp_path / "ranks.html").stat().st_size > 10_000
