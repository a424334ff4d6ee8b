"""Phases: begin and end events become a nested timeline."""

from __future__ import annotations

import pytest

from explorer.model.values import Event, plain
from explorer.stages.torch_compile.phase import STAGE, intervals, readable
from tests.facts import untold


def phase(name: str, at: str, time: float, graph: str = "") -> Event:
    return Event("phase", time, "0/0", graph, plain({"name": name, "at": at, "function": f"{name}_fn"}))


NESTED = [
    phase("dynamo", "B", 1.0),
    phase("entire_frame_compile", "B", 1.5),
    phase("backend_compile", "B", 2.0),
    phase("backend_compile", "E", 3.5),
    phase("build_guards", "B", 3.5, "forward"),
    phase("build_guards", "E", 4.0, "forward"),
    phase("entire_frame_compile", "E", 4.5),
    phase("dynamo", "E", 5.0),
]


def test_phases_are_nested_by_time() -> None:
    """One row per phase in order of start, with its seconds and its depth."""
    rows = list(intervals(NESTED))
    assert [(r["name"], r["start"], r["seconds"], r["depth"]) for r in rows] == [
        ("dynamo", 1.0, 4.0, 0),
        ("entire_frame_compile", 1.5, 3.0, 1),
        ("backend_compile", 2.0, 1.5, 2),
        ("build_guards", 3.5, 0.5, 2),
    ]
    assert [(r["function"], r["graph"]) for r in rows[2:]] == [("backend_compile_fn", ""), ("build_guards_fn", "forward")]


def test_a_phase_that_never_ended_has_no_seconds() -> None:
    """Where the compile stopped half-way, the open phases are there, without a duration."""
    rows = list(intervals(NESTED[:4]))
    assert [r["seconds"] for r in rows] == [None, None, 1.5]
    assert not untold(readable(rows[0]), "not finished")


def test_the_end_of_an_outer_phase_closes_those_inside() -> None:
    """A phase that was left without an end, as by an exception, does not shift those after it."""
    rows = list(
        intervals([phase("a", "B", 0.0), phase("b", "B", 1.0), phase("a", "E", 2.0), phase("c", "B", 3.0), phase("c", "E", 4.0)])
    )
    assert [(r["name"], r["seconds"], r["depth"]) for r in rows] == [("a", 2.0, 0), ("b", None, 1), ("c", 1.0, 0)]


def test_an_end_without_a_beginning_is_left_out() -> None:
    """A recording that begins inside a phase ignores that phase's end."""
    assert [r["name"] for r in intervals([phase("late", "E", 1.0), *NESTED])] == [r["name"] for r in intervals(NESTED)]


def test_a_phase_inside_itself_is_two_rows() -> None:
    """The inner one ends first."""
    rows = list(intervals([phase("a", "B", 0.0), phase("a", "B", 1.0), phase("a", "E", 2.0), phase("a", "E", 4.0)]))
    assert [(r["seconds"], r["depth"]) for r in rows] == [(4.0, 0), (1.0, 1)]


def test_the_stage_indents_by_depth() -> None:
    """The text has a line a phase, seconds first, names indented by nesting."""
    made = STAGE.artifact_of(Event("phase", 1.0, "0/0", data=plain({"rows": list(intervals(NESTED))})), "id")
    assert [line.split("s  ", 1)[1] for line in made.lines] == [
        "dynamo",
        "  entire_frame_compile",
        "    backend_compile",
        "    build_guards",
    ]
    assert [float(line.split()[0]) for line in made.lines] == pytest.approx([4.0, 3.0, 1.5, 0.5])
