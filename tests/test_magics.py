"""`%%explore` and `%explore` in an IPython shell."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import explorer
from explorer.entry.magics import evaluated
from tests.facts import untold

#: A cell with a function of its own and a magic.
CELL = """%%explore --into kept
@torch.compile(backend="eager")
def g(a):
    return a.sin()
folder = %pwd
g(x)
"""


@pytest.fixture(scope="module")
def whole_shell() -> Iterator[InteractiveShell]:
    """One IPython shell without history or colours, with the magics loaded as a notebook loads them."""
    shell = InteractiveShell(colors="nocolor", history_load_length=0)
    shell.history_manager.enabled = False  # type: ignore[union-attr]
    shell.run_line_magic("load_ext", "explorer")
    yield shell
    shell.history_manager.end_session()  # type: ignore[union-attr]
    # what IPython does at exit empties the namespace before Dynamo's weak references to it, which torch 2.13 reports on stderr
    atexit.unregister(shell.atexit_operations)


@pytest.fixture
def shell(whole_shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    """The shell with torch, x and f, a function compiled through Dynamo alone."""
    for name in ("_trace", "kept"):
        whole_shell.user_ns.pop(name, None)
    torch.compiler.reset()
    x = torch.ones(3)
    whole_shell.user_ns.update(torch=torch, x=x, f=torch.compile(lambda a: a * 2 + 1, backend="eager"))
    return whole_shell


def run(shell: InteractiveShell, cell: str) -> tuple[Any, str]:
    """Run a cell as the notebook does; return its result and all text that was shown."""
    with capture_output() as captured:
        result = shell.run_cell(cell)
    return result, captured.stdout + "".join(str(output.data["text/plain"]) for output in captured.outputs)


@pytest.mark.compile
def test_the_cell_runs_in_the_users_namespace_and_its_trace_is_shown(shell: InteractiveShell) -> None:
    """Names of the cell stay, what it prints is shown, then the trace, which `_trace` holds."""
    result, shown = run(shell, "%%explore\ny = f(x)\nprint('ran', y.tolist())")
    result.raise_error()
    assert shell.user_ns["y"].tolist() == [3.0, 3.0, 3.0]
    trace = shell.user_ns["_trace"]
    assert isinstance(trace, explorer.Trace)
    assert len(trace.find("dynamo")) == 1
    assert shown == f"ran [3.0, 3.0, 3.0]\n{trace!r}\n"


@pytest.mark.compile
def test_a_function_defined_in_the_cell_has_its_source(shell: InteractiveShell) -> None:
    """Dynamo finds the lines of a function that only the cell defines, magics in the cell work."""
    run(shell, CELL)
    assert shell.user_ns["kept"].text("source").splitlines()[1:] == ["def g(a):", "    return a.sin()"]
    assert isinstance(shell.user_ns["folder"], str)
    assert "_trace" not in shell.user_ns


@pytest.mark.compile
@pytest.mark.parametrize(("last", "shown"), [("x.sum()", True), ("x.sum();", False), ("z = x.sum()", False)])
def test_the_last_expression_is_displayed_as_in_any_cell(shell: InteractiveShell, last: str, shown: bool) -> None:
    """An expression shows its value; one with a semicolon, or a statement, shows nothing."""
    _, text = run(shell, f"%%explore\nf(x)\n{last}")
    assert ("tensor(3.)" in text) is shown


@pytest.mark.compile
def test_an_error_of_the_cell_goes_through_and_the_trace_is_kept(shell: InteractiveShell) -> None:
    """The cell fails with its own error, shown without explorer's frames; the variable holds what was compiled before it."""
    result, shown = run(shell, "%%explore --into kept\nf(x)\n1 / 0\n")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "1 / 0" in shown and "magics.py" not in shown
    assert len(shell.user_ns["kept"].find("dynamo")) == 1


@pytest.mark.compile
def test_a_cell_that_does_not_parse_is_a_syntax_error(shell: InteractiveShell) -> None:
    """As in any cell; the recording has ended, so that the next cell can record."""
    result, _ = run(shell, "%%explore\nprint(1\n")
    assert isinstance(result.error_in_exec, SyntaxError)
    result, _ = run(shell, "%%explore\nf(x)")
    result.raise_error()


@pytest.mark.compile
@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("--target nowhere", explorer.errors.InputError, "unknown target 'nowhere'"),
        ("--into 1x", UsageError, "--into takes the name of a variable, not '1x'"),
        ("--bogus", UsageError, "unrecognized arguments: --bogus"),
    ],
)
def test_an_option_that_cannot_be_is_said_before_the_cell_runs(
    shell: InteractiveShell, line: str, error: type[Exception], message: str
) -> None:
    """Nothing of the cell runs then."""
    result, _ = run(shell, f"%%explore {line}\nkept = 1")
    assert isinstance(result.error_in_exec, error)
    assert message in str(result.error_in_exec)
    assert "kept" not in shell.user_ns


@pytest.mark.compile
def test_the_line_magic_is_explorer_trace(shell: InteractiveShell) -> None:
    """`t = %explore g(x, scale=2)` is the live trace of that call, through Inductor, compiled afresh each time."""
    shell.user_ns["g"] = lambda a, scale: torch.cos(a) * scale
    result, _ = run(shell, "first = %explore g(x, scale=2)\nkept = %explore --target cpu g(x, scale=2)")
    result.raise_error()
    first, again = shell.user_ns["first"], shell.user_ns["kept"]
    assert torch.allclose(first.live.result, torch.cos(torch.ones(3)) * 2)
    assert [k.name for k in first.kernels] == [k.name for k in again.kernels] != []
    assert shell.user_ns["_trace"] is again


def test_every_form_of_argument_is_evaluated_once_and_the_function_not_called() -> None:
    """Positions, stars, keywords and double stars are those that the call would have; quoted text and braces stay as they are."""

    def function(*args: object, **kwargs: object) -> None:
        raise AssertionError("called")

    names = {"space": {"f": function}, "more": [2, 3], "options": {"b": "x  y"}}
    text = "space['f'](1, *more, {'k  k': 4}, a=[n for n in more], **options)"
    assert evaluated(text, names) == (function, (1, 2, 3, {"k  k": 4}), {"a": [2, 3], "b": "x  y"})
    assert set(names) - {"__builtins__"} == {"space", "more", "options"}


@pytest.mark.compile
@pytest.mark.parametrize("line", ["", "x", "x + f(x)", "--target cpu"])
def test_a_line_that_is_no_call_is_refused(shell: InteractiveShell, line: str) -> None:
    """The error says what to write."""
    result, _ = run(shell, f"%explore {line}")
    assert isinstance(result.error_in_exec, UsageError)
    assert not untold(str(result.error_in_exec), "call", "%explore f(x)")


@pytest.mark.compile
def test_the_help_names_the_options(shell: InteractiveShell) -> None:
    """`%explore?` shows the text that IPython's magic_arguments makes."""
    help_text = shell.magics_manager.magics["line"]["explore"].__doc__ or ""
    assert "--target" in help_text and "--into" in help_text
