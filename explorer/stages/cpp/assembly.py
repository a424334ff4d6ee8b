"""The assembly of a C++ kernel, made on demand with Inductor's own compile command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from explorer.model.records import Record, record, typed
from explorer.model.stage import Stage, text_artifact
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Event, Failure, Link, text_lines
from explorer.stages.triton.origins import kernel_of


@record
class Assembly(Record):
    """The assembly of a C++ kernel: pairs of a line of the text and one of the kernel, by how they are known.

    `unlinked` says why instructions of inlined functions are not among them.
    """

    name: str
    file: str
    stated: Mapping[str, tuple[tuple[int, int], ...]]
    unlinked: str


@record
class AssemblyText(Record):
    """The assembly of a C++ kernel as the compiler writes it.

    `nested` are the lines of the kernel's source in functions of their own; `inlined` has for an instruction's line of the text
    the calls (file, line) it was inlined by, innermost first; `unlinked` says why it has no links.
    """

    name: str
    file: str
    text: str
    nested: tuple[int, ...]
    inlined: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
    unlinked: str


#: Where a function was inlined, the innermost call first: file, line.
Calls = tuple[tuple[str, int], ...]

_LAMBDA = re.compile(r"(?<![\w\])])\[[&=]?[^\[\]]*\]\s*(?:\([^()]*\))?[^{};()]*\{")
_LOC = re.compile(r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)")
_FILE = re.compile(r'^\s*\.file\s+(?P<number>\d+)\s+(?P<names>".*)$')

_FUNCTION = re.compile(r"^\s*\.type\s+(?P<name>[^,\s]+),\s*[@%]function")

#: How an instruction's line of the kernel is known: the .loc before it names it, or it names a header's line, and the
#: debug information says at which line of the kernel that was inlined.
LOC, INLINED = ".loc", "DWARF inlined-at"


def render(event: Event, id: str) -> Artifact:
    """The assembly of the functions that hold lines of the kernel's own file, with their .loc lines.

    `stated` are the instructions' lines of the kernel, by how they are known: pairs of a line of the text and one of the
    kernel. `unlinked` says why inlined instructions are not among them, where they are not.
    """
    recorded = typed(AssemblyText, event.data)
    whole = text_lines(recorded.text)
    numbers = own_lines(whole, recorded.file)
    place = {number: n for n, number in enumerate(numbers, 1)}
    lines_by_how: dict[str, list[tuple[int, int]]] = {}
    for number, (line, how) in own_places(whole, recorded.file, recorded.inlined, recorded.nested).items():
        if number in place:
            lines_by_how.setdefault(how, []).append((place[number], line))
    data = Assembly(
        name=recorded.name,
        file=recorded.file,
        stated={how: tuple(pairs) for how, pairs in lines_by_how.items()},
        unlinked=recorded.unlinked,
    )
    text = "\n".join(whole[number - 1] for number in numbers)
    return text_artifact(event, id, f"Assembly of {data.name}", "asm", text=text, kernel=data.name, data=data)


def is_instruction(line: str) -> bool:
    """Whether a line of assembly is an instruction: no directive, label or comment."""
    return line.startswith("\t") and line.lstrip()[:1] not in ("", ".", "#")


def own_lines(lines: Sequence[str], file: str) -> list[int]:
    """The numbers of the .file lines, and of each function that has a .loc of `file`: the headers' functions are left out."""
    files = [n for n, line in enumerate(lines) if _FILE.match(line)]
    ours = _numbers((lines[n] for n in files), file)
    numbers: list[int] = []
    done = 0
    for start, name in ((n, m["name"]) for n, line in enumerate(lines) if (m := _FUNCTION.match(line))):
        end = next(
            (n for n in range(start, len(lines)) if re.match(rf"\s*\.size\s+{re.escape(name)},", lines[n])), len(lines) - 1
        )
        body = range(max(start, done), end + 1)  # "kernel.cold" begins inside "kernel"
        if any((loc := _LOC.match(lines[n])) and loc["file"] in ours for n in body):
            numbers += body
            done = end + 1
    used = {loc["file"] for n in numbers if (loc := _LOC.match(lines[n]))}
    named = [n for n in files if (m := _FILE.match(lines[n])) and m["number"] in used]
    return [n + 1 for n in ([*named, *numbers] if numbers else range(len(lines)))]


def _numbers(lines: Iterable[str], file: str) -> set[str]:
    """The numbers by which .file lines know a file."""
    return {m["number"] for line in lines if (m := _FILE.match(line)) and f'{file}"' in m["names"]}


def own_places(
    lines: Sequence[str], file: str, inlined: Iterable[tuple[int, Calls]], nested: Iterable[int]
) -> dict[int, tuple[int, str]]:
    """For each instruction that has one, its line of the kernel and how that is known.

    `inlined` has for an instruction the calls that it was inlined by; `nested` are the kernel's lines in functions of their own.
    In an inlined function only a .loc of such a line counts. An instruction without a .loc keeps the one before it, which may
    belong to the surrounding function.
    """
    ours, own_functions = _numbers(lines, file), set(nested)
    calls = dict(inlined)
    line_by_number: dict[int, tuple[int, str]] = {}
    for number, (where, line) in _locs(lines).items():
        places = calls.get(number, ())
        outer = next((at for name, at in places if name.rpartition("/")[2] == file and at), 0)
        if where in ours and line and (not places or line in own_functions):
            line_by_number[number] = (line, LOC)
        elif outer:
            line_by_number[number] = (outer, INLINED)
    return line_by_number


def nested_lines(source: str) -> list[int]:
    """The lines of a C++ kernel's source that are in a function of their own: in a lambda, or above the kernel itself."""
    start = source.find('extern "C"')
    above = range(1, source.count("\n", 0, max(start, 0)) + 1)
    numbers = set(above)
    for begin in _LAMBDA.finditer(source):
        end = _closing(source, begin.end() - 1)
        first = source.count("\n", 0, begin.end()) + 1
        numbers.update(range(first, source.count("\n", 0, end) + 2))
    return sorted(numbers)


def _closing(source: str, at: int) -> int:
    """Where the brace that opens at a place is closed."""
    depth = 0
    for brace in re.finditer(r"[{}]", source[at:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return at + brace.start()
    return at


def _locs(lines: Sequence[str]) -> dict[int, tuple[str, int]]:
    """For each instruction the file's number and the line of the last .loc before it."""
    loc_by_number: dict[int, tuple[str, int]] = {}
    last = ("", 0)
    for number, text in enumerate(lines, 1):
        if loc := _LOC.match(text):
            last = (loc["file"], int(loc["line"]))
        elif is_instruction(text):
            loc_by_number[number] = last
    return loc_by_number


def link(artifact: Artifact, trace: TraceData) -> Iterable[Link]:
    """Link each instruction to its line of the C++ kernel, also from functions inlined into that line."""
    kernel = kernel_of(artifact, trace)
    if kernel is None:
        return
    last = len(kernel.lines)
    for how, pairs in typed(Assembly, artifact.data).stated.items():
        for number, line in pairs:
            if line <= last:
                yield Link(artifact.id, (number,), kernel.id, (line,), how)


def kinds(artifact: Artifact) -> list[str]:
    """Instructions compute; directives and labels do not."""
    return ["" if is_instruction(line) else "directives" for line in artifact.lines]


def unlinked(artifact: Artifact) -> Iterable[Failure]:
    """Why instructions of inlined functions are not linked, where they are not."""
    if why := typed(Assembly, artifact.data).unlinked:
        yield Failure(artifact.stage, "inlining", why)


STAGE = Stage(
    name="assembly",
    title="Assembly",
    language="asm",
    event=AssemblyText,
    artifact=Assembly,
    render=render,
    per_kernel=True,
    kinds=kinds,
    link=link,
    backend="inductor",
    unlinked=unlinked,
    on_demand_of="cpp",
    about="What the C++ compiler made of the kernel: the instructions the CPU runs.",
)
