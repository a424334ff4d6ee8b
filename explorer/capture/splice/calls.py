"""Every call of a wrapper while a compiled function runs: what it was given, what it left, and what it returned."""

from __future__ import annotations

import itertools
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from explorer.capture.absent.generated import Code
from explorer.capture.splice.launches import copied
from explorer.capture.splice.wrappers import LoadedWrapper, Wrapper
from explorer.errors import NoVerbError

#: The name under which a wrapper's module finds what stands in the place of its call.
_REPLACEMENTS = "_replacements_of_call"
#: The name of the function of a wrapper's module that torch calls.
CALL = "call"
#: Give what is called in a call's place, of what would be called otherwise.
CallReplacement = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]


@dataclass(frozen=True)
class RecordedCall:
    """One call of a wrapper: copies of its arguments from before and after the call, and of its results."""

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


def replace_call(wrapper: Wrapper, replacement: CallReplacement) -> Callable[[], None]:
    """Put something else in the place of a wrapper's `call`, and return what puts it back.

    Several may stand at once, the last outermost, and each can be undone at any time: calls of two threads overlap.
    """
    if isinstance(wrapper, Code):
        return wrapper.replace(CALL, replacement)
    assert isinstance(wrapper, LoadedWrapper)
    with _LOCK:
        replacements: _Replacements = vars(wrapper.module).setdefault(_REPLACEMENTS, _Replacements())
        return replacements.add(wrapper, replacement)


#: Held while replacements are put and taken away, which a garbage collection inside may do too.
_LOCK = threading.RLock()


class _Replacements:
    """The replacements of one loaded wrapper's `call`.

    The wrapper's module refers to this object while there are replacements.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._standing: dict[int, CallReplacement] = {}
        self._restore: Callable[[], None] | None = None
        self._original: Callable[[Any, Any], Any] | None = None

    def add(self, wrapper: LoadedWrapper, replacement: CallReplacement) -> Callable[[], None]:
        """Let a replacement stand outermost, and return what takes it away; the last to go puts the wrapper's own call back."""
        if not self._standing:
            self._restore = self._hooked(wrapper)
        number = next(self._numbers)
        self._standing[number] = replacement

        def undo() -> None:
            with _LOCK:
                if self._standing.pop(number, None) is not None and not self._standing:
                    assert self._restore is not None
                    self._restore()
                    vars(wrapper.module).pop(_REPLACEMENTS, None)

        return undo

    def call(self, original: Callable[[Any], Any], args: Any) -> Any:
        """Call the replacements that are in place now, or the original if there are none."""
        function = original
        for replacement in tuple(self._standing.values()):
            function = replacement(function)
        return function(args)

    def call_method(self, instance: Any, args: Any) -> Any:
        """The same where the original is a method."""
        assert self._original is not None
        return self.call(partial(self._original, instance), args)

    def _hooked(self, wrapper: LoadedWrapper) -> Callable[[], None]:
        """Have the wrapper ask here, and return what undoes that.

        What torch calls is a method that it took from the loaded module, so the method's code is replaced.
        """
        if wrapper.edited is not None:  # it is called by that name
            return wrapper.replace(CALL, lambda original: partial(self.call, original))
        space = vars(wrapper.module)
        function = getattr(space.get(CALL), "__func__", None)
        if not isinstance(function, types.FunctionType) or function.__code__.co_freevars:
            raise NoVerbError(
                f"the calls of the output code {wrapper.file} cannot be recorded: it is not called as Python; "
                "trace without the option cpp_wrapper"
            )
        code = function.__code__
        self._original = types.FunctionType(code, function.__globals__, function.__name__)
        hook: dict[str, Any] = {}
        exec(f"def call(self, args):\n    return {_REPLACEMENTS!r}.call_method(self, args)\n", hook)
        found = hook["call"].__code__
        # as a constant: a thread that is inside when the last replacement goes finds it still
        function.__code__ = found.replace(co_consts=tuple(self if c == _REPLACEMENTS else c for c in found.co_consts))

        def restore() -> None:
            function.__code__ = code

        return restore


def constants(wrapper: Wrapper) -> dict[str, Any]:
    """The tensors that a wrapper has as names of its module, such as frozen parameters."""
    import torch

    names = wrapper.constants if isinstance(wrapper, Code) else vars(wrapper.module) if isinstance(wrapper, LoadedWrapper) else {}
    return {name: value for name, value in names.items() if isinstance(value, torch.Tensor)}
