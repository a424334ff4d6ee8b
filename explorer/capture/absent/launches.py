"""Launches of Triton kernels outside of torch.compile, and what an absent GPU would compile for them.

    kernel[grid](*args)  →  Launches.launched  →  triton's own specialization  →  TTIR, in this process
                                               →  a worker process  →  Ladder

As on a GPU a kernel is compiled once for each way in which triton specializes it: by the types of the arguments, by those
that are 1 or a multiple of 16, and by its constants. The program gets an AbsentKernel where a GPU gives triton's
CompiledKernel. The launch itself is run by the interpreter, see `user_kernels`.
"""

from __future__ import annotations

import linecache
import sys
import time
import weakref
from collections import Counter, defaultdict, deque, namedtuple
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from explorer.capture.ladder.ladder import Ladder, Lowered, front_end, ladder_from_answer, portable, triton_driver_of
from explorer.capture.ladder.triton_jit import (
    call_arguments,
    describe_argument,
    grid_of,
    jit_function,
    launch_settings,
    private_copy,
)
from explorer.capture.ladder.triton_pool import Pool
from explorer.capture.observe.functions import code_fields
from explorer.capture.observe.patch import guarded_always
from explorer.capture.observe.places import in_package
from explorer.capture.observe.sources import CHANGED, NONE_KEPT, agrees, source_of, unseen
from explorer.capture.observe.without_data import on_meta
from explorer.errors import ExplorerError
from explorer.model.shared import Place
from explorer.model.values import Plain
from explorer.stages.dynamo.source import SourceText
from explorer.stages.triton.origins import Launch

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

#: The function that launches kernels of Dynamo's graphs; these are among the kernels of Inductor's code.
IN_A_GRAPH = "triton_kernel_wrapper_mutation_dense"
#: Table kept of one kernel's launches: a loop may launch it a million times, each with other numbers.
MAX_ROWS = 256
#: The label of the one row that counts all launches beyond MAX_ROWS.
OTHERS = "others, with other arguments"


@dataclass
class Specialized:
    """One specialization of a kernel by triton, with its source, its ladder and its launches.

    `error` says why it has no ladder.
    """

    name: str
    function: str
    source: str
    place: tuple[str, int]
    time: float
    lowered: Lowered | None = None
    answer: Future[dict[str, Any]] | None = None
    error: ExplorerError | None = None
    _launches: dict[Any, Launch] = field(default_factory=dict)
    _times: Counter[Any] = field(default_factory=Counter)

    def ladder(self) -> Ladder:
        """Wait for the ladder. Raises CompileError or InputError, with the compiler's output, if the compile failed."""
        if self.error is not None:
            raise self.error
        assert self.lowered is not None and self.answer is not None
        return ladder_from_answer(self.lowered, self.answer.result())

    def count(self, where: tuple[str, int, str], arguments: Mapping[str, Plain], grid: Sequence[int]) -> None:
        """Count one launch."""
        key: Any = (where, tuple(arguments.items()), tuple(grid))
        if key not in self._launches and len(self._launches) >= MAX_ROWS:
            key, arguments, grid = OTHERS, {}, ()
        if key not in self._launches:
            file, line, function = where
            place = Place(file=file, line=line, function=function)
            self._launches[key] = Launch(line=0, arguments=arguments, grid=tuple(grid), place=place)
        self._times[key] += 1

    def launches(self) -> tuple[Launch, ...]:
        """Each launch that was made, with how many times it was."""
        return tuple(replace(launch, times=self._times[key]) for key, launch in self._launches.items())


class Launches:
    """The launches of one recording, and the workers that compile their kernels; `close` ends these."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.kernels: list[Specialized] = []
        self.callers: dict[CodeType, SourceText] = {}
        self.notes: dict[tuple[str, str], str] = {}  # by step and kernel
        self._began = time.perf_counter()
        self._pool: Pool | None = None
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._depth = 0  # graphs of Dynamo's that are running
        self._numbers: deque[tuple[int, int]] = deque(maxlen=4096)  # of the autograd nodes that such graphs made
        self._asked: tuple[Mapping[str, Plain], tuple[Mapping[str, Plain], ...]] = {}, ()  # the config taken, and all

    def inside(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap Dynamo's graph so that its launches and its backward's are not noted: Inductor's code already has them."""
        return guarded_always(graph, partial(_in_graph, weakref.ref(self)), "launches in a graph")

    def in_a_graph(self) -> bool:
        """Whether a launch now belongs to one of Dynamo's graphs or to its backward."""
        import torch

        node = torch._C._current_autograd_node()
        number = node._sequence_nr() if node is not None else None
        return bool(self._depth) or (number is not None and any(first <= number < last for first, last in self._numbers))

    def launched(self, kernel: Any, args: Sequence[Any], constants: Mapping[str, Any], grid: Any) -> AbsentKernel | None:
        """Note a launch and return what the GPU would launch; None for a launch of one of Dynamo's graphs."""
        frame = users_frame()
        if frame is None or self.in_a_graph():
            return None
        function, (_, _, meta) = jit_function(kernel), launch_settings(kernel, args, constants, None, prepare=True)
        compiled = self.compiled(kernel, args, constants)
        named = call_arguments(function, args, meta)
        if compiled is not None:
            fixed = {p.name for p in function.params if p.is_constexpr}
            shown = {
                name: describe_argument(value)
                for name, value in named.items()
                if name in function.arg_names and name not in fixed
            }
            compiled.specialized.count(self._place(frame), shown, grid_of(grid, named))
        return compiled

    def compiled(self, kernel: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> AbsentKernel | None:
        """The kernel that triton would compile for such a launch; its compile starts with the first call."""
        function = jit_function(kernel)
        with triton_driver_of(self.target):
            config, candidates, meta = launch_settings(kernel, args, constants, None)
            self._asked = config, candidates
            args = on_meta(tuple(args))
            found: AbsentKernel | None = self._copy(function).run(*args, grid=None, warmup=True, **meta)
        return found

    def _copy(self, function: Any) -> Any:
        """Copy the function. The copy compiles AbsentKernels, and triton's caches stay unchanged."""
        if id(function) in self._copies:
            return self._copies[id(function)][1]
        own = private_copy(function)

        def compile(src: Any, target: Any = None, options: Any = None, **rest: Any) -> AbsentKernel:
            return AbsentKernel(self, function, src, self._specialized(function, src, dict(options or {})))

        def create_binder() -> Any:
            made = type(own).create_binder(own)
            own.compile = compile
            return made

        own.device_caches = defaultdict(create_binder)
        self._copies[id(function)] = function, own
        return own

    def _specialized(self, function: Any, src: Any, options: Mapping[str, Any]) -> Specialized:
        """Take the kernel through triton's front end and submit it to a worker."""
        name, place = function.__name__, (portable(f'"{function.fn.__code__.co_filename}"').strip('"'), _first_line(function))
        made = Specialized(
            self._unused(name),
            str(function.fn.__qualname__),
            "".join(function.raw_src).rstrip(),
            place,
            time.perf_counter() - self._began,
        )
        self.kernels.append(made)
        try:
            ttir = front_end(src, options, self.target, name)
        except ExplorerError as error:
            made.error = error
            return made
        arguments = tuple(function.arg_names)
        made.lowered = Lowered(name, self.target, ttir, options, *self._asked, *place, arguments)
        made.answer = self._workers().submit(made.lowered.job)
        return made

    def _unused(self, name: str) -> str:
        """A name that no kernel of the recording has: the function's, with "_1" for its second specialization."""
        taken = {kernel.name for kernel in self.kernels}
        numbered = (f"{name}_{n}" if n else name for n in range(len(taken) + 1))
        return next(candidate for candidate in numbered if candidate not in taken)

    def _workers(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(1)
        self._pool.grow(len(self.kernels) // 4)
        return self._pool

    def _place(self, frame: FrameType) -> tuple[str, int, str]:
        """The file, line and function of a launch; the function's source is kept to show it."""
        code = frame.f_code
        if code not in self.callers:
            self.callers[code] = _caller(code)
        return code.co_filename, frame.f_lineno, code.co_qualname

    def note(self, step: str, message: str, *, kernel: str = "") -> bool:
        """Keep a message about a loss, once per step and kernel. Returns True the first time."""
        new = (step, kernel) not in self.notes
        self.notes.setdefault((step, kernel), message)
        return new

    def close(self) -> None:
        """Wait for the kernels that are being compiled, and end the workers."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def __enter__(self) -> Launches:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _in_graph(found: Callable[[], Launches | None], graph: Callable[..., Any]) -> Callable[..., Any]:
    """One of Dynamo's graphs on the CPU. Launches in it and in its backward are not noted."""

    def run(*args: Any) -> Any:
        import torch

        launches = found()
        if launches is None:
            return graph(*args)
        first = torch.autograd._get_sequence_nr()
        launches._depth += 1
        try:
            return graph(*args)
        finally:
            launches._depth -= 1
            if (last := torch.autograd._get_sequence_nr()) > first:
                launches._numbers.append((first, last))

    return run


class AbsentKernel:
    """The kernel that a launch or `warmup` returns, in place of triton's CompiledKernel.

    It has the texts in `asm`, the metadata, and the registers; CompileError, with the compiler's output, if it did not compile.
    `kernel[grid](*args)` is run by the interpreter.
    """

    def __init__(self, launches: Launches, function: Any, src: Any, specialized: Specialized) -> None:
        self.launches, self.function, self.src, self.specialized = launches, function, src, specialized
        self.name = function.__name__
        self._made: Ladder | None = None

    @property
    def ladder(self) -> Ladder:
        """Wait for the kernel in every form."""
        if self._made is None:
            self._made = self.specialized.ladder()
        return self._made

    @property
    def asm(self) -> Mapping[str, Any]:
        """The texts and the binary by triton's names; SASS is disassembled on demand."""
        from explorer.capture.ladder.ladder import BINARIES

        return _Texts(self.ladder, {**self.ladder.texts, BINARIES[self.launches.target.backend]: self.ladder.binary})

    @property
    def kernel(self) -> bytes:
        """The cubin, hsaco or SPIR-V."""
        return self.ladder.binary

    @property
    def metadata(self) -> Any:
        """Triton's own metadata: shared, num_warps, …"""
        assert self.specialized.answer is not None or self.specialized.error is not None
        self.ladder  # noqa: B018 its error, where there is none
        raw = {**self.specialized.answer.result()["metadata"], "name": self.name}  # type: ignore[union-attr]
        return namedtuple("KernelMetadata", sorted(raw))(**raw)

    @property
    def n_regs(self) -> int:
        """Registers a thread."""
        return int(self.ladder.metadata.get("registers", 0))

    @property
    def n_spills(self) -> int:
        """Words a thread that are spilled, as triton counts them."""
        return int(self.ladder.metadata.get("spill_stores", 0)) // 4

    @property
    def n_max_threads(self) -> int:
        """The most threads a block on the target."""
        return self.launches.target.threads_per_block

    def _init_handles(self) -> None:
        """Check the GPU's limits, as triton does before the first launch."""
        from triton.runtime.errors import OutOfResources

        needed, available = int(self.ladder.metadata.get("shared") or 0), self.launches.target.shared_per_block
        if needed > available:
            raise OutOfResources(needed, available, "shared memory")

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """A launcher, to be called with all of the kernel's arguments."""

        def runner(*args: Any, stream: Any = None) -> None:
            from explorer.capture.absent.user_kernels import interpret

            frame = users_frame()
            if frame is not None and not self.launches.in_a_graph():
                fixed = {p.name for p in self.function.params if p.is_constexpr}
                shown = {n: describe_argument(a) for n, a in zip(self.function.arg_names, args, strict=False) if n not in fixed}
                self.specialized.count(self.launches._place(frame), shown, grid_of(grid, {}))
            interpret(self.function, args, {}, grid)

        return runner

    def __repr__(self) -> str:
        return f"<{self.name}, compiled for {self.launches.target.name}, which is not attached>"


class _Texts(dict[str, Any]):
    """The texts of a kernel; SASS is disassembled on demand, as in triton."""

    def __init__(self, ladder: Ladder, texts: Mapping[str, Any]) -> None:
        super().__init__(texts)
        self._ladder = ladder

    def __missing__(self, key: str) -> Any:
        if key != "sass":
            raise KeyError(key)
        return self._ladder.sass()


def _caller(code: CodeType) -> SourceText:
    """The source of a function that launches a kernel; the whole file for module-level code."""
    if code.co_name == "<module>":
        lines = linecache.getlines(code.co_filename)
        whole = bool(lines) and agrees(code, lines, 1)
        text, first, why = ("".join(lines), 1, "") if whole else unseen(code, CHANGED if lines else NONE_KEPT)
    else:
        text, first, why = source_of(code)
    return SourceText(
        **code_fields(code), text=text, first_line=first, unseen=why or None, inlined=True, compiled=False, launches=True
    )


def _first_line(function: Any) -> int:
    return int(function.starting_line_number)


def users_frame() -> FrameType | None:
    """The program's innermost frame; None inside one of Dynamo's graphs, whose kernels Inductor has."""
    package = str(Path(__file__).parents[2])
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == IN_A_GRAPH:
            return None
        if not in_package(code.co_filename) and not code.co_filename.startswith((package, "<eval_with_key>", "<frozen ")):
            return frame
        frame = frame.f_back
    return None


__all__ = ["AbsentKernel", "Launches", "Specialized", "users_frame"]
