"""fits: whether a model fits on each rank of GPUs you don't have, and what bounds a call of it, without the model's weights."""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from explorer.analysis.questions.target import compiled_for
from explorer.capture.absent.cluster import Cluster
from explorer.capture.observe.activation_budget import activation_memory_budget
from explorer.capture.observe.places import OWN_FOLDER, in_package
from explorer.capture.observe.without_data import as_fake, needs_values
from explorer.errors import CompileError, InputError, require_installed
from explorer.lab.live.protocol import live_of
from explorer.model.values import Table
from explorer.reference.gpus.figures import Target
from explorer.stages.fx_graph import short
from explorer.studies.fitting import models
from explorer.studies.fitting.answer import Fit, cache_bytes, left_out
from explorer.studies.fitting.blocks import CallModel, Capture, capture
from explorer.studies.fitting.memory import Parts, Walk
from explorer.studies.fitting.optimizers import OptimizerMemory, optimizer_memory
from explorer.studies.fitting.parts import Part, parts_of, tensors_of, walked
from explorer.studies.fitting.regional import Regional
from explorer.studies.fitting.times import times
from explorer.tracing.recording.trace import trace
from explorer.tracing.traced import Trace

#: Tokens of a sequence where nobody says how many.
TOKENS = 2048


def fits(
    model: object,
    *inputs: Any,
    target: str | Target = "h100",
    world: int = 1,
    rank: int = 0,
    batch: int | None = None,
    sequence: int | None = None,
    dtype: str | None = None,
    train: bool = False,
    optimizer: str | Callable[..., Any] | None = None,
    activation_checkpointing: bool = False,
    plan: Mapping[str, str] | None = None,
    interconnect: float | None = None,
    **fields: Any,
) -> Fit:
    """Say whether a model fits on a GPU you don't have, and what bounds a call of it.

    `model` is the name of a config class of `transformers` ("LlamaConfig"), the path of a config.json, or a config, and `fields`
    are fields of it; then the model is a causal language model with weights of `dtype` (bfloat16), called with `batch` (1) times
    `sequence` tokens: 2048, or as many as it has positions for. Or it is a torch.nn.Module, called with `inputs` as in
    `explorer.trace`. It is built on the meta device: no weights are in memory, and nothing is downloaded.

    The model is compiled by regions, as PyTorch recommends for large ones: each repeated block alone, and the parts before and
    after them. Blocks that are alike are traced once, and count as often as they are called; nothing is extrapolated. With
    `train` the loss is differentiated (for a module of your own, the sum of its outputs), and `optimizer` names a class of
    torch.optim, or is a function that makes an optimizer from a list of parameters. `activation_checkpointing` is that of
    transformers: each layer saves its input, and its backward computes the rest again. Without `train` a call is a prefill
    that keeps no cache.

    With `world` above 1 the model is tensor-parallel, by its own plan or `plan`, such as `{"*.up_proj": "colwise"}`, seen as
    rank `rank`; `interconnect` is what a GPU sends to the others, in bytes/s. Raises InputError for what cannot be, CompileError
    where a region does not compile as one graph, and NotInstalledError without transformers for a config.
    """
    require_installed("torch", "explorer.fits", "full")
    if optimizer is not None and not train:
        raise InputError("optimizer= is for training: give train=True too")
    if activation_checkpointing and not train:
        raise InputError("activation_checkpointing= is for training: give train=True too")
    if meant := {name: KEYWORD_HABITS[name] for name in fields if name in KEYWORD_HABITS}:
        raise InputError("; ".join(f"explorer.fits calls {name}= {right}" for name, right in meant.items()))
    cluster = Cluster(target, world, rank, interconnect)
    settings = {"activation_checkpointing": activation_checkpointing or None}
    of_config = {"batch": batch, "sequence": sequence, "dtype": dtype, **settings, **fields}
    given = {name: value for name, value in of_config.items() if value is not None}

    def fit() -> Fit:
        started = time.perf_counter()
        asked = (_asked_of_module if _is_module(model) else _asked_of_config)(model, inputs, given, train)
        with cluster.joined() if world > 1 else nullcontext():
            return _Fitting(asked, cluster, train, plan, optimizer, started).fitted()

    def with_budget(share: float) -> Fit:
        with activation_memory_budget(share):
            return fit()

    return replace(fit(), _with_budget=with_budget)


def _is_module(model: object) -> bool:
    import torch

    return isinstance(model, torch.nn.Module)


def _number(name: str, number: object) -> int:
    """A number of things; InputError for what is none."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"{name} is a number from 1, not {number!r}")
    return number


@dataclass(frozen=True)
class _Asked:
    """A model on the meta device and how it is called; `cache` is 0 for a module, None where its size is unknown.

    `skips` tells whether it would skip layers at random in training.
    """

    model: Any
    inputs: tuple[Any, ...]
    call: CallModel
    reach: CallModel
    title: str
    cache: int | None
    skips: bool = False


def _asked_of_module(model: Any, inputs: tuple[Any, ...], of_config: Mapping[str, Any], train: bool) -> _Asked:
    """A module of the user's own; InputError for what only a config takes, and for inputs that the module does not take."""
    name = type(model).__name__
    if "activation_checkpointing" in of_config:
        raise InputError(
            f"activation_checkpointing= is for a config: let {name} call torch.utils.checkpoint itself, as a model of "
            "transformers does after model.gradient_checkpointing_enable()"
        )
    if of_config:
        raise InputError(
            f"{', '.join(f'{each}=' for each in of_config)} is for a config; a torch.nn.Module has the sizes and the dtype of "
            f"its own weights and inputs: explorer.fits({name.lower()}.to(torch.bfloat16), x)"
        )
    try:
        inspect.signature(model.forward).bind(*inputs)
    except TypeError as error:
        raise InputError(
            f"{name} cannot be called so: {error}. Give its inputs after it: explorer.fits({name.lower()}, x)"
        ) from None
    faked: Any
    faked, args, _ = as_fake(model, inputs, {})
    return _Asked(faked.train(train), args, models.call_module, models.call_module, _title(model, inputs), 0)


def _title(model: Any, inputs: Sequence[Any]) -> str:
    """The name of a module, with the dtypes of its weights and the sizes of its inputs."""
    weights = dict.fromkeys(str(each.dtype).removeprefix("torch.") for each in model.parameters())
    sizes = [f"{str(each.dtype).removeprefix('torch.')} {list(each.shape)}" for each in inputs if hasattr(each, "dtype")]
    parts = [f"weights of {' and '.join(weights)}" if weights else "", f"called with {', '.join(sizes)}" if sizes else ""]
    return ", ".join(filter(None, [type(model).__name__, *parts]))


def _asked_of_config(config: object, inputs: tuple[Any, ...], given: Mapping[str, Any], train: bool) -> _Asked:
    """A model of transformers; `given` has what was given of its batch, sequence and dtype, and fields of its config."""
    import torch

    if inputs:
        raise InputError("only a torch.nn.Module is called with inputs; for a config, give batch= and sequence=")
    fields = dict(given)
    batch, sequence = _number("batch", fields.pop("batch", 1)), _number("sequence", fields.pop("sequence", TOKENS))
    dtype, checkpointing = fields.pop("dtype", "bfloat16"), fields.pop("activation_checkpointing", False)
    config = models.config_of(config, fields)
    made = models.model_of(config, dtype, train)
    if checkpointing:
        models.checkpoint_layers(made)
    if "sequence" not in given:
        sequence = min((sequence, *models.learned_positions(made).values()))
    models.check_positions(made, sequence)
    ids = torch.zeros(batch, sequence, dtype=torch.long, device="meta")
    title = f"{type(config).__name__}, batch {batch} of {sequence} tokens, {dtype}"
    if checkpointing:
        title += ", with activation checkpointing"
    call = models.call_for_loss if train else models.call_for_logits
    cache = cache_bytes(config, batch, sequence, models.dtype_of(dtype).itemsize)
    skips = train and models.keep_every_layer(made)
    return _Asked(made, (ids,), call, models.call_for_logits, title, cache, skips)


@dataclass(frozen=True)
class _Fitting:
    """One call of `fits`, in the cluster's process group."""

    asked: _Asked
    cluster: Cluster
    train: bool
    plan: Mapping[str, str] | None
    optimizer: str | Callable[..., Any] | None
    started: float

    def fitted(self) -> Fit:
        """Trace each region once, and add everything up."""
        world = self.cluster.world
        unsplit = models.parallelized(self.asked.model, world, self.plan) if world > 1 else ()
        model: Any
        model, inputs, _ = as_fake(self.asked.model, self.asked.inputs, {})
        kept = optimizer_memory(self.optimizer, model.parameters()) if self.optimizer is not None else None
        found = self._captured(model, inputs)
        parts = parts_of(Regional(model, self.asked.call, found, self.asked.reach), inputs, self.train)
        traces = {part.path: self._traced(part) for part in parts if part.stands_for}
        walk = walked(parts, traces, model, inputs)
        tensors = tensors_of(model)
        at, memory = _at_the_peak(walk, _by_module(tensors), kept)
        target = self.cluster.target
        assert isinstance(target, Target)
        counted = [(part.path, part.stands_for, traces[part.path]) for part in parts if part.stands_for]
        return Fit(
            title=self.asked.title,
            target=target,
            world=world,
            rank=self.cluster.rank,
            train=self.train,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            memory=memory,
            peak_at=at,
            timeline=_moments(walk, kept, sum(map(models.bytes_of, tensors.values()))),
            times=times(counted),
            regions=Table(({"region": path, "calls": calls} for path, calls, _ in counted), ("region", "calls")),
            ranks=_ranks(tensors, world),
            unsplit=unsplit,
            left_out=left_out(self.train, kept, self._cache(unsplit), world, skips=self.asked.skips),
            took=time.perf_counter() - self.started,
        )

    def _captured(self, model: Any, inputs: Sequence[Any]) -> Capture | None:
        """Find the model's blocks; InputError where the ranks' parts of its layers do not go together."""
        try:
            return capture(model, self.asked.call, inputs)
        except RuntimeError as error:
            if needs_values(error):
                raise InputError(_line_that_needs_values(error)) from None
            if self.cluster.world == 1:
                raise
            raise InputError(
                f"the model cannot be called with its layers split by the plan: {error}. Give another plan="
            ) from error

    def _cache(self, unsplit: Sequence[str]) -> int | None:
        """Bytes of a rank's cache of keys and values: all of it where the rank has the whole of what computes them."""
        cache, world = self.asked.cache, self.cluster.world
        is_whole = any(name.rpartition(".")[2] in KEYS_AND_VALUES for name in unsplit)
        return cache if cache is None or is_whole else cache // world

    def _traced(self, part: Part) -> Trace:
        """Trace one region for the GPU; CompileError where it does not compile as one graph."""
        target = self.cluster if self.cluster.world > 1 else self.cluster.target
        traced = trace(part.module, *part.args, target=target, train=part.train, fullgraph=True)
        if (live := live_of(traced)) is None or live.error is not None or not traced.find("output_code"):
            why = next((failure.message for failure in traced.failures), "no code was generated")
            raise CompileError(f"{part.path} does not compile as one graph for {compiled_for(traced)}: {why}")
        return traced


def _line_that_needs_values(error: BaseException) -> str:
    """Name the program's line that needs a value of a tensor."""
    every = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in every if not in_package(frame.filename) and not frame.filename.startswith(OWN_FOLDER)]
    place = f"{short(frames[-1].filename)}:{frames[-1].lineno}, `{frames[-1].line}`," if frames else "the model"
    return (
        f"{place} needs the values of a tensor, and explorer.fits has only sizes: change the line, such as a branch or a mask "
        "to torch.where, or torch.bincount to index_add into torch.zeros, or see t.memory of explorer.trace(model, x, train=True)"
    )


def _by_module(tensors: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    sizes: dict[tuple[str, str], int] = {}
    for name, tensor in tensors.items():
        place = ("weights", name.rpartition(".")[0])
        sizes[place] = sizes.get(place, 0) + models.bytes_of(tensor)
    return sizes


def _at_the_peak(walk: Walk, weights: Parts, kept: OptimizerMemory | None) -> tuple[str, Table]:
    """When the most is live, and what that is: in a region, or in the optimizer's step."""
    at, parts = walk.at, dict(walk.parts)
    gradients = sum(held.bytes for held in walk.gradients.values())
    if kept is not None and gradients + kept.temporary > walk.best:
        at, parts = STEP.format(name=kept.name), {("optimizer step", ""): kept.temporary}
        for held in walk.gradients.values():
            parts[held.what, held.module] = parts.get((held.what, held.module), 0) + held.bytes
    if kept is not None:
        parts["optimizer state", ""] = kept.state
    sizes: dict[tuple[str, str], int] = {}
    for (what, module), size in (*weights.items(), *parts.items()):
        place = (what, models.pattern_of(module))
        sizes[place] = sizes.get(place, 0) + size
    rows = ({"what": what, "module": module, "bytes": size} for (what, module), size in sizes.items() if size)
    return at, Table(sorted(rows, key=lambda row: -int(row["bytes"])), ("what", "module", "bytes"))


def _moments(walk: Walk, kept: OptimizerMemory | None, weights: int) -> Table:
    """The most of each call of a region, with everything that is there all the time."""
    always = weights + (kept.state if kept is not None else 0)
    rows = [{"region": m.region, "graph": m.direction, "peak": always + m.peak, "after": always + m.after} for m in walk.moments]
    if kept is not None:
        live = always + sum(held.bytes for held in walk.gradients.values())
        rows.append({"region": STEP.format(name=kept.name), "graph": "", "peak": live + kept.temporary, "after": live})
    return Table(rows, ("region", "graph", "peak", "after"))


def _ranks(tensors: Mapping[str, Any], world: int) -> Table:
    """The bytes of each rank's weights."""
    sizes = ({"rank": n, "weights": sum(models.bytes_on_rank(t, n) for t in tensors.values())} for n in range(world))
    return Table(sizes, ("rank", "weights"))


#: What people write who know other tools, and what `fits` calls it.
KEYWORD_HABITS = {
    "gpus": "world=",
    "num_gpus": "world=",
    "world_size": "world=",
    "tp": "world=",
    "gpu": "target=",
    "device": "target=",
    "batch_size": "batch=",
    "seq_len": "sequence=",
    "sequence_length": "sequence=",
    "training": "train=",
    "gradient_checkpointing": "activation_checkpointing=",
    "inputs": "what follows the model: explorer.fits(model, x)",
}
#: What models call the products that give keys and values.
KEYS_AND_VALUES = ("k_proj", "v_proj", "qkv_proj", "c_attn", "query_key_value", "Wqkv", "qkv")
#: What the optimizer's step is called.
STEP = "{name}.step"

__all__ = ["Fit", "fits"]
