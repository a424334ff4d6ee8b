"""The phases of IREE's compiler, each the whole module in MLIR: from the torch dialect to IREE's virtual machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from explorer.model.records import Record, record
from explorer.model.shared import Names
from explorer.model.stage import KernelPlace, Stage, line_count, no_kernels, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.fx_locations import Places, links_to_nodes, of_whole_graph
from explorer.stages.kinds import Kinds, by_rules, rules
from explorer.stages.triton.origins import mlir_chains


@record
class IreeModule(Record):
    """A module of IREE's in one of its dialects; `fx_nodes` are the nodes of the graph it was handed, in their order."""

    fx_nodes: Names


@record
class IreeModuleText(IreeModule):
    """A module of IREE's in one of its dialects, with its locations."""

    text: str


#: What each phase does, by the name that iree-compile has for it, in its order.
PHASES: tuple[tuple[str, str], ...] = (
    ("input", "the torch dialect as linear algebra on tensors"),
    ("abi", "the functions as a caller of the module sees them, with buffers in and out"),
    ("preprocessing", "what a target or a plugin rewrites before all else"),
    ("global-optimization", "operators of the whole program folded, transposes and reshapes moved, constants hoisted"),
    ("dispatch-creation", "operators fused into dispatches, each of which will be one kernel"),
    ("flow", "the dispatches as functions of their own, and the program as calls of them"),
    ("stream", "the program as asynchronous commands on memory whose sizes and lifetimes are known"),
    ("executable-sources", "each dispatch as the source of an executable for a target"),
    ("executable-configurations", "the same with the tile sizes and the strategy that were chosen"),
    ("executable-targets", "each dispatch in the dialect of its target: for a CPU that of LLVM"),
    ("hal", "the program as calls of the hardware abstraction layer, the executables as binaries"),
    ("vm", "the program in the dialect of IREE's virtual machine"),
)

MLIR = rules(
    blank=r"^\s*$",
    locations=r"^#loc",
    layouts=r"^#[\w$.]+ = ",
    signature=(
        r"^\s*(builtin\.)?module\b|^\s*(func\.func|util\.func|util\.initializer|llvm\.func|vm\.func|vm\.initializer|vm\.module)\b"
        r"|^\s*(flow|stream|hal)\.executable\b|^\s*hal\.executable\.(variant|export|condition)"
    ),
    braces=r"^\s*[}\])]+( loc\(.*\))?,?$|^\s*\} else \{|^\s*\} attributes ",
    declarations=(
        r"^\s*(util|vm)\.global\b|^\s*util\.global\.\w+ private|^\s*vm\.(rodata|export|import|global\.\w+ private)\b"
        r"|^\s*llvm\.(mlir\.global|comdat)\b|^\s*torch\.operator_set"
    ),
    constants=(
        r"= (arith|torch|util|llvm\.mlir|complex|ub)\.(constant|poison|undef|zero)\b|= torch\.constant\.|= vm\.const\."
        r"|= hal\.(element_type|encoding_type)\b|= llvm\.mlir\.(addressof|poison)\b"
    ),
    loop_control=(
        r"^\s*\^bb|^\s*(func\.|util\.|flow\.|hal\.|stream\.|llvm\.|vm\.|scf\.)?(return|yield)\b|^\s*(cf|llvm)\.(br|cond_br)\b"
        r"|^\s*vm\.(br|cond_br)\b"
    ),
    inputs=r"^\s*(ro|wo|rw) %",
    output=r"^\s*torch\.\w+\.return\b",
)
#: The name that an executable exports its function by.
_EXPORT = re.compile(r'^    flow\.executable\.export public @(?:"([^"]+)"|([\w.$-]+))')
#: A call of one, by its executable and that name.
_DISPATCH = re.compile(r'\bflow\.dispatch @[^:]+::@(?:"([^"]+)"|([\w.$-]+))')


def places(artifact: Artifact) -> Places:
    """The locations that each line states, through the table of #loc aliases."""
    return mlir_chains(artifact.text)


def kinds(artifact: Artifact) -> Kinds:
    """Operations compute, except for the graph's inputs and results, constants and control flow."""
    of_inputs = of_whole_graph(places(artifact))
    found = by_rules(artifact.lines, MLIR)
    return [kind or ("inputs" if number in of_inputs else "") for number, kind in enumerate(found, 1)]


def dispatches(artifact: Artifact) -> Iterator[KernelPlace]:
    """Each dispatch of a module in IREE's flow dialect: the function of its executable, from its head to its closing brace."""
    calls = Counter(call[1] or call[2] for line in artifact.lines if (call := _DISPATCH.search(line)))
    name, first = "", 0
    for number, line in enumerate(artifact.lines, 1):
        if line.startswith("  flow.executable private "):
            name, first = "", number
        elif first and (export := _EXPORT.match(line)):
            name = export[1] or export[2]
        elif first and line.startswith("  }"):
            yield KernelPlace(name, range(first, number + 1), calls[name])
            first = 0


def stage_name(phase: str) -> str:
    """The stage of a phase: "iree_executable_targets" for "executable-targets"."""
    return f"iree_{phase.replace('-', '_')}"


def render(event: Event, id: str, *, title: str) -> Artifact:
    """The module's text."""
    return text_artifact(event, id, title, "mlir")


def _stage(phase: str, before: str, title: str, about: str) -> Stage:
    return Stage(
        name=stage_name(phase),
        title=title,
        language="mlir",
        event=IreeModuleText,
        artifact=IreeModule,
        backend="iree",
        about=about,
        render=partial(render, title=title),
        link=links_to_nodes(places, "loc"),
        kinds=kinds,
        kernels=dispatches if phase == "flow" else no_kernels,
        summary=line_count,
        opens_at=4 if phase == "flow" else 0,  # the last phase that keeps the dispatches and the user's lines
        made_from=(stage_name(before),) if before else (),
    )


STAGES: tuple[Stage, ...] = (
    _stage("torch", "", "torch dialect · IREE", "The graph as IREE's importer makes it, in MLIR's torch dialect."),
    *(
        _stage(phase, before, f"{phase} · IREE", f"After IREE's phase {phase!r}: {about}.")
        for before, (phase, about) in zip(("torch", *(phase for phase, _ in PHASES)), PHASES, strict=False)
    ),
)
