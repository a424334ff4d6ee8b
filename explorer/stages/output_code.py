"""The wrapper that Inductor writes: the program that allocates buffers and launches kernels, whole and runnable."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from explorer.hooks import inductor
from explorer.model import Artifact, Event
from explorer.stage import Stage, text_artifact

#: async_compile's methods, and the language of the source each is given.
LANGUAGES = {"triton": "triton", "cpp_pybinding": "cpp", "cpp": "cpp", "cuda": "cuda", "rocm": "hip", "halide": "halide"}


def render(event: Event, id: str) -> Artifact:
    """The wrapper's file."""
    return text_artifact(event, id, "Output code", "python")


def kernel_events(event: Event) -> Iterator[Event]:
    """An event of kind "kernel" for each kernel that the wrapper defines, with its source and place in the wrapper."""
    for statement in ast.parse(event.data["text"]).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            yield from _kernel(event, statement, statement.value)


def _kernel(event: Event, statement: ast.Assign, call: ast.Call) -> Iterator[Event]:
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    texts = [a for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    target = statement.targets[0]
    if method not in LANGUAGES or not texts or not isinstance(target, ast.Name):
        return
    source = texts[-1]
    text = str(source.value)
    data = {
        "name": target.id,
        "language": LANGUAGES[method],
        "text": text.strip("\n"),
        "wrapper_line": source.lineno + len(text) - len(text.lstrip("\n")),
        "comment": _comment_above(event.data["text"], statement.lineno),
    }
    yield Event("kernel", event.time, event.frame, event.graph, data, event.path)


def _comment_above(text: str, line: int) -> str:
    """The comment lines right above a line: Inductor notes there which operators the kernel is made of."""
    lines = text.splitlines()[: line - 1]
    comment: list[str] = []
    while lines and lines[-1].startswith("#"):
        comment.append(lines.pop())
    return "\n".join(reversed(comment))


STAGE = Stage(
    name="output_code", title="Output code", language="python", render=render, watch=inductor.output_code,
    phases=("GraphLowering.codegen",),
    about="The program that runs at each call: it checks inputs, allocates buffers and launches the kernels below.",
)  # fmt: skip
