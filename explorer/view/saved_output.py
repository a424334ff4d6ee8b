"""The output that a notebook keeps: a trace as HTML that shows itself, with a kernel and without. Pure.

A saved notebook has the output's HTML and nothing else. Where scripts run (JupyterLab, Notebook, nbconvert's HTML, nbviewer)
the HTML shows the view, from the trace that it holds; a widget's model with the same key makes it live. Where they do not
(GitHub, a notebook that is not trusted) the static summary stays. It loads nothing from a network.
"""

from __future__ import annotations

import base64
import gzip
from functools import cache

from explorer.analysis.questions.comparison import Comparison
from explorer.model.trace_data import TraceData
from explorer.view.page import bundle, escaped, static_summary

#: The most bytes of a packed trace that an output holds; of a larger one a notebook keeps the summary.
MAX_BYTES = 8_000_000

_OUTPUT = """<div class="explorer-kept" data-key="{key}">
{summary}
{data}<script type="application/octet-stream" class="explorer-code">{code}</script>
<script>{loader}</script>
</div>"""

#: Unpack the front end and hand it the output; the summary stays where that fails, as in a browser that is too old.
_LOADER = """(async (output) => {
  const summary = output.querySelector(".explorer-summaries");
  summary.hidden = output.querySelector(".explorer-trace") !== null; // else it stays until the process gives the trace
  try {
    const code = output.querySelector(".explorer-code").textContent;
    const packed = new Blob([Uint8Array.from(atob(code), (c) => c.charCodeAt(0))]);
    const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
    const script = new Blob([await new Response(stream).text()], { type: "text/javascript" });
    const address = URL.createObjectURL(script);
    const { kept } = await import(address);
    URL.revokeObjectURL(address);
    await kept(output);
    summary.hidden = true;
  } catch (error) {
    summary.hidden = false;
    console.warn("explorer:", error);
  }
})(document.currentScript.parentElement);"""


def output(shown: TraceData | Comparison, packed: bytes, key: str) -> str:
    """Return the HTML of an output: summary, packed trace and front end. `key` is the key of the widget that makes it live."""
    fits = len(packed) <= MAX_BYTES
    data = f'<script type="application/octet-stream" class="explorer-trace">{base64.b64encode(packed).decode()}</script>\n'
    return _OUTPUT.format(
        key=escaped(key),
        summary=f'<div class="explorer-summaries">{static_summary(shown)}{"" if fits else _left_out(packed)}</div>',
        data=data if fits else "",
        code=_packed_bundle(),
        loader=_LOADER,
    )


def _left_out(packed: bytes) -> str:
    return (
        f"<p>The trace is too large to be kept in a notebook ({len(packed) / 1e6:.0f} MB, at most {MAX_BYTES / 1e6:.0f}). "
        'To keep all of it: <code>t.to_html("trace.html")</code>, or <code>t.save("trace.json")</code>.</p>'
    )


@cache
def _packed_bundle() -> str:
    return base64.b64encode(gzip.compress(bundle().encode(), compresslevel=9, mtime=0)).decode()
