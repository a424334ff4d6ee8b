"""The forms of a Halide kernel, made on demand: the schedule that was chosen, the lowered statement, LLVM IR and assembly.

Halide writes no debug information. What its texts state are names: of the Func that a loop, a store or a directive of the
schedule is for, and of the buffer that an instruction of LLVM IR loads from or stores to (its !tbaa). Some have a number such
as "$1" behind them. A Func that is not produced in memory is inlined, so that a store computes its lines too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Link
from explorer.stages.cpp.assembly import is_instruction
from explorer.stages.halide.funcs import funcs
from explorer.stages.kinds import INDEX, NOT_STATED, SETUP, Kinds, by_rules, rules
from explorer.stages.triton.origins import kernel_of


@record
class HalideForm(Record):
    """A form of a Halide kernel. `produced` are the Funcs that the kernel keeps in memory; all others are inlined."""

    name: str
    produced: Names


@record
class HalideFormText(HalideForm):
    """A form of a Halide kernel, as Halide writes it."""

    text: str


#: How a line's place in the kernel is known: it names a Func; or what it computes is stored in one.
NAMED, STORED = "the name of its Func", "the Func that it is stored in"
#: A Func of each line of a form, counted from 1: its name, the number of its definition if that is stated, and how it is known.
Places = list[tuple[int, str, int | None, str]]


def render(event: Event, id: str, *, title: str, language: str) -> Artifact:
    """The text, in the artifact of the kernel."""
    data = typed(HalideFormText, event.data)
    return text_artifact(event, id, f"{title} of {data.name}", language, kernel=data.name)


def produced(statement: str) -> list[str]:
    """The Funcs that a lowered statement produces in memory."""
    return list(dict.fromkeys(re.findall(r"^\s*produce (\w+)(?:\$\d+)? \{$", statement, re.MULTILINE)))


def link(artifact: Artifact, trace: TraceData) -> Iterator[Link]:
    """Link each line to the lines of the kernel that compute the Func it is for."""
    kernel = kernel_of(artifact, trace)
    if kernel is None:
        return
    known, in_memory = funcs(kernel), typed(HalideForm, artifact.data).produced
    targets: dict[tuple[int, str], set[int]] = {}
    for number, name, stage, how in PLACES[artifact.stage](artifact.lines):
        if how == NAMED:
            lines = known.definitions.get(name, ())
            lines = lines if stage is None else lines[stage : stage + 1]
        else:
            lines = known.lines_of(name, stage, in_memory)
        if lines:
            targets.setdefault((number, how), set()).update(lines)
    for (number, how), found in sorted(targets.items()):
        yield Link(artifact.id, (number,), kernel.id, tuple(sorted(found)), how)


# The schedule ------------------------------------------------------------------------------------------------------------

_SCHEDULED = re.compile(r"^\s+(\w+)(?:\.update\((\d+)\))?;?$")


def _schedule_places(lines: Sequence[str]) -> Places:
    """The directives of each Func: those of an update are said to be; the others are of the pure definition."""
    places: Places = []
    of: tuple[str, int] | None = None
    for number, line in enumerate(lines, 1):
        if begin := _SCHEDULED.match(line):
            of = begin[1], int(begin[2]) + 1 if begin[2] else 0
        elif not line.lstrip().startswith("."):
            of = None
        if of:
            places.append((number, *of, NAMED))
    return places


_SCHEDULE = rules(
    blank=r"^\s*$",
    comments=r"^\s*//",
    imports=r"^#include|^    using ",
    directives=r"^#",
    declarations=r"^\s*(Func|Var|RVar) ",
    signature=r"^inline void |^    ::Halide|^\) \{",
    braces=r"^\s*[{}]$",
)

# The lowered statement ---------------------------------------------------------------------------------------------------

_FUNCTION = re.compile(r"^(?:\w+ )?func \w+ \(")
_STAGE = re.compile(r"(?<![\w.])(\w+)(?:\$\d+)?\.s(\d+)\.")
_STORE = re.compile(r"^\s*([A-Za-z_]\w*)(?:\$\d+)?(?:\.\d+)?\[(.*?)\] = (.*)$")
_LET = re.compile(r"^\s*let (\S+) = (.*)$")
_VALUE = re.compile(r"[\w.$]+")
_STMT = rules(
    blank=r"^\s*$",
    signature=r"^module |^(\w+ )?func ",
    braces=r"^\s*\}$",
    loop_control=r"^\s*(for|if|predicate|produce|consume|atomic|\} else)\b|^\s*\} else",
    declarations=r"^\s*(allocate|free) ",
    prologue_and_epilogue=(
        r"^\s*(assert\(|\(struct |let .*\b(load_typed_struct_member|make_struct|halide_do_par_for|_halide_buffer_\w+)\()"
    ),
    index_arithmetic=r"^\s*let (?!.*(\w\[|\bfloat|\bstrict_))",
)


def _stmt_places(lines: Sequence[str]) -> Places:
    """The Func of each store and loop, and of what is computed for a store; the loops around a store say which definition."""
    places: Places = []
    kinds = by_rules(lines, _STMT)
    around: list[tuple[str, int] | None] = []
    lets: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines, 1):
        stated = _STAGE.search(line) if line.lstrip().startswith("for (") or _FUNCTION.match(line) else None
        if line.lstrip().startswith("}") and around:
            around.pop()
        if line.endswith("{"):
            around.append((stated[1], int(stated[2])) if stated else None)
        if _FUNCTION.match(line):
            lets = {}
        if stated:
            places.append((number, stated[1], int(stated[2]), NAMED))
        elif let := _LET.match(line):
            if not kinds[number - 1]:
                lets[let[1]] = number, let[2]
        elif store := _STORE.match(line):
            stage = next((loop[1] for loop in reversed(around) if loop and loop[0] == store[1]), None)
            computing = [number, *_made_of(f"{store[2]} {store[3]}", lets, _VALUE)]
            places += ((each, store[1], stage, STORED) for each in computing)
    return places


def _made_of(expression: str, values: Mapping[str, tuple[int, str]], names: re.Pattern[str]) -> list[int]:
    """The lines of the values that an expression is made of, and of those that they are made of; `names` finds their names."""
    found: dict[int, None] = {}
    todo = [expression]
    while todo:
        for name in names.findall(todo.pop()):
            number, made_of = values.get(name, (0, ""))
            if number and number not in found:
                found[number] = None
                todo.append(made_of)
    return list(found)


# LLVM IR and assembly ----------------------------------------------------------------------------------------------------

#: Where a function that runs an iteration of a parallel loop begins, and where a loop's body does; assembly has its label in a
#: comment. Both name the Func and the number of its definition.
_PARALLEL = re.compile(r"^(?:define .*@)?\w+_par_for_(\w+?)_s(\d+)_")
_LOOP = re.compile(r'^(?:[.#][^"]*%)?"(?:\d+_)?for_(\w+)(?:\$\d+)?\.s(\d+)\.')
_TBAA = re.compile(r"!tbaa !(\d+)")
_TAG = re.compile(r"^!(\d+) = !\{!(\d+), !\d+, i64 \d+\}")
_BUFFER = re.compile(r"^(\w+?)(?:\$\d+)?(?:\.\d+)?(?:\.width\d+\.base-?\d+)?$")
_RESULT = re.compile(r'^  (%(?:[\w.$-]+|"[^"]+")) = (.*)$')
_OPERAND = re.compile(r'%(?:[\w.$-]+|"[^"]+")')
#: A store, with the value that it stores, none where it sets all bytes to a constant.
_STORED = re.compile(
    r"^  (?:(?:store |.*@llvm\.masked\.(?:store|scatter|compressstore)[.\w]*\()(?P<value>.*)|.*@llvm\.memset\..*)$"
)
_READS = re.compile(r"(?:^load |@llvm\.masked\.(?:load|gather|expandload)|^getelementptr)")
_LLVM = rules(
    blank=r"^\s*$",
    comments=r"^;",
    labels=r'^("[^"]+"|[\w.$-]+):',
    signature=r"^define ",
    braces=r"^\}",
    declarations=r"^(declare|attributes|!|@|%|target|source_filename)",
    loop_control=r"^\s+(br|switch|unreachable|ret)\b|^\s+\]|^\s+i\d+ |^\s+(%\S+ = )?(phi (i\d|ptr)|icmp)",
    index_arithmetic=(
        r"= (getelementptr|ptrtoint|inttoptr|zext|sext|trunc|bitcast ptr|alloca)\b"
        r"|= (add|sub|mul|shl|lshr|ashr|and|or|xor|sdiv|udiv|srem|urem|select|freeze)\b.* i(1|32|64) |@llvm\.[su](min|max)\.i\d+"
        r"|= (insertelement|shufflevector|extractelement) <\d+ x i(1|32|64)>"
    ),
    prologue_and_epilogue=r"@halide_|@llvm\.(assume|lifetime|stack|prefetch)",
)
_MEMORY = re.compile(r"^\s+(%\S+ = )?(load|store) |@llvm\.(memset|memcpy|masked)\.")
_CHILD = re.compile(r'^!(\d+) = !\{!"([^"]+)"(?:, !(\d+))?')


def _llvm_places(lines: Sequence[str]) -> Places:
    """The Func of each function and loop by its name, and of what is computed for a store to a Func's buffer by its !tbaa."""
    buffers = _buffers(lines)
    places = _labels(lines)
    values: dict[str, tuple[int, str]] = {}
    stores: list[tuple[int, str, str]] = []
    for number, line in enumerate(lines, 1):
        if line.startswith("define "):
            values = {}
        if made := _RESULT.match(line):
            values[made[1]] = number, "" if _READS.search(made[2]) else made[2]
        tag, store = _TBAA.search(line), _STORED.match(line)
        if tag and store and (name := buffers.get(tag[1], "")):
            value = _OPERAND.search((store["value"] or "").partition(", ptr ")[0])
            stores.append((number, name, value[0] if value else ""))
        if line == "}":  # a value of a loop may be made below its use
            for at, name, stored in stores:
                places += ((each, name, None, STORED) for each in (at, *_made_of(stored, values, _OPERAND)))
            stores = []
    return places


def _buffers(lines: Sequence[str]) -> dict[str, str]:
    """The buffer that each tag of !tbaa names, by the tag's number; the runtime's own data have tags of another tree."""
    nodes = {match[1]: (match[2], match[3] or "") for line in lines if (match := _CHILD.match(line))}
    named: dict[str, str] = {}
    for tag in (match for line in lines if (match := _TAG.match(line))):
        name, above = nodes.get(tag[2], ("", ""))
        match = _BUFFER.match(name)
        while above in nodes:
            name, above = nodes[above]
        if match and name == "Halide buffer":
            named[tag[1]] = match[1]
    return named


def _labels(lines: Sequence[str]) -> Places:
    """The functions and labels that name a definition of a Func."""
    places: Places = []
    for number, line in enumerate(lines, 1):
        if match := _PARALLEL.match(line) or _LOOP.match(line):
            places.append((number, match[1], int(match[2]), NAMED))
    return places


# The stages --------------------------------------------------------------------------------------------------------------

PLACES = {
    "halide_schedule": _schedule_places,
    "halide_stmt": _stmt_places,
    "halide_llvm": _llvm_places,
    "halide_assembly": _labels,
}
_KINDS = {"halide_schedule": _SCHEDULE, "halide_stmt": _STMT, "halide_llvm": _LLVM}


def kinds(artifact: Artifact) -> Kinds:
    """Directives of a schedule, and stores, loads and arithmetic on values compute; an instruction states nothing."""
    if artifact.stage == ASSEMBLY.name:
        return [NOT_STATED if is_instruction(line) else "directives" for line in artifact.lines]
    found = by_rules(artifact.lines, _KINDS[artifact.stage])
    return _of_buffers(artifact.lines, found) if artifact.stage == LLVM.name else found


def _of_buffers(lines: Sequence[str], found: Kinds) -> Kinds:
    """The kinds of LLVM IR's lines, where only loads and stores of Funcs' buffers compute."""
    buffers = _buffers(lines)
    computes = [bool((tag := _TBAA.search(line)) and tag[1] in buffers) for line in lines]
    memory = [bool(_MEMORY.search(line)) and kind in ("", INDEX) for line, kind in zip(lines, found, strict=True)]
    return [("" if c else SETUP) if m else kind for kind, c, m in zip(found, computes, memory, strict=True)]


def _stage(name: str, title: str, language: str, about: str) -> Stage:
    return Stage(
        name=name,
        title=title,
        language=language,
        event=HalideFormText,
        artifact=HalideForm,
        render=partial(render, title=title, language=language),
        link=link,
        kinds=kinds,
        per_kernel=True,
        backend="inductor",
        on_demand_of="halide",
        about=about,
    )


SCHEDULE = _stage(
    "halide_schedule",
    "Schedule · Halide",
    "c",
    "What the autoscheduler chose: the Funcs that stay in memory, and the loops that are split, vectorized and run in parallel.",
)
STMT = _stage(
    "halide_stmt", "Statement · Halide", "c", "The loops, buffers and stores that Halide lowers a kernel to, by its schedule."
)
LLVM = _stage("halide_llvm", "LLVM IR · Halide", "llvm", "What Halide makes of the loops for the CPU, optimized by LLVM.")
ASSEMBLY = _stage(
    "halide_assembly", "Assembly · Halide", "asm", "What LLVM makes of a Halide kernel: the instructions the CPU runs."
)
