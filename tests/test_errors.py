"""Errors: the tree drawn in the docstring is the tree of classes, and unknown names are answered with the nearest."""

from __future__ import annotations

import inspect
import re

import pytest

from explorer import errors
from explorer.errors import ExplorerError, InputError, unknown_name
from tests.facts import untold

_ROW = re.compile(r"^(?P<depth>[\s│]+)[├└]── (?P<name>\w+) .*?(?:\(also an? (?P<also>\w+)\))?$", re.MULTILINE)


def classes() -> dict[str, type]:
    return {n: c for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, Exception)}


def test_the_docstrings_tree_is_the_tree_of_classes() -> None:
    """Every error class is drawn under its parent, with the other class that it also is; nothing else is drawn."""
    drawn = {m["name"]: (len(m["depth"]), m["also"]) for m in _ROW.finditer(errors.__doc__ or "")}
    assert {"ExplorerError", *drawn} == set(classes())
    parents = {0: "ExplorerError"}  # by the depth of their row
    for name, (depth, also) in drawn.items():
        parent = parents[max(above for above in parents if above < depth)]
        bases = [base.__name__ for base in classes()[name].__bases__]
        assert bases == [parent, *([also] if also else [])]
        parents = {above: row for above, row in parents.items() if above < depth} | {depth: name}
    assert ExplorerError.__bases__ == (Exception,)


@pytest.mark.parametrize("name", sorted(classes()))
def test_every_error_is_a_public_name(name: str) -> None:
    """Whoever catches an error of the explorer can name it as explorer.errors.NAME; the root is explorer's own too."""
    import explorer

    assert getattr(explorer.errors, name) is classes()[name] and explorer.ExplorerError is ExplorerError


def quoted(error: InputError) -> list[str]:
    """The names in quotes of a message, in its order."""
    return re.findall(r"'([^']*)'", str(error))


def test_many_names_of_which_none_is_near_are_listed() -> None:
    """Nobody is told that the nearest are none: up to eighty names are listed, and the others counted."""
    all_49 = unknown_name("table", "zzz", [f"v{n}" for n in range(49)])
    assert not untold(str(all_49), *(f"'v{n}'" for n in range(49)))
    some = str(unknown_name("table", "zzz", [f"v{n}" for n in range(1000)]))
    assert not untold(some, "'v0'", "920") and some.count("'v") == 80


def test_an_unknown_name_is_answered_with_the_nearest_and_all() -> None:
    """A misspelled name is answered with the name that was meant, and with the others in order."""
    error = unknown_name("mode", "max-autotun", ["reduce-overhead", "max-autotune", "default"])
    assert isinstance(error, InputError) and isinstance(error, ValueError)
    assert not untold(str(error), "mode")
    assert quoted(error) == ["max-autotun", "max-autotune", "default", "max-autotune", "reduce-overhead"]


def test_what_was_typed_is_never_offered() -> None:
    """A name that is known, but not where it was asked for, is neither what was meant nor valid."""
    few = unknown_name("value", "%5", ["%5", "%51", "%6"])
    assert quoted(few) == ["%5", "%51", "%6", "%51", "%6"] and not untold(str(few), "value")
    many = unknown_name("value", "v5", [f"v{n}" for n in range(100)])
    assert quoted(many).count("v5") == 1 and not untold(str(many), "99")
    none = unknown_name("value", "%5", ["%5"])
    assert quoted(none) == ["%5"] and not untold(str(none), "value", "none")


def test_a_name_like_no_other_gets_no_guess() -> None:
    """Where nothing is near the message guesses nothing and lists what there is."""
    error = unknown_name("mode", "zzz", ["default"])
    assert quoted(error) == ["zzz", "default"] and not untold(str(error), "mode")


def test_a_value_that_is_no_string_is_named_as_it_is() -> None:
    """The message shows what was given, whatever it was."""
    error = unknown_name("target", 3, ["cpu"])
    assert quoted(error) == ["cpu"] and not untold(str(error), "target", "3")


def test_of_many_names_only_the_nearest_are_listed() -> None:
    """With more names than fit a message, the nearest five are named and the rest are counted."""
    error = unknown_name("option", "option_7x", [f"option_{n}" for n in range(100)])
    assert not untold(str(error), "'option_7'", "100")
    assert str(error).count("'option_") == 5 + 1
