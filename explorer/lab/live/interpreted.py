"""Run the wrappers and kernels of a trace for a GPU you don't have on the CPU, interpreted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from explorer.capture.absent.generated import Code, estimate, interpreted
from explorer.capture.absent.taken_numbers import Change
from explorer.capture.interpret.estimate import Estimate, speed
from explorer.capture.interpret.remembered import Remembered
from explorer.capture.interpret.sanitizer import Sanitizer
from explorer.errors import InputError
from explorer.lab.live.call import Call
from explorer.model.wording import quantity
from explorer.process.progress import progress

#: The most seconds of interpreting that a check may be estimated to take, unless asked for more.
LIMIT = 120.0
#: How much longer a launch takes whose accesses are watched.
WATCHED = 4.0


@contextmanager
def interpreting_calls(
    call: Call,
    codes: Sequence[Code],
    limit: float | None,
    number: Change,
    remembered: Remembered,
    sanitizer: Sanitizer | None = None,
) -> Iterator[tuple[Callable[..., Any], int]]:
    """Give what runs the generated code in place of the compiled function, and how many more calls the limit allows.

    `number` changes the floats that the program takes from its tensors, `remembered` has what launches wrote before, and
    `sanitizer` watches each launch. InputError, before anything runs, if one call is estimated to take more than `limit` seconds.
    """
    cost = estimate(codes)
    seconds = LIMIT if limit is None else limit
    check_limit(cost, seconds, 1 if sanitizer is None else WATCHED)
    more_calls = int(seconds / max(cost.seconds(speed()), 1e-3)) - 1
    with progress(call_name(call), f"{quantity(cost.launches, 'kernel')}, interpreting") as show:

        def within() -> AbstractContextManager[Any]:
            return interpreted(show, number, remembered, sanitizer)

        yield within, more_calls


def check_limit(cost: Estimate, limit: float, times: float = 1) -> None:
    """Raise InputError, with what to do, if interpreting takes longer than `limit` seconds, `times` as long as unwatched."""
    seconds = times * cost.seconds(speed())
    if seconds > limit:
        raise InputError(
            f"interpreting the kernels on the CPU takes about {seconds:.0f} s here, more than the limit of {limit:.0f} s "
            f"(launches: {cost.launches}, programs: {cost.programs}): give smaller inputs, or a larger limit, "
            f"such as limit={2 * seconds:.0f}"
        )


def call_name(call: Call) -> str:
    """Return the qualified name of the call's function, or of the function's class."""
    return str(getattr(call.function, "__qualname__", None) or type(call.function).__qualname__)
