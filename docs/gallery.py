"""The gallery: traces saved as pages, for GPUs that need not be here. `python docs/gallery.py [FOLDER]` makes them.

Each page is `Trace.to_html`'s, without the folders of the machine that it was made on. A link into a page is made of the
stages that it names, and the view itself is asked whether it can show it.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

FOLDER = Path(__file__).parent / "_build" / "gallery"
ROOT = Path(__file__).parents[1]

#: What is left out of a file's name: where packages, Python and this repository are.
FOLDERS = (f"{sysconfig.get_paths()['purelib']}/", f"{sysconfig.get_paths()['stdlib']}/", f"{ROOT}/")

#: A file of a cache, or a temporary one; the group is its own name.
CACHES = re.compile(r"(?<![\w.~-])/(?:tmp|root|work|Users|home|var)/(?:[\w.+-]+/)*([\w.+-]*)")


@dataclass(frozen=True)
class Place:
    """A place in a page: its view, the stage in each pane, the line of the program that is chosen, by words in it."""

    words: str
    view: str = "code"
    panes: Mapping[str, str] | None = None
    line: str = ""


@dataclass(frozen=True)
class Entry:
    """A page of the gallery, and the places in it that gallery.md links to."""

    name: str
    make: Callable[[], Any]
    places: tuple[Place, ...]


def trace(program: str, *shapes: tuple[int, ...], target: str = "h100", dtype: str = "float32", **settings: Any) -> Any:
    """Trace one of the programs with random inputs of these shapes."""
    import gallery_programs
    import torch

    import explorer

    torch.manual_seed(0)
    made = getattr(gallery_programs, program)
    function = made() if isinstance(made, type) else made
    if isinstance(function, torch.nn.Module):
        function.train(bool(settings.get("train")))
    inputs = (torch.randn(shape, dtype=getattr(torch, dtype)) for shape in shapes)
    return explorer.trace(function, *inputs, target=target, **settings)


def gpt2() -> Any:
    """A GPT-2 of transformers, of two small layers with random weights."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    import explorer

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=1000, use_cache=False)
    return explorer.trace(GPT2LMHeadModel(config).eval(), torch.randint(1000, (1, 64)), target="h100")


def compiled_again() -> Any:
    """One function, called with other sizes and numbers."""
    import gallery_programs
    import torch

    import explorer

    with explorer.record("h100") as recording:
        compiled = torch.compile(gallery_programs.scaled)
        for rows, factor in ((8, 2.0), (16, 2.0), (32, 2.0), (32, 3.0)):
            compiled(torch.randn(rows, 64), factor)
    return recording.trace


def side_by_side() -> Any:
    """One function for two GPUs."""
    import explorer

    made = (portable(trace("layer_norm", (512, 1024), (1024,), (1024,), target=target)) for target in ("h100", "mi300x"))
    return explorer.compare(*made, names=("h100", "mi300x"))


ALL_THE_WAY = {"left": "source", "right": "kernel", "third": "ttgir", "fourth": "sass"}
ENTRIES = (
    Entry(
        "softmax",
        lambda: trace("softmax", (256, 1000)).attach("sass"),
        (
            Place("the line, its Triton, TTGIR and SASS", panes=ALL_THE_WAY, line="torch.softmax"),
            Place("the registers and what they allow", "kernels"),
        ),
    ),
    Entry(
        "layer_norm",
        lambda: trace("layer_norm", (512, 1024), (1024,), (1024,)),
        (
            Place(
                "what it is in ATen, and the kernel",
                panes={"left": "source", "right": "post_grad", "third": "kernel"},
                line="F.layer_norm",
            ),
            Place("the graph", "graph"),
            Place("which nodes became one kernel", "fusion"),
        ),
    ),
    Entry(
        "linear_gelu",
        lambda: trace("linear_gelu", (512, 256), (256, 512), (512,)),
        (
            Place("the output code: one call, one launch", panes={"left": "source", "right": "output_code"}, line="F.gelu"),
            Place("why they were not fused", "fusion"),
            Place("what each costs, by estimate", "kernels"),
        ),
    ),
    Entry(
        "printing",
        lambda: trace("printing", (64, 64), (64, 64)),
        (
            Place("the break, and torch's reason", "dynamo"),
            Place("the line, and the two output codes", panes={"left": "source", "right": "output_code"}, line="print("),
        ),
    ),
    Entry("scaled", compiled_again, (Place("each compile, and the guard that failed", "dynamo"),)),
    Entry(
        "attention",
        lambda: trace("attention", *[(2, 8, 128, 64)] * 3, dtype="float16"),
        (
            Place("the pattern, before and after", "passes"),
            Place("the graph that Dynamo made, and the last one", panes={"left": "dynamo", "right": "post_grad"}),
        ),
    ),
    Entry(
        "dropout",
        lambda: trace("DropoutBlock", (256, 128), train=True),
        (
            Place("the two graphs", panes={"left": "source", "right": "forward", "third": "backward"}, line="F.dropout"),
            Place("what is kept for the backward", "memory"),
        ),
    ),
    Entry(
        "gpt2",
        gpt2,
        (
            Place("its kernels and library calls, with their bytes", "kernels"),
            Place("what was fused, and what was not", "fusion"),
            Place("what is in memory, and when", "memory"),
        ),
    ),
    Entry(
        "convnet",
        lambda: trace("ConvNet", (8, 3, 32, 32), target="a100"),
        (
            Place("the lines of forward, and the kernels", panes={"left": "source", "right": "kernel"}, line="self.norm"),
            Place("the nodes of each kernel", "fusion"),
        ),
    ),
    Entry(
        "gpus",
        side_by_side,
        (Place("the figures, and the kernels matched", "compare"),),
    ),
)


def main(folder: Path) -> None:
    """Make every page, and index.json with what is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {}
    for entry in ENTRIES:
        began = time.perf_counter()
        facts[entry.name] = page(entry, folder)
        print(f"{entry.name}: {time.perf_counter() - began:.1f} s, {facts[entry.name]['bytes'] / 1e6:.1f} MB")
    (folder / "index.json").write_text(json.dumps(facts), encoding="utf-8")


def page(entry: Entry, folder: Path) -> dict[str, Any]:
    """Write the page of one entry; what stands beside it in the gallery."""
    from explorer.analysis.questions.summary import counts

    made = entry.make()
    failed = [failure for one in traces_of(made) for failure in one.failures if failure.fatal]
    if failed:
        raise SystemExit(f"{entry.name} does not compile: {failed[0]}")
    shown = made if hasattr(made, "traces") else portable(made)
    file = folder / f"{entry.name}.html"
    shown.to_html(file)
    first = traces_of(shown)[0]
    targets = [str(one.meta.get("target", "")) for one in traces_of(shown)]
    return {"bytes": file.stat().st_size, "targets": targets, "counts": counts(first), "links": links(entry, shown)}


def traces_of(shown: Any) -> tuple[Any, ...]:
    return tuple(shown.traces) if hasattr(shown, "traces") else (shown,)


def links(entry: Entry, shown: Any) -> list[str]:
    """Return the end of the address of each place; InputError where the view cannot show it."""
    from explorer.tracing.traced.comparison import view_of
    from explorer.view.widget import Explorer

    view = view_of(shown) if hasattr(shown, "traces") else Explorer(shown)
    made = [link(view.trace, place) for place in entry.places]
    for address in made:
        view.go(address)
    view.close()
    return made


def link(shown: Any, place: Place) -> str:
    facts = {"view": place.view}
    for pane, stage in (place.panes or {}).items():
        facts[pane] = shown.find(stage)[0].id
    if place.line:
        source = next(a for a in shown.find("source") if place.line in a.text)
        number = next(n for n, line in enumerate(source.lines, 1) if place.line in line)
        facts["at"] = f"{source.id}:{number}"
        facts["left"] = source.id
    return f"#{urlencode(facts, quote_via=quote)}"


def portable(shown: Any) -> Any:
    """Return the trace without the folders of the machine that it was made on."""
    from explorer.model.values import jsonable, plain

    cleaned = replace(shown, meta=plain(without_folders(jsonable(shown.meta))))
    artifacts = tuple(
        replace(a, text=without_folders(a.text), data=plain(without_folders(jsonable(a.data)))) for a in shown.artifacts
    )
    return replace(cleaned, artifacts=artifacts)


def without_folders(value: Any) -> Any:
    """Return a text, or what JSON can hold, without the folders of this machine."""
    if not isinstance(value, str):
        return json.loads(without_folders(json.dumps(value)))
    for folder in FOLDERS:
        value = value.replace(folder, "")
    return CACHES.sub(r"\1", value)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
