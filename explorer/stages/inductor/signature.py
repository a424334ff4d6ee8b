"""The arguments that a wrapper gives a kernel at each launch, by the kernel's source. Pure."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from explorer.model.syntax import parsed

#: How a C++ kernel begins, up to the end of its parameters.
_CPP = re.compile(r'extern\s+"C"\s+(?:\S+\s+)*?(\w+)\s*\(([^)]*)\)')
#: The function with which PyTorch launches a kernel in Pallas or CuTe DSL.
_PALLAS = re.compile(r"^def \w+_main\(([^)]*)\):", re.MULTILINE)
#: An argument of a Halide generator's pipeline.
_HALIDE = re.compile(r"^    (\w+) = hl\.(?:Input|Output)(Buffer|Scalar)\((.+?\))(?:, \d+)?\)$", re.MULTILINE)
#: A second name under which a Halide kernel reads an argument, with other strides; a launch gives the argument once.
_VIEW = re.compile(r"_view\d+$")
#: How a Metal kernel begins, up to the end of its parameters.
_METAL = re.compile(r"kernel\s+void\s+(\w+)\(([^)]*)\)")


class Parameter(NamedTuple):
    """One argument of a launch: its name in the kernel, and its type.

    The type is "*fp32" or "i32" in Triton, "const float*" in C++, "device float*" in Metal, "hl.Float(32)*" in Halide, and "*"
    for a tensor of a kernel in Pallas or CuTe DSL, which states none.
    """

    name: str
    type: str

    @property
    def is_tensor(self) -> bool:
        """Whether a tensor is given for it."""
        return "*" in self.type

    @property
    def writes(self) -> bool:
        """Whether the name says that the kernel writes to it, as Inductor's own kernels say of all that they write."""
        return self.name.startswith(("out_ptr", "in_out_ptr")) and not self.name.endswith("_alias")


def parameters(source: str, language: str) -> tuple[Parameter, ...]:
    """The arguments of each launch of a kernel, by its language, in order; () where the source does not say."""
    if language == "triton":
        return _of_triton(source)
    if language in ("pallas", "cutedsl", "nv_universal_gemm"):
        return _of_python(source)
    if language == "halide":
        return _of_halide(source)
    return _of_c(source, _METAL if language == "metal" else _CPP)


def _of_python(source: str) -> tuple[Parameter, ...]:
    """The parameters of the function that PyTorch calls; `out_ptr0_alias` is the memory of `out_ptr0`, which JAX takes over."""
    begin = _PALLAS.search(source)
    names = [name for name in begin[1].split(", ") if name and "=" not in name and name != "stream"] if begin else []
    return tuple(Parameter(name, "*" if "_ptr" in name or name.startswith("arg_") else "int") for name in names)


def _of_halide(source: str) -> tuple[Parameter, ...]:
    """The buffers and numbers that the generator's class declares, without second names of a buffer."""
    declared = (match.groups() for match in _HALIDE.finditer(source))
    return tuple(Parameter(name, f"{of}*" if kind == "Buffer" else of) for name, kind, of in declared if not _VIEW.search(name))


def _of_c(source: str, pattern: re.Pattern[str]) -> tuple[Parameter, ...]:
    """The parameters of a function in C++ or Metal, without what Metal itself gives: a thread's position, a buffer of errors."""
    begin = pattern.search(source)
    if begin is None:
        return ()
    words = [part.strip() for part in begin[2].split(",") if part.strip() and "[[" not in part and "ErrorMessages" not in part]
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
