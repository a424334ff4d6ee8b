"""Kernels that Inductor writes in Pallas, read from a recording, without JAX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from explorer.analysis.questions.launch_sites import sites
from explorer.analysis.questions.missing import why_no_kernel
from explorer.model.values import Artifact, Event
from explorer.stages.inductor.definitions import kernel_events
from explorer.stages.inductor.signature import Parameter, parameters
from explorer.stages.kinds import kernel_kinds
from explorer.tracing.traced import Trace

NAME = "pallas_fused__softmax_add_mul_relu_1ecbf1c0"


@pytest.fixture(scope="module")
def pallas(replayed: Callable[[str], Trace]) -> Trace:
    return replayed("views/pallas_softmax-torch2.13-cpu")


def test_a_pallas_kernel_is_a_kernel_of_the_trace(pallas: Trace) -> None:
    """Its name, its language and all of its source are there, and every answer on kernels knows it."""
    (kernel,) = pallas.kernels
    assert (kernel.name, kernel.language) == (NAME, "pallas")
    assert kernel.source.startswith("import functools") and f"def {NAME}_main(" in kernel.source
    assert kernel.operators == ("aten._softmax", "aten.mul", "aten.add", "aten.relu")
    assert "1 kernel launch and 1 library call" in " ".join(repr(pallas).split())
    assert repr(kernel).endswith("text of kernel>")
    (row,) = pallas.kernels.table
    assert (row["language"], row["launches"]) == ("pallas", 1) and row["read"] and row["written"]


def test_a_launch_has_the_kernels_names_for_its_arguments(pallas: Trace) -> None:
    """The wrapper gives the output twice: as the memory that JAX takes over, and as what the result is copied into."""
    (kernel,) = pallas.kernels
    (launch,) = kernel.launches
    assert dict(launch["arguments"]) == {"out_ptr3_alias": "buf4", "in_ptr0": "buf0", "in_ptr1": "arg0_1", "out_ptr3": "buf4"}
    assert dict(launch["inputs"]) == {"in_ptr1": "x"}
    (wrapper,) = pallas.find("output_code")
    assert wrapper.lines[launch["line"] - 1].strip().startswith(f"{NAME}.run(")
    assert [site.name for site in sites(wrapper)] == ["extern_kernels.mm", NAME]


def test_parameters_are_those_of_the_function_that_pytorch_calls(pallas: Trace) -> None:
    """A pointer is a tensor, a size is a number, and only the output itself is written."""
    found = parameters(pallas.kernels[0].source, "pallas")
    assert [p.name for p in found if p.writes] == ["out_ptr3"] and all(p.is_tensor for p in found)
    assert parameters("def k_main(out_ptr0_alias, ks0, out_ptr0, stream=None):\n    pass\n", "pallas") == (
        Parameter("out_ptr0_alias", "*"),
        Parameter("ks0", "int"),
        Parameter("out_ptr0", "*"),
    )
    assert parameters("x = 1", "pallas") == ()


def test_only_the_function_of_pallas_call_computes(pallas: Trace) -> None:
    """The wrappers around it run on the host, and its iteration variables are index arithmetic."""
    artifact = pallas.kernels[0].artifact
    kinds = kernel_kinds(artifact)
    computing = [line.strip() for line, kind in zip(artifact.lines, kinds, strict=True) if not kind]
    assert computing[0] == "tmp0 = in_ptr0[...]" and computing[-1].startswith("out_ptr3[...] = ")
    assert len(computing) == 13
    assert {line.strip() for line, kind in zip(artifact.lines, kinds, strict=True) if kind == "index arithmetic"} == {
        "x0 = jnp.arange(32).reshape(32, 1)",
        "r0_1 = jnp.arange(64)",
    }
    assert Counter(kinds)["signature"] == 1 and Counter(kinds)["host code"] > 40


def test_a_launch_leads_to_the_function_of_pallas_call(pallas: Trace) -> None:
    """The wrapper's line links to the line on which that function begins, and so does the scheduler's node."""
    artifact = pallas.kernels[0].artifact
    (begin,) = [n for n, line in enumerate(artifact.lines, 1) if line.startswith(f"def {NAME}_kernel(")]
    (launch,) = [link for link in pallas.links if link.target == artifact.id and link.how == "launch"]
    assert launch.target_lines == (begin,)
    (defined,) = [link for link in pallas.links if link.source == artifact.id and "ir_post_fusion" in link.target]
    assert defined.source_lines == (begin,)


@pytest.mark.parametrize(
    ("definition", "language", "source"),
    [
        (
            "async_compile.halide(HalideMeta(argtypes=[]), '''\nimport halide as hl\nx = 1\n''')",
            "halide",
            "import halide as hl\nx = 1",
        ),
        (
            "async_compile.metal('k', '''\n#include <c10>\nkernel void k()\n''', ['math'])",
            "metal",
            "#include <c10>\nkernel void k()",
        ),
        (
            "async_compile.cuda(r'''\n#include <cutlass>\nint k();\n''', 'so', aot_compile=False)",
            "cuda",
            "#include <cutlass>\nint k();",
        ),
        ("async_compile.newest('k', r'''\na\nb\n''')", "newest", "a\nb"),
    ],
)
def test_whatever_async_compile_is_given_is_a_kernel(definition: str, language: str, source: str) -> None:
    """A generator that nothing here knows is named by the method of async_compile that takes its source."""
    wrapper = Event("output_code", 0.0, data={"text": f"k = {definition}\n", "file": ""})
    (kernel,) = kernel_events(wrapper)
    assert (kernel.data["name"], kernel.data["language"], kernel.data["text"]) == ("k", language, source)


@pytest.mark.parametrize("call", ["lib.run(x)", "lib = async_compile.new('lib')\n    lib(x)"])
def test_a_launch_of_what_is_not_defined_is_no_librarys(call: str) -> None:
    """A trace without kernels names what its output code launches; it calls libraries only where it launches nothing."""
    text = f"lib = async_compile.new('lib')\ndef call(args):\n    {call}\n    extern_kernels.mm(x, y)\n"
    wrapper = Artifact("w", "output_code", "0/0", "inference", "Output code", "python", text)
    assert "the output code launches lib, and explorer does not find" in why_no_kernel(Trace(artifacts=(wrapper,)))
    library = Artifact("w", "output_code", "0/0", "inference", "Output code", "python", text.replace(call, "pass"))
    assert "calls libraries only" in why_no_kernel(Trace(artifacts=(library,)))
