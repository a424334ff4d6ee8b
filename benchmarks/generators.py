"""What explorer has of the kernels of each of Inductor's code generators that run here: a row per generator and program.

    python benchmarks/generators.py
    python benchmarks/generators.py --generators pallas --programs scatter

Links are the computing lines of the kernels that lead to FX nodes. Below are the texts under a kernel's source that could be
made, of those that there may be. What does not compile here has its reason below the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Generator(NamedTuple):
    """A code generator of Inductor: the options that choose it, and the device that it writes for."""

    options: Mapping[str, str]
    device: str = "cpu"


#: A generator that is not installed, or whose device is not here, has a row that says so.
GENERATORS = {
    "cpp": Generator({"cpu_backend": "cpp"}),
    "pallas": Generator({"cpu_backend": "pallas"}),
    "halide": Generator({"cpu_backend": "halide"}),
    "metal": Generator({}, "mps"),
}


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.gelu(self.up(x))).sigmoid() * 2


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, 4, 16).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(x) + x)


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.convolution(x))).mean((2, 3))


class Scatter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.rows = nn.Parameter(torch.randn(16, 8)), nn.Embedding(20, 8)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        added = torch.zeros(16, 8, device=x.device).index_add(0, index, x * 2)
        put = (added + self.weight).index_put((index,), x + 1)
        return put.cos().sum(1), self.rows(index) * 3


#: A model, and what makes its inputs.
PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "mlp": (Mlp, lambda: (torch.randn(32, 64),)),
    "attention": (Attention, lambda: (torch.randn(2, 16, 64),)),
    "layer norm": (Norm, lambda: (torch.randn(32, 64),)),
    "convolution": (Convolution, lambda: (torch.randn(2, 3, 16, 16),)),
    "scatter": (Scatter, lambda: (torch.randn(8, 8), torch.arange(8) * 2)),
}
COLUMNS = ("generator", "program", "compiles here", "source lines", "kernels", "links", "below", "check equal")


def traced(generator: Generator, program: str, train: bool) -> Any:
    """The trace of a program by a generator; an error that is not the compiler's is the caller's."""
    import explorer

    torch.manual_seed(0)
    model, inputs = PROGRAMS[program]
    given = [tensor.to(generator.device) for tensor in inputs()]
    return explorer.trace(model().to(generator.device), *given, train=train, options=dict(generator.options))


def row(generator: str, program: str, train: bool) -> tuple[dict[str, str], str]:
    """The cells of a row, and why the program does not compile here, "" where it does."""
    cells = dict.fromkeys(COLUMNS, "")
    cells |= {"generator": generator, "program": f"{program}, training" if train else program}
    try:
        trace = traced(GENERATORS[generator], program, train)
    except Exception as error:  # noqa: BLE001 whatever keeps a generator from running is its row
        return cells | {"compiles here": "no"}, f"{type(error).__name__}: {error}"
    why = next((failure.message for failure in trace.failures if failure.fatal), "")
    cells["compiles here"] = "no" if why else "yes"
    cells["kernels"] = str(len(trace.kernels))
    cells["source lines"] = str(sum(len(kernel.artifact.lines) for kernel in trace.kernels))
    linked, computing = links(trace)
    cells["links"] = f"{linked} of {computing}, {linked / computing:.1%}" if computing else ""
    if not why:
        made, possible = below(trace)
        cells["below"] = f"{made} of {possible}"
        rows = trace.check()
        cells["check equal"] = f"{sum(bool(each['equal']) for each in rows)} of {len(rows)}"
    return cells, why


def links(trace: Any) -> tuple[int, int]:
    """How many computing lines of the kernels lead to FX nodes, and how many there are."""
    from explorer.stages.kinds import kernel_kinds

    linked = computing = 0
    for kernel in trace.find("kernel"):
        lines = {number for number, kind in enumerate(kernel_kinds(kernel), 1) if not kind}
        to_nodes = [link for link in trace.links if link.source == kernel.id and ":post_grad" in link.target]
        computing += len(lines)
        linked += len(lines & {number for link in to_nodes for number in link.source_lines})
    return linked, computing


def below(trace: Any) -> tuple[int, int]:
    """How many texts under the kernels' sources could be made, and how many there may be."""
    from explorer.errors import ExplorerError

    made = possible = 0
    for kernel in trace.kernels:
        for stage in kernel.stages[1:]:
            possible += 1
            try:
                made += not kernel.text(stage).startswith("// JAX does not make it")
            except ExplorerError:
                continue
    return made, possible


def table(generators: list[str], programs: list[str]) -> Iterator[str]:
    """The lines of the table, and of the reasons below it."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| {' | '.join('---' for _ in COLUMNS)} |"
    reasons = []
    for generator in generators:
        for program in programs:
            for train in (False, True):
                cells, why = row(generator, program, train)
                yield f"| {' | '.join(cells.values())} |"
                if why:
                    reasons.append(f"{generator}, {cells['program']}: {' '.join(why.split())[:300]}")
    yield from ("", *reasons)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generators", nargs="*", choices=GENERATORS, default=list(GENERATORS))
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    arguments = parser.parse_args()
    for line in table(arguments.generators, arguments.programs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
