"""quiz: exercises about what torch.compile does, checked against real traces.

    q = explorer.Quiz("M1")              # one part of the workshop; without arguments all of it
    q("M1.1")                            # the question, in a notebook with widgets to answer it
    q("M1.1").answer(2)                  # right, or not yet, with a hint; after a second miss the line that shows it
    q("M2.3").answer(my_function)        # a task: named checks on the trace of your function
    q.score()
    q.export("ada.json", name="Ada")     # explorer.Quiz("M2", resume="ada.json") goes on from it
    explorer.quiz.board("folder")        # the leader board of a class

`Question` and `Task` are values, for exercises of your own: `explorer.Quiz(Question(…), Task(…))`.
"""

from __future__ import annotations

from explorer.quiz.exercise import Exercise as Exercise
from explorer.quiz.exercises import Check as Check
from explorer.quiz.exercises import Place as Place
from explorer.quiz.exercises import Question as Question
from explorer.quiz.exercises import Task as Task
from explorer.quiz.exercises import at as at
from explorer.quiz.exercises import traced as traced
from explorer.quiz.fields import AnyOf as AnyOf
from explorer.quiz.fields import Choice as Choice
from explorer.quiz.fields import Choices as Choices
from explorer.quiz.fields import Line as Line
from explorer.quiz.fields import Lines as Lines
from explorer.quiz.fields import Names as Names
from explorer.quiz.fields import Number as Number
from explorer.quiz.fields import Text as Text
from explorer.quiz.leaders import Board as Board
from explorer.quiz.leaders import board as board
from explorer.quiz.outcome import Outcome as Outcome
from explorer.quiz.programs import Program as Program
from explorer.quiz.programs import program as program
from explorer.quiz.quiz import Quiz as Quiz
from explorer.quiz.quiz import Score as Score
