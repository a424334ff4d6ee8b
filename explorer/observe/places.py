"""Where code of torch or triton stands, in a form that is the same on every machine."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType

from explorer.model.values import Call

#: The folder of this package, with the separator.
OWN_FOLDER = str(Path(__file__).parents[1] / "_")[:-1]


@lru_cache(maxsize=4096)
def in_package(file: str) -> str:
    """Such as "torch/_dynamo/output_graph.py" for a file of an installed torch or triton, "" for any other."""
    for package in ("packages/torch/", "packages/triton/"):
        at = file.rfind(package)
        if at >= 0:
            return file[at + len("packages/") :]
    return ""


#: Files of torch that pass on what another part of it made: its logs are not the makers of what they log.
MESSENGERS = ("torch/_logging/", "torch/_inductor/debug.py")


def call_path() -> tuple[Call, ...]:
    """The calls inside torch and triton that led here, outermost first: (file in its package, line, function)."""
    path: list[Call] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        file = in_package(code.co_filename)
        if file:
            path.append((file, frame.f_lineno, code.co_qualname))
        frame = frame.f_back
    inner = next((n for n, (file, _, _) in enumerate(path) if not file.startswith(MESSENGERS)), len(path))
    return tuple(reversed(path[inner:]))
