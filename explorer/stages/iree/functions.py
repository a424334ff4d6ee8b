"""The functions of IREE's dispatches, cut out of the file of one executable. Pure.

IREE links the dispatches of a program into one executable. Its LLVM IR and its assembly have them all, with the functions
of IREE's own library, and the tables of the debug information behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from explorer.model.stage import Frames, text_artifact
from explorer.model.values import Artifact, Event, Plain, plain, text_lines

#: The name of each function of a text, with its first and its last line, counted from 1.
Bounds = Callable[[Sequence[str]], Iterator[tuple[str, int, int]]]
#: For each line of a text the places (file, line) that it comes from.
Chains = Callable[[str], Iterator[tuple[int, tuple[tuple[str, int], ...]]]]


def one_a_dispatch(bounds: Bounds, chains: Chains) -> Callable[[Sequence[Event], Frames], Iterator[Event]]:
    """The gather of a stage whose events hold the file of an executable: one event a dispatch."""

    def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
        """Each dispatch's function, with the places that its lines state."""
        for event in events:
            text = str(event.data["text"])
            lines, stated = text_lines(text), dict(chains(text))
            for name, first, last in bounds(lines):
                if name in event.data["functions"]:
                    places = [(n - first + 1, stated[n]) for n in range(first, last + 1) if stated.get(n)]
                    yield replace(event, data=plain({**_rest(event), **_function(name, lines[first - 1 : last], places)}))

    return gather


def _rest(event: Event) -> dict[str, Plain]:
    return {key: value for key, value in event.data.items() if key not in ("text", "functions")}


def _function(name: str, lines: Sequence[str], places: Sequence[Plain]) -> dict[str, Plain]:
    return {"name": name, "text": "\n".join(lines), "places": places}


def function_artifact(event: Event, id: str, what: str, language: str) -> Artifact:
    """The artifact of one dispatch's function."""
    name = str(event.data["name"])
    return text_artifact(event, id, f"{what} of {name}", language, kernel=name)


def stated_places(artifact: Artifact) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
    """The places that were read when the function was cut out of its file."""
    return list(artifact.data["places"])
