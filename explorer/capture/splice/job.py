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

    `changed` are the positions of the arguments that the first launch of the original changed. `code` has the hashes of the
    original's code for an absent GPU: an edit that is compiled to the same code is not launched.
    """

    edited: KernelText | WrapperText
    original: KernelText | WrapperText
    launches: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]] = ()
    changed: tuple[int, ...] = ()
    code: Mapping[str, str] = field(default_factory=dict)
    threads: int = field(default_factory=threads)


@dataclass(frozen=True)
class Price:
    """The cost of an edited text on an absent GPU, its config there, and the predicted seconds of a launch.

    If an edited wrapper changes exactly one kernel, `original_cost` is the cost of the original kernel. `same_at` is the stage at
    which the edit has the original's code, "" for none.
    """

    cost: Mapping[str, Plain] = field(default_factory=dict)
    config: Mapping[str, Plain] = field(default_factory=dict)
    seconds: float | None = None
    original_cost: Mapping[str, Plain] = field(default_factory=dict)
    same_at: str = ""


@dataclass
class Answer:
    """The result of a trial: the arguments after each launch, and the median seconds of a launch of each kernel.

    A wrapper's results follow its arguments. `error` is the type and the message of an error; the type is "" for explorer's
    own errors. `line` is the error's line in the edited source, if Python says it. `within` is the part of the edited text
    that was compiled last, and its first line.
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
