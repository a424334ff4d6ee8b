"""Run fifteen small programs by every installed compiler: equal, raises, fell back, or wrong; and what is linked.

    python benchmarks/battery.py                                   every program by every compiler that is installed
    python benchmarks/battery.py --backends iree --cases mlp bert  some of them
    python benchmarks/battery.py --write docs/backends.md          the table in the docs, made anew
    python benchmarks/battery.py --keep FILE …                     cells of earlier runs are kept in a file, and joined by these

A result is judged twice: by `Trace.check()`, and here by a comparison with eager that shares no code with it. It looks at all
that the program returns, its gradients, its arguments and the state of its module afterwards, and with dynamic sizes at another
size too. Where the two judgements differ, the cell says so, and the script ends with status 1. Who ran the graphs is read off
the trace's stage `execution`. Each backend has a process of its own; a program that ends it, or takes longer than `--seconds`,
loses only its own cell.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import children

Row = dict[str, Any]
#: Where the docs have the table.
BEGIN, END = "<!-- made by benchmarks/battery.py: begin -->", "<!-- made by benchmarks/battery.py: end -->"
#: The kinds of cells, and what they mean.
KINDS = {
    "equal": "eager's values, types and shapes by both judges, and the engine ran every graph",
    "fell back": "equal, but PyTorch ran it, or a part of it, in the engine's place",
    "raises": "the engine refuses it; its words are below",
    "wrong": "no error, and another result than eager's",
    "imprecise": "eager's to a thousandth, and off by more than rounding explains",
    "SILENT": "wrong, and the trace has no failure that says so",
    "JUDGES DIFFER": "`Trace.check()` and the comparison of this script do not agree",
    "engine not known": "equal, but the trace does not say who ran it",
    "died": "it ended its process, or took too long",
    "not tried": "the time for all was over",
}
GOOD = ("equal", "fell back", "raises", "imprecise")
#: How near a value must be to eager's for this script's own judgement: relative, absolute.
NEAR = {
    "torch.float32": (1e-3, 1e-4),
    "torch.complex64": (1e-3, 1e-4),
    "torch.float64": (1e-6, 1e-6),
    "torch.bfloat16": (5e-2, 5e-2),
}


# The programs ------------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A program: what makes its function and its arguments, how it is traced, and what makes arguments of another size."""

    title: str
    made: Callable[[], tuple[Any, tuple[Any, ...]]]
    options: Mapping[str, Any] = {}
    another_size: Callable[[], tuple[Any, ...]] | None = None


def product() -> tuple[Any, tuple[Any, ...]]:
    import torch

    return (lambda x, w, b: x @ w + b), (torch.randn(4, 16), torch.randn(16, 8), torch.randn(8))


def mlp() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    class Perceptron(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 8)

        def forward(self, x: Any) -> Any:
            hidden = torch.relu(self.up(x))
            return self.down(hidden)

    return Perceptron(), (torch.randn(4, 16),)


def convolution() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    return layers.eval(), (torch.randn(2, 3, 16, 16),)


def attention() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    return (lambda q, k, v: scaled_dot_product_attention(q, k, v)), tuple(torch.randn(1, 2, 8, 16) for _ in range(3))


def layer_norm() -> tuple[Any, tuple[Any, ...]]:
    import torch

    return torch.nn.LayerNorm(32), (torch.randn(4, 32),)


def embedding() -> tuple[Any, tuple[Any, ...]]:
    import torch

    return torch.nn.Embedding(20, 16), (torch.randint(0, 20, (3, 5)),)


def two_results() -> tuple[Any, tuple[Any, ...]]:
    import torch

    return (lambda x: (x.sin() + 1, x.sum(-1))), (torch.randn(4, 16),)


def reductions() -> tuple[Any, tuple[Any, ...]]:
    import torch

    def function(x: Any) -> Any:
        return torch.softmax(x, -1), torch.sigmoid(x).mean(0), x.argmax(-1)

    return function, (torch.randn(4, 16),)


def training() -> tuple[Any, tuple[Any, ...]]:
    import torch

    layers, _ = mlp()
    return layers.train(), (torch.randn(4, 16, requires_grad=True),)


def mutation() -> tuple[Any, tuple[Any, ...]]:
    import torch

    def function(x: Any, y: Any) -> Any:
        x.add_(y)
        return x * 2

    return function, (torch.randn(4, 16), torch.randn(4, 16))


def bfloat16() -> tuple[Any, tuple[Any, ...]]:
    import torch

    return (lambda x, w: torch.relu(x @ w)), (torch.randn(4, 16).bfloat16(), torch.randn(16, 8).bfloat16())


def bert() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    model = BertModel(BertConfig(vocab_size=512, max_position_embeddings=64, **sizes))
    return model.eval(), (torch.randint(0, 512, (1, 16)),)


def gpt2() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 512, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(use_cache=False, **sizes)).eval(), (torch.randint(0, 512, (1, 16)),)


def vit() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    model = ViTModel(ViTConfig(image_size=32, patch_size=8, **sizes))
    return model.eval(), (torch.randn(1, 3, 32, 32),)


def smaller_batch() -> tuple[Any, ...]:
    import torch

    return (torch.randn(7, 16),)


CASES: Mapping[str, Case] = {
    "product": Case("x @ w + b", product),
    "mlp": Case("MLP", mlp),
    "convolution": Case("convolution, batch norm, ReLU, max pool", convolution),
    "attention": Case("scaled_dot_product_attention", attention),
    "layer_norm": Case("layer norm", layer_norm),
    "embedding": Case("embedding", embedding),
    "two_results": Case("two results", two_results),
    "reductions": Case("softmax, sigmoid, mean, argmax", reductions),
    "dynamic": Case("MLP, dynamic sizes", mlp, {"dynamic": True}, smaller_batch),
    "training": Case("MLP, training", training, {"train": True}),
    "mutation": Case("an input changed in place", mutation),
    "bfloat16": Case("bfloat16", bfloat16),
    "bert": Case("BERT, 2 layers", bert),
    "gpt2": Case("GPT-2, 2 layers", gpt2),
    "vit": Case("ViT, 2 layers", vit),
}


# In the child ------------------------------------------------------------------------------------------------------------


def cell(backend: Any, name: str) -> Row:
    """Trace one of the programs by a backend, and judge what comes of it."""
    return judged(backend, CASES[name])


def judged(backend: Any, case: Case) -> Row:
    """Trace a program by a backend, and judge what comes of it."""
    import torch

    import explorer
    from explorer.capture.compilers.backend import compiler_of

    torch.manual_seed(0)
    function, args = case.made()
    beside, before = copy.deepcopy(function), copy.deepcopy(args)
    trace = explorer.trace(function, *args, backend=backend, **case.options)
    said = [failure.message for failure in trace.failures if failure.step == "check"]
    lost = [str(failure) for failure in trace.failures if not failure.fatal and failure.step != "check"]
    facts: Row = {"linked": linked(trace, str(backend)), "lost": lost, "graphs": len(trace.find("dynamo"))}
    if fatal := [failure.message for failure in trace.failures if failure.fatal]:
        return {**facts, "kind": "raises", "why": engines_words(fatal[0])}
    differences = [*different(trace, (function, args), (beside, before)), *at_another_size(trace, case, beside)]
    unequal = [f"{row['output']}: {row['note'] or row['max_abs']}" for row in trace.check() if row["equal"] is not True]
    engines = who_ran(trace, backend)
    found = verdict(differences, unequal, engines)
    if found["kind"] in ("wrong", "imprecise") and not said and (compiler_of(backend) or "options" in case.options):
        found["kind"] = "SILENT"
    return {**facts, "engines": engines, **found}


def verdict(differences: Sequence[str], unequal: Sequence[str], engines: Sequence[Sequence[str]]) -> Row:
    """Choose the kind of a cell, and say why, by the two judgements and by who ran it."""
    if unequal and not differences and all("off by more than rounding" in words for words in unequal):
        return {"kind": "imprecise", "why": "; ".join(unequal)}
    if bool(differences) != bool(unequal):
        return {"kind": "JUDGES DIFFER", "why": f"check() finds {list(unequal)}, the comparison here {list(differences)}"}
    if differences:
        return {"kind": "wrong", "why": "; ".join(differences)}
    if not engines:
        return {"kind": "engine not known", "why": ""}
    by_pytorch = [why or "no reason is stated" for engine, why in engines if "PyTorch" in engine]
    if by_pytorch and engines[0] != ["PyTorch", "asked for"]:
        whole = "all of it" if all(engine == "PyTorch" for engine, _ in engines) else "a part"
        return {"kind": "fell back", "why": f"{whole}: {'; '.join(dict.fromkeys(by_pytorch))}"}
    return {"kind": "equal", "why": ""}


def who_ran(trace: Any, backend: Any) -> list[list[str]]:
    """List each engine that ran a part of the graphs, and for PyTorch why it did."""
    if backend == "eager":
        return [["PyTorch", "asked for"]]
    if backend == "inductor":
        return [["Inductor", ""] for _ in trace.find("output_code")]
    rows = [row for row in trace.table("execution") if row["calls"]]
    return [list(pair) for pair in dict.fromkeys((row["engine"], row["why"]) for row in rows)]


def different(trace: Any, after: tuple[Any, tuple[Any, ...]], before: tuple[Any, tuple[Any, ...]]) -> list[str]:
    """List what differs from one call of eager on copies: results, gradients, arguments and the module's state."""
    import torch

    function, args = before
    train = bool(trace.meta["train"])
    with torch.set_grad_enabled(train):
        returned = function(*args)
    found = list(apart("result", leaves(returned), leaves(trace.live.result)))
    found += apart("arguments in whose memory it is", views(returned, args), views(trace.live.result, after[1]))
    if train:
        sum(leaf.sum() for leaf in leaves(returned) if leaf.requires_grad).backward()
        named = {f"args[{n}]": arg for n, arg in enumerate(args)} | dict(getattr(function, "named_parameters", dict)())
        wanted = {name: tensor.grad for name, tensor in named.items() if tensor.requires_grad}
        given = [trace.live.gradients.get(name) for name in wanted]
        found += apart("gradient", list(wanted.values()), given)
    found += apart("argument afterwards", leaves(args), leaves(after[1]))
    return [*found, *apart("state afterwards", state(function), state(after[0]))]


def at_another_size(trace: Any, case: Case, function: Any) -> list[str]:
    """List what differs from eager when the compiled function is called with another size."""
    import torch

    if case.another_size is None:
        return []
    args = case.another_size()
    with torch.no_grad():
        return list(apart("result at another size", leaves(function(*copy.deepcopy(args))), leaves(trace.live.run(*args))))


def leaves(value: Any) -> list[Any]:
    """All that a nest of tuples, lists and mappings holds."""
    from torch.utils import _pytree as pytree

    return list(pytree.tree_leaves(value))


def views(value: Any, args: tuple[Any, ...]) -> list[list[int]]:
    """For each tensor of a result the arguments, by their number, that share its memory."""
    import torch

    memory = [arg.untyped_storage().data_ptr() if isinstance(arg, torch.Tensor) else None for arg in leaves(args)]
    tensors = [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor) and leaf.numel()]
    return [[n for n, at in enumerate(memory) if at == tensor.untyped_storage().data_ptr()] for tensor in tensors]


def state(function: Any) -> list[Any]:
    """The parameters and buffers of a module."""
    return list(getattr(function, "state_dict", dict)().values())


def apart(what: str, wanted: Sequence[Any], given: Sequence[Any]) -> Iterable[str]:
    """Say of each value that is not eager's how it differs, in the words of torch.testing.

    Strides of gradients are not compared, as in `Trace.check`: autograd lays out `.grad` itself, by its Gradient Layout Contract.
    """
    import torch

    if len(wanted) != len(given):
        yield f"{what}: {len(given)} values, and eager has {len(wanted)}"
        return
    for number, (one, other) in enumerate(zip(wanted, given, strict=True)):
        try:
            if isinstance(one, torch.Tensor):
                rtol, atol = NEAR.get(str(one.dtype), (0.0, 0.0))
                strides = what != "gradient"
                torch.testing.assert_close(other, one, rtol=rtol, atol=atol, check_stride=strides, equal_nan=True)
            elif one != other:
                yield f"{what} {number}: {other!r}, and eager has {one!r}"
        except (AssertionError, TypeError) as error:
            yield f"{what} {number}: {' '.join(str(error).split())}"


def linked(trace: Any, backend: str) -> dict[str, list[int]]:
    """For each stage below AOTAutograd's graphs: the lines that compute, and those of them that lead to a user line."""
    from explorer.stages import STAGES

    names = [stage.name for stage in STAGES]
    below = set(names[names.index("backward") + 1 :])
    found: dict[str, list[int]] = {}
    for row in trace.coverage():
        if row["stage"] in below:
            sums = found.setdefault(row["stage"], [0, 0])
            sums[:] = [sums[0] + row["counted"], sums[1] + row["linked"]]
    return found


def engines_words(message: str) -> str:
    """An error as the engine states it, without what Dynamo wraps around it."""
    message = re.sub(r"^\s*backend='[^']*' raised:\n", "", message.strip())
    return message.partition("\n\nSet TORCHDYNAMO_VERBOSE")[0].strip()


def steps(item: tuple[str, str]) -> list[children.Step]:
    """In the child: the steps for one program by one backend."""
    backend, name = item
    return [(name, functools.partial(cell, backend, name))]


# In the parent -----------------------------------------------------------------------------------------------------------


def titles() -> dict[str, str]:
    """The backends of the table, each with its title."""
    from explorer.capture.compilers.compilers import COMPILERS

    return {"eager": "PyTorch, eager", "inductor": "Inductor", **{compiler.name: compiler.title for compiler in COMPILERS}}


def missing(backend: str) -> str:
    """What to install for a backend; "" where it is installed."""
    from explorer.capture.compilers.compilers import compiler_named

    compiler = compiler_named(backend)
    return compiler.remedy if compiler is not None and compiler.missing else ""


def measured(options: argparse.Namespace) -> Iterable[Row]:
    """Yield the row of each cell as it comes; each backend has a process of its own."""
    command = [sys.executable, __file__, "--child"]
    for backend in options.backends:
        if remedy := missing(backend):
            print(f"{backend} is not installed: {remedy}")
            continue
        items = [(backend, name) for name in options.cases]
        for row in children.rows(items, command, options):
            backend_and_name = row.pop("item")
            if backend_and_name is None:
                raise SystemExit(f"the script failed: {row['why']}")
            yield {**row, "backend": backend_and_name[0], "name": backend_and_name[1]}


def table(rows: Sequence[Row]) -> str:
    """One row for each program, one column for each backend: the kind of each cell, and the share of linked lines."""
    cells = {(row["backend"], row["name"]): row for row in rows}
    columns = [backend for backend in titles() if any(row["backend"] == backend for row in rows)]
    head = ["program", *(titles()[backend] for backend in columns)]
    lines = [head, ["---"] * len(head)]
    for name, case in CASES.items():
        lines.append([case.title, *(shown(cells.get((backend, name))) for backend in columns)])
    return markdown(lines)


def shown(row: Row | None) -> str:
    """A cell as text."""
    if row is None:
        return ""
    kind = row["kind"] if row["kind"] in ("equal", "fell back", "raises") else f"**{row['kind']}**"
    share = percent(row.get("linked", {}).values())
    return f"{kind}, {share}" if share else kind


def percent(counts: Iterable[Sequence[int]]) -> str:
    """The share of lines that are linked, rounded down; "" where none computes."""
    counted, found = (sum(numbers) for numbers in zip(*counts, strict=True)) if (counts := list(counts)) else (0, 0)
    return f"{int(1000 * found / counted) / 10:g} %" if counted else ""


def by_stage(rows: Sequence[Row]) -> str:
    """One row for each stage of each backend: the lines that compute in all programs, and the share that is linked."""
    lines = [["compiler", "stage", "lines that compute", "linked"], ["---"] * 4]
    for backend, title in titles().items():
        stages: dict[str, list[int]] = {}
        for row in (row for row in rows if row["backend"] == backend):
            for stage, (counted, found) in row.get("linked", {}).items():
                sums = stages.setdefault(stage, [0, 0])
                sums[:] = [sums[0] + counted, sums[1] + found]
        lines += [[title, f"`{stage}`", f"{sums[0]:,}", percent([sums])] for stage, sums in stages.items() if sums[0]]
    return markdown(lines)


def messages(rows: Sequence[Row]) -> str:
    """List what the engine says of each cell that is not equal, and what the trace notes besides."""
    said = []
    for row in rows:
        where = f"{titles()[row['backend']]}, {CASES[row['name']].title}"
        if row.get("why"):
            said.append(f"- {where}, {row['kind']}: {quoted(row['why'])}")
        said += [f"- {where}, noted: {quoted(text)}" for text in dict.fromkeys(row.get("lost", ()))]
    return "\n".join(said) or "None."


def quoted(text: str, most: int = 300) -> str:
    """A message on one line, as code, without the paths of this machine."""
    text = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "…/", " ".join(text.split())).replace("`", "'")
    return f"`{text if len(text) <= most else f'{text[:most]}…'}`"


def markdown(lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def report(rows: Sequence[Row], machine: str) -> str:
    """The whole block of the docs."""
    kinds = "\n".join(f"- {kind}: {what}." for kind, what in KINDS.items() if any(row["kind"] == kind for row in rows))
    absent = [f"- {title}: not installed where this table was made" for name, title in titles().items() if missing(name)]
    parts = [machine, table(rows), kinds, *(["\n".join(absent)] if absent else []), "## What the engines say", messages(rows)]
    return "\n\n".join([*parts, "## Linked lines by stage", by_stage(rows)])


def written(path: Path, block: str) -> None:
    """Put the block between its marks in a file."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} has no {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{block}\n\n{END}{after}", encoding="utf-8")


def machine() -> str:
    """Say what the table was made with."""
    import importlib.metadata as metadata
    import platform

    from explorer.capture.compilers.catalogue import KNOWN

    packages = {known.package: known.version for known in KNOWN if known.package and known.name in titles() and known.version}
    packages = {"torch": metadata.version("torch"), "transformers": metadata.version("transformers"), **packages}
    return f"Python {platform.python_version()}, {', '.join(f'{name} {version}' for name, version in packages.items())}."


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--backends", nargs="+", choices=tuple(titles()), default=list(titles()))
    add("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    add("--write", type=Path, metavar="FILE", help="put the table between its marks in this file")
    add("--keep", type=Path, metavar="FILE", help="a JSON file with the cells of earlier runs, which these join")
    children.add_arguments(parser, seconds=180.0)
    return parser.parse_args(arguments)


def joined(earlier: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """All cells in the order of the table; of two cells for one place the later one."""
    cells = {(row["backend"], row["name"]): row for row in (*earlier, *rows)}
    return [cells[backend, name] for backend in titles() for name in CASES if (backend, name) in cells]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where a cell is none of those that a sound compiler gives."""
    if "--child" in (sys.argv[1:] if arguments is None else arguments):
        children.serve(steps)
        return 0
    options = parse(arguments)
    rows = []
    for row in measured(options):
        print(
            f"{row['backend']:10} {row['name']:12} {row['kind']:14} {row.get('seconds', '')} {row.get('why', '')[:200]}",
            flush=True,
        )
        rows.append(row)
    earlier = json.loads(options.keep.read_text(encoding="utf-8")) if options.keep and options.keep.exists() else []
    rows = joined(earlier, rows)
    if options.keep:
        options.keep.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    block = report(rows, machine())
    print(f"\n{block}")
    if options.write:
        written(options.write, block)
    bad = [row for row in rows if row["kind"] not in GOOD]
    for row in bad:
        print(f"\n!!! {row['kind']}: {row['backend']}, {row['name']}: {row.get('why', '')}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
