"""Kernels that Inductor writes in Halide, read from their text, without Halide."""

from __future__ import annotations

from explorer.analysis.questions.kernels import kernel_launches
from explorer.model.values import Artifact
from explorer.stages.inductor.kernel import definition_line
from explorer.stages.inductor.signature import Parameter, parameters
from explorer.stages.kinds import kernel_kinds
from explorer.tracing.traced import Trace

#: As torch 2.13 writes it, with some lines left out.
SOURCE = """import halide as hl
from torch._inductor.runtime import halide_helpers

@hl.generator(name="kernel")
class Kernel:
    in_ptr0 = hl.InputBuffer(hl.Float(32), 2)
    in_ptr0_view0 = hl.InputBuffer(hl.Float(32), 1)
    in_ptr1 = hl.InputBuffer(hl.Int(64), 1)
    ks0 = hl.InputScalar(hl.Int(32))
    out_ptr0 = hl.OutputBuffer(hl.Float(32), 2)

    def generate(g):
        in_ptr0 = g.in_ptr0
        ks0 = g.ks0
        out_ptr0 = g.out_ptr0
        h0 = hl.Var('h0')
        rdom = hl.RDom([hl.Range(0, 64)])
        hr1 = rdom[0]
        odom = hl.RDom([hl.Range(0, ks0)])
        ho0 = odom[0]
        tmp0 = hl.Func('tmp0')
        tmp0[h0, h1] = in_ptr0[h0, h1]
        tmp1 = hl.Func('tmp1')
        tmp1[h0] = hl.cast(hl.Float(32), 0)
        tmp1[h0] = (tmp1[h0] + tmp0[h0, hr1])
        tmp2_mask = hl.RDom([hl.Range(0, 1)])
        out_ptr0[hl.Var()] = hl.undef(out_ptr0.type())
        out_ptr0[ho0,] += hl.cast(hl.Float(32), tmp1[ho0])

        assert g.using_autoscheduler()
        in_ptr0.dim(0).set_min(0)
        # a comment
        out_ptr0.set_estimates([hl.Range(0, 64)])

if __name__ == "__main__":
    hl.main()"""
KERNEL = Artifact("k", "kernel", "0/0", "inference", "Kernel k", "halide", SOURCE, kernel="halide_kernel_0")
CALL = "def call(args):\n    halide_kernel_0(arg0_1, arg1_1, s0, buf0)"
WRAPPER = Artifact("w", "output_code", "0/0", "inference", "Output code", "python", CALL)


def test_parameters_are_what_the_generator_declares() -> None:
    """A buffer is a tensor, and a second name of one, with other strides, is no argument of a launch."""
    assert parameters(SOURCE, "halide") == (
        Parameter("in_ptr0", "hl.Float(32)*"),
        Parameter("in_ptr1", "hl.Int(64)*"),
        Parameter("ks0", "hl.Int(32)"),
        Parameter("out_ptr0", "hl.Float(32)*"),
    )
    assert [p.name for p in parameters(SOURCE, "halide") if p.writes] == ["out_ptr0"]


def test_only_definitions_of_funcs_compute() -> None:
    """Arguments, iteration variables, and what is said to the autoscheduler do not."""
    of_kind: dict[str, list[str]] = {}
    for line, kind in zip(KERNEL.lines, kernel_kinds(KERNEL), strict=True):
        of_kind.setdefault(kind, []).append(line.strip())
    assert len(of_kind[""]) == 8
    assert of_kind[""][0] == "tmp0 = hl.Func('tmp0')" and of_kind[""][-1].startswith("out_ptr0[ho0,] += ")
    assert [line.partition(" ")[0] for line in of_kind["index arithmetic"]] == ["h0", "rdom", "hr1", "odom", "ho0"]
    assert len(of_kind["inputs"]) == 8 and len(of_kind["signature"]) == 3
    assert of_kind["host code"][0] == "assert g.using_autoscheduler()" and of_kind["host code"][-1] == "hl.main()"
    assert of_kind["comments"] == ["# a comment"]


def test_a_launch_has_the_kernels_names_for_its_arguments() -> None:
    """The wrapper calls a Halide kernel by its name, without a grid."""
    (launch,) = kernel_launches(Trace(artifacts=(WRAPPER, KERNEL)), KERNEL)
    assert dict(launch.arguments) == {"in_ptr0": "arg0_1", "in_ptr1": "arg1_1", "ks0": "s0", "out_ptr0": "buf0"}
    assert (launch.line, launch.grid) == (2, ())


def test_a_kernel_begins_at_the_function_that_builds_its_pipeline() -> None:
    """Launches and scheduler nodes lead there."""
    assert KERNEL.lines[definition_line(KERNEL) - 1].strip() == "def generate(g):"
