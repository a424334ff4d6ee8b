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
#: Fails one function of each room that `h100` enters, and one of these rooms that only `record_h100` enters, in one process;
#: prints each site with what was wrong.
ONE_OF_EACH_ROOM = f"""
import json, sys
sys.path[:0] = [{str(SCRIPT.parent)!r}, {str(SCRIPT.parents[1])!r}]
import faults

counted = faults.Faults()
run, sites = faults.prepared("h100", counted)
recorded, modules = faults.programs()["record_h100"]
others = [site for site in faults.sites_of(counted, recorded, modules) if site not in sites]
others = [site for site in others if site.split(":")[0].split(".")[1] in {OF_A_RECORDING!r}]

def of_each_room(sites):
    rooms = {{}}
    for site in sites:
        rooms.setdefault(site.split(":")[0].split(".")[1], []).append(site)
    return [of_room[len(of_room) // 2] for of_room in rooms.values()]

for program, chosen in ((run, of_each_room(sites)), (recorded, of_each_room(others))):
    for site in chosen:
        print(json.dumps([site, faults.fail_at(site, counted, program)]), flush=True)
"""


def test_a_function_of_explorers_that_fails_is_named_and_the_program_runs() -> None:
    """In each room that a trace or a recording enters: the result is right, and the loss named. `make faults` tries all sites."""
    done = subprocess.run([sys.executable, "-c", ONE_OF_EACH_ROOM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    rooms = {site.split(":")[0].split(".")[1] for site in wrong}
    assert rooms >= {"absent", "compilers", "ladder", "live", "observe", "process", "recording", "stages"}, rooms
    assert len(wrong) == len(rooms) + len(OF_A_RECORDING)
    assert {site: why for site, why in wrong.items() if why} == {}


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

    def rows(items: list[str], command: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
        if items == [""]:
            return [{"kind": "sites", "sites": [f"site {number}" for number in range(9)]}]
        asked.extend(items)
        return [{"item": item, "kind": kind if item == items[-1] else "held", "why": "because"} for item in items]

    monkeypatch.setattr(faults.children, "rows", rows)
    assert faults.main(["h100", "--every", "3", "--start", "1"]) == status
    printed = capsys.readouterr().out
    assert asked == ["site 1", "site 4", "site 7"]
    assert (f"{kind}: site 7: because" in printed) == bool(status) and "9 sites run" in printed
