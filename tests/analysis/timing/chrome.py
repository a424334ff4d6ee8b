"""A Chrome trace as torch.profiler exports one from a GPU, built launch by launch with times that a test gives.

Only what the format's fields mean is taken from torch: the categories cpu_op, cuda_runtime, kernel and gpu_memcpy, and the
"correlation" that a launch and its kernel have in common (torch/profiler, and Kineto's output_json.cpp).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class ChromeTrace:
    """The events of one process with one stream; `now` is the CPU's time and `free` when the device is, both in microseconds."""

    def __init__(self, device: str = "NVIDIA H100 80GB HBM3") -> None:
        self.events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
        self.device = device
        self.now, self.free, self.correlation = 100.0, 0.0, 0

    def span(self, category: str, name: str, start: float, duration: float, **args: Any) -> None:
        """Add a complete event."""
        on_device = category in ("kernel", "gpu_memcpy")
        place = {"pid": 0, "tid": 7} if on_device else {"pid": 1, "tid": 1}
        self.events.append({"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "args": args, **place})

    def launch(self, name: str, microseconds: float, gap: float = 1.0, category: str = "kernel") -> None:
        """Launch something that begins `gap` after the device is free and after its launch."""
        self.correlation += 1
        self.span("cuda_runtime", "cudaLaunchKernel", self.now, 2.0, correlation=self.correlation)
        self.now += 3.0
        start = max(self.now, self.free) + gap
        self.span(category, name, start, microseconds, correlation=self.correlation, stream=7)
        self.free = start + microseconds

    def call(self, name: str, kernels: Sequence[tuple[str, float]], category: str = "cpu_op") -> None:
        """Call an operator that launches kernels; they follow each other at once."""
        start = self.now
        self.now += 1.0
        for kernel, microseconds in kernels:
            self.launch(kernel, microseconds)
        self.span(category, name, start, self.now + 1.0 - start)
        self.now += 2.0

    def begin(self) -> float:
        """Begin something that spans what follows; `end` takes what this returns."""
        start = self.now
        self.now += 1.0
        return start

    def end(self, name: str, start: float, category: str = "cpu_op") -> None:
        """End what `begin` began."""
        self.span(category, name, start, self.now + 1.0 - start)
        self.now += 2.0

    def write(self, path: Path) -> Path:
        """Write the file."""
        whole = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": self.device}], "traceEvents": self.events}
        path.write_text(json.dumps(whole), encoding="utf-8")
        return path
