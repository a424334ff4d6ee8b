"""The statement with which a wrapper defines a kernel, read from a recorded wrapper."""

from __future__ import annotations

import ast

import pytest

from explorer.capture.splice.definitions import definition_with
from explorer.errors import InputError
from tests.facts import says
from tests.stages.inductor.test_helion import WRAPPER

NAME = "triton_unk_fused_sin_1"


def test_a_wrapper_s_kernel_of_helion_s_is_not_replaced() -> None:
    """The error says what to do. A kernel of Inductor's has its definition, and a name that is not there another error."""
    with pytest.raises(InputError, match=says(NAME, "Helion", "change", "config=", "trace again")):
        definition_with(WRAPPER, NAME)
    assert "async_compile.triton('sine'" in ast.unparse(definition_with(WRAPPER, "sine"))
    with pytest.raises(InputError, match=says("'nothing'", "output code")):
        definition_with(WRAPPER, "nothing")
