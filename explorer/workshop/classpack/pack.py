"""Make a class pack: run notebooks, record what their statements make, and write copies that run without PyTorch.

Which statements can run without PyTorch is tried, not guessed. They run one by one in a kernel that can import neither torch nor
triton, beside what was recorded. One that raises there, or puts out another text, is recorded. That is done again until all
of the copy runs.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from explorer.capture.observe.versions import version_of
from explorer.errors import CompileError, FileError, InputError
from explorer.workshop.classpack.statements import Statement, statements
from explorer.workshop.classpack.values import files_of

#: The most seconds that one statement may take.
PATIENCE = 600
#: Runs first in a kernel that is to have neither.
WITHOUT_TORCH = """
import sys
class _Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"): raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, _Absent())
"""
KEEPER = "from explorer.workshop.classpack.values import Keeper as _Keeper; import json as _json; _keeper = _Keeper({folder!r})"
LOOK = "_keeper.look(globals())"
#: Writes what the keeper says to a file: what a kernel prints is put together piece by piece, which takes minutes for megabytes.
TELL = """
with open({file!r}, "w", encoding="utf-8") as _file:
    _json.dump(_keeper.{call}(globals()), _file, default=lambda one: dict(one) if hasattr(one, "keys") else list(one))
"""
#: How the first code cell of a copy begins.
OPENING = "from explorer.workshop.classpack import Recorded"
ADDRESS = re.compile(r"0x[0-9a-f]+")
#: What is copied along when a text of the notebook links to it: pictures and texts, by how their names end.
LINKED = (".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".md")
LINK = re.compile(r"(?<=\]\()[^()#\s]+")


@dataclass
class Step:
    """One statement of a notebook: its place, its output, the names it bound, and whether the copy has it recorded.

    A statement that asks a quiz is never recorded: the answers and the score in a copy are its owner's.
    """

    cell: int
    statement: Statement
    may_raise: bool = False
    outputs: list[dict[str, Any]] = field(default_factory=list)
    bound: dict[str, Any] = field(default_factory=dict)
    recorded: bool = False
    asks_quiz: bool = False

    @property
    def quizzes(self) -> list[str]:
        """The names to which it bound a quiz or an exercise."""
        return [name for name, value in self.bound.items() if value["is"] == "quiz"]

    def call(self, number: int) -> str:
        """The code that stands for the statement in the copy."""
        return recorded_call([number], self.bound)


@dataclass
class Records:
    """The folder beside a copy with what was recorded of its notebook."""

    folder: Path
    made_with: str
    #: Exercise → what the truth of it is found in.
    subjects: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The folder as the copy names it, which stands two levels above."""
        return "/".join(self.folder.parts[-2:])

    @property
    def opening(self) -> str:
        """The first code cell of the copy."""
        return f"{OPENING}\n\nrecorded = Recorded({self.name!r})\nrecorded"

    def write(self, steps: Sequence[Step]) -> None:
        """Write what the statements put out and bound."""
        rows = {number: {"outputs": step.outputs, "bound": step.bound} for number, step in enumerate(steps)}
        data = {"made_with": self.made_with, "steps": rows, "subjects": self.subjects}
        (self.folder / "recorded.json").write_text(json.dumps(data), encoding="utf-8")

    def forget_unneeded(self, steps: Sequence[Step]) -> None:
        """Keep only what the recorded statements and the exercises need."""
        values = [*self.subjects.values(), *(value for step in steps if step.recorded for value in step.bound.values())]
        needed = {file for value in values for file in files_of(value)}
        for file in self.folder.glob("trace_*.json.gz"):
            if file.name not in needed:
                file.unlink()
        self.write([step if step.recorded else Step(step.cell, step.statement) for step in steps])


@dataclass(frozen=True)
class Copy:
    """A copy of a notebook that was written: its file, its statements, and how many of them are recorded."""

    file: Path
    statements: int
    recorded: int
    linked_files: int
    size: int

    def plain(self) -> dict[str, Any]:
        """The same as values; the size is in bytes."""
        return {**vars(self), "file": str(self.file)}

    def __str__(self) -> str:
        files = f"{self.linked_files} linked files, " if self.linked_files else ""
        return f"{self.file}: {self.statements} statements, {self.recorded} of them recorded, {files}{self.size / 1e6:.1f} MB"


def make(notebooks: Sequence[Path], folder: Path) -> Iterator[Copy]:
    """Make the pack in a folder, and yield each copy of a notebook that is in it.

    CompileError, with the cell, for a notebook that does not run here; FileError for what is no notebook; InputError where a copy
    would take the place of a notebook, or of another linked file.
    """
    _check_folder(notebooks, folder)
    for path in notebooks:
        book = _read(path)
        linked = _linked(book, path)
        steps = _steps(book)
        records = Records(folder / "recorded" / path.stem, f"PyTorch {version_of('torch')}")
        _record(path, steps, records)
        records.write(steps)
        while _try_without_torch(path, steps, records, folder):
            pass
        records.forget_unneeded(steps)
        _copy_linked(book, path.parent, linked, records)
        _write_copy(book, steps, records, folder / path.name)
        recorded = sum(step.recorded for step in steps)
        size = sum(file.stat().st_size for file in records.folder.rglob("*") if file.is_file())
        yield Copy(folder / path.name, len(steps), recorded, len(linked), size)


def _check_folder(notebooks: Sequence[Path], folder: Path) -> None:
    """Make the folder; InputError where a copy would take the place of a notebook that is no copy, or of another copy."""
    names = [path.name for path in notebooks]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two notebooks are called {twice}: make a class pack of each in its own folder, with -o")
    for name in names:
        if (folder / name).exists() and OPENING not in (folder / name).read_text(encoding="utf-8", errors="replace"):
            raise InputError(
                f"{folder / name} was not made by a class pack, so it is not overwritten: give another folder with -o"
            )
    try:
        for path in notebooks:
            (folder / "recorded" / path.stem).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"the class pack cannot be written to {folder}: {error.strerror}") from error


def _read(path: Path) -> Any:
    """A notebook; FileError for what is none."""
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
        raise FileError(f"{path} cannot be read as a notebook: {str(error).partition(chr(10))[0]}") from error


def _steps(book: Any) -> list[Step]:
    """Return the statements of all code cells; in a cell tagged "raises-exception" they may raise."""
    code = [(at, cell) for at, cell in enumerate(book.cells) if cell.cell_type == "code"]
    raising = {at for at, cell in code if "raises-exception" in cell.metadata.get("tags", ())}
    return [Step(at, one, at in raising) for at, cell in code for one in statements(cell.source)]


# Running -----------------------------------------------------------------------------------------------------------------


class Kernel:
    """A notebook's kernel in which code runs piece by piece."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def hidden(self, code: str) -> None:
        """Run code of explorer's own, which the notebook does not see."""
        if error := _error(self.run(code, history=False)):
            raise RuntimeError(f"the class pack's own code failed in the notebook's kernel: {error}")

    def run(self, code: str, history: bool = True) -> list[dict[str, Any]]:
        """Run code and return its outputs, an error being one."""
        import nbformat
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

        cell = nbformat.v4.new_code_cell(code)
        self._client.nb.cells.append(cell)
        try:
            with suppress(CellExecutionError):
                self._client.execute_cell(cell, len(self._client.nb.cells) - 1, store_history=history)
        except CellTimeoutError as error:
            raise CompileError(f"this statement ran for more than {PATIENCE} s: {code}") from error
        except DeadKernelError as error:
            raise CompileError(f"the notebook's kernel died in this statement: {code}") from error
        return [dict(output) for output in cell.outputs]


@contextmanager
def kernel(folder: Path) -> Iterator[Kernel]:
    """Start a kernel of this Python in a folder, and end it."""
    import nbformat
    from nbclient import NotebookClient

    where = {"metadata": {"path": str(folder)}}
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=PATIENCE, kernel_name="python3", resources=where)
    client.coalesce_streams = True
    with client.setup_kernel():
        yield Kernel(client)


def _record(path: Path, steps: Sequence[Step], records: Records) -> None:
    """Run the notebook in its folder, statement by statement, and note the output and the names of each."""
    quizzes: set[str] = set()
    with kernel(path.parent.absolute()) as live:
        live.hidden(KEEPER.format(folder=str(records.folder.absolute())))
        for step in steps:
            live.hidden(LOOK)
            outputs = [_kept(output) for output in live.run(step.statement.code)]
            step.outputs = [output for output in outputs if any(output.get("data", {"": output}).values())]
            step.bound = _told(live, "bound", records)
            quizzes = quizzes.difference(step.bound).union(step.quizzes)
            step.asks_quiz = not quizzes.isdisjoint(step.statement.names)
            if (error := _error(step.outputs)) and not step.may_raise:
                raise CompileError(f"{_where(path, step)}, does not run here: {error}")
        records.subjects = _told(live, "subjects", records)


def _told(live: Kernel, call: str, records: Records) -> dict[str, Any]:
    """What the keeper in the notebook's kernel says."""
    file = records.folder.absolute() / "told.json"
    live.hidden(TELL.format(call=call, file=str(file)))
    told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    return told


def _where(path: Path, step: Step) -> str:
    return f"{path}, cell {step.cell + 1}, line {step.statement.first}"


def _try_without_torch(path: Path, steps: Sequence[Step], records: Records, folder: Path) -> bool:
    """Run the copy in a kernel without torch, record what does not run there, and say whether there was any."""
    more = False
    with kernel(folder) as reader:
        reader.hidden(WITHOUT_TORCH)
        reader.hidden(records.opening)
        for number, step in enumerate(steps):
            if not step.recorded:
                outputs = reader.run(step.statement.code)
                error = _error(outputs)
                if error and step.asks_quiz:
                    raise CompileError(
                        f"{_where(path, step)}, asks a quiz, which a class pack never records, and does not run without "
                        f"PyTorch: {error}. Write ... in the place of the answer"
                    )
                if step.asks_quiz or (not error and _texts(outputs) == _texts(step.outputs)):
                    for name in step.quizzes:
                        reader.hidden(f"recorded.judge({name})")
                    continue
                step.recorded = more = True
            if error := _error(reader.run(step.call(number))):
                raise CompileError(f"{_where(path, step)}, cannot be given from the pack: {error}")
    return more


def _error(outputs: Sequence[dict[str, Any]]) -> str:
    return next((f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"), "")


def _texts(outputs: Sequence[dict[str, Any]]) -> list[str]:
    """What the outputs say as plain text, without addresses."""
    texts = (o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    return [ADDRESS.sub("0x", text) for text in texts if text]


def _kept(output: dict[str, Any]) -> dict[str, Any]:
    """An output without the view of a widget that its kernel had."""
    data = {kind: value for kind, value in output.get("data", {}).items() if "widget-view" not in kind}
    return {**output, "data": data} if "data" in output else output


# Writing -----------------------------------------------------------------------------------------------------------------


def _linked(book: Any, path: Path) -> dict[str, str]:
    """Map each link to a picture or text to the name of its copy; InputError where two files would have one copy."""
    copies: dict[str, str] = {}
    link_of: dict[str, str] = {}
    for match in (match for cell in book.cells if cell.cell_type == "markdown" for match in LINK.finditer(cell.source)):
        link, file = match[0], path.parent / match[0]
        # an absolute link names a file of this machine, wherever the notebook is, and no place below the pack
        if file.suffix not in LINKED or "://" in link or Path(link).anchor or not file.is_file():
            continue
        copy = "/".join(part for part in Path(link).parts if part != "..")
        other = link_of.setdefault(copy, link)
        if not file.samefile(path.parent / other):
            raise InputError(
                f"{path} links to {other} and {link}, and a class pack would copy both to {copy}: rename one of the two files"
            )
        copies[link] = copy
    return copies


def _copy_linked(book: Any, beside: Path, copies: dict[str, str], records: Records) -> None:
    """Copy the pictures and texts that the notebook's texts link to, and lead the links to the copies."""
    for link, copy in copies.items():
        (records.folder / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(beside / link, records.folder / copy)
    for cell in book.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(
                lambda link: f"{records.name}/{copies[link[0]]}" if link[0] in copies else link[0], cell.source
            )


def _write_copy(book: Any, steps: Sequence[Step], records: Records, path: Path) -> None:
    """Write the notebook with `recorded` in place of what is recorded; those cells are tagged so."""
    import nbformat

    numbered = list(enumerate(steps))
    for at, cell in enumerate(book.cells):
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        own = [(number, step) for number, step in numbered if step.cell == at]
        if any(step.recorded or step.quizzes for _, step in own):
            cell.source = _with_recorded(cell.source, own)
        if any(step.recorded for _, step in own):
            cell.metadata["tags"] = [*cell.metadata.get("tags", ()), "recorded"]
    about = (
        f"**This copy of the notebook needs no PyTorch.** Lines below `# recorded:` are live: they need PyTorch. They ran with "
        f"{records.made_with}, on another machine, and what they made and put out is read from the folder `recorded`. All other "
        "lines run here. Most predictions are judged here too, by recorded traces. Tasks, and your own code under "
        "`torch.compile`, need the notebook itself, and PyTorch."
    )
    opening = nbformat.v4.new_code_cell(records.opening, metadata={"tags": ["recorded"]})
    book.cells[:0] = [nbformat.v4.new_markdown_cell(about), opening]
    nbformat.write(book, path)


def _with_recorded(source: str, steps: Sequence[tuple[int, Step]]) -> str:
    """Return the cell's source, with recorded statements as comments above the call that returns their results."""
    lines, made, at = source.split("\n"), [], 0
    for recorded, group in groupby(steps, lambda numbered: numbered[1].recorded):
        run = list(group)
        first, last = run[0][1].statement.first, run[-1][1].statement.last
        made += lines[at : first - 1]
        if recorded:
            bound = {name: value for _, step in run for name, value in step.bound.items()}
            made += ["# recorded:", *(f"#   {line}".rstrip() for line in lines[first - 1 : last])]
            made.append(recorded_call([number for number, _ in run], bound))
        else:
            made += lines[first - 1 : last]
            made += [f"recorded.judge({name})  # its predictions, by recorded traces" for _, step in run for name in step.quizzes]
        at = last
    return "\n".join([*made, *lines[at:]])


def recorded_call(numbers: Sequence[int], bound: dict[str, Any]) -> str:
    """The line that shows what statements put out, and binds again what they bound."""
    names = " ".join(bound)
    given = ", ".join([*map(str, numbers), *([f"names={names!r}"] if names else [])])
    return f"{', '.join(bound)} = recorded({given})" if names else f"recorded({given})"
