"""How often the predicted time of an edit is right about which is faster, on the attached GPU.

    python benchmarks/predicted_edits.py [h100]

Each edit is measured on the attached GPU, and predicted for the GPU of that name as if it were not there. An edit
counts where the two launches differ by more than 5 % when measured; it is right where the prediction says the same side.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

import explorer
from explorer.capture.splice.kernels import KernelText, kernel_text
from explorer.capture.splice.launches import RecordedLaunch
from explorer.lab.live.protocol import live_of
from explorer.lab.live.tuning import cost_of
from explorer.reference.gpus.figures import NAMED, Target

Program = Callable[[torch.Tensor], torch.Tensor]
#: A config in which these values are others, or a text of the source and what is in its place.
Edit = Mapping[str, Any] | tuple[str, str]
#: Programs, the shape of their input, and edits.
CASES: list[tuple[str, Program, tuple[int, ...], list[Edit]]] = [
    (
        "softmax of short rows",
        lambda x: torch.softmax(x, -1),
        (16384, 512),
        [{"num_warps": 1}, {"num_warps": 16}, {"XBLOCK": 8, "num_warps": 8}, {"XBLOCK": 1, "num_warps": 32}],
    ),
    (
        "layer norm of long rows",
        lambda x: F.layer_norm(x, x.shape[-1:]),
        (4096, 8192),
        [{"R0_BLOCK": 256}, {"R0_BLOCK": 1024, "num_warps": 4}, {"num_warps": 32}, {"XBLOCK": 4, "R0_BLOCK": 64}],
    ),
    (
        "pointwise",
        lambda x: x.sin() * x.cos() + 1,
        (4096, 4096),
        [{"XBLOCK": 64, "num_warps": 1}, {"XBLOCK": 4096, "num_warps": 4}, {"num_warps": 32}, ("tl_math.cos", "tl_math.sin")],
    ),
    (
        "transposed copy",
        lambda x: x.t().contiguous() + 1,
        (4096, 4096),
        [{"XBLOCK": 1, "YBLOCK": 256}, {"XBLOCK": 256, "YBLOCK": 4}, {"XBLOCK": 64, "YBLOCK": 64}, {"num_warps": 1}],
    ),
    (
        "sum over columns",
        lambda x: x.exp().sum(0),
        (8192, 4096),
        [{"XBLOCK": 1}, {"XBLOCK": 64}, {"num_warps": 2}, {"R0_BLOCK": 16}],
    ),
]
#: The least difference between two measured launches that counts.
MIN_DIFFERENCE = 0.05


def edited(kernel: explorer.Kernel, edit: Edit, config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The source and the config of an edit."""
    if isinstance(edit, tuple):
        return kernel.source.replace(*edit), dict(config)
    return kernel.source, {**config, **edit}


def predicted_ratio(
    kernel: explorer.Kernel, source: str, config: Mapping[str, Any], target: Target, launch: RecordedLaunch
) -> Any:
    """The predicted seconds of the edit over those of the original; an error's text where one does not compile."""
    wrapper = live_of(kernel._trace).wrappers[0]
    own = kernel_text(wrapper, kernel.name, kernel.source, "triton")
    costs = []
    for text in (kernel_text(wrapper, kernel.name, source, "triton"), own):
        absent: KernelText = replace(text, target=target, config=dict(config) if text is not own else own.config)
        costs.append(cost_of(absent, launch))
    if any("seconds" not in cost for cost in costs):
        return next(str(cost.get("error", "no prediction")) for cost in costs if "seconds" not in cost)
    return float(costs[0]["seconds"] / costs[1]["seconds"])


def ratios(kernel: explorer.Kernel, edits: list[Edit], config: Mapping[str, Any]) -> list[float | None]:
    """The time of a launch of each edit over the original's, as measured; None for one that did not run."""
    configs = [{**config, **edit} for edit in edits if not isinstance(edit, tuple)]
    rows = {str(sorted(row["config"].items())): row["ratio"] for row in kernel.tune(configs)._rows}
    found: list[float | None] = []
    for edit in edits:
        source, other = edited(kernel, edit, config)
        if isinstance(edit, tuple):
            found.append(kernel.edit(source, config=other, check=False).ratio)
            kernel.edits.reset()
        else:
            found.append(rows.get(str(sorted(other.items()))))
    return found


def main(name: str) -> None:
    """Print a line for each edit, and the share that was right."""
    warnings.simplefilter("ignore")
    target = next(target for target in NAMED if target.name == name)
    right = counted = every = 0
    for title, program, shape, edits in CASES:
        kernel = explorer.trace(program, torch.randn(shape, device="cuda")).kernels[0]
        live = live_of(kernel._trace)
        (launch,) = live.launches([(live.wrappers[0].file, kernel.name)], most=1)
        config = kernel_text(live.wrappers[0], kernel.name, kernel.source, "triton").config or {}
        print(f"{title}: {kernel.name} {dict(config)}", flush=True)
        measured = ratios(kernel, edits, config)
        for edit, one in zip(edits, measured, strict=True):
            every += 1
            prediction = predicted_ratio(kernel, *edited(kernel, edit, config), target, launch)
            if one is None or isinstance(prediction, str):
                print(f"  {edit}: not compared: {prediction}", flush=True)
                continue
            counts, same = abs(one - 1) > MIN_DIFFERENCE, (one > 1) == (prediction > 1)
            counted, right = counted + counts, right + (counts and same)
            said = ("right" if same else "wrong") if counts else "alike"
            print(f"  {edit}: measured {one:.2f}, predicted {prediction:.2f}: {said}", flush=True)
    print(
        f"{right} of {counted} edits that differ by over {MIN_DIFFERENCE:.0%} are predicted on the right side, of {every} edits"
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "h100")
