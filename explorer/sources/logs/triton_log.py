"""Read the logs of tritonparse: one JSON object a line, each a compile or a launch of a Triton kernel, into events.

The texts of a kernel are in a compile's `file_content`, by "name.ttir" and the like, its source in `python_source`, and the
compile id of torch.compile, where there is one, in `pt_info` (tritonparse's `structured_logging.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from explorer.model.shared import KernelText, Place
from explorer.model.syntax import UNREADABLE
from explorer.model.values import Event, Failure, Plain
from explorer.sources.logs.recorded import Recorded
from explorer.stages.dynamo.source import SourceText
from explorer.stages.records import event_data
from explorer.stages.triton.origins import FORMS

#: The name of a kernel and its text, by form.
Texts = Mapping[str, tuple[str, str]]
_FILE = re.compile(r"^(?P<name>.+)\.(?P<form>\w+)$")
#: The settings of a compile that are a config's, and those of its metadata that are facts of a kernel.
CONFIG = ("num_warps", "num_ctas", "num_stages", "maxnreg")
FACTS = (*CONFIG, "shared", "tmem_size", "global_scratch_size", "enable_fp_fusion", "launch_pdl", "launch_cooperative_grid")


def read(lines: Iterable[str], name: str) -> Recorded:
    """Read a log; its failures name the parts that are not shown or cannot be read."""
    kernels = _Kernels()
    for number, line in enumerate(lines, 1):
        if line.strip():
            kernels.read(number, line)
    meta = {"name": name, "target": "cuda", "backend": "", "log": "tritonparse", "triton": kernels.triton_version, "torch": ""}
    return Recorded(tuple(kernels.events()), tuple(kernels.failures()), meta)


class _Kernels:
    """The kernels of one log, each compile once, with its launches."""

    def __init__(self) -> None:
        self.triton_version = ""
        self._compiles: dict[str, dict[str, Any]] = {}
        self._launches: dict[str, dict[str, int]] = {}
        self._not_shown: dict[str, int] = {}
        self._damaged: list[int] = []
        self._unreadable: list[str] = []

    def read(self, number: int, line: str) -> None:
        """Read one line."""
        try:
            self._record(number, json.loads(line))
        except UNREADABLE:
            self._damaged.append(number)

    def _record(self, number: int, record: Mapping[str, Any]) -> None:
        kind, payload = str(record["event_type"]), record.get("payload") or record
        if kind == "compilation" and "file_content" in payload:
            key = str(payload.get("metadata", {}).get("hash") or number)
            dict(payload["file_content"])
            self._compiles.setdefault(key, {**payload, "stack": record.get("stack") or payload.get("stack") or ()})
            self.triton_version = str(payload.get("metadata", {}).get("triton_version") or self.triton_version)
        elif kind == "launch":
            self._launched(record, payload)
        else:
            self._not_shown[kind] = self._not_shown.get(kind, 0) + 1

    def _launched(self, record: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        """Count a launch by its kernel and its grid."""
        metadata = payload.get("compilation_metadata") or record.get("compilation_metadata") or {}
        grid = json.dumps(payload.get("grid") or record.get("grid") or [])
        grids = self._launches.setdefault(str(metadata.get("hash")), {})
        grids[grid] = grids.get(grid, 0) + 1

    def failures(self) -> Iterator[Failure]:
        """What could not be read, and which kinds of lines nothing is made of."""
        if self._damaged:
            lines = ", ".join(map(str, self._damaged[:5])) + ", …" * (len(self._damaged) > 5)
            yield Failure(
                "log", "damaged", f"{len(self._damaged)} × a line that is not an event in JSON: line {lines} of the log"
            )
        yield from (Failure("log", "read", message) for message in self._unreadable)
        if self._not_shown:
            kinds = ", ".join(f"{kind} ({count})" for kind, count in self._not_shown.items())
            yield Failure("log", "not shown", f"events of {len(self._not_shown)} kinds are not shown: {kinds}")

    def events(self) -> Iterator[Event]:
        """The events of each kernel: its source, and each of its forms."""
        taken: dict[str, int] = {}
        for number, (key, compile) in enumerate(self._compiles.items()):
            files = {file: str(text) for file, text in compile["file_content"].items()}
            texts = {match["form"]: (match["name"], text) for file, text in files.items() if (match := _FILE.match(file))}
            original = next((name for form, (name, _) in texts.items() if form in FORMS), "")
            if not original:
                continue
            taken[original] = taken.get(original, 0) + 1
            name = original if taken[original] == 1 else f"{original}_{taken[original]}"
            try:
                yield from list(_kernel_events(compile, name, original, texts, float(number), self._launches.get(key, {})))
            except UNREADABLE as error:
                self._unreadable.append(f"the kernel {name} cannot be read ({type(error).__name__}: {error})")


def _kernel_events(
    compile: Mapping[str, Any],
    name: str,
    original: str,
    texts: Mapping[str, tuple[str, str]],
    time: float,
    grids: Mapping[str, int],
) -> Iterator[Event]:
    """The source of a kernel, as the program has it and as a kernel's, and its forms."""
    source = compile.get("python_source") or {}
    file, first, code = str(source.get("file_path") or ""), int(source.get("start_line") or 1), str(source.get("code") or "")
    at = next((n for n, line in enumerate(code.split("\n")) if line.lstrip().startswith("@")), 0)
    compile_id = compile.get("pt_info") or {}
    frame = f"{compile_id['frame_id']}/{compile_id['frame_compile_id']}" if compile_id.get("frame_id") is not None else ""
    launched = tuple(_places(compile["stack"])[-1:]) if not frame else ()
    kernel = KernelText(
        name=name,
        language="triton",
        text=code,
        wrapper_line=0,
        comment="",
        file=file,
        first_line=first,
        launched_from=launched,
    )
    yield Event("kernel", time, frame, "", kernel)
    if not frame:
        own = SourceText(
            function=original,
            qualname=original,
            file=file,
            line=first + at,
            resume=False,
            text=code,
            first_line=first,
            inlined=True,
            compiled=False,
            launches=True,
        )
        yield Event("source", time, frame, "", own)
    facts = _facts(compile, file, first, grids)
    for form in FORMS:
        if form in texts and texts[form][1].strip():
            data = event_data(form, {**facts, "name": name, "text": texts[form][1]})
            yield Event(form, time, frame, "", data)


def _places(stack: Iterable[Mapping[str, Any]]) -> list[Place]:
    """The places of a launch's stack that are the program's own: outside of installed packages, and of triton's tools."""
    places = (Place(file=str(c["filename"]), line=int(c["line"]), function=str(c["name"])) for c in stack)
    return [p for p in places if not re.search(r"site-packages|/triton/|/tritonparse/tritonparse/", p.file)]


def _facts(compile: Mapping[str, Any], file: str, first: int, grids: Mapping[str, int]) -> dict[str, Plain]:
    """What the record of each form of a kernel holds beside its name and its text."""
    metadata = compile.get("metadata") or {}
    target = metadata.get("target") or {}
    config = {key: metadata[key] for key in CONFIG if metadata.get(key) is not None}
    config |= {f"constant {key}": value for key, value in (metadata.get("src_constants") or {}).items()}
    launches = [{"line": 0, "arguments": {}, "grid": json.loads(grid), "times": times} for grid, times in grids.items()]
    return {
        "file": file,
        "first_line": first,
        "target": f"{target.get('backend', 'cuda')}:{target.get('arch', '')}",
        "config": config,
        "candidates": [config],
        "chosen": "the config that ran",
        "metadata": {key: metadata[key] for key in FACTS if metadata.get(key) is not None},
        "launches": launches,
        "stage_seconds": None,
    }
