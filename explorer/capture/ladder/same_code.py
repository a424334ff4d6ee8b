"""Tell whether two kernels are compiled to the same code, whatever their sources say about lines and comments."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from explorer.capture.ladder.ladder import TEXTS, Ladder
from explorer.model.values import text_lines

#: A location in MLIR, which may name others: ` loc("x"(#loc))`.
_LOCATION = re.compile(r' ?\bloc\((?:[^()"]|"(?:\\.|[^"\\])*"|\((?:[^()"]|"(?:\\.|[^"\\])*"|\([^()]*\))*\))*\)')
#: A line of assembly that is no code: a place in the source, a file, a label at such a place.
_NO_CODE = re.compile(r"\s*(?:\.loc\b|\.file\b|\.cfi|(?:\$L__|\.L)tmp\d+:)")
#: Where a part of assembly begins, and whether it is debug information; what begins a comment.
_SECTION = re.compile(r"\s*(?:\.section\s+(?P<debug>\.debug)?|\.text\b|\.amdgpu_metadata\b)")
_COMMENTS: Mapping[str, str] = {"ptx": "//", "amdgcn": ";"}


def code_keys(ladder: Ladder) -> dict[str, str]:
    """Map the first and the last of a kernel's texts to a hash of its code, with what a launch of the kernel depends on.

    TTIR alone does not have the options of the backend. SPIR-V has no text, so Intel's kernels have only TTIR.
    """
    launched = (dict(ladder.config), ladder.arguments, ladder.grid, ladder.prefix)
    keys = {}
    if ladder.lowered is not None and "ttir" in ladder.texts:
        options = sorted((name, repr(value)) for name, value in ladder.lowered.options.items())
        keys["ttir"] = _hash(launched, options, *_without_locations(ladder.texts["ttir"]))
    last = TEXTS[ladder.target.backend][-1]
    if last in _COMMENTS and last in ladder.texts:
        keys[last] = _hash(launched, *_instructions(ladder.texts[last], _COMMENTS[last]))
    return keys


def same_at(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return the first stage at which two kernels have the same code; "" for none."""
    return next((stage for stage, key in one.items() if other.get(stage) == key), "")


def _without_locations(text: str) -> Iterator[str]:
    """The lines of MLIR, without locations."""
    for line in text_lines(text):
        if not line.startswith("#loc"):
            yield _LOCATION.sub("", line).rstrip()


def _instructions(text: str, comment: str) -> Iterator[str]:
    """The lines of assembly, without debug information, comments and places."""
    is_debug = False
    for line in text_lines(text):
        if section := _SECTION.match(line):
            is_debug = bool(section["debug"])
        if not is_debug and not _NO_CODE.match(line) and (code := line.partition(comment)[0].strip()):
            yield code


def _hash(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


__all__ = ["code_keys", "same_at"]
