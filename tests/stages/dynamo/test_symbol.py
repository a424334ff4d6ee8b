"""Symbols: one line per dynamic size, and one a condition that the program put on it."""

from __future__ import annotations

from dataclasses import replace

from explorer.model.values import Event, plain
from explorer.stages.dynamo.symbol import STAGE, Symbol, readable
from tests.facts import untold

CREATED = Symbol(
    what="created",
    symbol="s77",
    val="12",
    vr="[4, 64]",
    source="L['x'].size()[0]",
    file="tests/programs.py",
    line=45,
    code="return torch.relu(x) * x.shape[0]",
)
GUARDED = Symbol(what="guarded", expr="s77 < 32", file="tests/programs.py", line=46, code="if x.shape[0] < 32:")


def test_a_symbol_is_a_line_with_source_range_value_and_reason() -> None:
    """A size's line says where it comes from, its range, its value at this call, and the user's code."""
    assert not untold(readable(CREATED), "s77 = L['x'].size()[0]", "[4, 64]", "12", "# return torch.relu(x) * x.shape[0]")


def test_a_condition_is_a_line_with_its_reason() -> None:
    """A condition is the expression, with the user's code where it is known."""
    assert readable(GUARDED) == "s77 < 32  # if x.shape[0] < 32:"
    assert readable(replace(GUARDED, code="")) == "s77 < 32"


def test_the_stage_is_one_text_for_all_of_a_frame() -> None:
    """Sizes and conditions stand in the order in which Dynamo came to them."""
    made = STAGE.artifact_of(Event("symbol", 0.0, "0/2", data=plain({"rows": [CREATED, GUARDED]})), "id")
    assert made.lines == (readable(CREATED), readable(GUARDED))
    assert [row["what"] for row in made.data["rows"]] == ["created", "guarded"]
