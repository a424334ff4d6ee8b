"""The forms of a Halide kernel, which Halide makes again of the kernel's source."""

from __future__ import annotations

from explorer.capture.ladder.halide import written_forms
from explorer.model.values import Artifact
from explorer.stages.halide import ASSEMBLY, LLVM, SCHEDULE, STMT
from explorer.stages.halide.forms import HalideFormText, produced

#: The stages of a Halide kernel's forms, by what Halide calls its outputs.
BY_OUTPUT = {"schedule": SCHEDULE, "stmt": STMT, "llvm_assembly": LLVM, "assembly": ASSEMBLY}


def forms(kernel: Artifact) -> dict[str, Artifact]:
    """The forms of a Halide kernel by their stages; LiveError with Halide's words where it fails."""
    texts = written_forms(kernel.kernel, kernel.text)
    in_memory = tuple(produced(texts["stmt"]))
    return {
        stage.name: stage.artifact_of_kernel(kernel, HalideFormText(name=kernel.kernel, produced=in_memory, text=texts[output]))
        for output, stage in BY_OUTPUT.items()
    }
