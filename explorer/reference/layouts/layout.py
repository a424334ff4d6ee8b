"""Layout: where the elements of one value of TTGIR are, as a value with tables and a picture. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from types import MappingProxyType

from explorer.errors import InputError, unknown_name
from explorer.model.values import Plain, Table
from explorer.model.wording import quantity
from explorer.reference.layouts.attributes import Attribute, AttributeTextError, parse_attribute
from explorer.reference.layouts.banks import BANKS, WORD, BankUse, bank_use
from explorer.reference.layouts.encodings import NoLayoutError, linear_layout, padding_of
from explorer.reference.layouts.linear import LinearLayout
from explorer.reference.layouts.picture import draw_banks, draw_registers, draw_shared
from explorer.reference.layouts.ttgir import LayoutTexts, Move, Value, ValueType, read

Element = tuple[int, ...]
#: The lanes of a warp where the banks of shared memory are documented: NVIDIA's.
WARP = 32


@dataclass(frozen=True)
class Access:
    """A line of TTGIR that moves a value between registers and shared memory, and the banks that its first warp touches."""

    line: int
    reads: bool
    registers: str
    shared: str
    use: BankUse

    def __str__(self) -> str:
        verb = "reads" if self.reads else "writes"
        return (
            f"line {self.line} {verb} {self.use.width} bytes a lane in {self.use.rounds} rounds, "
            f"{self.use.conflicts} of them because of bank conflicts"
        )


@dataclass(frozen=True)
class Layout:
    """Which thread, warp and register holds which element of a value of TTGIR, or which byte of shared memory.

    `name` is the value or the alias that was asked for, `type` its type in the text, `kind` the name of the layout, such as
    "blocked". `memory` is "registers" or "shared". `bases` has the coordinates that each bit of register, lane, warp and block,
    or of the offset, adds. The coordinates of an element are the exclusive or over its bits. `table()` lists all elements. In a
    notebook it shows itself as a picture.
    """

    name: str
    line: int
    type: str
    encoding: str
    kind: str
    memory: str
    shape: tuple[int, ...]
    bits: int
    linear: LinearLayout
    padding: tuple[tuple[int, int], ...] = ()
    accesses: tuple[Access, ...] = ()

    @property
    def bases(self) -> Mapping[str, tuple[Element, ...]]:
        """Return each input's bases, one per bit, the lowest bit first."""
        return MappingProxyType(dict(self.linear.bases))

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many registers, lanes, warps and blocks, or elements of shared memory, the layout has."""
        return {name: self.linear.size(name) for name in self.linear.bases}

    def table(self) -> Table:
        """One row per element that a register holds, or an element of shared memory.

        In registers: element, block, warp, lane, register; an element that several threads hold has a row for each. In shared
        memory: element, offset (bytes), bank, block.
        """
        return Table(self._rows())

    def holders(self, *element: int) -> Table:
        """The rows of one element, by its coordinates; InputError for coordinates outside the value."""
        if len(element) != len(self.shape) or not all(0 <= e < s for e, s in zip(element, self.shape, strict=True)):
            raise InputError(f"{element} is not an element of a value of shape {'x'.join(map(str, self.shape))}")
        return self.table().where(element=element)

    def banks(self) -> Table:
        """One row per lane and access to shared memory: line, reads, lane, offset and width (bytes), bank, rounds, conflicts.

        They describe the first request of the first warp. `rounds` is how often shared memory is asked for it, `conflicts` how
        many of these are because lanes need different words of one bank. Only for GPUs of NVIDIA, whose banks are documented.
        """
        return Table(
            {
                "line": access.line,
                "reads": access.reads,
                "lane": lane,
                "offset": offset,
                "width": access.use.width,
                "bank": offset // WORD % BANKS,
                "rounds": access.use.rounds,
                "conflicts": access.use.conflicts,
            }
            for access in self.accesses
            for lane, offset in enumerate(access.use.addresses)
        )

    @cached_property
    def bytes_of(self) -> Mapping[Element, int]:
        """The byte of shared memory at which each element of a thread block begins; {} for registers."""
        if self.memory != "shared":
            return {}
        return {element: self._byte(n) for n, element in enumerate(self.linear.along("offset"))}

    def svg(self) -> str:
        """The picture as SVG: elements by warp and lane, or shared memory by bank, a row of 128 bytes each."""
        parts = [draw_shared(self.bytes_of, self.bits)] if self.memory == "shared" else [draw_registers(self.linear)]
        return "".join([*parts, *(draw_banks(str(access), access.use) for access in self.accesses)])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<div><p><code>{escape(self.name)}</code> {escape(self.facts)}</p>{self.svg()}</div>"

    def __repr__(self) -> str:
        return f"<Layout {self.name}: {self.facts}>"

    @property
    def bytes_used(self) -> int:
        """The bytes of shared memory from the first element to the last; 0 for registers."""
        if self.memory != "shared":
            return 0
        return self._byte(self.linear.size("offset") - 1) + max(1, self.bits // 8)

    @property
    def facts(self) -> str:
        """The layout in one line."""
        counts = ", ".join(quantity(count, name) for name, count in self.sizes.items() if count > 1)
        if self.memory == "shared":
            counts = f"{self.bytes_used} bytes"
        return f"{self.kind} in {self.memory}, {'x'.join(map(str, self.shape))} of {self.bits} bits: {counts or '1 register'}"

    def _rows(self) -> Iterator[Mapping[str, Plain]]:
        for inputs, element in self.linear.held():
            if self.memory == "shared":
                byte = self._byte(inputs["offset"])
                yield {"element": element, "offset": byte, "bank": byte // WORD % BANKS, "block": inputs.get("block", 0)}
            else:
                names = ("block", "warp", "lane", "register")
                yield {"element": element, **{name: inputs.get(name, 0) for name in names}}

    def _byte(self, offset: int) -> int:
        """The byte of an element by its number; padding is put in after every so many elements."""
        padded = offset + sum(offset // interval * padding for interval, padding in self.padding)
        return padded * self.bits // 8


def layouts_of(text: str) -> Iterator[Layout]:
    """The layout of every value of a kernel's TTGIR, in the order of its lines, without those that are not known here."""
    texts = read(text)
    by_type = dict(_known_layouts(texts))
    moves = list(_accesses(texts, by_type))
    for value in texts.values:
        if value.type in by_type:
            used = tuple(access for move, access in moves if value.name in move.names)
            yield replace(by_type[value.type], name=value.name, line=value.line, accesses=used)


def layout_named(text: str, name: str, line: int = 0) -> Layout:
    """The layout of a value (`%x`, or `x`) or of an alias (`#blocked`) in a kernel's TTGIR.

    A value that several lines name is the one of `line`, else the first. An alias is shown for the largest value that has it.
    InputError for a name that the text lacks, and for a layout that is not known here.
    """
    texts = read(text)
    value = _value_named(texts, name, line)
    try:
        layout = _layout(texts.aliases, value.type)
    except (NoLayoutError, AttributeTextError) as error:
        raise InputError(f"no picture of {name} ({value.type.text}): {error}") from error
    its = replace(texts, values=(value,), moves=tuple(move for move in texts.moves if value.name in move.names))
    used = tuple(access for _, access in _accesses(its, dict(_known_layouts(its))))
    return replace(layout, name=name if name.startswith("#") else value.name, line=value.line, accesses=used)


def _value_named(texts: LayoutTexts, name: str, line: int) -> Value:
    if name.startswith("#"):
        return _largest_with(texts, name)
    wanted = name if name.startswith("%") else f"%{name}"
    everywhere = [value for value in texts.values if value.name == wanted]
    named = [value for value in everywhere if line in (0, value.line)]
    if everywhere and not named:
        lines = ", ".join(str(value.line) for value in everywhere)
        raise InputError(f"line {line} has no value {wanted} with a layout; it is on line {lines}")
    if not named:
        names = dict.fromkeys([*(v.name for v in texts.values), *(f"#{alias}" for alias in texts.aliases)])
        raise unknown_name("value with a layout", name, names)
    return named[0]


def _largest_with(texts: LayoutTexts, alias: str) -> Value:
    """The largest value that has a layout by its alias."""
    if alias[1:] not in texts.aliases:
        raise unknown_name("layout", alias, [f"#{each}" for each in texts.aliases])
    using = [value for value in texts.values if value.type.encoding == alias]
    if not using:
        values = ", ".join(dict.fromkeys(v.name for v in texts.values if alias in v.type.encoding)) or "none"
        raise InputError(f"no value has the layout {alias} itself; values with a layout made of it: {values}")
    return max(using, key=lambda value: prod(value.type.shape))


def _known_layouts(texts: LayoutTexts) -> Iterator[tuple[ValueType, Layout]]:
    """Each type of a text with its layout, without a name, where it is known here."""
    types = [value.type for value in texts.values]
    for kind in dict.fromkeys([*types, *(kind for move in texts.moves for kind in (move.registers, move.shared))]):
        try:
            yield kind, _layout(texts.aliases, kind)
        except (NoLayoutError, AttributeTextError):
            continue


def _layout(aliases: Mapping[str, str], kind: ValueType) -> Layout:
    """The layout of a type; NoLayoutError where it is not known here."""
    if kind.allocated and kind.allocated[-len(kind.shape) :] != kind.shape:
        raise NoLayoutError(f"it is a part of a buffer of {'x'.join(map(str, kind.allocated))}, which is not known here")
    placement = _placement(kind.encoding, frozenset(aliases.items()), kind.shape, kind.bits)
    return Layout(
        name="",
        line=0,
        type=kind.text,
        encoding=aliases.get(kind.encoding[1:], kind.encoding),
        kind=placement.kind,
        memory="shared" if kind.shared else "registers",
        shape=placement.shape,
        bits=kind.bits,
        linear=placement.linear,
        padding=placement.padding,
    )


@dataclass(frozen=True)
class _Placement:
    """What an attribute's text says of a tensor of one shape and size of element."""

    kind: str
    shape: tuple[int, ...]
    linear: LinearLayout
    padding: tuple[tuple[int, int], ...]


# The kernels of one job have few layouts, and each kernel names them in its own text.
@lru_cache(maxsize=1024)
def _placement(encoding: str, aliases: frozenset[tuple[str, str]], whole: tuple[int, ...], bits: int) -> _Placement:
    attribute = parse_attribute(encoding, dict(aliases))
    shape = _shape(attribute, whole)
    return _Placement(attribute.kind, shape, linear_layout(attribute, shape, bits), padding_of(attribute))


def _shape(attribute: Attribute, whole: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that a layout describes: for several buffers in a row, the shape of one."""
    rank = {
        "nvmma_shared": attribute.number("rank", 2),
        "swizzled_shared": len(attribute.numbers("order")),
        "shared": len(attribute.numbers("order")),
        "padded_shared": len(attribute.numbers("shape")),
        "shared_linear": len((attribute.bases("offset") or ((),))[0]),
    }.get(attribute.kind, len(whole))
    return whole[-rank:] if rank else whole


def _accesses(texts: LayoutTexts, layouts: Mapping[ValueType, Layout]) -> Iterator[tuple[Move, Access]]:
    """The accesses to shared memory, where the banks are documented and both layouts are known."""
    for move in texts.moves if texts.threads == WARP and texts.vendor == "cuda" else ():
        registers, shared = layouts.get(move.registers), layouts.get(move.shared)
        if registers and shared and registers.shape == shared.shape:
            use = bank_use(registers.linear, shared.bytes_of, shared.bits)
            yield move, Access(move.line, move.reads, move.registers.text, move.shared.text, use)
