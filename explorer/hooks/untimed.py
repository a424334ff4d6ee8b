"""Decide without timing what Inductor decides by timing on the device, and say what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from explorer.hooks.patch import replaced

#: Writes down in the trace what was assumed: (step, message) → nothing.
Note = Callable[[str, str], None]


class _WouldTime(Exception):
    """Inductor is about to time two ways of doing a matrix product."""


@contextmanager
def untimed(note: Note) -> Iterator[None]:
    """Inside the block nothing is timed: ATen's own kernel wins over templates, and no matrix product is padded.

    At its end one note a kind says what was assumed.
    """
    tuned: list[str] = []
    products: list[str] = []
    try:
        with _templates(tuned), _fusion(tuned), _padding(products):
            yield
    finally:
        if tuned:
            note("autotune", "nothing was timed; assumed the fastest: " + "; ".join(dict.fromkeys(tuned)))
        if products:
            which = "; ".join(dict.fromkeys(products))
            note("pad_mm", f"nothing was timed; assumed not faster with padding to aligned sizes: {which}")


@contextmanager
def _templates(tuned: list[str]) -> Iterator[None]:
    """Autotuning of matrix products and convolutions: the vendor's library first, then the candidates as listed."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def do_autotuning(
            self: Any, name: str, nodes: Any, layout: Any, gens: Any, key: Any, choices: Any, *args: Any, **kwargs: Any
        ) -> Any:
            ordered = sorted(choices, key=lambda choice: not self._is_extern(choice))
            tuned.append(f"{ordered[0].name}, of {len(choices)} candidates for {name}")
            return {choice: float(rank + 1) for rank, choice in enumerate(ordered)}

        return do_autotuning

    with replaced(AlgorithmSelectorCache, "do_autotuning", make):
        with replaced(AlgorithmSelectorCache, "make_precompile_fn", lambda _: lambda *args, **kwargs: lambda: None):
            yield


@contextmanager
def _fusion(tuned: list[str]) -> Iterator[None]:
    """Fusions that are timed: none into a matrix product that the library computes, all others as without timing."""
    from torch._inductor import config, ir, scheduler

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def speedup_by_fusion(self: Any, one: Any, other: Any) -> Any:
            templates = [node.get_template_node() for node in (one, other) if node.is_template()]
            undecided = any(isinstance(template, ir.MultiTemplateBuffer) for template in templates)
            if not undecided and not config.benchmark_fusion:
                return original(self, one, other)
            how = "apart" if undecided else "fused"
            tuned.append(f"{one.get_name()} and {other.get_name()} {how}")
            return scheduler.FusionResult.fuse(not undecided)

        return speedup_by_fusion

    with replaced(scheduler.Scheduler, "speedup_by_fusion", make):
        yield


@contextmanager
def _padding(products: list[str]) -> Iterator[None]:
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
                products.append(f"{op} of {tuple(one.shape)} and {tuple(other.shape)}")
                return False

        return _should_pad

    with replaced(pad_mm, "is_mm_compute_bound", make_bound), replaced(pad_mm, "_should_pad", make_pad):
        yield
