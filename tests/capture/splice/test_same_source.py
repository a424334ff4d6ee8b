"""Whether two texts are one program: only comments and blanks may differ."""

from __future__ import annotations

import pytest

from explorer.capture.splice.kernels import KernelText
from explorer.capture.splice.same_source import same_program

CPP = 'void f(float* x) {\n    x[0] = 1.0;\n    auto s = "a // b";\n}\n'
TRITON = "def f(x):\n    y = x + 1\n    return y\n"


@pytest.mark.parametrize(
    ("language", "before", "after", "is_same"),
    [
        ("cpp", "1.0;", "1.0; // one", True),
        ("cpp", "1.0;", "/* one\ntwo */ 1.0;", False),
        ("cpp", "    x[0]", "\n        // it's\nx[0]", True),
        ("cpp", "1.0;", "2.0;", False),
        ("cpp", "a // b", "a // c", False),
        ("cpp", "1.0;", "1.0; /* // */ x[1] = 2.0;", False),
        ("cpp", "1.0;", "1.0; // one \\\nx[1] = 2.0;", True),
        ("triton", "x + 1", "(x + 1)  # one", True),
        ("triton", "    return", "\n    # more\n    return", True),
        ("triton", "x + 1", "x + 2", False),
        ("triton", "x + 1", "x +", False),
        ("halide", "x + 1", "x + 1  # one", False),
    ],
)
def test_only_comments_and_blanks_may_differ(language: str, before: str, after: str, is_same: bool) -> None:
    """A literal that looks like a comment is none, code behind a comment counts, and what cannot be read is another text."""
    text = CPP if language == "cpp" else TRITON
    assert before in text
    one, other = (KernelText(source, "", "f", language) for source in (text, text.replace(before, after)))
    assert same_program(other, one) is is_same and same_program(one, one)


def test_a_form_below_the_source_is_not_compared() -> None:
    """Its source is the original's, whatever the form says."""
    one = KernelText(TRITON, "", "f", "triton")
    assert not same_program(KernelText(TRITON, "", "f", "triton", form="ptx", form_text="other"), one)
