"""Trace: finding texts, tables and linked lines, what the summary and the repr say, and what needs a live process."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from explorer.analysis.questions.summary import summary_rows
from explorer.errors import CompileError, InputError, LiveError
from explorer.model.records import blank
from explorer.model.shared import Kernel as KernelData
from explorer.model.shared import Source
from explorer.model.trace_data import artifact_of, source_line
from explorer.model.values import Artifact, Failure, Link, Table, plain
from explorer.process.under_way import Watchers
from explorer.sources.files.trace_file import dumps
from explorer.stages.cpp.assembly import Assembly
from explorer.tracing import traced
from explorer.tracing.traced import Trace, loads
from explorer.tracing.traced.attach import MACHINE_CODE
from explorer.tracing.traced.choice import Choice
from explorer.tracing.traced.guesses import ACCESSORS
from tests.each import each
from tests.facts import says, untold

Replayed = Callable[[str], Trace]


@pytest.fixture
def toy(replayed: Replayed) -> Trace:
    """The toy example: three frames, a graph break, three kernels."""
    return replayed("toy_example-torch2.13-cpu")


@pytest.fixture
def mlp(replayed: Replayed) -> Trace:
    """A forward and backward."""
    return replayed("mlp_train-torch2.13-cpu")


@pytest.fixture
def recompiled(replayed: Replayed) -> Trace:
    """One frame compiled three times."""
    return replayed("recompile-torch2.13-cpu")


def artifact(id: str, stage: str, text: str = "x", **changes: Any) -> Artifact:
    return Artifact(id, stage, changes.pop("frame", "0/0"), changes.pop("graph", ""), id, "text", text, **changes)


# Texts -------------------------------------------------------------------------------------------------------------


def test_text_gives_the_only_text_as_it_is(replayed: Replayed) -> None:
    """With one artifact of a stage, its text, without a heading."""
    trace = replayed("sin_cos-torch2.13-cpu")
    assert trace.text("source").startswith("def sin_cos(") and trace.text("source") == trace.find("source")[0].text


def test_text_gives_several_under_a_heading_each(mlp: Trace) -> None:
    """With several artifacts of a stage, all of them, each under a line with its title and id."""
    text = mlp.text("post_grad")
    assert "# ---- Post-grad graph [0/0:post_grad:forward]" in text
    assert "# ---- Post-grad graph [0/0:post_grad:backward]" in text
    assert all(a.text in text for a in mlp.find("post_grad"))


def test_text_of_one_graph_or_frame(mlp: Trace, toy: Trace) -> None:
    """`graph` and `frame` choose among several."""
    assert mlp.text("post_grad", graph="backward") == artifact_of(mlp, "0/0:post_grad:backward").text
    assert toy.text("dynamo", frame="1/0") == artifact_of(toy, "1/0:dynamo").text


def test_text_of_an_unknown_stage_offers_the_nearest(mlp: Trace) -> None:
    """A stage that the trace lacks is an InputError that names the nearest, and only stages the trace has."""
    with pytest.raises(InputError, match=says("stage", "'post_gard'", "'post_grad'")) as caught:
        mlp.text("post_gard")
    assert "'graph_break'" not in str(caught.value) and "'backward'" in str(caught.value)


def test_text_of_a_frame_without_the_stage_is_an_input_error(toy: Trace) -> None:
    """A stage that is there, but not in the frame asked for, is an InputError too."""
    with pytest.raises(InputError):
        toy.text("graph_break", frame="1/0")


def test_find_gives_artifacts_in_order_and_nothing_for_nothing(toy: Trace) -> None:
    """`find` filters by stage, frame and graph, and finds nothing without an error."""
    assert [a.frame for a in toy.find("dynamo")] == ["0/0", "1/0", "2/0"]
    assert [a.id for a in toy.find("dynamo", "1/0", "")] == ["1/0:dynamo"]
    assert toy.find("dynamo", graph="backward") == () and toy.find("nothing") == ()


def test_artifact_by_id_offers_the_nearest(toy: Trace) -> None:
    """An id that is not there is an InputError with the nearest ids."""
    assert artifact_of(toy, "0/0:dynamo").stage == "dynamo"
    with pytest.raises(InputError, match=says("artifact", "'0/0:dynam'", "'0/0:dynamo'")):
        artifact_of(toy, "0/0:dynam")


# Kernels -----------------------------------------------------------------------------------------------------------


def test_a_kernel_knows_its_name_language_and_source(mlp: Trace) -> None:
    """Kernels come in the wrapper's order, with their source as `source`, as `text()` and as their artifact."""
    first = mlp.kernels[0]
    assert [k.name for k in mlp.kernels] == ["cpp_fused_gelu_0", "cpp_fused_gelu_gelu_backward_sum_0", "cpp_fused_sum_1"]
    assert first.language == "cpp" and first.source.startswith("#include")
    assert first.text() == first.text("kernel") == first.source == first.artifact.text
    assert not untold(repr(first), "Kernel cpp_fused_gelu_0", f"{len(first.artifact.lines)} lines", "cpp", "kernel")
    assert "#include" in first._repr_html_()


def test_kernels_of_the_same_name_in_two_frames_are_told_apart(recompiled: Trace) -> None:
    """Each compile's kernel gives its own text, though all have one name."""
    float32, float64, _ = recompiled.kernels
    assert float32.name == float64.name
    assert "double" not in float32.text() and "double" in float64.text()


def test_a_kernels_unknown_stage_offers_those_it_has(mlp: Trace) -> None:
    """A stage that a kernel has no text in is an InputError that lists those it has."""
    with pytest.raises(InputError, match=says("stage", "'kernels'", "'kernel'")):
        mlp.kernels[0].text("kernels")


def test_a_kernels_assembly_in_the_trace_needs_nothing_live() -> None:
    """Assembly that a trace holds is given as text, also after a load."""
    made = (
        artifact("k", "kernel", "C", kernel="cpp_0", data=blank(KernelData, name="cpp_0", language="cpp", wrapper_line=1)),
        artifact("a", "assembly", "ASM", kernel="cpp_0", data=blank(Assembly, name="cpp_0")),
    )
    assert loads(dumps(Trace(artifacts=made))).kernels[0].text("assembly") == "ASM"


# Tables ------------------------------------------------------------------------------------------------------------


def test_functions_leave_inlined_ones_out(mlp: Trace) -> None:
    """One row per compiled function, with its file and first line."""
    (row,) = mlp.dynamo.functions
    assert (row["frame"], row["qualname"], row["compiled"], row["resume"]) == ("0/0", "Mlp.forward", True, False)
    assert row["file"] == "tests/programs.py" and row["first_line"] > 1


def test_timings_have_a_row_a_phase(mlp: Trace) -> None:
    """The compiler's phases, with the graph they belong to where there are two."""
    names = {row["name"] for row in mlp.compiler.phases}
    assert {"entire_frame_compile", "backend_compile", "Scheduler.__init__"} <= names
    assert all(set(row) >= {"frame", "name", "function", "graph", "start", "seconds", "depth"} for row in mlp.compiler.phases)


def test_passes_have_the_graph_before_and_after(replayed: Callable[[str], Trace]) -> None:
    """A pass that changed a graph says what it made and erased, and both texts; one that did not has one text twice."""
    passes = replayed("views/rotary-torch2.13-h100").inductor.passes
    assert passes.where(changed=False) and all(row["before"] == row["after"] for row in passes.where(changed=False))
    for row in passes.where(changed=True):
        assert row["before"] != row["after"] and row["section"] in ("pre_grad", "joint", "post_grad")
        assert all(f"{name} = " in row["before"] for name in row["erased"])
        assert all(f"{name} = " in row["after"] for name in row["made"])
    assert passes.where(changed=True)


def test_matches_name_the_pattern_and_its_nodes(mlp: Trace) -> None:
    """A pattern that fired is named with where it is defined and what it matched."""
    assert {row["pattern"] for row in mlp.inductor.matches} == {"pointless_permute_pair", "pointless_view"}
    assert all(row["file"].endswith("joint_graph.py") and row["line"] > 0 and row["matched"] for row in mlp.inductor.matches)


def test_every_table_names_the_frame(recompiled: Trace, toy: Trace) -> None:
    """The rows of each table begin with the frame they are of, so that they can be chosen by it."""
    for trace in (recompiled, toy):
        for accessor in (trace.dynamo, trace.inductor, trace.fusion, trace.memory, trace.compiler):
            for name, member in accessor.members():
                rows = getattr(accessor, name) if isinstance(member, property) else ()
                assert all(next(iter(row)) == "frame" and row["frame"] in ("", *trace.compile_ids) for row in Table(rows)), name
    assert {row["frame"] for row in recompiled.dynamo.recompiles} == {"0/1", "0/2"}
    assert {row["frame"] for row in recompiled.dynamo.symbols} == {"0/2"}


def test_conditions_on_symbols_are_not_symbols() -> None:
    """`symbols` lists sizes; what the program's code asks of them stays in the stage's text."""
    rows = [{"what": "created", "symbol": "s0"}, {"what": "guarded", "expr": "s0 < 10"}]
    trace = Trace(artifacts=(artifact("s", "symbol", data=plain({"rows": rows})),))
    assert [row["symbol"] for row in trace.dynamo.symbols] == ["s0"]


def test_the_stages_name_the_function_that_made_each_stage(mlp: Trace) -> None:
    """Each stage with a call path has the innermost call, and the path from torch.compile inwards."""
    assert {row["stage"] for row in mlp.stages if row["function"]} == {a.stage for a in mlp.artifacts if a.path}
    (row,) = mlp.stages.where(stage="output_code", graph="forward")
    assert row["file"].startswith("torch/_inductor/") and row["line"] > 0 and row["function"]
    assert row["calls"][-1] == f"{row['file']}:{row['line']} {row['function']}"
    assert any("torch/_dynamo/convert_frame.py" in call for call in row["calls"][:-1])
    assert row["seconds"] == mlp.find("output_code", graph="forward")[0].seconds


# Summary and repr --------------------------------------------------------------------------------------------------


def test_the_summary_has_a_row_a_stage_of_a_graph(mlp: Trace) -> None:
    """The columns, a row for each stage and graph, and numbers that fit the artifacts."""
    table = mlp.stages
    assert table.columns[:8] == ("frame", "stage", "graph", "count", "lines", "seconds", "changes", "failures")
    assert sum(row["count"] for row in table) == len(mlp.artifacts)
    assert sum(row["lines"] for row in table) == sum(len(a.lines) for a in mlp.artifacts)
    (row,) = table.where(stage="kernel", graph="backward")
    assert row["count"] == 2 and row["changes"] == "cpp_fused_gelu_gelu_backward_sum_0, cpp_fused_sum_1"


def test_the_summary_says_what_each_stage_changed(toy: Trace, mlp: Trace) -> None:
    """Graphs count nodes, guards guards, a graph break gives its reason, a match its pattern, a pass its nodes."""
    changes = {row["stage"]: row["changes"] for row in summary_rows(toy) if row["frame"] == "0/0"}
    assert changes["dynamo"] == f"{len(artifact_of(toy, '0/0:dynamo').nodes)} nodes"
    assert changes["guards"] == f"{len(toy.dynamo.guards.where(frame='0/0'))} guards"
    assert changes["graph_break"] == "Data-dependent branching"
    changes = {row["stage"]: row["changes"] for row in summary_rows(mlp)}
    assert changes["pattern_match"] == "pointless_permute_pair, pointless_view"
    assert changes["fx_pass"] == "+0 −4 nodes"


def test_the_summary_puts_failures_beside_their_stage(toy: Trace) -> None:
    """A stage that failed somewhere says so in its row; the others are empty."""
    failed = [row for row in toy.stages if row["failures"]]
    assert {row["stage"] for row in failed} == {"decompiled"}
    assert all("DecompilationError" in row["failures"] for row in failed)


def test_the_summary_has_no_seconds_where_none_were_measured() -> None:
    """Unknown seconds are None, not 0."""
    rows = list(summary_rows(Trace(artifacts=(artifact("a", "source"), artifact("b", "guards", seconds=0.5, data={"rows": ()})))))
    assert [row["seconds"] for row in rows] == [None, 0.5]


def test_the_repr_counts_and_lists_stages(toy: Trace, recompiled: Trace) -> None:
    """The first line says what was traced and how much there is, the last lines name each stage."""
    first, *_ = repr(toy).splitlines()
    assert not untold(first, "Trace", "toy_example", "cpu", "3 frames", "1 graph break", "3 kernels")
    stages = " ".join(repr(toy).partition("\nstages: ")[2].partition(";")[0].split()).split(", ")
    assert stages == list(dict.fromkeys(a.stage for a in toy.artifacts))
    first, *_ = repr(recompiled).splitlines()
    assert not untold(first, "Trace", "recompile", "cpu", "3 frames", "2 recompiles", "3 kernels") and "break" not in first


def test_the_repr_names_every_failure() -> None:
    """Each failure has a line with stage, what failed and the first line of its message, marked where there is more."""
    failures = (
        Failure("guards", "render", "KeyError: 'x'"),
        Failure("compile", "BackendError", "it broke\nin many\nlines", fatal=True),
    )
    lines = repr(Trace(failures=failures)).splitlines()
    first, second = lines[-2:]
    assert not untold(first, "failure", "guards", "KeyError: 'x'")
    assert not untold(second, "failure", "compile", "BackendError", "it broke …")
    assert "2 failures" in lines[0]


def test_the_repr_of_an_empty_trace_says_so() -> None:
    """A trace with nothing in it says that nothing was compiled."""
    assert "nothing compiled" in repr(Trace())
    assert Trace().compile_ids == () and Trace().kernels == () and Trace().dynamo.guards == ()


def test_only_compiled_functions_are_counted_as_frames() -> None:
    """A function that was looked at but not compiled is no frame in the count, nor one that was inlined."""
    made = (
        artifact("a", "source", data=blank(Source, qualname="f", compiled=True)),
        artifact("b", "source", data=blank(Source, qualname="f"), frame="1/-"),
        artifact("c", "source", data=blank(Source, qualname="f", inlined=True)),
        artifact("d", "phase", frame="", data=plain({"rows": ()})),
    )
    trace = Trace(artifacts=made)
    assert not untold(repr(trace).partition("\n")[0], "Trace", "1 frame")
    assert trace.compile_ids == ("0/0", "1/-") and [row["frame"] for row in trace.dynamo.functions] == ["0/0", "1/-"]
    assert [row["frame"] for row in summary_rows(trace)] == ["", "0/0", "1/-"]


# Links -------------------------------------------------------------------------------------------------------------


def test_follow_goes_both_ways(toy: Trace) -> None:
    """From a line of the source to the graph's line, and from that line back to the source."""
    source = artifact_of(toy, "0/0:source")
    line = next(n for n, text in enumerate(source.lines, 1) if "b.sum()" in text)
    rows = toy.follow(source.id, line)
    graph_lines = [n for row in rows.where(artifact="0/0:dynamo") for n in row["lines"]]
    computed = [artifact_of(toy, "0/0:dynamo").lines[n - 1].split(":")[0].strip() for n in graph_lines]
    assert {"sum_1", "lt"} <= set(computed) and not {"add", "abs_1", "x"} & set(computed)
    back = toy.follow("0/0:dynamo", graph_lines[0]).where(artifact=source.id)
    assert [row["lines"] for row in back] == [(line,)]
    assert all(row["route"] for row in rows)


def test_follow_refuses_lines_and_artifacts_that_are_not_there(toy: Trace) -> None:
    """A line outside the text is an InputError with the range; so is an unknown id."""
    last = len(artifact_of(toy, "0/0:dynamo").lines)
    toy.follow("0/0:dynamo", last)
    for line in (0, -1, last + 1):
        with pytest.raises(InputError, match=says("'0/0:dynamo'", "lines")) as caught:
            toy.follow("0/0:dynamo", line)
        assert not untold(str(caught.value).replace("0/0:dynamo", ""), "1", str(last), str(line))
    with pytest.raises(InputError, match=says("texts", "'dynamo'", "id", repr(toy.find("dynamo")[0].id))):
        toy.follow("dynamo", 1)
    with pytest.raises(InputError, match=says("text", "'0/0:dynam'", "'0/0:dynamo'")):
        toy.follow("0/0:dynam", 1)


def test_follow_of_source_is_the_function_that_was_traced(toy: Trace) -> None:
    """Its resume functions and what was inlined are texts of that stage too; a line of the file, or no line, says how to ask."""
    first = toy.find("source")[0]
    assert len(toy.find("source")) > 1 and toy.follow("source", 2) == toy.follow(first.id, 2)
    outside = len(first.lines) + 1
    file = Path(first.data["file"]).name
    with pytest.raises(InputError, match=says(f"t.follow({file!r}, {outside})")):
        toy.follow("source", outside)
    for where in ("source:2", f"{file}:12"):
        with pytest.raises(InputError, match=says(f"t.follow({where.partition(':')[0]!r}, {where.partition(':')[2]})")):
            toy.follow(where)


def test_a_stage_by_another_tools_name_gets_its_own() -> None:
    """`text`, `follow` and a kernel's `text` offer it."""
    trace = Trace(artifacts=(Artifact("k", "kernel", "0/0", "g", "k", "triton", "a\nb"),))
    for ask in (lambda: trace.text("triton"), lambda: trace.follow("triton", 1), lambda: trace.kernels[0].text("triton")):
        with pytest.raises(InputError, match="did you mean 'kernel'"):
            ask()


def test_source_line_finds_the_artifact_and_line_of_a_file_and_line() -> None:
    """A line of a file is found in the source that holds it, also by the end of the path; other lines are not."""
    data = blank(Source, file="home/a/model.py", first_line=10)
    trace = Trace(artifacts=(artifact("s", "source", "def f():\n    a\n    b", data=data),))
    assert source_line(trace, "home/a/model.py", 12) == ("s", 3)
    assert source_line(trace, "a/model.py", 10) == ("s", 1)
    assert source_line(trace, "home/a/model.py", 13) is None and source_line(trace, "home/a/model.py", 9) is None
    assert source_line(trace, "home/b/model.py", 12) is None and source_line(trace, "", 12) is None


def test_source_line_prefers_the_frame_and_then_the_whole_function() -> None:
    """A line that several sources hold is the one of the frame asked for; else the function's, not a resume function's."""
    whole = artifact("whole", "source", "a\nb\nc", data=blank(Source, file="f.py", first_line=1))
    resume = artifact("resume", "source", "b\nc", frame="1/0", data=blank(Source, file="f.py", first_line=2, resume=True))
    trace = Trace(artifacts=(resume, whole))
    assert source_line(trace, "f.py", 3) == ("whole", 3)
    assert source_line(trace, "f.py", 3, frame="1/0") == ("resume", 2)


# Failures and what is live -----------------------------------------------------------------------------------------


def test_raise_for_failures_raises_with_every_failure(toy: Trace, mlp: Trace) -> None:
    """With failures, a CompileError that names each; without any, nothing."""
    two = dataclasses.replace(mlp, failures=(Failure("a", "b", "first"), Failure("c", "d", "second")))
    with pytest.raises(CompileError, match=r"a, b: first\nc, d: second"):
        two.raise_for_failures()
    mlp.raise_for_failures()


def test_raise_for_failures_is_caused_by_the_compilers_own_error(mlp: Trace) -> None:
    """In the process that made the trace the compiler's exception is the cause."""
    error = RuntimeError("lowering")
    made = dataclasses.replace(mlp, failures=(Failure("a", "b", "c"),), _live=SimpleNamespace(error=error))
    with pytest.raises(CompileError) as caught:
        made.raise_for_failures()
    assert caught.value.__cause__ is error


NEEDS_LIVE: dict[str, Callable[[Trace], object]] = {
    "the result": lambda t: t.live.result,
    "gradients": lambda t: t.live.gradients,
    "running": lambda t: t.live.run(),
    "checking": lambda t: t.check(),
    "bisecting": lambda t: t.bisect(),
    "sanitizing": lambda t: t.sanitize(),
    "drift()": lambda t: t.drift(),
    "timing": lambda t: t.benchmark(),
    "the assembly": lambda t: t.kernels[0].text("assembly"),
    "a form of a Pallas kernel": lambda t: t.kernels[0].text("pallas_jaxpr"),
    "a form of a Halide kernel": lambda t: t.kernels[0].text("halide_stmt"),
    "a form of a kernel in CUDA C++": lambda t: t.kernels[0].text("cuda_ptx"),
    "the binary": lambda t: t.kernels[0].binary(),
    "passes": lambda t: t.kernels[0].passes(),
    "compiling another candidate": lambda t: t.kernels[0].candidates[{"num_warps": 2}].resources,
    "a script": lambda t: t.kernels[0].to_script("kernel.py"),
    "an edit": lambda t: t.kernels[0].edit(t.kernels[0].source),
    "tuning": lambda t: t.kernels[0].tune(),
    "the edits of a kernel": lambda t: t.kernels[0].edits,
    "the edits": lambda t: t.live.edits.current,
    "stepping": lambda t: t.live.as_files(),
    "symbolic steps": lambda t: t.dynamo.steps(),
    "the values of nodes": lambda t: t.live.values(),
    "the arguments of launches": lambda t: t.live.values("kernel"),
    "what if": lambda t: t.what_if(options={"max_fusion_size": 1}),
    "advise(prove=True)": lambda t: t.advise(prove=True),
    "SASS": lambda t: with_ptx(t).kernels[0].text("sass"),
    "the source of a choice": lambda t: choice_with_source(t).text("ttir"),
}
#: What a verb needs only after it was given something else that a loaded trace lacks.
ASKED_LATER = {"comparing", "compiling a choice", "passes of a choice", "the texts of a choice"}


def with_ptx(trace: Trace) -> Trace:
    """The trace with PTX of its first kernel."""
    kernel = trace.kernels[0].artifact
    ptx = artifact("p", "ptx", frame=kernel.frame, graph=kernel.graph, kernel=kernel.kernel)
    return dataclasses.replace(trace, artifacts=(*trace.artifacts, ptx))


def choice_with_source(trace: Trace) -> Choice:
    """A Triton template that Inductor chose among."""
    return Choice(
        trace,
        plain({"frame": "0/0", "graph": "inference", "choice": "triton_mm_0", "kind": "TritonTemplateCaller", "source": "key"}),
    )


def test_every_verb_that_needs_a_live_trace_is_asked_of_a_loaded_one() -> None:
    """Each use of `needs_live` and `needs_forms` in the room is in the table."""
    calls = re.compile(r'needs_(?:live|forms)\([\w.]+, "([^"]+)"\)')
    room = Path(traced.__file__).parent
    asked = {what for file in room.glob("*.py") for what in calls.findall(file.read_text(encoding="utf-8"))}
    asked |= {*MACHINE_CODE.values()}
    assert asked - ASKED_LATER == set(NEEDS_LIVE)


@each(NEEDS_LIVE)
def test_a_loaded_trace_says_what_it_cannot_do(name: str, mlp: Trace) -> None:
    """Without the live process each such verb is a LiveError that says what was asked and what to do."""
    loaded = loads(dumps(mlp))
    with pytest.raises(LiveError, match=says(name, "process", "explorer.trace")):
        NEEDS_LIVE[name](loaded)


def test_live_verbs_ask_the_live_part(mlp: Trace) -> None:
    """With a live part the verbs hand their arguments on and give back what it says."""
    live = SimpleNamespace(
        result=1,
        gradients={"x": 2},
        run=lambda *a, **k: (a, k),
        check=lambda *a: a,
        benchmark=lambda repeats: repeats,
        watchers=Watchers(),
    )
    trace = dataclasses.replace(mlp, _live=live)
    assert (trace.live.result, trace.live.gradients) == (1, {"x": 2})
    assert trace.live.run(1, a=2) == ((1,), {"a": 2})
    assert (trace.check(), trace.check(limit=5, expected=7)) == ((None, None), (5, 7))
    assert (trace.benchmark(), trace.benchmark(repeats=7)) == (30, 7)


# The value ---------------------------------------------------------------------------------------------------------


def test_traces_are_compared_by_what_they_say(mlp: Trace) -> None:
    """A different text, link, failure or meta makes a different trace; the live part does not."""
    changed = dataclasses.replace(mlp.artifacts[0], text="other")
    for difference in (
        {"artifacts": (changed, *mlp.artifacts[1:])},
        {"links": (*mlp.links, Link("a", (1,), "b", (1,), "c"))},
        {"failures": (Failure("a", "b", "c"),)},
        {"meta": plain({**mlp.meta, "name": "else"})},
    ):
        assert dataclasses.replace(mlp, **difference) != mlp
    assert dataclasses.replace(mlp, _live=object()) == mlp


def test_a_trace_cannot_be_changed(mlp: Trace) -> None:
    """No field can be set; nothing in it can be appended to."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        mlp.artifacts = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        mlp.meta["name"] = "else"  # type: ignore[index]
    with pytest.raises(TypeError):
        mlp.artifacts[0].data["file"] = "else"  # type: ignore[index]


def test_a_stage_that_is_elsewhere_says_where(toy: Trace, mlp: Trace) -> None:
    """A frame or graph that has no such stage is an error that names those that have, for texts and diagrams."""
    with pytest.raises(InputError, match=says("'dynamo'", "frame='7/0'", "frame='0/0'", "frame='1/0'")):
        toy.text("dynamo", "7/0")
    for asked in (mlp.text, mlp.diagram):
        with pytest.raises(InputError, match=says("'post_grad'", "graph='joint'", "graph='forward'", "graph='backward'")):
            asked("post_grad", graph="joint")


def test_an_artifact_stands_for_its_id(toy: Trace) -> None:
    """follow and artifact take an artifact of the trace itself; one of another trace, or no line, is refused."""
    (first, *_) = toy.find("source")
    assert artifact_of(toy, first) is first and toy.follow(first, 1) == toy.follow(first.id, 1)
    with pytest.raises(InputError, match=says("artifact")):
        toy.follow(artifact("0/0:source", "source"), 1)
    with pytest.raises(InputError, match=says("lines 1", "not '1'")):
        toy.follow(first.id, "1")  # type: ignore[arg-type]


def test_a_trace_without_modules_has_none_to_follow(toy: Trace) -> None:
    """Where no node is in an nn.Module that is what is said, not a list of nothing."""
    with pytest.raises(InputError, match=says("node", "nn.Module")):
        toy.follow("h.0")


def test_the_summary_has_what_failed_without_a_text() -> None:
    """A failure of a stage with artifacts stands in their rows, one of a stage without any in a row of its own."""
    failures = (Failure("dynamo", "link", "one"), Failure("compile", "E", "two", fatal=True), Failure("compile", "E", "three"))
    summary = Trace(artifacts=(artifact("0/0:dynamo", "dynamo"),), failures=failures).stages
    assert [(row["stage"], row["count"]) for row in summary] == [("dynamo", 1), ("compile", 0)]
    linking, compiling = (row["failures"] for row in summary)
    assert not untold(linking, "dynamo", "one") and not untold(compiling, "compile", "E: two", "E: three")


def test_tables_of_a_trace_without_rows_have_the_columns_of_those_with(replayed: Callable[[str], Trace]) -> None:
    """What an empty table of a trace has as columns are the keys that its rows have where there are some."""
    empty, traces = Trace(), [replayed(name) for name in ("mlp_train-torch2.11-cuda", "recompile-torch2.13-cpu")]
    traces += [replayed("toy_example-torch2.13-cpu"), replayed("views/tuned_mm-torch2.13-h100")]
    asked: dict[str, Callable[[Trace], Any]] = {"kernels": lambda t: t.kernels.table, "stages": lambda t: t.stages}
    for accessor in ACCESSORS:
        for name, member in vars(accessor).items():
            # of torch's figures each version has others
            if isinstance(member, property) and "Table" in str(member.fget.__annotations__.get("return")) and name != "metrics":
                asked[f"{accessor.path}.{name}"] = attrgetter(f"{accessor.path.removeprefix('t.')}.{name}")
    asked["choices"] = lambda t: t.inductor.choices.table
    assert len(asked) > 25
    for name, ask in asked.items():
        keys = {key for trace in traces for key in ask(trace).columns}
        assert ask(empty).columns and keys <= set(ask(empty).columns), name
