"""Import an FX graph into Relax, each binding with the name of its FX node.

TVM's importer gives its bindings numbers and no place of origin. Here each node of a copy has a location as its stack, see
`compilers/graph_copy.py`, which torch.export keeps; the importer is told to name a binding after the node that it converts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.capture.compilers.graph_copy import Results, located_copy, outputs_of
from explorer.errors import InputError
from explorer.stages.fx_locations import FIRST_NODE, FX_GRAPH

_PLACE = re.compile(rf'File "{FX_GRAPH}", line (\d+), in (\S+)')


@dataclass(frozen=True)
class Imported:
    """A graph in Relax.

    `nodes` has the names of the FX nodes, in their order, and `tensors` the numbers of the inputs that the module takes: all but
    sizes. `bindings` has the line of the FX node for each binding, by its variable.
    """

    module: Any
    nodes: tuple[str, ...]
    tensors: tuple[int, ...]
    bindings: Mapping[Any, int]
    results: Results


def imported(gm: Any) -> Imported:
    """The graph of a GraphModule in Relax; the GraphModule itself is left as it is."""
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    outputs = outputs_of(gm)
    results = Results.of(outputs, inputs)
    copy = located_copy(gm, [value for value, computed in zip(outputs, results.computed, strict=True) if computed])
    take_sizes_from_tensors(copy)
    importer, bindings = naming_importer()
    module = importer.from_exported_program(exported(copy), False, False, False, None)
    return Imported(
        module=module,
        nodes=tuple(node.name for node in gm.graph.nodes),
        tensors=tuple(number for number, node in enumerate(inputs) if not is_size(node)),
        bindings=dict(all_bindings(module, bindings)),
        results=results,
    )


def is_size(node: Any) -> bool:
    """Whether a placeholder is a symbolic number and no tensor."""
    import torch

    return not isinstance(node.meta.get("val"), torch.Tensor)


def take_sizes_from_tensors(gm: Any) -> None:
    """Replace each input that is a size by the size of a tensor that is an input too: torch.export takes no symbolic numbers."""
    import torch

    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    tensors = [node for node in inputs if not is_size(node)]
    for node in (node for node in inputs if is_size(node)):
        if node.users:
            tensor, dimension = _place_of_size(node, tensors)
            with gm.graph.inserting_after(inputs[-1]):
                size = gm.graph.call_function(torch.ops.aten.sym_size.int, (tensor, dimension))
            size.meta = dict(node.meta)
            node.replace_all_uses_with(size)
        gm.graph.erase_node(node)
        inputs.remove(node)
    gm.recompile()


def _place_of_size(node: Any, tensors: Sequence[Any]) -> tuple[Any, int]:
    """An input and its dimension of that size; InputError where the number is no size of an input."""
    expression = getattr(getattr(node.meta.get("val"), "node", None), "expr", None)
    for tensor in tensors:
        for dimension, size in enumerate(tensor.meta["val"].shape):
            if expression is not None and getattr(getattr(size, "node", None), "expr", None) == expression:
                return tensor, dimension
    raise InputError(
        f"TVM's graphs take tensors, and the input {node.name} is a number that is not a tensor's size: {node.meta['val']}"
    )


def exported(gm: Any) -> Any:
    """The graph as an ExportedProgram, in Core ATen operators.

    Apart from the compile that is under way: else torch.export adds its guards to Dynamo's.
    """
    import torch
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    values = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    dynamic = [{n: torch.export.Dim.AUTO for n, size in enumerate(v.shape) if isinstance(size, torch.SymInt)} for v in values]
    with tracing(None), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch's own code, when it copies a graph's signature
        with FakeTensorMode(shape_env=ShapeEnv()):
            own = [torch.empty_strided(_hints(v.shape), _hints(v.stride()), dtype=v.dtype) for v in values]
        program = torch.export.export(gm, tuple(own), dynamic_shapes=tuple(dynamic) if any(dynamic) else None)
        return program.run_decompositions()


def _hints(sizes: Sequence[Any]) -> list[int]:
    """Sizes as the numbers that they have in this call."""
    return [size if isinstance(size, int) else size.node.hint for size in sizes]


def naming_importer() -> tuple[Any, dict[Any, int]]:
    """TVM's importer, which names each binding after its FX node, and the bindings' lines, which it fills in."""
    from tvm import relax
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    under_way: list[tuple[int, str]] = []
    lines: dict[Any, int] = {}

    class NamingBuilder(relax.BlockBuilder):  # type: ignore[misc]
        """TVM's builder; a binding has the name of the node under way."""

        def emit(self, expr: Any, name_hint: str = "") -> Any:
            variable = super().emit(expr, under_way[-1][1] if under_way else name_hint)
            if under_way:
                lines[variable] = under_way[-1][0]
            return variable

    class NamingImporter(ExportedProgramImporter):  # type: ignore[misc]
        """TVM's importer, with that builder."""

        @property
        def block_builder(self) -> Any:
            return self._builder

        @block_builder.setter
        def block_builder(self, builder: Any) -> None:
            self._builder = builder and NamingBuilder()

    importer = NamingImporter()
    importer.convert_map = {name: _told(convert, under_way) for name, convert in importer.convert_map.items()}
    return importer, lines


def _told(convert: Callable[..., Any], under_way: list[tuple[int, str]]) -> Callable[..., Any]:
    """The converter of an operator, which says which node is under way."""

    def told(node: Any, *more: Any) -> Any:
        places = _PLACE.findall(node.meta.get("stack_trace") or "")
        line, name = (int(places[-1][0]), places[-1][1]) if places else (0, "")
        if line < FIRST_NODE:
            return convert(node, *more)
        under_way.append((line, name))
        try:
            return convert(node, *more)
        finally:
            under_way.pop()

    return told


def all_bindings(module: Any, lines: Mapping[Any, int]) -> Iterator[tuple[Any, int]]:
    """Yield each binding with its line. A nested expression's extra bindings come before its own, and get the same line."""
    for bindings in bindings_of(module):
        nested: list[Any] = []
        for binding in bindings:
            nested.append(binding.var)
            if binding.var in lines:
                yield from ((variable, lines[binding.var]) for variable in nested)
                nested = []


def bindings_of(module: Any) -> Iterator[list[Any]]:
    """The bindings of each Relax function of a module, in their order."""
    from tvm import relax

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            blocks = getattr(function.body, "blocks", ())
            yield [binding for block in blocks for binding in block.bindings]
