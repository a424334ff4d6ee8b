"""Pallas kernels that Inductor writes while a program is traced: the nodes of their lines, the verbs, and what JAX refuses."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

import explorer
from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.observe.subclasses import SCHEDULINGS
from explorer.errors import LiveError
from explorer.stages.inductor.kernel import owners
from explorer.stages.kinds import kernel_kinds
from explorer.stages.pallas import PALLAS_FORMS
from explorer.tracing.traced import Trace
from tests.facts import untold

#: Torch 2.11 broadcasts a row's maximum in a way that JAX refuses, and refuses no fusion of its own.
OLD = pytest.mark.skipif(
    torch.__version__ < "2.13", reason="this torch writes Pallas kernels for the CPU that JAX does not compile"
)
pytestmark = [pytest.mark.compile, OLD]


def program(x: torch.Tensor, w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x @ w, -1) * 2 + x
    return y.index_add(0, i, x).relu()


@pytest.fixture(scope="module")
def pallas() -> Trace:
    pytest.importorskip("jax", reason="jax is not installed: Pallas kernels are written in it")
    x = torch.randn(8, 16)
    with torch._inductor.config.patch(cpu_backend="pallas"):
        return explorer.trace(program, x, torch.randn(16, 16), torch.arange(8))


def test_each_computing_line_has_the_node_it_was_written_for(pallas: Trace) -> None:
    """A load, an operation, a reduction, both lines of a store and a scatter each have their FX node."""
    nodes = {}
    for kernel in pallas.kernels:
        known = owners(kernel.artifact)
        for number, kind in enumerate(kernel_kinds(kernel.artifact), 1):
            if not kind:
                nodes[kernel.artifact.lines[number - 1].strip().partition("(")[0]] = known[number][0]
                assert known[number][1] == "codegen"
    assert nodes["tmp1 = jnp.max"] == ("amax",) and nodes["tmp3 = jnp.exp"] == ("exp",)
    assert nodes["tmp4 = jnp.sum"] == ("sum_1",)
    assert [names for line, names in nodes.items() if ".at[" in line] == [("index_put",)]
    stores = {names for line, names in nodes.items() if "[...] = " in line or line == "_val = jnp.asarray"}
    assert ("relu",) in stores


def test_the_compiled_function_is_checked(pallas: Trace) -> None:
    """What JAX computes in its interpreter is compared with eager PyTorch, output by output."""
    rows = pallas.check()
    assert len(rows) == 1 and all(row["equal"] for row in rows)


def test_a_kernels_script_runs_it_alone(pallas: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It needs no GPU: it launches the kernel as the wrapper does, and finds what it writes right."""
    pallas.kernels[-1].to_script(tmp_path / "kernel.py")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "kernel.py"), run_name="__main__")
    assert ended.value.code == 0 and "beside eager: right" in capsys.readouterr().out


def test_an_edit_is_compiled_and_checked(pallas: Trace) -> None:
    """A kernel with another reduction is wrong, and the original stays in place."""
    kernel = next(k for k in pallas.kernels if "jnp.sum" in k.source)
    edit = kernel.edit(source=kernel.source.replace("jnp.sum", "jnp.max"), timeout=600)
    assert "wrong result" in repr(edit)
    assert all(row["equal"] for row in pallas.check())


def test_bisection_writes_the_kernel_that_is_off_as_a_script(pallas: Trace, tmp_path: Path) -> None:
    """The values of each launch are compared with those of its FX nodes; a script shows the fault alone."""
    assert repr(pallas.bisect()).startswith("nothing is off")
    kernel = next(k for k in pallas.kernels if "jnp.sum" in k.source)
    kernel.edit(source=kernel.source.replace("jnp.sum", "jnp.max"), check=False, timeout=600)
    try:
        pallas.bisect().to_script(tmp_path / "fault.py")
    finally:
        kernel.edits.reset()
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "fault.py"), run_name="__main__")
    assert ended.value.code == 1


def test_afterwards_inductor_is_as_it_was(pallas: Trace) -> None:
    """No function of Inductor's Pallas backend stays replaced."""
    from torch._inductor.codegen.pallas import PallasKernel, PallasScheduling

    for function in (PallasKernel.store, PallasScheduling.define_kernel):
        assert function.__code__.co_filename.replace("\\", "/").endswith("torch/_inductor/codegen/pallas.py")


def test_every_generator_of_inductor_is_observed() -> None:
    """What defines kernels is imported before a compile, which is when Inductor itself would: else it is not seen at first."""
    from torch._inductor.codegen.common import init_backend_registration

    imported = re.findall(r"from \.(\w+) import \w+Scheduling\n", inspect.getsource(init_backend_registration))
    assert "pallas" in imported and set(imported) <= set(SCHEDULINGS)


def wrongly_broadcast(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The product has two dimensions in memory and three in the sum, which torch 2.13's Pallas kernel adds as they are."""
    return (x.reshape(32, 16) @ w).view(2, 16, 16) + x


def test_a_kernel_that_jax_refuses_is_a_failure_of_its_trace(pallas: Trace) -> None:
    """The trace names the kernel, says what to do, and keeps every text down to the kernel."""
    with torch._inductor.config.patch(cpu_backend="pallas"):
        trace = explorer.trace(wrongly_broadcast, torch.randn(2, 16, 16), torch.randn(16, 16))
    if not trace.failures:
        pytest.skip("this torch writes a kernel that JAX takes")
    (failure,) = trace.failures
    assert failure.fatal and failure.message.startswith(f"JAX does not compile the Pallas kernel {trace.kernels[0].name} as")
    assert "Incompatible shapes for broadcasting" in failure.message
    assert trace.text("kernel").startswith("import functools")


def test_an_error_of_the_program_is_no_error_of_jax() -> None:
    """Only an error that comes out of a kernel's launch is: nothing of the program's own is taken for one."""
    try:
        torch.ones(2).view(3)
    except RuntimeError as error:
        assert not compiling.is_compiler_error(error)


def test_without_jax_the_trace_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor imports the kernel while it compiles, which needs JAX: the trace says so, and has the graphs."""
    monkeypatch.setitem(sys.modules, "jax", None)
    with torch._inductor.config.patch(cpu_backend="pallas"):
        trace = explorer.trace(torch.sin, torch.randn(8))
    assert "pip install 'torch-compile-explorer[pallas]'" in trace.failures[0].message
    assert trace.text("post_grad")


def two_orders(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x + y).sum(1), (x.t() + y).sum(1)


def test_what_pallas_refuses_to_fuse_has_a_sentence(pallas: Trace) -> None:
    """Two reductions that read one buffer in different orders stay apart, for a reason that only Pallas has."""
    trace = explorer.trace(two_orders, torch.randn(16, 16), torch.randn(16, 16), options={"cpu_backend": "pallas"})
    (row,) = trace.fusion.table
    assert row["rule"].startswith("PallasScheduling.can_fuse (")
    assert row["reason"].startswith("op0 and op1 reduce the same buffer in different orders. Inductor's Pallas keeps")


@pytest.mark.parametrize(
    ("function", "sizes", "reason"),
    [
        (lambda x, i: x.index_add(0, i, x), (), "IndexError: list index out of range"),
        (lambda x, i: x.relu().index_add(0, i, x[:1] * 2).relu(), (4, 8), "only one indirect access per kernel"),
    ],
    ids=["a scalar's rows", "two indices"],
)
def test_a_kernel_that_inductor_does_not_write_is_a_failure_at_the_program_s_line(
    function: Callable[..., torch.Tensor], sizes: tuple[int, ...], reason: str
) -> None:
    """The failure says what to do, where the program asks for it, and what Inductor raised; the forward stays in the trace."""
    pytest.importorskip("jax", reason="jax is not installed: Pallas kernels are written in it")
    x, i = torch.ones(sizes, requires_grad=True), torch.tensor([0])
    trace = explorer.trace(function, x, i, train=True, options={"cpu_backend": "pallas"})
    (failure,) = trace.failures
    line = next(n for n, text in enumerate(Path(__file__).read_text().split("\n"), 1) if reason in text)
    assert failure.fatal and not untold(failure.message, "Pallas", "cpu_backend", f"{__file__}:{line}, in <lambda>", reason)
    assert trace.find("backward") and trace.find("lowering") and trace.kernels, "the forward was compiled before"


# Below the source --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lowered(pallas: Trace) -> Trace:
    for stage in PALLAS_FORMS:
        pallas = pallas.attach(stage)
    return pallas


def test_each_kernel_has_what_jax_makes_of_it(lowered: Trace, pallas: Trace) -> None:
    """The jaxpr, StableHLO for the CPU and, where JAX can, Mosaic's MLIR for a TPU, each computing line linked to the program."""
    assert pallas.kernels[0].stages == ("kernel", *PALLAS_FORMS)
    for stage in PALLAS_FORMS:
        assert len(lowered.find(stage)) == len(pallas.kernels)
        rows = lowered.coverage(stage)
        assert sum(row["counted"] for row in rows) > 15
        assert all(row["linked"] == row["counted"] for row in rows)
    softmax = next(k for k in lowered.kernels if "jnp.exp" in k.source)
    assert " = exp " in softmax.text("pallas_jaxpr") and "stablehlo.exponential" in softmax.text("pallas_stablehlo")
    assert "math.exp" in softmax.text("pallas_mosaic")


def test_what_jax_does_not_lower_for_a_tpu_says_why(lowered: Trace) -> None:
    """A scatter is a reason in place of a text, and the other kernels have theirs."""
    scatter = next(k for k in lowered.kernels if ".at[" in k.source)
    assert scatter.text("pallas_mosaic").startswith("// JAX does not make it: NotImplementedError\n// Unimplemented primitive")


def test_forms_are_kept_by_a_file(lowered: Trace, tmp_path: Path) -> None:
    """A loaded trace has the texts and their links, and asks for the process for those that it lacks."""
    lowered.save(tmp_path / "t.json.gz")
    loaded = explorer.load(tmp_path / "t.json.gz")
    assert loaded == lowered and loaded.kernels[0].text("pallas_jaxpr") == lowered.kernels[0].text("pallas_jaxpr")
    bare = replace(loaded, artifacts=tuple(a for a in loaded.artifacts if a.stage not in PALLAS_FORMS))
    with pytest.raises(LiveError, match="process that made this trace"):
        bare.kernels[0].text("pallas_jaxpr")


@pytest.mark.benchmarks
def test_the_table_of_generators_has_a_row_per_program(pallas: Trace, module_at: Callable[[Path], ModuleType]) -> None:
    """benchmarks/generators.py says of a generator that compiles what explorer has of it, and of another why it does not."""
    generators = module_at(Path(__file__).parents[1] / "benchmarks" / "generators.py")
    generators.GENERATORS["unknown"] = generators.Generator({"cpu_backend": "unknown"})
    lines = list(generators.table(["pallas", "metal", "unknown"], ["layer norm"]))
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    assert cells[0] == list(generators.COLUMNS) and len(cells) == 8
    assert cells[2][:2] == ["pallas", "layer norm"] and cells[2][5:] == ["20 of 20, 100.0%", "3 of 3", "1 of 1", "1 of 1"]
    assert cells[4][:3] == ["metal", "layer norm", "yes"] and cells[4][7:] == ["not run here", "1 of 1"]
    assert cells[6][2] == "no" and any(line.startswith("unknown, layer norm: ") for line in lines)
