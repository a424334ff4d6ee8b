"""The notebooks as they are kept: with the outputs of one run, and links, figures and exercises that are there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from explorer.workshop.quiz.workshop import EXERCISES

pytestmark = pytest.mark.docs

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = [path.name for path in sorted(NOTEBOOKS.glob("*.ipynb"))]

#: A folder of the machine that ran it, a temporary file with a number, an address.
OF_THE_MACHINE = re.compile(r"/(root|work|Users)/|/home/\w|ipykernel_\d|/site-packages|(?<!\w)/tmp/(?!cache)\w")

#: The question of a puzzle.
PUZZLE = re.compile(r'^q\("(P\.\d+)"\)', re.MULTILINE)

#: The most bytes of a notebook; GitHub shows none that is much larger.
MAX_BYTES = 1_000_000


def cells(name: str, kind: str) -> list[dict[str, Any]]:
    """The cells of one kind, with the source as one text."""
    read = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    return [cell | {"source": "".join(cell["source"])} for cell in read["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("name", NAMES)
def test_the_outputs_are_those_of_one_run(name: str) -> None:
    """Each cell was run once, from top to bottom, and none failed that is not marked as one that does."""
    code = cells(name, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), "run `make outputs`"
    failed = [cell["source"] for cell in code if any(output["output_type"] == "error" for output in cell["outputs"])]
    assert failed == [cell["source"] for cell in code if "raises-exception" in cell["metadata"].get("tags", [])]


@pytest.mark.parametrize("name", NAMES)
def test_the_outputs_are_no_machine_s(name: str) -> None:
    """No output has a script, a widget that is gone, or a folder of the machine that ran it; GitHub can show the whole."""
    written = json.dumps([cell["outputs"] for cell in cells(name, "code")])
    assert "<script" not in written and "widget-view" not in written
    assert (found := OF_THE_MACHINE.search(written)) is None, written[found.start() - 80 : found.end() + 80]
    assert (NOTEBOOKS / name).stat().st_size < MAX_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_what_the_text_names_is_there(name: str) -> None:
    """Every linked file and figure is there, and every exercise that a cell asks for is one of the workshop's."""
    text = "\n".join(cell["source"] for cell in cells(name, "markdown"))
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in target]
    assert [target for target in targets if not (NOTEBOOKS / target).exists()] == []
    asked = re.findall(r'\bq\("([^"]+)"\)', "\n".join(cell["source"] for cell in cells(name, "code")))
    assert set(asked) <= {item.id for item in EXERCISES} and len(asked) == len(set(asked))


def test_every_puzzle_stands_in_one_notebook_with_its_program() -> None:
    """Each puzzle of part P has one cell, and what the learner rewrites there is the program that judges the answer."""
    asked = [
        (match[1], cell["source"]) for name in NAMES for cell in cells(name, "code") if (match := PUZZLE.search(cell["source"]))
    ]
    programs = {item.id: item.program.text for item in EXERCISES if item.id.startswith("P.") and item.program is not None}
    assert sorted(id for id, _ in asked) == sorted(programs)
    assert [id for id, source in asked if programs[id].replace("\n\n", "\n") not in re.sub(r"\n\n+", "\n", source)] == []
