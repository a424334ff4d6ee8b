"""The scripts of benchmarks/ run and print their tables; nothing here looks at the seconds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from explorer.tracing.traced import Trace
from tests.tables import rows_of

pytestmark = [pytest.mark.benchmarks, pytest.mark.usefixtures("warm_python")]

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "compile_cost.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The cache that the whole test run shares, where there is one: a first C++ compile takes long."""
    return os.environ.get("TORCHINDUCTOR_CACHE_DIR") or str(tmp_path_factory.mktemp("inductor"))


@pytest.fixture(scope="module")
def compared(cache: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, object]]:
    """Run one round over the smallest workload: what it prints, and the JSON it writes."""
    file = tmp_path_factory.mktemp("benchmark") / "results.json"
    arguments = ("--workloads", "sin_cos", "--tools", "plain", "explorer", "--repeats", "1", "--cache", cache)
    done = run(*arguments, "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads(file.read_text(encoding="utf-8"))


def test_prints_a_table_with_one_row_a_tool(compared: tuple[str, dict[str, object]]) -> None:
    """The comparison has a row for each workload and tool, with seconds, peak memory and ratios to plain."""
    head, rule, plain, traced = rows_of(compared[0])
    assert head[:4] == ["workload", "tool", "seconds", "ratio"]
    assert set("".join(rule)) == {"-"}
    assert plain[:2] == ["sin_cos", "torch.compile"]
    assert traced[:2] == ["sin_cos", "explorer.trace"]
    assert plain[3] == plain[6] == plain[8] == "1.000"
    assert all(float(row[i]) > 0 for row in (plain, traced) for i in (2, 3, 5, 6, 7, 8))


def test_says_the_machine_and_that_a_shared_cache_measures_nothing(compared: tuple[str, dict[str, object]]) -> None:
    """Above the table stand the cores, the versions and the setting, and that with a shared cache the seconds mean little."""
    machine, setting, *_ = compared[0].splitlines()
    assert "cores" in machine
    assert "torch 2." in machine
    assert "SHARED" in setting


def test_writes_every_measurement_as_json(compared: tuple[str, dict[str, object]]) -> None:
    """The JSON file has each single measurement, with explorer's own cost and what it failed to see."""
    results = compared[1]["results"]
    assert isinstance(results, list)
    assert [r["tool"] for r in results] == ["plain", "explorer"]
    assert results[1]["cost"] > 0
    assert results[1]["failures"] == []


def test_an_unknown_workload_is_refused_with_the_names_there_are() -> None:
    """A workload that is not one ends the script at once, with exit status 2 and the names."""
    done = run("--workloads", "resnet")
    assert done.returncode == 2
    assert "sin_cos" in done.stderr
    assert "gpt2-N" in done.stderr


def test_the_cost_of_a_ladder_is_told_beside_plain(cache: str) -> None:
    """The table has plain torch.compile and the trace, with how many kernels reached machine code and where the time went."""
    script = SCRIPT.with_name("ladder_cost.py")
    arguments = ("--workload", "sin_cos", "--modes", "inference", "--rounds", "1", "--cache", cache)
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    _, _, plain, traced, *steps = rows_of(done.stdout)
    assert plain[0] == "inference" and plain[3] == "1.000" and plain[8:] == ["–", "–"]
    assert traced[1] == "trace for h100" and traced[8:] == ["1", "1"]
    assert {"Dynamo", "AOTAutograd", "Inductor"} <= {row[2] for row in steps}
    assert "SHARED" in done.stdout


def test_the_view_is_measured_in_a_browser(browser: object, replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """benchmarks/widget.py opens a trace's page and prints a table of what it measured beside what is wanted."""
    replayed("sin_cos-torch2.13-cpu").save(tmp_path / "t.json.gz")
    script = SCRIPT.with_name("widget.py")
    command = [sys.executable, str(script), "--trace", str(tmp_path / "t.json.gz"), "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {row[0]: row[1] for row in rows_of(done.stdout)}
    assert {"bundle", "exported file", "first paint", "stage switch", "first paint, two traces side by side"} <= set(found)
    assert found["exported file"].endswith(" MB")
    assert re.fullmatch(r"\d+ ms, \d+\.\d × an empty page", found["first paint"])


def test_every_line_is_followed(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """benchmarks/follow.py asks each line of a saved trace's texts once and prints a row a stage."""
    trace = replayed("sin_cos-torch2.13-cpu")
    trace.save(tmp_path / "t.json.gz")
    command = [sys.executable, str(SCRIPT.with_name("follow.py")), "--trace", str(tmp_path / "t.json.gz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {row[0]: row for row in rows_of(done.stdout)}
    assert {a.stage for a in trace.artifacts if a.lines} <= set(found)
    assert found["all"][1] == str(sum(len(a.lines) for a in trace.artifacts))
    assert all(float(cell) >= 0 for cell in found["all"][2:5]) and int(found["kernel"][6]) > 1


def test_what_is_explorer_s_own_is_told(cache: str) -> None:
    """benchmarks/own_cost.py prints seconds of torch's own and what texts, links, verdicts and the rest take beside them."""
    command = [sys.executable, str(SCRIPT.with_name("own_cost.py")), "--workloads", "sin_cos", "--modes", "inference"]
    done = subprocess.run([*command, "--target", "h100", "--cache", cache], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    head, _, found = rows_of(done.stdout)
    assert head[2] == "torch's own, CPU s" and "links and verdicts" in head
    assert float(found[2]) > 0 and all("%" in cell for cell in found[3:])


def test_the_parts_of_a_call_and_a_planted_cost_are_told(cache: str) -> None:
    """benchmarks/call_cost.py prints a program's parts beside its call, and the verdict on a planted cost beside what it is."""
    command = [sys.executable, str(SCRIPT.with_name("call_cost.py")), "--repeats", "1", "--only", "graph breaks"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = rows_of(done.stdout)
    measured, planted = lines[2], lines[-1]
    assert measured[0] == "graph breaks" and float(measured[1]) > 0 and "Dynamo frames" in measured[4]
    assert planted == ["graph breaks", "Dynamo", "Dynamo"]


def test_the_counts_of_the_groups_are_those_of_the_source(tmp_path: Path) -> None:
    """benchmarks/rooms.py counts lines, functions and open signatures; what is inside torch is counted apart."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "capture").mkdir()
    long = "def long(x: int) -> None:\n" + "    x += 1\n" * 60
    (tmp_path / "lab" / "a.py").write_text(f"def one(x: dict[str, Any], *y: int) -> str: ...\ndef two(x: Plain): ...\n{long}")
    (tmp_path / "capture" / "b.py").write_text("class C:\n    def three(self, x) -> Any: ...\n")
    script = SCRIPT.with_name("rooms.py")
    printed = subprocess.run(
        [sys.executable, str(script), "--package", str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    for line in (
        "65 lines in 2 files, 2 groups",
        "largest groups: lab 63, capture 2",
        "4 functions, 1 of more than 50 lines, median 1",
        "signatures with Any, outside torch: 1 of 3, 33.3%; with Any, Plain or object: 2 of 3, 66.7%",
        "signatures with a mapping of open values, outside torch: 1 of 3, 33.3%",
        "signatures with Any, inside torch: 1 of 1, 100.0%; with Any, Plain or object: 1 of 1, 100.0%",
    ):
        assert line in printed.splitlines()


def test_the_stated_peak_of_memory_is_the_allocators(cache: str) -> None:
    """benchmarks/memory.py prints a row per graph, with the peak that a trace states and the one that torch's profiler saw."""
    script = SCRIPT.with_name("memory.py")
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
    command = [sys.executable, str(script), "--only", "qr", "embedding bag, trained"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    _, _, *found = rows_of(done.stdout)
    assert [row[:2] for row in found] == [
        ["qr", "inference"],
        ["embedding bag, trained", "forward"],
        ["embedding bag, trained", "backward"],
    ]
    assert all(stated == allocated for _, _, stated, allocated, *_ in found)


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch.export's own
def test_generators_has_a_row_for_each_path_to_inductor(module_at: Callable[[Path], ModuleType]) -> None:
    """benchmarks/generators.py: a graph of make_fx has every line linked, and a reason for each stage that is Dynamo's."""
    generators = module_at(SCRIPT.parent / "generators.py")
    rows = list(generators.table_of_paths(["standalone_compile", "AOTInductor"], ["layer norm"]))
    cells = {tuple(row[:2]): dict(zip(generators.PATH_COLUMNS, row, strict=True)) for row in map(cells_of, rows[2:6])}
    norm = cells["standalone_compile", "layer norm"]
    assert (norm["compiles here"], norm["check equal"], norm["below"]) == ("yes", "1 of 1", "1 of 1")
    assert norm["links"].endswith("100.0%") and norm["user lines"] == "1 of 1"
    assert norm["missing"] == "bytecode, dynamo, dynamo_bytecode, guards"
    package = cells["AOTInductor", "layer norm"]
    assert package["check equal"] == "1 of 1" and package["missing"] == norm["missing"]
    assert cells["AOTInductor", "layer norm, training"]["compiles here"] == "no"
    reasons = "\n".join(rows[7:])
    assert "standalone_compile, guards: the program gave Inductor a finished graph" in reasons
    assert "AOTInductor, layer norm, training: ValueError: AOTInductor compiles no backward" in reasons


def cells_of(line: str) -> list[str]:
    """The cells of a line of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_cold_has_a_row_for_each_advice() -> None:
    """benchmarks/cold.py prints where the seconds went, the advice with its proof, and a row with seconds and ratio.

    It runs as a script: the processes that prove the advice find its class there.
    """
    command = [sys.executable, SCRIPT.parent / "cold.py", "--models", "residual", "--layers", "4"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (row,) = rows_of(said)[2:]
    assert row[:2] == ["residual", "Residual is compiled 4 times, 0 to 3"]
    assert float(row[2]) > 0 and float(row[3]) > 0 and "kernels after" in said and "code generation" in said
