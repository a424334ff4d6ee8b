"""What eager computes in the place of a kernel, as Python in its script: nodes of the post-grad graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.analysis.questions.launch_sites import sites
from explorer.analysis.questions.subgraph import Port, Size, Subgraph, subgraph
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact


@dataclass(frozen=True)
class Reference:
    """The eager reference: `code` defines `expected(args)`, which returns tensors by position; "" if there is none.

    `why_not` says in a sentence which values are not compared with eager, and why.
    """

    code: str = ""
    why_not: str = ""


def reference(trace: TraceData, kernel: Artifact, number: int, values: Sequence[Any]) -> Reference:
    """Make the reference of a kernel's launch, counted over the whole program from 0; `values` are its arguments."""
    wrappers = trace.find("output_code", kernel.frame, kernel.graph)
    count = sum(site.name == kernel.kernel for site in sites(wrappers[-1])) if wrappers else 0
    if not count:
        return Reference(why_not="the output code does not say where it is launched")
    part = subgraph(trace, kernel, number % count)
    why = "; ".join([*part.unmatched, *(f"{name} has no FX node's value" for name in part.unnamed)])
    outputs = [port for port in part.outputs if not port.why_not and port.argument is not None]
    if not part.code or not outputs or any(port.argument is None or port.after for port in part.inputs):
        return Reference(why_not=why or "; ".join(port.why_not for port in part.outputs) or "what it computes is not known")
    return Reference(_code(part, outputs, values), "")


def _code(part: Subgraph, outputs: Sequence[Port], values: Sequence[Any]) -> str:
    """The nodes as a function, and what calls it with the arguments of the launch."""
    given = [*(_shaped(port, values) for port in part.inputs), *(_size(size) for size in part.sizes)]
    returned = [port for port in part.outputs if not port.why_not]
    pairs = [f"{port.argument}: values[{returned.index(port)}]" for port in outputs]
    lines = [
        "# ---- eager: the nodes of the post-grad graph that the kernel computes " + "-" * 47,
        "",
        "",
        part.code.rstrip("\n"),
        "",
        "",
        "def expected(args: Any) -> dict[int, Any]:",
        '    """What eager gives for the arguments that the kernel writes, by their positions."""',
        f"    values = eager({', '.join(given)})",
        f"    return {{{', '.join(pairs)}}}",
        "",
    ]
    return "\n".join(lines)


def _shaped(port: Port, values: Sequence[Any]) -> str:
    """The expression for an argument, as a tensor of the node's shape, where that is made of numbers."""
    assert port.argument is not None
    argument, here = f"args[{port.argument}]", values[port.argument]
    lengths = [*port.shape, *port.stride]
    if not all(re.fullmatch(r"\d+", length) for length in lengths):
        return argument
    shape, stride = (tuple(map(int, numbers)) for numbers in (port.shape, port.stride))
    if shape == tuple(here.shape):
        return argument
    return f"{argument}.as_strided({shape}, {stride}, {argument}.storage_offset())"


def _size(size: Size) -> str:
    """The expression for a number of the graph."""
    _, argument, dimension = size.sources[0]
    return f"args[{argument}]" if dimension is None else f"args[{argument}].shape[{dimension}]"
