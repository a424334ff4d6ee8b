"""The moving picture of the view: `python docs/animation.py [FILE]` records it anew, in 20 seconds of a real page.

It traces an attention layer for an H100 that need not be there, opens its saved page in headless chromium, and clicks through it:
the overview, a line of the program and its kernel, that kernel's PTX, why two nodes are no one kernel, and which guard another
call would fail. Each step is a frame of an animated WebP.
"""

from __future__ import annotations

import io
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from screenshots import CHROMIUM, FLAGS, without_folders

FILE = Path(__file__).parent / "images" / "tour.webp"
SIZE = {"width": 1180, "height": 700}
STEPS = 8  # frames of a motion of the pointer
MOTION = 40  # milliseconds of such a frame
PROGRAM = """
import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return torch.relu(self.out(mixed)) + x
"""
#: A pointer, and a line of words at the foot of the page: a headless browser draws neither.
OVERLAY = """() => {
    const pointer = document.createElement('div');
    pointer.id = 'pointer';
    pointer.innerHTML = '<svg width="22" height="22" viewBox="0 0 22 22"><path d="M3 1v17l4.6-4.2 3 6.6 3-1.4-3-6.4h6.2z"' +
        ' fill="#111" stroke="#fff" stroke-width="1.4"/></svg>';
    pointer.style.cssText = 'position:fixed;left:0;top:0;z-index:2147483647;pointer-events:none';
    const words = document.createElement('div');
    words.id = 'words';
    words.style.cssText = 'position:fixed;left:50%;bottom:34px;translate:-50% 0;z-index:2147483647;pointer-events:none;' +
        'padding:7px 16px;border-radius:8px;background:#111d;color:#fff;font:600 17px system-ui;white-space:nowrap';
    document.body.append(pointer, words);
}"""
PLACE = "([x, y]) => { document.querySelector('#pointer').style.translate = `${x}px ${y}px`; }"
SAY = "(words) => { const line = document.querySelector('#words'); line.textContent = words; line.hidden = !words; }"
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Film:
    """The frames of a tab, each with the milliseconds that it stands."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.frames: list[tuple[bytes, int]] = []
        self.at = (SIZE["width"] * 0.6, SIZE["height"] * 0.6)
        tab.evaluate(PLACE, self.at)

    def take(self, milliseconds: int) -> None:
        """Take a frame of what the page shows."""
        self.tab.evaluate(FRAMES)
        self.frames.append((self.tab.screenshot(), milliseconds))

    def say(self, words: str) -> None:
        """Say at the foot of the page what the next frames show."""
        self.tab.evaluate(SAY, words)

    def click(self, target: Any, x: float = 0.5) -> None:
        """Move the pointer to an element, and click where `x` of its width is."""
        box = target.bounding_box()
        to = (box["x"] + box["width"] * x, box["y"] + box["height"] / 2)
        start = self.at
        for step in range(1, STEPS + 1):
            part = (1 - math.cos(math.pi * step / STEPS)) / 2
            self.at = (start[0] + (to[0] - start[0]) * part, start[1] + (to[1] - start[1]) * part)
            self.tab.evaluate(PLACE, self.at)
            self.take(MOTION)
        self.tab.mouse.click(*to)
        self.tab.evaluate(FRAMES)

    def type(self, target: Any, text: str) -> None:
        """Replace what is in a field, as a reader would."""
        self.click(target)
        target.fill(text)
        self.take(500)

    def save(self, file: Path) -> None:
        """Write the frames as an animated WebP that begins anew at its end."""
        from PIL import Image

        images = [Image.open(io.BytesIO(frame)).convert("RGB") for frame, _ in self.frames]
        times = [milliseconds for _, milliseconds in self.frames]
        images[0].save(file, save_all=True, append_images=images[1:], duration=times, loop=0, quality=72, method=6)


def attention() -> Any:
    """The trace of an attention layer; its source is a file, as a reader's is."""
    import torch

    import explorer

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "attention.py"
        file.write_text(PROGRAM.lstrip(), encoding="utf-8")
        namespace: dict[str, Any] = {"__name__": "attention"}
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), namespace)
        torch.manual_seed(0)
        layer = namespace["Attention"](256, 8)
        return without_folders(explorer.trace(layer, torch.randn(4, 128, 256), target="h100"))


def overview(film: Film) -> None:
    """What was compiled, and where a call's time goes."""
    film.say("One attention layer, compiled for an H100 that is not here")
    film.take(2600)


def line(film: Film) -> None:
    """A line of the program, and the kernel that computes it."""
    film.click(film.tab.get_by_role("tab", name="Code"))
    film.say("Click a line: the kernel that computes it opens beside it")
    film.click(film.tab.locator(".pane").first.locator(".line", has_text="torch.softmax"), 0.3)
    film.take(2800)


def machine_code(film: Film) -> None:
    """The same line in the kernel's PTX."""
    film.say("→ walks on from stage to stage, down to its PTX")
    film.tab.evaluate("() => document.querySelector('#explorer').app.panes.list[1].editor.focus()")
    for _ in range(4):  # TTIR, TTGIR, LLVM IR, PTX
        film.tab.keyboard.press("ArrowRight")
        film.take(450)
    film.take(1800)


def verdict(film: Film) -> None:
    """Why two nodes are no one kernel."""
    film.click(film.tab.get_by_role("tab", name="Fusion"))
    film.say("Why are these two not one kernel?")
    film.take(700)
    for which, name in (("first", "op1"), ("second", "op2")):
        field = film.tab.get_by_label(f"{which} node")
        film.type(field, name)
        field.press("Enter")
    film.take(2600)


def guard(film: Film) -> None:
    """Which guard another call would fail."""
    film.click(film.tab.get_by_role("tab", name="Guards"))
    film.say("Would another batch compile again?")
    film.take(900)
    film.type(film.tab.get_by_label("size of x"), "16, 128, 256")
    film.take(2800)


ACTS: tuple[Callable[[Film], None], ...] = (overview, line, machine_code, verdict, guard)


def main(file: str = str(FILE)) -> None:
    """Record every act."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "page.html"
        attention().to_html(page)
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        tab = browser.new_page(viewport=SIZE)
        tab.goto(page.as_uri())
        tab.wait_for_selector("#explorer[data-state=ready]")
        tab.evaluate(OVERLAY)
        tab.get_by_role("button", name="show or hide the stages").click()  # the texts need the room
        film = Film(tab)
        for act in ACTS:
            act(film)
        film.save(Path(file))
        browser.close()
    seconds = sum(milliseconds for _, milliseconds in film.frames) / 1000
    print(f"{file}: {seconds:.1f} s, {len(film.frames)} frames, {Path(file).stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:2])
