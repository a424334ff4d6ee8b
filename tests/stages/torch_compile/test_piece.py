"""Pieces of Dynamo's graph, replayed from events: their sizes, and which of them are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from explorer.model.shared import FxNode
from explorer.model.values import Event
from explorer.stages.replay import replay
from explorer.stages.torch_compile.cache import CacheLookup
from explorer.stages.torch_compile.piece import PieceText, fixed_sizes

ANY, EIGHT = {"s7": ("2", "")}, dict[str, tuple[str, str]]()
TEXT = "class GraphModule(torch.nn.Module):\n    def forward(self):\n        return ()\n"


def piece(
    name: str, ranges: Mapping[str, tuple[str, str]], *, size: str = "s7", key: str = "", stopped: str = "", inputs: str = ""
) -> PieceText:
    types = (inputs or f"float32[{size}, 16]",)
    return PieceText(text=TEXT, name=name, of_frame="0/0", inputs=types, ranges=ranges, key=key, stopped=stopped)


def titles(*pieces: PieceText) -> list[str]:
    """The titles of pieces that were compiled one after the other, each with its compile id."""
    events = [Event("phase", 0.0, "0/0", data={"name": "dynamo", "at": "B", "function": ""})]
    numbers: dict[str, int] = {}
    for time, data in enumerate(pieces, 1):
        number = numbers[data.name] = numbers.get(data.name, -1) + 1
        events.append(Event("piece", float(time), f"0/0 {data.name}/{number}", data=data))
    return [f"{a.frame} {a.title}" for a in replay(events).find("piece")]


def test_a_piece_is_a_frame_and_each_size_a_compile_of_it() -> None:
    """The compile ids of a piece have one number, its sizes are named by the symbol of the compile for any size."""
    assert titles(piece("a", ANY), piece("a", EIGHT, size="8"), piece("b", ANY, key="b")) == [
        "1/0 a (no module) for s7 ≥ 2",
        "1/1 a (no module) for s7 = 8",
        "2/0 b (no module) for s7 ≥ 2",
    ]


def test_pieces_with_one_cache_key_are_alike() -> None:
    """A piece with the key of an earlier one names the first."""
    same = titles(piece("a", ANY, key="k"), piece("b", ANY, key="k", stopped="StopCompiling"), piece("c", ANY, key="other"))
    assert [title.partition(", ")[2] for title in same] == ["", "same key as 1/0", ""]


def lookup(state: str) -> CacheLookup:
    return CacheLookup(cache="FX graph", state=state, graph="inference", key="f", kernel="", reason="", seconds_saved=None)


def node(name: str, op: str, target: str, args: str, size: str) -> FxNode:
    return FxNode(name=name, op=op, target=target, args=args, kwargs="", inputs=(), shape=(size, "16"), dtype="float32")


def test_a_piece_that_inductors_cache_has_is_like_the_one_that_was_compiled() -> None:
    """AOTAutograd's keys may differ where Inductor's are equal: the lookup in the cache of FX graphs tells."""
    events = []
    for number, (name, state) in enumerate((("a", "miss"), ("b", "hit"))):
        frame = f"0/0 {name}/0"
        events.append(Event("piece", float(number), frame, data=piece(name, ANY, key=name)))
        events.append(Event("cache", float(number), frame, "inference", data=lookup(state)))
    assert [a.data.get("same_as") for a in replay(events).find("piece")] == [None, "0/0"]


def test_without_a_key_pieces_with_one_graph_are_alike() -> None:
    """Graphs that differ in the names of their nodes are equal; another operator, size or argument makes another graph."""

    def of(name: str, *, target: str = "torch.sin", args: str = "(x,)", size: str = "s7") -> PieceText:
        x, y = f"x_of_{name}", f"y_of_{name}"
        nodes = node(x, "placeholder", x, "()", size), node(y, "call_function", target, args.replace("x", x), size)
        return replace(piece(name, ANY, size=size), nodes=nodes)

    same = titles(of("a"), of("b"), of("c", target="torch.cos"), of("d", args="(x, 2)"), of("e", size="s8"))
    assert [title.partition(", ")[2] for title in same] == ["", "same graph as 1/0", "", "", ""]


def test_the_table_counts_alike_pieces() -> None:
    """Each row of a piece says how many have its key, and what stopped its compile."""
    events = [
        Event("piece", float(n), f"0/0 {name}/0", data=piece(name, ANY, key=key, stopped="Stop" * (name == "b")))
        for n, (name, key) in enumerate((("a", "k"), ("b", "k"), ("c", "l")))
    ]
    trace = replay(events)
    rows = [
        row for a in trace.find("piece") for row in trace._stages[[s.name for s in trace._stages].index("piece")].rows(a, trace)
    ]
    assert [(row["alike"], row["stopped"]) for row in rows] == [(2, ""), (2, "Stop"), (1, "")]


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [({"s": ("2", "64")}, "2 ≤ s ≤ 64"), ({"s": ("", "64")}, "s ≤ 64"), ({"s": ("", "")}, "any s"), ({}, "fixed sizes")],
)
def test_sizes_are_said_with_the_bounds_that_there_are(ranges: Mapping[str, tuple[str, str]], expected: str) -> None:
    """A bound that torch does not know is left out."""
    assert titles(piece("a", ranges))[0].endswith(f"for {expected}")


def test_sizes_are_not_named_where_the_types_differ() -> None:
    """Inputs that differ in more than the symbols are no compile of the same sizes, so no symbol is given a size."""
    general = piece("a", ANY)
    assert fixed_sizes(("float32[8, 16]",), general) == {"s7": "8"}
    assert fixed_sizes(("float32[8, 32]",), general) == {}
    assert fixed_sizes(("float32[8]",), general) == {}
