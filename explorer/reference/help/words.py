"""Look up what an instruction, an operation, an operator or a term is, in one table for each language.

The tables are the `.tsv` files beside this one; each states its source in its first lines. The front end reads the same files
(`view/widget/src/words.js`) and looks a word up in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from explorer.errors import unknown_name
from explorer.model.values import Table, text_lines

#: The tables that explain the texts of a language, in the order in which they are asked.
TABLES: Mapping[str, tuple[str, ...]] = {
    "ptx": ("ptx",),
    "sass": ("sass",),
    "amdgcn": ("amdgcn",),
    "asm": ("x86",),
    "mlir": ("mlir", "aten"),
    "onnx": ("onnx",),
    "python": ("aten", "inductor", "tvm"),
    **dict.fromkeys(("triton", "fx", "fx-lines", "inductor-ir", "text"), ("aten", "inductor")),
}
NAMES = tuple(dict.fromkeys(name for names in TABLES.values() for name in names))
#: Tables that know a word by any part of it: `torch.ops.aten.mul.Tensor` is `aten.mul`, `onnx::Gemm` is `Gemm`.
DOTTED = ("aten", "inductor", "mlir", "onnx")


@dataclass(frozen=True)
class Explanation:
    """What a word is: the table and the entry that explain it, one line, and a link to documentation."""

    table: str
    entry: str
    about: str
    link: str


@dataclass(frozen=True)
class WordTable:
    """The words of a language: those that are written out, and the beginnings of others, the longest first."""

    source: str
    words: Mapping[str, Explanation]
    beginnings: tuple[tuple[str, Explanation], ...]


@cache
def table(name: str) -> WordTable:
    """Read the table of that name."""
    heads: dict[str, str] = {}
    entries: dict[str, Explanation] = {}
    for line in text_lines((Path(__file__).parent / f"{name}.tsv").read_text(encoding="utf-8")):
        if line.startswith("# "):
            key, _, value = line[2:].partition(": ")
            heads[key] = value
            continue
        words, about, rest = line.split("\t")
        link = rest if "://" in rest else heads.get("base", "") + rest
        for word in words.split():
            entries.setdefault(word, Explanation(name, word, about, link))
    beginnings = [(word[:-1], each) for word, each in entries.items() if word.endswith("*")]
    return WordTable(
        heads["source"],
        {word: each for word, each in entries.items() if not word.endswith("*")},
        tuple(sorted(beginnings, key=lambda pair: -len(pair[0]))),
    )


def explanation(language: str, word: str) -> Explanation | None:
    """What a word of a text in that language is; None where no table has it."""
    found = (_in_table(name, word) for name in TABLES.get(language, ()))
    return next((each for each in found if each), None)


def _in_table(name: str, word: str) -> Explanation | None:
    known = table(name)
    parts = list(_parts(word, name in DOTTED))
    for part in parts:
        if exact := known.words.get(part):
            return exact
    for part in parts:
        for beginning, each in known.beginnings:
            if part.startswith(beginning):
                return each
    return None


def _parts(word: str, anywhere: bool) -> Iterator[str]:
    """A word and what is left of it without its last parts, then, with `anywhere`, without its first ones."""
    pieces = (word.replace("::", ".") if anywhere else word).strip(".%$").split(".")
    for first in range(len(pieces) if anywhere else 1):
        for last in range(len(pieces), first, -1):
            yield ".".join(pieces[first:last])


def glossary(word: str, language: str = "") -> Table:
    """One row for each language that has the word: language, word, about (one line), link (to its documentation).

    `word` is as a text has it: an instruction of PTX, SASS, AMDGCN or x86 with or without its suffixes, an operation of TTIR or
    TTGIR, an operator of ATen, ONNX or TVM's Relax, a term of Inductor's scheduler or of a template. `language` is that of a
    text, such as "ptx", or the name of a table, such as "aten". InputError, with the nearest words, if the word is unknown.
    """
    languages = [key for key, tables in TABLES.items() if language in ("", key, *tables)]
    if not languages:
        raise unknown_name("language", language, dict.fromkeys((*NAMES, *TABLES)))
    only = language in NAMES and language not in TABLES  # the name of a table, which other languages ask too
    answers = [_in_table(language, word)] if only else [explanation(key, word) for key in languages]
    found = dict.fromkeys(each for each in answers if each)
    if not found:
        names = [language] if only else list(dict.fromkeys(name for key in languages for name in TABLES[key]))
        raise unknown_name("word", word, [entry for name in names for entry in table(name).words])
    return Table({"language": each.table, "word": each.entry, "about": each.about, "link": each.link} for each in found)
