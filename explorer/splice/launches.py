"""Every launch of a kernel while a compiled function runs, with copies of its arguments from before and after."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from explorer.observe.tensors import copier, map_tensors
from explorer.splice.wrappers import Wrapper, replaced_kernels


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch: the wrapper's file, the kernel's name, and the arguments in the order in which the wrapper gives them.

    `before` and `after` hold numbers as they are, and copies of tensors; tensors that share memory do so in the copies. `after`
    is () where the launch failed.
    """

    file: str
    kernel: str
    before: tuple[Any, ...] = field(repr=False)
    after: tuple[Any, ...] = field(default=(), repr=False)
    keywords: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def changed(self) -> tuple[int, ...]:
        """The positions of the tensors that the launch changed."""
        import torch

        from explorer.observe.tensors import same_bits

        pairs = enumerate(zip(self.before, self.after, strict=False))
        return tuple(n for n, (b, a) in pairs if isinstance(b, torch.Tensor) and not same_bits(b, a))


class Intercepted:
    """Stands in a kernel's place, and notes each launch of it."""

    def __init__(self, kernel: Any, note: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]) -> None:
        self._kernel = kernel
        self._note = note

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Launch a C++ kernel."""
        return self._note(self._kernel, args, keywords)

    def run(self, *args: Any, **keywords: Any) -> Any:
        """Launch a Triton kernel."""
        return self._note(self._kernel.run, args, keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


@contextmanager
def recorded_launches(
    wrappers: Sequence[Wrapper], kernels: Collection[tuple[str, str]], most: int | None = None
) -> Iterator[list[RecordedLaunch]]:
    """Record the launches of the kernels, each given by its wrapper's file and its name, inside the block.

    `most` is the number of launches of each kernel that are recorded; others run unrecorded. A copy of every argument is kept,
    twice: that is much memory where all launches of a large model are recorded.
    """
    launches: list[RecordedLaunch] = []

    def note(file: str, name: str, launch: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        if most is not None and sum((each.file, each.kernel) == (file, name) for each in launches) >= most:
            return launch(*args, **keywords)
        before = copied(args)
        number = len(launches)
        launches.append(RecordedLaunch(file, name, before, (), dict(keywords)))
        result = launch(*args, **keywords)
        launches[number] = RecordedLaunch(file, name, before, copied(args), dict(keywords))
        return result

    def recording(file: str, name: str, kernel: Any) -> Any:
        return Intercepted(kernel, partial(note, file, name))

    by_file = {wrapper.file: wrapper for wrapper in wrappers}
    replacements = [(by_file[file], name, partial(recording, file, name)) for file, name in kernels if file in by_file]
    with replaced_kernels(replacements):
        yield launches


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy the tensors among a launch's arguments, with their strides."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():  # a check for a GPU you don't have runs the wrapper under modes that make operators the CPU's
        return tuple(map_tensors(copier(), args))
