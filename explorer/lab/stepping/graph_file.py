"""Run an FX graph from a file with its text, as `print_readable` writes it, so that a debugger stops at its lines."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable
from types import MethodType
from typing import Any

from explorer.model.syntax import parsed

#: The class of AOTAutograd's graphs, whose name is not one of Python's.
_LAMBDA = re.compile(r"^(\s*class )<lambda>\(", re.MULTILINE)


def copied_graph(gm: Any) -> Any:
    """Copy a GraphModule and the graphs in it, which passes change in place; parameters and constants are shared."""
    from torch.fx import GraphModule

    made = GraphModule(gm, copy.deepcopy(gm.graph))
    for name, child in made.named_children():
        if isinstance(child, GraphModule):
            setattr(made, name, copied_graph(child))
    return made


def as_python(text: str) -> str:
    """The text of a graph as Python, line for line: its class may be called "<lambda>"."""
    return _LAMBDA.sub(r"\1GraphModule(", text)


def function_of_file(gm: Any, text: str, file: str) -> Callable[..., Any]:
    """Return a function that runs the graph, nested graphs included, by executing `text`, which is in `file`.

    The text names its operators as torch.fx does, and torch.fx resolves the names. Raises SyntaxError if the text is no Python.
    """
    source = as_python(text)
    space = _names_of(gm)
    exec(compile(source, file, "exec"), space)
    name = next(node.name for node in parsed(source).body if isinstance(node, ast.ClassDef))
    return _bound(gm, space[name])


def _bound(gm: Any, written: Any) -> Callable[..., Any]:
    """Bind the `forward` of one of the file's classes to this graph, and those of the classes inside it to the inner graphs."""
    for name, child in gm.named_children():
        if hasattr(child, "graph") and hasattr(written, name):
            child.forward = _bound(child, getattr(written, name))
    return MethodType(written.forward, gm)


def _names_of(gm: Any) -> dict[str, Any]:
    """The global names of a graph's text, and of the graphs inside it."""
    space: dict[str, Any] = {"__name__": "explorer_graph"}
    for module in gm.modules():
        if hasattr(module, "graph"):
            code = module.graph.python_code("self", verbose=True, include_stride=True, include_device=True)
            space.update(code.globals)
    return space
