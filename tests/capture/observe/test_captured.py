"""What is compiled ahead of its calls: `torch.compile(f).aot_compile`, standalone_compile of a graph, AOTInductor."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import explorer
from explorer.capture.observe.places import without_modules
from tests.facts import says, untold

#: The library calls need no g++.
pytestmark = pytest.mark.compile

STACK = """File "/p/model.py", line 3, in forward
    return self.up(x)
  File "/lib/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)"""


class Sum(nn.Module):
    """A library call, and a layer of torch's, whose own line is no line of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8, bias=False)  # Inductor writes a small bias into the code

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.up(x).cumsum(0),)


def running_sum(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0)


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of each test's own: a graph that is loaded has no stages."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()


def test_a_function_compiled_ahead_has_the_stages_of_one_that_is_called() -> None:
    """`aot_compile` has one frame with both bytecodes, guards, Inductor's stages and the line that compiled it."""
    pytest.importorskip("torch._dynamo.aot_compile", reason="this torch compiles nothing ahead of time")
    x = torch.randn(16)
    with torch._dynamo.config.patch(enable_aot_compile=True), explorer.record(fresh=True) as ahead:
        compiled = torch.compile(running_sum, fullgraph=True).aot_compile(((x,), {}))
        assert torch.equal(compiled(x), x.cumsum(0))
    torch._dynamo.reset()
    with explorer.record(fresh=True) as called:
        torch.compile(running_sum)(x)
    lost = {a.stage for a in called.trace.artifacts} - {a.stage for a in ahead.trace.artifacts}
    assert not lost and ahead.trace.failures == ()
    assert {a.frame for a in ahead.trace.artifacts} <= {"", "0/0"} and not ahead.trace.find("compiled_fn")
    assert {a.text for a in ahead.trace.find("bytecode")} == {a.text for a in called.trace.find("bytecode")}
    pairs = {(link.source, link.target) for link in ahead.trace.links}
    assert ("0/0:pre_grad", "0/0:dynamo") in pairs and ("0/0:dynamo_bytecode", "0/0:source") in pairs
    assert not untold(ahead.trace.text("compile_call"), f"{Path(__file__).name}:", "aot_compile", "inductor", "ahead of time")


def test_a_graph_that_the_program_made_itself_says_what_it_lacks() -> None:
    """standalone_compile: the program's line that compiled; the reason for each stage of Dynamo's, for a backward and lines."""
    x = torch.randn(16)
    with torch.no_grad(), explorer.record(fresh=True) as recorded:
        torch._inductor.standalone_compile(make_fx(lambda x: (x.cumsum(0),))(x), [x])
    trace = recorded.trace
    assert trace.failures == () and trace.find("aot_metadata") and trace.find("ir_post_fusion")
    assert not untold(trace.text("compile_call"), f"{Path(__file__).name}:", "standalone_compile(make_fx", "inductor")
    for stage, words in {
        "bytecode": ("make_fx", "Dynamo"),
        "dynamo": ("make_fx", "Dynamo"),
        "guards": ("make_fx", "Dynamo"),
        "backward": ("requires grad", "'forward'"),
        "source": ("record_stack_traces=True",),
    }.items():
        with pytest.raises(explorer.errors.InputError, match=says(*words)):
            trace.text(stage)


def test_the_lines_that_make_fx_keeps_are_the_programs() -> None:
    """With record_stack_traces=True the library call leads to the program's line, past torch's own layer."""
    x, model = torch.randn(4, 8), Sum()
    with torch.no_grad(), explorer.record(fresh=True) as recorded:
        torch._inductor.standalone_compile(make_fx(model, record_stack_traces=True)(x), [x])
    trace = recorded.trace
    assert [Path(a.data["file"]).name for a in trace.find("source")] == [Path(__file__).name]
    assert {Path(str(row["line"]).rpartition(":")[0]).name for row in trace.profile.launches} == {Path(__file__).name}


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch.export's own
def test_what_aot_inductor_compiles_is_told_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own aoti_compile_and_package: the line that compiled, inputs, the program's lines, and why no backward."""
    from torch._functorch.aot_autograd import aot_export_module
    from torch._inductor import codecache

    def build(*anything: object, **more: object) -> None:
        raise RuntimeError("g++ takes half a minute")

    monkeypatch.setattr(codecache.CppBuilder, "build", build)
    x, model = torch.randn(4, 8), Sum()
    kept = torch._inductor.config.patch({"aot_inductor.metadata": {}})
    with kept, torch.no_grad(), pytest.raises(Exception, match="half a minute"), explorer.record(fresh=True) as recorded:
        exported = torch.export.export(model, (x,))
        aot_export_module(model, (x,), trace_joint=False)
        torch._inductor.aoti_compile_and_package(exported, package_path=f"{tmp_path}/m.pt2")
    trace = recorded.trace
    assert [a.frame for a in trace.find("aot_metadata")] == ["0/0"], "an export alone compiles nothing"
    assert [Path(a.data["file"]).name for a in trace.find("source")] == [Path(__file__).name]
    assert {Path(str(row["line"]).rpartition(":")[0]).name for row in trace.profile.launches} == {Path(__file__).name}
    assert not untold(trace.text("compile_call"), f"{Path(__file__).name}:", "aoti_compile_and_package", "ahead of time")
    for stage, words in {"bytecode": ("torch.export", "Dynamo"), "joint": ("AOTInductor", "backward")}.items():
        with pytest.raises(explorer.errors.InputError, match=says(*words)):
            trace.text(stage)


def test_torchs_layers_are_left_out_of_a_stack_with_a_line_of_the_program() -> None:
    """As Dynamo writes stacks: the program's line is the innermost; a stack of torch's layers alone stays as it is."""
    assert without_modules(STACK) == STACK.partition("\n  File")[0]
    alone = STACK.partition("\n  ")[2].partition("\n  ")[2]
    called = '  File "packages/torch/_dynamo/external_utils.py", line 5, in inner\n    return fn(*args)\n' + alone
    assert "linear.py" in alone
    for stack in (alone, called):
        assert without_modules(stack) == stack
