"""The memory of a sequence of regions: against what the CPU's allocator really did while the same regions ran."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import explorer
from explorer.studies.fitting import models
from explorer.studies.fitting.memory import AFTER, Walk
from explorer.studies.fitting.parts import parts_of, walked
from explorer.studies.fitting.regional import Regional, regional

#: Dynamo asks tensors between regions for their gradient, and hides torch's warning itself, where warnings are no errors.
pytestmark = [
    pytest.mark.compile,
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]

BATCH, WIDTH, LAYERS = 16, 32, 2


class Block(nn.Module):
    """A residual block; with `extra` it saves one more tensor for its backward: the sine's input."""

    def __init__(self, extra: bool = False) -> None:
        super().__init__()
        self.up, self.down, self.extra = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), extra

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.up(x * scale))
        if self.extra:
            hidden = self.up.weight.new_ones(()) * torch.sin(hidden)
        return x + self.down(hidden)  # type: ignore[no-any-return]


class Model(nn.Module):
    """An embedding, blocks that are given one more tensor, and a head."""

    def __init__(self, blocks: Sequence[nn.Module], vocabulary: int = 50, tied: bool = False) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(vocabulary, WIDTH), nn.ModuleList(blocks)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(ids)
        scale = torch.arange(WIDTH, device=hidden.device).to(hidden.dtype)
        for block in self.blocks:
            hidden = block(hidden, scale)
        return nn.functional.cross_entropy(self.head(hidden), ids)


def ids_of(vocabulary: int = 50) -> torch.Tensor:
    return torch.arange(BATCH) % vocabulary


def predicted(regions: Regional, model: nn.Module, inputs: tuple[torch.Tensor, ...], train: bool, target: str = "cpu") -> Walk:
    """Trace the regions of a model with data, without what their kernels become, and walk through them."""
    torch.compiler.reset()
    stages = tuple(stage for stage in explorer.types.STAGES if not stage.per_kernel)
    parts = parts_of(regions, inputs, train)
    traces = {}
    for part in parts:
        if part.stands_for:
            settings: dict[str, Any] = {"target": target, "train": part.train, "fullgraph": True, "stages": stages}
            traces[part.path] = explorer.trace(part.module, *part.args, **settings)
            traces[part.path].raise_for_failures()
    return walked(parts, traces, model, inputs)


def allocated(regions: Regional, model: nn.Module, inputs: tuple[torch.Tensor, ...], train: bool) -> tuple[int, int]:
    """Run the regions compiled by torch alone: the most bytes that the allocator gave out, and those left at the end."""
    regions.compile(lambda region: torch.compile(region, fullgraph=True))

    def step() -> Any:
        with torch.set_grad_enabled(train):
            result = regions(*inputs)
            if train:
                result.backward()
        return result

    step()
    model.zero_grad(set_to_none=True)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = step()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    del result
    torch.compiler.reset()
    return peak, live


@pytest.mark.parametrize(("vocabulary", "tied"), [(50, False), (1000, True)], ids=["in a block", "in the embedding, tied"])
def test_a_step_of_training_takes_what_the_allocator_gave_out(vocabulary: int, tied: bool) -> None:
    """The peak is the allocator's to the byte, in a block and in the embedding, and so is what is left: the gradients."""
    model, ids = Model([Block() for _ in range(LAYERS)], vocabulary, tied), ids_of(vocabulary)
    regions = regional(model, models.call_module, (ids,))
    walk = predicted(regions, model, (ids,), train=True)
    peak, left = allocated(regions, model, (ids,), train=True)
    where = "the part before the blocks" if tied else "blocks.0"
    assert (walk.best - ids.nbytes, walk.at) == (peak, f"the backward of {where}")
    gradients = sum(held.bytes for held in walk.gradients.values())
    assert gradients == sum(p.nbytes for p in model.parameters())
    assert left == gradients + 4  # and the loss


class Checkpointed(nn.Module):
    """A block whose inside is computed again for its backward."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block(extra=True)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.block, x, scale, use_reentrant=False)  # type: ignore[no-any-return]


def test_a_step_with_checkpointed_blocks_takes_what_the_allocator_gave_out() -> None:
    """Each block saves its input alone, and what its backward computes again is in the peak, to the byte."""
    model, ids = Model([Checkpointed() for _ in range(LAYERS)]), ids_of()
    regions = regional(model, models.call_module, (ids,))
    walk = predicted(regions, model, (ids,), train=True)
    peak, left = allocated(regions, model, (ids,), train=True)
    assert (walk.best - ids.nbytes, left) == (peak, sum(p.nbytes for p in model.parameters()) + 4)
    few, plain = (saved_after_forward([kind() for _ in range(2)])[0] for kind in (Checkpointed, partial(Block, extra=True)))
    assert few[0] == BATCH * WIDTH * 4 < plain[0]


def test_a_call_without_gradients_takes_what_the_allocator_gave_out() -> None:
    """The peak of a forward alone is the allocator's to the byte; nothing is saved."""
    model, ids = Model([Block() for _ in range(LAYERS)]), ids_of()
    regions = regional(model, models.call_module, (ids,))
    walk = predicted(regions, model, (ids,), train=False)
    peak, _ = allocated(regions, model, (ids,), train=False)
    assert walk.best - ids.nbytes == peak


def saved_after_forward(blocks: Sequence[nn.Module]) -> tuple[list[int], Walk]:
    """How much more is live behind each block's forward than behind the one before."""
    model = Model(blocks)
    regions = regional(model, models.call_module, (ids_of(),))
    walk = predicted(regions, model, (ids_of(),), train=True, target="h100")
    after = [m.after for m in walk.moments if m.direction == "forward" and m.region != AFTER]
    return [later - earlier for earlier, later in pairwise(after)], walk


def test_twice_the_blocks_save_exactly_twice() -> None:
    """Each block adds the same bytes, also in a model of twice as many; what the backward frees is the same again."""
    few, many = (saved_after_forward([Block() for _ in range(number)])[0] for number in (2, 4))
    assert len(set(few + many)) == 1
    assert sum(many) == 2 * sum(few)


def test_a_block_that_saves_one_more_tensor_is_noticed() -> None:
    """A block that calls other operators is no block like the others; the tensor that it saves is in its bytes alone."""
    plain, planted = Block(), Block(extra=True)
    added, _ = saved_after_forward([plain, planted, Block()])
    assert added[0] == added[2]
    assert added[1] - added[0] >= BATCH * 4 * WIDTH * 4
