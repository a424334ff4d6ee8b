"""Trace a real model: `python -m explorer.entry.demo [FOLDER]`, or `make demo`.

Builds a small GPT-2 of `transformers` with random weights and traces it for each target that works on this machine. Prints
what takes its time, and writes one self-contained page with the targets side by side to FOLDER/index.html (default: demo).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.tracing.traced.trace import Trace

#: The targets to show, in order. The demo names those that do not work on this machine, and leaves them out.
TARGETS = ("cuda", "h100", "cpu")


def main(folder: str = "demo") -> int:
    """Trace the model for each target and write the page; return 1 if no target works or a compile failed, else 0."""
    try:
        model, tokens = gpt2()
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        print_line("the demo needs transformers: pip install transformers, or let `make demo` make its own environment")
        return 1
    from explorer import compare, targets

    rows = {row["target"]: row for row in targets()}
    traces: dict[str, Trace] = {}
    for target in TARGETS:
        row = rows.get(target)
        if row is None or not row["works"]:
            print_line(f"target {target}: left out, {row['why'] if row is not None else 'this explorer does not have it'}")
            continue
        traces[target] = traced_for(target, model, tokens)
    if not traces:
        return 1
    page = Path(folder) / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    shown = compare(*traces.values(), names=tuple(traces)) if len(traces) > 1 else next(iter(traces.values()))
    shown.to_html(page)
    print_line(f"\nopen {page}: {' beside '.join(traces)} ({page.stat().st_size / 1e6:.1f} MB, it needs no network)")
    return int(any(failure.fatal for trace in traces.values() for failure in trace.failures))


def gpt2() -> tuple[Any, Any]:
    """A GPT-2 of 2 layers and width 128 with random weights, and one sequence of 64 tokens."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=128, n_head=4, use_cache=False)
    return GPT2LMHeadModel(config).eval(), torch.randint(config.vocab_size, (1, 64))


def traced_for(target: str, model: Any, tokens: Any) -> Trace:
    """Trace the model for one target, and print what takes its time."""
    from explorer import trace

    began = time.perf_counter()
    traced = trace(model, tokens, target=target)
    print_line(f"{traced}\n\ntraced for {target} in {time.perf_counter() - began:.1f} s\n")
    return traced


def print_line(text: str) -> None:
    """Print a line to stdout at once, to keep its place among the progress lines on stderr."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
