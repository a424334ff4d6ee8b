"""`explorer compare` and `--fail-on`: what two traces compiled differently, and the exit status."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import explorer
from explorer.analysis.findings.facts import facts_of
from explorer.analysis.findings.finding import Finding
from explorer.analysis.findings.report import Difference, findings, in_words
from explorer.analysis.findings.rules import RULES
from explorer.entry import cli
from explorer.sources.files.trace_file import load_events
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from tests.facts import untold

DATA = Path(__file__).parents[2] / "data" / "views"


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A trace for an absent H100, from recorded events."""
    return trace_of_events(*load_events((DATA / "layers-torch2.13-h100.events.json.gz").read_bytes()))


def test_equal_traces_are_compiled_alike(trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace and itself have no difference in any form, and the status is 0 whatever is asked for."""
    file = tmp_path / "t.json.gz"
    trace.save(file)
    for form, said in (((), "compiled alike"), (("--markdown",), "Compiled alike."), (("--json",), '"findings": []')):
        assert cli.main(["compare", str(file), str(file), *form, "--fail-on", ",".join(cli.RULES_OF_TWO)]) == 0
        assert said in capsys.readouterr().out


def test_a_lost_fusion_is_a_finding_of_compare(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text, Markdown and JSON name the operators, the kernels and the reason; only a rule that was asked for is a failure."""
    facts = facts_of(trace)
    first, second, *rest = facts.kernels
    one = replace(first, computes=(*first.computes, *second.computes))
    monkeypatch.setattr("explorer.analysis.findings.report.facts_of", lambda trace: replace(facts, kernels=(one, *rest)))
    file = tmp_path / "t.json.gz"
    trace.save(file)
    (finding,) = findings(trace, trace)
    for form in ((), ("--markdown",), ("--json",)):
        assert cli.main(["compare", str(file), str(file), *form, "--fail-on", "not-fused"]) == cli.BROKEN
        text, why = capsys.readouterr()
        assert "1 finding" in why and "not-fused" in why
        shown = json.loads(text)["findings"][0]["actual"] if form == ("--json",) else " ".join(text.split())
        assert finding.actual in shown and "fusion lost" in shown
        assert cli.main(["compare", str(file), str(file), *form, "--fail-on", "spill,graph-break"]) == 0
        assert finding.why in shown or form == ("--json",)
        capsys.readouterr()


def test_a_pattern_that_one_trace_lacks_is_a_finding(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lost one first, the new one as a gain, the one in both not at all; a comparison prints them and has them as rows."""
    facts = facts_of(trace)
    sides = iter([{"kept": 2, "lost": 1}, {"kept": 3, "new": 2}] * 4)
    monkeypatch.setattr("explorer.analysis.findings.report._not_comparable", lambda *traces: [])
    monkeypatch.setattr("explorer.analysis.findings.report.facts_of", lambda trace: replace(facts, patterns=next(sides)))
    monkeypatch.setattr("explorer.analysis.findings.changes.facts_of", lambda trace: replace(facts, patterns=next(sides)))
    compared = explorer.compare(trace, trace, names=("a", "b"))
    assert [(row["rule"], row["actual"], row["is_gain"]) for row in compared.findings] == [
        ("pattern", "the pattern lost does not match any more", False),
        ("pattern", "the pattern new matches 2 times", True),
    ]
    assert repr(compared).endswith(in_words(findings(trace, trace)))
    assert "- pattern: the pattern lost does not match any more\n  before:   lost matched 1 time" in repr(compared)


def test_more_than_two_traces_have_no_findings(trace: Trace) -> None:
    """Neither printed nor as rows, which say why there are none."""
    compared = explorer.compare(trace, trace, trace, names=("a", "b", "c"))
    assert not compared.findings and "two traces" in compared.findings.why_empty and "compiled alike" not in repr(compared)
    assert repr(explorer.compare(trace, trace, names=("a", "b"))).endswith("compiled alike")


def test_markdown_says_what_is_alike_and_quotes_any_code() -> None:
    """Only the time to compile is no difference; other figures are, without a finding too; backticks do not end a quotation."""
    head = "## What torch.compile makes of it\n\n"
    assert Difference((("compile seconds", "1.2 s", "1.3 s"),), ()).markdown == f"{head}Compiled alike."
    text = Difference((("compile seconds", "1.2 s", "1.3 s"), ("launches", "2", "3")), ()).markdown
    assert "| launches | 2 | 3 |\n\nCompiled alike." in text and "seconds" not in text
    code = "f('``x``')"
    assert f"  - ``` {code} ```" in Difference((), (Finding("graph-break", "none", "one", (code,)),)).markdown


def test_what_cannot_be_compared_is_not_judged(trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace without lowerings, and one for another target, are said which they are; the figures are printed all the same."""
    cpu = trace_of_events(*load_events((DATA / "tuned_bmm-torch2.13-cpu.events.json.gz").read_bytes()))
    cases = (
        (Trace({"name": "f", "target": "h100"}), "after: torch.compile compiled nothing"),
        (cpu, "before is for h100, after is for cpu"),
    )
    trace.save(tmp_path / "t.json.gz")
    for other, said in cases:
        other.save(tmp_path / "other.json.gz")
        files = [str(tmp_path / "t.json.gz"), str(tmp_path / "other.json.gz")]
        assert cli.main(["compare", *files, "--fail-on", "graph-break"]) == cli.BROKEN
        text = capsys.readouterr().out
        assert f"not judged: {said}" in text and "before" in text.splitlines()[0]
        assert cli.main(["compare", *files]) == 0
        capsys.readouterr()


def test_a_file_of_several_ranks_is_refused(trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that `explorer ranks` wrote has no one trace to compare."""
    (tmp_path / "ranks").mkdir()
    for number in range(2):
        trace.save(tmp_path / "ranks" / f"t.rank{number}.json.gz")
    explorer.load(tmp_path / "ranks").save(tmp_path / "merged.json.gz")
    assert cli.main(["compare", str(tmp_path / "merged.json.gz"), str(tmp_path / "ranks" / "t.rank0.json.gz")]) == cli.MISUSE
    assert not untold(capsys.readouterr().err, str(tmp_path / "merged.json.gz"), "ranks", "compare")


def test_the_rules_of_the_command_are_those_of_the_room() -> None:
    """The command names its rules without an import of theirs, and refuses others."""
    assert tuple(RULES) == cli.RULES
    with pytest.raises(SystemExit) as ended:
        cli.main(["trace", "--fail-on", "fusion", "x.py"])
    assert ended.value.code == cli.MISUSE


def test_fail_on_names_what_breaks_a_rule(trace: Trace) -> None:
    """What cannot be judged breaks a rule too; without a rule nothing is judged."""
    assert cli._broken_rules(trace, []) == []
    assert cli._broken_rules(trace, ["graph-break", "recompile", "failure"]) == []
    (finding,) = cli._broken_rules(Trace({"name": "f"}), ["graph-break"])
    assert "not judged" in str(finding)
