"""The files that explorer keeps for a user between processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.process import user_cache


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write makes the folder and replaces the file in one step; one that fails leaves the old file and nothing beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = user_cache.directory() / "answers.json"
    user_cache.write(file, b"first")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        user_cache.write(file, b"second")
    assert file.read_bytes() == b"first"
    assert list(file.parent.iterdir()) == [file]
