"""The exercises of the workshop, whose public path is `explorer.quiz`.

`exercises.py` has Question and Task, which are values, `fields.py` what an answer may be, `exercise.py` and `quiz.py` the
learner's state, `row.py` its widgets, `outcome.py` what is shown; `par.py` has what a puzzle counts, `same_result.py` whether an
answer computes the same, `run_c.py` runs the C of a learner's compiler; `results.py` the file, `leaders.py` the board; one file
a part (`m0.py` … `m8.py`), two for the puzzles of part P (`puzzles.py`, `kernel_puzzles.py`); `workshop.py` has all,
`programs.py` why their programs are text.
"""

from __future__ import annotations

from explorer.workshop.quiz.exercise import Exercise as Exercise
from explorer.workshop.quiz.exercises import Check as Check
from explorer.workshop.quiz.exercises import Place as Place
from explorer.workshop.quiz.exercises import Question as Question
from explorer.workshop.quiz.exercises import Task as Task
from explorer.workshop.quiz.exercises import at as at
from explorer.workshop.quiz.exercises import traced as traced
from explorer.workshop.quiz.fields import AnyOf as AnyOf
from explorer.workshop.quiz.fields import Choice as Choice
from explorer.workshop.quiz.fields import Choices as Choices
from explorer.workshop.quiz.fields import Line as Line
from explorer.workshop.quiz.fields import Lines as Lines
from explorer.workshop.quiz.fields import Names as Names
from explorer.workshop.quiz.fields import Number as Number
from explorer.workshop.quiz.fields import Text as Text
from explorer.workshop.quiz.leaders import Board as Board
from explorer.workshop.quiz.leaders import board as board
from explorer.workshop.quiz.outcome import Outcome as Outcome
from explorer.workshop.quiz.par import Par as Par
from explorer.workshop.quiz.programs import Program as Program
from explorer.workshop.quiz.programs import program as program
from explorer.workshop.quiz.quiz import Quiz as Quiz
from explorer.workshop.quiz.quiz import Score as Score
