"""TVM's modules as TVMScript: the graph in Relax, the module after the pipeline "zero", and the TIR that is compiled."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from explorer.model.shared import Nothing, Text
from explorer.model.stage import KernelPlace, Stage, line_count, no_kernels, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.kinds import Kinds, by_rules, rules
from explorer.stages.tvm.notes import link_notes

SCRIPT = rules(
    blank=r"^\s*$",
    comments=r"^\s*#",
    signature=r"^\s*(@|def |class )",
    declarations=(
        r"^\s*(T\.(reads|writes|func_attr|sblock_attr)|R\.(func_attr|output))\b|^\s*cls = "
        r"|^\s*[\w, ]+ = T\.(axis|sblock_alloc_buffer|alloc_buffer|decl_buffer|match_buffer|Buffer)\b|^\w+ = TypeVar"
    ),
    index_arithmetic=r"^\s*\w+: T\.let\[",
    loop_control=r"^\s*(for|if|else|while|with)\b",
    output=r"^\s*(return\b|\w+(: R\.Tuple\(.*\))? = [\w, ()]+$)",
)
#: The head of a function in a module, and a call of one in TIR.
_HEAD = re.compile(r"^    def (\w+)\(")
_CALL = re.compile(r"\bR\.call_tir(?:_inplace)?\(cls\.(\w+)")


def kinds(artifact: Artifact) -> Kinds:
    """Bindings of Relax and stores of TIR compute."""
    return by_rules(artifact.lines, SCRIPT)


def functions(artifact: Artifact) -> Iterator[KernelPlace]:
    """Each function in TIR, from its head to the next one's; the graph in Relax, which calls them, is the last."""
    calls = Counter(call[1] for line in artifact.lines for call in _CALL.finditer(line))
    heads = [(number, head[1]) for number, line in enumerate(artifact.lines, 1) if (head := _HEAD.match(line))]
    ends = [*(number for number, _ in heads[1:]), len(artifact.lines) + 1]
    for (first, name), end in zip(heads, ends, strict=True):
        if calls[name]:
            yield KernelPlace(name, range(first, end), calls[name])


def render(event: Event, id: str, *, title: str) -> Artifact:
    """The module's text."""
    return text_artifact(event, id, title, "python")


def _stage(name: str, before: str, title: str, about: str) -> Stage:
    return Stage(
        name=name,
        title=title,
        language="python",
        event=Text,
        artifact=Nothing,
        backend="tvm",
        about=about,
        render=partial(render, title=title),
        link=link_notes,
        kinds=kinds,
        kernels=functions if name == "tvm_fused" else no_kernels,
        opens_at=4 if name == "tvm_fused" else 0,  # the last text that has the whole program
        made_from=(before,) if before else (),
        summary=line_count,
    )


STAGES: tuple[Stage, ...] = (
    _stage(
        "tvm_relax", "", "Relax · TVM", "The graph in Relax, as TVM's importer makes it; bindings have the names of FX nodes."
    ),
    _stage(
        "tvm_fused",
        "tvm_relax",
        "Relax and TIR · TVM",
        'After TVM\'s pipeline "zero": each operator as loops in TIR, those that could be fused as one function.',
    ),
    _stage(
        "tvm_tir",
        "tvm_fused",
        "TIR · TVM",
        "The functions in TIR as they are compiled, before TVM puts the checks of their arguments around them.",
    ),
)
