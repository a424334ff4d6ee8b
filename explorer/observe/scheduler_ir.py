"""The scheduler's nodes before and after fusion, as text and as facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AnySet
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from explorer.model.events import SchedulerText
from explorer.model.rows import BufferLayout, Names, SchedulerNode
from explorer.model.values import text_lines
from explorer.observe.kernel_lines import body_nodes
from explorer.observe.nested import lowered_path
from explorer.observe.patch import replaced, replaced_pure


class Texts:
    """The texts that the nodes of a graph have in common, most of them before and after fusion, each made once by Inductor."""

    def __init__(self) -> None:
        self._made: dict[Any, str] = {}
        self._writes_as_torch: bool | None = None  # whether `block_code` does; not known before the first block

    def record(self, nodes: Any) -> SchedulerText:
        """`ir_record` of scheduler nodes."""
        with self._made_once():
            return ir_record(nodes)

    def forget(self) -> None:
        """Keep nothing of the graphs seen so far."""
        self._made.clear()

    @contextmanager
    def _made_once(self) -> Iterator[None]:
        """Inside the block the same text is not made again: sympy takes 0.1 ms for an index, and layers have the same ones."""
        from sympy.printing.defaults import Printable
        from torch._inductor import ir, scheduler
        from torch._inductor.dependencies import MemoryDep
        from torch._inductor.loop_body import LoopBody, LoopBodyBlock
        from torch._inductor.utils import IndentedBuffer

        with ExitStack() as stack:
            for owner, name, key in (
                (Printable, "__str__", _expression),
                (Printable, "__repr__", _expression),
                (MemoryDep, "__repr__", _dependency),
                (ir.Layout, "__str__", _layout_key),
                (scheduler, "pformat", _formatted),
            ):
                stack.enter_context(replaced_pure(owner, name, partial(self._once, key)))
            stack.enter_context(replaced_pure(LoopBody, "debug_str", partial(self._once, _body)))
            stack.enter_context(replaced_pure(LoopBodyBlock, "debug_str", self._of_block))
            stack.enter_context(replaced(IndentedBuffer, "splice", partial(_spliced, IndentedBuffer)))
            yield

    def _once(self, key: Callable[[Any], Any], original: Callable[[Any], str]) -> Callable[[Any], str]:
        """A function that asks the original once for all values of the same key; each time for one whose key is None."""
        made = self._made

        def write(value: Any) -> str:
            known = key(value)
            text = made.get(known)  # asked for once: sympy's hashes and comparisons are functions of Python
            if text is None:
                text = original(value)
                if known is not None:
                    made[known] = text
            return text

        return write

    def _of_block(self, _: Any) -> Callable[..., str]:
        """The text of a block as Inductor makes it, but that nothing is compiled for it."""
        made = self._made

        def debug_str(block: Any, name: str = "block") -> str:
            graph = block.graph  # a block and its clones share it, and it is not changed once it is made
            if graph not in made:
                made[graph] = self._code(graph)
            return made[graph].replace("def forward(", f"def {name}(")

        return debug_str

    def _code(self, graph: Any) -> str:
        """The code of a block as torch writes it: most by `block_code`, if what that makes of the first block is the same."""
        code = None if self._writes_as_torch is False else block_code(graph)
        if code is not None and self._writes_as_torch:
            return code
        torchs = re.sub(r";[^\n]*", "", str(graph.python_code("self").src).strip())
        if code is not None:
            self._writes_as_torch = code == torchs
        return torchs


def block_code(graph: Any) -> str | None:
    """What torch.fx writes as the code of a block; None for one that has more than its plain calls, which torch is to write.

    torch.fx also looks for what each line may delete and for names of globals: that takes ten times as long.
    """
    from torch.fx import Node
    from torch.fx import graph as fx_graph

    lines = list[str]()
    renamed = getattr(fx_graph, "_custom_builtins", None)  # nodes of these names have others in the code
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
    """What adds a text to a buffer of Inductor's at once; Inductor looks at the margin of each line, and adds it by a call."""

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
    """The lines of `textwrap.dedent(text).rstrip()`, but for spaces in empty ones.

    None for a text whose first line is empty, or in which a line starts left of it.
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


def _body(value: Any) -> Any:
    """What a loop body's text depends on; its blocks' graphs are not changed once they are made."""
    blocks = tuple((name, block.graph) for name, block in value.subblocks.items())
    return "body", value.root_block.graph, blocks, tuple(value.var_ranges.items()), tuple(value.indexing_exprs.items())


def _expression(value: Any) -> Any:
    """What the text of sympy's depends on."""
    return type(value), value


def _dependency(value: Any) -> Any:
    """What a dependency's text depends on: deps are frozen."""
    return value


def _layout_key(value: Any) -> Any:
    """What a layout's text depends on: all that it has, which may change; None for a layout that has more than plain facts."""
    from torch._inductor.ir import FixedLayout, FlexibleLayout

    if type(value) not in (FixedLayout, FlexibleLayout):
        return None
    return type(value), *(tuple(part) if isinstance(part, list) else part for part in vars(value).values())


def _formatted(value: Any) -> Any:
    """What `pformat` makes its text of: a set of dependencies, or a layout."""
    if isinstance(value, AnySet):
        return frozenset(value)
    known = _layout_key(value)
    return known and ("pformat", *known)


def ir_record(nodes: Any) -> SchedulerText:
    """The text of scheduler nodes as TORCH_COMPILE_DEBUG=1 writes it, and one row of facts a node."""
    from torch._inductor.virtualized import V

    texts = [node.debug_str() for node in nodes]
    rows = tuple(scheduler_row(node, text) for node, text in zip(nodes, texts, strict=True))
    name = str(getattr(V.graph, "name", None) or "")  # "" for a graph that is not nested in another, as its path
    return SchedulerText(text="".join(f"{text}\n\n\n" for text in texts), nodes=rows, of=name, path=lowered_path(V.graph))


def scheduler_row(node: Any, text: str) -> SchedulerNode:
    """One scheduler node: kind, device, sizes, what it reads and writes, the FX nodes it comes from."""
    parts = node.get_nodes()
    reads, writes = node.read_writes.reads, node.read_writes.writes
    return SchedulerNode(
        name=node.get_name(),
        kind=type(node).__name__,
        device=str(node.get_device()),
        fused=tuple(part.get_name() for part in parts) if len(parts) > 1 else (),
        inputs=tuple(sorted({_producer(node, dep.name) for dep in reads} - {node.get_name()})),
        reads=tuple(sorted(dep.name for dep in reads)),
        writes=tuple(sorted(dep.name for dep in writes)),
        sizes=_sizes(node),
        origins=tuple(sorted({origin.name for part in parts for origin in _origins(part)})),
        node=_last_origin(parts[0]) if len(parts) == 1 else "",
        layouts={buffer.get_name(): layout for buffer in node.get_outputs() if (layout := _layout(buffer.node))},
        bodies={part.get_name(): blocks for part in parts if (blocks := body_nodes(part))},
        line_count=len(text_lines(text)),
    )


def _layout(buffer: Any) -> BufferLayout | None:
    """Dtype, size and stride of a buffer; None for one that is several, or none."""
    layout: Any = getattr(buffer, "layout", None)
    if not all(hasattr(layout, name) for name in ("dtype", "size", "stride")):  # such as that of a node without a result
        return None
    return BufferLayout(dtype=str(layout.dtype), size=tuple(map(str, layout.size)), stride=tuple(map(str, layout.stride)))


def _sizes(node: Any) -> tuple[Names, ...]:
    """The iteration ranges of a node: parallel sizes, then reduced sizes; empty for extern kernels."""
    group = getattr(node, "group", None)
    sizes = group[1] if group else ()
    return tuple((str(size),) for size in sizes) if isinstance(sizes, tuple) else ()


def _origins(part: Any) -> list[Any]:
    inner = getattr(part, "node", None)
    return list(inner.get_origins()) if inner is not None else []


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
