"""Compile a Triton kernel to machine code, in every form, also for an absent GPU.

    source → (executed while triton and Inductor see the target) → autotune candidates → unoptimized TTIR
           → (in a worker process) every stage of triton's backend → Ladder

The forms are TTIR, TTGIR, LLIR, and PTX and cubin or AMDGCN and hsaco. Only triton's Python front end runs in this process.
MLIR's passes, LLVM and ptxas run in a worker, so that a crash there is an error here. Nothing is written to triton's cache,
and no driver or device is asked.
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
from functools import partial
from typing import Any, TypeAlias

from explorer.capture.ladder.absent_driver import AbsentDriver
from explorer.capture.ladder.triton_pool import Pool, Worker
from explorer.capture.ladder.triton_tools import amdgcn_resources, disassemble, missing_backend, ptxas_resources
from explorer.capture.observe.launched import Launched, described
from explorer.capture.observe.patch import added, answered, replaced
from explorer.capture.observe.versions import oldest_capability
from explorer.errors import CompileError, ExplorerError, InputError
from explorer.model.deferred import defer, deferrable
from explorer.model.values import EMPTY, Plain, plain, text_lines
from explorer.reference.gpus.figures import Target
from explorer.reference.gpus.occupancy import occupancy
from explorer.reference.gpus.properties import torch_properties
from explorer.stages.inductor.helion import REMEDY, is_helion

#: Triton's stages that produce text, in order, by backend.
TEXTS = {"cuda": ("ttir", "ttgir", "llir", "ptx"), "hip": ("ttir", "ttgir", "llir", "amdgcn"), "xpu": ("ttir", "ttgir", "llir")}
#: The name of the binary that the last stage produces, by backend.
BINARIES = {"cuda": "cubin", "hip": "hsaco", "xpu": "spv"}
#: The entries of triton's metadata that a ladder keeps.
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


@deferrable("ttir")
@dataclass(frozen=True)
class Lowered:
    """A kernel after triton's front end: unoptimized TTIR, and the options for the backend.

    `file` and `first_line` locate its source's lines. `config` is the candidate that was taken. `grid` has the launch grid's
    three expressions in the kernel's size arguments, () if it states none. `scaled(registers)` gives the configs that
    Inductor adds if this one uses that many registers.
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
        """The request to a worker process."""
        return {"ttir": self.ttir, "triple": self.target.triple, "options": dict(self.options)}


@dataclass(frozen=True)
class Ladder:
    """One kernel in every form from TTIR to the binary, compiled for `target` with the autotune candidate `config`.

    `texts` maps "ttir", "ttgir", "llir" and "ptx" or "amdgcn" to their texts; `binary` is the cubin, hsaco or SPIR-V. `metadata`
    has num_warps, num_stages, shared (bytes a block), registers (a thread), stack, spill_stores and spill_loads (bytes
    a thread; on AMD spilled_registers), and `occupancy`. `seconds` is the time of each stage. `candidates` are all
    configs that autotuning would time; the first is taken if none is timed. `measured` has those that an attached GPU
    timed, each with its `ms`. `launched` is True if texts and binary come from the launch on the attached GPU.
    `chosen` says why this config was taken.
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
        return self.with_own_name(disassemble(self.binary))

    def renamed(self, name: str) -> Ladder:
        """The same kernel under another name, for an identical kernel of the same program.

        The binary and the bytes of its debug information keep the name it was `compiled_as`.
        """
        named = replace(self, name=name, file=f"{name}.py", compiled_as=self.compiled_as or self.name)
        return replace(named, texts=plain({stage: named.with_own_name(text) for stage, text in self.texts.items()}))

    def with_own_name(self, text: str) -> str:
        """A text made from the binary, with this kernel's name in place of the one it was compiled as."""
        return re.sub(rf"(?<!\w){re.escape(self.compiled_as)}(?![A-Za-z0-9])", self.name, text) if self.compiled_as else text


#: A kernel that a worker compiles, one that the attached GPU has launched, or the error from triton's front end.
PendingLadder: TypeAlias = "tuple[Lowered, Future[dict[str, Any]]] | Ladder | ExplorerError"


def compile_ladder(
    source: str,
    name: str,
    target: Target,
    config: int | Mapping[str, Plain] | None = None,
    override: Mapping[str, str] | None = None,
) -> Ladder:
    """Compile a kernel's source, as Inductor writes it, to machine code (0.2 s and more, 0.2 s of it to start a worker).

    `config` chooses among the kernel's autotune candidates by index, or gives one by its values; None takes the first.
    `override` maps a stage to a text that replaces triton's own: triton goes on from that text. Raises InputError for a
    source that is not valid Python, uses undefined names, or has no Triton kernel. Raises CompileError, with the compiler's
    output, if a stage fails or crashes.
    """
    lowered = lower(source, name, target, config)
    with Worker(assembler(target)) as worker:
        return ladder_from_answer(lowered, worker.ask({**lowered.job, "override": dict(override or {})}))


def compile_ladders(
    kernels: Sequence[tuple[str, str]], target: Target, workers: int = 0, launches: Sequence[Launched | None] = ()
) -> list[Ladder | ExplorerError]:
    """The ladder of each (name, source), in order, or its error.

    Kernels that differ only in their names are compiled once. `workers` is the number of processes, by default one a core
    and one for every eight kernels, at most 4. `launches` has what the attached GPU launched of each kernel, or None; a
    launched kernel is not compiled again.
    """
    with LadderWorkers(target, workers) as pool:
        pool.submit(kernels, launches)
        return pool.results(kernels)


class LadderWorkers:
    """Worker processes that compile kernels while the program compiles on.

    A kernel is submitted as soon as its source exists, and waited for when its ladder is needed. The first worker process
    starts with the object, and imports triton while Dynamo and Inductor still work; unless `at_once`, it starts with the first
    kernel that was not launched. `lower_one` lowers a source as `lower` does.
    """

    def __init__(
        self, target: Target, workers: int = 0, *, at_once: bool = True, lower_one: Callable[..., Lowered] | None = None
    ) -> None:
        self._target, self._workers, self._lower = target, workers, lower_one or lower
        self._pending: dict[str, tuple[str, PendingLadder]] = {}
        self._launched: dict[tuple[str, str], Launched] = {}
        self._pool = Pool((workers or 1) if at_once else 0, assembler(target))
        self._dialects = Dialects()

    def submit(self, kernels: Sequence[tuple[str, str]], launches: Sequence[Launched | None] = ()) -> None:
        """Take each (name, source) through triton's front end and hand it to a worker, once if identical.

        `launches` has what the attached GPU launched of each, which is then not compiled again, and None for the others.
        """
        self._launched |= {kernel: launch for kernel, launch in zip(kernels, launches, strict=False) if launch is not None}
        if to_compile := sum(kernel not in self._launched for kernel in kernels):
            self._pool.grow(self._workers or max(1, min(os.cpu_count() or 1, to_compile // 8)))
        for kernel in kernels:
            if (key := self._key(kernel)) not in self._pending:
                name, source = kernel
                self._pending[key] = source, self._start(source, name, self._launched.get(kernel))

    def _start(self, source: str, name: str, launch: Launched | None) -> PendingLadder:
        try:
            if launch is not None:
                return of_launch(lower_later(source, name, self._target, launch.config), launch)
            lowered = self._lower(source, name, self._target, None, self._dialects)
        except ExplorerError as error:
            return error
        return lowered, self._pool.submit(lowered.job)

    def _key(self, kernel: tuple[str, str]) -> str:
        """The key that identical kernels share; a kernel that the attached GPU launched has its own."""
        return f"{kernel[0]} {_key(*kernel)}" if kernel in self._launched else _key(*kernel)

    def results(self, kernels: Sequence[tuple[str, str]]) -> list[Ladder | ExplorerError]:
        """Wait for the submitted kernels: the ladder of each (name, source), in order, or its error."""
        done = {key: _result(pending, self._pool, source) for key, (source, pending) in self._pending.items()}
        return [_renamed(done[self._key(kernel)], kernel[0]) for kernel in kernels]

    def __enter__(self) -> LadderWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()


def _key(name: str, source: str) -> str:
    """The source without the kernel's name, which identical kernels share."""
    return re.sub(rf"\b{re.escape(name)}\b", "kernel", source)


def assembler(target: Target) -> dict[str, str]:
    """Return the environment in which torch runs triton: with the ptxas that torch brings, if any.

    A CPU build brings none, and CUDA 13's ptxas supports no GPU before Turing. Then triton's own ptxas is used, which is
    older and takes an older version of PTX.
    """
    if isinstance(target.arch, int) and target.arch < oldest_capability():
        return {}
    path = torch_ptxas()
    return {"TRITON_PTXAS_PATH": path} if path else {}


def torch_ptxas() -> str:
    """Return the ptxas that torch has triton use; "" where it brings none."""
    from torch._inductor.runtime import compile_tasks

    name, before = "TRITON_PTXAS_PATH", os.environ.get("TRITON_PTXAS_PATH")
    try:
        inspect.unwrap(compile_tasks._set_triton_ptxas_path)()
        return os.environ.get(name) or ""
    finally:
        if before is None:
            os.environ.pop(name, None)


def _result(pending: PendingLadder, pool: Pool, source: str) -> Ladder | ExplorerError:
    if not isinstance(pending, tuple):
        return pending
    lowered, answer = pending
    try:
        return with_scaled(ladder_from_answer(lowered, answer.result()), source, pool)
    except ExplorerError as error:
        return error


def _renamed(ladder: Ladder | ExplorerError, name: str) -> Ladder | ExplorerError:
    return ladder.renamed(name) if isinstance(ladder, Ladder) and ladder.name != name else ladder


def with_scaled(ladder: Ladder, source: str, pool: Pool) -> Ladder:
    """Add the smaller-block candidates that Inductor adds once it knows a reduction's registers.

    Each is compiled in turn, since it may need too many registers itself.
    """
    candidates, last = list(ladder.candidates), ladder
    while more := [c for c in _scaled(last) if c not in candidates]:
        candidates += more
        lowered = lower(source, ladder.name, ladder.target, more[0])
        last = ladder_from_answer(lowered, pool.submit(lowered.job).result())
    return replace(ladder, candidates=tuple(candidates))


def _scaled(ladder: Ladder) -> tuple[Mapping[str, Plain], ...]:
    return ladder.lowered.scaled(int(ladder.metadata.get("registers", 0))) if ladder.lowered is not None else ()


def ladder_from_answer(lowered: Lowered, answer: Mapping[str, Any]) -> Ladder:
    """Make the Ladder of a worker's answer."""
    raw, texts = answer["metadata"], {stage: answer["texts"][stage] for stage in TEXTS[lowered.target.backend]}
    used: dict[str, Plain] = {}
    if lowered.target.vendor == "nvidia":
        used = ptxas_resources(answer["printed"])
    elif lowered.target.vendor == "amd":
        used = amdgcn_resources(texts["amdgcn"])
    return _ladder(lowered, texts, answer["binary"], facts_of(lowered.target, raw, used), seconds=plain(answer["seconds"]))


def of_launch(lowered: Lowered, launch: Launched) -> Ladder:
    """Make the Ladder of a kernel that the attached GPU launched, with the registers that the driver counts."""
    texts = {stage: launch.texts[stage] for stage in TEXTS[lowered.target.backend] if stage in launch.texts}
    used: dict[str, Plain] = {"registers": launch.registers, "stack": launch.local}
    if not launch.local:
        used.update(spill_stores=0, spill_loads=0)
    if lowered.target.vendor == "amd" and "amdgcn" in texts:
        used |= amdgcn_resources(texts["amdgcn"])
    facts = facts_of(lowered.target, launch.metadata, used)
    made = _ladder(lowered, texts, launch.binary, facts, measured=launch.measured, launched=True, chosen=why(launch))
    return replace(made, file=launch.file, first_line=launch.first_line)


def why(launch: Launched) -> str:
    """Why a config was launched: the fastest of those timed, or the only one."""
    if launch.from_cache:
        return "measured the fastest by an earlier compile, in Inductor's autotune cache"
    if len(launch.measured) > 1:
        return f"measured the fastest of {len(launch.measured)}"
    return "the only candidate"


def facts_of(target: Target, raw: Mapping[str, Any], used: Mapping[str, Plain]) -> dict[str, Plain]:
    """A kernel's metadata: triton's own, the resources that the binary uses, and its occupancy."""
    facts: dict[str, Plain] = {**{key: raw[key] for key in _FACTS if raw.get(key) is not None}, **used}
    if target.vendor != "intel":  # Intel's driver compiles the SPIR-V and assigns registers, so they are not known here
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


class Dialects:
    """An MLIR context with one target's dialects. Several kernels share it, because loading the dialects takes a millisecond."""

    def __init__(self) -> None:
        self._context: Any = None

    def context(self, backend: Any) -> Any:
        """Return the context, made at the first call."""
        from triton._C.libtriton import ir

        if self._context is None:
            context = ir.context()
            ir.load_dialects(context)
            backend.load_dialects(context)
            self._context = context
        return self._context


def lower(
    source: str,
    name: str,
    target: Target,
    config: int | Mapping[str, Plain] | None = None,
    dialects: Dialects | None = None,
) -> Lowered:
    """Execute a kernel's source, as Inductor writes it, and take its function through triton's front end."""
    if is_helion(source):
        raise InputError(f"{name} is a kernel of Helion's, and its source does not say what it is called with: {REMEDY}")
    return _lowered(source, name, target, config, lambda src, options: front_end(src, options, target, name, dialects))


def lower_later(source: str, name: str, target: Target, config: Mapping[str, Plain]) -> Lowered:
    """Execute the source of a kernel that was launched; its TTIR, which only a new compile needs, is made when it is read."""
    lowered = _lowered(source, name, target, config, lambda src, options: "")
    defer(lowered, lambda: {"ttir": lower(source, name, target, config).ttir})
    return lowered


def _lowered(
    source: str,
    name: str,
    target: Target,
    config: int | Mapping[str, Plain] | None,
    make_ttir: Callable[[Any, Mapping[str, Any]], str],
) -> Lowered:
    """Execute a kernel's source; `make_ttir` is given what Inductor calls triton.compile with."""
    file = f"{name}.py"
    with ExitStack() as stack:
        stack.enter_context(triton_driver_of(target))
        stack.enter_context(inductor_heuristics_for(target))
        stack.enter_context(lines_of(file, source))
        tuner = autotuner(execute_source(source, name, file), name)
        candidates = tuple(described(c) for c in tuner.configs)
        chosen = choose(tuner.configs, config)
        src, options = inductor_compile_call(tuner, chosen, name)
        grid, prefix = grid_of(tuner, chosen)
        ttir = make_ttir(src, options)

    def scaled(registers: int) -> tuple[Mapping[str, Plain], ...]:
        with triton_driver_of(target), inductor_heuristics_for(target):
            return tuple(described(c) for c in smaller_blocks(tuner, chosen, registers))

    launch_arguments = (p.name for p in tuner.fn.params if not p.is_constexpr and p.name not in chosen.kwargs)
    arguments = (*launch_arguments, *tuner.inductor_meta.get("extra_launcher_args", ()))
    return Lowered(name, target, ttir, options, described(chosen), candidates, file, 1, arguments, grid, prefix, scaled)


def smaller_blocks(tuner: Any, config: Any, registers: int) -> list[Any]:
    """The configs that Inductor's own rule adds if a reduction's registers let too few blocks run at once."""
    from types import SimpleNamespace

    tuner, added_configs = copy.copy(tuner), []

    def collect(added_config: Any) -> Any:
        added_configs.append(added_config)
        return SimpleNamespace(config=added_config, kernel=SimpleNamespace(n_regs=None))

    tuner.compile_results = [SimpleNamespace(config=config, kernel=SimpleNamespace(n_regs=registers))]
    tuner._precompile_config = collect
    tuner._make_launchers = lambda: None
    tuner._dynamic_scale_rblock()
    return added_configs


def execute_source(source: str, name: str, file: str) -> dict[str, Any]:
    """Execute a kernel's source and return the names it defines; InputError, with the line, if it fails."""
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
    """Return the CachingAutotuner that a kernel's source defines; InputError if there is none."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    tuners = [value for value in space.values() if isinstance(value, CachingAutotuner)]
    same_name = [value for value in tuners if value.fn.__name__ == name]
    if not tuners:
        raise InputError(f"{name} has no function under @triton_heuristics and @triton.jit, as Inductor writes it")
    return (same_name or tuners)[-1]


def choose(configs: Sequence[Any], wanted: int | Mapping[str, Plain] | None) -> Any:
    """Pick a config by index or values; values that match none are set on a copy of the first config."""
    if wanted is None:
        return configs[0]
    if isinstance(wanted, int):
        if not -len(configs) <= wanted < len(configs):
            raise InputError(f"there is no config {wanted}: configs are numbered from 0 to {len(configs) - 1}")
        return configs[wanted]
    if not isinstance(wanted, Mapping):
        raise InputError(f"a config is an index into candidates, or a mapping such as {{'num_warps': 8}}, not {wanted!r}")
    same = [config for config in configs if described(config) == plain(wanted)]
    if same:
        return same[0]
    changed = copy.deepcopy(configs[0])
    for key, value in wanted.items():
        if key in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
            setattr(changed, key, value)
        elif key in changed.kwargs:
            changed.kwargs[key] = value
        else:
            raise InputError(f"config has no {key!r}: it has {', '.join(map(repr, described(configs[0])))}")
    return changed


def grid_of(tuner: Any, config: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inductor's expressions for the launch grid, and the assignments they need; () if it states none.

    The grid of a combo kernel depends on more than one config, and is left out.
    """
    from torch._inductor.runtime.triton_heuristics import GridExpr

    if "grid_type" not in tuner.inductor_meta:
        return (), ()
    try:
        grid = GridExpr.from_meta(tuner.inductor_meta, config)
    except (AssertionError, KeyError, TypeError):
        return (), ()
    return (str(grid.x_grid), str(grid.y_grid), str(grid.z_grid)), tuple(map(str, grid.prefix))


def inductor_compile_call(tuner: Any, config: Any, name: str) -> tuple[Any, Mapping[str, Any]]:
    """The source and options that Inductor gives triton.compile for a config; CompileError if its heuristics fail."""
    try:
        return capture_compile_call(lambda: tuner._precompile_config(config))
    except Exception as error:  # anything may fail inside Inductor
        raise CompileError(f"Inductor's heuristics failed on {name}: {type(error).__name__}: {error}") from error


class _CompileCall(BaseException):
    """Carry a triton.compile call's arguments out of the call; a BaseException, so that torch does not catch it."""

    def __init__(self, source: Any, options: Mapping[str, Any]) -> None:
        self.source, self.options = source, options


def capture_compile_call(action: Callable[[], object], *modules: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the source and options with which `action` calls triton.compile. Nothing is compiled."""
    import triton

    def instead(src: Any, target: Any = None, options: Any = None, **rest: Any) -> None:
        raise _CompileCall(src, dict(options or {}))

    with ExitStack() as stack:
        for module in (triton, *modules):
            stack.enter_context(replaced(module, "compile", lambda _: instead))
        try:
            action()
        except _CompileCall as call:
            return call.source, call.options
    raise CompileError("triton was not asked to compile anything")


def front_end(src: Any, options: Mapping[str, Any], target: Target, name: str, dialects: Dialects | None = None) -> str:
    """The unoptimized TTIR of an ASTSource; InputError, with the line, if triton's front end rejects it.

    CompileError if the installed triton has no backend for the target.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    from triton.compiler.errors import CompilationError

    if missing := missing_backend(target):
        raise CompileError(missing)
    gpu = GPUTarget(*target.triple)
    backend = make_backend(gpu)
    try:
        chosen = backend.parse_options({**options, **src.parse_options()})
        context = (dialects or Dialects()).context(backend)
        code, modules = backend.get_codegen_implementation(chosen), backend.get_module_map()
        module = src.make_ir(gpu, chosen, code, modules, context)
    except CompilationError as error:
        raise InputError(refusal(error, src.fn, name)) from error
    except Exception as error:  # anything may fail inside triton
        raise CompileError(f"triton's front end failed on {name}: {type(error).__name__}: {error}") from error
    return portable(str(module))


def portable(text: str) -> str:
    """Shorten paths inside the installed torch and triton, so that a text is the same on every machine."""
    return re.sub(r'"[^"\n]*packages/((?:torch|triton)/[^"\n]*)"', r'"\1"', text)


def refusal(error: Any, function: Any, name: str) -> str:
    """Why triton's front end rejects a kernel: the line, the message, and the line's text."""
    innermost = error
    while isinstance(innermost.__cause__, type(error)):
        innermost = innermost.__cause__
    message = re.sub(r"^\w+\((['\"])(.*)\1\)$", r"\2", innermost.error_message or str(innermost.__cause__ or innermost))
    first, text = def_line(function), text_lines(error.src or "")
    number = getattr(error.node, "lineno", 1)
    line = text[number - 1].strip() if 0 < number <= len(text) else ""
    return f"{name} line {first + number - 1}: {message}: {line}"


def def_line(function: Any) -> int:
    """The line of a triton.jit function's `def` in its file; triton counts from there."""
    lines: list[str] = function.raw_src
    skipped = next((n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return int(function.starting_line_number) + skipped


@contextmanager
def lines_of(file: str, source: str) -> Iterator[None]:
    """Put a source's lines into linecache, where triton.jit reads them, since it has no file."""
    before = linecache.cache.get(file)
    linecache.cache[file] = (len(source), None, text_lines(source, ends=True), file)
    try:
        yield
    finally:
        if before is None:
            linecache.cache.pop(file, None)
        else:
            linecache.cache[file] = before


# The target instead of a GPU -----------------------------------------------------------------------------------------


@contextmanager
def triton_driver_of(target: Target) -> Iterator[None]:
    """Show triton's front end the target's driver inside the block."""
    from triton.runtime import driver

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        absent = AbsentDriver(target, f"explorer:{target.name}")  # no kernel cache has entries for this device
        with added(type(driver), "active", property(lambda _: absent)):
            yield


@contextmanager
def inductor_heuristics_for(target: Target) -> Iterator[None]:
    """Make Inductor's heuristics see the target as the device inside the block, and read no autotune cache."""
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
        for module, is_targets in ((torch.cuda, target.device == "cuda"), (torch.xpu, target.device == "xpu")):
            if module.is_available() != is_targets:  # a reduction's first config depends on it
                stack.enter_context(answered(module, "is_available", partial(bool, is_targets)))
        directory = os.environ.get("TRITON_CACHE_DIR")
        try:
            yield
        finally:
            if directory is None:
                os.environ.pop("TRITON_CACHE_DIR", None)


def _properties_of(original: Any, target: Target) -> Callable[..., Any]:
    """Make DeviceProperties from a source's own figures if they are for the target, else from the target's."""

    def device_properties(**stated: Any) -> Any:
        if stated.get("type") == target.backend and stated.get("cc") in (target.arch, target.triple[1]):
            return original(**stated)
        figures = {**torch_properties(target), "type": target.backend, "index": 0, "cc": target.triple[1]}
        return original(**{key: value for key, value in figures.items() if key in original._fields})

    return device_properties


__all__ = ["Ladder", "LadderWorkers", "Lowered", "compile_ladder", "compile_ladders", "described", "lower"]
