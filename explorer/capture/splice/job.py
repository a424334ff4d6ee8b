"""What a trial is asked, and what it answers: both go from one process to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.splice.kernels import KernelText
from explorer.capture.splice.wrapper_text import WrapperText
from explorer.model.values import Plain

#: The files in the folder of a trial.
JOB, ANSWER, PHASE, ROWS = "job.pt", "answer.pt", "phase", "rows.jsonl"


def threads() -> int:
    """How many threads kernels have in this process, which another that is to time them must have too."""
    import torch

    return int(torch.get_num_threads())


@dataclass(frozen=True)
class Job:
    """An edited text of a kernel or of a wrapper, the original's, and the arguments of the launches to try, with keywords.

    `changed` are the positions of the arguments that the first launch of the original changed.
    """

    edited: KernelText | WrapperText
    original: KernelText | WrapperText
    launches: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]] = ()
    changed: tuple[int, ...] = ()
    threads: int = field(default_factory=threads)


@dataclass(frozen=True)
class Price:
    """What an edited text takes of a GPU you don't have, its config there, and the predicted seconds of a launch.

    `original_cost` is that of the kernel which the only changed one of a wrapper replaces.
    """

    cost: Mapping[str, Plain] = field(default_factory=dict)
    config: Mapping[str, Plain] = field(default_factory=dict)
    seconds: float | None = None
    original_cost: Mapping[str, Plain] = field(default_factory=dict)


@dataclass
class Answer:
    """What came of a trial: the arguments after each launch, and the median seconds of a launch of each kernel.

    After the arguments of a wrapper stands what it returned. `error` is the type and the message of an error, without a type for
    explorer's own; `line` is its line in the edited source where Python says it. `within` is the part of the edited text that
    was compiled last, and its first line.
    """

    after: list[tuple[Any, ...]] = field(default_factory=list)
    seconds: tuple[float, float] | None = None
    error: tuple[str, str] | None = None
    line: int = 0
    within: tuple[str, int] = ("", 1)
    price: Price = field(default_factory=Price)


@dataclass(frozen=True)
class TuningJob:
    """Texts of one kernel with several configs, the original's, and the arguments of a launch with its keywords."""

    texts: Sequence[KernelText]
    original: KernelText
    launch: tuple[tuple[Any, ...], Mapping[str, Any]]
    threads: int = field(default_factory=threads)
