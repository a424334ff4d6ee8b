"""The notebooks as they are kept: with the outputs of one run, and links, figures and exercises that are there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.workshop.quiz import Task
from explorer.workshop.quiz.m1 import TWO_LINES
from explorer.workshop.quiz.programs import program
from explorer.workshop.quiz.workshop import EXERCISES
from tests.each import each

pytestmark = pytest.mark.docs

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = [path.name for path in sorted(NOTEBOOKS.glob("*.ipynb"))]

#: A folder of the machine that ran it, a temporary file with a number, an address.
OF_THE_MACHINE = re.compile(r"/(root|work|Users)/|/home/\w|ipykernel_\d|/site-packages|(?<!\w)/tmp/(?!cache)\w")

#: The question of a puzzle.
PUZZLE = re.compile(r'^q\("(P\.\d+)"\)', re.MULTILINE)

#: The most bytes of a notebook; GitHub shows none that is much larger.
MAX_BYTES = 1_000_000

#: A thread of an issue tracker.
ISSUE = re.compile(r"\]\(https://github\.com/[\w.-]+/[\w.-]+/issues/\d+\)")
#: How a cell asks an exercise: by its widgets, which may follow a view, or by what was written above.
ASKED = re.compile(r'^q\("(?P<id>[^"]+)"\)(?P<how>\.ask\(w\)|\.answer\(\.\.\.(?:, \.\.\.)*\)(?:  # .+)?|)$', re.MULTILINE)
#: A term of the glossary, at the place that explains it.
TERM = re.compile(r"\[\*\*([^*]+)\*\*\]\(\.\./docs/glossary\.md\)")
FIRST_LOOK = "01_first_look.ipynb"
TOY_COMPILER = "10_a_compiler_in_200_lines.ipynb"
#: A line of the toy compiler's texts that makes a result, and the result's name.
RESULT = re.compile(r"\s+(?:(?:float |double )?[vm]_)?(\w+)(?:\[\w\])? \+?= ")
#: The most new terms of a section, and the most words of a text: half a minute at 200 words a minute.
MAX_TERMS, MAX_WORDS = 3, 100
#: The width of a notebook's column beside an open sidebar, and the smallest text that is read without effort, in pixels.
COLUMN, MIN_TEXT = 620, 12


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


@each(NAMES)
def test_a_question_is_asked_by_its_widgets(name: str) -> None:
    """A prediction is a row of widgets, the last line of its cell; only what was written as code is answered by a call."""
    tasks = {item.id for item in EXERCISES if isinstance(item, Task)}
    asking = [cell["source"] for cell in cells(name, "code") if 'q("' in cell["source"]]
    found = [match for source in asking for match in ASKED.finditer(source)]
    assert len(found) == len(asking) and all(source.endswith(match[0]) for source, match in zip(asking, found, strict=True))
    assert [match["id"] for match in found if (match["id"] in tasks) != match["how"].startswith(".answer")] == []


@each(NAMES)
def test_a_notebook_has_a_question_and_what_it_is_good_for(name: str) -> None:
    """It opens with a question from an issue tracker, and ends with what one can do then and a line for one's own model."""
    first, *_ = texts = [cell["source"] for cell in cells(name, "markdown")]
    assert len(ISSUE.findall(first)) == 1
    _, _, closing = "\n".join(texts).partition("## What you can now do at work\n")
    assert re.search(r"^\*\*Try it on [^*]+\*\*[^`\n]*: `explorer\.[^`]+`$", closing, re.MULTILINE)


@each(NAMES)
def test_no_output_is_a_warning(name: str) -> None:
    """Nothing that a cell puts out is a warning of torch's."""
    assert "UserWarning" not in json.dumps([cell["outputs"] for cell in cells(name, "code")])


def test_the_first_look_has_few_terms_at_a_time() -> None:
    """A section has three new terms at most, each met once, and in the glossary."""
    glossary = (NOTEBOOKS.parent / "docs" / "glossary.md").read_text(encoding="utf-8")
    known = {word.casefold() for word in re.findall(r"\*\*([^*]+)\*\*", glossary)}
    texts = [cell["source"] for cell in cells(FIRST_LOOK, "markdown")]
    sections = [TERM.findall(section) for section in re.split(r"^## ", "\n".join(texts), flags=re.MULTILINE)]
    terms = [term for section in sections for term in section]
    assert max(map(len, sections)) == MAX_TERMS and len(terms) == len(set(terms)) > 15
    assert [term for term in terms if not {term.casefold(), term.casefold().removesuffix("s")} & known] == []


@pytest.mark.compile
def test_the_first_look_shows_what_it_says() -> None:
    """It opens at the kernel's sine, and a minus for the plus changes the sign of an operand of FFMA, and nothing else."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="triton is not installed: it compiles for an H100")
    first, second = (cell["source"] for cell in cells(FIRST_LOOK, "code") if 'target="h100").attach("sass")' in cell["source"])
    minus = program(TWO_LINES.text.replace("two_lines", "with_minus").replace("y +", "y -"))
    assert first.startswith(TWO_LINES.text) and second.startswith(minus.text)
    plain, changed = (
        explorer.trace(one.load(), torch.randn(10_000), target="h100").attach("sass").kernels[0] for one in (TWO_LINES, minus)
    )
    (line,) = re.findall(r"at=kernel:(\d+)", first)
    assert "tl_math.sin(" in plain.source.split("\n")[int(line) - 1]
    before, after = (re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(.+)$", kernel.text("sass"), re.MULTILINE) for kernel in (plain, changed))
    pairs = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert len(pairs) == 2 and all(a.startswith("FFMA ") and a == b.replace("-R", "R") for a, b in pairs)


def test_the_compiler_has_at_most_200_lines() -> None:
    """The cells that make up the compiler say so in a tag, and keep what the title promises."""
    sources = [cell["source"] for cell in cells(TOY_COMPILER, "code") if "compiler" in cell["metadata"].get("tags", ())]
    assert 150 < sum(source.count("\n") + 1 for source in sources) <= 200


@pytest.mark.compile
def test_the_compiler_in_200_lines_is_right_and_linked() -> None:
    """A program gives what eager gives, and each line that makes a result is linked to its node of Dynamo's graph."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(TOY_COMPILER, "code"):
        if "compiler" in cell["metadata"].get("tags", ()):
            exec(cell["source"], names)
    share = program("\ndef share(x, y):\n    e = torch.exp(x - y)\n    total = e.sum()\n    return e / total, torch.cos(total)\n")
    stages = (*explorer.types.STAGES, *names["MINE"])
    t = explorer.trace(share.load(), torch.randn(30, 40), torch.randn(30, 40), backend=names["shown"], stages=stages)
    assert t.failures == () and [row["equal"] for row in t.check()] == [True, True]
    (graph,) = t.find("dynamo")
    for stage in ("toy_ops", "toy_loops", "toy_c"):
        (text,) = t.find(stage)
        made = {(n, match[1]) for n, line in enumerate(text.lines, 1) if (match := RESULT.match(line))}
        links = [link for link in t.links if link.source == text.id]
        nodes = [(n, graph.lines[link.target_lines[0] - 1].split()[0]) for link in links for n in link.source_lines]
        linked = {(n, name.rstrip(":")) for n, name in nodes}
        assert len(made) >= 5 and made <= linked


def words(text: str) -> int:
    """Count words as docs/workshop.md does: what has a letter or digit, without pictures and addresses."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)", " ", text)
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


@each(NAMES)
def test_a_text_is_read_in_half_a_minute(name: str) -> None:
    """No text between two cells is longer than what is read in half a minute."""
    texts = [cell["source"] for cell in cells(name, "markdown")]
    assert [text[:60] for text in texts if words(text) > MAX_WORDS] == []


@each(sorted(path.name for path in (NOTEBOOKS / "figures").glob("*.svg")))
def test_a_figure_fits_the_column(name: str) -> None:
    """A figure is drawn for a column of 620 px, and its smallest text has 12 px there."""
    drawing = (NOTEBOOKS / "figures" / name).read_text(encoding="utf-8")
    (width,) = re.findall(r'<svg [^>]*viewBox="0 0 (\d+) \d+"', drawing)
    sizes = [int(size) for size in re.findall(r'font-size="(\d+)"', drawing)]
    assert min(sizes) * min(1, COLUMN / int(width)) >= MIN_TEXT
