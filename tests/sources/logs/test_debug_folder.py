"""The folders of TORCH_COMPILE_DEBUG=1 become traces, with the scheduler's nodes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch
from torch._dynamo import config as dynamo_config
from torch._inductor import config as inductor_config

import explorer
from explorer.errors import FileError
from tests.facts import says


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[explorer.Trace, Path]:
    """The trace of a function with a matmul and fused kernels, forward and backward, and the folder that torch wrote of it."""
    pytest.importorskip("triton", reason="without triton nothing is compiled for a GPU that is not here")

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ w), -1).sum()

    arguments = (torch.randn(32, 64, requires_grad=True), torch.randn(64, 128, requires_grad=True))
    home = tmp_path_factory.mktemp("debug")
    with inductor_config.patch({"trace.enabled": True}), dynamo_config.patch(debug_dir_root=str(home)):
        return explorer.trace(f, *arguments, target="h100", train=True), home


def told_alike(text: str) -> str:
    """A text without what torch words otherwise in these files: the sizes of a graph's values, and a program's settings."""
    return re.sub(r': "[^"\n]*"', "", text[text.find("class Repro(") + 1 :].strip())


@pytest.mark.compile
def test_a_folder_is_read_with_every_stage_that_it_has(written: tuple[explorer.Trace, Path]) -> None:
    """Graphs, scheduler nodes, output code and kernels of both graphs are those of the trace of the same compile."""
    traced, home = written
    read = explorer.load(home)
    for stage in ("post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code", "kernel", "fx_graph_runnable"):
        texts = [{(a.graph, a.kernel): told_alike(a.text) for a in trace.find(stage)} for trace in (traced, read)]
        assert texts[0] == texts[1], stage
    for stage in ("ir_pre_fusion", "ir_post_fusion"):
        stated = ("name", "kind", "device", "fused", "inputs", "reads", "writes", "sizes", "line_count")
        nodes = [[[n[key] for key in stated] for a in trace.find(stage) for n in a.nodes] for trace in (traced, read)]
        assert nodes[0] == nodes[1], stage
    assert read.find("source")
    names = {link.how for link in read.links}
    assert {"buffer name", "launch", "origins"} <= names


@pytest.mark.compile
def test_a_file_that_is_missing_is_no_loss(written: tuple[explorer.Trace, Path], tmp_path: Path) -> None:
    """The graphs' folders are found below the run's, in their order, and what they have is read."""
    shutil.copytree(written[1], tmp_path / "debug")
    next((tmp_path / "debug").rglob("fx_graph_runnable.py")).unlink()
    read = explorer.load(tmp_path / "debug")
    assert [(a.frame, a.graph) for a in read.find("output_code")] == [("0/0", "forward"), ("0/0", "backward")]
    assert len(read.find("fx_graph_runnable")) == 1


def test_folders_without_files_are_refused(tmp_path: Path) -> None:
    """The message names what was looked for."""
    (tmp_path / "model__0_inference_0").mkdir()
    with pytest.raises(FileError, match=says(tmp_path.name, "files", "TORCH_COMPILE_DEBUG=1")):
        explorer.load(tmp_path)
