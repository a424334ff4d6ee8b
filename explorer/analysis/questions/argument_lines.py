"""The lines of a call that is written over several lines: those with arguments alone belong to the line of the call. Pure."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping

from explorer.model.syntax import parsed
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, once


def argument_lines(trace: TraceData, source: Artifact) -> Mapping[int, int]:
    """Map each line of a source that no node of a graph comes from to the line of the innermost call around it that has one.

    Python gives a call the line on which it begins, or that of its method's name in a chain of methods.
    """
    traced = _traced_lines(trace).get(source.id, frozenset[int]())
    found: dict[int, int] = {}
    for call in _calls(source.text):
        line = next((line for line in (call.func.end_lineno, call.lineno) if line in traced), None)
        for other in range(call.lineno, (call.end_lineno or call.lineno) + 1):
            if line is not None and other not in traced:
                found.setdefault(other, line)
    return found


@once
def _traced_lines(trace: TraceData) -> Mapping[str, frozenset[int]]:
    """The lines of each source that a node of a graph comes from."""
    graphs = {a.id for a in trace.artifacts if a.nodes}
    found: dict[str, set[int]] = {}
    for link in trace.links:
        if link.source in graphs:
            found.setdefault(link.target, set()).update(link.target_lines)
    return {target: frozenset(lines) for target, lines in found.items()}


def _calls(text: str) -> Iterator[ast.Call]:
    """Yield the calls that are written over several lines, each after those inside it; none of what Python cannot read alone."""
    try:
        tree = parsed(textwrap.dedent(text))
    except (SyntaxError, ValueError):
        return
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.end_lineno != node.lineno]
    yield from sorted(calls, key=lambda call: (call.end_lineno or call.lineno) - call.lineno)


__all__ = ["argument_lines"]
