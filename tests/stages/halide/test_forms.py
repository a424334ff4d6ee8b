"""The forms of a Halide kernel: what each line's names of Funcs lead to in the kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.model.stage import Stage
from explorer.model.values import Artifact, Event
from explorer.stages.halide import ASSEMBLY, LLVM, SCHEDULE, STMT
from explorer.stages.halide.forms import NAMED, STORED, HalideFormText, produced
from explorer.stages.halide.funcs import funcs
from explorer.tracing.traced import Trace

KERNEL = Artifact(
    "k", "kernel", "0/0", "inference", "Kernel k", "halide",
    """class Kernel:
    def generate(g):
        rdom = hl.RDom([hl.Range(0, 64)])
        hr0 = rdom[0]
        tmp0 = hl.Func('tmp0')
        tmp0[h0, h1] = in_ptr0[h0, h1]
        tmp1 = hl.Func('tmp1')
        tmp1[h1] = hl.cast(hl.Float(32), 0)
        tmp1[h1] = (tmp1[h1] + tmp0[hr0, h1])
        tmp2 = hl.Func('tmp2')
        tmp2[h0, h1] = hl.cast(tmp3.type(), tmp0[h0, h1] - tmp1[h1])
        tmp3 = hl.Func('tmp3')
        tmp3_mask = hl.RDom([hl.Range(0, 1)])
        tmp3_mask.where(tmp4[h0])
        tmp3[h0, h1] = tmp2[h0, h1] + hl.cast(hl.Float(32), tmp3_mask)
        out_ptr1[h0, tmp5[h1]] += hl.cast(hl.Float(32), tmp3[h0, h1])

        assert g.using_autoscheduler()
        in_ptr0.dim(0).set_min(0)""",
    kernel="k",
)  # fmt: skip

#: As Halide 21 writes it, with some lines left out.
SCHEDULE_TEXT = """#include "Halide.h"
// comment
inline void apply_schedule_halide_kernel(
    ::Halide::Pipeline pipeline,
    ::Halide::Target target
) {
    using ::Halide::Func;
    Func tmp1 = pipeline.get_func(2);
    out_ptr1
        .split(h0, h0, h0i, 16, TailStrategy::ShiftInwards)
        .parallel(h1);
    tmp1
        .compute_root();
    tmp1.update(0)
        .reorder({h1i, r12_x, h1});
}"""
STMT_TEXT = """module name=halide_kernel, target=x86
internal func halide_kernel_par_for_tmp1_s1_h1_h1 (__user_context, tmp1.s1.h1.h1, closure_arg) {
let in_ptr0 = (void *)load_typed_struct_member((void *)closure_arg, closure_prototype, 0)
let t1 = tmp1.s1.h1.h1*16
for (tmp1.s1.r12$x, 0, 64) {
 let t2 = in_ptr0[ramp(t1 + tmp1.s1.r12$x, 64, 16)]
 tmp1[ramp(t1, 1, 16) aligned(16, 0)] = (float32x16)strict_add(tmp1[ramp(t1, 1, 16)], t2)
}
}
func halide_kernel (in_ptr0, out_ptr1) {
allocate tmp1[float32 * 16]
produce tmp1 {
 tmp1[ramp(0, 1, 16)] = x16(0.000000f)
}
produce out_ptr1 {
 for (out_ptr1.s0.h1, 0, 8) {
  let t3 = tmp5[out_ptr1.s0.h1]
  let t4 = (float32)strict_sub(in_ptr0[t9], tmp1[out_ptr1.s0.h1])
  out_ptr1[(t3*16) + t7] = t4
 }
}
free tmp1
}"""
LLVM_TEXT = """define i32 @halide_kernel_par_for_tmp1_s1_h1_h1(ptr %0, i32 %1) {
entry:
  %2 = load ptr, ptr %0, align 8, !tbaa !90
  %3 = getelementptr float, ptr %2, i64 4
  %4 = load float, ptr %3, align 4, !tbaa !16
  br label %"2_for_tmp1.s1.r12$x"
"2_for_tmp1.s1.r12$x":
  %5 = phi float [ %4, %entry ], [ %6, %"2_for_tmp1.s1.r12$x" ]
  %6 = fadd float %5, %4
  %7 = add nuw nsw i64 %8, 1
  store float %6, ptr %2, align 4, !tbaa !18
  store i32 %9, ptr %2, align 4, !tbaa !90
  tail call void @llvm.memset.p0.i64(ptr align 64 %out, i8 0, i64 24, i1 false), !tbaa !53
  ret i32 0
}
!15 = !{!"Halide buffer"}
!16 = !{!17, !17, i64 0}
!17 = !{!"in_ptr0", !15, i64 0}
!18 = !{!19, !19, i64 0}
!19 = !{!"tmp1.width1.base0", !20, i64 0}
!20 = !{!"tmp1", !15, i64 0}
!53 = !{!54, !54, i64 0}
!54 = !{!"out_ptr1", !15, i64 0}
!90 = !{!91, !91, i64 0}
!91 = !{!"int", !92, i64 0}
!92 = !{!"Simple C++ TBAA"}"""
ASSEMBLY_TEXT = """halide_kernel_par_for_tmp1_s1_h1_h1:    # @halide_kernel_par_for_tmp1_s1_h1_h1
# %bb.0:                                # %entry
\tmovq\t(%rdx), %rax
.LBB1_2:                                # %"1_for_tmp1.s0.h0"
\tvaddps\t%zmm1, %zmm0, %zmm0"""
TEXTS = {
    "halide_schedule": SCHEDULE_TEXT,
    "halide_stmt": STMT_TEXT,
    "halide_llvm": LLVM_TEXT,
    "halide_assembly": ASSEMBLY_TEXT,
}


def links(stage: Stage) -> dict[int, tuple[tuple[int, ...], str]]:
    """The lines of the kernel that each line of a form leads to, and how that is known."""
    made = form(stage)
    return {link.source_lines[0]: (link.target_lines, link.how) for link in stage.link(made, Trace(artifacts=(KERNEL, made)))}


def form(stage: Stage) -> Artifact:
    data = HalideFormText(name="k", produced=tuple(produced(STMT_TEXT)), text=TEXTS[stage.name])
    return stage.artifact_of(Event(stage.name, 0.0, "0/0", "inference", data), "f")


def computing(stage: Stage) -> list[int]:
    """The lines of a form that compute."""
    assert stage.kinds is not None
    return [number for number, kind in enumerate(stage.kinds(form(stage)), 1) if not kind]


def test_a_func_has_its_definitions_and_those_inlined_into_it() -> None:
    """What is not produced in memory is inlined where it is read; a type that is named is not read."""
    known = funcs(KERNEL)
    assert known.definitions["tmp1"] == (8, 9) and known.expressions["tmp3_mask"] == (13, 14)
    assert known.lines_of("tmp1", 0, ()) == (8,)
    assert known.lines_of("tmp1", 1, ()) == (6, 9)
    assert known.lines_of("out_ptr1", None, ("tmp1", "out_ptr1")) == (6, 11, 13, 14, 15, 16)
    assert known.lines_of("out_ptr1", None, ("tmp3",)) == (16,)
    assert known.lines_of("tmp2", None, ("tmp1",)) == (6, 11)
    assert known.lines_of("unknown", None, ()) == ()


def test_halide_names_a_func_itself() -> None:
    """That of `hl.argmax` is called "argmax"; where there are several, their names say nothing."""
    head = (
        "class Kernel:\n    def generate(g):\n        tmp0[h0] = in_ptr0[h0]\n        tmp1_argmax = hl.argmax(rdom, tmp0[hr0])\n"
    )
    one = funcs(replace(KERNEL, text=f"{head}        tmp1[()] = tmp1_argmax[0]"))
    assert one.lines_of("argmax", 1, ()) == (3, 4) and one.lines_of("tmp1", None, ("argmax",)) == (5,)
    assert one.lines_of("tmp1", None, ()) == (3, 4, 5)
    two = funcs(
        replace(KERNEL, text=f"{head}        tmp2_argmax = hl.argmax(rdom, tmp0[hr0])\n        tmp1[()] = tmp2_argmax[0]")
    )
    assert two.lines_of("argmax", 1, ()) == () and two.lines_of("tmp1", None, ()) == (3, 5, 6)


def test_a_directive_leads_to_the_definition_that_it_schedules() -> None:
    """Those below `tmp1.update(0)` are of its second definition."""
    pure, update, output = ((8,), NAMED), ((9,), NAMED), ((16,), NAMED)
    assert links(SCHEDULE) == {9: output, 10: output, 11: output, 12: pure, 13: pure, 14: update, 15: update}
    assert computing(SCHEDULE) == list(links(SCHEDULE))


def test_a_store_leads_to_what_it_computes() -> None:
    """The loops around it say which definition it is of; what is computed for it, also for its place, leads where it does."""
    found = links(STMT)
    assert found[2] == found[5] == ((9,), NAMED) and found[16] == ((16,), NAMED)
    assert found[6] == found[7] == ((6, 9), STORED)
    assert found[13] == ((6, 8, 9), STORED)  # the text does not say which definition
    assert found[17] == found[18] == found[19] == ((6, 11, 13, 14, 15, 16), STORED)
    assert computing(STMT) == [6, 7, 13, 17, 18, 19]
    assert set(found) == {2, 5, 16, *computing(STMT)}


def test_what_is_stored_in_a_buffer_leads_to_its_func() -> None:
    """LLVM's !tbaa names the buffer; the runtime's own data have tags of another tree, and lead nowhere."""
    found = links(LLVM)
    assert found[1] == found[7] == ((9,), NAMED)
    assert found[5] == found[8] == found[9] == found[11] == ((6, 8, 9), STORED)
    assert found[13][1] == STORED and 16 in found[13][0]
    assert computing(LLVM) == [5, 8, 9, 11, 13]
    assert set(found) == {1, 7, *computing(LLVM)}


def test_instructions_state_no_line() -> None:
    """Halide writes no debug information: labels lead to their Func, and instructions nowhere."""
    assert links(ASSEMBLY) == {1: ((9,), NAMED), 4: ((8,), NAMED)}
    assert ASSEMBLY.kinds is not None
    assert ASSEMBLY.kinds(form(ASSEMBLY)) == ["directives", "directives", "no line stated", "directives", "no line stated"]


@pytest.mark.parametrize("stage", [SCHEDULE, STMT, LLVM, ASSEMBLY], ids=lambda stage: stage.name)
def test_without_its_kernel_a_form_has_no_link(stage: Stage) -> None:
    """There is nothing to lead to."""
    made = form(stage)
    assert list(stage.link(made, Trace(artifacts=(made,)))) == []
