"""The tensors in a nest of arguments, by torch's own idea of a nest (pytree)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def named_tensors(value: Any, root: str = "") -> Iterator[tuple[str, Any]]:
    """Each tensor in a nest of tuples, lists, mappings and registered classes, with its path from `root`."""
    import torch
    from torch.utils import _pytree as pytree

    if isinstance(value, torch.Tensor):
        yield root, value
        return
    for path, leaf in pytree.tree_flatten_with_path(value)[0]:
        if isinstance(leaf, torch.Tensor):
            yield root + pytree.keystr(path), leaf


def map_tensors(change: Callable[[Any], Any], value: Any) -> Any:
    """The same nest with each tensor changed and everything else as it is."""
    import torch
    from torch.utils import _pytree as pytree

    return pytree.tree_map(lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)
