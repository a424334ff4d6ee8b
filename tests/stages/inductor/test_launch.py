"""The launches that a wrapper states, with their grids."""

from __future__ import annotations

from explorer.stages.inductor.launch import launches

WRAPPER = """
def call(args):
    s77 = arg0_1
    kern.run(arg1_1, buf2, 1000, 10, stream=stream0)
    other.run(buf2, stream=stream0)
    kern.run(arg1_1, buf2, 32*s77, 10, stream=stream0)
"""


def test_the_grid_follows_from_the_sizes_the_wrapper_passes() -> None:
    """Numbers give a number for each axis, a dynamic size leaves that axis' formula."""
    first, second = launches(WRAPPER, "kern", ("a", "b", "xnumel", "ynumel"), ("-((xnumel) // -(256))", "ynumel", "1"))
    assert (first["line"], first["grid"], first["arguments"]["b"]) == (4, (4, 10, 1), "buf2")
    assert (second["line"], second["grid"]) == (6, ("-((xnumel) // -(256))", 10, 1))
    assert second["arguments"]["xnumel"] == "32 * s77"


def test_the_overflow_grid_of_inductor_is_understood() -> None:
    """Grid2DWithYZOverflow's assignments before the grid are followed."""
    prefix = ("y_grid_raw_ = -((ynumel) // -(16))", "y_grid_div_ = -((y_grid_raw_) // -(65535))")
    grid = ("1", "(0 if y_grid_div_ == 0 else -((y_grid_raw_) // -(y_grid_div_)))", "y_grid_div_")
    (found,) = launches("k.run(a, 2000000, stream=s)", "k", ("a", "ynumel"), grid, prefix)
    assert found["grid"] == (1, 62500, 2)
