"""How each FX node was lowered: held to torch's own warnings, to the generated code, and to the names of the kernels."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.observe import lowering
from explorer.tracing.traced import Trace
from tests.facts import untold

pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")

X = torch.randn(256, 64)
W = torch.randn(64, 128)
INDEX = torch.arange(64)


def program(x: torch.Tensor, w: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Operators of each kind: loops, scans, sorts, a product, and those that Inductor calls for several reasons."""
    y = torch.cumsum(torch.relu(x), 0)
    values, _ = torch.sort(x)
    added = torch.zeros(64).to(x).index_put((i,), x[0], accumulate=True)
    low = torch.zeros(64, 64, dtype=torch.bfloat16, device=x.device)
    scattered = low.scatter_add(0, i[None].expand(1, 64), x[:1].bfloat16())
    spectrum = torch.view_as_real(torch.fft.rfft(x))
    third = torch.kthvalue(x, 3)
    return (y @ w).softmax(-1), values, torch.histc(x), added, scattered, spectrum.mean(), x.t() + w.sum(), *third


class Warned:
    """Collects what torch itself warns of while it lowers: the names that FallbackKernel hands to GraphLowering.warn_fallback."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from torch._inductor.graph import GraphLowering

        self.names: set[str] = set()
        warn = GraphLowering.warn_fallback

        def heard(graph: Any, name: str) -> Any:
            self.names.add(name.removeprefix("torch.ops."))
            return warn(graph, name)

        monkeypatch.setattr(GraphLowering, "warn_fallback", heard)


@pytest.fixture(scope="module")
def traces() -> Iterator[dict[str, tuple[Trace, set[str]]]]:
    """The program for the CPU and for an H100, each with the fallbacks that torch warned of; the C++ kernels are not compiled."""
    from torch._inductor.async_compile import AsyncCompile

    found = {}
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Torchinductor does not support code generation for complex")
        warned = Warned(patched)
        patched.setattr(AsyncCompile, "cpp_pybinding", lambda *args, **kwargs: lambda *tensors: None)
        for target in ("cpu", "h100"):
            warned.names = set()
            torch._dynamo.reset()
            trace = explorer.trace(program, X, W, INDEX, **({"target": target} if target != "cpu" else {}))
            assert [failure for failure in trace.failures if failure.stage == "lowering"] == []
            found[target] = trace, warned.names
    yield found


def operators_in_code(trace: Trace) -> set[str]:
    """The operators of ATen that the generated wrapper calls, read from its text."""
    code = "\n".join(line.partition("#")[0] for line in trace.text("output_code").splitlines())
    direct = re.findall(r"(?:torch\.ops\.)(aten\.\w+\.\w+)\(", code)
    return {*direct, *re.findall(r"(?<![\w.])(aten\.(?:index_put_|scatter_\w*|scatter_reduce_)(?:\.\w+)?)\(", code)}


def fallbacks(trace: Trace) -> set[str]:
    """The operators that explorer calls fallbacks."""
    calls = {call for row in trace.inductor.lowerings if row["kind"] == "fallback" for call in row["calls"]}
    return {call.removeprefix("torch.ops.") for call in calls}


def differences(trace: Trace, warned: set[str]) -> set[str]:
    """What explorer calls a fallback and torch does not, and the other way round."""
    of_its_own = {name for name in fallbacks(trace) if "scatter" in name or "index_put" in name}  # classes that do not warn
    return (fallbacks(trace) ^ operators_in_code(trace)) | ((fallbacks(trace) - of_its_own) ^ warned)


@pytest.mark.compile
@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_the_fallbacks_are_those_that_torch_warns_of_and_calls(target: str, traces: Any) -> None:
    """The set of fallbacks equals the operators in the generated code, and those that torch warned of."""
    trace, warned = traces[target]
    assert len(warned) >= 4 and len(operators_in_code(trace)) >= 4
    assert differences(trace, warned) == set()


@pytest.mark.compile
def test_a_fallback_that_is_not_seen_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above fails where the probe takes one class of calls for something else."""
    warned = Warned(monkeypatch)
    monkeypatch.setattr("explorer.stages.inductor.lowered.CLASSES", {"FallbackKernel": "extern call"})
    monkeypatch.setattr("explorer.stages.inductor.lowered.kind_of_operation", lambda operation: "extern call")
    torch._dynamo.reset()
    trace = explorer.trace(lambda x: torch.histc(x), X, target="h100")
    assert warned.names == {"aten.histc.default"} and differences(trace, warned.names) == {"aten.histc.default"}


@pytest.mark.compile
@pytest.mark.parametrize("target", ["cpu", "h100"])
def test_a_kernels_name_says_the_kind_of_its_nodes(target: str, traces: Any) -> None:
    """In a kernel that Inductor names pointwise no node reduces, in every other one a node does; the CPU's kernels are C++."""
    trace, _ = traces[target]
    kinds: dict[str, set[str]] = {}
    for row in trace.inductor.lowerings:
        for kernel in row["kernels"]:
            kinds.setdefault(kernel, set()).update(row["kinds"] if row["operations"] else ())
    assert len(kinds) >= 3
    for kernel, found in kinds.items():
        if target == "cpu":
            assert kernel.startswith("cpp_fused"), kernel
        else:
            form = kernel.split("_")[1]
            assert ({"reduction", "scan", "sort"} & found == set()) == (form == "poi"), (kernel, found)
            assert ("scan" in found) == (form == "spl"), (kernel, found)


@pytest.mark.compile
def test_cumsum_is_a_library_call_on_the_cpu_and_fused_on_an_h100(traces: Any) -> None:
    """The C++ backend has no scans and Triton's has: the reason is the condition that torch tested."""
    from torch._inductor.codegen.common import BackendFeature, has_backend_feature

    (row,) = [row for row in traces["cpu"][0].inductor.lowerings if row["node"] == "cumsum"]
    assert not has_backend_feature("cpu", BackendFeature.SCAN)
    assert (row["kind"], row["calls"], row["kernels"]) == ("fallback", ("torch.ops.aten.cumsum.default",), ())
    assert not untold(row["why"], "Scan.create", "has_feature(cpu, SCAN) = False", "`result is None`", "result = None", "cumsum")
    (row,) = [row for row in traces["h100"][0].inductor.lowerings if row["node"] == "cumsum"]
    assert row["kind"] == "scan" and row["calls"] == () and "relu" in row["with"] and len(row["kernels"]) == 1
    said = str(traces["h100"][0].why("cumsum"))
    assert not untold(said, "scan", row["kernels"][0]) and "reduction_split_factor(" in said
    # torch 2.11 splits a scan without asking what the backend can do
    source = inspect.getsource(torch._inductor.ir.Reduction.num_splits)
    assert ("has_feature" in said) is (source.index("has_feature(") < source.index('reduction_type == "scan"'))


@pytest.mark.compile
def test_each_reason_is_the_condition_that_inductor_tested(traces: Any) -> None:
    """An operator in its list, a dtype that it does not take, a condition in the lowering: each with its place in torch."""
    trace, _ = traces["h100"]
    why = {row["node"]: row["why"] for row in trace.inductor.lowerings if row["kind"] == "fallback"}
    listed = re.search(r"make_fallback\b.* (torch/_inductor/\S+):(\d+)", why["histc"])
    assert listed and "aten.histc" in lines_of(listed[1])[int(listed[2]) - 1]
    assert not untold(why["_fft_r2c"], "complex64", "cuda", "is_complex") and not untold(why["view_as_real"], "is_complex")
    if not hasattr(torch._inductor.config.triton, "decompose_sort_ops"):  # torch 2.11 has kthvalue in its list
        listed = re.search(r"make_fallback\b.* (torch/_inductor/\S+):(\d+)", why["kthvalue"])
        assert listed and "aten.kthvalue" in lines_of(listed[1])[int(listed[2]) - 1]
        return
    tested = re.search(r"`(not config.triton.decompose_sort_ops)`.* kthvalue\b\W+(\S+):(\d+)", why["kthvalue"])
    assert tested and "kthvalue_fallback(" in lines_of(tested[2])[int(tested[3]) - 1]


def lines_of(file: str) -> list[str]:
    """The lines of a file of torch, given from its package on."""
    from pathlib import Path

    return (Path(torch.__file__).parent.parent / file).read_text(encoding="utf-8").splitlines()


@pytest.mark.compile
def test_an_operator_that_inductor_does_not_know_is_called() -> None:
    """The reason is that it has no lowering; the second time that one was registered before the recording."""

    @torch.library.custom_op("explorer_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    said = []
    for shape in ((8, 8), (4, 4)):
        torch._dynamo.reset()
        (row,) = explorer.trace(lambda x: twice(x), torch.ones(shape), target="h100").inductor.lowerings
        assert (row["kind"], row["calls"]) == ("fallback", ("torch.ops.explorer_tests.twice.default",))
        said.append(row["why"])
    assert not untold(said[0], "no lowering") and not untold(said[1], "registered", "recording")


@pytest.mark.compile
def test_the_function_of_each_node_is_called_while_it_is_lowered() -> None:
    """Python's own profiler sees each function that a row names; the place where a scan was refused is then not looked for."""
    called: set[tuple[str, int]] = set()

    def profile(frame: FrameType, event: str, value: object) -> None:
        if event == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    torch._dynamo.reset()
    sys.setprofile(profile)
    try:
        trace = explorer.trace(lambda x: (torch.relu(x).sum(0), torch.histc(x), x.t() @ x), X, target="h100")
    finally:
        sys.setprofile(None)
    places = {row["lowered_at"] for row in trace.inductor.lowerings if row["function"]}
    assert len(places) >= 5
    assert {place for place in places if not any(f"{file}:{line}".endswith(place) for file, line in called)} == set()


@pytest.mark.compile
def test_a_profiler_of_explorers_that_fails_does_not_fail_the_function_that_it_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises a profiler's error in the watched function: explorer's becomes a Failure, and the graph is compiled."""

    def fails(*args: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(lowering._Return, "_returned", fails)
    trace = explorer.trace(lambda x: torch.cumsum(x, 0), X, target="h100")
    assert [(f.stage, f.message) for f in trace.failures] == [("lowering", "RuntimeError: ours")]
    torch.testing.assert_close(trace.live.result, torch.cumsum(X, 0))


@pytest.mark.compile
def test_splits_orders_and_tilings_are_those_of_the_kernels(traces: Any) -> None:
    """A kernel's tiling is the sizes in its own source; a reduction in several parts is several buffers."""
    trace, _ = traces["h100"]
    (data,) = [artifact.data for artifact in trace.find("lowering")]
    assert len(data["tilings"]) >= 3
    for tiling in data["tilings"]:
        (source,) = {kernel.text() for kernel in trace.kernels if kernel.name == tiling["kernel"]}
        hints = re.search(r"size_hints=\{(.*?)\}", source)
        assert hints and {f"'{name}'" for name in tiling["tiling"] if tiling["tiling"][name] != "1"} <= set(
            re.findall(r"'\w+'", hints[1])
        )
    split = [one for one in data["splits"] if one["parts"] not in ("1", "-1") and one["reduction"] != "scan"]
    for one in split:
        assert len([op for op in data["operations"] if op["node"] == one["node"]]) >= 2
    assert split and any(order["operation"] for order in data["orders"])


def test_where_the_statement_of_a_list_stands() -> None:
    """The line names the operator and not one whose name begins with it."""
    file, _, line = lowering.listed_at("aten.histc.default").rpartition(":")
    assert "make_fallback(aten.histc)" in lines_of(file)[int(line) - 1]
    assert lowering.listed_at("aten.relu.default") == ""
