"""Watch Inductor decide what becomes one kernel: each pair its scheduler asks about, each buffer lowering makes, each kernel.

One event a graph, in numbers: scheduler nodes count from 0 in the scheduler's order, and what is fused of two gets the next
number. A pair that is asked about again in a later round with the same answer is one entry, and the partners of a node
that were refused for the same rule with the same figures are one row, so that nothing is left out and nothing said twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import FrameType
from typing import Any

from explorer.model.stage import Emit, Facts
from explorer.model.values import Plain
from explorer.observe import work
from explorer.observe.patch import observed, replaced
from explorer.observe.places import in_package
from explorer.observe.subclasses import subclasses
from explorer.observe.versions import graph_generators

#: A rule: what the scheduler said, or, where it said nothing, the file, line and function that said no.
Rule = tuple[str, str, int, str]
#: So many refusals without a word are asked about again, to see where they are refused; the others are left unexplained.
MOST_LOCATED = 2000
#: The scheduler's settings that its reasons depend on.
SETTINGS = (
    "max_fusion_size",
    "max_fusion_buffer_group_pairwise_attempts",
    "score_fusion_memory_threshold",
    "aggressive_fusion",
    "max_fusion_unique_io_buffers",
    "realize_reads_threshold",
    "realize_acc_reads_threshold",
    "realize_opcount_threshold",
    "epilogue_fusion",
    "prologue_fusion",
    "benchmark_fusion",
    "combo_kernels",
    "cpp.max_horizontal_fusion_size",
)
#: What is said in place of a rule that a Force overrides, so that the rule is not taken for the reason of a later refusal.
OVERRIDDEN = "overridden by a Force"
#: Functions that only hand on that a buffer is to be made.
HANDING_ON = ("realize", "realize_input", "realize_hint", "mark_reuse", "<listcomp>", "<genexpr>")
#: Functions of Inductor around the lowering of every node.
AROUND = ("GraphLowering.run_node", "GraphLowering.output", "GraphLowering.call_function")


@contextmanager
def verdicts(emit: Emit) -> Iterator[None]:
    """Record what the scheduler considered in each graph, what it fused, and which kernel each group became."""
    logs = Logs(emit)
    with ExitStack() as stack:
        for owner, name, make in (*_scheduler_hooks(logs), *_graph_hooks(logs), *_kernel_hooks(logs)):
            stack.enter_context(replaced(owner, name, make))
        for observing in (*_graph_ends(logs), *_kernel_definitions(logs)):
            stack.enter_context(observing)
        yield


class Logs:
    """The log of each graph under way, by the graph's identity; a nested graph has its own."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._logs: dict[int, Log] = {}

    def of(self, graph: Any) -> Log:
        """The log of a GraphLowering."""
        if id(graph) not in self._logs:
            self._logs[id(graph)] = Log(graph)
        return self._logs[id(graph)]

    def now(self) -> Log:
        """The log of the graph under way."""
        from torch._inductor.virtualized import V

        return self.of(V.graph)

    def weigh(self, nodes: Sequence[Any]) -> None:
        """Add what each node that is left moves and computes; one that cannot be read says so, and the others have theirs."""
        log = self.now()
        for row, node in zip(log.final, nodes, strict=False):  # none, where the end failed
            self.attempt("work", partial(log.weigh, row, node))

    def close(self, graph: Any) -> None:
        """Emit what was seen of a graph that is done, or that failed."""
        log = self._logs.pop(id(graph), None)
        if log is not None and log.names:
            self.emit("fusion", log.facts)

    def attempt(self, step: str, action: Callable[[], object]) -> None:
        """The explorer's own work, which must not break the compile."""
        self.emit.attempt("fusion", step, action)


class Log:
    """What is seen of one graph; `facts` gives it as plain values."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph  # held, so that its identity stays its own
        self.names: list[str] = []
        self.groups: list[dict[str, Plain]] = []
        self.rounds: list[dict[str, Plain]] = []
        self.kernels: list[tuple[str, list[int]]] = []
        self.final: list[dict[str, Plain]] = []
        self.made: list[dict[str, Plain]] = []
        self.scores: dict[tuple[int, int], tuple[int, list[Plain]]] = {}
        self.parts: list[str] = []
        self.asking = False
        self.depth = 0
        self.said: Rule | None = None
        self.said_args: tuple[Any, ...] = ()
        self.shared: int | None = None
        self._numbers: dict[Any, int] = {}
        self._by_name: dict[str, int] = {}
        self._rules: dict[Rule, int] = {}
        self._args: dict[tuple[str, ...], int] = {}
        self._texts: dict[Any, str] = {}
        self._paths: dict[tuple[tuple[str, int, str], ...], int] = {}
        self._pairs: dict[tuple[int, int], list[list[Any]]] = {}
        self._located = 0
        self._awaited: tuple[int, int] | None = None

    # Nodes ---------------------------------------------------------------------------------------------------------

    def begin(self, nodes: Sequence[Any]) -> None:
        """The scheduler's nodes in its own order, before any fusion."""
        single = sorted((part for node in nodes for part in node.get_nodes()), key=lambda part: int(part.min_order))
        self.names = [part.get_name() for part in single]
        self._by_name = {name: number for number, name in enumerate(self.names)}
        self._numbers = {part: number for number, part in enumerate(single)}

    def number(self, node: Any) -> int:
        """A node's number; one that is made of several without a fusion, such as a foreach node, gets the next."""
        found = self._numbers.get(node)
        if found is None:
            members = [self._by_name[part.get_name()] for part in node.get_nodes()]
            found = members[0] if len(members) == 1 and not node.is_foreach() else self._group(node, members)
            self._numbers[node] = found
        return found

    def _group(self, node: Any, parts: list[int]) -> int:
        self.groups.append({"kind": type(node).__name__, "of": parts, "round": len(self.rounds) - 1})
        return len(self.names) + len(self.groups) - 1

    # Verdicts ------------------------------------------------------------------------------------------------------

    def asked(self, node1: Any, node2: Any, answer: bool, again: Callable[[], object]) -> None:
        """The scheduler asked whether two nodes can be fused, and got its answer."""
        self.settle()
        pair = self.number(node1), self.number(node2)
        if self.said is not None and self.said[0] == OVERRIDDEN:
            self.said = None  # what a Force overrides is no reason; who refused after it did so without a word
        if answer:
            self._awaited = None if self.asking else pair
            self._note(pair, "possible", ("", "", 0, ""), (), self.shared)
        else:
            rule = self.said or self._silent(pair, again)
            self._note(pair, "refused", rule, self.said_args if self.said else (), self.shared)

    def _silent(self, pair: tuple[int, int], again: Callable[[], object]) -> Rule:
        """Where a refusal without a word came from: as seen before for this pair, or by asking again."""
        for _, rule, *_ in self._pairs.get(pair, ()):
            if rule[1]:
                return rule  # type: ignore[no-any-return]
        self._located += 1
        return ("", *refused_at(again)) if self._located <= MOST_LOCATED else ("", "", 0, "")

    def settle(self) -> None:
        """What could be fused and was not, though no rule refused it, was found to be no faster."""
        pair, self._awaited = self._awaited, None
        if pair is not None:
            self._note(pair, "refused", ("speedup_by_fusion", "", 0, ""), (), self.shared)

    def cycle(self, node1: Any, node2: Any, through: Sequence[Any]) -> None:
        """A fusion would make the graph go in a circle, through nodes that were fused before."""
        self._awaited = None
        pair = self.number(node1), self.number(node2)
        names = " ".join(str(self.number(node)) for node in through)
        self._note(pair, "refused", ("will create cycle", "", 0, ""), (names,), self.shared)

    def fused(self, node1: Any, node2: Any, made: Any) -> None:
        """Two nodes became one."""
        self._awaited = None
        pair = self.number(node1), self.number(node2)
        self._numbers[made] = self._group(made, list(pair))
        self._note(pair, "fused", ("", "", 0, ""), (), self.shared)

    def scored(self, node1: Any, node2: Any, score: Any) -> None:
        """The scheduler's score of a pair that it may fuse, with its parts where it has parts."""
        import dataclasses

        if dataclasses.is_dataclass(score):
            self.parts = [field.name for field in dataclasses.fields(score)]
            values = [getattr(score, name) for name in self.parts]
        else:
            values = list(score) if isinstance(score, (tuple, list)) else [score]
        number = [v if isinstance(v, (bool, int, float)) else str(v) for v in values]
        self.scores[self.number(node1), self.number(node2)] = len(self.rounds) - 1, number

    def _note(self, pair: tuple[int, int], verdict: str, rule: Rule, args: tuple[Any, ...], shared: int | None) -> None:
        texts = tuple(self._text(arg) for arg in args)
        seen = self._pairs.setdefault(pair, [])
        bit = 1 << max(0, len(self.rounds) - 1)
        if seen and verdict != "possible" and seen[-1][0] == "possible" and seen[-1][4] == bit:
            shared = seen.pop()[3] if shared is None else (seen.pop(), shared)[1]
        entry = [verdict, rule, texts, shared, bit]
        if seen and seen[-1][:4] == entry[:4]:
            seen[-1][4] |= bit
        else:
            seen.append(entry)

    def _text(self, arg: Any) -> str:
        """An argument as text; equal ones are written once, for sizes are long expressions."""
        try:
            if arg not in self._texts:
                self._texts[arg] = str(arg)
            return self._texts[arg]
        except TypeError:  # a tiling is a dict
            return str(arg)

    # Buffers and kernels -------------------------------------------------------------------------------------------

    def realized(self, name: str, loops: Any, frame: FrameType) -> None:
        """Lowering made a buffer of what could have been computed where it is read; the calls say why."""
        path, row = realize_path(frame, loops)
        lowered = str(getattr(getattr(self.graph, "current_node", None), "name", ""))
        number = self._paths.setdefault(path, len(self._paths))
        self.made.append({"buffer": name, "lowering": lowered, "path": number, **row})

    def kernel(self, name: str, nodes: Any) -> None:
        """A kernel was written for these nodes; marks between them are no nodes."""
        parts = [part for node in nodes if hasattr(node, "get_nodes") for part in node.get_nodes()]
        numbers = [self._by_name[part.get_name()] for part in parts if part.get_name() in self._by_name]
        self.kernels.append((name, list(dict.fromkeys(numbers))))

    def end(self, scheduler: Any) -> None:
        """The nodes that are left: each is a kernel, a part of one, or a call."""
        self.settle()
        self.final = [self._final(node) for node in scheduler.nodes]

    def _final(self, node: Any) -> dict[str, Plain]:
        inner = getattr(node, "node", None)
        row: dict[str, Plain] = {"number": self.number(node), "kind": type(node).__name__}
        if inner is not None:
            row |= {"ir": type(inner).__name__, "call": str(getattr(inner, "python_kernel_name", None) or "")}
        if node.is_foreach():
            row["combo"] = bool(getattr(node, "use_custom_partition_algo", False))
        if node.is_template():
            prologue, template, epilogue = node.get_prologue_template_epilogue(list(node.get_nodes()))
            around = {"prologue": [self.number(n) for n in prologue], "epilogue": [self.number(n) for n in epilogue]}
            row |= {"template": self.number(template), **around}
        return {**row, "read": 0, "written": 0, "unsized": [work.UNREAD]}

    def weigh(self, row: dict[str, Plain], node: Any) -> None:
        """Add what a node that is left moves and computes to its row."""
        row |= work.moved(node)
        row |= work.computed(node)

    # Facts ---------------------------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        """Everything seen, as plain values."""
        pairs = self._rows()
        return {
            "of": str(getattr(self.graph, "name", None) or ""),
            "names": self.names,
            "groups": self.groups,
            "rounds": self.rounds,
            "rules": list(self._rules),
            "args": list(self._args),
            "pairs": pairs,
            "score_parts": self.parts,
            "scores": [[r, *pair, *values] for pair, (r, values) in self.scores.items()],
            "kernels": self.kernels,
            "final": self.final,
            "settings": settings(),
            "made": self.made,
            "paths": [list(path) for path in self._paths],
        }

    def _rows(self) -> list[list[Plain]]:
        """One row a node, verdict, rule and figures: its number, the partners as ranges, shared bytes, rounds as bits."""
        rows: dict[tuple[Any, ...], list[int]] = {}
        for (first, second), entries in self._pairs.items():
            for verdict, rule, texts, shared, bits in entries:
                numbers = self._rules.setdefault(rule, len(self._rules)), self._args.setdefault(texts, len(self._args))
                rows.setdefault((first, verdict, *numbers, shared, bits), []).append(second)
        return [[*key, ranges(partners)] for key, partners in rows.items()]


def ranges(numbers: Sequence[int]) -> str:
    """ "3-66,70" for the numbers 3 to 66 and 70."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in parts)


def settings() -> dict[str, Plain]:
    """The scheduler's settings as they are."""
    from torch._inductor import config

    found = config.get_config_copy()
    known = {name: found[name] for name in SETTINGS if name in found}
    default = getattr(config, "_realize_acc_reads_threshold_default", None)
    return {name: default if v is None and name == "realize_acc_reads_threshold" else v for name, v in known.items()}


# Where a refusal comes from ------------------------------------------------------------------------------------------


def refused_at(ask: Callable[[], object]) -> tuple[str, int, str]:
    """The file, line and function that say no when `ask` is called, ("", 0, "") where another profiler is at work.

    Of the functions about fusing whose answer is false, the innermost whose caller asked nothing more and said no too.
    """
    if sys.getprofile() is not None:
        return "", 0, ""
    last: dict[int, list[tuple[str, int, str]]] = {}
    depth = 0

    def profile(frame: FrameType, event: str, value: Any) -> None:
        nonlocal depth
        if event == "call":
            depth += 1
            last.pop(depth + 1, None)
        elif event == "return":
            code = frame.f_code
            if "fus" in code.co_name and (file := in_package(code.co_filename)):
                place = file, frame.f_lineno, code.co_qualname
                last[depth] = [] if value else [place, *last.get(depth + 1, [])]
            depth -= 1

    sys.setprofile(profile)
    try:
        ask()
    finally:
        sys.setprofile(None)
    chains = [chain for _, chain in sorted(last.items()) if chain]
    return chains[0][-1] if chains else ("", 0, "")


# Why a buffer is made --------------------------------------------------------------------------------------------------


def realize_path(frame: FrameType, loops: Any) -> tuple[tuple[tuple[str, int, str], ...], dict[str, Plain]]:
    """The calls of Inductor that led to a buffer, innermost first, up to the lowering of its node; and what decided it."""
    path: list[tuple[str, int, str]] = []
    row: dict[str, Plain] = {}
    at: FrameType | None = frame
    while at is not None:
        code = at.f_code
        name = code.co_qualname
        if code.co_name == "mark_reuse" and "users" not in row:
            row |= {"users": at.f_locals.get("users"), **_body_facts(loops)}
        if file := in_package(code.co_filename):
            path.append((file, at.f_lineno, name))
        if name in AROUND:
            if name == "GraphLowering.run_node":
                row |= _node_facts(at.f_locals.get("n"), loops)
            break
        at = at.f_back
    return tuple(path), row


def _node_facts(node: Any, loops: Any) -> dict[str, Plain]:
    """Who uses the FX node that is lowered, and how much its loop body reads."""
    from torch._inductor.lowering import needs_realized_inputs

    if node is None:
        return {}
    return {
        "output": any(user.op == "output" for user in node.users),
        "needed_by": [user.name for user in node.users if user.target in needs_realized_inputs],
        **_body_facts(loops),
    }


#: For each rule of Inductor's about the size of a loop body: its setting, and those that hold where it is None.
THRESHOLDS = {
    "reads": ("realize_acc_reads_threshold", "realize_cpu_acc_reads_threshold", "_realize_acc_reads_threshold_default"),
    "operations": ("realize_opcount_threshold", "realize_cpu_opcount_threshold", "_realize_opcount_threshold_default"),
}


def _body_facts(loops: Any) -> dict[str, Plain]:
    """How much a loop body reads and computes, and how much of either Inductor repeats on that device."""
    from torch._inductor import config, ir

    counted = loops.inner_fn_opcount() if hasattr(loops, "inner_fn_opcount") else None
    on_cpu = bool(ir.is_cpu(loops))
    facts: dict[str, Plain] = {"reads": int(loops.num_reads()), "operations": counted.num_ops if counted else None}
    for what, (name, on_the_cpu, elsewhere) in THRESHOLDS.items():
        most = getattr(config, name, None)
        device_default = on_the_cpu if on_cpu else elsewhere
        if most is None and hasattr(config, device_default):
            most = getattr(config, device_default)
            name = device_default if on_cpu else name
        facts |= {f"most_{what}": most, f"setting_{what}": name}
    # torch asks for these by name in StorageBox.should_realize_on_reuse
    heavy = ("exp", "log", "log10", "log1p", "log2", "sigmoid", "tanh")
    facts["heavy"] = [name for name in heavy if on_cpu and counted is not None and name in counted.used_ops]
    return facts


# The hooks -------------------------------------------------------------------------------------------------------------

#: What is replaced: its owner, its name, and what makes the replacement of the original.
Hook = tuple[Any, str, Callable[[Any], Any]]


def _scheduler_hooks(logs: Logs) -> list[Hook]:
    """The scheduler's rounds, questions and fusions."""
    from torch._inductor import scheduler

    def make_rounds(original: Any) -> Any:
        def fuse_nodes(self: Any, nodes: Any) -> Any:
            log = logs.now()
            logs.attempt("begin", lambda: log.begin(nodes))
            with _heard(log, logs):
                return original(self, nodes)

        return fuse_nodes

    def make_round(original: Any) -> Any:
        def fuse_nodes_once(self: Any, nodes: Any, *args: Any, **kwargs: Any) -> Any:
            log, reorder = logs.now(), bool(kwargs.get("is_reorder_round", args[0] if args else False))
            log.rounds.append({"reorder": reorder, "before": len(nodes), "after": len(nodes)})
            result = original(self, nodes, *args, **kwargs)
            logs.attempt("round", log.settle)
            log.rounds[-1]["after"] = len(result)
            return result

        return fuse_nodes_once

    def make_possible(original: Any) -> Any:
        def get_possible_fusions(self: Any, *args: Any, **kwargs: Any) -> Any:
            log = logs.now()
            log.asking = True
            try:
                return original(self, *args, **kwargs)
            finally:
                log.asking = False

        return get_possible_fusions

    def make_asked(original: Any) -> Any:
        def can_fuse(self: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
            log = logs.now()
            if log.depth or not log.rounds or node1 is node2:
                return original(self, node1, node2, *args, **kwargs)

            def ask() -> Any:
                return original(self, node1, node2, *args, **kwargs)

            log.depth, log.said, log.shared = 1, None, None
            try:
                answer = ask()
                logs.attempt("verdict", lambda: log.asked(node1, node2, bool(answer), ask))
            finally:
                log.depth = 0
            return answer

        return can_fuse

    def make_cycle(original: Any) -> Any:
        def will_fusion_create_cycle(self: Any, node1: Any, node2: Any) -> Any:
            answer = original(self, node1, node2)
            if answer:
                logs.attempt("cycle", lambda: logs.now().cycle(node1, node2, _in_between(self, node1, node2)))
            return answer

        return will_fusion_create_cycle

    def make_fused(original: Any) -> Any:
        def fuse_two_nodes(self: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(self, node1, node2, *args, **kwargs)
            logs.attempt("fused", lambda: logs.now().fused(node1, node2, made))
            return made

        return fuse_two_nodes

    def make_said(original: Any) -> Any:
        def __call__(self: Any, reason: str, *args: Any) -> Any:
            log = logs.now()
            if log.depth:
                log.said, log.said_args = (reason, "", 0, ""), args
            return original(self, reason, *args)

        return __call__

    def make_scheduled(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            logs.attempt("end", lambda: logs.now().end(self))
            logs.attempt("work", lambda: logs.weigh(self.nodes))

        return __init__

    kind = scheduler.Scheduler
    return [
        (kind, "__init__", make_scheduled),
        (kind, "fuse_nodes", make_rounds),
        (kind, "fuse_nodes_once", make_round),
        (kind, "get_possible_fusions", make_possible),
        (kind, "can_fuse", make_asked),
        (kind, "will_fusion_create_cycle", make_cycle),
        (kind, "fuse_two_nodes", make_fused),
        (scheduler.WhyNoFuse, "__call__", make_said),
    ]


def _in_between(scheduler: Any, node1: Any, node2: Any) -> list[Any]:
    """The nodes fused before through which a path leads from one of two nodes to the other."""
    ours = {*node1.get_operation_names(), *node2.get_operation_names()}
    waiting = [scheduler.name_to_fused_node[name] for name in {*node1.ancestors, *node2.ancestors} - ours]
    seen: dict[Any, None] = {}
    while waiting:
        node = waiting.pop()
        if node in seen or len(node.get_nodes()) == 1:
            continue
        seen[node] = None
        waiting += [scheduler.name_to_fused_node[name] for name in {*node.ancestors} - ours]
    return [node for node in seen if ours & {*node.ancestors}]


@contextmanager
def _heard(log: Log, logs: Logs) -> Iterator[None]:
    """The choices in force, whoever set them, with what passes through them written down: Inductor's extension point."""
    from torch._inductor.virtualized import V

    theirs = V.choices

    class Listening(type(theirs)):  # type: ignore[misc]
        """The same choices, overheard."""

        def can_fuse(self, scheduler: Any, node1: Any, node2: Any, shared_data_score: Any) -> Any:
            if isinstance(shared_data_score, int) and log.shared is None:
                log.shared = shared_data_score
            return theirs.can_fuse(scheduler, node1, node2, shared_data_score)

        def score_fusion(self, scheduler: Any, node1: Any, node2: Any) -> Any:
            score = theirs.score_fusion(scheduler, node1, node2)
            logs.attempt("score", lambda: log.scored(node1, node2, score))
            return score

    made = object.__new__(Listening)
    made.__dict__ = vars(theirs)
    with V.set_choices_handler(made):
        yield


def _graph_hooks(logs: Logs) -> list[Hook]:
    """A graph's lowering, where buffers are made."""
    from torch._inductor import ir

    def make_realize(original: Any) -> Any:
        def realize(self: Any) -> Any:
            loops = self.data
            name = original(self)
            if self.data is not loops:
                frame = sys._getframe(1)
                logs.attempt("realize", lambda: logs.now().realized(name, loops, frame))
            return name

        return realize

    return [(ir.StorageBox, "realize", make_realize)]


def _graph_ends(logs: Logs) -> Iterator[AbstractContextManager[None]]:
    """Observe the end of each graph, where its event is emitted."""
    from torch._inductor import graph

    def generated(self: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        try:
            yield
        finally:
            logs.attempt("graph", lambda: logs.close(self))

    for name in graph_generators():
        yield observed(graph.GraphLowering, name, generated)


def _kernel_hooks(logs: Logs) -> list[Hook]:
    """The kernels that the user wrote."""
    from torch._inductor import ir

    def make_comment(original: Any) -> Any:
        def codegen_comment(self: Any, wrapper: Any, kernel_name: Any = None) -> Any:
            if kernel_name:
                log = logs.now()
                nodes = [n for n in getattr(log.graph.scheduler, "nodes", ()) if getattr(n, "node", None) is self]
                logs.attempt("kernel", lambda: log.kernel(str(kernel_name), nodes))
            return original(self, wrapper, kernel_name)

        return codegen_comment

    return [(ir.ExternKernel, "codegen_comment", make_comment)]


def _kernel_definitions(logs: Logs) -> Iterator[AbstractContextManager[None]]:
    """Observe each backend's writing of a kernel."""
    from torch._inductor.codegen import cpp, cuda_combined_scheduling, triton  # noqa: F401 each brings its own scheduling
    from torch._inductor.scheduler import BaseScheduling

    def defined(_: Any, source: Any, nodes: Any, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        name = yield
        logs.attempt("kernel", lambda: logs.now().kernel(str(name), nodes))

    for kind in subclasses(BaseScheduling):
        if "define_kernel" in vars(kind):
            yield observed(kind, "define_kernel", defined)
