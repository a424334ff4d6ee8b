"""The arguments of each launch of a kernel: what it read and what it wrote, with shape, strides, range and NaNs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.analysis.questions.launch_sites import Site, sites, variable_of
from explorer.analysis.questions.subgraph import all_wrappers
from explorer.capture.splice.launches import RecordedLaunch
from explorer.errors import InputError, NoVerbError
from explorer.lab.live.protocol import Live, check_unedited
from explorer.lab.stepping.node_values import facts_of
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Table
from explorer.process.under_way import step
from explorer.stages.inductor.signature import Parameter, parameters

COLUMNS = (
    "launch", "run", "kernel", "frame", "graph", "line", "argument", "variable", "when",
    "shape", "dtype", "stride", "min", "max", "mean", "nan", "inf", "value",
)  # fmt: skip
#: Memory is given to a kernel that only writes to it without anything in it.
ONLY_WRITTEN = "out_ptr"


@dataclass(frozen=True)
class _Argument:
    """One argument of a launch: the kernel's name for it, the wrapper's expression, and its values before and after."""

    name: str
    source: str
    before: Any
    after: Any
    is_read: bool
    is_written: bool


@dataclass
class _Wrapper:
    """A wrapper, its launches in the source, and the variables that they have written so far in the current call."""

    artifact: Artifact
    sites: dict[str, list[Site]]
    signatures: dict[str, tuple[Parameter, ...]]
    written: set[str] = field(default_factory=set)
    line: int = 0

    def enter(self, site: Site) -> None:
        """Enter a launch. A launch that is not below the last one begins a new call, which has written nothing."""
        if site.line <= self.line:
            self.written.clear()
        self.line = site.line


def launch_values(
    trace: TraceData, live: Live, kernel: Artifact | None = None, max_launches: int | None = None, limit: float | None = None
) -> Table:
    """Run the traced call, and give the arguments of each launch: see `t.live.values`."""
    if max_launches is not None and (not isinstance(max_launches, int) or max_launches < 1):
        raise InputError(f"max_launches is a number of launches, from 1, not {max_launches!r}")
    check_unedited(live, all_wrappers(trace), "launch_values")
    wrappers = {typed(OutputCode, a.data).file: _wrapper(trace, a) for a in all_wrappers(trace) if _has(a, kernel)}
    loaded = {wrapper.file for wrapper in live.wrappers}
    names = [(file, name) for file, each in wrappers.items() if file in loaded for name in each.sites]
    asked = [(file, name) for file, name in names if kernel is None or name == kernel.kernel]
    rows: list[dict[str, Plain]] = []
    runs: dict[tuple[str, str], int] = {}
    numbers: list[int] = []

    def hear(launch: RecordedLaunch) -> None:
        run = runs[launch.file, launch.kernel] = runs.get((launch.file, launch.kernel), -1) + 1
        numbers.append(run)
        step(f"{launch.kernel}: reading its arguments")
        rows.extend(_rows(wrappers[launch.file], launch, len(numbers), run))

    if not asked:
        live.launches(())  # which says so where the compile failed, or the kernel is a hand-written one
        raise NoVerbError(_nothing_launched(trace, kernel))
    live.launches(asked, max_launches, limit, hear)
    if not numbers:
        raise NoVerbError(NOT_LAUNCHED)
    return Table(rows, COLUMNS)


NOT_LAUNCHED = (
    "no launch was seen when the program ran again: CUDA graphs replayed the kernels, or they were not needed; "
    "trace without CUDA graphs, such as without mode='reduce-overhead'"
)


def _nothing_launched(trace: TraceData, kernel: Artifact | None) -> str:
    """Say why no launch can be seen, and what to do."""
    if kernel is not None:
        return (
            f"{kernel.kernel} is launched by no wrapper in Python: its arguments cannot be seen; "
            "trace without the option cpp_wrapper"
        )
    if not trace.find("output_code"):
        return (
            "there are no launches: no code of Inductor's was generated; t.live.values() has the value of each node of the graph"
        )
    return "the output code launches nothing from Python: with the option cpp_wrapper it does so from C++; trace without it"


def _has(wrapper: Artifact, kernel: Artifact | None) -> bool:
    """Whether a kernel is of a wrapper's graph; any is where none is asked for."""
    return kernel is None or (kernel.frame, kernel.graph) == (wrapper.frame, wrapper.graph)


def _wrapper(trace: TraceData, artifact: Artifact) -> _Wrapper:
    """A wrapper with its launches by name, and the signatures of its kernels."""
    by_name: dict[str, list[Site]] = {}
    for site in sites(artifact):
        by_name.setdefault(site.name, []).append(site)
    kernels = trace.find("kernel", artifact.frame, artifact.graph)
    return _Wrapper(artifact, by_name, {k.kernel: parameters(k.text, k.language) for k in kernels})


def _rows(wrapper: _Wrapper, launch: RecordedLaunch, number: int, run: int) -> Iterator[dict[str, Plain]]:
    """The rows of one launch: each argument as it was read, then each as it was left."""
    places = wrapper.sites[launch.kernel]
    site = places[run % len(places)]
    wrapper.enter(site)
    arguments = list(_arguments(wrapper, site, launch))
    head: dict[str, Plain] = {
        "launch": number,
        "run": run,
        "kernel": launch.kernel,
        "frame": wrapper.artifact.frame,
        "graph": wrapper.artifact.graph,
        "line": site.line,
    }
    for when in ("before", "after"):
        for each in arguments:
            if each.is_read if when == "before" else each.is_written:
                facts = facts_of(each.before if when == "before" else each.after, drawn=False)
                row = {**head, "argument": each.name, "variable": each.source, "when": when, **facts}
                yield {column: row.get(column) for column in COLUMNS}
    wrapper.written |= {variable_of(each.source) for each in arguments if each.is_written}


def _arguments(wrapper: _Wrapper, site: Site, launch: RecordedLaunch) -> Iterator[_Argument]:
    """Each argument of a launch, and of a library call also its keywords and its result."""
    signature = wrapper.signatures.get(launch.kernel, ())
    named = signature if len(signature) == len(launch.before) else ()
    after = launch.after or launch.before
    for place, (old, new) in enumerate(zip(launch.before, after, strict=True)):
        source = site.arguments[place] if place < len(site.arguments) else ""
        name = named[place].name if named else f"argument {place}"
        writes = place in launch.changed or bool(named and named[place].is_tensor and named[place].writes)
        empty = name.startswith(ONLY_WRITTEN) and _is_fresh(wrapper, source)
        yield _Argument(name, source, old, new, not empty, writes)
    if site.is_library:
        for name, value in launch.keywords.items():
            yield _Argument(name, site.keywords.get(name, ""), value, value, name != "out", name == "out")
        if "out" not in launch.keywords:
            yield _Argument("result", site.result, None, launch.result, False, launch.result is not None)


def _is_fresh(wrapper: _Wrapper, source: str) -> bool:
    """Whether the wrapper passes its own buffer, to which nothing was written in this call."""
    variable = variable_of(source)
    return variable.startswith("buf") and variable not in wrapper.written


__all__: Sequence[str] = ("COLUMNS", "launch_values")
