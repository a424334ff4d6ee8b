"""Load an ONNX model into ONNX Runtime, take the graph that its optimiser made of it, and run it on torch's tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from explorer.capture.compilers.onnxrt.exporting import OnnxError
from explorer.capture.compilers.onnxrt.graphs import operator
from explorer.capture.compilers.onnxrt.options import Chosen
from explorer.capture.compilers.tensors import with_strides_of
from explorer.process import scratch

#: The engine, as `execution` names it.
ENGINE = "ONNX Runtime"
#: What the log of a session has: nothing, since what is wrong is raised too.
SILENT = 4
#: The setting that has a session say which provider each node is for; older releases ignore it.
PLACEMENT = "session.record_ep_graph_assignment_info"


def loaded(model: bytes, level: str, chosen: Chosen) -> tuple[Any, Any]:
    """An InferenceSession at a level, and the model as it optimised it; OnnxError, in its words, where it cannot load it."""
    import onnx
    import onnxruntime
    import torch

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = SILENT
    kind = f"ORT_{'DISABLE_ALL' if level == 'disable' else f'ENABLE_{level.upper()}'}"
    settings.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, kind)
    settings.intra_op_num_threads = chosen.threads or torch.get_num_threads()
    settings.add_session_config_entry(PLACEMENT, "1")
    with scratch.folder() as folder:
        file = Path(folder) / "optimized.onnx"
        settings.optimized_model_filepath = str(file)
        try:
            session = onnxruntime.InferenceSession(model, settings, providers=list(chosen.providers))
        except _errors() as error:
            raise OnnxError(str(error)) from error
        return session, onnx.load(file)


def _errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises, which has no base in common."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("EPFail", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented", "RuntimeException")
    return (RuntimeError, *(getattr(state, name) for name in names if hasattr(state, name)))


class Part(NamedTuple):
    """A part of a graph: its description, the engine and device that run it, and why not the compiler's own engine runs it."""

    what: str
    engine: str
    device: str
    why: str = ""


class NoSession:
    """A stand-in for a session, for a graph that computes nothing. It counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """No results."""
        self.calls += 1
        return []

    def parts(self) -> list[Part]:
        """The whole graph, which PyTorch runs."""
        return [Part("the whole graph", "PyTorch", "cpu", "it computes nothing: each of its results is an input, or None")]


class Session:
    """A session that is called with a graph's inputs and gives the results of its nodes `computed`; it counts the calls.

    A node that is there twice is one result of the session.

    A tensor without a copy, where ONNX Runtime and numpy have its type.
    """

    def __init__(self, session: Any, computed: Sequence[Any]) -> None:
        session.disable_fallback()  # a provider that fails is an error, not another provider's turn
        self.calls = 0
        self.session = session
        self._values = {node: node.meta.get("val") for node in computed}
        self._computed = tuple(computed)
        self._inputs = [value.name for value in session.get_inputs()]
        self._outputs = [value.name for value in session.get_outputs()]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The results, as torch has them."""
        given = {name: _given(value) for name, value in zip(self._inputs, inputs, strict=True)}
        returned = self.session.run_with_ort_values(self._outputs, given)
        self.calls += 1
        results = {node: _result(value, self._values[node]) for node, value in zip(self._values, returned, strict=True)}
        return [results[node] for node in self._computed]

    def placements(self) -> list[dict[str, str]]:
        """One row per node: the provider that it is for; none where this release does not say."""
        if not hasattr(self.session, "get_provider_graph_assignment_info"):
            return []
        parts = self.session.get_provider_graph_assignment_info()
        return [
            {"node": node.name, "operator": operator(node.domain, node.op_type), "provider": part.ep_name}
            for part in parts
            for node in part.get_nodes()
        ]

    def parts(self) -> list[Part]:
        """List the parts of the graph by provider."""
        counts = Counter(row["provider"] for row in self.placements())
        if len(counts) < 2:
            return [Part("the whole graph", ENGINE, next(iter(counts), self.session.get_providers()[0]))]
        return [Part(f"{count} of {counts.total()} nodes", ENGINE, provider) for provider, count in counts.items()]


def _given(value: Any) -> Any:
    """Convert an input for ONNX Runtime. A complex tensor becomes its two parts, as torch.onnx exports it."""
    import torch
    from onnxruntime import OrtValue

    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=torch.float32) if isinstance(value, float) else torch.tensor(int(value))
    value = value.detach().resolve_conj().resolve_neg()
    value = (torch.view_as_real(value) if value.is_complex() else value).contiguous()
    if value.dtype is torch.bool:
        return OrtValue.ortvalue_from_numpy(value.numpy())
    return OrtValue.from_dlpack(value)


def _result(value: Any, like: Any) -> Any:
    """A result as torch has it: a tensor of the type and with the strides of the graph's own, or a number."""
    import torch

    made = torch.from_numpy(value.numpy()) if value.data_type() == "tensor(bool)" else torch.from_dlpack(value)
    if not isinstance(like, torch.Tensor):
        return made.item()
    made = torch.view_as_complex(made.contiguous()) if like.is_complex() else made.to(like.dtype)
    return with_strides_of(made, like)
