"""What the stages below a Triton kernel share: how each text states the source lines it comes from. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from posixpath import basename
from typing import TYPE_CHECKING

from explorer.model import Artifact, Event, Link, Plain
from explorer.stage import text_artifact

if TYPE_CHECKING:
    from explorer.traced import Trace

#: Where a line comes from: (file, line) innermost first, followed by what it was inlined into.
Chain = tuple[tuple[str, int], ...]
Chains = Iterator[tuple[int, Chain]]

_MLIR_TABLE = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_MLIR_USE = re.compile(r"loc\((#loc\d*|.*)\)\s*$")
_MLIR_PART = re.compile(r'"([^"]*)":(\d+):\d+|(#loc\d*)')
_LLVM_USE = re.compile(r"!dbg !(\d+)")
_LLVM_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$")
_LLVM_FIELD = re.compile(r'(\w+): (?:"([^"]*)"|([^,\s]+))')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+[^/;]*(?:(?://|;)\s*(.*))?$")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_INLINED = re.compile(r"([^\s\[\]]+):(\d+):\d+")


def kernel_artifact(event: Event, id: str, what: str, language: str, **facts: Plain) -> Artifact:
    """The artifact of one form of a kernel."""
    name = str(event.data["name"])
    rest = {k: v for k, v in event.data.items() if k not in ("text", "title")}
    return text_artifact(event, id, f"{what} of {name}", language, kernel=name, data={**rest, **facts})


def kernel_of(artifact: Artifact, trace: Trace) -> Artifact | None:
    """The artifact of stage "kernel" that this is a form of."""
    found = (a for a in trace.find("kernel", artifact.frame, artifact.graph) if a.kernel == artifact.kernel)
    return next(found, None)


def links(chains: Callable[[str], Chains], how: str) -> Callable[[Artifact, Trace], Iterable[Link]]:
    """The link function of a stage whose text states its lines' origins as `chains` reads them."""

    def link(artifact: Artifact, trace: Trace) -> Iterator[Link]:
        kernel = kernel_of(artifact, trace)
        if kernel is not None:
            for number, chain in chains(artifact.text):
                line = own_line(chain, artifact.data, len(kernel.lines))
                if line:
                    yield Link(artifact.id, (number,), kernel.id, (line,), how)

    return link


def own_line(chain: Chain, data: Mapping[str, Plain], lines: int) -> int:
    """The line of the kernel's own source that a chain leads to, counted from 1; 0 where it leads to none."""
    for file, line in chain:
        same = file == data["file"] or ("/" not in file and file == basename(data["file"]))
        own = line - data["first_line"] + 1
        if same and 1 <= own <= lines:
            return int(own)
    return 0


def mlir_chains(text: str) -> Chains:
    """The origins that MLIR's loc(...) state, through the table of #loc aliases."""
    table = {m[1]: m[2] for line in text.splitlines() if (m := _MLIR_TABLE.match(line))}
    memory: dict[str, Chain] = {}

    def chain(expression: str) -> Chain:
        made: list[tuple[str, int]] = []
        for part in _MLIR_PART.finditer(expression):
            if part[3]:
                if part[3] not in memory:
                    memory[part[3]] = ()
                    memory[part[3]] = chain(table.get(part[3], ""))
                made += memory[part[3]]
            else:
                made.append((part[1], int(part[2])))
        return tuple(made)

    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#") and (use := _MLIR_USE.search(_last_loc(line))):
            yield number, chain(use[1])


def _last_loc(line: str) -> str:
    """From the last ` loc(` of a line on: an operation's own location, not that of its block arguments."""
    at = line.rfind(" loc(")
    return line[at:] if at >= 0 else line


def llvm_chains(text: str) -> Chains:
    """The origins that LLVM's !dbg locations state, through their scopes and inlinedAt."""
    nodes = {}
    for line in text.splitlines():
        if node := _LLVM_NODE.match(line):
            nodes[node[1]] = {
                "kind": node[2],
                **{m[1]: m[2] if m[2] is not None else m[3] for m in _LLVM_FIELD.finditer(node[3])},
            }

    def file_of(id: str) -> str:
        node = nodes.get(id.lstrip("!"), {})
        if node.get("kind") == "DIFile":
            folder = node.get("directory", "")
            return f"{folder}/{node['filename']}" if folder and not node["filename"].startswith("/") else node["filename"]
        return file_of(node.get("file") or node["scope"]) if "file" in node or "scope" in node else ""

    def chain(id: str) -> Chain:
        node = nodes.get(id.lstrip("!"), {})
        if node.get("kind") != "DILocation":
            return ()
        rest = chain(node["inlinedAt"]) if "inlinedAt" in node else ()
        return ((file_of(node["scope"]), int(node.get("line", 0))), *rest)

    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("!") and (use := _LLVM_USE.search(line)):
            yield number, chain(use[1])


def loc_chains(text: str) -> Chains:
    """The origins of the instructions of PTX or AMDGCN: the last .loc, and in its comment what it was inlined into."""
    files = {m[1]: "/".join(filter(None, (m[2], m[3]))) for line in text.splitlines() if (m := _FILE.match(line))}
    chain: Chain = ()
    for number, line in enumerate(text.splitlines(), 1):
        if loc := _LOC.match(line):
            inlined = tuple((m[1], int(m[2])) for m in _INLINED.finditer(loc[3] or ""))
            chain = ((files.get(loc[1], ""), int(loc[2])), *inlined[1:])
        elif is_instruction(line):
            yield number, chain


def is_instruction(line: str) -> bool:
    """Whether a line of PTX or AMDGCN is an instruction: no directive, label, comment or brace."""
    return (
        line.startswith("\t") and line.lstrip()[:1] not in ("", ".", "/", ";", "{", "}", "$") and not line.rstrip().endswith(":")
    )
