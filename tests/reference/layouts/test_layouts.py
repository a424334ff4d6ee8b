"""Where the elements of TTGIR's values are, held to triton's own linear layouts and to the addresses in the generated PTX."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import product
from math import prod
from pathlib import Path

import pytest

from explorer.errors import InputError
from explorer.reference.layouts import layout as layout_module
from explorer.reference.layouts import ttgir
from explorer.reference.layouts.attributes import aliases_of, parse_attribute
from explorer.reference.layouts.encodings import linear_layout
from explorer.reference.layouts.layout import layout_named, layouts_of
from explorer.reference.layouts.linear import LinearLayout
from explorer.reference.layouts.ttgir import read, type_of
from tests.each import each
from tests.facts import says, untold
from tests.reference.layouts import kernels
from tests.reference.layouts.ptx_addresses import Block

HERE = Path(__file__).parent


#: Each layout with shapes: larger than it, smaller than it, and such that dimensions are repeated in an order.
REGISTERS = [
    "64x32xf32, #blocked",
    "2x2xf32, #blocked",
    "1x64xf32, #blocked",
    "128x64xf16, #columns",
    "8x8x8xf32, #cube",
    "1024xf32, #flat",
    "64xf32, #flat",
    "128x64xf32, #pair",
    "64x32xf32, #mma",
    "128x128xf32, #mma",
    "4x64x64xf32, #batch",
    "64x64xf32, #mma3",
    "128x256xf32, #mma3w",
    "64x64xf32, #linear",
    "8x4xf32, #linear",
    "128x128xf32, #mfma32",
    "128x128xf32, #mfma32n",
    "128x128xf32, #mfma16",
    "64x64xf64, #mfma64",
    "64xf32, #ttg.slice<{dim = 1, parent = #mma}>",
    "64xf32, #ttg.slice<{dim = 0, parent = #blocked}>",
    "8xf32, #ttg.slice<{dim = 0, parent = #ttg.slice<{dim = 1, parent = #cube}>}>",
    "64xf32, #ttg.slice<{dim = 1, parent = #mfma32}>",
    "64xf32, #ttg.slice<{dim = 1, parent = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>}>",
    "64x32xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>",
    "64x64xf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>",
    "16x16xf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>",
    "64x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma3, kWidth = 2}>",
    "4x64x64xf16, #ttg.dot_op<{opIdx = 1, parent = #batch, kWidth = 2}>",
    "64x64xf32, #ttg.dot_op<{opIdx = 0, parent = #blocked}>",
    "64x64xf32, #ttg.dot_op<{opIdx = 1, parent = #blocked}>",
    "128x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mfma32n, kWidth = 4}>",
    "128x128xf16, #ttg.dot_op<{opIdx = 1, parent = #mfma16, kWidth = 8}>",
]
SHARED = [
    "1024xf32, #line",
    "64x64xf16, #swizzled",
    "16x4xf32, #turned",
    "32x16xf32, #turned",
    "4x16x32xf32, #deep",
    "64x128xf16, #nv128",
    "8x64xf16, #nv128",
    "64x128xf16, #nv64",
    "64x128xf16, #nv32t",
    "128x512xf16, #nv128t",
    "512x128xf16, #nv128",
    "64x128xf32, #nv0",
]
TYPES = [f"tensor<{kind}>" for kind in REGISTERS] + [f"!ttg.memdesc<{kind}, #smem>" for kind in SHARED]
SIZES = (("f32", 32), ("f16", 16), ("f8E5M2", 8))
OPERAND = "#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>"
PAIRS = [
    (f"tensor<64x64x{element}, {registers}>", f"!ttg.memdesc<64x64x{element}, {shared}, #smem>", bits)
    for (element, bits), registers, shared in product(
        SIZES, ("#blocked", "#mma", "#columns", "#lanes", "#linear", OPERAND), ("#rows", "#swizzled", "#turned")
    )
]


@pytest.fixture(scope="module")
def answers() -> list[dict[str, object]]:
    """What triton says of all types and pairs of types."""
    pytest.importorskip("triton", reason="triton is not installed: it is what the layouts are held to")
    from explorer.capture.observe.versions import version_of

    if tuple(map(int, version_of("triton").split(".")[:2])) < (3, 7):
        pytest.skip("triton before 3.7 does not give its linear layouts to Python without a kernel")
    questions = [{"text": kernels.module(f"%a: {kind}", "", 64 if "mfma" in kind else 32), "types": [kind]} for kind in TYPES] + [
        {"text": kernels.module(f"%a: {a}, %b: {b}", ""), "types": [a, b], "bits": bits} for a, b, bits in PAIRS
    ]
    command = [sys.executable, str(HERE / "triton_layouts.py")]
    done = subprocess.run(command, input=json.dumps(questions), capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout)


def linear_of(kind: str) -> LinearLayout:
    parts = type_of(kind)
    return linear_layout(parse_attribute(parts.encoding, aliases_of(kernels.ALIASES)), parts.shape, parts.bits)


@pytest.mark.compile
@each(TYPES)
def test_a_layout_is_the_one_that_triton_makes_of_it(answers, name):
    """Every bit of register, lane, warp and block, or of the offset, adds the coordinates that it adds in triton's layout."""
    expected = {name: tuple(map(tuple, bases)) for name, bases in answers[TYPES.index(name)]["bases"].items()}
    assert dict(linear_of(name).bases) == expected


@pytest.mark.compile
def test_the_first_holder_is_the_one_that_triton_prints(answers):
    """Triton's `format_tensor_view` names the thread and register of each element of a tensor: these are among its holders."""
    compared = 0
    for kind, said in zip(TYPES, answers, strict=False):
        if kind.startswith("!") or "CGALayout" in aliases_of(kernels.ALIASES).get(type_of(kind).encoding[1:], ""):
            continue
        layout = linear_of(kind)
        lanes, shape = layout.size("lane"), type_of(kind).shape
        if prod(shape) > 8192:
            continue
        cells = re.findall(r"T\d+:\d+(?:\|\s*T\d+:\d+)*", said["view"])
        assert len(cells) == len(list(product(*map(range, shape)))), kind
        for element, cell in zip(product(*map(range, shape)), cells, strict=True):
            thread, register = map(int, re.match(r"T(\d+):(\d+)", cell).groups())
            assert layout.apply(register=register, lane=thread % lanes, warp=thread // lanes) == element, (kind, cell)
            compared += 1
    assert compared > 30_000


@pytest.mark.compile
def test_bank_conflicts_are_those_that_triton_counts(answers):
    """For each pair of registers and shared memory the extra rounds of an access are as many as triton counts."""
    different, conflicting = [], 0
    for (registers, shared, _), said in zip(PAIRS, answers[len(TYPES) :], strict=True):
        text = kernels.module("", f"    %x = ttg.local_load %m : {shared} -> {registers}")
        (access,) = layout_named(text, "%x").accesses
        if access.use.rounds / access.use.fewest - 1 != said["conflicts"]:
            different.append((registers, shared, access.use.rounds, access.use.fewest, said["conflicts"]))
        conflicting += bool(said["conflicts"])
    assert not different
    assert conflicting > 10


# What the PTX addresses --------------------------------------------------------------------------------------------------


STORED = [("#blocked", 64, 32), ("#columns", 64, 64), ("#mma", 64, 32), ("#mma", 16, 8), ("#mma3", 64, 64), ("#linear", 64, 16)]
STORED += [(OPERAND, 64, 32), ("#ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>", 32, 64)]
STORED += [("#ttg.slice<{dim = 1, parent = #cube}>", 16, 16)]


@pytest.mark.parametrize(("layout", "rows", "columns"), STORED)
def test_each_thread_stores_the_elements_that_it_holds(layout, rows, columns):
    """Run by its PTX, each thread stores the elements of its registers, in their order; copies of others store nothing."""
    pytest.importorskip("triton", reason="triton is not installed: it makes the PTX")
    text = kernels.kernel(layout, rows, columns)
    block = Block(kernels.ptx_of(text), [0])
    linear = layout_named(text, "%id").linear
    stored = block.stored(4)
    for thread, numbers in enumerate(stored):
        held = [linear.apply(register=r, lane=thread % 32, warp=thread // 32) for r in range(linear.size("register"))]
        assert numbers in ([], [row * columns + column for row, column in held]), thread
    assert sorted(number for numbers in stored for number in numbers) == list(range(rows * columns))
    for active, addresses, values, size in block.stores:
        assert (addresses[active] == values[0][active] * size).all()


KEPT = [("#blocked", "#swizzled", 16), ("#blocked", "#swizzled", 32), ("#columns", "#turned", 32), ("#blocked", "#nv128", 16)]
KEPT += [("#columns", "#nv64", 16), ("#blocked", "#nv32t", 16), ("#blocked", "#padded", 32)]


@pytest.mark.parametrize(("layout", "shared", "bits"), KEPT)
def test_shared_memory_holds_each_element_where_the_picture_says(layout, shared, bits):
    """Run by its PTX up to the barrier, each byte of shared memory has the element that the layout puts there."""
    pytest.importorskip("triton", reason="triton is not installed: it makes the PTX")
    text = kernels.kernel(layout, 64, 64, shared, bits)
    block = Block(kernels.ptx_of(text), [0], until="bar.sync")
    bytes_of = layout_named(text, "%m").bytes_of
    assert len(bytes_of) == 64 * 64
    for (row, column), at in bytes_of.items():
        word = block.shared[at : at + bits // 8].tobytes()
        assert int.from_bytes(word, "little") == row * 64 + column, (row, column)


def test_a_matrix_product_copies_each_element_to_where_the_picture_says():
    """The asynchronous copies in a real product's PTX bring each element of both operands to its byte of shared memory."""
    pytest.importorskip("triton", reason="triton is not installed: it makes the PTX")
    text = (HERE.parents[1] / "data" / "matmul-a100-triton3.7.ttgir").read_text(encoding="utf-8")
    left, right, size = 1 << 40, 1 << 41, 64
    block = Block(kernels.ptx_of(text), [left, right, 1 << 42, size, size, size], until="ldmatrix")
    stage = 64 * 32 * 2
    places = {"%x_27": (left, 0, 32), "%y_36": (right, 2 * stage, 64)}
    seen = 0
    for name, (base, first, _) in places.items():
        bytes_of = layout_named(text, name).bytes_of
        for shared, source, width in block.copies:
            for to, origin in zip(shared, source, strict=True):
                if not (base <= origin < base + size * size * 2 and first <= to < first + stage):
                    continue
                for n in range(0, width, 2):
                    element = divmod((int(origin) - base + n) // 2, size)
                    assert bytes_of[element] == int(to) - first + n
                    seen += 1
    assert seen == 2 * 64 * 32


# What is asked of it -----------------------------------------------------------------------------------------------------


def test_a_value_on_another_line_is_said_to_be_there():
    """A name that the text has is not called unknown, nor offered for itself: its lines are named."""
    text = (HERE.parents[1] / "data" / "matmul-a100-triton3.7.ttgir").read_text(encoding="utf-8")
    line = layout_named(text, "%x_27").line
    with pytest.raises(InputError, match=says("1", "%x_27", str(line))):
        layout_named(text, "%x_27", line=1)


def test_values_have_the_types_that_their_operations_give():
    """A load gives what its pointers point to, a comparison bits, an address computation pointers, a cast what it casts to."""
    body = """
    %p2 = tt.addptr %p, %o : tensor<64x32x!tt.ptr<f16>, #blocked>, tensor<64x32xi32, #columns>
    %v = tt.load %p2, %mask : tensor<64x32x!tt.ptr<f16>, #blocked>
    %b = arith.cmpi slt, %o, %o : tensor<64x32xi32, #columns>
    %f = arith.extf %v : tensor<64x32xf16, #blocked> to tensor<64x32xf32, #blocked>
    %s = "tt.reduce"(%f) <{axis = 1 : i32}> ({
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tt.reduce.return %z : f32
    }) : (tensor<64x32xf32, #blocked>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #blocked}>>
    %l:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %f, %k = %c0) -> (tensor<64x32xf32, #mma>, i32)  : i32 {
"""
    types = {value.name: value.type.text for value in read(kernels.module("", body)).values}
    assert types == {
        "%p2": "tensor<64x32x!tt.ptr<f16>, #blocked>",
        "%v": "tensor<64x32xf16, #blocked>",
        "%b": "tensor<64x32xi1, #columns>",
        "%f": "tensor<64x32xf32, #blocked>",
        "%s": "tensor<64xf32, #ttg.slice<{dim = 1, parent = #blocked}>>",
        "%l#0": "tensor<64x32xf32, #mma>",
        "%acc": "tensor<64x32xf32, #mma>",
    }


def test_a_kernel_of_a_trace_shows_the_layout_of_a_value(replayed):
    """`k.layout(name)` is a value with tables and a picture, by the name of a value or of a layout, from a recording alone."""
    kernel = next(k for k in replayed("mlp_train-torch2.11-cuda").kernels if "gelu_backward" in k.name)
    layout = kernel.layout("tmp21_15")
    assert layout == kernel.layout("%tmp21_15")
    assert not untold(repr(layout), "%tmp21_15", "blocked", "registers", "1x1", "32 bits", "32 lanes", "2 warps")
    assert kernel.layout("#blocked").shape == (1, 8)
    table = kernel.layout("%tmp6").table()
    assert len(table.to_pandas()) == 2 * 32
    assert {row["element"] for row in table} == {(0, n) for n in range(8)}
    assert "<svg" in layout._repr_html_()


def test_what_has_no_picture_says_why(replayed):
    """An unknown name offers those that there are; an unknown layout and a shape without a linear layout are named."""
    kernel = next(k for k in replayed("mlp_train-torch2.11-cuda").kernels if "gelu_backward" in k.name)
    with pytest.raises(InputError, match=says("value", "'%tmp999'", "'%tmp9'")):
        kernel.layout("%tmp999")
    with pytest.raises(InputError, match=says("layout", "'#blocke'", "'#blocked'")):
        kernel.layout("#blocke")
    odd = kernels.module("", "    %x = tt.load %p : tensor<3x4xf32, #blocked>")
    with pytest.raises(InputError, match=says("%x", "3x4", "2")):
        layout_named(odd, "%x")
    strange = kernels.module("", "    %x = tt.load %p : tensor<4x4xf32, #ttg.strange<{a = 1}>>")
    with pytest.raises(InputError, match=says("%x", "layout #ttg.strange")):
        layout_named(strange, "%x")


def test_both_results_of_a_split_have_its_type():
    """MLIR writes the type of both results once."""
    line = "    %a, %b = tt.split %c : tensor<128x64x2xi32, #cube> -> tensor<128x64xi32, #blocked>"
    assert [(value.name, value.type.shape) for value in read(line).values] == [("%a", (128, 64)), ("%b", (128, 64))]


def test_an_element_that_is_a_pointer_is_as_large_as_one():
    """It is not as large as what it points to."""
    assert type_of("tensor<64x32x!tt.ptr<f16>, #blocked>").bits == 64
    assert type_of("tensor<64x32xf16, #blocked>").bits == 16


def test_a_part_of_a_larger_buffer_is_refused():
    """Its rows are as far apart as those of the buffer, which its own shape does not say."""
    whole, part = "!ttg.memdesc<8x8xf32, #rows, #smem, mutable>", "!ttg.memdesc<8x8xf32, #rows, #smem, mutable, 16x16>"
    assert layout_of(f"%a = ttg.local_alloc : () -> {whole}", "%a").shape == (8, 8)
    with pytest.raises(InputError, match=says("%a", "buffer", "16x16")):
        layout_of(f"%a = ttg.memdesc_subslice %p[0, 8] : {whole} -> {part}", "%a")


def test_a_layout_that_another_kernel_has_too_is_not_read_again(monkeypatch):
    """A job's thousands of kernels have few types and attributes; one of other aliases is another layout by the same name."""
    made = {}
    for name in ("parse_attribute", "linear_layout"):
        made[name] = counted_calls(monkeypatch, layout_module, name)
    made["_listed"] = counted_calls(monkeypatch, ttgir, "_listed")
    text = kernels.ALIASES + "  %a = arith.constant dense<1.0> : tensor<32x256xf32, #blocked>"
    (one,) = layouts_of(text)
    read_before = {name: len(calls) for name, calls in made.items()}
    (other,) = layouts_of(text.replace("%a", "%b"))
    assert {name: len(calls) for name, calls in made.items()} == read_before
    assert (other.name, other.linear) == ("%b", one.linear)
    (columns,) = layouts_of(text.replace("#blocked =", "#other =").replace("#columns =", "#blocked ="))
    assert columns.linear == layout_of(text.split("\n")[-1].replace("#blocked", "#columns"), "%a").linear != one.linear


def counted_calls(monkeypatch, module, name):
    """The calls of a function from now on, by their first arguments."""
    calls, function = [], getattr(module, name)

    def counting(*args):
        calls.append(args[0])
        return function(*args)

    monkeypatch.setattr(module, name, counting)
    return calls


@pytest.mark.parametrize(("target", "counted"), [("cuda:80", True), ("hip:gfx1100", False)])
def test_banks_are_counted_where_they_are_documented(target, counted):
    """An AMD GPU may have 32 threads a warp too, and its banks are not counted."""
    lines = [
        f'module attributes {{ttg.target = "{target}", "ttg.threads-per-warp" = 32 : i32}} {{',
        "  %a = arith.constant dense<1.0> : tensor<64x64xf32, #blocked>",
        "  %b = ttg.local_alloc %a : (tensor<64x64xf32, #blocked>) -> !ttg.memdesc<64x64xf32, #swizzled, #smem>",
        "}",
    ]
    assert bool(layout_of("\n".join(lines), "%b").accesses) == counted


def layout_of(text, name):
    """The layout of a value of a text, with the aliases of all tests."""
    return layout_named(kernels.ALIASES + text + "\n", name)
