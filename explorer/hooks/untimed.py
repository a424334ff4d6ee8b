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
    """Inside the block nothing is timed: ATen's own kernel wins over templates, and no matrix product is padded."""
    with _templates(note), _padding(note):
        yield


@contextmanager
def _templates(note: Note) -> Iterator[None]:
    """Autotuning of matrix products and convolutions: the vendor's library first, then the candidates as listed."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def do_autotuning(
            self: Any, name: str, nodes: Any, layout: Any, gens: Any, key: Any, choices: Any, *args: Any, **kwargs: Any
        ) -> Any:
            ordered = sorted(choices, key=lambda choice: not self._is_extern(choice))
            note("autotune", f"{name}: not timed, {ordered[0].name} assumed the fastest of {len(choices)} candidates")
            return {choice: float(rank + 1) for rank, choice in enumerate(ordered)}

        return do_autotuning

    with replaced(AlgorithmSelectorCache, "do_autotuning", make):
        with replaced(AlgorithmSelectorCache, "make_precompile_fn", lambda _: lambda *args, **kwargs: lambda: None):
            yield


@contextmanager
def _padding(note: Note) -> Iterator[None]:
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
                sizes = f"{tuple(one.shape)} x {tuple(other.shape)}"
                note("pad_mm", f"{op} of {sizes}: not timed, assumed faster without padding to aligned sizes")
                return False

        return _should_pad

    with replaced(pad_mm, "is_mm_compute_bound", make_bound), replaced(pad_mm, "_should_pad", make_pad):
        yield
