"""C that a learner's compiler wrote, run apart: what it computes, and what it says where it fails."""

from __future__ import annotations

import shutil

import pytest

from explorer.errors import CompileError
from explorer.workshop.quiz.run_c import run_c

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]
RUN = "void run(float **in, float **out) {{ {body} }}"


def test_results_have_the_shapes_that_are_expected() -> None:
    """Two inputs and two outputs, one of them a single number, arrive in their order."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([[5.0]])
    c = RUN.format(body="for (int i = 0; i < 2; i++) out[0][i] = in[0][i] - in[1][0]; out[1][0] = in[1][0] * 2;")
    difference, double = run_c(c, [x, y], (x, y))
    assert torch.equal(difference, x - 5) and torch.equal(double, y * 2)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("nothing", "does not compile: .*nothing"),
        ("for (;;) in[0][0] += 1;", "more than 0.5 s"),
        ("abort();", "ended with status"),
        ('puts("hello");', "does it print"),
    ],
)
def test_c_that_fails_says_how(body: str, why: str) -> None:
    """Text that does not compile, never ends, breaks its process or prints is a CompileError, and this process goes on."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.ones(2)
    with pytest.raises(CompileError, match=why):
        run_c(f"#include <stdio.h>\n{RUN.format(body=body)}", [x], (x,), patience=0.5)
