"""Kernels that Inductor makes of templates in CUDA C++ (CUTLASS) and CuTe DSL, read from recordings, without the packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from explorer.capture.observe.autotuning import choice_source
from explorer.capture.observe.kernel_lines import epilogue_lines
from explorer.errors import InputError
from explorer.stages.inductor.kernel import owners
from explorer.stages.kinds import kernel_kinds
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.programs import added_rectified


@pytest.fixture(scope="module")
def cutlass(replayed: Callable[[str], Trace]) -> Trace:
    return replayed("views/cutlass_epilogue-torch2.13-h100")


@pytest.fixture(scope="module")
def cutedsl(replayed: Callable[[str], Trace]) -> Trace:
    return replayed("views/cutedsl_grouped-torch2.13-b200")


def test_a_cutlass_template_is_a_kernel_with_its_launch(cutlass: Trace) -> None:
    """The kernel is in CUDA C++; its launch has the kernel's names, the tensors without casts, and the program's names."""
    (kernel,) = cutlass.kernels
    assert kernel.language == "cuda" and kernel.operators == ("aten.mm", "aten.relu", "aten.add")
    assert "1 kernel launch" in " ".join(repr(cutlass).split())
    (launch,) = kernel.launches
    given = dict(launch["arguments"])
    assert [given[name] for name in ("X", "W", "buf1", "M", "N", "K", "stream")] == [
        "arg0_1", "arg1_1", "buf1", "256", "256", "512", "raw_stream0",
    ]  # fmt: skip
    assert dict(launch["inputs"]) == {"X": "a", "W": "b", "ptr_0": "c"}
    (row,) = cutlass.kernels.table
    assert (row["language"], row["launches"]) == ("cuda", 1) and row["read"] and row["written"]


def test_an_epilogues_types_lead_to_the_fx_nodes_they_compute(cutlass: Trace) -> None:
    """`Compute0` is relu's and `Compute1` add's; the mainloop is the product's; the epilogue's loads lead nowhere."""
    artifact = cutlass.kernels[0].artifact
    nodes = {number: names for number, (names, _) in owners(artifact).items()}

    def node(begin: str) -> tuple[str, ...]:
        return nodes.get(next(n for n, line in enumerate(artifact.lines, 1) if line.startswith(begin)), ())

    assert node("using Compute0 =") == node("using EVTCompute0 =") == ("relu",)
    assert node("using Compute1 =") == node("using EVTCompute1 =") == ("add",)
    assert node("typename cutlass::gemm::collective::CollectiveBuilder<") == ("mm",)
    assert node("typename cutlass::epilogue::collective::CollectiveBuilder<") == ("mm",)
    assert node("using Arg21 =") == node("using EpilogueDescriptor") == node("struct identity_op") == ()


def test_a_cutlass_kernel_leads_to_each_line_of_the_program(cutlass: Trace) -> None:
    """The product's line by the template, those of the epilogue by its types."""
    first = added_rectified.__code__.co_firstlineno
    assert [row["line"] - first for row in cutlass.kernels[0].user_lines] == [2, 3, 4]


def test_host_code_of_a_template_computes_nothing(cutlass: Trace, cutedsl: Trace) -> None:
    """What builds the arguments and launches runs on the host; the types or decorated functions that make the kernel compute."""
    artifact = cutlass.kernels[0].artifact
    kinds = dict(zip((line.strip() for line in artifact.lines), kernel_kinds(artifact), strict=True))
    assert kinds["auto status = gemm_op(stream);"] == "host code"
    assert kinds["using namespace cute;"] == "imports" and kinds["#define PT_EXPORT"] == "declarations"
    assert kinds["throw std::runtime_error(msg);                                                 \\"] == "declarations"
    artifact = cutedsl.kernels[0].artifact
    kinds = dict(zip((line.strip() for line in artifact.lines), kernel_kinds(artifact), strict=True))
    assert kinds["TILE_M: cutlass.Constexpr = 128"] == "constants"
    assert kinds["grouped_gemm = GroupedGemmKernel("] == "host code"
    assert kinds["tidx, _, _ = cute.arch.thread_idx()"] == ""


def test_a_kernel_in_cute_dsl_is_a_kernel_with_its_launch(cutedsl: Trace) -> None:
    """The launch has the names of the function that PyTorch calls, and what the GPU compiles leads to the program's line."""
    (kernel,) = cutedsl.kernels
    assert kernel.language == "cutedsl" and kernel.operators == ("aten._grouped_mm",)
    (launch,) = kernel.launches
    assert dict(launch["arguments"]) == {
        "arg_input_a": "arg0_1", "arg_input_b": "arg1_1", "arg_input_a_offs": "arg2_1", "out_ptr0": "buf0",
    }  # fmt: skip
    assert len(kernel.user_lines) == 1
    assert {names for names, _ in owners(kernel.artifact).values()} == {("_grouped_mm",)}
    with pytest.raises(InputError, match="is CuTe DSL and has no 'ttir'"):
        kernel.text("ttir")


def test_an_epilogue_whose_operations_are_not_counted_alike_leads_nowhere() -> None:
    """With another number of operations than nodes, or an operation without a node, no line has a node."""
    source = "using Compute0 = cutlass::epilogue::fusion::Sm90Compute<\n  cutlass::plus>;\nusing Accum = Sm90AccFetch;"
    assert epilogue_lines(source, ("add",)) == {0: "add", 1: "add"}
    assert epilogue_lines(source, ("add", "mul")) == epilogue_lines(source, ()) == epilogue_lines(source, ("",)) == {}


def test_the_source_of_a_cutlass_choice_is_in_cuda(cutlass: Trace) -> None:
    """The choices stand in the table with the template's configuration, and their sources are not taken for C++."""
    rows = [row for row in cutlass.inductor.choices.table if row["kind"] == "CUTLASSTemplateCaller"]
    assert rows and all(row["config"].startswith("cutlass3x_sm90_") and row["source"] for row in rows)
    request = type("CUTLASSBenchmarkRequest", (), {})()
    request.source_code, request.kernel_name = "int k();", "k"
    made = choice_source(SimpleNamespace(name="cutlass_1", bmreq=request))
    assert (made.name, made.language, made.text) == ("k", "cuda", "int k();")


def test_a_compile_that_failed_behind_the_scheduler_has_a_page(cutlass: Trace) -> None:
    """The scheduler's verdicts are there and its final groups are not: the page says nothing of how a node runs."""
    (fusion,) = cutlass.find("fusion")
    failed = replace(fusion, data={**fusion.data, "final": ()})
    trace = Trace(artifacts=tuple(failed if a.id == fusion.id else a for a in cutlass.artifacts), meta=cutlass.meta)
    assert payload(trace)["fusion"]
