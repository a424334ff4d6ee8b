"""Measure the cost of tracing a compile: torch.compile alone, under explorer.trace, and under its peers.

Each measurement runs in a process of its own with caches of its own; the tools take turns, so that a slow minute
of the machine hits all of them. Nothing is asserted: the tables are to be read.

    python benchmarks/compile_cost.py                        the comparison, on every workload
    python benchmarks/compile_cost.py --growth               GPT-2 of 6, 12, 24 and 48 layers
    python benchmarks/compile_cost.py --after                calls of the compiled function after its trace
    python benchmarks/compile_cost.py --tools plain record --warm --train --device cuda
                                                             a recorded training step whose compile the caches have

`python benchmarks/compile_cost.py --help` lists the options, benchmarks/README.md says how to read the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Result = dict[str, Any]
MIB = 1024 * 1024
LAYERS = (6, 12, 24, 48)
PACKAGES = ("torch", "triton", "transformers", "depyf")

#: Environment variables of the caller's that would change what is measured.
SET_ASIDE = (
    "TORCH_COMPILE_DEBUG",
    "TORCH_TRACE",
    "TORCH_LOGS",
    "TORCHINDUCTOR_FX_GRAPH_CACHE",
    "TORCHINDUCTOR_AUTOGRAD_CACHE",
)

# Workloads: name → (function or module, its arguments) ------------------------------------------------------------


def sin_cos(device: str) -> tuple[Any, tuple[Any, ...]]:
    """sin²+cos² of a vector: the smallest compile there is."""
    import torch

    def function(x: Any) -> Any:
        return torch.sin(x) ** 2 + torch.cos(x) ** 2

    return function, (torch.randn(10_000, device=device),)


def mlp(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Three linear layers with GELU between them."""
    import torch
    from torch import nn

    layers = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 64))
    return layers.to(device).eval(), (torch.randn(32, 256, device=device),)


def attention(device: str) -> tuple[Any, tuple[Any, ...]]:
    """Multi-head self-attention: projections, scaled_dot_product_attention, projection."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, width: int = 256, heads: int = 8) -> None:
            super().__init__()
            self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            parts = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = parts[0], parts[1], parts[2]
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    return Attention().to(device).eval(), (torch.randn(4, 128, 256, device=device),)


def gpt2(layers: int, device: str) -> tuple[Any, tuple[Any, ...]]:
    """GPT-2 with its language model head, random weights, one sequence of 64 tokens, no key-value cache."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False)).to(device).eval()
    return model, (torch.randint(0, model.config.vocab_size, (1, 64), device=device),)


BUILDERS: Mapping[str, Callable[[str], tuple[Any, tuple[Any, ...]]]] = {
    "sin_cos": sin_cos,
    "mlp": mlp,
    "attention": attention,
}
WORKLOADS = (*BUILDERS, "gpt2-6", "gpt2-12")


def workload(name: str) -> str:
    """`name` where it is a workload; an argparse error that lists them where it is not."""
    if name in BUILDERS or (name.startswith("gpt2-") and name[5:].isdigit() and int(name[5:]) > 0):
        return name
    raise argparse.ArgumentTypeError(f"no workload {name!r}: there are {', '.join(BUILDERS)} and gpt2-N for N layers")


def built(name: str, device: str, train: bool) -> tuple[Any, tuple[Any, ...]]:
    """Build a workload's function and arguments; to train, the module trains and floating inputs require gradients."""
    import torch

    torch.manual_seed(0)
    function, args = BUILDERS[name](device) if name in BUILDERS else gpt2(int(name[5:]), device)
    if train:
        args = tuple(a.requires_grad_() if a.is_floating_point() else a for a in args)
        function = function.train() if isinstance(function, torch.nn.Module) else function
    return function, args


# Tools: name → the environment it needs, what it imports, and the call that is timed ------------------------------


def environment(tool: str, folder: Path) -> dict[str, str]:
    """The environment variables that switch a tool on; what it writes goes under `folder`."""
    if tool == "debug":
        return {"TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(folder / "debug")}
    if tool == "torch_trace":
        return {"TORCH_TRACE": str(folder / "trace")}
    return {}


def run_step(function: Any, args: tuple[Any, ...], train: bool) -> None:
    """Make one call without gradients; to train, differentiate the sum of the outputs as explorer.trace does."""
    import torch
    from torch.utils import _pytree as pytree

    if not train:
        with torch.no_grad():
            function(*args)
        return
    outputs = [leaf for leaf in pytree.tree_leaves(function(*args)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    parameters = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    leaves = [*(a for a in args if a.requires_grad), *parameters]
    torch.autograd.grad(sum(output.sum() for output in outputs), leaves, allow_unused=True)


def call_plain(function: Any, args: tuple[Any, ...], train: bool, folder: Path) -> Result:
    """Call torch.compile and nothing else; `debug` and `torch_trace` run it too, switched on by the environment."""
    import torch

    run_step(torch.compile(function), args, train)
    return {}


def call_explorer(function: Any, args: tuple[Any, ...], train: bool, folder: Path) -> Result:
    """Call explorer.trace, up to the finished Trace."""
    import explorer

    trace = explorer.trace(function, *args, train=train)
    return {"cost": trace.meta["cost"], "artifacts": len(trace.artifacts), "failures": [str(f) for f in trace.failures]}


def call_record(function: Any, args: tuple[Any, ...], train: bool, folder: Path) -> Result:
    """Call torch.compile inside explorer.record, and read the recording's trace."""
    import explorer

    with explorer.record() as recording:
        call_plain(function, args, train, folder)
    began = time.perf_counter()
    trace = recording.trace
    found = {"artifacts": len(trace.artifacts), "failures": [str(f) for f in trace.failures]}
    return {**found, "reading": time.perf_counter() - began}


def call_depyf(function: Any, args: tuple[Any, ...], train: bool, folder: Path) -> Result:
    """Compile inside depyf.prepare_debug, and leave the block, which writes the files."""
    import depyf

    with depyf.prepare_debug(str(folder / "depyf")):
        return call_plain(function, args, train, folder)


CALLS = {
    "plain": call_plain,
    "explorer": call_explorer,
    "record": call_record,
    "depyf": call_depyf,
    "debug": call_plain,
    "torch_trace": call_plain,
}
TITLES = {
    "plain": "torch.compile",
    "explorer": "explorer.trace",
    "record": "explorer.record",
    "depyf": "depyf",
    "debug": "TORCH_COMPILE_DEBUG=1",
    "torch_trace": "TORCH_TRACE",
}


# In the child -----------------------------------------------------------------------------------------------------


def import_tool(tool: str) -> None:
    """Import what the tool and every compile need, so that imports are not what is timed."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401

    if tool in ("explorer", "record"):
        import explorer

        explorer.trace, explorer.record  # noqa: B018  # the public names are imported when asked for
    elif tool == "depyf":
        import depyf  # noqa: F401


def synchronize(device: str) -> None:
    """Wait for the GPU; its first use, which makes the context, is waited for too."""
    if device == "cuda":
        import torch

        torch.zeros(1, device=device)
        torch.cuda.synchronize()


def forget_peak() -> None:
    """Measure the largest resident set from here on, where the system can (Linux): building a model has a peak of its own."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peaks(device: str) -> Result:
    """The largest resident set of this process, and of the largest process that it waited for, in MiB."""
    unit = 1024 if sys.platform == "linux" else 1  # ru_maxrss counts KiB on Linux, bytes on macOS
    own, children = (resource.getrusage(who).ru_maxrss * unit / MIB for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    found = {"peak": own, "peak_child": children}
    if device == "cuda":
        import torch

        found |= {"peak_gpu": torch.cuda.max_memory_allocated() / MIB, "gpu": torch.cuda.get_device_name()}
    return found


def measure_compile(tool: str, name: str, device: str, train: bool, folder: Path) -> Result:
    """Measure the first call, compile included: seconds by the clock and of the processor, and the peak of memory."""
    import_tool(tool)
    function, args = built(name, device, train)
    synchronize(device)
    forget_peak()
    began, worked, worked_here = time.perf_counter(), cpu_seconds(), time.process_time()
    found = CALLS[tool](function, args, train, folder)
    synchronize(device)
    cpu = {"cpu": cpu_seconds() - worked, "cpu_here": time.process_time() - worked_here}
    return {"seconds": time.perf_counter() - began, **cpu, **found, **peaks(device)}


def cpu_seconds() -> float:
    """Processor seconds so far of this process and of those it waited for; the load of other programs hardly changes them."""
    return sum(os.times()[:4])


def measure_after(name: str, device: str) -> Result:
    """Seconds for one call of a function: compiled plainly, before and after its trace, and as its trace compiled it."""
    import torch

    import explorer
    from explorer.lab.live.protocol import live_of

    function, args = built(name, device, train=False)
    plain = torch.compile(function)
    with torch.no_grad():
        plain(*args)
        before = medians({"plain, before any trace": lambda: plain(*args)}, device)
        trace = explorer.trace(function, *args)
        traced = live_of(trace).compiled
        after = {
            "plain, after the trace": lambda: plain(*args),
            "traced": lambda: traced(*args),
            "trace.live.run()": trace.live.run,
        }
        return {"calls": before | medians(after, device)}


def medians(calls: Mapping[str, Callable[[], Any]], device: str) -> dict[str, float]:
    """The median seconds of each call. The calls take turns; quick ones are timed many at a time."""
    for call in calls.values():
        seconds_each(call, 3, device)
    one = max(seconds_each(call, 3, device) for call in calls.values())
    number, rounds = max(1, int(0.002 / one)), max(15, min(500, int(4 / max(one, 0.002))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds_each(call, number, device))
    return {name: statistics.median(values) for name, values in times.items()}


def seconds_each(call: Callable[[], Any], number: int, device: str) -> float:
    """Seconds for one call, over `number` calls in a row."""
    synchronize(device)
    began = time.perf_counter()
    for _ in range(number):
        call()
    synchronize(device)
    return (time.perf_counter() - began) / number


def warm(device: str) -> Result:
    """Compile one unrelated kernel: the C++ precompiled header and the vector instruction checks are then cached."""
    import torch

    torch.compile(lambda x: (x + 3).relu() * 7)(torch.ones(64, device=device))
    return {}


def child(request: Mapping[str, Any]) -> Result:
    """Run in a child process what it is asked for."""
    what, device = request["what"], request["device"]
    if what == "warm":
        return warm(device)
    if what == "after":
        return measure_after(request["workload"], device)
    return measure_compile(request["tool"], request["workload"], device, request["train"], Path(request["folder"]))


# In the parent ----------------------------------------------------------------------------------------------------


def start(request: Mapping[str, Any], variables: Mapping[str, str], script: str = __file__) -> Result:
    """Run one child of `script` and return its result, or {"error": the last line it wrote} where it failed."""
    command = [sys.executable, script, "--child", json.dumps(request)]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(SET_ASIDE)}
    done = subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        result: Result = json.loads(done.stdout.splitlines()[-1])
        return result
    return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}


class Caches:
    """Gives each child caches of its own, warmed with an unrelated kernel unless the run is cold.

    Inductor keeps the precompiled header under the temporary directory, not under its cache directory: a cold child
    gets a temporary directory of its own too. The warm cache is made once and copied.
    """

    def __init__(self, options: argparse.Namespace, root: Path) -> None:
        self._options, self._root = options, root
        self._warm = root / "warm"
        self._filled: dict[str, Path] = {}
        if options.warm_headers and not options.cache:
            found = start({"what": "warm", "device": options.device}, self._variables(self._warm))
            if "error" in found:
                raise SystemExit(f"a first compile, to warm the caches, failed: {found['error']}")

    def fill(self, name: str) -> None:
        """Compile a workload plainly: its measurements get copies of these caches, in the same place, which some keys have."""
        with self.fresh() as (folder, variables):
            asked = {"what": "compile", "tool": "plain", "workload": name, "train": self._options.train, "folder": str(folder)}
            found = start({**asked, "device": self._options.device}, variables)
            if "error" in found:
                raise SystemExit(f"a first compile of {name}, to fill the caches, failed: {found['error']}")
            self._filled[name] = self._root / f"filled-{name}"
            shutil.copytree(folder / "caches", self._filled[name])

    @contextlib.contextmanager
    def fresh(self, name: str = "") -> Iterator[tuple[Path, dict[str, str]]]:
        """A folder for one child, and the environment that puts its caches there, filled where the workload has such."""
        folder = self._root / "child"
        folder.mkdir()
        try:
            if self._options.cache:
                yield folder, self._variables(Path(self._options.cache))
                return
            if self._options.warm_headers or name in self._filled:
                shutil.copytree(self._filled.get(name, self._warm), folder / "caches")
            variables = self._variables(folder / "caches")
            if not self._options.warm_headers:
                (folder / "tmp").mkdir()
                variables["TMPDIR"] = str(folder / "tmp")
            yield folder, variables
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _variables(self, folder: Path) -> dict[str, str]:
        variables = {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")}
        if not self._options.graph_caches:
            variables |= {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
        return variables


def measure(options: argparse.Namespace, caches: Caches, workloads: Sequence[str], tools: Sequence[str]) -> list[Result]:
    """Measure every (workload, tool, round). The tools take turns, and each round begins with another one."""
    results = []
    for name in workloads:
        if options.warm:
            caches.fill(name)
        for number in range(options.repeats):
            turn = number % len(tools)
            for tool in (*tools[turn:], *tools[:turn]):
                key = {"workload": name, "tool": tool, "round": number}
                with caches.fresh(name) as (folder, variables):
                    asked = {"what": "compile", "device": options.device, "train": options.train, "folder": str(folder), **key}
                    found = start(asked, {**variables, **environment(tool, folder)})
                print(f"  {name} {tool} {found.get('seconds', found.get('error'))}", file=sys.stderr)
                results.append({**key, **found})
    return results


def measured_after(options: argparse.Namespace, caches: Caches) -> list[Result]:
    """For each workload the seconds for a call, in a process of its own."""
    results = []
    for name in options.workloads:
        with caches.fresh() as (_, variables):
            found = start({"what": "after", "workload": name, "device": options.device}, variables)
        results.append({"workload": name, **found})
    return results


# Tables -----------------------------------------------------------------------------------------------------------


def median_of(results: Sequence[Result], field: str, **key: object) -> float | None:
    """The median of a field over the rounds that have it; None where none has."""
    chosen = [r for r in results if all(r[k] == v for k, v in key.items())]
    values = [r[field] for r in chosen if field in r]
    return statistics.median(values) if values else None


def cell(value: float | None, digits: int = 2, unit: float = 1.0) -> str:
    """A number for a table, "–" for none."""
    return "–" if value is None else f"{value * unit:.{digits}f}"


def ratio(value: float | None, base: float | None) -> str:
    """A quotient for a table."""
    return cell(None if value is None or not base else value / base, 3)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, aligned so that it can be read as it is."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in (head, *rows)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def comparison(results: Sequence[Result], workloads: Sequence[str], tools: Sequence[str]) -> str:
    """Medians of each tool and their ratios to plain torch.compile."""
    head = ("workload", "tool", "seconds", "ratio", "least to most", "CPU s", "ratio", "in this process", "ratio")
    head += ("peak MiB", "ratio", "child MiB", "reading s")
    return table(head, [comparison_row(results, name, tool) for name in workloads for tool in tools])


def comparison_row(results: Sequence[Result], name: str, tool: str) -> tuple[str, ...]:
    key = {"workload": name, "tool": tool}
    found = {field: median_of(results, field, **key) for field in ("seconds", "cpu", "cpu_here", "peak", "peak_child", "reading")}
    base = {field: median_of(results, field, workload=name, tool="plain") for field in found}
    every = [r["seconds"] for r in results if r["workload"] == name and r["tool"] == tool and "seconds" in r]
    spread = f"{min(every):.2f} to {max(every):.2f}" if every else "failed"
    ratios = {field: ratio(value, base[field]) for field, value in found.items()}
    return (
        name,
        TITLES[tool],
        cell(found["seconds"]),
        ratios["seconds"],
        spread,
        cell(found["cpu"]),
        ratios["cpu"],
        cell(found["cpu_here"]),
        ratios["cpu_here"],
        cell(found["peak"], 0),
        ratios["peak"],
        cell(found["peak_child"], 0),
        cell(found["reading"]),
    )


def growth(results: Sequence[Result], layers: Sequence[int]) -> str:
    """What each number of layers costs: in all, by explorer's own clock, and for each layer."""
    head = ("layers", "plain s", "explorer s", "ratio", "CPU ratio", "s/layer", "own cost s", "own ms/layer", "peak ratio")
    return table(head, [growth_row(results, number) for number in layers])


def growth_row(results: Sequence[Result], number: int) -> tuple[str, ...]:
    def found(tool: str, field: str) -> float | None:
        return median_of(results, field, workload=f"gpt2-{number}", tool=tool)

    plain, seconds, cost = found("plain", "seconds"), found("explorer", "seconds"), found("explorer", "cost")
    return (
        str(number),
        cell(plain),
        cell(seconds),
        ratio(seconds, plain),
        ratio(found("explorer", "cpu"), found("plain", "cpu")),
        cell(seconds, 3, 1 / number),
        cell(cost, 3),
        cell(cost, 2, 1000 / number),
        ratio(found("explorer", "peak"), found("plain", "peak")),
    )


def after(results: Sequence[Result]) -> str:
    """Microseconds for a call after the trace, and the ratios to plain torch.compile in the same process."""
    rows = []
    for result in results:
        calls = result.get("calls", {})
        base = calls.get("plain, after the trace")
        rows += [(result["workload"], name, cell(value, 1, 1e6), ratio(value, base)) for name, value in calls.items()]
    return table(("workload", "called", "µs a call", "ratio"), rows)


def machine() -> str:
    """The machine and the versions, in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = []
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{package} {importlib.metadata.version(package)}")
    return f"{cores} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}, {', '.join(versions)}"


def setting(options: argparse.Namespace, results: Sequence[Result]) -> str:
    """How the numbers were taken, in one line."""
    gpu = next((f" ({r['gpu']})" for r in results if "gpu" in r), "")
    work = "a training step" if options.train else "inference"
    caches = "fresh: headers warm" if options.warm_headers else "fresh: all from nothing"
    if options.warm:
        caches = "filled by a first compile"
    if options.cache:
        caches = "SHARED, so the seconds say nothing"
    graphs = "" if options.graph_caches else ", graph caches off for all"
    return f"{options.device}{gpu}, {work}, medians of {options.repeats}, caches {caches}{graphs}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add(
        "--workloads", nargs="+", type=workload, default=list(WORKLOADS), metavar="NAME", help=f"of {', '.join(BUILDERS)}, gpt2-N"
    )
    tools = [tool for tool in CALLS if tool != "record"]  # from fresh caches it is the compile of trace()
    add("--tools", nargs="+", choices=CALLS, default=tools, help="plain is what the ratios are to")
    add("--repeats", type=int, default=3, help="rounds over the tools (default 3)")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--train", action="store_true", help="a training step (forward and backward) in place of inference")
    add(
        "--growth",
        nargs="*",
        type=int,
        metavar="LAYERS",
        help=f"GPT-2 by number of layers (default {LAYERS}), plain and explorer",
    )
    add("--after", action="store_true", help="time calls of the compiled function after its trace")
    headers = parser.add_mutually_exclusive_group()
    headers.add_argument("--warm-headers", action="store_true", default=True, help="leave out the C++ header (the default)")
    headers.add_argument("--cold", dest="warm_headers", action="store_false", help="every cache from nothing, the C++ header too")
    add("--warm", action="store_true", help="every cache filled: each workload is compiled once before it is measured")
    add("--no-graph-caches", dest="graph_caches", action="store_false", help="no tool may write FX graph or AOTAutograd caches")
    add("--cache", metavar="DIR", help="share one cache among all runs: to try the script, not to measure")
    add("--json", type=Path, metavar="FILE", help="write every single measurement there")
    add("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.warm and options.cache:
        parser.error("--warm fills caches of its own: leave --cache out")
    return options


def report(options: argparse.Namespace, caches: Caches) -> tuple[str, list[Result]]:
    """The table that was asked for, and the single measurements behind it."""
    if options.after:
        results = measured_after(options, caches)
        return after(results), results
    if options.growth is not None:
        layers = options.growth or LAYERS
        results = measure(options, caches, [f"gpt2-{number}" for number in layers], ("plain", "explorer"))
        return growth(results, layers), results
    results = measure(options, caches, options.workloads, options.tools)
    return comparison(results, options.workloads, options.tools), results


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a measurement failed."""
    options = parse(arguments)
    if options.child:
        print(json.dumps(child(options.child)))
        return 0
    with tempfile.TemporaryDirectory(prefix="compile-cost-", ignore_cleanup_errors=True) as root:
        text, results = report(options, Caches(options, Path(root)))
    print(f"{machine()}\n{setting(options, results)}\n\n{text}")
    failed = [r for r in results if "error" in r]
    for result in failed:
        print(f"failed: {result['workload']} {result.get('tool', 'after')}: {result['error']}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=1), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
