"""Collectives: what each exchanges, in which group, and where it starts and is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

import explorer
from explorer.analysis.questions.collectives import collectives, in_order, is_collective, short_name
from explorer.model.trace_data import artifact_of
from explorer.tracing.traced import Trace
from tests import zoo_programs

WORLD = 8
#: torch 2.13 has other names for two of the functions, which torch 2.11 does not have.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning")


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    distributed.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    yield
    distributed.destroy_process_group()


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(64, 64), torch.ones(64, 64)


@pytest.fixture
def traced(zoo: Callable[[str], Trace]) -> Trace:
    """One collective of each kind, for eight GPUs."""
    return zoo("every collective h100")


def counted_by_torch(function: Callable[..., Any]) -> dict[str, int]:
    """How often each collective runs in eager, as torch's own CommDebugMode counts it."""
    with CommDebugMode() as mode:
        function(*arguments())
    names = {f"_{call}": count for call, count in mode.get_comm_counts().items()}  # by the names of before _c10d_functional
    return {short_name(name): count for name, count in names.items() if is_collective(name)}


@pytest.mark.usefixtures("group")
def test_every_collective_that_torch_counts_has_a_row(traced: Trace) -> None:
    """The rows name the collectives that CommDebugMode counts in eager, as often as it does."""
    counted: dict[str, int] = {}
    for row in collectives(traced):
        counted[row["operator"]] = counted.get(row["operator"], 0) + 1
    assert counted == counted_by_torch(zoo_programs.every_collective)
    assert len(counted) == 5


def test_bytes_are_those_of_the_whole_tensor(traced: Trace) -> None:
    """An all_gather counts what it gives, a reduce_scatter what it is given, a coalesced one all of its tensors."""
    tensor = 64 * 64 * 4
    assert {row["operator"]: row["bytes"] for row in collectives(traced)} == {
        "all_reduce": tensor,
        "all_gather_into_tensor": WORLD * tensor,
        "reduce_scatter_tensor": WORLD * tensor,
        "all_reduce_coalesced": 2 * tensor,
        "all_to_all_single": tensor,
    }


def test_a_row_names_its_group_and_the_users_line(traced: Trace) -> None:
    """The ranks are those of the process group, and the line is the program's, not that of torch's function around it."""
    for row in collectives(traced):
        assert row["ranks"] == tuple(range(WORLD)), row
        assert row["size"] == WORLD
        assert row["file"] == zoo_programs.__file__
        assert "functional." in row["code"]


def test_a_product_keeps_its_operator_where_a_collective_changes_its_result(traced: Trace) -> None:
    """Inductor states the wait of an all_reduce in place as the origin of the product before; its operations stay known."""
    products = [row for row in traced.inductor.extern_calls if row["call"].endswith(".mm")]
    assert [(row["operator"], row["operations"]) for row in products] == [("aten.mm", 2 * 64**3)] * 2


def test_start_and_wait_are_the_wrappers_lines(traced: Trace) -> None:
    """`started` and `waited` are lines of the wrapper that call the operator and wait for what it fills."""
    lines = traced.text("output_code").splitlines()
    for row in collectives(traced):
        assert row["call"] in lines[row["started"] - 1]
        assert "wait_tensor" in lines[row["waited"] - 1]
        assert row["started"] < row["waited"]


def test_what_runs_meanwhile_stands_between(traced: Trace) -> None:
    """The product that does not need the all_reduce is between its start and its wait; the next collectives have none."""
    between = {row["operator"]: row["between"] for row in collectives(traced)}
    assert between["all_reduce"] == ("extern_kernels.mm",)
    assert between["all_gather_into_tensor"] == ()


@pytest.mark.compile  # no entry of the zoo is for the group of its process
def test_a_graph_without_a_wrapper_gives_its_own_lines(group: None) -> None:
    """With the backend aot_eager the lines are those of AOTAutograd's graph, and its nodes stand between."""
    trace = explorer.trace(zoo_programs.every_collective, *arguments(), backend="aot_eager")
    rows = collectives(trace)
    text = trace.text("forward").splitlines()
    assert len(rows) == 5
    assert all(row["wrapper"] == "" for row in rows)
    assert all(row["node"] in text[row["started"] - 1] and "wait_tensor" in text[row["waited"] - 1] for row in rows)


def test_a_saved_trace_has_the_same_collectives(traced: Trace, tmp_path: Any) -> None:
    """The table needs nothing of the process: a loaded trace has the same rows."""
    traced.save(tmp_path / "t.json.gz")
    assert list(collectives(explorer.load(tmp_path / "t.json.gz"))) == list(collectives(traced))


def test_a_call_in_place_is_that_of_the_graphs_operator(zoo: Callable[[str], Trace]) -> None:
    """The graph has all_reduce and the wrapper all_reduce_ on a copy: the lines are the wrapper's."""
    trace = zoo("collective of an input h100")
    (row,) = collectives(trace)
    lines = trace.text("output_code").splitlines()
    assert row["call"] == "_c10d_functional.all_reduce.default" and row["wrapper"]
    assert "all_reduce_.default(" in lines[row["started"] - 1] and "wait_tensor" in lines[row["waited"] - 1]


def test_a_graph_without_nodes_gives_way_to_that_before_it(traced: Trace) -> None:
    """Where Inductor's cache gives no nodes, the collectives are those of AOTAutograd's graph."""
    artifacts = (replace(a, data={**a.data, "nodes": ()}) if a.stage == "post_grad" else a for a in traced.artifacts)
    rows = collectives(replace(traced, artifacts=tuple(artifacts)))
    assert sorted(row["operator"] for row in rows) == sorted(row["operator"] for row in collectives(traced))


class Layers(nn.Module):
    """Two layers with a collective each, of more than a bucket's bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(600, 600), nn.Linear(600, 600)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(functional.all_reduce(self.up(x), "sum", "0"))
        return functional.all_gather_tensor(self.down(hidden), 0, "0")  # type: ignore[no-any-return]


@pytest.mark.compile  # DistributedDataParallel is made in a group
def test_each_bucket_of_ddp_has_its_collectives(group: None) -> None:
    """DDPOptimizer makes a graph a bucket, all of one name: each has its own wrapper."""
    model = DistributedDataParallel(Layers(), bucket_cap_mb=1)
    with torch.no_grad():
        trace = explorer.trace(model, torch.ones(8, 600), target="h100")
    rows = collectives(trace)
    assert [row["operator"] for row in rows] == ["all_reduce", "all_gather_into_tensor"]
    assert len({row["wrapper"] for row in rows}) == 2
    for row in rows:
        assert row["operator"] in artifact_of(trace, row["wrapper"]).lines[row["started"] - 1]


def test_a_collective_without_a_start_keeps_its_place(traced: Trace) -> None:
    """It stays behind the one that the graph has before it, and is not put last."""
    rows = [row for row in collectives(traced) if row["started"] is not None]
    without = [rows[0], {**rows[1], "started": None}, *rows[2:]]
    assert [row["node"] for row in in_order(without)] == [row["node"] for row in rows]  # type: ignore[arg-type]
    assert [row["node"] for row in in_order(rows[::-1])] == [row["node"] for row in rows]  # type: ignore[arg-type]


def test_collectives_inside_a_cond_have_rows(zoo: Callable[[str], Trace]) -> None:
    """Those of both branches too, with their lines, bytes, and where they start and are waited for in the branch's own text."""
    trace = zoo("branching collectives h100")
    tensor = 64 * 64 * 4
    rows = {row["node"]: row for row in collectives(trace)}
    assert {name: (row["operator"], row["bytes"]) for name, row in rows.items()} == {
        "all_reduce": ("all_reduce", tensor),
        "true_graph_0.all_reduce": ("all_reduce", tensor),
        "false_graph_0.all_gather_into_tensor": ("all_gather_into_tensor", tensor),
    }
    assert rows["true_graph_0.all_reduce"]["code"] == 'return functional.all_reduce(x @ w, "sum", "0") + 1'
    for row in rows.values():
        lines = artifact_of(trace, row["wrapper"] or row["artifact"]).lines
        assert f"{row['operator']}" in lines[row["started"] - 1] and "wait_tensor" in lines[row["waited"] - 1]


def test_nodes_of_another_form_have_no_collectives(traced: Trace, tmp_path: Any) -> None:
    """A graph whose nodes are not those of FX, as a stage of the user's own may have, has none, and its page can be made."""
    nodes = tuple({"name": node["name"], "op": node["op"]} for node in traced.find("post_grad")[0].nodes)
    artifacts = (replace(a, data={**a.data, "nodes": nodes}) if a.stage == "post_grad" else a for a in traced.artifacts)
    assert list(collectives(replace(traced, artifacts=tuple(artifacts)))) == []
