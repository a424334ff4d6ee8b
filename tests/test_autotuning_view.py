"""The view Choices: what Inductor chose among, with settings, texts, and two choices beside each other, in a real browser."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import explorer
from explorer.lab.live.ladders import Ladders
from explorer.lab.live.protocol import live_of
from explorer.model.trace_data import artifact_of
from explorer.tracing.traced import Trace
from explorer.view.page import bundle, packed
from explorer.view.widget import Explorer
from tests.facts import says, untold
from tests.in_tab import load_axe, serious, show
from tests.test_what_if_view import HOST

H100, CPU = "views/tuned_mm-torch2.13-h100", "views/tuned_bmm-torch2.13-cpu"


@pytest.fixture(scope="module")
def with_texts(tuned: Callable[[str], Trace]) -> Trace:
    """The trace for an H100 with the TTGIR of two choices, compiled now."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the choices")
    return (
        tuned(H100)
        .attach(tuned(H100).inductor.choices["triton_mm_1"], "ttgir")
        .attach(tuned(H100).inductor.choices["triton_mm_2"], "ttgir")
    )


def card(panel: Any, choice: str) -> Any:
    """The card of an opened choice."""
    return panel.get_by_role("article", name=choice, exact=True)


def table(panel: Any) -> list[dict[str, str]]:
    """The rows of the table of choices, by the titles of its columns."""
    whole = panel.get_by_role("table", name="choices")
    heads = whole.locator("thead th").all_inner_texts()
    rows = [row.locator("td").all_inner_texts() for row in whole.locator("tbody tr").all()]
    return [dict(zip(heads, row, strict=True)) for row in rows]


@pytest.mark.parametrize("name", [H100, CPU], ids=["h100", "cpu"])
def test_each_setting_that_differs_is_a_column_and_the_others_are_said_once(opened, tuned, name):
    """Every row has its block sizes, warps and stages, as `Choice.config` has them; what all have in common stands above."""
    trace = tuned(name)
    panel = show(opened(trace), "Choices")
    choices = [trace.inductor.choices[n] for n in range(len(trace.inductor.choices.table))]
    configs = [choice.config for choice in choices if choice.config]
    assert configs
    one = len(configs) == 1
    differing = [key for key in configs[0] if one or len({str(config[key]) for config in configs}) > 1]
    shown = table(panel)
    assert [row["choice"] for row in shown] == [choice.name for choice in choices]
    for row, choice in zip(shown, choices, strict=True):
        assert {key: row[key] for key in differing} == {key: str(choice.config.get(key, "")) for key in differing}
        assert row["grid"] == " × ".join(map(str, choice.grid))
        assert ("✓ taken" in row["taken"], "fastest" in row["taken"]) == (choice.taken, choice.fastest and choice.ms is not None)
        assert ("assumed" in row["taken"]) == (choice.fastest and choice.ms is None)
        assert (row["time"] == "not timed") == (choice.ms is None)
    common = [f"{key}={value}" for key, value in configs[0].items() if key not in differing]
    assert (", ".join(common) in panel.inner_text()) and (bool(common) == ("All templates have" in panel.inner_text()))
    assert ("none of them timed" in panel.inner_text()) == all(choice.ms is None for choice in choices)


def test_the_settings_of_a_cpp_template_are_those_of_its_source(tuned):
    """Inductor gives C++ templates no description: what is recorded in its place are the constants of the source."""
    trace = tuned(CPU)
    (choice,) = (c for c in trace.inductor.choices if c.language == "cpp")
    constants = dict(re.findall(r"constexpr int64_t (\w+) = (\d+);", choice.source))
    assert len(choice.config) == 10 and choice.taken and choice.ms is not None
    assert {name: str(value) for name, value in choice.config.items()} == {name: constants[name] for name in choice.config}


def test_an_opened_choice_says_what_was_not_recorded_and_that_this_makes_it(opened, tuned):
    """In a saved trace the card names the texts that there are not; the line that it gives makes just these."""
    trace = tuned(CPU)
    name = next(row["choice"] for row in trace.inductor.choices.table if row["source"])
    panel = show(opened(trace), "Choices")
    panel.get_by_role("button", name=name, exact=True).click()
    said = card(panel, name).locator(".not-recorded")
    assert not untold(said.inner_text(), "source") and card(panel, name).locator(".ladder").count() == 0
    names: dict[str, Any] = {"t": trace}
    exec(said.locator("code").inner_text(), names)  # what the reader is told to type
    panel = show(opened(names["t"]), "Choices")
    panel.get_by_role("button", name=name, exact=True).click()
    assert card(panel, name).locator(".not-recorded").count() == 0
    card(panel, name).get_by_role("button", name="source").click()
    pane = panel.page.locator(".pane").filter(has_text=f"{name}: source")
    assert pane.count() and trace.inductor.choices[name].source.strip().splitlines()[0] in pane.last.inner_text()


def test_a_library_call_says_that_it_has_no_texts(opened, tuned):
    """A call into a library is no template: its card says what it is, and offers no text."""
    panel = show(opened(tuned(H100)), "Choices")
    panel.get_by_role("button", name="mm", exact=True).click()
    mm = card(panel, "mm")
    assert not untold(mm.inner_text(), "mm", "library") and mm.locator(".ladder, .not-recorded").count() == 0


def test_two_choices_stand_beside_each_other_with_their_differences(opened, with_texts):
    """Settings that differ are marked, and of the source's lines the numbers alone, as the two configs have them."""
    first, second = (with_texts.inductor.choices[name] for name in ("triton_mm_1", "triton_mm_2"))
    panel = show(opened(with_texts), "Choices")
    panel.get_by_role("button", name="triton_mm_1", exact=True).click()
    panel.get_by_role("button", name="put triton_mm_2 beside").click()
    differing = {key for key in first.config if first.config[key] != second.config[key]}
    for choice in (first, second):
        marked = card(panel, choice.name).locator("b.differs").all_inner_texts()
        assert marked[:-1] == [str(value) for key, value in choice.config.items() if key in differing]
    assert panel.get_by_role("button", name="source", exact=True, pressed=True).is_visible()
    lines = panel.get_by_role("list", name="differences").locator(".diff-row")
    pairs = [row.locator(".code").all() for row in lines.filter(has_text="BLOCK_N : tl.constexpr").all()]
    assert [[code.locator("b").all_inner_texts() for code in pair] for pair in pairs] == [
        [[str(first.config["BLOCK_N"])], [str(second.config["BLOCK_N"])]]
    ]
    panel.locator(".choice-forms").get_by_role("button", name="TTGIR").click()
    warps = lines.filter(has_text='"ttg.num-warps"').first.locator(".code").all()
    assert [code.locator("b").first.inner_text() for code in warps] == [str(c.config["num_warps"]) for c in (first, second)]
    panel.locator(".choice-forms").get_by_role("button", name="PTX").click()
    assert not untold(panel.get_by_role("status").last.inner_text(), "PTX") and not lines.first.is_visible()


@pytest.mark.compile
def test_the_texts_of_a_choice_lead_to_its_source(with_texts):
    """The product in the TTGIR is linked to the source's `tl.dot`, by the location that triton wrote."""
    (text,) = (a for a in with_texts.find("choice") if a.data["choice"] == "triton_mm_2" and a.data["form"] == "ttgir")
    (dot,) = (n for n, line in enumerate(text.lines, 1) if " tt.dot " in line)
    links = [link for link in with_texts.links if link.source == text.id and dot in link.source_lines]
    source = artifact_of(with_texts, links[0].target)
    assert (
        "tl.dot(" in source.lines[links[0].target_lines[0] - 1]
        and source.text == with_texts.inductor.choices["triton_mm_2"].source
    )


@pytest.mark.compile
def test_texts_of_choices_are_saved_and_change_nothing_else(tmp_path, with_texts, tuned):
    """A loaded trace has them; kernels, choices and the texts of all other stages are as they were."""
    with_texts.save(tmp_path / "t.explorer")
    loaded = explorer.load(tmp_path / "t.explorer")
    assert loaded == with_texts and [a.id for a in loaded.find("choice")] == [a.id for a in with_texts.find("choice")]
    before = tuned(H100)
    assert loaded.inductor.choices["triton_mm_1"].text("ttgir") == before.inductor.choices["triton_mm_1"].text("ttgir") != ""
    assert loaded.inductor.choices["triton_mm_1"].source == before.inductor.choices["triton_mm_1"].source
    with pytest.raises(explorer.errors.InputError, match=says("row", "name", "1.5")):
        loaded.inductor.choices[1.5]
    assert loaded.inductor.choices.table == before.inductor.choices.table and len(loaded.kernels) == len(before.kernels)
    assert [a for a in with_texts.artifacts if a.stage != "choice"] == list(before.artifacts)
    assert with_texts.attach(with_texts.inductor.choices["triton_mm_1"]) is with_texts
    with pytest.raises(explorer.errors.LiveError):
        loaded.attach(loaded.inductor.choices["triton_mm_1"], "ptx")
    with pytest.raises(explorer.errors.InputError, match=says("stage", "choice", "'ptxx'")):
        before.attach(before.inductor.choices["triton_mm_1"], "ptxx")
    with pytest.raises(explorer.errors.InputError, match=says("mm", "library")):
        before.attach(before.inductor.choices["mm"])


@pytest.fixture
def hosted(tabs: Callable[..., Any], tuned: Callable[[str], Trace]) -> Iterator[tuple[Any, Explorer]]:
    """The widget of the live trace in a page, as a notebook holds it, and the Python side of it."""
    trace = tuned(CPU)
    widget, tab = Explorer(trace), tabs(viewport={"width": 1300, "height": 800})
    tab.evaluate(HOST, [bundle(), base64.b64encode(packed(trace)).decode()])
    yield tab, widget
    tab.evaluate("window.take_down()")
    widget.close()


def carried(tab: Any, widget: Explorer) -> dict[str, Any]:
    """Carry what the view asks to Python, and the answers back; the question."""
    question = tab.evaluate("window.asked.pop()")
    widget._worker.answer(question)
    widget._worker.wait()
    for name in ("additions", "progress"):
        tab.evaluate("([name, value]) => tell(name, value)", [name, getattr(widget, name)])
    return dict(question)


def test_a_live_view_makes_a_text_where_it_is_asked(hosted):
    """The card of a choice offers the text that there is not; Python makes it, and it is shown and in `w.trace`."""
    tab, widget = hosted
    name = next(row["choice"] for row in widget.trace.inductor.choices.table if row["source"])
    panel = show(tab, "Choices")
    panel.get_by_role("button", name=name, exact=True).click()
    assert card(panel, name).locator(".not-recorded").count() == 0
    card(panel, name).get_by_role("button", name="make it").click()
    assert carried(tab, widget) == {"ask": "choice", "rows": [0], "stage": "kernel"}
    assert "error" not in widget.progress, widget.progress
    (made,) = widget.trace.find("choice")
    assert made.text == widget.trace.inductor.choices[name].source
    assert tab.get_by_role("tab", name="Code").get_attribute("aria-selected") == "true"
    shown = tab.locator(".pane select").evaluate_all("all => all.map((one) => one.selectedOptions[0].textContent)")
    assert [text for text in shown if text.startswith(f"{name}: source")], shown
    panel = show(tab, "Choices")
    assert "make it" not in card(panel, name).inner_text()


def test_what_a_process_cannot_make_is_said_in_the_view(hosted):
    """An error of Python stands where the text was asked for, and the choice can be asked for again."""
    tab, widget = hosted
    widget.trace = replace(widget.trace, _live=replace(live_of(widget.trace), ladders=Ladders()))
    panel = show(tab, "Choices")
    name = next(row["choice"] for row in widget.trace.inductor.choices.table if row["source"])
    panel.get_by_role("button", name=name, exact=True).click()
    card(panel, name).get_by_role("button", name="make it").click()
    carried(tab, widget)
    assert not untold(panel.get_by_role("status").last.inner_text(), "choice", "source")
    assert card(panel, name).get_by_role("button", name="make it").is_enabled()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, with_texts, scheme):
    """Two choices beside each other, light and dark, break no rule of axe-core that it calls serious or critical."""
    tab = opened(with_texts, color_scheme=scheme)
    show(tab, "Choices").get_by_role("button", name="put triton_mm_2 beside").click()
    load_axe(tab)
    assert serious(tab) == []
