"""GPUs by name: what the compiler asks of a device, with the public source of every figure.

None of them need be here: Inductor and Triton compile from these figures alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from explorer.errors import InputError, unknown_name
from explorer.model import Plain

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
TERA, GIGA, MEGA = 1e12, 1e9, 1e6

#: The vendors, and triton's name of the backend that compiles for each.
BACKENDS = {"nvidia": "cuda", "amd": "hip"}


@dataclass(frozen=True, kw_only=True, repr=False)
class Target:
    """A GPU as the compiler sees it; make your own with `explorer.Target(name=…, …)`.

    `arch` is what triton takes: 90 for compute capability 9.0, "gfx942" for AMD. Of an AMD GPU with several dies that
    the driver shows as several devices (MI250X), one target is one device.

    Sizes are in bytes: `memory`, `l2` (as the driver reports it), `shared_per_block` (the most that a block may ask
    for, "opt-in"), `shared_per_multiprocessor`, `shared_static` (without opting in). `bandwidth` is of the memory, in
    bytes/s. `peak` maps dtypes to the dense peak rate (no sparsity) in FLOP/s, for integers in operations/s:
    "fp32" outside tensor cores; "tf32", "fp16", "bf16", "fp8", "int8", "fp4" on them, accumulating in fp32 or int32.
    `clock` (the highest the multiprocessors run at) and `memory_clock` are in Hz, `bus` is the memory bus in bits; the
    memory moves a bit a line twice a clock, on AMD's HBM3 four times.

    `registers` counts the 32-bit registers of a multiprocessor as the driver reports them, `threads`, `blocks` and
    `threads_per_block` are the most of each on a multiprocessor and in a block. `sources` names the public documents
    the figures are from, `note` what the compiler does not use of this GPU.
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
    sources: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if self.vendor not in BACKENDS:
            raise unknown_name("vendor", self.vendor, BACKENDS)
        if not isinstance(self.arch, int if self.vendor == "nvidia" else str):
            example = "90 for compute capability 9.0" if self.vendor == "nvidia" else "'gfx942'"
            raise InputError(f"arch of an {self.vendor} target is such as {example}, not {self.arch!r}")
        if self.vendor == "amd" and not re.fullmatch(r"gfx\d{1,2}[0-9a-f]{2}", str(self.arch)):
            raise InputError(f"arch of an amd target is such as 'gfx942', not {self.arch!r}")
        if min(self.multiprocessors, self.memory, self.warp, self.threads, self.registers) <= 0:
            raise InputError(f"target {self.name!r}: multiprocessors, memory, warp, threads and registers must be above 0")
        object.__setattr__(self, "peak", MappingProxyType(dict(self.peak)))

    @property
    def backend(self) -> str:
        """Triton's backend, "cuda" or "hip"."""
        return BACKENDS[self.vendor]

    @property
    def triple(self) -> tuple[str, int | str, int]:
        """Backend, arch and warp size, as triton's GPUTarget takes them."""
        return self.backend, self.arch, self.warp

    @property
    def capability(self) -> tuple[int, int]:
        """(9, 0) for arch 90; (9, 4) for "gfx942", as HIP reports it."""
        if isinstance(self.arch, int):
            return divmod(self.arch, 10)
        return int(self.arch[3:-2]), int(self.arch[-2], 16)

    @property
    def row(self) -> dict[str, Plain]:
        """The figures that `explorer.targets()` lists, in units that people use."""
        return {
            "arch": f"sm_{self.arch}" if isinstance(self.arch, int) else self.arch, "multiprocessors": self.multiprocessors,
            "memory_gb": round(self.memory / GB, 1), "bandwidth_gb_s": round(self.bandwidth / GIGA),
            **{f"{dtype}_tflops": round(rate / TERA, 1) for dtype, rate in self.peak.items()},
            "l2_mb": round(self.l2 / MB, 1), "shared_kb": round(self.shared_per_block / KB), "registers": self.registers,
            "sources": "; ".join(self.sources),
        }  # fmt: skip

    @classmethod
    def parse(cls, name: object) -> Target:
        """The target of that name, in any spelling: "h100", "H100-SXM", "RTX 4090". InputError lists what there is."""
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
        return partial(Target, **{**values, "peak": dict(self.peak)}), ()


def _plain(name: object) -> str:
    """A name without case, spaces, dashes and its vendor."""
    return re.sub(r"^(nvidia|amd|geforce|instinct|tesla)+", "", re.sub(r"[^a-z0-9]", "", str(name).lower()))


def _tera(**rates: float) -> dict[str, float]:
    return {dtype: rate * TERA for dtype, rate in rates.items()}


#: Other names that people use.
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType({
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
})  # fmt: skip

_GUIDE = "NVIDIA CUDA C++ Programming Guide, Technical Specifications per Compute Capability"
_SPECS = "AMD ROCm documentation, Accelerator and GPU hardware specifications (compute units, wavefront, LDS, L2)"
_HIP = "HIP device properties as torch reports them (registers, threads)"
_NO_TENSOR_CORES = "triton's tl.dot uses no tensor cores below compute capability 8.0: it becomes fused multiply-adds"
_ONE_DIE = "one of the two dies of the package, which the driver shows as a device of its own; figures are for one die"

#: The GPUs that can be named, oldest first.
NAMED: tuple[Target, ...] = (
    Target(
        name="v100", title="NVIDIA Tesla V100 SXM2 32GB", vendor="nvidia", arch=70, multiprocessors=80, memory=32 * GB,
        bandwidth=900 * GIGA, peak=_tera(fp32=15.7, fp16=125), l2=6 * MB, shared_per_block=96 * KB,
        shared_per_multiprocessor=96 * KB, clock=1530 * MEGA, memory_clock=877 * MEGA, bus=4096, note=_NO_TENSOR_CORES,
        sources=("NVIDIA Tesla V100 GPU Architecture whitepaper", "NVIDIA V100 datasheet", _GUIDE),
    ),
    Target(
        name="t4", title="NVIDIA T4", vendor="nvidia", arch=75, multiprocessors=40, memory=16 * GB,
        bandwidth=320 * GIGA, peak=_tera(fp32=8.1, fp16=65, int8=130), l2=4 * MB, shared_per_block=64 * KB,
        shared_per_multiprocessor=64 * KB, threads=1024, blocks=16, clock=1590 * MEGA, memory_clock=5001 * MEGA, bus=256,
        note=_NO_TENSOR_CORES, sources=("NVIDIA Turing GPU Architecture whitepaper", "NVIDIA T4 datasheet", _GUIDE),
    ),
    Target(
        name="a100", title="NVIDIA A100 SXM4 80GB", vendor="nvidia", arch=80, multiprocessors=108, memory=80 * GB,
        bandwidth=2039 * GIGA, peak=_tera(fp32=19.5, tf32=156, fp16=312, bf16=312, int8=624), l2=40 * MB,
        shared_per_block=163 * KB, shared_per_multiprocessor=164 * KB, clock=1410 * MEGA, memory_clock=1593 * MEGA, bus=5120,
        sources=("NVIDIA A100 Tensor Core GPU Architecture whitepaper", "NVIDIA A100 80GB datasheet", _GUIDE),
    ),
    Target(
        name="a10", title="NVIDIA A10", vendor="nvidia", arch=86, multiprocessors=72, memory=24 * GB,
        bandwidth=600 * GIGA, peak=_tera(fp32=31.2, tf32=62.5, fp16=125, bf16=125, int8=250), l2=6 * MB,
        shared_per_block=99 * KB, shared_per_multiprocessor=100 * KB, threads=1536, blocks=16, clock=1695 * MEGA,
        memory_clock=6251 * MEGA, bus=384,
        sources=("NVIDIA A10 datasheet", "NVIDIA Ampere GA102 GPU Architecture whitepaper", _GUIDE),
    ),
    Target(
        name="rtx3090", title="NVIDIA GeForce RTX 3090", vendor="nvidia", arch=86, multiprocessors=82, memory=24 * GB,
        bandwidth=936 * GIGA, peak=_tera(fp32=35.6, tf32=35.6, fp16=71, bf16=71, int8=284), l2=6 * MB,
        shared_per_block=99 * KB, shared_per_multiprocessor=100 * KB, threads=1536, blocks=16, clock=1695 * MEGA,
        memory_clock=9751 * MEGA, bus=384, sources=("NVIDIA Ampere GA102 GPU Architecture whitepaper", _GUIDE),
    ),
    Target(
        name="rtx4090", title="NVIDIA GeForce RTX 4090", vendor="nvidia", arch=89, multiprocessors=128, memory=24 * GB,
        bandwidth=1008 * GIGA, peak=_tera(fp32=82.6, tf32=82.6, fp16=165.2, bf16=165.2, fp8=330.3, int8=660.6), l2=72 * MB,
        shared_per_block=99 * KB, shared_per_multiprocessor=100 * KB, threads=1536, blocks=24, clock=2520 * MEGA,
        memory_clock=10501 * MEGA, bus=384, sources=("NVIDIA Ada GPU Architecture whitepaper", _GUIDE),
    ),
    Target(
        name="l4", title="NVIDIA L4", vendor="nvidia", arch=89, multiprocessors=58, memory=24 * GB,
        bandwidth=300 * GIGA, peak=_tera(fp32=30.3, tf32=60, fp16=121, bf16=121, fp8=242.5, int8=242.5), l2=48 * MB,
        shared_per_block=99 * KB, shared_per_multiprocessor=100 * KB, threads=1536, blocks=24, clock=2040 * MEGA,
        memory_clock=6251 * MEGA, bus=192,
        sources=("NVIDIA L4 datasheet (its rates with sparsity, halved)", "NVIDIA Ada GPU Architecture whitepaper", _GUIDE),
    ),
    Target(
        name="h100", title="NVIDIA H100 SXM5 80GB", vendor="nvidia", arch=90, multiprocessors=132, memory=80 * GB,
        bandwidth=3350 * GIGA, peak=_tera(fp32=66.9, tf32=494.7, fp16=989.4, bf16=989.4, fp8=1978.9, int8=1978.9), l2=50 * MB,
        shared_per_block=227 * KB, shared_per_multiprocessor=228 * KB, clock=1980 * MEGA, memory_clock=2619 * MEGA, bus=5120,
        sources=("NVIDIA H100 Tensor Core GPU Architecture whitepaper", "NVIDIA H100 datasheet", _GUIDE),
    ),
    Target(
        name="h200", title="NVIDIA H200", vendor="nvidia", arch=90, multiprocessors=132, memory=150109880320,
        bandwidth=4800 * GIGA, peak=_tera(fp32=66.9, tf32=494.7, fp16=989.4, bf16=989.4, fp8=1978.9, int8=1978.9), l2=60 * MB,
        shared_per_block=227 * KB, shared_per_multiprocessor=228 * KB, clock=1980 * MEGA, memory_clock=3201 * MEGA, bus=6016,
        sources=("NVIDIA H200 datasheet (rates, bandwidth)", "properties that torch reads from an H200 (the rest)", _GUIDE),
    ),
    Target(
        name="b200", title="NVIDIA B200", vendor="nvidia", arch=100, multiprocessors=148, memory=180 * GB,
        bandwidth=8000 * GIGA, l2=126 * MB, shared_per_block=227 * KB, shared_per_multiprocessor=228 * KB, clock=1965 * MEGA,
        peak=_tera(fp32=75, tf32=1125, fp16=2250, bf16=2250, fp8=4500, int8=4500, fp4=9000),
        memory_clock=3996 * MEGA, bus=8192,
        sources=(
            "NVIDIA HGX B200 datasheet (rates of eight GPUs with sparsity, divided by 16; fp32 by 8)",
            "NVIDIA Blackwell Tuning Guide (L2, shared memory)",
            "device properties that CUDA reports for a B200 (multiprocessors, clocks)", _GUIDE,
        ),
    ),
    Target(
        name="rtx5090", title="NVIDIA GeForce RTX 5090", vendor="nvidia", arch=120, multiprocessors=170, memory=32 * GB,
        bandwidth=1792 * GIGA, peak=_tera(fp32=104.8, tf32=104.8, fp16=209.5, bf16=209.5, fp8=419, int8=838, fp4=1676),
        l2=96 * MB, shared_per_block=99 * KB, shared_per_multiprocessor=100 * KB, threads=1536, blocks=24, clock=2407 * MEGA,
        memory_clock=14001 * MEGA, bus=512, sources=("NVIDIA RTX Blackwell GPU Architecture whitepaper", _GUIDE),
    ),
    Target(
        name="mi250x", title="AMD Instinct MI250X (one die)", vendor="amd", arch="gfx90a", multiprocessors=110, memory=64 * GB,
        bandwidth=1638.4 * GIGA, peak=_tera(fp32=23.9, fp16=191.5, bf16=191.5, int8=191.5), l2=8 * MB,
        shared_per_block=64 * KB, shared_per_multiprocessor=64 * KB, shared_static=64 * KB, warp=64, clock=1700 * MEGA,
        memory_clock=1600 * MEGA, bus=4096, note=_ONE_DIE,
        sources=("AMD Instinct MI250X data sheet, halved", "AMD CDNA 2 Architecture white paper", _SPECS, _HIP),
    ),
    Target(
        name="mi300x", title="AMD Instinct MI300X", vendor="amd", arch="gfx942", multiprocessors=304, memory=192 * GB,
        bandwidth=5300 * GIGA, peak=_tera(fp32=163.4, tf32=653.7, fp16=1307.4, bf16=1307.4, fp8=2614.9, int8=2614.9),
        l2=4 * MB, shared_per_block=64 * KB, shared_per_multiprocessor=64 * KB, shared_static=64 * KB, warp=64,
        clock=2100 * MEGA, memory_clock=1300 * MEGA, bus=8192, note="its L2 is that of one of eight dies, as HIP reports it",
        sources=("AMD Instinct MI300X data sheet", "AMD CDNA 3 Architecture white paper", _SPECS, _HIP),
    ),
    Target(
        name="mi355x", title="AMD Instinct MI355X", vendor="amd", arch="gfx950", multiprocessors=256, memory=288 * GB,
        bandwidth=8000 * GIGA, peak=_tera(fp32=157.3, fp16=2516.6, bf16=2516.6, fp8=5033.2, int8=5033.2, fp4=10066.3),
        l2=4 * MB, shared_per_block=160 * KB, shared_per_multiprocessor=160 * KB, shared_static=64 * KB, warp=64,
        clock=2400 * MEGA, memory_clock=2000 * MEGA, bus=8192, note="its L2 is that of one of eight dies, as HIP reports it",
        sources=("AMD Instinct MI355X data sheet", "AMD CDNA 4 Architecture white paper", _SPECS, _HIP),
    ),
)  # fmt: skip
