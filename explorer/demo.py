"""The main job on a real model: `python -m explorer.demo [FOLDER]`, or `make demo`.

Builds a small GPT-2 of `transformers` with random weights, traces it for each target that is here, prints the stage
table, and writes a self-contained page to FOLDER (default: demo).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

#: The targets to show, in order; one that this explorer or this machine does not have is named and left out.
TARGETS = ("cpu", "cuda", "h100")


def main(folder: str = "demo") -> int:
    """Trace the model for each target and write one page a target; the exit status, 1 where a compile failed."""
    try:
        model, tokens = gpt2()
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        print_line("the demo needs transformers: pip install transformers, or let `make demo` make its own environment")
        return 1
    from explorer import targets

    known = {row["target"]: row for row in targets()}
    Path(folder).mkdir(parents=True, exist_ok=True)
    compiled = True
    for target in TARGETS:
        row = known.get(target)
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
    """Trace the model for one target, print the stage table, write the page and say where it is; True if it compiled."""
    from explorer import trace

    began = time.perf_counter()
    made = trace(model, tokens, target=target)
    seconds = time.perf_counter() - began
    print_line(f"{made}\n\ntraced for {target} in {seconds:.1f} s")
    made.to_html(page)
    print_line(f"open {page} ({page.stat().st_size / 1e6:.1f} MB, it needs no network)")
    return not any(failure.fatal for failure in made.failures)


def print_line(text: str) -> None:
    """Write a line to stdout at once, in step with the progress that goes to stderr."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
