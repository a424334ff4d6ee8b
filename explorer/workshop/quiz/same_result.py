"""Whether what a learner wrote computes what the program to begin with computes, compiled and in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from explorer.lab.live.protocol import needs_live
from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check
from explorer.workshop.quiz.programs import Program, undisturbed

#: How often inputs are drawn: the first draw is that of the trace, to which a graph may owe a constant.
DRAWS = 2
#: The share of the largest number by which results may differ, by the dtype of the result. Another is compared bit by bit.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 3e-2}

#: Where the operators of Dynamo's graphs are from that the compilers know.
OPEN = frozenset({"torch", "aten", "prims", "_operator", "operator", "builtins", "math"})


def gives(program: Program, *make_inputs: Callable[[], Iterable[Any]]) -> Check:
    """Make the check that a traced function gives what a program gives, for new random inputs."""

    def test(t: Trace) -> tuple[bool, str]:
        if not t.find("dynamo"):
            return False, "nothing was compiled"
        if why := hidden_operator(t):
            return False, why
        original, live = program.load(), needs_live(t, "comparing")
        with undisturbed():
            for make in make_inputs:
                for _ in range(DRAWS):
                    inputs = list(make())
                    expected = original(*map(_copied, inputs))
                    why = difference(t.live.run(*inputs), expected) or _changed(live.call.function, inputs)  # type: ignore[attr-defined]
                    if why:
                        return False, why
        return True, "equal for new random inputs"

    return Check(f"the same result as {program.name}", test)


def hidden_operator(t: Trace) -> str:
    """Name an operator that the program defines itself and no compiler sees into; "" if there is none."""
    nodes = [node for graph in t.find("dynamo") for node in graph.nodes if node["op"] == "call_function"]
    hidden = [node["target"] for node in nodes if node["target"].partition(".")[0] not in OPEN]
    return f"it calls {hidden[0]}, and the compiler does not see what that does" if hidden else ""


def _copied(value: Any) -> Any:
    """A copy of a tensor, which needs a gradient if it does."""
    return value.detach().clone().requires_grad_(value.requires_grad) if hasattr(value, "detach") else value


def _changed(function: Callable[..., Any], inputs: list[Any]) -> str:
    """Name the first input that a function changes; "" if it changes none."""
    import torch

    given = list(map(_copied, inputs))
    with torch.no_grad():
        function(*given)
    changed = [n for n, (one, other) in enumerate(zip(given, inputs, strict=True), 1) if difference(one, other)]
    return f"it changes argument {changed[0]} in place, and the program to begin with does not" if changed else ""


def difference(result: Any, expected: Any) -> str:
    """Say how a result differs from what is expected; "" if it does not. Strides do not count."""
    if isinstance(expected, (tuple, list)):
        if not isinstance(result, (tuple, list)) or len(result) != len(expected):
            return f"it gives back {_described(result)}, not {_described(expected)}"
        found = (difference(one, other) for one, other in zip(result, expected, strict=True))
        return next((f"output {n}: {why}" for n, why in enumerate(found, 1) if why), "")
    if not hasattr(result, "dtype") or (result.dtype, result.shape) != (expected.dtype, expected.shape):
        return f"it gives back {_described(result)}, not {_described(expected)}"
    return _apart(result.detach(), expected.detach())


def _apart(result: Any, expected: Any) -> str:
    """Say how far two tensors of one dtype and shape are apart; "" if that may be rounding."""
    import torch

    name = str(expected.dtype).removeprefix("torch.")
    if name not in TOLERANCES:
        count = int((result != expected).sum())
        return f"{count} of {expected.numel()} elements differ" if count else ""
    one, other = result.double(), expected.double()
    scale = max(1.0, float(other[torch.isfinite(other)].abs().max())) if torch.isfinite(other).any() else 1.0
    near = torch.isclose(one, other, rtol=0, atol=TOLERANCES[name] * scale, equal_nan=True)
    if bool(near.all()):
        return ""
    return f"{int((~near).sum())} of {expected.numel()} elements differ, by up to {float((one - other).abs().max()):.3g}"


def _described(value: Any) -> str:
    """A result in words: dtype and shape of a tensor."""
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_described, value))})"
    if hasattr(value, "dtype"):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__
