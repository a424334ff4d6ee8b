"""Stored expectations: one small JSON file a test, beside the test's file, with an entry for each version of torch.

__explorer__/test_model.test_block.json

{"explorer": "expectations", "format": 1, "torch": {"2.13": {"target": "h100", "kernels": […], …}}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from explorer.analysis.findings.changes import changes
from explorer.analysis.findings.facts import Facts, facts_of
from explorer.analysis.findings.finding import ContractError, not_judged
from explorer.errors import FileError
from explorer.model.trace_data import TraceData

#: The folder beside the tests, and the format of its files.
FOLDER, FORMAT = "__explorer__", 1
UPDATE = "pytest --explorer-update"


def file_of(test_file: Path, test: str, name: str = "") -> Path:
    """The file of a test's expectations; `name` tells several of one test apart."""
    whole = f"{test_file.stem}.{test}{f'.{name}' if name else ''}"
    safe = re.sub(r"[^\w.=,+-]+", "-", whole)
    if safe != whole or len(safe) > 120:  # two tests, such as f[a/b] and f[a-b], must not share one file
        safe = f"{safe[:120]}-{crc32(whole.encode()):08x}"
    return test_file.parent / FOLDER / f"{safe}.json"


def torch_version(trace: TraceData) -> str:
    """The version of torch that compiled a trace, without its patch number and build, as "2.13"."""
    return ".".join(str(trace.meta.get("torch", "?")).partition("+")[0].split(".")[:2])


def compare(path: Path, trace: TraceData) -> None:
    """Compare a trace with the expectations of a file; ContractError, with each difference, if it was compiled otherwise.

    It is an error too if there is no file, or none for this version of torch: nothing was judged.
    """
    __tracebackhide__ = True
    expected = "the stored expectations"
    if not path.is_file():
        look = f"{UPDATE} stores what is compiled now"
        raise ContractError([not_judged("expectations", expected, f"there is no file {path}", look)])
    version, stored = torch_version(trace), _read(path)
    if version not in stored:
        why = f"{path} has expectations for torch {', '.join(stored) or '?'}, and torch {version} may compile differently"
        look = f"{UPDATE} adds expectations for torch {version} and keeps the others"
        raise ContractError([not_judged("expectations", expected, why, look)])
    findings = tuple(changes(Facts.from_json(stored[version], str(path)), trace))
    if findings:
        raise ContractError(sorted(findings, key=lambda finding: finding.is_gain), _head(path, findings))


def _head(path: Path, findings: tuple[Any, ...]) -> str:
    """The first line of a difference: what to do."""
    gains = sum(finding.is_gain for finding in findings)
    better = f", {gains} of them for the better" if gains else ""
    return f"compiled otherwise than {path} expects: {len(findings)} differences{better}; {UPDATE} stores what is compiled now"


def update(path: Path, trace: TraceData) -> bool:
    """Store what a trace compiled, beside the entries of other versions of torch; return whether the file changed."""
    entries = dict(_read(path)) if path.is_file() else {}
    entries[torch_version(trace)] = facts_of(trace).to_json()
    whole = {"explorer": "expectations", "format": FORMAT, "torch": dict(sorted(entries.items(), key=_number))}
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


def _number(entry: tuple[str, Any]) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", entry[0]))


def _read(path: Path) -> Mapping[str, Any]:
    """The entries of a file by version of torch; FileError for a file that is not explorer's, or has a newer format."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {error}; {UPDATE} writes it anew once it is gone") from None
    if not isinstance(value, dict) or value.get("explorer") != "expectations" or not isinstance(value.get("torch"), dict):
        raise FileError(f"{path} holds no expectations of explorer's")
    if value.get("format") != FORMAT:
        raise FileError(f"{path} has format {value.get('format')!r}, and this explorer reads {FORMAT}: update explorer")
    return value["torch"]  # type: ignore[no-any-return]


__all__ = ["FOLDER", "compare", "file_of", "torch_version", "update"]
