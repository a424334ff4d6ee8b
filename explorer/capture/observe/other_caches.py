"""Observe the caches of other things than graphs: saved artifacts, sizes, packages, measured choices, Triton's binaries.

Each emits a row of `t.compiler.caches`, from torch's own answer.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from explorer.capture.observe.fresh import FRESH, artifact_kinds, reads_nothing
from explorer.capture.observe.patch import followed, observed, replaced
from explorer.capture.observe.versions import has_function
from explorer.model.stage import Emit
from explorer.stages.torch_compile.cache import CacheLookup

#: What each of torch's remote caches is of, by its class; a local one has rows of its own.
REMOTE: Mapping[str, str] = MappingProxyType(
    {
        "RemoteFxGraphCache": "FX graph",
        "RemoteAOTAutogradCache": "AOTAutograd",
        "RemoteAutotuneCache": "autotune",
        "RemoteBundledAutotuneCache": "autotune bundle",
        "RemoteDynamoPGOCache": "Dynamo sizes",
    }
)


def lookup(cache: str, state: str, key: str, reason: str = "", kernel: str = "") -> CacheLookup:
    """One row, of no graph."""
    return CacheLookup(cache=cache, state=state, graph="", key=key, kernel=kernel, reason=reason, seconds_saved=None)


@contextmanager
def artifacts_and_profiles(emit: Emit) -> Iterator[None]:
    """Record each artifact of `standalone_compile` that is saved or loaded, and what Dynamo loads of earlier runs."""
    with ExitStack() as stack:
        stack.enter_context(_standalone_artifacts(emit))
        stack.enter_context(_sizes_of_earlier_runs(emit))
        stack.enter_context(_packages(emit))
        yield


@contextmanager
def _standalone_artifacts(emit: Emit) -> Iterator[None]:
    under_way: list[str] = []  # `CompiledArtifact.load` asks the load of one of its kinds

    def watch(state: str) -> Callable[..., Generator[None, Any, None]]:
        def called(*args: Any, path: str = "", format: str = "binary", **kwargs: Any) -> Generator[None, Any, None]:
            under_way.append(state)
            why = f"{'loaded' if state == 'hit' else 'written'} in the format {format!r}"
            came_to, around = "failed", emit.here().frame
            # a serving stack loads one for each piece of a graph, whose texts would mix in the frame of the whole graph
            frame = f"{around} {path}/0" if around and state == "hit" and len(under_way) == 1 else around
            with emit.within(frame):
                try:
                    yield
                    came_to = state
                finally:
                    under_way.pop()
                    if not under_way:
                        why = why if came_to == state else f"it could not be {why}"
                        emit("cache", lambda: lookup("standalone artifact", came_to, str(path), why))

        return called

    with ExitStack() as stack:
        for method, state in (("load", "hit"), ("save", "saved")):
            for kind in artifact_kinds(method):
                stack.enter_context(observed(kind, method, watch(state)))
        yield


@contextmanager
def _sizes_of_earlier_runs(emit: Emit) -> Iterator[None]:
    """Record lookups of the sizes that earlier runs saw. Dynamo makes such a size dynamic at once (`TORCH_COMPILE_JOB_ID`)."""
    from torch._dynamo import pgo

    def looked(found: Any, key: str) -> None:
        reason = "" if found is not None else "no run has left its sizes under this key"
        emit("cache", lambda: lookup("Dynamo sizes", "hit" if found is not None else "miss", str(key), reason))

    with followed(pgo, "get_local_code_state", looked):
        yield


@contextmanager
def _packages(emit: Emit) -> Iterator[None]:
    """What Dynamo itself made of a function, with its guards (`torch._dynamo.config.caching_precompile`)."""
    from torch._dynamo import package

    kind = getattr(package, "DiskDynamoCache", None)

    def looked(_: Any, fn: Callable[..., Any]) -> Generator[None, Any, None]:
        found = yield
        key = str(package.CompilePackage.source_id_from_fn(fn))
        if found is not None:
            state, reason = "hit", ""
        else:
            nothing = f"no package of {getattr(fn, '__qualname__', fn)} is there, or it cannot be loaded"
            state, reason = "miss", FRESH if reads_nothing() else nothing
        emit("cache", lambda: lookup("Dynamo package", state, key, reason))

    if not has_function(kind, "load"):
        yield
        return
    with observed(kind, "load", looked):
        yield


@contextmanager
def measured_choices(emit: Emit) -> Iterator[None]:
    """Record whether the choices of an operation were measured before, on this machine, by this torch."""
    from torch._inductor.codecache import PersistentCache

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def looked(cache: Any, choices: Any, op: str, inputs: str, benchmark: Any, *args: Any, **kwargs: Any) -> Any:
            asked: list[Any] = []

            def measure(choices: Any) -> Any:
                asked.append(choices)
                return benchmark(choices)

            timings = original(cache, choices, op, inputs, measure if benchmark is not None else None, *args, **kwargs)
            if asked:
                state, reason = "miss", f"not all of its {len(choices)} choices were measured before"
            else:
                state, reason = ("hit", "") if timings else ("bypass", "nothing is measured")
            emit("cache", lambda: lookup("choices", state, f"{op} {inputs}", reason))
            return timings

        return looked

    with replaced(PersistentCache, "lookup", make):
        yield


@contextmanager
def remote_caches(emit: Emit) -> Iterator[None]:
    """Record each question to a remote cache: the same cache may have another row, of what its local and remote part came to."""
    from torch._inductor.remote_cache import RemoteCache

    def asked(cache: Any, key: str) -> Generator[None, Any, None]:
        of = REMOTE.get(type(cache).__name__)
        state, reason = "bypass", "the remote cache could not be asked"
        try:
            found = yield
            state, reason = ("hit", "") if found is not None else ("miss", "the remote cache has nothing under this key")
        finally:
            if of:
                emit("cache", lambda: lookup(f"{of}, remote", state, str(key), reason))

    with observed(RemoteCache, "get", asked):
        yield


@contextmanager
def triton_compiles(emit: Emit, heard: set[str]) -> Iterator[None]:
    """Record each Triton kernel that this process compiles or takes from Triton's cache; `heard` gets their keys.

    Triton tells its own listener, and this passes it on to the program's, if it has one.
    """
    if importlib.util.find_spec("triton") is None:
        yield
        return
    knobs = getattr(importlib.import_module("triton"), "knobs", None)
    compilation = getattr(knobs, "compilation", None)
    if not hasattr(compilation, "listener"):
        yield
        return

    def make(own: Any) -> Callable[..., None]:
        def listener(*, src: Any, metadata: Any, metadata_group: Any, times: Any, cache_hit: bool) -> None:
            emit.attempt("cache", "Triton", lambda: note(src, metadata_group, cache_hit))
            if own is not None:
                own(src=src, metadata=metadata, metadata_group=metadata_group, times=times, cache_hit=cache_hit)

        return listener

    def note(src: Any, files: Mapping[str, str], hit: bool) -> None:
        key = Path(next(iter(files.values()))).parent.name
        heard.add(key)
        reason = "" if hit else "Triton's cache has nothing under this key"
        emit("cache", lambda: lookup("Triton", "hit" if hit else "miss", key, reason, str(src.name)))

    with replaced(compilation, "listener", make):
        yield
