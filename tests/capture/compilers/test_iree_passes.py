"""The passes of IREE: differences of two modules, what iree-compile prints, and in a live compile each pass."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch

import explorer
from explorer.capture.compilers.compilers import compiler_named
from explorer.capture.compilers.iree.compile import HOST, tool
from explorer.capture.compilers.iree.differences import Module, difference
from explorer.capture.compilers.iree.passes import PRINTED, Passes, dumps
from tests.facts import untold
from tests.programs import Small

IREE = compiler_named("iree")
assert IREE is not None
live = pytest.mark.skipif(bool(IREE.missing), reason=f"IREE is not installed: {IREE.remedy}")

BEFORE = """\
module {
  func.func @main(%arg0: i32 loc("fx_graph":1:0)) -> i32 {
    %c1 = arith.constant 1 : i32 loc("fx_graph":2:0)
    %c1_0 = arith.constant 1 : i32 loc("fx_graph":3:0)
    %0 = arith.addi %arg0, %c1 : i32 loc(fused["fx_graph":2:0, "fx_graph":3:0])
    %1 = arith.muli %0, %c1_0 : i32 loc("fx_graph":3:0)
    return %1 : i32 loc("fx_graph":1:0)
  } loc("fx_graph":1:0)
} loc(unknown)"""
#: As BEFORE; the second constant is gone, so what names it names the first, and the values behind are counted anew.
FOLDED = BEFORE.replace('    %c1_0 = arith.constant 1 : i32 loc("fx_graph":3:0)\n', "").replace("%c1_0", "%c1")
HEAD = "// -----// IR Dump After CSEPass: cse ('func.func' operation: @main) //----- //"
OPTIONS = "// -----// IR Dump After mlir::x::YPass: y{a=b  c=d} ('builtin.module' operation) //----- //"


def test_what_only_got_another_number_is_no_difference() -> None:
    """All values renamed alike is no change; one operand that is another value is one."""
    renamed = BEFORE.replace("%0", "%7").replace("%1 ", "%8 ").replace("%c1_0", "%c1_5")
    assert renamed != BEFORE and difference(Module.of(BEFORE), Module.of(renamed)) == ("", ())
    other = BEFORE.replace("muli %0, %c1_0", "muli %0, %c1")
    text, _ = difference(Module.of(BEFORE), Module.of(other))
    assert [line for line in text.split("\n")[2:] if line[0] in "+-"] == [
        "-    %1 = arith.muli %0, %c1_0 : i32",
        "+    %1 = arith.muli %0, %c1 : i32",
    ]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ('"use"(%0, %1) {x = 1 : i32} : (i32, i32) -> ()', '"use"(%1, %1) {x = 1 : i32} : (i32, i32) -> ()'),
        (
            "linalg.generic ins(%0, %1 : f, f) outs(%1 : f) attrs = {a = 1}",
            "linalg.generic ins(%1, %1 : f, f) outs(%1 : f) attrs = {a = 1}",
        ),
        ("%2 = scf.for %i = %0 to %1 iter_args(%a = %0, %b = %1)", "%2 = scf.for %i = %0 to %1 iter_args(%a = %1, %b = %1)"),
        ("%2:2, %3 = f(%0, %1) {a = 1}", "%2:2, %3 = f(%1, %1) {a = 1}"),
    ],
)
def test_an_operand_before_an_attribute_is_no_new_value(line: str, changed: str) -> None:
    """An equals sign further on in the line, such as an attribute's, does not hide that the operand is another value."""
    before = f"module {{\n  %0 = a\n  %1 = b\n  {line}\n}}"
    text, _ = difference(Module.of(before), Module.of(before.replace(line, changed)))
    assert [each for each in text.split("\n")[2:] if each[0] in "+-"] == [f"-  {line}", f"+  {changed}"]
    renamed = re.sub(r"%(\d)", r"%7\1", before)
    assert difference(Module.of(before), Module.of(renamed)) == ("", ())


def test_a_difference_states_the_places_of_its_lines() -> None:
    """A line that went has its node, a line of several nodes has all of them; lines of the whole graph have none."""
    text, places = difference(Module.of(BEFORE), Module.of(FOLDED))
    lines = text.split("\n")
    stated = {lines[number - 1].strip(): [line for _, line in chain] for number, chain in places}
    assert stated["-    %c1_0 = arith.constant 1 : i32"] == [3]
    assert stated["%0 = arith.addi %arg0, %c1 : i32"] == [2, 3]
    assert not any("return" in line or "module" in line for line in stated)
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-    %c1_0 = arith.constant 1 : i32"]


def test_each_printed_module_is_read_with_its_pass() -> None:
    """Name, options and operation are those of the line above it; a message after it belongs to no module."""
    printed = [HEAD, *BEFORE.split("\n"), "", "module.mlir:3:4: error: no", OPTIONS, "module {", "} loc(unknown)", ""]
    first, second = dumps(f"{line}\n" for line in printed)
    assert (first.name, first.options, first.operation, first.lines) == ("cse", "", "func.func @main", tuple(BEFORE.split("\n")))
    assert (second.name, second.options, second.operation) == ("y", "{a=b c=d}", "builtin.module")


def test_a_pass_that_changed_nothing_itself_is_none() -> None:
    """A pass that ran others prints the module as the last of them left it; only named passes have whole texts."""
    printed = [HEAD, *FOLDED.split("\n"), OPTIONS, *FOLDED.split("\n"), HEAD, *BEFORE.split("\n")]
    changes = list(Passes(BEFORE, ("a", "b"), ("c*",)).changes(printed))
    assert [(change.number, change.name) for change, _ in changes] == [(0, "cse"), (2, "cse")]
    assert [(whole.before, whole.text) for _, whole in changes if whole] == [(BEFORE, FOLDED), (FOLDED, BEFORE)]
    assert not [whole for _, whole in Passes(BEFORE, ("a", "b"), ()).changes(printed) if whole]


@pytest.mark.compile
@live
def test_each_pass_that_iree_says_changed_the_module_is_shown(tmp_path: Path) -> None:
    """The passes are those that iree-compile names when it prints another form; each begins with what the last one left.

    A product of matrices is linked to its node on both sides of the pass that makes linear algebra of it.
    """
    torch.manual_seed(0)
    trace = explorer.trace(
        Small(), torch.randn(2, 8), backend="iree", options={"passes": True, "after_passes": ["convert-*", "no-such-pass"]}
    )
    (failure,) = trace.failures
    assert (failure.stage, failure.step, failure.fatal) == ("iree_pass", "the passes", False)
    assert not untold(failure.message, "no-such-pass", "t.table('iree_pass')") and "convert-*" not in failure.message
    rows = trace.table("iree_pass")
    (tmp_path / "module.mlir").write_text(trace.text("iree_torch"), encoding="utf-8")
    generic = [flag for flag in PRINTED if "local-scope" not in flag] + ["--mlir-print-op-generic", "--iree-input-type=torch"]
    command = [tool("iree-compile"), "module.mlir", *generic, *HOST, "-o", "module.vmfb"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    said = re.findall(r"IR Dump After [^\n]*?: ([\w-]+)[ {]", printed)
    assert len(rows) > 100 and all(said[row["number"]] == row["name"] for row in rows)
    (linalg,) = (a for a in trace.find("iree_pass") if a.data["name"] == "convert-torch-to-linalg")
    (graph,) = trace.find("forward")
    linked = {
        linalg.lines[n - 1]: [graph.lines[each - 1] for each in link.target_lines]
        for link in trace.links
        if link.source == linalg.id
        for n in link.source_lines
    }
    for code in (r"^-.*torch\.aten\.mm ", r"^\+.*linalg\.matmul "):
        ((node,),) = [nodes for line, nodes in linked.items() if re.search(code, line)]
        assert "aten.mm" in node or "addmm" in node
    wholes = trace.table("iree_after_pass")
    assert wholes and {row["name"] for row in wholes} == {r["name"] for r in rows if r["name"].startswith("convert-")}
    for whole in wholes:
        (row,) = (row for row in rows if row["number"] == whole["number"])
        assert difference(Module.of(whole["before"]), Module.of(whole["after"]))[0] == row["difference"]
