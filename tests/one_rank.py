"""A process group that really sends, in one process, and the marks of tests that train in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from torch import distributed

#: For tests that train by DDP or FSDP2 for a GPU you don't have.
TRAINING = [
    pytest.mark.compile,
    pytest.mark.skipif(not distributed.is_gloo_available(), reason="needs torch with gloo"),
    pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning"),  # torch 2.13 has other names, which 2.11 does not have
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),  # Dynamo asks every input, and hides the warning
]


@contextmanager
def group_of_one_rank() -> Iterator[None]:
    """A group of one rank that really sends: torch's fake group gives DDP's reducer nothing to wait for."""
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    try:
        yield
    finally:
        distributed.destroy_process_group()
