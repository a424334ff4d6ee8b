"""The FX nodes of a C++ kernel's lines, read from the texts where no probe saw them."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from explorer.model.records import typed
from explorer.model.shared import Kernel
from explorer.model.trace_data import artifact_of
from explorer.stages.inductor.cpp_values import read
from explorer.stages.inductor.kernel import BY_TEXT, OF_ONE_LINE, STORES, owners
from explorer.stages.readable_graph import graph_of_text
from explorer.tracing.traced.trace import trace_of_events


@pytest.mark.parametrize("name", ["mlp_train", "recompile", "toy_example", "sin_cos"])
def test_what_the_texts_say_is_what_the_probe_saw(name: str, recorded: Callable[[str], Any]) -> None:
    """Of a recording without the probe's events, each line that has one node has the node that the probe saw there."""
    events, failures, meta = recorded(f"{name}-torch2.13-cpu")
    seen = trace_of_events(events, failures, meta)
    unseen = trace_of_events([event for event in events if event.kind != "kernel_lines"], failures, meta)
    read_lines = 0
    for kernel in unseen.find("kernel"):
        other = owners(artifact_of(seen, kernel.id))
        for number, (names, how) in owners(kernel).items():
            assert how in (BY_TEXT, STORES, OF_ONE_LINE)
            assert set(names) == set(other[number][0]) if how != OF_ONE_LINE else set(names) >= set(other[number][0])
            read_lines += 1
        assert {n for one in typed(Kernel, kernel.data).definitions or () for n in one.nodes or ()} >= {
            name for names, _ in owners(kernel).values() for name in names
        }
        unread = [kernel.lines[number - 1] for number in other if number not in owners(kernel)]
        assert all("::loadu(" in line for line in unread), "only what lines of several user lines read may be left"
    assert read_lines


GRAPH = """
class M(torch.nn.Module):
    def forward(self, arg0_1: "f32[4]", arg1_1: "f32[4]"):
        # File: /p.py:2 in f, code: a = x + y
        add: "f32[4]" = torch.ops.aten.add.Tensor(arg0_1, arg1_1)
        # File: /p.py:3 in f, code: b = a.tan()
        tan: "f32[4]" = torch.ops.aten.tan.default(add)
        # File: /p.py:4 in f, code: return b * 2
        mul: "f32[4]" = torch.ops.aten.mul.Tensor(tan, 2)
        return (mul,)
"""


def lines_of(
    kernel: str, call: str = "k(arg0_1, arg1_1, buf0)\n        return (buf0, )", graph: str = GRAPH
) -> dict[str, set[str]]:
    """The nodes of each line of a kernel's body, by the line; the wrapper makes a call."""
    head = 'extern "C"  void  kernel(const float* in_ptr0, const float* in_ptr1, float* out_ptr0)\n{\n'
    text = f"{head}{dedent(kernel).strip()}\n}}"
    wrapper = f"class Runner:\n    def call(self, args):\n        arg0_1, arg1_1 = args\n        {call}\n"
    (one,) = read(wrapper, {"k": text}, graph_of_text(graph.strip()).nodes or ())
    nodes_by_line: dict[str, set[str]] = {}
    for number, node in one.lines:
        nodes_by_line.setdefault(text.split("\n")[number - 1].strip(), set()).add(node)
    return nodes_by_line


def test_a_line_that_states_no_operator_has_the_node_between_what_it_reads_and_what_is_made_of_it() -> None:
    """The tangent is lowered to a call that the graph does not state, between an addition and a product that it does."""
    lines = lines_of("""
        auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];
        auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];
        auto tmp2 = float(tmp0 + tmp1);
        auto tmp3 = some_function(tmp2);
        auto tmp4 = static_cast<float>(2.0);
        auto tmp5 = float(tmp3 * tmp4);
        out_ptr0[static_cast<int64_t>(x0)] = tmp5;
    """)
    assert lines["auto tmp2 = float(tmp0 + tmp1);"] == {"add"}
    assert "auto tmp3 = some_function(tmp2);" not in lines, "the tangent's or the product's, which two lines of the program state"
    one_line = lines_of(
        """
        auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];
        auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];
        auto tmp2 = float(tmp0 + tmp1);
        auto tmp3 = some_function(tmp2);
        auto tmp5 = another(tmp3);
        out_ptr0[static_cast<int64_t>(x0)] = tmp5;
        """,
        graph=GRAPH.replace("/p.py:4 in f, code: return b * 2", "/p.py:3 in f, code: b = a.tan()"),
    )
    assert one_line["auto tmp3 = some_function(tmp2);"] == {"tan", "mul"}


def test_a_buffer_that_is_written_in_parts_holds_no_part() -> None:
    """Two pieces of a concatenation go into one buffer: what is read of it afterwards is neither."""
    kernel = """
        auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];
        auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];
        auto tmp2 = float(tmp0 + tmp1);
        out_ptr0[static_cast<int64_t>(x0)] = tmp2;
        out_ptr0[static_cast<int64_t>(4L + x0)] = tmp0;
        auto tmp3 = out_ptr0[static_cast<int64_t>(x0)];
        auto tmp4 = static_cast<float>(2.0);
        auto tmp5 = float(tmp3 * tmp4);
    """
    doubled = GRAPH.replace("aten.mul.Tensor(tan, 2)", "aten.mul.Tensor(add, 2)")
    lines = lines_of(kernel, graph=doubled)
    assert lines["out_ptr0[static_cast<int64_t>(x0)] = tmp2;"] == {"add"}
    assert not [line for line in lines if "tmp3" in line or "4L" in line]
    whole = kernel.replace("        out_ptr0[static_cast<int64_t>(4L + x0)] = tmp0;\n", "")
    assert lines_of(whole, graph=doubled)["auto tmp5 = float(tmp3 * tmp4);"] == {"mul"}


def test_a_variable_of_a_block_is_gone_behind_it() -> None:
    """Blocks give their variables the same names: an array that a function fills is not what had its name before."""
    lines = lines_of("""
        {
            auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];
        }
        {
            float tmp0[16*16];
            fill(tmp0);
            auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];
            auto tmp2 = float(tmp0 + tmp1);
        }
    """)
    assert not lines


def test_the_rest_of_a_vector_loop_reads_what_the_vectors_read() -> None:
    """In place, the vectors' block stores before the block for the rest loads, which still has the old values."""
    lines = lines_of(
        """
        auto in_out_ptr0 = in_ptr0;
        if(C10_LIKELY(x0 < 16))
        {
            auto tmp0 = at::vec::Vectorized<float>::loadu(out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
            auto tmp1 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
            auto tmp2 = tmp0 + tmp1;
            tmp2.store(out_ptr0 + static_cast<int64_t>(x0));
        }
        if(C10_UNLIKELY(x0 < 17))
        {
            auto tmp0 = out_ptr0[static_cast<int64_t>(x0)];
            auto tmp1 = in_ptr0[static_cast<int64_t>(x0)];
            auto tmp2 = float(tmp0 + tmp1);
            out_ptr0[static_cast<int64_t>(x0)] = tmp2;
        }
    """,
        "k(arg1_1, arg1_1, arg0_1)\n        return (arg0_1, )",
    )
    assert lines["auto tmp2 = tmp0 + tmp1;"] == lines["auto tmp2 = float(tmp0 + tmp1);"] == {"add"}


def test_two_nodes_of_one_expression_leave_a_line_without_a_node() -> None:
    """No link rather than a guess."""
    twice = GRAPH.replace("torch.ops.aten.tan.default(add)", "torch.ops.aten.add.Tensor(arg0_1, arg1_1)")
    assert not lines_of(
        """
        auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];
        auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];
        auto tmp2 = float(tmp0 + tmp1);
        """,
        "k(arg0_1, arg1_1, buf0)",
        graph=twice,
    )
