"""`make torch-report`: which names of torch it finds in the source, and what it says of each in two releases."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.fast

SOURCE = """
import torch
from torch._inductor import config, scheduler as planning
from explorer.capture import patch

def watched(config):
    from torch._dynamo import convert_frame
    config.trace.enabled
    patch.observed(convert_frame, "compile_frame")
    return planning.Scheduler.fuse_nodes, torch.compile(hasattr(planning, "speedup"))

def first_of(owner):
    return next(name for name in ("newer", "older") if hasattr(owner, name))

planned = convert_frame.compile_frame, import_module("torch._inductor.graph"), "torch.compile is a name here"
"""


@pytest.fixture(scope="module")
def report(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """Give the script."""
    return module_at(Path(__file__).parents[1] / "benchmarks" / "torch_report.py")


def facts(forms: dict[str, str], *, asked: tuple[str, ...] = (), **elsewhere: list[str]) -> dict[str, Any]:
    """What an environment has: the forms of names, and where one that is not there is instead."""
    return {
        "versions": {"torch": "2.13.0"},
        "forms": forms,
        "uses": {name: ["capture/observe"] for name in forms},
        "asked": [*asked],
        "elsewhere": {name.replace("__", "."): places for name, places in elsewhere.items()},
    }


def test_names_are_imports_their_attributes_and_texts_that_are_names(report: ModuleType) -> None:
    """An attribute of a parameter, or of a name imported in another function, is none of torch's."""
    reads = report._Reads()
    reads.visit(ast.parse(SOURCE))
    assert reads.names == {
        *("torch", "torch.compile", "torch._inductor.config", "torch._inductor.scheduler", "torch._dynamo.convert_frame"),
        *("torch._inductor.scheduler.Scheduler.fuse_nodes", "torch._inductor.graph"),
    }
    assert reads.asked == {"speedup", "newer", "older"}


def test_a_name_is_looked_up_as_far_as_modules_and_classes_go(report: ModuleType) -> None:
    """What an object has is there or not depending on when one asks, so the name ends before it."""
    assert report.looked_up("torch.nn.Linear.forward") == ("torch.nn.Linear.forward", "function(input)")
    assert report.looked_up("torch.float32.itemsize") == ("torch.float32", "value")
    assert report.looked_up("torch.nn.modules.linear") == ("torch.nn.modules.linear", "module")
    assert report.looked_up("torch.nn.Linear.no_such") == ("torch.nn.Linear.no_such", "")


def test_a_definition_is_found_in_its_module_or_class(report: ModuleType) -> None:
    """Also one that stands under a condition; not a function's own variable."""
    tree = ast.parse("if True:\n    class A:\n        def f(self):\n            x = 1\n    x: int = 2\n")
    assert [*report.definitions(tree, "m")] == [("A", "m.A"), ("f", "m.A.f"), ("x", "m.x")]


def test_each_name_has_a_row_of_its_kind(report: ModuleType) -> None:
    """What went, moved, takes other parameters, came, is in neither, or is the same."""
    first = facts({"t.same": "value", "t.went": "module", "t.moved": "value", "t.f": "function(a, b=)", "t.came": "", "t.no": ""})
    second = facts(
        {"t.same": "value", "t.went": "", "t.moved": "", "t.f": "function(a, c=)", "t.came": "class(x)", "t.no": ""},
        asked=("t.went",),
        t__moved=["u.moved"],
    )
    assert [(row["kind"], row["name"], row["asked"], row["says"]) for row in report.rows(first, second)] == [
        ("gone", "t.went", "asked", ""),
        ("moved", "t.moved", "", "u.moved"),
        ("changed", "t.f", "", "-b= +c="),
        ("new", "t.came", "", ""),
        ("neither", "t.no", "", ""),
        ("same", "t.same", "", ""),
    ]


def test_a_name_that_is_gone_and_for_which_nobody_asks_is_counted(report: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The count decides the exit status."""
    there, gone = facts({"t.f": "value"}), facts({"t.f": ""})
    assert report.printed(there, gone) == 1
    assert report.printed(there, facts({"t.f": ""}, asked=("t.f",))) == 0
    assert report.printed(there, there) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["gone", "t.f"] in lines and ["capture/observe", "1", "0", "0", "0", "0", "0"] in lines


def test_what_is_replaced_is_noted_by_its_whole_name(report: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions, values, and what Dynamo sees plainly."""
    from explorer.capture.observe import patch

    for holder, name in ((patch, "_slot_of"), (patch, "_view_of"), (patch._PlainSight, "held")):
        monkeypatch.setattr(holder, name, getattr(holder, name))  # the last line puts back what is noted here
    names: set[str] = set()
    report.note_replaced(names)
    import torch

    with (
        patch.replaced(torch.nn.Linear, "forward", lambda original: original),
        patch.added(torch.version, "hip", "7.0"),
        patch.replaced_in_plain_sight(torch.nn.functional, "relu", lambda original: original),
    ):
        pass
    assert names == {"torch.nn.modules.linear.Linear.forward", "torch.version.hip", "torch.nn.functional.relu"}
