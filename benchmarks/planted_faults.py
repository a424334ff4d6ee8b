"""Plant faults in what the compiler makes: how many of them a check finds, and whether it calls a right program wrong.

    python benchmarks/planted_faults.py [--targets cpu,h100] [--jobs 4] [--part 1/3] [--only lowering right text] [--match WORD]

Three kinds, each printed as it comes and in a total:

- lowering: an operator is lowered to something else (`wrong_lowerings.py`, `wrong_operators.py`), for each target;
- right: programs that are lowered as they should be, which a check must call equal;
- text: one thing in the text of a generated kernel is changed (a constant, a sign, an operator, an index, a mask, the length
  of a sum), and the kernel is interpreted. A change that alters no bit is no fault; nor is one after which the numbers are
  as near to float64 as eager mode's, since no values can tell it from rounding. For GPUs that are not attached.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

import explorer
from explorer.capture.absent.generated import interpreted
from explorer.capture.observe.tensors import same_bits
from explorer.lab.live.float64_reference import wide_call
from explorer.lab.live.outcome import Outcome, outcome_of
from explorer.lab.live.protocol import live_of

sys.path.insert(0, str(Path(__file__).parent))
import children
import wrong_lowerings
import wrong_operators
from children import Step, part
from wrong_lowerings import planted

FAULTS = wrong_lowerings.FAULTS | wrong_operators.OPERATORS
RIGHT = wrong_lowerings.RIGHT | wrong_operators.RIGHT_OPERATORS
#: Into how many items the faults in one program's texts are divided.
SHARES = 4
#: The kinds of rows that a check must not give.
BAD = ("NOT FOUND", "FALSE ALARM", "not checked", "not planted", "died", "not tried")


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

#: What is changed in a text, and into what; each place where it stands is a fault of its own.
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
    "tl_math.exp": "libdevice.exp2",
    "libdevice.exp": "libdevice.exp2",
    "tl_math.sin": "tl_math.cos",
    "tl_math.cos": "tl_math.sin",
    "tl_math.log": "libdevice.log2",
    "libdevice.erf": "libdevice.tanh",
    "tl.sigmoid": "libdevice.tanh",
}


def changed(how: str, text: str) -> str:
    """Plant the fault in one place of a text."""
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
    """Yield (what, the whole text with it) for each fault that can be planted in a module's text."""
    for what, pattern, how in CHANGES:
        for place in re.finditer(pattern, text, re.MULTILINE):
            new = changed(how, place[1]) if how != "short" or what != "length" else place[1]
            start, end = place.span(1)
            if what == "length":
                start, end, new = *place.span(2), str(int(place[2]) - 1)
            yield f"{what}: {place[1]} to {new}", text[:start] + new + text[end:]


def same(one: Outcome, other: Outcome) -> bool:
    """True where nothing differs in any bit."""
    return all(a is b or same_bits(a, b) for a, b in values(one, other))


def values(*outcomes: Outcome) -> Iterator[tuple[Any, ...]]:
    """The values that are returned or changed, in each of the outcomes."""
    for name in outcomes[0].returned:
        yield tuple(outcome.returned[name].value for outcome in outcomes)
    for name in set().union(*(outcome.changed for outcome in outcomes)):
        yield tuple(outcome.state[name].value for outcome in outcomes)


def as_near(wrong: Outcome, eager: Outcome, exact: Outcome) -> bool:
    """Whether all numbers are as near to float64 as eager's: sorted by size, no error is much larger than eager's."""
    return all(_as_near(*tensors) for tensors in values(wrong, eager, exact) if isinstance(tensors[0], torch.Tensor))


def _as_near(wrong: Any, eager: Any, exact: Any) -> bool:
    if not wrong.is_floating_point():
        return bool((wrong == eager).all())
    info = torch.finfo(wrong.dtype)
    unit = info.eps * exact.abs().clamp_min(info.smallest_normal)
    errors, of_eager = (
        ((t.double() - exact).abs() / unit).nan_to_num(nan=torch.inf).flatten().sort().values for t in (wrong, eager)
    )
    return bool((errors <= 2 * of_eager + 0.5).all())


# Steps -------------------------------------------------------------------------------------------------------------------


def steps(item: list[Any]) -> Iterator[Step]:
    """In the child: the steps for an item, [kind, program, target] or ["text", program, target, dtype, which of its faults]."""
    kind, program, target, *more = item
    if kind == "text":
        yield from in_texts(program, target, *more)
    else:
        yield program, lambda: in_lowering(kind, program, target)


def in_lowering(kind: str, program: str, target: str) -> dict[str, Any]:
    """Check a program with a wrong lowering, or one without."""
    fault = (FAULTS if kind == "lowering" else RIGHT)[program]
    torch._dynamo.reset()
    torch.manual_seed(0)
    function, inputs = fault.build()
    try:
        with planted(fault) as reached, torch._dynamo.config.patch(capture_scalar_outputs=True):
            trace = explorer.trace(function, *inputs, target=target, train=fault.train)
            checked = trace.check()
    except Exception as error:  # noqa: BLE001 one program's error is its row
        return {"kind": "not checked", "why": f"{type(error).__name__}: {error}"[:300]}
    if fault.wrong and not reached:
        return {"kind": "not planted", "why": "the operator was not lowered"}
    return verdict(checked, right=kind == "right")


def verdict(checked: Any, right: bool = False) -> dict[str, Any]:
    """Make the row of a fault, or of a right program, from a check's rows."""
    wrong = next((dict(row) for row in checked if row["equal"] is False), None)
    shown = wrong or dict(checked[0])
    why = f"{shown['output']}: max_abs {shown['max_abs']}, {shown['bound']}; {shown['note']}"
    if right:
        return {"kind": "FALSE ALARM" if wrong else "right", "why": why if wrong else ""}
    return {"kind": "found" if wrong else "NOT FOUND", "why": "" if wrong else why}


def in_texts(program: str, target: str, dtype: str, which: str) -> Iterator[Step]:
    """Check some of the faults in the texts that are generated for a program."""
    function, shapes, train = PROGRAMS[program]
    torch.manual_seed(0)
    inputs = [torch.randn(shape, dtype=getattr(torch, dtype), requires_grad=train) for shape in shapes]
    trace = explorer.trace(function, *inputs, target=target, train=train)
    live = live_of(trace)
    right = outcome_of(live.compiled, live.call, within=interpreted)
    eager, exact = (outcome_of(call.function, call) for call in (live.call, wide_call(live.call)))
    number = int(which.partition("/")[0])
    if number == 1:
        yield "no fault", lambda: verdict(trace.check(), right=True)
    every = [(code, what, wrong) for code in live.codes for what, wrong in faults(code.text)]
    for code, what, wrong in part(every, which):
        yield what, lambda code=code, wrong=wrong: in_text(trace, code, wrong, right, eager, exact)  # type: ignore[misc]


def in_text(trace: Any, code: Any, wrong: str, right: Outcome, eager: Outcome, exact: Outcome) -> dict[str, Any]:
    """Check a text with a fault."""
    text = code.text
    object.__setattr__(code, "text", wrong)
    try:
        made = outcome_of(live_of(trace).compiled, live_of(trace).call, within=interpreted)
        if same(right, made):
            return {"kind": "no bit altered"}
        row = verdict(trace.check())
        return {"kind": f"as near as eager, {row['kind']}"} if as_near(made, eager, exact) else row
    except explorer.errors.InputError as error:
        return {"kind": "found", "why": str(error)}
    except Exception as error:  # noqa: BLE001 what is no program any more is no fault
        return {"kind": "not interpreted", "why": f"{type(error).__name__}: {error}"[:200]}
    finally:
        object.__setattr__(code, "text", text)


# The report --------------------------------------------------------------------------------------------------------------


def items(options: argparse.Namespace) -> list[list[Any]]:
    """List all that is to be done; what takes longest comes first."""
    targets = options.targets.split(",")
    of_texts = [
        ["text", name, target, dtype, f"{n}/{SHARES}"]
        for name in PROGRAMS
        for target in targets
        if target != "cpu"
        for dtype in options.dtypes.split(",")
        for n in range(1, SHARES + 1)
    ]
    others = [[kind, name, target] for target in targets for kind, of in (("lowering", FAULTS), ("right", RIGHT)) for name in of]
    every = [item for item in [*of_texts, *others] if item[0] in options.only]
    return part([item for item in every if options.match in " ".join(item)], options.part)


def total(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Write the counts by kind and target, and what was not tried."""
    counts = Counter((row["item"][0], row["item"][2], row["kind"]) for row in rows if row["item"])
    for kind, target in dict.fromkeys(key[:2] for key in counts):
        of = {row: count for (*group, row), count in counts.items() if group == [kind, target]}
        if kind == "right":
            tried = of.get("right", 0) + of.get("FALSE ALARM", 0)
            yield f"{kind}, {target}: {of.get('FALSE ALARM', 0)} false alarms on {tried} right programs"
        else:
            good = of.get("found", 0)
            tried = good + sum(of.get(name, 0) for name in ("NOT FOUND", "not checked", "not planted", "died"))
            yield f"{kind}, {target}: {good} of {tried} planted faults found, {of.get('FALSE ALARM', 0)} false alarms"
        yield "    " + ", ".join(f"{count} {name}" for name, count in sorted(of.items()))


def main() -> int:
    """Plant faults, and print what was found; 1 where one was not, or a right program was called wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="cpu,h100")
    parser.add_argument("--dtypes", default="float32,bfloat16", help="of the programs whose texts are changed")
    parser.add_argument("--only", nargs="+", default=["lowering", "right", "text"], choices=("lowering", "right", "text"))
    parser.add_argument("--match", default="", metavar="WORD", help="only items with that word: a program, a target, a dtype")
    parser.add_argument("--bad", action="store_true", help="print only what is not as it must be")
    children.add_arguments(parser, 120)
    options = parser.parse_args()
    if options.child:
        warnings.simplefilter("ignore")
        children.serve(steps)
        return 0
    began, rows = time.perf_counter(), []
    for row in children.rows(items(options), [sys.executable, __file__, "--child"], options):
        rows.append(row)
        if row["kind"] in BAD or not options.bad:
            print(
                f"{row['kind']:14} {row.get('seconds', 0):5}",
                *(row["item"] or ()),
                "|",
                row["name"],
                row.get("why", ""),
                flush=True,
            )
    print("", *total(rows), f"{len(rows)} rows in {time.perf_counter() - began:.0f} s", sep="\n", flush=True)
    return int(not rows or any(row["kind"] in BAD for row in rows))


if __name__ == "__main__":
    sys.exit(main())
