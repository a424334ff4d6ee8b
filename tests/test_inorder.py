"""The front end's groups of a graph by module: no arrow leads back to a group, whichever groups are open."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import explorer

pytestmark = pytest.mark.compile

SCRIPT = Path(explorer.__file__).parent / "view" / "widget" / "src" / "inorder.js"
READ = "import(process.argv[1]).then(({inOrder}) => {const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
WRITE = "console.log(JSON.stringify(given.map(([paths, inputs]) => inOrder(paths, inputs))))})"

Graph = tuple[list[list[str]], list[list[int]]]


def in_order(graphs: Sequence[Graph]) -> list[list[list[str]]]:
    """Call inorder.js for the paths of these graphs."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, which runs the front end's source here")
    command = [node, "-e", READ + WRITE, SCRIPT.as_uri()]
    told = subprocess.run(command, input=json.dumps(graphs), capture_output=True, text=True, check=True, timeout=60)
    found: list[list[list[str]]] = json.loads(told.stdout)
    return found


def ordered(boxes: Sequence[object], inputs: Sequence[Sequence[int]]) -> bool:
    """Whether graphlib finds an order of the boxes in which each stands below all that it reads."""
    above: dict[object, set[object]] = {box: set() for box in boxes}
    for box, sources in zip(boxes, inputs, strict=True):
        above[box] |= {boxes[source] for source in sources} - {box}
    try:
        TopologicalSorter(above).prepare()
    except CycleError:
        return False
    return True


def shown(paths: Sequence[Sequence[str]], closed: set[tuple[str, ...]]) -> list[object]:
    """The box in which each node is seen when some groups are closed: the outermost of those, else the node itself."""
    prefixes = [[tuple(path[:depth]) for depth in range(1, len(path) + 1)] for path in paths]
    return [next((prefix for prefix in each if prefix in closed), node) for node, each in enumerate(prefixes)]


def random_graph(choose: random.Random) -> Graph:
    paths = [[choose.choice(["a", "b"]) for _ in range(choose.randint(0, 3))] for _ in range(16)]
    return paths, [sorted({choose.randrange(n) for _ in range(choose.randint(0, 2)) if n}) for n in range(16)]


def test_no_group_stands_above_and_below_another_whichever_are_closed() -> None:
    """For random graphs with nested groups, closed at random. Most have cycles where a group is its name alone."""
    choose = random.Random(0)
    graphs = [random_graph(choose) for _ in range(60)]
    cycles = 0
    for (given, inputs), paths in zip(graphs, in_order(graphs), strict=True):
        assert [[part[0] for part in path] for path in paths] == given
        groups = sorted({tuple(path[:depth]) for path in paths for depth in range(1, len(path) + 1)})
        for _ in range(20):
            assert ordered(shown(paths, set(choose.sample(groups, choose.randint(0, len(groups))))), inputs)
        cycles += not ordered(shown(given, {("a",), ("b",)}), inputs)
    assert cycles > 20


def test_a_block_is_in_its_order_and_stays_whole_where_it_can() -> None:
    """Norm, attention, addition, norm, perceptron, addition: the additions are by themselves, a closed block is one group."""
    names = ["norm1", "attention", None, "norm2", "mlp", None]
    paths = [["h.0", *([name] if name else [])] for name in names]
    inputs: list[list[int]] = [[], [0], [0, 1], [2], [3], [2, 4]]
    assert in_order([(paths, inputs)]) == [paths]


def test_a_group_that_is_passed_twice_is_two() -> None:
    """As in a joint graph, where the backward of a layer comes after the backward of the layers behind it."""
    paths = [["h.0"], ["h.1"], ["h.1"], ["h.0"]]
    assert in_order([(paths, [[], [0], [1], [2, 0]])]) == [[["h.0"], ["h.1"], ["h.1"], ["h.0 (2)"]]]
