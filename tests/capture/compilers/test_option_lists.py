"""Options that are lists of texts: one text alone is refused before the compiler is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from explorer.capture.compilers.iree.backend import iree_backend
from explorer.capture.compilers.option_lists import texts_of
from explorer.capture.compilers.tvm.backend import tvm_backend
from explorer.capture.compilers.xla.backend import xla_backend
from explorer.errors import InputError
from tests.facts import says


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (iree_backend, "flags"),
        (iree_backend, "targets"),
        (iree_backend, "after_passes"),
        (tvm_backend, "targets"),
        (tvm_backend, "after_passes"),
        (xla_backend, "flags"),
    ],
)
def test_one_text_alone_is_refused(backend: Callable[..., Any], name: str) -> None:
    """Its characters would be taken for flags or names."""
    with pytest.raises(InputError, match=says(repr(name), "list", "['cse']")):
        backend(None, {name: "cse"})


def test_every_text_is_taken() -> None:
    """Texts of any collection are taken; without the option there are none."""
    assert texts_of({"flags": ["a", "b"]}, "flags") == ("a", "b") == texts_of({"flags": ("a", "b")}, "flags")
    assert texts_of({}, "flags") == ()
