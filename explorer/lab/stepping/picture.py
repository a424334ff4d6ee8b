"""A small picture of a tensor as a PNG in a data URI: red above zero, blue below it, and colours of their own for NaN and inf."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

#: The most elements of a row and of a column that are drawn; of more, some at equal distances are.
MAX_SIDE = 48
NAN, INF = (255, 0, 255), (0, 160, 0)
Pixel = tuple[int, int, int]


def picture(tensor: Any) -> str:
    """The last two dimensions of a tensor, at index 0 of all others, as a data URI; "" for a tensor without elements."""
    if not tensor.numel():
        return ""
    rows = _drawn(tensor)
    finite = [abs(value) for row in rows for value in row if value - value == 0.0]
    largest = max(finite, default=0.0) or 1.0
    return uri([[_colour(value, largest) for value in row] for row in rows])


def _drawn(tensor: Any) -> list[list[float]]:
    """The elements that are drawn, as numbers."""
    import torch

    while tensor.dim() > 2:
        tensor = tensor[0]
    while tensor.dim() < 2:
        tensor = tensor[None]
    for dimension in (0, 1):
        size = tensor.shape[dimension]
        if size > MAX_SIDE:
            places = torch.linspace(0, size - 1, MAX_SIDE, device=tensor.device).round().long()
            tensor = tensor.index_select(dimension, places)
    values: list[list[float]] = tensor.to(torch.float64).cpu().tolist()
    return values


def _colour(value: float, largest: float) -> Pixel:
    """White at zero, full red and blue at the largest distance from it."""
    if value != value:
        return NAN
    if value in (float("inf"), float("-inf")):
        return INF
    fade = round(255 * (1 - min(1.0, abs(value) / largest)))
    return (255, fade, fade) if value > 0 else (fade, fade, 255)


def uri(pixels: list[list[Pixel]]) -> str:
    """A picture as a data URI of a PNG, by the format's definition (RFC 2083): RGB, eight bits a channel, rows unfiltered."""
    lines = b"".join(b"\0" + b"".join(bytes(pixel) for pixel in row) for row in pixels)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 2, 0, 0, 0)
    parts = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG: length, kind, content and checksum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
