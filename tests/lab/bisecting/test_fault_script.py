"""Scripts of what a bisection found: they run alone, show the fault, and stop showing it where the code is mended."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import torch

import explorer
from explorer.capture.absent.generated import Kernel, Wrappers
from explorer.capture.interpret.interpreter import interpreting
from explorer.errors import InputError
from explorer.lab.bisecting.bisection import Bisection
from explorer.lab.bisecting.case import case_of, eager_of, launching
from explorer.lab.bisecting.shrink import shrunk
from explorer.lab.live.protocol import needs_live
from explorer.reference.gpus.figures import Target
from tests.facts import says, untold

pytestmark = pytest.mark.compile

FILE = Path(__file__).parents[3] / "benchmarks" / "bisecting.py"


@pytest.fixture(scope="module")
def script(module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The script that plants faults."""
    return module_at(FILE)


def bisected(script: ModuleType, target: str, level: str = "lowering", build: Any = None) -> Bisection:
    """Bisect a program with a fault planted at a level."""
    function, arguments = (build or script.PLANTED)()
    with {"lowering": script.in_lowering, "pattern": script.in_pattern}[level]():
        trace = explorer.trace(function, *(a.detach() for a in arguments), target=target)
    return trace.bisect(cause=False)


@pytest.fixture(scope="module")
def for_h100(script: ModuleType) -> Bisection:
    """The bisection of the planted program for a GPU you don't have, made once."""
    return bisected(script, "h100")


def status_of(path: Path) -> object:
    """Run a script as a program in this process, and give its exit status; `made.output` is what it said in one of its own."""
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return ended.value.code


def test_a_fault_on_the_cpu_is_shown_by_its_script_until_the_code_is_mended(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It exits with 1 and prints both numbers; with the right constant in its own text it exits with 0."""
    path = tmp_path / "fault.py"
    made = bisected(script, "cpu", build=script.of(lambda x: x.sin() * 2, (8, 16))).to_script(path)
    assert made.fails is True and made.inputs is None, made.output
    assert not untold(made.output, "WRONG", "eager", "fault", "there")
    text = path.read_text(encoding="utf-8")
    assert "static_cast<float>(1.001)" in text and sum("explorer" in line for line in text.splitlines()) == 1
    path.write_text(text.replace("static_cast<float>(1.001)", "static_cast<float>(1.0)"), encoding="utf-8")
    assert status_of(path) == 0 and not untold(capsys.readouterr().out, "fault", "gone", "eager")


@contextmanager
def interpreted_script(text: str) -> Iterator[Callable[[], int]]:
    """Give a script's `main`, with its Triton kernels interpreted on the CPU: a GPU runs it as it is."""
    tree = ast.parse(text)
    kinds = (ast.FunctionDef, ast.Import, ast.ImportFrom)
    kept = [n for n in tree.body if isinstance(n, kinds) and "triton" not in ast.unparse(n).partition("\n")[0]]
    here = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "HERE"]
    calls = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.value).startswith("async_compile.triton(")]
    with interpreting() as interpreter:
        space: dict[str, Any] = {"__name__": "read", "__file__": "fault.py"}
        for call in calls:
            assert isinstance(call.value, ast.Call)
            name, source = (ast.literal_eval(argument) for argument in call.value.args[:2])
            kernel = Kernel.of(name, source, Target.parse("h100"), None)
            space[ast.unparse(call.targets[0])] = replace(kernel, wrappers=Wrappers(interpreter))
        code = ast.unparse(ast.Module([*here, *kept], [])).replace("'cuda'", "'cpu'")
        with mock.patch.object(torch.cuda, "get_device_name", lambda: "the interpreter"):
            space["HERE"] = Path()
            exec(code.replace("HERE = Path(__file__).resolve().parent", ""), space)
            stream = {"_cuda_getCurrentRawStream": lambda device: 0}
            with mock.patch.multiple(torch._C, create=True, **stream), mock.patch.object(torch.cuda, "current_device", int):
                yield space["main"]


@pytest.mark.parametrize("name", ["softmax", "split reduction"])
def test_a_fault_for_a_gpu_you_do_not_have_is_in_its_script(
    name: str, script: ModuleType, for_h100: Bisection, tmp_path: Path
) -> None:
    """Interpreted, what the script launches is off; with the right constant it is what eager computes. Steps share memory."""
    result = for_h100
    if name == "split reduction":
        result = bisected(script, "h100", build=script.of(lambda x: (x.sin() * 2).sum(), (1 << 16,)))
    assert result.first is not None and (len(result.first.subgraph.steps) > 1) == (name == "split reduction")
    made = result.to_script(tmp_path / "fault.py")
    assert made.fails is None and not untold(str(made), "fault.py", "GPU", "attached")
    text = made.script.read_text(encoding="utf-8")
    with interpreted_script(text) as main:
        assert main() == 1
    with interpreted_script(text.replace("1.001, tl.float32", "1.0, tl.float32")) as main:
        assert main() == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is attached")
def test_a_script_for_a_gpu_says_in_one_line_what_is_missing(
    for_h100: Bisection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the GPU it ends with 2."""
    for_h100.to_script(tmp_path / "fault.py")
    assert status_of(tmp_path / "fault.py") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert not untold(line, "attached GPU", "NVIDIA H100")


def test_only_what_the_fault_needs_is_left(script: ModuleType) -> None:
    """Of the nodes those that lead to what is off; of the numbers, here, two: the launch is off where both are not zero."""
    result = bisected(script, "h100", build=script.of(lambda x, y: (x.sin() + y.t(), x.cos() * y.t()), (8, 4), (4, 8)))
    assert result.first is not None and result._trace is not None
    nodes = [str(row["node"]) for row in result.first.outputs]
    case = case_of(result._trace, result.first.subgraph, result.first.launches, nodes)
    assert nodes == ["add"] and set(case.part.nodes) == {"sin", "permute", "add"}
    live = needs_live(result._trace, "a test")

    def wrong(launch: Any) -> Any:
        def run(name: str, args: Sequence[Any], keywords: Any) -> None:
            launch(name, args, keywords)
            x, y = (args[place.value] for place in case.inputs)
            args[case.outputs[0].value].copy_(x.sin() + y.t())
            if x[2, 3] != 0 and y[1, 5] != 0:
                args[case.outputs[0].value][4, 2] += 1

        return run

    with launching(result._trace, live, case.part) as launch:
        small = shrunk(case, wrong(launch), eager_of(case, live))
        whole = shrunk(case, wrong(launch), eager_of(case, live), fewer=False)
        fine = shrunk(case, lambda name, args, keywords: args[case.outputs[0].value].copy_(
            args[case.inputs[0].value].sin() + args[case.inputs[1].value].t()), eager_of(case, live))  # fmt: skip
    assert small is not None and (small.left, small.at) == (2, (4, 2))
    x, y = (small.values[place.value] for place in case.inputs)
    assert x.nonzero().tolist() == [[2, 3]] and y.nonzero().tolist() == [[1, 5]]
    assert whole is not None and whole.left > 60 and fine is None


def test_a_fault_above_the_kernels_has_the_whole_output_code(script: ModuleType, tmp_path: Path) -> None:
    """No kernel is off: the output code runs beside Dynamo's graph, and the script says that what did it is not in it."""
    build = script.of(lambda x: torch.nn.functional.gelu(x).sin(), (8, 16))
    made = bisected(script, "cpu", "pattern", build).to_script(tmp_path / "fault.py")
    assert made.fails is True and not untold(made.output, "WRONG"), made.output
    text = made.script.read_text(encoding="utf-8")
    assert not untold(text, "script", "fault", "above the kernels", "torch._C._nn.gelu")


def test_where_nothing_is_off_there_is_no_script(tmp_path: Path) -> None:
    """It is said so, and what writes a script all the same; a path that is no Python file is refused."""
    result = explorer.trace(torch.sin, torch.randn(8), target="h100").bisect()
    with pytest.raises(InputError, match=says("nothing", "off", "t.to_script()")):
        result.to_script(tmp_path / "fault.py")
    with pytest.raises(InputError, match=says(".py", "fault.txt")):
        result.to_script(tmp_path / "fault.txt")
    assert not list(tmp_path.iterdir())
