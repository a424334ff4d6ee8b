"""Links of one instance of a module, where several instances run the same line of the program, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.tracing.traced import Trace

LIT = """() => {
    const { store, selection } = document.querySelector('#explorer').app;
    const kernels = new Set(), nodes = new Set();
    for (const [index, lines] of selection.lit) {
        const { stage, kernel } = store.artifact(index);
        if (stage === 'kernel') kernels.add(kernel);
        for (const line of stage === 'post_grad' ? lines.keys() : []) {
            const node = store.nodeAt(index, line);
            if (node >= 0) nodes.add(store.nodes(index).name[node]);
        }
    }
    return [[...kernels], [...nodes]];
}"""
SELECT = """([id, line]) => {
    const { store, selection } = document.querySelector('#explorer').app;
    selection.choose(store.byId.get(id), line);
}"""


def lit(tab: Any) -> tuple[set[str], set[str]]:
    """The kernels and the post-grad nodes that are linked to the selected line."""
    kernels, nodes = tab.evaluate(LIT)
    return set(kernels), set(nodes)


def shared_line(trace: Trace) -> tuple[str, int]:
    """The line of the program that both norms of the block run."""
    source = next(a for a in trace.find("source") if any("rsqrt" in line for line in a.lines))
    return source.id, next(n for n, line in enumerate(source.lines, 1) if "rsqrt" in line)


@pytest.mark.parametrize("start", ["source", "graph"])
def test_links_are_restricted_to_one_instance_of_a_module(opened, rotary: Trace, start: str) -> None:
    """A line that two norms run leads to the kernels of both; of one of them alone, chosen in the view, to its own."""
    tab = opened(rotary)
    graph = rotary.find("post_grad")[0]
    modules = {node["name"]: str(node.get("module", "")) for node in graph.nodes}
    if start == "source":
        tab.evaluate(SELECT, list(shared_line(rotary)))
    else:
        line = next(n for n, text in enumerate(graph.lines, 1) if text.strip().startswith("rsqrt:") or " rsqrt " in text)
        tab.evaluate(SELECT, [graph.id, line])
    chooser = tab.get_by_label("module whose links are shown")
    kernels, nodes = lit(tab)
    assert {"norm1", "norm2"} <= {modules[name] for name in nodes} and len(kernels) == 2
    assert {"norm1", "norm2"} <= set(chooser.locator("option").all_inner_texts())
    chooser.select_option("norm2")
    restricted, own = lit(tab)
    assert len(restricted) == 1 < len(kernels) and restricted < kernels
    assert own and {modules[name] for name in own} == {"norm2"}
    chooser.select_option("")
    assert lit(tab) == (kernels, nodes)
