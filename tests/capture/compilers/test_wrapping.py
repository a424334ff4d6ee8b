"""What if a module were wrapped otherwise: DDP's bucket size and FSDP2's resharding, each from a step that is run so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import distributed

import explorer
from explorer.errors import InputError
from explorer.stages.torch_compile.eager_collective import BUCKET_SIZE, RESHARDING
from explorer.tracing.traced.what_if import WhatIf
from tests.one_rank import TRAINING
from tests.sharded_models import LAYER_BYTES, LAYERS, ONE_LAYER, WIDTH, batch, in_ddp, sharded, trained

pytestmark = TRAINING
#: Two ranks, so that a layer's bucket takes less time than its backward.
WORLD = 2
EXPOSED, PEAK = "exposed_seconds", "step_peak_bytes"


@pytest.fixture(scope="module")
def cluster() -> Iterator[explorer.Cluster]:
    with explorer.Cluster("h100", WORLD, interconnect=450e9) as cluster:
        yield cluster


def hidden(model: torch.nn.Module, cluster: explorer.Cluster) -> explorer.Trace:
    """The trace of a step with a batch whose backward takes longer than a bucket."""
    return explorer.trace(model, torch.ones(4096, WIDTH), target=cluster, train=True)


def exchanged(trace: explorer.Trace, operator: str) -> list[int]:
    """The bytes of each collective of the last step."""
    return [row["bytes"] for row in trace.collectives.table if row["operator"] == operator and row["exposed"] is not None]


def assigned(megabytes: float) -> list[int]:
    """The bytes of the buckets that torch assigns."""
    parameters = list(reversed(list(in_ddp().parameters())))
    buckets, _ = distributed._compute_bucket_assignment_by_size(parameters, [int(megabytes * 2**20)])
    return [sum(parameters[place].nbytes for place in bucket) for bucket in buckets]


def seconds(changed: WhatIf, moment: str) -> float:
    found = changed.figure(EXPOSED)[moment]
    assert isinstance(found, float)
    return found


def test_one_bucket_for_all_is_named_as_worse_and_the_advice_is_proved(cluster: explorer.Cluster) -> None:
    """The buckets are torch's at each size; the model and its buckets are afterwards what they were."""
    model = in_ddp()
    trace = hidden(model, cluster)
    before = dict(vars(model))
    assert exchanged(trace, "all_reduce") == assigned(ONE_LAYER) == [LAYER_BYTES] * LAYERS
    for megabytes in (1.5, 500):
        changed = trace.what_if(settings={BUCKET_SIZE: megabytes})
        assert exchanged(changed.after, "all_reduce") == assigned(megabytes)
        assert seconds(changed, "before") < seconds(changed, "after")
        assert changed.equal is None and "hooks" in changed.note
        assert changed.figure(PEAK)["change"] is not None
    assert vars(model) == before and all(vars(model)[name] is before[name] for name in ("reducer", "logger"))
    again = trace.what_if(settings={BUCKET_SIZE: ONE_LAYER})
    assert exchanged(again.after, "all_reduce") == [LAYER_BYTES] * LAYERS
    assert seconds(again, "before") == pytest.approx(seconds(again, "after"))

    planted = hidden(in_ddp(500), cluster)
    (verdict,) = (each for each in planted.advise(prove=True, limit=0) if each.kind == "exposed collectives")
    assert verdict.what_if == {"settings": {BUCKET_SIZE: 1.0}} and not verdict.why_unproved
    assert verdict.proof is not None and verdict.proof.after < verdict.proof.before


def test_parameters_that_are_kept_are_not_gathered_again(cluster: explorer.Cluster) -> None:
    """Each layer is gathered once, less is exposed, and the next trace gathers twice again."""
    model = sharded()
    trace = trained(model, cluster)
    whole = (LAYER_BYTES + 4 * WIDTH) // LAYER_BYTES * LAYER_BYTES
    assert exchanged(trace, "all_gather_into_tensor") == [whole] * 2 * LAYERS
    states = [layer._get_fsdp_state() for layer in model.layers]  # type: ignore[attr-defined,operator]
    before = [state._auto_reshard_after_forward for state in states]
    changed = trace.what_if(settings={RESHARDING: False})
    assert exchanged(changed.after, "all_gather_into_tensor") == [whole] * LAYERS
    assert len(changed.after.kernels) == len(trace.kernels) > 0, "blocks that were compiled in place are compiled again"
    assert seconds(changed, "after") < seconds(changed, "before")
    assert [state._auto_reshard_after_forward for state in states] == before
    again = trace.what_if(settings={RESHARDING: True})
    assert again.figure(EXPOSED)["change"] == again.figure(PEAK)["change"] == 0


def test_what_cannot_be_changed_says_so(cluster: explorer.Cluster) -> None:
    """A value that torch does not take, and an argument that no module has."""
    ddp, fsdp2 = in_ddp(), sharded()
    of_ddp = explorer.trace(ddp, batch(), target=cluster, train=True)
    for value, said in ((0, "above 0"), ("4", "above 0"), (0.5, "below 1")):
        with pytest.raises(InputError, match=said):
            of_ddp.what_if(settings={BUCKET_SIZE: value})
    with pytest.raises(InputError, match="would change nothing"):
        of_ddp.what_if(settings={RESHARDING: False})
    of_fsdp2 = explorer.trace(fsdp2, batch(), target=cluster, train=True)
    with pytest.raises(InputError, match="True or False"):
        of_fsdp2.what_if(settings={RESHARDING: 2})
