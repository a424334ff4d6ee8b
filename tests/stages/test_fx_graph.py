"""What stages of FX graphs share: user lines from comments and stacks, and the line of each node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.model.records import FieldError, blank
from explorer.model.shared import FxNode, Source
from explorer.model.values import Artifact, Event, plain
from explorer.stages.fx_graph import (
    FxGraph,
    FxGraphText,
    file_comments,
    link_files,
    link_stacks,
    node_lines,
    nodes_of_calls,
    render_graph,
)
from explorer.tracing.traced import Trace
from tests.facts import says

DYNAMO = """class GraphModule(torch.nn.Module):
    def forward(self, L_a_: "f32[10][1]cpu", L_b_: "f32[10][1]cpu"):
        l_a_ = L_a_
        l_b_ = L_b_

        # File: tests/programs.py:24 in toy_example, code: x = a / (torch.abs(a) + 1)
        abs_1: "f32[10][1]cpu" = torch.abs(l_a_)
        x: "f32[10][1]cpu" = l_a_ / abs_1;  l_a_ = abs_1 = None

        # No stacktrace found for following nodes
        empty: "f32[10][1]cpu" = torch.empty(10)

        # File: tests/programs.py:25 in toy_example, code: if b.sum() < 0:
        sum_1: "f32[][]cpu" = l_b_.sum();  l_b_ = None
        return (sum_1, x)
"""
#: The branches of a cond are classes of their own below, with names of their own.
NESTED = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[8][1]cpu"):
        # File: my code/a.py:8 in f, code: y = x + 1
        y: "f32[8][1]cpu" = l_x_ + 1;  l_x_ = None
        cond = torch.ops.higher_order.cond(gt, cond_true_0, cond_false_0, (y,));  gt = y = None
        return (cond,)

    class cond_true_0(torch.nn.Module):
        def forward(self, z: "f32[8][1]cpu"):
            z_1 = z

            # File: my code/a.py:9 in <lambda>, code: y.sin()
            y: "f32[8][1]cpu" = z_1.sin();  z_1 = None
            return (y,)
"""
STACKS = [
    '  File "tests/programs.py", line 24, in toy_example\n    x = a / (torch.abs(a) + 1)\n             ^^^^^^^^^^^^\n',
    '  File "tests/programs.py", line 25, in toy_example\n    if b.sum() < 0:\n'
    '  File "tests/helper.py", line 3, in helper\n    return b.sum()\n',
]
NODES = [
    blank(FxNode, name="l_a_", op="placeholder"),
    blank(FxNode, name="abs_1", op="call_function", stack=0),
    blank(FxNode, name="x", op="call_function", stack=0),
    blank(FxNode, name="empty", op="call_function"),
    blank(FxNode, name="sum_1", op="call_method", stack=1),
    blank(FxNode, name="gone", op="call_method", stack=1),
]
SOURCE = "def toy_example(a, b):\n    '''Doc.'''\n    x = a / (torch.abs(a) + 1)\n    if b.sum() < 0:\n        b = b * -1\n"


def graph(text: str, **data: object) -> Artifact:
    return Artifact("0/0:dynamo", "dynamo", "0/0", "", "Dynamo FX graph", "fx", text, data=plain(data))


def test_comments_give_the_place_of_the_lines_below_them() -> None:
    """Each computing line under a File comment is of that place, up to the next comment; others are of none."""
    assert list(file_comments(DYNAMO)) == [
        (7, "tests/programs.py", 24),
        (8, "tests/programs.py", 24),
        (14, "tests/programs.py", 25),
    ]


def test_a_comment_does_not_reach_into_a_nested_graph() -> None:
    """Lines of an inner graph before its first comment are of no place."""
    assert list(file_comments(NESTED)) == [(4, "my code/a.py", 8), (5, "my code/a.py", 8), (13, "my code/a.py", 9)]


def test_node_lines_are_found_by_name() -> None:
    """A node's line is found by its name, with or without a type; a nested graph's have its class before their own."""
    assert node_lines(graph(DYNAMO)) == {"l_a_": 3, "l_b_": 4, "abs_1": 7, "x": 8, "empty": 11, "sum_1": 14}
    assert node_lines(graph(NESTED)) == {"y": 4, "cond": 5, "cond_true_0.z_1": 10, "cond_true_0.y": 13}


def test_types_with_sizes_and_quotes_are_no_obstacle() -> None:
    """A node is found also where its type has a symbolic size or its operator works in place."""
    text = 'def forward(self, s77: "Sym(s77)"):\n    mul: "f32[2*s77][1]cpu" = aten.mul.Tensor(a, s77)\n    add_ = x.add_(1)\n'
    assert node_lines(graph(text)) == {"mul": 2, "add_": 3}


def test_stacks_link_nodes_to_their_line_and_to_the_calls_that_led_there(with_source: Callable[..., Trace]) -> None:
    """The nodes of one stack are one link to the innermost user line, and one to each call further out.

    Nodes that the text does not compute have none.
    """
    helper = Artifact(
        "0/0:source:2",
        "source",
        "0/0",
        "",
        "h",
        "python",
        "def helper(b):\n    '''H.'''\n    return b.sum()\n",
        data=blank(Source, file="tests/helper.py", first_line=1),
    )
    trace = with_source(SOURCE, "tests/programs.py", 22, helper)
    links = list(link_stacks(graph(DYNAMO, nodes=NODES, stacks=STACKS), trace))
    assert [(link.source_lines, link.target, link.target_lines, link.how) for link in links] == [
        ((7, 8), "0/0:source", (3,), "stack_trace"),
        ((14,), "0/0:source:2", (3,), "stack_trace"),
        ((14,), "0/0:source", (4,), "called from"),
    ]


def test_a_call_is_no_origin_where_the_trace_lacks_the_callee(with_source: Callable[..., Trace]) -> None:
    """Where the innermost line is in no source of the trace, the call outside it is still only a call."""
    links = list(link_stacks(graph(DYNAMO, nodes=NODES, stacks=STACKS), with_source(SOURCE, "tests/programs.py", 22)))
    assert [(link.target_lines, link.how) for link in links] == [((3,), "stack_trace"), ((4,), "called from")]


def test_an_operator_in_place_is_on_the_line_that_does_it() -> None:
    """The name of a node that changes its input comes second on its line; a line that only frees its inputs names one node."""
    lines = (
        'step_t += 1;  step_t_1: "f32[][]cpu" = step_t;  step_t = None',
        "mask[(rows, columns)] = ones;  setitem = mask;  rows = columns = ones = setitem = None",
        'kept: "f32[][]cpu" = step_t_1 - 1;  step_t_1 = None',
        "shifted <<= 2;  shifted_1 = shifted",
    )
    text = "class G(torch.nn.Module):\n    def forward(self):\n" + "\n".join(f"        {line}" for line in lines)
    assert node_lines(graph(text)) == {"step_t_1": 3, "setitem": 4, "kept": 5, "shifted_1": 6}


def test_a_graph_without_nodes_is_linked_by_its_comments(with_source: Callable[..., Trace]) -> None:
    """AOTAutograd's log gives only text; its comments are then what is known."""
    trace = with_source(SOURCE, "tests/programs.py", 22)
    links = list(link_files(graph(DYNAMO), trace))
    assert [(link.source_lines, link.target_lines, link.how) for link in links] == [
        ((7,), (3,), "File comment"),
        ((8,), (3,), "File comment"),
        ((14,), (4,), "File comment"),
    ]
    assert "File comment" not in {link.how for link in link_files(graph(DYNAMO, nodes=NODES, stacks=STACKS), trace)}


def test_places_that_the_trace_does_not_show_are_not_linked(with_source: Callable[..., Trace]) -> None:
    """A stack in a library whose source is not in the trace gives no link."""
    trace = with_source(SOURCE, "elsewhere.py", 22)
    assert list(link_files(graph(DYNAMO), trace)) == []
    assert list(link_files(graph(DYNAMO, nodes=NODES, stacks=STACKS), trace)) == []


def test_rendered_nodes_know_the_users_innermost_line() -> None:
    """Rendering adds to each node with a stack the last place on it, and leaves the others alone."""
    event = Event("dynamo", 0.0, "0/0", data=plain({"text": f"\n{DYNAMO}\n\n", "nodes": NODES, "stacks": STACKS}))
    made = render_graph("Dynamo FX graph")(event, "id")
    assert made.text == DYNAMO.strip("\n") and made.title == "Dynamo FX graph"
    by_name = {n["name"]: n for n in made.nodes}
    assert (by_name["sum_1"]["file"], by_name["sum_1"]["line"]) == ("tests/helper.py", 3)
    assert (by_name["sum_1"]["function"], by_name["sum_1"]["code"]) == ("helper", "return b.sum()")
    assert by_name["empty"] == NODES[3]


def test_a_stack_of_another_form_gives_a_node_no_place() -> None:
    """A node whose stack names no file keeps the facts it has."""
    event = Event("dynamo", 0.0, "0/0", data=plain({"text": DYNAMO, "nodes": [NODES[1]], "stacks": ["unknown"]}))
    assert render_graph("T")(event, "id").nodes == (NODES[1],)


@pytest.mark.parametrize("text", [DYNAMO, ""])
def test_a_graph_of_text_alone_or_of_nothing_renders(text: str) -> None:
    """An event without nodes, or with an empty text, is an artifact without them; one that lacks its text says so."""
    made = render_graph("T")(Event("joint", 0.0, "0/0", data=FxGraphText(text=text)), "id")
    assert made.nodes == () and made.text == text.strip("\n")
    with pytest.raises(FieldError, match=says("FxGraphText", "lacks text")):
        render_graph("T")(Event("joint", 0.0, "0/0"), "id")


def test_nodes_of_a_graph_that_is_an_argument_may_state_the_call_only() -> None:
    """Such as a score_mod's after AOTAutograd, which have the stack of flex attention itself; those with their own do not."""
    nodes = (
        blank(FxNode, name="score", op="get_attr", target="sdpa_score0", stack=0),
        blank(FxNode, name="flex", op="call_function", target="flex_attention", inputs=("x", "score"), stack=0),
    )
    inner = (
        blank(FxNode, name="sdpa_score0.mul", op="call_function", target="aten.mul", stack=0),
        blank(FxNode, name="sdpa_score0.add", op="call_function", target="aten.add", stack=1),
    )
    graph = Artifact("g", "forward", "0/0", "", "", "fx", "", data=FxGraph(nodes=nodes, inner=inner, stacks=("a", "b")))
    assert nodes_of_calls(graph, Trace(artifacts=(graph,))) == {"sdpa_score0.mul"}
