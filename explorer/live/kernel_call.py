"""KernelCall: one launch of a hand-written Triton kernel, run on copies of its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.errors import InputError
from explorer.interpret.estimate import estimate_call
from explorer.interpret.interpreter import interpreting
from explorer.ladder.triton_jit import argument_names, function_name, run_on_attached_gpu
from explorer.live.interpreted import LIMIT, allowed
from explorer.observe.without_data import NO_DATA, without_data
from explorer.process.progress import progress


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
