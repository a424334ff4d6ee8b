"""Settings: what was not at its default when a frame was compiled."""

from __future__ import annotations

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.gathering import counted, data_as, one_table


@record
class ChangedSetting(Record):
    """A setting of dynamo, inductor or functorch that is not at its default, values as Python writes them.

    Of another compiler, such as "openvino", it is a property that the compiler was handed. Of "environment" it is a variable that
    torch or triton reads.
    """

    of: str
    name: str
    value: str
    default: str
    set_by: str


@record
class ChangedSettings(Record):
    """The settings of one compile that were not at their defaults."""

    rows: tuple[ChangedSetting, ...]


def render(event: Event, id: str) -> Artifact:
    """One line per setting of the frame."""
    data = typed(ChangedSettings, event.data)
    return text_artifact(event, id, "Settings", "text", text="\n".join(map(readable, data.rows)), data=data)


def readable(row: ChangedSetting) -> str:
    """A setting as one line: its name, its value, its default, and who set it."""
    return f"{row.of}.{row.name} = {row.value}  # {row.default} by default; set by {row.set_by}"


STAGE = Stage(
    name="setting",
    title="Settings",
    language="text",
    event=ChangedSetting,
    artifact=ChangedSettings,
    render=render,
    summary=counted("setting"),
    gather=one_table(data_as(ChangedSetting), ChangedSettings),
    secondary=True,
    about="Each setting of Dynamo, Inductor and functorch that was not at its default, and who set it. Variables of the "
    "environment that torch or triton read are among them.",
)
