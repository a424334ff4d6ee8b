"""The rule of a check: how far compiled code and eager each are from the same call in float64, and how both may round."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import explorer
from explorer.lab.live import check_rows, float64_reference
from explorer.lab.live.call import Call
from explorer.lab.live.check_rows import DRAWS, compared
from explorer.lab.live.float64_reference import Float64Reference, wide_call
from explorer.lab.live.judge import Evidence, Varied, beside, exactly, judged, near
from explorer.lab.live.outcome import Outcome, Part, outcome_of
from explorer.lab.live.protocol import live_of
from tests.facts import untold
from tests.programs import Block

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")

#: What is compared of two tensors beside their values.
PARTS = {"type", "shape", "view", "strides"}


def told(row: check_rows.CheckRow) -> set[str]:
    """What a row says was compared, without what it says was not."""
    compared, *_ = row.compared.split(" not ")
    return {part for part in ("value", "values", *PARTS) if not untold(compared, part)}


class Deep:
    """A trace for a GPU you don't have, with what eager gives and how that varies, which its checks share."""

    def __init__(self, trace: explorer.Trace) -> None:
        self.trace = trace
        self.live: Any = live_of(trace)
        self.eager = outcome_of(self.live.call.function, self.live.call)
        self.truth = Float64Reference(self.live.call)

    def rows(self) -> list[check_rows.CheckRow]:
        """The rows of a check of the code as it is now."""
        with self.live._interpreting(None) as (within, _):
            given = outcome_of(self.live.compiled, self.live.call, within=within)
        return compared(self.live.call, self.eager, given, truth=self.truth, strides="eager's are the CPU's")


@pytest.fixture(scope="module", params=["bfloat16", "float16"])
def deep(request: pytest.FixtureRequest) -> Deep:
    """Several layers of 16 bits, trained, for a GPU you don't have."""
    torch.manual_seed(0)
    dtype = getattr(torch, request.param)
    module = nn.Sequential(*(Block() for _ in range(3)), nn.LayerNorm(32)).to(dtype)
    return Deep(explorer.trace(module, torch.randn(8, 32, dtype=dtype, requires_grad=True), target="h100", train=True))


@pytest.mark.compile
def test_rounding_of_sixteen_bits_is_no_difference(deep: Deep) -> None:
    """Every gradient is as near to float64 as eager's, and each row says how near both are."""
    rows = deep.trace.check()
    assert [dict(row) for row in rows if not row["equal"]] == [] and len(rows) > 20
    assert all(row["error"] is not None and row["eager_error"] is not None for row in rows)


@pytest.mark.compile
@pytest.mark.parametrize(("right", "wrong"), [("0.7071067811865476", "0.77"), ("0.3989422804014327", "0.43"), ("32.0", "30.0")])
def test_a_kernel_that_is_a_little_wrong_is_found(deep: Deep, right: str, wrong: str) -> None:
    """A constant changed by a few parts in a hundred, forward or backward, is not taken for rounding."""
    texts = [code.text for code in deep.live.codes]
    assert any(right in text for text in texts), "the code has the constant that is broken here"
    try:
        for code, text in zip(deep.live.codes, texts, strict=True):
            object.__setattr__(code, "text", text.replace(right, wrong))
        assert not all(row.equal for row in deep.rows())
    finally:
        for code, text in zip(deep.live.codes, texts, strict=True):
            object.__setattr__(code, "text", text)


def _narrowly(function: Any) -> Any:
    """The function with all that it computes in float64 computed in float32, and cast afterwards."""
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}

    class Narrow(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def narrowed(value: Any) -> Any:
                if isinstance(value, torch.Tensor):
                    return value.to(narrow.get(value.dtype, value.dtype))
                return narrow.get(value, value) if isinstance(value, torch.dtype) else value

            given = pytree.tree_map(narrowed, (args, kwargs or {}))
            return operator(*given[0], **given[1])

    def compiled(x: torch.Tensor) -> torch.Tensor:
        with Narrow():
            result = function(x)
        return result.to(function(x).dtype)

    return compiled


TENTHS = torch.full((40,), 0.1, dtype=torch.float64)
IN_FLOAT64: dict[str, Any] = {
    "softmax": lambda x: torch.softmax(x, -1, dtype=torch.float64),
    "log_softmax": lambda x: torch.log_softmax(x, -1, dtype=torch.float64),
    "sum": lambda x: x.sum(-1, dtype=torch.float64),
    "nansum": lambda x: x.nansum(-1, dtype=torch.float64),
    "mean": lambda x: x.mean(-1, dtype=torch.float64),
    "prod": lambda x: x.prod(-1, dtype=torch.float64),
    "cumsum": lambda x: x.cumsum(-1, dtype=torch.float64),
    "cumprod": lambda x: x.cumprod(-1, dtype=torch.float64),
    "norm": lambda x: torch.norm(x, dim=-1, dtype=torch.float64),
    "vector norm": lambda x: torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64),
    "all of a sum": lambda x: x.sum(dtype=torch.float64),
    "exp of double": lambda x: x.double().exp(),
    "sum of double": lambda x: x.double().sum(-1),
    "product of double": lambda x: x.double() @ x.double().T,
    "layer norm of double": lambda x: nn.functional.layer_norm(x.double(), (40,)),
    "exp of complex128": lambda x: x.to(torch.complex128).exp(),
    "times float64": lambda x: x * TENTHS,
}


@pytest.mark.parametrize("name", IN_FLOAT64)
def test_what_eager_computes_in_float64_is_held_to_float64(name: str) -> None:
    """A compiler that computes it in float32 and casts is said to differ, though the inputs are float32."""
    torch.manual_seed(0)
    call = Call(IN_FLOAT64[name], (0.5 + torch.rand(8, 40),), {})
    eager = outcome_of(call.function, call)
    (wrong,) = compared(call, eager, outcome_of(_narrowly(call.function), call))
    assert wrong.equal is False and wrong.error is not None and wrong.error < 1e-4, wrong


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.exp().double(),
        lambda x: x.sum(-1).double() * 3,
        lambda x: torch.softmax(x, -1).double().cumsum(-1),
        lambda x: (x * torch.tensor(0.1, dtype=torch.float64)).double(),
        lambda x: (x.double() / 3).float().double(),
        lambda x: x.to(torch.complex64).exp().to(torch.complex128),
    ],
    ids=["exp", "sum", "softmax", "times float64 without dimensions", "narrowed between", "complex"],
)
def test_what_eager_rounds_to_float32_before_is_held_to_float32(function: Any) -> None:
    """A value of type float64 has float32's rounding where eager computes in float32 and casts afterwards."""

    class OtherRounding(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def moved(value: Any) -> Any:
                narrow = isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.complex64)
                return value * (1 + 2**-23) if narrow else value

            return pytree.tree_map(moved, operator(*args, **(kwargs or {})))

    def compiled(x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        with OtherRounding():
            return function(x) * factor

    torch.manual_seed(0)
    call = Call(function, (0.5 + torch.rand(8, 40),), {})
    eager = outcome_of(function, call)
    (right,) = compared(call, eager, outcome_of(compiled, call))
    assert right.equal and right.max_rel is not None and right.max_rel > 1e-8, right
    (wrong,) = compared(call, eager, outcome_of(lambda x: compiled(x, 1.0001), call))
    assert wrong.equal is False


@pytest.mark.compile
def test_a_backend_that_computes_in_float32_is_found() -> None:
    """check() says so of each value that eager computes in float64, and of no other."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.softmax(x, -1, dtype=torch.float64), torch.softmax(x, -1).double(), x.double().exp()

    def narrow(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return lambda x: [torch.softmax(x, -1).double(), torch.softmax(x, -1).double() * (1 + 2**-24), x.exp().double()]

    rows = explorer.trace(program, torch.randn(8, 40), backend=narrow).check()
    assert [row["equal"] for row in rows] == [False, True, False]


def test_one_wrong_element_among_many_is_found() -> None:
    """The largest error counts as well as the mean."""
    exact = torch.randn(10_000, dtype=torch.float64)
    eager, given = exact.bfloat16(), exact.bfloat16()
    assert judged(eager, given, Evidence(exact)).equal
    given[17] += 0.25
    assert not judged(eager, given, Evidence(exact)).equal
    assert not judged(eager, eager * 1.02, Evidence(exact)).equal


def test_a_few_small_numbers_of_16_bits_are_not_hidden_by_many_large_ones() -> None:
    """Each is off by a unit, which rounding can do to one of them, but not to all that are of that size."""
    torch.manual_seed(0)
    exact = torch.cat([torch.randn(2000).double().abs() + 1, 2**-10 * (1 + 0.1 * torch.rand(16).double())])
    eager = exact.bfloat16()
    given = eager.clone()
    assert judged(eager, given, Evidence(exact)).equal
    given.view(torch.int16)[-16:] += 1
    wrong = judged(eager, given, Evidence(exact))
    assert not wrong.equal and "root mean square" in wrong.note


def test_infinities_and_nan_are_equal_to_themselves_only() -> None:
    """Overflow where float64 rounds to it is right; elsewhere, as NaN where there is a number, it is wrong."""
    exact = torch.tensor([1.0, 1e6, float("inf"), float("nan")], dtype=torch.float64)
    eager = exact.half()
    assert judged(eager, eager.clone(), Evidence(exact)).equal
    for place, wrong in ((0, float("nan")), (0, float("inf")), (1, 1.0), (2, 1.0), (3, 1.0), (2, -float("inf"))):
        given = eager.clone()
        given[place] = wrong
        assert not judged(eager, given, Evidence(exact)).equal


@pytest.mark.parametrize("given", [5.0, -math.inf, math.nan])
def test_nothing_but_the_same_infinity_is_near_one(given: float) -> None:
    """Where eager overflows, a number is not called equal without a look at float64."""
    eager = torch.tensor([1.0, math.inf])
    assert near(eager, eager.clone()) and not near(eager, torch.tensor([1.0, given]))
    verdict = judged(eager, torch.tensor([1.0, 5.0]), Evidence(exact=torch.tensor([1.0, 5.0]).double()))
    assert verdict.equal and verdict.error == 0 and verdict.eager_error == math.inf


def test_an_overflow_of_eager_s_says_so_and_hides_nothing() -> None:
    """Where eager alone overflows max_abs is infinite, and the note says why; other elements are judged as ever."""
    exact = torch.tensor([300.0, 0.5, -2.0], dtype=torch.float64)
    eager, given = exact.half(), exact.half()
    eager[0] = float("inf")
    right = judged(eager, given, Evidence(exact))
    assert right.equal and not untold(right.note, "eager", "NaN", "1", "float64", "max_abs") and "compiled" not in right.note
    given[1] = 0.51
    assert not judged(eager, given, Evidence(exact)).equal


def test_a_small_element_is_held_to_its_own_size() -> None:
    """An element that is no sum is held to the same precision beside large numbers as alone."""
    exact = torch.tensor([1e8, 1e-8], dtype=torch.float64)
    eager = exact.float()
    wrong = torch.tensor([1e8, 1.001e-8])
    assert judged(eager, eager + torch.tensor([8.0, 0.0]), Evidence(exact)).equal
    assert not judged(eager, wrong, Evidence(exact)).equal


def test_an_element_may_be_nearer_to_float64_than_eager_s() -> None:
    """The tail of the normal distribution, which eager in bfloat16 cancels to 0 and a kernel in float32 does not."""
    x = torch.tensor([-4.6875, -1.7656, 0.5, 2.0], dtype=torch.bfloat16)
    exact, eager = torch.special.ndtr(x.double()), torch.special.ndtr(x)
    kernel = (0.5 * (1 + torch.erf(x.float() * 0.7071067811865476))).bfloat16()
    assert eager[0] == 0 < kernel[0] and judged(eager, kernel, Evidence(exact)).equal
    for wrong in (-kernel[0], 3 * kernel[0]):
        assert not judged(eager, torch.cat([wrong.view(1), kernel[1:]]), Evidence(exact)).equal


def test_the_mean_of_few_elements_may_be_off_by_chance() -> None:
    """Four elements that are rounded to the wrong side, 1.5 times what rounding gives, are no fault, and 4,000 are one."""
    for count, equal in ((4, True), (4_000, False)):
        exact = torch.full((count,), 1.0 + 2**-9, dtype=torch.float64)  # a quarter of a unit above 1
        eager = torch.ones(count, dtype=torch.bfloat16)
        assert judged(eager, eager + 2**-7, Evidence(exact)).equal is equal


def test_memory_that_nobody_wrote_is_not_compared() -> None:
    """Unwritten memory is no result; a tensor that is created empty and then filled is one."""

    def unwritten(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        filled = torch.empty_like(x)
        filled.copy_(x)
        return torch.empty(4, dtype=torch.int64), x.new_empty(4) + x, filled

    call = Call(unwritten, (torch.arange(4.0),), {}, train=False)
    eager = outcome_of(unwritten, call)
    given = outcome_of(lambda x: (torch.full((4,), 5), x + 7, x + 1), call)
    rows = compared(call, eager, given)
    assert [row.equal for row in rows] == [None, None, False]
    assert [row.note for row in rows[:2]] == [check_rows.UNWRITTEN] * 2
    assert [told(row) for row in rows] == [PARTS, PARTS, {"values", *PARTS}]


def test_a_number_from_memory_that_nobody_wrote_is_not_compared() -> None:
    """A Python number that was read from such memory is no result either, and its row does not say that it was compared."""
    call = Call(lambda x: (torch.empty(1).item(), float(x.sum())), (torch.arange(4.0),), {})
    eager = outcome_of(call.function, call)
    one, other = compared(call, eager, outcome_of(lambda x: (0.5, 9.0), call))
    assert (one.equal, one.note, told(one)) == (None, check_rows.UNWRITTEN, {"type"})
    assert (other.equal, told(other)) == (False, {"value", "type"})


def test_strides_of_a_gradient_are_not_compared() -> None:
    """autograd lays out `.grad` as its input whatever an operator gives, and the row says so. An output's are compared."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.t() * 2

    call = Call(program, (torch.randn(3, 4, requires_grad=True),), {}, train=True)
    eager = outcome_of(program, call)
    parts = {name: replace(part, strides=part.strides[::-1]) for name, part in eager.returned.items()}
    output, gradient = compared(call, eager, replace(eager, returned=parts))
    assert output.equal is False and not untold(output.note, "strides")
    assert gradient.equal and not untold(gradient.compared, "values", "type", "shape", "not strides", ".grad")
    x = torch.randn(3, 4, requires_grad=True)
    given_by_operator = torch.autograd.grad(program(x).contiguous().sum(), x)[0]
    program(x).contiguous().sum().backward()
    assert x.grad is not None and x.grad.stride() == x.stride() != given_by_operator.stride()


def test_values_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether two values are near is asked once a pair; the function is called again only for values that are not."""
    asked, near = [], check_rows.near
    monkeypatch.setattr(check_rows, "near", lambda one, other: asked.append(one) or near(one, other))
    called = []
    monkeypatch.setattr(
        float64_reference, "outcome_of", lambda *args, **kwargs: called.append(args) or outcome_of(*args, **kwargs)
    )
    call = Call(lambda x: (torch.empty(4).copy_(x), x * 2), (torch.arange(4.0),), {})
    eager = outcome_of(call.function, call)
    assert [row.equal for row in compared(call, eager, eager)] == [True, True]
    assert (len(asked), len(called)) == (2, 0)
    rows = compared(call, eager, outcome_of(lambda x: (x + 1, x * 2), call))
    assert [row.equal for row in rows] == [False, True]
    assert len(asked) == 4 and called


def test_random_values_that_nothing_is_said_of_are_not_called_compared() -> None:
    """With too few calls for a mean the row says that the type was compared, not the values."""
    call = Call(lambda x: nn.functional.dropout(x, 0.5), (torch.ones(200),), {})
    drawn = lambda seed: outcome_of(call.function, call, seed=seed)  # noqa: E731
    other = lambda seed: drawn(seed + 1000)  # noqa: E731
    for draws, expected in ((2, PARTS), (DRAWS, {"values", *PARTS})):
        (row,) = compared(call, drawn(0), other(0), redo=(drawn, other), draws=draws)
        assert (row.equal, row.random, told(row)) == (None, True, expected)


def test_whole_numbers_are_exact_but_where_rounding_decides() -> None:
    """An index is eager's or float64's; a float that is rounded to one side or the other may be either."""
    eager = torch.tensor([30_000, 30_001, 7])
    assert exactly(eager, eager.clone(), Evidence()).equal
    assert not exactly(eager, eager + 1, Evidence()).equal
    either = Evidence(None, [Varied(torch.tensor([30_000, 30_002, 7]), eager)])
    assert exactly(eager, torch.tensor([30_000, 30_002, 7]), either).equal
    assert not exactly(eager, torch.tensor([30_000, 30_002, 8]), either).equal
    wide = Evidence(torch.tensor([30_000, 30_005, 7]))
    assert exactly(eager, torch.tensor([30_000, 30_005, 7]), wide).equal, "what float64 gives is right too"
    assert not exactly(eager, torch.tensor([30_000, 30_003, 7]), wide).equal


def test_what_is_only_expected_has_a_bound_by_its_type() -> None:
    """Without the function that makes it, a value is held to a thousandth of itself, and not to a fixed 1e-4."""
    expected = torch.full((1000,), 1e-5)
    assert beside(expected, expected * 1.0005).equal
    assert not beside(expected, torch.zeros(1000)).equal
    assert not beside(expected.double(), expected.double() * 1.0005).equal
    assert not beside(torch.arange(5), torch.arange(5) + 1).equal


@pytest.mark.parametrize(("most_bytes", "groups"), [(check_rows.MAX_BYTES, 1), (1, 3)])
def test_random_values_share_their_calls(most_bytes: int, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several values that are random cost one call for each draw of each side, unless they are too large to be kept at once."""
    monkeypatch.setattr(check_rows, "MAX_BYTES", most_bytes)
    call = Call(lambda x: [nn.functional.dropout(x * n, 0.5) for n in (1, 2, 3)], (torch.ones(200),), {})
    calls = []

    def drawn(seed: int, shift: float = 0.0) -> Outcome:
        calls.append(seed)
        return outcome_of(lambda x: [y + shift for y in call.function(x)], call, seed=seed)

    def other(seed: int) -> Outcome:
        return drawn(seed + 1000)

    rows = compared(call, drawn(0), other(0), redo=(drawn, other))
    assert [(row.equal, row.random) for row in rows] == [(None, True)] * 3
    assert not any(untold(row.note, "random", "distributed", "eager") for row in rows)
    assert len(calls) == 2 + 1 + groups * 2 * DRAWS
    rows = compared(call, drawn(0), other(0), redo=(drawn, lambda seed: drawn(seed + 1000, 5.0)))
    assert [(row.equal, row.random) for row in rows] == [(False, True)] * 3


def test_the_user_s_module_stays_as_it_is() -> None:
    """float64 is for copies: parameters, buffers and gradients are the user's own afterwards."""
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).bfloat16()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = torch.randn(6, 4, dtype=torch.bfloat16, requires_grad=True)
    found = Float64Reference(Call(module, (x,), {}, True)).exact()
    assert found is not None
    assert found.returned["output"].value.dtype == found.returned["gradient of 0.weight"].value.dtype == torch.float64
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module[0].weight.dtype == torch.bfloat16 and module[0].weight.grad is None and x.grad is None
    wide = wide_call(Call(module.forward, (x,), {}))
    assert wide is not None and wide.function.__self__ is not module


def test_constants_of_a_closure_and_casts_are_widened_too() -> None:
    """A function with tensors and types of its own has a reference: what it makes in 16 bits is made in float64."""
    weight = torch.randn(4, 4, dtype=torch.bfloat16)
    x = torch.randn(3, 4, dtype=torch.bfloat16)
    found = Float64Reference(
        Call(lambda x: (x @ weight).to(torch.float32) * torch.full((4,), 0.1, dtype=torch.bfloat16), (x,), {})
    ).exact()
    assert found is not None
    assert torch.allclose(found.returned["output"].value, x.double() @ weight.double() * 0.1, rtol=1e-12)


def test_attention_that_drops_nothing_is_not_random() -> None:
    """Attention on the CPU is computed in float64 and its rounding varied: its results are no random numbers of eager's."""
    q, k, v = (torch.randn(1, 2, 8, 16) for _ in range(3))
    truth = Float64Reference(Call(lambda: nn.functional.scaled_dot_product_attention(q, k, v), (), {}))
    wide = torch.softmax(q.double() @ k.double().mT / 4, -1) @ v.double()
    exact = truth.exact()
    assert exact is not None
    torch.testing.assert_close(exact.returned["output"].value, wide, rtol=1e-12, atol=1e-12)
    around, *others = [varied for varied, *_ in truth.samples(2)]
    assert not all(torch.equal(around.returned["output"].value, other.returned["output"].value) for other in others)


def test_random_numbers_are_the_same_in_float64() -> None:
    """Dropout in float64 keeps what it keeps in float32."""
    call = Call(lambda x: nn.functional.dropout(x, 0.5), (torch.ones(1000),), {})
    found = Float64Reference(call).exact()
    assert found is not None
    assert torch.equal(found.returned["output"].value.float(), outcome_of(call.function, call).returned["output"].value)


def test_long_sums_are_held_to_what_they_add_up() -> None:
    """A sum near zero of large numbers may be off by what these round to, and no more."""
    half = torch.randn(10_000) * 1e6
    call = Call(lambda t: t.sum(), (torch.cat([half, -half + 0.25]),), {})
    truth, eager = Float64Reference(call), outcome_of(call.function, call).returned["output"].value
    evidence = truth.of("output", eager, 18)
    assert evidence.exact is not None and abs(float(evidence.exact) - 2500) < 1e3
    assert judged(eager, (evidence.exact + 20).float(), evidence).equal
    assert not judged(eager, (evidence.exact + 1e5).float(), evidence).equal


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_the_sign_of_zero_is_counted_and_not_judged(dtype: torch.dtype) -> None:
    """The row is equal, and its note says how many zeros have the other sign; a number that is not zero is not among them."""
    x = torch.tensor([0.0, -0.0, 0.0, 1.0]).to(dtype)
    call = Call(lambda x: x.clone(), (x,), {})
    (row,) = compared(call, outcome_of(call.function, call), outcome_of(lambda x: x * torch.tensor([-1, 1, -1, 1]), call))
    assert row.equal and not untold(row.note, "2", "sign")


def test_each_call_of_the_function_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check may call the function many times after the compiled code: what it does, and how far it is, is said of each."""
    told: list[tuple[Any, ...]] = []
    monkeypatch.setattr(float64_reference, "step", lambda *phase: told.append(phase))
    truth = Float64Reference(Call(torch.tanh, (torch.ones(4),), {}))
    truth.exact()
    assert told == [("calling it eagerly in float64",)]
    truth.samples(3)
    assert [phase[1:] for phase in told[1:]] == [(0, 3), (1, 3), (2, 3)] and "rounding" in told[1][0]
    truth.samples(3)
    assert len(told) == 4, "what was called is kept"


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_complex_numbers_of_two_halves_are_compared() -> None:
    """PyTorch has no `equal` of complex32: a check compares their parts, and tells another value."""
    halves = torch.tensor([1 + 2j, 3 - 1j]).to(torch.complex32)
    outcomes = [Outcome({"output": Part(value)}, {}) for value in (halves, halves.clone(), halves * 2)]
    call = Call(lambda: None, (), {})
    equal = [compared(call, outcomes[0], other, truth=Float64Reference(call))[0].equal for other in outcomes[1:]]
    assert equal == [True, False]
