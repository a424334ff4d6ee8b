"""The process in which a kernel is compiled with one config after the other, launched, and timed beside the original.

    python -m explorer.capture.splice.tuning_process FOLDER SECONDS

It reads a `TuningJob` from the folder and appends a line of JSON for each config, so that a crash loses one config alone.
"""

from __future__ import annotations

import faulthandler
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from explorer.capture.splice.cost import launched_cost
from explorer.capture.splice.job import JOB, ROWS, TuningJob
from explorer.capture.splice.kernels import compiled
from explorer.capture.splice.launches import copied
from explorer.capture.splice.trial_process import launcher, synchronize, timed


def main(folder: Path) -> None:
    """Time the configs of the job in the folder."""
    import torch

    job: TuningJob = torch.load(folder / JOB, weights_only=False)
    torch.set_num_threads(job.threads)
    args, keywords = job.launch
    original = launcher(compiled(job.original))
    expected = _launched(original, args, keywords)
    with open(folder / ROWS, "a", encoding="utf-8") as file:
        for text in job.texts:
            try:
                row = _row(compiled(text), original, expected, job.launch)
            except Exception as error:  # noqa: BLE001 what one config comes to is its row
                row = {"error": f"{type(error).__name__}: {error}"[:500]}
            file.write(json.dumps(row) + "\n")
            file.flush()


def _row(
    kernel: Any, original: Callable[..., Any], expected: Sequence[Any], launch: tuple[tuple[Any, ...], Mapping[str, Any]]
) -> dict[str, Any]:
    """Times, resources, and how far the results are from the original's."""
    args, keywords = launch
    off = _off(_launched(launcher(kernel), args, keywords), expected)
    seconds, of_original = timed(launcher(kernel), original, args, keywords)
    return {"seconds": seconds, "original_seconds": of_original, "max_abs": off, **launched_cost(kernel)}


def _launched(launch: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments after a launch on copies of them."""
    mine = copied(args)
    launch(*mine, **keywords)
    synchronize(mine)
    return mine


def _off(given: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference of two launches' tensors; infinite where only one has a NaN."""
    import torch

    pairs = [(one, other) for one, other in zip(given, expected, strict=True) if isinstance(one, torch.Tensor)]
    wide = [(one.double(), other.double()) for one, other in pairs if one.numel() and not one.is_complex()]
    return max((_furthest(one, other) for one, other in wide), default=0.0)


def _furthest(one: Any, other: Any) -> float:
    """The largest difference of two tensors in float64."""
    same = (one == other) | (one.isnan() & other.isnan())
    return float((one - other).abs().nan_to_num(nan=math.inf, posinf=math.inf).masked_fill(same, 0.0).max())


if __name__ == "__main__":
    # a thread of C's, which also ends a process whose kernel never gives the interpreter back
    faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)
    main(Path(sys.argv[1]))
