"""Autotuning: one line per choice, the fastest first, and the table of all of a trace."""

from __future__ import annotations

from explorer.model.values import Event, plain
from explorer.stages.inductor.autotune import STAGE, Choice, readable
from explorer.tracing.traced.trace import trace_of_events


def choice(name: str, ms: float | None, fastest: bool = False, config: str = "") -> Choice:
    return Choice(choice=name, kind="TritonTemplateCaller", config=config, ms=ms, fastest=fastest, grid=(), source="")


TIMED = [choice("mm", 0.2), choice("triton_mm_3", None), choice("triton_mm_1", 0.1, True, "BLOCK_M=64")]
INPUTS = ["bfloat16[512, 64]", "bfloat16[64, 32]"]


def event(choices: list[Choice]) -> Event:
    return Event("autotune", 0.0, "0/0", "inference", plain({"operation": "mm", "inputs": INPUTS, "choices": choices}))


def test_a_choice_is_a_line_with_its_time_name_and_config() -> None:
    """A choice that was not timed says so where the others have milliseconds."""
    assert readable(TIMED[2]) == "    0.1000 ms  triton_mm_1  BLOCK_M=64"
    assert readable(TIMED[1]).split("  ")[-1] == "triton_mm_3" and "not timed" in readable(TIMED[1])


def test_the_fastest_stands_first_and_what_has_no_time_last() -> None:
    """Below the operation and its inputs the choices stand by their times."""
    made = STAGE.artifact_of(event(TIMED), "id")
    assert made.lines[0] == "mm(bfloat16[512, 64], bfloat16[64, 32])"
    assert [row["choice"] for row in made.data["choices"]] == ["triton_mm_1", "mm", "triton_mm_3"]


def test_where_nothing_was_timed_the_order_is_inductors() -> None:
    """For a GPU you don't have the assumed one is first and the others stand as Inductor lists them."""
    made = STAGE.artifact_of(event([choice("mm", None, True), choice("b", None), choice("a", None)]), "id")
    assert [row["choice"] for row in made.data["choices"]] == ["mm", "b", "a"]


def test_all_choices_of_a_trace_are_one_table() -> None:
    """`t.inductor.choices.table` has a row a choice with frame, graph, operation and inputs; the summary names the fastest."""
    trace = trace_of_events([event(TIMED), event([choice("as it is", 2.0), choice("padded", 1.0, True)])])
    assert [(row["operation"], row["choice"]) for row in trace.inductor.choices.table if row["fastest"]] == [
        ("mm", "triton_mm_1"),
        ("mm", "padded"),
    ]
    assert trace.inductor.choices.table[0]["inputs"] == tuple(INPUTS) and trace.inductor.choices.table[0]["graph"] == "inference"
    assert [row["changes"] for row in trace.stages] == ["mm: triton_mm_1, mm: padded"]
