"""Guards as facts: each guard is in one, in words that say what the next call must be."""

from __future__ import annotations

from collections import Counter

import pytest

from explorer.analysis.questions.guard_facts import GROUPS, GuardFact, guard_facts
from explorer.model.records import typed
from explorer.stages.dynamo.guards import Guard, Guards
from tests.conftest import replay_of


def facts_of(name: str, frame: str = "0/0") -> tuple[tuple[Guard, ...], list[GuardFact]]:
    (artifact,) = (a for a in replay_of(name).find("guards") if a.frame == frame)
    rows = typed(Guards, artifact.data).rows
    return rows, guard_facts(rows)


def guard(kind: str, source: str, expression: str) -> Guard:
    return Guard(kind=kind, source=source, expression=expression, code="", file="", line=0)


@pytest.mark.parametrize("name", ["views/rotary-torch2.13-h100", "mlp_train-torch2.13-cpu", "attention-torch2.11-cuda"])
def test_each_guard_is_in_one_fact(name: str) -> None:
    """A guard has a fact of its own, or is a marking that is counted with its tensor; a fact has the line of its guard."""
    rows, facts = facts_of(name)
    assert len(facts) + sum(fact["folded"] for fact in facts) == len(rows)
    assert len({fact["line"] for fact in facts}) == len(facts)
    tensors = Counter(row.source for row in rows if "_indices" in row.expression)
    assert {rows[fact["line"] - 1].source: fact["folded"] for fact in facts if fact["folded"]} == tensors
    order = [GROUPS.index(fact["group"]) for fact in facts]
    assert order == sorted(order)


def test_a_tensor_is_told_by_dtype_sizes_and_device() -> None:
    """Sizes that may change are "any", and what Dynamo found of them is a fact of its own."""
    said = {frame: [fact["fact"] for fact in facts_of("recompile-torch2.11-cuda", frame)[1]] for frame in ("0/0", "0/1", "0/2")}
    assert said["0/0"][0] == "x: float32 [8] on cuda:0"
    assert said["0/1"][0] == "x: float64 [8] on cuda:0"
    assert "x: float32 [any] on cuda:0" in said["0/2"] and "4 <= x.size()[0] <= 64" in said["0/2"]
    assert "torch.relu: the same object (built-in method)" in said["0/0"]


def test_names_are_those_of_the_program() -> None:
    """A module's parameter, an attribute and an argument have the names that the program gives them."""
    _, facts = facts_of("views/rotary-torch2.13-h100")
    groups = {fact["fact"]: fact["group"] for fact in facts}
    assert groups["x: float32 [2, 8, 32] on cpu"] == groups["x, angles: no two are the same tensor"] == "argument"
    assert groups["heads == 4"] == "value"
    assert groups["up.weight: float32 [48, 32] on cpu, requires grad"] == "tensor"
    assert not any("L[" in fact or "G[" in fact or "check_tensor" in fact for fact in groups)


@pytest.mark.parametrize(
    ("size", "stride", "said"),
    [
        ("2, 3", "3, 1", "float32 [2, 3] on cpu"),
        ("2, 3", "1, 2", "float32 [2, 3] on cpu, strides [1, 2]"),
        ("1, 3", "7, 1", "float32 [1, 3] on cpu"),  # the stride of one row says nothing
        ("0, 3", "9, 9", "float32 [0, 3] on cpu"),
        ("", "", "float32 [] on cpu"),
        ("None, 3", "3, 1", "float32 [any, 3] on cpu"),
    ],
)
def test_strides_are_told_where_a_tensor_is_not_contiguous(size: str, stride: str, said: str) -> None:
    """As torch counts it: a dimension of one element may have any stride, and so may a tensor without one."""
    expression = (
        "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, BackendSelect), torch.float32, device=None, requires_grad=False, "
        f"size=[{size}], stride=[{stride}])"
    )
    (fact,) = guard_facts([guard("TENSOR_MATCH", "L['x']", expression)])
    assert fact["fact"] == f"x: {said}"


def test_a_name_that_means_what_it_did_is_an_object() -> None:
    """A guard that a name of a module is worth what it was says so; one on a number is a value."""
    same, other = guard_facts(
        [
            guard("EQUALS_MATCH", "G['torch'].bool", "G['torch'].bool == torch.bool"),
            guard("EQUALS_MATCH", "G['config'].heads", "G['config'].heads == 4"),
        ]
    )[::-1]
    assert (same["group"], same["fact"]) == ("object", "torch.bool: the same object")
    assert (other["group"], other["fact"]) == ("value", "config.heads == 4")


def test_what_is_not_understood_stays_as_it_is() -> None:
    """A guard of another torch keeps its condition, and a broken state is no error."""
    rows = [
        guard("NEW_GUARD", "L['x']", "___check_new(L['x'], 3)"),
        guard("GLOBAL_STATE", "", "___check_global_state() against {grad}"),
        guard("TYPE_MATCH", "L['x']", ""),
    ]
    said = {fact["line"]: fact["fact"] for fact in guard_facts(rows)}
    assert said == {1: "___check_new(x, 3)", 2: "state of the program: {grad}", 3: "x: TYPE_MATCH"}
