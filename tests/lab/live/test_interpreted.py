"""The check of a trace for a GPU you don't have: what was generated runs, interpreted, and is compared with eager."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import explorer
from explorer.capture.interpret.interpreter import Interpreter
from explorer.errors import InputError
from explorer.lab.live.float64_reference import Float64Reference
from explorer.lab.live.protocol import live_of
from explorer.model.trace_data import artifact_of
from tests.facts import says
from tests.state import difference, snapshot

triton = pytest.importorskip("triton")
tl = triton.language
pytestmark = [
    pytest.mark.compile,
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
]


class Attention(nn.Module):
    """A layer of attention with its norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Conv(nn.Module):
    """Convolution, batch norm and pooling, whose buffers a call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(F.relu(self.norm(self.one(x))), 2).mean((2, 3))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def broken(x: torch.Tensor) -> torch.Tensor:
    """A graph break between two graphs."""
    y = (x * 2).exp().sum(-1)
    torch._dynamo.graph_break()
    return y.log1p() + x.mean(-1)


def statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Reductions of several kinds, a scan, a sort, indices, and additions to one place."""
    var, mean = torch.var_mean(x, -1)
    counted = torch.zeros(8, device=x.device).index_add(0, torch.arange(x.shape[0], device=x.device) % 8, mean)
    return var, mean, x.argmax(-1), x.cumsum(-1), x.sort(dim=-1, stable=True).values, x.prod(-1), (x > 2).any(-1), counted


def dropped(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return F.dropout(x, 0.5), x * 2


def check(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    trace = explorer.trace(function, *args, target=options.pop("target", "h100"), **options)
    return trace.check()


@pytest.mark.parametrize(
    ("function", "shape", "train"),
    [
        (softmax, (16, 96), False),
        (mlp(), (8, 32), True),
        (Attention(), (2, 8, 32), False),
        (Attention(), (2, 8, 32), True),
        (Conv(), (2, 3, 8, 8), True),
    ],
    ids=["softmax", "mlp, trained", "attention", "attention, trained", "convolution, trained"],
)
def test_what_was_generated_gives_what_eager_gives(function: Any, shape: tuple[int, ...], train: bool) -> None:
    """Every output, and with train=True every gradient, is interpreted and close to eager's."""
    rows = check(function, torch.randn(shape, requires_grad=train), train=train)
    assert [dict(row) for row in rows if not (row["equal"] and row["interpreted"])] == []
    changed = 3 * isinstance(function, Conv)  # what the batch norm counts
    assert len(rows) == (1 + (1 + len(list(getattr(function, "parameters", list)())) if train else 0)) + changed


@pytest.mark.parametrize("target", ["a100", "mi300x"])
def test_other_targets(target: str) -> None:
    """A trace for any GPU can be checked."""
    assert check(Attention(), torch.randn(2, 8, 32), target=target)[0]["equal"]


@pytest.mark.parametrize("train", [False, True])
def test_an_intel_gpu(train: bool) -> None:
    """The wrapper and kernels for the device type xpu run as well, oneDNN's attention included."""
    rows = check(Attention(), torch.randn(2, 8, 32, requires_grad=train), target="b580", train=train)
    assert rows and all(row["equal"] and row["interpreted"] for row in rows)


def test_a_cooperative_reduction_is_refused() -> None:
    """Its programs meet at a barrier, which programs run in turn never pass: an error, not a wait without end."""
    trace = explorer.trace(
        lambda x: x.sum(), torch.randn(2**16), target="h100", options={"triton.force_cooperative_reductions": True}
    )
    assert any("x_grid_barrier" in kernel.source for kernel in trace.kernels)
    with pytest.raises(InputError, match=says(trace.kernels[0].name, "cooperative reduction", "barrier", "interpreter")):
        trace.check()


def test_sixteen_bit_floats() -> None:
    """bfloat16 is rounded where the kernel rounds it, and close to eager as far as its precision goes."""
    rows = check(Attention().bfloat16(), torch.randn(2, 8, 32, dtype=torch.bfloat16, requires_grad=True), train=True)
    assert all(row["equal"] for row in rows)


def test_reductions_scans_sorts_and_indices() -> None:
    """Reductions, scans, sorts and indices give eager's results."""
    rows = check(statistics, torch.randn(16, 32))
    assert [row["output"] for row in rows if not row["equal"]] == []


@pytest.mark.filterwarnings("ignore:\\s*Online softmax is disabled")
def test_sizes_that_are_dynamic() -> None:
    """Grids and masks follow from sizes that the wrapper reads off its inputs."""
    assert check(lambda x: softmax(x) * 3, torch.randn(5, 77), dynamic=True)[0]["equal"]


def test_a_function_of_several_graphs() -> None:
    """Both graphs run interpreted, joined by the function's own bytecode."""
    assert check(broken, torch.randn(6, 40))[0]["equal"]


def times_a_sum(x: torch.Tensor) -> torch.Tensor:
    largest = torch.tanh(x).exp().sum().item()
    if largest < 0:
        x = x + 1
    return torch.sin(x) * largest


def test_a_number_taken_from_a_tensor_is_the_traced_one() -> None:
    """What follows `.item()` was compiled for the traced number; a row says how far the interpreted one is from it."""
    trace = explorer.trace(times_a_sum, torch.linspace(-3, 3, 5000), target="h100")
    output, number = trace.check()
    assert output["equal"] and output["interpreted"]
    line = times_a_sum.__code__.co_firstlineno + 1
    assert number["output"] == f"the number that .item() takes in test_interpreted.py:{line}"
    assert number["equal"] and 0 < number["max_rel"] < 1e-5 and "the number of the trace" in number["note"]
    kernel = next(k for k in trace.kernels if "sin" in k.name)
    assert kernel.edit(kernel.source).status == "in place"


def test_a_number_that_a_wrong_kernel_gives_is_not_taken_for_the_traced_one() -> None:
    """The error names the line that would be compiled again, and the guard that does not hold."""
    trace = explorer.trace(times_a_sum, torch.linspace(-3, 3, 5000), target="h100")
    code = live_of(trace).codes[0]
    object.__setattr__(
        code, "text", code.text.replace("libdevice.exp(", "libdevice.exp2(").replace("tl_math.exp(", "tl_math.exp2(")
    )
    line = times_a_sum.__code__.co_firstlineno + 4
    with pytest.raises(
        InputError, match=says(f"test_interpreted.py:{line} would be compiled again", "___stack0 ==", "does not hold")
    ):
        trace.check()


def test_a_matrix_product_by_a_template() -> None:
    """A Triton template of max-autotune, with its epilogue."""
    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    trace = explorer.trace(
        lambda a, b: torch.relu(a @ b), torch.randn(64, 48), torch.randn(48, 80), target="h100", options=options
    )
    assert any("tl.dot" in artifact_of(trace, k.id).text for k in trace.find("kernel"))
    assert trace.check()[0]["equal"]


def test_inputs_that_are_changed_stay_the_user_s() -> None:
    """A function that writes to its input is checked on copies."""

    def change(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    x = torch.randn(4, 8)
    trace = explorer.trace(change, x, target="h100")
    before = x.clone()
    assert trace.check()[0]["equal"] and torch.equal(x, before)


def test_what_depends_on_random_numbers_is_said() -> None:
    """Dropout draws other numbers than eager: such an output is neither equal nor unequal, others are compared."""
    random_one, plain_one = check(dropped, torch.randn(8, 64))
    assert (random_one["equal"], random_one["random"]) == (None, True)
    assert (plain_one["equal"], plain_one["random"]) == (True, False)


def test_a_wrong_kernel_is_found() -> None:
    """Code that computes something else, or leaves elements unwritten, is unequal."""
    trace = explorer.trace(lambda x: torch.sigmoid(x) * 3 + 1, torch.randn(1000), target="h100")
    assert trace.check()[0]["equal"]
    (code,) = live_of(trace).codes
    for wrong in (code.text.replace("3.0", "3.5"), code.text.replace(", xmask)\n''", ", xmask & (xindex < 900))\n''")):
        assert wrong != code.text
        object.__setattr__(code, "text", wrong)
        assert trace.check()[0]["equal"] is False
        object.__setattr__(code, "text", dataclasses.replace(code).text.replace("3.5", "3.0"))


def test_a_check_that_takes_too_long_is_refused_before_it_starts() -> None:
    """The error says how long it would take, and what to do; a larger limit is obeyed."""
    trace = explorer.trace(softmax, torch.randn(64, 512), target="h100")
    with pytest.raises(InputError, match=says("CPU", "0 s", "inputs", "limit=")):
        trace.check(limit=1e-9)
    assert trace.check(limit=600)[0]["equal"]


def test_a_check_that_is_stopped_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a kernel goes through, and torch, triton, random numbers and buffers are untouched."""
    from explorer.capture.interpret.interpreter import Interpreter

    module = Conv()
    trace = explorer.trace(module, torch.randn(2, 3, 8, 8), target="h100", train=True)
    owners = (tl, tl.core, tl.tensor, triton.runtime.JITFunction, torch.cuda, torch._C)
    before = (
        snapshot(),
        [dict(vars(o)) for o in owners],
        torch.get_rng_state(),
        random.getstate(),
        module.norm.running_mean.clone(),
        torch.cuda.is_available(),
    )

    def check_nothing_changed() -> None:
        assert difference(before[0], snapshot()) == {}
        assert [dict(vars(o)) for o in owners] == before[1]
        assert torch.equal(torch.get_rng_state(), before[2]) and random.getstate() == before[3]
        assert torch.equal(module.norm.running_mean, before[4]) and torch.cuda.is_available() == before[5]

    trace.check()
    check_nothing_changed()

    def stop(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Interpreter, "_together", stop)
        with pytest.raises(KeyboardInterrupt):
            trace.check()
    check_nothing_changed()
    assert trace.check()[0]["equal"]


def test_a_trace_for_the_cpu_is_not_interpreted() -> None:
    """A trace for a device that is there runs its compiled code."""
    trace = explorer.trace(softmax, torch.randn(4, 8), backend="eager")
    assert [(row["equal"], row["interpreted"]) for row in trace.check()] == [(True, False)]
    with pytest.raises(InputError, match=says("expected=", "hand-written kernels")):
        trace.check(expected=torch.zeros(4, 8))


# Hand-written kernels ------------------------------------------------------------------------------------------------


@triton.jit
def scaled(x, out, count, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * SCALE, mask=i < n)
    tl.atomic_add(count, 1)


@pytest.fixture(scope="module")
def handwritten() -> explorer.Trace:
    """A kernel that writes two of its three tensors, traced with its grid."""
    x, out, count = torch.arange(100.0), torch.zeros(100), torch.zeros(1, dtype=torch.int32)
    return explorer.trace(scaled, x, out, count, 100, SCALE=3, BLOCK=32, grid=(4,), target="h100", sass=False)


def test_a_hand_written_kernel_is_run_on_copies(handwritten: explorer.Trace) -> None:
    """`run` gives the tensors that the kernel wrote, by name, also for other arguments; the user's own stay."""
    first, again = handwritten.live.run(), handwritten.live.run()
    assert list(first) == ["out", "count"] and first["count"].item() == again["count"].item() == 4
    assert torch.equal(first["out"], torch.arange(100.0) * 3)
    assert torch.equal(handwritten.live.run(SCALE=5)["out"], torch.arange(100.0) * 5)


def test_a_hand_written_kernel_is_checked_against_what_it_should_write(handwritten: explorer.Trace) -> None:
    """`check(expected=…)` takes a mapping or tensors in order; what cannot be paired is refused."""
    right, count = torch.arange(100.0) * 3, torch.tensor([4], dtype=torch.int32)
    (row,) = handwritten.check(expected={"out": right})
    assert (row["output"], row["equal"], row["max_abs"], row["max_rel"], row["interpreted"]) == ("out", True, 0.0, 0.0, True)
    assert [r["equal"] for r in handwritten.check(expected=(right + 1, count))] == [False, True]
    for wrong, facts in (
        (None, ("hand-written kernel", "expected=")),
        (right, ("out, count", "1")),
        ({"x": right}, ("'x'", "out, count")),
    ):
        with pytest.raises(InputError, match=says(*facts)):
            handwritten.check(expected=wrong)
    with pytest.raises(InputError, match=says("CPU", "0 s", "inputs", "limit=")):
        handwritten.check(limit=1e-9, expected={"out": right})


def batch_normed(x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor) -> tuple[torch.Tensor, ...]:
    made = torch.ops.aten.native_batch_norm(x, weight, weight, mean.clone(), mean + 1, True, 0.1, 1e-5)
    return made[0], made[1], made[2]


def batch_normed_without_stats(x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor) -> tuple[torch.Tensor, ...]:
    made = torch.ops.aten._native_batch_norm_legit.no_stats(x, weight, weight, True, 0.1, 1e-5)
    return made[0], made[1], made[2]


@pytest.mark.parametrize("normed", [batch_normed, batch_normed_without_stats])
def test_statistics_are_compared_in_the_type_that_the_gpu_keeps_them_in(normed: Callable[..., tuple[torch.Tensor, ...]]) -> None:
    """In bfloat16 a GPU keeps a batch norm's mean in float32, the CPU does not; another type or another value is still found."""
    args = torch.randn(4, 3, 5).bfloat16(), torch.randn(3).bfloat16(), torch.zeros(3).bfloat16()
    trace = explorer.trace(normed, *args, target="h100")
    assert {t.dtype for t in normed(*args)} == {torch.bfloat16}
    assert [row["equal"] for row in trace.check()] == [True] * 3

    def against(change: Callable[[torch.Tensor], torch.Tensor]) -> list[bool | None]:
        def other(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            out, mean, deviation = normed(*given)
            return out, change(mean), deviation

        live = dataclasses.replace(live_of(trace), call=dataclasses.replace(live_of(trace).call, function=other))
        return [row["equal"] for row in live.check()]

    assert against(lambda mean: mean.double()) == [True, False, True]
    assert against(lambda mean: mean + 1) == [True, False, True]


def test_a_second_edit_interprets_only_what_is_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither launches that read the same nor eager's other roundings are computed again; a fault is found all the same."""
    trace = explorer.trace(Attention(), torch.randn(2, 8, 32, requires_grad=True), target="h100", train=True)
    launched: list[str] = []
    launch, samples = Interpreter.launch, Float64Reference.samples

    def counted(self: Interpreter, function: Any, *args: Any) -> Any:
        launched.append(function.__name__)
        return launch(self, function, *args)

    def asked(self: Float64Reference, count: int) -> Any:
        tried.append(max(0, count - self._tried))
        return samples(self, count)

    tried: list[int] = []
    monkeypatch.setattr(Interpreter, "launch", counted)
    monkeypatch.setattr(Float64Reference, "samples", asked)
    assert all(row["equal"] for row in trace.check()) and len(launched) > 3
    kernel = next(k for k in trace.kernels if "rsqrt" in k.source)
    launched.clear()
    tried.clear()
    line = next(line for line in kernel.source.split("\n") if "rsqrt(" in line)
    assert kernel.edit(kernel.source.replace(line, f"{line} + 0.0")).in_place
    assert set(launched) == {kernel.name} and not any(tried)
    wrong = kernel.source.replace("rsqrt", "sqrt")
    assert kernel.edit(wrong).status == "wrong result" and set(launched) == {kernel.name}
    assert kernel.edit(wrong, check=False).in_place
    assert not all(row["equal"] for row in trace.check()) and set(launched) > {kernel.name}


def test_a_step_of_training_between_two_checks_is_seen() -> None:
    """Other parameters give other numbers in eager and in what is interpreted: nothing of the check before stands for them."""
    module = mlp()
    trace = explorer.trace(module, torch.randn(8, 32, requires_grad=True), target="h100", train=True)
    before = trace.check()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3)
    after = trace.check()
    assert all(row["equal"] for row in [*before, *after])
    assert [row["max_abs"] for row in before] != [row["max_abs"] for row in after]
