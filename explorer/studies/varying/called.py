"""vary: change how a function is called, and see what is compiled again, by which guard, and what that changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice
from typing import Any

from explorer.errors import InputError, LiveError, NoKernelError, require_installed
from explorer.model.values import Plain, Table
from explorer.model.wording import quantity
from explorer.reference.gpus.figures import Target
from explorer.stages import STAGES
from explorer.studies.varying.lab import Lab, Probed, with_progress
from explorer.studies.varying.varied_call import argument_names, known_name, tensor_names
from explorer.studies.varying.vary import UNCHANGED, Vary
from explorer.tracing.recording.arguments import TraceRequest, check_request
from explorer.tracing.recording.trace import Plan
from explorer.tracing.traced import Trace
from explorer.tracing.traced.comparison import Comparison, compare

#: The columns that are shown first.
SHOWN = ("change", "outcome", "guard", "at", "code", "kernels", "entries", "note")
#: What is done to a dimension, in the order in which it is tried: Dynamo's settings and marks.
REMEDIES: Mapping[str, tuple[str, Any]] = {
    "nothing": ("", None),
    "dynamic=False": ("dynamic", False),
    "dynamic=True": ("dynamic", True),
    "mark_dynamic": ("mark_dynamic", None),
    "mark_unbacked": ("mark_unbacked", None),
}
#: The most calls that `to_limit` makes beyond the limit's own number.
BEYOND = 4


@dataclass(frozen=True, repr=False)
class Variations:
    """What became of each call: `table` has one a call, the first is the call as it was given.

    `change` says what the call had otherwise, `outcome` is "compiled" (the first time), "served" (by code that was there),
    "recompiled", "eager" or "raises". `guard` is the guard that failed, in torch's words, of the compile `earlier`; `at` and
    `code` are the user's line that it is from, `torch` the line of torch that made it; `guards` has one for every earlier
    compile. `kernels` counts the kernels that differ from the first call's code; `changed`, `added` and `removed` name them.
    `symbols` are the sizes that became dynamic. `entries` of `limit` are in the frame's cache after the call. `compiled` and
    `ran` are compile ids, `note` says the rest.
    """

    name: str
    table: Table
    _calls: tuple[Probed, ...] = field(default=(), compare=False)
    _lab: Lab | None = field(default=None, compare=False)

    # What was seen -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._calls)

    def __getitem__(self, call: int) -> Trace:
        """What one call compiled, as a Trace; InputError for a call that compiled nothing."""
        probed = self._call(call)
        if not probed.observed.compiled:
            raise InputError(f"call {call} compiled nothing ({probed.observed.outcome}); `table` says which calls did")
        return probed.session.trace_of(probed.observed)

    def compare(self, call: int) -> Comparison:
        """Put the code of the first call beside another call's, for the view side by side; errors as for `v[call]`."""
        again, probed = self[call], self._call(call)
        return compare(probed.session.first_of(probed.observed), again, names=("first call", f"call {call}"))

    def guards(self, call: int = 0) -> Table:
        """The guards of what one call compiled, each with where it comes from: see `t.dynamo.guards`."""
        return self[call].dynamo.guards

    # Further calls -------------------------------------------------------------------------------------------------

    def sequence(self, variations: Iterable[Vary]) -> Variations:
        """Call the function as it was given, then in each of these ways, one after the other, as a program would.

        A call may use what an earlier one compiled, sizes become dynamic, and the recompile limit may be reached. InputError for
        what is no Vary, or for an argument that the call does not have.
        """
        lab = self._live_lab()
        calls = with_progress(self.name, _checked(variations))
        return _variations(self.name, lab, lab.in_turn(calls))

    def to_limit(self, argument: str, dimension: int | None = None) -> Variations:
        """Call with ever other sizes, or values, of one argument until Dynamo compiles no more, and show how that comes.

        The function is compiled with dynamic=False: else Dynamo makes the size dynamic at the second compile, and the limit is
        never reached. InputError for an argument that is neither a tensor nor a whole number.
        """
        lab = self._live_lab()
        variations = self._ever_other(argument, dimension)
        static = Vary(dynamic=False)
        calls: list[Probed] = []
        most = lab.limits["recompile_limit"] + BEYOND
        for probed in lab.in_turn(with_progress(self.name, (v & static for v in islice(variations, most))), first=static):
            calls.append(probed)
            if [each.observed.outcome for each in calls[-2:]] == ["eager", "eager"]:
                break
        return _variations(self.name, lab, calls)

    def dynamic(self, argument: str, dimension: int = 0, sizes: Sequence[int] = ()) -> Table:
        """Try each way to make a dimension dynamic, from a fresh compile on the same sizes, and say what it spares or breaks.

        One row per remedy: nothing (Dynamo makes a size dynamic when it has changed once), dynamic=False, dynamic=True,
        mark_dynamic and mark_unbacked. `compiles` is how often the calls compiled, `spares` how many fewer that is than with
        nothing, `outcomes` has one a size, and `raises` says in torch's words what the program does that the mark forbids.
        """
        lab = self._live_lab()
        size = self._size(argument, dimension)
        sizes = tuple(sizes) or tuple(dict.fromkeys((size, size + 1, size + 2, 2 * size, 1)))
        rows: list[dict[str, Plain]] = []
        for remedy, (what, value) in REMEDIES.items():
            first, *others = (_remedied(argument, dimension, s, what, value) for s in sizes)
            calls = list(lab.in_turn(with_progress(self.name, others), first=first))
            rows.append(_remedy_row(remedy, sizes, calls, rows[0]["compiles"] if rows else None))
        return Table(rows)

    def sliders(self) -> Any:
        """Widgets for the sizes, dtypes, layouts and values of the call, each of which calls the function when it is moved.

        They are shown by a notebook; see `Sliders`. LiveError outside of the process that called it.
        """
        from explorer.studies.varying.sliders import Sliders

        return Sliders(self.name, self._live_lab())

    # Showing -------------------------------------------------------------------------------------------------------

    def _shown(self) -> Table:
        """Return the columns in which any call has an entry."""
        return Table({key: row[key] for key in SHOWN if any(r[key] for r in self.table)} for row in self.table)

    def __repr__(self) -> str:
        return f"<Variations of {self.name}: {quantity(len(self._calls), 'call')}{self._mode}>\n{self._shown()!r}"

    @property
    def _mode(self) -> str:
        """Whether the calls ran with gradients, as they do in a program that does not turn them off; a trace runs without."""
        if self._lab is None:
            return ""
        return ", with gradients enabled, which they are not in a trace" if self._lab.had_gradients else ""

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    # The parts ---------------------------------------------------------------------------------------------------------

    def _call(self, call: int) -> Probed:
        if not 0 <= call < len(self._calls):
            raise NoKernelError(
                f'there is no call {call}: the calls are 0 to {len(self._calls) - 1}, as in the column "call" of `table`'
            )
        return self._calls[call]

    def _live_lab(self) -> Lab:
        if self._lab is None:
            raise LiveError("this needs the process that called it: call explorer.vary again")
        return self._lab

    def _size(self, argument: str, dimension: int) -> int:
        tensors = tensor_names(self._live_lab().plan.call)
        argument = known_name(self._live_lab().plan.call, argument)
        if argument not in tensors or not -tensors[argument].dim() <= dimension < tensors[argument].dim():
            listed = ", ".join(f"{name} of shape {tuple(t.shape)}" for name, t in tensors.items())
            raise InputError(f"no tensor {argument!r} has a dimension {dimension}: the tensors are {listed or 'none'}")
        return int(tensors[argument].size(dimension))

    def _ever_other(self, argument: str, dimension: int | None) -> Iterable[Vary]:
        """Yield ever other sizes of a dimension, or values of a whole number."""
        values = argument_names(self._live_lab().plan.call)
        argument = known_name(self._live_lab().plan.call, argument)
        if dimension is None and type(values.get(argument)) is int:
            return (Vary(argument, value=n) for n in count(values[argument] + 1))
        dimension = dimension or 0
        size = self._size(argument, dimension)
        return (Vary(argument, size={dimension: n}) for n in count(size + 1))


def vary(
    fn: Callable[..., Any],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    variations: Iterable[Vary] | None = None,
    target: str | Target = "auto",
    mode: str | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    backend: Any = "inductor",
    options: Mapping[str, Any] | None = None,
) -> Variations:
    """Call a compiled `fn(*args, **kwargs)` once as it is and once for each variation, and say what Dynamo did each time.

    Each variation comes right after the first call: what others compiled is not there. `variations` are `Vary` values, such as
    `[explorer.Vary("x", size={0: 9})]`; without them explorer varies the sizes, types, layouts and values of the tensors, the
    Python values, and the state of the program, as far as the function itself takes it. The other arguments are the same as for
    `explorer.trace`. The calls are made under the program's own grad mode, a trace without gradients. Each change that recompiles
    takes two compiles, since it comes right after the first call.

    The function is compiled separately, with its own cache and Dynamo's own limits. The program's compiled code, its settings,
    the arguments and random numbers stay as they are. InputError for arguments that cannot be. BusyError during a trace, and
    during a recording that is fresh or for a GPU you don't have.
    """
    require_installed("torch", "explorer.vary", "full")
    check = _checked(variations) if variations is not None else None
    request = TraceRequest(fn, args, kwargs, target, False, mode, dynamic, fullgraph, backend, options, STAGES)
    check_request(request, {}, sys._getframe(1))
    lab = Lab(Plan.of(request))
    first = lab.first()
    name = str(lab.plan.meta()["name"])
    asked = lab.own_variations() if check is None else check
    others = (lab.after_first(each) for each in with_progress(name, asked))
    return _variations(name, lab, chain([first], others))


def _variations(name: str, lab: Lab, calls: Iterable[Probed]) -> Variations:
    """Make the value of the calls, numbered in order."""
    every = tuple(calls)
    return Variations(name, Table({**probed.row, "call": number} for number, probed in enumerate(every)), every, lab)


def _checked(variations: Vary | Iterable[Vary]) -> list[Vary]:
    """The variations as a list; InputError for anything else among them."""
    if not isinstance(variations, Iterable) and not isinstance(variations, Vary):
        raise InputError(f"variations is a list of Vary, such as [explorer.Vary('x', size={{0: 9}})], not {variations!r}")
    listed: list[Vary] = [variations] if isinstance(variations, Vary) else [*variations]
    for each in listed:
        if not isinstance(each, Vary):
            raise InputError(f"a variation is a Vary, such as explorer.Vary('x', size={{0: 9}}), not {each!r}")
    return listed


def _remedied(argument: str, dimension: int, size: int, what: str, value: Any) -> Vary:
    """A call with another size, and a remedy."""
    vary = Vary(argument, size={dimension: size})
    if what == "dynamic":
        return vary & Vary(dynamic=value)
    marks: dict[str, Any] = {what: dimension} if what else {}
    return vary & Vary(argument, **marks) if marks else vary


def _remedy_row(remedy: str, sizes: Sequence[int], calls: Sequence[Probed], plain: int | None) -> dict[str, Plain]:
    compiles = sum(bool(each.observed.compiled) for each in calls)
    raised = next((each.observed.note for each in calls if each.observed.error is not None), "")
    return {
        "remedy": remedy,
        "compiles": compiles,
        "spares": 0 if plain is None or raised else plain - compiles,
        "outcomes": tuple(f"{size}: {each.observed.outcome}" for size, each in zip(sizes, calls, strict=True)),
        "guard": next((each.row["guard"] for each in calls if each.row["guard"]), ""),
        "at": next((each.row["at"] for each in calls if each.row["guard"]), ""),
        "raises": raised,
    }


__all__ = ["UNCHANGED", "Variations", "vary"]
