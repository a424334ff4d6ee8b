"""Edit the output code of a graph: the same steps as for a kernel, with the whole wrapper in the original's place."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.errors import CompileError, InputError
from explorer.ladder.ladder import compile_ladder
from explorer.live.editing import AnyText, Editing, Standing
from explorer.process.under_way import step
from explorer.splice import variant as variants
from explorer.splice.calls import CALL
from explorer.splice.cost import ladder_cost
from explorer.splice.definitions import Definition, definitions
from explorer.splice.launches import RecordedLaunch
from explorer.splice.messages import NOT_PYTHON, located
from explorer.splice.variant import Variant
from explorer.splice.wrapper_text import WrapperText, changed_kernels, loaded, put_in_place, unreadable, wrapper_text
from explorer.splice.wrappers import Wrapper


@dataclass
class WrapperEditing(Editing):
    """One edit of output code under way."""

    def _variant(self, wrapper: Wrapper) -> Variant:
        edit = self.edit
        text = wrapper_text(wrapper, edit.text)
        made = self._made(text)
        if (error := unreadable(edit.text)) is not None:
            line, message = error
            return replace(made, status=variants.SYNTAX if line else variants.COMPILE, message=message, line=line)
        made = replace(made, kernels=tuple(new.name for new in changed_kernels(edit.text, wrapper.text)))
        return self._compiled_and_tried(made, wrapper, text, wrapper_text(wrapper, wrapper.text))

    def _launches(self, wrapper: Wrapper) -> Sequence[RecordedLaunch]:
        """The first call of the wrapper; what it returned stands after its arguments."""
        calls = self.live.calls(of=[wrapper])
        return [RecordedLaunch(each.file, CALL, each.before, (*each.after, *each.returned)) for each in calls]

    def _standing(self, made: Variant, wrapper: Wrapper, text: AnyText) -> tuple[Variant, Standing]:
        assert isinstance(text, WrapperText)
        edited = loaded(text, wrapper)
        return made, Standing(made, functools.partial(put_in_place, wrapper, edited), edited)

    # A GPU you don't have ------------------------------------------------------------------------------------------

    def _priced(self, made: Variant, text: AnyText, of_original: AnyText, launch: RecordedLaunch) -> Variant:
        """Compile each kernel that is another down to machine code; what it takes is said where it is only one."""
        before, changed = definitions(of_original.source), changed_kernels(text.source, of_original.source)
        for number, definition in enumerate(changed):
            step("compiling the kernels for the GPU", number, len(changed))
            try:
                cost = _cost(definition, text)
            except (CompileError, InputError) as error:
                status = variants.SYNTAX if NOT_PYTHON in str(error) else variants.COMPILE
                line, message = located(str(error), definition.source)
                line = line + definition.first_line - 1 if line else 0
                return replace(made, status=status, message=f"{definition.name}: {message}", line=line)
            if len(changed) == 1:
                of_before = before.get(definition.name)
                made = replace(made, cost=cost, original_cost=_cost(of_before, of_original) if of_before is not None else {})
        return made


def _cost(definition: Definition, text: AnyText) -> dict[str, object]:
    """What a kernel takes that a wrapper defines, compiled for a GPU you don't have; {} for one that is not Triton's."""
    if definition.language != "triton" or text.target is None:
        return {}
    return dict(ladder_cost(compile_ladder(definition.source, definition.inner_name, text.target)))
