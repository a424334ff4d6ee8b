"""Every launch of a kernel while a compiled function runs, with copies of its arguments from before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from explorer.capture.observe.tensors import copier, map_tensors
from explorer.capture.splice.wrappers import Wrapper, replaced_kernels

#: The name in a wrapper's module that it calls libraries by.
LIBRARY = "extern_kernels"
#: What is told of each launch once it is over.
Hear = Callable[["RecordedLaunch"], None]


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch: the wrapper's file, the kernel's name, and the arguments in the wrapper's order.

    `before` and `after` hold numbers as they are, and copies of tensors. Tensors that share memory also share it in the copies.
    `after` is () if the launch failed. For a library call, `kernel` is the name as the wrapper writes it
    ("extern_kernels.mm"), `keywords` has copies from after the call, and `result` a copy of the returned value.
    """

    file: str
    kernel: str
    before: tuple[Any, ...] = field(repr=False)
    after: tuple[Any, ...] = field(default=(), repr=False)
    keywords: Mapping[str, Any] = field(default_factory=dict, repr=False)
    result: Any = field(default=None, repr=False)

    @property
    def changed(self) -> tuple[int, ...]:
        """The positions of the tensors that the launch changed."""
        import torch

        from explorer.capture.observe.tensors import same_bits

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


class InterceptedLibrary:
    """Stands in the place of the module with which a wrapper calls libraries, and notes each call with the function's name."""

    def __init__(self, library: Any, note: Callable[[str, Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]) -> None:
        self._library = library
        self._note = note

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        return lambda *args, **keywords: self._note(name, function, args, keywords)


class _Library:
    """Stands in the place of a module or namespace, and notes each call of some of the functions in it."""

    def __init__(self, inner: Any, name: str, noted: Mapping[str, Callable[..., Any]]) -> None:
        self._inner, self._name, self._noted = inner, name, noted

    def __getattr__(self, name: str) -> Any:
        value, path = getattr(self._inner, name), f"{self._name}.{name}"
        if path in self._noted:
            return partial(self._noted[path], value)
        inside = any(each.startswith(f"{path}.") for each in self._noted)
        return _Library(value, path, self._noted) if inside else value

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call an operator if only an overload of it was noted."""
        return self._inner(*args, **keywords)


class _AllRecorded(BaseException):
    """Ends a call once all wanted launches are recorded. No `except Exception` of the program keeps it going."""


@dataclass
class _Recorder:
    """Records kernel launches and library calls, in order, with copies of their arguments and results.

    `wanted` are the kernels that end the call once `most` launches of each are recorded; () lets the call run to its end.
    """

    most: int | None
    hear: Hear | None
    wanted: Collection[tuple[str, str]] = ()
    launches: list[RecordedLaunch] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def launch(self, file: str, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Launch a kernel; of its keywords nothing is changed."""
        return self._around(file, name, kernel, args, keywords, lambda _: (copied(args), dict(keywords), None))

    def call(self, file: str, name: str, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a library's function, which may write to a keyword (`out=`) and returns its result."""
        return self._around(file, name, function, args, keywords, lambda result: copied((args, dict(keywords), result)))

    def _around(
        self,
        file: str,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        keywords: Mapping[str, Any],
        read: Callable[[Any], tuple[Any, ...]],
    ) -> Any:
        """Call a function, between a copy of its arguments and what `read` gives of its result."""
        if _captured() or (self.most is not None and self.counts[file, name] >= self.most):
            return function(*args, **keywords)
        self.counts[file, name] += 1
        number, before = len(self.launches), copied(args)
        self.launches.append(RecordedLaunch(file, name, before))  # stands where the call fails, with what came before it
        result = function(*args, **keywords)
        launch = RecordedLaunch(file, name, before, *read(result))
        self.launches[number] = launch if self.hear is None else RecordedLaunch(file, name, ())
        if self.hear is not None:
            self.hear(launch)
        if self.wanted and self.most is not None and all(self.counts[each] >= self.most for each in self.wanted):
            raise _AllRecorded
        return result


@contextmanager
def recorded_launches(
    wrappers: Sequence[Wrapper],
    kernels: Collection[tuple[str, str]],
    most: int | None = None,
    hear: Hear | None = None,
    ends: bool = False,
) -> Iterator[list[RecordedLaunch]]:
    """Record the launches of the kernels, each given by its wrapper's file and its name, inside the block.

    A name with a dot is a library function, as the wrapper writes it. At most `most` launches of each kernel are recorded.
    Further launches run unrecorded, as do launches that a CUDA graph captures, which compute nothing yet. Every argument is
    copied twice, which takes much memory if all launches of a large model are recorded. With `hear`, each launch is passed to
    `hear` when it ends, and no copies are kept. With `ends`, the call and the block end after the last launch to record.
    """
    recorder = _Recorder(most, hear, kernels if ends else ())

    def recording(file: str, name: str, kernel: Any) -> Any:
        return Intercepted(kernel, partial(recorder.launch, file, name))

    by_file = {wrapper.file: wrapper for wrapper in wrappers}
    present = [(file, name) for file, name in kernels if file in by_file]
    replacements = [(by_file[file], name, partial(recording, file, name)) for file, name in present if "." not in name]
    for file, root in dict.fromkeys((file, name.partition(".")[0]) for file, name in present if "." in name):
        noted = {
            name: partial(recorder.call, file, name) for other, name in present if other == file and name.startswith(f"{root}.")
        }
        replacements.append((by_file[file], root, partial(_Library, name=root, noted=noted)))
    with suppress(_AllRecorded), replaced_kernels(replacements):
        yield recorder.launches


def _captured() -> bool:
    """Whether a CUDA graph is capturing launches now: nothing runs, and a copy or a query would break the capture."""
    import torch

    return bool(torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy the tensors among a launch's arguments, with their strides."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():  # a check for a GPU you don't have runs the wrapper under modes that make operators the CPU's
        return tuple(map_tensors(copier(), args))
