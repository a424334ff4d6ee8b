"""Say what a name is called that a trace or its parts do not have: it stands elsewhere, or is a habit from another tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.analysis.questions.fusion import Fusion
from explorer.analysis.questions.memory import Memory
from explorer.model.accessor import Accessor
from explorer.stages import STAGES
from explorer.tracing.traced.collectives import CollectivesAccessor
from explorer.tracing.traced.compiler import CompilerAccessor
from explorer.tracing.traced.counters import CountersAccessor
from explorer.tracing.traced.dynamo import DynamoAccessor
from explorer.tracing.traced.inductor import InductorAccessor
from explorer.tracing.traced.live import LiveAccessor
from explorer.tracing.traced.profile import ProfileAccessor

#: The accessors of a trace.
ACCESSORS: tuple[type[Accessor], ...] = (
    DynamoAccessor,
    InductorAccessor,
    Fusion,
    Memory,
    ProfileAccessor,
    CountersAccessor,
    CollectivesAccessor,
    CompilerAccessor,
    LiveAccessor,
)
#: What is called otherwise behind an accessor, or is a verb with an argument, and what answers it.
OTHER_NAMES: Mapping[str, str] = {
    "artifact": "t.find(id)",
    "cache_misses": "explorer.compare(earlier, t).cache_misses",
    "candidates": "t.kernels[0].candidates",
    "choice": "t.inductor.choices['triton_mm_7']",
    "code_flow": "t.stages",
    "compile_calls": "t.dynamo.functions",
    "compile_metrics": "t.compiler.metrics",
    "edit": "t.kernels[0].edit(source=…), t.live.edit()",
    "edited": "t.live.edits.current",
    "follow_module": "t.follow('h.0.attn')",
    "frame": "t.compile_ids",
    "frames": "t.compile_ids",
    "gpu": "t.target",
    "idle_passes": "t.inductor.passes.where(changed=False)",
    "launch_values": "t.live.values('kernel')",
    "library_calls": "t.inductor.extern_calls",
    "line_times": "t.profile.lines",
    "lowering": "t.why(name)",
    "node_times": "t.profile.nodes",
    "options": "t.compiler.settings",
    "overlap": "t.collectives.timeline",
    "reset": "t.live.edits.reset()",
    "stepping": "t.live.as_files(stage)",
    "summary": "t.stages",
    "symbolic_steps": "t.dynamo.steps()",
    "time_kernels": "t.live.profile()",
    "timings": "t.compiler.phases",
    "variants": "t.live.edits",
    "with_assembly": "t.attach('assembly')",
    "with_bisection": "t.attach(t.bisect())",
    "with_choice": "t.attach(t.inductor.choices['triton_mm_7'])",
    "with_profile": "t.attach(profile)",
    "with_sass": "t.attach('sass')",
    "with_symbolic_steps": "t.attach(t.dynamo.steps())",
    "written_files": "t.compiler.files",
}
#: What people type who know torch, triton or pandas, and what answers it.
HABITS: Mapping[str, str] = {
    "breaks": "t.dynamo.graph_breaks",
    "bytes": "t.kernels.table",
    "code": "t.kernels[0].source, t.text('output_code')",
    "compare": "explorer.compare(t, other)",
    "diff": "explorer.compare(t, other)",
    "events": "t.stages",
    "explain": "t.advise()",
    "fallbacks": "t.inductor.extern_calls",
    "fits": "explorer.fits",
    "graph": "t.text('dynamo'), t.diagram('post_grad')",
    "graphs": "t.stages",
    "html": "t.to_html('page.html')",
    "kernel": "t.kernels[0]",
    "ptx": "t.text('ptx')",
    "sass": "t.kernels[0].text('sass')",
    "show": "explorer.show(t)",
    "slow": "t.advise()",
    "source": "t.text('source'), t.kernels[0].source",
    "to_pandas": "t.stages.to_pandas()",
    "triton": "t.kernels[0].source",
    "ttgir": "t.text('ttgir')",
    "ttir": "t.text('ttir')",
}


def places_of(name: str) -> Iterator[str]:
    """The places of a name behind the accessors; else what answers a habit."""
    if name.startswith("_"):
        return
    found = [
        f"{accessor.path}.{name}" + ("" if isinstance(members[name], property) else "()")
        for accessor in ACCESSORS
        if name in (members := dict(accessor.members()))
    ]
    stage = f"t.text({name!r})" if any(name == each.name for each in STAGES) else ""
    if name in OTHER_NAMES:
        yield OTHER_NAMES[name]
        return
    other = HABITS.get(name) or stage
    yield from found or ([other] if other else [])
