"""The pages that explain the stages: every stage is there, and what they name exists."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import explorer

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "explanation").glob("*.md"))}
TEXT = "\n".join(PAGES.values())


def test_every_section_explains_a_stage() -> None:
    """A stage of torch's own has one section with its four facts; those of another compiler are listed with it."""
    sections = re.findall(
        r"^## `(\w+)`\n\n```\{stage\} (\w+)\n```\n\n- \*\*Made by\*\* .+\n- \*\*Look at\*\* .+\n- \*\*Recorded\*\* .+$",
        TEXT,
        re.M,
    )
    assert all(heading == name for heading, name in sections)
    listed = set(re.findall(r"\{stages\} (\w+)", TEXT))
    explained = [name for name, _ in sections]
    own = {stage.name for stage in explorer.types.STAGES if stage.backend not in listed}
    assert set(explained) <= own and len(explained) == len(set(explained)) > 40
    assert listed == {stage.backend for stage in explorer.types.STAGES} - {"", "inductor"}


def test_a_stage_without_a_section_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first page has the sentence of each stage that no page explains, so that a new stage is on the site."""
    pytest.importorskip("sphinx", reason="the site's own tools are not installed: make docs")
    monkeypatch.syspath_prepend(ROOT / "docs")
    site_pages = importlib.import_module("site_pages")
    assert "```{other-stages}\n```" in PAGES["index"]
    for name, text in PAGES.items():
        text = text.replace("```{stage} guards", "").replace("```{stages} tvm", "")
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    missing = [stage.name for stage in explorer.types.STAGES if stage.name == "guards" or stage.backend == "tvm"]
    assert [stage.name for stage in site_pages.without_section(tmp_path)] == missing


def test_the_modules_that_are_named_exist() -> None:
    """Each module of torch's and triton's is one that can be imported here."""
    pytest.importorskip("torch")
    pytest.importorskip("triton", reason="triton is not installed: its modules are looked up")
    named = set(re.findall(r"`(torch\._\w[\w.]*|torch\.fx[\w.]*|triton\.\w+)`", TEXT))
    assert len(named) > 20
    assert [name for name in sorted(named) if importlib.util.find_spec(name) is None] == []


def test_the_files_that_are_named_exist() -> None:
    """Each file and folder of explorer's is one of the package's."""
    named = set(re.findall(r"`((?:capture|lab)/[\w./]*)`", TEXT))
    assert "capture/observe/dynamo.py" in named
    assert [name for name in sorted(named) if not (ROOT / "explorer" / name).exists()] == []
