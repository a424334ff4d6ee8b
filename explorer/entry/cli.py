"""The `explorer` command: trace a script, show a saved trace, compare several, list targets and backends, look what is missing.

    explorer trace [--json] [--profile] [--ncu] SCRIPT [ARGS...] [--target T] [--ranks all|0,3] [-o OUT]...
                   also: -m MODULE [ARGS...]
    explorer show FILE [--text STAGE | --table NAME] [--json] [-o OUT]...
    explorer advise FILE [--json]
    explorer why FILE NODE [NODE] [--graph GRAPH] [--frame ID] [--json]
    explorer follow FILE WHERE:LINE [--into STAGE] [--json]
    explorer compare FILE FILE... [--json | --markdown] [--fail-on RULES] [-o OUT]
    explorer ranks FOLDER [-o FILE] [--json]
    explorer fits CONFIG [--set NAME=VALUE]... [--target T]... [--world N] [--train [--optimizer NAME]] [--json]
    explorer sweep MODEL... [--target T]... [--variant V]... [--python P]... -o FOLDER [--json]
    explorer targets [--json]
    explorer backends [NAME...] [--json]
    explorer doctor [--warm] [--class FOLDER] [--json]
    explorer classpack [NOTEBOOK...] -o FOLDER [--json]
    explorer schema
    explorer mcp [FILE...] [--root FOLDER] [--read-only]

This module imports neither torch nor triton, so that `--help`, `--version`, `show` and `compare` answer at once.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import builtins
import difflib
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import IO, Any, NoReturn, TypeVar

from explorer import __version__
from explorer.errors import ExplorerError, FileError, InputError, chain
from explorer.process.ranks import (
    IN_FOLDER,
    LAUNCHERS,
    asks_for_rank,
    how_to_trace_ranks,
    make_folder,
    path_in_folder,
    path_of_rank,
    rank,
)
from explorer.process.sigterm import Ending, end, ends_on_sigterm

#: The exit status for a wrong use of explorer itself; argparse uses the same.
MISUSE = 2
#: The exit status of a program that Ctrl-C ended, by the convention of shells: 128 + SIGINT.
INTERRUPTED = 130

#: How a program ends at once: by itself, and where SIGTERM reaches it in C++.
EXITED = "os._exit ended the program"
ENDED_OUTSIDE = "SIGTERM ended the program while it waited outside of Python"
#: The exit status where `--fail-on` finds something.
BROKEN = 3
#: What `--fail-on` takes: of one trace, and of the difference of two.
RULES = ("graph-break", "recompile", "not-fused", "spill", "fallback", "failure")
RULES_OF_TWO = (*RULES, "graphs", "kernels", "pattern", "memory")
#: Seconds in which `explorer backends` tries all backends.
TRIALS_LIMIT = 600.0
USE_CACHES = (
    "read torch's caches, as the program does without explorer; a graph that comes from a cache is not compiled, so its stages "
    "are missing (default: caches are written, not read)"
)

WHICH_RANKS = "under torchrun, the ranks that are recorded: all, or numbers such as 0,3; the others run as without explorer"

TRACE_AS_JSON = (
    "print the trace, what breaks a rule, and the files as JSON on stdout, and send what the program prints to stderr; "
    "stands before the program, because many programs have such an option"
)
PROFILES = (
    "profile the program's own calls with torch.profiler: kernels, library calls, waits in collectives; it keeps an event for "
    "each operator until the end, so let the program take a few steps; not for a program that uses a profiler itself"
)
NCU = (
    "run the program under Nsight Compute's ncu, which counts stalls, sectors and bank conflicts of its Triton kernels, and read "
    "the report into the trace; each launch is replayed several times, so let the program take one step"
)

Run = Callable[[argparse.Namespace], int]
T = TypeVar("T")


def main(argv: list[str] | None = None) -> int:
    """Run the `explorer` command with `argv` (default: the process's own arguments) and return its exit status.

    An ExplorerError becomes one line on stderr and status 2. `explorer trace` leaves sys.argv, sys.path and `__main__` as
    the traced program expects them, because its threads and exit handlers may still read them.
    """
    options, unknown = parser().parse_known_args(argv)
    if unknown:
        _refuse(options.command_parser, unknown)
    try:
        status: int = options.run(options)
        return status
    except ExplorerError as error:
        print(f"explorer: {error}", file=sys.stderr)
        return MISUSE
    except BrokenPipeError:  # `explorer show … | head`
        _leave_stdout()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


#: What people write who know other tools, and the option that is meant.
OPTION_HABITS = {
    "--tokens": "--sequence",
    "--seq-len": "--sequence",
    "--batch-size": "--batch",
    "--gpu": "--target",
    "--gpus": "--world",
}


def _refuse(command: argparse.ArgumentParser, unknown: Sequence[str]) -> None:
    """End with the command's own usage, and offer the nearest options for those that it does not have."""
    known = [name for action in command._actions for name in action.option_strings]
    wrong = [text.partition("=")[0] for text in unknown if text.startswith("-")]
    meant = [OPTION_HABITS.get(name) or next(iter(difflib.get_close_matches(name, known, 1)), "") for name in wrong]
    offer = ", ".join(name for name in meant if name in known)
    command.error(f"unrecognized arguments: {' '.join(unknown)}" + (f"; did you mean {offer}?" if offer else ""))


def _leave_stdout() -> None:
    """Send the rest of what is written to stdout nowhere. Otherwise Python's own flush at exit prints an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _naming_stdout() -> Iterator[None]:
    """Raise a FileError where stdout cannot be written to. A pipe that nobody reads stays a BrokenPipeError, for `main`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(f"cannot write to stdout: {error.strerror or error}") from error


def parser() -> argparse.ArgumentParser:
    """Build the argument parser; each subcommand stores its function as `run`."""
    whole = argparse.ArgumentParser(prog="explorer", description="A Compiler Explorer for torch.compile.", allow_abbrev=False)
    whole.add_argument("--version", action="version", version=f"explorer {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    _add_trace(commands)
    _add_show(commands)
    _add_questions(commands)
    _add_compare(commands)
    ranks_command = _add(commands, "ranks", ranks, "say which ranks of a job compute the same, and join their traces into a file")
    ranks_command.add_argument("folder", metavar="FOLDER", type=Path, help="a folder with a trace or TORCH_TRACE log per rank")
    ranks_command.add_argument("-o", "--output", metavar="FILE", type=Path, help="write one file of all, for explorer.load")
    _add_json(ranks_command)
    _add_fits(commands)
    _add_sweep(commands)
    _add_json(_add(commands, "targets", targets, "list the targets that a trace can be made for"))
    backends_command = _add(commands, "backends", backends, "list torch.compile's backends and try whether each runs here")
    _add_json(backends_command)
    backends_command.add_argument("names", nargs="*", metavar="NAME", help="the backends to try (default: all)")
    doctor_command = _add(commands, "doctor", doctor, "say whether this machine is ready to trace, and what to do if not")
    doctor_command.add_argument("--warm", action="store_true", help="compile what the first trace would wait for")
    whole_class = "the day before a class: compile that, run the workshop's notebooks, and write the class pack to FOLDER"
    doctor_command.add_argument("--class", dest="pack", metavar="FOLDER", type=Path, help=whole_class)
    _add_json(doctor_command)
    pack_command = _add(
        commands, "classpack", classpack, "write copies of notebooks that run without PyTorch, with recorded traces"
    )
    pack_command.add_argument(
        "notebooks", metavar="NOTEBOOK", nargs="*", type=Path, help="notebooks that run here (default: the workshop's)"
    )
    pack_command.add_argument("-o", "--output", metavar="FOLDER", required=True, type=Path, help="the folder of the pack")
    _add_json(pack_command)
    _add(commands, "schema", schema, "print the JSON Schema of trace files")
    _add_mcp(commands)
    return whole


def _add_fits(commands: Any) -> None:
    command = _add(commands, "fits", fits, "say whether a model fits on GPUs you don't have, and what bounds a call of it")
    what = "a config class of transformers, such as LlamaConfig, or the path of a config.json"
    command.add_argument("config", metavar="CONFIG", help=what)
    what = "a field of the config, such as hidden_size=8192; repeat for several"
    command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="fields", help=what)
    what = "a GPU that `explorer targets` lists; repeat for several (default: h100)"
    command.add_argument("--target", action="append", default=[], metavar="T", dest="targets", help=what)
    command.add_argument(
        "--world", type=int, default=1, metavar="N", help="split the model over N of the GPU by tensor parallelism"
    )
    command.add_argument("--rank", type=int, default=0, metavar="N", help="the rank whose part is traced (default: 0)")
    command.add_argument("--batch", type=int, default=1, metavar="N", help="sequences in a call (default: 1)")
    command.add_argument(
        "--sequence", type=int, metavar="N", help="tokens in a sequence (default: 2048, or the model's positions)"
    )
    command.add_argument("--dtype", default="bfloat16", metavar="D", help="of the weights (default: bfloat16)")
    command.add_argument("--train", action="store_true", help="a call is a step of training: the loss and its backward")
    command.add_argument("--optimizer", metavar="NAME", help="with --train, a class of torch.optim, such as adamw")
    what = "with --train, each layer saves its input, and its backward computes the rest again"
    command.add_argument("--activation-checkpointing", action="store_true", help=what)
    what = "what a GPU sends to the others, in bytes/s (default: that of the GPU)"
    command.add_argument("--interconnect", type=float, metavar="RATE", help=what)
    _add_json(command)


def _add_sweep(commands: Any) -> None:
    command = _add(commands, "sweep", sweep, "trace several models for several targets and settings, and print a table")
    what = "FILE.py:NAME or MODULE:NAME of a function that returns (function, *arguments)"
    command.add_argument("models", metavar="MODEL", nargs="+", help=what)
    command.add_argument(
        "--target", action="append", default=[], metavar="T", help="a target; repeat for several (default: auto)"
    )
    what = "NAME:KEY=VALUE,KEY=VALUE: settings of explorer.trace, or options of Inductor's, such as tuned:mode=max-autotune"
    command.add_argument("--variant", action="append", default=[], metavar="V", help=f"{what}; repeat for several")
    what = "NAME=PATH: an interpreter of an environment with another torch; repeat for several"
    command.add_argument("--python", action="append", default=[], metavar="P", help=what)
    command.add_argument("--workers", type=int, default=2, metavar="N", help="the number of processes (default: 2)")
    _add_json(command)
    command.add_argument("-o", "--output", metavar="FOLDER", required=True, type=Path, help="the folder for the traces")


def _add_mcp(commands: Any) -> None:
    command = _add(commands, "mcp", mcp, "serve traces to agents over the Model Context Protocol, on stdin and stdout")
    command.add_argument("files", metavar="FILE", nargs="*", help="trace files or logs to open from the beginning, as t1, t2, …")
    what = "the folder with the files that the client may have read (default: the working folder)"
    command.add_argument("--root", metavar="FOLDER", type=Path, default=Path(), help=what)
    command.add_argument("--read-only", action="store_true", help="offer no tool that runs a program or changes one")


def _add(commands: Any, name: str, run: Run, help: str, **settings: Any) -> argparse.ArgumentParser:
    settings |= {"help": help, "description": f"{help[0].upper()}{help[1:]}.", "allow_abbrev": False}
    command: argparse.ArgumentParser = commands.add_parser(name, **settings)
    command.set_defaults(run=run, command_parser=command)
    return command


def _add_trace(commands: Any) -> None:
    usage = (
        "explorer trace [-h] [--json] [--profile] [--ncu] [--use-caches] (SCRIPT | -m MODULE) [ARGS...] [--target T] "
        "[--ranks all|0,3] [--fail-on RULES] [-o OUT]..."
    )
    command = _add(commands, "trace", trace, "run an unchanged program and record every torch.compile in it", usage=usage)
    command.add_argument("--target", default="auto", metavar="T", help="a name that `explorer targets` lists (default: auto)")
    command.add_argument("--use-caches", action="store_true", help=USE_CACHES)
    command.add_argument("--ranks", default="all", metavar="R", help=WHICH_RANKS)
    command.add_argument("--json", action="store_true", help=TRACE_AS_JSON)
    command.add_argument("--profile", action="store_true", help=PROFILES)
    command.add_argument("--ncu", action="store_true", help=NCU)
    _add_fail_on(command, RULES)
    _add_output(command)
    command.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="MODULE [ARGS...]: run a module, as python -m does")
    command.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the program; after `--` every argument is the program's"
    )


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print the same as JSON")


def _add_show(commands: Any) -> None:
    command = _add(commands, "show", show, "print a saved trace, or of a log")
    what = "a file that `explorer trace -o` or Trace.save wrote, or a log: of TORCH_TRACE, TORCH_COMPILE_DEBUG=1 or tritonparse"
    command.add_argument("file", metavar="FILE", help=what)
    command.add_argument(
        "--target", metavar="T", help="compile a log's Triton kernels again for this GPU, such as h100: runs their code"
    )
    shown = command.add_mutually_exclusive_group()
    shown.add_argument("--text", metavar="STAGE", help="print this stage's text instead, such as post_grad")
    what = "print this table instead, such as kernels, dynamo.graph_breaks or memory.peak, or a stage's own"
    shown.add_argument("--table", metavar="NAME", help=what)
    _add_json(command)
    _add_output(command)


def _add_questions(commands: Any) -> None:
    _add_question(commands, "advise", "say why the program of a saved trace is slow, the costliest cause first")
    command = _add_question(commands, "why", "say why two nodes are one kernel or not, or how one node was lowered")
    command.add_argument("first", metavar="NODE", help="an FX node, an operator such as sin, a buffer or a scheduler node")
    command.add_argument("second", metavar="NODE", nargs="?", help="the other node; without it, how the first was lowered")
    command.add_argument(
        "--graph", default="", metavar="GRAPH", help="forward, backward or inference, where several have such a node"
    )
    command.add_argument("--frame", default="", metavar="ID", help="the compile, such as 0/0, where several have such a node")
    command = _add_question(commands, "follow", "print what a line of one text became, or came from, in the others")
    what = "a line: of a stage, as post_grad:3, of a file of the program, as model.py:12, or of a text, by its id"
    command.add_argument("where", metavar="WHERE:LINE", help=what)
    command.add_argument("--into", default="", metavar="STAGE", help="only the lines of this stage, such as ptx")


def _add_question(commands: Any, name: str, help: str) -> argparse.ArgumentParser:
    command = _add(commands, name, ask, help)
    command.set_defaults(question=name)
    command.add_argument("file", metavar="FILE", help="a file that `explorer trace -o` or Trace.save wrote, or a log")
    _add_json(command)
    return command


def _add_compare(commands: Any) -> None:
    command = _add(
        commands, "compare", compare, "print what saved traces differ in and why, or write them side by side as a page"
    )
    command.add_argument("files", metavar="FILE", nargs="+", help="files that `explorer trace -o` or Trace.save wrote")
    command.add_argument("--name", action="append", default=[], metavar="NAME", help="what to call a trace: one for each FILE")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print what changed between two, for a pull request")
    form.add_argument("--json", action="store_true", help="print the same as JSON")
    _add_fail_on(command, RULES_OF_TWO)
    what = "write a page with two or three traces side by side; OUT ends in .html; repeat for several"
    command.add_argument("-o", "--output", action="append", default=[], metavar="OUT", type=Path, help=what)


def _add_fail_on(command: argparse.ArgumentParser, rules: Sequence[str]) -> None:
    def chosen(text: str) -> list[str]:
        names = [name.strip().replace("_", "-") for name in text.split(",")]
        if wrong := [name for name in names if name not in rules]:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not a rule; the rules are {', '.join(rules)}")
        return names

    what = f"exit with {BROKEN} if there is one of these, or if it cannot be judged: {','.join(rules)}"
    command.add_argument("--fail-on", action="extend", type=chosen, default=[], metavar="RULES", help=what)


def _add_output(command: argparse.ArgumentParser) -> None:
    what = (
        "write the trace: a page if OUT ends in .html, into a folder if it ends in /, else a trace file; repeat for several; "
        "under torchrun, one file per rank"
    )
    command.add_argument("-o", "--output", action="append", default=[], metavar="OUT", type=_output, help=what)


def _output(path: str) -> Path:
    """The path of an output; in a folder a name there, which `path_of_rank` makes that of a rank."""
    return path_in_folder(path, None)


# The subcommands ---------------------------------------------------------------------------------------------------------


def trace(options: argparse.Namespace) -> int:
    """Run the program under `explorer.record`, print the trace to stderr, write the outputs.

    Returns the program's own exit status. The table and the outputs are written even if the program fails.
    """
    options = _with_trailing(options)
    program = _program(options)
    is_asked_for = asks_for_rank(options.ranks, os.environ)
    _check_folders(options.output)
    if options.ncu and is_asked_for:
        return _traced_under_ncu(options)
    with _printing_to_stderr() if options.json else nullcontext() as answers:
        if not is_asked_for:
            with (outcome := Outcome()):
                program.run()
            return outcome.status
        return _traced(options, program, answers)


def _traced(options: argparse.Namespace, program: Program, answers: IO[str] | None) -> int:
    """Record the program and write what was recorded; `answers` is where JSON is asked for. Return the exit status."""
    from explorer import record
    from explorer.process.progress import logged
    from explorer.tracing.recording.compile_failures import with_error_of_rank

    outcome = Outcome()
    with ends_on_sigterm() as ending:
        with (
            logged(),
            record(options.target, name=program.name, fresh=not options.use_caches) as recording,
            _timed(options) as read,
            outcome,
        ):
            with _leaving_at_exit(lambda: _leave(recording, ending, options, EXITED, prints_table=True)):
                ending.run(program.run, lambda: _leave(recording, ending, options, ENDED_OUTSIDE, prints_table=False))
        own_rank, traced = rank(os.environ), _ended(read(recording.trace), ending)
        traced = with_error_of_rank(traced, outcome.error, os.environ)
        written = _write(traced, [path_of_rank(path, own_rank) for path in options.output])
    advice = _advice(traced, vars(sys.modules["__main__"]), program.name)
    broken = _broken_rules(traced, options.fail_on)
    if answers is None:
        print(traced, *advice, *written, sep="\n", file=sys.stderr)
        for finding in broken:  # printed even where the program's own status is returned
            print(f"explorer: {finding}", file=sys.stderr)
    else:
        said = {"advice": advice, "broken": list(map(str, broken)), "status": outcome.status, "rank": own_rank}
        files = [str(path_of_rank(path, own_rank)) for path in options.output]
        # of several processes each prints a line, in one write
        _print_json({**_shown(traced, None), **said, "files": files}, answers, indent=2 if own_rank is None else None)
    return outcome.status or (BROKEN if broken else 0)


def _traced_under_ncu(options: argparse.Namespace) -> int:
    """Trace the program in a process that ncu profiles, then read the report into its trace. Return the exit status."""
    from explorer import load
    from explorer.process import nsight_compute, scratch

    if options.json:
        raise InputError(
            "--ncu has no --json: the report is read after the program ended. Write the trace with -o OUT, then "
            "explorer show OUT --table profile.counters.lines --json"
        )
    own_rank = rank(os.environ)
    with scratch.folder() as folder:
        report, output = Path(folder, "report.ncu-rep"), Path(folder, "program.trace")
        program = [sys.executable, "-m", "explorer", "trace", *_again(options), "-o", str(output)]
        status = subprocess.run(nsight_compute.profiling(report, program), check=False).returncode
        recorded = path_of_rank(output, own_rank)
        if not recorded.exists():
            raise FileError("the program left no trace under ncu, which said why above")
        traced, said = _with_report(_of_one_rank(load(recorded), str(recorded), "trace"), report)
    written = _write(traced, [path_of_rank(path, own_rank) for path in options.output])
    print(*said, *written, sep="\n", file=sys.stderr)
    return status


def _with_report(traced: Any, report: Path) -> tuple[Any, list[object]]:
    """Return a trace with a report, and what to print of it; the trace as it is where the report cannot be read."""
    if not report.exists():
        return traced, ["explorer: ncu wrote no report: no Triton kernel was launched, or ncu said above why it was refused"]
    try:
        counted = traced.attach(report)
    except ExplorerError as error:  # the program ran for it, so its trace is kept
        return traced, [f"explorer: {error}"]
    return counted, [counted.profile.counters.shares, counted.advise()]


def _again(options: argparse.Namespace) -> list[str]:
    """Return the arguments that trace the same program, without those that are about the report and the outputs."""
    rules = ["--fail-on", ",".join(options.fail_on)] if options.fail_on else []
    switches = [name for name in ("--profile", "--use-caches") if getattr(options, name.strip("-").replace("-", "_"))]
    program = [*(["-m", *options.module] if options.module is not None else []), *options.script]
    return ["--target", options.target, "--ranks", options.ranks, *rules, *switches, *program]


def _leave(recording: Any, ending: Ending, options: argparse.Namespace, how: str, prints_table: bool) -> bool:
    """Write what was recorded of a program that ends at once; `how` says how. Return whether it breaks a rule of --fail-on.

    The trace is not printed where a launcher may kill the rank soon.
    """
    from explorer.model.values import Failure

    traced = _ended(recording.so_far(), ending)
    lost = []
    if options.profile:  # torch gives the events of a profiler once it is stopped, which only the thread that waits can do
        lost.append(Failure("run_times", "read the profile", f"{how} before the profiler was stopped"))
    if any(kernel.language == "triton" for kernel in traced.kernels):
        lost.append(Failure("ladder", "compile the kernels", f"{how} before its Triton kernels were compiled to machine code"))
    traced = replace(traced, failures=(*traced.failures, *lost))
    try:
        written = _write(traced, [path_of_rank(path, rank(os.environ)) for path in options.output])
        broken = _broken_rules(traced, options.fail_on)
    except ExplorerError as error:
        written, broken = [f"explorer: {error}"], []
    table = [traced] if prints_table else []
    findings = [f"explorer: {finding}" for finding in broken]
    print(f"explorer: {how}", *table, *written, *findings, sep="\n", file=sys.stderr, flush=True)
    return bool(broken)


@contextmanager
def _leaving_at_exit(leave: Callable[[], bool]) -> Iterator[None]:
    """Let a program that ends by os._exit call `leave` first; a child that was forked ends as without this."""
    original, process = os._exit, os.getpid()

    def leave_and_exit(status: int) -> NoReturn:
        if os.getpid() != process:
            original(status)
        os._exit = original  # so that nothing is left twice
        broken = False
        try:
            broken = leave()
        finally:
            end(status or (BROKEN if broken else 0))

    os._exit = leave_and_exit
    try:
        yield
    finally:
        if os._exit is leave_and_exit:
            os._exit = original


def _ended(traced: Any, ending: Ending) -> Any:
    """The trace of a program that SIGTERM ended, with where it was then."""
    return replace(traced, meta={**traced.meta, "ended_at": ending.place}) if ending.place else traced


@contextmanager
def _timed(options: argparse.Namespace) -> Iterator[Callable[[Any], Any]]:
    """Give what makes of the program's trace one with its times, where `--profile` asks for them."""
    if not options.profile:
        yield lambda traced: traced
        return
    from explorer.tracing.recording.profiling import profiling

    with profiling() as read:
        yield read


class _Answers(io.FileIO):
    """A stdout whose errors are explorer's own."""

    def write(self, data: Any, /) -> int:
        with _naming_stdout():
            return super().write(data)


def _copy_of_stdout() -> int:
    """A file descriptor of this process's stdout; FileError where it is closed or cannot be written to."""
    if sys.stdout is None:  # in a process that was started without one; 1 may be any file by now
        raise FileError("cannot write to stdout: it is closed; send it to a file, or leave --json out")
    with _naming_stdout():
        sys.stdout.flush()
        return os.dup(1)


@contextmanager
def _printing_to_stderr() -> Iterator[IO[str]]:
    """Send what this process and its children print to stderr; give the stdout that was, for the answer alone.

    FileError where that is closed, or cannot be written to. A pipe that nobody reads stays a BrokenPipeError, for `main`.
    """
    own = _copy_of_stdout()
    answers = io.TextIOWrapper(io.BufferedWriter(_Answers(own, "w")), encoding="utf-8")
    try:
        os.dup2(2, 1)
        try:
            with redirect_stdout(sys.stderr):  # sys.stdout may not be the process's own, as in a notebook
                yield answers
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            os.dup2(own, 1)
        answers.flush()
    finally:
        with suppress(OSError):  # it writes again what could not be written, whose error was raised above
            answers.close()
    atexit.register(os.dup2, 2, 1)  # runs before the program's own handlers, which may print


def _broken_rules(recorded: Any, names: Sequence[str]) -> list[Any]:
    """What breaks the rules of `--fail-on`."""
    if not names:
        return []
    from explorer.analysis.findings.rules import RULES as FINDERS

    return [finding for name in dict.fromkeys(names) for finding in FINDERS[name](recorded)]


def _advice(recorded: Any, names: Mapping[str, Any], program: str) -> list[str]:
    """Advise on a program that compiled nothing; `names` are those at its top level."""
    from explorer.capture.compilers.torch_compile import could_be_compiled, unwrapped

    if recorded.artifacts or recorded.failures:
        return []
    if Path(program).name in LAUNCHERS:
        return [f"explorer: {how_to_trace_ranks(Path(program).name)}"]
    lines = [
        "explorer: nothing that the program ran in this process is under torch.compile. Put model = torch.compile(model) before "
        "its calls, or @torch.compile above a function, and call it; in Python explorer.trace(model, x) needs neither"
    ]
    compiled = [name for name, value in names.items() if unwrapped(value) is not value]
    modules = [name for name, value in names.items() if name not in compiled and could_be_compiled(value)]
    if compiled:
        lines.append(f"explorer: under torch.compile, but not called: {', '.join(compiled)}")
    elif modules:
        lines.append(f"explorer: modules that can be compiled: {'; '.join(f'{n} = torch.compile({n})' for n in modules)}")
    return lines


def show(options: argparse.Namespace) -> int:
    """Print what takes the time of a saved trace or a log, or a stage's text or a table of it, or write it in another form."""
    from explorer import load

    loaded = load(options.file, target=options.target)
    _check_folders(options.output)
    if options.table:
        from explorer.entry.mcp.questions import table
        from explorer.model.values import Table

        answer = table(_of_one_rank(loaded, options.file, "show"), options.table)
        if options.json:
            _print_json({"table": options.table, "rows": answer.rows})
        else:
            print(answer.rows if isinstance(answer.rows, Table) else answer.text)
    elif options.json:
        _print_json(_shown(_of_one_rank(loaded, options.file, "show"), options.text))
    elif options.text:
        print(_of_one_rank(loaded, options.file, "show").text(options.text))
    elif not options.output:
        print(loaded)
    sys.stdout.flush()
    for line in _write(loaded, options.output):
        print(line, file=sys.stderr)
    return 0


def ask(options: argparse.Namespace) -> int:
    """Print the answer to one question about a saved trace."""
    from explorer import load
    from explorer.entry import asked

    trace = _of_one_rank(load(options.file), options.file, options.question)
    answer = asked.QUESTIONS[options.question](trace, options)
    if options.json:
        _print_json({"answer": answer.text, "rows": answer.rows})
    else:
        print(*asked.printed(answer), sep="\n")
    return 0


def _shown(trace: Any, stage: str | None) -> dict[str, Any]:
    """What `show` prints, as values: the stage table, or the texts of one stage."""
    from explorer.analysis.questions.summary import counts, failure_rows, summary_rows

    if stage:
        trace.text(stage)  # raises, with the reason, where there is none
        texts = [{"id": a.id, "frame": a.frame, "graph": a.graph, "kernel": a.kernel, "text": a.text} for a in trace.find(stage)]
        return {"stage": stage, "texts": texts}
    rows = [*summary_rows(trace), *failure_rows(trace)]
    failures = [str(failure) for failure in trace.failures]
    return {"meta": trace.meta, "counts": counts(trace), "stages": rows, "failures": failures}


def _print_json(value: object, file: IO[str] | None = None, indent: int | None = 2) -> None:
    """Print a value as JSON; of a table each row has its columns as keys. FileError where stdout cannot be written to."""
    from explorer.model.values import jsonable, plain

    text = json.dumps(jsonable(plain(value)), indent=indent, ensure_ascii=False)
    try:
        with _naming_stdout():
            print(text, file=file, flush=True)
    except FileError:
        if file is None:
            _leave_stdout()
        raise


def _of_one_rank(loaded: Any, file: str, verb: str) -> Any:
    """What was loaded of a file; InputError if it has several ranks."""
    if isinstance(loaded, Mapping):
        raise InputError(f"{file} has several ranks: {verb} one rank's file, or load it in Python and index it by rank")
    return loaded


def compare(options: argparse.Namespace) -> int:
    """Print what traces were compiled into, and of two why; the status is `BROKEN` for what `--fail-on` names."""
    from explorer import compare as comparison_of
    from explorer import load
    from explorer.analysis.findings.report import difference, findings, in_words
    from explorer.model.wording import quantity

    _check_folders(options.output)
    for path in options.output:
        if not _is_page(path):
            raise InputError(f"cannot write {path}: several traces are written as a page, to a name that ends in .html")
    two = len(options.files) == 2
    if not two and (options.fail_on or options.markdown):
        raise InputError(f"--fail-on and --markdown are for two traces, before and after, not for {len(options.files)}")
    traces = [_of_one_rank(load(file), file, "compare") for file in options.files]
    compared = comparison_of(*traces, names=options.name or (("before", "after") if two else ()))
    found = findings(*traces) if two else ()
    if options.json:
        tables: dict[str, object] = {"figures": compared.figures, "lines": compared.lines, "groups": compared.groups}
        if two:
            tables |= {"findings": [finding.plain() for finding in found], "first_difference": compared.first_difference}
        _print_json(tables)
    elif options.markdown:
        print(difference(compared, found).markdown)
    elif not options.output or options.fail_on:
        files = [f"{name} is {file}" for name, file in zip(compared.names, options.files, strict=True)]
        not_judged = [in_words(found)] if found and found[0].rule == "target" else []  # which the comparison itself leaves out
        print(compared, "\n".join(files), *not_judged, sep="\n\n")
    for line in _write(compared, options.output):
        print(line, file=sys.stderr)
    names = {"peak memory" if name == "memory" else name for name in options.fail_on}
    worse = [finding for finding in found if not finding.is_gain]
    broken = [finding for finding in worse if finding.rule in names or (names and not finding.judged)]
    if broken:
        rules = ", ".join(dict.fromkeys(finding.rule for finding in broken))
        print(f"explorer: {quantity(len(broken), 'finding')} that --fail-on names: {rules}", file=sys.stderr)
    return BROKEN if broken else 0


def ranks(options: argparse.Namespace) -> int:
    """Print which ranks of a job compute the same, and where others differ; write one file of all."""
    from explorer.sources.ranks.folder import files_at
    from explorer.tracing.traced.ranks import load_ranks

    output = options.output
    _check_folders([output] if output else [])
    loaded = load_ranks(options.folder)
    if output and output.exists() and any(file.samefile(output) for file in files_at(options.folder)):
        raise InputError(f"cannot write {output}: it is the file of one rank; give another name")
    if output:
        loaded.save(output)
    if options.json:
        _print_json({**loaded.plain(), "file": str(output) if output else None})
    else:
        print(loaded)
    if output:
        print(f"explorer: wrote {output} ({output.stat().st_size / 1e3:,.0f} kB)", file=sys.stderr)
    return 0


def fits(options: argparse.Namespace) -> int:
    """Print whether the model fits on each target, what its memory is, and what bounds a call."""
    from explorer import fits as fitting

    names = ("world", "rank", "batch", "sequence", "dtype", "train", "optimizer", "activation_checkpointing", "interconnect")
    arguments = {name: getattr(options, name) for name in names} | dict(map(_field, options.fields))
    found = []
    with _printing_to_stderr() if options.json else nullcontext() as answers:
        for target in options.targets or ["h100"]:
            found.append(fitting(options.config, target=target, **arguments))
            if not options.json:
                print(found[-1], end="\n\n" if len(found) < len(options.targets) else "\n", flush=True)
        if options.json:
            _print_json([one.plain() for one in found], answers)
    return 0


def _field(text: str) -> tuple[str, Any]:
    """A field of a config and its value: of JSON where it is that, such as 8192 or true, else the text itself."""
    name, is_set, value = text.partition("=")
    if not is_set or not name:
        raise InputError(f"--set takes NAME=VALUE, such as hidden_size=8192, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def sweep(options: argparse.Namespace) -> int:
    """Trace every cell and print a row of each; the status is `BROKEN` if one failed."""
    from explorer import sweep as swept

    variants = _by_name("--variant", map(_variant, options.variant))
    pythons = _by_name("--python", (_pair(text, "=", "NAME=PATH") for text in options.python))
    with _printing_to_stderr() if options.json else nullcontext() as answers:
        found = swept(
            options.models,
            options.target or ("auto",),
            variants,
            folder=options.output,
            pythons=pythons,
            workers=options.workers,
        )
        if options.json:
            _print_json(found.plain(), answers)
    if not options.json:
        print(found)
    return BROKEN if found.failed else 0


def _variant(text: str) -> tuple[str, dict[str, Any]]:
    """A name and the settings of `explorer.trace` of a text such as "tuned:dynamic=False,max_autotune=True"."""
    from explorer.studies.sweeping.sweep import SETTINGS

    name, _, listed = text.partition(":")
    if "=" in name:
        raise InputError(f"--variant takes NAME:KEY=VALUE, such as tuned:{name}, not {text!r}")
    settings: dict[str, Any] = {}
    for key, value in _by_name(text, (_pair(part, "=", "KEY=VALUE") for part in listed.split(",") if part)).items():
        try:
            read = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            read = value
        if key in SETTINGS:
            settings[key] = read
        else:
            settings.setdefault("options", {})[key] = read
    return name, settings


def _by_name(option: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """What an option gives by name. InputError for a name that is given twice, of which one would be lost."""
    values: dict[str, T] = {}
    for name, value in pairs:
        if name in values:
            raise InputError(f"{option} has {name!r} twice: give each a name of its own")
        values[name] = value
    return values


def _pair(text: str, between: str, form: str) -> tuple[str, str]:
    first, found, second = text.partition(between)
    if not first or not found:
        raise InputError(f"{text!r} is not {form}")
    return first, second


def targets(options: argparse.Namespace) -> int:
    """Print one line per target: name, whether it works on this machine, title, and why it does not."""
    from explorer import targets as all_targets

    rows = all_targets()
    if options.json:
        _print_json(rows)
        return 0
    width = max(len(row["target"]) for row in rows)
    for row in rows:
        why = f": {row['why']}" if row["why"] else ""
        print(f"{row['target']:<{width}}  {'yes' if row['works'] else 'no ':<3}  {row['title']}{why}")
    return 0


def backends(options: argparse.Namespace) -> int:
    """Print one line per backend as soon as it was tried; refuse an unknown name before the first try."""
    from explorer import backends as tried
    from explorer.capture.compilers.backend import registered, resolve
    from explorer.capture.compilers.catalogue import known_backend

    names = options.names or None
    for name in names or ():
        if not known_backend(name):
            resolve(name)
    if options.json:
        _print_json(list(tried(names, timeout=TRIALS_LIMIT).as_tried()))
        return 0
    width = max(map(len, names or registered()))
    for row in tried(names, timeout=TRIALS_LIMIT).as_tried():
        print(f"{row['backend']:<{width}}  {'yes' if row['works'] else 'no ':<3}  {row['why']}".rstrip(), flush=True)
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Print "ready", or what is missing and its remedy, then the details; the status is 0 or 1."""
    from explorer.entry.doctor import diagnosis

    if options.pack is not None:
        return _class_day(options)
    found = diagnosis(warm=options.warm)
    print(json.dumps(found.plain(), indent=2) if options.json else found)
    return 0 if found.ready else 1


def _class_day(options: argparse.Namespace) -> int:
    """Print "ready for a class", or what is missing; the status is 0 or 1."""
    from explorer.entry.class_day import class_day

    with _printing_to_stderr() if options.json else nullcontext() as answers:
        found = class_day(options.pack)
        if options.json:
            _print_json(found.plain(), answers)
    if not options.json:
        print(found)
    return 0 if found.ready else 1


def classpack(options: argparse.Namespace) -> int:
    """Run notebooks here, and write the copies and what was recorded."""
    from explorer.errors import require_installed
    from explorer.workshop.classpack.notebooks import workshop_notebooks
    from explorer.workshop.classpack.pack import make

    for module in ("torch", "nbclient"):
        require_installed(module, "explorer classpack", "full")
    rows = []
    with _printing_to_stderr() if options.json else nullcontext() as answers:
        for pack in make(options.notebooks or workshop_notebooks(), options.output):
            rows.append(pack.plain())
            if not options.json:
                print(f"explorer: wrote {pack}", flush=True)
        if options.json:
            _print_json(rows, answers)
    return 0


def schema(options: argparse.Namespace) -> int:
    """Print the JSON Schema of trace files and recordings."""
    from explorer.sources.files.schema import schema as schema_of_files

    _print_json(schema_of_files())
    return 0


def mcp(options: argparse.Namespace) -> int:
    """Serve until the client ends it."""
    from explorer.errors import require_installed

    require_installed("mcp", "explorer mcp", "mcp")
    from explorer.entry.mcp.server import serve

    serve(options.files, root=options.root, runs_code=not options.read_only)
    return 0


def _check_folders(outputs: Sequence[Path]) -> None:
    """Raise InputError for an output without a folder, before the program runs for an hour and not after.

    A folder that OUT named itself, by a last "/", is made.
    """
    for path in outputs:
        if path.name == IN_FOLDER:
            make_folder(path.parent)
        if not path.absolute().parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")


def _is_page(path: Path) -> bool:
    return path.suffix.lower() in (".html", ".htm")


def _write(written_trace: Any, outputs: Sequence[Path]) -> list[str]:
    """Write the trace to each output, and return one line about each."""
    lines = []
    for path in outputs:
        write = written_trace.to_html if _is_page(path) else written_trace.save
        try:
            write(path)
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror or error}") from error
        lines.append(f"explorer: wrote {path} ({path.stat().st_size / 1e3:,.0f} kB)")
    return lines


# The program -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A script or module to run as `__main__`, with its own arguments."""

    name: str
    arguments: Sequence[str]
    is_module: bool

    def run(self) -> None:
        """Run it as `python SCRIPT` or `python -m MODULE` would, in this process."""
        start = _module_start if self.is_module else _script_start
        main_module, code = start(self.name)
        sys.argv[:] = [main_module.__file__ or self.name if self.is_module else self.name, *self.arguments]
        sys.modules["__main__"] = main_module
        exec(code, main_module.__dict__)


def _with_trailing(options: argparse.Namespace) -> argparse.Namespace:
    """Take explorer's own options from the end of the command line too.

    After a `--` before the script every argument is the script's, because a script may have options of the same names.
    """
    given = options.script if options.module is None else options.module
    trailing = argparse.ArgumentParser(prog="explorer trace", allow_abbrev=False, add_help=False)
    trailing.add_argument("--target")
    trailing.add_argument("--ranks")
    _add_fail_on(trailing, RULES)
    _add_output(trailing)
    at = len(given)
    while given[:1] != ["--"] and at >= 3 and (given[at - 2] in ("-o", "--output", "--target", "--ranks", "--fail-on")):
        at -= 2
    parsed = trailing.parse_args(given[at:])
    options.target = parsed.target or options.target
    options.ranks = parsed.ranks or options.ranks
    options.fail_on = [*options.fail_on, *parsed.fail_on]
    options.output = [*options.output, *parsed.output]
    del given[at:]
    return options


def _program(options: argparse.Namespace) -> Program:
    """Return the program that the arguments name; raise InputError if they name none."""
    is_module = options.module is not None
    given = [*(options.module or ()), *options.script]  # argparse ends the module's arguments at "--": the rest are the script's
    if not is_module and given[:1] == ["--"]:
        given = given[1:]
    if not given:
        raise InputError("nothing to run: explorer trace SCRIPT [ARGS...], or explorer trace -m MODULE [ARGS...]")
    name, *arguments = given
    check = _check_module if is_module else _check_script
    check(name)
    return Program(name, arguments, is_module)


def _check_module(name: str) -> None:
    """Raise InputError if the outermost package is missing; inner packages are looked up when the program runs."""
    _set_first_on_path(os.getcwd())
    if not name or name.startswith((".", "-")) or importlib.util.find_spec(name.partition(".")[0]) is None:
        raise InputError(f"cannot run -m {name}: there is no module of that name")


def _check_script(name: str) -> None:
    if Path(name).is_file():
        return
    if name.startswith("-"):
        raise InputError(f"explorer trace has no option {name}; the script's own options follow the script")
    what = "is a folder, not a script" if Path(name).is_dir() else "does not exist"
    raise InputError(f"cannot run {name}: it {what}")


def _script_start(script: str) -> tuple[ModuleType, CodeType]:
    """Return an empty `__main__` for a script, and its code; put the script's folder first on sys.path."""
    file = os.path.abspath(script)
    _set_first_on_path(os.path.dirname(os.path.realpath(script)))
    main_module = ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    main_module.__dict__.update(__file__=file, __loader__=loader, __cached__=None, __builtins__=builtins)
    with io.open_code(file) as stream:
        return main_module, compile(stream.read(), file, "exec", dont_inherit=True)


def _module_start(name: str) -> tuple[ModuleType, CodeType]:
    """Return an empty `__main__` for a module, and its code; a package runs its `__main__` module."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    code = getattr(spec.loader, "get_code", lambda _: None)(spec.name) if spec is not None else None
    if spec is None or code is None:
        raise ModuleNotFoundError(f"No module named {name}, or none that can be run", name=name)
    main_module = ModuleType("__main__")
    attributes = {"__file__": spec.origin, "__loader__": spec.loader, "__package__": spec.parent, "__cached__": spec.cached}
    main_module.__dict__.update(attributes, __spec__=spec, __builtins__=builtins)
    return main_module, code


def _set_first_on_path(folder: str) -> None:
    """Replace the sys.path entry that Python made for `explorer` itself; `python -P` makes none and wants none."""
    if not sys.flags.safe_path:
        sys.path[:1] = [folder]


class Outcome:
    """A with block that keeps the program's exit status and prints its exception, as Python does.

    No exception of the program leaves the block, so that its trace can still be written.
    """

    def __init__(self) -> None:
        self.status = 0
        self.error: BaseException | None = None

    def __enter__(self) -> Outcome:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> bool:
        if isinstance(error, SystemExit):
            self.status = exit_status(error)
        elif error is not None:
            self.error = error
            self.status = INTERRUPTED if type(error) is KeyboardInterrupt else 1  # of a class of its own Python gives 1
            for one in chain(error):
                one.__traceback__ = without_own_frames(one.__traceback__)
            sys.excepthook(type(error), error, error.__traceback__)
            if "active drivers" in str(error):
                from explorer.capture.compilers.torch_compile import no_driver

                print(f"explorer: {no_driver(error)}", file=sys.stderr)
        return True


def exit_status(error: SystemExit) -> int:
    """Return Python's status for sys.exit(code): 0 for None, an int itself; else print the code and return 1."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    print(error.code, file=sys.stderr)
    return 1


def without_own_frames(trail: TracebackType | None) -> TracebackType | None:
    """Drop explorer's own frames from a traceback: they are no part of the program."""
    kept = [t for t in _frames(trail) if str(t.tb_frame.f_globals.get("__name__")).partition(".")[0] != "explorer"]
    for one, following in zip_longest(kept, kept[1:]):
        one.tb_next = following
    return kept[0] if kept else None


def _frames(trail: TracebackType | None) -> Iterator[TracebackType]:
    while trail is not None:
        yield trail
        trail = trail.tb_next
