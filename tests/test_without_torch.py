"""Without torch, pandas or the widget: what needs one says in a sentence what to install, and the rest works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import explorer
from explorer.errors import is_installed, require_installed
from explorer.model.values import Table
from explorer.tracing.traced import Trace
from tests.facts import untold

#: Makes the modules named in argv as if they were not installed, for this process.
BLOCKED = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","): raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
import explorer
def said(ask):
    try: return ask()
    except explorer.errors.NotInstalledError as error: return f"{error.name}: {error}"
"""


def without(modules: str, code: str, *arguments: str) -> str:
    """Run code in a process that lacks some modules; what it printed."""
    command = [sys.executable, "-c", BLOCKED + code, modules, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.compile
def test_every_verb_that_needs_torch_says_what_to_install() -> None:
    """Each public function that compiles raises NotInstalledError with one line, which names it, torch and the command."""
    calls = {
        "trace": "explorer.trace(len, ())",
        "record": "explorer.record().__enter__()",
        "vary": "explorer.vary(len, ())",
        "compare_modes": "explorer.compare_modes(len, ())",
        "targets": "explorer.targets()",
        "backends": "explorer.backends()",
    }
    printed = without("torch,triton", "".join(f"print(said(lambda: {call}))\n" for call in calls.values())).split("\n")
    install = "pip install 'torch-compile-explorer[full]'"
    for name, line in zip(calls, printed, strict=True):
        assert line.startswith("torch: ") and not untold(line, f"explorer.{name}", "needs torch", install)


@pytest.mark.compile
def test_a_trace_is_read_with_nothing_but_the_base_install(replayed: Callable[[str], Trace], tmp_path: Path) -> None:
    """Without pandas, graphviz, Jupyter and torch a trace loads, prints, is followed and written as a page."""
    replayed("sin_cos-torch2.13-cpu").save(tmp_path / "f.json.gz")
    code = (
        "t = explorer.load(sys.argv[2])\n"
        "(source,) = t.find('source')\n"
        "print('post_grad' in str(t), 'ir_post_fusion' in str(t.follow(source.id, len(source.lines))), bool(repr(t.dynamo)))\n"
        "t.to_html(sys.argv[2] + '.html')\n"
        "print(said(lambda: t.dynamo.guards.to_pandas()))\n"
        "print(said(lambda: t.diagram()))\n"
        "print(said(lambda: __import__('explorer.view.widget')))\n"
    )
    modules = "torch,triton,pandas,graphviz,anywidget,traitlets,IPython,ipywidgets,numpy"
    done, *refused = without(modules, code, str(tmp_path / "f.json.gz")).split("\n")
    assert done == "True True True" and (tmp_path / "f.json.gz.html").stat().st_size > 10_000
    install = "pip install 'torch-compile-explorer[view]'"
    needed = (("pandas", "table"), ("graphviz", "diagram"), ("anywidget", "view"))
    for line, (name, what) in zip(refused, needed, strict=True):
        assert line.startswith(f"{name}: ") and not untold(line.removeprefix(f"{name}: "), name, what, install)


def test_rows_show_themselves_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table prints itself, and as HTML with nothing of its rows as markup."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = Table([{"a": 1}, {"a": "<b>"}])
    assert repr(rows) == "   a\n0  1\n1  <b>"
    assert rows._repr_html_() == "<pre>   a\n0  1\n1  &lt;b&gt;</pre>"


def test_what_is_installed_is_asked_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that can be found is there; one that a program forbids, or that nobody has, is not; an ImportError either way."""
    assert is_installed("json") and not is_installed("no_such_module") and not is_installed("no_such_module.part")
    require_installed("json", "this", "view")
    monkeypatch.setitem(sys.modules, "json", None)
    assert not is_installed("json")
    with pytest.raises(ImportError) as raised:
        require_installed("json", "this", "view")
    assert isinstance(raised.value, explorer.errors.NotInstalledError) and raised.value.name == "json"
