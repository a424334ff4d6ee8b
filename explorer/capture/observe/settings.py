"""Observe the settings of Dynamo, Inductor and functorch that are not at their defaults, and what the environment sets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from explorer.capture.observe.context import current_compile_id
from explorer.capture.observe.patch import observed
from explorer.capture.observe.structured import listening
from explorer.model.stage import Emit
from explorer.stages.torch_compile.setting import ChangedSetting

#: What explorer sets itself while it records, so that it sees every stage.
OWN_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "inductor": {"fx_graph_cache": False, "fx_graph_remote_cache": False},
    "functorch": {"enable_autograd_cache": False, "enable_remote_autograd_cache": False},
    "dynamo": {"recompile_limit": 1024, "accumulated_recompile_limit": 4096},
}
#: What it sets only while a graph is compiled for an absent GPU: when a frame begins, such a value is the program's.
OWN_GRAPH_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "inductor": {"compile_threads": 1},
    "functorch": {"force_non_lazy_backward_lowering": True},
}
#: Variables from which torch and triton take defaults when they are imported: such a setting looks as if it were at its default.
VARIABLES = re.compile(r"(?:TORCHINDUCTOR|TORCHDYNAMO|TORCH_COMPILE|AOTINDUCTOR|TRITON)_\w+")
#: Those that say where something is on this machine, or how it is logged.
PLACES = re.compile(r"_(?:DIR|PATH|HOME|ROOT|URL|LOG\w*|DEBUG\w*|THREADS)$")


@contextmanager
def settings(emit: Emit) -> Iterator[None]:
    """Record each setting of Dynamo, Inductor and functorch that differs from its default when a frame is compiled.

    They are read when Dynamo begins a frame, and again when Inductor compiles a graph of it or loads it from its cache. What
    differs only then was set by torch.compile's `mode` or `options`, or by torch itself.
    """
    from torch._inductor.codecache import FxGraphCache
    from torch._inductor.compile_fx import _InProcessFxCompile

    seen: set[tuple[str, str, str, str]] = set()

    def record(setting: ChangedSetting) -> None:
        key = (current_compile_id(), setting.of, setting.name, setting.value)
        if key not in seen:
            seen.add(key)
            emit("setting", lambda: setting)

    def started(metadata: Mapping[str, Any], payload: str) -> None:
        for setting in changed_settings("frame"):
            record(setting)

    def graph_begun(*args: Any, **kwargs: Any) -> Iterator[None]:
        for setting in changed_settings("graph"):
            record(setting)
        yield

    with ExitStack() as stack:
        stack.enter_context(listening(emit, {"dynamo_start": started}))
        stack.enter_context(observed(_InProcessFxCompile, "codegen_and_compile", graph_begun))
        stack.enter_context(observed(FxGraphCache, "cache_hit_post_compile", graph_begun))
        yield


def changed_settings(where: str) -> Iterator[ChangedSetting]:
    """Yield the settings that are not at their defaults now; `where` says what begins: a "frame", or a "graph" of one."""
    for of, name, value, default in _not_at_default():
        text = repr(value)
        yield ChangedSetting(of=of, name=name, value=text, default=repr(default), set_by=set_by(of, name, text, where))
    for name in sorted(os.environ):
        if VARIABLES.fullmatch(name) and not PLACES.search(name):
            yield ChangedSetting(
                of="environment", name=name, value=repr(os.environ[name]), default="None", set_by="the environment"
            )


def plain_settings() -> dict[str, object]:
    """Return the settings not at their defaults now by full name, "torch._dynamo.config.verbose"; those with plain values."""
    found = ((f"torch._{of}.config.{name}", value) for of, name, value, _ in _not_at_default())
    return {name: value for name, value in found if value is None or isinstance(value, (bool, int, float, str))}


def _not_at_default() -> Iterator[tuple[str, str, Any, Any]]:
    """Yield each such setting: whose it is, its name, value and default."""
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    modules = {"dynamo": torch._dynamo.config, "inductor": torch._inductor.config, "functorch": torch._functorch.config}
    for of, module in modules.items():
        for name, entry in module._config.items():
            if entry.alias is None and not module._is_default(name):
                value = module.get_config_copy()[name] if "." in name else getattr(module, name)
                if value != entry.default:
                    yield of, name, value, entry.default


def set_by(of: str, name: str, value: str, where: str) -> str:
    """Name who changed a setting: explorer, the program before the frame, or torch.compile for the graph."""
    own = {**OWN_SETTINGS.get(of, {}), **(OWN_GRAPH_SETTINGS.get(of, {}) if where == "graph" else {})}
    if name in own and repr(own[name]) == value:
        return "explorer"
    return "the program" if where == "frame" else "torch.compile"
