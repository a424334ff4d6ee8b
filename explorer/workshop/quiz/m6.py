"""M6, other back ends, CUDA graphs, and the final."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.tracing.traced import Trace
from explorer.workshop.quiz.exercises import Check, Item, Place, Question, Task, at, whole
from explorer.workshop.quiz.exercises import text as words
from explorer.workshop.quiz.fields import Choice, Number
from explorer.workshop.quiz.m0 import IDENTITY
from explorer.workshop.quiz.m1 import is_same
from explorer.workshop.quiz.m4 import YES_NO, launches
from explorer.workshop.quiz.par import Par
from explorer.workshop.quiz.programs import program, undisturbed
from explorer.workshop.quiz.same_result import hidden_operator

GATE = program(
    """
def gate(x):
    y = x * 2
    z = F.silu(y)
    return z + 1
"""
)
PRODUCT = program(
    """
def product(x, w):
    return torch.relu(x @ w)
"""
)
SHIFTING = program(
    """
def shifting(x, y):
    z = y.cos()
    x.add_(z)
    return x * 2
"""
)
BLOCK = program(
    """
class Block(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.first(x)
        q, k, v = (layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + 0
        x = x + self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))
"""
)
LAYER = program(
    """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 256)

    def forward(self, x):
        y = self.linear(x)
        z = torch.relu(y)
        return z * 0.5
"""
)
IN_PLACE = program(
    """
def in_place(x, y):
    x.add_(y)
    return x * 2
"""
)
#: The stages that hold a graph or what is made of it, in the compiler's order.
GRAPHS = ("dynamo", "forward", "post_grad", "kernel")
BACKENDS = ("eager", "aot_eager", "inductor")
REASONS = ("it changes its input", "it is too small", "it calls a library", "its sizes are dynamic")

#: Which outputs of `in_place` are not eager's: of what it returns and the argument that it changes, neither, one or both.
DIFFERENT = ("neither", "what it returns", "the argument that it changes", "both")


@dataclass(frozen=True)
class Counted:
    """What a back end printed for each graph, and the graphs."""

    traces: tuple[Trace, ...]
    printed: tuple[str, ...]


@dataclass(frozen=True)
class Final:
    """The learner's way to compute a block: its trace, and how far its result is from the block's."""

    trace: Trace
    apart: float
    finite: bool


def by_backend() -> Mapping[str, Trace]:
    """A trace of `identity` for each back end."""
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        return {backend: whole(trace(IDENTITY.load(), torch.randn(1000), backend=backend)) for backend in BACKENDS}


def _last_graph(t: Trace) -> str:
    return [stage for stage in GRAPHS if t.find(stage)][-1]


def with_iree() -> Trace:
    """A trace of a product and a relu by IREE."""
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        return whole(trace(PRODUCT.load(), torch.randn(16, 16), torch.randn(16, 16), backend="iree"))


def _product_in_linalg(t: Trace) -> str:
    match = re.search(r"linalg\.\w*matmul\w*", t.text("iree_input"))
    return match[0] if match else "linalg.generic"


def of_layer() -> Trace:
    """A trace of `Layer` by Inductor for the CPU."""
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        return whole(trace(LAYER.load()(), torch.randn(64, 128), target="cpu"))


def _calls_and_kernels(t: Trace) -> tuple[int, int]:
    """How many library calls and how many generated kernels Inductor makes of a program."""
    return sum(group["kind"] == "extern" for group in t.fusion.groups), len(t.kernels)


def _copying(gm: Any, inputs: Any) -> Any:
    """A back end that gives Dynamo's graph copies of its inputs, as engines with buffers of their own do."""
    return lambda *args: gm.forward(*(each.clone() for each in args))


def copied() -> Trace:
    """A trace of `in_place` by the back end that copies its inputs."""
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        return whole(trace(IN_PLACE.load(), torch.randn(4, 4), torch.randn(4, 4), backend=_copying))


def _different(t: Trace) -> str:
    returned, changed = (not row["equal"] for row in t.check())
    return DIFFERENT[returned + 2 * changed]


def reduced() -> Trace:
    """A trace of `shifting` for an H100 with CUDA graphs."""
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        x, y = torch.randn(8), torch.randn(8)
        return whole(trace(SHIFTING.load(), x, y, target="h100", mode="reduce-overhead"))


def _captured(t: Trace) -> tuple[str, str]:
    row = t.inductor.cuda_graphs[0]
    reason = next((option for option in REASONS if option in row["reason"]), REASONS[-1])
    return YES_NO[not row["decision"].startswith("captured")], reason


def _counted(backend: Any) -> Counted:
    import torch

    from explorer.tracing.recording.trace import trace

    traces, printed = [], []
    with undisturbed():
        for each in (IDENTITY, GATE):
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                traces.append(whole(trace(each.load(), torch.randn(1000), backend=backend)))
            printed.append(text.getvalue())
    return Counted(tuple(traces), tuple(printed))


def _prints_the_count(subject: Counted) -> tuple[bool, str]:
    found = []
    for t, printed in zip(subject.traces, subject.printed, strict=True):
        wanted = sum(node["op"].startswith("call_") for graph in t.find("dynamo") for node in graph.nodes)
        numbers = re.findall(r"\d+", printed)
        if not numbers or int(numbers[-1][:9]) != wanted:
            shown = f"printed {numbers[-1]}" if numbers else "printed no number"
            return False, f"{shown} for `{t.meta['name']}`, whose graph has another number of call nodes"
        found.append(str(wanted))
    return True, f"{' and '.join(found)}, for two programs"


def _all_same(subject: Counted) -> tuple[bool, str]:
    return next((each for each in map(is_same, subject.traces) if not each[0]), (True, "equal to eager"))


def _with_compiler(compiler: Any) -> Trace:
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        module = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
        return whole(trace(module, torch.randn(4, 16), backend=compiler))


def _has_output_code(t: Trace) -> tuple[bool, str]:
    stages = [stage for stage in (*GRAPHS[:3], "output_code") if t.find(stage)]
    return "output_code" in stages, f"the trace has {', '.join(stages)}"


def _rewritten(backend: Any) -> Trace:
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed():
        return whole(trace(GATE.load(), torch.randn(1000), backend=backend))


def _multiplies_nothing(t: Trace) -> tuple[bool, str]:
    """Whether the graph that a back end was handed has no multiplication when the back end is done."""
    nodes = [node for graph in t.find("compiled_fn") for node in graph.nodes]
    products = [node["code"] for node in nodes if node["target"].rpartition(".")[2] in ("mul", "mul_", "multiply")]
    return bool(nodes) and not products, f"multiplies for {', '.join(products)}" if products else f"{len(nodes)} nodes"


def _final(function: Any) -> Final:
    """Trace the function and the block in bfloat16; compare them in float32, with other weights."""
    import torch

    from explorer.tracing.recording.trace import trace

    with undisturbed(), torch.no_grad():
        exact, x = BLOCK.load()().eval(), torch.randn(2, 16, 64)
        apart = (function(exact, x) - exact(x)).abs().max().item()
        block, x = BLOCK.load()().eval().bfloat16(), torch.randn(2, 16, 64).bfloat16()
        return Final(whole(trace(function, block, x, target="h100")), apart, apart == apart)


def _as_the_block(subject: Final) -> tuple[bool, str]:
    if why := hidden_operator(subject.trace):
        return False, why
    return subject.finite and subject.apart < 1e-4, f"in float32 off by up to {subject.apart:.2g}"


def _as_eager(subject: Final) -> tuple[bool, str]:
    return is_same(subject.trace)


def _in_iree(t: Trace) -> Place:
    return at(t, "iree_input", ("linalg.matmul", "linalg."))


EXERCISES: tuple[Item, ...] = (
    Task(
        id="M6.1",
        text="Write a back end that prints the number of call nodes in its graph, and gives back something that runs.",
        takes="a back end (gm, inputs): backend",
        make=_counted,
        checks=(Check("prints the number of call nodes", _prints_the_count), Check("the same result as eager", _all_same)),
        hint="def backend(gm, inputs): … gm.graph.nodes have an `op`; `return gm.forward`",
        where=lambda subject: at(subject.traces[-1], "dynamo", "silu"),
        note="A back end is any callable that gets a graph and gives back something to call.",
        start="def backend(gm, inputs):\n    ...\n    return gm.forward",
        program=GATE,
    ),
    Task(
        id="M6.2",
        text="Write a compiler(module) → module that has Inductor compile the module.",
        takes="a function of one module: compiler",
        make=_with_compiler,
        checks=(Check("the trace has output code", _has_output_code), Check("the same result as eager", is_same)),
        hint="torch.compile(module) is a module.",
        where=lambda t: at(t, "dynamo", "linear"),
        note="explorer.trace takes it as a backend, since it calls torch.compile itself.",
        start="def compiler(module):\n    return ...",
    ),
    Question(
        id="M6.3",
        text="`identity` with each of these back ends: which stage is the last that its trace has?",
        fields=tuple(Choice(backend, options=GRAPHS) for backend in BACKENDS),
        make=by_backend,
        truth=lambda traces: tuple(_last_graph(traces[backend]) for backend in BACKENDS),
        hint="eager runs Dynamo's graph. What does AOTAutograd add, and what Inductor?",
        where=lambda traces: at(traces["aot_eager"], "forward", "aten."),
        note="Each goes one compiler further: a way to find out whose fault something is.",
        program=IDENTITY,
    ),
    Question(
        id="M6.4",
        text="IREE compiles `product`. After its phase `input`, which operation has aten.mm become?",
        fields=(words("operation"),),
        make=with_iree,
        truth=_product_in_linalg,
        hint='explorer.trace(product, x, w, backend="iree"), then the stage iree_input: dialect.operation',
        where=_in_iree,
        note="linalg is MLIR's dialect of loops over tensors, which IREE tiles and distributes from there.",
        program=PRODUCT,
    ),
    Question(
        id="M6.5",
        text='`shifting` changes its input. With mode="reduce-overhead" on an H100: is it captured as a CUDA'
        " graph? What decides it?",
        fields=(Choice("captured", options=YES_NO), Choice("because", options=REASONS)),
        make=reduced,
        truth=_captured,
        hint="A CUDA graph is replayed on the memory that it was captured with. The stage “CUDA graphs” has the reason.",
        where=lambda t: at(t, "cuda_graph"),
        note="The caller's tensor would have to be at the same address at each call.",
        program=SHIFTING,
    ),
    Question(
        id="M6.7",
        text="`Layer` for a CPU, by Inductor: how many library calls and generated kernels do its three lines become?",
        fields=(Number("library calls"), Number("kernels")),
        make=of_layer,
        truth=_calls_and_kernels,
        hint="A library has the product, and its bias. Is there a source to put the ReLU into?",
        where=lambda t: at(t, "output_code", ("extern_kernels.addmm(", "extern_kernels.")),
        note="A compiler that writes the product itself, or whose library has a product with a ReLU, needs fewer.",
        program=LAYER,
    ),
    Question(
        id="M6.8",
        text="`in_place` changes its input. A back end gives Dynamo's graph copies of the inputs, and runs it."
        " Which outputs differ from eager's?",
        fields=(Choice(options=DIFFERENT),),
        make=copied,
        truth=_different,
        hint="Where does x.add_(y) write, and whose tensor is that?",
        where=lambda t: at(t, "dynamo", "add_"),
        note="Nothing raises. AOTAutograd hands out graphs in which the change is a result like any other.",
        program=IN_PLACE,
    ),
    Task(
        id="M6.9",
        text="Write a back end that rewrites the graph of `gate`: an addition in place of the multiplication by 2.",
        takes="a back end (gm, inputs): backend",
        make=_rewritten,
        checks=(Check("the graph multiplies nothing", _multiplies_nothing), Check("the same result as eager", is_same)),
        hint="The node's target is operator.mul, and its args are (x, 2). Both can be set; then gm.recompile().",
        where=lambda t: at(t, "compiled_fn", "y:"),
        note="That is a pass: find a node, put another in its place, write the code anew.",
        start="def backend(gm, inputs):\n    for node in gm.graph.nodes:\n        ...\n    gm.recompile()\n    return gm.forward",
        program=GATE,
    ),
    Task(
        id="M6.6",
        title="The final: fewer launches",
        text="The final. Write f(block, x), which computes what `Block` computes with its weights, in as few"
        " launches on an H100 as you can.",
        takes="a function of the block and x: f",
        make=_final,
        checks=(
            Check("the result of the block", _as_the_block),
            Check("the same result as eager", _as_eager),
        ),
        par=Par("launch", lambda subject: launches(subject.trace), start=17, par=16),
        hint="How many products read the same y? And is its attention recognised by a pattern?",
        where=lambda subject: at(subject.trace, "output_code", ("extern_kernels.", ".run(")),
        note="Answer again with fewer launches: the leader board has your best.",
        start="def f(block, x):\n    return block(x)",
        program=BLOCK,
    ),
)
