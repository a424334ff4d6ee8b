"""Every call of a wrapper while a compiled function runs: what it was given, what it left, and what it returned."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from explorer.absent.generated import Code
from explorer.errors import NoVerbError
from explorer.splice.launches import copied
from explorer.splice.wrappers import LoadedWrapper, Wrapper

#: The name under which a wrapper's module finds what records its call.
_RECORDER = "_recorded_call"
#: The name of the function of a wrapper's module that torch calls.
CALL = "call"


@dataclass(frozen=True)
class RecordedCall:
    """One call of a wrapper: copies of its arguments from before and after, and of what it returned."""

    file: str
    before: tuple[Any, ...] = field(repr=False)
    after: tuple[Any, ...] = field(repr=False)
    returned: tuple[Any, ...] = field(repr=False)


@contextmanager
def recorded_calls(wrappers: Sequence[Wrapper]) -> Iterator[list[RecordedCall]]:
    """Record the first call of each wrapper inside the block, in the order of the calls.

    NoVerbError for a wrapper that is not called in Python.
    """
    calls: list[RecordedCall] = []

    def note(file: str, call: Callable[[Any], Any], args: Any) -> Any:
        if any(each.file == file for each in calls):
            return call(args)
        before, held = copied(tuple(args)), tuple(args)
        returned = call(args)  # which empties the list of its arguments
        calls.append(RecordedCall(file, before, copied(held), copied(tuple(returned))))
        return returned

    with ExitStack() as stack:
        for wrapper in wrappers:
            stack.callback(replace_call(wrapper, partial(partial, note, wrapper.file)))
        yield calls


def replace_call(wrapper: Wrapper, replacement: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]) -> Callable[[], None]:
    """Put something else in the place of a wrapper's `call`, and return what puts it back.

    What torch calls is a method that it took from the loaded module, so the method's code is replaced.
    """
    if isinstance(wrapper, Code):
        return wrapper.replace(CALL, replacement)
    assert isinstance(wrapper, LoadedWrapper)
    if wrapper.edited is not None:  # it is called by that name
        return wrapper.replace(CALL, replacement)
    space = vars(wrapper.module)
    function = getattr(space.get(CALL), "__func__", None)
    if not isinstance(function, types.FunctionType) or function.__code__.co_freevars:
        raise NoVerbError(
            f"the calls of the output code {wrapper.file} cannot be recorded: it is not called as Python; "
            "trace without the option cpp_wrapper"
        )
    code = function.__code__
    original = types.FunctionType(code, function.__globals__, function.__name__)

    space[_RECORDER] = lambda self, args: replacement(partial(original, self))(args)
    made: dict[str, Any] = {}
    exec(f"def call(self, args):\n    return {_RECORDER}(self, args)\n", made)  # its names are looked up in the module
    function.__code__ = made["call"].__code__

    def undo() -> None:
        function.__code__ = code
        del space[_RECORDER]

    return undo


def constants(wrapper: Wrapper) -> dict[str, Any]:
    """The tensors that a wrapper has as names of its module, such as frozen parameters."""
    import torch

    names = wrapper.constants if isinstance(wrapper, Code) else vars(wrapper.module) if isinstance(wrapper, LoadedWrapper) else {}
    return {name: value for name, value in names.items() if isinstance(value, torch.Tensor)}
