"""The code of the virtual machine of Relax: the program, as calls of TIR functions and of the machine's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, line_count, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.kinds import Kinds, by_rules, rules
from explorer.stages.tvm.notes import links_to


@record
class TvmVm(Record):
    """The code of TVM's virtual machine: each TIR function that it calls, in order, with the FX nodes that the call is of."""

    calls: tuple[tuple[str, Names], ...]


@record
class TvmVmText(TvmVm):
    """The code of TVM's virtual machine."""

    text: str


_CALL = re.compile(r"^  call\s+(\S+)")

LINES = rules(
    blank=r"^\s*$",
    signature=r"^@\w[^ ]*:$",
    declarations=r"^@.* packed_func;",
    checks__buffers_and_imports=r"^  call\s+vm\.builtin\.",
    output=r"^  ret\b",
)


def render(event: Event, id: str) -> Artifact:
    """The listing."""
    return text_artifact(event, id, "VM code · TVM", "text")


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each call of a TIR function to its FX nodes, if the machine calls the functions in the order of the module."""
    lines = [(n, call[1]) for n, line in enumerate(artifact.lines, 1) if (call := _CALL.match(line))]
    called = {name for _, name in lines}
    calls = [call for call in typed(TvmVm, artifact.data).calls if call[0] in called]  # for a reshape the machine has its own
    lines = [(n, name) for n, name in lines if name in dict(calls)]
    if [name for _, name in lines] == [name for name, _ in calls]:
        nodes = ((number, call[1]) for (number, _), call in zip(lines, calls, strict=True))
        yield from links_to(artifact, trace, nodes, "order of calls")


def kinds(artifact: Artifact) -> Kinds:
    """Calls compute, except for the machine's own functions."""
    return [kind.replace("checks  buffers", "checks, buffers") for kind in by_rules(artifact.lines, LINES)]


STAGE = Stage(
    name="tvm_vm",
    title="VM code · TVM",
    language="text",
    event=TvmVmText,
    artifact=TvmVm,
    backend="tvm",
    render=render,
    link=link,
    kinds=kinds,
    summary=line_count,
    about="The program of the virtual machine that runs it: it checks shapes, allocates memory and calls TVM's functions.",
)
