"""Backends: what is registered and whether it runs here, found out by trying."""

from __future__ import annotations

import explorer
from explorer.compilers.backend import is_module_compiler, registered


def test_backends_are_tried() -> None:
    """A backend that works says so; one that cannot run here says why, in its own words."""
    rows = {row["backend"]: row for row in explorer.backends(["eager", "openxla"])}
    assert rows["eager"] == {"backend": "eager", "works": True, "why": ""}
    assert not rows["openxla"]["works"]
    assert "torch_xla" in rows["openxla"]["why"]


def test_every_registered_backend_is_known() -> None:
    """Debugging backends are listed too."""
    assert {"inductor", "eager", "aot_eager"} <= set(registered())


def test_a_backend_that_does_not_answer_is_given_up() -> None:
    """A trial has a time limit and says that it ran out."""
    (row,) = explorer.backends(["eager"], timeout=0.01)
    assert row["works"] is False
    assert "no answer in 0.01 s" in row["why"]


def test_module_compilers_are_told_from_backends() -> None:
    """One required parameter is a compiler of modules; two are a backend; a name is neither."""
    assert is_module_compiler(lambda module: module)
    assert not is_module_compiler(lambda graph, inputs: graph)
    assert not is_module_compiler(lambda *args: args)
    assert not is_module_compiler("inductor")
