"""Replace an attribute for a while, and put it back whatever happens. Every replacement of torch's or triton's stands here.

Each replacement is guarded. It acts only for whom its `Guard` covers, such as the thread that records; everybody else gets
the original. Where explorer's part of it fails, the original's result is returned (or the original is called, if it was not
yet), what was lost is written down, and the program goes on. An error that came out of the original goes through
as it came, without a frame of this file in its traceback.

- A function is observed by `observed`: all that observe it share one replacement, which calls each of them and the original.
- A function is replaced by `replaced`: what stands in its place calls the replacement, or the original.
- A function that only computes something is replaced by `replaced_pure`, which notes nothing of the call: where explorer's
  part fails the original is called, perhaps once more. That takes less than half the time.
- A function that torch calls ten thousand times a compile is followed by `followed` or preceded by `preceded`, where what
  comes after a call, or before it, is all that is wanted: that takes less than half the time.
- Where a function is both observed and replaced, the observers are outside: they see what the replacement gives, whichever
  of the two was put on first. Of two replacements the newer one is outside.
- A value that other threads must not see is replaced by `added`: each thread reads its own.
- A value that `replaced` replaces is seen by every thread. That is right only while `compile_lock` is held, which Dynamo
  holds for each compile, so that a compile in another thread waits; or where the owner belongs to this thread.
- What Dynamo itself traces is replaced by `replaced_in_plain_sight`: it would trace the guard too.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import get_ident
from types import SimpleNamespace
from typing import Any

from explorer.errors import ExplorerError
from explorer.model.values import Failure

_ABSENT = object()
#: Held while replacements are put on or taken off: two threads may do so at once, and not end in reverse.
_CHANGING = threading.RLock()
#: What a replacement may raise on purpose: what the user did wrong, and what explorer cannot do.
ON_PURPOSE = (ExplorerError,)


class Guard:
    """The rule for a set of replacements: in which threads they act, and where their errors go.

    Without `covers` they act in the thread that made the guard. With `here` they always act in that thread, and in other
    threads if `covers()` is true. `errors` has (stage, step, message) of each error in explorer's part. If `errors` is None,
    such an error is raised, as in a verb that the user waits for. `essential` replacements answer in place of torch: if one
    fails, torch's own answer would be wrong. Its error is raised as well as recorded, and the caller gives up the compile.
    `failed` says that there was such an error.
    """

    def __init__(
        self,
        covers: Callable[[], bool] | None = None,
        errors: dict[tuple[str, str, str], None] | None = None,
        *,
        stage: str = "",
        essential: bool = False,
        here: bool = False,
    ) -> None:
        self.thread = get_ident() if here or covers is None else None  # in which they act without a question
        self.covers = covers
        self.errors = errors
        self.stage = stage
        self.essential = essential
        self.failed = False

    def of(self, stage: str) -> Guard:
        """The same guard for the hooks of one stage."""
        guard = Guard(self.covers, self.errors, stage=stage, essential=self.essential)
        guard.thread = self.thread
        return guard

    def essential_here(self) -> Guard:
        """A guard for answers in place of torch's in this thread, which writes to the same errors."""
        return Guard(None, self.errors, stage=self.stage, essential=True)

    def acts(self, step: str) -> bool:
        """Whether replacements act for whoever asks."""
        if get_ident() == self.thread:
            return True
        if self.covers is None:
            return False
        try:
            return self.covers()
        except Exception as error:  # noqa: BLE001 rule 5: an error in the explorer never breaks the user's compile
            self.lose(step, error)
            return False

    def lose(self, step: str, error: BaseException) -> None:
        """Write an error of explorer's down; raise it where there is nobody to read it."""
        self.failed = True
        if self.errors is None:
            raise error
        self.errors.setdefault((self.stage, step, f"{type(error).__name__}: {error}".strip()), None)

    def failures(self, known: Iterable[Failure] = ()) -> list[Failure]:
        """Return the recorded errors as Failures, without those in `known`."""
        lost = [Failure(stage or "record", step, message) for stage, step, message in self.errors or ()]
        return [failure for failure in lost if failure not in known]


class _Under(threading.local):
    """The guards under which this thread puts replacements on, the newest last.

    Each is in a list, which is empty when the guard's block is over.
    """

    held: tuple[list[Guard], ...] = ()


_UNDER = _Under()


@contextmanager
def guarding(guard: Guard) -> Iterator[Guard]:
    """Inside the block what this thread replaces is under this guard.

    The blocks of two asyncio tasks in one thread need not end in reverse, and one that is collected may end in another thread.
    """
    here = [guard]
    _UNDER.held = (*(held for held in _UNDER.held if held), here)
    try:
        yield guard
    finally:
        here.clear()


def guard_here() -> Guard:
    """Return the guard of this thread's replacements; without one, a new guard for this thread that raises errors."""
    guards = [guard for held in _UNDER.held for guard in held]
    return guards[-1] if guards else Guard()


def compile_lock() -> AbstractContextManager[object]:
    """The lock that Dynamo holds while it compiles: inside it no other thread compiles."""
    from torch._dynamo import convert_frame

    lock: AbstractContextManager[object] = convert_frame.compile_lock
    return lock


# The one way in and out -------------------------------------------------------------------------------------------------

#: An attribute, with a value of its own: the owner, the name and the value.
Attribute = tuple[Any, str, Any]


class _Place:
    """Replaced attributes, with the holders of the replacement, the newest last.

    `back` has the original attributes, and `stands` the replacements. Both are complete before anything is replaced.
    """

    def __init__(self, back: Sequence[Attribute], stands: Sequence[Attribute] = ()) -> None:
        self.back, self.stands = back, stands
        self.holders: tuple[Any, ...] = ()

    def arrange(self) -> None:
        """Put the replacement for all holders in place."""
        stands, self.stands = self.stands, ()
        for owner, name, value in stands:
            setattr(owner, name, value)


@contextmanager
def _held(find: Callable[[], tuple[_Place, Any]]) -> Iterator[None]:
    """Hold a place inside the block. Nothing is replaced or put back but here.

    `find` returns the place and its new holder, and replaces nothing. When the last holder leaves, everything is put back
    before any function of explorer's is called, so that no error of explorer's can prevent it.
    """
    place: _Place | None = None
    try:
        with _CHANGING:
            place, holder = find()
            place.holders = (*place.holders, holder)
            place.arrange()
        yield
    finally:
        if place is not None:
            with _CHANGING:
                place.holders = tuple(other for other in place.holders if other is not holder)
                if place.holders:
                    place.arrange()
                else:
                    for owner, name, value in place.back:
                        if value is not _ABSENT:
                            setattr(owner, name, value)
                        elif name in vars(owner):
                            delattr(owner, name)


def _own(owner: Any, name: str) -> Any:
    """Return the owner's own attribute, without inherited ones; for an object with slots, what `getattr` finds."""
    return vars(owner).get(name, _ABSENT) if hasattr(owner, "__dict__") else getattr(owner, name, _ABSENT)


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


# One call of a replacement ----------------------------------------------------------------------------------------------


class _Call:
    """One call of a replacement: what came out of the function below it."""

    # these are the class's until they are set, and there is no constructor: that spares time
    returned = False
    result: Any = None
    error: BaseException | None = None
    place: types.TracebackType | None = None


class _Layer:
    """One replacement of a function, with its guard. `below` is the function, or the replacement under this one.

    Torch calls the replacement directly, and nothing of explorer's is around that call. So `guarded` has a `try` around all
    that may fail.
    """

    def __init__(self, slot: _Slot, step: str, guard: Guard) -> None:
        self.slot, self.step, self.guard = slot, step, guard
        self.ours = self.below = slot.original
        self.calls = threading.local()  # those under way in a thread, innermost last
        self.function = self.guarded()

    def original(self) -> Callable[..., Any]:
        """Return the replacement's "original": a function that calls `below` and notes its result or error."""

        def below(*args: Any, **kwargs: Any) -> Any:
            stack = vars(self.calls).get("stack")
            if not stack:
                return (self.below if self in self.slot.layers else self.slot.top)(*args, **kwargs)
            call = stack[-1]
            try:
                result = self.below(*args, **kwargs)
            except BaseException as error:
                call.returned, call.error, call.place = False, error, error.__traceback__ and error.__traceback__.tb_next
                raise
            call.returned, call.error, call.result = True, None, result
            return result

        return _like(below, self.slot.original)

    def guarded(self) -> Callable[..., Any]:
        """What calls the replacement for whom it acts, and gives what the original gives where explorer's part fails."""
        guard, step, calls, original = self.guard, self.step, self.calls, self.original()

        def guarded(*args: Any, **kwargs: Any) -> Any:
            call, stack, acts = _Call(), vars(calls).setdefault("stack", []), False
            stack.append(call)
            try:
                acts = guard.thread == get_ident() or guard.acts(step)
                return (self.ours if acts else original)(*args, **kwargs)
            except Exception as error:
                if error is call.error:
                    error.__traceback__ = call.place
                    raise
                if isinstance(error, ON_PURPOSE) or self.ours is self.slot.original:  # put on so that nothing below it acts
                    raise
                failure = error
            finally:
                stack.pop()
                theirs, place, call.error, call.place = call.error, call.place, None, None
            self.lose(failure, acts)
            if call.returned:
                return call.result
            if theirs is not None:
                raise theirs.with_traceback(place)
            return self.below(*args, **kwargs)

        return guarded

    def lose(self, error: Exception, acts: bool) -> None:
        """Write down an error of explorer's; raise it where the replacement acts for whoever asks, and torch needs it."""
        self.guard.lose(self.step, error)
        if acts and self.guard.essential:
            raise error


class _Following(_Layer):
    """What runs after each call of a function that returned; nothing of the call itself is to be kept or put right."""

    def guarded(self) -> Callable[..., Any]:
        """Return a function that calls `below`, then the observer. The observer's error is recorded as a loss."""
        guard, step = self.guard, self.step

        def guarded(*args: Any, **kwargs: Any) -> Any:
            result, acts = self.below(*args, **kwargs), False
            try:
                acts = guard.thread == get_ident() or guard.acts(step)
                if acts:
                    self.ours(result, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 rule 5
                self.lose(error, acts)
            return result

        return guarded


class _Preceding(_Layer):
    """What runs before each call of a function; of the call itself nothing is seen."""

    def guarded(self) -> Callable[..., Any]:
        """Return a function that calls the observer, then `below`. The observer's error is recorded as a loss."""
        guard, step = self.guard, self.step

        def guarded(*args: Any, **kwargs: Any) -> Any:
            acts = False
            try:
                acts = guard.thread == get_ident() or guard.acts(step)
                if acts:
                    self.ours(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 rule 5
                self.lose(error, acts)
            return self.below(*args, **kwargs)

        return guarded


class _Pure(_Layer):
    """A replacement of a function without side effects, which may be called again if the replacement fails."""

    def guarded(self) -> Callable[..., Any]:
        """Return a function that calls the replacement. If it fails, the error is explorer's unless the original fails alike."""
        guard, step = self.guard, self.step

        def guarded(*args: Any, **kwargs: Any) -> Any:
            acts = False
            try:
                acts = guard.thread == get_ident() or guard.acts(step)
                if acts:
                    return self.ours(*args, **kwargs)
            except Exception as error:
                if isinstance(error, ON_PURPOSE):
                    raise
                failure = error
            else:
                return self.below(*args, **kwargs)
            if guard.essential:
                self.lose(failure, acts)
            try:
                result = self.below(*args, **kwargs)
            except Exception as error:
                if (type(error), str(error)) != (type(failure), str(failure)):
                    self.lose(failure, acts)
                raise
            self.lose(failure, acts)
            return result

        return guarded


class _Slot(_Place):
    """A function's place: the original, and the replacements and observers that are on, the newest last."""

    def __init__(self, owner: Any, name: str, original: Callable[..., Any]) -> None:
        self.original = self.top = original  # what is called
        self.layers: tuple[_Layer, ...] = ()
        self.observers: _Observers | None = None
        self.in_place = self._in_place()
        super().__init__(((owner, name, _own(owner, name)), (self, "top", original), (self, "layers", ())))

    def arrange(self) -> None:
        """Put each replacement on the one before it, and the observers on all of them."""
        layers = [holder for holder in self.holders if isinstance(holder, _Layer)]
        if self.observers is not None and self.observers.hold(self.holders):
            layers.append(self.observers.layer)
        top = self.original
        for layer in layers:
            layer.below, top = top, layer.function
        self.top, self.layers = top, tuple(layers)
        super().arrange()

    def _in_place(self) -> Callable[..., Any]:
        """Return the function to put in place: a plain function, so that it binds as a method does."""

        def in_place(*args: Any, **kwargs: Any) -> Any:
            try:
                return self.top(*args, **kwargs)
            except BaseException as error:
                with suppress(Exception):
                    error.__traceback__ = _without_own_frames(error.__traceback__)
                raise

        made = _like(in_place, self.original)
        made.explorer_slot = self  # type: ignore[attr-defined]
        return made


def _without_own_frames(place: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without this file's frames: an error that passes through is not explorer's.

    Frames below the next function that is replaced were taken out when the error left that function.
    """
    while place is not None and _is_own(place):
        place = place.tb_next
    last = place
    while last is not None and last.tb_next is not None and not _is_own(last.tb_next):
        last = last.tb_next
    while last is not None and last.tb_next is not None and _is_own(last.tb_next):
        last.tb_next = last.tb_next.tb_next
    return place


def _is_own(place: types.TracebackType) -> bool:
    return place.tb_frame.f_code.co_filename == __file__


def _like(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function the original's name and signature, but not its attributes: torch marks its own functions with them."""
    functools.update_wrapper(function, original, ("__module__", "__name__", "__qualname__", "__doc__"), ())
    return function


def guarded(original: Callable[..., Any], make: Callable[[Any], Any], step: str) -> Callable[..., Any]:
    """A function that calls what `make` makes of the original under the guard here, and the original where that fails."""
    slot = _Slot(SimpleNamespace(), step, original)
    layer = _Layer(slot, step, guard_here())
    layer.ours = make(layer.original())
    slot.top, slot.layers = layer.function, (layer,)
    return slot.in_place


def guarded_always(original: Callable[..., Any], make: Callable[[Any], Any], step: str) -> Callable[..., Any]:
    """Guard a replacement that also runs after the recording, and in any thread. Its errors go to this thread's guard."""
    with guarding(Guard(lambda: True, guard_here().errors)):
        return guarded(original, make, step)


@contextmanager
def shielded(make: Callable[[], AbstractContextManager[Any]], guard: Guard, step: str, leaving: str = "") -> Iterator[Any]:
    """Enter the context manager that `make` returns. An error on entering or leaving is recorded, and the block still runs.

    Yields the entered value, None if entering failed. An essential guard raises the error on entering. An error of the
    block itself is not caught.
    """
    entered: AbstractContextManager[Any] | None = None
    value: Any = None
    try:
        context = make()
        value = context.__enter__()
        entered = context
    except ON_PURPOSE:
        raise
    except Exception as error:
        guard.lose(step, error)
        if guard.essential:
            raise
    try:
        yield value
    finally:
        if entered is not None:
            try:
                entered.__exit__(None, None, None)
            except Exception as error:  # noqa: BLE001 rule 5
                guard.lose(leaving or step, error)


def beside(context: Callable[..., AbstractContextManager[Any]], step: str, *, inside: bool = False) -> Callable[[Any], Any]:
    """For `replaced`: a function that gives a context manager gives one that enters `context` of its arguments as well.

    It is entered before the original's, or with `inside` after it.
    """
    guard = guard_here()

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def both(*args: Any, **kwargs: Any) -> Iterator[Any]:
            def extra() -> AbstractContextManager[Any]:
                return shielded(lambda: context(*args, **kwargs), guard, step)

            if inside:
                with original(*args, **kwargs) as value, extra():
                    yield value
            else:
                with extra(), original(*args, **kwargs) as value:
                    yield value

        return both

    return make


# Replacing --------------------------------------------------------------------------------------------------------------


def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
    """Replace `owner.name` by `make(original)` inside the block, and restore it exactly after the block.

    A function's replacement acts in the threads that this thread's guard covers, and is guarded as the module says. Any other
    replacement is seen by every thread. Raises AttributeError if `owner` has no such attribute: this torch is not the one
    that the hook knows.
    """
    return _replaced_by(_Layer, owner, name, make)


def replaced_pure(owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
    """`replaced` for a function that only computes something: it may be called twice where what `make` makes of it fails."""
    return _replaced_by(_Pure, owner, name, make)


def _replaced_by(kind: type[_Layer], owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
    if not _is_function(getattr(owner, name)):
        return replaced_in_plain_sight(owner, name, make)
    return _layered(kind, owner, name, make)


def _layered(kind: type[_Layer], owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
    """Add one more replacement of a function inside the block."""
    guard = guard_here()

    def find() -> tuple[_Place, _Layer]:
        slot = _slot_of(owner, name)
        layer = kind(slot, _step_of(owner, name), guard)
        made = make(layer.original())
        static = isinstance(made, (staticmethod, classmethod))
        layer.ours = made.__get__(None, owner) if static else made
        return _standing(slot, owner, name, static), layer

    return _held(find)


def followed(owner: Any, name: str, after: Callable[..., object]) -> AbstractContextManager[None]:
    """Run `after(result, *args, **kwargs)` after each returned call of the function `owner.name` inside the block.

    As with `replaced`, it acts in the threads that this thread's guard covers. An error in `after` is recorded as a loss,
    and the call returns the function's own result.
    """
    return _layered(_Following, owner, name, lambda _: after)


def preceded(owner: Any, name: str, before: Callable[..., object]) -> AbstractContextManager[None]:
    """Run `before(*args, **kwargs)` before each call of the function `owner.name` inside the block.

    As with `replaced`, it acts in the threads that this thread's guard covers. An error in `before` is recorded as a loss,
    and the function is still called.
    """
    return _layered(_Preceding, owner, name, lambda _: before)


def _slot_of(owner: Any, name: str) -> _Slot:
    """Return the slot that already replaces a function, or a new one."""
    original = getattr(owner, name)
    slot = getattr(original, "explorer_slot", None)
    return slot if isinstance(slot, _Slot) and _own(owner, name) is not _ABSENT else _Slot(owner, name, original)


def _standing(slot: _Slot, owner: Any, name: str, static: bool) -> _Slot:
    """Return the slot, prepared to be put in the function's place if it is not there yet."""
    if not slot.holders:
        # one of the owner's that is static must not be bound to the object through which it is called
        static = static or isinstance(_own(owner, name), staticmethod)
        slot.stands = ((owner, name, staticmethod(slot.in_place) if static else slot.in_place),)
    return slot


class _InSight(_Place):
    """A replaced attribute that every thread sees: the newest holder's value is in place."""

    def arrange(self) -> None:
        """Put the newest there."""
        (owner, name, _), *_ = self.back
        setattr(owner, name, self.holders[-1][0])


class _PlainSight:
    """The attributes replaced for every thread. Two threads may replace the same one, and end in either order."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, str], _InSight] = {}

    def has(self, owner: Any, name: str) -> bool:
        """Whether the attribute is replaced now."""
        place = self._places.get((id(owner), name))
        return place is not None and bool(place.holders)

    def held(self, owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
        """Replace the attribute by `make(its present value)` inside the block."""

        def find() -> tuple[_Place, list[Any]]:
            self._places = {key: place for key, place in self._places.items() if place.holders}
            holder = [make(getattr(owner, name, _ABSENT))]
            new = _InSight([(owner, name, vars(owner).get(name, _ABSENT))])
            return self._places.setdefault((id(owner), name), new), holder

        return _held(find)


_PLAIN_SIGHT = _PlainSight()


def replaced_in_plain_sight(owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
    """`owner.name` is `make(original)` inside the block, for every thread and with nothing around it."""
    getattr(owner, name)  # AttributeError where there is none
    return _PLAIN_SIGHT.held(owner, name, make)


def added_in_plain_sight(owner: Any, name: str, value: Any) -> AbstractContextManager[None]:
    """`owner.name`, which need not exist, is `value` inside the block, for every thread and with nothing around it.

    For what a module's own functions look for among their globals, and for modules that Dynamo must know as modules.
    """
    return _PLAIN_SIGHT.held(owner, name, lambda _: value)


def is_replaced_here(owner: Any, name: str) -> bool:
    """Whether a function has a replacement that acts for this thread."""
    slot = getattr(getattr(owner, name), "explorer_slot", None)
    return isinstance(slot, _Slot) and any(layer.guard.acts(layer.step) for layer in slot.layers)


def answered(owner: Any, name: str, answer: Any) -> AbstractContextManager[None]:
    """`owner.name` is `answer` inside the block: for whom the guard here covers where there is one, else in plain sight."""
    if hasattr(owner, name) and not _PLAIN_SIGHT.has(owner, name):
        return replaced_pure(owner, name, lambda _: answer)  # the answer does not call it
    return added_in_plain_sight(owner, name, answer)


# Observing --------------------------------------------------------------------------------------------------------------

#: What observes a function: a generator function of the call's arguments, with one `yield`, which gives the call's result.
Observer = Callable[..., Iterator[None]]


class _Observer:
    """One observer of a function, with the guard under which it was put on."""

    def __init__(self, function: Observer, guard: Guard) -> None:
        self.function, self.guard = function, guard

    def begin(self, step: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the part before the call; what has a part after it, or None."""
        if self.guard.thread != get_ident() and not self.guard.acts(step):
            return None
        try:
            run = self.function(*args, **kwargs)
            next(run)
        except StopIteration:
            return None
        except ON_PURPOSE:
            raise
        except Exception as error:  # noqa: BLE001 rule 5
            self.guard.lose(step, error)
            return None
        return run

    def end(self, step: str, run: Any, result: Any) -> None:
        """Run the part after a call that returned."""
        try:
            run.send(result)
        except StopIteration:
            pass
        except ON_PURPOSE:
            raise
        except Exception as error:  # noqa: BLE001 rule 5
            self.guard.lose(step, error)

    def fail(self, step: str, run: Any, failure: BaseException) -> None:
        """Raise the call's error at the observer's `yield`; only another error than that is the observer's own."""
        try:
            run.throw(failure)
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 rule 5
            if error is not failure:
                self.guard.lose(step, error)
        except BaseException as error:
            if error is not failure:
                raise


class _Observers:
    """All observers of one function. They share one replacement, which calls them in the order in which they were added."""

    def __init__(self, slot: _Slot, step: str) -> None:
        self.step = step
        self.members: tuple[_Observer, ...] = ()
        self.guard = Guard(self._acts)
        self.layer = _Layer(slot, step, self.guard)
        self.layer.ours = self._replacement(self.layer.original())

    def hold(self, holders: Iterable[object]) -> bool:
        """Take the observers among a function's holders; whether there are some.

        Where all are of one thread, they act in it without a question. What fails outside of each is lost by the first.
        """
        self.members = tuple(holder for holder in holders if isinstance(holder, _Observer))
        threads = {member.guard.thread for member in self.members}
        self.guard.thread = threads.pop() if len(threads) == 1 else None
        if self.members:
            first = self.members[0].guard
            self.guard.errors, self.guard.stage = first.errors, first.stage
        return bool(self.members)

    def _acts(self) -> bool:
        return any(member.guard.acts(self.step) for member in self.members)

    def _replacement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The function that calls the observers and the original."""

        def observed_call(*args: Any, **kwargs: Any) -> Any:
            started = [(member, member.begin(self.step, args, kwargs)) for member in self.members]
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                for member, run in reversed(started):
                    if run is not None:
                        member.fail(self.step, run, error)
                raise
            for member, run in reversed(started):
                if run is not None:
                    member.end(self.step, run, result)
            return result

        return observed_call


def observed(owner: Any, name: str, observer: Observer) -> AbstractContextManager[None]:
    """Inside the block `observer` is run around each call of the function `owner.name`, for whom the guard here covers.

    It is a generator function of the call's arguments with one `yield`, which gives the call's result, or raises its error.
    All observers of one function share one replacement: the first that was put on begins first and ends last. An error
    of one is written down under its own guard and keeps neither the others nor the function from running. AttributeError
    where there is no such function.
    """
    member = _Observer(observer, guard_here())

    def find() -> tuple[_Place, _Observer]:
        slot = _slot_of(owner, name)
        if slot.observers is None:
            slot.observers = _Observers(slot, _step_of(owner, name))
        static = isinstance(inspect.getattr_static(owner, name), (staticmethod, classmethod))
        return _standing(slot, owner, name, static), member

    return _held(find)


def _step_of(owner: Any, name: str) -> str:
    """What a replacement is called where it fails: the owner's name and the attribute's."""
    return f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"


# Values that each thread reads for itself -------------------------------------------------------------------------------


class _View(_Place):
    """An attribute that has a different value for threads that a guard covers, and the original object for other threads.

    On a class it is a descriptor. On a module it is a property of a temporary class of the module. The module's own code
    reads its globals past that property, so a function's global is replaced too, with the same effect. A module that Triton
    kernels name keeps its class; an `_Either` takes the attribute's place, and behaves in each thread as that thread's value.
    """

    def __init__(self, name: str, inherited: Any, *back: Attribute) -> None:
        super().__init__(back)
        self.name, self._inherited = name, inherited

    def here(self) -> Any:
        """Return the value for this thread; the original value if a guard fails to say whether it covers this thread."""
        holders = self.holders
        try:
            for guard, value in reversed(holders):
                if guard.acts(self.name):
                    return value
        except Exception as error:
            for guard, _ in holders:
                guard.lose(self.name, error)
                if guard.essential:
                    raise
        if self._inherited is _ABSENT:
            raise AttributeError(self.name)
        return self._inherited

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        value = self.here()
        bind = getattr(type(value), "__get__", None)
        return value if bind is None else bind(value, instance, owner)


class _Either:
    """A stand-in for a module's function or class. It behaves in each thread as the value for that thread, and equals it."""

    __slots__ = ("_explorer_view",)

    def __init__(self, view: _View) -> None:
        self._explorer_view = view

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._explorer_view.here()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._explorer_view.here(), name)

    def __eq__(self, other: object) -> bool:
        return bool(self._explorer_view.here() == other)

    def __hash__(self) -> int:
        return hash(self._explorer_view.here())

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._explorer_view.here())


class _OfModule(_View):
    """The view that the class of a module has: it binds no function, and the module may set its attribute."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.here()

    def __set__(self, module: Any, value: Any) -> None:
        vars(module)[self.name] = value


class _Viewed(types.ModuleType):
    """The class of a module some of whose attributes each thread reads for itself."""

    explorer_place: _Place


@contextmanager
def added(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set `owner.name` to `value` inside the block, for threads that this thread's guard covers. The name may be new.

    `owner` is a class or a module. Other threads still see the original. After the block everything is exactly as before.
    """
    holder = (guard_here(), value)
    plain = isinstance(owner, type) or (callable(vars(owner).get(name)) and in_kernels(owner))
    with nullcontext() if plain else _held(lambda: (_class_of(owner), holder)):
        with _held(lambda: (_view_of(owner, name), holder)):
            yield


def _class_of(module: Any) -> _Place:
    """The place of a module's class, for one that can have views."""
    kind: Any = type(module)
    if isinstance(module, _Viewed):
        return module.explorer_place
    bases = (_Viewed, kind) if kind is not types.ModuleType else (_Viewed,)
    place = _Place([(module, "__class__", kind)])
    place.stands = [(module, "__class__", type(kind.__name__, bases, {"explorer_place": place}))]
    return place


def _view_of(owner: Any, name: str) -> _View:
    """The view in an attribute's place, or a new one."""
    own = vars(owner).get(name, _ABSENT)
    if isinstance(own, _View):
        return own
    if type(own) is _Either:
        return own._explorer_view
    if isinstance(owner, type):
        inherited = next((vars(kind)[name] for kind in owner.__mro__ if name in vars(kind)), _ABSENT)
        view = _View(name, inherited, (owner, name, own))
        view.stands = [(owner, name, view)]
    elif callable(own) and in_kernels(owner):
        view = _View(name, own, (owner, name, own))
        view.stands = [(owner, name, _Either(view))]
    else:
        return _view_of_module(owner, name, own)
    return view


def _view_of_module(module: Any, name: str, own: Any) -> _View:
    """The view that a module's class has for an attribute; a function is one in the module itself too."""
    kind = type(module)
    if isinstance(known := vars(kind).get(name), _View):
        return known
    function = [(module, name, own)] if _is_function(own) else []
    view = _OfModule(name, getattr(module, name, _ABSENT), (kind, name, _ABSENT), *function)
    view.stands = [(kind, name, view), *((module, name, _Either(view)) for _ in function)]
    return view


def in_kernels(module: types.ModuleType) -> bool:
    """Whether a Triton kernel may name the module: triton then takes no other class for a module."""
    return module.__name__.startswith("triton.") or module.__name__.endswith(("triton_helpers", "libdevice"))
