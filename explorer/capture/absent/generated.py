"""Run Inductor's code for an absent GPU on the CPU: the wrapper as it is, its kernels interpreted.

In place of the code for the GPU Dynamo calls the graph on the CPU. Inside `interpreted` it runs what
was compiled: AOTAutograd's own wrappers, and in them Inductor's module, whose text is executed. Tensors are the CPU's;
torch's questions about the device are answered as while compiling, ATen's operators run on the CPU.
"""

from __future__ import annotations

import ast
import math
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.absent_gpu import pretending
from explorer.capture.absent.cuda_on_cpu import on_the_cpu
from explorer.capture.absent.taken_numbers import Change, numbers_changed
from explorer.capture.interpret.estimate import Estimate, add_assigned_integers, estimate_launch
from explorer.capture.interpret.interpreter import WAITS, Interpreter, interpreting
from explorer.capture.interpret.remembered import Remembered
from explorer.capture.observe.patch import Guard, added, followed, guard_here, guarded, guarding, replaced
from explorer.capture.observe.versions import inside_compile_fx
from explorer.errors import InputError
from explorer.model.integers import value_of
from explorer.model.syntax import parsed
from explorer.model.values import Plain
from explorer.stages.fx_graph import innermost, short
from explorer.stages.inductor.helion import LAUNCHER

if TYPE_CHECKING:
    from explorer.capture.interpret.sanitizer import Sanitizer
    from explorer.reference.gpus.figures import Target

#: How a kernel or wrapper draws random numbers.
RANDOM = ("tl.rand", "tl.randn", "tl.randint", "tl.philox", "triton_helpers.rand", "inductor_seeds", "aten.randint.", "bernoulli")
#: Why no code with kernels in Metal runs here.
METAL = (
    "kernels in Metal run only on an Apple GPU, and explorer interprets kernels in Triton alone: "
    "trace with target='h100' to check the same function, whose kernels are other ones"
)
#: A kernel of a template that is no Triton kernel: of CUTLASS, CK, CuTe DSL or NVGEMM.
_TEMPLATE = re.compile(r"^(\w+) = async_compile\.(?:cuda|rocm|xpu|cutedsl|nv_universal_gemm)\(", re.MULTILINE)
#: Why no code with such a kernel runs here.
COMPILED_TEMPLATE = (
    "{name} is made of a template in another language than Triton and runs only on its GPU: trace with "
    "options={{'max_autotune': True, 'max_autotune_gemm_backends': 'TRITON'}} to check the function with kernels in Triton"
)


@dataclass(frozen=True)
class Code:
    """Inductor's module for one graph: its text, its constants, and the values that its symbols had while compiling."""

    text: str
    file: str
    target: Target
    constants: Mapping[str, Any]
    sizes: Mapping[str, int]
    replacements: dict[str, list[Callable[[Any], Any]]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def replayed(self) -> bool:
        """Never: it is interpreted, and no CUDA graph is made."""
        return False

    def replace(self, name: str, replacement: Callable[[Any], Any]) -> Callable[[], None]:
        """Put something else in the place of a name of the module wherever it is executed: see `splice.wrappers.Wrapper`."""
        if not re.search(rf"^(?:{re.escape(name)} = |(?:from \S+ )?import (?:.*\b)?{re.escape(name)}$)", self.text, re.MULTILINE):
            raise InputError(f"the output code {self.file} has no {name!r}")
        of_name = self.replacements.setdefault(name, [])
        of_name.append(replacement)
        return lambda: of_name.remove(replacement)

    def __call__(self, args: Any) -> Any:
        """Run the module's `call` in the interpreter."""
        return _wrappers_here().call(self, args)

    def in_place_of_another(self, args: Any) -> Any:
        """Run the module's `call` where the interpreter has begun to run another module for the same GPU."""
        return _wrappers_here()._space(self)["call"](args)

    @property
    def random(self) -> bool:
        """Whether the code draws random numbers, which differ from eager's."""
        return any(name in self.text for name in RANDOM) or "dropout" in self.text


class Compiled:
    """The callable that AOTAutograd returned for one of Dynamo's graphs, with Inductor's code in it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


@dataclass
class Generated:
    """All code generated for an absent GPU in one trace. The trace keeps it alive; Dynamo's cache does not."""

    codes: list[Code] = field(default_factory=list)
    compiled: list[Compiled] = field(default_factory=list)

    def in_place_of(self, graph: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what Dynamo calls for a graph: the graph itself, or the generated code in a thread that interprets.

        Dynamo keeps the returned callable as long as the program's own function lives. So the callable holds only a weak
        reference to the compiled code, which lives as long as the trace.
        """
        self.compiled.append(Compiled(function))
        found = weakref.ref(self.compiled[-1])

        def generated(*args: Any) -> Any:
            """Run the generated code; InputError if its trace is gone."""
            compiled = found()
            if compiled is None:
                raise InputError("the trace that this code was generated for is gone")
            return compiled.function(*args)

        errors = guard_here().errors
        with guarding(Guard(lambda: _HERE.wrappers is not None, {} if errors is None else errors, essential=True)):
            return guarded(graph, lambda _: generated, "generated")


#: Why generated code is not interpreted where Dynamo would compile, before any of it ran and after.
COMPILED_ANEW = (
    "{place} would be compiled again{reason}: it does not do what it did when it was traced, or torch._dynamo.reset() dropped "
    "what was compiled; trace it again"
)
COMPILED_ANEW_LATER = (
    "{place} would be compiled again{reason}: the program took another number from a tensor, as by .item(), than when it was "
    "traced, since interpreted kernels round otherwise or are wrong, or it does something else. Trace it for the CPU and check "
    "that, or check the functions on both sides of the graph break"
)


def _compiled_anew(began: bool, graph: Any, reasons: Sequence[str]) -> InputError:
    """The error of a compile that is not to be: it names the line that the graph begins at, and the guard that failed."""
    traces = (node.meta.get("stack_trace") for node in getattr(getattr(graph, "graph", None), "nodes", ()))
    first = innermost(next(filter(None, traces), ""))
    place = f"{short(first.file)}:{first.line}" if first else "the function"
    guard = reasons[-1].partition("\n")[0].partition("  #")[0].rpartition(": ")[2].strip() if reasons else ""
    reason = f", since {guard} does not hold" if guard else ""
    return InputError((COMPILED_ANEW_LATER if began else COMPILED_ANEW).format(place=place, reason=reason))


class _Here(threading.local):
    """This thread's interpreter of generated code; None in a thread that does not interpret."""

    wrappers: Wrappers | None = None


_HERE = _Here()


def _wrappers_here() -> Wrappers:
    """This thread's interpreter; RuntimeError in a thread that does not interpret."""
    if _HERE.wrappers is None:
        raise RuntimeError("this code was compiled for a GPU you don't have")
    return _HERE.wrappers


@contextmanager
def compile_fx_replaced(make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replace `compile_fx` and its inner function: a user's backend may have imported `compile_fx` before."""
    from torch._inductor import compile_fx

    with ExitStack() as stack:
        for name in ("compile_fx", *inside_compile_fx()):
            stack.enter_context(replaced(compile_fx, name, make))
        yield


@contextmanager
def interpreted(
    progress: Callable[[str], None] | None = None,
    number: Change | None = None,
    remembered: Remembered | None = None,
    sanitizer: Sanitizer | None = None,
) -> Iterator[Wrappers]:
    """Run the generated code of a function traced for an absent GPU, in this thread, inside the block.

    `progress` is told how far each kernel is. `number` may change the floats that the program takes from its tensors. What
    launches write is taken from `remembered`, and kept there. `sanitizer` watches each launch. InputError if Dynamo would have to
    compile anew in this thread.
    """
    from torch._dynamo import convert_frame
    from torch._dynamo.exc import BackendCompilerFailed

    reasons: list[str] = []

    def refuse(graph: Any, *args: Any, **kwargs: Any) -> Any:
        raise _compiled_anew(bool(wrappers.spaces), graph, reasons)

    with guarding(Guard()), ExitStack() as stack:

        def told(text: str) -> None:
            assert progress is not None
            progress(f"launch {wrappers.launches}, {text}")

        watcher = None if sanitizer is None else sanitizer.launch
        interpreter = stack.enter_context(interpreting(told if progress is not None else None, watcher))
        wrappers: Wrappers = Wrappers(interpreter, remembered or Remembered(0), sanitizer)
        stack.enter_context(compile_fx_replaced(lambda _: refuse))
        recompiles = "get_and_maybe_log_recompilation_reasons"
        stack.enter_context(followed(convert_frame, recompiles, lambda found, *args, **kwargs: reasons.extend(found[-1:])))
        if number is not None:
            stack.enter_context(numbers_changed(number))
        outer, _HERE.wrappers = _HERE.wrappers, wrappers
        try:
            yield wrappers
        except BackendCompilerFailed as error:
            if isinstance(error.inner_exception, InputError):
                raise error.inner_exception from None
            raise
        finally:
            _HERE.wrappers = outer


@dataclass
class Wrappers:
    """Inductor's modules, each executed once, the interpreter of their kernels, and how many launches were asked of it."""

    interpreter: Interpreter
    remembered: Remembered = field(default_factory=lambda: Remembered(0))
    sanitizer: Sanitizer | None = None
    launches: int = 0
    spaces: dict[int, dict[str, Any]] = field(default_factory=dict)

    def call(self, code: Code, args: Any) -> Any:
        """Run the module's `call` on CPU tensors."""
        with pretending(code.target), on_the_cpu(code.target.device):
            return self._space(code)["call"](args)

    def space(self, code: Code) -> Mapping[str, Any]:
        """The names of a module: its kernels can be launched one by one."""
        with pretending(code.target), on_the_cpu(code.target.device):
            return self._space(code)

    def _space(self, code: Code) -> dict[str, Any]:
        if id(code) not in self.spaces:
            self.spaces[id(code)] = self._executed(code)
        return self.spaces[id(code)]

    def _executed(self, code: Code) -> dict[str, Any]:
        """Execute the module and return its names; it allocates the GPU's tensors on the CPU."""
        import torch
        from torch._inductor.async_compile import AsyncCompile

        from explorer.capture.ladder.ladder import lines_of

        if "AtenTensorHandle" in code.text:
            raise InputError(
                "the wrapper is in C++, which is compiled for its GPU and runs only there: check a trace without cpp_wrapper, "
                "whose kernels are the same"
            )
        if "async_compile.metal(" in code.text:
            raise InputError(METAL)
        if template := _TEMPLATE.search(code.text):
            raise InputError(COMPILED_TEMPLATE.format(name=template[1]))

        def triton(self_: Any, name: str, source: str, device_str: str = "cuda") -> Kernel:
            return Kernel.of(name, source, code.target, self)

        space: dict[str, Any] = {"__name__": "explorer_wrapper", "__file__": code.file}
        with ExitStack() as stack:
            stack.enter_context(replaced(AsyncCompile, "triton", lambda _: triton))
            stack.enter_context(added(torch._C, f"_{code.target.device}_getCurrentRawStream", lambda index: 0))
            stack.enter_context(lines_of(code.file, code.text))  # triton reads the source of a kernel that Helion wrote
            exec(compile(code.text, code.file, "exec"), space)
        space.update({**code.constants, **_allocators(space, self.sanitizer)})
        self._launched_by_helion(space, code.target)
        for name, replacements in code.replacements.items():
            for replacement in replacements:
                space[name] = replacement(space[name])
        return space

    def _launched_by_helion(self, space: dict[str, Any], target: Target) -> None:
        """Let Helion's functions of the host launch their kernels in the interpreter."""
        from torch.utils._python_dispatch import _disable_current_modes

        from explorer.capture.ladder.helion import asking_of, stated_options

        def launcher(kernel: Any, grid: Any, *args: Any, **options: Any) -> None:
            self.launches += 1
            with _disable_current_modes():
                self.interpreter.run(kernel, args, stated_options(options), grid)

        for value in space.values():
            if LAUNCHER in (getattr(value, "__kwdefaults__", None) or {}):
                value.__kwdefaults__ = {**value.__kwdefaults__, LAUNCHER: launcher}
        asking_of(space, target)


def _allocators(space: Mapping[str, Any], sanitizer: Sanitizer | None) -> dict[str, Any]:
    """Return allocation functions for the CPU. They fill floats with NaN, so that elements that no kernel writes show up."""
    import torch

    on_cpu = space["empty_strided_cpu"]

    def empty_strided(size: Any, stride: Any, dtype: Any) -> Any:
        made = on_cpu(size, stride, dtype)
        if sanitizer is not None:
            sanitizer.allocated(made)
            return made
        return made.fill_(math.nan) if dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16) else made

    allocators = ("empty_strided_cuda", "empty_strided_xpu", "empty_strided_cpu_pinned")
    return {name: empty_strided for name in allocators if name in space}


@dataclass
class Kernel:
    """A generated Triton kernel that the wrapper calls, with the config that its ladder shows."""

    name: str
    function: Any
    config: Any
    names: tuple[str, ...]
    constants: Mapping[str, Any]
    about: Mapping[str, Any]
    wrappers: Wrappers | None
    triton_meta: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    @staticmethod
    def of(
        name: str, source: str, target: Target, wrappers: Wrappers | None, config: Mapping[str, Plain] | None = None
    ) -> Kernel:
        """The kernel that a source defines, with the first of its configs or with `config`; InputError if it defines none."""
        from explorer.capture.ladder.ladder import (
            autotuner,
            choose,
            execute_source,
            inductor_heuristics_for,
            lines_of,
            triton_driver_of,
        )

        file = f"{name}.py"
        with triton_driver_of(target), inductor_heuristics_for(target), lines_of(file, source):
            tuner = autotuner(execute_source(source, name, file), name)
        chosen = choose(tuner.configs, config)
        constants = {**tuner.triton_meta.get("constants", {}), **chosen.kwargs}
        declared = {p.name for p in tuner.fn.params if p.is_constexpr}
        left_out = (declared & set(constants)) | {k for k, v in constants.items() if v is None and k not in declared}
        left_out -= {k for k in tuner.triton_meta.get("signature", {}) if k not in declared}
        names = (*(a for a in tuner.fn.arg_names if a not in left_out), *tuner.inductor_meta.get("extra_launcher_args", ()))
        return Kernel(name, tuner.fn, chosen, names, constants, tuner.inductor_meta, wrappers, tuner.triton_meta, source)

    def grid(self, arguments: Mapping[str, Any]) -> tuple[int, int, int]:
        """Compute the launch grid from the arguments as Inductor does; InputError if the config has no grid.

        Inductor computes the grids of a user-written kernel for the kernel's own configs only. Warps and stages change no grid.
        """
        from torch._inductor.runtime.triton_heuristics import GridExpr

        about, sizes = dict(self.about), self.config.kwargs
        if grids := about.get("precomputed_grids"):
            alike = [{**one, "config": {k: v for k, v in one["config"].items() if k in sizes}} for one in grids]
            if not any(sizes.items() >= one["config"].items() for one in alike):
                raise InputError(f"{self.name} is launched with no grid for {sizes}: its grid is one for each config of its own")
            about["precomputed_grids"] = alike
        x, y, z = GridExpr.from_meta(about, self.config).eval_slow({**self.constants, **arguments})
        return int(x), int(y), int(z)

    def run(self, *args: Any, stream: Any = None, **rest: Any) -> None:
        """Run a launch of the wrapper in the interpreter."""
        from torch.utils._python_dispatch import _disable_current_modes

        assert self.wrappers is not None
        given = {**dict(zip(self.names, args, strict=False)), **{k: v for k, v in rest.items() if k in self.names}}
        named = {**self.constants, **given}
        arguments = {name: named[name] for name in self.function.arg_names if name in named}
        with _disable_current_modes():  # the interpreter itself uses torch, and these calls are not the wrapper's
            grid = self.grid(given)
            self.wrappers.launches += 1
            launch = partial(self.wrappers.interpreter.launch, self.function, arguments, grid)
            self.wrappers.remembered.launch(self.source, arguments, grid, launch)


def launches_in(code: Code) -> Iterator[tuple[Kernel, dict[str, int]]]:
    """Find each launch in a module's text, with its integer arguments."""
    tree = parsed(code.text)
    names: dict[str, Any] = dict(code.sizes)
    add_assigned_integers(tree, names)
    kernels: dict[str, Kernel] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("async_compile.triton("):
            name, source = (ast.literal_eval(a) for a in node.value.args[:2])  # type: ignore[attr-defined]
            kernels[ast.unparse(node.targets[0])] = Kernel.of(name, source, code.target, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run":
            kernel = kernels.get(ast.unparse(node.func.value))
            if kernel is not None:
                pairs = zip(kernel.names, (value_of(a, names) for a in node.args), strict=False)
                yield kernel, {k: v for k, v in pairs if v is not None}


def estimate(codes: Sequence[Code]) -> Estimate:
    """Estimate the work of every launch in the modules' text, each once; one program if sizes are unknown.

    InputError for a cooperative reduction, whose programs meet at a barrier: it could never be run to its end.
    """
    total = Estimate()
    for code in codes:
        for kernel, arguments in launches_in(code):
            if "x_grid_barrier" in kernel.function.src:
                raise InputError(f"{kernel.name} is a cooperative reduction: its programs meet at a barrier, and {WAITS}")
            try:
                grid = kernel.grid(arguments)
            except (NameError, TypeError, ZeroDivisionError):
                grid = (1, 1, 1)
            total += estimate_launch(kernel.function.src, {**kernel.constants, **arguments}, grid)
    return total


__all__ = ["Code", "Generated", "Kernel", "Wrappers", "estimate", "interpreted"]
