"""Find the arguments of a Triton kernel whose memory its TTIR reads and writes. Pure.

Each address has the arguments that it may be computed from. They pass through arithmetic, loops, branches and calls until nothing
changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.model.values import text_lines

#: Operations that read memory, and those that write it. The first operand is the address.
READS = re.compile(r"tt\.(load|descriptor_load|descriptor_gather|descriptor_reduce|atomic_rmw|atomic_cas)\b")
WRITES = re.compile(r"tt\.(store|descriptor_store|descriptor_scatter|descriptor_reduce|atomic_rmw|atomic_cas)\b")
#: Operations that may do anything with an address.
HIDDEN = re.compile(r"tt\.(elementwise_inline_asm|extern_elementwise)\b")
#: Operations that take an address and access nothing.
HARMLESS = re.compile(r"(tt\.(print|assert)|llvm\.intr\.assume)\b")

_LOCATION = re.compile(r'\s*loc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*"|\([^()]*\))*\))*\)')
_FUNCTION = re.compile(r'tt\.func\s+(?:(?:public|private)\s+)?@(?P<name>"[^"]*"|[\w$.-]+)\((?P<parameters>.*)\)')
_CALL = re.compile(r'tt\.call\s+@(?P<name>"[^"]*"|[\w$.-]+)\((?P<values>[^)]*)\)')
_PARAMETER = re.compile(r"(?P<name>%[\w$.-]+):\s*(?P<address>!tt\.(?:ptr|tensordesc)\b)?")
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULT = re.compile(r"(?P<name>%[\w$.-]+)(?::(?P<count>\d+))?")
_CARRIED = re.compile(r"(?P<inner>%[\w$.-]+) = (?P<initial>%[\w$.-]+(?:#\d+)?)")
_BLOCK = re.compile(r"(?P<label>\^\w+)(?:\((?P<parameters>.*)\))?:")
_TARGET = re.compile(r"(?P<label>\^\w+)(?:\((?P<values>[^):]*))?")

#: A value: its function, where it is defined, and its number there.
Key = tuple[str, int | str, int]


class Unreadable(Exception):
    """The text does not say which arguments are read and written."""


@dataclass(frozen=True)
class Accesses:
    """How many parameters of a kernel are addresses, and the positions among them that it reads and writes."""

    addresses: int
    read: frozenset[int]
    written: frozenset[int]


@dataclass
class _Function:
    """A function of the module: its parameters, whether each is an address, and its lines."""

    parameters: Sequence[str]
    is_address: Sequence[bool]
    lines: list[str] = field(default_factory=list)


@dataclass
class _Region:
    """An operation that holds others: its results, the values that its loop carries, and what enters its second block."""

    results: Sequence[Key] = ()
    carried: Sequence[Key] = ()
    entering: Sequence[Key] = ()


def accesses(ttir: str) -> Accesses:
    """Return which arguments the kernel of a module reads and writes; Unreadable where the text does not say."""
    functions = dict(_functions(ttir))
    if not functions:
        raise Unreadable("its TTIR has no function")
    kernel = next(iter(functions))
    numbers = [number for number, is_address in enumerate(functions[kernel].is_address) if is_address]
    flow = _Flow(functions)
    for position, number in enumerate(numbers):
        flow.add((kernel, "parameter", number), {position})
    while flow.changed:
        flow.changed = False
        for name in functions:
            flow.walk(name)
    return Accesses(len(numbers), *flow.touched())


def _functions(ttir: str) -> Iterator[tuple[str, _Function]]:
    """Yield the functions of a module by name, the kernel first."""
    function = _Function((), ())
    for line in text_lines(ttir):
        line = _LOCATION.sub("", line).strip()
        if header := _FUNCTION.match(line):
            parameters = [(m["name"], m["address"] is not None) for m in _PARAMETER.finditer(header["parameters"])]
            function = _Function([name for name, _ in parameters], [is_address for _, is_address in parameters])
            yield header["name"], function
        else:
            function.lines.append(line)


class _Flow:
    """The arguments that each value may be computed from."""

    def __init__(self, functions: Mapping[str, _Function]) -> None:
        self.changed = True
        self._functions = functions
        self._sources: dict[Key, set[int]] = {}
        self._accesses: dict[tuple[str, int], tuple[str, Key | None]] = {}

    def add(self, key: Key, sources: set[int]) -> None:
        """Add to the sources of a value."""
        known = self._sources.setdefault(key, set())
        if not sources <= known:
            known |= sources
            self.changed = True

    def touched(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the arguments that are read and those that are written."""
        both: tuple[set[int], set[int]] = set(), set()
        for operation, address in self._accesses.values():
            sources = self._of(address)
            if not sources:
                raise Unreadable(f"its TTIR does not say where the address of {operation.split()[0]} comes from")
            for kind, found in zip((READS, WRITES), both, strict=True):
                found |= sources if kind.match(operation) else set()
        return frozenset(both[0]), frozenset(both[1])

    def _of(self, key: Key | None) -> set[int]:
        return self._sources.get(key, set()) if key is not None else set()

    def walk(self, name: str) -> None:
        """Pass the sources of each value of a function on to the values that are computed from it."""
        function = self._functions[name]
        # regions beside each other may use one name for different values
        scopes: list[dict[str, Key]] = [{value: (name, "parameter", n) for n, value in enumerate(function.parameters)}]
        regions: list[_Region] = []
        for number, line in enumerate(function.lines):
            if line.startswith("}"):
                if regions:
                    scopes.pop()
                    regions.pop() if not line.endswith("{") else scopes.append({})
            elif block := _BLOCK.match(line):
                self._enter(name, number, block, scopes[-1], regions)
            elif line:
                region = self._line(name, number, line, scopes, regions)
                if line.endswith("{"):
                    regions.append(region)

    def _enter(self, name: str, number: int, block: re.Match[str], scope: dict[str, Key], regions: Sequence[_Region]) -> None:
        """Define the parameters of a block: branches give their values, and in a while loop its condition does."""
        where = number if regions else block["label"]
        values = [m["name"] for m in _PARAMETER.finditer(block["parameters"] or "")]
        scope.update({value: (name, where, n) for n, value in enumerate(values)})
        if regions:
            self._give([(name, where, n) for n in range(len(values))], regions[-1].entering)

    def _give(self, to: Sequence[Key], values: Sequence[Key | None]) -> None:
        """Pass on the sources of values, each to the one at its position."""
        for key, value in zip(to, values, strict=False):
            self.add(key, self._of(value))

    def _line(self, name: str, number: int, line: str, scopes: list[dict[str, Key]], regions: Sequence[_Region]) -> _Region:
        """Pass on the sources of the operands of one operation."""

        def keys(text: str) -> list[Key | None]:
            return [next((scope[v] for scope in reversed(scopes) if v in scope), None) for v in _VALUE.findall(text)]

        left, _, operation = line.partition(" = ") if line.startswith("%") else ("", "", line)
        names = _results(left)
        results: list[Key] = [(name, number, n) for n in range(len(names))]
        region = _Region(results)
        operands = keys(operation)
        if operation.startswith("scf.yield"):
            self._give(regions[-1].results, operands)
            self._give(regions[-1].carried, operands)
        elif operation.startswith("scf.condition"):
            regions[-1].entering = [key or (name, "nowhere", 0) for key in operands[1:]]
            self._give(regions[-1].results, operands[1:])
        elif operation.startswith("cf."):
            for target in _TARGET.finditer(operation):
                values = keys(target["values"] or "")
                self._give([(name, target["label"], n) for n in range(len(values))], values)
        elif operation.startswith("tt.return"):
            self._give([(name, "returned", n) for n in range(len(operands))], operands)
        elif called := _CALL.match(operation):
            self._give([(called["name"], "parameter", n) for n in range(len(operands))], operands)
            self._give(results, [(called["name"], "returned", n) for n in range(len(results))])
        elif operation.startswith(("scf.for", "scf.while")):
            pairs = list(_CARRIED.finditer(operation.removeprefix("scf.for %")))  # its own variable is none that it carries
            region.carried = [(name, number, len(names) + n) for n in range(len(pairs))]
            for to in (region.carried, results):
                self._give(to, keys(" ".join(pair["initial"] for pair in pairs)))
            scopes[-1].update(zip(names, results, strict=True))
            scopes.append(dict(zip((pair["inner"] for pair in pairs), region.carried, strict=True)))
            return region
        else:
            self._plain(name, number, operation, results, operands)
        scopes[-1].update(zip(names, results, strict=True))
        if line.endswith("{"):
            scopes.append({})
        return region

    def _plain(self, name: str, number: int, operation: str, results: Sequence[Key], operands: Sequence[Key | None]) -> None:
        """Note an access to memory; any other operation computes its results from all of its operands."""
        sources = set().union(*map(self._of, operands))
        if READS.match(operation) or WRITES.match(operation):
            self._accesses[name, number] = operation, operands[0]
        elif sources and (HIDDEN.match(operation) or not (results or HARMLESS.match(operation))):
            raise Unreadable(f"its TTIR does not say what {operation.split()[0]} does at the address that it is given")
        else:
            for result in results:
                self.add(result, sources)


def _results(text: str) -> list[str]:
    """Return the names of an operation's results: `%a:2` are `%a#0` and `%a#1`."""
    names: list[str] = []
    for result in _RESULT.finditer(text):
        count = result["count"]
        names += [f"{result['name']}#{n}" for n in range(int(count))] if count else [result["name"]]
    return names


__all__ = ["Accesses", "Unreadable", "accesses"]
