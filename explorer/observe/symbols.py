"""Observe the symbols that Dynamo makes for dynamic sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.model.stage import Emit
from explorer.model.values import Plain
from explorer.observe.places import in_package
from explorer.observe.structured import interned, listening

#: Files of torch through which every condition on symbols goes, whoever asks for it.
ASKED_THROUGH = ("torch/_logging/", "torch/fx/experimental/", "torch/utils/", "torch/_inductor/sizevars.py", "torch/__init__.py")


def _place_in_torch(stack: list[Mapping[str, Any]]) -> str:
    """The innermost place of torch's own on a logged stack that asked for a condition; "" where there is none."""
    for frame in reversed(stack):
        file = in_package(interned(frame.get("filename")))
        if file.startswith("torch/") and not file.startswith(ASKED_THROUGH):
            return f"{file.removeprefix('torch/')}:{frame['line']} in {frame['name']}"
    return ""


#: The source of a symbol that no input gives: a size or number that is read from a tensor's data.
UNBACKED = "data (unbacked: known only when the code runs)"


@contextmanager
def symbols(emit: Emit) -> Iterator[None]:
    """Record each symbol that Dynamo makes for a dynamic size, where it is from, and what is learnt of it."""

    def line_of(facts: Mapping[str, Any]) -> dict[str, Plain]:
        stack = facts.get("user_stack") or []
        last = stack[-1] if stack else {}
        framework = "" if stack else _place_in_torch(facts.get("stack") or [])
        user = {"file": interned(last.get("filename")), "line": last.get("line", 0), "code": last.get("loc", "")}
        return {**user, "framework": framework}

    def created(metadata: Mapping[str, Any], payload: str) -> None:
        facts = metadata["create_symbol"]
        kept = {k: str(facts[k]) for k in ("symbol", "val", "vr", "source") if k in facts}
        emit("symbol", lambda: {"what": "created", **kept, **line_of(facts)})

    def guarded(metadata: Mapping[str, Any], payload: str) -> None:
        facts = next(iter(metadata.values()))
        emit("symbol", lambda: {"what": "guarded", "expr": str(facts.get("expr", "")), **line_of(facts)})

    def unbacked(metadata: Mapping[str, Any], payload: str) -> None:
        facts = metadata["create_unbacked_symbol"]
        known = {"symbol": str(facts["symbol"]), "val": "", "vr": str(facts["vr"]), "source": UNBACKED}
        emit("symbol", lambda: {"what": "created", **known, **line_of(facts)})

    with listening(
        emit, {"create_symbol": created, "create_unbacked_symbol": unbacked, "guard_added_fast": guarded, "guard_added": guarded}
    ):
        yield
