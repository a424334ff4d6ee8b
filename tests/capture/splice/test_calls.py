"""The calls of a compiled function's wrappers, with their arguments and results."""

from __future__ import annotations

import itertools
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.splice.calls import CALL, replace_call
from explorer.capture.splice.wrappers import LoadedWrapper
from explorer.lab.live.protocol import needs_live


def program(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.sin() * 2


@pytest.mark.compile
@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_a_call_has_its_arguments_of_before_and_after_and_what_it_returned(target: str) -> None:
    """The code is given the input as it was, leaves it changed, and returns what eager does."""
    x = torch.randn(8, 16)
    trace = explorer.trace(program, x.clone(), target=target)
    live = needs_live(trace, "")
    (call,) = live.calls()
    assert call.file == live.wrappers[0].file
    assert torch.equal(call.before[0], x) and torch.allclose(call.after[0], x + 1)
    assert torch.allclose(call.returned[0], (x + 1).sin() * 2)
    assert [row["equal"] for row in trace.check()] == [True, True]


@pytest.mark.compile
def test_forward_and_backward_are_recorded_in_their_order() -> None:
    """A training trace has two calls, the first of the forward."""
    x = torch.randn(8, 16, requires_grad=True)
    trace = explorer.trace(lambda x: (x.sin() * 2).cos(), x, target="h100", train=True)
    files = [artifact.data["file"] for graph in ("forward", "backward") for artifact in trace.find("output_code", graph=graph)]
    assert [call.file for call in needs_live(trace, "").calls()] == files


MODULE = """
class Runner:
    def call(self, args):
        return [*args, "original"]

call = Runner().call
"""


@pytest.fixture(params=["as loaded", "edited"])
def wrapper(request: pytest.FixtureRequest, tmp_path: Path) -> LoadedWrapper:
    """A module with a call as Inductor makes it, and one that is called by its name."""
    module = types.ModuleType("made")
    module.__file__ = str(tmp_path / "made.py")
    exec(MODULE, vars(module))
    return LoadedWrapper(module, edited=MODULE if request.param == "edited" else None)


def caller(wrapper: LoadedWrapper) -> Callable[[Any], Any]:
    """What calls a wrapper: torch took the method from the module, an edited one is looked up by its name."""
    taken = vars(wrapper.module)[CALL]
    return (lambda args: vars(wrapper.module)[CALL](args)) if wrapper.edited is not None else taken


def adding(name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A replacement that puts its name after what the call in its place returns."""
    return lambda call: lambda args: [*call(args), name]


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_replacements_stand_on_each_other_and_go_in_any_order(wrapper: LoadedWrapper, order: tuple[str, ...]) -> None:
    """The calls of two threads overlap: what was put first may be taken away first. The others stay, and last the original."""
    call = caller(wrapper)
    undo = {name: replace_call(wrapper, adding(name)) for name in "abc"}
    standing = list("abc")
    assert call(["x"]) == ["x", "original", *standing]
    for name in order:
        undo[name]()
        undo[name]()  # a second time it does nothing
        standing.remove(name)
        assert call(["x"]) == ["x", "original", *standing]
    again = replace_call(wrapper, adding("again"))
    assert call([]) == ["original", "again"]
    again()
    assert call([]) == ["original"]


def test_a_replacement_put_or_undone_during_a_call_leaves_it_whole(wrapper: LoadedWrapper) -> None:
    """The call ends with what stood when it began; the next one has what stands then."""
    call, undo = caller(wrapper), {}

    def changing(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(args: Any) -> Any:
            undo["changing"]()
            undo["put"] = replace_call(wrapper, adding("put"))
            return inner(args)

        return run

    undo["changing"] = replace_call(wrapper, changing)
    assert call([]) == ["original"]
    assert call([]) == ["original", "put"]
    undo["put"]()
    assert call([]) == ["original"]


def test_threads_that_replace_and_call_at_once_see_a_whole_function(wrapper: LoadedWrapper) -> None:
    """Each sees its own replacement; none an error, whichever ends first."""
    call, wrong = caller(wrapper), []

    def work(name: str) -> None:
        try:
            for _ in range(200):
                undo = replace_call(wrapper, adding(name))
                seen = call([])
                undo()
                if seen[0] != "original" or name not in seen:
                    wrong.append(seen)
        except Exception as error:  # noqa: BLE001 - a thread's errors are lost otherwise
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and call([]) == ["original"]
