"""The inputs of a script: the recorded ones in a file beside it, or random ones of the same layout, which it makes itself."""

from __future__ import annotations

import pprint
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from explorer.errors import InputError

#: Recorded inputs are kept where they have at most this many bytes, unless they are asked for.
SMALL = 64 << 20


def keeps(inputs: str, values: Sequence[Any]) -> bool:
    """Tell whether recorded inputs are kept; InputError for a word that `inputs` cannot be."""
    if inputs not in ("auto", "real", "random"):
        raise InputError(f'inputs is "real", "random", or "auto" for real ones up to {SMALL >> 20} MB, not {inputs!r}')
    return inputs == "real" or (inputs == "auto" and stored_bytes(values) <= SMALL)


def stored_bytes(values: Sequence[Any]) -> int:
    """The bytes of the storages of tensors, each once."""
    return sum(storage.nbytes() for storage in _storages(values).values())


def _storages(values: Sequence[Any]) -> dict[Any, Any]:
    """Return the storages of tensors, by a key that is the same for tensors that share memory."""
    import torch

    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return {_key(tensor): tensor.untyped_storage() for tensor in tensors}


def _key(tensor: Any) -> tuple[str, int, int]:
    storage = tensor.untyped_storage()
    return str(tensor.device), storage.data_ptr() or id(tensor), storage.nbytes()


def beside_script(path: Path) -> Path:
    """The file of a script's inputs: "kernel.inputs.pt" beside "kernel.py", for "kernel.pt" may be a file of the user's."""
    return path.with_suffix(".inputs.pt")


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write the tensors of a script, without what autograd knows of them; those that share memory do so in the file."""
    import torch

    torch.save(_detached(dict(content)), path)


def _detached(value: Any) -> Any:
    """The same nest of lists and mappings with its tensors detached."""
    if isinstance(value, dict):
        return {key: _detached(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_detached(part) for part in value]
    return value.detach() if hasattr(value, "untyped_storage") else value


def random_inputs(values: Sequence[Any], devices: Sequence[str], indent: str = "    ") -> str:
    """Write the statements that make a list `args`: random tensors laid out like these in memory, and numbers as they are."""
    import torch

    lines = ["storages = ["]
    numbers: dict[Any, int] = {}
    arguments: list[str] = []
    for value, device in zip(values, devices, strict=True):
        if not isinstance(value, torch.Tensor):
            arguments.append(literal(value))
            continue
        key = (*_key(value), device)
        if key not in numbers:
            numbers[key] = len(numbers)
            nbytes = value.untyped_storage().nbytes()
            lines.append(f"    filled({nbytes}, {value.dtype}, {device!r}, {_statistics(value)}),")
        layout = f"{value.dtype}, {tuple(value.shape)}, {value.stride()}, {value.storage_offset()}"
        arguments.append(f"view(storages[{numbers[key]}], {layout})")
    lines += ["]", "args = [", *(f"    {argument}," for argument in arguments), "]"]
    return "\n".join(indent + line for line in lines)


def _statistics(tensor: Any) -> str:
    """Mean, standard deviation, smallest and largest of the finite numbers of a tensor, as arguments of `filled`."""
    import torch

    values = tensor.detach()
    values = (torch.view_as_real(values) if values.is_complex() else values).double().flatten()
    values = values[values.isfinite()]
    if not values.numel():
        return "0.0, 1.0, 0.0, 0.0" if not tensor.is_floating_point() else "0.0, 1.0, -4.0, 4.0"
    figures = [values.mean(), values.std(correction=0), values.min(), values.max()]
    return ", ".join(f"{float(figure):.6g}" if n < 2 else repr(_shortest(tensor, figure)) for n, figure in enumerate(figures))


def _shortest(tensor: Any, figure: Any) -> float | int:
    """A number as it is in the tensor's type."""
    return float(figure) if tensor.is_floating_point() or tensor.is_complex() else int(figure)


def literal(value: Any) -> str:
    """Write a number, or another plain value, as Python; InputError for any other value."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"float({str(value)!r})"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (tuple, list, dict)):
        return pprint.pformat(value, width=120, sort_dicts=False)
    raise InputError(f"an argument is a {type(value).__name__}, which cannot be written into a script")
