"""Edit a kernel of a compiled function: compile the text, try it in another process, put it in place, check and time it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from explorer.absent.generated import Kernel
from explorer.errors import CompileError, ExplorerError, InputError
from explorer.ladder.ladder import Ladder, compile_ladder
from explorer.live.outcome import on_copies
from explorer.live.protocol import no_verb
from explorer.live.timing import median_seconds
from explorer.live.tuning import not_launched, prediction_of
from explorer.model.values import Artifact, Plain, Rows
from explorer.observe.tensors import same_bits
from explorer.process.under_way import step
from explorer.splice import variant as variants
from explorer.splice.cost import ladder_cost, launched_cost
from explorer.splice.job import Job
from explorer.splice.kernels import FORMS, KernelText, compiled, kernel_text
from explorer.splice.launches import RecordedLaunch
from explorer.splice.messages import NOT_PYTHON, located
from explorer.splice.trial import Outcome, tried
from explorer.splice.variant import Variant
from explorer.splice.wrappers import Wrapper, replaced_kernels

if TYPE_CHECKING:
    from explorer.live.function import LiveFunction

#: The seconds that a trial of an edit may take, unless asked for more: C++ compiles for 10 s and more.
LIMIT = 60.0
#: The calls of the whole function with a variant and with the original, in turn.
CALLS = 7


@dataclass(frozen=True)
class Edit:
    """What is to be edited: a kernel, the file of its wrapper, which form of it, and the text."""

    kernel: Artifact
    file: str
    form: str
    text: str
    original: str
    config: Mapping[str, Plain] | None = None
    limit: float = LIMIT
    check: bool = True

    @property
    def name(self) -> str:
        """The kernel's name in its wrapper."""
        return self.kernel.kernel


@dataclass
class Edits:
    """The variants of one compiled function by the id of their kernel, which of them stands, and what puts its original back.

    Kernels of two graphs may have one name: where a kernel stands is the file of its wrapper and its name in it.
    """

    made: dict[str, list[Variant]] = field(default_factory=dict)
    standing: dict[tuple[str, str], Variant] = field(default_factory=dict)
    undo: dict[tuple[str, str], Callable[[], None]] = field(default_factory=dict)
    kernels: dict[tuple[str, str], Any] = field(default_factory=dict)

    def of(self, kernel: Artifact) -> tuple[Variant, ...]:
        """The variants of one kernel, in the order in which they were made."""
        return tuple(self.made.get(kernel.id, ()))

    def add(self, kernel: Artifact, variant: Variant) -> None:
        """Add one to those of its kernel."""
        self.made[kernel.id] = [*self.made.get(kernel.id, ()), variant]

    def put(self, wrapper: Wrapper, name: str, kernel: Any, variant: Variant) -> None:
        """Let a variant's kernel stand in the place of the original."""
        place = (wrapper.file, name)
        self.reset(place)
        self.undo[place] = wrapper.replace(name, functools.partial(_standing_in, kernel))
        self.kernels[place], self.standing[place] = kernel, variant

    @contextmanager
    def original(self, wrapper: Wrapper, name: str) -> Iterator[None]:
        """The original stands inside the block; after it what stood before, where nothing else was put there."""
        place = (wrapper.file, name)
        kernel, variant = self.kernels.get(place), self.standing.get(place)
        self.reset(place)
        try:
            yield
        finally:
            if variant is not None and place not in self.standing:
                self.put(wrapper, name, kernel, variant)

    def reset(self, place: tuple[str, str]) -> bool:
        """Put the original back; False where it stands there."""
        self.standing.pop(place, None)
        self.kernels.pop(place, None)
        undo = self.undo.pop(place, None)
        if undo is not None:
            undo()
        return undo is not None


@dataclass
class Editing:
    """One edit under way."""

    live: LiveFunction
    edit: Edit

    def variant(self) -> Variant:
        """Make the variant, and put it in place where it is right. InputError for what cannot be edited."""
        wrapper = self._wrapper()
        with self.live.edits.original(wrapper, self.edit.name):  # an edit is held to the original, not to an earlier edit
            return self._variant(wrapper)

    def _variant(self, wrapper: Wrapper) -> Variant:
        edit = self.edit
        original = kernel_text(wrapper, edit.name, edit.kernel.text, edit.kernel.language)
        text = self._text(wrapper, original)
        made = Variant(
            1 + len(self.live.edits.of(edit.kernel)),
            edit.name,
            edit.form,
            edit.text,
            edit.original,
            variants.COMPILED,
            config=text.config,
            original_config=original.config,
            interpreted=text.target is not None,
        )
        variant = self._compiled_and_tried(made, wrapper, text, original)
        self.live.edits.add(edit.kernel, variant)
        return variant

    # What is edited ------------------------------------------------------------------------------------------------

    def _wrapper(self) -> Wrapper:
        """The wrapper that launches the kernel; NoVerbError where nothing can be put in its place."""
        found = next((w for w in self.live.wrappers if w.file == self.edit.file), None)
        what = f"{self.edit.name} cannot be edited"
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
        """What is to be compiled; InputError for a form that the kernel does not have."""
        edit = self.edit
        if edit.form == "source":
            text = kernel_text(wrapper, edit.name, edit.text, edit.kernel.language)
        elif edit.kernel.language != "triton" or edit.form not in FORMS:
            raise InputError(
                f"{edit.name} has no form {edit.form!r} that can be edited: a C++ kernel is edited as source=…, a Triton kernel "
                f"as source=… or as {', '.join(f'{form}=…' for form in FORMS)}"
            )
        else:
            text = replace(original, form=edit.form, form_text=edit.text)
        return replace(text, config=dict(edit.config), strict=True) if edit.config is not None else text

    # The steps -----------------------------------------------------------------------------------------------------

    def _compiled_and_tried(self, made: Variant, wrapper: Wrapper, text: KernelText, original: KernelText) -> Variant:
        """Compile and launch the text in another process first; then here, if it ran."""
        step("recording a launch of the original")
        launches = self.live.launches([(wrapper.file, self.edit.name)], most=1)
        if not launches:
            raise InputError(not_launched(self.edit.name))
        if text.target is not None:
            made = self._priced(made, text, original, launches[0])
            if made.status != variants.COMPILED or text.form:
                return made
        step("trying the edit in a process of its own")
        outcome = tried(Job(text, original, [(launch.before, launch.keywords) for launch in launches]), self.edit.limit)
        if outcome.status != "ran":
            return replace(made, status=outcome.status, message=outcome.message, line=outcome.line)
        if outcome.seconds is not None:
            made = replace(made, seconds=outcome.seconds[0], original_seconds=outcome.seconds[1], timed="measured")
        return self._in_place(made, wrapper, text, _same(outcome, launches))

    def _in_place(self, made: Variant, wrapper: Wrapper, text: KernelText, same: bool) -> Variant:
        """Put the kernel in place and check the whole function; it stays where that is right.

        `same` says that the launch that was tried gave, to the bit, what the original's gave.
        """
        step("compiling the edit")
        before = vars_of(wrapper, self.edit.name)
        kernel = compiled(text)
        if own := launched_cost(kernel):
            made = replace(made, cost=own, original_cost=launched_cost(before))
        with replaced_kernels([(wrapper, self.edit.name, functools.partial(_standing_in, kernel))]):
            rows = self.live.check(None) if self.edit.check else Rows()
        status, message = _judged(rows, same) if self.edit.check else (variants.IN_PLACE, "it was not checked")
        made = replace(made, rows=rows, status=status, message=message)
        if made.in_place and self.live.absent is None:
            made = replace(made, call_seconds=self._calls(wrapper, kernel, before))
        if made.in_place:
            self.live.edits.put(wrapper, self.edit.name, kernel, made)
        return made

    def _calls(self, wrapper: Wrapper, kernel: Any, original: Any) -> tuple[float, float]:
        """The median seconds of a call of the whole function with the variant, and with what stood in its place."""
        step("timing the function")
        with on_copies(self.live.call) as call:

            def call_with(standing: Any) -> None:
                undo = wrapper.replace(self.edit.name, lambda _: standing)
                try:
                    self.live.call_compiled(call)
                finally:
                    undo()

            calls = [functools.partial(call_with, kernel), functools.partial(call_with, original)]
            mine, other = median_seconds(calls, CALLS)
        return mine.clock, other.clock

    # A GPU you don't have ------------------------------------------------------------------------------------------

    def _priced(self, made: Variant, text: KernelText, of_original: KernelText, launch: RecordedLaunch) -> Variant:
        """Compile the text down to machine code for the GPU, and say what it takes beside the original."""
        assert text.target is not None
        step("compiling the edit for the GPU")
        override = {text.form: text.form_text} if text.form else {}
        try:
            ladder = compile_ladder(text.source, text.name, text.target, text.config, override)
        except (CompileError, InputError) as error:
            status = variants.SYNTAX if NOT_PYTHON in str(error) else variants.COMPILE
            line, message = located(str(error), self.edit.text)
            return replace(made, status=status, message=message, line=line)
        made = replace(made, cost=ladder_cost(ladder), config=dict(ladder.config))
        original = self._ladder_of_original()
        if original is None:
            return made
        made = replace(made, original_cost=ladder_cost(original), original_config=dict(original.config))
        mine, other = prediction_of(text, ladder, launch), prediction_of(of_original, original, launch)
        if mine is None or other is None:
            return made
        return replace(made, seconds=mine.seconds, original_seconds=other.seconds, timed="predicted")

    def _ladder_of_original(self) -> Ladder | None:
        """The original as the trace compiled it; None where that failed."""
        try:
            return self.live.ladders.of(self.edit.kernel)
        except ExplorerError:
            return None


def _standing_in(kernel: Any, before: Any) -> Any:
    """The kernel as the wrapper calls it; of a GPU you don't have it runs in the interpreter of what stood there."""
    return replace(kernel, wrappers=before.wrappers) if isinstance(kernel, Kernel) and isinstance(before, Kernel) else kernel


def vars_of(wrapper: Wrapper, name: str) -> Any:
    """What stands in the place of a kernel now; None for a GPU you don't have, whose code is executed at each check."""
    module = getattr(wrapper, "module", None)
    return vars(module).get(name) if module is not None else None


def _same(outcome: Outcome, launches: Sequence[RecordedLaunch]) -> bool:
    """Whether the launches that were tried gave, to the bit, what the original's gave."""
    import torch

    both = zip(outcome.after, launches, strict=True)
    pairs = [pair for after, launch in both for pair in zip(after, launch.after, strict=True)]
    return all(same_bits(one, other) for one, other in pairs if isinstance(one, torch.Tensor))


def _judged(rows: Rows, same: bool) -> tuple[str, str]:
    """The status of a variant by the check of the whole function, and what is wrong with it."""
    wrong = [row for row in rows if row["equal"] is False]
    if wrong:
        said = [f"{row['output']}: {row['note'] or 'unequal'}, at most {row['max_abs']} off" for row in wrong[:3]]
        more = [f"and {len(wrong) - 3} more"] if len(wrong) > 3 else []
        return variants.WRONG, "\n".join([*said, *more])
    if any(row["equal"] for row in rows):
        return variants.IN_PLACE, ""
    if same:
        return variants.IN_PLACE, "no value of the function could be compared; the kernel's own are the original's to the bit"
    return variants.NOT_COMPARED, ""


def one_text(source: str | None, forms: Mapping[str, str]) -> tuple[str, str]:
    """The form that an edit is given and its text; InputError for none, for several, and for what is no text."""
    given = {**({"source": source} if source is not None else {}), **forms}
    if len(given) != 1:
        names = ", ".join(given) or "none"
        raise InputError(f"an edit is one text, source=… or ttgir=…; {names} of them given: write k.edit(source=text)")
    ((form, text),) = given.items()
    if not isinstance(text, str):
        raise InputError(f"{form} is a text, not {type(text).__name__}: change k.text() and give that")
    return form, text
