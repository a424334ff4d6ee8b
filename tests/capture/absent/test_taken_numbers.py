"""The numbers that a program takes from its tensors can be changed, for one thread and inside a block."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from explorer.capture.absent.taken_numbers import Taking, numbers_changed
from explorer.capture.observe.patch import Guard, guarding


def taken(tensor: torch.Tensor) -> list[Any]:
    return [tensor.item(), float(tensor), tensor.tolist(), tensor[None].tolist()]


def test_floats_are_changed_inside_the_block_in_this_thread() -> None:
    """Each way to take a float is asked, with its line; whole numbers, other threads and later calls are left alone."""
    places: list[Taking] = []

    def change(taking: Taking, value: float) -> float:
        places.append(taking)
        return value + 1

    tensor, whole = torch.tensor(2.5), torch.tensor(3)
    with guarding(Guard()), numbers_changed(change):
        assert taken(tensor) == [3.5, 3.5, 3.5, [3.5]]
        assert taken(whole) == [3, 3.0, 3, [3]]
        with ThreadPoolExecutor(1) as other:
            assert other.submit(taken, tensor).result() == [2.5, 2.5, 2.5, [2.5]]
    assert taken(tensor) == [2.5, 2.5, 2.5, [2.5]] and "item" not in vars(torch.Tensor)
    line = taken.__code__.co_firstlineno + 1
    methods = ["item", "__float__", "tolist", "tolist"]
    assert places == [Taking(method, torch.float32, __file__, line) for method in methods]
