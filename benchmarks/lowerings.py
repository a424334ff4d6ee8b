"""Check `t.inductor.lowerings` on every operator of PyTorch's own database, by the program that Inductor wrote for it.

    python benchmarks/lowerings.py                       one sample of each operator, for an H100
    python benchmarks/lowerings.py --part 1/8            an eighth of them
    python benchmarks/lowerings.py --only sort cumsum    some, with what differs

What Inductor made of an operator is read from the text of its program alone, without explorer: the operators that it calls
(`torch.ops.…(`, `aten.…(`), the functions of its library (`extern_kernels.…(`), and the form that it names a kernel by (`poi`,
`red`, `per`, `spl`, `tem`). The same is counted of `t.inductor.lowerings`. Both must name the same calls and kernels, and the
nodes of a kernel must have the kinds that its name says.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import op_db

#: How a call in the program begins: an operator by its full name, one that Inductor imports as `aten`, a function of its library.
CALLS = (r"torch\.ops\.(\w+\.\w+\.\w+)\(", r"(?<![\w.])(aten\.\w+(?:\.\w+)?)\(", r"(?<!\w)(extern_kernels\.\w+)\(")
#: A kernel of Triton's, where the program launches it.
LAUNCH = re.compile(r"\b(triton_[a-z]+_\w+)\.run\(")
#: The kinds of a node that make a kernel more than pointwise, by the form in the kernel's name.
OF_FORM = {"red": {"reduction", "scan", "sort"}, "per": {"reduction", "scan", "sort"}, "spl": {"scan"}, "tem": {"template"}}
LOOPS = {"reduction", "scan", "sort"}


def calls_in(program: str) -> set[str]:
    """The operators and functions that a program of Inductor's calls."""
    code = "\n".join(line.partition("#")[0] for line in program.split("\n"))
    return {name for pattern in CALLS for name in re.findall(pattern, code)}


def differences(trace: Any) -> Iterator[str]:
    """List what `t.inductor.lowerings` says and the program does not, and the other way round."""
    programs = [artifact.text for artifact in trace.find("output_code")]
    rows = list(trace.inductor.lowerings)
    said = {call.removeprefix("torch.ops.") for row in rows for call in row["calls"]}
    called = {name for program in programs for name in calls_in(program)}
    yield from (f"called, and no node's: {name}" for name in sorted(called - said))
    yield from (f"a node's, and not called: {name}" for name in sorted(said - called))
    launched = {name for program in programs for name in LAUNCH.findall(program)}
    kinds: dict[str, set[str]] = {name: set() for row in rows for name in row["kernels"]}
    for row in rows:
        for name in row["kernels"]:
            kinds[name].update(row["kinds"] if row["operations"] else ())
    yield from (f"launched, and no node's: {name}" for name in sorted(launched - kinds.keys()))
    yield from (f"a node's, and not launched: {name}" for name in sorted(kinds.keys() - launched) if name.startswith("triton_"))
    for name in sorted(launched & kinds.keys()):
        form = name.split("_")[1]
        if form in OF_FORM and not kinds[name] & OF_FORM[form]:
            yield f"{name} has nodes of the kinds {sorted(kinds[name])}"
        if form == "poi" and kinds[name] & LOOPS:
            yield f"{name} is pointwise, and has nodes of the kinds {sorted(kinds[name])}"


def traced(op: Any, target: str) -> Any:
    """Trace an operator's first sample; None where there is no sample, or nothing was lowered."""
    import torch

    import explorer

    torch._dynamo.reset()
    try:
        sample = op_db.sample_of(op, 0, False)
        function, args, kwargs = op_db.called(op, sample)
        torch.manual_seed(0)
        function(*op_db.copied(args), **op_db.copied(kwargs))
    except Exception:  # noqa: BLE001 what the database or eager refuses says nothing of a compile
        return None
    args, kwargs = op_db.on_gpu((args, kwargs), move=False)
    try:
        trace = explorer.trace(function, *args, kwargs=kwargs, target=target)
    except explorer.ExplorerError:
        return None
    return trace if trace.find("output_code") and trace.find("lowering") else None


def main() -> int:
    """Trace the operators, and print what differs and what was counted."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--part", default="1/1", metavar="N/M")
    parser.add_argument("--target", default="h100")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS", help="begin no operator after this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {op.full_name: op for op in reversed(op_db.operators())}
    names = op_db.chosen(options.only, options.part, backward=False)
    kinds: Counter[str] = Counter()
    agreed = unlike = without = placed = 0
    began = time.monotonic()
    for number, name in enumerate(names):
        if time.monotonic() - began > options.within:
            print(f"{len(names) - number} operators were not begun")
            break
        trace = traced(known[name], options.target)
        if trace is None:
            without += 1
            continue
        rows = trace.inductor.lowerings
        kinds.update(row["kind"] for row in rows)
        placed += sum(bool(row["file"]) for row in rows)
        found = list(differences(trace))
        agreed, unlike = agreed + (not found), unlike + bool(found)
        for line in found:
            print(f"{name}: {line}", flush=True)
    print(*(f"{count:6} {kind}" for kind, count in kinds.most_common()), sep="\n")
    print(f"{sum(kinds.values())} nodes, {placed} with a user's line")
    print(f"{agreed} operators agree, {unlike} do not, {without} had nothing to compare")
    return int(bool(unlike))


if __name__ == "__main__":
    sys.exit(main())
