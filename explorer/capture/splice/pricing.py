"""What an edited text takes of a GPU you don't have. It is compiled in the process of a trial, whose limits then hold for it."""

from __future__ import annotations

from collections.abc import Callable

from explorer.capture.ladder.ladder import compile_ladder
from explorer.capture.ladder.same_code import code_keys, same_at
from explorer.capture.ladder.triton_tools import missing_backend
from explorer.capture.splice.cost import ladder_cost
from explorer.capture.splice.definitions import Definition, definitions
from explorer.capture.splice.job import Job, Price
from explorer.capture.splice.kernels import KernelText
from explorer.capture.splice.prediction import prediction_of
from explorer.capture.splice.wrapper_text import WrapperText, changed_kernels
from explorer.errors import CompileError, InputError


def priced(job: Job, compiling: Callable[[str, int], None]) -> Price:
    """Compile the edited text to machine code. `compiling` is called with each part of a wrapper's text and its first line."""
    if isinstance(job.edited, WrapperText):
        return _price_of_wrapper(job.edited, job.original, compiling)
    assert isinstance(job.original, KernelText)
    return _price_of_kernel(job.edited, job)


def _price_of_kernel(text: KernelText, job: Job) -> Price:
    assert text.target is not None
    if missing_backend(text.target) and not text.form:
        return Price()  # the interpreter runs the source all the same
    override = {text.form: text.form_text} if text.form else {}
    ladder = compile_ladder(text.source, text.name, text.target, text.config, override)
    before, _ = job.launches[0]
    prediction = prediction_of(text, ladder, before, job.changed, job.original.source)
    keys = code_keys(ladder)
    if text.form:
        keys.pop("ttir", None)  # triton goes on from the text of a form, whatever stands above it
    seconds = prediction.seconds if prediction is not None else None
    return Price(ladder_cost(ladder), dict(ladder.config), seconds, same_at=same_at(keys, job.code))


def _price_of_wrapper(text: WrapperText, original: KernelText | WrapperText, compiling: Callable[[str, int], None]) -> Price:
    """Compile each changed kernel. The cost is returned only if exactly one kernel changed."""
    changed, costs = changed_kernels(text.source, original.source), []
    for definition in changed:
        compiling(definition.source, definition.first_line)
        try:
            costs.append(_cost(definition, text))
        except (CompileError, InputError) as error:
            raise CompileError(f"{definition.name}: {error}") from error
    if len(changed) != 1:
        return Price()
    before = definitions(original.source).get(changed[0].name)
    return Price(costs[0], original_cost=_cost(before, text) if before is not None else {})


def _cost(definition: Definition, text: WrapperText) -> dict[str, object]:
    """What a kernel takes that a wrapper defines; {} for one that is not Triton's."""
    if definition.language != "triton" or text.target is None:
        return {}
    return dict(ladder_cost(compile_ladder(definition.source, definition.inner_name, text.target)))


__all__ = ["priced"]
