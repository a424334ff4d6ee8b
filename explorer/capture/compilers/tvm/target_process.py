"""Compile a module for a target, in a process of its own: an error of TVM's, or a crash, ends this process and no other.

Its arguments are the file of a module as TVMScript, the target as JSON, and the file for what TVM writes.
"""

from __future__ import annotations

import inspect
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast


def main(arguments: list[str]) -> None:
    """Compile, and write the text; an error goes to stderr and ends the process, as Python's do."""
    sys.modules["torch"] = cast(Any, None)  # TVM would import it, for seconds, to exchange tensors with it
    import tvm  # noqa: F401  it handles crashes itself, in a way that may not end

    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    # for each of its hundreds of GPU intrinsics TVM reads the whole stack, and for each frame inspect looks at every module
    inspect.getmodule = no_module
    source, target, output = arguments
    made = compiled(Path(source).read_text(encoding="utf-8"), json.loads(target))
    Path(output).write_text(made, encoding="utf-8")


def no_module(object: object, _filename: str | None = None) -> None:
    """The module of a frame, which is not looked for: the source is found by the file's name."""


def compiled(source: str, facts: dict[str, Any]) -> str:
    """What TVM writes for a target: assembly for a CPU, else source code."""
    import tvm
    from tvm.target import Target

    module = tvm.script.from_source(source)
    target = Target(facts)
    kind = target.kind.name
    with_host = target if kind in ("llvm", "c") else Target(target, host="llvm")
    with target:
        executable = tvm.compile(module, target=with_host)
    texts = [each.inspect_source("asm" if kind == "llvm" else "") for each in libraries(executable.mod) if each.kind == kind]
    return "\n\n".join(texts)


def libraries(module: Any) -> Iterator[Any]:
    """The modules that an executable holds, each with those inside it."""
    for each in module.imports:
        yield each
        yield from libraries(each)


if __name__ == "__main__":
    main(sys.argv[1:])
