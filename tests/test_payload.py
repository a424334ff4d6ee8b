"""The payload: what the front end reads of a trace, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from itertools import product
from typing import ClassVar

import pytest

from explorer.analysis.advice.call_cost import TracedCall
from explorer.analysis.advice.dynamo import recompiles
from explorer.errors import InputError
from explorer.lab.live.forms import forms_of
from explorer.lab.live.function import LiveFunction
from explorer.model.records import blank
from explorer.model.values import Artifact, Failure, Link, plain
from explorer.stages import STAGES
from explorer.stages.dynamo.recompile import Recompile, Recompiles
from explorer.stages.records import ARTIFACTS
from explorer.tracing.traced import Trace
from explorer.view.page import document
from explorer.view.payload import SMALL, merged, neighbours, payload, runs
from tests.facts import says


def artifact(stage: str, text: str, id: str = "", **more: object) -> Artifact:
    """A small artifact of frame 0/0; `id` is its stage's unless given."""
    data = blank(ARTIFACTS[stage]) if stage in ARTIFACTS else {}
    known = {"frame": "0/0", "graph": "", "title": stage.title(), "language": "text", "data": data, **more}
    return Artifact(id=id or f"0/0:{stage}", stage=stage, text=text, **known)


def pairs_of(links: list[list[object]], names: list[str], hows: list[str]) -> set[tuple[object, ...]]:
    """Every (source, line, target, line, how) that a payload's links say."""
    found = set()
    for source, target, how, flat in links:
        for first, count, other, width in zip(*[iter(flat)] * 4, strict=True):
            for k in range(count):
                targets = range(other, other + width) if width else [other + k]
                found.update((names[source], first + k, names[target], t, hows[how]) for t in targets)
    return found


def stated(trace: Trace) -> set[tuple[object, ...]]:
    """The same pairs, of the trace itself."""
    return {(x.source, s, x.target, t, x.how) for x in trace.links for s, t in product(x.source_lines, x.target_lines)}


@pytest.mark.parametrize("name", ["attention-torch2.13-cpu", "mlp_train-torch2.11-cuda", "sin_cos-torch2.13-cpu"])
def test_links_say_what_the_trace_says(replayed, name):
    """The compact links are the trace's links: every pair of lines, none more, each known as the trace knows it."""
    trace = replayed(name)
    made = payload(trace)
    assert stated(trace)
    assert pairs_of(made["links"], [a["id"] for a in made["artifacts"]], made["hows"]) == stated(trace)


def test_payload_is_plain_json_and_the_same_for_equal_traces(replayed):
    """A payload survives JSON unchanged, and a second one of the same trace is equal."""
    trace = replayed("sin_cos-torch2.13-cpu")
    assert json.loads(json.dumps(payload(trace), allow_nan=False)) == payload(trace)


def test_stages_come_in_the_compilers_order_with_title_and_about():
    """The payload lists the stages the trace has, the explorer's own in the compiler's order, a caller's own after them."""
    made = payload(Trace(artifacts=(artifact("mine", "x"), artifact("kernel", "k"), artifact("dynamo", "d"))))
    assert [s["name"] for s in made["stages"]] == ["dynamo", "kernel", "mine"]
    known = {s.name: s for s in STAGES}
    assert made["stages"][0]["title"] == known["dynamo"].title
    assert made["stages"][0]["about"] == known["dynamo"].about
    mine = {"name": "mine", "title": "mine", "about": "", "language": "text", "opens_at": 0, "made_from": []}
    assert made["stages"][2] == mine
    assert made["stages"][1]["opens_at"] > made["stages"][0]["opens_at"] > 0


def test_artifacts_carry_their_text_size_time_and_origin():
    """An artifact of the payload has its text, its line count, its seconds, and the function of the compiler that made it."""
    one = artifact("dynamo", "a\nb\x0cc", seconds=0.5, path=(("torch/a.py", 1, "f"), ("torch/b.py", 2, "g")))
    (made,) = payload(Trace(artifacts=(one,)))["artifacts"]
    assert made["text"] == "a\nb\x0cc"
    assert made["lines"] == 2 == len(one.lines)
    assert made["seconds"] == 0.5
    assert made["made_by"] == "g (torch/b.py:2)"


def test_stages_that_are_made_on_demand_say_of_what():
    """The stages that `forms_of` makes, and no others, each with a stage or a language of kernels."""
    trace = Trace()
    listed = {each["stage"]: (each["title"], each["of"]) for each in payload(trace)["on_demand"]}
    forms = {name: title for name, (title, of) in listed.items() if of == "pallas"}
    assert forms == {"pallas_jaxpr": "Jaxpr", "pallas_stablehlo": "StableHLO · Pallas", "pallas_mosaic": "Mosaic · TPU"}
    halide = {name: title for name, (title, of) in listed.items() if of == "halide"}
    assert halide == {
        "halide_schedule": "Schedule · Halide",
        "halide_stmt": "Statement · Halide",
        "halide_llvm": "LLVM IR · Halide",
        "halide_assembly": "Assembly · Halide",
    }
    cuda = {name: title for name, (title, of) in listed.items() if of == "cuda"}
    assert cuda == {"cuda_ptx": "PTX · CUDA C++", "cuda_sass": "SASS · CUDA C++"}
    others = {name: each for name, each in listed.items() if name not in forms | halide | cuda}
    assert others == {"sass": ("SASS", "ptx"), "assembly": ("Assembly", "cpp")}
    for stage in STAGES:
        if stage.name in listed:
            assert forms_of(trace, LiveFunction, [], stage.name) == []
        else:
            with pytest.raises(InputError, match=says("'sass'", "'assembly'")):
                forms_of(trace, LiveFunction, [], stage.name)


def test_only_small_data_travels():
    """Facts of a few characters are in the payload; nodes of graphs and long tables stay in the trace."""
    data = plain({"section": "joint", "nodes": [], "long": "x" * (SMALL + 1), "rows": [{"a": 1}] * SMALL})
    (made,) = payload(Trace(artifacts=(artifact("x", "", data=data),)))["artifacts"]
    assert made["data"] == {"section": "joint"}


def test_failures_are_listed_with_whether_they_are_fatal():
    """Every failure is in the payload, with `fatal` said either way."""
    made = payload(Trace(failures=(Failure("a", "b", "c"), Failure("d", "e", "f", fatal=True))))
    assert [f["fatal"] for f in made["failures"]] == [False, True]


def test_links_to_texts_that_are_not_there_are_left_out():
    """A link whose end the trace does not hold, as in a hand-made or cut trace, is no reason to fail."""
    trace = Trace(artifacts=(artifact("a", "1"),), links=(Link("0/0:a", (1,), "gone", (1,), "x"),))
    assert payload(trace)["links"] == []


def test_neighbouring_lines_are_one_run():
    """Lines become runs whatever their order, a repeated line counts once."""
    assert neighbours((5, 3, 4, 9, 4)) == [(3, 3), (9, 1)]
    assert neighbours(()) == []


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(1, 7), (2, 7), (3, 7)], [(1, 3, 7, 1)]),
        ([(1, 7), (2, 8), (3, 9)], [(1, 3, 7, 0)]),
        ([(1, 7), (2, 8), (3, 8)], [(1, 2, 7, 0), (3, 1, 8, 1)]),
        ([(1, 7), (2, 7), (3, 8)], [(1, 2, 7, 1), (3, 1, 8, 1)]),
        ([(1, 7), (1, 8)], [(1, 1, 7, 1), (1, 1, 8, 1)]),
    ],
)
def test_links_that_go_on_are_merged(pairs, expected):
    """Links of neighbouring lines to one line, or line by line, become one run, and only those."""
    assert merged(runs(Link("a", (s,), "b", (t,), "x") for s, t in pairs)) == expected


def test_empty_trace_has_a_payload():
    """A trace of nothing gives a payload of nothing."""
    made = payload(Trace())
    assert (made["artifacts"], made["stages"], made["links"], made["failures"]) == ([], [], [], [])


class CountedArtifact(Artifact):
    """An artifact that counts how often it is asked where it is from."""

    looks: ClassVar[list[str]] = []

    def __getattribute__(self, name):
        if name in ("frame", "stage"):
            self.looks.append(self.__dict__["id"])
        return super().__getattribute__(name)


def looks_at(trace, compiles):
    """How often the payload of so many frames, each compiled as that of the trace, asks an artifact where it is from."""
    names = [field.name for field in fields(Artifact)]

    def copied(a, n):
        facts = {name: getattr(a, name) for name in names}
        return CountedArtifact(**{**facts, "id": f"{n}|{a.id}", "frame": a.frame and f"{n}/0"})

    artifacts = tuple(copied(a, n) for n in range(compiles) for a in trace.artifacts)
    CountedArtifact.looks.clear()
    payload(replace(trace, artifacts=artifacts, links=()))
    return len(CountedArtifact.looks)


def test_each_further_compile_takes_as_many_looks(rotary):
    """Kernels, verdicts and lowerings of a graph are looked up, not searched for among those of every other compile."""
    few, more, most = (looks_at(rotary, compiles) for compiles in (2, 3, 4))
    assert 0 < most - more == more - few


@pytest.mark.compile
def test_payload_needs_no_torch():
    """Payload and page are made without importing torch or triton."""
    imports = "import sys, explorer.view.payload, explorer.view.page"
    code = f"{imports}; print({{'torch', 'triton'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"


def test_the_launches_of_the_overview_are_all_of_a_call(replayed):
    """Also where one C++ kernel has the loops of several: then more are ranked than are launched."""
    (info,) = payload(replayed("mlp_train-torch2.13-cpu"))["overview"]
    assert info["launches"] == sum(step["count"] for step in info["flow"] if step["is_launch"]) == 8
    assert info["ranked"] == sum(hot["launches"] for hot in info["hottest"]) == 9


def of_compiles(recorded: Trace, count: int) -> Trace:
    """A trace of so many compiles of one function: each has the texts of a recorded one, and a failed guard of all before it."""
    frame = recorded.compile_ids[0]
    artifacts: list[Artifact] = []
    links: list[Link] = []
    for n in range(count):
        names = {a.id: a.id.replace(frame, f"0/{n}", 1) for a in recorded.artifacts if a.frame == frame}
        artifacts += [replace(a, id=names[a.id], frame=f"0/{n}") for a in recorded.artifacts if a.id in names]
        own = (link for link in recorded.links if link.source in names and link.target in names)
        links += [replace(link, source=names[link.source], target=names[link.target]) for link in own]
        rows = tuple(Recompile(earlier=f"0/{m}", guard=f"tensor 'x' size mismatch at index 0. expected {m}") for m in range(n))
        if rows:
            artifacts.append(artifact("recompile", "again", f"0/{n}:recompile", frame=f"0/{n}", data=Recompiles(rows=rows)))
    return Trace(recorded.meta, tuple(artifacts), tuple(links))


@pytest.mark.parametrize("work", [document, lambda trace: list(recompiles(TracedCall(trace)))], ids=["page", "advice"])
def test_the_work_for_a_page_grows_with_the_number_of_compiles(replayed, work):
    """Three times the compiles of a function take three times the calls of Python functions, though each lists all before it."""
    recorded = replayed("sin_cos-torch2.13-cpu")

    def calls(count: int) -> int:
        trace = of_compiles(recorded, count)
        made = [0]

        def count_call(frame: object, event: str, argument: object) -> None:
            made[0] += event == "call"

        sys.setprofile(count_call)
        try:
            work(trace)
        finally:
            sys.setprofile(None)
        return made[0]

    calls(1)  # what is made once for the process, such as the bundle
    assert calls(60) < 3.3 * calls(20)
