"""A live trace leaves the user's state alone; its check sees inputs, buffers, closures and shared memory too."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.capture.observe.tensors import storage_of
from explorer.lab.live import function as live_function
from explorer.lab.live.call import clone
from tests.facts import says, untold

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")


class Counting(nn.Module):
    """Changes a buffer in place, replaces another, counts in Python, draws random numbers, and writes to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("last", torch.zeros(4))
        self.log: dict[str, torch.Tensor] = {"sum": torch.zeros(())}

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.detach().sum(0))
        self.last = x.detach().mean(0)
        self.log["sum"].add_(1)
        memory.add_(1)
        return nn.functional.dropout(self.norm(x), 0.5) * memory


VERBS: dict[str, Callable[[explorer.Trace], object]] = {
    "result": lambda t: t.live.result,
    "gradients": lambda t: t.live.gradients,
    "run": lambda t: t.live.run(),
    "check": lambda t: t.check(),
    "run with others": lambda t: t.live.run(torch.ones(8, 4), torch.zeros(4)),
    "what_if": lambda t: t.what_if(options={"max_fusion_size": 1}),
    "benchmark": lambda t: t.benchmark(2),
}


def held(module: Counting, *inputs: torch.Tensor) -> list[Any]:
    """Everything that a verb could change, as it is."""
    tensors = [*inputs, *module.parameters(), *module.buffers(), module.log["sum"]]
    values = [(id(t), t.detach().clone(), t._version, t.grad) for t in tensors]
    return [values, torch.get_rng_state(), random.getstate(), sorted(vars(module)), torch.is_autocast_enabled("cpu")]


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    for a, b in zip(one[0], other[0], strict=True):
        if a[0] != b[0] or not torch.equal(a[1], b[1]) or a[2] != b[2] or a[3] is not b[3]:
            return False
    return torch.equal(one[1], other[1]) and one[2:] == other[2:]


@pytest.mark.compile
@pytest.mark.parametrize(("target", "backend"), [("cpu", "aot_eager"), ("h100", "inductor")])
def test_no_verb_changes_what_the_user_has(target: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters, buffers, inputs, random numbers and attributes are as before, whatever is asked of a trace."""
    monkeypatch.setattr(live_function, "DRAWS", 2)  # each draw of a dropout is a call like the others
    module, x, memory = Counting(), torch.randn(8, 4, requires_grad=True), torch.zeros(4)
    trace = explorer.trace(module, x, memory, target=target, backend=backend, train=True)
    assert torch.equal(memory, torch.ones(4)), "the traced call itself is a call"
    before = held(module, x, memory)
    for name, verb in VERBS.items():
        if name == "benchmark" and target == "h100":
            continue
        verb(trace)
        assert same(before, held(module, x, memory)), name


@pytest.mark.compile
def test_a_result_does_not_change_with_what_is_put_back() -> None:
    """What `run` returns of the state is as it was when it was returned."""
    total = torch.zeros(3)

    def count(x: torch.Tensor) -> torch.Tensor:
        return total.add_(x)

    trace = explorer.trace(count, torch.ones(3), backend="aot_eager")
    made = trace.live.run()
    assert torch.equal(total, torch.ones(3)) and torch.equal(made, torch.full((3,), 2.0))


@pytest.mark.compile
def test_a_gpu_that_is_not_attached_is_not_timed() -> None:
    """The CPU's times would mean nothing for it: the error says so, and what to do instead."""
    trace = explorer.trace(torch.sin, torch.randn(8), target="h100")
    with pytest.raises(explorer.errors.InputError, match=says("'h100'", "attached", "t.kernels.table")):
        trace.benchmark()


# What a check sees -----------------------------------------------------------------------------------------------------


class Flipped(torch.autograd.Function):
    """A backward of the wrong sign."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return -gradient


STATE = torch.zeros(3)


def stores(x: torch.Tensor) -> None:
    STATE.copy_(x * 2)


#: A function, its inputs, and what a wrong backend makes of the graph's outputs (and of its inputs).
FAULTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Callable[[Any, Any], Any]]] = {
    "zeros for small numbers": (lambda x: torch.softmax(x, -1), (torch.randn(2, 9000) * 0.1,), lambda a, o: [q * 0 for q in o]),
    "a small number's sign": (lambda x: x * 1e-9, (torch.randn(9),), lambda a, o: [-q for q in o]),
    "an index off by one": (lambda x: x + 1, (torch.arange(70_000, 70_004),), lambda a, o: [q - 1 for q in o]),
    "a large whole number": (lambda x: x * 2, (torch.tensor([2**40 + 1]),), lambda a, o: [q + 1 for q in o]),
    "a boolean": (lambda x: x > 0, (torch.randn(900),), lambda a, o: [q ^ (torch.arange(900) == 7) for q in o]),
    "float64 in float32": (lambda x: x.exp(), (torch.randn(9).double(),), lambda a, o: [q.float().double() for q in o]),
    "a constant of bfloat16": (lambda x: x * 3, (torch.randn(900).bfloat16(),), lambda a, o: [q * 1.02 for q in o]),
    "a term of a sum": (lambda x: x.sum(), (torch.rand(10_000),), lambda a, o: [q - a[0][17] for q in o]),
    "a wrong length": (lambda x: x.mean(), (torch.rand(2000),), lambda a, o: [q * 2000 / 1999 for q in o]),
    "swapped outputs": (lambda x: (x.sin(), x.cos()), (torch.randn(9),), lambda a, o: o[::-1]),
    "one infinity": (lambda x: x * 1e38, (torch.ones(9),), lambda a, o: [q.where(torch.arange(9) > 0, torch.inf) for q in o]),
    "beside an overflow": (
        lambda x: x * x + 0.5,
        (torch.tensor([300.0, 1.0]).half(),),
        lambda a, o: [q.where(q > 9, 1.6) for q in o],
    ),
    "a masked NaN": (lambda x: x.log(), (torch.tensor([-1.0, 2.0]),), lambda a, o: [q.nan_to_num() for q in o]),
    "the type": (lambda x: x * 2, (torch.randn(4),), lambda a, o: [q.double() for q in o]),
    "the strides": (lambda x: x.t() * 2, (torch.randn(3, 4),), lambda a, o: [q.contiguous() for q in o]),
    "a view that is a copy": (lambda x: x.view(-1), (torch.randn(2, 2),), lambda a, o: [q.clone() for q in o]),
    "an input that is changed": (lambda x: x * 2, (torch.randn(4),), lambda a, o: (o, a[0].zero_())[0]),
    "an update in place": (lambda x: (x.mul_(0.5).add_(x.sin()), None)[1], (torch.randn(4),), lambda a, o: (o, a[0].add_(1))[0]),
    "a tensor of the program's": (stores, (torch.randn(3),), lambda a, o: (o, [t.add_(1) for t in a])[0]),
}


def wrongly(how: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A backend that gives something else than the graph."""
    return lambda graph, inputs: lambda *args: tuple(how(args, list(graph(*args))))


@pytest.mark.compile
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    """What a wrong backend makes of values, types, views, inputs or state is unequal."""
    torch.manual_seed(0)
    function, inputs, how = FAULTS[name]
    rows = explorer.trace(function, *clone(inputs), backend=wrongly(how)).check()
    assert any(row["equal"] is False for row in rows), [dict(row) for row in rows]


@pytest.mark.compile
def test_a_small_gradient_of_the_wrong_sign_is_found() -> None:
    """The gradient of a mean is small: that it is near zero is no reason to take it for any other small number."""
    wrong = explorer.trace(
        lambda x: (x * x).mean(),
        torch.randn(20_000, requires_grad=True),
        train=True,
        backend=lambda graph, _: lambda *a: tuple(Flipped.apply(o) for o in graph(*a)),
    )
    assert {row["output"]: row["equal"] for row in wrong.check()} == {"output": True, "gradient of args[0]": False}


@pytest.mark.compile
def test_what_is_no_tensor_is_compared() -> None:
    """Numbers and words are rows too, and attributes of an object of the program's."""

    class Box:
        def __init__(self, value: object) -> None:
            self.value = value

    rows = explorer.trace(lambda x: (x.shape[0], "words", Box(x + 1), None), torch.randn(3), backend="aot_eager").check()
    assert [row["output"] for row in rows] == ["output[0]", "output[1]", "output[2].value"]
    assert all(row["equal"] for row in rows)


@pytest.mark.compile
def test_nothing_compared_is_never_equal() -> None:
    """A function that returns and changes nothing has one row, which says so; a what-if says the same."""
    trace = explorer.trace(lambda x: (x.sin(), None)[1], torch.randn(4), target="h100")
    (row,) = trace.check()
    assert row["equal"] is None and not untold(row["note"], "nothing", "compared")
    found = trace.what_if(options={"max_fusion_size": 1})
    assert found.equal is None and row["note"] in found.note


@pytest.mark.compile
def test_each_row_says_what_was_compared_and_by_which_bound() -> None:
    """Values, type, shape, strides and views; the bound in words; strides are not compared with another device's."""
    (here,) = explorer.trace(torch.sin, torch.randn(8), backend="aot_eager").check()
    assert not untold(here["compared"], "values", "type", "shape", "view", "strides") and "not strides" not in here["compared"]
    assert not untold(here["bound"], "units in the last place", "eager")
    (there,) = explorer.trace(torch.sin, torch.randn(8), target="h100").check()
    assert not untold(there["compared"], "values", "not strides", "CPU")


# Right programs ---------------------------------------------------------------------------------------------------------

RIGHT: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "a chain in bfloat16": (lambda x: torch.tanh(nn.functional.gelu(x * 1.3) + x.sin()) * x, torch.randn(64, 65).bfloat16()),
    "a long sum": (lambda x: x.sum(), torch.randn(300_000)),
    "a variance far from zero": (lambda x: x.var(-1), torch.randn(8, 500) + 100),
    "a scan": (lambda x: x.cumsum(0), torch.randn(3000)),
    "near poles": (lambda x: torch.tan(x * 1.1) + 1 / (x - 0.5), torch.linspace(-3, 3, 2001)),
    "division by small numbers": (lambda x: x / (x * x - 0.25), torch.linspace(-1, 1, 999)),
    "a product in bfloat16": (lambda x: (x @ x.t()).softmax(-1), torch.randn(48, 64).bfloat16()),
    "floats to whole numbers": (lambda x: (torch.sigmoid(x) * 255).to(torch.uint8), torch.randn(2000)),
    "differences that cancel": (lambda x: torch.expm1(x * 1e-4) - x * 1e-4, torch.randn(500)),
}


@pytest.mark.compile
@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_not_called_wrong(name: str) -> None:
    """What another order of rounding makes of a program is no fault."""
    function, x = RIGHT[name]
    rows = explorer.trace(function, x, target="h100").check()
    assert rows and all(row["equal"] for row in rows), [dict(row) for row in rows]


@pytest.mark.compile
def test_autocast_holds_as_it_did_when_it_was_traced() -> None:
    """Autocast for the CPU is none for a GPU; a check outside of it calls the function as the trace did."""
    function = lambda x: torch.relu(x @ x)  # noqa: E731
    with torch.autocast("cpu", dtype=torch.bfloat16):
        there = explorer.trace(function, torch.randn(8, 8), target="h100")
        here = explorer.trace(function, torch.randn(8, 8), backend="aot_eager")
        assert [row["equal"] for row in there.check()] == [True] and torch.is_autocast_enabled("cpu")
    assert there.live.result.dtype == torch.float32 and "bf16" not in there.text("post_grad")
    assert here.live.result.dtype == torch.bfloat16 and [row["equal"] for row in here.check()] == [True]
    assert not torch.is_autocast_enabled("cpu")


# Copies -------------------------------------------------------------------------------------------------------------------


def test_copies_share_memory_as_the_originals_do() -> None:
    """Views of one storage stay views of one, with their strides; a parameter stays one, and keeps its gradient."""
    base = torch.arange(64.0)
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.full((3,), 2.0)
    one, two, wide, parameter = clone((base[:32], base[16:48], base.view(8, 8).t()[::2].expand(4, 8), weight))
    assert storage_of(one) == storage_of(two) == storage_of(wide) != storage_of(base)
    one[16] = -1
    assert two[0] == -1 and wide.stride() == base.view(8, 8).t()[::2].stride()
    assert isinstance(parameter, nn.Parameter) and torch.equal(parameter.grad, weight.grad) and parameter.grad is not weight.grad


@pytest.mark.compile
def test_a_function_that_writes_through_shared_memory_is_checked() -> None:
    """Two halves of one tensor that overlap are so in the copies of a check too."""
    base = torch.arange(64.0)

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2

    trace = explorer.trace(step, base[:32], base[16:48], backend="eager")
    assert all(row["equal"] for row in trace.check())
    assert torch.equal(trace.live.run(), trace.live.result)
