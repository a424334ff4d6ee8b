"""Observe compiles that end with an error, and settings under which nothing is compiled."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any

from explorer.capture.observe.patch import Guard, followed, guard_here, guarding, replaced
from explorer.capture.observe.versions import compiles_backward_apart, compiles_in_stages
from explorer.model.events import CompileError, CompileSwallowed, Stance
from explorer.model.shared import Text
from explorer.model.stage import Emit

#: The settings that limit how often a frame is compiled.
LIMITS = ("accumulated_recompile_limit", "recompile_limit")
#: The stances under which a function that is not compiled yet is not compiled.
UNCOMPILED_STANCES = ("force_eager", "eager_on_recompile", "eager_then_compile", "aot_eager_then_compile", "fail_on_recompile")


@contextmanager
def failed_compiles(emit: Emit) -> Iterator[None]:
    """Record each compile that ends with an error, of a frame or of a backward, and whether Dynamo went on in Python."""
    watch = FailedCompiles(emit)
    with ExitStack() as stack:
        for hooks in (watch.frames, watch.backwards, watch.stances):
            stack.enter_context(hooks())
        yield


class Noting:
    """Pass an error that leaves the block to `note`."""

    def __init__(self, note: Callable[[Exception], None]) -> None:
        self._note = note

    def __enter__(self) -> Noting:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        if isinstance(error, Exception):
            self._note(error)


class FailedCompiles:
    """Emits `compile_error` for an error, and `compile_swallowed` where Dynamo runs the frame in Python instead."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._failed: list[str] = []  # the frames whose compile failed and that may yet be run in Python
        self._stances: set[str] = set()

    @contextmanager
    def frames(self) -> Iterator[None]:
        """Watch Dynamo compile frames."""
        from torch._dynamo import convert_frame

        def make_compile(original: Any) -> Any:
            signature = inspect.signature(original)

            def _compile(*args: Any, **kwargs: Any) -> Any:
                def note(error: Exception) -> None:
                    self._emit.attempt(
                        "dynamo", "error", lambda: self._frame_failed(signature.bind(*args, **kwargs).arguments, error)
                    )

                with Noting(note):
                    return original(*args, **kwargs)

            return _compile

        def make_convert(original: Any) -> Any:
            def __call__(convert: Any, *args: Any, **kwargs: Any) -> Any:
                before = len(self._failed)
                result = original(convert, *args, **kwargs)
                self._emit.attempt("dynamo", "error", lambda: self._went_on(before))
                return result

            return __call__

        with replaced(convert_frame, "_compile", make_compile), replaced(convert_frame.ConvertFrame, "__call__", make_convert):
            yield

    def _frame_failed(self, compiled: dict[str, Any], error: Exception) -> None:
        """Note that the compile of a frame ended with an error."""
        frame = str(compiled["compile_id"])
        self._failed.append(frame)
        code = compiled["code"]
        limit = limit_reached(error)
        value = limits()[limit] if limit else 0
        failed = replace(
            failed_graph(error, ""),
            function=code.co_qualname,
            file=code.co_filename,
            line=code.co_firstlineno,
            limit=limit,
            limit_value=value,
        )
        with self._emit.within(frame):
            self._emit.compile_failed(error, failed)
            if limit:
                message = f"{limit} ({value}) is reached: {code.co_name} is not compiled for this call"
                self._emit("recompile", lambda: Text(text=json.dumps([message])))

    def _went_on(self, before: int) -> None:
        """Record the errors since then that Dynamo swallowed."""
        swallowed = self._failed[before:]
        del self._failed[before:]
        for frame in swallowed:
            with self._emit.within(frame):
                self._emit("compile_swallowed", CompileSwallowed)

    @contextmanager
    def backwards(self) -> Iterator[None]:
        """Watch backends compile backward graphs, which AOTAutograd may leave until the backward runs."""
        from torch._functorch import aot_autograd

        def make(original: Any) -> Any:
            signature = inspect.signature(original)

            def aot_stage2_compile(*args: Any, **kwargs: Any) -> Any:
                given = signature.bind(*args, **kwargs).arguments
                compiler = given.get("bw_compiler") or given.get("fw_compiler")
                if inspect.isfunction(compiler) or inspect.ismethod(compiler):  # Inductor's is an object, cached by its type
                    given["bw_compiler"] = self._watched(compiler)
                return original(**given)

            return aot_stage2_compile

        def make_inductor(original: Any) -> Any:
            def compile_fx_backward(*args: Any, **kwargs: Any) -> Any:
                with Noting(self._backward_failed):
                    return original(*args, **kwargs)

            return compile_fx_backward

        from torch._inductor import compile_fx

        with ExitStack() as stack:
            if compiles_in_stages():
                stack.enter_context(replaced(aot_autograd, "aot_stage2_compile", make))
            if compiles_backward_apart():
                stack.enter_context(replaced(compile_fx, "compile_fx_backward", make_inductor))
            yield

    def _watched(self, compiler: Callable[..., Any]) -> Callable[..., Any]:
        def bw_compiler(*args: Any, **kwargs: Any) -> Any:
            with Noting(self._backward_failed):
                return compiler(*args, **kwargs)

        return bw_compiler

    def _backward_failed(self, error: Exception) -> None:
        self._emit.attempt("backward", "error", lambda: self._emit.compile_failed(error, failed_graph(error, "backward")))

    @contextmanager
    def stances(self) -> Iterator[None]:
        """Watch under which stance compiled functions are called: under some of them nothing is compiled.

        Dynamo asks for the stance ten thousand times a compile. That is followed only while there is another than the default.
        """
        from torch._dynamo import decorators, eval_frame

        def asked(_: Any, callback: Any) -> None:
            stance = eval_frame._stance.stance
            if stance != "default" and stance not in self._stances and callback not in (None, False):
                self._stances.add(stance)
                self._emit("stance", lambda: Stance(stance=stance))

        guard = guard_here()
        every_thread = Guard(lambda: True, guard.errors, stage=guard.stage)  # a stance is the whole process's

        with ExitStack() as stack, ExitStack() as following:

            def changed(*_: Any) -> None:
                following.close()
                if eval_frame._stance.stance != "default":
                    with guarding(guard):
                        following.enter_context(followed(eval_frame, "_callback_from_stance", asked))

            changed()
            with guarding(every_thread):
                stack.enter_context(followed(decorators, "_set_stance", changed))
            yield


def failed_graph(error: Exception, graph: str) -> CompileError:
    """Make the record of an error while a graph was compiled; what only a frame has is left empty."""
    from torch._dynamo.exc import Unsupported, UserError

    return CompileError(
        error=type(error).__name__,
        message=str(error).strip(),
        soft=isinstance(error, (Unsupported, UserError)),
        function="",
        file="",
        line=0,
        graph=graph,
        limit="",
        limit_value=0,
        number=0,
    )


def limit_reached(error: BaseException | None) -> str:
    """Name the limit on recompiles that an error reports; "" for other errors."""
    while error is not None:
        if "recompile limit exceeded" in str(error):
            return next((limit for limit in LIMITS if limit in str(error)), LIMITS[-1])
        error = error.__cause__
    return ""


def limits() -> dict[str, int]:
    """How often one function may be compiled, by the name of the setting."""
    import torch._dynamo.config

    return {limit: int(getattr(torch._dynamo.config, limit)) for limit in LIMITS}


def not_compiling() -> str:
    """Why torch.compile compiles nothing at all in this process; "" where it does."""
    import os

    import torch._dynamo.config

    for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if os.environ.get(name) == "1":
            return f"{name}=1 is set in the environment: unset it and start Python again"
    if torch._dynamo.config.disable:
        return "torch._dynamo.config.disable is True: set it to False"
    return ""
