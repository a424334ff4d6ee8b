"""Count what Inductor decides by timing on an attached GPU: the outcomes that a trace for an absent one assumes.

    python benchmarks/calibrate.py                 on a machine with the GPU

Two tables: matrix products of sizes that are not aligned, with how many Inductor pads; and mode="max-autotune" on products
with a pointwise epilogue, with how often the library's kernel is faster than every template, and how many epilogues are
fused into a template.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

OPERATIONS = ("mm", "addmm", "bmm")
#: Table, inner size and columns; in each at least one that no alignment of a tensor core's operands divides.
UNALIGNED = (
    (513, 513, 513),
    (1023, 1023, 1023),
    (2047, 2047, 2047),
    (4095, 4095, 4095),
    (1024, 1023, 1024),
    (1024, 1024, 1023),
    (1023, 1024, 1024),
    (2048, 2049, 2048),
    (4096, 1021, 4096),
    (1024, 768, 50257),
    (8192, 515, 2048),
    (511, 4097, 4097),
    (4096, 4097, 1024),
    (16384, 257, 1023),
)
#: Sizes that are aligned, small to large, square and not.
ALIGNED = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (16, 4096, 4096),
    (128, 4096, 4096),
    (8192, 1024, 1024),
    (1024, 4096, 1024),
    (2048, 768, 3072),
)


def products(operation: str, shapes: tuple[tuple[int, int, int], ...], dtype: Any, computed: bool) -> tuple[Any, list[Any]]:
    """Make a function with one product for each shape, a relu after each and with `computed` one before; and its arguments."""
    import torch

    def operands(m: int, k: int, n: int) -> list[Any]:
        batch = (8,) if operation == "bmm" else ()
        sizes = [(*batch, m, k), (*batch, k, n), *([(n,)] if operation == "addmm" else [])]
        return [torch.randn(*size, device="cuda", dtype=dtype) for size in sizes]

    def one(left: Any, right: Any, *bias: Any) -> Any:
        left = torch.relu(left) if computed else left
        return torch.relu(getattr(torch, operation)(*bias, left, right))

    width = 3 if operation == "addmm" else 2

    def function(*tensors: Any) -> list[Any]:
        return [one(*tensors[at : at + width]) for at in range(0, len(tensors), width)]

    small = [shape for shape in shapes if operation != "bmm" or max(shape) <= 4096]
    return function, [tensor for shape in small for tensor in operands(*shape)]


def measured(shapes: tuple[tuple[int, int, int], ...], mode: str | None, cases: Iterator[tuple[str, str, bool]]) -> Iterator[Any]:
    """Trace each (operation, dtype, computed) and yield the trace with its key."""
    import torch

    import explorer

    for operation, dtype, computed in cases:
        function, arguments = products(operation, shapes, getattr(torch, dtype), computed)
        yield f"{operation} {dtype}{' of computed' if computed else ''}", explorer.trace(function, *arguments, mode=mode)
        torch.cuda.empty_cache()


def padding() -> list[dict[str, Any]]:
    """One row for each kind of product: how many shapes Inductor timed, how many it pads, and the median gain of those."""
    cases = ((o, d, c) for o in OPERATIONS for d in ("bfloat16", "float16", "float32") for c in (False, True))
    rows = []
    for key, trace in measured(UNALIGNED, None, cases):
        choices = [a.data["choices"] for a in trace.find("autotune")]
        times = [{row["choice"]: row["ms"] for row in rows} for rows in choices]
        taken = [next(row["choice"] for row in rows if row["fastest"]) for rows in choices]
        shapes = {", ".join(a.data["inputs"]): t for a, t in zip(trace.find("autotune"), times, strict=True)}
        rows.append({"what": key, "timed": len(taken), "padded": taken.count("padded"), "shapes": shapes})
        print(f"| {key} | {len(taken)} | {taken.count('padded')} |", flush=True)
    return rows


def autotuning() -> list[dict[str, Any]]:
    """One row for each kind of product: how often the library is fastest, and how many epilogues a template takes in."""
    cases = ((o, d, False) for o, d in (("mm", "bfloat16"), ("addmm", "bfloat16"), ("bmm", "bfloat16"), ("mm", "float32")))
    rows = []
    for key, trace in measured(ALIGNED, "max-autotune-no-cudagraphs", cases):
        found = {", ".join(a.data["inputs"]): list(a.data["choices"]) for a in trace.find("autotune")}
        library = sum(choices[0]["kind"] == "ExternKernelCaller" for choices in found.values())
        launches = [(k.name, max(1, len(k.launches))) for k in trace.kernels if k.name.startswith("triton_tem")]
        templates, fused = sum(n for _, n in launches), sum(n for name, n in launches if "relu" in name)
        shapes = {
            shape: [(c["choice"], c["kind"], c["config"], c["ms"]) for c in choices[:3]] for shape, choices in found.items()
        }
        rows.append(
            {"what": key, "timed": len(found), "library": library, "templates": templates, "fused": fused, "shapes": shapes}
        )
        print(f"| {key} | {len(found)} | {library} | {templates} | {fused} |", flush=True)
    return rows


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write every time there")
    parser.add_argument("--only", choices=("padding", "autotuning"))
    options = parser.parse_args()
    tables: dict[str, tuple[str, Callable[[], list[dict[str, Any]]]]] = {
        "padding": ("| products | timed | padded |", padding),
        "autotuning": ("| products | timed | library fastest | templates in the code | of these with the epilogue |", autotuning),
    }
    made = {}
    for name, (head, make) in tables.items():
        if options.only in (None, name):
            print(head, flush=True)
            made[name] = make()
    if options.json:
        options.json.write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
