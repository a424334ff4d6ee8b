"""quiz: exercises about what torch.compile does, checked against real traces.

    q = explorer.quiz.Quiz("M1")              # one part of the workshop; without arguments all of it
    q("M1.1")                            # the question, in a notebook with widgets to answer it
    q("M1.1").answer(2)                  # right, or not yet, with a hint; after a second miss the line that shows it
    q("M2.3").answer(my_function)        # a task: named checks on the trace of your function
    explorer.quiz.Quiz("P")("P.7")       # a puzzle: rewrite a program until its figure reaches par
    q.score()
    q.export("ada.json", name="Ada")     # explorer.quiz.Quiz("M2", resume="ada.json") goes on from it
    explorer.quiz.board("folder")        # the leader board of a class

`Question` and `Task` are values, for exercises of your own: `explorer.quiz.Quiz(Question(…), Task(…))`.
"""

from explorer.workshop.quiz import *  # noqa: F403
