"""An answer has room for little: rows that do not fit are counted, and a long cell is cut."""

from __future__ import annotations

import json

from explorer.entry.mcp.answer import MAX_CHARACTERS, Answer, as_text
from tests.facts import untold


def test_an_answer_is_small_and_says_what_it_left_out() -> None:
    """Of a thousand rows as many are sent as fit; asked again from where it says, the next ones follow without a gap."""
    rows = [{"number": number, "text": "x" * 50} for number in range(1000)]
    offset, seen = 0, []
    while True:
        sent = Answer("a table", rows, offset=offset).sent()
        assert len(json.dumps(sent)) < MAX_CHARACTERS + 300
        seen += [row["number"] for row in sent["evidence"]]
        if not sent["left_out"]:
            break
        offset += len(sent["evidence"])
        assert f"offset={offset}" in sent["left_out"]
    assert seen == list(range(1000))


def test_a_row_that_is_too_long_is_sent_all_the_same_with_its_cells_cut() -> None:
    """There is always a first row, so that asking on comes to an end."""
    sent = Answer("", [{f"c{n}": "y" * 10_000 for n in range(60)}] * 2).sent()
    assert len(sent["evidence"]) == 1 and "1 of 2 rows" in sent["left_out"]
    assert sent["evidence"][0]["c0"].endswith("9760 characters more)")


def test_a_long_text_is_cut_and_counted() -> None:
    """What has no room is said, in characters."""
    sent = Answer("z" * 5000).sent()
    assert len(sent["answer"]) == 4000 and not untold(sent["left_out"], "1000 characters")


def test_what_an_agent_reads_has_all_parts() -> None:
    """The words come first, then a line a row, then what was left out and what to ask next; empty cells are no cells."""
    sent = Answer("two rows", [{"a": 1, "b": ""}, {"a": 0.123456, "b": None}], ("why(…)",)).sent()
    assert as_text({"trace": "t1", **sent}) == 'trace t1\ntwo rows\n{"a": 1}\n{"a": 0.1235}\nnext: why(…)'
