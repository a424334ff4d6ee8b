"""A hand-written @triton.jit or @triton.autotune kernel and its arguments, taken through triton's front end."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.errors import CompileError, InputError
from explorer.gpus.figures import NAMED, Target
from explorer.ladder.ladder import Lowered, captured, choose, described, front_end, portable, pretending
from explorer.ladder.triton_tools import missing_backend
from explorer.model.values import Plain, plain
from explorer.observe.launched import Launched, finite
from explorer.observe.without_data import on_meta

#: What marks the explorer's own copies of a function: triton compiles them also where launches are interpreted.
OWN = "explorer_own"


@dataclass(frozen=True)
class Written:
    """A hand-written kernel as lowered: its source text, and the call's arguments and grid as the launch gets them.

    `measured` has a row for each config that triton timed for such a call on the attached GPU, with its `ms`; `tuned` is
    True where triton has chosen the config. `launch` gives what a launch so on the attached GPU runs, None for other GPUs.
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
) -> Written:
    """Specialize a kernel on the arguments of a call, as triton does at a launch, and lower it for `target`.

    Where the program has launched an autotuned kernel so on the attached GPU, its config is the one that triton chose.
    InputError for what is no triton kernel, arguments it does not take, a source that triton refuses, or a target for
    which the installed triton has no backend, with those for which it has.
    """
    function, args = jit_function(kernel), on_meta(tuple(args))
    if missing := missing_backend(target):
        able = ", ".join(t.name for t in NAMED if not missing_backend(t))
        raise InputError(f"{function.__name__} cannot be compiled for {target.name}: {missing}; there are backends for {able}")
    with pretending(target):
        best, measured = autotuned(kernel, args, constants) if target.name == "cuda" else (None, ())
        tuned = best is not None and config is None
        chosen, candidates, meta = settings(kernel, args, constants, best if tuned else config)
        own = own_copy(function)
        try:
            src, options = captured(lambda: own.run(*args, grid=None, warmup=True, **meta), _compiler())
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise InputError(f"{function.__name__} cannot be called so: {error}") from error
        name = function.__name__
        ttir = front_end(src, options, target, name)
    file, first = portable(f'"{function.fn.__code__.co_filename}"').strip('"'), int(function.starting_line_number)
    named = call_arguments(function, args, meta)
    lowered = Lowered(name, target, ttir, options, chosen, candidates, file, first, tuple(function.arg_names))
    source, shown = "".join(function.raw_src).rstrip(), {k: said(v) for k, v in named.items()}

    def launch() -> Launched:
        return for_launch(function, args, meta, chosen)

    return Written(lowered, source, shown, grid_of(grid, named), measured, tuned, launch if target.name == "cuda" else None)


def for_launch(function: Any, args: Sequence[Any], meta: Mapping[str, Any], config: Mapping[str, Plain]) -> Launched:
    """What a launch with these arguments runs on the attached GPU: the kernel that triton has of an earlier one, or compiles now.

    It is compiled as a launch compiles it, through triton's cache, and loaded, which counts its registers; nothing runs.
    The function's own cache stays as it is. CompileError where the GPU cannot run it, such as for its shared memory.
    """
    from triton.errors import TritonError

    own = own_copy(function)
    own.device_caches.update(
        {
            device: tuple(dict(part) if isinstance(part, dict) else part for part in known)
            for device, known in function.device_caches.items()
        }
    )
    try:
        kernel = own.run(*args, grid=None, warmup=True, **meta)
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
    """The JITFunction inside decorators such as triton.autotune and triton.heuristics; InputError where there is none."""
    from triton.runtime.jit import JITFunction

    inner = kernel
    while not isinstance(inner, JITFunction) and hasattr(inner, "fn"):
        inner = inner.fn
    if isinstance(inner, JITFunction):
        return inner
    if type(kernel).__name__ == "InterpretedFunction":
        raise InputError("this kernel was defined under TRITON_INTERPRET=1, which replaces triton's compiler; define it without")
    raise InputError(f"trace_kernel takes a @triton.jit or @triton.autotune function, not {type(kernel).__name__}")


def function_name(kernel: Any) -> str:
    """The name of the function inside a kernel's decorators."""
    return str(jit_function(kernel).__name__)


def argument_names(kernel: Any) -> tuple[str, ...]:
    """The names of a kernel's arguments in order."""
    return tuple(jit_function(kernel).arg_names)


def call_arguments(function: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a call gives a JITFunction, by name and in order, with its defaults: what a function for the grid gets."""
    defaults = {p.name: getattr(p.default, "value", p.default) for p in function.params if p.has_default}
    given = {**defaults, **dict(zip(function.arg_names, args, strict=False)), **constants}
    return {**{name: given[name] for name in function.arg_names if name in given}, **given}


def launched(kernel: Any, args: Sequence[Any], constants: Mapping[str, Any], grid: Any) -> dict[str, Any]:
    """`kernel[grid](*args, **constants)` on the attached GPU: the tensors that it changed, by their arguments' names."""
    import torch

    before = [a.clone() if isinstance(a, torch.Tensor) else None for a in args]
    kernel[grid](*args, **constants)
    named = zip(argument_names(kernel), args, before, strict=False)
    return {n: a for n, a, b in named if b is not None and not torch.equal(a.nan_to_num(), b.nan_to_num())}


def _compiler() -> Any:
    import triton.compiler

    return triton.compiler


def own_copy(function: Any) -> Any:
    """The function with a kernel cache of its own, and without its launch hooks: the original is left as it is."""
    own = copy.copy(function)
    own.device_caches = defaultdict(own.create_binder)
    own.pre_run_hooks = []
    setattr(own, OWN, True)
    return own


def settings(
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


def autotuned(
    kernel: Any, args: Sequence[Any], constants: Mapping[str, Any]
) -> tuple[Mapping[str, Plain] | None, tuple[Mapping[str, Plain], ...]]:
    """The config that triton.autotune has chosen for such a call, None where it was not launched so, and the times.

    Triton keeps the times of the last tuning only: one row a config, `ms` its median.
    """
    while not hasattr(kernel, "configs") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    best = getattr(kernel, "cache", {}).get(_tuning_key(kernel, args, constants)) if hasattr(kernel, "configs") else None
    if best is None:
        return None, ()
    times = {config: _median(time) for config, time in (getattr(kernel, "configs_timings", None) or {}).items()}
    own = best in times and times[best] == min(times.values())
    rows = tuple(plain({**described(config), "ms": finite(time)}) for config, time in times.items()) if own else ()
    return described(best), rows


def _tuning_key(tuner: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> tuple[Any, ...]:
    """What triton.autotune keeps its choice under: the values of its `key` arguments, and every tensor's dtype."""
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **constants}
    known = {name: value for name, value in given.items() if name in tuner.arg_names}
    return (
        *(known[name] for name in tuner.keys if name in known),
        *(str(v.dtype) for v in known.values() if hasattr(v, "dtype")),
    )


def _median(time: Any) -> float:
    """The median of what triton's do_bench gives: three quantiles, or one number."""
    return float(time[0]) if isinstance(time, (list, tuple)) else float(time)


def pruned(tuner: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> list[Any]:
    """The configs of a triton.autotune that its own pruning leaves for these arguments."""
    own = copy.copy(tuner)
    own.nargs = dict(zip(tuner.arg_names, args, strict=False))
    return list(own.prune_configs(dict(constants)))


def said(value: Any) -> Plain:
    """An argument in a few words: a tensor as "float32[4, 8]", a number as itself, a tuple and a descriptor by what is in it."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple):
        return f"({', '.join(str(said(part)) for part in value)})"
    if hasattr(value, "base") and hasattr(value, "block_shape"):
        return f"descriptor of {said(value.base)} in blocks of {list(value.block_shape)}"
    return value if isinstance(value, (int, float, bool, str, type(None))) else str(value)


def grid_of(grid: Any, meta: Mapping[str, Any]) -> tuple[int, ...]:
    """The launch grid as three numbers, () where none is given; InputError for one that is no grid."""
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
