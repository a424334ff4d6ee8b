"""The call that was meant, written from the source of the call that was made."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import explorer
from explorer.tracing.recording.call_site import call_under_way, with_arguments_apart, with_inner_call_opened

pytest.importorskip("torch")


def opened(*args: Any, **kwargs: Any) -> tuple[str, str]:
    return with_inner_call_opened(call_under_way(sys._getframe(1)))


def apart(*args: Any, **kwargs: Any) -> str:
    return with_arguments_apart(call_under_way(sys._getframe(1)))


def f(*args: Any, **kwargs: Any) -> int:
    return 1


def test_a_call_in_the_place_of_the_function_is_opened() -> None:
    """Its arguments stand behind the function, its keywords in kwargs; what was given besides stays."""
    x = y = 1
    assert opened(f(x)) == ("f(x)", "opened(f, x)")
    # fmt: off
    assert opened(
        f(x, "ä", k=y),
        2, train=True,
    ) == ("f(x, 'ä', k=y)", "opened(f, x, 'ä', 2, train=True, kwargs={'k': y})")
    # fmt: on
    assert opened(x) == opened() == ("", "")


def test_a_call_that_only_makes_an_input_is_left_closed() -> None:
    """As `torch.randn(4)` with its constants: the function is what is missing."""
    assert opened(f(4, k="b"), train=True) == ("f(4, k='b')", "opened(f, f(4, k='b'), train=True)")


def test_arguments_in_a_tuple_are_written_one_by_one() -> None:
    """A name of several is unpacked; other calls are left alone."""
    x = y = 1
    both = (x, y)
    assert apart(f, (x, y), train=True) == "apart(f, x, y, train=True)"
    assert apart(f, [x]) == "apart(f, x)" and apart(f, both) == "apart(f, *both)"
    assert apart(f) == apart(f, *both) == apart(f, x, y) == ""


def test_without_its_source_no_call_is_guessed() -> None:
    """As of code that was typed into a plain interpreter."""
    space: dict[str, Any] = {"opened": opened, "f": f}
    exec("x = 1; found = opened(f(x))", space)
    assert space["found"] == ("", "")


@pytest.mark.parametrize("verb", [explorer.trace, explorer.vary])
def test_a_call_that_was_made_too_early_is_written_as_it_was_meant(verb: Any) -> None:
    """So do `trace` and `vary` of a result; `trace()` says what belongs in it."""
    x = 2
    with pytest.raises(explorer.errors.InputError) as caught:
        verb(f(x), target="h100")
    assert str(caught.value).endswith("not the int that f(x) returned: write verb(f, x, target='h100')")
    with pytest.raises(explorer.errors.InputError, match=r"write explorer\.trace\(f, x\)"):
        explorer.trace()
