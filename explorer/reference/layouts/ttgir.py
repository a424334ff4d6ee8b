"""The values of a kernel's TTGIR with the types that the text gives them, and the accesses to shared memory. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from explorer.model.syntax import IR_VALUE
from explorer.model.values import text_lines
from explorer.reference.layouts.attributes import LOCATION, aliases_of

_RESULT = re.compile(r"^\s*(?P<names>%[\w$#.-]+(?::\d+)?(?:, %[\w$#.-]+(?::\d+)?)*) = (?P<rest>.*)$")
_ITERATED = re.compile(r"iter_args\((?P<args>[^)]*)\)")
_TYPED = re.compile(r"(?P<name>%[\w$.-]+): (?=tensor<|!ttg\.memdesc<)")
_STARTS = re.compile(r"tensor<|!(?:ttg|triton_gpu)\.memdesc<|(?<=-> )<(?=\d)|(?<=[,(] )<(?=\d)|(?<=: )<(?=\d)")
_DIMENSIONS = re.compile(r"^((?:\d+x)*)(.+)$", re.DOTALL)
#: A bracket, but for that of an arrow, or a comma.
_BRACKET_OR_COMMA = re.compile(r"[<(\[{)\]},]|(?<!-)>")
_ANGLE = re.compile(r"<|(?<!-)>")
_BITS = re.compile(r"\d+")
_TARGET = re.compile(r'\btarget"? = "(\w+):')
_THREADS = re.compile(r'"ttg\.threads-per-warp" = (\d+)')
#: Operations that move between registers and shared memory, and whether they read it.
_MOVES = {"local_load": True, "local_store": False, "local_alloc": False, "async_copy_global_to_local": False}
_OPERATION = re.compile(r"(?:= |^\s*)\"?(?:ttg|triton_gpu)\.(\w+)")


@dataclass(frozen=True)
class ValueType:
    """The type of a tensor, or of a buffer in shared memory: shape, element type, and the text of its layout."""

    text: str
    shape: tuple[int, ...]
    element: str
    encoding: str
    shared: bool
    allocated: tuple[int, ...] = ()  # the shape of the buffer that it is a part of, () where the type does not say

    @property
    def bits(self) -> int:
        """The size of an element; that of a pointer is 64."""
        digits = None if "ptr<" in self.element else _BITS.search(self.element)
        return int(digits[0]) if digits else 64

    @property
    def pointee(self) -> str:
        """Return the type that a pointer points to; the element itself if it is not a pointer."""
        pointer = re.search(r"ptr<(.*?)[,>]", self.element)
        return pointer[1] if pointer else self.element


@dataclass(frozen=True)
class Value:
    """A value by its name, the line that names it, and its type; an operation without a result has an operand's name."""

    name: str
    line: int
    type: ValueType


@dataclass(frozen=True)
class Move:
    """A line that moves a tensor between registers and shared memory."""

    line: int
    registers: ValueType
    shared: ValueType
    reads: bool
    names: frozenset[str]


@dataclass(frozen=True)
class LayoutTexts:
    """What a TTGIR text says of layouts."""

    aliases: Mapping[str, str]
    values: tuple[Value, ...]
    moves: tuple[Move, ...]
    threads: int
    vendor: str = "cuda"


def read(text: str) -> LayoutTexts:
    """Read the values of a module that have a layout, in the order of their lines."""
    threads, target = _THREADS.search(text), _TARGET.search(text)
    values: list[Value] = []
    moves: list[Move] = []
    open_results: list[tuple[int, list[str]]] = []
    for number, raw in enumerate(text_lines(text), 1):
        if raw.startswith("#"):
            continue
        line = LOCATION.sub("", raw).rstrip()
        values += _values(number, line, open_results)
        moves += _moves(number, line)
    warp, vendor = int(threads[1]) if threads else 32, target[1] if target else "cuda"
    return LayoutTexts(aliases_of(text), tuple(values), tuple(moves), warp, vendor)


def _values(number: int, line: str, open_results: list[tuple[int, list[str]]]) -> Iterator[Value]:
    """The values that a line names; `open_results` has the operations whose types come after their region."""
    matched = _RESULT.match(line)
    names = _names(matched["names"]) if matched else []
    types = list(_types_of(line))
    if "async_copy" in line:  # its result is a token
        yield from _arguments(number, line.partition(" = ")[2] or line)
        return
    if line.endswith("({"):
        open_results.append((number, names))
    elif line.lstrip().startswith("})"):
        first, names = open_results.pop() if open_results else (number, [])
        yield from _paired(first, names, _results(line, types, len(names)))
    elif matched:
        results = _results(line, types, len(names))
        yield from _paired(number, names, results)
        if iterated := _ITERATED.search(line):
            arguments = [part.split(" = ")[0].strip() for part in iterated["args"].split(",")]
            yield from _paired(number, arguments, results)
    else:
        yield from _arguments(number, line)


def _arguments(number: int, line: str) -> Iterator[Value]:
    """The arguments of a function or region, or the operands of an operation without a result."""
    typed = [(m["name"], type_at(line, m.end())) for m in _TYPED.finditer(line)]
    if typed:
        yield from (Value(name, number, kind) for name, kind in typed if kind.encoding)
        return
    types = [kind for kind, _, _ in _types_of(line)]
    operands = IR_VALUE.findall(line.partition(" : ")[0])
    if types and operands and ("store" in line or "copy" in line or "dot" in line):
        yield from _paired(number, operands, types if len(types) > 1 else types[:1])


def _names(text: str) -> list[str]:
    """The results that an operation has: `%a:2` are `%a#0` and `%a#1`."""
    names = []
    for part in text.split(", "):
        name, _, count = part.partition(":")
        names += [f"{name}#{n}" for n in range(int(count))] if count else [name]
    return names


def _paired(number: int, names: list[str], types: Sequence[ValueType | None]) -> Iterator[Value]:
    for name, kind in zip(names, types, strict=False):
        if kind is not None and kind.encoding:
            yield Value(name, number, kind)


def _results(line: str, types: list[tuple[ValueType, int, int]], count: int) -> list[ValueType | None]:
    """The types of an operation's results, None for one that is no tensor: those after the arrow, else the last ones."""
    arrow = _arrow(line, types)
    if arrow < 0:
        return _unwritten(line, [kind for kind, _, _ in types], count)
    after = [(kind, start, end) for kind, start, end in types if start >= arrow]
    kinds: list[ValueType | None] = []
    for part, start in _listed(line, arrow):
        kinds.append(next((kind for kind, at, _ in after if start <= at < start + len(part)), None))
    return kinds * count if len(kinds) == 1 else kinds  # tt.split writes the type of both its results once


def _unwritten(line: str, types: list[ValueType], count: int) -> list[ValueType | None]:
    """Return the result types that MLIR omits because the operands' types imply them: the last ones, with three exceptions."""
    if not types or not count:
        return []
    if "= tt.addptr " in line:
        return [types[0]]
    if "= tt.load " in line:
        return [replace(types[0], element=types[0].pointee, text=types[0].text.replace(types[0].element, types[0].pointee))]
    if "= arith.cmp" in line:
        return [replace(types[0], element="i1", text=types[0].text.replace(f"x{types[0].element},", "xi1,"))]
    return [*types[-count:]]


def _arrow(line: str, types: list[tuple[ValueType, int, int]]) -> int:
    """Where the results' types begin, after `->` or the `to` of a cast, -1 where nothing says so."""
    inside = [(start, end) for _, start, end in types]
    for sign in ("->", " to "):
        at = line.rfind(sign)
        if at >= 0 and not any(start <= at < end for start, end in inside):
            return at + len(sign)
    return -1


def _listed(line: str, start: int) -> Iterator[tuple[str, int]]:
    """The parts of a list of types from `start` on, each with its place; brackets hold together."""
    depth, begin = 0, start
    rest = line[start:]
    lead = len(rest) - len(rest.lstrip())
    bracketed = rest.lstrip().startswith("(")
    begin = start + lead + bracketed
    for found in _BRACKET_OR_COMMA.finditer(line, begin):
        letter, at = found[0], found.start()
        if letter in "<([{":
            depth += 1
        elif letter in ">)]}":
            depth -= 1
            if depth < 0:
                yield line[begin:at], begin
                return
        elif not depth:
            yield line[begin:at], begin
            begin = at + 1
    yield line[begin:], begin


# Types -----------------------------------------------------------------------------------------------------------------


def _types_of(line: str) -> Iterator[tuple[ValueType, int, int]]:
    """The types of tensors and shared buffers in a line, with their place."""
    at = 0
    while found := _STARTS.search(line, at):
        end = _closing(line, found.end() - 1)
        yield type_of(line[found.start() : end]), found.start(), end
        at = end


def type_at(line: str, at: int) -> ValueType:
    """The type that begins there."""
    return type_of(line[at : _closing(line, line.index("<", at))])


def _closing(text: str, at: int) -> int:
    """Where the bracket at `at` has been closed."""
    depth = 0
    for found in _ANGLE.finditer(text, at):
        depth += 1 if found[0] == "<" else -1
        if not depth:
            return found.end()
    return len(text)


# A kernel writes the same few types on each of its lines.
@lru_cache(maxsize=4096)
def type_of(text: str) -> ValueType:
    """The parts of a type's text, such as `tensor<64x32xf32, #blocked>`."""
    head, _, body = text.partition("<")
    parts = [part.strip() for part, _ in _listed(body[:-1], 0)]
    dimensions, element = m.groups() if (m := _DIMENSIONS.match(parts[0])) else ("", parts[0])
    shape = tuple(int(n) for n in dimensions.split("x") if n)
    encoding = parts[1] if len(parts) > 1 and parts[1].startswith("#") else ""
    whole = next((part for part in parts[2:] if re.fullmatch(r"\d+(?:x\d+)*", part)), "")
    return ValueType(text, shape, element, encoding, "tensor" not in head, tuple(int(n) for n in whole.split("x") if n))


def _moves(number: int, line: str) -> Iterator[Move]:
    operation = _OPERATION.search(line)
    if not operation or operation[1] not in _MOVES:
        return
    types = [kind for kind, _, _ in _types_of(line)]
    registers = next((kind for kind in types if not kind.shared and kind.encoding), None)
    shared = next((kind for kind in types if kind.shared), None)
    if registers and shared:
        yield Move(number, registers, shared, _MOVES[operation[1]], frozenset(IR_VALUE.findall(line)))
