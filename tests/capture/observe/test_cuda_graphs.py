"""CUDA graphs and performance hints: decisions and their reasons, for a GPU you don't have and for the CPU."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile

R = torch.randn
WHOLE = {"triton.cudagraphs": True, "graph_partition": False}


def lines_of(trace: explorer.Trace, table: str) -> list[str]:
    """The lines of this file that the rows of a table lead to, by following their artifact."""
    (artifact,) = trace.find(table)
    (source,) = trace.find("source")
    rows = [row for n in range(1, len(artifact.lines) + 1) for row in trace.follow(artifact.id, n)]
    return [source.lines[n - 1].strip() for row in rows if row["stage"] == "source" for n in row["lines"]]


def test_a_graph_that_is_captured_says_so() -> None:
    """With reduce-overhead there is one row per graph, forward and backward; without it none."""
    pytest.importorskip("triton")
    net = torch.nn.Linear(8, 8)
    trace = explorer.trace(net, R(4, 8), target="h100", mode="reduce-overhead", train=True)
    assert [(row["graph"], row["decision"]) for row in trace.inductor.cuda_graphs] == [
        ("forward", "captured"),
        ("backward", "captured"),
    ]
    assert not trace.failures and explorer.trace(net, R(4, 8), target="h100").inductor.cuda_graphs == ()


def test_a_changed_input_is_named_with_its_line() -> None:
    """A call is captured only where a CUDA graph made the tensor: the row has the line that changes it."""
    pytest.importorskip("triton")

    def changing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = y.cos()
        x.add_(z)
        return x * 2

    trace = explorer.trace(changing, R(8), R(8), target="h100", mode="reduce-overhead")
    (row,) = trace.inductor.cuda_graphs
    assert row["decision"] == "skipped when called" and row["what"] == "x (arg1_1)"
    assert not untold(row["reason"], "x (arg1_1)", "captured")
    assert row["code"] == "x.add_(z)" and lines_of(trace, "cuda_graph") == ["x.add_(z)"]
    assert "skipped when called" in trace.text("cuda_graph") and trace.stages is not None


def test_a_tensor_on_the_cpu_is_named_with_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Where the graph is not split, one CPU node keeps the whole of it from being captured; torch's own log stays torch's."""
    pytest.importorskip("triton")

    def mixed(x: torch.Tensor) -> Any:
        z = torch.arange(4, device="cpu")
        return x.sin(), z.cos()

    trace = explorer.trace(mixed, R(8), target="h100", options=WHOLE)
    (row,) = trace.inductor.cuda_graphs
    assert row["decision"] == "skipped" and row["reason"].startswith("cpu device") and row["code"] == "return x.sin(), z.cos()"
    assert "explorer/observe" not in capfd.readouterr().err


def test_a_part_on_the_cpu_is_left_out_at_its_line() -> None:
    """Where the graph is split, each node between its parts has its operators and its line; no node is lost."""
    pytest.importorskip("triton")

    def mixed(x: torch.Tensor) -> Any:
        y = x.sin()
        return y, y.cpu().cos() * 2

    trace = explorer.trace(mixed, R(8), target="h100", mode="reduce-overhead")
    assert not trace.failures
    rows = trace.inductor.cuda_graphs.where(decision="not captured")
    assert rows and {row["code"] for row in rows} == {"return y, y.cpu().cos() * 2"}
    assert any("aten.cos" in row["what"] and row["reason"] == "cpu ops" for row in rows)


def test_on_the_cpu_there_is_nothing_to_capture() -> None:
    """The reason is the device, not a list of devices that is empty."""
    trace = explorer.trace(torch.sin, R(8), target="cpu", mode="reduce-overhead")
    assert [(row["decision"], untold(row["reason"], "cpu", "CUDA")) for row in trace.inductor.cuda_graphs] == [("skipped", [])]


# The backend "cudagraphs" ------------------------------------------------------------------------------------------------


def shifting(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = y.cos()
    x.add_(z)
    return x * 2


def skips() -> int:
    """How many graphs torch says that it has skipped so far in this process."""
    return int(torch._dynamo.utils.counters["inductor"]["cudagraph_skips"])


def test_the_backend_captures_nothing_on_the_cpu_and_the_trace_says_so() -> None:
    """torch skips the graph and runs it itself: one row with its reason, the program's name and line, nothing "captured"."""
    before = skips()
    trace = explorer.trace(shifting, R(8), R(8), backend="cudagraphs")
    assert skips() == before + 1 and not trace.failures
    (row,) = trace.inductor.cuda_graphs
    assert (row["graph"], row["decision"], row["code"]) == ("inference", "skipped", "z = y.cos()")
    assert row["reason"].startswith("cpu device (arg0_1: y)") and not untold(row["reason"], "PyTorch", "operator")
    assert lines_of(trace, "cuda_graph") == ["z = y.cos()"]
    assert all(row["equal"] and not row["interpreted"] for row in trace.check())


def test_the_backends_backward_is_not_captured_without_its_forward() -> None:
    """torch does not even look at the backward then; each of the two graphs has a row with its reason."""
    before = skips()
    trace = explorer.trace(torch.nn.Linear(4, 4), R(2, 4), backend="cudagraphs", train=True)
    assert skips() == before + 1
    rows = {row["graph"]: (row["decision"], row["reason"]) for row in trace.inductor.cuda_graphs}
    assert rows["forward"][0] == rows["backward"][0] == "skipped"
    assert rows["forward"][1].startswith("cpu device (primals_1: weight)")
    assert not untold(rows["backward"][1], "forward", "not captured") and "cpu" not in rows["backward"][1]


@pytest.mark.parametrize(("keep", "support"), [(False, False), (True, False), (True, True)])
def test_what_the_backend_would_capture_on_a_gpu_you_dont_have(keep: bool, support: bool) -> None:
    """Its own check runs on the GPU's graph: a change of an input is kept out, refused with the line, or left to the call."""
    settings = {"cudagraph_backend_keep_input_mutation": keep, "cudagraph_backend_support_input_mutation": support}
    before = skips()
    with torch._dynamo.config.patch(settings):
        trace = explorer.trace(shifting, R(8), R(8), target="h100", backend="cudagraphs")
    assert not trace.failures and skips() - before == (keep and not support)
    (row,) = trace.inductor.cuda_graphs
    refused = ("skipped when called", "x.add_(z)") if support else ("skipped", "x.add_(z)")
    assert (row["decision"], row["code"]) == (refused if keep else ("captured", ""))
    assert "x (arg1_1)" in row["reason"] or not keep
    assert 'device(type="cuda"' in trace.text("forward") or "cuda:0" in trace.text("forward")
    assert all(row["equal"] and not row["interpreted"] for row in trace.check())


def test_perf_hints_are_rows_at_their_lines() -> None:
    """A library call in place of a kernel is hinted at with its node; loggers and levels are as before."""
    pytest.importorskip("triton")

    def falling_back(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return torch.histc(y, 10)

    log = logging.getLogger("torch._inductor.graph.__perf_hints")
    before = (list(log.filters), list(log.handlers), log.level, "info" in vars(log))
    trace = explorer.trace(falling_back, R(64), target="h100")
    (row,) = trace.inductor.perf_hints
    assert row["hint"].startswith("Using FallbackKernel") and row["nodes"] == ("histc",)
    assert row["code"] == "return torch.histc(y, 10)" and lines_of(trace, "perf_hint") == ["return torch.histc(y, 10)"]
    assert (list(log.filters), list(log.handlers), log.level, "info" in vars(log)) == before


def test_a_hint_of_the_scheduler_is_at_the_line_of_what_it_tiles() -> None:
    """A reduction that the scheduler cannot tile is hinted at with its FX nodes; nothing is lost."""
    pytest.importorskip("triton")

    def strided(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y.sum((0, 2))

    options = {"triton.coalesce_tiling_analysis": False}
    trace = explorer.trace(strided, R(32, 16, 32), target="h100", options=options)
    assert not trace.failures
    (row,) = trace.inductor.perf_hints
    assert row["hint"].startswith("Reduction over non-contiguous dims") and "sum_1" in row["nodes"]
    assert row["code"] == "return y.sum((0, 2))" and "return y.sum((0, 2))" in lines_of(trace, "perf_hint")
