"""The workshop's notebooks in JupyterLab, in a browser: each exercise answered rightly, wrongly, and not at all.

`make test` does it with a short one; `make classroom` with all of them, and prints a table.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer.workshop.quiz import Quiz
from explorer.workshop.quiz.outcome import NOT_YET, RIGHT, UNANSWERED
from tests.facts import untold
from tests.in_lab import KERNEL, READY, Lab, in_kernel

HERE = Path(__file__).parent
NOTEBOOKS = HERE.parents[2] / "notebooks"
NAMES = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
#: How the exercises of a notebook are answered: all rightly, all wrongly, none.
WAYS = ("right", "wrong", "none")
#: What runs without `--whole`: a short notebook.
SAMPLE = ("09_your_own_backend", "right")
#: What is asked of the machine, and may be answered anew until it is right: what is measured varies.
MEASURED = ("M0.1", "M0.3", "M0.5")
#: The most seconds that all cells of a notebook may take, on a machine with other work.
PATIENCE = 400
#: The line of a cell that asks an exercise, as the notebooks are kept: by its widgets, or with dots in the place of the answer.
CALL = re.compile(r'^q\("(?P<id>[MP]\d?\.\d+)"\)(?:\.answer\((?:\.\.\.(?:, )?)+\)|\.ask\(w\))?', re.MULTILINE)
#: What an outcome says first: its icon, the exercise, how it stands.
SAID = re.compile(r"<b>(?P<icon>.) (?P<id>[MP]\d?\.\d+): (?P<status>[a-z ]+)\.</b>")
#: What a row of widgets shows where no widget lives: the exercise, and how it stands.
ROW = re.compile(r'<b>(?P<id>[MP]\d?\.\d+)</b>.*<div role="status">. (?P<status>[a-z ]+)</div>', re.DOTALL)
#: The line of an outcome that names the place to look at.
PLACE = re.compile(r"<div>(?=[^<]*\bstage \w)(?=[^<]*\bline \d)")
#: Run all cells, and note when they have run.
RUN_ALL = """() => {
    window.ran = null;
    window.jupyterapp.commands.execute('notebook:run-all-cells').then((done) => { window.ran = { done }; });
}"""
#: Of each code cell its number and its outputs, without the traces that views hold.
OUTPUTS = """() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells
    .filter((cell) => cell.cell_type === 'code')
    .map((cell) => ({
        number: cell.execution_count,
        tags: cell.metadata.tags ?? [],
        outputs: cell.outputs.map((output) => ({
            error: output.output_type === 'error' ? `${output.ename}: ${output.evalue}` : '',
            text: [output.text ?? output.data?.['text/plain'] ?? ''].flat().join(''),
            html: [output.data?.['text/html'] ?? ''].flat().join('').slice(0, 20000),
        })),
    }))"""


@dataclass(frozen=True)
class Seen:
    """What a notebook showed after all its cells ran."""

    failed: list[str]
    #: Exercise → what became of each answer, as HTML.
    outcomes: Mapping[str, list[str]]
    score: str

    def statuses(self, id: str) -> list[str]:
        """How each answer to an exercise stood."""
        return [match["status"] for html in self.outcomes[id] if (match := said(html))]

    def count(self) -> dict[str, int]:
        """How many exercises are right, wrong and unanswered, by what the last answer to each is said to be."""
        last = Counter(self.statuses(id)[-1] for id in self.outcomes)
        return {"right": last[RIGHT], "wrong": last[NOT_YET], "unanswered": last[UNANSWERED]}


def said(html: str) -> re.Match[str] | None:
    """Which exercise an output is of, and how it stands: an outcome, or a row of widgets."""
    return SAID.search(html) or ROW.search(html)


@pytest.fixture(scope="session")
def answers(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The right and the wrong answers."""
    return module_at(HERE / "answers.py")


def cases() -> Iterator[Any]:
    """Each notebook answered in each way; without `--whole` the sample only."""
    for name in NAMES:
        for way in WAYS:
            yield pytest.param(name, way, marks=() if (name, way) == SAMPLE else pytest.mark.whole, id=f"{name}-{way}")


# Answering ---------------------------------------------------------------------------------------------------------------


def answered(source: str, way: str, answers: ModuleType) -> str:
    """A cell with the answer to its exercise in the place of the dots; the wrong way gives two answers, one after the other."""
    match = CALL.search(source)
    if match is None or way == "none":
        return source
    id = match["id"]
    if id in MEASURED:
        return source.replace(match[0], measured(id, way))
    chosen = [answers.RIGHT[id]] if way == "right" else answers.WRONG[id][:2]
    calls = [call(id, way, n, answer, answers) for n, answer in enumerate(chosen)]
    before = dict.fromkeys(text for needed, _ in calls for text in needed)
    return source.replace(match[0], "\n".join([*before, *(text for _, text in calls)]))


def measured(id: str, way: str) -> str:
    """The answer to what is measured: asked of the exercise, and where it should be right, again until it is."""
    if way == "right":
        call = f'q("{id}").answer(*answers.right(q("{id}"))[0])'
        return f"import answers\n\nfor _ in range(5):\n    if {call}.is_right:\n        break"
    # once: the farthest from what was measured, since the next may be right when it is measured again
    return f'import answers\n\nq("{id}").answer(*answers.wrong(q("{id}"))[0][0])'


def call(id: str, way: str, number: int, answer: Any, answers: ModuleType) -> tuple[list[str], str]:
    """The line that answers, and what must stand above it: the function that is given, or where it comes from."""
    given, options = answer
    needed, words = [], []
    for position, value in enumerate(given):
        if (source := source_of(value, answers)) is not None:
            needed.append(source)
            words.append(getattr(value, "fn", value).__name__)
        elif type(value) in (int, str, list):
            words.append(repr(value))
        else:
            needed.append("import answers\n")
            whose = f'RIGHT["{id}"]' if way == "right" else f'WRONG["{id}"][{number}]'
            words.append(f"answers.{whose}[0][{position}]")
    words += [f"{name}={value!r}" for name, value in options.items()]
    return needed, f'q("{id}").answer({", ".join(words)})'


def source_of(value: Any, answers: ModuleType) -> str | None:
    """The source of a function or kernel that uses nothing else of its file but modules."""
    function = getattr(value, "fn", value)
    if not inspect.isfunction(function) or not hasattr(answers, function.__name__):
        return None
    used = [vars(answers)[name] for name in function.__code__.co_names if name in vars(answers)]
    return f"{textwrap.dedent(inspect.getsource(function))}\n" if all(inspect.ismodule(each) for each in used) else None


def write(name: str, way: str, answers: ModuleType, home: Path) -> list[str]:
    """Write the notebook, answered, with the figures and the answers beside it; the exercises that it asks for."""
    book = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    asked = []
    for cell in book["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            asked += CALL.findall(source)
            cell |= {"source": answered(source, way, answers), "outputs": [], "execution_count": None}
    (home / "first.ipynb").write_text(json.dumps(book), encoding="utf-8")
    shutil.copytree(NOTEBOOKS / "figures", home / "figures")
    shutil.copy(HERE / "answers.py", home)
    return asked


# Running -----------------------------------------------------------------------------------------------------------------


def run_all(tab: Any) -> None:
    """Run all cells, until the kernel has nothing more to do."""
    tab.evaluate(RUN_ALL)
    tab.wait_for_function("() => window.ran !== null", timeout=PATIENCE * 1000)


def seen(tab: Any) -> Seen:
    """What the notebook shows."""
    cells = tab.evaluate(OUTPUTS)
    failed = [o["error"] for cell in cells for o in cell["outputs"] if o["error"] and "raises-exception" not in cell["tags"]]
    failed += [f"code cell {n} did not run" for n, cell in enumerate(cells, 1) if cell["number"] is None]
    outcomes: dict[str, list[str]] = {}
    for output in (output for cell in cells for output in cell["outputs"]):
        if match := said(output["html"]):
            outcomes.setdefault(match["id"], []).append(output["html"])
    scores = [output["text"] for output in cells[-1]["outputs"] if "exercises" in output["text"]]
    return Seen(failed, outcomes, scores[0] if scores else "")


def check_outcomes(it: Seen, asked: Sequence[str], way: str) -> None:
    """Each exercise's own output says how it was answered, with the hint after one miss and the place after two."""
    for id in asked:
        statuses = it.statuses(id)
        if way == "right":
            assert statuses[-1] == RIGHT and (len(statuses) == 1 or id in MEASURED), (id, it.outcomes[id])
        elif way == "none":
            assert statuses == [UNANSWERED], (id, it.outcomes[id])
        else:
            assert statuses == [NOT_YET] * tries(id), (id, it.outcomes[id])
            assert "hint: " in it.outcomes[id][0] and not PLACE.search(it.outcomes[id][0]), (id, it.outcomes[id])
            for html in it.outcomes[id][1:]:
                assert "hint: " in html and (PLACE.search(html) or "raised" in html), (id, html)


def tries(id: str) -> int:
    """How many wrong answers an exercise gets."""
    return 1 if id in MEASURED else 2


def check_score(it: Seen, asked: Sequence[str], way: str) -> None:
    """The last cell has a row for each exercise of the quiz, and the points that are due."""
    head, *rows = it.score.splitlines()
    counted = {1: "1 try", 2: "2 tries"}
    assert sorted(row.strip().partition(":")[0][2:] for row in rows) == sorted(asked)
    for row in rows:
        id = row.strip().partition(":")[0][2:]
        facts = {
            "right": (f"✓ {id}", RIGHT),
            "wrong": (f"✗ {id}", NOT_YET, counted[tries(id)]),
            "none": (f"○ {id}", UNANSWERED),
        }
        assert not untold(row, *facts[way]), it.score
        assert way != "right" or id in MEASURED or "3 points" in row, it.score
    right = len(asked) if way == "right" else 0
    assert not untold(head, f"{right} of {len(asked)}", "exercises"), it.score
    assert way == "right" or not untold(head, "0 points", str(3 * len(asked))), it.score


def check_pictures(tab: Any, home: Path) -> None:
    """The figures that the notebook names can be drawn, by the browser that shows it."""
    sources = re.findall(r"\]\((figures/[^)]+)\)", (home / "first.ipynb").read_text(encoding="utf-8"))
    for source in sources:
        width = tab.evaluate(
            """async (source) => {
            const image = new Image();
            image.src = `/files/${source}`;
            await image.decode();
            return image.naturalWidth;
        }""",
            f"{home.name}/{source}",
        )
        assert width > 100, source


def needs(name: str) -> None:
    """Skip a notebook whose compilers are not installed."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles for an H100")
    if name.startswith("08"):
        pytest.importorskip("iree.compiler", reason="IREE is not installed")


@pytest.mark.parametrize(("name", "way"), list(cases()))
def test_a_notebook_that_is_answered(
    name: str,
    way: str,
    lab: Lab,
    answers: ModuleType,
    record_property: Callable[[str, object], None],
) -> None:
    """Run All: no cell fails, each exercise says how it stands, the score is what it should be, and the view is there."""
    needs(name)
    asked = write(name, way, answers, lab.folder)
    with lab.window() as tab:
        tab.wait_for_function(READY, timeout=KERNEL)
        started = time.perf_counter()
        run_all(tab)
        seconds = time.perf_counter() - started
        it = seen(tab)
        row = {"notebook": name, "answers": way, **it.count(), "failed cells": len(it.failed), "seconds": round(seconds)}
        record_property("classroom", json.dumps(row))
        assert it.failed == []
        check_outcomes(it, asked, way)
        check_score(it, asked, way)
        check_pictures(tab, lab.folder)
        tab.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(3)")
        tab.locator(".explorer-host .pane").first.wait_for(state="attached")


#: A cell that opens the view of an exercise's trace, and one with the exercise's row of widgets, and one with another's.
ROWS = (
    'import explorer\n\nq = explorer.quiz.Quiz("M1.1", "M1.2")\ne = q("M1.2")\n'
    'w = explorer.show(e.trace)\nw.show("kernel", pane="right")\nw',
    "e.ask(w)",
    'q("M1.1").ask()',
)


def test_the_widgets_of_an_exercise_in_a_browser(lab: Lab) -> None:
    """A line picked in the view, a number typed: the first miss has the hint, the second opens the view at the line.

    The score counts what the widgets were given.
    """
    pytest.importorskip("triton", reason="triton is not installed: it compiles for an H100")
    with lab.notebook(*ROWS) as tab:
        run_all(tab)
        view = tab.locator(".explorer-host").first
        kernel = view.locator(".pane").nth(1)
        kernel.locator(".line", has_text="tl_math.sin").first.wait_for()
        line = kernel.locator(".line", has_text="tl_math.sin").first
        answer = tab.get_by_label("your answer to M1.2")
        button = tab.get_by_role("button", name="answer M1.2")
        line.click()
        tab.wait_for_function("(one) => one.value === '24'", arg=answer.element_handle())
        views = tab.locator(".explorer-host").count()
        button.click()
        tab.get_by_text("✗ M1.2: not yet.").wait_for()
        hint, *_ = Quiz("M1.2")("M1.2").item.hint.partition("`")
        tab.get_by_text(f"hint: {hint}").wait_for()
        assert tab.locator(".explorer-host").count() == views, "the first miss opens nothing"
        answer.fill("25")
        button.click()
        opened = tab.locator(".explorer-host").nth(views)
        opened.locator(".line.chosen", has_text="tl_math.sin").first.wait_for()
        answer.fill("23-25")
        button.click()
        tab.get_by_text("✓ M1.2: right.").wait_for()
        tab.get_by_label("your answer to M1.1").fill("2")
        tab.get_by_role("button", name="answer M1.1").click()
        tab.get_by_text("✓ M1.1: right.").wait_for()
        assert in_kernel(tab, "[row['right'] for row in q.score().rows]", [True, True]) == [True, True]
