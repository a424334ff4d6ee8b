"""The value of each node of a graph, held to what eager computes, and its picture to what another reader of PNG sees."""

from __future__ import annotations

import base64
import html
import struct
import zlib

import pytest
import torch

import explorer
from explorer.lab.stepping.node_values import facts_of
from explorer.lab.stepping.picture import picture
from tests.facts import says


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    hidden = torch.log(x @ w)
    return (hidden / (x[:, :1] > 0)).argmax(-1)


@pytest.fixture(scope="module")
def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 8), torch.randn(8, 6)


@pytest.fixture(scope="module")
def trace(inputs: tuple[torch.Tensor, torch.Tensor]) -> explorer.Trace:
    return explorer.trace(program, *inputs, target="h100")


@pytest.mark.compile
@pytest.mark.parametrize(("stage", "product", "logarithm"), [("graph", "matmul", "log"), ("post_grad", "mm", "log")])
def test_each_node_has_the_value_that_eager_computes(
    trace: explorer.Trace, inputs: tuple[torch.Tensor, torch.Tensor], stage: str, product: str, logarithm: str
) -> None:
    """Range, mean and the number of NaNs are those of the eager tensors, on the line on which the node is computed."""
    x, w = inputs
    rows = trace.live.values(stage)
    text = trace.text("dynamo" if stage == "graph" else stage).split("\n")
    for name, value in ((product, x @ w), (logarithm, torch.log(x @ w))):
        (row,) = (row for row in rows if name in row["target"].replace("::", ".").split(".") or name in row["target"])
        finite = value[value.isfinite()]
        assert (row["shape"], row["stride"], row["dtype"]) == (tuple(value.shape), tuple(value.stride()), "float32")
        assert [row["min"], row["max"], row["mean"]] == pytest.approx([*map(float, (finite.min(), finite.max(), finite.mean()))])
        assert (row["nan"], row["inf"]) == (int(value.isnan().sum()), int(value.isinf().sum()))
        assert f"{row['node']}:" in text[row["line"] - 1]
    assert [row["nan"] for row in rows if "log" in row["target"]] != [0], "the example has some"


@pytest.mark.compile
def test_every_node_of_the_graph_has_one_row(trace: explorer.Trace) -> None:
    """The rows are the nodes of the artifact, in order, without the output."""
    (graph,) = trace.find("post_grad")
    assert [row["node"] for row in trace.live.values("post_grad")] == [n["name"] for n in graph.nodes if n["op"] != "output"]


@pytest.mark.compile
def test_a_notebook_shows_the_pictures_and_a_text_does_not(trace: explorer.Trace) -> None:
    """The HTML has an image a tensor and no text that is not escaped; the text has no column of pictures."""
    rows = trace.live.values("graph")
    assert rows._repr_html_().count('<img src="data:image/png;base64,') == sum(bool(row["picture"]) for row in rows) > 3
    assert html.escape("<") not in repr(rows)
    assert "base64" not in repr(rows)


@pytest.mark.parametrize(
    ("tensor", "facts"),
    [
        (torch.tensor([1, 5, -2]), {"min": -2, "max": 5, "nan": 0, "inf": 0}),
        (torch.tensor([float("nan"), float("inf"), 2.0]), {"min": 2.0, "max": 2.0, "mean": 2.0, "nan": 1, "inf": 1}),
        (torch.tensor([3 + 4j]), {"min": 5.0, "max": 5.0}),
        (torch.tensor([True, False]), {"min": 0, "max": 1, "mean": 0.5}),
        (torch.tensor([1.5], dtype=torch.float8_e4m3fn), {"min": 1.5, "dtype": "float8_e4m3fn"}),
        (torch.empty(0, 3), {"shape": (0, 3), "dtype": "float32"}),
        (7, {"value": "7"}),
    ],
)
def test_values_of_every_kind_have_facts(tensor: object, facts: dict[str, object]) -> None:
    """Whole numbers, truth values, complex and eight-bit numbers, no elements, and what is no tensor."""
    given = facts_of(tensor)
    assert {name: given.get(name) for name in facts} == facts


def pixels(uri: str) -> list[list[tuple[int, ...]]]:
    """The pixels of a PNG of eight-bit RGB without filters, by the definition of the format."""
    data = base64.b64decode(uri.partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, dict[bytes, bytes]()
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + content)
        chunks[kind], at = content, at + 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    raw = zlib.decompress(chunks[b"IDAT"])
    lines = [raw[n * (3 * width + 1) :][: 3 * width + 1] for n in range(height)]
    assert all(line[0] == 0 for line in lines)
    return [[tuple(line[1 + 3 * n : 4 + 3 * n]) for n in range(width)] for line in lines]


def test_the_picture_has_the_elements_in_their_places() -> None:
    """Positive elements are red, negative ones blue, zero white; NaN and inf have colours of their own."""
    drawn = pixels(picture(torch.tensor([[2.0, -2.0, 0.0], [1.0, float("nan"), float("inf")]])))
    assert drawn == [[(255, 0, 0), (0, 0, 255), (255, 255, 255)], [(255, 128, 128), (255, 0, 255), (0, 160, 0)]]


def test_a_large_tensor_has_a_small_picture() -> None:
    """A batch of large matrices gives the first, and of its rows and columns at most 48."""
    drawn = pixels(picture(torch.randn(3, 2, 1000, 70)))
    assert (len(drawn), len(drawn[0])) == (48, 48)
    assert picture(torch.empty(0)) == ""


@pytest.mark.compile
def test_a_stage_without_nodes_is_refused(trace: explorer.Trace) -> None:
    """The wrapper has no nodes: InputError lists the stages that have."""
    with pytest.raises(explorer.errors.InputError, match=says("'wrapper'", "nodes", "'dynamo'", "'graph'")):
        trace.live.values("wrapper")
