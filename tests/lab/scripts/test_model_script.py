"""Scripts of the output code of whole programs, run by themselves in a process without explorer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.capture.observe.tensors import same_bits
from explorer.errors import InputError, LiveError, NoVerbError
from explorer.lab.live.protocol import needs_live
from tests.facts import in_a_line, says

pytestmark = pytest.mark.compile


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.down(self.norm(nn.functional.gelu(self.up(x)))), -1)


def with_a_break(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    y = x.sin() * 2
    torch._dynamo.graph_break()
    return (y + 1).softmax(-1), x.shape[0]


def changes_its_input(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x.add_(y)
    return x.sin(), y.view(-1)


def draws(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x, 0.5) + 1


def program(name: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    made: Mapping[str, Any] = {
        "training": (Block().bfloat16(), (torch.randn(8, 32).bfloat16(),), {"train": True}),
        "break": (with_a_break, (torch.randn(8, 16),), {}),
        "changes": (changes_its_input, (torch.randn(8, 16), torch.randn(8, 16)), {"dynamic": True}),
        "draws": (draws, (torch.randn(8, 16),), {}),
    }[name]
    function, args, options = made
    return function, args, options


NAMES = {"training": 2, "break": 2, "changes": 1, "draws": 1}
#: Runs scripts one after the other, each as a program of its own; prints each one's exit status, stdout and stderr.
RUNNER = """
import contextlib, io, json, runpy, sys
for line in json.loads(sys.argv[1]):
    sys.argv = line
    said, errors, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        try:
            runpy.run_path(line[0], run_name="__main__")
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, said.getvalue(), errors.getvalue()]))
assert "explorer" not in sys.modules
"""
#: The exit status of a script, what it printed, and its errors.
Said = tuple[int, str, str]


def quick(path: Path) -> None:
    """Let a script time its calls for a moment, not for half a second each."""
    text = path.read_text(encoding="utf-8")
    assert text.count("most: float = 0.5") == 2
    path.write_text(text.replace("most: float = 0.5", "most: float = 0.01"), encoding="utf-8")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """What each program's script says, in a process without explorer; that of a wrong one too."""
    folder = tmp_path_factory.mktemp("models")
    for number, name in enumerate(NAMES):
        function, args, options = program(name)
        explorer.trace(function, *args, **options).to_script(folder / f"{name}.py", inputs="real" if number % 2 else "random")
        quick(folder / f"{name}.py")
    text = (folder / "changes.py").read_text(encoding="utf-8")
    assert text.count(".sin()") >= 1
    (folder / "wrong.py").write_text(text.replace(".sin()", ".cos()"), encoding="utf-8")
    lines = [[str(folder / f"{name}.py"), *(["--compile"] if name == "break" else [])] for name in (*NAMES, "wrong")]
    command = [sys.executable, "-I", "-c", RUNNER, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip((*NAMES, "wrong"), map(tuple, map(json.loads, done.stdout.splitlines())), strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_runs_alone_and_finds_the_output_code_right(name: str, said: Mapping[str, Said]) -> None:
    """Every compiled graph is run, compared with eager, and timed; so is what this torch compiles anew, where it is asked."""
    status, out, errors = said[name]
    assert status == 0, out + errors
    assert out.count("  compiled: ") == out.count("  eager: ") == NAMES[name]
    assert "WRONG" not in out and errors == ""
    assert in_a_line(out, "eager", "right") is (name != "draws")
    assert len(re.findall(r"(?m)^  compiled \w+: \S", out)) == (2 if name == "break" else 0)


def test_wrong_output_code_makes_the_script_fail(said: Mapping[str, Said]) -> None:
    """A cosine in the place of a sine in the text of the code is found, and the exit status says so."""
    status, out, _ = said["wrong"]
    assert status == 1 and in_a_line(out, "eager", "WRONG")


@pytest.mark.parametrize("name", ["training", "break"])
def test_a_script_for_a_gpu_you_do_not_have_has_code_and_inputs(name: str, tmp_path: Path) -> None:
    """It is Python, has each graph's code byte by byte, and its inputs load."""
    function, args, options = program(name)
    trace = explorer.trace(function, *args, target="h100", **options)
    made = trace.to_script(tmp_path / "model.py", inputs="real")
    text = made.script.read_text(encoding="utf-8")
    compile(text, "model.py", "exec")
    assert made.inputs is not None and sum("explorer" in line for line in text.splitlines()) == 1
    wrappers = [wrapper.text for wrapper in needs_live(trace, "").wrappers]
    assert len(wrappers) == 2 and all(wrapper in text for wrapper in wrappers)
    saved = torch.load(made.inputs, weights_only=True)
    assert list(saved) == ["graph 1", "graph 2"]
    first = next(value for value in saved["graph 1"]["args"] if isinstance(value, torch.Tensor))
    tensors = [*args, *(function.parameters() if isinstance(function, nn.Module) else ())]
    assert any(same_bits(first, tensor.detach()) for tensor in tensors)
    assert "], ['cuda:0'" in text or "['cuda" in text


def test_what_cannot_be_a_script_is_refused(tmp_path: Path) -> None:
    """A path that is no Python file, a loaded trace, and a program that has no output code."""
    trace = explorer.trace(lambda x: x.sin(), torch.ones(4), backend="aot_eager")
    with pytest.raises(InputError, match=says(".py", "model'")):
        trace.to_script(tmp_path / "model")
    with pytest.raises(NoVerbError, match=says("output code", "Inductor", "reduce-overhead")):
        trace.to_script(tmp_path / "model.py")
    trace.save(tmp_path / "t.json.gz")
    with pytest.raises(LiveError, match=says("script", "process", "explorer.trace")):
        explorer.load(tmp_path / "t.json.gz").to_script(tmp_path / "model.py")


def test_the_compiled_function_is_as_it_was(tmp_path: Path) -> None:
    """After a script is made the program's input, its module's code and the random numbers are as before it."""
    function, args, options = program("changes")
    trace = explorer.trace(function, *args, **options)
    (module,) = [wrapper.module for wrapper in needs_live(trace, "").wrappers]  # type: ignore[attr-defined]
    before, names, state = [a.clone() for a in args], set(vars(module)), torch.get_rng_state()
    code = module.call.__func__.__code__
    trace.to_script(tmp_path / "model.py")
    assert module.call.__func__.__code__ is code and set(vars(module)) == names
    assert all(same_bits(a, b) for a, b in zip(args, before, strict=True)) and torch.equal(torch.get_rng_state(), state)
