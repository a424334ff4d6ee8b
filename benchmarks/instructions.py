"""How many instructions ptxas writes for an element of a loop, beside what the estimate counts. No GPU is needed.

    python benchmarks/instructions.py                  every case, one row per kernel
    python benchmarks/instructions.py --only exp       cases whose name has one of these parts

The kernels are compiled for a named GPU down to SASS. Where the code does not jump back, every thread issues each instruction
at most once: instructions × threads / elements is an upper bound of what an element costs, and near it where the code does not
branch. The column "counted" is what `explorer.capture.observe.work` says of the same kernel. No time is measured: the counts are
held to the assembler's own text, so that they need not be fitted to seconds.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from typing import Any

from explorer.stages.triton.instructions import SASS_INSTRUCTION

#: A case: function and its arguments.
Case = tuple[Callable[..., Any], tuple[Any, ...]]
NAMES = (
    "sin",
    "cos",
    "tan",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "tanh",
    "erf",
    "erfc",
    "erfinv",
    "sigmoid",
    "sqrt",
    "rsqrt",
    "lgamma",
    "atan",
    "asin",
    "acos",
    "neg",
    "abs",
    "relu",
    "reciprocal",
    "floor",
    "frac",
)
_PLACE = re.compile(r"/\*([0-9a-f]{4,})\*/")
_JUMP = re.compile(r"\bBRA(?:\.\w+)*\s+.*?(?:0x([0-9a-f]+)|`\((\.L_\w+)\))")


def cases() -> dict[str, Case]:
    """Each case by name: elementwise functions, and reductions in one block and in a loop."""
    import torch
    import torch.nn.functional as f

    def t(*size: int, dtype: Any = torch.float32) -> Any:
        return torch.empty(*size, dtype=dtype, device="meta")

    def named(name: str) -> Case:
        return getattr(torch, name), (t(1 << 20),)

    found = {name: named(name) for name in NAMES}
    pair = (t(1 << 20), t(1 << 20))
    both = {
        "add": torch.add,
        "mul": torch.mul,
        "div": torch.div,
        "pow": torch.pow,
        "atan2": torch.atan2,
        "fmod": torch.fmod,
        "remainder": torch.remainder,
        "maximum": torch.maximum,
        "where": lambda a, b: torch.where(a > b, a, b),
    }
    found |= {name: (function, pair) for name, function in both.items()}
    half = torch.bfloat16
    found |= {
        "add bf16": (torch.add, (t(1 << 20, dtype=half), t(1 << 20, dtype=half))),
        "gelu bf16": (f.gelu, (t(1 << 20, dtype=half),)),
        "rand": (lambda x: torch.rand_like(x), (t(1 << 20),)),
        "randn": (lambda x: torch.randn_like(x), (t(1 << 20),)),
        "dropout": (lambda x: f.dropout(x, 0.1), (t(1 << 20),)),
    }
    for rows, width in ((8192, 512), (8192, 1024), (2048, 4096)):
        x, w = t(rows, width, dtype=half), t(width, dtype=half)
        found |= {
            f"sum {width}": (lambda x: x.sum(-1), (x,)),
            f"amax {width}": (lambda x: x.amax(-1), (x,)),
            f"argmax {width}": (lambda x: x.argmax(-1), (x,)),
            f"var {width}": (lambda x: x.float().var(-1), (x,)),
            f"logsumexp {width}": (lambda x: x.float().logsumexp(-1), (x,)),
            f"softmax {width}": (lambda x: x.softmax(-1), (x,)),
            f"log softmax {width}": (lambda x: x.log_softmax(-1), (x,)),
            f"layer norm {width}": (lambda x, w: f.layer_norm(x, (x.shape[-1],), w, w), (x, w)),
            f"rms norm {width}": (lambda x, w: f.rms_norm(x, (x.shape[-1],), w), (x, w)),
        }
    return found


def issued(sass: str) -> tuple[int, bool]:
    """Count the instructions of a text of SASS up to its last exit, and tell whether it jumps back in between."""
    lines = [line for line in sass.splitlines() if SASS_INSTRUCTION.match(line)]
    exits = [n for n, line in enumerate(lines) if re.search(r"\bEXIT\b", line)]
    body = [line for line in lines[: exits[-1] + 1 if exits else None] if not re.search(r"\bNOP\b", line)]
    labels, place = {}, 0
    for line in sass.splitlines():
        if found := _PLACE.search(line):
            place = int(found[1], 16)
        labels |= dict.fromkeys(re.findall(r"^\s*(\.L_\w+):", line), place + (0 if found else 16))
    return len(body), any(_jumps_back(line, labels) for line in body)


def _jumps_back(line: str, labels: dict[str, int]) -> bool:
    jump, place = _JUMP.search(line), _PLACE.search(line)
    if not jump or not place:
        return False
    goal = int(jump[1], 16) if jump[1] else labels.get(jump[2], sys.maxsize)
    return goal <= int(place[1], 16)


def rows_of(name: str, case: Case, target: str) -> list[dict[str, Any]]:
    """One row for each kernel: the instructions for an element by its SASS, and as explorer counts them."""
    import explorer
    from explorer.analysis.questions.costs import loop_operations

    trace = explorer.trace(case[0], *case[1], target=target)
    groups = {kernel: group for group in trace.fusion.groups for kernel in group["kernels"]}
    rows = []
    for kernel in trace.kernels:
        group = groups[kernel.name]
        elements = max((math.prod(a.shape) for a in case[1]), default=1)
        warps = next((c["num_warps"] for c in kernel.candidates.table if c["taken"]), 4)
        threads = math.prod(kernel.launches[0]["grid"]) * warps * 32
        count, loops = issued(kernel.text("sass"))
        counted = sum(loop_operations(group).values()) / elements
        rows.append({"case": name, "kernel": kernel.name, "sass": count * threads / elements, "loops": loops, "counted": counted})
    return rows


def main() -> int:
    """Print one row per kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of cases")
    parser.add_argument("--target", default="h100")
    options = parser.parse_args()
    print("| case | kernel | SASS an element | counted | |\n| --- | --- | --- | --- | --- |", flush=True)
    for name, case in cases().items():
        if not options.only or any(part in name for part in options.only):
            for row in rows_of(name, case, options.target):
                mark = "loops: the bound does not hold" if row["loops"] else ""
                print(f"| {name} | {row['kernel']} | {row['sass']:.1f} | {row['counted']:.1f} | {mark} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
