"""The texts that several compilers made of one line of the program, side by side. Pure."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from explorer.analysis.questions.user_lines import CompiledKernel, UserLine, compiled_kernels, lines_made_of
from explorer.model.trace_data import TraceData


@dataclass(frozen=True)
class KernelText:
    """The part of a kernel that comes from a line: its lines, by number, and the `others` that the kernel computes too."""

    name: str
    graph: str
    title: str
    others: tuple[int, ...]
    numbers: tuple[int, ...]
    text: tuple[str, ...]

    @property
    def heading(self) -> str:
        """The kernel's name, and what else is in it."""
        fused = f", fused with line{'s' * (len(self.others) > 1)} {', '.join(map(str, self.others))}" if self.others else ""
        return f"{self.name}{' of the backward' if self.graph == 'backward' else ''}{fused}"


@dataclass(frozen=True)
class LineTexts:
    """One line of the program, and the lines that come from it in each compiler's kernels, side by side."""

    line: UserLine
    texts: Mapping[str, tuple[KernelText, ...]]

    def __repr__(self) -> str:
        parts = [f"{self.line.number}: {self.line.code}"]
        for name, kernels in self.texts.items():
            parts.append(f"\n---- {name}{'' if kernels else ': no kernel is known to compute it'}")
            for kernel in kernels:
                numbered = (f"{number:>6}  {text}" for number, text in zip(kernel.numbers, kernel.text, strict=True))
                parts += [f"{kernel.heading} [{kernel.title}]", *numbered]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        columns = "".join(_column(name, kernels) for name, kernels in self.texts.items() if kernels)
        code = f"<code>{self.line.number}: {html.escape(self.line.code)}</code>"
        without = ", ".join(name for name, kernels in self.texts.items() if not kernels)
        note = f"<small>no kernel is known to compute it: {html.escape(without)}</small>" if without else ""
        return f"{code}<div style='display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start'>{columns}</div>{note}"


def _column(name: str, kernels: Iterable[KernelText]) -> str:
    """One compiler's part of the view of a line, as HTML."""
    parts = [f"<b>{html.escape(name)}</b>"]
    for kernel in kernels:
        lines = textwrap.dedent("\n".join(kernel.text)).split("\n")
        text = html.escape("\n".join(f"{number:>5}  {line}" for number, line in zip(kernel.numbers, lines, strict=True)))
        parts.append(f"<div><small>{html.escape(f'{kernel.heading} [{kernel.title}]')}</small>")
        parts.append(f"<pre style='max-height:24em;overflow:auto;white-space:pre;font-size:85%'>{text}</pre></div>")
    return f"<div style='flex:1 1 30em;min-width:0;overflow:hidden'>{''.join(parts)}</div>"


def texts_of(trace: TraceData, line: UserLine) -> tuple[KernelText, ...]:
    """List each kernel that computes a line, with those lines of its text that come from it."""
    return tuple(_text(trace, line, kernel) for kernel in compiled_kernels(trace) if line in kernel.user_lines)


def _text(trace: TraceData, line: UserLine, kernel: CompiledKernel) -> KernelText:
    numbers = lines_made_of(trace, line, kernel)
    others = tuple(other.number for other in kernel.user_lines if other != line)
    text = tuple(kernel.artifact.lines[number - 1] for number in numbers)
    return KernelText(kernel.name, kernel.graph, kernel.artifact.title, others, numbers, text)


__all__ = ["KernelText", "LineTexts", "texts_of"]
