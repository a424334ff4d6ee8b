"""What several tests need: the programs, and the traces replayed from recorded events."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from explorer.files import load_events
from explorer.model import Artifact, Event, Failure, plain
from explorer.replay import replay
from explorer.traced import Trace

HERE = Path(__file__).parent
Recorded = tuple[list[Event], list[Failure], dict[str, object]]


@pytest.fixture(scope="session")
def programs() -> ModuleType:
    """The module `programs.py`, loaded by its path."""
    spec = importlib.util.spec_from_file_location("programs", HERE / "programs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def read(name: str) -> Recorded:
    """The events file `data/NAME.events.json.gz`."""
    return load_events((HERE / "data" / f"{name}.events.json.gz").read_bytes(), name)


@cache
def replay_of(name: str) -> Trace:
    """The trace of the events file `data/NAME.events.json.gz`."""
    return replay(*read(name))


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Recorded]:
    """Events, failures and meta of a recording, such as `recorded("sin_cos-torch2.13-cpu")`."""
    return read


@pytest.fixture(scope="session")
def replayed() -> Callable[[str], Trace]:
    """The trace of a recording, such as `replayed("sin_cos-torch2.13-cpu")`; made once."""
    return replay_of


@pytest.fixture(scope="session")
def with_source() -> Callable[..., Trace]:
    """A trace with one source, and other artifacts where given: `with_source(text, file, first_line, *artifacts)`."""

    def make(text: str, file: str, first_line: int, *others: Artifact) -> Trace:
        data = plain({"file": file, "first_line": first_line, "resume": False})
        return Trace(artifacts=(Artifact("0/0:source", "source", "0/0", "", "f", "python", text, data=data), *others))

    return make
