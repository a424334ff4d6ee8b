"""Trace every operator of PyTorch's own database for an absent GPU: how many traces are whole, and why the others are not.

    python benchmarks/op_db.py --jobs 4                          one sample of each operator for an H100, forward
    python benchmarks/op_db.py --jobs 4 --backward               those that have one: forward and backward
    python benchmarks/op_db.py --part 1/2 --json FILE            the first half of them, with every row in a file
    python benchmarks/op_db.py --only quantile geqrf --show      some, with each reason in full
    python benchmarks/op_db.py --target h200 --device cuda       beside the GPU that is attached
    python benchmarks/op_db.py --target h200 --device cuda --jobs 14 --backward --json FILE --resume --within 500
                                                                 as many as 500 s are enough for, and the others next time

The operators are those of torch.testing._internal.common_methods_invocations.op_db. One is whole where its trace has no
failure, every Triton kernel has its SASS, and `check()` says that every output is equal, or random as eager's; so is one that
Dynamo leaves to Python on every device. Beside it stands what the same sample does without explorer: plain torch.compile on the
CPU for those that are not whole (`--plain all` for each), or with `--device cuda` on the attached GPU, whose kernels are counted
too and compared with those of the trace. Both halves take the very same sample, made on the CPU and moved: torch draws other
numbers on a GPU, and some of them stand in the kernels. A sample that names the device of its result names the GPU in both.

Each process takes one operator after another; one that crashes it, or takes longer than `--limit` seconds, loses only itself.
An operator's row is printed when its halves are there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import fidelity
from compile_cost import machine, table

#: Which type a sample has: the first of these that the operator takes.
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "complex64",
    "complex128",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)
#: The outcomes of an operator, best first, and what they mean.
OUTCOMES = {
    "whole": "traced, every kernel to SASS, check() equal",
    "random": "traced, every kernel to SASS, every output depends on random numbers, which check() does not compare",
    "not checked": "traced, every kernel to SASS, check() says why it cannot compare",
    "python": "Dynamo leaves it to Python, on every device: nothing is compiled",
    "unequal": "traced, but check() says that an output differs",
    "not whole": "traced, but with a failure, or a kernel without SASS",
    "not traced": "no trace: the compile failed",
    "eager": "the sample fails in eager mode too",
    "no sample": "the database has no sample for it here",
    "crashed": "the process ended",
    "timed out": "the process was stopped",
    "not finished": "not begun, or stopped, when the time for all was over",
}
GOOD = ("whole", "random", "python")
#: The outcomes that say nothing of explorer.
ASIDE = ("eager", "no sample", "not finished")


# The operators -------------------------------------------------------------------------------------------------------


def operators() -> list[Any]:
    """The database. It imports a helper of torch's own tests, which a plain installation lacks and no sample needs."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        stand_in.assert_expected_inline = None  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def chosen(only: Sequence[str], part: str, backward: bool) -> list[str]:
    """The full names that were asked for: some names, or the N-th of M parts of all, taken in turn."""
    number, count = (int(n) for n in part.split("/"))
    every = [op for op in operators() if op.supports_autograd or not backward]
    names = [op.full_name for op in every if not only or op.full_name in only or op.name in only]
    if unknown := set(only) - {name for op in every for name in (op.full_name, op.name)}:
        raise SystemExit(f"the database has no operator {', '.join(sorted(unknown))}{' with a backward' if backward else ''}")
    return list(dict.fromkeys(names))[number - 1 :: count]


def sample_of(op: Any, number: int, backward: bool) -> Any:
    """The operator's sample of that number on the CPU, the last where it has fewer; None where it has none."""
    import torch

    taken = op.supported_backward_dtypes("cpu") if backward else op.supported_dtypes("cpu")
    dtype = next((getattr(torch, name) for name in DTYPES if getattr(torch, name) in taken), None)
    if dtype is None:
        return None
    torch.manual_seed(0)
    found = None
    for at, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=backward)):
        found = sample
        if at == number:
            break
    return found


def on_gpu(value: Any, move: bool) -> Any:
    """Replace the CPU by the GPU where arguments name a device; with `move` tensors are moved there."""
    import torch
    from torch.utils import _pytree

    def there(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to("cuda").requires_grad_(leaf.requires_grad) if move else leaf
        return "cuda" if leaf == "cpu" or leaf == torch.device("cpu") else leaf

    return _pytree.tree_map_only((torch.Tensor, str, torch.device), there, value)


def called(op: Any, sample: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Make the function to be compiled, and its arguments."""

    def operator(*args: Any, **kwargs: Any) -> Any:
        made = op(*args, **kwargs)
        return made if sample.output_process_fn_grad is None or not train else sample.output_process_fn_grad(made)

    train = any(getattr(leaf, "requires_grad", False) for leaf in leaves((sample.input, sample.args, sample.kwargs)))
    return operator, (sample.input, *sample.args), dict(sample.kwargs)


def leaves(value: Any) -> list[Any]:
    """What is in a nest of containers."""
    from torch.utils import _pytree

    found: list[Any] = _pytree.tree_leaves(value)
    return found


# One operator --------------------------------------------------------------------------------------------------------


def row_of(op: Any, half: str, options: argparse.Namespace) -> dict[str, Any]:
    """Make the row of one operator: of a trace for `half`, the name of a GPU, or of the device here, "cpu" or "cuda"."""
    import torch

    torch._dynamo.reset()  # every operator is called by the same code, of which Dynamo compiles 256 and no more
    try:
        sample = sample_of(op, options.sample, options.backward)
    except Exception as error:  # noqa: BLE001 the database's own samples may fail
        return {"outcome": "no sample", "why": said(error)}
    if sample is None:
        return {"outcome": "no sample", "why": ""}
    function, args, kwargs = called(op, sample)
    if half == "cuda":
        args, kwargs = on_gpu((args, kwargs), move=True)
    try:
        torch.manual_seed(0)
        with torch.random.fork_rng():
            function(*copied(args), **copied(kwargs))
    except Exception as error:  # noqa: BLE001 what eager refuses says nothing of a compile
        return {"outcome": "eager", "why": said(error)}
    if half == "cpu":
        return plain(function, args, kwargs, options.backward)
    args, kwargs = on_gpu((args, kwargs), move=False)
    return traced(function, args, kwargs, half, options.backward)


def copied(value: Any) -> Any:
    """Copy arguments whose tensors may be changed."""
    import torch
    from torch.utils import _pytree

    return _pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), value)


def plain(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], backward: bool) -> dict[str, Any]:
    """Compile and run an operator here by torch.compile, without explorer."""
    import torch

    try:
        made = torch.compile(function)(*copied(args), **copied(kwargs))
        if backward:
            outputs = [t for t in leaves(made) if isinstance(t, torch.Tensor) and t.requires_grad]
            torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
    except Exception as error:  # noqa: BLE001 one operator's error is its row
        return {"outcome": "not traced", "why": said(error)}
    return {"outcome": "whole", "why": ""}


def traced(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], half: str, backward: bool) -> dict[str, Any]:
    """Trace an operator for a GPU, and say what is wrong with the trace."""
    import explorer

    began = time.perf_counter()
    try:
        trace = explorer.trace(function, *args, kwargs=kwargs, target=half, train=backward)
    except Exception as error:  # noqa: BLE001 one operator's error is its row
        return {"outcome": "not traced", "why": said(error)}
    facts = fidelity.facts(trace, forms=False)
    row = {
        "kernels": sorted([k["graph"], k["source"]] for k in facts["kernels"]),
        "externs": facts["externs"],
        "assumed": facts["assumed"],
        "breaks": len(trace.dynamo.graph_breaks),
    }
    row |= dict(zip(("outcome", "why"), judged(trace, half), strict=True))
    return {**row, "seconds": round(time.perf_counter() - began, 2)}


def judged(trace: Any, half: str) -> tuple[str, str]:
    """Judge a trace: its outcome, and why it is not whole."""
    failures = [f for f in trace.failures if f.stage != "decompiled"]
    if any(f.fatal for f in failures):
        return "not traced", "; ".join(str(f) for f in failures if f.fatal)
    if failures and all("leaves this function to Python" in f.message for f in failures):
        return "python", "; ".join(f.message for f in failures)
    if failures:
        return "not whole", "; ".join(map(str, failures))
    if half != "cuda" and (lacking := [k.name for k in trace.kernels if k.language == "triton" and not machine_code(k)]):
        return "not whole", f"no SASS of {', '.join(lacking)}"
    return compared(trace)


def machine_code(kernel: Any) -> bool:
    """Whether a kernel has its SASS, or AMDGCN."""
    import explorer

    try:
        return bool(kernel.text("amdgcn" if "amdgcn" in kernel.stages else "sass").strip())
    except explorer.ExplorerError:
        return False


def compared(trace: Any) -> tuple[str, str]:
    """What `check()` says."""
    try:
        rows = trace.check()
    except Exception as error:  # noqa: BLE001 one operator's error is its row
        return "not checked", said(error)
    wrong = [row for row in rows if row["equal"] is False]
    if wrong:
        return "unequal", "; ".join(", ".join(f"{name}={value}" for name, value in row.items()) for row in wrong)
    if any(row["equal"] for row in rows):
        return "whole", ""
    if any(row.get("random") for row in rows):
        return "random", ""
    return "not checked", "nothing was compared"


def said(error: BaseException) -> str:
    """An error in one line; of a compiler's error the one below it."""
    inner = getattr(error, "inner_exception", None) or error
    return f"{type(inner).__name__}: {inner}"


# Processes -----------------------------------------------------------------------------------------------------------


def worker(options: argparse.Namespace) -> None:
    """Take one operator after another; before each its name is written, and after it its row."""
    half, names, file = options.worker[0], Path(options.worker[1]).read_text().split("\n"), Path(options.worker[2])
    known = {op.full_name: op for op in reversed(operators())}
    warnings.simplefilter("ignore")
    with file.open("a") as out:
        for name in names:
            print(json.dumps({"begun": name}), file=out, flush=True)
            row = row_of(known[name], half, options)
            print(json.dumps({"name": name, "half": half, **row}), file=out, flush=True)


def rows_of(
    names: Mapping[str, Sequence[str]], options: argparse.Namespace, folder: Path, ends: float
) -> Iterator[dict[str, Any]]:
    """Yield a row for each operator of each half, by `--jobs` processes; those that the time does not reach have a row too.

    A process that ends early or stands still loses the operator it is at.
    """
    count = max(1, options.jobs // max(1, len(names)))
    shares = {(half, n): list(every[n::count]) for half, every in names.items() for n in range(count)}
    running = [Job(half, share, options, folder / f"{half}-{n}") for (half, n), share in shares.items() if share]
    try:
        while running and time.monotonic() < ends:
            time.sleep(0.2)
            for job in list(running):
                yield from job.rows()
                if job.done:
                    running.remove(job)
    finally:
        for job in running:
            job.process.kill()
            job.process.wait()
    for job in running:
        yield from ({"name": name, "half": job.half, "outcome": "not finished", "why": ""} for name in job.left)


class Job:
    """One process at a time over a list of operators."""

    def __init__(self, half: str, names: list[str], options: argparse.Namespace, place: Path) -> None:
        self.half, self.left, self.options, self.place = half, names, options, place
        self.starts, self.done = 0, False
        self.start()

    def start(self) -> None:
        """Start a process for the operators that are left."""
        self.starts += 1
        self.file = self.place.with_suffix(f".{self.starts}.jsonl")
        names = self.place.with_suffix(".names")
        names.write_text("\n".join(self.left))
        self.file.touch()
        self.read, self.begun, self.since = 0, "", time.monotonic()
        command = [
            sys.executable,
            __file__,
            "--sample",
            str(self.options.sample),
            "--worker",
            self.half,
            str(names),
            str(self.file),
        ]
        hidden = {} if self.half == "cuda" else {"CUDA_VISIBLE_DEVICES": ""}
        threads = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"} if self.options.jobs > 1 else {}
        self.log = self.place.with_suffix(f".{self.starts}.log").open("wb")
        self.process = subprocess.Popen(
            [*command, *(["--backward"] if self.options.backward else [])],
            env={**os.environ, **hidden, **threads},
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the new rows; an operator that ended or stopped its process has one too."""
        ended = self.process.poll() is not None
        text = self.file.read_bytes()[self.read :]
        whole = text[: text.rfind(b"\n") + 1]
        self.read += len(whole)
        for line in whole.decode().splitlines():
            row = json.loads(line)
            self.since = time.monotonic()
            self.begun = row.get("begun", "")
            if "name" in row:
                self.left.remove(row["name"])
                yield row
        late = time.monotonic() - self.since > self.options.limit
        if late and not ended:
            self.process.kill()
            self.process.wait()
        if ended or late:
            yield from self.lost("timed out" if late else "crashed")

    def lost(self, outcome: str) -> Iterator[dict[str, Any]]:
        """After a process ended, yield a row for the operator that it was at, and start another one where some are left."""
        self.log.close()
        name = self.begun or (self.left[0] if self.left else "")
        if name:
            status = f"exit status {self.process.returncode}" if outcome == "crashed" else f"more than {self.options.limit} s"
            last = Path(self.log.name).read_text(errors="replace").strip().splitlines()[-3:]
            yield {"name": name, "half": self.half, "outcome": outcome, "why": "; ".join([status, *last])}
            self.left.remove(name)
        self.done = not self.left
        if not self.done:
            self.start()


# The report ----------------------------------------------------------------------------------------------------------


def report(rows: Sequence[dict[str, Any]], beside: dict[str, dict[str, Any]], device: str, show: bool) -> str:
    """Print the counts, and each operator that is not whole beside its outcome without explorer."""
    counts = Counter(row["outcome"] for row in rows)
    judged_rows = [row for row in rows if row["outcome"] not in ASIDE]
    good = sum(row["outcome"] in GOOD for row in judged_rows)
    lines = [f"{good} of {len(judged_rows)} operators are whole, {len(rows) - len(judged_rows)} more cannot be tried here", ""]
    lines.append(
        table(("outcome", "operators", "what it means"), [(n, str(counts[n]), OUTCOMES[n]) for n in OUTCOMES if counts[n]])
    )
    lines += ["", *same_kernels(rows, beside)] if device == "cuda" else []
    for row in sorted(
        (r for r in rows if r["outcome"] not in GOOD), key=lambda r: (list(OUTCOMES).index(r["outcome"]), r["name"])
    ):
        other = beside.get(row["name"])
        without = f" | without explorer on {device}: {other['outcome']} {shortened(other['why'], show)}" if other else ""
        lines.append(f"{row['outcome']}: {row['name']}: {shortened(row['why'], show)}{without}")
    ours = [r["name"] for r in judged_rows if r["outcome"] not in GOOD and beside.get(r["name"], {}).get("outcome") in GOOD]
    if beside:
        lines += ["", f"not whole here, and whole without explorer on {device}: {len(ours)}", *(f"  {name}" for name in ours)]
    return "\n".join(lines)


def same_kernels(rows: Sequence[dict[str, Any]], beside: dict[str, dict[str, Any]]) -> Iterator[str]:
    """How many operators have the attached GPU's kernels and library calls, and which have not."""
    both = [(row, beside[row["name"]]) for row in rows if "kernels" in row and "kernels" in beside.get(row["name"], {})]
    other = [pair for pair in both if difference(*pair)]
    yield f"{len(both) - len(other)} of {len(both)} operators have the attached GPU's kernels and library calls"
    yield from (f"  {one['name']}: {difference(one, there)}" for one, there in other)


def difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """How a trace differs from the attached GPU's; empty where kernels and library calls are the same."""
    if one["kernels"] == other["kernels"] and one["externs"] == other["externs"]:
        return ""
    here, there = (Counter(map(tuple, row["kernels"])) for row in (one, other))
    return (
        f"{(here & there).total()} of {there.total()} kernels ({here.total()} ours), library calls "
        f"{other['externs']} there, {one['externs']} here; assumed: {one['assumed']}"
    )


def shortened(text: str, show: bool) -> str:
    """A reason in one line, 240 characters of it unless all is to be shown."""
    line = " ".join(text.split())
    return line if show or len(line) <= 240 else f"{line[:240]}…"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h100", help="the GPU by name")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where plain torch.compile is tried")
    parser.add_argument("--plain", default="failed", choices=("failed", "all", "none"), help="for which; with cuda for all")
    parser.add_argument("--backward", action="store_true", help="differentiate as well, those operators that have a backward")
    parser.add_argument("--sample", type=int, default=0, help="which of an operator's samples")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="the N-th of M parts")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that one operator may take")
    parser.add_argument("--show", action="store_true", help="every reason in full")
    parser.add_argument("--json", type=Path, help="write every row there as soon as it is known")
    parser.add_argument("--resume", action="store_true", help="take the rows that --json has from an earlier run")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds that all may take")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def collected(
    names: Mapping[str, Sequence[str]], options: argparse.Namespace, ends: float, known: dict[tuple[str, str], dict[str, Any]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Collect the rows of each half by name, those of `known` and others as they come.

    Each operator is printed when all its halves are there.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {
        half: {name: known[half, name] for name in every if (half, name) in known} for half, every in names.items()
    }
    left = {half: [name for name in every if name not in found[half]] for half, every in names.items()}
    with tempfile.TemporaryDirectory() as folder:
        for row in rows_of(left, options, Path(folder), ends):
            name = row["name"]
            found[row["half"]][name] = row
            if options.json and row["outcome"] != "not finished":
                with options.json.open("a") as out:
                    print(json.dumps(row), file=out)
            if all(name in rows for rows in found.values()) and row["outcome"] != "not finished":
                print(at_once(name, found), flush=True)
    return {half: {name: found[half][name] for name in every} for half, every in names.items()}


def at_once(name: str, found: Mapping[str, Mapping[str, dict[str, Any]]]) -> str:
    """Write an operator's line: the outcome of each half, and how the kernels of two traces differ."""
    parts = [f"{half}: {rows[name]['outcome']}" for half, rows in found.items()]
    traces = [rows[name] for rows in found.values() if "kernels" in rows[name]]
    if len(traces) == 2:
        parts.append(shortened(difference(*traces), show=False) or f"{len(traces[0]['kernels'])} kernels identical")
    return " | ".join([f"{len(next(iter(found.values())))} {name}", *parts])


def rows_saved(options: argparse.Namespace) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of an earlier run that `--json` has; without `--resume` the file begins anew."""
    if not options.json or not options.json.exists():
        return {}
    if not options.resume:
        options.json.unlink()
        return {}
    rows = [json.loads(line) for line in options.json.read_text().splitlines()]
    return {(row["half"], row["name"]): row for row in rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try every operator, and print the counts; 1 where one is not whole that is without explorer."""
    options = parse(arguments)
    if options.worker:
        worker(options)
        return 0
    began, names, known = time.perf_counter(), chosen(options.only, options.part, options.backward), rows_saved(options)
    ends = time.monotonic() + options.within
    if options.device == "cuda" and options.plain != "none":
        halves = collected({options.target: names, "cuda": names}, options, ends, known)
    else:
        halves = collected({options.target: names}, options, ends, known)
        failed = [name for name, row in halves[options.target].items() if row["outcome"] not in (*GOOD, *ASIDE)]
        again = {"all": names, "failed": failed, "none": []}[options.plain]
        halves |= collected({options.device: again}, options, ends, known)
    rows, found = list(halves[options.target].values()), halves[options.device]
    print(f"{machine()}\n\n{report(rows, found, options.device, options.show)}")
    print(f"\n{len(rows)} operators in {time.perf_counter() - began:.0f} s")
    lost = [row for row in rows if row["outcome"] not in (*GOOD, *ASIDE) and found.get(row["name"], {}).get("outcome") in GOOD]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
