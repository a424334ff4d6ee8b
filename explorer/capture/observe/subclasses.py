"""The classes below a class, and the backends of Inductor among them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

#: Inductor's modules that bring a scheduling of their own. Some torch releases lack some of them.
SCHEDULINGS = ("cpp", "cuda_combined_scheduling", "triton", "halide", "mps", "pallas")


def subclasses(kind: type) -> list[type]:
    """Every class below `kind`, once, each before those below it."""
    found: dict[type, None] = {}
    child: type
    for child in kind.__subclasses__():
        found |= {child: None, **dict.fromkeys(subclasses(child))}
    return list(found)


def defining_kernels() -> Iterator[type]:
    """Each scheduling of Inductor that defines kernels, whatever it writes them in; Inductor itself imports all at a compile."""
    from torch._inductor.scheduler import BaseScheduling

    for name in SCHEDULINGS:
        with suppress(ImportError):
            import_module(f"torch._inductor.codegen.{name}")
    yield from (kind for kind in subclasses(BaseScheduling) if "define_kernel" in vars(kind))


def metal_templates() -> list[type]:
    """Inductor's templates in Metal, whose nodes write their kernels themselves; not every torch has one."""
    try:
        from torch._inductor.codegen.metal_flex_attention_template import MetalFlexAttentionNode
    except ImportError:
        return []
    return [MetalFlexAttentionNode]
