"""Say why a backend that max-autotune was asked for gives an operator no choice: torch leaves it out without a word."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from explorer.capture.observe.patch import observed
from explorer.capture.observe.versions import has_function, version_of
from explorer.errors import InputError
from explorer.model.stage import Emit

#: Inductor's backends of matrix products (`max_autotune_gemm_backends` of torch/_inductor/config.py), with its classes of their
#: choices. One with no class needs nothing installed, and its choices are the library's own.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "ATEN": (),
    "CK": ("ROCmTemplateCaller",),
    "CKTILE": ("ROCmTemplateCaller",),
    "CPP": (),
    "CUTEDSL": ("CuteDSLTemplateCaller",),
    "CUTLASS": ("CUTLASSTemplateCaller", "CUDATemplateCaller"),
    "NVGEMM": ("NVUniversalGemmCaller",),
    "TRITON": (),
}
INSTALL_CUTLASS = (
    "CUTLASS is not there: `git clone https://github.com/NVIDIA/cutlass`, set TORCHINDUCTOR_CUTLASS_DIR to that folder before "
    "torch is imported, and start Python again; torch looked in {folder}"
)
INSTALL_CUTE = "CuTe DSL is not installed: pip install nvidia-cutlass-dsl, and start Python again"
INSTALL_API = (
    "cutlass_api is not installed, which needs Python 3.12 or newer: "
    "pip install 'git+https://github.com/NVIDIA/cutlass@cutlass_api#subdirectory=python/cutlass_api', and start Python again"
)
INSTALL_CK = (
    "Composable Kernel is not installed: pip install git+https://github.com/rocm/composable_kernel@develop, "
    "and start Python again"
)
NO_CHOICE = "{setting} names {backend}, which gives {operation} no choice: {why}"


@contextmanager
def gemm_backends(emit: Emit) -> Iterator[None]:
    """Record a Failure for each backend that was asked for and gives an operator no choice, once for each reason."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    said: set[str] = set()

    def choosing(_: Any, name: str, choices: Any, nodes: Any, layout: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        setting = "max_autotune_conv_backends" if "conv" in name else "max_autotune_gemm_backends" if "mm" in name else ""
        for backend in asked_for(setting):
            if not any(type(choice).__name__ in CHOICES.get(backend, ()) for choice in choices):
                message = NO_CHOICE.format(
                    setting=setting, backend=backend, operation=name, why=why_no_choice(backend, name, layout)
                )
                if message not in said:
                    said.add(message)
                    emit.attempt("autotune", backend, partial(_say, message))
        yield

    with observed(AlgorithmSelectorCache, "__call__", choosing):
        yield


def asked_for(setting: str) -> tuple[str, ...]:
    """The backends in a setting that need a package, and words there that name no backend; () without a setting."""
    from torch._inductor import config

    names = (name.strip() for name in str(getattr(config, setting, "")).upper().split(","))
    return tuple(dict.fromkeys(name for name in names if name and CHOICES.get(name, ("unknown",))))


def _say(message: str) -> None:
    """Raise InputError, which becomes the Failure."""
    raise InputError(message)


def why_no_choice(backend: str, operation: str, layout: Any) -> str:
    """Say why a backend has no choice for an operator with this result, by the conditions that Inductor asks about."""
    from torch._inductor import config

    if backend not in CHOICES:
        return f"Inductor has no backend of that name; it has {', '.join(CHOICES)}"
    if not (config.max_autotune or config.max_autotune_gemm):
        return "max_autotune is off, and without it Inductor takes the library's kernel; add 'max_autotune': True to options"
    reasons: Mapping[str, Callable[[str, Any], str]] = {
        "CK": _without_ck,
        "CKTILE": _without_ck,
        "CUTEDSL": _without_cutedsl,
        "CUTLASS": _without_cutlass,
        "NVGEMM": _without_nvgemm,
    }
    return reasons[backend](operation, layout) or (
        f"none of its templates takes these sizes, strides and data types, or Inductor has none for {operation}"
    )


def _without_cutlass(operation: str, layout: Any) -> str:
    """Read the conditions of `use_cutlass_template` of torch/_inductor/utils.py."""
    import torch
    from torch._inductor import config

    if torch.version.hip or layout.device.type not in ("cuda", "xpu"):
        return f"CUTLASS has templates for NVIDIA and Intel GPUs, not for {_device(layout)}"
    settings: Any = getattr(config, "cutlass", None) or config.cuda
    if why := _other_dtype(layout, torch.float16, torch.bfloat16, torch.int32):
        return why
    if any(getattr(size, "free_symbols", ()) for size in layout.size):
        return (
            f"Inductor uses CUTLASS for static sizes alone, and the result's are {list(layout.size)}; compile with dynamic=False"
        )
    enabled = str(getattr(settings, "cutlass_enabled_ops", "all"))
    if enabled.upper() != "ALL" and operation.upper() not in (name.strip() for name in enabled.upper().split(",")):
        return f"cutlass_enabled_ops leaves it out: it is {enabled!r}"
    if missing := missing_cutlass(config.xpu.cutlass_dir if layout.device.type == "xpu" else settings.cutlass_dir):
        return missing
    filters = {
        name: value
        for name in ("cutlass_op_allowlist_regex", "cutlass_op_denylist_regex", "cutlass_tma_only")
        if (value := getattr(settings, name, None))
    }
    return f"none of its templates takes these inputs and passes the settings {filters}" if filters else ""


def missing_cutlass(folder: str) -> str:
    """Say what of CUTLASS is missing where torch looks for it; "" if torch can import it."""
    from torch._inductor import utils  # noqa: F401 it is imported before the next module, as torch does

    if _imports_cutlass():
        return ""
    if not os.path.isdir(os.path.join(folder, "python")):
        return INSTALL_CUTLASS.format(folder=folder)
    for name in ("cutlass_cppgen", "cutlass_library.generator", "cutlass_library.manifest", "pycute"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            return f"the CUTLASS in {folder} cannot be imported: {error}"
    return f"torch could not import the CUTLASS in {folder} when it first tried; start Python again"


def _imports_cutlass() -> bool:
    """Whether torch can import CUTLASS's packages, which it tries once."""
    for module in ("torch._inductor.codegen.cutlass.utils", "torch._inductor.codegen.cuda.cutlass_utils"):
        if importlib.util.find_spec(module.rpartition(".")[0]) and importlib.util.find_spec(module):
            return bool(importlib.import_module(module).try_import_cutlass())
    return False


def _without_cutedsl(operation: str, layout: Any) -> str:
    """Read the conditions of `use_blackwell_cutedsl_grouped_mm` of torch/_inductor/utils.py."""
    import torch

    if torch.version.hip or layout.device.type != "cuda":
        return f"CuTe DSL is for NVIDIA GPUs, not for {_device(layout)}"
    if operation not in ("grouped_mm", "_grouped_mm"):
        return f"Inductor has a template in CuTe DSL for grouped products alone (torch._grouped_mm), not for {operation}"
    major, minor = torch.cuda.get_device_capability(layout.device)
    if major != 10:
        return f"its template is for GPUs with compute capability 10.x, such as 'b200'; this one has {major}.{minor}"
    return _other_dtype(layout, torch.bfloat16) or ("" if _can_import("cutlass.cute") else INSTALL_CUTE)


def _without_nvgemm(operation: str, layout: Any) -> str:
    """Read the conditions of `use_nv_universal_gemm_template` of torch/_inductor/utils.py."""
    import torch
    from torch._inductor import utils
    from torch._inductor.virtualized import V

    if not has_function(utils, "use_nv_universal_gemm_template"):
        return f"torch {version_of('torch')} does not have it; a later release does"
    if torch.version.hip or layout.device.type != "cuda":
        return f"NVGEMM is for NVIDIA GPUs, not for {_device(layout)}"
    if not _can_import("cutlass"):
        return INSTALL_CUTE
    if not utils.ensure_nv_universal_gemm_available():
        return INSTALL_API
    return "it compiles when the program runs, and AOTInductor does not" if V.aot_compilation else ""


def _without_ck(operation: str, layout: Any) -> str:
    """Read the conditions of `use_ck_template` of torch/_inductor/utils.py."""
    import torch
    from torch._inductor import config

    if not torch.version.hip or layout.device.type != "cuda":
        return f"Composable Kernel is for AMD GPUs, not for {_device(layout)}; name one, such as target='mi300x'"
    architectures = config.rocm.arch or [torch.cuda.get_device_properties(layout.device).gcnArchName]
    if not {name.split(":")[0] for name in architectures} & set(config.rocm.ck_supported_arch):
        return f"it is for {', '.join(config.rocm.ck_supported_arch)}, and this GPU is {', '.join(architectures)}"
    if why := _other_dtype(layout, torch.float16, torch.bfloat16, torch.float32):
        return why
    return "" if _can_import("ck4inductor") else INSTALL_CK


def _can_import(name: str) -> bool:
    """Whether a package is installed; another of the same name may be, without the part that is asked for."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _other_dtype(layout: Any, *known: Any) -> str:
    """Say that the templates give other data types than the result has; "" where they give it."""
    if layout.dtype in known:
        return ""
    names = ", ".join(str(dtype).removeprefix("torch.") for dtype in known)
    return f"its templates give {names}, and the result is {str(layout.dtype).removeprefix('torch.')}"


def _device(layout: Any) -> str:
    """Name the device of a result as people call it."""
    import torch

    kind = str(layout.device.type)
    names = {
        "cpu": "the CPU",
        "mps": "Apple GPUs",
        "xpu": "Intel GPUs",
        "cuda": "AMD GPUs" if torch.version.hip else "NVIDIA GPUs",
    }
    return names.get(kind, kind)
