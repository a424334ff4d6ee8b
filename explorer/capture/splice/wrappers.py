"""Wrapper: the code that Inductor generated for one graph, in which kernels can be replaced while the function lives.

On the CPU and an attached GPU it is the module that the compiled function calls, for a GPU you don't have the code that the
interpreter executes (`absent.generated.Code`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from explorer.errors import InputError

#: Give what stands in a kernel's place, of the kernel that stands there.
Replacement = Callable[[Any], Any]


class Wrapper(Protocol):
    """The generated code of one graph: `file` is the name of its file, without the folder."""

    @property
    def file(self) -> str:
        """The name of its file, without the folder, as the artifact of stage "output_code" has it."""

    @property
    def text(self) -> str:
        """The text of the module."""

    @property
    def replayed(self) -> bool:
        """Whether CUDA graphs replay what the wrapper launched once, whatever is put into it later."""

    def replace(self, name: str, replacement: Replacement) -> Callable[[], None]:
        """Put something else in the place of the kernel `name`, and return what puts the kernel back.

        Replacements of one name are undone in reverse order. InputError where the wrapper has no such name.
        """


@dataclass(frozen=True)
class LoadedWrapper:
    """A module that Inductor has loaded for one trace alone. `options` are the Inductor options that it was compiled with.

    `edited` is the module's text if it was not made from its file.
    """

    module: Any = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    edited: str | None = field(default=None, repr=False)

    @property
    def file(self) -> str:
        """The name of the module's file."""
        return Path(self.module.__file__).name

    @property
    def text(self) -> str:
        """The text of the module's file, or the other text that the module was made of."""
        return self.edited if self.edited is not None else Path(self.module.__file__).read_text(encoding="utf-8")

    @property
    def replayed(self) -> bool:
        """Whether it was compiled with CUDA graphs."""
        return bool(self.options.get("triton.cudagraphs"))

    def replace(self, name: str, replacement: Replacement) -> Callable[[], None]:
        """Replace a name of the module: its functions look their kernels up by name, at each call."""
        space = vars(self.module)
        if name not in space:
            edited = "; it is edited: t.live.edits.reset() puts the original back" if self.edited is not None else ""
            raise InputError(f"the output code {self.file} has no {name!r}{edited}")
        before = space[name]
        space[name] = replacement(before)

        def undo() -> None:
            space[name] = before

        return undo


@contextmanager
def replaced_kernels(replacements: Iterable[tuple[Wrapper, str, Replacement]]) -> Iterator[None]:
    """Replace kernels, each given by its wrapper and its name, inside the block."""
    with ExitStack() as stack:
        for wrapper, name, replacement in replacements:
            stack.callback(wrapper.replace(name, replacement))
        yield
