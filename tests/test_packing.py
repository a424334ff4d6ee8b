"""A payload is packed in parts: the first has what a first screen shows, the others are unpacked later."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import explorer
from explorer.view import packing, page
from explorer.view.compared import payload_of_comparison
from explorer.view.packing import pack, unpack
from explorer.view.payload import payload
from tests.facts import untold

#: The texts that are not unpacked, and all texts, which are unpacked by being read.
HELD = """(app) => app.store.payload.artifacts.flatMap((artifact, index) =>
    Object.getOwnPropertyDescriptor(artifact, "text").get ? [index] : [])"""
TEXTS = "(app) => app.store.payload.artifacts.map((artifact) => artifact.text)"


def plain(value: object) -> Any:
    return json.loads(json.dumps(value))


def sizes(packed: bytes) -> list[int]:
    found: list[int] = json.loads(packed.partition(b"\n")[0])
    return found


@pytest.fixture
def tab(tabs: Callable[..., Any]) -> Any:
    """A tab whose browser is never idle: what is not asked for stays packed. Its script makes it one of its own."""
    made = tabs(alone=True)
    made.add_init_script("window.requestIdleCallback = () => 0")
    return made


def test_what_was_packed_is_unpacked(rotary):
    """Packing keeps the payload, of one trace and of several, and changes nothing in the one that it is given."""
    both = explorer.compare(rotary, rotary, names=("one", "other"))
    for whole in (payload(rotary), payload_of_comparison(both)):
        before = plain(whole)
        assert unpack(pack(whole)) == before
        assert plain(whole) == before


def test_each_value_is_written_once(rotary, monkeypatch):
    """The JSON by which the size of a part is known is the one that is packed."""
    lengths: list[int] = []

    def to_json(value: object) -> str:
        text = json.dumps(value, separators=(",", ":"))
        lengths.append(len(text))
        return text

    monkeypatch.setattr(packing, "_json", to_json)
    whole = payload(rotary)
    pack(whole)
    written = sum(lengths)
    assert 0 < written < 1.1 * len(to_json(whole))


def test_equal_payloads_are_packed_equally(rotary):
    """The bytes depend on the payload alone, and their first line has the sizes of all parts."""
    packed = pack(payload(rotary))
    assert packed == pack(payload(rotary))
    assert sum(sizes(packed)) == len(packed.partition(b"\n")[2])


def test_a_part_ends_after_so_much_json(rotary, monkeypatch):
    """A large trace has more parts than a small one."""
    monkeypatch.setattr("explorer.view.packing.PART", 10_000_000)
    assert len(sizes(pack(payload(rotary)))) == 2
    monkeypatch.setattr("explorer.view.packing.PART", 10_000)
    assert len(sizes(pack(payload(rotary)))) > 5


@pytest.mark.parametrize("traces", [1, 2])
def test_the_first_screen_unpacks_no_other_part(tab, rotary, tmp_path, monkeypatch, traces):
    """A page shows the program and the kernel without the other parts; each text is there as soon as it is asked for."""
    monkeypatch.setattr("explorer.view.packing.PART", 1)
    shown = rotary if traces == 1 else explorer.compare(rotary, rotary, names=("one", "other"))
    page.save(shown, tmp_path / "page.html")
    tab.goto((tmp_path / "page.html").as_uri())
    tab.wait_for_selector("#explorer[data-state=ready]")
    app = tab.evaluate_handle("document.querySelector('#explorer').app")
    whole = payload(rotary) if traces == 1 else payload_of_comparison(shown)
    artifacts = whole["artifacts"]
    first = set(tab.evaluate("(app) => app.panes.list.map((pane) => pane.artifact)", app))
    wanted = {n for n, a in enumerate(artifacts) if a["text"] and a["stage"] != "source" and n not in first}
    same = {n for n, a in enumerate(artifacts) if "same_text" in a}
    assert set(tab.evaluate(HELD, app)) - same == wanted
    assert tab.evaluate(TEXTS, app) == [artifacts[a.get("same_text", n)]["text"] for n, a in enumerate(artifacts)]
    assert set(tab.evaluate(HELD, app)) == same


def test_the_other_parts_are_unpacked_in_time(opened, rotary):
    """A browser that has nothing else to do unpacks all parts, and what it then has is the payload."""
    tab = opened(rotary)
    app = tab.evaluate_handle("document.querySelector('#explorer').app")
    tab.wait_for_function(f"(app) => !({HELD})(app).length", arg=app)
    assert tab.evaluate("(app) => app.store.payload", app) == plain(payload(rotary))


def packed_page(packed: bytes, trace: Any) -> str:
    """The page of a trace with another payload in it."""
    held = base64.b64encode(packed).decode()
    return re.sub(r'(id="explorer-payload">)[^<]*', lambda match: match[1] + held, page.document(trace), count=1)


def test_a_payload_that_was_cut_is_not_opened(shown, rotary):
    """What lacks its end says so; it does not open and fail at a text that is read later."""
    tab = shown(packed_page(pack(payload(rotary))[:-100], rotary))
    tab.wait_for_selector("#explorer[data-state=failed]")
    assert not untold(tab.locator("#explorer").inner_text(), "page", "whole")


@pytest.mark.parametrize("idle", [False, True])
def test_a_damaged_part_says_so_and_the_others_are_there(shown, rotary, monkeypatch, idle):
    """One bit of a part is another: its texts say that they are damaged, asked for at once or unpacked in idle time."""
    monkeypatch.setattr("explorer.view.packing.PART", 20_000)
    packed = pack(payload(rotary))
    first, second = sizes(packed)[:2]
    wrong = bytearray(packed)
    wrong[packed.index(b"\n") + 1 + first + second // 2] ^= 1
    tab = shown(packed_page(bytes(wrong), rotary))
    tab.wait_for_selector("#explorer[data-state=ready]")
    app = tab.evaluate_handle("document.querySelector('#explorer').app")
    if idle:
        tab.wait_for_function(f"(app) => !({HELD})(app).length", arg=app)
    texts = tab.evaluate(TEXTS, app)
    lost = [text.startswith("a part of this trace is damaged") for text in texts]
    assert any(lost) and not all(lost)
    assert [text for text, gone in zip(texts, lost, strict=True) if not gone] == [
        a.text for a, gone in zip(rotary.artifacts, lost, strict=True) if not gone
    ]
