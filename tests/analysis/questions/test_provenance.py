"""Provenance: which lines are related to a line, by what route, and which are not."""

from __future__ import annotations

import random
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.analysis.questions import link_index
from explorer.analysis.questions.link_index import Chosen, Index, index, index_around
from explorer.analysis.questions.provenance import follow
from explorer.model.trace_data import TraceData, merged
from explorer.model.values import CALL_STACK, CALLED_FROM, COARSE, LAUNCH, ORIGINS, REWRITE, WHOLES, Artifact, Link
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events

IDS = ("source", "graph", "other_graph", "code", "kernel")


def trace(*links: Link) -> Trace:
    """Five artifacts of nine lines each, with these links."""
    text = "\n".join("abcdefghi")
    return Trace(artifacts=tuple(Artifact(name, name.upper(), "0/0", "", "", "text", text) for name in IDS), links=links)


def link(source: str, source_lines: object, target: str, target_lines: object, how: str = "how") -> Link:
    both = (lines if isinstance(lines, tuple) else (lines,) for lines in (source_lines, target_lines))
    first, second = both
    return Link(source, first, target, second, how)  # type: ignore[arg-type]


def reached(made: Trace, artifact: str, line: int) -> set[tuple[str, int]]:
    return {(row["artifact"], n) for row in follow(made, artifact, line) for n in row["lines"]}


def test_a_link_is_followed_both_ways() -> None:
    """From the text that states a link to where it points, and from there back."""
    made = trace(link("graph", 3, "source", 1))
    assert reached(made, "graph", 3) == {("source", 1)}
    assert reached(made, "source", 1) == {("graph", 3)}


def test_a_line_without_links_reaches_nothing() -> None:
    """Neighbouring lines and other artifacts' lines of the same number are not related."""
    made = trace(link("graph", 3, "source", 1))
    assert follow(made, "graph", 4) == () and follow(made, "source", 3) == ()


def test_links_are_followed_over_any_distance() -> None:
    """A kernel's line reaches the source through the wrapper and the graph, and the source reaches the kernel."""
    made = trace(link("kernel", 5, "code", 7), link("code", 7, "graph", 3), link("graph", 3, "source", 1))
    assert reached(made, "kernel", 5) == {("code", 7), ("graph", 3), ("source", 1)}
    assert reached(made, "source", 1) == {("graph", 3), ("code", 7), ("kernel", 5)}


def test_the_route_names_every_link_in_order() -> None:
    """`route` says how each step is known, from the chosen line outwards."""
    made = trace(
        link("kernel", 5, "code", 7, "cut"), link("code", 7, "graph", 3, "comment"), link("other_graph", 2, "graph", 3, "stack")
    )
    routes = {row["artifact"]: row["route"] for row in follow(made, "kernel", 5)}
    assert routes == {"code": ("cut",), "graph": ("cut", "comment"), "other_graph": ("cut", "comment", "stack")}


def test_lines_with_a_common_origin_are_related() -> None:
    """Two graphs whose lines come from one source line are related to each other."""
    made = trace(link("graph", 3, "source", 1), link("other_graph", 4, "source", 1))
    assert reached(made, "graph", 3) == {("source", 1), ("other_graph", 4)}


def test_a_line_that_mixes_two_origins_does_not_relate_them() -> None:
    """A fused kernel comes from two source lines; from one of them one reaches the kernel, not the other line."""
    made = trace(link("kernel", 5, "source", (1, 2)), link("graph", 1, "source", 1), link("graph", 2, "source", 2))
    assert reached(made, "source", 1) == {("kernel", 5), ("graph", 1)}
    assert reached(made, "graph", 1) == {("source", 1), ("kernel", 5)}
    assert reached(made, "kernel", 5) == {("source", 1), ("source", 2), ("graph", 1), ("graph", 2)}


def test_lines_reached_by_the_same_route_are_one_row() -> None:
    """Rows group an artifact's lines by route, in order of lines; the rows stand in the trace's order."""
    made = trace(link("kernel", 1, "source", (4, 2)), link("kernel", 1, "source", 3, "else"), link("kernel", 1, "graph", 9))
    rows = follow(made, "kernel", 1)
    assert [(r["artifact"], r["stage"], r["lines"], r["route"]) for r in rows] == [
        ("source", "SOURCE", (2, 4), ("how",)),
        ("source", "SOURCE", (3,), ("else",)),
        ("graph", "GRAPH", (9,), ("how",)),
    ]


def test_the_shortest_route_is_the_one_given() -> None:
    """Where a line is stated directly and reached by a detour, the row has the direct route, once."""
    made = trace(link("kernel", 1, "code", 1, "a"), link("code", 1, "source", 1, "b"), link("kernel", 1, "source", 1, "direct"))
    assert [r["route"] for r in follow(made, "kernel", 1).where(artifact="source")] == [("direct",)]


def test_links_that_go_in_a_circle_end() -> None:
    """Two texts that name each other are related once, and the chosen line is not in its own list."""
    made = trace(link("graph", 1, "code", 1), link("code", 1, "graph", 1))
    assert reached(made, "graph", 1) == {("code", 1)}


def test_a_call_is_shown_but_is_no_common_origin() -> None:
    """Two lines that one call led to are not related by it; each shows the call, and the call leads to both."""
    made = trace(
        link("graph", 1, "source", 7),
        link("graph", 1, "source", 2, CALLED_FROM),
        link("graph", 5, "source", 8),
        link("graph", 5, "source", 2, CALLED_FROM),
        link("code", 3, "graph", 5),
    )
    assert reached(made, "graph", 1) == {("source", 7), ("source", 2)}
    assert reached(made, "source", 2) == {("graph", 1), ("graph", 5), ("code", 3)}
    assert reached(made, "source", 8) == {("graph", 5), ("code", 3)}
    assert reached(made, "code", 3) == {("graph", 5), ("source", 8), ("source", 2)}


def test_a_line_that_is_a_call_and_an_origin_relates_only_what_it_made() -> None:
    """One line makes a node itself and calls a function that makes another: those two nodes are not related."""
    made = trace(link("graph", 9, "source", 2), link("graph", 1, "source", 7), link("graph", 1, "source", 2, CALLED_FROM))
    assert reached(made, "graph", 1) == {("source", 7), ("source", 2)}
    assert reached(made, "graph", 9) == {("source", 2)}
    assert reached(made, "source", 2) == {("graph", 9), ("graph", 1)}


def test_what_is_an_origin_and_a_call_has_the_origins_route() -> None:
    """A line that is both is reached as the origin."""
    made = trace(link("graph", 1, "source", 2, CALLED_FROM), link("graph", 1, "source", 2, "stack_trace"))
    assert [row["route"] for row in follow(made, "graph", 1)] == [("stack_trace",)]


def test_a_link_to_an_artifact_that_is_not_there_is_left_out() -> None:
    """A link of a user's own stage to no artifact costs no other link."""
    made = trace(link("graph", 1, "nowhere", 1), link("graph", 1, "source", 1))
    assert reached(made, "graph", 1) == {("source", 1)}


def test_the_index_has_every_pair_of_lines() -> None:
    """A link of several lines on both sides relates each with each, in both directions."""
    made = Index((link("graph", (1, 2), "source", (3, 4), "h"),))
    assert made.down["graph"] == {("source", "h"): {1: (3, 4), 2: (3, 4)}}
    assert made.up["source"] == {("graph", "h"): {3: (1, 2), 4: (1, 2)}}


def test_the_index_is_made_once_and_is_no_part_of_the_value() -> None:
    """A second question uses the first one's index; two equal traces are equal whether or not they were asked."""
    made, other = trace(link("graph", 3, "source", 1)), trace(link("graph", 3, "source", 1))
    assert index(made) is index(made)
    assert made == other and "index" not in repr(made)


def test_two_parts_of_a_whole_are_not_related() -> None:
    """A kernel is linked to all its nodes; from one node one sees the kernel and its launch, not the other node."""
    made = trace(
        link("graph", 1, "source", 1),
        link("graph", 2, "source", 2),
        link("kernel", 1, "graph", (1, 2), ORIGINS),
        link("code", 7, "kernel", 1, LAUNCH),
        link("kernel", 5, "graph", 2),
    )
    assert reached(made, "source", 1) == {("graph", 1), ("kernel", 1), ("code", 7)}
    assert reached(made, "kernel", 5) == {("graph", 2), ("source", 2)}
    assert reached(made, "kernel", 1) == {("code", 7), ("graph", 1), ("graph", 2), ("source", 1), ("source", 2)}
    assert reached(made, "code", 7) == {("kernel", 1), ("graph", 1), ("graph", 2), ("source", 1), ("source", 2)}


def test_a_whole_on_the_way_leads_nowhere() -> None:
    """A pass replaced many nodes by one: a kernel's line does not lead through the pass to all that it erased."""
    made = trace(
        link("kernel", 5, "other_graph", 2), link("other_graph", (2, 3), "graph", (1, 2), REWRITE), link("graph", 1, "source", 1)
    )
    assert reached(made, "kernel", 5) == {("other_graph", 2)}
    assert reached(made, "source", 1) == {("graph", 1), ("other_graph", 2), ("other_graph", 3)}


def test_the_page_knows_the_same_wholes() -> None:
    """The front end walks by the same rule, over the same kinds of links."""
    script = (Path(explorer.__file__).parent / "view" / "widget" / "src" / "links.js").read_text(encoding="utf-8")
    for name, hows in (("WHOLES", WHOLES), ("COARSE", COARSE)):
        listed = re.search(rf"{name} = new Set\(\[(.*?)\]\)", script, re.DOTALL)
        assert listed and frozenset(re.findall(r'"([^"]+)"', listed[1])) == hows


def test_a_link_to_a_call_alone_says_that_it_is_coarse() -> None:
    """The field of the link, and that of each row whose route goes over such a link."""
    made = trace(link("graph", 3, "source", 1, CALL_STACK), link("graph", 3, "other_graph", 2), link("code", 1, "graph", 3))
    assert [one.coarse for one in made.links] == [True, False, False]
    assert {row["artifact"]: row["coarse"] for row in follow(made, "code", 1)} == {
        "source": True,
        "graph": False,
        "other_graph": False,
    }


def test_a_gradient_leads_to_its_call_and_says_so(zoo: Callable[[str], Trace]) -> None:
    """torch.func.grad's nodes lead to its call only: no text names their forward line. A forward line is exact."""
    made = zoo("gradient h100")
    (kernel,) = made.find("kernel")
    rows = {
        word: [row["coarse"] for row in made.follow(kernel.id, at).where(stage="source")]
        for word in ("cos", "sin")
        for at in [next(n for n, text in enumerate(kernel.lines, 1) if f"tl_math.{word}" in text)]
    }
    assert rows["cos"] and all(rows["cos"]) and False in rows["sin"]


def test_links_with_equal_ends_become_one() -> None:
    """Lines that state the same origin in the same way are one link; another origin, or another way, is another."""
    given = (link("graph", 2, "source", 1), link("graph", 1, "source", 1), link("graph", 1, "source", 1, "else"))
    assert merged(given) == (link("graph", (1, 2), "source", 1), link("graph", 1, "source", 1, "else"))


@pytest.fixture(params=["short texts", "long texts"])
def length(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of lines as the index keeps them of short texts, and in pieces as of long ones."""
    if request.param == "long texts":
        for name, value in (("_LONG", 0), ("_GAP", 4), ("_PART", 3)):
            monkeypatch.setattr(link_index, name, value)


@pytest.mark.usefixtures("length")
def test_the_other_ends_of_some_lines_are_those_of_each_of_them() -> None:
    """Sets of lines, which the index keeps as integers, lead where their lines lead one by one; far and absent lines too."""
    choose = random.Random(0)
    few = [tuple(sorted(choose.sample([*range(1, 40), 10**9], choose.randint(0, 6)))) for _ in range(60)]
    made = Index(Link("graph", here, "source", there, "h") for here, there in zip(few[::2], few[1::2], strict=True))
    ends, graph, source = made.down["graph"]["source", "h"], made.lines["graph"], made.lines["source"]
    for chosen in (*few, (), (7, 99), tuple(sorted(ends))):
        expected = {line for each in chosen for line in ends.get(each, ())}
        assert source.of(ends.of(Chosen(graph.bits(chosen)), ends.all)) == tuple(sorted(expected))


@pytest.mark.usefixtures("length")
@pytest.mark.parametrize("relation", ["further down", "to few", "from few", "at random"])
def test_the_other_ends_are_the_same_however_many_lines_there_are(relation: str) -> None:
    """Few lines are looked at one by one, many by their distances, by what is asked for, or all at once."""
    choose = random.Random(relation)
    ends_of = {
        "further down": lambda line: line + (line > 70) + 3 * (line > 150),
        "to few": lambda line: 1 + line % 5,
        "from few": lambda line: line + 200 if line % 60 else 7,
        "at random": lambda line: choose.randint(1, 300),
    }[relation]
    made = Index(Link("graph", (line,), "source", (ends_of(line),), "h") for line in range(1, 250) if line % 11)
    graph, source, ends = made.lines["graph"], made.lines["source"], made.down["graph"]["source", "h"]
    for number in (1, 3, 8, 9, 20, 60, 120, 200):
        for _ in range(20):
            chosen = choose.sample(range(1, 250), number)
            wanted = choose.sample(sorted({other for others in ends.values() for other in others}), choose.choice((1, 4, 5)))
            expected = {line for each in chosen for line in ends.get(each, ())}
            lines = Chosen(graph.bits(tuple(chosen)))
            assert source.of(ends.of(lines, ends.all)) == tuple(sorted(expected))
            assert source.of(ends.of(lines, source.bits(tuple(wanted)))) == tuple(sorted(expected.intersection(wanted)))


@pytest.mark.parametrize("ends", [1, 3])
def test_the_index_of_a_text_four_times_as_long_takes_four_times_the_memory(ends: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One integer a line, as wide as the text is long, would take eight times as much."""
    monkeypatch.setattr(link_index, "_LONG", 1_000)

    def memory(lines: int) -> int:
        choose = random.Random(0)
        links = [Link("graph", (n,), "source", tuple(choose.sample(range(lines), ends)), "h") for n in range(lines)]
        tracemalloc.start()
        made = Index(links)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert made.lines
        return size

    assert memory(4 * 1_500) < 5.5 * memory(1_500)


@pytest.mark.parametrize("name", ["recompile-torch2.13-cpu", "toy_example-torch2.13-cpu"])
def test_a_line_leads_to_the_same_whatever_else_is_indexed(name: str, recorded: Any) -> None:
    """Where nothing asked for all links, only those around an artifact are indexed, and each line leads where it does else."""
    part, whole = (trace_of_events(*recorded(name)) for _ in range(2))
    index(whole)
    lines = [(a.id, n) for a in whole.artifacts for n in range(1, len(a.lines) + 1, 5)]
    assert [part.follow(*line) for line in lines] == [whole.follow(*line) for line in lines]
    assert not index.answered(part) and any(part.follow(*line) for line in lines)


def test_links_of_other_compiles_are_not_indexed() -> None:
    """Links that share no artifact with those of a line, even by others, are left aside; joined groups are one."""
    links = [Link(source, (1,), target, (1,), "how") for source, target in ("ab", "cd", "ef", "gh", "bc", "fe")]
    trace = TraceData(links=tuple(links))
    assert set(index_around(trace, "d").lines) == set("abcd") and set(index_around(trace, "e").lines) == set("ef")
    assert index_around(trace, "a") is index_around(trace, "c")
    assert index_around(trace, "x").lines == {}
