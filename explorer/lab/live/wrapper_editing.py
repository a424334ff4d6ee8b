"""Edit the output code of a graph: the same steps as for a kernel, with the whole wrapper in the original's place."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.capture.splice import edit as statuses
from explorer.capture.splice.calls import CALL
from explorer.capture.splice.edit import Edit
from explorer.capture.splice.job import Price
from explorer.capture.splice.launches import RecordedLaunch
from explorer.capture.splice.same_source import same_program
from explorer.capture.splice.wrapper_text import WrapperText, changed_kernels, loaded, put_in_place, unreadable, wrapper_text
from explorer.capture.splice.wrappers import Wrapper
from explorer.lab.live.editing import AnyText, Editing, InstalledEdit, unread


@dataclass
class WrapperEditing(Editing):
    """One edit of output code under way."""

    def _edit(self, wrapper: Wrapper) -> Edit:
        edit = self.request
        text = wrapper_text(wrapper, edit.text)
        made = self._new_edit(text)
        if (error := unreadable(edit.text)) is not None:
            return unread(made, *error)
        original = wrapper_text(wrapper, wrapper.text)
        if same_program(text, original):
            return self._same_code(made, statuses.SAME_TEXT)
        made = replace(made, kernels=tuple(new.name for new in changed_kernels(edit.text, wrapper.text)))
        return self._compiled_and_tried(made, wrapper, text, original)

    def _launches(self, wrapper: Wrapper) -> Sequence[RecordedLaunch]:
        """Record the first call of the wrapper as a launch. The returned values follow the arguments in `after`."""
        calls = self.live.calls(of=[wrapper])
        return [RecordedLaunch(each.file, CALL, each.before, (*each.after, *each.returned)) for each in calls]

    def _standing(self, made: Edit, wrapper: Wrapper, text: AnyText) -> tuple[Edit, InstalledEdit]:
        assert isinstance(text, WrapperText)
        edited = loaded(text, wrapper)
        return made, InstalledEdit(made, functools.partial(put_in_place, wrapper, edited), edited)

    # A GPU you don't have ------------------------------------------------------------------------------------------

    def _ladder_of_original(self) -> None:
        """None: output code has several kernels."""

    def _priced(self, made: Edit, price: Price, of_original: AnyText, launch: RecordedLaunch) -> Edit:
        """Say what the only kernel that is another takes of the GPU, beside the one that it replaces."""
        return replace(made, cost=price.cost, original_cost=price.original_cost)
