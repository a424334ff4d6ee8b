"""The folders of TORCH_COMPILE_DEBUG=1 become traces, with the scheduler's nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import explorer
from explorer.errors import FileError
from tests.facts import says


@pytest.fixture(scope="module")
def traced() -> explorer.Trace:
    """The trace of a function with a matmul and fused kernels, forward and backward."""
    pytest.importorskip("triton", reason="without triton nothing is compiled for a GPU that is not here")

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ w), -1).sum()

    arguments = (torch.randn(32, 64, requires_grad=True), torch.randn(64, 128, requires_grad=True))
    return explorer.trace(f, *arguments, target="h100", train=True)


@pytest.mark.compile
def test_a_folder_that_explorer_wrote_is_read_with_every_stage_that_it_has(traced: explorer.Trace, tmp_path: Path) -> None:
    """Graphs, scheduler nodes, output code and kernels of both graphs are those of the trace that wrote the folder."""
    traced.save_debug_dir(tmp_path)
    read = explorer.load(tmp_path)
    for stage in ("post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code", "kernel", "fx_graph_runnable"):
        texts = [{(a.graph, a.kernel): a.text.strip() for a in trace.find(stage)} for trace in (traced, read)]
        assert texts[0] == texts[1], stage
    for stage in ("ir_pre_fusion", "ir_post_fusion"):
        stated = ("name", "kind", "device", "fused", "inputs", "reads", "writes", "sizes", "line_count")
        nodes = [[[n[key] for key in stated] for a in trace.find(stage) for n in a.nodes] for trace in (traced, read)]
        assert nodes[0] == nodes[1], stage
    assert read.find("source")
    names = {link.how for link in read.links}
    assert {"buffer name", "launch", "origins"} <= names


@pytest.mark.compile
def test_a_folder_of_torchs_own_layout_is_found_below_a_run(traced: explorer.Trace, tmp_path: Path) -> None:
    """torch puts the graphs' folders into one of a run, and a number behind their names; a file that is missing is no loss."""
    traced.save_debug_dir(tmp_path / "written")
    below = tmp_path / "torch_compile_debug" / "run_2026_11_23" / "torchinductor"
    below.mkdir(parents=True)
    for folder in (tmp_path / "written").iterdir():
        folder.rename(below / f"{folder.name}.{len(list(below.iterdir()))}")
    next(below.glob("*/fx_graph_runnable.py")).unlink()
    read = explorer.load(tmp_path / "torch_compile_debug")
    assert [(a.frame, a.graph) for a in read.find("output_code")] == [("0/0", "forward"), ("0/0", "backward")]
    assert len(read.find("fx_graph_runnable")) == 1


def test_folders_without_files_are_refused(tmp_path: Path) -> None:
    """The message names what was looked for."""
    (tmp_path / "model__0_inference_0").mkdir()
    with pytest.raises(FileError, match=says(tmp_path.name, "files", "TORCH_COMPILE_DEBUG=1")):
        explorer.load(tmp_path)
