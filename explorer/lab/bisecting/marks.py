"""Put what a bisection found into a trace, so that its view, its file and its page mark what is right and what is off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from explorer.errors import InputError
from explorer.lab.bisecting.bisection import Bisection, nodes_of_value
from explorer.model.trace_data import TraceData
from explorer.model.values import Event, Plain
from explorer.stages.replay import extended, rendered
from explorer.stages.torch_compile.bisection import STAGE, Bisected, JudgedValue

T = TypeVar("T", bound=TraceData)


def painted(trace: T, result: Bisection) -> T:
    """Return the trace with a bisection in place of the one that it may have; see `Trace.attach`."""
    if result._trace is None or _code(result._trace) != _code(trace):
        raise InputError("the bisection is of another trace, with different output code: give the result of t.bisect()")
    bare = _without(trace)
    data = Bisected(
        summary=repr(result).split("\n", 1)[0],
        cause=f"cause: {result.cause}" if result.cause is not None else "",
        first=result.first.launch if result.first is not None else 0,
        rows=tuple(_value(trace, row) for row in result.table),
    )
    return extended(bare, list(rendered(bare, [Event(kind=STAGE.name, time=0.0, data=data)])))


def _code(trace: TraceData) -> list[tuple[str, str]]:
    return [(code.id, code.text) for code in trace.find("output_code")]


def _value(trace: TraceData, row: Mapping[str, Plain]) -> JudgedValue:
    """The row of one value, with the FX nodes that lead to it inside its launch."""
    names = {name: row[name] for name in JudgedValue.__annotations__ if name != "nodes"}
    return JudgedValue(**names, nodes=nodes_of_value(trace, row))


def _without(trace: T) -> T:
    """The trace without the bisection that was put into it before."""
    old = {artifact.id for artifact in trace.find(STAGE.name)}
    if not old:
        return trace
    artifacts = tuple(a for a in trace.artifacts if a.id not in old)
    return replace(trace, artifacts=artifacts, links=tuple(link for link in trace.links if not {link.source, link.target} & old))
