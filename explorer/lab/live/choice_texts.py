"""Make the texts of Inductor's choices on demand: the source, and a template's forms down to machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.analysis.questions.choices import recorded_forms
from explorer.errors import unknown_name
from explorer.lab.live.protocol import Live
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Plain
from explorer.process.under_way import step
from explorer.stages.records import event_data
from explorer.stages.replay import rendered


def choice_texts(trace: TraceData, live: Live, row: Mapping[str, Plain], stages: Sequence[str]) -> list[Artifact]:
    """Make those texts of a choice that the trace does not hold, its source always among them.

    `row` is one of `t.inductor.choices.table` with a source. CompileError where the choice does not compile; InputError for a
    stage that it has no text in.
    """
    source = live.choice_source(str(row["source"]))
    lacking = [stage for stage in dict.fromkeys(("kernel", *stages)) if stage not in recorded_forms(trace, row)]
    events = []
    for number, stage in enumerate(lacking):
        step(f"making {stage} of {row['choice']}", number, len(lacking))
        events.append(_event(trace, live, row, source, stage))
    return list(rendered(trace, events))


def _event(trace: TraceData, live: Live, row: Mapping[str, Plain], source: Mapping[str, Plain], stage: str) -> Event:
    facts = {
        "name": f"{row['choice']}.{'source' if stage == 'kernel' else stage}",
        "choice": row["choice"],
        "form": stage,
        "operation": row["operation"],
        "language": source["language"],
        "file": "",
        "first_line": 1,
        "text": source["text"],
    }
    if stage != "kernel":
        ladder = live.choice(str(row["source"]))
        if stage not in live.choice_stages:
            raise unknown_name("stage of this choice", stage, ("kernel", *live.choice_stages))
        text = ladder.sass() if stage == "sass" else ladder.texts[stage]
        facts |= {"text": text, "file": ladder.file, "first_line": ladder.first_line}
    time = next((a.time for a in trace.find("autotune", row["frame"], row["graph"])), 0.0)
    return Event("choice", time, row["frame"], row["graph"], event_data("choice", facts))
