"""An error in explorer never breaks the user's program: functions that run while it compiles are made to fail."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.benchmarks, pytest.mark.usefixtures("warm_python")]

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "faults.py"
#: The rooms in which a recording runs functions that a trace does not.
OF_A_RECORDING = ("absent", "observe", "recording")
#: Fails a function of each room that `h100` enters, and of these rooms one that only `record_h100` enters, each in the next of
#: the ways; and in two ways what puts something in the place of torch's own. Prints each with what was wrong.
SAMPLE = f"""
import itertools, json, sys
sys.path[:0] = [{str(SCRIPT.parent)!r}, {str(SCRIPT.parents[1])!r}]
import faults

def room(site):
    _, group, *names = site.split(":")[0].split(".")
    return names[0] if group in ("capture", "lab", "tracing") else group

def of_each_room(sites):
    rooms = {{}}
    for site in sites:
        rooms.setdefault(room(site), []).append(site)
    return [of_room[len(of_room) // 2] for of_room in rooms.values()]

counted, ways = faults.Faults(), itertools.cycle(faults.WAYS)
traced = faults.prepared("h100", counted)
held = next(site for site in traced.entries if "observe.patch:_held:" in site)
tried = [(traced, held, way) for way in ("error at the last entry", "interrupt at one entry")]
tried += [(traced, site, next(ways)) for site in of_each_room(traced.entries)]
recorded = faults.Prepared.of(faults.programs()["record_h100"], counted)
others = [site for site in recorded.entries if site not in traced.entries]
others = [site for site in others if room(site) in {OF_A_RECORDING!r}]
tried += [(recorded, site, next(ways)) for site in of_each_room(others)]
for prepared, site, way in tried:
    print(json.dumps([room(site), site, way, prepared.tried(site, way)]), flush=True)
"""


def test_a_function_of_explorers_that_fails_is_named_and_the_program_runs() -> None:
    """In each room that a trace or a recording enters: the result is right, the loss named, and torch as it was.

    An interrupt reaches the program. `make faults` tries all sites in all ways.
    """
    done = subprocess.run([sys.executable, "-c", SAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    rooms = {room for room, *_ in wrong}
    assert rooms >= {"absent", "compilers", "ladder", "live", "observe", "process", "recording", "stages"}, rooms
    assert len({way for *_, way, _ in wrong}) == 4 and len(wrong) == len(rooms) + len(OF_A_RECORDING) + 2
    assert [row for row in wrong if row[-1] != ""] == []


@pytest.mark.parametrize(("kind", "status"), [("held", 0), ("broke", 1), ("died", 1), ("not tried", 1)])
def test_the_script_counts_what_its_children_answer(
    module_at: Callable[[Path], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    status: int,
) -> None:
    """Of the sites that a program enters, those asked for are tried; one that does not hold is printed, with status 1."""
    faults = module_at(SCRIPT)
    asked: list[str] = []

    def rows(items: list[Any], command: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
        if items == [""]:
            return [{"kind": "sites", "sites": [f"site {number}" for number in range(9)]}]
        asked.extend(site for site, _ in items)
        return [
            {"item": (site, ways), "name": way, "kind": kind if site == items[-1][0] else "held", "why": "because"}
            for site, ways in items
            for way in ways
        ]

    monkeypatch.setattr(faults.children, "rows", rows)
    assert faults.main(["h100", "--every", "3", "--start", "1"]) == status
    printed = capsys.readouterr().out
    assert asked == ["site 1", "site 4", "site 7"]
    assert (f"{kind}: interrupt at one entry: site 7: because" in printed) == bool(status) and "9 sites run" in printed
