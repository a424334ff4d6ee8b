"""The arguments that a wrapper gives a kernel at each launch, by the kernel's source. Pure."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from explorer.model.syntax import parsed

#: How a C++ kernel begins, up to the end of its parameters.
_CPP = re.compile(r'extern\s+"C"\s+(?:\S+\s+)*?(\w+)\s*\(([^)]*)\)')


class Parameter(NamedTuple):
    """One argument of a launch: its name in the kernel, and its type: "*fp32", "i32" in Triton, "const float*" in C++."""

    name: str
    type: str

    @property
    def is_tensor(self) -> bool:
        """Whether a tensor is given for it."""
        return "*" in self.type

    @property
    def writes(self) -> bool:
        """Whether the name says that the kernel writes to it, as Inductor's own kernels say of all that they write."""
        return self.name.startswith(("out_ptr", "in_out_ptr"))


def parameters(source: str, language: str) -> tuple[Parameter, ...]:
    """The arguments of each launch of a kernel in "triton" or "cpp", in order; () where the source does not say."""
    return _of_cpp(source) if language == "cpp" else _of_triton(source)


def _of_cpp(source: str) -> tuple[Parameter, ...]:
    begin = _CPP.search(source)
    if begin is None:
        return ()
    words = [part.strip() for part in begin[2].split(",") if part.strip()]
    split = [re.match(r"(.*?)\s*(\w+)$", part, re.DOTALL) for part in words]
    return tuple(Parameter(match[2], " ".join(match[1].split())) for match in split if match)


def _of_triton(source: str) -> tuple[Parameter, ...]:
    """The signature that Inductor writes above a kernel, without its constants, which are no arguments of a launch."""
    try:
        tree = parsed(source)
    except SyntaxError:
        return ()
    for keyword in (node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "triton_meta"):
        for key, value in zip(getattr(keyword.value, "keys", ()), getattr(keyword.value, "values", ()), strict=True):
            if isinstance(key, ast.Constant) and key.value == "signature":
                signature = ast.literal_eval(value)
                return tuple(Parameter(name, str(type)) for name, type in signature.items() if type != "constexpr")
    return ()
