"""One name for a module: graphs, tables and the view call it as the program does, and its parameters by it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.errors import InputError
from explorer.stages.fx_graph import input_names
from explorer.stages.program_names import is_inside, joined_name, module_name, program_name, split_name
from explorer.tracing.traced import Trace
from explorer.view.payload import payload
from tests.facts import says

SCRIPT = Path(explorer.__file__).parent / "view" / "widget" / "src" / "modules.js"
READ = "import(process.argv[1]).then(({splitName}) => {const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
WRITE = "console.log(JSON.stringify(given.map(splitName)))})"
#: Names of modules, and their parts.
PARTS = {
    "h.0.attn": ("h", "0", "attn"),
    "0": ("0",),
    "": (),
    "blocks[1].0.up": ("blocks", "[1]", "0", "up"),
    "d['1'].up": ("d", "['1']", "up"),
    "d['a.b'][2]": ("d", "['a.b']", "[2]"),
    'd["it\'s"].up': ("d", '["it\'s"]', "up"),
    r"d['\'].x'].up": ("d", r"['\'].x']", "up"),
    "d[(1, 'a]')].up": ("d", "[(1, 'a]')]", "up"),
    "x-y.up": ("x-y", "up"),
}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x)) * self.scale


class Holders(nn.Module):
    """Blocks in everything that may hold them, with one key as a number and as a text."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), nn.Sequential(Block())])
        self.named = nn.ModuleDict({"1": Block(), "ab": Block()})
        self.plain: dict[Any, Block] = {1: Block(), "1": Block(), "a.b": Block()}
        self.add_module("x-y", Block())
        self.fn = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers[1](self.layers[0](x))
        x = self.named["ab"](self.named["1"](x))
        x = self.plain["a.b"](self.plain["1"](self.plain[1](x)))
        return self.fn(getattr(self, "x-y")(x))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def held() -> Trace:
    return explorer.trace(Holders().eval(), torch.randn(2, 4), target="h100")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['self']._modules['h']._modules['0']._parameters['weight']", "h.0.weight"),
        ("L['fn']._modules['1']._buffers['running_mean']", "1.running_mean"),
        ("G['model']._modules['up']._parameters['bias']", "model.up.bias"),
        ("L['self']._modules[\"it's\"]._parameters['w']", "it's.w"),
        ("getattr(getattr(L['self'], 'x-y').h, '0').weight", "x-y.h.0.weight"),
        ("L['blocks'][0]._modules['up']._parameters['bias']", "blocks[0].up.bias"),
        ("L['d']['1']._parameters['w']", "d['1'].w"),
        ("L['model'].__dict__['_modules']['up'].0.weight", "model.up.0.weight"),
        ("L['self'].__dict__['calls']", "calls"),
        ("L['x']", "x"),
        ("L['self']", "self"),
        ("L['args'][0]", "args[0]"),
        ("L['self'].scale", "scale"),
        ("", ""),
    ],
)
def test_values_are_called_as_the_program_calls_them(source: str, name: str) -> None:
    """Dynamo's names for parameters, buffers, arguments and attributes."""
    assert program_name(source) == name and not re.search(r"_modules|_parameters", program_name(source))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['self'].h.0.attn", "h.0.attn"),
        ("L['self']", ""),
        ("L['fn']", ""),
        ("L['fn'].0", "0"),
        ("L['self'].fn", "fn"),
        ("L['model'].h.0", "model.h.0"),
        ("G['net'].experts['a'].up", "net.experts['a'].up"),
        ("L['layers'][1].lin", "layers[1].lin"),
        ("h.0.attn", "h.0.attn"),  # as recordings before this function said it
    ],
)
def test_a_module_is_called_as_the_program_calls_it(source: str, name: str) -> None:
    """By the variable that holds the model, and its attributes and entries; the compiled one has no name."""
    assert module_name(source) == name


@pytest.mark.compile
def test_a_parameter_is_called_by_its_module(held: Trace) -> None:
    """What a linear layer reads is its own weight and bias, named by the module in the same graph."""
    (graph,) = held.find("forward")
    names = input_names(held, graph.frame, graph.graph)
    read = {(node["module"], names[i]) for node in graph.nodes if node.get("module") for i in node["inputs"] if i in names}
    read = {(module, name) for module, name in read if name != "x"}
    assert len({module for module, _ in read}) == 2 * 9
    assert all(re.fullmatch(r"\.?(weight|bias|scale)", name.removeprefix(module)) for module, name in read), read


@pytest.mark.compile
def test_the_memory_table_names_what_the_graph_names(held: Trace) -> None:
    """Each parameter in it is one of a module of the graph, and of exactly one."""
    modules = {str(node["module"]) for a in held.find("forward") for node in a.nodes if node.get("module")}
    parameters = {name for row in held.memory.table for name in row["inputs"]} - {"x"}
    assert len(parameters) == 3 * 9 and {name.rpartition(".")[0] for name in parameters} == modules
    assert {"plain[1].up", "plain['1'].up", "named.1.up", "x-y.up", "fn.up"} <= modules


@pytest.mark.compile
def test_children_are_called_as_named_modules_calls_them(held: Trace) -> None:
    """Other than those in a dict of the program's own, which torch does not know as children."""
    modules = {str(node["module"]) for a in held.find("forward") for node in a.nodes if node.get("module")}
    children = {name for name in modules if not name.startswith("plain[")}
    assert children < set(dict(Holders().named_modules())) and len(modules - children) == 6


@pytest.mark.compile
def test_a_module_is_followed_by_its_name(held: Trace) -> None:
    """An entry alone, or all that a list or dict holds."""
    (graph,) = held.find("forward")
    lines = {name: held.follow(name).where(artifact=graph.id)[0]["lines"] for name in ("plain[1]", "plain['1']", "plain")}
    assert not set(lines["plain[1]"]) & set(lines["plain['1']"])
    assert set(lines["plain[1]"]) | set(lines["plain['1']"]) < set(lines["plain"])


@pytest.mark.parametrize(("name", "parts"), PARTS.items())
def test_a_name_is_its_parts(name: str, parts: tuple[str, ...]) -> None:
    """Joined they are the name again, whatever a key has in it."""
    assert split_name(name) == parts and joined_name(parts) == name
    assert is_inside(name, name) and is_inside(joined_name((*parts, "up")), name) and not is_inside(name, f"other.{name}")


@pytest.mark.compile
def test_the_view_splits_names_as_python_does(held: Trace) -> None:
    """`view/widget/src/modules.js` repeats it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, which runs the front end's source here")
    names = [*PARTS, *(name for name in payload(held)["strings"] if "[" in name and len(name) < 99)]
    command = [node, "-e", READ + WRITE, SCRIPT.as_uri()]
    told = subprocess.run(command, input=json.dumps(names), capture_output=True, text=True, check=True, timeout=60)
    assert [tuple(parts) for parts in json.loads(told.stdout)] == [split_name(name) for name in names]


@pytest.mark.compile
@pytest.mark.parametrize("path", ["", "."])
def test_no_module_is_followed_by_a_name_without_parts(held: Trace, path: str) -> None:
    """It is an error with the valid names, not all modules."""
    with pytest.raises(InputError, match=says("module", repr(path))):
        held.follow(path)
