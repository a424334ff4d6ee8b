"""Contracts on what torch.compile makes of a program, for a project's own tests.

    from explorer import testing

    t = explorer.trace(model, x, target="h100")         # a GPU you don't have will do
    testing.assert_no_graph_break(t)
    testing.assert_fused(t, "mul", "sum")
    testing.assert_no_recompile(model, (x,), (y,), target="h100")

Each assertion raises ContractError, an AssertionError: what was expected, what is, the user's line, why, and where to look.
Where a trace cannot say, that is an error too: "not judged". `plugin.py` is pytest's plugin, whose fixture `compiled` also
compares with stored expectations.
"""

# Contracts for a project's own tests: `asserts.py` raises what `analysis/findings/` finds in a trace, `recompiling.py` calls one
# function several times, `stored.py` has the files of expectations, `plugin.py` is pytest's plugin.

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.analysis.findings.finding import ContractError as ContractError
    from explorer.analysis.findings.finding import Finding as Finding
    from explorer.testing.asserts import assert_fused as assert_fused
    from explorer.testing.asserts import assert_graphs as assert_graphs
    from explorer.testing.asserts import assert_kernels as assert_kernels
    from explorer.testing.asserts import assert_no_graph_break as assert_no_graph_break
    from explorer.testing.asserts import assert_no_new_failure as assert_no_new_failure
    from explorer.testing.asserts import assert_no_new_fallback as assert_no_new_fallback
    from explorer.testing.asserts import assert_no_spill as assert_no_spill
    from explorer.testing.asserts import assert_peak_memory as assert_peak_memory
    from explorer.testing.recompiling import assert_no_recompile as assert_no_recompile

#: Where each public name is defined; it is imported when first asked for, so that pytest's plugin costs other projects nothing.
_HOMES = {
    "ContractError": "analysis.findings.finding",
    "Finding": "analysis.findings.finding",
    "assert_fused": "testing.asserts",
    "assert_graphs": "testing.asserts",
    "assert_kernels": "testing.asserts",
    "assert_no_graph_break": "testing.asserts",
    "assert_no_new_failure": "testing.asserts",
    "assert_no_new_fallback": "testing.asserts",
    "assert_no_recompile": "testing.recompiling",
    "assert_no_spill": "testing.asserts",
    "assert_peak_memory": "testing.asserts",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"explorer.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'explorer.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
