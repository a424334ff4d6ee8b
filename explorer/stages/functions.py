"""The functions of another compiler's kernels, cut out of the text of the file that has them all. Pure.

IREE links the dispatches of a program into one executable, and TVM makes one module of all of its functions. The LLVM IR and
the assembly have them all, with functions of the compiler's own library, and the tables of the debug information behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from explorer.model.records import Record, record, typed
from explorer.model.shared import Names
from explorer.model.stage import Frames, text_artifact
from explorer.model.values import Artifact, Event, text_lines
from explorer.stages.fx_locations import FIRST_NODE


@record
class MachineFunction(Record):
    """A function of a kernel: for each line of its text that states one the place (file, line) that it comes from."""

    name: str
    fx_nodes: Names
    places: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


@record
class MachineFunctionText(MachineFunction):
    """A function of a kernel, cut out of the text of an executable."""

    text: str


@record
class ExecutableText(Record):
    """The LLVM IR or the assembly of an executable, with the names of the kernels' functions in it.

    `groups` has groups of FX nodes by their numbers: a location line beyond the number of nodes stands for one of these groups.
    """

    text: str
    fx_nodes: Names
    functions: Names
    groups: tuple[tuple[int, ...], ...] | None = None


#: The name of each function of a text, with its first and its last line, counted from 1.
Bounds = Callable[[Sequence[str]], Iterator[tuple[str, int, int]]]
#: For each line of a text the places (file, line) that it comes from.
Chains = Callable[[str], Iterator[tuple[int, tuple[tuple[str, int], ...]]]]


def one_a_function(bounds: Bounds, chains: Chains) -> Callable[[Sequence[Event], Frames], Iterator[Event]]:
    """The gather of a stage whose events hold the file of an executable: one event per function."""

    def gather(events: Sequence[Event], frames: Frames) -> Iterator[Event]:
        """Each function of a kernel, with the places that its lines state."""
        for event in events:
            executable = typed(ExecutableText, event.data)
            lines, stated = text_lines(executable.text), dict(chains(executable.text))
            for name, first, last in bounds(lines):
                if name in executable.functions:
                    places = tuple(
                        (n - first + 1, _apart(stated[n], executable)) for n in range(first, last + 1) if stated.get(n)
                    )
                    text = "\n".join(lines[first - 1 : last])
                    function = MachineFunctionText(name=name, fx_nodes=executable.fx_nodes, places=places, text=text)
                    yield replace(event, data=function)

    return gather


def _apart(chain: tuple[tuple[str, int], ...], executable: ExecutableText) -> tuple[tuple[str, int], ...]:
    """Places, those of a group of nodes as the places of each."""
    behind = FIRST_NODE + len(executable.fx_nodes)
    groups = executable.groups or ()
    places: list[tuple[str, int]] = []
    for file, line in chain:
        group = groups[line - behind] if 0 <= line - behind < len(groups) else None
        places += [(file, line)] if group is None else [(file, FIRST_NODE + number) for number in group]
    return tuple(places)


def function_artifact(event: Event, id: str, what: str, language: str) -> Artifact:
    """The artifact of one kernel's function."""
    name = typed(MachineFunctionText, event.data).name
    return text_artifact(event, id, f"{what} of {name}", language, kernel=name)


def stated_places(artifact: Artifact) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
    """The places that were read when the function was cut out of its file."""
    return list(typed(MachineFunction, artifact.data).places)
