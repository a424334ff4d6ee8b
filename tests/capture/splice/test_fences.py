"""Fences around the tensors of a launch."""

from __future__ import annotations

import ctypes

import pytest
import torch

from explorer.capture.splice.fences import WIDTH, Fences
from explorer.errors import InputError
from tests.facts import untold


def test_what_is_laid_between_fences_is_as_it_was() -> None:
    """Values, strides and shared memory are the originals'; numbers stay, and nothing was written outside."""
    x = torch.arange(12.0).reshape(3, 4)
    fences = Fences((5, x.t(), x[1:], torch.empty(0)))
    number, whole, part, empty = fences.args
    assert number == 5 and empty.numel() == 0 and whole.stride() == (1, 4) and torch.equal(whole, x.t())
    whole[0, 1] = 99
    assert part[0, 0] == 99 and x[1, 0] == 4
    fences.raise_if_written()


@pytest.mark.parametrize(("offset", "where"), [(-WIDTH, "before"), (-4, "before"), (256, "behind"), (256 + WIDTH - 4, "behind")])
def test_a_write_beside_a_tensor_is_found(offset: int, where: str) -> None:
    """The error names the argument and the side."""
    fences = Fences((3, torch.zeros(64)))
    ctypes.memset(fences.args[1].data_ptr() + offset, 0, 4)
    with pytest.raises(InputError) as raised:
        fences.raise_if_written()
    assert not untold(str(raised.value), "4 bytes", where, "2 of 2")
