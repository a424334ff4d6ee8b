"""The check of a trace for a GPU that is not there: its wrappers and kernels run on the CPU, interpreted, beside eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from explorer.errors import InputError
from explorer.hooks.estimate import Estimate, estimate_call, speed
from explorer.hooks.generated import Code, estimate, interpreted
from explorer.hooks.interpreter import interpreting
from explorer.hooks.triton_jit import argument_names, function_name, launched
from explorer.live.call import Call, on_copies_alone, run_call, tensors_of, weighted
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
        with _untouched(call), on_copies_alone(call):
            eager = run_call(call.function, call.copy(), weighted)
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
        return run_call(compiled, call.copy(), weighted)


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


# A hand-written kernel ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelCall:
    """A launch of a hand-written kernel, to be run on copies of its tensors."""

    kernel: Any
    args: tuple[Any, ...]
    constants: Mapping[str, Any]
    grid: Any
    config: Any = None

    def run(self, limit: float | None = None) -> tuple[dict[str, Any], bool]:
        """The tensors that the kernel writes, by the names of its arguments, and whether it was interpreted.

        Tensors on a GPU are worked on by that GPU, tensors on the CPU by the interpreter.
        """
        import torch

        made = copies((*self.args, *self.constants.values()))
        args, constants = made[: len(self.args)], dict(zip(self.constants, made[len(self.args) :], strict=True))
        if any(isinstance(a, torch.Tensor) and a.is_cuda for a in made):
            return launched(self.kernel, args, constants, self.grid), False
        name = function_name(self.kernel)
        expected = estimate_call(self.kernel, args, constants, self.grid, self.config)
        allowed(expected, 1, LIMIT if limit is None else limit)
        with progress(name, "interpreting") as show, interpreting(show) as interpreter:
            done = interpreter.run(self.kernel, args, constants, self.grid, self.config)
        named = {**dict(zip(argument_names(self.kernel), args, strict=False)), **constants}
        tensors = {name: tensor for key, value in named.items() for name, tensor in parts(key, value)}
        return {key: tensors[key] for key in done.written if key in tensors}, True


def parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors of an argument by name: itself, those of a tuple, and the one that a descriptor describes."""
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, tuple):
        for number, part in enumerate(value):
            yield from parts(f"{name}[{number}]", part)
    elif isinstance(base := getattr(value, "base", None), torch.Tensor):
        yield name, base


def copies(args: Sequence[Any]) -> tuple[Any, ...]:
    """Copies of the tensors with their strides; views of one storage stay views of one."""
    import dataclasses

    import torch

    storages: dict[int, Any] = {}

    def copied(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and isinstance(base := getattr(value, "base", None), torch.Tensor):
            return dataclasses.replace(value, base=copied(base))  # type: ignore[type-var]
        if isinstance(value, tuple):
            made = map(copied, value)
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        if not isinstance(value, torch.Tensor):
            return value
        own = value.untyped_storage()
        storage = storages.setdefault(own.data_ptr(), None) or own.clone()
        storages[own.data_ptr()] = storage
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        return made.set_(storage, value.storage_offset(), value.shape, value.stride())

    return tuple(map(copied, args))


def matched(written: Mapping[str, Any], expected: Any) -> list[tuple[str, Any, Any]]:
    """(name, expected, written) of each tensor; InputError where they cannot be paired."""
    import torch

    if isinstance(expected, Mapping):
        pairs = dict(expected)
    else:
        several = [expected] if isinstance(expected, torch.Tensor) else list(expected)
        if len(several) != len(written):
            raise InputError(f"the kernel wrote {', '.join(written) or 'nothing'}; expected has {len(several)} tensors")
        pairs = dict(zip(written, several, strict=True))
    for name in pairs:
        if name not in written:
            raise InputError(f"the kernel wrote no {name!r}; it wrote {', '.join(written) or 'nothing'}")
    return [(name, tensor, written[name]) for name, tensor in pairs.items()]
