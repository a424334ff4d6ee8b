"""The workshop: all exercises, part by part, in the order in which they are taught."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.workshop.quiz import kernel_puzzles, m0, m1, m2, m3, m4, m5, m6, m7, m8, puzzles
from explorer.workshop.quiz.exercises import Item

#: The parts, with what each is about.
PARTS: Mapping[str, str] = {
    "M0": "why compile at all",
    "M1": "one function through every stage",
    "M2": "Dynamo: breaks, recompiles, dynamic shapes, stances",
    "M3": "AOTAutograd, decompositions, patterns",
    "M4": "lowering and fusion",
    "M5": "Triton to SASS",
    "M6": "other back ends, and the final",
    "M7": "run, time and edit",
    "M8": "a compiler in 200 lines",
    "P": "puzzles: less code for the same result",
}
EXERCISES: tuple[Item, ...] = (
    *m0.EXERCISES,
    *m1.EXERCISES,
    *m2.EXERCISES,
    *m3.EXERCISES,
    *m4.EXERCISES,
    *m5.EXERCISES,
    *m6.EXERCISES,
    *m7.EXERCISES,
    *m8.EXERCISES,
    *puzzles.EXERCISES,
    *kernel_puzzles.EXERCISES,
)
#: The exercise whose figure the leader board shows.
FINAL = "M6.6"
