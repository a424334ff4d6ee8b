"""Check the links by two questions that the program itself answers, whatever way links are made.

    python benchmarks/links.py                     all programs, for an H100 (a GPU you don't have)
    python benchmarks/links.py --target mi300x --programs pointwise reduction

Perturbed: one operator of one line of the program is replaced by another, and the program is traced again. The lines of the
kernels that change must be those that were linked to that line ("found" of "changed"); no other line that computes may change
("strange"). Constants: each line of a program has a number of its own. Where a linked line of a text below the kernels has
that number, its link must lead to that line of the program, or it is false.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import re
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: A program's body, one operator a line with a number of its own, and the shapes of its arguments.
PROGRAMS = {
    "pointwise": (
        [
            "a = x * 1.0117",
            "b = y + 1.0229",
            "c = a - b",
            "d = torch.sin(c) * 1.0331",
            "e = torch.exp(b * 1.0447)",
            "return d / 1.0559, e",
        ],
        ((64, 64), (64, 64)),
    ),
    "reduction": (
        [
            "a = x * 1.0117",
            "b = torch.softmax(a, -1) * 1.0229",
            "c = torch.sin(b) + y * 1.0331",
            "d = c.sum(0, keepdim=True) * 1.0447",
            "return c * d + 1.0559",
        ],
        ((32, 96), (96,)),
    ),
    "views": (
        [
            "a = torch.flip(x, (0,)) * 1.0117",
            "b = a[:, 2:34] + 1.0229",
            "c = torch.cos(y.t() * 1.0331)",
            "d = torch.roll(c, 1, 0) * 1.0447",
            "return b * d + 1.0559",
        ],
        ((32, 64), (32, 32)),
    ),
    "matmul": (
        ["a = torch.relu(x * 1.0117)", "b = a @ y", "c = torch.tanh(b * 1.0229)", "return c + 1.0331"],
        ((64, 64), (64, 64)),
    ),
}
#: A text in a line → its replacement; the first that is found is replaced. The shape of the graph stays.
OTHER = {
    "torch.sin(": "torch.cos(",
    "torch.cos(": "torch.sin(",
    "torch.tanh(": "torch.exp(",
    "torch.relu(": "torch.exp(",
    "* 1.": "* 2.",
    "+ 1.": "+ 2.",
    "/ 1.": "/ 2.",
    " - b": " + b",
}
BELOW = ("ttir", "llir", "ptx", "amdgcn", "sass")
NUMBER = re.compile(r"\b1\.\d{4}\b")


class Perturbed(NamedTuple):
    """What one changed line of a program changed in the kernels."""

    line: str
    changed: int  # lines of kernels that compute and are others now
    found: int  # of those, linked to the line
    strange: tuple[str, ...]  # those that were not


def function_of(body: Sequence[str], arguments: int) -> Any:
    """Make a function of the program, in a file of its own that has its lines."""
    names = ", ".join("xyz"[:arguments])
    text = f"import torch\n\n\ndef program({names}):\n" + "".join(f"    {line}\n" for line in body)
    file = Path(tempfile.mkdtemp(prefix="explorer-links-")) / "program_to_link.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("program_to_link", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


def traced(body: Sequence[str], shapes: Sequence[tuple[int, ...]], target: str) -> Any:
    """The trace of a program for an absent GPU."""
    import torch

    import explorer

    torch.manual_seed(0)
    return explorer.trace(function_of(body, len(shapes)), *(torch.randn(shape) for shape in shapes), target=target)


def kernel_lines(trace: Any) -> list[tuple[str, int, str]]:
    """Yield (kernel, number, text) of each line of the kernels that computes, without the kernels' names."""
    from explorer.stages.kinds import kernel_kinds

    found = []
    for kernel in trace.find("kernel"):
        for number, (text, kind) in enumerate(zip(kernel.lines, kernel_kinds(kernel), strict=True), 1):
            if not kind:
                found.append((kernel.id, number, text.strip().replace(kernel.kernel, "kernel")))
    return found


def linked(trace: Any, line: str) -> set[tuple[str, int]]:
    """The lines of kernels that are linked to a line of the program, except through a call or a whole."""
    (source,) = (a for a in trace.find("source") if not a.data.get("inlined"))
    number = next(n for n, text in enumerate(source.lines, 1) if text.strip() == line)
    rows = (row for row in trace.follow(source.id, number).where(stage="kernel") if not row["coarse"])
    return {(row["artifact"], n) for row in rows for n in row["lines"]}


def perturbed(body: Sequence[str], shapes: Sequence[tuple[int, ...]], target: str) -> Iterator[Perturbed]:
    """Replace an operator in each line of a program in turn, and collect what that changes."""
    base = traced(body, shapes, target)
    before = kernel_lines(base)
    for number, line in enumerate(body):
        old = next((old for old in OTHER if old in line), None)
        if old is None:
            continue
        other = traced([*body[:number], line.replace(old, OTHER[old], 1), *body[number + 1 :]], shapes, target)
        matcher = difflib.SequenceMatcher(None, [text for *_, text in before], [text for *_, text in kernel_lines(other)], False)
        changed = [at for tag, low, high, _, _ in matcher.get_opcodes() if tag != "equal" for at in before[low:high]]
        to_line = linked(base, line)
        strange = tuple(text for kernel, at, text in changed if (kernel, at) not in to_line)
        yield Perturbed(line, len(changed), len(changed) - len(strange), strange)


def spellings(number: float) -> re.Pattern[str]:
    """Write a float32 number as LLVM, PTX, SASS and AMDGCN do."""
    (single,) = struct.unpack("<f", struct.pack("<f", number))
    word, double = struct.pack(">f", number).hex(), struct.pack(">d", single).hex()
    return re.compile(rf"0[fx]{word}\b|0x{double}\b|(?<![\d.]){re.escape(f'{single:.10g}'[:9])}|{number:.6e}", re.IGNORECASE)


def constants(trace: Any, body: Sequence[str]) -> Iterator[tuple[str, str, bool | None]]:
    """Yield (stage, text, whether its link leads to the number's line; None without a link) of each line with a number."""
    from explorer.model.trace_data import artifact_of

    own = {spellings(float(found)): line for line in body for found in NUMBER.findall(line)}
    for artifact in (a for stage in BELOW for a in trace.find(stage)):
        for number, text in enumerate(artifact.lines, 1):
            for spelling, line in own.items():
                if spelling.search(text):
                    rows = trace.follow(artifact.id, number).where(stage="source")
                    led = {artifact_of(trace, row["artifact"]).lines[n - 1].strip() for row in rows for n in row["lines"]}
                    yield artifact.stage, text.strip(), (line in led if led else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables; 1 where a link is false or a change strange."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS))
    options = parser.parse_args(arguments)
    wrong = False
    print("| program | line changed | kernel lines that changed | linked to it |\n| --- | --- | --- | --- |")
    for name in options.programs:
        for row in perturbed(*PROGRAMS[name], options.target):
            print(f"| {name} | `{row.line}` | {row.changed} | {row.found} |", *row.strange)
            wrong = wrong or bool(row.strange)
    print("\n| program | lines with a number of the program's | linked | false |\n| --- | --- | --- | --- |")
    for name in options.programs:
        body, shapes = PROGRAMS[name]
        trace = traced(body, shapes, options.target)
        rows = list(constants(trace.attach("sass") if trace.find("ptx") else trace, body))
        false = [text for _, text, right in rows if right is False]
        print(f"| {name} | {len(rows)} | {sum(right is not None for *_, right in rows)} | {len(false)} |", *false)
        wrong = wrong or bool(false)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
