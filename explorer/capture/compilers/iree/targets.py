"""Compile by IREE for a target that need not be here: what its compiler writes for it, as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from explorer.errors import unknown_name


@dataclass(frozen=True, slots=True)
class IreeTarget:
    """A target: the flags of iree-compile for it, its default model, and the ending of the file that has its text.

    `model` is the flag that takes a model, "" if there is none. `form` is the name of the text's form.
    """

    flags: tuple[str, ...]
    model: str
    default: str
    ending: str
    form: str
    language: str


CPU = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
RISCV = (
    *CPU,
    "--iree-llvmcpu-target-triple=riscv64-unknown-linux-gnu",
    "--iree-llvmcpu-target-abi=lp64d",
    "--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+c,+v",
)
AARCH64 = (*CPU, "--iree-llvmcpu-target-triple=aarch64-unknown-linux-gnu")
#: The targets by name; "cuda:sm_80" names a model too.
TARGETS: Mapping[str, IreeTarget] = MappingProxyType(
    {
        "aarch64": IreeTarget(AARCH64, "--iree-llvmcpu-target-cpu", "generic", "*.s", "assembly", "asm"),
        "riscv64": IreeTarget(RISCV, "--iree-llvmcpu-target-cpu", "generic-rv64", "*.s", "assembly", "asm"),
        "cuda": IreeTarget(("--iree-hal-target-device=cuda",), "--iree-cuda-target", "sm_86", "*.ptx", "PTX", "ptx"),
        "rocm": IreeTarget(("--iree-hal-target-device=hip",), "--iree-rocm-target", "gfx942", "*.rocmasm", "AMDGCN", "amdgcn"),
        "vulkan": IreeTarget(
            ("--iree-hal-target-device=vulkan",), "--iree-vulkan-target", "ampere", "*.spirv.mlir", "SPIR-V", "mlir"
        ),
        "metal": IreeTarget(("--iree-hal-target-device=metal",), "", "", "*.metal", "Metal", "metal"),
    }
)


def target_named(name: str) -> IreeTarget:
    """The target of a name such as "cuda" or "cuda:sm_80"; InputError, with the names there are, for another."""
    family = name.partition(":")[0]
    if family not in TARGETS:
        raise unknown_name("target of IREE", family, TARGETS)
    return TARGETS[family]


def flags_for(name: str) -> tuple[str, ...]:
    """The flags of iree-compile for a target."""
    target, model = target_named(name), name.partition(":")[2]
    model = model or target.default
    return (*target.flags, f"{target.model}={model}") if target.model and model else target.flags
