"""Sliders: widgets for what a call of a probe may have otherwise; each change calls the function."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from explorer.capture.compilers import torch_compile as compiling
from explorer.errors import ExplorerError
from explorer.model.values import Table
from explorer.studies.varying.lab import Lab, Probed, probed, sentence
from explorer.studies.varying.variations import MAX_TENSORS
from explorer.studies.varying.varied_call import argument_names, tensor_names
from explorer.studies.varying.vary import LAYOUTS, MIN_DIMENSIONS, STANCES, UNCHANGED, Vary

#: The choice that leaves a thing as it was given.
AS_GIVEN = "as given"
#: The types that are offered in the place of a floating one, and of a whole one.
FLOATS = ("float32", "float64", "bfloat16", "float16")
WHOLE = ("int64", "int32", "int16")
#: The columns of the table of calls.
COLUMNS = ("call", "change", "outcome", "guard", "at", "code", "kernels", "entries", "note")


class Sliders:
    """The widgets of one function, and the session in which they call it: a call may use what an earlier one compiled.

    `controls` are ipywidgets by the name of what they change, `calls` what became of each call. In a notebook the widgets are
    shown with the table of calls under them, which is an output of its own: a saved notebook keeps it as it was last.
    """

    def __init__(self, name: str, lab: Lab) -> None:
        self.name = name
        self.calls: list[Probed] = []
        self.controls: dict[str, Any] = {}
        self.wrong = ""
        self._lab = lab
        self._session = lab.session()
        self._vary_of: dict[str, Callable[[Any], Vary]] = {}
        self._given: dict[str, Any] = {}
        self._output: Any = None
        self._calling = True
        for key, control, vary in self._all_controls():
            self.controls[key], self._vary_of[key], self._given[key] = control, vary, control.value
            control.observe(self._moved, names="value")
        self._call()

    # What is called --------------------------------------------------------------------------------------------------

    @property
    def vary(self) -> Vary:
        """What the widgets say now, as a Vary."""
        whole = UNCHANGED
        for key, control in self.controls.items():
            if control.value != self._given[key]:
                whole = whole & self._vary_of[key](control.value)
        return whole

    def afresh(self, *_: object) -> None:
        """Put every widget back, forget what was compiled, and call the function as it was given."""
        self._calling = False
        for key, control in self.controls.items():
            control.value = self._given[key]
        self._calling = True
        self.calls.clear()
        self._session = self._lab.session()
        self._call()

    def _moved(self, change: object) -> None:
        if self._calling:
            self._call()

    def _call(self) -> None:
        """Call the function as the widgets say, and show what became of it."""
        self.wrong = ""
        try:
            self.calls.append(probed(self._session, self._session.call(self.vary)))
        except ExplorerError as error:  # such as a layout that these sizes cannot have
            self.wrong = str(error)
        if self._output is not None:
            self._output.update(self._shown())

    # The widgets -----------------------------------------------------------------------------------------------------

    def _all_controls(self) -> Iterator[tuple[str, Any, Callable[[Any], Vary]]]:
        """Yield (name, widget, what makes a Vary of its value)."""
        import ipywidgets as widgets

        call = self._lab.plan.call
        for name, tensor in list(tensor_names(call).items())[:MAX_TENSORS]:
            yield from _of_tensor(name, tensor)
        for name, value in argument_names(call).items():
            if (control := _of_value(name, value)) is not None:
                yield name, control, partial(_with_value, name)
        modes = widgets.Dropdown(options=[AS_GIVEN, *compiling.valid_modes()], description="mode")
        yield "mode", modes, lambda mode: Vary(mode=mode)
        stances = widgets.Dropdown(options=STANCES, description="stance")
        yield "stance", stances, lambda stance: Vary(stance=stance)
        choices = widgets.Dropdown(options=[(AS_GIVEN, None), ("True", True), ("False", False)], description="dynamic")
        yield "dynamic", choices, lambda dynamic: Vary(dynamic=dynamic)
        yield "no grad", widgets.Checkbox(value=False, description="no grad"), lambda _: Vary(grad=False)

    def box(self) -> Any:
        """The widgets, one under the other, with a button that begins afresh."""
        import ipywidgets as widgets

        button = widgets.Button(description="begin afresh", tooltip="put everything back and forget what was compiled")
        button.on_click(self.afresh)
        return widgets.VBox([*self.controls.values(), button])

    # Showing ---------------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Table:
        """One row per call: see `Probe`."""
        return Table({**each.row, "call": number} for number, each in enumerate(self.calls))

    def __repr__(self) -> str:
        return f"<Sliders of {self.name}: {self._sentence()}>\n{self._table()!r}"

    def _sentence(self) -> str:
        if self.wrong:
            return self.wrong
        return f"{self.calls[-1].row['change']}: {sentence(self.calls[-1].row)}" if self.calls else "not called"

    def _table(self) -> Table:
        return Table({key: row[key] for key in COLUMNS} for row in self.rows)

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self._sentence())}</b></p>{self._table()._repr_html_()}"

    def _shown(self) -> Any:
        from IPython.display import HTML

        return HTML(self._repr_html_())

    def _ipython_display_(self) -> None:
        """Show the widgets, and under them the table, which is shown again after each call."""
        from IPython.display import display

        display(self.box())
        self._output = display(self._shown(), display_id=True)


def _of_tensor(name: str, tensor: Any) -> Iterator[tuple[str, Any, Callable[[Any], Vary]]]:
    """The widgets of a tensor: a slider a dimension, its type, how it lies in memory, whether it requires a gradient."""
    import ipywidgets as widgets

    for dim in range(tensor.dim()):
        size, key = tensor.size(dim), f"{name}.size({dim})"
        slider = widgets.IntSlider(value=size, min=0, max=2 * size + 8, description=key, continuous_update=False)
        yield key, slider, partial(_with_size, name, dim)
    own = str(tensor.dtype).removeprefix("torch.")
    others = FLOATS if tensor.is_floating_point() else WHOLE if own in WHOLE else ()
    types = widgets.Dropdown(options=list(dict.fromkeys((own, *others))), value=own, description=f"{name}.dtype")
    yield f"{name}.dtype", types, lambda dtype: Vary(name, dtype=dtype)
    layouts = [layout for layout in LAYOUTS if tensor.dim() >= MIN_DIMENSIONS.get(layout, 0)]
    stride = widgets.Dropdown(options=[AS_GIVEN, *layouts], description=f"{name} lies")
    yield f"{name}.stride", stride, lambda layout: Vary(name, stride=layout)
    if tensor.is_floating_point():
        requires = widgets.Checkbox(value=tensor.requires_grad, description=f"{name}.requires_grad")
        yield f"{name}.requires_grad", requires, lambda value: Vary(name, requires_grad=value)


def _with_size(name: str, dimension: int, size: int) -> Vary:
    return Vary(name, size={dimension: size})


def _with_value(name: str, value: Any) -> Vary:
    return Vary(name, value=value)


def _of_value(name: str, value: Any) -> Any:
    """The widget of a Python value; None for what is no bool, number or text."""
    import ipywidgets as widgets

    if isinstance(value, bool):
        return widgets.Checkbox(value=value, description=name)
    if isinstance(value, int):
        reach = abs(value) + 8
        return widgets.IntSlider(value=value, min=value - reach, max=value + reach, description=name, continuous_update=False)
    if isinstance(value, float):
        return widgets.FloatText(value=value, description=name, continuous_update=False)
    return widgets.Text(value=value, description=name, continuous_update=False) if isinstance(value, str) else None
