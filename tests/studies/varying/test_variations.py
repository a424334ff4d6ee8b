"""The variations that a probe tries by itself."""

from __future__ import annotations

import torch

from explorer.lab.live.call import Call
from explorer.studies.varying.variations import variations
from explorer.studies.varying.varied_call import varied
from explorer.studies.varying.vary import Vary

TABLE = torch.randn(8, 4)


def positions(x: torch.Tensor) -> torch.Tensor:
    return x + TABLE[torch.arange(x.shape[1])]


def test_a_size_that_cannot_grow_shrinks() -> None:
    """A table of positions takes no longer sequence: a shorter one is tried, and the batch still grows."""
    call = Call(positions, (torch.randn(2, 8, 4),), {})
    asked: list[Vary] = []

    def runs(vary: Vary) -> bool:
        asked.append(vary)
        try:
            positions(*varied(call, vary).call.args)
        except (RuntimeError, IndexError):
            return False
        return True

    sizes = [str(vary) for vary in variations(call, runs) if any(vary.of("size"))]
    assert sizes == ["x.size(0) = 3", "x.size(0) = 1", "x.size(1) = 7", "x.size(1) = 1", "x.size(2) = 1"]
    assert len({str(vary) for vary in asked}) == len(asked), "each is tried once"
