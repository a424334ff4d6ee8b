"""Kernels of a trace for a GPU you don't have: their forms, and those made on demand."""

from __future__ import annotations

import re

import pytest
import torch

import explorer
from explorer.lab.live.protocol import live_of
from explorer.sources.files.trace_file import dumps
from explorer.tracing.traced import loads
from tests.facts import says, untold

pytest.importorskip("triton")

pytestmark = pytest.mark.compile


def scores(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.tanh(x + bias), dim=-1)


def traced(target: str) -> explorer.Trace:
    return explorer.trace(scores, torch.randn(64, 1000), torch.randn(1000), target=target)


@pytest.fixture(scope="module")
def nvidia() -> explorer.Trace:
    """A trace with one kernel for an H100."""
    return traced("h100")


@pytest.fixture(scope="module")
def amd() -> explorer.Trace:
    """The same for an MI300X."""
    return traced("mi300x")


def test_a_kernel_lists_the_stages_it_has_a_text_of(nvidia: explorer.Trace, amd: explorer.Trace) -> None:
    """From the source down, SASS though it is made only when asked for; each gives a text, and the repr names them."""
    for trace, machine in ((nvidia, ("ptx", "sass")), (amd, ("amdgcn",))):
        kernel = trace.kernels[0]
        assert kernel.stages == ("kernel", "ttir", "ttgir", "llir", *machine)
        assert all(kernel.text(stage).strip() for stage in kernel.stages)
        registers = kernel.resources["registers"]
        assert not untold(repr(kernel), kernel.name, "triton", f"{registers} registers", ", ".join(kernel.stages))


def test_following_a_line_into_sass_makes_that_of_its_kernels(nvidia: explorer.Trace, amd: explorer.Trace) -> None:
    """The rows are those that follow has once SASS is attached; a line without a kernel has none, and the trace stays."""
    made, whole = nvidia.follow("source", 2, into="sass"), nvidia.attach("sass")
    assert made and tuple(made) == tuple(whole.follow("source", 2, into="sass")) and not nvidia.find("sass")
    assert not untold(made[0]["text"], "MUFU")
    assert "nothing in sass is linked" in nvidia.follow("source", 1, into="sass").why_empty
    with pytest.raises(explorer.errors.LiveError, match="SASS needs the process that made this trace"):
        loads(dumps(nvidia)).follow("source", 2, into="sass")
    with pytest.raises(explorer.errors.InputError, match=says("'amdgcn'", "'sass'")):
        amd.follow("source", 2, into="sass")


def test_another_vendors_machine_code_is_refused_with_what_there_is(nvidia: explorer.Trace, amd: explorer.Trace) -> None:
    """A stage of the other vendor, a misspelt one, or one for all kernels: the error says what there is."""
    with pytest.raises(explorer.errors.InputError, match=says("'amdgcn'", "'kernel'", "'ptx'", "'sass'")):
        nvidia.kernels[0].text("amdgcn")
    with pytest.raises(explorer.errors.InputError, match=says("'sas'", "'sass'")):
        nvidia.kernels[0].text("sas")
    with pytest.raises(explorer.errors.InputError, match=says("'sass'", "'amdgcn'", "'kernel'")):
        amd.kernels[0].text("sass")
    with pytest.raises(explorer.errors.InputError, match=r"t\.kernels\[0\]\.text\('sass'\)"):
        nvidia.text("sass")


def test_the_mix_counts_the_instructions_of_the_machine_code(nvidia: explorer.Trace, amd: explorer.Trace) -> None:
    """One class or another for each instruction, also where the trace does not hold the SASS."""
    sass = nvidia.kernels[0].text("sass")
    assert sum(nvidia.kernels[0].instruction_mix().values()) == len(
        re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+\S", sass, re.MULTILINE)
    )
    assert nvidia.kernels[0].instruction_mix()["fp32"] > 0 and amd.kernels[0].instruction_mix()["fp32"] > 0
    assert nvidia.attach("sass").kernels[0].resources["mix"] == nvidia.kernels[0].instruction_mix()


def test_with_sass_leads_from_a_line_of_triton_to_its_instructions(nvidia: explorer.Trace) -> None:
    """The new trace holds the SASS, linked; the old one is as it was."""
    whole, kernel = nvidia.attach("sass"), nvidia.kernels[0]
    line = next(n for n, text in enumerate(kernel.source.splitlines(), 1) if "libdevice.tanh" in text)
    rows = [r for r in whole.follow(kernel.artifact.id, line) if r["stage"] == "sass"]
    instructions = [whole.find("sass")[0].lines[n - 1] for row in rows for n in row["lines"]]
    assert any("MUFU" in text for text in instructions)
    assert "sass" not in {r["stage"] for r in nvidia.follow(kernel.artifact.id, line)} and not nvidia.find("sass")
    assert [a.stage for a in whole.artifacts if a.kernel][-2:] == ["ptx", "sass"]
    assert whole.attach("sass") == whole and live_of(whole) is live_of(nvidia)


def test_with_sass_needs_an_nvidia_gpu_and_the_process(nvidia: explorer.Trace, amd: explorer.Trace) -> None:
    """For AMD there is none, and a loaded trace cannot make what it does not hold."""
    with pytest.raises(explorer.errors.InputError, match="mi300x"):
        amd.attach("sass")
    loaded = loads(dumps(nvidia))
    assert "sass" not in loaded.kernels[0].stages
    with pytest.raises(explorer.errors.LiveError, match=says("explorer.trace")):
        loaded.attach("sass")
    held = loads(dumps(nvidia.attach("sass")))
    assert held.attach("sass") == held and held.kernels[0].text("sass") == nvidia.kernels[0].text("sass")
