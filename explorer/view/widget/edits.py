"""The edits of a trace as a view shows them, and the text that a view edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.analysis.questions.editable import Editable, editable
from explorer.analysis.questions.kernels import texts_of_kernel
from explorer.capture.splice.edit import UNCHECKED, WRAPPER
from explorer.errors import InputError, LiveError
from explorer.lab.live.protocol import live_of, needs_live
from explorer.view import wire

if TYPE_CHECKING:
    from explorer.capture.splice.edit import Edit
    from explorer.model.values import Artifact
    from explorer.tracing.traced import Kernel, Trace

#: What is compared of the compiled kernels, as `Edit.cost` names it.
COSTS = ("registers", "spills", "shared", "warps", "instructions")


def edits_of(trace: Trace) -> list[wire.EditInfo]:
    """List the edits of output code and of all kernels, each text's in the order in which they were made; none without a Live."""
    if (live := live_of(trace)) is None:
        return []
    try:
        return [_info(trace, text, edit) for text in editable(trace) for edit in live.edits_of(text.artifact)]
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


def _info(trace: Trace, edited: Editable, edit: Edit) -> wire.EditInfo:
    standing = needs_live(trace, "the edits").standing(edited.artifact, edited.file)
    return wire.EditInfo(
        number=edit.number,
        kernel=edited.artifact.id,
        artifact=_text_of(trace, edited.artifact, edit.form),
        text=edit.text,
        status=edit.status,
        meaning=edit.meaning,
        message=edit.message if edit.message != edit.meaning else "",
        line=edit.line,
        stands=standing is not None and standing.number == edit.number,
        unchecked=edit.message == UNCHECKED,
        interpreted=edit.interpreted,
        timed=edit.timed,
        launch=(edit.seconds, edit.original_seconds),
        call=edit.call_seconds or (None, None),
        cost={key: _pair(edit, key) for key in COSTS if key in edit.cost or key in edit.original_cost},
    )


def _text_of(trace: Trace, artifact: Artifact, form: str) -> str:
    """The id of the text that an edit is an edit of."""
    if form in ("source", WRAPPER):
        return artifact.id
    return next((text.id for text in texts_of_kernel(trace, artifact) if text.stage == form), artifact.id)


def _pair(edit: Edit, key: str) -> tuple[float | None, float | None]:
    one, other = edit.cost.get(key), edit.original_cost.get(key)
    return (one if isinstance(one, (int, float)) else None, other if isinstance(other, (int, float)) else None)
