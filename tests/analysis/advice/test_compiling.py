"""Verdicts on a cold compile, and the compile that proves one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.analysis.advice import compiling
from explorer.errors import LiveError
from explorer.lab.live.regions import compiled_once
from explorer.model.values import Artifact
from explorer.tracing.traced import Trace

COPIES = 4


class Layer(nn.Module):
    """A block that is repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.up(self.norm(x)).tanh()


class Layers(nn.Module):
    """A model of a few equal blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.h = nn.ModuleList(Layer() for _ in range(COPIES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.h:
            x = layer(x)
        return x


@pytest.mark.compile
def test_repeated_blocks_are_named_and_compiled_once_to_prove_it() -> None:
    """The verdict names class and modules; its proof compiles fewer kernels to the same result, and the class is as before."""
    forward = Layer.forward
    trace = explorer.trace(Layers(), torch.randn(8, 16), target="h100")
    (verdict,) = [v for v in trace.advise(prove=True) if v.kind == compiling.BLOCKS]
    assert verdict.title == "Layer is compiled 4 times, h.0 to h.3" and verdict.regions == ("h.0", "h.1", "h.2", "h.3")
    assert verdict.lines[0].code.startswith("def forward") and verdict.cost.once
    proof = verdict.proof
    assert proof is not None and proof.figure == "compile_seconds" and proof.before and proof.after and proof.gone
    assert "result: equal" in proof.note, proof.note
    counts = re.search(r"(\d+) kernels? before and \d+ compiles? of (\d+) kernels? after", proof.note)
    assert counts and len(trace.kernels) == int(counts[1]) > int(counts[2])
    assert Layer.forward is forward and not vars(forward)


def test_modules_that_the_function_has_not_are_refused() -> None:
    """Nothing is marked where a name is no module of what was traced."""
    with pytest.raises(LiveError, match="no module"), compiled_once(Layers(), ("h.0", "h.9")):
        pass
    with pytest.raises(LiveError, match="no module"), compiled_once(torch.sin, ("h.0",)):
        pass
    assert not vars(Layer.forward)


@pytest.mark.parametrize(
    ("setting", "set_by", "kind"),
    [
        ("fx_graph_cache", "the program", compiling.CACHES),
        ("fx_graph_cache", "explorer", ""),
        ("compile_threads", "the program", compiling.THREADS),
        ("compile_threads", "torch.compile", ""),
    ],
)
def test_what_the_program_itself_set_against_its_compile_is_said(setting: str, set_by: str, kind: str) -> None:
    """Caches that it switched off and one thread are verdicts; what explorer or torch set is none."""
    value, default = ("False", "True") if setting == "fx_graph_cache" else ("1", "8")
    row = {"of": "inductor", "name": setting, "value": value, "default": default, "set_by": set_by}
    kernels = [_artifact("kernel", {}, number) for number in range(compiling.MIN_KERNELS)]
    found = [verdict for verdict in _advice(_artifact("setting", {"rows": [row]}), *kernels) if verdict.kind in compiling.KINDS]
    assert [verdict.kind for verdict in found] == ([kind] if kind else [])
    if kind == compiling.THREADS:
        assert found[0].call == "t.what_if(settings={'torch._inductor.config.compile_threads': 8})"


@pytest.mark.parametrize(("seconds", "stands_out"), [(8.0, True), (4.0, False), (0.5, False)])
def test_autotuning_stands_out_where_it_takes_most_of_a_long_compile(seconds: float, stands_out: bool) -> None:
    """It does not where the rest of the compile takes longer, or all of it is short."""
    rows = [_phase("dynamo", 0, seconds + 5.0), _phase("mm_template_autotuning", 1, seconds)]
    kinds = [verdict.kind for verdict in _advice(_artifact("phase", {"rows": rows}))]
    assert (compiling.TUNING in kinds) == stands_out


@pytest.mark.parametrize(("seconds", "stands_out"), [(9.0, True), (1.0, False)])
def test_a_kernel_stands_out_that_takes_most_of_the_kernels_compile(seconds: float, stands_out: bool) -> None:
    """One that is short does not."""
    figures = {"triton_kernel_compile_times_us": f'[["large", {seconds * 1e6}], ["small", 1000]]'}
    verdicts = _advice(_artifact("compilation_metrics", {"rows": [{"of": "forward", "figures": figures}]}))
    assert any(v.kind == compiling.KERNEL and v.title.startswith("large takes 9") for v in verdicts) == stands_out


def _advice(*artifacts: Artifact) -> Any:
    return Trace(artifacts=artifacts).advise()


def _phase(name: str, depth: int, seconds: float) -> Mapping[str, Any]:
    return {"name": name, "function": "", "graph": "", "start": 0.0, "seconds": seconds, "depth": depth}


def _artifact(stage: str, data: Mapping[str, Any], number: int = 0) -> Artifact:
    return Artifact(f"{stage}:{number}", stage, "0/0", "", stage, "text", "", data=data)
