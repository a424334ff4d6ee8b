"""On an attached NVIDIA GPU: edits of Triton source, TTGIR and PTX run in the compiled function, and broken ones harm nothing."""

from __future__ import annotations

import pytest
import torch

import explorer
from explorer.lab.live.protocol import live_of
from explorer.stages.inductor.signature import parameters

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an attached CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.sin(), -1).relu() + 1.25


@pytest.fixture(scope="module")
def kernel() -> explorer.Kernel:
    """The Triton kernel of a program that adds 1.25."""
    return explorer.trace(program, torch.randn(512, 1000, device="cuda")).kernels[0]


def equal(kernel: explorer.Kernel) -> list[object]:
    return [row["equal"] for row in kernel._trace.check()]


def test_an_edit_of_the_source_runs_in_the_function(kernel: explorer.Kernel) -> None:
    """A right edit is in place, timed and counted; a wrong one is named, and the original stays."""
    one, x = "1.25, tl.float32)", torch.randn(512, 1000, device="cuda")
    assert one in kernel.source
    right = kernel.edit(kernel.source.replace(one, "0.75 + 0.5, tl.float32)"))
    assert right.in_place and right.seconds and right.call_seconds and right.cost["registers"], repr(right)
    assert kernel.edits.reset() and torch.allclose(kernel._trace.live.run(x), program(x))
    wrong = kernel.edit(kernel.source.replace(one, "2.25, tl.float32)"))
    assert wrong.status == "wrong result" and wrong.max_abs == pytest.approx(1, rel=1e-4), repr(wrong)
    assert equal(kernel) == [True]


def test_an_edit_below_the_source_is_what_runs(kernel: explorer.Kernel) -> None:
    """Unchecked, a constant changed in TTIR, TTGIR or PTX changes what the function returns; reset puts it back."""
    x = torch.randn(512, 1000, device="cuda")
    for form, before, after in (
        ("ttir", "1.250000e+00", "2.250000e+00"),
        ("ttgir", "1.250000e+00", "2.250000e+00"),
        ("llir", "1.250000e+00", "2.250000e+00"),
        ("ptx", "0f3FA00000", "0f40100000"),
    ):
        text = kernel.text(form)
        assert before in text, form
        assert kernel.edit(**{form: text}).in_place, form
        kernel.edits.reset()
        variant = kernel.edit(check=False, **{form: text.replace(before, after)})
        assert variant.in_place, repr(variant)
        assert torch.allclose(kernel._trace.live.run(x), program(x) + 1, atol=1e-4), form
        kernel.edits.reset()
        assert torch.allclose(kernel._trace.live.run(x), program(x), atol=1e-4)


def test_what_cannot_run_is_named_and_the_gpu_lives(kernel: explorer.Kernel) -> None:
    """An illegal address, a kernel without an end, and a text that does not compile end in the process of the trial."""
    last = [line for line in kernel.source.splitlines() if "tl.store" in line][-1]
    first = parameters(kernel.source, "triton")[0].name
    again = f"t = tl.load({first}, volatile=True)"
    broken = {
        "crash": kernel.source.replace(last, f"    tl.store({first} + (1 << 40), 0.0)\n{last}"),
        "timeout": kernel.source.replace(last, f"    {again}\n    while t != 12345.0:\n        {again}\n{last}"),
        "compile error": kernel.source.replace(last, "    tl.dot(1, 2)"),
        "syntax error": kernel.source.replace(last, "    tl.store("),
    }
    for status, text in broken.items():
        variant = kernel.edit(text, timeout=40)
        assert variant.status in ({"crash", "launch error"} if status == "crash" else {status}), repr(variant)
        assert variant.line or status in ("crash", "timeout"), repr(variant)
        assert not variant.in_place and equal(kernel) == [True], status


def test_configs_are_timed_in_turn(kernel: explorer.Kernel) -> None:
    """Each config has a time, results as the kernel's own, and one that cannot be has its error."""
    tuning = kernel.tune([{"num_warps": 1}, {"num_warps": 4}, {"num_warps": 3}])
    assert tuning.measured and [row["error"] == "" for row in tuning._rows] == [True, True, False], tuning._rows
    assert all(row["seconds"] > 0 and row["max_abs"] < 1e-5 and row["registers"] for row in tuning._rows[:2])
    assert kernel.edit(kernel.source, config=tuning.best).in_place
    kernel.edits.reset()


def test_an_edit_of_the_output_code_runs_in_the_function(kernel: explorer.Kernel) -> None:
    """A right edit is in place and timed, with the original's kernel as it is; a wrong one and a hang leave the original."""
    trace, x = kernel._trace, torch.randn(512, 1000, device="cuda")
    text, one = trace.text("output_code"), "1.25, tl.float32)"
    same = trace.live.edit(wrapper=text + "\nthe_same = True\n")
    assert same.in_place and same.kernels == () and same.seconds and same.call_seconds, repr(same)
    own, original = (getattr(w.module, kernel.name) for w in (*live_of(trace).wrappers, *live_of(trace).originals))
    assert own is original and trace.live.edits.reset()
    more = trace.live.edit(wrapper=text.replace(one, "2.25, tl.float32)"), check=False)
    assert more.in_place and more.kernels == (kernel.name,), repr(more)
    assert torch.allclose(trace.live.run(x), program(x) + 1, atol=1e-4) and trace.live.edits.reset()
    wrong = trace.live.edit(wrapper=text.replace(one, "2.25, tl.float32)"))
    assert wrong.status == "wrong result" and wrong.max_abs == pytest.approx(1, rel=1e-4), repr(wrong)
    last = [line for line in text.splitlines() if "tl.store" in line][-1]
    broken = trace.live.edit(wrapper=text.replace(last, "    tl.dot(1, 2)"))
    assert broken.status == "compile error" and broken.text.splitlines()[broken.line - 1] == "    tl.dot(1, 2)", repr(broken)
    launch = next(line for line in text.splitlines() if f"{kernel.name}.run(" in line)
    hang = trace.live.edit(
        wrapper=text.replace(launch, f"{launch}\n{launch[: len(launch) - len(launch.lstrip())]}while True: pass"), timeout=40
    )
    assert hang.status == "timeout" and equal(kernel) == [True], repr(hang)
