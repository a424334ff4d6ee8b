"""What each kernel and library call of a call of the program computes, and for which line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from explorer.analysis.findings.rules import listed
from explorer.analysis.overview.launches import Ranked
from explorer.analysis.overview.overview import Overview
from explorer.view import wire
from explorer.view.places import Places


class Computed(NamedTuple):
    """What a kernel or call computes, in words, its user line (see `wire.UserPlace`), and the verdicts that name it."""

    title: str = ""
    user: wire.UserPlace = (-1, 0, "", "")
    advised: Sequence[int] = ()


#: Kinds of verdicts on the launches of a call together: a mark on some of their rows would say nothing of these.
OF_ALL = ("launch bound",)


class WhatIsComputed:
    """What the kernels and library calls of one call of the program compute."""

    def __init__(self, overview: Overview, places: Places) -> None:
        self._places = places
        kernels: dict[str, list[Ranked]] = {}
        self._calls: dict[tuple[str, str, str], Ranked] = {}
        for ranked in (ranked for group in overview.groups for ranked in group.ranked):
            row = ranked.launch.row
            for kernel in overview.call.kernels_of(ranked.launch):
                kernels.setdefault(kernel.artifact.id, []).append(ranked)
            if not row["kernels"]:
                self._calls[row["frame"], row["graph"], row["name"]] = ranked
        self._kernels = kernels
        self._call = overview.call
        self._verdicts: dict[tuple[str, int], list[int]] = {}
        for number, verdict in enumerate(overview.advice):
            for place in verdict.places if verdict.kind not in OF_ALL else ():
                self._verdicts.setdefault(place, []).append(number)

    def _advised(self, of: Sequence[Ranked]) -> list[int]:
        """The numbers of the verdicts that name some launches: a kernel's text, or the FX nodes of a call."""
        places = set(self._call.places_of(ranked.launch for ranked in of))
        return sorted({number for place in places for number in self._verdicts.get(place, ())})

    def kernel(self, artifact: str) -> Computed:
        """What a kernel computes; a C++ kernel may have the loops of several groups."""
        return self._computed(self._kernels.get(artifact, []))

    def library_call(self, frame: str, graph: str, node: str) -> Computed:
        """What a library call computes, by its scheduler node."""
        found = self._calls.get((frame, graph, node))
        return self._computed([found] if found else [])

    def _computed(self, of: Sequence[Ranked]) -> Computed:
        if not of:
            return Computed()
        user = next((ranked.user_line for ranked in of if ranked.user_line), None)
        title = listed(str(ranked.row["what"]) for ranked in of if ranked.row["what"] != ranked.launch.name)
        place = self._places.user_line(user) if user else Computed().user
        return Computed(title, place, self._advised(of))


__all__ = ["Computed", "WhatIsComputed"]
