"""KernelCall: one launch of a hand-written Triton kernel, run on copies of its tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.capture.interpret.estimate import estimate_call
from explorer.capture.interpret.interpreter import InterpretedLaunch, interpreting
from explorer.capture.interpret.sanitizer import Sanitizer
from explorer.capture.ladder.triton_jit import argument_names, function_name, run_on_attached_gpu
from explorer.capture.observe.without_data import NO_DATA, without_data
from explorer.errors import InputError
from explorer.lab.live.interpreted import LIMIT, WATCHED, check_limit
from explorer.lab.live.protocol import no_interpreter
from explorer.model.values import Plain
from explorer.process.progress import progress
from explorer.stages.triton.accesses import Unreadable, accesses

#: How the bytes of a hand-written kernel are known.
BYTES = "the tensors that its TTIR reads and writes, each whole and once: what masks and the grid leave out is counted too"
#: Why they are not.
UNMATCHED = "its TTIR has {addresses} arguments that are addresses, and the call {tensors} tensors, so its bytes are not known"


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

        Where a tensor is on a GPU, that GPU runs the kernel, else the interpreter. InputError for tensors without data, and if
        interpreting is estimated to take more than `limit` seconds, 120 where none is given.
        """
        import torch

        args, constants = self._copies("nothing can be run")
        if any(isinstance(value, torch.Tensor) and value.is_cuda for value in (*args, *constants.values())):
            return run_on_attached_gpu(self.kernel, args, constants, self.grid), False
        launch = self._interpreted(args, constants, limit)
        named = {**dict(zip(argument_names(self.kernel), args, strict=False)), **constants}
        tensors = {name: tensor for key, value in named.items() for name, tensor in parts(key, value)}
        return {key: tensors[key] for key in launch.written if key in tensors}, True

    def sanitize(self, limit: float | None = None) -> Sanitizer:
        """Interpret the launch on copies of its tensors and watch each access; the errors of `run`, NoVerbError on a GPU."""
        args, constants = self._copies("nothing can be sanitized")
        if devices := {tensor.device.type for _, tensor in self.tensors()} - {"cpu"}:
            raise no_interpreter(", ".join(sorted(devices)))
        sanitizer = Sanitizer()
        try:
            self._interpreted(args, constants, limit, sanitizer)
        except InputError as error:
            if not sanitizer.launches:
                raise
            sanitizer.ended(str(error))
        return sanitizer

    def _copies(self, consequence: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copy the arguments; InputError for tensors without data."""
        if without_data(self.kernel, self.args, self.constants):
            raise InputError(NO_DATA.format(what=consequence))
        copied = copies((*self.args, *self.constants.values()))
        return copied[: len(self.args)], dict(zip(self.constants, copied[len(self.args) :], strict=True))

    def _interpreted(
        self, args: tuple[Any, ...], constants: dict[str, Any], limit: float | None, sanitizer: Sanitizer | None = None
    ) -> InterpretedLaunch:
        """Run the kernel in the interpreter; InputError if that is estimated to take more than `limit` seconds."""
        cost = estimate_call(self.kernel, args, constants, self.grid, self.config)
        check_limit(cost, LIMIT if limit is None else limit, 1 if sanitizer is None else WATCHED)
        watcher = None if sanitizer is None else sanitizer.launch
        with progress(function_name(self.kernel), "interpreting") as show, interpreting(show, watcher) as interpreter:
            return interpreter.run(self.kernel, args, constants, self.grid, self.config)

    def tensors(self) -> list[tuple[str, Any]]:
        """List the tensors among the arguments by name, in the order of the kernel's parameters."""
        given = {**dict(zip(argument_names(self.kernel), self.args, strict=False)), **self.constants}
        return [part for name in argument_names(self.kernel) if name in given for part in parts(name, given[name])]

    def bytes_moved(self, ttir: str) -> dict[str, Plain]:
        """Count the bytes that the launch reads and writes: `read`, `written`, and how they are known, or why they are not.

        A tensor that several arguments share counts once; so does each element that an expanded tensor repeats.
        """
        tensors = [tensor for _, tensor in self.tensors()]
        try:
            found = accesses(ttir)
        except Unreadable as error:
            return {"bytes_known": f"{error}, so its bytes are not known"}
        if found.addresses != len(tensors):
            return {"bytes_known": UNMATCHED.format(addresses=found.addresses, tensors=len(tensors))}
        read, written = (_size(tensors[n] for n in sorted(numbers)) for numbers in (found.read, found.written))
        return {"read": read, "written": written, "bytes_known": BYTES}


def _size(tensors: Iterable[Any]) -> int:
    """Add up the bytes of different tensors."""
    sizes: dict[tuple[int, int], int] = {}
    for tensor in tensors:
        lengths = (length for length, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
        place = tensor.untyped_storage()._cdata, tensor.storage_offset()
        sizes[place] = max(sizes.get(place, 0), math.prod(lengths) * tensor.element_size() if tensor.numel() else 0)
    return sum(sizes.values())


def parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of an argument by name: the argument itself, a tuple's elements, or a tensor descriptor's base."""
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, tuple):
        for number, part in enumerate(value):
            yield from parts(f"{name}[{number}]", part)
    elif isinstance(base := getattr(value, "base", None), torch.Tensor):
        yield name, base


def copies(args: Sequence[Any]) -> tuple[Any, ...]:
    """Copy the tensors among the arguments, with their strides; views of one storage stay views of one."""
    import dataclasses

    import torch

    storages: dict[int, Any] = {}

    def copied(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and isinstance(base := getattr(value, "base", None), torch.Tensor):
            return dataclasses.replace(value, base=copied(base))  # type: ignore[type-var]
        if isinstance(value, tuple):
            parts_copied = map(copied, value)
            return type(value)(*parts_copied) if hasattr(value, "_fields") else tuple(parts_copied)
        if not isinstance(value, torch.Tensor):
            return value
        original = value.untyped_storage()
        storage = storages.get(original.data_ptr()) or original.clone()
        storages[original.data_ptr()] = storage
        empty = torch.empty(0, dtype=value.dtype, device=value.device)
        return empty.set_(storage, value.storage_offset(), value.shape, value.stride())

    return tuple(map(copied, args))


def matched(written: Mapping[str, Any], expected: Any) -> list[tuple[str, Any, Any]]:
    """Pair written tensors with the expected ones: (name, expected, written); InputError if they do not match."""
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
