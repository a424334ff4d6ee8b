"""A model as a sequence of regions that are compiled one by one: what is before its blocks, each block, and what is behind them.

PyTorch recommends regional compilation for large models: a block that is repeated is compiled once. What blocks are given besides
the hidden states, such as the embedding of positions, is computed in eager, by the model's own code, and is no region.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from explorer.studies.fitting.blocks import CallModel, Capture, Hole, capture
from explorer.studies.fitting.modules import Reached, modules


class Regional:
    """A model in regions. Call it with the model's inputs; `compile` compiles each region, as a program would.

    `before` and `after` are modules, `blocks` a module for each block; a model without blocks is `after` alone. They hold the
    model's own parameters. `reach` calls the model up to its blocks where `call` does more, such as a loss.
    """

    def __init__(self, model: Any, call: CallModel, found: Capture | None, reach: CallModel | None = None) -> None:
        kinds = modules()
        self.found = found
        self.before: Any = None
        self.blocks: list[Any] = []
        if found is None:
            self.after: Any = kinds["Whole"](model, call)
            return
        box: list[Any] = []
        self.before = kinds["Before"](_with_probes(model, found, "put", box), reach or call, box)
        self.after = kinds["After"](_with_probes(model, found, "take", box), call, box)
        self._noting, self._call, self._box = _with_probes(model, found, "note", box), call, box
        for block, template, returns in zip(found.blocks, found.templates, found.returns, strict=True):
            self.blocks.append(kinds["Block"](block, template, returns))

    def compile(self, compiler: Callable[[Any], Any]) -> None:
        """Replace each region by what `compiler`, such as torch.compile, makes of it."""
        self.before = compiler(self.before) if self.before is not None else None
        self.blocks = [compiler(block) for block in self.blocks]
        self.after = compiler(self.after)

    def __call__(self, *inputs: Any) -> Any:
        """Call one region after the other."""
        if self.before is None:
            return self.after(*inputs)
        extras = self.extras(*inputs)
        hidden = self.before(*inputs)
        for block in self.blocks:
            hidden = block(hidden, extras)
        del extras
        return self.after(hidden, *inputs)

    def extras(self, *inputs: Any) -> tuple[Any, ...]:
        """What the blocks are given besides the hidden states, as the model computes it in eager."""
        import torch

        assert self.found is not None
        try:
            with torch.no_grad():
                self._call(self._noting, *inputs)
        except Reached:
            calls = list(self._box)
        finally:
            self._box.clear()
        tensors: dict[int, Any] = {}
        for template, given in zip(self.found.templates, calls, strict=True):
            tensors.update({n: tensor for n, tensor in _in_holes(template, given) if n not in tensors and n >= 0})
        return tuple(tensors[n] for n in range(len(tensors)))


def regional(model: Any, call: CallModel, inputs: Sequence[Any], reach: CallModel | None = None) -> Regional:
    """Find a model's blocks by a call without data, and make it a sequence of regions; the model may have data."""
    from explorer.capture.observe.without_data import as_fake

    faked, args, _ = as_fake(model, tuple(inputs), {})
    found = capture(faked, call, args)
    return Regional(model, call, found.of(model) if found is not None else None, reach)


def _with_probes(model: Any, found: Capture, role: str, box: list[Any]) -> Any:
    """A copy of the model with the same parameters and with probes in place of the blocks."""
    kinds = modules()
    same = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    probes = {id(block): kinds["Probe"](found, n, role, box) for n, block in enumerate(found.blocks)}
    split = {"put": found.split_behind, "take": found.split_before}.get(role, ())
    left_out = {id(model.get_submodule(name)): kinds["Unused"](box, role) for name in split}
    return copy.deepcopy(model, {**same, **probes, **left_out})


def _in_holes(template: Any, given: Any) -> Iterator[tuple[int, Any]]:
    """The numbers of holes with what is given there."""
    if isinstance(template, Hole):
        yield template.number, given
    elif isinstance(template, dict):
        for key, part in template.items():
            yield from _in_holes(part, given[key])
    elif isinstance(template, (tuple, list)):
        for part, value in zip(template, given, strict=True):
            yield from _in_holes(part, value)


__all__ = ["Regional", "regional"]
