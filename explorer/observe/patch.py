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
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import get_ident
from typing import Any

from explorer.errors import ExplorerError
from explorer.model.values import Failure

_ABSENT = object()
#: Held while replacements are put on or taken off: two threads may do so at once, and not end in reverse.
_CHANGING = threading.RLock()
#: What a replacement may raise on purpose: what the user did wrong, and what explorer cannot do.
ON_PURPOSE = (ExplorerError,)


class Guard:
    """For whom replacements act, and what was lost in them.

    Without `covers` they act in the thread that made the guard. With `here` they act in that thread without a question, and
    in another where `covers` says so. `losses` has (stage, step, message) of each error in explorer's part; it is None where
    such an error is to be raised, as in a verb that the user waits for. `essential` replacements answer in place of torch:
    where one fails, torch's own answer would be wrong, so the error is raised as well as written down, and who asked for
    the compile gives it up. `failed` says that there was such an error.
    """

    def __init__(
        self,
        covers: Callable[[], bool] | None = None,
        losses: dict[tuple[str, str, str], None] | None = None,
        *,
        stage: str = "",
        essential: bool = False,
        here: bool = False,
    ) -> None:
        self.thread = get_ident() if here or covers is None else None  # in which they act without a question
        self.covers = covers
        self.losses = losses
        self.stage = stage
        self.essential = essential
        self.failed = False

    def of(self, stage: str) -> Guard:
        """The same guard for the hooks of one stage."""
        guard = Guard(self.covers, self.losses, stage=stage, essential=self.essential)
        guard.thread = self.thread
        return guard

    def essential_here(self) -> Guard:
        """A guard for answers in place of torch's in this thread, which writes to the same losses."""
        return Guard(None, self.losses, stage=self.stage, essential=True)

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
        if self.losses is None:
            raise error
        self.losses.setdefault((self.stage, step, f"{type(error).__name__}: {error}".strip()), None)

    def failures(self, known: Iterable[Failure] = ()) -> list[Failure]:
        """What was lost, without what is known already."""
        lost = [Failure(stage or "record", step, message) for stage, step, message in self.losses or ()]
        return [failure for failure in lost if failure not in known]


class _Under(threading.local):
    """The guard under which this thread puts replacements on."""

    guard: Guard | None = None


_UNDER = _Under()


@contextmanager
def guarding(guard: Guard) -> Iterator[Guard]:
    """Inside the block what this thread replaces is under this guard."""
    outer, _UNDER.guard = _UNDER.guard, guard
    try:
        yield guard
    finally:
        _UNDER.guard = outer


def guard_here() -> Guard:
    """The guard of what this thread replaces now; one for this thread alone, that raises, where there is none."""
    return _UNDER.guard or Guard()


def compile_lock() -> AbstractContextManager[object]:
    """The lock that Dynamo holds while it compiles: inside it no other thread compiles."""
    from torch._dynamo import convert_frame

    lock: AbstractContextManager[object] = convert_frame.compile_lock
    return lock


# One call of a replacement ----------------------------------------------------------------------------------------------


class _Call:
    """One call of a replacement: what is below it, and what came out of the original."""

    original: Callable[..., Any]
    under: tuple[_Layer, ...] = ()  # these are the class's until they are set, and there is no constructor: that spares time
    returned = False
    result: Any = None
    error: BaseException | None = None
    place: types.TracebackType | None = None


class _Calls(threading.local):
    """The calls of one replacement that are under way in a thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[_Call] = []


class _Layer:
    """One replacement of a function, with its guard."""

    def __init__(self, slot: _Slot, step: str, guard: Guard) -> None:
        self.slot, self.step, self.guard = slot, step, guard
        self.ours: Callable[..., Any] = slot.original
        self._calls = _Calls()

    def original(self) -> Callable[..., Any]:
        """What the replacement takes for the original: it calls what is below, and notes what came of it."""
        calls = self._calls

        def below(*args: Any, **kwargs: Any) -> Any:
            stack = calls.stack
            if not stack:
                return _through(self.slot.original, self.slot.below(self), args, kwargs)
            call = stack[-1]
            try:
                result = _through(call.original, call.under, args, kwargs) if call.under else call.original(*args, **kwargs)
            except BaseException as error:
                call.returned, call.error, call.place = False, error, error.__traceback__ and error.__traceback__.tb_next
                raise
            call.returned, call.error, call.result = True, None, result
            return result

        return _like(below, self.slot.original)

    def call(self, original: Callable[..., Any], under: tuple[_Layer, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the replacement; where explorer's part fails, give what the original gives."""
        if self.ours is original:  # put on so that nothing below it acts
            return original(*args, **kwargs)
        call, stack = _Call(), self._calls.stack
        call.original = original
        if under:
            call.under = under
        stack.append(call)
        try:
            return self.ours(*args, **kwargs)
        except Exception as error:
            if error is call.error:
                error.__traceback__ = call.place
                raise
            if isinstance(error, ON_PURPOSE):
                raise
            self.guard.lose(self.step, error)
            if self.guard.essential:
                raise
        finally:
            stack.pop()
            failed, place = call.error, call.place
            if failed is not None:
                call.error = call.place = None
        if call.returned:
            return call.result
        if failed is not None:
            raise failed.with_traceback(place)
        return _through(original, under, args, kwargs)

    def lose(self, error: Exception) -> None:
        """Write down an error of explorer's in a part that the function does not need; raise it where torch needs the part."""
        self.guard.lose(self.step, error)
        if self.guard.essential:
            raise error

    def standing(self, slot: _Slot) -> Callable[..., Any]:
        """What stands in the function's place, made for this replacement, which is the only one there as nearly always."""

        def in_place(*args: Any, **kwargs: Any) -> Any:
            only = slot.only
            try:
                if only is not None and only.guard.thread == get_ident():
                    return only.call(slot.original, (), args, kwargs)
                return slot.through(args, kwargs)
            except BaseException as error:
                error.__traceback__ = _without_own_frames(error.__traceback__)
                raise

        return in_place

    def without(
        self,
        error: Exception,
        original: Callable[..., Any],
        under: tuple[_Layer, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What the original gives after an error, which is explorer's if the original has none."""
        if isinstance(error, ON_PURPOSE):
            raise error
        if self.guard.essential:
            self.lose(error)
        result = _through(original, under, args, kwargs)
        self.guard.lose(self.step, error)
        return result


class _Following(_Layer):
    """What runs after each call of a function that returned; nothing of the call itself is to be kept or put right."""

    def call(self, original: Callable[..., Any], under: tuple[_Layer, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what is below, then what follows it, whose error is lost."""
        result = _through(original, under, args, kwargs) if under else original(*args, **kwargs)
        try:
            self.ours(result, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 rule 5
            self.lose(error)
        return result

    def standing(self, slot: _Slot) -> Callable[..., Any]:
        """The same as `call` in the function's place, which spares a call."""
        original, after, thread = slot.original, self.ours, self.guard.thread

        def in_place(*args: Any, **kwargs: Any) -> Any:
            try:
                if slot.only is not self or thread != get_ident():
                    return slot.through(args, kwargs)
                result = original(*args, **kwargs) if kwargs else original(*args)  # without it no empty mapping is made
                try:
                    if kwargs:
                        after(result, *args, **kwargs)
                    else:
                        after(result, *args)
                except Exception as error:  # noqa: BLE001 rule 5
                    self.lose(error)
                return result
            except BaseException as error:
                error.__traceback__ = _without_own_frames(error.__traceback__)
                raise

        return in_place


class _Preceding(_Layer):
    """What runs before each call of a function; of the call itself nothing is seen."""

    def call(self, original: Callable[..., Any], under: tuple[_Layer, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run what precedes, whose error is lost, then call what is below."""
        try:
            self.ours(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 rule 5
            self.lose(error)
        return _through(original, under, args, kwargs) if under else original(*args, **kwargs)

    def standing(self, slot: _Slot) -> Callable[..., Any]:
        """The same as `call` in the function's place, which spares a call."""
        original, before, thread = slot.original, self.ours, self.guard.thread

        def in_place(*args: Any, **kwargs: Any) -> Any:
            try:
                if slot.only is not self or thread != get_ident():
                    return slot.through(args, kwargs)
                try:
                    if kwargs:
                        before(*args, **kwargs)
                    else:
                        before(*args)
                except Exception as error:  # noqa: BLE001 rule 5
                    self.lose(error)
                return original(*args, **kwargs) if kwargs else original(*args)
            except BaseException as error:
                error.__traceback__ = _without_own_frames(error.__traceback__)
                raise

        return in_place


class _Pure(_Layer):
    """What is called in place of a function that only computes something, and so may be called again where this fails."""

    def call(self, original: Callable[..., Any], under: tuple[_Layer, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the replacement; where it fails, give what the original gives."""
        try:
            return self.ours(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 rule 5
            return self.without(error, original, under, args, kwargs)

    def standing(self, slot: _Slot) -> Callable[..., Any]:
        """The same as `call` in the function's place, which spares a call."""
        original, instead, thread = slot.original, self.ours, self.guard.thread

        def in_place(*args: Any, **kwargs: Any) -> Any:
            try:
                if slot.only is not self or thread != get_ident():
                    return slot.through(args, kwargs)
                try:
                    return instead(*args, **kwargs) if kwargs else instead(*args)
                except Exception as error:  # noqa: BLE001 rule 5
                    return self.without(error, original, (), args, kwargs)
            except BaseException as error:
                error.__traceback__ = _without_own_frames(error.__traceback__)
                raise

        return in_place


class _Outermost(_Layer):
    """The replacement that all observers of a function share: it is outside of all others."""


def _through(original: Callable[..., Any], layers: tuple[_Layer, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the topmost replacement that acts for this thread; the original where none does."""
    thread = get_ident()
    number = len(layers)
    while number:
        number -= 1
        layer = layers[number]
        if layer.guard.thread == thread or layer.guard.acts(layer.step):  # most need no question, which spares a call
            return layer.call(original, layers[:number], args, kwargs)
    return original(*args, **kwargs)


class _Slot:
    """A function's place: the original, and the replacements that are on, the newest last."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self.own: Any = None  # what the owner itself held
        self.layers: tuple[_Layer, ...] = ()
        self.only: _Layer | None = None  # the replacement where there is one, as nearly always
        self.observers: _Observers | None = None  # those that share one of the layers

    def hold(self, layers: tuple[_Layer, ...]) -> None:
        """Take these for the replacements that are on."""
        self.layers = layers
        self.only = layers[0] if len(layers) == 1 else None

    def below(self, layer: _Layer) -> tuple[_Layer, ...]:
        """The replacements under one; all that are on where it is on no more."""
        return self.layers[: self.layers.index(layer)] if layer in self.layers else self.layers

    def function(self, first: _Layer) -> Callable[..., Any]:
        """What stands in the function's place; a plain function, so that it binds as a method does.

        While `first` is the only replacement and acts for the thread that calls, it goes the quick way of its kind.
        """
        made = _like(first.standing(self), self.original)
        made.explorer_slot = self  # type: ignore[attr-defined]
        return made

    def through(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the topmost replacement that acts for this thread, by the general way."""
        return _through(self.original, self.layers, args, kwargs)


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
    """The function with the original's name and signature, but not its attributes, by which torch knows its own functions."""
    functools.update_wrapper(function, original, ("__module__", "__name__", "__qualname__", "__doc__"), ())
    return function


def guarded(original: Callable[..., Any], make: Callable[[Any], Any], step: str) -> Callable[..., Any]:
    """A function that calls what `make` makes of the original under the guard here, and the original where that fails."""
    slot = _Slot(original)
    layer = _Layer(slot, step, guard_here())
    layer.ours = make(layer.original())
    slot.hold((layer,))
    return slot.function(layer)


def guarded_always(original: Callable[..., Any], make: Callable[[Any], Any], step: str) -> Callable[..., Any]:
    """The same for a function that also runs after the recording, and in any thread; what is lost goes to the guard here."""
    with guarding(Guard(lambda: True, guard_here().losses)):
        return guarded(original, make, step)


@contextmanager
def shielded(make: Callable[[], AbstractContextManager[Any]], guard: Guard, step: str, leaving: str = "") -> Iterator[Any]:
    """Enter what `make` gives; where entering or leaving it fails, that is lost and the block runs all the same.

    Gives what was entered, None where that failed. An error of the block goes through.
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
    """`owner.name` is `make(original)` inside the block and exactly what it was after it.

    A function's replacement acts for whom the guard here covers, and is guarded as the module says; anything else is
    seen by every thread. AttributeError where `owner` has no such attribute: the torch at hand is not the one the hook knows.
    """
    return _replaced_by(_Layer, owner, name, make)


def replaced_pure(owner: Any, name: str, make: Callable[[Any], Any]) -> AbstractContextManager[None]:
    """`replaced` for a function that only computes something: it may be called twice where what `make` makes of it fails."""
    return _replaced_by(_Pure, owner, name, make)


@contextmanager
def _replaced_by(kind: type[_Layer], owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    if not _is_function(getattr(owner, name)):
        with replaced_in_plain_sight(owner, name, make):
            yield
        return
    with _layered(kind, owner, name, make):
        yield


@contextmanager
def _layered(kind: type[_Layer], owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Inside the block one more replacement stands in a function's place."""
    layer = _put_on(owner, name, make, kind)
    try:
        yield
    finally:
        _take_off_layer(owner, name, layer)


def followed(owner: Any, name: str, after: Callable[..., object]) -> AbstractContextManager[None]:
    """Inside the block `after(result, *args, **kwargs)` runs after each call of the function `owner.name` that returned.

    As by `replaced`, for whom the guard here covers; an error in it is lost, and the result is the function's own.
    """
    return _layered(_Following, owner, name, lambda _: after)


def preceded(owner: Any, name: str, before: Callable[..., object]) -> AbstractContextManager[None]:
    """Inside the block `before(*args, **kwargs)` runs before each call of the function `owner.name`.

    As by `replaced`, for whom the guard here covers; an error in it is lost, and the function is called all the same.
    """
    return _layered(_Preceding, owner, name, lambda _: before)


def _take_off_layer(owner: Any, name: str, layer: _Layer) -> None:
    """Take one replacement out of a function's place; with the last one the function itself is back."""
    with _CHANGING:
        slot = layer.slot
        slot.hold(tuple(other for other in slot.layers if other is not layer))
        if not slot.layers:
            _put_back(owner, name, slot.own)


def _put_on(owner: Any, name: str, make: Callable[[Any], Any], kind: type[_Layer]) -> _Layer:
    """One more replacement in a function's place."""
    with _CHANGING:
        original, own = getattr(owner, name), _own(owner, name)
        slot = getattr(original, "explorer_slot", None)
        if not isinstance(slot, _Slot) or own is _ABSENT:
            slot = _Slot(original)
        layer = kind(slot, _step_of(owner, name), guard_here())
        made = make(layer.original())
        # one of the owner's that is static must not be bound to the object through which it is called
        static = isinstance(made, (staticmethod, classmethod)) or isinstance(own, staticmethod)
        layer.ours = made.__get__(None, owner) if static else made
        if not slot.layers:
            slot.own = own
            in_place = slot.function(layer)
            setattr(owner, name, staticmethod(in_place) if static else in_place)
        slot.hold(tuple(sorted((*slot.layers, layer), key=lambda layer: isinstance(layer, _Outermost))))
        return layer


def _own(owner: Any, name: str) -> Any:
    """What the owner itself holds by a name: of an object with slots, what it has."""
    return vars(owner).get(name, _ABSENT) if hasattr(owner, "__dict__") else getattr(owner, name, _ABSENT)


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


class _PlainSight:
    """What stands in plain sight in the place of attributes: two threads may put something there, and not end in reverse."""

    def __init__(self) -> None:
        self._placed: dict[tuple[int, str], tuple[Any, list[list[Any]]]] = {}

    def put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> list[Any]:
        """Put `make(what is there)` in the attribute's place; gives what `take` asks for."""
        with _CHANGING:
            own = vars(owner).get(name, _ABSENT)
            _, placed = self._placed.setdefault((id(owner), name), (own, []))
            mine = [make(getattr(owner, name, _ABSENT))]
            placed.append(mine)
            setattr(owner, name, mine[0])
            return mine

    def has(self, owner: Any, name: str) -> bool:
        """Whether something stands in the attribute's place."""
        with _CHANGING:
            return (id(owner), name) in self._placed

    def take(self, owner: Any, name: str, mine: list[Any]) -> None:
        """Take it away again: the newest of the others is seen then, and at last what was there before all."""
        with _CHANGING:
            own, placed = self._placed[id(owner), name]
            placed[:] = [other for other in placed if other is not mine]
            if placed:
                setattr(owner, name, placed[-1][0])
            else:
                del self._placed[id(owner), name]
                _put_back(owner, name, own)


_PLAIN_SIGHT = _PlainSight()


@contextmanager
def replaced_in_plain_sight(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` is `make(original)` inside the block, for every thread and with nothing around it."""
    getattr(owner, name)  # AttributeError where there is none
    mine = _PLAIN_SIGHT.put(owner, name, make)
    try:
        yield
    finally:
        _PLAIN_SIGHT.take(owner, name, mine)


@contextmanager
def added_in_plain_sight(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name`, which need not exist, is `value` inside the block, for every thread and with nothing around it.

    For what a module's own functions look for among their globals, and for modules that Dynamo must know as modules.
    """
    mine = _PLAIN_SIGHT.put(owner, name, lambda _: value)
    try:
        yield
    finally:
        _PLAIN_SIGHT.take(owner, name, mine)


def is_replaced_here(owner: Any, name: str) -> bool:
    """Whether a function has a replacement that acts for this thread."""
    slot = getattr(getattr(owner, name), "explorer_slot", None)
    return isinstance(slot, _Slot) and any(layer.guard.acts(layer.step) for layer in slot.layers)


def answered(owner: Any, name: str, answer: Any) -> AbstractContextManager[None]:
    """`owner.name` is `answer` inside the block: for whom the guard here covers where there is one, else in plain sight."""
    if hasattr(owner, name) and not _PLAIN_SIGHT.has(owner, name):
        return replaced_pure(owner, name, lambda _: answer)  # the answer does not call it
    return added_in_plain_sight(owner, name, answer)


def _put_back(owner: Any, name: str, own: Any) -> None:
    if own is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, own)


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
    """All that observe one function: one replacement, which calls them in the order in which they were put on."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.members: tuple[_Observer, ...] = ()
        self.guard = Guard(self._acts)
        self.layer: _Layer | None = None

    def hold(self, members: tuple[_Observer, ...]) -> None:
        """Take these for the observers; where all are of one thread, they act in it without a question."""
        self.members = members
        threads = {member.guard.thread for member in members}
        self.guard.thread = threads.pop() if len(threads) == 1 else None

    def _acts(self) -> bool:
        return any(member.guard.acts(self.step) for member in self.members)

    def replacement(self, original: Callable[..., Any]) -> Callable[..., Any]:
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


@contextmanager
def observed(owner: Any, name: str, observer: Observer) -> Iterator[None]:
    """Inside the block `observer` is run around each call of the function `owner.name`, for whom the guard here covers.

    It is a generator function of the call's arguments with one `yield`, which gives the call's result, or raises its error.
    All observers of one function share one replacement: the first that was put on begins first and ends last. An error
    of one is written down under its own guard and keeps neither the others nor the function from running. AttributeError
    where there is no such function.
    """
    member = _Observer(observer, guard_here())
    with _CHANGING:
        observers = _observers_of(owner, name)
        observers.hold((*observers.members, member))
    try:
        yield
    finally:
        with _CHANGING:
            observers.hold(tuple(other for other in observers.members if other is not member))
            if not observers.members and observers.layer is not None:
                observers.layer.slot.observers = None
                _take_off_layer(owner, name, observers.layer)


def _observers_of(owner: Any, name: str) -> _Observers:
    """The observers of a function, put into its place where there are none yet."""
    slot = getattr(getattr(owner, name), "explorer_slot", None)
    if isinstance(slot, _Slot) and slot.observers is not None and name in vars(owner):
        return slot.observers
    observers = _Observers(_step_of(owner, name))
    static = isinstance(inspect.getattr_static(owner, name), (staticmethod, classmethod))

    def make(original: Callable[..., Any]) -> Any:
        made = observers.replacement(original)
        return staticmethod(made) if static else made

    with guarding(observers.guard):
        observers.layer = _put_on(owner, name, make, _Outermost)
    observers.layer.slot.observers = observers
    return observers


def _step_of(owner: Any, name: str) -> str:
    """What a replacement is called where it fails: the owner's name and the attribute's."""
    return f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"


# Values that each thread reads for itself -------------------------------------------------------------------------------


class _View:
    """An attribute that has another value for those whom a guard covers, and for others the very object that it was.

    On a class it is a descriptor. On a module it is a property of a class that the module gets for the while; a function's
    name inside the module itself, which is read past that, leads to the same. A module that Triton kernels name keeps its
    class, and has something in the attribute's place that each thread takes for what it is to see.
    """

    def __init__(self, name: str, own: Any, inherited: Any) -> None:
        self.name, self.own, self._inherited = name, own, inherited
        self.values: tuple[tuple[Guard, Any], ...] = ()

    def here(self) -> Any:
        """The value for this thread."""
        for guard, value in reversed(self.values):
            if guard.acts(self.name):
                return value
        if self._inherited is _ABSENT:
            raise AttributeError(self.name)
        return self._inherited

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        value = self.here()
        bind = getattr(type(value), "__get__", None)
        return value if bind is None else bind(value, instance, owner)


class _Either:
    """What stands in a module for a function or class: for each thread it is, and is equal to, what that thread is to see."""

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


class _Viewed(types.ModuleType):
    """The class of a module some of whose attributes each thread reads for itself."""


@contextmanager
def added(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` inside the block, whether or not there is one, for whom the guard here covers.

    `owner` is a class or a module. Others find what they found before; after the block everything is exactly what it was.
    """
    with _CHANGING:
        view = _view_of(owner, name)
        entry = (guard_here(), value)
        view.values = (*view.values, entry)
    try:
        yield
    finally:
        with _CHANGING:
            view.values = tuple(other for other in view.values if other is not entry)
            if not view.values:
                _take_off(owner, name, view)


def _view_of(owner: Any, name: str) -> _View:
    """The view in an attribute's place, put there where there is none."""
    own = vars(owner).get(name, _ABSENT)
    if isinstance(owner, type):
        if isinstance(own, _View):
            return own
        inherited = next((vars(kind)[name] for kind in owner.__mro__ if name in vars(kind)), _ABSENT)
        view = _View(name, own, inherited)
        setattr(owner, name, view)
        return view
    if type(own) is _Either:
        return own._explorer_view
    if callable(own) and in_kernels(owner):
        view = _View(name, own, own)
        vars(owner)[name] = _Either(view)
        return view
    return _view_of_module(owner, name, own)


def in_kernels(module: types.ModuleType) -> bool:
    """Whether a Triton kernel may name the module: triton then takes no other class for a module."""
    return module.__name__.startswith("triton.") or module.__name__.endswith(("triton_helpers", "libdevice"))


def _view_of_module(module: Any, name: str, own: Any) -> _View:
    """The view that a module's class has for an attribute; the module has such a class while there is one."""
    kind: Any = type(module)
    if not issubclass(kind, _Viewed):
        kind = type(kind.__name__, (_Viewed, kind) if kind is not types.ModuleType else (_Viewed,), {"explorer_views": {}})
        module.__class__ = kind
    views: dict[str, _View] = kind.explorer_views
    if name not in views:
        views[name] = view = _View(name, own, getattr(module, name, _ABSENT))
        setattr(kind, name, property(lambda _: view.here(), lambda module, other: vars(module).update({name: other})))
        if _is_function(own):
            vars(module)[name] = _Either(view)
    return views[name]


def _take_off(owner: Any, name: str, view: _View) -> None:
    """Put back what the view stands for; a module gets its own class again with the last of them."""
    kind: Any = type(owner)
    if not isinstance(owner, type) and name in getattr(kind, "explorer_views", ()):
        del kind.explorer_views[name]
        delattr(kind, name)
        if not kind.explorer_views:
            owner.__class__ = kind.__mro__[2]
        if view.own is not _ABSENT:
            vars(owner)[name] = view.own
        return
    _put_back(owner, name, view.own)
