"""Warnings of code that explorer calls are ignored in one thread; the program's other warnings stay as they are."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from explorer.process.ignored_warnings import warnings_ignored_here


def give() -> None:
    warnings.warn("given", DeprecationWarning, stacklevel=1)


def test_warnings_that_are_errors_are_ignored_in_the_block() -> None:
    """Also those that Python's own compiler gives. Before and after the block they are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        with warnings_ignored_here():
            give()
            compile("1 is 1", "<source>", "exec")
        assert list(warnings.filters) == before
        with pytest.raises(DeprecationWarning):
            give()
        with pytest.raises(SyntaxError):
            compile("1 is 1", "<source>", "exec")


def test_another_thread_is_warned_meanwhile() -> None:
    """The filters of another thread hold for it as before."""
    with ThreadPoolExecutor(1) as other, warnings.catch_warnings():
        warnings.simplefilter("error")
        with warnings_ignored_here(), pytest.raises(DeprecationWarning):
            other.submit(give).result()


def test_what_was_given_once_is_not_given_again() -> None:
    """Python remembers the warnings that it gave, and forgets them where filters change."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("default")
        for _ in range(3):
            give()
            with warnings_ignored_here():
                give()
    assert len(given) == 1


def test_filters_that_are_copied_in_the_block_ignore_nothing_after_it() -> None:
    """`catch_warnings` puts a copy in the list's place, and the list back."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before, copied = list(warnings.filters), warnings.catch_warnings()
        with warnings_ignored_here():
            copied.__enter__()
        assert list(warnings.filters) == before
        with pytest.raises(DeprecationWarning):
            give()
        copied.__exit__(None, None, None)
        assert list(warnings.filters) == before
