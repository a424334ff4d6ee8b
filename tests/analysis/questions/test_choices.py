"""The choices of Inductor: every candidate with its config, and each one's ladder on request, without a GPU."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import explorer
from explorer import Trace
from explorer.capture.observe.autotuning import choice_source, choices_of
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.ladders import Ladders
from explorer.lab.live.protocol import live_of
from explorer.model.values import Event, plain
from explorer.tracing.traced.trace import trace_of_events
from explorer.types import Choice
from tests.facts import says, untold

TUNED = {"target": "h100", "mode": "max-autotune-no-cudagraphs"}
HALF = torch.bfloat16


def R(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, dtype=dtype)


def flex() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from torch.nn.attention.flex_attention import flex_attention

    def f(q: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score * 2)

    return f, (R(1, 2, 128, 64, dtype=HALF),)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32))


#: Each program: what makes the function and its arguments, and how it is traced.
PROGRAMS: dict[str, tuple[Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]], dict[str, Any]]] = {
    "dynamic": (lambda: (lambda a, b: F.relu(a @ b), (R(130, 64), R(64, 96))), {**TUNED, "dynamic": True}),
    "bmm": (lambda: (lambda a, b: torch.bmm(a, b) + 1, (R(4, 128, 64), R(4, 64, 96))), TUNED),
    "convolution": (lambda: (nn.Conv2d(16, 32, 3, padding=1), (R(2, 16, 28, 28),)), TUNED),
    "flex_attention": (flex, TUNED),
    "long": (lambda: (lambda a, b: a @ b, (R(32, 16384, dtype=HALF), R(16384, 32, dtype=HALF))), TUNED),
    "mlp": (lambda: (mlp(), (R(64, 64),)), {"target": "h100", "mode": "max-autotune"}),
    "amd": (lambda: (lambda a, b: F.relu(a @ b), (R(128, 64), R(64, 96))), {**TUNED, "target": "mi300x"}),
}


@pytest.fixture(scope="module")
def traced(tuned: Callable[[str], Trace]) -> Callable[[str], Trace]:
    """The trace of a program, made once: compiled, since a choice goes down its ladder in the process that made it.

    That of "mm", a product with an epilogue, is recorded with the choices' sources.
    """
    made = {"mm": tuned("views/tuned_mm-torch2.13-h100")}

    def trace(name: str) -> Trace:
        if name not in made:
            make, how = PROGRAMS[name]
            function, arguments = make()
            with torch.no_grad():
                made[name] = explorer.trace(function, *arguments, **how)
            assert made[name].failures == ()
        return made[name]

    return trace


def templates(trace: Trace) -> list[Choice]:
    """The choices that are Triton templates."""
    return [
        trace.inductor.choices[n] for n, row in enumerate(trace.inductor.choices.table) if row["kind"] == "TritonTemplateCaller"
    ]


#: The settings that a template of each operation says, and the instruction of its product.
OPERATIONS = [
    ("mm", {"BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "ALLOW_TF32", "num_warps", "num_stages"}, "tt.dot"),
    ("dynamic", {"BLOCK_M", "BLOCK_N", "BLOCK_K", "EVEN_K", "num_warps", "num_stages"}, "tt.dot"),
    ("bmm", {"BLOCK_M", "BLOCK_N", "BLOCK_K", "ALLOW_TF32", "num_warps", "num_stages"}, "tt.dot"),
    ("convolution", {"BLOCK_M", "KERNEL_H", "STRIDE_W", "PADDING_H", "num_warps", "num_stages"}, "tt.dot"),
    ("flex_attention", {"BLOCK_M", "BLOCK_N", "QK_HEAD_DIM", "SM_SCALE", "num_warps", "num_stages"}, "tt.dot"),
    ("mlp", {"BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"}, "tt.dot"),
]


@pytest.mark.compile
@pytest.mark.parametrize(("name", "settings", "product"), OPERATIONS, ids=[row[0] for row in OPERATIONS])
def test_each_template_of_an_operation_has_its_settings_and_its_ladder(
    traced: Callable[[str], Trace], name: str, settings: set[str], product: str
) -> None:
    """Every candidate is listed with its config; one that lost goes down to PTX, with the warps that its config says."""
    trace = traced(name)
    found = templates(trace)
    assert len(found) > 5 and all(settings <= set(c.config) and c.ms is None for c in found)
    assert len({str(c._row["config"]) for c in found if c.operation == found[0].operation}) > 1
    lost = next(c for c in found if not c.taken)
    assert not lost.why and lost.language == "triton" and len(lost.grid) == 3 and min(lost.grid) > 0
    assert f"num_warps={lost.config['num_warps']}" in lost.source
    assert product in lost.text("ttir") and f'"ttg.num-warps" = {lost.config["num_warps"]}' in lost.text("ttgir")
    assert ".entry" in lost.text("ptx") and lost.resources["registers"] > 0
    assert lost.resources["num_stages"] == lost.config["num_stages"]


@pytest.mark.compile
def test_a_template_goes_down_to_sass_and_through_each_pass(traced: Callable[[str], Trace]) -> None:
    """SASS, instruction mix, binary and MLIR passes of a choice are made as those of a kernel."""
    trace = traced("mm")
    choice = max(templates(trace), key=lambda c: c.config["BLOCK_M"] * c.config["BLOCK_N"])
    assert choice.stages == ("kernel", "ttir", "ttgir", "llir", "ptx", "sass")
    assert "HGMMA" in choice.text("sass") and choice.instruction_mix()["tensor core"] > 0 and choice.binary()[:4] == b"\x7fELF"
    assert choice.resources["occupancy"]["blocks"] > 0
    assert any("Pipeline" in row["name"] and row["changed"] for row in choice.passes())
    other = next(c for c in templates(trace) if c.config["num_stages"] != choice.config["num_stages"])
    assert other.resources["shared"] != choice.resources["shared"]


@pytest.mark.compile
def test_an_amd_template_goes_down_to_amdgcn(traced: Callable[[str], Trace]) -> None:
    """For an AMD GPU the ladder of a choice ends in AMDGCN."""
    choice = templates(traced("amd"))[-1]
    assert choice.stages[-1] == "amdgcn" and "s_endpgm" in choice.text("amdgcn") and sum(choice.instruction_mix().values()) > 10
    with pytest.raises(explorer.errors.InputError, match=says("'sass'", "'amdgcn'")):
        choice.text("sass")


@pytest.mark.compile
def test_nothing_is_compiled_until_it_is_asked_for() -> None:
    """A trace keeps its choices' sources and compiles none; one that is asked for twice is compiled once."""
    trace = explorer.trace(lambda a, b: a @ b, R(64, 64), R(64, 32), **TUNED)
    ladders = live_of(trace).ladders
    assert ladders.sources and not ladders.choices
    choice = templates(trace)[0]
    assert choice.source and choice.stages and not ladders.choices
    assert choice.text("ttir") and choice.text("ptx") and len(ladders.choices) == 1


@pytest.mark.compile
def test_equal_sources_are_kept_once() -> None:
    """Products of equal sizes have choices of their own, whose equal sources are kept and compiled once."""
    twice = explorer.trace(lambda a, b, c: (a @ b, c @ b), R(64, 64), R(64, 64), R(64, 64), **TUNED)
    found = [row["source"] for row in twice.inductor.choices.table if row["kind"] == "TritonTemplateCaller"]
    assert len(found) == 2 * len(set(found)) == 2 * len(live_of(twice).ladders.sources)


# What was taken, and why -------------------------------------------------------------------------------------------------


def test_what_was_assumed_the_fastest_and_what_was_taken_are_told_apart(traced: Callable[[str], Trace]) -> None:
    """The library is assumed to be the fastest; where an epilogue follows, the template in the code is the one taken."""
    trace = traced("mm")
    (fastest,) = [c for c in trace.inductor.choices if c.fastest]
    (taken,) = [c for c in trace.inductor.choices if c.taken]
    assert fastest.name == "mm" and not untold(fastest.why, "assumed", "timed", "library", "19 of 26")
    assert taken.name.startswith("triton_mm") and not untold(taken.why, "assumed", "fused")
    (kernel,) = trace.kernels
    assert all(f"{n} : tl.constexpr = {taken.config[n]}" in kernel.source for n in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    assert all(f"{n} : tl.constexpr = {taken.config[n]}" in taken.source for n in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    assert "maximum" in kernel.source and "maximum" not in taken.source
    (line,) = (line for line in trace.find("autotune")[0].lines if f"{taken.name}  {taken._row['config']}  " in line)
    assert not untold(line, "taken", "assumed") and any("mm: triton_mm" in row["changes"] for row in trace.stages)


def test_a_product_without_an_epilogue_takes_what_is_the_fastest(zoo: Callable[[str], Trace]) -> None:
    """The library's kernel is both, and the trace has no Triton kernel though there are templates."""
    trace = zoo("product tuned h100")
    assert not trace.kernels and trace.inductor.choices["mm"].fastest and trace.inductor.choices["mm"].taken and templates(trace)


@pytest.mark.compile
def test_what_no_library_does_says_that_the_first_was_taken(traced: Callable[[str], Trace]) -> None:
    """Flex attention has templates only: no measurement of libraries is given as the reason."""
    trace = traced("flex_attention")
    (taken,) = [c for c in templates(trace) if c.taken]
    assert taken._row == trace.inductor.choices.table[0] and not untold(taken.why, "first", "library")
    assert untold(taken.why, "H200"), "where libraries were measured"
    (why,) = {row["why"] for row in trace.inductor.assumptions if row["where"].startswith("flex_attention")}
    assert not untold(why, "first", "library") and untold(why, "H200")


def test_measured_choices_say_so(traced: Callable[[str], Trace]) -> None:
    """The fastest says among how many it was timed; a template that a fusion settled on later is the one taken."""
    rows = [
        {
            "choice": name,
            "kind": "TritonTemplateCaller",
            "config": "BLOCK_M=64, ACC='tl.float32'",
            "ms": ms,
            "fastest": ms == 1.0,
            "why": "measured the fastest of 3" if ms == 1.0 else "",
            "grid": [1, 1, 1],
            "source": "",
        }
        for name, ms in (("mm", 1.0), ("triton_mm_1", 2.0), ("triton_mm_2", None))
    ]
    place = {"frame": "0/0", "graph": "inference"}
    timed = Event("autotune", 1.0, **place, data=plain({"operation": "mm", "inputs": [], "choices": rows}))
    finals = [
        Event("autotune_taken", 2.0 + n, **place, data=plain({"choice": name, "why": "settled"}))
        for n, name in enumerate(("triton_mm_2", "triton_mm_1"))
    ]
    alone, fused = trace_of_events([timed]), trace_of_events([timed, *finals])
    assert [c.taken for c in alone.inductor.choices] == [True, False, False]
    assert alone.inductor.choices["mm"].why == "measured the fastest of 3" and "1.0000 ms" in repr(alone.inductor.choices["mm"])
    assert fused.inductor.choices["triton_mm_1"].taken and fused.inductor.choices["triton_mm_1"].why == "settled"
    assert not fused.inductor.choices["triton_mm_2"].taken and not fused.inductor.choices["triton_mm_2"].why
    elsewhere = trace_of_events(
        [timed, Event("autotune_taken", 2.0, "0/0", "backward", plain({"choice": "triton_mm_1", "why": ""}))]
    )
    assert elsewhere.inductor.choices["mm"].taken
    assert alone.inductor.choices[1].config == {"BLOCK_M": 64, "ACC": "tl.float32"}


def test_among_templates_alone_the_likeliest_is_taken(zoo: Callable[[str], Trace]) -> None:
    """Without a library to choose, the template whose tiles fill the GPU counts as the fastest, and the reason says so."""
    trace = zoo("templates alone h100")
    (taken,) = [c for c in templates(trace) if c.taken]
    assert taken.fastest and not untold(taken.why, "19 of 30")
    assert (taken.config["BLOCK_M"], taken.config["BLOCK_N"]) in ((128, 128), (128, 64), (64, 128))
    names = [row["choice"] for row in trace.inductor.choices.table if not row["fastest"]]
    assert names == sorted(names, key=lambda name: int(name.rpartition("_")[2])), "the others stand as Inductor lists them"


# What has no ladder ------------------------------------------------------------------------------------------------------


@pytest.mark.compile
def test_a_graph_that_is_a_choice_shows_itself(traced: Callable[[str], Trace]) -> None:
    """A product with a long inner size may be split: that choice is an FX graph, and says that it has no ladder."""
    trace = traced("long")
    graph = next(
        trace.inductor.choices[n] for n, row in enumerate(trace.inductor.choices.table) if row["kind"] == "SubgraphChoiceCaller"
    )
    assert graph.language == "fx" and "bmm" in graph.source and graph.stages == ("kernel",) and graph.grid == ()
    with pytest.raises(explorer.errors.InputError, match=says(graph.name, "graph", "text('kernel')")):
        graph.text("ttgir")


class Wrapper:
    """A choice in a wrapper that prepares its inputs, as Inductor has it for C++ templates."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


def test_a_template_in_cpp_shows_its_source() -> None:
    """What is in a wrapper is told by its own kind; its C++ is the text, and there is no ladder below it."""
    inner = SimpleNamespace(name="cpp_0", bmreq=SimpleNamespace(kernel_name="cpp_fused", source_code="void kernel() {}"))
    choice = Wrapper(inner)
    data = choices_of("bmm", [], {choice: 1.5}, "measured the fastest of 1")
    (row,) = data.choices
    assert row.kind == "SimpleNamespace" and row.grid == () and row.source
    ladders = Ladders().with_choices([Event("choice_source", 0.0, data=choice_source(choice))])
    made = trace_of_events([Event("autotune", 0.0, "0/0", data=data)], live=LiveFunction(None, ladders=ladders)).inductor.choices[
        0
    ]  # type: ignore[arg-type]
    assert made.language == "cpp" and made.source == "void kernel() {}" and made.stages == ("kernel",)
    with pytest.raises(explorer.errors.InputError, match=says("cpp_0", "C++", "template", "text('kernel')")):
        made.text("ttir")


def test_a_wrong_choice_says_what_there_is(zoo: Callable[[str], Trace]) -> None:
    """A number or a name that no choice has is an InputError that says what would be right."""
    trace = zoo("product tuned h100")
    with pytest.raises(explorer.errors.InputError, match=says("999", "0", str(len(trace.inductor.choices.table) - 1))):
        trace.inductor.choices[999]
    with pytest.raises(explorer.errors.InputError, match=says("'triton_mm'", "'mm'")):
        trace.inductor.choices["triton_mm"]


def test_a_library_call_and_a_trace_without_choices_say_so(zoo: Callable[[str], Trace]) -> None:
    """A library call has no source; without autotuning there are no choices, and the message says how to have them."""
    library = zoo("product tuned h100").inductor.choices["mm"]
    assert library.stages == () and library.config == {} and library.language == ""
    for ask in (lambda: library.source, lambda: library.text("ptx"), library.passes, lambda: library.resources):
        with pytest.raises(explorer.errors.InputError, match=says("mm", "library")):
            ask()
    with pytest.raises(explorer.errors.InputError, match="mode='max-autotune'"):
        Trace().inductor.choices[0]


def test_a_name_that_several_operations_have_is_refused_with_its_rows() -> None:
    """Two products may both have the library's call: that name is refused with the rows' numbers, a name of one row is not."""
    row = {"kind": "ExternKernelCaller", "config": "", "ms": None, "fastest": False, "why": "", "grid": [], "source": ""}
    names = ("addmm", "triton_mm_0"), ("triton_mm_1", "addmm")
    timed = [
        Event("autotune", float(n), "0/0", "forward", plain({"operation": "addmm", "inputs": [], "choices": choices}))
        for n, choices in enumerate([{**row, "choice": name, "fastest": not n} for n, name in enumerate(both)] for both in names)
    ]
    trace = trace_of_events(timed)
    with pytest.raises(explorer.errors.InputError, match=says("'addmm'", "row", "0", "3")):
        trace.inductor.choices["addmm"]
    assert trace.inductor.choices["triton_mm_1"]._row == trace.inductor.choices.table[2]


def test_a_loaded_trace_keeps_the_rows_and_says_what_the_rest_needs(traced: Callable[[str], Trace]) -> None:
    """Settings, verdicts and reasons are saved; the sources are not, and asking says that the process is needed."""
    trace = traced("mm")
    loaded = pickle.loads(pickle.dumps(trace))
    assert loaded == trace and list(loaded.inductor.choices.table) == list(trace.inductor.choices.table)
    choice = loaded.inductor.choices[1]
    assert choice.config == trace.inductor.choices[1].config and repr(choice) == repr(trace.inductor.choices[1])
    for ask in (lambda: choice.source, lambda: choice.text("ttgir"), lambda: choice.resources, choice.passes):
        with pytest.raises(explorer.errors.LiveError, match=says("process", "explorer.trace")):
            ask()
    with pytest.raises(explorer.errors.InputError, match=says("mm", "library")):
        loaded.inductor.choices["mm"].text()
