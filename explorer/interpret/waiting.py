"""Whether a loop of an interpreted kernel waits for another program, which would never come: programs run in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Rounds in which a loop read the same places and nothing was written, after which nothing new can be seen.
ROUNDS = 1000


@dataclass
class Watch:
    """What the `while` loops under way have read, and how often memory was changed."""

    seen: list[int] = field(default_factory=list)
    changes: int = 0
    loops: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)

    def read(self, address: Any) -> None:
        """Memory was read, which matters only inside of loops."""
        if self.loops:
            self.seen.append(hash(address.tobytes()))

    def wrote(self) -> None:
        """Memory was changed."""
        self.changes += 1

    def forget(self) -> None:
        """Other programs begin."""
        self.seen.clear()
        self.loops.clear()

    def waits(self, loop: str, going: bool) -> bool:
        """Told at each test of a loop whether it goes on: True where it has long done nothing but read the same again."""
        if not going:
            self.loops.pop(loop, None)
            return False
        first, before, changes, rounds = self.loops.get(loop, (len(self.seen), 0, -1, 0))
        now = hash(tuple(self.seen[first:]))
        same = len(self.seen) > first and now == before and changes == self.changes
        self.loops[loop] = len(self.seen), now, self.changes, rounds + 1 if same else 0
        return same and rounds >= ROUNDS
