"""A row of widgets for one exercise: what is asked, an input for each value, a button, and what became of the answer."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from explorer.errors import require_installed
from explorer.workshop.quiz.fields import Choice, Choices, Field, Line, Lines, Names, Number
from explorer.workshop.quiz.outcome import ICONS, NOT_YET, RIGHT, UNANSWERED, Outcome, open_place

try:
    import ipywidgets as widgets
except ModuleNotFoundError:
    require_installed("ipywidgets", "the row of an exercise", "view")
    raise

if TYPE_CHECKING:
    from explorer.workshop.quiz.exercise import Exercise

#: What an input says while it is empty.
_PLACEHOLDERS: tuple[tuple[type[Field], str], ...] = (
    (Number, "a number"),
    (Line, "a line, such as 7"),
    (Lines, "lines, such as 7-8"),
    (Names, "names, such as sin, mul"),
)


class Row(widgets.VBox):  # type: ignore[misc]
    """The widgets of an exercise; a saved notebook shows its question and state instead."""

    def __init__(self, exercise: Exercise, children: list[Any]) -> None:
        super().__init__(children)
        self._exercise = exercise

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        # a notebook that is saved, as on GitHub, would show the names of the widgets' classes
        alone = {"text/html": f"{self._exercise._repr_html_()}{_status(self._exercise)}", "text/plain": repr(self._exercise)}
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, **alone}, metadata


def row_of(exercise: Exercise, view: Any = None) -> Row:
    """Build the widgets of an exercise; a line clicked in `view` goes into its input."""
    question = widgets.HTML(exercise._repr_html_())
    status = widgets.HTML(_status(exercise))
    exercise.observe(lambda outcome: setattr(status, "value", outcome._repr_html_()))
    if not exercise.item.fields:
        return Row(exercise, [question, widgets.HTML(f"<code>{html.escape(exercise.item.how)}</code>"), status])
    inputs = [_input(exercise.id, field) for field in exercise.item.fields]
    if view is not None:
        _fill_from(view, exercise, inputs)
    output = widgets.Output()
    button = widgets.Button(description=f"answer {exercise.id}", tooltip=f"answer {exercise.id}", icon="check")
    button.on_click(lambda _: _answered(exercise, inputs, button, output))
    return Row(exercise, [question, *inputs, button, status, output])


def _status(exercise: Exercise) -> str:
    """How the exercise stands when the row is made."""
    if exercise.outcome is not None:
        return exercise.outcome._repr_html_()
    icon = ICONS[RIGHT if exercise.result.is_right else NOT_YET if exercise.result.tries else UNANSWERED]
    standing = exercise.standing._repr_html_() if exercise.standing else ""
    return f'<div role="status">{icon} {html.escape(exercise.state())}{standing}</div>'


def _input(id: str, field: Field) -> Any:
    """The widget of one value, with a name that a screen reader reads."""
    name = field.label or f"your answer to {id}"
    style, layout = {"description_width": "initial"}, widgets.Layout(width="auto", max_width="640px")
    if isinstance(field, Choices):
        options = [*field.options, "none of them"]
        return widgets.SelectMultiple(options=options, rows=len(options), description=name, style=style, layout=layout)
    if isinstance(field, Choice):
        pairs = [("choose …", None), *((option, option) for option in field.options)]
        return widgets.Dropdown(options=pairs, value=None, description=name, style=style, layout=layout)
    placeholder = next((words for kind, words in _PLACEHOLDERS if isinstance(field, kind)), "text")
    return widgets.Text(description=name, placeholder=placeholder, style=style, layout=layout)


def _value(field: Field, control: Any) -> Any:
    """What a widget holds, as `answer` takes it; None while nothing was chosen."""
    if isinstance(field, Choices):
        chosen = list(control.value)
        return None if not chosen else [] if chosen == ["none of them"] else [c for c in chosen if c != "none of them"]
    return control.value


def _answered(exercise: Exercise, inputs: list[Any], button: Any, output: Any) -> Outcome:
    """Answer with what the widgets hold; after a second miss the view opens below."""
    output.clear_output()
    button.disabled, label = True, button.description
    button.description = "looking …"
    try:
        given = [_value(field, control) for field, control in zip(exercise.item.fields, inputs, strict=True)]
        outcome = exercise.judge(*given)
    finally:
        button.disabled, button.description = False, label
    if outcome.place is not None:
        with output:
            open_place(outcome.place)
    return outcome


def _fill_from(view: Any, exercise: Exercise, inputs: list[Any]) -> None:
    """Put the line that is clicked in the view into the inputs for lines of that stage."""

    def clicked(change: Any) -> None:
        selected = change["new"]
        for field, control in zip(exercise.item.fields, inputs, strict=True):
            if isinstance(field, Lines) and selected and field.stage in ("", selected.get("stage")):
                control.value = str(selected["line"])

    view.observe(clicked, names="selected")
