"""A sweep has a row for each cell, also for one that fails or whose process dies, on any executor."""

from __future__ import annotations

import json
import multiprocessing
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.analysis.questions.comparison import figures
from explorer.entry import cli
from explorer.errors import FileError, InputError
from explorer.studies.sweeping.cell import Cell, made, run
from explorer.studies.sweeping.sweep import Sweep
from tests.facts import says, untold

MODELS = """
import os
import torch
from helper_of_models import width

class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, 32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x)))

def mlp():
    return Mlp(), torch.ones(8, width)

def norm():
    return lambda x: torch.softmax(x, -1).sum(), torch.ones(64, 64)

def planted():
    raise ValueError("planted")

def refused():
    def f(x):
        raise KeyError("in the model")
    return f, torch.ones(2)

def nothing():
    return None

def dies():
    os._exit(9)

def prints():
    print("printed by the model", flush=True)
    os.system("echo printed by a child of it")
    raise ValueError("planted")
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file with the models, which imports another one beside it; the current folder is its folder."""
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "helper_of_models.py").write_text("width = 16\n")
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path / "models.py"
    assert sys.path == path and not {"models", "helper_of_models"} & (set(sys.modules) - modules)


@pytest.mark.compile
def test_each_cell_has_a_row_and_a_trace(models: Path) -> None:
    """Models × targets × variants on threads of the caller's: the figures are those of the trace that is in the file."""
    with ThreadPoolExecutor(2) as threads:
        swept = explorer.sweep(
            {"mlp": f"{models}:mlp", "norm": f"{models}:norm"},
            ["h100", "a100"],
            {"static": {"dynamic": False}},
            folder="out",
            executor=threads,
        )
    cells = [(row["model"], row["target"], row["variant"]) for row in swept.table]
    assert cells == [(model, target, "static") for model in ("mlp", "norm") for target in ("h100", "a100")]
    assert not swept.failed, swept.failed
    assert len({row["file"] for row in swept.table}) == 4 and len(list(Path("out").iterdir())) == 4
    for row in swept.table:
        trace = explorer.load(row["file"])
        assert (trace.meta["target"], trace.meta["dynamic"]) == (row["target"], False)
        # the file has no figures of the GPU, so it does not say the estimated seconds
        assert {key: row[key] for key in figures(trace) if "estimated" not in key} == {
            key: value for key, value in figures(trace).items() if "estimated" not in key
        }
    one = swept.trace(model="norm", target="a100", variant="static")
    assert one.meta["target"] == "a100" and len(one.kernels) == swept.table[3]["kernels"]
    assert set(swept.table.to_pandas()["state"]) == {"ok"} and "4 cells" in repr(swept)


@pytest.mark.compile
def test_a_cell_that_fails_is_a_row_that_names_it(models: Path) -> None:
    """An error when the model is made, one in the model, and a model that is none say so; the other cells have their figures."""
    sources = [f"{models}:{name}" for name in ("planted", "refused", "nothing", "absent", "norm")]
    with ThreadPoolExecutor(1) as threads:
        swept = explorer.sweep(sources, ["h100"], folder="out", executor=threads)
    whys = {row["model"]: row["why"] for row in swept.failed}
    assert set(whys) == {"planted", "refused", "nothing", "absent"}
    assert "ValueError: planted" in whys["planted"] and "KeyError: 'in the model'" in whys["refused"]
    assert not untold(whys["nothing"], "(function, *arguments)", "NoneType") and not untold(whys["absent"], "function absent")
    assert swept.table[-1]["state"] == "ok" and swept.table[-1]["kernels"] >= 1
    with pytest.raises(InputError, match=says("trace", "ValueError: planted")):
        swept.trace(model="planted")
    with pytest.raises(InputError, match=says("5 cells", "'h100'", "'planted'")):
        swept.trace(target="h100")


@pytest.mark.usefixtures("warm_python")
@pytest.mark.compile
@pytest.mark.timeout(300)
def test_a_process_that_dies_in_a_given_executor_fails_its_cells(models: Path) -> None:
    """The executor gives no row for the cell of a process that ended, nor for those that waited: both are failed."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        swept = explorer.sweep([f"{models}:dies", f"{models}:norm"], ["h100"], folder="out", executor=pool)
    assert [row["model"] for row in swept.failed] == ["dies", "norm"] and "2 failed" in repr(swept)
    for row in swept.table:
        assert not untold(row["why"], "executor", "process", "BrokenProcessPool")


class Now:
    """An executor that runs each cell when it is submitted, with nothing but the interface."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []

    def submit(self, function: Callable[[Cell], Any], cell: Cell) -> Future[Any]:
        """Run it, but fail where the target is called "lost"."""
        self.cells.append(cell)
        future: Future[Any] = Future()
        if cell.target == "lost":
            future.set_exception(OSError("the worker is gone"))
        else:
            future.set_result(function(cell))
        return future


@pytest.mark.compile
def test_any_executor_runs_the_cells(tmp_path: Path) -> None:
    """What has `submit` is enough, a model may be a function, and what the executor itself loses is a row."""
    executor = Now()
    swept = explorer.sweep({"f": lambda: (torch.sin, torch.ones(4))}, ["cpu", "lost"], folder=tmp_path, executor=executor)
    assert [cell.target for cell in executor.cells] == ["cpu", "lost"]
    assert [row["state"] for row in swept.table] == ["ok", "failed"]
    assert swept.table[1]["why"] == "OSError: the worker is gone"


@pytest.mark.usefixtures("warm_python")
@pytest.mark.compile
def test_another_interpreter_runs_its_cells(models: Path) -> None:
    """The Python of another environment traces the model itself; one that cannot be started is a row of each of its cells."""
    with ThreadPoolExecutor(1) as threads:
        swept = explorer.sweep(
            [f"{models}:norm"],
            ["h100"],
            folder="out",
            pythons={"same": sys.executable, "none": str(models.parent / "no_python")},
            executor=threads,
        )
    same, none = swept.table
    assert (same["python"], same["state"], same["torch"]) == ("same", "ok", torch.__version__), same["why"]
    assert none["state"] == "failed" and not untold(none["why"], str(models.parent / "no_python"), "No such file")
    assert swept.trace(python="same").kernels


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("models.py:mlp", ["h100"]), ("list", "models", "targets", "sweep(['models.py:mlp'], ['h100'], …)")),
        ((["models.py:mlp"], "h100"), ("list", "models", "targets", "sweep(['models.py:mlp'], ['h100'], …)")),
        ((["models.py:mlp", "models.py:mlp"], ["h100"]), ("model", "name", "{'mlp': 'models.py:mlp'}")),
        (([], ["h100"]), ("model", "name", "{'mlp': 'models.py:mlp'}")),
        ((["models.py"], ["h100"]), ("'models.py'", "FILE.py:NAME", "MODULE:NAME")),
        ((["missing.py:mlp"], ["h100"]), ("file", "missing.py")),
        (({"a": 3}, ["h100"]), ("int",)),
        ((["models.py:mlp"], ["h100"], {"x": {"target": "a100"}}), ("variant", "'x'", "'target'", "mode")),
        ((["models.py:mlp"], ["h100"], {"x": {"modus": 1}}), ("variant", "'x'", "'modus'", "mode")),
        (({"f": lambda: None}, ["h100"]), ("f, h100", "process", "FILE.py:NAME", "ThreadPoolExecutor")),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_cell(
    models: Path, arguments: tuple[Any, ...], facts: tuple[str, ...]
) -> None:
    """A mistake of the call raises at once, and nothing was traced."""
    with pytest.raises(InputError, match=says(*facts)):
        explorer.sweep(*arguments, folder="out")
    assert not list(Path("out").iterdir())


def test_a_folder_that_cannot_be_is_said(models: Path) -> None:
    """A file in the place of the folder is an error that names it."""
    with pytest.raises(FileError, match=says("write", "models.py")):
        explorer.sweep(["models.py:mlp"], folder="models.py")


@pytest.mark.usefixtures("warm_python")
@pytest.mark.compile
def test_a_script_without_its_guard_is_told(models: Path) -> None:
    """A new process imports the script: a sweep outside of `if __name__ == "__main__"` says what to do, and ends."""
    script = f"import explorer\nprint(explorer.sweep(['{models}:norm'], ['h100'], folder='out', workers=1).table[0]['state'])\n"
    Path("script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=120, check=False)
    assert not untold(done.stderr, "script", "explorer.sweep", "if __name__ == '__main__':")
    assert done.stdout == "failed\n"


def test_a_module_by_its_name_and_two_files_of_one_name(models: Path) -> None:
    """A model may stand in a module that is installed, and two files may have one name and other helpers."""
    other = models.parent / "other"
    other.mkdir()
    (other / "models.py").write_text(MODELS)
    (other / "helper_of_models.py").write_text("width = 24\n")
    for file, width in ((models, 16), (other / "models.py", 24), (models, 16)):
        with made(f"{file}:mlp") as (_, x):
            assert x.shape == (8, width)
    with pytest.raises(InputError, match=says("os:getcwd", "(function, *arguments)", "str")), made("os:getcwd"):
        pass


def test_a_row_names_its_cell(models: Path) -> None:
    """A row begins with the names of the cell, and says how it went."""
    cell = Cell("m", "cpu", "v", "", f"{models}:planted", str(models.parent / "t.gz"))
    row = run(cell)
    assert list(row)[:6] == ["model", "target", "variant", "python", "state", "why"]
    assert (row["model"], row["variant"], row["state"], cell.name) == ("m", "v", "failed", "m, cpu, v")


@pytest.mark.usefixtures("warm_python")
@pytest.mark.compile
@pytest.mark.timeout(300)
def test_processes_of_the_commands_own_outlive_one_that_dies(models: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`explorer sweep` runs the cells in new processes; where a model ends its process, only its own cell says so.

    With --json stdout has the rows alone; what a model prints goes to stderr. A failed cell makes the status that of a broken
    rule.
    """
    variant = "small:dynamic=False,max_fusion_size=2"
    words = ["sweep", *(f"models.py:{name}" for name in ("prints", "dies", "norm")), "--target", "h100", "--variant", variant]
    assert cli.main([*words, "-o", "out", "--workers", "1", "--json"]) == cli.BROKEN
    out, err = capfd.readouterr()
    prints, dies, norm = json.loads(out)
    assert [row["model"] for row in (prints, dies, norm)] == ["prints", "dies", "norm"]
    assert (prints["state"], dies["state"]) == ("failed", "failed")
    assert "ValueError: planted" in prints["why"] and not untold(dies["why"], "process", "died")
    assert "printed by the model" in err and "printed by a child of it" in err
    assert (norm["state"], norm["variant"]) == ("ok", "small")
    trace = explorer.load(norm["file"])
    assert trace.meta["dynamic"] is False and trace.meta["options"] == {"max_fusion_size": 2}
    assert isinstance(trace, explorer.Trace) and trace.kernels


def test_the_command_takes_targets_and_interpreters(
    models: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each may be given several times; without --json a table is printed, and the status is 0 where no cell failed."""
    asked: dict[str, Any] = {}

    def answer(sources: list[str], targets: list[str], variants: Any, **settings: Any) -> Sweep:
        asked.update(settings, sources=sources, targets=targets)
        return Sweep([{"model": "norm", "target": "h100", "variant": "", "python": "one", "state": "ok", "why": ""}])

    monkeypatch.setattr(explorer, "sweep", answer, raising=False)
    words = ["--target", "h100", "--target", "a100", "--python", "one=/one/py", "--python", "two=/two/py", "--workers", "3"]
    assert cli.main(["sweep", "models.py:norm", *words, "-o", "out"]) == 0
    assert asked["pythons"] == {"one": "/one/py", "two": "/two/py"} and asked["workers"] == 3
    assert (list(asked["sources"]), list(asked["targets"])) == (["models.py:norm"], ["h100", "a100"])
    assert "norm" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--variant", "x:mode"), ("'mode'", "KEY=VALUE")),
        (("--variant", "mode=max-autotune"), ("--variant", "NAME:KEY=VALUE", "tuned:mode=max-autotune")),
        (("--variant", "a:dynamic=True", "--variant", "a:dynamic=False"), ("--variant", "'a'", "twice")),
        (("--variant", "a", "--variant", "b", "--variant", "a"), ("--variant", "'a'", "twice")),
        (("--variant", "a:dynamic=True,dynamic=False"), ("a:dynamic=True,dynamic=False", "'dynamic'", "twice")),
        (("--python", "a=/one", "--python", "a=/two"), ("--python", "'a'", "twice")),
    ],
)
def test_an_option_of_which_a_part_would_be_lost_is_refused(
    models: Path,
    words: tuple[str, ...],
    facts: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A variant without a name, and two of one name, are a mistake that the command names before the first cell."""
    monkeypatch.setattr(explorer, "sweep", lambda *_, **__: pytest.fail("the sweep began"), raising=False)
    assert cli.main(["sweep", f"{models}:norm", *words, "-o", "out"]) == cli.MISUSE
    assert not untold(capfd.readouterr().err, *facts)


@pytest.mark.compile
def test_a_variant_is_a_name_with_settings_and_options() -> None:
    """What is no setting of `explorer.trace` is an option of Inductor's; a name alone is a variant with the defaults."""
    documented = re.search(r'such as "(.*)"', cli._variant.__doc__ or "")
    assert documented is not None
    name, settings = cli._variant(documented[1])
    assert (name, settings) == ("tuned", {"dynamic": False, "options": {"max_autotune": True}})
    assert cli._variant("plain") == ("plain", {})
    trace = explorer.trace(lambda x: torch.sin(x), torch.ones(4), **settings)
    assert trace.meta["dynamic"] is False and trace.meta["options"] == {"max_autotune": True}


@pytest.mark.compile
def test_dask_runs_the_cells_and_one_that_dies_is_a_row(models: Path) -> None:
    """On a local cluster of Dask's, with an interpreter for the cells, the cell that ends its process fails alone."""
    distributed = pytest.importorskip("distributed", reason="dask's distributed is not installed: `pip install distributed`")
    with distributed.Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        swept = explorer.sweep(
            [f"{models}:dies", f"{models}:norm"],
            ["h100"],
            folder=models.parent / "out",
            pythons={"here": sys.executable},
            executor=client.get_executor(),
        )
    dies, norm = swept.table
    assert (dies["state"], norm["state"]) == ("failed", "ok"), norm["why"]
    assert "ended with status 9" in dies["why"] and swept.trace(model="norm").kernels
