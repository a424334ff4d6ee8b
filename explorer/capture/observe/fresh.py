"""Compile a graph also where a cache has it: `trace` uses no caches of graphs, `record` may be told to read none.

Compiled C++ and Triton binaries stay cached: their source is seen all the same, and the precompiled header alone takes 17 to
35 s to make again.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from explorer.capture.observe.patch import is_replaced_here, observed, replaced
from explorer.capture.observe.versions import has_function, isolates_recompiles

#: Why a fresh recording finds nothing.
FRESH = "not looked up: the recording is fresh, it writes the caches but does not read them"


@contextmanager
def cold_compile() -> Iterator[None]:
    """Make AOTAutograd and Inductor compile every graph anew inside the block, and cache none.

    Inductor measures a kernel's configs again, so that the times are recorded. The sizes of earlier calls are set aside:
    Dynamo would make a size dynamic if it differed from an earlier one. The recompile limits are raised if this torch cannot
    isolate a trace, because the trace then adds one more cache entry to the same code object.
    """
    import torch._dynamo.config
    from torch._dynamo import pgo

    limits = {} if isolates_recompiles() else {"recompile_limit": 1024, "accumulated_recompile_limit": 4096}
    with ExitStack() as stack:
        stack.enter_context(nothing_measured())
        stack.enter_context(_standalone_artifacts_cached())
        stack.enter_context(no_graph_caches())
        stack.enter_context(torch._dynamo.config.patch(limits))
        for name in ("_CODE_STATE", "_INIT_CODE_STATE"):
            stack.enter_context(replaced(pgo, name, lambda sizes_seen: None))
        yield


@contextmanager
def _standalone_artifacts_cached() -> Iterator[None]:
    """Let `standalone_compile` write to the caches inside the block: the artifact that it saves is a cache entry."""
    module = _standalone_module()
    own = [(config, {name: getattr(config, name) for name in names}) for config, names in _graph_caches()]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def standalone_compile(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack:
                for config, settings in own:
                    stack.enter_context(config.patch(settings))
                stack.enter_context(every_lookup_misses())
                return original(*args, **kwargs)

        return standalone_compile

    with replaced(module, "standalone_compile", make):
        yield


def _graph_caches() -> Iterator[tuple[Any, Sequence[str]]]:
    """Yield Inductor's and AOTAutograd's settings, each with the names of those that turn on a cache of graphs."""
    import torch._functorch.config
    import torch._inductor.config

    yield torch._inductor.config, ("fx_graph_cache", "fx_graph_remote_cache")
    yield torch._functorch.config, ("enable_autograd_cache", "enable_remote_autograd_cache")


@contextmanager
def no_graph_caches() -> Iterator[None]:
    """Neither read nor write the caches of graphs inside the block."""
    with ExitStack() as stack:
        for config, names in _graph_caches():
            stack.enter_context(config.patch(dict.fromkeys(names, False)))
        yield


@contextmanager
def every_lookup_misses() -> Iterator[None]:
    """Make every lookup of a graph miss inside the block. The compiled graphs are written to the caches as usual.

    A program can still save its compiled graphs, for example with `torch.compiler.save_cache_artifacts`. An artifact that the
    program loads itself is still loaded: torch finds its graphs by lookups, and could not compile them.
    """
    from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache
    from torch._inductor.codecache import FxGraphCache

    loading = _Loading()

    def missing(original: Callable[..., Any]) -> Callable[..., Any]:
        def candidates(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs) if loading.depth else iter(())

        return candidates

    def loaded(*args: Any, **kwargs: Any) -> Iterator[None]:
        loading.depth += 1
        try:
            yield
        finally:
            loading.depth -= 1

    with ExitStack() as stack:
        stack.enter_context(nothing_measured())
        for kind in artifact_kinds("load"):
            stack.enter_context(observed(kind, "load", loaded))
        for cache in (FxGraphCache, AOTAutogradCache):
            stack.enter_context(replaced(cache, "iterate_over_candidates", missing))
        yield


class _Loading(threading.local):
    """How many loads of an artifact are under way in this thread, one inside the other."""

    depth = 0


def _standalone_module() -> Any:
    """The module of `standalone_compile`: an attribute of its package with the same name is the function."""
    return importlib.import_module("torch._inductor.standalone_compile")


def artifact_kinds(method: str) -> Iterator[Any]:
    """Yield the classes of what `standalone_compile` gives that have a method of their own, "load" or "save"."""
    module = _standalone_module()
    for name in ("CompiledArtifact", "CacheCompiledArtifact", "AOTCompiledArtifact"):
        own = vars(getattr(module, name, object))
        if method in own and not getattr(own[method], "__isabstractmethod__", False):
            yield getattr(module, name)


def reads_nothing() -> bool:
    """Whether a recording makes every lookup miss."""
    from torch._inductor.codecache import FxGraphCache

    return is_replaced_here(FxGraphCache, "iterate_over_candidates")


@contextmanager
def no_packages() -> Iterator[None]:
    """Dynamo neither loads nor records a package inside the block (`torch._dynamo.config.caching_precompile`).

    A package without compiled graphs would stay in the program's cache: every later process loads it, and compiles again.
    """
    from torch._dynamo import package

    with ExitStack() as stack:
        stack.enter_context(no_package_loaded())
        if has_function(kind := getattr(package, "DynamoStore", None), "record_package"):
            stack.enter_context(replaced(kind, "record_package", lambda _: lambda *args, **kwargs: None))
        yield


@contextmanager
def no_package_loaded() -> Iterator[None]:
    """Inside the block Dynamo loads no package: it would not compile the function."""
    from torch._dynamo import package

    with ExitStack() as stack:
        if has_function(kind := getattr(package, "DiskDynamoCache", None), "load"):
            stack.enter_context(replaced(kind, "load", lambda _: lambda *args, **kwargs: None))
        yield


@contextmanager
def nothing_measured() -> Iterator[None]:
    """Keep Inductor from reading earlier autotuning results inside the block. New results are cached as usual.

    A setting that turns the cache off would be written into each kernel's metadata.
    """
    from torch._inductor.runtime.autotune_cache import AutotuneCache

    with replaced(AutotuneCache, "read_best", lambda _: lambda *args: None):
        yield
