"""OpenVINO as a Compiler: what it is called, whether it is here, what it emits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from explorer.capture.compilers.compiler import Compiler
from explorer.model.stage import Emit
from explorer.stages.openvino import STAGES as OPENVINO_STAGES


def backend(emit: Emit, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A backend for torch.compile that compiles by OpenVINO; what needs OpenVINO is imported here."""
    from explorer.capture.compilers.openvino.backend import openvino_backend

    return openvino_backend(emit, options)


@contextmanager
def watch(emit: Emit) -> Iterator[None]:
    """Observe OpenVINO's backend where a recorded program asks torch.compile for it."""
    from explorer.capture.compilers.openvino import observing

    with observing.watch(emit):
        yield


OPENVINO = Compiler(
    name="openvino",
    title="OpenVINO",
    about="Intel's compiler and runtime for inference, which takes the parts of a graph whose operators it supports",
    extra="openvino",
    modules=("openvino", "packaging"),
    backend=backend,
    kinds=("forward", "backward", "setting", "execution", *(stage.name for stage in OPENVINO_STAGES)),
    options=MappingProxyType(
        {
            "device": "the device of OpenVINO that compiles and runs, 'CPU' by default",
            "config": "properties of that device, as OpenVINO names them; INFERENCE_PRECISION_HINT is 'f32' unless given",
            "decompositions": "operators that AOTAutograd decomposes beside those that OpenVINO's backend names",
            "disabled_ops": "operators that OpenVINO's backend is to leave to PyTorch, such as 'torch.ops.aten.relu.default'",
            "testing": "True to hand OpenVINO also a part of one operator, which its backend leaves to PyTorch by default",
        }
    ),
    registered=("openvino",),
    watch=watch,
)
