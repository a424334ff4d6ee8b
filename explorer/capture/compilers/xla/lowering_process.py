"""Lower a module to StableHLO by torch-mlir, in a process of its own whose memory is bounded.

On some graphs, as on that of `v = x * 2; v[::2] = 7.`, its passes take all the memory that there is. The arguments are the
file of a module in MLIR's torch dialect, and the bound in bytes. Three texts are written beside the file, see `importing.py`.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from explorer.capture.compilers.xla.importing import PRINTED, SOURCE, STABLEHLO, lowered


def main(arguments: list[str]) -> None:
    """Lower; what torch-mlir says of an error goes to stderr, and the status is 1."""
    source, most = Path(arguments[0]), int(arguments[1])
    bound_memory(most)
    from torch_mlir import ir

    try:
        for name, text in zip((PRINTED, STABLEHLO, SOURCE), lowered(source.read_text(encoding="utf-8")), strict=True):
            source.with_name(name).write_text(text, encoding="utf-8")
    except MemoryError:
        sys.exit(f"torch-mlir takes more than {most / 2**30:g} GiB of memory to lower this graph to StableHLO")
    except ir.MLIRError as error:
        sys.exit(f"MLIRError: {error}")


def bound_memory(most: int) -> None:
    """Bound this process's address space, where its system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    main(sys.argv[1:])
