"""The kernels that a wrapper defines are found without its calls being parsed."""

from __future__ import annotations

import ast

import pytest

from explorer.model.values import Event
from explorer.stages.inductor import definitions

DEFINED = (
    "first = async_compile.triton('first', '''\ndef first(): ...\n''')\n\n\nasync_compile.wait(globals())\ndel async_compile\n"
)


def names(wrapper: str) -> list[str]:
    """The names of the kernels of a wrapper."""
    event = Event("output_code", 0.0, data={"text": wrapper, "file": ""})
    return [str(kernel.data["name"]) for kernel in definitions.kernel_events(event)]


@pytest.mark.parametrize(
    ("wrapper", "kernels"),
    [
        (f"{DEFINED}def call(args):\n    first.run(1)\n", ["first"]),
        (f"{DEFINED}second = async_compile.triton('second', 'def second(): ...')\n", ["first", "second"]),
        (DEFINED.replace("def first(): ...", "\nasync_compile.wait(globals())\n"), ["first"]),
        (DEFINED.partition("async_compile.wait")[0], ["first"]),
    ],
    ids=["calls behind", "one defined behind", "the words inside a kernel", "none waited for"],
)
def test_every_kernel_is_found_wherever_it_is_defined(wrapper: str, kernels: list[str]) -> None:
    """Inductor defines them before it waits for them; where it did not, the whole wrapper is read."""
    assert names(wrapper) == kernels


def test_the_calls_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are most of a wrapper, and the kernels are found while the program compiles."""
    trees: list[ast.Module] = []
    parsed = definitions.parsed
    monkeypatch.setattr(definitions, "parsed", lambda text: trees.append(parsed(text)) or trees[-1])
    names(f"{DEFINED}def call(args):\n    first.run(1)\n")
    assert not any(isinstance(node, ast.FunctionDef) for tree in trees for node in ast.walk(tree))
