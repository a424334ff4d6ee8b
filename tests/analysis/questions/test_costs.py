"""The costs of kernels: the bytes of their groups, and times that are measured, estimated or unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.analysis.questions.comparison import launches
from explorer.analysis.questions.costs import (
    ADDITIONS,
    LAUNCHES,
    LONG_ROW,
    LOOKUPS,
    OF_THE_HOST,
    SAME_SECTOR,
    SECTOR,
    SHARES,
    STRIDED,
    estimate,
    filled,
    rate_of,
)
from explorer.analysis.questions.figures import estimated, figures
from explorer.model.records import blank
from explorer.model.shared import Kernel
from explorer.model.values import Artifact, plain
from explorer.reference.gpus.figures import Target
from explorer.stages.triton.origins import KernelForm
from explorer.tracing.traced import Trace
from tests.facts import untold

H100 = Target.parse("h100")


@pytest.fixture
def trained(zoo: Callable[[str], Trace]) -> Trace:
    """A training step for an absent H100."""
    return zoo("block training h100")


def group(number: int, read: int, written: int) -> dict[str, Any]:
    return {"number": number, "kind": "SchedulerNode", "ir": "ComputedBuffer", "call": "", "read": read, "written": written}


def scheduled(*kernels: tuple[str, list[int]], language: str = "triton", target: str = "h100", **facts: Any) -> Trace:
    """Four groups of one node each, the kernels written for them, and each kernel's source; `facts` are those of its TTIR."""
    nothing: dict[str, Any] = {k: [] for k in ("groups", "rounds", "rules", "args", "pairs", "score_parts", "scores", "made")}
    data = {
        **nothing,
        "of": "",
        "names": ["op0", "op1", "op2", "op3"],
        "kernels": [[name, of] for name, of in kernels],
        "final": [group(0, 100, 10), group(1, 200, 20), group(2, 400, 40), group(3, 800, 80)],
        "settings": {},
        "paths": [],
    }
    names = dict.fromkeys(name for name, _ in kernels)
    artifacts = [Artifact("f", "fusion", "0/0", "g", "Fusion", "text", "", data=plain(data))]
    for n in names:
        source = blank(Kernel, name=n, language=language)
        artifacts.append(Artifact(n, "kernel", "0/0", "g", n, language, "", kernel=n, data=source))
        if facts:
            form = blank(KernelForm, name=n, **facts)
            artifacts.append(Artifact(f"{n}:ttir", "ttir", "0/0", "g", n, "mlir", "", kernel=n, data=form))
    return Trace(meta=plain({"target": target}), artifacts=tuple(artifacts))


def test_a_kernel_moves_what_its_groups_move_in_all_its_launches() -> None:
    """Bytes of a kernel that is launched twice, for two groups, are those of both; the estimate is theirs at the bandwidth."""
    one, two = scheduled(("k", [0]), ("other", [1]), ("k", [2])).kernels.table
    assert (one["launches"], one["read"], one["written"]) == (2, 500, 50)
    assert (two["launches"], two["read"], two["written"]) == (1, 200, 20)
    assert one["timed"] == "estimated" and one["seconds"] == pytest.approx(2 * LAUNCHES["generated"], rel=0.01)
    assert not untold(one["seconds_known"], "estimated", "H100")


def test_loops_of_one_kernel_are_added_up() -> None:
    """A C++ kernel that computes several groups, one loop after the other, moves what they move."""
    (row,) = scheduled(("cpp", [0, 1, 3]), language="cpp", target="cpu").kernels.table
    assert (row["launches"], row["read"], row["written"]) == (1, 1100, 110)


def test_kernels_written_for_one_group_together_have_no_bytes_of_their_own() -> None:
    """Where several kernels were written for one group nobody says what each moves: None, the reason, and no estimate."""
    for row in scheduled(("a", [0]), ("b", [0])).kernels.table:
        assert row["read"] is row["written"] is row["seconds"] is None and row["timed"] == ""
        assert "a, b" in row["bytes_known"] and row["seconds_known"] == row["bytes_known"]


@pytest.mark.parametrize(
    ("language", "target", "facts"),
    [
        ("triton", "cuda", ("mode='max-autotune'",)),
        ("cpp", "cpu", ("cpp", "t.benchmark()")),
        ("triton", "mine", ("'mine'", "bandwidth")),
    ],
)
def test_a_time_that_is_not_known_says_why(language: str, target: str, facts: tuple[str, ...]) -> None:
    """No time is guessed on an attached device that timed nothing, nor for a GPU whose figures are not here."""
    (row,) = scheduled(("k", [0]), language=language, target=target).kernels.table
    assert row["seconds"] is None and row["timed"] == "" and row["read"] == 100
    assert not untold(row["seconds_known"], *facts)


def test_what_autotuning_measured_is_the_time() -> None:
    """The time of the config that was taken, as often as the kernel is launched; also for a kernel without verdicts."""
    taken, slow = {"XBLOCK": 64}, {"XBLOCK": 8}
    facts = {"candidates": [slow, taken], "config": taken, "measured": [{**slow, "ms": 9.0}, {**taken, "ms": 0.5}]}
    (row,) = scheduled(("k", [0]), ("k", [1]), target="cuda", **facts).kernels.table
    assert row["timed"] == "measured" and row["seconds"] == pytest.approx(0.001)
    assert not untold(row["seconds_known"], "autotuning", "0.5 ms")


def test_a_recording_without_verdicts_has_no_bytes(replayed) -> None:  # type: ignore[no-untyped-def]
    """A trace of before there were verdicts still has its table, and says what it lacks; figures of the GPU are there."""
    rows = replayed("mlp_train-torch2.11-cuda").kernels.table
    assert len(rows) == 3 and all(row["read"] is None and not untold(row["bytes_known"], "scheduler nodes") for row in rows)
    assert all(isinstance(row["registers"], int) and row["grid"] and row["operators"] for row in rows)
    assert Trace().kernels.table == ()


@pytest.mark.compile
def test_a_number_of_the_host_is_no_launch() -> None:
    """Where a size is read from a tensor the scheduler has nodes for it: the launches are those that the output code has."""
    import torch

    def cut(x: Any, n: Any) -> Any:
        return x[: int(n.max())].exp().sum(-1)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        trace = explorer.trace(cut, torch.randn(8, 16), torch.tensor([3, 5]), target="h100")
    called = {row["call"] for row in trace.fusion.groups if row["kind"] == "extern"}
    assert called & OF_THE_HOST and not trace.failures
    assert figures(trace)["launches"] == sum(launches(trace)) == len(trace.profile.launches) > 0


def test_the_table_adds_up_to_the_figures_of_what_if(trained: Trace) -> None:
    """What kernels and library calls move is what `what_if` says that the whole code moves."""
    rows, groups, whole = trained.kernels.table, trained.fusion.groups, figures(trained)
    calls = [g for g in groups if not g["kernels"]]
    for key in ("read", "written"):
        assert sum(row[key] for row in rows) + sum(g[key] for g in calls) == whole[f"bytes_{key}"]
    assert 0 < sum(row["seconds"] for row in rows) < (whole["estimated_seconds"] or 0)
    assert {row["launches"] for row in rows} > {1} and all(row["launches"] >= len(row["grid"]) for row in rows)


# The estimate ----------------------------------------------------------------------------------------------------------


def call(operator: str, operations: int, dtype: str = "bfloat16", sizes: tuple[int, ...] = (), **facts: Any) -> dict[str, Any]:
    row = {"operator": operator, "operations": operations, "dtype": dtype, "template": False, "tf32": False}
    return {**row, **({"sizes": sizes} if sizes else {}), **facts}


def work(*calls: dict[str, Any], read: int = 0, written: int = 1, kind: str = "extern", **facts: Any) -> dict[str, Any]:
    """A group as `Graph.groups` gives it, with what an estimate reads."""
    kernels = () if kind == "extern" else ("k",)
    row = {
        "kind": kind,
        "kernels": kernels,
        "call": "",
        "read": read,
        "written": written,
        "unsized": (),
        "calls": calls,
        "elementwise": {},
        "one_block": None,
    }
    return {**row, "rows": None, "run": None, "lookups": (), "reread": 0, "strided": False, **facts}


def seconds(*calls: dict[str, Any], target: Target = H100, **facts: Any) -> float:
    return estimate(target, work(*calls, **facts)).seconds or 0.0


BIG = 2 * 8192**3
SIZES = (1, 8192, 8192, 8192)


@pytest.mark.parametrize(
    ("dtype", "tf32", "target", "rate"),
    [
        ("bfloat16", False, "h100", "bf16"),
        ("float16", False, "h100", "fp16"),
        ("float32", False, "h100", "fp32"),
        ("float32", True, "h100", "tf32"),
        ("float32", True, "v100", "fp32"),
        ("float64", False, "h100", "fp64_tensor"),
        ("float64", False, "rtx4090", "fp64"),
        ("int8", False, "h100", "int8"),
        ("float8_e4m3fn", False, "h100", "fp8"),
        ("complex64", False, "h100", "fp32"),
        ("bfloat16", False, "v100", "fp32"),
    ],
)
def test_a_product_runs_at_the_rate_of_its_operands(dtype: str, tf32: bool, target: str, rate: str) -> None:
    """The rate is that of the operands' dtype on that GPU, in TF32 where torch allows it and the GPU has it."""
    gpu = Target.parse(target)
    assert rate_of(gpu, call("aten.mm", 1, dtype, tf32=tf32)) == gpu.peak[rate]


def test_a_dtype_without_a_rate_is_said() -> None:
    """No other dtype's rate stands for it: the bytes alone count, and the row says so."""
    assert rate_of(Target.parse("t4"), call("aten._scaled_mm", 1, "float8_e4m3fn")) == 0.0
    found = estimate(Target.parse("t4"), work(call("aten._scaled_mm", BIG, "float8_e4m3fn")))
    assert found.seconds < 1e-5 and "float8_e4m3fn" in found.outside


def test_an_operator_that_nothing_is_known_of_has_no_estimate() -> None:
    """Its bytes alone would be far too few, and the row names it; what only copies or fills takes as long as its bytes."""
    unknown = {"template": False, "operator": "", "operations": None, "buffer": "buf1"}
    assert rate_of(H100, unknown) == 0.0
    for row in (work(unknown, read=4, call="torch.ops.aten.sort.stable"), work(call("aten.sort", None), read=4)):  # type: ignore[arg-type]
        found = estimate(H100, row)
        assert found.seconds is None and not untold(found.outside, "aten.sort", "no estimate")
    assert seconds(call("aten.copy_", None), read=4) == pytest.approx(LAUNCHES["library"], rel=0.01)  # type: ignore[arg-type]


def test_a_large_product_takes_its_operations_at_the_share_of_the_peak() -> None:
    """Tiles of 8192 rows and columns fill an H100 but for the last round, of 4096 tiles in 32 rounds."""
    busy = 4096 / (32 * 132)
    expected = LAUNCHES["library"] + BIG / (H100.peak["bf16"] * SHARES["mm"] * busy)
    assert seconds(call("aten.mm", BIG, sizes=SIZES)) == pytest.approx(expected)
    assert estimate(H100, work(call("aten.mm", BIG, sizes=SIZES))).limit == "operations"


def test_a_launch_has_a_floor() -> None:
    """A node that does next to nothing takes a launch; one that runs nothing takes none."""
    assert seconds(kind="alone", read=4, written=4) == pytest.approx(LAUNCHES["generated"], rel=0.01)
    assert estimate(H100, work(kind="alone", read=4, written=4)).limit == "launch"
    assert seconds(call("aten.mm", 16), read=4) == pytest.approx(LAUNCHES["library"], rel=0.01)
    for kind in ("nop", "output of a call"):
        assert seconds(kind=kind, read=4, written=4) == 0


def test_small_kernels_find_their_bytes_in_l2() -> None:
    """Few bytes move faster than those that fill L2, which move at the memory's bandwidth."""
    small, large = H100.l2 // 5, H100.l2 * 10
    rate = H100.bandwidth * SHARES["memory"]
    assert seconds(kind="alone", read=small, written=0) == pytest.approx(LAUNCHES["generated"] + small / rate / 2)
    assert seconds(kind="alone", read=large, written=0) == pytest.approx(LAUNCHES["generated"] + large / rate)
    assert [estimate(H100, work(kind="alone", read=n)).limit for n in (small, large)] == ["L2", "memory"]


def lookup(count: int, run: int, buffer: int, *, adds: bool) -> dict[str, Any]:
    return {"count": count, "run": run, "buffer": buffer, "adds": adds}


def kernel(**facts: Any) -> float:
    """The seconds of a generated kernel."""
    return seconds(kind="alone", **facts)


def test_single_elements_take_longer_than_rows() -> None:
    """A gather of rows is its bytes. Of single floats each takes a turn, and from memory a second sector beside its own."""
    turn = 1 / (LOOKUPS * H100.multiprocessors * H100.clock)
    rows, near, far = (
        kernel(read=10**9, lookups=(lookup(10**6, run, buffer, adds=False),))
        for run, buffer in ((1024, 10**9), (4, 10**6), (4, 10**9))
    )
    assert rows == kernel(read=10**9) and near - rows == pytest.approx(10**6 * turn)
    assert far - near == pytest.approx(10**6 * SECTOR / (H100.bandwidth * SHARES["memory"]))


def test_additions_take_turns_by_sector() -> None:
    """Atomic additions cost by the sectors that they touch; many to few sectors wait for each other, and the limit says so."""
    spread, rows, crowded = (
        estimate(H100, work(kind="alone", read=4, lookups=(lookup(count, run, buffer, adds=True),)))
        for count, run, buffer in ((10**6, 4, 10**6), (10**6 // 8, 256, 10**6), (10**6, 4, 64))
    )
    turns = 10**6 / (ADDITIONS * H100.multiprocessors * H100.clock)
    assert spread.seconds == rows.seconds == pytest.approx(LAUNCHES["generated"] + turns, rel=0.01)
    assert crowded.seconds == pytest.approx(10**6 / 2 * SAME_SECTOR, rel=0.01)
    assert crowded.limit == "places" and "adds" in crowded.limited


def test_a_second_pass_finds_short_rows_in_l2() -> None:
    """A loop reads long rows from memory again, short ones from L2, and a block that holds its row reads nothing again."""

    def looped(rows: int, name: str = "triton_red_k") -> float:
        return kernel(read=10**9, rows=rows, reread=10**9, kernels=(name,), written=0)

    once = 10**9 / (H100.bandwidth * SHARES["memory"])
    short, long = looped(10**6), looped(1056)  # 1 KB, and 1 MB each in all 528 blocks at once
    assert long == pytest.approx(2 * once, rel=0.01) and short == pytest.approx(1.5 * once, rel=0.01)
    assert looped(10**6, "triton_per_k") == pytest.approx(once, rel=0.01)


def test_the_last_round_of_long_rows_leaves_multiprocessors_idle() -> None:
    """Of 529 rows, 528 run at once and the last alone takes as long; a kernel of short rows fills its blocks."""
    heavy = {"elementwise": {"float32": 10**10}}
    full, over = (kernel(read=rows * LONG_ROW, rows=rows, **heavy) for rows in (528, 529))
    assert over == pytest.approx(2 * full, rel=0.01)
    assert kernel(read=529, rows=529, **heavy) == pytest.approx(full, rel=0.01)


def test_blocks_that_scan_one_row_pass_their_sums_on() -> None:
    """A split scan reaches little of the bandwidth, and has as many blocks as it wants for its single row."""
    found = kernel(read=10**9, rows=1, kernels=("triton_spl_k",))
    assert found == pytest.approx(10**9 / (H100.bandwidth * SHARES["split_scan"]), rel=0.01)


def test_a_reduction_of_columns_waits_for_its_loads() -> None:
    """It takes a while however small it is; one of rows takes a launch."""
    assert kernel(read=4, rows=16, strided=True) == STRIDED > kernel(read=4, rows=16)


def test_few_tiles_leave_multiprocessors_idle() -> None:
    """A result of one tile is computed by one block, or by as many as the inner size is worth."""
    assert filled(H100, call("aten.mm", 1, sizes=(1, 64, 64, 64))) == pytest.approx(1 / 132)
    assert filled(H100, call("aten.mm", 1, sizes=(1, 64, 64, 4096))) == pytest.approx(16 / 132)
    assert filled(H100, call("aten.mm", 1)) == 1.0


def test_two_products_of_equal_operations_say_why_one_takes_longer() -> None:
    """The one with the longer inner sum has fewer blocks, so more multiprocessors are idle: each says how many it has, and what
    share of the GPU's peak it reaches; what memory limits says how much of the bandwidth.
    """
    deep = call("aten.mm", 2 * 128 * 128 * 256, "float32", sizes=(1, 128, 128, 256))
    flat = call("aten.addmm", 2 * 128 * 128 * 256, "float32", sizes=(1, 128, 256, 128))
    slow, fast = estimate(H100, work(deep)), estimate(H100, work(flat))
    assert slow.limit == fast.limit == "operations" and slow.seconds > 1.5 * fast.seconds
    for one, idle in ((slow, "4 blocks fill 3 %"), (fast, "8 blocks fill 6 %")):
        rate = 2 * 128 * 128 * 256 / one.seconds / 1e12
        assert one.limited == f"Limited by float32 arithmetic: {rate:.3g} of 67 TFLOP/s. {idle} of the 132 SMs."
    whole = estimate(H100, work(call("aten.mm", BIG, sizes=SIZES)))
    assert whole.limited.startswith("Limited by bfloat16 arithmetic: ") and "block" not in whole.limited
    moving = estimate(H100, {**work(), "read": 10**9, "written": 0})
    assert moving.limit == "memory"
    assert moving.limited == f"Limited by memory bandwidth: {1 / moving.seconds:,.0f} of 3,350 GB/s."


def test_a_limit_without_a_peak_says_why() -> None:
    """A launch that does little work, and one with its bytes in L2, are limited by that and by no share of a peak."""
    few, some = (estimate(H100, work(kind="alone", read=n)) for n in (1, H100.l2 // 5))
    assert few.limited == "Limited by the launch: it does little work."
    assert some.limited == "Limited by L2 bandwidth: its bytes fit in L2."


def test_what_is_outside_what_was_validated_is_said() -> None:
    """Another GPU, an operator without a count, a kernel of the user's own, and a recording without operations."""
    mm = call("aten.mm", BIG, sizes=SIZES)
    assert estimate(H100, work(mm)).outside == ""
    assert not untold(estimate(Target.parse("a100"), work(mm)).outside, "H100", "H200", "NVIDIA A100")
    assert "own::product" in estimate(H100, work(call("own::product", 8))).outside
    assert not untold(estimate(H100, work(kind="user's kernel")).outside, "kernel", "bytes")
    assert not untold(estimate(H100, {**work(), "calls": None, "elementwise": None}).outside, "version", "explorer", "operations")
    older = estimate(H100, work(kind="alone", lookups=None, reread=None, strided=None, read=10**9))
    assert older.seconds == kernel(read=10**9) and not untold(older.outside, "version", "lookups")


def test_a_depthwise_convolution_of_float32_uses_no_tensor_cores() -> None:
    """Whether torch allows TF32 or not: cuDNN's kernel for it has none."""
    depthwise = call("aten.convolution", 10**10, "float32", (384, 18816, 1, 9), groups=384, channels=1, tf32=True)
    expected = 10**10 / (H100.peak["fp32"] * SHARES["conv_grouped_fp32"])
    assert seconds(depthwise) == pytest.approx(expected, rel=0.01)


@pytest.mark.compile
def test_a_sum_says_which_calls_it_leaves_out() -> None:
    """A sort of long rows is a call that nothing is known of: no table gives it seconds, and every sum says so."""
    trace = explorer.trace(lambda x: x.sort(-1).values + 1, torch.empty(64, 4096, device="meta"), target="h100")
    (row,) = trace.inductor.extern_calls
    assert row["seconds"] is None and not untold(row["seconds_known"], "no estimate", "sort")
    assert figures(trace)["estimated_seconds"] == pytest.approx(sum(row["seconds"] for row in trace.kernels.table))
    without = "without 1 call that nothing is known of"
    assert not untold(estimated(trace), without, "sort")
    assert without in " ".join(repr(trace).split()) and without in " ".join(str(trace.advise()).split())
    assert [(row["seconds"], row["known"]) for row in trace.profile.launches if "sort" in str(row["kernel"])] == [(None, "")]


def test_a_transposed_convolution_is_estimated_on_tensor_cores() -> None:
    """As the gradient of a convolution's input, which it is; in 16 bits, where cuDNN may take slower kernels, it says so."""
    shape = {"sizes": [1, 8192, 256, 2048], "groups": 1, "channels": 128}
    ways = {way: call("aten.convolution", 8_589_934_592, **shape, transposed=way) for way in (False, True)}
    seconds = {way: estimate(H100, work(made)).seconds for way, made in ways.items()}
    assert 1 < seconds[True] / seconds[False] < 2
    assert not untold(estimate(H100, work(ways[True])).outside, "cuDNN", "tensor cores", "30")
    assert estimate(H100, work(ways[False])).outside == ""
    assert estimate(H100, work({**ways[True], "dtype": "float32"})).outside == ""


def test_the_table_has_operations_and_what_is_outside(trained: Trace) -> None:
    """Every row of kernels and of library calls has them; the linear layers are 2 × rows × inputs × outputs."""
    assert {row["operations"] for row in trained.kernels.table} == {0}
    calls = trained.inductor.extern_calls
    assert calls and all(row["operations"] > 0 and row["dtype"] == "float32" and row["outside"] == "" for row in calls)
    assert all(row["seconds"] > LAUNCHES["library"] and "H100" in row["seconds_known"] for row in calls)


def test_what_was_counted_survives_saving(trained: Trace, tmp_path: Path) -> None:
    """A loaded trace has the same kernels, library calls, estimates and memory."""
    trained.save(tmp_path / "t.json.gz")
    loaded = explorer.load(tmp_path / "t.json.gz")
    assert loaded.kernels.table == trained.kernels.table and loaded.inductor.extern_calls == trained.inductor.extern_calls
    assert loaded.memory.table == trained.memory.table
