"""Take a hand-written Triton kernel and its arguments through triton's front end."""

from __future__ import annotations

import copy
import difflib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.capture.ladder.ladder import Lowered, capture_compile_call, choose, described, front_end, portable, triton_driver_of
from explorer.capture.ladder.triton_tools import missing_backend
from explorer.capture.observe.launched import Launched, finite
from explorer.capture.observe.without_data import on_meta
from explorer.errors import CompileError, InputError
from explorer.model.values import Plain, plain
from explorer.reference.gpus.figures import NAMED, Target

#: The attribute of explorer's own copies of a kernel: triton compiles these even while launches are interpreted.
EXPLORER_COPY = "explorer_copy"
#: What a config has beside the values of constants.
CONFIG_OPTIONS = ("num_warps", "num_stages")


@dataclass(frozen=True)
class LoweredCall:
    """A hand-written kernel lowered for one call, with its source, arguments and grid.

    `measured` has a row for each config that triton timed for such a call on the attached GPU, with its `ms`. `tuned` is
    True if triton chose the config. `launch` compiles what the attached GPU would run for this call; None for other GPUs.
    """

    lowered: Lowered
    source: str
    arguments: Mapping[str, Plain]
    grid: tuple[int, ...]
    measured: tuple[Mapping[str, Plain], ...] = ()
    tuned: bool = False
    launch: Callable[[], Launched] | None = None


def lower_call(
    kernel: Any,
    args: Sequence[Any],
    constants: Mapping[str, Any],
    grid: Any,
    target: Target,
    config: int | Mapping[str, Plain] | None,
) -> LoweredCall:
    """Specialize a kernel on a call's arguments, as triton does at a launch, and lower it for `target`.

    If the program has launched an autotuned kernel like this on the attached GPU, the config is the one that triton chose.
    If the installed triton has no backend for the target, the TTIR is made for the first named GPU with a backend.
    Raises InputError for an object that is no triton kernel, arguments that do not fit, or a source that triton rejects.
    Raises CompileError if triton has no backend at all.
    """
    function, args = jit_function(kernel), on_meta(tuple(args))
    with_backend = next((t for t in (target, *NAMED) if not missing_backend(t)), target)
    with triton_driver_of(with_backend):
        best, measured = tuning_result(kernel, args, constants) if target.name == "cuda" else (None, ())
        tuned = best is not None and config is None
        chosen, candidates, meta = launch_settings(kernel, args, constants, best if tuned else config)
        check_arguments(function, args, meta)
        copied = private_copy(function)
        try:
            src, options = capture_compile_call(lambda: copied.run(*args, grid=None, warmup=True, **meta), _compiler())
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise InputError(f"{function.__name__} cannot be called with these arguments: {error}") from error
        name = function.__name__
        ttir = front_end(src, options, with_backend, name)
    file, first = portable(f'"{function.fn.__code__.co_filename}"').strip('"'), int(function.starting_line_number)
    named = call_arguments(function, args, meta)
    lowered = Lowered(name, target, ttir, options, chosen, candidates, file, first, tuple(function.arg_names))
    source, shown = "".join(function.raw_src).rstrip(), {k: describe_argument(v) for k, v in named.items()}

    def launch() -> Launched:
        return compile_launch(function, args, meta, chosen)

    return LoweredCall(lowered, source, shown, grid_of(grid, named), measured, tuned, launch if target.name == "cuda" else None)


def compile_launch(function: Any, args: Sequence[Any], meta: Mapping[str, Any], config: Mapping[str, Plain]) -> Launched:
    """Get the kernel that a launch with these arguments runs on the attached GPU.

    triton takes it from an earlier launch, or compiles it now through its cache, as a launch does. Loading it counts its
    registers; nothing runs. The function's own cache stays as it is. CompileError if the GPU cannot run it, for example
    because it needs too much shared memory.
    """
    from triton.errors import TritonError

    copied = private_copy(function)
    copied.device_caches.update(
        {
            device: tuple(dict(part) if isinstance(part, dict) else part for part in cache)
            for device, cache in function.device_caches.items()
        }
    )
    try:
        kernel = copied.run(*args, grid=None, warmup=True, **meta)
        kernel._init_handles()
    except (TritonError, RuntimeError) as error:
        raise CompileError(f"the attached GPU cannot launch {function.__name__}: {type(error).__name__}: {error}") from error
    texts = {stage: text for stage, text in kernel.asm.items() if isinstance(text, str)}
    return Launched(
        config,
        plain(texts),
        bytes(kernel.kernel),
        plain(kernel.metadata._asdict()),
        str(function.fn.__code__.co_filename),
        int(function.starting_line_number),
        int(kernel.n_regs),
        4 * int(kernel.n_spills or 0),
    )


def jit_function(kernel: Any) -> Any:
    """Return the JITFunction inside decorators such as triton.autotune; InputError if there is none."""
    from triton.runtime.jit import JITFunction

    inner = kernel
    while not isinstance(inner, JITFunction) and hasattr(inner, "fn"):
        inner = inner.fn
    if isinstance(inner, JITFunction):
        return inner
    if type(kernel).__name__ == "InterpretedFunction":
        raise InputError(
            "this kernel was defined under TRITON_INTERPRET=1, which replaces triton's compiler: define it without that"
        )
    raise InputError(f"explorer.trace takes a kernel as @triton.jit or @triton.autotune function, not {type(kernel).__name__}")


def function_name(kernel: Any) -> str:
    """The name of the function inside a kernel's decorators."""
    return str(jit_function(kernel).__name__)


def argument_names(kernel: Any) -> tuple[str, ...]:
    """The names of a kernel's arguments in order."""
    return tuple(jit_function(kernel).arg_names)


def call_arguments(function: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of a call by name and in order, with defaults, as a grid function gets them."""
    defaults = {p.name: getattr(p.default, "value", p.default) for p in function.params if p.has_default}
    given = {**defaults, **dict(zip(function.arg_names, args, strict=False)), **constants}
    return {**{name: given[name] for name in function.arg_names if name in given}, **given}


def check_arguments(function: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> None:
    """Raise InputError for a call that lacks arguments of a kernel; it names the parameters, and a misspelt one."""
    given = call_arguments(function, args, constants)
    if not (missing := [name for name in function.arg_names if name not in given]):
        return
    others = [name for name in constants if name not in function.arg_names]
    unknown = [repr(name) for name in others if difflib.get_close_matches(name, missing)]
    signature = f"{function.__name__}({', '.join(function.arg_names)})"
    instead = f", and has no parameter {', '.join(unknown)}" if unknown else ""
    written = ", ".join(f"{name}=…" for name in missing)
    raise InputError(
        f"{signature} was not given {', '.join(missing)}{instead}: give {'it' if len(missing) == 1 else 'them'} by keyword, "
        f"explorer.trace({function.__name__}, …, {written})"
    )


def run_on_attached_gpu(kernel: Any, args: Sequence[Any], constants: Mapping[str, Any], grid: Any) -> dict[str, Any]:
    """Run `kernel[grid](*args, **constants)` and return the tensors it changed, by argument name."""
    import torch

    before = [a.clone() if isinstance(a, torch.Tensor) else None for a in args]
    kernel[grid](*args, **constants)
    named = zip(argument_names(kernel), args, before, strict=False)
    return {n: a for n, a, b in named if b is not None and not torch.equal(a.nan_to_num(), b.nan_to_num())}


def _compiler() -> Any:
    import triton.compiler

    return triton.compiler


def private_copy(function: Any) -> Any:
    """Copy a JITFunction, with an empty kernel cache and no launch hooks; the original stays as it is."""
    copied = copy.copy(function)
    copied.device_caches = defaultdict(copied.create_binder)
    copied.pre_run_hooks = []
    setattr(copied, EXPLORER_COPY, True)
    return copied


def launch_settings(
    kernel: Any,
    args: Sequence[Any],
    constants: Mapping[str, Any],
    config: int | Mapping[str, Plain] | None,
    prepare: bool = False,
) -> tuple[Mapping[str, Plain], tuple[Mapping[str, Plain], ...], dict[str, Any]]:
    """The chosen config, all candidates, and the keyword arguments that decorators add to the call.

    With `prepare` the config's own hook is run, as triton does before a launch: it may change the arguments, such as the
    block of a descriptor.
    """
    meta, chosen = dict(constants), None
    candidates: tuple[Mapping[str, Plain], ...] = ()
    while hasattr(kernel, "fn") and not hasattr(kernel, "create_binder"):
        if hasattr(kernel, "configs"):
            configs = pruned(kernel, args, meta)
            chosen, candidates = choose(configs, config), tuple(described(c) for c in configs)
            meta |= chosen.all_kwargs()
            if prepare and chosen.pre_hook is not None:
                chosen.pre_hook({**dict(zip(kernel.arg_names, args, strict=False)), **meta})
        for name, heuristic in getattr(kernel, "values", {}).items():
            meta[name] = heuristic({**dict(zip(kernel.arg_names, args, strict=False)), **meta})
        kernel = kernel.fn
    if chosen is None and config is not None:
        raise InputError("config is for kernels under @triton.autotune; give this one its constants by keyword")
    return (described(chosen) if chosen is not None else {}), candidates, meta


def with_configs(
    kernel: Any, args: Sequence[Any], constants: Mapping[str, Any], configs: Sequence[Mapping[str, Plain]]
) -> tuple[Any, dict[str, Any]]:
    """Return a copy of a kernel that has these configs, and the constants of its call that no config has.

    A config takes the values that it lacks from the first config. Raises InputError for a value that the kernel does not have.
    """
    import triton

    names = {name for config in configs for name in config}
    rest = {name: value for name, value in constants.items() if name not in names}
    tuner = kernel
    while not hasattr(tuner, "configs") and hasattr(tuner, "fn"):
        tuner = tuner.fn
    if hasattr(tuner, "configs"):
        known = pruned(tuner, args, constants)
        return _replaced_configs(kernel, [choose(known, config) for config in configs]), rest
    first = dict(configs[0])
    options = {name: first.pop(name) for name in CONFIG_OPTIONS if name in first}
    if strangers := set(names) - set(first) - set(CONFIG_OPTIONS) - set(constants):
        raise InputError(f"config has no {', '.join(map(repr, sorted(strangers)))}: it has {', '.join(map(repr, configs[0]))}")
    own = triton.Config(first, **options)
    return triton.autotune([choose([own], config) for config in configs], key=[])(kernel), rest


def _replaced_configs(kernel: Any, configs: list[Any]) -> Any:
    """Copy the decorators of a kernel, and give its autotuner other configs, which it prunes no more."""
    copied = copy.copy(kernel)
    if hasattr(kernel, "configs"):
        copied.configs, copied.cache = configs, {}
        copied.early_config_prune = copied.perf_model = None
    else:
        copied.fn = _replaced_configs(kernel.fn, configs)
    return copied


def own_config(
    kernel: Any, constants: Mapping[str, Any], tuned: Mapping[str, Plain], facts: Mapping[str, Plain]
) -> dict[str, Plain]:
    """Return the config of a launch: the autotuner's, else the launch's numeric constants and the options in `facts`."""
    if tuned:
        return dict(tuned)
    constexprs = {p.name for p in jit_function(kernel).params if p.is_constexpr}
    numbers = {k: v for k, v in constants.items() if k in constexprs and isinstance(v, int) and not isinstance(v, bool)}
    options = {k: facts.get(k, constants.get(k)) for k in CONFIG_OPTIONS}
    return {**numbers, **{k: v for k, v in options.items() if v is not None}}


def tuning_result(
    kernel: Any, args: Sequence[Any], constants: Mapping[str, Any]
) -> tuple[Mapping[str, Plain] | None, tuple[Mapping[str, Plain], ...]]:
    """The config that triton.autotune chose for such a call, None if it was not launched, and the times.

    Triton keeps the times of the last tuning only: one row per config, `ms` its median.
    """
    while not hasattr(kernel, "configs") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    best = getattr(kernel, "cache", {}).get(_tuning_key(kernel, args, constants)) if hasattr(kernel, "configs") else None
    if best is None:
        return None, ()
    times = {config: _median(time) for config, time in (getattr(kernel, "configs_timings", None) or {}).items()}
    is_last_tuning = best in times and times[best] == min(times.values())
    rows = tuple(plain({**described(config), "ms": finite(time)}) for config, time in times.items()) if is_last_tuning else ()
    return described(best), rows


def _tuning_key(tuner: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> tuple[Any, ...]:
    """The cache key of triton.autotune: the values of its `key` arguments, and every tensor's dtype."""
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **constants}
    arguments = {name: value for name, value in given.items() if name in tuner.arg_names}
    return (
        *(arguments[name] for name in tuner.keys if name in arguments),
        *(str(v.dtype) for v in arguments.values() if hasattr(v, "dtype")),
    )


def _median(time: Any) -> float:
    """The median of a do_bench result, which is three quantiles or one number."""
    return float(time[0]) if isinstance(time, (list, tuple)) else float(time)


def pruned(tuner: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> list[Any]:
    """The configs of triton.autotune that remain after its own pruning for these arguments."""
    copied = copy.copy(tuner)
    copied.nargs = dict(zip(tuner.arg_names, args, strict=False))
    return list(copied.prune_configs(dict(constants)))


def describe_argument(value: Any) -> Plain:
    """Describe an argument: a tensor as "float32[4, 8]", a number as itself, a tuple by its parts."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple):
        return f"({', '.join(str(describe_argument(part)) for part in value)})"
    if hasattr(value, "base") and hasattr(value, "block_shape"):
        return f"descriptor of {describe_argument(value.base)} in blocks of {list(value.block_shape)}"
    return value if isinstance(value, (int, float, bool, str, type(None))) else str(value)


def grid_of(grid: Any, meta: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the launch grid as three numbers, () if there is none; InputError if the value is not a grid."""
    if grid is None:
        return ()
    try:
        sizes = grid(meta) if callable(grid) else grid
    except (KeyError, TypeError, AttributeError, ArithmeticError, NameError) as error:
        raise InputError(f"the function for the grid failed: {type(error).__name__}: {error}") from error
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise InputError(f"grid is one to three positive ints, or a function of the arguments that gives them, not {sizes}")
    return (*sizes, *(1,) * (3 - len(sizes)))


def grid_with(
    kernel: Any, args: Sequence[Any], constants: Mapping[str, Any], grid: Any, config: Mapping[str, Plain]
) -> tuple[int, ...]:
    """The launch grid of a kernel with one of its configs."""
    settings = launch_settings(kernel, args, constants, config)[2]
    return grid_of(grid, call_arguments(jit_function(kernel), args, settings))
