"""Watch TVM's passes: which changed a module, and the functions that they changed, before and after."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: The functions of a module by their names.
Functions = Mapping[str, Any]


@dataclass
class RanPass:
    """A pass that is running or over: the functions that it was given, and those before and after its own change.

    `before` has the given functions, or the result of the last pass inside this one. So the step from `before` to `after` is
    this pass's own change.
    """

    name: str
    given: Functions
    began: float
    before: Functions = field(init=False)
    after: Functions = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.before = self.given

    def changed(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield the name of each changed function, and the function before and after; None if there is none."""
        import tvm_ffi

        for name in sorted({*self.before, *self.after}):
            old, new = self.before.get(name), self.after.get(name)
            if old is None or new is None or not (old.same_as(new) or tvm_ffi.structural_equal(old, new)):
                yield name, old, new


def watching(over: list[RanPass]) -> Any:
    """An instrument for TVM's PassContext, which adds each pass that is over to a list; it reads nothing while TVM compiles."""
    from tvm.ir import instrument

    under_way: list[RanPass] = []

    class Watch:
        """What TVM calls before and after each pass."""

        def run_before_pass(self, module: Any, info: Any) -> None:
            """A pass begins."""
            under_way.append(RanPass(str(info.name), functions_of(module), time.perf_counter()))

        def run_after_pass(self, module: Any, info: Any) -> None:
            """A pass is over."""
            if not under_way:
                return
            ran = under_way.pop()
            ran.after, ran.seconds = functions_of(module), time.perf_counter() - ran.began
            over.append(ran)
            if under_way and under_way[-1].before.keys() == ran.given.keys():  # else it ran on a part of the module
                under_way[-1].before = ran.after

    return instrument.pass_instrument(Watch)()


def functions_of(module: Any) -> Functions:
    """The functions of a module by their names."""
    return {variable.name_hint: function for variable, function in module.functions.items()}
