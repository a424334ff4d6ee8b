"""The kind of each line of a text: lines that compute have none, the others are named."""

from __future__ import annotations

import pytest

from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.stages import stage_of
from explorer.stages.inductor.output_code import calls_of

TRITON = {
    "import triton": "imports",
    "@triton.jit": "heuristics",
    "def helper(a, b):": "signature",
    "    tmp0 = a + b": "",
    "@triton_heuristics.pointwise(": "heuristics",
    "    size_hints={'x': 64},": "heuristics",
    ")": "heuristics",
    "def kernel(in_ptr0,": "signature",
    "    XBLOCK: tl.constexpr):": "signature",
    "    xnumel = 64": "constants",
    "    R0_BLOCK: tl.constexpr = 64": "constants",
    "    xoffset = tl.program_id(0) * XBLOCK": "index arithmetic",
    "    r0_1 = r0_index": "index arithmetic",
    "    x0 = (xindex % 8)": "index arithmetic",
    "    xmask = x < 4": "index arithmetic",
    "    for r0_offset in tl.range(0, 9):": "loop control",
    "        tmp1 = tl.load(in_ptr0 + x0)": "",
    "    tl.store(out_ptr0 + x0, tmp1, xmask)": "",
    "    pid_offset = pid - num_xblocks_0": "dispatch",
}
CPP = {
    "#include <x.h>": "imports",
    'extern "C"  void  kernel(const float* in_ptr0,': "signature",
    "    float* out_ptr0)": "signature",
    "{": "braces",
    "    auto out_ptr1 = in_out_ptr0;": "prologue and epilogue",
    "    #pragma omp parallel": "loop control",
    "        int tid = omp_get_thread_num();": "prologue and epilogue",
    "        for(int64_t x0=0; x0<4; x0+=1)": "loop control",
    "            auto tmp0 = in_ptr0[x0];": "",
    "            tmp_acc0 = tmp_acc0 + tmp0;": "",
    "            [&]": "braces",
    "            return tmp0;": "",
    "            ()": "braces",
    "}": "braces",
}
FX = {
    "class GraphModule(torch.nn.Module):": "signature",
    "    def forward(self, x):": "signature",
    "        # File: a.py:3": "comments",
    '        sin: "f32[4]" = torch.sin(x);  x = None': "",
    "        cond_true_0 = self.cond_true_0": "inputs",
    "        return (sin,)": "output",
    " ": "blank",
}


def kinds_of(artifact: Artifact) -> list[str] | None:
    """The kind of each line, by the artifact's stage."""
    kinds = stage_of(TraceData(), artifact.stage).kinds
    return None if kinds is None else list(kinds(artifact))


@pytest.mark.parametrize(
    ("stage", "language", "expected"), [("kernel", "triton", TRITON), ("kernel", "cpp", CPP), ("joint", "fx", FX)]
)
def test_each_line_has_its_kind(stage: str, language: str, expected: dict[str, str]) -> None:
    """Lines that compute have none; the others are named."""
    artifact = Artifact("a", stage, "", "", "", language, "\n".join(expected))
    found = kinds_of(artifact)
    assert found is not None and dict(zip(expected, found, strict=True)) == expected


def test_of_the_ir_only_operations_compute() -> None:
    """What describes a scheduler node, indices, constants and the output do not."""
    text = "op0: SchedulerNode(ComputedBuffer)\nclass op0_loop_body:\n    index0 = p0\n    def body(self, ops):\n"
    text += "        get_index = self.get_index('index0')\n        constant = ops.constant(1)\n"
    text += "        sin = ops.sin(load)\n        return sin"
    found = kinds_of(Artifact("a", "ir_pre_fusion", "", "", "", "ir", text))
    assert found == [*["description"] * 4, "index arithmetic", "constants", "", "output"]


def test_of_the_wrapper_launches_and_library_calls_compute() -> None:
    """Not its allocations, checks and imports, and nothing of its benchmark."""
    text = (
        "import torch\ndef call(args):\n    buf0 = empty_strided_cuda((4,), (1,), torch.float32)\n    k.run(x, buf0, 4)\n"
        "    extern_kernels.mm(x, y, out=buf1)\n    buf2 = torch.ops.aten.sort.default(x)\n"
        "    assert_size_stride(x, (4,), (1,))\n"
        "def benchmark_it(args):\n    k.run(x)\n"
    )
    artifact = Artifact("a", "output_code", "", "", "", "python", text)
    assert calls_of(artifact) == ((4, "k.run"), (5, "extern_kernels.mm"), (6, "torch.ops.aten.sort.default"))
    found = kinds_of(artifact)
    assert found is not None and [n for n, kind in enumerate(found, 1) if not kind] == [4, 5, 6]


def test_a_wrapper_that_is_no_python_has_no_calls() -> None:
    """The C++ wrapper is not read."""
    assert calls_of(Artifact("a", "output_code", "", "", "", "cpp", "int main() {}")) == ()


def test_a_stage_that_is_made_of_no_users_lines_has_no_kinds() -> None:
    """Such as guards, phases, and the source itself."""
    assert [kinds_of(Artifact("a", stage, "", "", "", "text", "x")) for stage in ("guards", "phase", "source")] == [None] * 3
