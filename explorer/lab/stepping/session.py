"""Stepping: one compile of a traced call whose code of one stage runs from real files."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from explorer.capture.absent.absent_gpu import pretending
from explorer.capture.absent.cuda_on_cpu import on_the_cpu
from explorer.capture.absent.generated import Wrappers, estimate, interpreted
from explorer.errors import CompileError, InputError
from explorer.lab.live.call import run_call
from explorer.lab.live.check_rows import DRAWS
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.interpreted import LIMIT, call_name, check_limit
from explorer.lab.live.other_threads import once_nothing_traces
from explorer.lab.live.outcome import detached_of_state, on_copies
from explorer.lab.live.protocol import Live, live_of, no_verb
from explorer.lab.stepping import debugger
from explorer.lab.stepping.capture import OF_FRAMES, OF_INDUCTOR, Captured, Compiled, capturing
from explorer.lab.stepping.graph_file import as_python, copied_graph, function_of_file
from explorer.lab.stepping.kernel_sources import listed
from explorer.lab.stepping.node_values import COLUMNS as VALUE_COLUMNS
from explorer.lab.stepping.node_values import Values, interpreter_of, row_of
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table
from explorer.model.wording import quantity
from explorer.process import scratch
from explorer.process.progress import in_notebook, progress
from explorer.stages.fx_graph import node_lines

#: The stages whose code can run from files, in the compiler's order.
STAGES = ("dynamo", *OF_FRAMES, *OF_INDUCTOR, "output_code")
#: Those that are FX graphs.
GRAPHS = ("dynamo", *OF_INDUCTOR)
#: What people call some of them.
ALIASES = {"graph": "dynamo", "wrapper": "output_code", "fx_graph": "dynamo"}
#: What differs in Dynamo's bytecode from compile to compile: the numbers by which Dynamo and depyf keep their names apart.
_NUMBERED = re.compile(r"_\d+(?:_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12})?\b")
#: The line of a wrapper in which AOTAutograd counts its graphs.
_AOT_ID = re.compile(r"^# AOT ID: .*$", re.MULTILINE)

COLUMNS = ("stage", "frame", "graph", "artifact", "file", "lines")


def stage_named(stage: str) -> str:
    """The name of a stage whose code can run from files; InputError, with those there are, for any other."""
    name = ALIASES.get(stage, stage)
    if name not in STAGES:
        raise InputError(
            f"the code of stage {stage!r} cannot be stepped through: it is one of {', '.join(map(repr, STAGES))}, "
            "or 'graph' for Dynamo's and 'wrapper' for Inductor's output code"
        )
    return name


@dataclass(frozen=True)
class File:
    """A file that runs, and the artifact whose lines it has. It replaces `compiled`, which is None for a frame's bytecode."""

    artifact: Artifact
    path: str
    compiled: Compiled | None = None

    def row(self) -> dict[str, object]:
        """The file's row in the table of files."""
        a = self.artifact
        return {
            "stage": a.stage,
            "frame": a.frame,
            "graph": a.graph,
            "artifact": a.id,
            "file": self.path,
            "lines": len(a.lines),
        }


#: Gives what runs for a graph's file.
FunctionOf = Callable[[File], Callable[..., Any]]


@dataclass(eq=False)
class Stepping:
    """A traced call compiled once more, with the code of one stage in files that run: `files` lists them, `run()` runs them.

    The lines of a file are the lines of the stage's text. So a breakpoint set there stops the run, in pdb and in the debugger
    of JupyterLab or VS Code. In a notebook the debugger's panel "Kernel Sources" lists the files, as "explorer_steps.…". The
    files are removed with the process, or at the end of a `with` block.
    """

    stage: str
    trace: TraceData
    live: LiveFunction
    paths: Sequence[File]
    folder: Path
    remove: Callable[[], None] = field(default=lambda: None, repr=False)

    def __enter__(self) -> Stepping:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Stepping through {self.stage}: {quantity(len(self.paths), 'file')} in {self.folder}>"

    @property
    def files(self) -> Table:
        """One row per file: stage, frame, graph, the artifact that has its lines, path, number of lines."""
        return Table((each.row() for each in self.paths), COLUMNS)

    @property
    def file(self) -> str:
        """The path of the only file; InputError where there are several."""
        if len(self.paths) != 1:
            raise InputError(f"there are {len(self.paths)} files: `files` lists them, and frame= or graph= chooses one")
        return self.paths[0].path

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, on copies of the traced arguments or of new ones, with the stage's code run from its files.

        Return what it returned. A training trace is differentiated too. A GPU you don't have is stood in for by the CPU, and
        Inductor's kernels for it are interpreted.
        """
        return self._run(_function, args, kwargs)

    def values(self, *args: Any, **kwargs: Any) -> Values:
        """Run the graphs node by node in place of their files, as `run` does, and give one row per node: see `t.live.values`."""
        rows: list[dict[str, Plain]] = []

        def noting(file: File) -> Callable[..., Any]:
            assert file.compiled is not None
            lines, calls = node_lines(file.artifact), count()

            def run(*given: Any) -> Any:
                number = next(calls)

                def note(name: str, target: str, value: Any) -> None:
                    row = row_of(name, target, value, lines, number)
                    rows.append({"frame": file.artifact.frame, "graph": file.artifact.graph, **row})

                assert file.compiled is not None
                return interpreter_of(copied_graph(file.compiled.graphs[self.stage]), note)(*given)

            return run

        self._run(noting, args, kwargs)
        return Values(rows, ("frame", "graph", *VALUE_COLUMNS))

    def _run(self, function_of: FunctionOf, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the function on copies, with the function that `function_of` gives for each file where it is called."""
        import torch

        call = self.live.call.with_arguments(args, kwargs) if args or kwargs else self.live.call

        def run_on_copies() -> Any:
            with on_copies(call) as copied, self._in_place(function_of):
                return detached_of_state(copied, run_call(self.live._compiled(), copied, told=self._interprets)[0])

        with torch.autograd.set_multithreading_enabled(False):  # a debugger sees the thread that it was started in
            return once_nothing_traces(run_on_copies)

    def debug(self, breakpoint: int | Sequence[int] | None = None, commands: Sequence[str] | None = None) -> Any:
        """Run under pdb, stopping at the lines of `breakpoint`, in every file that has them; without any at each file's first.

        `commands` are given to pdb in order, then "continue" after the last. pdb's output is printed. Returns the function's
        result, or None after "quit". Raises InputError for a breakpoint that is no line or has no code, and for commands that
        are no list of strings.
        """
        lines = _lines(breakpoint)
        _check_commands(commands)
        return debugger.debugged(self.run, [each.path for each in self.paths], lines, commands)

    @property
    def _interprets(self) -> bool:
        """Whether Inductor's code for a GPU you don't have is called, which an interpreter runs."""
        return any(each.compiled is not None and each.compiled.code is not None for each in self.paths)

    @contextmanager
    def _in_place(self, function_of: FunctionOf) -> Iterator[None]:
        """Call the function from `function_of(file)` inside the block, in place of the compiled code that each file replaces."""
        with ExitStack() as stack:
            if self._interprets:
                show = stack.enter_context(progress(call_name(self.live.call), "interpreting"))
                wrappers = stack.enter_context(interpreted(show, self.live.traced_numbers()))
                for each in self.paths:
                    _put_into(wrappers, each, function_of)
            for each in self.paths:
                stack.enter_context(_switched(each, function_of))
            yield


def _lines(breakpoint: Any) -> tuple[int, ...]:
    """The lines of `breakpoint` as a tuple; InputError for anything but numbers of lines."""
    if breakpoint is None:
        return ()
    lines: tuple[Any, ...] = tuple(breakpoint) if _is_list(breakpoint) else (breakpoint,)
    if not all(type(line) is int for line in lines):
        raise InputError(f"breakpoint is the number of a line, or a list of them, such as 3 or [3, 5], not {breakpoint!r}")
    return lines


def _check_commands(commands: Any) -> None:
    """InputError for anything but a list of pdb's commands."""
    if commands is not None and not (_is_list(commands) and all(isinstance(each, str) for each in commands)):
        raise InputError(f'commands is a list of pdb\'s commands, such as ["p x.shape", "continue"], not {commands!r}')


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _switched(file: File, function_of: FunctionOf) -> AbstractContextManager[None]:
    """Call a graph's file where the graph was called; Inductor's own wrapper, and a frame's code, run from files already."""
    compiled = file.compiled
    if compiled is None or compiled.switch is None or file.artifact.stage == "output_code":
        return nullcontext()
    return _instead(compiled, _boxed(file, function_of) if file.artifact.stage in OF_INDUCTOR else function_of(file))


@contextmanager
def _instead(compiled: Compiled, function: Callable[..., Any]) -> Iterator[None]:
    assert compiled.switch is not None
    compiled.switch.instead = function
    try:
        yield
    finally:
        compiled.switch.instead = None


def _function(file: File) -> Callable[..., Any]:
    """The function that a graph's file defines."""
    assert file.compiled is not None
    return function_of_file(file.compiled.graphs[file.artifact.stage], file.artifact.text, file.path)


def _boxed(file: File, function_of: FunctionOf) -> Callable[[list[Any]], Any]:
    """The same for one list of arguments, which it empties, as Inductor's code does."""
    function = function_of(file)

    def call(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        return function(*given)

    return call


def _put_into(wrappers: Wrappers, file: File, function_of: FunctionOf) -> None:
    """Let the interpreter of generated code run a file in place of a module of Inductor's."""
    compiled = file.compiled
    if compiled is None or compiled.code is None:
        return
    if file.artifact.stage == "output_code":
        with pretending(compiled.code.target), on_the_cpu(compiled.code.target.device):
            space = wrappers._executed(replace(compiled.code, file=file.path))
    else:
        space = {"call": _boxed(file, function_of)}
    wrappers.spaces[id(compiled.code)] = space


def stepping(trace: TraceData, live: Live, stage: str, frame: str | None, graph: str | None) -> Stepping:
    """Compile the call of a trace once more, and write the code of a stage into files that run in its place.

    InputError for a stage that has no such code, CompileError where it cannot run from a file.
    """
    name = stage_named(stage)
    if not isinstance(live, LiveFunction):
        raise no_verb(
            "there is nothing to step through",
            "a hand-written kernel has no graph and no wrapper",
            "k.run() runs it, and TRITON_INTERPRET=1 lets pdb stop in it",
        )
    live._needs_data("nothing can be stepped through")
    folder = Path(tempfile.mkdtemp(dir=scratch.home()))
    with ExitStack() as stack:
        remove = partial(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(remove)
        made = _compiled(trace, live, name, (frame, graph), folder, remove)
        stack.pop_all()
    if in_notebook():
        made.remove = partial(_remove_all, (listed([each.path for each in made.paths]), remove))
    return made


def _remove_all(removes: Sequence[Callable[[], None]]) -> None:
    """Call each of what removes something."""
    for remove in removes:
        remove()


def _compiled(
    trace: TraceData,
    live: LiveFunction,
    name: str,
    place: tuple[str | None, str | None],
    folder: Path,
    remove: Callable[[], None],
) -> Stepping:
    """Compile the call once more, and write the files into `folder`."""
    with capturing(name, folder) as captured:
        again = live.trace_again()
    if not isinstance(second := live_of(again), LiveFunction) or second.error is not None:
        raise CompileError(
            "the call could not be compiled once more, as its failures say:\n" + "\n".join(map(str, again.failures))
        )
    files = list(_files(captured, again, name, folder, *place))
    if not files:
        raise _none(captured, again, name, *place)
    made = Stepping(name, again, second, files, folder, remove)
    _must_be_right(made)
    _warn_of_other_text(trace, files)
    return made


def _files(
    captured: Captured, again: TraceData, stage: str, folder: Path, frame: str | None, graph: str | None
) -> Iterator[File]:
    """Write a file for each text of the stage that is asked for."""
    for artifact in again.find(stage, frame, graph):
        for written in captured.frames:
            if written.frame == artifact.frame:
                yield File(artifact, written.file)
        for compiled in captured.of(stage):
            if compiled.frame == artifact.frame and compiled.graph in ("", artifact.graph):
                yield File(artifact, _write(artifact, compiled, folder), compiled)


def _write(artifact: Artifact, compiled: Compiled, folder: Path) -> str:
    """Write the text of an artifact as a file; the wrapper that runs on this machine is where Inductor wrote it."""
    if artifact.stage == "output_code" and compiled.code is None:
        return compiled.file
    name = ".".join(filter(None, (artifact.frame.replace("/", "_"), artifact.stage, compiled.graph, "py")))
    path = folder / name
    path.write_text(as_python(artifact.text), encoding="utf-8")
    return str(path)


def _none(captured: Captured, again: TraceData, stage: str, frame: str | None, graph: str | None) -> InputError | CompileError:
    """Build the error for a stage that runs no code from a file."""
    if captured.unwritten:
        why = "; ".join(f"frame {each}: {reason}" for each, reason in captured.unwritten.items())
        instead = ": stage 'dynamo_bytecode' runs as Dynamo made it" if stage == "decompiled" else ""
        return CompileError(f"no code of stage {stage!r} can run from a file: {why}{instead}")
    having = sorted({a.stage for a in again.artifacts} & set(STAGES), key=STAGES.index)
    where = "".join(f" of {what} {value!r}" for what, value in (("frame", frame), ("graph", graph)) if value is not None)
    return InputError(f"the trace has no code of stage {stage!r}{where} to step through; it has that of {', '.join(having)}")


def _must_be_right(made: Stepping) -> None:
    """CompileError where what depyf wrote runs, but is not what Dynamo made; and for a wrapper that is too much to interpret."""
    if made.stage == "decompiled":
        wrong = [row.output for row in made.live._compared(nullcontext, DRAWS) if row.equal is False]
        if wrong:
            raise CompileError(
                f"what depyf wrote of Dynamo's bytecode gives another {', '.join(wrong)} than the function: it is to be read, "
                "not run; stage 'dynamo_bytecode' runs as Dynamo made it"
            )
    codes = [each.compiled.code for each in made.paths if each.compiled is not None and each.compiled.code is not None]
    if made.stage == "output_code" and codes:
        check_limit(estimate(codes), LIMIT)


def _warn_of_other_text(trace: TraceData, files: Sequence[File]) -> None:
    """Say so where the second compile wrote another text than the trace shows."""
    for each in files:
        shown = next((a for a in trace.artifacts if a.id == each.artifact.id), None)
        if shown is None or _without_numbers(shown) != _without_numbers(each.artifact):
            warnings.warn(
                f"explorer: the call was compiled once more, and its {each.artifact.id} is not that of this trace: lines are "
                "those of the file",
                stacklevel=5,
            )


def _without_numbers(artifact: Artifact) -> str:
    """The text of an artifact without what only counts compiles: the numbers in names of bytecode, a wrapper's number."""
    if artifact.stage == "output_code":
        return _AOT_ID.sub("", artifact.text)
    return _NUMBERED.sub("_", artifact.text) if artifact.stage in OF_FRAMES else artifact.text


def node_values(trace: TraceData, live: Live, stage: str, frame: str | None, graph: str | None) -> Values:
    """Run the graphs of a stage node by node, and give each node's value; InputError for a stage that is no graph."""
    name = stage_named(stage)
    if name not in GRAPHS:
        raise InputError(f"stage {stage!r} has no nodes: it is one of {', '.join(map(repr, GRAPHS))}, or 'graph' for Dynamo's")
    with stepping(trace, live, name, frame, graph) as steps:
        return steps.values()
