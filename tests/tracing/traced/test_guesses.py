"""The public face of a trace: what it shows, how a wrong guess is answered, and that every name that is told is there."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path

import pytest

import explorer
from explorer.model.values import Table
from explorer.tracing.traced import Kernel, Kernels, Trace
from explorer.tracing.traced.edits import Edits
from explorer.tracing.traced.guesses import ACCESSORS, HABITS, OTHER_NAMES
from tests.facts import untold

ROOT = Path(__file__).parents[3]
BY_PATH = {accessor.path.removeprefix("t."): accessor for accessor in ACCESSORS}
#: What a user sees of a trace when he asks for it with the Tab key.
FACE = re.findall(
    r"\w+",
    "advise artifacts attach benchmark bisect check collectives compile_ids compiler coverage diagram drift dynamo failures find "
    "follow fusion inductor kernels links live memory meta only profile raise_for_failures sanitize save stages table target "
    "text to_html to_script what_if why",
)
#: A name of a trace in a text: `t.dynamo.guards`, `t.check(`, `t.kernels[0].edits`.
NAMED = re.compile(r"(?<![\w.'])t\.(?P<first>[a-z_]+)(?P<item>\[[^\]]*\])?(?:\.(?P<second>[a-z_]+))?(?:\.(?P<third>[a-z_]+))?")
#: Texts in which `t` is something else: a tensor, a file, a time.
ELSEWHERE = re.compile(r"t\.(py|rank\d*|json|gz|trace|html|dtype|shape|dim|size|stop|start|shown|to|txt|weight|ndim|sum|item)\b")


def test_a_trace_has_thirty_six_names() -> None:
    """Whoever adds one says in this list that a newcomer needs it; what is about one part of the compiler stands behind it."""
    assert [name for name in dir(Trace()) if not name.startswith("_")] == FACE and len(FACE) == 36


def test_asking_adds_no_name(replayed: Callable[[str], Trace]) -> None:
    """What a trace keeps of an answer is not among its names."""
    trace = replayed("mlp_train-torch2.13-cpu")
    repr(trace), repr(trace.memory), repr(trace.fusion), trace.collectives.table
    assert [name for name in dir(trace) if not name.startswith("_")] == FACE


@pytest.mark.parametrize("accessor", ACCESSORS, ids=lambda accessor: accessor.path)
def test_an_accessor_lists_what_it_has(accessor: type, replayed: Callable[[str], Trace]) -> None:
    """Each table with its rows, each verb with brackets, in a terminal and in a notebook; nothing is compiled for it."""
    held = attrgetter(accessor.path.removeprefix("t."))(replayed("views/rotary-torch2.13-h100"))
    text = repr(held)
    assert text.startswith(f"<{accessor.path}: ")
    for name, member in accessor.members():
        (line,) = [line for line in text.splitlines() if re.match(rf"  {name}(\(\))?  ", line)]
        assert ("()" in line) is not isinstance(member, property)
        if isinstance(member, property) and accessor.path != "t.live" and f"{accessor.path}.{name}"[2:] not in BY_PATH:
            assert f" {len(getattr(held, name))} " in line, line
        assert name in held._repr_html_()


def test_live_is_false_for_a_loaded_trace(replayed: Callable[[str], Trace]) -> None:
    """And true where the process is at hand."""
    assert not replayed("mlp_train-torch2.13-cpu").live
    assert Trace(_live=object()).live  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*OTHER_NAMES, *HABITS])
def test_a_wrong_guess_gets_the_right_name(name: str) -> None:
    """The AttributeError names what answers it, and that is there."""
    with pytest.raises(AttributeError) as caught:
        getattr(Trace(), name)
    assert not untold(str(caught.value), "Trace", repr(name)) and (OTHER_NAMES.get(name) or HABITS[name]) in str(caught.value)
    assert list(wrong(str(caught.value))) == []


@pytest.mark.parametrize("accessor", ACCESSORS, ids=lambda accessor: accessor.path)
def test_each_name_behind_an_accessor_is_found_from_the_trace(accessor: type) -> None:
    """Who asks the trace, or another accessor, is told where it is."""
    for name, member in accessor.members():
        right = f"{accessor.path}.{name}" + ("" if isinstance(member, property) else "()")
        for asked in (Trace(), Trace().dynamo, Trace().compiler):
            if not hasattr(type(asked), name):
                with pytest.raises(AttributeError, match=re.escape(right)):
                    getattr(asked, name)


def test_an_error_inside_a_property_is_not_taken_for_a_wrong_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own message goes through."""
    monkeypatch.setattr(Trace, "stages", property(lambda self: object().other))
    with pytest.raises(AttributeError, match="'object' object has no attribute 'other'"):
        Trace().stages  # noqa: B018


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("LiveError", "explorer.errors.LiveError"),
        ("Choice", "explorer.types.Choice"),
        ("fit", "explorer.fits"),
        ("probe", "explorer.vary"),
        ("trace_kernel", "explorer.trace(kernel"),
        ("Quiz", "explorer.quiz.Quiz"),
    ],
)
def test_a_wrong_guess_at_the_top_gets_the_right_name(name: str, right: str) -> None:
    """So does one of explorer itself; a name that nothing is like is only said not to be there."""
    with pytest.raises(AttributeError, match=re.escape(right)):
        getattr(explorer, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        explorer.nothing  # noqa: B018


def wrong(text: str) -> Iterator[str]:
    """The names of a trace in a text that no trace has."""
    for found in NAMED.finditer(text):
        first, second, third = found["first"], found["second"], found["third"]
        if ELSEWHERE.match(found[0]):
            continue
        owner = BY_PATH.get(first) or {"kernels": Kernel if found["item"] else Kernels, "stages": Table}.get(first)
        is_wrong = first not in FACE or (owner and second and not _has(owner, second))
        if is_wrong or ((first, second) == ("live", "edits") and third and not hasattr(Edits, third)):
            yield found[0]


def _has(owner: type, name: str) -> bool:
    return hasattr(owner, name) or name in owner.__annotations__


def texts() -> Iterator[tuple[str, str]]:
    """Each text of the sources, pages, skills and notebooks that may name a verb, with its file."""
    for file in sorted((ROOT / "explorer").rglob("*.py")):
        if "quiz" in file.parts:  # there are tensors named t
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "t." in node.value:
                yield str(file.relative_to(ROOT)), node.value
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
    for page in (*pages, *(ROOT / "docs" / "explanation").glob("*.md"), *(ROOT / "skills").rglob("*.md")):
        yield str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            yield str(notebook.relative_to(ROOT)), "".join(cell["source"])


def test_every_name_that_is_told_is_there() -> None:
    """Messages, docstrings, guides and notebooks name verbs that a trace has."""
    assert sorted({(file, name) for file, text in texts() for name in wrong(text)}) == []


def test_a_name_that_is_not_there_is_found() -> None:
    """What this looks for, it finds."""
    assert list(wrong("call t.with_sass(), t.dynamo.passes, t.kernels[0].mix, t.kernels.tables and t.live.edits.undo()")) == [
        "t.with_sass",
        "t.dynamo.passes",
        "t.kernels[0].mix",
        "t.kernels.tables",
        "t.live.edits.undo",
    ]
