"""The wrapper that Inductor writes: the runnable program that allocates buffers and launches kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.model.records import Record, changed, record, typed
from explorer.model.shared import CallMemory, Kernel, OutputCode, OutputCodeText
from explorer.model.stage import Frames, KernelPlace, Stage, text_artifact
from explorer.model.syntax import parsed, statements
from explorer.model.trace_data import TraceData
from explorer.model.values import BUFFER, LAUNCH, Artifact, Event, Link, once
from explorer.stages.fx_graph import all_fx_nodes, node_lines
from explorer.stages.inductor import cpp_wrapper as _cpp_wrapper
from explorer.stages.inductor.kernel import definition_line
from explorer.stages.inductor.library_calls import nodes_of_calls
from explorer.stages.inductor.scheduler_ir import all_nodes, post_grad_lines
from explorer.stages.kinds import BLANK


@record
class LibraryMemory(Record):
    """What the library calls of the output code allocate, measured."""

    calls: tuple[CallMemory, ...]


#: The kind of event that says what library calls allocate; it comes behind the output code that has them.
MEMORY = "library_memory"
#: How a call into a library is known: it makes the buffer that an extern kernel's scheduler node writes.
EXTERN = "extern kernel"
#: How the name of a function of a library begins.
LIBRARIES = ("extern_kernels.", "torch.ops.", "aten.", "aoti_torch_")
#: How Inductor names each kernel in Metal (`MetalScheduling.define_kernel` of torch/_inductor/codegen/mps.py).
METAL_KERNEL = "generated_kernel_"
#: How it names the library of a template in Metal; it calls a function in it (codegen/metal_flex_attention_template.py).
METAL_LIBRARY = "_mps_flex_lib_"
_MULTI = re.compile(r"^(\w+) = async_compile\.multi_kernel\('\w+', \[([^\]]*)\]", re.MULTILINE)
_BUFFER = re.compile(r"^\s+(\w+) = |\bout=(\w+)\)")
_DEFINED = re.compile(r"^(\w+) = async_compile\.\w+\(", re.MULTILINE)


def render(event: Event, id: str) -> Artifact:
    """The wrapper's file; of cpp_wrapper it is Python around C++, of AOTInductor all of it is C++."""
    language = "cpp" if _cpp_wrapper.is_cpp(typed(OutputCodeText, event.data).text) else "python"
    return text_artifact(event, id, "Output code", language)


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """Add what the library calls allocate to the output code that has them."""
    code: Event | None = None
    for event in events:
        if event.kind != MEMORY:
            if code is not None:
                yield code
            code = event
        elif code is not None and (code.frame, code.graph) == (event.frame, event.graph):
            calls = typed(LibraryMemory, event.data).calls
            code = replace(code, data=changed(typed(OutputCodeText, code.data), calls=calls)) if calls else code
    if code is not None:
        yield code


#: The functions of a wrapper, each with the lines and names of its calls.
CallsByFunction = tuple[tuple[str, tuple[tuple[int, str], ...]], ...]


@once
def calls_of(artifact: Artifact) -> tuple[tuple[int, str], ...]:
    """(line, name) of each call in the wrapper's `call` that launches a kernel or goes into a library."""
    if artifact.language == "cpp":
        return _cpp_wrapper.calls(artifact.text)
    called = (call for function, calls in calls_by_function(artifact) if not function.startswith("benchmark") for call in calls)
    defined = frozenset(_DEFINED.findall(artifact.text))
    return tuple((line, name) for line, name in called if _computes(name) or kernel_called(name) in defined)


def names_called(artifact: Artifact) -> Iterator[str]:
    """The names of the functions that a wrapper in Python calls from `call` and from the partitions.

    A region that several calls share is a function of the wrapper: what it calls is named once for each call of it.
    """
    called = dict(calls_by_function(artifact))
    for function, calls in calls_by_function(artifact):
        if function == "call" or function.startswith("partition_"):
            yield from _reached(calls, called)


def _reached(calls: Sequence[tuple[int, str]], called: Mapping[str, Sequence[tuple[int, str]]]) -> Iterator[str]:
    """The names of some calls, and of what those call that are functions of the wrapper."""
    for _, name in calls:
        yield name
        if name != "call" and not name.startswith("partition_"):
            yield from _reached(called.get(name, ()), called)


@once
def calls_by_function(artifact: Artifact) -> CallsByFunction:
    """Each function of the wrapper, with (line, name) of each call that is a statement, or whose result a statement binds."""
    try:
        tree = parsed(artifact.text)
    except SyntaxError:
        return ()  # the kernels' failure says so
    return calls_in(statements(tree))


def calls_in(nodes: Iterable[ast.AST]) -> CallsByFunction:
    """`calls_by_function` of a wrapper's statements, for who has parsed it."""
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
    return tuple((function.name, tuple(_calls(function))) for function in functions)


def _calls(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    for statement in statements(function):
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
            yield statement.lineno, ast.unparse(statement.value.func)


def _computes(name: str) -> bool:
    """Whether a call of the wrapper is a kernel's launch or a library's operator."""
    return name.endswith(".run") or name.startswith((*LIBRARIES[:3], "cpp_", "triton_", METAL_KERNEL, METAL_LIBRARY))


def kernel_called(name: str) -> str:
    """The kernel that a call launches, by the name of the called function.

    The function of a kernel in CUDA C++ or HIP, which is in a library of its own, has the name that the library has.
    """
    library, _, function = name.partition(".")
    return library if library == function or name.startswith(METAL_LIBRARY) else name.removesuffix(".run")


def library_calls(artifact: Artifact) -> Iterator[KernelPlace]:
    """Each call that goes into a library, by the line that makes it."""
    for line, name in calls_of(artifact):
        if name.startswith(LIBRARIES):
            yield KernelPlace(name, (line,))


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link launches to kernels, buffers to scheduler nodes, and calls into a library to FX nodes."""
    kernels = {a.kernel: a for a in trace.find("kernel", artifact.frame, artifact.graph)}
    several = {m[1]: re.findall(r"\w+", m[2]) for m in _MULTI.finditer(artifact.text)}
    for number, called in calls_of(artifact):
        name = kernel_called(called)
        for kernel in (kernels[n] for n in several.get(name, (name,)) if n in kernels):
            if line := definition_line(kernel):
                yield Link(artifact.id, (number,), kernel.id, (line,), LAUNCH)
    yield from _link_buffers(artifact, trace)


def _link_buffers(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link the lines that make a buffer, by the buffer's name."""
    graph, nodes = post_grad_lines(artifact, trace)
    writers = {buffer: fx_lines for fx_lines in all_nodes(artifact, trace) for buffer in fx_lines[2].writes}
    launched = {number for number, _ in calls_of(artifact)}
    made_by_name: set[int] = set()
    makes = _cpp_wrapper.BUFFER if artifact.language == "cpp" else _BUFFER
    for number, line in enumerate(artifact.lines, 1):
        match = makes.search(line)
        buffer = next(filter(None, match.groups()), "") if match is not None else ""
        if buffer not in writers:
            continue
        after, first, node = writers[buffer]
        made_by_name.add(number)
        yield Link(artifact.id, (number,), after.id, (first,), BUFFER)
        names = (node.node,) if node.node else node.origins
        fx_lines = tuple(sorted(nodes[name] for name in names if name in nodes))
        if fx_lines and node.kind.startswith("Extern") and (number in launched or "[" in line):
            yield Link(artifact.id, (number,), graph, fx_lines, EXTERN)
    if writers:
        yield from _link_calls(artifact, trace, made_by_name)
    else:
        yield from _link_without_scheduler(artifact, trace)


def _link_without_scheduler(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link calls into libraries to FX nodes where the scheduler's nodes are not known, as of a log or a cached graph."""
    graphs = trace.find("post_grad", artifact.frame, artifact.graph)
    if not graphs or artifact.language == "cpp":
        return
    kernels = trace.find("kernel", artifact.frame, artifact.graph)
    in_kernels = {node for a in kernels for one in typed(Kernel, a.data).definitions or () for node in one.nodes or ()}
    library = [(line, name) for line, name in calls_of(artifact) if name.startswith(LIBRARIES)]
    lines = node_lines(graphs[-1])
    for line, node in nodes_of_calls(library, artifact, graphs[-1], in_kernels):
        yield Link(artifact.id, (line,), graphs[-1].id, (lines[node],), EXTERN)


def _link_calls(artifact: Artifact, trace: TraceData, linked_lines: set[int]) -> Iterator[Link]:
    """Link calls that make no buffer, such as an in-place operator's, by the operator and their order.

    Link the wrapper's calls to the scheduler nodes in their order, if there are as many calls as nodes.
    """
    graph, lines = post_grad_lines(artifact, trace)
    graphs = trace.find("post_grad", artifact.frame, artifact.graph)
    targets = {node.name: node.target for node in all_fx_nodes(graphs[-1]) if node.name in lines} if graphs else {}
    calls: dict[str, list[int]] = {}
    for number, called in calls_of(artifact):
        if number not in linked_lines:
            calls.setdefault(called.removeprefix("torch.ops."), []).append(number)
    nodes: dict[str, list[tuple[Artifact, int, str]]] = {}
    for after, first, node in all_nodes(artifact, trace):
        for name in node.origins if node.kind.startswith("Extern") else ():
            if targets.get(name) in calls:
                nodes.setdefault(targets[name], []).append((after, first, name))
    for called, numbers in calls.items():
        if len(numbers) == len(nodes.get(called, ())):
            for number, (after, first, name) in zip(numbers, nodes[called], strict=True):
                yield Link(artifact.id, (number,), after.id, (first,), BUFFER)
                yield Link(artifact.id, (number,), graph, (lines[name],), EXTERN)


def kinds(artifact: Artifact) -> list[str]:
    """Launches and calls of other kernels compute; everything else of the wrapper serves them."""
    kinds_of_lines = ["checks, buffers and imports"] * len(artifact.lines)
    for number, _ in calls_of(artifact):
        kinds_of_lines[number - 1] = ""
    for number, line in enumerate(artifact.lines):
        if not line.strip():
            kinds_of_lines[number] = BLANK
    return kinds_of_lines


STAGE = Stage(
    name="output_code",
    title="Output code",
    language="python",
    event=OutputCodeText,
    artifact=OutputCode,
    render=render,
    gather=gather,
    consumes={MEMORY: LibraryMemory},
    kinds=kinds,
    kernels=library_calls,
    link=link,
    phases=("GraphLowering.codegen",),
    backend="inductor",
    over_wholes=True,
    opens_at=5,
    about="The program that runs at each call: it checks inputs, allocates buffers and launches the kernels below.",
)
