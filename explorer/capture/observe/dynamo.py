"""Observe Dynamo's log: each compile's start, recompiles, graph breaks, and the phases that the compiler times."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
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

#: How the note on a Ctrl+C begins.
STOPPED = "explorer: stopped while compiling"


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
    """Record the start and end of each phase that the compiler itself times.

    A Ctrl+C that ends a phase gets a note which says what was compiling, and for how long.
    """
    begun: list[tuple[int, str, float]] = []  # the thread, name and start of each phase under way

    def phase(metadata: Mapping[str, Any], payload: Any) -> None:
        record = parsed(payload)
        if record.get("ph") in ("B", "E"):
            function = record.get("args", {}).get("fn_name", "")
            emit("phase", lambda: PhaseMark(name=record["name"], at=record["ph"], function=function))
            follow(record["name"], record["ph"])

    def follow(name: str, at: str) -> None:
        if at == "B":
            begun.append((get_ident(), name, time.perf_counter()))
            return
        while under_way := [one for one in begun if one[0] == get_ident()]:
            begun.remove(under_way[-1])
            if under_way[-1][1] == name:
                note_interrupt(name, time.perf_counter() - under_way[-1][2], emit.place)
                return

    with listening(emit, {"chromium_event": phase}):
        yield


def note_interrupt(phase: str, seconds: float, place: Callable[[], tuple[str, str]]) -> None:
    """Say on a KeyboardInterrupt that passes what was compiling; the phases around the innermost one add nothing."""
    error = sys.exc_info()[1]  # torch ends a phase in a finally block, while the error passes
    if isinstance(error, KeyboardInterrupt) and not any(STOPPED in note for note in getattr(error, "__notes__", ())):
        frame, graph = place()
        what = " ".join(filter(None, (frame, graph))) or "a graph"
        error.add_note(f"{STOPPED} {what}: it was in {phase} for {seconds:.1f} s")
