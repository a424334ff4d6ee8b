"""The edits of a trace as a view shows them, and the text that a view edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.analysis.questions.editable import Editable, editable
from explorer.analysis.questions.kernels import texts_of_kernel
from explorer.capture.splice.variant import MEANING, WRAPPER
from explorer.errors import InputError, LiveError
from explorer.view import wire

if TYPE_CHECKING:
    from explorer.capture.splice.variant import Variant
    from explorer.model.values import Artifact
    from explorer.tracing.traced import Kernel, Trace

#: What is compared of the compiled kernels, as `Variant.cost` names it.
COSTS = ("registers", "spills", "shared", "warps", "instructions")


def variants_of(trace: Trace) -> list[wire.VariantInfo]:
    """List the edits of output code and of all kernels, each text's in the order in which they were made; none without a Live."""
    if trace.live is None:
        return []
    try:
        return [_info(trace, text, variant) for text in editable(trace) for variant in trace.live.variants(text.artifact)]
    except LiveError:  # a hand-written kernel stands in no compiled function
        return []


def edited_text(trace: Trace, artifact: str) -> tuple[Kernel | Artifact, str]:
    """Find the kernel that a text is of, and which form of it, or the output code; InputError for another text."""
    for code in trace.find("output_code"):
        if code.id == artifact:
            return code, WRAPPER
    for kernel in trace.kernels:
        for text in texts_of_kernel(trace, kernel.artifact):
            if text.id == artifact:
                return kernel, "source" if text.stage == "kernel" else text.stage
    raise InputError(
        f"{artifact!r} is not the text of a kernel; edit a kernel's source, a form of a Triton kernel, or output code"
    )


def _info(trace: Trace, edited: Editable, variant: Variant) -> wire.VariantInfo:
    standing = trace.needs_live("the edits").standing(edited.artifact, edited.file)
    return wire.VariantInfo(
        number=variant.number,
        kernel=edited.artifact.id,
        artifact=_text_of(trace, edited.artifact, variant.form),
        text=variant.text,
        status=variant.status,
        meaning=MEANING.get(variant.status, ""),
        message=variant.message,
        line=variant.line,
        stands=standing is not None and standing.number == variant.number,
        interpreted=variant.interpreted,
        timed=variant.timed,
        launch=(variant.seconds, variant.original_seconds),
        call=variant.call_seconds or (None, None),
        cost={key: _pair(variant, key) for key in COSTS if key in variant.cost or key in variant.original_cost},
    )


def _text_of(trace: Trace, artifact: Artifact, form: str) -> str:
    """The id of the text that a variant is an edit of."""
    if form in ("source", WRAPPER):
        return artifact.id
    return next((text.id for text in texts_of_kernel(trace, artifact) if text.stage == form), artifact.id)


def _pair(variant: Variant, key: str) -> tuple[float | None, float | None]:
    one, other = variant.cost.get(key), variant.original_cost.get(key)
    return (one if isinstance(one, (int, float)) else None, other if isinstance(other, (int, float)) else None)
