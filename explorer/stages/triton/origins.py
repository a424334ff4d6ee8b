"""Read the source lines that MLIR, LLVM IR, PTX and AMDGCN state, and link a Triton kernel's forms by them. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from posixpath import basename
from typing import NamedTuple, Protocol

from explorer.model.records import Record, record, typed
from explorer.model.shared import Config, Occupancy, Place, Setting
from explorer.model.stage import text_artifact
from explorer.model.syntax import IR_VALUE
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link, once, text_lines
from explorer.stages.inductor.kernel import owners
from explorer.stages.kinds import instruction_kinds
from explorer.stages.triton.instructions import is_instruction
from explorer.stages.triton.numbers import (
    Number,
    assembly_numbers,
    distinct,
    expanded,
    llvm_numbers,
    mlir_constants,
    mlir_number,
    mlir_numbers,
    ptx_constants,
    python_numbers,
)
from explorer.stages.triton.packed import misplaced


@record
class Launch(Record):
    """One launch of a Triton kernel: by the wrapper, or `times` times by the program itself, from `place`.

    `line` is the wrapper's line, 0 if there is none. Parts of the grid are numbers where they are known, else their expressions.
    """

    line: int
    arguments: Mapping[str, Setting]
    grid: tuple[int | str, ...]
    times: int | None = None
    place: Place | None = None


#: The stages of the forms of a Triton kernel.
FORMS = ("ttir", "ttgir", "llir", "ptx", "amdgcn", "sass")


@record
class KernelMetadata(Record):
    """What triton's metadata and the binary say of a kernel.

    `shared` is bytes a block, `registers` a thread; `stack`, `spill_stores` and `spill_loads` are bytes a thread;
    `tmem_size` and `global_scratch_size` bytes. The registers that are spilled are counted on AMD only.
    """

    num_warps: int | None = None
    num_ctas: int | None = None
    num_stages: int | None = None
    shared: int | None = None
    tmem_size: int | None = None
    global_scratch_size: int | None = None
    maxnreg: int | None = None
    enable_fp_fusion: bool | None = None
    launch_pdl: bool | None = None
    launch_cooperative_grid: bool | None = None
    waves_per_eu: int | None = None
    matrix_instr_nonkdim: int | None = None
    kpack: int | None = None
    registers: int | None = None
    accumulation_registers: int | None = None
    scalar_registers: int | None = None
    spilled_registers: int | None = None
    spilled_scalar_registers: int | None = None
    stack: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None
    occupancy: Occupancy | None = None


@record
class KernelForm(Record):
    """One form of a Triton kernel on its way to machine code.

    `file` and `first_line` say where its source's lines are in the text's locations. `config` is the one of `candidates` that
    was compiled and `chosen` why; `measured` has those that the attached GPU timed, with `ms`. `launched` where it is the
    form of a launch on that GPU. `stage_seconds` is what the compiler took for it. `ptx_lines` has for each instruction of
    SASS the line of the PTX it was assembled from, `mix` counts its instructions by class, which the stage adds.
    """

    name: str
    file: str
    first_line: int
    target: str
    config: Config
    candidates: tuple[Config, ...]
    chosen: str
    metadata: KernelMetadata
    launches: tuple[Launch, ...]
    stage_seconds: float | None
    measured: tuple[Config, ...] | None = None
    launched: bool | None = None
    ptx_lines: tuple[int, ...] | None = None
    mix: Mapping[str, int] | None = None


@record
class KernelFormText(KernelForm):
    """One form of a Triton kernel, such as its PTX."""

    text: str


#: Where a line comes from: (file, line) innermost first, followed by what it was inlined into.
Chain = tuple[tuple[str, int], ...]
Chains = Iterator[tuple[int, Chain]]

_MLIR_TABLE = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_MLIR_USE = re.compile(r"loc\((#loc\d*|.*)\)\s*$")
_MLIR_PART = re.compile(r'"([^"]*)":(\d+):\d+|(#loc\d*)')
_LLVM_USE = re.compile(r"!dbg !(\d+)")
_LLVM_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$")
_LLVM_FIELD = re.compile(r'(\w+): (?:"([^"]*)"|([^,\s]+))')
_LOC = re.compile(
    r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)"
    r"(?:[^/;]*\binlined_at\s+(?P<at_file>\d+)\s+(?P<at_line>\d+)\s+(?P<at_column>\d+))?"
    r"[^/;]*(?:(?://|;)\s*(?P<comment>.*))?$"
)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_INLINED = re.compile(r"([^\s\[\]]+):(\d+):\d+")


class Located(Protocol):
    """A text whose locations name the lines of a source by `file`, counted from `first_line`."""

    @property
    def file(self) -> str:
        """The name of the source in the locations."""

    @property
    def first_line(self) -> int:
        """Return the line of that file at which the source begins."""


def kernel_artifact(
    event: Event, id: str, what: str, language: str, mix_of: Callable[[str], Mapping[str, int]] | None = None
) -> Artifact:
    """The artifact of one form of a kernel, with the number of its instructions of each class where `mix_of` counts them."""
    form = typed(KernelFormText, event.data)
    counted = event if mix_of is None else replace(event, data=replace(form, mix=mix_of(form.text)))
    return text_artifact(counted, id, f"{what} of {form.name}", language, kernel=form.name)


def kernel_of(artifact: Artifact, trace: TraceData) -> Artifact | None:
    """The artifact of stage "kernel" that this is a form of."""
    kernels = (a for a in trace.find("kernel", artifact.frame, artifact.graph) if a.kernel == artifact.kernel)
    return next(kernels, None)


def links(chains: Callable[[str], Chains], how: str) -> Callable[[Artifact, TraceData], Iterable[Link]]:
    """The link function of a stage whose text states its lines' origins as `chains` reads them."""

    def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
        kernel = kernel_of(artifact, trace)
        if kernel is not None:
            for number, line in own_lines(chains, artifact, kernel):
                yield Link(artifact.id, (number,), kernel.id, (line,), how)

    return link


def own_lines(
    chains: Callable[[str], Chains], artifact: Artifact, source: Artifact, form: Located | None = None
) -> Iterator[tuple[int, int]]:
    """Yield each line of a text that leads to its own source, with that line; `form` locates it, if it is not a kernel's."""
    form, length = form or typed(KernelForm, artifact.data), len(source.lines)
    found: dict[Chain, int] = {}  # a few places of the source have all of the lines
    for number, chain in llvm_origins(artifact) if chains is llvm_chains else chains(artifact.text):
        line = found.get(chain)
        if line is None:
            line = found[chain] = own_line(chain, form, length)
        if line:
            yield number, line


def form_of(artifact: Artifact, trace: TraceData, *stages: str) -> Artifact | None:
    """The first of these stages' artifacts of the same kernel."""
    forms = (a for stage in stages for a in trace.find(stage, artifact.frame, artifact.graph) if a.kernel == artifact.kernel)
    return next(forms, None)


#: How a constant's lines are known, and the lines of an operation whose location is missing or another line's.
READ_BY, IN_MLIR, IN_LLIR = "constant: what reads it", "its number in triton's IR", "its number in llir"
#: How a second line of an operation is known, which computes another FX node than the first.
IN_KERNEL = "its number in the kernel"
_VECTOR = re.compile(r"<\d+ x \w+>")
#: Lines of a kernel, and how they are known.
Known = tuple[frozenset[int], str]


def link_mlir(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each operation to the kernel's line of its location, and a constant without location to the lines that use it.

    MLIR merges equal constants at the top of a function, and drops their locations.
    """
    kernel = kernel_of(artifact, trace)
    if kernel is not None:
        own = dict(own_lines(mlir_chains, artifact, kernel))
        for number, line in own.items():
            yield Link(artifact.id, (number,), kernel.id, (line,), "mlir loc")
        literals = Literals(kernel)
        for number, lines in mlir_constants(artifact.lines, own).items():
            yield Link(artifact.id, (number,), kernel.id, tuple(sorted(lines)), READ_BY)
            if others := literals.others(mlir_number(artifact.lines[number - 1]), lines):
                yield Link(artifact.id, (number,), kernel.id, others, IN_KERNEL)


class Literals:
    """The numbers that only one line of a kernel has.

    Compilers merge the operations of two lines, such as two selections, and name one of the lines. The other's number remains.
    """

    def __init__(self, kernel: Artifact) -> None:
        lines: dict[Number, set[int]] = {}
        for number, text in enumerate(kernel.lines, 1):
            for each in python_numbers(text):
                lines.setdefault(each, set()).add(number)
        self._lines = {each: min(places) for each, places in lines.items() if len(places) == 1}
        self._nodes = owners(kernel)

    def others(self, number: Number | None, lines: Collection[int]) -> tuple[int, ...]:
        """The number's line, unless it is one of these lines or computes the same FX nodes as one of them."""
        line = self._lines.get(number, 0) if number and distinct(number) else 0
        nodes = self.nodes(line)
        return () if not line or line in lines or (nodes and nodes in map(self.nodes, lines)) else (line,)

    def nodes(self, line: int) -> tuple[str, ...]:
        """The FX nodes that a line computes."""
        return self._nodes.get(line, ((), ""))[0]

    def one(self, lines: Collection[int]) -> bool:
        """Whether the lines are one, or one FX node is computed by all of them."""
        return len(lines) == 1 or bool(lines and set.intersection(*(set(self.nodes(line)) for line in lines)))


def link_llvm(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each operation to the kernel's lines that its location and its numbers name."""
    kernel = kernel_of(artifact, trace)
    if kernel is not None:
        for number, ways in llvm_lines(artifact, kernel, trace).items():
            for lines, how in ways:
                yield Link(artifact.id, (number,), kernel.id, tuple(sorted(lines)), how)


def llvm_lines(llir: Artifact, kernel: Artifact, trace: TraceData) -> dict[int, tuple[Known, ...]]:
    """Find the lines of the kernel for each operation of LLVM IR, by its location and its numbers.

    LLVM merges operations of several lines and keeps one line; it packs operations and keeps a neighbour's line. If Triton's
    IR uses a number of the operation on another line only, the operation comes from that line. A library's code may have the
    same number by chance: then no line is added. A packed operation with such a number, or with other lines' numbers only,
    loses its line.
    """
    stated = {number: line for number, line in own_lines(llvm_chains, llir, kernel) if number not in misplaced(llir)}
    ways = {line: ((frozenset({line}), "llvm !dbg"),) for line in set(stated.values())}  # few lines for thousands of operations
    known: dict[int, tuple[Known, ...]] = {number: ways[line] for number, line in stated.items()}
    mlir = form_of(llir, trace, "ttgir", "ttir")
    if mlir is None:
        return known
    own = dict(own_lines(mlir_chains, mlir, kernel))
    literals = Literals(kernel)
    users, libraries = mlir_numbers(mlir.lines, own), expanded(mlir.lines, own)
    numbers = {n: found for n, text in enumerate(llir.lines, 1) if (found := users.keys() & filter(distinct, llvm_numbers(text)))}
    strange = {n: {number for number in each if stated.get(n) not in users[number]} for n, each in numbers.items()}
    in_libraries = {number for n, each in strange.items() if stated.get(n) in libraries for number in each}
    for n, each in strange.items():
        if (each == numbers[n] or each & in_libraries) and _VECTOR.search(llir.lines[n - 1]):
            known.pop(n, None)
        places = [users[number] for number in each - in_libraries if literals.one(users[number])]
        if places:
            known[n] = (*known.get(n, ()), (frozenset().union(*places), IN_MLIR))
        for number in numbers[n] - (each & in_libraries) if n in known else ():
            lines = frozenset().union(*(lines for lines, _ in known[n]))
            if others := literals.others(number, lines):
                known[n] = (*known[n], (frozenset(others), IN_KERNEL))
    return known


#: How the second line of a fused multiply-add is known.
PRODUCT = "fused multiply-add: its product in llir"
_MULTIPLY_ADD = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?:fma\.|mad\.r|v_(?:pk_)?(?:fma|mad|mac)\w*_(?:f|bf))")
_MULTIPLY = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?:mul\.\S*(?:f16|bf16|f32|f64)|v_(?:pk_)?mul_\w*f)")
_FLOAT = re.compile(r"^\s*(?P<name>%[\w.$-]+) = (?P<op>fadd|fsub|fmul|fneg)\b(?P<rest>.*?)(?:, !dbg.*)?$")
#: Instructions that do several operations at once.
_PACKED = re.compile(r"^\s*(?:v_pk_|v_dual_|\w+\.(?:\w+\.)*(?:bf16x2|f16x2|f32x2)\b)")
#: A number is put into a register: LLVM and ptxas do so once for all that need it, wherever that suits, and give it no line.
CONSTANT = re.compile(
    r"^\s*(?:(?:@!?%p\d+\s+)?mov\.\w+\s+%\w+, (?:-?\d+|0[fdxFDX][\da-fA-F]+);"
    r"|[sv]_mov_b(?:32|64)(?:_e\d\d)?\s+[sv]\S+, -?(?:0x[\da-f]+|[\d.]+)\s*$"
    r"|.*\*/\s+(?:@!?U?P\w+\s+)?(?:U?MOV\S* U?R\d+, -?0x|IMAD\.MOV\.U32 R\d+, RZ, RZ, -?0x|HFMA2\S* R\d+, -RZ, RZ, -?\d))"
)
_EXPLICIT = re.compile(r"\bcall\b.*@llvm\.\w*\.?(?:fma|fmuladd|nvvm\.fma|amdgcn\.fm)")


def assembly_links(how: str) -> Callable[[Artifact, TraceData], Iterable[Link]]:
    """Return the link function of PTX and AMDGCN: by .loc, by the instruction's numbers, and by what reads a constant.

    LLVM fuses a product and a sum when it writes the assembly, and keeps the sum's .loc: the instruction is linked to the line
    of its product too. If LLVM moves an instruction to another block, its .loc names line 0: its numbers tell its line.
    """
    by_loc = links(loc_chains, how)

    def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
        kernel = kernel_of(artifact, trace)
        if kernel is None:
            return
        llir = form_of(artifact, trace, "llir")
        packed = {line for n, line in own_lines(llvm_chains, llir, kernel) if n in misplaced(llir)} if llir else set()
        named = number_lines(llir, kernel, trace) if llir else {}
        doubtful = {number: each.lines for number, each in named.items() if each.incomplete and distinct(number)}
        kinds = instruction_kinds(artifact)  # the return computes nothing: it is no line's
        lines: dict[int, set[int]] = {}
        for each in by_loc(artifact, trace):
            number, line = each.source_lines[0], each.target_lines[0]
            text = artifact.lines[number - 1]
            if kinds[number - 1] or CONSTANT.match(text) or (line in packed and _PACKED.match(text)):
                continue
            if any(line not in doubtful[each] for each in assembly_numbers(text) & doubtful.keys()):
                continue  # LLVM may have given it another operation's line, as in its IR
            lines[number] = {line}
            yield each
        for number, places, known in itertools.chain(
            _of_products(artifact, llir, kernel, lines) if llir else (),
            _of_numbers(artifact, lines, named),
            _of_constants(artifact, lines, named),
        ):
            lines.setdefault(number, set()).update(places)
            yield Link(artifact.id, (number,), kernel.id, tuple(sorted(places)), known)

    return link


#: Lines of an assembly, the lines of the kernel for each, and how they are known.
Found = Iterator[tuple[int, Collection[int], str]]


def _of_products(artifact: Artifact, llir: Artifact, kernel: Artifact, lines: Mapping[int, Collection[int]]) -> Found:
    """Find each fused multiply-add's line of the product."""
    multiplied = {line for number, places in lines.items() if _MULTIPLY.match(artifact.lines[number - 1]) for line in places}
    taken_in = {line: factors - multiplied if len(factors) > 1 else factors for line, factors in products(llir, kernel).items()}
    for number, (line,) in list(lines.items()):
        factors = taken_in.get(line, set())
        if len(factors) == 1 and line not in factors and _MULTIPLY_ADD.match(artifact.lines[number - 1]):
            yield number, factors, PRODUCT


class Named(NamedTuple):
    """The lines of the kernel for a number: the lines of all LLVM IR operations that have it."""

    lines: frozenset[int]
    incomplete: bool  # whether one of these operations has no line
    alike: bool  # whether each of these operations comes from all of them, or all compute the same FX nodes


#: A number that LLVM IR does not have.
UNNAMED = Named(frozenset(), incomplete=True, alike=False)


def number_lines(llir: Artifact, kernel: Artifact, trace: TraceData) -> dict[Number, Named]:
    """Map each number of LLVM IR to its lines of the kernel."""
    known = llvm_lines(llir, kernel, trace)
    lines: dict[Number, set[frozenset[int]]] = {}
    for number, text in enumerate(llir.lines, 1):
        for each in llvm_numbers(text):
            lines.setdefault(each, set()).add(frozenset().union(*(places for places, _ in known.get(number, ()))))
    literals = Literals(kernel)
    named = {}
    for each, places in lines.items():
        union: frozenset[int] = frozenset().union(*places)
        incomplete = frozenset() in places
        named[each] = Named(union, incomplete, not incomplete and (len(places) == 1 or literals.one(union)))
    return named


def lines_of_numbers(numbers: Iterable[Number], named: Mapping[Number, Named], own: Collection[int]) -> set[int]:
    """Return the lines of the kernel that these numbers of an instruction add to its `own`."""
    places: set[int] = set()
    for number in filter(distinct, numbers):
        each = named.get(number, UNNAMED)
        if each.alike and (len(each.lines) > 1 or each.lines.isdisjoint(own)):
            places |= each.lines
    return places.difference(own)


def _of_numbers(artifact: Artifact, lines: Mapping[int, Collection[int]], named: Mapping[Number, Named]) -> Found:
    """Find the lines of each instruction's numbers."""
    for number, text in enumerate(artifact.lines, 1):
        numbers = assembly_numbers(text) if is_instruction(text) and not CONSTANT.match(text) else ()
        if places := lines_of_numbers(numbers, named, lines.get(number, ())):
            yield number, places, IN_LLIR


def _of_constants(artifact: Artifact, lines: Mapping[int, Collection[int]], named: Mapping[Number, Named]) -> Found:
    """Find the lines of what reads a constant's register, and has its number in LLVM IR.

    The registers of AMDGCN are the machine's, each used again for other values: there a constant is known by its number.
    """
    constants = [number for number, text in enumerate(artifact.lines, 1) if CONSTANT.match(text)]
    readers = ptx_constants(artifact.lines, constants, lines) if artifact.language == "ptx" else {}
    for constant in constants:
        (number, *_) = (*assembly_numbers(artifact.lines[constant - 1]), (0, 0))
        lines_of_number, incomplete, alike = named.get(number, UNNAMED)
        places = frozenset() if incomplete else lines_of_number
        read = readers.get(constant, frozenset())
        if not read and alike and distinct(number):
            yield constant, places, IN_LLIR
        elif read and not places:
            yield constant, read, READ_BY
        elif both := read & places:
            yield constant, places if alike else both, READ_BY


def products(llir: Artifact, kernel: Artifact) -> dict[int, set[int]]:
    """For each line of the kernel that adds, the lines of the products that are added there.

    Lines on which the program itself asks for a fused multiply-add are left out: theirs have no product elsewhere.
    """
    lines = dict(own_lines(llvm_chains, llir, kernel))
    operations: dict[str, tuple[str, int, list[str]]] = {}
    explicit: set[int] = set()
    for number, text in enumerate(llir.lines, 1):
        line = lines.get(number, 0)
        if "@llvm." in text and _EXPLICIT.search(text):
            explicit.add(line)
        elif operation := _FLOAT.match(text):
            operations[operation["name"]] = operation["op"], line, IR_VALUE.findall(operation["rest"])
    products_by_line: dict[int, set[int]] = {}
    for op, line, values in operations.values():
        if op in ("fadd", "fsub") and line and line not in explicit:
            negated = {v: operations[v][2][0] for v in values if v in operations and operations[v][0] == "fneg"}
            factors = (operations.get(negated.get(v, v)) for v in values)
            lines_of_products = {factor[1] for factor in factors if factor and factor[0] == "fmul" and factor[1]}
            products_by_line.setdefault(line, set()).update(lines_of_products)
    return {line: places for line, places in products_by_line.items() if places}


def own_line(chain: Chain, form: Located, lines: int) -> int:
    """The line of the kernel's own source that a chain leads to, counted from 1; 0 where it leads to none."""
    for file, line in chain:
        same = file == form.file or ("/" not in file and file == basename(form.file))
        line_of_kernel = line - form.first_line + 1
        if same and 1 <= line_of_kernel <= lines:
            return line_of_kernel
    return 0


def mlir_chains(text: str) -> Chains:
    """The origins that MLIR's loc(...) state, through the table of #loc aliases."""
    lines = text_lines(text)
    table = {m[1]: m[2] for line in lines if (m := _MLIR_TABLE.match(line))}
    memory: dict[str, Chain] = {}

    def chain(expression: str) -> Chain:
        places_of_parts: list[tuple[str, int]] = []
        for part in _MLIR_PART.finditer(expression):
            if part[3]:
                if part[3] not in memory:
                    memory[part[3]] = ()
                    memory[part[3]] = chain(table.get(part[3], ""))
                places_of_parts += memory[part[3]]
            else:
                places_of_parts.append((part[1], int(part[2])))
        return tuple(places_of_parts)

    places: dict[int, Chain] = {}
    for number, line in enumerate(lines, 1):
        if not line.startswith("#") and (use := _MLIR_USE.search(_last_loc(line))):
            places[number] = chain(use[1])
    for first, last in _regions(lines):
        if last in places and first not in places:
            places[first] = places[last]
    yield from sorted(places.items())


def _regions(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First and last line of each operation with regions: its location stands where the last region is closed."""
    begun: list[tuple[int, int]] = []
    for number, line in enumerate(lines, 1):
        body = line.lstrip()
        indent = len(line) - len(body)
        while begun and indent < begun[-1][0]:
            begun.pop()
        if body.startswith("}") and begun and begun[-1][0] == indent:
            yield begun[-1][1], number
            if not _opens(line):
                begun.pop()
        elif _opens(line):
            begun.append((indent, number))


def _opens(line: str) -> bool:
    """Whether a line ends with the brace that opens a region, behind which a location of an argument may stand."""
    return line.rstrip().endswith("{")


def _last_loc(line: str) -> str:
    """Return a line's text from its last ` loc(` on: the operation's own location, not its block arguments'."""
    at = line.rfind(" loc(")
    return line[at:] if at >= 0 else line


def llvm_chains(text: str) -> Chains:
    """The origins that LLVM's !dbg locations state, through their scopes and inlinedAt."""
    nodes, lines = {}, text_lines(text)
    for line in lines:
        if line.startswith("!") and (node := _LLVM_NODE.match(line)):
            nodes[node[1]] = {
                "kind": node[2],
                **{m[1]: m[2] if m[2] is not None else m[3] for m in _LLVM_FIELD.finditer(node[3])},
            }

    @cache
    def file_of(id: str) -> str:
        node = nodes.get(id.lstrip("!"), {})
        if node.get("kind") == "DIFile":
            folder = node.get("directory", "")
            return f"{folder}/{node['filename']}" if folder and not node["filename"].startswith("/") else node["filename"]
        return file_of(node.get("file") or node["scope"]) if "file" in node or "scope" in node else ""

    @cache
    def chain(id: str) -> Chain:
        node = nodes.get(id.lstrip("!"), {})
        if node.get("kind") != "DILocation":
            return ()
        rest = chain(node["inlinedAt"]) if "inlinedAt" in node else ()
        return ((file_of(node["scope"]), int(node.get("line", 0))), *rest)

    for number, line in enumerate(lines, 1):
        if not line.startswith("!") and (use := _LLVM_USE.search(line)):
            yield number, chain(use[1])


@once
def llvm_origins(artifact: Artifact) -> tuple[tuple[int, Chain], ...]:
    """Return the origins of an LLVM IR's lines. Its own links, the assembly's and the products' are all made of them."""
    return tuple(llvm_chains(artifact.text))


def loc_chains(text: str) -> Chains:
    """The origins of the instructions of PTX or AMDGCN: the last .loc, and what it was inlined into.

    Where the text leaves open which call that was, a chain has after its place only what all of the calls have in common.
    """
    for number, chains in loc_candidates(text):
        yield number, _common(chains)


def loc_candidates(text: str) -> Iterator[tuple[int, frozenset[Chain]]]:
    """Each instruction's possible origins: several where a function was inlined more than once.

    LLVM says what a .loc was inlined into in its comment. triton 3.9 says so in PTX by `inlined_at`, which names only the place
    of the call. The call's own .loc comes before it, once per call, with the place that the call was inlined into.
    """
    lines = text_lines(text)
    files = {m[1]: "/".join(filter(None, (m[2], m[3]))) for line in lines if (m := _FILE.match(line))}
    chains: frozenset[Chain] = frozenset({()})
    calls: dict[tuple[str, ...], frozenset[Chain]] = {}
    for number, line in enumerate(lines, 1):
        if loc := _LOC.match(line):
            place = files.get(loc["file"], ""), int(loc["line"])
            inlined = tuple((m[1], int(m[2])) for m in _INLINED.finditer(loc["comment"] or ""))
            around = calls.get(loc.group("at_file", "at_line", "at_column"), {inlined[1:]})
            chains = frozenset((place, *rest) for rest in around)
            key = loc.group("file", "line", "column")
            calls[key] = calls.get(key, frozenset()) | chains
        elif is_instruction(line):
            yield number, chains


def _common(chains: frozenset[Chain]) -> Chain:
    """The innermost place of chains that begin alike, and the end that all of them have."""
    if len(chains) == 1:
        return next(iter(chains))
    ends = list(itertools.takewhile(lambda places: len(set(places)) == 1, zip(*(chain[:0:-1] for chain in chains), strict=False)))
    return (next(iter(chains))[0], *(places[0] for places in reversed(ends)))
