"""Watch Dynamo: frames, bytecode, guards, graph breaks, recompiles, symbols, and the FX graph it hands on."""

from __future__ import annotations

import dis
import inspect
import io
import linecache
import re
import textwrap
import traceback
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from explorer.model.stage import Emit, Facts
from explorer.model.values import Plain, text_lines
from explorer.observe.failed import failed_compiles
from explorer.observe.fx import graph_facts
from explorer.observe.patch import guarded, replaced
from explorer.observe.places import in_package
from explorer.observe.sources import CHANGED, code_at, installed, is_resume, source_of
from explorer.observe.structured import interned, listening

#: The folder of this package, with the separator.
OWN_FOLDER = str(Path(__file__).parents[1] / "_")[:-1]
#: A line of a Python traceback, as FX nodes keep them.
STACK_LINE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)')

#: The instruction in depyf's error: Instruction(opname='SWAP', …) or its print.
_INSTRUCTION = re.compile(r"(?:opname=')?\b(?P<name>[A-Z][A-Z_]{2,})\b")

_DEF = re.compile(r"(?P<indent>\s*)(?:async\s+)?def\s+(?P<name>\w+)")
_CLASS = re.compile(r"(?P<indent>\s*)class\s+(?P<name>\w+)")


def emit_inlined(emit: Emit, code: CodeType) -> None:
    """Record the source of a function that runs inside a compiled frame of another."""
    emit("source", lambda: {**_source_facts(code), "inlined": True, "compiled": False})
    emit.attempt("source", "changed", lambda: _refuse_changed(code))


def current_compile_id() -> str:
    """The compile id under way in this thread, such as "0/1"; "" outside a compile."""
    from torch._guards import CompileContext

    return str(CompileContext.current_compile_id() or "")


def disassembly(code: CodeType) -> str:
    """The bytecode as `dis` prints it, line numbers included."""
    out = io.StringIO()
    dis.dis(code, file=out, depth=0)
    return out.getvalue().rstrip()


def code_facts(code: CodeType) -> dict[str, Plain]:
    """What every stage of one frame says of its code object."""
    return {
        "function": code.co_name,
        "qualname": code.co_qualname,
        "file": code.co_filename,
        "line": code.co_firstlineno,
        "resume": is_resume(code),
    }


def _source_facts(code: CodeType) -> Facts:
    text, first, unseen = source_of(code, _original(code))
    return {**code_facts(code), "text": text, "first_line": first, **({"unseen": unseen} if unseen else {})}


def _original(code: CodeType) -> CodeType | None:
    """The function that a resume function goes on with."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    known = ContinueExecutionCache.generated_code_metadata.get(code) if is_resume(code) else None
    return getattr(known, "code", None)


def _refuse_changed(code: CodeType) -> None:
    """Raise what becomes a Failure where the file of a code object has changed since it was compiled."""
    if source_of(code, _original(code))[2] == CHANGED:
        raise OSError(
            f"{Path(code.co_filename).name} has changed since {code.co_qualname} was compiled from it: its lines are shown by "
            "number only, and the code that torch quotes in graphs is the changed file's. Import it anew, and trace again"
        )


def _bytecode_facts(code: CodeType, name_from: CodeType) -> Facts:
    return {**code_facts(name_from), "text": disassembly(code), "names": code.co_names}


def _transformed_facts(transformed: CodeType, code: CodeType) -> Facts:
    """Dynamo's bytecode, and which of its instructions are the user's own."""
    facts = dict(_bytecode_facts(transformed, code))
    copied = copied_lines(str(facts["text"]), transformed, code)
    return facts if copied is None else {**facts, "copied": copied}


def copied_lines(text: str, transformed: CodeType, code: CodeType) -> list[tuple[int, int]] | None:
    """The lines of a disassembly that Dynamo copied from the user's function, each with its line in the user's file.

    A copied instruction keeps its positions, columns included; one that Dynamo makes has no columns, and in the line table
    it stands under whatever line was before. None where `dis` prints not one line an instruction.
    """
    lines = [n for n, line in enumerate(text_lines(text.partition("\nExceptionTable:")[0]), 1) if line.strip()]
    instructions = list(dis.get_instructions(transformed))
    if len(lines) != len(instructions):
        return None
    users = {_position(instruction) for instruction in dis.get_instructions(code)}
    copied: list[tuple[int, int]] = []
    prefixes: list[int] = []
    for number, instruction in zip(lines, instructions, strict=True):
        if instruction.opname == "EXTENDED_ARG":  # the upper bits of the next instruction's argument
            prefixes.append(number)
            continue
        place = instruction.positions
        if place is not None and place.lineno and place.col_offset is not None and _position(instruction) in users:
            copied += [(n, place.lineno) for n in (*prefixes, number)]
        prefixes.clear()
    return copied


def _position(instruction: dis.Instruction) -> tuple[str, dis.Positions | None]:
    """What a copy of an instruction has of it; Dynamo may turn a jump round."""
    return re.sub("_(FORWARD|BACKWARD)", "", instruction.opname), instruction.positions


def _decompiled_facts(code: CodeType, name_from: CodeType) -> Facts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # depyf leaves a file open while it is imported
        from depyf import decompile
        from depyf.decompiler import DecompilationError

    facts = code_facts(name_from)
    try:
        return {**facts, "text": decompile(code)}
    except DecompilationError as error:
        return {**facts, "text": with_source_lines(code), "undone": undone_by(error)}


def undone_by(error: BaseException) -> str:
    """The instruction that depyf could not turn into Python, such as "SWAP"; "" where it does not say."""
    named = _INSTRUCTION.search(str(error))
    return named["name"] if named else ""


def with_source_lines(code: CodeType) -> str:
    """The bytecode, with each line of the source before the instructions that were copied from it."""
    lines, parts = linecache.getlines(code.co_filename), list[str]()
    started = {offset: line for offset, _, line in code.co_lines() if line}
    shown = None
    for instruction in dis.get_instructions(code):
        line = started.get(instruction.offset)
        place = instruction.positions
        copied = place is not None and place.col_offset is not None
        if line and copied and line != shown and line <= len(lines):
            shown = line
            parts.append(f"# {line}: {lines[line - 1].strip()}")
        parts.append(f"    {instruction.opname:<24} {instruction.argrepr}".rstrip())
    return "\n".join(parts)


def depyf_installed() -> bool:
    """True where the optional decompiler is installed; does not import it."""
    import importlib.util

    return importlib.util.find_spec("depyf") is not None


def emit_function(emit: Emit, code: CodeType, *, not_compiled: int | None = None) -> None:
    """Record the source and the original bytecode of one function; `not_compiled` counts those that were not."""
    extra = {"compiled": not_compiled is None, "not_compiled": not_compiled}
    emit("source", lambda: {**_source_facts(code), **extra})
    emit.attempt("source", "changed", lambda: _refuse_changed(code))
    emit("bytecode", lambda: {**_bytecode_facts(code, code), **extra})


@contextmanager
def bytecode(emit: Emit) -> Iterator[None]:
    """Record the source, the bytecode before and after Dynamo, and the decompilation of each frame.

    Resume functions that were made but have not run are recorded at the end, as frames not compiled yet.
    """
    from torch._dynamo.convert_frame import register_bytecode_hook

    seen: list[CodeType] = []
    decompile = depyf_installed()

    def hook(code: CodeType, transformed: CodeType) -> None:
        seen.append(code)
        emit_function(emit, code)
        emit("dynamo_bytecode", lambda: _transformed_facts(transformed, code))
        if decompile:
            emit.later("decompiled", lambda: _decompiled_facts(transformed, code))

    handle = register_bytecode_hook(guarded(lambda code, transformed: None, lambda _: hook, "bytecode hook"))
    try:
        yield
        for number, code in enumerate(_resumes_not_run(seen)):
            emit_function(emit, code, not_compiled=number)
    finally:
        handle.remove()


def _resumes_not_run(compiled: list[CodeType]) -> list[CodeType]:
    """The resume functions made for the compiled functions that have not been compiled themselves."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    cache = ContinueExecutionCache.cache
    made = [resume for code in compiled if code in cache for resume in cache[code].values()]
    return [code for code in dict.fromkeys(made) if not any(code is c for c in compiled)]


@contextmanager
def frames(emit: Emit) -> Iterator[None]:
    """Record the start of each compile, with the program's stack that led to it, and how it failed where it did."""

    def started(metadata: Mapping[str, Any], payload: str) -> None:
        stack = metadata["dynamo_start"]["stack"]
        rows = [{"file": interned(f["filename"]), "line": f["line"], "function": f["name"]} for f in stack]
        emit("frame", lambda: {"stack": rows})

    with listening(emit, {"dynamo_start": started}), failed_compiles(emit):
        yield


@contextmanager
def logged(emit: Emit, kind: str, name: str) -> Iterator[None]:
    """Record the payload of each structured record `name` as an event of `kind`."""

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        emit(kind, lambda: {"text": payload})

    with listening(emit, {name: heard}):
        yield


@contextmanager
def guards(emit: Emit) -> Iterator[None]:
    """Record Dynamo's guard tree, and where torch made the guards that are from no line of the user's."""
    from torch._dynamo.guards import CheckFunctionManager

    made_at: list[dict[str, Plain]] = []

    def make(original: Any) -> Any:
        def __init__(self: Any, code: Any, output_graph: Any, *args: Any, **kwargs: Any) -> None:
            made_at.clear()
            emit.attempt("guards", "origins", lambda: made_at.extend(_guards_of_torch(output_graph.guards)))
            original(self, code, output_graph, *args, **kwargs)

        return __init__

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        emit("guards", lambda: {"text": payload, "made_at": made_at})

    with replaced(CheckFunctionManager, "__init__", make), listening(emit, {"dynamo_cpp_guards_str": heard}):
        yield


def _guards_of_torch(made: Any) -> Iterator[dict[str, Plain]]:
    """Kind, source and place in torch of each guard that Dynamo made for no line of the user's."""
    for guard in made:
        summary = guard.stack.summary() if guard.stack is not None and not guard.user_stack else ()
        if summary:
            last = summary[-1]
            place = f"{in_package(last.filename).removeprefix('torch/') or last.filename}:{last.lineno} in {last.name}"
            yield {"kind": guard.create_fn_name(), "source": str(guard.name), "place": place}


@contextmanager
def graph_breaks(emit: Emit) -> Iterator[None]:
    """Record Dynamo's message for each graph break, without explorer's own calls among the user's."""

    def heard(metadata: Mapping[str, Any], payload: str) -> None:
        emit("graph_break", lambda: {"text": without_own_calls(payload)})

    with listening(emit, {"dynamo_graph_break_reason": heard}):
        yield


def without_own_calls(text: str) -> str:
    """A text without the entries of Python tracebacks that stand in explorer's own files."""
    own, kept, skipping = f'  File "{OWN_FOLDER}', list[str](), False
    for line in text_lines(text, ends=True):
        skipping = line.startswith(own) or (skipping and line.startswith("    "))
        if not skipping:
            kept.append(line)
    return "".join(kept)


#: Files of torch through which every condition on symbols goes, whoever asks for it.
ASKED_THROUGH = ("torch/_logging/", "torch/fx/experimental/", "torch/utils/", "torch/_inductor/sizevars.py", "torch/__init__.py")


def _place_in_torch(stack: list[Mapping[str, Any]]) -> str:
    """The innermost place of torch's own on a logged stack that asked for a condition; "" where there is none."""
    for frame in reversed(stack):
        file = in_package(interned(frame.get("filename")))
        if file.startswith("torch/") and not file.startswith(ASKED_THROUGH):
            return f"{file.removeprefix('torch/')}:{frame['line']} in {frame['name']}"
    return ""


#: The source of a symbol that no input gives: a size or number that is read from a tensor's data.
UNBACKED = "data (unbacked: known only when the code runs)"


@contextmanager
def symbols(emit: Emit) -> Iterator[None]:
    """Record each symbol that Dynamo makes for a dynamic size, where it is from, and what is learnt of it."""

    def line_of(facts: Mapping[str, Any]) -> dict[str, Plain]:
        stack = facts.get("user_stack") or []
        last = stack[-1] if stack else {}
        framework = "" if stack else _place_in_torch(facts.get("stack") or [])
        user = {"file": interned(last.get("filename")), "line": last.get("line", 0), "code": last.get("loc", "")}
        return {**user, "framework": framework}

    def created(metadata: Mapping[str, Any], payload: str) -> None:
        facts = metadata["create_symbol"]
        kept = {k: str(facts[k]) for k in ("symbol", "val", "vr", "source") if k in facts}
        emit("symbol", lambda: {"what": "created", **kept, **line_of(facts)})

    def guarded(metadata: Mapping[str, Any], payload: str) -> None:
        facts = next(iter(metadata.values()))
        emit("symbol", lambda: {"what": "guarded", "expr": str(facts.get("expr", "")), **line_of(facts)})

    def unbacked(metadata: Mapping[str, Any], payload: str) -> None:
        facts = metadata["create_unbacked_symbol"]
        known = {"symbol": str(facts["symbol"]), "val": "", "vr": str(facts["vr"]), "source": UNBACKED}
        emit("symbol", lambda: {"what": "created", **known, **line_of(facts)})

    with listening(
        emit, {"create_symbol": created, "create_unbacked_symbol": unbacked, "guard_added_fast": guarded, "guard_added": guarded}
    ):
        yield


@contextmanager
def graph(emit: Emit) -> Iterator[None]:
    """Record the FX graph of each frame at the moment it is handed to the backend, whichever that is.

    When the recording ends, so is the source of each function that was inlined into the graphs.
    """
    from torch._dynamo.output_graph import OutputGraph

    stacks: list[tuple[str, str]] = []
    made = MadeAt()

    def facts(gm: Any) -> Facts:
        found = graph_facts(gm, made.stack)
        stacks.extend((current_compile_id(), stack) for stack in found["stacks"])
        made.forget()
        return found

    def make(original: Any) -> Any:
        def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
            emit("dynamo", lambda: facts(gm))
            return original(self, gm, *args, **kwargs)

        return call_user_compiler

    with replaced(OutputGraph, "call_user_compiler", make), made.watching(emit):
        yield
    emit.attempt("source", "inlined functions", lambda: _emit_inlined(emit, stacks, made.codes))


class MadeAt:
    """The calls under way when Dynamo made a node, for the nodes that it gives no stack itself.

    Dynamo leaves torch's own modules out of its stacks, so that the user's line is the innermost. Where a module of torch's
    is all that is traced, such as an nn.Sequential, nothing would be left; nor does it write a stack for switches such as
    autocast. Kept until the graph is handed on.
    """

    def __init__(self) -> None:
        self._calls: dict[Any, list[traceback.FrameSummary]] = {}
        self.codes: dict[CodeType, None] = {}  # of all calls seen

    @contextmanager
    def watching(self, emit: Emit) -> Iterator[None]:
        """Note the calls whenever Dynamo makes a node."""
        from torch._dynamo.output_graph import SubgraphTracer
        from torch.fx import Graph

        def make_copy(original: Any) -> Any:
            def node_copy(graph: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
                copied = original(graph, node, *args, **kwargs)
                if node in self._calls:  # such as of the body of an autograd.Function, which Dynamo writes anew
                    self._calls[copied] = self._calls[node]
                return copied

            return node_copy

        def make(original: Any) -> Any:
            def create_node(tracer: Any, *args: Any, **kwargs: Any) -> Any:
                node = original(tracer, *args, **kwargs)
                emit.attempt("dynamo", "stack", lambda: self._note(node, tracer.output_graph.current_tx))
                return node

            return create_node

        with replaced(SubgraphTracer, "create_node", make), replaced(Graph, "node_copy", make_copy):
            yield
        self.forget()

    def _note(self, node: Any, frame: Any) -> None:
        calls = []
        while frame is not None:
            calls.append(frame.frame_summary())
            if isinstance(code := getattr(frame, "f_code", None), CodeType):
                self.codes[code] = None
            frame = getattr(frame, "parent", None)
        self._calls[node] = calls[::-1]

    def stack(self, node: Any) -> str:
        """The calls as Python's traceback writes them, outermost first; "" for a node that Dynamo did not make."""
        return "".join(traceback.StackSummary.from_list(self._calls.get(node, ())).format())

    def forget(self) -> None:
        """Keep nothing of the graphs seen so far."""
        self._calls.clear()


def emit_sources(emit: Emit, frame: str, graph: Any) -> None:
    """Record the source of each function on the stacks of a graph that Dynamo has not made while recording."""
    nodes = (node for module in graph.modules() for node in getattr(getattr(module, "graph", None), "nodes", ()))
    stacks = dict.fromkeys(stack for node in nodes if (stack := node.meta.get("stack_trace")))
    _emit_inlined(emit, [(frame, stack) for stack in stacks], ())


def _emit_inlined(emit: Emit, stacks: list[tuple[str, str]], codes: Collection[CodeType]) -> None:
    """Record the source of each function on the stacks, once, with the first frame it was inlined into.

    Of `codes`, those under way when nodes were made, a function is shown by line numbers where its file has changed, or where
    it has none.
    """
    places: dict[tuple[str, int, str], str] = {}
    for frame, stack in stacks:
        for m in STACK_LINE.finditer(stack):
            places.setdefault((m["file"], int(m["line"]), m["function"]), frame)
    done: set[tuple[str, int]] = set()
    for (file, line, function), frame in places.items():
        first = definition_line(linecache.getlines(file), line, function)
        code = None if installed(file) else code_at(codes, file, line, function)
        if code is not None and not is_resume(code) and source_of(code)[2]:
            if (file, code.co_firstlineno) not in done:
                done.add((file, code.co_firstlineno))
                with emit.within(frame):
                    emit_inlined(emit, code)
        elif first and (file, first) not in done:
            done.add((file, first))
            with emit.within(frame):
                emit("source", lambda f=file, n=first: _inlined_facts(f, n))  # type: ignore[misc]


def definition_line(lines: list[str], line: int, function: str) -> int:
    """The line, counted from 1, of the `def` of the function that a line of a traceback is in; 0 where there is none.

    Found by indentation, without parsing files of thousands of lines: the last `def` of that name above the line
    that is indented less than all code since. Comprehensions and lambdas count to the function around them.
    """
    indent = None
    for number in range(min(line, len(lines)), 0, -1):
        text = lines[number - 1]
        if not text.strip() or text.lstrip().startswith(("#", ")", "]", "}")):
            continue
        width = len(text) - len(text.lstrip())
        found = _DEF.match(text)
        outer = number == line or indent is None or width < indent
        if found and outer and (function.startswith("<") or found["name"] == function):
            return number
        indent = width if indent is None else min(indent, width)
        if indent == 0 and not found and number != line and text[0] not in "@":
            return 0
    return 0


def qualified_name(lines: list[str], line: int) -> str:
    """The name of the function defined at a line, with the classes and functions it is defined in."""
    names, indent = [], 1 << 30
    for number in range(line, 0, -1):
        found = _DEF.match(lines[number - 1]) or _CLASS.match(lines[number - 1])
        if found and len(found["indent"]) < indent:
            indent = len(found["indent"])
            names.append(found["name"])
        if indent == 0:
            break
    return ".".join(reversed(names))


def _inlined_facts(file: str, line: int) -> Facts:
    lines, first = linecache.getlines(file), line
    while first > 1 and lines[first - 2].lstrip().startswith("@"):
        first -= 1
    text = textwrap.dedent("".join(inspect.getblock(lines[first - 1 :])))
    name = qualified_name(lines, line)
    facts = {"function": name.rpartition(".")[2], "qualname": name, "file": file, "line": line, "first_line": first}
    return {**facts, "text": text, "inlined": True, "compiled": False, "resume": False}


@contextmanager
def phases(emit: Emit) -> Iterator[None]:
    """Record the start and end of each phase that the compiler itself times."""
    import json

    def phase(metadata: Mapping[str, Any], payload: str) -> None:
        record = json.loads(payload)
        if record.get("ph") in ("B", "E"):
            function = record.get("args", {}).get("fn_name", "")
            emit("phase", lambda: {"name": record["name"], "at": record["ph"], "function": function})

    with listening(emit, {"chromium_event": phase}):
        yield
