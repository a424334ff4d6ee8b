"""The probe against torch itself: which call compiles again, by which guard, and when the recompile limit is reached."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import explorer
from explorer import Vary
from explorer.errors import InputError
from tests.facts import says, untold

pytestmark = pytest.mark.compile

SCALE = 2.0


def branching(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    y = torch.relu(x) * n
    if x.shape[0] > 5:
        y = y + SCALE
    return y


def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() * x.shape[0]


def fixed(x: torch.Tensor) -> torch.Tensor:
    return x.sum() * len([n for n in range(8) if x.shape[0] == 8])


def of_list(xs: list[torch.Tensor], flag: bool) -> torch.Tensor:
    return xs[0] + xs[1] if flag else xs[0] - xs[1]


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.eps = 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = nn.functional.dropout(self.linear(x), 0.5, self.training) + self.eps
        return y


class Recompiles(logging.Handler):
    """The messages of TORCH_LOGS=recompiles."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def logged_recompiles() -> Iterator[list[str]]:
    """Torch's own log of recompiles inside the block."""
    logger, handler = logging.getLogger("torch._dynamo.guards.__recompiles"), Recompiles()
    before = (logger.level, logger.propagate, list(logger.handlers))
    torch._logging.set_logs(recompiles=True)
    logger.propagate = False
    logger.handlers = [handler]
    try:
        yield handler.messages
    finally:
        torch._logging.set_logs()
        logger.setLevel(before[0])
        logger.propagate, logger.handlers = before[1], before[2]


def reasons(message: str) -> list[str]:
    """The guards of a message of torch's log, without compile ids and stacks."""
    found = re.findall(r"^\s*- \d+/\d+: (.*)$", message, re.MULTILINE)
    return [text.strip() for text in found]


def by_torch(
    function: Callable[..., Any], calls: Sequence[Callable[[Any], object]], **options: Any
) -> list[tuple[bool, list[str]]]:
    """Whether each call of the plain compiled function compiled anything, and torch's reasons, by its counters and its log."""
    torch._dynamo.reset()
    counters.clear()
    compiled, rows = torch.compile(function, **options), []
    with logged_recompiles() as messages:
        for call in calls:
            before, said = counters["frames"]["ok"], len(messages)
            call(compiled)
            rows.append((counters["frames"]["ok"] > before, [text for m in messages[said:] for text in reasons(m)]))
    torch._dynamo.reset()
    return rows


def by_probe(probe: explorer.types.Variations) -> list[tuple[bool, list[str]]]:
    return [(bool(row["compiled"]), [text for _, text in row["guards"]]) for row in probe.table]


X = torch.randn(8, 4)
Y = torch.randn(4, 4)

#: The function, its arguments, the variations in turn, and the same calls as a program writes them.
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], list[Vary], list[Callable[[Any], object]]]] = {
    "sizes": (
        branching,
        (X,),
        [Vary("x", size={0: n}) for n in (9, 3, 2, 1)],
        [lambda f, n=n: f(torch.randn(n, 4)) for n in (8, 9, 3, 2, 1)],  # type: ignore[misc]
    ),
    "tensor": (
        branching,
        (X,),
        [
            Vary("x", dtype=torch.float64),
            Vary("x", stride="transposed"),
            Vary("x", stride="offset"),
            Vary("x", requires_grad=True),
            Vary(grad=False),
        ],
        [
            lambda f: f(X),
            lambda f: f(X.double()),
            lambda f: f(torch.randn(4, 8).t()),
            lambda f: f(torch.randn(33)[1:].view(8, 4)),
            lambda f: f(X.clone().requires_grad_()),
            lambda f: torch.no_grad()(lambda: f(X))(),
        ],
    ),
    "values": (
        branching,
        (X, 2),
        [Vary("n", value=3), Vary("n", value=7), Vary("n", value=2.5)],
        [lambda f, n=n: f(X, n) for n in (2, 3, 7, 2.5)],  # type: ignore[misc]
    ),
    "two tensors": (
        two,
        (X, Y),
        [Vary("x", size={1: 6}) & Vary("y", size={0: 6}), Vary("x", size={1: 7}) & Vary("y", size={0: 7})],
        [lambda f, n=n: f(torch.randn(8, n), torch.randn(n, 4)) for n in (4, 6, 7)],  # type: ignore[misc]
    ),
    "graph break": (
        broken,
        (X,),
        [Vary("x", size={0: 9}), Vary("x", size={0: 10}), Vary("x", dtype=torch.float64)],
        [lambda f, n=n: f(torch.randn(n, 4)) for n in (8, 9, 10)] + [lambda f: f(X.double())],  # type: ignore[misc]
    ),
    "list": (
        of_list,
        ([X, X + 1], True),
        [Vary("flag", value=False), Vary("xs[1]", dtype=torch.float64)],
        [lambda f: f([X, X + 1], True), lambda f: f([X, X + 1], False), lambda f: f([X, X.double()], True)],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_probe_says_what_torch_counts_and_logs(name: str) -> None:
    """The calls that compile, and the guards that failed, are those of torch's counters and of TORCH_LOGS=recompiles."""
    function, args, variations, calls = PROGRAMS[name]
    probe = explorer.vary(function, *args, variations=[], backend="eager").sequence(variations)
    assert by_probe(probe) == by_torch(function, calls, backend="eager")


def test_a_module_is_probed_as_torch_runs_it() -> None:
    """Of a module its mode and its attributes vary, and it is as it was afterwards."""
    module = Scaled()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    probe = explorer.vary(module, X, variations=[], backend="eager")
    seen = by_probe(probe.sequence([Vary("self.training", value=False), Vary("self.eps", value=0.25)]))
    assert module.training and module.eps == 0.5
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())

    def with_eps(f: Any) -> None:
        module.train()
        module.eps = 0.25
        f(X)

    plain = by_torch(module, [lambda f: f(X), lambda f: module.eval() and f(X), with_eps], backend="eager")
    assert [row[0] for row in seen] == [row[0] for row in plain] == [True, True, True]
    assert [len(row[1]) for row in seen] == [len(row[1]) for row in plain]


def test_inductor_code_is_compared_with_that_of_the_first_call() -> None:
    """A recompile's row names the guard, the user's line, the kernel that changed, and the size that became a symbol."""
    probe = explorer.vary(branching, X, target="h100", variations=[Vary("x", size={0: 9}), Vary("x", size={0: 3})])
    first, larger, smaller = probe.table
    assert first["outcome"] == "compiled" and first["kernels"] == ""
    assert larger["outcome"] == "recompiled" and larger["code"] == "y = torch.relu(x) * n"
    assert larger["at"].startswith("test_called.py:") and len(larger["changed"]) == 1
    assert "_dynamo/variables/builder.py" in larger["torch"]
    assert larger["symbols"] == ("L['x'].size()[0] in [2, int_oo]",)
    assert smaller["added"] and smaller["removed"], "the branch is another, and so is the kernel"
    comparison = probe.compare(1)
    assert comparison.traces[0].kernels[0].source != probe[1].kernels[0].source


def from_a_tensor(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return x.sin()[:, : int(lengths.max())] + 1


def test_a_number_that_comes_from_a_tensor_is_varied_too() -> None:
    """Dynamo guards its value behind the graph break: other values of the tensors, of the same shape, compile again."""
    probe = explorer.vary(from_a_tensor, torch.randn(4, 8), torch.tensor([5, 3]), backend="eager")
    (row,) = (row for row in probe.table if row["change"].count("a tensor of other values") == 2)
    assert row["outcome"] == "recompiled" and "== 5" in row["guard"]
    assert "with gradients enabled" in repr(probe)
    with torch.no_grad():
        assert "gradients" not in repr(explorer.vary(torch.sin, X, backend="eager", variations=[])).partition("\n")[0]


def test_each_variation_comes_right_after_the_first_call() -> None:
    """What one variation compiled does not serve another: the second is compiled too, and has two entries in the cache."""
    probe = explorer.vary(branching, X, backend="eager", variations=[Vary("x", size={0: n}) for n in (9, 10)])
    assert [row["outcome"] for row in probe.table] == ["compiled", "recompiled", "recompiled"]
    assert [row["entries"] for row in probe.table] == [1, 2, 2]
    in_turn = probe.sequence([Vary("x", size={0: n}) for n in (9, 10)])
    assert [row["outcome"] for row in in_turn.table] == ["compiled", "recompiled", "served"]


def test_explorer_chooses_variations_that_the_function_takes() -> None:
    """Sizes that belong together are varied together, values and modes too; none of them raises."""
    probe = explorer.vary(two, X, Y, backend="eager")
    changes = [row["change"] for row in probe.table]
    assert "x.size(0) = 9" in changes and "x.size(1) = 5, y.size(0) = 5, y.size(1) = 5" in changes
    assert "x.dtype = bfloat16, y.dtype = bfloat16" in changes
    assert "raises" not in {row["outcome"] for row in probe.table}


def test_the_way_to_the_recompile_limit_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ever other sizes fill the cache up to Dynamo's limit; then the function runs eagerly, at the call at which torch stops."""
    with torch._dynamo.config.patch(recompile_limit=3):
        probe = explorer.vary(branching, X, backend="eager", variations=[]).to_limit("x", 0)
        calls = [lambda f, n=n: f(torch.randn(n, 4)) for n in range(8, 8 + len(probe.table))]  # type: ignore[misc]
        plain = by_torch(branching, calls, backend="eager", dynamic=False)
    assert [bool(row["compiled"]) for row in probe.table] == [compiled for compiled, _ in plain]
    assert [row["outcome"] for row in probe.table] == ["compiled", "recompiled", "recompiled", "eager", "eager"]
    assert [row["entries"] for row in probe.table] == [1, 2, 3, 3, 3]
    assert not untold(probe.table[3]["note"], "recompile_limit", "3", "eagerly")


def test_a_mark_spares_recompiles_or_says_what_forbids_it() -> None:
    """mark_dynamic spares the recompile of another size; where the program fixes the size torch's own words are there."""
    probe = explorer.vary(branching, X, backend="eager", variations=[])
    rows = {row["remedy"]: row for row in probe.dynamic("x", 0, sizes=(8, 9, 10))}
    assert (rows["nothing"]["compiles"], rows["dynamic=False"]["compiles"], rows["mark_dynamic"]["compiles"]) == (2, 3, 1)
    assert rows["mark_dynamic"]["spares"] == 1
    rows = {row["remedy"]: row for row in explorer.vary(fixed, X, backend="eager", variations=[]).dynamic("x", 0, sizes=(8, 9))}
    assert (
        "You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (8)"
        in rows["mark_dynamic"]["raises"]
    )
    assert not hasattr(X, "_dynamo_dynamic_indices")


def test_a_stance_decides_what_a_failed_guard_does() -> None:
    """eager_on_recompile runs eagerly, fail_on_recompile raises, and the stance is torch's default afterwards."""
    other = Vary("x", dtype=torch.float64)
    stances = ("force_eager", "eager_on_recompile", "fail_on_recompile")
    probe = explorer.vary(branching, X, backend="eager", variations=[Vary(stance=s) & other for s in stances])
    assert [row["outcome"] for row in probe.table] == ["compiled", "eager", "eager", "raises"]
    assert "Detected recompile" in probe.table[3]["note"]
    assert torch._dynamo.eval_frame._stance.stance == "default"


def test_what_a_variation_raises_is_its_outcome() -> None:
    """An error of the program, or of fullgraph, is in the row, and the next variation is tried."""
    probe = explorer.vary(two, X, Y, backend="eager", variations=[Vary("y", size={0: 5}), Vary("x", size={0: 9})])
    assert [row["outcome"] for row in probe.table] == ["compiled", "raises", "recompiled"]


def test_the_program_is_left_alone(module_at: Callable[[Path], ModuleType]) -> None:
    """The function's own cache, the sizes seen, settings, arguments, globals, one of which is varied, and random numbers."""
    state = module_at(Path(__file__).parents[2] / "state.py")
    torch._dynamo.reset()
    compiled, calls = torch.compile(branching, backend="eager"), []
    compiled(X)
    before, generator, kept = state.snapshot(), torch.get_rng_state(), X.clone()
    entries = torch._dynamo.eval_frame._debug_get_cache_entry_list(branching.__code__)
    with torch._dynamo.config.patch(recompile_limit=2):
        probe = explorer.vary(branching, X, backend="eager")
        probe.to_limit("x", 0)
    assert "SCALE = 3.0" in [row["change"] for row in probe.table]
    assert state.difference(before, state.snapshot()) == {}
    assert torch.equal(torch.get_rng_state(), generator) and torch.equal(X, kept) and SCALE == 2.0
    after = torch._dynamo.eval_frame._debug_get_cache_entry_list(branching.__code__)
    assert [each.compile_id for each in after] == [each.compile_id for each in entries]
    counters.clear()
    for n in (8, 9):
        before_call = counters["frames"]["ok"]
        compiled(torch.randn(n, 4))
        calls.append(counters["frames"]["ok"] > before_call)
    assert calls == [False, True]


def test_mistakes_say_what_to_do() -> None:
    """A name that is no argument, a change without a name, what is no variation, a call that compiled nothing."""
    probe = explorer.vary(branching, X, backend="eager", variations=[Vary("x", stride="offset")])
    with pytest.raises(explorer.errors.InputError, match=says("'z'", "'x'")):
        probe.sequence([Vary("z", size={0: 9})])
    with pytest.raises(explorer.errors.InputError, match=says("x", "2 dimensions", "5")):
        probe.sequence([Vary("x", size={5: 9})])
    with pytest.raises(explorer.errors.InputError, match=says("dtype of", "argument", "Vary('x', dtype=…)")):
        Vary(dtype=torch.float64)
    with pytest.raises(explorer.errors.InputError, match=says("Vary('x', size={0: 9})")):
        Vary()
    with pytest.raises(explorer.errors.InputError, match=says("'transpose'", "'transposed'")):
        Vary("x", stride="transpose")
    with pytest.raises(explorer.errors.InputError, match=says("variation", "explorer.Vary('x', size={0: 9})", "not 'x'")):
        explorer.vary(branching, X, variations=["x"])  # type: ignore[list-item]
    with pytest.raises(explorer.errors.InputError, match=says("call 1", "compiled nothing", probe.table[1]["outcome"])):
        probe[1]
    with pytest.raises(explorer.errors.NoKernelError, match=says("call 7", "0", str(len(probe.table) - 1))):
        probe[7]


def test_variations_that_torch_refuses_are_mistakes() -> None:
    """A path into nothing, a mode that torch.compile lacks, mode beside options, a device this torch is built without."""
    probe = explorer.vary(Scaled(), X, backend="eager", variations=[])
    lacks = {
        "self.foo.bar": ("Scaled", "'foo'"),
        "self.linear.nope": ("Linear", "'nope'"),
        "self.linear[0]": ("Linear", "item [0]"),
    }
    for where, facts in lacks.items():
        with pytest.raises(explorer.errors.InputError, match=says(repr(where), *facts)):
            probe.sequence([Vary(where, value=1)])
    with pytest.raises(explorer.errors.InputError, match="'bogus'"):
        explorer.vary(branching, X, target="h100", variations=[Vary(mode="bogus")])
    if not torch.backends.cuda.is_built():
        with pytest.raises(explorer.errors.InputError, match="not compiled with CUDA"):
            probe.sequence([Vary("x", device="cuda")])
    with pytest.raises(explorer.errors.InputError, match=says("torch.compile", "mode", "options")):
        explorer.vary(branching, X, options={"max_fusion_size": 8}, target="h100", variations=[Vary(mode="default")])
    with pytest.raises(explorer.errors.InputError, match=says("variations", "list", "[explorer.Vary('x', size={0: 9})]", "5")):
        explorer.vary(branching, X, variations=5)  # type: ignore[arg-type]


# Names that a guard has ----------------------------------------------------------------------------------------------------


def with_rest(x: torch.Tensor, *rest: torch.Tensor, **options: float) -> torch.Tensor:
    return x + rest[0] * options["scale"]


def named_by_a_guard(guard: str) -> str:
    """The name in torch's words for a tensor that has another size."""
    match = re.search(r"tensor '(.+?)' size", guard)
    assert match, guard
    return match[1]


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "typed", "torchs"),
    [
        (nn.Linear(4, 4), (torch.ones(2, 4),), {}, "input", "args[0]"),
        (with_rest, (torch.ones(2, 4), torch.ones(2, 4)), {"scale": 2.0}, "rest[0]", "rest[0]"),
        (branching, (torch.ones(2, 4),), {}, "x", "x"),
    ],
    ids=["torch's module", "rest", "parameter"],
)
def test_a_tensor_has_the_name_that_the_guard_says(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], typed: str, torchs: str
) -> None:
    """Every verb takes the name in the failed guard, and the name of the parameter, as the same argument."""
    probe = explorer.vary(function, *args, kwargs=kwargs, variations=[], backend="eager", dynamic=False)
    sizes = {0: 3} if typed != "rest[0]" else {0: 1}
    (_, changed) = probe.sequence([Vary(typed, size=sizes)]).table
    assert named_by_a_guard(changed["guard"]) == torchs
    local = re.sub(r"^\w+", lambda root: f"L['{root[0]}']", torchs)
    for name in (torchs, local):
        (_, again) = probe.sequence([Vary(name, size=sizes)]).table
        assert (again["outcome"], again["guard"]) == (changed["outcome"], changed["guard"])
        outcomes = [[row["outcomes"] for row in probe.dynamic(each, 0, sizes=(2, *sizes.values()))] for each in (name, typed)]
        assert outcomes[0] == outcomes[1]


def test_a_value_has_the_name_that_the_guard_says() -> None:
    """An option among `**options`, a number, an attribute and a global may be written as in a guard."""
    x, linear = torch.ones(2, 4), nn.Linear(4, 4)
    cases = [
        (with_rest, (x, x), {"scale": 2.0}, "L['options']['scale']", 3.0),
        (branching, (x, 2), {}, "L['n']", 3),
        (branching, (x, 2), {}, "G['SCALE']", 3.0),
        (Scaled(), (x,), {}, "L['self'].eps", 1.5),
        (linear, (x,), {}, "L['fn'].training", False),
    ]
    for function, args, kwargs, name, value in cases:
        probe = explorer.vary(function, *args, kwargs=kwargs, variations=[Vary(name, value=value)], backend="eager")
        assert probe.table[1]["outcome"] in ("served", "recompiled"), name
    with pytest.raises(InputError, match=says("'nothing.part'", "'x'")):
        explorer.vary(branching, x, variations=[Vary("L['nothing'].part", value=1)], backend="eager")
