"""The documentation site: everything public is in it, every link leads somewhere, and the gallery opens from a folder."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import explorer
from explorer.entry import cli
from tests.facts import untold

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def imported(name: str) -> ModuleType:
    """A module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def links() -> Iterator[ModuleType]:
    yield imported("links")
    del sys.modules["links"]


@pytest.fixture(scope="module")
def gallery() -> Iterator[ModuleType]:
    sys.path.insert(0, str(DOCS))
    yield imported("gallery")
    sys.path.remove(str(DOCS))
    for name in ("gallery", "gallery_programs"):
        sys.modules.pop(name, None)


# The pages ---------------------------------------------------------------------------------------------------------------

#: What a page of the site is made of.
#: docs/plugin is a package to copy, with a README of its own.
PAGES = [path for path in (*DOCS.glob("*.md"), *DOCS.glob("*/*.md")) if path.parent.name != "plugin"]
SOURCES = [*PAGES, *(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "explorer").rglob("*.py")]


@pytest.fixture(scope="module")
def site(links: ModuleType) -> Path:
    """The site that `make docs` builds, with warnings and dead links as errors; `make test-docs` builds it first."""
    built: Path = links.SITE
    index = built / "objects.inv"
    if not index.exists() or index.stat().st_mtime < max(path.stat().st_mtime for path in SOURCES):
        pytest.skip("the site is not built, or older than its sources: make docs")
    return built


def inventory(site: Path) -> set[str]:
    """The Python names that the reference describes."""
    from sphinx.util.inventory import InventoryFile

    described = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {name for kind, entries in described.data.items() if kind.startswith("py:") for name in entries}


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    """What `explorer.__all__` names is described, and so is each public method of a Trace and of a Kernel."""
    described = inventory(site)
    public = {f"explorer.{name}" for name in explorer.__all__} - {"explorer.__version__", "explorer.quiz"}
    public |= {f"explorer.types.{name}" for name in explorer.types.__all__}
    methods = {f"explorer.{kind.__name__}.{name}" for kind in (explorer.Trace, explorer.Kernel) for name in own_names(kind)}
    assert (public | methods | {"explorer.quiz.board", "explorer.quiz.Question"}) - described == set()


def own_names(kind: type) -> set[str]:
    """The public methods and properties of a class; how explorer makes a trace is no part of the reference."""
    return {name for name in vars(kind) if not name.startswith("_")} - {"of", "of_later", "of_events"}


def test_every_command_is_described(site: Path) -> None:
    """Each subcommand has a section with its usage, and each of its options is in it."""
    page = (site / "docs" / "reference" / "command-line.html").read_text(encoding="utf-8")
    sections = {part.partition('"')[0]: part for part in page.split('<section id="explorer-')[1:]}
    parsers = next(action.choices for action in cli.parser()._actions if isinstance(action.choices, dict))
    assert list(sections) == list(parsers)
    for name, parser in parsers.items():
        options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}
        assert {option for option in options if option not in sections[name]} == set(), name


def test_every_page_of_the_docs_and_each_notebook_is_in_the_site(site: Path) -> None:
    """What is written for readers has a page; that every link leads somewhere is asked when the site is built."""
    pages = [path for path in SOURCES if path.suffix != ".py"]
    assert [path.name for path in pages if not (site / path.relative_to(ROOT)).with_suffix(".html").exists()] == []


def test_the_tutorial_opens_its_first_notebook_online_where_the_repository_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub's CI names repository and branch, and the page links to Binder and Colab; elsewhere it has no such links."""
    nodes = pytest.importorskip("docutils.nodes", reason="the site's own tools are not installed: make docs")
    pytest.importorskip("sphinx", reason="the site's own tools are not installed: make docs")
    monkeypatch.syspath_prepend(DOCS)
    directive = importlib.import_module("site_pages").RunOnline
    (notebook,) = re.findall(r"^```\{run-online\} (\w+)$", (DOCS / "tutorial.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert (ROOT / "notebooks" / f"{notebook}.ipynb").is_file()
    asked = SimpleNamespace(arguments=[notebook])
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert directive.run(asked) == []
    monkeypatch.setenv("GITHUB_REPOSITORY", "ada/explorer")
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    (paragraph,) = directive.run(asked)
    binder, colab = (node["refuri"] for node in paragraph.findall(nodes.reference))
    path = f"notebooks/{notebook}.ipynb"
    assert binder == f"https://mybinder.org/v2/gh/ada/explorer/main?urlpath=lab/tree/{path}"
    assert colab == f"https://colab.research.google.com/github/ada/explorer/blob/main/{path}"
    assert "%pip install" in paragraph.astext()


def test_dead_links_are_found(links: ModuleType, tmp_path: Path) -> None:
    """A page, a figure and an anchor that are not there are named; other sites and places of a view are not asked for."""
    written = {
        "a.html": '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>',
        "c2.html": '<img src="no.svg"><a href="#me">4</a>',
        "b.html": '<p id="there"></p><a href="https://pytorch.org/x">5</a><a href="b.html#view=code&amp;at=0/0:source:2">6</a>',
        "d.html": "<pre>/home/ada/project/f.py, and /Users/ada/x.py</pre>",
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    pages = {tmp_path / name: text for name, text in written.items()}
    found = [what for _, what in links.dead_links(pages)]
    wanted = [("b.html#gone",), ("file", "c.html"), ("file", "no.svg"), ("#me",)]
    assert [untold(what, *facts) for what, facts in zip(found, wanted, strict=True)] == [[]] * 4
    assert [what.rpartition(" ")[2] for _, what in links.machine_names(pages)] == ["/Users/ada/x.py", "/home/ada/project/f.py"]
    assert links.main(tmp_path) == 1


# The gallery -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(gallery: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The gallery's page of layer norm, as the build makes it, and what stands beside it."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    folder = tmp_path_factory.mktemp("gallery")
    (entry,) = (entry for entry in gallery.ENTRIES if entry.name == "layer_norm")
    facts = gallery.page(entry, folder)
    return folder / "layer_norm.html", facts


def test_a_page_opens_from_its_folder_at_each_place(page: tuple[Path, dict[str, Any]], browser: Any) -> None:
    """Opened as a file the page shows the view that a link of the gallery names, and asks nothing of a network."""
    file, facts = page
    tab = browser.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    for end in facts["links"]:
        name = end.removeprefix("#view=").partition("&")[0]
        tab.goto("about:blank")
        tab.goto(f"file://{file}{end}")
        tab.wait_for_selector("#explorer[data-state]")
        tab.get_by_role("tab", name=name.capitalize(), exact=True, selected=True).wait_for()
    tab.close()
    assert {url.partition(":")[0] for url in asked} <= {"file", "blob", "data", "about"}


def test_a_page_names_no_machine(page: tuple[Path, dict[str, Any]], gallery: ModuleType, links: ModuleType) -> None:
    """What a page of the gallery shows has no folder of the machine that made it, though the trace has."""
    import torch

    made = gallery.trace("softmax", (4, 8), target="cpu")
    shown = gallery.portable(made)
    assert str(DOCS) in repr([a.data for a in made.artifacts])
    assert links.OF_THE_MACHINE.findall(repr([(a.text, a.data) for a in shown.artifacts]) + repr(shown.meta)) == []
    assert torch.equal(shown.live.result, made.live.result)


def test_each_trace_of_the_gallery_has_its_section(gallery: ModuleType) -> None:
    """The page gallery.md has a heading and the directive of each trace that the build makes, and no other."""
    headings = re.findall(r"^## .+\n\n.+\n\n```\{gallery\} (\w+)\n```$", (DOCS / "gallery.md").read_text(), re.MULTILINE)
    assert headings == [entry.name for entry in gallery.ENTRIES]


def test_a_place_that_is_not_there_is_an_error(gallery: ModuleType) -> None:
    """A link of the gallery to a stage that the trace does not have raises when the page is made."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernels")
    made = gallery.trace("softmax", (4, 8), target="h100")
    entry = gallery.Entry("x", lambda: made, (gallery.Place("the passes", "no_such_view"),))
    with pytest.raises(explorer.errors.InputError, match="no_such_view"):
        gallery.links(entry, made)
