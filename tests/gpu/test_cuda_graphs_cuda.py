"""On an attached NVIDIA GPU: explorer says of CUDA graphs what torch does, and names inputs as for an absent GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import explorer

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]


def skips() -> int:
    """How many graphs torch has skipped so far in this process."""
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["cudagraph_skips"])


def decided(trace: explorer.Trace) -> list[dict[str, Any]]:
    """What torch decided before the first call; the other rows are what calls did."""
    return [dict(row) for row in trace.inductor.cuda_graphs if row.get("count") is None]


def recorded(function: Any, *shapes: int, calls: int = 3) -> explorer.Trace:
    with explorer.record(fresh=True) as recording:
        compiled = torch.compile(function, mode="reduce-overhead")
        for _ in range(calls):
            torch.compiler.cudagraph_mark_step_begin()
            compiled(*(torch.randn(n, device="cuda") for n in shapes))
    return recording.trace


def test_a_graph_that_torch_captures_is_called_captured() -> None:
    """After three calls torch counts no skip, and there is one row."""
    before = skips()
    trace = recorded(lambda x: torch.softmax(x.sin(), -1), 64)
    assert skips() == before and not trace.failures
    assert [row["decision"] for row in decided(trace)] == ["captured"]


def test_a_changed_input_is_skipped_when_called_and_torch_says_the_same() -> None:
    """The row made while compiling has the line; torch's own skip at the call is a row too."""

    def changing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    before = skips()
    trace = recorded(changing, 64, 64)
    assert skips() > before
    assert {row["decision"] for row in trace.inductor.cuda_graphs} == {"skipped when called"}
    assert any(row["code"] == "x.add_(y)" and row["what"].startswith("x (") for row in trace.inductor.cuda_graphs)
    assert any("mutated inputs" in row["reason"] for row in trace.inductor.cuda_graphs)


def test_a_tensor_on_the_cpu_keeps_its_part_out() -> None:
    """An input on the CPU is computed between the parts that are captured, or keeps the whole from it; its line is named."""

    def mixed(x: torch.Tensor, c: torch.Tensor) -> Any:
        return x.sin() + 1, c.cos() * 2

    with explorer.record(fresh=True) as recording:
        compiled = torch.compile(mixed, mode="reduce-overhead")
        for _ in range(3):
            compiled(torch.randn(64, device="cuda"), torch.randn(64))
    assert not recording.trace.failures
    rows = [row for row in recording.trace.inductor.cuda_graphs if "cpu" in row["reason"]]
    assert rows and all(row["code"] == "return x.sin() + 1, c.cos() * 2" for row in rows)


def known_name() -> str:
    """The attached GPU by explorer's name; skips on a GPU that these tests do not know."""
    attached = torch.cuda.get_device_name()
    name = next((n for n in ("h100", "h200", "a100", "b200") if n.upper() in attached), None)
    if name is None:
        pytest.skip(f"{attached} is none of the named ones that this test knows")
    return name


@pytest.mark.parametrize("keep", [False, True])
def test_the_backend_cudagraphs_says_the_same_attached_and_absent(keep: bool) -> None:
    """With a change of an input in the graph torch captures nothing and counts a skip; without one it captures."""

    def changing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    name = known_name()
    with torch._dynamo.config.patch(cudagraph_backend_keep_input_mutation=keep):
        absent = explorer.trace(changing, torch.randn(64), torch.randn(64), target=name, backend="cudagraphs")
        before = skips()
        given = torch.randn(64, device="cuda"), torch.randn(64, device="cuda")
        attached = explorer.trace(changing, *given, backend="cudagraphs")
    assert skips() - before == keep
    assert decided(attached) == decided(absent)
    assert [row["decision"] for row in decided(attached)] == ["skipped" if keep else "captured"]
    assert all(row["equal"] for row in attached.check())


def test_attached_and_absent_say_the_same() -> None:
    """Decisions, hints and the names of inputs, for a training step of a module."""
    name = known_name()
    net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64))
    absent = explorer.trace(net, torch.randn(32, 64), target=name, train=True, mode="reduce-overhead")
    attached = explorer.trace(net.cuda(), torch.randn(32, 64, device="cuda"), train=True, mode="reduce-overhead")
    assert decided(attached) == decided(absent)
    assert [dict(row) for row in attached.inductor.perf_hints] == [dict(row) for row in absent.inductor.perf_hints]
    inputs = [[row["inputs"] for row in trace.memory.table if row["inputs"]] for trace in (attached, absent)]
    assert inputs[0] == inputs[1] and ("0.weight",) in inputs[0] and ("1.running_mean",) in inputs[0]
    assert attached.compiler.metrics and attached.compiler.files and attached.compiler.settings
