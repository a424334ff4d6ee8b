"""Output code: the kernels cut out of a wrapper, for the CPU and for CUDA, with their exact places in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.model.values import Event, plain
from explorer.stages.inductor.definitions import kernel_events
from explorer.stages.inductor.output_code import STAGE
from explorer.tracing.traced import Trace

CPP = """# AOT ID: ['1_inference']
import torch
from torch._inductor.async_compile import AsyncCompile

aten = torch.ops.aten
async_compile = AsyncCompile()


cpp_fused_mul_0 = async_compile.cpp_pybinding(['const float*', 'const float*', 'float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(const float* in_ptr0,
                       const float* in_ptr1,
                       float* out_ptr0)
{
    printf("\\n");
}
''')


async_compile.wait(globals())
del async_compile

def call(args):
    cpp_fused_mul_0(arg0_1, arg1_1, buf0)
"""
TRITON = """async_compile = AsyncCompile()


# kernel path: cache/yt/cytbcd5b2pdbqyo42yqk5vujq3f72jba2kljuhnn6csvyqu7qoc5.py
# Topologically Sorted Source Nodes: [sum_1, lt], Original ATen: [aten.sum, aten.lt]
# Graph fragment:
#   %sum_1 : Tensor "f32[][]cuda:0"[num_users=1] = call_function[target=torch.ops.aten.sum.default](args = (%arg1_1,))
#   return %sum_1,%lt
triton_per_fused_lt_sum_0 = async_compile.triton('triton_per_fused_lt_sum_0', '''
import triton
import triton.language as tl

@triton_heuristics.persistent_reduction(
    size_hints={'x': 1, 'r0_': 16},
    filename=__file__,
)
@triton.jit
def triton_per_fused_lt_sum_0(in_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 1
    tmp6 = tmp4 < tmp5
''', device_str='cuda')

# a comment of another kind

triton_poi_fused_abs_add_div_1 = async_compile.triton('triton_poi_fused_abs_add_div_1', '''
import triton
@triton.jit
def triton_poi_fused_abs_add_div_1(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    tmp1 = tl_math.abs(tmp0)
''', device_str='cuda')
"""


def wrapper(text: str) -> Event:
    return Event(
        "output_code", 2.5, "0/0", "forward", plain({"text": text, "file": "c.py"}), (("torch/_inductor/graph.py", 1, "f"),)
    )


@pytest.mark.parametrize(
    ("text", "language", "names"),
    [
        (CPP, "cpp", ["cpp_fused_mul_0"]),
        (TRITON, "triton", ["triton_per_fused_lt_sum_0", "triton_poi_fused_abs_add_div_1"]),
    ],
)
def test_each_kernel_is_an_event_of_its_language(text: str, language: str, names: list[str]) -> None:
    """A kernel for each call of async_compile, in order, with the wrapper's time, frame, graph and path."""
    kernels = list(kernel_events(wrapper(text)))
    assert [k.data["name"] for k in kernels] == names
    assert {k.data["language"] for k in kernels} == {language}
    assert {(k.kind, k.time, k.frame, k.graph, k.path) for k in kernels} == {
        ("kernel", 2.5, "0/0", "forward", (("torch/_inductor/graph.py", 1, "f"),))
    }


@pytest.mark.parametrize("text", [CPP, TRITON])
def test_wrapper_lines_are_exact(text: str) -> None:
    """Line n of a kernel is line `wrapper_line` + n − 1 of the wrapper, to the letter."""
    lines = text.splitlines()
    for kernel in kernel_events(wrapper(text)):
        source = kernel.data["text"].splitlines()
        first = kernel.data["wrapper_line"]
        assert lines[first - 1 : first - 1 + len(source)] == source and len(source) >= 4


def test_blank_lines_at_the_start_do_not_shift_the_lines() -> None:
    """Where the string begins with several line breaks, or with none, the first line is still found."""
    for blank in ("", "\n", "\n\n\n"):
        (kernel,) = kernel_events(wrapper(f"a = 1\nk = async_compile.triton('k', '''{blank}first\nsecond\n''')\n"))
        assert kernel.data["text"] == "first\nsecond"
        assert kernel.data["wrapper_line"] == 2 + len(blank)


def test_the_comment_right_above_a_kernel_goes_with_it() -> None:
    """Inductor's comment lines above a kernel are its `comment`; one further up is not, and none is "" ."""
    first, second = kernel_events(wrapper(TRITON))
    assert first.data["comment"].splitlines()[0].startswith("# kernel path: ")
    assert first.data["comment"].splitlines()[-1] == "#   return %sum_1,%lt"
    assert "Original ATen: [aten.sum, aten.lt]" in first.data["comment"]
    assert second.data["comment"] == ""


@pytest.mark.parametrize(
    "text",
    [
        "aten = torch.ops.aten\nasync_compile = AsyncCompile()\n",
        "x = async_compile.wait('text')\n",
        "k.source = async_compile.triton('k', 'text')\n",
        "k = async_compile.triton(name, source)\n",
        "def call(args):\n    k = async_compile.triton('k', 'text')\n",
        "",
    ],
)
def test_other_statements_are_no_kernels(text: str) -> None:
    """Only a name at the top level that gets a kernel's source text is a kernel."""
    assert list(kernel_events(wrapper(text))) == []


def test_every_wrapper_recorded_keeps_its_kernels_lines(replayed: Callable[[str], Trace]) -> None:
    """In a real wrapper of each torch version the kernel's function stands where its event says."""
    for version in ("2.11", "2.13", "2.15"):
        (event,) = replayed(f"sin_cos-torch{version}-cpu").find("output_code")
        (kernel,) = kernel_events(wrapper(event.text))
        assert event.lines[kernel.data["wrapper_line"] - 1] == kernel.data["text"].splitlines()[0]


def test_the_stage_is_the_file_as_it_is() -> None:
    """The wrapper's text is not changed; its file's name is kept."""
    made = STAGE.artifact_of(wrapper(CPP), "id")
    assert (made.text, made.language, made.data["file"]) == (CPP, "python", "c.py")
