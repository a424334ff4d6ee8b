"""The pages that explain the stages: every stage is there, and what they name exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import explorer

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "explanation").glob("*.md"))}
TEXT = "\n".join(PAGES.values())


def test_every_stage_is_explained_once() -> None:
    """Each stage of torch's own has a section with its four facts; those of another compiler are listed with it."""
    sections = re.findall(
        r"^## `(\w+)`\n\n```\{stage\} (\w+)\n```\n\n- \*\*Made by\*\* .+\n- \*\*Look at\*\* .+\n- \*\*Recorded\*\* .+$",
        TEXT,
        re.M,
    )
    assert all(heading == name for heading, name in sections)
    listed = set(re.findall(r"\{stages\} (\w+)", TEXT))
    wanted = [stage.name for stage in explorer.STAGES if stage.backend not in listed]
    assert sorted(name for name, _ in sections) == sorted(wanted)
    assert listed == {stage.backend for stage in explorer.STAGES} - {"", "inductor"}


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
