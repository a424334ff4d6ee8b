"""Kernels in Metal, as the text of a wrapper has them."""

from __future__ import annotations

from explorer.capture.observe.kernel_lines import without_includes
from explorer.model.shared import KernelText, OutputCodeText
from explorer.model.values import Event
from explorer.stages.inductor.cpp_wrapper import calls
from explorer.stages.inductor.definitions import kernel_events
from explorer.stages.inductor.kernel import definition_line, render
from explorer.stages.inductor.launch import launches_by_call
from explorer.stages.inductor.signature import Parameter, parameters
from explorer.stages.kinds import kernel_kinds

#: A reduction that torch 2.13 wrote for MPS, in parts.
SOURCE = """\
    [[max_total_threads_per_threadgroup(1024)]]
    kernel void generated_kernel_0(
        device float* out_ptr0,
        constant float* in_ptr0,
        constant long& ks0,
        device c10::metal::ErrorMessages* error_buf,
        uint2 thread_pos [[thread_position_in_grid]],
        uint2 group_pos [[thread_position_in_threadgroup]]
    ) {
        auto xindex = thread_pos.x;
        auto r0_index = thread_pos.y;
        int x0 = xindex;
        threadgroup float tmp_acc_0[32];
        float tmp_acc_1 = 0;
        for(auto r0_0_cnt = 0; r0_0_cnt < 4; ++r0_0_cnt) {
            int r0_linear_idx = 4 * r0_index + r0_0_cnt;
            if (r0_linear_idx >= 4000) break;
            int r0_1 = r0_linear_idx;
            auto tmp0 = in_ptr0[r0_1 + 4000*x0];
            if ((tmp0 < 0 || tmp0 >= 5)) {
                return;
            }
            float tmp1;
            if (tmp0) {
                auto tmp_scoped_0 = in_ptr0[x0];
                tmp1 = static_cast<decltype(tmp1)>(tmp_scoped_0);
            } else tmp1 = static_cast<decltype(tmp1)>(0.0);
            tmp_acc_1 += tmp1;
        }
        threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        auto tmp2 = c10::metal::threadgroup_sum(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
        if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp2);
    }"""
WRAPPER = f"""\
async_compile = AsyncCompile()
generated_kernel_0 = async_compile.metal('generated_kernel_0', '''
{SOURCE}

''', ['reduction_utils', 'utils'])


async_compile.wait(globals())
del async_compile
"""
#: What the backend generated, before it took the kernel out of it.
GENERATED = "compile_mps_shader('''\n    #include <c10/metal/utils.h>\n" + SOURCE + "\n''')\n"


def kernel_event() -> Event:
    """The event of the wrapper's only kernel."""
    (event,) = kernel_events(Event("output_code", 0.0, "0/0", "inference", OutputCodeText(text=WRAPPER, file="")))
    return event


def test_a_wrapper_defines_a_metal_kernel_by_its_source_and_its_headers() -> None:
    """The kernel has the name and the source, and its first line is found in the wrapper."""
    data = kernel_event().data
    assert isinstance(data, KernelText)
    assert (data.name, data.language, data.text) == ("generated_kernel_0", "metal", SOURCE)
    assert WRAPPER.split("\n")[data.wrapper_line - 1] == SOURCE.split("\n")[0]


def test_what_computes_in_metal_is_neither_head_nor_index_nor_control() -> None:
    """Loads, accumulators, operations and stores compute, also behind an `if` or `else` of their own line."""
    artifact = render(kernel_event(), "k")
    kinds = dict(zip((line.strip() for line in artifact.lines), kernel_kinds(artifact), strict=True))
    assert [line for line, kind in kinds.items() if not kind] == [
        "threadgroup float tmp_acc_0[32];",
        "float tmp_acc_1 = 0;",
        "auto tmp0 = in_ptr0[r0_1 + 4000*x0];",
        "float tmp1;",
        "auto tmp_scoped_0 = in_ptr0[x0];",
        "tmp1 = static_cast<decltype(tmp1)>(tmp_scoped_0);",
        "} else tmp1 = static_cast<decltype(tmp1)>(0.0);",
        "tmp_acc_1 += tmp1;",
        "auto tmp2 = c10::metal::threadgroup_sum(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);",
        "if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp2);",
    ]
    assert kinds["int r0_linear_idx = 4 * r0_index + r0_0_cnt;"] == kinds["auto xindex = thread_pos.x;"] == "index arithmetic"
    assert kinds["threadgroup_barrier(metal::mem_flags::mem_threadgroup);"] == "barriers"
    assert kinds["if (r0_linear_idx >= 4000) break;"] == kinds["return;"] == "loop control"
    assert definition_line(artifact) == 2


def test_the_arguments_of_a_metal_kernel_are_those_that_a_launch_gives() -> None:
    """Buffers and sizes are arguments; the position of a thread and the buffer of errors are Metal's and torch's own."""
    assert parameters(SOURCE, "metal") == (
        Parameter("out_ptr0", "device float*"),
        Parameter("in_ptr0", "constant float*"),
        Parameter("ks0", "constant long&"),
    )
    assert [parameter.writes for parameter in parameters(SOURCE, "metal")] == [True, False, False]


def test_a_metal_kernel_is_cut_out_of_what_the_backend_generated() -> None:
    """The lines are those of the defined kernel: without the call around them and the includes."""
    assert without_includes(GENERATED).strip("\n") == SOURCE
    assert without_includes("def triton_(in_ptr0):\n    pass\n") == "def triton_(in_ptr0):\n    pass\n"


CALLS = """\
def call(args):
    generated_kernel_0(buf0, arg0_1, ks0, threads=[8192])
    generated_kernel_1(buf1, buf0, threads=[32, 1000], group_size=[1, 256])
    generated_kernel_1(buf2, buf0, threads=[s77, 1024], group_size=[1, 1024])
    generated_kernel_1(buf2, buf0, threads=[3, 9 * s77], group_size=[1, min(1024, s77)])
"""


def test_the_launches_of_a_metal_kernel_are_read_from_its_calls() -> None:
    """Arguments go by the kernel's names; the grid counts threadgroups, and is unknown where torch chooses their size."""
    (first,) = launches_by_call(CALLS, "generated_kernel_0", ("out_ptr0", "in_ptr0", "ks0"))
    assert first.arguments == {"out_ptr0": "buf0", "in_ptr0": "arg0_1", "ks0": "ks0", "threads": "[8192]"}
    assert (first.line, first.grid) == (2, ())
    rows = launches_by_call(CALLS, "generated_kernel_1", ("out_ptr0", "in_ptr0"))
    assert [(row.line, row.grid) for row in rows] == [
        (3, (32, 4)),
        (4, ("s77", 1)),
        (5, (3, "(9 * s77 + min(1024, s77) - 1) // min(1024, s77)")),
    ]


CPP_WRAPPER = f"""\
    uint32_t AtenTensorHandle;
const char* mps_lib_0_source = (R"MTL(
    // Metal helper functions
    template <typename T>
    kernel void helper(

{SOURCE.replace("generated_kernel_0", "generated_kernel")}
)MTL");
    aoti_torch_mps_start_encoding(handle);
    aoti_torch_mps_set_arg_tensor(handle, 0, buf2);
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_mps_mm_out(buf0, arg0_1, arg1_1));
    aoti_torch_mps_run_command_block(get_mps_lib_0_handle(), aoti_torch_mps_shared_callback, &mps_lib_0_func_wrapper_0);
"""


def test_a_wrapper_in_cpp_has_the_kernels_in_metal_without_their_headers() -> None:
    """The kernel begins at its own head; running its command block is its call, and what prepares that is none."""
    (kernel,) = kernel_events(Event("output_code", 0.0, "0/0", "inference", OutputCodeText(text=CPP_WRAPPER, file="")))
    assert isinstance(kernel.data, KernelText)
    assert (kernel.data.name, kernel.data.language) == ("mps_lib_0", "metal")
    assert kernel.data.text == SOURCE.replace("generated_kernel_0", "generated_kernel")
    assert CPP_WRAPPER.split("\n")[kernel.data.wrapper_line - 1] == SOURCE.split("\n")[0]
    assert [name for _, name in calls(CPP_WRAPPER)] == ["aoti_torch_mps_mm_out", "mps_lib_0"]
    assert without_includes(CPP_WRAPPER) == kernel.data.text
