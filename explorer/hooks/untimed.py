"""Decide without timing what Inductor decides by timing on the device, and record what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from explorer.hooks.inductor import choice_facts
from explorer.hooks.patch import replaced
from explorer.stage import Emit

#: Why anything is assumed at all.
UNTIMED = "nothing can be timed on a GPU that is not there"


class _WouldTime(Exception):
    """Inductor is about to time two ways of doing a matrix product."""


@contextmanager
def untimed(emit: Emit) -> Iterator[None]:
    """Inside the block nothing is timed: ATen's own kernel wins over templates, and no matrix product is padded.

    Each decision is recorded as an "assumption": where, what was assumed, and why.
    """

    def assume(where: str, assumed: str, why: str) -> None:
        emit("assumption", lambda: {"where": where, "assumed": assumed, "why": why})

    with _templates(emit, assume), _fusion(assume), _padding(assume):
        yield


#: Records one assumption: (where, what was assumed, why) → nothing.
Assume = Callable[[str, str, str], None]


@contextmanager
def _templates(emit: Emit, assume: Assume) -> Iterator[None]:
    """Autotuning of matrix products and convolutions: the vendor's library first, then the candidates as listed."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def do_autotuning(
            self: Any, name: str, nodes: Any, layout: Any, gens: Any, key: Any, choices: Any, *args: Any, **kwargs: Any
        ) -> Any:
            ordered = sorted(choices, key=lambda choice: not self._is_extern(choice))
            emit("autotune", lambda: choice_facts(name, nodes, dict.fromkeys(ordered)))
            assume(f"{name}, {len(choices)} choices", f"{ordered[0].name} is the fastest", UNTIMED)
            return {choice: float(rank + 1) for rank, choice in enumerate(ordered)}

        return do_autotuning

    with replaced(AlgorithmSelectorCache, "do_autotuning", make):
        with replaced(AlgorithmSelectorCache, "make_precompile_fn", lambda _: lambda *args, **kwargs: lambda: None):
            yield


@contextmanager
def _fusion(assume: Assume) -> Iterator[None]:
    """Fusions that are timed: none into a matrix product that the library computes, all others as without timing."""
    from torch._inductor import config, ir, scheduler

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def speedup_by_fusion(self: Any, one: Any, other: Any) -> Any:
            templates = [node.get_template_node() for node in (one, other) if node.is_template()]
            undecided = any(isinstance(template, ir.MultiTemplateBuffer) for template in templates)
            if not undecided and not config.benchmark_fusion:
                return original(self, one, other)
            how = "not faster fused" if undecided else "faster fused"
            assume(f"{one.get_name()} and {other.get_name()}", how, UNTIMED)
            return scheduler.FusionResult.fuse(not undecided)

        return speedup_by_fusion

    with replaced(scheduler.Scheduler, "speedup_by_fusion", make):
        yield


@contextmanager
def _padding(assume: Assume) -> Iterator[None]:
    """Matrix products whose sizes are not aligned, and which Inductor would time with and without padding."""
    from torch._inductor.fx_passes import pad_mm

    def make_bound(original: Callable[..., Any]) -> Callable[..., Any]:
        def is_mm_compute_bound(*args: Any) -> bool:
            if original(*args):
                raise _WouldTime
            return False

        return is_mm_compute_bound

    def make_pad(original: Callable[..., Any]) -> Callable[..., Any]:
        def _should_pad(match: Any, one: Any, other: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
            try:
                return bool(original(match, one, other, op, *args, **kwargs))
            except _WouldTime:
                assume(f"{op} of {tuple(one.shape)} and {tuple(other.shape)}", "not faster with padding to aligned sizes", UNTIMED)
                return False

        return _should_pad

    with replaced(pad_mm, "is_mm_compute_bound", make_bound), replaced(pad_mm, "_should_pad", make_pad):
        yield
