"""A Triton kernel down the ladder, for a GPU that need not be here: TTIR, TTGIR, LLIR, PTX and cubin, or AMDGCN and hsaco.

    source → (executed under the pretence that the GPU is there) → autotune candidates → unoptimized TTIR
           → (in a worker process) every stage of triton's backend → Ladder

Only triton's Python front end runs in this process; MLIR's passes, LLVM and ptxas run in a worker, so that a crash
there is an error here. Nothing is written to triton's cache, and no driver or device is asked for.
"""

from __future__ import annotations

import copy
import inspect
import linecache
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from explorer.errors import CompileError, ExplorerError, InputError
from explorer.gpus.figures import Target
from explorer.gpus.occupancy import occupancy
from explorer.ladder.triton_pool import Pool, Worker
from explorer.ladder.triton_tools import amdgcn_resources, disassemble, missing_backend, ptxas_resources
from explorer.model.values import EMPTY, Plain, plain, text_lines
from explorer.observe.launched import Launched, described
from explorer.observe.patch import added, replaced
from explorer.observe.versions import oldest_capability

#: Triton's stages that are texts, in order, by backend.
TEXTS = {"cuda": ("ttir", "ttgir", "llir", "ptx"), "hip": ("ttir", "ttgir", "llir", "amdgcn"), "xpu": ("ttir", "ttgir", "llir")}
#: What the last stage makes, by backend: the name of the binary.
BINARIES = {"cuda": "cubin", "hip": "hsaco", "xpu": "spv"}
#: What triton's metadata says of a kernel that people ask for.
_FACTS = (
    "num_warps",
    "num_ctas",
    "num_stages",
    "shared",
    "tmem_size",
    "global_scratch_size",
    "maxnreg",
    "enable_fp_fusion",
    "launch_pdl",
    "launch_cooperative_grid",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
)


@dataclass(frozen=True)
class Lowered:
    """A kernel as triton's front end leaves it: unoptimized TTIR, and what the backend is to make of it.

    `file` and `first_line` say where its source's lines are in the locations. `config` is the candidate that was
    taken, `grid` the launch grid's three expressions in the kernel's size arguments, () where it has none of its own.
    `scaled(registers)` gives the configs that Inductor adds where this one takes that many registers.
    """

    name: str
    target: Target
    ttir: str = field(repr=False)
    options: Mapping[str, Any]
    config: Mapping[str, Plain]
    candidates: tuple[Mapping[str, Plain], ...]
    file: str
    first_line: int = 1
    arguments: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    scaled: Callable[[int], tuple[Mapping[str, Plain], ...]] = field(default=lambda registers: (), repr=False, compare=False)

    @property
    def job(self) -> dict[str, Any]:
        """What a worker is asked."""
        return {"ttir": self.ttir, "triple": self.target.triple, "options": dict(self.options)}


@dataclass(frozen=True)
class Ladder:
    """One kernel in every form from TTIR to the binary, compiled for `target` with the autotune candidate `config`.

    `texts` maps "ttir", "ttgir", "llir" and "ptx" or "amdgcn" to their texts; `binary` is the cubin, hsaco or SPIR-V. `metadata`
    has num_warps, num_stages, shared (bytes a block), registers (a thread), stack, spill_stores and spill_loads (bytes
    a thread; on AMD spilled_registers), and `occupancy`. `seconds` is the time of each stage. `candidates` are all
    configs that would be tried on the device, the first being the one taken where none is measured; `measured` has those
    that an attached GPU tried, each with its `ms`. `launched` is True where texts and binary are those of the launch on
    the attached GPU, and `chosen` says why this config was taken.
    """

    name: str
    target: Target
    config: Mapping[str, Plain]
    candidates: tuple[Mapping[str, Plain], ...]
    file: str
    first_line: int
    texts: Mapping[str, str] = field(repr=False)
    metadata: Mapping[str, Plain]
    binary: bytes = field(repr=False)
    seconds: Mapping[str, float] = field(default_factory=lambda: EMPTY, compare=False)
    arguments: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    compiled_as: str = ""
    measured: tuple[Mapping[str, Plain], ...] = ()
    launched: bool = False
    chosen: str = ""
    lowered: Lowered | None = field(default=None, repr=False, compare=False)

    def sass(self) -> str:
        """The machine code of an NVIDIA kernel with its source lines (0.3 s); InputError for AMD and Intel."""
        if self.target.vendor != "nvidia":
            instead = {"amd": "the text 'amdgcn'", "intel": "made of the SPIR-V in `binary` by the driver"}[self.target.vendor]
            raise InputError(f"{self.target.name} has no SASS: its machine code is {instead}")
        return self.own(disassemble(self.binary))

    def renamed(self, name: str) -> Ladder:
        """The same kernel under another name, as for an identical kernel of the same program.

        The binary and the bytes of its debug information keep the name it was `compiled_as`.
        """
        named = replace(self, name=name, file=f"{name}.py", compiled_as=self.compiled_as or self.name)
        return replace(named, texts=plain({stage: named.own(text) for stage, text in self.texts.items()}))

    def own(self, text: str) -> str:
        """A text of this kernel's binary, with this kernel's name in it."""
        return re.sub(rf"(?<!\w){re.escape(self.compiled_as)}(?![A-Za-z0-9])", self.name, text) if self.compiled_as else text


#: A kernel that a worker has, one that the attached GPU has launched, or the error of one that did not come so far.
Begun: TypeAlias = "tuple[Lowered, Future[dict[str, Any]]] | Ladder | ExplorerError"


def compile_ladder(source: str, name: str, target: Target, config: int | Mapping[str, Plain] | None = None) -> Ladder:
    """Take a kernel's source, as Inductor writes it, down the ladder (0.2 s and more, 0.2 s of it to start a worker).

    `config` chooses among the kernel's autotune candidates by index, or gives one by its values; None takes the first.
    InputError for a source that is no Python, uses what is not defined, or has no Triton kernel; CompileError, with
    what the compiler said, where a stage fails or crashes.
    """
    lowered = lower(source, name, target, config)
    with Worker(assembler(target)) as worker:
        return finished(lowered, worker.ask(lowered.job))


def compile_ladders(
    kernels: Sequence[tuple[str, str]], target: Target, workers: int = 0, launches: Sequence[Launched | None] = ()
) -> list[Ladder | ExplorerError]:
    """The ladder of each (name, source), in order; for one that does not compile its error.

    Kernels that differ in nothing but their names are compiled once. `workers` is the number of processes, by default
    one a core and one for every eight kernels, at most 4. `launches` has what the attached GPU launched of each kernel,
    which is then not compiled again, and None for the others.
    """
    with UnderWay(target, workers) as under_way:
        under_way.begin(kernels, launches)
        return under_way.finished(kernels)


class UnderWay:
    """Kernels on their way down the ladder: begun as soon as they are known, and waited for when they are needed.

    The first worker process starts with the object, and imports triton while Dynamo and Inductor are still at work.
    """

    def __init__(self, target: Target, workers: int = 0) -> None:
        self._target, self._workers = target, workers
        self._begun: dict[str, tuple[str, Begun]] = {}
        self._launched: dict[tuple[str, str], Launched] = {}
        self._pool = Pool(workers or 1, assembler(target))

    def begin(self, kernels: Sequence[tuple[str, str]], launches: Sequence[Launched | None] = ()) -> None:
        """Take each (name, source) through triton's front end and hand it to a worker, unless an identical one was.

        `launches` has what the attached GPU launched of each, which is then not compiled again, and None for the others.
        """
        self._launched |= {kernel: launch for kernel, launch in zip(kernels, launches, strict=False) if launch is not None}
        self._pool.grow(self._workers or min(os.cpu_count() or 1, len(kernels) // 8))
        for kernel in kernels:
            if (key := self._key(kernel)) not in self._begun:
                name, source = kernel
                self._begun[key] = source, _begun(source, name, self._target, self._pool, self._launched.get(kernel))

    def _key(self, kernel: tuple[str, str]) -> str:
        """What kernels that need be compiled only once share; each launch is its own."""
        return f"{kernel[0]} {_key(*kernel)}" if kernel in self._launched else _key(*kernel)

    def finished(self, kernels: Sequence[tuple[str, str]]) -> list[Ladder | ExplorerError]:
        """The ladder of each (name, source) that was begun, in order, or its error; waits for those that are not done."""
        done = {key: _waited(begun, self._pool, source) for key, (source, begun) in self._begun.items()}
        return [_own(done[self._key(kernel)], kernel[0]) for kernel in kernels]

    def __enter__(self) -> UnderWay:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()


def _key(name: str, source: str) -> str:
    """What identical kernels share: the source without the kernel's own name."""
    return re.sub(rf"\b{re.escape(name)}\b", "kernel", source)


def assembler(target: Target) -> dict[str, str]:
    """The environment in which torch runs triton for Inductor's kernels: with CUDA's own ptxas where torch brings it.

    A build for the CPU brings none, and CUDA 13's knows no GPU before Turing; then it is triton's own, which is older and takes
    an older version of PTX.
    """
    if isinstance(target.arch, int) and target.arch < oldest_capability():
        return {}
    from torch._inductor.runtime import compile_tasks

    name, before = "TRITON_PTXAS_PATH", os.environ.get("TRITON_PTXAS_PATH")
    try:
        inspect.unwrap(compile_tasks._set_triton_ptxas_path)()
        path = os.environ.get(name)
    finally:
        if before is None:
            os.environ.pop(name, None)
    return {name: path} if path else {}


def _begun(source: str, name: str, target: Target, pool: Pool, launch: Launched | None) -> Begun:
    try:
        if launch is not None:
            return of_launch(lower(source, name, target, launch.config), launch)
        lowered = lower(source, name, target)
    except ExplorerError as error:
        return error
    return lowered, pool.submit(lowered.job)


def _waited(begun: Begun, pool: Pool, source: str) -> Ladder | ExplorerError:
    if not isinstance(begun, tuple):
        return begun
    try:
        return with_scaled(finished(begun[0], begun[1].result()), source, pool)
    except ExplorerError as error:
        return error


def _own(ladder: Ladder | ExplorerError, name: str) -> Ladder | ExplorerError:
    return ladder.renamed(name) if isinstance(ladder, Ladder) and ladder.name != name else ladder


def with_scaled(ladder: Ladder, source: str, pool: Pool) -> Ladder:
    """The ladder with the candidates that Inductor adds once it knows a reduction's registers: smaller blocks.

    Each is compiled in its turn, since it may need too many registers itself.
    """
    known, at = list(ladder.candidates), ladder
    while more := [c for c in _scaled(at) if c not in known]:
        known += more
        lowered = lower(source, ladder.name, ladder.target, more[0])
        at = finished(lowered, pool.submit(lowered.job).result())
    return replace(ladder, candidates=tuple(known))


def _scaled(ladder: Ladder) -> tuple[Mapping[str, Plain], ...]:
    return ladder.lowered.scaled(int(ladder.metadata.get("registers", 0))) if ladder.lowered is not None else ()


def finished(lowered: Lowered, answer: Mapping[str, Any]) -> Ladder:
    """The Ladder of a worker's answer."""
    raw, texts = answer["metadata"], {stage: answer["texts"][stage] for stage in TEXTS[lowered.target.backend]}
    used: dict[str, Plain] = {}
    if lowered.target.vendor == "nvidia":
        used = ptxas_resources(answer["said"])
    elif lowered.target.vendor == "amd":
        used = amdgcn_resources(texts["amdgcn"])
    return _ladder(lowered, texts, answer["binary"], facts_of(lowered.target, raw, used), seconds=plain(answer["seconds"]))


def of_launch(lowered: Lowered, launch: Launched) -> Ladder:
    """The Ladder of what the attached GPU launched: its texts and binary, and the registers that the driver counts."""
    texts = {stage: launch.texts[stage] for stage in TEXTS[lowered.target.backend] if stage in launch.texts}
    used: dict[str, Plain] = {"registers": launch.registers, "stack": launch.local}
    if not launch.local:
        used.update(spill_stores=0, spill_loads=0)
    if lowered.target.vendor == "amd" and "amdgcn" in texts:
        used |= amdgcn_resources(texts["amdgcn"])
    facts, own = facts_of(lowered.target, launch.metadata, used), replace(lowered, file=launch.file, first_line=launch.first_line)
    return _ladder(own, texts, launch.binary, facts, measured=launch.measured, launched=True, chosen=why(launch))


def why(launch: Launched) -> str:
    """Why a config was launched: it was the fastest of those that were timed, or there was no other."""
    if launch.from_cache:
        return "measured the fastest by an earlier compile, in Inductor's autotune cache"
    if len(launch.measured) > 1:
        return f"measured the fastest of {len(launch.measured)}"
    return "the only candidate"


def facts_of(target: Target, raw: Mapping[str, Any], used: Mapping[str, Plain]) -> dict[str, Plain]:
    """What people ask of a kernel: triton's own metadata, what the binary uses, and how many blocks of it fit."""
    facts: dict[str, Plain] = {**{key: raw[key] for key in _FACTS if raw.get(key) is not None}, **used}
    if target.vendor != "intel":  # its registers are given out by the driver, which compiles the SPIR-V
        facts["occupancy"] = _occupancy(target, facts)
    return facts


def _ladder(lowered: Lowered, texts: Mapping[str, str], binary: bytes, facts: Mapping[str, Plain], **more: Any) -> Ladder:
    return Ladder(
        lowered.name,
        lowered.target,
        lowered.config,
        lowered.candidates,
        lowered.file,
        lowered.first_line,
        plain(texts),
        plain(facts),
        binary,
        arguments=lowered.arguments,
        grid=lowered.grid,
        prefix=lowered.prefix,
        lowered=lowered,
        **more,
    )


def _occupancy(target: Target, facts: Mapping[str, Any]) -> dict[str, Plain]:
    fits = occupancy(target, int(facts["num_warps"]), int(facts.get("registers", 0)), int(facts.get("shared") or 0))
    return {
        "blocks": fits.blocks,
        "warps": fits.warps,
        "fraction": fits.fraction,
        "limited_by": fits.limited_by,
        "limits": dict(fits.limits),
    }


# The front end -------------------------------------------------------------------------------------------------------


def lower(source: str, name: str, target: Target, config: int | Mapping[str, Plain] | None = None) -> Lowered:
    """Execute a kernel's source as Inductor writes it, and take its function through triton's front end."""
    file = f"{name}.py"
    with ExitStack() as stack:
        stack.enter_context(pretending(target))
        stack.enter_context(inductor_ready(target))
        stack.enter_context(lines_of(file, source))
        tuner = autotuner(executed(source, name, file), name)
        candidates = tuple(described(c) for c in tuner.configs)
        chosen = choose(tuner.configs, config)
        src, options = asked_of_triton(tuner, chosen, name)
        grid, prefix = grid_of(tuner, chosen)
        ttir = front_end(src, options, target, name)

    def scaled(registers: int) -> tuple[Mapping[str, Plain], ...]:
        with pretending(target), inductor_ready(target):
            return tuple(described(c) for c in smaller_blocks(tuner, chosen, registers))

    given = (p.name for p in tuner.fn.params if not p.is_constexpr and p.name not in chosen.kwargs)
    arguments = (*given, *tuner.inductor_meta.get("extra_launcher_args", ()))
    return Lowered(name, target, ttir, options, described(chosen), candidates, file, 1, arguments, grid, prefix, scaled)


def smaller_blocks(tuner: Any, config: Any, registers: int) -> list[Any]:
    """The configs that Inductor adds to a reduction whose registers let too few blocks run at once, by its own rule."""
    from types import SimpleNamespace

    own, found = copy.copy(tuner), []

    def keep(made: Any) -> Any:
        found.append(made)
        return SimpleNamespace(config=made, kernel=SimpleNamespace(n_regs=None))

    own.compile_results = [SimpleNamespace(config=config, kernel=SimpleNamespace(n_regs=registers))]
    own._precompile_config, own._make_launchers = keep, lambda: None
    own._dynamic_scale_rblock()
    return found


def executed(source: str, name: str, file: str) -> dict[str, Any]:
    """The names that a kernel's source defines; InputError, with the line, for a source that cannot be executed."""
    space: dict[str, Any] = {"__name__": f"explorer_kernel_{name}", "__file__": file}
    try:
        exec(compile(source, file, "exec"), space)
    except SyntaxError as error:
        raise InputError(f"{name} is not valid Python: line {error.lineno}: {error.msg}: {(error.text or '').strip()}") from error
    except Exception as error:  # a kernel's source may raise anything
        line = _line_in(error, file)
        raise InputError(f"{name} cannot be executed: {line}{type(error).__name__}: {error}") from error
    return space


def _line_in(error: BaseException, file: str) -> str:
    """ "line 3: " for an error that went through line 3 of `file`."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    return f"line {line}: " if line else ""


def autotuner(space: Mapping[str, Any], name: str) -> Any:
    """Inductor's CachingAutotuner that a kernel's source defines; InputError where there is none."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    found = [value for value in space.values() if isinstance(value, CachingAutotuner)]
    named = [value for value in found if value.fn.__name__ == name]
    if not found:
        raise InputError(f"{name} has no function under @triton_heuristics and @triton.jit, as Inductor writes it")
    return (named or found)[-1]


def choose(configs: Sequence[Any], wanted: int | Mapping[str, Plain] | None) -> Any:
    """The config of that index or of those values; a mapping that is none of them changes the first config's values."""
    if wanted is None:
        return configs[0]
    if isinstance(wanted, int):
        if not -len(configs) <= wanted < len(configs):
            raise InputError(f"there are {len(configs)} configs, numbered from 0; there is no config {wanted}")
        return configs[wanted]
    if not isinstance(wanted, Mapping):
        raise InputError(f"a config is a number of those in candidates, or a mapping such as {{'num_warps': 8}}, not {wanted!r}")
    same = [config for config in configs if described(config) == plain(wanted)]
    if same:
        return same[0]
    made = copy.deepcopy(configs[0])
    for key, value in wanted.items():
        if key in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
            setattr(made, key, value)
        elif key in made.kwargs:
            made.kwargs[key] = value
        else:
            raise InputError(f"config has no {key!r}: it has {', '.join(map(repr, described(configs[0])))}")
    return made


def grid_of(tuner: Any, config: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inductor's expressions for the launch grid, and the assignments that these need; () where it states none.

    Those of combo kernels depend on more than one config says, and are left out.
    """
    from torch._inductor.runtime.triton_heuristics import GridExpr

    if "grid_type" not in tuner.inductor_meta:
        return (), ()
    try:
        made = GridExpr.from_meta(tuner.inductor_meta, config)
    except (AssertionError, KeyError, TypeError):
        return (), ()
    return (str(made.x_grid), str(made.y_grid), str(made.z_grid)), tuple(map(str, made.prefix))


def asked_of_triton(tuner: Any, config: Any, name: str) -> tuple[Any, Mapping[str, Any]]:
    """What Inductor asks triton to compile for a config; CompileError where Inductor's heuristics fail on it."""
    try:
        return captured(lambda: tuner._precompile_config(config))
    except Exception as error:  # whatever fails in Inductor is said
        raise CompileError(f"Inductor's heuristics failed on {name}: {type(error).__name__}: {error}") from error


class _Captured(BaseException):
    """What triton.compile was called with."""

    def __init__(self, source: Any, options: Mapping[str, Any]) -> None:
        self.source, self.options = source, options


def captured(action: Callable[[], object], *places: Any) -> tuple[Any, Mapping[str, Any]]:
    """The source and options with which `action` calls triton.compile, instead of compiling."""
    import triton

    def instead(src: Any, target: Any = None, options: Any = None, **rest: Any) -> None:
        raise _Captured(src, dict(options or {}))

    with ExitStack() as stack:
        for place in (triton, *places):
            stack.enter_context(replaced(place, "compile", lambda _: instead))
        try:
            action()
        except _Captured as call:
            return call.source, call.options
    raise CompileError("triton was not asked to compile anything")


def front_end(src: Any, options: Mapping[str, Any], target: Target, name: str) -> str:
    """The unoptimized TTIR of an ASTSource; InputError, with the line, for what triton's front end refuses.

    CompileError where the installed triton has no backend for the target.
    """
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    from triton.compiler.errors import CompilationError

    if missing := missing_backend(target):
        raise CompileError(missing)
    gpu = GPUTarget(*target.triple)
    backend = make_backend(gpu)
    try:
        chosen = backend.parse_options({**options, **src.parse_options()})
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        code, modules = backend.get_codegen_implementation(chosen), backend.get_module_map()
        module = src.make_ir(gpu, chosen, code, modules, context)
    except CompilationError as error:
        raise InputError(refusal(error, src.fn, name)) from error
    except Exception as error:  # whatever fails in triton is said
        raise CompileError(f"triton's front end failed on {name}: {type(error).__name__}: {error}") from error
    return portable(str(module))


def portable(text: str) -> str:
    """A text whose locations in the installed torch and triton are written as on every machine."""
    return re.sub(r'"[^"\n]*packages/((?:torch|triton)/[^"\n]*)"', r'"\1"', text)


def refusal(error: Any, function: Any, name: str) -> str:
    """What triton's front end has against a kernel: line, message, and the line's text."""
    innermost = error
    while isinstance(innermost.__cause__, type(error)):
        innermost = innermost.__cause__
    said = re.sub(r"^\w+\((['\"])(.*)\1\)$", r"\2", innermost.error_message or str(innermost.__cause__ or innermost))
    first, text = def_line(function), text_lines(error.src or "")
    number = getattr(error.node, "lineno", 1)
    shown = text[number - 1].strip() if 0 < number <= len(text) else ""
    return f"{name} line {first + number - 1}: {said}: {shown}"


def def_line(function: Any) -> int:
    """The line of a triton.jit function's `def` in its file, from which triton counts."""
    lines: list[str] = function.raw_src
    skipped = next((n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return int(function.starting_line_number) + skipped


@contextmanager
def lines_of(file: str, source: str) -> Iterator[None]:
    """Let Python find the lines of a source that is in no file, as triton.jit reads them."""
    before = linecache.cache.get(file)
    linecache.cache[file] = (len(source), None, text_lines(source, ends=True), file)
    try:
        yield
    finally:
        if before is None:
            linecache.cache.pop(file, None)
        else:
            linecache.cache[file] = before


# The pretence --------------------------------------------------------------------------------------------------------


class AbsentDriver:
    """Triton's driver for a GPU that is not there: it names the target and launches nothing."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.device = f"explorer:{target.name}"

    def get_current_target(self) -> Any:
        """Triton's GPUTarget."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget(*self._target.triple)

    def get_current_device(self) -> str:
        """A device that no kernel cache knows."""
        return self.device

    def get_current_stream(self, device: object) -> int:
        """No stream."""
        return 0

    def get_active_torch_device(self) -> Any:
        """The CPU, where the arguments are."""
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., float]:
        """Nothing can be timed on a GPU that is not there."""
        return lambda *args, **kwargs: 0.0


@contextmanager
def pretending(target: Target) -> Iterator[None]:
    """Inside the block triton's front end sees the target's driver."""
    from triton.runtime import driver

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        absent = AbsentDriver(target)
        with added(type(driver), "active", property(lambda _: absent)):
            yield


@contextmanager
def inductor_ready(target: Target) -> Iterator[None]:
    """Inside the block Inductor's heuristics take the target for the device, and no autotune cache is read."""
    import torch
    from torch._inductor.runtime import hints, triton_helpers, triton_heuristics

    with ExitStack() as stack:
        stack.enter_context(replaced(triton_helpers, "set_driver_to_gpu", lambda _: lambda: None))
        stack.enter_context(added(hints, "DeviceProperties", _properties_of(hints.DeviceProperties, target)))
        stack.enter_context(
            replaced(triton_heuristics, "check_autotune_cache", lambda _: lambda configs, *a, **k: (configs, None, {}))
        )
        if target.vendor == "amd" and not torch.version.hip:
            stack.enter_context(added(torch.version, "hip", "6.4"))
        directory = os.environ.get("TRITON_CACHE_DIR")
        try:
            yield
        finally:
            if directory is None:
                os.environ.pop("TRITON_CACHE_DIR", None)


def _properties_of(own: Any, target: Target) -> Callable[..., Any]:
    """DeviceProperties that keep what a source says of its own target, and else say what the target's figures are."""

    def made(**said: Any) -> Any:
        if said.get("type") == target.backend and said.get("cc") in (target.arch, target.triple[1]):
            return own(**said)
        figures = {
            "type": target.backend,
            "index": 0,
            "multi_processor_count": target.multiprocessors,
            "cc": target.triple[1],
            "major": target.capability[0],
            "regs_per_multiprocessor": target.registers,
            "max_threads_per_multi_processor": target.threads,
            "max_threads_per_block": target.threads_per_block,
            "warp_size": target.warp,
        }
        return own(**{key: value for key, value in figures.items() if key in own._fields})

    return made


__all__ = ["Ladder", "Lowered", "UnderWay", "compile_ladder", "compile_ladders", "described", "lower"]
