"""Say what a check on the CPU cannot show of a GPU you don't have."""

from __future__ import annotations

from explorer.analysis.questions.fusion import fusion_of
from explorer.analysis.questions.operator_places import operator_name
from explorer.model.trace_data import TraceData
from explorer.model.values import Table
from explorer.model.wording import quantity


def with_precision(rows: Table, trace: TraceData) -> Table:
    """Note in the first interpreted row that the GPU computes products of float32 in TF32, where it does."""
    calls = [call for group in fusion_of(trace).groups for call in group["calls"] or ()]
    in_tf32 = [call for call in calls if call.tf32 and call.dtype == "float32"]
    if not in_tf32 or not rows or not rows[0].get("interpreted"):
        return rows
    first, *others = rows
    operators = ", ".join(dict.fromkeys(operator_name(call.operator) for call in in_tf32))
    note = (
        f"{quantity(len(in_tf32), 'product')} ({operators}) ran in float32 here. The GPU uses TF32 for that, with 10 bits of "
        "mantissa, and is farther from eager"
    )
    return Table([{**first, "note": "; ".join(filter(None, [str(first["note"]), note]))}, *others])
