"""Stored expectations: what is the same, what differs, and what cannot be judged, without a run of pytest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.analysis.findings.changes import changes, matched_keys
from explorer.analysis.findings.facts import Facts, facts_of
from explorer.errors import FileError
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Failure
from explorer.sources.files.trace_file import load_events
from explorer.stages.dynamo.graph_break import GraphBreak
from explorer.testing import ContractError
from explorer.testing.stored import compare, file_of, update
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of, trace_of_events
from tests.facts import untold

DATA = Path(__file__).parents[1] / "data"
RECORDED = tuple(f"views/{name}" for name in ("layers-torch2.13-h100", "tuned_mm-torch2.13-h100", "tuned_bmm-torch2.13-cpu"))


@pytest.fixture(scope="module")
def recorded() -> Callable[[str], Trace]:
    """The trace of recorded events, by the name of the file."""
    traces: dict[str, Trace] = {}

    def trace(name: str) -> Trace:
        if name not in traces:
            traces[name] = trace_of_events(*load_events((DATA / f"{name}.events.json.gz").read_bytes()))
        return traces[name]

    return trace


def said(path: Path, trace: Trace) -> str:
    with pytest.raises(ContractError) as raised:
        compare(path, trace)
    return str(raised.value)


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_stored_is_equal_to_itself(name: str, recorded: Callable[[str], Trace], tmp_path: Path) -> None:
    """Facts pass through the file; the same trace has no differences, and storing it again changes no byte."""
    path = file_of(tmp_path / "test_x.py", name)
    assert update(path, recorded(name))
    compare(path, recorded(name))
    assert not update(path, recorded(name))
    entry = next(iter(json.loads(path.read_text(encoding="utf-8"))["torch"].values()))
    assert len(Facts.from_json(entry, "here").kernels) == len(facts_of(recorded(name)).kernels) > 0


@pytest.mark.parametrize("name", RECORDED)
def test_every_node_that_a_kernel_computes_is_stored_once_a_kernel(name: str, recorded: Callable[[str], Trace]) -> None:
    """The kernels are those of the output code, and their nodes those that the lowerings give to them."""
    facts, trace = facts_of(recorded(name)), recorded(name)
    assert set(facts.kernel_names) <= {kernel.name for kernel in trace.kernels}
    for kernel in facts.kernels:
        assert len(set(kernel.computes)) == len(kernel.computes) > 0


def test_each_change_is_found_and_named(recorded: Callable[[str], Trace]) -> None:
    """Facts changed by hand, one at a time, are one finding each, worse or better as the change is."""
    trace = recorded("views/layers-torch2.13-h100")
    facts = facts_of(trace)
    assert list(changes(facts, trace)) == []
    peak = facts.peak_bytes
    assert peak is not None
    first, second, *rest = facts.kernels
    one = replace(first, computes=(*first.computes, *second.computes))
    assert len(facts.calls) > 1
    for old, rule, is_gain in (
        (replace(facts, peak_bytes=peak - 4), "peak memory", False),
        (replace(facts, peak_bytes=peak + 4), "peak memory", True),
        (replace(facts, recompiles=1), "recompile", True),
        (replace(facts, graph_breaks=("a reason at `f(x)`",)), "graph-break", True),
        (replace(facts, failures=("compile, error",)), "failure", True),
        (replace(facts, calls=facts.calls[1:]), "fallback", False),
        (replace(facts, calls=(*facts.calls, "aten.nothing of `f(x)`")), "fallback", True),
        (replace(facts, kernels=(one, *rest)), "not-fused", False),
        (replace(facts, kernels=(replace(first, spills=8), second, *rest)), "spill", True),
        (replace(facts, graphs=facts.graphs - 1), "graphs", False),
        (replace(facts, graphs=facts.graphs + 1), "graphs", True),
        (replace(facts, kernel_count=facts.kernel_count - 1), "kernels", False),
        (replace(facts, kernel_count=facts.kernel_count + 1), "kernels", True),
    ):
        found = list(changes(old, trace))
        assert [(f.rule, f.is_gain) for f in found] == [(rule, is_gain)], (rule, found)
    (lost,) = changes(replace(facts, kernels=(one, *rest)), trace)
    assert "fusion lost" in lost.actual and first.kernel in lost.actual and second.kernel in lost.actual and lost.why
    halves = (replace(first, computes=first.computes[:1]), replace(first, computes=first.computes[1:]))
    assert len(first.computes) > 1
    (gained,) = changes(replace(facts, kernels=(*halves, second, *rest)), trace)
    assert gained.is_gain and "fusion gained" in gained.actual


def longest_source(trace: TraceData) -> Artifact:
    return max(trace.find("source"), key=lambda source: len(source.lines))


def with_breaks(trace: TraceData, *lines: int) -> TraceData:
    """The trace with a graph break at each of these lines of its longest source, all for one reason."""
    source = longest_source(trace)
    file, first = str(source.data["file"]), int(source.data["first_line"])
    breaks = [GraphBreak(reason="a call of print", explanation="", hints=(), file=file, line=first + line) for line in lines]
    added = [Artifact(f"{n}", "graph_break", source.frame, "", "", "", "", data=data) for n, data in enumerate(breaks)]
    return TraceData(trace.meta, (*trace.artifacts, *added), trace.links)


def test_the_graph_breaks_that_are_new_are_named(recorded: Callable[[str], Trace]) -> None:
    """Of breaks for one reason, that of the line that was there before is no finding, and each new one is."""
    trace = recorded("views/rotary-torch2.13-h100")
    lines = [line.strip() for line in longest_source(trace).lines]
    assert len(set(lines[1:4])) == 3
    found = list(changes(facts_of(with_breaks(trace, 1)), with_breaks(trace, 1, 2, 3)))
    assert [(f.rule, f.is_gain, f.lines[0].endswith(line)) for f, line in zip(found, lines[2:], strict=False)] == [
        ("graph-break", False, True)
    ] * 2
    assert [f.is_gain for f in changes(facts_of(with_breaks(trace, 1, 2)), with_breaks(trace, 1))] == [True]


def test_failures_are_counted(recorded: Callable[[str], Trace]) -> None:
    """Of two failures of one kind that were one before, one is a finding."""
    trace = recorded("views/layers-torch2.13-h100")
    twice = TraceData(trace.meta, trace.artifacts, failures=(Failure("sass", "read", "first"), Failure("sass", "read", "second")))
    once = TraceData(trace.meta, trace.artifacts, failures=(Failure("sass", "read", "first"),))
    (found,) = changes(facts_of(once), twice)
    assert found.rule == "failure" and not found.is_gain
    assert not list(changes(facts_of(twice), twice))


def test_spills_that_are_not_known_any_more_are_not_judged(recorded: Callable[[str], Trace]) -> None:
    """A kernel whose machine code was known and is not now passes nothing, and the file tells unknown from none."""
    trace = recorded("views/layers-torch2.13-h100")
    facts = facts_of(trace)
    for spills, judged in ((0, False), (None, True)):
        known = replace(facts, kernels=tuple(replace(kernel, spills=spills) for kernel in facts.kernels))
        stored = Facts.from_json(known.to_json(), "here")
        assert {kernel.spills for kernel in stored.kernels} == {spills}
        with pytest.MonkeyPatch.context() as patch:
            unknown = replace(facts, kernels=tuple(replace(kernel, spills=None) for kernel in facts.kernels))
            patch.setattr("explorer.analysis.findings.changes.facts_of", lambda trace, unknown=unknown: unknown)
            found = list(changes(stored, trace))
        assert bool(found) is not judged and not any(finding.judged for finding in found)


def test_nodes_are_matched_when_their_lines_are_edited() -> None:
    """A node with the same operator and code is the same; else those of one operator are matched in their order."""
    before = ["aten.mul of `a * 2`", "aten.mul of `b * 2`", "aten.sum of `c`", "aten.exp of `d`"]
    now = ["aten.mul of `b * 2`", "aten.mul of `a * 3`", "aten.sum of `c.contiguous()`", "aten.sin of `d`"]
    assert matched_keys(before, now) == {
        "aten.mul of `b * 2`": "aten.mul of `b * 2`",
        "aten.mul of `a * 2`": "aten.mul of `a * 3`",
        "aten.sum of `c`": "aten.sum of `c.contiguous()`",
    }


def test_what_is_gone_shifts_no_match() -> None:
    """Without the norm the first addition is the bias, as the second one was: not the norm's, though it was first."""
    norm, rest = ["sub", "add", "mul"], ["add", "neg", "exp", "add", "div"]
    before = [f"{name} of `up(norm(h))` #{n}" for n, name in enumerate((*norm, *rest), 1)]
    now = [f"{name} of `up(h)` #{n}" for n, name in enumerate(rest, 1)]
    assert matched_keys(before, now) == dict(zip(before[3:], now, strict=True))


# What cannot be judged ---------------------------------------------------------------------------------------------------


def test_without_expectations_nothing_passes(recorded: Callable[[str], Trace], tmp_path: Path) -> None:
    """No file, one of another torch, and one of another target fail, and say what to do."""
    path, trace = tmp_path / "x.json", recorded("views/layers-torch2.13-h100")
    text = said(path, trace)
    assert not untold(text, "not judged", str(path), "pytest --explorer-update")
    update(path, trace_of(replace(TraceData(trace.meta, trace.artifacts), meta={**trace.meta, "torch": "2.11.0+cu128"})))
    text = said(path, trace)
    assert not untold(text, "not judged", "torch 2.11", "torch 2.13")
    update(path, trace)
    assert list(json.loads(path.read_text(encoding="utf-8"))["torch"]) == ["2.11", "2.13"]
    text = said(path, recorded("views/tuned_bmm-torch2.13-cpu"))
    assert not untold(text, "not judged", "h100", "cpu")


def test_a_trace_without_lowerings_is_neither_stored_nor_judged(tmp_path: Path) -> None:
    """A trace of another compiler, or of nothing, does not say what became of the nodes."""
    for trace in (
        Trace({"name": "f", "torch": "2.13"}),
        trace_of_events(*load_events((DATA / "tvm_linear-torch2.13-cpu.events.json.gz").read_bytes())),
    ):
        with pytest.raises(ContractError, match="not judged"):
            update(tmp_path / "x.json", trace)
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "pytest --explorer-update"),
        ("[]", "expectations"),
        ('{"explorer": "expectations", "format": 2, "torch": {}}', "format 2"),
        ('{"explorer": "expectations", "format": 1, "torch": {"2.13": {"target": "h100"}}}', "KeyError"),
    ],
)
def test_a_damaged_file_says_so(text: str, wrong: str, recorded: Callable[[str], Trace], tmp_path: Path) -> None:
    """A file that is none of explorer's, or of a newer format, is refused with its name."""
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=wrong) as raised:
        compare(path, recorded("views/layers-torch2.13-h100"))
    assert str(path) in str(raised.value)


def test_each_test_has_a_file_of_its_own() -> None:
    """Names that no file can have are made safe, and stay apart."""
    names = [file_of(Path("t/test_a.py"), name).name for name in ("f", "f[a/b]", "f[a-b]", "f[a:b]", "C.f", "f" * 300)]
    assert len(set(names)) == len(names) and all("/" not in name and len(name) < 160 for name in names)
    assert file_of(Path("t/test_a.py"), "f", "second") == Path("t/__explorer__/test_a.f.second.json")


def test_another_dtype_is_found(recorded: Callable[[str], Trace]) -> None:
    """Where the result of an operator had another dtype, both are said with the operator and its line."""
    trace = recorded("views/layers-torch2.13-h100")
    facts = facts_of(trace)
    assert facts.dtypes is not None
    count = facts.dtypes["aten.rsqrt.default float32"]
    other = {**facts.dtypes, "aten.rsqrt.default float64": count}
    del other["aten.rsqrt.default float32"]
    (finding,) = changes(replace(facts, dtypes=other), trace)
    assert finding.rule == "dtypes" and not finding.is_gain and finding.lines
    assert not untold(str(finding), "aten.rsqrt.default", "float32", "float64")


def test_facts_stored_without_dtypes_are_read(recorded: Callable[[str], Trace]) -> None:
    """A file of an older version says nothing of dtypes, and the rest is compared."""
    trace = recorded("views/layers-torch2.13-h100")
    entry = facts_of(trace).to_json()
    del entry["dtypes"]
    assert list(changes(Facts.from_json(entry, "here"), trace)) == []


def test_an_operator_that_is_new_inside_a_kernel_is_found(recorded: Callable[[str], Trace]) -> None:
    """A kernel that was there and computes an operator more is a finding, with the operator, the kernel and its line."""
    trace = recorded("views/layers-torch2.13-h100")
    facts = facts_of(trace)
    rsqrt = {key for kernel in facts.kernels for key in kernel.computes if "rsqrt" in key}
    fewer = tuple(replace(k, computes=tuple(key for key in k.computes if key not in rsqrt)) for k in facts.kernels)
    found = [finding for finding in changes(replace(facts, kernels=fewer), trace) if finding.rule == "operators"]
    assert len(found) == 1 and found[0].lines and not found[0].is_gain
    kernel = next(kernel.kernel for kernel in facts.kernels if rsqrt & set(kernel.computes))
    assert not untold(str(found[0]), "no aten.rsqrt.default", kernel)
