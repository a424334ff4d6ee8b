"""XLA's client for this machine's CPU, as jaxlib has it; jax is not needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

#: What says from which level on XLA's C++ code logs to stderr; read once, when it is loaded. 2 is errors.
LOG_LEVEL, ERRORS = "TF_CPP_MIN_LOG_LEVEL", "2"


@lru_cache(maxsize=1)
def cpu_client() -> Any:
    """Return the client. Its calls return only when the results are there: torch may change an input right after a call."""
    with _quiet():
        from jaxlib import xla_client

        return xla_client.make_cpu_client(asynchronous=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside the block XLA that is loaded logs errors alone, but where the user chose otherwise."""
    if LOG_LEVEL in os.environ:
        yield
        return
    os.environ[LOG_LEVEL] = ERRORS
    try:
        yield
    finally:
        os.environ.pop(LOG_LEVEL, None)


def overrides(flags: Sequence[str]) -> list[tuple[str, Any]]:
    """XLA's flags as a compile of jaxlib's takes them: "--xla_a=1" is ("xla_a", "1"), and "--xla_b" is ("xla_b", True)."""
    pairs = (flag.removeprefix("--").partition("=") for flag in flags)
    booleans = {"true": True, "false": False}  # as XLA_FLAGS has them; such a compile takes no texts for them
    return [(name, booleans.get(value, value) if equals else True) for name, equals, value in pairs]


def load(source: str, options: Any) -> Any:
    """Compile a module of StableHLO and load it; an error is XLA's own."""
    client = cpu_client()
    from jaxlib import xla_client

    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    return client.compile_and_load(source.encode(), devices, options)


def compile_options(flags: Sequence[str]) -> Any:
    """Return the options of a compile with these XLA flags, which apply to no other compile."""
    cpu_client()  # loads XLA, which logs as it says
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    options.env_option_overrides = overrides(flags)
    return options
