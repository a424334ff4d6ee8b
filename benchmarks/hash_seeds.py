"""Does another hash seed change a text? A table of programs and the stages whose texts differ between two processes.

    python benchmarks/hash_seeds.py [--programs break sets …]

Each program is traced for an absent H100 in two processes, with PYTHONHASHSEED=1 and 2. The texts of both have to be equal. Only
those that say how long the compile took may differ. The first lines that differ stand under the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

#: Stages whose texts have measured times.
MEASURED = ("phase", "compilation_metrics")
SEEDS = ("1", "2")
#: The texts of a program: id → stage, title, text.
Texts = Mapping[str, tuple[str, str, str]]


# Programs ----------------------------------------------------------------------------------------------------------------


def graph_break() -> Any:
    """Break the graph; objects, functions and sets of strings stand in guards and bytecode."""
    import torch

    import explorer

    class Scale:
        names = frozenset(("one", "two", "three", "four"))

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if "two" in self.names else x

    scale = Scale()

    def program(x: torch.Tensor, y: torch.Tensor, kind: str) -> dict[str, torch.Tensor]:
        if x.dim() in {1, 2} and kind in {"r", "s", "t"}:
            x = scale(x) + y
        print("broken")
        return {name: value.cos() for name, value in (("x", x), ("y", y))}

    return explorer.trace(program, torch.ones(8), torch.ones(8), "r", target="h100")


def sets() -> Any:
    """Take a set, a frozenset and dicts as arguments, and iterate over them."""
    import torch

    import explorer

    def program(x: torch.Tensor, names: set[str], kinds: frozenset[str], scales: dict[str, float]) -> torch.Tensor:
        for name in sorted(names):
            x = x * scales[name] if name in kinds else x + scales[name]
        return x

    scales = {"a": 2.0, "b": 3.0, "c": 4.0}
    return explorer.trace(program, torch.ones(8), {"c", "b", "a"}, frozenset("bc"), scales, target="h100")


def training() -> Any:
    """Train a module with a buffer, dropout and a hook."""
    import torch
    from torch import nn

    import explorer

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
            self.norm.register_forward_hook(lambda module, args, output: output * 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = nn.functional.dropout(nn.functional.gelu(self.norm(self.linear(x))), 0.5)
            return x.softmax(-1).sum()

    return explorer.trace(Layers(), torch.randn(4, 8), target="h100", train=True)


def recompile() -> Any:
    """Compile a function again for another function in its arguments, and for another size."""
    import torch

    import explorer

    def program(x: torch.Tensor, fn: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return fn(x) + 1

    with explorer.record("h100") as recording:
        compiled = torch.compile(program)
        compiled(torch.ones(8), torch.sin)
        compiled(torch.ones(8), torch.cos)
        compiled(torch.ones(16), torch.cos)
    return recording.trace


def dynamic() -> Any:
    """Compile with dynamic sizes, and assert something of them."""
    import torch

    import explorer

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] > 4)
        return torch.cat([x, y]).view(-1, 2).cumsum(0)

    return explorer.trace(program, torch.ones(8, 4), torch.ones(6, 4), target="h100", dynamic=True)


def attention() -> Any:
    """Compute attention with matmuls that Inductor chooses templates for."""
    import torch

    import explorer

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        q, k, v = (x @ w).relu().view(4, 64, 3, 64).unbind(2)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v) @ w[:64, :64]

    return explorer.trace(program, torch.ones(256, 64), torch.ones(64, 192), target="h100", mode="max-autotune-no-cudagraphs")


def fallbacks() -> Any:
    """Sort, scatter, convolve and mutate an argument."""
    import torch

    import explorer

    def program(x: torch.Tensor, w: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.add_(1)
        y = torch.nn.functional.conv2d(x, w).relu()
        return y, x.flatten().sort().values, torch.zeros(8, device=x.device).scatter_add(0, index, x.flatten()[:8])

    x, w = torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3)
    return explorer.trace(program, x, w, torch.arange(8), target="h100")


def objects() -> Any:
    """Read a dataclass, a closure, a partial, a generator, a namedtuple and a module's settings."""
    import torch

    import explorer

    @dataclasses.dataclass
    class Setting:
        scale: float = 2.0
        name: str = "one"

    def outer(setting: Setting) -> Callable[..., torch.Tensor]:
        def inner(x: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
            parts = list(part.sin() for part in x.unbind())  # noqa: C400 the generator has a code object of its own
            return torch.stack(parts) * by * (setting.scale if setting.name == "one" else 1)

        return inner

    return explorer.trace(functools.partial(outer(Setting()), by=torch.ones(8)), torch.ones(4, 8), target="h100")


def autograd_function() -> Any:
    """Train through an autograd.Function and a checkpoint."""
    import torch
    from torch.utils.checkpoint import checkpoint

    import explorer

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * ctx.saved_tensors[0]

    def program(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(lambda y: Double.apply(y).sin().exp(), x, use_reentrant=False)
        return y.sum()

    return explorer.trace(program, torch.ones(8, requires_grad=True), target="h100", train=True)


#: Name → a function that gives a trace of it.
PROGRAMS: dict[str, Callable[[], Any]] = {
    "break": graph_break,
    "sets": sets,
    "training": training,
    "recompile": recompile,
    "dynamic": dynamic,
    "attention": attention,
    "fallbacks": fallbacks,
    "objects": objects,
    "autograd": autograd_function,
}


# The table ---------------------------------------------------------------------------------------------------------------


def child(names: list[str], file: Path) -> None:
    """Trace the programs, and write their texts to a file."""
    import torch

    written = {}
    for name in names:
        torch._dynamo.reset()
        torch.manual_seed(0)
        artifacts = PROGRAMS[name]().artifacts
        written[name] = {artifact.id: (artifact.stage, artifact.title, artifact.text) for artifact in artifacts}
    file.write_text(json.dumps(written), encoding="utf-8")


def texts(names: list[str]) -> list[Mapping[str, Texts]]:
    """Trace the programs in a process per hash seed; SystemExit if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{seed}.json" for seed in SEEDS]
        for seed, file in zip(SEEDS, files, strict=True):
            command = [sys.executable, __file__, "--child", str(file), "--programs", *names]
            done = subprocess.run(
                command,
                env={**os.environ, "PYTHONHASHSEED": seed},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def differences(one: Texts, two: Texts) -> Iterator[tuple[str, str]]:
    """Yield the stage of each text that differs, and how."""
    for id in dict.fromkeys([*one, *two]):
        first, second = one.get(id), two.get(id)
        stage = (first or second or ("",))[0]
        if stage in MEASURED or first == second:
            continue
        if first is None or second is None:
            yield stage, f"{id}: only with PYTHONHASHSEED={SEEDS[first is None]}"
            continue
        lines = [[title, *text.split("\n")] for _, title, text in (first, second)]
        pair = next((pair for pair in zip(*lines, strict=False) if pair[0] != pair[1]), ("one is longer", ""))
        yield stage, "\n".join((f"{id}:", *(f"    {line}" for line in pair)))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.programs, asked.child)
        return 0
    one, two = texts(asked.programs)
    print("| program | texts | stages | stages whose texts differ |\n| --- | ---: | ---: | --- |")
    details: list[str] = []
    for name in asked.programs:
        different = list(differences(one[name], two[name]))
        details += [f"{name} {detail}" for _, detail in different]
        stages = {stage for stage, _, _ in one[name].values()}
        differ = ", ".join(dict.fromkeys(stage for stage, _ in different)) or "none"
        print(f"| {name} | {len(one[name])} | {len(stages)} | {differ} |")
    for line in details:
        print(line)
    return 1 if details else 0


if __name__ == "__main__":
    sys.exit(main())
