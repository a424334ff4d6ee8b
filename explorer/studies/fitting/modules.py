"""The modules of regions: what is before a model's blocks, a block, what is behind them. Dynamo compiles functions of this file.

torch is not imported with explorer, so the classes are made when they are first needed; once, as Dynamo compiles each function.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from explorer.studies.fitting.blocks import CallModel, Capture, filled


class Reached(Exception):
    """Ends a call of the model behind its last block."""


@cache
def modules() -> Any:
    """The classes by their names."""
    import torch

    class Probe(torch.nn.Module):  # type: ignore[misc]
        """In a block's place: gives the hidden states on, and does `role` with what it is given."""

        def __init__(self, found: Capture, number: int, role: str, box: list[Any]) -> None:
            super().__init__()
            self.place, self.returns, self.role, self.box = found.place, found.returns[number], role, box
            self.is_first, self.is_last = number == 0, number == len(found.blocks) - 1

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            hidden = kwargs[self.place] if isinstance(self.place, str) else args[self.place]
            if self.role == "put" and self.is_first:
                self.box.append(hidden)
            elif self.role == "take" and self.is_last:
                hidden = self.box[-1]
            elif self.role == "note":
                self.box.append((args, kwargs))
                if self.is_last:
                    raise Reached
            return (hidden, *[None] * (self.returns - 1)) if self.returns else hidden

    class Unused(torch.nn.Module):  # type: ignore[misc]
        """In place of a module of several ranks whose result no one needs: no compiler would leave its collectives out."""

        def __init__(self, box: list[Any], role: str) -> None:
            super().__init__()
            self.box, self.role = box, role

        def forward(self, value: Any, *args: Any, **kwargs: Any) -> Any:
            return self.box[-1] if self.role == "take" else value

    class Before(torch.nn.Module):  # type: ignore[misc]
        """Computes the hidden states that the first block is given."""

        def __init__(self, model: Any, call: CallModel, box: list[Any]) -> None:
            super().__init__()
            self.model, self.call, self.box = model, call, box

        def forward(self, *inputs: Any) -> Any:
            self.call(self.model, *inputs)
            return self.box.pop()

    class Block(torch.nn.Module):  # type: ignore[misc]
        """Computes the hidden states that a block gives."""

        def __init__(self, block: Any, template: Any, returns: int) -> None:
            super().__init__()
            self.block, self.template, self.returns = block, template, returns

        def forward(self, hidden: Any, extras: Any) -> Any:
            args, kwargs = filled(self.template, hidden, extras)
            result = self.block(*args, **kwargs)
            return result[0] if self.returns else result

    class After(torch.nn.Module):  # type: ignore[misc]
        """Computes what the model gives, of the hidden states that the last block gives."""

        def __init__(self, model: Any, call: CallModel, box: list[Any]) -> None:
            super().__init__()
            self.model, self.call, self.box = model, call, box

        def forward(self, hidden: Any, *inputs: Any) -> Any:
            self.box.append(hidden)
            result = self.call(self.model, *inputs)
            self.box.pop()
            return result

    class Whole(torch.nn.Module):  # type: ignore[misc]
        """A model without blocks, which is one region."""

        def __init__(self, model: Any, call: CallModel) -> None:
            super().__init__()
            self.model, self.call = model, call

        def forward(self, *inputs: Any) -> Any:
            return self.call(self.model, *inputs)

    kinds = {"Probe": Probe, "Unused": Unused, "Before": Before, "Block": Block, "After": After, "Whole": Whole}
    return kinds


__all__ = ["Reached", "modules"]
