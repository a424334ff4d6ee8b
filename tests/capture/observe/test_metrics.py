"""What torch counts and sets: metrics, settings, calls of torch.compile, files, operator counts, names of inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.h = nn.ModuleList([nn.Linear(8, 8)])
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return self.norm(self.h[0](x) * scale)


@pytest.fixture(scope="module")
def trained() -> explorer.Trace:
    pytest.importorskip("triton")
    with torch._inductor.config.patch({"max_fusion_size": 32}):
        return explorer.trace(
            Net(),
            torch.randn(4, 8),
            kwargs={"scale": torch.randn(8)},
            target="h100",
            train=True,
            options={"epilogue_fusion": False},
        )


def test_memory_and_kernels_name_parameters_as_modules_do(trained: explorer.Trace) -> None:
    """`h.0.weight` and `norm.running_mean`, in forward and backward, and arguments by the function's names."""
    rows = trained.memory.table
    assert {name for row in rows.where(graph="forward") for name in row["inputs"]} >= {
        "h.0.weight",
        "h.0.bias",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "x",
        "scale",
    }
    backward = {name for row in rows.where(graph="backward") for name in row["inputs"]}
    assert "norm.weight" in backward and "gradient of output 0" in backward
    named = {name for kernel in trained.kernels for row in kernel.launches for name in row["inputs"].values()}
    assert "norm.running_mean" in named


def test_torchs_metrics_are_rows(trained: explorer.Trace) -> None:
    """Counts, cache sizes and seconds have torch's own names; the process's own numbers for frames are left out."""
    row = next(row for row in trained.compiler.metrics if row["of"] == "forward")
    assert row["frame"] == "0/0" and row["graph_op_count"] >= 3 and row["cache_size"] == 0 and row["guard_count"] > 0
    assert row["inductor_compile_time_s"] > 0 and "compile_id" not in row and "compiler_config" not in row


def test_restarts_have_their_reasons_and_the_time_lost() -> None:
    """A graph break makes Dynamo begin its frame anew."""

    def breaking(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    trace = explorer.trace(breaking, torch.randn(4), backend="eager")
    row = trace.compiler.metrics.where(frame="0/0")[0]
    assert row["restart_reasons"][0].startswith("Call to `torch._dynamo.graph_break()`")
    assert row["dynamo_time_before_restart_s"] > 0 and "restart_reasons = Call to" in trace.text("compilation_metrics", "0/0")


def test_settings_that_differ_say_who_set_them(trained: explorer.Trace) -> None:
    """The program, torch.compile's options, or explorer; a setting at its default has no row."""
    rows = {(row["of"], row["name"]): row for row in trained.compiler.settings}
    assert rows["inductor", "max_fusion_size"]["set_by"] == "the program"
    assert (rows["inductor", "max_fusion_size"]["value"], rows["inductor", "max_fusion_size"]["default"]) == ("32", "64")
    assert rows["inductor", "epilogue_fusion"]["set_by"] == "torch.compile"
    assert all(row["value"] != row["default"] for row in rows.values())


def test_each_frame_names_its_call_of_torch_compile() -> None:
    """Two compiled functions in one recording: file, line, code and options of each, and the line that called it."""
    with explorer.record() as recording:
        one = torch.compile(torch.sin, backend="eager")
        other = torch.compile(lambda x: x.cos(), backend="aot_eager", dynamic=False)
        one(torch.randn(4))
        other(torch.randn(4))
    first, second = recording.trace.dynamo.functions
    assert "one = torch.compile" in first["compile_code"] and "other = torch.compile" in second["compile_code"]
    assert first["compile_file"] == second["compile_file"] == __file__ and second["compile_line"] == first["compile_line"] + 1
    assert (first["backend"], second["backend"]) == ("eager", "aot_eager") and second["dynamic"] is False
    assert second["called_code"] == "other(torch.randn(4))" and second["called_line"] > second["compile_line"]
    before = torch.compile(lambda x: x.tan(), backend="eager")
    with explorer.record() as later:
        before(torch.randn(4))
    (row,) = later.trace.dynamo.functions
    assert row["compile_file"] == "" and not untold(later.trace.text("compile_call"), "before", "recording")


def test_a_trace_names_its_own_line(trained: explorer.Trace) -> None:
    """explorer.trace calls torch.compile itself: the line shown is the one that called explorer."""
    (row,) = trained.dynamo.functions
    assert row["compile_file"] == __file__ and dict(row["options"]) == {"epilogue_fusion": "False"}


def test_graphs_are_there_as_torch_prints_them(trained: explorer.Trace) -> None:
    """`graph_text` is `print(gm.graph)`, and torch's own print_tabular works in this environment."""
    text = trained.find("forward")[0].graph_text
    assert text.startswith("graph():\n    %primals_1 : [num_users=1] = placeholder[target=primals_1]")
    assert "torch.ops.aten.addmm.default](args = (%" in text
    torch.fx.symbolic_trace(nn.ReLU()).graph.print_tabular()


def test_the_files_that_inductor_wrote_are_listed(trained: explorer.Trace) -> None:
    """The wrapper of each graph, with its size; the text is the output code's."""
    rows = trained.compiler.files
    sizes = {row["bytes"] for row in rows if row["kind"] == "py" and row["by"] == "inductor"}
    assert len(rows) >= 2 and None not in sizes
    assert {len(code.text.encode()) for code in trained.find("output_code")} <= {s + n for s in sizes for n in (-2, -1, 0, 1, 2)}
    assert all(Path(row["path"]).is_absolute() for row in rows)
