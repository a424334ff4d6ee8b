"""What a node of the scheduler moves and computes: bytes of each buffer, and operations by torch's own flop counter.

Bytes are those that must move once: of each buffer what the node's loops address, at most the whole, however many of the
fused loops read it; nothing for what stays in registers between them. Operations are those of matrix products, convolutions
and attention, from `torch.utils.flop_counter`, which also has what the user registered there, and of elementwise loops.
Dynamic sizes count as they are in the traced call; sizes that only the run knows are named in `unsized`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from explorer.model.values import Plain
from explorer.observe.versions import draws_four_numbers

#: What DRAM and L2 hand out at the least, in bytes: https://docs.nvidia.com/nsight-compute/ProfilingGuide (sector).
SECTOR = 32
#: Said in place of sizes where what a node moves could not be read.
UNREAD = "its accesses could not be read"
#: How a loop body adds to what is in memory, which is then read and written.
ATOMIC = "atomic_add"
#: What a loop body names beside what it issues an instruction for; loads and stores count as one.
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
#: What of a loop of double precision does not run at the rate of that.
NOT_DOUBLE = ("load", "store")
#: Functions that are many instructions each, as many as ptxas writes for them in fp32 on an H100; all others count as one.
#: benchmarks/instructions.py compares. Of those with a path for rare arguments (sin, cos, tan, fmod, lgamma, atan2) the other.
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
}
#: Philox is ten rounds of two wide products, which take two slots each, two exclusive ors and two additions. From torch 2.13 on
#: Inductor takes four random numbers of it (triton_helpers.rand4x), before one.
RAND, RAND_OF_FOUR = 80, 28


#: What a reduction adds an element to its one operation, in a loop: two exponentials with their selects; three running figures.
REDUCTIONS = {
    "online_softmax_reduce": 31,
    "welford_reduce": 14,
    "welford_combine": 20,
    "max": 2,
    "min": 2,
    "argmax": 12,
    "argmin": 12,
}
#: The same where a row is in the registers of one block: Inductor then takes two passes instead, max and sum(exp(x - max)), or
#: sum and sum((x - mean)²): `TritonKernel.prepare_softmax_twopass_fallback` and `welford_reduce_fallback`.
IN_ONE_BLOCK = {
    "online_softmax_reduce": 13,
    "welford_reduce": 3,
    "welford_combine": 20,
    "max": 2,
    "min": 2,
    "argmax": 9,
    "argmin": 9,
}
#: What of the last pass the reduction has computed, where the row stays in registers: exp(x - max), x - mean.
SHARED = {"online_softmax_reduce": ("exp", "sub"), "welford_reduce": ("sub",)}
#: After the loop the running figures of a block are combined, so many instructions each; a row has at most so many of them.
COMBINED, WIDEST = {"online_softmax_reduce": 15, "welford_reduce": 20}, 2048


# Bytes -----------------------------------------------------------------------------------------------------------------


def moved(node: Any) -> dict[str, Plain]:
    """`read` and `written`, in bytes, of a node after fusion; `unsized` names the sizes that only the run knows."""
    parts = list(node.get_nodes())
    made = {name for part in parts for name in _written_names(part)}
    read: dict[str, dict[Any, int]] = {}
    written: dict[str, dict[Any, int]] = {}
    for part in parts:
        for name, key, size in _reads(part):
            if name not in made or key == ATOMIC:
                read.setdefault(_real(part, name), {})[key] = size
        for name, key, size in _writes(part, parts):
            written.setdefault(_real(part, name), {})[key] = size
    unsized = sorted({symbol for part in parts for symbol in _unbacked(part)})
    return {"read": _total(read), "written": _total(written), "unsized": unsized}


def _total(accesses: dict[str, dict[Any, int]]) -> int:
    """Each buffer as far as it is accessed, at most the whole."""
    return sum(min(sum(sizes.values()), _whole(name)) for name, sizes in accesses.items())


def _real(part: Any, name: str) -> str:
    """The buffer whose memory a mutation writes."""
    return str(part.scheduler.mutation_real_name.get(name, name))


def _written_names(part: Any) -> Iterator[str]:
    return (buffer.get_name() for buffer in part.get_outputs())


def _reads(part: Any) -> Iterator[tuple[str, Any, int]]:
    """(buffer, which access of it, bytes) of what one node before fusion reads."""
    if _is_loops(part):
        for dep in part.read_writes.reads:
            if hasattr(dep, "var_names"):
                yield dep.name, str(dep.index), _loop_bytes(dep, part)
        yield from ((dep.name, ATOMIC, _loop_bytes(dep, part)) for dep in part.read_writes.writes if _mode(dep) == ATOMIC)
    elif not _is_result(part):
        for number, tensor in enumerate(_inputs(part.node)):
            yield tensor.get_name(), number, _tensor_bytes(tensor)


def _writes(part: Any, group: Sequence[Any]) -> Iterator[tuple[str, Any, int]]:
    """The same of what it writes that somebody outside the group uses, or that is memory of the caller."""
    if _is_loops(part):
        kept = {buffer.get_name() for buffer in part.get_outputs() if _is_kept(buffer, group)}
        yield from ((dep.name, str(dep.index), _loop_bytes(dep, part)) for dep in part.read_writes.writes if dep.name in kept)
    elif not _is_result(part):
        for buffer in part.get_outputs():
            for tensor in _results(part, buffer):
                yield tensor.get_name(), tensor.get_name(), _whole(tensor.get_name())


def _is_loops(part: Any) -> bool:
    """True for what Inductor generates code for: loops, and templates, whose accesses it knows."""
    return bool(type(part).__name__ == "SchedulerNode")


def _is_result(part: Any) -> bool:
    """True for a result of a call that has several, which moves nothing itself, and for what runs nothing."""
    from torch._inductor import ir

    return type(part).__name__ == "NopKernelSchedulerNode" or isinstance(part.node, ir.MultiOutput)


def _is_kept(buffer: Any, group: Sequence[Any]) -> bool:
    return any(user.node not in group for user in buffer.users if not user.is_weak)


def _mode(dep: Any) -> str:
    return str(getattr(dep, "mode", None) or "")


def _inputs(inner: Any) -> Iterator[Any]:
    """The tensors that a library call takes, lists of them one by one; of a constant only its place is taken."""
    waiting = list(getattr(inner, "inputs", ()))
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, (list, tuple)):
            waiting[:0] = one
        elif hasattr(one, "get_size") and hasattr(one, "get_name"):
            yield one


def _results(part: Any, buffer: Any) -> Iterator[Any]:
    """The tensors that a library call fills: its own, its several results, or the memory of its arguments."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    inner = buffer.node
    if isinstance(inner.layout, ir.MultiOutputLayout):
        users = (user.node for user in buffer.users)
        yield from (
            made.node for user in users if hasattr(user, "get_outputs") for made in user.get_outputs() if _is_result(user)
        )
    elif isinstance(inner.layout, ir.NoneLayout):
        yield from (V.graph.get_buffer(name) for name in inner.get_mutation_names())
    else:
        yield inner


def _loop_bytes(dep: Any, part: Any) -> int:
    """The bytes that one access of a loop touches, in whole sectors where its elements do not lie side by side."""
    from torch._inductor.virtualized import V

    item = int(V.graph.get_dtype(dep.name).itemsize)
    ranges, steps = _ranges_and_steps(dep)
    if dep.is_indirect():
        run = max((ranges[v] for v, step in steps.items() if step == 1), default=1)
        return min(_iterations(part) // max(1, run), _lookups(part)) * -(-run * item // SECTOR) * SECTOR
    count: int = math.prod(n for v, n in ranges.items() if v in dep.index.free_symbols)
    return count * item * min(min(steps.values(), default=1), max(1, SECTOR // item))


def _ranges_and_steps(dep: Any) -> tuple[dict[Any, int], dict[Any, int]]:
    """The range of each loop variable of an access, and how many elements a step of it is, for those in its index."""
    ranges = dict(zip(dep.var_names, map(_hint, dep.size), strict=True))
    steps = {v: abs(int(step)) for v in ranges if (step := dep.index.coeff(v)).is_number and step.is_integer and step != 0}
    return ranges, steps


def _run(node: Any) -> int | None:
    """The bytes side by side in the shorter rows that a transposing loop reads or writes; None where nothing is transposed.

    The innermost loop walks along the rows of one side; on the other it jumps, and another loop's elements lie side by side.
    """
    from torch._inductor.virtualized import V

    runs = []
    for part in node.get_nodes():
        if not _is_loops(part) or getattr(part, "_body", None) is None or math.prod(map(_hint, part.get_ranges()[1])) > 1:
            continue
        for dep in (*part.read_writes.reads, *part.read_writes.writes):
            if hasattr(dep, "var_names") and dep.var_names and not dep.is_indirect():
                ranges, steps = _ranges_and_steps(dep)
                beside = [ranges[v] for v, step in steps.items() if step == 1]
                if beside and steps.get(dep.var_names[-1], 1) != 1:
                    runs.append(min(beside[0], ranges[dep.var_names[-1]]) * int(V.graph.get_dtype(dep.name).itemsize))
    return min(runs, default=None)


def _iterations(part: Any) -> int:
    """How often a loop body runs."""
    return math.prod(_hint(size) for sizes in part.get_ranges() for size in sizes)


def _lookups(part: Any) -> int:
    """How many places a loop body looks up at most: one for each combination of the integers that it reads."""
    from torch._inductor.virtualized import V

    deps = [dep for dep in part.read_writes.reads if hasattr(dep, "var_names") and not dep.is_indirect()]
    counts = [
        math.prod(_hint(n) for v, n in zip(dep.var_names, dep.size, strict=True) if v in dep.index.free_symbols)
        for dep in deps
        if not V.graph.get_dtype(dep.name).is_floating_point
    ]
    return math.prod(counts) if counts else _iterations(part)


def _tensor_bytes(tensor: Any) -> int:
    return math.prod(map(_hint, tensor.get_size())) * int(tensor.get_dtype().itemsize)


def _whole(name: str) -> int:
    """The bytes of a buffer or of an input of the graph; 0 for what is no tensor."""
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

    names = [*_written_names(part), *(dep.name for dep in part.read_writes.reads)]
    buffers = [V.graph.name_to_buffer.get(name) or V.graph.graph_inputs.get(name) for name in names]
    if not _is_loops(part) and not _is_result(part):
        buffers += [tensor for buffer in part.get_outputs() for tensor in _results(part, buffer)]
    sizes = [size for buffer in buffers for size in _sizes(buffer)]
    symbols = {symbol for size in sizes for symbol in getattr(size, "free_symbols", ())}
    return {str(symbol) for symbol in symbols if str(symbol).startswith("u") and str(symbol)[1:].isdigit()}


def _sizes(buffer: Any) -> Sequence[Any]:
    try:
        return tuple(buffer.get_size())
    except (AttributeError, NotImplementedError):
        return ()


def _hint(size: Any) -> int:
    """A size as it is in the traced call, 0 for one that only the run knows."""
    from torch._inductor.virtualized import V

    if isinstance(size, int):
        return size
    sizevars = V.graph.sizevars
    ask = getattr(sizevars, "optimization_hint", None) or sizevars.size_hint  # the latter before torch 2.12
    return int(ask(size, fallback=0))


# Operations ------------------------------------------------------------------------------------------------------------


def computed(node: Any) -> dict[str, Plain]:
    """`calls`, one row an operator that is computed as a whole, and the operations of all loops by dtype.

    `elementwise` are those where a reduction loops over a row, `one_block` those where a block holds the row.
    """
    calls = [row for part in node.get_nodes() if (row := _call(part)) is not None]
    parts = list(_distinct_loops(node))
    return {
        "calls": calls,
        "elementwise": _by_dtype(parts, in_one_block=False),
        "one_block": _by_dtype(parts, in_one_block=True),
        "rows": _rows(node),
        "run": _run(node),
    }


def _distinct_loops(node: Any) -> Iterator[Any]:
    """The loop bodies of a node; of a reduction with several results, which is a node each, the first: all come of one pass."""
    seen: set[Any] = set()
    for part in node.get_nodes():
        if not _is_loops(part) or getattr(part, "_body", None) is None:
            continue
        reduction = _reduction(part)
        reads = tuple(sorted(map(str, part.read_writes.reads)))
        key = (reduction, str(part.get_ranges()), reads, tuple(sorted(part._body.op_counts.items())))
        if reduction not in COMBINED or key not in seen:
            yield part
        seen.add(key)


def _reduction(part: Any) -> str:
    """The type of reduction that a loop body is, "" where it is none."""
    inner = part.node
    return str((inner.get_reduction_type() if hasattr(inner, "get_reduction_type") else "") or "")


def _by_dtype(parts: Sequence[Any], *, in_one_block: bool) -> dict[str, int]:
    """The operations of some loop bodies: of double precision, and of all others."""
    reductions = {_reduction(part) for part in parts} - {""}
    shared = [name for reduction in reductions for name in SHARED.get(reduction, ())] if in_one_block else []
    loops: dict[str, int] = {}
    loaded: set[str] = set()
    for part in parts:
        each = _each(part, () if _reduction(part) else shared, in_one_block=in_one_block)
        count = _elementwise(part, each, by_row=bool(reductions))
        count += -_loaded_before(part, loaded) if in_one_block else _combined(part)
        dtype = _loop_dtype(part)
        loops[dtype] = loops.get(dtype, 0) + count
    return loops


def _loaded_before(part: Any, loaded: set[str]) -> int:
    """The operations of loads, and of their conversions, that an earlier loop body left in registers; `loaded` grows."""
    from torch._inductor.virtualized import V

    saved = 0
    for dep in (dep for dep in part.read_writes.reads if hasattr(dep, "var_names") and not dep.is_indirect()):
        if str(dep) in loaded and math.prod(map(_hint, dep.size)) >= _iterations(part):
            if _loop_dtype(part) == "float64":  # whose loads are not counted
                continue
            narrow = V.graph.get_dtype(dep.name).itemsize < 4 and "to_dtype" in part._body.op_counts
            saved += (2 if narrow else 1) * _iterations(part)
        loaded.add(str(dep))
    return saved


def _rows(node: Any) -> int | None:
    """How many results a reduction has, of which one block at least computes each; None for what reduces nothing."""
    sizes = getattr(node, "group", None) and node.group[1]
    if (
        not isinstance(sizes, (tuple, list))
        or len(sizes) != 2
        or not all(hasattr(s, "free_symbols") or isinstance(s, int) for s in sizes)
    ):
        return None
    return _hint(sizes[0]) if _hint(sizes[1]) > 1 else None


def _each(part: Any, left_out: Sequence[str], *, in_one_block: bool) -> dict[str, int]:
    """How many instructions each operation of a loop body is, its reduction among them; what is left out is not there."""

    many = {**MANY, "rand": RAND_OF_FOUR if draws_four_numbers() else RAND}
    many["reduction"] = 1 + (IN_ONE_BLOCK if in_one_block else REDUCTIONS).get(_reduction(part), 0)
    left_out = (*left_out, *(NOT_DOUBLE if _loop_dtype(part) == "float64" else ()))
    names = part._body.op_counts
    return {name: many.get(name, 1) for name in names if not name.startswith(NO_OPERATIONS) and name not in left_out}


def _elementwise(part: Any, each: dict[str, int], *, by_row: bool) -> int:
    """The operations of a loop body in all its iterations, by how many instructions each is."""
    whole: int = sum(n * each.get(name, 0) for name, n in part._body.op_counts.items())
    saved: int = sum(each.get(name, 0) * (_iterations(part) - times) for name, times in _per_row(part)) if by_row else 0
    return whole * _iterations(part) - saved


def _per_row(part: Any) -> Iterator[tuple[str, int]]:
    """The operations of a loop body that do not depend on all loop variables, and how often they run.

    In a kernel that reduces, what depends on the row alone is a tensor of one element a row, such as the root in a norm.
    """
    body = part._body
    needed: dict[Any, set[Any]] = {}
    for node in body.root_block.graph.nodes:
        needed[node] = set().union(*(needed[one] for one in node.all_input_nodes))
        if node.target == "get_index":
            needed[node] = set(body.indexing_exprs[node.args[0]].free_symbols) & set(body.var_ranges)
        elif node.op == "call_module":
            needed[node] = set(body.var_ranges)
        elif node.op == "call_method" and (times := math.prod(_hint(body.var_ranges[v]) for v in needed[node])) < _iterations(
            part
        ):
            yield str(node.target), times


def _combined(part: Any) -> int:
    """The operations after the loop of a reduction that keeps several running figures."""
    rows, width = (math.prod(map(_hint, sizes)) for sizes in part.get_ranges())
    each: int = COMBINED.get(_reduction(part), 0)
    return each * rows * min(width, WIDEST)


def _loop_dtype(part: Any) -> str:
    """ "float64" for a loop body of double precision, "float32" for all others."""
    from torch._inductor.virtualized import V

    names = [*_written_names(part), *(dep.name for dep in part.read_writes.reads if hasattr(dep, "var_names"))]
    dtypes = {str(V.graph.get_dtype(name)) for name in names}
    return "float64" if dtypes & {"torch.float64", "torch.complex128"} else "float32"


def _call(part: Any) -> dict[str, Plain] | None:
    """The operator that a library call or a template computes: its name, operations, dtype and sizes; None for loops."""
    inner = part.node
    if inner is None or _is_result(part) or getattr(part, "_body", None) is not None:
        return None
    node = _origin(inner)
    row: dict[str, Plain] = {
        "template": _is_loops(part),
        "operator": "",
        "operations": None,
        "buffer": next(_written_names(part), ""),
    }
    if node is None:
        return row
    strides = [[_hint(step) for step in tensor.get_stride()] for tensor in _inputs(inner) if hasattr(tensor, "get_stride")]
    return {**row, **operator_facts(node), "strides": strides[:2], "results": _result_layouts(node)}


def _result_layouts(node: Any) -> list[dict[str, Plain]]:
    """Size, stride and dtype of each tensor that an operator returns, and whether it is a view; {} for what is no tensor."""
    value = node.meta.get("val")
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    aliases = [stated.alias_info is not None for stated in returns]
    aliases += [False] * (len(values) - len(aliases))
    return [_layout(one, alias) for one, alias in zip(values, aliases, strict=False)]


def _layout(tensor: Any, alias: bool) -> dict[str, Plain]:
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "stride"):
        return {}
    size, stride = ([str(n) for n in numbers] for numbers in (tensor.shape, tensor.stride()))
    return {"size": size, "stride": stride, "dtype": str(tensor.dtype), "alias": alias}


def _origin(inner: Any) -> Any:
    """The FX node that a call computes: the one Inductor states, else of its origins the one with the operator called."""
    import operator

    stated = inner.get_origin_node()
    if stated is not None:
        return stated.args[0] if stated.target is operator.getitem else stated
    called = str(getattr(inner, "op_overload", None))
    origins = list(inner.get_origins())
    same = [node for node in origins if str(node.target) == called] or [node for node in origins if _is_counted(node)]
    return same[-1] if same else None


def _is_counted(node: Any) -> bool:
    """Whether a formula says how many operations an FX node is."""
    from torch.utils.flop_counter import flop_registry

    packet = getattr(node.target, "overloadpacket", node.target)
    return packet in flop_registry or str(packet) in OWN


def operator_facts(node: Any) -> dict[str, Plain]:
    """Of an FX node its operator, how many operations it is, in which dtype, and the sizes of the product behind it."""
    arguments = _bound(node)
    first = next((a for a in arguments.values() if getattr(a, "ndim", 0) >= 2), None)
    dtype = str(getattr(first, "dtype", ""))[6:]
    operator = str(getattr(node.target, "overloadpacket", node.target))
    row: dict[str, Plain] = {"node": node.name, "operator": operator, "dtype": dtype, "tf32": tf32(operator)}
    count = _operations(node, operator, arguments)
    packed = 2 if dtype == "float4_e2m1fn_x2" else 1  # two numbers an element along the inner size
    complex_ = 4 if dtype.startswith("complex") else 1  # four products of real numbers
    return {**row, "operations": None if count is None else count * packed * complex_, **_product(operator, arguments, count)}


def tf32(operator: str) -> bool:
    """Whether float32 products of an operator may run in TF32 as torch is set now: cuDNN's convolutions have their own switch."""
    import torch

    setting = torch.backends.cudnn if "conv" in operator else torch.backends.cuda.matmul
    try:
        return bool(setting.allow_tf32)
    except RuntimeError:  # set by fp32_precision, which the older switch then refuses to read
        inner = torch.backends.cudnn.conv if "conv" in operator else setting
        return str(inner.fp32_precision) == "tf32"


def _bound(node: Any) -> dict[str, Any]:
    """The arguments of an FX node by the names of the operator's schema, tensors as they are in the traced call's shapes."""
    from torch.utils._pytree import tree_map

    def value(one: Any) -> Any:
        return one.meta.get("val") if hasattr(one, "meta") else one

    schema = getattr(node.target, "_schema", None)
    given = [tree_map(value, one) for one in node.args]
    if schema is None:
        return {**{str(n): one for n, one in enumerate(given)}, **tree_map(value, dict(node.kwargs))}
    bound = {a.name: a.default_value if a.has_default_value() else None for a in schema.arguments}
    return {**bound, **dict(zip(bound, given, strict=False)), **tree_map(value, dict(node.kwargs))}


def _operations(node: Any, operator: str, arguments: dict[str, Any]) -> int | None:
    """Multiplications and additions of an operator, None where nothing says how many they are."""
    from torch.utils._pytree import tree_map
    from torch.utils.flop_counter import flop_registry

    if operator == "aten.convolution_backward":
        return _convolution_backward(arguments)
    if operator in OWN:
        return OWN[operator](*(_shape(a) for a in arguments.values() if hasattr(a, "shape")))
    formula = flop_registry.get(getattr(node.target, "overloadpacket", node.target))
    if formula is None:
        return None
    args, kwargs = tree_map(lambda n: n.meta.get("val") if hasattr(n, "meta") else n, (node.args, dict(node.kwargs)))
    count = _integer(formula(*args, **kwargs, out_val=node.meta.get("val")))
    return round(count * _causal(arguments)) if count is not None and "attention" in operator else count


def _integer(count: Any) -> int | None:
    """A count as a number, a symbolic one as it is in the traced call."""
    if not hasattr(count, "node"):
        return int(count)
    return _hint(count.node.expr) or None


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else _hint(size.node.expr) for size in tensor.shape)


def _causal(arguments: dict[str, Any]) -> float:
    """The share of the scores that a causal mask leaves: kernels leave out the tiles above the diagonal."""
    query, key = arguments.get("query"), arguments.get("key")
    if not arguments.get("is_causal") or query is None or key is None:
        return 1.0
    rows, columns = _shape(query)[-2], _shape(key)[-2]
    kept = sum(min(row + 1, columns) for row in range(rows))
    return kept / max(1, rows * columns)


def _convolution_backward(arguments: dict[str, Any]) -> int:
    """The gradient of the input and that of the weight take as many operations as the convolution, groups or not.

    The flop counter's own formula counts the weight's gradient as if there were no groups.
    """
    grad, x, weight = (_shape(arguments[name]) for name in ("grad_output", "input", "weight"))
    places = x if arguments["transposed"] else grad
    forward = 2 * math.prod((x[0], *places[2:], *weight))
    return forward * sum(map(bool, arguments["output_mask"][:2]))


def _int_mm(left: Sequence[int], right: Sequence[int], *others: Sequence[int]) -> int:
    return 2 * left[-2] * left[-1] * right[-1]


def _grouped_mm(left: Sequence[int], right: Sequence[int], *others: Sequence[int]) -> int:
    """Groups of rows, of columns or of the inner size share a side of two dimensions; two of three are a batch."""
    batch = left[0] if len(left) == len(right) == 3 else 1
    return 2 * batch * left[-2] * left[-1] * right[-1]


#: Operators that the flop counter has no formula for, each from the shapes of its tensors.
OWN = {
    "aten._int_mm": _int_mm,
    "aten._grouped_mm": _grouped_mm,
    "aten._scaled_grouped_mm": _grouped_mm,
    "aten._scaled_grouped_mm_v2": _grouped_mm,
    "aten._scaled_mm_v2": _int_mm,
    "aten._weight_int8pack_mm": _int_mm,
}


def _product(operator: str, arguments: dict[str, Any], count: int | None) -> dict[str, Plain]:
    """Batch, rows, columns and inner size of the matrix products that an operator is computed as; {} for the rest."""
    matrices = [shape for a in arguments.values() if hasattr(a, "shape") and len(shape := _shape(a)) >= 2]
    if operator.endswith(("mm", "mm_v2")) and len(matrices) >= 2:
        added = operator.rpartition(".")[2] in ("addmm", "baddbmm") and len(matrices) > 2
        left, right = matrices[1:3] if added else matrices[:2]
        return {"sizes": [math.prod(left[:-2]), left[-2], right[-1], left[-1]]}
    if "conv" in operator and "weight" in arguments and count:
        weight, groups = _shape(arguments["weight"]), int(arguments.get("groups") or 1)
        passes = sum(map(bool, arguments.get("output_mask", (True,))[:2]))
        rows = count // max(1, 2 * passes * math.prod(weight))
        found = {"sizes": [groups, rows, weight[0] // groups, math.prod(weight[1:])], "groups": groups, "channels": weight[1]}
        return {**found, "transposed": bool(arguments.get("transposed"))}
    query, key = (arguments.get(name, arguments.get(place)) for name, place in (("query", "0"), ("key", "1")))
    if "attention" in operator and hasattr(query, "shape") and hasattr(key, "shape"):
        query, key = _shape(query), _shape(key)
        return {"sizes": [math.prod(query[:-2]), query[-2], key[-2], query[-1]]}
    return {}
