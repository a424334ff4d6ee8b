"""Which views a payload has something for, as `view/widget/src/views.js` decides it for the tabs."""

from __future__ import annotations

from explorer.view import wire

#: The names of the front end's views, in the order of its tabs.
VIEWS = (
    "code",
    "traces",
    "graph",
    "advice",
    "kernels",
    "autotuning",
    "fusion",
    "passes",
    "compare",
    "dynamo",
    "memory",
    "collectives",
    "timings",
    "run",
)


def views_of(payload: wire.Payload) -> list[str]:
    """Name the views that show something of a payload, in the order of their tabs."""
    artifacts = payload["artifacts"]
    stages = {a["stage"] for a in artifacts}
    passes = {"fx_pass", "ttir", *(stage["name"] for stage in payload["stages"] if stage.get("passes"))}
    memory = payload["memory"]
    shown = {
        "code": True,
        "traces": "comparison" in payload,
        "graph": any("nodes" in a for a in artifacts),
        "advice": bool(payload["advice"]["verdicts"] or payload["kernels"]),
        "kernels": bool(payload["kernels"] or payload["calls"]),
        "autotuning": bool(payload["choices"]),
        "fusion": bool(payload["fusion"]),
        "passes": bool(stages & passes),
        "compare": len(artifacts) > 1,
        "dynamo": bool(stages & {"guards", "graph_break", "recompile"}),
        "memory": bool(memory.get("table") or memory.get("unread")),
        "collectives": bool(payload["collectives"]),
        "timings": any(a["stage"] == "phase" and "rows" in a for a in artifacts),
        "run": bool(artifacts),
    }
    return [name for name in VIEWS if shown[name]]
