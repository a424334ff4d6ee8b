"""Two traces differ first at the pass, pattern, decomposition, lowering, fusion or kernel that was changed, which is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch._dynamo.config
import torch._inductor.config
from torch._inductor import decomposition, lowering
from torch._inductor.fx_passes import post_grad

import explorer
from explorer.analysis.findings.first_difference import in_words
from explorer.entry import cli
from explorer.sources.files.trace_file import load_events
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from explorer.view.compared import payload_of_comparison

DATA = Path(__file__).parents[2] / "data" / "views"
NAMES = ("a", "b")
inductor = torch._inductor.config.patch
dynamo = torch._dynamo.config.patch


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A trace for an absent H100, from recorded events."""
    return trace_of_events(*load_events((DATA / "layers-torch2.13-h100.events.json.gz").read_bytes()))


def changed(trace: Trace, stage: str, old: str, new: str) -> Trace:
    """The same trace with other words in the texts of one stage."""
    assert any(old in a.text for a in trace.find(stage))
    artifacts = (replace(a, text=a.text.replace(old, new)) if a.stage == stage else a for a in trace.artifacts)
    return Trace(dict(trace.meta), tuple(artifacts), trace.links, trace.failures)


def said(*traces: Trace) -> str:
    return "\n".join(in_words(explorer.compare(*traces, names=NAMES)))


def test_equal_traces_differ_nowhere(trace: Trace) -> None:
    """A trace and itself have no first difference, in the table and in what is printed."""
    compared = explorer.compare(trace, trace, names=NAMES)
    assert not compared.first_difference and "differs first" not in repr(compared)
    assert not explorer.compare(trace, trace, trace).first_difference


def test_the_first_line_of_a_kernel_is_named_before_the_texts_below_it(trace: Trace) -> None:
    """Where a kernel's source and its PTX differ, the source is first; names, places and comments are no difference."""
    other = changed(changed(trace, "ptx", "ld.global", "ld.volatile"), "kernel", "tl.load(", "tl.load_otherwise(")
    told = said(trace, other)
    assert told.startswith("differs first at: the kernel's source") and "tl.load_otherwise(" in told
    told = said(trace, changed(trace, "ptx", "ld.global", "ld.volatile"))
    assert told.startswith("differs first at: PTX") and "ld.volatile" in told
    assert not said(trace, changed(trace, "kernel", "import triton", "import triton  # moved"))


def test_versions_are_told_where_the_texts_are_equal(trace: Trace) -> None:
    """Another version of torch is a row of its own, and the line says that no text differs."""
    other = Trace({**trace.meta, "torch": "9.9"}, trace.artifacts, trace.links, trace.failures)
    (row,) = explorer.compare(trace, other, names=NAMES).first_difference
    assert (row["what"], row["name"], row["b"], row["stage"]) == ("version", "torch", "9.9", "")
    assert said(trace, other).startswith("set otherwise, with no difference in the texts: version torch: ")


def test_each_form_of_a_comparison_has_the_line(trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, Markdown and JSON of the command, the repr and the view's payload say where two traces differ first."""
    other = changed(trace, "kernel", "tl.load(", "tl.load_otherwise(")
    files = [str(tmp_path / name) for name in ("a.json.gz", "b.json.gz")]
    for each, file in zip((trace, other), files, strict=True):
        each.save(file)
    for form in ((), ("--markdown",)):
        assert cli.main(["compare", *files, *form]) == 0
        assert "differs first at: the kernel's source" in capsys.readouterr().out
    assert cli.main(["compare", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["first_difference"][0]["stage"] == "the kernel's source"
    compared = explorer.compare(trace, other)
    assert repr(compared).split("\n")[1].startswith("differs first at: ")
    assert payload_of_comparison(compared)["comparison"]["summary"][0].startswith("differs first at: ")


def soft(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.nn.functional.gelu(x @ w), -1).sum(0)


def several(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x.sin() + w).cos(), (x * w).exp()


def item(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * w.sum().item()


def scan(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x * w)[0:100].cumsum(-1)


def without(table: dict[Any, Any], *operators: Any) -> AbstractContextManager[Any]:
    return mock.patch.dict(table, {key: value for key, value in table.items() if key not in operators}, clear=True)


CUMSUM = torch.ops.aten.cumsum.default
#: A program, what the second trace is made under, and what the first difference must name.
PLANTED: dict[str, tuple[Callable[..., Any], Callable[[], AbstractContextManager[Any]], tuple[str, ...]]] = {
    "pattern": (soft, lambda: inductor(online_softmax=False), ("prepare_softmax_pattern", "matched 0 times", "online_softmax")),
    "pass": (scan, lambda: mock.patch.object(post_grad, "remove_noop_ops", lambda graph: None), ("FX pass remove_noop_ops",)),
    "decomposition": (
        soft,
        lambda: without(decomposition.decompositions, torch.ops.aten.gelu.default),
        ("decomposition of aten.gelu.default",),
    ),
    "lowering": (
        scan,
        lambda: mock.patch.dict(lowering.lowerings, {CUMSUM: lowering.fallback_handler(CUMSUM, add_to_fallback_set=False)}),
        ("lowering of aten.cumsum.default: a scan in a", "a fallback"),
    ),
    "fusion": (several, lambda: inductor(max_fusion_size=1), ("fusion of aten.cos.default", "it names inductor.max_fusion_size")),
    "graph break": (
        item,
        lambda: dynamo(capture_scalar_outputs=True),
        ("graph break", "no break in b", "capture_scalar_outputs"),
    ),
    "loops": (soft, lambda: inductor({"triton.persistent_reductions": False}), ("kernel's source", "persistent_reductions")),
    "nothing": (soft, nullcontext, ()),
}


@pytest.mark.compile
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_named(name: str) -> None:
    """A pass, a pattern, a decomposition, a lowering or a setting that one trace has otherwise is named; else nothing is."""
    function, planted, words = PLANTED[name]
    arguments = torch.ones(64, 64), torch.ones(64, 64)
    before = explorer.trace(function, *arguments, target="h100")
    decomposition.fast_random_decomps.cache_clear()
    with planted():
        after = explorer.trace(function, *arguments, target="h100")
    decomposition.fast_random_decomps.cache_clear()
    told = said(before, after)
    assert [word for word in words if word not in told.split("\n")[0]] == [] and bool(words) == bool(told), told


@pytest.mark.compile
def test_a_variable_of_the_environment_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable from which torch takes a default when it is imported is told, because that setting looks like its default."""
    before = explorer.trace(several, torch.ones(8), torch.ones(8), target="h100")
    monkeypatch.setenv("TORCHINDUCTOR_PLANTED", "1")
    monkeypatch.setenv("TORCHINDUCTOR_PLANTED_DIR", "/somewhere")
    after = explorer.trace(several, torch.ones(8), torch.ones(8), target="h100")
    told = "set otherwise, with no difference in the texts: setting environment.TORCHINDUCTOR_PLANTED: None in a; '1' in b"
    assert said(before, after) == told
