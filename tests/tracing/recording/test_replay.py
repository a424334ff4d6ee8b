"""Replay: recorded events of several torch versions and devices give the trace that each program should have."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.model.records import blank
from explorer.model.shared import FxNode
from explorer.model.stage import Frames
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact, Event, Failure, plain
from explorer.sources.files.trace_file import dumps
from explorer.stages import STAGES, stage_of
from explorer.stages.cpp.assembly import Assembly
from explorer.stages.dynamo.source import SourceText
from explorer.stages.fx_graph import FxGraphText
from explorer.stages.replay import extended, new_id, renumber
from explorer.stages.torch_compile.phase import Phase, Phases, seconds_of
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from tests.each import each
from tests.facts import untold

DATA = Path(__file__).parents[2] / "data"
FILES = {path.name.removesuffix(".events.json.gz"): path for path in sorted(DATA.glob("*.events.json.gz"))}

#: The stages of every compiled frame, and of each graph in inference; a recording without depyf has no "decompiled".
OF_FRAME = {"source", "phase", "bytecode", "dynamo", "dynamo_bytecode", "guards", "pre_grad"}
OF_GRAPH = {"forward", "inductor_input", "fx_graph_runnable", "post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code"}
#: The frames of each program, and the functions they compile.
FRAMES = {
    "sin_cos": {"0/0": "sin_cos"},
    "toy_example": {
        "0/0": "toy_example",
        "1/0": "torch_dynamo_resume_in_toy_example",
        "2/0": "torch_dynamo_resume_in_toy_example",
    },
    "mlp_train": {"0/0": "Mlp.forward"},
    "recompile": {"0/0": "scaled", "0/1": "scaled", "0/2": "scaled"},
    "attention": {"0/0": "Attention.forward"},
    "iree_linear": {"0/0": "Small.forward"},
    "tvm_linear": {"0/0": "Twice.forward"},
    "xla_linear": {"0/0": "Twice.forward"},
    "onnxrt_linear": {"0/0": "Small.forward"},
    "openvino_parts": {"0/0": "Parted.forward"},
}
#: The programs that Inductor does not compile; they are recorded with the version of torch that the tests run with.
OTHER_COMPILERS = ("iree_linear", "onnxrt_linear", "openvino_parts", "tvm_linear", "xla_linear")
INFERENCE = [name for name in FRAMES if name not in ("mlp_train", *OTHER_COMPILERS)]
#: A path from the root of some machine's disk, also inside quotes or brackets; not a URL and not a division.
ABSOLUTE = re.compile(r"(?<![\w/.:<\])-])/[A-Za-z][\w.-]*/[\w.-]+")

every = each(FILES)


def program(name: str) -> str:
    """The program that a recording is of."""
    return name.partition("-")[0]


def of(*programs: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Check all recordings of these programs."""
    return each(name for name in FILES if program(name) in programs)


def language(name: str) -> str:
    return "triton" if name.endswith("-cuda") else "cpp"


def line_of(artifact: Artifact, code: str) -> int:
    """The only line of an artifact that holds `code`, from 1."""
    (number,) = (n for n, line in enumerate(artifact.lines, 1) if code in line)
    return number


def stages_of(trace: Trace, frame: str) -> set[str]:
    return {a.stage for a in trace.artifacts if a.frame == frame}


Replayed = Callable[[str], Trace]


# Every recording --------------------------------------------------------------------------------------------------


def test_every_program_is_recorded_for_the_oldest_and_the_newest_torch() -> None:
    """For each program there is a recording with torch 2.11, 2.13 and 2.15 on the CPU."""
    wanted = {f"{name}-torch{version}-cpu" for name in FRAMES for version in ("2.11", "2.13", "2.15")}
    wanted -= {f"{name}-torch{version}-cpu" for name in OTHER_COMPILERS for version in ("2.11", "2.15")}
    assert wanted - set(FILES) == set()


@every
def test_frames_and_functions(name: str, replayed: Replayed) -> None:
    """The trace has the program's frames, counted from 0, and each compiles the function it should."""
    trace = replayed(name)
    expected = FRAMES[program(name)]
    assert trace.compile_ids == tuple(expected)
    compiled = {row["frame"]: row["qualname"] for row in trace.dynamo.functions if row["compiled"]}
    assert compiled.keys() == expected.keys()
    assert all(compiled[frame].startswith(function) for frame, function in expected.items())


@every
def test_artifacts_stand_in_the_compilers_order(name: str, replayed: Replayed) -> None:
    """Artifacts are sorted by stage, in the order of STAGES."""
    order = [stage.name for stage in STAGES]
    places = [order.index(a.stage) for a in replayed(name).artifacts]
    assert places == sorted(places)


@every
def test_nothing_failed_but_the_decompiler(name: str, replayed: Replayed) -> None:
    """No hook and no stage failed; depyf, which is optional, may be beaten by Dynamo's bytecode."""
    assert [f for f in replayed(name).failures if f.stage != "decompiled"] == []


@every
def test_the_same_events_give_an_equal_trace(
    name: str, recorded: Callable[[str], tuple[list[Event], list, dict]], replayed: Replayed
) -> None:
    """Replay is a pure function: twice the same, down to the bytes of the saved file, and the events are left alone."""
    events, failures, meta = recorded(name)
    before = list(events)
    first, second = replayed(name), trace_of_events(events, failures, meta)
    assert first == second
    assert dumps(first) == dumps(second)
    assert events == before


@every
def test_ids_are_unique(name: str, replayed: Replayed) -> None:
    """No two artifacts of a trace have the same id."""
    ids = [a.id for a in replayed(name).artifacts]
    assert len(set(ids)) == len(ids)


@every
def test_every_link_points_to_existing_lines(name: str, replayed: Replayed) -> None:
    """Both ends of every link are artifacts of the trace, and lines that they have; no link is empty."""
    trace = replayed(name)
    lines = {a.id: range(1, len(a.lines) + 1) for a in trace.artifacts}
    assert trace.links
    for link in trace.links:
        assert link.source_lines and link.target_lines and link.how
        assert all(line in lines[link.source] for line in link.source_lines), link
        assert all(line in lines[link.target] for line in link.target_lines), link


@every
def test_no_link_goes_to_a_blank_line(name: str, replayed: Replayed) -> None:
    """A line of the user's source that something is linked to has code on it."""
    trace = replayed(name)
    sources = {a.id: a.lines for a in trace.find("source")}
    targets = {(link.target, line) for link in trace.links if link.target in sources for line in link.target_lines}
    assert targets
    assert [place for place in targets if not sources[place[0]][place[1] - 1].strip()] == []


@every
def test_kernels_are_cut_out_of_the_wrapper_exactly(name: str, replayed: Replayed) -> None:
    """Each line of a kernel is linked to the very same line of the output code, and its name stands above it there."""
    trace = replayed(name)
    texts = {a.id: a.lines for a in trace.artifacts}
    for kernel in trace.kernels:
        links = [link for link in trace.links if link.source == kernel.artifact.id and link.target.split(":")[1] == "output_code"]
        assert [link.source_lines[0] for link in links] == list(range(1, len(kernel.artifact.lines) + 1))
        for link in links:
            assert texts[link.source][link.source_lines[0] - 1] == texts[link.target][link.target_lines[0] - 1]
        assert texts[links[0].target][links[0].target_lines[0] - 2].startswith(f"{kernel.name} = async_compile.")


@every
def test_kernels_are_those_the_wrapper_defines(name: str, replayed: Replayed) -> None:
    """There is one kernel, in the device's language, for each that a wrapper has compiled."""
    trace = replayed(name)
    assert {k.language for k in trace.kernels} <= {language(name)}
    for wrapper in trace.find("output_code"):
        defined = re.findall(r"^(\w+) = async_compile\.(?:triton|cpp_pybinding)\(", wrapper.text, re.MULTILINE)
        kernels = [k.name for k in trace.kernels if (k.artifact.frame, k.artifact.graph) == (wrapper.frame, wrapper.graph)]
        assert kernels == defined


@every
def test_graphs_have_nodes_that_their_text_computes(name: str, replayed: Replayed) -> None:
    """Each FX graph has one row per node, of which every call stands in the text under its name, and edges between rows."""
    for artifact in replayed(name).artifacts:
        if artifact.language != "fx":
            continue
        calls = [n for n in artifact.nodes if n["op"].startswith("call_")]
        assert calls
        names = {n["name"] for n in artifact.nodes}
        assert all(re.search(rf"^\s+{n['name']}(?:: [^=]*)? = ", artifact.text, re.MULTILINE) for n in calls)
        assert all(source in names and node in names for source, node in artifact.edges)


@every
def test_the_compilers_phases_are_timed_and_nested(name: str, replayed: Replayed) -> None:
    """The first phase of a frame spans the rest; every phase ended, and starts in order."""
    trace = replayed(name)
    for frame in trace.compile_ids:
        rows = trace.compiler.phases.where(frame=frame)
        assert rows[0]["depth"] == 0 and max(row["depth"] for row in rows) >= 3
        assert [r["name"] for r in rows if r["seconds"] is None] == []
        starts = [r["start"] for r in rows]
        assert starts == sorted(starts)
    assert all(a.seconds is not None for a in trace.find("output_code"))


@every
def test_every_stage_knows_the_calls_that_made_it(name: str, replayed: Replayed) -> None:
    """Each graph and each wrapper has the call path inside torch that led to it, relative to its package."""
    trace = replayed(name)
    for artifact in (*trace.find("dynamo"), *trace.find("post_grad"), *trace.find("output_code")):
        assert artifact.path
        assert all(file.startswith("torch/") and line > 0 and function for file, line, function in artifact.path)


@every
def test_guards_link_to_the_users_line(name: str, replayed: Replayed) -> None:
    """Every frame checks its tensors, and those guards name the line of the program that made them necessary."""
    trace = replayed(name)
    for frame in trace.compile_ids:
        rows = [row for row in trace.dynamo.guards.where(frame=frame) if row["kind"] == "TENSOR_MATCH"]
        assert rows and all(row["source"] and row["expression"].startswith("check_tensor(") for row in rows)
    linked = {link.source.split(":")[0] for link in trace.links if link.how == "guard comment"}
    assert linked == set(trace.compile_ids)


@every
def test_recordings_name_no_place_of_a_machine(name: str, recorded: Callable[[str], tuple[list[Event], list, dict]]) -> None:
    """The strings of a recording hold no absolute path: the recorder rewrites them."""
    events, failures, meta = recorded(name)
    texts = [s for e in events for s in strings(e.data)] + [f.message for f in failures] + list(strings(plain(meta)))
    assert [found for text in texts for found in ABSOLUTE.findall(text)] == []
    assert FILES[name].stat().st_size < 150_000


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [s for v in value for s in strings(v)]
    return [s for v in value.values() for s in strings(v)] if hasattr(value, "values") else []


# Links and verdicts -----------------------------------------------------------------------------------------------

#: Recordings that hold which node each line of a kernel computes, and the scheduler's verdicts: those of the torch that CI runs.
linked = each(name for name in FILES if "-torch2.13-" in name and program(name) not in OTHER_COMPILERS)


@linked
def test_every_computing_line_of_a_kernel_is_one_nodes(name: str, replayed: Replayed) -> None:
    """Every line that computes has a link, and none leads to two nodes of the last FX graph."""
    trace = replayed(name)
    computed: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for link in trace.links:
        if link.how.startswith("codegen") and link.target.split(":")[1] == "post_grad":
            for line in link.source_lines:
                computed.setdefault((link.source, line), set()).update((link.target, n) for n in link.target_lines)
    assert bool(computed) == bool(trace.kernels)
    assert [place for place, nodes in computed.items() if len(nodes) != 1] == []
    rows = trace.coverage("kernel") if trace.kernels else ()
    assert all(row["counted"] > 0 for row in rows) and [row["missing"] for row in rows if row["missing"]] == []


@linked
def test_the_groups_are_the_kernels(name: str, replayed: Replayed) -> None:
    """What the scheduler fused is named by the kernel that it became, every kernel is of such a group, and the rest are calls."""
    trace = replayed(name)
    groups = trace.fusion.groups
    named = {(row["frame"], row["graph"], kernel) for row in groups for kernel in row["kernels"]}
    assert named == {(k.artifact.frame, k.artifact.graph, k.name) for k in trace.kernels}
    assert {row["kind"] for row in groups if not row["kernels"]} <= {"extern", "output of a call"}


@linked
def test_verdicts_are_replayed(name: str, replayed: Replayed) -> None:
    """Every pair that the scheduler asked about has a sentence and, if refused, a rule; programs of one node ask nothing."""
    trace = replayed(name)
    table = trace.fusion.table
    asked = {"toy_example": 1, "mlp_train": 1}
    assert len(table) == asked.get(program(name), 0)
    for row in table:
        why = trace.why(row["first"], row["second"], graph=row["graph"], frame=row["frame"])
        assert why.sentence and (why.fused or why.rule)


# Programs ---------------------------------------------------------------------------------------------------------


@of(*INFERENCE)
def test_inference_has_every_stage_of_a_graph(name: str, replayed: Replayed) -> None:
    """Each frame of a program without gradients has all stages, and one graph of each, called "inference"."""
    trace = replayed(name)
    for frame in trace.compile_ids:
        assert (OF_FRAME | OF_GRAPH) - stages_of(trace, frame) == set()
        assert [a.graph for stage in OF_GRAPH for a in trace.find(stage, frame)] == ["inference"] * len(OF_GRAPH)
        assert stages_of(trace, frame) & {"joint", "backward"} == set()


@of("sin_cos")
def test_sin_cos_is_one_kernel_linked_to_each_line(name: str, replayed: Replayed) -> None:
    """sin² + cos² is fused into one kernel, and from each line of the function one can follow to its graph nodes."""
    trace = replayed(name)
    assert len(trace.kernels) == 1 and "sin" in trace.kernels[0].name
    (source,) = [a for a in trace.find("source") if not a.data.get("inlined")]
    for code, operator in (("torch.sin", "sin"), ("torch.cos", "cos"), ("s + c", "add")):
        rows = trace.follow(source.id, line_of(source, code)).where(stage="forward")
        reached = [artifact_of(trace, r["artifact"]).lines[n - 1] for r in rows for n in r["lines"]]
        assert any(f"torch.ops.aten.{operator}." in line for line in reached), (code, reached)
    assert trace.dynamo.graph_breaks == () and trace.dynamo.recompiles == () and trace.dynamo.symbols == ()
    assert "1 graph without a break" in repr(trace.dynamo.graph_breaks) and "explorer.vary" in repr(trace.dynamo.recompiles)


@of("sin_cos")
def test_bytecode_links_to_the_line_it_was_made_of(name: str, replayed: Replayed) -> None:
    """The instruction that loads `torch.cos` is linked to the line that says torch.cos, and none to another line."""
    trace = replayed(name)
    (bytecode,), (source, *_) = trace.find("bytecode"), trace.find("source")
    number = next(n for n, line in enumerate(bytecode.lines, 1) if "(cos" in line)
    (link,) = [link for link in trace.links if link.source == bytecode.id and number in link.source_lines]
    assert (link.target, link.target_lines) == (source.id, (line_of(source, "torch.cos"),))


@of("toy_example")
def test_toy_example_breaks_at_its_branch(name: str, replayed: Replayed) -> None:
    """The branch on data is one graph break, in the first frame, on the line of the `if`, with reason and hints."""
    trace = replayed(name)
    source = trace.find("source", "0/0")[0]
    branch = line_of(source, "if b.sum() < 0:")
    (found,) = trace.dynamo.graph_breaks
    assert (found["frame"], found["reason"]) == ("0/0", "Data-dependent branching")
    assert found["file"] == source.data["file"] and found["line"] == source.data["first_line"] + branch - 1
    assert found["explanation"].startswith("Detected data-dependent branching")
    assert any("torch.cond" in hint for hint in found["hints"])
    (link,) = [link for link in trace.links if link.how == "graph break message"]
    assert (link.target, link.target_lines) == (source.id, (branch,))


@of("toy_example")
def test_toy_example_shows_what_each_resume_function_goes_on_with(name: str, replayed: Replayed) -> None:
    """Both resume functions ran; the source of each is only the lines it covers, one with the branch's body."""
    trace = replayed(name)
    resumed = [a for a in trace.find("source") if a.data["resume"]]
    assert [a.frame for a in resumed] == ["1/0", "2/0"]
    assert all("return x * b" in a.text and "torch.abs" not in a.text for a in resumed)
    graphs = [trace.text("dynamo", frame) for frame in ("1/0", "2/0")]
    assert sorted("-1" in text for text in graphs) == [False, True]
    wanted = {"cpp": 3, "triton": 4}  # a GPU reduces in a kernel of its own
    assert len(trace.kernels) == wanted[language(name)]


@of("mlp_train")
def test_training_has_joint_forward_and_backward(name: str, replayed: Replayed) -> None:
    """A forward and backward gives one joint graph over primals and tangents, and each stage for both halves."""
    trace = replayed(name)
    (joint,), (forward,), (backward,) = trace.find("joint"), trace.find("forward"), trace.find("backward")
    assert (joint.graph, forward.graph, backward.graph) == ("joint", "forward", "backward")
    inputs = [n["name"] for n in joint.nodes if n["op"] == "placeholder"]
    assert any(i.startswith("primals") for i in inputs) and any(i.startswith("tangents") for i in inputs)
    for stage in ("post_grad", "ir_pre_fusion", "ir_post_fusion", "output_code", "fx_graph_runnable"):
        assert [a.graph for a in trace.find(stage)] == ["forward", "backward"]
    assert trace.find("inductor_input") == ()
    assert {k.artifact.graph for k in trace.kernels} == {"forward", "backward"}
    assert (OF_FRAME | {"joint", "forward", "backward"}) - stages_of(trace, "0/0") == set()


@of("mlp_train")
def test_backward_nodes_link_to_the_forward_line_they_differentiate(name: str, replayed: Replayed) -> None:
    """From the line with gelu one reaches both the forward's and the backward's nodes for it."""
    trace = replayed(name)
    source = trace.find("source")[0]
    reached = trace.follow(source.id, line_of(source, "gelu"))
    assert {"forward", "backward", "joint", "dynamo"} <= {row["stage"] for row in reached}


@of("recompile")
def test_recompiles_name_the_guard_that_failed(name: str, replayed: Replayed) -> None:
    """float64 fails the dtype guard of the first compile; the third call fails both earlier compiles."""
    trace = replayed(name)
    first, *rest = trace.dynamo.recompiles
    assert (first["frame"], first["earlier"]) == ("0/1", "0/0")
    assert first["guard"] == "tensor 'x' dtype mismatch. expected Float, actual Double"
    assert [(r["frame"], r["earlier"]) for r in rest] == [("0/2", "0/1"), ("0/2", "0/0")]
    assert "size mismatch at index 0. expected 8, actual 12" in rest[1]["guard"]


@of("recompile")
def test_a_size_marked_dynamic_is_a_symbol_with_its_range(name: str, replayed: Replayed) -> None:
    """The marked size is one symbol, of the input it comes from, 12 at the call, in the range that was marked."""
    trace = replayed(name)
    (symbol,) = trace.dynamo.symbols
    assert symbol["frame"] == "0/2" and re.fullmatch(r"s\d+", symbol["symbol"])
    assert (symbol["source"], symbol["val"], symbol["vr"]) == ("L['x'].size()[0]", "12", "[4, 64]")
    assert symbol["symbol"] in trace.text("forward", "0/2") and symbol["symbol"] not in trace.text("forward", "0/0")


@of("attention")
def test_attention_is_one_call_of_the_fused_operator(name: str, replayed: Replayed) -> None:
    """scaled_dot_product_attention stays one node of the last graph, and Inductor's patterns remove views before it."""
    trace = replayed(name)
    (graph,) = trace.find("post_grad")
    calls = [n for n in graph.nodes if "scaled_dot_product" in n["target"]]
    assert len(calls) == 1
    assert {"pointless_view"} <= {row["pattern"] for row in trace.inductor.matches}
    assert all(row["matched"] and row["line"] > 0 and row["file"].endswith(".py") for row in trace.inductor.matches)


# Without torch ----------------------------------------------------------------------------------------------------

NO_TORCH = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ImportError(f"{name} must not be imported")

sys.meta_path.insert(0, Forbidden())
from pathlib import Path
from explorer.sources.files.trace_file import load_events
from explorer.tracing.traced import load
from explorer.tracing.traced.trace import trace_of_events

for file in sorted(Path(sys.argv[1]).glob("*.events.json.gz")):
    trace = trace_of_events(*load_events(file.read_bytes()))
    assert [f for f in trace.failures if f.stage != "decompiled"] == [], trace.failures
    repr(trace), trace.dynamo.guards, trace.compiler.phases, trace.follow(trace.find("source")[0].id, 1)
    trace.save(sys.argv[2])
    assert load(sys.argv[2]) == trace
    print(file.name)
assert "torch" not in sys.modules and "triton" not in sys.modules
"""


@pytest.mark.compile
def test_replay_save_and_load_need_no_torch(tmp_path: Path) -> None:
    """Where torch and triton cannot be imported, all recordings replay, are saved and load as equal traces."""
    command = [sys.executable, "-c", NO_TORCH, str(DATA), str(tmp_path / "t.trace.json.gz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [path.name for path in FILES.values()]


# The steps --------------------------------------------------------------------------------------------------------


def test_frames_are_counted_from_zero_in_the_order_they_began() -> None:
    """Compile ids of a process that compiled much before become 0, 1 … by first event; recompiles count likewise."""
    events = [Event("dynamo", t, frame) for t, frame in ((3.0, "41/2"), (1.0, "40/0"), (2.0, "41/1"))]
    assert [e.frame for e in renumber(events)] == ["1/1", "0/0", "1/0"]


def test_a_recompile_names_the_renumbered_earlier_compile() -> None:
    """The compile a failed guard belongs to is renamed with the frames; one from before the recording keeps its id."""
    events = [
        Event("dynamo", 1.0, "7/0"),
        Event("recompile", 2.0, "7/1", data=plain({"text": '["7/0: size mismatch", "6/9: other"]'})),
    ]
    rows = trace_of_events(events).dynamo.recompiles
    assert [(r["earlier"], r["guard"]) for r in rows] == [("0/0", "size mismatch"), ("6/9", "other")]


def test_functions_not_compiled_get_frames_after_the_compiled_ones() -> None:
    """A resume function that never ran has a frame of its own, "1/-" behind one compiled frame."""
    events = [Event("source", 1.0, "5/0"), Event("source", 2.0, "", data=plain({"not_compiled": 0}))]
    assert [e.frame for e in renumber(events)] == ["0/0", "1/-"]


def gathered(stage: str, events: list[Event]) -> list[Event]:
    """What a stage makes of some events before it renders them."""
    return list(stage_of(Trace(), stage).gather(events, Frames({})))


def test_a_graph_heard_of_twice_is_shown_once_with_its_nodes() -> None:
    """AOTAutograd's log and Inductor both give the forward graph: the record with nodes counts, whichever came first."""
    text = Event("forward", 1.0, "0/0", "inference", FxGraphText(text="graph"))
    rich = Event("forward", 2.0, "0/0", "inference", FxGraphText(text="graph", nodes=(blank(FxNode, name="a"),)))
    assert gathered("forward", [text, rich]) == [rich]
    assert gathered("forward", [rich, text]) == [rich]


def test_an_inlined_function_that_is_also_compiled_is_shown_once() -> None:
    """The source of a function is not shown as inlined where a frame of its own shows it."""
    compiled = Event("source", 1.0, "0/0", data=blank(SourceText, file="f.py", first_line=3))
    inlined = Event("source", 2.0, "0/0", data=blank(SourceText, file="f.py", first_line=3, inlined=True))
    other = Event("source", 3.0, "0/0", data=blank(SourceText, file="f.py", first_line=30, inlined=True))
    assert gathered("source", [compiled, inlined, other]) == [compiled, other]


def test_a_second_artifact_of_a_stage_gets_a_numbered_id() -> None:
    """Ids say frame, stage and graph; the second of the same kind ends in 2, and a similar name does not count."""
    event = Event("fx_pass", 0.0, "0/0", "forward")
    ids: list[str] = []
    artifacts: list[Artifact] = []
    for kind in ("fx_pass", "fx_pass", "fx_passage", "fx_pass"):
        ids.append(new_id(Event(kind, 0.0, event.frame, event.graph), artifacts))
        artifacts.append(Artifact(ids[-1], kind, "0/0", "forward", "", "", ""))
    assert ids == ["0/0:fx_pass:forward", "0/0:fx_pass:forward:2", "0/0:fx_passage:forward", "0/0:fx_pass:forward:3"]


def test_an_error_in_one_stage_leaves_the_others(recorded: Callable[[str], tuple[list[Event], list, dict]]) -> None:
    """A stage that cannot read its text becomes a Failure that names it; every other artifact is there."""
    events, failures, meta = recorded("sin_cos-torch2.13-cpu")
    damaged = [
        Event(e.kind, e.time, e.frame, e.graph, plain({"absent_field": "text"})) if e.kind == "guards" else e for e in events
    ]
    whole, trace = trace_of_events(events, failures, meta), trace_of_events(damaged, failures, meta)
    (failure,) = trace.failures
    assert (failure.stage, failure.step) == ("guards", "record")
    assert not untold(failure.message, "FieldError", "GuardTree", "no field", "absent_field")
    assert [a.id for a in trace.artifacts] == [a.id for a in whole.artifacts if a.stage != "guards"]


def test_a_wrapper_that_is_no_python_costs_only_its_kernels(recorded: Callable[[str], tuple[list[Event], list, dict]]) -> None:
    """Output code that cannot be parsed is shown all the same; the kernel stage says why there are none."""
    events, failures, meta = recorded("sin_cos-torch2.13-cpu")
    damaged = [
        Event(e.kind, e.time, e.frame, e.graph, plain({"text": "x = (", "file": "f.py"})) if e.kind == "output_code" else e
        for e in events
    ]
    trace = trace_of_events(damaged, failures, meta)
    assert trace.text("output_code") == "x = (" and trace.kernels == ()
    assert [(f.stage, f.step) for f in trace.failures] == [("kernel", "gather")]


@every
def test_load_events_takes_what_the_files_hold(name: str, recorded: Callable[[str], tuple[list[Event], list, dict]]) -> None:
    """Each recording says in its meta which program, torch and device it is of, as its file name does."""
    _, _, meta = recorded(name)
    release = ".".join(meta["torch"].split(".")[:2])
    assert f"{meta['program']}-torch{release}-{meta['device']}" == name


def test_kernels_have_their_name_in_their_id() -> None:
    """Two kernels of one graph are told apart by name, and a name that goes on from another's is another."""
    artifacts: list[Artifact] = []
    for name in ("k", "k:extra", "k"):
        event = Event("kernel", 0.0, "0/0", "forward", plain({"name": name}))
        artifacts.append(Artifact(new_id(event, artifacts, per_kernel=True), "kernel", "0/0", "forward", "", "", ""))
    assert [a.id for a in artifacts] == ["0/0:kernel:forward:k", "0/0:kernel:forward:k:extra", "0/0:kernel:forward:k:2"]
    assert new_id(Event("dynamo", 0.0, data=plain({"name": "n"})), ()) == "-:dynamo"


def test_a_graph_heard_of_only_as_text_is_kept() -> None:
    """Backends other than Inductor give AOTAutograd's graphs only as text."""
    text = Event("forward", 1.0, "0/0", "inference", plain({"text": "graph"}))
    assert gathered("forward", [text]) == [text]


def test_a_function_not_compiled_inside_a_frame_stays_in_it() -> None:
    """Only what belongs to no frame gets one of its own."""
    events = [Event("dynamo", 1.0, "5/0"), Event("source", 2.0, "5/0", data=plain({"not_compiled": 0}))]
    assert [e.frame for e in renumber(events)] == ["0/0", "0/0"]


def test_a_stages_seconds_are_those_of_its_phases() -> None:
    """They are those of its graph where there are any, else those of no graph; phases that did not end do not count."""
    rows = (
        blank(Phase, name="passes", graph="forward", seconds=1.0),
        blank(Phase, name="passes", graph="forward", seconds=2.0),
        blank(Phase, name="passes", graph="backward", seconds=10.0),
        blank(Phase, name="passes", graph="", seconds=100.0),
        blank(Phase, name="passes", graph="forward", seconds=None),
        blank(Phase, name="other", graph="forward", seconds=1000.0),
    )
    events = [Event("phase", 0.0, "0/0", data=Phases(rows=rows)), Event("phase", 0.0, "1/0", data=Phases(rows=rows[:1]))]
    seconds = {graph: seconds_of(["passes"], Event("post_grad", 0.0, "0/0", graph), events) for graph in ("forward", "joint")}
    assert seconds == {"forward": 3.0, "joint": 100.0}
    assert seconds_of(["passes"], Event("post_grad", 0.0, "1/0", "backward"), events) is None
    assert seconds_of(["passes"], Event("post_grad", 0.0, "2/0", "forward"), events) is None


def test_a_fresh_trace_shows_no_recompile_of_what_it_did_not_compile() -> None:
    """`trace` compiles anew: a guard of a compile from before is no recompile of its own; in a recording it is one."""
    own, foreign = (plain({"text": f"{frame}: size mismatch"}) for frame in ("3/1", "3/0"))
    events = [Event("dynamo", 0.5, "3/1"), Event("recompile", 1.0, "3/1", data=foreign), Event("recompile", 2.0, "3/2", data=own)]
    fresh, recorded = trace_of_events(events, meta={"fresh": True}), trace_of_events(events)
    assert [r["earlier"] for r in fresh.dynamo.recompiles] == ["0/0"]
    assert len(recorded.dynamo.recompiles) == 2


def test_why_assembly_lacks_links_is_a_failure_said_once() -> None:
    """Two kernels for the same reason are one Failure; their texts are in the trace all the same."""
    data = blank(Assembly, unlinked="addr2line is not installed")
    made = [Artifact(f"a{n}", "assembly", "0/0", "", "", "asm", "\tret", kernel=f"cpp_{n}", data=data) for n in range(2)]
    trace = extended(extended(Trace(), made[:1]), made[1:])
    assert trace.artifacts == tuple(made)
    assert trace.failures == (Failure("assembly", "inlining", "addr2line is not installed"),)
