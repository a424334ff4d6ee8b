"""The shapes of `explorer/view/wire.py`: every payload has them, and the front end's types are made of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from explorer.stages import STAGES
from explorer.tracing.traced import Trace
from explorer.view import payload, wire

HERE = Path(__file__).parent
SOURCES = Path(wire.__file__).parent / "widget" / "src"
RECORDINGS = sorted(path.name.removesuffix(".events.json.gz") for path in HERE.glob("data/*.events.json.gz"))


@pytest.fixture(scope="module")
def types(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The module `wire_types.py`."""
    return module_at(HERE / "wire_types.py")


@pytest.fixture
def made(replayed: Callable[[str], Trace]) -> Any:
    """A payload with kernels, fusion and memory, as JSON gives it."""
    return msgspec.json.decode(msgspec.json.encode(payload.payload(replayed("mlp_train-torch2.11-cuda"))))


def test_the_front_end_has_the_types_of_today(types: ModuleType) -> None:
    """`wire.d.ts` is what `make types` writes."""
    assert types.TARGET.read_text(encoding="utf-8") == types.typescript(), "wire.py has changed: make types"


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recording_gives_a_payload_of_the_shape(types: ModuleType, replayed: Callable[[str], Trace], name: str) -> None:
    """The payload of every recorded version has the keys and types of `wire.py`, and no other key."""
    value = msgspec.json.decode(msgspec.json.encode(payload.payload(replayed(name))))
    types.check(value, wire.Payload)
    for artifact in value["artifacts"]:
        # the rows of the other stages are shown as a table, whatever their columns
        for row in artifact.get("rows", ()) if artifact["stage"] in wire.ROWS else ():
            types.check(row, wire.ROWS[artifact["stage"]])


def test_data_that_travels_has_the_shape_that_the_front_end_reads(
    types: ModuleType, replayed: Callable[[str], Trace], tuned: Callable[[str], Trace]
) -> None:
    """Where the front end reads a stage's data, what is short enough to travel has the types of the stage's shape."""
    seen = set()
    with_choice = tuned("views/tuned_bmm-torch2.13-cpu").attach(
        tuned("views/tuned_bmm-torch2.13-cpu").inductor.choices["cpp_CppMicroGemmFP32Vec_0"]
    )
    for trace in (*map(replayed, RECORDINGS), with_choice):
        for artifact in payload.payload(trace)["artifacts"]:
            if shape := wire.DATA.get(artifact["stage"]):
                seen.add(artifact["stage"])
                types.check(artifact["data"], types.partial(shape))
    assert seen == set(wire.DATA)


def test_passes_of_every_compiler_have_the_shape_that_the_front_end_reads(
    types: ModuleType, replayed: Callable[[str], Trace]
) -> None:
    """What the view of passes reads of a pass and of the whole text behind it has one shape, whichever compiler it is of."""
    seen = set()
    for name in RECORDINGS:
        whole = payload.payload(replayed(name))
        passes = {stage["name"]: stage["passes"] for stage in whole["stages"] if "passes" in stage}
        stages = {*passes, *(info["whole"] for info in passes.values())}
        for artifact in (a for a in whole["artifacts"] if a["stage"] in stages):
            seen.add(artifact["stage"])
            if artifact["stage"] in passes:
                assert msgspec.convert(artifact["data"], wire.OF_PASSES).keys() == wire.OF_PASSES.__annotations__.keys()
            else:
                assert isinstance(artifact["data"]["number"], int) and isinstance(artifact["before"], (int, str))
    assert seen == {"iree_pass", "iree_after_pass", "tvm_pass", "tvm_after_pass", "xla_pass"}


def test_the_front_end_names_no_stage_of_another_compiler() -> None:
    """All that it needs of them travels in StageInfo, so a compiler of the user's own is shown in the same way."""
    stages = {stage.name for stage in STAGES if stage.backend not in ("", "inductor")} - {stage.language for stage in STAGES}
    assert {"iree_pass", "tvm_pass", "xla_pass", "openvino_partition"} <= stages
    sources = [path for path in SOURCES.iterdir() if path.suffix == ".js"]
    words = {path.name: set(re.findall(r"\w+", path.read_text(encoding="utf-8"))) for path in sources}
    assert {name: sorted(found & stages) for name, found in words.items() if found & stages} == {} and "passes.js" in words


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda p: p["kernels"][0].pop("cost"), "missing required field `cost`"),
        (lambda p: p["artifacts"][0].update(lines="3"), "Expected `int`, got `str`"),
        (lambda p: p["memory"]["table"][0].update(shape=[]), "does not name .memory.table[].shape"),
        (lambda p: p["links"][0].append(0), "Expected `array` of length 4"),
    ],
)
def test_a_payload_of_another_shape_does_not_pass(
    types: ModuleType, made: Any, change: Callable[[Any], None], error: str
) -> None:
    """A key that is missing, of another type, or not named in `wire.py` is an error that says where."""
    change(made)
    with pytest.raises((msgspec.ValidationError, AssertionError)) as raised:
        types.check(made, wire.Payload)
    assert error in str(raised.value)
