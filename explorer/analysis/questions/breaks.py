"""What runs in Python because Dynamo breaks the graph at it. Pure."""

from __future__ import annotations

import re

from explorer.analysis.questions.operator_places import operator_name
from explorer.errors import InputError
from explorer.model.records import typed
from explorer.model.trace_data import TraceData
from explorer.stages.dynamo.graph_break import GraphBreak, code_at
from explorer.stages.fx_graph import short

#: What Dynamo was at, as the end of its message has it: "Developer debug context: aten.bincount.default".
_CONTEXT = re.compile(r"^\s*Developer debug context: (.*)", re.MULTILINE)


def check_in_a_graph(trace: TraceData, name: str) -> None:
    """Check that no graph breaks at an operator; InputError, with the break's line, if one does.

    Both Dynamo's message and the user's line have to name it: other calls of that line may be in a graph.
    """
    word = re.compile(rf"(?<!\w){re.escape(operator_name(name) or name)}(?!\w)")
    for artifact in trace.find("graph_break"):
        data = typed(GraphBreak, artifact.data)
        context = _CONTEXT.search(artifact.text)
        code = code_at(artifact.text, data.file, data.line)
        if word.search(code) and word.search(f"{data.reason}\n{data.explanation}\n{context[1] if context else ''}"):
            place = f"{data.cell or short(data.file)}:{data.line}"
            raise InputError(
                f"{name} runs in Python: Dynamo breaks the graph at it, at {place}, `{code}`. Inductor compiles and fuses only "
                "what is in a graph"
            )


__all__ = ["check_in_a_graph"]
