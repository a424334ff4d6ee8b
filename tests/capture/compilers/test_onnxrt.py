"""ONNX Runtime, live: what it makes of a graph, what runs, and what a user's line became."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer import Trace
from explorer.capture.compilers import compiler
from explorer.capture.compilers.compilers import compiler_named
from explorer.stages.onnxrt import STAGES, graph
from explorer.stages.onnxrt.graph import ONNX_GRAPHS
from tests.facts import says, untold
from tests.programs import Small
from tests.state import snapshot

ONNXRT = compiler_named("onnxrt")
assert ONNXRT is not None
live = pytest.mark.skipif(bool(ONNXRT.missing), reason=f"ONNX Runtime is not installed: {ONNXRT.remedy}")


class Battery(nn.Module):
    """Convolution, batch norm, relu, pooling, attention, an embedding, and numbers of other types, in one graph."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.pool = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.MaxPool2d(2)
        self.embedding = nn.Embedding(10, 8)

    def forward(self, image: torch.Tensor, words: torch.Tensor, kept: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pooled = self.pool(torch.relu(self.norm(self.conv(image))))
        kept.add_(1)
        q = self.embedding(words)
        mixed = nn.functional.scaled_dot_product_attention(q, q, q)
        gelu = nn.functional.gelu(nn.functional.layer_norm(mixed, (8,)))
        table = torch.tensor([0.5] * 200) * torch.arange(2).view(2, 1)
        return pooled, gelu, mixed.softmax(-1).argmax(-1), gelu > 0, table, kept * 2


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    """One inference of a small model."""
    torch.manual_seed(0)
    yield explorer.trace(Small(), torch.randn(2, 8), backend="onnxrt")


@pytest.fixture(scope="module")
def battery() -> Iterator[tuple[Trace, nn.Module, Any]]:
    """One inference of many operators, with the model and the inputs."""
    torch.manual_seed(0)
    model = Battery().eval()
    inputs = (torch.randn(2, 3, 8, 8), torch.tensor([[[1, 2, 3]]]), torch.zeros(4))
    yield explorer.trace(model, *inputs, backend="onnxrt"), model, inputs


def parsed(trace: Trace, stage: str) -> Any:
    """Read a text by ONNX's own parser as a model; each value is named among those with a type."""
    import onnx

    model = onnx.parser.parse_model(trace.text(stage))
    typed = {each.name for each in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer)}
    for value in dict.fromkeys(value for node in model.graph.node for value in node.output):
        if value not in typed:
            model.graph.value_info.add(name=value)
    return model


@pytest.mark.compile
@live
def test_onnx_runtime_runs_the_graph(trace: Trace) -> None:
    """The whole graph ran on it, once, and gives what eager gives; each stage is there that needs no option."""
    trace.raise_for_failures()
    (row,) = trace.table("execution")
    assert (row["graph"], row["engine"], row["device"], row["calls"]) == ("inference", "ONNX Runtime", "CPUExecutionProvider", 1)
    assert all(row["equal"] for row in trace.check())
    absent = {stage.name for stage in STAGES} - {artifact.stage for artifact in trace.artifacts}
    assert absent == {"onnx_optimize", "onnxrt_disable"}


@pytest.mark.compile
@live
def test_what_is_shown_is_what_runs(trace: Trace) -> None:
    """The text of each graph, read by ONNX and run as it is, gives what eager gives."""
    import onnxruntime

    as_it_is = onnxruntime.SessionOptions()
    as_it_is.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    torch.manual_seed(0)
    model, x = Small(), torch.randn(2, 8)
    for stage in ("onnx", "onnxrt_basic", "onnxrt_extended", "onnxrt_layout", "onnxrt_all"):
        session = onnxruntime.InferenceSession(parsed(trace, stage).SerializeToString(), as_it_is)
        values = (model.linear.weight, model.linear.bias, x)
        given = {each.name: value.detach().numpy() for each, value in zip(session.get_inputs(), values, strict=True)}
        torch.testing.assert_close(torch.from_numpy(session.run(None, given)[0]), model(x).detach())


@pytest.mark.compile
@live
def test_the_nodes_are_those_that_onnx_extracts(battery: tuple[Trace, nn.Module, Any]) -> None:
    """A node whose values the graph before has too is linked to the nodes that ONNX's own extractor finds between them."""
    import onnx

    trace, compared = battery[0], 0
    levels = [stage for stage in ONNX_GRAPHS if trace.find(stage)]
    for before, after in pairwise(levels):
        (old,), (new,) = trace.find(before), trace.find(after)
        model, lines = parsed(trace, before), graph.lines_of(new)
        names = {n: node.name for node in graph.nodes_of(old) for n in graph.lines_of(old)[node.name]}
        stayed = {node.name for node in graph.nodes_of(new)} & set(names.values())
        known = {value for node in old.data.nodes for value in node.writes} | set(old.data.constants)
        made_of = {link.source_lines: {names[n] for n in link.target_lines} for link in trace.links if link.source == new.id}
        for node in graph.nodes_of(new):
            if set(node.writes) | set(node.reads) <= known:
                values = [value for value in node.reads if value not in set(old.data.constants)]
                extracted = onnx.utils.Extractor(model).extract_model(values, list(node.writes)).graph.node
                inside = {each.name or each.output[0] for each in extracted}
                if not (inside - {node.name}) & stayed:  # else it no longer reads what others of these nodes still compute
                    assert made_of[lines[node.name]] == inside, (after, node.name)
                    compared += len(inside)
    assert compared > 50


@pytest.mark.compile
@live
def test_many_operators_give_what_eager_gives(battery: tuple[Trace, nn.Module, Any]) -> None:
    """Results, their types, and the input that the model changes are eager's; nothing failed, and all lines are linked."""
    trace, model, (image, words, _) = battery
    trace.raise_for_failures()
    torch.testing.assert_close(trace.live.run(image, words, torch.zeros(4)), model(image, words, torch.zeros(4)))
    assert {row["output"]: row["equal"] for row in trace.check()}["args[2] after the call"] is True
    assert {row["stage"]: row["share"] for row in trace.coverage() if row["stage"].startswith("onnxrt_")}["onnxrt_all"] == 1.0


@pytest.mark.compile
@live
def test_large_constants_are_left_out_of_the_texts(battery: tuple[Trace, nn.Module, Any]) -> None:
    """Of a constant of 200 numbers the text says how many there are; the parameters are inputs."""
    for stage in ("onnx", "onnxrt_all"):
        text = battery[0].text(stage)
        assert 'float[200] _tensor_constant0 = ["left out": "200 elements"]' in text
        assert "0.5,0.5" not in text and "float[16,3,3,3] arg_" in text


@pytest.mark.compile
@live
def test_a_batch_norm_and_a_product_with_a_vector_train() -> None:
    """ONNX's exporter gives both another result; what it is handed is written in other operators."""
    torch.manual_seed(0)
    x = torch.randn(4, 6, requires_grad=True)
    for function, args in ((torch.nn.BatchNorm1d(6), (x,)), (torch.mv, (x, torch.randn(6, requires_grad=True)))):
        trained = explorer.trace(function, *args, train=True, backend="onnxrt")
        trained.raise_for_failures()
        assert all(row["equal"] for row in trained.check())


@pytest.mark.compile
@live
def test_training_and_dynamic_sizes_run() -> None:
    """Forward and backward are ONNX Runtime's, for a size that is not known when they are compiled."""
    torch.manual_seed(0)
    model = Small()
    trained = explorer.trace(model, torch.randn(3, 8), train=True, dynamic=True, backend="onnxrt")
    trained.raise_for_failures()
    assert {(row["graph"], row["engine"]) for row in trained.table("execution")} == {
        ("forward", "ONNX Runtime"),
        ("backward", "ONNX Runtime"),
    }
    assert all(row["equal"] for row in trained.check())
    (forward,) = [artifact for artifact in trained.find("onnx") if artifact.graph == "forward"]
    assert ",8] " in forward.text and "float[s" in forward.text
    x = torch.randn(5, 8)
    torch.testing.assert_close(trained.live.run(x), model(x))


@pytest.mark.compile
@live
def test_a_graph_that_computes_nothing_is_pytorchs() -> None:
    """The gradient of x + 1 is the gradient that came in: the row says that PyTorch handed it on, and why."""
    trace = explorer.trace(lambda x: x + 1, torch.randn(3, requires_grad=True), train=True, backend="onnxrt")
    rows = {row["graph"]: row for row in trace.table("execution")}
    assert rows["forward"]["engine"] == "ONNX Runtime"
    assert rows["backward"]["engine"] == "PyTorch" and not untold(rows["backward"]["why"], "computes nothing", "input")
    assert all(row["equal"] for row in trace.check())


@pytest.mark.compile
@live
def test_an_error_of_the_engine_is_a_failure_and_the_trace_stands_up_to_there() -> None:
    """ONNX Runtime has no product of bfloat16 for the CPU: the Failure has its words, and what was exported is there."""
    x = torch.randn(4, 4, dtype=torch.bfloat16)
    trace = explorer.trace(lambda x: x @ x, x, backend="onnxrt")
    assert any(
        failure.fatal and "NOT_IMPLEMENTED" in failure.message and "MatMul" in failure.message for failure in trace.failures
    )
    assert "bfloat16" in trace.text("onnx") and not trace.find("onnxrt_all") and not trace.find("execution")


@pytest.mark.compile
@live
def test_an_operator_without_onnx_is_a_failure_in_the_exporters_words() -> None:
    """The message names the operator, without colours and without the advice to report it."""
    trace = explorer.trace(lambda x: torch.linalg.eigvals(x), torch.randn(3, 3), backend="onnxrt")
    (failure,) = [failure for failure in trace.failures if failure.fatal]
    assert "No ONNX function found for" in failure.message and "aten.linalg_eig" in failure.message
    assert "\x1b" not in failure.message and "Create an issue" not in failure.message
    assert trace.find("forward") and not trace.find("onnx")


@pytest.mark.compile
@live
def test_the_options_are_the_sessions(trace: Trace) -> None:
    """At another level, after onnxscript's optimizer, only the stages up to that level are there, and they run.

    After it torch and torch.onnx are as they were; the first trace has imported what is imported once.
    """
    from torch.onnx._internal.exporter import _registration

    before, read = snapshot(), _registration.onnxscript_apis.get_torchlib_ops
    options = {"level": "basic", "optimize": True, "threads": 1, "providers": ["CPUExecutionProvider"]}
    other = explorer.trace(Small(), torch.randn(2, 8), backend="onnxrt", options=options)
    assert snapshot() == before and _registration.onnxscript_apis.get_torchlib_ops is read
    other.raise_for_failures()
    assert {"onnx", "onnx_optimize", "onnxrt_basic"} == {a.stage for a in other.artifacts} & set(ONNX_GRAPHS)
    assert all(row["equal"] for row in other.check())
    assert {row["share"] for row in other.coverage() if row["stage"].startswith("onnx")} == {1.0}


@live
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"level": "fast"}, ("level", "ONNX Runtime", "'fast'", "'extended'")),
        ({"threads": 0}, ("options['threads']", "1", "0")),
        ({"threads": True}, ("options['threads']", "1", "True")),
        ({"providers": "CPUExecutionProvider"}, ("options['providers']", "['CPUExecutionProvider']")),
        ({"providers": ["CUDAExecutionProvider"]}, ("execution provider", "'CUDAExecutionProvider'", "'CPUExecutionProvider'")),
        ({"optimize": 1}, ("options['optimize']", "True", "False", "1")),
    ],
)
def test_a_value_that_onnx_runtime_does_not_have_is_refused(options: dict[str, object], facts: tuple[str, ...]) -> None:
    """The error says what there is, before anything is compiled."""
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        explorer.trace(Small(), torch.randn(2, 8), backend="onnxrt", options=options)


def test_without_onnx_runtime_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, the error says what it is and how to install it."""
    monkeypatch.setattr(compiler, "is_installed", lambda module: False)
    with pytest.raises(explorer.errors.InputError, match=says("'onnxrt'", "ONNX Runtime", "torch-compile-explorer[onnx]")):
        explorer.trace(Small(), torch.randn(2, 8), backend="onnxrt")


@pytest.mark.parametrize(
    ("how", "facts"), [({"mode": "max-autotune"}, ("mode", "Inductor")), ({"options": {"levels": 1}}, ("'levels'", "'level'"))]
)
def test_what_onnx_runtime_does_not_take_is_refused(
    how: dict[str, object], facts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mode, and an option that it does not have, are the user's mistake."""
    monkeypatch.setattr(compiler, "is_installed", lambda module: True)
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        explorer.trace(Small(), torch.randn(2, 8), backend="onnxrt", **how)  # type: ignore[arg-type]
