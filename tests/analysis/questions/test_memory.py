"""Memory: what the output code says of buffers, read from recordings of every torch and from code written by hand."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import explorer
from explorer.analysis.questions import memory
from explorer.analysis.questions.memory import element_size, memory_figures
from explorer.model.records import blank
from explorer.model.trace_data import artifact_of, source_line
from explorer.model.values import Artifact, plain
from explorer.model.wording import readable_bytes
from explorer.stages.inductor.scheduler_ir import SchedulerNode
from explorer.tracing.traced import Trace
from tests.facts import untold

Replayed = Callable[[str], Trace]
RECORDINGS = sorted((Path(__file__).parents[2] / "data").glob("*.events.json.gz"))
NAMES = [path.name.removesuffix(".events.json.gz") for path in RECORDINGS]
TRAINED = pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("mlp_train")])
ATTENTION = pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("attention")])
RECOMPILED = pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("recompile")])


def code(body: str, declared: str = "", graph: str = "inference") -> Trace:
    """A trace whose only artifact is output code with this body of `call`."""
    lines = ["def call(args):", *(f"    {line}" for line in body.strip().splitlines()), "def get_args():", "    pass"]
    lines += [f"    {line}" for line in declared.splitlines()]
    text = "\n".join(lines)
    return Trace(artifacts=(Artifact(f"0/0:output_code:{graph}", "output_code", "0/0", graph, "c", "python", text),))


TWO_TEMPORARIES = """
x, = args
args.clear()
buf0 = empty_strided_cuda((256, ), (1, ), torch.float32)
k0.run(x, buf0, 256)
del x
buf1 = buf0; del buf0  # reuse
k1.run(buf1, 256)
buf2 = empty_strided_cuda((4, 8), (8, 1), torch.bfloat16)
k2.run(buf1, buf2, 32)
del buf1
return (buf2, )
"""


# By hand -----------------------------------------------------------------------------------------------------------


def test_a_reused_buffer_is_one_piece_of_memory() -> None:
    """`buf1 = buf0; del buf0` is one row with both names, born once and freed once; the program holds its argument."""
    rows = code(TWO_TEMPORARIES, "x = rand_strided((256, ), (1, ), device='cuda:0', dtype=torch.float32)").memory.table
    assert [(r["names"], r["kind"], r["bytes"], r["born"], r["last_use"], r["freed"]) for r in rows] == [
        (("x",), "input", 1024, 2, 5, None),
        (("buf0", "buf1"), "temporary", 1024, 4, 10, 11),
        (("buf2",), "output", 64, 9, 12, None),
    ]
    assert [r["made_by"] for r in rows] == ["", "k0", "k2"]
    assert [r["reuses"] for r in rows] == [0, 1, 0]


def test_the_peak_is_where_most_is_live() -> None:
    """The argument, which the program holds, and buf0 and buf2; the timeline goes down to the argument and the output's 64."""
    memory = code(TWO_TEMPORARIES, "x = rand_strided((256, ), (1, ), device='cuda:0', dtype=torch.float32)").memory
    assert [(r["names"][0], r["share"], r["peak_line"]) for r in memory.peak] == [
        ("x", 1024 / 2112, 9),
        ("buf0", 1024 / 2112, 9),
        ("buf2", 64 / 2112, 9),
    ]
    assert [(r["line"], r["live"], r["allocated"]) for r in memory.timeline] == [
        (2, 1024, 0),
        (4, 2048, 1024),
        (9, 2112, 1088),
        (11, 1088, 64),
    ]
    assert not untold(repr(memory), "2.062 KiB", "line 9")


def test_a_view_keeps_its_memory_alive() -> None:
    """A reinterpreted tensor holds the memory after the first name is gone."""
    body = """
buf0 = empty_strided_cuda((8, ), (1, ), torch.int64)
k0.run(buf0)
buf1 = reinterpret_tensor(buf0, (2, 4), (4, 1), 0)
del buf0
k1.run(buf1)
del buf1
return ()
"""
    (row,) = code(body).memory.table
    assert (row["names"], row["bytes"], row["freed"]) == (("buf0", "buf1"), 64, 7)


def test_a_partition_is_read_where_it_is_called() -> None:
    """With CUDA graphs the code is in functions of its own, whose arguments come in a list."""
    text = """
def partition_0(args):
    x, = args
    args.clear()
    buf0 = empty_strided_cuda((2, ), (1, ), torch.float32)
    k0.run(x, buf0)
    del x
    return (buf0, )
class Runner:
    def call(self, args):
        x, = args
        partition0_args = [x]
        del x
        (buf0,) = self.partitions[0](partition0_args)
        del partition0_args
        return (buf0, )
def get_args():
    x = rand_strided((4, ), (1, ), device='cuda:0', dtype=torch.float32)
"""
    memory = Trace(artifacts=(Artifact("a", "output_code", "0/0", "inference", "c", "python", text),)).memory
    assert [(r["names"], r["kind"], r["freed"]) for r in memory.table] == [(("x",), "input", None), (("buf0",), "output", None)]
    assert sum(r["bytes"] for r in memory.peak) == 24


def test_a_size_that_is_not_known_gives_no_bytes() -> None:
    """A symbol without a value leaves the bytes open; nothing is guessed."""
    body = "buf0 = empty_strided_cuda((u0, 4), (4, 1), torch.float32)\nreturn (buf0, )"
    (row,) = code(body).memory.table
    assert row["bytes"] is None and row["size"] == ("u0", "4")


def test_code_that_is_no_python_gives_no_rows() -> None:
    """The C++ wrapper is not read; a trace without output code says so."""
    cpp = Trace(artifacts=(Artifact("a", "output_code", "0/0", "inference", "c", "cpp", "int main() { return 0; }"),))
    assert cpp.memory.table == ()
    (row,) = cpp.memory.unread
    assert (row["frame"], row["graph"], row["artifact"]) == ("0/0", "inference", "a") and not untold(
        row["why"], "C++", "cpp_wrapper"
    )
    assert cpp.memory.summary() == f"0/0 inference: {row['why']}" in repr(cpp.memory)


def test_a_wrapper_in_cpp_does_not_hide_the_memory_of_another_graph() -> None:
    """Each graph is answered for by itself."""
    python = code("buf0 = empty_strided_cuda((8, 4), (4, 1), torch.float32)\nreturn (buf0, )").artifacts[0]
    cpp = Artifact("a", "output_code", "1/0", "inference", "c", "cpp", "int main() { return 0; }")
    memory = Trace(artifacts=(cpp, python)).memory
    assert len(memory.unread) == 1 and len(memory.table) == 1
    first, second = memory.summary().split("\n")
    assert not untold(first, "1/0", "inference", "cpp_wrapper") and not untold(second, "128 B")


def test_several_graphs_have_a_total() -> None:
    """Behind the graphs stand the largest peak of one and all that is saved; a graph alone is its own total."""
    text = "buf0 = empty_strided_cuda((8, 4), (4, 1), torch.float32)\nreturn (buf0, )"
    (one,) = code(text).artifacts
    (other,) = code(text.replace("(8, 4)", "(16, 4)")).artifacts
    several = Trace(artifacts=(one, replace(other, id="b", frame="1/0"))).memory
    assert several.summary().split("\n")[-1] == "all graphs: 256 B at the largest peak"
    assert "all graphs" not in code(text).memory.summary()


def test_a_trace_without_output_code_says_so() -> None:
    """The message says that there is no output code."""
    assert Trace().memory.unread == ()
    assert not untold(repr(Trace().memory), "no output code")


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("torch.float32", 4),
        ("torch.bfloat16", 2),
        ("torch.int64", 8),
        ("torch.bool", 1),
        ("torch.uint8", 1),
        ("torch.complex64", 8),
        ("torch.float8_e4m3fn", 1),
        ("torch.half", 2),
    ],
)
def test_element_sizes(dtype: str, size: int) -> None:
    """The bits in torch's names, and the names without."""
    assert element_size(dtype) == size


def test_bytes_are_readable() -> None:
    """Powers of 1024."""
    assert [readable_bytes(n) for n in (0, 512, 1536, 3 << 20)] == ["0 B", "512 B", "1.5 KiB", "3 MiB"]


# Recorded ----------------------------------------------------------------------------------------------------------


@TRAINED
def test_what_forward_keeps_is_what_backward_takes(name: str, replayed: Replayed) -> None:
    """Four tensors are kept, two of them inputs; backward's inputs beside the tangent have the same sizes in the same order."""
    memory = replayed(name).memory
    saved = memory.saved
    backward = [r for r in memory.table.where(graph="backward") if r["kind"] == "input" and r["names"] != ("tangents_1",)]
    assert len(saved) == 4 and [r["kind"] for r in saved].count("input") == 2
    assert sorted(r["bytes"] for r in saved) == sorted(r["bytes"] for r in backward)


@TRAINED
def test_a_view_lends_no_line_to_what_is_computed_of_it(name: str, replayed: Replayed) -> None:
    """A product reads a view that another line made, as layers share them: its buffer is of its own line alone."""
    trace = replayed(name)

    def elsewhere(node: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**node, "line": 99999} if re.match(r"aten\.(view|permute|t)\.", str(node["target"])) else node

    graphs = {a.id: plain({**a.data, "nodes": tuple(map(elsewhere, a.nodes))}) for a in trace.find("post_grad")}
    moved = replace(trace, artifacts=tuple(replace(a, data=graphs.get(a.id, a.data)) for a in trace.artifacts))
    rows, others = trace.memory.table.where(graph="forward"), moved.memory.table.where(graph="forward")
    computed = [n for n, row in enumerate(rows) if any(re.match(r"addmm|mm", node) for node in row["nodes"])]
    assert computed and [others[n]["lines"] for n in computed] == [rows[n]["lines"] for n in computed]


@TRAINED
def test_each_buffer_leads_to_the_users_lines(name: str, replayed: Replayed) -> None:
    """The buffer of the first linear layer, in forward and as backward's input, leads to the line that calls it."""
    trace = replayed(name)
    (first,) = [r for r in trace.memory.table.where(graph="forward") if r["names"] == ("buf0",)]
    (again,) = [r for r in trace.memory.table.where(graph="backward") if r["names"] == ("addmm",)]
    line = next(iter(again["lines"]))
    assert line in first["lines"] and first["nodes"][-1] == "addmm"
    assert "self.up(x)" in _line(trace, line)


def _line(trace: Trace, place: str) -> str:
    file, _, number = place.rpartition(":")
    found = source_line(trace, file, int(number))
    assert found is not None
    return artifact_of(trace, found[0]).lines[found[1] - 1]


@ATTENTION
def test_the_result_of_a_library_call_has_its_size(name: str, replayed: Replayed) -> None:
    """Attention's output is taken out of a tuple: the IR states its layout, and the operator is named."""
    rows = replayed(name).memory.table
    (mixed,) = [r for r in rows if "attention" in r["made_by"]]
    assert mixed["bytes"] == 2 * 4 * 8 * 8 * 4 and mixed["dtype"] == "float32"


@RECOMPILED
def test_a_dynamic_size_has_the_bytes_of_this_call(name: str, replayed: Replayed) -> None:
    """The third compile has a symbol for 12 elements; each compile is read by itself."""
    memory = replayed(name).memory
    assert [r["bytes"] for f in ("0/0", "0/1", "0/2") for r in memory.table.where(frame=f, kind="output")] == [
        32,
        64,
        48,
    ]


# Against storages that are there -----------------------------------------------------------------------------------------


def attention(x: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(torch.sin(x), torch.cos(x), torch.tanh(x)).sum(-1)


def complex_numbers(x: Any) -> Any:
    return (torch.complex(x, x) * 2).abs() @ x


def view_of_a_result(x: Any) -> Any:
    return torch.view_as_real(torch.polar(x, x)).sum(-1)


def untaken_result(x: Any) -> Any:
    return torch.topk(x.sin(), 12)[0] + 1


def several_results(x: Any) -> Any:
    return torch.linalg.qr(x.cos())[0] * 2


def another_overload(x: Any) -> Any:
    return torch.sort(x.repeat(1, 128), 1)[0] * 2  # lowered to aten.sort.stable, which is no node of the graph


def most_alive(run: Callable[[], object]) -> int:
    """The most bytes of distinct storages that the local names of the generated `call`, and its caller, hold before any line.

    The caller holds what it gave. What it gave is kept here, so that no address is used twice.
    """
    seen = [0]
    given: list[torch.Tensor] = []

    def storages(value: Any) -> dict[int, int]:
        if isinstance(value, torch.Tensor):
            return {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes()}
        parts = value if isinstance(value, (tuple, list)) else ()
        return {place: size for part in parts for place, size in storages(part).items()}

    def line(frame: FrameType, event: str, argument: object) -> Any:
        held = tuple(value for name, value in frame.f_locals.items() if name != "self")
        seen.append(sum(storages((held, tuple(given))).values()))
        return line

    def call(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_name != "call" or "runner" not in frame.f_globals:
            return None
        given.extend(value for value in frame.f_locals["args"] if isinstance(value, torch.Tensor))
        return line

    before = sys.gettrace()
    sys.settrace(call)
    try:
        run()
    finally:
        sys.settrace(before)
    return max(seen)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex operators")
@pytest.mark.parametrize(
    "function", [attention, complex_numbers, view_of_a_result, untaken_result, several_results, another_overload]
)
def test_the_peak_is_that_of_the_storages_that_are_there(function: Callable[[Any], Any]) -> None:
    """The generated wrapper runs, its kernels interpreted: the most bytes alive at a line are those that the table says.

    The test runs what it compiled. A library call's result is there before its arguments are freed, also the part of it that
    nobody takes; a view is not twice.
    """
    pytest.importorskip("triton")
    shape = (1, 2, 16, 16) if function is attention else (16, 16)
    trace = explorer.trace(function, torch.rand(shape), target="h100")
    peak = max(row["live"] for row in trace.memory.timeline)
    assert peak == most_alive(trace.check) == memory_figures(trace.memory).peak
    assert not untold(repr(trace.memory), readable_bytes(peak))


def test_the_results_of_a_call_live_until_their_last_name_goes() -> None:
    """Results are there from the call on, under the names that take them; one that nothing takes goes with the tuple."""
    body = """
buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)
buf1 = torch.ops.aten.two.default(buf0)
del buf0
buf2 = buf1[0]
buf3 = buf1[1]
del buf1
del buf3
return (buf2, )
"""
    layout = {"dtype": "torch.float32", "size": ("4",), "stride": ("1",)}
    nodes = {"nodes": (blank(SchedulerNode, name="op1", layouts={"buf2": layout, "buf3": layout}),)}
    ir = Artifact("ir", "ir_post_fusion", "0/0", "inference", "IR", "text", "", data=nodes)
    made = code(body)
    memory = Trace(artifacts=(*made.artifacts, ir)).memory
    assert [(r["names"], r["born"], r["freed"], r["kind"]) for r in memory.table] == [
        (("buf0",), 2, 4, "temporary"),
        (("buf2",), 3, None, "output"),
        (("buf3",), 3, 8, "temporary"),
    ]
    assert max(row["live"] for row in memory.timeline) == 48


@pytest.mark.parametrize("name", ["encoder h100", "encoder training h100"])
def test_what_a_library_computes_is_of_the_line_that_called_it(name: str, zoo: Callable[[str], Trace]) -> None:
    """A compiled module of torch's own has no user line inside; the line that calls it stands for all that it holds."""
    trace = zoo(name)
    rows = trace.memory.table
    held = [row for row in rows if row["nodes"] and not all(re.match("(arg|primals_|tangents_)", name) for name in row["nodes"])]
    (place,) = {line for row in held for line in row["lines"]}
    assert len(held) > 5 and {row["lines"] for row in held} == {(place,)}
    file, _, line = place.rpartition(":")
    assert "explorer.trace(function, *arguments" in Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert not any(row["lines"] for row in rows if row not in held)


def test_a_called_library_takes_no_line_of_the_program_away(zoo: Callable[[str], Trace]) -> None:
    """Where a line of the frame's own calls the library, that line is what its values are of."""
    trace = zoo("inner h100")
    (line,) = {line for row in trace.memory.table for line in row["lines"]}
    assert "return self.inner(x)" in _line(trace, line)


def test_sizes_that_only_the_run_knows_are_named_beside_the_peak() -> None:
    """What is not known is not counted as nothing: the peak is then the least, and the buffer is named with its size."""
    body = """
buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)
buf1 = empty_strided_cuda((u0, 4), (4, 1), torch.float32)
return (buf0, buf1, )
"""
    memory = code(body).memory
    assert not untold(repr(memory), "16 B", "at least", "buf1", "u0×4")
    assert [row["unsized"] for row in memory.timeline] == [0, 1]


# What library calls take inside ----------------------------------------------------------------------------------------

SORTED = """
x, = args
buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)
extern_kernels.mm(x, x, out=buf0)
buf1 = torch.ops.aten.sort.stable(buf0, stable=False)
del buf0
buf2 = buf1[0]
del buf1
return (buf2, )
"""


def with_calls(trace: Trace, *calls: tuple[int, int, int]) -> Trace:
    """The trace, with what its library calls allocated: line, the most at once, and the results."""
    measured = tuple({"line": line, "peak": peak, "kept": kept} for line, peak, kept in calls)
    return replace(trace, artifacts=(replace(trace.artifacts[0], data=plain({"file": "", "calls": measured})),))


def test_scratch_memory_lives_while_its_call_runs() -> None:
    """It is a row of its own until the next line, and counts at the peak; so do results that no layout states."""
    memory = with_calls(code(SORTED), (4, 100, 0), (5, 60, 48)).memory
    assert [(r["names"], r["kind"], r["bytes"], r["born"], r["freed"], r["made_by"]) for r in memory.table[1:]] == [
        (("scratch of line 4",), "scratch", 100, 4, 5, "extern_kernels.mm"),
        (("buf1", "buf2"), "output", 48, 5, None, "torch.ops.aten.sort.stable"),
        (("scratch of line 5",), "scratch", 12, 5, 6, "torch.ops.aten.sort.stable"),
    ]
    assert [(row["line"], row["live"]) for row in memory.timeline] == [(3, 16), (4, 116), (5, 76), (6, 48)]
    assert memory_figures(memory).peak == sum(row["bytes"] for row in memory.peak) == 116
    assert memory.uncounted == () and not untold(repr(memory), "116 B at most")


def test_calls_that_were_not_measured_are_named_beside_the_peak() -> None:
    """The peak is then the least; a row has the call's line. On a GPU matrix products take no scratch memory."""
    rows = with_calls(code(SORTED), (4, 0, 0)).memory.uncounted
    assert [(row["line"], row["call"]) for row in rows] == [(5, "torch.ops.aten.sort.stable")]
    assert [row["line"] for row in code(SORTED).memory.uncounted] == [4, 5]
    on_gpu = code(SORTED, "x = rand_strided((2, 2), (2, 1), device='cuda:0', dtype=torch.float32)").memory
    assert [row["line"] for row in on_gpu.uncounted] == [5]
    assert not untold(repr(on_gpu), "at least", "scratch", "torch.ops.aten.sort.stable", "line 5")


def test_inputs_that_share_their_memory_are_one_piece() -> None:
    """Backward is given query, key and value as views of one tensor: its bytes count once, until the last view goes."""
    body = "q, k, x = args\nk0.run(q)\ndel q\nk1.run(k, x)\ndel k\nreturn (x, )"
    layouts = "_shared_storage_0 = rand_strided((64, ), (1, ), device='cpu', dtype=torch.float32)\n"
    layouts += "".join(f"{name} = torch.as_strided(_shared_storage_0, (32, ), (2, ))\n" for name in "qk")
    layouts += "x = rand_strided((2, ), (1, ), device='cpu', dtype=torch.float32)"
    backward = code(body, layouts, "backward").memory.table
    assert [(r["names"], r["bytes"], r["freed"]) for r in backward] == [(("q", "k"), 256, 6), (("x",), 8, None)]


def test_a_backward_frees_what_was_saved_for_it_and_no_parameter() -> None:
    """AOTAutograd calls the forward's own inputs primals; the program holds them, as it holds those of a forward."""
    names = ("primals_1", "relu", "tangents_1")
    body = f"{', '.join(names)} = args\nk0.run(*args)\ndel primals_1\ndel relu\ndel tangents_1\nreturn (None, )"
    layouts = "\n".join(f"{name} = rand_strided((4, ), (1, ), device='cpu', dtype=torch.float32)" for name in names)
    backward, inference = (code(body, layouts, graph).memory.table for graph in ("backward", "inference"))
    assert [row["freed"] for row in backward] == [None, 5, 6]
    assert [row["freed"] for row in inference] == [None, None, None]


# Figures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [*(name for name in NAMES if name.startswith(("mlp_train", "recompile"))), "sin_cos-torch2.13-cpu"]
)
def test_figures_are_the_sums_of_the_rows(name: str, replayed: Replayed) -> None:
    """The largest sum of a graph's rows at its peak, and that of what is saved."""
    memory = replace(replayed(name)).memory
    live: dict[tuple[str, str], int] = {}
    for row in memory.peak:
        live[row["frame"], row["graph"]] = live.get((row["frame"], row["graph"]), 0) + row["bytes"]
    assert memory_figures(memory) == (max(live.values()), sum(row["bytes"] for row in memory.saved))


def test_figures_are_unknown_where_a_size_is() -> None:
    """A buffer whose size only the run knows leaves both open; no output code has no memory."""
    assert memory_figures(code("x, = args\nbuf0 = empty_strided_cuda((s7, ), (1, ), torch.float32)\nreturn (buf0, )").memory) == (
        None,
        None,
    )
    assert memory_figures(Trace().memory) == (0, 0)


def test_figures_need_no_nodes_lines_or_names(replayed: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    """They read neither the graphs nor the names of inputs, and look up the symbols of all frames at once."""
    asked: list[str] = []
    for name in ("_origins", "input_names", "symbols"):
        monkeypatch.setattr(memory, name, partial(counted, getattr(memory, name), name, asked))
    trace = replace(replayed("recompile-torch2.13-cpu"))
    assert len(trace.find("output_code")) == 3 and memory_figures(trace.memory).peak and asked == ["symbols"]


def counted(function: Callable[..., Any], name: str, asked: list[str], *given: Any) -> Any:
    """Call a function, and note its name."""
    asked.append(name)
    return function(*given)
