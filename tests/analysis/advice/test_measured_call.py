"""The verdict on a measured call whose time goes elsewhere than to its kernels. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from explorer.model.values import Failure, Table
from explorer.stages.torch_compile.run_times import CALL, EAGER, GUARD, PART, CallPart
from explorer.tracing.traced import Trace
from explorer.view.payload import payload as payload_of
from tests.facts import untold

#: The parts of a call whose kernels take nearly all of its 100 µs.
ORDINARY = {
    "guards": (2.0, 20),
    "cache misses": (1.0, 1),
    "Dynamo frames": (3.0, 1),
    "AOTAutograd's wrappers": (3.0, 1),
    "argument checks": (1.0, 3),
    "allocations": (1.0, 3),
    "kernel calls": (85.0, 3),
    "output code": (2.0, 1),
    "not attributed": (2.0, 1),
}


def measured(trace: Trace, parts: Mapping[str, tuple[float, int]] = ORDINARY) -> Trace:
    """Return the trace with a call of these parts, each given by its microseconds and its count."""

    def row(kind: str, part: str, seconds: float, count: int = 1, line: int = 0) -> dict[str, object]:
        values = (kind, part, seconds, count, "timed", "0/0" if line else "", "model.py" if line else "", line, "x = d[0]")
        return dict(zip(CallPart.__annotations__, values, strict=True))

    rows = [row(CALL, "a warm call", sum(seconds for seconds, _ in parts.values()) / 1e6), row(EAGER, "eager", 4e-5)]
    rows += [row(PART, name, seconds / 1e6, count) for name, (seconds, count) in parts.items()]
    rows.append(row(GUARD, "L['d'][0]", 1e-6, 2, 7))
    return trace.attach(Table(rows, tuple(CallPart.__annotations__)))


@pytest.fixture(scope="module")
def small(replayed: Callable[[str], Trace]) -> Trace:
    """A small function for the CPU."""
    return replayed("mlp_train-torch2.13-cpu")


@pytest.mark.parametrize(
    ("part", "seconds", "count", "kind", "words"),
    [
        ("guards", 200.0, 300, "guards", ("300 guards", "skip_guard_eval_unsafe")),
        ("cache misses", 200.0, 6, "cache entries", ("6 cache entries", "dynamic")),
        ("Dynamo frames", 200.0, 4, "Dynamo", ("4 compiled frames", "graph breaks")),
        ("Dynamo frames", 200.0, 0, "Dynamo", ("No compiled frame ran", "eager")),
        ("Dynamo frames", 200.0, 1, "Dynamo", ("Entering", "one larger region")),
        ("AOTAutograd's wrappers", 200.0, 1, "AOTAutograd's wrappers", ("no_grad",)),
        ("allocations", 200.0, 9, "output code", ("output code", "cpp_wrapper")),
        ("kernel calls", 48.0, 24, "launch bound", ("24 kernel calls take 48 µs", "2 µs on average", "cpp_wrapper")),
    ],
)
def test_the_part_that_takes_most_is_named_with_what_helps(
    small: Trace, part: str, seconds: float, count: int, kind: str, words: tuple[str, ...]
) -> None:
    """One verdict, measured, the costliest, with a remedy and with what proves it."""
    advice = measured(small, {**ORDINARY, "kernel calls": (10.0, 3), part: (seconds, count)}).advise()
    verdict = advice[0]
    shown = repr(advice)
    assert verdict.kind == kind and verdict.cost.known == "measured"
    assert not untold(shown, *words, "prove", "measured by t.live.cost()")
    assert verdict.call or verdict.why_unproved


def test_guards_have_the_lines_of_the_dearest(small: Trace) -> None:
    """The verdict on guards leads to the program's line."""
    verdict = measured(small, {**ORDINARY, "guards": (200.0, 300)}).advise()[0]
    assert [(line.file, line.number, line.code) for line in verdict.lines] == [("model.py", 7, "x = d[0]")]


def test_code_after_the_limit_on_recompiles_is_said_to_be_eager(small: Trace) -> None:
    """Where Dynamo's frames take most and the limit was reached, that is the reason given."""
    failed = replace(small, failures=(Failure("dynamo", "recompile_limit", "f: the limit was reached. Do this"),))
    verdict = measured(failed, {**ORDINARY, "Dynamo frames": (200.0, 3)}).advise()[0]
    assert "limit on recompiles" in verdict.title and "eager mode" in verdict.title


def test_nothing_is_said_where_the_kernels_take_most(small: Trace) -> None:
    """A call whose few kernel calls are long has no verdict on what is around them."""
    kinds = {verdict.kind for verdict in measured(small).advise()}
    assert not kinds & {"guards", "cache entries", "Dynamo", "AOTAutograd's wrappers", "output code", "kernels", "launch bound"}


def test_without_a_measured_call_only_the_kernels_are_judged(small: Trace) -> None:
    """The headline and the head say so, and how to measure; with a measured call they do not."""
    assert "t.attach(t.live.cost())" in " ".join(repr(small.advise()).split())
    assert replace(small.advise(), verdicts=()).headline == "nothing stands out in the kernels"
    assert replace(measured(small).advise(), verdicts=()).headline == "nothing stands out"
    assert "t.attach(t.live.cost())" not in repr(measured(small).advise())


def test_the_parts_are_printed_with_bars_and_shown_in_the_view(small: Trace) -> None:
    """`print(t)` has a line for each part, in order, the longest with the longest bar; the view's bars are the same parts."""
    trace = measured(small)
    lines = repr(trace).splitlines()
    shown = [line for part in ORDINARY for line in lines if line.endswith((f" {part}", f" {part} ({ORDINARY[part][1]})"))]
    assert len(shown) == len(ORDINARY)
    assert max(shown, key=lambda line: line.count("█")).endswith("kernel calls (3)")
    assert "measured; eager mode takes 40 µs" in " ".join(repr(trace).split())
    info = payload_of(trace)["overview"][0]
    assert [work["what"] for work in info["work"]] == list(ORDINARY) and info["device"] == pytest.approx(100e-6)
    assert info["known"] == "measured" and info["breaks"] == 0
