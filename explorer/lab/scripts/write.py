"""What `Kernel.to_script` and `Trace.to_script` call: record what a script needs, and write it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from explorer.errors import InputError
from explorer.lab.live.protocol import Live, no_verb
from explorer.lab.scripts import kernel_script, model_script
from explorer.lab.scripts.inputs import keeps
from explorer.lab.scripts.kernel_script import Made
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.model.wording import quantity


def script_path(path: str | PathLike[str]) -> Path:
    """The path of a script; InputError for one that is no Python file."""
    whole = Path(path)
    if whole.suffix != ".py":
        raise InputError(f"a script is a Python file: give a path that ends in .py, not {str(path)!r}")
    return whole


def trace_to_script(
    trace: TraceData,
    live: Live,
    path: str | PathLike[str],
    *,
    gpu: Any = None,
    inputs: str = "auto",
    limit: float | None = None,
) -> Made:
    """Write the output code of a whole trace as a script: see `Trace.to_script`."""
    file = script_path(path)
    keeps(inputs, ())
    wrappers = live.wrappers
    device = "cpu" if gpu is None else str(getattr(gpu, "device", "cuda"))
    graphs = model_script.graph_calls(trace, wrappers, live.calls(limit), device, absent=live.absent is not None)
    options = getattr(wrappers[0], "options", {}) if wrappers else {}
    return model_script.write(trace, graphs, file, inputs, options, gpu)


def kernel_to_script(
    trace: TraceData,
    live: Live,
    kernel: Artifact,
    path: str | PathLike[str],
    *,
    gpu: Any = None,
    inputs: str = "auto",
    launch: int = 0,
    limit: float | None = None,
) -> Made:
    """Write one launch of a generated kernel as a script: see `Kernel.to_script`."""
    file = script_path(path)
    keeps(inputs, ())
    if not isinstance(launch, int) or launch < 0:
        raise InputError(f"launch is the number of a launch, from 0, not {launch!r}")
    if not trace.find("output_code"):
        raise no_verb(
            f"no script is made of {kernel.kernel}",
            "a script is made of Inductor's output code, and this kernel is your own",
            "its source and its launch are in your own file, which runs without explorer; a trace of a function that launches it "
            "has output code, and t.to_script() makes a script of it",
        )
    wrapper = kernel_script.wrapper_of(trace, kernel, live.wrappers)
    launches = live.launches([(wrapper.file, kernel.kernel)], launch + 1, limit)
    if launches and len(launches) <= launch:
        known = quantity(len(launches), "launch")
        raise InputError(f"{kernel.kernel} has {known}, numbered from 0: there is no launch {launch}")
    made = kernel_script.reproducer(trace, kernel, wrapper, launches, gpu=gpu, options=getattr(wrapper, "options", {}))
    return kernel_script.write(made, file, inputs)
