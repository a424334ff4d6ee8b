"""A causal language model of a `transformers` config on the meta device, and one rank's part of it."""

from __future__ import annotations

import copy
import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from explorer.errors import InputError, require_installed, unknown_name
from explorer.model.values import text_lines
from explorer.stages.fx_graph import short

#: What a plan may ask for, by the names that transformers has.
STYLES = ("colwise", "rowwise", "colwise_gather_output", "colwise_rep", "embedding_rowwise", "rowwise_rep")
#: A style of transformers for what each rank has whole, such as the norms of heads: only its gradient is exchanged.
REPLICATED = "replicated_with_grad_allreduce"
#: Megatron's plan, for models that bring none: the first product of a block is split by columns, the second by rows.
MEGATRON: Mapping[str, str] = {
    **dict.fromkeys(("*.q_proj", "*.k_proj", "*.v_proj", "*.gate_proj", "*.up_proj", "*.fc1"), "colwise"),
    **dict.fromkeys(("*.o_proj", "*.out_proj", "*.down_proj", "*.fc2"), "rowwise"),
}
NOTHING_SPLIT = (
    "no layer of {model} would be split over {world} ranks: it has no plan of its own for that. Give plan=, such as "
    '{{"layers.*.up": "colwise", "layers.*.down": "rowwise"}}, whose names are those of torch.nn.Linear or torch.nn.Embedding'
)
#: Floating dtypes that every operator of a model has; the float8 ones are for storing, and few operators take them.
DTYPES = ("bfloat16", "float16", "float32", "float64")
#: Fields of a config that are sizes: transformers takes any number, and fails somewhere behind.
SIZES = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
)
#: What models call the embedding of absolute positions, and what marks one of pictures or sound.
POSITION_TABLES = ("wpe", "embed_positions", "position_embeddings", "positions_embed")
OTHER_INPUTS = re.compile("vision|visual|image|audio")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def config_of(given: object, overrides: Mapping[str, Any]) -> Any:
    """Make a config of a class's name, of the path of a config.json, or of a config; InputError for anything else."""
    require_installed("transformers", "explorer.fits", "models")
    import transformers

    if isinstance(given, transformers.PretrainedConfig):
        _check_sizes(given, given.to_dict())
        return _changed(copy.deepcopy(given), overrides)
    if not isinstance(given, (str, Path)):
        raise InputError(
            "explorer.fits takes the name of a config class, the path of a config.json, a config, or a torch.nn.Module with "
            f"its inputs, not {type(given).__name__}"
        )
    path = Path(given) / "config.json" if Path(given).is_dir() else Path(given)
    if path.suffix == ".json":
        return _changed(_config_of_file(path), overrides)
    kind = getattr(transformers, str(given), None) or getattr(transformers, f"{given}Config", None)
    if not isinstance(kind, type) or not issubclass(kind, transformers.PretrainedConfig):
        unknown = unknown_name("config class", given, [name for name in dir(transformers) if name.endswith("Config")])
        raise InputError(
            f"{unknown}. explorer.fits downloads nothing, so the id of a model on a hub is not enough: give the name of a config "
            "class with its fields, or the path of the model's config.json"
        )
    plain = kind()
    _check_fields(plain, overrides)
    return _make_config(kind, overrides)


def _check_fields(config: Any, overrides: Mapping[str, Any]) -> None:
    """Refuse fields that the config does not have: transformers keeps any name, and nothing reads a mistyped one."""
    for name in overrides:
        if not hasattr(config, name):
            raise unknown_name(f"field of {type(config).__name__}", name, sorted(config.to_dict()))
    _check_sizes(config, overrides)


def _check_sizes(config: Any, fields: Mapping[str, Any]) -> None:
    """Refuse sizes below 1, also by the names that the config has for them, such as n_head."""
    renamed = getattr(config, "attribute_map", {})
    for name, value in fields.items():
        is_size = name in SIZES or name in [renamed.get(size) for size in SIZES]
        if is_size and isinstance(value, (int, float)) and value < 1:
            raise InputError(f"{name} is a size and starts from 1, not {value!r}: give another {name}")


def _changed(config: Any, overrides: Mapping[str, Any]) -> Any:
    """Set fields of a config."""
    _check_fields(config, overrides)
    return _make_config(type(config), {**config.to_dict(), **overrides}) if overrides else config


def _make_config(kind: Callable[..., Any], fields: Mapping[str, Any]) -> Any:
    """Make a config; InputError for fields that do not go together, such as a hidden size that is no multiple of the heads."""
    from huggingface_hub.errors import StrictDataclassError  # what transformers' validators raise

    try:
        return kind(**fields)
    except (StrictDataclassError, TypeError, ValueError) as error:
        reason = (text_lines(str(error)) or [repr(error)])[-1].strip()
        raise InputError(f"transformers refuses these fields of the config: {reason}") from error


def _config_of_file(path: Path) -> Any:
    from transformers import AutoConfig

    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the config {path}: {error}") from error
    if not isinstance(stated, dict) or "model_type" not in stated:
        raise InputError(f"{path} is not a config of transformers: it has no model_type")
    _check_sizes(None, stated)
    config = _make_config(AutoConfig.for_model, stated)
    _check_sizes(config, stated)
    return config


def dtype_of(name: object) -> Any:
    """torch's dtype of a name; InputError for what is none of `DTYPES`."""
    import torch

    dtype = name if isinstance(name, torch.dtype) else getattr(torch, str(name), None)
    if dtype not in [getattr(torch, taken) for taken in DTYPES]:
        raise unknown_name("dtype", str(name).removeprefix("torch."), DTYPES)
    assert isinstance(dtype, torch.dtype)
    return dtype


def model_of(config: Any, dtype: object, train: bool) -> Any:
    """Build the model on the meta device: no weights in memory, and no file is read."""
    import torch
    from transformers import AutoModelForCausalLM

    kind = dtype_of(dtype)
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=kind)
    except (AttributeError, TypeError, ValueError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((each for each in reversed(frames) if short(each.filename).startswith("modeling_")), frames[-1])
        raise InputError(
            f"transformers cannot make a causal language model of this config: {error} ({short(frame.filename)}:{frame.lineno})"
        ) from error
    return with_loss(model.train(train))


def checkpoint_layers(model: Any) -> None:
    """Turn on transformers' activation checkpointing; InputError for a model without it.

    Before its version 5 transformers calls it gradient checkpointing.
    """
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    try:
        enable()
    except ValueError as error:
        raise InputError(
            f"transformers has no activation checkpointing for {type(model).__name__}: {error}. Leave "
            "activation_checkpointing= out"
        ) from error


def keep_every_layer(model: Any) -> bool:
    """Turn off LayerDrop, which skips layers at random in training; return whether a module had it.

    Dynamo cannot trace a branch on a random number. With all layers the memory is the most that a step takes.
    """
    skipping = [module for module in model.modules() if getattr(module, "layerdrop", 0)]
    for module in skipping:
        module.layerdrop = 0.0
    return bool(skipping)


def learned_positions(model: Any) -> dict[str, int]:
    """Map each table of learned positions to how many it has; {} for a model that computes positions."""
    import torch

    limits: dict[str, int] = {}
    for name, table in model.named_modules():
        is_table = name.rpartition(".")[2] in POSITION_TABLES and isinstance(table, torch.nn.Embedding)
        if is_table and not OTHER_INPUTS.search(name):
            first = getattr(table, "offset", 0) if table.padding_idx is None else table.padding_idx + 1
            limits[name] = table.num_embeddings - first
    return limits


def check_positions(model: Any, sequence: int) -> None:
    """Refuse more tokens than a model has learned positions for: without data, no index is seen to be out of range."""
    for name, limit in learned_positions(model).items():
        if sequence > limit:
            raise InputError(
                f"sequence={sequence} is more than the {limit} positions that {type(model).__name__} has learned, in {name}: the "
                f"model would fail. Give a sequence up to {limit}, or a config with more positions"
            )


def with_loss(model: Any) -> Any:
    """Name the loss of a model that names none: transformers takes this one then, with a warning that Dynamo cannot trace."""
    if getattr(model, "loss_type", "") is None:
        model.loss_type = "ForCausalLM"
    return model


def call_for_loss(model: Any, ids: Any) -> Any:
    """The loss of a causal language model that is to say its own input."""
    return model(input_ids=ids, labels=ids, use_cache=False).loss


def call_for_logits(model: Any, ids: Any) -> Any:
    """The logits of a causal language model for each token."""
    return model(input_ids=ids, use_cache=False).logits


def call_module(model: Any, *inputs: Any) -> Any:
    """What a module gives for its arguments."""
    return model(*inputs)


def parallelized(model: Any, world: int, plan: Mapping[str, str] | None) -> tuple[str, ...]:
    """Split the model's layers over `world` ranks in place, and name the matrices that no entry of the plan splits.

    The plan is the caller's, else the model's own `tp_plan`, else Megatron's. InputError where the ranks do not divide the heads,
    where an entry of the caller's names no layer, and where nothing is split.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import parallelize_module

    given = plan or getattr(model, "tp_plan", None) or MEGATRON
    chosen = {name: str(style) for name, style in given.items() if style != REPLICATED}
    if unknown := sorted(set(chosen.values()) - set(STYLES)):
        raise InputError(f"the plan asks for {', '.join(unknown)}, and explorer.fits knows {', '.join(STYLES)}: give plan=")
    for name in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(getattr(model, "config", None), name, None)
        if heads and heads % world:
            raise InputError(f"{name}={heads} cannot be split over {world} ranks: choose a world that divides it")
    names = [name for name, _ in model.named_modules()]
    _check_names(model, plan or {}, names)
    left_whole = _with_all_heads(model) if given is MEGATRON else ()
    styles = {
        name: _style(style)
        for entry, style in chosen.items()
        for name in names
        if _matches(entry, name) and name.rpartition(".")[0] not in left_whole
    }
    try:
        parallelize_module(model, init_device_mesh("cuda", (world,)), styles)
    except NotImplementedError as error:
        raise InputError(f"torch cannot split the model by this plan: {error}") from error
    if not is_split(model, recurse=True):
        raise InputError(NOTHING_SPLIT.format(model=type(model).__name__, world=world))
    matrices = ((n, m) for n, m in model.named_modules() if any(p.dim() > 1 for p in m.parameters(recurse=False)))
    return tuple(dict.fromkeys(pattern_of(name) for name, module in matrices if not is_split(module)))


def _with_all_heads(model: Any) -> tuple[str, ...]:
    """The modules that keep a number of heads: they may divide by it what their products give, and a rank's has fewer heads."""
    kept = ("num_heads", "n_heads", "n_head", "num_attention_heads")
    return tuple(name for name, module in model.named_modules() if any(isinstance(vars(module).get(key), int) for key in kept))


def _matches(entry: str, name: str) -> bool:
    """Tell whether an entry of a plan names a module, part by part as torch does; a star in front stands for any parents."""
    parts, path = entry.split("."), name.split(".")
    if len(parts) > 1 and parts[0] == "*" and len(path) > len(parts):
        path = path[-len(parts) :]
    return len(path) == len(parts) and all(map(fnmatch, path, parts))


def _check_names(model: Any, plan: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise InputError for an entry of the caller's plan that names no module."""
    for entry in plan:
        if not any(_matches(entry, name) for name in names):
            raise InputError(
                f"no module of {type(model).__name__} is called {entry!r}, as the plan says: each part of the name between dots "
                "stands for one, * for any, and * in front for any number of them"
            )


def _style(name: str) -> Any:
    """torch's class for an entry of a plan."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    if name.startswith("colwise"):
        return ColwiseParallel() if name == "colwise" else ColwiseParallel(output_layouts=Replicate())
    return RowwiseParallel() if name == "rowwise" else RowwiseParallel(input_layouts=Replicate())


def is_split(module: Any, recurse: bool = False) -> bool:
    """Tell whether a module's parameters are a rank's parts of larger ones."""
    return any(hasattr(parameter, "to_local") for parameter in module.parameters(recurse=recurse))


def pattern_of(name: str) -> str:
    """A module's path with a star for each number in it: the layers of a list are one."""
    return _NUMBER.sub("*", f".{name}")[1:]


def local_part(tensor: Any) -> Any:
    """This rank's part of a tensor; a tensor that is not split itself."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def bytes_of(tensor: Any) -> int:
    """Bytes of this rank's part of a parameter or buffer."""
    local = local_part(tensor)
    return int(local.numel() * local.element_size())


def bytes_on_rank(tensor: Any, rank: int) -> int:
    """Bytes of a parameter or buffer on a rank, split as `torch.chunk` does: the last have less where sizes do not divide."""
    shape = list(tensor.shape)
    for place in getattr(tensor, "placements", ()):
        if place.is_shard():
            world, length = tensor.device_mesh.size(), shape[place.dim]
            part = -(-length // world)
            shape[place.dim] = max(0, min(part, length - rank * part))
    count = 1
    for length in shape:
        count *= length
    return int(count * tensor.element_size())


__all__ = [
    "MEGATRON",
    "STYLES",
    "bytes_of",
    "bytes_on_rank",
    "call_for_logits",
    "call_for_loss",
    "call_module",
    "check_positions",
    "checkpoint_layers",
    "config_of",
    "dtype_of",
    "is_split",
    "keep_every_layer",
    "local_part",
    "model_of",
    "parallelized",
    "pattern_of",
    "with_loss",
]
