"""The check of a trace for a GPU that is not there: its wrappers and kernels run on the CPU, interpreted, beside eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from explorer.errors import InputError
from explorer.hooks.estimate import Estimate, speed
from explorer.hooks.generated import Code, estimate, interpreted
from explorer.live.call import Call, run_call, tensors_of
from explorer.progress import progress

Outcome = tuple[Any, Any]

#: Seconds of interpreting that a check may be estimated to take, unless asked for more.
LIMIT = 120.0


def outcomes(call: Call, compiled: Callable[..., Any], codes: Sequence[Code], limit: float | None) -> tuple[Outcome, ...]:
    """What eager gives, what the generated code gives interpreted, and where that draws random numbers once more.

    Everything is called with copies, and random numbers, buffers of the module and their gradients are left as they
    were. InputError, before anything is started, where the estimate is more than `limit` seconds.
    """
    rounds = 2 if any(code.random for code in codes) else 1
    expected = estimate(codes)
    allowed(expected, rounds, LIMIT if limit is None else limit)
    with progress(call_name(call), f"{expected.launches * rounds} kernels, interpreting") as show:
        with _untouched(call):
            eager = run_call(call.function, call.copy())
        found = [_interpreted(call, compiled, show, seed) for seed in range(rounds)]
    return (eager, *found)


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


def _interpreted(call: Call, compiled: Callable[..., Any], show: Callable[[str], None] | None, seed: int) -> Outcome:
    with _untouched(call, seed), interpreted(show):
        return run_call(compiled, call.copy())


@contextmanager
def _untouched(call: Call, seed: int = 0) -> Iterator[None]:
    """The random state and the module's buffers are what they were before; inside, random numbers start from a seed."""
    import torch

    buffers = list(call.function.buffers()) if isinstance(call.function, torch.nn.Module) else []
    before = [buffer.detach().clone() for buffer in buffers]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(buffers, before, strict=True):
                    buffer.copy_(value)


def varies(one: Outcome, other: Outcome) -> list[bool]:
    """For each output and gradient, whether it depends on the random numbers drawn."""
    import torch

    pairs = zip(tensors_of(one), tensors_of(other), strict=True)
    return [a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for (_, a), (_, b) in pairs]
