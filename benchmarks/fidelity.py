"""How like the real thing a trace for a GPU that is not there is: kernel by kernel, against the same GPU attached.

Run on a machine with the GPU; the other half is made in a process that sees none, with the same torch and triton:

    python benchmarks/fidelity.py --target h200                 every workload, inference and training
    python benchmarks/fidelity.py --target h200 --workloads mlp gpt2 --show

For each workload it prints how many of the real trace's kernels have an identical one (body and heuristics metadata,
their names aside), whether the extern calls are the same, and how many kernels have identical TTGIR, PTX and registers,
which explorer's own compile of each source gives on both sides.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAME = re.compile(r"\btriton_[a-z]+_fused_\w+|\btriton_\w+_\d+\b")
#: What differs between two runs of the same compiler: hashes, paths, and the line numbers of the cache's files.
RUN = re.compile(r"'backend_hash': '\w+'|'kernel_name': '\w+'|#loc.*|loc\(.*?\)|\.file\s.*|\.loc\s.*|//.*")


def workloads(device: str) -> dict[str, Callable[[Any], tuple[Any, tuple[Any, ...], dict[str, Any]]]]:
    """Each workload by name: dtype → (function or module, arguments, keyword arguments), on `device`."""
    import torch
    import transformers
    from torch import nn

    def randn(*size: int, dtype: Any) -> Any:
        return torch.randn(*size, device=device, dtype=dtype, requires_grad=True)

    def image(dtype: Any) -> Any:
        return torch.randn(2, 3, 32, 32, device=device, dtype=dtype)

    class MLP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.norm, self.down = nn.Linear(256, 512), nn.LayerNorm(512), nn.Linear(512, 64)

        def forward(self, x: Any) -> Any:
            return torch.softmax(self.down(self.norm(nn.functional.gelu(self.up(x)))), -1)

    def model(kind: Any, config: Any, dtype: Any) -> Any:
        torch.manual_seed(0)
        return kind(config).to(device, dtype)

    tokens = torch.randint(0, 128, (2, 64), device=device)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    t, sdpa = transformers, nn.functional.scaled_dot_product_attention
    return {
        "elementwise": lambda d: (lambda x: torch.sin(x) ** 2 + torch.cos(x) ** 2, (randn(10_000, dtype=d),), {}),
        "mlp": lambda d: (MLP().to(device, d), (randn(64, 256, dtype=d),), {}),
        "attention": lambda d: (lambda q, k, v: sdpa(q, k, v).relu(), tuple(randn(2, 4, 64, 32, dtype=d) for _ in "qkv"), {}),
        "gpt2": lambda d: (
            model(t.GPT2Model, t.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=128), d), (tokens,), {"use_cache": False}),
        "bert": lambda d: (model(t.BertModel, t.BertConfig(**sizes, vocab_size=128), d), (tokens,), {}),
        "vit": lambda d: (model(t.ViTModel, t.ViTConfig(**sizes, image_size=32, patch_size=8), d), (image(d),), {}),
        "llama": lambda d: (
            model(t.LlamaModel, t.LlamaConfig(**sizes, num_key_value_heads=2, vocab_size=128), d),
            (tokens,), {"use_cache": False}),
        "resnet": lambda d: (
            model(t.ResNetModel, t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic"), d),
            (image(d),), {}),
    }  # fmt: skip


def traced(names: list[str], target: str) -> dict[str, Any]:
    """What is compared of each workload's trace; an error where there is no trace."""
    import torch

    import explorer

    attached, found = target == "cuda", {}
    for name, make in workloads("cuda" if attached else "cpu").items():
        for dtype in ("float32", "bfloat16") if name in names else ():
            for train in (False, True):
                key = f"{name} {dtype} {'training' if train else 'inference'}"
                try:
                    fn, args, kwargs = make(getattr(torch, dtype))
                    found[key] = facts(explorer.trace(fn, *args, kwargs=kwargs, target=target, train=train))
                except Exception as error:  # noqa: BLE001 one workload's error is its row
                    found[key] = {"error": f"{type(error).__name__}: {error}"[:200]}
    return found


def facts(trace: Any) -> dict[str, Any]:
    """Kernels with their ladder, and extern calls in order of name, without what differs from run to run."""
    calls = re.compile(r"\b(?:extern_kernels|torch\.ops\.aten|aten)\.[\w.]+(?=\()")
    externs = Counter(c for a in trace.find("output_code") for c in calls.findall(a.text.split("class Runner")[-1]))
    kernels = [{"graph": k.artifact.graph, "source": plain(k.source), "name": k.name, **ladder(trace, k)} for k in trace.kernels]
    failures = [str(f)[:300] for f in trace.failures if f.stage not in ("decompiled",)]
    return {"kernels": kernels, "externs": dict(externs), "failures": failures}


def ladder(trace: Any, kernel: Any) -> dict[str, Any]:
    """The texts below the source, and the registers; empty where the kernel was not compiled."""
    forms = {
        a.stage: a
        for a in trace.artifacts
        if (a.kernel, a.frame, a.graph) == (kernel.name, kernel.artifact.frame, kernel.artifact.graph)
    }
    texts = {stage: plain(forms[stage].text) for stage in ("ttgir", "ptx") if stage in forms}
    return {**texts, "registers": kernel.resources.get("registers")}


def plain(text: str) -> str:
    """A text without kernel names, locations and hashes."""
    return re.sub(r"[ \t]+\n", "\n", RUN.sub("", NAME.sub("KERNEL", text)))


def compare(real: dict[str, Any], ours: dict[str, Any], show: bool) -> list[tuple[str, ...]]:
    """One row a workload; with `show` the first difference of each."""
    rows = []
    for key, one in real.items():
        other = ours.get(key, {"error": "not traced"})
        if "error" in one or "error" in other:
            rows.append((key, one.get("error", "ok"), other.get("error", "ok"), "", "", ""))
            continue
        cells = [same(one["kernels"], other["kernels"], part) for part in ("source", "ttgir", "ptx", "registers")]
        externs = "same" if one["externs"] == other["externs"] else f"{only(one, other)} / {only(other, one)}"
        rows.append((key, cells[0], externs, *cells[1:]))
        if show:
            print_difference(key, one["kernels"], other["kernels"])
    return rows


def same(real: list[dict[str, Any]], ours: list[dict[str, Any]], part: str) -> str:
    """ "3 of 3 (3)": of the real kernels those with an identical one of ours, and how many we have."""
    here, there = (
        Counter((k["graph"], str(k.get(part))) for k in kernels if k.get(part) is not None) for kernels in (real, ours)
    )
    return f"{(here & there).total()} of {here.total()} ({there.total()})"


def only(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The extern calls of one that the other lacks."""
    return ", ".join(Counter(one["externs"]) - Counter(other["externs"])) or "–"


def print_difference(key: str, real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """The first real kernel without an identical one, beside the nearest of ours."""
    sources = [k["source"] for k in ours]
    for kernel in real:
        if kernel["source"] not in sources and sources:
            near = max(sources, key=lambda s: difflib.SequenceMatcher(None, s, kernel["source"]).quick_ratio())
            print(f"--- {key}: {kernel['name']}")
            print(
                "\n".join(
                    line for line in difflib.unified_diff(kernel["source"].splitlines(), near.splitlines(), lineterm="", n=0)
                )
            )
            return


def main() -> None:
    """Make both halves, each in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["elementwise", "mlp", "attention", "gpt2", "bert", "vit", "llama", "resnet"]
    parser.add_argument("--target", default="h200", help="the name of the attached GPU")
    parser.add_argument("--workloads", nargs="+", default=names, choices=names)
    parser.add_argument("--show", action="store_true", help="print the first difference of each workload")
    parser.add_argument("--json", type=Path, help="write both halves there")
    parser.add_argument("--half", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.half:
        Path(options.half[1]).write_text(json.dumps(traced(options.workloads, options.half[0])))
        return
    halves = {}
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for target, hidden in (("cuda", None), (options.target, "")):
            file = Path(folder) / f"{target}.json"
            command = [sys.executable, __file__, "--workloads", *options.workloads, "--half", target, str(file)]
            environment = {**os.environ, **({} if hidden is None else {"CUDA_VISIBLE_DEVICES": hidden})}
            environment["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder) / target)
            running.append((target, file, subprocess.Popen(command, env=environment)))
        for target, file, process in running:
            if process.wait():
                raise SystemExit(f"the half for {target} failed")
            halves[target] = json.loads(file.read_text())
    if options.json:
        options.json.write_text(json.dumps(halves))
    head = ("workload", "source and metadata", "extern calls", "ttgir", "ptx", "registers")
    for row in [head, *compare(halves["cuda"], halves[options.target], options.show)]:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
