"""The roofline: where kernels lie by hand-made figures, what of the roof they reach, and the picture as XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from explorer.analysis.timing.roofline import Peak, roofline_of
from explorer.reference.gpus.figures import Target
from explorer.tracing.traced import Trace
from tests.facts import untold

LAYERS = "views/layers-torch2.13-h100"
H100 = Target.parse("h100")


def test_a_product_lies_where_its_sizes_say(replayed: Callable[[str], Trace]) -> None:
    """A product of m × k with k × n has 2mkn operations on its three matrices, and its rate is these by its seconds."""
    trace = replayed(LAYERS)
    row = next(row for row in trace.profile.roofline().table if row["kernel"] == "op4")
    call = next(each for group in trace.fusion.groups if group["name"] == "op4" for each in group["calls"])
    _, m, n, k = call["sizes"]
    assert row["operations"] == 2 * m * n * k and row["bytes"] == 4 * (m * k + k * n + m * n)
    assert row["intensity"] == pytest.approx(row["operations"] / row["bytes"])
    assert row["rate"] == pytest.approx(row["operations"] / row["seconds"]) and row["timed"] == "estimated"


def test_every_kernel_and_call_has_a_row(replayed: Callable[[str], Trace]) -> None:
    """The seconds of all rows are those of the tables of kernels and library calls."""
    trace = replayed(LAYERS)
    whole = sum(row["seconds"] for row in (*trace.kernels.table, *trace.inductor.extern_calls))
    assert sum(row["seconds"] for row in trace.profile.roofline().table) == pytest.approx(whole)


def test_the_share_is_the_part_of_the_lower_roof(replayed: Callable[[str], Trace]) -> None:
    """With a slow memory it is the roof, with slow products these are; the share is its least seconds by the kernel's."""
    trace = replayed(LAYERS)
    slow_memory = roofline_of(trace, [Peak("memory", 1e9, ""), Peak("float32", 1e18, "")], "test").table
    slow_products = roofline_of(trace, [Peak("memory", 1e18, ""), Peak("float32", 1e9, "")], "test").table
    for memory, product in zip(slow_memory, slow_products, strict=True):
        assert memory["limit"] == "memory" and memory["share"] == pytest.approx(memory["bytes"] / 1e9 / memory["seconds"])
        if product["operations"]:
            assert product["limit"] == "operations"
            assert product["share"] == pytest.approx(product["operations"] / 1e9 / product["seconds"])


def test_a_gpu_you_dont_have_has_its_figures_and_no_attained_peaks(replayed: Callable[[str], Trace]) -> None:
    """The peaks of the named GPU stand in the column of figures; nothing says that they were measured."""
    peaks = {row["what"]: row for row in replayed(LAYERS).profile.roofline().peaks}
    assert peaks["memory"]["spec"] == H100.bandwidth and peaks["float32"]["spec"] == H100.peak["fp32"]
    assert {row["attained"] for row in peaks.values()} == {None}
    assert all(0 < row["spec_share"] < 1 for row in replayed(LAYERS).profile.roofline().table)


def test_the_picture_has_a_dot_a_kernel_and_both_roofs(replayed: Callable[[str], Trace]) -> None:
    """The SVG is well-formed; each row with operations and a time is a dot inside it, empty for an estimate."""
    trace = replayed(LAYERS)
    line = roofline_of(trace, [Peak("memory", 2.5e12, ""), Peak("float32", 4e13, "")], "a <GPU>")
    root = ET.fromstring(line.svg)
    dots = root.findall(".//{*}circle")
    assert len(dots) == sum(bool(row["intensity"] and row["rate"]) for row in line.table) > 10
    width, height = (float(part) for part in root.attrib["viewBox"].split()[2:])
    assert all(0 < float(dot.attrib["cx"]) < width and 0 < float(dot.attrib["cy"]) < height for dot in dots)
    assert {dot.attrib["fill"] for dot in dots} == {"#fff"} and "a <GPU>" in root.attrib["aria-label"]
    texts = [text.text or "" for text in root.findall(".//{*}text")]
    assert any(not untold(text, "float32", "figures") for text in texts) and any(text.startswith("float32 40") for text in texts)
