"""AOTAutograd's views and mutations, held to what the program itself does to its tensors."""

from __future__ import annotations

import pytest
import torch

import explorer
from tests.facts import untold

pytestmark = pytest.mark.compile


def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Change one input; return a view of the other, and a new tensor."""
    x.add_(1)
    return y[0], x * y


@pytest.fixture(scope="module")
def trace() -> explorer.Trace:
    """The program above, compiled for inference."""
    return explorer.trace(program, torch.randn(4, 4), torch.randn(4, 4), target="h100")


def test_inputs_and_outputs_are_what_eager_says_they_are(trace: explorer.Trace) -> None:
    """Versions and storages, as eager leaves them, say which input is changed and which output shares an input's memory."""
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    rows = trace.table("aot_metadata")
    versions = x._version, y._version
    outputs = program(x, y)
    changed = [tensor._version != version for tensor, version in zip((x, y), versions, strict=True)]
    assert ["not changed" not in row["is"] for row in rows if row["what"] == "input"] == changed
    shared = [output.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() for output in outputs]
    assert ["input 1" in row["is"] for row in rows if row["what"] == "output"] == shared
    assert [row["type"] for row in rows if row["what"] == "input"] == ["float32[4, 4]"] * 2


def test_each_line_leads_to_the_value_in_dynamos_graph(trace: explorer.Trace) -> None:
    """Inputs lead to placeholders, outputs to what makes them, by their order in the program."""
    (found,), (graph,) = trace.find("aot_metadata"), trace.find("dynamo")
    targets = {link.source_lines[0]: graph.lines[link.target_lines[0] - 1] for link in trace.links if link.source == found.id}
    assert "getitem" in targets[3] and "mul" in targets[4], targets


def test_the_table_of_stages_says_how_many(trace: explorer.Trace) -> None:
    """For a program that changes an input and returns one view."""
    (row,) = trace.stages.where(stage="aot_metadata")
    assert not untold(row["changes"], "1 input", "1 view")


def test_inference_and_training_have_one_each(trace: explorer.Trace) -> None:
    """Each names the graph that it belongs to."""
    trained = explorer.trace(lambda x: x.sin(), torch.randn(4, requires_grad=True), target="h100", train=True)
    assert [[a.graph for a in each.find("aot_metadata")] for each in (trace, trained)] == [["inference"], ["forward"]]
