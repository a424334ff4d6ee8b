"""Lines: the errors of operators and kernels, by line."""

from __future__ import annotations

from explorer.capture.interpret.shadows import OperatorError, Place
from explorer.lab.drifting.kernel_errors import KernelValue
from explorer.lab.drifting.lines import ROUNDINGS, lines_of

FIRST, SECOND = Place("model.py", 3, "y = x * 2"), Place("model.py", 4, "z = y - x")


def operator(number: int, place: Place, error: float, operand_error: float) -> OperatorError:
    """An operator with these errors."""
    return OperatorError(number, "aten.mul.Tensor", place, "float32", error, operand_error)


def test_what_a_line_adds_is_the_sum_of_what_its_operators_add() -> None:
    """Many small steps of one line add up, and an operator that repeats its operand's error adds nothing."""
    steps = [operator(n, FIRST, 0.1 * (n + 1), 0.1 * n) for n in range(3)]
    (first, second) = lines_of([*steps, operator(3, SECOND, 0.3, 0.3)], [])
    assert round(first.added, 9) == 0.3
    assert (second.added, second.growth, second.eager) == (0, 1, 0.3)


def test_a_line_stands_out_beyond_ordinary_roundings() -> None:
    """The bound is a number of roundings of the program's type."""
    (line,) = lines_of([operator(0, FIRST, 1e-3, 0)], [])
    assert line.stands_out(1e-3 / ROUNDINGS * 0.9) and not line.stands_out(1e-3 / ROUNDINGS * 1.1)
    assert line.growth is None


def test_kernels_join_the_line_of_their_node() -> None:
    """A value joins the row of its line in its module; a line that eager does not have gets a row."""
    inner = Place("model.py", 3, "y = x * 2", "inner")
    values = [KernelValue(1, "k", "mul", inner, "float32", 0.5), KernelValue(2, "k", "sub", SECOND, "float32", None)]
    lines = lines_of([operator(0, FIRST, 0.1, 0), operator(1, inner, 0.2, 0)], values)
    assert [(line.place, line.compiled) for line in lines] == [(FIRST, None), (inner, 0.5), (SECOND, None)]


def test_a_node_without_a_line_joins_its_module() -> None:
    """A bare torch.nn module has no line in the graph: its only line is found by its name, and nothing without a name."""
    inner, unknown = Place("linear.py", 134, "F.linear(…)", "0"), Place(backward=True)
    values = [KernelValue(1, "k", "addmm", Place(module="0"), "float32", 0.5), KernelValue(2, "k", "mm", unknown, "float32", 0.2)]
    lines = lines_of([operator(0, inner, 0.1, 0)], values)
    assert [(line.place, line.compiled) for line in lines] == [(inner, 0.5), (unknown, 0.2)]


def test_an_infinite_error_is_added_once() -> None:
    """The operator that overflows adds it; what it leads to does not."""
    lines = lines_of([operator(0, FIRST, float("inf"), 0.1), operator(1, SECOND, float("inf"), float("inf"))], [])
    assert [line.added for line in lines] == [float("inf"), 0]
