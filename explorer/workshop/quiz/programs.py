"""The programs that questions are about, kept as text: what a notebook shows is what is traced.

A function of a file of explorer's own would be skipped by Dynamo, as torch's are. So each program is compiled from its text,
under a name of its own in `linecache`, as IPython does with a cell; its first line is line 1.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from explorer.errors import InputError
from explorer.model.values import text_lines


@dataclass(frozen=True)
class Program:
    """The text of one function or kernel, and of what it needs above it; `name` is the function's."""

    name: str
    text: str
    #: Whether the text is one of Triton's kernels, which need triton.
    is_triton: bool = False

    def load(self, *, apart: bool = False) -> Callable[..., Any]:
        """Compile the text, and return its function: a new one each time, which Dynamo has not seen.

        Dynamo knows the sizes of earlier calls by the file and the line of a function. With `apart` the file has a name that
        nothing had before. InputError if it needs triton, which is not installed.
        """
        file = f"<explorer.quiz {self.name}{f' {uuid4().hex[:8]}' * apart}>"
        linecache.cache[file] = (len(self.text), None, text_lines(self.text, ends=True), file)
        names = _modules(is_triton=self.is_triton)  # without "__name__": Dynamo would import a module of that name
        exec(compile(self.text, file, "exec"), names)
        function: Callable[..., Any] = names[self.name]
        return function


def program(text: str, *, is_triton: bool = False) -> Program:
    """Make the program of a text that begins with a newline; it is named after its last function or class."""
    lines = [line for line in text_lines(text) if line.startswith(("def ", "class "))]
    name = lines[-1].split(" ", 1)[1].partition("(")[0].partition(":")[0]
    return Program(name, text.strip("\n") + "\n", is_triton)


def _modules(*, is_triton: bool) -> dict[str, Any]:
    """The modules that a notebook's first cell imports."""
    import math

    import torch

    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}
    return {**names, **_triton()} if is_triton else names


def _triton() -> dict[str, Any]:
    import importlib

    try:
        return {"triton": importlib.import_module("triton"), "tl": importlib.import_module("triton.language")}
    except ImportError:
        raise InputError("this question needs triton, which is not installed: pip install triton (Linux only)") from None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside the block random numbers begin at a fixed seed, gradients are on and no stance is set; then all is as it was."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.compiler.set_stance("default"):
        # torch.manual_seed would also seed the generator of every GPU, whose state is not put back
        torch.default_generator.manual_seed(0)
        yield
