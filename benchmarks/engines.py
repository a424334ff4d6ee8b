"""Run small programs, forward and training, by every installed engine: equal, wrong or raises, with the reason.

    python benchmarks/engines.py                                   every program by every engine that is installed
    python benchmarks/engines.py --backends tvm --programs silu    some of them

Where `battery.py` has fifteen programs and the links of their texts, this has an operator or two each, and asks only whether the
result is right: by `Trace.check()` and by a comparison that shares no code with it, see `battery.judged`. Each engine has a
process of its own; a program that ends it loses only its own row.
"""

from __future__ import annotations

import argparse
import collections
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import battery
import children
from battery import Case

Made = Callable[[], tuple[Any, tuple[Any, ...]]]


def rows_of(shape: Sequence[int], function: str, *more: Any, **named: Any) -> Made:
    """A function of torch.nn.functional, or of torch, on numbers of this shape that can be differentiated."""

    def made() -> tuple[Any, tuple[Any, ...]]:
        import torch

        found = getattr(torch.nn.functional, function, None) or getattr(torch, function)
        return (lambda x: found(x, *more, **named)), (torch.randn(*shape, requires_grad=True),)

    return made


def layer(name: str, shape: Sequence[int], *arguments: Any) -> Made:
    """A module of torch.nn on numbers of this shape."""

    def made() -> tuple[Any, tuple[Any, ...]]:
        import torch

        return getattr(torch.nn, name)(*arguments), (torch.randn(*shape, requires_grad=True),)

    return made


def text(code: str, *shapes: Sequence[int]) -> Made:
    """The function that an expression in `torch` names, on numbers of these shapes."""

    def made() -> tuple[Any, tuple[Any, ...]]:
        import torch

        function = eval(code, {"torch": torch, "F": torch.nn.functional})  # of the expressions below
        return function, tuple(torch.randn(*shape, requires_grad=True) for shape in shapes)

    return made


def cross_entropy() -> tuple[Any, tuple[Any, ...]]:
    import torch

    def loss(x: Any, classes: Any) -> Any:
        return torch.nn.functional.cross_entropy(x, classes)

    return loss, (torch.randn(4, 6, requires_grad=True), torch.tensor([0, 5, 2, 2]))


def slice_assigned() -> tuple[Any, tuple[Any, ...]]:
    import torch

    def assigned(x: Any) -> Any:
        values = x * 2
        values[::2] = 7.0
        return values

    return assigned, (torch.randn(6, 4, requires_grad=True),)


def index_put() -> tuple[Any, tuple[Any, ...]]:
    import torch

    def put(x: Any, y: Any) -> Any:
        return x.index_put((torch.tensor([0, 2]),), y, accumulate=True)

    return put, (torch.randn(4, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True))


def index_add() -> tuple[Any, tuple[Any, ...]]:
    import torch

    def add(x: Any, y: Any) -> Any:
        return x.index_add(0, torch.tensor([0, 2, 2]), y)

    return add, (torch.randn(4, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True))


def integers() -> tuple[Any, tuple[Any, ...]]:
    import torch

    return (lambda a, b: a * b + 1), (torch.tensor([2**32, 3]), torch.tensor([1, 5]))


def embedding() -> tuple[Any, tuple[Any, ...]]:
    import torch

    return torch.nn.Embedding(10, 4), (torch.tensor([[1, 2], [9, 1]]),)


PROGRAMS: Mapping[str, Made] = {
    "sin": rows_of((4, 6), "sin"),
    "silu": rows_of((4, 6), "silu"),
    "gelu": rows_of((4, 6), "gelu"),
    "leaky_relu": rows_of((4, 6), "leaky_relu"),
    "mish": rows_of((4, 6), "mish"),
    "softplus": rows_of((4, 6), "softplus"),
    "softmax": rows_of((4, 6), "softmax", -1),
    "cumsum": rows_of((4, 6), "cumsum", -1),
    "sort": text("lambda x: torch.sort(x)[0]", (4, 6)),
    "linear": layer("Linear", (4, 6), 6, 3),
    "layer_norm": layer("LayerNorm", (4, 6), 6),
    "group_norm": layer("GroupNorm", (2, 4, 6), 2, 4),
    "batch_norm": layer("BatchNorm1d", (4, 6), 6),
    "conv": layer("Conv2d", (2, 3, 8, 8), 3, 4, 3),
    "max_pool": layer("MaxPool2d", (2, 3, 8, 8), 2),
    "embedding": embedding,
    "attention": text("F.scaled_dot_product_attention", (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)),
    "cross_entropy": cross_entropy,
    "mse_loss": text("F.mse_loss", (4, 6), (4, 6)),
    "addmv": text("torch.addmv", (4,), (4, 6), (6,)),
    "index_add": index_add,
    "index_put": index_put,
    "slices_joined": text("lambda x: torch.cat([x[:, 2:], x[:, :2]], 1) * 2", (6, 4)),
    "slice_assigned": slice_assigned,
    "int64": integers,
}
#: What no training changes: the result has no fractions.
NOT_TRAINED = ("int64",)
WAYS: Mapping[str, Mapping[str, Any]] = {"forward": {}, "training": {"train": True}}


def steps(item: tuple[str, str]) -> Iterator[children.Step]:
    """In the child: a program by a backend, in each way."""
    backend, name = item
    for way, options in WAYS.items():
        if way == "forward" or name not in NOT_TRAINED:
            yield way, functools.partial(battery.judged, backend, Case(name, PROGRAMS[name], options))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    engines = tuple(name for name in battery.titles() if name not in ("eager", "inductor"))
    parser.add_argument("--backends", nargs="+", choices=(*engines, "inductor"), default=list(engines))
    parser.add_argument("--programs", nargs="+", choices=tuple(PROGRAMS), default=list(PROGRAMS))
    children.add_arguments(parser, seconds=120.0)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each program that is not equal, and the counts of each engine; 1 where a result is wrong."""
    if "--child" in (sys.argv[1:] if arguments is None else arguments):
        children.serve(steps)
        return 0
    options = parse(arguments)
    counts: dict[str, collections.Counter[str]] = {}
    for backend in options.backends:
        if remedy := battery.missing(backend):
            print(f"{backend} is not installed: {remedy}")
            continue
        counts[backend] = collections.Counter()
        items = [(backend, name) for name in options.programs]
        for row in children.rows(items, [sys.executable, __file__, "--child"], options):
            counts[backend][row["kind"]] += 1
            if row["kind"] != "equal":
                program = row["item"][1] if row["item"] else ""
                print(f"{backend:9} {program:15} {row['name']:9} {row['kind']:14} {one_line(row.get('why', ''))}", flush=True)
    for backend, found in counts.items():
        print(f"{backend}: {', '.join(f'{count} {kind}' for kind, count in found.most_common())}")
    return int(any(set(found) - set(battery.GOOD) for found in counts.values()))


def one_line(words: str) -> str:
    return " ".join(words.split())[:200]


if __name__ == "__main__":
    sys.exit(main())
