"""Colours of the view: two lines that look alike came from the same line of the user, whoever looks.

What is judged is the picture: Chromium draws the page, also as people with each kind of colour blindness see it
(`Emulation.setEmulatedVisionDeficiency`), and the pixels of the bars beside the lines are compared. Which lines are
related is `analysis/questions/provenance.py`'s answer, not the page's.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt
from typing import Any

import pytest

from explorer.analysis.questions.provenance import origins
from explorer.model.records import blank
from explorer.model.shared import Kernel, Source
from explorer.model.values import Artifact, Link
from explorer.tracing.traced import Trace
from tests.in_tab import APP, SOURCES, drawn

Lab = tuple[float, float, float]
Rgb = tuple[int, int, int]

#: The white point of sRGB, D65, and the matrix from linear sRGB to XYZ (IEC 61966-2-1).
WHITE = (0.95047, 1.0, 1.08883)
TO_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))

#: The least difference (CIEDE2000) of two colours that stand for different lines: about ten times what can just be seen of
#: large patches, since a bar of 6 pixels is small.
MIN_DIFFERENCE = 10.0
#: The least share of a bar's pixels in which two textures differ.
TEXTURE = 1 / 6
BAR, ROW = 6, 18
VISIONS = ("none", "protanopia", "deuteranopia", "tritanopia")
MODELS = ("sin_cos-torch2.13-cpu", "toy_example-torch2.13-cpu", "mlp_train-torch2.13-cpu", "iree_linear-torch2.13-cpu")

#: L a b, L a b, and their difference: table 1 of Sharma, Wu and Dalal, Color Research & Application 30, 2005.
PAIRS = """
50.0000 2.6772 -79.7751 50.0000 0.0000 -82.7485 2.0425
50.0000 3.1571 -77.2803 50.0000 0.0000 -82.7485 2.8615
50.0000 2.8361 -74.0200 50.0000 0.0000 -82.7485 3.4412
50.0000 -1.3802 -84.2814 50.0000 0.0000 -82.7485 1.0000
50.0000 -1.1848 -84.8006 50.0000 0.0000 -82.7485 1.0000
50.0000 -0.9009 -85.5211 50.0000 0.0000 -82.7485 1.0000
50.0000 0.0000 0.0000 50.0000 -1.0000 2.0000 2.3669
50.0000 -1.0000 2.0000 50.0000 0.0000 0.0000 2.3669
50.0000 2.4900 -0.0010 50.0000 -2.4900 0.0009 7.1792
50.0000 2.4900 -0.0010 50.0000 -2.4900 0.0010 7.1792
50.0000 2.4900 -0.0010 50.0000 -2.4900 0.0011 7.2195
50.0000 2.4900 -0.0010 50.0000 -2.4900 0.0012 7.2195
50.0000 -0.0010 2.4900 50.0000 0.0009 -2.4900 4.8045
50.0000 -0.0010 2.4900 50.0000 0.0010 -2.4900 4.8045
50.0000 -0.0010 2.4900 50.0000 0.0011 -2.4900 4.7461
50.0000 2.5000 0.0000 50.0000 0.0000 -2.5000 4.3065
50.0000 2.5000 0.0000 73.0000 25.0000 -18.0000 27.1492
50.0000 2.5000 0.0000 61.0000 -5.0000 29.0000 22.8977
50.0000 2.5000 0.0000 56.0000 -27.0000 -3.0000 31.9030
50.0000 2.5000 0.0000 58.0000 24.0000 15.0000 19.4535
50.0000 2.5000 0.0000 50.0000 3.1736 0.5854 1.0000
50.0000 2.5000 0.0000 50.0000 3.2972 0.0000 1.0000
50.0000 2.5000 0.0000 50.0000 1.8634 0.5757 1.0000
50.0000 2.5000 0.0000 50.0000 3.2592 0.3350 1.0000
60.2574 -34.0099 36.2677 60.4626 -34.1751 39.4387 1.2644
63.0109 -31.0961 -5.8663 62.8187 -29.7946 -4.0864 1.2630
61.2901 3.7196 -5.3901 61.4292 2.2480 -4.9620 1.8731
35.0831 -44.1164 3.7933 35.0232 -40.0716 1.5901 1.8645
22.7233 20.0904 -46.6940 23.0331 14.9730 -42.5619 2.0373
36.4612 47.8580 18.3852 36.2715 50.5065 21.2231 1.4146
90.8027 -2.0831 1.4410 91.1528 -1.6435 0.0447 1.4441
90.9257 -0.5406 -0.9208 88.6381 -0.8985 -0.7239 1.5381
6.7747 -0.2908 -2.4247 5.8714 -0.0985 -2.2286 0.6377
2.0776 0.0795 -1.1350 0.9033 -0.0636 -0.5514 0.9082
"""

#: The bars in sight: of each the text, the line, and where its left upper corner is.
BARS = """() => document.querySelector('#explorer').app.panes.list.flatMap((pane) => {
    const view = pane.element.querySelector('.cm-scroller').getBoundingClientRect();
    const middle = (one) => (one.getBoundingClientRect().top + one.getBoundingClientRect().bottom) / 2;
    const lines = new Map([...pane.element.querySelectorAll('.cm-line[data-line]')].map((one) => [Math.round(middle(one)), one]));
    return [...pane.element.querySelectorAll('.signs .sign')].flatMap((sign) => {
        const { top, bottom, right } = sign.getBoundingClientRect();
        const line = lines.get(Math.round(middle(sign)));
        return line && top >= view.top && bottom <= view.bottom
            ? [[...pane.store.written(pane.artifact, Number(line.dataset.line)), Math.round(right) - 6, Math.round(top)]] : [];
    });
})"""
#: The pixels of bars in a picture, each as hexadecimal RGB.
PIXELS = """async ([picture, places, width, height]) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${picture}`)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height);
    const pen = canvas.getContext('2d');
    pen.drawImage(image, 0, 0);
    return places.map(([x, y]) => {
        const { data } = pen.getImageData(x, y, width, height);
        return Array.from({ length: width * height }, (_, at) => [...data.slice(4 * at, 4 * at + 3)]);
    });
}"""


# How different two colours look ---------------------------------------------------------------------------------------


@cache
def lab(rgb: Rgb) -> Lab:
    """CIELAB of an sRGB colour, of whole numbers up to 255."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (part / 255 for part in rgb)]
    xyz = [sum(m * v for m, v in zip(row, linear, strict=True)) / white for row, white in zip(TO_XYZ, WHITE, strict=True)]
    x, y, z = (v ** (1 / 3) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@cache
def difference(one: Lab, other: Lab) -> float:
    """CIEDE2000 of two colours in CIELAB; about 1 is what can just be seen of two large patches side by side."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = ((hypot(a1, b1) + hypot(a2, b2)) / 2) ** 7
    g = 0.5 * (1 - sqrt(mean / (mean + 25**7)))
    (c1, h1), (c2, h2) = _polar(a1 * (1 + g), b1), _polar(a2 * (1 + g), b2)
    turn, hue = _hues(c1 * c2, h1, h2)
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    t = 1 - 0.17 * _cos(hue - 30) + 0.24 * _cos(2 * hue) + 0.32 * _cos(3 * hue + 6) - 0.20 * _cos(4 * hue - 63)
    dl = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / sqrt(20 + (lightness - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * sqrt(c1 * c2) * sin(radians(turn / 2)) / (1 + 0.015 * chroma * t)
    rotation = -sin(radians(60 * exp(-(((hue - 275) / 25) ** 2)))) * 2 * sqrt(chroma**7 / (chroma**7 + 25**7))
    return sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh)


def _polar(a: float, b: float) -> tuple[float, float]:
    return hypot(a, b), degrees(atan2(b, a)) % 360 if a or b else 0.0


def _hues(chromas: float, h1: float, h2: float) -> tuple[float, float]:
    """The angle from one hue to the other, and the hue between them."""
    if not chromas:
        return 0.0, h1 + h2
    turn = (h2 - h1 + 180) % 360 - 180
    if abs(h2 - h1) == 180:
        turn = h2 - h1
    if abs(h2 - h1) <= 180:
        return turn, (h1 + h2) / 2
    return turn, (h1 + h2 + (360 if h1 + h2 < 360 else -360)) / 2


def _cos(angle: float) -> float:
    return cos(radians(angle))


# What is seen ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """What stands beside one line: where it is coloured, and in which colour."""

    artifact: int
    line: int
    filled: tuple[bool, ...]
    colour: Lab

    @property
    def coloured(self) -> bool:
        """Whether it stands for a user line: a thin line says only that there is one."""
        return sum(self.filled) > BAR * ROW / 4

    def differs(self, other: Bar) -> bool:
        """Whether one can tell it from another."""
        texture = sum(a != b for a, b in zip(self.filled, other.filled, strict=True)) / len(self.filled)
        return texture >= TEXTURE or difference(self.colour, other.colour) >= MIN_DIFFERENCE


def bar(artifact: int, line: int, pixels: list[list[int]], back: Rgb) -> Bar:
    seen: list[Rgb] = [(r, g, b) for r, g, b in pixels]
    filled = tuple(difference(lab(one), lab(back)) > MIN_DIFFERENCE for one in seen)
    inked = [one for one, on in zip(seen, filled, strict=True) if on]
    return Bar(artifact, line, filled, lab(max(set(inked), key=inked.count)) if inked else lab(back))


def looks(tab: Any, blank_tab: Any, visions: Sequence[str] = VISIONS) -> Iterator[tuple[str, str, list[Bar]]]:
    """Yield the bars of a page as they are seen, in light and in dark, with each kind of sight.

    The tab must be alone in its context: what a DevTools session emulates would stay for the next test.
    """
    session = tab.context.new_cdp_session(tab)
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        for vision in visions:
            session.send("Emulation.setEmulatedVisionDeficiency", {"type": vision})
            places = settled(tab)
            picture = base64.b64encode(tab.screenshot()).decode()
            corner = [[places[0][2] - 10, places[0][3]], *([x, y] for _, _, x, y in places)] if places else []
            (back, *_), *pixels = blank_tab.evaluate(PIXELS, [picture, corner, BAR, ROW]) if places else [[None]]
            yield scheme, vision, [bar(*place[:2], seen, tuple(back)) for place, seen in zip(places, pixels, strict=True)]
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": "none"})
    tab.emulate_media(color_scheme="light")


def settled(tab: Any) -> list[list[int]]:
    """The bars in sight, once two frames have been drawn."""
    drawn(tab)
    return list(tab.evaluate(BARS))


def user_lines(trace: Trace, bar: Bar) -> frozenset[tuple[str, int]]:
    """The user lines that a line came from in the end."""
    found = origins(trace, trace.artifacts[bar.artifact].id, (bar.line,))
    return frozenset((id, line) for id, lines in found.items() for line in lines if stage_of(trace, id) == "source")


def stage_of(trace: Trace, id: str) -> str:
    return next(a.stage for a in trace.artifacts if a.id == id)


def lies(trace: Trace, bars: list[Bar]) -> list[tuple[Bar, Bar]]:
    """The pairs of lines that look alike and have no user line in common."""
    coloured = [(one, user_lines(trace, one)) for one in bars if one.coloured]
    return [(a, b) for (a, of_a), (b, of_b) in combinations(coloured, 2) if not of_a & of_b and not a.differs(b)]


@pytest.fixture
def blank_tab(tabs: Callable[..., Any]) -> Any:
    """A tab that reads pictures."""
    return tabs()


def many(count: int, each: int) -> Trace:
    """A source of `count` lines, each of which became `each` lines of a kernel."""
    data = blank(Source, function="f", qualname="f", file="f.py", first_line=1, compiled=True)
    text = "\n".join(f"x{n} = f(x)" for n in range(count))
    kernel = "\n".join(f"tmp{n} = x" for n in range(each * count))
    artifacts = (
        Artifact("s", "source", "0/0", "", "f", "python", text, data=data),
        Artifact("k", "kernel", "0/0", "", "k", "triton", kernel, kernel="k", data=blank(Kernel, name="k")),
    )
    links = tuple(Link("k", tuple(range(each * n + 1, each * n + each + 1)), "s", (n + 1,), "codegen") for n in range(count))
    return Trace(artifacts=artifacts, links=links)


# Differences -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", PAIRS.split("\n")[1:-1])
def test_the_difference_is_ciede2000(row):
    """The measure of the tests below gives what its authors publish for each of their pairs."""
    l1, a1, b1, l2, a2, b2, expected = map(float, row.split())
    assert difference((l1, a1, b1), (l2, a2, b2)) == pytest.approx(expected, abs=5e-5)


# The page ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_lines_that_look_alike_came_from_one_line(opened, replayed, blank_tab, name):
    """On a model's first screen no two coloured lines without a common origin look alike, in light and in dark.

    That all colours and textures are told apart by each kind of sight is shown once, for all of them, below.
    """
    trace = replayed(name)
    tab = opened(trace, alone=True)
    for scheme, vision, bars in looks(tab, blank_tab, ["none"]):
        assert lies(trace, bars) == [], (scheme, vision)
        assert sum(one.coloured for one in bars) >= 2, (scheme, vision)


def test_lines_of_many_functions_never_look_alike(opened, rotary, blank_tab):
    """Each kernel of a transformer's block beside each of the user's functions; all looks on the first screen, one on others."""
    tab = opened(rotary, alone=True)
    sources = [n for n, a in enumerate(rotary.artifacts) if a.stage == "source"]
    kernels = [n for n, a in enumerate(rotary.artifacts) if a.stage == "kernel"]
    colours = 0
    for at, kernel in enumerate(kernels):
        go = """([source, kernel]) => {
            const { panes, store } = document.querySelector('#explorer').app;
            panes.show(panes.list[0], source);
            panes.show(panes.list[1], kernel);
            const first = store.lines(kernel).findIndex((_, line) => store.origin(kernel, line + 1));
            panes.list[1].editor.reveal(first + 20);
        }"""
        tab.evaluate(go, [sources[at % len(sources)], kernel])
        for scheme, vision, bars in looks(tab, blank_tab) if not at else first_look(tab, blank_tab):
            assert lies(rotary, bars) == [], (scheme, vision, rotary.artifacts[kernel].id)
            colours = max(colours, len({(one.filled, one.colour) for one in bars if one.coloured}))
    assert colours >= 5, "else nothing was compared"


def first_look(tab: Any, blank_tab: Any) -> Iterator[tuple[str, str, list[Bar]]]:
    yield next(looks(tab, blank_tab))


def test_more_lines_than_colours_are_told_apart_by_texture(opened, blank_tab):
    """Of 40 user lines on one screen as many as can be told apart have a colour and a texture, the others none."""
    trace = many(40, 1)
    for scheme, vision, bars in looks(opened(trace, alone=True), blank_tab):
        assert lies(trace, bars) == [], (scheme, vision)
        assert len({one.filled for one in bars if one.coloured}) >= 4, "textures"
        found = {user_lines(trace, one) for one in bars if one.coloured}
        assert len(found) == 24, (scheme, vision)


def test_only_lines_in_play_have_a_colour(opened):
    """A user line with nothing else of it in sight has a thin line; a click colours it, and its lines the same."""
    trace = many(200, 2)
    tab = opened(trace)
    line = tab.get_by_role("region", name="left text").locator('.line[data-line="25"]')
    assert line.get_attribute("data-source") == "linked"
    line.click()
    tab.wait_for_function(f"() => {APP}.parts.colours.swatches.has(25)")
    swatch = line.get_attribute("data-source")
    assert swatch.isdigit()
    right = tab.get_by_role("region", name="right text").locator('.line[data-line="50"]')
    assert right.get_attribute("data-source") == swatch


def test_new_lines_are_told_from_deleted_ones(tabs, blank_tab):
    """The colours of both, and of the words in them, differ in light and dark for each kind of sight; red and green did not."""
    css = (SOURCES / "style.css").read_text(encoding="utf-8")
    colours = {name: re.findall(rf"--{name}: (#\w+)", css) for name in ("gone", "made", "gone-word", "made-word")}
    assert all(len(found) == 2 for found in colours.values()), "one of light, one of dark"
    pairs = [*zip(colours["gone"], colours["made"], strict=True), *zip(colours["gone-word"], colours["made-word"], strict=True)]
    tab = tabs(alone=True)
    cells = "".join(f'<i style="background:{one}"></i><i style="background:{other}"></i>' for one, other in pairs)
    tab.set_content(f"<style>body{{margin:0;display:flex}}i{{width:20px;height:20px}}</style>{cells}")
    session = tab.context.new_cdp_session(tab)
    for vision in VISIONS:
        session.send("Emulation.setEmulatedVisionDeficiency", {"type": vision})
        drawn(tab)
        picture = base64.b64encode(tab.screenshot()).decode()
        points = [[20 * n + 10, 10] for n in range(2 * len(pairs))]
        seen = [lab(tuple(pixel)) for (pixel,) in blank_tab.evaluate(PIXELS, [picture, points, 1, 1])]
        assert min(difference(one, other) for one, other in zip(seen[::2], seen[1::2], strict=True)) > MIN_DIFFERENCE, vision
