"""The check of a trace for a GPU you don't have: its wrappers and kernels run on the CPU, interpreted, beside eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from explorer.absent.generated import Code, estimate, interpreted
from explorer.errors import InputError
from explorer.interpret.estimate import Estimate, speed
from explorer.live.call import Call
from explorer.process.progress import progress

#: Seconds of interpreting that a check may be estimated to take, unless asked for more.
LIMIT = 120.0


@contextmanager
def interpreting_calls(call: Call, codes: Sequence[Code], limit: float | None) -> Iterator[tuple[Callable[..., Any], int]]:
    """What runs the generated code in place of the compiled function's, and how many calls of random code the limit allows.

    InputError, before anything is started, where one call is estimated to take more than `limit` seconds.
    """
    expected = estimate(codes)
    seconds = LIMIT if limit is None else limit
    allowed(expected, 1, seconds)
    more = int(seconds / max(expected.seconds(speed()), 1e-3)) - 1
    with progress(call_name(call), f"{expected.launches} kernels, interpreting") as show:

        def within() -> AbstractContextManager[Any]:
            return interpreted(show)

        yield within, more


def allowed(expected: Estimate, rounds: int, limit: float) -> None:
    """InputError where interpreting takes longer than the limit, with what to do."""
    seconds = expected.seconds(speed()) * rounds
    if seconds > limit:
        raise InputError(
            f"interpreting {expected.launches} launches of {expected.programs} programs on the CPU takes about "
            f"{seconds:.0f} s here, more than the limit of {limit:.0f} s: give smaller inputs, or a larger limit, "
            f"such as limit={2 * seconds:.0f}"
        )


def call_name(call: Call) -> str:
    """What people call the function."""
    return str(getattr(call.function, "__qualname__", None) or type(call.function).__qualname__)
