"""Say where a guard that failed comes from: find it among the guards of the compile that it belongs to. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.model.records import typed
from explorer.model.shared import Text
from explorer.model.values import Event
from explorer.stages.dynamo.guards import Guard, GuardTree, guard_rows, with_origins
from explorer.stages.dynamo.recompile import reasons
from explorer.stages.unread import read

#: How Dynamo writes a local variable in a reason: L['x'] is x there.
_LOCAL = re.compile(r"\bL\[\s*['\"](.*?)['\"]\s*\]")
#: A reason that names the tensor, and one that names what changed of the program's state.
_TENSOR = re.compile(r"^tensor '(?P<source>.+?)' ")
_STATE = re.compile(r"^GLOBAL_STATE changed:")
#: Where torch lists the user's stack under a reason.
_STACK = "\nUser stack trace:"


@dataclass(frozen=True)
class FailedGuard:
    """A guard that failed: the frame compiled again, the earlier compile that it belongs to, torch's words, and its row.

    `guard` is its row among the guards of the earlier compile; None for any other guard.
    """

    frame: str
    earlier: str
    text: str
    guard: Guard | None = None


def failed_guards(events: Sequence[Event], earlier: Sequence[Event], names: Mapping[str, str]) -> list[FailedGuard]:
    """List the guards that failed in the `events` of one call, each with its row in the guards of the `earlier` events.

    Those of the program's own compiles, which are not of the probe, are left out.
    """
    found = []
    for event in events:
        for row in reasons(typed(Text, event.data).text) if event.kind == "recompile" else ():
            if row.earlier in names:
                text = row.guard.partition(_STACK)[0].strip()
                guard = matching(text, guards_of(earlier, row.earlier))
                found.append(FailedGuard(names.get(event.frame, event.frame), names[row.earlier], text, guard))
    return found


def guards_of(events: Sequence[Event], frame: str) -> list[Guard]:
    """The guards of a compile, by Dynamo's id of it."""
    recorded = [event for event in events if event.kind == "guards" and event.frame == frame]
    trees = [typed(GuardTree, event.data) for event in read(recorded).events]
    return [row for tree in trees for row in with_origins(guard_rows(tree.text), tree.made_at or ())]


def matching(text: str, guards: Sequence[Guard]) -> Guard | None:
    """Find the guard that a reason of Dynamo's speaks of; None where none of them is it."""
    if tensor := _TENSOR.match(text):
        wanted = [g for g in guards if g.kind == "TENSOR_MATCH" and _short(g.source) == tensor["source"]]
        return wanted[0] if wanted else None
    if _STATE.match(text):
        return next((g for g in guards if g.kind == "GLOBAL_STATE"), None)
    condition = re.split(r"\s+# ", text, maxsplit=1)[0].strip()
    same = [g for g in guards if _short(g.expression) == _short(condition)]
    return same[0] if same else next(iter(with_origins(guard_rows(f"+- LAMBDA_GUARD: {text}"))), None)


def _short(text: str) -> str:
    """A source or an expression as Dynamo's reasons write it."""
    return _LOCAL.sub(r"\1", text)
