"""`python -m explorer.entry.mcp.worker` traces one program and answers about it: lines of JSON each way.

What the program prints goes to stderr, because stdout is the answers'. It ends when its stdin does, whatever the program is at:
a server that is killed leaves nobody who would end it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from explorer.entry.mcp import program, questions, verbs
from explorer.entry.mcp.answer import Answer
from explorer.errors import ExplorerError
from explorer.process.descendants import end_this_process
from explorer.tracing.traced.trace import Trace


class Asked:
    """The traces of this process by name, and what is asked of them."""

    def __init__(self) -> None:
        self._traces: dict[str, Trace] = {}

    def answer(self, question: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer one question; what it makes is kept by a name of the asker's."""
        if question == "trace":
            self._traces[name] = program.traced(**arguments)
            return questions.stages(self._traces[name]).sent()
        trace = self._traces[name]
        if question == "save":
            trace.save(arguments["path"])
            return {}
        if question == "what_if":
            new = arguments.pop("name")
            answer, self._traces[new] = verbs.what_if(trace, **arguments)
            return answer.sent()
        answered: Answer = getattr(verbs if question in verbs.__all__ else questions, question)(trace, **arguments)
        return answered.sent()


def _requests(asked: IO[str]) -> Iterator[dict[str, Any]]:
    """Yield what is asked, one after the other; the end of stdin ends the process and what it started."""
    waiting: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in asked:
            waiting.put(line)
        end_this_process()

    Thread(target=read, name="explorer-mcp", daemon=True).start()
    while True:
        yield json.loads(waiting.get())


def main() -> None:
    """Answer until stdin ends."""
    asked, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    keeper = Asked()
    for request in _requests(asked):
        try:
            answer: dict[str, Any] = {"answer": keeper.answer(request["question"], request["trace"], request["arguments"])}
        except ExplorerError as error:
            answer = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 a process of its own: what fails is its answer
            answer = {"error": f"explorer could not answer: {type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
    sys.exit(0)
