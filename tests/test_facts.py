"""The helpers that look for facts in messages."""

from __future__ import annotations

import re

import pytest

from tests.facts import says, untold


def test_facts_are_found_in_any_order_and_over_lines():
    message = "no kernel 'buf10':\nthe trace has 3 kernels; call explorer.trace(f, x, target='h100')"
    assert re.search(says("3", "'buf10'", "target='h100'"), message)
    assert not untold(message, "explorer.trace", "buf10", "3")


@pytest.mark.parametrize("fact", ["buf1", "13", "kernel is", "h10", "2", "5", "4", "048"])
def test_a_fact_that_is_part_of_a_longer_word_or_number_is_not_told(fact):
    message = "buf10 took 3 of 130 µs on an h100, at 2.5 TB/s and -4 °C for 2,048 numbers"
    assert not re.search(says(fact), message)
    assert untold(message, fact, "3") == [fact]


def test_nothing_asked_is_no_proof():
    with pytest.raises(AssertionError):
        says()
    with pytest.raises(AssertionError):
        untold("text")
