"""Editing a kernel in the view: drafts, runs, errors at their line, history, in a real browser and with a real compile."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import explorer
from explorer.tracing.traced import Trace
from explorer.view.page import bundle, packed
from explorer.view.widget import Explorer
from tests.facts import untold
from tests.in_tab import drawn, load_axe, serious, show, until
from tests.tabs import to_texts
from tests.test_what_if_view import HOST as ONE_LISTENER

pytestmark = [pytest.mark.compile, pytest.mark.usefixtures("warm_python")]

#: The model of a notebook's widget, which several parts listen to.
HOST = ONE_LISTENER.replace("progress: {},", "progress: {}, called: {}, edits: [],")
ONE, TWO = "static_cast<float>(1.0)", "static_cast<float>(2.0)"

#: The edits of the view, and whether an element has the focus.
APP = "document.querySelector('.explorer-host').app"
EDITS = f"{APP}.parts.edits"
HAS_FOCUS = "e => e === e.getRootNode().activeElement"


def text_of(trace: Trace) -> str:
    """The id of the kernel's text."""
    return trace.kernels[0].artifact.id


@pytest.fixture(scope="module")
def cpp() -> Trace:
    """One C++ kernel, which adds a one."""
    import torch

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.sin(), -1).relu() + 1

    return explorer.trace(program, torch.randn(16, 48))


@pytest.fixture(scope="module")
def triton() -> Trace:
    """One Triton kernel for a GPU you don't have, which adds a one."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    import torch

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.sin(), -1).relu() + 1

    return explorer.trace(program, torch.randn(16, 48), target="h100")


class Notebook:
    """A widget in a page, and the messages between its two sides."""

    def __init__(self, tab: Any, trace: Trace) -> None:
        self.tab, self.trace, self.widget = tab, trace, Explorer(trace)
        self.tab.evaluate(HOST, [bundle(), base64.b64encode(packed(trace)).decode()])
        to_texts(self.tab)

    def edit(self, stage: str = "kernel", pane: str = "left") -> Any:
        """Show a text of the kernel in a pane, and begin to edit it; the pane."""
        found = self.tab.get_by_role("region", name=f"{pane} text", exact=True)
        text = next(n for n, a in enumerate(self.trace.artifacts) if a.stage == stage)
        found.locator("select").first.select_option(str(text))
        found.get_by_role("button", name="edit", exact=True).click()
        return found

    @property
    def text(self) -> str:
        """The text in the pane that is edited, also where it is out of sight."""
        edited = "document.querySelector('.explorer-host').app.panes.list.find((p) => p.editor.editing)"
        return str(self.tab.evaluate(f"{edited}.editor.text"))

    def write(self, before: str, after: str) -> None:
        """Replace a text in what is edited, as typing it does."""
        self.tab.evaluate(
            """([before, after]) => {
            const pane = document.querySelector('.explorer-host').app.panes.list.find((p) => p.editor.editing);
            const at = pane.editor.text.indexOf(before);
            pane.editor.view.dispatch({ changes: { from: at, to: at + before.length, insert: after } });
        }""",
            [before, after],
        )

    def run(self, press: str = "Control+Enter") -> None:
        """Run the edit by the key, and carry the question and the answer."""
        self.tab.locator(".editing .cm-content").press(press)
        self.carry()

    def carry(self) -> None:
        """Carry what the view asks to Python, and the answer back."""
        self.widget._worker.answer(self.tab.evaluate("window.asked.pop()"))
        self.widget._worker.wait()
        self.tell()

    def tell(self) -> None:
        for name in ("edits", "progress", "additions"):
            self.tab.evaluate("([name, value]) => tell(name, value)", [name, getattr(self.widget, name)])

    def close(self) -> None:
        self.tab.evaluate("window.take_down()")
        self.widget.close()
        self.trace.live.edits.reset()


@pytest.fixture
def notebook(tabs: Callable[..., Any]) -> Iterator[Any]:
    """Give what opens a trace as a notebook shows it."""
    made: list[Notebook] = []

    def opened(trace: Trace) -> Notebook:
        made.append(Notebook(tabs(viewport={"width": 1400, "height": 1000}), trace))
        return made[-1]

    yield opened
    for one in made:
        one.close()


def test_a_right_edit_is_put_in_place_from_the_view(notebook: Any, cpp: Trace) -> None:
    """It runs, is equal, and is said with both times; pane, rail and kernels are marked, until reset puts the original back."""
    book = notebook(cpp)
    pane = book.edit()
    book.write(ONE, f"({TWO} - {ONE})")
    book.run()
    kernel = cpp.kernels[0]
    assert kernel.edits.current and f"({TWO} - {ONE})" in kernel.edits.current[0].text
    assert [row["equal"] for row in cpp.check()] == [True]
    assert "in place" in pane.locator(".verdict").inner_text()
    assert pane.locator(".edit-figures tbody tr").count() >= 2
    assert pane.locator(".edit-diff .line-made").inner_text().startswith("+ ")
    badge = pane.locator(".edited-badge")
    assert badge.inner_text() == "edit 1 is in place"
    verdict = pane.locator(".verdict")
    assert "good" in (verdict.get_attribute("class") or "")
    book.write(f"({TWO} - {ONE})", f"({TWO} - {ONE} )")
    assert "soft" in (verdict.get_attribute("class") or "") and verdict.inner_text().endswith("(of the text before)")
    book.write(f"({TWO} - {ONE} )", f"({TWO} - {ONE})")
    assert "good" in (verdict.get_attribute("class") or "")
    pane.get_by_role("button", name="close", exact=True).click()
    assert badge.inner_text() == "the original; edit 1 is in place", "of what is shown now"
    pane.get_by_role("button", name="edit", exact=True).click()
    assert "edited" in book.tab.locator(".rail .edited-mark").all_inner_texts()
    pane.get_by_role("button", name="reset what runs").click()
    book.carry()
    assert not kernel.edits.current and pane.locator(".edited-badge").is_hidden()
    verdict = pane.locator(".verdict").inner_text()
    assert not untold(verdict, "original", "back") and untold(verdict, "putting")
    assert ONE in book.text and TWO not in book.text, "the history has the text of the edit"
    for what in (".edit-figures", ".edit-diff", ".fault-text:visible"):
        assert pane.locator(what).count() == 0, "nothing of the edit stands below it"
    pane.get_by_role("button", name="close", exact=True).click()
    pane.get_by_role("button", name="edit", exact=True).click()
    assert pane.locator(".edit-figures").count() == 0
    pane.locator(".history button").click()
    assert pane.locator(".edit-figures").count() == 1, "the history has it still"


@pytest.mark.usefixtures("tried_here")
def test_a_key_edits_and_the_verdict_stands_over_the_text(notebook: Any, triton: Trace) -> None:
    """ "e" edits the kernel that is shown, with the caret in its text and a hint; the verdict and what differs are over the text.

    The edit stays open, so that the next change takes its key alone. One that a cell put in place without a check says so, and
    has a button that judges it.
    """
    book = notebook(triton)
    book.tab.set_viewport_size({"width": 970, "height": 680})
    pane = book.edit()
    pane.get_by_role("button", name="close", exact=True).click()
    pane.locator(".cm-content").press("e")
    content = pane.locator(".editing .cm-content")
    assert content.evaluate(HAS_FOCUS) and book.text == triton.kernels[0].source, "the key is no letter of the text"
    assert not untold(pane.locator(".edit-hint").inner_text(), "Ctrl+Enter", "judges")
    book.write("1.0, tl.float32)", "2.0, tl.float32)")
    book.run()
    verdict, message = pane.locator(".verdict"), pane.locator(".fault-text")
    assert not untold(verdict.inner_text(), "wrong result", "the first at [0, 0]")
    assert not untold(message.inner_text(), "launch", "original", "does not take", "The kernel computes test_editing_view.py:")
    assert message.bounding_box()["y"] < pane.locator(".view").bounding_box()["y"] and content.evaluate(HAS_FOCUS)
    book.write("2.0, tl.float32)", "1.0, tl.float32)  # as before")
    book.run()
    assert not untold(verdict.inner_text(), "right, in place", "comments", "nothing to run")
    assert pane.get_by_role("button", name="judge it").count() == 0
    kernel = triton.kernels[0]
    kernel.edit(kernel.source.replace("1.0, tl.float32)", "3.0, tl.float32)"), check=False)
    book.tell()
    assert "it was not checked" in verdict.inner_text() and untold(verdict.inner_text(), "right")
    pane.get_by_role("button", name="judge it").click()
    book.carry()
    assert "wrong result" in verdict.inner_text() and "3.0, tl.float32)" in kernel.edits[-1].text


def test_ptx_and_sass_stand_beside_each_other(notebook: Any, triton: Trace) -> None:
    """One press over a kernel shows its PTX with its SASS beside it, which is made then, and leaves the program in sight."""
    book = notebook(triton)
    source = triton.find("source")[0]
    line = next(n for n, text in enumerate(source.lines, 1) if "softmax" in text)
    at = triton.artifacts.index(source)
    book.tab.evaluate(f"([at, line]) => {APP}.parts.selection.choose(at, line)", [at, line])
    bar = book.tab.get_by_role("group", name="kernel, right text")
    bar.get_by_role("button", name="PTX + SASS").click()
    book.carry()
    shown = f"() => {APP}.panes.list.map((pane) => [pane.store.artifact(pane.artifact).stage, pane.sorted.length])"
    stages, lit = zip(*book.tab.evaluate(shown), strict=True)
    assert stages == ("source", "ptx", "sass") and all(lit[1:]), "each shows what came of the line"
    book.tab.get_by_role("button", name="close the third pane").click()
    bar.get_by_role("button", name="PTX + SASS").click()
    assert [stage for stage, _ in book.tab.evaluate(shown)] == ["source", "ptx", "sass"], "SASS that is there is shown"
    book.tab.get_by_role("button", name="close the third pane").click()
    book.tab.set_viewport_size({"width": 970, "height": 680})
    bar.get_by_role("button", name="PTX + SASS").click()
    assert [stage for stage, _ in book.tab.evaluate(shown)] == ["ptx", "sass"], "three could not be read"


def test_sass_that_is_made_takes_the_place_of_the_program(notebook: Any) -> None:
    """In a narrow view with the program on the right, PTX stays beside the SASS that is made for it."""
    import torch

    book = notebook(explorer.trace(lambda x: torch.softmax(x.cos(), -1), torch.randn(16, 48), target="h100"))
    book.tab.set_viewport_size({"width": 970, "height": 680})
    kernel, source = (f"{APP}.store.first('{stage}')" for stage in ("kernel", "source"))
    book.tab.evaluate(f"() => {{ [{kernel}, {source}].forEach((text, at) => {APP}.panes.show({APP}.panes.list[at], text)) }}")
    bar = book.tab.get_by_role("group", name="kernel, left text")
    bar.get_by_role("button", name="PTX + SASS").click()
    book.carry()
    shown = f"() => {APP}.panes.list.map((pane) => pane.store.artifact(pane.artifact).stage)"
    assert book.tab.evaluate(shown) == ["ptx", "sass"]


def test_an_edit_has_room_for_its_lines(notebook: Any, triton: Trace) -> None:
    """Where three texts could not be read, that of another stage is closed; the edit begins at the body of the kernel, with
    the caret in it.
    """
    book = notebook(triton)
    book.tab.set_viewport_size({"width": 970, "height": 680})
    show(book.tab, "Code")
    book.tab.get_by_role("button", name="add a text pane").click()
    ptx = f"{APP}.store.first('ptx')"
    book.tab.evaluate(f"() => {APP}.panes.show({APP}.panes.list[2], {ptx})")
    show(book.tab, "Kernels").get_by_role("button", name="edit its source").click()
    assert book.tab.locator(".pane").count() == 2
    seen = book.tab.locator(".cm-editor.editing .cm-line")
    assert any("tl.load" in line for line in seen.all_inner_texts())
    book.tab.keyboard.type("mine")
    assert "mine" in book.text and not book.text.startswith("mine")


def test_an_edit_begins_at_the_head_of_the_kernel(notebook: Any, triton: Trace) -> None:
    """The caret stands at the function, and what it computes is in sight, not the imports over it."""
    book = notebook(triton)
    head = f"def {triton.kernels[0].name}("
    pane = book.edit()
    state = f"{APP}.panes.list.find((pane) => pane.editor.editing).editor.view.state"
    assert book.tab.evaluate(f"{state}.doc.lineAt({state}.selection.main.head).text").startswith(head)
    drawn(book.tab)
    room, line = (pane.locator(what).bounding_box() for what in (".view", f".editing .cm-line:has-text('{head}')"))
    assert room["y"] < line["y"] < room["y"] + 0.6 * room["height"], "half of the room is for what follows"


@pytest.mark.usefixtures("tried_here")
@pytest.mark.parametrize(("after", "height"), [("1.0 * 1.0, tl.float32)", 900), ("2.0, tl.float32)", 620)])
def test_a_verdict_leaves_the_edited_line_in_sight(notebook: Any, triton: Trace, after: str, height: int) -> None:
    """A line at the end of the kernel that is typed in stays in sight under the verdict, right or wrong."""
    book = notebook(triton)
    book.tab.set_viewport_size({"width": 1440, "height": height})
    pane = book.edit()
    book.tab.evaluate(f"""() => {{
        const {{ editor }} = {APP}.panes.list.find((pane) => pane.editor.editing);
        const anchor = editor.text.indexOf("1.0, tl.float32)");
        editor.view.dispatch({{ selection: {{ anchor }}, scrollIntoView: true }});
    }}""")
    book.write("1.0, tl.float32)", after)
    book.run()
    drawn(book.tab)
    line = pane.locator(".editing .cm-line", has_text=after)
    box, room = line.bounding_box(), pane.locator(".view").bounding_box()
    assert room["y"] <= box["y"] and box["y"] + box["height"] <= room["y"] + room["height"]


@pytest.mark.usefixtures("tried_here")
def test_a_wrong_result_leaves_room_for_the_text(notebook: Any, triton: Trace) -> None:
    """Eight lines of the edit stay in sight under a long verdict, and its figures below them, in the pane."""
    book = notebook(triton)
    book.tab.set_viewport_size({"width": 970, "height": 620})
    show(book.tab, "Kernels").get_by_role("button", name="edit its source").click()
    pane = book.tab.locator(".pane").filter(has=book.tab.locator(".editing"))
    book.write("1.0, tl.float32)", "2.0, tl.float32)")
    book.run()
    drawn(book.tab)
    whole = pane.bounding_box()
    text, below = (pane.locator(what).bounding_box() for what in (".view", ".edit-below"))
    assert text["height"] >= 8 * pane.locator(".editing .cm-line").first.bounding_box()["height"]
    assert below["height"] >= 40 and below["y"] + below["height"] <= whole["y"] + whole["height"] + 1
    bar, hint = (pane.locator(what).bounding_box() for what in (".edit-bar", ".edit-hint"))
    assert bar["y"] + bar["height"] <= hint["y"], "the buttons are under nothing"


@pytest.mark.usefixtures("tried_here")
def test_a_verdict_stands_over_its_own_text_alone(notebook: Any, triton: Trace) -> None:
    """A view opened after a wrong edit shows the original without its verdict, and so does "reset the text"."""
    book = notebook(triton)
    pane = book.edit()
    book.write("1.0, tl.float32)", "2.0, tl.float32)")
    book.run()
    verdict = pane.locator(".verdict")
    assert "wrong result" in verdict.inner_text()
    pane.get_by_role("button", name="reset the text").click()
    assert untold(verdict.inner_text(), "wrong") and not untold(verdict.inner_text(), "original text", "history")
    assert pane.locator(".edit-figures, .fault-text:visible").count() == 0
    other = notebook(triton)
    other.tell()
    pane = other.edit()
    verdict = pane.locator(".verdict")
    assert untold(verdict.inner_text(), "wrong") and "bad" not in (verdict.get_attribute("class") or "")
    pane.locator(".history button").last.click()
    assert not untold(verdict.inner_text(), "wrong result")


@pytest.mark.usefixtures("tried_here")
def test_a_wrong_edit_is_put_in_place_by_a_press(notebook: Any, triton: Trace) -> None:
    """The view names no argument of Python: it has a button that puts a wrong edit in place."""
    book = notebook(triton)
    pane = book.edit()
    anyway = pane.get_by_role("button", name="put in place anyway")
    assert anyway.count() == 0
    book.write("1.0, tl.float32)", "2.0, tl.float32)")
    book.run()
    assert "check=False" in triton.kernels[0].edits[-1].advice
    assert untold(pane.locator(".edit-box").inner_text(), "check=False")
    anyway.click()
    book.carry()
    assert not untold(pane.locator(".verdict").inner_text(), "in place", "not checked") and anyway.count() == 0
    assert [edit.text for edit in triton.kernels[0].edits.current] == [book.text]


def test_an_edit_goes_on_where_its_pane_moves_to(notebook: Any, triton: Trace) -> None:
    """Another pane that is closed moves those after it up: what is edited in one of them is edited there still."""
    book = notebook(triton)
    book.edit(pane="right")
    book.write("import", "# a draft\nimport")
    book.tab.get_by_role("button", name="close the left pane").click()
    assert "# a draft" in book.text
    assert book.tab.locator(".pane").count() == 1 and book.tab.locator(".edit-box").is_visible()


@pytest.mark.usefixtures("tried_here")
def test_a_wrong_edit_is_named_in_the_view(notebook: Any, cpp: Trace) -> None:
    """The check finds it, the original stays, and the history shows its text again, to be used again."""
    book = notebook(cpp)
    pane = book.edit()
    book.write(ONE, TWO)
    book.run()
    assert "wrong result" in pane.locator(".verdict").inner_text() and not cpp.kernels[0].edits.current
    pane.get_by_role("button", name="reset the text").click()
    assert ONE in book.text
    pane.locator(".history button").last.click()
    assert pane.locator(".cm-content").get_attribute("aria-readonly") == "true"
    assert TWO in book.text
    pane.get_by_role("button", name="use again").click()
    assert pane.locator(".cm-content").get_attribute("aria-readonly") == "false"
    assert TWO in book.text


@pytest.mark.usefixtures("tried_here")
def test_an_error_stands_at_its_line(notebook: Any, triton: Trace) -> None:
    """The line of triton's message is marked, described to a screen reader, and has the caret."""
    book = notebook(triton)
    pane = book.edit()
    last = [line for line in triton.kernels[0].source.splitlines() if "tl.store" in line][-1]
    book.write(last, "    tl.dot(1, 2)")
    book.run()
    assert not untold(pane.locator(".verdict").inner_text(), "compile error", "line")
    assert pane.locator(".line-fault").inner_text() == "    tl.dot(1, 2)"
    assert pane.locator(".faults .fault-sign:visible").count() == 1
    content = pane.locator(".cm-content")
    described = pane.locator(f"#{content.get_attribute('aria-describedby')}").inner_text()
    assert pane.locator(".fault-message").inner_text().splitlines()[0] in described
    assert content.evaluate(HAS_FOCUS)
    edit = triton.kernels[0].edits[-1]
    assert edit.text.splitlines()[edit.line - 1] == "    tl.dot(1, 2)"


@pytest.mark.usefixtures("tried_here")
def test_output_code_is_edited_too(notebook: Any, cpp: Trace) -> None:
    """A syntax error stands at its line; a right edit is in place, timed as a call of the output code, until reset."""
    book = notebook(cpp)
    pane = book.edit("output_code")
    book.write("import random", "import (random")
    book.run()
    assert not untold(pane.locator(".verdict").inner_text(), "syntax error", "line") and cpp.live.edits.current == ()
    assert pane.locator(".line-fault").inner_text() == "import (random"
    book.write("import (random", "import random as random")
    book.run()
    assert "in place" in pane.locator(".verdict").inner_text() and [each.form for each in cpp.live.edits.current] == ["wrapper"]
    assert not untold(pane.locator(".edit-figures").inner_text(), "call", "output code")
    assert "edit " in pane.locator(".edited-badge").inner_text()
    pane.get_by_role("button", name="reset what runs").click()
    book.carry()
    assert cpp.live.edits.current == () and pane.locator(".edited-badge").is_hidden()


@pytest.mark.usefixtures("tried_here")
def test_axe_finds_nothing_serious_in_an_edit(notebook: Any, triton: Trace) -> None:
    """An edit for a GPU you don't have, with its answer: interpreted, priced, and no rule of axe-core broken, light and dark."""
    book = notebook(triton)
    pane = book.edit()
    book.write("tl.store(", "tmp20 = tl.where(tmp20 < 9.0, tmp20, 9.0)\n    tl.store(")
    book.run()
    assert "in place" in pane.locator(".verdict").inner_text() and "interpreter" in pane.locator(".fault-text").inner_text()
    assert "predicted time of one launch" in pane.locator(".edit-figures").inner_text()
    assert pane.locator(".edit-figures tr", has_text="predicted").locator("td").last.inner_text() == "1 ×", "Kernels has its time"
    assert "registers a thread" in pane.locator(".edit-figures").inner_text()
    book.tab.evaluate("document.title = document.documentElement.lang = 'en'")  # the notebook's part
    load_axe(book.tab)
    for scheme in ("light", "dark"):
        book.tab.emulate_media(color_scheme=scheme)
        drawn(book.tab)
        found = serious(book.tab)
        assert found == [], "\n".join([scheme, *found])


@pytest.mark.usefixtures("tried_here")
def test_a_form_below_the_source_is_edited_too(notebook: Any, triton: Trace) -> None:
    """A wrong word of PTX is ptxas's error at its line."""
    book = notebook(triton)
    pane = book.edit("ptx")
    book.write("ld.global", "ld.globl")
    book.run()
    assert not untold(pane.locator(".verdict").inner_text(), "compile error", "line")
    assert "ld.globl" in pane.locator(".line-fault").inner_text()


def test_a_hanging_edit_is_stopped_from_the_view(notebook: Any, cpp: Trace) -> None:
    """Stop ends the process in which it hangs, well before the limit; what stood in its place stays."""
    book = notebook(cpp)
    pane = book.edit()
    before = len(cpp.kernels[0].edits)
    book.write("{", "{\nfor (volatile int i = 0; i == 0;) {}\n")
    book.tab.locator(".editing .cm-content").press("Control+Enter")
    book.widget._worker.answer(book.tab.evaluate("window.asked.pop()"))
    until(lambda: "launch" in (said := book.widget.progress).get("phase", "") or "rows" in said or "error" in said)
    assert "rows" not in book.widget.progress and "error" not in book.widget.progress
    pane.get_by_role("button", name="stop", exact=True).click()
    book.widget._worker.answer(book.tab.evaluate("window.asked.pop()"))
    book.widget._worker.wait()
    book.tell()
    assert "stopped" in pane.locator(".verdict").inner_text()
    assert len(cpp.kernels[0].edits) == before and [row["equal"] for row in cpp.check()] == [True]


def test_a_draft_is_kept(notebook: Any, triton: Trace) -> None:
    """Escape leaves the edit, and "edit" goes on with it; a slash is a letter of it; a view made anew has it still."""
    book = notebook(triton)
    pane = book.edit()
    content = pane.locator(".cm-content")
    content.press("Control+Home")
    book.tab.keyboard.type("# a/b")
    assert content.inner_text().startswith("# a/b")
    content.press("Escape")
    assert pane.locator(".edit-box").is_hidden() and not content.inner_text().startswith("# a/b")
    assert pane.locator(".edited-badge").inner_text() == "a draft is kept"
    pane.get_by_role("button", name="edit", exact=True).click()
    assert content.inner_text().startswith("# a/b")
    state = "document.querySelector('.explorer-host').app.parts.edits.kept"
    kept = book.tab.evaluate(state)
    other = notebook(triton)
    text = next(n for n, a in enumerate(triton.artifacts) if a.stage == "kernel")
    pane = other.tab.get_by_role("region", name="left text", exact=True)
    pane.locator("select").first.select_option(str(text))
    other.tab.evaluate(f"kept => {state.removesuffix('.kept')}.restore(kept)", kept)
    assert pane.locator(".cm-content").inner_text().startswith("# a/b") and pane.locator(".edit-box").is_visible()


def test_the_draft_of_a_program_that_was_changed_is_dropped(notebook: Any, triton: Trace) -> None:
    """A text that is no more what the draft is an edit of is shown as it is, and not edited."""
    book = notebook(triton)
    pane = book.edit()
    kept = {"drafts": [[text_of(triton), "# mine", "# another program"]], "open": [[text_of(triton), "left"]]}
    book.tab.evaluate(f"kept => {EDITS}.restore(kept)", kept)
    assert pane.locator(".edit-box").is_hidden() and "# mine" not in pane.locator(".cm-content").inner_text()
    assert book.tab.evaluate(f"{EDITS}.kept") == {"drafts": [], "open": []}


@pytest.mark.usefixtures("tried_here")
def test_an_answer_leaves_the_variant_that_is_looked_at(notebook: Any, triton: Trace) -> None:
    """The text and the answer of an earlier edit stay together; back at the draft stands the new answer."""
    book = notebook(triton)
    pane = book.edit()
    triton.kernels[0].edit(triton.kernels[0].source + "\n# first\n")
    book.tell()
    first = len(triton.kernels[0].edits)
    book.write("def ", "# second\ndef ")
    pane.locator(".cm-content").press("Control+Enter")
    pane.locator(".history button").last.click()
    book.carry()
    assert f"Edit {first}:" in pane.locator(".verdict").inner_text() and "# first" in book.text
    pane.get_by_role("button", name="back to the draft").click()
    assert f"Edit {first + 1}:" in pane.locator(".verdict").inner_text() and "# second" in book.text


def test_the_answer_to_another_view_is_not_this_ones(notebook: Any, triton: Trace) -> None:
    """Two views of a trace hear the same answers: one that waits goes on until that of its own text."""
    book = notebook(triton)
    pane = book.edit()
    pane.locator(".cm-content").press("Control+Enter")
    answer = {"what": "edit", "rows": [], "stopped": True}
    book.tab.evaluate("answer => tell('progress', answer)", {**answer, "artifact": "another"})
    assert "trying the edit" in pane.locator(".verdict").inner_text()
    book.tab.evaluate("answer => tell('progress', answer)", {**answer, "artifact": text_of(triton)})
    assert "stopped" in pane.locator(".verdict").inner_text()
    assert pane.get_by_role("button", name="run", exact=True).get_attribute("aria-disabled") == "false"


def test_the_seconds_of_an_edit_are_counted(notebook: Any, triton: Trace) -> None:
    """Before it is run the panel says what will be done; while it is under way, what is done now and for how long."""
    book = notebook(triton)
    pane = book.edit()
    assert not untold(pane.locator(".verdict").inner_text(), "compares", "minute")
    pane.locator(".cm-content").press("Control+Enter")
    pane.get_by_text(re.compile(r"^[1-9]\d* s$")).wait_for()
    said = {"what": "edit", "artifact": text_of(triton)}
    book.tab.evaluate("said => tell('progress', said)", {**said, "phase": "interpreting it"})
    assert pane.locator(".verdict").inner_text() == "interpreting it …"
    book.tab.evaluate("said => tell('progress', said)", {**said, "rows": [], "stopped": True})
    assert pane.get_by_text(re.compile(r"^\d+ s$")).count() == 0


def test_the_focus_stays_in_the_view(notebook: Any, triton: Trace) -> None:
    """The kernel's buttons keep it during an edit, "run" gives it to the text, "edit" has it once the process ends; a closed
    pane hears nothing.
    """
    book = notebook(triton)
    pane = book.edit()
    heard = f"{EDITS}.hub.listeners.get('edited').length"
    count = book.tab.evaluate(heard)
    book.tab.get_by_role("button", name="add a text pane").click()
    book.tab.get_by_role("button", name="close the third pane").click()
    assert book.tab.evaluate(heard) == count
    panel = show(book.tab, "Kernels")
    rung = panel.locator(".ladder button").first
    rung.focus()
    book.tab.evaluate(f"{EDITS}.hub.tell('edited', null)")
    assert rung.evaluate(HAS_FOCUS)
    show(book.tab, "Code")
    pane.get_by_role("button", name="run", exact=True).click()
    assert pane.locator(".editing .cm-content").evaluate(HAS_FOCUS), "the next edit needs no click"
    pane.get_by_role("button", name="stop", exact=True).focus()
    book.tab.evaluate(f"{EDITS}.live.detach('it has ended')")
    assert pane.locator(".edit-box").is_hidden()
    assert pane.get_by_role("button", name="edit", exact=True).evaluate(HAS_FOCUS)


def test_several_traces_are_edited_in_the_view_of_one(opened: Any, triton: Trace) -> None:
    """Side by side no kernel is edited, and the button says where it can be."""
    tab = opened(explorer.compare(triton, triton))
    pane = tab.get_by_role("region", name="left text", exact=True)
    text = next(n for n, a in enumerate(triton.artifacts) if a.stage == "kernel")
    pane.locator("select").first.select_option(str(text))
    assert "explorer.show(t)" in pane.get_by_role("button", name="edit", exact=True).get_attribute("title")


def test_links_are_off_while_a_text_is_edited(notebook: Any, triton: Trace) -> None:
    """They are of the original's lines: none is lit in the edited pane, and they are back when it is left."""
    book = notebook(triton)
    right = book.edit("ttir", "right")
    left = book.tab.get_by_role("region", name="left text", exact=True)
    left.locator(".line").nth(1).click()
    assert right.locator(".lit").count() == 0
    right.get_by_role("button", name="close", exact=True).click()
    assert right.locator(".lit").count() > 0


@pytest.mark.usefixtures("tried_here")
def test_an_edit_from_a_cell_is_in_the_history(notebook: Any, triton: Trace) -> None:
    """What a cell does with k.edit and k.edits.reset the open view shows."""
    book = notebook(triton)
    pane = book.edit()
    kernel = triton.kernels[0]
    edit = kernel.edit(kernel.source + "\n")
    book.tell()
    assert f"{edit.number}: in place, runs now" in pane.locator(".history").inner_text()
    kernel.edits.reset()
    book.tell()
    assert "runs now" not in pane.locator(".history").inner_text()


def test_a_saved_page_says_why_it_cannot_edit(opened: Any, triton: Trace) -> None:
    """The button is there for the keys, and says what to do instead."""
    tab = opened(triton)
    pane = tab.get_by_role("region", name="right text")
    text = next(n for n, a in enumerate(triton.artifacts) if a.stage == "kernel")
    pane.locator("select").first.select_option(str(text))
    button = pane.get_by_role("button", name="edit", exact=True)
    assert button.get_attribute("aria-disabled") == "true" and "explorer.trace" in button.get_attribute("title")
    button.press("Enter")
    assert pane.locator(".edit-box").is_hidden()
