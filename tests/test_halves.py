"""The processes of `benchmarks/fidelity.py`: each half is saved as it ends, resumed, and stopped when its time is over."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.facts import untold

pytestmark = pytest.mark.benchmarks

ROOT = Path(__file__).parent.parent
#: What a process runs: it writes the half of its workload, and says what it sees of a GPU.
WRITES = """
import json, os, sys, time
workload, file = sys.argv[1:]
if workload == "fails":
    sys.exit("no such model")
if workload == "sleeps":
    time.sleep(60)
with open(file, "w") as out:
    json.dump({f"{workload} inference": {"sees": os.environ.get("CUDA_VISIBLE_DEVICES")}}, out)
"""


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script's module, in an environment that names a GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("halves")


def command(half: object, file: Path) -> list[str]:
    return [sys.executable, "-c", WRITES, half.workload, str(file)]  # type: ignore[attr-defined]


def test_a_half_without_its_gpu_sees_none(halves: ModuleType, tmp_path: Path) -> None:
    """The half for a GPU by name runs in a process that sees no GPU; the attached GPU's half sees it."""
    both = [halves.Half(device, "mlp", "float32") for device in ("cuda", "h200")]
    made = dict(halves.make_halves(both, command, tmp_path, halves.Limits(jobs=2)))
    assert [made[half]["mlp inference"]["sees"] for half in both] == ["0", ""]


def test_a_finished_half_is_not_made_again(halves: ModuleType, tmp_path: Path) -> None:
    """A run is resumed from its folder, also where nothing may be started any more."""
    one, other = halves.Half("h200", "mlp", "float32"), halves.Half("h200", "mlp", "bfloat16")
    assert len(list(halves.make_halves([one], command, tmp_path, halves.Limits()))) == 1
    again = dict(halves.make_halves([other, one], command, tmp_path, halves.Limits(all=0)))
    assert again[one] == {"mlp inference": {"sees": ""}}
    (error,) = {case["error"] for case in again[other].values()}
    assert not untold(error, "not finished", "begun")


def test_a_half_is_stopped_when_its_time_is_over(halves: ModuleType, tmp_path: Path) -> None:
    """It is named, the others are made, and the next run tries it again."""
    slow, fast = halves.Half("h200", "sleeps", "float32"), halves.Half("h200", "mlp", "float32")
    made = dict(halves.make_halves([slow, fast], command, tmp_path, halves.Limits(jobs=2, each=3)))
    (error,) = {case["error"] for case in made[slow].values()}
    assert not untold(error, "not finished", "3 s")
    assert "mlp inference" in made[fast]
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["h200-mlp-float32.json"]


def test_a_process_that_fails_says_why(halves: ModuleType, tmp_path: Path) -> None:
    """Its last line stands in place of its traces."""
    ((_, cases),) = halves.make_halves([halves.Half("h200", "fails", "float32")], command, tmp_path, halves.Limits())
    (error,) = {case["error"] for case in cases.values()}
    assert not untold(error, "1", "no such model")


def test_one_process_at_a_time_uses_the_gpu(halves: ModuleType) -> None:
    """True times need that, so a half that needs no GPU goes first."""
    real, ours = halves.Half("cuda", "mlp", "float32"), halves.Half("h200", "mlp", "float32")
    running = [halves.Running(halves.Half("cuda", "gpt2", "float32"), None)]
    assert halves.next_half([real, ours], running, halves.Limits(jobs=4)) == ours
    assert halves.next_half([real, ours], running, halves.Limits(jobs=4, on_the_gpu=2)) == real
    assert halves.next_half([real, ours], running, halves.Limits(jobs=1)) is None
