"""trace: the truth of the result, the frames and stages it gives, and the callables it takes."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
from torch import nn

import explorer
from explorer.lab.live.protocol import live_of
from tests.facts import untold

pytestmark = pytest.mark.compile


def sin_cos(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) ** 2 + torch.cos(x) ** 2


def toy_example(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


TOY_LINE = toy_example.__code__.co_firstlineno + 2


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        x = nn.functional.gelu(x)
        return self.down(x)


INFERENCE = [
    "source",
    "phase",
    "bytecode",
    "dynamo",
    "dynamo_bytecode",
    "guards",
    "pre_grad",
    "forward",
    "inductor_input",
    "fx_graph_runnable",
    "post_grad",
    "ir_pre_fusion",
    "ir_post_fusion",
    "output_code",
    "kernel",
]


SIZE = 100


@pytest.fixture(scope="module")
def inference() -> explorer.Trace:
    """The trace of sin_cos for the CPU."""
    torch.manual_seed(0)
    return explorer.trace(sin_cos, torch.randn(SIZE))


@pytest.fixture(scope="module")
def mlp() -> explorer.Trace:
    """The trace of an MLP in inference for the CPU."""
    return explorer.trace(MLP().eval(), torch.randn(4, 16))


def test_an_inference_trace_has_every_stage_and_plain_compiles_result(inference: explorer.Trace) -> None:
    """sin²+cos² gives every stage from source to kernel, and the result of plain torch.compile."""
    trace, (x,) = inference, live_of(inference).call.args  # type: ignore[union-attr]
    assert trace.failures == ()
    assert set(INFERENCE) <= {a.stage for a in trace.artifacts}
    assert torch.equal(trace.live.result, torch.compile(sin_cos)(x))
    assert [k.language for k in trace.kernels] == ["cpp"]
    assert all(a.text.strip() for a in trace.artifacts)


def test_stages_come_in_the_compilers_order(inference: explorer.Trace) -> None:
    """Within a frame the artifacts stand in the order of STAGES."""
    order = [s.name for s in explorer.types.STAGES]
    places = [order.index(a.stage) for a in inference.artifacts]
    assert places == sorted(places)


def test_the_well_known_toy_example() -> None:
    """depyf's example gives three frames, one graph break at its line, and resume functions, one of them not run."""
    trace = explorer.trace(toy_example, torch.randn(10), torch.ones(10), backend="aot_eager")
    assert trace.compile_ids == ("0/0", "1/0", "2/-")
    assert [f["resume"] for f in trace.dynamo.functions] == [False, True, True]
    assert [f["compiled"] for f in trace.dynamo.functions] == [True, True, False]
    (found,) = trace.dynamo.graph_breaks
    assert [f for f in trace.failures if f.stage == "decompiled"] == []
    if undone := [a for a in trace.find("decompiled") if a.language == "bytecode"]:  # with depyf 0.20, and where it is there
        assert not untold(undone[0].lines[0], "depyf", "SWAP", "bytecode")
        assert any(line.startswith("# ") and "b.sum() < 0" in line for line in undone[0].lines[1:])
    assert found["line"] == TOY_LINE
    assert found["file"] == __file__
    assert "Data-dependent" in found["reason"]
    assert any("torch.cond" in hint for hint in found["hints"])
    assert "explorer/tracing/recording/trace.py" not in trace.text("graph_break"), "the calls shown are the user's"
    assert "in toy_example" in trace.text("graph_break")


def test_a_training_step_gives_joint_forward_backward_and_plain_compiles_gradients() -> None:
    """train=True gives the joint, forward and backward graphs and plain torch.compile's gradients; .grad is untouched."""
    torch.manual_seed(0)
    model, x = MLP(), torch.randn(4, 16, requires_grad=True)
    trace = explorer.trace(model, x, train=True)
    assert {(a.stage, a.graph) for a in trace.artifacts} >= {
        ("joint", "joint"),
        ("forward", "forward"),
        ("backward", "backward"),
        ("post_grad", "forward"),
        ("post_grad", "backward"),
        ("output_code", "forward"),
        ("output_code", "backward"),
    }
    leaves = [x, *model.parameters()]
    plain = torch.compile(model)(x)
    expected = torch.autograd.grad(plain.sum(), leaves)
    assert torch.equal(trace.live.result, plain)
    assert list(trace.live.gradients) == ["args[0]", "up.weight", "up.bias", "down.weight", "down.bias"]
    assert all(torch.equal(a, b) for a, b in zip(trace.live.gradients.values(), expected, strict=True))
    assert all(leaf.grad is None for leaf in leaves)


def test_nodes_know_shape_module_and_the_operator_that_was_decomposed(mlp: explorer.Trace) -> None:
    """An FX node has shape, dtype, device, module path, user line; after decomposition, the operator it is from."""
    trace = mlp
    up = next(n for n in trace.find("dynamo")[0].nodes if "linear" in n["target"])
    assert (up["shape"], up["dtype"], up["device"], up["module"]) == (("4", "32"), "float32", "cpu", "up")
    gelu = [n for n in trace.find("post_grad")[0].nodes if n.get("original") == "aten.gelu.default"]
    assert {n["target"] for n in gelu} >= {"aten.mul.Tensor", "aten.erf.default"}
    dynamo = trace.find("dynamo")[0]
    assert ("input_1", "input_2") in dynamo.edges or len(dynamo.edges) >= 3
    assert dynamo.tabular.splitlines()[0].split() == ["op", "name", "target", "args", "kwargs"]


def test_decompositions_say_what_made_them(mlp: explorer.Trace) -> None:
    """Each decomposed operator names the nodes it became and the Python function that defines how."""
    rows = {r["operator"]: r for r in mlp.inductor.decompositions}
    gelu = rows["aten.gelu.default"]
    assert "erf" in gelu["nodes"]
    assert gelu["site"].startswith("torch/") and gelu["site"].endswith(" gelu")


def test_passes_and_patterns_say_what_changed_and_where_they_are_defined() -> None:
    """A pattern that fires has its definition's place, and the pass it fired in has the graph before and after."""

    def shuffle(x: torch.Tensor) -> torch.Tensor:
        return x.permute(1, 0).permute(1, 0).sin()

    trace = explorer.trace(shuffle, torch.randn(3, 4), target="h100")
    match = trace.inductor.matches.where(pattern="pointless_permute_pair")[0]
    assert match["file"].startswith("torch/_inductor/fx_passes/")
    assert match["line"] > 0 and len(match["matched"]) == 2
    idle = {row["name"] for row in trace.inductor.passes.where(changed=False)}
    assert "remove_noop_ops" in idle and all(row["seconds"] >= 0 for row in trace.inductor.passes.where(changed=False))
    changed = [row for row in trace.inductor.passes if set(match["matched"]) <= {*row["erased"]}]
    assert len(changed) == 1
    assert "permute" in changed[0]["before"] and "permute" not in changed[0]["after"]
    assert changed[0]["seconds"] > 0


def test_code_flow_leads_into_pytorchs_own_source(inference: explorer.Trace) -> None:
    """Each stage names the function that made it, its file and line there, and the calls from torch.compile inwards."""
    from pathlib import Path

    rows = {r["stage"]: r for r in inference.stages}
    for stage, function in {
        "dynamo": "OutputGraph",
        "post_grad": "codegen_and_compile",
        "ir_pre_fusion": "Scheduler",
        "guards": "CheckFunctionManager",
    }.items():
        row = rows[stage]
        assert function in row["function"]
        text = (Path(torch.__file__).parent.parent / row["file"]).read_text().splitlines()
        assert text[row["line"] - 1].strip()
        assert "_dynamo/eval_frame.py" in row["calls"][0]


def test_dynamic_shapes_have_symbols_with_ranges() -> None:
    """dynamic=True gives each symbol with its source and range."""
    trace = explorer.trace(sin_cos, torch.randn(10), dynamic=True, backend="eager")
    (row,) = trace.dynamo.symbols
    assert row["source"] == "L['x'].size()[0]"
    assert row["vr"].startswith("[2, ")
    assert row["val"] == "10"


def test_mark_dynamic_is_a_symbol_too() -> None:
    """mark_dynamic gives a symbol for that size alone, in the range it was given."""
    x = torch.randn(6, 4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    trace = explorer.trace(sin_cos, x, backend="eager")
    (row,) = trace.dynamo.symbols
    assert row["source"] == "L['x'].size()[0]"
    assert row["vr"] == "[2, 64]"


def test_a_trace_is_fresh_whatever_was_compiled_before() -> None:
    """Earlier compiles and earlier sizes of the same function change nothing in a trace, nor a trace in them."""
    compiled = torch.compile(sin_cos, backend="aot_eager")
    compiled(torch.randn(10))
    for size in (20, 30):
        trace = explorer.trace(sin_cos, torch.randn(size), backend="aot_eager")
        assert trace.compile_ids == ("0/0",)
        assert not trace.dynamo.symbols
        assert f"[{size}]" in trace.text("dynamo")


@pytest.mark.parametrize("used", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_trace_compiles_what_was_compiled_under_another_grad_mode(used: type) -> None:
    """Dynamo takes an earlier compile of a function if the backends are equal; a trace's backend equals none."""

    def product(x: torch.Tensor) -> torch.Tensor:  # a library call: no C++ is compiled
        return x @ x

    x = torch.randn(8, 8)
    with used():
        torch.compile(product)(x)
    assert explorer.trace(product, x, target="h100").find("output_code")


def test_many_traces_of_one_function_all_compile() -> None:
    """A function can be traced more often than Dynamo's limit on recompiles."""
    for _ in range(12):
        assert explorer.trace(sin_cos, torch.randn(4), backend="eager").compile_ids == ("0/0",)


def test_equal_programs_give_equal_texts(inference: explorer.Trace) -> None:
    """Two traces of the same call say the same of every FX graph and kernel."""
    one, two = inference, explorer.trace(sin_cos, torch.ones(SIZE))
    for stage in ("source", "bytecode", "dynamo", "forward", "post_grad", "ir_post_fusion", "kernel"):
        assert one.text(stage) == two.text(stage)


# Backends --------------------------------------------------------------------------------------------------------------


def test_another_backend_shows_the_stages_up_to_the_graph_it_is_handed() -> None:
    """A registered backend other than Inductor gives Dynamo's stages and, where it uses AOTAutograd, its graphs."""
    eager = {a.stage for a in explorer.trace(sin_cos, torch.randn(4), backend="eager").artifacts}
    aot = {a.stage for a in explorer.trace(sin_cos, torch.randn(4), backend="aot_eager").artifacts}
    assert "dynamo" in eager and "forward" not in eager
    assert {"aot_metadata", "forward"} <= aot - eager
    assert not aot & {"joint", "post_grad", "output_code", "kernel"}


def test_a_callable_backend_sees_the_graph() -> None:
    """A callable as torch.compile takes it is called with the graph that the trace shows."""
    seen: list[str] = []

    def mine(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        seen.append(graph.print_readable(print_output=False))
        return graph.forward

    x = torch.randn(4)
    trace = explorer.trace(sin_cos, x, backend=mine)
    assert len(seen) == 1
    assert torch.allclose(trace.live.result, sin_cos(x))
    assert trace.meta["backend"].endswith("mine")


def test_the_classic_module_compiler_is_a_backend_too() -> None:
    """A compiler(module) -> module written on torch.compile is called with the function itself, afresh each time."""

    def triton_compiler(module: object) -> object:
        return torch.compile(module, backend="aot_eager")

    x = torch.randn(4)
    for _ in range(2):
        trace = explorer.trace(sin_cos, x, backend=triton_compiler)
        assert trace.compile_ids == ("0/0",)
        assert torch.equal(trace.live.result, sin_cos(x))


# Functions and errors --------------------------------------------------------------------------------------------------


def test_a_function_of_a_notebook_cell_has_its_source() -> None:
    """A function typed into a cell, whose file is not on disk, shows its source and links to it."""
    import linecache

    cell = "import torch\n\ndef typed(x):\n    y = torch.sin(x)\n    return y * 2\n"
    linecache.cache["<cell 7>"] = (len(cell), None, cell.splitlines(True), "<cell 7>")
    names: dict[str, object] = {}
    exec(compile(cell, "<cell 7>", "exec"), names)
    trace = explorer.trace(names["typed"], torch.randn(3), backend="eager")  # type: ignore[arg-type]
    assert trace.text("source").startswith("def typed(x):\n    y = torch.sin(x)")
    (sine,) = [n for n in trace.find("dynamo")[0].nodes if n["target"] == "torch.sin"]
    assert (sine["file"], sine["line"], sine["code"]) == ("<cell 7>", 4, "y = torch.sin(x)")
    linked = {row["stage"] for row in trace.follow("0/0:source", 2)}
    assert {"bytecode", "dynamo", "guards"} <= linked


def test_wrong_arguments_are_the_functions_own_typeerror() -> None:
    """Too few or too many arguments raise what calling the function raises."""
    with pytest.raises(TypeError, match=r"sin_cos\(\) missing 1 required positional argument: 'x'"):
        explorer.trace(sin_cos)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        explorer.trace(sin_cos, torch.randn(2), torch.randn(2))


def test_an_error_of_the_function_goes_through_with_the_trace_so_far() -> None:
    """A function that raises while traced raises its own error, which carries the trace up to there."""

    def raising(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        raise ValueError(f"mine {y.shape}")

    with pytest.raises(ValueError, match="mine") as caught:
        explorer.trace(raising, torch.randn(4), backend="eager")
    trace = caught.value.explorer_trace  # type: ignore[attr-defined]
    assert "def raising" in trace.text("source")


def test_no_cpp_compiler_says_which_package_to_install() -> None:
    """Without a C++ compiler the Failure names the package to install."""
    explorer.trace(sin_cos, torch.randn(4), backend="eager")
    from torch._inductor import cpp_builder

    cpp_builder.get_cpp_compiler.cache_clear() if hasattr(cpp_builder.get_cpp_compiler, "cache_clear") else None
    options = {"cpp.cxx": ("no-such-compiler",)}

    def other(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 5 - 0.123456

    trace = explorer.trace(other, torch.randn(7), options=options)
    assert trace.failures and trace.failures[-1].fatal
    assert "apt install g++" in trace.failures[-1].message
    assert trace.find("post_grad"), "the stages before it are there"


@pytest.mark.parametrize("wrap", [torch.compile, functools.partial(torch.compile, backend="eager")])
def test_what_is_compiled_already_is_traced_from_its_original(wrap: object) -> None:
    """A compiled function or module is unwrapped and compiled afresh, by Inductor."""
    trace = explorer.trace(wrap(sin_cos), torch.randn(4), target="h100")  # type: ignore[operator]
    assert trace.meta["name"] == "sin_cos" and trace.kernels
    trace = explorer.trace(wrap(MLP()), torch.randn(2, 16), target="h100")  # type: ignore[operator]
    assert trace.meta["name"] == "MLP" and trace.kernels


def test_callables_of_every_kind() -> None:
    """Lambdas, methods, partials, builtins, callable objects and modules can be traced."""

    class Callable:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        def method(self, x: torch.Tensor) -> torch.Tensor:
            return x - 1

    x = torch.randn(3)
    kinds = [lambda x: x * 2, Callable(), Callable().method, functools.partial(torch.add, x), torch.relu, nn.ReLU()]
    for kind in kinds:
        trace = explorer.trace(kind, x, backend="eager")
        assert torch.equal(trace.live.result, kind(x))


def test_keyword_arguments_are_passed_on() -> None:
    """kwargs= reaches the function."""
    trace = explorer.trace(torch.nn.functional.softmax, torch.ones(4), kwargs={"dim": 0}, backend="eager")
    assert torch.allclose(trace.live.result, torch.full((4,), 0.25))


def test_plugin_stage() -> None:
    """A stage of one's own is an argument, sees the events it asks for and stands among the others."""
    from contextlib import contextmanager

    from explorer.model.stage import Stage, text_artifact

    @contextmanager
    def watch(emit):  # type: ignore[no-untyped-def]
        emit("mine", lambda: {"text": "seen"})
        yield

    mine = Stage(
        name="mine",
        title="Mine",
        language="text",
        about="A stage of one's own.",
        watch=watch,
        render=lambda event, id: text_artifact(event, id, "Mine", "text"),
    )
    trace = explorer.trace(sin_cos, torch.randn(4), backend="eager", stages=(*explorer.types.STAGES, mine))
    assert trace.text("mine") == "seen"


def test_no_warning_and_no_output(capfd: pytest.CaptureFixture[str]) -> None:
    """A trace prints nothing and warns of nothing where nobody watches."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explorer.trace(sin_cos, torch.randn(4), backend="aot_eager")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_where_explorer_fails_the_program_has_what_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of explorer's own before the compile: torch alone compiles, with the options, and gives the gradients."""
    seen: list[dict[str, object]] = []

    def broken(*args: object) -> None:
        raise RuntimeError("explorer's own")

    original = torch.compile
    monkeypatch.setattr("explorer.tracing.recording.trace.changes_in_meta", broken)
    monkeypatch.setattr(torch, "compile", lambda *args, **kwargs: (seen.append(kwargs), original(*args, **kwargs))[1])
    model, x = MLP(), torch.randn(4, 16)
    trace = explorer.trace(model, x, train=True, mode="default", dynamic=False, backend="aot_eager")
    assert [(f.step, f.fatal) for f in trace.failures] == [("trace", True)]
    assert seen == [{"backend": "aot_eager", "mode": "default", "dynamic": False, "fullgraph": False, "options": None}]
    expected = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    found = [trace.live.gradients[name] for name, _ in model.named_parameters()]
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(found, expected, strict=True))
    assert not explorer.trace(model, x, backend="aot_eager").live.result.requires_grad


def test_a_cluster_that_explorer_cannot_find_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of explorer's own in the first of its questions, asked again by what handles errors: torch alone compiles."""

    def broken(*args: object) -> None:
        raise RuntimeError("explorer's own")

    monkeypatch.setattr("explorer.tracing.recording.arguments.cluster_of", broken)
    x = torch.randn(4)
    trace = explorer.trace(sin_cos, x, target="h100", backend="aot_eager")
    assert [(f.step, f.fatal) for f in trace.failures] == [("trace", True)]
    assert torch.equal(trace.live.result, sin_cos(x))


def test_what_the_function_returned_is_kept_whatever_fails_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of explorer's own after the call, or around it: the function is called once, and the trace has its result."""

    calls: list[int] = []

    def counted(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        calls.append(1)
        return x.sin()

    x = torch.randn(4, requires_grad=True)
    for name in ("has_fractions", "differentiable", "interruptible"):
        calls.clear()
        with monkeypatch.context() as patched:
            patched.setattr(f"explorer.lab.live.call.{name}", None)
            trace = explorer.trace(counted, x, train=True, backend="aot_eager")
        assert torch.equal(trace.live.result, x.sin()) and calls == [1], name
        assert any("NoneType" in failure.message for failure in trace.failures)
