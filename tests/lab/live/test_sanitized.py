"""Sanitized: what `t.sanitize()` says of generated and of hand-written kernels, and what it does not call clean."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explorer
from explorer.capture.interpret import accesses
from explorer.errors import InputError, NoVerbError

triton = pytest.importorskip("triton")

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]
tl: Any = triton.language


@triton.jit
def plus_one(x, out, n, BLOCK: tl.constexpr):
    """out = x + 1, without a mask on the store."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(out + i, value + 1)


@triton.jit
def first(out, BLOCK: tl.constexpr):
    """Every program writes the same ones."""
    tl.store(out + tl.arange(0, BLOCK), 1.0)


def half_written(x: torch.Tensor) -> torch.Tensor:
    """The kernel writes 64 of the 100 elements that are read."""
    out = torch.empty_like(x)
    plus_one[(1,)](x, out, 64, BLOCK=64)
    return out * 2


def several(x: torch.Tensor, w: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Reductions, a matrix product, a scatter with an atomic, a scan and a transpose: right programs."""
    hidden = torch.nn.functional.gelu(x @ w)
    normal = torch.layer_norm(hidden, (hidden.shape[-1],))
    return normal.index_add(0, index, hidden).cumsum(0), torch.cat([hidden, x], 1).amax(), normal.t().contiguous()


def test_an_overrun_of_a_hand_written_kernel_has_its_line_and_programs() -> None:
    """A store without a mask is found where it is written, and the user's tensors stay as they are."""
    out = torch.zeros(100)
    t = explorer.trace(plus_one, torch.ones(100), out, 100, BLOCK=64, grid=(2,), target="h100", sass=False)
    found = t.sanitize()
    (row,) = found.table
    line = t.kernels[0].artifact.lines[row["line"] - 1]
    assert (row["kind"], row["argument"], row["element"], row["program"]) == ("outside", "out", 100, (1, 0, 0))
    assert (row["count"], line.strip()) == (28, "tl.store(out + i, value + 1)")
    assert row["user_lines"][0].startswith("test_sanitized.py:")
    assert not found.clean
    assert "1 finding: 1 launch, 2 programs" in repr(found)
    assert not out.any()


def test_equal_writes_are_a_harmless_row() -> None:
    """Programs that write the same value are said, and do not make a trace unclean."""
    t = explorer.trace(first, torch.zeros(8), BLOCK=8, grid=(4,), target="h100", sass=False)
    found = t.sanitize()
    (row,) = found.table
    assert (row["kind"], row["harmless"], found.clean) == ("write-write", True, True)
    assert "both write the same value" in repr(found)


def test_a_generated_kernel_that_reads_unwritten_memory_leads_to_the_users_line() -> None:
    """What a user's kernel leaves unwritten is found in the generated kernel that reads it."""
    found = explorer.trace(half_written, torch.ones(100), target="h100").sanitize()
    (row,) = found.table
    assert (row["kind"], row["element"], row["count"], row["launch"]) == ("uninitialized", 64, 36, 2)
    first_line = half_written.__code__.co_firstlineno
    assert row["user_lines"] == (f"test_sanitized.py:{first_line + 4}",)


def test_generated_kernels_of_right_programs_are_clean() -> None:
    """Every launch is looked at and there is no row: no false alarm."""
    t = explorer.trace(several, torch.randn(64, 64), torch.randn(64, 64), torch.arange(64) % 7, target="h100", train=False)
    found = t.sanitize()
    assert found.table == ()
    assert found.clean
    assert {row["kernel"] for row in found.launches} == {kernel.name for kernel in t.kernels}
    assert "not looked at: 1 library call: only Triton kernels are watched" in repr(found)


def test_a_call_that_ends_is_not_clean() -> None:
    """A kernel whose programs wait for one another ends the call: its launch says why, and nothing is clean."""
    found = explorer.trace(lambda x: x.cumsum(0), torch.rand(100_000), target="h100").sanitize()
    assert (found.clean, [row["complete"] for row in found.launches]) == (False, [False])
    assert "waits for another program" in repr(found)
    assert repr(found).endswith("what comes after launch 1: the call ended there")


def test_what_was_not_looked_at_is_not_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that is too large is a row that is not complete, with why, and the trace is not clean."""
    t = explorer.trace(first, torch.zeros(8), BLOCK=8, grid=(1,), target="h100", sass=False)
    assert t.sanitize().clean
    monkeypatch.setattr(accesses, "MAX_BYTES", 16)
    found = t.sanitize()
    assert (found.clean, found.table) == (False, ())
    assert [row["complete"] for row in found.launches] == [False]
    assert "nothing found in what was looked at: 0 launches" in repr(found)
    assert "trace with smaller inputs" in repr(found)


def test_a_trace_without_interpreted_kernels_says_what_to_do() -> None:
    """Kernels for the CPU are refused with another way, and a limit is kept before anything runs."""
    x = torch.ones(8)
    with pytest.raises(NoVerbError, match="target='h100'"):
        explorer.trace(torch.sin, x, backend="aot_eager").sanitize()
    t = explorer.trace(first, x, BLOCK=8, grid=(4,), target="h100", sass=False)
    with pytest.raises(InputError, match="more than the limit of 0 s"):
        t.sanitize(0)
    with pytest.raises(InputError, match="limit is a number"):
        t.sanitize("1")  # type: ignore[arg-type]
