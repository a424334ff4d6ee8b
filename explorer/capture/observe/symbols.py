"""Observe the symbols that Dynamo makes for dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.capture.observe.places import in_package
from explorer.capture.observe.structured import interned, listening
from explorer.model.stage import Emit
from explorer.stages.dynamo.symbol import Symbol

#: Files of torch that are on the stack of every condition on symbols, whoever asks for it.
ASKED_THROUGH = ("torch/_logging/", "torch/fx/experimental/", "torch/utils/", "torch/_inductor/sizevars.py", "torch/__init__.py")


#: What gives the string of a number by which a record refers to it, such as a file's name.
Strings = Callable[[object], str]


def _place_in_torch(stack: list[Mapping[str, Any]], string: Strings) -> str:
    """Find the innermost place in torch on the stack of a condition; "" if there is none."""
    for frame in reversed(stack):
        file = in_package(string(frame.get("filename")))
        if file.startswith("torch/") and not file.startswith(ASKED_THROUGH):
            return f"{file.removeprefix('torch/')}:{frame['line']} in {frame['name']}"
    return ""


#: The fields of torch's record of a symbol that it created.
CREATED = ("symbol", "val", "vr", "source")
#: The source of a symbol that no input gives: a size or number that is read from a tensor's data.
UNBACKED = "data (unbacked: known only when the code runs)"


@contextmanager
def symbols(emit: Emit) -> Iterator[None]:
    """Record each symbol that Dynamo makes for a dynamic size, where it is from, and the conditions on it."""

    def created(metadata: Mapping[str, Any], payload: str) -> None:
        emit("symbol", lambda: created_symbol(metadata["create_symbol"], interned))

    def guarded(metadata: Mapping[str, Any], payload: str) -> None:
        emit("symbol", lambda: guarded_symbol(next(iter(metadata.values())), interned))

    def unbacked(metadata: Mapping[str, Any], payload: str) -> None:
        emit("symbol", lambda: unbacked_symbol(metadata["create_unbacked_symbol"], interned))

    with listening(
        emit, {"create_symbol": created, "create_unbacked_symbol": unbacked, "guard_added_fast": guarded, "guard_added": guarded}
    ):
        yield


def created_symbol(facts: Mapping[str, Any], string: Strings) -> Symbol:
    """The record of a symbol that Dynamo made, of what torch's log says of it."""
    symbol, value, limits, source = (None if (text := facts.get(k)) is None else str(text) for k in CREATED)
    return _at_its_line(facts, string, what="created", symbol=symbol, val=value, vr=limits, source=source)


def guarded_symbol(facts: Mapping[str, Any], string: Strings) -> Symbol:
    """The record of a condition on symbols."""
    return _at_its_line(facts, string, what="guarded", expr=str(facts.get("expr", "")))


def unbacked_symbol(facts: Mapping[str, Any], string: Strings) -> Symbol:
    """The record of a symbol for a number that no input gives."""
    symbol, limits = str(facts["symbol"]), str(facts["vr"])
    return _at_its_line(facts, string, what="created", symbol=symbol, val="", vr=limits, source=UNBACKED)


def _at_its_line(
    facts: Mapping[str, Any],
    string: Strings,
    *,
    what: str,
    symbol: str | None = None,
    val: str | None = None,
    vr: str | None = None,
    source: str | None = None,
    expr: str | None = None,
) -> Symbol:
    """The record of a symbol, at the user's line that torch's `facts` name, or else at a place in torch."""
    stack = facts.get("user_stack") or []
    last = stack[-1] if stack else {}
    return Symbol(
        what=what,
        symbol=symbol,
        val=val,
        vr=vr,
        source=source,
        expr=expr,
        file=string(last.get("filename")),
        line=last.get("line", 0),
        code=last.get("loc", ""),
        framework="" if stack else _place_in_torch(facts.get("stack") or [], string),
    )
