"""Ask triton's own code for linear layouts and bank conflicts; a process of its own, which triton may abort.

    python tests/reference/layouts/triton_layouts.py < questions.json

A question is {"text": TTGIR of a module, "types": […]}; the answers are a list: of each type {"bases": …, "view": …}, and of two
types, registers and shared, {"conflicts": …}.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from typing import Any


def answer(question: dict[str, Any]) -> dict[str, Any]:
    from triton._C import libtriton
    from triton._C.libtriton import gluon_ir, ir

    context = ir.context()
    ir.load_dialects(context)
    libtriton.nvidia.load_dialects(context)
    libtriton.amd.load_dialects(context)
    with tempfile.NamedTemporaryFile("w", suffix=".ttir", encoding="utf-8") as file:
        file.write(question["text"])
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    builder = gluon_ir.GluonOpBuilder(context)
    function = module.get_function("ids")
    values = [function.args(n) for n in range(len(question["types"]))]
    layouts = [layout_of(builder, *pair) for pair in zip(values, question["types"], strict=True)]
    attributes = [layout._to_ir(builder) for layout in layouts]
    shapes = [[int(n) for n in re.findall(r"(\d+)x", kind.split(",")[0])] for kind in question["types"]]
    if len(layouts) == 2:
        return {"conflicts": builder.get_shared_bank_conflicts(*attributes, shapes[0], question["bits"])}
    linear = builder.to_linear_layout(attributes[0], shapes[0])
    names = {
        "register": "reg_bases",
        "lane": "lane_bases",
        "warp": "warp_bases",
        "offset": "offset_bases",
        "block": "block_bases",
    }
    bases = {name: getattr(linear, field) for name, field in names.items() if hasattr(linear, field)}
    return {"bases": bases, "view": layouts[0].format_tensor_view(shapes[0])}


def layout_of(builder: Any, value: Any, kind: str) -> Any:
    if kind.startswith("!"):
        return builder.get_gluon_layout_from_memdesc(value)
    return builder.get_gluon_layout_from_tensor(value)


if __name__ == "__main__":
    json.dump([answer(question) for question in json.load(sys.stdin)], sys.stdout)
