"""Verdicts on a cold compile: what is compiled again and again, and what keeps it from going faster. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.analysis.advice.call_cost import TracedCall
from explorer.analysis.advice.dynamo import CALLS
from explorer.analysis.advice.verdicts import Cost, Verdict, duration
from explorer.analysis.questions import compile_seconds
from explorer.analysis.questions.tables import table
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.trace_data import TraceData
from explorer.model.values import Plain
from explorer.stages.torch_compile.phase import AUTOTUNING, KERNELS

#: The kinds of the verdicts, which a compile before and after proves.
BLOCKS, TUNING, CACHES, THREADS, KERNEL = "repeated blocks", "autotuning", "caches off", "one compile thread", "slow kernel"
KINDS = frozenset({BLOCKS, TUNING, CACHES, THREADS, KERNEL})
#: The fewest copies of a block, and the least part of a graph's operators in them, that stand out.
MIN_COPIES, MIN_COPIED = 4, 0.5
#: What takes this part of a compile, and this long, stands out.
MOST, MIN_SECONDS = 0.5, 5.0
#: The fewest kernels that several threads compile sooner than one.
MIN_KERNELS = 4
#: A fused kernel of at most so many nodes compiles in little time.
SMALL_FUSION = 8
GRAPH_CACHES = ("fx_graph_cache", "enable_autograd_cache")


def repeated_blocks(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each block that makes up most of a graph and is compiled once per copy."""
    for row in compile_seconds.blocks(traced.trace):
        modules = row["modules"]
        copied = row["nodes"] * len(modules) / row["of_nodes"]
        if len(modules) < MIN_COPIES or copied < MIN_COPIED:
            continue
        function = str(row["function"])
        block = function.removesuffix(".forward") or "the block"
        yield Verdict(
            BLOCKS,
            f"{block} is compiled {len(modules)} times, {modules[0]} to {modules[-1]}",
            _once(row["seconds"], "estimated", "the copies after the first have this part of the graph's operators"),
            f"they have the same {row['nodes']} operators on the same shapes, and {copied:.0%} of the graph's operators",
            f"compile it once: decorate {function or 'its forward'} with torch.compiler.nested_compile_region",
            _line_of(traced.trace, function),
            regions=modules,
        )


def slow_autotuning(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict where timing candidates takes most of the compile."""
    by_part = compile_seconds.seconds_by_part(traced.trace)
    seconds = by_part.get(AUTOTUNING, 0.0)
    if seconds >= max(MIN_SECONDS, MOST * sum(by_part.values())):
        yield Verdict(
            TUNING,
            f"Autotuning takes {duration(seconds)} of {duration(sum(by_part.values()))}",
            _once(seconds, "measured", "the compiler timed its phases"),
            compile_seconds.in_words(traced.trace).partition("\n")[0],
            "compile without max_autotune while you develop; for the last percent, keep Inductor's cache from run to run",
            what_if={"options": {"max_autotune": False, "max_autotune_gemm": False, "coordinate_descent_tuning": False}},
        )


def caches_off(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for the caches of graphs that the program switched off."""
    rows = [row for row in _set_by_program(traced.trace) if row["name"] in GRAPH_CACHES and row["value"] == "False"]
    if rows:
        seconds = sum(compile_seconds.seconds_by_part(traced.trace).values())
        names = " and ".join(dict.fromkeys(f"{row['of']}.{row['name']}" for row in rows))
        yield Verdict(
            CACHES,
            f"The program switched off {names}",
            _once(seconds, "measured", "each process compiles anew, where a hit takes a part of it"),
            f"{names} = False, and {rows[0]['default']} by default",
            "leave it at its default: the next process finds the compiled graph",
            why_unproved="a trace reads no cache of graphs: record the program twice, and t.compiler.caches has the hits",
        )


def one_thread(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict where the program has its kernels compiled one after the other."""
    for row in _set_by_program(traced.trace):
        number = len(traced.trace.find("kernel"))
        if (row["name"], row["value"]) != ("compile_threads", "1") or not str(row["default"]).isdigit() or number < MIN_KERNELS:
            continue
        seconds = compile_seconds.seconds_by_part(traced.trace).get(KERNELS, 0.0)
        yield Verdict(
            THREADS,
            f"{number} kernels are compiled by one thread",
            _once(seconds, "measured", "the compiler waited for its kernels"),
            f"inductor.compile_threads = 1, and {row['default']} by default",
            "leave compile_threads at its default",
            what_if={"settings": {"torch._inductor.config.compile_threads": int(row["default"])}},
        )
        return


def slow_kernel(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict on the kernel that takes most of what Inductor compiles; for an absent GPU explorer compiles them."""
    rows = list(compile_seconds.kernels_of_inductor(traced.trace))
    seconds = float(rows[0]["seconds"]) if rows else 0.0
    if rows[1:] and seconds >= max(MIN_SECONDS, MOST * sum(float(row["seconds"]) for row in rows)):
        name = str(rows[0]["kernel"])
        places = tuple((a.id, 1) for a in traced.trace.find("kernel") if a.data.get("name") == name)
        yield Verdict(
            KERNEL,
            f"{name} takes {duration(seconds)} to compile",
            _once(seconds, "measured", f"timed by {rows[0]['compiled_by']}"),
            f"the next longest of {len(rows)} kernels takes {duration(float(rows[1]['seconds']))}",
            "split it: a smaller max_fusion_size makes smaller kernels, which read and write more",
            places=places,
            what_if={"options": {"max_fusion_size": SMALL_FUSION}},
        )


def _once(seconds: Plain, known: str, how: str) -> Cost:
    once = float(seconds)
    return Cost(once / CALLS, known, f"{how}, and it ranks as if spread over {CALLS:,} calls", once=once)


def _set_by_program(trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    return (row for row in table(trace, "setting") if row["set_by"] == "the program")


def _line_of(trace: TraceData, function: str) -> tuple[UserLine, ...]:
    """The first line of a function of the program."""
    for source in trace.find("source"):
        if function and source.data["qualname"] == function:
            return (UserLine(str(source.data["file"]), int(source.data["first_line"]), source.lines[0].strip()),)
    return ()
