"""What kernels cost: bytes of the groups that they compute, times that are measured, estimated or missing; no torch but once."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.costs import operations, peak
from explorer.gpus import Target
from explorer.model import Artifact, plain
from explorer.traced import Kernels, Trace
from explorer.whatif import figures

H100 = Target.parse("h100")


def node(target: str, shape: tuple[int, ...], inputs: tuple[str, ...] = (), dtype: str = "float32") -> dict[str, Any]:
    return {"name": target, "target": target, "shape": [str(s) for s in shape], "inputs": inputs, "dtype": dtype}


def group(number: int, read: int, written: int) -> dict[str, Any]:
    return {"number": number, "kind": "SchedulerNode", "ir": "ComputedBuffer", "call": "", "read": read, "written": written}


def scheduled(*kernels: tuple[str, list[int]], language: str = "triton", target: str = "h100", **facts: Any) -> Trace:
    """Four groups of one node each, the kernels written for them, and of each kernel its artifact with these facts."""
    nothing: dict[str, Any] = {k: [] for k in ("groups", "rounds", "rules", "args", "pairs", "score_parts", "scores", "made")}
    data = {
        **nothing, "of": "", "names": ["op0", "op1", "op2", "op3"], "kernels": [[name, of] for name, of in kernels],
        "final": [group(0, 100, 10), group(1, 200, 20), group(2, 400, 40), group(3, 800, 80)], "settings": {}, "paths": [],
    }  # fmt: skip
    names = dict.fromkeys(name for name, _ in kernels)
    artifacts = [Artifact("f", "fusion", "0/0", "g", "Fusion", "text", "", data=plain(data))]
    artifacts += [Artifact(n, "kernel", "0/0", "g", n, language, "", kernel=n, data=plain(facts)) for n in names]
    return Trace(meta=plain({"target": target}), artifacts=tuple(artifacts))


def test_a_kernel_moves_what_its_groups_move_in_all_its_launches() -> None:
    """Bytes of a kernel that is launched twice, for two groups, are those of both; the estimate is theirs at the bandwidth."""
    one, two = scheduled(("k", [0]), ("other", [1]), ("k", [2])).kernels.table()
    assert (one["launches"], one["read"], one["written"]) == (2, 500, 50)
    assert (two["launches"], two["read"], two["written"]) == (1, 200, 20)
    assert one["timed"] == "estimated" and one["seconds"] == pytest.approx(550 / H100.bandwidth)
    assert "not measured" in one["seconds_known"] and "H100" in one["seconds_known"]


def test_loops_of_one_kernel_are_added_up() -> None:
    """A C++ kernel that computes several groups, one loop after the other, moves what they move."""
    (row,) = scheduled(("cpp", [0, 1, 3]), language="cpp", target="cpu").kernels.table()
    assert (row["launches"], row["read"], row["written"]) == (1, 1100, 110)


def test_kernels_written_for_one_group_together_have_no_bytes_of_their_own() -> None:
    """Where several kernels were written for one group nobody says what each moves: None, the reason, and no estimate."""
    for row in scheduled(("a", [0]), ("b", [0])).kernels.table():
        assert row["read"] is row["written"] is row["seconds"] is None and row["timed"] == ""
        assert "a, b" in row["bytes_known"] and row["seconds_known"] == row["bytes_known"]


@pytest.mark.parametrize(
    ("language", "target", "part"),
    [
        ("triton", "cuda", "max-autotune"),
        ("cpp", "cpu", "written in cpp; t.benchmark()"),
        ("triton", "mine", "'mine' is not known"),
    ],
)
def test_a_time_that_is_not_known_says_why(language: str, target: str, part: str) -> None:
    """No time is guessed: on an attached device that timed nothing, and for a GPU whose figures are not here."""
    (row,) = scheduled(("k", [0]), language=language, target=target).kernels.table()
    assert row["seconds"] is None and row["timed"] == "" and part in row["seconds_known"] and row["read"] == 100


def test_what_autotuning_measured_is_the_time() -> None:
    """The time of the config that was taken, as often as the kernel is launched; also for a kernel without verdicts."""
    taken, slow = {"XBLOCK": 64}, {"XBLOCK": 8}
    facts = {"candidates": [slow, taken], "config": taken, "measured": [{**slow, "ms": 9.0}, {**taken, "ms": 0.5}]}
    (row,) = scheduled(("k", [0]), ("k", [1]), target="cuda", **facts).kernels.table()
    assert row["timed"] == "measured" and row["seconds"] == pytest.approx(0.001) and "0.5 ms a launch" in row["seconds_known"]


def test_a_recording_without_verdicts_has_no_bytes(replayed) -> None:  # type: ignore[no-untyped-def]
    """A trace of before there were verdicts still has its table, and says what it lacks; figures of the GPU are there."""
    rows = replayed("mlp_train-torch2.11-cuda").kernels.table()
    assert len(rows) == 3 and all(row["read"] is None and "no record" in row["bytes_known"] for row in rows)
    assert all(isinstance(row["registers"], int) and row["grid"] and row["operators"] for row in rows)
    assert Kernels().table() == ()


def test_the_table_adds_up_to_the_figures_of_what_if(for_h100: Trace) -> None:
    """What kernels and library calls move is what `what_if` says that the whole code moves."""
    rows, groups, whole = for_h100.kernels.table(), for_h100.fusion.groups(), figures(for_h100)
    calls = [g for g in groups if not g["kernels"]]
    for key in ("read", "written"):
        assert sum(row[key] for row in rows) + sum(g[key] for g in calls) == whole[f"bytes_{key}"]
    assert 0 < sum(row["seconds"] for row in rows) < (whole["estimated_seconds"] or 0)
    assert {row["launches"] for row in rows} > {1} and all(row["launches"] >= len(row["grid"]) for row in rows)


# The roofline ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "out", "inputs", "count"),
    [
        ("aten.mm.default", (4, 6), [(4, 5), (5, 6)], 2 * 4 * 5 * 6),
        ("aten.addmm.default", (4, 6), [(6,), (4, 5), (5, 6)], 2 * 4 * 5 * 6),
        ("aten.mm.default", (5, 5), [(5, 5)], 2 * 5 * 5 * 5),
        ("aten.bmm.default", (3, 4, 6), [(3, 4, 5), (3, 5, 6)], 2 * 3 * 4 * 5 * 6),
        ("aten.convolution.default", (2, 8, 10, 10), [(2, 3, 12, 12), (8, 3, 3, 3)], 2 * 2 * 8 * 100 * 27),
        ("aten._scaled_dot_product_efficient_attention.default", (2, 4, 16, 8), [(2, 4, 16, 8)] * 3, 4 * 2 * 4 * 16 * 16 * 8),
        ("aten.add.Tensor", (4, 6), [(4, 6), (4, 6)], 0),
    ],
)
def test_operations_are_counted_from_shapes(
    operator: str, out: tuple[int, ...], inputs: list[tuple[int, ...]], count: int
) -> None:
    """Products, convolutions and attention by their sizes; everything else counts as moved bytes only."""
    others = {f"i{n}": node("x", shape) for n, shape in enumerate(inputs)}
    assert operations(node(operator, out, tuple(others)), others) == count


def test_symbolic_sizes_count_nothing() -> None:
    """No guess where a size is not known."""
    others = {"i0": node("x", ("s0", 4)), "i1": node("x", (4, 4))}  # type: ignore[arg-type]
    assert operations({**node("aten.mm.default", (4, 4), ("i0", "i1")), "shape": ["s0", "4"]}, others) == 0


def test_the_peak_is_that_of_the_dtype() -> None:
    """Half precision has its own rate; an unknown dtype that of fp32."""
    assert peak(H100, "bfloat16") == H100.peak["bf16"] and peak(H100, "float32") == peak(H100, "complex64") == H100.peak["fp32"]
