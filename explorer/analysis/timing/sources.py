"""Read profiles: a `torch.profiler.profile`, a Chrome trace that it exported, a file of Proton, triton's profiler.

The formats: Chrome's "Trace Event Format", as torch.profiler's `export_chrome_trace` writes it; Proton's files (`.hatchet`), a
tree of frames with the metrics "count" and "time (ns)".
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from explorer.analysis.timing.timeline import Span, Timeline
from explorer.errors import FileError, InputError
from explorer.process import regular_files

TORCH, CHROME, PROTON = "torch.profiler", "torch.profiler (Chrome trace)", "Proton"
#: The categories of a Chrome trace that are work: calls on the CPU, calls of the driver there, and what ran on a device.
_CALLS = ("cpu_op", "user_annotation", "cpu_instant_event")
_DRIVER = ("cuda_runtime", "cuda_driver", "xpu_runtime", "privateuse1_runtime", "privateuse1_driver")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "concurrent_kernel")
#: How calls of a driver are named: cudaLaunchKernel, cuLaunchKernelEx, hipModuleLaunchKernel.
_DRIVER_NAME = re.compile(r"^(cuda|cu|hip|ze)[A-Z]\w*$")
_WHAT = (
    "t.attach takes a torch.profiler.profile after its `with`, the path of a Chrome trace (.json or .json.gz) that "
    "export_chrome_trace wrote, or of Proton's .hatchet file; or what t.bisect() or t.dynamo.steps() returned"
)


def timeline_of(source: object) -> Timeline:
    """Read a profile of any kind; InputError for what is none, FileError for a file that cannot be read."""
    if isinstance(source, (str, PathLike)):
        return _of_file(Path(fspath(source)))
    events = getattr(source, "events", None)
    if not callable(events):
        raise InputError(f"{type(source).__name__} is not a profile: {_WHAT}")
    try:
        recorded = events()
    except (AssertionError, AttributeError, RuntimeError) as error:
        raise InputError(f"this profile has no events: it has not run, or is still running; {_WHAT}") from error
    if recorded is None:
        raise InputError(f"this profile has no events: it has not run, or is still running; {_WHAT}")
    return _of_events(recorded)


# A profile of this process --------------------------------------------------------------------------------------------


def _of_events(events: Iterable[Any]) -> Timeline:
    """Return the spans of torch's FunctionEvents, without Python functions and ranges drawn on the device."""
    cpu: list[Span] = []
    gpu: list[Span] = []
    for event in events:
        on_device = not str(event.device_type).endswith("CPU")
        # gloo's spans are marked as asynchronous, though each begins and ends on the same thread of gloo's
        is_async = event.is_async and not event.name.startswith("gloo:")
        if getattr(event, "is_python_function", False) or is_async or (on_device and event.is_user_annotation):
            continue
        driver = not on_device and _DRIVER_NAME.match(event.name) is not None
        span = Span(
            name=event.name,
            start=event.time_range.start / 1e6,
            seconds=event.time_range.elapsed_us() / 1e6,
            track=(event.device_index, getattr(event, "device_resource_id", 0)) if on_device else event.thread,
            correlation=event.id if on_device or driver else None,
        )
        (gpu if on_device else cpu).append(span)
    return Timeline(TORCH, _attached(gpu), tuple(cpu), tuple(gpu))


def _attached(gpu: Sequence[Span]) -> str:
    """The name of the attached GPU, where the profile has spans of one."""
    import torch

    return str(torch.cuda.get_device_name()) if gpu and torch.cuda.is_available() else ""


# Files ----------------------------------------------------------------------------------------------------------------


def _of_file(path: Path) -> Timeline:
    """The spans of a file, by what is in it."""
    try:
        data = regular_files.read(path, math.inf)  # a profile has no bound, but an end
        value = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise FileError(f"{path} cannot be read as a profile: {error}; {_WHAT}") from error
    try:
        if isinstance(value, list) and value and "frame" in value[0]:
            return _of_proton(value)
        events = value["traceEvents"] if isinstance(value, dict) else value
        return _of_chrome(events, value if isinstance(value, dict) else {})
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        raise FileError(f"{path} is JSON but not a profile ({type(error).__name__}: {error}); {_WHAT}") from error


def _of_chrome(events: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]) -> Timeline:
    """The spans of a Chrome trace, whose times are in microseconds."""
    cpu: list[Span] = []
    gpu: list[Span] = []
    for event in events:
        category = event.get("cat")
        if event.get("ph") != "X" or category not in (*_CALLS, *_DRIVER, *_DEVICE):
            continue
        correlated = category in _DRIVER or category in _DEVICE
        span = Span(
            name=str(event["name"]),
            start=float(event["ts"]) / 1e6,
            seconds=float(event.get("dur", 0)) / 1e6,
            track=(event.get("pid"), event.get("tid")),
            correlation=event.get("args", {}).get("correlation") if correlated else None,
        )
        (gpu if category in _DEVICE else cpu).append(span)
    devices = [str(device.get("name", "")) for device in whole.get("deviceProperties", ())]
    return Timeline(CHROME, ", ".join(dict.fromkeys(devices)) if gpu else "", tuple(cpu), tuple(gpu))


def _of_proton(roots: Sequence[Mapping[str, Any]]) -> Timeline:
    """The kernels of a Proton file; it has their sums, and no times of each launch."""
    spans: list[Span] = []
    for root in roots:
        if "frame" in root:
            spans += _leaves(root)
    devices = (kind for root in roots if "frame" not in root for kind in root)
    return Timeline(PROTON, ", ".join(dict.fromkeys(devices)), (), tuple(spans), timed=False)


def _leaves(node: Mapping[str, Any]) -> Iterator[Span]:
    """The frames of a tree that have a time of their own."""
    metrics = node.get("metrics", {})
    if "time (ns)" in metrics:
        yield Span(
            name=str(node["frame"]["name"]),
            start=0.0,
            seconds=float(metrics["time (ns)"]) / 1e9,
            track=str(metrics.get("device_id", "")),
            launches=int(metrics.get("count", 1)),
        )
    for child in node.get("children", ()):
        yield from _leaves(child)
