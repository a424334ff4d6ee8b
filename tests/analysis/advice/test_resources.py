"""Innermost loops of C++ kernels: how often each runs, and whether on vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from explorer.analysis.advice.call_cost import TracedCall
from explorer.analysis.advice.resources import loops, scalar
from explorer.tracing.traced import Trace
from tests.facts import untold

HEAD = "for(int64_t {v}=static_cast<int64_t>({low}L); {v}<static_cast<int64_t>({high}L); {v}+=static_cast<int64_t>({step}L))"
KERNEL = f"""\
    {HEAD.format(v="x0", low=0, high=6, step=1)}
    {{
        {HEAD.format(v="x1", low=0, high=64, step=16)}
        {{
            auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x1 + 70L*x0), static_cast<int64_t>(16));
        }}
        {HEAD.format(v="x1", low=0, high=70, step=1)}
        {{
            auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + 70L*x0)];
        }}
    }}
    {HEAD.format(v="x0", low=0, high=32, step=16)}
    {{
        for (int i = 0; i < static_cast<int64_t>(16); i++)
        {{
            tmpbuf_out[i] = bessel_j1_forward(tmpbuf0[i]);
        }}
        at::vec::Vectorized<float>::loadu(tmpbuf_out.data(), static_cast<int64_t>(16));
    }}
"""


def test_loops_are_counted_with_those_around_them() -> None:
    """A loop inside another runs as often as both say; a step of a vector counts once."""
    first, second, third = loops(KERNEL)
    assert (first.runs, first.vectors, second.runs, second.vectors) == (24, True, 420, False)
    assert (third.runs, third.vectors, third.lanes) == (2, True, ("bessel_j1_forward",))
    assert KERNEL.splitlines()[second.line - 1].strip().startswith("for(int64_t x1")


@pytest.mark.parametrize(
    ("statement", "why", "remedy"),
    [
        ("auto tmp0 = c10::complex<float>(in_ptr0[0], 0);", "complex", "imaginary"),
        ("auto tmp0 = randn_cpu(seed, 0);", "random", "outside"),
        ("atomic_add(&out_ptr0[0], tmp0);", "add", "one-hot"),
        ("auto tmp0 = in_ptr0[0];", "no reason", "dtype"),
    ],
)
def test_a_loop_without_vectors_says_why_and_what_to_do(
    statement: str, why: str, remedy: str, replayed: Callable[[str], Trace]
) -> None:
    """What C++ names in the loop is the reason; where it names none, Inductor gave none."""
    recorded = replayed("sin_cos-torch2.13-cpu")
    loop = f"{HEAD.format(v='x0', low=0, high=64, step=1)}\n{{\n    {statement}\n}}\n"
    artifacts = tuple(replace(a, text=loop) if a.stage == "kernel" else a for a in recorded.artifacts)
    (verdict,) = scalar(TracedCall(replace(recorded, artifacts=artifacts)))
    assert verdict.kind == "not vectorised" and not untold(verdict.title, "64")
    assert not untold(verdict.evidence, "line 1", "at::vec", why) and not untold(verdict.remedy, remedy)
