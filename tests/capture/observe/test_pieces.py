"""Pieces: a backend that splits Dynamo's graph and compiles part by part, as vLLM and SGLang do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.passes.split_module import split_module

import explorer
from explorer.stages.fx_graph import node_lines
from tests.inductor_caches import caches_in
from tests.serving_program import Decoder, Idle, PiecewiseBackend, SquareByMul

pytestmark = pytest.mark.compile

PROGRAM = Path(__file__).parents[2] / "serving_program.py"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[explorer.Trace, PiecewiseBackend]]:
    """The recording of a decoder of three layers, compiled for any number of tokens and for 8, and its backend."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    backend = PiecewiseBackend(sizes=[8], passes=[Idle(), SquareByMul()])
    model, tokens = Decoder().eval(), torch.arange(24)
    torch._dynamo.mark_dynamic(tokens, 0)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    tag = torch.compiler.config.patch(cache_key_tag=str(tmp_path_factory.mktemp("tag")))  # no earlier run of the test is found
    with caches_in(Path(torch._inductor.runtime.cache_dir_utils.cache_dir())), tag, torch.no_grad():
        with explorer.record() as recording:
            made = compiled(tokens)
        torch.testing.assert_close(made, model(tokens))
    yield recording.trace, backend
    torch._dynamo.reset()


def test_each_piece_is_a_frame_with_its_stages(served: tuple[explorer.Trace, PiecewiseBackend]) -> None:
    """Each part between two attentions has a frame, each size a compile of it, with the graphs and kernels of that alone."""
    trace, _ = served
    rows = trace.table("piece")
    assert [(row["frame"], row["name"], row["layers"]) for row in rows if row["frame"].endswith("/0")] == [
        ("1/0", "submod_0", ("embedding", "layers.0")),
        ("2/0", "submod_2", ("layers.0", "layers.1")),
        ("3/0", "submod_4", ("layers.1", "layers.2")),
        ("4/0", "submod_6", ("layers.2",)),
    ]
    assert {row["of_frame"] for row in rows} == {"0/0"}
    sizes = {row["frame"].rpartition("/")[2]: row["sizes"] for row in rows}
    assert sizes["0"].endswith(" ≥ 2") and sizes["1"].endswith(" = 8")
    for stage in ("forward", "post_grad", "output_code"):
        assert [a.frame for a in trace.find(stage)] == [row["frame"] for row in rows if not row["stopped"]], stage
    assert "0/0" not in {a.frame for a in trace.find("kernel")}
    assert trace.failures == ()


def test_pieces_that_the_backend_takes_for_one_are_said_to_be_alike(served: tuple[explorer.Trace, PiecewiseBackend]) -> None:
    """The backend reuses what it compiled for a piece with the same cache key, and its exception is no failure."""
    trace, backend = served
    alike = [row for row in trace.table("piece") if row["stopped"]]
    assert [(row["frame"], row["same_as"], row["alike"], row["stopped"]) for row in alike] == [
        ("3/0", "2/0", 2, "StopCompiling"),
        ("3/1", "2/1", 2, "StopCompiling"),
    ]
    assert backend.reused == len(alike)


def test_nodes_of_a_piece_lead_to_those_of_the_whole_graph(served: tuple[explorer.Trace, PiecewiseBackend]) -> None:
    """split_module renames the nodes; each links to the node with its operator and its line in Dynamo's graph."""
    trace, _ = served
    (piece,), (whole,) = trace.find("piece", "2/0"), trace.find("dynamo")
    links = [link for link in trace.links if (link.source, link.target) == (piece.id, whole.id)]
    assert len(links) >= sum(node["op"] == "call_function" for node in piece.nodes)
    (names, _), (of_whole, _) = (({line: name for name, line in node_lines(text).items()}, text) for text in (piece, whole))
    targets = [{node["name"]: (node["target"], node.get("line")) for node in text.nodes} for text in (piece, whole)]
    pairs = [(names[link.source_lines[0]], of_whole[link.target_lines[0]]) for link in links]
    assert all(targets[0][name] == targets[1][origin] for name, origin in pairs if "modules" not in name)
    assert ("linear", "linear_1") in pairs


def test_kernels_of_each_piece_come_from_the_lines_of_the_model(served: tuple[explorer.Trace, PiecewiseBackend]) -> None:
    """The line of the activation leads to a kernel of each piece that computes it, and to none of the first piece."""
    trace, _ = served
    line = next(n for n, text in enumerate(PROGRAM.read_text().split("\n"), 1) if "relu(" in text)
    kernels = {row["artifact"] for row in trace.follow(str(PROGRAM), line, into="kernel") if not row["coarse"]}
    assert {id.partition(":")[0] for id in kernels} >= {"2/0", "2/1", "4/0", "4/1"}
    assert all("relu" in id for id in kernels)


def test_each_pass_of_a_pass_manager_is_told_apart(served: tuple[explorer.Trace, PiecewiseBackend]) -> None:
    """A custom pass with a list of passes: each is a row that says whether it changed the graph."""
    trace, _ = served
    rows = [row for row in trace.inductor.passes if row["frame"] == "2/0" and "custom_post" in row["name"]]
    assert [(row["name"], row["changed"]) for row in rows] == [
        ("PassManager (post_grad_custom_post_pass): Idle", False),
        ("PassManager (post_grad_custom_post_pass): SquareByMul", True),
        ("PassManager (post_grad_custom_post_pass)", False),
    ]


def test_a_call_counts_each_piece_for_any_size(served: tuple[explorer.Trace, PiecewiseBackend]) -> None:
    """A call of three layers has three activations: the kernels for 8 tokens are not added, those of the reused piece are."""
    trace, _ = served
    launches = [row for row in trace.profile.launches if "relu" in row["what"]]
    assert [(row["frame"], row["read"]) for row in launches] == [("2/0", 3072), ("2/0", 3072), ("4/0", 3072)]


def test_the_compiles_of_a_piece_are_compared(served: tuple[explorer.Trace, PiecewiseBackend]) -> None:
    """The compile for 8 tokens and that for any number are traces of their own."""
    trace, _ = served
    compared = explorer.compare(trace.only("2/0"), trace.only("2/1"))
    assert "a call takes" in str(compared)


def test_each_backward_is_counted_to_its_piece() -> None:
    """A backend that compiles parts with compile_fx for training: each has its joint graph and its backward."""
    torch._dynamo.reset()

    class Compiled(torch.fx.Interpreter):
        def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            output = super().call_module(target, args, kwargs)
            self.module.__dict__[target] = torch._inductor.compile_fx.compile_fx(self.fetch_attr(target), list(args))
            return output

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        names = [node.name for node in graph.graph.nodes if node.op.startswith("call_")]
        split = split_module(graph, None, lambda node: names.index(node.name), keep_original_order=True)
        fake = torch._guards.detect_fake_mode(inputs)
        with fake:
            Compiled(split).run(*(fake.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs))
        return split

    def steps(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w) @ w

    x, w = torch.randn(6, 8), torch.randn(8, 8, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0)
    with explorer.record() as recording:
        torch.compile(steps, backend=backend)(x, w).sum().backward()
    trace = recording.trace
    frames = [row["frame"] for row in trace.table("piece")]
    assert len(frames) == 2
    for stage in ("joint", "backward"):
        assert sorted(a.frame for a in trace.find(stage)) == frames
    assert sorted(a.frame for a in trace.find("output_code") if a.graph == "backward") == frames


def products(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Two pieces that are library calls, for which no C++ is compiled."""
    return torch.ops.serving.attention(x @ w, x, x) @ w


def test_each_loaded_artifact_is_a_frame(tmp_path: Path) -> None:
    """A second start loads what the first one saved: the output code of each artifact is in a frame of its own."""

    class Saving(PiecewiseBackend):
        def compile(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], dynamic_shapes: str) -> Any:
            path = tmp_path / f"of_{len(graph.graph.nodes)}_nodes_{self.calls}"
            self.calls += 1
            if path.exists():
                loaded = torch._inductor.CompiledArtifact.load(path=str(path), format="unpacked")
                return lambda *args: loaded(*args)[0]  # an artifact gives a tuple, the piece a tensor
            made = super().compile(graph, inputs, dynamic_shapes)
            made.save(path=str(path), format="unpacked")
            return made

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    traces = []
    with caches_in(tmp_path / "cache"), torch.no_grad():
        for _ in range(2):
            torch._dynamo.reset()
            backend = Saving()
            with explorer.record() as recording:
                torch.compile(products, backend=backend)(x, w)
            traces.append(recording.trace)
    loaded = traces[1]
    assert [a.frame for a in loaded.find("output_code")] == ["1/0", "2/0"]
    hits = [row for row in loaded.compiler.caches if (row["cache"], row["state"]) == ("standalone artifact", "hit")]
    assert [row["frame"] for row in hits] == ["1/0", "2/0"]
    assert loaded.failures == ()


def test_pieces_are_compiled_for_a_gpu_that_is_not_here() -> None:
    """The backend hands a piece to compile_fx with Dynamo's fake tensors, which are on the CPU: its kernels are Triton's."""
    pytest.importorskip("triton", reason="without triton nothing is compiled for a GPU that is not here")
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.serving.attention(x, x, x).sin()

    backend, x = PiecewiseBackend(standalone=False), torch.randn(8, 8)
    with torch.no_grad(), explorer.record(target="h100") as recording:
        made = torch.compile(function, backend=backend)(x)
    trace = recording.trace
    assert [(a.frame, a.language) for a in trace.find("kernel")] == [("1/0", "triton")]
    assert trace.failures == ()
    torch.testing.assert_close(made, function(x))
