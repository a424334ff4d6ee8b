"""Read a wrapper in C++, of cpp_wrapper or AOTInductor: its kernels, and where it calls them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from textwrap import dedent
from typing import NamedTuple

#: A wrapper in C++ works on AOTInductor's handles; one for AOTInductor is a member of this class.
_AOT_INDUCTOR = "AOTInductorModel::"
_CPP_NAMES = ("AtenTensorHandle", _AOT_INDUCTOR)
_TRITON = re.compile(r"async_compile\.(?P<method>\w+)\('(?P<name>\w+)', '''(?P<text>.*?)'''", re.DOTALL)
_FUNCTION = re.compile(r'^extern "C"\s.*?\bvoid\s+(?P<name>\w+)\(')
_KERNEL_CALL = re.compile(r"^\s+(?:call_(?P<triton>\w+)|(?P<cpp>cpp_\w+))\((?P<arguments>.*)\);$")
_LIBRARY_CALL = re.compile(
    r"^\s+(?:AOTI_TORCH_ERROR_CODE_CHECK\()?"
    r"(?P<name>aoti_torch_(?:cpu|cuda|xpu|mps)_\w+|aoti_torch_proxy_executor_call_function|aoti_torch_call_dispatcher)\("
)
#: A kernel in Metal, with the headers that Inductor copies before it; and its call, between others that only prepare it.
_METAL = re.compile(r'^const char\* (?P<name>\w+)_source = \(R"MTL\((?P<text>.*?)\)MTL"\);$', re.DOTALL | re.MULTILINE)
_METAL_CALL = re.compile(r"^\s+aoti_torch_mps_run_command_block\(get_(?P<name>\w+)_handle\(\)")
_METAL_PREPARED = re.compile(r"^\s+aoti_torch_mps_(start_encoding|set_arg_\w+|dispatch_\w+|get_kernel_function|create_\w+)\(")
_METAL_HEAD = re.compile(r"^( *\[\[max_total_threads_per_threadgroup\(.*\)\]\]\n)? *kernel void \w+\($", re.MULTILINE)
#: A line that makes a buffer, has a library write one, or reuses the memory of one.
BUFFER = re.compile(r"_out\((\w+),|&(\w+)_handle\b|^\s+auto (\w+) = std::move\(\w+\);")


class Definition(NamedTuple):
    """A kernel in a wrapper: its name, what it is written in, its source, and the line on which that begins."""

    name: str
    method: str
    text: str
    line: int


def is_cpp(text: str) -> bool:
    """Whether a wrapper is in C++, as a whole or in a Python module that compiles and calls it."""
    return any(name in text for name in _CPP_NAMES)


def is_aot_inductor(text: str) -> bool:
    """Whether a wrapper is AOTInductor's, which a program packages and calls later."""
    return _AOT_INDUCTOR in text


def definitions(text: str) -> tuple[Definition, ...]:
    """Return the kernels of a wrapper in C++, Triton's first, each name once: a kernel tuned while compiling is there twice."""
    by_name = {d.name: d for d in (*_triton(text), *_metal(text))}
    return tuple((by_name | {d.name: d for d in _cpp(text.split("\n"))}).values())


def _triton(text: str) -> Iterator[Definition]:
    """Return the kernels that a C++ string or comment has as the Python that compiles them."""
    for match in _TRITON.finditer(text):
        source = match["text"]
        start = match.start("text") + len(source) - len(source.lstrip("\n"))
        # AOTInductor's comment is indented
        yield Definition(match["name"], match["method"], dedent(source).strip("\n"), 1 + text.count("\n", 0, start))


def _metal(text: str) -> Iterator[Definition]:
    """Return the kernels in Metal, without the headers before them."""
    for match in _METAL.finditer(text):
        source = metal_kernel(match["text"])
        line = 1 + text.count("\n", 0, match.start("text") + match["text"].index(source))
        yield Definition(match["name"], "metal", source, line)


def metal_kernel(text: str) -> str:
    """Cut the last kernel out of a text in Metal, from its attribute or its head on."""
    heads = list(_METAL_HEAD.finditer(text))
    return text[heads[-1].start() if heads else 0 :].strip("\n")


def _cpp(lines: Sequence[str]) -> Iterator[Definition]:
    """Kernels in C++: from the includes above a function that is `extern "C"` to the end of its body."""
    free = 0  # the first line that is no earlier kernel's
    for number, line in enumerate(lines):
        if number < free or not (match := _FUNCTION.match(line)):
            continue
        head = next(
            (n for n in range(number, len(lines)) if lines[n].startswith("{") or lines[n].rstrip().endswith((";", "{"))), None
        )
        if head is None or lines[head].rstrip().endswith(";"):
            continue  # declared only
        end = next((n for n in range(head, len(lines)) if lines[n].rstrip() == "}"), len(lines) - 1)
        start = next((n for n in range(number, free - 1, -1) if lines[n].startswith("#include")), number)
        while start > free and (lines[start - 1].startswith("#include")):
            start -= 1
        yield Definition(match["name"], "cpp", "\n".join(lines[start : end + 1]), start + 1)
        free = end + 1


def calls(text: str) -> tuple[tuple[int, str], ...]:
    """(line, name) of each call of a kernel or of a library, in order."""
    named: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if match := _KERNEL_CALL.match(line):
            named.append((number, match["triton"] or match["cpp"]))
        elif match := _METAL_CALL.match(line):
            named.append((number, match["name"]))
        elif _METAL_PREPARED.match(line):
            continue
        elif match := _LIBRARY_CALL.match(line):
            named.append((number, match["name"]))
    return tuple(named)


@lru_cache(maxsize=2)
def runs(text: str) -> Mapping[str, Sequence[tuple[int, Sequence[str]]]]:
    """Each kernel's name → the line and arguments of its calls; C++ writes numbers with the letter of their type."""
    calls_by_name: dict[str, list[tuple[int, list[str]]]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if call := _KERNEL_CALL.match(line):
            arguments = [re.sub(r"^(-?\d+)LL?$", r"\1", argument) for argument in _arguments(call["arguments"])]
            calls_by_name.setdefault(call["triton"] or call["cpp"], []).append((number, arguments))
    return calls_by_name


def _arguments(text: str) -> list[str]:
    """The arguments of a call, split where no bracket is open."""
    parts, depth = [""], 0
    for letter in text:
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
