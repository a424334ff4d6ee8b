"""compare_modes: one function compiled in each mode of torch.compile, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from explorer.analysis.questions.comparison import figures
from explorer.capture.compilers import torch_compile as compiling
from explorer.errors import InputError, require_installed, unknown_name
from explorer.lab.live.allocated import allocated_bytes
from explorer.lab.live.call import clone
from explorer.lab.live.protocol import Live, needs_live
from explorer.lab.live.state import State
from explorer.model.values import Plain, Table
from explorer.process.progress import progress
from explorer.reference.gpus.figures import Target
from explorer.studies.varying.changes import code_changes
from explorer.tracing.recording.trace import trace
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import Comparison, compare

#: The modes that are compared, those of torch.compile's documentation; the others are compared with the first.
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
#: The columns that are shown; those in which no mode has anything are left out.
SHOWN = (
    "mode",
    "compile_seconds",
    "seconds",
    "spread_seconds",
    "ratio_to_eager",
    "estimated_seconds",
    "peak_bytes",
    "allocated_bytes",
    "kernels",
    "library_calls",
    "differ",
    "cuda_graphs",
    "not_timed",
    "failures",
)


class Modes(Comparison):
    """The traces of one function in several modes: `table` has one a mode, `only` opens two or three of them side by side.

    `compile_seconds` are of Dynamo, AOTAutograd and Inductor with explorer's probes on; machine code that is in Inductor's or
    triton's cache is not compiled again. `seconds` is the median of calls made in turn, `spread_seconds` between which the middle
    half of them is, `ratio_to_eager` what eager is timed at beside them. `peak_bytes` is the largest of the graphs' peaks, as
    `t.memory` has it; `allocated_bytes` is the most that a call takes from the allocator of an attached GPU, beyond what was
    allocated before. `differ` are the kernels that the first mode does not have. `cuda_graphs` says what is captured, or why not.
    `not_timed` says why a mode has no time.
    """

    def __init__(self, traces: tuple[Trace, ...], names: tuple[str, ...], rows: Table) -> None:
        super().__init__(traces, names)
        self.table = rows

    def __getitem__(self, mode: str) -> Trace:
        """The trace of one mode; InputError for a mode that was not compared."""
        if mode not in self.names:
            raise unknown_name("mode", mode, self.names)
        return self.traces[self.names.index(mode)]

    def only(self, *modes: str) -> Comparison:
        """Two or three of the modes side by side, for `explorer.show`; errors as `explorer.compare`."""
        return compare(*(self[mode] for mode in modes), names=modes)

    def _shown(self) -> Table:
        """The columns that say something of any mode."""
        kept = [key for key in SHOWN if any(row[key] not in (None, "", ()) for row in self.table)]
        return Table({key: row[key] for key in kept} for row in self.table)

    def __repr__(self) -> str:
        return f"<Modes {', '.join(self.names)}>\n{self._shown()!r}"

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The table, in a notebook too: `only` has the view."""
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}


def compare_modes(
    fn: Callable[..., Any],
    *args: Any,
    modes: Iterable[str] = MODES,
    repeats: int = 30,
    kwargs: Mapping[str, Any] | None = None,
    target: str | Target = "auto",
    train: bool = False,
    dynamic: bool | None = None,
    fullgraph: bool = False,
) -> Modes:
    """Compile `fn(*args, **kwargs)` in each of torch.compile's modes, time the calls in turn, and say what differs.

    The other arguments are the same as for `explorer.trace`. Each mode is compiled afresh, on copies of the arguments. One
    compile comes before: no mode's seconds then include what PyTorch loads only once. For a GPU you don't have nothing is timed,
    and `not_timed` says so; the kernels, memory and estimates are that GPU's. On an attached GPU `allocated_bytes` needs
    torch.cuda.reset_peak_memory_stats(): read the program's own torch.cuda.max_memory_allocated() before.

    A compile that fails has its failures in its row. InputError for an unknown mode or fewer than two, and as `explorer.trace`.
    """
    require_installed("torch", "explorer.compare_modes", "full")
    names = _checked(modes, repeats)
    settings: dict[str, Any] = {"target": target, "train": train, "dynamic": dynamic, "fullgraph": fullgraph}
    function = compiling.unwrapped(fn)

    def traced(mode: str) -> Trace:
        with State.of(function).kept():
            return trace(fn, *clone(args), kwargs=clone(dict(kwargs or {})), mode=mode, **settings)

    traced(names[0])
    with progress(str(getattr(fn, "__name__", type(fn).__name__)), "compiling modes of") as show:
        traces = [_shown_while(show, mode, traced) for mode in names]
    return Modes(tuple(traces), names, Table(_rows(names, traces, repeats)))


def _checked(modes: Iterable[str], repeats: object) -> tuple[str, ...]:
    """The modes as a tuple; InputError for one that torch does not have, one given twice, or too few."""
    if not isinstance(modes, Iterable):
        raise InputError(f"modes is a list of torch.compile's modes, such as {MODES[:2]}, not {modes!r}")
    names = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in names:
        if mode not in compiling.valid_modes():
            raise unknown_name("mode", mode, compiling.valid_modes())
    if len(set(names)) < max(2, len(names)):
        raise InputError(f"compare_modes compares two or more different modes, not {', '.join(map(repr, names)) or 'none'}")
    if type(repeats) is not int or repeats < 1:
        raise InputError(f"repeats is how often each call is timed, at least 1, not {repeats!r}")
    return names


def _shown_while(show: Callable[[str], None] | None, mode: str, traced: Callable[[str], Trace]) -> Trace:
    if show is not None:
        show(mode)
    return traced(mode)


def _rows(names: Sequence[str], traces: Sequence[Trace], repeats: int) -> list[dict[str, Plain]]:
    times = _times(traces, repeats)
    return [_row(name, each, traces[0], times.get(number)) for number, (name, each) in enumerate(zip(names, traces, strict=True))]


def _row(name: str, of: Trace, first: Trace, times: Mapping[str, Plain] | None) -> dict[str, Plain]:
    """One mode's row; `times` is its row of the timing, None where it could not be timed."""
    known = figures(of)
    changes = code_changes(first, of)
    timed = times or {}
    return {
        "mode": name,
        "compile_seconds": known["compile seconds"],
        "seconds": timed.get("seconds"),
        "spread_seconds": timed.get("spread_seconds"),
        "ratio_to_eager": timed.get("ratio_to_eager"),
        "estimated_seconds": known.get("estimated seconds"),
        "peak_bytes": known.get("peak memory (bytes)"),
        "allocated_bytes": allocated_bytes(_live(of)) if times else None,
        "kernels": known["kernels"],
        "library_calls": known.get("library calls"),
        "differ": (*changes.changed, *changes.added),
        "cuda_graphs": _cuda_graphs(name, of),
        "not_timed": "" if times else _not_timed(of),
        "failures": tuple(map(str, of.failures)),
    }


def _live(of: Trace) -> Live:
    return needs_live(of, "timing")


def _times(traces: Sequence[Trace], repeats: int) -> dict[int, Mapping[str, Plain]]:
    """The rows of the timing, by the number of the trace; none for what failed, and for a GPU you don't have."""
    timed = [number for number, each in enumerate(traces) if not _not_timed(each)]
    if not timed:
        return {}
    first, *others = (_live(traces[number]) for number in timed)
    with first.watchers.verb("compare_modes()"):
        _, *rows = first.benchmark(repeats, others)
    return dict(zip(timed, rows, strict=True))


def _not_timed(of: Trace) -> str:
    """Say why a mode has no time; "" where it has one."""
    live = _live(of)
    if live.error is not None:
        return f"the compile failed: {type(live.error).__name__}"
    if live.absent is not None:
        return f"{live.absent.name!r} is not attached: nothing is timed, and what autotuning would time is assumed"
    return ""


def _cuda_graphs(mode: str, of: Trace) -> str:
    """Say what became of CUDA graphs in a mode: captured, or why not."""
    rows = [row for row in of.inductor.cuda_graphs if row.get("count") is None]
    if rows:
        return "; ".join(dict.fromkeys(r["decision"] + (f": {r['reason']}" if r["decision"] != "captured" else "") for r in rows))
    return "asked for, and torch decided nothing" if compiling.asks_for_cuda_graphs(mode) else "not asked for"
