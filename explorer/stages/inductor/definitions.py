"""The kernels that a wrapper defines, cut out of its text. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from explorer.model.records import typed
from explorer.model.shared import KernelText, OutputCodeText
from explorer.model.syntax import parsed
from explorer.model.values import Event, text_lines
from explorer.stages.inductor import cpp_wrapper as _cpp_wrapper
from explorer.stages.inductor import helion

#: async_compile's methods that are named otherwise than the language of the source they are given, and the template's below.
LANGUAGES = {"cpp_pybinding": "cpp", "rocm": "hip", "compile_mps_shader": "metal"}
#: The function that compiles a template in Metal, such as flex attention's, without async_compile.
METAL_TEMPLATE = "compile_mps_shader"
#: async_compile's methods that are given no source.
WITHOUT_SOURCE = ("multi_kernel", "size_hint_multi_kernel", "wait")

#: A node of the "Graph fragment" in the comment above a kernel, which shows what the kernel reads as a placeholder.
_FRAGMENT = re.compile(r"^#\s+%(\w+) : .*?= (?:call_function|call_method|call_module)\[", re.MULTILINE)
#: What Inductor writes after the last kernel.
_WAIT = "\nasync_compile.wait(globals())\n"


def kernel_events(event: Event) -> Iterator[Event]:
    """An event of kind "kernel" for each kernel that the wrapper defines, with its source and place in the wrapper."""
    wrapper = typed(OutputCodeText, event.data).text
    for kernel in _in_cpp(wrapper) if _cpp_wrapper.is_cpp(wrapper) else _in_python(wrapper):
        yield Event("kernel", event.time, event.frame, event.graph, kernel, event.path)


def _in_python(wrapper: str) -> Iterator[KernelText]:
    """The kernels of a wrapper in Python."""
    lines = text_lines(wrapper)
    for statement in _head(wrapper).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            yield from _defined_by(statement, statement.value, lines)
        elif isinstance(statement, ast.FunctionDef) and helion.is_of_host(statement):
            yield _of_helion(statement, lines)


def _head(wrapper: str) -> ast.Module:
    """Return the tree of a wrapper up to where it waits for its kernels, which are defined before; else the whole tree.

    To parse the calls behind takes most of the time, and this is done while the program compiles.
    """
    head, wait, rest = wrapper.partition(_WAIT)
    if wait and "async_compile." not in rest:
        with suppress(SyntaxError):  # in the middle of a string
            return parsed(head)
    return parsed(wrapper)


def _defined_by(statement: ast.Assign, call: ast.Call, lines: Sequence[str]) -> Iterator[KernelText]:
    """The kernel that a statement of the wrapper defines; none where it defines something else."""
    asked, _, method = ast.unparse(call.func).rpartition(".")
    is_source = method not in WITHOUT_SOURCE if asked == "async_compile" else method == METAL_TEMPLATE
    texts = [a for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    target = statement.targets[0]
    if not is_source or not texts or not isinstance(target, ast.Name):
        return
    source = max(texts, key=lambda constant: str(constant.value).count("\n"))  # beside a name, or "so" for CUTLASS
    text = str(source.value)
    yield KernelText(
        name=target.id,
        language=LANGUAGES.get(method, method),
        text=text.strip("\n"),
        wrapper_line=source.lineno + len(text) - len(text.lstrip("\n")),
        comment=_comment_above(lines, statement.lineno),
    )


def _of_helion(host: ast.FunctionDef, lines: Sequence[str]) -> KernelText:
    """The kernel that Helion wrote, with its function of the host, whose name Inductor calls."""
    first, end = helion.first_line(lines, host.lineno), host.end_lineno or host.lineno
    text = "\n".join(lines[first - 1 : end])
    comment = _comment_above(lines, first)
    return KernelText(name=host.name, language="triton", text=text, wrapper_line=first, comment=comment)


def _in_cpp(wrapper: str) -> Iterator[KernelText]:
    """The kernels of a wrapper in C++, whose comments say at a call, not at a definition, which operators they are."""
    for kernel in _cpp_wrapper.definitions(wrapper):
        yield KernelText(
            name=kernel.name,
            language=LANGUAGES.get(kernel.method, kernel.method),
            text=kernel.text,
            wrapper_line=kernel.line,
            comment=_comment_at_call(wrapper, kernel.name),
        )


def _comment_at_call(text: str, kernel: str) -> str:
    """Return Inductor's note above the first call of a kernel, where it comes before the request for the stream."""
    lines = text.split("\n")
    first = next((number for number, name in _cpp_wrapper.calls(text) if name == kernel), 0)
    above = [line.strip() for line in lines[max(0, first - 4) : max(0, first - 1)]]
    return next((line for line in reversed(above) if line.startswith("// ") and "Original ATen" in line), "")


def nodes_in_comment(comment: str) -> tuple[str, ...]:
    """The FX nodes that a kernel computes, by the graph fragment in the comment above it."""
    return tuple(dict.fromkeys(_FRAGMENT.findall(comment)))


def _comment_above(lines: Sequence[str], line: int) -> str:
    """The comment lines right above a line: Inductor notes there which operators the kernel is made of."""
    comment: list[str] = []
    while len(comment) < line - 1 and lines[line - 2 - len(comment)].startswith("#"):
        comment.append(lines[line - 2 - len(comment)])
    return "\n".join(reversed(comment))
