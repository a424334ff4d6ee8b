"""Files written: a line per file."""

from __future__ import annotations

import pytest

from explorer.stages.torch_compile.written_file import WrittenFile, readable


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/tmp/explorer-absent-in3tgjl_/c2/c2ze.py", "(temporary folder)/c2/c2ze.py"),
        ("/home/me/explorer-notebook/c2/c2ze.py", "/home/me/explorer-notebook/c2/c2ze.py"),
    ],
)
def test_a_folder_that_was_removed_has_no_name(path: str, shown: str) -> None:
    """Its name is random. Folders of the program keep theirs."""
    assert readable(WrittenFile(by="inductor", path=path, kind="py", bytes=6212)) == f"inductor: {shown}  (6,212 bytes)"
