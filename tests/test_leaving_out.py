"""Leaving out a stage: what is shown of the other stages does not depend on it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import explorer
from explorer import STAGES, Artifact, Event, Failure, Link, Stage
from explorer.model.values import record_to_json
from explorer.stages import OTHER_COMPILERS
from explorer.traced import Trace

Recorded = tuple[list[Event], list[Failure], dict[str, object]]
#: An inference and a training trace, on the CPU and on a GPU.
PROGRAMS = ("attention-torch2.13-cpu", "attention-torch2.11-cuda", "mlp_train-torch2.15-cpu", "mlp_train-torch2.11-cuda")
#: A recording of each compiler other than Inductor, whose texts those programs do not have.
BY_OTHERS = {
    backend: f"{program}-torch2.13-cpu"
    for backend, program in {
        "iree": "iree_linear",
        "onnxrt": "onnxrt_linear",
        "openvino": "openvino_parts",
        "tvm": "tvm_linear",
        "xla": "xla_linear",
    }.items()
}
#: (recording, the stage that is left out).
CASES = [
    *((program, stage.name) for program in PROGRAMS for stage in STAGES if stage not in OTHER_COMPILERS),
    *((BY_OTHERS[stage.backend], stage.name) for stage in OTHER_COMPILERS if stage.backend),
    *((program, stage.name) for program in BY_OTHERS.values() for stage in OTHER_COMPILERS if not stage.backend),
    *((program, name) for program in BY_OTHERS.values() for name in ("source", "dynamo", "forward")),
]


def without(name: str) -> tuple[Stage, ...]:
    """All stages but one."""
    return tuple(stage for stage in STAGES if stage.name != name)


def said(trace: Trace, left_out: str) -> tuple[list[str], list[str]]:
    """What is shown of all stages but one, as bytes of JSON: their artifacts in full, and the links among them."""
    kept = {a.id for a in trace.artifacts if a.stage != left_out}
    artifacts = [json.dumps(record_to_json(a)) for a in trace.artifacts if a.id in kept]
    links = [link for link in trace.links if link.source in kept and link.target in kept]
    return artifacts, [json.dumps(record_to_json(link)) for link in links]


@pytest.mark.parametrize(("program", "name"), CASES)
def test_the_other_stages_say_the_same(
    program: str, name: str, recorded: Callable[[str], Recorded], replayed: Callable[[str], Trace]
) -> None:
    """Of recorded events: every artifact, name and link of the others is the same byte for byte, and the stage is not there."""
    events, failures, meta = recorded(program)
    left = Trace.of_events(events, failures, meta, without(name))
    assert said(left, name) == said(replayed(program), name)
    assert not left.find(name) and left.failures == replayed(program).failures


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_recordings_have_links_to_lose(program: str, replayed: Callable[[str], Trace]) -> None:
    """The comparison compares something: most stages are there, and most are linked."""
    trace = replayed(program)
    assert len({a.stage for a in trace.artifacts}) >= 15 and len(trace.links) > 100
    linked = {end.partition(":")[2].partition(":")[0] for link in trace.links for end in (link.source, link.target)}
    assert {"source", "dynamo", "post_grad", "output_code", "ir_post_fusion"} <= linked and len(linked) >= 9


@pytest.mark.parametrize("backend", BY_OTHERS)
def test_the_recordings_of_other_compilers_have_links_to_lose(backend: str, replayed: Callable[[str], Trace]) -> None:
    """Most of a compiler's stages are there, and something is linked to most of them."""
    trace = replayed(BY_OTHERS[backend])
    its_own = {stage.name for stage in OTHER_COMPILERS if stage.backend == backend}
    there = {a.stage for a in trace.artifacts} & its_own
    linked = {end.stage for link in trace.links for end in (trace.artifact(link.source), trace.artifact(link.target))}
    print(f"{backend}: {len(there)} of {len(its_own)} stages, {len(linked & its_own)} of them linked, {len(trace.links)} links")
    assert 2 * len(there) > len(its_own) and 2 * len(linked & there) >= len(there)


def test_a_stage_of_the_same_name_replaces_the_built_in_one(recorded: Callable[[str], Recorded]) -> None:
    """It alone is rendered, and the others link as before."""
    events, failures, meta = recorded(PROGRAMS[0])
    guards = next(stage for stage in STAGES if stage.name == "guards")

    def render(event: Event, id: str) -> Artifact:
        return replace(guards.render(event, id), title="mine")

    mine = replace(guards, render=render, link=lambda artifact, trace: ())
    trace = Trace.of_events(events, failures, meta, (*without("guards"), mine))
    assert [a.title for a in trace.artifacts if a.stage == "guards"] == ["mine"] and trace.artifacts[-1].stage == "guards"
    whole = Trace.of_events(events, failures, meta)
    assert sorted(map(repr, said(trace, "guards")[1])) == sorted(map(repr, said(whole, "guards")[1]))


def test_a_stage_of_ones_own_may_link_to_a_stage_that_is_left_out(recorded: Callable[[str], Recorded]) -> None:
    """Its link function sees every stage; of its links those remain whose ends are shown."""
    events, failures, meta = recorded(PROGRAMS[0])
    seen: list[int] = []

    def link(artifact: Artifact, trace: Trace) -> list[Link]:
        seen.append(len(trace.find("post_grad")))
        ends = [(a, a.stage) for a in (*trace.find("post_grad"), *trace.find("dynamo"))]
        return [Link(artifact.id, (1,), end.id, (1,), how) for end, how in ends]

    graph = next(stage for stage in STAGES if stage.name == "dynamo")
    mine = replace(
        graph, name="mine", link=link, gather=lambda own, frames: [replace(e, kind="mine") for e in own], consumes=("dynamo",)
    )
    trace = Trace.of_events(events, failures, meta, (*without("post_grad"), mine))
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


@pytest.mark.parametrize(("name", "train"), [("backward", False), ("kernel", True)], ids=["inference", "training"])
def test_a_live_trace_without_a_stage_has_the_others(name: str, train: bool) -> None:
    """Compiled anew without the stage, for a GPU you don't have: the ids, texts and links of the others are the same."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16, 4, requires_grad=train)
    whole = explorer.trace(program, x, w, target="h100", train=train)
    left = explorer.trace(program, x, w, target="h100", train=train, stages=without(name))
    assert not left.find(name) and [f for f in left.failures if f not in whole.failures] == []
    assert facts(left, name) == facts(whole, name)
    assert said(left, name)[1] == said(whole, name)[1] and len(left.links) > 50
