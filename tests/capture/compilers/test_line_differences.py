"""Differences of texts: right for any two texts, difflib's own for small ones, made in bounded time for large ones."""

from __future__ import annotations

import difflib
import random
import re
import subprocess
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from explorer.capture.compilers.line_differences import STEPS, LineMatcher, anchors_of, most_steps, unified


def random_texts(seed: int) -> tuple[list[str], list[str]]:
    """Two texts with lines in common, some of them repeated, whose ends differ so that nothing is set aside."""
    chance = random.Random(seed)
    old = [chance.choice(["}", "{", f"line {chance.randrange(60)}"]) for _ in range(chance.randrange(80))]
    new = list(old)
    for _ in range(chance.randrange(1, 30)):
        at, drop = chance.randrange(len(new) + 1), chance.randrange(4)
        new[at : at + drop] = [f"line {chance.randrange(80)}" for _ in range(chance.randrange(4))]
    return ["first", *old, "last"], ["begin", *new, "end"]


def applied(old: Sequence[str], difference: Sequence[str]) -> list[str]:
    """Make the new text of the old one and of a difference in the unified format."""
    result: list[str] = []
    at = 0
    for line in difference[2:]:
        if head := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            first = int(head[1]) - (head[2] != "0")
            result += old[at:first]
            at = first
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            at += 1
            result += [line[1:]] if line.startswith(" ") else []
    return result + list(old[at:])


@pytest.mark.parametrize("around", [0, 1, 3])
def test_a_small_difference_is_that_of_difflib(around: int) -> None:
    """With steps enough, and no equal ends to set aside, both say the same, to the letter."""
    for seed in range(100):
        old, new = random_texts(seed)
        theirs = difflib.unified_diff(old, new, "before", "after", lineterm="", n=around)
        assert list(unified(old, new, "before", "after", around)) == list(theirs)


@pytest.mark.parametrize("steps", [0, 300, 20_000, 20_000_000])
def test_a_difference_is_right_however_few_steps_it_may_take(steps: int) -> None:
    """Each line of both texts is in it once and in order, and equal lines count as equal; git, too, applies it."""
    for seed in range(100):
        old, new = random_texts(seed)
        old, new = (["same", *old, "same"], ["same", *new, "same"]) if seed % 2 else (old, new)
        matcher = LineMatcher(old, new, steps)
        blocks = matcher.get_matching_blocks()
        assert all(old[a : a + size] == new[b : b + size] for a, b, size in blocks)
        assert all(one.a + one.size <= other.a and one.b + one.size <= other.b for one, other in pairwise(blocks))
        assert blocks[-1] == (len(old), len(new), 0) and all(size for *_, size in blocks[:-1])
        parts = (old[i:i_end] if tag == "equal" else new[j:j_end] for tag, i, i_end, j, j_end in matcher.get_opcodes())
        assert [line for part in parts for line in part] == new


@pytest.mark.compile
def test_git_applies_what_is_written(tmp_path: Path) -> None:
    """The format is what tools read: git makes the new text of the old one."""
    file = tmp_path / "text"
    for seed in range(5):
        old, new = random_texts(seed)
        file.write_text("".join(f"{line}\n" for line in old), encoding="utf-8")
        patch = "".join(f"{line}\n" for line in unified(old, new, "a/text", "b/text"))
        subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
        assert file.read_text(encoding="utf-8").splitlines() == new


def test_equal_and_empty_texts() -> None:
    """Equal texts have no difference; of an empty one all lines come or go."""
    assert list(unified(["a"], ["a"], "x", "y")) == list(unified([], [], "x", "y")) == []
    assert list(unified([], ["a"], "x", "y")) == ["--- x", "+++ y", "@@ -0,0 +1 @@", "+a"]
    assert list(unified(["a", "b"], [], "x", "y")) == ["--- x", "+++ y", "@@ -1,2 +0,0 @@", "-a", "-b"]


def module(lines: int, operator: str) -> list[str]:
    """Functions as XLA prints them, each of eight lines; heads recur twice or three times, closing braces always."""

    def line(n: int) -> str:
        recurring = {0: f"fused_{n % 500} {{", 1: "", 7: "}"}
        return recurring.get(n % 8, f"  %v.{n} = {operator}(%v.{n % 60})")

    return [line(n) for n in range(lines)]


def test_a_pass_that_changes_every_instruction_of_a_large_module_takes_bounded_time() -> None:
    """difflib alone takes 6 s for it; what recurs equally often in both texts is aligned all the same."""
    old, new = module(11_200, "add"), module(11_200, "subtract")
    assert most_steps(old, new) > STEPS
    began = time.process_time()
    difference = list(unified(old, new, "before", "after"))
    assert time.process_time() - began < 3
    assert applied(old, difference) == new
    assert sum(line.startswith("-") for line in difference[2:]) == 11_200 * 5 // 8


def test_what_no_steps_are_left_for_is_replaced_as_a_whole() -> None:
    """The old lines stand before the new ones, also where some are equal."""
    old, new = ["{", "}"] * 30 + ["old"], ["}", "{"] * 30 + ["new"]
    assert LineMatcher(old, new, 100).get_opcodes() == [("replace", 0, len(old), 0, len(new))]
    assert len(LineMatcher(old, new).get_opcodes()) > 1


def test_lines_that_both_have_equally_often_divide_the_texts() -> None:
    """The most of them that stand in the same order divide the texts; lines that each text has once come first."""
    assert anchors_of(["a", "x", "b", "x", "c", "d"], ["d", "a", "b", "x", "c", "x"]) == [(0, 1), (2, 2), (4, 4)]
    assert anchors_of(["a", "x", "x"], ["x", "x", "b"]) == [(1, 0), (2, 1)]
    assert anchors_of(["a", "x"], ["x", "b", "x"]) == []
    for seed in range(50):
        old, new = random_texts(seed)
        places = anchors_of(old, new)
        assert all(old[i] == new[j] and old.count(old[i]) == new.count(new[j]) for i, j in places)
        assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(places))
