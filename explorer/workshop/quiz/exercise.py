"""Exercise: one question or task of a quiz, with what the learner has answered so far."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2s
from typing import Any

from explorer.errors import InputError, require_installed
from explorer.model.values import Table, text_lines
from explorer.process.progress import in_notebook
from explorer.workshop.quiz import outcome as outcomes
from explorer.workshop.quiz.attempts import attempted
from explorer.workshop.quiz.exercises import Item, Place, Question, Subject, Task, Verdict
from explorer.workshop.quiz.fields import is_nothing
from explorer.workshop.quiz.outcome import Outcome, points, with_code
from explorer.workshop.quiz.par import Par, Standing
from explorer.workshop.quiz.programs import undisturbed
from explorer.workshop.quiz.results import Result


class Exercise:
    """One question or task of a quiz: `answer` answers it, as often as it takes.

    As the last line of a cell it shows the question, with widgets to answer it in a notebook. Both ways have one state.
    """

    def __init__(self, item: Item, subject_of: Callable[[Callable[[], Subject]], Subject], result: Result) -> None:
        self.item = item
        self.result = result
        self.outcome: Outcome | None = None
        self._subject_of = subject_of
        self._observers: list[Callable[[Outcome], None]] = []

    # Answering -------------------------------------------------------------------------------------------------------

    def answer(self, *given: Any, trace: Subject | None = None, **options: Any) -> Outcome:
        """Answer, and show at once whether it is right; returns the same as an `Outcome`.

        A question takes a value, or several where it asks for several; a task takes what it says. `...`, None and no value at
        all are no answer: this says so, and nothing fails. With `trace` the truth is asked of that trace, such as one of yours,
        in the place of the exercise's own. What a function of yours raises is shown, and is a miss.
        """
        return self.judge(*given, trace=trace, **options).tell()

    def judge(self, *given: Any, trace: Subject | None = None, **options: Any) -> Outcome:
        """Answer as `answer` does, without showing anything."""
        self.outcome = self._outcome(given, trace, options)
        for observer in self._observers:
            observer(self.outcome)
        return self.outcome

    def _outcome(self, given: tuple[Any, ...], trace: Subject | None, options: Mapping[str, Any]) -> Outcome:
        if not given or any(is_nothing(each) for each in given):
            return Outcome(self.item.id, outcomes.UNANSWERED, f"Answer it with {self.item.how}", standing=self.standing)
        if not isinstance(self.item, Question):
            _, error = attempted(lambda: require_installed("torch", f"judging {self.id}", "full"))
            if error:
                return Outcome(self.item.id, outcomes.NOT_JUDGED, f"It does not count as a try, since {error}")
        try:
            answer = self.item.read(given, options)
        except InputError as error:
            return Outcome(
                self.item.id, outcomes.REFUSED, f"{str(error)[:1].upper()}{str(error)[1:]}. It does not count as a try."
            )
        return self._of_question(answer, trace) if isinstance(self.item, Question) else self._of_task(answer)

    def _of_question(self, answer: tuple[Any, ...], trace: Subject | None) -> Outcome:
        """Judge a prediction. What goes wrong on the way to the truth is not the learner's, and no try."""
        item = self.item
        assert isinstance(item, Question)
        subject, error = (trace, "") if trace is not None else attempted(lambda: self._subject_of(item.make))
        verdict, error = (None, error) if error else attempted(lambda: item.judge(subject, answer))
        if verdict is None:
            whose = "the trace that you gave does not have what is asked about" if trace is not None else "no truth was found"
            return Outcome(item.id, outcomes.NOT_JUDGED, f"It does not count as a try, since {whose}: {error}")
        return self._counted(answer, verdict, subject)

    def _of_task(self, answer: tuple[Any, ...]) -> Outcome:
        """Judge what the learner wrote. An error of it, or of compiling it, is a miss."""
        item = self.item
        assert not isinstance(item, Question)
        with undisturbed():
            subject, error = attempted(lambda: item.subject(answer))
            verdict, error = (None, error) if error else attempted(lambda: item.judge(subject, answer))
        if verdict is None:
            return self._counted(answer, Verdict(False, Table()), subject, f"It raised {error}")
        return self._counted(answer, verdict, subject)

    def _counted(self, answer: tuple[Any, ...], verdict: Verdict, subject: Subject, error: str = "") -> Outcome:
        """Count the answer, and say what became of it; the first miss has the hint, the second the place."""
        mark = blake2s(self.item.words(answer).encode(), digest_size=4).hexdigest()
        figure = verdict.figure if verdict.is_right else None
        before, self.result = self.result, self.result.after(mark, verdict.is_right, figure)
        standing = self.standing and replace(self.standing, figure=verdict.figure)
        if verdict.is_right:
            words = self._praise(before, verdict)
            return Outcome(self.item.id, outcomes.RIGHT, words, rows=verdict.rows, points=self.result.points, standing=standing)
        said = [error or f"You gave: {self.item.words(answer)}."] if error or isinstance(self.item, Question) else []
        if before.is_right:
            said.append("Your right answer from before stands.")
        elif mark in before.tries:
            said.append("It was given before, and does not count again.")
        place = self._place(subject) if self.result.misses > 1 else None
        return Outcome(self.item.id, outcomes.NOT_YET, " ".join(said), self.item.hint, verdict.rows, place, standing=standing)

    def _place(self, subject: Subject) -> Place | None:
        """Return the line to look at; none if the function of a task raised."""
        return attempted(lambda: self.item.where(subject))[0] if subject is not None else None

    def _praise(self, before: Result, verdict: Verdict) -> str:
        which = {1: "at the first try", 2: "at the second try"}.get(len(self.result.tries), f"at try {len(self.result.tries)}")
        counted = "It was right before." if before.is_right else f"{points(self.result.points)}, {which}."
        par = self.par
        figure = f" {par.praise(verdict.figure)}" if par is not None and verdict.figure is not None else ""
        return f"{counted[:1].upper()}{counted[1:]}{figure} {self.item.note}".strip()

    # Looking ---------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its name, such as "M1.2"."""
        return self.item.id

    @property
    def par(self) -> Par | None:
        """What a puzzle counts, and how little is enough; None for any other exercise."""
        return self.item.par if isinstance(self.item, Task) else None

    @property
    def standing(self) -> Standing | None:
        """The best figure so far of a puzzle, beside the start and par; None for any other exercise."""
        return None if self.par is None else Standing(self.par, best=self.result.figure)

    @property
    def trace(self) -> Subject:
        """What the truth is found in: a trace, or several by name. It is made when it is first asked for.

        InputError for a task, which has the trace of the learner's own function.
        """
        if not isinstance(self.item, Question):
            raise InputError(f"{self.id} is a task: its trace is that of what you write, explorer.trace(your_function, …)")
        return self._subject_of(self.item.make)

    @property
    def program(self) -> str:
        """The text of the function or kernel that the exercise is about; "" where it is about none, or about several."""
        return self.item.program.text if self.item.program else ""

    @property
    def place(self) -> Place:
        """The line that shows the answer. InputError for a task, as `trace`."""
        return self.item.where(self.trace)

    def show(self) -> Any:
        """Open the view of the exercise's trace at the line that shows the answer, and return it; in a terminal print it."""
        return outcomes.open_place(self.place)

    def ask(self, view: Any = None) -> Any:
        """The exercise as a row of widgets. A line that is clicked in `view`, as `explorer.show` gives it, is put into the row.

        NotInstalledError where ipywidgets is not installed.
        """
        from explorer.workshop.quiz.row import row_of

        return row_of(self, view)

    def observe(self, observer: Callable[[Outcome], None]) -> None:
        """Call `observer` with every outcome from now on, whichever way the answer was given."""
        self._observers.append(observer)

    def state(self) -> str:
        """How it stands, in words: "right, 2 points", "not yet (1 try)" or "not answered yet"."""
        tries = len(self.result.tries)
        if self.result.is_right:
            figure = "" if self.par is None or self.result.figure is None else f"; {self.par.praise(self.result.figure)[:-1]}"
            return f"{outcomes.RIGHT}, {points(self.result.points)}{figure}"
        return f"{outcomes.NOT_YET} ({tries} {'try' if tries == 1 else 'tries'})" if tries else outcomes.UNANSWERED

    def __repr__(self) -> str:
        standing = [str(self.standing)] if self.standing else []
        lines = [f"{self._heading()}  {self.item.text}", *self._start(), *standing, f"  {self.item.how}", f"  {self.state()}"]
        return "\n".join(lines)

    def _heading(self) -> str:
        """The id, and a puzzle's title."""
        return f"{self.id} {getattr(self.item, 'title', '')}".strip()

    def _start(self) -> list[str]:
        """The code to begin with, indented."""
        return [f"    {line}" for line in text_lines(getattr(self.item, "start", "").strip("\n"))]

    def _repr_html_(self) -> str:
        start = "\n".join(line[4:] for line in self._start())
        code = f"<pre>{html.escape(start)}</pre>" if start else ""
        return f"<div><b>{html.escape(self._heading())}</b> {with_code(self.item.text)}{code}</div>"

    def _ipython_display_(self) -> None:
        """Show the question; in a notebook with widgets to answer it, if ipywidgets is there."""
        from IPython.display import HTML, display

        if not in_notebook():
            sys.stdout.write(f"{self!r}\n")
            return
        box, _ = attempted(self.ask)
        if box is None:
            standing = self.standing._repr_html_() if self.standing else ""
            display(HTML(f"{self._repr_html_()}{standing}<div>{html.escape(self.item.how)}</div>"))
        else:
            display(box)
