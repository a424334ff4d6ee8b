"""Kernels written in TTGIR whose every element is its own number, so that an address says which element is there."""

from __future__ import annotations

import tempfile
from pathlib import Path

ALIASES = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#columns = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [2, 2], order = [0, 1]}>
#cube = #ttg.blocked<{sizePerThread = [1, 2, 4], threadsPerWarp = [2, 4, 4], warpsPerCTA = [2, 1, 2], order = [2, 1, 0]}>
#flat = #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#pair = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0], \
CGALayout = [[1, 0]]}>
#lanes = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#batch = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 2, 2], instrShape = [1, 16, 8]}>
#mma3 = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#mma3w = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 2], instrShape = [16, 32, 16]}>
#mfma32 = #ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = true}>
#mfma32n = #ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = false}>
#mfma16 = #ttg.amd_mfma<{version = 4, warpsPerCTA = [4, 1], instrShape = [16, 16, 32], isTransposed = false}>
#mfma64 = #ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [16, 16, 4], isTransposed = true, elementBitWidth = 64}>
#linear = #ttg.linear<{register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], \
block = []}>
#rows = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#line = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#swizzled = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#turned = #ttg.swizzled_shared<{vec = 4, perPhase = 2, maxPhase = 4, order = [0, 1]}>
#deep = #ttg.swizzled_shared<{vec = 4, perPhase = 2, maxPhase = 4, order = [2, 1, 0]}>
#nv128 = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#nv128t = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#nv64 = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>
#nv32t = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = true, elementBitWidth = 16}>
#nv0 = #ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = false, elementBitWidth = 32}>
#padded = #ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>
"""


def kernel(layout: str, rows: int, columns: int, shared: str = "", bits: int = 32) -> str:
    """The TTGIR of a kernel that stores the number of each element, in `layout`, in global memory, or in `shared` where given."""
    rows_of, columns_of = (f"#ttg.slice<{{dim = {dim}, parent = {layout}}}>" for dim in (1, 0))
    whole, element = f"{rows}x{columns}", f"i{bits}"
    numbers, pointers = f"tensor<{whole}xi32, {layout}>", f"tensor<{whole}x!tt.ptr<{element}>, {layout}>"
    body = f"""
    %r = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : tensor<{rows}xi32, {rows_of}>
    %c = tt.make_range {{end = {columns} : i32, start = 0 : i32}} : tensor<{columns}xi32, {columns_of}>
    %r1 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{rows}xi32, {rows_of}> -> tensor<{rows}x1xi32, {layout}>
    %c1 = tt.expand_dims %c {{axis = 0 : i32}} : tensor<{columns}xi32, {columns_of}> -> tensor<1x{columns}xi32, {layout}>
    %k = arith.constant dense<{columns}> : tensor<{rows}x1xi32, {layout}>
    %r2 = arith.muli %r1, %k : tensor<{rows}x1xi32, {layout}>
    %r3 = tt.broadcast %r2 : tensor<{rows}x1xi32, {layout}> -> {numbers}
    %c3 = tt.broadcast %c1 : tensor<1x{columns}xi32, {layout}> -> {numbers}
    %id = arith.addi %r3, %c3 : {numbers}
    %p = tt.splat %out : !tt.ptr<{element}> -> {pointers}
    %q = tt.addptr %p, %id : {pointers}, {numbers}
"""
    stored = "%id"
    if bits == 16:
        body += f"    %half = arith.trunci %id : {numbers} to tensor<{whole}xi16, {layout}>\n"
        stored = "%half"
    if shared:
        buffer = f"!ttg.memdesc<{whole}x{element}, {shared}, #smem>"
        body += f"    %m = ttg.local_alloc {stored} : (tensor<{whole}x{element}, {layout}>) -> {buffer}\n"
        body += f"    %x = ttg.local_load %m : {buffer} -> tensor<{whole}x{element}, {layout}>\n"
        stored = "%x"
    return module(f"%out: !tt.ptr<{element}> {{tt.divisibility = 16 : i32}}", f"{body}    tt.store %q, {stored} : {pointers}")


def module(arguments: str, body: str, threads: int = 32) -> str:
    """A module of one function that returns nothing."""
    return f"""{ALIASES}#smem = #ttg.shared_memory
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80", \
"ttg.threads-per-warp" = {threads} : i32}} {{
  tt.func public @ids({arguments}) {{
{body}
    tt.return
  }}
}}
"""


def ptx_of(text: str) -> str:
    """The PTX that triton makes of a kernel in TTGIR, for an A100 that need not be there."""
    import triton
    from triton.backends.compiler import GPUTarget

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ttgir"
        path.write_text(text, encoding="utf-8")
        made = triton.compile(str(path), target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})
    return str(made.asm["ptx"])
