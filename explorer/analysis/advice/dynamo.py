"""Verdicts on what Dynamo did: graph breaks, recompiles, the limit on recompiles. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from explorer.analysis.advice.call_cost import BREAK, TracedCall
from explorer.analysis.advice.verdicts import Cost, Verdict
from explorer.analysis.questions.data_dependent import DataDependent, data_dependent, symbols_of_condition
from explorer.analysis.questions.tables import graph_breaks, table
from explorer.analysis.questions.user_lines import UserLine
from explorer.capture.compilers.torch_compile import CONFIG, MARKS
from explorer.model.records import typed
from explorer.model.trace_data import TraceData, artifact_of, source_line
from explorer.model.values import Artifact, Plain
from explorer.stages import stage_of
from explorer.stages.dynamo.graph_break import code_at
from explorer.stages.dynamo.recompile import Recompiles
from explorer.stages.dynamo.symbol import Symbols

#: A compile is paid once: it ranks as if it were spread over so many calls.
CALLS = 1000
#: One recompile is how torch learns that a size changes, or that a model is used in two ways; more of one function are not.
FEWEST_RECOMPILES = 2
#: The kind of the verdicts on them, which a compile before and after proves.
RECOMPILES = "recompiles"
#: What torch.compile's dynamic=True sets.
DYNAMIC: Mapping[str, Plain] = MappingProxyType({f"{CONFIG}.assume_static_by_default": False})
#: The steps of the failures that name a limit on recompiles.
LIMITS = ("recompile_limit", "accumulated_recompile_limit")
#: The settings under which Dynamo goes on where a reason of a graph break says this.
SETTINGS: tuple[tuple[str, str, Plain], ...] = (
    (r"Tensor\.item|scalar", f"{CONFIG}.capture_scalar_outputs", True),
    (r"dynamic shape operator|nonzero|masked_select", f"{CONFIG}.capture_dynamic_output_shape_ops", True),
)
#: A line that branches on what it computes, and what to do where that is a number of a tensor.
_BRANCH = re.compile(r"(if|elif|while|assert)\b")
BRANCHING = (
    "the line branches on a number from a tensor, which breaks the graph with capture_scalar_outputs too: compute both sides and "
    "choose with torch.where, clamp the values, or use torch.cond"
)
#: How a verdict on a line of the program is proved, with checks to try and without.
TRIES = "t.advise(prove=True) traces again with each check before the line"
CHANGED = "the line itself has to change: trace the changed program, and explorer.compare() shows both"
#: How a guard names a local variable or a global.
_LOCAL = re.compile(r"[LG]\['(\w+)'\]")
_COMMENT = re.compile(r"\s+# .*", re.DOTALL)


def breaks(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each reason of graph breaks, with the lines that broke."""
    same: dict[str, list[Mapping[str, Plain]]] = {}
    for row in graph_breaks(traced.trace):
        same.setdefault(str(row["reason"]), []).append(row)
    for rows in same.values():
        row = rows[0]
        how = "Dynamo's own part of a break, measured on one CPU; what the graphs on both sides could have fused is not counted"
        what_if, hint = _settings(str(row["reason"])), next(iter(row["hints"]), "")
        places = {(one["reason"], one["line"]): one for one in rows}
        told = [a for a in traced.trace.find("graph_break") if places.pop((a.data["reason"], a.data["line"]), None)]
        lines = tuple(_broken_line(traced.trace, a) for a in told if a.data["file"])
        asked = next(filter(None, (_asked_of_data(traced.trace, a) for a in told)), None)
        if what_if and any(_BRANCH.match(line.code) for line in lines):  # with the setting the branch breaks the graph instead
            what_if, hint = {}, BRANCHING
        yield Verdict(
            "graph break",
            f"Graph break{f' at {len(rows)} lines' if rows[1:] else ''}: {row['reason']}",
            Cost(len(rows) * BREAK, "estimated", how),
            asked.sentence if asked else f"Dynamo: {row['explanation'] or row['reason']}",
            asked.remedy
            if asked
            else str(hint) or "write the line so that Dynamo can trace it, or move it out of the compiled function",
            tuple(dict.fromkeys((_asking(asked), *lines))) if asked else lines,
            tuple((a.id, 1) for a in told),
            what_if,
            "" if what_if else TRIES if asked and asked.checks else CHANGED,
            asked.checks if asked else (),
        )


def stopped(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each compile that ended because a line asks for what only the data knows."""
    frames = [typed(Symbols, text.data).rows for text in traced.trace.find("symbol")]
    for failure in traced.trace.failures:
        asked = data_dependent(failure.message, symbols_of_condition(failure.message, frames)) if failure.fatal else None
        if asked is not None:
            yield Verdict(
                "compile failed",
                f"The compile ends at a number that only the data knows: {asked.written}",
                Cost(0.0, "measured", "no call is compiled", stops=True),
                asked.sentence,
                asked.remedy,
                (_asking(asked),),
                why_unproved=TRIES if asked.checks else CHANGED,
                checks=asked.checks,
            )


def _asking(asked: DataDependent) -> UserLine:
    return UserLine(asked.file, asked.line, asked.code)


def _asked_of_data(trace: TraceData, artifact: Artifact) -> DataDependent | None:
    """Return what a graph break says that only the data knows; None for other breaks."""
    texts = trace.find("symbol", artifact.frame)
    return data_dependent(artifact.text, [row for text in texts for row in typed(Symbols, text.data).rows])


def _settings(reason: str) -> Mapping[str, Plain]:
    settings = {name: value for pattern, name, value in SETTINGS if re.search(pattern, reason, re.IGNORECASE)}
    return {"settings": settings} if settings else {}


def _broken_line(trace: TraceData, artifact: Artifact) -> UserLine:
    """Return the user line of a graph break: its code from the trace's source, else from Dynamo's own traceback."""
    (line,) = _user_line(trace, str(artifact.data["file"]), int(artifact.data["line"]))
    return line if line.code else UserLine(line.file, line.number, code_at(artifact.text, line.file, line.number))


def _user_line(trace: TraceData, file: str, line: int) -> tuple[UserLine, ...]:
    """Return a line of a file as a user line, with its code where the trace has its source."""
    if not file:
        return ()
    place = source_line(trace, file, line)
    code = artifact_of(trace, place[0]).lines[place[1] - 1].strip() if place else ""
    return (UserLine(file, line, code),)


# Recompiles --------------------------------------------------------------------------------------------------------------


def recompiles(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each function that was compiled again and again."""
    functions: dict[str, list[Mapping[str, Plain]]] = {}
    for row in failed_guards(traced.trace):
        functions.setdefault(str(row["frame"]).partition("/")[0], []).append(row)
    for number, rows in functions.items():
        frames = list(dict.fromkeys(str(row["frame"]) for row in rows))
        if len(frames) >= FEWEST_RECOMPILES:
            yield _recompiled(traced, number, frames, rows)


def failed_guards(trace: TraceData) -> Iterator[Mapping[str, Plain]]:
    """Yield the first guard that failed for each recompile: Dynamo lists those of all earlier compiles, n² / 2 for n compiles."""
    for artifact in trace.find("recompile"):
        for row in typed(Recompiles, artifact.data).rows[:1]:
            yield {"frame": artifact.frame, **row}


def each_call(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each Python value that a call changes and that a guard of the same frame holds at what it was."""
    trace = traced.trace
    set_in = {code.frame: (code, set_to) for code in trace.find("dynamo_bytecode") if (set_to := names_set(code.text))}
    for guards in trace.find("guards"):
        code, set_to = set_in.get(guards.frame, (guards, {}))
        for row in stage_of(trace, "guards").rows(guards, trace) if set_to else ():
            if row["kind"] != "EQUALS_MATCH":
                continue
            _, _, held = str(row["expression"]).partition(" == ")
            value = _LOCAL.sub(r"\1", str(row["source"]))
            name = value.rpartition(".")[2]
            if set_to.get(name, held) == held:
                continue
            once = _compile_seconds(trace, [code.frame])
            yield Verdict(
                RECOMPILES,
                f"each call changes {value}, which a guard holds: the next call compiles again",
                Cost(
                    once / CALLS, "measured", f"such a compile took it, and it ranks as if spread over {CALLS:,} calls", once=once
                ),
                f"the guard {row['expression']}, and the call sets {value} to {set_to[name]}",
                f"change {value} outside of the compiled function, or keep it in a tensor",
                _user_line(trace, str(row["file"]), int(row["line"])),
                ((code.id, 1),),
                why_unproved="a trace is of one call: explorer.record() around two calls shows the second compile",
            )


#: How Dynamo's bytecode sets a name to a constant: an attribute by a call with three arguments, a global by an instruction.
_NEXT = r"\n\s+(?:\d+\s+)?"
_CONSTANT = r"LOAD_(?:CONST\s+\d+ \((?P<value>[^()\n]+)\)|SMALL_INT\s+(?P<integer>\d+))" + _NEXT
_SETS = (
    re.compile(r"LOAD_CONST\s+\d+ \('(?P<name>\w+)'\)" + _NEXT + _CONSTANT + r"(?:PRECALL|CALL)\s+3"),
    re.compile(_CONSTANT + r"STORE_(?:GLOBAL|ATTR)\s+\d+ \((?P<name>\w+)\)"),
)


def names_set(bytecode: str) -> dict[str, str]:
    """Map each attribute and global that a frame's new bytecode sets to a constant to that constant, as the text has it."""
    return {match["name"]: match["value"] or match["integer"] for pattern in _SETS for match in pattern.finditer(bytecode)}


def _recompiled(traced: TracedCall, number: str, frames: list[str], rows: list[Mapping[str, Plain]]) -> Verdict:
    """Say how long compiling a function again took, and which guards caused it."""
    trace = traced.trace
    once = _compile_seconds(trace, frames)
    source = next(iter(trace.find("source", f"{number}/0")), None)
    name = str(source.data["function"]) if source else f"frame {number}"
    guards = dict.fromkeys(_COMMENT.sub("", str(row["guard"])).strip() for row in rows)
    sizes = all(re.search(r"size mismatch|\.size\(\)|stride", guard) for guard in guards)
    limit = next((f for f in trace.failures if f.step in LIMITS), None)
    remedy = (
        f"mark the size as dynamic before the first call, {MARKS}(x, 0), or compile with dynamic=True"
        if sizes
        else "keep what changes from call to call in a tensor, or out of the compiled function: Dynamo compiles for its value"
    )
    what = "reached the limit on recompiles" if limit else "was compiled again"
    return Verdict(
        RECOMPILES,
        f"{name} {what}: {len(frames)} recompiles",
        Cost(once / CALLS, "measured", f"the compiles took it, and each ranks as if spread over {CALLS:,} calls", once=once),
        f"failed guards: {'; '.join(list(guards)[:3])}{f'; and {len(guards) - 3} more' if len(guards) > 3 else ''}"
        + (f". {limit.message.partition(': ')[2].partition('. ')[0]}" if limit else ""),
        remedy,
        _guarded_lines(traced, rows) or _source_line(traced, number),
        tuple((a.id, 1) for a in trace.find("recompile") if a.frame in frames)[:1],
        what_if={"settings": DYNAMIC} if sizes else {},
        why_unproved="" if sizes else "the program has to change: explorer.vary(f, x) says what each value costs",
    )


def _compile_seconds(trace: TraceData, frames: Collection[str]) -> float:
    """How long compiling some frames took."""
    return sum(float(row["seconds"] or 0) for row in table(trace, "phase") if row["frame"] in frames and row["depth"] == 0)


def _guarded_lines(traced: TracedCall, rows: Iterable[Mapping[str, Plain]]) -> tuple[UserLine, ...]:
    """List the user lines that the failed guards name."""
    found: dict[UserLine, None] = {}
    for row in rows:
        for file, line in re.findall(r'File "(.+?)", line (\d+)', str(row["guard"]))[-1:]:
            found.update(dict.fromkeys(_user_line(traced.trace, file, int(line))))
    return tuple(found)


def _source_line(traced: TracedCall, number: str) -> tuple[UserLine, ...]:
    """Return the first line of a function."""
    source = next(iter(traced.trace.find("source", f"{number}/0")), None)
    if source is None:
        return ()
    return (UserLine(str(source.data["file"]), int(source.data["first_line"]), source.lines[0].strip()),)
