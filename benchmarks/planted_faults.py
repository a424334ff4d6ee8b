"""Faults planted in generated kernels: how many of them a check finds.

    python benchmarks/planted_faults.py [--target h100] [--dtypes float32,bfloat16] [--programs NAME …] [--show]

Each program is traced once; then one thing in the text of what was generated for it is changed (a constant, a sign, an
operator, an index, a mask, the length of a sum), what results is interpreted, and compared with eager. A change after which
every number is the same to the bit is no fault and not counted. Prints the faults that were not found, and found of all.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

import explorer
from explorer.hooks.generated import interpreted
from explorer.hooks.tensors import same_bits
from explorer.live.outcome import Outcome, outcome_of


def step(weight: Any, gradient: Any, momentum: Any) -> None:
    """What an optimizer does: nothing is returned."""
    momentum.mul_(0.9).add_(gradient)
    weight.sub_(momentum * 0.01)


def several(x: Any) -> tuple[Any, ...]:
    """Outputs that could be swapped."""
    return x.sin(), x.cos() * 1.001, x.sum(-1), x.amax(-1)


#: A program, the shapes of its arguments, whether it is differentiated.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], bool]] = {
    "pointwise": (lambda x: torch.sigmoid(x * 1.7) * 3.25 + torch.exp(-x * x), ((33, 65),), False),
    "small": (lambda x: torch.sin(x) * 1e-6 + 1e-8, ((2000,),), False),
    "softmax": (lambda x: torch.softmax(x * 0.5, -1), ((4, 3000),), False),
    "cross entropy": (lambda x: -F.log_softmax(x, -1)[:, 3].mean(), ((64, 100),), True),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (96,), w, b), ((17, 96), (96,), (96,)), True),
    "mean": (lambda x: (x * x).mean(), ((300, 100),), True),
    "variance": (lambda x: x.var(-1) + 1, ((40, 200),), False),
    "scan": (lambda x: x.cumsum(-1) * 0.5, ((6, 130),), False),
    "gelu": (lambda x, w: F.gelu(x @ w) * 1.5, ((32, 48), (48, 40)), True),
    "masked": (lambda x: x.masked_fill(x > 1.5, -2.0).clamp(-1.25, 1.25), ((50, 70),), False),
    "indices": (lambda x: (x.argmax(-1) + 5, (x > 0).sum(-1)), ((30, 90),), False),
    "padding": (lambda x: F.pad(x, (1, 2), value=0.5).roll(1, -1), ((20, 31),), False),
    "optimizer": (step, ((400,), (400,), (400,)), False),
    "outputs": (several, ((30, 60),), False),
}

#: What is changed, and into what: each place where it stands is a fault of its own.
CHANGES: tuple[tuple[str, str, str], ...] = (
    ("constant", r"(?<![\w.])(\d+\.\d+(?:e-?\d+)?)(?=, tl\.float)", "more"),
    ("constant", r"tl\.full\(\[[\d, ]*\], (-?\d+(?:\.\d+)?(?:e-?\d+)?)", "more"),
    ("sign", r"(?<== )(tmp\d+ \+ tmp\d+)$", "minus"),
    ("sign", r"(?<== )(tmp\d+ - tmp\d+)$", "plus"),
    ("product", r"(?<== )(tmp\d+ \* tmp\d+)$", "plus"),
    ("operator", r"\b(tl_math\.exp|libdevice\.exp|tl_math\.sin|tl_math\.cos|tl_math\.log|libdevice\.erf|tl\.sigmoid)\(", "other"),
    ("index", r"tl\.load\(in_ptr\d+ \+ \((\w+)", "one on"),
    ("mask", r"\b([rx]0?_?\d?index < [rx]\d?_?numel)$", "short"),
    ("length", r"\b(xindex|r0_index) < (\d+)", "short"),
    ("comparison", r"(?<== )(tmp\d+ > tmp\d+)$", "less"),
    ("cast", r"(\.to\(tl\.float32\))", "sixteen"),
    ("sum", r"\b(triton_helpers\.max2|tl\.sum)\(", "reduce"),
    ("swapped", r"return \((buf\d+, buf\d+)", "swap"),
)
_OTHER = {
    "tl_math.exp": "libdevice.exp2", "libdevice.exp": "libdevice.exp2", "tl_math.sin": "tl_math.cos",
    "tl_math.cos": "tl_math.sin",
    "tl_math.log": "libdevice.log2", "libdevice.erf": "libdevice.tanh", "tl.sigmoid": "libdevice.tanh",
}  # fmt: skip


def changed(how: str, text: str) -> str:
    """The text of one place with the fault in it."""
    if how == "more":
        number = float(text)
        return repr(number * 1.01 if number else 0.01)
    if how == "swap":
        return ", ".join(reversed(text.split(", ")))
    if how == "other":
        return _OTHER[text]
    if how == "short":
        return f"{text} - 1"
    if how == "reduce":
        return {"triton_helpers.max2": "tl.sum", "tl.sum": "triton_helpers.max2"}[text]
    put = {"minus": ("+", "-"), "plus": ("-" if "-" in text else "*", "+"), "less": (">", "<")}
    if how in put:
        return text.replace(*put[how])
    return f"{text} + 1" if how == "one on" else ".to(tl.bfloat16).to(tl.float32)"


def faults(text: str) -> Iterator[tuple[str, str]]:
    """(what, the whole text with it) of each fault that can be planted in a module's text."""
    for what, pattern, how in CHANGES:
        for place in re.finditer(pattern, text, re.MULTILINE):
            new = changed(how, place[1]) if how != "short" or what != "length" else place[1]
            start, end = place.span(1)
            if what == "length":
                start, end, new = *place.span(2), str(int(place[2]) - 1)
            yield f"{what}: {place[1]} to {new}", text[:start] + new + text[end:]


def same(one: Outcome, other: Outcome) -> bool:
    """True where nothing differs in any bit."""
    pairs = [(one.returned[n].value, other.returned[n].value) for n in one.returned]
    pairs += [(one.state[n].value, other.state[n].value) for n in one.changed | other.changed]
    return all(a is b or same_bits(a, b) for a, b in pairs)


def planted(name: str, dtype: Any, target: str) -> Iterator[tuple[str, bool | None]]:
    """Each fault of a program, and whether it was found: None where it changes nothing."""
    function, shapes, train = PROGRAMS[name]
    torch.manual_seed(0)
    inputs = [torch.randn(shape, dtype=dtype, requires_grad=train) for shape in shapes]
    trace = explorer.trace(function, *inputs, target=target, train=train)
    right = outcome_of(trace.live.compiled, trace.live.call, within=interpreted)
    if any(row["equal"] is not True for row in trace.check()):
        yield "FALSE ALARM without a fault", False
    for code in trace.live.codes:
        text = code.text
        for what, wrong in faults(text):
            object.__setattr__(code, "text", wrong)
            try:
                unlike = not same(right, outcome_of(trace.live.compiled, trace.live.call, within=interpreted))
                yield what, any(row["equal"] is False for row in trace.check()) if unlike else None
            except explorer.InputError as error:
                yield f"{what}: {error}", True
            except Exception as error:  # noqa: BLE001
                yield f"{what}: the interpreter does not take it: {type(error).__name__}", None
            finally:
                object.__setattr__(code, "text", text)


def main() -> int:
    """Plant faults, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--show", action="store_true", help="print the faults that were found too, and those that are none")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = total = none = 0
    for name in arguments.programs:
        for dtype in arguments.dtypes.split(","):
            for what, seen in planted(name, getattr(torch, dtype), arguments.target):
                found, total, none = found + bool(seen), total + (seen is not None), none + (seen is None)
                if seen is False or arguments.show:
                    print(f"{ {True: 'found', False: 'NOT FOUND', None: 'no fault'}[seen] }  {name} {dtype}  {what}", flush=True)
    print(f"{found} of {total} planted faults found for {arguments.target}; {none} changes were no fault")
    return 0 if found == total else 1


if __name__ == "__main__":
    sys.exit(main())
