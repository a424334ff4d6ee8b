"""Join sets that share members, by union-find. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Member = TypeVar("Member", bound=Hashable)


def joined(sets: Iterable[Iterable[Member]]) -> list[list[Member]]:
    """Join the sets that share a member, directly or through other sets; a set of no member is left out.

    The joined sets, and the members of each, are in the order in which they first appear.
    """
    parents: dict[Member, Member] = {}
    for members in map(list, sets):
        for member in members:
            parents.setdefault(member, member)
            parents[_root(parents, member)] = _root(parents, members[0])
    by_root: dict[Member, list[Member]] = {}
    for member in parents:
        by_root.setdefault(_root(parents, member), []).append(member)
    return list(by_root.values())


def _root(parents: dict[Member, Member], member: Member) -> Member:
    """Find the member that stands for a set, and shorten the way to it for the next question."""
    while parents[member] != member:
        parents[member] = parents[parents[member]]
        member = parents[member]
    return member


__all__ = ["joined"]
