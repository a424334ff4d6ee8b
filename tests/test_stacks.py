"""The script of real stacks compares a warm recording with the cold one; here for one stack of torch alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.benchmarks

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "stacks.py"


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch, module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The script's module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return module_at(SCRIPT)


def test_what_a_warm_recording_lacks_is_said(tmp_path: Path) -> None:
    """The package of a function that Dynamo kept: no link of the second recording is lost in silence, and fresh has all."""
    file = tmp_path / "rows.json"
    command = [sys.executable, str(SCRIPT), "--only", "precompiled", "--fresh", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 stacks, 0 defects" in done.stdout
    table = {
        (stage, verdict) for _, _, stage, *_, verdict, _ in (line.split("|") for line in done.stdout.splitlines() if "|" in line)
    }
    assert (" dynamo ", " said ") in table
    rows = json.loads(file.read_text())
    assert {how: row["kind"] for how, row in rows["precompiled"].items()} == dict.fromkeys(
        ("cold", "warm", "plain", "fresh"), "ran"
    )


@pytest.mark.parametrize("said", [False, True])
def test_a_loss_counts_as_a_defect_unless_the_trace_names_it(stacks: ModuleType, said: bool) -> None:
    """Fewer linked lines, or no text, are a loss; the notice about their frame names them, about another frame it does not."""
    cold = {"kind": "ran", "places": [["0/0", "", "dynamo", 3, 3, 3], ["0/0", "forward", "kernel", 9, 5, 5]]}
    notice = {"notice": "from a cache: …", "not_seen": [["0/0" if said else "1/0", "", ["dynamo"]]], "failures": []}
    warm = {"kind": "ran", "places": [["0/0", "forward", "kernel", 9, 5, 4]], **notice}
    found = stacks.wrong({"cold": cold, "warm": warm, "plain": {"kind": "ran"}})
    assert len(found) == (0 if said else 2)


def test_other_results_and_own_failures_are_defects(stacks: ModuleType) -> None:
    """A stack that gives another sum, that raises under explorer alone, or whose recording fails at a step of explorer's."""
    plain, empty = {"kind": "ran", "sums": [1.0]}, {"places": [], "failures": []}
    assert stacks.wrong({"cold": {**plain, **empty}, "plain": plain, "warm": {**plain, **empty}}) == []
    other = {**empty, "kind": "ran", "sums": [2.0]}
    raised = {**empty, "kind": "raised", "why": "RuntimeError: ours"}
    failed = {**plain, "places": [], "failures": [["kernel", "link", "ours"]]}
    for row in (other, raised, failed):
        assert len(stacks.wrong({"cold": row, "plain": plain, "warm": {**plain, **empty}})) == 1
