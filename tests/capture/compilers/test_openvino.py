"""OpenVINO, live: what its backend partitions, compiles and executes, and what PyTorch runs in its place."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._decomp import decomposition_table
from torch._dynamo import config

import explorer
from explorer import Trace
from explorer.capture.compilers import compiler
from explorer.capture.compilers.compilers import compiler_named
from explorer.stages.fx_graph import node_lines
from explorer.stages.openvino import STAGES, ir
from tests.facts import says, untold
from tests.programs import Small

pytestmark = pytest.mark.compile

OPENVINO = compiler_named("openvino")
assert OPENVINO is not None
live = pytest.mark.skipif(bool(OPENVINO.missing), reason=f"OpenVINO is not installed: {OPENVINO.remedy}")


class Convolution(nn.Module):
    """A convolution, its normalization, and what comes after."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.normalization = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.max_pool2d(torch.relu(self.normalization(self.convolution(x))), 2)


def state() -> tuple[object, ...]:
    """The parts of torch that importing OpenVINO's backend changes."""
    return config.get_config_copy().get("inline_inbuilt_nn_modules"), set(decomposition_table)


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    """One inference by OpenVINO."""
    torch.manual_seed(0)
    before = state()
    made = explorer.trace(Small(), torch.randn(2, 8), backend="openvino")
    assert state() == before, "torch is as it was"
    yield made


def ran(trace: Trace) -> list[tuple[Any, ...]]:
    """What ran each part of a trace's graphs."""
    return [(row["graph"], row["engine"], row["calls"]) for row in trace.table("execution")]


@live
def test_openvino_runs_the_graph(trace: Trace) -> None:
    """The graph is one part, which OpenVINO ran once, in float32; the result is eager's, and each stage is there."""
    trace.raise_for_failures()
    assert ran(trace) == [("inference", "OpenVINO", 1)]
    assert all(row["equal"] for row in trace.check())
    assert {stage.name for stage in STAGES} <= {artifact.stage for artifact in trace.artifacts}
    (precision,) = trace.table("setting").where(of="openvino")
    assert (precision["name"], precision["value"], precision["set_by"]) == ("INFERENCE_PRECISION_HINT", "'f32'", "explorer")


@live
def test_layers_are_of_the_operators_they_are_linked_to(trace: Trace) -> None:
    """OpenVINO's MatMul is of addmm, ReLU of relu and Transpose of t, and every layer that computes is linked."""
    (graph,), (model,) = trace.find("forward"), trace.find("openvino_ir")
    nodes = {line: name for name, line in node_lines(graph).items()}
    linked = {n: nodes[link.target_lines[0]] for link in trace.links if link.source == model.id for n in link.source_lines}
    expected = {"MatMul": "addmm", "ReLU": "relu", "Transpose": "t"}
    assert {layer.type: linked[layer.first] for layer in ir.layers(model) if layer.type in expected} == expected
    share = {row["stage"]: row["share"] for row in trace.coverage()}
    assert [share[stage.name] for stage in STAGES] == [1.0] * 3


@live
def test_a_users_line_leads_to_the_kernel_that_ran_it(trace: Trace) -> None:
    """torch.relu is in the layer that OpenVINO fused it into, and not in the matrix product, which another kernel runs."""
    (source,) = [a for a in trace.find("source") if "self.linear(x)" in a.text]
    (executed,) = trace.find("openvino_executed")
    layers = {row["order"]: row for row in trace.table("openvino_executed")}
    assert sorted(layers) == list(layers), "in the order of execution"

    def reached(code: str) -> set[str]:
        line = next(n for n, text in enumerate(source.lines, 1) if code in text)
        lines = next(row["lines"] for row in trace.follow(source.id, line) if row["artifact"] == executed.id)
        return {executed.data["rows"][n - 2]["layer"] for n in lines}

    assert "MatMul" in reached("self.linear(x)") and "MatMul" not in reached("torch.relu")
    assert reached("torch.relu") & reached("1.5")


@live
def test_the_runtime_model_is_openvinos_own(trace: Trace) -> None:
    """The layers shown are those of the model that OpenVINO itself keeps for the part: the same names, types and kernels."""
    from openvino.frontend.pytorch.torchdynamo import execute

    models = [compiled.get_runtime_model() for compiled in execute.compiled_cache.values()]
    facts = [[{k: v.astype(str) for k, v in op.get_rt_info().items()} for op in model.get_ops()] for model in models]
    kept = [{(each["execOrder"], each["layerType"], each["primitiveType"]) for each in layers} for layers in facts]
    assert {(str(row["order"]), row["layer"], row["kernel"]) for row in trace.table("openvino_executed")} in kept


@live
def test_a_result_stays_when_the_function_is_called_again() -> None:
    """OpenVINO's backend writes each result to the same buffer; a result that was given is not changed by the next call."""
    trace = explorer.trace(lambda x: torch.relu(x * 2 + 1), torch.zeros(4), backend="openvino")
    first = trace.live.run(torch.ones(4))
    trace.live.run(torch.full((4,), 5.0))
    assert first.tolist() == [3.0] * 4


@live
def test_a_change_of_an_input_is_kept() -> None:
    """OpenVINO's default mode loses the change; a trace has it."""

    def double(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return torch.relu(x * 2)

    trace = explorer.trace(double, torch.ones(4), backend="openvino")
    assert ran(trace) == [("inference", "OpenVINO", 1)]
    rows = {row["output"]: row["equal"] for row in trace.check()}
    assert len(rows) == 2 and all(rows.values())


@live
def test_training_runs_on_openvino() -> None:
    """Forward and backward are OpenVINO's but for an operator that it does not have; the gradients are eager's."""
    torch.manual_seed(0)
    trace = explorer.trace(Small(), torch.randn(2, 8), train=True, backend="openvino")
    trace.raise_for_failures()
    assert {row[:2] for row in ran(trace)} == {("forward", "OpenVINO"), ("backward", "OpenVINO"), ("backward", "PyTorch")}
    whys = {row["what"]: row["why"] for row in trace.table("execution").where(engine="PyTorch")}
    assert not untold(whys["threshold_backward"], "OpenVINO", "supports") and "testing" not in whys["threshold_backward"]
    assert all(row["equal"] for row in trace.check()) and len(trace.check()) == 3
    assert {a.graph for a in trace.find("openvino_ir")} == {"forward", "backward"}


@live
def test_sizes_may_be_dynamic(trace: Trace) -> None:
    """An unknown size is one in the IR too, and another size runs on the same model."""
    dynamic = explorer.trace(Small(), torch.randn(3, 8), dynamic=True, backend="openvino")
    (model,) = dynamic.find("openvino_ir")
    assert "<dim>-1</dim>" in model.text and "<dim>-1</dim>" not in trace.find("openvino_ir")[0].text
    assert all(row["equal"] for row in dynamic.check()) and ran(dynamic) == [("inference", "OpenVINO", 1)]
    assert dynamic.live.run(torch.ones(5, 8)).shape == (5, 4)


@live
def test_what_has_no_part_is_pytorchs() -> None:
    """An embedding alone is left to PyTorch, and the row says why; with the option `testing` OpenVINO runs it."""
    torch.manual_seed(0)
    model, numbers = nn.Embedding(10, 4), torch.tensor([1, 2])
    left = explorer.trace(model, numbers, backend="openvino")
    (row,) = left.table("execution")
    assert (row["engine"], row["what"]) == ("PyTorch", "embedding") and not untold(
        row["why"], "OpenVINO", "one operator", "options={'testing': True}"
    )
    assert not left.find("openvino_ir") and not left.failures
    taken = explorer.trace(model, numbers, backend="openvino", options={"testing": True})
    assert ran(taken) == [("inference", "OpenVINO", 1)] and "Gather" in taken.text("openvino_executed")
    assert all(row["equal"] for each in (left, taken) for row in each.check())


@live
def test_an_operator_that_openvino_does_not_have_parts_the_graph() -> None:
    """The nodes before it and after it are a part each; PyTorch runs it between them."""
    trace = explorer.trace(lambda x: torch.relu(torch.special.bessel_j0(x * 2 + 1) * 3 - 1), torch.rand(4), backend="openvino")
    rows = {(row["engine"], row["what"]) for row in trace.table("execution")}
    assert rows == {
        ("OpenVINO", "fused_1 (mul, add)"),
        ("OpenVINO", "fused_0 (mul_1, sub, relu)"),
        ("PyTorch", "special_bessel_j0"),
    }
    assert {a.kernel for a in trace.find("openvino_ir")} == {"fused_0", "fused_1"}
    assert all(row["equal"] for row in trace.check())


@live
def test_a_part_that_openvino_cannot_run_is_a_failure_and_pytorchs() -> None:
    """Of bfloat16 inputs OpenVINO's backend raises and PyTorch runs the part: its error is the Failure, and the reason."""
    trace = explorer.trace(lambda x: torch.relu(x * 2 + 1), torch.ones(4).bfloat16(), backend="openvino")
    (row,), (failure,) = trace.table("execution"), trace.failures
    assert (row["engine"], row["device"], row["calls"]) == ("PyTorch", "cpu", 1) and "KeyError: torch.bfloat16" in row["why"]
    assert (failure.stage, failure.step, failure.fatal) == ("openvino_ir", "fused_0", False)
    assert "KeyError: torch.bfloat16" in failure.message and not trace.find("openvino_executed")
    assert all(row["equal"] for row in trace.check())


@live
def test_an_error_of_its_compiler_is_a_failure_behind_the_ir() -> None:
    """A property that the device does not have is OpenVINO's error; the model that it was handed is there."""
    options = {"config": {"NO_SUCH": "1"}}
    trace = explorer.trace(lambda x: torch.relu(x * 2 + 1), torch.ones(4), backend="openvino", options=options)
    assert "Unsupported property NO_SUCH" in trace.failures[0].message and trace.find("openvino_ir")
    assert ran(trace) == [("inference", "PyTorch", 1)]


@live
def test_a_graph_that_cannot_be_partitioned_is_not_handed_to_inductor() -> None:
    """OpenVINO's backend would compile it by Inductor without a word; the trace is a failure with OpenVINO's error."""
    options = {"disabled_ops": ["no.such.operator"]}
    trace = explorer.trace(lambda x: torch.relu(x * 2 + 1), torch.ones(4), backend="openvino", options=options)
    assert any(failure.fatal and "KeyError: 'no.such.operator'" in failure.message for failure in trace.failures)
    assert trace.find("forward") and not trace.find("openvino_ir")


@live
@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (Convolution().eval(), [(1, 3, 8, 8)]),
        (nn.LayerNorm(8), [(2, 8)]),
        (nn.functional.scaled_dot_product_attention, [(1, 2, 8, 4)] * 3),
    ],
    ids=["convolution", "layer norm", "attention"],
)
def test_each_operator_is_somebodys(model: Any, shapes: list[tuple[int, ...]]) -> None:
    """Every operator of the graph is in exactly one row of the partition, and the result equals eager's."""
    torch.manual_seed(0)
    trace = explorer.trace(model, *(torch.randn(shape) for shape in shapes), backend="openvino")
    named = [name for row in trace.table("openvino_partition") for name in row["fx_nodes"]]
    assert sorted(named) == sorted(node["name"] for node in trace.find("forward")[-1].nodes if node["op"] == "call_function")
    assert all(row["equal"] for row in trace.check()) and not trace.failures


def test_without_openvino_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, the error says what OpenVINO is and how to install it."""
    monkeypatch.setattr(compiler, "is_installed", lambda module: False)
    with pytest.raises(explorer.errors.InputError, match=says("'openvino'", "Intel", "torch-compile-explorer[openvino]")):
        explorer.trace(Small(), torch.randn(2, 8), backend="openvino")


# In a recording the program calls OpenVINO's own backend ----------------------------------------------------------------------


@pytest.fixture
def no_earlier_options(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo that OpenVINO's backend keeps the options of the last call with `aot_autograd` for all later calls."""
    monkeypatch.setattr("openvino.frontend.pytorch.torchdynamo.backend.openvino_options", {})
    torch.compiler.reset()  # a recording does not compile anew what was compiled before it


@live
@pytest.mark.usefixtures("no_earlier_options")
def test_a_programs_own_call_is_observed_and_left_alone() -> None:
    """OpenVINO's default mode loses a change of an input: it does so in a recording too, which shows what OpenVINO ran."""

    def double(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return torch.relu(x * 2)

    x = torch.ones(4)
    with explorer.record() as recording:
        result = torch.compile(double, backend="openvino")(x)
    trace = recording.trace
    trace.raise_for_failures()
    assert result.tolist() == [4.0] * 4 and x.tolist() == [1.0] * 4, "as without the recording"
    assert ran(trace) == [("inference", "OpenVINO", 1)] and trace.find("forward") and trace.find("openvino_executed")
    assert not trace.table("setting").where(of="openvino")
    (model,), (graph,) = trace.find("openvino_ir"), trace.find("forward")
    assert {link.target for link in trace.links if link.source == model.id} == {graph.id}


@live
@pytest.mark.usefixtures("no_earlier_options")
def test_a_programs_training_is_observed() -> None:
    """Both graphs of AOTAutograd are there by their names, with the properties that the program gave."""
    torch.manual_seed(0)
    model, x = Small(), torch.randn(2, 8)
    options = {"aot_autograd": True, "config": {"INFERENCE_PRECISION_HINT": "f32"}}
    with explorer.record() as recording:
        torch.compile(model, backend="openvino", options=options)(x).sum().backward()
    trace = recording.trace
    trace.raise_for_failures()
    assert {row[:2] for row in ran(trace)} == {("forward", "OpenVINO"), ("backward", "OpenVINO"), ("backward", "PyTorch")}
    assert {row["set_by"] for row in trace.table("setting").where(of="openvino")} == {"torch.compile"}
    gradient = model.linear.weight.grad
    model.zero_grad()
    model(x).sum().backward()
    torch.testing.assert_close(gradient, model.linear.weight.grad)


@live
@pytest.mark.usefixtures("no_earlier_options")
def test_what_a_program_lets_inductor_run_is_said() -> None:
    """Where the backend cannot partition a graph Inductor runs it, as without the recording; the trace names it."""
    options = {"disabled_ops": ["no.such.operator"]}
    with explorer.record() as recording:
        result = torch.compile(lambda x: torch.relu(x * 2 + 1), backend="openvino", options=options)(torch.ones(4))
    (row,), (failure,) = recording.trace.table("execution"), recording.trace.failures
    assert result.tolist() == [3.0] * 4
    assert row["engine"] == "Inductor" and "KeyError: 'no.such.operator'" in row["why"]
    assert failure.stage == "openvino_partition" and not untold(failure.message, "Inductor", "KeyError: 'no.such.operator'")


@live
@pytest.mark.usefixtures("no_earlier_options")
@pytest.mark.parametrize(
    "part", ["observing.partition_of", "execution.observed", "execution.ir_facts", "execution.executed_facts"]
)
def test_an_error_of_explorers_is_a_failure_and_openvino_runs(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where explorer cannot read what OpenVINO's backend does, the program has its result, and the trace names the loss."""

    def broken(*args: object, **kwargs: object) -> None:
        raise LookupError(f"{part} is broken")

    monkeypatch.setattr(f"explorer.capture.compilers.openvino.{part}", broken)
    with explorer.record() as recording:
        result = torch.compile(lambda x: torch.relu(x * 2 + 1), backend="openvino")(torch.ones(4))
    assert result.tolist() == [3.0] * 4
    assert any(f"{part} is broken" in failure.message for failure in recording.trace.failures)


@live
def test_what_openvino_compiled_is_freed() -> None:
    """OpenVINO's tables, and the models themselves, last as long as what runs them: until Dynamo is reset."""
    from openvino.frontend.pytorch.torchdynamo import execute

    torch.compiler.reset()
    gc.collect()
    tables = (execute.partitioned_modules, execute.compiled_cache, execute.req_cache)
    before = [set(table) for table in tables]
    made = explorer.trace(Small(), torch.randn(2, 8), backend="openvino")
    kept = [weakref.ref(table[key]) for table, known in zip(tables, before, strict=True) for key in table if key not in known]
    assert len(kept) == 3 and all(each() is not None for each in kept)
    assert all(row["equal"] for row in made.check())
    del made
    torch.compiler.reset()
    gc.collect()
    assert [each() for each in kept] == [None] * 3
    assert [set(table) for table in tables] == before
