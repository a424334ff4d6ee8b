"""Copy the scheduler's nodes before and after fusion, as text and as facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AnySet
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from explorer.capture.observe.computed_nodes import Computed
from explorer.capture.observe.nested import lowered_path
from explorer.capture.observe.patch import replaced, replaced_pure
from explorer.capture.observe.unwritten_parts import UnwrittenParts
from explorer.model.shared import Names
from explorer.model.stage import Unmade
from explorer.model.values import text_lines
from explorer.stages.inductor.scheduler_ir import BufferLayout, SchedulerNode, SchedulerText


class Texts:
    """Inductor's texts of the nodes of a graph. What nodes share is made once, and some parts when the recording is read."""

    def __init__(self) -> None:
        self._made: dict[Any, str] = {}
        self._parts = UnwrittenParts()
        self._writes_as_torch: bool | None = None  # whether `block_code` does; not known before the first block

    def record(self, nodes: Any) -> Unmade:
        """Make the record of scheduler nodes, but for the parts of their texts that are written when it is read."""
        with self._made_once():
            return unwritten_record(nodes, self._parts)

    def forget(self) -> None:
        """Keep nothing of the graphs seen so far."""
        self._made, self._parts = {}, UnwrittenParts()

    @contextmanager
    def _made_once(self) -> Iterator[None]:
        """Inside the block no text is made twice, and some parts are left out."""
        from sympy.printing import str as expressions
        from torch._inductor import ir, scheduler
        from torch._inductor.loop_body import LoopBody
        from torch._inductor.utils import IndentedBuffer

        with ExitStack() as stack:
            pformat, body = partial(self._formatted, scheduler.pformat), partial(self._body, LoopBody, LoopBody.debug_str)
            # not the method of expressions that calls it: Python tells each of sympy's classes of a method that is replaced
            stack.enter_context(replaced_pure(expressions, "sstr", self._expression))
            stack.enter_context(replaced_pure(ir.Layout, "__str__", partial(self._once, _layout_key)))
            stack.enter_context(replaced_pure(scheduler, "pformat", pformat))
            stack.enter_context(replaced_pure(LoopBody, "debug_str", body))
            stack.enter_context(replaced(IndentedBuffer, "splice", partial(_spliced, IndentedBuffer)))
            yield

    def _once(self, key: Callable[[Any], Any], original: Callable[[Any], str]) -> Callable[[Any], str]:
        """Wrap a function so that it runs once per key. Results for the key None are not kept."""
        made = self._made

        def write(value: Any) -> str:
            known = key(value)
            text = made.get(known)  # one look-up, since sympy's hashes and comparisons are slow
            if text is None:
                text = original(value)
                if known is not None:
                    made[known] = text
            return text

        return write

    def _expression(self, original: Callable[..., str]) -> Callable[..., str]:
        """Replace `sstr`: write an expression once, in the way of its `__str__`."""
        once = self._once(_expression, lambda value: original(value, order=None))
        return lambda value, **settings: once(value) if settings == {"order": None} else original(value, **settings)

    def _formatted(self, pformat: Callable[[Any], str], original: Callable[[Any], str]) -> Callable[[Any], str]:
        """Replace `pformat`: leave sets of dependencies out, and write a layout once."""
        once, parts = self._once(_formatted_layout, original), self._parts
        return lambda value: parts.dependencies(pformat, value) if isinstance(value, AnySet) else once(value)

    def _body(self, kind: type, debug_str: Callable[[Any], str], original: Callable[[Any], str]) -> Callable[[Any], str]:
        """Replace `LoopBody.debug_str`: leave loop bodies out, but for the code of their blocks."""
        parts = self._parts
        return lambda body: parts.body(debug_str, body, self._code_of_block) if type(body) is kind else original(body)

    def _code_of_block(self, block: Any) -> str:
        """Write the code of a block as Inductor does, without compiling it for that."""
        graph = block.graph  # a block and its clones share it, and it is not changed before the graph's code is generated
        if graph not in self._made:
            self._made[graph] = self._code(graph)
        return self._made[graph]

    def _code(self, graph: Any) -> str:
        """The code of a block as torch writes it; by `block_code`, which is faster, once that agreed with torch on a block."""
        code = None if self._writes_as_torch is False else block_code(graph)
        if code is not None and self._writes_as_torch:
            return code
        torchs = re.sub(r";[^\n]*", "", str(graph.python_code("self").src).strip())
        if code is not None:
            self._writes_as_torch = code == torchs
        return torchs


def block_code(graph: Any) -> str | None:
    """Write the code of a block as torch.fx does; None if it has more than plain calls, which torch.fx must write.

    torch.fx takes ten times as long: it also finds the values that each line may delete, and the names of globals.
    """
    from torch.fx import Node
    from torch.fx import graph as fx_graph

    lines = list[str]()
    renamed = getattr(fx_graph, "_custom_builtins", None)  # torch.fx renames nodes with these names
    for node in graph.nodes:
        if renamed is None or node.type is not None or node.name in renamed:
            return None
        args = [_argument(arg, Node) for arg in node.args]
        named = [_argument(arg, Node) for arg in node.kwargs.values()]
        target = node.target
        if None in args or None in named or not isinstance(target, str) or not target.isidentifier():
            return None
        args += [f"{name} = {arg}" for name, arg in zip(node.kwargs, named, strict=True)]
        if node.op == "placeholder" and target == node.name and not args and not lines:
            lines.append(f"def forward(self, {target}):")
        elif node.op == "call_module":
            lines.append(f"    {node.name} = self.{target}({', '.join(args)})")  # type: ignore[arg-type]
        elif node.op == "call_method" and isinstance(node.args[0], Node):
            lines.append(f"    {node.name} = {args[0]}.{target}({', '.join(args[1:])})")  # type: ignore[arg-type]
        elif node.op == "output" and len(args) == 1:
            lines.append(f"    return {args[0]}")
        else:
            return None
    code = "\n".join(lines)
    return None if ";" in code or not code.startswith("def ") else code


def _argument(value: Any, node: type) -> str | None:
    """An argument as torch.fx writes it; None for one of another kind than loop bodies have."""
    import torch

    kind = type(value)
    if kind is node:
        return str(value.name)
    if kind in (str, int, float, bool, type(None), torch.dtype):
        return repr(value)
    if kind is tuple:
        parts = [_argument(part, node) for part in value]
        return None if None in parts else f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"  # type: ignore[arg-type]
    return None


def _spliced(kind: type, original: Callable[..., None]) -> Callable[..., None]:
    """Add a text to a buffer of Inductor's at once; Inductor looks at the margin of each line and adds it by a call."""

    def splice(buffer: Any, text: Any, *args: Any, **kwargs: Any) -> None:
        plain = type(buffer) is kind and type(text) is str and not args and not kwargs
        lines = unindented(text) if plain else None
        if lines is None:
            original(buffer, text, *args, **kwargs)
            return
        prefix = buffer.prefix()
        buffer._lines.extend([prefix + line if line and not line.isspace() else "" for line in lines])

    return splice


def unindented(text: str) -> list[str] | None:
    """The lines of `textwrap.dedent(text).rstrip()`, except that empty ones may keep their spaces.

    Returns None if the first line is empty, or if a line is indented less than the first.
    """
    lines = text.rstrip().split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip(" "))
    if not lines[0].strip() or lines[0][margin].isspace():
        return None
    if not margin:
        return lines
    spaces = lines[0][:margin]
    if any(not line.startswith(spaces) and line and not line.isspace() for line in lines):
        return None
    return [line[margin:] for line in lines]


def _expression(value: Any) -> Any:
    """What the text of an expression of sympy's depends on."""
    return type(value), value


def _layout_key(value: Any) -> Any:
    """What a layout's text depends on: its attributes, which may change, but for torch's caches; None for another class."""
    from torch._inductor.ir import FixedLayout, FlexibleLayout

    if type(value) not in (FixedLayout, FlexibleLayout):
        return None
    return type(value), *(
        tuple(part) if isinstance(part, list) else part for name, part in vars(value).items() if not name.startswith("__")
    )


def _formatted_layout(value: Any) -> Any:
    """What `pformat` makes the text of a layout of."""
    known = _layout_key(value)
    return known and ("pformat", *known)


def unwritten_record(nodes: Any, parts: UnwrittenParts) -> Unmade:
    """The text of scheduler nodes as TORCH_COMPILE_DEBUG=1 writes it, and one row of facts a node, but for some parts."""
    from torch._inductor.virtualized import V

    texts = [node.debug_str() for node in nodes]
    computed = Computed(part for node in nodes for part in node.get_nodes())
    rows = [scheduler_row(node, computed) for node in nodes]
    name = str(getattr(V.graph, "name", None) or "")  # "" for a graph that is not nested in another, as its path
    return partial(ir_record, texts, rows, parts, name, lowered_path(V.graph))


def ir_record(
    texts: Sequence[str], rows: Sequence[Mapping[str, Any]], parts: UnwrittenParts, of: str, path: str
) -> SchedulerText:
    """The record of scheduler nodes, with the parts that were left out of their texts."""
    whole = [parts.filled(text) for text in texts]
    nodes = tuple(SchedulerNode(**row, line_count=len(text_lines(text))) for row, text in zip(rows, whole, strict=True))
    return SchedulerText(text="".join(f"{text}\n\n\n" for text in whole), nodes=nodes, of=of, path=path)


def scheduler_row(node: Any, computed: Computed) -> dict[str, Any]:
    """Return the facts of one scheduler node: kind, device, sizes, reads, writes, and the FX nodes it comes from."""
    parts = node.get_nodes()
    reads, writes = node.read_writes.reads, node.read_writes.writes
    return {
        "name": node.get_name(),
        "kind": type(node).__name__,
        "device": str(node.get_device()),
        "fused": tuple(part.get_name() for part in parts) if len(parts) > 1 else (),
        "inputs": tuple(sorted({_producer(node, dep.name) for dep in reads} - {node.get_name()})),
        "reads": tuple(sorted(dep.name for dep in reads)),
        "writes": tuple(sorted(dep.name for dep in writes)),
        "sizes": _sizes(node),
        "origins": tuple(sorted({origin.name for part in parts for origin in computed.nodes(part)})),
        "node": _last_origin(parts[0]) if len(parts) == 1 else "",
        "layouts": {buffer.get_name(): layout for buffer in node.get_outputs() if (layout := _layout(buffer.node))},
        "bodies": {part.get_name(): blocks for part in parts if (blocks := computed.bodies.get(part.get_name()))},
    }


def _layout(buffer: Any) -> BufferLayout | None:
    """Dtype, size and stride of a buffer, and the memory it is in; None where it has no single layout."""
    from torch._inductor.ir import BaseView, MutationLayoutSHOULDREMOVE, MutationOutput

    memory: str | None = None
    layout: Any = getattr(buffer, "layout", None)
    if isinstance(buffer, MutationOutput) and len(mutated := buffer.get_mutation_buffers()) == 1:
        (written,) = mutated
        memory, layout = written.get_name(), getattr(written, "layout", None)
    if not all(hasattr(layout, name) for name in ("dtype", "size", "stride")):  # such as that of a node without a result
        return None
    stride = tuple(map(str, layout.stride))
    if isinstance(layout, MutationLayoutSHOULDREMOVE):
        memory = layout.get_buffer().get_name()
        if isinstance(getattr(layout.target, "data", layout.target), BaseView):
            stride = ()
    return BufferLayout(dtype=str(layout.dtype), size=tuple(map(str, layout.size)), stride=stride, mutates=memory)


def _sizes(node: Any) -> tuple[Names, ...]:
    """The iteration ranges of a node: parallel sizes, then reduced sizes; empty for extern kernels."""
    group = getattr(node, "group", None)
    sizes = group[1] if group else ()
    return tuple((str(size),) for size in sizes) if isinstance(sizes, tuple) else ()


def _last_origin(part: Any) -> str:
    """The FX node whose result a node writes, "" where Inductor does not know."""
    inner = getattr(part, "node", None)
    origin = inner.get_origin_node() if inner is not None else None
    return str(origin.name) if origin is not None else ""


def _producer(node: Any, buffer: str) -> str:
    """The scheduler node that writes a buffer; the buffer's own name for graph inputs."""
    known = node.scheduler.name_to_buf.get(buffer)
    if known is None:
        return buffer
    operation = known.defining_op_name()
    fused = node.scheduler.name_to_fused_node.get(operation)
    return str(fused.get_name() if fused is not None else operation)
