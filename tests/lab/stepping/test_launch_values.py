"""The arguments of each launch, held to what eager computes, and to the order in which Inductor's wrapper launches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import explorer
from explorer.errors import CompileError, InputError, LiveError, NoVerbError
from explorer.model.values import Table
from tests.facts import says

pytestmark = pytest.mark.compile


def program(x: torch.Tensor, w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = (x @ w).cos().index_put((i,), x.new_ones(()).expand(4, 8))
    return torch.log(y @ w.T) / (w[:, 0] > 0)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(16, 8), torch.randn(8, 8), torch.tensor([1, 2, 3, 5])


@pytest.fixture(scope="module", params=["cpu", "h100"])
def trace(request: pytest.FixtureRequest) -> explorer.Trace:
    return explorer.trace(program, *inputs(), target=request.param)


@pytest.fixture(scope="module")
def rows(trace: explorer.Trace) -> Table:
    return trace.live.values("kernel")


def statistics(value: torch.Tensor) -> dict[str, Any]:
    """What a row says of a tensor, computed another way: element by element, in Python."""
    numbers = value.double().flatten().tolist()
    finite = [n for n in numbers if abs(n) < float("inf")]
    return {
        "shape": tuple(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "stride": tuple(value.stride()),
        "min": pytest.approx(min(finite), rel=1e-4),
        "max": pytest.approx(max(finite), rel=1e-4),
        "mean": pytest.approx(sum(finite) / len(finite), rel=1e-4),
        "nan": sum(n != n for n in numbers),
        "inf": sum(abs(n) == float("inf") for n in numbers),
    }


def holds(row: Mapping[str, Any], value: torch.Tensor) -> None:
    expected = statistics(value)
    assert {name: row[name] for name in expected} == expected


def test_what_is_read_and_written_is_eagers(rows: Table) -> None:
    """The first product reads x and w and writes their product; the last writes the program's result, NaNs counted."""
    x, w, i = inputs()
    first = [row for row in rows if row["launch"] == 1]
    assert [(row["variable"], row["when"]) for row in first] == [("arg0_1", "before"), ("arg1_1", "before"), ("buf0", "after")]
    for row, value in zip(first, (x, w, x @ w), strict=True):
        holds(row, value)
    (index,) = (row for row in rows if row["dtype"] == "int64" and row["when"] == "before")
    holds(index, i)
    result = program(x, w, i)
    assert result.isnan().any() and result.isinf().any()
    holds(rows[-1], result)


def test_launches_come_in_the_order_of_the_wrapper(trace: explorer.Trace, rows: Table) -> None:
    """Each launch and library call of the output code is there once, in the order of its lines, and is what the line says."""
    (wrapper,) = trace.find("output_code")
    text = wrapper.text.split("\n")
    order = dict.fromkeys((row["launch"], row["kernel"], row["line"]) for row in rows)
    names = {kernel.name for kernel in trace.kernels} | {"extern_kernels.mm"}
    called = [
        (match[1], number)
        for number, line in enumerate(text, 1)
        if (match := re.match(r"\s+([\w.]+?)(?:\.run)?\(", line)) and match[1] in names
    ]
    assert [(name, line) for _, name, line in order] == called
    assert [launch for launch, _, _ in order] == list(range(1, len(called) + 1))
    assert all(row["variable"] in text[row["line"] - 1] for row in rows)


def test_what_a_kernel_reads_is_what_the_one_before_wrote(rows: Table) -> None:
    """A variable that no launch wrote since is read with the statistics with which it was written, and none is read unwritten."""
    last: dict[str, Mapping[str, Any]] = {}
    compared = 0
    for row in rows:
        facts = {name: row[name] for name in ("min", "max", "mean", "nan", "inf")}
        if row["when"] == "after":
            last[row["variable"]] = facts
        elif row["variable"] in last:
            assert facts == last[row["variable"]]
            compared += 1
        else:
            assert not row["argument"].startswith("out_ptr")
    assert compared


def test_one_kernels_launches_are_numbered_for_its_script(trace: explorer.Trace, rows: Table) -> None:
    """A kernel gives its own launches; `run` counts those of a name, as the second product shows; `most` leaves it out."""
    kernel = trace.kernels[0]
    alone = kernel.values()
    assert {row["kernel"] for row in alone} == {kernel.name} and {row["run"] for row in alone} == {0}
    assert [row["max"] for row in alone] == [row["max"] for row in rows if row["kernel"] == kernel.name]
    assert {row["run"] for row in rows if row["kernel"] == "extern_kernels.mm"} == {0, 1}
    assert {row["run"] for row in trace.live.values("kernel", max_launches=1)} == {0}


def test_a_training_step_and_its_state_stay_as_they_are() -> None:
    """The launches are those of forward and backward; parameters, gradients and random numbers are as before."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(8))
    x = torch.randn(4, 8)
    trace = explorer.trace(model, x, target="h100", train=True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, held = torch.get_rng_state(), x.clone()
    rows = trace.live.values("kernel")
    assert list(dict.fromkeys(row["graph"] for row in rows)) == ["forward", "backward"]
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(x, held)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_sizes_of_a_dynamic_shape_are_values() -> None:
    """A number that is given to a kernel has its value, and no statistics."""
    x = torch.randn(6, 4)
    torch._dynamo.mark_dynamic(x, 0)
    rows = explorer.trace(lambda x: x.sin() + x.shape[0], x, target="h100").live.values("kernel")
    numbers = {row["argument"]: row["value"] for row in rows if row["value"] is not None}
    assert numbers["xnumel"] == "24" and "6" in numbers.values()


def test_without_launches_the_error_says_why() -> None:
    """A loaded trace, another backend, a hand-written kernel, a compile that failed, and a wrong number."""
    x = torch.randn(4)
    trace = explorer.trace(torch.sin, x, target="h100")
    with pytest.raises(LiveError, match=says("launches", "process", "explorer.trace")):
        explorer.tracing.traced.loads(explorer.sources.files.trace_file.dumps(trace)).live.values("kernel")
    with pytest.raises(InputError, match=says("max_launches", "1", "0")):
        trace.live.values("kernel", max_launches=0)
    with pytest.raises(InputError, match=says("CPU", "0 s", "limit=")):
        trace.live.values("kernel", limit=0)
    with pytest.raises(NoVerbError, match=says("launches", "Inductor", "t.live.values()")):
        explorer.trace(torch.sin, x, backend="aot_eager").live.values("kernel")

    def failing(x: torch.Tensor) -> torch.Tensor:
        return x @ x.new_ones(3)

    with pytest.raises(CompileError):
        explorer.trace(failing, x, target="h100").live.values("kernel")
