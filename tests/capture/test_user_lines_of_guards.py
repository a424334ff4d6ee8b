"""Guards that a module of torch's reads have the line of the program that calls the module."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import explorer
from explorer.analysis.questions.guard_facts import guard_facts


@pytest.mark.compile
def test_a_layer_s_guards_name_the_call_of_the_layer() -> None:
    """The innermost line outside of torch is the reason, and torch's own line is kept."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.conv(images).relu()

    trace = explorer.trace(Net(), torch.randn(2, 3, 8, 8), backend="eager")
    (guards,) = trace.find("guards")
    (fact,) = (fact for fact in guard_facts(guards.data.rows) if fact["fact"].startswith("images: float32"))
    assert fact["code"] == "return self.conv(images).relu()" and "test_user_lines" in fact["place"]
    assert fact["inside"].startswith("conv.py:")


@pytest.mark.compile
def test_a_guard_on_an_argument_names_the_line_that_passes_it_to_a_library(tmp_path: Path) -> None:
    """A library reads an argument first: the guard, its text and its link name the program's line, and keep the library's."""
    import torch

    file = tmp_path / "site-packages" / "library.py"
    file.parent.mkdir()
    file.write_text("def scaled(values):\n    rows = values.shape[0]\n    return values * rows\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("library", file)
    assert spec is not None and spec.loader is not None
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)

    def program(images: torch.Tensor) -> torch.Tensor:
        return library.scaled(images) + 1

    trace = explorer.trace(program, torch.randn(2, 3), backend="eager")
    (guards,) = trace.find("guards")
    (fact,) = (fact for fact in guard_facts(guards.data.rows) if fact["fact"].startswith("images: float32"))
    code = "return library.scaled(images) + 1"
    assert fact["code"] == code and fact["inside"].startswith("library.py:")
    number = next(n for n, row in enumerate(guards.data.rows, 1) if row.kind == "TENSOR_MATCH")
    assert guards.lines[number - 1].endswith(f"# {code}")
    sources = {a.id: a for a in trace.find("source")}
    (link,) = (link for link in trace.links if link.source == guards.id and number in link.source_lines)
    assert code in sources[link.target].lines[link.target_lines[0] - 1]
