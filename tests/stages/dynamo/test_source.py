"""Source: the title says which function it is, where it stands, and what became of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact, Event, plain
from explorer.stages.dynamo.source import STAGE
from explorer.tracing.traced import Trace
from tests.facts import untold

FACTS = {
    "text": "def f(x):\n    return x\n",
    "function": "f",
    "qualname": "Model.f",
    "file": "my code/model.py",
    "line": 7,
    "first_line": 7,
    "resume": False,
    "compiled": True,
    "not_compiled": None,
}


@pytest.mark.parametrize(
    ("changes", "facts", "left_out"),
    [
        ({}, ("model.py:7",), ("inlined", "compiled")),
        ({"resume": True}, ("model.py:7",), ("inlined", "compiled")),
        ({"inlined": True, "compiled": False}, ("model.py:7", "inlined"), ("compiled",)),
        ({"compiled": False}, ("model.py:7", "not compiled"), ("inlined", "branch")),
        ({"compiled": False, "resume": True}, ("model.py:7", "not compiled", "branch"), ("inlined",)),
        ({"first_line": 5}, ("model.py:5",), ("inlined", "compiled")),
        ({"file": "<ipython-input-3>"}, ("<ipython-input-3>:7",), ("inlined", "compiled")),
    ],
)
def test_the_title_says_what_became_of_the_function(
    changes: dict[str, object], facts: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    """Compiled functions have name and place; the others also say that they were inlined, or not compiled and why."""
    made = STAGE.artifact_of(Event("source", 0.0, "0/0", data=plain({**FACTS, **changes})), "id")
    assert not untold(made.title, "Model.f", *facts) and untold(made.title, *left_out) == [*left_out]


def test_the_text_is_the_source_and_the_facts_are_kept() -> None:
    """The text is the function's; `data` says where it is from, which links need."""
    made = STAGE.artifact_of(Event("source", 0.0, "0/0", data=plain(FACTS)), "id")
    assert made.text == FACTS["text"] and made.language == "python"
    assert (made.data["file"], made.data["first_line"], made.data["compiled"]) == ("my code/model.py", 7, True)


def source(id: str, text: str, first: int, file: str = "a.py") -> Artifact:
    return Artifact(id, "source", "0/0", "", id, "python", text, data=blank(Source, file=file, first_line=first))


OUTER = source("outer", "def f(x):\n    def g(y):\n        return y.sin()\n    return g(x)", 10)
INNER = source("inner", "def g(y):\n    return y.sin()", 11)


def links(*sources: Artifact) -> set[tuple[str, int, str, int]]:
    trace = Trace(artifacts=sources)
    made = [link for a in sources for link in STAGE.link(a, trace)]
    return {(link.source, a, link.target, b) for link in made for a in link.source_lines for b in link.target_lines}


def test_a_line_of_a_function_inside_another_leads_to_that_ones_text() -> None:
    """Each line by its number in the file; in each compile of the function around it."""
    again = replace(OUTER, id="again", frame="0/1")
    assert links(OUTER, INNER) == {("inner", 1, "outer", 2), ("inner", 2, "outer", 3)}
    assert {target for _, _, target, _ in links(OUTER, INNER, again)} == {"outer", "again"}


def test_only_the_nearest_text_of_the_same_file_is_led_to() -> None:
    """Not two texts of the same lines, nor another file's, nor a line that reads otherwise there."""
    assert links(OUTER, replace(OUTER, id="again")) == set()
    assert links(source("outer", OUTER.text, 10, "b.py"), INNER) == set()
    assert links(replace(OUTER, text=OUTER.text.replace("sin", "cos")), INNER) == {("inner", 1, "outer", 2)}
    innermost = source("innermost", "return y.sin()", 12)
    assert ("innermost", 1, "inner", 2) in links(OUTER, INNER, innermost)
    assert ("innermost", 1, "outer", 3) not in links(OUTER, INNER, innermost)
