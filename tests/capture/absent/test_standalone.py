"""`torch._inductor.standalone_compile` under a recording: an absent GPU's kernels are recorded, artifacts are the program's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import explorer

pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")

pytestmark = pytest.mark.compile


def running_sum(x: torch.Tensor) -> torch.Tensor:
    """A Triton kernel on a GPU, and a call of ATen on the CPU, which needs no g++."""
    return x.cumsum(0)


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of each test's own: an artifact is an entry of them."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()


def saving(path: Path, *, aot: bool = False, sizes: str = "from_example_inputs") -> Callable[..., object]:
    """A backend that compiles with standalone_compile and saves the artifact at `path`."""

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        compiled = torch._inductor.standalone_compile(graph, inputs, dynamic_shapes=sizes, options={}, aot=aot)
        compiled.save(path=str(path))
        return compiled

    return backend


@pytest.mark.parametrize(
    ("aot", "sizes"), [(False, "from_example_inputs"), (True, "from_graph"), (False, "from_tracing_context")]
)
def test_an_artifact_that_is_compiled_while_recording_for_an_absent_gpu_is_saved(aot: bool, sizes: str, tmp_path: Path) -> None:
    """The GPU's kernel is recorded with its ladder; the program gets its result, and an artifact that it can save."""
    x = torch.randn(64)
    with explorer.record("h100") as recorded:
        result = torch.compile(running_sum, backend=saving(tmp_path / "saved", aot=aot, sizes=sizes))(x)
    assert torch.allclose(result, x.cumsum(0))
    assert (tmp_path / "saved").stat().st_size
    trace = recorded.trace
    assert trace.failures == () and [kernel.language for kernel in trace.kernels] == ["triton"]
    assert "tl.associative_scan" in trace.text("kernel") and trace.find("ptx")
    assert "cpu" not in trace.text("output_code").split("def call")[1], "what is compiled for the CPU is the program's affair"


def test_an_artifact_of_a_recording_for_an_absent_gpu_loads_and_runs_here(tmp_path: Path) -> None:
    """What was saved is for this machine, as without explorer."""
    x = torch.randn(64)
    with explorer.record("h100"):
        torch.compile(running_sum, backend=saving(tmp_path / "saved"))(x)
    loaded = torch._inductor.CompiledArtifact.load(path=str(tmp_path / "saved"))
    assert torch.allclose(loaded(x)[0], x.cumsum(0))


def test_what_is_compiled_ahead_of_time_while_recording_for_an_absent_gpu_runs_and_is_saved(tmp_path: Path) -> None:
    """`aot_compile` gives a function for this machine, inside the recording and after a load; the GPU's kernel is recorded."""
    pytest.importorskip("torch._dynamo.aot_compile", reason="this torch compiles nothing ahead of time")
    x = torch.randn(64)
    with torch._dynamo.config.patch(enable_aot_compile=True), explorer.record("h100") as recorded:
        ahead = torch.compile(running_sum, fullgraph=True).aot_compile(((x,), {}))
        assert torch.allclose(ahead(x), x.cumsum(0))
        ahead.save_compiled_function(str(tmp_path / "ahead"))
    with open(tmp_path / "ahead", "rb") as file:
        assert torch.allclose(torch.compiler.load_compiled_function(file)(x), x.cumsum(0))
    assert recorded.trace.failures == () and [kernel.language for kernel in recorded.trace.kernels] == ["triton"]


def test_the_gpus_code_of_a_standalone_artifact_is_checked() -> None:
    """`check` interprets the kernel that was compiled for the GPU, not the artifact for the CPU."""

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        return torch._inductor.standalone_compile(graph, inputs, dynamic_shapes="from_example_inputs", options={})

    trace = explorer.trace(running_sum, torch.randn(64), backend=backend, target="h100")
    assert trace.failures == ()
    (row,) = trace.check()
    assert row["equal"] and row["interpreted"]


def test_a_standalone_artifact_that_is_recorded_for_this_machine_is_saved(tmp_path: Path) -> None:
    """A plain recording has its output code, and the program its artifact."""
    x = torch.randn(48)
    with explorer.record(fresh=True) as recorded:
        result = torch.compile(running_sum, backend=saving(tmp_path / "saved"))(x)
    assert torch.allclose(result, x.cumsum(0)) and (tmp_path / "saved").stat().st_size
    assert recorded.trace.failures == () and "aten.cumsum" in recorded.trace.text("output_code")


@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_an_artifact_of_a_trace_is_saved_and_its_compile_is_cold(target: str, tmp_path: Path) -> None:
    """A trace reads no cache, also where the program's artifact is an entry of one: the second has every stage too."""
    x = torch.randn(32)
    for name in ("first", "second"):
        trace = explorer.trace(running_sum, x, backend=saving(tmp_path / name), target=target)
        assert trace.failures == () and trace.find("ir_pre_fusion") and trace.find("output_code")
        loaded = torch._inductor.CompiledArtifact.load(path=str(tmp_path / name))
        assert torch.allclose(loaded(x)[0], x.cumsum(0))


def test_an_artifact_that_the_cache_has_is_saved_and_loaded_while_recording_for_an_absent_gpu(tmp_path: Path) -> None:
    """Torch compares triton's driver with the cache entry's: it is this machine's, which may have none."""
    x = torch.randn(40)
    for name in ("first", "second"):
        torch._dynamo.reset()
        with explorer.record("h100") as recorded:
            torch.compile(running_sum, backend=saving(tmp_path / name))(x)
            loaded = torch._inductor.CompiledArtifact.load(path=str(tmp_path / name))
        assert recorded.trace.failures == () and torch.allclose(loaded(x)[0], x.cumsum(0))


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin")  # of Inductor's code, without explorer too
def test_a_traced_program_may_save_an_artifact_itself(tmp_path: Path) -> None:
    """Dynamo leaves explorer's functions alone as it does torch's, where the program calls torch's compiler: none is recorded."""

    def program(x: torch.Tensor) -> torch.Tensor:
        graph = make_fx(lambda x: (running_sum(x),))(x)
        compiled = torch._inductor.standalone_compile(graph, [x])
        compiled.save(path=str(tmp_path / "saved"))
        return torch._inductor.CompiledArtifact.load(path=str(tmp_path / "saved"))(x)[0].sin()

    x = torch.randn(24)
    trace = explorer.trace(program, x, backend="aot_eager")
    assert torch.allclose(trace.live.result, x.cumsum(0).sin())
    own = str(Path(explorer.__file__).parent)
    assert not [event.data["file"] for event in trace.find("source") if str(event.data["file"]).startswith(own)]
    assert own not in str(trace.failures)
