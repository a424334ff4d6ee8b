"""What a message must tell: names, numbers, and what to do. The words between them may change."""

from __future__ import annotations

import re


def _standing_alone(fact: str) -> str:
    """A pattern for a fact as a whole word or number: `buf10` does not tell `buf1`, nor `13`, `-3` and `3.5` the number `3`."""
    before = r"(?<!\w)" if re.match(r"\w", fact) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", fact) else ""
    if re.match(r"\d", fact):
        before += r"(?<!\d[.,])(?<!\W-)(?<!^-)"
    if re.search(r"\d\Z", fact):
        after += r"(?![.,]\d)"
    return before + re.escape(fact) + after


def says(*facts: str) -> str:
    """A pattern for `pytest.raises(match=…)` and `re.search`: every fact occurs, in any order."""
    assert facts, "a message without facts proves nothing"
    return r"(?s)\A" + "".join(f"(?=.*{_standing_alone(fact)})" for fact in facts)


def untold(text: str, *facts: str) -> list[str]:
    """Return the facts that a text does not tell, so that `assert not untold(text, "buf0", "h100")` prints those."""
    assert facts, "a text without facts proves nothing"
    return [fact for fact in facts if not re.search(_standing_alone(fact), text)]


def in_a_line(text: object, *facts: str) -> bool:
    """Whether one line of what is printed of `text` tells all facts."""
    return any(not untold(line, *facts) for line in str(text).splitlines())
