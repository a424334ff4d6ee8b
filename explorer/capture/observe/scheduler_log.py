"""Log what the scheduler does in one graph: its nodes by number, its verdicts, its rounds, and the final nodes.

Scheduler nodes are numbered from 0 in the scheduler's order; a node that is fused of two gets the next number. Nothing is left
out and nothing is written twice: the same answer on a pair in a later round joins the earlier entry, and the partners that a
node was refused for the same rule with the same figures are one row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from explorer.capture.observe import work
from explorer.capture.observe.realized import made_buffer
from explorer.capture.observe.refusals import refused_at
from explorer.model.records import changed
from explorer.model.shared import Setting
from explorer.model.values import Call
from explorer.stages.inductor.reasons import MadeBuffer, Rule
from explorer.stages.inductor.verdicts import FinalNode, Fusion, Group, Round, VerdictRow

#: The most refusals without a reason that are asked about again, to find the function that refuses; others stay unexplained.
MAX_LOCATED = 2000
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
#: Stands for a rule that `fuse=` overrides, so that the rule is not taken for the reason of a later refusal.
OVERRIDDEN = "overridden by fuse="
#: The rule of a verdict that needs none.
NO_RULE = Rule("", "", 0, "")


class Log:
    """The log of one graph's scheduling; `record` returns it as plain values."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph  # held, so that no other graph gets its id
        self.names: list[str] = []
        self.groups: list[Group] = []
        self.rounds: list[Round] = []
        self.kernels: list[tuple[str, tuple[int, ...]]] = []
        self.final: list[FinalNode] = []
        self.buffers: list[MadeBuffer] = []
        self.scores: dict[tuple[int, int], tuple[int, list[Setting]]] = {}
        self.score_parts: list[str] = []
        self.asking = False  # the scheduler lists the pairs that it may fuse, and fuses none yet
        self.depth = 0  # of the scheduler's questions about one pair, one of which asks another
        self.reason: Rule | None = None  # the scheduler's reason on the pair that it asks about
        self.arguments: tuple[Any, ...] = ()
        self.shared: int | None = None
        self._numbers: dict[Any, int] = {}
        self._by_name: dict[str, int] = {}
        self._rules: dict[Rule, int] = {}
        self._args: dict[tuple[str, ...], int] = {}
        self._texts: dict[Any, str] = {}
        self._paths: dict[tuple[Call, ...], int] = {}
        self._pairs: dict[tuple[int, int], list[list[Any]]] = {}
        self._located = 0
        self._awaited: tuple[int, int] | None = None

    # Nodes ---------------------------------------------------------------------------------------------------------

    def begin(self, nodes: Sequence[Any]) -> None:
        """Number the scheduler's nodes in its own order, before any fusion."""
        single = sorted((part for node in nodes for part in node.get_nodes()), key=lambda part: int(part.min_order))
        self.names = [part.get_name() for part in single]
        self._by_name = {name: number for number, name in enumerate(self.names)}
        self._numbers = {part: number for number, part in enumerate(single)}

    def number(self, node: Any) -> int:
        """A node's number. One that is made of several without a fusion, such as a foreach node, gets the next number."""
        found = self._numbers.get(node)
        if found is None:
            members = [self._by_name[part.get_name()] for part in node.get_nodes()]
            found = members[0] if len(members) == 1 and not node.is_foreach() else self._group(node, members)
            self._numbers[node] = found
        return found

    def _group(self, node: Any, parts: list[int]) -> int:
        self.groups.append(Group(kind=type(node).__name__, of=tuple(parts), round=len(self.rounds) - 1))
        return len(self.names) + len(self.groups) - 1

    # Verdicts ------------------------------------------------------------------------------------------------------

    def record_answer(self, node1: Any, node2: Any, answer: bool, again: Callable[[], object]) -> None:
        """Note the answer to the scheduler's question whether two nodes can be fused."""
        self.refuse_unfused_pair()
        pair = self.number(node1), self.number(node2)
        if self.reason is not None and self.reason.said == OVERRIDDEN:
            self.reason = None  # what `fuse=` overrides is no reason: the refusal after it came without one
        if answer:
            self._awaited = None if self.asking else pair
            self._note(pair, "possible", NO_RULE, (), self.shared)
        else:
            rule = self.reason or self._silent(pair, again)
            self._note(pair, "refused", rule, self.arguments if self.reason else (), self.shared)

    def _silent(self, pair: tuple[int, int], again: Callable[[], object]) -> Rule:
        """Find which function refused a pair without a reason: as noted before for the pair, or by asking again."""
        for _, rule, *_ in self._pairs.get(pair, ()):
            if rule.file:
                located: Rule = rule
                return located
        self._located += 1
        return Rule("", *refused_at(again)) if self._located <= MAX_LOCATED else NO_RULE

    def refuse_unfused_pair(self) -> None:
        """Mark the last pair as refused, if it was possible and was not fused: its fusion was found to be no faster."""
        pair, self._awaited = self._awaited, None
        if pair is not None:
            self._note(pair, "refused", Rule("speedup_by_fusion", "", 0, ""), (), self.shared)

    def cycle(self, node1: Any, node2: Any, through: Sequence[Any]) -> None:
        """Note that a fusion would make a cycle through nodes that were fused before."""
        self._awaited = None
        pair = self.number(node1), self.number(node2)
        names = " ".join(str(self.number(node)) for node in through)
        self._note(pair, "refused", Rule("will create cycle", "", 0, ""), (names,), self.shared)

    def fused(self, node1: Any, node2: Any, made: Any) -> None:
        """Note that two nodes became one."""
        self._awaited = None
        pair = self.number(node1), self.number(node2)
        self._numbers[made] = self._group(made, list(pair))
        self._note(pair, "fused", NO_RULE, (), self.shared)

    def scored(self, node1: Any, node2: Any, score: Any) -> None:
        """Note the scheduler's score of a pair that it may fuse, with its parts where it has parts."""
        if dataclasses.is_dataclass(score):
            self.score_parts = [field.name for field in dataclasses.fields(score)]
            values = [getattr(score, name) for name in self.score_parts]
        else:
            values = list(score) if isinstance(score, (tuple, list)) else [score]
        figures: list[Setting] = [v if isinstance(v, (bool, int, float)) else str(v) for v in values]
        self.scores[self.number(node1), self.number(node2)] = len(self.rounds) - 1, figures

    def _note(self, pair: tuple[int, int], verdict: str, rule: Rule, args: tuple[Any, ...], shared: int | None) -> None:
        texts = tuple(self._text(arg) for arg in args)
        seen = self._pairs.setdefault(pair, [])
        bit = 1 << max(0, len(self.rounds) - 1)
        if seen and verdict != "possible" and seen[-1][0] == "possible" and seen[-1][4] == bit:
            earlier = seen.pop()  # "possible" in this round, which what came of it replaces
            shared = earlier[3] if shared is None else shared
        entry = [verdict, rule, texts, shared, bit]
        if seen and seen[-1][:4] == entry[:4]:
            seen[-1][4] |= bit
        else:
            seen.append(entry)

    def _text(self, arg: Any) -> str:
        """An argument as text; equal ones are written once, since sizes are long expressions."""
        try:
            if arg not in self._texts:
                self._texts[arg] = str(arg)
            return self._texts[arg]
        except TypeError:  # a tiling is a dict
            return str(arg)

    # Buffers and kernels -------------------------------------------------------------------------------------------

    def realized(self, name: str, loops: Any, frame: FrameType) -> None:
        """Note that lowering realized a buffer that its readers could have inlined, with the calls that say why."""
        lowered = str(getattr(getattr(self.graph, "current_node", None), "name", ""))
        calls, buffer = made_buffer(name, lowered, frame, loops)
        number = self._paths.setdefault(calls, len(self._paths))
        self.buffers.append(changed(buffer, path=number))

    def kernel(self, name: str, nodes: Any) -> None:
        """Note the kernel that was written for these nodes. Markers between them are left out."""
        parts = [part for node in nodes if hasattr(node, "get_nodes") for part in node.get_nodes()]
        numbers = [self._by_name[part.get_name()] for part in parts if part.get_name() in self._by_name]
        self.kernels.append((name, tuple(dict.fromkeys(numbers))))

    def end(self, scheduler: Any) -> None:
        """Note the final nodes: each is a kernel, a part of one, or a call."""
        self.refuse_unfused_pair()
        self.final = [self._final(node) for node in scheduler.nodes]

    def _final(self, node: Any) -> FinalNode:
        inner = getattr(node, "node", None)
        template, prologue, epilogue = self._around_template(node) if node.is_template() else (None, None, None)
        return FinalNode(
            number=self.number(node),
            kind=type(node).__name__,
            read=0,
            written=0,
            unsized=(work.UNREAD,),
            ir=None if inner is None else type(inner).__name__,
            call=None if inner is None else str(getattr(inner, "python_kernel_name", None) or ""),
            combo=bool(getattr(node, "use_custom_partition_algo", False)) if node.is_foreach() else None,
            template=template,
            prologue=prologue,
            epilogue=epilogue,
        )

    def _around_template(self, node: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of a node's template, of its fused prologue, and of its fused epilogue."""
        prologue, template, epilogue = node.get_prologue_template_epilogue(list(node.get_nodes()))
        return self.number(template), tuple(map(self.number, prologue)), tuple(map(self.number, epilogue))

    def weigh(self, place: int, node: Any) -> None:
        """Add the bytes and operations of a final node to its row."""
        self.final[place] = work.with_bytes(self.final[place], node)
        self.final[place] = work.with_operations(self.final[place], node)

    # Record --------------------------------------------------------------------------------------------------------

    def record(self) -> Fusion:
        """Everything seen, as plain values."""
        pairs = self._rows()
        return Fusion(
            of=str(getattr(self.graph, "name", None) or ""),
            names=tuple(self.names),
            groups=tuple(self.groups),
            rounds=tuple(self.rounds),
            rules=tuple(self._rules),
            args=tuple(self._args),
            pairs=pairs,
            score_parts=tuple(self.score_parts),
            scores=tuple((round, *pair, *values) for pair, (round, values) in self.scores.items()),
            kernels=tuple(self.kernels),
            final=tuple(self.final),
            settings=settings(),
            made=tuple(self.buffers),
            paths=tuple(self._paths),
        )

    def _rows(self) -> tuple[VerdictRow, ...]:
        """Make a row for each node, verdict, rule and figures, with the partners as ranges and the rounds as bits."""
        partners: dict[tuple[int, str, int, int, int | None, int], list[int]] = {}
        for (first, second), entries in self._pairs.items():
            for verdict, rule, texts, shared, bits in entries:
                numbers = self._rules.setdefault(rule, len(self._rules)), self._args.setdefault(texts, len(self._args))
                partners.setdefault((first, verdict, *numbers, shared, bits), []).append(second)
        return tuple(VerdictRow(*key, ranges(seconds)) for key, seconds in partners.items())


def ranges(numbers: Sequence[int]) -> str:
    """ "3-66,70" for the numbers 3 to 66 and 70."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in parts)


def settings() -> dict[str, Setting]:
    """The scheduler's settings as they are."""
    from torch._inductor import config

    found = config.get_config_copy()
    known = {name: found[name] for name in SETTINGS if name in found}
    default = getattr(config, "_realize_acc_reads_threshold_default", None)
    return {name: default if v is None and name == "realize_acc_reads_threshold" else v for name, v in known.items()}
