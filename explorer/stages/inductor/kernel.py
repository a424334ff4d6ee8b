"""Each kernel cut out of the wrapper: Triton, C++, Metal, Pallas, Halide, or what else async_compile is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePath

from explorer.model.records import typed
from explorer.model.shared import Kernel, KernelLines, KernelText, OutputCodeText, Source
from explorer.model.stage import Frames, KernelPlace, Stage, text_artifact
from explorer.model.syntax import UNREADABLE
from explorer.model.trace_data import TraceData, artifact_of, source_line
from explorer.model.values import CALLED_FROM, DEFINED, ORIGINS, Artifact, Event, Link
from explorer.stages.fx_graph import FxGraphText
from explorer.stages.inductor.cpp_values import read
from explorer.stages.inductor.cpp_wrapper import is_cpp
from explorer.stages.inductor.definitions import kernel_events, nodes_in_comment
from explorer.stages.inductor.helion import COMMENT, is_helion, named_lines
from explorer.stages.inductor.scheduler_ir import all_nodes, post_grad_lines
from explorer.stages.kinds import SHARED, kernel_kinds

#: How a line's FX node is known: it was under way when Inductor wrote the line or returned its value again; the line makes a
#: variable for one that was;
#: the line is the template's, and the template computes the node; the line is in a function that such a line calls.
CODEGEN, VARIABLE, TEMPLATE, HELPER = "codegen", "codegen, by its variable", "template", "codegen, by its call"
#: How a line's FX node is known where nothing but the kernel's nodes is: there is one alone.
ONLY = "the kernel's only FX node"
#: How a line's FX node is known where only texts are: they allow one; several, all of one line of the program; the line stores
#: what the node computes.
BY_TEXT, OF_ONE_LINE = "the only FX node that the texts allow", "one of these FX nodes, all of one line of the program"
STORES = "it stores this FX node's value"
#: How a line of a kernel that the user wrote is known to be a line of the program.
OWN = "the program's own line"
#: What Inductor writes above a kernel that the user wrote.
CUSTOM = "custom_kernel=True"
_MADE = re.compile(r"(\w+)(?:\[[^\]]*\])?(?: = |\(|;$)")
_STORE = re.compile(r"^\s*(\w+\.store\(|\w*_ptr\d+\[|transpose_mxn)")
_HELPER = re.compile(r"^def (_triton_helper_fn\w*)\(")

#: The FX nodes of each line, counted from 1, and how that is known.
Owners = dict[int, tuple[tuple[str, ...], str]]


#: The kinds of events that hold the kernels' sources, which node each of their lines computes, and the graph with the nodes.
WRAPPER, LINES, GRAPH = "output_code", "kernel_lines", "post_grad"


def render(event: Event, id: str) -> Artifact:
    """The kernel's source in its own language; `definitions` says which FX node each of its lines computes."""
    data = typed(KernelText, event.data)
    return text_artifact(event, id, f"Kernel {data.name}", data.language, kernel=data.name)


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each line to its FX node and to its line of the wrapper, and the kernel to its scheduler nodes."""
    wrapper = trace.find("output_code", artifact.frame, artifact.graph)
    first = typed(Kernel, artifact.data).wrapper_line
    if wrapper:
        for number in range(1, len(artifact.lines) + 1):
            yield Link(artifact.id, (number,), wrapper[-1].id, (first + number - 1,), "cut out of the output code")
    graph, nodes = post_grad_lines(artifact, trace)
    for number, (names, how) in owners(artifact).items():
        if node_lines := tuple(sorted(nodes[name] for name in names if name in nodes)):
            yield Link(artifact.id, (number,), graph, node_lines, how)
            if wrapper:
                yield Link(wrapper[-1].id, (first + number - 1,), graph, node_lines, how)
    yield from _link_nodes(artifact, graph, nodes)
    yield from _link_scheduler(artifact, trace)
    yield from _link_launches(artifact, trace)


def whole_text(artifact: Artifact) -> Iterator[KernelPlace]:
    """The kernel, which is all of the text."""
    yield KernelPlace(artifact.kernel, range(1, len(artifact.lines) + 1))


def _link_launches(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link a kernel of the program's own to its lines there, and to the lines that launch it outside of torch.compile."""
    data = typed(Kernel, artifact.data)
    whole = tuple(range(1, len(artifact.lines) + 1))
    if data.file is not None and data.first_line is not None:
        for number in whole:
            if place := source_line(trace, data.file, data.first_line + number - 1):
                yield Link(artifact.id, (number,), place[0], (place[1],), OWN)
    elif CUSTOM in artifact.text:
        yield from _link_copies(artifact, trace)
    if is_helion(artifact.text):
        yield from _link_comments(artifact, trace)
    places = {(call.file, call.line) for call in data.launched_from or () if call}
    for file, line in sorted(places):
        if launching := source_line(trace, file, line):
            yield Link(artifact.id, whole, launching[0], (launching[1],), CALLED_FROM)


def _link_comments(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link the lines of a Helion kernel to the program's line that the comment above them quotes, if one file has that line."""
    files = dict.fromkeys(typed(Source, source.data).file for source in trace.find("source"))
    for named in named_lines(artifact.lines):
        places = [source_line(trace, file, named.line) for file in files if PurePath(file).name == named.file]
        quoted = [place for place in places if place and artifact_of(trace, place[0]).lines[place[1] - 1].strip() == named.text]
        if len(quoted) == 1:
            yield Link(artifact.id, named.numbers, quoted[0][0], (quoted[0][1],), COMMENT)


def _link_copies(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link the functions that Inductor copied into a kernel of the program's own to their lines there."""
    text = f"\n{artifact.text}\n"
    for source in trace.find("source"):
        start = next((n for n, line in enumerate(source.lines) if line.startswith("def ")), len(source.lines))
        body = "\n".join(source.lines[start:]).rstrip()
        if body and text.count(f"\n{body}\n") == 1:
            first = text[: text.index(f"\n{body}\n")].count("\n") + 1
            for number in range(body.count("\n") + 1):
                yield Link(artifact.id, (first + number,), source.id, (start + number + 1,), OWN)


def _link_nodes(artifact: Artifact, graph: str, lines: Mapping[str, int]) -> Iterator[Link]:
    """Link the kernel's first line to the FX nodes that it computes, where no scheduler node is known that has them."""
    begin = definition_line(artifact)
    names = dict.fromkeys(n for definition in typed(Kernel, artifact.data).definitions or () for n in definition.nodes or ())
    if begin and (numbers := tuple(sorted(lines[name] for name in names if name in lines))):
        yield Link(artifact.id, (begin,), graph, numbers, ORIGINS)


def _link_scheduler(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link the kernel's first line to the scheduler nodes that it was generated for."""
    begin = definition_line(artifact)
    operations = {name for definition in typed(Kernel, artifact.data).definitions or () for name in definition.operations}
    if begin and operations:
        for after, line, node in all_nodes(artifact, trace):
            if operations & {node.name, *node.fused}:
                yield Link(artifact.id, (begin,), after.id, (line,), DEFINED)


def definition_line(artifact: Artifact) -> int:
    """The line on which the kernel's own function begins; 0 where it has none."""
    ends = {"pallas": "_kernel", "cutedsl": "_main", "nv_universal_gemm": "_main"}
    function = artifact.kernel + ends.get(artifact.language, "")
    if CUSTOM in artifact.text:  # Inductor numbers the user's kernels, and their functions keep the names that the user gave
        function = function.rpartition("_")[0] or function
    begin = (f"def {function}(", 'extern "C"', "PT_EXPORT int ", "    kernel void ", "kernel void ", "    def generate(g):")
    starts = [n for n, line in enumerate(artifact.lines, 1) if line.startswith(begin)]
    return starts[-1] if starts else 0


def owners(artifact: Artifact) -> Owners:
    """The FX nodes of each line: those of each launch, and all that need a value that Inductor computes once."""
    definitions = typed(Kernel, artifact.data).definitions or ()
    kinds = kernel_kinds(artifact)
    nodes_by_line: dict[int, dict[str, None]] = {}
    for definition in definitions:
        for number, node in definition.lines:
            if number <= len(kinds) and kinds[number - 1] not in SHARED:
                nodes_by_line.setdefault(number, {})[node] = None
    by_text = any(definition.by_text for definition in definitions)
    owned: Owners = {
        number: (tuple(names), _by_text_how(artifact.lines[number - 1], len(names)) if by_text else CODEGEN)
        for number, names in nodes_by_line.items()
    }
    if templates := tuple(dict.fromkeys(node for definition in definitions for node in definition.template)):
        return {number: (templates, TEMPLATE) for number, kind in enumerate(kinds, 1) if not kind} | owned
    if only := _only_node(definitions):
        return {number: ((only,), ONLY) for number, kind in enumerate(kinds, 1) if not kind}
    if owned and not by_text:
        owned |= _by_call(artifact.lines, kinds, owned)
        owned |= _by_variable(artifact.lines, kinds, owned)
    return owned


def _by_text_how(line: str, nodes: int) -> str:
    """How the nodes of a line are known where only texts are."""
    return OF_ONE_LINE if nodes > 1 else STORES if _STORE.match(line) else BY_TEXT


def _only_node(definitions: Sequence[KernelLines]) -> str:
    """The one FX node that a kernel computes, where only its nodes are known; "" for several."""
    nodes = {node for definition in definitions for node in definition.nodes or ()}
    return nodes.pop() if len(nodes) == 1 and not any(definition.lines for definition in definitions) else ""


def _by_variable(lines: Sequence[str], kinds: Sequence[str], owned: Owners) -> Owners:
    """Give a line that only begins a variable, such as an accumulator, to the nodes of the first line that uses it.

    `tmp_acc0` is also begun where only its vector `tmp_acc0_vec` is used; a local buffer is begun in two steps.
    """
    owned_by_variable: Owners = {}
    for number, line in reversed(list(enumerate(lines, 1))):
        if kinds[number - 1] or number in owned or not (variable := _MADE.search(line)):
            continue
        use = re.compile(rf"\b{re.escape(variable[1])}(?![0-9])")
        below = takewhile(lambda n: not lines[n - 1] or lines[n - 1].startswith((" ", "}")), range(number + 1, len(lines) + 1))
        user = next((n for n in below if (n in owned or n in owned_by_variable) and use.search(lines[n - 1])), 0)
        if user:
            owned_by_variable[number] = ((owned.get(user) or owned_by_variable[user])[0], VARIABLE)
    return owned_by_variable


def _by_call(lines: Sequence[str], kinds: Sequence[str], owned: Owners) -> Owners:
    """Give the lines of a helper function, such as a scan's combine function, to the nodes of the lines that name it."""
    owned_by_call: Owners = {}
    helper = ""
    for number, line in enumerate(lines, 1):
        if start := _HELPER.match(line):
            helper = start[1]
        elif not line.startswith(" "):
            helper = ""
        elif helper and not kinds[number - 1] and number not in owned and (names := _callers(helper, lines, owned)):
            owned_by_call[number] = (names, HELPER)
    return owned_by_call


def _callers(helper: str, lines: Sequence[str], owned: Mapping[int, tuple[tuple[str, ...], str]]) -> tuple[str, ...]:
    """The nodes of the lines that name a helper function."""
    use = re.compile(rf"\b{helper}\b")
    return tuple(dict.fromkeys(name for n, (names, _) in owned.items() if use.search(lines[n - 1]) for name in names))


def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
    """The recorded kernels, such as those the program launches itself, and those that the output code defines."""
    yield from (event for event in events if event.kind not in (WRAPPER, LINES, GRAPH))
    for wrapper in (event for event in events if event.kind == WRAPPER):
        kernels = list(kernel_events(wrapper))
        of_graph = [event for event in events if (event.frame, event.graph) == (wrapper.frame, wrapper.graph)]
        known = [typed(KernelLines, event.data) for event in of_graph if event.kind == LINES]
        if not any(lines.lines or lines.operations for lines in known):  # no probe saw them: in a log, or from a cache
            graphs = [typed(FxGraphText, event.data) for event in of_graph if event.kind == GRAPH]
            texts = [typed(KernelText, kernel.data) for kernel in kernels]
            known = list(_by_text(typed(OutputCodeText, wrapper.data).text, texts, graphs, known))
        for kernel in kernels:
            data = typed(KernelText, kernel.data)
            definitions = tuple(lines for lines in known if lines.name == data.name)
            yield replace(kernel, data=replace(data, definitions=definitions)) if definitions else kernel


def _by_text(
    wrapper: str, kernels: Sequence[KernelText], graphs: Sequence[FxGraphText], known: Sequence[KernelLines]
) -> Iterator[KernelLines]:
    """What the texts say of kernels: the comment above one names its nodes, and else provenance does, where it was kept."""
    stated: dict[str, tuple[str, ...]] = {lines.name: tuple(lines.nodes) for lines in known if lines.nodes}
    stated.update((kernel.name, nodes) for kernel in kernels if (nodes := nodes_in_comment(kernel.comment)))
    for name, nodes in stated.items():
        yield KernelLines(name=name, lines=(), operations=(), template=(), nodes=nodes)
    texts = {kernel.name: kernel.text for kernel in kernels if kernel.language == "cpp"}
    if not texts or not graphs or is_cpp(wrapper):
        return
    with suppress(*UNREADABLE):  # what the texts do not say has no links
        for found in read(wrapper, texts, graphs[-1].nodes or ()):
            allowed = stated.get(found.kernel)
            lines = tuple(pair for pair in found.lines if allowed is None or pair[1] in allowed)
            unstated = None if allowed else found.nodes or None
            yield KernelLines(name=found.kernel, lines=lines, operations=(), template=(), nodes=unstated, by_text=True)


STAGE = Stage(
    name="kernel",
    title="Kernel",
    language="triton",
    event=KernelText,
    artifact=Kernel,
    render=render,
    kernels=whole_text,
    per_kernel=True,
    gather=gather,
    kinds=kernel_kinds,
    link=link,
    consumes={WRAPPER: OutputCodeText, LINES: KernelLines, GRAPH: FxGraphText},
    backend="inductor",
    opens_at=6,
    about="One fused loop nest as source: Triton for GPUs, Metal for Apple's, C++ for CPUs, Pallas or Halide on request.",
)
