"""Count the bytes that a scheduler node moves: of each buffer what must move once.

That is what the node's loops address of the buffer, at most the whole, however many of the fused loops read it. What stays in
registers between the loops counts nothing. Dynamic sizes count as they are in the traced call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from explorer.capture.observe.operators import is_view_call
from explorer.capture.observe.scheduler_nodes import (
    hint,
    inputs,
    is_loops,
    is_result,
    iterations,
    reduction_type,
    written_names,
)
from explorer.model.shared import Lookup, Names

#: The least that DRAM and L2 hand out at once, in bytes: https://docs.nvidia.com/nsight-compute/ProfilingGuide (sector).
SECTOR = 32
#: The mode of a store that adds to what is in memory, which is then read and written.
ATOMIC = "atomic_add"


class Moved(NamedTuple):
    """The bytes that a node reads and writes, and the sizes among them that only the run knows."""

    read: int
    written: int
    unsized: Names


def moved(node: Any) -> Moved:
    """Count the bytes that a scheduler node reads and writes, after fusion."""
    parts = list(node.get_nodes())
    made = {name for part in parts for name in written_names(part)}
    read: dict[str, dict[Any, int]] = {}
    written: dict[str, dict[Any, int]] = {}
    for part in parts:
        for name, key, size in _reads(part):
            if name not in made or key == ATOMIC:
                read.setdefault(_real(part, name), {})[key] = size
        for name, key, size in _writes(part, parts):
            written.setdefault(_real(part, name), {})[key] = size
    unsized = sorted({symbol for part in parts for symbol in _unbacked(part)})
    return Moved(_total(read), _total(written), tuple(unsized))


def _total(accesses: dict[str, dict[Any, int]]) -> int:
    """Add up the bytes accessed in each buffer, at most its whole size."""
    return sum(min(sum(sizes.values()), _whole(name)) for name, sizes in accesses.items())


def _real(part: Any, name: str) -> str:
    """The buffer whose memory a mutation writes."""
    return str(part.scheduler.mutation_real_name.get(name, name))


def _reads(part: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield (buffer, access, bytes) for each read of a scheduler node before fusion."""
    if is_loops(part):
        for dep in part.read_writes.reads:
            if hasattr(dep, "var_names"):
                yield dep.name, _place(dep), _loop_bytes(dep, part)
        yield from ((dep.name, ATOMIC, _loop_bytes(dep, part)) for dep in part.read_writes.writes if _mode(dep) == ATOMIC)
    elif not is_result(part) and not is_view_call(part):
        for number, tensor in enumerate(inputs(part.node)):
            yield tensor.get_name(), number, _tensor_bytes(tensor)


def _writes(part: Any, group: Sequence[Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield (buffer, access, bytes) for each write that a node outside the group, or the caller, uses."""
    if is_loops(part):
        kept = {buffer.get_name() for buffer in part.get_outputs() if _is_kept(buffer, group)}
        yield from ((dep.name, _place(dep), _loop_bytes(dep, part)) for dep in part.read_writes.writes if dep.name in kept)
    elif not is_result(part) and not is_view_call(part):
        for buffer in part.get_outputs():
            for tensor in _results(part, buffer):
                yield tensor.get_name(), tensor.get_name(), _whole(tensor.get_name())


def _is_kept(buffer: Any, group: Sequence[Any]) -> bool:
    return any(user.node not in group for user in buffer.users if not user.is_weak)


def _mode(dep: Any) -> str:
    return str(getattr(dep, "mode", None) or "")


def _results(part: Any, buffer: Any) -> Iterator[Any]:
    """The tensors that a library call fills: its own, its several results, or the memory of its arguments."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    inner = buffer.node
    if isinstance(inner.layout, ir.MultiOutputLayout):
        users = (user.node for user in buffer.users)
        yield from (made.node for user in users if hasattr(user, "get_outputs") for made in user.get_outputs() if is_result(user))
    elif isinstance(inner.layout, ir.NoneLayout):
        yield from (V.graph.get_buffer(name) for name in inner.get_mutation_names())
    else:
        yield inner


def _loop_bytes(dep: Any, part: Any) -> int:
    """Count the bytes that one access of a loop touches, in whole sectors where its elements do not lie side by side."""
    from torch._inductor.virtualized import V

    item = int(V.graph.get_dtype(dep.name).itemsize)
    ranges, steps = _ranges_and_steps(dep)
    if dep.is_indirect():
        run = max((ranges[v] for v, step in steps.items() if step == 1), default=1)
        return min(iterations(part) // max(1, run), _lookups(part)) * -(-run * item // SECTOR) * SECTOR
    count: int = math.prod(n for v, n in ranges.items() if v in dep.index.free_symbols)
    return count * item * _apart(steps, item)


def _place(dep: Any) -> str:
    """Which sectors an access touches: the same for two that take turns, as of the even and the odd elements of a row."""
    from torch._inductor.virtualized import V

    apart = 1 if dep.is_indirect() else _apart(_ranges_and_steps(dep)[1], int(V.graph.get_dtype(dep.name).itemsize))
    offset, rest = dep.index.as_coeff_Add()
    return f"{rest} + {offset // apart}"


def _apart(steps: dict[Any, int], item: int) -> int:
    """How many elements the nearest two that an access touches are apart, at most those of a sector."""
    return min(min(steps.values(), default=1), max(1, SECTOR // item))


def _ranges_and_steps(dep: Any) -> tuple[dict[Any, int], dict[Any, int]]:
    """The range of each loop variable of an access; and for those in its index how many elements one step jumps."""
    ranges = dict(zip(dep.var_names, map(hint, dep.size), strict=True))
    steps = {v: abs(int(step)) for v in ranges if (step := dep.index.coeff(v)).is_number and step.is_integer and step != 0}
    return ranges, steps


def shortest_run(node: Any) -> int | None:
    """Return the length in bytes of the shorter contiguous rows in a loop that transposes; None for any other loop.

    The innermost loop walks along the rows of one side; on the other it jumps, and another loop's elements lie side by side.
    """
    from torch._inductor.virtualized import V

    runs = []
    for part in node.get_nodes():
        if not is_loops(part) or getattr(part, "_body", None) is None or math.prod(map(hint, part.get_ranges()[1])) > 1:
            continue
        for dep in (*part.read_writes.reads, *part.read_writes.writes):
            if hasattr(dep, "var_names") and dep.var_names and not dep.is_indirect():
                ranges, steps = _ranges_and_steps(dep)
                beside = [ranges[v] for v, step in steps.items() if step == 1]
                if beside and steps.get(dep.var_names[-1], 1) != 1:
                    runs.append(min(beside[0], ranges[dep.var_names[-1]]) * int(V.graph.get_dtype(dep.name).itemsize))
    return min(runs, default=None)


def lookups(node: Any) -> tuple[Lookup, ...]:
    """List a node's accesses at places that its loops read, and all its atomic additions."""
    return tuple(lookup for part in node.get_nodes() if is_loops(part) for lookup in _part_lookups(part))


def _part_lookups(part: Any) -> Iterator[Lookup]:
    from torch._inductor.virtualized import V

    for dep in (*part.read_writes.reads, *part.read_writes.writes):
        adds = _mode(dep) == ATOMIC
        if not hasattr(dep, "var_names") or not (adds or (dep.is_indirect() and _reads_integers(part))):
            continue
        item = int(V.graph.get_dtype(dep.name).itemsize)
        ranges, steps = _ranges_and_steps(dep)
        run = max((ranges[v] for v, step in steps.items() if step == 1), default=1)
        count = iterations(part) // max(1, run)
        yield Lookup(count=count if adds else min(count, _lookups(part)), run=run * item, buffer=_whole(dep.name), adds=adds)


def _reads_integers(part: Any) -> bool:
    """Tell whether a loop body reads integers, which places are looked up by; else it computes them from loop variables."""
    from torch._inductor.virtualized import V

    reads = (dep.name for dep in part.read_writes.reads if hasattr(dep, "var_names") and not dep.is_indirect())
    return any(not V.graph.get_dtype(name).is_floating_point for name in reads)


def reread(node: Any) -> int:
    """Count the bytes that a loop over a row reads again in a later pass, which needs what an earlier pass reduced."""
    ready: dict[str, int] = {}  # the first pass that can use each buffer of the node
    passes: dict[str, set[int]] = {}
    again = 0
    for part in node.get_nodes():
        if not is_loops(part) or getattr(part, "_body", None) is None:
            continue
        deps = [dep for dep in part.read_writes.reads if hasattr(dep, "var_names")]
        number = max((ready.get(dep.name, 0) for dep in deps), default=0)
        ready |= dict.fromkeys(written_names(part), number + bool(reduction_type(part)))
        for dep in deps:
            if dep.is_indirect() or math.prod(map(hint, dep.size)) < iterations(part):
                continue
            before = passes.setdefault(str(dep), set())
            again += _loop_bytes(dep, part) if before and number not in before else 0
            before.add(number)
    return again


def is_strided(node: Any) -> bool:
    """Tell whether a reduction's elements lie apart, so that neighbouring threads have other rows."""
    data = [getattr(getattr(part, "node", None), "data", None) for part in node.get_nodes()]
    return any(str(getattr(each, "reduction_hint", "")).startswith("ReductionHint.OUTER") for each in data)


def _lookups(part: Any) -> int:
    """The most places that an indirect access can address: one for each combination of the integers that the body reads."""
    from torch._inductor.virtualized import V

    deps = [dep for dep in part.read_writes.reads if hasattr(dep, "var_names") and not dep.is_indirect()]
    counts = [
        math.prod(hint(n) for v, n in zip(dep.var_names, dep.size, strict=True) if v in dep.index.free_symbols)
        for dep in deps
        if not V.graph.get_dtype(dep.name).is_floating_point
    ]
    return math.prod(counts) if counts else iterations(part)


def _tensor_bytes(tensor: Any) -> int:
    return math.prod(map(hint, tensor.get_size())) * int(tensor.get_dtype().itemsize)


def _whole(name: str) -> int:
    """Return the bytes of a buffer, an input or a constant of the graph; 0 for a value that is no tensor."""
    from torch._inductor.virtualized import V

    found = V.graph.name_to_buffer.get(name) or V.graph.graph_inputs.get(name) or V.graph.constants.get(name)
    if hasattr(found, "numel") and not hasattr(found, "get_size"):
        return int(found.numel() * found.itemsize)
    try:
        return _tensor_bytes(found)
    except (AttributeError, NotImplementedError):
        return 0


def _unbacked(part: Any) -> set[str]:
    """The symbols without a value in the sizes of what a node writes and reads."""
    from torch._inductor.virtualized import V

    names = [*written_names(part), *(dep.name for dep in part.read_writes.reads)]
    buffers = [V.graph.name_to_buffer.get(name) or V.graph.graph_inputs.get(name) for name in names]
    if not is_loops(part) and not is_result(part):
        buffers += [tensor for buffer in part.get_outputs() for tensor in _results(part, buffer)]
    sizes = [size for buffer in buffers for size in _sizes(buffer)]
    symbols = {symbol for size in sizes for symbol in getattr(size, "free_symbols", ())}
    return {str(symbol) for symbol in symbols if str(symbol).startswith("u") and str(symbol)[1:].isdigit()}


def _sizes(buffer: Any) -> Sequence[Any]:
    try:
        return tuple(buffer.get_size())
    except (AttributeError, NotImplementedError):
        return ()
