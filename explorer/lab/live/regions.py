"""Have a module's repeated blocks compiled once, as `torch.compiler.nested_compile_region` does, for as long as a block lasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from explorer.capture.observe.patch import replaced_in_plain_sight
from explorer.errors import LiveError


@contextmanager
def compiled_once(function: Any, modules: Sequence[str]) -> Iterator[None]:
    """Mark the forward of some modules' classes inside the block; afterwards they are as they were.

    LiveError where the function has no modules of these names.
    """
    import torch

    named = dict(function.named_modules()) if isinstance(function, torch.nn.Module) else {}
    if missing := next((name for name in modules if name not in named), None):
        raise LiveError(f"{missing} is no module of what was traced: trace the module that has it as a child")
    kinds = dict.fromkeys(type(named[name]) for name in modules)
    before = [(kind.forward, set(vars(kind.forward))) for kind in kinds]
    try:
        with ExitStack() as stack:
            for kind in kinds:
                stack.enter_context(replaced_in_plain_sight(kind, "forward", torch.compiler.nested_compile_region))
            yield
    finally:
        for forward, attributes in before:
            for name in set(vars(forward)) - attributes:  # torch's marks
                delattr(forward, name)
