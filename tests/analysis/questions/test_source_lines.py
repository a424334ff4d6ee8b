"""source_lines: which lines of several traces are one line of the program."""

from __future__ import annotations

from typing import Any

from explorer.analysis.questions.source_lines import EDITED, SAME, first_numbering, matched_lines, unrelated
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact, Link
from explorer.tracing.traced import Trace


def traced(*functions: tuple[str, str], first_line: int = 1) -> Trace:
    """A trace of functions, (name, text), each line of which became a line of one graph."""
    sources, links, graph = [], [], []
    for number, (name, text) in enumerate(functions):
        data = blank(Source, function=name, qualname=name, file="f.py", first_line=first_line, compiled=True)
        sources.append(Artifact(f"{number}:source", "source", "0/0", "", name, "python", text, data=data))
        for line in range(1, len(sources[-1].lines) + 1):
            graph.append(f"n{len(graph)}")
            links.append(Link("graph", (len(graph),), f"{number}:source", (line,), "stack_trace"))
    whole = Artifact("graph", "dynamo", "0/0", "", "graph", "fx", "\n".join(graph))
    return Trace(artifacts=(*sources, whole), links=tuple(links))


def pairs(*traces: Trace) -> list[tuple[Any, ...]]:
    return [((m.later.trace, m.later.line), (m.earlier.trace, m.earlier.line), m.how) for m in matched_lines(traces)]


BEFORE = "def f(x):\n    y = x.sin()\n    z = y + 1\n    return z"


def test_equal_functions_match_line_by_line():
    """Each line of a function is the same line in a second trace of it, wherever the file has it by then."""
    found = pairs(traced(("f", BEFORE)), traced(("f", BEFORE), first_line=40))
    assert found == [((1, n), (0, n), SAME) for n in (1, 2, 3, 4)]


def test_lines_around_an_edit_match_and_the_edited_one_says_so():
    """A line put in shifts those below it, and a line that was changed in its place is matched as an edited one."""
    after = "def f(x):\n    x = x * 2\n    y = x.sin()\n    z = y + 2\n    return z"
    found = pairs(traced(("f", BEFORE)), traced(("f", after)))
    assert found == [((1, 1), (0, 1), SAME), ((1, 3), (0, 2), SAME), ((1, 4), (0, 3), EDITED), ((1, 5), (0, 4), SAME)]


def test_a_function_that_is_inlined_twice_is_matched_in_order():
    """Of two sources of the same text the first is matched with the first, and the second with the second."""
    helper = ("g", "def g(x):\n    return x.cos()")
    one = traced(("f", BEFORE), helper, helper)
    found = [(m.later.source, m.earlier.source) for m in matched_lines((one, one)) if m.later.line == 2]
    assert found == [("0:source", "0:source"), ("1:source", "1:source"), ("2:source", "2:source")]


def test_a_line_that_nothing_comes_from_is_not_matched():
    """A blank line or a comment has no match."""
    text = "def f(x):\n    # a note\n    return x.sin()"
    without = traced(("f", text))
    kept = Trace(artifacts=without.artifacts, links=without.links[2:])
    assert [later for later, _, _ in pairs(kept, kept)] == [(1, 3)]


def test_the_third_trace_is_matched_with_the_first_that_has_the_line():
    """A line that the first trace lacks is matched with the second's."""
    edited = "def f(x):\n    y = x.sin()\n    q = y * y\n    z = y + 1\n    return z"
    found = pairs(traced(("f", BEFORE)), traced(("f", edited)), traced(("f", edited)))
    third = {later: earlier for later, earlier, _ in found if later[0] == 2}
    assert third == {(2, 1): (0, 1), (2, 2): (0, 2), (2, 3): (1, 3), (2, 4): (0, 3), (2, 5): (0, 4)}


def test_functions_without_a_common_line_are_unrelated():
    """A common signature relates nothing; one common computing line does, whatever the functions' names."""
    one = traced(("f", BEFORE))
    assert unrelated((one, traced(("forward", "def f(x):\n    return x.exp()")))) == (0, 1)
    other = traced(("g", "def g(x):\n    return x.exp()"))
    assert unrelated((one, one, other)) == (0, 2)
    assert unrelated((other, one, one)) == (0, 1)
    assert unrelated((Trace(), other, one)) == (1, 2)
    assert unrelated((one, traced(("g", "def g(x):\n    y = x.sin()\n    return y")))) is None
    short = traced(("f", "def f(x): return x.sin()"))
    assert unrelated((short, short)) is None


def test_user_lines_are_numbered_as_in_the_first_trace():
    """After an edit the line 42 of the second trace is line 3 of the first."""
    found = first_numbering((traced(("f", BEFORE)), traced(("f", BEFORE), first_line=40)))
    assert found[0] == {} and found[1][UserLine("f.py", 42, "z = y + 1")] == (UserLine("f.py", 3, "z = y + 1"), 0)
