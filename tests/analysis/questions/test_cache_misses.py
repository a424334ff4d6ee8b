"""What missed the cache: the keys of one run, compared with those that the recording of another run has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import explorer
from tests.inductor_caches import caches_in, call, misses

pytestmark = pytest.mark.compile


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder as Inductor's cache, with the caches switched on."""
    with caches_in(tmp_path):
        yield tmp_path


def test_what_missed_is_compared_with_another_run(folder: Path, tmp_path: Path) -> None:
    """The recording of one run, saved and loaded, says what a later run asked for otherwise; the key it had is told apart."""
    with explorer.record() as first:
        call()
        call(5)
    file = tmp_path / "first.json.gz"
    first.trace.save(file)
    for name in ("fxgraph", "aotautograd"):
        (folder / name).rename(folder / f"away_{name}")
    with explorer.record() as second:
        call()
        with torch._inductor.config.patch(max_autotune=True):
            call(5)
    rows = explorer.compare(explorer.load(file), second.trace).cache_misses.where(cache="FX graph")
    keys = [row["key"] for row in misses(first.trace, "FX graph")]
    assert [row["nearest"] for row in rows] == keys
    assert [row["differs"] for row in rows] == [(), ("inductor_config[max_autotune]: False → True",)]
