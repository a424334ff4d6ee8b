"""Recompiles: the guards that failed, read from each form in which Dynamo says them."""

from __future__ import annotations

from explorer.model.shared import Text
from explorer.model.stage import Frames
from explorer.model.values import Event
from explorer.stages.dynamo.recompile import STAGE, Recompiles, reasons
from tests.facts import untold

ONE = "0/0: tensor 'x' dtype mismatch. expected Float, actual Double"
SEVERAL = """[
"0/1: tensor 'x' dtype mismatch. expected Double, actual Float",
"0/0: tensor 'x' size mismatch at index 0. expected 8, actual 12"
]"""


def test_one_reason_is_a_plain_text() -> None:
    """The earlier compile stands before the colon, the guard in Dynamo's words after it."""
    assert reasons(ONE) == ({"earlier": "0/0", "guard": "tensor 'x' dtype mismatch. expected Float, actual Double"},)


def test_several_reasons_are_a_list() -> None:
    """Each earlier compile that did not fit is a row, in Dynamo's order."""
    assert [(r["earlier"], r["guard"]) for r in reasons(SEVERAL)] == [
        ("0/1", "tensor 'x' dtype mismatch. expected Double, actual Float"),
        ("0/0", "tensor 'x' size mismatch at index 0. expected 8, actual 12"),
    ]


def test_a_guard_of_several_lines_is_kept_whole() -> None:
    """Only the first colon separates; line breaks belong to the guard."""
    assert reasons("12/3: L['x'] == 1  # HINT:\n  more") == ({"earlier": "12/3", "guard": "L['x'] == 1  # HINT:\n  more"},)


def test_a_reason_without_a_compile_is_kept() -> None:
    """Words of another form are the guard, of no known compile; so are JSON values that are no list."""
    assert reasons("the cache is full") == ({"earlier": "", "guard": "the cache is full"},)
    assert reasons("3") == ({"earlier": "", "guard": "3"},)


def test_the_stage_shows_a_line_a_reason_and_is_titled_by_the_first() -> None:
    """Title, text and rows agree, from the event as Dynamo's words gave it to the artifact."""
    recorded = Event("recompile", 0.0, "0/2", data=Text(text=SEVERAL))
    (gathered,) = STAGE.gather([recorded], Frames({}))
    made = STAGE.artifact_of(gathered, "id")
    assert not untold(made.title, "Recompile", "tensor 'x' dtype mismatch. expected Double, actual Float")
    assert [line.partition(": ")[0] for line in made.lines] == ["0/1", "0/0"]
    assert made.data == Recompiles(rows=reasons(SEVERAL))


def test_a_guard_on_an_object_reads_as_in_the_guards() -> None:
    """It has no id of the object, which differs between processes; the event keeps the id for the probe verbs."""
    words = "0/0: ___check_obj_id(fn, 139880954546672), type=<class 'function'>"
    (gathered,) = STAGE.gather([Event("recompile", 0.0, "0/1", data=Text(text=words))], Frames({}))
    assert STAGE.artifact_of(gathered, "id").text == "0/0: ___check_obj_id(fn, <id>), type=<class 'function'>"
    assert "139880954546672" in reasons(words)[0].guard
