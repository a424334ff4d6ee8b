"""Torch's structured log: which listener is called with what, and that nothing stays behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from explorer.capture.observe.structured import TRACE_LOG, interned, listening, only_heard, parsed
from explorer.tracing.recording.recorder import Recorder

LOG = logging.getLogger(TRACE_LOG)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Log something as torch does, metadata and payload, with no other handlers on the log."""
    monkeypatch.setattr(LOG, "handlers", [])

    def say(metadata: Mapping[str, Any], payload: str | None = None) -> None:
        record = LOG.makeRecord(
            TRACE_LOG, logging.DEBUG, "file", 1, "", (), None, extra={"metadata": metadata, "payload": payload}
        )
        LOG.handle(record)

    return say


def test_a_named_record_reaches_its_listener(said: Callable[..., None]) -> None:
    """A record goes to the listener of its first key, with its metadata and payload; others go to nobody."""
    heard: list[tuple[Mapping[str, Any], str]] = []
    recorder = Recorder()
    with listening(recorder, {"dynamo_start": lambda metadata, payload: heard.append((metadata, payload))}):
        said({"dynamo_start": {"stack": []}, "frame_id": 0}, "text")
        said({"something_else": {}, "dynamo_start": {}}, "not ours")
    assert heard == [({"dynamo_start": {"stack": []}, "frame_id": 0}, "text")] and recorder.failures == []


def test_artifacts_are_listened_for_by_their_own_name(said: Callable[..., None]) -> None:
    """A record "artifact" is found by the name inside it."""
    heard: list[str] = []
    with listening(Recorder(), {"recompile_reasons": lambda metadata, payload: heard.append(payload)}):
        said({"artifact": {"name": "recompile_reasons", "encoding": "json"}}, '["0/0: dtype"]')
        said({"artifact": {"name": "other"}}, "no")
    assert heard == ['["0/0: dtype"]']


def test_a_record_without_payload_has_an_empty_one(said: Callable[..., None]) -> None:
    """A listener always gets a string; a record without metadata is nobody's."""
    heard: list[str] = []
    with listening(Recorder(), {"a": lambda metadata, payload: heard.append(payload)}):
        said({"a": {}})
        said({})
    assert heard == [""]


def test_after_the_block_nothing_is_heard_and_no_handler_is_left(said: Callable[..., None]) -> None:
    """The handler is taken off, also after an error, and the others stay."""
    other = logging.NullHandler()
    LOG.addHandler(other)
    heard: list[str] = []
    with pytest.raises(ZeroDivisionError), listening(Recorder(), {"a": lambda metadata, payload: heard.append(payload)}):
        assert len(LOG.handlers) == 2
        raise ZeroDivisionError
    said({"a": {}}, "late")
    assert heard == [] and LOG.handlers == [other]


def test_an_error_in_a_listener_is_a_failure_and_goes_no_further(said: Callable[..., None]) -> None:
    """The compiler that logs is not disturbed: the error becomes a Failure that names the record."""
    recorder = Recorder()

    def broken(metadata: Mapping[str, Any], payload: str) -> None:
        raise KeyError("surprise")

    with listening(recorder, {"a": broken}):
        said({"a": {}}, "x")
    assert [(f.stage, f.step, f.message) for f in recorder.failures] == [("a", "structured log", "KeyError: 'surprise'")]


def test_interned_strings_are_found_by_number() -> None:
    """The number that a record gives for a file is its name again; an unknown number is ""."""
    from torch._logging import structured

    number = structured.intern_string("some/file.py")
    try:
        assert interned(number) == "some/file.py"
        assert interned(10**9) == "" == interned(None)
    finally:
        structured.INTERN_TABLE.pop("some/file.py", None)


def test_one_handler_passes_a_record_to_all_listeners_of_a_recording(said: Callable[..., None]) -> None:
    """However many probes listen, torch's log calls one handler; a listener that leaves does not take the others along."""
    heard: list[str] = []
    recorder = Recorder()
    with listening(recorder, {"a": lambda metadata, payload: heard.append("outer")}):
        with listening(recorder, {"a": lambda metadata, payload: heard.append("inner"), "b": lambda metadata, payload: None}):
            assert len(LOG.handlers) == 1
            said({"a": {}})
        said({"a": {}})
        with listening(Recorder(), {"a": lambda metadata, payload: heard.append("another recording")}):
            assert len(LOG.handlers) == 2
    assert heard == ["inner", "outer", "outer"] and LOG.handlers == []


@pytest.mark.parametrize(("name", "other", "made"), [("heard", False, 1), ("unheard", False, 0), ("unheard", True, 1)])
def test_a_record_that_nobody_reads_is_not_made(
    said: Callable[..., None], monkeypatch: pytest.MonkeyPatch, name: str, other: bool, made: int
) -> None:
    """torch makes a record and its payload for a listener, or for a handler that is not explorer's, and else not."""
    from torch._inductor import codecache

    payloads: list[str] = []
    monkeypatch.setattr(LOG, "handlers", [logging.NullHandler()] if other else [])
    recorder = Recorder()
    before = codecache.trace_structured
    with listening(recorder, {"heard": lambda metadata, payload: None}), only_heard(recorder):
        codecache.trace_structured("artifact", lambda: {"name": name}, payload_fn=lambda: payloads.append(name) or "text")
    assert payloads == [name] * made and codecache.trace_structured is before


def test_what_only_explorer_hears_is_handed_over_as_it_was_made(said: Callable[..., None]) -> None:
    """An object is no JSON, which `parsed` reads from both; a list is the text that torch writes; nothing is an empty text."""
    import torch._logging

    heard: list[Any] = []
    made: list[Any] = [{"ph": "B"}, ["a", {"b": 1}], "text", None]
    for only_explorer in (True, False):
        recorder = Recorder()
        with listening(recorder, {"heard": lambda metadata, payload: heard.append(payload)}), ExitStack() as stack:
            if only_explorer:
                stack.enter_context(only_heard(recorder))
            for payload in made:
                torch._logging.trace_structured("heard", payload_fn=lambda given=payload: given, expect_trace_id=False)
        assert recorder.failures == []
    direct, logged = heard[:4], heard[4:]
    assert direct[0] is made[0] and parsed(direct[0]) == parsed(logged[0]) == made[0]
    assert direct[1:] == logged[1:] == ['[\n"a",\n{"b": 1}\n]', "text", ""]


def test_a_payload_that_cannot_be_made_is_a_failure(said: Callable[..., None]) -> None:
    """torch would not make it without explorer, so its error does not reach the compile."""
    import torch._logging

    recorder = Recorder()
    with listening(recorder, {"heard": lambda metadata, payload: None}), only_heard(recorder):
        torch._logging.trace_structured("heard", payload_fn=lambda: 1 / 0)
    assert [(f.stage, f.message) for f in recorder.failures] == [("heard", "ZeroDivisionError: division by zero")]
