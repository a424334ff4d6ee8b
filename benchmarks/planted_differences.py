"""Plant a difference in one of two environments, and see whether a comparison of their traces names it.

    python benchmarks/planted_differences.py [--target h100] [--only NAME ...] [--jobs 2]

Each environment has this Python, its packages and a `sitecustomize.py` that plants the difference. `explorer.sweep(…, pythons=…)`
traces a program in the plain environment and in the planted one, each in a process of its own.
A row is "named" where the first line of the comparison has the expected words. Controls must have no line: the same program
twice, and after another program has taken the first compile ids. The status is 1 if a row is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import explorer
from explorer.analysis.findings.first_difference import in_words
from explorer.tracing.traced.trace import load

INDUCTOR = "import torch._inductor.config as config\nconfig."
DYNAMO = "import torch._dynamo.config as config\nconfig."
WITHOUT = "from torch._inductor import decomposition\nimport torch\ndecomposition.decompositions.pop(torch.ops.aten."


@dataclass(frozen=True)
class Planted:
    """A difference: the program that shows it, what plants it, and the words that name it."""

    program: str
    code: str = ""
    words: tuple[str, ...] = ()


PLANTED: dict[str, Planted] = {
    "setting: pattern_matcher": Planted(
        "soft", f"{INDUCTOR}pattern_matcher = False", ("prepare_softmax", "inductor.pattern_matcher")
    ),
    "setting: online_softmax": Planted(
        "soft", f"{INDUCTOR}online_softmax = False", ("prepare_softmax", "inductor.online_softmax")
    ),
    "setting: max_fusion_size": Planted("several", f"{INDUCTOR}max_fusion_size = 1", ("fusion of", "inductor.max_fusion_size")),
    "setting: split_reductions": Planted(
        "total", f"{INDUCTOR}split_reductions = False", ("reduction", "inductor.split_reductions")
    ),
    "setting: emulate_precision_casts": Planted(
        "half", f"{INDUCTOR}emulate_precision_casts = True", ("to_dtype", "inductor.emulate_precision_casts")
    ),
    "setting: triton.persistent_reductions": Planted(
        "soft", f"{INDUCTOR}triton.persistent_reductions = False", ("source", "inductor.triton.persistent_reductions")
    ),
    "setting: triton.max_tiles": Planted("turned", f"{INDUCTOR}triton.max_tiles = 1", ("source", "inductor.triton.max_tiles")),
    "setting: force_shape_pad": Planted(
        "product", f"{INDUCTOR}force_shape_pad = True", ("mm_pattern", "inductor.force_shape_pad")
    ),
    "setting: epilogue_fusion": Planted("tuned", f"{INDUCTOR}epilogue_fusion = False", ("fusion of", "inductor.epilogue_fusion")),
    "setting: capture_scalar_outputs": Planted(
        "item", f"{DYNAMO}capture_scalar_outputs = True", ("graph break", "dynamo.capture_scalar_outputs")
    ),
    "setting: assume_static_by_default": Planted(
        "several", f"{DYNAMO}assume_static_by_default = False", ("Dynamo's graph", "dynamo.assume_static_by_default")
    ),
    "pass: remove_noop_ops": Planted(
        "scan",
        "from torch._inductor.fx_passes import post_grad\npost_grad.remove_noop_ops = lambda graph: None",
        ("remove_noop_ops",),
    ),
    "pass: constant_fold_uniform_value": Planted(
        "uniform",
        "from torch._inductor.fx_passes import joint_graph\njoint_graph.constant_fold_uniform_value = lambda gm: None",
        ("constant_fold_uniform_value",),
    ),
    "pattern: pointless_view_pair": Planted(
        "turned",
        "from torch._inductor.fx_passes import joint_graph\nfor entries in joint_graph.early_patterns.patterns.values():\n"
        "    entries[:] = [entry for entry in entries if getattr(entry, 'handler', None) is not joint_graph.pointless_view_pair]",
        ("pointless_view_pair",),
    ),
    "decomposition: gelu": Planted("soft", f"{WITHOUT}gelu.default)", ("decomposition of aten.gelu.default",)),
    "decomposition: layer norm, training": Planted(
        "norm",
        f"{WITHOUT}native_layer_norm.default)",
        ("decomposition of aten.native_layer_norm.default",),
    ),
    "lowering: cumsum": Planted(
        "scan",
        "import torch\nfrom torch._inductor import lowering\noperator = torch.ops.aten.cumsum.default\n"
        "lowering.lowerings[operator] = lowering.fallback_handler(operator, add_to_fallback_set=False)",
        ("lowering of aten.cumsum.default", "fallback"),
    ),
    "lowering: tanh by sigmoid": Planted(
        "squashed",
        "import torch\nfrom torch._inductor import lowering\noperator = torch.ops.aten.tanh.default\n"
        "lowering.lowerings[operator] = lowering.lowerings[torch.ops.aten.sigmoid.default]",
        ("operations of", "tanh", "sigmoid"),
    ),
    "variable: TORCHINDUCTOR_ONLINE_SOFTMAX": Planted(
        "soft", "import os\nos.environ['TORCHINDUCTOR_ONLINE_SOFTMAX'] = '0'", ("prepare_softmax", "TORCHINDUCTOR_ONLINE_SOFTMAX")
    ),
    "control: again": Planted("soft"),
    "control: training again": Planted("norm"),
    "control: a break, again": Planted("item"),
    "control: another compile before": Planted(
        "soft", "import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\nx = torch.ones(3)"
    ),
    "control: dynamic, sizes in another order": Planted("dynamic"),
}
#: The programs, and the settings of the trace.
SETTINGS: dict[str, dict[str, Any]] = {
    "norm": {"train": True},
    "tuned": {"options": {"max_autotune_gemm_backends": "TRITON", "max_autotune": True}},
    "dynamic": {"dynamic": True},
}


def soft() -> tuple[Any, ...]:
    """An activation and a softmax."""
    return lambda x, w: torch.softmax(torch.nn.functional.gelu(x @ w), -1).sum(0), torch.ones(64, 64), torch.ones(64, 64)


def several() -> tuple[Any, ...]:
    """Two results of the same inputs."""
    return lambda x, y: ((x.sin() + y).cos(), (x * y).exp()), torch.ones(64, 64), torch.ones(64, 64)


def total() -> tuple[Any, ...]:
    """A sum to one number."""
    return lambda x: (x * 2).sum(), torch.ones(4096, 256)


def half() -> tuple[Any, ...]:
    """Bfloat16, computed in float32."""
    return lambda x: (x * 2 + 1) * x, torch.ones(64).bfloat16()


def turned() -> tuple[Any, ...]:
    """A transposition behind two views that make no difference."""
    return lambda x: (x.view(-1).view(64, 64) + 1).permute(1, 0).contiguous(), torch.ones(64, 64)


def product() -> tuple[Any, ...]:
    """Sizes that are no multiple of eight."""
    return lambda x, w: (x @ w).relu(), torch.ones(511, 511), torch.ones(511, 511)


def tuned() -> tuple[Any, ...]:
    """A product with something behind it."""
    return lambda x, w: (x @ w).relu() + 1, torch.ones(256, 256), torch.ones(256, 256)


def item() -> tuple[Any, ...]:
    """A number that Python reads."""
    return lambda x: torch.relu(x) * x.sum().item(), torch.ones(8, 8)


def scan() -> tuple[Any, ...]:
    """A scan of a slice that is the whole."""
    return lambda x: x.relu()[0:100].cumsum(-1), torch.ones(64, 64)


def uniform() -> tuple[Any, ...]:
    """A tensor of one number."""
    return lambda x: x + torch.zeros(64, 64, device=x.device).exp(), torch.ones(64, 64)


def norm() -> tuple[Any, ...]:
    """Layer norm."""
    return torch.nn.LayerNorm(64), torch.ones(8, 64, requires_grad=True)


def squashed() -> tuple[Any, ...]:
    """A tanh."""
    return lambda x: torch.tanh(x) + 1, torch.ones(64, 64)


def dynamic() -> tuple[Any, ...]:
    """Two sizes that differ."""
    return lambda x, y: (x.sum(0) + 1, y.exp()), torch.ones(6, 4), torch.ones(3, 7)


def environment(folder: Path, code: str) -> str:
    """Make an environment with the packages of this one and what is planted, and return its interpreter."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "same_packages.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    (packages / "sitecustomize.py").write_text(code)
    return str(folder / "bin" / "python")


def kind(planted: Planted, told: str) -> str:
    """Whether the first line of a comparison names what was planted; of a control, whether there is none."""
    if not planted.words:
        return "alike" if not told else "FALSE ALARM"
    first = told.partition("\n")[0]
    return "named" if first.startswith("differs first at") and all(word in first for word in planted.words) else "NOT NAMED"


def main() -> int:
    """Print a row for each difference as it comes, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--only", nargs="*", default=(), help="words of the names of the differences to plant")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    options = parser.parse_args()
    wanted = {name: of for name, of in PLANTED.items() if not options.only or any(word in name for word in options.only)}
    with tempfile.TemporaryDirectory(prefix="planted-") as scratch, ThreadPoolExecutor(options.jobs) as threads:
        folder = Path(scratch)
        plain = environment(folder / "env", "")
        pythons = {name: environment(folder / f"env{number}", of.code) for number, (name, of) in enumerate(wanted.items())}

        def traced(program: str, python: str, where: str) -> Any:
            settings = {"": SETTINGS.get(program, {})}
            model = [f"{Path(__file__).resolve()}:{program}"]
            return explorer.sweep(
                model, [options.target], settings, folder=folder / where, pythons={"": python}, executor=Immediate()
            )

        before = {program: threads.submit(traced, program, plain, program) for program in {of.program for of in wanted.values()}}
        after = {
            name: threads.submit(traced, of.program, pythons[name], f"planted{number}")
            for number, (name, of) in enumerate(wanted.items())
        }
        counts: Counter[str] = Counter()
        print("| planted | first line of the comparison | |\n| --- | --- | --- |")
        for name, planted in wanted.items():
            sweeps = before[planted.program].result(), after[name].result()
            if failed := [row["why"] for swept in sweeps for row in swept.failed]:
                found, told = "FAILED", failed[0]
            else:
                compared = explorer.compare(*(load(swept.table[0]["file"]) for swept in sweeps), names=("plain", "planted"))
                told = "\n".join(in_words(compared))
                found = kind(planted, told)
            counts[found] += 1
            shown = told.partition("\n")[0].replace("|", "\\|")
            print(f"| {name} | {shown} | {found} |", flush=True)
        print(f"\n{', '.join(f'{count} {what}' for what, count in counts.items())}")
        return int(any(what.isupper() for what in counts))


class Immediate:
    """An executor that runs a cell at once: the cell's own interpreter is a process."""

    def submit(self, run: Callable[..., Any], cell: Any) -> Future[Any]:
        """Run it."""
        future: Future[Any] = Future()
        future.set_result(run(cell))
        return future


if __name__ == "__main__":
    sys.exit(main())
