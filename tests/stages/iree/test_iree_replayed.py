"""IREE's stages, made from recorded events without IREE."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import pytest

from explorer.model.stage import Frames
from explorer.model.values import Event
from explorer.stages.functions import one_a_function
from explorer.stages.fx_graph import node_lines
from explorer.stages.iree import STAGES, assembly, llvm, phases
from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.linked_nodes import nodes_of

RECORDING = "iree_linear-torch2.13-cpu"
#: What a line of a phase computes, by the operator of the FX node that it must come from.
OPERATIONS = {"linalg.matmul": "mm", "arith.cmpf": "relu", "arith.select": "relu"}


@pytest.fixture
def trace(replayed: Callable[[str], Trace]) -> Trace:
    """The recorded inference of a linear layer."""
    return replayed(RECORDING)


def test_every_stage_is_there(trace: Trace) -> None:
    """Each stage has its text, and the machine code is one text per dispatch."""
    assert {stage.name for stage in STAGES if stage.name != "iree_target"} <= {artifact.stage for artifact in trace.artifacts}
    for stage in ("iree_llvm", "iree_assembly"):
        (artifact,) = trace.find(stage)
        assert artifact.kernel.startswith("main$async_dispatch_0_matmul") and artifact.kernel in artifact.text
    assert not trace.failures
    assert not untold(trace.text("execution"), "1 time", "IREE", "local-task")


@pytest.mark.parametrize("phase", ["input", "flow", "stream", "executable-sources", "executable-configurations"])
def test_an_operation_is_linked_to_its_own_node(trace: Trace, phase: str) -> None:
    """What only one operator lowers to is linked to that node alone."""
    (graph,), (module,) = trace.find("forward"), trace.find(phases.stage_name(phase))
    names = {line: name for name, line in node_lines(graph).items()}
    links = {n: link.target_lines for link in trace.links if link.source == module.id for n in link.source_lines}
    seen = set()
    for number, line in enumerate(module.lines, 1):
        for operation, node in OPERATIONS.items():
            if f"= {operation} " in line:
                assert [names[n] for n in links[number]] == [node], line
                seen.add(operation)
    assert seen == set(OPERATIONS)


def test_an_instruction_without_a_location_is_linked_to_nothing(trace: Trace) -> None:
    """LLVM's optimizer drops the location of the multiply-adds: they are not taken for those of the .loc above them."""
    (machine,) = trace.find("iree_assembly")
    linked = {n for link in trace.links if link.source == machine.id for n in link.source_lines}
    products = [n for n, line in enumerate(machine.lines, 1) if re.search(r"\bvfmadd\w+", line)]
    assert products and not linked.intersection(products) and linked


def test_the_lines_that_only_hand_over_inputs_do_not_count(trace: Trace) -> None:
    """A check of an input's shape is of the kind "inputs", and an operation is of none."""
    (module,) = trace.find("iree_hal")
    kinds = dict(zip(module.lines, phases.kinds(module), strict=True))
    assert {kind for line, kind in kinds.items() if "hal.buffer_view.assert" in line} == {"inputs"}
    (flow,) = trace.find("iree_flow")
    assert {kind for line, kind in zip(flow.lines, phases.kinds(flow), strict=True) if "linalg.matmul " in line} == {""}


def test_what_a_pass_wrote_is_linked_to_the_node_that_it_wrote_it_for(trace: Trace) -> None:
    """Of the difference what went and what came is linked; the module behind a pass that was named is linked whole."""
    (linalg,) = (a for a in trace.find("iree_pass") if a.data["name"] == "convert-torch-to-linalg")
    (module,) = trace.find("iree_after_pass")
    assert module.data["number"] == linalg.data["number"]
    assert nodes_of(trace, linalg, r"^-.*torch\.aten\.mm ") == nodes_of(trace, linalg, r"^\+.*= linalg\.matmul ") == [{"mm"}]
    assert nodes_of(trace, module, r"= linalg\.matmul ") == [{"mm"}]


def test_the_passes_that_changed_the_module_are_a_table(trace: Trace) -> None:
    """Each has the module's lines before and after it, as many as the difference says, and begins with what the last one left."""
    rows = trace.table("iree_pass")
    assert len(rows) > 100 and all(a["after"] == b["before"] for a, b in pairwise(rows))
    for row in rows:
        added, removed = (len(re.findall(rf"^\{sign}(?!{re.escape(sign * 2)})", row["difference"], re.M)) for sign in "+-")
        assert added - removed == row["after"] - row["before"] and added + removed, row["name"]
    names = [row["name"] for row in rows]
    order = ("convert-torch-to-linalg", "iree-flow-outline-dispatch-regions", "iree-convert-to-llvm", "iree-vm-conversion")
    assert [name for name in names if name in order] == list(order)


TWO_FUNCTIONS = """\
\t.file\t1 "fx_graph"
"first$one":
\t.loc\t1 2 0
\taddl %eax, %ebx
\t.loc\t1 0 0
\tmull %ebx
.Lfunc_end0:
library:
\taddl %eax, %ebx
.Lfunc_end1:
second:
\tsubl %eax, %ebx
\t.loc\t1 3 0
\tretq
.Lfunc_end2:
"""


def test_functions_are_cut_out_of_the_executable() -> None:
    """Each dispatch is a text, the library's functions are none, and no location goes on into the next function."""
    event = Event(
        "iree_assembly", 0.0, data={"text": TWO_FUNCTIONS, "fx_nodes": ("a", "b"), "functions": ("first$one", "second")}
    )
    made = list(one_a_function(assembly.bounds, assembly.chains)([event], Frames({})))
    assert [each.data["name"] for each in made] == ["first$one", "second"]
    assert [each.data["places"] for each in made] == [((3, (("fx_graph", 2),)),), ((4, (("fx_graph", 3),)),)]


def test_functions_of_llvm_ir_have_quoted_names() -> None:
    """A name with a dollar sign is quoted in LLVM IR."""
    lines = ['define internal i32 @"main$async"(ptr %0) !dbg !1 {', "  ret i32 0", "}", "define void @plain() {", "}"]
    assert list(llvm.bounds(lines)) == [("main$async", 1, 3), ("plain", 4, 5)]
