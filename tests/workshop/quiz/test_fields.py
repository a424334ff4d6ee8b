"""What an answer may be: what is read of what a learner gives, what is refused with which words, and what counts as equal."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from explorer.errors import InputError
from explorer.workshop.quiz.exercises import Question
from explorer.workshop.quiz.fields import AnyOf, Choice, Choices, Field, Line, Lines, Names, Number, Text, is_nothing
from explorer.workshop.quiz.workshop import EXERCISES
from tests.each import each
from tests.facts import untold

SPEEDS = Choice(options=("less than 2 times", "2–4 times"))
SIZES = Choices(options=("8", "10000", "10001"))
KERNEL = Lines(stage="kernel")


@pytest.mark.parametrize(
    ("field", "given", "read"),
    [
        (Number(), 3, 3),
        (Number(), "44e6", 44_000_000),
        (Number(), "44,000,000", 44_000_000),
        (Number(), 2.5, 2.5),
        (Number(), torch.tensor(3), 3),
        (SPEEDS, "b", "2–4 times"),
        (SPEEDS, "B)", "2–4 times"),
        (SPEEDS, "2-4 Times", "2–4 times"),
        (Choice(options=("yes", "no")), False, "no"),
        (SIZES, [10_001, "8"], ("8", "10001")),
        (SIZES, "c", ("10001",)),
        (SIZES, 8, ("8",)),
        (SIZES, [], ()),
        (SIZES, "none", ()),
        (Text(prefixes=("torch.",)), " `torch.Sin` ", "sin"),
        (Names(), "mul, add, mul", ("add", "mul")),
        (Names(counted=True), ["mul", "add", "mul"], ("add", "mul", "mul")),
        (KERNEL, "23-25, 27", (23, 24, 25, 27)),
        (KERNEL, range(23, 26), (23, 24, 25)),
        (KERNEL, SimpleNamespace(selected={"stage": "kernel", "line": 24}), (24,)),
        (KERNEL, [{"stage": "kernel", "line": 24}, 23], (23, 24)),
        (Line(), 3, (3,)),
    ],
)
def test_an_answer_is_read_in_each_way_it_may_be_given(field: Field, given: object, read: object) -> None:
    """Numbers as text, letters of options, ranges of lines, and what is selected in the view are what they mean."""
    assert field.read(given) == read


@pytest.mark.parametrize(
    ("field", "given", "facts"),
    [
        (Number(), "many", ("number", "42", "many")),
        (Number("bytes"), [3], ("number", "42", "bytes", "list")),
        (Number(), True, ("number", "bool")),
        (Number(), float("nan"), ("number", "nan", "finite")),
        pytest.param(Number(), 10**400, ("number", "42", "large"), id="too large"),
        (SPEEDS, "fast", ("a) less than 2 times", "b) 2–4 times", "fast")),
        (SPEEDS, 2.5, ("float",)),
        (SIZES, {"8": 1}, ("dict",)),
        (SIZES, ["9"], ("9",)),
        (Text(), 3, ("text", '"sin"', "int")),
        (Names(), 3, ("list", "names", "int")),
        (KERNEL, {}, ("selected", "view")),
        (KERNEL, {"stage": "ptx", "line": 3}, ("'kernel'", "'ptx'")),
        (KERNEL, "the first", ("the first",)),
        (Line(), [3, 4], ("2 lines",)),
    ],
)
def test_what_cannot_be_an_answer_is_refused_in_a_sentence(field: Field, given: object, facts: tuple[str, ...]) -> None:
    """The error says what is taken and what was given."""
    with pytest.raises(InputError) as raised:
        field.read(given)
    assert not untold(str(raised.value), *facts)


def test_a_number_is_right_within_its_tolerance() -> None:
    """1 % of the truth is near enough for one with that tolerance, and only the number itself without one."""
    assert Number(tolerance=0.01).matches(8_050_000, 8_000_000) and not Number(tolerance=0.01).matches(8_200_000, 8_000_000)
    assert Number().matches(3, 3) and not Number().matches(3.0001, 3)


def test_of_several_truths_each_is_right() -> None:
    """What lies between two measurements may be answered by either."""
    truth = AnyOf(("2–4 times", "less than 2 times"))
    assert SPEEDS.matches(SPEEDS.read("a"), truth) and SPEEDS.matches(SPEEDS.read("b"), truth)
    assert not SPEEDS.matches(SPEEDS.read("a"), AnyOf(("2–4 times",)))


def test_only_nothing_is_no_answer() -> None:
    """`...`, None and empty text are no answer; 0, False and an empty list are answers."""
    assert all(map(is_nothing, (..., None, "", "  "))) and not any(map(is_nothing, (0, False, [], "a", torch.ones(2))))


QUESTIONS = {item.id: item for item in EXERCISES if isinstance(item, Question)}


@each(QUESTIONS)
def test_every_option_of_the_workshop_can_be_given_as_its_text(name: str) -> None:
    """An option is read as itself, also one that ends in a parenthesis."""
    for field in QUESTIONS[name].fields:
        for option in field.options if isinstance(field, Choice) else ():
            assert field.read([option] if isinstance(field, Choices) else option) == (
                (option,) if isinstance(field, Choices) else option
            )
