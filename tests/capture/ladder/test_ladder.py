"""Kernels of Inductor's, compiled through every form for absent GPUs."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.capture.ladder import helion
from explorer.capture.ladder import ladder as ladders
from explorer.capture.ladder.ladder import Dialects, Ladder, compile_ladder, compile_ladders
from explorer.capture.ladder.triton_pool import MAX_WORKERS, Pool, Worker
from explorer.lab.live.function import LiveFunction
from explorer.lab.live.ladder_events import LadderCompiles, ladder_events
from explorer.model.values import Event
from explorer.reference.gpus.figures import NAMED, Target
from explorer.sources.files.trace_file import load_events
from explorer.stages import STAGES
from explorer.stages.inductor.definitions import kernel_events
from explorer.stages.unread import read
from explorer.tracing.traced.trace import trace_of_events
from tests.facts import says, untold

#: The stages that a kernel's ladder is made of, and its source.
PER_KERNEL = {stage.name for stage in STAGES if stage.per_kernel}

pytest.importorskip("triton")

DATA = Path(__file__).parents[2] / "data"
H100 = Target.parse("h100")


def recorded(program: str) -> list[Event]:
    """The events of a compile recorded on an H200, without the ladder of its kernels for that GPU."""
    events = load_events((DATA / f"{program}-torch2.11-cuda.events.json.gz").read_bytes())[0]
    return [event for event in events if event.kind == "kernel" or event.kind not in PER_KERNEL]


def kernels(program: str) -> list[tuple[str, str]]:
    """Name and source of each Triton kernel that was compiled on an H200."""
    found = [k.data for e in recorded(program) if e.kind == "output_code" for k in kernel_events(e)]
    return [(k["name"], k["text"]) for k in found]


NAME = "triton_poi_fused_mul_0"


@pytest.fixture(scope="module")
def source() -> str:
    """A pointwise kernel."""
    return next(text for name, text in kernels("toy_example") if name == NAME)


def state() -> tuple[object, ...]:
    """Return everything in this process that a compile for an absent GPU changes."""
    import torch
    import triton
    from torch._inductor.runtime import hints, triton_helpers, triton_heuristics

    touched = (triton.compile, hints.DeviceProperties, triton_helpers.set_driver_to_gpu, triton_heuristics.check_autotune_cache)
    return (*touched, triton.runtime.driver._active, torch.version.hip, os.environ.get("TRITON_CACHE_DIR"))


@pytest.mark.parametrize("target", [t for t in NAMED if t.vendor not in ("intel", "apple")], ids=lambda t: t.name)
def test_every_named_gpu_gets_every_stage(target: Target, source: str) -> None:
    """A pointwise kernel has a text of every stage, a binary and its resources for each NVIDIA and AMD GPU of the table."""
    ladder = compile_ladder(source, NAME, target)
    assert tuple(ladder.texts) == ladders.TEXTS[target.backend] and all(ladder.texts.values())
    assert ladder.binary[:4] == b"\x7fELF"
    assert 0 < ladder.metadata["registers"] <= 64 and ladder.metadata["occupancy"]["blocks"] > 0
    machine = f"sm_{target.arch}" if target.vendor == "nvidia" else target.arch
    assert machine in ladder.texts["ptx" if target.vendor == "nvidia" else "amdgcn"]


def test_without_its_backend_a_gpu_has_no_ladder(source: str) -> None:
    """For an Intel GPU the error names the backends that the installed triton has."""
    with pytest.raises(explorer.errors.CompileError, match=says("triton", version("triton"), "Intel", "AMD", "NVIDIA")):
        compile_ladder(source, NAME, Target.parse("max1550"))


def test_with_a_backend_of_its_own_a_gpu_takes_the_same_way(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that takes "xpu" is handed what torch reports of the GPU; its texts and SPIR-V make the Ladder."""
    from triton.backends import Backend, backends
    from triton.backends.compiler import GPUTarget

    asked = []

    class Intel(backends["nvidia"].compiler):  # type: ignore[misc, name-defined]
        """NVIDIA's front end under the name of Intel's backend."""

        @staticmethod
        def supports_target(target: Any) -> bool:
            return bool(target.backend == "xpu") or bool(asked)

        def __init__(self, target: Any) -> None:
            asked.append(target)
            super().__init__(GPUTarget("cuda", 90, 32))

    b580 = Target.parse("b580")
    monkeypatch.setitem(backends, "intel", Backend(compiler=Intel, driver=backends["nvidia"].driver))
    lowered = ladders.lower(source, NAME, b580)
    assert "tt.load" in lowered.ttir and asked[0].arch["gpu_subslice_count"] == 20 and lowered.job["triple"] == b580.triple
    texts = {"ttir": lowered.ttir, "ttgir": "module {}", "llir": "define"}
    answer = {"metadata": {"num_warps": 4, "shared": 0}, "texts": texts, "printed": "", "binary": b"\x03\x02#\x07", "seconds": {}}
    made = ladders.ladder_from_answer(lowered, answer)
    assert (dict(made.texts), made.binary, made.metadata["num_warps"]) == (texts, b"\x03\x02#\x07", 4)
    with pytest.raises(explorer.errors.InputError, match="SPIR-V"):
        made.sass()


@pytest.mark.compile
def test_the_ptx_is_what_triton_itself_makes(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The front end here and the passes in a worker give the PTX that triton.compile gives, to the letter."""
    import triton
    from triton.backends.compiler import GPUTarget

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    for name, path in ladders.assembler(H100).items():
        monkeypatch.setenv(name, path)
    with ladders.triton_driver_of(H100), ladders.inductor_heuristics_for(H100), ladders.lines_of(f"{NAME}.py", source):
        tuner = ladders.autotuner(ladders.execute_source(source, NAME, f"{NAME}.py"), NAME)
        src, options = ladders.capture_compile_call(lambda: tuner._precompile_config(tuner.configs[0]))
        plain = triton.compile(src, target=GPUTarget(*H100.triple), options=dict(options))
    assert compile_ladder(source, NAME, H100).texts["ptx"] == plain.asm["ptx"]


@pytest.mark.compile
def test_nothing_stays_in_the_process(source: str) -> None:
    """Driver, heuristics, environment and torch.version are the originals afterwards, also after an error."""
    import linecache

    before = state()
    compile_ladder(source, NAME, Target.parse("mi300x"))
    with pytest.raises(explorer.errors.InputError):
        compile_ladder(source.replace("tmp0 *", "tmp9 *"), NAME, H100)
    assert state() == before and f"{NAME}.py" not in linecache.cache


def test_the_candidates_are_those_inductor_would_try() -> None:
    """A kernel with several configs lists them all; the first is taken, any other on request, and others can be made."""
    name, text = kernels("mlp_train")[0]
    first = compile_ladder(text, name, H100)
    assert len(first.candidates) > 1 and first.config == first.candidates[0]
    second = compile_ladder(text, name, H100, config=1)
    assert second.config == first.candidates[1] and second.texts["ttgir"] != first.texts["ttgir"]
    made = compile_ladder(text, name, H100, config={"XBLOCK": 512, "num_warps": 8})
    assert made.config["XBLOCK"] == 512 and made.metadata["num_warps"] == 8
    with pytest.raises(explorer.errors.InputError, match=says("'XBLOK'", "'XBLOCK'")):
        compile_ladder(text, name, H100, config={"XBLOK": 512})
    with pytest.raises(explorer.errors.InputError, match=says("config", "99", "0", str(len(first.candidates) - 1))):
        compile_ladder(text, name, H100, config=99)


def test_identical_kernels_are_compiled_once(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that differ only in their names share one compile, and each text has its own name."""
    asked: list[str] = []
    real = ladders.lower
    monkeypatch.setattr(ladders, "lower", lambda text, name, *rest: (asked.append(name), real(text, name, *rest))[1])
    other = "triton_poi_fused_mul_7"
    one, two = compile_ladders([(NAME, source), (other, source.replace(NAME, other))], H100)
    assert asked == [NAME] and isinstance(one, Ladder) and isinstance(two, Ladder)
    assert two.texts["ptx"] == one.texts["ptx"].replace(NAME, other) and two.file == f"{other}.py"


def test_kernels_begun_early_are_not_begun_again(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that one graph needed is not compiled again; one that was never begun is begun at the end."""
    asked: list[str] = []
    real = ladders.lower
    monkeypatch.setattr(helion, "lower", lambda text, name, *rest: (asked.append(name), real(text, name, *rest))[1])
    wrapper = f"{NAME} = async_compile.triton({NAME!r}, {source!r})\n"
    first = Event("output_code", 0.0, "0/0", "forward", {"text": wrapper, "file": ""})
    second = Event("output_code", 0.1, "0/0", "backward", {"text": wrapper.replace(NAME, "triton_poi_fused_mul_7"), "file": ""})
    with LadderCompiles(H100) as compiles:
        compiles.begin([first])
        compiles.begin([first])
        assert asked == [NAME]
        made = compiles.finish([first, second])
    assert asked == [NAME] and not made.failures
    assert {(e.graph, e.data["name"]) for e in read(made.events).events if e.kind == "ptx"} == {
        ("forward", NAME),
        ("backward", "triton_poi_fused_mul_7"),
    }


def test_kernels_in_one_context_of_mlir_are_lowered_as_each_in_its_own() -> None:
    """Also after one that triton's front end rejects in the middle."""
    dialects = Dialects()
    for name, text in kernels("mlp_train"):
        with pytest.raises(explorer.errors.InputError):
            ladders.lower(text.replace("tl.store(", "tl.sqrt(1, 2, 3, ", 1), name, H100, None, dialects)
        own, shared = ladders.lower(text, name, H100), ladders.lower(text, name, H100, None, dialects)
        assert shared.ttir == own.ttir and "tt.store" in shared.ttir


def test_a_pool_grows_no_further_than_it_may(source: str) -> None:
    """Workers start when the pool is made or grown, and no more of them than are of use."""
    with Pool(1) as pool:
        pool.grow(99)
        pool.grow(1)
        assert len(pool._workers) == MAX_WORKERS
        jobs = [pool.submit(ladders.lower(source, NAME, H100).job) for _ in range(6)]
        assert len({job.result()["texts"]["ptx"] for job in jobs}) == 1


def test_one_broken_kernel_does_not_keep_the_others_from_compiling(source: str) -> None:
    """In a set of kernels each has its own ladder or its own error."""
    bad = source.replace("tmp0 *", "tmp9 *").replace(NAME, "broken")
    good, broken = compile_ladders([(NAME, source), ("broken", bad)], H100)
    assert isinstance(good, Ladder) and isinstance(broken, explorer.errors.InputError)


@pytest.mark.parametrize(
    ("change", "at", "facts"),
    [
        (("tmp2 = tmp0 * tmp1", "tmp2 = tmp0 *"), "tmp2 =", ("Python", "invalid syntax", "tmp2 = tmp0 *")),
        (("tmp0 * tmp1", "tmp0 * tmp9"), "tmp2 =", ("tmp9", "tmp2 = tmp0 * tmp9")),
        (("@triton.jit", "@trition.jit"), "@trition", ("NameError: name 'trition'",)),
        (("tmp0 * tmp1", "tl.arange(0, 3)"), "tmp2 =", ("arange's range must be a power of 2", "tmp2 = tl.arange(0, 3)")),
        (("@triton.jit", ""), "@triton_heuristics", ("AttributeError", "function")),
        (("'out_ptr0': '*fp32', ", ""), "def triton_poi", ("'NoneType' object",)),
    ],
    ids=["syntax", "undefined", "module", "power", "undecorated", "signature"],
)
def test_a_wrong_source_is_answered_with_its_line(source: str, change: tuple[str, str], at: str, facts: tuple[str, ...]) -> None:
    """A syntax error, an undefined name and what triton refuses name the kernel, the line and the text there."""
    wrong = source.replace(*change)
    line = next(n for n, text in enumerate(wrong.splitlines(), 1) if at in text)
    with pytest.raises(explorer.errors.InputError, match=says(NAME, f"line {line}", *facts)):
        compile_ladder(wrong, NAME, H100)


@pytest.mark.parametrize(
    ("assembly", "constraints", "stages", "facts"),
    [
        ("mov.b64 $0, $1;", "=l,q", ("ptx", "llir"), ("SIGABRT",)),
        ("nonsense $0, $1;", "=r,r", ("cubin",), ("Not a name of any known instruction: 'nonsense'",)),
    ],
    ids=["abort", "ptxas"],
)
def test_a_kernel_that_crashes_the_compiler_crashes_nothing_else(
    source: str,
    assembly: str,
    constraints: str,
    stages: tuple[str, ...],
    facts: tuple[str, ...],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Where LLVM aborts its process or ptxas refuses, the error says which and why, and the next kernel compiles."""
    fatal = f'tl.inline_asm_elementwise("{assembly}", "{constraints}", [tmp0], tl.float32, True, 1)'
    with pytest.raises(explorer.errors.CompileError, match=says(*facts)) as raised:
        compile_ladder(source.replace("tmp0 * tmp1", fatal), NAME, H100)
    assert any(not untold(str(raised.value).splitlines()[0], stage) for stage in stages)
    assert compile_ladder(source, NAME, H100).binary
    assert capfd.readouterr() == ("", "")


def test_a_worker_that_dies_is_replaced(source: str) -> None:
    """A worker killed in mid-stage is one CompileError that names the signal; the same Worker goes on."""
    job = ladders.lower(source, NAME, H100).job
    with Worker() as worker:
        assert worker.ask(job)["binary"]
        assert worker._process is not None
        worker._process.kill()
        with pytest.raises(explorer.errors.CompileError, match="SIGKILL"):
            worker.ask(job)
        assert worker.ask(job)["binary"]


def test_a_stage_that_fails_says_what_the_compiler_printed(source: str) -> None:
    """TTIR that MLIR cannot parse gives the stage and MLIR's own message."""
    job: dict[str, Any] = {**ladders.lower(source, NAME, H100).job, "ttir": "module { tt.nonsense }"}
    with Worker() as worker, pytest.raises(explorer.errors.CompileError, match=says("ttir", "tt.nonsense")):
        worker.ask(job)


def test_the_sass_has_the_kernels_lines(source: str) -> None:
    """nvdisasm's text names the kernel's file and has an exit instruction; AMD's machine code is asked for elsewhere."""
    sass = compile_ladder(source, NAME, H100).sass()
    assert f'//## File "{NAME}.py", line' in sass and "EXIT" in sass
    with pytest.raises(explorer.errors.InputError, match="amdgcn"):
        compile_ladder(source, NAME, Target.parse("mi300x")).sass()


def test_texts_name_no_place_of_this_machine() -> None:
    """Locations inside triton and torch are written as on every machine."""
    name, text = kernels("mlp_train")[1]
    ladder = compile_ladder(text, name, H100)
    assert '"triton/language/standard.py"' in ladder.texts["ttir"]
    assert not any("site-packages" in t for t in ladder.texts.values())


@pytest.mark.parametrize(("gpu", "machine"), [("h200", "ptx"), ("mi300x", "amdgcn")])
def test_every_stage_of_a_recorded_training_links_to_its_kernel(gpu: str, machine: str) -> None:
    """Each stage of each kernel leads to lines of the kernel's source, and from the store to a global store."""
    events = recorded("mlp_train")
    made = ladder_events(events, Target.parse(gpu), sass=gpu == "h200")
    trace = trace_of_events([*events, *made.events], made.failures)
    assert not trace.failures
    for stage in ("ttir", "ttgir", "llir", machine, *(["sass"] if gpu == "h200" else [])):
        assert len(trace.find(stage)) == 3
        for artifact in trace.find(stage):
            own = [link for link in trace.links if link.source == artifact.id and ":ptx:" not in link.target]
            assert len({link.target_lines for link in own}) >= 4 and {link.target for link in own} == {
                f"{artifact.frame}:kernel:{artifact.graph}:{artifact.kernel}"
            }
    kernel = trace.find("kernel")[0]
    store = next(n for n, line in enumerate(kernel.lines, 1) if "tl.store" in line)
    reached = {row["artifact"]: row["lines"] for row in trace.follow(kernel.id, store)}
    code = trace.find("sass" if gpu == "h200" else machine)[0]
    assert any("STG" in code.lines[n - 1] or "store" in code.lines[n - 1] for n in reached[code.id])


def test_a_kernel_tells_its_resources_candidates_and_launches() -> None:
    """From the trace's value alone: resources, every candidate with the one taken, the launch; more needs the process."""
    events = recorded("mlp_train")
    made = ladder_events(events, H100)
    kernel = trace_of_events([*events, *made.events], live=LiveFunction(None, ladders=made.ladders)).kernels[0]
    assert kernel.resources["registers"] > 0 and kernel.resources["occupancy"]["fraction"] > 0
    assert [row["taken"] for row in kernel.candidates.table] == [True, False]
    assert kernel.launches[0]["grid"][1:] == (1, 1)
    assert kernel.candidates[1].config["XBLOCK"] == kernel.candidates.table[1]["XBLOCK"]
    assert "EXIT" in kernel.text("sass") and kernel.passes()[0]["stage"] == "ttir"
    saved = trace_of_events([*events, *made.events]).kernels[0]
    assert saved.resources == kernel.resources
    for action in (saved.passes, lambda: saved.candidates[1].resources, lambda: saved.text("sass")):
        with pytest.raises(explorer.errors.LiveError, match=says("process", "explorer.trace")):
            action()


def test_inductors_kernels_are_assembled_by_the_ptxas_that_torch_points_triton_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch brings CUDA's ptxas a worker gets its path, as on a GPU; this process's environment stays as it was."""
    from torch._inductor.runtime import compile_tasks

    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    monkeypatch.setattr(compile_tasks, "_set_triton_ptxas_path", lambda: os.environ.update(TRITON_PTXAS_PATH="/torch/bin/ptxas"))
    assert ladders.assembler(H100) == {"TRITON_PTXAS_PATH": "/torch/bin/ptxas"} and "TRITON_PTXAS_PATH" not in os.environ
    monkeypatch.setattr(compile_tasks, "_set_triton_ptxas_path", lambda: None)
    assert ladders.assembler(H100) == {}
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/own/ptxas")
    assert ladders.assembler(H100) == {"TRITON_PTXAS_PATH": "/own/ptxas"} and os.environ["TRITON_PTXAS_PATH"] == "/own/ptxas"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert ladders.assembler(Target.parse("v100")) == {} and ladders.assembler(Target.parse("t4")) != {}


@pytest.mark.compile
def test_a_reduction_that_takes_many_registers_has_smaller_blocks_among_its_candidates() -> None:
    """Inductor adds them once it knows the registers, halving while they are too many; with few registers it adds none."""
    import torch

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = [torch.sin(x * n) * torch.cos(y + n) / (1 + torch.exp(x - n)) for n in range(1, 3)]
        return torch.stack([p.sum(-1) + (p * p).sum(-1) + p.amax(-1) for p in parts]).sum(0)

    x = torch.zeros(1024, 4096)
    kernel = explorer.trace(program, x, x, target="h200").kernels[0]
    blocks = [row["R0_BLOCK"] for row in kernel.candidates.table]
    assert kernel.resources["registers"] > 32 and len(blocks) > 1 and blocks[1] == blocks[0] // 2
    assert [row["taken"] for row in kernel.candidates.table] == [True, *[False] * (len(blocks) - 1)]
    lowered = ladders.lower(kernel.source, kernel.name, Target.parse("h200"))
    assert lowered.scaled(32) == () and len(lowered.scaled(200)) == 1


#: As Inductor writes a user's own kernel: its name in the wrapper is not that of the function.
OWN = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

@triton_heuristics.user_autotune(
    configs=[{'BLOCK': 256, 'num_warps': 4, 'num_stages': 3}, {'BLOCK': 512, 'num_warps': 8, 'num_stages': 3}],
    inductor_meta={'grid_type': 'FixedGrid', 'fixed_grid': ['_grid_0', '_grid_1', '_grid_2'],
        'extra_launcher_args': ['_grid_0', '_grid_1', '_grid_2'], 'kernel_name': 'scale_0', 'mutated_arg_names': ['out']},
    triton_meta={'signature': {'x': '*fp32', 'out': '*fp32', 'n': 'i32', 'BLOCK': 'constexpr'},
        'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9,
            regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=32),
        'constants': {}, 'configs': [{(0,): [['tt.divisibility', 16]], (1,): [['tt.divisibility', 16]]}]},
    filename=__file__,
    custom_kernel=True,
)
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)
""".strip()


def test_a_kernel_whose_grid_inductor_does_not_state_has_none(source: str) -> None:
    """A grid that needs more than the config, as that of combo kernels, is left out; the ladder is whole."""
    ladder = compile_ladder(source.replace("'grid_type': 'Grid1D'", "'grid_type': 'SequentialComboKernelGrid'"), NAME, H100)
    assert ladder.grid == () and ladder.binary


def test_a_users_own_kernel_in_a_compiled_function_is_taken_down_too() -> None:
    """Under user_autotune its configs are the candidates, and the wrapper's grid arguments are the grid."""
    wrapper = (
        f"scale_0 = async_compile.triton('scale', '''\n{OWN}\n''')\nscale_0.run(arg0_1, buf0, 1000, 4, 1, 1, stream=stream0)"
    )
    made = ladder_events([Event("output_code", 0.0, "0/0", "inference", {"text": wrapper, "file": ""})], H100)
    assert not made.failures
    (ptx,) = [e for e in read(made.events).events if e.kind == "ptx"]
    assert ".entry scale(" in ptx.data["text"] and [c["BLOCK"] for c in ptx.data["candidates"]] == [256, 512]
    assert ptx.data["launches"][0]["grid"] == (4, 1, 1)


def test_the_occupancy_on_amd_is_the_one_llvm_writes() -> None:
    """Where LLVM notes the occupancy in the assembly, ours by registers alone is the same."""
    import re

    from explorer.reference.gpus.occupancy import occupancy

    target = Target.parse("mi300x")
    for ladder in compile_ladders(kernels("mlp_train"), target):
        assert isinstance(ladder, Ladder)
        noted = re.search(r"; Occupancy: (\d+)", ladder.texts["amdgcn"])
        assert noted is None or occupancy(target, 4, ladder.metadata["registers"], 0).limits["registers"] == int(noted[1])


def test_a_source_for_another_gpu_is_compiled_for_the_one_asked_for(source: str) -> None:
    """A kernel that Inductor wrote for an H200 can be taken down for an RTX 4090: its figures decide."""
    assert "cc=90" in source and ".target sm_89" in compile_ladder(source, NAME, Target.parse("rtx4090")).texts["ptx"]


def test_the_launch_of_each_kernel_is_read_from_the_wrapper() -> None:
    """The grid follows from the sizes that the wrapper passes and the config's blocks; a dynamic size stays a formula."""
    made = ladder_events(recorded("recompile"), H100)
    launches = [e.data["launches"][0] for e in read(made.events).events if e.kind == "ptx"]
    assert launches[0]["grid"] == (1, 1, 1) and launches[0]["arguments"]["xnumel"].isdigit()
    dynamic = launches[-1]
    assert not dynamic["arguments"]["xnumel"].isdigit() and "xnumel" in dynamic["grid"][0]


@pytest.mark.compile
def test_many_compiles_leave_no_process_and_no_memory_behind(source: str) -> None:
    """After compiles for both vendors, again and again, no worker runs on and this process does not grow."""
    import gc
    import resource

    before, targets = state(), [Target.parse(name) for name in ("h100", "mi300x")]
    sizes = []
    for _ in range(4):
        for target in targets:
            compile_ladders([(NAME, source)], target)
        gc.collect()
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert state() == before and sizes[-1] - sizes[1] < 20_000  # KB
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if children.exists():
        names = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children.read_text().split()]
        assert not [name for name in names if b"triton_worker" in name]
