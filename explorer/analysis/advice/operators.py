"""Verdicts on operators that are called in place of generated code, on slow precision, and Inductor's hints. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from explorer.analysis.advice.call_cost import Launch, TracedCall
from explorer.analysis.advice.verdicts import Cost, Verdict
from explorer.analysis.questions.costs import estimate
from explorer.analysis.questions.lowering import lowerings
from explorer.analysis.questions.rows import GroupRow
from explorer.analysis.questions.tables import table
from explorer.analysis.questions.user_lines import UserLine
from explorer.model.records import changed
from explorer.model.shared import OperatorCall
from explorer.model.values import Plain
from explorer.model.wording import quantity

#: Operators that a library computes as a whole, better than loops would: a call of these is no fault.
WHOLE_OPERATORS = re.compile(
    r"attention|flash|fft|conv|\b(mm|bmm|addmm|baddbmm|matmul)\b|_mm\b|linalg|cholesky|solve|svd|\beig|\blu_|qr|triangular|sort|topk|"
    r"unique|nonzero|rnn|lstm|gru|cudnn|miopen|mkldnn|onednn|embedding_bag|grid_sampler|multinomial|c10d|symm_mem|higher_order|"
    r"scaled_grouped|quantized|torchvision|searchsorted|histc|bincount|cdist|ctc_loss|item|_local_scalar|"
    r"cum(sum|prod|max|min)|logcumsumexp|scatter|index_put|kthvalue|median|aten\.mode"
)
#: Products that the switch for TF32 is about.
PRODUCTS = re.compile(r"\b(mm|bmm|addmm|baddbmm)\b")
#: Elements of half precision in 16 bytes, and how many times longer cuBLAS takes where a row has not a multiple of them: 4096 by
#: 4096 by 4097, 4098 and 4100 in bfloat16 and float16, measured on an H100 with torch 2.11.
HALF, ALIGNED, ODD, EVEN = ("bfloat16", "float16"), 8, 5.0, 2.8
#: Hints that name nothing to do, or what another verdict says better.
IGNORED_HINTS = re.compile(r"^(Using FallbackKernel|Skip comprehensive padding|possibly bad tiling)")
_MORE_TILES = re.compile(r"^Found optimal tiling with (\d+) tiles")
_FROM_CONFIG = re.compile(r"\b(fallback_random|deterministic|fallback_by_default|emulate_precision_casts)\b")


def fallbacks(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each operator that could be generated code, and is a call."""
    rows: dict[str, list[Mapping[str, Plain]]] = {}
    for row in lowerings(traced.trace):
        at_fault = _FROM_CONFIG.search(str(row["why"])) or not WHOLE_OPERATORS.search(str(row["target"]))
        if row["kind"] == "fallback" and row["frame"] in traced.frames and at_fault:
            rows.setdefault(str(row["target"]), []).append(row)
    for target, same in rows.items():
        launches = [one for one in traced.launches for row in same if one.row["call"] and row["node"] in _called(one)]
        if launches:
            yield _fallback(traced, target, same, launches)


def _called(launch: Launch) -> set[str]:
    """Return the FX nodes that a launch calls the operators of; its other nodes may be views on the way."""
    return {str(call.node) for call in launch.row["calls"] or () if call.node} or set(launch.row["fx_nodes"])


def _fallback(traced: TracedCall, target: str, rows: list[Mapping[str, Plain]], launches: list[Launch]) -> Verdict:
    moved = sum(one.row["read"] + one.row["written"] for one in launches)
    why = str(rows[0]["why"])
    option = _FROM_CONFIG.search(why)
    off = option is not None and option[1] == "fallback_random"
    return Verdict(
        "fallback",
        f"{target} is called, {quantity(len(launches), 'time')}: Inductor writes no code for it",
        Cost(
            max(traced.seconds_of(moved), sum(one.seconds for one in launches)),
            launches[0].known,
            f"what it reads and writes and a kernel of its neighbours would keep, {traced.bandwidth}",
            moved,
        ),
        f"Inductor: {why}" if why else f"{rows[0]['function']} calls it ({rows[0]['lowered_at']})",
        f"turn {option[1]} off" if option else "write it with operators that Inductor lowers, if it is not fast by itself",
        tuple(dict.fromkeys(UserLine(str(r["file"]), int(r["line"]), str(r["code"])) for r in rows if r["file"])),
        traced.places_of(launches),
        {"options": {"fallback_random": False}} if off else {},
        "" if off else "what_if has no way to lower it otherwise: the line has to change",
    )


# Precision ---------------------------------------------------------------------------------------------------------------


def precision(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for products of float32 that are not computed in TF32, which NVIDIA's tensor cores need."""
    target = traced.target
    if target is None or "tf32" not in target.peak:
        return
    launches = [one for one in traced.launches if any(map(_is_without_tf32, one.row["calls"] or ()))]
    saved = sum(one.seconds - (estimate(target, _with_tf32(one.row)).seconds or 0.0) for one in launches if not one.measured)
    if saved > 0:
        calls = [call for one in launches for call in one.row["calls"] or ()]
        how = "without tensor cores" if target.vendor == "nvidia" else "not in TF32"
        rates = [target.peak[name] / 1e12 for name in ("fp32", "tf32")]
        yield Verdict(
            "slow precision",
            f"{quantity(len(launches), 'product')} of float32 {how}",
            Cost(saved, "estimated", f"the peak in float32 is {rates[0]:.3g} TFLOP/s, in TF32 {rates[1]:.3g}"),
            f"{calls[0].operator} of {calls[0].dtype}, and torch allowed no TF32 when it compiled",
            'torch.set_float32_matmul_precision("high"), if ten bits of mantissa are enough; or bfloat16',
            traced.lines_of(launches),
            traced.places_of(launches),
            {"settings": {"torch.backends.cuda.matmul.allow_tf32": True}},
        )


def _is_without_tf32(call: OperatorCall) -> bool:
    """Tell whether a call is a product of float32 that TF32 was not allowed for; cuDNN and attention have their own switches."""
    return call.dtype == "float32" and not call.tf32 and bool(PRODUCTS.search(call.operator))


def _with_tf32(row: GroupRow) -> GroupRow:
    """Return a call's row as if TF32 were allowed."""
    return {**row, "calls": tuple(changed(call, tf32=True) for call in row["calls"] or ())}


def unaligned(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for products of half precision whose rows do not begin at multiples of 16 bytes."""
    launches = [one for one in traced.launches if not one.measured and _slower(one.row) > 1]
    if launches and traced.target is not None and traced.target.vendor == "nvidia":
        worst = max(launches, key=lambda one: one.seconds * _slower(one.row))
        (call, *_) = worst.row["calls"] or ()
        yield Verdict(
            "slow precision",
            f"{quantity(len(launches), 'product')} whose rows are not aligned to 16 bytes",
            Cost(
                sum(one.seconds * (_slower(one.row) - 1) for one in launches),
                "estimated",
                "such a product took 5 times as long on an H100 with an odd length, 2.8 times with an even one",
                beyond=True,
            ),
            f"{call.operator} of {call.dtype} has rows {_strides_of(call)} elements apart: cuBLAS has fast kernels "
            f"for multiples of {ALIGNED} alone",
            f"pad the length to a multiple of {ALIGNED}, as a vocabulary of 50,257 to 50,304",
            traced.lines_of(launches),
            traced.places_of(launches),
            why_unproved="the shapes have to change: trace the changed program, and explorer.compare() shows both",
        )


def _slower(row: GroupRow) -> float:
    """Return how many times longer a call takes for rows that are not aligned; 1 where they are, and where it is no product."""
    calls = [call for call in row["calls"] or () if call.dtype in HALF and PRODUCTS.search(call.operator) and not call.template]
    strides = [stride for call in calls for stride in _strides_of(call) if stride % ALIGNED]
    return 1.0 if not strides else ODD if any(stride % 2 for stride in strides) else EVEN


def _strides_of(call: OperatorCall) -> list[int]:
    """List the distances between the rows of a product's operands."""
    return [max(strides[-2:]) for strides in call.strides or () if len(strides) > 1 and min(strides[-2:]) == 1]


# Inductor's hints --------------------------------------------------------------------------------------------------------


def hints(traced: TracedCall) -> Iterator[Verdict]:
    """Yield a verdict for each of Inductor's own hints on nodes of kernels that weigh."""
    for row in table(traced.trace, "perf_hint"):
        nodes = set(row["nodes"])
        launches = [
            one
            for one in traced.launches
            if nodes & set(one.row["fx_nodes"]) and one.row["kernels"] and one.graph.artifact.graph == row["graph"]
        ]
        if IGNORED_HINTS.search(str(row["hint"])) or not launches or row["frame"] not in traced.frames:
            continue
        options = options_named(str(row["hint"]))
        yield Verdict(
            "perf hint",
            f"Inductor hints: {row['hint']}",
            Cost(sum(one.seconds for one in launches) / 2, launches[0].known, "not known; ranked as half of these kernels"),
            f"TORCH_LOGS=perf_hints: {row['hint']}",
            "try what the hint names",
            (UserLine(str(row["file"]), int(row["line"]), str(row["code"])),) if row["file"] else traced.lines_of(launches),
            traced.places_of(launches),
            {"options": options} if options else {},
            "" if options else "the hint names no setting",
        )


def options_named(hint: str) -> dict[str, Plain]:
    """Inductor's options that a hint says to try."""
    if "tile_reductions" in hint:
        return {"triton.tile_reductions": True, "triton.prefer_nd_tiling": True}
    more = _MORE_TILES.match(hint)
    return {"triton.max_tiles": int(more[1])} if more else {}
