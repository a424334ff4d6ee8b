"""Run @triton.jit functions on CPU tensors: Python executes the kernel's source, numpy computes.

    with interpreting() as interpreter:
        interpreter.run(kernel, args, {"BLOCK": 128}, grid)

The kernel is the one that would be compiled; nothing of it is changed or defined anew. Inside the block the language
(`tl.load`, `tl.dot`, …), libdevice and calls of other @triton.jit functions are answered by `blocks`; after it
everything is as it was. Many programs of a launch run at once, see `blocks`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from explorer.capture.ladder.triton_jit import call_arguments, grid_of, jit_function
from explorer.capture.observe.patch import added
from explorer.errors import InputError
from explorer.model.syntax import parsed

if TYPE_CHECKING:
    from explorer.capture.interpret.blocks import Blocks, Memory

#: Elements of a block times programs that run at once: arrays of this size stay in a core's cache.
AT_ONCE = 2**17
#: The interpreter of this thread's innermost `interpreting` block.
_AT_WORK: ContextVar[Interpreter | None] = ContextVar("explorer interpreter", default=None)
#: Why a kernel whose programs wait for one another is rejected.
WAITS = "the interpreter runs programs in turn, so kernels whose programs wait for one another cannot be interpreted"


@dataclass(frozen=True)
class InterpretedLaunch:
    """An interpreted launch: its programs, the tensors it wrote, its largest block, and the seconds."""

    name: str
    programs: int
    written: tuple[str, ...]
    elements: int
    seconds: float


#: Runs a launch in a memory of its own, given the blocks, the kernel, and what runs it in a Memory.
Watcher = Callable[["Blocks", Any, Callable[..., InterpretedLaunch]], InterpretedLaunch]


@contextmanager
def interpreting(progress: Callable[[str], None] | None = None, watcher: Watcher | None = None) -> Iterator[Interpreter]:
    """Give an Interpreter that runs @triton.jit functions inside the block; all is undone after it.

    `progress` is told each kernel's name, and how many of its programs are done. `watcher` runs each launch. A block inside
    another, such as a launch of the program's own while a check interprets, has the Interpreter of that: the language is
    replaced once.
    """
    from explorer.capture.interpret.libdevice import functions

    if (outer := _AT_WORK.get()) is not None:
        yield outer
        return
    interpreter = Interpreter(functions(), progress, watcher)
    before = _AT_WORK.set(interpreter)
    try:
        with ExitStack() as stack:
            interpreter.patch(stack)
            yield interpreter
    finally:
        _AT_WORK.reset(before)


class Interpreter:
    """Runs kernels. Created by `interpreting`, and usable only inside its block."""

    def __init__(
        self,
        libdevice: Mapping[str, Callable[..., Any]],
        progress: Callable[[str], None] | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        from triton.language.semantic import TritonSemantic

        from explorer.capture.interpret.blocks import Blocks, Memory

        self._memory_of = Memory
        self._blocks = Blocks(Memory())
        self._semantic = TritonSemantic(self._blocks)
        self._libdevice = libdevice
        self._progress = progress
        self._watcher = watcher
        self._rewritten: dict[int, tuple[Any, Callable[..., Any]]] = {}

    # Launching -------------------------------------------------------------------------------------------------------

    def run(
        self, kernel: Any, args: Sequence[Any], meta: Mapping[str, Any], grid: Any, config: int | Mapping[str, Any] | None = None
    ) -> InterpretedLaunch:
        """Run `kernel[grid](*args, **meta)` on CPU tensors, which are written to as on a GPU.

        `kernel` is any @triton.jit, @triton.autotune or @triton.heuristics function. For an autotuned kernel, `config`
        chooses the candidate by index or by values; None takes the first. Nothing is timed. num_warps and similar options
        change no result and are ignored. Raises InputError, with the line, if the kernel fails.
        """
        function = jit_function(kernel)
        settings = self._settings(kernel, args, dict(meta), config)
        named = call_arguments(function, args, settings)
        sizes = grid_of(grid, named)
        if not sizes:
            raise InputError(f"running {function.__name__} needs its grid")
        return self.launch(function, {k: v for k, v in named.items() if k in function.arg_names}, sizes)

    def _settings(self, kernel: Any, args: Sequence[Any], meta: dict[str, Any], config: Any) -> dict[str, Any]:
        """Add the keyword arguments of the decorators, and run the config's pre-hook."""
        from explorer.capture.ladder.ladder import choose
        from explorer.capture.ladder.triton_jit import pruned

        chosen = None
        while hasattr(kernel, "fn") and not hasattr(kernel, "create_binder"):
            if hasattr(kernel, "configs"):
                chosen = choose(pruned(kernel, args, meta), config)
                meta |= chosen.all_kwargs()
                if chosen.pre_hook is not None:
                    chosen.pre_hook({**dict(zip(kernel.arg_names, args, strict=False)), **meta})
            for name, heuristic in getattr(kernel, "values", {}).items():
                meta[name] = heuristic({**dict(zip(kernel.arg_names, args, strict=False)), **meta})
            kernel = kernel.fn
        if chosen is None and config is not None:
            raise InputError("config is for kernels under @triton.autotune; give this one its constants by keyword")
        return meta

    def launch(self, function: Any, arguments: Mapping[str, Any], grid: Sequence[int]) -> InterpretedLaunch:
        """Run every program of a launch; `arguments` are all of the function's, by name, with constexprs."""
        if self._watcher is not None:
            return self._watcher(self._blocks, function, partial(self._launch, function, arguments, grid))
        return self._launch(function, arguments, grid)

    def _launch(
        self, function: Any, arguments: Mapping[str, Any], grid: Sequence[int], memory: Memory | None = None
    ) -> InterpretedLaunch:
        """Run every program of a launch in its own memory, or in one that is given."""
        import numpy as np

        began = time.perf_counter()
        name, blocks = function.__name__, self._blocks
        memory = blocks.memory = self._memory_of() if memory is None else memory
        x, y, z = (int(n) for n in grid)
        blocks.grid, blocks.largest = (x, y, z), 1
        count = x * y * z
        body = self.rewritten(function)
        with np.errstate(all="ignore"):
            values = self._values(function, arguments)
            self._tell(name, 0, count)
            done = min(1, count)
            self._together(function, body, values, np.arange(done))
            while done < count:
                size = max(1, AT_ONCE // blocks.largest)
                self._together(function, body, values, np.arange(done, min(done + size, count)))
                done = min(done + size, count)
                self._tell(name, done, count)
        written = tuple(key for _, _, key in memory.ranges if key in memory.written)
        return InterpretedLaunch(name, count, written, blocks.largest, time.perf_counter() - began)

    def _tell(self, name: str, done: int, count: int) -> None:
        if self._progress is not None:
            self._progress(f"{name}, {done} of {count} programs")

    def _together(self, function: Any, body: Callable[..., Any], values: Mapping[str, Any], ids: Any) -> None:
        """Run programs in step; if they diverge, run each branch's programs again."""
        import numpy as np

        from explorer.capture.interpret.blocks import Diverged

        blocks, memory = self._blocks, self._blocks.memory
        x, y, _ = blocks.grid
        blocks.programs = np.stack([ids % x, ids // x % y, ids // (x * y)]).astype(np.int32)
        memory.begin(ids)
        try:
            body(**values)
        except Diverged as divergence:
            memory.undo()
            for label in np.unique(divergence.labels):
                self._together(function, body, values, ids[np.broadcast_to(divergence.labels, ids.shape) == label])
        except (InputError, NotImplementedError, AssertionError, *_PYTHON_ERRORS) as error:
            raise InputError(f"{function.__name__} {_line(error)}{_error_text(error)}") from error
        finally:
            memory.remember(False)

    def _values(self, function: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the arguments to triton's values: pointers, numbers, and constexprs as they are."""
        try:
            bound = inspect.signature(function.fn).bind(**arguments)
        except TypeError as error:
            raise InputError(f"{function.__name__} cannot be called with these arguments: {error}") from error
        bound.apply_defaults()
        fixed = {p.name for p in function.params if p.is_constexpr}
        return {k: _plain(v) if k in fixed else self.value(v, k) for k, v in bound.arguments.items()}

    def value(self, argument: Any, name: str = "") -> Any:
        """Convert an argument to triton's value; a tensor becomes a pointer into its storage."""
        import torch
        import triton.language as tl

        from explorer.capture.interpret.blocks import Handle

        argument = _plain(argument)
        if isinstance(argument, (bool, int)):
            return self._semantic.to_tensor(argument)
        if isinstance(argument, float):
            return self._semantic.to_tensor(argument)
        if isinstance(argument, tuple):
            return self._tuple(argument, name)
        if type(argument).__name__ == "TensorDescriptor":
            return self._described(argument, name)
        if not hasattr(argument, "data_ptr"):
            return argument
        tensor = getattr(argument, "base", argument) if not isinstance(argument, torch.Tensor) else argument
        if tensor.device.type != "cpu":
            raise InputError(f"the interpreter reads tensors on the CPU; {name or 'one'} is on {tensor.device}")
        moved = self._blocks.memory.allow(tensor, name)
        kind = tl.pointer_type(_element(argument))
        import numpy as np

        return tl.tensor(Handle(np.array([argument.data_ptr() + moved], np.uint64), kind), kind)

    def _tuple(self, argument: tuple[Any, ...], name: str) -> Any:
        """Convert a tuple of arguments; its parts are named "name[0]", "name[1]", …"""
        import triton.language as tl

        parts = [self.value(part, f"{name}[{number}]") for number, part in enumerate(argument)]
        fields = getattr(argument, "_fields", None)
        return tl.tuple(parts, tl.tuple_type([part.type for part in parts], fields)) if fields else tl.tuple(parts)

    def _described(self, descriptor: Any, name: str) -> Any:
        """Convert a tensor descriptor that was created on the host."""
        import triton.language as tl

        return self._semantic.make_tensor_descriptor(
            self.value(descriptor.base, name),
            [self.value(int(n)) for n in descriptor.shape],
            [*(self.value(int(n)) for n in descriptor.strides[:-1]), tl.constexpr(1)],
            [tl.constexpr(int(n)) for n in descriptor.block_shape],
            padding_option=getattr(descriptor, "padding", "zero"),
        )

    # Functions -------------------------------------------------------------------------------------------------------

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a @triton.jit function from another."""
        kwargs.pop("_semantic", None)
        return self.rewritten(function)(*args, **kwargs)

    def rewritten(self, function: Any) -> Callable[..., Any]:
        """Return a function rewritten so that operators and constants have triton's meaning. Each is rewritten once."""
        if id(function) not in self._rewritten:  # its own hash would compile it
            self._rewritten[id(function)] = function, self._rewrite(function)
        return self._rewritten[id(function)][1]

    def _rewrite(self, function: Any) -> Callable[..., Any]:
        file, first = function.fn.__code__.co_filename, int(function.starting_line_number)
        source = textwrap.dedent(function.src)
        tree = ast.fix_missing_locations(_Language().visit(parsed(source)))
        ast.increment_lineno(tree, first - 1 + _decorators(function))
        space = {**function.fn.__globals__, **inspect.getclosurevars(function.fn).nonlocals}
        libdevice_functions = {
            key: self._libdevice[value.__name__] for key, value in space.items() if _of_libdevice(value, self._libdevice)
        }
        space |= {**libdevice_functions, **self._names()}
        rewritten: dict[str, Callable[..., Any]] = {}
        exec(compile(tree, file, "exec"), space, rewritten)
        return rewritten[function.fn.__name__]

    def _names(self) -> dict[str, Any]:
        """The helper functions of rewritten sources, and triton's versions of Python's built-ins."""
        return {
            "_explorer_value": lambda value: self._semantic.to_tensor(value, False),
            "_explorer_and": _and,
            "_explorer_or": _or,
            "_explorer_not": _not,
            "_explorer_truth": _truth,
            "_explorer_again": self._again,
            "range": self.loop,
            "min": self._least,
            "max": self._greatest,
        }

    def _again(self, loop: str, condition: Any) -> bool:
        """Test a `while` loop's condition; InputError if the loop waits for another program."""
        going = _truth(condition)
        if self._blocks.memory.watch.waits(loop, going):
            raise InputError(f"the loop waits for another program, and {WAITS}")
        return going

    def _least(self, *args: Any) -> Any:
        return self._folded(min, "minimum", args)

    def _greatest(self, *args: Any) -> Any:
        return self._folded(max, "maximum", args)

    def _folded(self, builtin: Callable[..., Any], name: str, args: Sequence[Any]) -> Any:
        import triton.language as tl

        if not any(isinstance(a, tl.tensor) for a in args):
            return builtin(*map(_plain, args))
        folded = args[0]
        for other in args[1:]:
            folded = getattr(tl, name)(folded, other)
        return folded

    def loop(self, first: Any, stop: Any = None, step: Any = 1, **options: Any) -> Iterator[Any]:
        """Run `range` and `tl.range`: programs of a batch may start differently, but need equal trip counts."""
        import numpy as np
        import triton.language as tl

        from explorer.capture.interpret.blocks import Diverged, Handle

        first, stop = (0, first) if stop is None else (first, stop)
        step = 1 if step is None else step
        bounds = [self._semantic.to_tensor(_plain(v)) for v in (first, stop, step)]
        wide = max((b.dtype for b in bounds), key=lambda d: int(d.primitive_bitwidth))
        start, end, by = (b.handle.data.astype(np.int64) for b in bounds)
        trips = np.maximum(0, -((start - end) // by))
        if (trips != trips[0]).any():
            raise Diverged(trips)
        kind = wide if wide.is_int() and wide.primitive_bitwidth >= 32 else tl.int32
        for number in range(int(trips[0])):
            data = start + number * by
            yield tl.tensor(Handle(data.astype(np.int64 if kind.primitive_bitwidth == 64 else np.int32), kind), kind)

    # The language ----------------------------------------------------------------------------------------------------

    def patch(self, stack: ExitStack) -> None:
        """Replace the functions of triton's language by the interpreter's."""
        # Imported first: at its import it keeps the language's min and max, and must not keep the ones put here
        import triton.compiler.code_generator  # noqa: F401
        import triton.language as tl
        from triton.language.extra import cuda
        from triton.runtime.jit import JITFunction

        def put(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(added(owner, name, value))

        for owner in (tl, tl.core, tl.math, tl.tensor, tl.core.tensor_descriptor_base, *_helpers()):
            for name, member in _everything(owner):
                if tl.core.is_builtin(member):
                    put(owner, name, self._builtin(member))
                elif owner is tl.tensor and isinstance(member, JITFunction):
                    put(owner, name, self._member(member))
        for name, value in self._language().items():
            for owner in (tl, tl.core):
                if hasattr(owner, name):
                    put(owner, name, value)
        for name, value in {"__index__": _index, "T": property(_transposed)}.items():
            put(tl.tensor, name, value)
        put(tl.dtype, "to_ir", lambda self, builder: self)
        put(JITFunction, "__call__", lambda function, *args, **kwargs: self.call(function, *args, **kwargs))
        for module in _libdevices():
            for name, value in self._libdevice.items():
                if hasattr(module, name):
                    put(module, name, value)
        for name in ("gdc_wait", "gdc_launch_dependents"):  # one kernel runs after another, whoever waits
            if hasattr(cuda, name):
                put(cuda, name, lambda **_: None)
        for helpers in _helpers():
            put(helpers, "constexpr_next_power_of_2", lambda n, **_: 1 << (int(_plain(n)) - 1).bit_length())
            put(helpers, "if_mask", lambda mask, val, **_: None if _plain(mask) is None else val)

    def _builtin(self, member: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = self._semantic
            return member(*args, **kwargs)

        called.__name__ = getattr(member, "__name__", "builtin")
        return called

    def _member(self, function: Any) -> Callable[..., Any]:
        return lambda tensor, *args, **kwargs: self.call(function, tensor, *args, **kwargs)

    def _language(self) -> dict[str, Any]:
        """The functions of the language that do not call the builder."""
        from explorer.capture.interpret.inline_asm import evaluate
        from explorer.capture.interpret.reductions import reduce, scan

        return {
            "range": self.loop,
            "static_range": _static_range,
            "static_assert": _static_assert,
            "static_print": print,
            "multiple_of": _hint,
            "max_contiguous": _hint,
            "max_constancy": _hint,
            "reduce": reduce,
            "associative_scan": scan,
            "inline_asm_elementwise": evaluate,
            "map_elementwise": _mapped,
        }


#: The errors that executing a kernel's source can raise, beside explorer's own.
_PYTHON_ERRORS = (
    TypeError,
    ValueError,
    AttributeError,
    NameError,
    IndexError,
    KeyError,
    ArithmeticError,
    RuntimeError,
    LookupError,
)


class _Language(ast.NodeTransformer):
    """Rewrites Python source where triton's meaning differs from Python's."""

    function = ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Remove annotations and decorators, which are for the compiler."""
        self.function = node.name
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            argument.annotation = None
        node.returns, node.decorator_list = None, []
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Make an assigned number a tensor."""
        self.generic_visit(node)
        node.value = _called("_explorer_value", node.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Make `and` and `or` of tensors elementwise."""
        self.generic_visit(node)
        name = "_explorer_and" if isinstance(node.op, ast.And) else "_explorer_or"
        folded = node.values[-1]
        for value in reversed(node.values[:-1]):
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            folded = _called(name, value, ast.Lambda(args=nothing, body=folded))
        return folded

    def visit_If(self, node: Any) -> ast.AST:
        """Make a condition a scalar on which the programs of a batch agree."""
        self.generic_visit(node)
        node.test = _called("_explorer_truth", node.test)
        return node  # type: ignore[no-any-return]

    visit_IfExp = visit_Assert = visit_If

    def visit_While(self, node: ast.While) -> ast.AST:
        """Treat the condition like an `if` condition, and watch whether the loop waits for another program."""
        self.generic_visit(node)
        node.test = _called("_explorer_again", ast.Constant(f"{self.function}:{node.lineno}"), node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Make `not` of a tensor elementwise."""
        self.generic_visit(node)
        return _called("_explorer_not", node.operand) if isinstance(node.op, ast.Not) else node


def _called(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "handle") and hasattr(value, "logical_and")


def _and(one: Any, other: Callable[[], Any]) -> Any:
    return one.logical_and(other()) if _is_tensor(one) else one and other()


def _or(one: Any, other: Callable[[], Any]) -> Any:
    return one.logical_or(other()) if _is_tensor(one) else one or other()


def _not(value: Any) -> Any:
    return value == 0 if _is_tensor(value) else not value


def _truth(value: Any) -> bool:
    from explorer.capture.interpret.blocks import Diverged

    if not _is_tensor(value):
        return bool(value)
    data = value.handle.data
    if data.ndim > 1 and data[0].size > 1:
        raise TypeError("a block of several elements is neither true nor false: a condition must be a scalar")
    flat = data.reshape(-1) != 0
    if (flat != flat[0]).any():
        raise Diverged(flat)
    return bool(flat[0])


def _index(tensor: Any) -> int:
    from explorer.capture.interpret.blocks import Diverged

    flat = tensor.handle.data.reshape(-1)
    if (flat != flat[0]).any():
        raise Diverged(flat)
    return int(flat[0])


def _transposed(tensor: Any) -> Any:
    import triton.language as tl

    return tl.trans(tensor)


def _static_range(first: Any, stop: Any = None, step: Any = 1, **options: Any) -> range:
    first, stop, step = _plain(first), _plain(stop), _plain(step)
    return range(int(first), int(stop), int(step or 1)) if stop is not None else range(int(first))


def _static_assert(condition: Any, message: str = "", **rest: Any) -> None:
    if not condition:
        raise InputError(f"static_assert failed: {_plain(message)}")


def _hint(tensor: Any, *values: Any, **rest: Any) -> Any:
    return tensor


def _mapped(function: Any, *args: Any, pack: int = 1, **rest: Any) -> Any:
    if pack != 1:
        raise NotImplementedError("map_elementwise with pack cannot be interpreted")
    return function(*args)


def _plain(value: Any) -> Any:
    """The value of a tl.constexpr; anything else as it is."""
    return value.value if type(value).__name__ == "constexpr" else value


def _element(argument: Any) -> Any:
    """The triton type of a tensor's elements."""
    import triton.language as tl
    from triton.runtime.jit import mangle_type

    return tl.str_to_ty(mangle_type(argument), None).element_ty


def _everything(owner: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(owner, name)) for name in dir(owner) if callable(getattr(owner, name, None))]


def _helpers() -> list[types.ModuleType]:
    from torch._inductor.runtime import triton_helpers

    return [triton_helpers]


def _libdevices() -> list[Any]:
    """The modules that offer libdevice's functions."""
    import sys

    from triton.language.extra import libdevice

    modules = [sys.modules.get(f"triton.language.extra.{vendor}.libdevice") for vendor in ("cuda", "hip", "intel")]
    return [libdevice, *(module for module in modules if module is not None)]


def _of_libdevice(value: Any, functions: Mapping[str, Any]) -> bool:
    """Whether a kernel's module imported this libdevice function by name."""
    name, module = getattr(value, "__name__", None), getattr(value, "__module__", None) or ""
    return isinstance(value, types.FunctionType) and name in functions and module.endswith(".libdevice")


def _decorators(function: Any) -> int:
    """The number of lines from triton's first line of a function to its `def`."""
    lines: list[str] = function.raw_src
    return next((n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)


def _line(error: BaseException) -> str:
    """ "line 12: " of the innermost line that is a kernel's, and neither triton's nor of a helper that stands between."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not any(
            part in file for part in ("/triton/", "/explorer/capture/interpret/", "/explorer/capture/observe/", "/numpy/")
        ):
            line = f"line {trace.tb_lineno}: "
        trace = trace.tb_next
    return line


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
