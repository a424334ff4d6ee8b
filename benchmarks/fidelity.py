"""Compare a trace for an absent GPU with one on the same GPU attached, kernel by kernel.

Run on a machine with the GPU; the other half is made in processes that see none, with the same torch and triton:

    python benchmarks/fidelity.py --target h200                 every workload, inference and training
    python benchmarks/fidelity.py --target h200 --workloads mlp gpt2 --show
    python benchmarks/fidelity.py --target h200 --record FILE   both halves as test data
    python benchmarks/fidelity.py --target h200 --architectures --part 1/3 --no-forms --diffs FILE
                                                                models of transformers, each difference in full in FILE
    python benchmarks/fidelity.py --target h200 --architectures --jobs 14 --real-jobs 7 --resume FOLDER --within 500
                                                                as many as 500 s are enough for, and the others next time
    python benchmarks/fidelity.py --target h200 --architectures --resume FOLDER --within 0
                                                                the table of what FOLDER has; needs no GPU

and on a machine without a GPU, against what was recorded on one, with any torch:

    python benchmarks/fidelity.py --target h200 --against tests/data/fidelity-h200-torch2.11.json.gz

For each workload it prints, as soon as both halves are there, how many of the real trace's kernels have an identical one (body
and heuristics metadata, their names aside), whether the extern calls are the same, and how many of the kernels that were launched
have identical TTGIR, PTX and registers, compiled with the config that the GPU took. Those of the real half are of what the GPU
launched. Where anything differs the last column names the assumptions that can be why: those that the GPU's own timing
contradicts, and those that nothing timed. A difference without one is unexplained.

What Inductor times depends on what else the GPU does. So real halves are made one after another, unless `--real-jobs` says
otherwise: do that where nothing is timed, such as for models whose sizes are all multiples of 16.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import hashlib
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from halves import Half, Limits, make_halves

NAMES = ("elementwise", "mlp", "attention", "gpt2", "bert", "vit", "llama", "resnet", "unaligned")
TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 128}
ENCODER = {**TEXT, "max_position_embeddings": 128}
DECODER = {**ENCODER, "num_key_value_heads": 2}
GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 128, "rotary_dim": 8}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SEQ2SEQ = {
    "vocab_size": 128,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    **TOKENS,
    "decoder_start_token_id": 1,
}
IMAGE = {"image_size": 32, "patch_size": 8}
VIT = {name: size for name, size in {**TEXT, **IMAGE}.items() if name != "vocab_size"}
STAGES = {"hidden_sizes": [16, 32, 64, 64], "depths": [1, 1, 1, 1]}
#: Architectures of transformers by their config's type, with what makes them small. Their weights are random.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "mistral": DECODER,
    "mixtral": {**DECODER, "num_local_experts": 4},
    "qwen2": DECODER,
    "qwen2_moe": {
        **DECODER,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
    },
    "qwen3": {**DECODER, "head_dim": 16},
    "gemma": {**DECODER, "head_dim": 16},
    "gemma2": {**DECODER, "head_dim": 16, "sliding_window": 32},
    "gemma3_text": {**DECODER, "head_dim": 16, "sliding_window": 32},
    "phi": ENCODER,
    "phi3": {**DECODER, **TOKENS},
    "gpt_neox": ENCODER,
    "gptj": GPT,
    "codegen": GPT,
    "gpt_neo": {
        "hidden_size": 64,
        "num_layers": 2,
        "attention_types": [[["global", "local"], 1]],
        "num_heads": 4,
        "vocab_size": 128,
        "max_position_embeddings": 128,
        "window_size": 32,
    },
    "opt": {**ENCODER, **TOKENS, "ffn_dim": 128, "word_embed_proj_dim": 64},
    "bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128},
    "falcon": TEXT,
    "mpt": {"d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 128, "max_seq_len": 128},
    "stablelm": DECODER,
    "olmo": DECODER,
    "olmo2": DECODER,
    "starcoder2": DECODER,
    "granite": DECODER,
    "cohere": DECODER,
    "mamba": {"hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 128, "state_size": 8},
    "roberta": {**ENCODER, **TOKENS},
    "distilbert": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 128},
    "albert": {**ENCODER, "embedding_size": 32},
    "electra": {**ENCODER, "embedding_size": 32},
    "deberta-v2": ENCODER,
    "mpnet": {**ENCODER, **TOKENS},
    "modernbert": {**ENCODER, **TOKENS, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 32},
    "convbert": {**ENCODER, "embedding_size": 32},
    "fnet": {k: v for k, v in ENCODER.items() if k != "num_attention_heads"},
    "rembert": {**ENCODER, "input_embedding_size": 32, "output_embedding_size": 32},
    "layoutlm": ENCODER,
    "t5": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 128},
    **{name: {**SEQ2SEQ, "max_position_embeddings": 128} for name in ("bart", "pegasus", "blenderbot")},
    # which layers it leaves out it draws on the CPU: nothing else may draw, as on a GPU that has a generator of its own
    "m2m_100": {**SEQ2SEQ, "max_position_embeddings": 128, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
    "whisper": {**SEQ2SEQ, "num_mel_bins": 16, "max_source_positions": 64, "max_target_positions": 64},
    "deit": VIT,
    "beit": VIT,
    "dinov2": VIT,
    "convnext": STAGES,
    "regnet": {**STAGES, "embedding_size": 16, "groups_width": 16},
    "swin": {"image_size": 32, "patch_size": 4, "embed_dim": 32, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
    "mobilenet_v2": {"depth_multiplier": 0.35},
    "segformer": {"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1]},
}
#: Those that take longest, which come last: on an H200, with seven at a time, 63, 90 and 265 s.
SLOWEST = ("t5", "mobilenet_v2", "mamba")
DTYPES = ("float32", "bfloat16")
#: The forms of a kernel that are compared, and what else is said of it.
FORMS = ("ttgir", "ptx", "registers")
NAME = re.compile(r"\btriton_[a-z]+_fused_\w+|\btriton_\w+_\d+\b")
#: What differs between two runs of the same compiler: hashes, paths, and the line numbers of the cache's files.
RUN = re.compile(
    r"'backend_hash': '\w+'|'kernel_name': '\w+'|^#loc.*|\s?loc\((?:[^()]|\([^()]*\))*\)|\.file\s.*|\.loc\s.*|//.*", re.MULTILINE
)
NOT_LOWERED: dict[str, Any] = {"config": "", "launched": False, "forms": {}}
#: Where a device assert stands: the file of Inductor's cache, and the line.
ASSERT = re.compile(r"^\.global \.align 1 \.b8 assertFile_\d+\[.*|\[param2\], \d+;", re.MULTILINE)
#: Where the debug information of PTX begins: the bytes of the file's name and lines.
DEBUG = re.compile(r"^\s*\.section\s+\.debug_.*", re.MULTILINE | re.DOTALL)


def workloads(device: str) -> dict[str, Callable[[Any], tuple[Any, tuple[Any, ...], dict[str, Any]]]]:
    """Each workload by name: a function from a dtype to (function or module, arguments, keyword arguments), on `device`."""
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
            model(t.GPT2Model, t.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=128), d),
            (tokens,),
            {"use_cache": False},
        ),
        "bert": lambda d: (model(t.BertModel, t.BertConfig(**sizes, vocab_size=128), d), (tokens,), {}),
        "vit": lambda d: (model(t.ViTModel, t.ViTConfig(**sizes, image_size=32, patch_size=8), d), (image(d),), {}),
        "llama": lambda d: (
            model(t.LlamaModel, t.LlamaConfig(**sizes, num_key_value_heads=2, vocab_size=128), d),
            (tokens,),
            {"use_cache": False},
        ),
        "resnet": lambda d: (
            model(t.ResNetModel, t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic"), d),
            (image(d),),
            {},
        ),
        **{name: lambda d, name=name: architecture(name, device, d) for name in ARCHITECTURES},
        "unaligned": lambda d: (Unaligned().to(device, d), (randn(1000, 1023, dtype=d),), {}),
    }


def architecture(name: str, device: str, dtype: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A small model of an architecture, in training mode, and its inputs: tokens, an image or a spectrum."""
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **ARCHITECTURES[name])
    model = AutoModel.from_config(config).to(device, dtype)
    tokens = torch.randint(3, 128, (2, 64)).to(device)  # drawn on the CPU for both halves: a model may draw there after it
    shapes = {"pixel_values": (2, 3, 32, 32), "input_features": (2, 16, 128)}
    main = model.main_input_name
    inputs = {main: torch.randn(*shapes[main], device=device, dtype=dtype) if main in shapes else tokens}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = tokens
    return model, (), {**inputs, **({"use_cache": False} if hasattr(config, "use_cache") else {})}


def traced(
    names: list[str], target: str, kinds: tuple[str, ...] = (), *, forms: bool = True, dtypes: tuple[str, ...] = DTYPES
) -> dict[str, Any]:
    """Trace each workload, or those of `kinds`, and keep what is compared; an error where there is no trace.

    Without `forms` only what stands in the output code.
    """
    import torch

    import explorer

    attached, found = target == "cuda", {}
    for name, make in workloads("cuda" if attached else "cpu").items():
        for dtype in dtypes if name in names else ():
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
    """The kernels with their forms, and the extern calls by name, without what differs from run to run."""
    calls = re.compile(r"\b(?:extern_kernels|torch\.ops\.aten|aten)\.[\w.]+(?=\()")
    externs = Counter(c for a in trace.find("output_code") for c in calls.findall(a.text.split("class Runner")[-1]))
    kernels = [
        {"graph": k.artifact.graph, "source": plain(k.source), "name": k.name, **(lowered(k) if forms else NOT_LOWERED)}
        for k in trace.kernels
    ]
    failures = [str(f)[:300] for f in trace.failures if f.stage not in ("decompiled",)]
    timed = [
        [r["operation"], ", ".join(r["inputs"]), r["choice"]]
        for r in trace.inductor.choices.table
        if r["fastest"] and r["ms"] is not None
    ]
    assumed = [[r["where"], r["assumed"]] for r in trace.inductor.assumptions]
    return {"kernels": kernels, "externs": dict(externs), "failures": failures, "timed": timed, "assumed": assumed}


def lowered(kernel: Any) -> dict[str, Any]:
    """The config that was taken, whether the GPU launched it, and the forms of each config; for an attached GPU of that one."""
    found = next((a.data for a in kernel._trace.artifacts if a.stage == "ttgir" and same_kernel(a, kernel)), None)
    if found is None:
        return NOT_LOWERED
    taken, launched = key_of(found["config"]), bool(found.get("launched"))
    forms = {taken: form(kernel.text("ttgir"), kernel.text("ptx"), kernel.resources.get("registers"))}
    for config in () if launched else found["candidates"]:
        if key_of(config) not in forms:
            other = kernel.candidates[config]
            forms[key_of(config)] = form(other.text("ttgir"), other.text("ptx"), other.resources.get("registers"))
    return {"config": taken, "launched": launched, "forms": forms}


def same_kernel(artifact: Any, kernel: Any) -> bool:
    """Whether an artifact is a form of the kernel."""
    own = kernel.artifact
    return (artifact.kernel, artifact.frame, artifact.graph) == (own.kernel, own.frame, own.graph)


def key_of(config: Any) -> str:
    """Write a config as a key of JSON."""
    return ", ".join(f"{name}={value}" for name, value in sorted(config.items()))


def form(ttgir: str, ptx: str, registers: Any) -> dict[str, Any]:
    """Keep what is compared of one compile of a kernel."""
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
    """Print one row for each workload; with `show` the first difference of each."""
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
    """Write "3 of 3 (3)": how many real kernels have an identical one of ours, of how many, and how many we have."""
    here, there = (Counter((k["graph"], k["source"]) for k in kernels) for kernels in (real, ours))
    return f"{(here & there).total()} of {here.total()} ({there.total()})"


def same_forms(real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> tuple[str, ...]:
    """Write "3 of 3" for TTGIR, PTX and registers: how many launched kernels equal ours of the same source and config."""
    there = {(k["graph"], k["source"]): k["forms"] for k in ours}
    ran = [k for k in real if k["launched"]]
    pairs = [(k["forms"][k["config"]], there.get((k["graph"], k["source"]), {}).get(k["config"], {})) for k in ran]
    return tuple(f"{sum(one[part] == other.get(part) for one, other in pairs)} of {len(ran)}" for part in FORMS)


def only(one: dict[str, Any], other: dict[str, Any]) -> str:
    """List the extern calls of one half that the other lacks."""
    return ", ".join(Counter(one["externs"]) - Counter(other["externs"])) or "–"


def print_difference(key: str, real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """Print the first real kernel without an identical one, beside the nearest of ours, and the first form that differs."""
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


def differences(real: dict[str, Any], ours: dict[str, Any]) -> str:
    """All that differs in full, workload by workload: both sources of each kernel, extern calls, and what was assumed."""
    parts = []
    for key, one in real.items():
        other = ours.get(key, {"error": "not traced"})
        if "error" in one or "error" in other:
            parts.append(f"==== {key}\nreal: {one.get('error', 'ok')}\nours: {other.get('error', 'ok')}")
            continue
        there, here = unmatched(one["kernels"], other["kernels"])
        if not there and not here and one["externs"] == other["externs"]:
            continue
        parts.append(
            f"==== {key}: {len(there)} kernels of the real GPU are not among ours, {len(here)} of ours are not among its"
        )
        parts.append(f"extern calls, real: {one['externs']}\nextern calls, ours: {other['externs']}")
        parts.append(f"timed: {one['timed']}\nassumed: {other['assumed']}\nfailures: {one['failures']} {other['failures']}")
        parts += [beside(kernel, here) for kernel in there]
        parts += [f"---- only ours: {kernel['name']} ({kernel['graph']})\n{kernel['source']}" for kernel in here]
    return "\n\n".join(parts)


def unmatched(real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """List the kernels of each half that the other does not have."""
    left = [], []  # type: ignore[var-annotated]
    for kernels, others, found in ((real, ours, left[0]), (ours, real, left[1])):
        rest = Counter((k["graph"], k["source"]) for k in others)
        for kernel in kernels:
            if rest[kernel["graph"], kernel["source"]]:
                rest[kernel["graph"], kernel["source"]] -= 1
            else:
                found.append(kernel)
    return left


def beside(kernel: dict[str, Any], others: list[dict[str, Any]]) -> str:
    """Print a real kernel's source, and how the nearest of ours differs."""
    title = f"---- real: {kernel['name']} ({kernel['graph']})"
    same_graph = [other for other in others if other["graph"] == kernel["graph"]]
    if not same_graph:
        return f"{title}, nothing of ours to set beside it\n{kernel['source']}"
    near = max(same_graph, key=lambda o: difflib.SequenceMatcher(None, o["source"], kernel["source"]).quick_ratio())
    lines = difflib.unified_diff(
        kernel["source"].splitlines(), near["source"].splitlines(), "real", f"ours: {near['name']}", lineterm="", n=200
    )
    return "\n".join([title, *lines])


def print_diff(title: str, one: str, other: str) -> None:
    """Print the lines that differ, 20 at most."""
    lines = difflib.unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=0)
    print("\n".join([f"--- {title}", *(line[:200] for line in list(lines)[2:22])]))


def explanations(real: dict[str, Any], ours: dict[str, Any]) -> dict[str, str]:
    """Say why the halves of each case differ: assumptions that can be why, or "unexplained"; empty where they agree."""
    return {key: explanation(one, ours.get(key, {"error": "not traced"}), timed_beside(key, real)) for key, one in real.items()}


def timed_beside(key: str, real: dict[str, Any]) -> dict[str, bool]:
    """Which products the GPU timed faster padded. Inference and training share a process, and Inductor times a product once."""
    beside = [case for other, case in real.items() if other.rpartition(" ")[0] == key.rpartition(" ")[0]]
    return {
        timed_product(operation, inputs): choice == "padded"
        for case in beside
        for operation, inputs, choice in case.get("timed", ())
    }


def explanation(real: dict[str, Any], ours: dict[str, Any], timed: dict[str, bool]) -> str:
    """Say why two halves of a case differ: the assumptions that `timed` contradicts, and those that nothing timed."""
    if "error" in real or "error" in ours:
        return "no trace"
    left = unmatched(real["kernels"], ours["kernels"])
    if not any(left) and real["externs"] == ours["externs"]:
        return ""
    doubtful = [(where, assumed) for where, assumed in ours["assumed"] if timed.get(where) is not (not assumed.startswith("not"))]
    names = Counter(f"{where}: {assumed}" for where, assumed in doubtful)
    if not names:
        return f"unexplained: {len(left[0])} kernels of the GPU, {len(left[1])} of ours"
    return "assumed: " + "; ".join(f"{name} ({count} times)" if count > 1 else name for name, count in names.items())


def timed_product(operation: str, inputs: str) -> str:
    """A product that the GPU timed, named as an assumption names it."""
    sizes = [f"({size})" for size in re.findall(r"\[([\d, ]+)\]", inputs)]
    return f"{operation} of {' and '.join(sizes)}"


def summary(real: dict[str, Any], ours: dict[str, Any]) -> str:
    """Say how many kernels are identical, which cases have others, which are explained, and what was not compared."""
    why = explanations(real, ours)
    whole = [key for key in real if why[key] != "no trace"]
    kernels = sum(len(real[key]["kernels"]) for key in whole)
    lacking = sum(len(unmatched(real[key]["kernels"], ours[key]["kernels"])[0]) for key in whole)
    lists = {
        "differ, explained by an assumption": [key for key in whole if why[key].startswith("assumed")],
        "differ, unexplained": [key for key in whole if why[key].startswith("unexplained")],
        "not compared": [key for key in real if key not in whole],
    }
    lines = [f"{kernels - lacking} of {kernels} kernels identical in {len(whole)} cases"]
    return "\n".join([*lines, *(f"{title}: {len(keys)}{': ' if keys else ''}{', '.join(keys)}" for title, keys in lists.items())])


# The test data -------------------------------------------------------------------------------------------------------


def packed(real: dict[str, Any], ours: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Both halves as they are recorded: each different source once, and hashes in place of TTGIR and PTX."""
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
    """A recorded half as `traced` gives it, with hashes in place of texts."""
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
    }


def load(file: Path) -> dict[str, Any]:
    """Recorded halves."""
    data: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return data


def save(file: Path, data: dict[str, Any]) -> None:
    """Write recorded halves, the same bytes for the same halves."""
    file.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":"), sort_keys=True).encode(), 9, mtime=0))


def versions() -> dict[str, str]:
    """The versions and the GPU that the halves were made with."""
    import torch
    import triton

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return {"torch": torch.__version__, "triton": triton.__version__, "gpu": gpu}


# The command ---------------------------------------------------------------------------------------------------------


def compared(options: argparse.Namespace, recorded: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make both halves of every case, and print a case's row as soon as it has both."""
    real, ours = dict[str, Any](), dict[str, Any]()
    pairs = [(name, dtype) for name in options.workloads for dtype in options.dtypes]
    devices = [options.target] if recorded else ["cuda", options.target]
    halves = [Half(device, name, dtype, options.forms) for name, dtype in pairs for device in devices]
    absent = [half.workload for half in halves if recorded and not half.without_trace("").keys() & recorded.keys()]
    if absent:
        raise SystemExit(f"{options.against} has no recorded half of {', '.join(dict.fromkeys(absent))}")
    limits = Limits(options.jobs, options.real_jobs, options.limit, options.within)
    print_row(("case", "source and metadata", "extern calls", *(FORMS if options.forms else ()), "what differs"))
    with tempfile.TemporaryDirectory() as temporary:
        for half, cases in make_halves(halves, command, options.resume or Path(temporary), limits):
            if recorded:
                real.update({key: recorded[key] for key in cases if key in recorded})
            (real if half.device == "cuda" else ours).update(with_hashes(cases) if recorded else cases)
            both = {key: real[key] for key in cases if key in real and key in ours}
            for key, *columns in compare(both, ours, options.show):
                columns = columns if options.forms else columns[:2]
                print_row((key, *columns, explanations(both, ours)[key]))
    return real, ours


def command(half: Half, file: Path) -> list[str]:
    """The command of a process that makes a half."""
    forms = [] if half.forms else ["--no-forms"]
    which = ["--workloads", half.workload, "--dtypes", half.dtype, "--half", half.device, str(file)]
    return [sys.executable, __file__, *which, *forms]


def print_row(columns: Sequence[str]) -> None:
    """A row of the table, at once."""
    print("| " + " | ".join(columns) + " |", flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h200", help="the name of the attached GPU")
    parser.add_argument("--workloads", nargs="+", default=list(NAMES), choices=(*NAMES, *ARCHITECTURES), metavar="NAME")
    parser.add_argument("--architectures", action="store_true", help=f"the {len(ARCHITECTURES)} architectures of transformers")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="the N-th of M parts of the workloads")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument(
        "--no-forms", dest="forms", action="store_false", help="compare sources only, not TTGIR, PTX and registers"
    )
    parser.add_argument("--diffs", type=Path, help="write all that differs there, both sources of each kernel")
    parser.add_argument("--show", action="store_true", help="print the first difference of each workload")
    parser.add_argument("--json", type=Path, help="write both halves there, with all texts")
    parser.add_argument(
        "--record", type=Path, help="write both halves there as test data; with --against, a new half without a GPU"
    )
    parser.add_argument("--against", type=Path, help="compare with the real half of that test data; needs no GPU")
    parser.add_argument(
        "--resume", type=Path, metavar="FOLDER", help="save each half there when it is finished, and take what is there already"
    )
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time, of both halves")
    parser.add_argument("--real-jobs", type=int, default=1, help="how many of them may use the GPU: true times need 1")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that one half of a workload may take")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds that all may take; 0 starts nothing")
    parser.add_argument("--half", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    number, parts = (int(n) for n in options.part.split("/"))
    names = sorted(ARCHITECTURES, key=lambda name: SLOWEST.index(name) if name in SLOWEST else -1)
    options.workloads = (names if options.architectures else options.workloads)[number - 1 :: parts]
    return options


def main() -> None:
    """Make what is to be compared, and print the table."""
    options = parse()
    if options.half:
        found = traced(options.workloads, options.half[0], forms=options.forms, dtypes=tuple(options.dtypes))
        Path(options.half[1]).write_text(json.dumps(found))
        return
    recorded = load(options.against) if options.against else {}
    real, ours = compared(options, unpacked(recorded, "real") if recorded else {})
    if options.json:
        options.json.write_text(json.dumps({"real": real, "absent": ours}))
    if options.record:
        save(options.record, packed(real, ours, recorded["versions"] if recorded else versions()))
    if options.diffs:
        options.diffs.write_text(differences(real, ours))
    print(summary(real, ours))


if __name__ == "__main__":
    main()
