"""Decide without timing what Inductor decides by timing on the GPU, and record the assumptions.

Assumed is what happened more often on an NVIDIA H200 (torch 2.11, `benchmarks/calibrate.py`; its README has the tables).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.measured import Assume
from explorer.capture.observe.autotuning import Assumed
from explorer.capture.observe.patch import replaced
from explorer.capture.observe.versions import requests_with_workspace
from explorer.model.stage import Emit
from explorer.stages.inductor.assumption import Assumption
from explorer.stages.inductor.autotune import AutotuneTaken

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

#: Why a decision is assumed, and how often the assumption was right when it was measured.
UNTIMED = "nothing can be timed on a GPU you don't have"
LIBRARY = f"{UNTIMED}; on an H200 the library was faster than every template for 19 of 26 products in bfloat16"
EPILOGUE = f"{UNTIMED}; on an H200 a relu was fused into a template of 20 of 26 products; this template is the likeliest"
LIKELIEST = f"{UNTIMED}, and no library is among the choices; on an H200 such a template was the fastest for 19 of 30 products"
FIRST = f"{UNTIMED}, and no library is among the choices; it is the first that Inductor lists"
TOGETHER = "assumed the fastest with what is fused into it"
PADDED = f"{UNTIMED}; on an H200 120 of 124 such products in half precision were padded, and 47 of 62 with TF32"
NOT_PADDED = f"{UNTIMED}; on an H200 3 of 110 products in float32, small ones, or with only the rows not aligned were padded"


NO_WORKSPACE = "nothing can be run on a GPU you don't have, and only the compiled template says how many bytes it needs"


#: The rank of a template whose likely speed is not known.
UNKNOWN = (-1.0,)
#: Table times inner size times columns of a product that is not small.
SMALL = 2**29


class _WouldTime(BaseException):
    """Inductor is about to time two ways of doing a matrix product."""


@contextmanager
def untimed(emit: Emit, target: Target) -> Iterator[None]:
    """Time nothing inside the block: decide by what the tables of `benchmarks/README.md` show to be likelier.

    Each decision is recorded as an "assumption": its place, the assumed choice, and the reason.
    """

    assume = assuming(emit)
    with _templates(assume, target), _fusion(emit, assume, target), _padding(assume), _workspaces(assume):
        yield


def assuming(emit: Emit) -> Assume:
    """Make a function that records an assumption as an event."""

    def assume(where: str, assumed: str, why: str) -> None:
        emit("assumption", lambda: Assumption(where=where, assumed=assumed, why=why))

    return assume


@contextmanager
def _templates(assume: Assume, target: Target) -> Iterator[None]:
    """Rank choices of matrix products and convolutions: the vendor's library, then templates by likeliness."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def do_autotuning(
            self: Any, name: str, nodes: Any, layout: Any, gens: Any, key: Any, choices: Any, *args: Any, **kwargs: Any
        ) -> Any:
            libraries = [choice for choice in choices if self._is_extern(choice)]
            ranks = {choice: rank(choice, layout.size, layout.dtype.itemsize, target) for choice in choices}
            rest = sorted((choice for choice in choices if choice not in libraries), key=lambda c: ranks[c], reverse=True)
            first = (libraries or rest)[0]
            why = LIBRARY if libraries else LIKELIEST if ranks[first] > UNKNOWN else FIRST
            assume(f"{name}, {len(choices)} choices", f"{first.name} is the fastest", why)
            return Assumed([*libraries, *rest], [first, *choices], f"assumed the fastest: {why}")

        return do_autotuning

    with replaced(AlgorithmSelectorCache, "do_autotuning", make):
        with replaced(AlgorithmSelectorCache, "make_precompile_fn", lambda _: lambda *args, **kwargs: lambda: None):
            yield


@contextmanager
def _fusion(emit: Emit, assume: Assume, target: Target) -> Iterator[None]:
    """Decide timed fusions: an epilogue goes into the product's template, a prologue does not."""
    from torch._inductor import config, ir, scheduler

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def speedup_by_fusion(self: Any, one: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
            templates: list[Any] = [node.get_template_node() if node.is_template() else None for node in (one, other)]
            undecided = any(isinstance(template, ir.MultiTemplateBuffer) for template in templates)
            if not undecided and not config.benchmark_fusion:
                return original(self, one, other, *args, **kwargs)
            where = f"{one.get_name()} and {other.get_name()}"
            if not undecided:
                assume(where, "faster fused", UNTIMED)
                return scheduler.FusionResult.fuse(True)
            chosen = (
                None if self._has_layout_conflict_for_template(templates[0] or templates[1]) else fitting(templates[0], target)
            )
            if chosen is None:
                assume(where, "not faster fused", UNTIMED)
                return scheduler.FusionResult.fuse(False)
            templates[0].finalize_as_triton_caller(chosen)
            emit("autotune_taken", lambda: AutotuneTaken(choice=chosen.name, why=f"{TOGETHER}: {EPILOGUE}"))
            assume(where, f"faster fused, in {chosen.name}", EPILOGUE)
            return scheduler.FusionResult.fuse(True)

        return speedup_by_fusion

    with replaced(scheduler.Scheduler, "speedup_by_fusion", make):
        yield


def fitting(product: Any, target: Target) -> Any:
    """Return the template that is likely the fastest for a product with an epilogue; None if there are no templates.

    That is the largest tile, to 128 by 128, that still gives nearly every multiprocessor one, with the deepest block of
    the inner size that fits in shared memory. On an H200 it was the fastest of its templates for 19 of 30 products, and
    within 10 % of it for 25.
    """
    from torch._inductor.select_algorithm import TritonTemplateCaller

    if product is None:
        return None
    product.get_min_choice()  # as Inductor asks for the times first, so that the choices are recorded
    templates = [choice for choice in product.choices if isinstance(choice, TritonTemplateCaller)]
    size, bytes_each = product.get_size(), product.get_dtype().itemsize
    return max(templates, key=lambda choice: rank(choice, size, bytes_each, target), default=None)


def rank(choice: Any, size: Sequence[Any], bytes_each: int, target: Target) -> tuple[float, ...]:
    """Rank a choice among its operator's templates; UNKNOWN if it is not one of a matrix product."""
    sizes = [int(n) if getattr(n, "is_number", True) else 4096 for n in size]
    config = blocks_of(getattr(choice, "description", ""))
    if "KERNEL_H" in config:  # a convolution is a product of its images' places and its output channels
        sizes = [sizes[0] * math.prod(sizes[2:]), sizes[1]]
    return likeliness(config, sizes, bytes_each, target) if len(sizes) > 1 else UNKNOWN


def blocks_of(description: str) -> dict[str, int]:
    """The numbers in a choice's description, such as BLOCK_M=128, num_warps=4."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)\b", description or "")}


def likeliness(config: Mapping[str, int], sizes: list[int], bytes_each: int, target: Target) -> tuple[float, ...]:
    """A template's rank among those for one product, by its tile, the tiles there are, and its shared memory."""
    m, n, k = (config.get(f"BLOCK_{side}", 0) for side in "MNK")
    if not (m and n and k) or m * n > 128 * 128:
        return UNKNOWN
    if k * (m + n) * bytes_each * config.get("num_stages", 1) > target.shared_per_block:
        return UNKNOWN
    tiles = math.prod(sizes[:-2]) * math.ceil(sizes[-2] / m) * math.ceil(sizes[-1] / n)
    enough = tiles >= 0.9 * target.multiprocessors
    return (float(enough), m * n if enough else tiles, k, -config.get("num_warps", 0), -config.get("num_stages", 0))


@contextmanager
def _padding(assume: Assume) -> Iterator[None]:
    """Decide on padding for unaligned matrix products, which Inductor would time both ways."""
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
                where, padded = f"{op} of {tuple(one.shape)} and {tuple(other.shape)}", likely_padded(one, other)
                how, why = ("faster", PADDED) if padded else ("not faster", NOT_PADDED)
                assume(where, f"{how} with padding to aligned sizes", why)
                return padded

        return _should_pad

    with replaced(pad_mm, "is_mm_compute_bound", make_bound), replaced(pad_mm, "_should_pad", make_pad):
        yield


def likely_padded(one: Any, other: Any) -> bool:
    """Whether padding is likely faster: on tensor cores, not small, inner size or columns not aligned."""
    import torch
    from torch._inductor.fx_passes.pad_mm import get_alignment_size

    rows, inner, columns = hint(one.shape[-2]), hint(one.shape[-1]), hint(other.shape[-1])
    on_tensor_cores = one.dtype != torch.float32 or torch.backends.cuda.matmul.fp32_precision == "tf32"
    aligned = get_alignment_size(one)
    return on_tensor_cores and bool(inner % aligned or columns % aligned) and rows * inner * columns >= SMALL


@contextmanager
def _workspaces(assume: Assume) -> Iterator[None]:
    """Give templates in CUDA C++ and HIP no workspace: Inductor would compile and run one to learn its size."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def update_workspace_size(request: Any) -> None:
            assume(request.kernel_name, "a workspace of 0 bytes", NO_WORKSPACE)

        return update_workspace_size

    with ExitStack() as stack:
        for request in requests_with_workspace():
            stack.enter_context(replaced(request, "update_workspace_size", make))
        yield


def hint(size: Any) -> int:
    """A size as a number; a dynamic size's value in this call, read without adding a guard."""
    known = size.node.hint if hasattr(size, "node") else size
    return int(known) if known is not None else 0
