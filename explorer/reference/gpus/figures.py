"""GPUs by name: what the compiler asks of a device, with the public source of every figure.

None of them need be here: Inductor and Triton compile from these figures alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from explorer.errors import InputError, unknown_name
from explorer.model.values import Plain

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
TERA, GIGA, MEGA = 1e12, 1e9, 1e6

#: The vendors, and triton's name of the backend that compiles for each.
BACKENDS = {"nvidia": "cuda", "amd": "hip", "intel": "xpu"}
#: The vendors, and torch's name of their devices: a ROCm build calls an AMD GPU "cuda".
DEVICES = {"nvidia": "cuda", "amd": "cuda", "intel": "xpu"}
#: What `arch` is for each vendor: the type, the form of a str, and an example with what it is.
ARCHES = {
    "nvidia": (int, "", "90 for compute capability 9.0"),
    "amd": (str, r"gfx\d{1,2}[0-9a-f]{2}", "'gfx942'"),
    "intel": (str, r"\d+\.\d+\.\d+", "'20.1.4', the GPU's IP version"),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Target:
    """A GPU as the compiler sees it; make your own with `explorer.Target(name=…, …)`.

    `arch` is what triton takes: 90 for compute capability 9.0, "gfx942" for AMD; for Intel the IP version, "20.1.4" for
    bmg-g21. Of a GPU with several dies that the driver shows as several devices (MI250X, Max 1550), one target is one
    device. An Intel multiprocessor is an Xe-core (torch's gpu_subslice_count), its warp the sub-group that Inductor
    assumes, its shared memory the SLM.

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
        if min(self.multiprocessors, self.memory, self.warp, self.threads, self.registers) <= 0:
            raise InputError(f"target {self.name!r}: multiprocessors, memory, warp, threads and registers must be above 0")
        for name in ("peak", "reported"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def backend(self) -> str:
        """Triton's name of the device that it compiles for: "cuda", "hip" or "xpu"."""
        return BACKENDS[self.vendor]

    @property
    def device(self) -> str:
        """The type of torch's devices: "cuda" for NVIDIA and AMD, "xpu" for Intel."""
        return DEVICES[self.vendor]

    @property
    def triple(self) -> tuple[str, Any, int]:
        """Backend, arch and warp size, as triton's GPUTarget takes them; of an Intel GPU the arch is what torch reports."""
        return self.backend, self.xpu if self.vendor == "intel" else self.arch, self.warp

    @property
    def capability(self) -> tuple[int, int]:
        """(9, 0) for arch 90; (9, 4) for "gfx942", as HIP reports it; (20, 1) for "20.1.4"."""
        if isinstance(self.arch, int):
            return divmod(self.arch, 10)
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
            "l2_mb": round(self.l2 / MB, 1),
            "shared_kb": round(self.shared_per_block / KB),
            "registers": self.registers,
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
    return re.sub(r"^(nvidia|amd|intel|geforce|instinct|tesla|arc|datacentergpu)+|graphics$", "", plain)


def _tera(**rates: float) -> dict[str, float]:
    return {dtype: rate * TERA for dtype, rate in rates.items()}


#: Aliases.
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "v100": ("v100-sxm2", "v100-32gb", "sm_70"),
        "t4": ("sm_75",),
        "a100": ("a100-sxm4", "a100-80gb", "a100-sxm4-80gb", "sm_80"),
        "a10": ("a10g",),
        "rtx3090": ("3090", "sm_86"),
        "rtx4090": ("4090", "sm_89"),
        "h100": ("h100-sxm", "h100-sxm5", "h100-80gb", "h100-sxm5-80gb", "h100-80gb-hbm3", "sm_90"),
        "h200": ("h200-sxm", "h200-141gb"),
        "b200": ("hgx-b200", "sm_100"),
        "rtx5090": ("5090", "sm_120"),
        "mi250x": ("gfx90a", "mi250"),
        "mi300x": ("gfx942", "mi300"),
        "mi355x": ("gfx950", "mi355"),
        "max1550": ("pvc", "gpumax1550", "max1550-stack"),
        "b580": ("bmg", "bmg-g21", "battlemage"),
    }
)

_GUIDE = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (limits per compute capability: shared memory, threads, blocks)"
_FP64 = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (results a clock of arithmetic instructions, which make fp64)"
_READ = "torch.cuda.get_device_properties of one, as published (memory, L2, multiprocessors)"
_SPECS = "https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html (compute units, wavefront, LDS, L2)"
_HIP = "https://github.com/ROCm/legacy-rocm-build/issues/4021 (threads); the registers that HIP reports were not checked"
_NO_TENSOR_CORES = "triton's tl.dot uses no tensor cores below compute capability 8.0: it becomes fused multiply-adds"
_CDNA_FP64 = (
    "fp64 from 128 operations a clock of a compute unit, on matrix cores 256 (128 on CDNA 4), was not checked against a source"
)
_XE_FP64 = "fp64 as fast as fp32, and not on the matrix engines, was not checked against a source"
_ONE_DIE = "one of the two dies of the package, which the driver shows as a device of its own; figures are for one die"

#: What every Xe-core of Xe-HPC and Xe2 has: 64 hardware threads of 16 or 32 lanes, 128 registers of 64 bytes each.
_XE: Mapping[str, int] = MappingProxyType(
    {
        "shared_per_block": 128 * KB,
        "shared_per_multiprocessor": 128 * KB,
        "shared_static": 128 * KB,
        "registers": 131072,
        "threads": 2048,
        "blocks": 64,
    }
)
_XE_HPC = "https://www.techpowerup.com/forums/threads/285769 (operations a clock of an Xe-core, which make the rates)"
_XE_UNREAD = "the hardware threads and registers of an Xe-core were not checked against a source"
_B580 = "kernels that Inductor made on a B580, published with what torch reads of it"
_XE2 = "https://fpsbench.com/compare/gpu/intel-arc-b580-vs-intel-uhd-graphics-730 and https://www.techcommand.uk (INT8 rate)"
_DRIVER = "driver_version is that of the machine on which the properties were read"
_XE2_UNREAD = "what torch reads of its memory's clock and of the cache was not checked against a source; fp16 is half of int8"

#: The GPUs that can be named, oldest first; Intel's at the end.
NAMED: tuple[Target, ...] = (
    Target(
        name="v100",
        title="NVIDIA Tesla V100 SXM2 32GB",
        vendor="nvidia",
        arch=70,
        multiprocessors=80,
        memory=32 * GB,
        bandwidth=900 * GIGA,
        peak=_tera(fp64=7.83, fp32=15.7, fp16=125),
        l2=6 * MB,
        shared_per_block=96 * KB,
        shared_per_multiprocessor=96 * KB,
        clock=1530 * MEGA,
        memory_clock=877 * MEGA,
        bus=4096,
        note=_NO_TENSOR_CORES,
        sources=(
            "https://www.kunwar.page/chapter/appendix-d-hardware-reference (rates, bandwidth)",
            "https://pmc.ncbi.nlm.nih.gov/articles/PMC10448217/table/t0015 (clock, L2)",
            _FP64,
            _GUIDE,
        ),
    ),
    Target(
        name="t4",
        title="NVIDIA T4",
        vendor="nvidia",
        arch=75,
        multiprocessors=40,
        memory=15095 * MB,
        bandwidth=320 * GIGA,
        peak=_tera(fp64=0.254, fp32=8.1, fp16=65, int8=130),
        l2=4 * MB,
        shared_per_block=64 * KB,
        shared_per_multiprocessor=64 * KB,
        threads=1024,
        blocks=16,
        clock=1590 * MEGA,
        memory_clock=5001 * MEGA,
        bus=256,
        note=_NO_TENSOR_CORES,
        sources=(
            "https://sysrqmts.com/en/gpus/nvidia/tesla/t4",
            "https://geektopia.es (Tesla T4: INT8 rate)",
            _READ,
            _FP64,
            _GUIDE,
        ),
    ),
    Target(
        name="a100",
        title="NVIDIA A100 SXM4 80GB",
        vendor="nvidia",
        arch=80,
        multiprocessors=108,
        memory=80 * GB,
        bandwidth=2039 * GIGA,
        peak=_tera(fp64=9.7, fp64_tensor=19.5, fp32=19.5, tf32=156, fp16=312, bf16=312, int8=624),
        l2=40 * MB,
        shared_per_block=163 * KB,
        shared_per_multiprocessor=164 * KB,
        clock=1410 * MEGA,
        memory_clock=1593 * MEGA,
        bus=5120,
        sources=(
            "https://glennklockwood.com/garden/processors/A100 (rates, bandwidth)",
            "https://pmc.ncbi.nlm.nih.gov/articles/PMC10448217/table/t0015 (clock, L2)",
            "the memory's size is the nominal one, its clock follows from the bandwidth",
            _FP64,
            _GUIDE,
        ),
    ),
    Target(
        name="a10",
        title="NVIDIA A10",
        vendor="nvidia",
        arch=86,
        multiprocessors=72,
        memory=24 * GB,
        bandwidth=600 * GIGA,
        peak=_tera(fp64=0.488, fp32=31.2, tf32=62.5, fp16=125, bf16=125, int8=250),
        l2=6 * MB,
        shared_per_block=99 * KB,
        shared_per_multiprocessor=100 * KB,
        threads=1536,
        blocks=16,
        clock=1695 * MEGA,
        memory_clock=6251 * MEGA,
        bus=384,
        sources=(
            "https://sysrqmts.com/ru/gpus/compare/nvidia-a10-pcie-vs-nvidia-quadro-rtx-4000",
            "the rates of the tensor cores were not checked against a source; the memory's size is the nominal one",
            _FP64,
            _GUIDE,
        ),
    ),
    Target(
        name="rtx3090",
        title="NVIDIA GeForce RTX 3090",
        vendor="nvidia",
        arch=86,
        multiprocessors=82,
        memory=24 * GB,
        bandwidth=936 * GIGA,
        peak=_tera(fp64=0.556, fp32=35.6, tf32=35.6, fp16=71, bf16=71, int8=284),
        l2=6 * MB,
        shared_per_block=99 * KB,
        shared_per_multiprocessor=100 * KB,
        threads=1536,
        blocks=16,
        clock=1695 * MEGA,
        memory_clock=9751 * MEGA,
        bus=384,
        sources=(
            "https://kitguru.net (RTX 4090 Founders Edition review, table of GPUs)",
            "https://hmc-tech.com/gpu/nvidia-geforce-rtx-4090-d-vs-nvidia-geforce-rtx-3090-ti (the Ti's rates, scaled)",
            "the memory's size is the nominal one",
            _FP64,
            _GUIDE,
        ),
    ),
    Target(
        name="rtx4090",
        title="NVIDIA GeForce RTX 4090",
        vendor="nvidia",
        arch=89,
        multiprocessors=128,
        memory=24563 * MB,
        bandwidth=1008 * GIGA,
        peak=_tera(fp64=1.29, fp32=82.6, tf32=82.6, fp16=165.2, bf16=165.2, fp8=330.3, int8=660.6),
        l2=72 * MB,
        shared_per_block=99 * KB,
        shared_per_multiprocessor=100 * KB,
        threads=1536,
        blocks=24,
        clock=2520 * MEGA,
        memory_clock=10501 * MEGA,
        bus=384,
        sources=(
            "https://waredb.com/processor/nvidia-geforce-rtx-4090 (rates)",
            "https://kitguru.net (RTX 4090 Founders Edition review, table of GPUs)",
            _READ,
            _GUIDE,
        ),
    ),
    Target(
        name="l4",
        title="NVIDIA L4",
        vendor="nvidia",
        arch=89,
        multiprocessors=58,
        memory=24 * GB,
        bandwidth=300 * GIGA,
        peak=_tera(fp64=0.473, fp32=30.3, tf32=60, fp16=121, bf16=121, fp8=242.5, int8=242.5),
        l2=48 * MB,
        shared_per_block=99 * KB,
        shared_per_multiprocessor=100 * KB,
        threads=1536,
        blocks=24,
        clock=2040 * MEGA,
        memory_clock=6251 * MEGA,
        bus=192,
        sources=(
            "https://www.topcpu.net/en/gpu-c/l40-vs-l4 (cores, clocks, L2, fp32)",
            "https://grokipedia.com/page/NVIDIA_L4_vs_L40S (rates with sparsity, halved)",
            "the memory's size is the nominal one",
            _FP64,
            _GUIDE,
        ),
    ),
    Target(
        name="h100",
        title="NVIDIA H100 SXM5 80GB",
        vendor="nvidia",
        arch=90,
        multiprocessors=132,
        memory=81090 * MB,
        bandwidth=3350 * GIGA,
        peak=_tera(fp64=33.5, fp64_tensor=66.9, fp32=66.9, tf32=494.7, fp16=989.4, bf16=989.4, fp8=1978.9, int8=1978.9),
        l2=50 * MB,
        shared_per_block=227 * KB,
        shared_per_multiprocessor=228 * KB,
        clock=1980 * MEGA,
        memory_clock=2619 * MEGA,
        bus=5120,
        sources=(
            "https://glennklockwood.com/garden/processors/h100 (rates, clock)",
            "https://archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html (bus, bandwidth, L2)",
            _READ,
            _GUIDE,
        ),
    ),
    Target(
        name="h200",
        title="NVIDIA H200",
        vendor="nvidia",
        arch=90,
        multiprocessors=132,
        memory=150109880320,
        bandwidth=4800 * GIGA,
        peak=_tera(fp64=33.5, fp64_tensor=66.9, fp32=66.9, tf32=494.7, fp16=989.4, bf16=989.4, fp8=1978.9, int8=1978.9),
        l2=60 * MB,
        shared_per_block=227 * KB,
        shared_per_multiprocessor=228 * KB,
        clock=1980 * MEGA,
        memory_clock=3201 * MEGA,
        bus=6016,
        sources=(
            "https://www.kunwar.page/chapter/appendix-d-hardware-reference (rates, bandwidth)",
            "properties that torch reads from an H200 (the rest)",
            _GUIDE,
        ),
    ),
    Target(
        name="b200",
        title="NVIDIA B200",
        vendor="nvidia",
        arch=100,
        multiprocessors=148,
        memory=182642 * MB,
        bandwidth=7672 * GIGA,
        l2=253 * MB // 2,
        shared_per_block=227 * KB,
        shared_per_multiprocessor=228 * KB,
        clock=1965 * MEGA,
        peak=_tera(fp64=37, fp64_tensor=37, fp32=75, tf32=1100, fp16=2250, bf16=2250, fp8=4500, int8=4500, fp4=9000),
        memory_clock=3996 * MEGA,
        bus=7680,
        sources=(
            "https://github.com/pytorch/ao/pull/4002 (bus, memory's clock, bandwidth, L2, as CUDA reports them)",
            "https://zdszero.github.io/Computer/Artificial_Intelligence/Hardware.html (HGX B200, sparse rates halved)",
            "the clock was not checked against a source: fp32 follows from it",
            _READ,
            _GUIDE,
        ),
    ),
    Target(
        name="rtx5090",
        title="NVIDIA GeForce RTX 5090",
        vendor="nvidia",
        arch=120,
        multiprocessors=170,
        memory=32 * GB,
        bandwidth=1792 * GIGA,
        peak=_tera(fp64=1.64, fp32=104.8, tf32=104.8, fp16=209.5, bf16=209.5, fp8=419, int8=838, fp4=1676),
        l2=96 * MB,
        shared_per_block=99 * KB,
        shared_per_multiprocessor=100 * KB,
        threads=1536,
        blocks=24,
        clock=2407 * MEGA,
        memory_clock=14001 * MEGA,
        bus=512,
        sources=(
            "https://pcpartcomparison.com/gpu/geforce-rtx-5090 (cores, clock, bus, fp32)",
            "https://pocketmags.com/linux-format-magazine/may-2025/articles/nvidia-geforce-rtx-5090 (L2, sparse rates)",
            "the memory's size is the nominal one",
            _FP64,
            _GUIDE,
        ),
    ),
    Target(
        name="mi250x",
        title="AMD Instinct MI250X (one die)",
        vendor="amd",
        arch="gfx90a",
        multiprocessors=110,
        memory=65520 * MB,
        bandwidth=1638.4 * GIGA,
        peak=_tera(fp64=23.9, fp64_tensor=47.9, fp32=23.9, fp16=191.5, bf16=191.5, int8=191.5),
        l2=8 * MB,
        shared_per_block=64 * KB,
        shared_per_multiprocessor=64 * KB,
        shared_static=64 * KB,
        warp=64,
        clock=1700 * MEGA,
        memory_clock=1600 * MEGA,
        bus=4096,
        note=_ONE_DIE,
        sources=(
            "https://zexron.com/amd-mi250-x-aldebaran-as-mcm-with-up-to-479-teraflop-s-and-560-watt-tdp (rates, halved)",
            "https://siliconcat.net/gpu/amd-radeon-instinct-mi250x (clocks, bus, bandwidth, halved)",
            _SPECS,
            _READ,
            _CDNA_FP64,
            _HIP,
        ),
    ),
    Target(
        name="mi300x",
        title="AMD Instinct MI300X",
        vendor="amd",
        arch="gfx942",
        multiprocessors=304,
        memory=196592 * MB,
        bandwidth=5300 * GIGA,
        peak=_tera(fp64=81.7, fp64_tensor=163.4, fp32=163.4, tf32=653.7, fp16=1307.4, bf16=1307.4, fp8=2614.9, int8=2614.9),
        l2=4 * MB,
        shared_per_block=64 * KB,
        shared_per_multiprocessor=64 * KB,
        shared_static=64 * KB,
        warp=64,
        clock=2100 * MEGA,
        memory_clock=1300 * MEGA,
        bus=8192,
        note="its L2 is that of one of eight dies, as HIP reports it",
        sources=(
            "https://github.com/ROCm/legacy-rocm-build/issues/4203 (what torch reads of one) and 4414 (clock)",
            "https://ttsugriy.github.io/distributed-training-book/appendices/hardware-assumptions (bf16, fp8, bandwidth)",
            "the rates of fp32, tf32 and int8 and the memory's clock were not checked against a source",
            _SPECS,
            _CDNA_FP64,
            _HIP,
        ),
    ),
    Target(
        name="mi355x",
        title="AMD Instinct MI355X",
        vendor="amd",
        arch="gfx950",
        multiprocessors=256,
        memory=288 * GB,
        bandwidth=8000 * GIGA,
        peak=_tera(fp64=78.6, fp64_tensor=78.6, fp32=157.3, fp16=2516.6, bf16=2516.6, fp8=5033.2, int8=5033.2, fp4=10066.3),
        l2=4 * MB,
        shared_per_block=160 * KB,
        shared_per_multiprocessor=160 * KB,
        shared_static=64 * KB,
        warp=64,
        clock=2400 * MEGA,
        memory_clock=2000 * MEGA,
        bus=8192,
        note="its L2 is that of one of eight dies, as HIP reports it",
        sources=(
            "https://wccftech.com (AMD at Hot Chips 2025: clock) and https://aiwiki.ai/wiki/amd_instinct_mi355x (memory)",
            "https://www.world-today-news.com/?p=7253162 (fp8 operations a clock; the other rates were not checked)",
            _SPECS,
            _CDNA_FP64,
            _HIP,
        ),
    ),
    Target(
        name="max1100",
        title="Intel Data Center GPU Max 1100",
        vendor="intel",
        arch="12.60.7",
        multiprocessors=56,
        memory=49136 * MB,
        bandwidth=1228.8 * GIGA,
        peak=_tera(fp64=22.2, fp32=22.2, tf32=177.8, fp16=355.5, bf16=355.5, int8=711),
        clock=1550 * MEGA,
        memory_clock=1600 * MEGA,
        bus=3072,
        l2=192 * MB,
        **_XE,
        note=_DRIVER,
        reported={"name": "Intel(R) Data Center GPU Max 1100", "device_id": 0xBDA, "driver_version": "1.6.33578+51"},
        sources=(
            "https://github.com/intel/torch-xpu-ops/issues/4117 (what torch 2.13 reads of one)",
            _XE_HPC,
            _XE_FP64,
            _XE_UNREAD,
            "bandwidth and clock were not checked against a source but in a report of measurements (1229 GB/s)",
        ),
    ),
    Target(
        name="max1550",
        title="Intel Data Center GPU Max 1550 (one stack)",
        vendor="intel",
        arch="12.60.7",
        multiprocessors=64,
        memory=65520 * MB,
        bandwidth=1638.4 * GIGA,
        peak=_tera(fp64=26.2, fp32=26.2, tf32=209.7, fp16=419.4, bf16=419.4, int8=838.9),
        clock=1600 * MEGA,
        memory_clock=1600 * MEGA,
        bus=4096,
        l2=192 * MB,
        **_XE,
        note=f"one of the two stacks, which the driver shows as a device of its own; {_DRIVER}",
        reported={"name": "Intel(R) Data Center GPU Max 1550", "device_id": 0xBD5, "driver_version": "1.6.33578+51"},
        sources=(
            "https://github.com/intel/torch-xpu-ops/issues/3888 (what torch 2.13 reads of one)",
            _XE_HPC,
            _XE_FP64,
            _XE_UNREAD,
            "https://glennklockwood.com/garden/processors/pvc (bandwidth and clock, the bandwidth halved)",
        ),
    ),
    Target(
        name="b580",
        title="Intel Arc B580",
        vendor="intel",
        arch="20.1.4",
        multiprocessors=20,
        memory=12168933376,
        bandwidth=456 * GIGA,
        peak=_tera(fp64=1.709, fp32=13.67, fp16=116.7, bf16=116.7, int8=233.5),
        clock=2670 * MEGA,
        memory_clock=9500 * MEGA,
        bus=192,
        l2=18 * MB,
        **_XE,
        note=f"{_DRIVER}; {_XE2_UNREAD}",
        reported={
            "name": "Intel(R) Arc(TM) B580 Graphics",
            "device_id": 0xE20B,
            "driver_version": "1.6.35096+9",
            "version": "20.1.0",
        },
        sources=(_B580, _XE2, _XE_UNREAD),
    ),
    Target(
        name="b570",
        title="Intel Arc B570",
        vendor="intel",
        arch="20.1.4",
        multiprocessors=18,
        memory=10 * GB,
        bandwidth=380 * GIGA,
        peak=_tera(fp64=1.44, fp32=11.52, fp16=101.5, bf16=101.5, int8=203),
        clock=2500 * MEGA,
        memory_clock=9500 * MEGA,
        bus=160,
        l2=18 * MB,
        **_XE,
        note=f"its memory is the nominal size; {_DRIVER}; {_XE2_UNREAD}",
        reported={
            "name": "Intel(R) Arc(TM) B570 Graphics",
            "device_id": 0xE20C,
            "driver_version": "1.6.35096+9",
            "version": "20.1.0",
        },
        sources=(_XE2, "https://fpsbench.com/compare/gpu/intel-arc-b570-vs-intel-iris-xe-max-graphics", _XE_UNREAD),
    ),
)
