"""What `Bisection.to_script` calls: make the launch that is off small, write it, and run what was written once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.analysis.questions.kernels import first_form
from explorer.analysis.questions.subgraph import narrowed
from explorer.capture.splice.trial import end, given_timeout, waited
from explorer.errors import InputError, LiveError, NoVerbError
from explorer.lab.bisecting import fault_script
from explorer.lab.bisecting.case import Case, case_of, eager_of, launching
from explorer.lab.bisecting.causes import WORDS, Cause
from explorer.lab.bisecting.fault_script import Definition, Fault, definition
from explorer.lab.bisecting.shrink import Shrunk, shrunk
from explorer.lab.live.protocol import Live, live_of
from explorer.lab.scripts import model_script, parts
from explorer.lab.scripts.model_script import GraphCall
from explorer.lab.scripts.write import script_path
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.trace_data import TraceData, artifact_of
from explorer.process.undebugged import undebugged
from explorer.process.under_way import step
from explorer.stages.fx_graph import FxGraph

if TYPE_CHECKING:
    from explorer.lab.bisecting.bisection import Bisection, OffLaunch

#: The seconds that the script may take when it is run once, unless asked for more.
LIMIT = 120.0


@dataclass(frozen=True)
class FaultScript:
    """A script that shows a fault: its path, the path of its numbers or None, and a text on what was made smaller.

    `fails` says whether the script showed the fault in its one run; None if it cannot run here, or came to no result. `output`
    is the script's output.
    """

    script: Path
    inputs: Path | None
    reduced: str
    fails: bool | None
    output: str = field(default="", repr=False)

    def __str__(self) -> str:
        ran = {
            True: "run once it shows the fault",
            False: "run once it does NOT show the fault: .output has what it printed",
            None: "it was not run: its GPU is not attached",
        }
        if self.fails is None and self.output:
            ran[None] = "run once it came to no result: .output says why"
        beside = f", with {self.inputs.name} beside it" if self.inputs else ""
        return f"{self.script}{beside}: {ran[self.fails]}; {self.reduced}"

    __repr__ = __str__


def written(result: Bisection, path: str | PathLike[str], *, minimise: bool, limit: float) -> FaultScript:
    """Write what a bisection found as a script: see `Bisection.to_script`."""
    file = script_path(path)
    given_timeout(limit, "limit")
    trace = result._trace
    live = live_of(trace) if trace is not None else None
    if trace is None or live is None:
        raise LiveError("a script of a fault needs the process that traced the function: call t.bisect() of a trace made here")
    if not result.off:
        raise InputError("nothing is off, so there is no fault to write; t.to_script() writes the whole program")
    made = _of_launch(result, result.first, trace, live, file, minimise) if result.first else _above(result, trace, live, file)
    return _run(made, limit) if live.absent is None else made


def _run(made: FaultScript, limit: float) -> FaultScript:
    """Run a script once in a process of its own; one that was ended, or could not run, says nothing of the fault."""
    with undebugged():
        process = subprocess.Popen(
            [sys.executable, "-P", str(made.script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    try:
        printed = waited(process, limit, lambda: "running the script once")
    finally:
        if process.poll() is None:
            end(process)
    if printed is None:
        return replace(made, output=f"it gave no end in {limit:g} s, and was ended")
    shown = process.returncode == 1 and "WRONG" in printed[0]
    return replace(made, fails=True if shown else False if process.returncode == 0 else None, output="".join(printed))


# A launch that is off ----------------------------------------------------------------------------------------------------


def _of_launch(result: Bisection, first: OffLaunch, trace: TraceData, live: Live, file: Path, minimise: bool) -> FaultScript:
    step("making the launch small")
    nodes = [str(row["node"]) for row in first.outputs]
    if minimise:
        nodes = [min(nodes, key=lambda node: len(narrowed(trace, first.subgraph, [node]).nodes))]
    case = case_of(trace, first.subgraph, first.launches, nodes)
    definitions = _definitions(trace, live, first)
    with launching(trace, live, first.subgraph) as launch:
        small = shrunk(case, launch, eager_of(case, live), fewer=minimise)
    if small is None:
        raise NoVerbError(
            f"launched alone {first.kernel} is not off: the fault comes and goes, or its wrapper now has a different kernel "
            "than the one that was judged; call t.bisect() again"
        )
    gpu = trace.target
    language = next((each.language for each in definitions), "")
    on_cpu = language == "cpp" or (not language and gpu is None) or trace.meta.get("target") == "cpu"
    device = "cpu" if on_cpu else str(getattr(gpu, "device", "cuda"))
    reduced = _reduced(first, case, small)
    about = [*_found(trace, first), *_brought_about(result.cause), "", f"Made smaller: {reduced}."]
    options = next((getattr(w, "options", {}) for w in live.wrappers), {})
    beside = fault_script.write(Fault(case, small, definitions, about, device, gpu, options), file)
    return FaultScript(file, beside, reduced, None)


def _definitions(trace: TraceData, live: Live, first: OffLaunch) -> list[Definition]:
    """The definitions of all kernels of the launches, each once."""
    code = artifact_of(trace, first.subgraph.wrapper)
    file = typed(OutputCode, code.data).file
    wrapper = next(each for each in live.wrappers if each.file == file)
    kernels = {a.kernel: a for a in trace.find("kernel", first.frame, first.graph)}
    definitions = []
    for name in dict.fromkeys(site.name for site in first.subgraph.steps if not site.is_library):
        kernel = kernels[name]
        form = first_form(trace, kernel)
        config = dict(form.config) if form is not None else {}
        standing = live.standing(kernel, file)
        definitions.append(definition(wrapper.text, name, kernel.language, config, standing))
    return definitions


def _found(trace: TraceData, first: OffLaunch) -> list[str]:
    """Describe the fault, in lines."""
    lines = [f"{first.kernel}: a kernel of {trace.meta.get('name', 'a program')} that computes something else than its FX nodes."]
    lines += ["", f"It is launch {first.launch} of the call, and the first that is off."]
    lines += [
        f"  {row['parameter']} ({row['node']}) is off by up to {row['max_abs']:.3g}: {row['note']}" for row in first.outputs
    ]
    lines += [f"  {first.kernel}:{number}: {text.strip()}" for number, text in first.kernel_lines]
    lines += [f"  {file}:{line}: {code}" for file, line, code in first.user_lines]
    return [*lines, f"Compiled by {parts.made_with(trace.meta)}. Made by explorer's Trace.bisect."]


def _brought_about(cause: Cause | None) -> list[str]:
    """What brings the fault about, and whether that is in the script."""
    if cause is None:
        return ["", "The cause in the compiler was not searched for. This script has the generated code as it was."]
    if not cause.kind:
        return ["", f"Cause: {cause.note}.", "This script has the generated code as it was."]
    return [
        "",
        f"{str(cause)[0].upper()}{str(cause)[1:]}.",
        f"That {WORDS[cause.kind]} is not in this script, which has the code that came of it: the script shows the fault also",
        "where the compiler does not make it any more.",
    ]


def _reduced(first: OffLaunch, case: Case, small: Shrunk) -> str:
    """Say in words what was made smaller."""
    nodes, outputs = len(first.subgraph.nodes), sum(not port.why_not for port in first.subgraph.outputs)
    return (
        f"{len(case.part.nodes)} of {nodes} FX nodes and {len(case.outputs)} of {outputs} outputs are left, and {small.left} of "
        f"{small.of} floats are not zero ({small.tried} launches); the sizes are those of the launch"
    )


# A fault above the kernels -----------------------------------------------------------------------------------------------


def _above(result: Bisection, trace: TraceData, live: Live, file: Path) -> FaultScript:
    """Write a script that runs each graph's output code beside Dynamo's graph, for a fault above the kernels."""
    gpu = trace.target
    device = "cpu" if gpu is None else str(getattr(gpu, "device", "cuda"))
    wrappers = live.wrappers
    calls = model_script.graph_calls(trace, wrappers, live.calls(), device, absent=live.absent is not None)
    graphs = [graph for call in calls if (graph := _beside_dynamo(trace, call)) is not None]
    if not graphs:
        raise NoVerbError(
            "no kernel is off, and no output code has the inputs and outputs of Dynamo's graph, so a script cannot compare the "
            "two; t.to_script() writes the output code beside the graph that Inductor was given"
        )
    graphs = [replace(graph, number=number) for number, graph in enumerate(graphs, 1)]
    about = [
        "A fault above the kernels: each kernel computes its FX nodes, and the whole result is off.",
        *_brought_about(result.cause),
    ]
    about += ["Each graph's output code stands beside the graph that Dynamo made of the program, which eager runs.", ""]
    options = getattr(wrappers[0], "options", {}) if wrappers else {}
    made = model_script.write(trace, graphs, file, "real", options, gpu, about)
    count = f"{len(graphs)} of {len(calls)} graphs are left, whole"
    return FaultScript(made.script, made.inputs, f"{count}: no kernel is off by itself, so there is no single launch", None)


def _beside_dynamo(trace: TraceData, call: GraphCall) -> GraphCall | None:
    """Return the call with Dynamo's graph in place of Inductor's; None for a backward, or if the inputs have other shapes."""
    graphs = trace.find("dynamo", call.code.frame)
    if not graphs or call.code.graph == "backward":
        return None
    nodes = typed(FxGraph, graphs[-1].data).nodes or ()
    given = [node.shape for node in nodes if node.op == "placeholder"]
    return replace(call, graph=graphs[-1], recorded=False) if _alike(given, call.call.before) else None


def _alike(shapes: Sequence[Sequence[str] | None], values: Sequence[Any]) -> bool:
    """Whether the inputs of a graph have these shapes; symbolic lengths fit any."""
    import torch

    if len(shapes) != len(values):
        return False
    for shape, value in zip(shapes, values, strict=True):
        lengths = [str(n) for n in value.shape] if isinstance(value, torch.Tensor) else None
        if (shape is None) != (lengths is None) or (shape is not None and lengths is not None and len(shape) != len(lengths)):
            return False
        if any(a.isdigit() and a != b for a, b in zip(shape or (), lengths or (), strict=True)):
            return False
    return True
