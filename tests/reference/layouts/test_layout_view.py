"""The layouts of TTGIR in the view: shown under the text for the selected line, as Python gives them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from explorer.model.records import blank
from explorer.model.values import Artifact
from explorer.reference.layouts.layout import layout_named
from explorer.reference.layouts.picture import holders
from explorer.stages.triton.origins import KernelForm
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.facts import untold
from tests.in_tab import go_to_line, load_axe, serious

#: A matrix product that triton 3.7 compiled for an A100, without its locations.
TEXT = (Path(__file__).parents[2] / "data" / "matmul-a100-triton3.7.ttgir").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def matmul() -> Trace:
    form = Artifact("t", "ttgir", "0/0", "", "TTGIR of mm", "mlir", TEXT, kernel="mm", data=blank(KernelForm))
    return Trace(artifacts=(form,))


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(TEXT.splitlines(), 1) if text in line)


def select(tab: Any, line: int) -> Any:
    """Go to a line and select it by key, as a user without a pointer does; the panel of its layout."""
    go_to_line(tab.locator(".pane .cm-content").first, line)
    tab.keyboard.press("Enter")
    return tab.locator(".pane .layout-panel").first


def boxes(panel: Any) -> list[tuple[str, str]]:
    """The owner and the words of each box of the first picture."""
    script = "all => all.map(g => [g.dataset.owner, g.querySelector('title').textContent])"
    return [tuple(pair) for pair in panel.locator("figure").first.locator("svg g").evaluate_all(script)]


def test_a_selected_line_shows_who_holds_what(opened, matmul):
    """A line of a matrix product shows its fragment; each box names the thread and registers that Python's layout says."""
    tab = opened(matmul)
    panel = select(tab, line_of("tt.dot "))
    assert not untold(panel.inner_text(), "nvidia_mma", "registers", "64x64", "32 bits")
    held = holders(layout_named(TEXT, "#mma").linear)
    seen = 0
    for owner, words in boxes(panel):
        row, column, warp, lane, registers = re.match(
            r"\((\d+), (\d+)\): warp (\d+), lane (\d+), register ([\d, ]+)", words
        ).groups()
        assert owner == f"0:{warp}:{lane}"
        for n, register in enumerate(registers.split(", ")):
            assert held[int(row), int(column) + n] == [(0, int(warp), int(lane), int(register))]
            seen += 1
    assert seen == 32 * 64


def test_an_access_to_shared_memory_shows_its_banks(opened, matmul):
    """A load from shared memory shows the fragment and the bank of each lane; its buffer shows each byte's element."""
    tab = opened(matmul)
    line = line_of("%x_75 = ttg.local_load")
    panel = select(tab, line)
    layout = layout_named(TEXT, "%x_75")
    (access,) = layout.accesses
    assert str(access) in panel.locator("figure").nth(1).inner_text()
    script = "all => all.map(g => g.querySelector('title').textContent)"
    lanes = panel.locator("figure").nth(1).locator("svg g").evaluate_all(script)
    assert lanes == [f"lane {n}: byte {at}, 4 bytes, bank {at // 4 % 32}" for n, at in enumerate(access.use.addresses)]
    panel = select(tab, line_of("%x_74 = ttg.memdesc_index"))
    bytes_of = layout_named(TEXT, "%x_74").bytes_of
    seen = 0
    for _, words in boxes(panel):
        bank, byte, elements = re.match(r"bank (\d+), byte (\d+): (.*)", words).groups()
        assert int(bank) == int(byte) // 4 % 32
        for n, (row, column) in enumerate(re.findall(r"\((\d+), (\d+)\)", elements)):
            assert bytes_of[int(row), int(column)] == int(byte) + 2 * n
            seen += 1
    assert seen == 64 * 32


def test_the_layout_follows_the_pointer_and_can_be_closed(opened, matmul):
    """The line under the pointer is shown while it is there; closed, the layout stays away until another line is selected."""
    tab = opened(matmul)
    panel = select(tab, line_of("tt.dot "))
    tab.locator(".pane .line").filter(has_text="%acc_78 = tt.dot").first.wait_for()
    tab.locator(".pane .line").filter(has_text="%y_77 = ttg.local_load").first.hover(position={"x": 120, "y": 5})
    panel.get_by_text("dot_op in registers, 32x64").wait_for()
    tab.mouse.move(2, 2)
    panel.get_by_text("nvidia_mma in registers").wait_for()
    panel.get_by_role("button", name="close the layout").click()
    panel.wait_for(state="hidden")
    panel = select(tab, line_of("%x_75 = "))
    panel.get_by_text("dot_op in registers, 64x32").wait_for()
    panel = select(tab, line_of("tt.return"))
    panel.wait_for(state="hidden")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, matmul, scheme):
    """With a layout shown, axe-core has nothing serious to say in light and dark."""
    tab = opened(matmul, color_scheme=scheme)
    select(tab, line_of("tt.dot ")).wait_for()
    load_axe(tab)
    assert serious(tab) == []


def test_a_trace_without_ttgir_has_no_layouts(replayed):
    """Only texts of TTGIR have layouts in the payload, each type once."""
    artifacts = payload(replayed("mlp_train-torch2.11-cuda"))["artifacts"]
    with_layouts = [a for a in artifacts if "layouts" in a]
    assert {a["stage"] for a in with_layouts} == {"ttgir"}
    for artifact in with_layouts:
        types = [each["type"] for each in artifact["layouts"]["types"]]
        assert len(types) == len(set(types))
        assert {at for _, _, at, _ in artifact["layouts"]["values"]} == set(range(len(types)))
