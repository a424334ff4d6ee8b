"""Which functions under torch.compiler.disable are the program's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from explorer.capture.absent.disabled_functions import _is_plainly_torchs, disabled_functions, is_of_program


def own(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


class Own(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


def wrapped_by_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """What torch's own decorator makes of a function: it stands in torch, and wraps the function."""
    from torch.utils._stats import count

    return count(function)


@pytest.mark.parametrize(
    ("function", "is_the_programs"),
    [
        (own, True),
        (wrapped_by_torch(own), True),
        (wrapped_by_torch(wrapped_by_torch(own)), True),
        (Own().forward, True),
        (torch.nn.Linear(1, 1).forward, False),
        (torch.nn.functional.gelu, False),
        (torch.nn.functional.dropout, False),
        (wrapped_by_torch(torch.nn.functional.dropout), False),
        (functools.partial(own), False),
    ],
    ids=["own", "wrapped", "wrapped twice", "forward", "torch's forward", "builtin", "torch's", "torch's wrapped", "partial"],
)
def test_the_quick_way_agrees(function: Any, is_the_programs: bool) -> None:
    """Whatever is torch's by the quick way is so by the long one; a function that torch merely wraps is the program's."""
    assert is_of_program(function) == is_the_programs
    assert not (_is_plainly_torchs(function) and is_the_programs)


def test_what_torch_disables_most_is_known_the_quick_way() -> None:
    """Functions of torch, also wrapped by torch; one that wraps itself is left to the long way."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    assert _is_plainly_torchs(torch.nn.functional.dropout)
    assert _is_plainly_torchs(wrapped_by_torch(torch.nn.functional.dropout))
    assert _is_plainly_torchs(FakeTensorMode.__torch_dispatch__)

    def endless() -> None: ...

    endless.__wrapped__ = endless  # type: ignore[attr-defined]
    assert not _is_plainly_torchs(endless)


def test_what_begins_ends_also_inside_another_and_with_an_error() -> None:
    """Each of the program's functions under way ends once, before Dynamo goes on; torch's own are left out."""
    from torch._dynamo import eval_frame

    log: list[str] = []

    def begin() -> Callable[[], None]:
        number = sum(entry.startswith("begin") for entry in log)
        log.append(f"begin {number}")
        return lambda: log.append(f"end {number}")

    @torch.compiler.disable
    def inner(*, fail: bool) -> None:
        log.append("inner")
        if fail:
            raise ValueError("the program's own")

    @torch.compiler.disable
    def outer(*, fail: bool) -> None:
        inner(fail=fail)
        log.append("outer")

    own = eval_frame._maybe_set_eval_frame
    both = ["begin 0", "begin 1", "inner", "end 1", "outer", "end 0"]
    with disabled_functions(begin):
        torch.compiler.disable(torch.nn.functional.dropout)(torch.ones(2))
        assert not log
        outer(fail=False)
        assert log == both
        assert eval_frame._maybe_set_eval_frame is own  # ten thousand of torch's own functions call it in a compile
        log.clear()
        with pytest.raises(ValueError, match="own"):
            outer(fail=True)
        assert log == ["begin 0", "begin 1", "inner", "end 1", "end 0"]
    log.clear()
    outer(fail=False)
    assert log == ["inner", "outer"]
