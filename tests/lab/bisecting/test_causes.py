"""The search for what brings a fault about: what does not compile says neither that the fault is there nor that it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from unittest import mock

import pytest
import torch

import explorer
from explorer.errors import CompileError
from explorer.lab.bisecting.causes import MAX_FAILED, Cause, cause_among
from tests.facts import untold

pytestmark = pytest.mark.compile


def searched(count: int, faulty: int, failing: Sequence[int]) -> tuple[Cause, list[int]]:
    """Search `count` applications of a pass, of which the one at `faulty` is at fault; the compiles with so many fail."""
    from torch._inductor.compiler_bisector import CompilerBisector

    tried: list[int] = []

    def attempt() -> bool | None:
        names = [f"pass {n}" for n in range(count)]
        applied = [not CompilerBisector.disable_subsystem("inductor", "post_grad_passes", lambda n=n: n) for n in names]
        tried.append(sum(applied))
        if sum(applied) in failing:
            raise CompileError("this many do not compile")
        return not applied[faulty]

    return cause_among(("post_grad_passes",), attempt), tried


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_the_application_at_fault_is_found_whichever_compiles_fail(count: int) -> None:
    """With the compile just before and just after the fault at hand it is named; else it is among those that are named."""
    for faulty, failed in product(range(count), ([], [1], [2], [1, 3], [2, 3, 4])):
        failing = [n for n in failed if 0 < n < count]
        cause, tried = searched(count, faulty, failing)
        candidates = cause.candidates or (cause.name,)
        assert f"pass {faulty}" in candidates and cause.kind == "post_grad_passes"
        assert set(tried) & set(failing) or not cause.candidates
        # an oracle: the neighbours that compile, with which it is right and wrong
        works = [n for n in range(count + 1) if n not in failing]
        low, high = max(n for n in works if n <= faulty), min(n for n in works if n > faulty)
        assert candidates == tuple(f"pass {n}" for n in range(low, high))
        assert cause.number == high


def test_a_search_that_mostly_fails_to_compile_ends() -> None:
    """After a dozen failed compiles it says among how many the fault is, and names no single one."""
    cause, tried = searched(1000, 700, range(1, 1000))
    assert len(cause.candidates) == 1000 and len(tried) == MAX_FAILED + 2
    assert not untold(str(cause), "1000", "pass 0", "pass 999", "compiles")


def test_nothing_is_blamed_where_nothing_can_be_told() -> None:
    """A call that compiles no second time is said to be so, and no part of the compiler is named."""

    def attempt() -> bool | None:
        raise CompileError("never")

    cause = cause_among(("lowerings", "post_grad_passes"), attempt)
    assert (cause.kind, cause.untold, cause.tried) == ("", 4, 4) and not untold(cause.note, "4", "judged")


def test_a_pass_without_which_nothing_compiles_is_not_blamed(faulty: Callable[[], explorer.Trace]) -> None:
    """The fault is in the lowering; switching the lowering off raises, and that does not count as right."""
    from torch._inductor import graph

    trace = faulty()

    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no fallback")

    with mock.patch.object(graph, "fallback_handler", lambda *args, **kwargs: refuse):
        result = trace.bisect()
    assert result.first is not None and result.cause.kind == "", result
    assert result.cause.untold and not untold(result.cause.note, str(result.cause.untold), "judged")


@pytest.fixture
def faulty() -> Iterator[Callable[[], explorer.Trace]]:
    """Give what traces a sine that is lowered to one that is off by a thousandth, while that is so."""
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops

    wrong = lowering.make_pointwise(lambda x: ops.mul(ops.sin(x), ops.constant(1.001, torch.float32)))
    with mock.patch.dict(lowering.lowerings, {torch.ops.aten.sin.default: wrong}):
        yield lambda: explorer.trace(lambda x: x.sin() + 1, torch.linspace(0, 3, 64), target="h100")
