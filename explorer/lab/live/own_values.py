"""Hold what an edited kernel writes to what the original writes: a function's result may hide a fault, as a mean does."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from explorer.capture.observe.tensors import same_bits
from explorer.capture.splice.kernels import KernelText
from explorer.capture.splice.launches import RecordedLaunch
from explorer.capture.splice.wrapper_text import WrapperText
from explorer.lab.live.check_rows import CheckRow
from explorer.lab.live.judge import beside, first_off, gaps
from explorer.model.syntax import parsed

#: What Inductor names the arguments in which the blocks of a launch meet: another config leaves other values there.
WORKSPACES = ("ws_ptr", "semaphores_ptr", "workspace_ptr")


def unlike_original(text: KernelText | WrapperText, launch: RecordedLaunch, after: Sequence[Any]) -> Iterator[CheckRow]:
    """Give a row for each argument and result of an edit that differs from the original's by more than rounding."""
    import torch

    names = _argument_names(text)
    for number, (original, mine) in enumerate(zip(launch.after, after, strict=True)):
        is_argument = number < len(launch.before)
        name = names[number] if number < len(names) else f"argument {number}" if is_argument else "a result"
        if not isinstance(mine, torch.Tensor) or name.startswith(WORKSPACES) or same_bits(original, mine):
            continue
        if mine.shape != original.shape or mine.dtype != original.dtype:
            note = f"{mine.dtype} of {tuple(mine.shape)} in place of {original.dtype} of {tuple(original.shape)}"
            yield CheckRow(name, False, compared="type", note=note)
        elif not (judgement := beside(original, mine)).equal:
            max_abs, max_rel = gaps(original, mine)
            note = "; ".join(filter(None, [judgement.note, first_off(original, mine)]))
            yield CheckRow(name, False, max_abs, max_rel, bound=judgement.bound, compared="values", note=note)


def _argument_names(text: KernelText | WrapperText) -> list[str]:
    """The names of a Triton kernel's arguments; none where the source does not tell them."""
    if not isinstance(text, KernelText) or text.language != "triton":
        return []
    try:
        tree = parsed(text.source)
    except SyntaxError:
        return []
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == text.name)
    return next(([argument.arg for argument in function.args.args] for function in functions), [])


__all__ = ["unlike_original"]
