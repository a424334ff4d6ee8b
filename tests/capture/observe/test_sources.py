"""The source of code objects: shown where it is what was compiled; elsewhere its lines by number, and why."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType

import pytest
import torch

import explorer
from explorer.capture.observe.sources import source_of
from explorer.model.trace_data import artifact_of
from explorer.tracing.traced import Trace
from tests.facts import untold

TEXT = """import torch

def inner(x):
    return torch.exp(x)

def program(x):
    y = torch.sin(x)
    return inner(y) * 2

class Base:
    def forward(self, x):
        return x

class Model(Base):
    __scale = 2

    @staticmethod
    def make(k):
        return [lambda v: v + k for _ in range(2)]

    def forward(self, x):
        return super().forward(x) * self.__scale
"""

OTHER = TEXT.replace("sin", "cos").replace("exp", "log").replace("+ k", "- 1 + k").replace("__scale\n", "__share\n")
OTHER = OTHER.replace("range(2)", "range(3)")


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A function that writes a text to a file, imports it, and then writes another text there."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(after: str, text: str = TEXT) -> ModuleType:
        file = tmp_path / "changing.py"
        file.write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        module = importlib.import_module("changing")
        file.write_text(after, encoding="utf-8")
        return module

    yield load
    sys.modules.pop("changing", None)


def codes(module: ModuleType) -> dict[str, CodeType]:
    functions = (module.inner, module.program, module.Model.make, module.Model.forward, module.Model.make(1)[0])
    return {f.__name__: f.__code__ for f in functions}


def test_a_file_that_is_as_it_was_is_shown(imported: Callable[[str], ModuleType]) -> None:
    """Functions, methods with super() and private names, static methods, and a lambda with a closure."""
    found = {name: source_of(code) for name, code in codes(imported(TEXT)).items()}
    assert set(found) == {"inner", "program", "make", "forward", "<lambda>"}
    assert {why for _, _, why in found.values()} == {""}
    assert found["program"] == ("def program(x):\n    y = torch.sin(x)\n    return inner(y) * 2\n", 6, "")


@pytest.mark.parametrize(
    "after",
    [
        f"# a line\n{TEXT}",
        f"# a line\n\n\n# and\n\n{TEXT}",
        OTHER,
        TEXT[:10],
        "def broken(:\n",
    ],
    ids=["one line down", "five lines down", "in place", "cut off", "no Python"],
)
def test_a_file_that_has_changed_is_not_shown(imported: Callable[[str], ModuleType], after: str) -> None:
    """Each line has its number in the file that was compiled, and why its text is not there."""
    module = imported(after)
    text, first, why = source_of(module.program.__code__)
    if after != "def broken(:\n":  # of a file that does not compile nothing is known but that its lines are others
        assert {source_of(code)[2] for code in codes(module).values()} == {"changed"}
    assert (first, why) == (6, "changed")
    *lines, last = text.split("\n")
    assert [untold(line, f"# line {n}", "changing.py", "changed") for n, line in zip((6, 7, 8), lines, strict=True)] == [[]] * 3
    assert last == ""


def test_a_change_elsewhere_in_the_file_changes_nothing(imported: Callable[[str], ModuleType]) -> None:
    """What stands below a function may change."""
    assert source_of(imported(TEXT.replace("return x\n", "return -x\n")).program.__code__)[2] == ""


def test_code_without_a_file_is_shown_where_linecache_has_its_text() -> None:
    """As notebooks and Python's prompt put it there; without that text its lines have only numbers."""
    names: dict[str, object] = {}
    text = "\ndef made(x):\n    return x\n"
    exec(compile(text, "<tests of sources>", "exec"), names)
    code = names["made"].__code__  # type: ignore[attr-defined]
    shown, *place = source_of(code)
    assert place == [2, "none"] and shown.endswith("\n")
    reasons = [line.removeprefix(f"# line {n}: ") for n, line in enumerate(shown.splitlines(), 2)]
    assert reasons == [reasons[0]] * 2 and not untold(reasons[0], "<tests of sources>", "source")
    linecache.cache["<tests of sources>"] = (len(text), None, text.splitlines(keepends=True), "<tests of sources>")
    try:
        assert source_of(code) == ("def made(x):\n    return x\n", 2, "")
    finally:
        del linecache.cache["<tests of sources>"]


def lines_reached(trace: Trace) -> set[tuple[str, int]]:
    """The functions and lines of the file that lines of the post-grad graph lead to by the stack of their node."""
    graph = trace.find("post_grad")[0]
    found = set()
    for number in range(1, len(graph.lines) + 1):
        for row in trace.follow(graph.id, number).where(stage="source"):
            if "called from" not in row["route"]:
                source = artifact_of(trace, row["artifact"])
                found |= {(str(source.data["function"]), n + source.data["first_line"] - 1) for n in row["lines"]}
    return found


@pytest.mark.compile
def test_links_lead_to_the_lines_that_were_compiled(imported: Callable[[str], ModuleType]) -> None:
    """Also in a file that changed, and for inlined functions; the trace names the file."""
    module = imported(f"# five\n# lines\n# more\n\n\n{TEXT}")
    trace = explorer.trace(module.program, torch.ones(4), target="h100")
    assert lines_reached(trace) == {("program", 7), ("inner", 4), ("program", 8)}
    program, inner = sorted((a.title for a in trace.find("source")), reverse=True)
    assert not untold(program, "program", "changing.py:6", "changed") and "inlined" not in program
    assert not untold(inner, "inner", "changing.py:3", "changed", "inlined")
    assert not untold(str(trace.failures[0]), "changing.py", "changed", "program", "Import")


@pytest.mark.compile
def test_code_of_exec_is_linked_by_its_lines() -> None:
    """Every stage is linked; the titles say that no source was kept."""
    names: dict[str, object] = {}
    exec(compile(TEXT, "<nowhere at all>", "exec"), names)
    trace = explorer.trace(names["program"], torch.ones(4), target="h100")  # type: ignore[arg-type]
    assert lines_reached(trace) == {("program", 7), ("inner", 4), ("program", 8)} and not trace.failures
    # torch 2.11 compiles a function of its own, `wrap_inline`, that calls one without a file
    titles = [a.title for a in trace.find("source") if "external_utils.py" not in a.title]
    assert len(titles) == 2 and all(not untold(title, "no source") for title in titles)
    assert all(row["share"] == 1.0 for row in trace.coverage() if row["counted"] and row["stage"] in ("dynamo", "kernel", "ttir"))


@pytest.mark.compile
def test_odd_characters_shift_no_line(imported: Callable[[str], ModuleType]) -> None:
    """A form feed, a file separator and U+2028 in a string are no ends of lines."""
    text = TEXT.replace("y = torch.sin(x)", 'y = torch.sin(x)  # "a\x0cb\x1cc\u2028d"')
    trace = explorer.trace(imported(text, text).program, torch.ones(4), target="h100")
    assert lines_reached(trace) == {("program", 7), ("inner", 4), ("program", 8)}
