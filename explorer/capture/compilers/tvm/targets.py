"""Compile by TVM for a target that need not be here, in a child process: what its compiler writes for it, as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from explorer.capture.compilers.child import run
from explorer.capture.compilers.tvm import target_process
from explorer.capture.compilers.tvm.compile import Compile, script
from explorer.errors import unknown_name
from explorer.model.stage import Emit
from explorer.process import scratch
from explorer.process.children import command, environment
from explorer.stages.tvm.notes import noted

#: The first line of an error's message, behind its stack.
_ERROR = re.compile(r"^[\w.]+(?:Error|Exception): ", re.MULTILINE)
#: Seconds until a compile for another target is given up.
LIMIT = 60.0


class TvmError(RuntimeError):
    """TVM could not compile for a target; the message is its own."""


@dataclass(frozen=True, slots=True)
class TvmTarget:
    """A target: TVM's own facts about it, the name of the fact that takes a model, and the name of the text's form.

    `model` is "" if the target takes no model.
    """

    facts: Mapping[str, str]
    model: str
    form: str
    language: str


#: The targets by name; "cuda:sm_90" names a model too.
TARGETS: Mapping[str, TvmTarget] = MappingProxyType(
    {
        "c": TvmTarget({"kind": "c"}, "", "C", "cpp"),
        "aarch64": TvmTarget({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}, "mcpu", "assembly", "asm"),
        "riscv64": TvmTarget({"kind": "llvm", "mtriple": "riscv64-linux-gnu"}, "mcpu", "assembly", "asm"),
        "cuda": TvmTarget({"kind": "cuda", "arch": "sm_80"}, "arch", "CUDA C++", "cpp"),
        "opencl": TvmTarget({"kind": "opencl"}, "", "OpenCL C", "cpp"),
        "webgpu": TvmTarget({"kind": "webgpu"}, "", "WGSL", "wgsl"),
        "metal": TvmTarget({"kind": "metal"}, "", "Metal", "metal"),
    }
)


def target_named(name: str) -> TvmTarget:
    """The target of a name such as "cuda" or "cuda:sm_90"; InputError, with the names there are, for another."""
    family = name.partition(":")[0]
    if family not in TARGETS:
        raise unknown_name("target of TVM", family, TARGETS)
    return TARGETS[family]


def facts_of(name: str) -> dict[str, str]:
    """TVM's own facts of a target, with the model that is named."""
    target, model = target_named(name), name.partition(":")[2]
    return {**target.facts, **({target.model: model} if target.model and model else {})}


def emit_target(emit: Emit, work: Compile, name: str) -> None:
    """Emit what TVM writes for a target; TvmError, with its words, where it cannot, or crashes."""
    target = target_named(name)
    source = script(work.fused, work.origins.notes(work.fused.functions.values()), with_data=True)
    text = compiled(source, facts_of(name))
    nodes = tuple(noted(source))
    facts = {"target": name, "form": target.form, "language": target.language, "nodes": nodes}
    emit("tvm_target", lambda: {**facts, "text": text})


def compiled(source: str, facts: Mapping[str, str]) -> str:
    """What TVM writes for a module, compiled in a process of its own; TvmError where there is no text."""
    with scratch.folder() as name:
        folder = Path(name)
        (folder / "module.py").write_text(source, encoding="utf-8")
        compiling = command(target_process.__name__, "module.py", json.dumps(dict(facts)), "text")
        error = run(compiling, folder, "TVM", LIMIT, environment())
        made = folder / "text"
        if error or not made.exists():
            raise TvmError(last_words(error) or f"TVM wrote nothing for {facts['kind']}")
        return made.read_text(encoding="utf-8")


def last_words(error: str) -> str:
    """The message of an error, without the stack above it."""
    *_, found = (match.start() for match in _ERROR.finditer(error)) if _ERROR.search(error) else (0,)
    return error[found:].strip()
