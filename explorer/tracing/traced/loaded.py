"""Load a trace: from a trace file, or from a log, whose Triton kernels can be compiled again for a GPU."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from explorer.capture.absent.target import named_gpu
from explorer.errors import InputError
from explorer.lab.live.ladder_events import ladder_events
from explorer.model.trace_data import TraceData
from explorer.model.values import plain
from explorer.sources.files import trace_file
from explorer.sources.logs import read as logs
from explorer.stages.replay import replay


def data_at(path: str | PathLike[str], *, limit: float, target: object = None) -> TraceData:
    """The data of the trace file, log or folder at a path; `traced.load` says what may be there."""
    log = logs.log_at(trace_file.checked(path))
    if log is not None:
        return _data_of_log(log, limit, target)
    if target is not None:
        raise InputError(f"{path} is not a log: target= compiles the kernels of a log again, and cannot change a saved trace")
    return trace_file.load(path, limit=limit)


def _data_of_log(log: Path, limit: float, target: object) -> TraceData:
    """The data of the trace of a log, with the kernels compiled for `target` where one is named."""
    recorded = logs.read(log, limit=limit)
    if target is None:
        return replay(recorded.events, recorded.failures, recorded.meta)
    gpu = named_gpu(target)
    compiled = ladder_events(recorded.events, gpu, sass=True)
    meta = plain({**recorded.meta, "target": gpu.name})
    return replay((*recorded.events, *compiled.events), (*recorded.failures, *compiled.failures), meta)
