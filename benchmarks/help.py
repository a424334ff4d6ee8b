"""Measure how much of what stands in traces has help: the share of instructions, operations and operators with an explanation.

    python benchmarks/help.py              the recordings of the tests
    python benchmarks/help.py --compile    and a matrix product and a C++ kernel, compiled now down to SASS, AMDGCN and x86
    python benchmarks/help.py --missing    with the words that have none

One row per language: the words that occur, how many of them have help, how often all occur, and the share of these with help.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from explorer.model.values import Artifact
from explorer.reference.help.words import TABLES, explanation
from explorer.sources.files.trace_file import load_events
from explorer.stages.triton.instructions import SASS_INSTRUCTION, is_instruction
from explorer.tracing.traced.trace import trace_of_events

RECORDINGS = Path(__file__).parents[1] / "tests" / "data"
_OPCODE = re.compile(r"^\s*(?:@!?%p\w+\s+)?([a-z][\w.]*)")
_OPERATION = re.compile(r"^\s*(?:%[^=]*= )?\"?([a-z]\w*\.[a-z][\w.]*)")
_OPERATOR = re.compile(r"(?<![\w.])(?:torch\.ops\.)?(?:aten|prims|tl|ops|libdevice|triton_helpers)\.[a-z_]\w*(?:\.\w+)?")
#: Words that look like operators and that no table should have: types and modules.
_NO_OPERATORS = re.compile(r"^ops\.(?:aten|inductor|_quantized|prims|higher_order)\b")


def words_of(artifact: Artifact) -> Iterator[str]:
    """The words of a text that do something: instructions, operations, operators."""
    for line in artifact.lines:
        if artifact.language == "sass":
            yield from (m[1] for m in [SASS_INSTRUCTION.match(line)] if m)
        elif artifact.language in ("ptx", "amdgcn", "asm"):
            if is_instruction(line):
                yield from (m[1] for m in [_OPCODE.match(line)] if m)
        elif artifact.language == "mlir":
            yield from (m[1] for m in [_OPERATION.match(line)] if m)
        elif artifact.language in TABLES:
            yield from (m[0] for m in _OPERATOR.finditer(line) if not _NO_OPERATORS.match(m[0]))


def counts(artifacts: Iterable[Artifact]) -> dict[str, Counter[str]]:
    """How often each word occurs, by language."""
    found: dict[str, Counter[str]] = {}
    for artifact in artifacts:
        found.setdefault(artifact.language, Counter()).update(words_of(artifact))
    return {language: words for language, words in found.items() if words}


def covered(language: str, words: Counter[str]) -> tuple[int, float]:
    """How many of the words have help, and the share of their occurrences."""
    known = [word for word in words if explanation(language, word)]
    return len(known), sum(words[word] for word in known) / sum(words.values())


def recorded() -> Iterator[Artifact]:
    """The texts of every recording of the tests."""
    for file in sorted(RECORDINGS.rglob("*.events.json.gz")):
        yield from trace_of_events(*load_events(file.read_bytes(), file.name)).artifacts


def compiled() -> Iterator[Artifact]:
    """A matrix product with a softmax for several GPUs, and for the CPU, compiled now without a GPU."""
    import torch

    import explorer

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ y, -1).cumsum(-1) + torch.randn_like(x).clamp(min=0).int()

    arguments = torch.randn(128, 128), torch.randn(128, 128)
    for target in ("a100", "h100", "b200", "mi300x"):
        with torch._inductor.config.patch(max_autotune_gemm=True, max_autotune_gemm_backends="TRITON"):
            trace = explorer.trace(program, *arguments, target=target)
        yield from (trace.attach("sass") if target != "mi300x" else trace).artifacts
    trace = explorer.trace(program, *arguments)
    for kernel in trace.kernels:
        yield Artifact(kernel.name, "assembly", "", "", "", "asm", kernel.text("assembly"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--missing", action="store_true")
    options = parser.parse_args()
    artifacts = [*recorded(), *(compiled() if options.compile else ())]
    print(f"{'language':14} {'words':>6} {'with help':>9} {'occurrences':>12} {'share':>7}")
    for language, words in sorted(counts(artifacts).items()):
        known, share = covered(language, words)
        print(f"{language:14} {len(words):6} {known:9} {sum(words.values()):12} {share:7.1%}")
        if options.missing:
            print("    without:", " ".join(word for word, _ in words.most_common() if not explanation(language, word)) or "none")


if __name__ == "__main__":
    main()
