"""Named GPUs: their figures, their names, and targets of your own."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

import explorer
from explorer.capture.absent.target import resolve
from explorer.reference.gpus.figures import KB, NAMED, Target
from explorer.reference.gpus.properties import gpu_facts
from tests.each import each
from tests.facts import says, untold

WANTED = [
    "v100",
    "t4",
    "a100",
    "a10",
    "rtx3090",
    "rtx4090",
    "l4",
    "h100",
    "h200",
    "b200",
    "rtx5090",
    "mi250x",
    "mi300x",
    "mi355x",
    "max1100",
    "max1550",
    "b580",
    "b570",
]
APPLE = ["m1", "m2", "m3", "m4"]
TARGETS = {target.name: target for target in NAMED}
#: Floating-point operations a clock that a multiprocessor does in fp32, where it is not 256.
#: What the tables of other vendors' GPUs have of each, and those of Apple's may lack.
UNKNOWN_OF_APPLE = ("l2", "registers", "threads", "blocks", "shared_per_multiprocessor", "memory_clock", "bus")
SLOWER = {70: 128, 75: 128, 80: 128, "gfx90a": 128}


def test_every_gpu_of_the_table_can_be_named_and_is_listed() -> None:
    """Each named GPU is a row of targets() with its figures and their sources."""
    rows = {row["target"]: row for row in explorer.targets()}
    for name in WANTED:
        assert rows[name]["works"] and rows[name]["multiprocessors"] > 0 and rows[name]["bandwidth_gb_s"] >= 300
        assert rows[name]["fp16_tflops"] > rows[name]["fp32_tflops"] and rows[name]["sources"]


def test_an_apple_gpu_has_the_figures_that_a_source_gives_and_no_others() -> None:
    """The listed GPUs of Macs lack double precision; 0 stands for a figure without a source and is not listed."""
    rows = {row["target"]: row for row in explorer.targets()}
    for name in APPLE:
        target = TARGETS[name]
        assert (target.device, target.warp, target.shared_per_block, target.threads_per_block) == ("mps", 32, 32 * KB, 1024)
        assert rows[name]["works"] and rows[name]["arch"] == target.arch and rows[name]["bandwidth_gb_s"] > 60
        assert "fp64_tflops" not in rows[name] and rows[name].get("registers") is None and rows[name].get("l2_mb") is None
        assert rows[name]["sources"] and not untold(rows[name]["why"], "Metal", "shared with the CPU")
    assert Target.parse("Apple M3") is TARGETS["m3"] and TARGETS["m3"].capability == (9, 0)


def test_an_apple_target_of_ones_own_needs_no_registers() -> None:
    """Registers and threads of a core may be unknown of an Apple GPU, of others they may not; a family has its form."""
    figures = {"multiprocessors": 20, "memory": 1 << 34, "bandwidth": 2e11, "peak": {}, "l2": 0, "shared_per_block": 32 * KB}
    own = {"name": "own", "title": "Own", **figures, "shared_per_multiprocessor": 0, "registers": 0, "threads": 0}
    assert Target(vendor="apple", arch="apple9", **own).device == "mps"
    with pytest.raises(explorer.errors.InputError, match=says("registers", "above 0")):
        Target(vendor="nvidia", arch=90, **own)
    with pytest.raises(explorer.errors.InputError, match=says("apple", "'apple9'", "9")):
        Target(vendor="apple", arch=9, **own)


@each(TARGETS)
def test_the_figures_of_a_gpu_agree_with_one_another(name: str) -> None:
    """The bandwidth follows from clock and bus, and fp32 from clock and multiprocessors, within what boost clocks vary."""
    target = TARGETS[name]
    transfers = 4 if target.arch in ("gfx942", "gfx950") else 2
    if target.bus:
        assert target.memory_clock * transfers * target.bus / 8 == pytest.approx(target.bandwidth, rel=0.05)
    lanes = SLOWER.get(target.arch, 256)
    assert target.multiprocessors * lanes * target.clock == pytest.approx(target.peak["fp32"], rel=0.09)
    assert target.shared_static <= target.shared_per_block
    assert target.shared_per_block <= target.shared_per_multiprocessor or name in APPLE
    assert name in APPLE or all(getattr(target, figure) > 0 for figure in UNKNOWN_OF_APPLE)
    assert target.threads % target.warp == 0 and target.sources


#: Double-precision results a clock of a multiprocessor, by the CUDA programming guide.
DOUBLES = {70: 32, 75: 2, 80: 32, 86: 2, 89: 2, 90: 64, 100: 64, 120: 2}


@each([name for name in TARGETS if name not in APPLE])
def test_every_gpu_has_its_rate_of_double_precision(name: str) -> None:
    """On NVIDIA's it follows from clock and multiprocessors; it is never above that of fp32 nor above that of tensor cores."""
    target = TARGETS[name]
    assert 0 < target.peak["fp64"] <= target.peak["fp32"]
    assert target.peak.get("fp64_tensor", target.peak["fp64"]) >= target.peak["fp64"]
    if isinstance(target.arch, int):
        made = 2 * DOUBLES[target.arch] * target.multiprocessors * target.clock
        assert made == pytest.approx(target.peak["fp64"], rel=0.03)


@each(TARGETS)
def test_each_figure_names_a_source_or_says_that_there_is_none(name: str) -> None:
    """Every GPU has a public address among its sources; what has none says where it was read, or that it was not checked."""
    target = TARGETS[name]
    assert any("https://" in source for source in target.sources)
    assert all("https://" in source or re.search(r"read|checked|nominal|published", source) for source in target.sources)


def test_the_h200_is_as_torch_reads_it_from_a_real_one() -> None:
    """The H200's figures are those of torch.cuda.get_device_properties on one."""
    h200 = Target.parse("h200")
    assert (h200.multiprocessors, h200.memory, h200.l2, h200.bus) == (132, 150109880320, 62914560, 6016)
    assert (h200.shared_per_block, h200.shared_per_multiprocessor, h200.shared_static) == (232448, 233472, 49152)
    assert (h200.capability, h200.triple, h200.clock, h200.memory_clock) == ((9, 0), ("cuda", 90, 32), 1980e6, 3201e6)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("H100-SXM", "h100"),
        ("h100-sxm5", "h100"),
        ("RTX 4090", "rtx4090"),
        ("GeForce RTX 5090", "rtx5090"),
        ("MI300X", "mi300x"),
        ("gfx90a", "mi250x"),
        ("NVIDIA A100 SXM4 80GB", "a100"),
        ("sm_100", "b200"),
        ("Intel Arc B580", "b580"),
        ("pvc", "max1550"),
        ("Intel Data Center GPU Max 1100", "max1100"),
        ("Intel(R) Arc(TM) B570 Graphics", "b570"),
    ],
)
def test_a_gpu_answers_to_the_names_people_use(said: str, meant: str) -> None:
    """Case, spaces, dashes, the vendor and the form factor do not matter."""
    assert Target.parse(said).name == meant


def test_an_unknown_gpu_is_answered_with_the_list() -> None:
    """A name that is no target raises an InputError with the nearest name and every valid one."""
    with pytest.raises(explorer.errors.InputError, match=says("target", "'h1000'", "'h100'", "'mi300x'")):
        Target.parse("h1000")
    with pytest.raises(explorer.errors.InputError, match=says("'gtx1080'", "'auto'", "'cpu'", "'h100'")):
        resolve("gtx1080", (), len)


def test_amd_capabilities_are_those_hip_reports() -> None:
    """gfx942 is 9.4, gfx90a 9.10, as HIP reads the hexadecimal digit pair apart."""
    assert Target.parse("mi300x").capability == (9, 4)
    assert Target.parse("mi300x").triple == ("hip", "gfx942", 64)


def test_an_intel_gpu_is_what_torch_reads_of_a_real_one() -> None:
    """The properties of one stack of a Max 1550 are those that torch 2.13 reported of a real one, in an issue of its tests."""
    stack = Target.parse("max1550")
    assert (stack.device, stack.backend, stack.capability, stack.warp) == ("xpu", "xpu", (12, 60), 32)
    read = {
        "name": "Intel(R) Data Center GPU Max 1550",
        "device_id": 0xBD5,
        "total_memory": 65520 << 20,
        "local_mem_size": 128 << 10,
        "last_level_cache_size": 196608 << 10,
        "max_compute_units": 512,
        "memory_clock_rate": 3200,
        "memory_bus_width": 64,
        "gpu_eu_count": 512,
        "gpu_subslice_count": 64,
        "max_work_group_size": 1024,
        "max_num_sub_groups": 64,
        "sub_group_sizes": [16, 32],
        "architecture": 13136561920,
        "version": "12.60.7",
        "has_subgroup_matrix_multiply_accumulate_tensor_float32": False,
    }
    assert {name: stack.xpu[name] for name in read} == read and list(stack.xpu) == sorted(stack.xpu)
    b580 = Target.parse("b580").xpu
    assert (b580["architecture"], b580["device_id"], b580["version"], b580["gpu_eu_count"]) == (21479031808, 57867, "20.1.0", 160)


def test_the_device_type_is_torchs() -> None:
    """NVIDIA's and AMD's GPUs are "cuda" to torch, Intel's are "xpu", Apple's "mps"."""
    assert {t.vendor: t.device for t in NAMED} == {"nvidia": "cuda", "amd": "cuda", "intel": "xpu", "apple": "mps"}


def test_a_user_can_make_his_own_target() -> None:
    """Target(...) takes any figures, is equal by value, can be hashed, copied and pickled, and resolves as itself."""
    figures = {
        "title": "H20",
        "vendor": "nvidia",
        "arch": 90,
        "multiprocessors": 78,
        "memory": 96 << 30,
        "bandwidth": 4e12,
        "l2": 60 << 20,
        "peak": {"fp32": 44e12, "bf16": 148e12},
        "shared_per_block": 227 * KB,
        "shared_per_multiprocessor": 228 * KB,
    }
    one, other = explorer.Target(name="h20", **figures), explorer.Target(name="h20", **figures)
    assert one == other and hash(one) == hash(other) and pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert resolve(one, (), len) is one


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"vendor": "nvida"}, ("vendor", "'nvida'", "'nvidia'")),
        ({"arch": "sm_90"}, ("arch", "nvidia", "90", "'sm_90'")),
        ({"multiprocessors": 0}, ("'h100'", "multiprocessors", "0")),
        ({"vendor": "amd", "arch": "mi300"}, ("arch", "amd", "gfx942", "'mi300'")),
        ({"vendor": "intel", "arch": "bmg"}, ("arch", "intel", "'20.1.4'", "'bmg'")),
    ],
)
def test_a_target_that_cannot_be_says_what_would_be_right(change: dict[str, object], facts: tuple[str, ...]) -> None:
    """A wrong vendor, arch or figure raises InputError at once."""
    h100 = Target.parse("h100")
    figures = {name: getattr(h100, name) for name in h100.__dataclass_fields__}
    with pytest.raises(explorer.errors.InputError, match=says(*facts)):
        Target(**{**figures, **change})


def test_the_figures_in_words_leave_out_what_is_not_known() -> None:
    """A small rate keeps a decimal, and a cache of unknown size is not a cache of none."""
    facts = gpu_facts(TARGETS["m3"])
    assert facts["peak fp32"] == "3.6 TFLOP/s" and facts["SMs / CUs"] == "10 GPU cores" and "L2" not in facts
    assert gpu_facts(TARGETS["h100"])["peak fp32"] == "67 TFLOP/s" and gpu_facts(TARGETS["h100"])["L2"] == "50 MiB"
