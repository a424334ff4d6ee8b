"""Compile a model in pieces, as vLLM does, with a warm cache: seconds and cache hits with and without explorer.record().

    python benchmarks/cached_compile.py                 5 runs of each, alternately, each in a process of its own
    python benchmarks/cached_compile.py --pairs 2 --blocks 2

A backend of torch.compile splits Dynamo's graph at each attention, as vLLM does, compiles the pieces between by
`torch._inductor.standalone_compile`, and keeps the artifact of every other one. The first process fills the cache. Each process
after it loads these artifacts; the other pieces come from the caches of graphs. Imports, explorer's too, come before the seconds.
Each pair's ratios are printed, the median of all, and the ratio of the quickest run of each kind; processor seconds suffer less
from other programs. Beside them stand torch's counters of hits and misses, which must be the same, and what the trace has.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COUNTED = {"inductor": ("fxgraph_cache_hit", "fxgraph_cache_miss"), "aot_autograd": ("autograd_cache_hit", "autograd_cache_miss")}

# In the child -----------------------------------------------------------------------------------------------------


def attention(query: Any, key: Any, value: Any) -> Any:
    """What vLLM runs outside of the compiled pieces."""
    return (query @ key.transpose(0, 1)).softmax(-1) @ value


def model(blocks: int, width: int) -> Any:
    """Blocks of a transformer, whose attention is an operator of its own."""
    import torch

    schema = "(Tensor query, Tensor key, Tensor value) -> Tensor"
    op = torch.library.custom_op("cached_compile::attention", attention, mutates_args=(), schema=schema)
    op.register_fake(lambda query, key, value: torch.empty_like(query))

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(width)
            self.joint, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            query, key, value = (part.contiguous() for part in self.joint(self.norm(x)).chunk(3, -1))
            return x + torch.nn.functional.gelu(self.out(op(query, key, value)))

    torch.manual_seed(0)
    return torch.nn.Sequential(*(Block() for _ in range(blocks)))


def pieces(graph: Any) -> tuple[Any, list[str]]:
    """Split a graph at each attention; the names of the pieces between."""
    from torch.fx.passes.split_module import split_module

    number, numbers, apart = 0, {}, set()
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        alone = "cached_compile" in str(node.target)
        number += alone
        numbers[node] = number
        if alone:
            apart.add(number)
            number += 1
    split = split_module(graph, None, lambda node: numbers[node], keep_original_order=True)
    return split, [name for name, _ in split.named_children() if int(name.split("_")[-1]) not in apart]


def piecewise(folder: Path) -> Any:
    """A backend that compiles each piece by standalone_compile; the artifact of every other one is kept in `folder`."""
    import torch

    def compiled_piece(number: int, piece: Any, inputs: Any) -> Any:
        file = folder / f"piece_{number}"
        if file.exists():
            return torch._inductor.CompiledArtifact.load(path=str(file), format="unpacked")
        made = torch._inductor.standalone_compile(piece, inputs, dynamic_shapes="from_graph", options={})
        if number % 2 == 0:
            made.save(path=str(file), format="unpacked")
        return made

    class Pieces(torch.fx.Interpreter):
        """Runs the split graph on fake tensors, to know the inputs of each piece."""

        def __init__(self, split: Any, names: list[str]) -> None:
            super().__init__(split)
            self.names, self.compiled = names, {}

        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target in self.names:
                self.compiled[target] = compiled_piece(self.names.index(target), self.module.get_submodule(target), list(args))
            return super().call_module(target, args, kwargs)

    def backend(graph: Any, inputs: list[Any]) -> Any:
        split, names = pieces(graph)
        mode = torch._guards.TracingContext.get().fake_mode
        pieces_of = Pieces(split, names)
        with mode:
            pieces_of.run(*[mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs])
        for name, made in pieces_of.compiled.items():
            setattr(split, name, _Called(made))
        return split

    class _Called(torch.nn.Module):
        def __init__(self, made: Any) -> None:
            super().__init__()
            self.made = made

        def forward(self, *args: Any) -> Any:
            given = self.made(*args)
            return given[0] if isinstance(given, (list, tuple)) and len(given) == 1 else given

    return backend


def child(folder: Path, blocks: int, width: int, recorded: bool) -> None:
    """Compile and call once, and print what it took as JSON."""
    import torch
    import torch._inductor.compile_fx
    import torch._inductor.standalone_compile
    from torch._dynamo.utils import counters

    import explorer

    function, x = model(blocks, width), torch.ones(16, width)
    torch.compile(lambda x: x @ x)(torch.ones(4, 4))  # imports
    with explorer.record() if recorded else contextlib.nullcontext():
        torch.compile(lambda x: x @ x.T)(torch.ones(4, 4))
    counters.clear()
    with torch.no_grad():
        expected = function(x)
        began, used = time.perf_counter(), _used()
        with explorer.record() if recorded else contextlib.nullcontext() as recording:
            given = torch.compile(function, backend=piecewise(folder), fullgraph=True)(x)
        seconds, cpu = time.perf_counter() - began, _used() - used
    counts = {name: counters[of][name] for of, names in COUNTED.items() for name in names}
    equal = bool(torch.allclose(given, expected, atol=1e-4))
    found = {"seconds": seconds, "cpu": cpu, "counts": counts, "equal": equal, "sum": float(given.double().sum())}
    if recorded:
        trace = recording.trace
        states = [f"{row['cache']} {row['state']}" for row in trace.compiler.caches]
        found["rows"] = {state: states.count(state) for state in dict.fromkeys(states)}
        found["kernels"], found["failures"] = len(trace.kernels), [str(failure) for failure in trace.failures]
    print(json.dumps(found))


def _used() -> float:
    """Processor seconds of this process and of those that it waited for."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


# In the parent ----------------------------------------------------------------------------------------------------


def run(folder: Path, options: argparse.Namespace, recorded: bool) -> dict[str, Any]:
    """One process."""
    arguments = ["--child", "recorded" if recorded else "plain", "--folder", str(folder)]
    sizes = ["--blocks", str(options.blocks), "--width", str(options.width)]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}
    command = [sys.executable, __file__, *arguments, *sizes]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def pair(folder: Path, options: argparse.Namespace, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two processes, the one under record() first in every other pair; what they took is printed at once."""
    recorded_first = bool(number % 2)
    runs = {recorded: run(folder, options, recorded) for recorded in (recorded_first, not recorded_first)}
    took = ", ".join(f"{runs[True][key] / runs[False][key]:.3f} of {runs[False][key]:.2f} {key}" for key in ("seconds", "cpu"))
    print(f"pair {number + 1}: {took}", file=sys.stderr, flush=True)
    return runs[False], runs[True]


def table(runs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """What the pairs took, and what they counted."""
    plain, recorded = zip(*runs, strict=True)
    lines = ["| | seconds | CPU s | FX graph hits, misses | AOTAutograd hits, misses |", "| --- | --- | --- | --- | --- |"]
    for name, group in (("torch.compile", plain), ("under record()", recorded)):
        seconds, cpu = (statistics.median(one[key] for one in group) for key in ("seconds", "cpu"))
        counts = list(group[0]["counts"].values())
        lines.append(f"| {name} | {seconds:.2f} | {cpu:.2f} | {counts[0]}, {counts[1]} | {counts[2]}, {counts[3]} |")
    for key in ("seconds", "cpu"):
        ratios = sorted(b[key] / a[key] for a, b in runs)
        least = min(b[key] for _, b in runs) / min(a[key] for a, _ in runs)
        spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
        lines.append(f"ratio of {key}: median {statistics.median(ratios):.3f} ({spread}), of the quickest of each {least:.3f}")
    same = all(a["counts"] == b["counts"] and a["sum"] == b["sum"] and a["equal"] and b["equal"] for a, b in runs)
    lines.append(f"hits, misses and results the same in every pair: {same}")
    lines.append(f"in the trace: {recorded[-1]['kernels']} kernels, {recorded[-1]['rows']}, failures {recorded[-1]['failures']}")
    return "\n".join(lines)


def main() -> None:
    """Fill the cache, then measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", choices=("plain", "recorded"))
    options = parser.parse_args()
    if options.child:
        child(options.folder, options.blocks, options.width, options.child == "recorded")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        for _ in range(2):  # the second has what only a warm process writes
            run(folder, options, recorded=False)
        print(table([pair(folder, options, number) for number in range(options.pairs)]))


if __name__ == "__main__":
    main()
