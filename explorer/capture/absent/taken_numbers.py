"""Change the numbers that a program takes from its tensors, as by `.item()`, between the graphs of a call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from explorer.capture.observe.patch import replaced_in_plain_sight
from explorer.capture.observe.places import OWN_FOLDER, in_package

#: What takes numbers from a tensor, and can give floats.
METHODS = ("item", "tolist", "__float__")


@dataclass(frozen=True)
class Taking:
    """One float that the program takes from a tensor: the method, the tensor's type, and the user's line."""

    method: str
    dtype: Any
    file: str
    line: int


#: Give the float that the program gets in place of the one that the tensor holds.
Change = Callable[[Taking, float], float]


@contextmanager
def numbers_changed(change: Change) -> Iterator[None]:
    """Inside the block, a float that this thread's program takes from a tensor is what `change` gives for it.

    What torch and explorer take themselves is left alone.
    """
    import torch
    from torch._dynamo import eval_frame

    thread = get_ident()

    def taking(original: Any) -> Callable[..., Any]:
        method = original.__name__

        def taken(tensor: Any) -> Any:
            value = original(tensor)
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename == eval_frame.__file__:
                frame = frame.f_back
            code = frame.f_code
            if get_ident() != thread or _is_of_library(code.co_filename) or not tensor.is_floating_point():
                return value
            return _changed(value, Taking(method, tensor.dtype, code.co_filename, frame.f_lineno), change)

        # Dynamo traces what the program calls between its graphs
        return torch._dynamo.disable(taken)  # type: ignore[no-any-return]

    with ExitStack() as stack:
        for method in METHODS:
            stack.enter_context(replaced_in_plain_sight(torch.Tensor, method, taking))
        yield


def _is_of_library(file: str) -> bool:
    return file.startswith(OWN_FOLDER) or bool(in_package(file))


def _changed(value: Any, taking: Taking, change: Change) -> Any:
    """The value with each float in it changed; a list, as of `tolist`, in depth."""
    if isinstance(value, list):
        return [_changed(each, taking, change) for each in value]
    return change(taking, value) if type(value) is float else value
