"""Fusions, patterns and passes that are changed on request: kept apart, fused, what if."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explorer
from explorer import Trace
from explorer.analysis.questions.costs import LAUNCHES
from tests.facts import says, untold

pytestmark = pytest.mark.compile

R = torch.randn


def siblings(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Two pointwise nodes over one input, and one over another."""
    return x.sin(), x.cos(), y.tan()


@pytest.fixture(scope="module")
def plain() -> Trace:
    return explorer.trace(siblings, R(64), R(64), target="h100")


def sources(trace: Trace) -> list[str]:
    return [kernel.source for kernel in trace.kernels]


def test_keeping_apart_adds_a_kernel_and_lifting_it_restores_the_trace(plain: Trace) -> None:
    """Kept apart, two nodes are two kernels and read their input twice; without the wish everything is as it was."""
    what = plain.what_if(keep_apart=("sin", "cos"))
    assert plain.why("sin", "cos").fused
    assert what.figure("kernels")["change"] == what.figure("launches")["change"] == 1
    assert what.figure("bytes_read")["change"] == 64 * 4 and what.figure("bytes_written")["change"] == 0
    assert what.figure("estimated_seconds")["change"] == pytest.approx(LAUNCHES["generated"], rel=0.01)
    why = what.after.why("sin", "cos")
    assert not why.fused and why.rule == "vetoed" and "keep_apart=" in why.sentence
    assert what.equal is True and not untold(what.note, "interpreter", "eager") and what.note in repr(what)
    assert len(what.check) == 3 and all(row["interpreted"] for row in what.check)
    assert what.after.meta["keep_apart"] == (("sin", "cos"),)
    assert any("keep_apart=" in row["why"] for row in explorer.compare(plain, what.after).fusion)
    lifted = what.after.what_if(keep_apart=())
    assert sources(lifted.after) == sources(plain)
    assert lifted.after.fusion.groups == plain.fusion.groups and lifted.after.fusion.table == plain.fusion.table


def test_fuse_joins_what_the_scheduler_expects_no_gain_of(plain: Trace) -> None:
    """Nodes that share nothing, and that it never asked about, become one kernel."""
    assert not plain.why("sin", "tan").considered
    what = plain.what_if(fuse=("buf0", "buf2"))
    assert what.after.why("sin", "tan").fused and what.figure("kernels")["change"] == -1
    assert what.after.failures == plain.failures and what.equal is True
    unchecked = plain.what_if(fuse=("buf0", "buf2"), limit=0)
    assert unchecked.equal is None and not untold(unchecked.note, "not checked", "limit=", "0 s")


def test_fuse_against_the_rules_is_refused_with_the_reason() -> None:
    """A fusion that would be wrong is not made, and a Failure says why."""
    trace = explorer.trace(lambda x, w: (x.sin() @ w).cos(), R(16, 16), R(16, 16), target="h100", fuse=("sin", "mm"))
    (failure,) = [f for f in trace.failures if f.stage == "fusion"]
    assert failure.step == "fuse" and not untold(failure.message, "sin", "mm", "call") and not failure.fatal


def test_a_pair_that_the_backend_refuses_names_the_backends_rule() -> None:
    """And not the threshold of the scheduler's choices, which `fuse=` overrides."""

    def two(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.sin(x).sum(0), torch.cos(y)

    trace = explorer.trace(two, R(64, 64), R(100), target="cpu", fuse=("op0", "op1"))
    (failure,) = [f for f in trace.failures if f.stage == "fusion"]
    assert not untold(failure.message, "op0", "op1", "C++", "loop") and "score_fusion_memory_threshold" not in failure.message
    assert not [row for row in trace.fusion.table if row["rule"] in ("overridden by fuse=", "score_fusion_memory_threshold")]


def test_a_wildcard_leaves_out_all_that_are_named_so(plain: Trace) -> None:
    """Also names that this trace does not list, since another round may have them; a name that nothing ever had is refused."""
    what = plain.what_if(without_pattern="_sfdp_*", without_pass="decompose_*")
    assert what.after.meta["without_pattern"] == ("_sfdp_*",) and sources(what.after) == sources(plain)
    with pytest.raises(explorer.errors.InputError, match=says("pattern", "'sfdpp*'")):
        plain.what_if(without_pattern="sfdpp*")
    with pytest.raises(explorer.errors.InputError, match=says("pass", "'remove_noop_op'", "'remove_noop_ops'")):
        plain.what_if(without_pass="remove_noop_op")


def test_fuse_across_a_call_names_what_has_to_run_in_between() -> None:
    """Asked both ways round, the reason is that of the pair, not that the other way would be backwards."""

    def gated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        a = x.sin()
        return a * (a @ w)

    trace = explorer.trace(gated, R(16, 16), R(16, 16), target="h100", fuse=("sin", "mul"))
    (failure,) = [f for f in trace.failures if f.stage == "fusion"]
    assert not untold(failure.message, "sin", "mul", "between")


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (("op0", "op77"), ("'op77'", "'op0'")),
        (("sinn", "cos"), ("'sinn'", "'sin'")),
        ([("op0", "op1"), "op2"], ("keep_apart", "'op2'")),
        ("op0", ("keep_apart", "'op0'")),
        (("op0",), ("keep_apart", "'op0'")),
        (("op0", "op1", "backward"), ("'op0'", "'op1'", "backward")),
    ],
    ids=["no node", "misspelt", "no pair", "a text", "one name", "no graph"],
)
def test_a_pair_by_a_wrong_name_is_an_error_that_lists_the_nearest(given: Any, facts: tuple[str, ...]) -> None:
    """Names are checked against the scheduler's own, after the compile at the latest."""
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        explorer.trace(siblings, R(64), R(64), target="h100", keep_apart=given)


def test_what_is_one_node_cannot_be_kept_apart() -> None:
    """Nodes that lowering computes in one place are no fusion of the scheduler's; the error says so."""
    with pytest.raises(explorer.errors.InputError, match=says("sin", "cos", "scheduler node", "keep_apart=")):
        explorer.trace(lambda x: x.sin().cos(), R(64), target="h100", keep_apart=("sin", "cos"))


def test_names_that_share_a_node_are_kept_apart_in_what_each_has_alone() -> None:
    """A reduction's name stands for what follows it too: the two reductions are kept apart, and the rest is fused as before."""

    def normed(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, unbiased=False)

    trace = explorer.trace(normed, R(64, 512), target="h100")
    assert trace.why("mean", "var").fused
    apart = trace.what_if(keep_apart=("mean", "var")).after
    why = apart.why("mean", "var")
    assert not apart.failures and not why.fused and why.rule == "vetoed"
    assert len(apart.kernels) == len(trace.kernels) + 1


def test_a_name_that_is_part_of_another_is_kept_apart_from_the_rest_of_it() -> None:
    """Lowering computes the division of a mean where the product is; the sum of the mean is another node, which `why` names."""
    trace = explorer.trace(lambda x: x * x.mean(-1, keepdim=True), R(64, 512), target="h100")
    assert trace.why("mean", "mul").fused
    apart = trace.what_if(keep_apart=("mean", "mul")).after
    why = apart.why("mean", "mul")
    assert not apart.failures and not why.fused and why.rule == "vetoed"
    assert len(apart.kernels) == len(trace.kernels) + 1


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"keep_apart": ("sin", "tan")}, ("keep_apart=", "not fused already", "sin", "tan", "no buffer in common")),
        ({"fuse": ("sin", "cos")}, ("fuse=", "one kernel already", "sin", "cos")),
    ],
)
def test_a_pair_that_is_as_asked_is_refused_with_the_reason(
    plain: Trace, given: dict[str, tuple[str, str]], facts: tuple[str, ...]
) -> None:
    """Another trace would show no difference, and say nothing of why; beside another change the pair may matter."""
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        plain.what_if(**given)  # type: ignore[arg-type]
    assert plain.what_if(**given, options={"max_fusion_size": 63}).same_code  # type: ignore[arg-type]


def test_a_change_in_how_library_calls_run_is_not_called_equal() -> None:
    """The CPU computes a product in float32 whatever TF32 is set to: nothing of the change was compared."""
    trace = explorer.trace(lambda x: torch.relu(x @ x), R(16, 16), target="h100")
    what = trace.what_if(settings={"torch.backends.cuda.matmul.allow_tf32": True})
    assert what.equal is None and what.same_code and not untold(what.note, "not checked", "library calls", "CPU")


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def test_what_if_without_a_pattern_a_pass_or_with_an_option(plain: Trace) -> None:
    """What is left out is not there any more; an option changes what it says; wrong names offer the nearest."""
    trace = explorer.trace(softmax, R(32, 64), target="h100")
    (pattern,) = {row["pattern"] for row in trace.inductor.matches}
    assert not trace.what_if(without_pattern=pattern).after.inductor.matches
    passes = [row["name"] for row in trace.inductor.passes.where(changed=True)]
    left = [row["name"] for row in trace.what_if(without_pass=passes[0]).after.inductor.passes.where(changed=True)]
    assert passes[0] not in left
    assert plain.what_if(options={"max_fusion_size": 1}).figure("groups")["change"] == 1
    for wrong, facts in (
        ({"without_pattern": "prepare_softmax"}, ("pattern", "'prepare_softmax'", "prepare_softmax_pattern")),
        ({"without_pass": "nothing"}, ("pass", "'nothing'")),
        ({"options": {"max_fusoin_size": 1}}, ("max_fusion_size",)),
        ({"keep_apart": ("sinn", "cos")}, ("'sinn'", "'sin'")),
        ({}, ("what_if", "keep_apart=", "fuse=", "without_pass=", "without_pattern=", "options=", "settings=")),
    ):
        with pytest.raises(explorer.errors.InputError, match=says(*facts)):
            (plain if "keep_apart" in wrong else trace).what_if(**wrong)  # type: ignore[arg-type]


def test_on_the_cpu_the_result_is_compared_and_both_are_timed() -> None:
    """Keeping nodes apart leaves the result equal: both compiled functions ran on the same inputs."""
    trace = explorer.trace(lambda x: (x.sin(), x.cos()), R(64), target="cpu")
    what = trace.what_if(keep_apart=("sin", "cos"))
    assert what.equal is True and what.note.startswith("equal") and len(what.check) == 2
    assert what.figure("groups")["change"] == 1 and what.figure("estimated_seconds")["before"] is None
    note = what.figure("estimated_seconds")["note"]
    assert not untold(note, "CPU", "measured_seconds") and note in repr(what)
    measured = what.figure("measured_seconds")
    assert measured["after"] > 0 and measured["spread"] > 0 and "spread" in measured["note"] and not what.same_code


def test_a_change_that_alters_no_code_is_not_timed() -> None:
    """Two runs of one code take different times by chance; an option may act when the code runs, so it is timed and noted."""
    trace = explorer.trace(lambda x: (x.sin(), x.cos()), R(64), target="cpu")
    same = trace.what_if(keep_apart=())
    assert same.same_code and same.equal is True and "alters none" in repr(same)
    with pytest.raises(explorer.errors.InputError):
        same.figure("measured_seconds")
    option = trace.what_if(options={"max_fusion_size": 63})
    assert option.same_code and option.figure("measured_seconds")["after"] > 0
