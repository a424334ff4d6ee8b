"""Backends of your own: what they are handed and give back, what runs, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_module_simplified

import explorer
from explorer.model.stage import Stage, text_artifact
from tests.facts import untold

pytestmark = pytest.mark.compile

R = torch.randn


def waves(x: torch.Tensor) -> torch.Tensor:
    y = x.cos()
    return y + 1


def as_it_is(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    return gm


def its_forward(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    return gm.forward


def in_a_closure(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    def run(*args: Any) -> Any:
        return gm(*args)

    return run


class Holding:
    """A callable object that keeps the graph in a field."""

    def __init__(self, gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> None:
        self.gm = gm

    def __call__(self, *args: Any) -> Any:
        return self.gm(*args)


def boxed(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    return make_boxed_func(gm.forward)


def fails_when_called(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    def run(args: list[Any]) -> Any:
        raise ValueError("no such instruction")

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize(
    ("backend", "engine"),
    [(as_it_is, "PyTorch"), (its_forward, "PyTorch"), (in_a_closure, "run (test_own.py:"), (Holding, "Holding (test_own.py:")],
)
def test_the_graph_that_a_backend_keeps_is_shown_and_what_ran_is_named(backend: Callable[..., Any], engine: str) -> None:
    """Whether it is given back itself, bound, or in a closure or a field; the row has its place and counts the call."""
    trace = explorer.trace(waves, R(4), backend=backend)
    assert not trace.failures and all(row["equal"] for row in trace.check())
    (kept,) = trace.find("compiled_fn")
    assert ".cos()" in kept.text and [node["target"] for node in kept.nodes] == ["L_x_", "cos", "_operator.add", "output"]
    (row,) = trace.table("execution")
    assert row["engine"].startswith(engine) and (row["graph"], row["device"], row["calls"]) == ("dynamo", "cpu", 1)


def test_what_a_backend_changed_is_in_its_graph_alone_and_a_wrong_result_is_found() -> None:
    """Dynamo's graph stays as it was handed over; the changed node leads to it by its name, and to the user's line."""

    def wrong(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        next(node for node in gm.graph.nodes if node.target == "cos").target = "sin"
        gm.recompile()
        return gm.forward

    trace = explorer.trace(waves, R(4), backend=wrong)
    (kept,), (handed,), (source,) = trace.find("compiled_fn"), trace.find("dynamo"), trace.find("source")
    assert ".sin()" in kept.text and ".sin()" not in handed.text and ".cos()" in handed.text
    number = next(n for n, line in enumerate(kept.lines, 1) if ".sin()" in line)
    (link,) = [link for link in trace.links if (link.source, link.target) == (kept.id, handed.id) and number in link.source_lines]
    assert [".cos()" in handed.lines[n - 1] for n in link.target_lines] == [True] and link.how == "same name"
    lines = [n for row in trace.follow(kept.id, number) if row["artifact"] == source.id for n in row["lines"]]
    assert [source.lines[n - 1].strip() for n in lines] == ["y = x.cos()"]
    assert [row["equal"] for row in trace.check()] == [False]


def simplified(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    """A backend that calls AOTAutograd itself."""
    return aot_module_simplified(gm, inputs, fw_compiler=boxed)


@pytest.mark.parametrize("backend", [aot_autograd(fw_compiler=boxed), simplified])
def test_behind_aot_autograd_each_graph_has_its_nodes_and_its_row(backend: Callable[..., Any]) -> None:
    """Forward and backward are shown with the nodes that they were handed over with; each ran once, Dynamo's graph did not."""
    torch.manual_seed(0)
    trace = explorer.trace(torch.nn.Linear(4, 4), R(2, 4), backend=backend, train=True)
    assert not trace.failures and all(row["equal"] for row in trace.check())
    assert [(row["graph"], row["calls"]) for row in trace.table("execution")] == [("forward", 1), ("backward", 1)]
    assert {artifact.graph for artifact in trace.find("compiled_fn")} == {"forward", "backward"}
    for stage in ("forward", "backward"):
        (graph,) = trace.find(stage)
        assert any(node["target"].startswith("aten.") for node in graph.nodes)


def test_a_function_that_torch_wraps_is_still_the_one_that_runs() -> None:
    """functorch's make_boxed_func is around it, and the row names the function inside, which runs the graph."""

    def boxing(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        return make_boxed_func(in_a_closure(gm, inputs))

    trace = explorer.trace(waves, R(4), backend=aot_autograd(fw_compiler=boxing))
    (row,) = trace.table("execution")
    assert row["engine"].startswith("run (test_own.py:") and (row["graph"], row["calls"]) == ("inference", 1)
    assert not trace.failures and len(trace.find("compiled_fn")) == 1


def test_a_registered_backend_says_that_pytorch_ran() -> None:
    """Before and after AOTAutograd; one that should have captured a CUDA graph also says why there is none."""
    rows = {name: explorer.trace(waves, R(4), backend=name).table("execution") for name in ("eager", "aot_eager", "cudagraphs")}
    assert all([(row["engine"], row["calls"]) for row in table] == [("PyTorch", 1)] for table in rows.values())
    assert [untold(row["why"], "CUDA graph", "cpu device (arg0_1)") for row in rows["cudagraphs"]] == [[]]
    assert not rows["eager"][0]["why"] and not rows["aot_eager"][0]["why"]
    assert not explorer.trace(waves, R(4), backend="eager").find("compiled_fn"), "PyTorch's own gives back what it got"


# Backends that fail --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forward", "backward", "graph"), [(fails_when_called, boxed, "forward"), (boxed, fails_when_called, "backward")]
)
def test_what_a_backend_gives_back_may_raise_and_the_trace_stands(forward: Any, backward: Any, graph: str) -> None:
    """The Failure says which graph was called and where the code is; every graph up to there is shown."""
    backend = aot_autograd(fw_compiler=forward, bw_compiler=backward)
    trace = explorer.trace(torch.nn.Linear(4, 4), R(2, 4), backend=backend, train=True)
    (failure,) = trace.failures
    assert (failure.stage, failure.step, failure.fatal) == ("compile", "ValueError", True)
    assert failure.message.startswith("no such instruction\n")
    assert not untold(failure.message, "explorer", "run (test_own.py", "backend", f"{graph} graph")
    rows = {row["graph"]: (row["calls"], row["why"]) for row in trace.table("execution")}
    calls, why = rows[graph]
    assert calls == 0 and not untold(why, "ValueError: no such instruction")
    assert trace.find("forward") and trace.find("backward")


def test_an_error_of_the_program_still_goes_through_where_pytorch_runs_the_graph() -> None:
    """An index that is out of bounds is the program's own mistake, whoever made the graph that PyTorch runs."""

    def picked(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.index_select(x, 0, i)

    with pytest.raises((IndexError, RuntimeError)):
        explorer.trace(picked, R(4), torch.tensor([9]), backend=its_forward)


# Around a backend ----------------------------------------------------------------------------------------------------------


def test_the_callable_itself_is_not_changed_and_runs_without_explorer_afterwards() -> None:
    """What the program compiles after the trace gets what the backend gives back, and not a wrapper of explorer's."""
    given: list[Any] = []

    def keeping(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        given.append(gm)
        return gm.forward

    explorer.trace(waves, R(4), backend=keeping)
    compiled = torch.compile(waves, backend=keeping)
    x = R(4)
    assert torch.equal(compiled(x), waves(x)) and len(given) == 2


@pytest.mark.parametrize("backend", [its_forward, simplified])
def test_a_recorded_program_keeps_what_its_backend_gives_back(backend: Callable[..., Any]) -> None:
    """The graphs are shown as in a trace; the program runs what it was given, and who ran it is not said."""
    given: list[Any] = []

    def noting(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        given.append(backend(gm, inputs))
        return given[-1]

    x = R(4)
    with explorer.record(fresh=True) as recording:
        result = torch.compile(lambda x: x.cos() + 1, backend=noting)(x)
        torch.compile(lambda x: x.sin() + 1, backend="aot_eager")(x)
    trace = recording.trace
    assert torch.equal(result, x.cos() + 1) and len(given) == 1 and not trace.failures
    (kept,) = trace.find("compiled_fn")
    assert "cos" in kept.text and not trace.find("execution")
    assert kept.graph == ("inference" if backend is simplified else "")


def test_a_stage_of_ones_own_shows_what_a_backend_tells_it() -> None:
    """In a few lines: `watch` gives the backend a function to call, `render` makes the text, `link` leads to another stage."""
    tell: list[Callable[[str], None]] = []

    def mine(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        tell[-1]("\n".join(f"run {node.name}" for node in gm.graph.nodes if node.op.startswith("call_")))
        return gm.forward

    @contextmanager
    def watch(emit: Any) -> Any:
        tell.append(lambda text: emit("program", lambda: {"text": text}))
        yield

    def link(artifact: Any, trace: Any) -> Any:
        (graph,) = trace.find("dynamo", artifact.frame)
        for number, line in enumerate(artifact.lines, 1):
            name = line.removeprefix("run ")
            at = next(n for n, text in enumerate(graph.lines, 1) if text.strip().startswith(f"{name}:"))
            yield explorer.types.Link(artifact.id, (number,), graph.id, (at,), "name of the node")

    stage = Stage(
        name="program",
        title="My program",
        language="text",
        about="What my backend runs.",
        watch=watch,
        render=lambda event, id: text_artifact(event, id, "My program", "text"),
        link=link,
    )
    trace = explorer.trace(waves, R(4), backend=mine, stages=(*explorer.types.STAGES, stage))
    assert not trace.failures and trace.text("program") == "run y\nrun add"
    (program,), (source,) = trace.find("program"), trace.find("source")
    lines = [n for row in trace.follow(program.id, 1) if row["artifact"] == source.id for n in row["lines"]]
    assert [source.lines[n - 1].strip() for n in lines] == ["y = x.cos()"]


@pytest.mark.parametrize("function", ["_is_inductors", "engine_of", "graphs_in", "devices_of"])
def test_an_error_of_explorers_leaves_the_backend_as_it_is(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where explorer cannot tell what a backend gave back, that runs all the same, and the loss is named."""

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(f"explorer.capture.compilers.own.{function}", broken)
    x = R(8)
    trace = explorer.trace(waves, x, backend=its_forward)
    assert torch.equal(trace.live.result, waves(x))
    assert any("planted" in failure.message for failure in trace.failures)


def test_a_result_in_the_memory_of_an_argument_is_not_equal() -> None:
    """Also where the backend hands the memory back in a storage of its own, as another library does by DLPack."""

    def same_memory(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        return lambda x: (torch.from_dlpack(x.detach()),)

    (row,) = explorer.trace(lambda x: x * 1, R(3), backend=same_memory).check()
    assert row["equal"] is False and row["note"] == "it is a view of args[0], of eager of nothing"
