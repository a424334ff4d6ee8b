"""Compile with wishes: two nodes kept apart or put together, a pattern or a pass left out.

Nodes are kept apart where the scheduler asks whether two can be fused: Inductor's own extension point (`InductorChoices`) does
not see every pair. `fuse=` overrides only that extension point, in which by Inductor's own rule nothing is needed for
correctness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from typing import Any

from explorer.capture.observe.computed_nodes import Computed
from explorer.capture.observe.patch import guard_here, guarding, replaced
from explorer.capture.observe.patterns import pattern_name
from explorer.capture.observe.scheduler_log import OVERRIDDEN
from explorer.model.events import FusionRequest, RequestOutcome
from explorer.model.stage import Emit
from explorer.model.values import Fuse, KeepApart
from explorer.stages.inductor.autotune import AutotuneTaken

Wish = KeepApart | Fuse
#: Why a template was taken that a forced fusion needed.
FORCED = "the fastest template that takes the fusion that was forced"


class Changes:
    """The changes to one compile: requested fusions, and names of patterns and passes to leave out.

    `known_patterns` and `known_passes` are the names that the compile met.
    """

    def __init__(
        self, fusion: Sequence[Wish] = (), without_pattern: Sequence[str] = (), without_pass: Sequence[str] = ()
    ) -> None:
        self.fusion = tuple(fusion)
        self.without_pattern = tuple(without_pattern)
        self.without_pass = tuple(without_pass)
        self.known_patterns: set[str] = set()
        self.known_passes: set[str] = set()

    @property
    def asked(self) -> bool:
        """Tell whether any change is requested."""
        return bool(self.fusion or self.without_pattern or self.without_pass)

    @contextmanager
    def applied(self, emit: Emit) -> Iterator[None]:
        """Inside the block Inductor compiles with these changes."""
        with ExitStack() as stack:
            if self.fusion:
                stack.enter_context(wished(emit, self.fusion))
            if self.without_pattern:
                stack.enter_context(without_patterns(self.without_pattern, self.known_patterns))
            if self.without_pass:
                stack.enter_context(without_passes(self.without_pass, self.known_passes))
            yield


@contextmanager
def wished(emit: Emit, wishes: Sequence[Wish]) -> Iterator[None]:
    """Inside the block the scheduler fuses as wished; for each graph an event "fusion_wish" says what came of it."""
    from torch._inductor import scheduler

    wanted = Wanted(emit, wishes)
    kind = scheduler.Scheduler
    with ExitStack() as stack:
        stack.enter_context(replaced(kind, "__init__", wanted.scheduled))
        stack.enter_context(replaced(kind, "fuse_nodes", wanted.rounds))
        stack.enter_context(replaced(kind, "can_fuse", wanted.asked))
        stack.enter_context(replaced(kind, "get_possible_fusions", wanted.possible))
        yield


Pair = tuple[Wish, frozenset[str], frozenset[str]]


class Wanted:
    """The wishes, as sets of scheduler nodes for each scheduler under way."""

    def __init__(self, emit: Emit, wishes: Sequence[Wish]) -> None:
        self._emit = emit
        self._guard = guard_here()
        self._wishes = tuple(wishes)
        self._known: dict[int, tuple[dict[str, list[str]], list[Pair]]] = {}

    def _here(self, scheduler: Any) -> tuple[dict[str, list[str]], list[Pair]]:
        """The scheduler's nodes by each name that a wish can call them, and the wishes about this graph."""
        if id(scheduler) not in self._known:
            names: dict[str, list[str]] = {}
            computed = Computed(scheduler.name_to_node.values())
            for node in scheduler.name_to_node.values():
                for name in names_of(node, computed):
                    names.setdefault(name, []).append(node.get_name())
            self._known[id(scheduler)] = names, list(self._pairs(scheduler, names))
        return self._known[id(scheduler)]

    def _pairs(self, scheduler: Any, names: dict[str, list[str]]) -> Iterator[Pair]:
        frame, graph = self._emit.place()
        for wish in self._wishes:
            here = wish.graph in ("", graph) and wish.frame in ("", frame)
            if here and wish.first in names and wish.second in names:
                one, other = frozenset(names[wish.first]), frozenset(names[wish.second])
                both = one & other
                if both and not (read_from(scheduler, both, one - both) or read_from(scheduler, both, other - both)):
                    yield wish, frozenset(), frozenset()  # one scheduler node
                else:
                    # a node that both name is with each of them in any case: the request is about the others
                    yield wish, one - both or one, other - both or other

    def _wish(self, scheduler: Any, kind: type, node1: Any, node2: Any) -> Wish | None:
        """The wish of this kind about two nodes, which may be fused already."""
        one, other = node1.get_operation_names(), node2.get_operation_names()
        for wish, a, b in self._here(scheduler)[1]:
            if isinstance(wish, kind) and ((one & a and other & b) or (one & b and other & a)):
                return wish
        return None

    # Replacements of the scheduler's functions -----------------------------------------------------------------------

    def asked(self, original: Any) -> Any:
        """Refuse to fuse nodes that are to be kept apart."""
        from torch._inductor.scheduler import WhyNoFuse

        def can_fuse(scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
            if self._wish(scheduler, KeepApart, node1, node2) is not None:
                WhyNoFuse(node1, node2)("vetoed")
                return False
            return original(scheduler, node1, node2, *args, **kwargs)

        return can_fuse

    def possible(self, original: Any) -> Any:
        """Offer the pairs that are to be fused first, including those that the scheduler does not consider itself."""

        def get_possible_fusions(scheduler: Any, nodes: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(scheduler, nodes, *args, **kwargs)
            reorder = bool(kwargs.get("is_reorder_round", args[0] if args else False))
            for wish, a, b in self._here(scheduler)[1]:
                if not isinstance(wish, Fuse):
                    continue
                ones, others = ([n for n in nodes if n.get_operation_names() & side] for side in (a, b))
                for pair in ((one, other) for one in ones for other in others if one is not other):
                    known = [p for p in found if p in (pair, pair[::-1])]
                    new = known or [p for p in (pair, pair[::-1]) if scheduler.can_fuse(*p, reorder)][:1]
                    found = [*new, *(p for p in found if p not in new)]
            return found

        return get_possible_fusions

    def rounds(self, original: Any) -> Any:
        """Let Inductor's choices allow the pairs that are to be fused; the active choices decide on all others."""
        from torch._inductor import scheduler as module

        def fuse_nodes(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            with self._forcing(scheduler), replaced(module.Scheduler, "speedup_by_fusion", self.timed):
                return original(scheduler, *args, **kwargs)

        return fuse_nodes

    @contextmanager
    def _forcing(self, scheduler: Any) -> Iterator[None]:
        from torch._inductor.scheduler import WhyNoFuse
        from torch._inductor.virtualized import V

        def overridden(original: Any) -> Any:
            def choice(scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
                allowed = original(scheduler, node1, node2, *args, **kwargs)  # asked in any case: others may listen
                if allowed or self._wish(scheduler, Fuse, node1, node2) is None:
                    return allowed
                WhyNoFuse(node1, node2)(OVERRIDDEN)
                return True

            return choice

        with ExitStack() as stack:
            with guarding(self._guard):
                for name in ("can_fuse", "can_fuse_vertical", "can_fuse_horizontal"):
                    stack.enter_context(replaced(V.choices, name, overridden))
            yield

    def timed(self, original: Any) -> Any:
        """Fuse the pairs that are to be fused also where timing, or an assumption about it, finds them no faster."""
        from torch._inductor import scheduler as module

        def speedup_by_fusion(scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
            if self._wish(scheduler, Fuse, node1, node2) is None or not self._settle(scheduler, node1, node2):
                return original(scheduler, node1, node2, *args, **kwargs)
            return module.FusionResult.fuse(True)

        return speedup_by_fusion

    def _settle(self, scheduler: Any, node1: Any, node2: Any) -> bool:
        """Choose the fastest template of a product that takes such a fusion, where that is still open; False where none does."""
        from torch._inductor import ir
        from torch._inductor.select_algorithm import TritonTemplateCaller

        products = [node.get_template_node() for node in (node1, node2) if node.is_template()]
        if not products or not isinstance(products[0], ir.MultiTemplateBuffer):
            return True
        product, before = products[0], node2.is_template()
        timings = product.choice_timings()
        able = [
            choice
            for choice in timings
            if isinstance(choice, TritonTemplateCaller)
            and (not before or choice.allowed_prologue_inps == product.allowed_prologue_inps)
        ]
        if not able or scheduler._has_layout_conflict_for_template(product):
            return False
        chosen = min(able, key=timings.__getitem__)
        product.finalize_as_triton_caller(chosen)
        self._emit("autotune_taken", lambda: AutotuneTaken(choice=chosen.name, why=FORCED))
        return True

    def scheduled(self, original: Any) -> Any:
        """Emit what became of each request when the scheduler is done."""

        def __init__(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            original(scheduler, *args, **kwargs)
            self._emit("fusion_wish", lambda: self._outcome(scheduler))
            self._known.pop(id(scheduler), None)

        return __init__

    def _outcome(self, scheduler: Any) -> FusionRequest:
        names, pairs = self._here(scheduler)
        groups = [set(node.get_operation_names()) for node in scheduler.nodes]
        rows = []
        for wish, a, b in pairs:
            same = not a or not b
            together = same or any(g & a and g & b for g in groups)
            rows.append(RequestOutcome(wish=self._wishes.index(wish), same=same, together=together))
        return FusionRequest(names=tuple(sorted(names)), rows=tuple(rows))


def read_from(scheduler: Any, readers: Collection[str], makers: Collection[str]) -> bool:
    """Whether some nodes read what a reduction or a call of others makes. Lowering copies no such node into its readers."""
    kept = [node for node in map(scheduler.name_to_node.get, makers) if node.is_reduction() or node.is_extern()]
    buffers = {name for node in kept for name in node.get_buffer_names()}
    return any(read.name in buffers for name in readers for read in scheduler.name_to_node[name].read_writes.reads)


def names_of(node: Any, computed: Computed) -> list[str]:
    """List the names of a scheduler node: its own, those of the buffers it writes, and those of the FX nodes it computes."""
    names = [node.get_name(), *node.get_buffer_names(), *(fx.name for fx in computed.nodes(node))]
    return list(dict.fromkeys(names))


# Patterns and passes ---------------------------------------------------------------------------------------------------


def is_named(name: str, given: Collection[str]) -> bool:
    """Whether a name is one of those given, or fits one that has wildcards: `*`, `?` and `[…]` as in the shell."""
    return name in given or any(fnmatchcase(name, wildcard) for wildcard in given)


@contextmanager
def without_patterns(names: Collection[str], known: set[str]) -> Iterator[None]:
    """Look for no patterns of these names or wildcards, see `t.inductor.matches`, inside the block; `known` gets all names."""
    from torch._inductor.pattern_matcher import PatternMatcherPass

    def make(original: Any) -> Any:
        def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
            kept = type(self.patterns)(list)
            for key, entries in self.patterns.items():
                named = [(pattern_name(entry), entry) for entry in entries]
                known.update(name for name, _ in named)
                kept[key] = [entry for name, entry in named if not is_named(name, names)]
            with replaced(self, "patterns", lambda _: kept):
                return original(self, *args, **kwargs)

        return apply

    with replaced(PatternMatcherPass, "apply", make):
        yield


@contextmanager
def without_passes(names: Collection[str], known: set[str]) -> Iterator[None]:
    """Inside the block FX passes of these names or wildcards, see `t.inductor.passes`, do nothing; `known` gets all names.

    A pass is left out where Inductor asks whether it is disabled, and a pass made of patterns where it is applied.
    """
    from torch._inductor.pattern_matcher import PatternMatcherPass
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    def make_asked(original: Any) -> Any:
        def _check_disable_pass(self: Any, *args: Any, **kwargs: Any) -> bool:
            known.add(self.passname)
            return is_named(self.passname, names) or bool(original(self, *args, **kwargs))

        return _check_disable_pass

    def make_apply(original: Any) -> Any:
        def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
            name = self.pass_name if self.pass_name is not None else "pattern_matcher"
            known.add(name)
            return 0 if is_named(name, names) else original(self, *args, **kwargs)

        return apply

    with replaced(GraphTransformObserver, "_check_disable_pass", make_asked), replaced(PatternMatcherPass, "apply", make_apply):
        yield
