"""Lab: the sessions of a probe, and the rows that they make."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass

from explorer.analysis.questions.cells import place
from explorer.capture.observe.recompiles import recompile_limits
from explorer.lab.live.outcome import on_copies
from explorer.model.values import Plain
from explorer.process.progress import progress
from explorer.stages.dynamo.guards import Guard
from explorer.stages.fx_graph import short
from explorer.studies.varying.changes import CodeChanges, code_changes
from explorer.studies.varying.failing import FailedGuard
from explorer.studies.varying.session import Observed, Session
from explorer.studies.varying.variations import variations
from explorer.studies.varying.varied_call import varied
from explorer.studies.varying.vary import UNCHANGED, Vary
from explorer.tracing.recording.trace import Plan


@dataclass(frozen=True)
class Probed:
    """One call of a probe: the session that it was made in, what Dynamo did, and its row."""

    session: Session
    observed: Observed
    row: Mapping[str, Plain]


class Lab:
    """What a probe calls: the function and its arguments, compiled afresh for each session."""

    def __init__(self, plan: Plan) -> None:
        import torch

        self.plan, self.had_gradients = plan, torch.is_grad_enabled()
        self._limits = recompile_limits()
        self._clean: Session | None = None

    def first(self) -> Probed:
        """The first call, in a session that nothing else was called in."""
        session = self._clean = self._session()
        return probed(session, session.calls[0])

    def after_first(self, vary: Vary) -> Probed:
        """Call as `vary` says after the first call alone: nothing that an earlier variation compiled is there to serve it."""
        session = self._clean or self._session()
        self._clean = session
        observed = session.call(vary)
        if observed.attempts:
            self._clean = None
        return probed(session, observed)

    def in_turn(self, varied_calls: Iterable[Vary], first: Vary = UNCHANGED) -> Iterator[Probed]:
        """Make the calls one after the other in one session, as a program would: the next call may use what one compiled."""
        session = self.session()
        yield probed(session, session.call(first))
        for vary in varied_calls:
            yield probed(session, session.call(vary))

    def own_variations(self) -> list[Vary]:
        """What a probe varies by itself: see `variations`."""
        return list(variations(self.plan.call, self._runs))

    def session(self) -> Session:
        """Make a session in which nothing was called yet."""
        return Session(self.plan, self._limits)

    @property
    def limits(self) -> Mapping[str, int]:
        """Dynamo's limits on recompiles, as they were set when the lab was made."""
        return self._limits

    def _session(self) -> Session:
        session = self.session()
        session.call()
        return session

    def _runs(self, vary: Vary) -> bool:
        """Whether the function, not compiled, can be called so."""
        with on_copies(self.plan.call) as copied:
            change = varied(copied, vary)
            try:
                with change.in_force():
                    change.call.function(*change.call.args, **change.call.kwargs)
            except Exception:  # noqa: BLE001 what the program refuses is not tried
                return False
        return True


#: Where no bar can be shown, a line on stderr says after each of so many seconds which call is under way.
SECONDS_OF_SILENCE = 30.0


def with_progress(name: str, calls: Iterable[Vary]) -> Iterator[Vary]:
    """Yield the calls, and show which one is under way, of how many where that is known."""
    told = time.monotonic()
    of = f" of {len(calls)}" if isinstance(calls, Sized) else ""
    with progress(name, "probing") as show:
        for number, vary in enumerate(calls, 1):
            if show is not None:
                show(f"call {number}{of}: {vary}")
            elif time.monotonic() - told > SECONDS_OF_SILENCE:
                told = time.monotonic()
                sys.stderr.write(f"explorer: probing {name}: call {number}{of}, {vary}\n")
            yield vary


def probed(session: Session, observed: Observed) -> Probed:
    """Make the row of a call."""
    again = observed.number > 0 and bool(observed.compiled)
    changes = code_changes(session.first_of(observed), session.trace_of(observed)) if again else CodeChanges()
    failed = observed.failed[0] if observed.failed else None
    row: dict[str, Plain] = {
        "call": observed.number,
        "change": str(observed.vary) or "the call as it was given",
        "outcome": observed.outcome,
        **_of_guard(failed, session, observed),
        "kernels": str(changes) if again else "",
        "added": changes.added,
        "removed": changes.removed,
        "changed": changes.changed,
        "symbols": changes.symbols,
        "compiled": observed.compiled,
        "ran": observed.ran,
        "entries": observed.entries,
        "limit": session.limits["recompile_limit"],
        "seconds": round(observed.seconds, 4),
        "note": observed.note,
    }
    return Probed(session, observed, row)


def sentence(row: Mapping[str, Plain]) -> str:
    """Say in one sentence what became of a call."""
    if row["outcome"] == "served":
        return f"served by {', '.join(dict.fromkeys(row['ran']))}" if row["ran"] else f"served: {row['note']}"
    if row["outcome"] == "recompiled":
        where = f", for {row['code']!r} at {row['at']}" if row["at"] else ""
        return f"recompiled as {', '.join(row['compiled'])}: a guard of {row['earlier']} failed: {row['guard']}{where}"
    if row["outcome"] == "compiled":
        return f"compiled as {', '.join(row['compiled'])}"
    because = f" (a guard of {row['earlier']} failed: {row['guard']})" if row["guard"] else ""
    return f"{'ran eagerly' if row['outcome'] == 'eager' else 'raised'}: {row['note']}{because}"


def _of_guard(failed: FailedGuard | None, session: Session, observed: Observed) -> dict[str, Plain]:
    """What a row says of the guard that failed: torch's words, the user's line, and torch's own line that made it."""
    guard: Guard | None = failed.guard if failed else None
    of_user = guard is not None and bool(guard.code)
    return {
        "guard": failed.text.partition("  #")[0].strip() if failed else "",
        "earlier": failed.earlier if failed else "",
        "at": place_in(session, guard) if guard is not None and of_user else "",
        "code": guard.code if guard is not None else "",
        "torch": (guard.framework or "") if guard is not None else "",
        "guards": tuple((each.earlier, each.text) for each in observed.failed),
    }


def place_in(session: Session, guard: Guard) -> str:
    """The user's line of a guard: "file:line", or the cell of the notebook that it is in."""
    return place(session.cells(), short(guard.file), guard.line)
