"""IREE, live: what it makes of a graph, what runs, and what a user's line became."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import explorer
from explorer import Trace
from explorer.capture.compilers import compiler
from explorer.capture.compilers.compilers import compiler_named
from explorer.capture.compilers.iree.compile import HOST, tool
from explorer.errors import CompileError
from explorer.stages.fx_graph import node_lines
from explorer.stages.iree import STAGES
from tests.facts import says, untold
from tests.programs import Small

IREE = compiler_named("iree")
assert IREE is not None
live = pytest.mark.skipif(bool(IREE.missing), reason=f"IREE is not installed: {IREE.remedy}")

#: The stages that an option asks for.
ON_REQUEST = {"iree_target", "iree_pass", "iree_after_pass"}


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    """One inference by IREE."""
    torch.manual_seed(0)
    yield explorer.trace(Small(), torch.randn(2, 8), backend="iree")


@pytest.mark.compile
@live
def test_iree_runs_the_graph(trace: Trace) -> None:
    """The whole graph ran on IREE, once, and gives what eager gives; each stage is there that needs no option."""
    trace.raise_for_failures()
    (row,) = trace.table("execution")
    assert (row["graph"], row["engine"], row["device"], row["calls"]) == ("inference", "IREE", "local-task", 1)
    assert all(row["equal"] for row in trace.check())
    assert {stage.name for stage in STAGES} - ON_REQUEST <= {artifact.stage for artifact in trace.artifacts}


@pytest.mark.compile
@live
def test_what_is_shown_is_what_runs(trace: Trace, tmp_path: Path) -> None:
    """iree-compile makes the same file, byte for byte, of the same module without any text being asked for."""
    (tmp_path / "module.mlir").write_text(trace.text("iree_torch"), encoding="utf-8")
    plain = ("--iree-input-type=torch", "--use-unknown-locations=Enable", "--iree-vm-emit-polyglot-zip", *HOST)
    subprocess.run([tool("iree-compile"), "module.mlir", *plain, "-o", "module.vmfb"], cwd=tmp_path, check=True)
    (shown,) = trace.find("iree_vmfb")
    assert hashlib.sha256((tmp_path / "module.vmfb").read_bytes()).hexdigest() == shown.data["sha256"]
    sections = {row["name"]: row["bytes"] for row in shown.data["rows"]}
    assert sections["module.fb"] > 1000 and sum(sections.values()) < shown.data["bytes"]


@pytest.mark.compile
@live
def test_operations_are_linked_to_the_nodes_they_are_of(trace: Trace) -> None:
    """Each aten operation of the torch dialect is linked to the FX node of that operator, and to no other."""
    (graph,) = trace.find("forward")
    targets = {node_lines(graph)[node["name"]]: node["target"] for node in graph.nodes if node["op"] == "call_function"}
    (module,) = trace.find("iree_torch")
    found = 0
    for link in (link for link in trace.links if link.source == module.id):
        for line in link.source_lines:
            if operation := re.search(r"torch\.aten\.(\w+)", module.lines[line - 1]):
                assert [targets[node].split(".")[1] for node in link.target_lines] == [operation[1]], module.lines[line - 1]
                found += 1
    assert found == len(targets) > 4


@pytest.mark.compile
@live
@pytest.mark.parametrize(
    ("code", "flow", "instruction"), [("torch.relu", "arith.cmpf", "vmax|vcmp|fcmp|fmax"), ("1.5", "addf", "add")]
)
def test_a_users_line_leads_to_the_dispatch_and_its_instructions(trace: Trace, code: str, flow: str, instruction: str) -> None:
    """The lines of the dispatch that a user's line became are those of its operation, and so are the instructions."""
    (source,) = [a for a in trace.find("source") if "self.linear(x)" in a.text]
    line = next(n for n, text in enumerate(source.lines, 1) if code in text)
    reached = {row["artifact"]: row["lines"] for row in trace.follow(source.id, line)}
    (dispatch,) = trace.find("iree_flow")
    (machine,) = trace.find("iree_assembly")
    assert any(flow in dispatch.lines[n - 1] for n in reached[dispatch.id])
    assert not any("matmul ins" in dispatch.lines[n - 1] for n in reached[dispatch.id])
    assert any(re.search(instruction, machine.lines[n - 1]) for n in reached[machine.id])


@pytest.mark.compile
@live
def test_every_operation_before_the_machine_code_is_linked(trace: Trace) -> None:
    """Down to the flow dialect IREE keeps the location of each operation; below it a stated share of lines is linked."""
    share = {row["stage"]: row["share"] for row in trace.coverage() if row["stage"].startswith("iree_")}
    assert [share[f"iree_{name}"] for name in ("torch", "input", "abi", "preprocessing", "flow")] == [1.0] * 5
    assert all(share[stage.name] > 0 for stage in STAGES if stage.kinds is not None and stage.name not in ON_REQUEST)


@pytest.mark.compile
@live
def test_training_and_dynamic_sizes_run(trace: Trace) -> None:
    """Forward and backward are IREE's, for a size that is not known when they are compiled."""
    torch.manual_seed(0)
    trained = explorer.trace(Small(), torch.randn(3, 8), train=True, dynamic=True, backend="iree")
    trained.raise_for_failures()
    assert {(row["graph"], row["engine"]) for row in trained.table("execution")} == {("forward", "IREE"), ("backward", "IREE")}
    assert all(row["equal"] for row in trained.check())
    assert {a.graph for a in trained.find("iree_flow")} == {"forward", "backward"}
    assert "?x8xf32" in trained.find("iree_flow")[0].text


@pytest.mark.compile
@live
def test_other_targets_are_text_and_a_crash_of_iree_is_a_failure() -> None:
    """Each target has its text, linked where it states lines; one that crashes iree-compile is named, and the rest is there."""
    targets = ["cuda:h100", "cuda", "vulkan", "aarch64"]
    trace = explorer.trace(Small(), torch.randn(2, 8), backend="iree", options={"targets": targets})
    texts = {artifact.data["target"]: artifact for artifact in trace.find("iree_target")}
    assert list(texts) == targets[1:]
    assert ".target sm_86" in texts["cuda"].text and "spirv.func" in texts["vulkan"].text and "fadd" in texts["aarch64"].text
    assert texts["aarch64"].id in {link.source for link in trace.links}
    assert not re.search(r"^\s*\.loc", texts["cuda"].text, re.M), "IREE writes no lines into PTX; where it does, link them"
    (failure,) = trace.failures
    assert (failure.stage, failure.step, failure.fatal) == ("iree_target", "cuda:h100", False)
    assert not untold(failure.message, "signal 11") and "Unknown CUDA target 'h100'" in failure.message
    assert "backtrace" not in failure.message and all(row["equal"] for row in trace.check())


@live
def test_a_target_that_iree_does_not_have_is_refused() -> None:
    """The error has the names that there are."""
    with pytest.raises(explorer.errors.InputError, match=says("IREE", "'cudaa'", "'cuda'")):
        explorer.trace(Small(), torch.randn(2, 8), backend="iree", options={"targets": ["cudaa"]})


@pytest.mark.compile
@live
def test_an_error_of_iree_is_a_failure_and_the_trace_stands_up_to_there() -> None:
    """With a flag that iree-compile does not have the Failure has its words, and the graph that it was handed is there."""
    trace = explorer.trace(Small(), torch.randn(2, 8), backend="iree", options={"flags": ["--no-such-flag"]})
    assert any(failure.fatal and "no-such-flag" in failure.message for failure in trace.failures)
    assert trace.find("forward") and trace.find("iree_torch") and not trace.find("iree_vmfb")


def test_without_iree_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, the error says what IREE is and how to install it."""
    monkeypatch.setattr(compiler, "is_installed", lambda module: False)
    with pytest.raises(explorer.errors.InputError, match=says("'iree'", "MLIR", "torch-compile-explorer[iree]")):
        explorer.trace(Small(), torch.randn(2, 8), backend="iree")


@pytest.mark.parametrize(
    ("how", "facts"), [({"mode": "max-autotune"}, ("mode", "Inductor")), ({"options": {"flag": 1}}, ("'flag'", "'flags'"))]
)
def test_what_iree_does_not_take_is_refused(
    how: dict[str, object], facts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mode, and an option that it does not have, are the user's mistake."""
    monkeypatch.setattr(compiler, "is_installed", lambda module: True)
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        explorer.trace(Small(), torch.randn(2, 8), backend="iree", **how)  # type: ignore[arg-type]


@pytest.mark.compile
@live
def test_a_run_that_raises_is_a_failure_with_the_users_line() -> None:
    """Turbine hands a size that is not known to IREE as if it were a tensor: the trace says so, and keeps what came before."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0]

    trace = explorer.trace(doubled, torch.randn(6, 4), backend="turbine_cpu", dynamic=True)
    (failure,) = trace.failures
    place = f"doubled ({__file__}:{doubled.__code__.co_firstlineno})"
    assert failure.fatal and f"compiled {place}, and could not run it" in failure.message
    assert "'int' object has no attribute 'data'" in failure.message
    assert trace.find("forward") and trace.find("iree_vm")
    with pytest.raises(CompileError, match="no attribute 'data'"):
        _ = trace.live.result


@pytest.mark.compile
@live
def test_an_error_of_an_operator_is_the_programs() -> None:
    """The program's own error goes through, also where the engine is asked for."""

    def refused(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        explorer.trace(refused, torch.randn(6), backend="turbine_cpu")
