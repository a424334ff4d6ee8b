"""GPUs by name: what the compiler asks of a device, with the public source of every figure: `gpus.tsv` and `sources.tsv`.

None of them need be here: Inductor and Triton compile from these figures alone.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from explorer.errors import InputError, unknown_name
from explorer.model.values import Plain, text_lines

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
TERA, GIGA, MEGA = 1e12, 1e9, 1e6

#: The vendors, and triton's name of the backend that compiles for each; Inductor writes Metal for Apple's, without triton.
BACKENDS = {"nvidia": "cuda", "amd": "hip", "intel": "xpu", "apple": "mps"}
#: The vendors, and torch's name of their devices: a ROCm build calls an AMD GPU "cuda".
DEVICES = {"nvidia": "cuda", "amd": "cuda", "intel": "xpu", "apple": "mps"}
#: What `arch` is for each vendor: the type, the form of a str, and an example with what it is.
ARCHES = {
    "nvidia": (int, "", "90 for compute capability 9.0"),
    "amd": (str, r"gfx\d{1,2}[0-9a-f]{2}", "'gfx942'"),
    "intel": (str, r"\d+\.\d+\.\d+", "'20.1.4', the GPU's IP version"),
    "apple": (str, r"apple\d+", "'apple9', the GPU's family"),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Target:
    """A GPU as the compiler sees it; make your own with `explorer.Target(name=…, …)`.

    `arch` is what triton takes: 90 for compute capability 9.0, "gfx942" for AMD; for Intel the IP version, "20.1.4" for bmg-g21.
    If the driver shows a GPU with several dies as several devices (MI250X, Max 1550), a target is one device. An Intel
    multiprocessor is an Xe-core (torch's gpu_subslice_count), its warp the sub-group that Inductor assumes, its shared memory the
    SLM. For Apple `arch` is the GPU family, "apple9". A multiprocessor is a GPU core, a block a threadgroup, a warp a SIMD-group,
    and `memory` is shared with the CPU. A figure of Apple's is 0 where no public source gives it.

    Sizes are in bytes: `memory`, `l2` (as the driver reports it), `shared_per_block` (the most that a block may ask
    for, "opt-in"), `shared_per_multiprocessor`, `shared_static` (without opting in). `bandwidth` is of the memory, in
    bytes/s. `peak` maps dtypes to the dense peak rate (no sparsity) in FLOP/s, for integers in operations/s:
    "fp32" and "fp64" outside tensor cores; "fp64_tensor", "tf32", "fp16", "bf16", "fp8", "int8", "fp4" on them,
    accumulating in fp32 or int32.
    `clock` (the highest the multiprocessors run at) and `memory_clock` are in Hz, `bus` is the memory bus in bits; the
    memory moves a bit a line twice a clock, on AMD's HBM3 four times.

    `registers` counts the 32-bit registers of a multiprocessor as the driver reports them, `threads`, `blocks` and
    `threads_per_block` are the most of each on a multiprocessor and in a block. `reported` has what torch reads of such
    a device beyond these figures, by torch's names (device_id, driver_version … of an Intel GPU). `sources` names the
    public documents the figures are from, `note` what the compiler does not use of this GPU.
    """

    name: str
    title: str
    vendor: str
    arch: int | str
    multiprocessors: int
    memory: int
    bandwidth: float
    peak: Mapping[str, float] = field(hash=False)
    l2: int
    shared_per_block: int
    shared_per_multiprocessor: int
    shared_static: int = 48 * KB
    registers: int = 65536
    threads: int = 2048
    blocks: int = 32
    threads_per_block: int = 1024
    warp: int = 32
    clock: float = 0.0
    memory_clock: float = 0.0
    bus: int = 0
    reported: Mapping[str, Plain] = field(default_factory=dict, hash=False)
    sources: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if self.vendor not in BACKENDS:
            raise unknown_name("vendor", self.vendor, BACKENDS)
        kind, form, example = ARCHES[self.vendor]
        if not isinstance(self.arch, kind) or (form and not re.fullmatch(form, str(self.arch))):
            raise InputError(f"arch of an {self.vendor} target is such as {example}, not {self.arch!r}")
        needed = ("multiprocessors", "memory", "warp", *(() if self.vendor == "apple" else ("threads", "registers")))
        if min(getattr(self, name) for name in needed) <= 0:
            raise InputError(f"target {self.name!r}: {', '.join(needed[:-1])} and {needed[-1]} must be above 0")
        for name in ("peak", "reported"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def backend(self) -> str:
        """Triton's name of the device that it compiles for: "cuda", "hip" or "xpu"; torch's, "mps", for Apple."""
        return BACKENDS[self.vendor]

    @property
    def device(self) -> str:
        """The type of torch's devices: "cuda" for NVIDIA and AMD, "xpu" for Intel, "mps" for Apple."""
        return DEVICES[self.vendor]

    @property
    def triple(self) -> tuple[str, Any, int]:
        """Backend, arch and warp size, as triton's GPUTarget takes them; for an Intel GPU, torch's own name of the arch."""
        return self.backend, self.xpu if self.vendor == "intel" else self.arch, self.warp

    @property
    def capability(self) -> tuple[int, int]:
        """(9, 0) for arch 90; (9, 4) for "gfx942", as HIP reports it; (20, 1) for "20.1.4"; (9, 0) for "apple9"."""
        if isinstance(self.arch, int):
            return divmod(self.arch, 10)
        if self.vendor == "apple":
            return int(self.arch.removeprefix("apple")), 0
        if self.vendor == "intel":
            major, minor, _ = map(int, self.arch.split("."))
            return major, minor
        return int(self.arch[3:-2]), int(self.arch[-2], 16)

    @property
    def xpu(self) -> dict[str, Plain]:
        """The result of torch.xpu.get_device_capability, by torch's names (torch/csrc/xpu/Module.cpp).

        Eight vector engines (EUs) an Xe-core, as on every Xe-HPC and Xe2 GPU, unless `reported` says otherwise.
        """
        major, minor, revision = map(int, str(self.arch).split("."))
        engines = 8 * self.multiprocessors
        facts: dict[str, Plain] = {
            "architecture": (major << 22 | minor << 14 | revision) << 8,
            "device_id": 0,
            "driver_version": "",
            "gpu_eu_count": engines,
            "gpu_subslice_count": self.multiprocessors,
            "has_atomic64": True,
            "has_bfloat16_conversions": True,
            "has_fp16": True,
            "has_fp64": True,
            "has_subgroup_2d_block_io": True,
            "has_subgroup_matrix_multiply_accumulate": True,
            "has_subgroup_matrix_multiply_accumulate_tensor_float32": False,
            "is_integrated_gpu": False,
            "last_level_cache_size": self.l2,
            "local_mem_size": self.shared_per_block,
            "max_compute_units": engines,
            "max_num_sub_groups": self.threads_per_block // 16,
            "max_work_group_size": self.threads_per_block,
            "memory_bus_width": 64,
            "memory_clock_rate": round(2 * self.memory_clock / MEGA),
            "name": self.title,
            "platform_name": "Intel(R) oneAPI Unified Runtime over Level-Zero",
            "sub_group_sizes": [16, 32],
            "total_memory": self.memory,
            "type": "gpu",
            "vendor": "Intel(R) Corporation",
            "version": self.arch,
        }
        return dict(sorted({**facts, **self.reported}.items()))

    @property
    def row(self) -> dict[str, Plain]:
        """The figures that `explorer.targets()` lists, in GB, MB, KB, GB/s and TFLOP/s."""
        return {
            "vendor": self.vendor,
            "arch": f"sm_{self.arch}" if isinstance(self.arch, int) else self.arch,
            "multiprocessors": self.multiprocessors,
            "memory_gb": round(self.memory / GB, 1),
            "bandwidth_gb_s": round(self.bandwidth / GIGA),
            **{f"{dtype}_tflops": round(rate / TERA, 1) for dtype, rate in self.peak.items()},
            **({"l2_mb": round(self.l2 / MB, 1)} if self.l2 else {}),
            "shared_kb": round(self.shared_per_block / KB),
            **({"registers": self.registers} if self.registers else {}),
            "sources": "; ".join(self.sources),
        }

    @classmethod
    def parse(cls, name: object) -> Target:
        """Find a target by name, in any spelling: "h100", "H100-SXM", "RTX 4090". InputError lists all names."""
        if isinstance(name, cls):
            return name
        plain = _plain(name)
        for target in NAMED:
            if plain in {_plain(alias) for alias in (target.name, target.title, *ALIASES.get(target.name, ()))}:
                return target
        raise unknown_name("target", name, [t.name for t in NAMED])

    def __repr__(self) -> str:
        return f"<Target {self.name!r}: {self.title}, {self.row['arch']}, {self.multiprocessors} multiprocessors>"

    def __reduce__(self) -> tuple[object, ...]:
        from functools import partial

        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return partial(Target, **{**values, "peak": dict(self.peak), "reported": dict(self.reported)}), ()


def _plain(name: object) -> str:
    """A name without case, spaces, dashes and its vendor."""
    plain = re.sub(r"\((r|tm)\)|[^a-z0-9()]", "", str(name).lower()).replace("(", "").replace(")", "")
    return re.sub(r"^(nvidia|amd|intel|apple|geforce|instinct|tesla|arc|datacentergpu)+|graphics$", "", plain)


def _rows(file: str) -> Iterator[dict[str, str]]:
    """Read a table beside this file: a row as its cells by the names of the columns."""
    lines = text_lines((Path(__file__).parent / file).read_text(encoding="utf-8"))
    return csv.DictReader((line for line in lines if not line.startswith("# ")), delimiter="\t", quoting=csv.QUOTE_NONE)


def _target(row: Mapping[str, str], sources: Sequence[str]) -> Target:
    """Make the Target of a row of `gpus.tsv`, whose columns name the units."""
    peak = (cell.split("=") for cell in row["peak T/s"].split())
    return Target(
        name=row["name"],
        title=row["title"],
        vendor=row["vendor"],
        arch=int(row["arch"]) if row["vendor"] == "nvidia" else row["arch"],
        multiprocessors=int(row["multiprocessors"]),
        memory=int(float(row["memory MiB"]) * MB),
        bandwidth=float(row["bandwidth GB/s"]) * GIGA,
        peak={dtype: float(rate) * TERA for dtype, rate in peak},
        l2=int(row["L2 KiB"]) * KB,
        shared_per_block=int(row["shared per block KiB"]) * KB,
        shared_per_multiprocessor=int(row["shared per multiprocessor KiB"]) * KB,
        shared_static=int(row["shared static KiB"]) * KB,
        registers=int(row["registers"]),
        threads=int(row["threads"]),
        blocks=int(row["blocks"]),
        threads_per_block=int(row["threads per block"]),
        warp=int(row["warp"]),
        clock=float(row["clock MHz"]) * MEGA,
        memory_clock=float(row["memory clock MHz"]) * MEGA,
        bus=int(row["bus bits"]),
        reported=json.loads(row["reported"]) if row["reported"] else {},
        sources=tuple(sources),
        note=row["note"],
    )


_GPUS = tuple(_rows("gpus.tsv"))
_SOURCES = tuple((row["source"], row["gpus"].split()) for row in _rows("sources.tsv"))
#: The GPUs that can be named, oldest first; Intel's at the end.
NAMED: tuple[Target, ...] = tuple(_target(row, [source for source, gpus in _SOURCES if row["name"] in gpus]) for row in _GPUS)
#: Other names of each.
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType({row["name"]: tuple(row["aliases"].split()) for row in _GPUS})
