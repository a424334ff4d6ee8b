"""values: what a statement bound comes back equal, and what cannot says so at any use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.model.values import Table
from explorer.tracing.recording.record import Recording
from explorer.tracing.traced import Trace
from explorer.workshop.classpack.recorded import Recorded
from explorer.workshop.classpack.values import Keeper, NotRecorded, files_of, restored
from explorer.workshop.quiz import Number, Question, Quiz, at
from tests.facts import says, untold


def through(value: Any, folder: Path) -> Any:
    """The value, described as JSON and restored."""
    return restored("v", json.loads(json.dumps(Keeper(str(folder)).described(value))), folder)


def test_traces_and_what_is_made_of_them_come_back(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """A trace, a recording of it, one of its kernels and a comparison are equal after the way through files."""
    one, other = replayed("sin_cos-torch2.13-cpu"), replayed("sin_cos-torch2.15-cpu")
    assert through(one, tmp_path) == one
    assert through(Recording(_trace=one), tmp_path).trace == one
    assert through(one.kernels[0], tmp_path) == one.kernels[0]
    compared = explorer.compare(one, other, names=("a", "b"))
    back = through(compared, tmp_path)
    assert (back.traces, back.names, str(back)) == (compared.traces, compared.names, str(compared))
    assert through({8: one, "other": other}, tmp_path) == {8: one, "other": other}


@pytest.mark.parametrize("value", [None, 1, 2.5, True, "text", [1, [2]], {"a": {"b": None}}, Table([{"a": 1}], ["a"])])
def test_plain_values_come_back(value: object, tmp_path: Path) -> None:
    """What JSON holds as it is comes back as it was, of the same type."""
    back = through(value, tmp_path)
    assert back == value and type(back) is type(value)


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, object(), len, [object()], {"a": (1,)}])
def test_what_json_would_change_is_not_recorded(value: object, tmp_path: Path) -> None:
    """A tuple, a dict with other keys, an object: each use of what stands for it raises NotInstalledError with its name."""
    absent = through(value, tmp_path)
    assert isinstance(absent, NotRecorded) and not untold(repr(absent), "v", "class pack", "PyTorch")
    uses: list[Callable[[], object]] = [
        lambda: absent.shape,
        lambda: absent(1),
        lambda: absent[0],
        lambda: list(absent),
        lambda: bool(absent),
        lambda: absent == 1,
        lambda: absent + 1,
        lambda: 1 * absent,
        lambda: 1 in absent,
    ]
    for use in uses:
        with pytest.raises(
            explorer.errors.NotInstalledError, match=says("v", "PyTorch", "class pack", "torch-compile-explorer[full]")
        ):
            use()


def test_a_trace_that_two_names_have_is_saved_once(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """The keeper describes what is new or another object since it looked, and writes a trace once."""
    trace = replayed("sin_cos-torch2.13-cpu")
    keeper = Keeper(str(tmp_path))
    names: dict[str, Any] = {"old": 1, "t": None, "_hidden": 0}
    keeper.look(names)
    names.update(t=trace, same=trace, _hidden=2)
    bound = keeper.bound(names)
    assert list(bound) == ["t", "same"] and len(list(tmp_path.iterdir())) == 1
    assert files_of(bound["t"]) == files_of(bound["same"]) == ["trace_0.json.gz"]


def test_the_subject_of_a_question_is_kept_where_its_file_has_the_truth(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """A truth that the texts hold can be asked of the file; one that needs the process cannot, nor one that is another there."""
    trace = replayed("sin_cos-torch2.13-cpu")

    def needs_the_process(t: Trace) -> int:
        raise explorer.errors.LiveError("this trace was loaded")

    questions = {"Q.1": lambda t: len(t.kernels), "Q.2": needs_the_process, "Q.3": id}
    items = [
        Question(id=id, text="?", fields=(Number(),), make=lambda: trace, truth=truth, hint="", where=lambda t: at(t, "kernel"))
        for id, truth in questions.items()
    ]
    described = Keeper(str(tmp_path)).subjects({"q": Quiz(*items), "x": 1})
    assert list(described) == ["Q.1"] and restored("Q.1", described["Q.1"], tmp_path) == trace
    quiz = Quiz(*items)
    (tmp_path / "recorded.json").write_text(json.dumps({"made_with": "PyTorch", "steps": {}, "subjects": described}))
    Recorded(str(tmp_path)).judge(quiz)
    assert quiz("Q.1").trace is not trace and quiz("Q.1").judge(len(trace.kernels)).is_right
