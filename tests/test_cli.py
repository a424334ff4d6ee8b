"""The `explorer` command: what passes through of the program, what is written, what is refused."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.analysis.questions.summary import summary_rows
from explorer.entry import cli
from explorer.sources.files import schema
from tests import fake_ncu
from tests.facts import untold

pytestmark = pytest.mark.compile

#: A program that compiles one function and then does what its arguments say.
COMPILES = """
import sys
import torch

@torch.compile(backend="eager")
def double(x):
    return x + x

print(double(torch.ones(2)).tolist())
"""

#: The same function again, once with a size that its guards refuse, and another function.
AND_MORE = """
for size in (2, 2, 3):
    double(torch.ones(size))
torch.compile(lambda x: x * 3, backend="eager")(torch.ones(2))
"""

#: A function that Dynamo cannot compile as a whole.
REFUSED = """
import torch

@torch.compile(backend="eager", fullgraph=True)
def f(x):
    print(x)
    return x

f(torch.ones(2))
"""

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs `explorer` with arguments in this process and in an empty folder: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("helper", "package", "package.inner"):  # of an earlier test's program
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(list(arguments))
        return status, *capfd.readouterr()

    yield run


def one_line(err: str) -> bool:
    """Whether explorer has said one thing, in a line of its own."""
    return err.startswith("explorer: ") and err.count("\n") == 1 and err.endswith("\n")


def last_line(err: str) -> str:
    return err.splitlines(keepends=True)[-1]


def plain(*arguments: str) -> tuple[int, str, str]:
    """The same for `python` with these arguments, in a process of its own."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


# The program is as it is without explorer --------------------------------------------------------------------------------

SURROUNDINGS = """
import pickle, sys, helper
def function(): ...
print(sys.argv, sys.path[0], __name__, __file__, __package__, __doc__, __spec__ and __spec__.name, helper.__file__)
print(pickle.loads(pickle.dumps(function)) is function, sys.modules["__main__"].function is function, type(__builtins__))
"""


@pytest.mark.parametrize("arguments", [[], ["a", "-o", "x.html", "--target", "h100"], ["--", "-m", "--help"]])
def test_a_script_sees_what_it_sees_under_python(command: Command, tmp_path: Path, arguments: list[str]) -> None:
    """argv, sys.path[0], the names of `__main__` and pickling are as in `python SCRIPT ARGS`; all ARGS are the script's."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "program.py").write_text(SURROUNDINGS)
    (tmp_path / "folder" / "helper.py").touch()
    given = ["folder/program.py", *arguments]
    assert command("trace", "--", *given)[:2] == plain(*given)[:2]


@pytest.mark.parametrize("module", ["package", "package.inner"])
def test_a_module_sees_what_it_sees_under_python(command: Command, tmp_path: Path, module: str) -> None:
    """`-m MODULE ARGS` likewise, for a package's `__main__` and for a module in it."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "helper.py").touch()
    for name in ("__main__", "inner"):
        (tmp_path / "package" / f"{name}.py").write_text(SURROUNDINGS)
    given = ["-m", module, "a", "--", "-o", "b"]
    assert command("trace", *given)[:2] == plain(*given)[:2]


ENDS = {
    "nothing": "print('done')",
    "none": "import sys; print('done'); sys.exit()",
    "number": "import sys; sys.exit(7)",
    "true": "import sys; sys.exit(True)",
    "text": "import sys; sys.exit('bye')",
    "error": "def f():\n    raise ValueError('mine')\nf()",
    "cause": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('mine') from error",
    "syntax": "print('never')\ndef f(:",
    "import": "import not_there_at_all",
    "interrupt": "class Mine(KeyboardInterrupt): pass\nraise Mine('mine')",
    "hook": "import sys\nsys.excepthook = lambda *e: print('caught', e[1], file=sys.stderr)\nraise ValueError('mine')",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_program_is_as_under_python(command: Command, tmp_path: Path, end: str) -> None:
    """Exit status, output and traceback, without a frame of explorer's, are Python's own; then comes the table."""
    (tmp_path / "program.py").write_text(ENDS[end])
    status, out, err = plain("program.py")
    given = command("trace", "program.py")
    assert given[:2] == (status, out)
    assert given[2].startswith(f"{err}<Trace")
    assert not untold(given[2].removeprefix(err).partition("\n")[0], "program.py", "device", "compiled")


def test_ctrl_c_is_status_130(command: Command, tmp_path: Path) -> None:
    """KeyboardInterrupt is shown with its traceback and gives the status that a shell gives it."""
    (tmp_path / "program.py").write_text("raise KeyboardInterrupt")
    status, _, err = command("trace", "program.py")
    assert status == 130
    assert err.startswith("Traceback (most recent call last):\n")
    assert "\nKeyboardInterrupt\n<Trace" in err


def test_an_error_inside_the_compiler_shows_no_frame_of_explorer(command: Command, tmp_path: Path) -> None:
    """A function that Dynamo refuses gives its error, with the frames of the program and of torch only."""
    (tmp_path / "program.py").write_text(REFUSED)
    status, _, err = command("trace", "program.py")
    assert status == 1
    assert "program.py" in err and "Unsupported" in err
    assert str(Path(explorer.__file__).parent) not in err


def test_a_thread_that_outlives_the_program_still_finds_its_modules(tmp_path: Path) -> None:
    """In a process of its own, what the program left running imports from the program's folder."""
    (tmp_path / "later.py").write_text("print('imported', __name__)")
    (tmp_path / "program.py").write_text(
        "import threading\n"
        "def work():\n    threading.main_thread().join()\n    import later\n"
        "threading.Thread(target=work).start()\n"
    )
    status, out, _ = plain("-m", "explorer", "trace", str(tmp_path / "program.py"))
    assert (status, out) == (0, "imported later\n")


# What is recorded ----------------------------------------------------------------------------------------------------------


def test_every_compile_of_the_program_is_written(command: Command, tmp_path: Path) -> None:
    """A loop with a recompile and a second function give three frames, in every file named by -o."""
    (tmp_path / "program.py").write_text(COMPILES + AND_MORE)
    status, out, err = command("trace", "-o", "one.json.gz", "--output", "two.trace", "program.py")
    assert (status, out) == (0, "[2.0, 2.0]\n")
    trace = explorer.load("one.json.gz")
    assert trace == explorer.load("two.trace")
    assert trace.compile_ids == ("0/0", "0/1", "1/0")
    assert f"{trace}\nexplorer: " in err and not untold(err.rpartition(str(trace))[2], "one.json.gz", "two.trace")
    assert "def double(x):" in trace.text("source", frame="0/0")


@pytest.mark.parametrize(("end", "status"), [("raise ValueError", 1), ("sys.exit(7)", 7), ("raise KeyboardInterrupt", 130)])
def test_the_trace_of_a_program_that_fails_is_written(command: Command, tmp_path: Path, end: str, status: int) -> None:
    """What was compiled before the program's end is in the file, and the program's status stays."""
    (tmp_path / "program.py").write_text(COMPILES + end)
    assert command("trace", "-o", "out.json.gz", "program.py")[0] == status
    assert explorer.load("out.json.gz").dynamo.functions[0]["qualname"] == "double"


def test_options_may_stand_at_the_end(command: Command, tmp_path: Path) -> None:
    """`explorer trace SCRIPT ARGS --target cpu -o OUT` takes its own options; after `--` they are the script's."""
    (tmp_path / "program.py").write_text("import sys\n" + COMPILES + "print(sys.argv[1:])\n")
    status, out, _ = command("trace", "program.py", "--epochs", "1", "--target", "cpu", "-o", "out.json.gz")
    assert status == 0
    assert out.endswith("['--epochs', '1']\n")
    assert explorer.load("out.json.gz").meta["target"] == "cpu"
    (tmp_path / "out.json.gz").unlink()
    status, out, _ = command("trace", "--", "program.py", "-o", "out.json.gz")
    assert out.endswith("['-o', 'out.json.gz']\n")
    assert not (tmp_path / "out.json.gz").exists()


def test_an_output_that_ends_in_html_is_a_page(command: Command, tmp_path: Path) -> None:
    """`-o x.html` writes one file for a browser."""
    (tmp_path / "program.py").write_text(COMPILES)
    assert command("trace", "-o", "out.html", "program.py")[0] == 0
    assert (tmp_path / "out.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")


# Mistakes --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["trace"], ("explorer trace SCRIPT [ARGS...]", "explorer trace -m MODULE [ARGS...]")),
        (["trace", "-m"], ("explorer trace SCRIPT [ARGS...]", "explorer trace -m MODULE [ARGS...]")),
        (["trace", "nothing.py"], ("nothing.py", "exist")),
        (["trace", "."], ("folder", "script")),
        (["trace", "-m", "not_there.inner"], ("-m not_there.inner", "module")),
        (["trace", "-o", "no/x.html", "program.py"], ("no/x.html", "folder")),
        (["trace", "-o", "no/there/", "program.py"], ("no/there", "No such file or directory")),
        (["trace", "--ranks", "1", "program.py"], ("--ranks", "rank 1", "0")),
        (["trace", "program.py", "--ranks", "first"], ("--ranks", "all", "0,3", "'first'")),
        (["trace", "--target", "cpuu", "program.py"], ("target", "'cpuu'", "'cpu'")),
        (["show", "nothing.gz"], ("nothing.gz", "No such file or directory")),
        (["backends", "eagre"], ("backend", "'eagre'", "'eager'")),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    command: Command, tmp_path: Path, arguments: list[str], facts: tuple[str, ...]
) -> None:
    """It is said before the program runs, without a traceback."""
    (tmp_path / "program.py").write_text("print('ran')")
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert one_line(err) and not untold(err, *facts)


@pytest.mark.parametrize("arguments", [[], ["trace", "--bogus", "program.py"], ["trcae"], ["show"]])
def test_arguments_that_cannot_be_are_status_2(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """argparse says what is wrong, with the usage."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("print('ran')")
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: explorer")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(["fits", "LlamaConfig", "--tokens", "8"], "--sequence"), (["show", "f.gz", "--taget", "h100"], "--target")],
)
def test_an_unknown_option_is_answered_with_the_one_that_was_meant(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the usage of the command, not that of all commands."""
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    err = capsys.readouterr().err
    assert err.startswith(f"usage: explorer {arguments[0]} ") and not untold(err, arguments[2], f"did you mean {meant}?")


def test_a_file_that_cannot_be_written_is_said(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk after the program ran is one line and status 2, not a traceback."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("explorer.sources.files.trace_file.save", full)
    (tmp_path / "program.py").write_text("print('ran')")
    status, out, err = command("trace", "-o", "x.gz", "program.py")
    assert (status, out) == (2, "ran\n")
    assert one_line(err) and not untold(err, "x.gz", "No space left on device")


# Saved traces and lists --------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(command: Command, tmp_path: Path) -> explorer.Trace:
    """The trace of COMPILES, which is also in saved.gz."""
    (tmp_path / "program.py").write_text(COMPILES)
    command("trace", "-o", "saved.gz", "program.py")
    return explorer.load(tmp_path / "saved.gz")


def test_show_prints_the_table_or_a_stage_or_writes(command: Command, saved: explorer.Trace) -> None:
    """`show FILE` prints the table, with --text that text alone, with -o it writes and prints nothing on stdout."""
    assert command("show", "saved.gz") == (0, f"{saved}\n", "")
    assert command("show", "saved.gz", "--text", "dynamo") == (0, f"{saved.text('dynamo')}\n", "")
    status, out, err = command("show", "saved.gz", "-o", "again.gz")
    assert (status, out) == (0, "")
    assert one_line(err) and not untold(err, "again.gz")
    assert explorer.load("again.gz") == saved


def test_show_offers_the_stages_that_there_are(command: Command, saved: explorer.Trace) -> None:
    """An unknown stage is one line with the nearest names."""
    status, out, err = command("show", "saved.gz", "--text", "dynmo")
    assert (status, out) == (2, "")
    assert one_line(err) and not untold(err, "stage", "'dynmo'", "'dynamo'")


def test_compare_prints_the_figures_or_writes_a_page(command: Command, saved: explorer.Trace) -> None:
    """`compare FILE FILE` prints what differs, with -o it writes one page with both; a page is all that it writes."""
    status, out, err = command("compare", "saved.gz", "saved.gz", "--name", "before", "--name", "after")
    assert (status, err) == (0, "") and not untold(out.partition("\n")[0], "Comparison", "before", "after")
    assert "before is saved.gz\nafter is saved.gz\n" in out
    status, out, err = command("compare", "saved.gz", "saved.gz", "-o", "both.html")
    assert (status, out) == (0, "") and one_line(err) and not untold(err, "both.html")
    assert "before, after · explorer" in Path("both.html").read_text(encoding="utf-8")
    status, out, err = command("compare", "saved.gz", "saved.gz", "-o", "both.gz")
    assert (status, out) == (2, "") and one_line(err) and not untold(err, "both.gz", ".html")
    err = command("compare", "saved.gz")[2]
    assert one_line(err) and not untold(err, "compare", "traces", "1", "explorer.compare(t1, t2)")


def test_each_command_that_prints_rows_prints_them_as_json(command: Command, saved: explorer.Trace) -> None:
    """With --json the rows have their columns as keys, and the values of the trace."""

    def read(*words: str) -> Any:
        status, out, err = command(*words, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)

    shown = read("show", "saved.gz")
    assert [(row["stage"], row["count"]) for row in shown["stages"]] == [(r["stage"], r["count"]) for r in summary_rows(saved)]
    assert shown["meta"]["target"] == saved.meta["target"] and shown["failures"] == [str(f) for f in saved.failures]
    (text,) = read("show", "saved.gz", "--text", "dynamo")["texts"]
    assert text["text"] == saved.text("dynamo") and text["id"] == saved.find("dynamo")[0].id
    compared = read("compare", "saved.gz", "saved.gz", "--name", "a", "--name", "b")
    assert all(row["a"] == row["b"] for row in compared["figures"]) and compared["figures"]
    assert {"lines", "groups"} <= set(compared)
    assert {row["target"]: row["works"] for row in read("targets")} == {r["target"]: r["works"] for r in explorer.targets()}
    assert [(row["backend"], row["works"]) for row in read("backends", "eager")] == [("eager", True)]


#: The subcommands without `--json`, and why.
WITHOUT_JSON = {
    "mcp": "its stdout is the protocol's, which is JSON",
    "schema": "it prints nothing but JSON",
}


def test_every_command_answers_in_json() -> None:
    """Each subcommand takes `--json`, but for those that are listed with the reason."""
    (commands,) = (action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction))
    lacking = {name for name, command in commands.choices.items() if "--json" not in command.format_help()}
    assert lacking == set(WITHOUT_JSON)


def test_a_traced_program_answers_in_json(command: Command, tmp_path: Path) -> None:
    """With --json stdout has the stage table, what breaks a rule and the files, and nothing that the program printed."""
    program = COMPILES + "\nimport os, sys\nprint('own', sys.argv[1:]); os.system('echo child'); sys.exit(7)\n"
    (tmp_path / "program.py").write_text(program)
    status, out, err = command("trace", "--json", "--fail-on", "graph-break,failure", "-o", "t.gz", "program.py", "--json")
    said, trace = json.loads(out), explorer.load("t.gz")
    assert status == said["status"] == 7 and said["broken"] == [] and said["files"] == ["t.gz"]
    assert "own ['--json']" in err and "child" in err
    assert [(row["stage"], row["count"]) for row in said["stages"]] == [(r["stage"], r["count"]) for r in summary_rows(trace)]
    (tmp_path / "program.py").write_text("print('nothing compiled')\n")
    status, out, err = command("trace", "--json", "program.py")
    assert status == 0 and "nothing compiled" in err and "torch.compile" in json.loads(out)["advice"][0]
    assert command("trace", "program.py")[1] == "nothing compiled\n"


class Answer:
    """What `fit` and `classpack` print of one target or notebook."""

    def plain(self) -> dict[str, str]:
        """The same as values."""
        return {"is": "an answer"}


def printing(*_: object, **__: object) -> Answer:
    """Run code that prints, as that of a model or a notebook may."""
    print("printed by the code")
    os.system("echo printed by a child")
    return Answer()


@pytest.mark.parametrize("words", [("fits", "LlamaConfig"), ("classpack", "one.ipynb", "-o", "pack")])
def test_what_other_code_prints_is_not_in_the_json(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """With --json stdout has the answer alone; what a model or a notebook prints goes to stderr."""
    pytest.importorskip("nbclient", reason="nbclient is not installed: it runs notebooks")
    monkeypatch.setattr(explorer, "fits", printing, raising=False)
    monkeypatch.setattr("explorer.workshop.classpack.pack.make", lambda notebooks, _: (printing() for _ in notebooks))
    status, out, err = command(*words, "--json")
    assert (status, json.loads(out)) == (0, [{"is": "an answer"}])
    assert "printed by the code" in err and "printed by a child" in err


def test_what_breaks_a_rule_is_in_the_json(command: Command, tmp_path: Path) -> None:
    """A graph break is named, and the status is that of a broken rule."""
    (tmp_path / "program.py").write_text(REFUSED.replace(", fullgraph=True", ""))
    status, out, _ = command("trace", "--json", "--fail-on", "graph-break", "program.py")
    assert status == cli.BROKEN and "print" in " ".join(json.loads(out)["broken"])


def test_merged_ranks_answer_in_json(command: Command, saved: explorer.Trace, tmp_path: Path) -> None:
    """The groups and divergences of the ranks, as `explorer.load` has them."""
    (tmp_path / "job").mkdir()
    for rank in range(3):
        saved.save(tmp_path / "job" / f"trace.rank{rank}.json.gz")
    status, out, _ = command("ranks", "job", "-o", "job.ranks", "--json")
    said = json.loads(out)
    assert (status, said["groups"], said["divergences"], said["ranks"]) == (0, [[0, 1, 2]], [], [0, 1, 2])
    assert said["file"] == "job.ranks" and explorer.load("job.ranks").groups == ((0, 1, 2),)


def test_merging_ranks_that_cannot_be_read_leaves_an_older_file(command: Command, tmp_path: Path) -> None:
    """Without a rank that can be read nothing is written, and the reason is said."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "trace.rank0.json.gz").write_text("no trace")
    (tmp_path / "job.ranks").write_text("older")
    status, out, err = command("ranks", "job", "-o", "job.ranks")
    assert (status, out) == (2, "") and one_line(err) and not untold(err, "job", "rank 0", "trace.rank0.json.gz")
    assert (tmp_path / "job.ranks").read_text() == "older"


def test_merging_refuses_to_write_over_what_it_merges(command: Command, saved: explorer.Trace, tmp_path: Path) -> None:
    """An output that is a file of a rank, or the merged file itself, stays as it is."""
    (tmp_path / "job").mkdir()
    for rank in range(2):
        saved.save(tmp_path / "job" / f"trace.rank{rank}.json.gz")
    assert command("ranks", "job", "-o", "job.ranks")[0] == 0
    for merged, output in (("job", "job/trace.rank0.json.gz"), ("job.ranks", "job.ranks")):
        before = (tmp_path / output).read_bytes()
        status, _, err = command("ranks", merged, "-o", output)
        assert (status, (tmp_path / output).read_bytes()) == (2, before)
        assert one_line(err) and not untold(err, output, "rank")


@pytest.mark.parametrize(
    ("words", "stdout", "facts"),
    [
        ("trace --json program.py", ">&-", ("closed", "file", "--json")),
        ("show --json saved.gz", ">/dev/full", ("No space left on device",)),
    ],
)
def test_an_answer_that_cannot_be_printed_is_one_line(tmp_path: Path, words: str, stdout: str, facts: tuple[str, ...]) -> None:
    """Where stdout is closed, or full, that is said, without a traceback."""
    (tmp_path / "program.py").write_text("pass\n")
    explorer.Trace({"name": "f"}).save(tmp_path / "saved.gz")
    command = ["sh", "-c", f'"$0" -m explorer {words} {stdout}', sys.executable]
    done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and one_line(done.stderr) and not untold(done.stderr, "stdout", *facts)


#: A program with one Triton kernel, which a named GPU compiles anywhere; both of its lines need what the kernel loads.
FUSES = """
import torch

@torch.compile
def f(x):
    y = torch.softmax(x, dim=-1)
    return y + x.sin()

f(torch.ones(256, 256))
raise SystemExit(5)
"""


def test_a_program_under_ncu_leaves_a_trace_with_counters(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is read into the trace that the same run recorded; the status is the program's."""
    fake_ncu.installed(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "b.py").write_text(FUSES)
    status, out, err = command("trace", "--ncu", "--target", "h100", "-o", "t.trace", "b.py")
    assert (status, out) == (5, "") and not untold(err, "instructions", "lines", "wrote t.trace")
    trace = explorer.load(tmp_path / "t.trace")
    assert isinstance(trace, explorer.Trace)
    counted = len(trace.profile.counters.instructions)
    assert counted > 20 and sum(row["samples"] for row in trace.profile.counters.lines) == pytest.approx(counted)
    assert {row["code"] for row in trace.profile.counters.lines} == {"y = torch.softmax(x, dim=-1)", "return y + x.sin()", ""}


@pytest.mark.parametrize(("more", "facts"), [((), ("ncu", "PATH", "CUDA toolkit")), (("--json",), ("--ncu", "--json", "-o OUT"))])
def test_ncu_that_cannot_be_used_is_said_before_the_program_runs(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], facts: tuple[str, ...]
) -> None:
    """Where there is no ncu, and with --json, which would be printed before the report is there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "b.py").write_text("print('ran')")
    status, out, err = command("trace", "--ncu", *more, "b.py")
    assert (status, out) == (2, "") and one_line(err) and not untold(err, *facts)


def test_the_schema_of_trace_files_is_printed(command: Command) -> None:
    """`explorer schema` prints the schema of files."""
    status, out, err = command("schema")
    assert (status, err) == (0, "") and json.loads(out) == schema.schema()


def test_a_reader_that_stops_early_is_no_error(saved: explorer.Trace, tmp_path: Path) -> None:
    """`explorer show … | head` ends without a traceback."""
    words = [sys.executable, "-m", "explorer", "show", str(tmp_path / "saved.gz")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_targets_says_what_works_and_why_not(command: Command) -> None:
    """One line per target; the CPU always works."""
    status, out, err = command("targets")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert (status, err) == (0, "")
    assert lines["cpu"].split()[1] == "yes"
    assert set(lines) == {row["target"] for row in explorer.targets()}


def test_backends_tries_those_that_are_named(command: Command) -> None:
    """One line per backend, found out by trying."""
    assert command("backends", "eager") == (0, "eager  yes\n", "")


def test_the_command_answers_without_torch() -> None:
    """Importing explorer.entry.cli imports neither torch nor triton, and `python -m explorer` is the same command."""
    code = "import sys, explorer.entry.cli; sys.exit(bool({'torch', 'triton', 'IPython'} & set(sys.modules)))"
    assert plain("-c", code) == (0, "", "")
    assert plain("-m", "explorer", "--version") == (0, f"explorer {explorer.__version__}\n", "")


PLAIN = """
import torch

net = torch.nn.Linear(2, 2)
print(net(torch.ones(1, 2)).shape)
"""


def test_a_program_that_compiles_nothing_is_told_what_to_do(command: Command, tmp_path: Path) -> None:
    """After the table it is said how to compile, by the names of the program's own modules."""
    (tmp_path / "plain.py").write_text(PLAIN)
    status, out, err = command("trace", "plain.py")
    assert (status, out) == (0, "torch.Size([1, 2])\n")
    assert "nothing compiled>" in err and not untold(err, "@torch.compile", "explorer.trace(model, x)")
    assert one_line(last_line(err)) and not untold(last_line(err), "net = torch.compile(net)")


def test_a_program_that_calls_nothing_compiled_is_told_so(command: Command, tmp_path: Path) -> None:
    """What is under torch.compile, but was never called, is named."""
    (tmp_path / "never.py").write_text(PLAIN + "fast = torch.compile(net)\n")
    _, _, err = command("trace", "never.py")
    assert one_line(last_line(err)) and not untold(last_line(err), "torch.compile", "fast")


def test_a_program_that_compiles_is_told_nothing(command: Command, tmp_path: Path) -> None:
    """Where anything was compiled no advice is given."""
    (tmp_path / "program.py").write_text(COMPILES)
    _, _, err = command("trace", "program.py")
    assert "explorer: " not in err


BREAKS = """
import torch

@torch.compile(backend="eager")
def f(x):
    torch._dynamo.graph_break()
    return x + 1

f(torch.ones(2))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("b.py", "--target", "h100", "--fail-on", "graph-break", "-o", "t.json.gz"),
        ("--fail-on", "graph-break", "b.py", "a", "--fail-on", "failure", "--target", "h100", "-o", "t.json.gz"),
        ("--fail-on", "graph-break", "--fail-on", "failure, recompile", "--target", "h100", "-o", "t.json.gz", "b.py"),
    ],
)
def test_rules_are_held_wherever_they_stand(command: Command, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """`--fail-on` before the script, after it and given twice: all rules count, and no option beside it is lost."""
    (tmp_path / "b.py").write_text(BREAKS)
    status, _, err = command("trace", *arguments)
    assert status == cli.BROKEN and not untold(err, "explorer: graph-break", "graph break")
    assert explorer.load(tmp_path / "t.json.gz").meta["target"] == "h100"


#: A program with a graph break that ends at once, in a thread, after a child that it forked did so.
EXITS = """
import os, sys, threading
if (child := os.fork()) == 0:
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
BREAKS
print("printed", flush=True)
exiting = threading.Thread(target=os._exit, args=(int(sys.argv[1]),))
exiting.start()
exiting.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(("own", "status"), [(0, cli.BROKEN), (7, 7)])
def test_a_program_that_ends_by_os_exit_leaves_its_trace(tmp_path: Path, own: int, status: int) -> None:
    """It is said, the rules are held, and a child that was forked leaves nothing."""
    file = tmp_path / "t.json.gz"
    (tmp_path / "b.py").write_text(EXITS.replace("BREAKS", BREAKS))
    words = ("-m", "explorer", "trace", "--fail-on", "graph-break", "-o", str(file), str(tmp_path / "b.py"), str(own))
    given, out, err = plain(*words)
    assert (given, out) == (status, "printed\n")
    assert not untold(err, "os._exit", "explorer: graph-break", "wrote") and err.count("wrote") == 1
    assert len(explorer.load(file).dynamo.graph_breaks) == 1


def test_findings_are_printed_though_the_program_fails(command: Command, tmp_path: Path) -> None:
    """The status is the program's own, and what breaks a rule is said beside its error."""
    (tmp_path / "b.py").write_text(BREAKS + "raise SystemExit(7)")
    status, _, err = command("trace", "b.py", "--fail-on", "graph-break")
    assert status == 7 and not untold(err, "explorer: graph-break", "graph break")
