"""Watch what torch counts and sets while it compiles: its metrics, changed settings, torch.compile's calls, files written."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from explorer.model.stage import Emit
from explorer.model.values import Plain
from explorer.observe.dynamo import OWN_FOLDER, current_compile_id
from explorer.observe.patch import replaced
from explorer.observe.places import in_package
from explorer.observe.structured import interned, listening

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
            known = {key: value for key, value in given.items() if key not in LEFT_OUT and value not in (None, "", [], {})}
            with emit.within(str(given.get("compile_id") or "")):
                emit("compilation_metrics", lambda: {"of": kind, **known})

        return heard

    with listening(emit, {name: listener(kind, name) for name, kind in RECORDS.items()}):
        yield


# Settings ----------------------------------------------------------------------------------------------------------------

#: What explorer sets itself while it records, so that every stage is seen or that the kernels are compiled by itself.
OWN_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "inductor": {"fx_graph_cache": False, "fx_graph_remote_cache": False, "compile_threads": 1},
    "functorch": {
        "enable_autograd_cache": False,
        "enable_remote_autograd_cache": False,
        "force_non_lazy_backward_lowering": True,
    },
    "dynamo": {"recompile_limit": 1024, "accumulated_recompile_limit": 4096},
}


@contextmanager
def settings(emit: Emit) -> Iterator[None]:
    """Record each setting of Dynamo, Inductor and functorch that differs from its default when a frame is compiled.

    They are read when Dynamo begins a frame, and again where Inductor compiles a graph of it: what differs only there was
    set by torch.compile's `mode` or `options`, or by torch itself.
    """
    from torch._inductor.compile_fx import _InProcessFxCompile

    seen: set[tuple[str, str, str, str]] = set()

    def record(where: str) -> None:
        frame = current_compile_id()
        for row in changed_settings():
            key = (frame, row["of"], row["name"], row["value"])
            if key not in seen:
                seen.add(key)
                emit("setting", lambda r=row: {**r, "set_by": set_by(r, where)})  # type: ignore[misc]

    def started(metadata: Mapping[str, Any], payload: str) -> None:
        record("frame")

    def make(original: Any) -> Any:
        def codegen_and_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
            emit.attempt("setting", "graph", lambda: record("graph"))
            return original(self, *args, **kwargs)

        return codegen_and_compile

    with listening(emit, {"dynamo_start": started}), replaced(_InProcessFxCompile, "codegen_and_compile", make):
        yield


def changed_settings() -> Iterator[dict[str, str]]:
    """One row a setting that is not at its default: whose it is, name, value and default as Python writes them."""
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    modules = {"dynamo": torch._dynamo.config, "inductor": torch._inductor.config, "functorch": torch._functorch.config}
    for of, module in modules.items():
        for name, entry in module._config.items():
            if entry.alias is None and not module._is_default(name):
                value = module.get_config_copy()[name] if "." in name else getattr(module, name)
                if value != entry.default:
                    yield {"of": of, "name": name, "value": repr(value), "default": repr(entry.default)}


def set_by(row: Mapping[str, str], where: str) -> str:
    """Who set it: explorer, the program before the frame, or torch.compile for the graph."""
    own = OWN_SETTINGS.get(row["of"], {})
    if row["name"] in own and repr(own[row["name"]]) == row["value"]:
        return "explorer"
    return "the program" if where == "frame" else "torch.compile"


# Calls -------------------------------------------------------------------------------------------------------------------


@contextmanager
def compile_calls(emit: Emit) -> Iterator[None]:
    """Record for each frame which call of torch.compile it came from, and which call of the program began it."""
    import torch
    from torch._dynamo.convert_frame import ConvertFrameAssert

    calls: dict[int, tuple[Any, dict[str, Plain]]] = {}  # the object is held, so that its identity stays its own
    under_way: list[Any] = []

    def make_made(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            frame = sys._getframe(1)
            emit.attempt("compile_call", "call", lambda: calls.update({id(self): (self, _user_place(frame))}))

        return __init__

    def make_convert(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            under_way.append(self)
            try:
                return original(self, *args, **kwargs)
            finally:
                under_way.pop()

        return __call__

    def started(metadata: Mapping[str, Any], payload: str) -> None:
        backend = _innermost(under_way[-1]) if under_way else None
        _, place = calls.get(id(backend), (None, {"file": "", "line": 0, "code": ""}))
        emit("compile_call", lambda: {**place, **_backend_facts(backend), **_called_from(metadata["dynamo_start"]["stack"])})

    with ExitStack() as stack:
        for name in ("_TorchCompileInductorWrapper", "_TorchCompileWrapper"):
            stack.enter_context(replaced(getattr(torch, name), "__init__", make_made))
        stack.enter_context(replaced(ConvertFrameAssert, "__call__", make_convert))
        stack.enter_context(listening(emit, {"dynamo_start": started}))
        yield


def _innermost(converter: Any) -> Any:
    """The backend that torch.compile made, inside the functions that Dynamo wraps it in."""
    while hasattr(converter, "_torchdynamo_orig_backend"):
        converter = converter._torchdynamo_orig_backend
    return converter


def _backend_facts(backend: Any) -> dict[str, Plain]:
    options = {name: repr(value) for name, value in (getattr(backend, "config", None) or {}).items()}
    named = getattr(backend, "compiler_name", None) or getattr(backend, "__name__", None) or type(backend).__name__
    return {"backend": "" if backend is None else str(named), "options": options, "dynamic": getattr(backend, "dynamic", None)}


def _user_place(frame: FrameType | None) -> dict[str, Plain]:
    """The innermost place of a stack that is neither torch's nor explorer's."""
    while frame is not None and (in_package(frame.f_code.co_filename) or frame.f_code.co_filename.startswith(OWN_FOLDER)):
        frame = frame.f_back
    if frame is None:
        return {"file": "", "line": 0, "code": ""}
    file, line = frame.f_code.co_filename, frame.f_lineno
    return {"file": file, "line": line, "code": linecache.getline(file, line).strip()}


def _called_from(stack: list[Mapping[str, Any]]) -> dict[str, Plain]:
    """The program's own line that called the frame, by the stack that torch logs when it begins; its last entry is the frame."""
    for call in reversed(stack[:-1]):
        file = interned(call["filename"])
        if file and not in_package(file) and not file.startswith(OWN_FOLDER):
            code = linecache.getline(file, call["line"]).strip()
            return {"called_file": file, "called_line": call["line"], "called_code": code}
    return {"called_file": "", "called_line": 0, "called_code": ""}


# Files -------------------------------------------------------------------------------------------------------------------


@contextmanager
def written_files(emit: Emit) -> Iterator[None]:
    """Record the files that Inductor and triton write in this process, and at the end what was compiled beside them."""
    from torch._inductor import codecache

    def make_write(original: Any) -> Any:
        def write(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            emit.attempt("written_file", "inductor", lambda: _emit_file(emit, "inductor", result[1]))
            return result

        return write

    def make_put(original: Any) -> Any:
        def put(*args: Any, **kwargs: Any) -> Any:
            path = original(*args, **kwargs)
            emit.attempt("written_file", "triton", lambda: _emit_file(emit, "triton", path))
            return path

        return put

    with ExitStack() as stack:
        stack.enter_context(replaced(codecache, "write", make_write))
        for manager in _triton_cache():
            stack.enter_context(replaced(manager, "put", make_put))
        yield


def _triton_cache() -> list[Any]:
    """What writes triton's files; [] where triton is not installed."""
    try:
        from triton.runtime.cache import FileCacheManager
    except ImportError:
        return []
    return [FileCacheManager]


def _emit_file(emit: Emit, by: str, path: str) -> None:
    """Emit a file now; of C++ sources, when the recording ends, also what was compiled of them."""
    emit("written_file", lambda: _file_facts(by, path))
    if path.endswith(".cpp"):
        emit.later("written_file", lambda: {"rows": [_file_facts(by, found) for found in _beside(path)]})


def _file_facts(by: str, path: str) -> dict[str, Plain]:
    known = os.path.exists(path)
    return {"by": by, "path": path, "kind": Path(path).suffix.lstrip("."), "bytes": os.path.getsize(path) if known else None}


def _beside(path: str) -> list[str]:
    """The files of a C++ source's own name: the library that was compiled, and what was compiled on the way."""
    own = Path(path)
    return sorted(str(found) for found in own.parent.glob(f"{own.stem}*") if found != own and found.suffix != ".lock")
