"""What explorer has of the kernels of each of Inductor's code generators that run here: a row per generator and program.

    python benchmarks/generators.py
    python benchmarks/generators.py --generators pallas --programs scatter
    python benchmarks/generators.py --paths AOTInductor

Links are the computing lines of the kernels that lead to FX nodes. Below are the texts under a kernel's source that could be
made, of those that there may be. What does not compile here has its reason below the table.

A second table has a row per path to Inductor and program: C++ wrappers, AOTInductor, and the ways to compile ahead of a call.
User lines are the launches that lead to a line of the program. Missing are the stages of a torch.compile call that the path does
not have, each with its reason below.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Generator(NamedTuple):
    """A code generator of Inductor: the options that choose it, and the target that it writes for, which need not be here."""

    options: Mapping[str, str]
    target: str = "cpu"


#: A generator that is not installed has a row that says so.
GENERATORS = {
    "cpp": Generator({"cpu_backend": "cpp"}),
    "pallas": Generator({"cpu_backend": "pallas"}),
    "halide": Generator({"cpu_backend": "halide"}),
    "metal": Generator({}, "m3"),
    "triton": Generator({}, "h100"),
}


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.gelu(self.up(x))).sigmoid() * 2


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, 4, 16).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(x) + x)


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.convolution(x))).mean((2, 3))


class Scatter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.rows = nn.Parameter(torch.randn(16, 8)), nn.Embedding(20, 8)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        added = torch.zeros(16, 8, device=x.device).index_add(0, index, x * 2)
        put = (added + self.weight).index_put((index,), x + 1)
        return put.cos().sum(1), self.rows(index) * 3


#: A model, and what makes its inputs.
PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "mlp": (Mlp, lambda: (torch.randn(32, 64),)),
    "attention": (Attention, lambda: (torch.randn(2, 16, 64),)),
    "layer norm": (Norm, lambda: (torch.randn(32, 64),)),
    "convolution": (Convolution, lambda: (torch.randn(2, 3, 16, 16),)),
    "scatter": (Scatter, lambda: (torch.randn(8, 8), torch.arange(8) * 2)),
}
COLUMNS = ("generator", "program", "compiles here", "source lines", "kernels", "links", "below", "check equal", "view")


def traced(generator: Generator, program: str, train: bool) -> Any:
    """The trace of a program by a generator; an error that is not the compiler's is the caller's."""
    import explorer

    torch.manual_seed(0)
    model, inputs = PROGRAMS[program]
    return explorer.trace(model(), *inputs(), target=generator.target, train=train, options=dict(generator.options))


def row(generator: str, program: str, train: bool) -> tuple[dict[str, str], str]:
    """The cells of a row, and why the program does not compile here, "" where it does."""
    from explorer.errors import InputError

    cells = dict.fromkeys(COLUMNS, "")
    cells |= {"generator": generator, "program": f"{program}, training" if train else program}
    try:
        trace = traced(GENERATORS[generator], program, train)
    except Exception as error:  # noqa: BLE001 whatever keeps a generator from running is its row
        return cells | {"compiles here": "no"}, f"{type(error).__name__}: {error}"
    why = next((failure.message for failure in trace.failures if failure.fatal), "")
    cells["compiles here"] = "no" if why else "yes"
    cells["kernels"] = str(len(trace.kernels))
    cells["source lines"] = str(sum(len(kernel.artifact.lines) for kernel in trace.kernels))
    linked, computing = links(trace)
    cells["links"] = f"{linked} of {computing}, {linked / computing:.1%}" if computing else ""
    cells["view"] = shown(trace)
    if not why:
        made, possible = below(trace)
        cells["below"] = f"{made} of {possible}"
        try:
            rows = trace.check()
        except InputError:
            cells["check equal"] = "not run here"  # Metal's run on an Apple GPU alone
        else:
            cells["check equal"] = f"{sum(bool(each['equal']) for each in rows)} of {len(rows)}"
    return cells, why


class Compiled(NamedTuple):
    """What a path gave: its trace, and how many of its results are eager's, of how many."""

    trace: Any
    equal: tuple[int, int]


def by_cpp_wrapper(model: nn.Module, inputs: Sequence[torch.Tensor], train: bool) -> Compiled:
    """torch.compile with a wrapper in C++."""
    import explorer

    trace = explorer.trace(model, *inputs, train=train, options={"cpp_wrapper": True})
    rows = () if trace.failures else trace.check()
    return Compiled(trace, (sum(bool(each["equal"]) for each in rows), len(rows)))


def by_aot_inductor(model: nn.Module, inputs: Sequence[torch.Tensor], train: bool) -> Compiled:
    """torch.export, a package, and the package called."""
    import explorer

    if train:
        raise ValueError("AOTInductor compiles no backward")
    expected = results(copy.deepcopy(model), inputs, train)
    own_metadata = torch._inductor.config.patch({"aot_inductor.metadata": {}})  # torch adds to it, and would leave it so
    with tempfile.TemporaryDirectory() as folder, torch.no_grad(), own_metadata:
        with explorer.record(fresh=True) as recording:
            exported = torch.export.export(model, tuple(inputs))
            file = torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/model.pt2")
        given = leaves(torch._inductor.aoti_load_package(file)(*inputs))
    return Compiled(recording.trace, agreement(given, expected))


def by_standalone_compile(model: nn.Module, inputs: Sequence[torch.Tensor], train: bool) -> Compiled:
    """A graph of make_fx, in training with the gradients in it."""
    from torch.fx.experimental.proxy_tensor import make_fx

    import explorer

    expected = results(copy.deepcopy(model), inputs, train)
    names = [name for name, _ in model.named_parameters()]
    buffers = [name for name, _ in model.named_buffers()]

    def step(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state = dict(zip((*names, *buffers), tensors, strict=False))
        returned = leaves(torch.func.functional_call(model, state, tensors[len(state) :]))
        if not train:
            return returned
        return *returned, *torch.autograd.grad(loss(returned), tensors[: len(names)])

    given = [*model.parameters(), *model.buffers(), *inputs]
    graph = make_fx(step, record_stack_traces=True)(*copy.deepcopy(given))
    with explorer.record(fresh=True) as recording, torch.no_grad():
        compiled = torch._inductor.standalone_compile(graph, given, dynamic_shapes="from_example_inputs")
        returned = compiled(*given)
    return Compiled(recording.trace, agreement(returned, expected))


def by_aot_compile(model: nn.Module, inputs: Sequence[torch.Tensor], train: bool) -> Compiled:
    """Dynamo and Inductor ahead of the call."""
    import explorer

    expected = results(copy.deepcopy(model), inputs, train)
    with torch._dynamo.config.patch(enable_aot_compile=True), torch.set_grad_enabled(train):
        with explorer.record(fresh=True) as recording:
            ahead = torch.compile(model, fullgraph=True).forward.aot_compile((tuple(inputs), {}))
        given = results(model, inputs, train, lambda *args: ahead(model, *args))
    return Compiled(recording.trace, agreement(given, expected))


def by_precompile(model: nn.Module, inputs: Sequence[torch.Tensor], train: bool) -> Compiled:
    """torch.compile, which writes a package that a later process loads."""
    import explorer

    expected = results(copy.deepcopy(model), inputs, train)
    with torch._dynamo.config.patch(caching_precompile=True), torch.set_grad_enabled(train):
        with explorer.record(fresh=True) as recording:
            given = results(model, inputs, train, torch.compile(model))
    return Compiled(recording.trace, agreement(given, expected))


#: Every way to Inductor that is not a plain torch.compile.
PATHS: dict[str, Callable[[nn.Module, Sequence[torch.Tensor], bool], Compiled]] = {
    "cpp_wrapper": by_cpp_wrapper,
    "AOTInductor": by_aot_inductor,
    "standalone_compile": by_standalone_compile,
    "aot_compile": by_aot_compile,
    "caching_precompile": by_precompile,
}
PATH_COLUMNS = ("path", *COLUMNS[1:], "user lines", "missing")
#: What a call of torch.compile has, and what it has only in training.
STAGES = (
    *("source", "compile_call", "bytecode", "dynamo", "dynamo_bytecode", "guards", "pre_grad", "aot_metadata", "forward"),
    *("post_grad", "lowering", "ir_pre_fusion", "fusion", "ir_post_fusion", "output_code", "kernel"),
)
STAGES_OF_TRAINING = ("joint", "backward")


def leaves(returned: Any) -> tuple[torch.Tensor, ...]:
    """The tensors that a program returns."""
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def loss(returned: Sequence[torch.Tensor]) -> torch.Tensor:
    """What a training program differentiates."""
    return torch.stack([tensor.sum() for tensor in returned]).sum()


def results(
    model: nn.Module, inputs: Sequence[torch.Tensor], train: bool, function: Callable[..., Any] | None = None
) -> tuple[torch.Tensor, ...]:
    """What `function`, else the model itself, returns, and in training the gradients of the model's parameters."""
    returned = leaves((model if function is None else function)(*inputs))
    if not train:
        return returned
    return *returned, *torch.autograd.grad(loss(returned), tuple(model.parameters()))


def agreement(given: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> tuple[int, int]:
    """How many tensors are eager's, up to rounding, and how many there are."""
    pairs = list(zip(given, expected, strict=True))
    return sum(torch.allclose(one, other, rtol=1e-4, atol=1e-4) for one, other in pairs), len(pairs)


def row_of_path(path: str, program: str, train: bool) -> tuple[dict[str, str], dict[str, str]]:
    """The cells of a row, and the reason for each stage that is missing, or "compile" for what does not compile here."""
    cells = dict.fromkeys(PATH_COLUMNS, "")
    cells |= {"path": path, "program": f"{program}, training" if train else program}
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = PROGRAMS[program]
    try:
        compiled = PATHS[path](model(), inputs(), train)
    except Exception as error:  # noqa: BLE001 whatever keeps a path from running is its row
        return cells | {"compiles here": "no"}, {"compile": f"{type(error).__name__}: {error}"}
    trace = compiled.trace
    fatal = next((failure.message for failure in trace.failures if failure.fatal), "")
    why = {"compile": fatal} if fatal else {}
    linked, computing = links(trace)
    made, possible = below(trace)
    launches = trace.profile.launches
    why |= missing(trace, (*STAGES, *STAGES_OF_TRAINING) if train else STAGES)
    cells |= {
        "compiles here": "no" if "compile" in why else "yes",
        "source lines": str(sum(len(kernel.artifact.lines) for kernel in trace.kernels)),
        "kernels": str(len(trace.kernels)),
        "links": f"{linked} of {computing}, {linked / computing:.1%}" if computing else "",
        "below": f"{made} of {possible}",
        "check equal": f"{compiled.equal[0]} of {compiled.equal[1]}",
        "view": shown(trace),
        "user lines": f"{sum(bool(launch['line']) for launch in launches)} of {len(launches)}",
        "missing": ", ".join(stage for stage in why if stage != "compile"),
    }
    return cells, why


def missing(trace: Any, stages: Sequence[str]) -> dict[str, str]:
    """The stages that a trace does not have, each with what explorer says of it."""
    from explorer.errors import InputError

    reasons = {}
    for stage in stages:
        if not trace.find(stage):
            try:
                trace.text(stage)
            except InputError as error:
                reasons[stage] = str(error).partition(": ")[2]
    return reasons


def links(trace: Any) -> tuple[int, int]:
    """How many computing lines of the kernels lead to FX nodes, and how many there are."""
    from explorer.stages.kinds import kernel_kinds

    linked = computing = 0
    for kernel in trace.find("kernel"):
        lines = {number for number, kind in enumerate(kernel_kinds(kernel), 1) if not kind}
        to_nodes = [link for link in trace.links if link.source == kernel.id and ":post_grad" in link.target]
        computing += len(lines)
        linked += len(lines & {number for link in to_nodes for number in link.source_lines})
    return linked, computing


def shown(trace: Any) -> str:
    """How many of the view's kernels say what they compute and from which line of the program, and how many it has."""
    from explorer.view.payload import payload

    kernels = payload(trace)["kernels"]
    return f"{sum(bool(kernel['title'] and kernel['user'][1]) for kernel in kernels)} of {len(kernels)}"


def below(trace: Any) -> tuple[int, int]:
    """How many texts under the kernels' sources could be made, and how many there may be."""
    from explorer.errors import ExplorerError

    made = possible = 0
    for kernel in trace.kernels:
        for stage in kernel.stages[1:]:
            possible += 1
            try:
                made += not kernel.text(stage).startswith("// JAX does not make it")
            except ExplorerError:
                continue
    return made, possible


def table(generators: list[str], programs: list[str]) -> Iterator[str]:
    """The lines of the table, and of the reasons below it."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| {' | '.join('---' for _ in COLUMNS)} |"
    reasons = []
    for generator in generators:
        for program in programs:
            for train in (False, True):
                cells, why = row(generator, program, train)
                yield f"| {' | '.join(cells.values())} |"
                if why:
                    reasons.append(f"{generator}, {cells['program']}: {' '.join(why.split())[:300]}")
    yield from ("", *reasons)


def table_of_paths(paths: Sequence[str], programs: Sequence[str]) -> Iterator[str]:
    """The lines of the table of paths, and of the reasons below it, each once."""
    yield f"| {' | '.join(PATH_COLUMNS)} |"
    yield f"| {' | '.join('---' for _ in PATH_COLUMNS)} |"
    reasons: dict[str, None] = {}
    for path in paths:
        for program in programs:
            for train in (False, True):
                cells, why = row_of_path(path, program, train)
                yield f"| {' | '.join(cells.values())} |"
                for stage, reason in why.items():
                    of = f"{path}, {cells['program']}" if stage == "compile" else f"{path}, {stage}"
                    reasons[f"{of}: {' '.join(reason.split())[:300]}"] = None
    yield from ("", *reasons)


def main() -> None:
    """Print the tables; where only one is asked for, that one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generators", nargs="*", choices=GENERATORS)
    parser.add_argument("--paths", nargs="*", choices=PATHS)
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    arguments = parser.parse_args()
    both = arguments.generators is None and arguments.paths is None
    generators = list(GENERATORS) if both else arguments.generators
    paths = list(PATHS) if both else arguments.paths
    for line in table(generators, arguments.programs) if generators else ():
        print(line, flush=True)
    for line in table_of_paths(paths, arguments.programs) if paths else ():
        print(line, flush=True)


if __name__ == "__main__":
    main()
