"""Wrong uses of the public verbs: each gives an error of the explorer's that says what happened, why, and what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer import Trace
from explorer.errors import InputError, NoKernelError
from explorer.model.values import Event
from explorer.stages.records import event_data
from explorer.tracing.traced.trace import trace_of_events
from tests.facts import says, untold

R = torch.randn


def f(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


@pytest.fixture
def eager(zoo: Callable[[str], Trace]) -> Trace:
    """A trace by a backend that writes no kernels."""
    return zoo("doubled")


@pytest.fixture
def cpu(replayed: Callable[[str], Trace]) -> Trace:
    return replayed("sin_cos-torch2.13-cpu")


@pytest.fixture
def cuda(replayed: Callable[[str], Trace]) -> Trace:
    return replayed("sin_cos-torch2.11-cuda")


def test_a_kernel_that_is_not_there_says_why(eager: Trace, cpu: Trace) -> None:
    """It is an IndexError too, so that a loop over numbers ends; slices and negative numbers are as in a tuple."""
    with pytest.raises(NoKernelError, match=says("kernel", "'eager'", "backend='inductor'")):
        _ = eager.kernels[0]
    with pytest.raises(NoKernelError, match=says("no kernel", "nothing", "compiled")):
        _ = Trace().kernels[0]
    with pytest.raises(IndexError, match=says("1", "0", cpu.kernels[0].name)):
        _ = cpu.kernels[1]
    with pytest.raises(explorer.ExplorerError, match=says("'a'", cpu.kernels[0].name)):
        _ = cpu.kernels["a"]
    assert cpu.kernels[-1].name == cpu.kernels[0].name and len(cpu.kernels[:5]) == 1


@pytest.mark.parametrize("stage", ["ptx", "sass", "ttir", "amdgcn"])
def test_a_gpus_text_of_a_trace_for_the_cpu_names_a_gpu(stage: str, cpu: Trace) -> None:
    """The kernels are C++: what to write is in the message, of the trace and of its kernel."""
    for ask in (cpu.text, cpu.kernels[0].text):
        with pytest.raises(InputError, match=says(repr(stage), "C++", "explorer.trace(f, x, target='h100')")):
            ask(stage)
    with pytest.raises(InputError, match=says("'sass'", "C++", "target='h100'")):
        cpu.attach("sass")


@pytest.mark.parametrize(
    ("stage", "facts"),
    [
        ("backward", ("train=True",)),
        ("cuda_graph", ("mode='reduce-overhead'",)),
        ("symbol", ("dynamic=True",)),
        ("graph_break", ("graph",)),
        ("autotune", ("mode='max-autotune'",)),
        ("assembly", ("process", "loaded")),
        ("pallas_mosaic", ("only Pallas kernels", "C++", "options={'cpu_backend': 'pallas'}")),
        ("halide_stmt", ("only Halide kernels", "C++", "options={'cpu_backend': 'halide'}")),
    ],
)
def test_a_stage_that_need_not_be_there_says_when_it_is(stage: str, facts: tuple[str, ...], cpu: Trace) -> None:
    """The error says when the stage is there, not that its name is unknown: it lists no other stages."""
    with pytest.raises(InputError, match=says(repr(stage), *facts)) as raised:
        cpu.text(stage)
    assert untold(str(raised.value), "'post_grad'")


def test_other_machines_texts_are_told_apart(cuda: Trace, eager: Trace) -> None:
    """AMD's, NVIDIA's, C++'s, and those that only Inductor makes; a misspelt name is still answered with the nearest."""
    for stage, facts in (
        ("amdgcn", ("NVIDIA GPU", "'sass'", "AMD GPU", "'mi300x'")),
        ("assembly", ("C++", "Triton", "target='cpu'")),
        ("sass", ("process", "loaded")),
    ):
        with pytest.raises(InputError, match=says(repr(stage), *facts)):
            cuda.text(stage)
    with pytest.raises(InputError, match=says("'output_code'", "'eager'", "backend='inductor'")):
        eager.text("output_code")
    with pytest.raises(InputError, match="did you mean 'post_grad'"):
        cuda.text("postgrad")
    with pytest.raises(InputError, match=says("'ptx'", "empty")):
        Trace().text("ptx")


def test_a_pallas_kernel_has_no_form_of_another_language(replayed: Callable[[str], Trace]) -> None:
    """Its own forms need the process; of a GPU's text and of assembly the message says which kernels have it."""
    pallas = replayed("views/pallas_softmax-torch2.13-cpu")
    for stage, facts in (
        ("ptx", ("its kernels are Pallas", "target='h100'")),
        ("assembly", ("only C++ kernels", "its kernels are Pallas")),
        ("pallas_jaxpr", ("process", "loaded")),
    ):
        with pytest.raises(InputError, match=says(repr(stage), *facts)):
            pallas.text(stage)
    with pytest.raises(InputError, match=says("is Pallas and has no 'ttir'")):
        pallas.kernels[0].text("ttir")


def test_the_view_says_the_same(cpu: Trace) -> None:
    """`open` of what is not there never offers the name that was given; views and lines are checked too."""
    from explorer.view.widget import Explorer

    view = Explorer(cpu)
    for stage in ("sass", "ptx", "assembly"):
        with pytest.raises(InputError) as raised:
            view.show(stage)
        assert str(raised.value).count(repr(stage)) == 1
    with pytest.raises(InputError, match=says("view", "'guards'", "'dynamo'")):
        view.tab("guards")
    source = cpu.find("source")[0]
    with pytest.raises(InputError, match=says(repr(source.id), "1", str(len(source.lines)), "10000")):
        view.show("source", line=10_000)


def test_each_view_has_its_maker_in_the_front_end() -> None:
    """The makers of `views.js` are those of the views, in their order; the text panes need none."""
    import re

    from explorer.view import widget
    from explorer.view.views import VIEWS

    text = (Path(widget.__file__).parent / "src" / "views.js").read_text(encoding="utf-8")
    assert re.findall(r"^  (\w+): \(parts\) =>", text, re.MULTILINE) == [view.name for view in VIEWS if view.name != "code"]


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: explorer.trace(torch.jit.script(nn.Linear(8, 8)), R(8)), ("TorchScript", "Dynamo", "module")),
        (
            lambda: explorer.trace(torch.export.export(nn.Linear(8, 8), (R(8),)), R(8)),
            ("ExportedProgram", "explorer.trace(program.module(), x)"),
        ),
        (lambda: explorer.trace(f, R(8), options="mode"), ("options={'max_autotune': True}", "'mode'")),
        (lambda: explorer.trace(f, R(8), options=["a"]), ("options={'max_autotune': True}", "['a']")),
        (lambda: explorer.trace(f, R(8), options={"max_autotune": "yes"}), ("'max_autotune'", "bool", "'yes'")),
        (lambda: explorer.trace(f, R(8), dynamic="yes"), ("dynamic", "True", "False", "None", "'yes'")),
        (lambda: explorer.trace(f, R(8), fullgraph="yes"), ("fullgraph", "True", "False", "'yes'")),
        (lambda: explorer.trace(f, R(8), without_pass=3), ("without_pass", "t.inductor.passes", "3")),
        (lambda: explorer.load(3), ("path", "'f.json.gz'", "3")),
        (lambda: Trace().save(None), ("path", "'f.json.gz'", "None")),  # type: ignore[arg-type]
        (lambda: Trace().check("a"), ("limit", "seconds", "'a'")),  # type: ignore[arg-type]
        (lambda: Trace().benchmark("a"), ("repeats", "calls", "'a'")),  # type: ignore[arg-type]
        (lambda: explorer.record(stages=3).__enter__(), ("stages", "explorer.types.Stage", "3")),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_another_kind_are_answered(call: Callable[[], Any], facts: tuple[str, ...]) -> None:
    """Each gets an error of explorer's before anything is compiled."""
    with pytest.raises(InputError, match=says(*facts)):
        call()


@pytest.mark.compile
def test_changes_of_another_kind_are_answered() -> None:
    """`what_if`, which compiles again in the process that did, says what its arguments are."""
    eager = explorer.trace(f, R(8), backend="eager")
    with pytest.raises(InputError, match=says("options={'max_fusion_size': 2}", "'mode'")):
        eager.what_if(options="mode")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=says("without_pattern", "t.inductor.matches", "3")):
        eager.what_if(without_pattern=3)  # type: ignore[arg-type]


@pytest.mark.compile
def test_a_function_called_without_its_arguments_gets_a_note() -> None:
    """Python's own error goes through, with what to write."""
    with pytest.raises(TypeError) as raised:
        explorer.trace(f, backend="eager")
    assert "trace(f, x)" in raised.value.__notes__[0]


@pytest.mark.compile
def test_a_backend_that_is_not_installed_says_so_first() -> None:
    """The failure of a backend that torch registers begins with what to do."""
    trace = explorer.trace(f, R(8), backend="openxla")
    (failure,) = trace.failures
    assert not untold(failure.message.splitlines()[0], "'openxla'", "package", "explorer.backends()") and failure.fatal


@pytest.mark.compile
def test_triton_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    """Installed, and broken: the target is refused with the reason, by trace and by record."""
    pytest.importorskip("triton")
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch, explorer\n"
        "for call in (lambda: explorer.trace(torch.sin, torch.ones(2), target='h100'),\n"
        "             lambda: explorer.record('h100').__enter__()):\n"
        "    try: call()\n"
        "    except explorer.errors.InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    refusals = done.stdout.splitlines()
    assert len(refusals) == 2, done.stderr
    assert not any(untold(refusal, "'h100'", "triton", version("triton"), "No module named") for refusal in refusals), refusals


@pytest.mark.compile
def test_a_dropped_compile_is_named_by_a_check() -> None:
    """After torch._dynamo.reset() there is nothing to interpret: the message says what dropped it."""
    pytest.importorskip("triton")
    trace = explorer.trace(f, R(8), target="h100")
    torch._dynamo.reset()
    with pytest.raises(InputError, match=r"torch\._dynamo\.reset\(\)"):
        trace.check()


def test_new_tables_are_kept_by_a_file(eager: Trace, tmp_path: Path) -> None:
    """Metrics, settings and calls are part of the value: equal after the round trip."""
    eager.save(tmp_path / "t.json.gz")
    again = explorer.load(tmp_path / "t.json.gz")
    assert (
        again == eager and again.compiler.metrics == eager.compiler.metrics and again.compiler.settings == eager.compiler.settings
    )
    assert again.dynamo.functions == eager.dynamo.functions != ()


def test_what_dynamo_calls_for_an_absent_gpu_has_code() -> None:
    """depyf and other debuggers ask a compiled graph for its code object, by its name and file."""
    from explorer.capture.absent.generated import Generated

    called = Generated().in_place_of(torch.fx.symbolic_trace(nn.ReLU()), lambda x: x)
    assert called.__code__.co_name and called.__code__.co_filename


def test_a_stage_that_a_cached_graph_lacks_says_how_to_see_it(recorded: Callable[[str], Any]) -> None:
    """A hit leaves Inductor's stages out: the error names the cache and what compiles the graph again."""
    events, failures, meta = recorded("sin_cos-torch2.13-cpu")
    kept = [event for event in events if event.kind not in ("ir_pre_fusion", "ir_post_fusion", "fusion", "kernel_lines", "cache")]
    code = next(event for event in kept if event.kind == "output_code")
    keys = {
        "cache": "FX graph",
        "state": "hit",
        "graph": code.graph,
        "key": "k",
        "kernel": "",
        "reason": "",
        "seconds_saved": None,
    }
    hit = Event("cache", code.time, code.frame, code.graph, event_data("cache", keys))
    trace = trace_of_events([*kept, hit], failures, meta)
    with pytest.raises(InputError, match=says("ir_post_fusion", "cache", "record(fresh=True)")):
        trace.text("ir_post_fusion")
    assert "record(fresh=True)" in repr(trace)
