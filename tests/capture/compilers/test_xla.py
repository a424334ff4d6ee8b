"""XLA through StableHLO, live: what it makes of a graph, what runs, and what a user's line became."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import explorer
from explorer import Trace
from explorer.capture.compilers import compiler
from explorer.capture.compilers.catalogue import why_not_here
from explorer.capture.compilers.compilers import compiler_named
from explorer.capture.compilers.xla.compile import last_words
from explorer.capture.compilers.xla.importing import with_names
from explorer.stages.xla import STAGES, hlo
from tests.facts import says, untold
from tests.programs import Changing, Small

XLA = compiler_named("xla")
assert XLA is not None
live = pytest.mark.skipif(bool(XLA.missing), reason=f"XLA through StableHLO is not installed: {XLA.remedy}")


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    """One inference by XLA."""
    torch.manual_seed(0)
    yield explorer.trace(Small(), torch.randn(2, 8), backend="xla")


@pytest.mark.compile
@live
def test_a_text_that_cannot_be_read_is_a_failure_and_the_graph_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of explorer's own, such as objdump's time limit, never ends the program's compile."""

    def broken(folder: object) -> str:
        raise TimeoutError("objdump took too long")

    monkeypatch.setattr("explorer.capture.compilers.xla.compile.disassembled", broken)
    x = torch.ones(3)
    made = explorer.trace(lambda x: x.sin() + 1, x, backend="xla")
    assert torch.allclose(made.live.result, x.sin() + 1)
    assert [(f.stage, f.step, f.fatal) for f in made.failures] == [("xla_assembly", "objdump", False)]
    assert made.find("xla_optimized") and not made.find("xla_assembly")


@pytest.mark.compile
@live
def test_xla_runs_the_graph(trace: Trace) -> None:
    """The whole graph ran on XLA, once, and gives what eager gives; each stage is there."""
    trace.raise_for_failures()
    (row,) = trace.table("execution")
    assert (row["graph"], row["engine"], row["device"], row["calls"]) == ("inference", "XLA", "cpu", 1)
    assert all(row["equal"] for row in trace.check())
    assert {stage.name for stage in STAGES} <= {artifact.stage for artifact in trace.artifacts}


@pytest.mark.compile
@live
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_is_shown_is_what_xla_makes_by_itself(trace: Trace) -> None:
    """XLA makes the same operations of torch-mlir's own StableHLO, without explorer's names and without a dump."""
    from jaxlib import xla_client
    from torch_mlir import fx

    class Graph(nn.Module):
        def forward(self, w: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.ops.aten.addmm(b, x, w.t())) + 1.5

    inputs = (torch.randn(4, 8), torch.randn(4), torch.randn(2, 8))
    module = fx.export_and_import(Graph(), *inputs, output_type="stablehlo")
    client = xla_client.make_cpu_client()
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(str(module).encode(), devices, xla_client.CompileOptions())
    own = executable.hlo_modules()[0].to_string()
    (shown,) = trace.find("xla_optimized")
    assert operations(own) == operations(shown.text)
    assert operations(own)["fusion"] == 2


def operations(text: str) -> Counter[str]:
    """How often each operation is in a module."""
    return Counter(each.operation for computation in hlo.computations(text.split("\n")) for each in computation.instructions)


@pytest.mark.compile
@live
@pytest.mark.parametrize(("code", "operation"), [("torch.relu", "maximum"), ("1.5", "add")])
def test_a_users_line_leads_to_its_instruction_and_its_kernel(trace: Trace, code: str, operation: str) -> None:
    """The instruction that a user's line became is of its operation, or the fusion that gives it; its kernel follows."""
    (source,) = [a for a in trace.find("source") if "self.linear(x)" in a.text]
    line = next(n for n, text in enumerate(source.lines, 1) if code in text)
    reached = {row["artifact"]: row["lines"] for row in trace.follow(source.id, line) if "fused" not in row["route"]}
    (module,) = trace.find("xla_optimized")
    own = [text for n in reached[module.id] if " fusion(" not in (text := module.lines[n - 1])]
    assert len(own) == 1 and f" {operation}(" in own[0]
    fused = {row["stage"] for row in trace.follow(source.id, line) if "fused" in row["route"]}
    assert {"xla_llvm", "xla_assembly"} <= fused


@pytest.mark.compile
@live
def test_training_runs() -> None:
    """Forward and backward are XLA's, with the gradients that eager gives."""
    torch.manual_seed(0)
    trained = explorer.trace(Small(), torch.randn(3, 8), train=True, backend="xla")
    trained.raise_for_failures()
    assert {(row["graph"], row["engine"]) for row in trained.table("execution")} == {("forward", "XLA"), ("backward", "XLA")}
    assert all(row["equal"] for row in trained.check())
    assert {artifact.graph for artifact in trained.find("xla_optimized")} == {"forward", "backward"}


@pytest.mark.compile
@live
def test_a_change_of_an_input_and_a_result_that_is_an_input_are_kept() -> None:
    """The input is changed as eager changes it, and of two results that which is an input is that input."""
    trace = explorer.trace(Changing(), torch.randn(3), torch.randn(7)[1:], backend="xla")
    trace.raise_for_failures()
    checked = trace.check()
    assert all(row["equal"] for row in checked) and any("after the call" in row["output"] for row in checked)


@pytest.mark.compile
@live
def test_bfloat16_and_results_of_other_types_run() -> None:
    """XLA takes types that numpy lacks, and gives each result in the type of eager's."""

    def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, (x > 0), x.argmax(), x.to(torch.float64).sum()

    trace = explorer.trace(several, torch.arange(-3, 3).bfloat16(), backend="xla")
    trace.raise_for_failures()
    assert [row["equal"] for row in trace.check()] == [True] * 4


@pytest.mark.compile
@live
def test_attention_is_laid_out_as_eagers() -> None:
    """The result has eager's strides, for a query that is a view with its heads and its positions exchanged."""

    def attention(x: torch.Tensor) -> torch.Tensor:
        q = x.transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    trace = explorer.trace(attention, torch.randn(1, 8, 2, 16), backend="xla")
    trace.raise_for_failures()
    assert [(row["equal"], row["note"]) for row in trace.check()] == [(True, "")]


@pytest.mark.compile
@live
def test_an_operator_that_xla_lacks_is_a_failure_with_its_node() -> None:
    """torch-mlir's own words name the operator and the FX node; the trace stands up to there."""
    trace = explorer.trace(torch.special.bessel_j0, torch.randn(3), backend="xla")
    (failure,) = (failure for failure in trace.failures if failure.fatal)
    assert '"special_bessel_j0"(' in failure.message and "failed to legalize operation" in failure.message
    assert trace.find("forward") and trace.find("xla_torch") and not trace.find("xla_stablehlo")


@pytest.mark.compile
@live
def test_a_lowering_that_takes_all_memory_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch-mlir's passes take ever more memory for a strided assignment: the Failure says so, and the process goes on."""

    def assigned(x: torch.Tensor) -> torch.Tensor:
        values = x * 2
        values[::2] = 7.0
        return values

    monkeypatch.setattr("explorer.capture.compilers.xla.importing.MAX_BYTES", 2**30)
    trace = explorer.trace(assigned, torch.randn(6, 4), backend="xla")
    (failure,) = (failure for failure in trace.failures if failure.fatal)
    assert "torch-mlir takes more than 1 GiB of memory to lower this graph" in failure.message
    assert trace.find("forward") and trace.find("xla_torch")


@pytest.mark.compile
@live
def test_sizes_that_are_not_known_are_refused_with_what_to_do() -> None:
    """XLA compiles for known sizes; the error names the symbol, and StableHLO is there to see."""
    trace = explorer.trace(Small(), torch.randn(3, 8), dynamic=True, backend="xla")
    assert any(
        re.search(r"\bs\d+\b", failure.message) and not untold(failure.message, "XLA", "dynamic=False")
        for failure in trace.failures
    )
    assert "?x8xf32" in trace.text("xla_stablehlo")


@pytest.mark.compile
@live
def test_a_flag_that_ends_xla_leaves_the_process() -> None:
    """XLA aborts on a negative number of parts: a Failure says so, and an unknown flag is XLA's own error."""
    for flag, facts in (
        ("--xla_cpu_parallel_codegen_split_count=-1", ("XLA", "signal 6")),
        ("--xla_none", ("No such compile option: 'xla_none'",)),
    ):
        trace = explorer.trace(Small(), torch.randn(2, 8), backend="xla", options={"flags": [flag]})
        assert any(not untold(failure.message, *facts) for failure in trace.failures), flag
        assert trace.find("xla_stablehlo") and not trace.find("xla_optimized")


@pytest.mark.compile
@live
def test_a_flag_counts_for_its_compile_alone(trace: Trace) -> None:
    """Without the pass that fuses there are more kernels; the environment is as it was, and so is the next compile."""
    before = dict(os.environ)
    apart, again = (
        explorer.trace(Small(), torch.randn(2, 8), backend="xla", options={"flags": flags})
        for flags in (["--xla_disable_hlo_passes=fusion"], [])
    )
    assert all(row["equal"] for row in apart.check())
    count = [len(list(hlo.kernels(made.find("xla_optimized")[0].lines))) for made in (trace, apart, again)]
    assert count[0] == count[2] < count[1]
    assert dict(os.environ) == before


def test_a_flag_that_would_take_the_texts_away_is_refused() -> None:
    """The dumps are explorer's: the error says to leave the flag out."""
    pytest.importorskip("torch_mlir", reason="XLA through StableHLO is not installed")
    from explorer.capture.compilers.xla.backend import checked_flags

    assert checked_flags(("--xla_a=1",)) == ("--xla_a=1",)
    with pytest.raises(explorer.errors.InputError, match=says("XLA", "--xla_dump_to=here")):
        checked_flags(("--xla_dump_to=here",))


def test_of_an_error_only_the_message_is_shown() -> None:
    """The stack above the message is left out; a text that is no error of Python's is shown whole."""
    stack = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    raise\n'
    assert last_words(f"{stack}jaxlib.JaxRuntimeError: INVALID: x\nhere") == "jaxlib.JaxRuntimeError: INVALID: x\nhere"
    assert last_words("XLA crashed with signal 6") == "XLA crashed with signal 6"


def test_locations_get_the_names_of_their_nodes() -> None:
    """An operation has its node's name, an argument that of its placeholder, and the graph as a whole none."""
    text = (
        'module {\n  func.func @main(%arg0: i1 loc("fx_graph":1:0), %arg1: i2 loc("fx_graph":1:0)) -> i1 {\n'
        '    op loc(#loc1)\n    return loc("fx_graph":1:0)\n}\n#loc1 = loc("fx_graph":4:0)\n'
    )
    named = with_names(text, ("x", "y", "relu", "output"), ("x", "y"))
    assert '%arg0: i1 loc("x"("fx_graph":1:0)), %arg1: i2 loc("y"("fx_graph":1:0))' in named
    assert '#loc1 = loc("relu"("fx_graph":4:0))' in named and 'return loc("fx_graph":1:0)' in named


@pytest.mark.compile
def test_without_xla_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, the error says what it is and how to install it; torch's own way says that there is another."""
    monkeypatch.setattr(compiler, "is_installed", lambda module: False)
    with pytest.raises(explorer.errors.InputError, match=says("'xla'", "StableHLO", "torch-compile-explorer[xla]")):
        explorer.trace(Small(), torch.randn(2, 8), backend="xla")


def test_pytorch_xlas_own_backend_names_the_other_way() -> None:
    """The name openxla is PyTorch/XLA's; where that is not installed the reason says so, and names explorer's."""
    if compiler.is_installed("torch_xla"):
        pytest.skip("torch_xla is installed: openxla is its own")
    assert not untold(why_not_here("openxla"), "pip install torch_xla", "'xla'")
