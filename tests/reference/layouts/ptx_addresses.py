"""Run the integer part of a kernel's PTX for all threads of one block, and record what it stores and copies where.

It knows the instructions that compute addresses, as NVIDIA's PTX ISA defines them, and no layout: an instruction that it does not
know is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_LINE = re.compile(r"^\s*(?:@(?P<not>!?)(?P<predicate>%p\d+)\s+)?(?P<code>[a-z][\w.:]*)\s*(?P<operands>.*?);?\s*$")
_LABEL = re.compile(r"^\s*(\$\w+):")
_PARAMETER = re.compile(r"\.param \.\w+ (?:\.ptr \.\w+ \.align \d+ )?(\w+)")
#: Instructions without an effect on addresses.
_NOTHING = ("bar.sync", "cp.async.commit_group", "cp.async.wait_group", "fence", "griddepcontrol")
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


class Block:
    """The threads of a block, their registers, shared memory, and the accesses in program order."""

    def __init__(self, ptx: str, parameters: list[int], until: str = "ret") -> None:
        body = ptx[ptx.index("{\n", ptx.index(".entry")) :].partition("\n}")[0]
        self.names = dict(zip(_PARAMETER.findall(ptx[: ptx.index("{\n", ptx.index(".entry"))]), parameters, strict=False))
        self.threads = int(re.search(r"\.(?:req|max)ntid (\d+)", ptx)[1])
        self.registers: dict[str, Any] = {"%tid.x": np.arange(self.threads, dtype=np.int64)}
        self.shared = np.full(1 << 17, 255, dtype=np.uint8)
        #: (threads that take part, addresses, values of each: one row per register, bytes of each) of each store to global memory
        self.stores: list[tuple[Any, Any, Any, int]] = []
        #: (shared address, global address, bytes) of each asynchronous copy
        self.copies: list[tuple[Any, Any, int]] = []
        self.run(body.splitlines(), until)

    def run(self, lines: list[str], until: str) -> None:
        labels = {m[1]: n for n, line in enumerate(lines) if (m := _LABEL.match(line))}
        at = 0
        while at < len(lines):
            text = lines[at].partition("//")[0]
            at += 1
            matched = _LINE.match(text)
            if not matched or text.strip().startswith(("{", "}", ".")) or _LABEL.match(text):
                continue
            if matched["code"].startswith(until):
                return
            active = self.active(matched)
            if matched["code"].startswith("bra"):
                assert active.all() or not active.any(), "threads part ways"
                at = labels[matched["operands"].strip()] if active.all() else at
            else:
                self.step(matched["code"], operands(matched["operands"]), active)

    def active(self, matched: re.Match[str]) -> Any:
        if not matched["predicate"]:
            return np.ones(self.threads, dtype=bool)
        value = self.registers[matched["predicate"]].astype(bool)
        return ~value if matched["not"] else value

    def value(self, name: str) -> Any:
        if name.startswith("%ctaid"):
            return np.zeros(self.threads, dtype=np.int64)
        if name.startswith("%"):
            return self.registers[name]
        if name.startswith(("0f", "0d")):  # a float, by its bits
            return np.full(self.threads, int(name[2:], 16), dtype=np.int64)
        number = 0 if name == "global_smem" else self.names[name] if name in self.names else int(name, 0)
        return np.full(self.threads, number, dtype=np.int64)

    def address(self, operand: str) -> Any:
        base, _, more = operand.strip("[] ").partition("+")
        return self.value(base.strip()) + int(more or 0)

    def step(self, code: str, given: list[str], active: Any) -> None:
        name, *kinds = code.split(".")
        if code.startswith(_NOTHING):
            return
        if code.startswith("cp.async"):
            assert active.all()
            self.copies.append((self.address(given[0]), self.address(given[1]), int(given[2], 0)))
        elif name == "st":
            self.store(kinds, given, active)
        elif name == "ld":
            self.load(kinds, given)
        elif name == "mov" and given[0].startswith("{"):
            self.unpack(given)
        else:
            bits = int(re.search(r"\d+", kinds[-1])[0]) if re.search(r"\d+", kinds[-1]) else 1
            inputs = [self.pack(each, bits) if each.startswith("{") else self.value(each) for each in given[1:]]
            self.registers[given[0]] = wrapped(self.result(name, kinds, inputs, bits), given[0])

    def result(self, name: str, kinds: list[str], x: list[Any], bits: int) -> Any:
        signed = kinds[-1].startswith("s")
        if name == "setp":
            a, b = (as_signed(v, bits) if signed else as_unsigned(v, bits) for v in x[:2])
            return _COMPARE[kinds[0]](a, b).astype(np.int64)
        if name == "selp":
            return np.where(x[2].astype(bool), x[0], x[1])
        if name in ("mul", "mad"):
            a, b = (as_signed(v, bits) if signed else as_unsigned(v, bits) for v in x[:2])
            return a * b + (x[2] if name == "mad" else 0)
        if name == "bfe":
            field, size = as_unsigned(x[0], bits) >> x[1] & ((1 << x[2]) - 1), int(x[2][0])
            return as_signed(field, size) if signed else field
        if name == "cvt":
            source = kinds[-1]
            return as_signed(x[0], bits) if source.startswith("s") else as_unsigned(x[0], bits)
        if name == "shr":
            return (as_signed(x[0], bits) if signed else as_unsigned(x[0], bits)) >> x[1]
        return {
            "mov": lambda: x[0],
            "cvta": lambda: x[0],
            "add": lambda: x[0] + x[1],
            "sub": lambda: x[0] - x[1],
            "neg": lambda: -x[0],
            "shl": lambda: x[0] << x[1],
            "and": lambda: x[0] & x[1],
            "or": lambda: x[0] | x[1],
            "xor": lambda: x[0] ^ x[1],
            "not": lambda: ~x[0],
        }[name]()

    def pack(self, operand: str, bits: int) -> Any:
        parts = [part.strip() for part in operand.strip("{} ").split(",")]
        each = bits // len(parts)
        return sum(as_unsigned(self.value(part), each) << (n * each) for n, part in enumerate(parts))

    def unpack(self, given: list[str]) -> None:
        value = self.value(given[1])
        for n, part in enumerate(given[0].strip("{} ").split(",")):
            self.registers[part.strip()] = wrapped(value >> (16 * n), part.strip())

    def store(self, kinds: list[str], given: list[str], active: Any) -> None:
        names = [part.strip() for part in given[1].strip("{} ").split(",")]
        size = int(re.search(r"\d+", kinds[-1])[0]) // 8
        address, values = self.address(given[0]), np.array([as_unsigned(self.value(name), size * 8) for name in names])
        if kinds[0] == "global":
            self.stores.append((active, address, values, size))
            return
        for thread in np.flatnonzero(active):
            for n, value in enumerate(values[:, thread]):
                at = int(address[thread]) + n * size
                self.shared[at : at + size] = list(int(value).to_bytes(size, "little"))

    def load(self, kinds: list[str], given: list[str]) -> None:
        if kinds[0] == "param":
            self.registers[given[0]] = self.value(given[1].strip("[] "))
            return
        assert kinds[0] == "shared", kinds
        size = int(re.search(r"\d+", kinds[-1])[0]) // 8
        address = self.address(given[1])
        for n, name in enumerate(part.strip() for part in given[0].strip("{} ").split(",")):
            found = [int.from_bytes(self.shared[a + n * size : a + (n + 1) * size].tobytes(), "little") for a in address]
            self.registers[name] = wrapped(np.array(found, dtype=np.int64), name)

    def stored(self, element: int) -> list[list[int]]:
        """For each thread the values that it stored to global memory, in order, of `element` bytes each; none if masked off."""
        values: list[list[int]] = [[] for _ in range(self.threads)]
        for active, _, stored, size in self.stores:
            for thread in np.flatnonzero(active):
                whole = b"".join(int(value).to_bytes(size, "little") for value in stored[:, thread])
                values[thread] += [int.from_bytes(whole[n : n + element], "little") for n in range(0, len(whole), element)]
        return values


def operands(text: str) -> list[str]:
    """Split the operands of an instruction; braces and brackets hold together."""
    return [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s{\[][^,]*", text)]


def as_unsigned(value: Any, bits: int) -> Any:
    return value & ((1 << bits) - 1) if bits < 64 else value


def as_signed(value: Any, bits: int) -> Any:
    low = as_unsigned(value, bits)
    return np.where(low >> (bits - 1) & 1, low - (1 << bits), low) if bits < 64 else low


def wrapped(value: Any, register: str) -> Any:
    """A value as a register of that name holds it, by the register's class."""
    bits = {"%rs": 16, "%rd": 64, "%r": 32, "%p": 1}[re.match(r"%(?:rs|rd|r|p)", register)[0]]
    return as_unsigned(value, bits)
