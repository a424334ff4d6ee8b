"""Detect a loop that waits for another program, which would never run: programs run in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Rounds without a write in which a loop reads the same addresses, after which it counts as waiting.
ROUNDS = 1000


@dataclass
class Watch:
    """The addresses that running `while` loops have read, and the number of memory changes."""

    seen: list[int] = field(default_factory=list)
    changes: int = 0
    loops: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)

    def read(self, address: Any) -> None:
        """Note a read of memory, if a loop is running."""
        if self.loops:
            self.seen.append(hash(address.tobytes()))

    def wrote(self) -> None:
        """Note a change of memory."""
        self.changes += 1

    def forget(self) -> None:
        """Forget all loops, because other programs start."""
        self.seen.clear()
        self.loops.clear()

    def waits(self, loop: str, going: bool) -> bool:
        """Note a test of a loop's condition; True if the loop has only read the same addresses for long."""
        if not going:
            self.loops.pop(loop, None)
            return False
        first, before, changes, rounds = self.loops.get(loop, (len(self.seen), 0, -1, 0))
        now = hash(tuple(self.seen[first:]))
        same = len(self.seen) > first and now == before and changes == self.changes
        self.loops[loop] = len(self.seen), now, self.changes, rounds + 1 if same else 0
        return same and rounds >= ROUNDS
