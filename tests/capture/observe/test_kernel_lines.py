"""The FX node of each line of a generated kernel, on a model with one operator on each line, forward and backward."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config
from torch.nn import functional

import explorer
from explorer.capture.observe import kernel_lines
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact
from explorer.stages.inductor.kernel import owners
from explorer.tracing.traced import Trace
from tests.facts import untold

pytest.importorskip("triton")


class Operators(nn.Module):
    """One operator a line, so that a line of a kernel has one right answer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 64)
        self.linear = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor, index: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        embedded = self.table(index)
        sine = torch.sin(x)
        exponential = torch.exp(sine)
        product = exponential * embedded
        tangent = torch.tanh(product)
        normal = self.norm(tangent)
        soft = torch.softmax(normal, -1)
        chosen = torch.where(mask, soft, normal)
        padded = functional.pad(chosen, (1, 3))
        summed = torch.cumsum(padded, -1)
        joined = torch.cat([summed, x], -1)
        largest = torch.amax(joined, -1)
        variance = torch.var(joined, -1)
        linear = self.linear(normal)
        gate = torch.sigmoid(linear)
        difference = gate - variance[:, None]
        values, places = torch.sort(x, -1)
        put = x.new_zeros(32, 64).index_put((index,), difference, accumulate=True)
        dropped = torch.dropout(put, 0.5, True)
        scattered = torch.scatter(x, 1, places, product)
        cosine = torch.cos(scattered)
        root = torch.rsqrt(values.abs() + 2)
        return dropped.sum() + largest.sum() + cosine.sum() + root.sum()


#: A piece of a kernel's line → words of which the user's line that it came from has one. In the backward, the
#: derivative of sin is computed on sin's line by a cos, and that of cos by a sin.
FORWARD = {
    "tl_math.sin(": "torch.sin",
    "libdevice.exp(": "torch.exp|softmax",
    "libdevice.tanh(": "tanh",
    "tl.sigmoid(": "sigmoid",
    "tl_math.cos(": "torch.cos",
    "sort_with_index(": "torch.sort",
    "associative_scan(": "cumsum",
    "tl.rand(": "dropout",
    "libdevice.rsqrt(": "rsqrt|self.norm",
    "triton_helpers.max": "amax|softmax",
    "tl_math.abs(": "abs",
    "atomic_add(": "index_put",
    "tl.load(in_ptr2 + (r0_1 + 64*tmp": "self.table",
    "tl.device_assert": "self.table|scatter|index_put",
}
BACKWARD = {
    "tl_math.sin(": "torch.cos|torch.sin",
    "tl_math.cos(": "torch.sin",
    "libdevice.exp(": "torch.exp|softmax",
    "libdevice.tanh(": "tanh",
    "tl.sigmoid(": "sigmoid",
    "libdevice.rsqrt(": "rsqrt",
    "associative_scan(": "cumsum",
    "atomic_add(": "self.table",
}


@pytest.fixture(scope="module")
def made() -> Trace:
    """The model above, forward and backward, compiled for a GPU you don't have."""
    torch.manual_seed(0)
    inputs = torch.randn(32, 64), torch.randint(0, 32, (32,)), torch.rand(32, 64) > 0.5
    return explorer.trace(Operators(), *inputs, target="h100", train=True)


def computing(made: Trace, graph: str) -> Iterator[tuple[Artifact, int, str]]:
    """The lines of a graph's kernels that compute."""
    for artifact in made.find("kernel", graph=graph):
        for number in sorted(owners(artifact)):
            yield artifact, number, artifact.lines[number - 1]


def user_line(made: Trace, artifact: Artifact, line: int) -> set[str]:
    """The lines of the model: a line of torch's own modules stands for the line that calls it."""
    source = inspect.getsource(Operators.forward)
    rows = made.follow(artifact.id, line).where(stage="source")
    texts = {artifact_of(made, r["artifact"]).lines[n - 1].strip() for r in rows for n in r["lines"]}
    return {text for text in texts if text in source}


@pytest.mark.compile
@pytest.mark.parametrize(("graph", "expected"), [("forward", FORWARD), ("backward", BACKWARD)])
def test_each_line_leads_to_the_line_with_its_operator(made: Trace, graph: str, expected: dict[str, str]) -> None:
    """A line that computes a sine comes from the line that says sin, and so on for every operator that a kernel names."""
    seen = set()
    for artifact, number, text in computing(made, graph):
        for piece, words in expected.items():
            if piece in text:
                seen.add(piece)
                lines = user_line(made, artifact, number)
                assert all(re.search(words, line) for line in lines) and lines, f"{artifact.id}:{number} {text} came from {lines}"
    assert len(seen) >= 0.75 * len(expected), f"the kernels no longer name {set(expected) - seen}"


@pytest.mark.compile
@pytest.mark.parametrize("graph", ["forward", "backward"])
def test_each_line_has_one_node_and_one_line(made: Trace, graph: str) -> None:
    """Every line that computes has exactly one FX node; it leads to one user's line, or to all that a pattern replaced.

    A load or a number may be needed by several nodes, and a load has the views that changed its index.
    """
    for artifact, number, text in computing(made, graph):
        names, _ = owners(artifact)[number]
        if "tl.load" in text or "tl.broadcast_to" in text or re.search(r"= tl\.full\(\[1, 1\], [\d.]+, ", text):
            continue
        assert len(names) == 1, f"{artifact.id}:{number} {text}: {names}"
        assert len(user_line(made, artifact, number)) == 1, f"{artifact.id}:{number} {text}"


@pytest.mark.compile
def test_no_line_that_computes_is_left_out(made: Trace) -> None:
    """Loads, arithmetic, reductions and stores are linked without exception, and so is all that triton makes of them."""
    for stage in ("kernel", "ir_pre_fusion", "ir_post_fusion", "ttir", "ttgir"):
        for row in made.coverage(stage):
            assert not row["missing"], row["artifact"]


@pytest.mark.compile
def test_the_code_is_what_it_is_without_the_hook(made: Trace) -> None:
    """Every kernel and wrapper is the same, to the character, as when nothing is recorded of its lines."""
    torch.manual_seed(0)
    inputs = torch.randn(32, 64), torch.randint(0, 32, (32,)), torch.rand(32, 64) > 0.5
    stages = tuple(stage for stage in explorer.types.STAGES if not stage.per_kernel)
    plain = explorer.trace(Operators(), *inputs, target="h100", train=True, stages=stages)
    assert without_number(plain) == without_number(made)


def without_number(trace: Trace) -> str:
    """The output code without the number that AOTAutograd gives each graph of the process."""
    return re.sub(r"AOT ID: \['\d+", "", trace.text("output_code"))


@pytest.mark.compile
def test_an_inlined_helper_belongs_to_the_line_that_calls_it(made: Trace) -> None:
    """The function that a scan combines by leads to the line that says cumsum."""
    helpers = [(a, n) for a, n, text in computing(made, "forward") if "arg0_0 + arg1_0" in text]
    assert helpers and all("cumsum" in line for a, n in helpers for line in user_line(made, a, n))


# C++ -----------------------------------------------------------------------------------------------------------------

#: The same for C++: vector code, a masked block, indirect indexing, an accumulator in parallel.
CPP = {
    ".sin()": "torch.sin",
    ".exp()": "torch.exp|softmax|sigmoid",
    ".tanh()": "tanh",
    "atomic_add": "index_put",
    ".abs()": "abs",
    ".rsqrt()": "rsqrt|self.norm",
    "maximum(tmp_acc": "amax|softmax",
    "TORCH_CHECK(": "self.table|index_put|scatter",
    "blendv": "pad|where",
    "normalized_rand_cpu": "dropout",
    "cascade_sum_combine": "cumsum|norm|var|sum",
}


@pytest.fixture(scope="module")
def cpp() -> Trace:
    """The model's code for the CPU. No compiler is called: only the numbers are missing."""
    from torch._inductor.async_compile import AsyncCompile

    def nothing(self: object, *args: object, **kwargs: object) -> object:
        return lambda *given: None

    torch.manual_seed(0)
    inputs = torch.randn(32, 64), torch.zeros(32, dtype=torch.int64), torch.rand(32, 64) > 0.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AsyncCompile, "cpp_pybinding", nothing)
        return explorer.trace(Operators(), *inputs, target="cpu")


@pytest.mark.compile
def test_each_line_of_cpp_leads_to_the_line_with_its_operator(cpp: Trace) -> None:
    """Also in vector code, in masked blocks and where an accumulator is begun, made per thread and combined."""
    seen = set()
    for artifact, number, text in computing(cpp, "inference"):
        lines = user_line(cpp, artifact, number)
        loads = re.search(r"= \w+_ptr\d+\[|::loadu\(", text) is not None  # for several operators, at an index that views changed
        assert len(lines) == 1 or loads, f"{artifact.id}:{number} {text} came from {lines}"
        for piece, words in CPP.items():
            if piece in text:
                seen.add(piece)
                assert all(re.search(words, line) for line in lines), f"{artifact.id}:{number} {text} came from {lines}"
    assert len(seen) >= 6, f"the kernels name only {seen}"


@pytest.mark.compile
def test_no_line_of_cpp_that_computes_is_left_out(cpp: Trace) -> None:
    """Every statement that is no loop, brace, signature or count of threads is linked."""
    assert not [row["missing"] for row in cpp.coverage("kernel") if row["missing"]]


# Random numbers ------------------------------------------------------------------------------------------------------


def random(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Operators that draw numbers, for which Inductor puts its own in place: one a line."""
    dropped = functional.dropout(x, 0.5)
    product = dropped @ w
    again = functional.dropout(product, 0.2)
    uniform = torch.rand_like(again)
    number = torch.randint(0, 10, (64,), device=x.device)
    normal = torch.randn(64, device=x.device)
    return again * uniform + number + normal


#: What draws a number in a kernel → words of the user's lines that it may come from.
DRAWN = {r"\brand(4x)?\(|normalized_rand_cpu": "dropout|rand_like", r"\brandn": "randn", r"\brandint64": "randint"}


@pytest.fixture(scope="module", params=["h100", "cpu"])
def drawn(request: pytest.FixtureRequest) -> Trace:
    """`random`, forward and backward; for the CPU no compiler is called."""
    from torch._inductor.async_compile import AsyncCompile

    inputs = (torch.randn(32, 64, requires_grad=True), torch.randn(64, 64, requires_grad=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AsyncCompile, "cpp_pybinding", lambda self, *args, **kwargs: lambda *given: None)
        return explorer.trace(random, *inputs, target=request.param, train=True)


def lines_of(trace: Trace, artifact: Artifact, line: int) -> list[str]:
    rows = trace.follow(artifact.id, line).where(stage="source")
    return [artifact_of(trace, row["artifact"]).lines[n - 1].strip() for row in rows for n in row["lines"]]


@pytest.mark.compile
def test_each_number_that_is_drawn_leads_to_the_line_that_asks_for_it(drawn: Trace) -> None:
    """Dropout's own number, that of rand_like, randn and randint, each to one line; and every seed that is read."""
    seen = set()
    for artifact, number, text in computing(drawn, "forward"):
        for piece, words in DRAWN.items():
            if re.search(piece, text):
                (line,) = lines_of(drawn, artifact, number)
                seen |= {line}
                assert re.search(words, line), f"{text} came from {line}"
        if any("lookup_seed" in name for name in owners(artifact)[number][0]):
            (line,) = lines_of(drawn, artifact, number)
            assert re.search("dropout|rand", line), f"{text} came from {line}"
    assert len(seen) == 5


@pytest.mark.compile
def test_the_seeds_lead_to_every_line_that_draws(drawn: Trace) -> None:
    """The one node that makes the seeds, and its call in the wrapper, lead to all of these lines."""
    (graph,) = drawn.find("post_grad", graph="forward")
    at = next(n for n, text in enumerate(graph.lines, 1) if "inductor_seeds_default:" in text)
    assert len([line for line in lines_of(drawn, graph, at) if re.search("dropout|rand", line)]) == 5


def left_open(trace: Trace, ptx: Artifact) -> set[int]:
    """The instructions for which a PTX does not say by which call they were drawn: that of torch 2.15, by its `inlined_at`.

    It names the place of the call in triton's own library, which is the same for each number that a kernel draws.
    """
    (source,) = {kernel.source for kernel in trace.kernels if kernel.name == ptx.kernel}
    if len(re.findall("|".join(DRAWN), source)) < 2:
        return set()
    inlined, found = False, set()
    for number, line in enumerate(ptx.lines, 1):
        if line.strip().startswith(".loc"):
            inlined = "inlined_at" in line
        elif inlined:
            found.add(number)
    return found


@pytest.mark.compile
@pytest.mark.parametrize("graph", ["forward", "backward"])
def test_no_line_of_a_dropout_is_left_out(drawn: Trace, graph: str, not_covered: Callable[[Trace], object]) -> None:
    """Every graph, pass, kernel and wrapper is linked, and all that a kernel becomes; the backward's mask is dropout's too."""
    assert [row for row in not_covered(drawn) if row[0] != "ptx"] == []
    for row in drawn.coverage("ptx") if drawn.find("ptx") else ():
        left_out = {number for number, _ in row["missing"]} - left_open(drawn, artifact_of(drawn, row["artifact"]))
        assert len(left_out) <= 0.15 * row["counted"], f"{row['artifact']} has {row['missing']}"
    wanted = {line for line in inspect.getsource(random).splitlines() if "functional.dropout" in line}
    led = {line for artifact, number, _ in computing(drawn, graph) for line in lines_of(drawn, artifact, number)}
    assert {line.strip() for line in wanted} <= led


# What a fused kernel of loops is not -----------------------------------------------------------------------------------


@pytest.mark.compile
def test_a_template_and_its_epilogue() -> None:
    """The lines of a matmul template belong to the matmul, those of the epilogue in it to their own operators."""

    def f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        product = torch.mm(a, b)
        positive = torch.relu(product)
        return positive + c

    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    with torch.no_grad():
        made = explorer.trace(f, *(torch.randn(64, 64) for _ in range(3)), target="h100", options=options)
    (kernel,) = made.kernels
    known = owners(kernel.artifact)
    lines = {text.strip().partition(" = ")[2]: known.get(n) for n, text in enumerate(kernel.artifact.lines, 1)}
    (positive,) = (line for line in lines if "maximum(tmp0, acc" in line)  # tl's own since torch 2.15, before that a helper's
    assert lines[positive] == (("relu",), "codegen")
    assert lines["tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)"] == (("mm",), "template")
    assert [names for names, how in known.values() if how == "codegen"].count(("add",)) >= 3


@pytest.mark.compile
def test_a_template_and_its_prologues() -> None:
    """What a template computes while it loads belongs to the one operator of each line, and so to the user's line."""

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        exponential = torch.exp(a)
        larger = exponential + 1.5
        sine = torch.sin(b)
        product = torch.mm(larger, sine)
        return torch.relu(product)

    pairs = [("exp", "mm"), ("sin", "mm"), ("mm", "relu")]
    with torch.no_grad():  # sizes that no block divides: what is loaded is masked, and masked again when it was computed
        made = explorer.trace(
            f, torch.randn(100, 72), torch.randn(72, 50), target="h100", options={"max_autotune": True}, fuse=pairs
        )
    assert made.failures == ()
    (kernel,) = made.kernels
    known = owners(kernel.artifact)
    lines = {text.strip(): known.get(n) for n, text in enumerate(kernel.artifact.lines, 1)}
    for piece, node in (
        ("libdevice.exp(", "exp"),
        ("= tl.full([1], 1.5", "add"),
        ("a = tl.where(a_mask", "add"),
        ("tl_math.sin(", "sin"),
        ("b = tl.where(b_mask", "sin"),
        ("acc += tl.dot(", "mm"),
        ("maximum(", "relu"),
    ):
        (line,) = [text for text in lines if piece in text]
        assert lines[line] is not None and lines[line][0] == (node,), line
    loads = [lines[text] for text in lines if re.match(r"tmp\d+ = tl\.load\(", text)]
    assert loads == [(("exp",), "codegen"), (("sin",), "codegen")]
    (row,) = made.coverage("kernel")
    assert row["share"] == 1.0
    number = next(n for n, text in enumerate(kernel.artifact.lines, 1) if "tl_math.sin(" in text)
    rows = made.follow(kernel.artifact.id, number).where(stage="source")
    assert [artifact_of(made, r["artifact"]).lines[n - 1].strip() for r in rows for n in r["lines"]] == ["sine = torch.sin(b)"]


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")  # torch's own, where it times templates
def test_a_template_in_cpp_and_its_epilogue() -> None:
    """In a C++ template the epilogue is written once for one thread and once for several; each line has its operator."""

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = torch.bmm(a, b)
        positive = torch.relu(product)
        return positive * 2.5

    options = {"max_autotune": True, "max_autotune_gemm_backends": "CPP"}
    with torch.no_grad():
        made = explorer.trace(f, torch.randn(4, 64, 64), torch.randn(4, 64, 64), target="cpu", options=options)
    assert made.failures == ()
    (row,) = made.fusion.groups
    assert row["kind"] == "template" and row["epilogue"] == ("op1",) and set(row["fx_nodes"]) == {"bmm", "relu", "mul"}
    assert not untold(made.why("bmm", "mul").sentence, "bmm", "mul", "template", "epilogue")
    (kernel,) = made.kernels
    known = owners(kernel.artifact)
    found = [(known.get(n), text.strip()) for n, text in enumerate(kernel.artifact.lines, 1)]
    for piece, owner in (
        ("clamp_min(tmp0", (("relu",), "codegen")),
        ("tmp1 * tmp3", (("mul",), "codegen")),
        ("tmp4.store(", (("mul",), "codegen")),
        ("at::vec::fmadd(", (("bmm",), "template")),
        ("template <", None),
        ("const float* __restrict__ A,", None),
        ("} else {", None),
        ("break;", None),
    ):
        of = {own for own, text in found if piece in text}
        assert of == {owner}, (piece, of)
    (row,) = made.coverage("kernel")
    assert row["share"] == 1.0
    assert [r["equal"] for r in made.check()] == [True]


@pytest.mark.compile
def test_a_kernel_over_a_list_of_tensors() -> None:
    """A foreach kernel's lines belong to the list operation that they compute, in each tensor's part or the shared one."""

    def f(xs: list[torch.Tensor], ys: list[torch.Tensor]) -> list[torch.Tensor]:
        twice = torch._foreach_mul(xs, 2.0)
        return torch._foreach_add(twice, ys)

    with torch.no_grad():
        made = explorer.trace(f, [torch.ones(64), torch.ones(32, 3)], [torch.ones(64), torch.ones(32, 3)], target="h100")
    (kernel,) = made.kernels
    known = owners(kernel.artifact)
    found = [(known[n][0], text) for n, text in enumerate(kernel.artifact.lines, 1) if n in known]
    bodies = 1 if "foreach_arg0" in kernel.source else 2  # torch 2.15 writes one for equal parts, and a branch for each
    assert kernel.source.count(" * tmp") == bodies
    assert [names for names, text in found if " * tmp" in text] == [("_foreach_mul",)] * bodies
    assert [names for names, text in found if " + tmp" in text or "tl.store" in text] == [("_foreach_add",)] * 2 * bodies


def test_a_body_that_parts_share_has_the_nodes_of_all() -> None:
    """A line that stands once for several parts leads to the node of each; one that was taken back has no line."""
    lines: list[object] = ["tmp1 = sin(tmp0)", "tl.store(foreach_arg0, tmp1)"]
    first = ["tmp1 = sin(tmp0)", lambda: None, kernel_lines.written("tl.store(out_ptr0, tmp1)", {"sin": None})]
    second = [
        kernel_lines.written("tmp3 = sin(tmp2)", {"sin_1": None, "view": None}),
        kernel_lines.written("tl.store(out_ptr1, tmp3)", {"sin_1": None}),
    ]
    kernel_lines.mark_shared(lines, [first, second])
    assert [list(kernel_lines.nodes_of(line) or ()) for line in lines] == [["sin_1", "view"], ["sin", "sin_1"]]


@pytest.mark.compile
def test_the_branches_of_a_cond() -> None:
    """A kernel of a nested graph leads to the line inside the branch."""

    def f(x: torch.Tensor) -> torch.Tensor:
        def positive(v: torch.Tensor) -> torch.Tensor:
            return torch.sin(v) + 1

        def negative(v: torch.Tensor) -> torch.Tensor:
            return torch.cos(v) * 2

        return torch.cond(x.sum() > 0, positive, negative, (x,))

    with torch.no_grad():
        made = explorer.trace(f, torch.ones(64), target="h100")
    (sine,) = (k for k in made.kernels if "tl_math.sin" in k.source)
    number = next(n for n, text in enumerate(sine.source.splitlines(), 1) if "tl_math.sin" in text)
    assert owners(sine.artifact)[number] == (("true_graph_0.sin",), "codegen")
    rows = made.follow(sine.artifact.id, number).where(stage="source")
    texts = {  # in the branch's own text, and in the function's around it
        artifact_of(made, r["artifact"]).lines[n - 1].strip() for r in rows if "called from" not in r["route"] for n in r["lines"]
    }
    assert texts == {"return torch.sin(v) + 1"}


@pytest.mark.compile
def test_a_kernel_of_several_kernels() -> None:
    """A combo kernel's lines belong each to the operator of its own part, although the parts name their variables alike."""

    def f(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.sin(a), torch.cos(b)

    with torch.no_grad():
        made = explorer.trace(f, torch.ones(100), torch.ones(200, 3), target="h100", options={"combo_kernels": True})
    (kernel,) = made.kernels
    found = {
        (owners(kernel.artifact)[n][0], re.search(r"sin|cos|load|store", kernel.artifact.lines[n - 1]))
        for n in owners(kernel.artifact)
    }
    assert {(names, what[0]) for names, what in found if what} == {
        (("sin",), "sin"),
        (("cos",), "cos"),
        (("sin",), "load"),
        (("cos",), "load"),
        (("sin",), "store"),
        (("cos",), "store"),
    }


@pytest.mark.compile
def test_a_kernel_used_twice_has_the_nodes_of_both_uses() -> None:
    """Two layers that are one kernel: its line leads to both nodes."""

    def f(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        first = torch.sin(a @ w)
        second = torch.sin(b @ w)
        return (first @ second) @ w

    with torch.no_grad():
        made = explorer.trace(f, torch.ones(32, 32), torch.ones(32, 32), torch.ones(32, 32), target="h100")
    kernel = next(k for k in made.kernels if "tl_math.sin" in k.source)
    number = next(n for n, text in enumerate(kernel.source.splitlines(), 1) if "tl_math.sin" in text)
    assert set(owners(kernel.artifact)[number][0]) == {"sin", "sin_1"}


# What Inductor writes once for several nodes ------------------------------------------------------------------------------


def merged(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Several operators read x, two use 2.5, and two add up the same rows; y is read twice by one operator."""
    scaled = x * 2.5
    shifted = torch.sin(x) + 2.5
    square = y * y
    average = x.mean(-1)
    total = x.sum(-1)
    return scaled, shifted, square * scaled, average, total


@pytest.fixture(scope="module", params=["h100", "cpu"])
def merging(request: pytest.FixtureRequest) -> list[tuple[str, set[str]]]:
    """Each line of the kernels of `merged` with its nodes; for the CPU no compiler is called."""
    from torch._inductor.async_compile import AsyncCompile

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(AsyncCompile, "cpp_pybinding", lambda self, *args, **kwargs: lambda *given: None)
        made = explorer.trace(merged, torch.randn(32, 96), torch.randn(32, 96), target=request.param, check=False)
    assert made.failures == ()
    return [(a.lines[n - 1].strip(), set(names)) for a in made.find("kernel") for n, (names, _) in owners(a).items()]


def nodes_of_lines(lines: list[tuple[str, set[str]]], piece: str) -> list[set[str]]:
    """The nodes of each line that has a piece of text."""
    return [nodes for text, nodes in lines if re.search(piece, text)]


@pytest.mark.compile
def test_a_line_has_every_node_for_which_inductor_writes_it_once(merging: list[tuple[str, set[str]]]) -> None:
    """A load, a number and a sum that several nodes need are written once and belong to all of them."""
    loads = nodes_of_lines(merging, r"(tl\.load\(|loadu\()in_ptr0")
    assert set.union(*loads) == {"mul", "sin", "mean", "sum_1"} and any(len(nodes) > 1 for nodes in loads)
    assert nodes_of_lines(merging, r"tl\.full\(.*\b2\.5|static_cast<float>\(2\.5\)") == [{"mul", "add"}]
    sums = nodes_of_lines(merging, r"= .*tl\.sum\(|tmp_acc0_vec = tmp_acc0_vec \+")
    assert sums == [{"mean", "sum_1"}]


@pytest.mark.compile
def test_a_line_has_no_node_that_only_reads_its_value(merging: list[tuple[str, set[str]]]) -> None:
    """What one node computes stays that node's: a node that uses the result, or the same input, is not added."""
    assert nodes_of_lines(merging, r"tl_math\.sin\(|\.sin\(\)") == [{"sin"}]
    assert nodes_of_lines(merging, r"(tl\.load\(|loadu\()in_ptr1") == [{"mul_1"}]
    products = nodes_of_lines(merging, r"= tmp\d+ \* tmp\d+")
    assert sorted(map(sorted, products)) == [["mul"], ["mul_1"], ["mul_2"]]
    assert nodes_of_lines(merging, r"= \(?tmp\w+ / tmp\d+") == [{"mean"}]


@pytest.mark.compile
def test_an_index_is_not_computed_by_the_node_that_gathers_with_it() -> None:
    """Inductor hands an index through its CSE on behalf of the gather; the line of the index stays the addition's."""
    with torch.no_grad():
        made = explorer.trace(
            lambda x, i: torch.gather(x, 1, i + 1), torch.randn(64, 64), torch.zeros(64, 64, dtype=torch.int64), target="h100"
        )
    (kernel,) = made.find("kernel")
    known = owners(kernel)
    sums = [known[n][0] for n, text in enumerate(kernel.lines, 1) if re.search(r"= tmp\d+ \+ tmp\d+", text)]
    assert sums == [("add",)]


@pytest.mark.compile
@pytest.mark.parametrize("target", ["h100", "cpu"])
def test_two_views_of_one_load_lead_to_both_lines(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotary embedding reads its angles once: the load leads to the line of the cosine's view and to that of the sine's."""
    from torch._inductor.async_compile import AsyncCompile

    def rotary(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        cosine = torch.cos(angles).unsqueeze(1)
        sine = torch.sin(angles).unsqueeze(1)
        return x * cosine + x * sine

    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", lambda self, *args, **kwargs: lambda *given: None)
    with torch.no_grad():
        made = explorer.trace(rotary, torch.randn(2, 4, 16, 32), torch.randn(2, 16, 32), target=target, check=False)
    (kernel,) = made.find("kernel")
    known = owners(kernel)
    found = {text.strip(): set(known[n][0]) for n, text in enumerate(kernel.lines, 1) if n in known}
    (load,) = [nodes for text, nodes in found.items() if re.search(r"(tl\.load\(|loadu\()in_ptr1", text)]
    assert load == {"cos", "unsqueeze", "sin", "unsqueeze_1"}
    (cosine,) = [nodes for text, nodes in found.items() if re.search(r"tl_math\.cos\(|\.cos\(\)", text)]
    (sine,) = [nodes for text, nodes in found.items() if re.search(r"tl_math\.sin\(|\.sin\(\)", text)]
    assert (cosine, sine) == ({"cos"}, {"sin"})


# Without a compile ---------------------------------------------------------------------------------------------------


def test_a_written_line_is_the_same_string() -> None:
    """A line with a node equals the line without it and has the same hash; its parts keep the node, and get further ones."""
    line = kernel_lines.written("    tmp0 = x", {"sin": None})
    assert line == "    tmp0 = x" and hash(line) == hash("    tmp0 = x") and line[4:] == "tmp0 = x"
    line.nodes["cos"] = None
    assert line[4:].nodes == {"sin": None, "cos": None}


def test_a_text_is_placed_only_where_all_its_lines_fit() -> None:
    """A text that was made and not used, such as the slower of two loops, gives no line a node."""
    state = kernel_lines._State()
    state.blocks.append(((0, "a = 1", {"x": None}), (2, "b = 2", {"y": None})))
    state.blocks.append(((0, "a = 1", {"other": None}), (1, "b = 2", {"other": None})))
    assert state.placed("\na = 1\nfree\nb = 2\n") == {0: "x", 2: "y"}


def test_a_node_that_comes_after_the_text_was_taken_is_kept() -> None:
    """A line that was copied into a kernel's text has also the node that asked for its value after that."""
    state = kernel_lines._State()
    line = kernel_lines.written("tmp0 = x", {"sin": None})
    state.take(["", line])
    line.nodes["cos view"] = None
    assert state.placed("\ntmp0 = x") == {0: "sin cos view"}


def test_of_two_equal_texts_the_newest_comes_first() -> None:
    """A later layer's kernel with the same text has that layer's nodes."""
    state = kernel_lines._State()
    for node in ("first", "second"):
        state.blocks.append(((0, "a = 1", {node: None}),))
    assert state.placed("a = 1") == {0: "second"} and state.placed("a = 1") == {0: "first"}


@pytest.mark.compile
def test_an_error_of_the_hook_breaks_no_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while a line is noted is a Failure of the kernels; the code is generated all the same."""

    def broken(lines: object, node: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(kernel_lines, "mark", broken)
    with torch.no_grad():
        trace = explorer.trace(torch.sin, torch.randn(64), target="h100")
    assert len(trace.kernels) == 1
    assert [(f.stage, f.message) for f in trace.failures] == [("kernel", "RuntimeError: broken on purpose")]


@pytest.mark.compile
def test_the_scalar_tail_of_a_vectorized_loop_has_its_nodes() -> None:
    """A row of 17 elements leaves one for a loop of its own, whose lines the C++ backend writes anew with another index."""
    with inductor_config.patch({"cpp.enable_loop_tail_vec": False}):
        trace = explorer.trace(lambda x: torch.sin(x) * 2, torch.randn(17), target="cpu")
    tails = 0
    for kernel in trace.find("kernel"):
        known = owners(kernel)
        for number, line in enumerate(kernel.lines, 1):
            if "_tail" in line and "for (" not in line and "tmp" in line:
                tails += 1
                assert known[number][1] == "codegen"
    assert tails
