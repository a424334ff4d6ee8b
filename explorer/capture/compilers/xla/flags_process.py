"""Compile a module with flags of XLA's, in a process of its own: a flag may end the process that it is given in.

Its arguments are the file of a module in StableHLO and the flags.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from explorer.capture.compilers.xla.client import compile_options, load


def main(arguments: list[str]) -> None:
    """Compile; an error goes to stderr and ends the process, as Python's do."""
    source, *flags = arguments
    options = compile_options(flags)
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    load(Path(source).read_text(encoding="utf-8"), options)


if __name__ == "__main__":
    main(sys.argv[1:])
