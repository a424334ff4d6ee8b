"""Finding: one thing that breaks a contract, as a value; ContractError: the findings of an assertion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from explorer.errors import ExplorerError

#: What begins the message of a contract that the trace cannot answer.
NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Finding:
    """One break of a contract: expected and actual, the user's lines, why, and where to look.

    `rule` is one of `rules.RULES`, or the name of the contract. `judged` is False where the trace does not say. `is_gain` marks a
    change for the better, which only stored expectations find.
    """

    rule: str
    expected: str
    actual: str
    lines: tuple[str, ...] = ()
    why: str = ""
    look: str = ""
    judged: bool = True
    is_gain: bool = False

    def __str__(self) -> str:
        return self.text()

    def text(self, before: str = "expected") -> str:
        """Write the finding; `before` names what was expected, which in a comparison was there before."""
        head = f"{self.rule}: {self.actual}" if self.judged else f"{self.rule}: {NOT_JUDGED}: {self.actual}"
        parts = ((before, self.expected), *(("at", line) for line in self.lines), ("why", self.why), ("look at", self.look))
        return "\n".join([head, *(f"  {name + ':':<9} {text}" for name, text in parts if text)])

    @staticmethod
    def columns() -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(field.name for field in fields(Finding))

    def plain(self) -> dict[str, Any]:
        """The finding as JSON; the keys are those of the class."""
        return {
            "rule": self.rule,
            "expected": self.expected,
            "actual": self.actual,
            "lines": list(self.lines),
            "why": self.why,
            "look": self.look,
            "judged": self.judged,
            "is_gain": self.is_gain,
        }


def not_judged(rule: str, expected: str, why: str, look: str = "") -> Finding:
    """Build the finding of a contract that the trace cannot answer; `why` says what the trace lacks, and `look` what to do."""
    return Finding(rule, expected, why, look=look, judged=False)


class ContractError(ExplorerError, AssertionError):
    """A contract on what was compiled does not hold; `findings` are what breaks it."""

    def __init__(self, findings: Iterable[Finding], head: str = "") -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join([*([head] if head else []), *map(str, self.findings)]))


def check(findings: Iterable[Finding]) -> None:
    """Raise ContractError if there is a finding."""
    __tracebackhide__ = True  # pytest shows the line of the test
    if every := tuple(findings):
        raise ContractError(every)


__all__ = ["NOT_JUDGED", "ContractError", "Finding", "check", "not_judged"]
