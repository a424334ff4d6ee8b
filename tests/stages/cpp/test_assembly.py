"""Assembly: the functions of the kernel's own file are kept, and their .loc lines are links."""

from __future__ import annotations

from explorer.model.records import blank
from explorer.model.values import Artifact, Event
from explorer.stages.cpp.assembly import INLINED, LOC, STAGE, AssemblyText, nested_lines, own_lines, own_places
from explorer.tracing.traced import Trace

TEXT = """\t.file\t"kernel.cpp"
\t.text
\t.file 0 "." "./kernel.cpp"
\t.type\t_ZN3c106detail4callE, @function
_ZN3c106detail4callE:
\t.file 1 "include/c10/util/StringUtil.h"
\t.loc 1 85 3
\tpushq\t%rbp
\t.size\t_ZN3c106detail4callE, .-_ZN3c106detail4callE
\t.globl\tkernel
\t.type\tkernel, @function
kernel:
.LFB16500:
\t.file 11 "./kernel.cpp"
\t.loc 11 4 1
\tleaq\t8(%rsp), %r10
\t.cfi_def_cfa 10, 0
\tandq\t$-64, %rsp
\t.loc 11 14 24 is_stmt 0
\tvmovups\t(%rdi), %zmm0
\t.file 12 "include/avx512fintrin.h"
\t.loc 12 6487 10
\tvmulps\t%zmm0, %zmm0, %zmm1
\t.loc 11 99 1
\tnop
.L4:
\t.section\t.text.unlikely
\t.type\tkernel.cold, @function
kernel.cold:
.LFSB16500:
\t.loc 11 25 1
\tcall\t__cxa_end_catch@PLT
\t.size\tkernel, .-kernel
\t.text
\t.size\tkernel.cold, .-kernel.cold
\t.ident\t"GCC: (Debian 12.2.0-14) 12.2.0"
"""
SOURCE = "\n".join(f"line {n}" for n in range(1, 27))


def kept_of(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(lines[n - 1] for n in own_lines(lines, "kernel.cpp"))


def artifacts(text: str = TEXT) -> tuple[Artifact, Artifact]:
    kernel = Artifact("k", "kernel", "0/0", "forward", "Kernel cpp_0", "cpp", SOURCE, kernel="cpp_0")
    data = blank(AssemblyText, name="cpp_0", text=text, file="kernel.cpp")
    return kernel, STAGE.artifact_of(Event("assembly", 0.0, "0/0", "forward", data), "a")


def test_only_functions_with_lines_of_the_own_file_are_kept() -> None:
    """The headers' inline functions are left out, with their .file lines; the kernel's function is kept whole."""
    kept = kept_of(TEXT)
    assert "_ZN3c106detail4callE" not in kept and "StringUtil.h" not in kept and "GCC" not in kept
    assert "vmulps" in kept and '.file 12 "include/avx512fintrin.h"' in kept.splitlines()[1]


def test_the_cold_part_inside_a_function_is_kept_once() -> None:
    """GCC's "kernel.cold" begins before "kernel" ends; no instruction is there twice."""
    kept = kept_of(TEXT)
    assert kept.count("call\t__cxa_end_catch@PLT") == 1 and kept.count("kernel.cold:") == 1


def test_clangs_form_is_known() -> None:
    """Clang writes no space after the name, and a hash of the file."""
    text = TEXT.replace(", @function", ",@function").replace('"./kernel.cpp"', '"." "kernel.cpp" md5 0x1234')
    assert kept_of(text).count("vmulps") == 1


def test_without_own_functions_the_text_stays_whole() -> None:
    """Assembly of an unknown form is shown whole."""
    assert kept_of("\tret\n") == "\tret"


def test_instructions_link_to_the_line_of_the_last_loc() -> None:
    """Each instruction after a .loc of the kernel's file, up to the next .loc, is linked to that line of the kernel."""
    kernel, made = artifacts()
    links = {
        made.lines[link.source_lines[0] - 1].split()[0]: link.target_lines
        for link in STAGE.link(made, Trace(artifacts=(kernel,)))
    }
    assert links == {"leaq": (4,), "andq": (4,), "vmovups": (14,), "call": (25,)}


def test_only_instructions_are_linked() -> None:
    """Directives and labels are not; nor is what a header's .loc or a line beyond the kernel's end covers."""
    kernel, made = artifacts()
    linked = [made.lines[link.source_lines[0] - 1] for link in STAGE.link(made, Trace(artifacts=(kernel,)))]
    assert all(line.startswith("\t") and not line.strip().startswith(".") for line in linked)
    assert not any("vmulps" in line or "nop" in line for line in linked)


def test_links_go_to_the_kernel_of_that_name_frame_and_graph() -> None:
    """Without that kernel in the trace there are no links."""
    kernel, made = artifacts()
    other = Artifact("o", "kernel", "0/0", "backward", "Kernel", "cpp", SOURCE, kernel="cpp_0")
    second = Artifact("s", "kernel", "0/0", "forward", "Kernel", "cpp", SOURCE, kernel="cpp_1")
    assert list(STAGE.link(made, Trace(artifacts=(other, second)))) == []
    assert {link.target for link in STAGE.link(made, Trace(artifacts=(other, second, kernel)))} == {"k"}


def instruction(mnemonic: str) -> int:
    return next(n for n, line in enumerate(TEXT.splitlines(), 1) if line.startswith(f"\t{mnemonic}"))


def inlined(mnemonic: str, *places: tuple[str, int]) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
    return [(instruction(mnemonic), places)]


def test_an_instruction_of_a_header_links_to_where_it_was_inlined() -> None:
    """Over all calls, to the innermost line of the kernel; how it is known is told apart from a .loc."""
    rows = inlined("vmulps", ("include/vec.h", 30), ("./kernel.cpp", 17), ("./kernel.cpp", 20))
    kernel = artifacts()[0]
    data = blank(AssemblyText, name="cpp_0", text=TEXT, file="kernel.cpp", inlined=rows)
    made = STAGE.artifact_of(Event("assembly", 0.0, "0/0", "forward", data), "a")
    links = [link for link in STAGE.link(made, Trace(artifacts=(kernel,))) if link.how == INLINED]
    assert [(made.lines[link.source_lines[0] - 1].split()[0], link.target_lines) for link in links] == [("vmulps", (17,))]


def test_a_header_that_was_inlined_nowhere_known_has_no_line() -> None:
    """Calls that lead to no line of the kernel, or to one without a number, make no link."""
    rows = inlined("vmulps", ("include/vec.h", 30), ("./kernel.cpp", 0))
    assert instruction("vmulps") not in own_places(TEXT.splitlines(), "kernel.cpp", rows, ())


def test_a_loc_that_stands_there_from_before_does_not_count() -> None:
    """An instruction of an inlined function is not of the line of the function around it that a .loc named last."""
    found = own_places(TEXT.splitlines(), "kernel.cpp", inlined("call", ("./kernel.cpp", 18)), ())
    assert found[instruction("call")] == (18, INLINED)


def test_a_lambda_of_the_kernel_keeps_its_own_line() -> None:
    """It is inlined as well, but where its lines are in the kernel's source, a .loc of them holds."""
    rows = inlined("call", ("include/vec.h", 3), ("./kernel.cpp", 18))
    assert own_places(TEXT.splitlines(), "kernel.cpp", rows, (24, 25))[instruction("call")] == (25, LOC)


SOURCE_WITH_LAMBDAS = """template <typename T>
inline T helper(T x) { return x; }

extern "C" void kernel(const float* in_ptr0)
{
    auto tmp1 = in_ptr0[static_cast<int64_t>(x0)];
    auto tmp2 = [&]
    {
        if (x) { tmp3 = 1; }
        return tmp3;
    }
    ();
    auto tmp4 = reduce([](float& x, float& y) { return x + y; }, tmp2);
    at::parallel(0, 1, [=](int64_t begin, int64_t end) -> void
    {
        ;
    });
}
"""


def test_the_lines_of_lambdas_and_helpers_are_found() -> None:
    """What stands above the kernel, and lambdas from brace to brace; an index is no lambda."""
    assert nested_lines(SOURCE_WITH_LAMBDAS) == [1, 2, 3, 8, 9, 10, 11, 13, 15, 16, 17]


def test_why_inlined_code_is_not_linked_is_kept() -> None:
    """Without debug information the artifact says why, and has the links of its own .loc lines."""
    data = blank(AssemblyText, name="cpp_0", text=TEXT, file="kernel.cpp", unlinked="addr2line is not installed")
    made = STAGE.artifact_of(Event("assembly", 0.0, "0/0", "forward", data), "a")
    assert made.data["unlinked"] == "addr2line is not installed" and set(made.data["stated"]) == {LOC}
