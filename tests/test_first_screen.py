"""What the view shows at first: the lines that are linked, not what stands before them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import explorer
from explorer.model.records import blank
from explorer.model.shared import Source
from explorer.model.values import Artifact
from explorer.tracing.traced import Trace
from tests.in_tab import APP, show, wait_for_colours
from tests.tabs import to_texts

LINES = "rows => rows.map((row) => [Number(row.dataset.line), row.dataset.source, row.textContent])"


def right_lines(tab: Any) -> list[tuple[int, str, str]]:
    """The lines of the right text that are in sight, each with its swatch."""
    wait_for_colours(tab)
    lines = tab.get_by_role("region", name="right text").locator(".line[data-line]").evaluate_all(LINES)
    return [(number, source, text) for number, source, text in lines]


@pytest.mark.parametrize("place", ["#view=code", ""])
def test_a_kernel_opens_on_its_linked_lines(opened, rotary, place):
    """Imports and decorators of a kernel are folded under one line that counts them; every line that computes is in sight.

    So they are by a link to the texts, and where a reader comes to them from the overview.
    """
    tab = opened(rotary, place)
    to_texts(tab)
    right = tab.get_by_role("region", name="right text")
    shown = right_lines(tab)
    kernel = next(a for a in rotary.artifacts if a.stage == "kernel")
    start = next(n for n, line in enumerate(kernel.lines, 1) if line.startswith("def "))
    assert [number for number, *_ in shown[:2]] == [1, start] and shown[-1][0] == len(kernel.lines)
    assert not any(text.startswith(("from ", "@")) for _, _, text in shown)
    assert sum(source.isdigit() for _, source, _ in shown) >= 10
    assert right.locator(".cm-foldPlaceholder").inner_text() == f"… {start - 2} lines"
    right.get_by_role("button", name="unfold all").click()
    assert [number for number, *_ in right_lines(tab)[:3]] == [1, 2, 3]


def test_a_wrapper_opens_on_its_linked_lines(opened, replayed):
    """Of output code without a kernel the imports are folded and the first call that a user line led to is in sight."""
    tab = opened(replayed("attention-torch2.13-cpu"))
    shown = right_lines(tab)
    assert any(source for _, source, _ in shown)
    assert not any(text.startswith("from ") for _, _, text in shown)


@pytest.mark.parametrize("place", ["#view=code", ""])
def test_the_function_that_was_called_opens_beside_it(opened, rotary, place):
    """Not a helper: the module's own forward stands first in the source, its first line that led to the kernel in sight."""
    tab = opened(rotary, place)
    to_texts(tab)
    left = tab.get_by_role("region", name="left text")
    shown = left.locator(".line[data-line]").all_inner_texts()
    forward = next(a for a in rotary.find("source") if a.data["qualname"] == "Rotary.forward")
    assert shown[0].startswith("# Rotary.forward") and shown[1 : 1 + len(forward.lines)] == list(forward.lines)
    kernel = tab.get_by_role("region", name="right text").locator("select").first.evaluate("s => Number(s.value)")
    wait_for_colours(tab)
    with_colour = left.locator('.line[data-source]:not([data-source=""]):not([data-source="linked"])')
    assert with_colour.count() >= 3, "the lines of the helpers that became the kernel are in sight too"
    assert rotary.artifacts[kernel].stage == "kernel"


def test_the_panes_of_a_comparison_open_on_their_linked_lines(opened, rotary):
    """Each trace's kernel has its imports and decorators folded, as in the view of one trace."""
    tab = opened(explorer.compare(rotary, rotary, names=("before", "after")))
    wait_for_colours(tab)
    for side in ("right", "third"):
        texts = tab.get_by_role("region", name=f"{side} text").locator(".line[data-line]").all_inner_texts()
        assert any("tl.load(" in text for text in texts), side
        assert not any(text.startswith(("from ", "@")) for text in texts), side


def test_the_header_counts_what_was_compiled(opened, replayed):
    """Frames and kernels are counted, and what a chip counts is not said twice."""
    trace = replayed("toy_example-torch2.13-cpu")
    tab = opened(trace)
    kernels, breaks = len(trace.find("kernel")), len(trace.dynamo.graph_breaks)
    said = tab.locator("header").inner_text()
    assert re.search(rf"\d frames, {kernels} kernels?\b", said)
    assert tab.locator("header .chip").filter(has_text=f"{breaks} graph break").count() == 1 and said.count("graph break") == 1


def test_the_bars_of_the_panes_stand_beside_what_they_hold(opened, rotary):
    """Picker, buttons and the line about a text lie on nothing else: each is what one meets where it stands."""
    tab = opened(rotary)
    met = """() => {
        const root = document.querySelector('#explorer').shadowRoot;
        return [...root.querySelectorAll('.pane select, .pane button:not([hidden]):enabled')].filter((one) => {
            const { left, top, width, height } = one.getBoundingClientRect();
            return width && !one.contains(root.elementFromPoint(left + width / 2, top + height / 2));
        }).map((one) => one.getAttribute('aria-label'));
    }"""
    assert tab.evaluate(met) == []


def test_a_frame_is_called_by_the_module_not_by_the_wrapper_around_it(opened):
    """Around a module of torch's own Dynamo compiles a wrapper: the rail names the first other function."""

    def source(id: str, name: str, file: str, frame: str = "0/0") -> Artifact:
        data = blank(Source, function=name, qualname=name, file=f"site-packages/torch/{file}", first_line=1, compiled=True)
        return Artifact(id, "source", frame, "", name, "python", f"def {name}(): ...", data=data)

    texts = (
        source("a", "wrap_inline.<locals>.inner", "_dynamo/external_utils.py"),
        source("b", "Sequential.forward", "nn/modules/container.py"),
        source("c", "wrap_inline.<locals>.inner", "_dynamo/external_utils.py", "0/1"),
        source("d", "other", "nn/other.py", "1/0"),
    )
    labels = opened(Trace(artifacts=texts)).locator('.item[aria-level="1"] .label').all_text_contents()
    assert [label.split("×")[0].strip() for label in labels[1:]] == [
        "0/0 Sequential.forward",
        "0/1 Sequential.forward",
        "1/0 other",
    ]


def test_the_groups_of_a_long_graph_open_where_their_names_can_be_read(opened, for_h100):
    """The map of scheduler nodes begins at its top, at a scale at which boxes have their text, though the whole would fit."""
    tab = opened(for_h100)
    height = tab.viewport_size["height"]
    tab.set_viewport_size({"width": 1400, "height": height + 180})
    show(tab, "Fusion")
    canvas = f"{APP}.tabs.views.get('fusion').canvas"
    tab.wait_for_function(f"() => {canvas}.scale >= 0.45 && {canvas}.y === 20")
    whole, room = tab.evaluate(f"() => [{canvas}.graph.height, {canvas}.element.clientHeight]")
    assert whole * 0.45 > room - 40 > whole * 0.3, "a graph of which a smaller picture had no names"


def test_a_wide_and_long_graph_opens_on_its_first_node(opened, for_h100):
    """A graph that fits in neither way begins at its topmost box, at a scale at which it is read, and not as a thread."""
    tab = opened(for_h100)
    show(tab, "Fusion")
    canvas = f"{APP}.tabs.views.get('fusion').canvas"
    scale, left, right, room = tab.evaluate(f"""() => {{
        const canvas = {canvas}, [top] = canvas.graph.boxes.toSorted((a, b) => a.y - b.y);
        canvas.graph = {{ ...canvas.graph, width: 9000, height: 20000 }};
        top.x = 6000;
        canvas.fit();
        const at = (x) => canvas.x + x * canvas.scale;
        return [canvas.scale, at(top.x), at(top.x + top.w), canvas.element.clientWidth];
    }}""")
    assert scale >= 0.6 and 0 <= left < right <= room
