"""replaced: an attribute is another for a while, and exactly what it was afterwards."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from explorer.hooks.patch import replaced


class Base:
    def method(self) -> str:
        return "base"

    @staticmethod
    def static() -> str:
        return "static"

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__


class Child(Base):
    pass


def test_the_attribute_is_replaced_inside_the_block_only() -> None:
    """Inside, what `make` made of the original; before and after, the original itself."""
    owner = SimpleNamespace(f=len)
    with replaced(owner, "f", lambda original: lambda x: original(x) + 1):
        assert owner.f("abc") == 4
    assert owner.f is len


def test_it_is_put_back_after_an_error() -> None:
    """An exception goes through, and the attribute is the original again."""
    owner = SimpleNamespace(f=len)
    with pytest.raises(ZeroDivisionError), replaced(owner, "f", lambda original: max):
        raise ZeroDivisionError
    assert owner.f is len


def test_an_inherited_attribute_is_inherited_again() -> None:
    """A method replaced on a subclass leaves nothing there: the base's is found again, also if it changes."""
    with replaced(Child, "method", lambda original: lambda self: f"child of {original(self)}"):
        assert Child().method() == "child of base" and Base().method() == "base"
    assert "method" not in vars(Child) and Child().method() == "base"


def test_static_and_class_methods_are_put_back_as_such() -> None:
    """What is put back is the descriptor, not the function that it gave."""
    before = dict(vars(Base))
    for name in ("static", "of_class", "method"):
        with replaced(Base, name, lambda original: lambda *args: "other"):
            pass
    assert dict(vars(Base)) == before
    assert Child.of_class() == "Child" and Base.static() == "static"


def test_nested_replacements_end_in_reverse() -> None:
    """The inner one sees the outer's replacement, and each leaves what it found."""
    owner = SimpleNamespace(n=1)
    with replaced(owner, "n", lambda n: n + 10):
        with replaced(owner, "n", lambda n: n + 100):
            assert owner.n == 111
        assert owner.n == 11
    assert owner.n == 1


def test_a_missing_attribute_is_an_error_and_changes_nothing() -> None:
    """Where torch has no such attribute the hook does not know this torch: AttributeError, nothing set."""
    owner = SimpleNamespace(f=len)
    with pytest.raises(AttributeError, match="gone"), replaced(owner, "gone", lambda original: original):
        raise AssertionError("the block is not entered")
    assert vars(owner) == {"f": len}


def test_an_error_in_make_changes_nothing() -> None:
    """Where the replacement cannot be made the original stays."""
    owner = SimpleNamespace(f=len)

    def make(original: object) -> object:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), replaced(owner, "f", make):
        raise AssertionError("the block is not entered")
    assert owner.f is len
