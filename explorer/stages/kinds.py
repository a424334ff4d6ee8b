"""What each line of a text is: one that computes, or of a kind that comes from no user's line. Pure.

A kind is named in the text's own terms: "imports", "loop control", "index arithmetic" … The empty kind is a line that
computes: a node, a load, an operation, a reduction, a store, an instruction.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence

from explorer.model.values import Artifact, once
from explorer.stages.cpp.assembly import is_instruction as is_assembly
from explorer.stages.dynamo.bytecode import LINE_START
from explorer.stages.inductor import cpp_wrapper as _cpp_wrapper
from explorer.stages.triton.forms import CONSTANT as IMMEDIATE
from explorer.stages.triton.instructions import SASS_INSTRUCTION, is_instruction

Kinds = list[str]
Rules = tuple[tuple[str, re.Pattern[str]], ...]

BLANK, COMMENT, CONSTANT, INDEX, CONTROL = "blank", "comments", "constants", "index arithmetic", "loop control"
SIGNATURE, IMPORT, BRACES, SETUP = "signature", "imports", "braces", "prologue and epilogue"
NOT_STATED, OWN = "no line stated", "Dynamo's own"
#: Every kind of line that does not count, and why it comes from no line of the user's. A line of none of these kinds counts,
#: whether or not anything is linked to it.
REASONS: Mapping[str, str] = {
    BLANK: "an empty line",
    COMMENT: "a comment",
    "imports": "an import, an include or a using",
    "heuristics": "what stands around a Triton kernel: decorators, size hints, settings",
    "headings": "a heading of the text",
    "description": "what describes a scheduler node, besides its operations",
    SIGNATURE: "the head of a class, function or module",
    "inputs": "a placeholder or an attribute: an argument, nothing computed",
    "output": "the return of a graph",
    "clean up": "a variable that is forgotten",
    CONSTANT: "a size or a number that serves every operation of a kernel, wherever it is put into a register",
    INDEX: "the index of a program or a thread, which serves every operation of a kernel",
    CONTROL: "a loop, a branch, its end, or what is carried round it",
    "barriers": "a wait of a kernel's threads for each other",
    "dispatch": "the choice of the part of a combined kernel",
    BRACES: "braces and parentheses alone",
    SETUP: "what begins and ends a function: its frame, its threads, its return",
    "declarations": "a declaration of a module, a type or an attribute",
    "labels": "a place that is jumped to",
    "stack slots": "room on the stack, no operation",
    "layouts": "a layout's alias in MLIR",
    "locations": "a location's alias in MLIR",
    "directives": "a directive, a label or a comment of an assembler",
    "padding": "what fills machine code up behind its end",
    "checks, buffers and imports": "what of the wrapper launches nothing",
    "exception table": "CPython's table of exception handlers",
    OWN: "an instruction that Dynamo made, to call the graph and to rebuild what is live",
    NOT_STATED: "an instruction that CPython gives no line, or a text of a decompiler, which states none",
}
#: Kinds whose lines serve every operation of a kernel; that the first of them happened to write one says nothing.
SHARED = frozenset({CONSTANT, INDEX})


def rules(**patterns: str) -> Rules:
    """Kinds by the lines they fit, in order; "_" in a name is a space."""
    return tuple((name.replace("_", " "), re.compile(pattern)) for name, pattern in patterns.items())


FX = rules(
    blank=r"^\s*$",
    comments=r"^\s*#",
    signature=r"^\s*(class|def|@) ?",
    imports=r"^\s*(import|from) ",
    inputs=r"^\s+\w+(: [^=]*)? = self\.\w+|^\s+\w+: \"[^\"]*\"(;|$)|^\w+ = (placeholder|get_attr) |^\s*\w+(, \w+)*,? = fx_pytree",
    output=r"^\s*return\b|^output = ",
    clean_up=r"^\s+\w+( = \w+)* = None;?",
)
FX_LINES = rules(blank=r"^\s*$", headings=r"^(matched|made)$", inputs=r"^\s*\w+ = (placeholder|get_attr) ", output=r"^output = ")
IR_BODY = rules(
    index_arithmetic=r"= self\.(get_index|set_indirect\d+)\(",
    constants=r"= ops\.constant\(",
    output=r"^\s*return\b",
)
TRITON = rules(
    blank=r"^\s*$",
    comments=r"^\s*#",
    imports=r"^(import|from) ",
    loop_control=r"^\s+(for|if|elif|else|while)\b.*:$",
    constants=r"^\s+\w*numel = |^\s+\w+\s*: ?tl\.constexpr\b|^\s+(RBLOCK|XBLOCK|YBLOCK) = ",
    index_arithmetic=r"^\s+([xyzr]\d*_?|r\d+_)(index|offset|mask|base|\d+)(_\d+)? = |^\s+[xyz]\d+ = |^\s+r\d+_\d+ = ",
    barriers=r"^\s+tl\.debug_barrier\(\)",
    dispatch=r"^\s+(pid|num_[xyz]blocks_\d+) = tl|^\s+(pid_offset = pid\b|num_\w+_\d+ = num_|pass$)",
)
CPP = rules(
    blank=r"^\s*$",
    comments=r"^\s*//",
    imports=r"^\s*#include|^\s*using ",
    loop_control=r"^\s*(#pragma|(\} )?(for|if|while|else|switch|case|default|break)\b|\)$)",
    braces=r"^\s*([{}();\[\]&,]*|\[&\](\(\))?)$",
    prologue_and_epilogue=(
        r"^\s*(int (tid|n?threads?\w*) =|const int |std::atomic<|inductor_cpu_|auto \w+_ptr\d+ = \w+_ptr\d+;|return;)"
    ),
    constants=r"^\s*(static )?constexpr ",
)
#: Where a function begins, which goes on to the line that opens its body.
_CPP_FUNCTION = re.compile(r"^(template <|inline |static |void )")
MLIR = rules(
    blank=r"^\s*$",
    braces=r"^\s*[}\])]+( loc\(.*)?,?$|^\s*\} else \{",
    locations=r"^#loc|^\s*#loc",
    layouts=r"^#\w+ =",
    signature=r"^\s*(module|tt\.func|llvm\.func)\b",
    constants=r"= arith\.constant\b",
    loop_control=r"^\s*(scf\.yield|tt\.return|tt\.reduce\.return|tt\.scan\.return|cf\.|\^bb)|\bscf\.(for|if|while)\b",
)
#: The end of a kernel in PTX and AMDGCN.
_RETURN = re.compile(r"^\s*(@\S+\s+)?(ret;|exit;|s_endpgm\b)")
_SASS_LABEL = re.compile(r"^\s*(\.L_\w+):")
LLVM = rules(
    blank=r"^\s*$",
    comments=r"^\s*;",
    declarations=r"^(source_filename|target|declare|@|attributes|!|%\w+ = type)",
    signature=r"^define ",
    labels=r"^[\w.$-]+:",
    braces=r"^\}",
    stack_slots=r"= alloca ",
    loop_control=r"^\s+(br|ret|switch|unreachable)\b|= phi ",
)


def kinds_of(artifact: Artifact) -> Kinds | None:
    """The kind of each line of a text; None for a stage whose lines are not made of a user's lines."""
    reader = READERS.get(artifact.stage)
    return None if reader is None else reader(artifact)


def by_rules(lines: Sequence[str], of: Rules) -> Kinds:
    """The first kind that fits each line, "" where none does."""
    return [next((name for name, pattern in of if pattern.search(line)), "") for line in lines]


def _fx(artifact: Artifact) -> Kinds:
    """Node lines compute; what else print_readable writes does not."""
    return by_rules(artifact.lines, FX_LINES if artifact.language == "fx-lines" else FX)


def _ir(artifact: Artifact) -> Kinds:
    """Operations of the LoopBodies compute; the rest describes the scheduler node."""
    found: Kinds = []
    inside = False
    for line, kind in zip(artifact.lines, by_rules(artifact.lines, IR_BODY), strict=True):
        inside = line.startswith("    def ") or (inside and line.startswith("        "))
        body = inside and line.startswith("        ")
        found.append(kind if body else BLANK if not line.strip() else "description")
    return found


def kernel_kinds(artifact: Artifact) -> Kinds:
    """The kinds of a kernel's lines, in Triton or C++."""
    return _triton(artifact.lines) if artifact.language == "triton" else _cpp(artifact.lines)


def _triton(lines: Sequence[str]) -> Kinds:
    """Of a Triton kernel the bodies of its functions compute, what stands before them is set-up."""
    found = by_rules(lines, TRITON)
    inside = signature = False
    for number, line in enumerate(lines):
        signature = signature or line.startswith("def ")
        if signature:
            inside, found[number] = True, SIGNATURE
            signature = not line.rstrip().endswith(":")
        elif line.strip() and not line.startswith((" ", "#")):
            inside = False
        if not inside and found[number] in ("", CONSTANT, INDEX, CONTROL):
            found[number] = "heuristics"
    return found


def _cpp(lines: Sequence[str]) -> Kinds:
    """Of a C++ kernel all that is not signature, braces, loops and the count of threads computes."""
    found = by_rules(lines, CPP)
    inside = False
    for number, line in enumerate(lines):  # the functions that a template brings with it
        inside = inside or bool(_CPP_FUNCTION.match(line))
        if inside:
            found[number] = SIGNATURE
            inside = not line.rstrip().endswith("{")
    start = next((n for n, line in enumerate(lines) if line.startswith('extern "C"')), 0)
    body = next((n for n, line in enumerate(lines) if n >= start and line.startswith("{")), start)
    return [SIGNATURE if start <= n < body else kind for n, kind in enumerate(found)]


def _wrapper(artifact: Artifact) -> Kinds:
    """Launches and calls of other kernels compute; everything else of the wrapper serves them."""
    found = ["checks, buffers and imports"] * len(artifact.lines)
    for number, _ in calls_of(artifact):
        found[number - 1] = ""
    for number, line in enumerate(artifact.lines):
        if not line.strip():
            found[number] = BLANK
    return found


@once
def calls_of(artifact: Artifact) -> tuple[tuple[int, str], ...]:
    """(line, name) of each call in the wrapper's `call` that launches a kernel or goes into a library."""
    if artifact.language == "cpp":
        return _cpp_wrapper.calls(artifact.text)
    made: list[tuple[int, str]] = []
    try:
        tree = ast.parse(artifact.text)
    except SyntaxError:
        return ()  # the kernels' failure says so
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("benchmark"):
            for statement in ast.walk(function):
                value = getattr(statement, "value", None)
                if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(value, ast.Call):
                    made.append((statement.lineno, ast.unparse(value.func)))
    return tuple((line, name) for line, name in made if _computes(name))


def _computes(name: str) -> bool:
    """Whether a call of the wrapper is a kernel's launch or a library's operator."""
    return name.endswith(".run") or name.startswith(("extern_kernels.", "torch.ops.", "aten.", "cpp_", "triton_"))


def _mlir(artifact: Artifact) -> Kinds:
    return by_rules(artifact.lines, MLIR)


def _llvm(artifact: Artifact) -> Kinds:
    return by_rules(artifact.lines, LLVM)


def _instructions(artifact: Artifact) -> Kinds:
    """PTX and AMDGCN: instructions but the return and moves of a number; directives, labels and comments are none."""
    return [_instruction(line) if is_instruction(line) else "directives" for line in artifact.lines]


def _instruction(line: str) -> str:
    return SETUP if _RETURN.match(line) else CONSTANT if IMMEDIATE.match(line) else ""


def _sass(artifact: Artifact) -> Kinds:
    """Instructions up to the jump to itself behind the end, and the empty ones that fill the rest up."""
    kinds: Kinds = []
    label = ""
    for line in artifact.lines:
        instruction = SASS_INSTRUCTION.match(line)
        here = _SASS_LABEL.match(line)
        label = here[1] if here else label
        if instruction is None:
            kinds.append("directives")
            continue
        padding = instruction[1] == "NOP" or (instruction[1] == "BRA" and f"({label})" in line.replace("`", ""))
        kinds.append("padding" if padding else CONSTANT if IMMEDIATE.match(line) else "")
        label = ""
    return kinds


def _assembly(artifact: Artifact) -> Kinds:
    return ["" if is_assembly(line) else "directives" for line in artifact.lines]


def _bytecode(artifact: Artifact) -> Kinds:
    """Instructions of the frame; those that make its cells, before the first line, and what `dis` gives no line are named."""
    kinds: Kinds = []
    kind = SETUP
    for line in artifact.lines:
        if line.startswith("ExceptionTable:"):
            kind = "exception table"
        elif kind != "exception table" and (start := LINE_START.match(line)):
            kind = NOT_STATED if start["line"] == "--" else ""
        kinds.append(kind if line.strip() else BLANK)
    return kinds


def _dynamo_bytecode(artifact: Artifact) -> Kinds:
    """Instructions that Dynamo copied from the function; its own, which call the graph and rebuild what is live, are named."""
    copied = {number for number, _ in artifact.data.get("copied", ())}
    other = OWN if "copied" in artifact.data else NOT_STATED
    kinds = _bytecode(artifact)
    instructions = [line.strip() != "" and kind != "exception table" for line, kind in zip(artifact.lines, kinds, strict=True)]
    return [
        ("" if number in copied else other) if instruction else kind
        for number, (kind, instruction) in enumerate(zip(kinds, instructions, strict=True), 1)
    ]


def _decompiled(artifact: Artifact) -> Kinds:
    """The decompiler says of no line which instructions it is made of."""
    return [NOT_STATED if line.strip() else BLANK for line in artifact.lines]


READERS: Mapping[str, Callable[[Artifact], Kinds]] = {
    "bytecode": _bytecode,
    "dynamo_bytecode": _dynamo_bytecode,
    "decompiled": _decompiled,
    **dict.fromkeys(
        ("dynamo", "pre_grad", "joint", "forward", "backward", "inductor_input", "pattern_match", "fx_pass", "post_grad"), _fx
    ),
    "ir_pre_fusion": _ir,
    "ir_post_fusion": _ir,
    "output_code": _wrapper,
    "kernel": kernel_kinds,
    "ttir": _mlir,
    "ttgir": _mlir,
    "llir": _llvm,
    "ptx": _instructions,
    "amdgcn": _instructions,
    "sass": _sass,
    "assembly": _assembly,
}
