"""Compile with a part of the compiler switched off from some application on, by the switches that torch bisects itself with.

torch asks `CompilerBisector.disable_subsystem` before it applies a decomposition, a pass or a lowering. Here the question is
answered in this process, for compiles that this thread begins: torch's own way keeps its state in files and in the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any

from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.patch import Guard, guard_here, guarding, replaced

#: What can be switched off, in the compiler's order, by torch's names.
SWITCHES = ("pre_grad_passes", "decomposition", "joint_graph_passes", "post_grad_passes", "lowerings")


@contextmanager
def applied_at_most(switch: str, most: int, among: Collection[str] | None = None) -> Iterator[list[str]]:
    """Inside the block a part of the compiler is applied `most` times; afterwards it is switched off.

    With `among` only applications of these names are counted and switched off: FX nodes for "lowerings", operators for
    "decomposition", else passes. Gives the list of the names of all that were counted. It holds for compiles that this thread
    begins, also where another ends them: autograd compiles the backward for a GPU in a thread of its own.
    """
    from torch._inductor.compiler_bisector import CompilerBisector

    applied: list[str] = []
    here, begun = get_ident(), set[str]()
    guard = Guard(lambda: current_compile_id() in begun, guard_here().errors, here=True)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def disable_subsystem(backend: str, subsystem: str, debug_info: Callable[[], str] | None = None) -> Any:
            if get_ident() == here and (frame := current_compile_id()):
                begun.add(frame)
            if subsystem != switch:
                return original(backend, subsystem, debug_info)
            name = debug_info() if debug_info is not None else ""
            if among is not None and name not in among:
                return False
            applied.append(name)
            return len(applied) > most

        return disable_subsystem

    with ExitStack() as stack:
        with guarding(guard):
            stack.enter_context(replaced(CompilerBisector, "disable_subsystem", make))
        yield applied


__all__ = ["SWITCHES", "applied_at_most"]
