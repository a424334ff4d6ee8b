"""The kinds of events that no stage shows, with the record of each; a stage brings those of its own, see `stage.Stage`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from explorer.model.records import Record, record
from explorer.model.shared import Names, Place


@record
class Frame(Record):
    """A compile begins: the program's stack that led to it, outermost first; its last entry is the frame."""

    stack: tuple[Place, ...]


@record
class ProcessGroups(Record):
    """The process groups of torch.distributed when a graph was compiled: the ranks of each, by its name."""

    groups: Mapping[str, tuple[int, ...]]


@record
class CompileError(Record):
    """A compile ended with an error; `soft` for one of those after which Dynamo may run the frame in Python.

    `function`, `file` and `line` are the frame's, `graph` names a graph that has no frame of its own. `limit` names the recompile
    limit that was reached, with its value. `number` counts the errors of the recording.
    """

    error: str
    message: str
    soft: bool
    function: str
    file: str
    line: int
    graph: str
    limit: str
    limit_value: int
    number: int


@record
class CompileSwallowed(Record):
    """Dynamo kept the error of a compile to itself and runs the frame in Python."""


@record
class Stance(Record):
    """A compiled function was called under a stance under which it may not be compiled."""

    stance: str


@record
class RequestOutcome(Record):
    """What came of the request of number `wish` in one graph: both names are one node, or were put in one kernel."""

    wish: int
    same: bool
    together: bool


@record
class FusionRequest(Record):
    """What came in one graph of each pair to keep apart or to fuse, and the names that scheduler nodes have there."""

    names: Names
    rows: tuple[RequestOutcome, ...]


@record
class ChoiceSource(Record):
    """The source of a choice, in "triton", "cpp" or "fx", by the key that choices name it by."""

    source: str
    name: str
    language: str
    text: str


#: What the events of each kind hold that no stage shows.
EVENTS_WITHOUT_STAGE: Mapping[str, type[Record]] = MappingProxyType(
    {
        "frame": Frame,
        "process_groups": ProcessGroups,
        "compile_error": CompileError,
        "compile_swallowed": CompileSwallowed,
        "stance": Stance,
        "fusion_wish": FusionRequest,
        "choice_source": ChoiceSource,
    }
)
