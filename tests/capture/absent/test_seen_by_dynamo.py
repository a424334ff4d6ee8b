"""A program that is traced for a GPU you don't have is told of that GPU where it asks: its tensors, torch.cuda, autocast."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.capture.absent.seen_by_dynamo import seen_by_dynamo
from explorer.lab.live.call import Call, run_call
from explorer.reference.gpus.figures import Target
from tests.facts import says

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.filterwarnings("ignore:CUDA is not available"),  # torch's own, of autocast outside of a trace
    pytest.mark.skipif(torch.cuda.is_available(), reason="here torch.cuda answers for the GPU that is attached"),
]


def where(x: torch.Tensor) -> torch.Tensor:
    gpu = x.is_cuda and x.device == torch.device("cuda", 0) and x.get_device() == 0 and "cuda" in x.type()
    return x.sin() if gpu else x.cos()


def parameters(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if (x * 2).device.type == "cuda" else x.cos()


def moved(x: torch.Tensor) -> torch.Tensor:
    return x.to("cuda").sin() + x.cuda(non_blocking=True) + x.to(device="cuda:0", dtype=torch.float64).float()


def made(x: torch.Tensor) -> torch.Tensor:
    return (x + torch.zeros(64, device="cuda") + torch.ones(64, device=x.device) + torch.full_like(x, 2)).sin()


def pinned(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(64, pin_memory=True).copy_(x).to("cuda", non_blocking=True).sin()


def on_the_cpu(x: torch.Tensor) -> torch.Tensor:
    numbers = torch.arange(64)
    stays = {(numbers + 1).device.type, x.cpu().device.type, torch.ones(3, device="cpu").device.type}
    return x.sin() + numbers.to(x.device) if stays == {"cpu"} else x.cos()


def counted(x: torch.Tensor) -> torch.Tensor:
    return torch.histc(x.int() if x.is_cuda else x, bins=4, min=0, max=3) * x.sin().sum().int()


def available(x: torch.Tensor) -> torch.Tensor:
    capable = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
    return x.sin() if capable and torch.cuda.current_device() == 0 else x.cos()


def capable(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if torch.cuda.get_device_capability(x.device) >= (8, 0) else x.cos()


def waited(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch.cuda.synchronize()
    with torch.cuda.device(0):
        return y * 2


def cast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda"):
        on = torch.is_autocast_enabled("cuda") and torch.is_autocast_enabled()
        return x.sin().to(torch.get_autocast_dtype("cuda")) if on else x.cos()


def graph_breaks_on_the_gpu(function: Callable[..., Any]) -> int:
    """None, but that torch 2.11 cannot have `torch.cuda.synchronize` in a graph."""
    from torch._dynamo.trace_rules import torch_non_c_binding_in_graph_functions as in_graph

    return int(function is waited and "torch.cuda.synchronize" not in in_graph)


@pytest.mark.compile
@pytest.mark.parametrize(
    "function",
    [where, parameters, moved, made, pinned, on_the_cpu, counted, available, capable, waited, cast],
    ids=lambda function: function.__name__,
)
def test_a_program_takes_the_way_that_it_takes_on_the_gpu(function: Callable[..., Any]) -> None:
    """What is compiled is the GPU's branch, without a break of ours, and eager takes the same one in a check."""
    trace = explorer.trace(function, torch.arange(64) / 64, target="h100")
    assert trace.failures == () and len(trace.dynamo.graph_breaks) == graph_breaks_on_the_gpu(function)
    assert "math.sin(" in "".join(k.source for k in trace.kernels) and "math.cos(" not in "".join(k.source for k in trace.kernels)
    assert [row["equal"] for row in trace.check()] == [True]


@pytest.mark.compile
def test_what_ends_a_graph_on_a_gpu_ends_it_here_and_is_answered_then() -> None:
    """Names, figures and counts are asked between two graphs; the GPU is the one that is named, and its memory is empty."""

    def function(x: torch.Tensor) -> torch.Tensor:
        named = "H100" in torch.cuda.get_device_name() and torch.cuda.device_count() == 1 and torch.cuda.memory_allocated() == 0
        return x.sin() * torch.cuda.get_device_properties(0).multi_processor_count if named else x.cos()

    trace = explorer.trace(function, torch.randn(64), target="h100")
    assert sum(k.source.count("math.sin(") for k in trace.kernels) == 1
    assert [row["equal"] for row in trace.check()] == [True]


@pytest.mark.compile
def test_an_expert_model_is_routed_as_on_the_gpu() -> None:
    """A router that counts in integers on a GPU, and multiplies by group there."""

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 64, 64, dtype=torch.bfloat16))

        def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
            counts = torch.histc(chosen.float() if chosen.device.type == "cpu" else chosen.int(), bins=4, min=0, max=3)
            ends = counts.cumsum(0, dtype=torch.int32)
            if self.weight.device.type == "cpu" or torch.cuda.get_device_capability(self.weight.device) < (8, 0):
                return x
            return torch._grouped_mm(x, self.weight, offs=ends)

    args = torch.randn(64, 64, dtype=torch.bfloat16), torch.arange(64) // 16
    trace = explorer.trace(Experts(), *args, target="h100")
    assert trace.failures == ()
    assert "_grouped_mm" in trace.text("output_code") and "aten.histc.default" in trace.text("output_code")
    assert "torch.float32" not in trace.text("dynamo")
    assert [row["equal"] for row in trace.check()] == [True]


@pytest.mark.compile
def test_jiterator_says_that_it_needs_its_gpu() -> None:
    """The GPU's driver compiles its functions, so the error says what to do instead."""
    square = torch.cuda.jiterator._create_jit_fn("template <typename T> T square(T x) { return x * x; }")
    with pytest.raises(explorer.errors.InputError, match=says("jiterator", "driver", "target='cuda'", "Triton kernel")):
        explorer.trace(lambda x: square(x), torch.randn(8), target="h100")


@pytest.mark.compile
def test_a_recorded_program_is_told_of_the_gpu_and_afterwards_there_is_none() -> None:
    """Between its compiles a program asks torch.cuda too; after the recording it is as before."""
    with explorer.record("h100") as recording:
        assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert torch.is_autocast_enabled("cuda")
            assert torch.compile(lambda a: a @ a)(torch.randn(16, 16)).dtype == torch.bfloat16
    assert "bf16[16, 16]" in recording.trace.text("post_grad")
    assert not torch.cuda.is_available() and not torch.is_autocast_enabled("cuda")
    assert not hasattr(torch._C, "_cuda_getDeviceCount") or torch._C._cuda_getDeviceCount() == 0


def test_eager_mode_sees_the_gpu_only_where_it_is_checked() -> None:
    """A call of the program itself, for a target, answers for the GPU; without one it does not."""
    x = torch.randn(8)
    target = explorer.Target.parse("h100")
    assert torch.equal(run_call(where, Call(where, (x,), {}, False, target))[0], x.sin())
    assert torch.equal(run_call(where, Call(where, (x,), {}))[0], x.cos())


# Eager mode of a recorded program ------------------------------------------------------------------------------------


@pytest.mark.compile
def test_a_recorded_program_makes_tensors_on_the_gpu() -> None:
    """Factories, moves, modules and default devices name the GPU; where a tensor is is said; afterwards all is as before."""
    before = torch.ones(3)
    compiled = torch.compile(lambda x: (x * 2).sum())
    with explorer.record("h100") as recording:
        assert str(before.device) == "cpu"  # nothing has been put on the GPU
        x = torch.ones(4, device="cuda", requires_grad=True)
        loss = compiled(x)
        loss.backward()
        assert [str(t.device) for t in (x, loss, x.grad, x.new_zeros(2), x.cpu())] == ["cuda:0"] * 4 + ["cpu"]
        assert x.is_cuda and x.get_device() == 0 and x.detach().type() == "torch.cuda.FloatTensor"
        with torch.device("cuda"):
            assert torch.ones(3).is_cuda
        layer = torch.nn.Linear(4, 2)
        assert not layer(torch.ones(1, 4)).is_cuda
        assert layer.cuda()(torch.ones(1, 4, device=torch.device("cuda"))).is_cuda
        here = torch.ones(2)
        there = here.to("cuda").add_(1)
        assert not here.is_cuda and there.is_cuda and here.tolist() == [1, 1] and there.tolist() == [2, 2]
    assert not recording.trace.failures and recording.trace.kernels
    assert x.device.type == "cpu" and not torch.overrides._get_current_function_mode_stack()
    with pytest.raises((RuntimeError, AssertionError, NotImplementedError)):
        torch.ones(4, device="cuda")


@pytest.mark.compile
def test_another_thread_is_not_told_of_tensors_on_the_gpu() -> None:
    """What another thread makes meanwhile is made as before."""
    with explorer.record("h100"), ThreadPoolExecutor(1) as other:
        torch.ones(1, device="cuda")
        assert other.submit(lambda: str(torch.ones(3).device)).result() == "cpu"
        with pytest.raises((RuntimeError, AssertionError, NotImplementedError)):
            other.submit(lambda: torch.ones(3, device="cuda")).result()


#: What an error on a stream or an event has to tell.
OUT = r"(?s)\A(?=.*\bstreams?\b)(?=.*\bevents?\b)(?=.*target='cuda')"


def streamed(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.stream(torch.cuda.Stream()):
        return x.sin()


def eventful(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.Event().record()
    return x.sin()


def current(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.current_stream().synchronize()
    return x.sin()


@pytest.mark.compile
@pytest.mark.parametrize("function", [streamed, eventful, current])
def test_streams_say_that_they_need_their_gpu(function: Callable[..., Any]) -> None:
    """A stream or an event in a compiled function fails with what to do."""
    with pytest.raises(explorer.ExplorerError, match=OUT):
        explorer.trace(function, torch.randn(64), target="h100").raise_for_failures()


OF_A_DRIVER = {
    "torch.cuda.Stream": (lambda: torch.cuda.Stream(), OUT),
    "torch.cuda.Event": (lambda: torch.cuda.Event().record(), OUT),
    "torch.Stream": (lambda: torch.Stream("cuda"), OUT),
    "torch.Generator": (lambda: torch.Generator("cuda"), says("torch.manual_seed", "target='cuda'")),
}


@pytest.mark.compile
@pytest.mark.parametrize("name", OF_A_DRIVER)
def test_what_a_driver_makes_in_eager_code_fails_with_advice(name: str) -> None:
    """In a program that is recorded for a GPU you don't have, the error says what to do, or a note of torch's own error."""
    make, advice = OF_A_DRIVER[name]
    with pytest.raises((RuntimeError, explorer.errors.InputError)) as raised, explorer.record("h100"):
        make()
    refused = isinstance(raised.value, explorer.errors.InputError)
    said = [str(raised.value)] if refused else getattr(raised.value, "__notes__", [])
    assert any(re.search(advice, text) for text in said), repr(raised.value)
    with pytest.raises(RuntimeError) as raised:
        make()
    assert not hasattr(raised.value, "__notes__")


@pytest.mark.compile
@pytest.mark.parametrize("target", ["xpu", "xpu:0"])
def test_xpu_is_told_to_name_its_model(target: str) -> None:
    """ "xpu" is no target; the models are."""
    with pytest.raises(explorer.errors.InputError, match=says(repr(target), "Intel GPU", "'max1100'")):
        explorer.trace(torch.sin, torch.randn(8), target=target)


def quantiles(x: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.quantile(x, q, dim=0), torch.nanquantile(x, 0.3), torch.quantile(x, 0.5, dim=1, keepdim=True)


@pytest.mark.compile
def test_quantile_breaks_no_graph_as_on_the_gpu() -> None:
    """Until torch 2.11 at least it reads its quantiles' values on the CPU alone, where a graph breaks."""
    x, q = torch.randn(5, 3, requires_grad=True), torch.tensor([0.2, 0.4])
    trace = explorer.trace(quantiles, x, q, target="h100", train=True)
    assert not trace.failures and not trace.dynamo.graph_breaks
    assert {kernel.artifact.graph for kernel in trace.kernels} == {"forward", "backward"}
    assert all(row["equal"] for row in trace.check())


def test_quantile_sees_no_fake_tensor_on_the_cpu() -> None:
    """Its operators are called on the meta device, its results are on the CPU and require a gradient, and all is put back."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses import FakeTensorMode
    from torch._subclasses.fake_tensor import DataDependentOutputException
    from torch.utils._python_dispatch import TorchDispatchMode

    class Sorts(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.sort.default:
                devices.append(args[0].device.type)
            return func(*args, **(kwargs or {}))

    def results() -> list[torch.Tensor]:
        with FakeTensorMode(), enable_python_dispatcher(), Sorts():
            x, q = torch.randn(5, 3, requires_grad=True), torch.randn(2)
            return [torch.quantile(x, q, dim=0), torch.nanquantile(x, q), torch.quantile(x, 0.3)]

    def devices_without_the_gpu() -> object:
        devices.clear()
        try:
            results()
        except DataDependentOutputException as error:  # of torch 2.11, which reads the quantiles' values
            return str(error)
        return list(devices)

    devices: list[str] = []
    before = devices_without_the_gpu()
    assert before in (["cpu"] * 3, "aten.equal.default")
    devices.clear()
    with seen_by_dynamo(Target.parse("h100"), lambda: None):
        made = results()
    assert devices == ["meta"] * 3
    assert [(result.device.type, tuple(result.shape)) for result in made] == [("cpu", (2, 3)), ("cpu", (2,)), ("cpu", ())]
    assert all(result.requires_grad and not result.is_leaf for result in made)
    assert devices_without_the_gpu() == before
    assert not torch.ops.aten.quantile.default.py_kernels


@pytest.mark.compile
def test_a_frame_begins_without_a_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that is built for CUDA, on a machine without a GPU, can name no stream; a trace needs none."""

    def driver(*args: object) -> None:
        raise RuntimeError("CUDA error: no CUDA-capable device is detected")

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: torch.cuda.is_available())
    monkeypatch.setattr(torch.accelerator, "current_stream", driver)
    trace = explorer.trace(lambda x: x.sin() + 1, torch.randn(8), target="h100")
    assert trace.failures == () and len(trace.kernels) == 1
