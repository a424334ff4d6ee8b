"""What a program sends outside of its compiled graphs: in Python, in FSDP2's hooks, and by DDP's reducer in C++."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

import explorer
from explorer.capture.observe import eager_collectives as module
from explorer.capture.observe.eager_collectives import OPERATORS, in_buckets
from explorer.model.records import typed
from explorer.stages.torch_compile.eager_collective import EagerCollectives
from explorer.view.payload import payload
from tests.one_rank import group_of_one_rank

WORLD = 8
#: torch 2.13 has other names for some functions, which torch 2.11 does not have.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning")


@pytest.fixture
def group() -> Iterator[None]:
    distributed.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    yield
    distributed.destroy_process_group()


@pytest.fixture
def alone() -> Iterator[None]:
    if not distributed.is_gloo_available():
        pytest.skip("needs torch with gloo")
    with group_of_one_rank():
        yield


class Layers(nn.Module):
    """Four layers in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def sent(trace: explorer.Trace) -> EagerCollectives:
    (artifact,) = trace.find("eager_collective")
    return typed(EagerCollectives, artifact.data)


def kernels() -> list[str]:
    """What torch's dispatcher has for each collective."""
    return [torch._C._dispatch_dump(f"c10d::{name}") for name in OPERATORS]


def test_a_collective_in_python_has_a_row_and_the_dispatcher_is_left_as_it_was(group: None) -> None:
    """A row has the whole tensor's bytes, the group's ranks and the line; each overlapping recording has it."""
    before = kernels()
    x, whole = torch.ones(4, 4), torch.empty(WORLD * 4, 4)
    with explorer.record() as outer:
        with explorer.record() as inner:
            assert kernels() != before
            distributed.all_reduce(x)
        for _ in range(3):
            distributed.all_gather_into_tensor(whole, x)
    assert kernels() == before
    assert [(row.operator, row.runs) for row in sent(inner.trace).rows] == [("all_reduce", 1)]
    rows = sent(outer.trace).rows
    assert [(row.operator, row.runs, row.bytes) for row in rows] == [
        ("all_reduce", 1, 4 * 4 * 4),
        ("all_gather_into_tensor", 3, WORLD * 4 * 4 * 4),
    ]
    for row in rows:
        assert (row.sender, row.ranks, row.dtype, row.file) == ("Python", tuple(range(WORLD)), "float32", __file__)
        assert row.code.startswith(f"distributed.{row.operator}(")


def test_an_error_of_explorers_does_not_keep_a_collective_from_being_sent(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is in the tensor, and a Failure says what was lost."""

    def broken(*args: object) -> object:
        raise RuntimeError("injected")

    monkeypatch.setattr(module, "_row", broken)
    x = torch.ones(4)
    with explorer.record() as recording:
        assert distributed.all_reduce(x) is None
    assert x.tolist() == [1.0] * 4
    assert [(f.stage, f.message) for f in recording.trace.failures] == [("eager_collective", "RuntimeError: injected")]


def test_fsdp2_names_the_module_whose_parameters_it_gathers(group: None) -> None:
    """Each layer is gathered for its forward and its backward, which prefetches all but the last; its gradients are scattered."""
    model = Layers()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    with explorer.record() as recording:
        model(torch.ones(4, 512)).sum().backward()
    rows = sent(recording.trace).rows
    assert {row.sender for row in rows} == {"FSDP2"}
    names = [f"layers.{number}" for number in range(4)]
    assert [row.module for row in rows if row.hook == "pre_forward"] == names
    assert sorted(row.module for row in rows if row.hook == "pre_backward") == names
    assert [row.module for row in rows if row.prefetched] == names[2::-1]
    scattered = [row for row in rows if row.operator == "reduce_scatter_tensor"]
    assert [row.module for row in scattered] == names[::-1]
    layer_bytes = (512 * 512 + 512) * 4
    assert {row.bytes for row in rows} == {layer_bytes}
    assert scattered[-1].parameters == ("layers.0.weight", "layers.0.bias")


def test_the_table_has_a_row_for_what_was_sent_outside(group: None, tmp_path: Path) -> None:
    """It says who sent it and what each rank sends in a ring; a loaded trace has the same rows, and its page can be made."""
    layer = fully_shard(nn.Linear(512, 512))
    with explorer.record() as recording:
        layer(torch.ones(4, 512)).sum().backward()
    table = recording.trace.collectives.table
    whole = (512 * 512 + 512) * 4
    assert [(row["operator"], row["sent_by"], row["sent"]) for row in table] == [
        ("all_gather_into_tensor", "FSDP2 pre_forward of the outermost module", whole * 7 / 8),
        ("reduce_scatter_tensor", "FSDP2 post_backward of the outermost module", whole * 7 / 8),
    ]
    assert "2 collectives outside the graphs: FSDP2; t.collectives.table" in str(recording.trace)
    lines = recording.trace.text("eager_collective").splitlines()
    assert all(lines[row["started"] - 1].startswith(row["operator"]) for row in table)
    recording.trace.save(tmp_path / "t.json.gz")
    loaded = explorer.load(tmp_path / "t.json.gz")
    assert list(loaded.collectives.table) == list(table)
    shown = payload(loaded)["collectives"]["table"]
    assert [row["sent_by"] for row in shown] == [row["sent_by"] for row in table]


def test_several_senders_are_counted(group: None) -> None:
    """Of a program that sends in Python what FSDP2 sends too, the printed trace says how many each sends."""
    layer = fully_shard(nn.Linear(512, 512))
    with explorer.record() as recording:
        distributed.all_reduce(layer(torch.ones(4, 512)))
    assert "2 collectives outside the graphs: 1 by FSDP2, 1 by Python; t.collectives.table" in str(recording.trace)


def train(model: nn.Module, steps: int) -> list[torch.Tensor]:
    """The gradients after some steps."""
    for _ in range(steps):
        model(torch.ones(4, 512)).sum().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_ddp_names_the_parameters_of_each_bucket(alone: None, steps: int) -> None:
    """The first step reduces all parameters at once, later ones a layer in each bucket; as many as torch's profiler counts."""
    torch.manual_seed(0)
    plain = train(Layers(), steps)
    torch.manual_seed(0)
    model = DistributedDataParallel(Layers(), bucket_cap_mb=1)
    with torch.profiler.profile() as profile, explorer.record() as recording:
        gradients = train(model, steps)
    assert all(torch.equal(*pair) for pair in zip(plain, gradients, strict=True))
    rows = [row for row in sent(recording.trace).rows if row.operator == "all_reduce"]
    whole, *buckets = rows
    assert (whole.bucket, len(whole.parameters), whole.runs) == (0, 8, 1)
    assert [row.bucket for row in buckets] == [0, 1, 2, 3]
    assert [set(row.parameters) for row in buckets] == [{f"layers.{n}.weight", f"layers.{n}.bias"} for n in (3, 2, 1, 0)]
    assert {row.runs for row in buckets} == {steps - 1}
    counted = Counter(event.name for event in profile.events())
    assert counted["c10d::allreduce_"] == sum(row.runs for row in rows)


def test_a_bucket_has_its_names_beside_other_models(alone: None) -> None:
    """Another model of the same layers gives the same names, and one of other layers none."""
    model, _same, _other = (DistributedDataParallel(each, bucket_cap_mb=1) for each in (Layers(), Layers(), nn.Linear(3, 3)))
    with explorer.record() as recording:
        train(model, 2)
    buckets = [row for row in sent(recording.trace).rows if row.operator == "all_reduce"][1:]
    assert [set(row.parameters) for row in buckets] == [{f"layers.{n}.weight", f"layers.{n}.bias"} for n in (3, 2, 1, 0)]


def test_models_that_would_name_a_bucket_otherwise_name_none(alone: None) -> None:
    """Nothing says which of two models with the same sizes was trained."""
    model, _other = (DistributedDataParallel(each) for each in (nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3))))
    with explorer.record() as recording:
        for _ in range(2):
            model(torch.ones(1, 3)).sum().backward()
    assert {row.parameters for row in sent(recording.trace).rows} == {()}


def test_buckets_that_do_not_fit_exactly_have_no_parameters() -> None:
    """Sizes that split a parameter, or that are not all, name none."""
    parameters = [("c", 4), ("b", 8), ("a", 4)]
    assert in_buckets(parameters, [12, 4]) == [("c", "b"), ("a",)]
    assert in_buckets(parameters, [8, 8]) == [] == in_buckets(parameters, [12])


def test_a_profile_of_this_process_has_the_times_of_gloo(alone: None) -> None:
    """Each call has the seconds of gloo's span in the profile, though torch marks it as asynchronous."""
    with torch.profiler.profile(acc_events=True) as profile, explorer.record() as recording:
        for _ in range(3):
            distributed.all_reduce(torch.ones(4))
    (row,) = recording.trace.attach(profile).collectives.table
    spans = sorted(event.time_range.elapsed_us() for event in profile.events() if event.name == "gloo:all_reduce")
    assert len(spans) == row["runs"] == 3 and row["seconds"] == pytest.approx(spans[1] / 1e6)


class Sum(nn.Module):
    """Its compiled part sends a collective in the graph, and its Python part one outside."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch.distributed import _functional_collectives as functional

        return functional.all_reduce(x.sin(), "sum", "0").relu()


@pytest.mark.compile
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_a_collective_of_a_graph_is_none_outside(group: None, backend: str) -> None:
    """The graph's all_reduce has no row; the one after it stands behind the graph, which Inductor's callable names."""
    with explorer.record() as recording:
        y = torch.compile(Sum(), backend=backend)(torch.ones(4, 4))
        distributed.broadcast(y, 0)
    data = sent(recording.trace)
    assert [row.operator for row in data.rows] == ["broadcast"]
    ran = [(graph.frame, graph.graph) for graph in data.graphs]
    assert ran == [(a.frame, a.graph) for a in recording.trace.find("post_grad")]
    assert len(ran) == (backend == "inductor")
    assert all(f"after {frame} {graph}" in recording.trace.text("eager_collective") for frame, graph in ran)
