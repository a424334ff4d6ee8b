"""Torch's structured log: which listener is called with what, and that nothing stays behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from explorer.observe.structured import TRACE_LOG, interned, listening
from explorer.recording.recorder import Recorder

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
