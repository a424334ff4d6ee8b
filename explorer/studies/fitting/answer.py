"""Fit: what `explorer.fits` answers with, and what it leaves out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.analysis.questions.costs import LIMITS
from explorer.errors import InputError
from explorer.model.values import Table
from explorer.model.wording import quantity, readable_bytes
from explorer.reference.gpus.figures import Target
from explorer.studies.fitting.budgets import Budgets, budgets_of, check_shares
from explorer.studies.fitting.optimizers import OptimizerMemory

#: What no trace shows.
LEFT_OUT = (
    "the caching allocator's rounding and fragments",
    "what libraries take inside, such as cuBLAS's and NCCL's workspaces",
    "the CUDA context and the code of the kernels",
    "the time that Python takes to launch kernels",
)
NO_OPTIMIZER = 'what an optimizer keeps: name it, optimizer="AdamW"'
NO_STEP = "the time of the optimizer's step, and copies in float32 of narrower weights"
NO_SUMS = "the time to sum the gradients of what each rank has whole, such as norms, over the ranks"
NO_LAYERDROP = "what layerdrop saves: a step keeps every layer here"
NO_CACHE = "a cache of keys and values, {size} for these tokens"
UNKNOWN_CACHE = "a cache of earlier tokens, whose size its config does not tell"
#: Fields of a config whose layers keep other than each head's keys and values.
OTHER_CACHES = ("kv_lora_rank", "multi_query", "num_kv_heads", "num_kv_shared_layers")
#: What makes a part of a peak smaller; for others it is `SPLIT`.
LESS = {
    "saved for backward": "most of it is saved for backward, so a smaller batch or activation checkpointing helps most",
    "activations": "most of it is activations, so a smaller batch or shorter sequences help most",
}
SPLIT = "world= splits the model over several"
#: What bounds a launch, in words; a limit of `costs.LIMITS` that is not here stands as it is.
BOUND = {"collectives": "collectives, where nothing hides them", "unknown": "launches without an estimate"}


@dataclass(frozen=True)
class Fit:
    """Whether a model fits on each rank of a target, and what bounds a call of it; estimated from the code of its regions.

    `memory` has one row for each part and module at the peak: `what` ("weights", "gradients", "saved for backward",
    "activations", "inputs", "optimizer state", "optimizer step"), `module` with a star for each number, and `bytes` of one
    rank; `peak_at` says when that is. `timeline` has one row for each region that runs, in their order: the `peak` in it and
    what is live `after` it. `times` has one row for each region, graph and limit: `seconds` of all its calls in one step, and
    the `number` of launches. `regions` says how many calls each traced region stands for, `ranks` the bytes of each rank's
    weights. `unsplit` are the linear layers and embeddings that each rank has whole, `left_out` is what the figures do not
    hold, and `took` are the seconds that this took here.
    """

    title: str
    target: Target = field(repr=False)
    world: int
    rank: int
    train: bool
    parameters: int
    memory: Table
    peak_at: str
    timeline: Table
    times: Table
    regions: Table
    ranks: Table
    unsplit: tuple[str, ...]
    left_out: tuple[str, ...]
    took: float
    _with_budget: Callable[[float], Fit] | None = field(default=None, repr=False, compare=False)

    @property
    def peak_bytes(self) -> int:
        """Bytes of one rank at its peak."""
        return sum(int(row["bytes"]) for row in self.memory)

    @property
    def available(self) -> int:
        """Bytes of the GPU's memory."""
        return self.target.memory

    @property
    def fits(self) -> bool:
        """Whether the peak is below the GPU's memory; what is left out comes on top."""
        return self.peak_bytes <= self.available

    @property
    def seconds(self) -> float:
        """Estimated seconds of one call: kernels, library calls, and the collectives that nothing hides."""
        return sum(float(row["seconds"]) for row in self.times)

    def bytes_of(self, what: str) -> int:
        """The bytes of one part at the peak, such as "weights"."""
        return sum(int(row["bytes"]) for row in self.memory if row["what"] == what)

    def budgets(self, shares: Sequence[float] = (0, 0.25, 0.5, 0.75, 1)) -> Budgets:
        """Compile the step again for each `activation_memory_budget`: what a smaller share of saved activations costs in time.

        At 1 a compiled region saves what it saves by default; at 0 only its inputs, and its backward computes the rest again.
        InputError without `train`, and for a share that is not from 0 to 1.
        """
        wanted = check_shares(shares)
        if not self.train or self._with_budget is None:
            raise InputError("a budget is for what training saves for the backward: ask explorer.fits(…, train=True).budgets()")
        return budgets_of(self, {share: self._with_budget(share) for share in wanted})

    @property
    def bounds(self) -> Table:
        """One row for each limit: the seconds and the number of launches of all regions, the longest first."""
        sums: dict[str, tuple[float, int]] = {}
        for row in self.times:
            seconds, number = sums.get(row["limit"], (0.0, 0))
            sums[row["limit"]] = seconds + row["seconds"], number + row["number"]
        rows = ({"limit": limit, "seconds": seconds, "number": number} for limit, (seconds, number) in sums.items())
        return Table(sorted(rows, key=lambda row: -float(str(row["seconds"]))), ("limit", "seconds", "number"))

    def plain(self) -> dict[str, Any]:
        """Everything as values that JSON has."""
        figures = {"peak_bytes": self.peak_bytes, "available": self.available, "fits": self.fits, "seconds": self.seconds}
        names = ("title", "world", "rank", "train", "parameters", "peak_at", "took")
        tables = ("memory", "timeline", "times", "regions", "ranks")
        texts = {"unsplit": list(self.unsplit), "left_out": list(self.left_out)}
        rows = {name: [dict(row) for row in getattr(self, name)] for name in tables}
        return {"target": self.target.name, **{name: getattr(self, name) for name in names}, **figures, **texts, **rows}

    def __repr__(self) -> str:
        return "\n".join([*_memory_lines(self), *_time_lines(self), *_notes(self)])


def _memory_lines(fit: Fit) -> list[str]:
    verdict = "fits" if fit.fits else "does not fit"
    where = f"each of {fit.world} {fit.target.title}, tensor-parallel" if fit.world > 1 else fit.target.title
    if NO_OPTIMIZER in fit.left_out:
        where += ", without an optimizer"
    size = f"{fit.parameters / 1e9:.4g} billion parameters" if fit.parameters >= 1e8 else f"{fit.parameters:,} parameters"
    head = f"{fit.title}, {size}: {verdict} on {where}"
    peak = f"{readable_bytes(fit.peak_bytes)} at the peak, in {fit.peak_at}"
    room = f"the GPU has {readable_bytes(fit.available)}, {_room(fit)}"
    parts = [f"  {what:<20} {readable_bytes(fit.bytes_of(what))}" for what in dict.fromkeys(row["what"] for row in fit.memory)]
    return [head, f"{peak}; {room}", *parts]


def _room(fit: Fit) -> str:
    """Say what is left of the GPU's memory, or how much is too much and what most of it is."""
    left = fit.available - fit.peak_bytes
    if left >= 0:
        return f"{readable_bytes(left)} more"
    most = max(dict.fromkeys(row["what"] for row in fit.memory), key=fit.bytes_of)
    return f"{readable_bytes(-left)} less: {LESS.get(most, SPLIT)}"


def _time_lines(fit: Fit) -> list[str]:
    call = "a step of training" if fit.train else "a call"
    lines = [f"{_words(fit.seconds)} estimated for {call}, by what bounds it"]
    for row in fit.bounds:
        limit = BOUND.get(row["limit"]) or LIMITS.get(row["limit"], row["limit"])
        lines.append(f"  {_words(row['seconds']):<9} {quantity(row['number'], 'launch'):>14}  {limit}")
    return lines


def _notes(fit: Fit) -> list[str]:
    notes = [f"left out: {'; '.join(fit.left_out)}"]
    if fit.unsplit:
        notes.append(f"each rank has the whole of {', '.join(fit.unsplit)}: the plan does not split them")
    if fit.world > 1:
        sizes = {row["weights"] for row in fit.ranks}
        differ = ", ".join(f"rank {row['rank']} {readable_bytes(row['weights'])}" for row in fit.ranks)
        notes.append("all ranks are alike" if len(sizes) == 1 else f"ranks have unequal parts of the weights: {differ}")
    traced = ", ".join(
        f"{row['region']} ({row['calls']} of its form)" if row["calls"] > 1 else row["region"] for row in fit.regions
    )
    notes.append(f"compiled by regions, in {fit.took:.0f} s: {traced}")
    return notes


def _words(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms" if seconds < 1 else f"{seconds:.4g} s"


def left_out(train: bool, kept: OptimizerMemory | None, cache: int | None, world: int, *, skips: bool = False) -> tuple[str, ...]:
    """What the figures do not hold."""
    if train:
        alone = (*LEFT_OUT, *([NO_SUMS] if world > 1 else []), *([NO_LAYERDROP] if skips else []))
        return (*alone, NO_STEP if kept is not None else NO_OPTIMIZER)
    if cache == 0:
        return LEFT_OUT
    return (*LEFT_OUT, UNKNOWN_CACHE if cache is None else NO_CACHE.format(size=readable_bytes(cache)))


def cache_bytes(config: Any, batch: int, sequence: int, size: int) -> int | None:
    """Bytes of the keys and values of all tokens, of all ranks: 2 for each layer, head and its size; None where not stated.

    Of a config with several models, such as one of text and pictures, it is the text's.
    """
    text = config.get_text_config(decoder=True)
    try:
        return _cache_of_text(text, batch, sequence, size)
    except RuntimeError:  # transformers raises it for a field that differs from layer to layer, such as head_dim
        return None


def _cache_of_text(text: Any, batch: int, sequence: int, size: int) -> int | None:
    layers, heads = getattr(text, "num_hidden_layers", None), getattr(text, "num_attention_heads", None)
    if not isinstance(layers, int) or not isinstance(heads, int) or _keeps_otherwise(text, sequence):
        return None
    length = getattr(text, "head_dim", None) or text.hidden_size // heads
    kept = getattr(text, "num_key_value_heads", None) or heads
    return int(2 * layers * kept * length * batch * sequence * size) if isinstance(kept, int) else None


def _keeps_otherwise(text: Any, sequence: int) -> bool:
    """Tell whether some layers keep something other than all tokens' keys and values: a window's, none, or a state."""
    windows = [getattr(text, name, None) for name in ("sliding_window", "attention_chunk_size")]
    shorter = any(isinstance(window, int) and window < sequence for window in windows)
    attentions = {"full_attention", "sliding_attention", "chunked_attention"}
    others = set(getattr(text, "layer_types", None) or ()) - attentions
    return shorter or bool(others) or any(getattr(text, name, None) for name in OTHER_CACHES)


__all__ = ["Fit", "cache_bytes", "left_out"]
