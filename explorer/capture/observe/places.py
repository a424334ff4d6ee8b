"""Where code of torch or triton stands, in a form that is the same on every machine."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

from explorer.model.values import Call

#: The folder of this package, with the separator.
OWN_FOLDER = str(Path(__file__).parents[2] / "_")[:-1]


@lru_cache(maxsize=4096)
def in_package(file: str) -> str:
    """Such as "torch/_dynamo/output_graph.py" for a file of an installed torch or triton, "" for any other."""
    for package in ("packages/torch/", "packages/triton/"):
        at = file.rfind(package)
        if at >= 0:
            return file[at + len("packages/") :]
    return ""


#: Where each place of a Python traceback begins.
_PLACES = re.compile(r'\n(?= *File ")')


@lru_cache(maxsize=4096)
def without_modules(stack: str) -> str:
    """Leave torch's own modules, such as nn.Linear, out of a node's stack, unless nothing of the program is on it.

    Dynamo writes its stacks so, and the user's line is the innermost. torch.export and make_fx keep the modules.
    """
    if "torch/nn/modules/" not in stack:
        return stack
    places = [(place, in_package(place.partition('", line ')[0])) for place in _PLACES.split(stack) if place]
    if all(package for _, package in places):
        return stack
    return "\n".join(place for place, package in places if not package.startswith("torch/nn/modules/"))


#: Files of torch that pass on what another part of it made: its logs are not the makers of what they log.
MESSENGERS = ("torch/_logging/", "torch/_inductor/debug.py")


class CallPaths:
    """The calls that led to each event of a recording; most events have most of them in common, so each is made once."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], tuple[CodeType, Call | None]] = {}  # by a code's identity, for which it is held

    def here(self) -> tuple[Call, ...]:
        """The calls inside torch and triton that led here, outermost first: (file in its package, line, function)."""
        calls = self._calls
        path: list[Call] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            known = calls.get((id(code), frame.f_lasti))
            if known is None:
                file = in_package(code.co_filename)
                known = code, (file, frame.f_lineno, code.co_qualname) if file else None
                calls[id(code), frame.f_lasti] = known
            if known[1] is not None:
                path.append(known[1])
            frame = frame.f_back
        inner = next((n for n, (file, _, _) in enumerate(path) if not file.startswith(MESSENGERS)), len(path))
        return tuple(reversed(path[inner:]))
