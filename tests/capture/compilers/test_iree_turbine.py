"""IREE Turbine's own backends, which torch registers: what they hand to IREE, and that IREE ran it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import explorer
from explorer.capture.compilers.compilers import compiler_named
from explorer.capture.compilers.iree.compile import tool
from explorer.stages.iree import STAGES

IREE = compiler_named("iree")
assert IREE is not None
pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(bool(IREE.missing), reason=f"IREE is not installed: {IREE.remedy}"),
]


@pytest.fixture(scope="module")
def turbine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[explorer.Trace, Path]]:
    """One inference by turbine_cpu, and the module that Turbine itself compiled and loaded."""
    from iree.turbine.runtime import launch

    loaded = tmp_path_factory.mktemp("turbine") / "loaded.vmfb"
    copy_buffer = launch.VmModule.copy_buffer

    class Noting:
        """Loads modules for Turbine, and keeps their bytes."""

        @staticmethod
        def copy_buffer(instance: object, buffer: object) -> object:
            loaded.write_bytes(bytes(memoryview(buffer)))  # type: ignore[arg-type]
            return copy_buffer(instance, buffer)

    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "VmModule", Noting)
        yield explorer.trace(nn.Linear(8, 4), torch.randn(2, 8), backend="turbine_cpu"), loaded


def test_iree_ran_the_graph_of_turbines_backend_and_each_stage_is_there(turbine: tuple[explorer.Trace, Path]) -> None:
    """The row names IREE, not PyTorch, and counts its run; the module is there in every phase down to the file."""
    trace, _ = turbine
    trace.raise_for_failures()
    (row,) = trace.table("execution")
    assert (row["graph"], row["engine"], row["device"], row["calls"]) == ("inference", "IREE", "cpu", 1)
    on_request = {"iree_target", "iree_pass", "iree_after_pass"}
    assert {stage.name for stage in STAGES} - on_request <= {artifact.stage for artifact in trace.artifacts}
    assert "torch.aten.mm" in trace.text("iree_torch") and "flow.executable" in trace.text("iree_flow")
    assert all(row["equal"] for row in trace.check())


def lines_of(listing: str) -> list[str]:
    """What a listing says of a module, without the file's name and sizes; of data the first bytes.

    The machine code that is data of the module has the name of a temporary file in it, which may be longer or shorter: so are
    its size and, from its byte 40 on, what it says of its parts.
    """
    lines = [line for line in listing.split("\n") if "vm." in line or line.startswith(" ")]
    lines = [line.partition("external")[0] if line.startswith("  .rodata[") else line for line in lines]
    lines = [re.sub(r"(const\.ref\.rodata \d+  // )\d+b$", r"\1", line) for line in lines]
    return [line[:90] if line.startswith("vm.rodata[") else line for line in lines]


def test_what_is_shown_is_the_module_that_turbine_loaded(turbine: tuple[explorer.Trace, Path]) -> None:
    """IREE's own tool lists the same module of the bytes that Turbine loaded; of its data the first bytes are compared."""
    trace, loaded = turbine
    listed = subprocess.run([tool("iree-dump-module"), str(loaded)], capture_output=True, text=True, check=True).stdout
    assert lines_of(listed) == lines_of(trace.text("iree_vm_module")) and len(lines_of(listed)) > 50


def test_a_recording_counts_what_iree_ran() -> None:
    """A program that uses the backend by its other name, without explorer's: each call is counted, and the result is eager's."""
    net, x = nn.Linear(4, 4), torch.randn(2, 4)
    with explorer.record(fresh=True) as recording, torch.no_grad():
        compiled = torch.compile(net, backend="iree_turbine")
        results = [compiled(x), compiled(x)]
        assert all(torch.allclose(result, net(x), atol=1e-5) for result in results)
    trace = recording.trace
    assert not trace.failures and trace.find("iree_flow")
    assert [(row["engine"], row["calls"]) for row in trace.table("execution")] == [("IREE", 2)]


def test_where_turbine_says_no_more_than_that_it_failed_the_failure_has_irees_words() -> None:
    """Turbine's backends do not train: the Failure names the graph that IREE refuses, with its message; the forward is shown."""
    trace = explorer.trace(nn.Linear(4, 4), torch.randn(2, 4), backend="turbine_cpu", train=True)
    messages = [failure.message for failure in trace.failures]
    assert any("unhandled torch type: '!torch.none'" in message for message in messages)
    assert any("JIT compilation failed" in message for message in messages)
    assert {artifact.graph for artifact in trace.find("iree_torch")} == {"forward", "backward"}
    assert {artifact.graph for artifact in trace.find("iree_vmfb")} == {"forward"}
