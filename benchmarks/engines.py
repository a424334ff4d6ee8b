"""Run small programs, forward and training, by every installed engine: equal, wrong or raises, with the reason.

    python benchmarks/engines.py                                   every program by every engine that is installed
    python benchmarks/engines.py --backends tvm --programs silu    some of them
    python benchmarks/engines.py --operators --jobs 2              every operator of PyTorch's own database
    python benchmarks/engines.py --operators 50 --seed 1           50 of them, drawn at random
    python benchmarks/engines.py --operators --backends pallas halide    the same by these code generators of Inductor

Where `battery.py` has fifteen programs and the links of their texts, this has an operator or two each, and asks only whether the
result is right: by `Trace.check()` and by a comparison that shares no code with it, see `battery.judged`. A wrong result that
the trace itself does not mention is SILENT. Each engine has a process of its own; a program that ends it loses only its own row.

The operators are those of torch.testing._internal.common_methods_invocations.op_db: the first sample of each that has a tensor
with elements, in float32 where the operator takes it, and also training where it can be differentiated.
"""

from __future__ import annotations

import argparse
import collections
import functools
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import battery
import check_operators
import children
from battery import Case
from generators import GENERATORS
from op_db import DTYPES

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


#: Code generators of Inductor that can stand for a backend.
OF_INDUCTOR = ("pallas", "halide")
#: The kinds of rows beside those of `battery.KINDS`: of operators that say nothing of an engine.
ASIDE = ("no sample", "eager fails", "random", "python")
#: Operators whose result is memory that nobody wrote.
UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
#: Options that let an engine take a graph of one operator, which OpenVINO's backend otherwise leaves to PyTorch.
FOR_OPERATORS: Mapping[str, Mapping[str, Any]] = {"openvino": {"testing": True}}


def steps(item: tuple[str, str, bool]) -> Iterator[children.Step]:
    """In the child: a program, or an operator, by a backend, in each way."""
    backend, name, is_operator = item
    for way, options in WAYS.items():
        if way == "forward" or (can_train(name) if is_operator else name not in NOT_TRAINED):
            judged = functools.partial(judged_operator, train=way == "training") if is_operator else battery.judged
            asked = FOR_OPERATORS.get(backend) if is_operator else None
            chosen = GENERATORS[backend].options if backend in OF_INDUCTOR else asked
            made = operator(name, way == "training") if is_operator else PROGRAMS[name]
            case = Case(name, made, {**options, **({"options": chosen} if chosen else {})})
            yield way, functools.partial(judged, "inductor" if backend in OF_INDUCTOR else backend, case)


# PyTorch's operators -----------------------------------------------------------------------------------------------------


def can_train(name: str) -> bool:
    """Whether an operator has a derivative in float32."""
    import torch

    op = check_operators.operator_named(name)
    return bool(op.supports_autograd and op.supports_dtype(torch.float32, "cpu"))


def operator(name: str, train: bool) -> Made:
    """An operator on the tensors of its first sample that has elements; LookupError without one."""

    def made() -> tuple[Any, tuple[Any, ...]]:
        import torch
        from torch.utils import _pytree as pytree

        if name in UNWRITTEN:
            raise LookupError("its result is memory that nobody wrote")
        op = check_operators.operator_named(name)
        dtype = next(dtype for each in DTYPES if op.supports_dtype(dtype := getattr(torch, each), "cpu"))
        for sample in op.sample_inputs("cpu", dtype, requires_grad=train):
            flat, form = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
            places = [n for n, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]
            if places and all(flat[n].numel() for n in places):
                break
        else:
            raise LookupError("the database has no sample with elements")

        given_tensors = tuple(flat[n].detach().requires_grad_(flat[n].requires_grad) for n in places)
        others = [None if n in places else leaf for n, leaf in enumerate(flat)]

        def call(*tensors: Any) -> Any:
            leaves = list(others)
            for place, tensor in zip(places, tensors, strict=True):
                leaves[place] = tensor
            given, args, kwargs = pytree.tree_unflatten(leaves, form)
            return op(given, *args, **kwargs)

        return call, given_tensors

    return made


def judged_operator(backend: str, case: Case, *, train: bool) -> battery.Row:
    """Judge an operator whose results eager repeats; where it has none to compare, the row says why."""
    import torch

    results = []
    for _ in range(2):
        try:
            function, args = case.made()
            results.append(battery.leaves(function(*args)))
        except LookupError as error:
            return {"kind": "no sample", "why": str(error)}
        except Exception as error:  # noqa: BLE001 whatever the operator raises
            return {"kind": "eager fails", "why": f"{type(error).__name__}: {error}"}
    if list(battery.apart("result", *results)):
        return {"kind": "random", "why": "eager gives another result each time"}
    tensors = [leaf for leaf in results[0] if isinstance(leaf, torch.Tensor)]
    if any(leaf.layout != torch.strided for leaf in (*tensors, *args)):
        return {"kind": "no sample", "why": "a tensor is sparse, which the comparison here does not read"}
    if train and (not any(leaf.requires_grad for leaf in tensors) or any(leaf.is_complex() for leaf in tensors)):
        return {"kind": "no sample", "why": "the sample's result has no gradient, or is complex"}
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        try:
            row = battery.judged(backend, case)
        except Exception as error:  # noqa: BLE001 what trace raises is the row
            return {"kind": "REFUSED", "why": f"{type(error).__name__}: {error}"}
    return row if row["kind"] != "engine not known" or row["graphs"] else {"kind": "python", "why": "Dynamo makes no graph of it"}


# The script --------------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    engines = tuple(name for name in battery.titles() if name not in ("eager", "inductor"))
    parser.add_argument("--backends", nargs="+", choices=(*engines, "inductor", *OF_INDUCTOR), default=list(engines))
    parser.add_argument("--programs", nargs="+", choices=tuple(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument("--operators", nargs="?", type=int, const=0, metavar="N", help="of the database; all without N")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="operators of these names")
    parser.add_argument("--seed", type=int, default=0)
    children.add_arguments(parser, seconds=120.0)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each program that is not equal, and the counts of each engine; 1 where a result is wrong."""
    if "--child" in (sys.argv[1:] if arguments is None else arguments):
        warnings.simplefilter("ignore")
        children.serve(steps)
        return 0
    options = parse(arguments)
    counts: dict[str, collections.Counter[str]] = {}
    for backend in options.backends:
        if remedy := battery.missing(backend):
            print(f"{backend} is not installed: {remedy}")
            continue
        counts[backend] = collections.Counter()
        items = children.part([(backend, name, of_database) for name, of_database in names(options)], options.part)
        for row in children.rows(items, [sys.executable, __file__, "--child"], options):
            counts[backend][row["kind"]] += 1
            if row["kind"] != "equal":
                program = row["item"][1] if row["item"] else ""
                print(f"{backend:9} {program:15} {row['name']:9} {row['kind']:14} {one_line(row.get('why', ''))}", flush=True)
    for backend, found in counts.items():
        print(f"{backend}: {', '.join(f'{count} {kind}' for kind, count in found.most_common())}")
    return int(any(set(found) - {*battery.GOOD, *ASIDE} for found in counts.values()))


def names(options: argparse.Namespace) -> list[tuple[str, bool]]:
    """The programs that were asked for, or the operators of the database; each with whether it is one of these."""
    if options.operators is None and not options.only:
        return [(name, False) for name in options.programs]
    found = list(dict.fromkeys(check_operators.name_of(op) for op in check_operators.database()))
    if options.only:
        found = [name for name in found if name in options.only]
    if options.operators:
        found = random.Random(options.seed).sample(found, min(options.operators, len(found)))
    return [(name, True) for name in found]


def one_line(words: str) -> str:
    return " ".join(words.split())[:200]


if __name__ == "__main__":
    sys.exit(main())
