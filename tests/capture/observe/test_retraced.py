"""Graphs inside flex attention: each line that is generated from a score or mask function leads to the user's line in it."""

from __future__ import annotations

import re

import pytest
import torch

import explorer
from explorer.model.values import Artifact
from explorer.stages.inductor.kernel import owners
from explorer.tracing.traced import Trace

pytest.importorskip("triton")
attention = pytest.importorskip("torch.nn.attention.flex_attention")


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    """Flex attention with one operator on each line of its score and mask functions."""

    def score_mod(
        score: torch.Tensor, b: torch.Tensor, h: torch.Tensor, q_idx: torch.Tensor, kv_idx: torch.Tensor
    ) -> torch.Tensor:
        capped = torch.tanh(score)
        slope = slopes[h]
        distance = q_idx - kv_idx
        bias = slope * distance
        return capped + bias

    mask = BLOCK_MASK if query.shape[2] == 128 else None
    out: torch.Tensor = attention.flex_attention(query, key, value, score_mod=score_mod, block_mask=mask)
    return out


def causal(b: torch.Tensor, h: torch.Tensor, q_idx: torch.Tensor, kv_idx: torch.Tensor) -> torch.Tensor:
    """Mask what comes later."""
    return q_idx >= kv_idx


BLOCK_MASK = attention.create_block_mask(causal, 1, 2, 128, 128, device="cpu")
#: Pieces of generated lines, in Triton and in C++, and a piece of the user's line for each.
TANH, SLOPE, DISTANCE, SUM, MASK = "torch.tanh(score)", "slopes[h]", "q_idx - kv_idx", "capped + bias", "q_idx >= kv_idx"


@pytest.fixture(scope="module")
def on_gpu() -> Trace:
    """The forward and the backward, on a named GPU, where the captured slopes have a gradient."""
    query, key, value = (torch.randn(1, 2, 128, 64, requires_grad=True) for _ in range(3))
    return explorer.trace(attend, query, key, value, torch.rand(2, requires_grad=True), target="h100", train=True)


def user_lines(trace: Trace, artifact: Artifact, line: int) -> set[str]:
    """The user's lines that a line comes from, without the calls that led there."""
    rows = trace.follow(artifact.id, line, "source")
    return {row["text"].strip() for row in rows if "called from" not in row["route"]}


def template(trace: Trace, name: str, graph: str) -> Artifact:
    """The kernel of a flex attention template."""
    return next(kernel for kernel in trace.find("kernel", graph=graph) if name in kernel.kernel)


def lines_of(kernel: Artifact, pattern: str) -> list[int]:
    """The numbers of the lines with a text of that pattern."""
    return [number for number, line in enumerate(kernel.lines, 1) if re.search(pattern, line)]


@pytest.mark.compile
def test_the_forwards_lines_lead_into_the_score_and_mask_functions(on_gpu: Trace) -> None:
    """The tanh, the load of the slope, the difference, the sum and the mask each lead to their own line of the user's."""
    assert not on_gpu.failures
    kernel = template(on_gpu, "triton_tem_fused_flex_attention", "forward")
    tangent, slope, distance = (
        lines_of(kernel, piece) for piece in (r"libdevice\.tanh", r"tl\.load\(in_ptr\d+ \+ tmp\d+\)", r"= tmp\d+ - tmp\d+$")
    )
    assert tangent
    assert slope
    assert distance
    assert all(TANH in line for number in tangent for line in user_lines(on_gpu, kernel, number))
    assert all(SLOPE in line for number in slope for line in user_lines(on_gpu, kernel, number))
    assert all(DISTANCE in line for number in distance for line in user_lines(on_gpu, kernel, number))
    (mask,) = lines_of(kernel, r"tmp\d+ >= tmp\d+")
    assert [MASK in line for line in user_lines(on_gpu, kernel, mask)] == [True]


@pytest.mark.compile
def test_the_backwards_lines_lead_to_the_operators_that_they_differentiate(on_gpu: Trace) -> None:
    """What is computed again leads to its line, 1 - tanh² to the tanh, and the gradient of the slopes to their load."""
    (graph,) = on_gpu.find("post_grad", graph="backward")
    found: dict[str, set[str]] = {}
    for number, line in enumerate(graph.lines, 1):
        if operator := re.search(r"torch\.ops\.\w+\.(tanh|sub|zeros_and_scatter)\b", line):
            found.setdefault(operator[1], set()).update(user_lines(on_gpu, graph, number))
    assert any(TANH in line for line in found["tanh"])
    assert any(TANH in line for line in found["sub"])  # 1 - tanh²
    assert any(DISTANCE in line for line in found["sub"])
    assert any(SLOPE in line for line in found["zeros_and_scatter"])
    kernel = template(on_gpu, "triton_tem_fused_flex_attention_backward", "backward")
    tangents = lines_of(kernel, r"libdevice\.tanh")
    assert tangents
    assert all(TANH in line for number in tangents for line in user_lines(on_gpu, kernel, number))


@pytest.mark.compile
def test_the_templates_own_lines_are_its_own(on_gpu: Trace) -> None:
    """A line that the template wrote belongs to the call of flex attention, and is known by the template."""
    kernel = template(on_gpu, "triton_tem_fused_flex_attention", "forward")
    (number,) = lines_of(kernel, r"off_hkv = off_hq // GQA_SHARED_HEADS")
    assert owners(kernel)[number] == (("flex_attention",), "template")


@pytest.mark.compile
def test_inner_nodes_lead_to_the_nodes_of_dynamos_score_function(on_gpu: Trace) -> None:
    """The joint graph's tanh was traced for the one in Dynamo's score_mod_0, which the link names."""
    (joint,) = on_gpu.find("joint")
    number = next(n for n, line in enumerate(joint.lines, 1) if "aten.tanh.default" in line)
    before = on_gpu.find("pre_grad")[-1]
    links = [link for link in on_gpu.links if (link.source, link.target) == (joint.id, before.id) and number in link.source_lines]
    assert ["torch.tanh(" in before.lines[line - 1] for link in links for line in link.target_lines] == [True]


@pytest.mark.compile
def test_on_the_cpu_the_lines_of_the_template_lead_into_the_functions_too() -> None:
    """In C++ the loops of the score and of the mask lead to their lines, though sizes in them are written anew."""
    query, key, value = (torch.randn(1, 2, 128, 16) for _ in range(3))
    trace = explorer.trace(attend, query, key, value, torch.rand(2), target="cpu")
    kernel = template(trace, "flex_attention", "inference")
    for pattern, words in ((r"\.tanh\(\)", TANH), (r"tmp\d+ >= tmp\d+", MASK)):
        numbers = lines_of(kernel, pattern)
        assert numbers
        assert all(words in line for number in numbers for line in user_lines(trace, kernel, number))
