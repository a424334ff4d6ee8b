"""What if: figures of a trace, and names that are checked before anything is compiled; no torch."""

from __future__ import annotations

import types
from dataclasses import replace

import pytest

from explorer.analysis.questions.figures import estimated, figures
from explorer.errors import InputError, LiveError
from explorer.model.values import Table, plain
from explorer.reference.gpus.figures import Target
from explorer.tracing.traced import Trace, trace
from explorer.tracing.traced.what_if import WhatIf, _with_node_names, as_text
from tests.facts import untold

H100 = Target.parse("h100")


def test_figures_are_shown_as_people_write_them() -> None:
    """Whole numbers whole, seconds short, what is not known as a question mark."""
    rows = Table(
        [
            {"figure": "kernels", "before": 1, "after": 2, "change": 1, "note": ""},
            {"figure": "estimated_seconds", "before": None, "after": 0.00012345, "change": None, "note": "an estimate"},
        ]
    )
    lines = as_text(rows).splitlines()
    assert lines[1].split() == ["kernels", "1", "2", "1"]
    assert lines[2].split() == ["estimated_seconds", "?", "0.000123", "?", "an", "estimate"]
    what = WhatIf(Trace(), Trace(), rows, None, "not checked")
    assert what.figure("kernels")["change"] == 1 and "not checked" in repr(what) and "not checked" in what._repr_html_()
    assert ">1<" in what._repr_html_() and "0.000123" in what._repr_html_() and "e+00" not in what._repr_html_()
    same = replace(what, same_code=True)
    assert all("alters none" in text for text in (repr(same), same._repr_html_())) and "alters none" not in repr(what)
    with pytest.raises(InputError, match="did you mean 'kernels'"):
        what.figure("kernel")


def of_attached(monkeypatch: pytest.MonkeyPatch, found: Target | InputError) -> Trace:
    """A live trace for an attached GPU, which is `found`."""

    def attached() -> Target:
        if isinstance(found, InputError):
            raise found
        return found

    monkeypatch.setattr(trace, "attached_gpu", attached)
    return Trace(meta=plain({"target": "cuda"}), _live=types.SimpleNamespace(absent=None))


def test_an_attached_gpu_is_estimated_with_its_own_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch reads of the device serves; without peak rates bytes alone count, and the note says which it was."""
    own = replace(H100, name="cuda", title="NVIDIA H100 PCIe")
    trace = of_attached(monkeypatch, own)
    assert figures(trace)["estimated_seconds"] == 0 and not untold(estimated(trace), "estimate", "NVIDIA H100 PCIe")
    assert untold(estimated(trace), "bytes", "peak") == ["bytes", "peak"]
    unknown = of_attached(monkeypatch, replace(own, peak={}))
    assert figures(unknown)["estimated_seconds"] == 0 and not untold(estimated(unknown), "NVIDIA H100 PCIe", "bytes", "peak")
    for nothing in (replace(own, bandwidth=0.0), InputError("no GPU is attached")):
        bare = of_attached(monkeypatch, nothing)
        assert figures(bare)["estimated_seconds"] is None and not untold(estimated(bare), "estimate", "figures", "device")


def test_what_is_not_estimated_says_why() -> None:
    """The CPU has no figures; a loaded trace of an attached GPU has no device."""
    for target, facts in (("cpu", ("CPU", "measured_seconds")), ("cuda", ("estimate", "figures", "device"))):
        trace = Trace(meta=plain({"target": target}))
        assert figures(trace)["estimated_seconds"] is None and not untold(estimated(trace), *facts)
    assert not untold(estimated(Trace(meta=plain({"target": "h100"}))), "estimate", H100.title)


def test_a_loaded_trace_cannot_be_compiled_again() -> None:
    """What if needs the process that made the trace."""
    with pytest.raises(LiveError):
        Trace(meta=plain({"target": "h100"})).what_if(options={"max_fusion_size": 1})


def test_operators_are_of_one_graph(replayed) -> None:
    """Scheduler nodes are counted anew in each graph: `op0` and `op1` of the backward are not meant."""
    trace = replayed("mlp_train-torch2.13-cpu")
    forward, backward = trace.fusion.graphs
    asked = _with_node_names(trace, ("gelu", "linear"))
    assert asked == ("op1", "op0", "forward", forward.artifact.frame)
    assert all(backward.find(name) for name in asked[:2])
    assert _with_node_names(trace, ("op1", "op0")) == ("op1", "op0", "", ""), "a scheduler node may be of any graph"
