"""Names that do not fit are cut in the middle, and never so that two of them look alike."""

from __future__ import annotations

from typing import Any

import pytest

import explorer
from explorer.model.records import blank
from explorer.model.values import Artifact
from explorer.stages.records import ARTIFACTS
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.in_tab import APP, CELLS, called, show, texts_shown
from tests.tabs import to_view

#: Dispatches as IREE names them: alike at the beginning and at the end.
DISPATCHES = [f"main_graph$async_dispatch_{n}_matmul_like_64x64x128_f32" for n in (0, 1, 10, 11)]
#: What is read of a name: the whole of it, its parts that stay, how many letters are hidden, and whether a part that stays is.
READ = """all => all.map((one) => {
    const parts = [...one.querySelectorAll('.cut, .stays')];
    const hides = (part) => {  // by less than a pixel too: the browser writes "…" for that
        const text = document.createRange();
        text.selectNodeContents(part);
        return text.getBoundingClientRect().width > part.getBoundingClientRect().width + 0.03;
    };
    const stays = parts.filter((part) => part.className === 'stays');
    const whole = parts.map((part) => part.textContent).join('');
    return [whole, stays.map((part) => part.textContent).join('|'), parts.some(hides), stays.some(hides)];
})"""


def read(names: Any) -> list[tuple[str, str, bool, bool]]:
    return [(whole, stays, cut, lost) for whole, stays, cut, lost in names.evaluate_all(READ)]


def kernels(names: list[str]) -> Trace:
    data = blank(ARTIFACTS["kernel"])
    return Trace(artifacts=tuple(Artifact(n, "kernel", "0/0", "inference", n, "triton", "x", n, data=data) for n in names))


def test_names_in_the_rail_are_told_apart(opened):
    """However narrow the rail, a name goes on in another line, and none of it is cut, nor covered by the count beside it."""
    tab = opened(kernels(DISPATCHES))
    splitter = tab.get_by_role("separator", name="beside the stages")
    splitter.focus()
    for _ in range(3):
        tab.keyboard.press("ArrowLeft")
    labels = tab.locator('.item[aria-level="4"] .label')
    assert labels.all_text_contents() == DISPATCHES
    found = labels.evaluate_all(
        """all => all.map((one) => {
            const text = document.createRange();
            text.selectNodeContents(one);
            const size = one.parentElement.querySelector('.size').getBoundingClientRect();
            const isBeside = (box) => box.right > size.left && box.left < size.right;
            const covers = (box) => isBeside(box) && box.top < size.bottom && box.bottom > size.top;
            const boxes = [...text.getClientRects()];
            return [boxes.length, one.scrollWidth <= one.clientWidth, size.width > 0 && boxes.some(covers)];
        })"""
    )
    assert all(lines > 1 and fits and not covered for lines, fits, covered in found), found


def test_the_number_and_the_graph_of_a_kernel_are_never_cut(opened):
    """In a pane the name has the whole width, and what does not fit is cut before the number and the graph."""
    long = "triton_poi_fused__to_copy__unsafe_view_add_arange_clone_cos_expand_mul_neg_sin_slice_stack_transpose"
    tab = opened(kernels([f"{long}_4", f"{long}_5"]))
    tab.set_viewport_size({"width": 1000, "height": 600})
    picker = tab.locator(".pane .picker").last
    picker.locator(".stays").last.wait_for(state="attached")
    [(whole, stays, cut, lost)] = read(picker)
    assert whole.endswith("_4 · inference") and stays.endswith("_4 · inference") and cut and not lost
    pane = tab.locator(".pane .bar").last
    assert picker.bounding_box()["width"] > pane.bounding_box()["width"] - 20
    assert whole in picker.locator("select").get_attribute("title")


def test_the_texts_of_two_traces_are_told_apart(opened, rotary):
    """Of three narrow panes each says of which trace and of which kernel its text is."""
    tab = opened(explorer.compare(rotary, rotary, names=("before", "after")))
    tab.set_viewport_size({"width": 1100, "height": 700})
    tab.locator(".pane .picker .stays").nth(3).wait_for(state="attached")
    first, second = read(tab.locator(".pane .picker .shown"))[1:]
    assert first[2] and second[2] and not first[3] and not second[3], (first, second)
    assert (first[1], second[1]) == ("before · |Kernel|_0 · inference", "after · |Kernel|_0 · inference")
    picked = tab.locator(".pane select").evaluate_all("all => all.map((one) => one.selectedOptions[0].textContent)")
    assert picked[1:] == [first[0], second[0]], "as the select has it, which is what is read aloud"
    box = tab.locator(".picker").nth(1).bounding_box()
    over = tab.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).shadowRoot.elementFromPoint(x, y).tagName", [box["x"] + 9, box["y"] + 9]
    )
    assert over == "SELECT", "a click meets the select"


def test_the_pane_of_each_trace_says_which_trace_it_is(opened, replayed):
    """Whatever else of its text's name stays, in two panes beside the rail; the counts of both traces are whole too."""
    trace = replayed("mlp_train-torch2.11-cuda")
    tab = opened(explorer.compare(trace, trace, names=("train=True", "train=False")))
    tab.set_viewport_size({"width": 1400, "height": 800})
    tab.locator(".pane .picker .stays").filter(has_text="train=False").wait_for(state="attached")
    found = read(tab.locator(".pane .picker .shown"))
    assert [stays.split("|")[0] for _, stays, *_ in found[-2:]] == ["train=True · ", "train=False · "]
    assert not any(lost for *_, lost in found), found
    counts = tab.locator(".counts")
    assert counts.evaluate("one => one.scrollWidth <= one.clientWidth"), counts.inner_text()


def test_kernels_of_one_number_are_told_apart_in_the_table(opened):
    """A forward and a backward graph number their kernels each from 0."""
    names = ["triton_per_fused_native_layer_norm_4", "triton_per_fused_native_layer_norm_backward_4"]
    tab = opened(kernels(names))
    tab.set_viewport_size({"width": 700, "height": 600})
    to_view(tab, "Kernels")
    found = read(tab.locator(".costs td .in-parts"))
    assert [whole for whole, *_ in found] == names
    assert found[0][1] != found[1][1] and not any(lost for *_, lost in found), found


@pytest.mark.parametrize(("view", "names"), [("Passes", ".step .name"), ("Compiler", ".bars .name")])
def test_passes_and_phases_are_told_apart(opened, for_h100, view, names):
    """Of the names in a list no two that differ show the same: passes that begin alike keep what tells them apart.

    The times beside the passes are as long as they get, whatever this run took.
    """
    tab = opened(for_h100)
    tab.set_viewport_size({"width": 1200, "height": 800})
    shown_view = show(tab, view)
    shown_view.locator(".step .time").evaluate_all("all => all.forEach((one) => { one.textContent = '123 ms'; })")
    found = read(shown_view.locator(names))
    assert any(cut for _, _, cut, _ in found) and not any(lost for *_, lost in found), found
    shown = {(whole, whole if not cut else stays) for whole, stays, cut, _ in found}
    assert len({text for _, text in shown}) == len({whole for whole, _ in shown}), found


def test_a_kernel_is_called_the_same_in_every_view(opened, rotary):
    """The pickers, the graphs, the memory and the passes call a kernel by what it computes; its name is in the tooltip."""
    tab = opened(rotary)
    kernels = {info["name"]: called(info) for info in payload(rotary)["kernels"]}
    calls = {called(info) for info in payload(rotary)["calls"]}
    offered = " ".join(tab.locator(".pane .bar select").first.locator("option").all_text_contents())
    assert all(f"Kernel {name} · " in offered for name in kernels.values()) and "triton_" not in offered
    picker = tab.locator(".pane .bar select").nth(1)
    name = next(a.kernel for a in rotary.artifacts if a.id == texts_shown(tab)[1])
    assert kernels[name] in picker.locator("option:checked").inner_text() and name in picker.get_attribute("title")
    boxes = {}
    for view, panel in (("fusion", show(tab, "Fusion")), ("graph", show(tab, "Graph"))):
        if view == "graph":
            panel.get_by_role("combobox", name="group the nodes").select_option("kernel")
        of = f"{APP}.tabs.views.get('{view}')"
        boxes[view] = set(tab.evaluate(f"{of}.graph.boxes.filter((box) => box.group).map((box) => {of}.label(box)[0])"))
    assert boxes["fusion"] <= set(kernels.values()) and len(boxes["fusion"]) > 2
    assert boxes["graph"] - {"inputs"} <= {*kernels.values(), *calls} and boxes["graph"] & calls
    memory = show(tab, "Memory").get_by_role("table").first.locator("tbody tr")
    fillers = {one for text in memory.evaluate_all(CELLS, 3) if text for one in text.split(" → ")} - {"…"}
    assert fillers <= {*kernels.values(), *calls} and fillers & calls and fillers & set(kernels.values())
    titles = memory.locator("td:nth-child(4)").evaluate_all("all => all.flatMap((one) => one.title.split('\\n'))")
    assert set(kernels) & set(titles)
