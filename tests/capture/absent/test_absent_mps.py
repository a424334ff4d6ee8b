"""Traces for an Apple GPU you don't have: Inductor's MPS path down to its Metal source, eager's result, nothing stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.capture.absent import native
from explorer.capture.observe.subclasses import metal_templates
from explorer.capture.observe.versions import defines_metal
from explorer.stages.inductor.kernel import owners
from explorer.stages.kinds import kernel_kinds
from tests.facts import says

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not defines_metal(), reason="this torch does not hand Metal to async_compile")


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x) * 2 + 1


@pytest.fixture(scope="module")
def pointwise_on_m3() -> explorer.Trace:
    """The trace of a pointwise function for an M3."""
    return explorer.trace(pointwise, torch.randn(64, 128), target="m3")


@pytest.mark.compile
def test_a_pointwise_function_becomes_one_metal_kernel(pointwise_on_m3: explorer.Trace) -> None:
    """The kernel is Metal, its source is that of the output code, and the result is eager's."""
    trace = pointwise_on_m3
    (kernel,) = trace.kernels
    assert not trace.failures and trace.meta["target"] == "m3" and kernel.language == "metal"
    assert "kernel void generated_kernel_0(" in kernel.source and "c10::metal::erf(" in kernel.source
    assert kernel.source in trace.text("output_code")
    assert trace.kernels.table[0]["read"] == trace.kernels.table[0]["written"] == 64 * 128 * 4
    x = torch.randn(64, 128)
    torch.testing.assert_close(trace.live.run(x), pointwise(x))


@pytest.mark.compile
def test_each_computing_line_has_its_fx_nodes_and_the_launch_its_kernel(pointwise_on_m3: explorer.Trace) -> None:
    """Every line that computes has the FX node it was written for; the wrapper's call is linked to the kernel."""
    (kernel,) = pointwise_on_m3.find("kernel")
    nodes = owners(kernel)
    computing = [number for number, kind in enumerate(kernel_kinds(kernel), 1) if not kind]
    assert computing and set(computing) <= set(nodes)
    line = next(number for number in computing if "erf(" in kernel.lines[number - 1])
    assert nodes[line][0] == ("erf",)
    launches = [link for link in pointwise_on_m3.links if link.how == "launch" and link.target == kernel.id]
    assert [kernel.lines[number - 1].strip() for link in launches for number in link.target_lines] == [
        "kernel void generated_kernel_0("
    ]


@pytest.mark.compile
def test_what_is_below_metal_says_that_apples_compiler_makes_it(pointwise_on_m3: explorer.Trace) -> None:
    """A form of a Triton kernel or an assembly is asked for in vain: the error says what makes machine code of Metal."""
    for stage in ("ptx", "ttir", "assembly"):
        for ask in (pointwise_on_m3.text, pointwise_on_m3.kernels[0].text):
            with pytest.raises(explorer.errors.ExplorerError, match=says("Metal", "Apple's compiler", "macOS")):
                ask(stage)


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (256,), weight).relu()


@pytest.fixture(scope="module")
def norm_on_m3() -> explorer.Trace:
    """The trace of a layer norm with its backward for an M3."""
    x, weight = torch.randn(32, 256, requires_grad=True), torch.randn(256, requires_grad=True)
    return explorer.trace(normed, x, weight, target="m3", train=True)


@pytest.mark.compile
def test_a_metal_kernel_has_its_launches_bytes_and_an_estimate(norm_on_m3: explorer.Trace) -> None:
    """The scheduler's groups know their kernels: bytes, launches and seconds, which say that they are not validated."""
    for row in norm_on_m3.kernels.table:
        assert row["launches"] == 1 and row["read"] > 0 and row["written"] > 0 and row["seconds"] > 0
        assert "Apple M3" in row["seconds_known"] and "Apple M3" in row["outside"]
    (launch,) = norm_on_m3.kernels[0].launches
    assert launch["grid"] == (32, 1) and launch["arguments"]["threads"] == "[32, 256]"
    assert launch["inputs"]["in_ptr0"] == "x"
    assert all(group["kernels"] for group in norm_on_m3.fusion.groups)


@pytest.mark.compile
def test_every_computing_line_of_a_training_step_is_linked(norm_on_m3: explorer.Trace) -> None:
    """Also of reductions, whose accumulators are declared before them, each line that computes has its FX nodes."""
    for kernel in norm_on_m3.find("kernel"):
        computing = [number for number, kind in enumerate(kernel_kinds(kernel), 1) if not kind]
        assert computing and not set(computing) - set(owners(kernel))


@pytest.mark.compile
def test_what_runs_metal_says_that_only_an_apple_gpu_does(norm_on_m3: explorer.Trace, tmp_path: Path) -> None:
    """A check, an edit, a script and a bisection need the kernels run: one sentence says why they are not."""
    kernel = norm_on_m3.kernels[0]
    asked = (
        norm_on_m3.check,
        norm_on_m3.bisect,
        kernel.values,
        lambda: kernel.edit(kernel.source.replace("1e-05", "1e-06")),
        lambda: kernel.to_script(tmp_path / "kernel.py"),
        lambda: norm_on_m3.to_script(tmp_path / "model.py"),
    )
    for ask in asked:
        with pytest.raises(explorer.errors.InputError, match=says("Metal", "Apple GPU", "Triton", "target='h100'")):
            ask()
    with pytest.raises(explorer.errors.NoVerbError, match=says("m3", "not attached", "estimates")) as error:
        norm_on_m3.benchmark()
    assert "target='cuda'" not in str(error.value)


@pytest.mark.compile
def test_an_apple_gpu_is_compared_with_another_and_kept(norm_on_m3: explorer.Trace, tmp_path: Path) -> None:
    """Traces for an M3 and an H100 are compared in figures and in one page; a saved trace is the same."""
    x, weight = torch.randn(32, 256, requires_grad=True), torch.randn(256, requires_grad=True)
    compared = explorer.compare(norm_on_m3, explorer.trace(normed, x, weight, target="h100", train=True))
    assert {"m3", "h100"} <= set(compared.names)
    compared.to_html(tmp_path / "both.html")
    assert "generated_kernel_0" in norm_on_m3.text("output_code", graph="forward")
    norm_on_m3.save(tmp_path / "m3.json.gz")
    loaded = explorer.load(tmp_path / "m3.json.gz")
    assert loaded == norm_on_m3 and [k.launches for k in loaded.kernels] == [k.launches for k in norm_on_m3.kernels]


def attention(q: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


@pytest.mark.compile
def test_attention_is_the_operator_that_mps_chooses() -> None:
    """For inference it is MPS's fused one, in training products and a softmax, as in ATen's choice."""
    fused = "_scaled_dot_product_attention_math_for_mps"
    inference = explorer.trace(attention, torch.randn(1, 2, 16, 8), target="m3")
    assert fused in inference.text("post_grad") and not inference.failures
    training = explorer.trace(attention, torch.randn(1, 2, 16, 8, requires_grad=True), target="m3", train=True)
    assert fused not in training.text("post_grad", graph="forward") and "bmm" in training.text("post_grad", graph="forward")


@pytest.mark.compile
def test_a_linear_layer_has_the_backward_of_mps() -> None:
    """Its forward becomes a product, as Inductor decomposes it; its backward is the one operator that MPS has for it."""
    x, weight, bias = (torch.randn(*size, requires_grad=True) for size in ((4, 16), (8, 16), (8,)))
    trace = explorer.trace(F.linear, x, weight, bias, target="m3", train=True)
    assert not trace.failures and "aten.addmm" in trace.text("post_grad", graph="forward")
    assert "aten.linear_backward" in trace.text("post_grad", graph="backward")
    assert [row["call"] for row in trace.inductor.extern_calls][-1] == "torch.ops.aten.linear_backward.default"


@pytest.mark.compile
def test_code_that_calls_libraries_alone_is_checked() -> None:
    """Without a kernel in Metal the wrapper runs on the CPU, with what MPS alone has computed as it is defined."""
    x, weight, bias = (torch.randn(*size, requires_grad=True) for size in ((2, 3, 16), (8, 16), (8,)))
    linear = explorer.trace(F.linear, x, weight, bias, target="m3", train=True)
    fused = explorer.trace(attention, torch.randn(1, 2, 16, 8), target="m3")
    for trace in (linear, fused):
        assert not trace.kernels and all(row["equal"] for row in trace.check())


@pytest.mark.compile
def test_flex_attention_is_a_template_in_metal() -> None:
    """The template's lines belong to the FX node that it computes, and the wrapper's call launches it."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    if not metal_templates():
        pytest.skip("this torch has no template of flex attention in Metal")
    trace = explorer.trace(lambda q: flex(q, q, q), torch.randn(1, 2, 128, 64), target="m3")
    template = next(kernel for kernel in trace.find("kernel") if "flex_attn_fwd" in kernel.text)
    assert not trace.failures and {names for names, _ in owners(template).values()} == {("flex_attention",)}
    assert any(link.how == "launch" and link.target == template.id for link in trace.links)
    assert f"{len(trace.kernels)} kernel launches" in str(trace)


@pytest.mark.compile
def test_a_wrapper_in_cpp_has_linked_kernels_in_metal() -> None:
    """With cpp_wrapper each kernel is a library of its own, and its computing lines have their nodes too."""
    trace = explorer.trace(normed, torch.randn(8, 256), torch.randn(256), target="m3", options={"cpp_wrapper": True})
    (kernel,) = trace.find("kernel")
    computing = [number for number, kind in enumerate(kernel_kinds(kernel), 1) if not kind]
    assert not trace.failures and computing and not set(computing) - set(owners(kernel))
    assert any(link.how == "launch" and link.target == kernel.id for link in trace.links)
    assert 'device_type="mps"' in trace.text("output_code")


@pytest.mark.compile
def test_a_triton_kernel_of_ones_own_has_nothing_below_its_source() -> None:
    """It is shown and interpreted for an Apple GPU; a Failure says that triton compiles for none."""
    import triton
    import triton.language as tl

    @triton.jit
    def ones(x, size: tl.constexpr):  # type: ignore[no-untyped-def]
        tl.store(x + tl.arange(0, size), 1.0)

    trace = explorer.trace(ones, torch.zeros(8), 8, target="m3", grid=(1,))
    assert [a.stage for a in trace.artifacts] == ["source", "kernel"]
    (failure,) = trace.failures
    assert "triton has no backend for Apple GPUs" in failure.message
    with pytest.raises(explorer.errors.CompileError, match=says("triton", "no backend", "Apple GPUs", "Metal")):
        trace.kernels[0].binary()
    assert torch.equal(trace.live.run()["x"], torch.ones(8))


def test_float64_is_refused_as_an_apple_gpu_has_none() -> None:
    """A tensor or parameter of double precision is named before anything is compiled."""
    with pytest.raises(explorer.errors.InputError, match=says("args[0]", "torch.float64", "'m3'", ".float()")):
        explorer.trace(pointwise, torch.randn(8, dtype=torch.float64), target="m3")
    with pytest.raises(explorer.errors.InputError, match=says("weight", "torch.float64")):
        explorer.trace(torch.nn.Linear(4, 4).double(), torch.randn(4), target="m3")


def touched() -> dict[str, Any]:
    """Everything that the pretence of an Apple GPU writes to: attributes by identity, and C++ places."""
    owners_of_names = (torch.backends.mps, torch.mps, torch.cuda, torch.xpu, torch.version)
    names = {f"{owner!r}.{name}": id(value) for owner in owners_of_names for name, value in vars(owner).items()}
    names = {name: value for name, value in names.items() if "__warningregistry__" not in name}
    return {
        **names,
        "attention": dict(torch.ops.aten.scaled_dot_product_attention.default.py_kernels),
        "native": native.places(),
        "linear": torch._C._dispatch_dump_table("aten::linear"),
        "available": (torch.backends.mps.is_available(), torch.cuda.is_available(), torch.accelerator.is_available()),
    }


@pytest.mark.compile
def test_nothing_stays_and_the_next_trace_is_its_own_gpus() -> None:
    """After a trace for an M3 everything is as it was, and a trace for an H100 is as before it."""
    x = torch.randn(64, 128)
    first, before = explorer.trace(pointwise, x, target="h100"), touched()
    explorer.trace(pointwise, x, target="m3")
    after = touched()
    assert {name: (before[name], after.get(name)) for name in before if after.get(name) != before[name]} == {}
    second = explorer.trace(pointwise, x, target="h100")
    assert [k.source for k in second.kernels] == [k.source for k in first.kernels]
