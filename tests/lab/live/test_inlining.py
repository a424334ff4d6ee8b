"""Inlining: each instruction of a C++ kernel, also one of an intrinsic, leads to the line with its operator."""

from __future__ import annotations

import inspect
import platform
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import explorer
from explorer.capture.observe.cpp_command import assembly_command
from explorer.errors import InputError, LiveError
from explorer.lab.live import inlining
from explorer.lab.live.assembly import assemble
from explorer.lab.live.inlining import addresses, calls_of, labelled, read_answer
from explorer.model.records import blank
from explorer.model.shared import Kernel
from explorer.model.trace_data import artifact_of
from explorer.model.values import Artifact
from explorer.sources.files.trace_file import dumps
from explorer.stages.cpp.assembly import INLINED, LOC, is_instruction, nested_lines, own_places
from explorer.tracing.traced import Trace, loads
from tests.facts import says

needs_binutils = pytest.mark.skipif(not shutil.which("addr2line"), reason="addr2line is not installed: apt install binutils")


def operators(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """One operator a line, each an instruction of its own."""
    root = torch.sqrt(x)
    largest = torch.maximum(root, y)
    ratio = largest / y
    least = torch.minimum(ratio, x)
    difference = least - y
    whole = torch.round(difference)
    return whole * x


#: An instruction of x86-64 → what the user's line that it came from says.
X86 = {
    r"v?sqrt[ps]s": "torch.sqrt",
    r"v?max[ps]s": "torch.maximum",
    r"v?div[ps]s": "largest / y",
    r"v?min[ps]s": "torch.minimum",
    r"v?sub[ps]s": "least - y",
    r"v?(rndscale|round)[ps]s": "torch.round",
    r"v?mul[ps]s": "whole * x",
}


class Block(nn.Module):
    """A layer norm, attention, and what follows it in one kernel: a gelu, a pad and a scan."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], 4, -1).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        scores = torch.softmax(q @ k.transpose(-1, -2), -1)
        x = x + (scores @ v).transpose(1, 2).reshape(x.shape)
        return functional.pad(functional.gelu(x), (1, 2)).cumsum(-1)


@pytest.fixture(scope="module")
def one_a_line() -> Trace:
    """The trace of `operators`, with its kernel's assembly."""
    with torch.no_grad():
        return explorer.trace(operators, torch.rand(1000), torch.rand(1000) + 1, target="cpu").attach("assembly")


@pytest.fixture(scope="module")
def block() -> Trace:
    """A Block's kernels, with their assembly."""
    with torch.no_grad():
        return explorer.trace(Block(), torch.randn(2, 8, 32), target="cpu").attach("assembly")


def sources(trace: Trace, artifact: str, line: int) -> set[str]:
    """The user's lines that a line leads to."""
    rows = trace.follow(artifact, line).where(stage="source")
    return {artifact_of(trace, row["artifact"]).lines[n - 1].strip() for row in rows for n in row["lines"]}


@pytest.mark.compile
@needs_binutils
def test_each_vector_instruction_leads_to_the_line_with_its_operator(one_a_line: Trace) -> None:
    """The square root's instruction comes from the line that says sqrt, and so on, each from that line alone."""
    if platform.machine() != "x86_64":
        pytest.skip("the names of the instructions are those of x86-64")
    (artifact,) = one_a_line.find("assembly")
    seen = set()
    for number, text in enumerate(artifact.lines, 1):
        for instruction, words in X86.items():
            if re.match(rf"\t{instruction}\b", text):
                seen.add(instruction)
                (line,) = sources(one_a_line, artifact.id, number)
                assert words in line and line in inspect.getsource(operators), f"{number} {text} came from {line}"
    assert seen == set(X86)


@pytest.mark.compile
@needs_binutils
@pytest.mark.parametrize("made", ["one_a_line", "block"])
def test_every_instruction_is_linked_or_named(made: str, request: pytest.FixtureRequest) -> None:
    """No instruction that computes leads nowhere, and none is without a line; what begins and ends functions is named."""
    trace: Trace = request.getfixturevalue(made)
    for row in trace.coverage("assembly"):
        assert row["missing"] == () and row["linked"] == row["counted"] > 0, row["artifact"]
        assert "no line stated" not in row["exempt"], row
        assert row["exempt"]["prologue and epilogue"] > 0
    assert trace.failures == ()


@pytest.mark.compile
@needs_binutils
def test_both_ways_of_knowing_a_line_are_named(one_a_line: Trace) -> None:
    """An intrinsic's line is known by where it was inlined, a loop's by its own .loc."""
    (artifact,) = one_a_line.find("assembly")
    hows = {link.how for link in one_a_line.links if link.source == artifact.id}
    assert hows == {LOC, INLINED}


def instructions(text: str) -> list[str]:
    """The instructions of the function `kernel`, with its cold part."""
    lines = text.splitlines()
    start, end = lines.index("kernel:"), next(n for n, line in enumerate(lines) if line.startswith("\t.size\tkernel,"))
    return [line for line in lines[start:end] if is_instruction(line)]


@pytest.mark.compile
def test_debug_information_changes_no_instruction(one_a_line: Trace, tmp_path: Path) -> None:
    """Without debug information the compiler writes the same instructions, to the character."""
    source, made = tmp_path / "kernel.cpp", tmp_path / "kernel.s"
    source.write_text(one_a_line.kernels[0].source)
    subprocess.run([*assembly_command(str(source), str(made)), "-g0"], check=True, capture_output=True, cwd=tmp_path)
    assert "\t.loc " not in made.read_text()
    assert instructions(made.read_text()) == instructions(one_a_line.text("assembly")) != []


@pytest.mark.compile
@needs_binutils
def test_the_text_is_what_runs(one_a_line: Trace) -> None:
    """The library that Inductor loaded has the same vector instructions, in the same order."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    source = one_a_line.kernels[0].source.strip()
    loaded = [p.with_suffix(".so") for p in Path(cache_dir()).rglob("*.cpp") if source in p.read_text(encoding="utf-8")]
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "--disassemble=kernel", next(p for p in loaded if p.exists())],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # objdump writes what a comparison is for into its name, and numbers where the text has symbols
    ran = [(m[1][:4], m[2]) for m in re.finditer(r"^\s+[0-9a-f]+:\s+(v\w+)\b.*?(%[xyz]mm\d+)?(?:\{.*)?$", code, re.MULTILINE)]
    body = one_a_line.text("assembly").partition("\nkernel:\n")[2].partition("\nkernel.cold:\n")[0]
    shown = re.finditer(r"^\t(v\w+)\b.*?(%[xyz]mm\d+)?(?:\{.*)?$", body, re.MULTILINE)
    assert ran == [(m[1][:4], m[2]) for m in shown] != []


def test_without_binutils_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The assembly is made all the same, with the links that its own text states, and a Failure says what is missing."""
    monkeypatch.setattr(inlining.shutil, "which", lambda name: None)
    source = 'extern "C" void kernel(float* x)\n{\n    for (int i = 0; i < 99; i++)\n        x[i] *= 3;\n}\n'
    data = blank(Kernel, name="kernel", language="cpp", wrapper_line=1)
    artifact = assemble(Artifact("0/0:kernel:k", "kernel", "0/0", "", "k", "cpp", source, kernel="kernel", data=data))
    assert "install binutils" in artifact.data["unlinked"] and set(artifact.data["stated"]) == {LOC}


@pytest.mark.compile
def test_with_assembly_is_a_trace_of_its_own(one_a_line: Trace) -> None:
    """It is the same after a second time and after a load, which needs nothing live for it."""
    assert one_a_line.attach("assembly") == one_a_line
    loaded = loads(dumps(one_a_line))
    assert loaded.attach("assembly") == loaded == one_a_line
    bare = replace(loaded, artifacts=tuple(a for a in loaded.artifacts if a.stage != "assembly"))
    with pytest.raises(LiveError, match=says("explorer.trace")):
        bare.attach("assembly")
    with pytest.raises(InputError, match=says("'assembly'", "empty")):
        Trace(meta={"target": "h100"}).attach("assembly")


@pytest.mark.parametrize("missing", ["objdump", "addr2line"])
def test_a_missing_tool_is_named(missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says which program it is and what to install."""
    monkeypatch.setattr(inlining.shutil, "which", lambda name: None if name == missing else f"/usr/bin/{name}")
    with pytest.raises(LiveError, match=says(missing, "install binutils")):
        calls_of("", tmp_path, ["g++"])


@needs_binutils
def test_a_tool_that_fails_says_so(tmp_path: Path) -> None:
    """The program's own words are in the error."""
    with pytest.raises(LiveError, match=says("g++", "no such instruction")):
        calls_of("\tnothing\t%rax\n", tmp_path, ["g++"])


#: A lambda of the kernel's own in a header's function, and an intrinsic that the header calls.
HEADER = """
static inline float absolute(float x) { return __builtin_fabsf(x); }
template <typename F> static inline float twice(F f, float x) { return absolute(f(f(x))); }
"""
KERNEL = """#include "header.h"
extern "C" float kernel(float x, float y)
{
    return twice([=](float v)
    {
        return v / y;
    }, x);
}
"""


@pytest.mark.compile
@needs_binutils
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_calls_are_read_of_what_a_compiler_writes(compiler: str, tmp_path: Path) -> None:
    """A lambda's instruction belongs to the line in the lambda, a header's to the kernel's line that calls it."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "header.h").write_text(HEADER)
    (tmp_path / "kernel.cpp").write_text(KERNEL)
    command = [compiler, "-O2", "-g1", "-fPIC", "-S", "kernel.cpp", "-o", "kernel.s"]
    subprocess.run(command, check=True, cwd=tmp_path)
    text = (tmp_path / "kernel.s").read_text()
    calls = calls_of(text, tmp_path, [compiler])
    lines = text.splitlines()
    assert set(calls) == {n for n, line in enumerate(lines, 1) if is_instruction(line)}
    places = own_places(lines, "kernel.cpp", calls.items(), nested_lines(KERNEL))
    found = {re.sub(r"^v", "", lines[n - 1].split()[0]): place for n, place in places.items()}
    assert found["divss"] == (6, LOC) and found["andps"] == (4, INLINED), found


# What the programs write --------------------------------------------------------------------------------------------------


def test_only_instructions_get_a_label() -> None:
    """Directives, labels and comments stay as they are, and so do the instructions themselves."""
    text = "kernel:\n\t.loc 1 2 3\n\tret\n#APP\n\t# comment\n"
    assert labelled(text) == "kernel:\n\t.loc 1 2 3\nexplorer.instruction.3:\n\tret\n#APP\n\t# comment\n"


def test_addresses_are_read_by_section() -> None:
    """In an object each section begins at zero; other symbols are passed over."""
    table = (
        "labelled.o:     file format elf64-x86-64\n\nSYMBOL TABLE:\n"
        "0000000000000000 l    d  .text\t0000000000000000 .text\n"
        "0000000000000000 l       .text\t0000000000000000 explorer.instruction.7\n"
        "0000000000000004 l       .text.unlikely\t0000000000000000 explorer.instruction.12\n"
        "0000000000000000 g     F .text\t0000000000000005 kernel\n"
    )
    assert addresses(table) == {".text": {7: "0x0000000000000000"}, ".text.unlikely": {12: "0x0000000000000004"}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("/k.cpp:4\n", ()),
        ("/f.h:9\n/k.cpp:4 (discriminator 2)\n", (("/k.cpp", 4),)),
        ("/f.h:?\n/v.h:3\n/k.cpp:?\n", (("/v.h", 3), ("/k.cpp", 0))),
        ("??:0\n", ()),
    ],
)
def test_an_answer_of_addr2line(answer: str, expected: tuple[object, ...]) -> None:
    """The innermost call comes first where an instruction's function was inlined; a line that is not stated is 0."""
    assert read_answer(answer) == expected
