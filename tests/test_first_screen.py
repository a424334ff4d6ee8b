"""What the view shows at first: the lines that are linked, not what stands before them."""

from __future__ import annotations

from typing import Any

LINES = "rows => rows.map((row) => [Number(row.dataset.line), row.dataset.source, row.textContent])"


def right_lines(tab: Any) -> list[tuple[int, str, str]]:
    """The lines of the right text that are in sight, each with its swatch."""
    tab.wait_for_function("() => document.querySelector('#explorer').app.parts.colours.swatches.size")
    lines = tab.get_by_role("region", name="right text").locator(".line[data-line]").evaluate_all(LINES)
    return [(number, source, text) for number, source, text in lines]


def test_a_kernel_opens_on_its_linked_lines(opened, rotary):
    """Imports and decorators of a kernel are folded under one line that counts them; every line that computes is in sight."""
    tab = opened(rotary)
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
