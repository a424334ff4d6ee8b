"""The backends that PyTorch registers or that its guides name: what each is, and which package brings it."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.capture.compilers.compilers import compiler_named, plugged_compilers
from explorer.capture.observe.versions import version_of
from explorer.errors import DISTRIBUTION, is_installed
from explorer.process import plugins


@dataclass(frozen=True, slots=True)
class KnownBackend:
    """A backend by name.

    `what` describes the backend. `package` is the distribution that brings it, "" for torch itself. `modules` must be
    importable. `extra` is explorer's extra that installs the package, "" if there is none. `note` follows the reason in the
    message that the backend is not available.
    """

    name: str
    what: str
    package: str = ""
    modules: tuple[str, ...] = ()
    extra: str = ""
    note: str = ""

    @property
    def installed(self) -> bool:
        """Whether its modules are here; torch's own always are."""
        return all(is_installed(module) for module in self.modules)

    @property
    def install(self) -> str:
        """The command that installs it; "" where torch has it."""
        if self.extra:
            return f"pip install '{DISTRIBUTION}[{self.extra}]'"
        return f"pip install {self.package}" if self.package else ""

    @property
    def version(self) -> str:
        """The version of its package that is installed, "" for none and for torch's own."""
        return version_of(self.package) if self.package else ""

    @property
    def advice(self) -> str:
        """Say what the backend is, and what to install."""
        note = f". {self.note}" if self.note else ""
        return f"{self.what}. It is not installed: {self.install}{note}"


DEBUGGING = "one of PyTorch's own, for debugging"
IREE = "IREE, an MLIR compiler for CPUs and GPUs"
TENSORRT = "NVIDIA's TensorRT, through Torch-TensorRT"
XLA = "XLA, through PyTorch/XLA"
ANOTHER_WAY = "It must be of the same release as torch; backend 'xla' goes to XLA through StableHLO, without it"
NO_RELAY = "torch's own backend of this name needs Relay, which TVM has no more: explorer's takes its place"
SAME_RELEASE = "It must be of the same release as torch"
NEEDS_GPU = "It needs an NVIDIA GPU"

#: By name, PyTorch's own first. A backend that torch registers and that is not here is one of PyTorch's own, for debugging.
KNOWN: tuple[KnownBackend, ...] = (
    KnownBackend("inductor", "PyTorch's compiler, which writes Triton and C++"),
    KnownBackend("cudagraphs", "PyTorch's capture of a graph's kernels as one CUDA graph, without a compiler"),
    KnownBackend("eager", "Dynamo's graph, run by PyTorch as it is"),
    KnownBackend("aot_eager", "AOTAutograd's graphs, run by PyTorch as they are"),
    KnownBackend("iree", f"{IREE}, through explorer", "iree-turbine", ("iree.compiler", "iree.runtime", "iree.turbine"), "iree"),
    KnownBackend("turbine_cpu", f"{IREE}, through IREE Turbine", "iree-turbine", ("iree.turbine",), "iree"),
    KnownBackend("iree_turbine", f"{IREE}, through IREE Turbine", "iree-turbine", ("iree.turbine",), "iree"),
    KnownBackend("onnxrt", "ONNX Runtime, through explorer", "onnxruntime", ("onnxruntime", "onnxscript"), "onnx"),
    KnownBackend("openvino", "Intel's OpenVINO, a compiler for inference", "openvino", ("openvino", "packaging"), "openvino"),
    KnownBackend("tvm", "Apache TVM, through explorer", "apache-tvm", ("tvm", "tvm_ffi"), "tvm", NO_RELAY),
    KnownBackend("xla", "XLA through StableHLO, through explorer", "jaxlib", ("torch_mlir", "jaxlib"), "xla"),
    KnownBackend("openxla", XLA, "torch_xla", ("torch_xla",), note=ANOTHER_WAY),
    KnownBackend("openxla_eval", f"{XLA}, for inference", "torch_xla", ("torch_xla",), note=ANOTHER_WAY),
    KnownBackend(
        "ipex",
        "Intel's extension for PyTorch",
        "intel-extension-for-pytorch",
        ("intel_extension_for_pytorch",),
        note=SAME_RELEASE,
    ),
    KnownBackend("tensorrt", TENSORRT, "torch-tensorrt", ("torch_tensorrt",), note=NEEDS_GPU),
    KnownBackend("torch_tensorrt", TENSORRT, "torch-tensorrt", ("torch_tensorrt",), note=NEEDS_GPU),
    KnownBackend("hidet", "Hidet, a compiler for NVIDIA GPUs", "hidet", ("hidet",), note=NEEDS_GPU),
)


def known_backend(name: str) -> KnownBackend | None:
    """Return a backend's entry in the table, or that of the package that brings it; None for one of torch's own for debugging."""
    listed = next((backend for backend in KNOWN if backend.name == name), None)
    return listed or _of_plugin(name) or _of_package(name)


def _of_plugin(name: str) -> KnownBackend | None:
    """Describe a compiler that a plug-in brings."""
    found = plugged_compilers()
    for compiler, package in zip(found.values, found.packages, strict=True):
        if compiler.name == name:
            return KnownBackend(name, f"{compiler.title}, {compiler.about}", package, compiler.modules)
    return None


def _of_package(name: str) -> KnownBackend | None:
    """Describe a backend that another package gives torch by an entry point; the package is not imported."""
    package = plugins.package_of("torch_dynamo_backends", name)
    return KnownBackend(name, f"a backend of the package {package}", package) if package else None


def why_not_here(name: str) -> str:
    """Why a backend cannot be used, and what to install; "" where all that it needs is installed, or nothing is known of it."""
    compiler = compiler_named(name)
    if compiler is not None and compiler.missing:
        return f"{compiler.title}, {compiler.about}. It is not installed: {compiler.remedy}"
    known = known_backend(name)
    return known.advice if known is not None and not known.installed else ""
