"""What the wheel must do where torch is not installed: `python -I reader.py TRACE OTHER FOLDER`. See wheel.py.

The arguments are two recordings of events of the tests, and a folder to write to. An assertion says what does not work.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import subprocess
import sys
from pathlib import Path

import explorer
from explorer.sources.files.trace_file import load_events
from explorer.tracing.traced.trace import trace_of_events


def main(first: Path, second: Path, folder: Path) -> None:
    """Load, follow, compare, write and draw; ask each verb that needs torch."""
    assert not importlib.util.find_spec("torch") and not importlib.util.find_spec("triton"), "torch or triton is here"
    assert "site-packages" in str(explorer.__file__), f"{explorer.__file__} is not the installed one"
    traces = [saved_and_loaded(path, folder) for path in (first, second)]
    read(traces[0])
    compare(*traces, folder)
    view(traces[0])
    refused()
    installed()
    on_the_command_line(folder / f"{first.name}.json.gz")
    left = [name for name in ("torch", "triton") if name in sys.modules]
    assert not left, f"{left} were imported"
    print("the wheel reads, follows, compares and shows traces without torch")


def saved_and_loaded(path: Path, folder: Path) -> explorer.Trace:
    """The trace of a recording, through a file."""
    trace = trace_of_events(*load_events(path.read_bytes(), path.name))
    saved = folder / f"{path.name}.json.gz"
    trace.save(saved)
    loaded = explorer.load(saved)
    assert loaded == trace, "a saved trace is another when it is loaded"
    return loaded


def read(trace: explorer.Trace) -> None:
    """Texts, tables, links, the scheduler's verdicts, advice."""
    assert "sin" in trace.text("post_grad") and trace.dynamo.guards.to_pandas().shape[0] == len(trace.dynamo.guards) > 0
    (source,) = trace.find("source")
    reached = {row["stage"] for line in range(1, len(source.lines) + 1) for row in trace.follow(source.id, line)}
    assert {"post_grad", "kernel", "output_code"} <= reached, f"the lines of the source lead to {sorted(reached)} only"
    verdict = trace.why("sin", "pow_1")
    assert "one scheduler node" in str(verdict), verdict
    assert len(trace.fusion.groups) > 0 and len(trace.memory.peak) > 0
    assert str(trace.advise()) and explorer.glossary("aten.sin") is not None


def compare(trace: explorer.Trace, other: explorer.Trace, folder: Path) -> None:
    """Two traces side by side, and both kinds of page."""
    both = explorer.compare(trace, other, names=("before", "after"))
    assert "before" in str(both)
    for shown, name in ((trace, "one.html"), (both, "both.html")):
        shown.to_html(folder / name)
        assert "</html>" in (folder / name).read_text(encoding="utf-8")[-200:], name
    assert "digraph" in trace.diagram().source


def view(trace: explorer.Trace) -> None:
    """The widget that a notebook shows, with its bundle."""
    from explorer.view.widget import Explorer

    widget = Explorer(trace)
    assert "kernel" in widget._repr_mimebundle_()[0]["text/html"]
    widget.select("source", 1)


def refused() -> None:
    """Each verb that needs torch says in one line what to install."""
    asked = {
        "explorer.trace": lambda: explorer.trace(len, ()),
        "explorer.record": lambda: explorer.record().__enter__(),
        "explorer.vary": lambda: explorer.vary(len, ()),
        "explorer.compare_modes": lambda: explorer.compare_modes(len, ()),
        "explorer.targets": explorer.targets,
        "explorer.backends": explorer.backends,
    }
    for name, ask in asked.items():
        try:
            ask()
        except explorer.errors.NotInstalledError as error:
            said = str(error)
            assert said.startswith(f"{name} needs torch") and "torch-compile-explorer[full]" in said and "\n" not in said, said
        else:
            raise AssertionError(f"{name} did not say that torch is missing")


def installed() -> None:
    """The data that the package needs, and the mark that it is typed."""
    files = importlib.resources.files("explorer")
    for name in ("py.typed", "reference/help/ptx.tsv", "view/widget/static/explorer.js", "view/widget/static/LICENSES.txt"):
        assert files.joinpath(name).is_file(), f"{name} is not in the wheel"


def on_the_command_line(saved: Path) -> None:
    """`explorer show` prints a trace, and a script that cannot be traced gives one line and status 2."""
    command = Path(sys.executable).parent / "explorer"
    shown = subprocess.run([command, "show", saved], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "") and "post_grad" in shown.stdout, shown.stderr
    traced = subprocess.run([command, "trace", __file__], capture_output=True, text=True, check=False)
    assert traced.returncode == 2 and traced.stderr.startswith("explorer: explorer.record needs torch"), traced.stderr


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
