"""The edits of a trace's kernels as a view shows them, and the text that a view edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer import wire
from explorer.errors import InputError, LiveError
from explorer.questions.kernels import texts_of_kernel
from explorer.splice.variant import MEANING

if TYPE_CHECKING:
    from explorer.splice.variant import Variant
    from explorer.traced import Kernel, Trace

#: What is compared of the compiled kernels, as `Variant.cost` names it.
COSTS = ("registers", "spills", "shared", "warps", "instructions")


def variants_of(trace: Trace) -> list[wire.VariantInfo]:
    """List the edits of all kernels in the order in which each kernel's were made; none where nothing can be edited."""
    if trace.live is None:
        return []
    try:
        return [_info(kernel, variant) for kernel in trace.kernels for variant in kernel.variants]
    except LiveError:  # a hand-written kernel stands in no compiled function
        return []


def edited_text(trace: Trace, artifact: str) -> tuple[Kernel, str]:
    """Find the kernel that a text is of, and which form of it; InputError for a text that is no kernel's."""
    for kernel in trace.kernels:
        for text in texts_of_kernel(trace, kernel.artifact):
            if text.id == artifact:
                return kernel, "source" if text.stage == "kernel" else text.stage
    raise InputError(f"{artifact!r} is no text of a kernel; edit a kernel's source, or a form of a Triton kernel")


def _info(kernel: Kernel, variant: Variant) -> wire.VariantInfo:
    stage = "kernel" if variant.form == "source" else variant.form
    texts = texts_of_kernel(kernel.trace, kernel.artifact)
    return wire.VariantInfo(
        number=variant.number,
        kernel=kernel.artifact.id,
        artifact=next((text.id for text in texts if text.stage == stage), kernel.artifact.id),
        text=variant.text,
        status=variant.status,
        meaning=MEANING.get(variant.status, ""),
        message=variant.message,
        line=variant.line,
        stands=kernel.edited is not None and kernel.edited.number == variant.number,
        interpreted=variant.interpreted,
        timed=variant.timed,
        launch=(variant.seconds, variant.original_seconds),
        call=variant.call_seconds or (None, None),
        cost={key: _pair(variant, key) for key in COSTS if key in variant.cost or key in variant.original_cost},
    )


def _pair(variant: Variant, key: str) -> tuple[float | None, float | None]:
    one, other = variant.cost.get(key), variant.original_cost.get(key)
    return (one if isinstance(one, (int, float)) else None, other if isinstance(other, (int, float)) else None)
