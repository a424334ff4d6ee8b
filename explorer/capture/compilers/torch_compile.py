"""Call torch.compile so that it compiles anew, and explain its errors."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from types import CodeType, FunctionType, MethodType
from typing import Any

from explorer.capture.absent.torch_cuda import DRIVER, GENERATOR, STREAM
from explorer.capture.compilers.user_lines import with_user_lines
from explorer.capture.observe.patch import replaced, replaced_in_plain_sight
from explorer.capture.observe.versions import isolates_recompiles
from explorer.errors import chain
from explorer.stages.fx_graph import places_of

#: Names in Dynamo that messages refer to.
CONFIG, MARKS, RESETS = "torch._dynamo.config", "torch._dynamo.mark_dynamic", "torch._dynamo.reset()"
SUPPRESSES = f"{CONFIG}.suppress_errors"


def unwrapped(function: Any) -> Any:
    """The function or module inside a torch.compile result; anything else is returned as it is."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable"):
        inner = getattr(function, "__dict__", {}).get(name) or getattr(function, "__dict__", {}).get("_modules", {}).get(name)
        if inner is not None:
            return unwrapped(inner)
    return function


def could_be_compiled(value: Any) -> bool:
    """Whether a value is an instance of nn.Module."""
    import torch

    return isinstance(value, torch.nn.Module)


@contextmanager
def fresh_backends() -> Iterator[None]:
    """Give each torch.compile inside the block a backend that equals no other.

    Dynamo reuses an earlier compile of the same code if the backends are equal, even from outside an isolated cache. A trace
    must compile anew, and the user's own calls must not reuse its result later.
    """
    import torch

    def unequal(original: Any) -> Any:
        # where object.__eq__ gives NotImplemented, Python asks the other backend, whose class compares settings
        return type(original.__name__, (original,), {"__eq__": lambda self, other: self is other, "__hash__": object.__hash__})

    with replaced(torch, "_TorchCompileInductorWrapper", unequal), replaced(torch, "_TorchCompileWrapper", unequal):
        yield


def compiled_afresh(function: Any, backend: Any, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Call torch.compile(function, backend, **options) with a separate cache.

    A function or method is copied with its code. Dynamo skips code whose compile once failed with a suppressed error.
    """
    import torch

    function = _not_skipped(_without_compile_in_place(function))
    cache_option = {"isolate_recompiles": True} if isolates_recompiles() else {}
    with fresh_backends():
        compiled: Callable[..., Any] = torch.compile(with_copied_code(function), backend=backend, **options, **cache_option)
    return compiled


def _without_compile_in_place(function: Any) -> Any:
    """Return `_call_impl`, which `module.compile()` compiles, for a module that was compiled in place; others unchanged.

    torch.compile(module) would call the code that was compiled in place. For torch's own modules it does not, and Dynamo
    skips their `_call_impl`, so they are unchanged.
    """
    from torch._dynamo import trace_rules

    if not could_be_compiled(function) or function._compiled_call_impl is None or trace_rules.check(function.forward):
        return function
    return function._call_impl


@contextmanager
def in_place_afresh(modules: Iterable[Any]) -> Iterator[None]:
    """Inside the block, what is in these modules and compiled by `module.compile()` is compiled anew, and apart.

    The classes get a copy of their forward's code, for which Dynamo has no cache. What the program compiled is kept for it.
    """
    inside = {id(part): part for module in modules for part in module.modules()}.values()
    with ExitStack() as stack:
        for cls in dict.fromkeys(type(part) for part in inside if part._compiled_call_impl is not None):
            stack.enter_context(replaced_in_plain_sight(cls, "forward", with_copied_code))
        yield


def _not_skipped(function: Any) -> Any:
    """A module or callable object with a copy of its code, if a compile of that failed before; others as they are.

    The module is another object of a class with the copy. Both share all that they hold.
    """
    if isinstance(function, (FunctionType, MethodType)):
        return function
    cls = type(function)
    name = "forward" if could_be_compiled(function) else "__call__"
    code = getattr(getattr(cls, name, None), "__code__", None)
    if code is None or name in getattr(function, "__dict__", ()) or not _failed_before(code):
        return function
    copied = with_copied_code(getattr(cls, name))
    if name == "__call__":
        return MethodType(copied, function)
    members = {name: copied, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    twin: Any = object.__new__(type(cls.__name__, (cls,), members))
    object.__setattr__(twin, "__dict__", function.__dict__)
    return twin


def _failed_before(code: CodeType) -> bool:
    """Whether one of the last 64 compiles failed, and was one of this code. Whether Dynamo skips code it does not say itself."""
    from torch._dynamo.utils import get_compilation_metrics

    place = code.co_name, code.co_filename, code.co_firstlineno
    return any(m.fail_type and (m.co_name, m.co_filename, m.co_firstlineno) == place for m in get_compilation_metrics())


def compiled_apart(function: Any, backend: Any, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Call torch.compile on a copy of the function, so that the code that Dynamo compiles for it can be freed.

    Dynamo keeps its compiled code with a function's code object, and also that the recompile limit was reached. If torch can
    isolate recompiles, a module has its own cache. Otherwise its forward is copied, and its hooks do not run.
    """
    import torch

    if isinstance(function, torch.nn.Module) and not isolates_recompiles():
        function = function.forward
    return compiled_afresh(function, backend, options)


def with_copied_code(function: Any) -> Any:
    """Copy a function, method or partial with its code object. Dynamo then has separate cache entries for the copy.

    A module or other callable is returned unchanged: its traces count towards the recompile limit of its forward.
    """
    if isinstance(function, MethodType):
        return MethodType(with_copied_code(function.__func__), function.__self__)
    if type(function) is functools.partial:
        return functools.partial(with_copied_code(function.func), *function.args, **function.keywords)
    if not isinstance(function, FunctionType):
        return function
    parts = (function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__)
    return functools.update_wrapper(_with_keywords(FunctionType(*parts, function.__closure__), function), function)


def _with_keywords(copy: FunctionType, function: FunctionType) -> FunctionType:
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def plain(function: Any, backend: Any, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Call torch.compile(function, backend, **options) as a program without explorer does."""
    import torch

    compiled: Callable[..., Any] = torch.compile(function, backend=backend, **options)
    return compiled


def compiled_by(compiler: Callable[[Any], Callable[..., Any]], function: Any) -> Callable[..., Any]:
    """Compile with a `compiler(module) -> module`, which calls torch.compile itself."""
    with fresh_backends():
        return compiler(function)


def is_compiler_error(error: BaseException) -> bool:
    """Whether an error is the compiler's, not one that the user's function raised."""
    from torch._dynamo.exc import TorchDynamoException

    named = {type(e).__module__.partition(".")[0] + "." + type(e).__name__ for e in chain(error)}
    is_named = isinstance(error, TorchDynamoException) or "torch.InductorError" in named or FAILS_ON_RECOMPILE in str(error)
    return is_named or HALIDE_FAILED in str(error) or bool(refused_pallas_kernel(error))


def refused_pallas_kernel(error: BaseException) -> str:
    """Return the name of the Pallas kernel whose launch raised an error: JAX compiles a kernel at its launch; "" for none."""
    names = [(frame.f_code.co_filename, frame.f_code.co_name) for frame, _ in traceback.walk_tb(error.__traceback__)]
    called = (name for (file, _), (_, name) in pairwise(names) if file.replace("\\", "/").endswith(PALLAS))
    return next((name.removesuffix("_main") for name in called if name.endswith("_main")), "")


def refused_by_halide(error: BaseException) -> bool:
    """Whether Inductor's Halide backend raised an error as it wrote a kernel, or Halide as it compiled or launched one."""
    return raised_in(HALIDE, error) or any(HALIDE_GENERATOR in str(e) or HALIDE_FAILED in str(e) for e in chain(error))


def raised_in(file: str, error: BaseException) -> bool:
    """Whether a file of torch raised an error, or one that it was raised because of."""
    innermost = (list(traceback.walk_tb(e.__traceback__))[-1:] for e in chain(error))
    return any(frame.f_code.co_filename.replace("\\", "/").endswith(file) for frames in innermost for frame, _ in frames)


def nodes_being_written(error: BaseException) -> list[Any]:
    """Return the FX nodes of the scheduler node that Inductor was writing code for as it raised an error; none elsewhere."""
    frames = [frame for e in chain(error) for frame, _ in traceback.walk_tb(e.__traceback__)]
    writers = (frame.f_locals.get("self") for frame in reversed(frames) if frame.f_code.co_name == "codegen")
    buffers = (getattr(writer, "node", None) for writer in writers)
    return next((list(origins) for buffer in buffers if (origins := getattr(buffer, "origins", ()))), [])


def comes_from(error: BaseException, others: Sequence[BaseException]) -> bool:
    """Whether an error is one of `others`, or was raised because of one of them."""
    return any(one is other for one in chain(error) for other in others)


#: The file that writes Pallas kernels, and has the function with which Inductor launches one.
PALLAS = "torch/_inductor/codegen/pallas.py"
#: The file of Inductor's Halide backend, and the name of the file that it has Halide run.
HALIDE, HALIDE_GENERATOR = "torch/_inductor/codegen/halide.py", "generate_kernel.py"
#: What the C++ that torch writes around a Halide kernel raises where a check of Halide's fails.
HALIDE_FAILED = "halide_kernel failed"
#: torch's message where Halide is not installed.
NO_HALIDE = "halide python bindings not installed"
#: torch's message where `torch.compiler.set_stance("fail_on_recompile")` forbids a compile.
FAILS_ON_RECOMPILE = "torch.compile stance is 'fail_on_recompile'"
#: torch's messages for a stream or an event without a GPU.
NO_STREAMS = (
    "Stream requires CUDA support", "Tried to instantiate dummy base class", "PyTorch is not linked with support for",
    "Cannot access accelerator device",
)  # fmt: skip
#: torch's messages for a GPU's generator without a GPU.
NO_GENERATOR = ("Cannot get CUDA generator", "is not supported for torch.Generator()")
#: torch's messages for an operator of a GPU without that GPU; the others are those of a torch built for CUDA.
NO_GPU_OPERATOR = re.compile(
    r"Could not run '\S+' with arguments from the '(CUDA|XPU)' backend|No CUDA GPUs are available|Found no NVIDIA driver"
)
#: The messages of a torch built for CUDA where its driver makes something, such as a stream or a generator.
ASKED_DRIVER = ("no CUDA-capable device is detected", "CUDA driver version is insufficient")
#: torch 2.11's message for two tensors on different devices; later versions have a class for it.
TWO_DEVICES = "Unhandled FakeTensor Device Propagation"
#: What Inductor says of a Helion kernel, a template that is not its own, on the CPU.
HELION_ON_THE_CPU = "Template node passed to CppScheduler.codegen_template must be"
SKIPPED = (
    "Dynamo skipped the function that does this, such as for a graph break inside `try`, and a skipped function that compiled "
    "code calls cannot use a GPU that is not attached: put torch.compiler.disable on it, or mend what Dynamo skips it for"
)
#: Inductor's pattern for `x[torch.randperm(n)[:k]]`, as `t.inductor.matches` names it.
RANDPERM = "_misc_patterns_init.<locals>.randperm_index_pattern"


def advice(error: BaseException) -> str:
    """Advice on a compiler error; "" if there is none."""
    if type(error).__name__ == "BackendCompilerFailed" and any(isinstance(e, ImportError) for e in chain(error)):
        return (
            f"the backend {getattr(error, 'backend_name', '')!r} needs a package that is not installed, see below: install it or "
            "choose another, as explorer.backends() lists them with what works here"
        )
    if any(type(e).__name__ == "InvalidCxxCompiler" for e in chain(error)):
        return (
            "no C++ compiler works here, and Inductor needs one for the CPU: install g++ "
            "(Debian, Ubuntu: `apt install g++`; Fedora: `dnf install gcc-c++`; macOS: `xcode-select --install`)"
        )
    if FAILS_ON_RECOMPILE in str(error):
        return "a trace compiles the function anew, which the program's stance forbids: trace it outside of that stance"
    if said := no_driver(error):
        return said
    if any(isinstance(e, ModuleNotFoundError) and str(e.name).partition(".")[0] == "jax" for e in chain(error)):
        return "Inductor writes Pallas kernels here, which need JAX: pip install 'torch-compile-explorer[pallas]'"
    if kernel := refused_pallas_kernel(error):
        return (
            f"JAX does not compile the Pallas kernel {kernel} as Inductor wrote it: keep its operators out of the compiled "
            "function, or choose Inductor's C++, options={'cpu_backend': 'cpp'}"
        )
    if raised_in(PALLAS, error):
        said = (
            "Inductor's Pallas backend does not write this: keep its operators out of the compiled function, or choose "
            "Inductor's C++, options={'cpu_backend': 'cpp'}"
        )
        return with_user_lines(said, nodes_being_written(error))
    if any(type(e).__name__ == "NoValidChoicesError" for e in chain(error)):
        return (
            "no backend that max_autotune_gemm_backends names has a choice for this operator: the trace's failures say why of "
            "each; add ATEN to them, which has one for every operator"
        )
    if any(NO_HALIDE in str(e) for e in chain(error)):
        return "Inductor writes Halide kernels here, which need Halide: pip install 'torch-compile-explorer[halide]'"
    if refused_by_halide(error):
        said = (
            "Inductor's Halide backend does not write or compile this: keep its operators out of the compiled function, or "
            "choose Inductor's C++, options={'cpu_backend': 'cpp'}"
        )
        return with_user_lines(said, nodes_being_written(error))
    if any(type(e).__name__ == "FakeTensorDeviceMismatchError" or TWO_DEVICES in str(e) for e in chain(error)):
        return "a tensor is created on the CPU, which a GPU would refuse too: create it with a device, such as `device=x.device`"
    if any(type(e).__name__ == "DataDependentOutputException" and "_local_scalar_dense" in str(e) for e in chain(error)):
        return (
            "a number is read from a tensor inside a graph, as the counter of map and scan is; torch compiles that "
            "only after `torch._dynamo.config.capture_scalar_outputs = True`"
        )
    if any("Not all inputs to pattern found in match.kwargs" in str(e) and "slice_shape" in str(e) for e in chain(error)):
        return (
            "torch.compile fails so on every device: Inductor's pattern for torch.randperm as an index cannot replace one that "
            "takes all rows; leave it out by "
            f"without_pattern={RANDPERM!r}"
        )
    if any(HELION_ON_THE_CPU in str(e) for e in chain(error)):
        return (
            "Inductor compiles no Helion kernel for the CPU: trace the function for a GPU, which need not be here: target='h100'"
        )
    return needs_its_gpu(error) or refused_operator(error)


def refused_operator(error: BaseException) -> str:
    """Say what an operator has against its inputs, with the program's line; "" for other errors than Dynamo's for that.

    Dynamo runs each operator on tensors without data, so it meets what eager would meet at a real call.
    """
    if type(error).__name__ != "TorchRuntimeError" or not (places := places_of(str(error).partition("from user code:")[2])):
        return ""
    reason, place = list(chain(error))[-1], places[-1]
    said = str(reason).partition("\n")[0].rstrip(".")
    return f"{said}, at {place.file}:{place.line}: {place.code}" if said and reason is not error else ""


def needs_its_gpu(error: BaseException) -> str:
    """Advice on a stream, event, generator or skipped function, which needs the GPU itself; "" for other errors."""
    messages = "\n".join(map(str, chain(error)))
    if NO_GPU_OPERATOR.search(messages):
        return SKIPPED
    if any(words in messages for words in NO_GENERATOR):
        return GENERATOR
    if any(words in messages for words in ASKED_DRIVER):
        return DRIVER
    return STREAM if any(words in messages for words in NO_STREAMS) else ""


def no_driver(error: BaseException) -> str:
    """Advice if a Triton kernel was launched and triton found no GPU; "" for other errors."""
    if not any(isinstance(e, RuntimeError) and "active drivers" in str(e) for e in chain(error)):
        return ""
    if any(type(e).__name__ == "InductorError" for e in chain(error)):
        return (
            "cpu_backend asks for Triton kernels on the CPU, and no driver of triton for the CPU is here: leave it at 'cpp', "
            "or name a GPU, such as target='h100'"
        )
    return (
        "the program launches a Triton kernel, or asks triton for its GPU, and none is here: name one, as in "
        "explorer.trace(f, x, target='h100'), explorer.record('h100') or `explorer trace --target h100 SCRIPT`. The kernel is "
        "then compiled for that GPU, and interpreted on the CPU"
    )


def is_module_class(function: object) -> bool:
    """Whether this is a subclass of nn.Module, not an instance."""
    import torch

    return isinstance(function, type) and issubclass(function, torch.nn.Module)


def not_for_dynamo(function: object) -> str:
    """Advice on a callable that Dynamo does not trace into; "" for others."""
    import torch

    if isinstance(function, torch.jit.ScriptModule):
        return (
            f"{type(function).__name__} is TorchScript, which has its own compiler, and Dynamo does not trace into it: "
            "trace the module that it was scripted from"
        )
    if isinstance(function, torch.export.ExportedProgram):
        return "an ExportedProgram is not called itself: trace its module, explorer.trace(program.module(), x)"
    return ""


def is_generator(function: Any) -> bool:
    """Whether the code of a function or module runs only when its values are asked for."""
    import inspect

    return inspect.isgeneratorfunction(getattr(function, "forward", function))


def wrong_type(option: str, value: object) -> str:
    """The name of an Inductor option's type if `value` has another; "" if it fits or torch states none."""
    from torch._inductor import config

    kind: Any = config.get_type(option.replace("-", "_"))
    if getattr(kind, "__origin__", None) is not None or not isinstance(kind, type) or isinstance(value, kind):
        return ""
    return kind.__name__


def entry_code(function: Any) -> Any:
    """The code object of a function, a method or a module's forward; None for callables without one."""
    for candidate in (getattr(function, "forward", None), function, vars(type(function)).get("__call__")):
        code = getattr(getattr(candidate, "__func__", candidate), "__code__", None)
        if code is not None:
            return code
    return None


def registered_backends() -> tuple[str, ...]:
    """The names of all registered backends, including those for debugging."""
    import torch

    return tuple(torch._dynamo.list_backends(None))


def freezes(options: Mapping[str, Any] | None) -> bool:
    """Whether Inductor would fold the parameters into the graph as constants."""
    from torch._inductor import config

    return bool((options or {}).get("freezing", config.freezing))


def valid_options(backend: Any) -> tuple[str, ...]:
    """The names that Inductor takes in `options=`; none for other backends."""
    if backend != "inductor":
        return ()
    import torch._inductor

    return tuple(torch._inductor.list_options())


def valid_modes() -> tuple[str, ...]:
    """The names torch.compile takes in `mode=`."""
    import torch._inductor

    return ("default", *(m for m in torch._inductor.list_mode_options() if m != "default"))


def mode_options(mode: str) -> dict[str, Any]:
    """The options that a mode sets."""
    import torch._inductor

    return dict(torch._inductor.list_mode_options(mode))


def options_of(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Inductor's options of a compile with such a mode or such options, by the names of its settings."""
    given = {**(mode_options(mode) if mode else {}), **(options or {})}
    return {str(name).replace("-", "_"): value for name, value in given.items()}


def asks_for_cuda_graphs(mode: str) -> bool:
    """Whether a mode has Inductor capture CUDA graphs where it can."""
    return bool(mode_options(mode).get("triton.cudagraphs", False)) if mode != "default" else False


def torch_versions() -> dict[str, str]:
    """The versions of torch, triton and Python."""
    from explorer.capture.observe.versions import python_version, version_of

    return {"torch": version_of("torch"), "triton": version_of("triton"), "python": python_version()}


def not_compiling() -> str:
    """Why torch.compile compiles nothing in this process; "" if it compiles."""
    from explorer.capture.observe.failed import not_compiling as why

    return why()
