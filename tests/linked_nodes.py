"""The FX nodes that lines of another compiler's text are linked to, for the tests of its stages."""

from __future__ import annotations

import re

from explorer.model.values import Artifact
from explorer.stages.fx_graph import node_lines
from explorer.tracing.traced import Trace


def nodes_of(trace: Trace, artifact: Artifact, code: str) -> list[set[str]]:
    """The FX nodes that each line with this code is linked to."""
    (graph,) = trace.find("forward")
    names = {line: name for name, line in node_lines(graph).items()}
    links = [link for link in trace.links if (link.source, link.target) == (artifact.id, graph.id)]
    by_line = {n: {names[line] for line in link.target_lines} for link in links for n in link.source_lines}
    return [by_line.get(n, set()) for n, line in enumerate(artifact.lines, 1) if re.search(code, line)]
