"""Write the output code of a whole trace as one script: each graph's wrapper as it is, its inputs, the graph, and timing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.capture.splice.calls import RecordedCall, constants
from explorer.capture.splice.wrappers import Wrapper
from explorer.errors import NoVerbError
from explorer.lab.scripts import parts
from explorer.lab.scripts.inputs import beside_script, keeps, random_inputs, save
from explorer.lab.scripts.kernel_script import Made, precision
from explorer.model.records import typed
from explorer.model.shared import OutputCode
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.model.wording import quantity
from explorer.stages.fx_graph import FxGraph

#: What is in the text of a graph, or of its code, that draws random numbers.
_DRAWS = re.compile(r"inductor_seed|inductor_rand|aten\.(?:rand|bernoulli|native_dropout|normal|uniform|multinomial|randperm)")
#: What a script needs besides the imports of every script.
_LOADER = '''

def loaded(code: str, names: Any) -> Callable[..., Any]:
    """Load output code as Inductor does, and return its `call`."""
    with config.patch(OPTIONS):
        module = PyCodeCache.load(code)
    for name, value in names.items():
        setattr(module, name, value)
    return module.call
'''


@dataclass(frozen=True)
class GraphCall:
    """A compiled graph and its recorded call: all data for its part of a script.

    If the recorded call is known to be wrong, `recorded` is False, and the script does not compare with its results.
    """

    number: int
    code: Artifact
    text: str
    call: RecordedCall
    names: Mapping[str, Any] = field(default_factory=dict)
    graph: Artifact | None = None
    device: str = "cpu"
    absent: bool = False
    recorded: bool = True

    @property
    def label(self) -> str:
        """The graph's name in words."""
        return f"graph {self.number}, {self.code.frame} {self.code.graph}".rstrip()

    @property
    def values(self) -> list[Any]:
        """The arguments, and the constants after them."""
        return [*self.call.before, *self.names.values()]

    @property
    def draws(self) -> bool:
        """Whether the graph draws random numbers."""
        return bool(_DRAWS.search(self.graph.text if self.graph and self.recorded else self.text))

    @property
    def devices(self) -> list[str]:
        """The device of each value, "" for a number. For an absent GPU, the graph says which device it is."""
        import torch

        nodes = [n for n in typed(FxGraph, self.graph.data).nodes or () if n.op == "placeholder"] if self.graph else []
        stated = [n.device for n in nodes] if len(nodes) == len(self.call.before) else []
        stated += [None] * (len(self.values) - len(stated))
        if not self.absent:
            return [str(v.device) if isinstance(v, torch.Tensor) else "" for v in self.values]
        pairs = zip(self.values, stated, strict=True)
        return [(device or self.device) if isinstance(v, torch.Tensor) else "" for v, device in pairs]

    @property
    def eager(self) -> str:
        """The graph as a class of Python; "" where it cannot be written as one."""
        if self.graph is None or "triton_kernel_wrapper" in self.graph.text:
            return ""
        inside = set(re.findall(r"^\s+class (\w+)\(", self.graph.text, re.MULTILINE))
        statements = re.sub(r"^\s*#.*$", "", self.graph.text, flags=re.MULTILINE)  # the user's lines, in which there is self too
        wanted = set(re.findall(r"\bself\.(\w+)", statements)) - inside
        if not wanted <= set(self.names):
            return ""
        return re.sub(
            r"^class .*?\(torch\.nn\.Module\):", f"class Graph{self.number}(torch.nn.Module):", self.graph.text, count=1
        )


def graph_calls(
    trace: TraceData, wrappers: Sequence[Wrapper], calls: Sequence[RecordedCall], device: str, *, absent: bool
) -> list[GraphCall]:
    """Join each recorded call with its wrapper and its graph; NoVerbError where nothing was called."""
    by_file = {typed(OutputCode, a.data).file: a for a in trace.find("output_code")}
    of_wrapper = {wrapper.file: wrapper for wrapper in wrappers}
    made: list[GraphCall] = []
    for call in calls:
        wrapper, code = of_wrapper[call.file], by_file.get(call.file)
        if code is None:
            continue
        graphs = [a for name in ("inductor_input", "forward", "backward") for a in trace.find(name, code.frame, code.graph)]
        graph = graphs[0] if graphs else None
        made.append(GraphCall(len(made) + 1, code, wrapper.text, call, constants(wrapper), graph, device, absent))
    if not made:
        raise NoVerbError(
            "the program called no output code of Inductor when it ran again, so there is nothing to write: Inductor compiled no "
            "graph, another compiler did, or CUDA graphs replayed it; trace without mode='reduce-overhead'"
        )
    return made


def write(
    trace: TraceData,
    graphs: Sequence[GraphCall],
    path: Path,
    inputs: str,
    options: Mapping[str, Any],
    gpu: Any,
    about: Sequence[str] = (),
) -> Made:
    """Write the script, and its inputs where they are kept; `about` stands first in its docstring."""
    real = keeps(inputs, [value for graph in graphs for value in graph.values])
    beside = beside_script(path)
    path.write_text(script(trace, graphs, beside.name if real else None, options, gpu, about), encoding="utf-8")
    if real:
        save(beside, {f"graph {graph.number}": _saved(graph) for graph in graphs})
    return Made(path, beside if real else None)


def _saved(graph: GraphCall) -> dict[str, Any]:
    """Return the arguments of a graph's call, its results, and the values of the arguments that it changed."""
    from explorer.capture.observe.tensors import same_bits

    pairs = zip(graph.call.before, graph.call.after, strict=True)
    after = [a if hasattr(b, "untyped_storage") and not same_bits(b, a) else None for b, a in pairs]
    return {"args": graph.values, "returned": list(graph.call.returned), "after": after}


def script(
    trace: TraceData,
    graphs: Sequence[GraphCall],
    file: str | None,
    options: Mapping[str, Any],
    gpu: Any,
    about: Sequence[str] = (),
) -> str:
    """The text of the script; `file` has its inputs, and they are random without one."""
    device = graphs[0].device
    count = quantity(len(graphs), "compiled graph")
    about = [
        *about,
        f"The output code that Inductor generated for {trace.meta.get('name', 'a program')}: {count}.",
        "",
        "Each graph's code runs as it is, on its own inputs. Its results are compared with those of the graph run by eager, and",
        "both are timed. With --compile this torch compiles each graph anew, and that is compared and timed too.",
        "The exit status is 1 where a result is wrong, and 2 where the script cannot run.",
        f"The inputs are {f'those of a call of the program, in {file}' if file else 'random, laid out as those of a call'}.",
        f"Compiled by {parts.made_with(trace.meta)}. Made by explorer's Trace.to_script.",
    ]
    loader = [
        "import torch._inductor.inductor_prims  # noqa: F401  (operators of its graphs)",
        "from torch._inductor import config",
    ]
    loader += ["from torch._inductor.codecache import PyCodeCache", "", "#: The options of Inductor that were given."]
    loader += [f"OPTIONS = {dict(options)!r}", f"torch.set_float32_matmul_precision({precision()!r})", _LOADER.rstrip("\n"), ""]
    sections = [
        parts.docstring(about) + parts.IMPORTS,
        parts.requirements(device, gpu),
        "\n".join(loader),
        *(_graph(graph, file) for graph in graphs),
        parts.harness(),
        _main(graphs, file, device),
    ]
    return "\n".join(section.rstrip("\n") + "\n" for section in sections if section)


def _graph(graph: GraphCall, file: str | None) -> str:
    """A graph's code, the graph as Python, and its inputs."""
    number = graph.number
    lines = ["", f"# ---- {graph.label}: the output code, as it is " + "-" * 40, "", f"CODE_{number} = {quoted(graph.text)}"]
    if graph.eager:
        lines += ["", f"# ---- {graph.label}: the graph that Inductor compiled, as PyTorch runs it " + "-" * 20, "", ""]
        lines += [graph.eager.rstrip("\n"), ""]
    lines += ["", f"def inputs_{number}() -> Any:", '    """The arguments of the code and, after these, its constants."""']
    if file is None:
        lines += [random_inputs(graph.values, graph.devices), "    return args, None"]
    else:
        lines += [f'    saved = torch.load(HERE / {file!r}, weights_only=True, map_location="cpu")["graph {number}"]']
        recorded = '(saved["returned"], saved["after"])' if graph.recorded else "None"
        lines += [f'    return copies(saved["args"], {graph.devices!r}), {recorded}']
    return "\n".join([*lines, ""])


def quoted(text: str) -> str:
    """A text as a literal of Python that can be read, raw where that is possible."""
    for quotes in ('"""', "'''"):
        if quotes not in text and not text.endswith(("\\\\", quotes[0])):
            return f"r{quotes}{text}{quotes}"
    return "(\n" + "\n".join(f"    {line!r}" for line in re.findall(r".*\n|.+", text)) + "\n)"


def _main(graphs: Sequence[GraphCall], file: str | None, device: str) -> str:
    """What runs each graph."""
    lines = ["", "def main() -> int:", '    """Run, check and time each graph."""']
    if file is not None:
        lines += [f"    if not (HERE / {file!r}).exists():"]
        lines += [
            f'        print("this script needs its inputs: the file {file} beside it", file=sys.stderr)',
            "        return 2",
        ]
    lines += [f'    print(f"torch {{torch.__version__}}, {parts.said_device(device)}")', "    results = []"]
    for graph in graphs:
        n, count = graph.number, len(graph.call.before)
        names = f"dict(zip({list(graph.names)!r}, values[{count}:], strict=True))"
        eager = f"instantiated(Graph{n}, names)" if graph.eager else "None"
        lines += [f"    values, recorded = inputs_{n}()", f"    names = {names}"]
        lines += [f"    call = loaded(CODE_{n}, names)"]
        call = f"call, values[:{count}], {device!r}, recorded, {eager}, {graph.draws}"
        lines += [f'    results.append(run_graph({graph.label!r}, {call}, "--compile" in sys.argv))']
    lines += ["    compiled, eager = (sum(result[n] for result in results) for n in (1, 2))"]
    lines += ['    known = f", {eager * 1e3:.4g} ms eager" if eager == eager else ""']
    lines += ['    print(f"all graphs: {compiled * 1e3:.4g} ms compiled{known}, one after the other")']
    lines += ["    return 0 if all(result[0] for result in results) else 1"]
    return "\n".join([*lines, "", "", 'if __name__ == "__main__":', "    sys.exit(main())", ""])
