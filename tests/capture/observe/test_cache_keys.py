"""What missed the cache: the nearest key, of the recording, another run or the cache on disk, held to torch's own keys."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

import explorer
from explorer.capture.observe import cache_keys
from explorer.capture.observe.cache_keys import ENTRIES, KeyLog, StoredKeys, pickled_parts
from explorer.stages.torch_compile.cache_keys import key_parts
from tests.inductor_caches import caches_in, call, misses


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder as Inductor's cache, with the caches switched on."""
    with caches_in(tmp_path):
        yield tmp_path


@pytest.mark.compile
def test_a_miss_says_which_input_and_which_setting_is_another(folder: Path) -> None:
    """A new size, a setting and requires_grad are each named, against the nearest key of the same recording."""
    with explorer.record() as recording:
        call()
        call(5)
        with torch._inductor.config.patch(max_autotune=True):
            call()
    sized, tuned = misses(recording.trace, "FX graph")[1:]
    first = misses(recording.trace, "FX graph")[0]
    size = "example_inputs[0]: shape=torch.Size([4, 4]), stride=(4, 1) → shape=torch.Size([5, 5]), stride=(5, 1)"
    assert (sized["nearest"], sized["differs"]) == (first["key"], (size,))
    assert (tuned["nearest"], tuned["differs"]) == (first["key"], ("inductor_config[max_autotune]: False → True",))
    assert [row["differs"] for row in misses(recording.trace, "AOTAutograd")] == [(), (size,), tuned["differs"]]
    assert size in recording.trace.text("cache") and recording.trace.failures == ()


@pytest.mark.compile
def test_a_miss_is_compared_with_what_the_cache_on_disk_has(folder: Path) -> None:
    """A graph that was compiled before the recording, as by another process, is the nearest: its key stands in its file."""
    call()
    ((stored, parts),) = StoredKeys(folder / "fxgraph").before(math.inf)
    with explorer.record() as recording:
        call(5)
    (row,) = misses(recording.trace, "FX graph")
    assert row["nearest"] == stored and "shape=torch.Size([4, 4])" in str(row["differs"])
    (kept,) = (path for path in (folder / "fxgraph").glob(f"*/{stored}/*"))
    graph = pickle.loads(kept.read_bytes())
    assert parts == key_parts(graph._fx_graph_cache_debug_lines)


def listed(**parts: object) -> list[str]:
    """Parts of a key as torch lists them."""
    hashes = {name: base64.b32encode(hashlib.sha256(str(value).encode()).digest())[:51].decode() for name, value in parts.items()}
    return [f"[{hashes[name].lower()}] {name}: {value}" for name, value in parts.items()]


def store(folder: Path, key: str, at: float, **parts: object) -> Path:
    """Write an entry of Inductor's cache with a time."""
    path = folder / key[:2] / key / "graph"
    path.parent.mkdir(parents=True)
    path.write_bytes(pickle.dumps(listed(**parts)))
    os.utime(path, (at, at))
    return path


def test_entries_written_later_do_not_hide_earlier_ones(tmp_path: Path) -> None:
    """The recording may be read long after the miss, when the newest entries are those of other programs."""
    store(tmp_path, "near", 10, size=4, tuned=False)
    store(tmp_path, "far", 20, size=6, tuned=True)
    for number in range(ENTRIES):
        store(tmp_path, f"{number}_later", 100 + number, size=5, tuned=False)
    noted = KeyLog().add("FX graph", "key", listed(size=5, tuned=False))
    for at, expected in ((50, "near"), (5, ""), (10, ""), (1000, f"{ENTRIES - 1}_later")):
        assert noted.compare(tmp_path, at).nearest == expected
    assert noted.compare(tmp_path, 50).differs == ("size: 4 → 5",)


def test_an_entry_that_is_removed_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its time is asked, or before it is read."""
    kept, listed_only = store(tmp_path, "kept", 1, size=1), store(tmp_path, "listed", 2, size=2)
    gone = store(tmp_path, "gone", 3, size=3)
    exists = Path.is_file

    def removed(path: Path) -> bool:
        answer = exists(path)
        if path == gone:
            path.unlink()
        return answer

    monkeypatch.setattr(Path, "is_file", removed)
    keys = StoredKeys(tmp_path)
    assert not gone.exists()
    listed_only.unlink()
    assert [name for name, _ in keys.before(math.inf)] == [kept.parent.name]


def test_each_key_is_parsed_once_however_many_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 misses of 400 parts: once each, not once for each later miss, which took 17 s."""
    parsed, count = [], 400

    def counted(lines: Iterable[str]) -> dict[str, str]:
        parts = key_parts(lines)
        parsed.append(len(parts))
        return parts

    monkeypatch.setattr(cache_keys, "key_parts", counted)
    log, same = KeyLog(), {f"part{number}": number for number in range(count)}
    noted = [log.add("FX graph", f"key{number}", listed(**{**same, "part7": f"x{number}"})) for number in range(count)]
    compared = [each.compare(None, 0.0) for each in noted]
    assert [each.nearest for each in compared] == ["", *(f"key{number}" for number in range(count - 1))]
    assert compared[-1].differs == ("part7: x398 → x399",)
    assert len(parsed) <= 1 + 2 * count and sum(parsed) <= 3 * count


def test_strings_are_found_in_a_pickle_as_they_are() -> None:
    """Short ones and long ones have their length before them in two ways."""
    key = "[" + "a" * 51 + "] "
    lines = [f"{key}gm: {'x' * 300}", f"{key}name: text", "something else"]
    assert list(pickled_parts(pickle.dumps(lines))) == lines[:2]


@pytest.mark.compile
def test_with_fresh_a_miss_says_that_nothing_was_looked_up(folder: Path) -> None:
    """The cache may well have the graph: nothing is said of a nearest key."""
    call()
    with explorer.record(fresh=True) as recording:
        call()
    rows = misses(recording.trace, "FX graph")
    assert rows and all("the recording is fresh" in str(row["reason"]) and row["nearest"] == "" for row in rows)


@pytest.mark.compile
def test_counters_and_keys_are_those_of_the_program_alone(folder: Path) -> None:
    """torch counts the same hits and misses with a recording as without, and the rows are as many."""

    def run() -> dict[str, dict[str, int]]:
        counters.clear()
        for size in (4, 5, 4):
            call(size)
        return {of: {name: n for name, n in counters[of].items() if "cache" in name} for of in ("inductor", "aot_autograd")}

    alone = run()
    for name in ("fxgraph", "aotautograd"):
        (folder / name).rename(folder / f"away_{name}")
    with explorer.record() as recording:
        recorded = run()
    assert recorded == alone
    states = [(row["cache"], row["state"]) for row in recording.trace.compiler.caches]
    assert states.count(("FX graph", "miss")) == recorded["inductor"]["fxgraph_cache_miss"] == 2
    assert states.count(("FX graph", "hit")) == recorded["inductor"]["fxgraph_cache_hit"] == 1
    assert states.count(("AOTAutograd", "hit")) == recorded["aot_autograd"]["autograd_cache_hit"] == 1
    keys = {path.name for path in (folder / "fxgraph").glob("*/*")}
    assert keys == {path.name for path in (folder / "away_fxgraph").glob("*/*")}


PROCESS = """
import torch
from torch._dynamo.utils import counters

def product(a):
    return a @ a

torch.compile(product)(torch.ones(4, 4))
print(counters["inductor"]["fxgraph_cache_hit"], counters["aot_autograd"]["autograd_cache_hit"], flush=True)
"""
#: Two processes, forked from one that has imported torch and compiled nothing: the program with a recording, and without one.
TWO = """
import os, runpy, sys, explorer
import torch._inductor.compile_fx
from contextlib import nullcontext

for around in (explorer.record, nullcontext):
    if os.fork():
        assert os.wait()[1] == 0
        continue
    with around() as recording:
        runpy.run_path(sys.argv[1])
    if recording is not None:
        print(*(row["state"] for row in recording.trace.compiler.caches), flush=True)
    os._exit(0)
"""


@pytest.mark.usefixtures("warm_python")
@pytest.mark.compile
def test_another_process_hits_what_a_recording_wrote(folder: Path) -> None:
    """torch's counters in the other process say so: the keys have nothing of the recording in them."""
    script = folder / "program.py"
    script.write_text(PROCESS, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", TWO, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0", "miss", "miss", "1", "1"]
