"""A launch that was interpreted leaves the same when it comes again, and any other launch is interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from explorer.capture.interpret.remembered import Remembered


class Launches:
    """A kernel that writes `x * factor` to `out`, which counts how often it runs."""

    def __init__(self, remembered: Remembered) -> None:
        self.remembered, self.runs = remembered, 0

    def __call__(self, source: str = "source", grid: tuple[int, ...] = (4, 1, 1), **arguments: Any) -> torch.Tensor:
        """Launch it; what is in `out` then."""

        def run() -> None:
            self.runs += 1
            arguments["out"].copy_(arguments["x"] * arguments["factor"])

        self.remembered.launch(source, arguments, grid, run)
        out: torch.Tensor = arguments["out"]
        return out


@pytest.fixture
def launch() -> Launches:
    """A kernel that was launched once, with these arguments."""
    made = Launches(Remembered())
    made(**given())
    assert made.runs == 1
    return made


def given(**others: Any) -> dict[str, Any]:
    """The arguments of a launch, at addresses of their own."""
    return {"x": torch.arange(8.0), "out": torch.full((8,), torch.nan), "factor": 2.0, **others}


def test_the_same_launch_leaves_the_same(launch: Launches) -> None:
    """Tensors at other addresses, of the same values: the kernel does not run, and its result is there."""
    assert launch(**given()).equal(torch.arange(8.0) * 2) and launch.runs == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda: given(x=torch.arange(8.0) + 1),
        lambda: given(x=torch.arange(16.0)[::2]),
        lambda: given(factor=3.0),
        lambda: given(factor=True),
        lambda: given(source="another source"),
        lambda: given(grid=(2, 1, 1)),
        lambda: given(out=torch.zeros(8)),  # an atomic addition reads it
        lambda: given(out=torch.full((8,), torch.nan, dtype=torch.float64)),
    ],
    ids=["values", "strides", "number", "type of a number", "source", "grid", "what is there", "dtype"],
)
def test_another_launch_is_interpreted(launch: Launches, change: Callable[[], dict[str, Any]]) -> None:
    """Another value, number, source or grid: it runs, and leaves what it computes."""
    arguments = change()
    out = launch(**arguments)
    assert launch.runs == 2 and out.equal((arguments["x"] * arguments["factor"]).to(out.dtype))


def test_memory_that_arguments_share_is_left_whole(launch: Launches) -> None:
    """Two arguments are views of one memory, of which the kernel reads one half and writes the other."""
    for runs in (2, 2):
        memory = torch.arange(16.0)
        launch(**given(x=memory[:8], out=memory[8:]))
        assert memory.equal(torch.cat([torch.arange(8.0), torch.arange(8.0) * 2])) and launch.runs == runs


def test_what_is_not_plain_is_interpreted_each_time(launch: Launches) -> None:
    """An argument of which more matters than its `repr` says."""
    launch(**given(more=(torch.ones(1),)))
    launch(**given(more=(torch.ones(1),)))
    assert launch.runs == 3


def test_no_more_is_kept_than_there_is_room_for() -> None:
    """A launch that left more is interpreted again; a smaller one is still kept."""
    launch = Launches(Remembered(max_bytes=40))
    for runs in (1, 1, 1):
        launch(**given())
        assert launch.runs == runs
    for runs in (2, 3):
        launch(**given(factor=5.0))
        assert launch.runs == runs
