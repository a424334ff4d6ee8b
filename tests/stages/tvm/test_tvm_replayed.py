"""TVM's stages, made from recorded events without TVM."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from explorer.model.stage import Frames
from explorer.model.values import Event
from explorer.stages.functions import one_a_function
from explorer.stages.iree import assembly
from explorer.stages.tvm import STAGES, vm
from explorer.stages.tvm.machine_code import of_graph
from explorer.stages.tvm.notes import note, noted
from explorer.tracing.traced import Trace
from tests.facts import untold
from tests.linked_nodes import nodes_of

RECORDING = "tvm_linear-torch2.13-cpu"


@pytest.fixture
def trace(replayed: Callable[[str], Trace]) -> Trace:
    """The recorded inference of two equal layers and operators behind them."""
    return replayed(RECORDING)


def test_every_stage_is_there(trace: Trace) -> None:
    """Each stage has its text, and the machine code is one text per function."""
    assert {stage.name for stage in STAGES if stage.name != "tvm_target"} <= {artifact.stage for artifact in trace.artifacts}
    functions = {artifact.kernel for artifact in trace.find("tvm_assembly")}
    assert functions == {f"{name}_compute_" for name in ("fused_matmul_add_relu", "fused_relu_add1_sum", "reshape", "transpose")}
    assert {artifact.kernel for artifact in trace.find("tvm_llvm")} == functions
    assert not trace.failures
    assert not untold(trace.text("execution"), "1 time", "TVM", "llvm")


def test_an_operation_of_relax_is_linked_to_its_own_node(trace: Trace) -> None:
    """The two additions of a bias and the multiplications are of the layers, each relu is of itself."""
    (relax,) = trace.find("tvm_relax")
    assert nodes_of(trace, relax, r"R\.matmul") == [{"addmm"}, {"addmm_1"}]
    assert nodes_of(trace, relax, r"R\.nn\.relu") == [{"relu"}, {"relu_1"}, {"relu_2"}]


def test_a_function_of_equal_operators_is_of_those_that_call_it_and_of_no_other(trace: Trace) -> None:
    """TVM makes one function of both layers; the third relu, for which it used the same code at first, is in another one."""
    (fused,) = trace.find("tvm_fused")
    assert {frozenset(nodes) for nodes in nodes_of(trace, fused, r"\] = T\.max\(")} == {
        frozenset({"relu", "relu_1"}),
        frozenset({"relu_2"}),
    }
    calls = nodes_of(trace, fused, r"R\.call_tir\(cls\.fused_matmul")
    assert calls == [{"addmm", "relu"}, {"addmm_1", "relu_1"}]


def test_the_virtual_machine_calls_are_told_apart_by_their_order(trace: Trace) -> None:
    """Both layers are calls of one function: the first call is of the first layer."""
    (machine,) = trace.find("tvm_vm")
    assert nodes_of(trace, machine, r"^  call +fused_matmul") == [{"addmm", "relu"}, {"addmm_1", "relu_1"}]
    assert not any(nodes_of(trace, machine, r"^  call +vm\.builtin"))


def test_calls_in_another_order_are_linked_to_nothing(trace: Trace) -> None:
    """Where the machine does not call the functions in the order of the module, no call is known to be of a node."""
    (machine,) = trace.find("tvm_vm")
    calls = machine.data["calls"]
    by_tvm = [name for name, _ in calls if name != "reshape"]  # that is one of the machine's own functions
    assert len(list(vm.link(machine, trace))) == len(by_tvm) == 5
    turned = replace(machine, data={"calls": tuple(reversed(calls))})
    assert not list(vm.link(turned, trace))


def test_instructions_are_of_the_nodes_whose_stores_they_compute(trace: Trace) -> None:
    """The largest of two numbers is relu's, in LLVM IR and in assembly."""
    for stage, code in (("tvm_llvm", r"fcmp|llvm\.max|maxnum"), ("tvm_assembly", r"\bvmaxps\b")):
        found = [nodes for artifact in trace.find(stage) for nodes in nodes_of(trace, artifact, code)]
        assert found and all(nodes and nodes <= {"relu", "relu_1", "relu_2"} for nodes in found), (stage, found)


def test_every_line_that_computes_is_linked_down_to_the_machine(trace: Trace) -> None:
    """In Relax, in TIR and in the virtual machine's code no operation lacks its node."""
    share = {row["stage"]: row["share"] for row in trace.coverage() if row["stage"].startswith("tvm_")}
    assert [share[name] for name in ("tvm_relax", "tvm_fused", "tvm_tir", "tvm_vm")] == [1.0] * 4
    assert share["tvm_llvm"] > 0.6 and share["tvm_assembly"] > 0.6


def test_the_passes_that_changed_something_are_a_table(trace: Trace) -> None:
    """Each has its functions and their lines before and after; what ran before one is what it was given."""
    rows = trace.table("tvm_pass")
    names = [row["name"] for row in rows]
    assert names.index("LegalizeOps") < names.index("FuseOps") < names.index("tirx.MakePackedAPI")
    assert not {"sequential", "f_zero_pipeline", "tirx.Filter"} & set(names)
    for row in rows:
        added, removed = (len(re.findall(rf"^\{sign}(?!{re.escape(sign * 2)})", row["difference"], re.M)) for sign in "+-")
        assert added - removed == row["after"] - row["before"], row["name"]
        assert all(f"{name}, " in row["difference"] for name in row["functions"]) and row["level"]


def test_behind_a_pass_that_is_named_all_functions_are_there(trace: Trace) -> None:
    """The difference of each function that changed is that of the whole texts, in which also those stand that did not change."""
    changes = {row["number"]: row for row in trace.table("tvm_pass")}
    wholes = trace.table("tvm_after_pass")
    assert [row["name"] for row in wholes] == ["FuseOps", "tirx.MakePackedAPI"]
    for whole in wholes:
        added = [line[1:] for line in changes[whole["number"]]["difference"].split("\n") if re.match(r"\+(?!\+\+)", line)]
        before, after = (set(whole[side].split("\n")) for side in ("before", "after"))
        assert added and all(line in after for line in added if not line.endswith("…"))
        assert any(line and line not in before for line in added)
    (fused, packed) = trace.find("tvm_after_pass")
    assert fused.text.count("def ") > len(changes[fused.data["number"]]["functions"])
    assert {frozenset(nodes) for nodes in nodes_of(trace, packed, r"\] = T\.max\(")} == {
        frozenset({"relu", "relu_1"}),
        frozenset({"relu_2"}),
    }


def test_a_note_is_read_as_it_is_written() -> None:
    """Also behind a comment of TVM's own; a comment that is none is no note."""
    text = f"a = 1  # {note(['relu', 'add_1'])}\nb = 2  # other; {note(['mm'])}\nc = 3  # FX nodes"
    assert list(noted(text)) == [(1, ("relu", "add_1")), (2, ("mm",))]


TWO_NODES = """\
\t.file\t1 "." "IRModule.CodeGenLLVM"
f_compute_:
\t.loc\t1 2 0
\taddl %eax, %ebx
\t.loc\t1 4 0
\tmull %ebx
\t.loc\t1 0 0
\tsubl %eax, %ebx
\tretq
.Lfunc_end0:
"""


def test_a_line_that_stands_for_a_group_is_of_each_of_its_nodes() -> None:
    """The lines behind those of the nodes are groups of them."""
    facts = {"text": TWO_NODES, "fx_nodes": ("a", "b"), "groups": ((0, 1),), "functions": ("f_compute_",)}
    gather = one_a_function(assembly.bounds, lambda text: of_graph(assembly.chains(text)))
    (made,) = gather([Event("tvm_assembly", 0.0, data=facts)], Frames({}))
    assert made.data["places"] == ((3, (("fx_graph", 2),)), (5, (("fx_graph", 2), ("fx_graph", 3))))
