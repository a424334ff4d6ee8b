"""How like the real thing a trace for a GPU that is not there is: kernel by kernel, against the same GPU attached.

Run on a machine with the GPU; the other half is made in processes that see none, with the same torch and triton:

    python benchmarks/fidelity.py --target h200                 every workload, inference and training
    python benchmarks/fidelity.py --target h200 --workloads mlp gpt2 --show
    python benchmarks/fidelity.py --target h200 --record FILE   both halves as test data

and on a machine without a GPU, against what was recorded on one, with any torch:

    python benchmarks/fidelity.py --target h200 --against tests/data/fidelity-h200-torch2.11.json.gz

For each workload it prints how many of the real trace's kernels have an identical one (body and heuristics metadata,
their names aside), whether the extern calls are the same, and how many of the kernels that were launched have identical
TTGIR, PTX and registers, compiled with the config that the GPU took. Those of the real half are of what the GPU launched.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

NAMES = ("elementwise", "mlp", "attention", "gpt2", "bert", "vit", "llama", "resnet", "unaligned")
#: The forms of a kernel that are compared, and what else is said of it.
FORMS = ("ttgir", "ptx", "registers")
NAME = re.compile(r"\btriton_[a-z]+_fused_\w+|\btriton_\w+_\d+\b")
#: What differs between two runs of the same compiler: hashes, paths, and the line numbers of the cache's files.
RUN = re.compile(
    r"'backend_hash': '\w+'|'kernel_name': '\w+'|^#loc.*|\s?loc\((?:[^()]|\([^()]*\))*\)|\.file\s.*|\.loc\s.*|//.*", re.MULTILINE
)
NOT_LOWERED: dict[str, Any] = {"config": "", "launched": False, "forms": {}}
#: What device asserts say: the file of Inductor's cache, and the line.
ASSERT = re.compile(r"^\.global \.align 1 \.b8 assertFile_\d+\[.*|\[param2\], \d+;", re.MULTILINE)
#: Where the debug information of PTX begins: the bytes of the file's name and lines.
DEBUG = re.compile(r"^\s*\.section\s+\.debug_.*", re.MULTILINE | re.DOTALL)


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

    class Unaligned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(1023, 2047), nn.Linear(2047, 1021)

        def forward(self, x: Any) -> Any:
            return self.down(nn.functional.relu(self.up(x)))

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
        "unaligned": lambda d: (Unaligned().to(device, d), (randn(1000, 1023, dtype=d),), {}),
    }  # fmt: skip


def traced(names: list[str], target: str, kinds: tuple[str, ...] = (), *, forms: bool = True) -> dict[str, Any]:
    """What is compared of each workload's trace, or of those of `kinds`; an error where there is no trace.

    Without `forms` only what stands in the output code.
    """
    import torch

    import explorer

    attached, found = target == "cuda", {}
    for name, make in workloads("cuda" if attached else "cpu").items():
        for dtype in ("float32", "bfloat16") if name in names else ():
            for train in (False, True):
                key = f"{name} {dtype} {'training' if train else 'inference'}"
                if kinds and key not in kinds:
                    continue
                try:
                    fn, args, kwargs = make(getattr(torch, dtype))
                    found[key] = facts(explorer.trace(fn, *args, kwargs=kwargs, target=target, train=train), forms)
                except Exception as error:  # noqa: BLE001 one workload's error is its row
                    found[key] = {"error": f"{type(error).__name__}: {error}"[:200]}
    return found


def facts(trace: Any, forms: bool = True) -> dict[str, Any]:
    """Kernels with their forms, and extern calls in order of name, without what differs from run to run."""
    calls = re.compile(r"\b(?:extern_kernels|torch\.ops\.aten|aten)\.[\w.]+(?=\()")
    externs = Counter(c for a in trace.find("output_code") for c in calls.findall(a.text.split("class Runner")[-1]))
    kernels = [
        {"graph": k.artifact.graph, "source": plain(k.source), "name": k.name, **(lowered(k) if forms else NOT_LOWERED)}
        for k in trace.kernels
    ]
    failures = [str(f)[:300] for f in trace.failures if f.stage not in ("decompiled",)]
    timed = [[r["operation"], ", ".join(r["inputs"]), r["choice"]] for r in trace.choices if r["fastest"] and r["ms"] is not None]
    assumed = [[r["where"], r["assumed"]] for r in trace.assumptions]
    return {"kernels": kernels, "externs": dict(externs), "failures": failures, "timed": timed, "assumed": assumed}


def lowered(kernel: Any) -> dict[str, Any]:
    """The config that was taken, whether the GPU launched it, and the forms of each config; for an attached GPU only of that."""
    found = next((a.data for a in kernel.trace.artifacts if a.stage == "ttgir" and same_kernel(a, kernel)), None)
    if found is None:
        return NOT_LOWERED
    taken, launched = key_of(found["config"]), bool(found.get("launched"))
    forms = {taken: form(kernel.text("ttgir"), kernel.text("ptx"), kernel.resources.get("registers"))}
    for config in () if launched else found["candidates"]:
        if key_of(config) not in forms:
            other = kernel.candidate(config)
            forms[key_of(config)] = form(other.texts["ttgir"], other.texts["ptx"], other.metadata.get("registers"))
    return {"config": taken, "launched": launched, "forms": forms}


def same_kernel(artifact: Any, kernel: Any) -> bool:
    """Whether an artifact is a form of the kernel."""
    own = kernel.artifact
    return (artifact.kernel, artifact.frame, artifact.graph) == (own.kernel, own.frame, own.graph)


def key_of(config: Any) -> str:
    """A config as a key of JSON."""
    return ", ".join(f"{name}={value}" for name, value in sorted(config.items()))


def form(ttgir: str, ptx: str, registers: Any) -> dict[str, Any]:
    """What is compared of one compile of a kernel."""
    return {"ttgir": renumbered(plain(ttgir)), "ptx": plain(ASSERT.sub("", DEBUG.sub("", ptx))), "registers": registers}


def renumbered(mlir: str) -> str:
    """MLIR with its values numbered as they are defined: triton names them, but a loop's variable loses its name in a text."""
    names: dict[str, str] = {}

    def number(value: re.Match[str]) -> str:
        if value[1]:
            names[value[1]] = f"%{len(names)}.{value.start()}"
        return names.get(value[0], value[0])

    known = re.sub(r"(%\w+)(?=(?::\d+)?\s=\s|:\s)|%\w+", number, mlir)
    order: dict[str, str] = {}
    return re.sub(r"%\d+\.\d+", lambda value: order.setdefault(value[0], f"%{len(order)}"), known)


def plain(text: str) -> str:
    """A text without kernel names, locations, hashes and empty lines."""
    return re.sub(r"[ \t]*\n\s*?(?=\n|\Z)", "", RUN.sub("", NAME.sub("KERNEL", text)))


def compare(real: dict[str, Any], ours: dict[str, Any], show: bool = False) -> list[tuple[str, ...]]:
    """One row a workload; with `show` the first difference of each."""
    rows = []
    for key, one in real.items():
        other = ours.get(key, {"error": "not traced"})
        if "error" in one or "error" in other:
            rows.append((key, one.get("error", "ok"), other.get("error", "ok"), "", "", ""))
            continue
        externs = "same" if one["externs"] == other["externs"] else f"{only(one, other)} / {only(other, one)}"
        rows.append((key, same(one["kernels"], other["kernels"]), externs, *same_forms(one["kernels"], other["kernels"])))
        if show:
            print_difference(key, one["kernels"], other["kernels"])
    return rows


def same(real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> str:
    """ "3 of 3 (3)": of the real kernels those with an identical one of ours, and how many we have."""
    here, there = (Counter((k["graph"], k["source"]) for k in kernels) for kernels in (real, ours))
    return f"{(here & there).total()} of {here.total()} ({there.total()})"


def same_forms(real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> tuple[str, ...]:
    """ "3 of 3" for TTGIR, PTX and registers: of the launched kernels those that ours with the same source and config equals."""
    there = {(k["graph"], k["source"]): k["forms"] for k in ours}
    ran = [k for k in real if k["launched"]]
    pairs = [(k["forms"][k["config"]], there.get((k["graph"], k["source"]), {}).get(k["config"], {})) for k in ran]
    return tuple(f"{sum(one[part] == other.get(part) for one, other in pairs)} of {len(ran)}" for part in FORMS)


def only(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The extern calls of one that the other lacks."""
    return ", ".join(Counter(one["externs"]) - Counter(other["externs"])) or "–"


def print_difference(key: str, real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """The first real kernel without an identical one, beside the nearest of ours, and the first form that differs."""
    sources = [k["source"] for k in ours]
    for kernel in real:
        if kernel["source"] not in sources and sources:
            near = max(sources, key=lambda s: difflib.SequenceMatcher(None, s, kernel["source"]).quick_ratio())
            return print_diff(f"{key}: source of {kernel['name']}", kernel["source"], near)
    there = {(k["graph"], k["source"]): k["forms"] for k in ours}
    for kernel in (k for k in real if k["launched"]):
        one, other = kernel["forms"][kernel["config"]], there[kernel["graph"], kernel["source"]].get(kernel["config"], {})
        for part in FORMS:
            if one[part] != other.get(part):
                return print_diff(f"{key}: {part} of {kernel['name']} ({kernel['config']})", str(one[part]), str(other.get(part)))
    return None


def print_diff(title: str, one: str, other: str) -> None:
    """The lines that differ, 20 at most."""
    lines = difflib.unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=0)
    print("\n".join([f"--- {title}", *(line[:200] for line in list(lines)[2:22])]))


# The test data -------------------------------------------------------------------------------------------------------


def packed(real: dict[str, Any], ours: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Both halves as they are recorded: each different source once, of TTGIR and PTX the hashes."""
    sources = sorted({k["source"] for half in (real, ours) for case in half.values() for k in case.get("kernels", ())})
    index = {source: n for n, source in enumerate(sources)}

    def small(kernel: dict[str, Any]) -> dict[str, Any]:
        return {**kernel, "source": index[kernel["source"]], "forms": {c: hashed(f) for c, f in kernel["forms"].items()}}

    def half(cases: dict[str, Any]) -> dict[str, Any]:
        return {key: {**case, "kernels": [small(k) for k in case.get("kernels", ())]} for key, case in cases.items()}

    return {"versions": versions, "sources": sources, "real": half(real), "absent": half(ours)}


def hashed(one: dict[str, Any]) -> dict[str, Any]:
    """A form with hashes for texts; what is hashed already stays as it is."""
    return {part: digest(value) if isinstance(value, str) and len(value) != 16 else value for part, value in one.items()}


def digest(text: str) -> str:
    """16 characters that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unpacked(data: dict[str, Any], half: str) -> dict[str, Any]:
    """A recorded half as `traced` gives it, but for the hashes."""
    sources = data["sources"]
    return {
        key: {**case, "kernels": [{**k, "source": sources[k["source"]]} for k in case["kernels"]]}
        for key, case in data[half].items()
    }


def with_hashes(cases: dict[str, Any]) -> dict[str, Any]:
    """A half that was just made, with hashes as a recorded one has."""
    return {
        key: {**case, "kernels": [{**k, "forms": {c: hashed(f) for c, f in k["forms"].items()}} for k in case.get("kernels", ())]}
        for key, case in cases.items()
    }  # fmt: skip


def load(file: Path) -> dict[str, Any]:
    """Recorded halves."""
    data: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return data


def save(file: Path, data: dict[str, Any]) -> None:
    """Write recorded halves, the same bytes for the same halves."""
    file.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":"), sort_keys=True).encode(), 9, mtime=0))


def versions() -> dict[str, str]:
    """The versions that the halves were made with, and the GPU."""
    import torch
    import triton

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return {"torch": torch.__version__, "triton": triton.__version__, "gpu": gpu}


# The command ---------------------------------------------------------------------------------------------------------


def halves(target: str, workloads: list[str], jobs: int) -> dict[str, dict[str, Any]]:
    """Both halves, each workload's in a process and caches of its own; the real ones alone, for true times."""
    made: dict[str, dict[str, Any]] = {"cuda": {}, target: {}}
    with tempfile.TemporaryDirectory() as folder:
        for half, cases in made.items():
            with ThreadPoolExecutor(1 if half == "cuda" else jobs) as threads:
                for case in threads.map(lambda name, half=half: half_of(half, name, folder), workloads):  # type: ignore[misc]
                    cases.update(case)
    return made


def half_of(half: str, name: str, folder: str) -> dict[str, Any]:
    """One workload's half, in a process that sees the GPU or, for a GPU by name, none."""
    file = Path(folder) / f"{half}-{name}.json"
    command = [sys.executable, __file__, "--workloads", name, "--half", half, str(file)]
    hidden = {} if half == "cuda" else {"CUDA_VISIBLE_DEVICES": ""}
    own = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/{half}-{name}", "TRITON_CACHE_DIR": f"{folder}/{half}-{name}/triton"}
    subprocess.run(command, env={**os.environ, **hidden, **own}, check=True)
    made: dict[str, Any] = json.loads(file.read_text())
    return made


def main() -> None:
    """Make what is to be compared, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h200", help="the name of the attached GPU")
    parser.add_argument("--workloads", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--show", action="store_true", help="print the first difference of each workload")
    parser.add_argument("--json", type=Path, help="write both halves there, with all texts")
    parser.add_argument(
        "--record", type=Path, help="write both halves there as test data; with --against, a new half without a GPU"
    )
    parser.add_argument("--against", type=Path, help="compare with the real half of that test data; needs no GPU")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time for the half without a GPU")
    parser.add_argument("--half", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.half:
        Path(options.half[1]).write_text(json.dumps(traced(options.workloads, options.half[0])))
        return
    if options.against:
        ours = with_hashes(traced(options.workloads, options.target))
        recorded = load(options.against)
        real, made_with = {key: case for key, case in unpacked(recorded, "real").items() if key in ours}, recorded["versions"]
    else:
        made = halves(options.target, options.workloads, options.jobs)
        real, ours, made_with = made["cuda"], made[options.target], versions()
    if options.json:
        options.json.write_text(json.dumps({"real": real, "absent": ours}))
    if options.record:
        save(options.record, packed(real, ours, made_with))
    head = ("workload", "source and metadata", "extern calls", *FORMS)
    for row in [head, *compare(real, ours, options.show)]:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
