"""The parts that all scripts have: how they begin, what they need of the machine, and the harness."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: The line in harness.py after which its text belongs in a script.
_BEGIN = "# ---- inputs "

IMPORTS = """from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

try:
    import torch
except ImportError:
    sys.exit("this script needs PyTorch, which this Python does not have: pip install torch")
import torch._inductor.inductor_prims  # operators of Inductor's own, which its graphs call
from torch import device

HERE = Path(__file__).resolve().parent
"""

GPU = '''

def missing() -> str:
    """Why the script cannot run here; "" if it can."""
    {condition}
        return f"this script needs {needs}, but torch {{torch.__version__}} finds no GPU"
    try:
        import triton  # noqa: F401
    except ImportError:
        return "this script needs triton, which this Python does not have: pip install triton"
    return ""


if missing():
    print(missing(), file=sys.stderr)
    sys.exit(2)
'''


def harness(*sections: str) -> str:
    """The text of the harness, as it is copied into a script: all of it, or the sections that begin with these words."""
    text = (Path(__file__).parent / "harness.py").read_text(encoding="utf-8")
    whole = text[text.index(_BEGIN) :]
    if not sections:
        return whole
    return "".join(part for part in re.split(r"^(?=# ---- )", whole, flags=re.MULTILINE) if part[7:].startswith(sections))


def docstring(lines: list[str]) -> str:
    """The docstring of a script, of its lines."""
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}\n"""\n'


def requirements(device: str, gpu: Any) -> str:
    """Return the part of a script that says in one line why a machine cannot run it."""
    if device == "cpu":
        return ""
    title = f"an attached GPU like the {gpu.title} that it was made for" if gpu is not None else "an attached GPU"
    vendor = getattr(gpu, "vendor", "")
    amd = {"amd": " or torch.version.hip is None", "nvidia": " or torch.version.cuda is None"}.get(vendor, "")
    return GPU.format(condition=f"if not torch.{device}.is_available(){amd}:", needs=title)


def said_device(device: str) -> str:
    """Return the text that gives the device's name in an f-string of a script."""
    return "the CPU, {torch.get_num_threads()} threads" if device == "cpu" else f"{{torch.{device}.get_device_name()}}"


def made_with(meta: Mapping[str, Any]) -> str:
    """The versions that a script's kernels were compiled with, and for what."""
    versions = [f"{name} {meta[name]}" for name in ("torch", "triton") if meta.get(name)]
    return f"{', '.join(versions)}, for {meta.get('target', 'cpu')}"
