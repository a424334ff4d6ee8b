"""The kernels of the notebook on writing Triton compute the right numbers and become what the notebook shows of them.

They are taken out of the notebook's own cells, so that both are always the same.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import explorer

pytest.importorskip("triton")

pytestmark = pytest.mark.compile
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
M, N, K = 256, 256, 128
TILE = {"BM": 128, "BN": 128, "BK": 64, "num_warps": 8, "num_stages": 3}
SPECIAL = {**TILE, "num_warps": 4, "num_stages": 2}


def cells(name: str) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    read = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    return [cell for cell in read["cells"] if cell["cell_type"] == "code"]


def kernel_source() -> Iterator[str]:
    """The notebook's imports of triton, its @triton.jit functions, and its autotuned kernel, as they stand in its cells."""
    for cell in cells("03_writing_triton.ipynb"):
        source = "".join(cell["source"])
        for node in ast.parse(source).body:
            decorators = [ast.unparse(d) for d in getattr(node, "decorator_list", [])]
            wanted = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("configs", "tuned")
            if wanted or "triton.jit" in decorators or (isinstance(node, ast.Import) and "triton" in ast.unparse(node)):
                first = min(node.lineno, *(d.lineno for d in getattr(node, "decorator_list", [])), node.lineno)
                yield "\n".join(source.splitlines()[first - 1 : node.end_lineno])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, module_at: Callable[[Path], ModuleType]) -> ModuleType:
    """The notebook's kernels as a module."""
    path = tmp_path_factory.mktemp("notebook") / "notebook_kernels.py"
    path.write_text("\n\n\n".join(kernel_source()) + "\n", encoding="utf-8")
    return module_at(path)


def half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float16)


A, B, C = half(M, K), half(K, N), torch.zeros(M, N, dtype=torch.float16)
PRODUCT = (A, B, C, M, N, K)


def tiles(meta: Any) -> tuple[int, int]:
    return meta["M"] // meta["BM"], meta["N"] // meta["BN"]


def traced(kernel: Any, *args: Any, target: str = "h100", **options: Any) -> explorer.Trace:
    """A trace without SASS and without failures."""
    trace = explorer.trace(kernel, *args, target=target, sass=False, **options)
    assert not trace.failures
    return trace


def count(text: str, word: str) -> int:
    return sum(word in line for line in text.splitlines() if not line.startswith("#loc"))


X, Y, ROWS = torch.randn(1000), torch.randn(1000), torch.randn(8, 1000)
SILU = torch.nn.functional.silu

#: Kernel, its arguments, its options, and what it must write.
CALLS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], Callable[[], torch.Tensor]]] = {
    "add": ("add", (X, Y, torch.zeros(1000), 1000), {"BLOCK": 256, "grid": (4,)}, lambda: X + Y),
    "softmax": ("softmax", (ROWS, torch.zeros(8, 1000), 1000), {"BLOCK": 1024, "grid": (8,)}, lambda: ROWS.softmax(-1)),
    "matmul": ("matmul", PRODUCT, {**TILE, "grid": tiles}, lambda: A @ B),
    "autotuned": ("tuned", PRODUCT, {"grid": tiles}, lambda: A @ B),
    "exact": (
        "matmul_exact",
        (A.float(), B.float(), C.float(), M, N, K),
        {"BM": 64, "BN": 64, "BK": 32, "PRECISION": "ieee", "grid": tiles},
        lambda: A.float() @ B.float(),
    ),
    "persistent": ("persistent", PRODUCT, {**TILE, "PROGRAMS": 3, "grid": (3,)}, lambda: A @ B),
    "descriptors": ("matmul_tma", PRODUCT, {**SPECIAL, "SPECIALIZE": True, "grid": tiles}, lambda: A @ B),
    "swish": ("swish_kernel", (X, torch.zeros(1000), 1000), {"BLOCK": 256, "grid": (4,)}, lambda: SILU(X)),
    "swish backward": (
        "swish_backward_kernel",
        (X, Y, torch.zeros(1000), 1000),
        {"BLOCK": 256, "grid": (4,)},
        lambda: torch.autograd.functional.vjp(SILU, X, Y)[1],
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_kernel_of_the_notebook_computes_what_eager_does(case: str, kernels: ModuleType) -> None:
    """Each kernel, compiled for an H100 and interpreted here, writes what PyTorch computes."""
    name, args, options, expected = CALLS[case]
    (row,) = traced(getattr(kernels, name), *args, **options).check(expected=expected())
    assert row["equal"] and row["interpreted"]


@pytest.mark.parametrize(("columns", "loads"), [(4096, "ld.global.v4.b32"), (4095, "ld.global.b32")])
def test_the_width_of_a_load_depends_on_what_is_known_of_the_size(columns: int, loads: str, kernels: ModuleType) -> None:
    """A size that 16 divides gives loads of 128 bits; one that it does not, loads of one element."""
    x = torch.zeros(columns)
    ptx = traced(kernels.add, x, x, x, columns, BLOCK=1024).text("ptx")
    assert count(ptx, loads) and count(ptx, "ld.global") == count(ptx, loads)


@pytest.mark.parametrize(("warps", "shuffles", "shared"), [(1, 10, 0), (4, 14, 16)])
def test_a_reduction_goes_through_shuffles_and_shared_memory(warps: int, shuffles: int, shared: int, kernels: ModuleType) -> None:
    """One warp reduces by shuffles alone; several exchange their parts through shared memory."""
    (kernel,) = traced(kernels.softmax, ROWS, ROWS, 1000, BLOCK=1024, num_warps=warps).kernels
    assert count(kernel.text("ptx"), "shfl.sync") == shuffles and kernel.resources["shared"] == shared


@pytest.mark.parametrize(
    ("gpu", "operation", "stage", "instruction"),
    [
        ("a100", "tt.dot ", "ptx", "mma.sync"),
        ("h100", "ttng.warp_group_dot ", "ptx", "wgmma.mma_async"),
        ("b200", "ttng.tc_gen5_mma ", "ptx", "tcgen05.mma"),
        ("mi300x", "tt.dot ", "amdgcn", "v_mfma_f32_32x32x8_f16"),
    ],
)
def test_the_product_uses_the_tensor_cores_of_its_gpu(
    gpu: str, operation: str, stage: str, instruction: str, kernels: ModuleType
) -> None:
    """tl.dot in TTGIR and in the machine's own language."""
    trace = traced(kernels.matmul, *PRODUCT, **TILE, target=gpu)
    assert count(trace.text("ttgir"), operation) and count(trace.text(stage), instruction)


@pytest.mark.parametrize(("precision", "tensor_cores"), [("tf32", True), ("tf32x3", True), ("ieee", False)])
def test_exact_products_use_no_tensor_core(precision: str, tensor_cores: bool, kernels: ModuleType) -> None:
    """With "ieee" float32 blocks are multiplied by fused multiply-adds."""
    args = (A.float(), B.float(), C.float(), M, N, K)
    ptx = traced(kernels.matmul_exact, *args, BM=64, BN=64, BK=32, PRECISION=precision, target="a100").text("ptx")
    assert (count(ptx, "mma.sync") > 0, count(ptx, "fma.rn.f32") > 0) == (tensor_cores, not tensor_cores)


def test_the_buffers_in_ttgir_are_the_shared_memory(kernels: ModuleType) -> None:
    """What ttg.local_alloc reserves adds up to the bytes that the kernel takes."""
    (kernel,) = traced(kernels.matmul, *PRODUCT, **TILE).kernels
    buffers = re.findall(r"ttg.local_alloc .*memdesc<(\d+)x(\d+)x(\d+)xf16", kernel.text("ttgir"))
    assert len(buffers) == 2 and sum(2 * int(n) * int(r) * int(c) for n, r, c in buffers) == kernel.resources["shared"]


def test_stages_become_asynchronous_copies_and_buffers(kernels: ModuleType) -> None:
    """Without stages there are plain loads; each stage adds copies before the loop and a buffer; too many do not fit."""
    made = {n: traced(kernels.matmul, *PRODUCT, **{**TILE, "num_stages": n}, target="a100").kernels[0] for n in (1, 3, 4, 7)}
    copies = {n: count(k.text("ptx"), "cp.async.cg.shared.global") for n, k in made.items()}
    assert copies[1] == 0 < copies[3] < copies[4] and count(made[1].text("ptx"), "ld.global")
    assert count(made[3].text("ptx"), "cp.async.wait_group") and count(made[3].text("ttgir"), "ttg.async_wait")
    assert made[4].resources["shared"] - made[3].resources["shared"] == 2 * 2 * 128 * 64
    assert [k.resources["occupancy"]["blocks"] > 0 for k in made.values()] == [True, True, True, False]


def test_the_pipeline_is_made_by_its_passes(kernels: ModuleType) -> None:
    """Scheduling comes first, then loads become copies, then the first ones are put before the loop."""
    passes = traced(kernels.matmul, *PRODUCT, **TILE, target="a100").kernels[0].passes()
    lower, expand = (row for row in passes if row["name"].startswith("TritonGPUPipeline: "))
    copies = [count(row["after"], "async_copy_global_to_local") for row in (lower, expand)]
    assert copies == [2, 6] and "async_copy_global_to_local" not in lower["before"]
    scheduled = next(row for row in passes if "loop.stage" in row["after"])
    assert scheduled["name"] == "TritonGPUScheduleLoops"


def test_a_flattened_loop_is_one_loop(kernels: ModuleType) -> None:
    """The persistent kernel's loop in a loop is one loop in TTGIR."""
    trace = traced(kernels.persistent, *PRODUCT, **TILE, PROGRAMS=3)
    assert (nested(trace.text("ttir")), nested(trace.text("ttgir"))) == (2, 1)


def nested(text: str) -> int:
    """How deep loops are nested in MLIR."""
    inside: list[int] = []
    deepest = 0
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        inside = [outer for outer in inside if outer < depth]
        if "scf.for" in line:
            inside.append(depth)
            deepest = max(deepest, len(inside))
    return deepest


@pytest.mark.parametrize(
    ("gpu", "takes_effect"), [("a100", False), ("h100", True), ("b200", True), ("rtx5090", True), ("mi300x", False)]
)
def test_warps_are_specialized_where_there_is_tma(gpu: str, takes_effect: bool, kernels: ModuleType) -> None:
    """With TMA warps get different jobs, registers move between them, and there are more; elsewhere nothing happens."""
    (kernel,) = traced(kernels.matmul_tma, *PRODUCT, **SPECIAL, SPECIALIZE=True, target=gpu).kernels
    ttgir, machine = kernel.text("ttgir"), kernel.text("amdgcn" if gpu == "mi300x" else "ptx")
    assert (count(ttgir, "ttg.warp_specialize(") == 1) == takes_effect == (count(machine, "setmaxnreg") > 0)
    assert (count(machine, "cp.async.bulk.tensor") > 0) == takes_effect == (kernel.resources["num_warps"] > 4)
    assert count(ttgir, "partition0(") == takes_effect


def test_the_candidates_are_compared_by_what_they_take(kernels: ModuleType) -> None:
    """Every config is a candidate and compiles; the largest spills registers, and no block of it fits."""
    (kernel,) = traced(kernels.tuned, *PRODUCT, grid=tiles).kernels
    assert [row["taken"] for row in kernel.candidates.table] == [True, False, False, False, False]
    largest = kernel.candidates[4].resources
    assert largest["spill_stores"] > 0 == largest["occupancy"]["blocks"]
    assert kernel.resources["spill_stores"] == 0 < kernel.resources["occupancy"]["blocks"]
