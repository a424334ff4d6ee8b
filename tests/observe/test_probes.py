"""The probes: a fixed set, each attribute of torch's replaced once, and no frames of explorer's in a user's error."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer import STAGES
from explorer.compilers.compilers import COMPILERS
from explorer.model.stage import watch_nothing
from explorer.observe import patch, probes
from explorer.observe.probes import PROBES
from explorer.recording.recorder import Recorder, recording

OWN = str(Path(explorer.__file__).parent)
#: What is replaced more than once in a recording for a GPU you don't have: how often at most, and why.
SEVERAL = {
    "torch._inductor.compile_fx.compile_fx": (
        2,
        "one hands the graph to Inductor for the GPU, the probe gives a graph without Dynamo its frame",
    ),
    "PyCodeCache.load_by_key_path": (2, "one gives kernels for the GPU their stand-ins, the probes see what was loaded"),
    "AlgorithmSelectorCache.do_autotuning": (2, "one answers in place of the timing, the probe sees what is measured"),
    "torch._inductor.fx_passes.pad_mm._should_pad": (2, "one answers in place of the timing, the probe sees what is measured"),
    "torch._inductor.codecache.write": (2, "one keeps the GPU's code out of the caches, the probe lists the files"),
    "torch._meta_registrations.device_hint": (2, "while Dynamo traces the answer is the GPU, and inside of it the tensor's own"),
    "autocast.__init__": (3, "the program's blocks, those in a compiled graph, and Inductor's own are each for another device"),
    "autocast.__enter__": (2, "the program's blocks, and those in a compiled graph that runs on the CPU"),
    "autocast.__exit__": (2, "the program's blocks, and those in a compiled graph that runs on the CPU"),
    "JITFunction.run": (2, "the program's launches, and those in a compiled graph that runs on the CPU"),
    "Autotuner.run": (2, "the program's launches, and those in a compiled graph that runs on the CPU"),
    **dict.fromkeys(
        (
            "torch.cuda._lazy_init",
            "torch.cuda._lazy_call",
            "torch.cuda._exchange_device",
            "torch.cuda._maybe_exchange_device",
            "torch.cuda.random._lazy_init",
            "torch.cuda.random._lazy_call",
        ),
        (2, "Inductor's questions and the program's are answered for different threads and times"),
    ),
}


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1).sum(0)


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """For each attribute that is replaced from here on how many replacements it had at most at one time."""
    most: dict[str, int] = {}
    put_on = patch._put_on

    def counted(owner: Any, name: str, make: Any, *kind: Any) -> Any:
        layer = put_on(owner, name, make, *kind)
        most[layer.step] = max(most.get(layer.step, 0), len(layer.slot.layers))
        return layer

    monkeypatch.setattr(patch, "_put_on", counted)
    return most


def test_each_attribute_is_replaced_once(layers: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    """In a recording no function of torch's or triton's has two replacements; the count is printed."""
    with explorer.record():
        torch.compile(program, backend="aot_eager")(torch.ones(4, 4), torch.ones(4, 4))
    with capsys.disabled():
        print(f"\n{len(layers)} attributes are replaced in a recording, each {max(layers.values())} times at most")
    assert len(layers) > 50
    assert {name: count for name, count in layers.items() if count > 1} == {}


def test_what_a_gpu_you_dont_have_answers_is_replaced_beside_what_observes_it(layers: dict[str, int]) -> None:
    """For such a GPU only the functions listed above have more than one replacement, each for the reason given there."""
    pytest.importorskip("triton")
    explorer.trace(program, torch.ones(4, 4), torch.ones(4, 4), target="h100").raise_for_failures()
    several = {name: count for name, count in layers.items() if count > 1}
    assert {name: count for name, count in several.items() if count > SEVERAL.get(name, (1, ""))[0]} == {}
    assert set(SEVERAL) - set(several) == set(), "these are replaced once now"


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
    """Each kind of event that a stage consumes is emitted by a probe, or made of another stage's events or by a ladder."""
    emitted = {kind for watches in (*PROBES, *COMPILERS) for kind in watches.kinds}
    later = {"kernel", "assumption", "ttir", "ttgir", "llir", "ptx", "amdgcn", "sass", "assembly"}
    assert {kind for stage in STAGES for kind in (stage.name, *stage.consumes)} - emitted == later
    assert all(stage.watch is watch_nothing for stage in STAGES)
    assert len({probe.name for probe in PROBES}) == len(PROBES) and PROBES[0].name == "context"


@pytest.mark.parametrize("number", range(len(PROBES)), ids=lambda number: PROBES[number].name)
def test_a_probe_that_cannot_be_put_on_is_a_failure(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others still observe, the program runs, and the Failure names the probe."""

    @contextmanager
    def broken(emit: object) -> Iterator[None]:
        raise AttributeError("this torch has no such function")
        yield

    lacking = replace(PROBES[number], watch=broken)
    monkeypatch.setattr("explorer.recording.recorder.PROBES", (*PROBES[:number], lacking, *PROBES[number + 1 :]))
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    trace = explorer.trace(program, x, w, backend="aot_eager")
    assert torch.allclose(trace.result, program(x, w), atol=1e-5)
    assert [(f.stage, f.step) for f in trace.failures] == [(probes.PROBES[number].name, "watch")]


def test_a_users_error_has_no_frame_of_explorers(capsys: pytest.CaptureFixture[str]) -> None:
    """Between the program's line and where the error is raised no frame is explorer's, also of what caused the error."""

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
