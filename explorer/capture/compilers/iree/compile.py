"""Run iree-compile on a module in the torch dialect, in a child process: what it makes, and each text on the way.

In a child process, because an unknown target ends the process that it is compiled in. The module that is shown is the module
that runs: printing its texts leaves IREE's output as it is, byte for byte.
"""

from __future__ import annotations

import importlib.util
import subprocess
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from explorer.capture.compilers.child import run
from explorer.process import scratch
from explorer.stages.iree.phases import PHASES, stage_name

#: For the CPU that explorer runs on.
HOST = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
#: What every compile is asked for: the torch dialect read, locations printed, large constants not, and in the assembly a line 0
#: for instructions without a location, which else seem to be of the line before.
PRINTING = (
    "--iree-input-type=torch",
    "--mlir-print-debuginfo",
    "--mlir-elide-elementsattrs-if-larger=64",
    "--mlir-elide-resource-strings-if-larger=64",
    "--use-unknown-locations=Enable",
)
#: A file that can be read as a ZIP archive too, whose entries are its sections.
READABLE_FILE = "--iree-vm-emit-polyglot-zip"
#: Seconds until a compile is given up.
LIMIT = 600.0


@dataclass(frozen=True)
class Compiled:
    """What iree-compile made: texts by the name of their stage, and the VMFB; `error` says what went wrong, where it did.

    `functions` are the names of the dispatches' functions, and `sections` the entries of the VMFB with their bytes.
    """

    texts: Mapping[str, str]
    error: str
    seconds: float
    vmfb: bytes = b""
    functions: tuple[str, ...] = ()
    sections: tuple[tuple[str, int], ...] = ()
    command: tuple[str, ...] = field(default=(), repr=False)


def compiled(text: str, flags: Sequence[str] = (), target: Sequence[str] = HOST, wanted: str = "") -> Compiled:
    """Compile a module of the torch dialect down to a VMFB; an error of the compiler is in the answer.

    With `wanted`, such as "*.ptx", the files of the executables of that name are the text "wanted".
    """
    with scratch.folder() as name:
        folder = Path(name)
        (folder / "phases").mkdir()
        (folder / "executables").mkdir()
        (folder / "module.mlir").write_text(text, encoding="utf-8")
        command = (*PRINTING, READABLE_FILE, *target, *flags)
        began = time.perf_counter()
        error = run([tool("iree-compile"), "module.mlir", *command, *_outputs()], folder, "iree-compile", LIMIT)
        seconds = time.perf_counter() - began
        made = folder / "module.vmfb"
        listing = {} if error else {"iree_vm_module": _listing(made)}
        return Compiled(
            texts={
                **dict(_phases(folder / "phases")),
                **dict(_machine_code(folder / "executables", wanted)),
                **listing,
            },
            error=error,
            seconds=seconds,
            vmfb=b"" if error else made.read_bytes(),
            functions=tuple(_functions(folder / "phases")),
            sections=() if error else tuple(_sections(made)),
            command=("iree-compile", *command),
        )


def _outputs() -> tuple[str, ...]:
    kinds = ("intermediates", "binaries")
    return (
        "--dump-compilation-phases-to=phases",
        *(f"--iree-hal-dump-executable-{kind}-to=executables" for kind in kinds),
        "-o",
        "module.vmfb",
    )


def tool(name: str) -> str:
    """The path of one of the programs in IREE's packages."""
    home = {"iree-compile": "iree.compiler._mlir_libs", "iree-dump-module": "iree._runtime_libs"}[name]
    found = importlib.util.find_spec(home)
    folder = next(iter(found.submodule_search_locations or ()), "") if found else ""
    return str(Path(folder) / name)


def _phases(folder: Path) -> Iterator[tuple[str, str]]:
    """The text of each phase that was come to, by its stage."""
    for phase, _ in PHASES:
        for file in sorted(folder.glob(f"*.{phase}.mlir")):
            yield stage_name(phase), file.read_text(encoding="utf-8", errors="replace")


def _machine_code(folder: Path, wanted: str) -> Iterator[tuple[str, str]]:
    """LLVM IR and assembly of the executables; of several, which IREE did not link, one after the other."""
    for stage, ending in (("iree_llvm", "*.optimized.ll"), ("iree_assembly", "*.s"), ("wanted", wanted)):
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in sorted(folder.glob(ending))] if ending else []
        if texts:
            yield stage, "\n".join(texts)


def _functions(folder: Path) -> Iterator[str]:
    """The names of the functions of the dispatches, as the executables export them."""
    for file in folder.glob("*.executable-sources.mlir"):
        for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
            begun, found, rest = line.partition("hal.executable.export public @")
            if found and not begun.strip():
                yield rest.partition(" ")[0].strip('"')


def _listing(module: Path) -> str:
    """What iree-dump-module says of a VMFB, without the bytes of its data."""
    done = subprocess.run([tool("iree-dump-module"), str(module)], capture_output=True, text=True, errors="replace", check=False)
    return "\n".join(_shortened(line) for line in done.stdout.split("\n"))


def _shortened(line: str) -> str:
    """A line of the listing; of data the first bytes."""
    return f"{line[:120]}… ({len(line) // 2:,} bytes)" if line.startswith("vm.rodata[") and len(line) > 160 else line


def _sections(module: Path) -> Iterator[tuple[str, int]]:
    with zipfile.ZipFile(module) as archive:
        yield from ((entry.filename, entry.file_size) for entry in archive.infolist())
