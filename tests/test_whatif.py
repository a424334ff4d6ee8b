"""What if: figures of a trace, the roofline, and names that are checked before anything is compiled; no torch."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

import pytest

from explorer import whatif
from explorer.errors import InputError, LiveError
from explorer.gpus import Target
from explorer.model import Rows, plain
from explorer.traced import Trace
from explorer.whatif import WhatIf, estimated, figures, operations, peak, table

H100 = Target.parse("h100")


def node(target: str, shape: tuple[int, ...], inputs: tuple[str, ...] = (), dtype: str = "float32") -> dict[str, Any]:
    return {"name": target, "target": target, "shape": [str(s) for s in shape], "inputs": inputs, "dtype": dtype}


@pytest.mark.parametrize(
    ("operator", "out", "inputs", "count"),
    [
        ("aten.mm.default", (4, 6), [(4, 5), (5, 6)], 2 * 4 * 5 * 6),
        ("aten.addmm.default", (4, 6), [(6,), (4, 5), (5, 6)], 2 * 4 * 5 * 6),
        ("aten.mm.default", (5, 5), [(5, 5)], 2 * 5 * 5 * 5),
        ("aten.bmm.default", (3, 4, 6), [(3, 4, 5), (3, 5, 6)], 2 * 3 * 4 * 5 * 6),
        ("aten.convolution.default", (2, 8, 10, 10), [(2, 3, 12, 12), (8, 3, 3, 3)], 2 * 2 * 8 * 100 * 27),
        ("aten._scaled_dot_product_efficient_attention.default", (2, 4, 16, 8), [(2, 4, 16, 8)] * 3, 4 * 2 * 4 * 16 * 16 * 8),
        ("aten.add.Tensor", (4, 6), [(4, 6), (4, 6)], 0),
    ],
)
def test_operations_are_counted_from_shapes(
    operator: str, out: tuple[int, ...], inputs: list[tuple[int, ...]], count: int
) -> None:
    """Products, convolutions and attention by their sizes; everything else counts as moved bytes only."""
    others = {f"i{n}": node("x", shape) for n, shape in enumerate(inputs)}
    assert operations(node(operator, out, tuple(others)), others) == count


def test_symbolic_sizes_count_nothing() -> None:
    """No guess where a size is not known."""
    others = {"i0": node("x", ("s0", 4)), "i1": node("x", (4, 4))}  # type: ignore[arg-type]
    assert operations({**node("aten.mm.default", (4, 4), ("i0", "i1")), "shape": ["s0", "4"]}, others) == 0


def test_the_peak_is_that_of_the_dtype() -> None:
    """Half precision has its own rate; an unknown dtype that of fp32."""
    assert peak(H100, "bfloat16") == H100.peak["bf16"] and peak(H100, "float32") == peak(H100, "complex64") == H100.peak["fp32"]


def test_figures_are_shown_as_people_write_them() -> None:
    """Whole numbers whole, seconds short, what is not known as a question mark."""
    rows = Rows([
        {"figure": "kernels", "before": 1, "after": 2, "change": 1, "note": ""},
        {"figure": "estimated_seconds", "before": None, "after": 0.00012345, "change": None, "note": "a roofline"},
    ])  # fmt: skip
    lines = table(rows).splitlines()
    assert lines[1].split() == ["kernels", "1", "2", "1"]
    assert lines[2].split() == ["estimated_seconds", "?", "0.000123", "?", "a", "roofline"]
    what = WhatIf(Trace(), Trace(), rows, None, "not checked")
    assert what.figure("kernels")["change"] == 1 and "not checked" in repr(what) and "not checked" in what._repr_html_()
    with pytest.raises(InputError, match="did you mean 'kernels'"):
        what.figure("kernel")


def of_attached(monkeypatch: pytest.MonkeyPatch, found: Target | InputError) -> Trace:
    """A live trace for an attached GPU, which is `found`."""

    def attached() -> Target:
        if isinstance(found, InputError):
            raise found
        return found

    monkeypatch.setattr(whatif, "attached_gpu", attached)
    return Trace(meta=plain({"target": "cuda"}), live=types.SimpleNamespace(absent=None))


def test_an_attached_gpu_is_estimated_with_its_own_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch reads of the device serves; without peak rates bytes alone count, and the note says which it was."""
    own = replace(H100, name="cuda", title="NVIDIA H100 PCIe")
    trace = of_attached(monkeypatch, own)
    assert figures(trace)["estimated_seconds"] == 0 and estimated(trace) == "a roofline for NVIDIA H100 PCIe"
    unknown = of_attached(monkeypatch, replace(own, peak={}))
    assert figures(unknown)["estimated_seconds"] == 0 and "bytes alone" in estimated(unknown)
    for nothing in (replace(own, bandwidth=0.0), InputError("no GPU is attached")):
        bare = of_attached(monkeypatch, nothing)
        assert figures(bare)["estimated_seconds"] is None and "not known" in estimated(bare)


def test_what_is_not_estimated_says_why() -> None:
    """Of the CPU no figures are known; a loaded trace of an attached GPU has its device no more."""
    for target, said in (("cpu", "no estimate for the CPU"), ("cuda", "the figures of this device are not known")):
        trace = Trace(meta=plain({"target": target}))
        assert figures(trace)["estimated_seconds"] is None and said in estimated(trace)
    assert estimated(Trace(meta=plain({"target": "h100"}))) == f"a roofline for {H100.title}"


def test_a_loaded_trace_cannot_be_compiled_again() -> None:
    """What if needs the process that made the trace."""
    with pytest.raises(LiveError):
        Trace(meta=plain({"target": "h100"})).what_if(options={"max_fusion_size": 1})
