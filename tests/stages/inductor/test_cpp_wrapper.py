"""Wrappers in C++: how they are recognised, their kernels and calls, and what a trace makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.stages.inductor.cpp_wrapper import BUFFER, calls, definitions, is_cpp, runs
from tests.facts import says, untold

KERNEL = """#include <torch/csrc/inductor/cpp_prefix.h>
template <typename T>
static T twice(T x) {
    return x + x;
}
extern "C"  void  cpp_fused_add_0(const float* in_ptr0,
                       float* out_ptr0)
{
    {
        out_ptr0[0] = twice(in_ptr0[0]);
    }
}"""
TRITON = "\nimport triton\n\n@triton.jit\ndef triton_poi_0(in_ptr0, xnumel, XBLOCK : tl.constexpr):\n    xnumel = 16\n"
WRAPPER = f"""#include <torch/csrc/inductor/aoti_runtime/interface.h>
extern "C" {{
int exported(void) {{ return 0; }}
}} // extern "C"
extern "C"  void  cpp_fused_add_0(const float* in_ptr0, float* out_ptr0);
static const char* triton_poi_0_source = R"TRITON(
async_compile.triton('triton_poi_0', '''{TRITON}''', device_str='cuda')
)TRITON";
static void call_triton_poi_0(
    int64_t xnumel
){{
}}
void AOTInductorModel::run_impl(AtenTensorHandle* input_handles) {{
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, int_array_0, int_array_1, f32, cpu, 0, &buf0_handle));
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_addmm_out(buf1, buf0, arg2_1, 1L, 1L));
    // Topologically Sorted Source Nodes: [y], Original ATen: [aten.add]
    cudaStream_t stream0;
    call_triton_poi_0(buf1, reinterpret(arg1_1, {{2L, 3L}}), 16L, 0, stream0);
    cpp_fused_add_0((const float*)(buf0.data_ptr()), (float*)(buf2.data_ptr()));
}}

{KERNEL}
"""


def test_a_wrapper_in_cpp_is_known_by_what_it_works_on() -> None:
    """C++ that takes AOTInductor's handles is one, alone or inside Python; Python that launches kernels is none."""
    assert is_cpp(WRAPPER) and is_cpp(f'cpp_wrapper_src = r"""{WRAPPER}"""')
    assert not is_cpp("def call(args):\n    triton_poi_0.run(buf0, 16, stream=stream0)\n")


def test_each_kernel_of_a_wrapper_in_cpp_has_its_source_and_its_line() -> None:
    """Triton's source is cut out of the string; C++ goes from its includes, functions of a template too, to its last brace."""
    triton, cpp = definitions(WRAPPER)
    lines = WRAPPER.split("\n")
    assert (triton.name, triton.method, triton.text) == ("triton_poi_0", "triton", TRITON.strip("\n"))
    assert (cpp.name, cpp.method, cpp.text) == ("cpp_fused_add_0", "cpp", KERNEL)
    for kernel in (triton, cpp):
        assert lines[kernel.line - 1] == kernel.text.split("\n")[0]


@pytest.mark.parametrize(
    ("line", "buffer"),
    [
        ("    auto buf1 = std::move(buf0);  // reuse", "buf1"),
        ("    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_addmm_out(buf1, buf0, arg2_1, 1L, 1L));", "buf1"),
        ("    auto arg2_1 = std::move(inputs[2]);", ""),
    ],
)
def test_a_line_that_makes_a_buffer_names_it(line: str, buffer: str) -> None:
    """A buffer is allocated, written by a library, or takes another one's memory; an input is none."""
    match = BUFFER.search(line)
    assert next(filter(None, match.groups()), "") == buffer if match else not buffer


def test_calls_are_in_order_with_their_arguments() -> None:
    """Kernels and library calls, not declarations and definitions; a number is without the letter of its type."""
    assert [name for _, name in calls(WRAPPER)] == ["aoti_torch_cpu_addmm_out", "triton_poi_0", "cpp_fused_add_0"]
    ((line, arguments),) = runs(WRAPPER)["triton_poi_0"]
    assert WRAPPER.split("\n")[line - 1].strip().startswith("call_triton_poi_0(buf1")
    assert arguments == ["buf1", "reinterpret(arg1_1, {2L, 3L})", "16", "0", "stream0"]


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.GELU()).eval()


def whole(trace: explorer.Trace) -> None:
    """Assert what a trace with a wrapper in C++ has to have."""
    (code,) = trace.find("output_code")
    assert code.language == "cpp"
    for kernel in trace.kernels:
        text = code.lines[kernel.artifact.data["wrapper_line"] - 1 :]
        assert [line.strip() for line in text[: len(kernel.artifact.lines)]] == [line.strip() for line in kernel.artifact.lines]
        assert any(row["stage"] == "kernel" for line in kernel.launches for row in trace.follow(code, line["line"])) or (
            kernel.language == "cpp"
        )
    table = trace.kernels.table
    assert all(row["launches"] == 1 for row in table) and trace.coverage()
    assert not untold(repr(trace.memory), "wrapper", "C++", "cpp_wrapper")
    used = {link.how for link in trace.links if link.source == code.id}
    assert {"launch", "extern kernel"} <= used, used


@pytest.mark.compile
def test_cpp_wrapper_for_an_absent_gpu_has_its_kernels_down_to_ptx(model: nn.Module) -> None:
    """Kernels that stand as Triton in a C++ string are compiled, and their calls lead to them."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    trace = explorer.trace(model, torch.randn(2, 8), options={"cpp_wrapper": True}, target="h100")
    assert trace.failures == () and [k.language for k in trace.kernels] == ["triton"] and trace.find("ptx")
    (kernel,) = trace.kernels
    assert kernel.launches[0]["grid"] and "aten.gelu" in kernel.operators
    whole(trace)
    with pytest.raises(explorer.errors.InputError, match=says("wrapper", "C++", "check", "cpp_wrapper")):
        trace.check()


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch.export's own
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.parametrize(("how", "target"), [("cpp_wrapper", "auto"), ("aot", "auto"), ("aot", "h100")])
def test_kernels_of_a_wrapper_in_cpp_are_there(
    how: str, target: str, model: nn.Module, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """What is recorded before g++ is called is all of it; that g++ failed is told, for AOTInductor too.

    For a GPU you don't have the program's own package is made for the CPU, and the GPU's kernels are recorded.
    """
    if target == "h100":
        pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    from torch._inductor import codecache

    def build(*anything: object, **more: object) -> None:
        raise RuntimeError("g++ takes half a minute")

    x = torch.randn(2, 8)
    exported = torch.export.export(model, (x,))
    package: Callable[[], object] = lambda: torch._inductor.aoti_compile_and_package(exported, package_path=f"{tmp_path}/m.pt2")  # noqa: E731
    run = package if how == "aot" else lambda: torch.compile(model, options={"cpp_wrapper": True})(x)
    monkeypatch.setattr(codecache.CppBuilder, "build", build)
    monkeypatch.setattr(codecache.CppWrapperCodeCache, "load_pybinding", build)
    torch.compiler.reset()  # torch 2.11 takes what another test compiled of the model with these options
    # AOTInductor writes into this setting and leaves it so, which a later test would see as one of the program's
    kept = torch._inductor.config.patch({"aot_inductor.metadata": {}})
    with kept, torch.no_grad(), pytest.raises(Exception, match="half a minute"), explorer.record(target, fresh=True) as recording:
        run()
    trace = recording.trace
    assert trace.compile_ids == ("0/0",) and "half a minute" in trace.failures[-1].message
    language, name = ("triton", "triton_poi_fused_addmm_gelu_") if target == "h100" else ("cpp", "cpp_fused_gelu_")
    assert {k.language for k in trace.kernels} == {language} and trace.kernels[-1].name.startswith(name)
    assert bool(trace.find("ptx")) == (target == "h100") and len(trace.failures) == 1
    assert any(link.target.startswith("0/0:source") for link in trace.links)
    whole(trace)
