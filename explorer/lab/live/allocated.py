"""What a call takes of the memory of an attached GPU, by torch's allocator."""

from __future__ import annotations

from explorer.lab.live.call import run_call
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.other_threads import once_nothing_traces
from explorer.lab.live.outcome import on_copies
from explorer.lab.live.protocol import Live


def allocated_bytes(live: Live) -> int | None:
    """Return the peak bytes that a call allocates beyond those allocated before it; None without an attached GPU.

    A CUDA graph keeps its memory from call to call: a call that replays one allocates little.
    """
    import torch

    if not isinstance(live, LiveFunction) or live.compiled is None or not _on_gpu(live):
        return None
    compiled = live.compiled

    def call() -> int:
        with on_copies(live.call) as copied:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            run_call(compiled, copied)
            torch.cuda.synchronize()
            return int(torch.cuda.max_memory_allocated()) - int(before)

    return once_nothing_traces(call)


def _on_gpu(live: LiveFunction) -> bool:
    """Whether torch has used the attached GPU, and the trace is not for one you don't have."""
    import torch

    return live.absent is None and torch.cuda.is_available() and torch.cuda.is_initialized()
