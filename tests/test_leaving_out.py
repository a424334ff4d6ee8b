"""Leaving out a stage: what is shown of the other stages does not depend on it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import explorer
from explorer.model.stage import link_nothing
from explorer.model.values import record_to_json
from explorer.stages.halide import HALIDE_FORMS
from explorer.stages.pallas import PALLAS_FORMS
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from explorer.types import STAGES, Artifact, Event, Failure, Link, Stage

Recorded = tuple[list[Event], list[Failure], dict[str, object]]
#: Recordings of inference that together link most stages: for the CPU and for GPUs, and one of each compiler but Inductor.
INFERENCE = (
    "attention-torch2.13-cpu",
    "attention-torch2.11-cuda",
    "views/limit-torch2.13-cpu",
    "views/tuned_mm-torch2.13-h100",
    "iree_linear-torch2.13-cpu",
    "onnxrt_linear-torch2.13-cpu",
    "openvino_parts-torch2.13-cpu",
    "tvm_linear-torch2.13-cpu",
    "xla_linear-torch2.13-cpu",
)
TRAINING = ("mlp_train-torch2.15-cpu", "mlp_train-torch2.11-cuda")
#: Compilers other than Inductor, and what is left out of their recordings beside their own stages: what these link to.
OTHERS = INFERENCE[4:]
BELOW_OTHERS = ("source", "dynamo", "forward")
#: Stages with links of their own that no text of these recordings has.
UNLINKED = {
    *("amdgcn", "assembly", "attention", "bisection", "choice", "compiled_fn", "cuda_graph", "eager_collective", "perf_hint"),
    *("piece", "profile", "counters", "sass", "symbolic_steps"),
    *("iree_target", "onnx_optimize", "onnxrt_disable", "tvm_target", *PALLAS_FORMS, *HALIDE_FORMS),
}


def without(name: str) -> tuple[Stage, ...]:
    """All stages but one."""
    return tuple(stage for stage in STAGES if stage.name != name)


def said(trace: Trace, left_out: str) -> tuple[list[str], list[str]]:
    """What is shown of all stages but one, as bytes of JSON: their artifacts in full, and the links among them."""
    kept = {a.id for a in trace.artifacts if a.stage != left_out}
    artifacts = [json.dumps(record_to_json(a)) for a in trace.artifacts if a.id in kept]
    links = [link for link in trace.links if link.source in kept and link.target in kept]
    return artifacts, [json.dumps(record_to_json(link)) for link in links]


def links_of(trace: Trace) -> Counter[str]:
    """The number of links at each stage's texts."""
    stages = {artifact.id: artifact.stage for artifact in trace.artifacts}
    return Counter(stages[end] for link in trace.links for end in {link.source, link.target})


@pytest.fixture(scope="module")
def chosen(replayed: Callable[[str], Trace]) -> dict[str, set[str]]:
    """Choose what is left out of each recording: a stage of the one of inference and the one of training that link it most.

    A stage that none of them links is left out where it has texts, or of the first.
    """
    left_out = {program: set(BELOW_OTHERS if program in OTHERS else ()) for program in (*INFERENCE, *TRAINING)}
    links = {program: links_of(replayed(program)) for program in left_out}
    for stage in STAGES:
        most = [max(group, key=lambda program: links[program][stage.name]) for group in (INFERENCE, TRAINING)]
        linked = [program for program in most if links[program][stage.name]]
        there = [program for program in left_out if replayed(program).find(stage.name)]
        for program in linked or there[:1] or INFERENCE[:1]:
            left_out[program].add(stage.name)
    return left_out


@pytest.mark.parametrize("program", (*INFERENCE, *TRAINING))
def test_the_other_stages_say_the_same(
    program: str, chosen: dict[str, set[str]], recorded: Callable[[str], Recorded], replayed: Callable[[str], Trace]
) -> None:
    """Of recorded events: every artifact, name and link of the others is the same byte for byte, and the stage is not there."""
    events, failures, meta = recorded(program)
    whole, changed = replayed(program), []
    for name in sorted(chosen[program]):
        left = trace_of_events(events, failures, meta, without(name))
        if said(left, name) != said(whole, name) or left.find(name) or left.failures != whole.failures:
            changed.append(name)
    assert changed == [], "left out, these change the others"


def test_each_stage_is_left_out_where_it_has_links_to_lose(chosen: dict[str, set[str]], replayed: Callable[[str], Trace]) -> None:
    """The comparison compares something: each stage is left out of a recording with links at its texts, but for those named."""
    assert set().union(*chosen.values()) == {stage.name for stage in STAGES}
    linked = {name for program, names in chosen.items() for name in names & links_of(replayed(program)).keys()}
    linking = {stage.name for stage in STAGES if stage.link is not link_nothing}
    assert linking - linked == UNLINKED
    assert linked <= linking, "no other stage links these, so leaving them out loses no link"
    below = {name for program in TRAINING for name in chosen[program] & links_of(replayed(program)).keys()}
    assert {"source", "dynamo", "joint", "forward", "backward", "post_grad", "ir_post_fusion", "output_code", "kernel"} <= below
    assert [p for p in OTHERS if not set(BELOW_OTHERS) <= chosen[p] & links_of(replayed(p)).keys()] == []


def test_a_stage_of_the_same_name_replaces_the_built_in_one(recorded: Callable[[str], Recorded]) -> None:
    """It alone is rendered, and the others link as before."""
    events, failures, meta = recorded(INFERENCE[0])
    guards = next(stage for stage in STAGES if stage.name == "guards")

    def render(event: Event, id: str) -> Artifact:
        return replace(guards.artifact_of(event, id), title="mine")

    mine = replace(guards, render=render, link=lambda artifact, trace: ())
    trace = trace_of_events(events, failures, meta, (*without("guards"), mine))
    assert [a.title for a in trace.artifacts if a.stage == "guards"] == ["mine"] and trace.artifacts[-1].stage == "guards"
    whole = trace_of_events(events, failures, meta)
    assert sorted(map(repr, said(trace, "guards")[1])) == sorted(map(repr, said(whole, "guards")[1]))


def test_a_stage_of_ones_own_may_link_to_a_stage_that_is_left_out(recorded: Callable[[str], Recorded]) -> None:
    """Its link function sees every stage; of its links those remain whose ends are shown."""
    events, failures, meta = recorded(INFERENCE[0])
    seen: list[int] = []

    def link(artifact: Artifact, trace: Trace) -> list[Link]:
        seen.append(len(trace.find("post_grad")))
        ends = [(a, a.stage) for a in (*trace.find("post_grad"), *trace.find("dynamo"))]
        return [Link(artifact.id, (1,), end.id, (1,), how) for end, how in ends]

    graph = next(stage for stage in STAGES if stage.name == "dynamo")
    mine = replace(
        graph,
        name="mine",
        link=link,
        gather=lambda own, frames: [replace(e, kind="mine") for e in own],
        consumes={"dynamo": None},
    )
    trace = trace_of_events(events, failures, meta, (*without("post_grad"), mine))
    assert seen == [1] and [link.how for link in trace.links if link.source == trace.find("mine")[0].id] == ["dynamo"]


# Live ------------------------------------------------------------------------------------------------------------------


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product and a sum."""
    return torch.relu(x @ w).sum(-1)


def facts(trace: Trace, left_out: str) -> list[tuple[str, str]]:
    """Ids and texts of the stages that neither measure nor name the process's files; Dynamo and depyf number names anew."""
    changing = {"phase", "compilation_metrics", "written_file", "setting", "fx_graph_runnable", "compile_call", left_out}
    return [
        (a.id, re.sub(r"__compiled_fn_\w+|__temp_\d+|AOT ID: \['\d+", "name", a.text))
        for a in trace.artifacts
        if a.stage not in changing
    ]


@pytest.mark.compile
def test_a_live_trace_without_a_stage_has_the_others() -> None:
    """Compiled anew without one stage, for a GPU you don't have: the ids, texts and links of the others are the same."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16, 4, requires_grad=True)
    whole = explorer.trace(program, x, w, target="h100", train=True)
    for name in ("backward", "kernel"):
        left = explorer.trace(program, x, w, target="h100", train=True, stages=without(name))
        assert whole.find(name) and not left.find(name) and [f for f in left.failures if f not in whole.failures] == []
        assert facts(left, name) == facts(whole, name)
        assert said(left, name)[1] == said(whole, name)[1] and len(left.links) > 50
