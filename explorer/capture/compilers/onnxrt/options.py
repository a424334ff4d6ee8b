"""Check the options of a trace by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.errors import InputError, unknown_name
from explorer.stages.onnxrt.graph import ONNXRT_LEVELS

#: The provider that every build of ONNX Runtime has.
CPU = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The options of a trace; `threads` is None for as many as torch's."""

    level: str
    threads: int | None
    providers: tuple[str, ...]
    optimize: bool


def chosen(options: Mapping[str, Any]) -> Chosen:
    """The options that a user gave; InputError, with what there is, for a value that ONNX Runtime does not have."""
    return Chosen(
        level=_level(options.get("level", "all")),
        threads=_threads(options.get("threads")),
        providers=_providers(options.get("providers", (CPU,))),
        optimize=_optimize(options.get("optimize", False)),
    )


def _level(value: object) -> str:
    if value not in ONNXRT_LEVELS:
        raise unknown_name("level of ONNX Runtime", str(value), ONNXRT_LEVELS)
    return str(value)


def _threads(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"options['threads'] is a number of threads, 1 or more, not {value!r}")
    return value


def _providers(value: object) -> tuple[str, ...]:
    import onnxruntime

    if isinstance(value, str) or not isinstance(value, (list, tuple)) or not value:
        raise InputError(f"options['providers'] is a list of execution providers, such as [{CPU!r}], not {value!r}")
    available = tuple(onnxruntime.get_available_providers())
    for name in value:
        if name not in available:
            raise unknown_name("execution provider of the ONNX Runtime that is installed", str(name), available)
    return tuple(value)


def _optimize(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"options['optimize'] is True or False, not {value!r}")
    return value
