"""What a graph returns in the place of Inductor's code: no views, but of its inputs."""

from __future__ import annotations

import torch

from explorer.capture.absent.unviewed import unviewed


def test_only_views_of_the_inputs_stay_views() -> None:
    """A view of what the graph computed comes as a tensor of its own, and what was no view is returned as it is."""
    kept = torch.ones(3)

    def graph(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.view(2, 2), (x + 1).view(2, 2), kept

    x = torch.arange(4.0)
    of_input, computed, other = unviewed(graph)(x)
    assert of_input._base is x and computed._base is None and other is kept
    assert computed.tolist() == [[1, 2], [3, 4]] and computed.is_contiguous()
