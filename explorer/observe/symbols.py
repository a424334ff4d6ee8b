"""Observe the symbols that Dynamo makes for dynamic sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.model.artifacts import Symbol
from explorer.model.stage import Emit
from explorer.observe.places import in_package
from explorer.observe.structured import interned, listening

#: Files of torch that are on the stack of every condition on symbols, whoever asks for it.
ASKED_THROUGH = ("torch/_logging/", "torch/fx/experimental/", "torch/utils/", "torch/_inductor/sizevars.py", "torch/__init__.py")


def _place_in_torch(stack: list[Mapping[str, Any]]) -> str:
    """Find the innermost place in torch on the stack of a condition; "" where there is none."""
    for frame in reversed(stack):
        file = in_package(interned(frame.get("filename")))
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
        facts = metadata["create_symbol"]
        symbol, value, limits, source = (None if (text := facts.get(k)) is None else str(text) for k in CREATED)
        emit("symbol", lambda: _at_its_line(facts, what="created", symbol=symbol, val=value, vr=limits, source=source))

    def guarded(metadata: Mapping[str, Any], payload: str) -> None:
        facts = next(iter(metadata.values()))
        emit("symbol", lambda: _at_its_line(facts, what="guarded", expr=str(facts.get("expr", ""))))

    def unbacked(metadata: Mapping[str, Any], payload: str) -> None:
        facts = metadata["create_unbacked_symbol"]
        symbol, limits = str(facts["symbol"]), str(facts["vr"])
        emit("symbol", lambda: _at_its_line(facts, what="created", symbol=symbol, val="", vr=limits, source=UNBACKED))

    with listening(
        emit, {"create_symbol": created, "create_unbacked_symbol": unbacked, "guard_added_fast": guarded, "guard_added": guarded}
    ):
        yield


def _at_its_line(
    facts: Mapping[str, Any],
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
        file=interned(last.get("filename")),
        line=last.get("line", 0),
        code=last.get("loc", ""),
        framework="" if stack else _place_in_torch(facts.get("stack") or []),
    )
