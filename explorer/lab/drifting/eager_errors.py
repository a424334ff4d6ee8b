"""Run a call in eager mode, with the float64 value of each operator beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from explorer.capture.interpret.rounding import not_compiled_in_modes
from explorer.capture.interpret.shadows import LocalError, OperatorError, Place, has_error, relative_error, shadowed
from explorer.lab.live import call as calling
from explorer.lab.live.call import Call, run_call, tensors_of, weighted
from explorer.lab.live.outcome import on_copies


@dataclass(frozen=True)
class EagerRun:
    """One eager run: its operators in order, and each output and gradient with its float64 value, by name.

    `local` has the errors of the operators that alone were rounded. `drawn` says that the program draws random numbers.
    """

    errors: tuple[OperatorError, ...]
    results: Mapping[str, tuple[Any, Any]]
    local: Mapping[int, LocalError]
    drawn: bool

    @property
    def exact(self) -> dict[str, Any]:
        """The float64 value of each output and gradient."""
        return {name: exact for name, (_, exact) in self.results.items()}

    @property
    def result_errors(self) -> dict[str, float]:
        """The error of each output and gradient."""
        return {name: relative_error(value, exact) for name, (value, exact) in self.results.items()}


def eager_run(call: Call, rounded: Collection[int] = ()) -> EagerRun:
    """Run a call on copies; of the float64 values only the operators of the numbers in `rounded` are rounded."""
    with on_copies(call, seed=0) as copied, not_compiled_in_modes(), _without_cast_cache():
        with shadowed(calling.__file__, module_names(call.function), rounded) as run:
            outcome = run_call(call.function, copied, weighted)
        results = {
            name: (tensor.detach().clone(), run.value(tensor).clone())
            for name, tensor in tensors_of(outcome)
            if has_error(tensor)
        }
    of_program = tuple(error for error in run.errors if error.place.file)  # the others sum the outputs to differentiate them
    return EagerRun(of_program, results, run.local, run.drawn)


def eager_results(call: Call, within: Callable[[], AbstractContextManager[Any]] = nullcontext) -> dict[str, Any]:
    """Run a call in eager mode on copies: its outputs and gradients by name."""
    with on_copies(call, seed=0) as copied, _without_cast_cache(), within():
        return {name: tensor.detach().clone() for name, tensor in tensors_of(run_call(call.function, copied, weighted))}


def eager_values(call: Call, hear: Callable[[str, Place, Any], None]) -> dict[str, Any]:
    """Run a call in eager mode on copies, and tell `hear` each operator's result; return its outputs and gradients."""

    def within() -> AbstractContextManager[Any]:
        return shadowed(calling.__file__, module_names(call.function), hear=hear)

    with not_compiled_in_modes():
        return eager_results(call, within)


@contextmanager
def _without_cast_cache() -> Iterator[None]:
    """Let autocast cast each weight in each run: inside the user's autocast a second run would find it cast."""
    import torch

    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def largest(values: Mapping[str, Any], exact: Mapping[str, Any]) -> float | None:
    """The largest error of the results that have a float64 value; None if no result has one."""
    errors = [
        relative_error(values[name], right)
        for name, right in exact.items()
        if name in values and has_error(values[name]) and values[name].shape == right.shape
    ]
    return max(errors, default=None)


def module_names(function: Callable[..., Any]) -> dict[int, str]:
    """The name of each nn.Module that a function holds, by its id; a traced module itself is ""."""
    return {id(module): name for root, held in _roots(function) for name, module in held.named_modules(prefix=root)}


def _roots(function: Any) -> Iterator[tuple[str, Any]]:
    """The modules that a function is a method of, closes over or names as globals."""
    import torch

    owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield "", owner
    if (code := getattr(function, "__code__", None)) is None:
        return
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
    named = [*((name, cell.cell_contents) for name, cell in cells), *((n, function.__globals__.get(n)) for n in code.co_names)]
    yield from ((name, value) for name, value in named if isinstance(value, torch.nn.Module))


__all__ = ["EagerRun", "eager_results", "eager_run", "eager_values", "largest", "module_names"]
