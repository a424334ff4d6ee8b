"""The folders of TORCH_COMPILE_DEBUG=1, written of a trace and held to those that torch itself writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import explorer
from explorer.analysis.questions import diagram
from explorer.model.values import Artifact, plain
from explorer.sources.files import debug_dir
from explorer.tracing.traced import Trace

NAMES = {
    "fx_graph_readable.py",
    "fx_graph_runnable.py",
    "fx_graph_transformed.py",
    "ir_pre_fusion.txt",
    "ir_post_fusion.txt",
    "output_code.py",
    "orig_fx_graph_diagram.svg",
    "graph_diagram.svg",
}


def graph(stages: dict[str, str], frame: str = "0/0", kind: str = "inference", **data: object) -> tuple[Artifact, ...]:
    """One artifact per stage of one compiled graph."""
    return tuple(
        Artifact(f"{frame}:{stage}:{kind}", stage, frame, kind, stage, "text", text, data=plain(data))
        for stage, text in stages.items()
    )


def names_in(svg: str) -> list[str]:
    """The texts that an SVG shows."""
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture(scope="module")
def inference() -> Trace:
    """A traced inference with two kernels around a matrix product."""
    import torch

    def f(x, w):
        return torch.relu(torch.sin(x) @ w).sum(-1)

    return explorer.trace(f, torch.randn(16, 8), torch.randn(8, 4))


@pytest.fixture(scope="module")
def training() -> Trace:
    """A traced training step of a small module."""
    import torch

    return explorer.trace(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU()), torch.randn(2, 8), train=True)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that TORCH_COMPILE_DEBUG=1 itself writes for the program of `inference`."""
    home = tmp_path_factory.mktemp("real")
    code = (
        "import torch\n"
        "def f(x, w):\n"
        "    return torch.relu(torch.sin(x) @ w).sum(-1)\n"
        "torch.compile(f)(torch.randn(16, 8), torch.randn(8, 4))\n"
    )
    (home / "f.py").write_text(code)
    # without the caches of graphs torch compiles, and so writes, all; its precompiled header stays the one of all tests
    settings = {"TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(home), "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
    settings |= {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    subprocess.run([sys.executable, "f.py"], cwd=home, env={**os.environ, **settings}, check=True, capture_output=True)
    (folder,) = home.glob("torch_compile_debug/run_*/torchinductor/model__*")
    return folder


@pytest.mark.compile
def test_names_are_those_of_torch(inference, real, tmp_path):
    """The folder and file names are those that TORCH_COMPILE_DEBUG=1 writes, the two diagrams beside them."""
    written = [Path(p) for p in inference.save_debug_dir(tmp_path)]
    assert {p.parent.name for p in written} == {"model__0_inference_0"} == {real.name.removesuffix(".0")}
    assert {p.name for p in written} >= {p.name for p in real.iterdir() if p.suffix in (".py", ".txt")}
    assert {p.name.replace(".dot", ".svg") for p in written} == NAMES
    assert all(p.stat().st_size for p in written)


@pytest.mark.compile
@pytest.mark.parametrize("name", ["ir_pre_fusion.txt", "ir_post_fusion.txt"])
def test_scheduler_texts_are_those_of_torch(inference, real, tmp_path, name):
    """The scheduler's texts are, but for empty lines at the end, what TORCH_COMPILE_DEBUG=1 writes."""
    inference.save_debug_dir(tmp_path)
    ours = (tmp_path / "model__0_inference_0" / name).read_text()
    assert ours.rstrip() == (real / name).read_text().rstrip()


@pytest.mark.compile
def test_graph_texts_hold_the_operators_of_torch(inference, real, tmp_path):
    """The readable and the transformed graph compute the same operators in the same order as the graphs that torch writes."""
    inference.save_debug_dir(tmp_path)

    def operators(path: Path) -> list[str]:
        return [w.partition("(")[0] for w in path.read_text().split() if w.startswith("torch.ops.")]

    for name in ("fx_graph_readable.py", "fx_graph_transformed.py"):
        ours = operators(tmp_path / "model__0_inference_0" / name)
        assert ours and ours == operators(real / name)


#: Runs one file after the other as a program of its own, in one process that imports torch once.
RUN_EACH = """
import os, runpy, sys, torch
for file in sys.argv[1:]:
    torch.compiler.reset()
    os.chdir(os.path.dirname(file))
    sys.argv = [file]
    runpy.run_path(file, run_name="__main__")
    print("ran", file, flush=True)
"""


@pytest.mark.compile
def test_runnable_files_run(inference, training, tmp_path):
    """Both files that are runnable in torch's folder run here too: a graph of an inference, code of a forward and a backward."""
    files = [Path(p) for p in inference.save_debug_dir(tmp_path / "inference") if p.endswith("fx_graph_runnable.py")]
    files += [Path(p) for p in training.save_debug_dir(tmp_path / "training") if p.endswith("output_code.py")]
    assert len(files) == 3
    done = subprocess.run([sys.executable, "-c", RUN_EACH, *map(str, files)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("ran ")] == [f"ran {file}" for file in files]


@pytest.mark.compile
def test_forward_and_backward_have_a_folder_each(training, tmp_path):
    """A training step gives one folder for its forward and one for its backward, of the same graph number."""
    folders = sorted({Path(p).parent.name for p in training.save_debug_dir(tmp_path)})
    assert folders == ["model__0_backward_1", "model__0_forward_0"]


def test_recompiles_have_folders_of_their_own(tmp_path):
    """Each compiled frame counts as a graph; stages that no graph compiled by Inductor has make no folder."""
    artifacts = (
        *graph({"output_code": "a"}),
        *graph({"joint": "j"}, kind="joint"),
        *graph({"output_code": "b"}, frame="0/1", kind="forward"),
    )
    written = [str(Path(p).relative_to(tmp_path)) for p in debug_dir.save(Trace(artifacts=artifacts), tmp_path)]
    assert written == [
        os.path.join("model__0_inference_0", "output_code.py"),
        os.path.join("model__1_forward_1", "output_code.py"),
    ]


def test_readable_graph_is_what_inductor_was_handed(tmp_path):
    """fx_graph_readable.py is Inductor's input where the trace has it, else the forward or backward graph."""
    handed = graph({"forward": "before", "inductor_input": "handed", "output_code": "x"})
    backward = graph({"backward": "back", "output_code": "y"}, kind="backward")
    for artifacts, text in ((handed, "handed\n"), (backward, "back\n")):
        (readable, _) = debug_dir.save(Trace(artifacts=artifacts), tmp_path / text.strip())
        assert Path(readable).read_text() == text


def test_nothing_compiled_writes_nothing(tmp_path):
    """A trace without a compiled graph writes no file and no folder."""
    assert debug_dir.save(Trace(), tmp_path / "new") == []
    assert not (tmp_path / "new").exists()


def test_names_cannot_leave_the_folder(tmp_path):
    """A graph's name from a trace file is made harmless before it becomes part of a path."""
    written = debug_dir.save(Trace(artifacts=graph({"output_code": "x"}, kind="../../evil/\0name")), tmp_path / "here")
    assert [Path(p).parent.parent for p in written] == [tmp_path / "here"]
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]


FUSED = (
    {"name": "op0_op1", "kind": "FusedSchedulerNode", "fused": ["op0", "op1"], "inputs": []},
    {"name": "op2", "inputs": ["op0_op1"]},
)
SINGLE = (
    {"name": "op0"},
    {"name": "op1", "inputs": ["op0"], "origins": ["sin", "cos"]},
    {"name": "op2", "inputs": ["op1"]},
)


def test_fused_nodes_share_a_frame():
    """In the diagram after fusion a fused group is one cluster around its nodes; the edges are those before fusion."""
    source = diagram.scheduler_diagram(SINGLE, FUSED).source
    inside, outside = source[source.index("subgraph") : source.index("}")], source[source.index("}") :]
    assert "op0_op1" in inside and "sin, cos" in inside and "op2" not in inside
    assert "n0 -> n1" in outside and "n1 -> n2" in outside


def test_diagram_without_the_ir_before_fusion():
    """Where the trace has no IR before fusion the diagram has the fused nodes' names all the same."""
    source = diagram.scheduler_diagram((), FUSED).source
    assert all(name in source for name in ("op0", "op1", "op2"))


@pytest.mark.parametrize("name", ["<b>x</b>", "<TABLE>", 'a"; evil [', "back\\nslash\\", "port:s", "end", "\x00\x1b", "a&b;"])
def test_any_name_can_be_drawn(tmp_path, name):
    """A node's name is drawn as it is, whatever it means to dot, HTML or XML."""
    nodes = ({"name": name, "target": name}, {"name": "user", "inputs": [name]})
    artifacts = graph({"post_grad": "g"}, nodes=nodes)
    (drawn,) = [p for p in debug_dir.save(Trace(artifacts=artifacts), tmp_path) if "diagram" in p]
    if drawn.endswith(".svg"):
        shown = "".join(c if c.isprintable() else " " for c in name).strip()
        assert shown in [text.strip() for text in names_in(Path(drawn).read_text())]


def test_without_dot_the_source_is_written(monkeypatch, tmp_path, capfd):
    """Without graphviz's dot program the diagrams' sources are written and named in the list; nothing is printed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    written = debug_dir.save(Trace(artifacts=graph({"post_grad": "g"}, nodes=SINGLE)), tmp_path / "out")
    assert [Path(p).name for p in written][-1] == "orig_fx_graph_diagram.dot"
    assert "digraph" in Path(written[-1]).read_text()
    assert capfd.readouterr() == ("", "")


def test_a_graph_too_big_for_dot_is_written_as_source(monkeypatch, tmp_path):
    """A graph that dot would take minutes for is written as its source."""
    monkeypatch.setattr(debug_dir, "TOO_BIG", 2)
    written = debug_dir.save(Trace(artifacts=graph({"post_grad": "g"}, nodes=SINGLE)), tmp_path)
    assert written[-1].endswith("orig_fx_graph_diagram.dot")
