"""`t.advise()`: the planted slowness is named first, a fine program gets no verdict, and what was named proves itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import explorer
from explorer.analysis.advice import advise
from explorer.analysis.advice.call_cost import LAUNCH, MIN_SECONDS, MIN_SHARE, TracedCall
from explorer.analysis.advice.verdicts import Cost, Verdict
from explorer.errors import InputError, LiveError
from explorer.model.trace_data import artifact_of
from explorer.model.values import Failure
from explorer.tracing.traced import Trace, load
from tests.facts import says, untold
from tests.zoo_programs import advice_programs

#: Of the programs of benchmarks/advice.py, which runs them all, one or more a file of the room.
PLACES = tuple(f"op: {name}" for name in ("permuted", "nchw conv", "random gather", "scan of columns", "odd length", "printed"))
PLANTED = ("break", "tiny", "tf32", "unfused", "attention", "layout", "float64", "strided", "idle", "scalar", "t5", *PLACES)
FINE = (
    "fine: block",
    "fine: norm",
    "fine: llama",
    *(f"fine op: {name}" for name in ("embedding", "gather", "cumsum", "index_copy")),
)


@pytest.fixture
def traced(zoo: Callable[[str], Trace]) -> Callable[[str], Trace]:
    """Give the trace of a program, by its name."""
    return lambda name: zoo(f"advice {name}")


def live(name: str) -> Trace:
    """Compile a program now: a proof compiles it once more, in the process that made the trace."""
    trace: Trace = next(program for program in advice_programs().programs() if program.name == name).trace()
    return trace


@pytest.mark.parametrize("name", PLANTED)
def test_the_plant_is_named_first(name: str, traced: Callable[[str], Trace]) -> None:
    """The oracle is the plant, whose kind was written down with the program."""
    kinds = next(program.kinds for program in advice_programs().programs() if program.name == name)
    verdict = traced(name).advise()[0]
    assert verdict.kind in kinds
    assert verdict.cost.seconds >= MIN_SECONDS and verdict.share >= MIN_SHARE
    assert verdict.evidence and verdict.remedy and bool(verdict.call) != bool(verdict.why_unproved)


@pytest.mark.compile
def test_a_break_is_proved_by_the_setting_that_it_says_to_set() -> None:
    """Dynamo names the setting for sizes that depend on data; the proof sets the same one, and the break is gone."""

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].sin()

    (verdict,) = (v for v in explorer.trace(chosen, torch.randn(64)).advise(prove=True) if v.kind == "graph break")
    setting = "torch._dynamo.config.capture_dynamic_output_shape_ops"
    assert f"{setting} = True" in verdict.remedy and verdict.what_if == {"settings": {setting: True}}
    assert verdict.proof is not None and verdict.proof.gone and not verdict.why_unproved


@pytest.mark.parametrize("name", FINE)
def test_a_fine_program_gets_no_verdict(name: str, traced: Callable[[str], Trace]) -> None:
    """Nothing is said where nothing is wrong, and the page says that."""
    advice = traced(name).advise()
    assert len(advice) == 0 and not advice.table
    for shown in (repr(advice), advice._repr_html_()):
        assert not untold(shown, "nothing") and len(untold(shown, "verdict", "verdicts")) == 2


def test_verdicts_name_the_line_that_was_planted(traced: Callable[[str], Trace]) -> None:
    """The user lines and the lines of texts are those of the plant: the log line, the transposed copies, the table of records."""
    assert [line.code for line in traced("break").advise()[0].lines] == ['print("activations", x.shape)']
    assert any(".contiguous()" in line.code for line in traced("layout").advise()[0].lines)
    (line,) = traced("strided").advise()[0].lines
    assert "boxes[:, 2]" in line.code
    for name in ("strided", "tf32", "scalar"):
        trace = traced(name)
        places = trace.advise()[0].places
        assert places and all(1 <= line <= len(artifact_of(trace, id).lines) for id, line in places)


@pytest.mark.compile
def test_a_loaded_trace_is_advised_on_like_a_live_one(tmp_path: Path) -> None:
    """The data alone decide; only a proof needs the process."""
    trace = live("unfused")
    trace.save(tmp_path / "trace")
    loaded = load(tmp_path / "trace")
    assert loaded.advise() == trace.advise()
    with pytest.raises(LiveError, match=says("process", "explorer.trace")):
        loaded.advise(prove=True)


@pytest.mark.compile
def test_a_proof_runs_the_what_if_and_says_what_came_of_it() -> None:
    """With the setting at its default the fusions are done, and a call takes less by the estimate; without it nothing is run."""
    trace = live("unfused")
    verdict = trace.advise(prove=True)[0]
    assert trace.advise()[0].proof is None
    proof = verdict.proof
    assert proof is not None and proof.gone and proof.before is not None and proof.after is not None
    assert proof.figure == "estimated_seconds" and proof.after < 0.8 * proof.before
    assert eval(verdict.call, {"t": trace}).figure("kernels")["change"] < 0  # as a user pastes it


@pytest.mark.compile
def test_a_setting_of_torchs_proves_a_verdict_and_is_put_back() -> None:
    """The products are traced as if TF32 were allowed, and afterwards the setting is what it was."""
    before = torch.backends.cuda.matmul.fp32_precision
    proof = live("tf32").advise(prove=True)[0].proof
    assert torch.backends.cuda.matmul.fp32_precision == before
    assert proof is not None and proof.gone and proof.after is not None and proof.before is not None
    assert proof.after < 0.5 * proof.before


def test_float64_that_was_asked_for_is_no_fault(zoo: Callable[[str], Trace]) -> None:
    """A program whose inputs are all float64 means it."""
    assert "float64" not in [verdict.kind for verdict in zoo("square float64 h100").advise()]


def test_prove_takes_a_truth_value() -> None:
    """Anything else is the user's mistake, and is said."""
    with pytest.raises(InputError, match=says("prove", "True", "False", "'yes'")):
        Trace().advise(prove="yes")  # type: ignore[arg-type]


def test_a_trace_without_kernels_says_why_it_cannot_be_judged() -> None:
    """Nothing is called fine that was not read: nothing compiled, the reason that the compile failed, another compiler."""
    empty = Trace().advise()
    assert not empty and empty.seconds == 0 and list(empty.table) == [] and "compiled nothing" in empty.unread
    failed = Trace(failures=(Failure("dynamo", "compile", "nothing was compiled: no tensor operation"),)).advise()
    assert "no tensor operation" in failed.unread
    other = Trace(meta={"backend": "iree"}).advise()
    assert "iree" in other.unread and "Inductor" in other.unread
    for advice in (empty, failed, other):
        for shown in (repr(advice), advice._repr_html_()):
            assert not untold(shown, "cannot judge") and untold(shown, "nothing stands out") and untold(shown, "A call takes")


@pytest.mark.compile
def test_a_break_between_another_compilers_kernels_has_no_share_of_a_call() -> None:
    """What Dynamo's part of a graph break takes is stated; of a call whose kernels were not read it is no known part."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    advice = explorer.trace(broken, torch.ones(4), backend="aot_eager").advise()
    (verdict,) = advice
    assert verdict.share == 0 and verdict.cost.seconds > 0 and "a call whose time is not known" in verdict.shared
    assert "aot_eager cannot be judged" in advice.about and "%" not in repr(advice)


@pytest.mark.compile
def test_a_graph_from_a_cache_is_not_judged() -> None:
    """The kernels of a frame that was loaded were not read, and the advice says how to read them."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * 2).cos() + 0.125

    for _ in range(2):
        torch._dynamo.reset()
        with explorer.record() as recording:
            torch.compile(f)(torch.ones(100))
    torch._dynamo.reset()
    advice = recording.trace.advise()
    assert not advice and not untold(repr(advice), "cannot judge", "cache", "fresh=True")


@pytest.mark.compile
def test_a_graph_of_views_is_judged_and_takes_nothing() -> None:
    """A program that launches no kernel is fine, and is not one that was not read."""
    advice = explorer.trace(lambda x: x.view(2, 4), torch.ones(8), target="h100").advise()
    assert not advice and advice.unread == ""


def test_a_share_is_a_part_of_a_call(traced: Callable[[str], Trace]) -> None:
    """What a verdict adds to the estimate is added to the call too, and what is paid once has no share."""
    for name in ("idle", "scalar", "strided", "break"):
        advice = traced(name).advise()
        assert all(0 <= verdict.share <= 1 for verdict in advice)
        assert advice.seconds >= sum(verdict.cost.seconds for verdict in advice if verdict.cost.beyond)
    recompiled = next(verdict for verdict in traced("recompiles").advise() if verdict.kind == "recompiles")
    assert recompiled.share == 0 and recompiled.shared == "paid once"


@pytest.mark.compile
def test_work_that_the_launches_hide_is_a_share_of_the_work() -> None:
    """A call of small kernels takes as long as its launches: less work of the GPU alone would save nothing, and this is said."""

    def small(x: torch.Tensor) -> torch.Tensor:
        for _ in range(12):
            x = torch.relu(x @ x)
        return x

    trace = explorer.trace(small, torch.randn(128, 128), target="h100")
    bound, precision = trace.advise()[:2]
    assert (bound.kind, precision.kind) == ("launch bound", "slow precision")
    assert precision.is_hidden and "of the work, but the launches take longer" in precision.shared and not bound.is_hidden
    assert bound.shared.endswith("of a call") and not untold(repr(trace.advise()), "less work alone saves no time")
    (on_amd,) = (v for v in explorer.trace(small, torch.randn(128, 128), target="mi300x").advise() if v.kind == "launch bound")
    assert on_amd.why_unproved == "CUDA graphs are traced for NVIDIA GPUs alone, and this is AMD Instinct MI300X"
    captured = trace.what_if(options={"triton.cudagraphs": True}, limit=0)
    assert captured.figure("call_seconds")["change"] < 0 == captured.figure("estimated_seconds")["change"]
    assert captured.figure("graph_breaks")["after"] == 0


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.sum().item() > 1e4:
        x = x.clamp(-1, 1)
    return x.sin()


@pytest.mark.compile
def test_a_branch_on_a_number_is_told_to_change() -> None:
    """The setting that Dynamo hints at leaves the break, as a trace with it shows: the remedy is another line, and no proof."""
    x = torch.randn(64)
    (verdict,) = (v for v in explorer.trace(branching, x, target="h100").advise() if v.kind == "graph break")
    assert "torch.where" in verdict.remedy and not verdict.what_if and verdict.why_unproved
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert explorer.trace(branching, x, target="h100").dynamo.graph_breaks


def test_the_page_says_what_the_estimate_leaves_out(traced: Callable[[str], Trace]) -> None:
    """An estimate of kernels is not what a user's clock shows."""
    assert not untold(repr(traced("fine: norm").advise()), "guards", "Python", "not included")


def test_what_saves_time_comes_before_what_the_launches_hide(
    traced: Callable[[str], Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the launches take longer than the work, less work saves nothing: it is listed after what costs less and counts."""

    def found(_: TracedCall) -> Iterator[Verdict]:
        for kind, microseconds in (("slow precision", 90), ("launch bound", 30)):
            yield Verdict(kind, kind, Cost(microseconds * 1e-6, "estimated", ""), "", "")

    monkeypatch.setattr(advise, "CHECKS", (found,))
    verdicts = traced("tiny").advise()
    assert [(verdict.kind, verdict.is_hidden) for verdict in verdicts] == [("launch bound", False), ("slow precision", True)]


def test_a_call_gets_no_shorter_than_its_launches(traced: Callable[[str], Trace], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without some of its work a call takes as long as its launches: the verdict says what that saves, and ranks by it."""

    def found(_: TracedCall) -> Iterator[Verdict]:
        for kind, microseconds in (("slow precision", 967), ("launch bound", 600), ("uncoalesced", 90)):
            yield Verdict(kind, kind, Cost(microseconds * 1e-6, "estimated", ""), "", "")

    monkeypatch.setattr(advise, "CHECKS", (found,))
    monkeypatch.setattr(TracedCall, "device", 1470e-6)
    monkeypatch.setattr(TracedCall, "host", 885e-6)
    bound, precision, access = traced("tiny").advise()
    assert (bound.kind, precision.kind, access.kind) == ("launch bound", "slow precision", "uncoalesced")
    assert precision.shared == "saves at most 585 µs a call (40 %), limited by the launches"
    assert precision.share == pytest.approx(585 / 1470) and precision.paid == "967 µs of the work, estimated"
    assert access.shared == "costs 6 % of a call" and access.paid == "90 µs a call, estimated" and bound.saves is None


def test_a_fusion_spares_its_launches_too(traced: Callable[[str], Trace], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the launches take longer than the work, a call gets shorter by the launches of the kernels that become one."""

    def found(_: TracedCall) -> Iterator[Verdict]:
        for launches in (4, 1, 0):
            yield Verdict("fusion missed", "", Cost(20e-6, "estimated", "", launches=launches), "", "")

    monkeypatch.setattr(advise, "CHECKS", (found,))
    monkeypatch.setattr(TracedCall, "device", 50e-6)
    monkeypatch.setattr(TracedCall, "host", 100e-6)
    assert [verdict.saves for verdict in traced("tiny").advise()] == [None, LAUNCH, 0]
