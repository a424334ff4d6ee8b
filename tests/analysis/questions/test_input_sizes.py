"""What another size of an input does, as the guards state it."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.analysis.questions.input_sizes import described_sizes, input_sizes
from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact
from explorer.stages.dynamo.guards import Guard, Guards
from explorer.tracing.traced import Trace
from tests.conftest import replay_of

TENSOR = (
    "check_tensor(L['{name}'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, "
    "size=[{sizes}], stride=[{strides}])"
)


def tensor(name: str, sizes: str, strides: str) -> Guard:
    expression = TENSOR.format(name=name, sizes=sizes, strides=strides)
    return Guard(kind="TENSOR_MATCH", source=f"L['{name}']", expression=expression, code="y = x + 1", file="a.py", line=3)


def condition(expression: str) -> Guard:
    return Guard(kind="LAMBDA_GUARD", source="", expression=expression, code="", file="", line=0)


def guards(*rows: Guard, frame: str = "0/0") -> Artifact:
    return Artifact(f"{frame}:guards", "guards", frame, "", "Guards", "text", "", data=Guards(rows=rows))


def does(*rows: Guard) -> list[str]:
    return [each["does"] for each in input_sizes(Trace(artifacts=(guards(*rows),)))]


def test_a_size_that_a_guard_states_recompiles() -> None:
    """Each tensor of the call is listed with its sizes, the line of its guard, and the user's line that made it necessary."""
    each, other = input_sizes(replay_of("views/rotary-torch2.13-h100"))
    assert (each["name"], each["dtype"], each["sizes"]) == ("x", "float32", [2, 8, 32]) and other["name"] == "angles"
    (text,) = replay_of("views/rotary-torch2.13-h100").find("guards")
    assert each["does"] == "another size recompiles" and each["guards"] == text.id
    assert "TENSOR_MATCH" in text.lines[each["line"] - 1] and each["place"] and each["code"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((tensor("x", "None, None", "None, 1"),), ["any size"]),
        ((tensor("x", "None, 4", "4, 1"),), ["dim 0: any size, dim 1: another size recompiles"]),
        (
            (tensor("x", "None, 4", "4, 1"), condition("2 <= L['x'].size()[0]")),
            ["dim 0: any size from 2, dim 1: another size recompiles"],
        ),
        (
            (tensor("x", "None", "1"), condition("2 <= L['x'].size()[0]"), condition("(L['x'].size()[0] % 8) == 0")),
            ["any size from 2, where (x.size()[0] % 8) == 0"],
        ),
        (
            (tensor("x", "None", "1"), tensor("y", "None", "1"), condition("L['y'].size()[0] == L['x'].size()[0]")),
            ["any size, where y.size()[0] == x.size()[0]"] * 2,
        ),
        ((tensor("x", "", ""),), [""]),
    ],
)
def test_a_dynamic_size_has_the_conditions_of_the_guards(rows: Any, said: list[str]) -> None:
    """The least size, other conditions, and a relation of two tensors; dimensions that are alike share a sentence."""
    assert does(*rows) == said


def test_the_last_compile_of_the_called_function_counts() -> None:
    """After a recompile its sizes are those told; what goes on after a graph break is called by nobody."""
    resumed = blank(Source, function="torch_dynamo_resume_in_f_at_3", compiled=True)
    source = Artifact("s", "source", "0/0", "", "torch_dynamo_resume_in_f_at_3", "python", "def f(): ...", data=resumed)
    again = guards(tensor("x", "None", "1"), frame="1/1")
    trace = Trace(artifacts=(source, guards(tensor("stack", "5", "1")), guards(tensor("x", "8", "1"), frame="1/0"), again))
    (each,) = input_sizes(trace)
    assert (each["name"], each["does"], each["guards"]) == ("x", "any size", again.id)
    assert input_sizes(Trace()) == []


def test_a_trace_prints_its_inputs() -> None:
    """Tensors with one answer share it, and more than a few are counted; the print of a trace has the line."""
    rows = input_sizes(Trace(artifacts=(guards(*(tensor(name, "2, 3", "3, 1") for name in "abcde")),)))
    said = described_sizes(rows, 2)
    assert said == "a float32 [2, 3], b float32 [2, 3]: another size recompiles; and 3 more" and described_sizes([], 2) == ""
    printed = " ".join(repr(replay_of("views/rotary-torch2.13-h100")).split())
    assert "inputs: x float32 [2, 8, 32], angles float32 [8, 4]: another size recompiles " in printed
