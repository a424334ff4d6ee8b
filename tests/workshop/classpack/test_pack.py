"""pack: the copy of a notebook runs in a kernel without torch, and shows what the notebook showed with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from explorer.errors import CompileError, FileError, InputError
from explorer.workshop.classpack import pack
from explorer.workshop.classpack.pack import WITHOUT_TORCH, make, recorded_call
from explorer.workshop.classpack.recorded import Recorded
from tests.facts import says, untold

#: A text with a picture, statements with and without torch, a quiz that the packer answers wrongly, and an error that is meant.
TEXT = "![a](a.svg)"
CELLS = (
    "import json\nimport torch\n\nimport explorer",
    "def f(x):\n    return torch.relu(x) + 1\n\n\n# a tensor and a trace\nx = torch.ones(64)\n"
    't = explorer.trace(f, x, target="h100")\nprint(t.text("post_grad"))',
    "x.shape",
    '(source,) = t.find("source")\nt.follow(source.id, 2).to_pandas()[["stage"]]',
    "size, name = len(x), t.kernels[0].name\njson.dumps([size, name])",
    "torch.ones(2) @ torch.ones(3)",
)
QUIZ = (
    'q = explorer.quiz.Quiz("M1.2", "M1.5")',
    'q("M1.2").answer("1")',
    'def mine(x):\n    return torch.sin(x)\n\n\nq("M1.5").answer(mine)',
    "q.score()",
)


@pytest.fixture
def unrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """No notebook is run: what is copied along does not depend on it."""
    monkeypatch.setattr(pack, "_record", lambda *given: None)
    monkeypatch.setattr(pack, "_try_without_torch", lambda *given: False)


def notebook(path: Path, *cells: str) -> Path:
    """Write a notebook of code cells."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(book, path)
    return path


def executed(path: Path, first: str = "pass") -> list[Any]:
    """Run a notebook's cells in one kernel after `first`; the outputs of each code cell as text."""
    book = nbformat.read(path, as_version=4)
    book.cells.insert(0, nbformat.v4.new_code_cell(first))
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
    cells = [cell for cell in book.cells[1:] if cell.cell_type == "code"]
    return ["".join(o.get("text") or o["data"].get("text/plain", "") for o in cell.outputs) for cell in cells]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[pack.Copy, Path]:
    """A notebook's copy, made once, and the folder of its pack."""
    pytest.importorskip("triton", reason="triton is not installed: it compiles the kernel")
    pytest.importorskip("pandas", reason="pandas is not installed")
    folder = tmp_path_factory.mktemp("packed")
    code = [nbformat.v4.new_code_cell(cell) for cell in (*CELLS, *QUIZ)]
    code[len(CELLS) - 1].metadata["tags"] = ["raises-exception"]
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(TEXT), *code]), folder / "one.ipynb")
    (folder / "a.svg").write_text("<svg/>")
    (copy,) = make([folder / "one.ipynb"], folder / "pack")
    return copy, folder / "pack"


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:Proactor event loop")
def test_the_copy_runs_without_torch_and_shows_the_same(packed: tuple[pack.Copy, Path]) -> None:
    """Each cell's text is the notebook's own, below a line that says that it is recorded; what needs torch is a comment.

    A cell tagged raises-exception puts out its error, and its copy the text of it, without failing. What asks a quiz is not
    recorded: recorded traces judge answers, nothing judges tasks, and the score is one's own.
    """
    line, folder = packed
    copy = folder / "one.ipynb"
    assert not untold(str(line), "one.ipynb", "18 statements", "1 linked") and line.linked_files == 1
    assert line.plain() == {**vars(line), "file": str(copy)} and line.statements == 18 > line.recorded > 0
    book = nbformat.read(copy, as_version=4)
    texts = [cell.source for cell in book.cells if cell.cell_type == "markdown"]
    assert "![a](recorded/one/a.svg)" in texts and (folder / "recorded/one/a.svg").read_text() == "<svg/>"
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert (
        "#   x = torch.ones(64)\n#   t = explorer.trace(f, x, target=\"h100\")\nx, t = recorded(4, 5, names='x t')"
        in cells[2].source
    )
    assert ["recorded" in cell.metadata.get("tags", ()) for cell in cells[:7]] == [True, True, True, True, False, True, True]
    assert cells[4].source == CELLS[3]
    assert "recorded.judge(q)" in cells[7].source and [cell.source for cell in cells[8:]] == list(QUIZ[1:])

    opening, *shown = executed(copy, WITHOUT_TORCH)
    assert not untold(opening, "statements", "PyTorch")
    marked = [text.split("\n", 1)[1] if text.startswith("[recorded") else text for text in shown]
    assert marked[0] == "" and "torch.ops.aten.relu.default" in marked[1] and marked[2] == "torch.Size([64])"
    assert "ptx" in marked[3] and marked[4] == "'[64, \"triton_poi_fused_add_relu_0\"]'"
    assert "RuntimeError: " in marked[5]
    _, first, second = shown[-1].splitlines()
    assert not untold(first, "✗ M1.2", "1 try") and not untold(second, "○ M1.5")


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:Proactor event loop")
def test_an_answer_of_the_learner_s_counts(packed: tuple[pack.Copy, Path]) -> None:
    """A cell of the copy that is answered otherwise is judged without torch, and the score counts it."""
    _, folder = packed
    book = nbformat.read(folder / "one.ipynb", as_version=4)
    (answer,) = [cell for cell in book.cells if cell.cell_type == "code" and cell.source == QUIZ[1]]
    answer.source = 'q("M1.2").answer("23-25")'
    nbformat.write(book, folder / "answered.ipynb")
    *_, score = executed(folder / "answered.ipynb", WITHOUT_TORCH)
    total, first, _ = score.splitlines()
    assert sorted(re.findall(r"\d+", total)) == ["1", "2", "3", "6"] and not untold(total, "3 points", "exercises")
    assert not untold(first, "✓ M1.2", "3 points")


@pytest.mark.compile
def test_an_answer_that_needs_torch_is_refused(tmp_path: Path) -> None:
    """A quiz is not recorded, so a call of it that cannot run without torch is an error that says what to write instead."""
    cells = ("import explorer\nimport torch", 'q = explorer.quiz.Quiz("M1.5")\n[q("M1.5"), torch.ones(4)]')
    with pytest.raises(CompileError, match=says("one.ipynb", "cell 2", "line 2", "quiz", "PyTorch", "...")):
        list(make([notebook(tmp_path / "one.ipynb", *cells)], tmp_path / "pack"))


@pytest.mark.usefixtures("unrun")
def test_what_the_texts_link_to_is_copied_along(tmp_path: Path) -> None:
    """Pictures and texts, also from folders above, are in the pack, and the copy's links lead there; no other link changes."""
    (tmp_path / "books" / "figures").mkdir(parents=True)
    (tmp_path / "books" / "figures" / "a.svg").write_text("<svg/>")
    (tmp_path / "words.md").write_text("words")
    (tmp_path / "secret.txt").write_text("not for the pack")
    text = (
        "![a](figures/a.svg) [w](../words.md#one) [s](../secret.txt) [n](two.ipynb) [p](https://pytorch.org/a.svg) [g](gone.svg)"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell("1 + 1")])
    nbformat.write(book, tmp_path / "books" / "one.ipynb")
    (line,) = make([tmp_path / "books" / "one.ipynb"], tmp_path / "pack")
    assert "2 linked files" in str(line)
    folder = tmp_path / "pack"
    shown = nbformat.read(folder / "one.ipynb", as_version=4).cells[2].source
    assert shown == text.replace("figures/", "recorded/one/figures/", 1).replace("../words.md", "recorded/one/words.md")
    copied = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.suffix in (".svg", ".md", ".txt")}
    assert copied == {"recorded/one/figures/a.svg", "recorded/one/words.md"}
    assert (folder / "recorded/one/figures/a.svg").read_text() == "<svg/>"


def linking(path: Path, text: str) -> Path:
    """Write a notebook of one text and one code cell."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell("1 + 1")])
    nbformat.write(book, path)
    return path


@pytest.mark.usefixtures("unrun")
def test_two_files_with_one_copy_are_refused(tmp_path: Path) -> None:
    """Two files of one name in folders of one name are named before the notebook runs; one file linked in two ways is copied."""
    (tmp_path / "figures").mkdir()
    (tmp_path / "books" / "figures").mkdir(parents=True)
    (tmp_path / "figures" / "a.svg").write_text("<svg>above</svg>")
    (tmp_path / "books" / "figures" / "a.svg").write_text("<svg>beside</svg>")
    twice = linking(tmp_path / "books" / "one.ipynb", "![a](figures/a.svg) ![b](../figures/a.svg)")
    with pytest.raises(InputError, match=says("one.ipynb")) as raised:
        list(make([twice], tmp_path / "pack"))
    assert set(re.findall(r"[.\w/]*figures/a\.svg", str(raised.value))) == {"figures/a.svg", "../figures/a.svg"}
    assert not [file for file in (tmp_path / "pack").rglob("*") if file.is_file()]
    same = linking(tmp_path / "books" / "two.ipynb", "![a](figures/a.svg) ![b](./figures/a.svg)")
    list(make([same], tmp_path / "pack"))
    assert (tmp_path / "pack/recorded/two/figures/a.svg").read_text() == "<svg>beside</svg>"


@pytest.mark.usefixtures("unrun")
def test_an_absolute_link_stays(tmp_path: Path) -> None:
    """What a link names by its whole path is not copied, and the link is the notebook's."""
    (tmp_path / "a.svg").write_text("<svg/>")
    text = f"![a]({(tmp_path / 'a.svg').as_posix()})"
    (line,) = make([linking(tmp_path / "one.ipynb", text)], tmp_path / "pack")
    assert line.linked_files == 0 and "linked" not in str(line) and not list((tmp_path / "pack").rglob("*.svg"))
    assert nbformat.read(tmp_path / "pack" / "one.ipynb", as_version=4).cells[2].source == text


@pytest.mark.compile
def test_a_notebook_that_does_not_run_is_refused(tmp_path: Path) -> None:
    """An error names the file, the cell and the line; what is no notebook is a FileError."""
    with pytest.raises(CompileError, match=says("two.ipynb", "cell 2", "line 2", "ZeroDivisionError")):
        list(make([notebook(tmp_path / "two.ipynb", "a = 1", "b = a\nb / 0")], tmp_path / "pack"))
    (tmp_path / "no.ipynb").write_text("nothing")
    with pytest.raises(FileError, match=says("no.ipynb", "notebook")):
        list(make([tmp_path / "no.ipynb"], tmp_path / "pack"))


def test_the_line_that_stands_for_statements_binds_their_names() -> None:
    """One name is given as it is, several as a tuple, none as nothing."""
    assert recorded_call([3], {}) == "recorded(3)"
    assert recorded_call([3, 4], {"x": 1, "t": 2}) == "x, t = recorded(3, 4, names='x t')"


def test_a_copy_away_from_its_pack_says_so(tmp_path: Path) -> None:
    """Where the folder is missing the error says to open the notebook in the pack."""
    with pytest.raises(FileError, match=says(str(tmp_path / "recorded"), "notebook")):
        Recorded(str(tmp_path / "recorded"))


def test_a_notebook_is_never_replaced(tmp_path: Path) -> None:
    """A pack in the notebook's own folder, or two notebooks of one name, are refused before anything is written."""
    book = notebook(tmp_path / "one.ipynb", "1 + 1")
    before = book.read_bytes()
    with pytest.raises(InputError, match=says(str(tmp_path / "one.ipynb"), "-o")):
        list(make([book], tmp_path))
    (tmp_path / "other").mkdir()
    other = notebook(tmp_path / "other" / "one.ipynb", "2 + 2")
    with pytest.raises(InputError, match=says("one.ipynb", "notebooks")):
        list(make([book, other], tmp_path / "pack"))
    assert book.read_bytes() == before and not (tmp_path / "recorded").exists() and not (tmp_path / "pack").exists()


@pytest.mark.parametrize("text", ["[]", "{}", "not JSON"])
def test_what_is_no_notebook_is_named(text: str, tmp_path: Path) -> None:
    """JSON that is no notebook, and what is no JSON, are files that cannot be read."""
    path = tmp_path / "one.ipynb"
    path.write_text(text)
    with pytest.raises(FileError, match=says(str(path), "notebook")):
        list(make([path], tmp_path / "pack"))


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    """A pack cannot be written where a file stands; the file stays."""
    (tmp_path / "pack").write_text("mine")
    with pytest.raises(FileError, match=says(str(tmp_path / "pack"), "class pack")):
        list(make([notebook(tmp_path / "one.ipynb", "1")], tmp_path / "pack"))
    assert (tmp_path / "pack").read_text() == "mine"
