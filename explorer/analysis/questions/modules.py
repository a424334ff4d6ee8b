"""Which nn.Module each node of an FX graph belongs to, and boxes of nodes that no arrow leads back to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from explorer.model.values import Plain
from explorer.stages.program_names import Path, split_name

Row = Mapping[str, Plain]
#: What an FX graph has beside the nodes that compute.
NOT_COMPUTED = ("placeholder", "get_attr", "output")


def module_paths(nodes: Sequence[Row]) -> dict[str, Path]:
    """Map each computing node to the path of its module; () is the module that was called.

    A pass may make a node without a module. It belongs to the innermost module that has what it reads and what reads it.
    """
    computing = [node for node in nodes if node.get("op") not in NOT_COMPUTED]
    split = {module: split_name(str(module)) for module in {node.get("module") for node in computing} if module is not None}
    paths = {str(node["name"]): split[node["module"]] for node in computing if node.get("module") is not None}
    read_by = _readers(computing, paths)
    for node in computing:
        if (name := str(node["name"])) not in paths:
            around = [paths[str(source)] for source in node.get("inputs", ()) if str(source) in paths]
            paths[name] = _common([*around, *read_by[name]])
    return paths


def _readers(computing: Sequence[Row], paths: Mapping[str, Path]) -> dict[str, list[Path]]:
    """Collect the paths of what reads each node; of a reader without a module, of what reads that."""
    read_by: dict[str, list[Path]] = {str(node["name"]): [] for node in computing}
    for node in reversed(computing):
        name = str(node["name"])
        below = [paths[name]] if name in paths else read_by[name] and [_common(read_by[name])]
        for source in node.get("inputs", ()):
            if str(source) in read_by:
                read_by[str(source)] += below
    return read_by


def _common(paths: Sequence[Path]) -> Path:
    """The innermost module around all of these paths."""
    first, last = min(paths, default=()), max(paths, default=())
    return first[: next((n for n, parts in enumerate(zip(first, last, strict=False)) if parts[0] != parts[1]), len(first))]


def boxes_in_order(nodes: Iterable[Row], labels: Mapping[str, str]) -> dict[str, str]:
    """Map each labelled node to a box of nodes with its label, such that no box is above and below another.

    A block's first addition feeds its second one through a norm: these become two boxes of the block, "h.0" and "h.0 (2)".
    `nodes` stand below what they read.
    """
    box_of: dict[str, int] = {}
    boxes_of_label: dict[str, int] = {}  # a bit for each box
    above: list[int] = []  # for each box the boxes that lead to it, a bit each
    names: list[str] = []
    for node in nodes:
        if (name := str(node["name"])) not in labels:
            continue
        label = labels[name]
        before = {box_of[str(source)] for source in node.get("inputs", ()) if str(source) in box_of}
        leading = reduce(or_, (above[box] for box in before), 0)
        with_label = boxes_of_label.get(label, 0)
        if free := with_label & ~leading:
            box = free.bit_length() - 1
            _lead(before - {box}, leading, box, above)
        else:
            box = len(names)
            boxes_of_label[label] = with_label | 1 << box
            above.append(reduce(or_, (1 << other for other in before), leading))
            names.append(f"{label} ({with_label.bit_count() + 1})" if with_label else label)
        box_of[name] = box
    return {name: names[box] for name, box in box_of.items()}


def _lead(before: Iterable[int], leading: int, box: int, above: list[int]) -> None:
    """Note that some boxes, and the boxes that lead to them, lead to a box and to all below it."""
    new = reduce(or_, (1 << other for other in before), leading)
    if new & ~above[box]:
        for below in [box, *(n for n, boxes in enumerate(above) if boxes >> box & 1)]:
            above[below] |= new
