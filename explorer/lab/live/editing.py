"""Edit a kernel of a compiled function: compile the text, try it in another process, put it in place, check and time it.

`wrapper_editing.py` does the same for the whole output code of a graph.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from explorer.capture.absent.generated import Kernel
from explorer.capture.ladder.ladder import Ladder
from explorer.capture.ladder.same_code import code_keys
from explorer.capture.observe.tensors import same_bits
from explorer.capture.splice import edit as statuses
from explorer.capture.splice.calls import CALL, replace_call
from explorer.capture.splice.cost import ladder_cost, launched_cost
from explorer.capture.splice.edit import Edit
from explorer.capture.splice.job import Job, Price
from explorer.capture.splice.kernels import FORMS, KernelText, compiled, kernel_text
from explorer.capture.splice.launches import RecordedLaunch
from explorer.capture.splice.messages import syntax_error
from explorer.capture.splice.prediction import prediction_of
from explorer.capture.splice.same_source import same_program
from explorer.capture.splice.trial import Outcome, given_timeout, tried
from explorer.capture.splice.wrapper_text import WrapperText
from explorer.capture.splice.wrappers import Wrapper
from explorer.errors import ExplorerError, InputError
from explorer.lab.live.outcome import on_copies, same_outcome
from explorer.lab.live.own_values import unlike_original
from explorer.lab.live.protocol import no_verb
from explorer.lab.live.timing import median_seconds
from explorer.lab.live.tuning import not_launched
from explorer.model.values import Artifact, Plain, Table
from explorer.process.under_way import knowing, step

if TYPE_CHECKING:
    from explorer.lab.live.function import LiveFunction

#: The seconds that a trial of an edit may take, unless asked for more: C++ compiles for 10 s and more.
TIMEOUT = 60.0
#: The calls of the whole function with an edit and with the original, in turn.
CALLS = 7
#: The wrong values that a message names.
MAX_FAULTS = 3
#: A text of a kernel, or of a wrapper.
AnyText = KernelText | WrapperText


@dataclass(frozen=True)
class EditRequest:
    """A requested edit: the kernel or output code, the file of its wrapper, the form to edit, and the text."""

    artifact: Artifact
    file: str
    form: str
    text: str
    original: str
    config: Mapping[str, Plain] | None = None
    timeout: float = TIMEOUT
    check: bool = True

    def __post_init__(self) -> None:
        """Raise InputError for an invalid config or timeout."""
        given_timeout(self.timeout)
        if self.config is not None and not isinstance(self.config, Mapping):
            raise InputError(f"config is a mapping such as {{'XBLOCK': 4, 'num_warps': 8}}, not {self.config!r}")

    @property
    def name(self) -> str:
        """The name to replace in the wrapper: the kernel's name there, or the name of the wrapper's `call`."""
        return self.artifact.kernel or CALL


#: What is said of an edit that stands where the last call did not come by. Only that is known: which guard failed, or whether
#: the program branched before it, is not asked.
NOT_RUN = (
    "this call did not reach the code that was edited: a guard failed and torch.compile ran other code, or the program took "
    "another way; trace the program as it is now and edit that kernel, or call it again as it was traced"
)

#: What is said of an edit whose first launch is wrong already.
UNLIKE = "on the same arguments, a {what} of the edit gives other values than one of the original, beyond rounding"

#: Where an edit stands: the file of the wrapper, and the name in it, which is that of its call for the wrapper itself.
Place = tuple[str, str]


@dataclass(frozen=True)
class InstalledEdit:
    """An edit that can replace the original.

    `put` puts the edit in place and returns a function that restores the original. `wrapper` is the edited wrapper, if a whole
    wrapper is replaced.
    """

    edit: Edit
    put: Callable[[], Callable[[], None]]
    wrapper: Wrapper | None = None


@dataclass
class EditStore:
    """The edits of one compiled function by the edited artifact's id, the edits in place, and how to restore originals.

    Kernels of two graphs may have the same name, so a kernel's place is the file of its wrapper and its name there. An edited
    wrapper has its own kernels: either the wrapper's edit is in place, or edits of its kernels are. `idle` has the places of
    edits in code that the last call did not run.
    """

    made: dict[str, list[Edit]] = field(default_factory=dict)
    standing: dict[Place, InstalledEdit] = field(default_factory=dict)
    undo: dict[Place, Callable[[], None]] = field(default_factory=dict)
    idle: set[Place] = field(default_factory=set)

    def of(self, artifact: Artifact) -> tuple[Edit, ...]:
        """Return the edits of one kernel or of one output code, the oldest first."""
        return tuple(self.made.get(artifact.id, ()))

    def add(self, artifact: Artifact, edit: Edit) -> None:
        """Add an edit to those of the artifact that it edits."""
        self.made[artifact.id] = [*self.made.get(artifact.id, ()), edit]

    def running(self, wrapper: W) -> W:
        """What runs in the place of a wrapper: its edit, or itself."""
        standing = self.standing.get((wrapper.file, CALL))
        return standing.wrapper if standing is not None and standing.wrapper is not None else wrapper  # type: ignore[return-value]

    def put(self, place: Place, standing: InstalledEdit) -> None:
        """Put an edit in place of the original."""
        self.reset(place)
        self.undo[place] = standing.put()
        self.standing[place] = standing

    def in_place_of(self, place: Place) -> Edit | None:
        """Return the edit in this place, with a message if the last call did not run it; None if the original is in place."""
        standing = self.standing.get(place)
        if standing is None:
            return None
        return replace(standing.edit, message=NOT_RUN) if place in self.idle else standing.edit

    @contextmanager
    def heeded(self, originals: Sequence[Wrapper]) -> Iterator[None]:
        """Warn of each edit in a wrapper that is not called inside the block.

        A compiled function whose guards fail runs newly compiled code, which has no edit in it. There is no warning for an
        edit that another thread puts or removes meanwhile.
        """
        ran: set[str] = set()
        before = dict(self.standing)

        def noted(file: str, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def run(args: Any) -> Any:
                ran.add(file)
                return call(args)

            return run

        files = {file for file, _ in before}
        with ExitStack() as stack:
            for wrapper in originals:
                if wrapper.file in files:
                    stack.callback(replace_call(self.running(wrapper), functools.partial(noted, wrapper.file)))
            yield
        idle = {place for place, standing in before.items() if place[0] not in ran and self.standing.get(place) is standing}
        self.idle = set(idle)
        for place in sorted(idle):
            warnings.warn(f"explorer: the edit of {before[place].edit.kernel}: {NOT_RUN}", stacklevel=5)

    @contextmanager
    def original(self, file: str, name: str) -> Iterator[None]:
        """Put the original in place inside the block. After it, restore the earlier edits, unless another edit was put there.

        The original wrapper has its own kernels, and the original kernel is in its own wrapper.
        """
        before = {place: standing for place, standing in self.standing.items() if place[0] == file and _hides(name, place[1])}
        for place in before:
            self.reset(place)
        try:
            yield
        finally:
            if (file, name) not in self.standing:
                for place, standing in before.items():
                    self.put(place, standing)

    def reset(self, place: Place) -> bool:
        """Put the original back; False if the original is in place."""
        self.standing.pop(place, None)
        self.idle.discard(place)
        undo = self.undo.pop(place, None)
        if undo is not None:
            undo()
        return undo is not None


#: A wrapper of an attached device or of a GPU you don't have.
W = TypeVar("W", bound=Wrapper)


def _hides(name: str, other: str) -> bool:
    """Whether an edit of `other` in a wrapper must not stand while one of `name` is tried."""
    return CALL in (name, other) or name == other


@dataclass
class Editing:
    """One edit of a kernel under way."""

    live: LiveFunction
    request: EditRequest

    def made(self) -> Edit:
        """Make the edit, and put it in place where it is right. InputError for what cannot be edited."""
        wrapper = self._wrapper()
        with self.live.edits.original(wrapper.file, self.request.name):  # an edit is held to the original, not to an earlier edit
            made = self._edit(wrapper)
        self.live.edits.add(self.request.artifact, made)
        return made

    def _edit(self, wrapper: Wrapper) -> Edit:
        edit = self.request
        original = kernel_text(wrapper, edit.name, edit.artifact.text, edit.artifact.language)
        text = self._text(wrapper, original)
        made = replace(self._new_edit(text), config=text.config, original_config=original.config)
        if text.config == original.config and same_program(text, original):
            return self._same_code(made, statuses.SAME_TEXT)
        # before the original is run: in the interpreter that takes a minute
        if text.language == "triton" and not text.form and (error := syntax_error(text.source)) is not None:
            return unread(made, *error)
        return self._compiled_and_tried(made, wrapper, text, original)

    def _new_edit(self, text: KernelText | WrapperText) -> Edit:
        """The edit of a text before anything is known of it."""
        edit = self.request
        number, name = 1 + len(self.live.edits.of(edit.artifact)), edit.artifact.kernel or edit.artifact.id
        status, interpreted = statuses.COMPILED, text.target is not None
        return Edit(number, name, edit.form, edit.text, edit.original, status, interpreted=interpreted)

    # What is edited ------------------------------------------------------------------------------------------------

    def _wrapper(self) -> Wrapper:
        """Return the wrapper as Inductor made it; NoVerbError if neither the wrapper nor its kernels can be replaced."""
        found = next((w for w in self.live.originals if w.file == self.request.file), None)
        what = f"{self.request.artifact.kernel or self.request.artifact.id} cannot be edited"
        if found is None or "AtenTensorHandle" in found.text:
            raise no_verb(
                what, "its wrapper is not Python code that was loaded here", "trace without cpp_wrapper, with backend='inductor'"
            )
        if found.replayed:
            raise no_verb(
                what,
                "CUDA graphs replay what was recorded, whatever stands in the wrapper",
                "trace with mode='max-autotune-no-cudagraphs' or without a mode",
            )
        return found

    def _text(self, wrapper: Wrapper, original: KernelText) -> KernelText:
        """Return the text to compile; InputError for a form that the kernel does not have."""
        edit = self.request
        if edit.form == "source":
            text = kernel_text(wrapper, edit.name, edit.text, edit.artifact.language)
        elif edit.artifact.language != "triton" or edit.form not in FORMS:
            raise InputError(
                f"{edit.name} has no form {edit.form!r} that can be edited: a C++ kernel is edited as source=…, a Triton kernel "
                f"as source=… or as {', '.join(f'{form}=…' for form in FORMS)}"
            )
        else:
            text = replace(original, form=edit.form, form_text=edit.text)
        return replace(text, config=dict(edit.config), strict=True) if edit.config is not None else text

    # The steps -----------------------------------------------------------------------------------------------------

    def _compiled_and_tried(self, made: Edit, wrapper: Wrapper, text: AnyText, original: AnyText) -> Edit:
        """Compile and launch the text in another process first; then here, if it ran."""
        step("recording a launch of the original")
        launches = self._launches(wrapper)
        if not launches:
            raise InputError(not_launched(made.kernel))
        step("trying the edit in a process of its own")
        asked = [(launch.before, launch.keywords) for launch in launches]
        changed = launches[0].changed if text.target is not None else ()  # for a prediction, which nothing measured needs
        outcome = tried(Job(text, original, asked, changed, self._code_of_original(text)), self.request.timeout)
        if outcome.price.cost:
            made = self._priced(made, outcome.price, original, launches[0])
        if outcome.status != "ran":
            return replace(made, status=outcome.status, message=outcome.message, line=outcome.line)
        if stage := outcome.price.same_at:
            return self._same_code(made, statuses.SAME_CODE.format(stage=stage.upper()))
        if text.target is not None and text.form:
            return made
        if other := _other_number(outcome, launches):
            return replace(made, status=statuses.WRONG, message=other)
        if outcome.seconds is not None:
            made = replace(made, seconds=outcome.seconds[0], original_seconds=outcome.seconds[1], timed="measured")
        both = zip(launches, outcome.after, strict=True)
        unlike = Table(row.mapping() for launch, after in both for row in unlike_original(original, launch, after))
        if unlike and self.request.check:  # a result may hide them, and a check of the whole function takes minutes
            message = f"{_faults(unlike)}\n{UNLIKE.format(what=made.runs)}"
            return replace(made, check=unlike, status=statuses.WRONG, message=message)
        return self._in_place(made, wrapper, text, _same(outcome, launches))

    def _launches(self, wrapper: Wrapper) -> Sequence[RecordedLaunch]:
        """A launch of the original, with its arguments."""
        return self.live.launches([(wrapper.file, self.request.name)], most=1)

    def _in_place(self, made: Edit, wrapper: Wrapper, text: AnyText, same: bool) -> Edit:
        """Put the edit in place and check the whole function; it stays where that is right.

        `same` says that the launch that was tried gave, to the bit, what the original's gave.
        """
        step("compiling the edit")
        made, standing = self._standing(made, wrapper, text)
        with knowing(f"its {made.runs} is right{', to the bit' if same else ''}"):
            made = self._checked(made, standing.put, same)
        if made.in_place and self.live.absent is None:
            made = replace(made, call_seconds=self._calls(standing.put))
        if made.in_place:
            self.live.edits.put((wrapper.file, self.request.name), replace(standing, edit=made))
        return made

    def _checked(self, made: Edit, put: Callable[[], Callable[[], None]], same: bool) -> Edit:
        """Check the whole function with the edit in place, unless the request is not to.

        Where the launch gave the original's bits, the function most often does too: it is called with the original and with the
        edit. A check also needs eager's values, in float64 and with other roundings, which takes minutes for a large model.
        """
        if not self.request.check:
            return replace(made, status=statuses.IN_PLACE, message=statuses.UNCHECKED)
        if same:
            original = self.live.outcome()
            with _put(put):
                is_same = same_outcome(original, self.live.outcome())
            if is_same:
                return replace(made, status=statuses.IN_PLACE, message=statuses.SAME_BITS.format(what=made.runs))
        with _put(put):
            rows = self.live.check(None)
        status, message = _judged(rows, same)
        return replace(made, check=rows, status=status, message=message)

    def _same_code(self, made: Edit, message: str) -> Edit:
        """Let an edit stand that has the original's code: what runs is the original."""
        if (original := self._ladder_of_original()) is not None and made.interpreted:
            cost, config = ladder_cost(original), dict(original.config)
            made = replace(made, cost=cost, original_cost=cost, config=config, original_config=config)
        made = replace(made, status=statuses.IN_PLACE, message=message, interpreted=False)
        self.live.edits.put((self.request.file, self.request.name), InstalledEdit(made, lambda: lambda: None))
        return made

    def _code_of_original(self, text: AnyText) -> Mapping[str, str]:
        """The hashes of the code that a kernel is compiled to for an absent GPU; {} where that is not known."""
        original = self._ladder_of_original() if isinstance(text, KernelText) and text.target is not None else None
        return code_keys(original) if original is not None else {}

    def _standing(self, made: Edit, wrapper: Wrapper, text: AnyText) -> tuple[Edit, InstalledEdit]:
        """Compile the text to an object that can replace the original, and add both kernels' costs to the edit."""
        assert isinstance(text, KernelText)
        kernel = compiled(text)
        if own := launched_cost(kernel):
            made = replace(made, cost=own, original_cost=launched_cost(vars_of(wrapper, self.request.name)))
        return made, InstalledEdit(
            made, functools.partial(wrapper.replace, self.request.name, functools.partial(_standing_in, kernel))
        )

    def _calls(self, put: Callable[[], Callable[[], None]]) -> tuple[float, float]:
        """The median seconds of a call of the whole function with the edit, and with the original."""
        step("timing the function")
        with on_copies(self.live.call) as call:

            def with_edit() -> None:
                with _put(put):
                    self.live.call_compiled(call)

            mine, other = median_seconds([with_edit, functools.partial(self.live.call_compiled, call)], CALLS)
        return mine.clock, other.clock

    # A GPU you don't have ------------------------------------------------------------------------------------------

    def _priced(self, made: Edit, price: Price, of_original: AnyText, launch: RecordedLaunch) -> Edit:
        """Say what the text takes of the GPU beside the original."""
        assert isinstance(of_original, KernelText)
        made = replace(made, cost=price.cost, config=price.config)
        original = self._ladder_of_original()
        if original is None:
            return made
        made = replace(made, original_cost=ladder_cost(original), original_config=dict(original.config))
        other = prediction_of(of_original, original, launch.before, launch.changed, of_original.source)
        if price.seconds is None or other is None:
            return made
        return replace(made, seconds=price.seconds, original_seconds=other.seconds, timed="predicted")

    def _ladder_of_original(self) -> Ladder | None:
        """The original as the trace compiled it; None where that failed."""
        try:
            return self.live.ladders.of(self.request.artifact)
        except ExplorerError:
            return None


def unread(edit: Edit, line: int, message: str) -> Edit:
    """The edit of a text that is no Python."""
    return replace(edit, status=statuses.SYNTAX if line else statuses.COMPILE, message=message, line=line)


@contextmanager
def _put(put: Callable[[], Callable[[], None]]) -> Iterator[None]:
    """Put an edit in place inside the block."""
    undo = put()
    try:
        yield
    finally:
        undo()


def _standing_in(kernel: Any, before: Any) -> Any:
    """Return the kernel to put into the wrapper. For an absent GPU it runs in the interpreter of the kernel it replaces."""
    return replace(kernel, wrappers=before.wrappers) if isinstance(kernel, Kernel) and isinstance(before, Kernel) else kernel


def vars_of(wrapper: Wrapper, name: str) -> Any:
    """Return the object that is now in a kernel's place; None for an absent GPU: a check executes that code anew."""
    module = getattr(wrapper, "module", None)
    return vars(module).get(name) if module is not None else None


def _other_number(outcome: Outcome, launches: Sequence[RecordedLaunch]) -> str:
    """Say that an edited wrapper returns a different number of values; "" if it does not."""
    for mine, launch in zip(outcome.after, launches, strict=True):
        if len(mine) != len(launch.after):
            given = len(launch.before)
            return f"it returns {len(mine) - given} values, the original {len(launch.after) - given}"
    return ""


def _same(outcome: Outcome, launches: Sequence[RecordedLaunch]) -> bool:
    """Whether the launches that were tried gave, to the bit, what the original's gave."""
    import torch

    both = zip(outcome.after, launches, strict=True)
    pairs = [pair for after, launch in both for pair in zip(after, launch.after, strict=True)]
    return all(same_bits(one, other) for one, other in pairs if isinstance(one, torch.Tensor))


def _judged(rows: Table, same: bool) -> tuple[str, str]:
    """Return the status of an edit after the check of the whole function, and a message on the fault."""
    wrong = [row for row in rows if row["equal"] is False]
    if wrong:
        return statuses.WRONG, _faults(wrong)
    if any(row["equal"] for row in rows):
        return statuses.IN_PLACE, ""
    if same:
        return statuses.IN_PLACE, "no value of the function could be compared; the kernel's own are the original's to the bit"
    return statuses.NOT_COMPARED, ""


def _faults(wrong: Sequence[Mapping[str, Any]]) -> str:
    """Say of each of the first few wrong values how far it is off."""
    said = [f"{row['output']}: {', '.join(filter(None, (row['note'] or 'unequal', _off(row))))}" for row in wrong[:MAX_FAULTS]]
    more = [f"and {len(wrong) - MAX_FAULTS} more"] if len(wrong) > MAX_FAULTS else []
    return "\n".join([*said, *more])


def _off(row: Mapping[str, Any]) -> str:
    """Say how far a value is from the right one: in percent of that, and beyond ten times the right value in times."""
    off, part = row["max_abs"], row["max_rel"]
    if off is None:
        return "not comparable"
    if not math.isfinite(off):
        return "" if row["note"] else f"off by {off}"  # the note says which side overflows
    if part is None or not math.isfinite(part):
        return f"off by up to {off:.3g}"
    times = float(f"{part:.2g}")
    of_value = f"{times:,.10g} times the right value" if times > 10 else f"{100 * times:,.10g} % of the right value"
    return f"off by up to {off:.3g}, {of_value}"


def one_text(source: str | None, forms: Mapping[str, str]) -> tuple[str, str]:
    """Return an edit's form and its text; InputError for no text, for several, and for a value that is no text."""
    given = {**({"source": source} if source is not None else {}), **forms}
    if len(given) != 1:
        names = ", ".join(given) or "none"
        raise InputError(f"an edit is one text, source=… or ttgir=…; {names} of them given: write k.edit(source=text)")
    ((form, text),) = given.items()
    if not isinstance(text, str):
        raise InputError(f"{form} is a text, not {type(text).__name__}: change k.text() and give that")
    return form, text
