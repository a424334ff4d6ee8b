"""XLA's stages, made from recorded events without XLA."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import pytest

from explorer.analysis.questions.user_lines import compiled_kernels
from explorer.stages.fx_graph import node_lines
from explorer.stages.xla import STAGES, hlo
from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.linked_nodes import nodes_of

RECORDING = "xla_linear-torch2.13-cpu"
#: The operations of HLO that XLA has for the operators of the recorded graph.
OPERATIONS = {
    "mm": {"dot"},
    "permute": {"transpose"},
    "add": {"add"},
    "relu": {"maximum"},
    "sum": {"reduce", "add"},
    "view": {"reshape", "copy"},
    "mul": {"broadcast", "multiply"},
}
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


@pytest.fixture
def trace(replayed: Callable[[str], Trace]) -> Trace:
    """The recorded inference of two equal layers and operators behind them."""
    return replayed(RECORDING)


def test_every_stage_is_there(trace: Trace) -> None:
    """Each stage has its text, and the machine code is one text per kernel."""
    assert {stage.name for stage in STAGES} <= {artifact.stage for artifact in trace.artifacts}
    assert {a.kernel for a in trace.find("xla_llvm")} == {a.kernel for a in trace.find("xla_assembly")} != set()
    assert not trace.failures
    assert not untold(trace.text("execution"), "1 time", "XLA", "cpu")
    assert all("XLA" in artifact.title for artifact in trace.artifacts if artifact.stage in ("xla_stablehlo", "xla_optimized"))


def test_an_operation_of_stablehlo_is_linked_to_its_own_node(trace: Trace) -> None:
    """Two equal layers, each of its own node; so are the three relus."""
    (module,) = trace.find("xla_stablehlo")
    assert nodes_of(trace, module, r"stablehlo\.dot_general") == [{"mm"}, {"mm_1"}]
    assert nodes_of(trace, module, r"stablehlo\.maximum") == [{"relu"}, {"relu_1"}, {"relu_2"}]


@pytest.mark.parametrize("stage", ["xla_before", "xla_optimized"])
def test_an_instruction_is_linked_to_the_node_whose_operation_it_is(trace: Trace, stage: str) -> None:
    """What XLA calls an instruction by, the operation, is one that XLA has for the node's operator."""
    (module,), (graph,) = trace.find(stage), trace.find("forward")
    targets = {node["name"]: node["target"] for node in graph.nodes if node["op"] == "call_function"}
    checked = 0
    for computation in hlo.computations(module.lines):
        for each in computation.instructions:
            (nodes,) = nodes_of(trace, module, rf"^\s+(ROOT )?%{re.escape(each.name)} = ")
            if each.operation in ("parameter", "fusion", "bitcast"):  # a bitcast has the name of what it reads
                continue
            for target in (targets[name] for name in nodes if name in targets):
                checked += 1
                assert each.operation in OPERATIONS[target.split(".")[1]], (each, target)
    assert checked > 10


def test_the_passes_lead_from_the_first_module_to_the_last(trace: Trace) -> None:
    """Each difference fits the module that the one before it left, and behind the last is the optimised module."""
    (before,), (optimized,) = trace.find("xla_before"), trace.find("xla_optimized")
    lines = list(before.lines)
    for artifact, row in zip(trace.find("xla_pass"), trace.table("xla_pass"), strict=True):
        assert len(lines) == row["before"]
        lines = patched(lines, artifact.lines)
        assert len(lines) == row["after"]
    # behind the last pass the header says that the module is scheduled, and its instructions are in that order
    assert sorted(lines[1:]) == sorted(optimized.lines[1:])
    assert "fusion" in [row["name"] for row in trace.table("xla_pass")]


def patched(lines: Sequence[str], difference: Sequence[str]) -> list[str]:
    """The lines after a unified difference, each of whose lines that are not new must be there."""
    made, place = list[str](), 0
    for line in difference:
        if hunk := _HUNK.match(line):
            first = int(hunk[1]) - (hunk[2] != "0")
            made += lines[place:first]
            place = first
        elif line.startswith("+") and not line.startswith("+++ "):
            made.append(line[1:])
        elif line.startswith((" ", "-")) and not line.startswith("--- "):
            assert lines[place] == line[1:]
            made += [lines[place]] if line.startswith(" ") else []
            place += 1
    return [*made, *lines[place:]]


def test_kernels_are_linked_to_what_was_fused_into_them(trace: Trace) -> None:
    """The kernel's lines of machine code lead to the nodes of its fusion, and to no other's."""
    (module,), (graph,) = trace.find("xla_optimized"), trace.find("forward")
    names = {line: name for name, line in node_lines(graph).items()}
    places = {kernel.name: kernel for kernel in compiled_kernels(trace)}
    for stage in ("xla_llvm", "xla_assembly"):
        for artifact in trace.find(stage):
            stated = {name for n, found in hlo.op_names(module.lines) if n in places[artifact.kernel].lines for name in found}
            last = max(n for link in trace.links if link.source == artifact.id for n in link.source_lines)
            reached = {line for row in trace.follow(artifact.id, last) if row["artifact"] == graph.id for line in row["lines"]}
            assert {names[line] for line in reached} == stated & set(names.values()) != set(), artifact.id


def test_a_users_line_leads_down_to_the_machine(trace: Trace) -> None:
    """The relu behind the view is in one fusion with the addition and the sum, and not in a layer's."""
    (source,) = trace.find("source")
    line = next(n for n, text in enumerate(source.lines, 1) if "sum(0)" in text)
    kernels = {row["artifact"].rpartition(":")[2] for row in trace.follow(source.id, line) if row["stage"] == "xla_assembly"}
    (module,) = trace.find("xla_optimized")
    fused = {k.name for k in compiled_kernels(trace) if any("= f32[8]{0} reduce(" in module.lines[n - 1] for n in k.lines)}
    assert kernels == fused != set()


def test_the_buffers_are_those_of_the_instructions(trace: Trace) -> None:
    """A value is linked to the instruction of its name, whose shape has as many bytes."""
    (module,), (buffers,) = trace.find("xla_optimized"), trace.find("xla_buffers")
    rows = {row["value"]: row for row in trace.table("xla_buffers")}
    links = [link for link in trace.links if (link.source, link.target) == (buffers.id, module.id)]
    assert len(links) == len(rows) > 5
    for link in links:
        ((number,), (line,)) = link.source_lines, link.target_lines
        found = re.match(r"\s+(?:ROOT )?%([\w.-]+) = (?:f32\[([\d,]*)\]|\()", module.lines[line - 1])
        assert found and re.search(rf" {re.escape(found[1])}(\{{\}})? @", buffers.lines[number - 1])
        if found[2] is not None:
            assert rows[found[1]]["bytes"] == 4 * math.prod(map(int, filter(None, found[2].split(","))))


def test_the_cost_counts_both_products(trace: Trace) -> None:
    """Two layers of 2 by 8 by 8 are 512 operations, and the elementwise ones add less than that again."""
    figures = {row["figure"]: row["value"] for row in trace.table("xla_cost")}
    assert 2 * (2 * 2 * 8 * 8) <= figures["flops"] < 2 * (2 * 2 * 2 * 8 * 8)
    assert figures["argument bytes"] == 4 * (2 * (8 * 8 + 8) + 2 * 8)
    assert figures["bytes accessed"] > figures["argument bytes"]


def test_every_line_that_computes_is_linked(trace: Trace) -> None:
    """Down to the machine code no line lacks its node, but copies that XLA makes for itself."""
    missing = {row["artifact"]: row["missing"] for stage in STAGES if stage.kinds for row in trace.coverage(stage.name)}
    assert len(missing) > 6
    copies = [text for lines in missing.values() for _, text in lines]
    assert all(re.search(r" copy\(|%(wrapped_)?copy", text) for text in copies), copies


HLO = """\
HloModule main

%body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %p = (s32[], f32[4]{0}) parameter(0)
  ROOT %t = (s32[], f32[4]{0}) tuple(%a, %b), metadata={op_name="one/two" stack_frame_id=1}
}

%other (q: f32[]) -> f32[] {
  ROOT %q = f32[] parameter(0)
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %while.1 = (s32[], f32[4]{0}) while(%x), condition=%other, body=%body
  ROOT %c = f32[4]{0} conditional(%x), branch_computations={%other, %body}, metadata={op_name="three"}
}"""


def test_calls_of_computations_are_read() -> None:
    """Bodies, conditions and branches belong to the instruction that calls them; an op_name may join several names."""
    lines = HLO.split("\n")
    assert {each.name: inside for each, inside in hlo.kernels(lines)} == {
        "while.1": [3, 4, 5, 6, 8, 9, 10],
        "c": [3, 4, 5, 6, 8, 9, 10],
    }
    assert dict(hlo.op_names(lines)) == {5: ("one", "two"), 15: ("three",)}
    module = hlo.module_of(tuple(lines))
    assert module.lines_of("q_kernel") == [9] and module.lines_of("body") == [3, 4, 5, 6] and not module.lines_of("z")


def test_a_module_is_read_once_for_all_of_its_kernels(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel's code is linked to it, and a module has as many kernels as it has lines for."""
    read = list[Sequence[str]]()
    computations = hlo.computations
    monkeypatch.setattr(hlo, "computations", lambda lines: read.append(lines) or computations(lines))
    hlo.module_of.cache_clear()
    codes = [*trace.find("xla_llvm"), *trace.find("xla_assembly")]
    links = {stage.name: stage.link for stage in STAGES}
    linked = [artifact for artifact in codes if list(links[artifact.stage](artifact, trace))]
    assert len(linked) > 3 and len(read) == 1
