"""The linear layout of each layout attribute of TTGIR. Pure.

The definitions are those of triton's dialect (`TritonGPUAttrDefs.td`) and of its conversions to linear layouts
(`LinearLayoutConversions.cpp`), triton 3.6 to 3.7; the shapes of the fragments are those of NVIDIA's PTX ISA ("Matrix Fragments
for mma" and "Register Fragments for wgmma") and of AMD's matrix instruction calculator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from explorer.reference.layouts.attributes import Attribute
from explorer.reference.layouts.linear import LinearLayout, along, identity, nowhere


class NoLayoutError(ValueError):
    """A layout that is not known here, or one that does not fit its tensor; the message says which."""


def linear_layout(attribute: Attribute, shape: Sequence[int], bits: int) -> LinearLayout:
    """Which element each register, lane and warp holds, or each element of shared memory; NoLayoutError for an unknown layout.

    `bits` is the size of an element. Sizes that are no powers of 2 have no linear layout.
    """
    if any(size < 1 or size & (size - 1) for size in shape):
        raise NoLayoutError(f"a shape of {'x'.join(map(str, shape))} has no linear layout: its sizes are no powers of 2")
    if attribute.kind not in _LAYOUTS:
        raise NoLayoutError(f"the layout #{attribute.name} is not known here")
    return _LAYOUTS[attribute.kind](attribute, tuple(shape), bits)


def _with_blocks(attribute: Attribute, block: LinearLayout, shape: tuple[int, ...]) -> LinearLayout:
    """Fill the part of the tensor that each thread block of a cluster has, then lay the blocks side by side."""
    if any(name in attribute.named for name in ("CTAsPerCGA", "CTASplitNum")):
        raise NoLayoutError(f"#{attribute.name} over several thread blocks in the words of an older triton is not known here")
    part, blocks = _part(attribute, shape), _blocks(attribute, shape)
    filled = block.filling(part)
    steps = attribute.bases("CGALayout")
    cluster = tuple(tuple(v * p if v < c else 0 for v, p, c in zip(step, part, blocks, strict=True)) for step in steps)
    return LinearLayout({**filled.bases, "block": cluster}, shape, filled.order)


def _blocks(attribute: Attribute, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The thread blocks of a cluster along each dimension, as many as it has elements at the most."""
    steps = attribute.bases("CGALayout")
    return tuple(min(size, 2 * max((step[d] for step in steps), default=0) or 1) for d, size in enumerate(shape))


def _part(attribute: Attribute, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the part of the tensor that each thread block has."""
    return tuple(size // count for size, count in zip(shape, _blocks(attribute, shape), strict=True))


def _blocked(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    order = attribute.numbers("order")
    layout = identity("register", attribute.numbers("sizePerThread"), order)
    layout *= identity("lane", attribute.numbers("threadsPerWarp"), order)
    layout *= identity("warp", attribute.numbers("warpsPerCTA"), order)
    return _with_blocks(attribute, layout, shape)


def _linear(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    bases = {name: attribute.bases(name) for name in ("register", "lane", "warp", "block")}
    sizes = tuple(max([1, *(2 * b[d] for all_bases in bases.values() for b in all_bases)]) for d in range(len(shape)))
    sizes = tuple(1 << (size - 1).bit_length() for size in sizes)
    layout = LinearLayout(bases, sizes, _fastest_first(bases, len(shape)))
    return layout.at_least(shape).at_most(shape, drop_registers=True)


def _fastest_first(bases: Mapping[str, Sequence[Sequence[int]]], rank: int) -> tuple[int, ...]:
    """The dimensions in the order in which the bits of registers, then of lanes and warps, first step along them."""
    seen = [d for name in ("register", "lane", "warp") for basis in bases[name] for d in range(rank) if basis[d]]
    return tuple(dict.fromkeys([*seen, *reversed(range(rank))]))


def _slice(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    dim = attribute.number("dim")
    parent = linear_layout(attribute.attribute("parent"), (*shape[:dim], 1, *shape[dim:]), bits)
    bases = {name: tuple(b[:dim] + b[dim + 1 :] for b in bases) for name, bases in parent.bases.items()}
    bases["register"] = tuple(b for b in bases["register"] if any(b))
    return LinearLayout(bases, shape, tuple(d - (d > dim) for d in parent.order if d != dim))


# Matrix units ----------------------------------------------------------------------------------------------------------


def _fragment(tile: Sequence[int], width: int, order: Sequence[int], repeats: Sequence[int]) -> LinearLayout:
    """A tile of NVIDIA's mma: `width` registers and 4 lanes along the inner dimension, 8 lanes along the outer one.

    8 rows at a time, then as often as it takes along the outer and along the inner dimension.
    """
    rank = len(order)
    inner, outer = order[0], order[1]
    layout = identity("register", (1,) * rank, repeats)
    layout *= along("register", inner, width, rank) * along("lane", inner, 4, rank) * along("lane", outer, 8, rank)
    layout *= along("register", outer, tile[outer] // 8, rank)
    return layout * along("register", inner, max(1, tile[inner] // (width * 4)), rank)


def _rows_first(rank: int) -> tuple[int, ...]:
    return tuple(reversed(range(rank)))


def _swapped(order: tuple[int, ...]) -> tuple[int, ...]:
    return (order[1], order[0], *order[2:])


def _nvidia_mma(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    major = attribute.number("versionMajor")
    if major not in (2, 3):
        raise NoLayoutError(f"version {major} of #{attribute.name} is not known here")
    rank = len(shape)
    tile = attribute.numbers("instrShape")
    tile = tile[:2] if major == 3 else tile[-2:]
    order = _rows_first(rank)
    warps = order if major == 2 else _swapped(order)
    layout = _fragment((1,) * (rank - 2) + tile, 2, order, order)
    return _with_blocks(attribute, layout * identity("warp", attribute.numbers("warpsPerCTA"), warps), shape)


def _dot_op(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    parent = attribute.attribute("parent")
    if parent.kind not in _OPERANDS:
        raise NoLayoutError(f"an operand of #{parent.name} is not known here")
    return _OPERANDS[parent.kind](attribute, parent, shape)


def _operand_dims(attribute: Attribute, rank: int) -> tuple[bool, int, tuple[int, ...]]:
    """Whether it is the left operand, the dimension that is summed over, and the order with that one fastest."""
    left = attribute.number("opIdx") == 0
    order = _rows_first(rank)
    return left, rank - 1 if left else rank - 2, order if left else _swapped(order)


def _operand_warps(parent: Attribute, summed: int, order: Sequence[int]) -> LinearLayout:
    return _spread("warp", parent.numbers("warpsPerCTA"), summed, order)


def _spread(name: str, counts: Sequence[int], summed: int, order: Sequence[int]) -> LinearLayout:
    """The bits of an input over the dimensions; along the one that is summed over, all hold the same."""
    layout = identity(name, (1,) * len(counts), order)
    for dim in order:
        rank = len(counts)
        layout *= nowhere(name, counts[dim], rank) if dim == summed else along(name, dim, counts[dim], rank)
    return layout


def _nvidia_operand(attribute: Attribute, parent: Attribute, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    left, summed, order = _operand_dims(attribute, rank)
    width = attribute.number("kWidth")
    tile = (1,) * (rank - 2) + ((16, width * 8) if left else (width * 8, 8))
    warps = _rows_first(rank) if parent.number("versionMajor") == 2 else _swapped(_rows_first(rank))
    layout = _fragment(tile, width, order, order) * _operand_warps(parent, summed, warps)
    return _with_blocks(parent, layout, shape)


def _blocked_operand(attribute: Attribute, parent: Attribute, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    _, summed, _ = _operand_dims(attribute, rank)
    order = parent.numbers("order")
    registers = tuple(shape[d] if d == summed else n for d, n in enumerate(parent.numbers("sizePerThread")))
    layout = identity("register", registers, order)
    layout *= _spread("lane", parent.numbers("threadsPerWarp"), summed, order)
    return _with_blocks(parent, layout * _operand_warps(parent, summed, order), shape)


def _amd_mfma(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    rank = len(shape)
    rows, columns = attribute.numbers("instrShape")[:2]
    if (rows, columns) not in ((32, 32), (16, 16)) or set(attribute.numbers("tilesPerWarp")) - {1}:
        raise NoLayoutError(f"#{attribute.name} of {rows}x{columns} with several tiles a warp is not known here")
    m, n = (rank - 2, rank - 1) if not attribute.number("isTransposed") else (rank - 1, rank - 2)
    order = _rows_first(rank)
    height = 1 if attribute.number("elementBitWidth", 32) == 64 else 4
    layout = identity("register", (1,) * rank, order) * along("register", m, height, rank)
    layout *= along("lane", n, columns, rank) * along("lane", m, 64 // columns, rank)
    layout *= along("register", m, rows // (height * (64 // columns)), rank)
    return _with_blocks(attribute, layout * identity("warp", attribute.numbers("warpsPerCTA"), order), shape)


def _mfma_operand(attribute: Attribute, parent: Attribute, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    left, summed, order = _operand_dims(attribute, rank)
    side = parent.numbers("instrShape")[0]
    if side not in (32, 16) or set(parent.numbers("tilesPerWarp")) - {1}:
        raise NoLayoutError(f"an operand of #{parent.name} with several tiles a warp is not known here")
    other = rank - 2 if left else rank - 1
    layout = identity("register", (1,) * rank, order) * along("register", summed, attribute.number("kWidth"), rank)
    layout *= along("lane", other, side, rank) * along("lane", summed, 64 // side, rank)
    return _with_blocks(parent, layout * _operand_warps(parent, summed, _rows_first(rank)), shape)


# Shared memory ---------------------------------------------------------------------------------------------------------


def _swizzled_shared(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    order = attribute.numbers("order")
    if len(order) == 1:
        return _with_blocks(attribute, identity("offset", shape, order), shape)
    part = _part(attribute, shape)
    column, row = order[0], order[1]
    vec, phase, most = (attribute.number(name, 1) for name in ("vec", "perPhase", "maxPhase"))

    def shift(line: int) -> int:
        return vec * (line // phase % most) % part[column]

    layout = _swizzled(part, row, column, part[row], part[column], shift)
    for dim in order[2:]:
        layout *= along("offset", dim, part[dim], len(shape))
    return _with_blocks(attribute, layout, shape)


def _swizzled(shape: Sequence[int], row: int, column: int, rows: int, columns: int, shift: Callable[[int], int]) -> LinearLayout:
    """Rows of elements, the columns of each row exchanged by the exclusive or with that row's shift."""
    rank = len(shape)
    across = along("offset", column, columns, rank)
    bases = list(across.bases["offset"])
    for line in (1 << bit for bit in range(rows.bit_length() - 1)):
        bases.append(tuple(line if d == row else shift(line) if d == column else 0 for d in range(rank)))
    sizes = tuple(rows if d == row else columns if d == column else 1 for d in range(rank))
    others = [d for d in reversed(range(rank)) if d not in (row, column)]
    return LinearLayout({"offset": tuple(bases)}, sizes, (row, column, *others))


def _nvmma_shared(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    """Tiles of 8 rows of the swizzle's width, one under the other, then side by side.

    Source: PTX ISA, "Shared memory matrix layout": 16-byte parts of a row exchanged by the number of the row.
    """
    part, rank = _part(attribute, shape), len(shape)
    if attribute.number("fp4Padded") or rank > 2:
        raise NoLayoutError(f"#{attribute.name} of {rank} dimensions, or of padded fp4, is not known here")
    if rank == 1:
        return _with_blocks(attribute, identity("offset", part, (0,)), shape)
    row, column = (1, 0) if attribute.number("transposed") else (0, 1)
    width, size = attribute.number("swizzlingByteWidth"), attribute.number("elementBitWidth", bits)
    if not width:
        return _with_blocks(attribute, identity("offset", part, (column, row)), shape)
    columns, chunk = 8 * width // size, 128 // size
    each = 128 // width

    def shift(line: int) -> int:
        return chunk * (line // each % (width // 16))

    layout = _swizzled(part, row, column, 8, columns, shift)
    if columns > part[column] or part[row] < 8:
        raise NoLayoutError(f"#{attribute.name} is larger than its tensor")
    # what one copy of the tensor memory accelerator fills, of at most 256 rows, comes first; then dimension 0 goes on, then 1
    block = tuple(min(256, part[d]) if d == row else columns for d in range(rank))
    layout = LinearLayout(layout.at_least(block).bases, block, (0, 1))
    return _with_blocks(attribute, layout, shape)


def _shared_linear(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    bases = {"offset": attribute.bases("offset"), "block": attribute.bases("block")}
    return LinearLayout(bases, shape, _rows_first(len(shape)))


def _padded_shared(attribute: Attribute, shape: tuple[int, ...], bits: int) -> LinearLayout:
    """The elements without the padding between them, which `padding_of` has."""
    if "offset" in attribute.named:
        return _shared_linear(attribute, shape, bits)
    return _with_blocks(attribute, identity("offset", shape, attribute.numbers("order")), shape)


def padding_of(attribute: Attribute) -> tuple[tuple[int, int], ...]:
    """The (interval, padding) pairs of a padded layout, in elements; () for others."""
    if attribute.kind != "padded_shared":
        return ()
    pairs = (pair for listed in attribute.listed if isinstance(listed, tuple) for pair in listed)
    return tuple((pair[0], pair[1]) for pair in pairs if isinstance(pair, tuple))


_LAYOUTS: Mapping[str, Callable[[Attribute, tuple[int, ...], int], LinearLayout]] = {
    "blocked": _blocked,
    "linear": _linear,
    "slice": _slice,
    "dot_op": _dot_op,
    "nvidia_mma": _nvidia_mma,
    "amd_mfma": _amd_mfma,
    "swizzled_shared": _swizzled_shared,
    "shared": _swizzled_shared,
    "nvmma_shared": _nvmma_shared,
    "shared_linear": _shared_linear,
    "padded_shared": _padded_shared,
}
_OPERANDS: Mapping[str, Callable[[Attribute, Attribute, tuple[int, ...]], LinearLayout]] = {
    "blocked": _blocked_operand,
    "nvidia_mma": _nvidia_operand,
    "amd_mfma": _mfma_operand,
}
