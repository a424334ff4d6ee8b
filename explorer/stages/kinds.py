"""What each line of a text is: one that computes, or of a kind that comes from no user's line. Pure.

A kind is named in the text's own terms: "imports", "loop control", "index arithmetic" … The empty kind is a line that
computes: a node, a load, an operation, a reduction, a store, an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from explorer.model.values import Artifact
from explorer.stages.triton.instructions import is_instruction

Kinds = list[str]
Rules = tuple[tuple[str, re.Pattern[str]], ...]

BLANK, COMMENT, CONSTANT, INDEX, CONTROL = "blank", "comments", "constants", "index arithmetic", "loop control"
SIGNATURE, IMPORT, BRACES, SETUP = "signature", "imports", "braces", "prologue and epilogue"
NOT_STATED, OWN, XML, HOST = "no line stated", "Dynamo's own", "ports and edges", "host code"
#: Every kind of line that does not count, and why it comes from no line of the user's. A line of none of these kinds counts,
#: whether or not anything is linked to it.
REASONS: Mapping[str, str] = {
    BLANK: "an empty line",
    COMMENT: "a comment",
    "imports": "an import, an include or a using",
    "heuristics": "what stands around a Triton kernel: decorators, size hints, settings",
    HOST: (
        "what runs on the host: it launches a Pallas, CuTe DSL, CUTLASS or Helion kernel, "
        "or builds a Halide one and gives it sizes"
    ),
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
    XML: "what stands around the layers of an OpenVINO model: their ports, attributes and edges",
    "exception table": "CPython's table of exception handlers",
    OWN: "an instruction that Dynamo made, to call the graph and to rebuild what is live",
    NOT_STATED: "an instruction that CPython gives no line, or a text of a decompiler or Halide's assembly, which state none",
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
    inputs=(
        r"^\s+\w+(: [^=]*)? = self\.\w+|^\s+\*?\w+: \"[^\"]*\"(;|,? *(#.*)?$)|^\s+\*?\w+,$|^\s+\):$"
        r"|^\w+ = (placeholder|get_attr) |^\s*\w+(, \w+)*,? = fx_pytree"
    ),
    output=r"^\s*return\b|^output = |^\s+\w+,  ?# |^\s+(\]|\))(, self\._out_spec\))?$",
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
PALLAS = rules(
    blank=r"^\s*$",
    comments=r"^\s*#",
    index_arithmetic=r"^\s+[xyzr]\d+(_\d+)? = ",
)
HALIDE = rules(
    blank=r"^\s*$",
    comments=r"^\s*#",
    imports=r"^(import|from) ",
    signature=r"^@hl\.generator\(|^class |^    def ",
    inputs=r"^    \w+ = hl\.|^        (\w+_ptr\w*|ks\d+) = [\w.]+$",
    index_arithmetic=r"^        (h[rio]?\d+|[rio]dom) = ",
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
METAL = rules(
    blank=r"^\s*$",
    comments=r"^\s*//",
    imports=r"^\s*(#include|using )",
    loop_control=r"^\s*((\} )?(for|if|while|else)\b.*(\{| break;| return;?)|return;)$",
    braces=r"^\s*[{}();]*$",
    index_arithmetic=r"^\s*(int|long|uint|auto) ([xyz]|r\d*_?)(index|_linear_idx|\d+) = |^\s*auto \w+ = thread_pos\.[xyz];",
    barriers=r"^\s*threadgroup_barrier\(",
)
CUDA = rules(
    blank=r"^\s*$",
    comments=r"^\s*//",
    imports=r"^\s*(#include|using namespace )",
    declarations=r"^\s*#(if|ifdef|ifndef|else|elif|endif|define)\b",
    braces=r"^\s*[{}();>,]*$",
)
CUTEDSL = rules(
    blank=r"^\s*$",
    comments=r"^\s*#",
    imports=r"^(import|from) ",
    signature=r"^\s*(@|def |\)(:| ->))",
    loop_control=r"^\s+(for|if|elif|else|while)\b.*:$",
)
#: A type that a CUTLASS template is put together of; an epilogue's loads and stores are such types too.
_CUDA_TYPE = re.compile(r"^\s*(using|struct)\s+(?!namespace\b)(\w+)")
#: What CUTLASS calls the operations of an epilogue, such as Compute0, and the accumulator that they read.
_EPILOGUE = re.compile(r"(EVT)?Compute\d+$|Accum$")
#: Where a function begins, which goes on to the line that opens its body.
_CPP_FUNCTION = re.compile(r"^(template <|inline |static |void )")
MLIR = rules(
    blank=r"^\s*$",
    braces=r"^\s*[}\])]+( loc\(.*)?,?$|^\s*\} else \{",
    locations=r"^#loc|^\s*#loc",
    layouts=r"^#\w+ =",
    signature=r"^\s*(module|tt\.func|llvm\.func)\b",
    loop_control=r"^\s*(scf\.yield|tt\.return|tt\.reduce\.return|tt\.scan\.return|cf\.|\^bb)|\bscf\.(for|if|while)\b",
)
#: The end of a kernel in PTX and AMDGCN.
_RETURN = re.compile(r"^\s*(@\S+\s+)?(ret;|exit;|s_endpgm\b)")


def by_rules(lines: Sequence[str], of: Rules) -> Kinds:
    """The first kind that fits each line, "" where none does."""
    return [next((name for name, pattern in of if pattern.search(line)), "") for line in lines]


def fx_kinds(artifact: Artifact) -> Kinds:
    """Node lines compute; what else print_readable writes does not."""
    return by_rules(artifact.lines, FX_LINES if artifact.language == "fx-lines" else FX)


def ir_kinds(artifact: Artifact) -> Kinds:
    """Operations of the LoopBodies compute; the rest describes the scheduler node."""
    kinds: Kinds = []
    inside = False
    for line, kind in zip(artifact.lines, by_rules(artifact.lines, IR_BODY), strict=True):
        inside = line.startswith("    def ") or (inside and line.startswith("        "))
        body = inside and line.startswith("        ")
        kinds.append(kind if body else BLANK if not line.strip() else "description")
    return kinds


def kernel_kinds(artifact: Artifact) -> Kinds:
    """The kinds of a kernel's lines, in Triton, Pallas, Halide, Metal, CUDA C++, HIP, CuTe DSL or C++."""
    if artifact.language in ("cuda", "hip"):
        return _cuda(artifact.lines)
    if artifact.language in ("cutedsl", "nv_universal_gemm"):
        return _cutedsl(artifact.lines)
    if artifact.language == "halide":
        return _halide(artifact.lines)
    if artifact.language == "pallas":
        return _pallas(artifact)
    if artifact.language == "metal":
        return _metal(artifact.lines)
    return _triton(artifact.lines) if artifact.language == "triton" else _cpp(artifact.lines)


def _triton(lines: Sequence[str]) -> Kinds:
    """In a Triton kernel the bodies of functions compute; the lines before them are set-up."""
    kinds = by_rules(lines, TRITON)
    inside = signature = on_host = False
    for number, line in enumerate(lines):
        is_definition = line.startswith("def ")
        on_host = "_launcher=" in line if is_definition else on_host and line[:1] in ("", " ", "#")  # Helion's function
        if on_host:
            kinds[number] = kinds[number] if kinds[number] in (BLANK, COMMENT) else HOST
            continue
        signature = signature or is_definition
        if signature:
            inside, kinds[number] = True, SIGNATURE
            signature = not line.rstrip().endswith(":")
        elif line.strip() and not line.startswith((" ", "#")):
            inside = False
        if not inside and kinds[number] in ("", CONSTANT, INDEX, CONTROL):
            kinds[number] = "heuristics"
    return kinds


def _pallas(artifact: Artifact) -> Kinds:
    """Of a Pallas kernel's source the function that pallas_call is given computes; the rest runs on the host."""
    kinds = by_rules(artifact.lines, PALLAS)
    inside = False
    for number, line in enumerate(artifact.lines):
        if line.startswith(f"def {artifact.kernel}_kernel("):
            inside, kinds[number] = True, SIGNATURE
            continue
        inside = inside and line.startswith(" ")
        if not inside and kinds[number] not in (BLANK, COMMENT):
            kinds[number] = IMPORT if line.startswith(("import ", "from ")) else HOST
    return kinds


def _halide(lines: Sequence[str]) -> Kinds:
    """Of a Halide kernel the definitions of Funcs compute; what it tells the autoscheduler and the rest run on the host."""
    kinds = by_rules(lines, HALIDE)
    end = next((n for n, line in enumerate(lines) if line.strip() == "assert g.using_autoscheduler()"), len(lines))
    return [kind if n < end or kind in (BLANK, COMMENT) else HOST for n, kind in enumerate(kinds)]


def _cpp(lines: Sequence[str]) -> Kinds:
    """Of a C++ kernel all that is not signature, braces, loops and the count of threads computes."""
    kinds = by_rules(lines, CPP)
    inside = False
    for number, line in enumerate(lines):  # the functions that a template brings with it
        inside = inside or bool(_CPP_FUNCTION.match(line))
        if inside:
            kinds[number] = SIGNATURE
            inside = not line.rstrip().endswith("{")
    start = next((n for n, line in enumerate(lines) if line.startswith('extern "C"')), 0)
    body = next((n for n, line in enumerate(lines) if n >= start and line.startswith("{")), start)
    return [SIGNATURE if start <= n < body else kind for n, kind in enumerate(kinds)]


def _cuda(lines: Sequence[str]) -> Kinds:
    """Of a template of CUTLASS or CK the types that make the kernel compute; the function below them runs on the host.

    Of the types of a fused epilogue only its operations compute: the others are loads, stores, and how these are laid out.
    """
    kinds = by_rules(lines, CUDA)
    host = next((n for n, line in enumerate(lines) if line.startswith('extern "C"')), len(lines))
    first = next((n for n, line in enumerate(lines) if line.startswith("using EpilogueDescriptor")), host)
    last = next((n - 1 for n, line in enumerate(lines) if n > first and "CollectiveBuilder<" in line), host)
    declared = goes_on = macro = types = False
    for number, line in enumerate(lines):
        macro, was_macro = line.rstrip().endswith("\\") and (macro or "#define" in line), macro
        if was_macro:
            kinds[number] = "declarations"
            continue
        if kinds[number] not in ("", BRACES):
            continue
        if number >= host:
            kinds[number] = SIGNATURE if line.startswith(('extern "C"', "PT_EXPORT")) else kinds[number] or HOST
            continue
        if not goes_on and (begun := _CUDA_TYPE.match(line)):
            types, goes_on = True, True
            declared = begun[2] == "identity_op" or (first <= number < last and not _EPILOGUE.match(begun[2]))
        if not goes_on or declared:
            kinds[number] = kinds[number] or "declarations"
        goes_on = goes_on and not line.rstrip().endswith((";", "{ };"))
    return kinds if types else ["" if kind == "declarations" else kind for kind in kinds]


def _cutedsl(lines: Sequence[str]) -> Kinds:
    """Of a kernel in CuTe DSL the functions that it compiles for the GPU compute; the others run on the host."""
    kinds = by_rules(lines, CUTEDSL)
    inside = False
    for number, line in enumerate(lines):
        if line.startswith("@"):
            inside = line.startswith(("@cute.kernel", "@cute.jit"))
        elif line.startswith("def "):
            inside = inside and lines[number - 1].startswith("@")
        elif line.strip() and not line.startswith((" ", "#", ")")):
            inside = False
        if not inside and kinds[number] in ("", CONTROL):
            kinds[number] = CONSTANT if ": cutlass.Constexpr =" in line else HOST
    return kinds


def _metal(lines: Sequence[str]) -> Kinds:
    """Of a Metal kernel all that is not head, index, braces, loops and barriers computes."""
    body = next((n for n, line in enumerate(lines) if line.strip() == ") {"), -1)
    return [SIGNATURE if n <= body else kind for n, kind in enumerate(by_rules(lines, METAL))]


def mlir_kinds(artifact: Artifact) -> Kinds:
    """Operations compute, except for loops and braces."""
    return by_rules(artifact.lines, MLIR)


def instruction_kinds(artifact: Artifact) -> Kinds:
    """PTX and AMDGCN: instructions compute, except for the return. Directives, labels and comments are not instructions."""
    return [_instruction(line) if is_instruction(line) else "directives" for line in artifact.lines]


def _instruction(line: str) -> str:
    return SETUP if _RETURN.match(line) else ""
