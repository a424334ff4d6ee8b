"""The Triton kernels of one recording, compiled down to machine code or taken from what was launched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from explorer.capture.absent import target as target_room
from explorer.capture.absent.launches import Launches
from explorer.capture.observe.launched import Modules, launched_of, loaded_modules
from explorer.capture.observe.patch import Guard, guarding
from explorer.lab.live.ladder_events import Compiled, LadderCompiles, ladder_events, launch_events
from explorer.lab.live.ladders import Ladders
from explorer.reference.gpus.figures import Target
from explorer.tracing.recording.recorder import Recorder


class KernelRecorder:
    """Records each form of a recording's Triton kernels.

    For an absent GPU `workers` compile them in processes of their own, and `launches` has those that the program launches
    outside of torch.compile. `modules` are those that Inductor loads for the CPU and an attached GPU.
    """

    def __init__(self, device: str | Target, workers: LadderCompiles | None, modules: Modules, launches: Launches | None) -> None:
        self.launches = launches
        self.modules = modules
        self._device = device
        self._workers = workers
        self._ladders = Ladders()

    def start(self, recorder: Recorder) -> None:
        """Start compiling the kernels recorded so far: machine code is made while the program runs and other graphs compile."""
        if self._workers is not None:
            self._workers.begin(recorder.events)

    def finish(self, recorder: Recorder) -> Ladders:
        """Record each form of the kernels, and return their ladders. An error becomes a Failure."""
        if self._may_have_kernels():
            recorder.attempt("kernel", "compile", lambda: self._record_compiled(recorder))
        recorder.attempt("kernel", "launch", lambda: self._record_launched(recorder))
        return self._ladders

    def _may_have_kernels(self) -> bool:
        return self._device != "cpu" and not (self._device == "auto" and target_room.attached()[1].missing)

    def _record_compiled(self, recorder: Recorder) -> None:
        """Record the kernels of Inductor's output code."""
        if self._workers is not None:
            with recorder.doing("explorer's own compile of the kernels to machine code"):
                compiled = self._workers.finish(recorder.events)
        else:
            gpu = target_room.attached_gpu() if isinstance(self._device, str) else self._device
            compiled = ladder_events(recorder.events, gpu, find=partial(launched_of, self.modules))
        self._ladders = compiled.ladders
        _add(compiled, recorder)

    def _record_launched(self, recorder: Recorder) -> None:
        """Record the kernels that the program launched outside of torch.compile, and what was lost of them."""
        if self.launches is not None:
            _add(launch_events(self.launches, self._ladders), recorder)


def _add(compiled: Compiled, recorder: Recorder) -> None:
    recorder.events += compiled.events
    recorder.failures += compiled.failures


@contextmanager
def recording_kernels(device: str | Target, absent: Target | None, guard: Guard) -> Iterator[KernelRecorder]:
    """Give what records the kernels of a recording; the first worker process for an absent GPU starts now."""
    with ExitStack() as stack:
        workers = stack.enter_context(LadderCompiles(absent)) if absent is not None else None
        with guarding(guard):
            modules = stack.enter_context(loaded_modules()) if absent is None else {}
        launches = stack.enter_context(Launches(absent)) if absent is not None else None
        yield KernelRecorder(device, workers, modules, launches)
