"""The peak memory of a step whose hooks and graphs are known, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.analysis.questions.hook_memory import GraphMemory, peak_bytes
from explorer.model.records import changed
from explorer.stages.torch_compile.eager_collective import EagerCollective, EagerCollectives, RunGraph
from tests.sent_collectives import ALL_REDUCE

#: Five layers, each with a forward and a backward: a layer has 100 bytes of parameters, and keeps 10 for its backward.
LAYERS, BYTES, KEPT = 5, 100, 10
PLACES = [("0/0", name, number) for name in ("forward", "backward") for number in range(LAYERS)]
GRAPHS = tuple(RunGraph(frame=frame, graph=graph, number=number) for frame, graph, number in PLACES)
MEMORY = {
    place: GraphMemory(12, 0, KEPT, 8) if place[1] == "forward" else GraphMemory(130, 0, BYTES + 8, BYTES + 8) for place in PLACES
}
FORWARDS, BACKWARDS = (-1, -2, -3, -4, -5), (-6, -7, -8, -9, -10)


def recorded(rows: Sequence[EagerCollective], order: Sequence[int]) -> EagerCollectives:
    return EagerCollectives(rows=tuple(rows), graphs=GRAPHS, order=tuple(order), left_out=0)


def of_fsdp2(*, reshards: bool) -> EagerCollectives:
    """The layers in FSDP2 on two ranks, as torch sends."""

    def row(operator: str, layer: int, hook: str, *, prefetched: bool = False) -> EagerCollective:
        own = {"parameters": (f"{layer}.weight",), "module": str(layer), "hook": hook, "prefetched": prefetched}
        return changed(ALL_REDUCE, operator=operator, sender="FSDP2", bytes=BYTES, **own)

    gathers = [row("all_gather_into_tensor", layer, "pre_forward") for layer in range(LAYERS)]
    again = [row("all_gather_into_tensor", layer, "pre_backward", prefetched=layer < LAYERS - 1) for layer in range(LAYERS)]
    scatters = [row("reduce_scatter_tensor", layer, "post_backward") for layer in range(LAYERS)]
    rows = [*gathers, *scatters, *(again if reshards else ())]
    order = [step for layer in range(LAYERS) for step in (layer, FORWARDS[layer])]
    for layer in reversed(range(LAYERS)):
        if reshards:
            order += [2 * LAYERS + layer] if layer == LAYERS - 1 else []
            order += [2 * LAYERS + layer - 1] if layer else []
        order += [BACKWARDS[layer], LAYERS + layer]
    return recorded(rows, order)


def test_parameters_that_are_kept_take_their_bytes() -> None:
    """In the second backward four layers are whole; the first gradients' buffer lives still, and this rank's part of them."""
    parts, whole, buffer, gradients, kept, tangent, own = 250, 400, 100, 50, 40, 8, 130
    assert peak_bytes(of_fsdp2(reshards=False), MEMORY) == parts + whole + buffer + gradients + kept + tangent + own


def test_parameters_that_are_gathered_again_live_two_at_a_time() -> None:
    """In the last backward but one: its layer, the buffer of the first layer, and the rest as above."""
    parts, whole, gathering, buffer, gradients, kept, tangent, own = 250, 100, 100, 100, 150, 20, 8, 130
    by_hand = parts + whole + gathering + buffer + gradients + kept + tangent + own
    assert peak_bytes(of_fsdp2(reshards=True), MEMORY) == by_hand


def test_ddp_holds_parameters_buckets_and_gradients() -> None:
    """Parameters and buckets live all the time, and gradients as they are there; in the last backward most of them."""
    bucket = changed(ALL_REDUCE, bytes=BYTES)
    order = [step for number, backward in enumerate(reversed(BACKWARDS)) for step in (backward, number)]
    parameters, buckets, gradients, kept, tangent, own = 500, 500, 400, 10, 8, 130
    by_hand = parameters + buckets + gradients + kept + tangent + own
    assert peak_bytes(recorded([bucket] * LAYERS, [*FORWARDS, *order]), MEMORY) == by_hand


def test_layers_that_share_a_graph_keep_each_their_own() -> None:
    """A block that is compiled once runs five times: its forward keeps as much in each run, and a backward lets go of one."""
    bucket = changed(ALL_REDUCE, bytes=0)
    memory = {**MEMORY, PLACES[0]: GraphMemory(12, 0, KEPT, 8), PLACES[LAYERS]: GraphMemory(130, 0, 0, 0)}
    step = recorded([bucket], [*[FORWARDS[0]] * LAYERS, *[BACKWARDS[0]] * LAYERS, 0])
    assert peak_bytes(step, memory) == LAYERS * KEPT + 130


def test_a_backward_frees_what_its_forward_kept_as_it_runs() -> None:
    """What it frees counts in its own peak, and not beside it."""
    bucket = changed(ALL_REDUCE, bytes=0)
    memory = {**MEMORY, PLACES[0]: GraphMemory(12, 0, KEPT, 8), PLACES[LAYERS]: GraphMemory(130, KEPT, 0, 0)}
    assert peak_bytes(recorded([bucket], [FORWARDS[0], BACKWARDS[0], 0]), memory) == 130


def test_a_graph_of_unknown_memory_leaves_the_step_unknown() -> None:
    """So does a step in which hooks send nothing."""
    lacking = {place: memory for place, memory in MEMORY.items() if place != PLACES[0]}
    assert peak_bytes(of_fsdp2(reshards=True), lacking) is None
    assert peak_bytes(recorded([changed(ALL_REDUCE, sender="Python")], [-1, -6, 0]), MEMORY) is None
