"""The how-to guides run: their Python, one block after the other, their commands, and what they say comes out."""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.docs, pytest.mark.usefixtures("warm_python")]

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"
README = GUIDES.parents[1] / "README.md"
PAGES = sorted(path.stem for path in GUIDES.glob("*.md") if path.stem != "index")
#: Short guides for coding agents, in the form that they read: a folder with a SKILL.md.
SKILLS = sorted((Path(__file__).parents[2] / "skills").glob("*/SKILL.md"))
#: What stands above a skill: its name, and when to use it.
HEADER = re.compile(r"\A---\nname: (?P<name>.+)\ndescription: (?P<description>.+)\n---\n")

#: A block of code in a page: the language behind the fence, and the text.
FENCE = re.compile(r"^```(\w[\w{}-]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: What is shown of an output may leave out lines, and differ in spaces.
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A block of a page: its language, its text, and the line of the page on which the text begins."""

    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    for found in FENCE.finditer(page):
        yield Block(found[1], found[2], page.count("\n", 0, found.start(2)))


def run_python(block: Block, names: dict[str, Any], file: str) -> str:
    """Run a block as those lines of the page, and return what it printed."""
    padded = "\n" * block.line + block.text
    source = linecache.cache.get(file, (0, None, [], file))[2]
    lines = [*source, *padded.splitlines(keepends=True)[len(source) :]]
    linecache.cache[file] = (len(padded), None, lines, file)  # where inspect finds the source of the page's functions
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(padded, file, "exec"), names)
    return printed.getvalue()


def run_shell(block: Block) -> str:
    """Run the commands of a block and return what they printed; stderr is shown where they fail.

    `python`, `explorer` and `pytest` are beside `sys.executable`; other programs of the environment come after them.
    """
    folders = (Path(sys.executable).parent, sysconfig.get_path("scripts"), os.environ["PATH"])
    path = os.pathsep.join(map(str, folders))
    command = ["bash", "-euo", "pipefail", "-c", block.text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_page(text: str, file: str) -> None:
    """Run a page from top to bottom in one namespace; what stands in an "output" block is what the block before it printed."""
    names: dict[str, Any] = {"__name__": Path(file).stem}
    printed = ""
    for block in blocks(text):
        if block.language == "python":
            printed = run_python(block, names, file)
        elif block.language == "sh":
            printed = run_shell(block)
        elif block.language == "output":
            wanted = block.text.replace("…", "...")
            assert doctest.OutputChecker().check_output(wanted, printed, LIKE), (
                f"{file}:{block.line + 1} says\n{wanted}\nnot\n{printed}"
            )
        else:
            assert block.language in ("{toctree}", "text"), f"{file}:{block.line}: nothing runs {block.language!r}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to run in; what torch compiled, its stance and the linecache are as before."""
    monkeypatch.chdir(tmp_path)
    kept = dict(linecache.cache)
    yield tmp_path
    linecache.cache.clear()
    linecache.cache.update(kept)
    if torch := sys.modules.get("torch"):
        torch._dynamo.reset()
        torch.compiler.set_stance("default")


@pytest.mark.parametrize("page", PAGES)
def test_a_guide_runs(page: str, folder: Path) -> None:
    """Each block of the page runs after those before it, and prints what the page says."""
    torch = pytest.importorskip("torch", reason="torch is not installed: the guides compile with it")
    pytest.importorskip("triton", reason="triton is not installed: the guides compile its kernels")
    if torch.cuda.is_available():
        pytest.skip("a GPU is attached: what the guides show was printed without one")
    run_page((GUIDES / f"{page}.md").read_text(encoding="utf-8"), f"{page}.md")


@pytest.mark.parametrize("page", PAGES)
def test_a_guide_is_short(page: str) -> None:
    """Less than six hundred words, its code included: a guide of more has two subjects."""
    assert len((GUIDES / f"{page}.md").read_text(encoding="utf-8").split()) < 600


def test_the_readme_runs_and_is_one_page(folder: Path) -> None:
    """Its ten lines print what it says; it has less than seven hundred words."""
    pytest.importorskip("triton", reason="triton is not installed: the README compiles for a GPU that is not here")
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) < 700
    run_page(text, "README.md")


@pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.parent.name)
def test_a_skill_runs(skill: Path, folder: Path) -> None:
    """Its commands run one after the other; its header has the folder's name and says when to use it."""
    pytest.importorskip("triton", reason="triton is not installed: the skills compile for a GPU that is not here")
    pytest.importorskip("transformers", reason="transformers is not installed: a skill asks whether one of its models fits")
    text = skill.read_text(encoding="utf-8")
    header = HEADER.match(text)
    assert header is not None and header["name"] == skill.parent.name and len(header["description"]) < 200
    run_page(text, f"{skill.parent.name}.md")


def test_every_guide_is_in_the_list_and_has_code() -> None:
    """The first page of the guides names each of them, and each has something that runs."""
    listed = (GUIDES / "index.md").read_text(encoding="utf-8").split()
    assert [page for page in PAGES if page not in listed] == []
    without = [
        page for page in PAGES if not any(b.language in ("python", "sh") for b in blocks((GUIDES / f"{page}.md").read_text()))
    ]
    assert without == []


def test_a_wrong_claim_fails(folder: Path) -> None:
    """A page whose block raises, prints something else, or stands in a language that nothing runs, fails, with its line."""
    right = "```python\nprint(1 + 1)\n```\n\n```output\n2\n```\n\n```sh\necho a long line\n```\n\n```output\na … line\n```\n"
    run_page(right, "a.md")
    with pytest.raises(AssertionError, match=r"a\.md:8 says"):
        run_page("# T\n\n```python\nprint(1)\n```\n\n```output\n2\n```\n", "a.md")
    with pytest.raises(ZeroDivisionError):
        run_page("```python\n1 / 0\n```\n", "a.md")
    with pytest.raises(AssertionError):
        run_page("```sh\nfalse\n```\n", "a.md")
    with pytest.raises(AssertionError, match="nothing runs 'bash'"):
        run_page("```bash\ntrue\n```\n", "a.md")
