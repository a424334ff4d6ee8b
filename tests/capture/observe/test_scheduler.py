"""Fusion verdicts of real compiles: each reason provoked by a small program, and groups held to the kernels of the code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import explorer
from explorer import Trace
from explorer.capture.observe.scheduler_log import Log
from explorer.stages.inductor.reasons import FOR_SPEED, SENTENCE_BY_REASON
from tests.facts import untold

R = torch.randn


# Refusals --------------------------------------------------------------------------------------------------------------


def many(i: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """One independent program after the other; each provokes one reason."""
    early = i["b"].sinh()
    sine = i["c"].sin()
    arc = i["s"].atan()
    low = torch.minimum(arc @ i["w3"], i["u"])
    far = i["y"]
    first = i["far"].expm1()
    for _ in range(66):
        far = far @ i["yw"]
    return [
        i["a"].sum(0),
        i["a"].sum(1),  # no shared data
        early,
        early.flip(0) + i["b"],  # memory deps did not match
        sine @ i["w"] - sine,  # intermediate nodes
        i["g"].erf() * i["g0"],
        i["h"].tan() * i["g0"],  # the score's threshold
        low,
        torch.maximum(i["u"].cos() @ i["w4"], i["s"]),  # a cycle
        torch.atan2(i["p"] @ i["pw"], i["pb"]),
        torch.fmod(i["q"] @ i["pw"], i["pb"]),  # peak memory
        i["z"].cumsum(0),
        i["z"].amax(),  # split scan, and a reduction in two halves
        first,
        i["far"].log1p() + far,  # too far apart
    ]


def many_inputs() -> dict[str, torch.Tensor]:
    return {
        "a": R(32, 256),
        "b": R(32, 64),
        "c": R(48, 48),
        "w": R(48, 48),
        "g": R(333),
        "h": R(333),
        "g0": R(()),
        "s": R(32, 64),
        "w3": R(64, 256),
        "w4": R(256, 64),
        "u": R(32, 256),
        "p": R(256, 16),
        "q": R(256, 16),
        "pw": R(16, 256),
        "pb": R(256),
        "z": R(2**20),
        "y": R(8, 8),
        "yw": R(8, 8),
        "far": R(8, 8),
    }


def foreach(xs: list[torch.Tensor]) -> Any:
    """A kernel over a list of tensors; each element's consumer is asked about the whole list."""
    more = torch._foreach_add(xs, 1.0)
    return more, more[0].sum(0), xs[0].cos()


def templates(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> Any:
    """Matrix products that become Triton templates, with what could go before and after them."""
    return torch.relu(x @ w + b), (y @ w).sum(1), (x.exp() @ w).cos()


def before_a_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """An operation before a product, which Inductor times inside the template and outside of it."""
    return x.exp() @ w


def wide(x: torch.Tensor) -> Any:
    """A chain of three nodes over one input."""
    return x.sum(1), x.cos(), torch.softmax(x, -1)


def reshaped(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
    """Reductions of one buffer in two shapes, and a reduction whose sizes do not divide those of its input."""
    tiled = x + y.t()
    return z.sum(1), z.view(32, 256).amax(1), tiled, tiled.view(14, 15).sum(1)


TEMPLATES = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON", "prologue_fusion": True}
#: Since torch 2.15 there is no such option.
UNTIMED_EPILOGUES = {name: False for name in ("benchmark_epilogue_fusion",) if name in torch._inductor.list_options()}
#: Each program: function, what makes its arguments, options.
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], dict[str, Any]]] = {
    "many": (many, lambda: (many_inputs(),), {}),
    "foreach": (foreach, lambda: ([R(16, 16), R(32)],), {}),
    "templates": (templates, lambda: (R(256, 256), R(256, 256), R(256), R(256, 256)), {**TEMPLATES, **UNTIMED_EPILOGUES}),
    "timed": (before_a_product, lambda: (R(256, 256), R(256, 256)), TEMPLATES),
    "max": (wide, lambda: (R(64, 128),), {"max_fusion_size": 2}),
    "buffers": (wide, lambda: (R(64, 128),), {"max_fusion_unique_io_buffers": 2}),
    "reshaped": (reshaped, lambda: (R(6, 35), R(35, 6), R(64, 128)), {"loop_ordering_after_fusion": False}),
}


@pytest.fixture(scope="module")
def traced() -> Callable[[str], Trace]:
    """The trace of a program for an H100, made once."""
    made: dict[str, Trace] = {}

    def trace(name: str) -> Trace:
        if name not in made:
            function, inputs, options = PROGRAMS[name]
            made[name] = explorer.trace(function, *inputs(), target="h100", options=options)
            assert not any(f.fatal or f.stage == "fusion" for f in made[name].failures), made[name].failures
        return made[name]

    return trace


#: (program, two nodes by what they compute, the scheduler's words, what the plain sentence has to tell).
REFUSALS = [
    ("many", "sum_1", "sum_2", "no shared data", ("order", "memory traffic")),
    ("many", "sinh", "rev", "memory deps did not match", ("read", "written", "wait")),
    ("many", "sin", "sub", "intermediate nodes between node1 & node2", ("between",)),
    ("many", "erf", "tan", "score_fusion_memory_threshold", ("4 bytes", "10", "score_fusion_memory_threshold")),
    ("many", "atan", "maximum", "will create cycle", ("between", "cycle")),
    ("many", "atan2", "fmod", "Fusion will increase peak memory", ("inputs", "32", "bytes")),
    (
        "many",
        "cumsum",
        "amax",
        "Split scan cannot fuse with reductions|numel/rnumel mismatch (reduce) (1, 128), (1048576, 8192)",
        ("scan", "blocks", "reduction"),
    ),
    ("many", "expm1", "log1p", "Nodes are too far away. Fusing them may increase peak memory.", ("64 nodes",)),
    ("foreach", "_foreach_add", "cos", "candidate consumer has no dep in any foreach producer", ("foreach kernel",)),
    ("templates", "mm", "mm_2", "prologue fusion only supported for pointwise nodes", ("pointwise", "template", "loads")),
    ("templates", "mm_1", "sum_1", "template epilogue not satisfied", ("pointwise", "template", "epilogue_fusion")),
    ("templates", "mm_2", "mm", "prologue fusion only supported for pointwise nodes|node1 must go before node2", ()),
    ("timed", "op0", "mm", "speedup_by_fusion", ("timed", "faster")),
    ("max", "sum_1", "div", "exceeds max fusion", ("2 nodes", "max_fusion_size")),
    ("buffers", "sum_1", "cos", "fusion_prevent_too_many_reads_and_writes", ("2 buffers", "max_fusion_unique_io_buffers")),
    (
        "reshaped",
        "sum_1",
        "amax",
        "numel/rnumel mismatch (reduce) (64, 32), (128, 256)",
        ("reductions", "64", "128", "32", "256"),
    ),
    ("reshaped", "add", "sum_2", "nodes numel/rnumel incompatibility", ("pointwise", "reduction", "sizes")),
]
#: Rules whose sentence tells the nodes by their kind, not by name.
NAMELESS = ("nodes numel/rnumel incompatibility",)


@pytest.mark.compile
@pytest.mark.parametrize(("program", "first", "second", "rule", "facts"), REFUSALS, ids=[r[3][:40] for r in REFUSALS])
def test_each_refusal_is_told_in_the_schedulers_words_and_in_plain_ones(
    traced: Callable[[str], Trace], program: str, first: str, second: str, rule: str, facts: tuple[str, ...]
) -> None:
    """Two nodes that a rule keeps apart: `why` gives the rule, and a sentence that names what stands in the way.

    Where versions of torch ask in another order there are two rules; the sentence is that of the first.
    """
    why = traced(program).why(first, second)
    assert not why.fused and why.considered
    assert why.rule in rule.split("|") and (why.rule != rule.split("|")[0] or not facts or not untold(why.sentence, *facts))
    refused = [row for row in why.verdicts if row["rule"] == why.rule and row["verdict"] == "refused"]
    nodes = [{row["first"], row["second"]} for row in refused if row["reason"] in why.sentence]
    assert nodes and (why.rule in NAMELESS or not untold(why.sentence, *nodes[-1]))


def test_at_least_twelve_reasons_are_provoked() -> None:
    """The programs above provoke more than twelve distinct rules."""
    assert len({rule for *_, rule, _ in REFUSALS}) >= 12


def test_no_reason_of_the_scheduler_is_without_a_plain_sentence() -> None:
    """Every text that the installed scheduler refuses with has a sentence of its own in the table."""
    import inspect

    from torch._inductor import choices, scheduler
    from torch._inductor.codegen import simd

    said: set[str] = set()
    for module in (scheduler, choices, simd):
        source = inspect.getsource(module)
        said |= {m[1] for m in re.finditer(r'(?:why|WhyNoFuse\(\w+, \w+\))\(\s*"([^"]+)"', source)}
    assert len(said) > 40 and said - set(SENTENCE_BY_REASON) == set()


def test_the_reasons_that_a_request_overrides_are_those_of_the_installed_choices() -> None:
    """What `InductorChoices` refuses with, a heuristic in torch's words, is for speed; the scheduler's own reasons are not."""
    import inspect

    from torch._inductor.choices import InductorChoices
    from torch._inductor.scheduler import Scheduler

    def reasons(function: object) -> set[str]:
        return set(re.findall(r'(?:why|WhyNoFuse\(\w+, \w+\))\(\s*"([^"]+)"', inspect.getsource(function)))  # type: ignore[arg-type]

    hooks = (InductorChoices.can_fuse, InductorChoices.can_fuse_vertical, InductorChoices.can_fuse_horizontal)
    heuristics = set().union(*map(reasons, hooks))
    assert len(heuristics) > 5 and heuristics <= set(FOR_SPEED) <= set(SENTENCE_BY_REASON)
    needed = reasons(Scheduler.can_fuse) | reasons(Scheduler.can_fuse_vertical)
    assert len(needed) > 1 and not needed & set(FOR_SPEED)


# Groups and kernels ----------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Self-attention with its projections."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], 4, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


def mlp() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16), nn.Softmax(-1))


def transformer(name: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    if name == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=64, n_head=4, vocab_size=128))
    else:
        sizes = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
        model = transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=128))
    return model  # type: ignore[no-any-return]


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], dict[str, Any]]] = {
    "mlp": (mlp, lambda: R(8, 32), {}),
    "attention": (Attention, lambda: R(2, 16, 32), {}),
    "gpt2": (lambda: transformer("gpt2"), lambda: torch.randint(0, 128, (2, 16)), {"use_cache": False, "return_dict": False}),
    "bert": (lambda: transformer("bert"), lambda: torch.randint(0, 128, (2, 16)), {"return_dict": False}),
}


def launched(code: str) -> Counter[str]:
    """How often the wrapper calls each kernel and each other function of torch's, read from the generated code."""
    body = code.partition("def call(")[2] or code
    names = re.findall(r"(\w+)(?:\.run)?\(.*?\)$", "\n".join(m.strip() for m in body.splitlines()), re.MULTILINE)
    found = Counter(name for name in names if name.startswith(("triton_", "cpp_fused")))
    found["calls"] = len(re.findall(r"(?:^|= )\s*(?:extern_kernels\.\w+|aten\.[\w.]+|torch\.ops\.[\w.]+)\(", body, re.MULTILINE))
    return found


def reported(trace: Trace, graph: str) -> Counter[str]:
    """The same counts, by the verdicts."""
    (found,) = [g for g in trace.fusion.graphs if g.artifact.graph == graph]
    counted = Counter(str(name) for name, _ in found.verdicts.data["kernels"])
    counted["calls"] = sum(1 for row in found.groups() if row["kind"] == "extern")
    return counted


def assert_groups_are_kernels(trace: Trace) -> None:
    """Each group that is computed has its kernel, each kernel its groups, in the numbers that the code launches."""
    assert trace.fusion.graphs and not any(f.fatal or f.stage == "fusion" for f in trace.failures), trace.failures
    for code in trace.find("output_code"):
        assert reported(trace, code.graph) == launched(code.text)
        rows = trace.fusion.groups.where(graph=code.graph)
        kernels = {k.name for k in trace.kernels if k.artifact.graph == code.graph}
        assert {name for row in rows for name in row["kernels"]} == kernels
        assert all(row["kernels"] for row in rows if row["kind"] in ("fused", "alone", "foreach", "template"))
        assert not any(row["kernels"] for row in rows if row["kind"] in ("extern", "nop", "output of a call"))
        nodes = [node for row in rows for node in row["nodes"]]
        assert len(nodes) == len(set(nodes)), "each scheduler node is in one group"


@pytest.mark.compile
@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", ["mlp", "attention", "gpt2", pytest.param("bert", marks=pytest.mark.whole)])
def test_the_groups_are_the_kernels_of_the_code(name: str, train: bool) -> None:
    """For a GPU: groups and generated code name the same kernels and as many calls, forward and backward."""
    make, inputs, kwargs = MODELS[name]
    trace = explorer.trace(make().train(train), inputs(), kwargs=kwargs, target="h100", train=train)
    assert_groups_are_kernels(trace)
    assert {g.artifact.graph for g in trace.fusion.graphs} == ({"forward", "backward"} if train else {"inference"})


@pytest.mark.compile
def test_in_cpp_a_kernel_may_hold_several_groups() -> None:
    """The C++ backend writes loops that it did not fuse into one function; the groups say so."""
    trace = explorer.trace(lambda x: (x.sin(), x[:4].cos().sum()), R(8, 8), target="cpu")
    assert_groups_are_kernels(trace)
    (kernel,) = {row["kernels"] for row in trace.fusion.groups}
    assert len(kernel) == 1 and len(trace.fusion.groups) == 2
    why = trace.why("sin", "cos")
    assert not why.fused and not untold(why.sentence, "loops", *kernel)


@pytest.mark.compile
def test_a_silent_refusal_names_the_function_that_said_no() -> None:
    """The C++ backend gives no reasons; the function that refuses is found and told in a plain sentence."""
    trace = explorer.trace(
        lambda x, y: (x.sin() * y[0], x.cos()), R(6, 16), R(6, 16), target="cpu", options={"cpp.max_horizontal_fusion_size": 1}
    )
    why = trace.why("sin", "cos")
    assert why.rule.startswith("CppScheduling.can_fuse_horizontal (torch/_inductor/codegen/cpp.py:")
    assert not untold(why.sentence, "1", "cpp.max_horizontal_fusion_size")


@pytest.mark.compile
def test_templates_say_what_is_before_and_after_them(traced: Callable[[str], Trace]) -> None:
    """A Triton template's epilogue is named in its group, and a library call ends what is fused."""
    rows = traced("templates").fusion.groups
    with_epilogue = [row for row in rows if row["kind"] == "template" and row["epilogue"]]
    assert with_epilogue and all(row["kernels"][0].startswith("triton_tem") for row in with_epilogue)
    (sub,) = [row for row in traced("many").fusion.groups if "sub" in row["fx_nodes"]]
    assert len(sub["before"]) == 1 and sub["kind"] == "alone"


def both_sides(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A template with something to compute before it on both of its inputs, and something after it."""
    return torch.relu((x.exp() + 1.5) @ w.sin()) + b


@pytest.fixture(scope="module")
def prologue() -> Trace:
    """That template with both prologues, which Inductor expects no gain of by itself, and with its epilogue before them.

    torch 2.11 fuses a prologue at once, and nothing can follow what is fused so.
    """
    pairs = [("exp", "mm"), ("sin", "mm"), ("mm", "relu")]
    args = R(100, 72), R(72, 50), R(50)
    with torch.no_grad():
        return explorer.trace(both_sides, *args, target="h100", options={"max_autotune": True}, fuse=pairs)


@pytest.mark.compile
def test_a_prologue_is_named_in_its_group_and_in_the_reason(prologue: Trace) -> None:
    """Nodes that a template computes while it loads: one kernel, told as prologue, with what the pair shares."""
    assert prologue.failures == ()
    (row,) = prologue.fusion.groups
    assert row["kind"] == "template" and row["prologue"] == ("op0", "op1") and row["epilogue"] == ("op3",)
    assert row["kernels"] == tuple(k.name for k in prologue.kernels) and row["nodes"] == ("op0", "op1", "op2", "op3")
    assert set(row["fx_nodes"]) == {"exp", "add", "sin", "mm", "relu", "add_1"}
    why = prologue.why("exp", "mm")
    assert why.fused and why.considered
    assert not untold(why.sentence, "exp", "template", "prologue")
    assert not {"prologue", "epilogue"} & {*re.findall(r"\w+", prologue.why("mm", "op2").sentence)}
    assert not untold(prologue.why("sin", "relu").sentence, "sin", "prologue", "relu", "epilogue")
    fused = [r for r in prologue.fusion.table if r["verdict"] == "fused"]
    assert len(fused) == 3 and {r["direction"] for r in fused} == {"template"} and all(r["shared_bytes"] for r in fused)
    (taken,) = [c for c in prologue.inductor.choices.table if c["taken"]]
    assert taken["kind"] == "TritonTemplateCaller" and not untold(taken["why"], "template", "forced")
    assert [r["equal"] for r in prologue.check()] == [True]


@pytest.mark.compile
def test_the_node_of_a_template_is_its_own(traced: Callable[[str], Trace]) -> None:
    """A node that made a template's input is no name of the template: the two are different nodes where they were not fused."""
    for name in ("timed", "templates"):
        rows = traced(name).fusion.groups
        homes = Counter(node for row in rows for node in row["fx_nodes"])
        assert set(homes.values()) == {1}, homes
    why = traced("timed").why("exp", "mm")
    assert not why.fused and why.rule == "speedup_by_fusion"


@pytest.mark.compile
@pytest.mark.parametrize(
    ("function", "args", "pair", "facts"),
    [
        (
            lambda x, w: torch.relu(x) @ w,
            (R(64, 64).half(), R(64, 64).half()),
            ("relu", "mm"),
            ("relu", "mm", "fp32", "16 bits"),
        ),
        (
            lambda x, w: torch.bmm(x.cos(), w),
            (R(4, 64, 64), R(4, 64, 64)),
            ("cos", "bmm"),
            ("cos", "bmm", "template", "loads"),
        ),
    ],
    ids=["precision", "template"],
)
def test_a_prologue_that_cannot_be_forced_says_why(
    function: Any, args: Any, pair: tuple[str, str], facts: tuple[str, ...]
) -> None:
    """Inductor's rules about prologues hold, and the request counts as refused, though the origins name both."""
    trace = explorer.trace(function, *args, target="h100", options={"max_autotune": True}, fuse=pair)
    (failure,) = [f for f in trace.failures if f.stage == "fusion"]
    assert failure.step == "fuse" and not untold(failure.message, *facts)
    assert all(len(row["nodes"]) == 1 for row in trace.fusion.groups)


@pytest.mark.compile
def test_foreach_and_combo_kernels_are_groups(traced: Callable[[str], Trace]) -> None:
    """A list operation is one foreach group; independent kernels that are launched together a combo group."""
    (row,) = [r for r in traced("foreach").fusion.groups if r["kind"] == "foreach"]
    assert len(row["nodes"]) == 2 and "_foreach_add" in row["fx_nodes"]
    assert not untold(traced("foreach").why(*row["nodes"]).sentence, "foreach", *row["nodes"])
    trace = explorer.trace(lambda x, y: (x.sin(), y.cos()), R(256), R(300), target="h100", options={"combo_kernels": True})
    (row,) = trace.fusion.groups
    assert row["kind"] == "combo" and {k.name for k in trace.kernels} == set(row["kernels"])
    assert "combo" in trace.why("sin", "cos").sentence


# Lowering ------------------------------------------------------------------------------------------------------------


@pytest.mark.compile
def test_buffers_say_why_they_were_made(traced: Callable[[str], Trace]) -> None:
    """Outputs, reductions in two halves, inputs of calls and values that are read too often each have their reason."""

    def lowering(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, w: torch.Tensor) -> Any:
        read = x + a + b + c + x.t() + a.t()
        return (read * 2) @ w, read.sum(1), read.cos()

    trace = explorer.trace(lowering, *(R(16, 16) for _ in range(5)), target="h100")
    made = {row["buffer"]: row for row in trace.fusion.buffers}
    whys = " | ".join(str(row["why"]) for row in made.values())
    assert any(not untold(str(row["why"]), "mm", "memory") for row in made.values())
    assert not untold(whys, "3 times", "reduction", "output")
    assert all(row["where"].startswith("torch/") and row["node"] for row in made.values())
    halves = [r for r in traced("many").fusion.buffers if not untold(str(r["why"]), "reduction", "split")]
    assert {r["lowering"] for r in halves} == {"amax"}


@pytest.mark.compile
def test_a_buffer_made_for_its_operations_says_how_many() -> None:
    """The reason names the rule that made it: here the number of operations, and not of reads, which are two."""

    def long(x: torch.Tensor) -> Any:
        y = x
        for i in range(20):
            y = torch.sin(y) + x * i
        return y.sum(), y * 2

    trace = explorer.trace(long, R(64), target="h100")
    whys = [str(row["why"]) for row in trace.fusion.buffers]
    assert any(re.search(r"\d+ operations", why) and not untold(why, "30", "realize_opcount_threshold") for why in whys), whys


@pytest.mark.compile
def test_what_was_inlined_is_shown_as_the_fusion_it_is() -> None:
    """A chain of pointwise operators is one scheduler node: its inner ones never had a buffer."""
    trace = explorer.trace(lambda x: torch.tanh(x.sin() * 2) + 1, R(64), target="h100")
    assert {row["fx_node"]: row["into"] for row in trace.fusion.inlined} == dict.fromkeys(("sin", "mul", "tanh"), ("op0",))
    why = trace.why("sin", "tanh")
    assert why.fused and not untold(why.sentence, "sin", "tanh", "scheduler node", "op0")


# What is replaced ------------------------------------------------------------------------------------------------------


def touched() -> dict[str, int]:
    """The ids of everything that verdicts, requests and left-out passes replace."""
    from torch._inductor import choices, graph, ir, pattern_matcher, scheduler
    from torch._inductor.codegen import cpp, triton
    from torch._inductor.virtualized import V
    from torch.fx.passes import graph_transform_observer

    owners: tuple[Any, ...] = (
        scheduler.Scheduler,
        scheduler.WhyNoFuse,
        scheduler.BaseScheduling,
        ir.StorageBox,
        ir.ExternKernel,
        graph.GraphLowering,
        cpp.CppScheduling,
        triton.TritonScheduling,
        choices.InductorChoices,
        pattern_matcher.PatternMatcherPass,
        graph_transform_observer.GraphTransformObserver,
    )
    found = {f"{owner.__name__}.{name}": id(value) for owner in owners for name, value in vars(owner).items()}
    return {**found, "V.choices": id(V.choices)}


@pytest.mark.compile
def test_nothing_stays_replaced() -> None:
    """After a trace with every kind of change the scheduler, the choices and the patterns are the originals."""
    before = touched()
    kept: dict[str, Any] = {"keep_apart": ("sin", "cos"), "without_pattern": "no_such", "without_pass": "no_such"}
    with pytest.raises(explorer.errors.InputError):
        explorer.trace(lambda x: (x.sin(), x.cos()), R(8), target="h100", **kept)
    after = touched()
    assert {name for name in before if after.get(name) != before[name]} == set()


@pytest.mark.compile
def test_where_explorer_cannot_note_a_choice_inductors_own_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """What listens to the choices fails alone: a Failure says so, and the kernels are the same."""

    class Shared:
        def __get__(self, log: object, kind: object = None) -> None:
            raise RuntimeError("ours")

        def __set__(self, log: object, value: object) -> None:
            pass

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(0), x.cos(), x.sin()

    x = R(64, 8)
    kernels = len(explorer.trace(program, x, target="h100").kernels)
    monkeypatch.setattr(Log, "shared", Shared(), raising=False)
    trace = explorer.trace(program, x, target="h100")
    assert "RuntimeError: ours" in {failure.message for failure in trace.failures}
    assert len(trace.kernels) == kernels
    torch.testing.assert_close(trace.live.result, program(x))


@pytest.mark.compile
def test_choices_that_the_user_set_stay_in_force() -> None:
    """A user's own InductorChoices decide, keep their state, and are what is set afterwards."""
    from torch._inductor.choices import InductorChoices
    from torch._inductor.virtualized import V

    class Mine(InductorChoices):  # type: ignore[misc]
        def __init__(self) -> None:
            self.asked = 0

        def can_fuse(self, scheduler: Any, node1: Any, node2: Any, shared: int) -> bool:  # type: ignore[override]
            self.asked += 1
            return False

    mine = Mine()
    with V.set_choices_handler(mine):
        trace = explorer.trace(lambda x: (x.sum(0), x.sum(0).cos(), x.amax(0)), R(8, 8), target="h100")
        assert V.choices is mine and mine.asked > 0
    refused = [row for row in trace.fusion.table if row["verdict"] == "refused"]
    assert refused and all(re.match(r"Scheduler\._?can_fuse", row["rule"]) for row in refused), "no reason was given"
    assert len(trace.kernels) == 3


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
def test_a_template_that_is_announced_is_what_max_autotune_makes() -> None:
    """A GELU of a product is told of the template, and the compile with that mode has it in the template's epilogue."""
    pytest.importorskip("triton")
    net = nn.Sequential(nn.Linear(256, 512, bias=False), nn.GELU())
    x = R(512, 256)
    before = explorer.trace(net, x, target="h100").why("mm", "gelu")
    assert not before.fused and 'mode="max-autotune"' in before.sentence
    tuned = explorer.trace(net, x, target="h100", mode="max-autotune").why("mm", "gelu")
    assert tuned.fused and "gelu is in the template's epilogue" in tuned.sentence
