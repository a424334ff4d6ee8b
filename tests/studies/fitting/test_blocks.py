"""The repeated blocks of a model: which they are, which are alike, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from explorer.capture.observe.without_data import as_fake
from explorer.studies.fitting.blocks import Capture, Hole, capture
from explorer.studies.fitting.models import call_module
from explorer.studies.fitting.regional import regional

WIDTH = 8


class Layer(nn.Module):
    def __init__(self, slope: float = 0.1) -> None:
        super().__init__()
        self.linear, self.slope = nn.Linear(WIDTH, WIDTH), slope

    def forward(self, x: torch.Tensor, *, shift: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        y = nn.functional.leaky_relu(self.linear(x if shift is None else x + shift), self.slope)
        return y, y.sum()


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Module], carries: bool = False) -> None:
        super().__init__()
        self.layers, self.carries = nn.ModuleList(layers), carries

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shift = torch.ones(WIDTH, device=x.device)
        for layer in self.layers:
            x, total = layer(x, shift=shift)
            shift = total if self.carries else shift
        return x


def captured(model: nn.Module) -> Capture | None:
    faked, inputs, _ = as_fake(model, (torch.ones(2, WIDTH),), {})
    return capture(faked, call_module, inputs)


def test_blocks_of_one_form_are_alike() -> None:
    """Blocks of one form count as one; one with another number in it, which its text does not show, is another."""
    found = captured(Stack([Layer(), Layer(), Layer(0.2), Layer()]))
    assert found is not None
    assert (found.path, found.alike, found.returns) == ("layers", (0, 0, 2, 0), (2, 2, 2, 2))
    assert found.templates[1] == ((Hole(-1),), {"shift": Hole(0)})
    assert [tuple(extra.shape) for extra in found.extras] == [(WIDTH,)]


def test_a_model_without_such_a_list_has_no_blocks() -> None:
    """Layers of other widths than the ones before are not repeated blocks."""
    assert captured(nn.Sequential(nn.Linear(WIDTH, 4), nn.Linear(4, WIDTH))) is None


def test_the_outermost_list_is_the_blocks() -> None:
    """Of a list of blocks and the lists inside each, it is the one that has the most parameters."""
    inner = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(3)]
    found = captured(nn.Sequential(*inner))
    assert found is not None and (found.path, found.alike) == ("", (0, 0, 0))


def test_blocks_that_need_each_others_results_are_one_region() -> None:
    """A block that is given what another made besides the hidden states is no region of its own."""
    assert captured(Stack([Layer(), Layer()], carries=True)) is None


class Labelled(Stack):
    """Blocks that are given one more tensor when the model is given labels."""

    def forward(self, x: torch.Tensor, labels: bool = False) -> torch.Tensor:
        shift = torch.ones(WIDTH, device=x.device) if labels else None
        for layer in self.layers:
            x, _ = layer(x, shift=shift)
        return x


def test_blocks_are_given_what_the_call_that_is_trained_gives_them() -> None:
    """A model may give its blocks another mask for a loss, as Gemma does, than where it only reaches them."""
    model, x = Labelled([Layer(), Layer()]), torch.ones(2, WIDTH)
    regions = regional(model, lambda each, given: each(given, labels=True), (x,), call_module)
    assert [tuple(extra.shape) for extra in regions.extras(x)] == [(WIDTH,)]


class Skipping(nn.Module):
    """A stem, a mask of the input, blocks, and what is behind them takes besides the hidden states, by name."""

    def __init__(self, takes: str) -> None:
        super().__init__()
        self.stem, self.layers = nn.Linear(WIDTH, WIDTH), nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])
        self.takes = takes

    def forward(self, ids: torch.Tensor) -> object:
        known = {"the input": ids, "a mask": (ids > 0)[:, None], "the stem": self.stem(nn.functional.one_hot(ids, WIDTH).float())}
        x = known["the stem"]
        mean = torch.zeros((), device=x.device)
        for number, layer in enumerate(self.layers):
            x = layer(x)
            known[f"block {number}"] = x
            if self.takes == "each block's mean":
                mean = mean + x.mean()
        if self.takes == "two results":
            return x, known["block 1"]
        return x + mean + known.get(self.takes, x).sum()


@pytest.mark.parametrize(
    ("takes", "regions"),
    [
        *((name, True) for name in ("the input", "a mask", "block 2")),
        *((name, False) for name in ("the stem", "block 1", "each block's mean", "two results")),
    ],
)
def test_a_model_that_takes_more_of_its_blocks_than_the_last_gives_is_one_region(takes: str, regions: bool) -> None:
    """A block's result, or what a parameter made, is held until it is used: no region behind the blocks may compute it again."""
    model, ids = Skipping(takes), torch.arange(4) % WIDTH
    faked, inputs, _ = as_fake(model, (ids,), {})
    found = capture(faked, call_module, inputs)
    assert (found is not None) == regions
