"""The views of a saved page beside its texts, and what they compute by themselves, in a real browser."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from explorer.analysis.questions.guard_facts import guard_facts
from explorer.analysis.questions.operator_places import ambiguous
from explorer.model.records import blank, typed
from explorer.model.shared import FxPass, Kernel, PatternMatch, Source
from explorer.model.stage import Passes, Stage
from explorer.model.values import Artifact, Event, Failure, Link, plain
from explorer.stages.dynamo.graph_break import GraphBreak
from explorer.stages.dynamo.recompile import Recompile, Recompiles
from explorer.stages.inductor.autotune import Autotune
from explorer.stages.torch_compile.phase import Phases
from explorer.stages.triton.origins import KernelForm
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.facts import untold
from tests.in_tab import APP, CELLS, calls_together, drawn, fitted, functions, name_nodes, row_of, show, texts_shown
from tests.tabs import to_view

HOSTILE = '</script><img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def trained(replayed) -> Trace:
    """A training step compiled for a GPU, with kernels down to machine code."""
    return replayed("mlp_train-torch2.11-cuda")


def source(text: str) -> Artifact:
    data = blank(Source, function="f", qualname="f", file="f.py", first_line=1, compiled=True)
    return Artifact("s", "source", "0/0", "", "f", "python", text, data=data)


# Diff --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_diff_is_the_two_texts_and_nothing_else(tabs, seed):
    """The rows of a diff name every line of both sides once and in order, and call equal only what is equal."""
    chance = random.Random(seed)
    words = [f"word {n}" for n in range(chance.choice([3, 12, 400]))]
    a = chance.choices(words, k=chance.randrange(80))
    b = [w for w in a if chance.random() < 0.8] + chance.choices(words, k=chance.randrange(9))
    tab = functions(tabs(), "diff.js")
    rows = tab.evaluate("([a, b]) => js.diffLines(a, b)", [a, b])
    assert [i for i, _, _ in rows if i >= 0] == list(range(len(a)))
    assert [j for _, j, _ in rows if j >= 0] == list(range(len(b)))
    assert all(a[i] == b[j] for i, j, same in rows if same)


def test_numbered_names_count_as_the_same(tabs):
    """With names made the same a renumbered line is equal; a changed operator is not."""
    tab = functions(tabs(), "diff.js")
    compare = "([a, b, normalise]) => js.diffLines(a, b, { normalise }).map((row) => row[2])"
    mlir = ["%12 = arith.addf %3, %4 : f32", "tt.store %12, %5"]
    other = ["%7 = arith.addf %1, %2 : f32", "tt.store %7, %5"]
    assert tab.evaluate(compare, [mlir, other, True]) == [True, True]
    assert tab.evaluate(compare, [mlir, other, False]) == [False, False]
    assert tab.evaluate(compare, [mlir, [other[0].replace("addf", "mulf"), other[1]], True]) == [False, True]
    assert tab.evaluate(compare, [["tmp5 = tmp3 + tmp4"], ["tmp9 = tmp1 + tmp2"], True]) == [True]
    assert tab.evaluate(compare, [["tmp5 = tmp3 + tmp3"], ["tmp9 = tmp1 + tmp2"], True]) == [False]


def test_a_diff_of_50000_lines_is_made(tabs):
    """Two texts of 50,000 lines, one in ten of them changed: only changed lines differ (benchmarks/widget.py has the time)."""
    tab = functions(tabs(), "diff.js")
    equal, gone, made = tab.evaluate("""() => {
        const a = Array.from({ length: 50000 }, (_, n) => `%${n} = arith.addf %${n % 97}, %c_${n % 13} : f32 loc(#loc${n % 9})`);
        const b = a.flatMap((line, n) => (n % 10 ? [line] : n % 20 ? [] : [`${line} // ${n}`]));
        const rows = js.diffLines(a, b, { normalise: true });
        const count = (which) => rows.filter(which).length;
        return [count(([, , same]) => same), count(([i, , same]) => !same && i >= 0), count(([, j, same]) => !same && j >= 0)];
    }""")
    assert (equal, gone, made) == (45_000, 5_000, 2_500)


def test_compare_shows_what_a_stage_changed(opened, trained):
    """Two graphs of the same kind stand side by side by their text, equal stretches folded; the sides can be swapped."""
    panel = show(opened(trained), "Diff")
    assert panel.locator(".cell.gone").count() and panel.locator(".cell.made").count()
    said = panel.locator(".diff-bar .count").inner_text()
    gone, made = (int(n) for n in re.findall(r"\d+", said))
    panel.get_by_role("button", name="swap the sides").click()
    assert [int(n) for n in re.findall(r"\d+", panel.locator(".diff-bar .count").inner_text())] == [made, gone]


def test_a_trace_of_another_compiler_opens_on_its_dispatches(opened, replayed):
    """A view opens on the text that the compiler's stages say, not on a graph above it, and compares two of its phases."""
    tab = opened(replayed("iree_linear-torch2.13-cpu"))
    shown = tab.locator(".pane select").nth(1).locator("option:checked")
    assert shown.inner_text().startswith("flow · IREE")
    compared = show(tab, "diff").locator("select").first.locator("option:checked")
    assert "IREE" in compared.inner_text()


def test_what_differs_in_long_lines_is_in_sight(opened):
    """Two long lines that differ at their end begin near it, with a sign that they are cut.

    The step to them slides both sides alike, and a bar slides back; what differs stays in sight.
    """
    texts = ["x = " + "a + " * 200 + end for end in ("first", "second")]
    graphs = [Artifact(f"g{n}", "dynamo", "0/0", "", f"g{n}", "fx", text) for n, text in enumerate(texts)]
    tab = opened(Trace(artifacts=(source("def f(): pass"), *graphs)))
    panel = show(tab, "Diff")
    for which, name in (("first", "g0"), ("second", "g1")):
        panel.get_by_role("combobox", name=f"{which} text to compare").select_option(label=name)
    inside = """all => all.map(word => {
        const [word_, cell] = [word.getBoundingClientRect(), word.closest('.cell').getBoundingClientRect()];
        return word_.left >= cell.left && word_.right <= cell.right;
    })"""
    words = panel.locator(".cell b")
    slid = f"{APP}.tabs.views.get('diff').diff.slid"
    assert words.evaluate_all(inside) == [True, True] and tab.evaluate(slid) == 0
    assert panel.locator(".cell .mark").all_inner_texts() == ["−…", "+…"]
    panel.get_by_role("button", name="next change").click()
    assert words.evaluate_all(inside) == [True, True] and tab.evaluate(slid) > 0
    panel.locator(".slider").evaluate("bar => { bar.scrollLeft = 0 }")
    tab.wait_for_function(f"() => !{slid}")
    assert words.evaluate_all(inside) == [True, True]


def test_texts_of_two_kinds_are_aligned_by_where_they_came_from(opened):
    """A graph and a kernel have no line in common: lines that came from the same line of the user stand side by side."""
    artifacts = (
        source("a\nb\nc"),
        Artifact("d", "dynamo", "0/0", "", "d", "fx", "one\ntwo\nthree"),
        Artifact("k", "kernel", "0/0", "", "k", "triton", "head\nuno\ntres", kernel="k", data=blank(Kernel, name="k")),
    )
    links = [Link("d", (n,), "s", (n,), "x") for n in (1, 2, 3)] + [
        Link("k", (2,), "d", (1,), "y"),
        Link("k", (3,), "d", (3,), "y"),
    ]
    tab = opened(Trace(artifacts=artifacts, links=tuple(links)))
    panel = show(tab, "Diff")
    panel.get_by_role("combobox", name="first text").select_option("1")
    panel.get_by_role("combobox", name="second text").select_option("2")
    texts = "rows => rows.map(r => [...r.querySelectorAll('.code')].map(c => c.textContent))"
    beside = panel.locator(".diff-row").evaluate_all(texts)
    assert ["one", "uno"] in beside and ["three", "tres"] in beside and ["two", "uno"] not in beside


# Passes ------------------------------------------------------------------------------------------------------------------


def passes_trace() -> Trace:
    def fx(n: int, name: str, before: str, after: str, time: float) -> Artifact:
        data = blank(FxPass, name=name, section="joint", seconds=0.1, erased=("x",), before=before)
        return Artifact(f"p{n}", "fx_pass", "0/0", "joint", name, "fx-lines", after, time=time, data=data)

    match = blank(PatternMatch, pattern="pointless", file="joint_graph.py", line=7, matched=("x",))
    artifacts = (
        Artifact("m", "pattern_match", "0/0", "joint", "m", "fx-lines", "matched\n  x = view(a)\nmade", time=2.5, data=match),
        fx(1, "first", "a\nb\nc", "a\nc", 1.0),
        fx(2, "second", "a\nc", "a\nc\nd", 3.0),
    )
    return Trace(artifacts=artifacts)


def test_passes_that_changed_nothing_are_dimmed(opened):
    """They stand where they ran, before and after those that changed something, and say so; the first change is shown."""
    whole = passes_trace()
    idle = {"p1": {"idle": [["early", 0.1]]}, "p2": {"idle": [["between", 0.2]], "idle_after": [["late", 0.3]]}}
    artifacts = tuple(replace(a, data=typed(FxPass, {**a.data, **idle[a.id]})) if a.id in idle else a for a in whole.artifacts)
    panel = show(opened(replace(whole, artifacts=artifacts)), "Passes")
    steps = panel.get_by_role("listbox", name="passes")
    names = [s.split("\n")[0] for s in steps.get_by_role("option").all_inner_texts()]
    assert names == ["early", "first", "between", "second", "pointless", "late"]
    dim = steps.locator(".step.dim")
    assert [s.split("\n")[0] for s in dim.all_inner_texts()] == ["early", "between", "late"]
    assert "unchanged" in dim.first.inner_text()
    assert steps.locator('[aria-selected="true"]').inner_text().startswith("first")


def test_equal_patterns_in_a_row_are_folded(opened):
    """They stand behind the first with their number, and unfold where one of them is shown."""
    whole = passes_trace()
    again = tuple(replace(whole.artifacts[0], id=f"m{n}") for n in range(3))
    tab = opened(replace(whole, artifacts=(*again, *whole.artifacts)))
    steps = show(tab, "Passes").get_by_role("listbox", name="passes")

    def said() -> list[str]:
        return [" ".join(s.split()) for s in steps.get_by_role("option").all_inner_texts()]

    folded = said()
    assert len(folded) == 3 and folded[-1] == "pointless × 4"
    steps.focus()
    tab.keyboard.press("End")
    assert len(said()) == 6 and steps.locator('[aria-selected="true"]').is_visible()
    tab.keyboard.press("Home")
    assert said() == folded


def test_passes_are_walked_by_keys(opened):
    """↓ and ↑ walk the passes in the order in which they ran, patterns under theirs, each with what it changed."""
    tab = opened(passes_trace())
    panel = show(tab, "Passes")
    steps = panel.get_by_role("listbox", name="passes")
    assert [s.split("\n")[0] for s in steps.get_by_role("option").all_inner_texts()] == ["first", "second", "pointless"]
    changed = "cells => cells.map(c => c.dataset.side + c.querySelector('.code').textContent)"
    assert panel.locator(".cell.gone, .cell.made").evaluate_all(changed) == ["0b"]
    steps.focus()
    tab.keyboard.press("ArrowDown")
    assert steps.locator('[aria-selected="true"]').inner_text().startswith("second")
    assert panel.locator(".cell.gone, .cell.made").evaluate_all(changed) == ["1d"]
    tab.keyboard.press("ArrowUp")
    assert steps.locator('[aria-selected="true"]').inner_text().startswith("first")


@pytest.mark.parametrize(("compiler", "whole"), [("IREE", "convert-torch-to-linalg"), ("TVM", "FuseOps"), ("XLA", "")])
def test_the_passes_of_another_compiler_are_walked(opened, replayed, compiler, whole):
    """Each that changed something is a step with the lines that its difference has; of one that was named the whole text."""
    name = compiler.lower()
    trace = replayed(f"{name}_linear-torch2.13-cpu")
    panel = show(opened(trace), "Passes")
    assert panel.get_by_label("passes of").locator("option:checked").inner_text() == f"{compiler} passes · inference"
    assert ("after_passes" in panel.locator(".steps-side").inner_text()) is bool(whole)
    rows = trace.table(f"{name}_pass")
    options = panel.get_by_role("listbox", name="passes").get_by_role("option")
    assert options.locator(".name").all_text_contents() == [row["name"] for row in rows]
    short = next(n for n, row in enumerate(rows) if row["difference"].count("\n") < 24 and row["name"] != whole)
    options.nth(short).click()
    seen = panel.locator(".cell.gone, .cell.made").evaluate_all(
        "cells => cells.map(c => '-+'[c.dataset.side] + c.querySelector('.code').textContent)"
    )
    changed = [line for line in rows[short]["difference"].split("\n") if re.match(r"[-+](?![-+]{2} )", line)]
    assert sorted(seen) == sorted(changed) and changed
    shown = panel.get_by_role("list", name="differences")
    assert "@@ -" in shown.inner_text()
    if not whole:
        return
    options.nth(next(n for n, row in enumerate(rows) if row["name"] == whole)).click()
    (row,) = (row for row in trace.table(f"{name}_after_pass") if row["name"] == whole)
    assert "@@ -" not in shown.inner_text()
    first = shown.get_by_role("listitem").first.inner_text()
    assert re.match(r"⋯ \d+ equal lines", first) or row["after"].split("\n")[0] in first


def test_the_passes_of_a_compiler_of_your_own_are_walked(opened):
    """A stage that says whose passes it shows has its view, whatever else its data lacks; whole texts are found by number."""

    def of(event: Event, id: str) -> Artifact:
        raise NotImplementedError

    mine = Stage("my_pass", "Passes", "diff", "", of, passes=Passes("Mine", "my_module"))
    whole = Stage("my_module", "Modules", "text", "", of)

    def artifact(stage: str, text: str, **data: Any) -> Artifact:
        return Artifact(f"{stage} {data['number']}", stage, "0/0", "forward", "untitled", "diff", text, data=data)

    artifacts = (
        artifact("my_pass", "--- before\n+++ after\n@@ -1,2 +1,2 @@\n a\n-b\n+c", number=1, name="tidy", before=2, after=2),
        artifact("my_pass", "--- before\n+++ after\n@@ -2 +2 @@\n-c\n+d", number=2),
        artifact("my_module", "a\nd", number=2, before="a\nc"),
    )
    panel = show(opened(Trace(artifacts=artifacts, _stages=(mine, whole))), "Passes")
    assert panel.get_by_label("passes of").locator("option:checked").inner_text() == "Mine passes · forward"
    options = panel.get_by_role("listbox", name="passes").get_by_role("option")
    assert [text.split("\n") for text in options.all_inner_texts()] == [["tidy", "2 → 2 lines"], ["untitled"]]
    cells = "cells => cells.map(c => '-+'[c.dataset.side] + c.querySelector('.code').textContent)"
    assert panel.locator(".cell.gone, .cell.made").evaluate_all(cells) == ["-b", "+c"]
    options.nth(1).click()
    assert panel.locator(".cell.gone, .cell.made").evaluate_all(cells) == ["-c", "+d"]
    assert "@@" not in panel.get_by_role("list", name="differences").inner_text()


def test_mlir_passes_of_a_saved_trace_say_that_they_need_the_process(opened, trained):
    """A kernel's MLIR passes are made by the process that compiled; a saved trace says so."""
    tab = opened(trained)
    panel = show(tab, "Kernels")
    panel.get_by_role("button", name="step through its MLIR passes").click()
    assert "saved trace" in tab.get_by_role("tabpanel", name="Passes").inner_text()


# Kernels -----------------------------------------------------------------------------------------------------------------


def test_the_table_of_kernels_has_what_each_takes(opened, trained):
    """Each kernel has a row with its operators and registers; one opened shows its ladder, which opens texts side by side."""
    tab = opened(trained)
    panel = show(tab, "Kernels")
    assert panel.locator("table").first.locator("tbody tr").count() == len(trained.kernels)
    kernel = next(k for k in trained.kernels if k.resources)
    row_of(panel, kernel.name).click()
    detail = panel.locator(".kernel-detail").inner_text()
    assert f"registers\n{kernel.resources['registers']}" in detail
    panel.locator(".ladder").get_by_role("button", name="PTX").click()
    texts = tab.locator(".pane select").evaluate_all("s => s.map(x => x.selectedOptions[0].textContent)")
    assert kernel.name in texts[0] and "PTX" in texts[1]


def test_the_table_of_kernels_has_what_each_costs(opened, for_h100):
    """Each kernel and call has its bytes and its time, called an estimate; each column sorts, what is not known last."""
    panel = show(opened(for_h100), "Kernels")
    table, rows = panel.get_by_role("table", name="kernels"), for_h100.kernels.table
    calls = {}
    for group in calls_together(for_h100):
        nodes, sums = ", ".join(row["node"] for row in group), ("seconds", "read", "written")
        row = group[0] | {key: sum(row[key] for row in group) for key in sums}
        calls[f"{row['call'].removeprefix('extern_kernels.')} {nodes}"] = row
    costs = {row["kernel"]: row for row in rows} | calls
    heads = table.locator("th[scope=col]").all_inner_texts()
    wanted = ["time (estimated)", "line", "reads", "writes", "grid", "registers", "shared", "spills"]
    assert [head for head in heads if head in wanted] == wanted
    assert not untold(panel.inner_text(), "estimated", "H100")

    def column(head: str) -> list[str]:
        return list(table.locator("tbody tr").evaluate_all(CELLS, heads.index(head)))

    def kernels() -> list[str]:
        return list(table.locator("tbody tr .in-parts").all_text_contents())

    slowest = max(costs.values(), key=lambda row: row["seconds"] or 0)
    detail = panel.locator(".kernel-detail").inner_text()
    assert f"reads {size(slowest['read'])}, writes {size(slowest['written'])}" in detail, "it opens on the slowest"
    names = kernels()
    assert sorted(names) == sorted(costs)
    assert column("reads") == [size(costs[name]["read"]) for name in names]
    assert column("writes") == [size(costs[name]["written"]) for name in names]
    time = re.compile(r"(≈ [\d.]{1,4} (ns|µs)|< 1 ns)(\d+ (launches|calls))?")
    assert all(time.fullmatch(text) for text in column("time (estimated)")), "to three digits"
    numbers = {"reads": "read", "writes": "written", "registers": "registers", "time (estimated)": "seconds"}
    for head in heads:
        while table.locator("th[aria-sort=ascending]").all_inner_texts() != [head]:
            table.get_by_role("button", name=head, exact=True).click()
        low = kernels()[0]
        table.get_by_role("button", name=head, exact=True).click()
        assert table.locator("th[aria-sort=descending]").all_inner_texts() == [head]
        high = kernels()[0]
        if key := numbers.get(head):
            found = [value for row in costs.values() if (value := row.get(key)) is not None]
            assert (costs[low][key], costs[high][key]) == (min(found), max(found)), head


def test_a_cut_name_of_a_kernel_keeps_its_number(opened, for_h100):
    """In a narrow table the middle of a kernel's name is left out: its number, which tells it from the next, is to be seen."""
    panel = show(opened(for_h100), "Kernels")
    panel.get_by_role("button", name=re.compile(r"^kernels \d+$")).click()
    names = panel.get_by_role("table", name="kernels").locator("tbody td:first-child")
    numbers = names.evaluate_all("""cells => cells.map(cell => {
        const parts = [...cell.querySelectorAll('.cut, .stays')];
        const tail = parts.at(-1) ?? cell.firstElementChild ?? cell;
        const [inside, around] = [tail.getBoundingClientRect(), cell.getBoundingClientRect()];
        const cut = parts.some(part => part.matches('.cut') && part.scrollWidth > part.clientWidth);
        return [cut, inside.right <= around.right, !parts.length || tail.matches('.stays'), tail.textContent];
    })""")
    numbered = sorted(k.name[k.name.rindex("_") :] for k in for_h100.kernels)
    assert sorted(text[text.rindex("_") :] for *_, text in numbers) == numbered and all(stays for _, _, stays, _ in numbers)
    assert any(cut for cut, *_ in numbers) and all(seen for _, seen, *_ in numbers)


def test_what_inductor_chose_among_is_a_table(opened):
    """Each way of doing an operation has a row: its time or that there is none, whether it was taken, and why. Text is text."""
    untried = {"grid": (), "source": ""}
    choices = (
        {
            "choice": "mm",
            "kind": "ExternKernelCaller",
            "config": "",
            "ms": 0.02,
            "fastest": True,
            "taken": False,
            "why": "",
            **untried,
        },
        {
            "choice": "triton_mm_1",
            "kind": "TritonTemplateCaller",
            "config": f"BLOCK_M=64{HOSTILE}",
            "ms": None,
            "fastest": False,
            "taken": True,
            "why": "with the relu in it",
            **untried,
        },
    )
    data = typed(Autotune, {"operation": "mm", "inputs": ["float32[8, 8]"], "choices": choices})
    text = "mm(float32[8, 8])\n0.02 ms mm\nnot timed triton_mm_1"
    tuned = Artifact("a", "autotune", "0/0", "inference", "Choices for mm", "text", text, data=data)
    tab = opened(Trace(artifacts=(source("def f(): pass"), tuned)))
    panel = show(tab, "Choices")
    rows = panel.get_by_role("table", name="choices").locator("tbody tr")
    assert [row.split("\t")[2:4] for row in rows.all_inner_texts()] == [["fastest", "20 µs"], ["✓ taken", "not timed"]]
    assert not untold(rows.nth(1).inner_text(), "relu") and tab.evaluate("window.hacked") is None
    panel.get_by_role("button", name="triton_mm_1", exact=True).click()
    assert f"64{HOSTILE}" in panel.get_by_role("article", name="triton_mm_1").inner_text()
    panel.get_by_role("button", name="mm(float32[8, 8])").click()
    assert "mm(float32[8, 8])" in tab.locator(".line.chosen").inner_text(), "it leads to its text"


def test_a_kernel_whose_costs_are_not_known_says_why(opened, trained):
    """Where nothing is known of bytes and time the cells have a dash, and the reason is there in words."""
    panel = show(opened(trained), "Kernels")
    row = trained.kernels.table[0]
    table = panel.get_by_role("table", name="kernels")
    heads = table.locator("th").all_inner_texts()
    cell = table.locator("tbody tr").first.locator("td").nth(heads.index("time"))
    assert cell.inner_text() == "—" and cell.get_attribute("title") == row["seconds_known"]
    assert row["bytes_known"] in panel.inner_text() and row["seconds_known"] in panel.locator(".kernel-detail").inner_text()


def test_assumptions_are_a_chip_that_leads_to_them(opened):
    """What was assumed for a GPU you don't have is counted in the header, and a press shows it with its reason."""
    whats = {"0/0": ("mm is fastest", "it is fused"), "1/0": ("so again",)}
    assumed = []
    for frame, own in whats.items():
        data = plain({"rows": [{"graph": "g", "where": "mm", "assumed": what, "why": "not timed"} for what in own]})
        assumed.append(Artifact(f"{frame}:a", "assumption", frame, "", "Assumptions", "text", "\n".join(own), data=data))
    tab = opened(Trace(artifacts=(source("def f(): pass"), *assumed)))
    tab.get_by_role("button", name="3 assumptions").click()
    assert "mm is fastest" in " ".join(tab.locator(".pane .cm-content").all_inner_texts())


def test_a_cell_that_is_cut_says_all_to_the_pointer(opened, rotary):
    """A text longer than its cell has the whole of it as its title, also on a narrow screen."""
    tab = opened(rotary)
    tab.set_viewport_size({"width": 560, "height": 900})
    panel = show(tab, "Guards")
    look = "cells => cells.filter(c => c.scrollWidth > c.clientWidth).map(c => [c.title, c.textContent])"
    cut = panel.locator("td").evaluate_all(look)
    assert cut and all(title == text for title, text in cut)


def test_tables_sort_and_filter(opened, trained):
    """A heading sorts a table, twice the other way; words filter it."""
    panel = show(opened(trained), "Guards")
    table = panel.get_by_role("table", name="guards")
    panel.get_by_role("button", name="parameters").click()
    facts = "rows => rows.map(r => r.cells[0].textContent)"
    table.get_by_role("button", name="must hold").click()
    found = table.locator("tbody tr").evaluate_all(facts)
    assert found == sorted(found) and len(found) > 3
    table.get_by_role("button", name="must hold").click()
    assert table.locator("tbody tr").evaluate_all(facts) == sorted(found, reverse=True)
    panel.get_by_role("searchbox", name="filter guards").fill("requires grad")
    kept = table.locator("tbody tr").evaluate_all(facts)
    assert kept and set(kept) == {fact for fact in found if "requires grad" in fact} != set(found)


def test_guards_are_facts_that_lead_to_their_lines(opened, rotary):
    """The table opens on what the caller passes, a press adds another group, and a fact, never cut, leads to its guards' line."""
    tab = opened(rotary)
    panel = show(tab, "Guards")
    (guards,) = rotary.find("guards")
    facts = guard_facts(guards.data.rows)
    cells = panel.get_by_role("table", name="guards").locator("tbody tr td:first-child")
    assert cells.all_inner_texts() == [fact["fact"] for fact in facts if fact["group"] in ("argument", "size", "value")]
    panel.get_by_role("button", name="program").click()
    assert cells.count() == sum(fact["group"] in ("argument", "size", "value", "program") for fact in facts)
    links = cells.locator(".link")
    links.first.evaluate("link => (link.textContent = 'a fact '.repeat(60))")
    assert links.first.evaluate("link => link.scrollWidth <= link.clientWidth && link.clientHeight > 30"), "a long one wraps"
    passed = next(fact for fact in facts if fact["fact"].startswith("angles: float32 [8, 4] on cpu"))
    panel.get_by_role("button", name=passed["fact"]).click()
    drawn(tab)
    assert guards.lines[passed["line"] - 1].startswith("L['angles']")
    assert tab.get_by_role("status").last.inner_text().find(f"Line {passed['line']} of Guards") >= 0


def test_a_guards_line_is_told_of_the_program_alone(opened, replayed):
    """A guard that torch's own code led to has its place, and no line: that says nothing of the program."""
    panel = show(opened(replayed("mlp_train-torch2.13-cpu")), "Guards")
    panel.get_by_role("button", name="parameters").click()
    cells = "rows => rows.map(row => [row.cells[1].textContent, row.cells[2].textContent])"
    rows = panel.get_by_role("table", name="guards").locator("tbody tr").evaluate_all(cells)
    told = {(place.split(":")[0], bool(code)) for place, code in rows if place}
    assert ("linear.py", False) in told and ("linear.py", True) not in told and ("programs.py", False) not in told


def test_recompiles_and_breaks_are_told(opened, replayed):
    """A recompile is a card with the guard that failed, a graph break one with its reason, and chips lead to both."""
    tab = opened(replayed("recompile-torch2.13-cpu"))
    tab.get_by_role("button", name="recompile").click()
    assert "compiled again" in tab.get_by_role("tabpanel", name="Guards").inner_text()
    other = opened(replayed("toy_example-torch2.13-cpu"))
    other.get_by_role("button", name="graph break").click()
    reason = replayed("toy_example-torch2.13-cpu").dynamo.graph_breaks[0]["reason"]
    assert reason.split("\n")[0] in other.get_by_role("tabpanel", name="Guards").inner_text()


def test_a_break_is_one_card_for_its_place_with_its_hints_in_full(opened):
    """Breaks at one place are one card that counts them, hints whole, however long; the guards that failed are a tree."""
    hint = "Write it so: " + "x = x.sin(); " * 60 + "and so it ends."

    def break_at(frame: str, line: int) -> Artifact:
        data = GraphBreak(reason="Data-dependent branching", explanation="E " * 300, hints=(hint,), file="f.py", line=line)
        return Artifact(f"{frame}:graph_break:{line}", "graph_break", frame, "", "Graph break", "text", "a break", data=data)

    def again(frame: str, *earlier: str) -> Artifact:
        data = Recompiles(rows=tuple(Recompile(earlier=e, guard=f"guard of {e} on x") for e in earlier))
        text = "\n".join(f"{e}: guard" for e in earlier)
        return Artifact(f"{frame}:recompile", "recompile", frame, "", "Recompile", "text", text, data=data)

    breaks = (break_at("0/0", 1), break_at("0/1", 1), break_at("1/0", 2))
    failures = (Failure("dynamo", "limit", "f was compiled 8 times: recompile_limit is 8"),)
    texts = (source("def f(x):\n    return x"), *breaks, again("0/1", "0/0"), again("0/2", "0/0", "0/1"))
    tab = opened(Trace(artifacts=texts, failures=failures))
    panel = show(tab, "Guards & breaks")
    cards = panel.locator("article")
    assert cards.count() == 4, "two places, one function compiled again, one limit"
    assert not untold(cards.first.inner_text(), "2 times", "0/0", "0/1")
    assert cards.first.locator("li").inner_text() == hint and ("E " * 300).strip() in cards.first.inner_text()
    tree = cards.nth(2)
    assert not untold(tree.inner_text(), "f", "2 times")
    versions = tree.locator(".versions > li").all_inner_texts()
    assert [re.findall(r"guard of \S+", text) for text in versions] == [
        ["guard of 0/0", "guard of 0/0"],
        ["guard of 0/0", "guard of 0/0", "guard of 0/1", "guard of 0/1"],
    ]
    assert "recompile_limit reached" in cards.nth(3).inner_text()
    assert "0/1:recompile" not in texts_shown(tab)
    tree.get_by_role("button", name="0/1").click()
    assert "0/1:recompile" in texts_shown(tab), "it leads to the text of that recompile"


def test_phases_are_bars(opened, trained):
    """The compiler's phases are bars whose widths are their shares of the time, each in its lane, below the function's name."""
    phase, *_ = trained.find("phase")
    phases = typed(Phases, phase.data).rows
    end = max(row.start + (row.seconds or 0) for row in phases)
    last = Phases(rows=(*phases, replace(phases[-1], start=end - 0.001, seconds=0.001)))
    trace = replace(trained, artifacts=tuple(replace(a, data=last) if a is phase else a for a in trained.artifacts))
    panel = show(opened(trace), "Compiler")
    assert panel.locator(".bars li").count() > 5
    widths = panel.locator(".bars").first.locator("i").evaluate_all("bars => bars.map(b => parseFloat(b.style.width))")
    assert max(widths) > 20 and all(0 < w <= 100.01 for w in widths)
    ends = "bars => bars.map(b => parseFloat(b.style.left) + parseFloat(b.style.width))"
    assert max(panel.locator(".bars").first.locator("i").evaluate_all(ends)) <= 100.01
    (source,) = trained.find("source")
    assert panel.locator("h3").first.inner_text().startswith(f"0/0 {source.data.qualname}, ")


def test_a_saved_trace_says_that_it_cannot_run(opened, trained):
    """The run panel of a saved page has no button that would do nothing."""
    panel = show(opened(trained), "Run")
    assert "saved trace" in panel.inner_text() and panel.get_by_role("button").count() == 0


# Graph -------------------------------------------------------------------------------------------------------------------


def laid_out(tabs: Any, paths: list[list[str]], inputs: list[list[int]], opened: bool) -> dict[str, Any]:
    """The boxes of a graph, all groups open or the first ones."""
    tab = functions(tabs(), "graph.js")
    made = tab.evaluate(
        """([paths, inputs, all]) => {
        const tree = js.groupTree(paths);
        const open = all ? new Set() : js.firstOpen(tree);
        const add = (group) => group.children.forEach((child) => (open.add(child.key), add(child)));
        if (all) add(tree);
        const { boxes, edges } = js.arrange(tree, open, inputs, (box) => [100, 30]);
        boxes.forEach((b, n) => (b.n = n));
        const plain = boxes.map(({ kind, x, y, w, h, node, label }) => ({ kind, x, y, w, h, node, label }));
        boxes.forEach((b, n) => (plain[n].parent = b.parent.n ?? -1));
        return { boxes: plain, edges: edges.map((e) => [e.from.n, e.to.n, e.count]) };
    }""",
        [paths, inputs, opened],
    )
    return made


def chain(count: int) -> tuple[list[list[str]], list[list[int]]]:
    """Like a transformer: layers of nodes, each reading the one before and now and then one further up."""
    paths = [["model", f"layer.{n // 50}", "attn" if n % 50 < 30 else "mlp"] for n in range(count)]
    return paths, [[n - 1] * (n > 0) + [n - 7] * (n > 7 and n % 6 == 0) for n in range(count)]


@pytest.mark.parametrize("opened_all", [True, False])
def test_boxes_do_not_overlap_and_edges_go_down(tabs, opened_all):
    """Each box stands within its group, beside or above its neighbours, and below all that it reads."""
    made = laid_out(tabs, *chain(300), opened_all)
    boxes = made["boxes"]
    if opened_all:
        assert sorted(b["node"] for b in boxes if b["kind"] == "node") == list(range(300))
    for n, one in enumerate(boxes):
        if one["parent"] >= 0:
            outer = boxes[one["parent"]]
            assert outer["x"] <= one["x"] and one["x"] + one["w"] <= outer["x"] + outer["w"] + 0.01
            assert outer["y"] <= one["y"] and one["y"] + one["h"] <= outer["y"] + outer["h"] + 0.01
        for other in boxes[n + 1 :]:
            if one["parent"] == other["parent"]:
                apart_x = one["x"] + one["w"] <= other["x"] + 0.01 or other["x"] + other["w"] <= one["x"] + 0.01
                assert apart_x or one["y"] + one["h"] <= other["y"] + 0.01 or other["y"] + other["h"] <= one["y"] + 0.01
    assert all(boxes[a]["y"] < boxes[b]["y"] for a, b, _ in made["edges"])


def test_groups_that_read_each_other_are_laid_out(tabs):
    """Closed groups may form a ring; each still has its box."""
    made = laid_out(tabs, [["a"], ["b"], ["a"], ["b"]], [[], [0], [1], [2]], False)
    tab = functions(tabs(), "graph.js")
    boxes = tab.evaluate("""() => {
        const tree = js.groupTree([["a"], ["b"], ["a"], ["b"]]);
        return js.arrange(tree, new Set(), [[], [0], [1], [2]], () => [100, 30]).boxes.map((b) => b.y);
    }""")
    assert len(boxes) == 2 and boxes[0] != boxes[1]
    assert {b["label"] for b in made["boxes"] if b["kind"] == "region"} == {"a", "b"}


def test_10000_nodes_open_collapsed(tabs):
    """A graph of 10,000 nodes in one module is one box at first (benchmarks/widget.py has the time)."""
    boxes = laid_out(tabs, *chain(10_000), False)["boxes"]
    assert [(box["kind"], box["label"]) for box in boxes] == [("group", "model")]


def graph_trace() -> Trace:
    """A graph of two modules with links to the source."""
    text = (
        "class G:\n    def forward(self, x):\n        sin = torch.sin(x)\n        cos = torch.cos(sin)\n        add = sin + cos\n"
    )
    shape = {"shape": ("4", "8"), "dtype": "float32", "args": "", "kwargs": ""}
    nodes = [
        {"name": "x", "op": "placeholder", "target": "x", "inputs": (), **shape},
        {"name": "sin", "op": "call_function", "target": "torch.sin", "inputs": ("x",), "module": "net.first", **shape},
        {"name": "cos", "op": "call_function", "target": "torch.cos", "inputs": ("sin",), "module": "net.second", **shape},
        {"name": "add", "op": "call_function", "target": HOSTILE, "inputs": ("sin", "cos"), "module": "net.second", **shape},
    ]
    graph = Artifact("g", "dynamo", "0/0", "", "graph", "fx", text, data=plain({"nodes": nodes}))
    return Trace(artifacts=(source("def f(x):\n    return x"), graph), links=(Link("g", (4,), "s", (2,), "stack_trace"),))


def test_the_selected_line_is_the_selected_node(opened):
    """A node found by name is selected, and with it its line; the facts of the node are shown as text."""
    tab = opened(graph_trace())
    panel = show(tab, "Graph")
    panel.get_by_role("searchbox", name="find a node").fill("cos")
    panel.get_by_role("searchbox", name="find a node").press("Enter")
    assert "line 4" in tab.locator(".graph-detail").inner_text()
    facts = tab.locator(".graph-detail").inner_text()
    assert "torch.cos" in facts and "float32[4, 8]" in facts and "net.second" in facts
    to_view(tab, "Code")
    assert tab.locator(".line.chosen, .line.lit").count()
    assert "at=g:4" in tab.evaluate("location.hash")


def test_the_graph_is_walked_by_keys(opened):
    """Arrows go along edges, Enter opens and closes a group; the status says where one is, hostile names are text."""
    tab = opened(graph_trace())
    panel = show(tab, "Graph")
    canvas = panel.get_by_role("application")
    canvas.focus()
    said = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"):
        tab.keyboard.press(key)
        said.append(tab.locator(".status").inner_text())
    assert said[0].startswith("x,") and any("sin" in s for s in said)
    assert said[-1].startswith(HOSTILE)
    assert tab.evaluate("window.hacked") is None
    panel.get_by_role("button", name="close all groups").click()
    assert "2 boxes" in panel.locator(".graph-count").inner_text()


def test_hostile_rows_are_text(opened):
    """Every panel shows markup in a trace as the text it is."""
    h = HOSTILE
    launch = {"grid": [h], "line": 1, "arguments": {h: h}}
    occupancy = {"blocks": 1, "warps": 1, "fraction": 1.0, "limited_by": h, "limits": {h: 1}}
    data = {
        "guards": {"rows": [{"kind": h, "source": h, "expression": h, "code": h}]},
        "phase": {"rows": [{"name": h, "function": h, "graph": h, "start": 0.0, "seconds": 1.0, "depth": 0}]},
        "graph_break": {"reason": h, "hints": [h], "explanation": h, "file": h, "line": 1},
        "recompile": {"rows": [{"earlier": h, "guard": h}]},
        "symbol": {"rows": [{"what": "created", "symbol": h}]},
        "fx_pass": blank(FxPass, name=h, section=h, before=h, seconds=1.0),
        "pattern_match": blank(PatternMatch, pattern=h, file=h),
        "ttir": blank(
            KernelForm, metadata={"occupancy": occupancy}, launches=[launch], config={h: h}, candidates=[{h: h}], chosen=h
        ),
        "kernel": blank(Kernel, comment=f"Original ATen: [{h}]"),
        "dynamo": {"nodes": [{"name": h, "op": h, "module": h, "target": h, "args": h, "kwargs": h, "inputs": []}]},
    }
    kernels = ("kernel", "ttir")
    artifacts = tuple(
        Artifact(f"{stage}{h}", stage, h, h, h, "fx", h, h if stage in kernels else "", data=facts)
        for stage, facts in data.items()
    )
    tab = opened(Trace(artifacts=artifacts, failures=(Failure(HOSTILE, HOSTILE, HOSTILE),)))
    for name in ("Graph", "Kernels", "Passes", "Diff", "Guards", "Compiler", "Run"):
        show(tab, name)
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img:not(.cm-widgetBuffer)").count() == 0


# Fusion ------------------------------------------------------------------------------------------------------------------


AT = """([view, node]) => {
    const { canvas, graph, nodes } = document.querySelector('#explorer').app.tabs.views.get(view);
    const box = graph.visible.get(nodes.name.indexOf(node));
    const { left, top } = canvas.canvas.getBoundingClientRect();
    canvas.reveal([box]);
    return [left + canvas.x + (box.x + box.w / 2) * canvas.scale, top + canvas.y + (box.y + 8) * canvas.scale];
}"""
CHOSEN = """view => {
    const { canvas, nodes } = document.querySelector('#explorer').app.tabs.views.get(view);
    return nodes.name[canvas.chosen.node];
}"""


def at(tab: Any, view: str, node: str) -> tuple[float, float]:
    """Bring a node of a graph into sight; where it is on the screen."""
    fitted(tab, view)
    x, y = tab.evaluate(AT, [view, node])
    return float(x), float(y)


def size(count: int) -> str:
    """Bytes as the view writes them, below a MiB."""
    kib = int(count / 1024 * 10 + 0.5) / 10  # halves go up, as in JavaScript
    return f"{count} B" if count < 1024 else f"{kib:.1f} KiB" if kib < 100 else f"{int(count / 1024 + 0.5)} KiB"


def two_nodes(trace: Trace, which: str) -> tuple[str, str]:
    """Two nodes of the forward graph of `for_h100` that were fused, refused, or never asked about."""
    groups, rows = trace.fusion.groups.where(graph="forward"), trace.fusion.table.where(graph="forward")
    kept = next(row["nodes"] for row in groups if len(row["nodes"]) > 1)
    refused = next(r for r in rows if r["verdict"] == "refused" and "_" not in r["first"] + r["second"])
    call = next(row["nodes"][0] for row in groups if row["kind"] == "extern")
    return {"fused": kept[:2], "refused": (refused["first"], refused["second"]), "never": (kept[0], call)}[which]


@pytest.mark.parametrize("number", [0, 1])
def test_the_browser_says_of_any_two_nodes_what_python_says(tabs, for_h100, number):
    """For names of nodes, buffers, FX nodes, kernels, groups, operators, and either order: the sentence is `Trace.why`'s."""
    graph = for_h100.fusion.graphs[number]
    names, operators = sorted(graph.numbers_by_name), sorted(name for name in graph.operators if graph.find(name))
    pairs = [(a, b) for a in names for b in names]
    pairs += [pair for a, b in product(operators, names[::9]) for pair in ((a, b), (b, a))]
    expected = [[(why := graph.why(a, b)).fused, why.sentence] for a, b in pairs]
    assert {fused for fused, _ in expected} == {True, False}
    for part in (
        "never considered",
        "has code of",
        " is in ",
        "inlined both into one loop",
        "only through",
        "Triton template for",
    ):
        assert any(part in said for _, said in expected), part
    tab = functions(tabs(), "why.js")
    ask = (
        "([graph, pairs]) => { const v = new js.Verdicts(graph); return pairs.map(p => Object.values(v.why(...p)).slice(0, 2)); }"
    )
    shipped = payload(for_h100)["fusion"][number]
    assert tab.evaluate(ask, [shipped, pairs]) == expected
    several = next(name for name, places in graph.operators.items() if len(places) > 1)
    for name, part in (("op77", "no scheduler node"), (several, str(ambiguous(several, graph.operators[several])))):
        (fused, sentence), (again, _) = tab.evaluate(ask, [shipped, [[name, names[0]], [names[0], name]]])
        assert fused is again is None and part in sentence


@pytest.mark.parametrize("which", ["fused", "refused", "never"])
def test_two_nodes_are_selected_by_mouse(opened, for_h100, which):
    """A click on one node of the fusion view and on another says what `t.why` says, with a mark beside the colour."""
    tab = opened(for_h100)
    panel = show(tab, "Fusion")
    first, second = two_nodes(for_h100, which)
    for name in (first, second):
        tab.mouse.click(*at(tab, "fusion", name))
    expected = for_h100.why(first, second, graph="forward")
    mark = "✓ fused" if expected.fused else "✕ not fused"
    assert panel.locator(".why").inner_text() == f"{mark}: {expected.sentence}"
    assert [panel.get_by_label(f"{n} node").input_value() for n in ("first", "second")] == [first, second]


def test_two_nodes_are_selected_by_keyboard(opened, for_h100):
    """Arrows walk without picking, Enter picks: two nodes far apart are asked about by keys alone; so are two typed names."""
    tab = opened(for_h100)
    panel = show(tab, "Fusion")
    panel.get_by_role("application").focus()
    tab.keyboard.press("ArrowDown")
    first = tab.evaluate(CHOSEN, "fusion")
    assert panel.get_by_label("first node").input_value() == ""
    tab.keyboard.press("Enter")
    for _ in range(3):
        tab.keyboard.press("ArrowDown")
    second = tab.evaluate(CHOSEN, "fusion")
    tab.keyboard.press("Enter")
    assert second != first
    assert panel.locator(".why").inner_text().endswith(f": {for_h100.why(first, second, graph='forward')}")
    first, second = two_nodes(for_h100, "refused")
    name_nodes(panel, first, second)
    assert panel.locator(".why").inner_text() == f"✕ not fused: {for_h100.why(first, second, graph='forward')}"


def test_verdicts_are_sorted_and_filtered(opened, for_h100):
    """The table of verdicts has a row each; a heading sorts by numbers, words filter, and a row asks about its two nodes."""
    panel = show(opened(for_h100), "Fusion")
    table, rows = panel.get_by_role("table", name="verdicts"), for_h100.fusion.table.where(graph="forward")
    lines = table.locator("tbody tr")
    assert lines.evaluate_all(CELLS, 3) == [row["reason"] for row in rows]
    shared = [row["shared_bytes"] for row in rows if row["shared_bytes"] is not None]
    for order in (sorted(shared, reverse=True), sorted(shared)):
        table.get_by_role("button", name="shared").click()
        assert lines.evaluate_all(CELLS, 4) == [*map(size, order), *[""] * (len(rows) - len(shared))], "what is not known is last"
    panel.get_by_role("searchbox", name="filter verdicts").fill("✓")
    kept = [row for row in rows if row["verdict"] == "fused"]
    assert lines.evaluate_all(CELLS, 2) == ["✓ fused"] * len(kept) != []
    lines.first.get_by_role("button").click()
    assert panel.locator(".why").inner_text().startswith("✓ fused: ")


def test_the_pointer_on_a_node_is_told_what_a_text_says(opened, for_h100):
    """Hovering a node of a graph shows operator, tensor, module, user line and how that is known; off it nothing."""
    tab = opened(for_h100)
    panel = show(tab, "Graph")
    graph = for_h100.find("post_grad", graph="forward")[0]
    node = next(n for n in graph.nodes if n["target"] == "aten.erf.default")
    tab.mouse.move(*at(tab, "graph", node["name"]))
    tip = panel.locator(".tip")
    told = dict(zip(tip.locator("dt").all_inner_texts(), tip.locator("dd").all_inner_texts(), strict=True))
    assert told["node"] == node["name"] and told["operator"] == "aten.erf.default" and told["tensor"] == "float32[8, 64]"
    assert told["module"] == node["module"] and f":{node['line']} in" in told["user line"] and told["code"] == node["code"]
    assert told["known by"] == "stack_trace"
    tab.mouse.move(5, 5)
    assert not tip.is_visible()
    panel = show(tab, "Fusion")
    op = next(row["nodes"][0] for row in for_h100.fusion.groups.where(graph="forward") if node["name"] in row["fx_nodes"])
    tab.mouse.move(*at(tab, "fusion", op))
    said = panel.locator(".tip").inner_text()
    assert "aten.erf.default" in said and "triton_poi_fused_gelu_1" in said and node["code"] in said


def test_the_graph_shows_how_each_node_was_lowered(opened, for_h100):
    """A chosen node says kind, function and kernel; the kernel lights its nodes; colours and a legend tell the kinds."""
    tab = opened(for_h100)
    panel = show(tab, "Graph")
    rows = {row["node"]: row for row in for_h100.inductor.lowerings if row["graph"] == "forward"}
    row = next(row for row in rows.values() if len(row["kernels"]) == 1 and len(row["with"]) > 1 and row["function"])
    panel.get_by_label("group the nodes").select_option("none")
    tab.mouse.click(*at(tab, "graph", row["node"]))
    facts = panel.locator(".graph-detail").inner_text()
    assert row["kind"] in facts and f"{row['function']} ({row['lowered_at']})" in facts and row["why"] in facts
    panel.get_by_title(f"mark the nodes of {row['kernels'][0]}").click()
    lit = "view => { const { canvas, nodes } = document.querySelector('#explorer').app.tabs.views.get(view);"
    lit += " return [...canvas.marked.keys()].map(box => nodes.name[box.node]); }"
    assert set(tab.evaluate(lit, "graph")) == {name for name in rows if row["kernels"][0] in rows[name]["kernels"]}
    assert panel.locator(".kind:visible").count() == 0, "no colour on the screen stands for a kind yet"
    look = "name => { const view = document.querySelector('#explorer').app.tabs.views.get('graph');"
    look += " return view.look(view.graph.visible.get(view.nodes.name.indexOf(name))); }"
    panel.get_by_role("button", name="colour by lowering").click()
    by_kind = {(one["kind"], tab.evaluate(look, name)) for name, one in rows.items()}
    counts = Counter(one["kind"] for one in rows.values())
    coloured = {kind for kind, swatch in by_kind if swatch is not None}
    said = panel.locator(".kind:visible").all_inner_texts()
    assert sorted(said) == sorted(f"{kind} {counts[kind]}" for kind in coloured) and len(said) >= 3
    swatches = [swatch for _, swatch in by_kind if swatch is not None]
    assert len(by_kind) == len(counts) and len(set(swatches)) == len(swatches) >= 3
    assert panel.get_by_role("button", name="colour by lowering").get_attribute("aria-pressed") == "true"


def test_two_nodes_of_the_graph_are_told_why(opened, for_h100):
    """In the graph view the last two nodes chosen are asked about; space holds one, so that keys alone ask about any two.

    Which nodes are meant is seen there, so the answer leaves out what `Trace.why` says of an operator's namesakes.
    """
    tab = opened(for_h100)
    fusion = next(g for g in for_h100.fusion.graphs if g.artifact.graph == "forward")
    panel = show(tab, "Graph")
    panel.get_by_role("button", name="open all groups").click()
    names = [n["name"] for n in for_h100.find("post_grad", graph="forward")[0].nodes]
    first, second = "rsqrt", next(name for name in names if name.startswith("erf"))
    for name in (first, second):
        tab.mouse.click(*at(tab, "graph", name))
    said = panel.locator(".why")
    assert said.inner_text() == f"{first} and {second}: ✕ not fused: {fusion.why(first, second).sentence}"
    panel.get_by_role("application").focus()
    tab.keyboard.press(" ")
    assert said.inner_text().startswith(f"{second} is held")
    for _ in range(2):
        tab.keyboard.press("ArrowUp")
    other = tab.evaluate(CHOSEN, "graph")
    assert other != second
    assert said.inner_text().startswith(f"{second} and {other}: ")
    assert said.inner_text().endswith(f": {fusion.why(second, other).sentence}")
    tab.mouse.click(*at(tab, "graph", "primals_1"))
    assert not untold(said.inner_text(), "primals_1", "input")


def test_a_view_that_has_nothing_to_show_has_no_tab(opened, trained):
    """Views are left out where a trace has nothing for them."""
    tab = opened(Trace(artifacts=(source("def f(x): return x"),)))
    assert tab.get_by_role("tab").all_inner_texts() == ["Code", "Run"]


def test_memory_is_drawn_over_the_output_code(opened, trained):
    """The memory view has a row for each piece of memory, and its peak leads to the line of the output code."""
    tab = opened(trained)
    panel = show(tab, "Memory")
    rows = trained.memory.table.where(graph="forward")
    assert panel.locator("table").first.locator("tbody tr").count() == len(rows)
    panel.get_by_role("button", name="of the output code").first.click()
    chosen = tab.locator(".line.chosen").first.get_attribute("data-line")
    timeline = trained.memory.timeline.where(graph="forward")
    assert int(chosen) in {row["line"] for row in timeline if row["allocated"] == max(r["allocated"] for r in timeline)}


def test_a_peak_that_leaves_storages_out_is_at_least_so_much(opened):
    """Sizes that only the run knows count as nothing, so the bound is from below and they are named, as `repr(memory)` says."""
    made = [f"buf{n} = empty_strided_cuda((u0, {n}), (1, 1), torch.float32)" for n in range(1, 6)]
    lines = ["def call(args):", "buf0 = empty_strided_cuda((8, 4), (4, 1), torch.float32)", *made, "return (buf0, buf1)"]
    trace = Trace(artifacts=(Artifact("c", "output_code", "0/0", "inference", "c", "python", "\n    ".join(lines)),))
    panel = show(opened(trace), "Memory")
    said = panel.locator("p.soft").nth(1).inner_text()
    left_out = ("buf1 (u0×1)", "buf2 (u0×2)", "buf3 (u0×3)", "buf4 (u0×4)", "1 more")
    assert not untold(said, "at least 128 B", *left_out)
    assert not untold(repr(trace.memory), *left_out)
    chart = panel.locator(".memory-chart")
    assert "at least 128 B" in (chart.get_attribute("aria-label") or "")
    chart.locator("i").nth(5).dispatch_event("pointermove")
    assert not untold(panel.locator(".memory-now").inner_text(), "5", "size")


def test_the_storages_at_the_peak_are_first_and_named_as_the_program_names_them(opened, trained):
    """The rows of a graph begin with what is live at its peak, largest first, by the program's names and lines; with an axis."""
    panel = show(opened(trained), "Memory")
    first = next(row for row in trained.memory.peak if row["graph"] == "backward")
    table = panel.get_by_role("table", name=f"memory of {first['frame']} backward")
    rows = [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]
    peak = [row for row in trained.memory.peak if row["graph"] == "backward"]
    assert len(peak) < len(rows), "some are not live at the peak"
    for row, cells in zip(peak, rows, strict=False):
        assert cells[0] == " = ".join([*row["inputs"], " → ".join(row["names"])])
        assert ", ".join(Path(line).name for line in row["lines"]) in cells
    assert "user lines" in table.locator("thead").inner_text()
    assert re.fullmatch(r"line \d+\s*line \d+", panel.locator(".memory-axis").nth(1).inner_text())


def test_a_peak_of_known_sizes_is_at_most_so_much(opened, trained):
    """Nothing is left out, so nothing is named."""
    said = show(opened(trained), "Memory").locator("p.soft").nth(1).inner_text()
    assert said.startswith("Peak with the inputs: at most ") and "not counted" not in said


def test_the_memory_view_says_why_nothing_is_known_of_a_wrapper_in_cpp(opened):
    """The view is there, with the reason and what to do, and no empty table."""
    code = Artifact("c", "output_code", "0/0", "inference", "c", "cpp", "int main() { return 0; }")
    panel = show(opened(Trace(artifacts=(code,))), "Memory")
    assert not untold(panel.inner_text(), "wrapper", "C++") and panel.locator("table").count() == 0


def test_the_bar_of_a_pane_holds_its_controls(opened, trained):
    """What chooses a pane's text stands above the facts about it, and covers nothing: no other part's bar gives it its look."""
    pane = opened(trained).get_by_role("region", name="left text", exact=True)
    bar, picker, about = (pane.locator(part).bounding_box() for part in (".bar", ".bar select", ".about"))
    assert bar["y"] <= picker["y"] and picker["y"] + picker["height"] <= bar["y"] + bar["height"]
    assert bar["y"] + bar["height"] <= about["y"] + 1


def test_a_compile_id_stands_beside_the_name_of_its_function(opened, replayed):
    """Where several functions were compiled, the choices of a graph name each with its compile id, and say what that number is;
    of one function they name the graph alone.
    """
    one = replayed("mlp_train-torch2.13-cpu")
    again = tuple(replace(a, id=f"again {a.id}", frame="1/0") for a in one.artifacts)
    for trace, lead in ((one, ""), (replace(one, artifacts=(*one.artifacts, *again)), r"[01]/0 Mlp\.forward ")):
        tab = opened(trace)
        for view, label, graph in (
            ("Graph", "graph", rf"{lead}[^/]+"),
            ("Passes", "passes of", rf"(FX passes · {lead}\w+|MLIR .*)"),
            ("Fusion", "graph", rf"{lead}(forward|backward)"),
        ):
            chosen = show(tab, view).get_by_label(label, exact=True)
            names = chosen.locator("option").all_inner_texts()
            assert names and all(re.fullmatch(graph, name) for name in names), names
            assert ("compile id" in (chosen.get_attribute("title") or "")) is bool(lead)
        column = show(tab, "Kernels").get_by_role("columnheader", name="graph").get_by_role("button")
        assert ("compile id" in str(column.get_attribute("title"))) is bool(lead)
