"""Calls of scaled_dot_product_attention, and which operator torch takes for each: what `record_attention.py` records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

#: The GPUs that are recorded: those of each rule that asks for a compute capability, by explorer's name.
GPUS = {"v100": 70, "t4": 75, "a100": 80, "rtx4090": 89, "h100": 90, "b200": 100, "rtx5090": 120}
#: The letter that stands for an operator in a recording; "x" is a call that torch refuses.
LETTERS = {"cudnn": "c", "flash": "f", "efficient": "e", "math": "m"}


class Case(NamedTuple):
    """One call: sizes of heads (queries and keys, values), numbers of heads (of each), lengths, and how the tensors lie."""

    dtype: torch.dtype
    mask: str = ""
    causal: bool = False
    size: tuple[int, int] = (64, 64)
    dropout: float = 0.0
    grad: bool = False
    heads: tuple[int, int, int] = (4, 4, 4)
    grouped: bool = False
    lengths: tuple[int, int] = (64, 64)
    lies: str = ""


SIZES = ((32, 32), (33, 33), (36, 36), (64, 128), (128, 128), (192, 128), (192, 192), (200, 200), (256, 256), (520, 520))
LENGTHS = ((1, 1), (1, 64), (64, 1), (63, 65), (1000, 1000), (0, 64))
HEADS = ((4, 2, 2), (4, 1, 1), (4, 4, 2), (4, 3, 3), (4, 2, 4))
FLOAT, HALF, BFLOAT = torch.float32, torch.float16, torch.bfloat16


def cases() -> Iterator[Case]:
    """Dtypes × masks × is_causal × head sizes × dropout × training; then lengths, heads and layouts."""
    for dtype, (mask, causal), size, dropout, grad in product(
        (FLOAT, HALF, BFLOAT, torch.float64),
        (("", False), ("", True), ("bool", False), ("same", False)),
        SIZES,
        (0.0, 0.1, 0.25),
        (False, True),
    ):
        yield Case(dtype, mask, causal, size, dropout, grad)
    for dtype, lengths, causal, dropout, grad in product((FLOAT, BFLOAT), LENGTHS, (False, True), (0.0, 0.25), (False, True)):
        yield Case(dtype, "", causal, lengths=lengths, dropout=dropout, grad=grad)
    for dtype, heads, grouped, mask, grad in product((FLOAT, BFLOAT), HEADS, (False, True), ("", "bool"), (False, True)):
        yield Case(dtype, mask, heads=heads, grouped=grouped, grad=grad)
    for dtype, lies, mask, grad in product((FLOAT, BFLOAT), LAYOUTS, ("", "bool"), (False, True)):
        yield Case(dtype, mask, grad=grad, lies=lies)


LAYOUTS = ("transposed", "from an odd offset", "packed", "expanded", "strided", "deterministic", "many")


def tensor(case: Case, heads: int, length: int, size: int) -> torch.Tensor:
    """A query, key or value, which takes no memory inside a FakeTensorMode."""
    batch = 70_000 if case.lies == "many" else 2

    def empty(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes, dtype=case.dtype, device="cuda")

    made = {
        "transposed": lambda: empty(batch, length, heads, size).transpose(1, 2),
        "strided": lambda: empty(batch, heads, size, length).transpose(2, 3),
        "from an odd offset": lambda: empty(batch * heads * length * size + 1)[1:].view(batch, heads, length, size),
        "packed": lambda: empty(batch, length, 3, heads, size).permute(2, 0, 3, 1, 4)[1],
        "expanded": lambda: empty(1, heads, length, size).expand(batch, heads, length, size),
    }.get(case.lies, lambda: empty(batch, heads, length, size))()
    return made.detach().requires_grad_(case.grad)


class Decided(Exception):
    """An operator was called: its name."""


class UntilDecided(TorchDispatchMode):
    """Ends a call at its fused operator, or at the operator `last`."""

    def __init__(self, last: str) -> None:
        super().__init__()
        self.last = last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name.startswith("_scaled_dot_product_") or name == self.last:
            raise Decided(name.removeprefix("_scaled_dot_product_").removesuffix("_attention"))
        return func(*args, **(kwargs or {}))


def decided(cases: Iterable[Case]) -> str:
    """The letters of the operators that the calls become on the CUDA device that torch sees, or is told to see.

    A call ends as soon as its operator is known: the rest is the same on every GPU. Attention by math starts with a
    multiplication and comes later to refuse numbers of heads that do not fit, so calls with several run to their end.
    """
    with FakeTensorMode():
        made = cache(tensor)
        return "".join(letter(case, made) for case in cases)


def letter(case: Case, made: Callable[..., torch.Tensor]) -> str:
    """The letter of one call, made with tensors that calls share."""
    (queries, keys), (size, of_values) = case.lengths, case.size
    sizes = zip(case.heads, (queries, keys, keys), (size, size, of_values), strict=True)
    alike = Case(case.dtype, grad=case.grad, lies=case.lies)
    mask = {"bool": torch.bool, "same": case.dtype}.get(case.mask)
    until = UntilDecided("mul" if len(set(case.heads)) == 1 else "")
    torch.use_deterministic_algorithms(case.lies == "deterministic")
    try:
        q, k, v = (made(alike, *each) for each in sizes)
        given = None if mask is None else torch.empty(queries, keys, dtype=mask, device="cuda")
        with until:
            scaled_dot_product_attention(q, k, v, given, case.dropout, case.causal, enable_gqa=case.grouped)
    except Decided as operator:
        return LETTERS.get(str(operator), "m")
    except RuntimeError:
        return "x"
    finally:
        torch.use_deterministic_algorithms(False)
    return "m"
