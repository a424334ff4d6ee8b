"""The wrapper that Inductor writes: the program that allocates buffers and launches kernels, whole and runnable."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from explorer.model.events import event_data
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import BUFFER, LAUNCH, Artifact, Event, Link, text_lines
from explorer.stages.inductor import cpp_wrapper as _cpp_wrapper
from explorer.stages.inductor.kernel import definition_line
from explorer.stages.inductor.scheduler_ir import all_nodes, post_grad_lines
from explorer.stages.kinds import calls_of

#: How a call into a library is known: it makes the buffer that an extern kernel's scheduler node writes.
EXTERN = "extern kernel"
_MULTI = re.compile(r"^(\w+) = async_compile\.multi_kernel\('\w+', \[([^\]]*)\]", re.MULTILINE)
_BUFFER = re.compile(r"^\s+(\w+) = |\bout=(\w+)\)")

#: async_compile's methods, and the language of the source each is given.
LANGUAGES = {"triton": "triton", "cpp_pybinding": "cpp", "cpp": "cpp", "cuda": "cuda", "rocm": "hip", "halide": "halide"}


def render(event: Event, id: str) -> Artifact:
    """The wrapper's file; of cpp_wrapper it is Python around C++, of AOTInductor all of it is C++."""
    language = "cpp" if _cpp_wrapper.is_cpp(str(event.data["text"])) else "python"
    return text_artifact(event, id, "Output code", language)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Each launch to its kernel; each buffer's line to its scheduler node, and where a library computes it to the FX node."""
    kernels = {a.kernel: a for a in trace.find("kernel", artifact.frame, artifact.graph)}
    several = {m[1]: re.findall(r"\w+", m[2]) for m in _MULTI.finditer(artifact.text)}
    for number, called in calls_of(artifact):
        name = called.removesuffix(".run")
        for kernel in (kernels[n] for n in several.get(name, (name,)) if n in kernels):
            if line := definition_line(kernel):
                yield Link(artifact.id, (number,), kernel.id, (line,), LAUNCH)
    yield from _link_buffers(artifact, trace)


def _link_buffers(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """The lines that make a buffer, by the buffer's name."""
    graph, nodes = post_grad_lines(artifact, trace)
    writers = {buffer: found for found in all_nodes(artifact, trace) for buffer in found[2]["writes"]}
    launched = {number for number, _ in calls_of(artifact)}
    made_by_name: set[int] = set()
    makes = _cpp_wrapper.BUFFER if artifact.language == "cpp" else _BUFFER
    for number, line in enumerate(artifact.lines, 1):
        if not (made := makes.search(line)) or (made[1] or made[2]) not in writers:
            continue
        after, first, row = writers[made[1] or made[2]]
        made_by_name.add(number)
        yield Link(artifact.id, (number,), after.id, (first,), BUFFER)
        names = (row["node"],) if row.get("node") else row["origins"]
        found = tuple(sorted(nodes[name] for name in names if name in nodes))
        if found and row["kind"].startswith("Extern") and (number in launched or "[" in line):
            yield Link(artifact.id, (number,), graph, found, EXTERN)
    yield from _link_calls(artifact, trace, made_by_name)


def _link_calls(artifact: Artifact, trace: TraceData, known: set[int]) -> Iterator[Link]:
    """Calls that make no buffer, such as an operator's that changes its argument, by the operator and their order.

    The wrapper calls in the order of the scheduler nodes; where there are not as many of both, nothing is said.
    """
    graph, lines = post_grad_lines(artifact, trace)
    found = trace.find("post_grad", artifact.frame, artifact.graph)
    targets = {n["name"]: str(n["target"]) for n in (*found[-1].nodes, *found[-1].inner) if n["name"] in lines} if found else {}
    calls: dict[str, list[int]] = {}
    for number, called in calls_of(artifact):
        if number not in known:
            calls.setdefault(called.removeprefix("torch.ops."), []).append(number)
    nodes: dict[str, list[tuple[Artifact, int, str]]] = {}
    for after, first, row in all_nodes(artifact, trace):
        for name in row["origins"] if row["kind"].startswith("Extern") else ():
            if targets.get(name) in calls:
                nodes.setdefault(targets[name], []).append((after, first, name))
    for called, numbers in calls.items():
        if len(numbers) == len(nodes.get(called, ())):
            for number, (after, first, name) in zip(numbers, nodes[called], strict=True):
                yield Link(artifact.id, (number,), after.id, (first,), BUFFER)
                yield Link(artifact.id, (number,), graph, (lines[name],), EXTERN)


def kernel_events(event: Event) -> Iterator[Event]:
    """An event of kind "kernel" for each kernel that the wrapper defines, with its source and place in the wrapper."""
    if _cpp_wrapper.is_cpp(event.data["text"]):
        yield from _kernels_of_cpp(event)
        return
    for statement in ast.parse(event.data["text"]).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            yield from _kernel(event, statement, statement.value)


def _kernel(event: Event, statement: ast.Assign, call: ast.Call) -> Iterator[Event]:
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    texts = [a for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    target = statement.targets[0]
    if method not in LANGUAGES or not texts or not isinstance(target, ast.Name):
        return
    source = texts[-1]
    text = str(source.value)
    data = {
        "name": target.id,
        "language": LANGUAGES[method],
        "text": text.strip("\n"),
        "wrapper_line": source.lineno + len(text) - len(text.lstrip("\n")),
        "comment": _comment_above(event.data["text"], statement.lineno),
    }
    yield Event("kernel", event.time, event.frame, event.graph, event_data("kernel", data), event.path)


def _kernels_of_cpp(event: Event) -> Iterator[Event]:
    """The kernels of a wrapper in C++, whose comments say at a call, not at a definition, which operators they are."""
    for kernel in _cpp_wrapper.definitions(event.data["text"]):
        data = {
            "name": kernel.name,
            "language": LANGUAGES.get(kernel.method, kernel.method),
            "text": kernel.text,
            "wrapper_line": kernel.line,
            "comment": _comment_at_call(event.data["text"], kernel.name),
        }
        yield Event("kernel", event.time, event.frame, event.graph, event_data("kernel", data), event.path)


def _comment_at_call(text: str, kernel: str) -> str:
    """Inductor's note above the first call of a kernel; it stands there before the stream that is asked for."""
    lines = text.split("\n")
    first = next((number for number, name in _cpp_wrapper.calls(text) if name == kernel), 0)
    above = [line.strip() for line in lines[max(0, first - 4) : max(0, first - 1)]]
    return next((line for line in reversed(above) if line.startswith("// ") and "Original ATen" in line), "")


def _comment_above(text: str, line: int) -> str:
    """The comment lines right above a line: Inductor notes there which operators the kernel is made of."""
    lines = text_lines(text)[: line - 1]
    comment: list[str] = []
    while lines and lines[-1].startswith("#"):
        comment.append(lines.pop())
    return "\n".join(reversed(comment))


STAGE = Stage(
    name="output_code",
    title="Output code",
    language="python",
    render=render,
    link=link,
    phases=("GraphLowering.codegen",),
    about="The program that runs at each call: it checks inputs, allocates buffers and launches the kernels below.",
)
