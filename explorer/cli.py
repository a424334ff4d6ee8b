"""The `explorer` command: trace a script, show a saved trace, compare several, list targets and backends, look what is missing.

    explorer trace SCRIPT [ARGS...] [--target T] [--ranks all|0,3] [-o OUT]...      also: -m MODULE [ARGS...]
    explorer show FILE [--stage NAME] [--json] [-o OUT]...
    explorer compare FILE FILE... [--json] [-o OUT]
    explorer diff BEFORE AFTER [--markdown | --json] [--fail-on RULES]
    explorer merge FOLDER -o FILE
    explorer targets [--json]
    explorer backends [NAME...] [--json]
    explorer doctor [--warm] [--json]
    explorer classpack NOTEBOOK... -o FOLDER
    explorer mcp [FILE...] [--read-only]

This module imports neither torch nor triton, so that `--help`, `--version`, `show` and `compare` answer at once.
"""

from __future__ import annotations

import argparse
import builtins
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from explorer import __version__
from explorer.errors import ExplorerError, FileError, InputError, chain
from explorer.process.ranks import (
    IN_FOLDER,
    LAUNCHERS,
    asks_for_rank,
    ends_on_sigterm,
    how_to_trace_ranks,
    make_folder,
    path_in_folder,
    path_of_rank,
    rank,
)

#: The exit status for a wrong use of explorer itself; argparse uses the same.
MISUSE = 2
#: The exit status of a program that Ctrl-C ended, by the convention of shells: 128 + SIGINT.
INTERRUPTED = 130

#: The exit status where `--fail-on` finds something.
BROKEN = 3
#: What `--fail-on` takes: of one trace, and of the difference of two.
RULES = ("break", "recompile", "unfused", "spill", "fallback", "failure")
RULES_OF_DIFF = ("break", "recompile", "unfused", "spill", "fallback", "failure", "graphs", "kernels", "memory")
#: Seconds in which `explorer backends` tries all backends.
TRIALS_LIMIT = 600.0
USE_CACHES = (
    "read torch's caches, as the program does without explorer; a graph that comes from a cache is not compiled, so its stages "
    "are missing (default: caches are written, not read)"
)

WHICH_RANKS = "under torchrun, the ranks that are recorded: all, or numbers such as 0,3; the others run as without explorer"

Run = Callable[[argparse.Namespace], int]


def main(argv: list[str] | None = None) -> int:
    """Run the `explorer` command with `argv` (default: the process's own arguments) and return its exit status.

    An ExplorerError becomes one line on stderr and status 2. `explorer trace` leaves sys.argv, sys.path and `__main__` as
    the traced program expects them, because its threads and exit handlers may still read them.
    """
    options = parser().parse_args(argv)
    try:
        status: int = options.run(options)
        return status
    except ExplorerError as error:
        print(f"explorer: {error}", file=sys.stderr)
        return MISUSE
    except BrokenPipeError:
        # `explorer show … | head`: send the rest of the buffer nowhere, or Python's own flush at exit prints an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """Build the argument parser; each subcommand stores its function as `run`."""
    whole = argparse.ArgumentParser(prog="explorer", description="A Compiler Explorer for torch.compile.", allow_abbrev=False)
    whole.add_argument("--version", action="version", version=f"explorer {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    _add_trace(commands)
    _add_show(commands)
    _add_compare(commands)
    _add_diff(commands)
    merge_command = _add(commands, "merge", merge, "join the traces or logs of a job's ranks into one file, and compare them")
    merge_command.add_argument("folder", metavar="FOLDER", type=Path, help="a folder with a trace or TORCH_TRACE log per rank")
    merge_command.add_argument("-o", "--output", metavar="FILE", required=True, type=Path, help="the file, for explorer.load")
    _add_json(_add(commands, "targets", targets, "list the targets that a trace can be made for"))
    backends_command = _add(commands, "backends", backends, "list torch.compile's backends and try whether each runs here")
    _add_json(backends_command)
    backends_command.add_argument("names", nargs="*", metavar="NAME", help="the backends to try (default: all)")
    doctor_command = _add(commands, "doctor", doctor, "say whether this machine is ready to trace, and what to do if not")
    doctor_command.add_argument("--warm", action="store_true", help="compile what the first trace would wait for")
    _add_json(doctor_command)
    pack_command = _add(
        commands, "classpack", classpack, "write copies of notebooks that run without PyTorch, with recorded traces"
    )
    pack_command.add_argument("notebooks", metavar="NOTEBOOK", nargs="+", type=Path, help="notebooks that run here")
    pack_command.add_argument("-o", "--output", metavar="FOLDER", required=True, type=Path, help="the folder of the pack")
    _add_mcp(commands)
    return whole


def _add_mcp(commands: Any) -> None:
    command = _add(commands, "mcp", mcp, "serve traces to agents over the Model Context Protocol, on stdin and stdout")
    command.add_argument("files", metavar="FILE", nargs="*", help="trace files or logs to open from the beginning, as t1, t2, …")
    command.add_argument("--read-only", action="store_true", help="offer no tool that runs a program or changes one")


def _add(commands: Any, name: str, run: Run, help: str, **settings: Any) -> argparse.ArgumentParser:
    settings |= {"help": help, "description": f"{help[0].upper()}{help[1:]}.", "allow_abbrev": False}
    command: argparse.ArgumentParser = commands.add_parser(name, **settings)
    command.set_defaults(run=run)
    return command


def _add_trace(commands: Any) -> None:
    usage = "explorer trace [-h] (SCRIPT | -m MODULE) [ARGS...] [--target T] [--ranks all|0,3] [--fail-on RULES] [-o OUT]..."
    command = _add(commands, "trace", trace, "run an unchanged program and record every torch.compile in it", usage=usage)
    command.add_argument("--target", default="auto", metavar="T", help="a name that `explorer targets` lists (default: auto)")
    command.add_argument("--use-caches", action="store_true", help=USE_CACHES)
    command.add_argument("--ranks", default="all", metavar="R", help=WHICH_RANKS)
    _add_fail_on(command, RULES)
    _add_output(command)
    command.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="MODULE [ARGS...]: run a module, as python -m does")
    command.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the program; after `--` every argument is the program's"
    )


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print the same as JSON")


def _add_show(commands: Any) -> None:
    command = _add(commands, "show", show, "print the stage table of a saved trace, or of a log")
    what = "a file that `explorer trace -o` or Trace.save wrote, or a log: of TORCH_TRACE, TORCH_COMPILE_DEBUG=1 or tritonparse"
    command.add_argument("file", metavar="FILE", help=what)
    command.add_argument(
        "--target", metavar="T", help="compile a log's Triton kernels again for this GPU, such as h100: runs their code"
    )
    command.add_argument("--stage", metavar="NAME", help="print this stage's text instead, such as post_grad")
    _add_json(command)
    _add_output(command)


def _add_compare(commands: Any) -> None:
    command = _add(commands, "compare", compare, "print what saved traces differ in, or write them side by side as a page")
    command.add_argument("files", metavar="FILE", nargs="+", help="files that `explorer trace -o` or Trace.save wrote")
    command.add_argument("--name", action="append", default=[], metavar="NAME", help="what to call a trace: one for each FILE")
    _add_json(command)
    what = "write a page with two or three traces side by side; OUT ends in .html; repeat for several"
    command.add_argument("-o", "--output", action="append", default=[], metavar="OUT", type=Path, help=what)


def _add_diff(commands: Any) -> None:
    command = _add(commands, "diff", diff, "print what one trace compiled otherwise than another, with the reasons")
    command.add_argument("files", metavar="FILE", nargs=2, help="the traces before and after")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print it for a pull request")
    form.add_argument("--json", action="store_true", help="print it as JSON: figures and findings")
    _add_fail_on(command, RULES_OF_DIFF)


def _add_fail_on(command: argparse.ArgumentParser, rules: Sequence[str]) -> None:
    def chosen(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        if wrong := [name for name in names if name not in rules]:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is no rule: {', '.join(rules)}")
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
    """Run the program under `explorer.record`, print the stage table to stderr, write the outputs.

    Returns the program's own exit status. The table and the outputs are written even if the program fails.
    """
    options = _with_trailing(options)
    program = _program(options)
    is_asked_for = asks_for_rank(options.ranks, os.environ)
    _check_folders(options.output)
    outcome = Outcome()
    if not is_asked_for:
        with outcome:
            program.run()
        return outcome.status
    from explorer import record

    with ends_on_sigterm() as run:
        with record(options.target, name=program.name, fresh=not options.use_caches) as recording, outcome:
            run(program.run)
        own_rank = rank(os.environ)
        written = _write(recording.trace, [path_of_rank(path, own_rank) for path in options.output])
    advice = _advice(recording.trace, vars(sys.modules["__main__"]), program.name)
    print(recording.trace, *advice, *written, sep="\n", file=sys.stderr)
    broken = _broken_rules(recording.trace, options.fail_on)  # printed even where the program's own status is returned
    return outcome.status or broken


def _broken_rules(recorded: Any, names: Sequence[str]) -> int:
    """Print to stderr what breaks the rules of `--fail-on`, and return the exit status."""
    if not names:
        return 0
    from explorer.testing.rules import RULES as FINDERS

    found = [finding for name in dict.fromkeys(names) for finding in FINDERS[name](recorded)]
    for finding in found:
        print(f"explorer: {finding}", file=sys.stderr)
    return BROKEN if found else 0


def _advice(recorded: Any, names: Mapping[str, Any], program: str) -> list[str]:
    """Advise on a program that compiled nothing; `names` are those at its top level."""
    from explorer.compilers.torch_compile import could_be_compiled, unwrapped

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
    """Print the stage table or one stage's text of a saved trace or a log, or write the trace in another form."""
    from explorer import load

    loaded = load(options.file, target=options.target)
    _check_folders(options.output)
    if options.json:
        _print_json(_shown(_of_one_rank(loaded, options.file, "show"), options.stage))
    elif options.stage:
        print(_of_one_rank(loaded, options.file, "show").text(options.stage))
    elif not options.output:
        print(loaded)
    sys.stdout.flush()
    for line in _write(loaded, options.output):
        print(line, file=sys.stderr)
    return 0


def _shown(trace: Any, stage: str | None) -> dict[str, Any]:
    """What `show` prints, as values: the stage table, or the texts of one stage."""
    from explorer.questions.summary import counts, failure_rows, summary_rows

    if stage:
        trace.text(stage)  # raises, with the reason, where there is none
        texts = [{"id": a.id, "frame": a.frame, "graph": a.graph, "kernel": a.kernel, "text": a.text} for a in trace.find(stage)]
        return {"stage": stage, "texts": texts}
    rows = [*summary_rows(trace), *failure_rows(trace)]
    failures = [str(failure) for failure in trace.failures]
    return {"meta": trace.meta, "counts": counts(trace), "stages": rows, "failures": failures}


def _print_json(value: object) -> None:
    """Print a value as JSON; of a table each row has its columns as keys."""
    from explorer.model.values import jsonable, plain

    print(json.dumps(jsonable(plain(value)), indent=2, ensure_ascii=False))


def _of_one_rank(loaded: Any, file: str, verb: str) -> Any:
    """What was loaded of a file; InputError if it has several ranks."""
    if isinstance(loaded, Mapping):
        raise InputError(f"{file} has several ranks: {verb} one rank's file, or load it in Python and index it by rank")
    return loaded


def compare(options: argparse.Namespace) -> int:
    """Print the comparison of saved traces, or write it as a page."""
    from explorer import compare as comparison_of
    from explorer import load

    _check_folders(options.output)
    for path in options.output:
        if not _is_page(path):
            raise InputError(f"cannot write {path}: several traces are written as a page, to a name that ends in .html")
    compared = comparison_of(*map(load, options.files), names=options.name)
    if options.json:
        _print_json({"figures": compared.figures(), "lines": compared.lines(), "groups": compared.groups()})
    elif not options.output:
        print(compared)
    for line in _write(compared, options.output):
        print(line, file=sys.stderr)
    return 0


def merge(options: argparse.Namespace) -> int:
    """Write one file of all ranks, and print which compute the same, and where others differ."""
    from explorer.traced.ranks import load_ranks

    _check_folders([options.output])
    ranks = load_ranks(options.folder)
    ranks.save(options.output)
    print(ranks)
    print(f"explorer: wrote {options.output} ({options.output.stat().st_size / 1e3:,.0f} kB)", file=sys.stderr)
    return 0


def diff(options: argparse.Namespace) -> int:
    """Print what the second trace compiled otherwise than the first; the status is `BROKEN` for what `--fail-on` names."""
    from explorer import load
    from explorer.testing.report import difference

    found = difference(*(_of_one_rank(load(file), file, "diff") for file in options.files))
    shown = json.dumps(found.plain(), indent=2) if options.json else found.markdown if options.markdown else found
    print(shown)
    names = {{"unfused": "fused", "memory": "peak memory"}.get(name, name) for name in options.fail_on}
    worse = [finding for finding in found.findings if not finding.is_gain]
    return BROKEN if any(finding.rule in names or (names and not finding.judged) for finding in worse) else 0


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
    from explorer.compilers.backend import registered, resolve
    from explorer.compilers.catalogue import known_backend

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
    from explorer.doctor import diagnosis

    found = diagnosis(warm=options.warm)
    print(json.dumps(found.plain(), indent=2) if options.json else found)
    return 0 if found.ready else 1


def classpack(options: argparse.Namespace) -> int:
    """Run notebooks here, and write the copies and what was recorded."""
    from explorer.classpack.pack import make
    from explorer.errors import require_installed

    for module in ("torch", "nbclient"):
        require_installed(module, "explorer classpack", "full")
    for line in make(options.notebooks, options.output):
        print(f"explorer: wrote {line}", flush=True)
    return 0


def mcp(options: argparse.Namespace) -> int:
    """Serve until the client ends it."""
    from explorer.errors import require_installed

    require_installed("mcp", "explorer mcp", "mcp")
    from explorer.mcp.server import serve

    serve(options.files, runs_code=not options.read_only)
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

    def __enter__(self) -> Outcome:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> bool:
        if isinstance(error, SystemExit):
            self.status = exit_status(error)
        elif error is not None:
            self.status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
            for one in chain(error):
                one.__traceback__ = without_own_frames(one.__traceback__)
            sys.excepthook(type(error), error, error.__traceback__)
            if "active drivers" in str(error):
                from explorer.compilers.torch_compile import no_driver

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
