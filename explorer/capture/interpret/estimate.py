"""Estimate how long interpreting a kernel takes, from its source, sizes and grid.

On a busy machine with two cores estimates were 0.7 to 1.8 times what it took, for a softmax of two million numbers, an MLP
and a GPT-2 of two layers, inference and training; below a tenth of a second, as for a small attention, 0.3 times.
"""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.capture.interpret.interpreter import AT_ONCE, interpreting
from explorer.capture.ladder.triton_jit import call_arguments, grid_of, jit_function, launch_settings
from explorer.errors import InputError
from explorer.model.integers import value_of
from explorer.model.syntax import parsed

#: Seconds to rewrite and execute a kernel's source, before its first program.
FIRST = 0.02
#: A kernel against the few operations that are timed: its arrays are many, and calls of other functions count as one.
AROUND = 1.25


@dataclass(frozen=True)
class Estimate:
    """The work of interpreting: launches, programs, operations on blocks, and elements computed in all."""

    launches: int = 0
    programs: int = 0
    operations: float = 0.0
    elements: float = 0.0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.launches + other.launches,
            self.programs + other.programs,
            self.operations + other.operations,
            self.elements + other.elements,
        )

    def seconds(self, speed: tuple[float, float]) -> float:
        """The time at `speed`: seconds for each block operation, and for each element of one."""
        return FIRST * self.launches + AROUND * (self.operations * speed[0] + self.elements * speed[1])


def estimate_launch(source: str, arguments: Mapping[str, Any], grid: Sequence[int]) -> Estimate:
    """Estimate one launch; `known` are the kernel's constants and integer arguments."""
    numbers = {k: v for k, v in arguments.items() if isinstance(v, int)}
    tree = parsed(source)
    add_assigned_integers(tree, numbers)
    programs, block = math.prod(grid), _block(numbers, arguments)
    operations = _operations(tree, numbers)
    batches = 1 + math.ceil((programs - 1) * block / AT_ONCE)
    return Estimate(1, programs, operations * batches, operations * programs * block)


def estimate_call(kernel: Any, args: Sequence[Any], constants: Mapping[str, Any], grid: Any, config: Any = None) -> Estimate:
    """Estimate `kernel[grid](*args, **constants)`; InputError if there is no grid."""
    function = jit_function(kernel)
    named = call_arguments(function, args, launch_settings(kernel, args, constants, config)[2])
    sizes = grid_of(grid, named)
    if not sizes:
        raise InputError(f"running {function.__name__} needs its grid")
    return estimate_launch(function.src, named, sizes)


def _block(numbers: Mapping[str, int], arguments: Mapping[str, Any]) -> int:
    """Return the elements of one program's block: from Inductor's names, else the two largest BLOCK sizes or powers of two."""
    named = [v for k, v in numbers.items() if k in ("XBLOCK", "YBLOCK", "ZBLOCK", "R0_BLOCK", "R1_BLOCK")]
    sizes = sorted(v for k, v in numbers.items() if k in arguments and "BLOCK" in k.upper() and v > 0)
    others = sorted(v for k, v in numbers.items() if k in arguments and k.isupper() and v >= 8 and not v & (v - 1))
    return max(1, math.prod(named or sizes[-2:] or others[-2:]))


def add_assigned_integers(tree: ast.AST, names: dict[str, Any]) -> None:
    """Add the names that a source assigns integers to, if they follow from the names known."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = value_of(node.value, names) if isinstance(target, ast.Name) else None
            if value is not None:
                names.setdefault(ast.unparse(target), value)


def _operations(node: ast.AST, arguments: Mapping[str, Any]) -> float:
    """Count operations on blocks; those in loops as often as they run, or once if that is unknown."""
    this_node = float(isinstance(node, (ast.BinOp, ast.Call, ast.Compare, ast.UnaryOp)))
    inside = sum(_operations(child, arguments) for child in ast.iter_child_nodes(node))
    count = loop_count(node, arguments) if isinstance(node, ast.For) else None
    return this_node + inside * (1 if count is None else count)


def loop_count(loop: ast.For, names: Mapping[str, Any]) -> int | None:
    """How often a loop over a range runs, if that follows from the names known; else None."""
    given = loop.iter.args if isinstance(loop.iter, ast.Call) else []
    bounds = [bound for argument in given if (bound := value_of(argument, names)) is not None]
    return len(range(*bounds)) if bounds and len(bounds) == len(given) else None


def speed() -> tuple[float, float]:
    """Measure seconds for one block operation, and for one element of one, on this machine."""
    small, large = _timed(1), _timed(AT_ONCE)
    return small, max(0.0, large - small) / AT_ONCE


def _timed(count: int) -> float:
    """Time a masked load, some arithmetic and a store of `count` elements; seconds an operation."""
    import torch
    import triton.language as tl

    with interpreting() as interpreter:
        pointer = interpreter.value(torch.ones(count), "x")

        def once() -> float:
            began = time.perf_counter()
            offsets = tl.arange(0, count)
            mask = offsets < count
            value = tl.load(pointer + offsets, mask=mask)
            tl.store(pointer + offsets, tl.exp(-value) * value + 1, mask=mask)
            return time.perf_counter() - began

        return min(once() for _ in range(3)) / 10
