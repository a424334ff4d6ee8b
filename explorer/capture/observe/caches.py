"""Observe the caches: hits, misses and their reasons, and the texts that a cached graph brings with it.

What a key that missed has otherwise than the nearest one is in `cache_keys.py`, the caches of other things in `other_caches.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from explorer.capture.observe.cache_keys import AutogradKeys, Compared, KeyLog
from explorer.capture.observe.context import graph_of
from explorer.capture.observe.fresh import FRESH, reads_nothing
from explorer.capture.observe.library_memory import LibraryCalls
from explorer.capture.observe.other_caches import artifacts_and_profiles, measured_choices, remote_caches, triton_compiles
from explorer.capture.observe.patch import observed
from explorer.capture.observe.structured import listening
from explorer.model.shared import OutputCodeText
from explorer.model.stage import Emit
from explorer.stages.readable_graph import graph_of_text
from explorer.stages.torch_compile.cache import CacheLookup

#: The structured records of a lookup: the cache, and what came of it.
LOOKUPS = {
    **{f"fx_graph_cache_{state}": ("FX graph", state) for state in ("hit", "miss", "bypass")},
    **{f"aotautograd_cache_{state}": ("AOTAutograd", state) for state in ("hit", "miss", "bypass")},
    "fx_graph_bundled_cache_hit": ("FX graph", "hit"),
}
#: Why a lookup found nothing, by torch's word for it.
REASONS = {
    "full_miss": "the cache has nothing under this key",
    "guard_miss": "the cache has this key for other sizes only: the guard {guard} fails",
    "hit": "AOTAutograd's entry is there, but Inductor's cache no longer has a graph that it names",
    "fresh": FRESH,
}


@contextmanager
def lookups(emit: Emit) -> Iterator[None]:
    """Record each lookup in the caches that torch and Triton have, and the texts of a cached graph."""
    watch = CacheWatch(emit)
    with ExitStack() as stack:
        stack.enter_context(watch.graphs())
        stack.enter_context(watch.kernels())
        stack.enter_context(triton_compiles(emit, watch.triton_keys))
        for others in (artifacts_and_profiles, measured_choices, remote_caches):
            stack.enter_context(others(emit))
        yield


class CacheWatch:
    """Collects what the caches of one recording answered."""

    def __init__(self, emit: Emit) -> None:
        self.triton_keys: set[str] = set()  # of the kernels that Triton itself reported
        self._emit = emit
        self._graph = ""
        self._began = time.time()
        self._modules: list[tuple[str, str, Any]] = []
        self._keys = KeyLog()
        self._autograd_keys = AutogradKeys()
        self._library_calls = LibraryCalls()

    @contextmanager
    def graphs(self) -> Iterator[None]:
        """Record the lookups of AOTAutograd's and Inductor's caches of graphs, and the texts that a hit brings with it."""
        from torch._inductor.codecache import FxGraphCache
        from torch._inductor.compile_fx import _InProcessFxCompile

        def compiled(_: Any, gm: Any, inputs: Any, check: Any, kwargs: Any) -> Iterator[None]:
            self._graph = graph_of(kwargs)
            yield

        def cached(graph: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
            self._graph = graph_of(getattr(graph, "fx_kwargs", None) or {})
            found = yield
            if found[0] is not None:
                self._emit.attempt("cache", "texts", lambda: self._texts(graph))

        with ExitStack() as stack:
            stack.enter_context(self._autograd_keys.noted())
            stack.enter_context(listening(self._emit, dict.fromkeys(LOOKUPS, self._heard)))
            stack.enter_context(observed(_InProcessFxCompile, "codegen_and_compile", compiled))
            stack.enter_context(observed(FxGraphCache, "cache_hit_post_compile", cached))
            yield

    def _heard(self, metadata: Mapping[str, Any], payload: str) -> None:
        """Make the record of one lookup, from torch's structured log."""
        cache, state = LOOKUPS[metadata["artifact"]["name"]]
        info = json.loads(payload)
        graph, self._graph = (self._graph, "") if cache == "FX graph" else ("", self._graph)
        lines = self._autograd_keys.lines(info) if cache == "AOTAutograd" else info.get("components") or ()
        noted = self._keys.add(cache, str(info.get("key") or ""), lines)
        info.pop("components", None)  # 70 KB, which would be held until the recording is read
        if state != "miss" or reads_nothing():
            info = {**info, "cache_status_detailed": "fresh"} if state == "miss" else info
            self._emit("cache", lambda: lambda: graph_lookup(cache, state, graph, info, noted.told()))
            return
        folder, now = _folder_of_graphs() if cache == "FX graph" else None, time.time()
        self._emit("cache", lambda: lambda: graph_lookup(cache, state, graph, info, noted.compare(folder, now)))

    def _texts(self, graph: Any) -> None:
        """Record the texts in a cached graph: the post-grad graph and the output code."""
        name = f"{graph.cache_key}.py"
        if post_grad := getattr(graph, "inductor_post_grad_graph_str", ""):
            self._emit("post_grad", lambda: partial(graph_of_text, post_grad, cached=True))
        text = graph.source_code
        self._emit("output_code", lambda: OutputCodeText(text=text, file=name, cached=True))
        self._emit("library_memory", lambda: partial(self._library_calls.measured, text))

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Record, when the recording ends, where the binary and the config of each loaded Triton kernel came from."""
        from torch._inductor.codecache import PyCodeCache

        def loaded(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
            module = yield
            self._modules.append((self._emit.here().frame, self._graph, module))

        with observed(PyCodeCache, "load_by_key_path", loaded):
            yield
        for frame, graph, module in self._modules:
            self._emit.attempt("cache", "kernels", lambda f=frame, g=graph, m=module: self._kernel_rows(f, g, m))  # type: ignore[misc]

    def _kernel_rows(self, frame: str, graph: str, module: Any) -> None:
        with self._emit.within(frame):
            for tuner in list(vars(module).values()):
                if hasattr(tuner, "launchers") and hasattr(tuner, "compile_results"):
                    for lookup in kernel_lookups(tuner, graph, self._began):
                        if lookup.cache != "Triton" or lookup.key not in self.triton_keys:
                            self._emit("cache", lambda row=lookup: row)  # type: ignore[misc]


def _folder_of_graphs() -> Path:
    """Return the current folder of Inductor's FX graph cache: `standalone_compile` loads from its own folder."""
    from torch._inductor.codecache import FxGraphCache

    return Path(FxGraphCache._get_tmp_dir())


def graph_lookup(cache: str, state: str, graph: str, info: Mapping[str, Any], compared: Compared | None = None) -> CacheLookup:
    """Describe one lookup in a graph cache: its key, why it missed, how the key differs, and the seconds that a hit saved."""
    saved = info.get("time_saved_ns", 0) / 1e9 or info.get("time_saved_ms", 0) / 1e3
    guard = str(info.get("cache_status_guard_expr", ""))
    detail = str(info.get("cache_status_detailed", ""))
    reason = str(info.get("cache_bypass_reason", "")) or (REASONS.get(detail, detail) if state == "miss" else "")
    compared = compared or Compared()
    return CacheLookup(
        cache=cache,
        state=state,
        graph=graph,
        key=str(info.get("key") or ""),
        kernel="",
        reason=reason.replace("{guard}", guard),
        seconds_saved=saved or None,
        nearest=compared.nearest or None,
        differs=compared.differs or None,
        parts=compared.parts or None,
        relative_to=compared.relative_to or None,
    )


def kernel_lookups(tuner: Any, graph: str, began: float) -> Iterator[CacheLookup]:
    """Tell for a loaded Triton kernel whether its config and its binary come from before the recording."""
    from torch._inductor.runtime.cache_dir_utils import triton_cache_dir

    name = str(getattr(tuner.fn, "__name__", ""))

    def lookup(cache: str, state: str, key: str, reason: str) -> CacheLookup:
        return CacheLookup(cache=cache, state=state, graph=graph, key=key, kernel=name, reason=reason, seconds_saved=None)

    known = getattr(tuner, "autotune_cache_info", None) or {}
    state = str(known.get("autotune_cache_state", ""))
    if state in ("hit", "miss"):
        reason = "" if state == "hit" else f"none of its {known.get('num_configs', '')} configs was measured before"
        yield lookup("autotune", state, str(known.get("best_config", "")), reason)
    elif state:
        yield lookup("autotune", "bypass", "", state)
    for launcher in tuner.launchers:
        key = str(launcher.cache_hash)
        folder = Path(triton_cache_dir(tuner.triton_meta.get("device", 0)))
        files = list((folder / key).glob("*.json"))
        if not files:  # such as after a change of TRITON_CACHE_DIR, which Inductor's workers do not hear of
            reason = f"its files are not in the folder of Triton's cache, {folder}: whether it was compiled cannot be told"
            yield lookup("Triton", "unknown", key, reason)
        else:
            hit = min(p.stat().st_mtime for p in files) < began
            reason = "its files are older than the recording" if hit else "it was compiled in this recording"
            yield lookup("Triton", "hit" if hit else "miss", key, reason)
