"""Which causal language models of transformers `explorer.fits` answers for, and why it refuses the others.

    python benchmarks/fit_models.py [--only opt mixtral] [--kinds inference training] [--seconds 120]

Each model has the sizes of its config class and at most two layers, and a process of its own. Prints one row per model, then the
reasons by how often they occur.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import explorer
from explorer.errors import ExplorerError

LAYERS, SEQUENCE = 2, 64
#: What configs call their number of layers.
LAYER_FIELDS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers", "num_decoder_layers")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="*", default=[])
    options.add_argument("--kinds", nargs="*", default=["inference", "training"])
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--target", default="h100")
    given = options.parse_args()
    names = given.only or list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    reasons: Counter[str] = Counter()
    for kind in given.kinds:
        for name in names:
            started = time.perf_counter()
            answer = in_a_process(name, kind == "training", given.target, given.seconds)
            reasons[answer if answer.startswith("fits") else answer.partition(":")[0]] += 1
            print(f"{kind:<10} {name:<28} {time.perf_counter() - started:>5.0f}s  {answer}", flush=True)
    for reason, number in reasons.most_common():
        print(f"{number:>5}  {reason}")


def in_a_process(name: str, train: bool, target: str, seconds: float) -> str:
    """The answer of a forked process; the modules of torch are imported once."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=answer_of, args=(name, train, target, sending))
    process.start()
    sending.close()
    try:
        answer = str(receiving.recv()) if receiving.poll(seconds) else f"no answer in {seconds:.0f} s"
    except EOFError:
        answer = "the process ended"
    process.kill()
    process.join()
    return answer


def answer_of(name: str, train: bool, target: str, sending: Connection) -> None:
    """Send "fits", or why not. An error that is not explorer's own begins with "raw"."""
    try:
        fit = explorer.fits(small(name), target=target, sequence=SEQUENCE, train=train)
        answer = f"fits: {len(fit.regions)} regions of {sum(row['calls'] for row in fit.regions)}"
    except ExplorerError as error:
        answer = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 what explorer should have named
        answer = f"raw {type(error).__name__}: {error}"
    sending.send(" ".join(answer.split()))


def small(name: str) -> Any:
    """A config of the class's own sizes with few layers, also in the config of its text."""
    kind = CONFIG_MAPPING[name]
    config = kind()
    fields = fewer_layers(config)
    text = config.get_text_config(decoder=True)
    if text is not config:
        fields.update({key: fewer_layers(text) for key, value in vars(config).items() if value is text})
    try:
        return kind(**fields)
    except (StrictDataclassError, TypeError, ValueError):  # a list with an entry per layer has the length it has
        return config


def fewer_layers(config: Any) -> dict[str, int]:
    """The fields that say how many layers a config has, where it has more."""
    stated = config.to_dict()
    return {name: LAYERS for name in LAYER_FIELDS if isinstance(stated.get(name), int) and stated[name] > LAYERS}


if __name__ == "__main__":
    main()
