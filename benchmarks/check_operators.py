"""Right programs that a check must not call wrong: PyTorch's operator database, one sample of each operator, forward.

    python benchmarks/check_operators.py [--target cpu|h100|…] [--backend inductor|aot_eager] [--dtypes float32,bfloat16]
                                         [--sample N] [--seed S] [--jobs J] [--only NAME …] [--seconds 60]

Prints how many were checked, each false alarm with its row, what was not compared and why, and what could not be traced.
Operators run in processes of their own, several in one, so that one that crashes or hangs takes no others with it. With
`--sample` so many are drawn. A whole run for h100 takes minutes on 16 cores, one for the CPU compiles C++ for each.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import random
import subprocess
import sys
import types
import unittest
from collections.abc import Iterator, Sequence

#: How many operators a process takes.
GROUP = 12
#: Results of one kind that are printed with their reason; of false alarms all are.
SHOWN = 12


def database() -> list[object]:
    """PyTorch's operators; a package of its tests that they need for nothing else may be missing."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def name_of(op: object) -> str:
    """An operator with its variant, as linalg.norm.subgradients_at_zero."""
    return f"{op.name}.{op.variant_test_name}".rstrip(".")


def samples(dtypes: Sequence[str]) -> list[tuple[str, str]]:
    """(operator, dtype) of all that the database has for the CPU."""
    import torch

    found = [(name_of(op), name) for op in database() for name in dtypes if op.supports_dtype(getattr(torch, name), "cpu")]
    return list(dict.fromkeys(found))


def checked(name: str, dtype: str, target: str, backend: str) -> dict[str, object]:
    """What a check says of one sample of an operator: kind, and words for it."""
    import torch

    import explorer

    torch._dynamo.reset()
    op = next(op for op in database() if name_of(op) == name)
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


def work(target: str, backend: str) -> None:
    """Check what stands on stdin, one [name, dtype] a line; one answer a line."""
    import warnings

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        name, dtype = json.loads(line)
        answer = checked(name, dtype, target, backend)
        print("answer", json.dumps({"operator": name, "dtype": dtype, **answer}), flush=True)


def group(jobs: Sequence[tuple[str, str]], arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    """The answers of a process for several operators; another goes on behind one that kills it or takes too long."""
    left = list(jobs)
    while left:
        command = [sys.executable, __file__, "--work", "--target", arguments.target, "--backend", arguments.backend]
        given = "\n".join(map(json.dumps, left))
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, check=False, timeout=arguments.seconds * len(left)
            )
            said, how = done.stdout, f"exit {done.returncode}: {done.stderr[-200:]}"
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode() if isinstance(error.stdout, bytes) else str(error.stdout or "")
            how = "took too long"
        answers = [json.loads(line.removeprefix("answer ")) for line in said.splitlines() if line.startswith("answer ")]
        yield from answers
        left = left[len(answers) :]
        if left:
            name, dtype = left.pop(0)
            yield {"operator": name, "dtype": dtype, "kind": "died", "why": how}


def main() -> int:
    """Check, and print the figures; 1 where a right program was called wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--dtypes", default="float32,bfloat16,int64")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60, help="for one operator, on average of its group")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.target, arguments.backend)
        return 0
    jobs = samples(arguments.dtypes.split(","))
    if arguments.only:
        jobs = [job for job in jobs if job[0] in arguments.only]
    if arguments.sample:
        jobs = random.Random(arguments.seed).sample(jobs, min(arguments.sample, len(jobs)))
    groups = [jobs[n : n + GROUP] for n in range(0, len(jobs), GROUP)]
    counts: collections.Counter[str] = collections.Counter()
    told: dict[str, list[str]] = collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads:
        for answers in threads.map(lambda some: list(group(some, arguments)), groups):
            for answer in answers:
                kind = str(answer["kind"])
                counts[kind] += 1
                told[kind].append(f"{answer['operator']} {answer['dtype']}: {answer.get('why', '')}")
                if kind == "false alarm":
                    print("FALSE ALARM", told[kind][-1], flush=True)
    for kind in sorted(told.keys() - {"equal", "false alarm"}):
        print(f"\n{kind}: {counts[kind]}")
        print("\n".join(f"  {line}" for line in told[kind][:SHOWN]))
        if len(told[kind]) > SHOWN:
            print(f"  and {len(told[kind]) - SHOWN} more")
    whole = counts["equal"] + counts["false alarm"] + counts["not compared"]
    print(
        f"\n{whole} of {len(jobs)} samples checked for {arguments.target} by {arguments.backend}: {counts['equal']} equal, "
        f"{counts['false alarm']} false alarms, {counts['not compared']} not compared"
    )
    return 1 if counts["false alarm"] else 0


if __name__ == "__main__":
    sys.exit(main())
