"""Count the operations of a node's loops: how many instructions each loop body has, and how often it runs.

The counts are what an H100 issues in fp32, by the tables below. `benchmarks/instructions.py` compares them with ptxas's code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AnySet
from typing import Any, NamedTuple

from explorer.capture.observe.distinct_operations import Distinct
from explorer.capture.observe.scheduler_nodes import hint, is_loops, iterations, reduction_type, written_names
from explorer.capture.observe.versions import draws_four_numbers

#: Names in a loop body that stand for no instruction. Loads and stores are not among them: they count as one each.
NO_OPERATIONS = (
    "store_reduction",
    "get_index",
    "constant",
    "index_expr",
    "output",
    "masked_subblock",
    "get_value",
    "set_indirect",
    "indirect_indexing",
    "check_bounds",
    "partial_accumulate",
    "placeholder",
    "device_assert_async",
)
#: What a loop of double precision does that does not run at the rate of double precision.
NOT_DOUBLE = ("load", "store")
#: How many instructions ptxas writes for a function in fp32 on an H100; a function that is not here counts as one.
#: Some have a path of their own for rare arguments (sin, cos, tan, fmod, lgamma, atan2): the usual path is counted.
MANY = {
    "sin": 25,
    "cos": 25,
    "tan": 35,
    "exp": 9,
    "exp2": 1,
    "expm1": 25,
    "log": 25,
    "log2": 27,
    "log10": 26,
    "log1p": 29,
    "tanh": 22,
    "erf": 28,
    "erfc": 47,
    "erfinv": 40,
    "sigmoid": 12,
    "sqrt": 15,
    "rsqrt": 1,
    "pow": 115,
    "truediv": 7,
    "div": 7,
    "reciprocal": 8,
    "maximum": 3,
    "minimum": 3,
    "lgamma": 105,
    "atan": 19,
    "atan2": 45,
    "asin": 17,
    "acos": 16,
    "randn": 120,
    "randint64": 80,
    "fmod": 30,
    "remainder": 22,
    "scan": 20,
}
#: The same in double precision: those that ptxas writes at the rate of double precision (DFMA, DADD, DMUL, DSETP).
MANY_DOUBLE = {
    "sin": 16,
    "cos": 16,
    "exp": 18,
    "expm1": 21,
    "log": 30,
    "log1p": 55,
    "tanh": 34,
    "erf": 42,
    "sigmoid": 30,
    "sqrt": 10,
    "rsqrt": 6,
    "truediv": 10,
    "div": 10,
    "reciprocal": 10,
}
#: Instructions of a scan for each element of rows that a block scans in several steps, and the most it scans in one
#: (`triton_heuristics._reduction_configs`). A step is short, so that exchanging sums between threads weighs more.
SCAN_IN_LOOPS, IN_ONE_STEP = 55, 2048
#: Instructions of a bitonic sort for each element and step; a row of n has log2(n) · (log2(n) + 1) / 2 steps
#: (`triton_helpers.sort_with_index`). ptxas writes 8. Half of them are integer and one is a shuffle: these issue slower.
SORT_STEP = 13
#: Instructions for one random number. Philox is ten rounds of two wide products, which take two slots each, two exclusive ors
#: and two additions. It gives four numbers: from torch 2.13 on Inductor uses them all (triton_helpers.rand4x), before that one.
RAND, RAND_OF_FOUR = 80, 28


#: Instructions that a reduction takes for each element of its loop, beside the one that every operation counts as. A softmax
#: takes two exponentials with their selects, Welford's algorithm updates three running figures.
REDUCTIONS = {
    "online_softmax_reduce": 31,
    "welford_reduce": 14,
    "welford_combine": 20,
    "max": 2,
    "min": 2,
    "argmax": 12,
    "argmin": 12,
}
#: The same where one block holds a whole row in its registers. Inductor then makes two passes instead, max and
#: sum(exp(x - max)), or sum and sum((x - mean)²): `TritonKernel.prepare_softmax_twopass_fallback`, `welford_reduce_fallback`.
IN_ONE_BLOCK = {
    "online_softmax_reduce": 13,
    "welford_reduce": 3,
    "welford_combine": 20,
    "max": 2,
    "min": 2,
    "argmax": 9,
    "argmin": 9,
}
#: What the reduction has computed for the last pass already, where the row stays in registers: exp(x - max), x - mean.
SHARED = {"online_softmax_reduce": ("exp", "sub"), "welford_reduce": ("sub",)}
#: After the loop the running figures of a row are combined: the instructions for each, and the most that a row has.
COMBINED, WIDEST = {"online_softmax_reduce": 15, "welford_reduce": 20}, 2048


def distinct_loops(node: Any) -> Iterator[Any]:
    """Yield the loop bodies of a node, each pass over the data once.

    A reduction with several results is a scheduler node for each of them. One pass computes them all, so only the first counts.
    """
    seen: set[Any] = set()
    for part in node.get_nodes():
        if not is_loops(part) or getattr(part, "_body", None) is None:
            continue
        reduction = reduction_type(part)
        reads = tuple(sorted(map(str, part.read_writes.reads)))
        key = (reduction, str(part.get_ranges()), reads, tuple(sorted(part._body.op_counts.items())))
        if reduction not in COMBINED or key not in seen:
            yield part
        seen.add(key)


def by_dtype(parts: Sequence[Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Count the instructions of some loop bodies, in loops and in one block a row.

    Those of double precision count as "float64" and all others as "float32".
    """
    reductions = {reduction_type(part) for part in parts} - {""}
    bodies = list(_bodies(parts, in_passes=bool(reductions)))
    in_loops, in_one_block = (_by_dtype(bodies, reductions, in_one_block=one_block) for one_block in (False, True))
    return in_loops, in_one_block


class Body(NamedTuple):
    """A loop body: its scheduler node, its operations by name, and those that run once a row with how often they run."""

    part: Any
    counts: Mapping[str, int]
    per_row: Sequence[tuple[str, int]]


def _bodies(parts: Sequence[Any], *, in_passes: bool) -> Iterator[Body]:
    """Yield the loop bodies with their distinct operations; what one computes another has too, unless a pass lies between."""
    distinct = Distinct()
    for part in parts:
        if in_passes:
            distinct = Distinct()
        counts = distinct.counts(part._body)
        yield Body(part, counts, tuple(_per_row(part)) if in_passes else ())


def _by_dtype(bodies: Sequence[Body], reductions: AnySet[str], *, in_one_block: bool) -> dict[str, int]:
    shared = [name for reduction in reductions for name in SHARED.get(reduction, ())] if in_one_block else []
    idle = _idle_lanes(bodies) if in_one_block else 0.0
    loops: dict[str, int] = {}
    loaded: set[str] = set()
    for body in bodies:
        part = body.part
        each = _each(body, () if reduction_type(part) else shared, in_one_block=in_one_block)
        count = _elementwise(body, each)
        count += -_loaded_before(part, loaded) if in_one_block else _combined(part)
        count += round(idle * count)
        dtype = _loop_dtype(part)
        loops[dtype] = loops.get(dtype, 0) + count
    return loops


def _idle_lanes(bodies: Sequence[Body]) -> float:
    """Return the idle lanes per element of a row: a block holds a power of two."""
    width = max((_width(body.part) for body in bodies), default=1)
    return _held(width) / width - 1


def _width(part: Any) -> int:
    """Return how many elements of a row a loop body reduces, scans or sorts; 1 for one that does none of them."""
    return max(1, math.prod(map(hint, part.get_ranges()[1])))


def _held(width: int) -> int:
    """Return the lanes of a block that holds this many elements: the next power of two."""
    return int(2 ** math.ceil(math.log2(width)))


def _loaded_before(part: Any, loaded: set[str]) -> int:
    """Count loads, with their conversions, of values that an earlier loop body left in registers.

    The reads of this loop body are added to `loaded`.
    """
    from torch._inductor.virtualized import V

    saved = 0
    for dep in (dep for dep in part.read_writes.reads if hasattr(dep, "var_names") and not dep.is_indirect()):
        if str(dep) in loaded and math.prod(map(hint, dep.size)) >= iterations(part):
            if _loop_dtype(part) == "float64":  # whose loads are not counted
                continue
            narrow = V.graph.get_dtype(dep.name).itemsize < 4 and "to_dtype" in part._body.op_counts
            saved += (2 if narrow else 1) * iterations(part)
        loaded.add(str(dep))
    return saved


def rows(node: Any) -> int | None:
    """How many results a reduction has; each takes at least one block. None for what reduces nothing."""
    sizes = getattr(node, "group", None) and node.group[1]
    if (
        not isinstance(sizes, (tuple, list))
        or len(sizes) != 2
        or not all(hasattr(s, "free_symbols") or isinstance(s, int) for s in sizes)
    ):
        return None
    return hint(sizes[0]) if hint(sizes[1]) > 1 else None


def _each(body: Body, left_out: Sequence[str], *, in_one_block: bool) -> dict[str, int]:
    """How many instructions each operation of a loop body takes, its reduction included and `left_out` not."""
    part = body.part
    double = _loop_dtype(part) == "float64"
    many = {**MANY, "rand": RAND_OF_FOUR if draws_four_numbers() else RAND, **(MANY_DOUBLE if double else {})}
    many["reduction"] = 1 + (IN_ONE_BLOCK if in_one_block else REDUCTIONS).get(reduction_type(part), 0)
    bits = round(math.log2(_held(_width(part))))
    many["sort"] = SORT_STEP * bits * (bits + 1) // 2
    if _width(part) > IN_ONE_STEP:
        many["scan"] = SCAN_IN_LOOPS
    left_out = (*left_out, *(NOT_DOUBLE if double else ()))
    return {name: many.get(name, 1) for name in body.counts if not name.startswith(NO_OPERATIONS) and name not in left_out}


def _elementwise(body: Body, each: dict[str, int]) -> int:
    """Count the instructions of a loop body over all its iterations; `each` is what an operation takes."""
    whole = sum(n * each.get(name, 0) for name, n in body.counts.items())
    runs = iterations(body.part)
    saved = sum(each.get(name, 0) * (runs - times) for name, times in body.per_row)
    return whole * runs - saved


def _per_row(part: Any) -> Iterator[tuple[str, int]]:
    """The operations of a loop body that do not depend on all loop variables, and how often they run.

    In a kernel that reduces, what depends on the row alone is a tensor of one element a row, such as the root in a norm.
    """
    body, runs = part._body, iterations(part)
    needed: dict[Any, set[Any]] = {}
    for node, arguments in Distinct().nodes(body, body.root_block):
        needed[node] = set().union(*(needed[one] for one in arguments))
        if node.target == "get_index":
            needed[node] = set(body.indexing_exprs[node.args[0]].free_symbols) & set(body.var_ranges)
        elif node.op == "call_module":
            needed[node] = set(body.var_ranges)
        elif node.op == "call_method" and (times := math.prod(hint(body.var_ranges[v]) for v in needed[node])) < runs:
            yield str(node.target), times


def _combined(part: Any) -> int:
    """Count the instructions after the loop of a reduction that keeps several running figures."""
    rows, width = (math.prod(map(hint, sizes)) for sizes in part.get_ranges())
    each: int = COMBINED.get(reduction_type(part), 0)
    return each * rows * min(width, WIDEST)


def _loop_dtype(part: Any) -> str:
    """ "float64" for a loop body of double precision, "float32" for all others."""
    from torch._inductor.virtualized import V

    names = [*written_names(part), *(dep.name for dep in part.read_writes.reads if hasattr(dep, "var_names"))]
    dtypes = {str(V.graph.get_dtype(name)) for name in names}
    return "float64" if dtypes & {"torch.float64", "torch.complex128"} else "float32"
