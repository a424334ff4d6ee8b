"""Scripts of one kernel, run by themselves in a process without explorer."""

from __future__ import annotations

import ast
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import explorer
from explorer.capture.absent.generated import Kernel, Wrappers
from explorer.capture.interpret.interpreter import interpreting
from explorer.capture.observe.tensors import same_bits
from explorer.errors import InputError, LiveError
from explorer.lab.live.protocol import needs_live
from explorer.lab.scripts.kernel_script import Reproducer
from explorer.reference.gpus.figures import Target
from tests.facts import in_a_line, says, untold

pytestmark = pytest.mark.compile

HERE = Path(__file__).parent
#: Runs scripts one after the other in one process, each as a program of its own; prints each one's exit status and output.
RUNNER = """
import contextlib, io, json, runpy, sys
for path in sys.argv[1:]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, said.getvalue()]))
assert "explorer" not in sys.modules
"""


def alone(*paths: Path) -> list[tuple[int, str]]:
    """The exit status of each script and what it printed, in a process that knows neither PYTHONPATH nor this folder."""
    done = subprocess.run([sys.executable, "-I", "-c", RUNNER, *map(str, paths)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [(status, said) for status, said in map(json.loads, done.stdout.splitlines())]


def quick(path: Path) -> None:
    """Let a script time its calls for a moment, not for half a second each."""
    text = path.read_text(encoding="utf-8")
    assert text.count("most: float = 0.5") == 2
    path.write_text(text.replace("most: float = 0.5", "most: float = 0.01"), encoding="utf-8")


@pytest.fixture(scope="module")
def programs(module_at: Callable[[Path], ModuleType]) -> Mapping[str, Any]:
    made: Mapping[str, Any] = module_at(HERE.parents[1] / "kernel_programs.py").PROGRAMS
    return made


#: Those that have a script for a GPU you don't have.
NAMES = ("pointwise", "reduction", "split_reduction", "softmax", "layer_norm", "embedding", "cat", "casts", "in_place", "dynamic")
#: Those with a C++ kernel of another kind each, and those whose random inputs are made in another way each.
REAL = ("pointwise", "reduction", "split_reduction", "embedding", "cat", "casts", "in_place", "dynamic", "scalar", "strided")
RANDOM = ("pointwise", "casts", "embedding", "in_place", "dynamic", "strided")


@pytest.fixture(scope="module")
def traces(programs: Mapping[str, Any]) -> Callable[[str, str], explorer.Trace]:
    """Each program's trace, made once for a target."""
    made: dict[tuple[str, str], explorer.Trace] = {}

    def trace(name: str, target: str) -> explorer.Trace:
        if (name, target) not in made:
            program = programs[name]
            made[name, target] = explorer.trace(program.function, *program.args(), target=target, **program.options)
        return made[name, target]

    return trace


@pytest.fixture(scope="module")
def on_the_cpu(programs: Mapping[str, Any], traces: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What the scripts of the programs' kernels on the CPU say: with real inputs, random ones, and with a wrong kernel.

    "moved" is one without the file of its inputs, "gpu" one for a GPU you don't have.
    """
    folder = tmp_path_factory.mktemp("scripts")
    paths: list[Path] = []
    for inputs, names in (("real", REAL), ("random", RANDOM)):
        for name in names:
            paths.append(folder / f"{name}_{inputs}.py")
            traces(name, "cpu").kernels[0].to_script(paths[-1], inputs=inputs)
            quick(paths[-1])
    wrong = folder / "wrong_real.py"
    wrong.write_text(paths[0].read_text(encoding="utf-8").replace("static_cast<float>(2.0)", "static_cast<float>(2.001)"))
    wrong.with_suffix(".inputs.pt").write_bytes(paths[0].with_suffix(".inputs.pt").read_bytes())
    moved, gpu = folder / "elsewhere" / "moved.py", folder / "gpu.py"
    moved.parent.mkdir()
    moved.write_bytes(paths[0].read_bytes())
    traces("pointwise", "h100").kernels[0].to_script(gpu)
    paths += [wrong, moved, gpu]
    return {path.stem: said for path, said in zip(paths, alone(*paths), strict=True)}


@pytest.mark.parametrize("name", REAL)
def test_a_cpu_kernels_script_runs_alone_and_finds_it_right(name: str, on_the_cpu: Mapping[str, tuple[int, str]]) -> None:
    """With the recorded inputs what the kernel writes is what was recorded; its time is stated."""
    status, said = on_the_cpu[f"{name}_real"]
    assert status == 0, said
    assert in_a_line(said, "recorded", "right") and "WRONG" not in said
    assert not untold(said, "time", "cache")


@pytest.mark.parametrize("name", RANDOM)
def test_a_script_with_random_inputs_runs_alone(name: str, on_the_cpu: Mapping[str, tuple[int, str]]) -> None:
    """It needs no file beside it, and indices are in their range."""
    status, said = on_the_cpu[f"{name}_random"]
    assert status == 0 and "time: " in said, said


def test_a_wrong_kernel_makes_its_script_fail(on_the_cpu: Mapping[str, tuple[int, str]]) -> None:
    """A constant that is 0.05 % off in the script's own text is found, and the exit status says so."""
    status, said = on_the_cpu["wrong_real"]
    assert status == 1 and "WRONG at" in said


@pytest.mark.parametrize("name", NAMES)
def test_a_script_for_a_gpu_you_do_not_have_has_the_kernel_and_its_launch(name: str, traces: Any, tmp_path: Path) -> None:
    """Its definition is the wrapper's byte by byte, and interpreted on its inputs gives what is recorded beside them."""
    trace = traces(name, "h100")
    for number, kernel in enumerate(trace.kernels):
        path = tmp_path / f"{number}.py"
        kernel.to_script(path, inputs="real")
        text = path.read_text(encoding="utf-8")
        compile(text, path.name, "exec")
        defined = next(n for n in ast.parse(text).body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == kernel.name)
        statement = ast.get_source_segment(text, defined)
        assert statement is not None and statement in trace.text("output_code")
        saved = torch.load(path.with_suffix(".inputs.pt"), weights_only=True)
        assert isinstance(defined.value, ast.Call)
        interpret(kernel.name, ast.literal_eval(defined.value.args[1]), saved["args"])
        assert saved["after"] and all(same_bits(saved["args"][n], value) for n, value in saved["after"].items())


def interpret(name: str, source: str, args: list[Any]) -> None:
    """Run the source of a Triton kernel of Inductor's on tensors of the CPU."""
    with interpreting() as interpreter:
        kernel = Kernel.of(name, source, Target.parse("h100"), None)
        replace(kernel, wrappers=Wrappers(interpreter)).run(*args)


def test_a_script_has_the_config_of_the_launch(traces: Any, tmp_path: Path) -> None:
    """Block sizes and warps are those of the kernel that the trace shows, one config of all."""
    kernel = traces("reduction", "h100").kernels[0]
    kernel.to_script(tmp_path / "k.py")
    tree = ast.parse((tmp_path / "k.py").read_text(encoding="utf-8"))
    (config,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "CONFIG")
    (taken,) = [row for row in kernel.candidates.table if row["taken"]]
    assert ast.literal_eval(config) == {key: value for key, value in taken.items() if key not in ("taken", "ms")}


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        pytest.param(
            "gpu",
            ("attached GPU", "NVIDIA H100"),
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is attached"),
        ),
        ("moved", ("its inputs", "file", "pointwise_real.inputs.pt")),
    ],
)
def test_a_script_says_in_one_line_what_is_missing(
    name: str, facts: tuple[str, ...], on_the_cpu: Mapping[str, tuple[int, str]]
) -> None:
    """Without a GPU, and without the file of its inputs, it ends with status 2 and a sentence."""
    status, said = on_the_cpu[name]
    assert status == 2 and not untold(said, *facts) and len(said.splitlines()) == 1


def test_a_script_has_nothing_of_explorers_in_it(traces: Any, tmp_path: Path) -> None:
    """It imports nothing but torch, triton and Python's own, and one line says how it was made."""
    for target in ("cpu", "h100"):
        made = traces("softmax", target).kernels[0].to_script(tmp_path / "k.py", inputs="random")
        assert made.inputs is None and "random" in str(made)
        text = made.script.read_text(encoding="utf-8")
        assert sum("explorer" in line for line in text.splitlines()) == 1


def test_random_inputs_are_laid_out_as_those_of_the_launch(tmp_path: Path, traces: Any) -> None:
    """Shapes, strides, types and shared memory are the recorded ones, and integers are in their range."""
    for name in ("in_place", "embedding", "strided"):
        kernel = traces(name, "cpu").kernels[0]
        live = needs_live(traces(name, "cpu"), "")
        (launch,) = live.launches([(live.wrappers[0].file, kernel.name)])
        kernel.to_script(tmp_path / "k.py", inputs="random")
        text = (tmp_path / "k.py").read_text(encoding="utf-8")
        space: dict[str, Any] = {"__name__": "read", "__file__": "k.py"}
        body = text[text.index("    storages = [") : text.index("    recorded = None")]
        exec(text[: text.index("# ---- check")].replace("async_compile.wait", "str"), space)
        exec("if True:\n" + body, space)
        for given, recorded in zip(space["args"], launch.before, strict=True):
            layout = [(t.shape, t.stride(), t.dtype, t.storage_offset()) for t in (given, recorded)]
            assert layout[0] == layout[1]
            if not recorded.is_floating_point():
                assert recorded.min() <= given.min() and given.max() <= recorded.max()
        pointers = [[t.untyped_storage().data_ptr() for t in args] for args in (space["args"], launch.before)]
        shared = [[p.index(x) for x in p] for p in pointers]
        assert shared[0] == shared[1]


@triton.jit
def doubled(value):
    return value * 2


@triton.jit
def added(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = doubled(tl.load(x_ptr + i, mask=i < n)) + tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, values, mask=i < n)


tuned = triton.autotune([triton.Config({"BLOCK": 32}, num_warps=2), triton.Config({"BLOCK": 64})], key=["n"])(added)


@pytest.mark.parametrize("kernel", [added, tuned], ids=["jit", "autotuned"])
def test_a_hand_written_kernel_of_a_traced_function_has_a_script(kernel: Any, tmp_path: Path) -> None:
    """It has the functions that it calls, the program's own arguments, and one config; interpreted it gives what is recorded."""
    config = {} if kernel is tuned else {"BLOCK": 64}

    def launched(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel(), **config)
        return out + 1

    x, y = torch.randn(100), torch.randn(100)
    trace = explorer.trace(launched, x, y, target="h100")
    (mine,) = [each for each in trace.kernels if "doubled" in each.source]
    made = mine.to_script(tmp_path / "k.py")
    text = made.script.read_text(encoding="utf-8")
    assert "def doubled(value)" in text and "explorer" not in text.replace("Made by explorer's", "")
    defined = next(n for n in ast.parse(text).body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == mine.name)
    assert isinstance(defined.value, ast.Call)
    saved = torch.load(tmp_path / "k.inputs.pt", weights_only=True)
    interpret(*map(ast.literal_eval, defined.value.args[:2]), saved["args"])  # type: ignore[arg-type]
    ((number, value),) = saved["after"].items()
    assert torch.equal(saved["args"][number], value) and torch.allclose(value, 2 * x + y)


def test_what_cannot_be_a_script_is_refused(traces: Any, tmp_path: Path) -> None:
    """A path that is no Python file, a word that inputs cannot be, a launch that there is not, a loaded trace."""
    trace = traces("softmax", "cpu")
    kernel = trace.kernels[0]
    with pytest.raises(InputError, match=says(".py", "k.txt")):
        kernel.to_script(tmp_path / "k.txt")
    with pytest.raises(InputError, match='"real", "random"'):
        kernel.to_script(tmp_path / "k.py", inputs="ones")
    with pytest.raises(InputError, match=says(kernel.name, "1", "launch", "0")):
        kernel.to_script(tmp_path / "k.py", launch=3)
    trace.save(tmp_path / "t.json.gz")
    with pytest.raises(LiveError, match=says("script", "process", "explorer.trace")):
        explorer.load(tmp_path / "t.json.gz").kernels[0].to_script(tmp_path / "k.py")
    assert not (tmp_path / "k.py").exists()


def test_another_launch_of_a_kernel_has_its_own_arguments(tmp_path: Path) -> None:
    """Of a kernel that is launched three times the second launch reads what the first and a product left."""

    def thrice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (((x.sin() @ w).sin() @ w).sin() @ w).sin() @ w

    x, w = torch.randn(16, 16), torch.randn(16, 16)
    kernel = explorer.trace(thrice, x, w, target="h100").kernels[-1]
    for launch in (0, 1):
        kernel.to_script(tmp_path / f"{launch}.py", launch=launch)
    first, second = (torch.load(tmp_path / f"{n}.inputs.pt", weights_only=True)["args"][0] for n in (0, 1))
    assert not torch.equal(first, second)


def test_what_the_launch_wrote_is_kept_though_the_memory_held_it_before(tmp_path: Path) -> None:
    """A GPU's memory is used again: the launch changes no bit of it, and its result is compared all the same."""
    trace = explorer.trace(lambda x: x.sin() + 1, torch.randn(64))
    kernel = trace.kernels[0]
    live = needs_live(trace, "a launch")
    (launch,) = live.launches([(live.wrappers[0].file, kernel.name)])
    unchanged = dataclasses.replace(launch, before=launch.after)
    assert unchanged.changed == ()
    of = Reproducer(kernel.artifact, trace.meta, None, "", unchanged, 0)
    assert of.written == launch.changed != ()


def launching(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    added[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
    return out


def test_a_hand_written_kernel_leads_to_a_script_that_can_be_made(tmp_path: Path) -> None:
    """The error does not lead back to trace_kernel; what it leads to writes a script that launches the kernel."""
    x = torch.ones(100)
    kernel = explorer.trace(added, x, x, x, 100, BLOCK=64, grid=(2,), target="h100", sass=False).kernels[0]
    with pytest.raises(explorer.errors.NoVerbError, match=says("your own", "source", "t.to_script()")) as raised:
        kernel.to_script(tmp_path / "kernel.py")
    assert "explorer.trace" not in str(raised.value)
    made = explorer.trace(launching, x, x, target="h100").to_script(tmp_path / "model.py")
    assert "def added(" in made.script.read_text()
