"""How a node is found in the graph before: by its name, by what made it, by what it took the place of."""

from __future__ import annotations

from explorer.model.records import blank, typed
from explorer.model.shared import FxNode, FxPass, PatternMatch
from explorer.model.values import Artifact
from explorer.stages.chain import link_graph, link_pass, link_pattern
from explorer.stages.fx_graph import FxGraph
from explorer.tracing.traced import Trace

Linked = set[tuple[int, str, tuple[int, ...], str]]


def node(name: str, target: str, **facts: object) -> FxNode:
    return blank(FxNode, name=name, target=target, op="call_function", **facts)


def graph(id: str, stage: str, part: str, time: float, *nodes: FxNode) -> Artifact:
    """A graph whose nodes stand on lines 3, 4, … of its text."""
    body = "\n".join(f"        {n.name} = {n.target}()" for n in nodes)
    text = f"class GraphModule(torch.nn.Module):\n    def forward(self):\n{body}\n        return (a,)"
    return Artifact(id, stage, "0/0", part, "", "fx", text, time=time, data=FxGraph(nodes=nodes, stacks=("", "")))


def passed(id: str, time: float, *lines: str, section: str = "post_grad", **facts: object) -> Artifact:
    nodes = [line.partition("(")[0].split(" = ") for line in lines]
    names, targets = [name for name, _ in nodes], [target for _, target in nodes]
    data = blank(FxPass, section=section, name="p", names=names, targets=targets, **facts)
    return Artifact(id, "fx_pass", "0/0", "inference", "", "fx-lines", "\n".join(lines), time=time, data=data)


def pattern(id: str, time: float, matched: tuple[str, ...], made: tuple[str, ...]) -> Artifact:
    text = "\n".join(["matched", *(f"  {m}" for m in matched), "made", *(f"  {m}" for m in made)])
    facts: dict[str, object] = {}
    for part, lines in (("matched", matched), ("made", made)):
        nodes = [line.partition("(")[0].split(" = ") for line in lines]
        facts |= {part: [name for name, _ in nodes], f"{part}_targets": [target for _, target in nodes]}
    data = blank(PatternMatch, pattern="p", section="post_grad", **facts)
    return Artifact(id, "pattern_match", "0/0", "inference", "", "fx-lines", text, time=time, data=data)


BASE = graph("input", "inductor_input", "inference", 1.0, node("a", "aten.sin"), node("b", "aten.cos"), node("c", "aten.add"))


def linked(artifact: Artifact, *others: Artifact) -> Linked:
    link = {"fx_pass": link_pass, "pattern_match": link_pattern}.get(artifact.stage, link_graph)
    found = link(artifact, Trace(artifacts=(*others, artifact)))
    return {(n, x.target, x.target_lines, x.how) for x in found for n in x.source_lines}


def test_a_node_that_was_left_alone_is_the_same_node() -> None:
    """By name and target, in the graph that the round of passes began with."""
    after = graph("after", "post_grad", "inference", 9.0, node("b", "aten.cos"), node("a", "aten.sin"))
    assert linked(after, BASE) == {(3, "input", (4,), "same node"), (4, "input", (3,), "same node")}


def test_a_name_used_again_for_another_operator_is_not_the_same_node() -> None:
    """A node that a pass made under an old name leads to that pass."""
    maker = passed("pass", 2.0, "a = aten.exp(x)", made=("a",))
    after = graph("after", "post_grad", "inference", 9.0, node("a", "aten.exp"))
    assert linked(after, BASE, maker) == {(3, "pass", (1,), "made by")}


def test_a_node_with_the_in_place_form_of_its_operator_is_the_same_node() -> None:
    """No pass made a node of that name: one gave it another target."""
    after = graph("after", "post_grad", "inference", 9.0, node("c", "aten.add_"))
    assert linked(after, BASE) == {(3, "input", (5,), "same node")}


def test_what_a_pattern_made_leads_to_all_that_it_replaced() -> None:
    """From the graph to the pass, in which the pattern's node is the same line, to the pattern, to what was matched."""
    match = pattern("match", 2.0, ("a = aten.sin(x)", "b = aten.cos(a)"), ("fused = my.op(x)",))
    maker = passed("pass", 3.0, "fused = my.op(x)", "c = aten.add(fused, fused)", made=("fused",), erased=("a", "b"))
    after = graph("after", "post_grad", "inference", 9.0, node("fused", "my.op"), node("c", "aten.add"))
    assert linked(after, BASE, match, maker) == {(3, "pass", (1,), "made by"), (4, "input", (5,), "same node")}
    assert linked(maker, BASE, match) == {
        (1, "match", (5,), "made by"),
        (2, "input", (5,), "same node"),
        (1, "input", (3, 4), "pass"),
    }
    assert linked(match, BASE) == {
        (5, "match", (2, 3), "replaced"),
        (2, "input", (3,), "same node"),
        (3, "input", (4,), "same node"),
    }


def test_what_a_pass_put_in_a_nodes_place_leads_to_that_node() -> None:
    """`replace_all_uses_with` says so where no pattern does."""
    maker = passed("pass", 3.0, "new = aten.exp(x)", made=("new",), replaced={"new": ("b",)})
    assert (1, "input", (4,), "replace_all_uses_with") in linked(maker, BASE)


def test_what_is_used_only_by_what_replaced_others_leads_to_those() -> None:
    """One tensor of seeds for two operators, and what it is made of; not what another node uses too, or what has a line."""
    lines = (
        "count = aten.size(x)",
        "seeds = prims.seeds(count)",
        "shared = aten.exp(x)",
        "own = aten.log(x)",
        "one = prims.lookup(seeds, shared, 0)",
        "two = prims.lookup(seeds, own, 1)",
        "c = aten.add(one, shared)",
    )
    maker = passed(
        "pass",
        3.0,
        *lines,
        made=("count", "seeds", "shared", "own", "one", "two"),
        stacks={"own": "", "one": "", "two": ""},
        replaced={"one": ("a",), "two": ("b",)},
        users={"count": ["seeds"], "seeds": ["one", "two"], "shared": ["one", "c"]},
    )
    found = {row for row in linked(maker, BASE) if row[3] != "same node"}
    assert found == {
        (5, "input", (3,), "replace_all_uses_with"),
        (6, "input", (4,), "replace_all_uses_with"),
        (2, "input", (3,), "used only by what replaced"),
        (2, "input", (4,), "used only by what replaced"),
        (1, "input", (3,), "used only by what replaced"),
        (1, "input", (4,), "used only by what replaced"),
    }


def test_a_later_pass_is_not_where_an_earlier_graph_comes_from() -> None:
    """Only passes that ran before the graph count."""
    maker = passed("pass", 8.0, "new = aten.exp(x)", made=("new",))
    after = graph("after", "post_grad", "inference", 5.0, node("new", "aten.exp"))
    assert linked(after, BASE, maker) == set()


def test_a_name_that_a_graph_inside_has_too_is_left_out_of_a_pass() -> None:
    """The pass may have been on the inner graph: no link rather than a guess. One that says which is linked."""
    inner = FxGraph(nodes=typed(FxGraph, BASE.data).nodes, inner=(node("branch.a", "aten.sin"),), stacks=("", ""))
    base = Artifact(BASE.id, BASE.stage, "0/0", "inference", "", "fx", BASE.text, time=1.0, data=inner)
    made = passed("pass", 2.0, "a = aten.sin(x)", "b = aten.cos(x)")
    assert linked(made, base) == {(2, "input", (4,), "same node")}
    outer = passed("pass", 2.0, *made.lines, of="")
    assert linked(outer, base) == {(1, "input", (3,), "same node"), (2, "input", (4,), "same node")}


def test_a_node_of_autograd_leads_to_the_operator_it_differentiates() -> None:
    """Nodes with from_node lead to Dynamo's; those of the backward to the forward's of the same seq_nr and stack."""
    dynamo = graph("dynamo", "dynamo", "", 0.0, node("y", "torch.sin"))
    joint = graph(
        "joint",
        "joint",
        "joint",
        1.0,
        node("sin", "aten.sin", **{"from": ("y",)}, seq_nr=7, stack=0),
        node("other", "aten.sort", **{"from": ("z",)}, seq_nr=7, stack=1),
        node("cos", "aten.cos", seq_nr=7, stack=0),
    )
    links = link_graph(joint, Trace(artifacts=(dynamo, joint)))
    assert [(x.source_lines, x.target, x.target_lines, x.how) for x in links] == [
        ((3,), "dynamo", (3,), "from_node"),
        ((5,), "joint", (3,), "seq_nr"),
    ]
