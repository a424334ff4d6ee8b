"""The check of a trace for a GPU you don't have: its wrappers and kernels run on the CPU, interpreted, beside eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from explorer.absent.generated import Code, estimate, interpreted
from explorer.errors import InputError
from explorer.interpret.estimate import Estimate, estimate_call, speed
from explorer.interpret.interpreter import interpreting
from explorer.ladder.triton_jit import argument_names, function_name, run_on_attached_gpu
from explorer.live.call import Call
from explorer.observe.without_data import NO_DATA, without_data
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

        if without_data(self.kernel, self.args, self.constants):
            raise InputError(NO_DATA.format(what="nothing can be run"))
        made = copies((*self.args, *self.constants.values()))
        args, constants = made[: len(self.args)], dict(zip(self.constants, made[len(self.args) :], strict=True))
        if any(isinstance(a, torch.Tensor) and a.is_cuda for a in made):
            return run_on_attached_gpu(self.kernel, args, constants, self.grid), False
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
