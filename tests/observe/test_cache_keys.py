"""What missed the cache: the nearest key, of the recording, another run or the cache on disk, held to torch's own keys."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

import explorer
from explorer.observe.cache_keys import pickled_parts, stored_keys
from explorer.stages.torch_compile.cache_keys import key_parts


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder as Inductor's cache, with the caches switched on."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=True), torch._functorch.config.patch(enable_autograd_cache=True):
        yield tmp_path


def product(a: torch.Tensor) -> torch.Tensor:
    """A library call: no C++ is compiled."""
    return a @ a


def call(size: int = 4, *, requires_grad: bool = False) -> None:
    """Compile with nothing left of the last compile but the caches."""
    torch._dynamo.reset()
    torch.compile(product)(torch.ones(size, size, requires_grad=requires_grad))


def misses(trace: explorer.Trace, cache: str) -> list[dict[str, object]]:
    return [dict(row) for row in trace.caches if row["cache"] == cache and row["state"] == "miss"]


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


def test_a_miss_is_compared_with_what_the_cache_on_disk_has(folder: Path) -> None:
    """A graph that was compiled before the recording, as by another process, is the nearest: its key stands in its file."""
    call()
    (entry,) = stored_keys(folder / "fxgraph")
    with explorer.record() as recording:
        call(5)
    (row,) = misses(recording.trace, "FX graph")
    assert row["nearest"] == entry[1] and "shape=torch.Size([4, 4])" in str(row["differs"])
    (kept,) = (path for path in (folder / "fxgraph").glob(f"*/{entry[1]}/*"))
    graph = pickle.loads(kept.read_bytes())
    assert entry[2] == key_parts(graph._fx_graph_cache_debug_lines)


def test_strings_are_found_in_a_pickle_as_they_are() -> None:
    """Short ones and long ones have their length before them in two ways."""
    key = "[" + "a" * 51 + "] "
    lines = [f"{key}gm: {'x' * 300}", f"{key}name: text", "something else"]
    assert list(pickled_parts(pickle.dumps(lines))) == lines[:2]


def test_with_fresh_a_miss_says_that_nothing_was_looked_up(folder: Path) -> None:
    """The cache may well have the graph: nothing is said of a nearest key."""
    call()
    with explorer.record(fresh=True) as recording:
        call()
    rows = misses(recording.trace, "FX graph")
    assert rows and all("the recording is fresh" in str(row["reason"]) and row["nearest"] == "" for row in rows)


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
    states = [(row["cache"], row["state"]) for row in recording.trace.caches]
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
print(counters["inductor"]["fxgraph_cache_hit"], counters["aot_autograd"]["autograd_cache_hit"])
"""


def test_another_process_hits_what_a_recording_wrote(folder: Path) -> None:
    """torch's counters in the other process say so: the keys have nothing of the recording in them."""
    script = folder / "program.py"
    script.write_text(PROCESS, encoding="utf-8")
    recorded = f"with explorer.record() as r: runpy.run_path({str(script)!r})"
    code = f"import explorer, runpy\n{recorded}\nprint(*(row['state'] for row in r.trace.caches))"
    wrote, alone = (
        subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout.split()
        for arguments in (("-c", code), (str(script),))
    )
    assert (wrote, alone) == (["0", "0", "miss", "miss"], ["1", "1"])
