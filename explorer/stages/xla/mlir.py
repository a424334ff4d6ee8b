"""What XLA is handed: the graph in MLIR's torch dialect and in StableHLO, as torch-mlir makes them."""

from __future__ import annotations

from functools import partial

from explorer.model.records import Record, record
from explorer.model.shared import Names
from explorer.model.stage import Stage, line_count, text_artifact
from explorer.model.values import Artifact, Event
from explorer.stages.fx_locations import Places, links_to_nodes, of_whole_graph
from explorer.stages.kinds import Kinds, by_rules, rules
from explorer.stages.triton.origins import mlir_chains


@record
class XlaModule(Record):
    """A graph in MLIR on its way to XLA; `fx_nodes` names its FX nodes in the order in which locations count them."""

    fx_nodes: Names


@record
class XlaModuleText(XlaModule):
    """A graph in MLIR on its way to XLA, with its locations."""

    text: str


MLIR = rules(
    blank=r"^\s*$",
    locations=r"^#loc",
    signature=r"^\s*module\b|^\s*func\.func\b",
    braces=r"^\s*[}\])]+( loc\(.*\))?,?$|^\s*\}, \{",
    constants=r"= (arith|torch|stablehlo)\.(vtensor\.literal|constant)\b",
    loop_control=r"^\s*\^bb|^\s*cf\.",
    output=r"^\s*(func\.)?return\b",
)


def places(artifact: Artifact) -> Places:
    """The locations that each line states, through the table of #loc aliases."""
    return mlir_chains(artifact.text)


def kinds(artifact: Artifact) -> Kinds:
    """Operations compute, except for the graph's inputs and results, and constants."""
    of_inputs = of_whole_graph(places(artifact))
    found = by_rules(artifact.lines, MLIR)
    return [kind or ("inputs" if number in of_inputs else "") for number, kind in enumerate(found, 1)]


def render(event: Event, id: str, *, title: str) -> Artifact:
    """The module's text."""
    return text_artifact(event, id, title, "mlir")


def _stage(name: str, before: str, title: str, about: str) -> Stage:
    return Stage(
        name=name,
        title=title,
        language="mlir",
        event=XlaModuleText,
        artifact=XlaModule,
        backend="xla",
        about=about,
        render=partial(render, title=title),
        link=links_to_nodes(places, "loc"),
        kinds=kinds,
        made_from=(before,) if before else (),
        summary=line_count,
    )


STAGES: tuple[Stage, ...] = (
    _stage("xla_torch", "", "torch dialect · XLA", "The graph as torch-mlir's importer makes it, in MLIR's torch dialect."),
    _stage(
        "xla_stablehlo",
        "xla_torch",
        "StableHLO · XLA",
        "The graph in StableHLO, as torch-mlir writes it: what XLA is handed. PyTorch/XLA is not part of it.",
    ),
)
