"""Observe what TORCH_COMPILE_DEBUG=1 writes: the post-grad graph, the scheduler's IR and the output code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from explorer.capture.observe.fx_copy import graph_facts
from explorer.capture.observe.library_memory import LibraryCalls
from explorer.capture.observe.patch import guard_here, guarded, guarding, replaced
from explorer.capture.observe.scheduler_ir import Texts
from explorer.model.shared import OutputCodeText
from explorer.model.stage import Emit, Facts, Unmade

#: The kinds of events of `written_for_debugging`.
WRITTEN = ("post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code", "library_memory")


@contextmanager
def debug_calls(emit: Emit, listeners: Mapping[str, Mapping[str, Callable[..., Facts | Unmade]]]) -> Iterator[None]:
    """Answer the calls `V.debug.NAME(...)` of TORCH_COMPILE_DEBUG=1, and record what each listener returns.

    `listeners` maps each NAME to its event kinds, in order. Each kind has a function that makes its facts from the call's
    arguments.
    """
    from torch._inductor.debug import DebugContext

    def make(original: Any) -> Any:
        def __getattr__(self: Any, name: str) -> Any:
            theirs = original(self, name)
            if name not in listeners:
                return theirs

            def make_call(theirs: Any) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    for kind, facts in listeners[name].items():
                        emit(kind, partial(facts, *args))
                    return theirs(*args, **kwargs)

                return call

            with guarding(guard):
                return guarded(theirs, make_call, f"V.debug.{name}")

        return __getattr__

    guard = guard_here()

    with replaced(DebugContext, "__getattr__", make):
        yield


@contextmanager
def written_for_debugging(emit: Emit) -> Iterator[None]:
    """Record the graph that is lowered, the scheduler's nodes before and after fusion, and the file that is run."""
    texts, guard, library_calls = Texts(), guard_here(), LibraryCalls()

    def of_nodes(nodes: Any) -> Unmade:
        with guarding(guard):
            return texts.record(nodes)

    def after_fusion(nodes: Any) -> Unmade:
        record = of_nodes(nodes)
        texts.forget()
        return record

    def memory_of_calls(path: str, *rest: Any) -> Unmade:
        return partial(library_calls.measured, Path(path).read_text(encoding="utf-8"))

    listeners: dict[str, dict[str, Callable[..., Facts | Unmade]]] = {
        "fx_graph_transformed": {"post_grad": lambda gm, *rest: graph_facts(gm)},
        "ir_pre_fusion": {"ir_pre_fusion": of_nodes},
        "ir_post_fusion": {"ir_post_fusion": after_fusion},
        "output_code": {"output_code": _output_code, "library_memory": memory_of_calls},
    }
    with debug_calls(emit, listeners):
        yield


def _output_code(path: str, *rest: Any) -> OutputCodeText:
    """Read the file of the wrapper, which also defines the kernels."""
    file = Path(path)  # AOTInductor's C++ is in a temporary file, whose name says nothing
    return OutputCodeText(text=file.read_text(encoding="utf-8"), file=file.name if file.suffix == ".py" else "")
