"""TVM, live: what it makes of a graph, what runs, and what a user's line became."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import nn

import explorer
from explorer import Trace
from explorer.capture.compilers import backend as backends
from explorer.capture.compilers import compiler
from explorer.capture.compilers.compilers import compiler_named
from explorer.capture.compilers.trial_process import Ignored
from explorer.capture.compilers.tvm.targets import last_words
from explorer.stages.cpp.assembly import is_instruction
from explorer.stages.fx_graph import node_lines
from explorer.stages.iree.assembly import bounds
from explorer.stages.tvm import STAGES
from tests.facts import says, untold
from tests.programs import Changing, Small

TVM = compiler_named("tvm")
assert TVM is not None
live = pytest.mark.skipif(bool(TVM.missing), reason=f"TVM is not installed: {TVM.remedy}")

#: The operators of Relax, by those of ATen that TVM's importer writes them for.
OPERATORS = {"t": {"permute_dims"}, "addmm": {"matmul", "add"}, "relu": {"nn.relu"}, "add": {"add"}}


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    """One inference by TVM, and what it writes for two targets."""
    torch.manual_seed(0)
    yield explorer.trace(Small(), torch.randn(2, 8), backend="tvm", options={"targets": ["aarch64", "c"], "after_passes": ["*"]})


@pytest.mark.compile
@live
def test_tvm_runs_the_graph(trace: Trace) -> None:
    """The whole graph ran on TVM, once, and gives what eager gives; each stage is there."""
    trace.raise_for_failures()
    (row,) = trace.table("execution")
    assert (row["graph"], row["engine"], row["device"], row["calls"]) == ("inference", "TVM", "llvm", 1)
    assert all(row["equal"] for row in trace.check())
    assert {stage.name for stage in STAGES} <= {artifact.stage for artifact in trace.artifacts}


@pytest.mark.compile
@live
def test_what_is_shown_is_what_tvm_makes_by_itself(trace: Trace) -> None:
    """TVM's own importer and pipeline, without names and spans of explorer's, give the same instructions."""
    import tvm
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    class Graph(nn.Module):
        def forward(self, w: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (torch.relu(torch.ops.aten.addmm(b, x, w.t())) + 1.5,)

    warnings.simplefilter("ignore", FutureWarning)
    program = torch.export.export(Graph(), (torch.randn(4, 8), torch.randn(4), torch.randn(2, 8)))
    module = from_exported_program(program, run_ep_decomposition=True)
    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
    with target:
        executable = tvm.compile(relax.get_pipeline("zero")(module), target=target)
    own = instructions(executable.mod.imports[0].inspect_source("asm"))
    for artifact in trace.find("tvm_assembly"):
        assert instructions(artifact.text)[artifact.kernel] == own[artifact.kernel]


def instructions(text: str) -> Mapping[str, list[str]]:
    """The instructions of each function, without what only says where they come from."""
    lines = text.split("\n")
    return {name: [line for line in lines[first:last] if is_instruction(line)] for name, first, last in bounds(lines)}


@pytest.mark.compile
@live
def test_bindings_are_linked_to_the_nodes_they_are_of(trace: Trace) -> None:
    """Each operation of Relax is linked to one FX node, whose operator TVM writes it for."""
    (graph,), (relax,) = trace.find("forward"), trace.find("tvm_relax")
    targets = {node_lines(graph)[node["name"]]: node["target"] for node in graph.nodes if node["op"] == "call_function"}
    found = []
    for link in (link for link in trace.links if link.source == relax.id):
        (node,) = link.target_lines
        for line in link.source_lines:
            operation = re.search(r"= R\.([\w.]+)\(", relax.lines[line - 1])
            assert operation and operation[1] in OPERATORS[targets[node].split(".")[1]], relax.lines[line - 1]
            found.append(node)
    assert len(found) == 5 and set(found) == set(targets)


@pytest.mark.compile
@live
@pytest.mark.parametrize(
    ("code", "store", "instruction"), [("torch.relu", r"T\.max", "vmax|maxps"), ("1.5", r"\+ T\.float32\(1\.5", "add")]
)
def test_a_users_line_leads_to_its_loops_and_its_instructions(trace: Trace, code: str, store: str, instruction: str) -> None:
    """The lines of TIR that a user's line became are those of its operation, and so are the instructions."""
    (source,) = [a for a in trace.find("source") if "self.linear(x)" in a.text]
    line = next(n for n, text in enumerate(source.lines, 1) if code in text)
    reached = {row["artifact"]: row["lines"] for row in trace.follow(source.id, line)}
    (tir,) = trace.find("tvm_tir")
    (machine,) = (a for a in trace.find("tvm_assembly") if "fused" in a.kernel)
    assert [bool(re.search(store, tir.lines[n - 1])) for n in reached[tir.id]] == [True]
    assert any(re.search(instruction, machine.lines[n - 1]) for n in reached[machine.id])


@pytest.mark.compile
@live
def test_training_and_dynamic_sizes_run() -> None:
    """Forward and backward are TVM's, for a size that is not known when they are compiled, and a second size runs too."""
    torch.manual_seed(0)
    trained = explorer.trace(Small(), torch.randn(3, 8), train=True, dynamic=True, backend="tvm")
    trained.raise_for_failures()
    assert {(row["graph"], row["engine"]) for row in trained.table("execution")} == {("forward", "TVM"), ("backward", "TVM")}
    assert all(row["equal"] for row in trained.check())
    assert re.search(r"R\.Tensor\(\(s\d+, 8\)", trained.find("tvm_relax")[0].text)


@pytest.mark.compile
@live
def test_norms_train() -> None:
    """A layer norm's backward takes ATen's mean, a batch norm leaves eager's variance: TVM's own norms give others."""
    torch.manual_seed(0)
    for norm, sizes in ((torch.nn.LayerNorm(8), (3, 4, 8)), (torch.nn.BatchNorm1d(6), (4, 6))):
        trained = explorer.trace(norm, torch.randn(*sizes, requires_grad=True), train=True, backend="tvm")
        trained.raise_for_failures()
        assert all(row["equal"] for row in trained.check())


@pytest.mark.compile
@live
def test_a_change_of_an_input_and_a_result_that_is_an_input_are_kept() -> None:
    """The input is changed as eager changes it, and of two results that which is an input is that input."""
    trace = explorer.trace(Changing(), torch.randn(3), torch.randn(2), backend="tvm")
    trace.raise_for_failures()
    checked = trace.check()
    assert all(row["equal"] for row in checked) and any("after the call" in row["output"] for row in checked)


@pytest.mark.compile
@live
def test_an_error_of_tvm_is_a_failure_and_the_trace_stands_up_to_there() -> None:
    """TVM's importer multiplies bfloat16 in float32, and then cannot add: the Failure has its words, and the graph is there."""
    trace = explorer.trace(Small().bfloat16(), torch.randn(2, 8, dtype=torch.bfloat16), backend="tvm")
    assert any(failure.fatal and "same datatype" in failure.message for failure in trace.failures)
    assert trace.find("forward") and not trace.find("tvm_vm")


@pytest.mark.compile
@live
def test_another_targets_assembly_is_linked(trace: Trace) -> None:
    """Each target has its text; that of another CPU states the nodes of its instructions, C states none."""
    texts = {artifact.data["target"]: artifact for artifact in trace.find("tvm_target")}
    assert list(texts) == ["aarch64", "c"]
    assert re.search(r"\bfmax\w*\b", texts["aarch64"].text) and "float*" in texts["c"].text
    (graph,) = trace.find("forward")
    names = {line: name for name, line in node_lines(graph).items()}
    links = [link for link in trace.links if link.source == texts["aarch64"].id]
    largest = [link for link in links for n in link.source_lines if re.search(r"\tfmax", texts["aarch64"].lines[n - 1])]
    assert largest and all([names[n] for n in link.target_lines] == ["relu"] for link in largest)
    assert not [link for link in trace.links if link.source == texts["c"].id]


@pytest.mark.compile
@live
def test_a_pass_that_changed_nothing_cannot_be_shown_whole() -> None:
    """A name that no changing pass has is a Failure, which says where their names are; the others are shown."""
    names = ["FuseOps", "NoSuchPass"]
    trace = explorer.trace(Small(), torch.randn(2, 8), backend="tvm", options={"after_passes": names})
    (failure,) = trace.failures
    assert (failure.stage, failure.fatal) == ("tvm_pass", False) and not untold(
        failure.message, "NoSuchPass", "t.table('tvm_pass')"
    )
    assert [artifact.data["name"] for artifact in trace.find("tvm_after_pass")] == ["FuseOps"]


@pytest.mark.compile
@live
def test_a_target_that_ends_tvm_leaves_the_trace() -> None:
    """TVM crashes on a product of matrices for Metal: a Failure says so, the process goes on, and the graph ran."""
    trace = explorer.trace(Small(), torch.randn(2, 8), backend="tvm", options={"targets": ["metal"]})
    (failure,) = trace.failures
    assert (failure.stage, failure.step, failure.fatal) == ("tvm_target", "metal", False)
    assert not untold(failure.message, "TVM", "signal 11")
    assert all(row["equal"] for row in trace.check())


@pytest.mark.compile
@live
def test_a_target_that_tvm_does_not_have_is_refused() -> None:
    """The error has the names that there are."""
    with pytest.raises(explorer.errors.InputError, match=says("TVM", "'cudaa'", "'cuda'")):
        explorer.trace(Small(), torch.randn(2, 8), backend="tvm", options={"targets": ["cudaa"]})


def test_of_an_error_only_the_message_is_shown() -> None:
    """The stack above the message is left out; a text that is no error of Python's is shown whole."""
    stack = 'warned\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\n    raise\n\n'
    assert (
        last_words(f"{stack}tvm.error.InternalError: Check failed: x\nhere") == "tvm.error.InternalError: Check failed: x\nhere"
    )
    assert last_words("TVM crashed with signal 11") == "TVM crashed with signal 11"


@pytest.mark.compile
def test_torchs_own_backend_of_that_name_is_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a program is recorded "tvm" is explorer's; afterwards torch's table is as it was."""
    from torch._dynamo.backends import registry

    monkeypatch.setattr(compiler, "is_installed", lambda module: True)
    backends.registered()
    before = [dict(table) for table in (registry._BACKENDS, registry._COMPILER_FNS)]
    assert "tvm" in before[0]
    with backends.offered(Ignored()):
        assert registry._COMPILER_FNS["tvm"] is not before[1].get("tvm")
    assert [dict(table) for table in (registry._BACKENDS, registry._COMPILER_FNS)] == before


@pytest.mark.compile
def test_without_tvm_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, the error says what TVM is and how to install it."""
    monkeypatch.setattr(compiler, "is_installed", lambda module: False)
    with pytest.raises(explorer.errors.InputError, match=says("'tvm'", "TVM", "torch-compile-explorer[tvm]")):
        explorer.trace(Small(), torch.randn(2, 8), backend="tvm")
