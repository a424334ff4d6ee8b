"""What compiles now: the innermost phase, its kernel or choice, the compile and the function, and since when."""

from __future__ import annotations

import re
import threading

import pytest

from explorer.model.events import Frame
from explorer.model.shared import Place
from explorer.model.values import Event
from explorer.stages.records import event_data
from explorer.stages.torch_compile.phase import PhaseMark
from explorer.tracing.recording.compiling_now import CompilingNow

SINCE = re.compile(r" since \d\d:\d\d:\d\d")


def mark(name: str, at: str) -> Event:
    return Event("phase", 0.0, "7/0", "inference", event_data("phase", PhaseMark(name=name, at=at, function="")))


@pytest.fixture
def told() -> list[str]:
    """What was told of a compile so far, each time without its time of day."""
    return []


@pytest.fixture
def now(told: list[str]) -> CompilingNow:
    """The eighth frame of its process begins, the first of its recording."""

    def show(text: str) -> None:
        assert not text or SINCE.search(text), "each says since when"
        told.append(SINCE.sub("", text))

    compiling = CompilingNow(show)
    stack = (Place(file="/home/train.py", line=90, function="main"), Place(file="/home/train.py", line=12, function="forward"))
    compiling.compile_began(Event("frame", 0.0, "7/0", data=event_data("frame", Frame(stack=stack))), ["7/0"])
    return compiling


def test_the_innermost_phase_is_told_with_its_part(now: CompilingNow, told: list[str]) -> None:
    """A phase has the name of its part of the compiler, its own or that around it, and the compile id of the trace."""
    of = ", in 0/0 forward (train.py:12) inference"
    for name, at in (("GraphLowering.run", "B"), ("some_new_phase", "B"), ("some_new_phase", "E"), ("GraphLowering.run", "E")):
        now.phase(mark(name, at))
    lowering = f"lowering (GraphLowering.run){of}"
    assert told == [lowering, f"lowering (some_new_phase){of}", lowering, ""]


def test_a_kernel_is_told_with_the_phase_that_waits_for_it(now: CompilingNow, told: list[str]) -> None:
    """A kernel stands before its phase, and is told no more when it is done."""
    now.phase(mark("async_compile.wait", "B"))
    with now.doing("kernel a, 1 of 2"):
        assert told[-1].startswith("kernel compile (kernel a, 1 of 2, async_compile.wait), in 0/0 forward")
    assert told[-1].startswith("kernel compile (async_compile.wait), in 0/0 forward")


def test_a_phase_that_did_not_say_its_end_goes_with_the_one_around_it(now: CompilingNow, told: list[str]) -> None:
    """After an error a phase may not end; an end without a beginning changes nothing."""
    for name, at in (("backend_compile", "B"), ("GraphLowering.run", "B"), ("never_begun", "E"), ("backend_compile", "E")):
        now.phase(mark(name, at))
    assert told[-1] == ""


def test_another_threads_phase_does_not_end_this_ones(now: CompilingNow, told: list[str]) -> None:
    """Autograd compiles backward graphs in threads of its own, beside the program's."""
    now.phase(mark("backend_compile", "B"))
    other = threading.Thread(target=lambda: now.phase(mark("backend_compile", "E")))
    other.start()
    other.join()
    assert len(told) == 1


def test_an_interrupt_is_noted_with_the_kernel(now: CompilingNow) -> None:
    """The note on a Ctrl+C has the innermost step, once."""
    now.phase(mark("async_compile.wait", "B"))
    with pytest.raises(KeyboardInterrupt) as stopped:
        try:
            with now.doing("kernel a, 1 of 2"):
                raise KeyboardInterrupt
        finally:
            now.phase(mark("async_compile.wait", "E"))
    (note,) = stopped.value.__notes__
    assert note.startswith(
        "explorer: stopped while compiling 0/0 forward (train.py:12) inference: it was in kernel compile (kernel a, 1 "
    )
