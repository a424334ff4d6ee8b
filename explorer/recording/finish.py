"""The end of a recording: its events become a Trace."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from explorer.compilers import torch_compile as compiling
from explorer.live.function import LiveFunction
from explorer.model.stage import Stage
from explorer.model.values import Failure, Plain
from explorer.process.garbage import collection_paused
from explorer.recording.recorder import Recorder
from explorer.replay import replay
from explorer.traced import Trace


def finished(recorder: Recorder, meta: Mapping[str, Plain], stages: Sequence[Stage], live: LiveFunction | None) -> Trace:
    """Replay what was recorded. An error of explorer's gives a trace that has only this Failure, and the program's result."""
    failures = [*recorder.failures, *recorder.guard.failures(recorder.failures)]
    try:
        date = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        whole_meta = {**meta, **compiling.torch_versions(), "made": date, "cost": recorder.seconds}
        with collection_paused():
            return Trace.of(replay(recorder.events, failures, whole_meta, stages), live)
    except Exception as error:  # noqa: BLE001 the program ran, and gets a trace that says so
        lost = Failure("record", "replay", f"{type(error).__name__}: {error}", fatal=True)
        return Trace(meta, failures=(*failures, lost), live=live)
