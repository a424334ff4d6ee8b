"""One self-contained HTML file for a trace, or for several beside each other, and the static summary that notebooks keep. Pure.

The file loads nothing from a network. It holds the trace as gzipped JSON in base64, in parts (`packing.py`). Its script, the same
bundle that the widget runs, unpacks the JSON and shows it as text nodes only. Its Content-Security-Policy allows this one script
and this one style sheet, by their hashes. The script builds the view's own style sheet behind a shadow root.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from os import PathLike

from explorer.analysis.questions.cells import cells_of, place
from explorer.analysis.questions.comparison import Comparison
from explorer.analysis.questions.program_lines import ProgramLine, program_lines
from explorer.analysis.questions.summary import counts, summary_rows
from explorer.analysis.questions.target import compiled_for
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.model.wording import quantity
from explorer.sources.files.trace_file import write
from explorer.view.compared import payload_of_comparison
from explorer.view.packing import pack
from explorer.view.payload import payload

#: The style of the page around the view.
STYLE = "html,body{height:100%;margin:0;background:Canvas;color-scheme:light dark}#explorer{height:100%}.loading{padding:2em}"

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="explorer"><p class="loading">Opening the trace…</p></div>
<noscript>{summary}</noscript>
<script type="application/octet-stream" id="explorer-payload">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def save(shown: TraceData | Comparison, path: str | PathLike[str]) -> None:
    """Write the trace, or the comparison, as one HTML file; an old file stays until the new one is complete."""
    write(path, document(shown).encode())


def document(shown: TraceData | Comparison) -> str:
    """Return the HTML of the page."""
    script = bundle()
    return _PAGE.format(
        policy=policy(script, STYLE),
        title=escaped(f"{_title(shown)} · explorer"),
        style=STYLE,
        summary=static_summary(shown),
        data=base64.b64encode(packed(shown)).decode(),
        script=script,
    )


def packed(shown: TraceData | Comparison) -> bytes:
    """Return the packed payload, for the page and the widget."""
    return pack(payload_of_comparison(shown) if isinstance(shown, Comparison) else payload(shown))


def _title(shown: TraceData | Comparison) -> str:
    if isinstance(shown, Comparison):
        return ", ".join(shown.names)
    return str(shown.meta.get("name", "trace"))


def policy(script: str, style: str) -> str:
    """Return the Content-Security-Policy that allows this script and this style sheet, and no request."""
    allowed = "; ".join(f"{kind} 'sha256-{_digest(text)}'" for kind, text in (("script-src", script), ("style-src", style)))
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


@cache
def bundle() -> str:
    """Read the front end: one ES module that `make widget` bundles from `widget/src`."""
    return files("explorer").joinpath("view", "widget", "static", "explorer.js").read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def escaped(value: object) -> str:
    """Escape a text for HTML; a character that cannot be encoded, such as half a surrogate pair, becomes "?"."""
    return html.escape(str(value).encode("utf-8", "replace").decode())


# The static summary ------------------------------------------------------------------------------------------------------

#: The most lines of code in a summary, over all its texts.
LINES = 300
#: The most rows of the summary's stage table, and the most characters of one failure.
ROWS, MESSAGE = 120, 600
#: The most kernels that are named beside one line of the program.
KERNELS = 4
_CELL = ' style="text-align:left;padding:1px 10px 1px 0"'
_NUMBER = ' style="text-align:right;padding:1px 10px 1px 0"'
_CODE = ' style="max-height:32em;overflow:auto;margin:4px 0 8px;padding:6px 8px;border:1px solid #8884;line-height:1.35"'


def static_summary(shown: TraceData | Comparison) -> str:
    """Return a short HTML summary without script: what was compiled, failures, stages, sources and kernels.

    For a comparison: its figures and the summary of each trace.
    """
    if isinstance(shown, Comparison):
        return f"{shown._repr_html_()}{''.join(map(static_summary, shown.traces))}"
    return _of_one(shown)


def _of_one(trace: TraceData) -> str:
    parts = [_head(trace), _failures(trace), _computed(trace), *_codes(trace), _table(trace)]
    return f'<div class="explorer-summary">{"".join(parts)}</div>'


def _head(trace: TraceData) -> str:
    meta = {**trace.meta, "target": str(compiled_for(trace))}
    facts = [f"{key} {meta[key]}" for key in ("target", "mode", "backend", "torch", "triton") if meta.get(key)]
    name = escaped(trace.meta.get("name", "trace"))
    return f"<p><b>{name}</b> · {escaped(counts(trace))}<br><small>{escaped(' · '.join(facts))}</small></p>"


def _failures(trace: TraceData) -> str:
    if not trace.failures:
        return ""
    items = "".join(
        f"<li>{'<b>the compile failed</b>: ' if f.fatal else ''}{escaped(str(f)[:MESSAGE])}{'…' * (len(str(f)) > MESSAGE)}</li>"
        for f in trace.failures
    )
    return f'<p>Failures</p><ul style="color:var(--jp-error-color1,#c62828)">{items}</ul>'


def _table(trace: TraceData) -> str:
    rows = list(summary_rows(trace))
    names = ("frame", "stage", "graph", "count", "lines", "seconds", "changes")
    head = "".join(f"<th{_NUMBER if n in ('count', 'lines', 'seconds') else _CELL}>{n}</th>" for n in names)
    body = "".join(f"<tr>{''.join(_cell(n, row[n]) for n in names)}</tr>" for row in rows[:ROWS])
    rest = len(rows) - ROWS
    more = f"<p>… and {quantity(rest, 'more row')}</p>" if rest > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _computed(trace: TraceData) -> str:
    """Return a table of the program's lines, each with the kernels and calls that compute it."""
    rows = program_lines([trace])
    if not rows:
        return ""
    cells = cells_of(trace)
    body = "".join(_computed_row(row, cells) for row in rows[:ROWS])
    head = "".join(f"<th{_CELL}>{name}</th>" for name in ("line", "program", "graph", "computed by"))
    rest = len(rows) - ROWS
    more = f"<p>… and {quantity(rest, 'more line')} of the program</p>" if rest > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _computed_row(row: ProgramLine, cells_by_file: Mapping[str, str]) -> str:
    line, kernels = row.first.line, list(dict.fromkeys(kernel.name for kernel in row.kernels[0]))
    named = ", ".join(f"<code>{escaped(name[:80])}</code>" for name in kernels[:KERNELS])
    more = f" and {len(kernels) - KERNELS} more" if len(kernels) > KERNELS else ""
    at = place(cells_by_file, line.file, line.number)[-50:]
    cells = (escaped(at), f"<code>{escaped(line.code[:100])}</code>", escaped(row.graph), named + more)
    return f"<tr>{''.join(f'<td{_CELL}>{cell}</td>' for cell in cells)}</tr>"


def _cell(name: str, value: object) -> str:
    if name in ("count", "lines", "seconds"):
        shown = "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
        return f"<td{_NUMBER}>{escaped(shown)}</td>"
    text = str(value)
    return f"<td{_CELL}>{escaped(text if len(text) <= 80 else f'{text[:79]}…')}</td>"


def _codes(trace: TraceData) -> Iterator[str]:
    """Yield the user's sources and the kernels, folded, until `LINES` are used up."""
    sources = [a for a in trace.find("source") if not a.data.get("inlined")]
    left = LINES
    for number, artifact in enumerate([*sources, *trace.find("kernel")]):
        if left <= 0:
            rest = len(sources) + len(trace.find("kernel")) - number
            yield f"<p>… and {quantity(rest, 'more text')} in the trace</p>"
            return
        yield _code(artifact, left, is_open=number == 0)
        left -= len(artifact.lines)


def _code(artifact: Artifact, most: int, is_open: bool) -> str:
    lines = artifact.lines
    rest = len(lines) - most
    more = f"\n… {quantity(rest, 'more line')}" if rest > 0 else ""
    text = escaped("\n".join(lines[:most]) + more)
    title = f"{escaped(artifact.title)} <small>{quantity(len(lines), 'line')}, {escaped(artifact.language)}</small>"
    return f"<details{' open' if is_open else ''}><summary>{title}</summary><pre{_CODE}>{text}</pre></details>"
