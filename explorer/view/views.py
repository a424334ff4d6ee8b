"""The views beside the rail, in the order of their tabs; a tab is left out where a trace has nothing for its view. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from explorer.view import wire


class View(NamedTuple):
    """A view: its name, the title and tooltip of its tab, and whether a payload has something for it.

    The element that it shows is made by the maker of that name in `widget/src/views.js`.
    """

    name: str
    title: str
    about: str
    has_something: Callable[[wire.Payload], bool]


def _has_stage(*stages: str) -> Callable[[wire.Payload], bool]:
    """Whether a payload has a text of one of these stages."""
    return lambda payload: any(artifact["stage"] in stages for artifact in payload["artifacts"])


def _has_passes(payload: wire.Payload) -> bool:
    """Whether there are passes of FX, of Triton over a kernel, or of another compiler."""
    stages = (stage["name"] for stage in payload["stages"] if stage.get("passes"))
    return _has_stage("fx_pass", "ttir", *stages)(payload)


def _has_phases(payload: wire.Payload) -> bool:
    return any(artifact["stage"] == "phase" and "rows" in artifact for artifact in payload["artifacts"])


#: In the order in which newcomers ask what they show: a narrow view has the last ones under "more".
VIEWS = (
    View(
        "overview",
        "Overview",
        "what was compiled, where a call's time goes, and what is worth a look",
        lambda payload: any(info["flow"] for info in payload["overview"]),
    ),
    View("code", "Code", "texts side by side, linked lines lit", lambda payload: True),
    View(
        "compare",
        "Compare",
        "what the traces differ in: figures, kernels by what they compute, lines of the program",
        lambda payload: "comparison" in payload,
    ),
    View(
        "kernels",
        "Kernels",
        "the generated kernels and library calls, and what they cost",
        lambda payload: bool(payload["kernels"] or payload["calls"]),
    ),
    View("fusion", "Fusion", "what became one kernel, what did not, and why", lambda payload: bool(payload["fusion"])),
    View(
        "dynamo",
        "Guards & breaks",
        "graph breaks, recompiles, guards, dynamic sizes",
        _has_stage("guards", "graph_break", "recompile"),
    ),
    View(
        "memory",
        "Memory",
        "what is live when, and why",
        lambda payload: bool(payload["memory"].get("table") or payload["memory"].get("unread")),
    ),
    View(
        "advice",
        "Advice",
        "why the program is slow, the costliest cause first",
        lambda payload: bool(payload["advice"]["verdicts"] or payload["kernels"]),
    ),
    View(
        "graph",
        "Graph",
        "FX graphs and the scheduler's graph, collapsed by module or kernel",
        lambda payload: any("nodes" in artifact for artifact in payload["artifacts"]),
    ),
    View("passes", "Passes", "what each pass changed, one after the other", _has_passes),
    View("diff", "Diff", "the difference of two texts", lambda payload: len(payload["artifacts"]) > 1),
    View(
        "choices",
        "Choices",
        "what Inductor chose among for each operation, with settings, times and texts",
        lambda payload: bool(payload["choices"]),
    ),
    View(
        "collectives",
        "Collectives",
        "what the ranks exchange, and how much of it other work hides",
        lambda payload: bool(payload["collectives"].get("table")),
    ),
    View("compiler", "Compiler", "where the compiler's time went", _has_phases),
    View("run", "Run", "run, check and time the compiled function", lambda payload: bool(payload["artifacts"])),
)


def views_of(payload: wire.Payload) -> list[wire.ViewInfo]:
    """List the views that a payload has something for, in the order of their tabs."""
    return [{"name": v.name, "title": v.title, "about": v.about} for v in VIEWS if v.has_something(payload)]
