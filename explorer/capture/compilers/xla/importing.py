"""Lower an FX graph to StableHLO by torch-mlir, each operation with the name of its FX node.

torch-mlir takes an operation's location from its node's stack, see `capture/compilers/graph_copy.py`. Here each location gets the
node's name too: XLA carries a location's name through all of its passes, as an instruction's `op_name`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from explorer.capture.compilers import child
from explorer.capture.compilers.graph_copy import Results, located_copy, outputs_of
from explorer.capture.compilers.xla.compile import LIMIT, XlaError
from explorer.process import scratch
from explorer.process.children import command, environment
from explorer.stages.fx_locations import FIRST_NODE, FX_GRAPH, WHOLE_GRAPH

#: torch-mlir's pipelines: to the operators that its backends take, and from there to StableHLO.
TO_BACKEND = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline{extra-library=})"
)
TO_STABLEHLO = "builtin.module(torch-backend-to-stablehlo-backend-pipeline)"
#: The files of what `lowered` yields.
PRINTED, STABLEHLO, SOURCE = "printed.mlir", "stablehlo.mlir", "source.mlir"
#: The most bytes of address space that the lowering may take; torch-mlir that is loaded takes 0.3 GiB.
MAX_BYTES = 4 * 2**30
#: Elements of a constant from which on it is not printed.
LARGEST = 64

_LOCATION = re.compile(rf'loc\("{FX_GRAPH}":(\d+):(\d+)\)')
_ARGUMENT = re.compile(rf'%arg(\d+): [^%]*? loc\("{FX_GRAPH}":{WHOLE_GRAPH}:0\)')


@dataclass
class Lowering:
    """A graph on its way to StableHLO: the texts so far.

    `torch` is the graph in MLIR's torch dialect and `stablehlo` in StableHLO, "" before it came to that; both are without large
    constants. `source` is what XLA is handed. `nodes` are the names of the FX nodes, in their order.
    """

    nodes: tuple[str, ...]
    results: Results
    torch: str
    stablehlo: str = ""
    source: str = ""

    @classmethod
    def of(cls, gm: Any) -> Lowering:
        """The graph of a GraphModule in the torch dialect; the GraphModule itself is left as it is."""
        from torch_mlir.extras.fx_importer import FxImporter

        outputs = outputs_of(gm)
        importer = FxImporter(context=_context())
        importer.import_graph_module(located_copy(gm, outputs))
        nodes = tuple(node.name for node in gm.graph.nodes)
        inputs = tuple(node.name for node in gm.graph.nodes if node.op == "placeholder")
        text = with_names(str(importer.module.operation.get_asm(enable_debug_info=True)), nodes, inputs)
        return cls(nodes, Results.of(outputs), text)

    def run(self) -> None:
        """Lower it to StableHLO in a child process; XlaError, in torch-mlir's own words, where it cannot or takes too much."""
        with scratch.folder() as name:
            folder = Path(name)
            (folder / "module.mlir").write_text(self.torch, encoding="utf-8")
            lowering = command("explorer.capture.compilers.xla.lowering_process", "module.mlir", f"{MAX_BYTES}")
            error = child.run(lowering, folder, "torch-mlir", LIMIT, environment())
            texts = [folder / name for name in (PRINTED, STABLEHLO, SOURCE)]
            self.torch, self.stablehlo, self.source = (
                file.read_text(encoding="utf-8") if file.exists() else before
                for file, before in zip(texts, (self.torch, "", ""), strict=True)
            )
        if error:
            raise XlaError(error)


def lowered(text: str) -> Iterator[str]:
    """Yield a module of the torch dialect as it is shown, then in StableHLO as it is shown, and as XLA is handed it."""
    from torch_mlir import ir, passmanager

    with _context():
        module = ir.Module.parse(text)
        yield _printed(module)
        for pipeline in (TO_BACKEND, TO_STABLEHLO):
            passmanager.PassManager.parse(pipeline).run(module.operation)
        yield _printed(module)
        yield str(module.operation.get_asm(enable_debug_info=True))


def decompositions() -> dict[Any, Any]:
    """The operators that AOTAutograd is to write as others: torch-mlir's own list, with attention laid out as eager's."""
    import torch
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    table = dict(get_decomposition_table())
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    if attention in table:
        table[attention] = partial(_laid_out_as_the_query, table[attention])
    return table


def _laid_out_as_the_query(attention: Callable[..., tuple[Any, Any]], query: Any, *args: Any, **named: Any) -> tuple[Any, Any]:
    """Compute attention by PyTorch's decomposition, and give the result the query's strides, as PyTorch's operator does."""
    result, sums = attention(query, *args, **named)
    order = sorted(range(query.dim()), key=query.stride, reverse=True)
    back = [order.index(dimension) for dimension in range(query.dim())]
    return result.permute(order).contiguous().permute(back), sums


def _context() -> Any:
    """A context of MLIR's that knows the torch dialect."""
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect

    context = ir.Context()
    torch_dialect.register_dialect(context)
    return context


def _printed(module: Any) -> str:
    """A module as it is shown."""
    return str(module.operation.get_asm(enable_debug_info=True, large_elements_limit=LARGEST))


def with_names(text: str, nodes: Sequence[str], inputs: Sequence[str]) -> str:
    """Add the names of FX nodes and inputs to a module's locations. The graph as a whole has no name."""

    def named(match: re.Match[str]) -> str:
        number = int(match[1]) - FIRST_NODE
        return f'loc("{nodes[number]}"("{FX_GRAPH}":{match[1]}:{match[2]}))' if 0 <= number < len(nodes) else match[0]

    def argument(match: re.Match[str]) -> str:
        place = f'"{FX_GRAPH}":{WHOLE_GRAPH}:0'
        return match[0].replace(f"loc({place})", f'loc("{inputs[int(match[1])]}"({place}))')

    head, entry, body = text.partition("func.func @main(")
    signature, brace, rest = body.partition("{\n")
    return _LOCATION.sub(named, head + entry) + _ARGUMENT.sub(argument, signature) + brace + _LOCATION.sub(named, rest)
