"""Which banks of shared memory the lanes of a warp touch, and how often they wait for each other. Pure.

Shared memory of an NVIDIA GPU has 32 banks of 4 bytes. A request of a warp of up to 128 bytes is served at once if no bank has
to give two different words; one of 8 or 16 bytes a lane is cut into two or four parts of the warp. Source: CUDA C++ Programming
Guide, "Shared Memory" of compute capability 5.x and later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.reference.layouts.linear import LinearLayout

BANKS = 32
WORD = 4
#: The bytes that shared memory gives at once, and the most that a lane asks for.
REQUEST, WIDEST = BANKS * WORD, 16


@dataclass(frozen=True)
class BankUse:
    """The first request of the first warp: the byte address of each lane, and the bytes of a lane.

    `rounds` is how often shared memory is asked until all lanes have theirs, `fewest` how often it must be for so many bytes.
    """

    addresses: tuple[int, ...]
    width: int
    rounds: int
    fewest: int

    @property
    def conflicts(self) -> int:
        """The rounds that another layout could have saved."""
        return self.rounds - self.fewest


def bank_use(registers: LinearLayout, bytes_of: Mapping[tuple[int, ...], int], bits: int) -> BankUse:
    """The banks that the first warp touches when it moves a tensor between `registers` and the bytes of its elements."""
    lanes = range(registers.size("lane"))
    width = _width(registers, bytes_of, max(1, bits // 8))
    addresses = tuple(bytes_of[registers.apply(lane=lane)] // width * width for lane in lanes)
    together = max(1, min(len(lanes), REQUEST // width))
    rounds = fewest = 0
    for first in range(0, len(lanes), together):
        part = _words(addresses[first : first + together], width)
        rounds += max(len(bank) for bank in part)
        fewest += 1
    return BankUse(addresses, width, rounds, fewest)


def _words(addresses: Sequence[int], width: int) -> list[set[int]]:
    """The words that some lanes touch in each bank."""
    banks: list[set[int]] = [set() for _ in range(BANKS)]
    for address in addresses:
        for word in range(address // WORD, (address + width - 1) // WORD + 1):
            banks[word % BANKS].add(word)
    return banks


def _width(registers: LinearLayout, bytes_of: Mapping[tuple[int, ...], int], size: int) -> int:
    """How many bytes a lane moves at once: neighbours that it has in its registers, aligned for every lane and warp."""
    first = bytes_of[registers.apply()]
    steps = {
        (name, bit): bytes_of[registers.apply(**{name: 1 << bit})] ^ first
        for name, bases in registers.bases.items()
        for bit in range(len(bases))
        if name != "block"
    }
    width = size
    while width < WIDEST:
        next_one = [key for key, step in steps.items() if step == width and key[0] == "register"]
        if not next_one or any(step % (2 * width) for key, step in steps.items() if key not in next_one):
            break
        steps = {key: step for key, step in steps.items() if key not in next_one}
        width *= 2
    return width
