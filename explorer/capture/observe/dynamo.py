"""Observe Dynamo's log: each compile's start, recompiles, graph breaks, and the phases that the compiler times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.capture.observe.failed import failed_compiles
from explorer.capture.observe.places import OWN_FOLDER
from explorer.capture.observe.structured import interned, listening, parsed
from explorer.model.events import Frame
from explorer.model.shared import Place, Text
from explorer.model.stage import Emit
from explorer.model.values import text_lines
from explorer.stages.dynamo.graph_break import GraphBreakText
from explorer.stages.torch_compile.phase import PhaseMark


@contextmanager
def frames(emit: Emit) -> Iterator[None]:
    """Record the start of each compile, with the program's stack that led to it, and how it failed where it did."""

    def started(metadata: Mapping[str, Any], payload: str) -> None:
        stack = metadata["dynamo_start"]["stack"]
        places = tuple(Place(file=interned(f["filename"]), line=f["line"], function=f["name"]) for f in stack)
        emit("frame", lambda: Frame(stack=places))

    with listening(emit, {"dynamo_start": started}), failed_compiles(emit):
        yield


@contextmanager
def logged(emit: Emit, kind: str, name: str) -> Iterator[None]:
    """Record the payload of each structured record `name` as an event of `kind`."""

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        emit(kind, lambda: Text(text=payload))

    with listening(emit, {name: heard}):
        yield


@contextmanager
def graph_breaks(emit: Emit) -> Iterator[None]:
    """Record Dynamo's message for each graph break, without explorer's own calls among the user's."""

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        emit("graph_break", lambda: GraphBreakText(text=without_own_calls(payload)))

    with listening(emit, {"dynamo_graph_break_reason": heard}):
        yield


def without_own_calls(text: str) -> str:
    """Remove from a text the traceback entries in explorer's own files."""
    own, kept, skipping = f'  File "{OWN_FOLDER}', list[str](), False
    for line in text_lines(text, ends=True):
        skipping = line.startswith(own) or (skipping and line.startswith("    "))
        if not skipping:
            kept.append(line)
    return "".join(kept)


@contextmanager
def phases(emit: Emit) -> Iterator[None]:
    """Record the start and end of each phase that the compiler itself times."""

    def phase(metadata: Mapping[str, Any], payload: Any) -> None:
        record = parsed(payload)
        if record.get("ph") in ("B", "E"):
            function = record.get("args", {}).get("fn_name", "")
            emit("phase", lambda: PhaseMark(name=record["name"], at=record["ph"], function=function))

    with listening(emit, {"chromium_event": phase}):
        yield
