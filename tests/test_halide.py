"""Halide kernels that Inductor writes while a program is traced: the nodes of their lines, and the verbs."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch._inductor.codecache import HalideCodeCache

import explorer
from explorer.capture.compilers import torch_compile as compiling
from explorer.capture.ladder.halide import arguments, written_forms
from explorer.errors import LiveError
from explorer.stages.halide import HALIDE_FORMS
from explorer.stages.inductor.kernel import owners
from explorer.stages.kinds import kernel_kinds
from explorer.tracing.traced import Trace

pytestmark = pytest.mark.compile


def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x, -1) * 2 + x
    return y.index_add(0, i, x)


@pytest.fixture(scope="module")
def halide() -> Trace:
    pytest.importorskip("halide", reason="halide is not installed: pip install 'torch-compile-explorer[halide]'")
    return explorer.trace(program, torch.randn(8, 16), torch.arange(8), options={"cpu_backend": "halide"})


def test_each_computing_line_has_the_node_it_was_written_for(halide: Trace) -> None:
    """A load, an operation, both lines of a reduction and a scatter each have their FX node."""
    nodes: dict[str, tuple[str, ...]] = {}
    for kernel in halide.kernels:
        known = owners(kernel.artifact)
        for number, kind in enumerate(kernel_kinds(kernel.artifact), 1):
            if not kind:
                assert known[number][1] == "codegen"
                nodes[kernel.artifact.lines[number - 1].strip()] = known[number][0]
    assert {names for line, names in nodes.items() if "tmp1[h1] = (hl.select(" in line} == {("amax",)}
    assert {names for line, names in nodes.items() if "hl.fast_exp(" in line} == {("exp",)}
    assert {names for line, names in nodes.items() if re.search(r"\(tmp(\d+)\[h1\] \+ tmp", line)} == {("sum_1",)}
    assert {names for line, names in nodes.items() if "] += " in line} == {("index_put",)}


def test_the_compiled_function_is_checked(halide: Trace) -> None:
    """What Halide computes is compared with eager PyTorch."""
    rows = halide.check()
    assert len(rows) == 1 and all(row["equal"] for row in rows)


def test_a_kernels_script_runs_it_alone(halide: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It launches the kernel as the wrapper does, and finds what it writes right."""
    halide.kernels[0].to_script(tmp_path / "kernel.py")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "kernel.py"), run_name="__main__")
    assert ended.value.code == 0 and "beside eager: right" in capsys.readouterr().out


def test_bisection_writes_the_kernel_that_is_off_as_a_script(halide: Trace, tmp_path: Path) -> None:
    """A wrong edit is seen, the original stays in place, and a script shows the fault alone."""
    kernel = next(k for k in halide.kernels if "hl.fast_exp(" in k.source)
    wrong = kernel.source.replace("hl.fast_exp(", "hl.sin(")
    edit = kernel.edit(source=wrong, timeout=600)
    assert "wrong result" in repr(edit)
    assert repr(halide.bisect()).startswith("nothing is off")
    kernel.edit(source=wrong, check=False, timeout=600)
    try:
        halide.bisect().to_script(tmp_path / "fault.py")
    finally:
        kernel.edits.reset()
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "fault.py"), run_name="__main__")
    assert ended.value.code == 1


def test_afterwards_inductor_is_as_it_was(halide: Trace) -> None:
    """The pattern of the Halide backend is the regular expression that it was."""
    from torch._inductor.codegen.halide import HalideCSEVariable

    assert isinstance(HalideCSEVariable.undefined_re, re.Pattern)
    assert type(vars(HalideCSEVariable)["undefined_re"]) is re.Pattern


# What does not compile ---------------------------------------------------------------------------------------------------


def test_an_operator_that_the_backend_does_not_write_is_a_failure_of_its_trace() -> None:
    """The trace says what to do, and keeps every text down to the scheduler's."""
    trace = explorer.trace(torch.frexp, torch.randn(8), options={"cpu_backend": "halide"})
    (failure,) = trace.failures
    assert failure.fatal and failure.message.startswith("Inductor's Halide backend does not write or compile this: keep")
    assert "NotImplementedError: frexp" in failure.message
    assert trace.text("ir_post_fusion")


def test_a_kernel_that_halide_refuses_is_a_failure_of_its_trace() -> None:
    """The trace has the kernel."""
    pytest.importorskip("halide", reason="halide is not installed: pip install 'torch-compile-explorer[halide]'")
    trace = explorer.trace(torch.sin, torch.randn(8), options={"cpu_backend": "halide", "halide.cpu_target": "no_such"})
    (failure,) = trace.failures
    assert failure.fatal and failure.message.startswith("Inductor's Halide backend does not write or compile this")
    assert "hl.sin(" in trace.text("kernel")


def test_a_launch_that_halide_refuses_is_no_error_of_the_program() -> None:
    """The C++ around a kernel raises it where a check fails that Halide writes on request."""
    error = RuntimeError("halide_kernel failed")
    assert compiling.is_compiler_error(error) and compiling.advice(error).startswith("Inductor's Halide backend")
    assert not compiling.is_compiler_error(RuntimeError("kernel failed"))


def test_without_halide_the_trace_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor asks for the autoscheduler as it writes the kernel: the trace says so, and has the graphs."""
    search = HalideCodeCache._search_for_file
    monkeypatch.setattr(HalideCodeCache, "find_libautoschedule", staticmethod(lambda name: search(name, "")))  # it is cached
    monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda *names: None)
    trace = explorer.trace(torch.sin, torch.randn(8), options={"cpu_backend": "halide"})
    assert "pip install 'torch-compile-explorer[halide]'" in trace.failures[0].message
    assert trace.text("post_grad")


# Below the source --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lowered(halide: Trace) -> Trace:
    for stage in HALIDE_FORMS:
        halide = halide.attach(stage)
    return halide


def test_each_kernel_has_what_halide_makes_of_it(lowered: Trace, halide: Trace) -> None:
    """The schedule, the statement and LLVM IR are linked; of assembly no instruction says where it comes from."""
    assert halide.kernels[0].stages == ("kernel", *HALIDE_FORMS)
    kernel = lowered.kernels[0]
    for stage, piece in zip(HALIDE_FORMS, (".compute_root()", "produce out_ptr", "!tbaa", "halide_kernel:"), strict=True):
        assert piece in kernel.text(stage)
        (row, *_) = lowered.coverage(stage)
        assert row["counted"] == row["linked"] and (stage == "halide_assembly") == (row["counted"] == 0)


def test_what_halide_refuses_is_said_in_its_words() -> None:
    """A source that is no generator of Halide's has no forms."""
    pytest.importorskip("halide", reason="halide is not installed: pip install 'torch-compile-explorer[halide]'")
    with pytest.raises(LiveError, match=r"(?s)Halide refused k:.*ValueError: no generator"):
        written_forms("k", "raise ValueError('no generator')\n")


def test_forms_are_kept_by_a_file(lowered: Trace, tmp_path: Path) -> None:
    """A loaded trace has the texts and their links."""
    lowered.save(tmp_path / "t.json.gz")
    loaded = explorer.load(tmp_path / "t.json.gz")
    assert loaded == lowered and loaded.kernels[0].text("halide_stmt") == lowered.kernels[0].text("halide_stmt")


def test_the_source_says_how_the_generator_is_called() -> None:
    """The arguments are those that HalideCodeCache passes on; without an autoscheduler there is the target alone."""
    source = (
        "else:\n    hl.load_plugin('/lib/libautoschedule_adams2019.so')\n    target = hl.Target('host-no_runtime')\n"
        "    autoscheduler = hl.AutoschedulerParams('Adams2019', {'parallelism': 2})\n"
    )
    called = ["-p", "/lib/libautoschedule_adams2019.so", "target=host-no_runtime"]
    assert arguments(source) == [*called, "autoscheduler=Adams2019", "autoscheduler.parallelism=2"]
    assert arguments("    target = hl.Target('host')\n") == ["target=host"]


@pytest.mark.benchmarks
def test_the_table_of_generators_has_rows_of_halide(halide: Trace, module_at: Callable[[Path], ModuleType]) -> None:
    """benchmarks/generators.py says what explorer has of its kernels: each computing line, and every form."""
    generators = module_at(Path(__file__).parents[1] / "benchmarks" / "generators.py")
    cells = [line.strip("| ").split(" | ") for line in generators.table(["halide"], ["layer norm"]) if line.startswith("|")]
    assert cells[2][:3] == ["halide", "layer norm", "yes"] and cells[2][5:] == ["39 of 39, 100.0%", "4 of 4", "1 of 1", "1 of 1"]
