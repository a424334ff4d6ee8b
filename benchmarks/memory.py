"""Compare the peak memory that a trace states with what torch's allocator gave out.

    python benchmarks/memory.py                        every program, a row per graph
    python benchmarks/memory.py --only sort bf16       programs whose name has one of these parts
    python benchmarks/memory.py --device cuda          on the attached GPU

Each program is traced and runs once more. The allocator's figure for a graph is the bytes of the graph's inputs, and the most
that was allocated beyond them while the graph ran, as torch's profiler saw it. The graph is given copies of its inputs. The
copies of what the program holds, its arguments and parameters, are held until the end; nobody else holds what a forward saved
for its backward, so that this frees it where its code deletes it. A peak "at least" so large is right if it is not more.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import explorer
from explorer.lab.live.protocol import live_of

#: A program: a function, its arguments, and whether it is trained.
Program = tuple[Callable[..., Any], tuple[Any, ...], bool]
#: A peak further off than this is marked.
MAX_OFF = 0.05


# Programs ----------------------------------------------------------------------------------------------------------------


def programs() -> dict[str, Callable[[], Program]]:
    """Collect the programs by name; a program makes its tensors when it is called."""
    return {**elementwise(), **models(), **linear_algebra(), **orders(), **trained()}


def infer(function: Callable[..., Any], *arguments: Any) -> Program:
    """Give a program that is not trained."""
    return function, arguments, False


def train(function: Callable[..., Any], *arguments: Any) -> Program:
    """Give a program that is trained."""
    return function, arguments, True


def halved(module: nn.Module) -> nn.Module:
    """Return the module in bfloat16."""
    return module.to(torch.bfloat16)


def r(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Make a random tensor."""
    return torch.randn(*size).to(dtype)


def attention(x: torch.Tensor) -> torch.Tensor:
    """Attend with a query, key and value of one tensor."""
    return F.scaled_dot_product_attention(torch.sin(x), torch.cos(x), torch.tanh(x)).sum(-1)


def encoder() -> nn.TransformerEncoderLayer:
    """Make a layer of a transformer's encoder."""
    return nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)


def perceptron(width: int = 256) -> nn.Module:
    """Make Linear, GELU, Linear."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


def convolutions() -> nn.Module:
    """Make a network of convolutions with batch norms."""
    first = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()
    return nn.Sequential(*first, nn.Conv2d(32, 64, 3, stride=2), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


def sequence_convolution() -> nn.Module:
    """Make a one-dimensional convolution with a group norm."""
    return nn.Sequential(nn.Conv1d(32, 64, 5, padding=2), nn.GroupNorm(8, 64), nn.SiLU())


class Bag(nn.Module):
    """Embeddings of bags of tokens, with a linear layer behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(1000, 64, mode="sum"), nn.Linear(64, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the head's result for each bag."""
        return self.head(self.bag(tokens))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """An LSTM whose last output is the result."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(64, 128, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last output."""
        return self.cells(x)[0][:, -1]  # type: ignore[no-any-return]


def elementwise() -> dict[str, Callable[[], Program]]:
    """Programs of generated kernels, with few library calls."""
    return {
        "pointwise": lambda: infer(lambda x: torch.sin(x) @ torch.cos(x), r(512, 512)),
        "cumsum": lambda: infer(lambda x: torch.cumsum(x.sin(), 0) * 2, r(1024, 256)),
        "index_add": lambda: infer(lambda x, i, s: x.index_add(0, i, s.cos()), r(512, 64), torch.arange(2048) % 512, r(2048, 64)),
        "logcumsumexp": lambda: infer(lambda x: torch.logcumsumexp(x.sin(), 1) + 1, r(512, 512)),
    }


def models() -> dict[str, Callable[[], Program]]:
    """Networks without training."""
    return {
        "mlp": lambda: infer(perceptron(), r(256, 256)),
        "mlp bf16": lambda: infer(halved(perceptron()), r(256, 256, dtype=torch.bfloat16)),
        "conv1d + GroupNorm": lambda: infer(sequence_convolution(), r(8, 32, 1024)),
        "convolutions": lambda: infer(convolutions().eval(), r(4, 3, 64, 64)),
        "convolutions bf16": lambda: infer(halved(convolutions().eval()), r(4, 3, 64, 64, dtype=torch.bfloat16)),
        "sdpa": lambda: infer(attention, r(4, 8, 256, 64)),
        "encoder": lambda: infer(encoder().eval(), r(8, 128, 128)),
        "encoder bf16": lambda: infer(halved(encoder().eval()), r(8, 128, 128, dtype=torch.bfloat16)),
        "lstm": lambda: infer(Recurrent().eval(), r(8, 16, 64)),
        "embedding bag": lambda: infer(Bag(), torch.arange(64 * 16).reshape(64, 16) % 1000),
    }


def linear_algebra() -> dict[str, Callable[[], Program]]:
    """Decompositions, solutions, distances and transforms."""
    return {
        "qr": lambda: infer(lambda x: torch.linalg.qr(x.cos())[0] * 2, r(384, 384)),
        "svd": lambda: infer(lambda x: torch.linalg.svd(x.sin())[1] * 2, r(192, 192)),
        "eigh": lambda: infer(lambda x: torch.linalg.eigh(x @ x.T)[1] * 2, r(192, 192)),
        "solve": lambda: infer(lambda a, b: torch.linalg.solve(a * 2, b) + 1, torch.eye(256) + r(256, 256) / 99, r(256, 64)),
        "cdist": lambda: infer(lambda x, y: torch.cdist(x.sin(), y).exp(), r(512, 64), r(512, 64)),
        "fft": lambda: infer(lambda x: torch.fft.rfft(x.sin()).abs() + 1, r(256, 1024)),
        "bmm of a transposed": lambda: infer(lambda x, y: torch.bmm(x.sin().transpose(1, 2), y), r(8, 128, 128), r(8, 128, 128)),
    }


def orders() -> dict[str, Callable[[], Program]]:
    """Sorts and their like."""
    return {
        "sort": lambda: infer(lambda x: torch.sort(x.sin(), 0)[0] * 2, r(512, 512)),
        "topk": lambda: infer(lambda x: torch.topk(x.sin(), 12)[0] + 1, r(512, 512)),
        "median": lambda: infer(lambda x: torch.median(x.sin(), -1)[0] + 1, r(512, 512)),
        "searchsorted": lambda: infer(lambda e, x: torch.searchsorted(e, x.sin()) + 1, torch.arange(64.0), r(512, 512)),
    }


def trained() -> dict[str, Callable[[], Program]]:
    """Networks with training: a forward graph and a backward graph each."""
    return {
        "mlp, trained": lambda: train(perceptron(), r(256, 256)),
        "mlp bf16, trained": lambda: train(halved(perceptron()), r(256, 256, dtype=torch.bfloat16)),
        "conv1d + GroupNorm, trained": lambda: train(sequence_convolution(), r(8, 32, 1024)),
        "convolutions, trained": lambda: train(convolutions(), r(4, 3, 64, 64)),
        "sdpa, trained": lambda: train(attention, r(4, 8, 256, 64).requires_grad_()),
        "encoder, trained": lambda: train(encoder(), r(8, 128, 128)),
        "encoder bf16, trained": lambda: train(halved(encoder()), r(8, 128, 128, dtype=torch.bfloat16)),
        "embedding bag, trained": lambda: train(Bag(), torch.arange(64 * 16).reshape(64, 16) % 1000),
        "sort, trained": lambda: train(lambda x: torch.sort(x.sin(), 0)[0] * 2, r(512, 512).requires_grad_()),
    }


# The allocator -----------------------------------------------------------------------------------------------------------


class Interval(NamedTuple):
    """A call of a compiled graph: the bytes of its inputs, and the name under which the profiler has its time."""

    input_bytes: int
    label: str


def seen_by_allocator(compiled: Callable[..., Any], arguments: tuple[Any, ...], trained: bool) -> list[int]:
    """Return the peak of each compiled graph in the order in which they run."""
    step(compiled, arguments, trained)  # what libraries keep for themselves is there from now on
    intervals: list[Interval] = []
    with called_with_copies(intervals), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step(compiled, arguments, trained)
    events = sorted(profiled.profiler.kineto_results.events(), key=lambda event: event.start_ns())  # type: ignore[union-attr]
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]" and on_device(event)]
    spans = {event.name(): (event.start_ns(), event.end_ns()) for event in events}
    return [interval.input_bytes + most(changes, *spans[interval.label]) for interval in intervals]


def on_device(event: Any) -> bool:
    """Tell whether memory is that of the device that the programs run on."""
    return (event.device_type() == torch.autograd.DeviceType.CUDA) == torch.get_default_device().type.startswith("cuda")


def most(changes: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    """Return the most that is allocated at once between two times, beyond what was there at the first."""
    live = peak = 0
    for at, size in changes:
        if begin <= at <= end:
            live += size
            peak = max(peak, live)
    return peak


def step(compiled: Callable[..., Any], arguments: tuple[Any, ...], trained: bool) -> None:
    """Call the function, and its backward where it is trained."""
    with torch.set_grad_enabled(trained):
        result = compiled(*arguments)
        if trained:
            result.float().sum().backward()


@contextmanager
def called_with_copies(intervals: list[Interval]) -> Iterator[None]:
    """Give each compiled graph copies of its inputs, and note their bytes."""
    from torch._inductor.output_code import CompiledFxGraph

    original = CompiledFxGraph.__call__
    held: dict[int, torch.Tensor] = {}  # by the place of its storage

    def call(self: Any, inputs: Any) -> Any:
        copies = copied(inputs)
        held.update(of_the_program(inputs, copies, held if self.fx_kwargs.get("is_backward") else None))
        storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in copies if isinstance(x, torch.Tensor)}
        intervals.append(Interval(sum(storages.values()), f"graph {len(intervals)}"))
        if hasattr(inputs, "clear"):
            inputs.clear()
        with torch.profiler.record_function(intervals[-1].label):
            return original(self, copies)

    CompiledFxGraph.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        CompiledFxGraph.__call__ = original  # type: ignore[method-assign]


def of_the_program(inputs: Sequence[Any], copies: Sequence[Any], held: Mapping[int, Any] | None) -> dict[int, torch.Tensor]:
    """Return the copies of what the program holds: all inputs of a forward, and those of its backward that are in `held`."""
    pairs = [(one, copy) for one, copy in zip(inputs, copies, strict=True) if isinstance(copy, torch.Tensor)]
    return {place(copy): copy for one, copy in pairs if held is None or place(one) in held}


def place(tensor: torch.Tensor) -> int:
    """Return where a tensor's storage is."""
    return tensor.untyped_storage().data_ptr()


def copied(inputs: Sequence[Any]) -> list[Any]:
    """Copy tensors with their whole storages, which views of one storage share in the copies too."""
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage() for x in inputs if isinstance(x, torch.Tensor)}
    copies = {place: storage.clone() for place, storage in storages.items()}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        storage = copies[tensor.untyped_storage().data_ptr()]
        return made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())

    return [copy(value) if isinstance(value, torch.Tensor) else value for value in inputs]


# The table ---------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="*", default=[""])
    options.add_argument("--device", default="cpu")
    given = options.parse_args()
    print("| program | graph | stated | allocator | off | |\n| --- | --- | ---: | ---: | ---: | --- |")
    rows = [
        row
        for name, make in programs().items()
        if any(part in name for part in given.only)
        for row in compared(name, make, given.device)
    ]
    outside = [row for row in rows if not row]
    print(f"\n{len(rows)} graphs, {len(outside)} more than {MAX_OFF:.0%} off or outside of the stated range")


def compared(name: str, make: Callable[[], Program], device: str) -> Iterator[bool]:
    """Print a row per graph of a program; tell of each whether the peak is right."""
    torch.compiler.reset()
    torch.manual_seed(0)
    torch.set_default_device(device)
    torch._dynamo.config.allow_rnn = True
    function, arguments, trained = make()
    trace = explorer.trace(function, *arguments, target=device, train=trained)
    seen = seen_by_allocator(live_of(trace).compiled, arguments, trained)  # type: ignore[union-attr]
    graphs = trace.find("output_code")
    if len(graphs) != len(seen):
        raise SystemExit(f"{name}: {len(graphs)} graphs were compiled, and {len(seen)} ran")
    for artifact, allocator in zip(graphs, seen, strict=True):
        stated = max(row["live"] for row in trace.memory.timeline.where(frame=artifact.frame, graph=artifact.graph))
        off = (stated - allocator) / allocator
        uncounted = [row["call"] for row in trace.memory.uncounted if row["artifact"] == artifact.id]
        rows = trace.memory.table.where(frame=artifact.frame, graph=artifact.graph)
        left_out = [*uncounted, *(row["names"][0] for row in rows if row["bytes"] is None)]
        right = abs(off) <= MAX_OFF or (bool(left_out) and off <= 0)
        note = f"at least, without {', '.join(left_out)}" if left_out else "" if right else "off"
        print(f"| {name} | {artifact.graph} | {stated:,} | {allocator:,} | {off:+.1%} | {note} |", flush=True)
        yield right


if __name__ == "__main__":
    main()
