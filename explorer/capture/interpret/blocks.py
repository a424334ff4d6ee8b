"""Triton's operations on numpy arrays, for many programs of a launch at once.

What triton's own interpreter does for one program at a time, this builder does for a batch of them: the array of a value
has the batch as its first axis, of length 1 where all programs of the batch agree, and the block's own axes after it. So
a launch costs a few numpy calls an operation, not one for each of its programs. bfloat16 and float8 values are kept as
the float32 of the same value, rounded after every operation. Where programs take different ways through the
kernel (`Diverged`) the batch is undone and split.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.capture.interpret.waiting import Watch
from explorer.errors import InputError

Array = Any


class Diverged(Exception):
    """The programs of a batch take different branches; `labels` are equal for those on the same one."""

    def __init__(self, labels: Array) -> None:
        super().__init__("the programs of a batch take different ways")
        self.labels = labels


@dataclass
class Handle:
    """The value of a tl.tensor: an array with the batch as first axis, and its scalar type."""

    data: Array
    dtype: Any
    attr: dict[str, Any] = field(default_factory=dict)

    def get_element_ty(self) -> Any:
        """The type that a pointer points to."""
        kind = self.dtype
        while hasattr(kind, "element_ty"):
            kind = kind.element_ty
        return kind

    def clone(self) -> Handle:
        """A copy."""
        return Handle(self.data.copy(), self.dtype)


@dataclass
class Window:
    """A block pointer or tensor descriptor: a window of `block` elements at `offsets` into a strided tensor."""

    base: Handle
    shape: Sequence[Handle]
    strides: Sequence[Handle]
    offsets: Sequence[Handle]
    block: Sequence[int]
    padding: Any = None

    def at(self, offsets: Sequence[Handle]) -> Window:
        """The same window at other offsets."""
        return Window(self.base, self.shape, self.strides, offsets, self.block, self.padding)

    def pointers(self, checked: Sequence[int]) -> tuple[Handle, Handle]:
        """Each element's address, and whether it is inside the tensor along the axes in `checked`."""
        size = itemsize(self.base.get_element_ty())
        rank = len(self.block)
        address, inside = _column(self.base.data, rank), np.ones((1,) * (rank + 1), bool)
        for axis, length in enumerate(self.block):
            steps = np.arange(length, dtype=np.int64).reshape([1] + [length if a == axis else 1 for a in range(rank)])
            place = _column(self.offsets[axis].data.astype(np.int64), rank) + steps
            address = address + (size * place * _column(self.strides[axis].data.astype(np.int64), rank)).astype(np.uint64)
            if axis in checked:
                inside = inside & (place >= 0) & (place < _column(self.shape[axis].data.astype(np.int64), rank))
        return Handle(address, self.base.dtype), Handle(np.broadcast_to(inside, address.shape), _types().int1)


def _column(data: Array, rank: int) -> Array:
    return data.reshape((-1,) + (1,) * rank)


def _types() -> Any:
    import triton.language as tl

    return tl


# Numbers -------------------------------------------------------------------------------------------------------------


def torch_dtype_of(dtype: Any) -> Any:
    """The torch dtype of a float that numpy lacks; None for all others."""
    import torch

    names = {
        "bf16": "bfloat16",
        "fp8e5": "float8_e5m2",
        "fp8e4nv": "float8_e4m3fn",
        "fp8e4b8": "float8_e4m3fnuz",
        "fp8e5b16": "float8_e5m2fnuz",
    }
    return getattr(torch, names[dtype.name]) if getattr(dtype, "name", None) in names else None


def itemsize(dtype: Any) -> int:
    """Bytes of one element in memory."""
    return 8 if dtype.is_ptr() else max(1, int(dtype.primitive_bitwidth) // 8)


def array_type(dtype: Any) -> Any:
    """The numpy type that holds values of a triton type here."""
    if dtype.is_ptr():
        return np.dtype(np.uint64)
    if torch_dtype_of(dtype) is not None:
        return np.dtype(np.float32)
    if dtype.is_floating():
        return np.dtype(f"float{dtype.primitive_bitwidth}")
    if dtype.is_int1() if hasattr(dtype, "is_int1") else dtype.primitive_bitwidth == 1:
        return np.dtype(bool)
    return np.dtype(f"{'int' if dtype.is_int_signed() else 'uint'}{dtype.primitive_bitwidth}")


def stored_type(dtype: Any) -> Any:
    """The numpy type of the bits in memory."""
    return np.dtype(f"uint{8 * itemsize(dtype)}") if torch_dtype_of(dtype) is not None else array_type(dtype)


def torch_of(data: Array) -> Any:
    """The torch tensor of an array, for reading only."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(data) if data.flags.writeable else data.copy(order="C"))


def fitted(data: Array, dtype: Any) -> Array:
    """Convert computed values to a type: round for bfloat16 and float8, wrap for integers."""
    kind = torch_dtype_of(dtype)
    data = data.astype(array_type(dtype), copy=False)
    return data if kind is None else torch_of(data).to(kind).float().numpy()


def bits(data: Array, dtype: Any) -> Array:
    """The bits in memory of an array's values."""
    import torch

    kind = torch_dtype_of(dtype)
    if kind is None:
        return np.ascontiguousarray(data)
    whole = torch.int16 if kind.itemsize == 2 else torch.uint8
    raw: Array = torch_of(data).to(kind).view(whole).numpy().view(stored_type(dtype))
    return raw


def values(raw: Array, dtype: Any) -> Array:
    """The values of bits in memory."""
    import torch

    kind = torch_dtype_of(dtype)
    if kind is None:
        return raw
    whole = torch.int16 if kind.itemsize == 2 else torch.uint8
    return torch_of(raw.view(np.int16 if kind.itemsize == 2 else np.uint8)).view(whole).view(kind).float().numpy()


def _unsigned(data: Array) -> Array:
    return data.view(f"uint{8 * data.itemsize}") if data.dtype != bool else data


def _signed(data: Array) -> Array:
    return data.view(f"int{8 * data.itemsize}") if data.dtype != bool else data


def _divided(one: Array, other: Array) -> Array:
    """Divide integers as C does, rounding to zero."""
    other = np.where(other == 0, 1, other)
    return (one - np.fmod(one, other)) // other


def _remainder(one: Array, other: Array) -> Array:
    if one.dtype.kind == "f":
        return np.fmod(one, other)
    return np.fmod(one, np.where(other == 0, 1, other))


def _high_product(one: Array, other: Array) -> Array:
    """The upper half of an unsigned product."""
    one, other = _unsigned(one), _unsigned(other)
    if one.itemsize < 8:
        wide = f"uint{16 * one.itemsize}"
        return (one.astype(wide) * other.astype(wide)) >> (8 * one.itemsize)
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    middle = (one >> high) * (other & low) + (((one & low) * (other & low)) >> high)
    crossed = (one & low) * (other >> high) + (middle & low)
    return (one >> high) * (other >> high) + (middle >> high) + (crossed >> high)


def _error_function(data: Array) -> Array:
    import torch

    return torch.special.erf(torch_of(data)).numpy()


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "create_fadd": np.add,
    "create_fsub": np.subtract,
    "create_fmul": np.multiply,
    "create_fdiv": np.divide,
    "create_precise_divf": np.divide,
    "create_frem": np.fmod,
    "create_add": np.add,
    "create_sub": np.subtract,
    "create_mul": np.multiply,
    "create_sdiv": _divided,
    "create_udiv": _divided,
    "create_srem": _remainder,
    "create_urem": _remainder,
    "create_shl": np.left_shift,
    "create_and": np.bitwise_and,
    "create_or": np.bitwise_or,
    "create_xor": np.bitwise_xor,
    "create_minsi": np.minimum,
    "create_minui": np.minimum,
    "create_maxsi": np.maximum,
    "create_maxui": np.maximum,
    "create_minimumf": np.minimum,
    "create_maximumf": np.maximum,
    "create_minnumf": np.fmin,
    "create_maxnumf": np.fmax,
    "create_umulhi": _high_product,
    "create_lshr": lambda one, other: np.right_shift(_unsigned(one), _unsigned(other)),
    "create_ashr": lambda one, other: np.right_shift(_signed(one), _signed(other)),
}
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "LE": np.less_equal,
    "LT": np.less,
    "GE": np.greater_equal,
    "GT": np.greater,
    "EQ": np.equal,
    "NE": np.not_equal,
}
UNARY: dict[str, Callable[[Array], Array]] = {
    "create_exp": np.exp,
    "create_exp2": np.exp2,
    "create_log": np.log,
    "create_log2": np.log2,
    "create_sin": np.sin,
    "create_cos": np.cos,
    "create_sqrt": np.sqrt,
    "create_precise_sqrt": np.sqrt,
    "create_floor": np.floor,
    "create_ceil": np.ceil,
    "create_fabs": np.abs,
    "create_fneg": np.negative,
    "create_iabs": np.abs,
    "create_erf": _error_function,
    "create_rsqrt": lambda data: 1 / np.sqrt(data),
}
CASTS = (
    "create_si_to_fp",
    "create_ui_to_fp",
    "create_fp_to_si",
    "create_fp_to_ui",
    "create_fp_ext",
    "create_fp_trunc",
    "create_int_cast",
)


@dataclass(frozen=True)
class View:
    """Elements of one tensor: its storage as an array, their indices, and whether none is masked."""

    elements: Array
    index: Array
    all: bool
    name: str


class Memory:
    """The tensors that a launch may access. Other accesses are errors; writes can be undone."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, str]] = []
        self.written: set[str] = set()
        self.unchecked = False
        self.watch = Watch()
        self._storages: dict[str, tuple[int, Array]] = {}
        self._undo: list[tuple[Array, Array, Array]] | None = None

    def begin(self, programs: Array) -> None:
        """Start a batch of programs, by their numbers in the launch; the writes of several can be undone."""
        self.remember(len(programs) > 1)
        self.watch.forget()

    def allow(self, tensor: Any, name: str) -> int:
        """Allow reads and writes of a tensor's whole storage; return what to add to its addresses."""
        import torch

        storage = tensor.untyped_storage()
        first = storage.data_ptr()
        if storage.nbytes() and first not in (start for start, _, _ in self.ranges):
            self.ranges.append((first, first + storage.nbytes(), name))
            self._storages[name] = first, torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        return 0

    def load(self, address: Array, mask: Array, other: Array, kind: Any) -> Array:
        """Load the elements at the addresses where `mask` holds, `other` elsewhere."""
        self.watch.read(address)
        return self.peek(address, mask, other, kind)

    def store(self, address: Array, data: Array, mask: Array) -> None:
        """Write the elements where `mask` holds."""
        address, mask, data = np.broadcast_arrays(address, mask, data)
        self.watch.wrote()
        self.poke(address, data, mask)

    def atomic(self, address: Array, mask: Array, kind: Any, sem: Any) -> Array:
        """Begin an atomic operation: keep what it overwrites, and return the addresses at which triton performs it."""
        self.touch(address, mask, kind)
        return address

    def peek(self, address: Array, mask: Array, other: Array, kind: Any) -> Array:
        """Load elements as a part of another operation."""
        from triton._C.libtriton import interpreter

        view = self._checked(address, mask, kind, "reads")
        if view is None:
            address, mask, other = _together(address, mask, other)
            return interpreter.load(address, mask, other.astype(kind, copy=False), kind)
        loaded = view.elements.take(view.index)
        return loaded if view.all else np.where(mask, loaded, other.astype(kind, copy=False))

    def poke(self, address: Array, data: Array, mask: Array) -> None:
        """Write elements as a part of another operation."""
        from triton._C.libtriton import interpreter

        view = self.touch(address, mask, data.dtype)
        if view is None:
            interpreter.store(*_together(address, data, mask))
        elif view.all:
            view.elements[view.index] = data
        else:
            view.elements[view.index[mask]] = data[mask]

    def touch(self, address: Array, mask: Array, kind: Any) -> View | None:
        """Note that elements are about to be written, and keep their old values for `undo`."""
        from triton._C.libtriton import interpreter

        view = self._checked(address, mask, kind, "writes")
        if view is not None:
            self.written.add(view.name)
        else:
            valid = address[mask]
            self.written |= {n for first, last, n in self.ranges if valid.size and ((valid >= first) & (valid < last)).any()}
        if self._undo is not None:
            before = interpreter.load(*_together(address, mask, np.zeros(address.shape, kind)), kind) if view is None else None
            self._undo.append((address, view.elements.take(view.index) if view is not None else before, mask))
        return view

    def uncheck(self) -> None:
        """Stop checking addresses."""
        self.unchecked = True

    def remember(self, on: bool) -> None:
        """Start or stop keeping overwritten values."""
        self._undo = [] if on else None

    def undo(self) -> None:
        """Undo all writes since `remember`."""
        from triton._C.libtriton import interpreter

        for address, data, mask in reversed(self._undo or ()):
            interpreter.store(*_together(address, data, mask))

    def _checked(self, address: Array, mask: Array, kind: Any, verb: str) -> View | None:
        """Find the elements in one tensor; None if they are in several, InputError if outside of all."""
        full = bool(mask.all())
        valid = (
            address
            if full
            else np.broadcast_to(address, np.broadcast_shapes(address.shape, mask.shape))[
                np.broadcast_to(mask, np.broadcast_shapes(address.shape, mask.shape))
            ]
        )
        if self.unchecked or not valid.size:
            return None
        low, high = int(valid.min()), int(valid.max()) + kind.itemsize
        for first, last, name in self.ranges:
            if first <= low and high <= last and first % kind.itemsize == low % kind.itemsize:
                return self._view(address, mask, full, kind, name)
        inside = np.zeros(valid.shape, bool)
        for first, last, _ in self.ranges:
            inside |= (valid >= first) & (valid + np.uint64(kind.itemsize) <= last)
        if not inside.all():
            raise InputError(f"it {verb} outside of its tensors: {self._where(int(valid[~inside][0]))}; is a mask missing?")
        return None

    def _view(self, address: Array, mask: Array, full: bool, kind: Any, name: str) -> View | None:
        first, storage = self._storages[name]
        steps = (address - np.uint64(first)).view(np.int64)
        if not full:
            steps = np.where(mask, steps, 0)
        index = steps // kind.itemsize
        if kind.itemsize > 1 and (steps % kind.itemsize).any():
            return None
        count = len(storage) // kind.itemsize
        return View(storage[: count * kind.itemsize].view(kind), index, full, name)

    def _where(self, address: int) -> str:
        if not self.ranges:
            return "it has none"
        gap, name, side = min(
            (first - address, name, "before") if address < first else (address - last, name, "after")
            for first, last, name in self.ranges
        )
        return f"{gap} bytes {side} {'the start' if side == 'before' else 'the end'} of {name}"


def _together(*arrays: Array) -> tuple[Array, ...]:
    """Broadcast arrays to one shape, as writable copies: triton's interpreter takes no read-only views."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))

    def whole(array: Array) -> Array:
        own = array.shape == shape and array.flags.writeable and array.flags.c_contiguous
        return array if own else np.array(np.broadcast_to(array, shape), order="C")

    return tuple(map(whole, arrays))


class Blocks:
    """The builder that triton's semantics call: one method for each operation."""

    def __init__(self, memory: Memory) -> None:
        from dataclasses import replace

        from triton.runtime.interpreter import InterpreterBuilder

        inner = InterpreterBuilder()
        if hasattr(inner.options, "sanitize_overflow"):
            inner.options = replace(inner.options, sanitize_overflow=False)
        self._inner = inner
        self.options = inner.options
        self.memory = memory
        self.grid = (1, 1, 1)
        self.programs = np.zeros((3, 1), np.int32)
        self.largest = 1

    def __getattr__(self, name: str) -> Any:
        if name in BINARY:
            return lambda one, other: self.binary(one, other, BINARY[name])
        if name in UNARY:
            return lambda arg: self.made(UNARY[name](arg.data), arg.dtype)
        if name in CASTS:
            return lambda src, dst_type, *_: self.cast(src, dst_type)
        if name.startswith(("create_icmp", "create_fcmp")):
            return lambda one, other: Handle(COMPARISONS[name[-2:]](*_same_sign(one, other, name)), _types().int1)
        if name.startswith("create_"):
            raise NotImplementedError(f"{name.removeprefix('create_')} cannot be interpreted")
        return getattr(self._inner, name)

    def made(self, data: Array, dtype: Any) -> Handle:
        """Make the handle of computed values."""
        self.largest = max(self.largest, data[0].size if data.ndim > 1 else 1)
        return Handle(fitted(data, dtype.scalar), dtype.scalar)

    def binary(self, one: Handle, other: Handle, operation: Callable[[Array, Array], Array]) -> Handle:
        """Apply an operation to two values of one type."""
        right = other.data if other.data.dtype == one.data.dtype else other.data.astype(one.data.dtype)
        return self.made(operation(one.data, right), one.dtype)

    # Constants -------------------------------------------------------------------------------------------------------

    def get_bf16(self, value: float) -> Handle:
        """A bfloat16 constant."""
        return self.made(np.array([value], np.float32), _types().bfloat16)

    def get_null_value(self, dtype: Any) -> Handle:
        """Zero."""
        return Handle(np.zeros(1, array_type(dtype.scalar)), dtype.scalar)

    def get_all_ones_value(self, dtype: Any) -> Handle:
        """All bits set."""
        kind = array_type(dtype.scalar)
        return Handle(np.ones(1, bool) if kind.kind == "b" else np.array([-1]).astype(kind), dtype.scalar)

    # Programs --------------------------------------------------------------------------------------------------------

    def create_get_program_id(self, axis: int) -> Handle:
        """The programs' own numbers along an axis."""
        ids = self.programs[axis]
        return Handle(ids[:1] if (ids == ids[0]).all() else ids, _types().int32)

    def create_get_num_programs(self, axis: int) -> Handle:
        """The grid's length along an axis."""
        return Handle(np.array([self.grid[axis]], np.int32), _types().int32)

    # Memory ----------------------------------------------------------------------------------------------------------

    def create_load(self, ptr: Handle, *rest: Any) -> Handle:
        """A load without a mask."""
        return self.create_masked_load(ptr, Handle(np.ones_like(ptr.data, bool), _types().int1), None)

    def create_masked_load(self, ptrs: Handle, mask: Handle, other: Handle | None, *rest: Any) -> Handle:
        """A load; elements that the mask leaves out are `other`, or 0."""
        dtype = ptrs.get_element_ty()
        kind = stored_type(dtype)
        instead = bits(other.data, dtype) if other is not None else np.zeros(1, kind).reshape((1,) * ptrs.data.ndim)
        return self.made(values(self.memory.load(ptrs.data, mask.data, instead, kind), dtype), dtype)

    def create_store(self, ptr: Handle, val: Handle, *rest: Any) -> None:
        """A store without a mask."""
        self.create_masked_store(ptr, val, Handle(np.ones_like(ptr.data, bool), _types().int1))

    def create_masked_store(self, ptrs: Handle, value: Handle, mask: Handle, *rest: Any) -> None:
        """A store; in one batch the last program to write an element wins."""
        dtype = ptrs.get_element_ty()
        self.memory.store(ptrs.data, bits(value.data.astype(array_type(dtype), copy=False), dtype), mask.data)

    def create_addptr(self, ptr: Handle, offset: Handle) -> Handle:
        """Pointer arithmetic in elements."""
        step = np.uint64(itemsize(ptr.get_element_ty()))
        moved = ptr.data + step * offset.data.astype(np.int64).astype(np.uint64)
        return self.made(moved, ptr.dtype)

    def create_atomic_rmw(self, op: Any, ptr: Handle, val: Handle, mask: Handle, sem: Any, scope: Any) -> Handle:
        """An atomic read-modify-write, one element after the other."""
        kind = stored_type(val.dtype)
        address, data, chosen = _together(self._each(ptr.data), bits(val.data, val.dtype), mask.data)
        real = self.memory.atomic(address, chosen, kind, sem)
        if kind.itemsize < 4:
            return self._add_small(address, values(data, val.dtype), chosen, val.dtype, op)
        before = self._inner.create_atomic_rmw(op, *(Handle(a, val.dtype) for a in (real, data, chosen)), sem, scope)
        self._swapped(address, chosen, before.data)
        return self.made(before.data, val.dtype)

    def _swapped(self, address: Array, mask: Array, before: Array) -> None:
        """Note an atomic operation's read, and its write if the value changed."""
        self.memory.watch.read(address)
        now = self.memory.peek(address, mask, before, before.dtype)
        if not np.array_equal(now, before):
            self.memory.watch.wrote()

    def _each(self, data: Array) -> Array:
        """Repeat a value that all programs of the batch share, since each program's atomic takes effect."""
        return np.broadcast_to(data, (self.programs.shape[1], *data.shape[1:]))

    def _add_small(self, address: Array, data: Array, mask: Array, dtype: Any, op: Any) -> Handle:
        """Atomic addition of two-byte floats."""
        if "ADD" not in str(op):
            raise NotImplementedError(f"{op} of {dtype} cannot be interpreted")
        places, which = np.unique(address[mask], return_inverse=True)
        true, zeros = np.ones(places.shape, bool), np.zeros(places.shape, stored_type(dtype))
        before = values(self.memory.peek(address, mask, np.zeros(address.shape, zeros.dtype), zeros.dtype), dtype)
        now = values(self.memory.peek(places, true, zeros, zeros.dtype), dtype).astype(np.float32)
        np.add.at(now, which.reshape(-1), data[mask].astype(np.float32))
        self.memory.watch.wrote()
        self.memory.poke(places, bits(fitted(now, dtype), dtype), true)
        return self.made(before, dtype)

    def create_atomic_cas(self, ptr: Handle, cmp: Handle, val: Handle, sem: Any, scope: Any) -> Handle:
        """An atomic compare-and-swap."""
        address, expected, data = _together(self._each(ptr.data), bits(cmp.data, cmp.dtype), bits(val.data, val.dtype))
        real = self.memory.atomic(address, np.ones(address.shape, bool), data.dtype, sem)
        before = self._inner.create_atomic_cas(*(Handle(a, cmp.dtype) for a in (real, expected, data)), sem, scope)
        self._swapped(address, np.ones(address.shape, bool), before.data.view(data.dtype))
        return self.made(before.data, cmp.dtype)

    # Block pointers and tensor descriptors ---------------------------------------------------------------------------

    def create_make_block_ptr(
        self, base: Handle, shape: Any, strides: Any, offsets: Any, block: Sequence[int], order: Any
    ) -> Window:
        """A block pointer."""
        return Window(base, shape, strides, offsets, block)

    def create_advance(self, ptr: Window, offsets: Sequence[Handle]) -> Window:
        """A block pointer further on."""
        return ptr.at([Handle(a.data + b.data.astype(a.data.dtype), a.dtype) for a, b in zip(ptr.offsets, offsets, strict=True)])

    def create_tensor_pointer_load(self, ptr: Window, checked: Sequence[int], padding: Any, *rest: Any) -> Handle:
        """A load through a block pointer."""
        return self._window_load(ptr, checked, padding)

    def create_tensor_pointer_store(self, ptr: Window, value: Handle, checked: Sequence[int], *rest: Any) -> None:
        """A store through a block pointer."""
        address, inside = ptr.pointers(checked)
        self.create_masked_store(address, value, inside)

    def create_make_tensor_descriptor(
        self, base: Handle, shape: Any, strides: Any, block: Sequence[int], is_signed: bool, padding: Any = None
    ) -> Window:
        """A tensor descriptor."""
        return Window(base, shape, strides, [], block, padding)

    def create_descriptor_load(self, desc: Window, offsets: Sequence[Handle], *rest: Any) -> Handle:
        """A load through a tensor descriptor."""
        return self._window_load(desc.at(offsets), range(len(desc.block)), desc.padding)

    def create_descriptor_store(self, desc: Window, value: Handle, offsets: Sequence[Handle]) -> None:
        """A store through a tensor descriptor."""
        address, inside = desc.at(offsets).pointers(range(len(desc.block)))
        self.create_masked_store(address, value, inside)

    def _window_load(self, window: Window, checked: Sequence[int], padding: Any) -> Handle:
        address, inside = window.pointers(checked)
        dtype = address.get_element_ty()
        nan = padding is not None and "NAN" in str(padding)
        other = Handle(np.full((1,) * address.data.ndim, np.nan if nan else 0, array_type(dtype)), dtype)
        return self.create_masked_load(address, inside, other)

    # Types -----------------------------------------------------------------------------------------------------------

    def cast(self, src: Handle, dst_type: Any) -> Handle:
        """The same numbers in another type, rounded to nearest."""
        return self.made(src.data, dst_type)

    def create_fp_to_fp(self, src: Handle, dst_type: Any, rounding: Any = None) -> Handle:
        """The same numbers in another float type."""
        result = self.cast(src, dst_type)
        if rounding is None or "RTZ" not in str(rounding):
            return result
        away = np.abs(result.data.astype(np.float64)) > np.abs(src.data.astype(np.float64))
        raw = bits(result.data, result.dtype)
        lower = values((_unsigned(raw) - away.astype(_unsigned(raw).dtype)).view(raw.dtype), result.dtype)
        return Handle(lower, result.dtype)

    def create_bitcast(self, src: Handle, dst_type: Any) -> Handle:
        """The same bits in another type."""
        kind = dst_type.scalar
        raw = bits(src.data, src.dtype)
        return Handle(values(raw.view(stored_type(kind)), kind), kind)

    def create_int_to_ptr(self, src: Handle, dst_type: Any) -> Handle:
        """Use a number as an address; accesses are no longer checked, since its tensor is unknown."""
        self.memory.uncheck()
        return Handle(src.data.astype(np.uint64), dst_type.scalar)

    create_ptr_to_int = create_bitcast

    # Shapes ----------------------------------------------------------------------------------------------------------

    def create_make_range(self, ret_ty: Any, start: int, stop: int) -> Handle:
        """start, start + 1, …"""
        return self.made(np.arange(start, stop, dtype=np.int32)[None], _types().int32)

    def create_splat(self, ret_ty: Any, arg: Handle) -> Handle:
        """A block of one value."""
        shape = tuple(int(n) for n in ret_ty.shape)
        return self.made(np.broadcast_to(_column(arg.data, len(shape)), (arg.data.shape[0], *shape)), arg.dtype)

    def create_unsplat(self, arg: Handle) -> Handle:
        """The one value of a block."""
        return Handle(arg.data.reshape(arg.data.shape[0], -1)[:, 0], arg.dtype)

    def create_broadcast(self, arg: Handle, shape: Sequence[int]) -> Handle:
        """A larger block, axes of length 1 repeated."""
        return self.made(np.broadcast_to(arg.data, (arg.data.shape[0], *shape)), arg.dtype)

    def create_expand_dims(self, arg: Handle, axis: int) -> Handle:
        """One more axis of length 1."""
        return Handle(np.expand_dims(arg.data, axis + 1), arg.dtype)

    def create_reshape(self, arg: Handle, shape: Sequence[int], allow_reorder: bool) -> Handle:
        """The same elements in another shape."""
        return Handle(arg.data.reshape((arg.data.shape[0], *shape)), arg.dtype)

    def create_trans(self, arg: Handle, order: Sequence[int]) -> Handle:
        """Axes in another order."""
        return Handle(np.transpose(arg.data, (0, *(axis + 1 for axis in order))), arg.dtype)

    def create_cat(self, one: Handle, other: Handle) -> Handle:
        """One block after the other."""
        left, right = _same_batch(one.data, other.data)
        return Handle(np.concatenate([left, right], axis=1), one.dtype)

    def create_join(self, one: Handle, other: Handle) -> Handle:
        """Two blocks as one, along a new last axis."""
        return Handle(np.stack(_same_batch(one.data, other.data), axis=-1), one.dtype)

    def create_split(self, val: Handle) -> tuple[Handle, Handle]:
        """The two halves along the last axis."""
        return Handle(val.data[..., 0], val.dtype), Handle(val.data[..., 1], val.dtype)

    # More than one element -------------------------------------------------------------------------------------------

    def create_select(self, condition: Handle, one: Handle, other: Handle) -> Handle:
        """`one` where the condition holds."""
        return self.made(np.where(condition.data, one.data, other.data), one.dtype)

    def create_clampf(self, arg: Handle, low: Handle, high: Handle, propagate: Any) -> Handle:
        """Between low and high; NaN stays where asked for."""
        lower, upper = (np.maximum, np.minimum) if "ALL" in str(propagate) else (np.fmax, np.fmin)
        return self.made(upper(lower(arg.data, low.data), high.data), arg.dtype)

    def create_fma(self, one: Handle, other: Handle, more: Handle) -> Handle:
        """one·other + more, rounded once."""
        wide = np.float64 if more.data.dtype == np.float32 else more.data.dtype
        return self.made(one.data.astype(wide) * other.data + more.data, more.dtype)

    def create_dot(self, one: Handle, other: Handle, added: Handle, *rest: Any) -> Handle:
        """Compute a matrix product and add `added`, accumulated in the type of `added`, float32 at least."""
        exact = np.float64 if added.data.dtype.kind in "iu" or added.data.dtype == np.float64 else np.float32
        product = np.matmul(one.data.astype(exact), other.data.astype(exact))
        return self.made(product.astype(np.int64 if added.data.dtype.kind in "iu" else exact) + added.data, added.dtype)

    def create_gather(self, src: Handle, indices: Handle, axis: int) -> Handle:
        """Elements by index along an axis."""
        data, index = _same_batch_only(src.data, indices.data)
        return Handle(np.take_along_axis(data, index.astype(np.int64), axis=axis + 1), src.dtype)

    def create_histogram(self, data: Handle, bins: int, mask: Handle | None) -> Handle:
        """How often each of 0, 1, … is among the elements."""
        kept = np.broadcast_to(mask.data, data.data.shape) if mask is not None else np.ones(data.data.shape, bool)
        rows = [np.bincount(row[keep], minlength=bins)[:bins] for row, keep in zip(data.data, kept, strict=True)]
        return Handle(np.stack(rows).astype(np.int32), _types().int32)

    # Words -----------------------------------------------------------------------------------------------------------

    def create_print(self, prefix: str, hex: bool, values: Sequence[Handle], signed: Any) -> None:
        """Print values, program by program."""
        for row, program in enumerate(self.programs.T):
            for value in values:
                shown = value.data[min(row, len(value.data) - 1)]
                sys.stdout.write(f"({', '.join(map(str, program))}) {prefix} {shown}\n")

    def create_assert(self, condition: Handle, message: str) -> None:
        """A device assertion."""
        if not condition.data.all():
            raise InputError(f"device_assert failed: {message}")

    def create_assume(self, condition: Handle) -> None:
        """Check an assumption of the compiler."""
        if not condition.data.all():
            raise InputError("tl.assume does not hold")

    def create_barrier(self) -> None:
        """Do nothing: a batch is in step at every operation."""


def _same_sign(one: Handle, other: Handle, name: str) -> tuple[Array, Array]:
    """Read two integers as signed or unsigned, as the comparison requires."""
    if name.startswith("create_fcmp") or one.data.dtype.kind not in "iu":
        return one.data, other.data
    seen = _unsigned if name[-3] == "U" else _signed if name[-3] == "S" else lambda data: data
    return seen(one.data), seen(other.data)


def _same_batch(one: Array, other: Array) -> tuple[Array, Array]:
    both = np.broadcast_arrays(one, other)
    return both[0], both[1]


def _same_batch_only(one: Array, other: Array) -> tuple[Array, Array]:
    """Two arrays with as many programs each, whatever their blocks."""
    count = max(len(one), len(other))
    return tuple(np.broadcast_to(a, (count, *a.shape[1:])) for a in (one, other))  # type: ignore[return-value]


__all__ = ["Blocks", "Diverged", "Handle", "Memory"]
