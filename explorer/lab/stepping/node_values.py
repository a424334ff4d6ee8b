"""The value of each node of an FX graph as it runs: shape, strides, range, and how many elements are NaN or infinite."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from explorer.capture.observe.fx import target_name
from explorer.lab.stepping.picture import picture
from explorer.model.values import Plain, Table

COLUMNS = ("line", "node", "target", "shape", "dtype", "stride", "min", "max", "mean", "nan", "inf", "value", "picture", "call")
#: What is noted of a node: its name with the path of its graph, its target, and what it gave.
Note = Callable[[str, str, Any], None]


class Values(Table):
    """A table with a picture in each row, which a notebook shows, and the text of the table leaves out."""

    def without_pictures(self) -> Table:
        """The same rows without pictures."""
        columns = [name for name in self.columns if name != "picture"]
        return Table(({name: row[name] for name in columns} for row in self), columns)

    def __repr__(self) -> str:
        return repr(self.without_pictures())

    def _repr_html_(self) -> str:
        names = [name for name in self.columns if name != "call" or any(row["call"] for row in self)]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{_cell(name, row[name])}</td>" for name in names) + "</tr>" for row in self)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(name: str, value: Plain) -> str:
    """A cell's content; a picture as an image."""
    if value is None or value == "":
        return ""
    if name == "picture":
        return f'<img src="{html.escape(value)}" alt="" style="height:3em;min-width:3em;image-rendering:pixelated">'
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def interpreter_of(gm: Any, note: Note, path: str = "") -> Callable[..., Any]:
    """Return a function that runs a graph node by node, nested graphs included, and notes each node's value."""
    from torch.fx import GraphModule, Interpreter

    class Noting(Interpreter):  # type: ignore[misc]
        """Runs a graph, and notes each node's value."""

        def run_node(self, node: Any) -> Any:
            """Run a node as torch.fx does."""
            value = super().run_node(node)
            if node.op != "output" and not isinstance(value, GraphModule):
                note(f"{path}{node.name}", target_name(node.target), value)
            return value

    for name, child in gm.named_children():
        if isinstance(child, GraphModule):
            child.forward = interpreter_of(child, note, f"{path}{name}.")

    def run(*args: Any) -> Any:
        return Noting(gm).run(*args)

    return run


def facts_of(value: Any, *, drawn: bool = True) -> dict[str, Plain]:
    """Shape, dtype, strides and range of a tensor, and its picture where it is to be drawn; of anything else its text."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    if not isinstance(value, torch.Tensor):
        return {"value": _short(value)}
    with _disable_current_modes(), torch.no_grad():
        tensor = value.detach()
        facts: dict[str, Plain] = {"shape": tuple(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
        if tensor.layout == torch.strided:
            facts["stride"] = tuple(tensor.stride())
        if tensor.layout != torch.strided or tensor.device.type == "meta" or not tensor.numel():
            return facts
        numbers = _numbers(tensor)
        return {**facts, **dict(_range(numbers)), **({"picture": picture(numbers)} if drawn else {})}


def _numbers(tensor: Any) -> Any:
    """The elements as numbers that can be compared: of complex ones their sizes, of truth values 0 and 1, small floats wider."""
    import torch

    if tensor.is_complex():
        return tensor.abs()
    if tensor.is_floating_point():
        return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.to(torch.float32)
    return tensor.to(torch.int64)


def _range(numbers: Any) -> Iterator[tuple[str, Plain]]:
    """The range and mean of the finite elements, and the number of the others."""
    import torch

    nan, infinite = int(numbers.isnan().sum()), int(numbers.isinf().sum())
    finite = numbers[torch.isfinite(numbers)] if nan or infinite else numbers
    if finite.numel():
        whole = not finite.is_floating_point()
        low, high = finite.min().item(), finite.max().item()
        yield "min", low if whole else float(low)
        yield "max", high if whole else float(high)
        yield "mean", float(finite.to(torch.float64).mean())
    yield "nan", nan
    yield "inf", infinite


def _short(value: Any) -> str:
    """Write a value that is no tensor as text. Tensors in a list or tuple are written as dtype and shape."""
    import torch

    if isinstance(value, (tuple, list)):
        parts = (
            f"{str(v.dtype).removeprefix('torch.')}{list(v.shape)}" if isinstance(v, torch.Tensor) else str(v) for v in value
        )
        return f"({', '.join(parts)})"[:200]
    return str(value)[:200]


def row_of(name: str, target: str, value: Any, lines: Mapping[str, int], call: int) -> dict[str, Plain]:
    """The row of one node: `lines` has its line, `call` counts the calls of its graph from 0."""
    given: dict[str, Plain] = {"line": lines.get(name), "node": name, "target": target, "call": call, **facts_of(value)}
    return {column: given.get(column) for column in COLUMNS}
