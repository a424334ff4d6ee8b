"""Who changed a setting of the compiler: explorer, the program, or torch.compile."""

from __future__ import annotations

import pytest

from explorer.capture.observe.settings import set_by


@pytest.mark.parametrize(("where", "setter"), [("frame", "the program"), ("graph", "explorer")])
def test_one_compile_thread_is_explorers_only_while_a_graph_compiles(where: str, setter: str) -> None:
    """Explorer sets it for an absent GPU then; when a frame begins it is what the program set."""
    assert set_by("inductor", "compile_threads", "1", where) == setter
    assert set_by("inductor", "fx_graph_cache", "False", where) == "explorer"
