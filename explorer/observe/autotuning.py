"""Observe the choices among ways of doing an operation, and their times where Inductor measured them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from explorer.model.artifacts import Autotune
from explorer.model.events import AutotuneTaken, ChoiceSource
from explorer.model.rows import Choice, Names
from explorer.model.stage import Emit
from explorer.observe.patch import replaced


@contextmanager
def algorithm_choices(emit: Emit) -> Iterator[None]:
    """Record the time of each way of doing an operation, where Inductor measured them, and the one that a fusion settles on."""
    from torch._inductor.ir import MultiTemplateBuffer
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    listed = Listed(emit)

    def make(original: Any) -> Any:
        def do_autotuning(self: Any, name: str, nodes: Any, *args: Any, **kwargs: Any) -> Any:
            timings = original(self, name, nodes, *args, **kwargs)
            if timings:  # none are known yet where they are measured in another process
                listed.add(name, nodes, timings, f"measured the fastest of {len(timings)}")
            return timings

        return do_autotuning

    def make_final(original: Any) -> Any:
        def finalize(self: Any, chosen: Any) -> Any:
            one: Any = chosen.get(None) if isinstance(chosen, Mapping) else chosen  # by hint of a dynamic size
            emit("autotune_taken", lambda: AutotuneTaken(choice=one.name, why=SETTLED))
            return original(self, chosen)

        return finalize

    with ExitStack() as stack:
        stack.enter_context(replaced(AlgorithmSelectorCache, "do_autotuning", make))
        for name in ("finalize_as_triton_caller", "finalize_as_triton_callers"):
            stack.enter_context(replaced(MultiTemplateBuffer, name, make_final))
        stack.enter_context(padded_products(emit))
        yield


#: Why a template was taken that is not the fastest by itself.
SETTLED = "with what is fused into it the fastest, as Inductor found"


class Listed:
    """Emits the choices that there were for an operation, and the source of each choice once in a recording."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._sources: set[str] = set()

    def add(self, name: str, nodes: Any, timings: Mapping[Any, float | None], why: str) -> None:
        """The choices for an operation, and why the fastest of them counts as that."""
        self._emit("autotune", lambda: choices_of(name, nodes, timings, why))
        for choice in timings:
            self._emit.attempt("autotune", "source", lambda c=choice: self._source(c))  # type: ignore[misc]

    def _source(self, choice: Any) -> None:
        key = source_key(choice)
        if key and key not in self._sources:
            self._sources.add(key)
            self._emit("choice_source", lambda: choice_source(choice))


def choices_of(name: str, nodes: Any, timings: Mapping[Any, float | None], why: str = "") -> Autotune:
    """An operation, its inputs, and each choice with its time in ms; the first where nothing was timed."""
    inputs = tuple(
        f"{str(node.get_dtype()).removeprefix('torch.')}{[str(n) for n in node.get_size()]}".replace("'", "") for node in nodes
    )
    known = {choice: time for choice, time in timings.items() if time is not None and math.isfinite(time)}
    fastest = min(known, key=known.__getitem__) if known else next(iter(timings))
    choices = tuple(
        Choice(
            choice=choice.name,
            kind=type(inside(choice)).__name__,
            config=getattr(choice, "description", "") or "",
            ms=known.get(choice),
            fastest=choice is fastest,
            why=why if choice is fastest else "",
            grid=choice_grid(choice),
            source=source_key(choice),
        )
        for choice in timings
    )
    return Autotune(operation=name, inputs=inputs, choices=choices)


def request_of(choice: Any) -> Any:
    """What Inductor would time of a choice; of a subgraph, for which asking is an error until it is timed, nothing."""
    return vars(inside(choice)).get("bmreq")


def inside(choice: Any) -> Any:
    """The choice itself, where it is in a wrapper that packs its weights first, as C++ templates are."""
    return vars(choice).get("_wrapped", choice)


def source_key(choice: Any) -> str:
    """What the source of a choice is known by, the same for equal sources; "" for a call into a library."""
    request = request_of(choice)
    if getattr(request, "module_cache_key", None):
        return str(request.module_cache_key)
    text: Any = getattr(request, "source_code", None)
    if text is None and (graph := getattr(choice, "gm", None)) is not None and not hasattr(choice, "choice"):
        text = graph.code
    return hashlib.sha256(text.encode()).hexdigest()[:16] if isinstance(text, str) else ""


def choice_source(choice: Any) -> ChoiceSource:
    """The source of a choice as Inductor would time it, with nothing fused into it: Triton, C++, or an FX graph."""
    request, key = request_of(choice), source_key(choice)
    if getattr(request, "module_path", None):
        module = Path(request.module_path).read_text(encoding="utf-8").strip("\n")
        return ChoiceSource(source=key, name=str(request.kernel_name), language="triton", text=module)
    if isinstance(getattr(request, "source_code", None), str):
        return ChoiceSource(source=key, name=str(request.kernel_name), language="cpp", text=request.source_code)
    text = choice.gm.print_readable(print_output=False).strip()
    return ChoiceSource(source=key, name=choice.name, language="fx", text=text)


def choice_grid(choice: Any) -> tuple[int, ...]:
    """The launch grid of a Triton template for the sizes of this call, () for other choices."""
    request = request_of(choice)
    arguments = list(getattr(request, "extra_args", ()) or ()) if getattr(request, "module_path", None) else []
    return tuple(int(n) for n in arguments[-3:])


@contextmanager
def padded_products(emit: Emit) -> Iterator[None]:
    """Record the times of a matrix product as it is and padded to aligned sizes, where Inductor measured both."""
    from torch._inductor.fx_passes import pad_mm

    asked: list[tuple[str, Names]] = []

    def make_pad(original: Any) -> Any:
        def _should_pad(match: Any, one: Any, other: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            asked.append((str(op), tuple(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in (one, other))))
            try:
                return original(match, one, other, op, *args, **kwargs)
            finally:
                asked.pop()

        return _should_pad

    def make_faster(original: Any) -> Any:
        def is_padded_faster(key: str, as_it_is: float, padded: float) -> Any:
            faster = original(key, as_it_is, padded)
            if asked:
                emit("autotune", lambda: padding_choices(*asked[-1], as_it_is, padded, bool(faster)))
            return faster

        return is_padded_faster

    with replaced(pad_mm, "_should_pad", make_pad), replaced(pad_mm, "is_padded_faster", make_faster):
        yield


def padding_choices(operation: str, inputs: Names, as_it_is: float, padded: float, faster: bool) -> Autotune:
    """A matrix product's two times in ms; padded counts as the faster one where Inductor takes it for that."""
    choices = tuple(
        Choice(choice=name, kind="pad_mm", config="", ms=float(ms), fastest=fastest, grid=(), source="")
        for name, ms, fastest in (("as it is", as_it_is, not faster), ("padded", padded, faster))
    )
    return Autotune(operation=operation, inputs=inputs, choices=choices)
