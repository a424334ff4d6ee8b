"""The costs of kernels, library calls and boxes of a graph, as the view shows them in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from explorer.model.records import typed
from explorer.model.values import Artifact
from explorer.stages.triton.origins import FORMS, KernelForm
from explorer.tracing.traced import Trace
from explorer.view.payload import _cost as cost_of
from explorer.view.payload import payload
from tests.facts import untold
from tests.in_tab import APP, CELLS, called, calls_together, in_a_long_page, row_of, show
from tests.test_computing import ATTACH

UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def seconds(text: str) -> float:
    """The seconds in a text such as "≈ 2.1 µs"."""
    found = re.search(r"([\d.]+) (ns|µs|ms|s)(?![a-z])", text)
    assert found, text
    return float(found[1]) * UNITS[found[2]]


def constrained(trace: Trace) -> tuple[Trace, str]:
    """A trace whose first kernel spills 12 bytes and has half of its warps at the most; and that kernel's name."""
    name = trace.kernels[0].name
    occupancy = {"blocks": 4, "warps": 16, "fraction": 0.25, "limited_by": "registers", "limits": {"registers": 4}}
    facts = {"spill_stores": 8, "spill_loads": 4, "occupancy": occupancy}

    def changed(a: Artifact) -> Artifact:
        if a.kernel != name or a.stage not in FORMS:
            return a
        form = typed(KernelForm, a.data)
        return replace(a, data=replace(form, metadata={**form.metadata, **facts}))

    return replace(trace, artifacts=tuple(map(changed, trace.artifacts))), name


def test_library_calls_stand_beside_the_kernels_with_a_total_and_shares(opened, rotary: Trace) -> None:
    """Each kernel is a row, and so are the calls that are alike; the longest first, with the right sums, and shares of all."""
    panel = show(opened(rotary), "Kernels")
    table, calls = panel.get_by_role("table", name="kernels"), rotary.inductor.extern_calls
    groups = calls_together(rotary)
    assert len(groups) < len(calls)
    expected = [row["seconds"] for row in rotary.kernels.table]
    expected += [sum(row["seconds"] for row in group) for group in groups]
    assert panel.locator("h2").first.inner_text() == f"{len(rotary.kernels)} kernels and {len(calls)} library calls"
    heads = table.locator("th[scope=col]").all_inner_texts()
    shown = [seconds(text) for text in table.locator("tbody tr").evaluate_all(CELLS, heads.index("time (estimated)"))]
    assert shown == pytest.approx(sorted(expected, reverse=True), rel=0.05)
    total = table.locator("tfoot tr").all_inner_texts()
    assert len(total) == 1 and total[0].startswith(f"total of {len(expected)} rows")
    assert seconds(total[0]) == pytest.approx(sum(expected), rel=0.05) and "100 %" in total[0]
    shares = [int(text.split()[0]) for text in table.locator("tbody tr").evaluate_all(CELLS, heads.index("share"))]
    assert sum(shares) == pytest.approx(100, abs=len(shares) / 2)
    assert not untold(panel.locator(".cost-sum").inner_text(), "estimated", "of it to start kernels on the GPU")


def test_a_row_of_the_backward_says_so(opened, replayed) -> None:
    """What the forward and the backward compute alike is told apart by its title, as in the overview."""
    trace = replayed("mlp_train-torch2.13-cpu")
    panel = show(opened(trace), "Kernels")
    titles = panel.get_by_role("table", name="kernels").locator("tbody .computes").all_inner_texts()
    assert {"gelu", "gelu, gelu_backward, sum, backward", "sum, backward"} <= set(titles)


def test_the_name_of_a_call_is_not_cut(opened, replayed) -> None:
    """Beside a title of any length "mm" stays whole, and the numbers of its nodes are what is cut."""
    panel = show(opened(replayed("views/layers-torch2.13-h100")), "Kernels")
    cut = """panel => Array.from({ length: 40 }, () => {
        for (const title of panel.querySelectorAll('tbody .computes')) title.textContent += 'x';
        return [...panel.querySelectorAll('.in-parts .head')].filter((head) => head.clientWidth < head.scrollWidth).length;
    })"""
    panel.page.set_viewport_size({"width": 970, "height": 680})
    assert not any(panel.evaluate(cut))


def test_a_launch_has_one_time_in_every_place(opened, rotary: Trace) -> None:
    """The longest row has the digits that the overview has for it, and the table sorts by what one launch takes."""
    tab = opened(rotary)
    longest = show(tab, "Overview").locator(".hottest .seconds").first.inner_text()
    table = show(tab, "Kernels").get_by_role("table", name="kernels")
    heads = table.locator("th[scope=col]").all_inner_texts()

    def column(head: str) -> list[str]:
        return list(table.locator("tbody tr").evaluate_all(CELLS, heads.index(head)))

    assert re.sub(r"\d+ (launches|calls)$", "", column("time (estimated)")[0]) == f"≈ {longest}"
    each = [row["seconds"] / row["launches"] for row in rotary.kernels.table]
    each += [sum(row["seconds"] for row in group) / len(group) for group in calls_together(rotary)]
    by_launch = table.get_by_role("button", name="per launch")
    by_launch.click()
    assert [seconds(text) for text in column("per launch")] == pytest.approx(sorted(each, reverse=True), rel=0.005)
    by_launch.click()
    assert [seconds(text) for text in column("per launch")] == pytest.approx(sorted(each), rel=0.005)


def test_the_sum_is_that_of_the_overview(opened, rotary: Trace) -> None:
    """The work and the launches that make up a call are the overview's, to the digit, and so is what the call takes."""
    (info,) = payload(rotary)["overview"]
    tab = opened(rotary)
    words = show(tab, "Kernels").locator(".cost-sum").inner_text()
    overview = show(tab, "Overview")
    work, launches = overview.locator(".times .amount").all_inner_texts()
    call = overview.locator(".of-trace h3 b").first.inner_text()
    assert words.startswith(f"The work of one run takes {work} (estimated)")
    assert words.rstrip().endswith(f"A call takes {call}: the longer of this work and {launches} in which Python launches it.")
    assert info["device"] < info["host"] == info["seconds"]


def test_the_products_that_the_advice_names_are_marked(opened, rotary: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row that a verdict names has its kind, with what to do; they are found by it, and no other row has it."""
    for least in ("MIN_SECONDS", "MIN_SHARE"):
        monkeypatch.setattr(f"explorer.analysis.advice.advise.{least}", 0.0)
    trace = replace(rotary)
    (verdict,) = [one for one in trace.advise() if one.kind == "slow precision"]
    panel = show(opened(trace), "Kernels")
    marks = panel.get_by_role("table", name="kernels").locator("tbody tr").filter(has_text="slow precision")
    products = [group for group in calls_together(rotary) if group[0]["operations"]]
    assert marks.count() == len(products) and sum(map(len, products)) == int(verdict.title.split()[0])
    assert verdict.remedy in (marks.first.locator(".mark.advice", has_text="slow precision").get_attribute("title") or "")
    panel.get_by_role("button", name=re.compile(r"^advised \d+$")).click()
    assert marks.count() == len(products)
    marks.first.get_by_role("button").first.click()
    assert not untold(panel.locator(".kernel-detail").inner_text(), "slow precision", verdict.title, verdict.remedy)


def test_rows_of_one_kind_are_shown_alone_with_their_own_sum(opened, rotary: Trace) -> None:
    """The button of library calls leaves only these, with their sum; one of them leads to its line of the output code."""
    tab = opened(rotary)
    panel = show(tab, "Kernels")
    table, calls = panel.get_by_role("table", name="kernels"), rotary.inductor.extern_calls
    panel.get_by_role("button", name=f"library calls {len(calls)}").click()
    groups = calls_together(rotary)
    assert table.locator("tbody tr").count() == len(groups)
    expected = sum(row["seconds"] for row in calls)
    assert seconds(table.locator("tfoot tr").inner_text()) == pytest.approx(expected, rel=0.05)
    group = max(groups, key=len)
    call = group[0]
    row_of(panel, f"{call['call']} {', '.join(row['node'] for row in group)}").click()
    detail = panel.locator(".kernel-detail")
    assert call["operator"] in detail.inner_text()
    places = detail.get_by_role("button", name="of the output code")
    assert places.count() == len(group) > 1
    places.last.click()
    assert f"{call['call']}(" in tab.locator(".line.chosen").filter(has_text="extern_kernels").first.inner_text()


def test_a_call_leads_to_what_can_be_done_about_it(opened, rotary: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a library call, which has no source, Fusion says why nothing is fused with it; the slowest kernel that takes more than
    its launch is a press away.
    """
    slowest = min(rotary.kernels.table, key=lambda row: row["seconds"])
    limits = {slowest["kernel"]: "memory"}  # each kernel of the recording takes hardly more than its launch
    monkeypatch.setattr(
        "explorer.view.payload._cost", lambda row: cost_of({**row, "limit": limits.get(row.get("kernel"), row["limit"])})
    )
    tab = opened(replace(rotary))
    panel = show(tab, "Kernels")
    panel.get_by_role("button", name=re.compile("^library calls")).click()
    panel.get_by_role("table", name="kernels").locator("tbody button").first.click()
    detail = panel.locator(".kernel-detail")
    detail.get_by_role("button", name="why is it not fused?").click()
    fusion = tab.get_by_role("tabpanel", name="Fusion")
    node = fusion.get_by_role("combobox", name="first node").input_value()
    assert node in {row["node"] for row in rotary.inductor.extern_calls}
    assert not untold(fusion.get_by_role("status").first.inner_text(), node)
    panel = show(tab, "Kernels")
    detail.locator("p .link").first.click()
    assert slowest["kernel"] in detail.inner_text() and detail.get_by_role("button", name="PTX").count()


def test_a_call_leads_to_the_edit_of_a_kernel(opened, rotary: Trace) -> None:
    """A library call's panel begins an edit of the longest kernel, also where every kernel takes hardly more than its launch."""
    tab = opened(rotary)
    longest = max(rotary.kernels.table, key=lambda row: row["seconds"])["kernel"]
    panel = show(tab, "Kernels")
    panel.get_by_role("button", name=re.compile("^library calls")).click()
    tab.evaluate(ATTACH)
    panel.get_by_role("button", name="edit its source").click()
    edited = tab.locator(".pane", has=tab.locator(".editing"))
    assert longest in edited.locator(".facts").get_attribute("title")


def test_the_first_row_is_described_until_one_is_chosen(opened, rotary: Trace) -> None:
    """Another order, part or filter describes its first row, which is marked; a chosen row stays as long as it is shown."""
    panel = show(opened(rotary), "Kernels")
    table, title = panel.get_by_role("table", name="kernels"), panel.locator(".kernel-detail h2")
    rows, described = table.locator("tbody tr"), table.locator("tr[data-described]")

    def first() -> str:
        return str(rows.first.locator("button .computes").inner_text())

    def is_first_described() -> bool:
        return described.count() == 1 and first() == described.locator(".computes").inner_text() == title.inner_text()

    assert is_first_described()
    top = first()
    table.get_by_role("button", name="per launch").click()
    table.get_by_role("button", name="per launch").click()
    assert first() != top and is_first_described()
    panel.get_by_role("button", name=re.compile("^kernels")).click()
    assert is_first_described()
    rows.nth(1).locator("button").first.click()
    chosen = title.inner_text()
    table.get_by_role("button", name="per launch").click()
    assert title.inner_text() == chosen == described.locator(".computes").inner_text() != first()
    panel.get_by_role("button", name=re.compile("^library calls")).click()
    assert is_first_described()


def test_a_call_says_first_what_it_costs(opened, rotary: Trace) -> None:
    """Its time in total and per launch, and what limits it, stand before its places; operations are those of one call."""
    panel = show(opened(rotary), "Kernels")
    group = max(calls_together(rotary), key=len)
    row_of(panel, f"{group[0]['call']} {', '.join(row['node'] for row in group)}").click()
    text = panel.locator(".kernel-detail").inner_text()
    assert not untold(text, " in total, ≈ ", " per launch, ", "Limited by ", "operations per call")
    assert text.index(" in total") < text.index("of the output code")


def test_eight_rows_are_in_sight(opened, rotary: Trace) -> None:
    """In a view as JupyterLab has it, a row is one line; what is scrolled to its end does not move the page around it."""
    tab = opened(rotary, viewport={"width": 970, "height": 680})
    table = show(tab, "Kernels").get_by_role("table", name="kernels")
    seen = table.evaluate("""table => {
        const bottom = table.tFoot.getBoundingClientRect().top;
        return [...table.tBodies[0].rows].filter(row => row.getBoundingClientRect().bottom <= bottom + 1).length;
    }""")
    assert seen >= 8
    assert table.evaluate("table => getComputedStyle(table.parentElement).overscrollBehaviorY") == "contain"


def test_spills_low_occupancy_and_launches_are_marked(opened, rotary: Trace) -> None:
    """A kernel that spills, one with few warps, and rows that hardly take more than a launch have a mark, and are found by it."""
    trace, name = constrained(rotary)
    panel = show(opened(trace), "Kernels")
    table = panel.get_by_role("table", name="kernels")
    rows = [*trace.kernels.table, *(group[0] for group in calls_together(trace))]
    floor = sum(row["limit"] == "launch" for row in rows)
    assert floor > 0 and table.locator(".mark.launch").count() == floor
    for text, mark in (("spills 1", "spills 12 B"), ("low occupancy 1", "occupancy 25 %")):
        panel.get_by_role("button", name=text, exact=True).click()
        assert table.locator("tbody tr").count() == 1
        row = table.locator("tbody tr").first
        assert row.locator("td .in-parts").first.inner_text().replace("\n", "") == name and mark in row.inner_text()


@pytest.mark.parametrize("width", [600, 1400])
def test_what_matters_is_never_cut(opened, rotary: Trace, width: int) -> None:
    """Name, time, share and marks of each row are in sight, whole but for the middle of a name, however narrow the view."""
    tab = opened(constrained(rotary)[0])
    tab.set_viewport_size({"width": width, "height": 900})
    table = show(tab, "Kernels").get_by_role("table", name="kernels")
    cut = table.evaluate("""table => {
        const room = table.parentElement.getBoundingClientRect();
        return [...table.querySelectorAll('tr')].flatMap(row => [...row.cells].slice(0, 4)).filter((cell, at) => {
            const { left, right } = cell.getBoundingClientRect();
            return left < room.left || right > room.right + 1 || (at % 4 && cell.scrollWidth > cell.clientWidth);
        }).map(cell => cell.textContent);
    }""")
    assert cut == []


def test_a_chosen_row_leaves_the_page_where_it_is(opened, replayed) -> None:
    """In a long page, as a notebook is, a kernel opens in sight within the view; the page around the view does not move."""
    tab = opened(replayed("views/layers-torch2.13-h100"), viewport={"width": 1200, "height": 700})
    panel = show(tab, "Kernels")
    scrolled = in_a_long_page(tab)
    row = panel.get_by_role("table", name="kernels").locator("tbody tr button").first
    row.evaluate("row => row.click()")
    assert tab.evaluate("scrollY") == scrolled
    inside = "e => e.getBoundingClientRect().top < e.closest('.panel').getBoundingClientRect().bottom"
    assert panel.locator(".kernel-detail").evaluate(inside) and panel.evaluate("e => e.scrollTop") > 0


def test_a_chosen_row_keeps_the_header_and_shows_what_can_be_done(opened, replayed) -> None:
    """The table's header and the buttons under the title of the opened kernel or call are in sight together."""
    tab = opened(replayed("views/layers-torch2.13-h100"), viewport={"width": 1000, "height": 620})
    panel = show(tab, "Kernels")
    panel.get_by_role("table", name="kernels").locator("tbody tr button").first.click()
    inside = """e => {
        const box = e.getBoundingClientRect(), whole = e.closest('.panel').getBoundingClientRect();
        return box.top >= whole.top - 1 && box.bottom <= whole.bottom;
    }"""
    assert panel.locator("thead").first.evaluate(inside)
    detail = panel.locator(".kernel-detail")
    assert detail.get_by_role("button", name="why is it not fused?").evaluate(inside)
    assert detail.locator("h2 + p").get_by_role("button").count() >= 1


def test_a_call_is_named_by_its_operator(opened, rotary: Trace) -> None:
    """What stands before most names, such as "extern_kernels.", is left out of the table; it is found and read aloud with it."""
    panel = show(opened(rotary), "Kernels")
    for group in calls_together(rotary):
        name, nodes = group[0]["call"], ", ".join(row["node"] for row in group)
        shown = row_of(panel, f"{name} {nodes}").locator("xpath=..").locator(".in-parts").inner_text()
        assert " ".join(shown.split()) == f"{name.removeprefix('extern_kernels.')} {nodes}" and not shown.startswith(name)


def test_without_a_time_the_shares_are_of_the_bytes(opened, replayed) -> None:
    """On a CPU nothing estimates a time: the view says so, and shares what is moved."""
    trace = replayed("mlp_train-torch2.13-cpu")
    panel = show(opened(trace), "Kernels")
    said = panel.locator(".cost-sum").inner_text()
    assert "Nothing timed these kernels" in said and 'target="h100"' in said, "and what to do about it"
    table = panel.get_by_role("table", name="kernels")
    heads = table.locator("th[scope=col]").all_inner_texts()
    moved = [row["read"] + row["written"] for row in (*trace.kernels.table, *trace.inductor.extern_calls)]
    shares = table.locator("tbody tr").evaluate_all(CELLS, heads.index("share of bytes"))
    assert shares == [f"{round(100 * value / sum(moved))} %" for value in moved]


LABELS = f"""() => {{
    const view = {APP}.tabs.views.get('graph');
    return view.graph.boxes.filter(box => box.kind !== 'node').map(box => view.label(box));
}}"""


def test_boxes_of_a_graph_have_the_cost_of_their_kernels(opened, rotary: Trace) -> None:
    """Grouped by kernel each box has its kernel's name and time; a closed module has the sum of its own kernels."""
    tab = opened(rotary)
    panel = show(tab, "Graph")
    panel.get_by_role("combobox", name="group the nodes").select_option("kernel")
    names = {info["name"]: called(info) for info in payload(rotary)["kernels"]}
    times = {names[row["kernel"]]: row["seconds"] for row in rotary.kernels.table if row["kernel"] in names}
    boxes = {title: note for title, note in tab.evaluate(LABELS) if title in times}
    assert len(boxes) > 5
    for title, note in boxes.items():
        assert seconds(note) == pytest.approx(times[title], rel=0.05), title
    panel.get_by_role("combobox", name="group the nodes").select_option("module")
    panel.get_by_role("button", name="close all groups").click()
    notes = dict(tab.evaluate(LABELS))
    norm = next(row for row in rotary.kernels.table if row["kernel"].endswith("_rsqrt_0"))
    assert seconds(notes["norm1"]) == pytest.approx(norm["seconds"], rel=0.05) and "6 nodes" in notes["norm1"]
