"""The probes: a fixed set, each attribute of torch's replaced once, and no frames of explorer's in a user's error."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.compilers.compilers import COMPILERS
from explorer.capture.observe import patch, probes
from explorer.capture.observe.probes import PROBES
from explorer.model.stage import watch_nothing
from explorer.stages.cuda import CUDA_FORMS
from explorer.stages.halide import HALIDE_FORMS
from explorer.stages.pallas import PALLAS_FORMS
from explorer.tracing.recording.recorder import Recorder, recording
from explorer.types import STAGES

OWN = str(Path(explorer.__file__).parent)


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1).sum(0)


@dataclass
class Replaced:
    """Counts for each function how many replacements it had at once, beside the one that its observers share.

    `twice` has those in whose place another function was put while one stood there.
    """

    most: Counter[str] = field(default_factory=Counter)
    observed: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)


@pytest.fixture
def replacements(monkeypatch: pytest.MonkeyPatch) -> Replaced:
    """Count the replacements from here on; the one that all observers of a function share is noted apart."""
    seen = Replaced()
    arrange = patch._Slot.arrange

    def counted(slot: Any) -> None:
        (owner, name, _), *_ = slot.back
        before = vars(owner).get(name)
        arrange(slot)
        step = patch._step_of(owner, name)
        others = [layer for layer in slot.layers if slot.observers is None or layer is not slot.observers.layer]
        if len(others) < len(slot.layers):
            seen.observed.add(step)
        seen.most[step] = max(seen.most[step], len(others))
        if len(slot.layers) > 1 and vars(owner).get(name) is not before:
            seen.twice.append(step)

    monkeypatch.setattr(patch._Slot, "arrange", counted)
    return seen


def assert_replaced_once(seen: Replaced, capsys: pytest.CaptureFixture[str]) -> None:
    """One function stands in each place, with one replacement in it, beside the one that all observers share."""
    both = {name for name, count in seen.most.items() if count and name in seen.observed}
    with capsys.disabled():
        print(f"\n{len(seen.most)} attributes are replaced once each; {len(both)} of them are observed as well")
    assert len(seen.most) > 50
    assert {name: count for name, count in seen.most.items() if count > 1} == {}
    assert seen.twice == []


@pytest.mark.compile
def test_each_attribute_is_replaced_once(replacements: Replaced, capsys: pytest.CaptureFixture[str]) -> None:
    """In a recording no function of torch's or triton's has two replacements; the count is printed."""
    with explorer.record():
        torch.compile(program, backend="aot_eager")(torch.ones(4, 4), torch.ones(4, 4))
    assert_replaced_once(replacements, capsys)


@pytest.mark.compile
def test_each_attribute_is_replaced_once_for_a_gpu_you_dont_have(
    replacements: Replaced, capsys: pytest.CaptureFixture[str]
) -> None:
    """What answers for that GPU is the one replacement of its function, which the probes observe from outside."""
    pytest.importorskip("triton")
    explorer.trace(program, torch.ones(4, 4), torch.ones(4, 4), target="h100").raise_for_failures()
    assert_replaced_once(replacements, capsys)
    assert "AlgorithmSelectorCache.do_autotuning" in replacements.observed


@pytest.mark.compile
def test_what_is_observed_does_not_depend_on_the_stages() -> None:
    """A recording of one stage has the same events as one of all."""
    kinds = []
    for stages in (STAGES, STAGES[:1], ()):
        torch._dynamo.reset()
        with recording(stages, recorder := Recorder()):
            torch.compile(program, backend="aot_eager")(torch.ones(4, 4), torch.ones(4, 4))
        kinds.append([event.kind for event in recorder.events])
    assert kinds[0] == kinds[1] == kinds[2] and "joint" not in kinds[0] and "forward" in kinds[0]


def test_every_stage_has_a_probe_for_what_it_is_made_of() -> None:
    """Each kind of event that a stage is made of is emitted by a probe, a ladder, a backend or a verb, or comes from a log."""
    emitted = {kind for watches in (*PROBES, *COMPILERS) for kind in watches.kinds}
    later = {
        "choice",
        "kernel",
        "assumption",
        "ttir",
        "ttgir",
        "llir",
        "ptx",
        "amdgcn",
        "sass",
        "assembly",
        *PALLAS_FORMS,
        *HALIDE_FORMS,
        *CUDA_FORMS,
        "compiled_fn",
        "profile",
        "run_times",
        "counters",
        "bisection",
        "symbolic_steps",
        "log_record",
    }
    own = {stage.name for stage in STAGES if stage.event is not None}
    assert own.union(*(stage.consumes for stage in STAGES)) - emitted == later
    assert all(stage.watch is watch_nothing for stage in STAGES)
    assert len({probe.name for probe in PROBES}) == len(PROBES) and PROBES[0].name == "context"


@pytest.mark.compile
@pytest.mark.parametrize("number", range(len(PROBES)), ids=lambda number: PROBES[number].name)
def test_a_probe_that_cannot_be_put_on_is_a_failure(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others still observe, the program runs, and the Failure names the probe."""

    @contextmanager
    def broken(emit: object) -> Iterator[None]:
        raise AttributeError("this torch has no such function")
        yield

    lacking = replace(PROBES[number], watch=broken)
    monkeypatch.setattr("explorer.tracing.recording.recorder.PROBES", (*PROBES[:number], lacking, *PROBES[number + 1 :]))
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    trace = explorer.trace(program, x, w, backend="aot_eager")
    assert torch.allclose(trace.live.result, program(x, w), atol=1e-5)
    assert [(f.stage, f.step) for f in trace.failures] == [(probes.PROBES[number].name, "watch")]


@pytest.mark.compile
def test_a_users_error_has_no_frame_of_explorers(capsys: pytest.CaptureFixture[str]) -> None:
    """No frame between the program's line and the line that raises is explorer's, nor in the error's cause."""

    def backend(gm: Any, inputs: Any) -> Any:
        raise ValueError("the user's own backend")

    from torch._dynamo.backends.common import aot_autograd

    def raises(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        raise ValueError("the user's own function")

    for function, chosen in ((program, backend), (program, aot_autograd(fw_compiler=backend)), (raises, "aot_eager")):
        torch._dynamo.reset()
        with explorer.record(), pytest.raises(Exception, match="the user's own") as caught:
            torch.compile(function, backend=chosen)(torch.ones(4, 4), torch.ones(4, 4))
        error: BaseException | None = caught.value
        with capsys.disabled():
            print()
        while error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if frame.filename.startswith(OWN)]
            with capsys.disabled():
                print(f"{type(error).__name__}: {len(frames)} frames, explorer's {[f'{f.filename}:{f.lineno}' for f in own]}")
            assert frames and own == []
            error = error.__cause__ or error.__context__
