"""Run a program without torch.compile, to get what eager mode computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from explorer.capture.observe.patch import replaced, replaced_pure
from explorer.capture.observe.versions import counts_frames_of_full_graphs


@contextmanager
def as_eager() -> Iterator[None]:
    """Let compiled functions that the program calls in this thread run their original code inside the block.

    A program may compile a part of itself, as `model.compile()` and flex_attention do. The stance "force_eager" would do the
    same, but for every thread.
    """
    from torch._dynamo import eval_frame

    with ExitStack() as stack:
        # what this function returns decides what Dynamo does with a frame: None leaves it to Python
        stack.enter_context(replaced_pure(eval_frame, "_callback_from_stance", lambda _: lambda callback: None))
        if counts_frames_of_full_graphs():
            stack.enter_context(
                replaced(eval_frame, "set_fullgraph_compiled_frame_count", lambda count: lambda value: count(value) or 1)
            )
        yield
