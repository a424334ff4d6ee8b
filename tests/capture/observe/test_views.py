"""Views compute nothing: their lines lead to the loads whose index is theirs, and to no other line."""

from __future__ import annotations

import re

import pytest
import torch

import explorer
from explorer.model.trace_data import artifact_of

pytestmark = pytest.mark.compile


def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rolled = torch.roll(x, 3, 0)
    sliced = rolled[:, 2:10]
    flipped = torch.flip(y, (1,))
    selected = flipped.select(0, 1)
    part = selected[2:10]
    turned = z.transpose(0, 1)
    column = turned[:, 4:12]
    return torch.sin(sliced) + part, torch.cos(column) * 2


#: The line of a view, the pointer that the load which it shapes reads, and the function of its kernel.
WANTED = {
    "rolled =": ("in_ptr0", "sin"),
    "sliced =": ("in_ptr0", "sin"),
    "flipped =": ("in_ptr1", "sin"),
    "selected =": ("in_ptr1", "sin"),
    "part =": ("in_ptr1", "sin"),
    "turned =": ("in_ptr0", "cos"),
    "column =": ("in_ptr0", "cos"),
}


@pytest.mark.parametrize("target", ["h100"])
def test_a_view_leads_to_the_loads_that_it_shapes(target: str) -> None:
    """Roll, flip, slice, select and transpose, a view of a view too; the loads of other tensors are not among them."""
    made = explorer.trace(program, torch.randn(16, 16), torch.randn(16, 16), torch.randn(16, 16), target=target)
    (source,) = (a for a in made.find("source") if "rolled" in a.text)
    for line, (pointer, function) in WANTED.items():
        number = next(n for n, text in enumerate(source.lines, 1) if line in text)
        rows = [row for row in made.follow(source.id, number).where(stage="kernel") if "codegen" in row["route"]]
        loads = {
            (row["artifact"], re.findall(r"in_ptr\d", artifact_of(made, row["artifact"]).lines[n - 1])[0])
            for row in rows
            for n in row["lines"]
            if "tl.load" in artifact_of(made, row["artifact"]).lines[n - 1]
        }
        assert {name for _, name in loads} == {pointer}, (line, loads)
        assert all(f"tl_math.{function}" in artifact_of(made, id).text for id, _ in loads)
