"""tl.inline_asm_elementwise for the PTX that Inductor writes: one arithmetic instruction on registers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.capture.interpret.blocks import Handle, fitted

#: One instruction: its name, its modifiers, its operands, as in "fma.rn.f32 $0, $1, $2, $3;".
INSTRUCTION = re.compile(r"^\s*(\w+)((?:\.\w+)*)\s+\$0\s*,\s*(\$\d+(?:\s*,\s*\$\d+)*)\s*;?\s*$")
MEANINGS: dict[str, Callable[..., Any]] = {
    "fma": lambda a, b, c: (a.astype(np.float64) * b + c).astype(a.dtype),
    "mad": lambda a, b, c: a * b + c,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.fmin,
    "max": np.fmax,
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "abs": np.abs,
    "neg": np.negative,
    "mov": lambda a: a,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
}


def evaluate(asm: Any, constraints: Any, args: Sequence[Any], dtype: Any, is_pure: Any = True, pack: Any = 1, **rest: Any) -> Any:
    """Evaluate tl.inline_asm_elementwise; NotImplementedError if it is not one arithmetic instruction."""
    import triton.language as tl

    text = str(getattr(asm, "value", asm))
    instruction = INSTRUCTION.match(text)
    if not instruction or instruction[1] not in MEANINGS or isinstance(dtype, (tuple, list)):
        raise NotImplementedError(f"inline assembly cannot be interpreted: {text.strip()}")
    tensors = [a if hasattr(a, "handle") else tl.full([], a, tl.float32) for a in args]
    if len(tensors) > 1:
        whole = tensors[0]
        for other in tensors[1:]:
            whole, _ = tl.broadcast(whole, other)
        tensors = [tl.broadcast(t, whole)[0] for t in tensors]
    chosen = [tensors[int(n) - 1].handle.data for n in re.findall(r"\$(\d+)", instruction[3])]
    data = fitted(MEANINGS[instruction[1]](*chosen), dtype)
    kind = tl.block_type(dtype, list(data.shape[1:])) if data.ndim > 1 else dtype
    return tl.tensor(Handle(data, dtype), kind)
