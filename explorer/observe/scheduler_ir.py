"""The scheduler's nodes before and after fusion, as text and as facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from explorer.model.events import SchedulerText
from explorer.model.rows import BufferLayout, Names, SchedulerNode
from explorer.model.values import text_lines
from explorer.observe.kernel_lines import body_nodes
from explorer.observe.nested import lowered_path
from explorer.observe.patch import replaced


@contextmanager
def written_once() -> Iterator[Callable[[], None]]:
    """Inductor's texts of loop bodies and dependencies, which most nodes have in common before and after fusion, made once.

    A block's text is made as Inductor makes it, but that nothing is compiled for it. What is given forgets the texts.
    """
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.loop_body import LoopBody, LoopBodyBlock

    codes: dict[Any, str] = {}
    deps: dict[Any, str] = {}
    indices: dict[tuple[type, Any], str] = {}

    def index_text(index: Any) -> str:
        """Write an index as sympy does, which takes 0.1 ms; the layers of a model have the same ones."""
        key = type(index), index
        if key not in indices:
            indices[key] = str(index)
        return indices[key]

    def of_body(original: Any) -> Any:
        def debug_str(self: Any) -> str:
            body = copy(self)
            body.indexing_exprs = {name: index_text(index) for name, index in self.indexing_exprs.items()}
            text: str = original(body)
            return text

        return debug_str

    def of_block(_: Any) -> Any:
        def debug_str(self: Any, name: str = "block") -> str:
            if self.graph not in codes:  # a block and its clones share the graph, which is not changed once it is made
                codes[self.graph] = self.graph.python_code("self").src.strip()
            return re.sub(r";[^\n]*", "", codes[self.graph].replace("def forward(", f"def {name}("))

        return debug_str

    def of_dep(original: Any) -> Any:
        def __repr__(self: Any) -> str:
            if self not in deps:
                deps[self] = original(self)
            return deps[self]

        return __repr__

    def forget() -> None:
        codes.clear()
        deps.clear()
        indices.clear()

    with (
        replaced(LoopBody, "debug_str", of_body),
        replaced(LoopBodyBlock, "debug_str", of_block),
        replaced(MemoryDep, "__repr__", of_dep),
    ):
        yield forget


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
