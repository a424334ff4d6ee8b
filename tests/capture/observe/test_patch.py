"""replaced: an attribute is another for a while, and exactly what it was afterwards."""

from __future__ import annotations

import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from explorer.capture.observe import patch
from explorer.capture.observe.patch import (
    Guard,
    added,
    added_in_plain_sight,
    beside,
    followed,
    guarded,
    guarding,
    observed,
    preceded,
    replaced,
    replaced_pure,
    shielded,
)
from explorer.errors import InputError


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


# The guard --------------------------------------------------------------------------------------------------------------


def elsewhere(action: Callable[[], Any]) -> Any:
    """What an action gives in another thread."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(action()))
    thread.start()
    thread.join()
    return results[0]


def fails(*args: object) -> Any:
    raise RuntimeError("ours")


def doubled(x: int) -> int:
    return 2 * x


def test_where_ours_fails_before_the_original_the_original_is_called() -> None:
    """The caller gets the original's result, and the loss is written down once."""
    owner, guard = SimpleNamespace(f=doubled), Guard(errors={}, stage="stage")
    with guarding(guard), replaced(owner, "f", lambda original: fails):
        assert [owner.f(4), owner.f(5)] == [8, 10]
    assert [(f.stage, f.step, f.message) for f in guard.failures()] == [("stage", "SimpleNamespace.f", "RuntimeError: ours")]


def test_where_ours_fails_after_the_original_it_is_not_called_again() -> None:
    """What the original changed is changed once, and its result is what the caller gets."""
    calls: list[int] = []
    owner, guard = SimpleNamespace(f=lambda x: calls.append(x) or len(calls)), Guard(errors={})

    def make(original: Any) -> Any:
        return lambda x: fails(original(x))

    with guarding(guard), replaced(owner, "f", make):
        assert owner.f(7) == 1
    assert calls == [7] and len(guard.failures()) == 1


def test_an_error_of_the_original_goes_through_without_frames_of_ours() -> None:
    """It is no loss of explorer's, is raised once, and its traceback is what it would be without explorer."""
    owner, guard = SimpleNamespace(f=lambda x: 1 // x), Guard(errors={})

    def make(original: Any) -> Any:
        return lambda x: original(x)

    with guarding(guard), replaced(owner, "f", make), replaced(owner, "f", make):
        with pytest.raises(ZeroDivisionError) as caught:
            owner.f(0)
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert guard.failures() == []


def test_what_is_raised_on_purpose_goes_through() -> None:
    """The user's own mistake is no failure of explorer's."""
    owner = SimpleNamespace(f=doubled)

    def refuse(x: int) -> int:
        raise InputError("give another")

    with guarding(Guard(errors={})), replaced(owner, "f", lambda original: refuse), pytest.raises(InputError):
        owner.f(1)


def test_an_essential_answer_that_fails_is_raised_and_written_down() -> None:
    """Where torch's own answer would be wrong it is not given."""
    owner, guard = SimpleNamespace(f=doubled), Guard(errors={}, essential=True)
    with guarding(guard), replaced(owner, "f", lambda original: fails), pytest.raises(RuntimeError, match="ours"):
        owner.f(1)
    assert guard.failed and len(guard.failures()) == 1


def test_what_follows_a_call_has_its_result_and_arguments() -> None:
    """It runs after each call that returned, in the guard's thread; the result stays the function's own."""
    seen: list[Any] = []
    owner, guard = SimpleNamespace(f=lambda x, by=2: x // by), Guard(lambda: False, {}, here=True)
    with guarding(guard), followed(owner, "f", lambda result, *args, **kwargs: seen.append((result, args, kwargs))):
        with replaced(owner, "f", lambda original: lambda x, by=2: original(x, by=by) + 100):
            assert owner.f(9, by=3) == 103
        assert elsewhere(lambda: owner.f(8)) == 4
        with pytest.raises(ZeroDivisionError) as caught:
            owner.f(1, by=0)
    assert seen == [(3, (9,), {"by": 3})]
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert owner.f(8) == 4 and len(seen) == 1


def test_where_what_follows_a_call_fails_the_result_is_the_functions() -> None:
    """The loss is written down once."""
    owner, guard = SimpleNamespace(f=doubled), Guard(errors={}, stage="stage")
    with guarding(guard), followed(owner, "f", fails):
        assert [owner.f(4), owner.f(5)] == [8, 10]
    assert [(f.stage, f.step, f.message) for f in guard.failures()] == [("stage", "SimpleNamespace.f", "RuntimeError: ours")]


def test_what_precedes_a_call_has_its_arguments() -> None:
    """It runs before each call, in the guard's thread alone, also where the call then fails; the result is the function's own."""
    seen: list[Any] = []
    owner, guard = SimpleNamespace(f=lambda x, by=2: seen.append("called") or x // by), Guard(lambda: False, {}, here=True)
    with guarding(guard), preceded(owner, "f", lambda *args, **kwargs: seen.append((args, kwargs))):
        with replaced(owner, "f", lambda original: lambda x, by=2: original(x, by=by) + 100):
            assert owner.f(9, by=3) == 103
        assert elsewhere(lambda: owner.f(8)) == 4
        with pytest.raises(ZeroDivisionError) as caught:
            owner.f(1, by=0)
    assert seen == [((9,), {"by": 3}), "called", "called", ((1,), {"by": 0}), "called"]
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert owner.f(8) == 4 and seen[5:] == ["called"]


def test_where_what_precedes_a_call_fails_the_function_is_called() -> None:
    """The loss is written down once; an answer that torch needs is raised instead."""
    owner, guard = SimpleNamespace(f=doubled), Guard(errors={}, stage="stage")
    with guarding(guard), preceded(owner, "f", fails):
        assert [owner.f(4), owner.f(5)] == [8, 10]
        with replaced(owner, "f", lambda original: original):
            assert owner.f(6) == 12
    assert [(f.stage, f.step, f.message) for f in guard.failures()] == [("stage", "SimpleNamespace.f", "RuntimeError: ours")]
    with guarding(Guard(errors={}, essential=True)), preceded(owner, "f", fails), pytest.raises(RuntimeError, match="ours"):
        owner.f(4)


def test_a_pure_replacement_that_fails_is_named_also_where_the_original_fails_otherwise() -> None:
    """The caller gets the original's error; the replacement's own is no loss where it is the same."""
    for replacement, lost in ((fails, ["RuntimeError: ours"]), (lambda x: 1 // x, [])):
        owner, guard = SimpleNamespace(f=lambda x: 1 // x), Guard(errors={})
        with guarding(guard), replaced_pure(owner, "f", lambda _, ours=replacement: ours), pytest.raises(ZeroDivisionError):
            owner.f(0)
        assert [failure.message for failure in guard.failures()] == lost


@pytest.mark.parametrize("essential", [False, True])
@pytest.mark.parametrize("replacing", [replaced, replaced_pure])
def test_a_guard_that_fails_lets_the_original_answer(
    replacing: Callable[..., Any], essential: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking whom a replacement is for is explorer's part too, also where its answer is essential to those."""
    owner, guard = SimpleNamespace(f=doubled), Guard(lambda: False, {}, essential=essential)
    monkeypatch.setattr(Guard, "acts", fails)
    with guarding(guard), replacing(owner, "f", lambda original: lambda x: 0):
        assert owner.f(3) == 6
    assert len(guard.failures()) == 1


def test_another_thread_sees_the_original() -> None:
    """Without a wider guard a replacement is for the thread that put it on."""
    owner = SimpleNamespace(f=doubled)
    with replaced(owner, "f", lambda original: lambda x: -original(x)):
        assert (owner.f(2), elsewhere(lambda: owner.f(2))) == (-4, 4)
        with guarding(Guard(lambda: True)), replaced(owner, "f", lambda original: lambda x: original(x) + 1):
            assert (owner.f(2), elsewhere(lambda: owner.f(2))) == (-3, 5)


def test_replacements_of_two_threads_need_not_end_in_reverse() -> None:
    """Each takes off its own, and the last puts the original back."""
    owner = SimpleNamespace(f=doubled)
    with guarding(Guard(lambda: True)):
        first, second = ExitStack(), ExitStack()
        first.enter_context(replaced(owner, "f", lambda original: lambda x: original(x) + 1))
        second.enter_context(replaced(owner, "f", lambda original: lambda x: original(x) * 10))
    assert owner.f(1) == 30
    first.close()
    assert owner.f(1) == 20
    second.close()
    assert owner.f is doubled


def test_a_call_inside_a_call_of_the_same_replacement() -> None:
    """Each call has its own original's result to fall back to."""
    owner, guard = SimpleNamespace(f=lambda n: 1 if n == 0 else n * owner.f(n - 1)), Guard(errors={})
    with guarding(guard), replaced(owner, "f", lambda original: lambda n: fails(original(n))):
        assert owner.f(4) == 24


def test_a_context_beside_another_may_fail() -> None:
    """What is entered beside the original's own context fails alone, before or after it."""
    seen: list[str] = []

    @contextmanager
    def original(name: str) -> Iterator[str]:
        yield name

    @contextmanager
    def extra(name: str) -> Iterator[None]:
        seen.append(name)
        yield
        raise RuntimeError("leaving")

    owner, guard = SimpleNamespace(f=original), Guard(errors={})
    with guarding(guard):
        for context in (extra, fails):
            for inside in (False, True):
                with replaced(owner, "f", beside(context, "extra", inside=inside)), owner.f("a") as value:
                    assert value == "a"
    assert seen == ["a", "a"] and {f.message for f in guard.failures()} == {"RuntimeError: leaving", "RuntimeError: ours"}


def test_a_shield_lets_the_block_run_and_its_errors_through() -> None:
    """Setting up or taking down may fail; the block's own error is the block's."""
    guard = Guard(errors={})
    with pytest.raises(ZeroDivisionError), shielded(fails, guard, "set up") as value:
        assert value is None
        raise ZeroDivisionError
    assert [f.step for f in guard.failures()] == ["set up"]


def test_a_guarded_function_falls_back() -> None:
    """What is handed to torch is guarded as what stands in torch's place."""
    with guarding(Guard(errors={})):
        assert guarded(doubled, lambda original: fails, "step")(4) == 8


# Values that each thread reads for itself -------------------------------------------------------------------------------


def test_an_added_attribute_of_a_class_is_the_threads_own() -> None:
    """Another thread finds the very object that was there, or none; methods and properties bind as before."""

    class Kind:
        number = 1

        def method(self) -> str:
            return "theirs"

    before = dict(vars(Kind))
    with ExitStack() as stack:
        for name, value in {"number": 2, "method": lambda self: "ours", "T": property(lambda self: "new")}.items():
            stack.enter_context(added(Kind, name, value))
        kind: Any = Kind()
        assert (kind.number, kind.method(), kind.T) == (2, "ours", "new")
        assert elsewhere(lambda: (kind.number, kind.method(), hasattr(kind, "T"))) == (1, "theirs", False)
        assert elsewhere(lambda: Kind.method) is before["method"]
    assert dict(vars(Kind)) == before


def test_an_added_attribute_of_a_module_is_the_threads_own() -> None:
    """Also where the module's own functions read it, and where it is imported by name; the module's class is its own again."""
    module = types.ModuleType("sample")
    exec("value = 1\ndef inner(): return 'theirs'\ndef outer(): return inner()", vars(module))
    before = dict(vars(module))
    sys.modules["sample"] = module
    try:
        with added(module, "inner", lambda: "ours"), added(module, "value", 2), added(module, "new", 3):
            namespace: dict[str, Any] = {}
            exec("from sample import value, new", namespace)
            assert (namespace["value"], namespace["new"], module.outer()) == (2, 3, "ours")
            assert elsewhere(lambda: (module.value, hasattr(module, "new"), module.outer())) == (1, False, "theirs")
            assert elsewhere(lambda: module.inner) is before["inner"]
    finally:
        del sys.modules["sample"]
    assert type(module) is types.ModuleType and dict(vars(module)) == before


def test_a_module_that_kernels_name_stays_a_plain_module() -> None:
    """What stands in it for a function or class is for another thread equal to it, has its attributes and its class."""
    module: Any = types.ModuleType("triton.sample")

    class Kind:
        mark = "theirs"

    class CallableKind(Kind):
        def __call__(self) -> str:
            return "called"

    module.function, module.kind, module.instance = doubled, Kind, CallableKind()
    before = dict(vars(module))
    with ExitStack() as stack:
        for name in ("function", "kind", "instance"):
            stack.enter_context(added(module, name, lambda x: -x))
        assert type(module) is types.ModuleType and module.function(1) == module.kind(1) == -1
        found = elsewhere(lambda: (module.function(1), module.function == doubled, {doubled: 5}.get(module.function)))
        assert found == (2, True, 5)
        assert elsewhere(lambda: (module.kind.mark, isinstance(module.instance, Kind), isinstance(module.kind(), Kind))) == (
            "theirs",
            True,
            True,
        )
    assert dict(vars(module)) == before


@pytest.mark.parametrize("there", [True, False])
def test_what_stands_in_plain_sight_may_be_taken_away_in_any_order(there: bool) -> None:
    """Two threads that put something in one place need not end in reverse; afterwards what was there is there."""
    owner = SimpleNamespace(**({"name": "own"} if there else {}))
    first, second = added_in_plain_sight(owner, "name", 1), added_in_plain_sight(owner, "name", 2)
    first.__enter__()
    second.__enter__()
    assert owner.name == 2
    first.__exit__(None, None, None)
    assert owner.name == 2
    second.__exit__(None, None, None)
    assert vars(owner) == ({"name": "own"} if there else {})


# Errors of this file's own ----------------------------------------------------------------------------------------------


def functions_of_patch() -> list[tuple[Any, str]]:
    """Each function of the file: its module or class, and its name."""
    owners = [patch, *(kind for kind in vars(patch).values() if isinstance(kind, type) and kind.__module__ == patch.__name__)]
    return [
        (owner, name)
        for owner in owners
        for name, function in vars(owner).items()
        if isinstance(function, types.FunctionType) and function.__module__ == patch.__name__
    ]


class Failing:
    """Makes a function of the file fail at one of its calls."""

    def __init__(self, function: Callable[..., Any], number: int, error: type[BaseException]) -> None:
        self.function, self.number, self.error = function, number, error
        self.reached = False

    def in_place(self) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.number -= 1
            if self.number == 0:
                self.reached = True
                raise self.error("ours")
            return self.function(*args, **kwargs)

        return called


def replaced_in_each_way() -> tuple[list[Any], Callable[[], None], list[Any]]:
    """Owners with attributes of each kind; what replaces and observes them, and puts everything back; and what a call gave."""

    class Kind:
        number = 1

        def method(self) -> str:
            return "theirs"

    module, for_kernels = types.ModuleType("sample"), types.ModuleType("triton.sample")
    module.inner = for_kernels.inner = doubled  # type: ignore[attr-defined]
    owner = SimpleNamespace(f=doubled, value=1)

    given: list[Any] = []

    def observer(x: int) -> Iterator[None]:
        yield

    def run() -> None:
        with ExitStack() as stack:
            stack.enter_context(guarding(Guard(lambda: True, {})))
            for replacing in (replaced, replaced_pure):
                stack.enter_context(replacing(owner, "f", lambda original: lambda x: original(x)))
            for listening in (followed, preceded):
                stack.enter_context(listening(owner, "f", lambda *args: None))
            for _ in range(2):
                stack.enter_context(observed(owner, "f", observer))
            stack.enter_context(replaced(owner, "value", lambda value: value + 1))
            stack.enter_context(added_in_plain_sight(owner, "new", 1))
            for place, name in ((Kind, "number"), (Kind, "method"), (module, "inner"), (module, "new"), (for_kernels, "inner")):
                stack.enter_context(added(place, name, doubled))
            for argument in (4, None):
                try:
                    given.append(owner.f(argument))
                except Exception as error:  # noqa: BLE001 whatever the caller gets
                    given.append(type(error))

    return [owner, Kind, module, for_kernels], run, given


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt])
def test_whichever_function_of_the_file_fails_nothing_stays_replaced(error: type[BaseException]) -> None:
    """At each call of each function, on the way in, in a call and on the way out: afterwards every owner is what it was.

    A function that is replaced gives what it gives, or raises what it raises.
    """
    tried = 0
    for place, name in functions_of_patch():
        for number in range(1, 100):
            owners, run, given = replaced_in_each_way()
            before = [(type(one), dict(vars(one))) for one in owners]
            failing = Failing(vars(place)[name], number, error)
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(place, name, failing.in_place())
                with suppress(error):
                    run()
            assert [(type(one), dict(vars(one))) for one in owners] == before, (place, name, number)
            assert given in ([8, TypeError], []) or error is KeyboardInterrupt, (place, name, number)
            if not failing.reached:
                break
            tried += 1
    assert tried > 150


# Observing --------------------------------------------------------------------------------------------------------------


def test_all_that_observe_a_function_share_one_replacement() -> None:
    """The first begins first and ends last, each is given the arguments and the result, and at the end the function is back."""
    owner, told = SimpleNamespace(f=doubled), []

    def observer(name: str) -> Callable[..., Iterator[None]]:
        def around(x: int) -> Any:
            told.append((name, x))
            result = yield
            told.append((name, result))

        return around

    with ExitStack() as stack:
        for name in ("one", "other"):
            stack.enter_context(observed(owner, "f", observer(name)))
        assert owner.f(3) == 6 and len(owner.f.explorer_slot.layers) == 1
    assert told == [("one", 3), ("other", 3), ("other", 6), ("one", 6)]
    assert owner.f is doubled


def test_observers_may_be_taken_off_in_any_order() -> None:
    """The one that is left still observes."""
    owner, told = SimpleNamespace(f=doubled), []

    def observer(x: int) -> Iterator[None]:
        told.append(x)
        yield

    first, second = observed(owner, "f", observer), observed(owner, "f", observer)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert owner.f(1) == 2 and told == [1]
    second.__exit__(None, None, None)
    assert owner.f is doubled


@pytest.mark.parametrize("when", ["before", "after", "at once", "at the error"])
def test_an_observer_that_fails_is_named_and_the_others_observe(when: str) -> None:
    """The loss is under its own guard; the function gives what it gives, or raises what it raises."""
    told: list[str] = []

    def failing(x: int) -> Iterator[None]:
        if when == "before":
            fails()
        try:
            yield
        except ValueError:
            fails()
        if when == "after":
            fails()

    def other(x: int) -> Iterator[None]:
        told.append("before")
        try:
            yield
        finally:
            told.append("after")

    def original(x: int) -> int:
        if when == "at the error":
            raise ValueError("the original's")
        return x

    owner = SimpleNamespace(f=original)
    errors: dict[tuple[str, str, str], None] = {}
    with ExitStack() as stack:
        with guarding(Guard(errors=errors, stage="mine")):
            stack.enter_context(observed(owner, "f", fails if when == "at once" else failing))
        with guarding(Guard(errors=errors, stage="other")):
            stack.enter_context(observed(owner, "f", other))
        if when == "at the error":
            with pytest.raises(ValueError, match="the original's"):
                owner.f(1)
        else:
            assert owner.f(1) == 1
    assert told == ["before", "after"]
    assert [stage for stage, _, _ in errors] == ["mine"]


def test_an_observer_sees_its_own_thread_only() -> None:
    """Another thread calls the function itself, as far as its guard says."""
    owner, told = SimpleNamespace(f=doubled), []

    def observer(x: int) -> Iterator[None]:
        told.append(x)
        yield

    with observed(owner, "f", observer):
        assert elsewhere(lambda: owner.f(2)) == 4 and told == []


def test_static_and_class_methods_are_observed_and_put_back_as_such() -> None:
    """The observer is given what the caller gives."""
    before, told = dict(vars(Base)), []

    def observer(*args: Any) -> Any:
        told.append((args, (yield)))

    for name in ("static", "of_class"):
        with observed(Base, name, observer):
            getattr(Base, name)()
    assert told == [((), "static"), ((), "Base")]
    assert dict(vars(Base)) == before


def test_frames_between_two_replaced_functions_are_not_in_the_traceback() -> None:
    """However many replaced functions an error goes through, no frame of explorer's is left."""

    def inner() -> None:
        raise KeyError("theirs")

    def outer() -> None:
        owner.inner()

    def passing(original: Any) -> Any:
        return lambda: original()

    owner = SimpleNamespace(inner=inner, outer=outer)
    with replaced(owner, "inner", passing), replaced(owner, "outer", passing), pytest.raises(KeyError) as caught:
        owner.outer()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_frames_between_two_replaced_functions_are_not_in_the_traceback", "outer", "inner"]


def test_a_pure_function_that_is_replaced_gives_its_own_result_where_that_fails() -> None:
    """The original is called after explorer's error, which is lost; its own error goes through, and is no loss."""
    owner, guard = SimpleNamespace(f=lambda x: 1 // x), Guard(errors={})

    def make(original: Callable[[int], int]) -> Callable[[int], int]:
        def instead(x: int) -> int:
            if x == 7:
                raise RuntimeError("boom")
            return original(x) + 10

        return instead

    with guarding(guard), replaced_pure(owner, "f", make):
        assert owner.f(1) == 11 and not guard.errors
        assert owner.f(7) == 0
        assert [message for _, _, message in guard.errors or ()] == ["RuntimeError: boom"]
        with pytest.raises(ZeroDivisionError) as raised:
            owner.f(0)
    assert len(guard.errors or ()) == 1 and owner.f(1) == 1
    assert "explorer/capture/observe/patch.py" not in "".join(traceback.format_tb(raised.value.__traceback__))


def test_pure_replacements_lie_upon_others() -> None:
    """The newer one is outside, a purposeful error goes through, and one of an answer that torch needs is raised."""
    owner = SimpleNamespace(f=lambda x: x)
    with replaced(owner, "f", lambda original: lambda x: original(x) * 2):
        with replaced_pure(owner, "f", lambda original: lambda x: original(x) + 1):
            assert owner.f(3) == 7

    def refuse(_: object) -> object:
        raise InputError("on purpose")

    def fail(_: object) -> object:
        raise RuntimeError("boom")

    with replaced_pure(owner, "f", lambda _: refuse), pytest.raises(InputError):
        owner.f(1)
    with guarding(Guard(errors={}).essential_here()), replaced_pure(owner, "f", lambda _: fail):
        with pytest.raises(RuntimeError, match="boom"):
            owner.f(1)
