"""What calls do with CUDA graphs, as torch's own tree of them decides: warm up, record, record again and why, replay."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.capture.observe import cuda_graph_runs as module
from explorer.stages.inductor.cuda_graph import (
    MOVED_INPUT,
    MOVED_OUTPUT,
    NEW_SIZE,
    OTHER_PLACE,
    OTHER_THREAD,
    RECORDED,
    RECORDED_AGAIN,
    REPLAYED,
    SKIPPED_CALL,
    STEP_NOT_OVER,
    STILL_ALIVE,
    WARMED_UP,
)
from tests.cuda_graphs_on_cpu import Backend, cuda_graphs_on_cpu
from tests.facts import untold

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, tests/gpu asks the same of real CUDA graphs"),
]

Rows = list[Mapping[str, Any]]


@pytest.fixture
def backend() -> Iterator[Backend]:
    with cuda_graphs_on_cpu() as made:
        yield made


def rows_of(trace: explorer.Trace, decision: str = "") -> Rows:
    """The rows of what calls did."""
    assert not trace.failures
    return [row for row in trace.inductor.cuda_graphs if decision in ("", row["decision"])]


def counts(trace: explorer.Trace) -> dict[str, int]:
    """How often calls did each thing."""
    counted: dict[str, int] = {}
    for row in rows_of(trace):
        counted[row["decision"]] = counted.get(row["decision"], 0) + row["count"]
    return counted


def steady(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    return y + 1


def test_a_steady_function_is_recorded_once(backend: Backend) -> None:
    """Its first call warms up, the second records, all others replay; each row has the compile, the function and its line."""
    with explorer.record() as recording:
        compiled = torch.compile(steady, backend=backend)
        results = [compiled(torch.ones(8)).clone() for _ in range(6)]
    trace = recording.trace
    assert counts(trace) == {WARMED_UP: 1, RECORDED: 1, REPLAYED: 4}
    for row in rows_of(trace):
        assert (row["frame"], row["graph"], row["what"], row["function"]) == ("0/0", "inference", "the graph", "steady")
        assert (row["file"], row["line"], row["code"]) == (
            __file__,
            steady.__code__.co_firstlineno,
            "def steady(x: torch.Tensor) -> torch.Tensor:",
        )
        assert ("seconds" in row) == (row["decision"] != REPLAYED)
    assert all(torch.equal(each, steady(torch.ones(8))) for each in results)
    (text,) = trace.find("cuda_graph")
    assert len(text.lines) == len(rows_of(trace)) and not untold(text.text, "replayed 4 times", "recorded 1 time")


def test_each_size_is_recorded_and_named(backend: Backend) -> None:
    """Four sizes are four recordings of one graph: the first, and three again in one row with their sizes."""
    with explorer.record() as recording:
        compiled = torch.compile(steady, backend=backend, dynamic=True)
        for size in (8, 16, 24, 32):
            for _ in range(3):
                compiled(torch.ones(size))
    assert counts(recording.trace) == {WARMED_UP: 4, RECORDED: 1, RECORDED_AGAIN: 3, REPLAYED: 4}
    (again,) = rows_of(recording.trace, RECORDED_AGAIN)
    assert again["count"] == 3 and again["reason"] == f"{NEW_SIZE}: 16, 24, 32" and again["function"] == "steady"


def test_many_sizes_are_no_skip_and_the_first_are_named(backend: Backend) -> None:
    """torch warns of many sizes in the log in which it says what it skips; here nothing is skipped."""
    with explorer.record() as recording:
        compiled = torch.compile(steady, backend=backend, dynamic=True)
        for size in range(8, 20):
            for _ in range(2):
                compiled(torch.ones(size))
    assert counts(recording.trace) == {WARMED_UP: 12, RECORDED: 1, RECORDED_AGAIN: 11}
    (again,) = rows_of(recording.trace, RECORDED_AGAIN)
    assert again["reason"] == f"{NEW_SIZE}: 9, 10, 11, 12, 13, 14, 15, 16, and 3 more"


class Net(nn.Module):
    """A module with two parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.ones(8), requires_grad=False)
        self.weight = nn.Parameter(torch.ones(8), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * self.weight
        return y + self.bias


def test_a_parameter_that_moves_is_named_with_its_line(backend: Backend) -> None:
    """Its graph is recorded again, at the line that uses it; the same tensor with new values is not."""
    net = Net()
    with explorer.record() as recording:
        compiled = torch.compile(net, backend=backend)
        for _ in range(3):
            compiled(torch.ones(8))
        net.weight.copy_(torch.zeros(8))
        compiled(torch.ones(8))
        net.weight.data = torch.full((8,), 2.0)
        compiled(torch.ones(8))
    (again,) = rows_of(recording.trace, RECORDED_AGAIN)
    assert again["count"] == 1 and again["code"] == "y = x.sin() * self.weight"
    assert re.fullmatch(rf"{MOVED_INPUT}: weight \(\w+\)", again["reason"])


def test_another_thread_has_its_own_recordings(backend: Backend) -> None:
    """torch keeps a tree for each thread; what calls do there is counted too."""
    with explorer.record() as recording:
        compiled = torch.compile(steady, backend=backend)

        def call() -> None:
            for _ in range(3):
                compiled(torch.ones(8))

        call()
        other = threading.Thread(target=call)
        other.start()
        other.join()
    assert counts(recording.trace) == {WARMED_UP: 2, RECORDED: 1, RECORDED_AGAIN: 1, REPLAYED: 2}
    assert [row["reason"] for row in rows_of(recording.trace, RECORDED_AGAIN)] == [OTHER_THREAD]


def first(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x * weight).sin()


def second(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x + weight).cos()


def test_graphs_that_change_places_name_the_graph_before_them(backend: Backend) -> None:
    """Where a step calls two functions in the other order, each is recorded once more; then both orders are replayed."""
    weight = torch.ones(8, requires_grad=True)
    with explorer.record() as recording:
        functions = [torch.compile(each, backend=backend) for each in (first, second)]
        for order in (1, 1, 1, -1, -1, 1):
            results = [function(torch.ones(8), weight) for function in functions[::order]]
            torch.stack(results).sum().backward()
            weight.grad = None
            del results
    again = {(row["frame"], row["graph"]): row["reason"] for row in rows_of(recording.trace, RECORDED_AGAIN)}
    assert again["1/0", "forward"] == f"{OTHER_PLACE}: now it is the first of a step"
    assert again["0/0", "forward"] == f"{OTHER_PLACE}: the forward graph of 1/0"
    assert ("0/0", "backward") in again and all(reason.startswith(OTHER_PLACE) for reason in again.values())
    assert {row["count"] for row in rows_of(recording.trace, RECORDED_AGAIN)} == {1}


@pytest.mark.parametrize(("steps", "did"), [(0, WARMED_UP), (2, RECORDED_AGAIN)])
@pytest.mark.filterwarnings("ignore:Unable to hit fast path")
def test_a_forward_that_waits_for_its_backward_keeps_the_step_open(backend: Backend, steps: int, did: str) -> None:
    """Each next forward goes behind it: it is recorded again, or warmed up again if that happens before it is recorded."""
    weight = torch.ones(8, requires_grad=True)
    with explorer.record() as recording:
        compiled = torch.compile(first, backend=backend)
        for _ in range(steps):
            compiled(torch.ones(8), weight).sum().backward()
            weight.grad = None
        waiting = [compiled(torch.ones(8), weight) for _ in range(4)]
    assert len(waiting) == 4
    (row,) = (row for row in rows_of(recording.trace, did) if row["reason"] == STEP_NOT_OVER)
    assert row["count"] == 3 and row["function"] == "first"


def both(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * weight
    return y.sin(), y.cos()


def keeping_an_output(backend: Backend) -> explorer.Trace:
    """Run two graphs in each step. The output of the first is gone before the second runs, but not in the last step."""
    weight = torch.ones(8, requires_grad=True)
    with explorer.record() as recording:
        functions = [torch.compile(each, backend=backend) for each in (both, second)]
        for keeps in (False, False, True):
            sin, cos = functions[0](torch.ones(8), weight)
            kept = [sin] if keeps else []
            del sin
            (functions[1](torch.ones(8), weight) + cos).sum().backward()
            kept.clear()
            weight.grad = None
    return recording.trace


def test_an_output_that_is_still_alive_is_at_the_line_that_made_it(backend: Backend) -> None:
    """The graph behind it was recorded when it was gone, and is recorded again where the program keeps it."""
    rows = [row for row in rows_of(keeping_an_output(backend), RECORDED_AGAIN) if row["reason"] == STILL_ALIVE]
    assert [(row["frame"], row["graph"], row["code"]) for row in rows] == [("1/0", "forward", "return y.sin(), y.cos()")]


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # Dynamo asks every input, and hides the warning
def test_a_clone_in_place_of_another_graphs_output_is_named(backend: Backend) -> None:
    """A graph reads the output of another one where it is, so that a clone of it means another recording."""
    weight = torch.ones(8, requires_grad=True)
    with explorer.record() as recording:
        functions = [torch.compile(each, backend=backend) for each in (first, second)]
        for clones in (False, False, False, True):
            y = functions[0](torch.ones(8), weight)
            functions[1](y.clone() if clones else y, weight).sum().backward()
            weight.grad = None
    reasons = [row["reason"] for row in rows_of(recording.trace, RECORDED_AGAIN) if row["graph"] == "forward"]
    assert len(reasons) == 1 and re.fullmatch(rf"{MOVED_OUTPUT}: x \(\w+\)", reasons[0])


def test_a_graph_that_torch_gives_up_to_record_is_skipped_with_its_reason(backend: Backend) -> None:
    """torch records a graph again only so often; then it says so once, and runs the graph without."""
    with torch._inductor.config.patch({"triton.cudagraph_unexpected_rerecord_limit": 0}):
        trace = keeping_an_output(backend)
    (row,) = rows_of(trace, SKIPPED_CALL)
    assert (row["frame"], row["graph"], row["count"]) == ("1/0", "forward", 1)
    assert row["reason"].startswith("function 1 ") and not untold(row["reason"], "re-recording limit", "live")
    assert len([line for a in trace.find("cuda_graph") for line in a.lines]) == len(rows_of(trace))


def test_a_changed_input_is_counted_with_torchs_reason(backend: Backend) -> None:
    """torch says it once; each call that runs without a CUDA graph counts, at the line of the change."""

    def changing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    with explorer.record() as recording:
        compiled = torch.compile(changing, backend=backend)
        for _ in range(4):
            compiled(torch.ones(8), torch.ones(8))
    (row,) = rows_of(recording.trace)
    assert (row["frame"], row["decision"], row["count"], row["code"]) == ("0/0", SKIPPED_CALL, 4, "x.add_(y)")
    assert row["reason"].startswith("mutated inputs")


def test_what_was_compiled_before_is_not_counted(backend: Backend) -> None:
    """A recording has no frame of such a function."""
    compiled = torch.compile(steady, backend=backend)
    compiled(torch.ones(8))
    with explorer.record() as recording:
        compiled(torch.ones(8))
    assert rows_of(recording.trace) == []


def test_an_error_of_explorers_leaves_the_program_and_torch_as_they_were(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are right, a Failure says what was lost, and every function of torch's is its own again."""
    from torch._inductor import compile_fx, cudagraph_trees

    places = (
        (compile_fx, "cudagraphify"),
        (cudagraph_trees, "cudagraphify_impl"),
        *((cudagraph_trees.CUDAGraphTreeManager, name) for name in ("_run", "run_eager", "record_function")),
        (cudagraph_trees.CUDAGraphNode, "check_invariants"),
    )
    before = [vars(owner)[name] for owner, name in places]

    def broken(*args: object) -> str:
        raise RuntimeError("injected")

    monkeypatch.setattr(module, "_sizes", broken)
    with explorer.record() as recording:
        compiled = torch.compile(steady, backend=backend)
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(8)), steady(torch.ones(8)))
    assert [vars(owner)[name] for owner, name in places] == before
    assert {(f.stage, f.message) for f in recording.trace.failures} == {("cuda_graph", "RuntimeError: injected")}
