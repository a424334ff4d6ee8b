"""Keep what a compile makes to run: Dynamo's bytecode and graphs, Inductor's graphs and wrappers, each where it is called.

Each is captured where the probes record its text, so that both are the same. What stands where it is called is a `Switch`, which
can call something else for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType
from typing import Any

from explorer.capture.absent.generated import Code
from explorer.capture.observe.bytecode import decompiled_text
from explorer.capture.observe.compile_fx import is_joint
from explorer.capture.observe.context import current_compile_id, graph_of
from explorer.capture.observe.debug_calls import debug_calls
from explorer.capture.observe.functions import code_fields, disassembly
from explorer.capture.observe.patch import observed, replaced
from explorer.capture.observe.structured import listening
from explorer.lab.stepping.graph_file import copied_graph
from explorer.lab.stepping.line_table import disassembled_lines, with_lines
from explorer.model.values import Event
from explorer.process.ignored_warnings import warnings_ignored_here
from explorer.stages.replay import names_of

#: The stages whose code is a frame's bytecode, which Dynamo is given anew while it compiles.
OF_FRAMES = ("dynamo_bytecode", "decompiled")
#: The stages of the graphs that Inductor is handed, before and after its passes.
OF_INDUCTOR = ("forward", "inductor_input", "backward", "post_grad")


@dataclass(eq=False)
class Switch:
    """Stands where compiled code is called, and calls `instead` where that is set."""

    compiled: Callable[..., Any]
    instead: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what is chosen."""
        return (self.instead or self.compiled)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)


@dataclass(eq=False)
class Compiled:
    """What runs for one graph: its graphs by stage, and where it is called.

    `switch` is where Dynamo or AOTAutograd calls it, `code` Inductor's module for a GPU you don't have. `file` is the wrapper's,
    as Inductor wrote it. Inductor's code is called with one list of arguments, a graph of Dynamo's with each.
    """

    frame: str
    graph: str
    graphs: dict[str, Any] = field(default_factory=dict)
    switch: Switch | None = None
    code: Code | None = None
    file: str = ""


@dataclass(frozen=True)
class FrameFile:
    """A frame's code that runs from a file. The file's lines are the lines of the text of `stage`."""

    stage: str
    frame: str
    file: str
    text: str


@dataclass
class Captured:
    """All that one compile made to run. `unwritten` says of each frame why its code does not run from a file."""

    compiled: list[Compiled] = field(default_factory=list)
    frames: list[FrameFile] = field(default_factory=list)
    unwritten: dict[str, str] = field(default_factory=dict)

    def rename(self, begun: Iterable[str]) -> None:
        """Name the frames as a trace does, which counts them for itself, given Dynamo's compile ids in the order they began."""
        names = names_as_in_a_trace(begun)
        for each in self.compiled:
            each.frame = names.get(each.frame, each.frame)
        self.frames = [replace(each, frame=names.get(each.frame, each.frame)) for each in self.frames]
        self.unwritten = {names.get(frame, frame): why for frame, why in self.unwritten.items()}

    def of(self, stage: str) -> Iterator[Compiled]:
        """What has a graph of that stage; each with a wrapper for "output_code"."""
        for each in self.compiled:
            if stage in each.graphs or (stage == "output_code" and (each.code or each.file)):
                yield each


@contextmanager
def capturing(stage: str, folder: Path) -> Iterator[Captured]:
    """Keep what compiles inside the block make to run; frames run from files in `folder` if `stage` is one of bytecode."""
    captured = Captured()
    begun: dict[str, None] = {}
    with ExitStack() as stack:
        stack.enter_context(compiles_begun(begun))
        if stage in OF_FRAMES:
            stack.enter_context(_frames_from_files(captured, stage, folder))
        elif stage == "dynamo":
            stack.enter_context(_dynamo_graphs(captured))
        else:
            stack.enter_context(_inductor_graphs(captured))
        yield captured
    captured.rename(begun)


def names_as_in_a_trace(begun: Iterable[str]) -> dict[str, str]:
    """Map Dynamo's compile ids, given in the order in which the compiles began, to the compile ids of a trace."""
    return names_of([Event("frame", time, frame) for time, frame in enumerate(begun)])


@contextmanager
def compiles_begun(begun: dict[str, None]) -> Iterator[None]:
    """Note each compile of Dynamo's as it begins."""

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        begun[current_compile_id()] = None

    doing: Any = _Doing()
    with listening(doing, {"dynamo_start": heard}):
        yield


class _Doing:
    """A stand-in for a recording: it runs the actions and asks for the facts, and records nothing."""

    def attempt(self, kind: str, step: str, action: Callable[[], object]) -> None:
        """Do it."""
        action()

    def __call__(self, kind: str, facts: Callable[[], Any], *, time: float | None = None) -> None:
        """Ask for what would be recorded."""
        facts()


@contextmanager
def _dynamo_graphs(captured: Captured) -> Iterator[None]:
    """Keep each of Dynamo's graphs, and put a switch where the bytecode calls the compiled graph."""
    from torch._dynamo.output_graph import OutputGraph

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call_user_compiler(output: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
            graph = copied_graph(gm)
            switch = Switch(original(output, gm, *args, **kwargs))
            captured.compiled.append(Compiled(current_compile_id(), "", {"dynamo": graph}, switch))
            return switch

        return call_user_compiler

    with replaced(OutputGraph, "call_user_compiler", make):
        yield


@contextmanager
def _inductor_graphs(captured: Captured) -> Iterator[None]:
    """Keep each graph that Inductor compiles, before and after Inductor's passes, and the compiled code."""
    from torch._inductor import compile_fx
    from torch._inductor.compile_fx import _InProcessFxCompile

    under_way: list[Compiled] = []
    before_joint_passes: dict[str, Any] = {}

    def joint_passes(gm: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        if not is_joint(gm.graph):
            before_joint_passes.setdefault(current_compile_id(), copied_graph(gm))
        yield

    def compiling(self: Any, gm: Any, inputs: Any, check: Any, kwargs: Any) -> Generator[None, Any, None]:
        frame, graph = current_compile_id(), graph_of(kwargs)
        compiled = Compiled(frame, graph, {"inductor_input" if graph == "inference" else graph: copied_graph(gm)})
        if graph == "inference" and frame in before_joint_passes:
            compiled.graphs["forward"] = before_joint_passes.pop(frame)
        captured.compiled.append(compiled)
        under_way.append(compiled)
        try:
            output = yield
        finally:
            under_way.remove(compiled)
        if isinstance(output.current_callable, Code):
            compiled.code = output.current_callable
        else:
            compiled.switch = output.current_callable = Switch(output.current_callable)

    def passes_done(gm: Any, *rest: Any) -> None:
        if under_way:
            under_way[-1].graphs["post_grad"] = copied_graph(gm)

    def written(path: str, *rest: Any) -> None:
        if under_way:
            under_way[-1].file = path

    listeners: Any = {"fx_graph_transformed": {"post_grad": passes_done}, "output_code": {"output_code": written}}
    doing: Any = _Doing()
    with (
        observed(compile_fx, "_recursive_joint_graph_passes", joint_passes),
        observed(_InProcessFxCompile, "codegen_and_compile", compiling),
        debug_calls(doing, listeners),
    ):
        yield


@contextmanager
def _frames_from_files(captured: Captured, stage: str, folder: Path) -> Iterator[None]:
    """Hand Dynamo the bytecode of each frame as a code object whose file is the text of its stage."""
    from torch._dynamo import convert_frame
    from torch._dynamo.output_graph import OutputGraph

    write = _disassembled if stage == "dynamo_bytecode" else _decompiled

    def hook(code: CodeType, transformed: CodeType) -> CodeType | None:
        frame = current_compile_id()
        file = folder / f"{len(captured.frames)}.{stage}.{code.co_name.strip('<>')}.py"
        try:
            made, text = write(code, transformed, str(file))
        except (ValueError, SyntaxError) as error:
            captured.unwritten[frame] = str(error)
            return None
        file.write_text(text, encoding="utf-8")
        captured.frames.append(FrameFile(stage, frame, str(file), text))
        return made

    def last(*args: Any, **kwargs: Any) -> Iterator[None]:
        convert_frame._bytecode_hooks.move_to_end(handle.id)  # the probes' hook reads what Dynamo itself made
        yield

    handle = convert_frame.register_bytecode_hook(hook)
    try:
        with observed(OutputGraph, "compile_subgraph", last):
            yield
    finally:
        handle.remove()


def _disassembled(code: CodeType, transformed: CodeType, file: str) -> tuple[CodeType, str]:
    """Dynamo's own code, with the lines of its disassembly. ValueError where `dis` does not give each instruction a line."""
    text = disassembly(transformed)
    lines = disassembled_lines(transformed, text)
    if not lines:
        raise ValueError("dis does not print one line for each of its instructions")
    return with_lines(transformed, file, lines), text


def _decompiled(code: CodeType, transformed: CodeType, file: str) -> tuple[CodeType, str]:
    """What depyf makes of Dynamo's code, compiled again. ValueError, with the reason, where that is not the same function."""
    import linecache

    from explorer.lab.stepping.decompiled_code import compiled_again

    facts = decompiled_text(transformed, code_fields(code), linecache.getlines(code.co_filename))
    if facts.undone is not None:
        raise ValueError(f"depyf cannot turn its instruction {facts.undone} into Python")
    with warnings_ignored_here():
        return compiled_again(facts.text, code, transformed, file), facts.text
