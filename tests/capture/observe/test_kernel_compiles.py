"""Which kernel is waited for, and which choice is timed, is told while it lasts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import LambdaFuture
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._inductor.select_algorithm import AlgorithmSelectorCache

from explorer.capture.observe.kernel_compiles import kernel_compiles
from explorer.tracing.recording.recorder import Recorder


@pytest.fixture
def told() -> list[str]:
    """What is told while the fixtures' calls last."""
    return []


@pytest.fixture
def recorder(told: list[str]) -> Any:
    recorder = Recorder(told.append)
    with kernel_compiles(recorder):
        yield recorder


def test_a_kernel_that_is_waited_for_is_told_by_its_number(recorder: Recorder, told: list[str]) -> None:
    """Each future of torch's wait is told as it begins: the kernel's name, its number, and of how many."""
    seen: list[str] = []
    scope = {"torch": object(), **{name: LambdaFuture(lambda: seen.append(told[-1])) for name in ("kernel_a", "kernel_b")}}
    AsyncCompile._wait_futures(AsyncCompile.__new__(AsyncCompile), scope)
    assert [each.partition(" since ")[0] for each in seen] == ["kernel kernel_a, 1 of 2", "kernel kernel_b, 2 of 2"]
    assert told[-1] == "" and not recorder.failures


@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_kernel_that_is_compiled_is_told_by_its_name(by_keyword: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output code names a kernel by position, autotuning by keyword: either way it is told while it compiles."""
    told: list[str] = []
    seen: list[str] = []

    def triton(_: Any, kernel_name: str, source_code: str, device_str: str = "cuda") -> None:
        seen.append(told[-1])

    monkeypatch.setattr(AsyncCompile, "triton", triton)
    recorder = Recorder(told.append)
    compiler = AsyncCompile.__new__(AsyncCompile)
    with kernel_compiles(recorder):
        if by_keyword:
            compiler.triton(kernel_name="triton_mm_4", source_code="")
        else:
            compiler.triton("triton_mm_4", "")
    assert [each.partition(" since ")[0] for each in seen] == ["kernel triton_mm_4"] and not recorder.failures


def test_a_choice_that_is_timed_is_told_by_its_number(recorder: Recorder, told: list[str]) -> None:
    """Each choice of autotuning is told as it is timed."""
    seen: list[str] = []

    def timed(*inputs: Any, out: Any) -> float:
        seen.append(told[-1])
        return 1.0

    tensors = SimpleNamespace(unpack=lambda: ([], SimpleNamespace(zero_=lambda: None)))
    arguments: Any = SimpleNamespace(get_benchmark_tensors=lambda extern: tensors, expected=None)
    choices: Any = [type(name, (), {"name": name, "benchmark": staticmethod(timed)})() for name in ("mm", "triton_mm_4")]
    AlgorithmSelectorCache.benchmark_choices(choices, arguments)
    assert [each.partition(" since ")[0] for each in seen] == ["choice mm, 1 of 2", "choice triton_mm_4, 2 of 2"]
    assert told[-1] == "" and not recorder.failures


def test_a_kernel_whose_candidates_are_timed_is_told_with_their_number(recorder: Recorder, told: list[str]) -> None:
    """A Triton kernel that is timed at its first launch is told with its number of candidates."""
    seen: list[str] = []

    def bench(launcher: Any, *args: Any, **kwargs: Any) -> float:
        seen.append(told[-1])
        raise ZeroDivisionError

    kernel: Any = SimpleNamespace(
        inductor_meta={"kernel_name": "triton_a"}, launchers=[1, 2, 3], compile_id=None, is_backward=False, bench=bench
    )
    with pytest.raises(ZeroDivisionError):
        CachingAutotuner.benchmark_all_configs(kernel)
    assert seen[0].startswith("kernel triton_a, 3 candidates since ")
    assert told[-1] == "" and not recorder.failures
