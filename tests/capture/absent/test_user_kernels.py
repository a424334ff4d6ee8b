"""Triton kernels that a program launches itself, traced for a GPU you don't have: compiled for it, run without it."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import explorer
from tests.facts import untold

triton = pytest.importorskip("triton")
tl: Any = triton.language
descriptors = pytest.importorskip("triton.tools.tensor_descriptor")

# Dynamo itself makes an instance of an autograd.Function to trace it
pytestmark = [
    pytest.mark.compile,
    pytest.mark.filterwarnings("ignore:.*should not be instantiated"),
]

LADDER = {"kernel", "ttir", "ttgir", "llir", "ptx"}


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    """Vector add."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


def fitting(configs: Any, arguments: Any, **constants: Any) -> Any:
    return [c for c in configs if c.kwargs["BLOCK"] <= arguments["n"]]


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 4096}),
        triton.Config({"BLOCK": 256}, num_warps=4),
        triton.Config({"BLOCK": 512}, num_warps=8),
    ],
    key=["n"],
    prune_configs_by={"early_config_prune": fitting},
)
@triton.jit
def scale(x, out, n, by, BLOCK: tl.constexpr):
    """x times a number."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * by, i < n)


@triton.jit
def square(value):
    """A function that a kernel calls."""
    return value * value


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def square_sum(x, bias, out, n, BLOCK: tl.constexpr):
    """x² and, where there is one, a bias."""
    i = tl.arange(0, BLOCK)
    total = square(tl.load(x + i, i < n))
    if bias is not None:
        total += tl.load(bias + i, i < n)
    tl.store(out + i, total, i < n)


@triton.jit
def double(source, out, BLOCK: tl.constexpr):
    """A tile of a matrix, twice, through tensor descriptors."""
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    out.store(at, source.load(at) * 2)


@torch.library.triton_op("explorer_tests::scaled", mutates_args={})
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    torch.library.wrap_triton(scale)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, by)
    return out


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.by = inputs[1]


scaled.register_autograd(lambda ctx, gradient: (scaled(gradient.contiguous(), ctx.by), None), setup_context=_remember)


class Doubled(torch.autograd.Function):
    """x + x, whose forward and backward launch a kernel."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return launched_add(x, x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return launched_add(gradient.contiguous(), gradient.contiguous())


def launched_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=128)
    return out


def plain(x: torch.Tensor) -> torch.Tensor:
    return launched_add(x.sin(), x).cos()


def operator(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(scaled(x.sin(), 3.0)) + 1


def autotuned(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, 2.0)
    return out.exp()


def heuristic(x: torch.Tensor) -> torch.Tensor:
    out, more = torch.empty_like(x), torch.empty_like(x)
    square_sum[(1,)](x, None, out, x.numel())
    square_sum[(1,)](x, out, more, x.numel())
    return more


def doubled(x: torch.Tensor) -> torch.Tensor:
    return Doubled.apply(x.sin())  # type: ignore[no-any-return]


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    add[(8,)](y, y, y, 1000, BLOCK=128)
    return y.sin()


def descriptor(x: torch.Tensor) -> torch.Tensor:
    square = x.new_empty(32, 32)
    out = torch.empty_like(square)
    square.copy_(x[:, None][:32] + x[None, :32])
    source, result = (descriptors.TensorDescriptor.from_tensor(t, [16, 16]) for t in (square, out))
    double[(2, 2)](source, result, BLOCK=16)
    return out


def broken(x: torch.Tensor) -> torch.Tensor:
    y = launched_add(x, x)
    torch._dynamo.graph_break()
    return launched_add(y, x)


#: A function, what it computes, and the names of its kernels as Inductor writes them.
CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor], set[str]]] = {
    "plain": (plain, lambda x: (x.sin() + x).cos(), {"add_0"}),
    "operator": (operator, lambda x: torch.relu(x.sin() * 3) + 1, {"scale_0"}),
    "autotuned": (autotuned, lambda x: (x * 2).exp(), {"scale_0"}),
    "heuristic": (heuristic, lambda x: 2 * x * x, {"square_sum_0", "square_sum_1"}),
    "in place": (in_place, lambda x: (2 * x).sin(), {"add_0"}),
    "descriptor": (descriptor, lambda x: 2 * (x[:32, None] + x[None, :32]), {"double_0"}),
    "graph break": (broken, lambda x: 3 * x, {"add_0"}),
}


def own(trace: explorer.Trace) -> dict[tuple[str, str], explorer.Kernel]:
    """The kernels of a trace that the program itself defines, by graph and name."""
    return {(k.artifact.graph, k.name): k for k in trace.kernels if not k.name.startswith("triton_")}


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(1000)


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_of_the_program_is_compiled_for_the_gpu_and_interpreted_here(case: str, x: torch.Tensor) -> None:
    """Each way to launch a kernel: it is in the trace with its whole ladder, and the function's result is right."""
    function, expected, names = CASES[case]
    trace = explorer.trace(function, x, target="h100")
    torch.testing.assert_close(trace.live.result, expected(x))
    assert not trace.failures
    kernels = own(trace)
    assert {name for _, name in kernels} == names
    for kernel in kernels.values():
        assert {a.stage for a in trace.artifacts if a.kernel == kernel.name} == LADDER
        assert "custom_kernel=True" in kernel.source and kernel.resources["registers"] > 0


@pytest.mark.parametrize(("target", "last"), [("a100", "ptx"), ("b200", "ptx"), ("mi300x", "amdgcn")])
def test_the_kernel_of_an_operator_is_that_of_each_gpu(target: str, last: str, x: torch.Tensor) -> None:
    """triton_op and wrap_triton on other GPUs, down to their machine code."""
    trace = explorer.trace(operator, x, target=target)
    torch.testing.assert_close(trace.live.result, CASES["operator"][1](x))
    (kernel,) = own(trace).values()
    assert kernel.text(last) and "triton_kernel_wrapper" in trace.text("forward")


def test_dynamo_takes_a_launch_into_its_graph(x: torch.Tensor) -> None:
    """A plain launch is one node of Dynamo's graph, as on a machine with the GPU."""
    trace = explorer.trace(plain, x, target="h100")
    assert "torch.ops.higher_order.triton_kernel_wrapper_mutation" in trace.text("dynamo") and not trace.dynamo.graph_breaks


@pytest.mark.parametrize(("function", "slope", "name"), [(operator, 3.0, "scale_0"), (doubled, 2.0, "add_0")])
def test_gradients_go_through_the_kernels(function: Any, slope: float, name: str) -> None:
    """register_autograd and autograd.Function: forward and backward have the kernel, and gradients are those of the formula."""
    x = torch.rand(1000, requires_grad=True)  # sin is positive, relu passes all of it
    trace = explorer.trace(function, x, target="h100", train=True)
    torch.testing.assert_close(trace.live.gradients["args[0]"], slope * x.detach().cos())
    assert set(own(trace)) == {("forward", name), ("backward", name)} and not trace.failures  # none is noted twice


def test_the_candidates_are_those_that_the_pruning_leaves(x: torch.Tensor) -> None:
    """A program's @triton.autotune: its configs are the candidates, and each compiles on demand."""
    (kernel,) = own(explorer.trace(autotuned, x, target="h100")).values()
    assert [(row["BLOCK"], row["taken"]) for row in kernel.candidates.table] == [(256, True), (512, False)]
    assert kernel.candidates[1].resources["num_warps"] == 8
    assert kernel.launches[0]["grid"] == (4, 1, 1)


def test_the_grid_of_a_launch_is_told_with_its_arguments(x: torch.Tensor) -> None:
    """An axis is a number where sizes are fixed and a formula where one is dynamic; constexprs are no arguments."""
    (fixed,) = own(explorer.trace(plain, x, target="h100")).values()
    assert fixed.launches[0]["grid"] == (8, 1, 1) and "BLOCK" not in fixed.launches[0]["arguments"]
    (dynamic,) = own(explorer.trace(plain, x, target="h100", dynamic=True)).values()
    assert "128" in str(dynamic.launches[0]["grid"][0]) and dynamic.launches[0]["grid"][1:] == (1, 1)


def test_the_traced_function_runs_again(x: torch.Tensor) -> None:
    """After the trace run() and check() interpret the kernels too, and a launch elsewhere asks for a driver as before."""
    trace = explorer.trace(operator, x, target="h100")
    torch.testing.assert_close(trace.live.run(x + 1), CASES["operator"][1](x + 1))
    assert trace.check()[0]["equal"]
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="active drivers"):
            operator(x)


def test_a_recorded_loop_launches_its_kernels(x: torch.Tensor) -> None:
    """Under `record` compiled and eager launches of the program are interpreted."""
    with explorer.record(target="a100") as recording:
        compiled = torch.compile(plain)
        torch.testing.assert_close(compiled(x), CASES["plain"][1](x))
        torch.testing.assert_close(launched_add(x, x), 2 * x)
    assert set(own(recording.trace)) == {("inference", "add_0"), ("", "add")}  # the second outside of the graph


@triton.jit
def foreign(x, out, n, BLOCK: tl.constexpr):
    """A kernel that asks for what only the hardware has."""
    i = tl.arange(0, BLOCK)
    clock = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r,r", [i], tl.int32, False, 1)
    tl.store(out + i, tl.load(x + i, i < n) + clock, i < n)


def only_there(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    foreign[(1,)](x, out, x.numel(), BLOCK=1024)
    return out


def test_what_cannot_be_interpreted_is_said_and_the_stages_are_there(x: torch.Tensor) -> None:
    """Where a kernel cannot be run here the trace is whole, the failure names kernel and line, the result raises it."""
    trace = explorer.trace(only_there, x, target="h100")
    (failure,) = trace.failures
    assert failure.stage == "run" and not untold(failure.message, "foreign", "GPU") and re.search(r"\bline \d+", failure.message)
    assert "smid" in own(trace)["inference", "foreign_0"].text("ptx")
    with pytest.raises(explorer.errors.InterpretError, match="foreign"):
        trace.live.result  # noqa: B018


def test_a_launch_that_would_take_too_long_is_refused_before_it_starts(x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure has the estimate and what to do; the stages are there."""
    from explorer.capture.absent import user_kernels
    from explorer.capture.interpret import estimate

    monkeypatch.setattr(user_kernels, "SLOW", (1.0, 1.0))
    monkeypatch.setattr(estimate, "speed", lambda: (1.0, 1.0))
    trace = explorer.trace(plain, x, target="h100")
    (failure,) = trace.failures
    assert not untold(failure.message, "add", "8 programs", "inputs") and re.search(r"\b\d+ s\b", failure.message)
    assert own(trace)["inference", "add_0"].text("ptx")


def test_launches_and_dynamos_questions_are_put_back(x: torch.Tensor) -> None:
    """After a trace, and after one whose call fails, triton and torch answer as before."""
    import torch.utils._triton as asked
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    def now() -> list[int]:
        tma = getattr(asked, "has_triton_tensor_descriptor_host_tma", None)
        return list(map(id, (asked.has_triton, tma, JITFunction.run, Autotuner.run, JITFunction.__call__, tl.load)))

    before = now()
    for function in (plain, only_there):
        explorer.trace(function, x, target="h100")
        assert now() == before
    assert not add.device_caches


def test_what_torch_found_out_about_triton_before_does_not_reach_a_trace(x: torch.Tensor) -> None:
    """Torch may have asked whether a GPU is here and keep the answer; the next trace is like the first one all the same."""
    from torch.utils._triton import has_triton

    for _ in range(2):
        answer = has_triton()
        assert not explorer.trace(fresh(plain), x, target="h100").failures
        assert has_triton() == answer == torch.cuda.is_available()


def fresh(function: Any) -> Any:
    """Make a function with a code object that no earlier trace knows."""
    return types.FunctionType(function.__code__.replace(), function.__globals__)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_and_a_target_it_is_said_what_to_write(x: torch.Tensor) -> None:
    """For a triton_op, or a plain launch, on the CPU the failure, or a note on the program's own error, names a target."""
    (failure,) = (f for f in explorer.trace(operator, x).failures if f.fatal)
    assert not untold(failure.message, "GPU", "target='h100'")
    with pytest.raises(RuntimeError, match="active drivers") as caught:
        explorer.trace(plain, x)
    assert any("target='h100'" in note for note in caught.value.__notes__)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_triton_for_the_cpu_without_its_driver_is_told_by_the_setting(x: torch.Tensor) -> None:
    """Inductor's own kernels need a driver too where `cpu_backend` asks for Triton: the advice names that setting."""
    (failure,) = explorer.trace(torch.sin, x, options={"cpu_backend": "triton"}).failures
    assert not untold(failure.message, "cpu_backend", "'cpp'") and "launches a Triton kernel" not in failure.message


@pytest.mark.parametrize("case", ["autotuned", "heuristic"])
def test_each_line_of_a_kernel_leads_to_itself_in_the_program(x: torch.Tensor, case: str) -> None:
    """Inductor copies a kernel and the functions that it calls into its output code; from PTX up they lead to the program."""
    trace = explorer.trace(CASES[case][0], x, target="h100")
    sources = {a.id: a for a in trace.find("source") if a.data.get("inlined")}
    for kernel in own(trace).values():
        led: dict[str, str] = {}
        for number, line in enumerate(kernel.artifact.lines, 1):
            for row in trace.follow(kernel.artifact.id, number).where(stage="source"):
                if row["artifact"] in sources and "the program's own line" in row["route"]:
                    led[line] = "".join(sources[row["artifact"]].lines[n - 1] for n in row["lines"])
        assert {line for line in kernel.artifact.lines if "tl.store(" in line or "tl.load(" in line} <= led.keys()
        assert all(line == there for line, there in led.items())
        assert ("    return value * value" in led) == ("square" in kernel.name)
    for row in trace.coverage("ptx"):
        assert row["share"] > 0.9, row["missing"]


def test_a_users_kernel_leads_to_its_call(x: torch.Tensor) -> None:
    """The wrapper's launch leads to the kernel, its first line to the scheduler node, and a line of it to the call of it."""
    trace = explorer.trace(operator, x, target="h100")
    (kernel,) = (a for a in trace.find("kernel") if "def scale(" in a.text)
    (wrapper,) = trace.find("output_code")
    launch = next(n for n, line in enumerate(wrapper.lines, 1) if f"{kernel.kernel}.run(" in line)
    begin = kernel.lines.index("def scale(x, out, n, by, BLOCK: tl.constexpr):") + 1
    links = {
        (link.source, link.target): link for link in trace.links if (launch in link.source_lines or begin in link.source_lines)
    }
    assert links[wrapper.id, kernel.id].target_lines == (begin,)
    (fused,) = trace.find("ir_post_fusion")
    assert any("UserDefinedTritonKernel" in fused.lines[n - 1] for n in links[kernel.id, fused.id].target_lines)
    stored = next(n for n, line in enumerate(kernel.lines, 1) if "tl.store(" in line)
    lines = {row["text"].strip() for row in trace.follow(kernel.id, stored, "source")}
    assert lines >= {"tl.store(out + i, tl.load(x + i, i < n) * by, i < n)", "return torch.relu(scaled(x.sin(), 3.0)) + 1"}
    assert [row["missing"] for row in trace.coverage("output_code")] == [()]
