"""Assembly: the functions of the kernel's own file are kept, and their .loc lines are links."""

from __future__ import annotations

from explorer.model import Artifact, Event, plain
from explorer.stages.assembly import STAGE, own_functions
from explorer.traced import Trace

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


def artifacts(text: str = TEXT) -> tuple[Artifact, Artifact]:
    kernel = Artifact("k", "kernel", "0/0", "forward", "Kernel cpp_0", "cpp", SOURCE, kernel="cpp_0")
    data = plain({"name": "cpp_0", "text": text, "file": "kernel.cpp"})
    return kernel, STAGE.render(Event("assembly", 0.0, "0/0", "forward", data), "a")


def test_only_functions_with_lines_of_the_own_file_are_kept() -> None:
    """The headers' inline functions are left out, with their .file lines; the kernel's function is kept whole."""
    kept = own_functions(TEXT, "kernel.cpp")
    assert "_ZN3c106detail4callE" not in kept and "StringUtil.h" not in kept and "GCC" not in kept
    assert "vmulps" in kept and '.file 12 "include/avx512fintrin.h"' in kept.splitlines()[1]


def test_the_cold_part_inside_a_function_is_kept_once() -> None:
    """GCC's "kernel.cold" begins before "kernel" ends; no instruction is there twice."""
    kept = own_functions(TEXT, "kernel.cpp")
    assert kept.count("call\t__cxa_end_catch@PLT") == 1 and kept.count("kernel.cold:") == 1


def test_clangs_form_is_known() -> None:
    """Clang writes no space after the name, and a hash of the file."""
    text = TEXT.replace(", @function", ",@function").replace('"./kernel.cpp"', '"." "kernel.cpp" md5 0x1234')
    assert own_functions(text, "kernel.cpp").count("vmulps") == 1


def test_without_own_functions_the_text_stays_whole() -> None:
    """Assembly of another form is shown as it is."""
    assert own_functions("\tret\n", "kernel.cpp") == "\tret\n"


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
