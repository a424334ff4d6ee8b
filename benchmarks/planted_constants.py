"""Plant a distinct number in each line of many programs, and follow each of them back from the texts below the kernels.

    python benchmarks/planted_constants.py                    40 programs for an H100, 10 for an MI300X (GPUs you don't have)
    python benchmarks/planted_constants.py --seed 7 --show    other programs; print each line that is not linked right

Each program has several lines of `FLOATS` and `INTEGERS`. Each text below its kernels is searched for the numbers' bits, as
MLIR, LLVM, PTX, SASS and AMDGCN write them, negated too. A line with a number is linked "right" if its origins include the
number's user line, "false" if they are other user lines only. A line without an origin is "counted" if `Trace.coverage()`
counts it as missing, else "silent". Exits with 1 for a false link, or if over 5 % of a stage's numbers are silent.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import random
import re
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: Lines of a program: `v` and `w` are earlier float values, `c` is the line's number.
FLOATS = (
    "{v} * {c}",
    "{v} + {c}",
    "{v} - {c}",
    "{c} - {v}",
    "{v} * {c} + {w}",
    "({v} + {c}) * {w}",
    "torch.sin({v} * {c})",
    "torch.cos({v} * {c})",
    "torch.sin({v} + {c}) + torch.cos({w})",
    "torch.tan({v} * {c})",
    "torch.exp({v} * {c})",
    "torch.tanh({v} + {c})",
    "torch.sigmoid({v} * {c})",
    "torch.erf({v} * {c})",
    "torch.log1p({v}.abs() * {c})",
    "torch.rsqrt({v}.abs() + {c})",
    "torch.pow({v}.abs(), {c})",
    "torch.where({v} > {c}, {v}, {w})",
    "torch.where({v} > {w}, {c}, {v})",
    "torch.where(y > 0, {c}, {v})",
    "torch.where(y > 0, {v}, {c})",
    "{v}.masked_fill({w} > 0, {c})",
    "torch.clamp({v}, max={c})",
    "torch.clamp({v}, min=-{c}) * {w}",
    "torch.nn.functional.leaky_relu({v}, {c})",
    "torch.add({v}, {w}, alpha={c})",
    "torch.addcmul({v}, {w}, {w}, value={c})",
    "torch.fmod({v}, {c})",
    "torch.nan_to_num({v}, nan={c})",
    "({v} * {c}).to(torch.float16).to(torch.float32)",
    "({v} * {c}).to(torch.bfloat16).float() + {w}",
    "({v} * {c}).sum(-1, keepdim=True) + {w}",
    "({v} + {c}).amax(-1, keepdim=True) * {w}",
    "({v} * {c}).mean(0, keepdim=True) - {w}",
    "torch.softmax({v} * {c}, -1)",
    "torch.cumsum({v} + {c}, -1)",
    "torch.roll({v}, 1, 0) * {c}",
)
#: `i` is an argument of int32, `c` an integer.
INTEGERS = (
    "{v} + (i * {c})",
    "{v} + (i ^ {c})",
    "{v} * (i + {c}).to(torch.float32)",
    "torch.where(i > {c}, {v}, {w})",
    "torch.where((i & {c}) == 0, {v}, {w})",
    "torch.where(i % {c} == 1, {w}, {v})",
    "torch.where({w} > 0.0, i, {c}).to(torch.float32) + {v}",
)
#: Lines that LLVM packs into instructions on two values for MI300X.
PACKED = (
    "{v} * {c}",
    "{v} + {c}",
    "torch.pow({v}.abs(), {c})",
    "torch.pow({v}.abs() + {c}, 1.75)",
    "{v} * {c} + {w}",
    "torch.exp({v} * {c})",
)
#: The stages below a kernel.
STAGES = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
RIGHT, FALSE, COUNTED, SILENT = "right", "false", "counted", "silent"
SHAPES = ((64, 64), (32, 96), (128, 512), (8, 1024))

_HEX_FLOAT = re.compile(r"\b0[fF]([0-9a-fA-F]{8})\b")
_HEX = re.compile(r"(?<![\w.])(-?)0x([0-9a-fA-F]{1,16})\b")
_DECIMAL = re.compile(r"(?<![\w.$%#])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
#: ptxas puts a number into a register as two halves.
_HALVES = re.compile(r"HFMA2\S* R\d+, -RZ, RZ, (-?[\d.e+-]+|-?INF|[+-]?Q?S?NAN), (-?[\d.e+-]+)")


class Planted(NamedTuple):
    """A program's source, its arguments' shape, and for each planted number's bits its line, counted from 1 in the function."""

    text: str
    shape: tuple[int, ...]
    lines: dict[int, int]


class Finding(NamedTuple):
    """A line of a text that has a planted number, and where it leads."""

    stage: str
    verdict: str
    planted_line: str
    text: str
    led_to: tuple[str, ...]
    artifact: str
    number: int


def program(rng: random.Random, idioms: Sequence[str], length: int) -> Planted:
    """Write a function of `length` lines, each with a number of its own."""
    values, body, lines = ["x", "y"], [], {}
    for at in range(length):
        idiom = rng.choice(idioms)
        newest = values[-1]
        number: float | int = rng.randrange(20_011, 999_983) if idiom in INTEGERS else round(rng.uniform(0.2, 2.9), 4) + 1e-6
        other = rng.choice(values[-3:-1])
        name = f"t{at}"
        body.append(f"{name} = " + idiom.format(v=newest, w=other, c=repr(number)))
        values.append(name)
        for bits in patterns(number):
            lines[bits] = at + 2
    text = "\n".join(["def program(x, y, i):", *(f"    {line}" for line in body), f"    return {values[-1]}, {values[-2]}"])
    return Planted(text + "\n", rng.choice(SHAPES), lines)


def patterns(number: float | int) -> Iterator[int]:
    """The bits of a number and of its negative, as 32-bit words."""
    for each in (number, -number):
        yield each & 0xFFFFFFFF if isinstance(each, int) else float_bits(each)


def float_bits(number: float) -> int:
    """The bits of a number rounded to float32; 0 if that has no such number."""
    try:
        return int.from_bytes(struct.pack(">f", number), "big")
    except OverflowError:
        return 0


def bits_in(line: str) -> set[int]:
    """The 32-bit words that a line's numbers can be."""
    found = {int(match[1], 16) for match in _HEX_FLOAT.finditer(line)}
    for match in _HEX.finditer(line):
        word = int(match[2], 16)
        found |= {(-word if match[1] else word) & 0xFFFFFFFF}
        if len(match[2]) == 16:  # LLVM writes a float32 as the float64 that it equals
            found |= {float_bits(struct.unpack(">d", word.to_bytes(8, "big"))[0])}
    for text in _DECIMAL.findall(line):
        found |= {float_bits(float(text))} | ({int(text) & 0xFFFFFFFF} if text.lstrip("-").isdigit() else set())
    if halves := _HALVES.search(line):
        with contextlib.suppress(ValueError, OverflowError):
            found |= {int.from_bytes(struct.pack(">ee", *(float(half) for half in halves.groups())), "big")}
    return found


def traced(planted: Planted, target: str) -> Any:
    """The trace of a program for an absent GPU, with SASS where it has PTX."""
    import torch

    import explorer

    torch.manual_seed(0)
    file = Path(tempfile.mkdtemp(prefix="explorer-planted-")) / "planted_program.py"
    file.write_text("import torch\n" + planted.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted_program", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    integers = torch.randint(0, 1000, planted.shape, dtype=torch.int32)
    trace = explorer.trace(module.program, torch.randn(planted.shape), torch.randn(planted.shape), integers, target=target)
    return trace.attach("sass") if trace.find("ptx") else trace


def findings(trace: Any, planted: Planted) -> Iterator[Finding]:
    """Yield each line below the kernels that has a planted number."""
    from explorer.analysis.questions.provenance import origins

    sources = {a.id: a for a in trace.find("source") if not a.data.get("inlined")}
    (source,) = sources.values()
    for stage in STAGES:
        texts = trace.find(stage)
        missing = {row["artifact"]: {n for n, _ in row["missing"]} for row in (trace.coverage(stage) if texts else ())}
        for artifact in texts:
            for number, text in enumerate(artifact.lines, 1):
                wanted = {planted.lines[bits] for bits in bits_in(text) & planted.lines.keys()}
                if text.startswith("!") or not wanted:
                    continue
                led = origins(trace, artifact.id, [number]).get(source.id, set())
                counted = COUNTED if number in missing[artifact.id] else SILENT
                for line in wanted:
                    verdict = RIGHT if line in led else FALSE if led else counted
                    led_to = tuple(source.lines[n - 1].strip() for n in sorted(led))
                    yield Finding(stage, verdict, source.lines[line - 1].strip(), text.strip(), led_to, artifact.id, number)


def all_findings(seed: int, programs: int, target: str, idioms: Sequence[str]) -> Iterator[tuple[Planted, Finding]]:
    """Trace programs of a seed one after another, and look at each."""
    for number in range(programs):
        rng = random.Random(f"{seed}/{target}/{number}")
        planted = program(rng, idioms, rng.randrange(3, 8))
        for found in findings(traced(planted, target), planted):
            yield planted, found


def table(counts: Counter[tuple[str, str, str]]) -> str:
    """One row per target and stage: planted numbers found, and how many lead where."""
    rows = ["| target | stage | numbers | right | false | counted | silent |", "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for target, stage in dict.fromkeys((target, stage) for target, stage, _ in counts):
        cells = [counts[target, stage, verdict] for verdict in (RIGHT, FALSE, COUNTED, SILENT)]
        rows.append(f"| {target} | {stage} | {sum(cells)} | {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 for a false link, or over 5 % silent in a stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, nargs=2, default=(40, 10), metavar=("H100", "MI300X"))
    parser.add_argument("--show", action="store_true", help="print each line that is not linked right")
    options = parser.parse_args(arguments)
    counts: Counter[tuple[str, str, str]] = Counter()
    for target, programs, idioms in (
        ("h100", options.programs[0], (*FLOATS, *INTEGERS)),
        ("mi300x", options.programs[1], PACKED),
    ):
        last = None
        for planted, found in all_findings(options.seed, programs, target, idioms):
            counts[target, found.stage, found.verdict] += 1
            if options.show and found.verdict != RIGHT:
                if planted is not last:
                    print(planted.text)
                last = planted
                print(f"{found.verdict:8}{found.stage:7}{found.number:5} {found.text}\n{'':20}planted: {found.planted_line}")
                print(*(f"{'':20}led to:  {line}\n" for line in found.led_to), sep="", end="")
    print(table(counts))
    wrong = sum(count for (*_, verdict), count in counts.items() if verdict == FALSE)
    share = {}
    for target, stage, _ in counts:
        total = sum(counts[target, stage, verdict] for verdict in (RIGHT, FALSE, COUNTED, SILENT))
        share[target, stage] = counts[target, stage, SILENT] / total
    return int(wrong > 0 or max(share.values(), default=0) > 0.05)


if __name__ == "__main__":
    sys.exit(main())
