"""Read the folders that `TORCH_COMPILE_DEBUG=1` writes, one for each compiled graph, into events.

A folder is named "model__0_inference_0.0": the number of the frame, the graph, and a running number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from explorer.errors import FileError
from explorer.model.records import Record
from explorer.model.shared import OutputCodeText, Text
from explorer.model.syntax import UNREADABLE
from explorer.model.values import Event, Failure
from explorer.process import regular_files
from explorer.sources.logs.quoted_source import QuotedSources
from explorer.sources.logs.recorded import Recorded
from explorer.sources.logs.scheduler_text import nodes_of_text
from explorer.stages.fx_graph import FxGraphText
from explorer.stages.readable_graph import graph_of_text

_FOLDER = re.compile(r"^model__(?P<frame>\d+)_(?P<graph>inference|forward|backward)_(?P<number>\d+)(?:\.\d+)?$")
#: What each file is read as, in the compiler's order: the kind of its event, "" for the graph that Inductor is handed.
FILES: Mapping[str, tuple[str, Callable[[str], Record]]] = {
    "fx_graph_readable.py": ("", graph_of_text),
    "fx_graph_runnable.py": ("fx_graph_runnable", lambda text: Text(text=text)),
    "fx_graph_transformed.py": ("post_grad", graph_of_text),
    "ir_pre_fusion.txt": ("ir_pre_fusion", nodes_of_text),
    "ir_post_fusion.txt": ("ir_post_fusion", nodes_of_text),
    "output_code.py": ("output_code", lambda text: OutputCodeText(text=text, file="output_code.py")),
}
#: The kind of the graph that Inductor is handed, by graph.
HANDED = {"inference": "inductor_input", "forward": "forward", "backward": "backward"}


def graph_folders(folder: Path) -> list[Path]:
    """The folders of graphs at a folder or below it, by frame and then in the order in which they were written."""
    folders = regular_files.folders_below(folder, lambda name: bool(_FOLDER.match(name)))
    return sorted((path for path in (folder, *folders) if _FOLDER.match(path.name)), key=_order)


def _order(path: Path) -> tuple[str, int, int]:
    name = _FOLDER.match(path.name)
    return (str(path.parent), int(name["frame"]), int(name["number"])) if name else ("", 0, 0)


def read(folder: Path, limit: float) -> Recorded:
    """Read the graphs of a folder; FileError where there is nothing to read, or more than `limit` bytes of it."""
    events: list[Event] = []
    failures: list[Failure] = []
    sources = QuotedSources()
    runs: dict[str, int] = {}
    left = limit
    for path in graph_folders(folder):
        name = _FOLDER.match(path.name)
        if name is None:
            continue
        run = runs.setdefault(str(path.parent), len(runs))
        frame = f"{int(name['frame'])}/0" if run == 0 else f"{run}.{int(name['frame'])}/0"
        for event in _events(path, frame, name["graph"], failures, left):
            left -= len(str(event.data["text"])) * 12
            events.append(event)
            if isinstance(event.data, FxGraphText):
                sources.quote_stacks(frame, event.data.stacks or ())
    if not events:
        raise FileError(f"cannot read the folder {folder}: it has none of the files of TORCH_COMPILE_DEBUG=1")
    meta = {"name": folder.name, "target": "", "backend": "inductor", "log": "TORCH_COMPILE_DEBUG", "torch": ""}
    return Recorded((*sources.events(), *events), tuple(failures), meta)


def _events(path: Path, frame: str, graph: str, failures: list[Failure], limit: float) -> Iterator[Event]:
    """An event of each file of a graph's folder; a file that cannot be read is named."""
    for order, (name, (kind, record_of)) in enumerate(FILES.items()):
        file = path / name
        if not file.is_file():
            continue
        try:
            text = regular_files.read_text(file, limit / 12, errors="replace")
        except FileError as error:
            failures.append(Failure("log", "read", str(error)))
            continue
        try:
            if text.strip():
                yield Event(kind or HANDED[graph], float(order), frame, graph, record_of(text.strip("\n")))
        except UNREADABLE as error:
            failures.append(Failure("log", "read", f"{file}: {type(error).__name__}: {error}"))
