"""A cold compile: which settings hold inside the block, and that all are as before after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch._dynamo import pgo

from explorer.capture.observe.fresh import cold_compile, every_lookup_misses
from explorer.capture.observe.versions import isolates_recompiles

CONFIGS = (torch._dynamo.config, torch._functorch.config, torch._inductor.config)


def settings() -> list[dict[str, str]]:
    return [{key: repr(value) for key, value in config.get_config_copy().items()} for config in CONFIGS]


def test_caches_of_whole_stages_are_off_inside() -> None:
    """A graph is compiled, not loaded, whatever the user's settings say."""
    inductor = torch._inductor.config.patch(fx_graph_cache=True, fx_graph_remote_cache=True)
    autograd = torch._functorch.config.patch(enable_autograd_cache=True, enable_remote_autograd_cache=True)
    with inductor, autograd:
        with cold_compile():
            assert not torch._inductor.config.fx_graph_cache and not torch._inductor.config.fx_graph_remote_cache
            assert not torch._functorch.config.enable_autograd_cache
            assert not torch._functorch.config.enable_remote_autograd_cache
        assert torch._inductor.config.fx_graph_cache and torch._functorch.config.enable_autograd_cache


def test_what_was_measured_earlier_is_measured_again() -> None:
    """The config that an earlier compile found the fastest is not taken from the cache, so that its time can be seen."""
    from torch._inductor.runtime.autotune_cache import AutotuneCache

    def found() -> object:
        cache = AutotuneCache("hash")
        cache._read = lambda: {"XBLOCK": 64}  # type: ignore[method-assign]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("torch._inductor.runtime.autotune_cache._load_cached_autotuning", lambda best, *rest: best)
            return cache.read_best({}, [])

    assert found() == {"XBLOCK": 64}
    for without_the_caches in (cold_compile, every_lookup_misses):
        with without_the_caches():
            assert found() is None
        assert found() == {"XBLOCK": 64}


@pytest.mark.parametrize("without_the_caches", [cold_compile, every_lookup_misses])
@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_every_setting_is_as_before_afterwards(without_the_caches: Callable[..., Any], error: type[Exception] | None) -> None:
    """After the block, also after an error in it, no setting of Dynamo, AOTAutograd or Inductor differs."""
    before, sizes = settings(), (pgo._CODE_STATE, pgo._INIT_CODE_STATE)
    try:
        with without_the_caches():
            if error:
                raise error
    except ZeroDivisionError:
        pass
    assert settings() == before
    assert all(now is then for now, then in zip((pgo._CODE_STATE, pgo._INIT_CODE_STATE), sizes, strict=True))


@pytest.mark.compile
def test_only_a_trace_sets_aside_what_earlier_calls_left() -> None:
    """A trace does not see the sizes of earlier calls, nor, where torch counts them together, the limit on compiles.

    A recording leaves both alone.
    """
    limit = torch._dynamo.config.recompile_limit
    mark = object()
    original, pgo._CODE_STATE = pgo._CODE_STATE, mark  # type: ignore[assignment]
    try:
        with cold_compile():
            assert pgo._CODE_STATE is None
            assert isolates_recompiles() or torch._dynamo.config.recompile_limit > limit
        with every_lookup_misses():
            assert pgo._CODE_STATE is mark and torch._dynamo.config.recompile_limit == limit
        assert pgo._CODE_STATE is mark
    finally:
        pgo._CODE_STATE = original
