"""Fake and meta tensors for a named GPU: models of any size compile without their memory; verbs that need numbers say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import explorer
from tests.facts import says

pytestmark = pytest.mark.compile

WIDTH, INNER = 8192, 28672


class Block(torch.nn.Module):
    """A layer of 70B widths with a tied weight, a buffer and positions that it makes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, INNER, bias=False)
        self.down = torch.nn.Linear(INNER, WIDTH, bias=False)
        self.tied = torch.nn.Linear(WIDTH, INNER, bias=False)
        self.tied.weight = self.up.weight
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[0], device=x.device)
        return self.down(torch.relu(self.up(x)) * self.tied(x)) * self.scale + torch.cos(positions[:, None] * 0.5)


def fake() -> Any:
    return FakeTensorMode()


def meta() -> Any:
    return torch.device("meta")


@pytest.fixture(scope="module", params=[fake, meta])
def large(request: pytest.FixtureRequest) -> Iterator[explorer.Trace]:
    """The layer, which would take 1.9 GB, traced for a B200 without data."""
    with request.param():
        module, x = Block(), torch.randn(64, WIDTH)
    before = {name: id(tensor) for name, tensor in (*module.named_parameters(), *module.named_buffers())}
    yield explorer.trace(module, x, target="b200")
    assert before == {name: id(tensor) for name, tensor in (*module.named_parameters(), *module.named_buffers())}


@pytest.mark.filterwarnings("ignore:TensorFloat32")
def test_a_model_without_data_is_traced_for_a_named_gpu(large: explorer.Trace) -> None:
    """Every stage down to PTX, memory and estimates are those of the full size, and nothing was computed."""
    assert not large.failures and large.kernels[0].text("ptx")
    (inputs,) = [line for line in large.text("post_grad").splitlines() if "def forward" in line]
    assert inputs.count(f"f32[{INNER}, {WIDTH}]") == 1, "the tied weight is one input"
    assert any(row["seconds"] for row in large.kernels.table)


VERBS: dict[str, Callable[[explorer.Trace], object]] = {
    "result": lambda t: t.live.result,
    "run": lambda t: t.live.run(),
    "checked": lambda t: t.check(),
}


@pytest.mark.parametrize("what", VERBS)
def test_what_needs_numbers_says_why_it_cannot(large: explorer.Trace, what: str) -> None:
    """result, run and check name the reason, what there is, and what to do."""
    with pytest.raises(explorer.errors.InputError, match=says("no data", what, "real tensors")):
        VERBS[what](large)


@pytest.mark.parametrize("make", [fake, meta])
def test_a_device_that_is_here_refuses_tensors_without_data(make: Callable[[], Any]) -> None:
    """For the CPU the function would run: the error names the tensor and says to name a GPU."""
    with make():
        x = torch.randn(8)
    for target in ("cpu", "auto"):
        with pytest.raises(explorer.errors.InputError, match=says("args[0]", "no data", "target='h100'")):
            explorer.trace(torch.sin, x, target=target)


def test_a_what_if_compares_without_a_check() -> None:
    """The compile is made anew and its figures compared; the answer says that nothing was checked."""
    with FakeTensorMode():
        x = torch.randn(64, 64)
    changed = explorer.trace(lambda x: x.sin().sum() + x.cos(), x, target="h100").what_if(options={"max_fusion_size": 1})
    assert changed.equal is None and "no data" in str(changed)


def test_a_hand_written_kernel_takes_tensors_without_data() -> None:
    """trace_kernel compiles for them as for real ones; running says why it cannot, and so does a launch that is recorded."""
    triton = pytest.importorskip("triton")
    from tests.tracing.recording.test_handwritten import add

    real = [torch.randn(1024) for _ in range(3)]
    with FakeTensorMode():
        empty = [torch.randn(1024) for _ in range(3)]
    nowhere = [torch.randn(1024, device="meta") for _ in range(3)]
    texts = set()
    for tensors in (real, empty, nowhere):
        trace = explorer.trace(add, *tensors, 1024, BLOCK=128, grid=(8,), target="h100", sass=False)
        texts.add(trace.text("ttgir"))
        if tensors is not real:
            with pytest.raises(explorer.errors.InputError, match="no data"):
                trace.live.run()
            with explorer.record("h100") as recording, pytest.raises(explorer.errors.InterpretError, match="no data"):
                add[(triton.cdiv(1024, 128),)](*tensors, 1024, BLOCK=128)
            assert recording.trace.kernels[0].text("ptx")
    assert len(texts) == 1


def test_tensor_parallel_modules_are_traced_for_a_named_gpu() -> None:
    """A parallelized module on a mesh of fake processes: its collective is in the code, and the check holds."""
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available() or distributed.is_initialized():
        pytest.skip("torch.distributed is not there, or in use")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    try:
        mesh = init_device_mesh("cpu", (4,))
        module = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
        parallel = parallelize_module(module, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        trace = explorer.trace(parallel, torch.randn(8, 64), target="h100")
        assert not trace.failures and "_c10d_functional.all_reduce" in trace.text("output_code")
        assert "cuda:0" in trace.text("post_grad") and trace.kernels[0].text("ptx")
        assert mesh.device_type == "cpu"
        assert [row["equal"] for row in trace.check()] == [True]
    finally:
        distributed.destroy_process_group()
