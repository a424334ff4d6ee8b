"""Observe torch's own metrics of each compile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from explorer.capture.observe.structured import listening
from explorer.model.stage import Emit
from explorer.stages.torch_compile.compilation_metrics import CompilationMetrics

#: torch's records of metrics: of a compile, and of what is compiled or captured at a later call.
RECORDS = {
    "compilation_metrics": "forward",
    "bwd_compilation_metrics": "backward",
    "compilation_metrics_runtime": "forward, when called",
    "bwd_compilation_metrics_runtime": "backward, when called",
}
#: Fields of torch's metrics that other tables have, that count over the whole process, or that are whole settings as JSON.
LEFT_OUT = (
    "compile_id",
    "frame_key",
    "stack_trace",
    "exception_stack_trace",
    "dynamo_config",
    "compiler_config",
    "inductor_config",
    "functorch_config",
    "start_time",
    "start_time_us",
    "end_time_us",
    "recompile_reason",
    "recompile_user_contexts",
    "cuda_version",
    "triton_version",
    "python_version",
    "pytorch_version",
    "log_format_version",
    "co_filename",
    "co_firstlineno",
)


@contextmanager
def compilation_metrics(emit: Emit) -> Iterator[None]:
    """Record torch's own metrics of each compile (`CompilationMetrics`), those that it filled in."""

    def listener(kind: str, name: str) -> Any:
        def heard(metadata: Mapping[str, Any], payload: str) -> None:
            given = metadata[name]
            with emit.within(str(given.get("compile_id") or "")):
                emit("compilation_metrics", lambda: metrics_of(kind, given))

        return heard

    with listening(emit, {name: listener(kind, name) for name, kind in RECORDS.items()}):
        yield


def metrics_of(kind: str, given: Mapping[str, Any]) -> CompilationMetrics:
    """The record of torch's metrics of a compile: those that it filled in, but for what other tables have."""
    known = {key: value for key, value in given.items() if key not in LEFT_OUT and value not in (None, "", [], {})}
    return CompilationMetrics(of=kind, figures=known)
