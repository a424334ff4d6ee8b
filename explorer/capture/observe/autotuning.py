"""Observe the choices among ways of doing an operation, and their times where Inductor measured them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from explorer.capture.observe.gemm_backends import gemm_backends
from explorer.capture.observe.patch import observed
from explorer.model.events import ChoiceSource
from explorer.model.shared import Names
from explorer.model.stage import Emit
from explorer.stages.inductor.autotune import Autotune, AutotuneTaken, Choice


@contextmanager
def algorithm_choices(emit: Emit) -> Iterator[None]:
    """Record the time of each way of doing an operation, where Inductor measured them, and the one that a fusion settles on."""
    from torch._inductor.ir import MultiTemplateBuffer
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    sources: set[str] = set()

    def timed(_: Any, name: str, nodes: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        timings = yield
        if not timings:  # none are known yet where they are measured in another process
            return
        why = f"measured the fastest of {len(timings)}"
        if isinstance(timings, Assumed):
            why, timings = timings.why, dict.fromkeys(timings.shown)
        emit("autotune", lambda: choices_of(name, nodes, timings, why))
        for choice in timings:
            emit.attempt("autotune", "source", partial(_emit_source, emit, choice, sources))

    def settled(_: Any, chosen: Any) -> Iterator[None]:
        one: Any = chosen.get(None) if isinstance(chosen, Mapping) else chosen  # by hint of a dynamic size
        emit("autotune_taken", lambda: AutotuneTaken(choice=one.name, why=SETTLED))
        yield

    with ExitStack() as stack:
        stack.enter_context(observed(AlgorithmSelectorCache, "do_autotuning", timed))
        for name in ("finalize_as_triton_caller", "finalize_as_triton_callers"):
            stack.enter_context(observed(MultiTemplateBuffer, name, settled))
        stack.enter_context(padded_products(emit))
        stack.enter_context(gemm_backends(emit))
        yield


#: Inductor's classes of requests to time a template in another language than Triton and C++, and the language.
LANGUAGE_OF_REQUEST = {
    "CUDABenchmarkRequest": "cuda",
    "CUTLASSBenchmarkRequest": "cuda",
    "CuteDSLBenchmarkRequest": "cutedsl",
    "ROCmBenchmarkRequest": "hip",
}
#: Why a template was taken that is not the fastest by itself.
SETTLED = "with what is fused into it the fastest, as Inductor found"


class Assumed(dict[Any, float]):
    """Stand in for the times of choices where nothing is timed: the choice that is assumed to be fastest comes first.

    `shown` lists the choices in recorded order.
    """

    def __init__(self, likeliest_first: Iterable[Any], shown: Iterable[Any], why: str) -> None:
        super().__init__({choice: float(place + 1) for place, choice in enumerate(likeliest_first)})
        self.shown = tuple(shown)
        self.why = why


def _emit_source(emit: Emit, choice: Any, emitted: set[str]) -> None:
    """Emit the source of a choice, once in a recording; `emitted` has the keys of those before."""
    key = source_key(choice)
    if key and key not in emitted:
        emitted.add(key)
        emit("choice_source", lambda: choice_source(choice))


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
            config=getattr(choice, "description", "") or cpp_settings(vars(inside(choice)).get("template")),
            ms=known.get(choice),
            fastest=choice is fastest,
            why=why if choice is fastest else "",
            grid=choice_grid(choice),
            source=source_key(choice),
        )
        for choice in timings
    )
    return Autotune(operation=name, inputs=inputs, choices=choices)


def cpp_settings(template: Any) -> str:
    """Say how a C++ template cuts a matrix product into blocks, by the names of its source; "" for another template.

    Mr, Nr and Kr are the sizes of a register block. Mt_blocks … count the register blocks per thread block, and
    Mc_blocks … those per cache block.
    """
    registers = getattr(template, "register_blocking", None)
    if registers is None:
        return ""
    settings = dict(zip(("Mr", "Nr", "Kr"), registers, strict=True))
    if not template.is_dynamic_M:  # else the source works them out when it runs
        for names, blocks in (("t", template.thread_blocking), ("c", template.cache_blocking)):
            counts = blocks(template.num_threads)
            settings |= dict(zip((f"{size}{names}_blocks" for size in "MNK"), counts, strict=True))
    settings["num_threads"] = template.num_threads
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def request_of(choice: Any) -> Any:
    """Return what Inductor would time of a choice; None for a subgraph, which raises until it is timed."""
    return vars(inside(choice)).get("bmreq")


def inside(choice: Any) -> Any:
    """Unwrap a choice that packs its weights first, as those of C++ templates do."""
    return vars(choice).get("_wrapped", choice)


def source_key(choice: Any) -> str:
    """Return a key that is equal for equal sources of choices; "" for a call into a library."""
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
        language = LANGUAGE_OF_REQUEST.get(type(request).__name__, "cpp")
        return ChoiceSource(source=key, name=str(request.kernel_name), language=language, text=request.source_code)
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

    def should_pad(match: Any, one: Any, other: Any, op: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        asked.append((str(op), tuple(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in (one, other))))
        try:
            yield
        finally:
            asked.pop()

    def compared(key: str, as_it_is: float, padded: float) -> Generator[None, Any, None]:
        faster = yield
        if asked:
            emit("autotune", lambda: padding_choices(*asked[-1], as_it_is, padded, bool(faster)))

    with observed(pad_mm, "_should_pad", should_pad), observed(pad_mm, "is_padded_faster", compared):
        yield


def padding_choices(operation: str, inputs: Names, as_it_is: float, padded: float, faster: bool) -> Autotune:
    """A matrix product's two times in ms; padded counts as the faster one where Inductor takes it for that."""
    choices = tuple(
        Choice(choice=name, kind="pad_mm", config="", ms=float(ms), fastest=fastest, grid=(), source="")
        for name, ms, fastest in (("as it is", as_it_is, not faster), ("padded", padded, faster))
    )
    return Autotune(operation=operation, inputs=inputs, choices=choices)
