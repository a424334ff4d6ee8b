"""Export an FX graph to ONNX by torch.onnx, each node with the FX node that it was made of.

The graph of AOTAutograd becomes an ExportedProgram as it is: torch.export would trace it from scratch, and cannot where a size is
not known when the graph is compiled.
"""

from __future__ import annotations

import logging
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from explorer.capture.compilers.user_lines import with_user_lines
from explorer.capture.observe.patch import replaced

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: What torch.onnx writes between its advice and the error itself, and behind that error.
_SUMMARY, _BEHIND = "## Exception summary", "(Refer to the full stack trace above"


class OnnxError(RuntimeError):
    """A graph could not be exported to ONNX, or ONNX Runtime could not load it; the message is theirs."""


@dataclass(frozen=True)
class Exported:
    """A graph in ONNX: torch's ONNXProgram, and for each node of its exported program the FX node that it was traced for."""

    program: Any
    fx_nodes: Mapping[str, str]


def exported(gm: Any, computed: Sequence[Any]) -> Exported:
    """Export the graph that computes these nodes of a GraphModule.

    OnnxError, in torch.onnx's words and with the user's line, where it cannot be exported.
    """
    import torch

    with quiet(), operators_kept():
        try:
            program: Any = torch.onnx.export(exported_program(gm, computed), dynamo=True, optimize=False, verbose=False)
        except torch.onnx.OnnxExporterError as error:
            raise OnnxError(with_user_lines(readable(error), nodes_under_way(error))) from error
    names = {node.name for node in gm.graph.nodes}
    origins = {node.name: origin(node) for node in program.exported_program.graph.nodes}
    return Exported(program, {name: source for name, source in origins.items() if source in names})


def exported_program(gm: Any, computed: Sequence[Any]) -> Any:
    """The ExportedProgram of a copy of the graph, which returns these nodes."""
    import torch
    from torch.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
    from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec
    from torch.utils import _pytree as pytree

    graph, copies, constants = _copy(gm, computed)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    given = tuple(node.meta["val"] for node in placeholders if node.name not in constants)
    specs = [
        InputSpec(InputKind.CONSTANT_TENSOR, _argument(node), node.name)
        if node.name in constants
        else InputSpec(InputKind.USER_INPUT, _argument(node), None)
        for node in placeholders
    ]
    results = [OutputSpec(OutputKind.USER_OUTPUT, _argument(copies[node]), None) for node in computed]
    structure = (pytree.tree_flatten((given, {}))[1], pytree.tree_flatten(tuple(range(len(computed))))[1])
    program = ExportedProgram(
        root=torch.fx.GraphModule(gm, graph),
        graph=graph,
        graph_signature=ExportGraphSignature(specs, results),
        state_dict={},
        range_constraints={},
        module_call_graph=[ModuleCallEntry("", ModuleCallSignature([], [], *structure))],
        example_inputs=(given, {}),
        constants=constants,
    )
    program._guards_code = []  # Dynamo's guards name the variables of the user's function, and here are none
    return program


def _copy(gm: Any, computed: Sequence[Any]) -> tuple[Any, dict[Any, Any], dict[str, Any]]:
    """A copy of the graph that returns these nodes, the copy of each node, and the tensors it holds, which become inputs."""
    import torch
    from torch._guards import detect_fake_mode

    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    constants: dict[str, Any] = {}
    mode = detect_fake_mode([node.meta.get("val") for node in gm.graph.nodes])
    for node in gm.graph.nodes:
        value = getattr(gm, node.target, None) if node.op == "get_attr" and "." not in node.target else None
        if isinstance(value, torch.Tensor):
            copies[node] = graph.placeholder(node.name)
            copies[node].meta["val"] = mode.from_tensor(value) if mode is not None else value
            constants[copies[node].name] = value
    for node in gm.graph.nodes:
        if node.op != "output" and node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            copies[node].meta.pop("from_node", None)  # so that an exported node's origins end at this graph's node
    graph.output(tuple(copies[node] for node in computed))
    return graph, copies, constants


def _argument(node: Any) -> Any:
    """What a signature says of an input or a result: a tensor, or a number that is not known yet."""
    import torch
    from torch.export import graph_signature as signature

    value = node.meta.get("val")
    for kind, argument in (
        (torch.SymInt, signature.SymIntArgument),
        (torch.SymFloat, signature.SymFloatArgument),
        (torch.SymBool, signature.SymBoolArgument),
    ):
        if isinstance(value, kind):
            return argument(name=node.name)
    return signature.TensorArgument(name=node.name)


def origin(node: Any) -> str:
    """The name of the node that a node was first traced for, by what torch.export keeps of it; "" where it keeps nothing."""
    name, sources = "", node.meta.get("from_node")
    while sources:
        name, sources = str(sources[-1].name), sources[-1].from_node
    return name


def nodes_under_way(error: BaseException) -> list[Any]:
    """Return the node that torch.onnx was translating when it met an error, as a list; [] for an error of another step.

    The message has a name alone, of a node in a graph that torch.onnx decomposed and has dropped. The frames still have the node.
    """
    found = []
    cause: BaseException | None = error
    while cause is not None:
        values = [frame.f_locals.get("node") for frame, _ in traceback.walk_tb(cause.__traceback__)]
        found += [value for value in values if hasattr(value, "meta")]
        cause = cause.__cause__
    return found[-1:]


def readable(error: BaseException) -> str:
    """The error that torch.onnx met, without its advice to report it and without colours."""
    said = _COLOUR.sub("", str(error))
    return said.partition(_SUMMARY)[2].partition(_BEHIND)[0].strip() or said.strip()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what torch.onnx logs and warns of, such as a torchvision that is not there, from the user's screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def operators_kept() -> Iterator[None]:
    """Have torch.onnx read its operators once a process: it parses 500 functions for them, 1.2 s of the 2 s of an export."""
    from torch.onnx._internal.exporter import _registration

    operators = _registration.onnxscript_apis
    with replaced(operators, "get_torchlib_ops", lambda read: lambda: _read(Operators(operators.__name__, read))):
        yield


@dataclass(frozen=True)
class Operators:
    """The operators that a module of onnxscript's has for torch.onnx, and how they are read; equal to others of that module."""

    module: str
    read: Callable[[], Sequence[Any]] = field(compare=False)


@lru_cache(maxsize=1)
def _read(operators: Operators) -> tuple[Any, ...]:
    """The operators; torch.onnx builds its own table of them for each export."""
    return tuple(operators.read())
