"""A cluster you don't have: one rank's view in one process, and torch.distributed as it was afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import _random
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import explorer
from explorer.analysis.advice.call_cost import TracedCall
from explorer.capture.absent.cluster import Cluster
from explorer.errors import InputError
from explorer.reference.gpus.interconnect import INTERCONNECTS, Interconnect, seconds_of_collective
from explorer.tracing.traced import Trace
from tests.facts import says, untold

WORLD, WIDTH, HIDDEN, BATCH = 8, 64, 256, 32


class Mlp(nn.Module):
    """Linear, ReLU, Linear: the smallest that Megatron's plan splits."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))  # type: ignore[no-any-return]


def parallel(device: str, world: int = WORLD) -> tuple[nn.Module, torch.Tensor]:
    with torch.device(device):
        module, x = Mlp(), torch.ones(BATCH, WIDTH)
    mesh = init_device_mesh("cuda", (world,))
    return parallelize_module(module, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()}), x


@pytest.fixture(scope="module")
def traced() -> Trace:
    with Cluster("h100", WORLD) as cluster:
        module, x = parallel("cpu")
        return explorer.trace(module, x, target=cluster, train=True)


def shapes(trace: Trace, graph: str) -> list[tuple[str, ...] | None]:
    post_grad = trace.find("post_grad", graph=graph)[0]
    return [node.get("shape") for node in post_grad.nodes if node["op"] == "placeholder"]


@pytest.mark.compile
def test_tensor_parallelism_has_one_ranks_weights(traced: Trace) -> None:
    """The graph that Inductor compiles for the GPU has this rank's part of each weight."""
    assert not traced.failures
    part = str(HIDDEN // WORLD)
    assert (part, str(WIDTH)) in shapes(traced, "forward")
    assert (str(WIDTH), part) in shapes(traced, "forward")
    assert "cuda:0" in traced.text("post_grad", graph="forward")


@pytest.mark.compile
def test_the_collectives_are_those_of_eager() -> None:
    """An inference trace has as many collectives as CommDebugMode counts in eager: one all_reduce of the output."""
    with Cluster("h100", WORLD) as cluster:
        module, x = parallel("cpu")
        with CommDebugMode() as mode, torch.no_grad():
            module(x)
        trace = explorer.trace(module, x, target=cluster)
    assert mode.get_total_counts() == len(trace.collectives.table) == 1
    row = trace.collectives.table[0]
    assert (row["operator"], row["ranks"], row["bytes"]) == ("all_reduce", tuple(range(WORLD)), BATCH * WIDTH * 4)


def given_link(rate: float) -> Interconnect:
    """What connects GPUs at a rate that the program states."""
    return Interconnect("as given", rate, "the caller")


@pytest.mark.compile
def test_a_ring_prices_the_collective(traced: Trace) -> None:
    """The seconds are those of the H100's link; four ranks were not measured, which the row says."""
    row = next(row for row in traced.collectives.table if row["operator"] == "all_reduce")
    assert row["seconds"] == seconds_of_collective(INTERCONNECTS["h100"], "all_reduce", WORLD, row["bytes"])
    assert not untold(row["seconds_known"], "estimated", "not measured")
    assert row["exposed"] <= row["seconds"]


@pytest.mark.compile
def test_a_group_larger_than_a_host_has_no_price() -> None:
    """NVLink connects eight H100; of 64 the seconds are unknown, unless the program states what connects them."""
    unknown, stated = (
        explorer.trace(gathered, torch.ones(64), target=Cluster("h100", 64, interconnect=given)).collectives.table[0]
        for given in (None, 50e9)
    )
    assert unknown["seconds"] is None and not untold(unknown["seconds_known"], "64", "8 GPUs", "interconnect=")
    assert stated["seconds"] == seconds_of_collective(given_link(50e9), "all_reduce", 64, 256)


@pytest.mark.parametrize("named", [False, True])
def test_a_mesh_is_made_by_its_own_class(named: bool) -> None:
    """`DeviceMesh` with `mesh=`, as torch's own documentation writes it, is one of the CPU too."""
    with Cluster("h100", 4):
        mesh = DeviceMesh(device_type="cuda", mesh=[0, 1, 2, 3]) if named else DeviceMesh("cuda", mesh=[0, 1, 2, 3])
        assert (mesh.device_type, mesh.size()) == ("cpu", 4)


@pytest.mark.compile
def test_the_program_states_the_interconnect() -> None:
    """`interconnect=` stands in place of the named GPU's figure, also for a GPU whose figure is not known."""
    with Cluster("l4", 4, interconnect=32e9) as cluster:
        module, x = parallel("meta", 4)
        row = explorer.trace(module, x, target=cluster).collectives.table[0]
    assert row["seconds"] == seconds_of_collective(given_link(32e9), "all_reduce", 4, row["bytes"])


@pytest.mark.compile
def test_a_model_without_data_needs_no_memory() -> None:
    """Parameters on the meta device are split, and traced with a backward, without any data."""
    with Cluster("h100", WORLD) as cluster:
        module, x = parallel("meta")
        trace = explorer.trace(module, x, target=cluster, train=True)
    assert not trace.failures
    assert (str(HIDDEN // WORLD), str(WIDTH)) in shapes(trace, "forward")


@pytest.mark.compile
def test_the_values_of_one_rank_are_checked(traced: Trace) -> None:
    """`check` compares what the rank computes in eager and compiled, also in another block for the same cluster."""
    with Cluster("h100", WORLD):
        rows = traced.check()
    assert rows
    assert all(row["equal"] for row in rows)


def gathered(x: torch.Tensor) -> torch.Tensor:
    return distributed._functional_collectives.all_reduce(x, "sum", "0") * distributed.get_rank()  # type: ignore[no-any-return]


def overlapping(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A collective, what needs its result, and then a product that does not."""
    summed = torch.relu(distributed._functional_collectives.all_reduce(x @ w, "sum", "0"))
    return summed + torch.relu(x @ w.t())


def both(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two collectives of which none needs the other."""
    first = distributed._functional_collectives.all_reduce(x + 1, "sum", "0")
    second = distributed._functional_collectives.all_reduce(w + 1, "sum", "0")
    return first * 2, second * 2


def wide() -> torch.Tensor:
    return torch.empty(1024, 1024, device="meta", dtype=torch.bfloat16)


@pytest.mark.compile
def test_a_pass_that_sinks_waits_hides_the_collective() -> None:
    """Without Inductor's pass nothing runs meanwhile and all of it is exposed; with it the product does, and hides some."""
    passes = {"reorder_for_compute_comm_overlap": True, "reorder_for_compute_comm_overlap_passes": ["sink_waits"]}
    plain, sunk = (
        explorer.trace(overlapping, wide(), wide(), target="h100", world=WORLD, options=options).collectives.table[0]
        for options in (None, passes)
    )
    assert (plain["between"], plain["exposed"]) == ((), plain["seconds"])
    assert sunk["between"] == ("extern_kernels.mm",)
    assert sunk["meanwhile"] > 0
    assert sunk["exposed"] < plain["exposed"]


@pytest.mark.compile
def test_a_pass_that_buckets_leaves_one_collective_of_the_same_bytes() -> None:
    """Two all_reduces are one of twice the bytes with Inductor's pass that buckets them."""
    plain, bucketed = (
        explorer.trace(both, wide(), wide(), target="h100", world=WORLD, options=options).collectives.table
        for options in (None, {"bucket_all_reduces_fx": "all"})
    )
    assert [row["bytes"] for row in plain] == [1024 * 1024 * 2] * 2
    assert [row["bytes"] for row in bucketed] == [2 * 1024 * 1024 * 2]


@pytest.mark.compile
@pytest.mark.parametrize("rank", [0, 5])
def test_world_alone_traces_any_rank(rank: int) -> None:
    """`world=` sets the group up for one trace: the program sees its rank, the meta names it."""
    trace = explorer.trace(gathered, torch.ones(64), target="h100", world=WORLD, rank=rank)
    assert not trace.failures
    assert (trace.meta["world"], trace.meta["rank"]) == (WORLD, rank)
    assert torch.equal(trace.live.result, torch.full((64,), float(rank)))
    assert not distributed.is_initialized()


def test_nothing_is_left_behind() -> None:
    """Afterwards there is no process group, no random state of DTensor's, and DeviceMesh is torch's, also after an error."""
    before = _random._rng_tracker, distributed.device_mesh.DeviceMesh.__init__
    with pytest.raises(ZeroDivisionError), Cluster("h100", WORLD):
        parallel("cpu")
        raise ZeroDivisionError
    assert (_random._rng_tracker, distributed.device_mesh.DeviceMesh.__init__) == before
    assert not distributed.is_initialized()
    assert not distributed.distributed_c10d._world.pg_names


def test_another_process_group_is_refused() -> None:
    """A group of another size or backend is the program's: the message says what to do, and the group stays."""
    with Cluster("h100", 2):
        with pytest.raises(InputError, match=says("2", str(WORLD), "torch.distributed.destroy_process_group()", "world=")):
            explorer.trace(gathered, torch.ones(64), target="h100", world=WORLD)
        assert distributed.get_world_size() == 2


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ({"target": "h100", "world": 0}, ("world", "ranks", "0")),
        ({"target": "h100", "world": 8, "rank": 8}, ("rank", "0", "7", "world=8", "not 8")),
        ({"target": "auto", "world": 8}, ("world=8", "target='h100'", "'auto'")),
        ({"target": "h100", "rank": 1}, ("rank=1", "world=")),
        ({"target": "h1000", "world": 8}, ("'h1000'", "'h100'")),
        ({"target": Cluster("h100", 8), "rank": 1}, ("Cluster(…, rank=1)", "rank=")),
    ],
)
def test_what_is_no_cluster_is_refused(arguments: dict[str, object], facts: tuple[str, ...]) -> None:
    """Each refusal says what is expected."""
    with pytest.raises(InputError, match=says(*facts)):
        explorer.trace(gathered, torch.ones(64), **arguments)  # type: ignore[arg-type]


@pytest.mark.compile
def test_a_wait_costs_no_memory_traffic() -> None:
    """A collective and its wait have no price by the GPU's memory; the advice counts what is exposed of the collective."""
    trace = explorer.trace(overlapping, wide(), wide(), target="h100", world=WORLD)
    calls = {row["call"].rpartition(".")[0].rpartition(".")[2]: row for row in trace.inductor.extern_calls}
    assert (calls["wait_tensor"]["seconds"], calls["wait_tensor"]["launch_seconds"]) == (0.0, 0.0)
    assert calls["all_reduce_"]["seconds"] is None and "t.collectives.table" in calls["all_reduce_"]["seconds_known"]
    call = TracedCall(trace)
    priced = sum(row["seconds"] or 0.0 for row in (*trace.kernels.table, *trace.inductor.extern_calls))
    assert call.device == pytest.approx(priced + trace.collectives.table[0]["exposed"])
    assert not untold(call.about(), "collectives")


@pytest.mark.compile
def test_the_streams_add_up_to_kernels_and_what_is_exposed() -> None:
    """The last thing ends when all kernels and calls have run and every wait has held them, and each collective has its row."""
    trace = explorer.trace(both, wide(), wide(), target="h100", world=WORLD)
    rows = trace.collectives.timeline
    ends = max(row["begins"] + row["seconds"] for row in rows)
    computing = sum(row["seconds"] for row in rows if row["stream"] == "compute")
    assert ends == pytest.approx(computing + sum(row["exposed"] for row in trace.collectives.table))
    assert [row["node"] for row in rows if row["stream"] == "communication"] == [row["node"] for row in trace.collectives.table]
    text = trace.text("output_code").splitlines()
    assert all("wait_tensor" in text[row["line"] - 1] for row in rows if row["stream"] == "wait")


@pytest.mark.compile
def test_what_hides_two_collectives_is_counted_once() -> None:
    """Both are started before the first wait: what the second waits for is less what it has run behind the first."""
    trace = explorer.trace(both, wide(), wide(), target="h100", world=WORLD)
    rows = trace.collectives.table
    took, exposed = (sum(row[key] for row in rows) for key in ("seconds", "exposed"))
    begun = [row["begins"] for row in trace.collectives.timeline if row["stream"] == "communication"]
    assert exposed <= took and begun[1] >= begun[0] + rows[0]["seconds"]
