"""Does a trace show everything, however the function was used before? A table of uses × kinds of callables × targets.

    python benchmarks/used_before.py [--targets cpu h100] [--uses no_grad …] [--kinds module …]

Each cell makes a program, uses it once in the way that is named, and traces it. The oracle is the trace of an equal program that
nothing has used: the trace has to have the same stages and the same kernels, and its `check()` has to compare something. A cell
that differs prints how. All cells run in one process; each begins with `torch._dynamo.reset()`.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import nn

import explorer
from explorer.tracing.traced import Trace

SIZE = 16


def body(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What every program computes."""
    return torch.relu(x @ weight).softmax(-1)


class Layer(nn.Module):
    """A module, and a method of an object."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(SIZE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return body(x, self.weight)

    def other(self, x: torch.Tensor) -> torch.Tensor:
        return body(x, self.weight)


class Object:
    """An object with `__call__`, which is no module."""

    def __init__(self) -> None:
        self.weight = torch.eye(SIZE, requires_grad=True)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return body(x, self.weight)


def new_function() -> Callable[[torch.Tensor], torch.Tensor]:
    """Make a function that shares its code with nothing that was used before."""
    space: dict[str, Any] = {"weight": torch.eye(SIZE, requires_grad=True)}
    exec("def program(x):\n    return (x @ weight).relu().softmax(-1)\n", space)
    function: Callable[[torch.Tensor], torch.Tensor] = space["program"]
    return function


def new_object(kind: type) -> Any:
    """Make an object of a class whose functions share their code with nothing that was used before."""
    functions = {name: copied(value) for name, value in vars(kind).items() if callable(value) and name != "__init__"}
    return type(kind.__name__, (kind,), functions)()


def copied(function: Any) -> Any:
    """Copy a function with its code."""
    return type(function)(function.__code__.replace(), globals(), function.__name__, function.__defaults__, function.__closure__)


#: Kind → a function that makes a program.
KINDS: dict[str, Callable[[], Any]] = {
    "function": new_function,
    "method": lambda: new_object(Layer).other,
    "module": lambda: new_object(Layer),
    "partial": lambda: functools.partial(new_function()),
    "callable": lambda: new_object(Object),
    "compiled function": lambda: torch.compile(new_function()),
    "compiled module": lambda: torch.compile(new_object(Layer)),
}


def given() -> torch.Tensor:
    """Make the argument."""
    return torch.arange(8.0 * SIZE).reshape(8, SIZE).cos()


# Uses --------------------------------------------------------------------------------------------------------------------


def compiled_under(context: Callable[[], Any], **options: Any) -> Callable[[Any], None]:
    """Use a program by compiling and calling it inside a context."""

    def use(program: Any) -> None:
        with context():
            torch.compile(program, **options)(given())

    return use


def traced_under(context: Callable[[], Any]) -> Callable[[Any], None]:
    """Use a program by tracing it inside a context."""

    def use(program: Any) -> None:
        with context():
            explorer.trace(program, given(), target="h100")

    return use


def trained(program: Any) -> None:
    """Take a step of training."""
    torch.compile(program)(given().requires_grad_()).sum().backward()


def at_its_limit(program: Any) -> None:
    """Compile more often than Dynamo does for one function."""
    compiled = torch.compile(program, backend="eager", dynamic=False)
    for rows in range(1, torch._dynamo.config.recompile_limit + 4):
        compiled(given()[:1].expand(rows, SIZE))


def broken(graph: Any, inputs: Any) -> Any:
    """Fail, as a backend."""
    raise RuntimeError("broken")


def failed(program: Any) -> None:
    """Compile with a backend that fails, whose errors torch suppresses."""
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(program, backend=broken)(given())


def failed_loudly(program: Any) -> None:
    """Compile with a backend that fails."""
    with suppress(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(program, backend=broken)(given())


def in_place(program: Any) -> None:
    """Compile a module in place; compile and call another program."""
    if isinstance(program, nn.Module):
        program.compile()
        program(given())
    else:
        torch.compile(program)(given())


def recorded(program: Any) -> None:
    """Record a compile of the program."""
    with explorer.record():
        torch.compile(program)(given())


def disabled(program: Any) -> None:
    """Call the program with Dynamo disabled."""
    torch.compiler.disable(program)(given())


def eager(program: Any) -> None:
    """Call the program without compiling it."""
    program(given())


#: Use → a function that uses a program.
USES: dict[str, Callable[[Any], None]] = {
    "nothing": lambda program: None,
    "eager": eager,
    "compiled": compiled_under(torch.enable_grad),
    "no_grad": compiled_under(torch.no_grad),
    "inference_mode": compiled_under(torch.inference_mode),
    "autocast": compiled_under(lambda: torch.autocast("cpu", torch.bfloat16)),
    "trained": trained,
    "dynamic": compiled_under(torch.enable_grad, dynamic=True),
    "fullgraph": compiled_under(torch.no_grad, fullgraph=True),
    "mode": compiled_under(torch.no_grad, mode="max-autotune-no-cudagraphs"),
    "backend eager": compiled_under(torch.no_grad, backend="eager"),
    "backend aot_eager": compiled_under(torch.no_grad, backend="aot_eager"),
    "limit": at_its_limit,
    "failed, suppressed": failed,
    "failed": failed_loudly,
    "force_eager": compiled_under(lambda: torch.compiler.set_stance("force_eager")),
    "eager_on_recompile": compiled_under(lambda: torch.compiler.set_stance("eager_on_recompile")),
    "in place": in_place,
    "disabled": disabled,
    "recorded": recorded,
    "traced": traced_under(torch.enable_grad),
    "traced under no_grad": traced_under(torch.no_grad),
}


#: How the program is traced afterwards: name → settings of `explorer.trace`, and the context.
TRACES: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
    "inference": ({}, torch.no_grad),
    "grad": ({}, torch.enable_grad),
    "training": ({"train": True}, torch.enable_grad),
    "mode": ({"mode": "max-autotune-no-cudagraphs"}, torch.no_grad),
}


# Cells -------------------------------------------------------------------------------------------------------------------


def seen(trace: Trace) -> tuple[Counter[str], Counter[str]]:
    """Count the texts of each stage, and the kernels' names.

    torch calls callable objects in a function of its own, unless an earlier compile of that function failed.
    """
    stages = Counter(artifact.stage for artifact in trace.artifacts if not artifact.title.startswith("wrap_inline."))
    return stages, Counter(kernel.name for kernel in trace.kernels)


def traced(kind: str, use: str, how: str, target: str) -> Trace:
    """Make a program of a kind, use it, and trace it."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    program = KINDS[kind]()
    USES[use](program)
    settings, context = TRACES[how]
    x = given().requires_grad_("train" in settings)
    with context():
        return explorer.trace(program, x, target=target, **settings)


#: Stages whose number depends on what torch's caches held, or on how long the compile took.
UNSTEADY = ("phase", "perf_hint", "cache", "setting", "autotune", "candidate")


def difference(kind: str, use: str, how: str, target: str, expected: Trace) -> str:
    """Say how the trace of a used program differs from that of an unused one; "" where it does not."""
    try:
        trace = traced(kind, use, how, target)
    except Exception as error:  # noqa: BLE001 each is a row of the table
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    (stages, kernels), (all_stages, all_kernels) = seen(trace), seen(expected)
    lost = {name: n for name, n in ((all_stages - stages) + (stages - all_stages)).items() if name not in UNSTEADY}
    if kernels != all_kernels or lost:
        return f"kernels {sum(kernels.values())} of {sum(all_kernels.values())}, stages {lost}"
    try:
        rows = trace.check()
    except Exception as error:  # noqa: BLE001 each is a row of the table
        return f"check: {type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return "" if rows and all(row["equal"] for row in rows) else f"check: {list(rows)}"


def main() -> int:
    """Run the cells, print those that differ, and how many were whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=["h100", "cpu"])
    parser.add_argument("--uses", nargs="+", default=list(USES), choices=list(USES))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--traces", nargs="+", default=list(TRACES), choices=list(TRACES))
    asked = parser.parse_args()
    cells = whole = 0
    for target in asked.targets:
        for how in asked.traces:
            for kind in asked.kinds:
                expected = traced(kind, "nothing", how, target)
                if not expected.kernels:
                    print(f"{target} {how} {kind}: nothing to compare with", flush=True)
                for use in asked.uses:
                    cells += 1
                    found = difference(kind, use, how, target, expected)
                    whole += not found
                    if found:
                        print(f"{target:5} {how:9} {kind:18} {use:22} {found}", flush=True)
    print(f"{whole} of {cells} whole")
    return 0 if whole == cells else 1


if __name__ == "__main__":
    sys.exit(main())
