"""Several traces as one payload, and the traces that cannot be shown beside each other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.analysis.advice.verdicts import duration
from explorer.analysis.questions import costs
from explorer.analysis.questions.comparison import COLUMNS
from explorer.analysis.questions.source_lines import SAME
from explorer.errors import InputError
from explorer.model.values import Failure
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import view_of
from explorer.tracing.traced.trace import trace_of
from explorer.view.compared import joined, payload_of_comparison
from explorer.view.payload import payload
from tests.facts import says, untold

Replayed = Callable[[str], Trace]
STRINGS = ("op", "target", "type", "module", "place", "code", "args")


@pytest.fixture(scope="module")
def trained(replayed: Replayed) -> Trace:
    return replayed("mlp_train-torch2.13-cpu")


def sent(*traces: Trace, names: tuple[str, ...]) -> Any:
    return json.loads(json.dumps(payload_of_comparison(explorer.compare(*traces, names=names))))


def whole(*traces: Trace, names: tuple[str, ...]) -> Any:
    """The payload as the front end has it: each text that travels once in both of its places."""
    made = sent(*traces, names=names)
    for text in made["artifacts"]:
        if "same_text" in text:
            text["text"] = made["artifacts"][text.pop("same_text")]["text"]
    return made


def test_a_text_that_two_traces_have_travels_once(trained: Trace) -> None:
    """Of two equal traces the second refers to the texts of the first, and each such reference is to a text that is there."""
    made = sent(trained, trained, names=("a", "b"))["artifacts"]
    texts = [text["text"] for text in made if text["text"]]
    assert len(texts) == len(set(texts)) == len({a.text for a in trained.artifacts if a.text})
    same = [text["same_text"] for text in made if "same_text" in text]
    assert len(same) >= len(trained.artifacts) - 1 and all(made[at]["text"] for at in same)


def test_each_trace_is_in_the_payload_as_it_is_alone(trained: Trace) -> None:
    """The second of two equal traces has the texts, nodes, kernels, verdicts and links of the one alone, at its own indexes."""
    alone = json.loads(json.dumps(payload(trained)))
    made = whole(trained, trained, names=("a", "b"))
    count = len(alone["artifacts"])
    for number, name in enumerate(("a", "b")):
        texts = made["artifacts"][number * count : (number + 1) * count]
        assert [t["id"] for t in texts] == [f"{name} {t['id']}" for t in alone["artifacts"]]
        assert [t["text"] for t in texts] == [t["text"] for t in alone["artifacts"]]
        for text, own in zip(texts, alone["artifacts"], strict=True):
            for column in STRINGS if "nodes" in own else ():
                ours = [made["strings"][at] for at in text["nodes"][column]]
                assert ours == [alone["strings"][at] for at in own["nodes"][column]]
        kernels = [k for k in made["kernels"] if k["frame"].startswith(f"{name} ")]
        assert [k["artifact"] - number * count for k in kernels] == [k["artifact"] for k in alone["kernels"]]
        inside = [link for link in made["links"] if all(at // count == number for at in link[:2])]
        assert [[a - number * count, b - number * count, made["hows"][how], runs] for a, b, how, runs in inside] == [
            [a, b, alone["hows"][how], runs] for a, b, how, runs in alone["links"]
        ]
        fusion = [f for f in made["fusion"] if f["frame"].startswith(f"{name} ")]
        assert [f["nodes"] - number * count for f in fusion] == [f["nodes"] for f in alone["fusion"]]
        assert [r for r in made["memory"]["table"] if r["frame"].startswith(name)] == [
            {**r, "frame": f"{name} {r['frame']}"} for r in alone["memory"]["table"]
        ]


def test_a_line_of_the_program_links_the_traces(trained: Trace) -> None:
    """The lines of the second trace's source come from those of the first, and nothing else leads from one to the other."""
    made = whole(trained, trained, names=("a", "b"))
    count = len(trained.artifacts)
    across = [link for link in made["links"] if link[0] // count != link[1] // count]
    assert [(made["artifacts"][a]["id"], made["artifacts"][b]["id"]) for a, b, _, _ in across] == [
        ("b 0/0:source", "a 0/0:source")
    ]
    assert {made["hows"][how] for _, _, how, _ in across} == {SAME}


def test_facts_that_differ_are_told_apart(trained: Trace) -> None:
    """Off, left to torch and not stated are three things; a fact that all traces share stays one."""
    given = ({"train": True, "dynamic": None, "mode": None, "a": 1}, {"train": False, "dynamic": False, "mode": None, "a": True})
    traces = [replace(trained, meta={"name": "f", **meta}) for meta in given]
    meta = payload_of_comparison(explorer.compare(*traces, names=("x", "y")))["meta"]
    assert meta == {"name": "f", "train": "yes | no", "dynamic": "default | no", "mode": None, "a": "1 | yes"}
    lacking = replace(trained, meta={"name": "f"})
    meta = payload_of_comparison(explorer.compare(traces[0], lacking, names=("x", "y")))["meta"]
    assert meta == {
        "name": "f",
        "train": "yes | not stated",
        "dynamic": "default | not stated",
        "mode": "default | not stated",
    } | {"a": "1 | not stated"}


def test_figures_have_a_column_for_each_trace(replayed: Replayed) -> None:
    """What is compared of the traces is what `Comparison.figures` says, bytes named; a compile's time is no figure of a GPU."""
    c = explorer.compare(replayed("iree_linear-torch2.13-cpu"), replayed("onnxrt_linear-torch2.13-cpu"))
    figures = payload_of_comparison(c)["comparison"]["figures"]
    compared = [row for row in c.figures if row["figure"] != "compile seconds"]
    assert [row["values"] for row in figures] == [[row[name] for name in c.names] for row in compared]
    assert {row["figure"]: row["unit"] for row in figures}["between kernels"] == "bytes"


@pytest.fixture(scope="module")
def vendors(replayed: Replayed) -> tuple[Trace, Trace]:
    """A trace for an H100, and the same texts as if they were an MI300X's."""
    trace = replayed("views/layers-torch2.13-h100")
    return trace, replace(trace, meta={**trace.meta, "target": "mi300x"})


def test_the_times_of_a_call_are_those_of_the_overview(vendors: tuple[Trace, Trace]) -> None:
    """A call, its work and its launches take beside another trace what the overview says of each."""
    made = sent(*vendors, names=("a", "b"))
    rows = {row["figure"]: row["values"] for row in made["comparison"]["figures"] if row["unit"] == "seconds"}
    for name, key in (
        ("a call takes, estimated", "seconds"),
        ("its kernels and library calls, estimated", "device"),
        ("its launches from Python, assumed", "host"),
    ):
        assert rows[name] == [info[key] for info in made["overview"]] and all(rows[name])
    assert len(rows) == 3


def test_what_takes_longest_is_told_first_where_no_time_differs(replayed: Replayed) -> None:
    """A kernel with another source is told before those with other threads alone if it takes longer; no time is said twice."""
    trace = replayed("views/layers-torch2.13-h100")
    other = replace(trace, meta={**trace.meta, "target": "mi300x"})
    comparison = sent(trace, other, names=("a", "b"))["comparison"]
    told = comparison["hottest"]
    longest = [max(filter(None, comparison["kernels"][one["match"]]["seconds"])) for one in told]
    kernels = [time for time, one in zip(longest, told, strict=True) if "library call" not in one["why"]]
    assert len(kernels) > 1 and kernels == sorted(kernels, reverse=True)
    assert not untold(told[-1]["why"], "The source is the same.", "What differs: threads a block: ", " in a, ", " in b.")
    assert all(one["what"].count(" in a, ") == one["what"].count(" in b") == 1 for one in told)
    assert sent(trace, trace, names=("a", "b"))["comparison"]["hottest"] == []


def test_the_largest_difference_of_times_is_told_first(zoo: Callable[[str], Trace]) -> None:
    """The differences of the times decide, not the times; what takes as long in each trace, or nearly, is not told."""
    comparison = sent(zoo("two norms h100"), zoo("two norms mi300x"), names=("h100", "mi300x"))["comparison"]
    times = [[value or 0.0 for value in comparison["kernels"][one["match"]]["seconds"]] for one in comparison["hottest"]]
    apart = [max(of) - min(of) for of in times]
    assert len(apart) > 1 and apart == sorted(apart, reverse=True)
    assert all(max(of) > 1.02 * min(of) for of in times)


def test_an_edit_that_takes_as_long_is_told_where_no_time_differs(replayed: Replayed) -> None:
    """Of a trace and itself with another kernel that kernel is what differs, though its time is estimated alike."""
    trace = replayed("views/layers-torch2.13-h100")
    first = trace.find("kernel")[0]
    texts = tuple(replace(a, text=a.text.replace("tl.store", "tl.atomic_add")) if a is first else a for a in trace.artifacts)
    (told,) = sent(trace, trace_of(replace(trace, artifacts=texts)), names=("a", "b"))["comparison"]["hottest"]
    assert told["why"].startswith("The values are the same, the source is not.")


def test_kernels_that_one_gpu_needs_more_of_are_named_for_each(zoo: Callable[[str], Trace]) -> None:
    """The kernels of each trace stand behind its name, and a reason has their titles, not the names of scheduler nodes."""
    comparison = sent(zoo("two norms h100"), zoo("two norms mi300x"), names=("h100", "mi300x"))["comparison"]
    told = {one["match"]: one for one in comparison["hottest"]}
    split = {number: match for number, match in enumerate(comparison["kernels"]) if match["what"] == "split" and number in told}
    assert split
    for number, match in split.items():
        one, other = (len(of) for of in match["kernels"])
        words = rf"h100: {one} kernels?, `.+`, [\d.]+ µs; mi300x: {other} kernels?, `.+`, [\d.]+ µs( \(×[\d.]+\))?"
        assert re.fullmatch(words, told[number]["what"]), told[number]["what"]
        assert not re.search(r"\bop\d|In round|triton_", told[number]["why"])
    if any(match["differs"].startswith("apart in") for match in comparison["kernels"]):
        assert any(
            one["why"].startswith("Not fused in h100: ") and " Fused in mi300x: they " in one["why"] for one in told.values()
        )


def test_library_calls_that_differ_in_the_same_are_told_together(replayed: Replayed) -> None:
    """The calls of all layers are one sentence that counts them and has the time of all; what else differs is not known."""
    trace = replayed("views/layers-torch2.13-h100")
    slower = replace(trace, meta={**trace.meta, "target": "v100"})
    comparison = sent(trace, slower, names=("a", "b"))["comparison"]
    calls = [row["seconds"] for row in comparison["kernels"] if row["what"] == "same call"]
    (told,) = (one for one in comparison["hottest"] if "library call" in one["why"])
    first, last = map(sum, zip(*calls, strict=True))
    assert len(calls) > 1 and last / first > 1.01
    assert told["what"].startswith(f"{len(calls)} library calls such as ")
    assert told["what"].endswith(f": {duration(first)} in a, {duration(last)} in b (×{round(last / first, 2):g})")
    assert told["why"] == "The library call is the same. Nothing else is known to differ."


def test_two_gpus_are_told_by_their_figures(vendors: tuple[Trace, Trace]) -> None:
    """Warp size, multiprocessors, bandwidth and shared memory stand beside each other; of one GPU alone nothing is told."""
    facts = {row["fact"]: row["values"] for row in sent(*vendors, names=("a", "b"))["comparison"]["gpus"]}
    assert facts["warp size"] == ["32 threads", "64 threads"]
    assert facts["SMs / CUs"] == ["132 SMs", "304 CUs"]
    assert facts["memory bandwidth"] == ["3,350 GB/s", "5,300 GB/s"]
    assert facts["shared memory a block"] == ["227 KiB", "64 KiB LDS"]
    assert sent(vendors[0], vendors[0], names=("a", "b"))["comparison"]["gpus"] == []


def test_places_of_kernels_are_their_lines(replayed: Replayed) -> None:
    """A kernel of a user line is named by a text that is there, and the line of the program by its own."""
    made = whole(replayed("iree_linear-torch2.13-cpu"), replayed("onnxrt_linear-torch2.13-cpu"), names=("iree", "onnx"))
    for row in made["lines"]:
        assert made["artifacts"][row["artifact"]]["text"].split("\n")[row["at"] - 1].strip() == row["code"]
        for name, places in zip(("iree", "onnx"), row["kernels"], strict=True):
            assert places and all(made["artifacts"][p["artifact"]]["id"].startswith(f"{name} ") for p in places)


def test_a_failure_says_which_trace_it_is_of(trained: Trace) -> None:
    """The failures of all traces are listed with their names."""
    failed = replace(trained, failures=(Failure("ptx", "ptxas", "no room"),))
    assert [f["what"] for f in whole(trained, failed, names=("a", "b"))["failures"]] == ["ptxas, in b"]


def test_unrelated_functions_are_refused_with_what_to_do(trained: Trace, replayed: Replayed, tmp_path: Path) -> None:
    """Traces that have no line of the program in common are named, and nothing is written."""
    c = explorer.compare(trained, replayed("attention-torch2.13-cpu"), names=("mlp", "attention"))
    with pytest.raises(InputError, match=says("'mlp_train' (mlp)", "'attention' (attention)", "line")):
        c.to_html(tmp_path / "both.html")
    assert not list(tmp_path.iterdir())


def test_more_traces_than_have_room_are_refused(trained: Trace) -> None:
    """Four traces can be compared, but not shown."""
    with pytest.raises(InputError, match=says("view", "3 traces", "4", "explorer.compare(…)")):
        explorer.show(trained, trained, trained, trained)
    with pytest.raises(InputError, match=says("explorer.compare(t1, t2)", "int")):
        explorer.show(trained, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=says("show(t, other)", "explorer.compare(t, other)", "Comparison")):
        explorer.show(explorer.compare(trained, trained), trained)


def test_names_that_no_table_can_have_are_refused(trained: Trace) -> None:
    """A trace may not have the name of another column, whose place it would take; `show` takes names for several traces only."""
    for name in ("figure", "ratio", "lines", " ", 3):
        with pytest.raises(InputError, match=says(repr(name), "trace", *COLUMNS)):
            explorer.compare(trained, trained, names=(name, "other"))  # type: ignore[arg-type]
    functions = [replace(trained, meta={**trained.meta, "name": name}) for name in ("figure", "code")]
    assert explorer.compare(*functions).names == ("trace 1", "trace 2")
    for one in (trained, explorer.compare(trained, trained)):
        with pytest.raises(InputError, match=says("several traces", "show(t, other, names=…)", "explorer.compare(…, names=…)")):
            explorer.show(one, names=("before", "after"))


def test_a_terminal_prints_the_comparison(trained: Trace, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no notebook, show prints the figures side by side."""
    assert explorer.show(trained, trained, names=("before", "after")) is None
    assert "<Comparison of before, after>" in capsys.readouterr().out


def test_a_text_is_found_by_its_traces_name(trained: Trace) -> None:
    """`w.show` takes a stage, or a stage of a named trace; `w.select` says which trace the line is in."""
    c = explorer.compare(trained, trained, names=("before", "after"))
    w = view_of(c)
    try:
        w.show("output_code")
        assert w.command["artifact"] == "before 0/0:output_code:forward"
        w.show("after output_code")
        assert w.command["artifact"] == "after 0/0:output_code:forward"
        w.select("after 0/0:source", 2)
        assert (w.selected["frame"], w.selected["line"]) == ("after 0/0", 2)
        w.diff("before post_grad", "after post_grad")
        assert (w.command["a"], w.command["b"]) == ("before 0/0:post_grad:forward", "after 0/0:post_grad:forward")
        w.tab("compare")
        with pytest.raises(InputError, match="ptx"):
            w.show("after ptx")
    finally:
        w.close()
    assert {a.frame for a in joined(c).artifacts} == {"before 0/0", "after 0/0"}


def test_a_name_that_begins_another_is_not_taken_for_it(trained: Trace) -> None:
    """Of traces "step max" and "step" each is found by its own name, whichever comes first."""
    for names in (("step max", "step"), ("step", "step max")):
        w = view_of(explorer.compare(trained, trained, names=names))
        try:
            for name in names:
                w.show(f"{name} output_code")
                assert w.command["artifact"] == f"{name} 0/0:output_code:forward"
        finally:
            w.close()


def test_a_notebook_shows_the_view(trained: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison as the last line of a cell is the view, which the output holds, with the tables where no scripts run."""
    monkeypatch.setattr("explorer.tracing.traced.comparison.in_notebook", lambda: True)
    data, _ = explorer.compare(trained, trained, names=("before", "after"))._repr_mimebundle_()
    assert 'class="explorer-trace"' in data["text/html"] and "kernel launches" in data["text/html"]
    assert not untold(data["text/plain"].partition("\n")[0], "Comparison", "before", "after")


def test_a_notebook_shows_the_tables_of_what_no_view_can_show(trained: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four traces have their tables, and the reason why there is no view."""
    monkeypatch.setattr("explorer.tracing.traced.comparison.in_notebook", lambda: True)
    data = explorer.compare(trained, trained, trained, trained)._repr_mimebundle_()
    assert set(data) == {"text/html", "text/plain"} and not untold(data["text/plain"], "view", "3 traces", "explorer.compare(…)")


def test_what_makes_up_a_call_of_each_gpu_is_said_first(replayed: Replayed) -> None:
    """Above the matches, and first in the overview, stands what a call takes on each, with its library calls and kernels."""
    layers = replayed("views/layers-torch2.13-h100")
    other = trace_of(replace(layers, meta={**layers.meta, "target": "v100"}))
    made = sent(layers, other, names=("h100", "v100"))
    first, matches, *_ = made["comparison"]["summary"]
    infos = made["overview"]
    times = [{one["what"]: one["seconds"] for one in info["work"]} for info in infos]
    calls, kernels = ([of[what] for of in times] for what in ("library calls", "kernels"))
    assert calls[1] > 1.02 * calls[0] and kernels[0] < kernels[1] < 1.02 * kernels[0]
    whole = f"{duration(infos[0]['seconds'])} in h100, {duration(infos[1]['seconds'])} in v100"
    parts = [
        f"{len(layers.inductor.extern_calls)} library calls {duration(calls[0])} → {duration(calls[1])}",
        f"{infos[0]['work'][1]['count']} kernels about the same ({duration(kernels[0])}, {duration(kernels[1])})",
    ]
    assert first == f"A call takes {whole} (estimated): {'; '.join(parts)}." == made["comparison"]["work"]
    assert "library calls are the same" in matches


def test_calls_that_reach_other_shares_of_the_same_peaks_are_one_difference(
    replayed: Replayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of several sizes that arithmetic limits are told once, with their number and the range of their shares."""
    floors = {**costs.LAUNCHES, "library": 0.0}
    monkeypatch.setattr(costs, "LAUNCHES", floors)
    trace = replayed("views/layers-torch2.13-h100")
    traces = (replace(trace, meta={**trace.meta, "target": target}) for target in ("h100", "v100"))
    comparison = sent(*traces, names=("a", "b"))["comparison"]
    limited = [row["differs"] for row in comparison["kernels"] if "arithmetic" in row["differs"]]
    assert len(set(limited)) > 1
    (told,) = (one for one in comparison["hottest"] if "arithmetic" in one["why"])
    assert told["what"].startswith(f"{len(limited)} library calls such as ")
    assert re.search(r"float32 arithmetic, at \d+ to \d+ % of 16 TFLOP/s in b", told["why"])


def test_a_call_that_is_the_same_says_what_limits_it_on_each_gpu(zoo: Callable[[str], Trace]) -> None:
    """The launch limits small products on the faster GPU alone; of a large one the share of the peak explains the times."""
    traces = zoo("products h100"), zoo("products mi300x")
    made = sent(*traces, names=("h100", "mi300x"))
    rows = made["comparison"]["kernels"]
    assert [row["what"] for row in rows] == ["same call", "same call"]
    calls = [trace.inductor.extern_calls[0] for trace in traces]
    shares = [100 * call["operations"] / call["seconds"] / peak for call, peak in zip(calls, (67e12, 163.4e12), strict=True)]
    told = [f"float32 arithmetic, at {share:.0f} % of {peak} TFLOP/s" for share, peak in zip(shares, (67, 163), strict=True)]
    assert rows[0]["differs"] == f"limited by {' | '.join(told)}" and shares[0] != pytest.approx(shares[1], rel=0.05)
    assert re.fullmatch(r"limited by float32 arithmetic, at \d+ % of 67 TFLOP/s \| the launch", rows[1]["differs"])
    assert not any(words.startswith("What differs") for words in made["comparison"]["summary"]), "of kernels"
