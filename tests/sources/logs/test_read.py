"""Logs become traces: tlparse's and tritonparse's own, and one of a compile that is compared with the live trace of it."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import explorer
from explorer.errors import FileError, InputError
from explorer.model.records import changed, typed
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact
from explorer.sources.logs.torch_trace import CHANGED, NO_RECORD
from explorer.stages.dynamo.guards import Guards, readable
from tests.facts import says, untold

DATA = Path(__file__).parents[2] / "data" / "logs"
#: Of each log of tlparse's: frames, kernels, the stages that it has, and a record that no stage is made for, or what is damaged.
LOGS = {
    "simple": (1, 2, {"dynamo", "forward", "post_grad", "output_code", "cache"}, "aotautograd_cache_hash"),
    "simple_corrupted_json": (1, 2, {"dynamo", "forward", "post_grad", "output_code"}, "line 13"),
    "comp_failure": (1, 0, {"dynamo", "compilation_metrics"}, "BackendCompilerFailed"),
    "artifacts": (1, 0, {"dynamo", "compilation_metrics"}, "fx_graph_cache_hash"),
    "comp_metrics": (3, 0, {"dynamo", "compilation_metrics"}, ""),
    "links": (1, 1, {"dynamo", "forward"}, ""),
    "export": (1, 0, {"forward", "symbol"}, "propagate_real_tensors_provenance"),
    "export_guard_added": (1, 0, {"symbol"}, "expression_created"),
    "inductor_provenance_aot_cuda_log": (1, 3, {"post_grad", "output_code", "kernel"}, "inductor_aot_kernel_code"),
    "inductor_provenance_jit_debug_handle_log": (1, 3, {"joint", "forward", "backward", "post_grad", "kernel"}, ""),
    "collectives": (2, 4, {"dynamo", "forward", "post_grad", "kernel"}, "inductor_post_to_pre_grad_nodes"),
}


def log(name: str) -> explorer.Trace:
    """The trace of one of the logs."""
    return explorer.load(DATA / f"{name}.log.gz")


@pytest.mark.parametrize("name", LOGS)
def test_a_log_of_tlparse_is_read_and_what_it_lacks_is_named(name: str, tmp_path: Path) -> None:
    """Every log gives a trace that shows, saves and loads; damage, failed compiles and records that are not shown are named."""
    frames, kernels, stages, named = LOGS[name]
    trace = log(name)
    found = {artifact.stage for artifact in trace.artifacts}
    compiles = {a.frame for a in trace.artifacts if a.frame and not a.frame.endswith("/-")}
    assert (len(compiles), len(trace.kernels), stages - found) == (frames, kernels, set())
    assert named in "\n".join([*map(str, trace.failures), *(a.title for a in trace.find("log_record"))])
    assert "not shown" not in [failure.step for failure in trace.failures]
    assert explorer.tracing.traced.loads(explorer.sources.files.trace_file.dumps(trace)) == trace
    assert "<Trace of" in repr(trace)
    trace.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 100_000


def test_records_without_a_stage_are_shown_as_torch_wrote_them() -> None:
    """A payload as it stands in the log, a graph in Python; records of one line each together, with the names of their files."""
    with gzip.open(DATA / "export.log.gz", "rt") as file:
        lines = file.read().split("\n")
    created = [json.loads(line[line.index("] ") + 2 :])["expression_created"] for line in lines if '"expression_created"' in line]
    (shown,) = (a for a in log("export").find("log_record") if a.title == "expression_created")
    values = [json.loads(line) for line in shown.lines]
    assert [value["result"] for value in values] == [value["result"] for value in created] and len(created) == 8
    files = [place["filename"] for value in values for place in value["user_stack"]]
    assert files and all(isinstance(name, str) and name.endswith(".py") for name in files)

    with gzip.open(DATA / "simple.log.gz", "rt") as file:
        written = file.read()
    (metadata,) = (a for a in log("simple").find("log_record") if a.title == "aot_forward_graph_fw_metadata")
    assert metadata.frame == "0/0" and len(metadata.lines) > 5
    assert "\n".join(f"\t{line}" for line in metadata.lines) in written
    (kernels,) = (a for a in log("inductor_provenance_aot_cuda_log").find("log_record") if a.title == "inductor_aot_kernel_code")
    assert kernels.text


def test_library_calls_and_kernels_of_a_log_lead_to_the_lines_that_they_compute() -> None:
    """Each of two calls of mm leads to its own layer, and a fused kernel to all its nodes, as Inductor's provenance has them."""
    trace = log("inductor_provenance_jit_debug_handle_log")
    code = trace.find("output_code", graph="forward")[0]
    lines = {line.strip()[:60]: number for number, line in enumerate(code.lines, 1)}
    quoted = {}
    for start in ("extern_kernels.mm(primals_3", "extern_kernels.mm(buf2"):
        number = next(n for text, n in lines.items() if text.startswith(start))
        source = [r for r in trace.follow(code.id, number) if r["stage"] == "source"]
        artifacts = {a.id: a for a in trace.artifacts}
        quoted[start] = {artifacts[r["artifact"]].lines[n - 1].strip() for r in source for n in r["lines"]}
    assert "x = self.fc1(x)" in quoted["extern_kernels.mm(primals_3"]
    assert not quoted["extern_kernels.mm(primals_3"] & quoted["extern_kernels.mm(buf2"]
    kernel = next(a for a in trace.find("kernel") if a.kernel == "triton_poi_fused_addmm_gelu_2")
    (definition,) = kernel.data["definitions"]
    assert set(definition["nodes"]) == {"mul_1", "mul_2", "erf", "add", "mul_3", "add_tensor"}


def test_a_kernel_log_of_tritonparse_has_each_form_linked_to_its_source() -> None:
    """A line of the user's kernel leads to its lines of TTIR, TTGIR, LLIR and PTX."""
    trace = explorer.load(DATA / "tritonparse.ndjson.gz")
    assert [kernel.name for kernel in trace.kernels] == ["add_kernel", "triton_poi_fused_add_0"]
    (source,) = trace.find("source")
    number = next(n for n, line in enumerate(source.lines, 1) if line.strip() == "c = a + b")
    rows = trace.follow(source.id, number)
    assert {"ttir", "ttgir", "llir", "ptx"} <= {row["stage"] for row in rows}
    assert any("add" in artifact_of(trace, row["artifact"]).lines[n - 1] for row in rows.where(stage="ptx") for n in row["lines"])


#: A training step of a feed-forward block with its embedding and head: library calls, kernels that are fused, a graph break.
PROGRAM = """
import sys, torch, explorer
from torch import nn
from torch.nn import functional

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(128, 64), nn.LayerNorm(64)
        self.up, self.down, self.head = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 128)

    def forward(self, ids):
        x = self.embedding(ids)
        torch._dynamo.graph_break()
        logits = self.head(x + self.down(torch.relu(self.up(self.norm(x)))))
        return functional.cross_entropy(logits.view(32, 128), ids.view(32))

torch.manual_seed(0)
explorer.trace(Block(), torch.randint(0, 128, (2, 16)), target="h100", train=True).save(sys.argv[1])
"""
#: What a TORCH_TRACE log lacks of what explorer sees while a model compiles, by stage.
LACKING = {
    *("setting", "bytecode", "dynamo_bytecode", "decompiled", "aot_metadata", "pattern_match", "fx_pass", "lowering"),
    *("ir_pre_fusion", "fusion", "ir_post_fusion", "perf_hint", "written_file", "ttir", "ttgir", "llir", "ptx"),
}
#: The graphs of AOTAutograd, which the log writes with a line for each input and output.
LAID_OUT_OTHERWISE = ("joint", "forward", "backward")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[explorer.Trace, explorer.Trace, Path]:
    """The trace of a training step, that of the log which the same compile wrote, and the log."""
    pytest.importorskip("triton", reason="without triton nothing is compiled for a GPU that is not here")
    folder = tmp_path_factory.mktemp("log")
    environment = {**os.environ, "TORCH_TRACE": str(folder / "logs")}
    saved = folder / "live.json.gz"
    program = folder / "program.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, str(program), str(saved)], env=environment, check=True, capture_output=True)
    (path,) = (folder / "logs").iterdir()
    return explorer.load(saved), explorer.load(folder / "logs"), path


@pytest.mark.compile
def test_a_log_and_the_live_trace_of_one_compile_agree_but_for_what_the_log_lacks(
    both: tuple[explorer.Trace, explorer.Trace, Path],
) -> None:
    """The log has all other stages, and records that are shown as they are; texts are equal, or the nodes of other layouts."""
    live, read, _ = both
    assert {a.stage for a in live.artifacts} - {a.stage for a in read.artifacts} <= LACKING
    assert {a.stage for a in read.artifacts} - {a.stage for a in live.artifacts} == {"log_record"}
    compared = set()
    for artifact in read.artifacts:
        if artifact.stage in ("source", "phase", "compile_call", "compilation_metrics", "graph_break", "log_record"):
            continue  # times and places: compared below, or not equal from run to run; and what only a log has
        (other,) = (a for a in live.artifacts if a.id == artifact.id)
        compared.add(artifact.stage)
        if artifact.stage in LAID_OUT_OTHERWISE:
            stated = ("name", "op", "target", "args", "kwargs", "inputs", "shape", "stride", "dtype", "device")
            assert [[n.get(k) for k in stated] for n in artifact.nodes] == [[n.get(k) for k in stated] for n in other.nodes]
        else:
            assert _without_makers(artifact.text) == _without_makers(_as_logged(other)), artifact.id
    assert compared >= {
        "dynamo",
        "guards",
        "pre_grad",
        "post_grad",
        "fx_graph_runnable",
        "output_code",
        "kernel",
        *LAID_OUT_OTHERWISE,
    }
    breaks = [[a.data["reason"] for a in trace.find("graph_break")] for trace in (live, read)]
    assert breaks[0] and breaks[0] == breaks[1]


@pytest.mark.compile
def test_no_link_of_a_log_is_one_that_the_live_trace_does_not_have(both: tuple[explorer.Trace, explorer.Trace, Path]) -> None:
    """Line by line; a whole kernel's nodes are those of the scheduler nodes that it was defined for.

    Inductor's comment, which is all that a log has of a kernel, may name nodes of its arguments besides.
    """
    live, read, _ = both
    calls = 0
    for artifact in read.find("output_code"):
        stated = _targets(read, artifact.id, "post_grad", ("extern kernel",))
        calls += len(stated)
        assert stated <= _targets(live, artifact.id, "post_grad", ("extern kernel",))
    assert calls >= 5
    for kernel in read.find("kernel"):
        (other,) = (a for a in live.artifacts if a.id == kernel.id)
        after = live.find("ir_post_fusion", kernel.frame, kernel.graph)[-1]
        groups = [set(one["operations"]) for one in other.data["definitions"]]
        origins = [{o for n in after.nodes if group & {n["name"], *n["fused"]} for o in n["origins"]} for group in groups]
        (stated,) = kernel.data["definitions"]  # of a kernel that several groups of nodes share, the comment names the first
        assert any(computed <= set(stated["nodes"]) for computed in origins)


def _as_logged(artifact: Artifact) -> str:
    """A text without the program's line of a guard that a library's line led to, which a log does not say."""
    if artifact.stage != "guards":
        return artifact.text
    return "\n".join(readable(changed(row, user=None)) for row in typed(Guards, artifact.data).rows)


def _without_makers(text: str) -> str:
    """A text without the comments that say where in torch a guard was made, which a log does not say."""
    return re.sub(r"  # torch(?:: | does not say).*", "", text)


def _targets(trace: explorer.Trace, artifact: str, stage: str, how: tuple[str, ...]) -> set[tuple[int, int]]:
    """(line, line of the other text) of each link from an artifact to a stage that is known in one of these ways."""
    of_stage = {a.id for a in trace.find(stage)}
    links = (link for link in trace.links if link.source == artifact and link.target in of_stage and link.how in how)
    return {(one, other) for link in links for one in link.source_lines for other in link.target_lines}


@pytest.mark.compile
def test_every_kernel_of_a_log_is_compiled_for_a_gpu_that_is_not_here(both: tuple[explorer.Trace, explorer.Trace, Path]) -> None:
    """The forms are those of the live trace for the same GPU, down to SASS, and none of explorer's own is lost."""
    live, _, path = both
    again = explorer.load(path, target="h100")
    assert [f for f in again.failures if f.stage not in ("log", "sass")] == []
    assert {a.kernel for a in again.find("ptx")} == {a.kernel for a in again.find("kernel")}
    for stage in ("ttir", "ttgir", "llir"):
        texts = [{a.id: _without_places(a.text) for a in trace.find(stage)} for trace in (live, again)]
        assert texts[0] == texts[1]
    assert again.meta["target"] == "h100"


def _without_places(text: str) -> str:
    """A text without the names of the files in it."""
    return re.sub(r'"[^"]*\.py"', "", text)


@pytest.mark.compile
def test_a_damaged_log_gives_what_can_be_read(both: tuple[explorer.Trace, explorer.Trace, Path], tmp_path: Path) -> None:
    """Half a log, cut off inside a payload and gzipped, with foreign lines between: the texts before the cut are whole."""
    _, read, path = both
    lines = path.read_text().split("\n")
    cut = next(n for n, line in enumerate(lines) if '"inductor_output_code"' in line) + 40
    torn = tmp_path / "torn.log.gz"
    torn.write_bytes(gzip.compress("\n".join(["started", *lines[:cut]]).encode()))
    trace = explorer.load(torn)
    damaged = [failure.message for failure in trace.failures if failure.step == "damaged"]
    assert [untold(*told) for told in zip(damaged, (NO_RECORD, CHANGED), ("line 1", f"line {cut - 38}"), strict=True)] == [[], []]
    assert trace.find("joint")[0].text == read.find("joint")[0].text


def mangled(text: str, generator: random.Random) -> str:
    """A log with a few of its letters replaced, lines dropped, or values of other types."""
    kind = generator.randrange(3)
    if kind == 0:
        letters = list(text)
        for _ in range(20):
            letters[generator.randrange(len(letters))] = generator.choice('{}[]",:0aN\t\n')
        return "".join(letters)
    lines = text.split("\n")
    if kind == 1:
        return "\n".join(line for line in lines if generator.random() > 0.02)
    word = generator.choice(["stack", "line", "filename", "rank", "str", "payload", "name", "frame_id", "metadata", "pt_info"])
    value = generator.choice(["null", "5", '"x"', "[]", "{}", "[[1]]", "1e400"])
    return re.sub(rf'"{word}": ?("[^"]*"|-?\d+|\[\]|\{{\}})', f'"{word}": {value}', text)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.gz")), ids=lambda path: path.name.partition(".")[0])
def test_a_mangled_log_is_read_or_refused(path: Path, tmp_path: Path) -> None:
    """Whatever is in a log, it gives a trace or a FileError."""
    text = gzip.decompress(path.read_bytes()).decode()[:60_000]
    for seed in range(12):
        torn = tmp_path / f"{seed}.log"
        torn.write_text(mangled(text, random.Random(seed)))
        try:
            trace = explorer.load(torn)
        except FileError:
            continue
        assert repr(trace)


def test_of_several_ranks_in_one_log_the_first_is_shown(tmp_path: Path) -> None:
    """Two programs are never shown as one; the ranks that are left out are named."""
    text = gzip.decompress((DATA / "collectives.log.gz").read_bytes()).decode()
    both = tmp_path / "both.log"
    both.write_text(text + text.replace('"rank": 0', '"rank": 1'))
    trace = explorer.load(both)
    assert trace.artifacts == log("collectives").artifacts
    (left_out,) = (failure.message for failure in trace.failures if failure.step == "not shown")
    assert not untold(left_out, "ranks", "rank 0", "1")


@pytest.mark.parametrize("rest", [b"\t" + b"a" * 30_000_000, b"x\n" * 400_000], ids=["a long line", "many short lines"])
def test_what_a_log_holds_counts_before_it_is_read(rest: bytes, tmp_path: Path) -> None:
    """A few bytes of gzip can hold one line without end, or many lines that are each noted as damage."""
    bomb = tmp_path / "bomb.log.gz"
    head = b'V1123 10:50:00.250000 9739 torch/x.py:12] {"one": {}}\n'
    bomb.write_bytes(gzip.compress(head + rest))
    tracemalloc.start()
    with pytest.raises(FileError, match=says("bomb.log.gz", "memory", "0.01 GB", "explorer.load(path, limit=8e9)")):
        explorer.load(bomb, limit=10_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15_000_000


def test_a_folder_without_a_log_or_with_several_says_what_to_give(tmp_path: Path) -> None:
    """The message names what is missing, or the logs that there are."""
    with pytest.raises(FileError, match=says(tmp_path.name, "TORCH_TRACE", "TORCH_COMPILE_DEBUG=1")):
        explorer.load(tmp_path)
    for rank in range(2):
        (tmp_path / f"job_{rank}.log").write_bytes(gzip.decompress((DATA / "links.log.gz").read_bytes()))
    with pytest.raises(FileError, match=says("2 logs", "job_0.log", "job_1.log", "explorer.compare")):
        explorer.load(tmp_path)
    (tmp_path / "job_1.log").unlink()
    assert explorer.load(tmp_path).find("dynamo")


def test_a_log_is_bounded_and_a_target_is_for_logs_alone(tmp_path: Path) -> None:
    """A log that would take more memory than allowed is refused, and a trace file has no kernels to compile again."""
    with pytest.raises(FileError, match=says("simple.log.gz", "memory", "0.001 GB", "explorer.load(path, limit=8e9)")):
        explorer.load(DATA / "simple.log.gz", limit=1e6)
    saved = tmp_path / "trace.json.gz"
    log("links").save(saved)
    with pytest.raises(InputError, match=says("trace.json.gz", "log", "target=")):
        explorer.load(saved, target="h100")
    with pytest.raises(InputError, match="h900"):
        explorer.load(DATA / "links.log.gz", target="h900")


def test_a_log_is_for_the_device_of_its_graphs() -> None:
    """A log of a GPU's graphs is for "cuda", one of the CPU's for "cpu"."""
    assert log("inductor_provenance_jit_debug_handle_log").meta["target"] == "cuda"
    assert log("comp_metrics").meta["target"] == "cpu"
