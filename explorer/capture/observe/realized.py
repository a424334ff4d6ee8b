"""Say why Inductor puts what it lowers in a buffer, instead of computing it again at each reader: the calls and the counts."""

from __future__ import annotations

from types import FrameType
from typing import Any, NamedTuple, TypedDict

from explorer.capture.observe.places import in_package
from explorer.model.shared import Names
from explorer.model.values import Call
from explorer.stages.inductor.reasons import MadeBuffer

#: Functions of Inductor around the lowering of every node.
AROUND = ("GraphLowering.run_node", "GraphLowering.output", "GraphLowering.call_function")
#: Operations that Inductor does not repeat on a CPU, as torch's StorageBox.should_realize_on_reuse names them.
HEAVY = ("exp", "log", "log10", "log1p", "log2", "sigmoid", "tanh")


class _BodyFields(TypedDict, total=False):
    """The fields that say how much a loop body reads and computes; see `MadeBuffer`."""

    reads: int
    operations: int | None
    most_reads: int | None
    setting_reads: str
    most_operations: int | None
    setting_operations: str
    heavy: Names


class _Limit(NamedTuple):
    """An Inductor limit on the size of a loop body: its setting, and the two settings that apply if it is None."""

    setting: str
    on_cpu: str
    elsewhere: str


READS = _Limit("realize_acc_reads_threshold", "realize_cpu_acc_reads_threshold", "_realize_acc_reads_threshold_default")
OPERATIONS = _Limit("realize_opcount_threshold", "realize_cpu_opcount_threshold", "_realize_opcount_threshold_default")


def made_buffer(name: str, lowered: str, frame: FrameType, loops: Any) -> tuple[tuple[Call, ...], MadeBuffer]:
    """Return the calls of Inductor that led to a buffer, innermost first, up to the lowering of its node; and what decided it.

    The caller sets `path`, the number of the calls in the event's `paths`.
    """
    calls: list[Call] = []
    users: int | None = None
    output: bool | None = None
    needed_by: Names | None = None
    body: _BodyFields = {}
    at: FrameType | None = frame
    while at is not None:
        code = at.f_code
        if code.co_name == "mark_reuse" and users is None:
            users, body = at.f_locals.get("users"), _body(loops)
        if file := in_package(code.co_filename):
            calls.append((file, at.f_lineno, code.co_qualname))
        if code.co_qualname in AROUND:
            node = at.f_locals.get("n") if code.co_qualname == "GraphLowering.run_node" else None
            if node is not None:
                output, needed_by, body = any(user.op == "output" for user in node.users), _needing(node), _body(loops)
            break
        at = at.f_back
    row = MadeBuffer(buffer=name, lowering=lowered, path=0, output=output, needed_by=needed_by, users=users, **body)
    return tuple(calls), row


def _needing(node: Any) -> Names:
    """The users of an FX node whose inputs must be in memory."""
    from torch._inductor.lowering import needs_realized_inputs

    return tuple(user.name for user in node.users if user.target in needs_realized_inputs)


def _body(loops: Any) -> _BodyFields:
    """How much a loop body reads and computes, and up to how much of either Inductor repeats it on that device."""
    from torch._inductor import ir

    counted = loops.inner_fn_opcount() if hasattr(loops, "inner_fn_opcount") else None
    on_cpu = bool(ir.is_cpu(loops))
    most_reads, setting_reads = _limit(READS, on_cpu)
    most_operations, setting_operations = _limit(OPERATIONS, on_cpu)
    return {
        "reads": int(loops.num_reads()),
        "operations": counted.num_ops if counted else None,
        "most_reads": most_reads,
        "setting_reads": setting_reads,
        "most_operations": most_operations,
        "setting_operations": setting_operations,
        "heavy": tuple(name for name in HEAVY if on_cpu and counted is not None and name in counted.used_ops),
    }


def _limit(limit: _Limit, on_cpu: bool) -> tuple[int | None, str]:
    """A limit's value on a device, None where this torch has no such limit, and the setting that it is from."""
    from torch._inductor import config

    most = getattr(config, limit.setting, None)
    device_default = limit.on_cpu if on_cpu else limit.elsewhere
    if most is None and hasattr(config, device_default):
        return getattr(config, device_default), device_default if on_cpu else limit.setting
    return most, limit.setting
