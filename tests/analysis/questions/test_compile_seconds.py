"""Where the seconds of a compile went: parts of the compiler, kernels, repeated blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import pytest

from explorer.analysis.questions import compile_seconds
from explorer.model.values import EMPTY, Artifact
from explorer.stages.torch_compile.phase import KERNELS, OTHER
from explorer.tracing.traced import Trace

RECORDED = ("mlp_train-torch2.11-cpu", "mlp_train-torch2.11-cuda", "mlp_train-torch2.13-cpu", "mlp_train-torch2.15-cpu")


@pytest.mark.parametrize("name", RECORDED)
def test_the_parts_add_up_to_the_compiles(name: str, replayed: Callable[[str], Trace]) -> None:
    """Each second of a recorded compile counts once, and most of them for a part that has a name."""
    trace = replayed(name)
    whole = sum(row["seconds"] for row in trace.compiler.phases if row["depth"] == 0)
    by_part = compile_seconds.seconds_by_part(trace)
    assert sum(row["seconds"] for row in trace.compiler.parts) == pytest.approx(whole)
    assert {"Dynamo", "AOTAutograd", "Inductor passes", "lowering", "scheduling", "code generation"} <= {*by_part}
    assert by_part[OTHER] < whole / 2 and min(by_part.values()) >= 0
    assert repr(trace.compiler).count(f"{whole:.2f} s in ") == 1


def test_a_second_counts_for_the_innermost_part_around_it() -> None:
    """A phase without a name of its own counts for the one around it, one that did not end for nobody."""
    names = (("dynamo", 0, 10.0), ("backend_compile", 1, 8.0), ("GraphLowering.run", 2, 5.0), ("pass.unheard_of", 3, 1.0))
    phases = [*names, ("async_compile.wait", 2, 2.0), ("Scheduler.__init__", 2, None)]
    assert compile_seconds.seconds_by_part(_timed(phases)) == {
        "lowering": 5.0,
        "Dynamo": 2.0,
        KERNELS: 2.0,
        "other": 1.0,
    }


def test_a_part_says_how_much_of_it_was_explorers_recording() -> None:
    """The cost counts for the innermost part, as its seconds do; where it was not measured there is none."""
    trace = _timed([("dynamo", 0, 10.0), ("GraphLowering.run", 1, 5.0)], costs=(3.0, 2.5))
    assert {row["part"]: row["explorer_seconds"] for row in trace.compiler.parts} == {"Dynamo": 0.5, "lowering": 2.5}
    without = _timed([("dynamo", 0, 10.0), ("GraphLowering.run", 1, 5.0)])
    assert [row["explorer_seconds"] for row in without.compiler.parts] == [None, None]


def test_kernels_that_inductor_timed_are_listed_longest_first() -> None:
    """The times that torch keeps as JSON are seconds, with the longest kernel first."""
    rows = [{"of": "forward", "figures": {"triton_kernel_compile_times_us": '[["short", 5e5], ["long", 2000000]]'}}]
    trace = Trace(artifacts=(_artifact("compilation_metrics", {"rows": rows}),))
    assert [(row["kernel"], row["seconds"]) for row in trace.compiler.kernels] == [("long", 2.0), ("short", 0.5)]


def test_blocks_with_the_same_operators_are_one_row() -> None:
    """Modules beside each other with the same operators on the same shapes are a group; one of another shape is not in it."""
    blocks = [node for number in range(3) for node in _block(f"h.{number}", "8")]
    trace = _timed([("dynamo", 0, 10.0)], [*blocks, *_block("h.3", "16"), *_block("head", "8")])
    (row,) = trace.compiler.blocks
    assert row["modules"] == ("h.0", "h.1", "h.2") and (row["nodes"], row["of_nodes"]) == (4, 20)
    assert row["seconds"] == pytest.approx(10.0 * 8 / 20)
    assert "compiled 3 times, h.0 … h.2" in repr(trace.compiler)


def _artifact(stage: str, data: dict[str, Any]) -> Artifact:
    return Artifact(id=f"{stage}:0", stage=stage, title=stage, text="", language="text", frame="0/0", graph="", data=data)


def _timed(
    phases: Sequence[tuple[str, int, float | None]], nodes: Sequence[dict[str, Any]] = (), costs: Sequence[float | None] = ()
) -> Trace:
    """A trace of one compile with these phases (name, depth, seconds), what each cost, and nodes of Dynamo's graph."""
    same = {"function": "", "graph": ""}
    rows = [
        {"name": name, "start": float(number), "seconds": seconds, "depth": depth, "cost": cost, **same}
        for number, ((name, depth, seconds), cost) in enumerate(zip_longest(phases, costs))
    ]
    graph = _artifact("dynamo", {"nodes": tuple(nodes)})
    return Trace(meta=EMPTY, artifacts=(_artifact("phase", {"rows": rows}), graph))


def _block(module: str, size: str) -> list[dict[str, Any]]:
    """Four operators of a module on tensors of one size."""
    same = {"op": "call_function", "args": "()", "kwargs": "", "inputs": (), "shape": (size,), "dtype": "float32"}
    return [{"name": f"{module}{n}", "target": f"op{n}", "module": f"{module}.up", **same} for n in range(4)]
