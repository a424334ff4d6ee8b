"""Source: the title says which function it is, where it stands, and what became of it."""

from __future__ import annotations

import pytest

from explorer.model import Event, plain
from explorer.stages.source import STAGE

FACTS = {
    "text": "def f(x):\n    return x\n", "function": "f", "qualname": "Model.f", "file": "my code/model.py", "line": 7,
    "first_line": 7, "resume": False, "compiled": True, "not_compiled": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({}, "Model.f (model.py:7)"),
        ({"resume": True}, "Model.f (model.py:7)"),
        ({"inlined": True, "compiled": False}, "Model.f (model.py:7, inlined)"),
        ({"compiled": False}, "Model.f (model.py:7, not compiled)"),
        ({"compiled": False, "resume": True}, "Model.f (model.py:7, not compiled: this branch has not run)"),
        ({"first_line": 5}, "Model.f (model.py:5)"),
        ({"file": "<ipython-input-3>"}, "Model.f (<ipython-input-3>:7)"),
    ],
)
def test_the_title_says_what_became_of_the_function(changes: dict[str, object], title: str) -> None:
    """Compiled functions have name and place; the others also say that they were inlined, or not compiled and why."""
    made = STAGE.render(Event("source", 0.0, "0/0", data=plain({**FACTS, **changes})), "id")
    assert made.title == title


def test_the_text_is_the_source_and_the_facts_are_kept() -> None:
    """The text is the function's; `data` says where it is from, which links need."""
    made = STAGE.render(Event("source", 0.0, "0/0", data=plain(FACTS)), "id")
    assert made.text == FACTS["text"] and made.language == "python"
    assert (made.data["file"], made.data["first_line"], made.data["compiled"]) == ("my code/model.py", 7, True)
