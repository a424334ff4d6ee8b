"""Tuning: one kernel with several configs, each with its time on the attached GPU or with what it costs on one you don't have."""

from __future__ import annotations

import html
import json
import math
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explorer.capture.splice import tuning_process
from explorer.capture.splice.job import ROWS, TuningJob
from explorer.capture.splice.trial import POLL, end, given_timeout, started
from explorer.errors import InputError
from explorer.model.values import Artifact, Plain, Table, plain, text_lines
from explorer.model.wording import quantity
from explorer.process import scratch
from explorer.process.under_way import step

#: The values of a config that are halved and doubled to find its neighbours, and the most of each.
MAX_SIZES = {
    "XBLOCK": 4096,
    "YBLOCK": 1024,
    "ZBLOCK": 1024,
    "R0_BLOCK": 8192,
    "RBLOCK": 8192,
    "R1_BLOCK": 8192,
    "BLOCK_M": 256,
    "BLOCK_N": 256,
    "BLOCK_K": 256,
    "num_warps": 32,
    "num_stages": 8,
}
#: What triton's matrix products need at least of a block.
MIN_SIZES = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}
#: A block size that the text of a kernel states, so that no config has it: a template's, and that of a persistent reduction.
_IN_TEXT = re.compile(
    rf"^\s*({'|'.join(key for key in MAX_SIZES if 'BLOCK' in key)})\s*:\s*tl\.constexpr\s*=\s*(\d+)\s*$", re.MULTILINE
)
#: The most configs that are tried where none are given.
MAX_CONFIGS = 24


@dataclass(frozen=True)
class Tuning:
    """Configs of one kernel, the fastest first. For a GPU you don't have, their order is by estimates.

    A row has the `config`, its cost (registers, spills, shared, warps, instructions), and `taken` for the kernel's own config.
    On an attached GPU `seconds` is the time of a launch, measured with a cold cache. `ratio` is relative to the kernel's own
    config in the same turns, and `max_abs` is the distance of its results from the kernel's. For a GPU you don't have,
    `seconds` and `ratio` are `predicted` from the machine code (`prediction.py` says how). `error` says why a config could not
    run.

    `in_text` has the block sizes that the kernel's text states. No config has them, so they were not varied.
    """

    kernel: str
    _rows: Table = field(repr=False)
    measured: bool
    in_text: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def best(self) -> Mapping[str, Plain] | None:
        """The config of the first row whose results are near the kernel's own; None where none could run.

        Whether they are right is what `Kernel.edit` says, which checks the whole function.
        """
        near = (row for row in self._rows if row["seconds"] is not None and float(row["max_abs"] or 0.0) < math.inf)
        first = next(near, None)
        return dict(first["config"]) if first is not None else None

    @property
    def table(self) -> Table:
        """The rows with a column for each value of a config."""
        return Table({**row["config"], **{key: value for key, value in row.items() if key != "config"}} for row in self._rows)

    def __repr__(self) -> str:
        how = "measured" if self.measured else "predicted, not measured"
        best, count = self.best, sum(row["seconds"] is not None for row in self._rows)
        said = _written_out(best) if best else "none"
        ratio = next((row["ratio"] for row in self._rows if row["ratio"] is not None), None)
        times = f", {ratio:.2f} times the time of its own" if ratio is not None else ""
        fixed = f"; not varied, as the text states it: {_written_out(self.in_text)}" if self.in_text else ""
        others = "; t.inductor.choices lists the templates with other sizes" if "BLOCK_M" in self.in_text else ""
        configs = f"{count} of {quantity(len(self._rows), 'config')}"
        return f"<Tuning of {self.kernel}: {configs}, {how}; best {said}{times}{fixed}{others}>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{drawn(self._rows)}{self.table._repr_html_()}"


def sizes_in_text(source: str) -> dict[str, Plain]:
    """Return the block sizes that the text of a kernel states."""
    return {name: int(size) for name, size in _IN_TEXT.findall(source)}


def _written_out(config: Mapping[str, Plain]) -> str:
    return " ".join(f"{key}={value}" for key, value in config.items())


def drawn(rows: Sequence[Mapping[str, Plain]]) -> str:
    """A bar for each config with a time, as SVG; the kernel's own config is darker."""
    timed = [row for row in rows if row["seconds"] is not None]
    if not timed:
        return ""
    longest = max(float(row["seconds"]) for row in timed)
    bars = []
    for number, row in enumerate(timed):
        name = html.escape(" ".join(f"{key}={value}" for key, value in row["config"].items()))
        width, y = 300 * float(row["seconds"]) / longest, 18 * number
        fill = "#1f6feb" if row["taken"] else "#8ecdf0"
        bars.append(f'<rect x="330" y="{y + 2}" width="{width:.1f}" height="13" fill="{fill}"><title>{name}</title></rect>')
        bars.append(f'<text x="324" y="{y + 13}" text-anchor="end">{name}</text>')
        bars.append(f'<text x="{336 + width:.1f}" y="{y + 13}">{1e6 * float(row["seconds"]):.2f} µs</text>')
    style = "font:11px sans-serif;fill:currentColor"
    height = 18 * len(timed)
    label = "time of a launch with each config"
    return f'<svg role="img" aria-label="{label}" width="720" height="{height}" style="{style}">{"".join(bars)}</svg>'


@dataclass(frozen=True)
class Tune:
    """A tuning request: a kernel, the file of its wrapper, the configs to try, and Inductor's candidates.

    Without `configs`, the kernel's own config, the candidates and their neighbours are tried. `timeout` is in seconds, for
    each config.
    """

    kernel: Artifact
    file: str
    configs: Sequence[Mapping[str, Plain]] | None
    candidates: Sequence[Mapping[str, Plain]]
    timeout: float

    def __post_init__(self) -> None:
        """Raise InputError for invalid configs or an invalid timeout."""
        given_timeout(self.timeout)
        if self.configs is not None:
            given_configs(self.configs)


def neighbours(own: Mapping[str, Plain], candidates: Sequence[Mapping[str, Plain]]) -> list[dict[str, Plain]]:
    """The config itself, the other candidates, and configs with one or two of its sizes halved, doubled or quadrupled."""
    configs = [dict(own), *map(dict, candidates)]
    sizes = [key for key in own if key in MAX_SIZES and isinstance(own[key], int)]
    if "BLOCK_K" not in own:  # stages are for the loop of a matrix product
        sizes = [key for key in sizes if key != "num_stages"]
    for key in sizes:
        for factor in (2.0, 0.5, 4.0):
            configs.append({**own, key: int(own[key] * factor)})
    for key in sizes:
        if key != "num_warps" and "num_warps" in own:
            for factor in (2.0, 0.5):
                configs.append({**own, key: int(own[key] * factor), "num_warps": int(own["num_warps"] * factor)})
    different: list[dict[str, Plain]] = []
    for config in configs:
        if config not in different and all(MIN_SIZES.get(k, 1) <= int(config[k]) <= MAX_SIZES[k] for k in sizes):
            different.append(config)
    return different[:MAX_CONFIGS]


def given_configs(configs: object) -> list[dict[str, Plain]]:
    """Return the caller's configs as a list of dicts; InputError if they are not mappings or a list of them."""
    several = [configs] if isinstance(configs, Mapping) else configs
    if not isinstance(several, Sequence) or not several or not all(isinstance(config, Mapping) for config in several):
        raise InputError(f"configs is a list of mappings such as [{{'XBLOCK': 4, 'num_warps': 8}}], not {configs!r}")
    return [dict(config) for config in several]


def timed_configs(job: TuningJob, timeout: float) -> list[dict[str, Any]]:
    """One row per text of the job, in its order: seconds, the original's, and resources; or an error.

    A config that ends the process, or takes longer than `timeout` seconds, loses its own row alone: another process
    times the others.
    """
    rows: list[dict[str, Any]] = []
    while len(rows) < len(job.texts):
        rest = replace(job, texts=job.texts[len(rows) :])
        with scratch.folder() as name:
            folder = Path(name)
            how = _waited(
                started(tuning_process.__name__, rest, folder, timeout * len(rest.texts)),
                folder,
                timeout,
                len(rows),
                len(job.texts),
            )
            more = _written(folder)
        rows += more
        if len(more) < len(rest.texts):
            rows.append({"error": how})
    return rows


def _written(folder: Path) -> list[dict[str, Any]]:
    """The rows that a process has written so far."""
    path = folder / ROWS
    return [json.loads(line) for line in text_lines(path.read_text(encoding="utf-8")) if line] if path.exists() else []


def _waited(process: subprocess.Popen[str], folder: Path, timeout: float, done: int, of: int) -> str:
    """Wait for a process while it writes a row every `timeout` seconds, and say how it ended. A stopped verb ends here."""
    count, began = 0, time.monotonic()
    try:
        while time.monotonic() - began < timeout:
            step("timing the configs", done + count, of)
            try:
                printed = process.communicate(timeout=POLL)[1]
            except subprocess.TimeoutExpired:
                if (rows := len(_written(folder))) > count:
                    count, began = rows, time.monotonic()
                continue
            return f"it ended the process with status {process.returncode}: {printed[-300:]}"
        return f"it did not finish within the {timeout:g} s timeout"
    finally:
        if process.poll() is None:
            end(process)


def as_rows(
    configs: Sequence[Mapping[str, Plain]], results: Sequence[Mapping[str, Any]], own: Mapping[str, Plain] | None
) -> Table:
    """The rows of a Tuning, the fastest first, those that could not run last."""
    rows = []
    for config, result in zip(configs, results, strict=True):
        seconds, original = result.get("seconds"), result.get("original_seconds")
        rows.append(
            {
                "config": dict(config),
                "taken": dict(config) == dict(own or {}),
                "seconds": seconds,
                "ratio": seconds / original if seconds is not None and original else None,
                "max_abs": result.get("max_abs"),
                **{key: result.get(key) for key in ("registers", "spills", "shared", "warps", "instructions")},
                "limit": result.get("limit", ""),
                "error": result.get("error", ""),
            }
        )
    ordered = sorted(rows, key=lambda row: (row["ratio"] is None, row["ratio"] or 0.0))
    return Table(plain(row) for row in ordered)
