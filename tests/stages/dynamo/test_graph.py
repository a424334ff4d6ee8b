"""Dynamo's graph, linked to the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import explorer
from explorer.model.trace_data import artifact_of
from explorer.stages.dynamo.graph import FIRST_READ

LOGS = Path(__file__).parents[2] / "data" / "logs"


def quoted(trace: explorer.Trace, how: str) -> dict[str, str]:
    """The user's line of each line of Dynamo's graph that is linked in one way."""
    (graph,) = trace.find("dynamo")
    links = [link for link in trace.links if link.source == graph.id and link.how == how]
    return {
        graph.lines[number - 1].split()[0]: artifact_of(trace, link.target).lines[link.target_lines[0] - 1].strip()
        for link in links
        for number in link.source_lines
    }


def test_an_input_that_only_a_text_has_leads_to_the_line_of_its_first_reader() -> None:
    """`print_readable` writes no place above an input: what is known is which node reads it first."""
    trace = explorer.load(LOGS / "inductor_provenance_jit_debug_handle_log.log.gz")
    assert isinstance(trace, explorer.Trace)
    lines = quoted(trace, FIRST_READ)
    assert lines["l_self_modules_fc1_parameters_weight_"] == lines["l_x_"] == "x = self.fc1(x)"


def test_an_input_that_a_probe_saw_leads_where_dynamo_made_it(replayed: Callable[[str], explorer.Trace]) -> None:
    """Its own stack says more than its readers."""
    assert not quoted(replayed("mlp_train-torch2.13-cpu"), FIRST_READ)
