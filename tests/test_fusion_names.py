"""Fusion asked with the names of the program: operators as kernels' own names have them, and Dynamo's names for results."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from explorer.analysis.questions.operator_places import operator_places
from explorer.errors import InputError
from explorer.model.values import plain
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from explorer.types import Event
from tests.facts import says, untold
from tests.in_tab import name_nodes, show

BACKGROUND = "said => getComputedStyle(said).backgroundColor + getComputedStyle(said).borderLeftStyle"


def asked(panel: Any, first: str, second: str) -> str:
    """What the view says of two names that are typed."""
    name_nodes(panel, first, second)
    return str(panel.locator(".why").inner_text())


def test_an_operator_in_a_kernels_name_is_found(replayed) -> None:
    """Each operator that Inductor names its kernels by is a name, on any graph: of one place, or of places that are listed."""
    trace = replayed("mlp_train-torch2.13-cpu")
    for kernel in trace.kernels:
        graph = next(g for g in trace.fusion.graphs if g.artifact.graph == kernel.artifact.graph)
        operators = re.sub(r"^cpp_fused_|_\d+$", "", kernel.name)
        inside = set(graph.find(kernel.name) or ())
        for name in ("gelu_backward", "gelu", "sum"):
            if name in operators:
                places = [set(place.numbers) for place in graph.operators[name]]
                assert any(numbers & inside for numbers in places), (kernel.name, name)
    why = trace.why("gelu", "aten.gelu.default", graph="forward")
    assert why.fused and not untold(why.sentence, "scheduler node")
    assert not trace.why("gelu", "linear", graph="forward").fused


def test_an_operator_in_several_places_is_answered_for_the_nearest(rotary: Trace) -> None:
    """`addmm` is in the name of several kernels: the answer is for the one that the sigmoid reads, and names it."""
    answer = rotary.why("addmm", "sigmoid")
    assert not answer.fused and not untold(answer.sentence, "addmm is mm_default_1", "extern_kernels.mm", "1 more place")
    assert rotary.why("add_tensor_1", "sigmoid").fused, "its bias"
    with pytest.raises(InputError, match=says("operator", "'silu_backward'")):
        rotary.why("silu_backward", "sigmoid")


#: A call that an answer or an error suggests: its two names, frame and graph, and, after it, what an error announces of it.
SUGGESTED = re.compile(r"t\.why\('([^']+)', '([^']+)', frame='([^']+)', graph='([^']+)'\)(?: is (not fused|fused))?")


def test_each_call_that_is_suggested_gives_the_answer_that_was_announced(rotary: Trace) -> None:
    """Of operators in several places, some with a name that a node has too: each call is answered for its nodes."""
    (graph,) = rotary.fusion.graphs
    several = [name for name, places in graph.uses.items() if len(places) > 1 and "." not in name]
    namesakes = [name for name in several if name in graph.numbers_by_name and not name[-1].isdigit()]
    assert len(namesakes) > 5
    announced: dict[tuple[str, ...], set[bool]] = {}
    for first, second in product(namesakes, several):
        try:
            answer = rotary.why(first, second)
        except InputError as error:
            assert "stand side by side" in str(error), error
            calls = {match.groups()[:4]: match[5] == "fused" for match in SUGGESTED.finditer(str(error))}
        else:
            calls = {match.groups()[:4]: answer.fused for match in SUGGESTED.finditer(answer.sentence)}
        for call, fused in calls.items():
            announced.setdefault(call, set()).add(fused)
    assert any(set(call[:2]) & set(namesakes) for call in announced)
    for (first, second, frame, name), fused in announced.items():
        answer, own = rotary.why(first, second, frame=frame, graph=name), graph.why(first, second)
        assert fused == {answer.fused} and (answer.first, answer.second) == (first, second)
        assert answer.sentence.startswith(own.sentence) and "more place" not in answer.sentence


def test_two_nodes_are_meant_where_frame_and_graph_are_given(rotary: Trace) -> None:
    """`mean` is a node and an operator of two places: with the graph, and another node's name, it is the node."""
    with pytest.raises(InputError, match=says("3 places")):
        rotary.why("mean", "rsqrt")
    answer = rotary.why("mean", "rsqrt", frame="0/0", graph="inference")
    assert answer.fused and not untold(answer.sentence, "others are mean_1", "others are rsqrt_1")
    assert not untold(rotary.why("softmax", "bmm", frame="0/0", graph="inference").sentence, "bmm is bmm_1"), "no node's name"


def test_what_is_meant_is_told_only_of_other_words(rotary: Trace) -> None:
    """`sin` next to `clone` is sin_1, and clone is the node of that name: of it the line alone is told."""
    sentence = rotary.why("sin", "clone").sentence
    assert not untold(sentence, "Here sin is sin_1", "clone is that of `mixed = torch.softmax(scores, dim=-1) @ v`")
    assert not untold(rotary.why("cos", "sin").sentence, "Here both are those of `c, s = torch.cos(angles), torch.sin(angles)`")
    assert "``" not in rotary.why("bmm", "mul").sentence, "a node without a line"


@pytest.mark.parametrize("name", ["rotary", "layers"])
def test_nodes_without_a_common_buffer_are_told_what_runs_between_them(replayed, name: str) -> None:
    """The calls that are named are all ways from one node to the other; where none is, a kernel is on the way."""
    (graph,) = replayed(f"views/{name}-torch2.13-h100").fusion.graphs
    inputs = {node["name"]: node.get("inputs") or () for node in graph.graph_nodes}

    def needs(reader: str, source: str, without: tuple[str, ...] = ()) -> bool:
        seen: set[str] = set(without)
        pending = [reader]
        while pending:
            more = set(inputs[pending.pop()]) - seen
            seen |= more
            pending += more
        return source in seen

    names = [name for name in inputs if name in graph.numbers_by_name][::3]
    told = {"only through": 0, "through": 0, "": 0}
    for source, reader in product(names, names):
        sentence = graph.why(source, reader).sentence
        if source == reader or "no buffer in common." not in sentence:
            continue
        way = re.search(rf" {reader} needs {source} ((?:only )?through) (.*)", sentence)
        told[way[1] if way else ""] += 1
        assert bool(way) is needs(reader, source), sentence
        if way and way[1] == "only through":
            calls = tuple(re.findall(r"(\w+), a call of extern_kernels", way[2]))
            assert calls and not needs(reader, source, calls) and all(needs(call, source) for call in calls), sentence
            assert all(needs(reader, call) for call in calls) and "nothing is fused with a call" in way[2]
    assert told["only through"] and told[""] and bool(told["through"]) is (name == "layers")


def test_what_runs_between_two_nodes_has_its_line(rotary: Trace) -> None:
    """The kernel of add_tensor_1 reads two products, and that node's own is the one that is named, with its line."""
    sentence = rotary.why("mean", "add_tensor_1", frame="0/0", graph="inference").sentence
    line = "`return x + self.down(gated(self.up(y), self.gate(y)))`"
    assert f"add_tensor_1 needs mean only through mm_default_1, a call of extern_kernels.mm for {line}, and nothing" in sentence


#: A graph of two layers with a softmax of its sums alone, and the products' biases in a kernel.
NODES = [
    {"name": "x", "op": "placeholder", "target": "x"},
    {"name": "mm", "op": "call_function", "target": "aten.mm.default", "original": "aten.addmm.default", "inputs": ("x",)},
    {"name": "add", "op": "call_function", "target": "aten.add.Tensor", "original": "aten.addmm.default", "inputs": ("mm",)},
    {"name": "add_1", "op": "call_function", "target": "aten.add.Tensor", "original": "aten.add.Tensor", "inputs": ("add",)},
    {"name": "sums", "op": "call_function", "target": "prims.prepare_softmax_online.default", "inputs": ("add_1",)},
]


def places_of(nodes: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The nodes of the places of each name; each node is a scheduler node, and the product is a call."""
    numbers = {str(node["name"]): (number,) for number, node in enumerate(nodes)}
    of_nodes = [{**node, "seq_nr": number + 1} for number, node in enumerate(nodes)]
    return {name: [place.node for place in places] for name, places in operator_places(of_nodes, numbers, ["mm"]).items()}


def test_the_words_of_a_launchs_title_are_names() -> None:
    """Where no operator has them: "softmax" is what computes its sums, "bias" what adds that of a product in a kernel."""
    places = places_of(NODES)
    assert places["softmax"] == ["sums"] and places["bias"] == ["add"]
    softmax = {"name": "div", "op": "call_function", "target": "aten.div.Tensor", "original": "aten._softmax.default"}
    assert places_of([*NODES, softmax])["softmax"] == ["div"], "the program's own"
    assert "bias" not in places_of([*NODES, {"name": "bias", "op": "call_function", "target": "aten.neg.default"}]), "a node"


BREAK = """Graph break in user code at /home/me/model.py:41
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Dynamic shape operator
  Explanation: Operator `aten.bincount.default`'s output shape depends on input Tensor data.
  Hint: Enable tracing of dynamic shape operators

  Developer debug context: aten.bincount.default

User code traceback:
  File "/home/me/model.py", line 41, in forward
    count = torch.bincount(batch, minlength=3).clump(min=1)
"""


@pytest.mark.parametrize("other", [("gelu",), ()], ids=["two names", "one name"])
def test_an_operator_at_a_graph_break_runs_in_python(replayed, other: tuple[str, ...]) -> None:
    """The error has the break's line; another unknown word of that line is a word that no graph has."""
    trace = replayed("views/layers-torch2.13-h100")
    broken = trace_of_events([Event("graph_break", 1.0, "0/0", "", plain({"text": BREAK}))]).artifacts
    trace = replace(trace, artifacts=(*trace.artifacts, *broken))
    for name in ("bincount", "aten.bincount.default"):
        with pytest.raises(InputError, match=says(name, "graph", "Python", "model.py:41", "torch.bincount(batch, minlength=3)")):
            trace.why(name, *other)
    for name in ("clump", "count"):
        with pytest.raises(InputError, match=says("unknown", f"'{name}'")):
            trace.why(name, *other)


def test_a_call_says_so_where_an_operand_is_copied_for_it(rotary: Trace) -> None:
    """`bmm` is computed by a call, and a kernel copies its operand: what is said of it is that a call is fused with nothing."""
    assert not untold(rotary.why("softmax", "bmm").sentence, "call", "extern_kernels.bmm")


def test_the_view_takes_the_names_of_the_program(opened, rotary: Trace) -> None:
    """An operator typed in the view is answered as Python answers it, and stands among the names that are offered."""
    panel = show(opened(rotary), "Fusion")
    assert asked(panel, "softmax", "amax") == f"✓ fused: {rotary.why('softmax', 'amax')}"
    offered = panel.locator("datalist option").evaluate_all("options => options.map(option => option.value)")
    assert {"softmax", "addmm", "op3", "buf3", "linear"} <= set(offered)


def test_a_question_without_an_answer_is_no_refusal(opened, rotary: Trace) -> None:
    """What cannot be asked has other words and another look than what the scheduler refused."""
    panel = show(opened(rotary), "Fusion")
    refused = next(row for row in rotary.fusion.table if row["verdict"] == "refused")
    assert asked(panel, refused["first"], refused["second"]).startswith("✕ not fused")
    look = panel.locator(".why").evaluate(BACKGROUND)
    said = asked(panel, "sigmoid", "op77")
    assert said.startswith("? no answer") and "fused" not in said and "✕" not in said
    assert panel.locator(".why").evaluate(BACKGROUND) != look


def test_a_name_of_several_nodes_stands_for_the_nearest(opened, rotary: Trace) -> None:
    """The view says for which node it took a name, as Python does, and offers the others."""
    panel = show(opened(rotary), "Fusion")
    said = asked(panel, "addmm", "sigmoid")
    assert not rotary.why("addmm", "sigmoid").fused and said.startswith("✕ not fused")
    assert " Here addmm is add_tensor_1, of return x + self.down(gated(self.up(y), self.gate(y))) in gate." in said
    places = panel.locator(".why .places")
    assert places.inner_text().startswith("other addmm:")
    other = places.get_by_role("button").first.inner_text()
    places.get_by_role("button").first.click()
    assert panel.get_by_label("first node").input_value() == other
    assert panel.locator(".why").inner_text().endswith(f": {rotary.why(other, 'sigmoid')}")


def test_the_first_of_two_names_is_meant_before_the_second(opened, replayed) -> None:
    """Each layer has a product before its gelu and one after it: the order in which the names are typed tells them apart."""
    panel = show(opened(replayed("views/layers-torch2.13-h100")), "fusion")
    assert not untold(asked(panel, "mm", "gelu"), "not fused", "mm is mm_default_13", "net.0.up")
    assert not untold(asked(panel, "gelu", "mm"), "not fused", "mm is mm_default_12", "net.0.down")


def test_a_module_is_a_name(replayed, rotary) -> None:
    """The last name of a module's path stands for what is computed in it, in each layer; an operator keeps its own name."""
    layers = replayed("views/layers-torch2.13-h100")
    assert not untold(layers.why("up", "gelu").sentence, "op4 of up is a call", "Here up is mm_default_13")
    assert not untold(layers.why("gelu", "down").sentence, "down is a call", "down is mm_default_12", "6 more places")
    gate = rotary.why("gate", "sigmoid")
    assert not gate.fused and not untold(gate.sentence, "op20 has code of gate and sigmoid", "op19 of gate is a call")
    (graph,) = layers.fusion.graphs
    assert {place.node for place in graph.operators["norm"]} == {place.node for place in graph.operators["native_layer_norm"]}


def test_a_node_is_found_by_what_is_printed_on_it(opened, replayed, rotary) -> None:
    """A part of the name of its module or operator does; where none has it, the line of the program that has it."""
    panel = show(opened(replayed("views/layers-torch2.13-h100")), "fusion")
    assert not untold(asked(panel, "dow", "gelu"), "not fused", "dow is add_tensor_12")
    panel = show(opened(rotary), "fusion")
    assert not untold(asked(panel, "gate", "torch.sigmoid"), "not fused", "op19 of gate", "torch.sigmoid is ")
    assert not untold(asked(panel, "no_such_thing", "up"), "no answer", "no_such_thing")
