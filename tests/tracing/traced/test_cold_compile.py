"""A call is compiled from nothing in another process, which knows the function by a module or by the definitions of a script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import explorer
from explorer.analysis.advice.verdicts import Cost, Verdict
from explorer.lab.live.function import LiveFunction
from explorer.tracing.traced import cold_compile
from explorer.tracing.traced.advice import proof_of_compiles
from tests.facts import untold

#: A script without `if __name__ == "__main__"`, which must run once; its loop calls g with a size after the other.
SCRIPT = """
import torch, explorer
from explorer.tracing.traced import cold_compile
SCALE = 2.0
def g(x):
    return (x.sin() * SCALE).sum()
def f():
    total = 0
    for shape in ((4, 4), (8, 4), (8, 16)):
        torch._dynamo.graph_break()
        total = total + g(torch.ones(shape))
    return total
print("the program runs")
trace = explorer.trace(f, backend="eager")
settings = {"torch._dynamo.config.assume_static_by_default": False}
answer = cold_compile.compiled_cold(cold_compile.job_of(trace._live, arguments={}, settings=settings))
before = {row["frame"] for row in trace.compiler.phases if row["depth"] == 0}
print(len(before), "before", answer.compiles, "after", answer.seconds > 0, answer.error)
"""


@pytest.mark.compile
def test_a_process_has_the_definitions_of_a_script_and_does_not_run_it(tmp_path: Path) -> None:
    """A script's function is compiled in another process, with other settings; the script itself runs once."""
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    # f, then g: once for two sizes that are equal, which share a symbol, and once for two that are not
    assert said == "the program runs\n4 before 3 after True \n"


def test_a_proof_has_the_shorter_compile_of_each_kind() -> None:
    """The shortest compiles are compared, and it is said where equal ones are further apart than they are."""
    before = [cold_compile.Answer(seconds, 3, 4, ("recompiles",)) for seconds in (9.0, 12.0)]
    after = [cold_compile.Answer(seconds, 2, 3, (), "equal") for seconds in (7.0, 8.0)]
    proof = proof_of_compiles(Verdict("recompiles", "", Cost(0.0, "measured", ""), "", ""), before, after)
    assert (proof.before, proof.after, proof.gone) == (9.0, 7.0, True)
    assert not untold(
        proof.note, "up to 3 s apart, which is more than the change", "4 compiles of 3 kernels before and 3 compiles of 2"
    )


def test_a_call_that_cannot_be_pickled_is_said() -> None:
    """A function inside another one is in no other process: the answer says why, and what to do."""

    def local(x: torch.Tensor) -> torch.Tensor:
        return x

    job = cold_compile.Job(local, (), {}, {}, {})
    error = cold_compile.compiled_cold(job).error
    assert "local" in error and "define the function at the top level of a file" in error


@pytest.mark.compile
def test_a_job_has_the_settings_of_this_process_and_those_of_the_advice() -> None:
    """What the program set holds in the other process too, unless the advice changes it."""
    trace = explorer.trace(torch.sin, torch.randn(3), backend="eager")
    import torch._inductor.config as config

    threads, size = "torch._inductor.config.compile_threads", "torch._inductor.config.max_fusion_size"
    live = trace._live
    assert isinstance(live, LiveFunction)
    with config.patch(compile_threads=1, max_fusion_size=3):
        job = cold_compile.job_of(live, arguments={}, settings={threads: 2})
    assert {**job.settings}.items() >= {threads: 2, size: 3}.items()
    assert job.arguments["backend"] == "eager"
