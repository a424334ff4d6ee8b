"""Check right programs, which must not be called wrong: one sample of each operator of PyTorch's database, forward.

    python benchmarks/check_operators.py [--target cpu|h100|…] [--backend inductor|aot_eager] [--dtypes float32,bfloat16]
                                         [--sample N] [--seed S] [--jobs J] [--part I/N] [--only NAME …] [--seconds 120]

Prints each sample that is not equal as it comes, a false alarm with its row, and the counts of each type. Operators run in
child processes, several in each; one that crashes or hangs takes no others with it. `--sample N` draws N operators. A whole
run for h100 takes minutes on 16 cores, one for the CPU compiles C++ for each.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import sys
import time
import types
import unittest
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import children
from children import Step, part


def database() -> list[object]:
    """PyTorch's operators. A package that only PyTorch's tests need may be missing."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def name_of(op: object) -> str:
    """An operator's name with its variant, such as linalg.norm.subgradients_at_zero."""
    return f"{op.name}.{op.variant_test_name}".rstrip(".")


def operator_named(name: str) -> Any:
    """The operator of the database with this name."""
    return next(op for op in database() if name_of(op) == name)


def samples(dtypes: Sequence[str]) -> list[tuple[str, str]]:
    """List (operator, dtype) of all that the database has for the CPU."""
    import torch

    found = [(name_of(op), name) for op in database() for name in dtypes if op.supports_dtype(getattr(torch, name), "cpu")]
    return list(dict.fromkeys(found))


def checked(name: str, dtype: str, target: str, backend: str) -> dict[str, object]:
    """Check one sample of an operator; return the kind of the outcome, and words for it."""
    import torch

    import explorer

    torch._dynamo.reset()
    op = operator_named(name)
    torch.manual_seed(0)
    sample = next(iter(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)), None)
    if sample is None:
        return {"kind": "no sample"}

    def call(given: object, *args: object, **kwargs: object) -> object:
        return op(given, *args, **kwargs)

    try:
        call(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:  # noqa: BLE001
        return {"kind": "eager fails", "why": f"{type(error).__name__}: {error}"[:200]}
    try:
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
            trace = explorer.trace(call, sample.input, *sample.args, kwargs=sample.kwargs, target=target, backend=backend)
            if any(f.fatal for f in trace.failures):
                return {"kind": "not compiled", "why": next(str(f)[:200] for f in trace.failures if f.fatal)}
            rows = trace.check(limit=60) if target != "cpu" else trace.check()
    except Exception as error:  # noqa: BLE001
        return {"kind": "refused", "why": f"{type(error).__name__}: {error}"[:200]}
    wrong = [dict(row) for row in rows if row["equal"] is False]
    if wrong:
        return {"kind": "false alarm", "why": json.dumps(wrong[0], default=str)}
    open_rows = [row for row in rows if row["equal"] is None]
    if open_rows:
        return {"kind": "not compared", "why": str(open_rows[0]["note"])}
    return {"kind": "equal"}


def steps(target: str, backend: str) -> Callable[[list[str]], Iterator[Step]]:
    """In the child: the step for an item, [operator, dtype], which checks it."""
    return lambda item: iter([(item[0], lambda: checked(item[0], item[1], target, backend))])


def main() -> int:
    """Check, and print the figures; 1 where a right program was called wrong, or a process ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--dtypes", default="float32,bfloat16,int64")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*")
    children.add_arguments(parser, 120)
    options = parser.parse_args()
    if options.child:
        warnings.simplefilter("ignore")
        children.serve(steps(options.target, options.backend))
        return 0
    began, rows = time.perf_counter(), []
    command = [sys.executable, __file__, "--child", "--target", options.target, "--backend", options.backend]
    chosen = items(options)
    for row in children.rows(chosen, command, options):
        rows.append(row)
        if row["kind"] != "equal":
            print(f"{row['kind']:14}", *(row["item"] or ()), row.get("why", ""), flush=True)
        if len(rows) % 100 == 0:
            print(f"{len(rows)} of {len(chosen)} after {time.perf_counter() - began:.0f} s", flush=True)
    print("", *total(rows, options), f"{len(rows)} samples in {time.perf_counter() - began:.0f} s", sep="\n", flush=True)
    return int(not rows or any(row["kind"] in ("false alarm", "died", "not tried") for row in rows))


def items(options: argparse.Namespace) -> list[tuple[str, str]]:
    """List (operator, dtype) of the samples that were asked for."""
    found = samples(options.dtypes.split(","))
    if options.only:
        found = [item for item in found if item[0] in options.only]
    if options.sample:
        found = random.Random(options.seed).sample(found, min(options.sample, len(found)))
    return part(found, options.part)


def total(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> Iterator[str]:
    """The counts of each dtype."""
    for dtype in dict.fromkeys(row["item"][1] for row in rows if row["item"]):
        counts = collections.Counter(row["kind"] for row in rows if row["item"] and row["item"][1] == dtype)
        whole = sum(counts[kind] for kind in ("equal", "false alarm", "not compared"))
        yield (
            f"{whole} of {counts.total()} samples of {dtype} checked for {options.target} by {options.backend}: "
            f"{counts['equal']} equal, {counts['false alarm']} false alarms, {counts['not compared']} not compared"
        )
        yield "    " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
