"""The questions that the command line asks of a saved trace, each answered as text and as values for JSON."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from explorer.entry.mcp import questions
from explorer.errors import InputError
from explorer.model.records import typed
from explorer.model.shared import Source
from explorer.model.values import Rows
from explorer.tracing.traced.trace import Trace


class Reply(NamedTuple):
    """The answer in words, and the rows that it rests on; `shown` is what a terminal gets."""

    answer: str
    rows: Rows
    shown: str

    def values(self) -> Mapping[str, Any]:
        """Return what JSON gets."""
        return {"answer": self.answer, "rows": self.rows}


def advise(trace: Trace, options: Namespace) -> Reply:
    """Why the program is slow."""
    advice = trace.advise()
    return Reply(repr(advice), advice.rows, repr(advice))


def why(trace: Trace, options: Namespace) -> Reply:
    """Why two nodes are one kernel or not; of one node, how it was lowered."""
    graph, frame = options.graph, options.frame
    if options.second is None:
        lowered = trace.lowering(options.first, graph, frame)
        return Reply(str(lowered), lowered.rows, str(lowered))
    answer = trace.fusion.why(options.first, options.second, graph, frame)
    return Reply(repr(answer), Rows(answer.verdicts), repr(answer))


def follow(trace: Trace, options: Namespace) -> Reply:
    """What a line of one text became, or came from, in every other."""
    where, colon, line = options.where.rpartition(":")
    if not colon or not line.isdigit():
        raise InputError(
            f"a line is named as post_grad:3 or model.py:12, by a stage, a text's id or your file, not {options.where!r}"
        )
    answer = questions.follow(trace, *_text_and_line(trace, where, int(line)), options.into or "")
    rows = Rows(answer.rows)
    return Reply(answer.text, rows, "\n".join([answer.text, *_quoted(rows)]))


def _text_and_line(trace: Trace, where: str, line: int) -> tuple[str, int]:
    """The id of the text that `where` names, and the line in it; of a file of the program its source has other numbers."""
    found = trace.find(where)
    if len(found) == 1:
        return found[0].id, line
    for artifact in trace.find("source"):
        source = typed(Source, artifact.data)
        in_source = line - source.first_line + 1
        if f"/{source.file}".endswith(f"/{where}") and 1 <= in_source <= len(artifact.lines):
            return artifact.id, in_source
    if where.endswith(".py"):
        raise InputError(f"no function of the trace has line {line} of {where}: explorer show FILE --stage source prints them")
    return where, line


def _quoted(rows: Rows) -> Iterator[str]:
    """Each linked text, with its first linked lines below it."""
    for row in rows:
        more = len(row["lines"]) - len(row["text"])
        yield f"{row['artifact']}" + ("  (coarse)" if row["coarse"] else "")
        yield from (f"    {line}" for line in row["text"])
        if more > 0:
            yield f"    and {more} more"


def table(trace: Trace, name: str) -> Rows:
    """The rows of a table: of a property of Trace, or of a stage."""
    return Rows(questions.table(trace, name).rows)


#: What each of these commands asks.
QUESTIONS: Mapping[str, Callable[[Trace, Namespace], Reply]] = {"advise": advise, "why": why, "follow": follow}
