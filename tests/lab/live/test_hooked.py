"""A step of DDP or FSDP2 on a cluster you don't have: what their hooks send, and what the step leaves of the program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import distributed
from torch.distributed.fsdp import fully_shard

import explorer
from explorer.errors import NoVerbError
from explorer.lab.live.hooked import hooked_modules
from explorer.model.values import Table
from tests.one_rank import TRAINING
from tests.sharded_models import LAYER_BYTES, LAYERS, ONE_LAYER, WIDTH, WORLD, Layers, batch, in_ddp, sharded, trained

pytestmark = TRAINING


@pytest.fixture(scope="module")
def cluster() -> Iterator[explorer.Cluster]:
    with explorer.Cluster("h100", WORLD) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ddp(cluster: explorer.Cluster) -> explorer.Trace:
    return trained(in_ddp(), cluster)


@pytest.fixture(scope="module")
def fsdp2(cluster: explorer.Cluster) -> explorer.Trace:
    return trained(sharded(), cluster)


def last_step(trace: explorer.Trace) -> Table:
    """The collectives of the last step: what came before has no estimate."""
    return Table(row for row in trace.collectives.table if row["exposed"] is not None)


def test_ddp_reduces_the_buckets_that_torch_assigns(ddp: explorer.Trace) -> None:
    """One row per bucket, with torch's own assignment of parameters, their bytes, and the module that has them."""
    assert not ddp.failures
    parameters = list(reversed(list(Layers().named_parameters())))  # the order in which gradients are there
    limit = int(ONE_LAYER * 2**20)
    assigned, _ = distributed._compute_bucket_assignment_by_size([each for _, each in parameters], [limit])
    sizes = [sum(parameters[place][1].nbytes for place in bucket) for bucket in assigned]
    rows = last_step(ddp)
    assert [row["bytes"] for row in rows] == sizes == [LAYER_BYTES] * LAYERS
    modules = [parameters[bucket[0]][0].rpartition(".")[0] for bucket in assigned]
    assert [row["module"] for row in rows] == modules
    for number, (row, module) in enumerate(zip(rows, modules, strict=True)):
        assert row["sent_by"].startswith(f"DDP bucket {number}: 2 parameters, {module}.")


def test_a_bucket_names_the_kernels_that_can_run_beside_it(ddp: explorer.Trace) -> None:
    """The first is hidden by the backwards of the layers below, the last by nothing."""
    first, *_, last = last_step(ddp)
    assert "extern_kernels.mm" in first["between"] and any(name.startswith("triton_") for name in first["between"])
    assert first["exposed"] < first["seconds"] and first["meanwhile"] > 0
    assert (last["between"], last["meanwhile"]) == ((), 0) and last["exposed"] == pytest.approx(last["seconds"])


def test_fsdp2_gathers_for_forward_and_backward_and_scatters(fsdp2: explorer.Trace) -> None:
    """Nine collectives of a layer's bytes; the first gather has nothing beside it, and explorer itself sends nothing."""
    names = [f"layers.{number}" for number in range(LAYERS)]
    rows = fsdp2.collectives.table
    assert len(rows) == len(last_step(fsdp2)) == 3 * LAYERS
    assert all(row["sent_by"].startswith("FSDP2") and row["bytes"] == LAYER_BYTES for row in rows)
    assert [row["module"] for row in rows if "pre_forward" in row["sent_by"]] == names
    assert [row["module"] for row in rows if row["operator"] == "reduce_scatter_tensor"] == names[::-1]
    first, second, *_ = rows
    assert first["between"] == () and second["between"] and second["exposed"] < first["exposed"]


@pytest.mark.parametrize("wrapped", [in_ddp, sharded])
def test_the_gradients_are_given_and_those_of_the_program_left(cluster: explorer.Cluster, wrapped: object) -> None:
    """They are eager's, as often as each step of a training loop has them, and `.grad` is what it was."""
    assert callable(wrapped)
    model = wrapped()
    mine = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.grad = mine[name]
    trace = trained(model, cluster)
    assert all(parameter.grad is mine[name] for name, parameter in model.named_parameters())
    gradients = trace.live.gradients
    assert set(gradients) == set(mine) and all(gradient is not None for gradient in gradients.values())
    model(batch()).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name])


def test_a_function_around_the_model_trains_it_too(cluster: explorer.Cluster) -> None:
    """The modules are found that a function reaches, and no others."""
    model, other = in_ddp(), sharded()
    assert hooked_modules(lambda x: model(x).sum()) == (model,)
    assert set(hooked_modules(other)) == {other, *other.layers}
    assert hooked_modules(model.module.layers[0].linear.forward) == (model,), "its parameters have the hooks"
    assert hooked_modules(Layers()) == ()


def test_the_call_is_not_repeated(fsdp2: explorer.Trace) -> None:
    """Its hooks keep what explorer cannot put back: `check` says so, and what to trace instead."""
    with pytest.raises(NoVerbError, match="before it is wrapped"):
        fsdp2.check()


def test_a_model_of_one_module_is_sharded_as_a_whole(cluster: explorer.Cluster) -> None:
    """The bytes are those of the padded shards: a bias of 3 is sent as one element for each of 8 ranks."""
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 3))
    fully_shard(model)
    rows = trained(model, cluster).collectives.table
    assert {row["bytes"] for row in rows} == {(WORLD * WIDTH + WORLD) * 4}
