"""Every public verb once, on a real compile for the CPU and for an absent H100: `make test` runs these beside the replay tests.

What a verb answers is tested where it is made; here each works on both targets, or says what to do instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import explorer

triton: Any = pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels for the H100")
tl: Any = triton.language
torch: Any = pytest.importorskip("torch", reason="torch is not installed: the verbs compile with it")

pytestmark = [
    pytest.mark.compile,
    pytest.mark.smoke,
    pytest.mark.usefixtures("warm_python"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
]

TARGETS = ("cpu", "h100")


class Program(torch.nn.Module):
    """A product by a library, and a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(32, 16, bias=False)

    def forward(self, x: Any) -> Any:
        return torch.softmax(torch.relu(self.up(x)), -1) * 2


@pytest.fixture(scope="module")
def traces() -> dict[str, explorer.Trace]:
    """The program with its backward, for both targets."""
    torch.manual_seed(0)
    model, x = Program(), torch.randn(16, 32)
    return {target: explorer.trace(model, x, target=target, train=True) for target in TARGETS}


def profiled(trace: explorer.Trace) -> explorer.Trace:
    """The trace with a profile of three calls."""
    with torch.profiler.profile(acc_events=True) as profile:  # without it torch 2.11 warns
        for _ in range(3):
            trace.run()
    return trace.with_profile(profile)


def stepped(trace: explorer.Trace) -> object:
    """What the graph that runs in place of the program returns, in files in which a debugger stops."""
    with trace.stepping("graph"):
        return trace.run()


#: Verb of a trace → what is asked of it; each answer must be something. `folder` is an empty folder.
OF_TRACE: dict[str, Callable[[explorer.Trace, Path], object]] = {
    "advise": lambda t, folder: repr(t.advise()),
    "assumptions": lambda t, folder: t.assumptions is not None,
    "benchmark": lambda t, folder: t.benchmark(1),
    "bisect": lambda t, folder: repr(t.bisect(cause=False)),
    "cache_misses": lambda t, folder: t.cache_misses(t) is not None,
    "caches": lambda t, folder: t.caches is not None,
    "check": lambda t, folder: all(row["equal"] for row in t.check()) and len(t.check()),
    "choice": lambda t, folder: t.choice(0),
    "choices": lambda t, folder: t.choices is not None,
    "code_flow": lambda t, folder: t.code_flow(),
    "collectives": lambda t, folder: t.collectives is not None,
    "compile_calls": lambda t, folder: t.compile_calls is not None,
    "compile_metrics": lambda t, folder: t.compile_metrics,
    "coverage": lambda t, folder: [row for row in t.coverage() if row["share"]],
    "cuda_graphs": lambda t, folder: t.cuda_graphs is not None,
    "decompositions": lambda t, folder: t.decompositions,
    "diagram": lambda t, folder: t.diagram(graph="forward"),
    "edit": lambda t, folder: t.edit(wrapper=t.text("output_code", graph="forward"), graph="forward").in_place and t.reset(),
    "edited": lambda t, folder: t.edited == (),
    "follow": lambda t, folder: t.follow(t.find("source")[0], t.find("source")[0].data["first_line"] and 2),
    "follow_module": lambda t, folder: t.follow_module("up"),
    "functions": lambda t, folder: t.functions,
    "fusion": lambda t, folder: t.fusion.table(),
    "gpu": lambda t, folder: t.gpu is not None or t.meta["target"] == "cpu",
    "gradients": lambda t, folder: t.gradients,
    "graph_breaks": lambda t, folder: len(t.graph_breaks) == 0,
    "guards": lambda t, folder: t.guards,
    "idle_passes": lambda t, folder: t.idle_passes is not None,
    "index": lambda t, folder: t.index,
    "kernels": lambda t, folder: t.kernels.table(),
    "launch_values": lambda t, folder: t.launch_values(),
    "library_calls": lambda t, folder: t.library_calls,
    "line_times": lambda t, folder: profiled(t).line_times() is not None,
    "lowering": lambda t, folder: t.lowering("relu", graph="forward") is not None,
    "lowerings": lambda t, folder: t.lowerings,
    "matches": lambda t, folder: t.matches is not None,
    "memory": lambda t, folder: t.memory.table(),
    "needs_live": lambda t, folder: t.needs_live("the test"),
    "no_text": lambda t, folder: t.no_text("nothing"),
    "node_times": lambda t, folder: profiled(t).node_times() is not None,
    "only": lambda t, folder: t.only("0/0").artifacts,
    "overlap": lambda t, folder: t.overlap is not None,
    "passes": lambda t, folder: t.passes,
    "perf_hints": lambda t, folder: t.perf_hints is not None,
    "profile": lambda t, folder: profiled(t).profile is not None,
    "raise_for_failures": lambda t, folder: t.raise_for_failures() is None,
    "recompiles": lambda t, folder: len(t.recompiles) == 0,
    "reset": lambda t, folder: t.reset() is False,
    "result": lambda t, folder: t.result.shape == (16, 16),
    "roofline": lambda t, folder: repr(t.roofline()),
    "run": lambda t, folder: torch.equal(t.run(), t.result),
    "save": lambda t, folder: t.save(folder / "t.trace") or explorer.load(folder / "t.trace") == t,
    "settings": lambda t, folder: t.settings is not None,
    "stepping": lambda t, folder: stepped(t) is not None,
    "summary": lambda t, folder: len(t.summary()),
    "symbolic_steps": lambda t, folder: t.symbolic_steps(),
    "symbols": lambda t, folder: t.symbols is not None,
    "table": lambda t, folder: t.table("guards"),
    "text": lambda t, folder: "relu" in t.text("dynamo"),
    "time_kernels": lambda t, folder: t.time_kernels(1),
    "timings": lambda t, folder: t.timings,
    "to_html": lambda t, folder: t.to_html(folder / "t.html") or (folder / "t.html").stat().st_size > 100_000,
    "to_perfetto": lambda t, folder: profiled(t).to_perfetto(folder / "t.json") or (folder / "t.json").stat().st_size,
    "to_script": lambda t, folder: t.to_script(folder / "t.py") or (folder / "t.py").stat().st_size,
    "values": lambda t, folder: t.values(),
    "variants": lambda t, folder: t.variants is not None,
    "what_if": lambda t, folder: repr(t.what_if(options={"max_fusion_size": 1})),
    "with_assembly": lambda t, folder: t.with_assembly().find("assembly"),
    "with_bisection": lambda t, folder: t.with_bisection(t.bisect(cause=False)),
    "with_choice": lambda t, folder: t.with_choice(0),
    "with_profile": lambda t, folder: profiled(t).profile is not None,
    "with_sass": lambda t, folder: t.with_sass() is not None,
    "with_symbolic_steps": lambda t, folder: t.with_symbolic_steps().find("symbolic_steps"),
    "written_files": lambda t, folder: t.written_files is not None,
}
#: Verb of a kernel → the same.
OF_KERNEL: dict[str, Callable[[Any, Path], object]] = {
    "binary": lambda k, folder: k.binary,
    "candidate": lambda k, folder: k.candidate({"num_warps": 2}),
    "edit": lambda k, folder: k.edit(k.source + "\n", check=False).in_place and k.reset(),
    "edited": lambda k, folder: k.edited is None,
    "launch_values": lambda k, folder: k.launch_values(),
    "layout": lambda k, folder: repr(k.layout("#blocked")),
    "mix": lambda k, folder: k.mix or k.language == "cpp",
    "passes": lambda k, folder: k.passes(),
    "reset": lambda k, folder: k.reset() is False,
    "stages": lambda k, folder: k.stages,
    "text": lambda k, folder: k.text(),
    "to_script": lambda k, folder: k.to_script(folder / "k.py") or (folder / "k.py").stat().st_size,
    "tune": lambda k, folder: repr(k.tune([{"num_warps": 2}])),
    "variants": lambda k, folder: k.variants is not None,
}


def recorded(target: str) -> explorer.Trace:
    """The trace of a program that calls torch.compile itself."""
    with explorer.record(target=target) as recording:
        torch.compile(lambda x: x.cos() + 1)(torch.randn(8))
    return recording.trace


@triton.jit
def doubled(x, n, BLOCK: tl.constexpr):
    """x *= 2."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)


def doubled_for(target: str) -> object:
    """The check of a hand-written kernel."""
    trace = explorer.trace_kernel(doubled, torch.ones(8), 8, target=target, grid=(1,), BLOCK=8, sass=False)
    return all(row["equal"] for row in trace.check(expected=torch.full((8,), 2.0)))


#: Function of explorer → what it gives.
OF_EXPLORER: dict[str, Callable[[dict[str, explorer.Trace], Path], object]] = {
    "compare": lambda traces, folder: repr(explorer.compare(traces["cpu"], traces["h100"])),
    "compare_modes": lambda traces, folder: repr(explorer.compare_modes(torch.sin, torch.randn(8), target="h100")),
    "explain": lambda traces, folder: explorer.explain("num_warps"),
    "fit": lambda traces, folder: repr(explorer.fit(torch.nn.Linear(8, 8), inputs=(torch.randn(2, 8),))),
    "load": lambda traces, folder: traces["cpu"].save(folder / "t.trace") or explorer.load(folder / "t.trace") == traces["cpu"],
    "probe": lambda traces, folder: repr(explorer.probe(torch.sin, torch.randn(8), target="h100")),
    "record": lambda traces, folder: [recorded(target).kernels.table() for target in TARGETS],
    "show": lambda traces, folder: explorer.show(traces["h100"]) is None,
    "targets": lambda traces, folder: explorer.targets(),
    "trace": lambda traces, folder: [trace.artifacts for trace in traces.values()],
    "trace_kernel": lambda traces, folder: doubled_for("h100"),
}
#: Functions that start processes, and verbs that read standard input: where they are tested.
ELSEWHERE = {
    "backends": "capture/compilers/test_backend.py",
    "sweep": "studies/sweeping/test_sweep.py",
    "debug": "lab/stepping/test_debuggers.py",
}
#: Verbs for which Inductor must have had a choice.
NO_CHOICES = dict.fromkeys(("choice", "with_choice"), "max-autotune|nothing to choose|choices")
#: Target → verbs that it does not have, with a word of what to do instead.
INSTEAD = {
    "cpu": {
        **NO_CHOICES,
        "with_sass": "sass",
        **dict.fromkeys(("k.binary", "k.candidate", "k.passes"), "assembly"),
        "k.layout": "target='h100'",
        "k.tune": r"k\.edit",
    },
    "h100": {**NO_CHOICES, "benchmark": "kernels.table", "time_kernels": "kernels.table", "with_assembly": "assembly"},
}


@pytest.mark.parametrize("verb", OF_TRACE)
def test_a_verb_of_a_trace_answers_or_says_what_to_do(verb: str, traces: dict[str, explorer.Trace], tmp_path: Path) -> None:
    """On both targets, of a trace with its backward."""
    for target, trace in traces.items():
        ask(lambda folder, trace=trace: OF_TRACE[verb](trace, folder), INSTEAD[target].get(verb), tmp_path / target)


@pytest.mark.parametrize("verb", OF_KERNEL)
def test_a_verb_of_a_kernel_answers_or_says_what_to_do(verb: str, traces: dict[str, explorer.Trace], tmp_path: Path) -> None:
    """Of a C++ and of a Triton kernel."""
    for target, trace in traces.items():
        kernel = trace.kernels[0]
        ask(lambda folder, kernel=kernel: OF_KERNEL[verb](kernel, folder), INSTEAD[target].get(f"k.{verb}"), tmp_path / target)


@pytest.mark.parametrize("name", OF_EXPLORER)
def test_a_function_of_explorer_answers(name: str, traces: dict[str, explorer.Trace], tmp_path: Path) -> None:
    """What stands in explorer itself."""
    ask(lambda folder: OF_EXPLORER[name](traces, folder), None, tmp_path)


def ask(question: Callable[[Path], object], instead: str | None, folder: Path) -> None:
    """Ask; the answer is something, or an InputError that says what to do instead."""
    folder.mkdir(exist_ok=True)
    if instead is None:
        assert question(folder)
        return
    with pytest.raises((explorer.InputError, explorer.LiveError), match=instead):
        question(folder)


def test_no_verb_is_left_out() -> None:
    """Each public member of a Trace and of a Kernel, and each public function, is asked above or named with its test."""
    for kind, asked in ((explorer.Trace, OF_TRACE), (explorer.Kernel, OF_KERNEL)):
        members = {name for name in vars(kind) if not name.startswith("_")}
        fields = {field.name for field in dataclasses.fields(kind)} | {"of", "of_later", "of_events"}
        assert members - fields - set(asked) - set(ELSEWHERE) == set()
    functions = {name for name in explorer.__all__ if name.islower() and callable(getattr(explorer, name))}
    assert functions - set(OF_EXPLORER) - set(ELSEWHERE) == set()
    assert [file for file in ELSEWHERE.values() if not (Path(__file__).parent / file).exists()] == []
