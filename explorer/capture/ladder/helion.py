"""Lower a kernel that Helion wrote: its function of the host is called without data, and says what it would launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from explorer.capture.ladder.ladder import Dialects, Lowered, execute_source, lines_of, lower, triton_driver_of
from explorer.capture.ladder.triton_jit import lower_call
from explorer.errors import InputError
from explorer.model.values import Plain
from explorer.reference.gpus.figures import Target
from explorer.stages.inductor.helion import CALL


def lower_with_call(
    source: str, name: str, target: Target, config: int | Mapping[str, Plain] | None = None, dialects: Dialects | None = None
) -> Lowered:
    """Lower a kernel as `lower` does; where its call is written below its source, by what that call launches.

    InputError where the call cannot be made without a GPU, or does not launch one kernel.
    """
    if CALL not in source:
        return lower(source, name, target, config, dialects)
    file = f"{name}.py"
    launches: list[tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = []

    def launcher(kernel: Any, grid: Any, *args: Any, **options: Any) -> None:
        launches.append((kernel, grid, args, options))

    with triton_driver_of(target), lines_of(file, source):
        space = execute_source(source, name, file)
        asking_of(space, target)
        try:
            space[name](*space[CALL], _launcher=launcher)
        except Exception as error:
            raise InputError(f"{name} cannot be called without a GPU: {type(error).__name__}: {error}") from error
        if len(launches) != 1:
            raise InputError(
                f"{name} launches {len(launches)} Triton kernels, and explorer compiles a Helion kernel that launches one"
            )
        kernel, grid, args, options = launches[0]
        stated = stated_options(options)
        made = lower_call(kernel, args, stated, grid, target, None)
    chosen: dict[str, Plain] = {option: value for option, value in stated.items() if isinstance(value, (int, str))}
    arguments = tuple(space[name].__code__.co_varnames[: space[name].__code__.co_argcount])
    parts = tuple(str(part) for part in (*made.grid, 1, 1)[:3])
    return replace(made.lowered, name=name, file=file, first_line=1, config=chosen, arguments=arguments, grid=parts)


def stated_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a launch that are triton's: those that begin with "_" are for Helion's own launcher."""
    return {option: value for option, value in options.items() if not option.startswith("_")}


def asking_of(space: dict[str, Any], target: Target) -> None:
    """Answer for a target what a persistent kernel's function of the host asks Helion: how many multiprocessors the GPU has."""
    if "helion" in space:
        asked = SimpleNamespace(get_num_sm=lambda device, *, reserved_sms=0: target.multiprocessors - reserved_sms)
        space["helion"] = SimpleNamespace(runtime=asked)
