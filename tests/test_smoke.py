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
from explorer.tracing.traced.counters import CountersAccessor
from explorer.tracing.traced.guesses import ACCESSORS

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
            trace.live.run()
    return trace.attach(profile)


def stepped(trace: explorer.Trace) -> object:
    """What the graph that runs in place of the program returns, in files in which a debugger stops."""
    with trace.live.as_files("graph"):
        return trace.live.run()


#: Verb of a trace → what is asked of it; each answer must be something. `folder` is an empty folder.
OF_TRACE: dict[str, Callable[[explorer.Trace, Path], object]] = {
    "advise": lambda t, folder: repr(t.advise()),
    "attach": lambda t, folder: profiled(t).profile.table is not None,
    "benchmark": lambda t, folder: t.benchmark(1),
    "bisect": lambda t, folder: t.attach(t.bisect(cause=False)),
    "check": lambda t, folder: all(row["equal"] for row in t.check()) and len(t.check()),
    "collectives": lambda t, folder: repr(t.collectives),
    "collectives.table": lambda t, folder: t.collectives.table is not None,
    "collectives.timeline": lambda t, folder: t.collectives.timeline is not None,
    "compiler": lambda t, folder: repr(t.compiler),
    "compiler.blocks": lambda t, folder: t.compiler.blocks is not None,
    "compiler.caches": lambda t, folder: t.compiler.caches is not None,
    "compiler.files": lambda t, folder: t.compiler.files is not None,
    "compiler.metrics": lambda t, folder: t.compiler.metrics,
    "compiler.kernels": lambda t, folder: t.compiler.kernels is not None,
    "compiler.parts": lambda t, folder: t.compiler.parts,
    "compiler.phases": lambda t, folder: t.compiler.phases,
    "compiler.settings": lambda t, folder: t.compiler.settings is not None,
    "coverage": lambda t, folder: [row for row in t.coverage() if row["share"]],
    "diagram": lambda t, folder: t.diagram(graph="forward"),
    "drift": lambda t, folder: t.drift(cause=False).table,
    "dynamo": lambda t, folder: repr(t.dynamo),
    "dynamo.functions": lambda t, folder: t.dynamo.functions,
    "dynamo.graph_breaks": lambda t, folder: len(t.dynamo.graph_breaks) == 0,
    "dynamo.guards": lambda t, folder: t.dynamo.guards,
    "dynamo.recompiles": lambda t, folder: len(t.dynamo.recompiles) == 0,
    "dynamo.steps": lambda t, folder: t.attach(t.dynamo.steps()).find("symbolic_steps"),
    "dynamo.symbols": lambda t, folder: t.dynamo.symbols is not None,
    "follow": lambda t, folder: t.follow(t.find("source")[0], t.find("source")[0].data["first_line"] and 2) and t.follow("up"),
    "fusion": lambda t, folder: repr(t.fusion),
    "fusion.buffers": lambda t, folder: t.fusion.buffers,
    "fusion.groups": lambda t, folder: t.fusion.groups,
    "fusion.inlined": lambda t, folder: t.fusion.inlined is not None,
    "fusion.table": lambda t, folder: t.fusion.table,
    "inductor": lambda t, folder: repr(t.inductor),
    "inductor.assumptions": lambda t, folder: t.inductor.assumptions is not None,
    "inductor.choices": lambda t, folder: t.attach(t.inductor.choices[0]),
    "inductor.cuda_graphs": lambda t, folder: t.inductor.cuda_graphs is not None,
    "inductor.decompositions": lambda t, folder: t.inductor.decompositions,
    "inductor.extern_calls": lambda t, folder: t.inductor.extern_calls,
    "inductor.lowerings": lambda t, folder: t.inductor.lowerings,
    "inductor.matches": lambda t, folder: t.inductor.matches is not None,
    "inductor.passes": lambda t, folder: t.inductor.passes,
    "inductor.perf_hints": lambda t, folder: t.inductor.perf_hints is not None,
    "kernels": lambda t, folder: t.kernels.table,
    "live": lambda t, folder: t.live and repr(t.live),
    "live.as_files": lambda t, folder: stepped(t) is not None,
    "live.edit": lambda t, folder: (
        t.live.edit(wrapper=t.text("output_code", graph="forward"), graph="forward").in_place and t.live.edits.reset()
    ),
    "live.edits": lambda t, folder: t.live.edits.current == () and t.live.edits.reset() is False,
    "live.gradients": lambda t, folder: t.live.gradients,
    "live.cost": lambda t, folder: t.attach(t.live.cost(1)).text("run_times"),
    "live.profile": lambda t, folder: t.live.profile(1),
    "live.result": lambda t, folder: t.live.result.shape == (16, 16),
    "live.run": lambda t, folder: torch.equal(t.live.run(), t.live.result),
    "live.values": lambda t, folder: t.live.values() and t.live.values("kernel"),
    "memory": lambda t, folder: repr(t.memory),
    "memory.peak": lambda t, folder: t.memory.peak,
    "memory.saved": lambda t, folder: t.memory.saved,
    "memory.table": lambda t, folder: t.memory.table,
    "memory.timeline": lambda t, folder: t.memory.timeline,
    "memory.uncounted": lambda t, folder: t.memory.uncounted is not None,
    "memory.unread": lambda t, folder: len(t.memory.unread) == 0,
    "only": lambda t, folder: t.only("0/0").artifacts,
    "profile": lambda t, folder: repr(t.profile),
    "profile.counters": lambda t, folder: repr(t.profile.counters),
    "profile.launches": lambda t, folder: t.profile.launches.where(known="estimated"),
    "profile.lines": lambda t, folder: profiled(t).profile.lines is not None,
    "profile.nodes": lambda t, folder: profiled(t).profile.nodes is not None,
    "profile.roofline": lambda t, folder: repr(t.profile.roofline()),
    "profile.table": lambda t, folder: profiled(t).profile.table is not None,
    "profile.to_perfetto": lambda t, folder: (
        profiled(t).profile.to_perfetto(folder / "t.json") or (folder / "t.json").stat().st_size
    ),
    "raise_for_failures": lambda t, folder: t.raise_for_failures() is None,
    "sanitize": lambda t, folder: t.sanitize().clean,
    "save": lambda t, folder: t.save(folder / "t.trace") or explorer.load(folder / "t.trace") == t,
    "stages": lambda t, folder: t.stages,
    "table": lambda t, folder: t.table("guards"),
    "target": lambda t, folder: t.target is not None or t.meta["target"] == "cpu",
    "text": lambda t, folder: "relu" in t.text("dynamo"),
    "to_html": lambda t, folder: t.to_html(folder / "t.html") or (folder / "t.html").stat().st_size > 100_000,
    "to_script": lambda t, folder: t.to_script(folder / "t.py") or (folder / "t.py").stat().st_size,
    "what_if": lambda t, folder: repr(t.what_if(options={"max_fusion_size": 1})),
    "why": lambda t, folder: t.why("relu", graph="forward") and t.why("relu", "mul", graph="forward"),
}
#: What `attach` takes by name → the trace with it.
ATTACHED = {
    "attach sass": lambda t, folder: t.attach("sass").find("sass"),
    "attach assembly": lambda t, folder: t.attach("assembly").find("assembly"),
}
OF_TRACE |= ATTACHED
#: Verb of a kernel → the same.
OF_KERNEL: dict[str, Callable[[Any, Path], object]] = {
    "binary": lambda k, folder: k.binary(),
    "candidates": lambda k, folder: k.candidates[0].resources,
    "edit": lambda k, folder: k.edit(k.source + "\n", check=False).in_place and k.edits.reset(),
    "edits": lambda k, folder: k.edits.current == () and k.edits.reset() is False,
    "instruction_mix": lambda k, folder: k.instruction_mix() or k.language == "cpp",
    "layout": lambda k, folder: repr(k.layout("#blocked")),
    "passes": lambda k, folder: k.passes(),
    "stages": lambda k, folder: k.stages,
    "text": lambda k, folder: k.text(),
    "to_script": lambda k, folder: k.to_script(folder / "k.py") or (folder / "k.py").stat().st_size,
    "tune": lambda k, folder: repr(k.tune([{"num_warps": 2}])),
    "user_lines": lambda k, folder: k.user_lines,
    "values": lambda k, folder: k.values(),
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
    trace = explorer.trace(doubled, torch.ones(8), 8, target=target, grid=(1,), BLOCK=8, sass=False)
    return all(row["equal"] for row in trace.check(expected=torch.full((8,), 2.0)))


#: Function of explorer → what it gives.
OF_EXPLORER: dict[str, Callable[[dict[str, explorer.Trace], Path], object]] = {
    "compare": lambda traces, folder: repr(explorer.compare(traces["cpu"], traces["h100"])),
    "compare_modes": lambda traces, folder: repr(explorer.compare_modes(torch.sin, torch.randn(8), target="h100")),
    "glossary": lambda traces, folder: explorer.glossary("num_warps"),
    "fits": lambda traces, folder: repr(explorer.fits(torch.nn.Linear(8, 8), torch.randn(2, 8))),
    "load": lambda traces, folder: traces["cpu"].save(folder / "t.trace") or explorer.load(folder / "t.trace") == traces["cpu"],
    "vary": lambda traces, folder: repr(explorer.vary(torch.sin, torch.randn(8), target="h100")),
    "record": lambda traces, folder: [recorded(target).kernels.table for target in TARGETS],
    "show": lambda traces, folder: explorer.show(traces["h100"]) is None,
    "targets": lambda traces, folder: explorer.targets(),
    "trace": lambda traces, folder: [trace.artifacts for trace in traces.values()] and doubled_for("h100"),
}
#: Functions that start processes, and verbs that read standard input: where they are tested.
ELSEWHERE = {
    "backends": "capture/compilers/test_backend.py",
    "sweep": "studies/sweeping/test_sweep.py",
    "live.debug": "lab/stepping/test_debuggers.py",
    **{f"profile.counters.{name}": "analysis/counters/test_carried.py" for name, _ in CountersAccessor.members()},
}
#: Verbs for which Inductor must have had a choice.
NO_CHOICES = {"inductor.choices": "max-autotune|nothing to choose|choices"}
#: Target → verbs that it does not have, with a word of what to do instead.
INSTEAD = {
    "cpu": {
        **NO_CHOICES,
        "attach sass": "sass",
        **dict.fromkeys(("k.binary", "k.passes"), "assembly"),
        "k.candidates": "no candidate",
        "k.layout": "target='h100'",
        "k.tune": r"k\.edit",
        "sanitize": "target='h100'",
    },
    "h100": {
        **NO_CHOICES,
        "benchmark": "kernels.table",
        "live.profile": "kernels.table",
        "live.cost": "kernels.table",
        "attach assembly": "assembly",
    },
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
    with pytest.raises((explorer.errors.InputError, explorer.errors.LiveError), match=instead):
        question(folder)


def test_no_verb_is_left_out() -> None:
    """Each public member of a Trace, of its accessors and of a Kernel, and each public function, is asked above or elsewhere."""
    for kind, asked in ((explorer.Trace, OF_TRACE), (explorer.Kernel, OF_KERNEL)):
        fields = {field.name for field in dataclasses.fields(kind)}
        members = {name for name in vars(kind) if not name.startswith("_")} - fields
        if kind is explorer.Trace:
            members |= {f"{each.path[2:]}.{name}" for each in ACCESSORS for name, _ in each.members()}
        assert members == set(asked) - set(ATTACHED) | {name for name in ELSEWHERE if "." in name} & members
    functions = {name for name in explorer.__all__ if name.islower() and callable(getattr(explorer, name))}
    assert functions - set(OF_EXPLORER) - set(ELSEWHERE) == set()
    assert [file for file in ELSEWHERE.values() if not (Path(__file__).parent / file).exists()] == []
