"""Measure the scratch memory of library calls on the CPU: each call of the output code runs once more, alone.

Inductor's code does not say what a library allocates inside. The wrapper's statements run on tensors without data, its kernels
do nothing, and each library call is given real tensors of the same layouts. torch's allocator reports what the call takes.
"""

from __future__ import annotations

import ast
import math
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import RLock
from typing import Any

from explorer.model.shared import CallMemory
from explorer.model.syntax import parsed, statements
from explorer.stages.inductor.cpp_wrapper import is_cpp
from explorer.stages.inductor.output_code import LIBRARIES, LibraryMemory

#: The operators that run again: those of torch itself, which do nothing but compute.
NAMESPACES = ("aten", "mkldnn", "onednn", "quantized", "prims")
#: The most multiplications of a recording's calls together, half a second on two cores; the most bytes that one call is given.
MAX_WORK, MAX_BYTES = 1e10, 1 << 29
#: Tensors of at least so many bytes get pages of their own.
MIN_MAPPED = 1 << 20
#: Operators that allocate more or less by the values that they are given, though their results have always the same sizes.
BY_VALUES = ("matrix_exp",)
#: Decompositions take some ten times as many operations as a product of the same sizes.
DECOMPOSITIONS = ("linalg", "svd", "eig", "qr", "lu", "cholesky", "lstsq")
#: The name in a wrapper's namespace that each library call is given to.
MEASURE = "_explorer_measure"
#: What torch's allocator is not asked for where a wrapper's inputs are made.
ALLOCATIONS = ("rand_strided", "empty_strided_cpu", "empty_strided")
CHECKS = ("assert_size_stride", "assert_alignment")


class LibraryCalls:
    """The library calls of a recording. Calls with equal layouts and constants run once, also across graphs."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int, Any]] = {}
        self._work = 0.0
        self._lock = RLock()  # a signal may have this thread read another graph meanwhile

    def measured(self, text: str) -> LibraryMemory:
        """Measure the library calls of output code. Code that does not run on the CPU alone has no calls."""
        if is_cpp(text) or any(device in text for device in ("_cuda(", "'cuda", "_xpu(", "'xpu")):
            return LibraryMemory(calls=())
        with self._lock:
            return LibraryMemory(calls=tuple(_in_thread(lambda: _calls(text, self.measure))))

    def measure(self, function: Any, args: Any, kwargs: Any) -> tuple[int, int, Any]:
        """Run a call on real tensors: return its peak bytes, the bytes of its results, and the results without data."""
        from torch.utils._pytree import tree_map

        key = f"{function} {tree_map(_layout, (args, kwargs))}"
        if key not in self._seen:
            self._work += self._affordable(function, (args, kwargs))
            given, named = tree_map(_with_data, (args, kwargs))
            result, peak, kept = _allocated(partial(function, *given, **named))
            self._seen[key] = peak, kept, tree_map(_like, result)
        return self._seen[key]

    def _affordable(self, function: Any, given: Any) -> float:
        """Estimate the work of a call; _NotMeasured for one that must not run again, or that takes too long."""
        import torch
        from torch.utils._pytree import tree_leaves

        tensors = [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
        work = _work(str(function), [tensor.numel() for tensor in tensors])
        taken = sum(_span(tensor) * tensor.itemsize for tensor in tensors)
        if self._work + work > MAX_WORK or taken > MAX_BYTES or _depends_on_values(function) or _draws(function, *given):
            raise _NotMeasured
        return work


def _in_thread(measure: Callable[[], list[CallMemory]]) -> list[CallMemory]:
    """Measure in a separate thread, without the caller's modes, autocast and profilers. Its error is raised here."""
    with ThreadPoolExecutor(1) as pool:
        try:
            outcome = pool.submit(measure)
        except RuntimeError:  # Python ends, and starts no threads: a recording that is saved then has nothing measured
            return []
        return outcome.result()


class _NotMeasured(Exception):
    """A call that does not run again."""


class _Nothing:
    """A kernel or a check in the place of the wrapper's own, which does nothing."""

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Do nothing."""

    run = __call__


def _calls(text: str, measure: Callable[[Any, Any, Any], tuple[int, int, Any]]) -> list[CallMemory]:
    """Run a wrapper's statements, and return the memory that each of its library calls allocated."""
    from torch.utils._pytree import tree_map

    calls: list[CallMemory] = []

    def called(line: int, function: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(function, "namespace", "aten") not in NAMESPACES:  # extern_kernels has functions of torch's, without one
            raise _NotMeasured
        try:
            peak, kept, result = measure(function, args, kwargs)
        except _NotMeasured:
            return function(*args, **kwargs)  # without data: later calls take its results
        calls.append(CallMemory(line=line, peak=peak, kept=kept))
        return tree_map(_like, result)

    tree = parsed(text)
    functions = {node.name: node for node in statements(tree) if isinstance(node, ast.FunctionDef)}
    call, inputs = functions.get("call"), functions.get("get_args") or functions.get("benchmark_compiled_module")
    if call is not None and inputs is not None:
        space, names = {**_namespace(tree), MEASURE: called}, dict[str, Any]()
        for statement in (*_assigned(inputs.body), *_flat(call.body)):
            _run(_through(statement, MEASURE), space, names)
    return calls


def _namespace(tree: ast.Module) -> dict[str, Any]:
    """Make what the wrapper's module has: its imports, and kernels that do nothing."""
    space: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and "async_compile" in ast.unparse(statement.value):
            space[ast.unparse(statement.targets[0])] = _Nothing()
        elif isinstance(statement, (ast.Import, ast.ImportFrom, ast.Assign)):
            _run(statement, space, space)
    space.update(dict.fromkeys(ALLOCATIONS, _without_data), **dict.fromkeys(CHECKS, _Nothing()))
    return space


def _depends_on_values(function: Any) -> bool:
    """Tell whether what a call allocates depends on the values of its tensors, as the sizes of its results do."""
    import torch

    tags = getattr(function, "tags", ())
    return torch.Tag.dynamic_output_shape in tags or any(name in str(function) for name in BY_VALUES)


def _draws(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a call draws random numbers, which would change those that the program draws next."""
    import torch

    packet = getattr(function, "overloadpacket", None)
    if packet is None:
        return False
    names = [argument.name for argument in function._schema.arguments]
    if "dropout_p" in names:  # attention, which draws for its dropout alone
        return bool({**dict(zip(names, args, strict=False)), **kwargs}.get("dropout_p", 0))
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, name).tags for name in packet.overloads())


def _work(name: str, sizes: Iterable[int]) -> float:
    """Estimate the multiplications of an operator by its tensors' sizes: exact for a product with its result."""
    largest = sorted(sizes)[-3:]
    product = math.sqrt(math.prod((*largest, *largest[-1:] * (3 - len(largest)))))
    return product * (10 if any(word in name for word in DECOMPOSITIONS) else 1)


def _allocated(call: Callable[[], Any]) -> tuple[Any, int, int]:
    """Run a call; return its result, the most bytes that it had allocated at once, and those allocated at its end.

    torch's older profiler hears of each allocation of its thread. Unlike the newer one it writes nothing to the terminal, and a
    profile of the program's in another thread does not disturb it.
    """
    import torch
    from torch.autograd import _disable_profiler_legacy, _enable_profiler_legacy, profiler_legacy

    _enable_profiler_legacy(profiler_legacy.profile(profile_memory=True).config())
    try:
        with torch.no_grad():  # as in the wrapper; a recurrent network keeps more where gradients are on
            result = call()
    finally:
        records = _disable_profiler_legacy()
    live = peak = 0
    for record in (record for of_thread in records for record in of_thread if record.kind() == "memory_alloc"):
        live += record.cpu_memory_usage()
        peak = max(peak, live)
    return result, peak, max(live, 0)


# Statements --------------------------------------------------------------------------------------------------------------


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a function that compute, in order."""
    for statement in body:
        if isinstance(statement, (ast.With, ast.If, ast.For)):
            yield from _flat(statement.body)
        elif isinstance(statement, (ast.Assign, ast.Expr)) and "args" not in _names(statement):
            yield statement


def _assigned(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that make a wrapper's inputs."""
    return (statement for statement in body if isinstance(statement, ast.Assign))


def _names(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


class _Through(ast.NodeTransformer):
    """Rewrite `library(a, b)` as `measure(line, library, a, b)`."""

    def __init__(self, measure: str) -> None:
        self._measure = measure

    def visit_Call(self, node: ast.Call) -> ast.Call:
        if not ast.unparse(node.func).startswith(LIBRARIES):
            self.generic_visit(node)
            return node
        called = ast.Name(self._measure, ast.Load())
        return ast.copy_location(ast.Call(called, [ast.Constant(node.lineno), node.func, *node.args], node.keywords), node)


def _through(statement: ast.stmt, measure: str) -> ast.stmt:
    return ast.fix_missing_locations(_Through(measure).visit(statement))  # type: ignore[no-any-return]


def _run(statement: ast.stmt, space: dict[str, Any], names: dict[str, Any]) -> None:
    """Run one statement. If it fails, its values are missing, and later calls that need them are not measured."""
    with suppress(Exception):
        exec(compile(ast.Module([statement], []), "<output code>", "exec"), space, names)


# Tensors -----------------------------------------------------------------------------------------------------------------


def _without_data(size: Any, stride: Any, *others: Any, dtype: Any = None, **ignored: Any) -> Any:
    """Make a tensor without data, in the place of one that the wrapper allocates."""
    import torch

    return torch.empty_strided(size, stride, dtype=dtype or others[-1], device="meta")


def _like(value: Any) -> Any:
    """Make a tensor of the same layout without data. A value that is no tensor is returned unchanged."""
    import torch

    return _without_data(value.shape, value.stride(), dtype=value.dtype) if isinstance(value, torch.Tensor) else value


def _with_data(value: Any) -> Any:
    """Make a tensor of the same layout: the identity, which each decomposition takes, or zeros where those are indices."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    tensor = _zeros(_span(value), value.dtype).as_strided(value.shape, value.stride())
    if (value.is_floating_point() or value.is_complex()) and 0 not in value.stride():
        (tensor.diagonal(dim1=-2, dim2=-1) if tensor.dim() > 1 else tensor).fill_(1)
    return tensor


def _zeros(count: int, dtype: Any) -> Any:
    """Make zeros, many of them in pages that the system gives no memory until they are written: weights are only read."""
    import torch

    size = count * dtype.itemsize
    if size < MIN_MAPPED or not hasattr(mmap, "MAP_ANONYMOUS"):  # Windows has no such pages
        return torch.zeros(count, dtype=dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=torch.uint8).view(dtype)  # holds the pages while it lives


def _layout(value: Any) -> Any:
    """Return what a call's memory depends on of an argument."""
    import torch

    if not isinstance(value, torch.Tensor):
        return repr(value)
    return str((tuple(value.shape), value.stride(), value.dtype))


def _span(tensor: Any) -> int:
    """Count the elements from a tensor's first to its last."""
    steps: list[int] = [(size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    return 1 + sum(steps) if tensor.numel() else 0
