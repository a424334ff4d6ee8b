"""What an answer may be: numbers, choices, words, names and lines; each reads what a learner gives and compares it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from explorer.errors import InputError

#: A range of lines in text, such as "7-8".
_RANGE = re.compile(r"\s*(\d+)\s*(?:[-–:]\s*(\d+)\s*)?$")
#: The most lines that a range may name: more is a slip.
MAX_LINES = 10_000


class AnyOf(tuple[Any, ...]):
    """A truth with several right values, for a measured figure that lies between two."""


def is_nothing(value: object) -> bool:
    """Whether a value stands for an answer that was not given yet."""
    return value is None or value is ... or (isinstance(value, str) and not value.strip())


def article(value: object) -> str:
    """The type of a value in words, such as "a list"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


@dataclass(frozen=True)
class Field:
    """One value of an answer. `label` names it where an answer has several."""

    label: str = ""

    #: What it takes, in a sentence: "takes a number, such as 42".
    takes = "a value"

    def read(self, given: Any) -> Any:
        """The value that was meant; InputError, with what is taken, for what cannot be."""
        raise NotImplementedError

    def matches(self, answer: Any, truth: Any) -> bool:
        """Whether an answer that was read is the truth."""
        return any(self._same(answer, each) for each in (truth if isinstance(truth, AnyOf) else (truth,)))

    def _same(self, answer: Any, truth: Any) -> bool:
        return bool(answer == self.read(truth))

    def shown(self, answer: Any) -> str:
        """An answer that was read, in words."""
        return str(answer)

    def _refused(self, given: object) -> InputError:
        name = f" for “{self.label}”" if self.label else ""
        return InputError(f"it takes {self.takes}{name}, not {article(given)}")


@dataclass(frozen=True)
class Number(Field):
    """A number, equal within `tolerance`, which is a share of the truth."""

    tolerance: float = 0.0
    takes = "a number, such as 42"

    def read(self, given: Any) -> float:
        """A number, or text that is one; InputError for any other value."""
        if isinstance(given, str):
            try:
                given = float(given.replace(",", "").replace("_", "").replace(" ", ""))
            except ValueError:
                raise InputError(f"it takes {self.takes}, not “{given[:40]}”") from None
        if hasattr(given, "item") and not isinstance(given, Real) and getattr(given, "numel", lambda: 0)() == 1:
            given = given.item()
        if isinstance(given, bool) or not isinstance(given, Real):
            raise self._refused(given)
        try:
            value = float(given)
        except OverflowError:
            raise InputError(f"it takes {self.takes}, and this one is too large") from None
        if not math.isfinite(value):
            raise InputError(f"it takes {self.takes}, and {value} is not finite")
        return int(value) if value == int(value) else value

    def _same(self, answer: float, truth: Any) -> bool:
        return abs(answer - float(truth)) <= self.tolerance * abs(float(truth))


def _plain(text: str) -> str:
    """Text without case, quotes and surplus spaces, with one kind of dash."""
    text = re.sub(r"[‐-―−]", "-", text.casefold())
    return " ".join(re.sub(r"[`'\"“”‘’]", "", text).split()).strip(" .,;:!?")


@dataclass(frozen=True)
class Choice(Field):
    """One of several options, by its letter or its text; `True` and `False` stand for "yes" and "no"."""

    options: tuple[str, ...] = ()

    @property
    def takes(self) -> str:  # type: ignore[override]
        """The letters and what they stand for."""
        return f"one of {self.lettered}"

    @property
    def lettered(self) -> str:
        """The options, each with its letter."""
        return ", ".join(f"{letter}) {option}" for letter, option in zip("abcdefghij", self.options, strict=False))

    def read(self, given: Any) -> str:
        """The option meant; InputError, with the options, for none."""
        if isinstance(given, bool):
            given = "yes" if given else "no"
        if not isinstance(given, (str, int)):
            raise self._refused(given)
        word = _plain(str(given))
        letter = word.removesuffix(")")
        letters = dict(zip("abcdefghij", self.options, strict=False))
        named = [option for option in self.options if _plain(option) == word]
        if not named and letter not in letters:
            raise InputError(f"it takes {self.takes}, not “{str(given)[:40]}”")
        return named[0] if named else letters[letter]


@dataclass(frozen=True)
class Choices(Choice):
    """Several of the options, or none: a list, or text with commas. The empty list says that none is right."""

    @property
    def takes(self) -> str:  # type: ignore[override]
        """The letters and what they stand for."""
        return f"a list with some or none of {self.lettered}"

    def read(self, given: Any) -> Any:
        """The options meant, in their order; InputError for what is none of them."""
        if isinstance(given, str):
            given = [] if _plain(given) in ("none", "[]") else [each for each in given.split(",") if each.strip()]
        if isinstance(given, int) and not isinstance(given, bool):
            given = [given]
        if isinstance(given, (bool, Mapping)) or not isinstance(given, Iterable):
            raise self._refused(given)
        named = {super(Choices, self).read(each) for each in given}
        return tuple(option for option in self.options if option in named)

    def shown(self, answer: Any) -> str:
        """The options chosen."""
        return ", ".join(answer) or "none of them"


@dataclass(frozen=True)
class Text(Field):
    """Free text, compared without case, quotes, spaces and a prefix such as "torch."; the truth may be `AnyOf` texts."""

    prefixes: tuple[str, ...] = ()
    takes = 'text, such as "sin"'

    def read(self, given: Any) -> str:
        """The text without what does not count; InputError for what is none."""
        if not isinstance(given, str):
            raise self._refused(given)
        text = _plain(given)
        for prefix in self.prefixes:
            text = text.removeprefix(prefix)
        return text


@dataclass(frozen=True)
class Names(Text):
    """Several names: a list, or text with commas. If they are `counted`, each once per occurrence; the order is free."""

    counted: bool = False
    takes = 'a list of names, such as ["sin", "mul"]'

    def read(self, given: Any) -> Any:
        """The names, sorted; InputError for what is no list of texts."""
        if isinstance(given, str):
            given = given.split(",")
        if isinstance(given, Mapping) or not isinstance(given, Iterable):
            raise self._refused(given)
        names = [super(Names, self).read(each) for each in given]
        return tuple(sorted(names if self.counted else set(names)))

    def shown(self, answer: Any) -> str:
        """The names, each with its number if it is there more than once."""
        return ", ".join(f"{name} × {n}" if n > 1 else name for name, n in Counter(answer).items()) or "none"


@dataclass(frozen=True)
class Lines(Field):
    """Lines of one stage's text: numbers, a range, "7-8", or what is selected in the view, `w.selected`."""

    stage: str = ""
    takes = 'line numbers, such as [7, 8], range(7, 9) or "7-8", or w.selected, the line clicked in w = explorer.show(t)'

    def read(self, given: Any) -> Any:
        """The numbers of the lines, sorted; InputError if it has none, or is selected in another stage's text."""
        return tuple(sorted(set(self._numbers(given))))

    def _numbers(self, given: Any) -> Sequence[int]:
        selected = given.selected if hasattr(given, "selected") else given
        if isinstance(selected, Mapping):
            return [self._selected(selected)]
        if isinstance(selected, str):
            return [n for part in selected.split(",") for n in self._range(part)]
        if isinstance(selected, Iterable):
            return [n for each in selected for n in self._numbers(each)]
        if isinstance(selected, bool) or not isinstance(selected, int):
            raise self._refused(given)
        return [selected]

    def _range(self, text: str) -> Sequence[int]:
        match = _RANGE.match(text)
        if match is None:
            raise InputError(f"it takes {self.takes}, not “{text[:40]}”")
        first, last = int(match[1][:9]), int((match[2] or match[1])[:9])
        return range(first, min(last, first + MAX_LINES) + 1)

    def _selected(self, selected: Mapping[str, Any]) -> int:
        """The line of a selection; InputError for none, and for another stage's."""
        if "line" not in selected:
            raise InputError("nothing is selected in the view: click the line first, then run the cell again")
        if self.stage and selected.get("stage", self.stage) != self.stage:
            raise InputError(f"the line is in the stage {self.stage!r}, and selected is one of {selected['stage']!r}")
        return int(selected["line"])

    def shown(self, answer: Any) -> str:
        """The numbers, with consecutive ones as a range."""
        parts: list[list[int]] = []
        for number in answer:
            if parts and number == parts[-1][-1] + 1:
                parts[-1].append(number)
            else:
                parts.append([number])
        return ", ".join(f"{part[0]}–{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts) or "no line"


@dataclass(frozen=True)
class Line(Lines):
    """One line of one stage's text: its number, or what is selected in the view. Where several are right any of them is."""

    takes = "one line number, such as 7, or w.selected, the line clicked in w = explorer.show(t)"

    def read(self, given: Any) -> Any:
        """The number in a tuple; InputError for several."""
        numbers = super().read(given)
        if len(numbers) != 1:
            raise InputError(f"it takes {self.takes}, not {len(numbers)} lines")
        return numbers
