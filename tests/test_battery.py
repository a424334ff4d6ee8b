"""`benchmarks/battery.py` tells each kind of cell from the others, and the docs have the table that it makes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from explorer.capture.compilers.compiler import Compiler
from explorer.capture.compilers.compilers import compiler_named
from explorer.tracing.recording import eager_check
from tests.tables import rows_of

pytestmark = [pytest.mark.benchmarks, pytest.mark.usefixtures("warm_python")]

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "battery.py"


@pytest.fixture(scope="module")
def battery(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    return module_at(SCRIPT)


def on_copies(gm: Any, inputs: Any) -> Callable[..., Any]:
    """A backend that loses what the program changes in place."""
    return lambda *args: gm.forward(*(arg.clone() for arg in args))


def off_by_a_little(gm: Any, inputs: Any) -> Callable[..., Any]:
    """A backend whose results are not eager's."""
    return lambda *args: tuple(result * 1.01 for result in gm.forward(*args))


def refusing(gm: Any, inputs: Any) -> Callable[..., Any]:
    """A backend that compiles nothing."""
    raise NotImplementedError("no kernel for this graph")


def right(gm: Any, inputs: Any) -> Callable[..., Any]:
    """A backend that leaves the graph to PyTorch."""
    run: Callable[..., Any] = gm.forward
    return run


@pytest.mark.parametrize(
    ("backend", "case", "kind", "why"),
    [
        (on_copies, "mutation", "wrong", "argument afterwards 0"),
        (off_by_a_little, "product", "wrong", "result 0"),
        (refusing, "product", "raises", "no kernel for this graph"),
        (right, "mutation", "fell back", "all of it"),
    ],
)
def test_what_a_backend_does_wrong_is_told(
    battery: ModuleType, backend: Callable[..., Any], case: str, kind: str, why: str
) -> None:
    """Lost mutations and results that are a little off are wrong by both judges; errors are quoted; PyTorch is named."""
    row = battery.cell(backend, case)
    assert row["kind"] == kind and why in row["why"], row


@pytest.mark.parametrize(("seconds", "kind"), [(60.0, "wrong"), (0.0, "SILENT")])
def test_a_wrong_result_of_which_the_trace_says_nothing_is_silent(
    battery: ModuleType, monkeypatch: pytest.MonkeyPatch, seconds: float, kind: str
) -> None:
    """An engine whose result is not eager's, with a trace that compares and with one that does not."""
    theirs = Compiler("theirs", "Theirs", "", "", ("torch",), lambda *asked: off_by_a_little, ("execution",), {})
    monkeypatch.setattr("explorer.capture.compilers.compilers.COMPILERS", (theirs,))
    monkeypatch.setattr(eager_check, "MAX_SECONDS", seconds)
    assert battery.judged("theirs", battery.CASES["product"])["kind"] == kind


@pytest.mark.parametrize(
    ("differences", "unequal", "engines", "kind", "why"),
    [
        ((), (), [["IREE", ""]], "equal", ""),
        ((), (), [["IREE", ""], ["PyTorch", "no such operator"]], "fell back", "a part: no such operator"),
        ((), (), [["OpenVINO and PyTorch", "1 on PyTorch"]], "fell back", "a part: 1 on PyTorch"),
        ((), (), [["PyTorch", "no such operator"]], "fell back", "all of it: no such operator"),
        (("result 0: off",), (), [["IREE", ""]], "JUDGES DIFFER", "result 0: off"),
        ((), ("output: off",), [["IREE", ""]], "JUDGES DIFFER", "output: off"),
        ((), (), [], "engine not known", ""),
    ],
)
def test_two_judgements_become_one_cell(
    battery: ModuleType, differences: Any, unequal: Any, engines: Any, kind: str, why: str
) -> None:
    """Judgements that differ are never an equal cell, and a part that PyTorch ran is named with its reason."""
    found = battery.verdict(differences, unequal, engines)
    assert found["kind"] == kind and why in found["why"]


def test_two_cells_become_a_table_in_the_docs(tmp_path: Path) -> None:
    """The script runs two programs in a process of the backend's own, and writes the table between its marks."""
    iree = compiler_named("iree")
    assert iree is not None
    backend = "eager" if iree.missing else "iree"
    marks = "<!-- made by benchmarks/battery.py: begin -->", "<!-- made by benchmarks/battery.py: end -->"
    docs, rows = tmp_path / "docs.md", tmp_path / "rows.json"
    docs.write_text(f"before\n{marks[0]}\nold\n{marks[1]}\nafter\n", encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "--backends", backend, "--cases", "mutation", "product"]
    done = subprocess.run([*command, "--write", str(docs), "--keep", str(rows)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = docs.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{marks[0]}\n") and text.endswith(f"{marks[1]}\nafter\n") and "old" not in text
    lines = [line for line in text.splitlines() if line.startswith(("| an input changed in place", "| x @ w + b"))]
    assert len(lines) == 2 and all("| equal" in line for line in lines)
    found = {row["name"]: row for row in json.loads(rows.read_text(encoding="utf-8"))}
    if backend == "eager":
        return
    assert found["mutation"]["engines"] == [["IREE", ""]]
    assert found["mutation"]["linked"]["iree_torch"] == [2, 2], "the addition and the product, each linked"


def test_the_docs_have_a_cell_for_every_program(battery: ModuleType) -> None:
    """docs/backends.md has each program, in each of its columns one of the kinds, and none on which the judges differ."""
    text = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    block = text.partition(battery.BEGIN)[2].partition(battery.END)[0]
    table = rows_of(block)
    head = next(row for row in table if row[0] == "program")
    assert {"PyTorch, eager", "Inductor", "IREE"} <= set(head) and set(head[1:]) <= set(battery.titles().values())
    rows = {row[0]: row[1:] for row in table}
    for case in battery.CASES.values():
        kinds = [cell.strip("*").partition(",")[0].strip("*") for cell in rows[case.title]]
        assert set(kinds) <= {"equal", "fell back", "raises", "wrong", "died"}, (case.title, kinds)


def test_a_message_names_no_path_of_the_machine(battery: ModuleType) -> None:
    """What the docs quote of an engine is one line, without folders, and ends somewhere."""
    said = battery.quoted('File "/home/someone/site-packages/engine/a.py", line 3\nValueError: `x`' + "." * 400)
    assert said.startswith("""`File "…/a.py", line 3 ValueError: 'x'""") and said.endswith("…`") and "\n" not in said
    assert torch.__file__ not in battery.quoted(torch.__file__)


def test_engines_prints_what_is_not_equal_and_counts(tmp_path: Path) -> None:
    """`benchmarks/engines.py` runs a program forward and training, each in a child, and counts what came of them."""
    command = [sys.executable, str(ROOT / "benchmarks" / "engines.py"), "--backends", "inductor", "--programs", "silu", "int64"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines() == ["inductor: 3 equal"], done.stdout + done.stderr


@pytest.mark.filterwarnings("ignore")  # of what the database imports
def test_engines_takes_operators_of_pytorchs_database(module_at: Callable[[Path], ModuleType]) -> None:
    """A sample of an operator is judged forward, and in training where it has a derivative."""
    engines = module_at(ROOT / "benchmarks" / "engines.py")
    found = {
        (name, way): judge()["kind"]
        for name in ("split", "logical_not")
        for way, judge in engines.steps(("inductor", name, True))
    }
    assert found == {
        ("split", "forward"): "equal",
        ("split", "training"): "equal",
        ("logical_not", "forward"): "equal",
    }
