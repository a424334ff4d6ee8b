"""Copies of FX graphs, of which the texts are written later."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

import explorer
from explorer.capture.observe.fx import graph_record
from explorer.capture.observe.fx_copy import GraphCopy, NotCopied, copied, graph_facts


class Scaled(nn.Module):
    """Two layers with a parameter, a buffer and a reshape whose sizes may be symbolic."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale what the layer gives, and slice it."""
        return torch.relu(self.linear(x) * self.scale)[1:].reshape(-1, 2).sum(dim=[0])


def branches(x: torch.Tensor) -> torch.Tensor:
    """A cond, which has a graph for each branch."""
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos().tanh(), (x,))


def checkpointed(x: torch.Tensor) -> torch.Tensor:
    """A function whose values are computed again in the backward."""
    return torch.utils.checkpoint.checkpoint(lambda x: torch.sin(x).exp(), x, use_reentrant=False)  # type: ignore[no-any-return]


def of_several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Operators of several results, keyword arguments, devices, dtypes and other constants."""
    values, indices = torch.sort(x, dim=-1, descending=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = x @ x.T
    return values.to(torch.float64), indices, product, torch.full((2,), float("inf"), device="cpu"), *x.split([1, 3])


CASES = {
    "module": (Scaled, lambda: (torch.randn(4, 4, requires_grad=True),), False),
    "dynamic": (Scaled, lambda: (torch.randn(6, 4, requires_grad=True),), True),
    "branches": (lambda: branches, lambda: (torch.randn(4),), False),
    "checkpoint": (lambda: checkpointed, lambda: (torch.randn(4, requires_grad=True),), False),
    "several": (lambda: of_several, lambda: (torch.randn(4, 4),), False),
}


def with_each_graph(case: str, see: Callable[[Any], None]) -> int:
    """Call `see` with Dynamo's and AOTAutograd's graphs of a case while they are compiled; how many there were."""
    make, inputs, dynamic = CASES[case]
    count = [0]

    def seen(gm: Any) -> None:
        count[0] += 1
        see(gm)

    def lower(gm: Any, _: Any) -> Any:
        seen(gm)
        return make_boxed_func(gm.forward)

    def compiler(gm: Any, example_inputs: Any) -> Any:
        seen(gm)
        return aot_autograd(fw_compiler=lower, bw_compiler=lower)(gm, example_inputs)

    torch._dynamo.reset()
    result = torch.compile(make(), backend=compiler, dynamic=dynamic)(*inputs())
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
    return count[0]


@pytest.mark.compile
@pytest.mark.parametrize("case", CASES)
def test_a_copy_is_written_as_torch_writes_the_graph(case: str) -> None:
    """Texts, rows and stacks are those of the graph at the time of the copy, also after all nodes have other names."""
    pairs = []

    def see(gm: Any) -> None:
        copy = copied(gm, lambda node: f"made {node.op}")
        assert copy is not None
        pairs.append((copy, graph_record(gm, lambda node: f"made {node.op}")))

    assert with_each_graph(case, see) >= 2
    for copy, record in pairs:
        assert record.text and record.nodes
        assert copy.written() == record
        assert copy.stacks == record.stacks


def test_a_copy_stays_as_it_was_when_the_graph_changes() -> None:
    """A pass that renames, erases and replaces afterwards is not in the text."""
    graph = torch.fx.symbolic_trace(lambda x: (x + 1).relu() * 2)
    copy, record = copied(graph), graph_record(graph)
    for node in graph.graph.nodes:
        node.name += "_renamed"
        node.meta["stack_trace"] = "later"
    relu = next(node for node in graph.graph.nodes if node.op == "call_method")
    relu.replace_all_uses_with(relu.args[0])
    graph.graph.erase_node(relu)
    assert copy is not None and copy.written() == record != graph_record(graph)


#: What stays in the process anyway, whoever holds it.
OF_THE_PROCESS = (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType, torch._ops.OpOverload)


def reachable(value: object) -> list[object]:
    """All that a value holds, through whatever it holds, but for what types, functions, modules and operators have."""
    found, queue = {id(value): value}, [value]
    while queue:
        for each in gc.get_referents(queue.pop()):
            if id(each) not in found and not isinstance(each, (*OF_THE_PROCESS, torch._ops.HigherOrderOperator)):
                found[id(each)] = each
                queue.append(each)
    return list(found.values())


@pytest.mark.compile
@pytest.mark.parametrize("case", CASES)
def test_a_copy_holds_nothing_of_the_program(case: str) -> None:
    """No tensor, fake or not, no module, node or symbolic size is kept until the trace is read."""
    held: list[object] = []
    with_each_graph(case, lambda gm: held.extend(reachable(copied(gm))))
    kinds = (torch.Tensor, nn.Module, torch.fx.Node, torch.fx.Graph, torch.SymInt, torch.SymFloat, torch.SymBool)
    assert len(held) > 100
    assert not [each for each in held if isinstance(each, kinds)]  # nor what says that it is one


def test_a_graph_that_cannot_be_copied_is_written_at_once() -> None:
    """Such as one with a tensor as an argument, or a target that holds something of the program's."""

    def with_tensor(graph: torch.fx.Graph, x: Any) -> Any:
        return graph.call_function(torch.add, (x, torch.ones(2)))

    def with_closure(graph: torch.fx.Graph, x: Any) -> Any:
        return graph.call_function(lambda value: value + len(CASES) + offset, (x,))

    offset = 3
    for add in (with_tensor, with_closure):
        graph = torch.fx.Graph()
        graph.output(add(graph, graph.placeholder("x")))
        gm = torch.fx.GraphModule({}, graph)
        with pytest.raises(NotCopied):
            GraphCopy.of(gm)
        assert graph_facts(gm) == graph_record(gm)


@pytest.mark.compile
@pytest.mark.parametrize(("broken", "message"), [("of", "RuntimeError: boom"), ("written", "0/0: RuntimeError: boom")])
def test_an_error_in_a_copy_is_a_failure_of_the_graph_s_stage(broken: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the graph is copied or when it is written, the program's result is right and the rest of the trace is there."""

    def boom(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(GraphCopy, broken, boom)
    x = torch.randn(4)
    trace = explorer.trace(torch.sin, x, backend="eager")
    assert torch.equal(trace.live.result, x.sin())
    assert trace.find("dynamo_bytecode") and not trace.find("dynamo")
    assert [(f.stage, f.message) for f in trace.failures] == [("dynamo", message)]
