"""Linear layouts: bits of register, lane, warp and block, or of a shared offset, to elements of a tensor. Pure.

Each bit of each input has a basis, the coordinates that it adds; the coordinates of an input are the exclusive or of the bases
of its bits. Source: "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2", arXiv:2505.23819.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import xor

Basis = tuple[int, ...]
Bases = Mapping[str, tuple[Basis, ...]]


@dataclass(frozen=True)
class LinearLayout:
    """The bases of each input, and the size of each dimension of the tensor.

    `order` has the dimensions in the order in which a layout is repeated to fill a tensor, the first one first.
    """

    bases: Bases
    shape: tuple[int, ...]
    order: tuple[int, ...]

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """Both side by side: the other one's bits come after this one's, and step over what this one covers."""
        bases = {name: tuple(b) for name, b in self.bases.items()}
        for name, more in other.bases.items():
            steps = tuple(tuple(v * s for v, s in zip(basis, self.shape, strict=True)) for basis in more)
            bases[name] = bases.get(name, ()) + steps
        return LinearLayout(bases, tuple(a * b for a, b in zip(self.shape, other.shape, strict=True)), self.order)

    def at_least(self, shape: Sequence[int]) -> LinearLayout:
        """Repeat along each dimension, by bits of the first input, until the tensor is full."""
        first = next(iter(self.bases))
        layout = self
        for dim in self.order:
            if layout.shape[dim] < shape[dim]:
                layout *= along(first, dim, shape[dim] // layout.shape[dim], len(self.shape))
        return layout

    def at_most(self, shape: Sequence[int], *, drop_registers: bool = False) -> LinearLayout:
        """Bits that lead out of the tensor lead nowhere; with `drop_registers` such bits of registers are left out."""
        small = {name: tuple(_inside(b, self.shape, shape) for b in bases) for name, bases in self.bases.items()}
        if drop_registers:
            pairs = zip(self.bases["register"], small["register"], strict=True)
            small["register"] = tuple(new for old, new in pairs if any(new) or not any(old))
        return LinearLayout(small, tuple(map(min, self.shape, shape)), self.order)

    def filling(self, shape: Sequence[int]) -> LinearLayout:
        """This layout over a tensor of that shape."""
        return self.at_least(shape).at_most(shape)

    def apply(self, **inputs: int) -> Basis:
        """The coordinates that the given inputs hold; inputs that are not given are 0."""
        at = [0] * len(self.shape)
        for name, value in inputs.items():
            for bit, basis in enumerate(self.bases.get(name, ())):
                if value >> bit & 1:
                    at = [a ^ b for a, b in zip(at, basis, strict=True)]
        return tuple(at)

    def along(self, name: str) -> list[Basis]:
        """The coordinates of every value of one input, the others being 0."""
        held = [(0,) * len(self.shape)]
        for basis in self.bases.get(name, ()):
            held += [tuple(map(xor, at, basis)) for at in held]
        return held

    def size(self, name: str) -> int:
        """How many values an input has."""
        return 1 << len(self.bases.get(name, ()))

    def held(self) -> Iterator[tuple[dict[str, int], Basis]]:
        """Yield every combination of inputs with its coordinates; the first input changes fastest."""
        names = tuple(self.bases)[::-1]
        tables = [list(enumerate(self.along(name))) for name in names]
        for row in product(*tables):
            at = row[0][1]
            for _, more in row[1:]:
                at = tuple(map(xor, at, more))
            yield {name: value for name, (value, _) in zip(names, row, strict=True)}, at


def _inside(basis: Basis, shape: Sequence[int], limit: Sequence[int]) -> Basis:
    return tuple(0 if size > most and value >= most else value for value, size, most in zip(basis, shape, limit, strict=True))


def identity(name: str, shape: Sequence[int], order: Sequence[int]) -> LinearLayout:
    """The bits of one input over a whole shape, the first dimension of `order` changing fastest."""
    layout = LinearLayout({name: ()}, (1,) * len(shape), tuple(order))
    for dim in order:
        layout *= along(name, dim, shape[dim], len(shape))
    return layout


def along(name: str, dim: int, size: int, rank: int) -> LinearLayout:
    """The bits of one input along one dimension."""
    bases = tuple(_unit(rank, dim, 1 << bit) for bit in range(size.bit_length() - 1))
    return LinearLayout({name: bases}, _ones(rank, dim, size), tuple(range(rank)))


def nowhere(name: str, size: int, rank: int) -> LinearLayout:
    """Bits of an input that lead nowhere: all its values hold the same elements."""
    return LinearLayout({name: ((0,) * rank,) * (size.bit_length() - 1)}, (1,) * rank, tuple(range(rank)))


def _unit(rank: int, dim: int, value: int) -> Basis:
    return tuple(value if d == dim else 0 for d in range(rank))


def _ones(rank: int, dim: int, size: int) -> tuple[int, ...]:
    return tuple(size if d == dim else 1 for d in range(rank))
