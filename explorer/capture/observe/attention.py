"""Observe attention: which kernel torch takes for a call, and which pattern came nearest to what no pattern matched."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AnySet
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

from explorer.capture.observe.compile_fx import is_joint
from explorer.capture.observe.fx import target_name
from explorer.capture.observe.patch import observed
from explorer.capture.observe.patterns import pattern_name
from explorer.capture.observe.retraced import traced_stack
from explorer.model.stage import Emit
from explorer.stages.fx_graph import innermost
from explorer.stages.inductor.attention import SeenAttention

#: The products that attention is made of, and the operators of a softmax, as they stand in a joint graph.
PRODUCTS, SOFTMAX = ("aten.bmm.default", "aten.mm.default"), ("aten.exp.default", "aten.sum.dim_IntList")
#: A pattern of attention ends at most this many nodes after its second product: views, a transposition, a conversion.
NODES_AFTER = 3
#: The names of the attention kernels, as `SDPBackend` has them, in words.
KERNELS = {"MATH": "math", "FLASH_ATTENTION": "flash", "EFFICIENT_ATTENTION": "efficient", "CUDNN_ATTENTION": "cudnn"}
#: The parameters of scaled_dot_product_attention, in their order.
PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")

#: The setting that allows TF32.
TF32 = "torch.backends.cuda.matmul.allow_tf32"
#: What changes in the arguments of a call.
Change = Callable[[Mapping[str, Any]], dict[str, Any]]


# A pattern that did not match -------------------------------------------------------------------------------------------


@contextmanager
def attention(emit: Emit) -> Iterator[None]:
    """Record each call of attention with its kernel, and each attention that Inductor's patterns left as it was."""
    from torch._inductor import pattern_matcher
    from torch.fx.experimental.symbolic_shapes import PropagateUnbackedSymInts

    specific: list[Any] = []
    called: set[str] = set()

    def applied(patterns: Any, gm: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        entries = _attention_entries(patterns)
        if entries:
            specific.clear()
        yield
        if entries:
            emit.attempt("attention", "patterns", lambda: _unmatched(emit, entries, specific, called, getattr(gm, "graph", gm)))

    def traced(*args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        pattern = yield
        specific.append(pattern)

    def run(interpreter: Any, node: Any) -> Iterator[None]:
        if node.op == "call_function" and target_name(node.target).endswith("scaled_dot_product_attention"):
            called.add(traced_stack(node.meta))
            emit.attempt("attention", "call", lambda: _called(emit, node, *interpreter.fetch_args_kwargs_from_env(node)))
        yield

    with ExitStack() as stack:
        stack.enter_context(observed(pattern_matcher.PatternMatcherPass, "apply", applied))
        stack.enter_context(observed(pattern_matcher, "fx_to_pattern", traced))
        stack.enter_context(observed(PropagateUnbackedSymInts, "run_node", run))
        yield


def _attention_entries(patterns: Any) -> list[Any]:
    """List the patterns of attention of a pass; empty for all passes but the one on the joint graph."""
    from torch._inductor.fx_passes import joint_graph

    if patterns is not joint_graph.patterns:
        return []
    return [entry for entries in patterns.patterns.values() for entry in entries if pattern_name(entry).startswith("_sfdp_")]


def _unmatched(emit: Emit, entries: Sequence[Any], specific: Sequence[Any], called: AnySet[str], graph: Any) -> None:
    """Emit each attention that is still written out, with the pattern that came nearest to it.

    `specific` are patterns that torch traced again with the shapes of the program, `called` the stacks of calls of attention.
    """
    kind = "_training" if is_joint(graph) else "_inference"
    of_kind = [entry for entry in entries if pattern_name(entry).endswith(kind)] or entries
    operators = [(entry, _between_of(entry.pattern)) for entry in of_kind]
    for product in written_out(graph):
        if traced_stack(product.meta) in called:
            continue  # torch's own decomposition of a call, whose kernel is said
        there, ends = between(product.args[0], _inputs_of, _target_of), list(_after(product))
        attempts = (
            _Attempt(entry, entry.pattern, end, (own - there).total() + (there - own).total())
            for entry, own in operators
            for end in ends
            if _ends_at(entry.pattern, end)
        )
        nearest = max(attempts, default=None)
        reason, setting = _reason(nearest, specific, product)
        seen = SeenAttention(
            node=product.name,
            pattern=pattern_name(nearest.entry) if nearest else "",
            reason=reason,
            setting=setting,
            stack=traced_stack(product.meta),
        )
        emit("attention", partial(_as_it_is, seen))


def written_out(graph: Any) -> Iterator[Any]:
    """Yield the second product of each attention of a forward: it reads a softmax, which reads the first product."""
    gradients: set[Any] = set()
    for node in graph.nodes:
        is_tangent = node.op == "placeholder" and str(node.target).startswith("tangents")
        if is_tangent or not gradients.isdisjoint(node.all_input_nodes):
            gradients.add(node)
        elif target_name(node.target) in PRODUCTS and _is_of_softmax(node.args[0]):
            yield node


def _is_of_softmax(weights: Any) -> bool:
    """Tell whether what a product reads is the softmax of another product."""
    targets = between(weights, _inputs_of, _target_of)
    return any(targets[product] for product in PRODUCTS) and all(targets[operator] for operator in SOFTMAX)


def _as_it_is(seen: SeenAttention) -> SeenAttention:
    return seen


def _inputs_of(node: Any) -> Iterable[Any]:
    inputs: Iterable[Any] = node.all_input_nodes
    return inputs


def _target_of(node: Any) -> str:
    return target_name(node.target)


def between(weights: Any, read_by: Callable[[Any], Iterable[Any]], named: Callable[[Any], str]) -> Counter[str]:
    """Count the operators from what the second product reads up to the first product, in a graph or in a pattern."""
    counts, seen, waiting = Counter[str](), set[Any](), [weights]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            counts[named(node)] += 1
            waiting.extend(() if named(node) in PRODUCTS else read_by(node))
    return counts


def _between_of(pattern: Any) -> Counter[str]:
    """Count the operators between the products of a pattern; none where the pattern has no two products."""

    def named(one: Any) -> str:
        return target_name(one.fns[0])

    def read_by(one: Any) -> list[Any]:
        return [argument for argument in one.args if hasattr(argument, "fns")]

    last = (getattr(pattern, "outputs", None) or [pattern])[0]
    while named(last) not in PRODUCTS:
        if not (read := read_by(last)):
            return Counter()
        last = read[0]
    return between(last.args[0], read_by, named)


def _after(product: Any) -> Iterator[Any]:
    """Yield a product and what follows it, at most `NODES_AFTER` nodes further."""
    nodes = [product]
    for _ in range(NODES_AFTER + 1):
        yield from nodes
        nodes = [user for node in nodes for user in node.users]


def _ends_at(pattern: Any, node: Any) -> bool:
    """Tell whether a pattern may end at a node: its last operator is the node's."""
    return node.op == pattern.op and node.target in pattern.fns


class _Attempt:
    """An attempt to match a pattern, ordered by how near the pattern is; `failed` is where the match ended, if it did.

    The nearer pattern has fewer other operators between its products. On a tie, more of its operators matched.
    """

    def __init__(self, entry: Any, pattern: Any, node: Any, other: int = 0) -> None:
        from torch._inductor import pattern_matcher

        attempt = self
        self.entry, self.node, self.other = entry, node, other
        self.matched, self.failed = 0.0, None

        class Watched(pattern_matcher.MatchContext):  # type: ignore[misc]  # torch is not typed here
            """Notes at which operator a match fails, after how many that matched."""

            under_way = 0

            def match(self, pattern: Any, node: Any) -> Any:
                is_whole = hasattr(pattern, "outputs")
                self.under_way += not is_whole
                try:
                    result = super().match(pattern, node)
                    if not result and not is_whole:
                        done = sum(hasattr(one, "fns") for one, at in self.pattern_to_node.items() if at is not None)
                        # the right operator with other arguments or readers is nearer than another operator
                        matched = done + self.under_way + 0.5 * _is_operator_of(pattern, node)
                        if matched > attempt.matched:
                            attempt.matched, attempt.failed = matched, (pattern, node, result)
                    return result
                finally:
                    self.under_way -= not is_whole

        outputs = getattr(pattern, "outputs", None) or [pattern]
        context = Watched(outputs, graph=node.graph)
        try:
            self.match: Any = context.match(pattern, node)
        except pattern_matcher.FailedMatch as failure:
            self.match = failure
        if self.match:
            self.matched, self.failed = float(len(self.match.nodes)), None

    def __lt__(self, other: _Attempt) -> bool:
        return self._nearness < other._nearness

    @property
    def _nearness(self) -> tuple[bool, int, float]:
        return bool(self.match), -self.other, self.matched


def _reason(nearest: _Attempt | None, specific: Iterable[Any], product: Any) -> tuple[str, str]:
    """Say why the nearest pattern did not match or was refused, and name the setting that decides, if one does."""
    if nearest is None:
        return f"none of Inductor's patterns of attention ends at {target_name(product.target)}", ""
    name = pattern_name(nearest.entry)
    if not nearest.match:
        return f"{name} comes nearest: {_mismatch(nearest)}", ""
    if refused := _refused(nearest):
        return f"{name} matches, and its check refuses it: {refused[0]}", refused[1]
    ending = [one for one in specific if _ends_at(one, nearest.node)]
    again = max((_Attempt(nearest.entry, one, nearest.node) for one in ending), default=None)
    if again is not None and not again.match:
        return f"{name} matches but for its shapes: {_mismatch(again)}", ""
    return f"{name} matches, and torch did not apply it", ""


def _mismatch(attempt: _Attempt) -> str:
    """Say at which operator a match ended: what the pattern has there, and what the program has."""
    if attempt.failed is None:
        return str(attempt.match)[:200]
    pattern, node, failure = attempt.failed
    form = failure.format_string
    at = _named(node)
    if form.startswith("function_mismatch") and not _is_operator_of(pattern, node):
        return f"it has {_wanted(pattern)} where the program has {at}"
    if form.startswith("function_mismatch"):
        return f"it has {_wanted(pattern)} with {len(pattern.args)} arguments where the program has {at} with {len(node.args)}"
    if form.startswith("multiple_users"):
        return f"{pattern.users} of its operators read {_wanted(pattern)}, and {len(node.users)} of the program's read {at}"
    if form.startswith("constant_args"):
        return f"in {at} it has {failure.kwargs['pattern']!r} where the program has {failure.args[1]!r}"
    if form.startswith("repeated"):
        return f"it reads one value twice where the program reads another: {at}"
    return f"at {at}: {str(failure)[:200]}"


def _is_operator_of(pattern: Any, node: Any) -> bool:
    return getattr(node, "target", None) in getattr(pattern, "fns", ())


def _wanted(pattern: Any) -> str:
    """Name the operator that a pattern has, and the argument that it computes it of."""
    names = [str(one.name) for one in pattern.args if hasattr(one, "name")]
    return f"{pattern.fns_repr()}({', '.join(names)})" if names else str(pattern.fns_repr())


def _named(node: Any) -> str:
    """Name a node with its operator and the user's line; a number as it is."""
    if not hasattr(node, "op"):
        return repr(node)
    if node.op == "placeholder":
        return f"the input {node.name}"
    place = innermost(traced_stack(node.meta) or "")
    return f"{node.name} = {target_name(node.target)}" + (f" ({place.code})" if place and place.code else "")


# A pattern that was refused ---------------------------------------------------------------------------------------------


def _refused(attempt: _Attempt) -> tuple[str, str] | None:
    """Ask a pattern's own check of the parameters; if it refuses, say which of its conditions does, and the setting.

    The conditions are those of `_sfdp_params_check` and `_sfdp_extra_check` in torch's fuse_attention.py, in their order.
    """
    check = attempt.entry.extra_check
    cells = dict(zip(check.__code__.co_freevars, check.__closure__ or (), strict=True))
    if "extra_check" not in cells:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the pass warned already
        if cells["extra_check"].cell_contents(attempt.match):
            return None
    return next(_conditions(attempt.match), ("torch does not say which condition", ""))


def _conditions(match: Any) -> Iterator[tuple[str, str]]:
    """Yield the conditions of a pattern's check that do not hold."""
    import torch

    values = {name: match.kwargs[name].meta["val"] for name in ("query", "key", "value")}
    dtypes = {name: str(value.dtype).removeprefix("torch.") for name, value in values.items()}
    query = values["query"]
    if len(set(dtypes.values())) > 1:
        yield "query, key and value are " + ", ".join(dtypes.values()), ""
    if len({value.device for value in values.values()}) > 1:
        yield "query, key and value are on " + ", ".join(str(value.device) for value in values.values()), ""
    precision = getattr(torch.backends.cuda.matmul, "fp32_precision", "tf32")
    if query.device.type == "cuda" and query.dtype == torch.float32 and precision != "tf32":
        yield "query is float32, and the fused kernels compute in TF32, which is not allowed", TF32
    for added in (node for node in match.nodes if target_name(node.target) == "aten.add.Tensor"):
        mask = added.args[1]
        if not hasattr(mask, "meta"):
            yield f"the mask is a number, {mask!r}", ""
        elif (value := mask.meta["val"]).dtype not in (query.dtype, torch.bool, torch.float):
            yield f"the mask is {str(value.dtype).removeprefix('torch.')}, query is {dtypes['query']}", ""
        elif value.device != query.device:
            yield f"the mask is on {value.device}, query is on {query.device}", ""
    for scale in match.kwargs:
        if "scale" in scale and not isinstance(match.kwargs[scale], (int, float)):
            yield f"{scale} is no number in the graph but {match.kwargs[scale]}", ""


# A call of attention ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Laid:
    """A tensor that torch is asked about: its sizes and strides, its dtype and device, and whether it takes a gradient."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: Any
    device: Any
    grad: bool

    @property
    def contiguous(self) -> Laid:
        """The same tensor, made contiguous."""
        stride = [1]
        for size in reversed(self.shape[1:]):
            stride.insert(0, stride[0] * max(size, 1))
        return replace(self, stride=tuple(stride), offset=0)

    def made(self) -> Any:
        """Make a tensor that lies so, without data inside a FakeTensorMode."""
        import torch

        span = 1 + sum(max(size - 1, 0) * stride for size, stride in zip(self.shape, self.stride, strict=True))
        whole = torch.empty(self.offset + span, dtype=self.dtype, device=self.device)
        return whole.as_strided(self.shape, self.stride, self.offset).detach().requires_grad_(self.grad)


def _called(emit: Emit, node: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Emit a call of scaled_dot_product_attention on CUDA, and the kernel that torch takes for it.

    Torch is not asked about symbolic sizes, because each question would become a guard.
    """
    given = {name: _laid(value) for name, value in {**dict(zip(PARAMETERS, args, strict=False)), **kwargs}.items()}
    tensors = [value for value in given.values() if isinstance(value, Laid)]
    numbers = [number for one in tensors for number in (*one.shape, *one.stride, one.offset)]
    if all(one.device.type == "cuda" for one in tensors) and all(type(number) is int for number in numbers):
        kernel, reason = chosen(given)
        seen = SeenAttention(node=node.name, kernel=kernel, reason=reason, stack=traced_stack(node.meta))
        emit("attention", partial(_as_it_is, seen))


def _laid(value: Any) -> Any:
    """Describe a tensor as attention gets it, after autocast; anything else as it is."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    dtype, kind = value.dtype, value.device.type
    if dtype == torch.float32 and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    return Laid(tuple(value.shape), value.stride(), value.storage_offset(), dtype, value.device, value.requires_grad)


def chosen(given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kernel that torch takes for a call, and which change of the call makes it take a fused kernel."""
    kernel = _choice(given)
    if kernel != "math":
        return kernel, ""
    changes = list(_changes(given))
    for count in (1, 2):
        found = []
        for some in combinations(changes, count):
            changed = dict(given)
            for _, change in some:
                changed.update(change(changed))
            if (other := _choice(changed)) not in ("", "math"):
                found.append(f"{' and '.join(words for words, _ in some)} it takes {other}")
        if found:
            return kernel, ", ".join(found)
    return kernel, _switched_off()


def _choice(given: Mapping[str, Any]) -> str:
    """Ask torch which kernel it takes for a call, outside of what traces it; "" if torch refuses the call."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.nn.attention import SDPBackend
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes(), FakeTensorMode():
        made = {name: value.made() if isinstance(value, Laid) else value for name, value in given.items()}
        try:
            number = torch.ops.aten._fused_sdp_choice.default(**made)
        except RuntimeError:
            return ""
    return KERNELS.get(SDPBackend(number).name, "")


def _changes(given: Mapping[str, Any]) -> Iterator[tuple[str, Change]]:
    """Yield changes of a call that could let it have a fused kernel: words, and what changes in the arguments."""
    import torch

    tensors = {name: given[name] for name in PARAMETERS[:3]}
    if isinstance(given.get("attn_mask"), Laid):
        yield "without its mask", lambda now: {"attn_mask": None}
    if given.get("dropout_p"):
        yield "without dropout", lambda now: {"dropout_p": 0.0}
    if any(one.dtype not in (torch.bfloat16, torch.float16) for one in tensors.values()):
        yield "in bfloat16", _in_bfloat16
    if torch.is_grad_enabled() and any(one.grad for one in tensors.values()):
        yield "without a gradient", lambda now: {name: replace(now[name], grad=False) for name in tensors}
    if any(one.stride[-1] != 1 for one in tensors.values()):
        yield "with contiguous query, key and value", lambda now: {name: now[name].contiguous for name in tensors}


def _in_bfloat16(now: Mapping[str, Any]) -> dict[str, Any]:
    """Change the dtype of all tensors but a mask of truth values."""
    import torch

    tensors = {name: one for name, one in now.items() if isinstance(one, Laid) and one.dtype != torch.bool}
    return {name: replace(one, dtype=torch.bfloat16) for name, one in tensors.items()}


def _switched_off() -> str:
    """Name the functions that switch fused kernels off, where the process called them; "" if none is off."""
    import torch

    names = ("flash", "mem_efficient", "cudnn")
    off = [name for name in names if not getattr(torch.backends.cuda, f"{name}_sdp_enabled")()]
    return f"torch.backends.cuda has {', '.join(f'{name}_sdp' for name in off)} off" if off else ""
