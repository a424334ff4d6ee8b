"""The questions that the command line asks of a saved trace; `mcp.questions` has the answers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping

from explorer.entry.mcp import questions
from explorer.entry.mcp.answer import Answer
from explorer.errors import InputError
from explorer.tracing.traced.trace import Trace


def advise(trace: Trace, options: Namespace) -> Answer:
    """Why the program is slow."""
    return questions.advise(trace)


def why(trace: Trace, options: Namespace) -> Answer:
    """Why two nodes are one kernel or not; of one node, how it was lowered."""
    return questions.why(trace, options.first, options.second or "", options.graph or "", options.frame or "")


def follow(trace: Trace, options: Namespace) -> Answer:
    """What a line of one text became, or came from, in every other."""
    where, colon, line = options.where.rpartition(":")
    if not colon or not line.isdigit():
        raise InputError(
            f"a line is named as post_grad:3 or model.py:12, by a stage, a text's id or your file, not {options.where!r}"
        )
    return questions.follow(trace, where, int(line), options.into or "")


def printed(answer: Answer) -> Iterator[str]:
    """The lines of an answer for a terminal; below the words of `follow` each linked text, with its first linked lines."""
    yield answer.text
    in_one_stage = len({row.get("stage") for row in answer.rows}) == 1
    for row in answer.rows:
        if "route" in row:
            yield f"{row['artifact']}  ({', '.join(row['route'])}{', coarse' if row['coarse'] else ''})"
            yield from (f"    {line}" for line in row["text"])
            if more := len(row["lines"]) - len(row["text"]):
                yield f"    and {more} more" + ("" if in_one_stage else f": --into {row['stage']} prints them")


#: What each of these commands asks.
QUESTIONS: Mapping[str, Callable[[Trace, Namespace], Answer]] = {"advise": advise, "why": why, "follow": follow}
