"""The pictures of layouts as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import product
from math import prod

from explorer.reference.layouts.banks import BANKS, WORD, BankUse
from explorer.reference.layouts.linear import LinearLayout

#: The most rows and columns of a picture; the layout goes on in the same way.
MAX_ROWS, MAX_COLUMNS = 32, 64
CELL, HIGH, EDGE = 18, 16, 34
#: One colour a warp (Okabe and Ito's, lightened), told apart also by those who are colour blind; text on them is black.
FILLS = ("#8ecdf0", "#f3c56b", "#7fd0b4", "#f0a98a", "#d7b4d8", "#f2ea8f", "#9fb6e8", "#c9c9c9")

Element = tuple[int, ...]
#: Block, warp, lane and register.
Place = tuple[int, int, int, int]
Holders = Mapping[Element, Sequence[Place]]
#: Column, row and width in cells, text, colour, and what it says under the pointer.
Box = tuple[int, int, int, str, str, str]


def draw_registers(layout: LinearLayout) -> str:
    """A tensor: each box is the run of elements in a row that one thread holds, with its lane, in the colour of its warp."""
    held = holders(layout)
    grid = list(_grid(layout.shape))
    boxes: list[Box] = []
    for y, row in enumerate(grid):
        boxes += [_thread_box(y, x, run, held) for x, run in _runs(row, held)]
    labels = [",".join(map(str, row[0])) for row in grid]
    return _drawn(boxes, labels, _shown(layout.shape, grid), "lane in each box; a colour is a warp")


def holders(layout: LinearLayout) -> dict[Element, list[Place]]:
    """Map each element to those that hold it, as (block, warp, lane, register)."""
    held: dict[Element, list[Place]] = {}
    for inputs, element in layout.held():
        place = (inputs.get("block", 0), inputs.get("warp", 0), inputs.get("lane", 0), inputs.get("register", 0))
        held.setdefault(element, []).append(place)
    return {element: sorted(places) for element, places in held.items()}


def _grid(shape: Sequence[int]) -> Iterator[list[Element]]:
    """The elements in rows: the last dimension across, a tensor of one dimension in several rows; only the first of many."""
    if len(shape) == 1:
        across = min(shape[0], MAX_COLUMNS)
        for first in range(0, min(shape[0], across * MAX_ROWS), across):
            yield [(first + n,) for n in range(across)]
        return
    rows = product(*(range(size) for size in shape[:-1]))
    for _, row in zip(range(MAX_ROWS), rows, strict=False):
        yield [(*row, n) for n in range(min(shape[-1], MAX_COLUMNS))]


def _runs(row: Sequence[Element], held: Holders) -> Iterator[tuple[int, list[Element]]]:
    """The runs of elements that the same threads hold, each with its column."""
    start = 0
    for at in range(1, len(row) + 1):
        if at == len(row) or _threads(held[row[at]]) != _threads(held[row[start]]):
            yield start, list(row[start:at])
            start = at


def _threads(places: Iterable[Place]) -> list[tuple[int, int, int]]:
    return [place[:3] for place in places]


def _thread_box(y: int, x: int, run: Sequence[Element], held: Holders) -> Box:
    block, warp, lane, _ = held[run[0]][0]
    copies = len(set(_threads(held[run[0]])))
    registers = ", ".join(str(held[element][0][3]) for element in run)
    about = f"({', '.join(map(str, run[0]))}): warp {warp}, lane {lane}, register {registers}"
    if block:
        about = f"block {block}, {about}"
    if copies > 1:
        about += f"; held by {copies} threads"
    return x, y, len(run), str(lane), FILLS[warp % len(FILLS)], about


def _shown(shape: Sequence[int], grid: Sequence[Sequence[Element]]) -> str:
    count, whole = sum(len(row) for row in grid), prod(shape)
    return "" if count == whole else f"the first {count} of {whole} elements; "


def draw_shared(bytes_of: Mapping[Element, int], bits: int) -> str:
    """Shared memory: a row is 128 bytes; each box is a word, with its first element, in the colour of its row."""
    words: dict[int, list[Element]] = {}
    for element, byte in sorted(bytes_of.items(), key=lambda pair: pair[1]):
        for word in range(byte // WORD, (byte + max(1, bits // 8) - 1) // WORD + 1):
            words.setdefault(word, []).append(element)
    boxes: list[Box] = []
    for word, elements in sorted(words.items()):
        if word // BANKS < MAX_ROWS:
            row = elements[0][-2] if len(elements[0]) > 1 else elements[0][0] // 32
            about = f"bank {word % BANKS}, byte {word * WORD}: {', '.join(map(str, elements))}"
            boxes.append((word % BANKS * 2, word // BANKS, 2, ",".join(map(str, elements[0])), FILLS[row % len(FILLS)], about))
    rows = min(MAX_ROWS, max(words) // BANKS + 1)
    whole = "" if max(words) // BANKS < MAX_ROWS else f"the first {MAX_ROWS * BANKS * WORD} bytes; "
    return _drawn(
        boxes, [str(n * BANKS * WORD) for n in range(rows)], whole, "a column is a bank, a box is a word with its first element"
    )


def draw_banks(title: str, use: BankUse) -> str:
    """The lanes of the first request by bank: lanes above each other in different boxes wait for each other."""
    width = max(1, use.width // WORD)
    boxes: list[Box] = []
    height: dict[int, list[int]] = {}
    for lane, address in enumerate(use.addresses):
        word = address // WORD
        bank = word % BANKS
        column = height.setdefault(bank, [])
        if word not in column:
            column.append(word)
        y = column.index(word)
        about = f"lane {lane}: byte {address}, {use.width} bytes, bank {bank}"
        boxes.append((bank * 2, y, 2 * width, str(lane), FILLS[y % len(FILLS)], about))
    labels = [""] * max(len(column) for column in height.values())
    return _drawn(boxes, labels, "", f"{title}; a column is a bank, a number a lane")


def _drawn(boxes: Sequence[Box], labels: Sequence[str], shown: str, about: str) -> str:
    """Boxes in rows with a label each, and below what they are."""
    wide = EDGE + CELL * max((box[0] + box[2] for box in boxes), default=1) + 1
    high = HIGH * len(labels) + HIGH + 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high}" width="{min(wide, 1100):g}" role="img" '
        f'aria-label="{escape(shown + about)}" font-family="ui-monospace, monospace" font-size="9" text-anchor="middle" '
        f'style="max-width:100%;height:auto;background:#fff;display:block;margin:4px 0">'
    ]
    for y, label in enumerate(labels):
        parts.append(f'<text x="{EDGE - 4}" y="{y * HIGH + 12}" text-anchor="end" fill="#444">{escape(label)}</text>')
    for x, y, width, text, fill, title in boxes:
        left, size = EDGE + x * CELL, width * CELL
        parts.append(
            f'<g><title>{escape(title)}</title><rect x="{left:g}" y="{y * HIGH:g}" width="{size:g}" height="{HIGH}" '
            f'fill="{fill}" stroke="#555" stroke-width=".5"/><text x="{left + size / 2:g}" y="{y * HIGH + 11:g}" fill="#111">'
            f"{escape(text)}</text></g>"
        )
    parts.append(f'<text x="{EDGE}" y="{high - 4}" text-anchor="start" fill="#444">{escape(shown + about)}</text></svg>')
    return "".join(parts)
