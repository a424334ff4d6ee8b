"""Trace a real model: `python -m explorer.entry.demo [FOLDER]`, or `make demo`.

Builds a small GPT-2 of `transformers` with random weights and traces it for each target that works on this machine. Prints
what takes its time, and writes a self-contained page to FOLDER (default: demo).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

#: The targets to show, in order. The demo names those that do not work on this machine, and leaves them out.
TARGETS = ("cpu", "cuda", "h100")


def main(folder: str = "demo") -> int:
    """Trace the model and write a page for each target; return 1 if a compile failed, else 0."""
    try:
        model, tokens = gpt2()
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        print_line("the demo needs transformers: pip install transformers, or let `make demo` make its own environment")
        return 1
    from explorer import targets

    rows = {row["target"]: row for row in targets()}
    Path(folder).mkdir(parents=True, exist_ok=True)
    compiled = True
    for target in TARGETS:
        row = rows.get(target)
        if row is None or not row["works"]:
            print_line(f"target {target}: left out, {row['why'] if row is not None else 'this explorer does not have it'}")
            continue
        page = Path(folder) / ("gpt2.html" if target == "cpu" else f"gpt2_{target}.html")
        compiled &= trace_to(page, model, tokens, target)
    return 0 if compiled else 1


def gpt2() -> tuple[Any, Any]:
    """A GPT-2 of 2 layers and width 128 with random weights, and one sequence of 64 tokens."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=128, n_head=4, use_cache=False)
    return GPT2LMHeadModel(config).eval(), torch.randint(config.vocab_size, (1, 64))


def trace_to(page: Path, model: Any, tokens: Any, target: str) -> bool:
    """Trace the model for one target, print it and write the page; return True if it compiled."""
    from explorer import trace

    began = time.perf_counter()
    traced = trace(model, tokens, target=target)
    seconds = time.perf_counter() - began
    print_line(f"{traced}\n\ntraced for {target} in {seconds:.1f} s")
    traced.to_html(page)
    print_line(f"open {page} ({page.stat().st_size / 1e6:.1f} MB, it needs no network)")
    return not any(failure.fatal for failure in traced.failures)


def print_line(text: str) -> None:
    """Print a line to stdout at once, to keep its place among the progress lines on stderr."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
