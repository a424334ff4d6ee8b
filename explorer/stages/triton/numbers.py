"""Read the numbers of a kernel's texts, and which operations read them. Pure.

MLIR merges equal constants at the top of a function. LLVM puts numbers into registers anywhere, and moves instructions to
other blocks with line 0. So the compiler often states no line for them, but the text still says what reads a constant.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from explorer.model.syntax import IR_VALUE

#: A number's width and its bits. For a float the bits of its magnitude: LLVM turns `x - c` into `x + -c`.
Number = tuple[int, int]
#: Each number → the lines of the kernel that use it.
Lines = Mapping[Number, frozenset[int]]

_MLIR_CONSTANT = re.compile(
    r"^\s*%[\w$.-]+ = arith\.constant (?:dense<([^<>]*)>|(\S+)) : (?:tensor<[\dx]*)?(f64|f32|f16|bf16|i32|i64)\b"
)
_MLIR_RESULTS = re.compile(r"^\s*((?:%[\w$.#:-]+(?:, )?)+) = (?:\"?)([\w.]+)")
#: Operations of MLIR whose code has further numbers, from a library.
_EXPANDED = re.compile(
    r"\bmath\.(?!absf|ceil|floor|trunc|fma|r?sqrt)|\btt\.(?:extern_elementwise|precise_|fp_to_fp|call|elementwise_inline_asm|dot)|\barith\.(?:div|rem|ext|trunc)f"
)
_PYTHON_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.])")
_LLVM_NUMBER = re.compile(
    r"\b(float|double|half|bfloat|i16|i32|i64) (?:%[\w.$-]+, )?(-?\d+(?:\.\d+e[+-]\d+)?|0x[HR]?[\dA-Fa-f]+)(?![\w.])"
)
_LLVM_OPERATION = re.compile(r"^\s*(?:%[\w.$-]+ = |store |(?:tail )?call )")
_PTX_NUMBER = re.compile(r"\b0([fFdD])([\da-fA-F]{8}(?:[\da-fA-F]{8})?)\b")
_PTX_MOVED = re.compile(r"^\s*(?:@!?%p\d+\s+)?mov\.[a-z](16|32|64)\s+%\w+, (-?\d+|0x[\da-fA-F]+);")
_PTX_INTEGER = re.compile(r", (\d{5,10})(?=[,;])")
_HEX_WORD = re.compile(r"(?<![\w.])0x([\da-f]{5,8})\b")
_SASS_FLOAT = re.compile(r"(?<![\w.])\d+\.\d+(?:e[+-]\d+)?(?![\w.])")
_REGISTER = re.compile(r"%\w+")
_PTX = re.compile(r"^\s*(?:@!?(?P<guard>%p\d+)\s+)?(?P<op>[a-z][\w.:]*)\s+(?P<operands>.*?);")
#: Instructions of PTX that write no register.
_WRITES_NONE = re.compile(r"^(?:st|bra|red|bar|cp|ret|membar|fence|mbarrier\.(?:init|inval)|prefetch|call)\b")
_FIRST = re.compile(r"^\s*(\{[^}]*\}|[^,]*)(?:,|$)")


class Reads(NamedTuple):
    """The values that an instruction or operation writes and reads."""

    written: tuple[str, ...]
    read: tuple[str, ...]


def used_at(
    constants: Iterable[int], reads: Mapping[int, Reads], lines: Mapping[int, Collection[int]]
) -> dict[int, frozenset[int]]:
    """Find the lines of the kernel that use each constant: the lines of operations that read it.

    `constants` are lines of the text, `reads` has all operations of one function by their line, and `lines` the lines of the
    kernel that are known for them. An operation without a line passes the constant on to what reads its result.
    """
    readers: dict[str, list[int]] = {}
    for number, each in reads.items():
        for name in each.read:
            readers.setdefault(name, []).append(number)
    found = {}
    for constant in constants:
        used: set[int] = set()
        seen, queue = {constant}, [constant]
        while queue:
            for reader in (n for name in reads[queue.pop()].written for n in readers.get(name, ())):
                if reader not in seen:
                    seen.add(reader)
                    used.update(lines.get(reader, ()))
                    if not lines.get(reader):
                        queue.append(reader)
        if used:
            found[constant] = frozenset(used)
    return found


# MLIR ------------------------------------------------------------------------------------------------------------------


def mlir_functions(lines: Sequence[str]) -> Iterator[dict[int, Reads]]:
    """Yield the operations of each function by their line. Each function reuses the names of values."""
    operations: dict[int, Reads] = {}
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("tt.func"):
            yield operations
            operations = {}
        elif not line.startswith("#"):
            results = _MLIR_RESULTS.match(line)
            written = tuple(IR_VALUE.findall(results[1])) if results else ()
            rest = line[results.end() :] if results else line
            operations[number] = Reads(written, tuple(IR_VALUE.findall(rest)))
    yield operations


def mlir_constants(lines: Sequence[str], own: Mapping[int, int]) -> dict[int, frozenset[int]]:
    """Find the lines of the kernel that use each constant without a line in `own`."""
    found: dict[int, frozenset[int]] = {}
    places = {number: (line,) for number, line in own.items()}
    for operations in mlir_functions(lines):
        constants = [n for n in operations if n not in own and "= arith.constant" in lines[n - 1]]
        found |= used_at(constants, operations, places)
    return found


def mlir_numbers(lines: Sequence[str], own: Mapping[int, int]) -> Lines:
    """Map each number of a text of MLIR to the lines of the kernel that use it."""
    found: dict[Number, set[int]] = {}
    for operations in mlir_functions(lines):
        constants = {n: number for n in operations if (number := mlir_number(lines[n - 1])) is not None}
        for place, used in used_at(constants, operations, {n: (line,) for n, line in own.items()}).items():
            found.setdefault(constants[place], set()).update(used)
    return {number: frozenset(used) for number, used in found.items()}


def expanded(lines: Sequence[str], own: Mapping[int, int]) -> frozenset[int]:
    """Find the lines of the kernel that compute by a library's code, such as a sine."""
    return frozenset(line for number, line in own.items() if _EXPANDED.search(lines[number - 1]))


def mlir_number(line: str) -> Number | None:
    """The number of a constant of MLIR; None for any other line."""
    constant = _MLIR_CONSTANT.match(line)
    if constant is None:
        return None
    text, kind = constant[1] or constant[2], constant[3]
    width = _WIDTHS[kind]
    try:
        if text.startswith("0x") or kind not in _FORMATS:
            return width, int(text, 0) & ((1 << width - 1) - 1)
        return _float(float(text), kind)
    except ValueError:  # a list of numbers
        return None


# Machine words ---------------------------------------------------------------------------------------------------------

_FORMATS = {"f64": ">d", "f32": ">f", "f16": ">e", "bf16": ">f"}
_WIDTHS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i32": 32, "i64": 64}
_LLVM_TYPES = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}


def _float(value: float, kind: str) -> Number | None:
    """The bits of a number's magnitude; None if it is too large for the format."""
    try:
        bits = int.from_bytes(struct.pack(_FORMATS[kind], abs(value)), "big")
    except OverflowError:
        return None
    return _WIDTHS[kind], bits >> 16 if kind == "bf16" else bits


def python_numbers(line: str) -> frozenset[Number]:
    """The singles of a line of a kernel's source."""
    return frozenset(number for text in _PYTHON_NUMBER.findall(line) if (number := _float(float(text), "f32")))


def llvm_numbers(line: str) -> frozenset[Number]:
    """The numbers of an operation of LLVM IR, integers included: LLVM also moves a float as an integer."""
    if not _LLVM_OPERATION.match(line):
        return frozenset()
    return frozenset(
        number for kind, text in _LLVM_NUMBER.findall(line.partition(", !dbg")[0]) if (number := _llvm_number(kind, text))
    )


def _llvm_number(kind: str, text: str) -> Number | None:
    if kind not in _LLVM_TYPES:
        width = int(kind[1:])
        return width, int(text, 0) & ((1 << width - 1) - 1)
    if text.startswith(("0xH", "0xR")):
        return 16, int(text[3:], 16) & 0x7FFF
    if text.startswith("0x"):  # also a float is written as the double that equals it
        return _float(struct.unpack(">d", int(text, 16).to_bytes(8, "big"))[0], _LLVM_TYPES[kind])
    return _float(float(text), _LLVM_TYPES[kind])


def distinct(number: Number) -> bool:
    """Whether the number needs all bits of a word. Code that the compiler adds has 0.5, 2 and 1000 too."""
    width, bits = number
    half = width // 2
    return width >= 32 and bits >> half != 0 and bits & ((1 << half) - 1) != 0


def assembly_numbers(line: str) -> frozenset[Number]:
    """The numbers of an instruction of PTX or AMDGCN."""
    if moved := _PTX_MOVED.match(line):
        width = int(moved[1])
        return frozenset({(width, int(moved[2], 0) & ((1 << width - 1) - 1))})
    words = {(32 if kind in "fF" else 64, int(bits, 16)) for kind, bits in _PTX_NUMBER.findall(line)}
    words |= {(32, int(bits, 16)) for bits in _HEX_WORD.findall(line)} | {(32, int(text)) for text in _PTX_INTEGER.findall(line)}
    return frozenset((width, bits & ((1 << width - 1) - 1)) for width, bits in words)


def sass_numbers(line: str) -> frozenset[Number]:
    """The singles and words of an instruction of SASS, which writes a single as its decimals."""
    singles = {number for text in _SASS_FLOAT.findall(line) if (number := _float(float(text), "f32"))}
    return frozenset(singles | {(32, int(bits, 16) & 0x7FFFFFFF) for bits in _HEX_WORD.findall(line)})


# PTX -------------------------------------------------------------------------------------------------------------------


def ptx_constants(
    lines: Sequence[str], constants: Iterable[int], known: Mapping[int, Collection[int]]
) -> dict[int, frozenset[int]]:
    """Find the lines of the kernel that use each constant of PTX, a line that moves it into a register."""
    found: dict[int, frozenset[int]] = {}
    for function in _ptx_functions(lines):
        found |= used_at((n for n in constants if n in function), function, known)
    return found


def _ptx_functions(lines: Sequence[str]) -> Iterator[dict[int, Reads]]:
    """Yield what the instructions of each function write and read. Each function reuses the names of registers."""
    instructions: dict[int, Reads] = {}
    for number, line in enumerate(lines, 1):
        if line.startswith("}"):
            yield instructions
            instructions = {}
        elif match := _PTX.match(line):
            instructions[number] = _ptx_reads(match)
    yield instructions


def _ptx_reads(instruction: re.Match[str]) -> Reads:
    """The registers of an instruction. Under a guard it may leave its result as it was, so it reads that too."""
    operands, guard = instruction["operands"], instruction["guard"]
    first = None if _WRITES_NONE.match(instruction["op"]) else _FIRST.match(operands)
    written = _REGISTER.findall(first[1]) if first else []
    read = _REGISTER.findall(operands[first.end() :] if first else operands)
    return Reads(tuple(written), (*read, guard, *written) if guard else tuple(read))
