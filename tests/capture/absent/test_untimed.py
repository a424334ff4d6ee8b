"""What Inductor decides by running something on a GPU that is not attached."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from explorer.capture.absent.generated import Code, Wrappers
from explorer.capture.absent.target import named_gpu
from explorer.capture.absent.untimed import _workspaces
from explorer.capture.interpret.interpreter import interpreting
from explorer.capture.observe.patch import Guard, guarding
from explorer.capture.observe.versions import requests_with_workspace
from explorer.errors import InputError

pytest.importorskip("triton")


def test_a_template_is_not_run_to_learn_its_workspace() -> None:
    """The workspace of a CUTLASS or CK template counts as empty, the assumption is told, and torch is then as it was."""
    requests = list(requests_with_workspace())
    before = [request.update_workspace_size for request in requests]
    told: list[tuple[str, str]] = []
    with guarding(Guard()), _workspaces(lambda where, assumed, why: told.append((where, assumed))):
        for request in requests:
            request.update_workspace_size(SimpleNamespace(kernel_name=f"of {request.__name__}"))
    assert len(requests) == 2  # CUTLASS's and CK's
    assert told == [(f"of {request.__name__}", "a workspace of 0 bytes") for request in requests]
    assert [request.update_workspace_size for request in requests] == before


@pytest.mark.parametrize("method", ["cuda", "rocm", "cutedsl"])
def test_a_check_says_that_a_template_in_another_language_runs_only_on_its_gpu(method: str) -> None:
    """The code is not executed, which would start nvcc or hipcc: the error names the kernel and what to trace instead."""
    code = Code(f"product_0 = async_compile.{method}(r'''\nint k();\n''')\n", "code.py", named_gpu("h100"), {}, {})
    said = re.escape("product_0 is made of a template in another language than Triton and runs only on its GPU")
    with guarding(Guard()), interpreting(None) as interpreter, pytest.raises(InputError, match=said):
        Wrappers(interpreter).space(code)
