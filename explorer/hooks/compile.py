"""Call torch.compile afresh: never an earlier compile of the same function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.hooks.versions import isolates_recompiles


def unwrapped(function: Any) -> Any:
    """The function or module inside what torch.compile returned; anything else as it is."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable"):
        inner = getattr(function, "__dict__", {}).get(name) or getattr(function, "__dict__", {}).get("_modules", {}).get(name)
        if inner is not None:
            return unwrapped(inner)
    return function


def compiled_afresh(function: Any, backend: Any, options: Mapping[str, Any]) -> Callable[..., Any]:
    """torch.compile(function, backend, **options), with a cache of its own."""
    import torch

    if isolates_recompiles():
        compiled: Callable[..., Any] = torch.compile(function, backend=backend, isolate_recompiles=True, **options)
        return compiled
    return torch.compile(function, backend=_unlike_any_other(backend, options), **_without_backend_options(backend, options))


def _without_backend_options(backend: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for torch.compile that a backend made here does not hold already."""
    return {k: v for k, v in options.items() if k not in ("mode", "options") or backend != "inductor"}


def _unlike_any_other(backend: Any, options: Mapping[str, Any]) -> Any:
    """A backend that equals no other, so that Dynamo finds no earlier compile with it."""
    import torch

    if backend == "inductor":

        class Inductor(torch._TorchCompileInductorWrapper):  # type: ignore[misc]
            __eq__ = object.__eq__
            __hash__ = object.__hash__

        mode = options.get("mode") or (None if options.get("options") else "default")
        return Inductor(mode, options.get("options"), options.get("dynamic"))
    if isinstance(backend, str):
        found = torch._dynamo.lookup_backend(backend)
        return lambda gm, inputs, **kwargs: found(gm, inputs, **kwargs)
    return lambda gm, inputs, **kwargs: backend(gm, inputs, **kwargs)


def is_compiler_error(error: BaseException) -> bool:
    """True for an error of the compiler; False for one that the user's own function raised."""
    from torch._dynamo.exc import TorchDynamoException

    named = {type(e).__module__.partition(".")[0] + "." + type(e).__name__ for e in _chain(error)}
    return isinstance(error, TorchDynamoException) or "torch.InductorError" in named


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def advice(error: BaseException) -> str:
    """What the user can do about a compiler error, where that is known; "" elsewhere."""
    if any(type(e).__name__ == "InvalidCxxCompiler" for e in _chain(error)):
        return (
            "no C++ compiler works here, and Inductor needs one for the CPU: install g++ "
            "(Debian, Ubuntu: `apt install g++`; Fedora: `dnf install gcc-c++`; macOS: `xcode-select --install`)"
        )
    return ""


def entry_code(function: Any) -> Any:
    """The code object of a function, a method or a module's forward; None for callables without one."""
    for candidate in (getattr(function, "forward", None), function, getattr(function, "__call__", None)):
        code = getattr(getattr(candidate, "__func__", candidate), "__code__", None)
        if code is not None:
            return code
    return None


def valid_options(backend: Any) -> tuple[str, ...]:
    """The names Inductor takes in `options=`; none are known for other backends."""
    if backend != "inductor":
        return ()
    import torch._inductor

    return tuple(torch._inductor.list_options())


def valid_modes() -> tuple[str, ...]:
    """The names torch.compile takes in `mode=`."""
    import torch._inductor

    return ("default", *(m for m in torch._inductor.list_mode_options() if m != "default"))


def torch_versions() -> dict[str, str]:
    """The versions that made a trace."""
    from explorer.hooks.versions import python_version, version_of

    return {"torch": version_of("torch"), "triton": version_of("triton"), "python": python_version()}
