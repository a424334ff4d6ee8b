"""Conditions on what only the data knows, read from torch's messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.analysis.questions.data_dependent import data_dependent, symbols_of_condition
from explorer.model.records import blank
from explorer.stages.dynamo.symbol import Symbol

#: torch 2.13's message, of the condition put in for {}.
MESSAGE = """Could not guard on data-dependent expression {0} (unhinted: {0}).  (Size-like symbols: none)

Caused by: if n > 3:  # f.py:5 in f (_dynamo/variables/tensor.py:2606 in evaluate_expr)

User Stack (most recent call last):
  (snipped, see stack below for prefix)
  File "/a/f.py", line 5, in f
    if n > 3:
       ^^^^^

For C++ stack trace, run with TORCHDYNAMO_EXTENDED_DEBUG_CPP=1
"""


def made(symbol: str, code: str, source: str = "data", line: int = 3) -> Symbol:
    return replace(blank(Symbol), what="created", symbol=symbol, source=source, file="/a/f.py", line=line, code=code)


@pytest.mark.parametrize(
    ("expression", "code", "checks"),
    [
        ("u0 > 3", "n = x.item()", ("n > 3", "n <= 3")),
        ("Eq((u0//2), 1)", "n = int(x[0])", ("n // 2 == 1", "n // 2 != 1")),
        ("Eq(PythonMod(u0, 4), 0)", "n = x.item()", ("n % 4 == 0", "n % 4 != 0")),
        ("u0 < 2", "z = x.nonzero()", ("z.shape[0] < 2", "z.shape[0] >= 2")),
        ("u0 < 2", "z = y[:n]", ("z.shape[0] < 2", "z.shape[0] >= 2")),
        ("Ne(Min(8, u0), 2)", "n = x.item()", ("min(8, n) != 2", "min(8, n) == 2")),
    ],
)
def test_a_condition_is_written_in_the_names_of_the_program(expression: str, code: str, checks: tuple[str, ...]) -> None:
    """The checks state the condition and its opposite in Python, with the variable that the line of the number assigns."""
    asked = data_dependent(MESSAGE.format(expression), [made("u0", code)])
    assert asked is not None and (asked.file, asked.line, asked.code) == ("/a/f.py", 5, "if n > 3:")
    assert asked.checks == tuple(f"torch._check({check})" for check in checks)
    assert checks[0] in asked.sentence and f"f.py:3, `{code}`" in asked.sentence


def test_several_numbers_of_one_line_have_each_its_name() -> None:
    """`a, b = x.tolist()` names the numbers in their order, and a dynamic size is named by its tensor."""
    both = [made(symbol, "a, b = x.tolist()") for symbol in ("u0", "u1")]
    asked = data_dependent(MESSAGE.format("Eq(u0, u1)"), both)
    assert asked is not None and asked.checks[0] == "torch._check(a == b)"
    sized = data_dependent(MESSAGE.format("u1 < s0"), [*both, made("s0", "", "L['y'].size()[1]", line=1)])
    assert sized is not None and sized.checks[0] == "torch._check(b < y.shape[1])"


@pytest.mark.parametrize("code", ["if x.item() > 3:", "n = x.item() + 1", "n, m = x.shape[0], x.item()", "n = (x.item(),"])
def test_a_number_without_a_name_has_no_check(code: str) -> None:
    """Where the line assigns something else than the number no name is guessed, and the advice says to give it one."""
    asked = data_dependent(MESSAGE.format("u0 > 3"), [made("u0", code)])
    assert asked is not None and not asked.checks and asked.written == "u0 > 3"
    assert "on a line of its own" in asked.remedy


def test_a_number_that_torch_needs_itself_has_no_check() -> None:
    """No condition gives the rounds of a loop."""
    message = MESSAGE.replace("guard on", "extract specialized integer from").format("u0")
    asked = data_dependent(message, [made("u0", "n = x.item()")])
    assert asked is not None and not asked.checks and "n, which depends on the data" in asked.sentence
    assert "needs the number itself" in asked.remedy


def test_the_last_frame_that_made_the_numbers_is_meant() -> None:
    """Frames count their numbers anew; a message of another error names none."""
    first, last = [made("u0", "n = x.item()")], [made("u0", "m = x.item()")]
    assert symbols_of_condition(MESSAGE.format("u0 > 3"), [first, last, []]) == last
    assert not symbols_of_condition(MESSAGE.format("u0 > u1"), [first, last])
    assert data_dependent("RuntimeError: something else", first) is None
