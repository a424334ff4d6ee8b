"""Make each function of explorer that runs during a compile fail in turn, and see whether the program is right.

    python benchmarks/faults.py record --jobs 8
    python benchmarks/faults.py h100 --every 10 --within 600

Every function and lambda of the package gets a call at its entry, a site, which raises where it is asked to. One run of the
program finds the sites that it enters. Each site fails in four ways (`WAYS`), each in a process forked from one that ran the
program already. What must hold: the program's own result is right, a failure of the trace names the loss, and everything
that can be reached in a module or class is what it was before. An interrupt must reach the program instead.

Nothing of explorer's is around a function that torch calls in the place of its own. Such functions are made by
`capture/observe/patch.py`: the fault is the first thing inside the `try` that each has around explorer's part. Exempt is what the
program itself calls.
Prints a line for each fault after which something does not hold, and a table; the exit status is 1 where there is one.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import children
from children import Step

ROOT = Path(__file__).parents[1]
#: Files without sites: what runs in a process of its own.
EXEMPT = ("explorer.capture.ladder.triton_worker",)
#: Functions that torch calls in place of its own: those that only call on, which are no sites, and the guarded ones.
ONLY_CALL_ON = ("_Slot._in_place.in_place", "_View.__get__", "_OfModule.__get__", "_Either.__class__", "_Either.__getattr__")
GUARDED = (".guarded.guarded", "_View.here")
#: Functions without which nothing is lost: they take explorer's frames out of a traceback, or run a wrapper's statements again,
#: where a library call that could not be measured is named by `t.memory.uncounted`, and these programs call none.
NOTHING_LOST = (
    *("explorer.capture.observe.patch:_without_own_frames:", "explorer.capture.observe.patch:_is_own:"),
    *(f"explorer.capture.observe.library_memory:{name}:" for name in ("_Nothing.__call__", "_without_data")),
)
#: Functions that the program itself calls: an error at their entry is the program's to see, since no guard is around it.
CALLED_BY_THE_PROGRAM = (
    "explorer.tracing.recording.trace:trace:",
    "explorer.tracing.recording.record:record:",
    "explorer.tracing.recording.record:Recording.trace:",
)
#: Modules whose functions keep their answers, which take long to find: a library that is built, and this process's folder.
KEPT = ("explorer.capture.absent.native", "explorer.process.scratch")
#: The names of the call at each entry, and of an error that it gives.
ENTRY, ERROR = "__explorer_fault__", "__explorer_error__"


class Way(NamedTuple):
    """How a site fails: the error that it raises, and at which of its entries."""

    error: type[BaseException]
    fails_at: Callable[[int, int], bool]


#: The ways by name; `fails_at` has the number of the entry and how many there are in a run where nothing fails.
WAYS = {
    "error at each entry": Way(RuntimeError, lambda number, count: True),
    "error at the last entry": Way(RuntimeError, lambda number, count: number == count),
    "MemoryError at each entry": Way(MemoryError, lambda number, count: True),
    "interrupt at one entry": Way(KeyboardInterrupt, lambda number, count: number == count // 2 + 1),
}


class Faults:
    """Counts the entries of each site, and knows the site that is to fail."""

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}
        self.failing = ""
        self.way = WAYS["error at each entry"]
        self.expected = 0
        self.failed = False

    def enter(self, site: str) -> Sequence[BaseException]:
        """Count the entry of a function, and give the errors that it is to raise: one or none."""
        number = self.entries[site] = self.entries.get(site, 0) + 1
        if site != self.failing or not self.way.fails_at(number, self.expected):
            return ()
        self.failed = True
        return (self.way.error(f"INJECTED {site}"),)

    @contextmanager
    def at(self, site: str, way: Way, count: int) -> Iterator[None]:
        """Let a site fail inside the block; `count` is how often the program enters it otherwise."""
        self.entries.clear()
        self.way, self.expected, self.failed, self.failing = way, count, False, site
        try:
            yield
        finally:
            self.failing = ""


class _Entries(ast.NodeTransformer):
    """Puts the call at the entry of each function and lambda."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._names: list[str] = []

    def _site(self, name: str, line: int) -> str:
        return f"{self._module}:{'.'.join([*self._names, name])}:{line}"

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        site = self._site(node.name, node.lineno)
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()
        fails = ast.parse(f"for {ERROR} in {ENTRY}({site!r}): raise {ERROR}").body[0]
        name = ".".join([*self._names, node.name]) if self._module == "explorer.capture.observe.patch" else ""
        if name in ONLY_CALL_ON:
            return node
        if name.endswith(GUARDED):
            guarded = next(statement for statement in node.body if isinstance(statement, ast.Try))
            guarded.body.insert(0, fails)
        else:
            node.body.insert(1 if ast.get_docstring(node) is not None else 0, fails)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        if isinstance(node.body, (ast.Name, ast.Constant)):
            return node  # nothing in it can fail
        site = self._site(f"<lambda@{node.col_offset}>", node.lineno)
        self.generic_visit(node)
        fails = ast.parse(f"[(_ for _ in ()).throw({ERROR}) for {ERROR} in {ENTRY}({site!r})]", mode="eval").body
        node.body = ast.Subscript(ast.Tuple([fails, node.body], ast.Load()), ast.Constant(1), ast.Load())
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with the calls in it, from its source."""

    def get_code(self, fullname: str) -> CodeType:
        tree = _Entries(fullname).visit(ast.parse(Path(self.path).read_text(encoding="utf-8")))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds explorer's modules and gives them that loader."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if not name.startswith("explorer") or name in EXEMPT:
            return None
        place = ROOT.joinpath(*name.split("."))
        if place.is_dir():
            file = place / "__init__.py"
            return importlib.util.spec_from_file_location(
                name, file, loader=_Loader(name, str(file)), submodule_search_locations=[str(place)]
            )
        file = place.with_suffix(".py")
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(name, str(file))) if file.exists() else None


class Program(NamedTuple):
    """A program: `run` gives its trace and whether its result is right, `plain` runs it without explorer.

    `modules` are those with sites.
    """

    run: Callable[[], tuple[Any, bool]]
    plain: Callable[[], object]
    modules: tuple[str, ...]


def programs() -> dict[str, Program]:
    """Each program by name."""
    import torch

    import explorer

    torch.manual_seed(0)
    one, other = torch.randn(16, 16), torch.randn(16, 16)

    def pointwise(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.sin(x) + y
        return torch.cat([z.sum(0, keepdim=True), z * 2]).cumsum(0), x.t() @ y

    def broken(x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(x) * x.shape[0]

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch.relu(torch.softmax(x @ w, -1)) * x).sum()

    def right(made: Any, expected: Any) -> bool:
        torch.testing.assert_close(made, expected, atol=1e-4, rtol=1e-4)
        return True

    def traced() -> tuple[Any, bool]:
        trace = explorer.trace(pointwise, one, other, target="h100")
        return trace, right(trace.live.result, pointwise(one, other))

    def compiled(target: str) -> bool:
        weights = [other.clone().requires_grad_() for _ in range(2)]
        function = torch.compile(broken)
        results = [function(one[:n]) for n in (3, 4)]
        if target != "auto":  # a backward of the CPU's takes g++ seconds
            torch.compile(loss)(one, weights[0]).backward()
            loss(one, weights[1]).backward()
            right(weights[0].grad, weights[1].grad)
        return right(results, [broken(one[:n]) for n in (3, 4)])

    def recorded(target: str) -> tuple[Any, bool]:
        with explorer.record(target) as recording:
            result = compiled(target)
        return recording.trace, result

    around = (
        "explorer.capture.observe.",
        "explorer.capture.absent.",
        "explorer.capture.ladder.",
        "explorer.capture.interpret.",
        "explorer.capture.compilers.",
        "explorer.stages.",
        "explorer.process.",
        "explorer.tracing.recording.",
        "explorer.stages.replay",
        "explorer.lab.live.call",
    )
    return {
        "h100": Program(traced, lambda: torch.compile(pointwise)(one, other), around),
        "record": Program(lambda: recorded("auto"), lambda: compiled("auto"), around),
        "record_h100": Program(lambda: recorded("h100"), lambda: compiled("h100"), around),
    }


def forget() -> None:
    """Make the next run ask everything again: empty Dynamo's caches, and those of explorer's functions."""
    import torch

    torch._dynamo.reset()
    for name, module in list(sys.modules.items()):
        if name.startswith("explorer."):
            for kept in vars(module).values():
                if isinstance(kept, functools._lru_cache_wrapper) and kept.__wrapped__.__module__ not in KEPT:
                    kept.cache_clear()


Attributes = dict[tuple[str, str], int]


def attributes() -> Attributes:
    """Which object each attribute of each module and class outside of explorer is, with what is set in this thread."""
    import torch

    found: Attributes = {}
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or name.startswith(("explorer", "__")) or vars(module) is globals():
            continue
        found[name, "__class__"] = id(type(module))
        for key, value in list(vars(module).items()):
            found[name, key] = identity(key, value)
            if isinstance(value, type) and value.__module__ == name:
                found |= {(f"{name}.{key}", own): identity(own, one) for own, one in list(vars(value).items())}
        found[name, "__class__"] = id(type(module))
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            facts = logger.level, logger.propagate, logger.disabled, *map(id, logger.handlers), *map(id, logger.filters)
            found[f"logger {name}", "facts"] = hash(facts)
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
    stacks = torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()
    hooks = id(sys.gettrace()), id(sys.getprofile()), *map(id, convert_frame_hooks())
    return found | {
        ("thread", "modes"): hash((modes, stacks, torch.get_default_dtype(), torch.get_num_threads())),
        ("thread", "hooks"): hash(hooks),
        **{("environment", name): hash(value) for name, value in os.environ.items()},
        ("process", "warnings"): hash(tuple(map(str, warnings.filters))),
        ("process", "garbage collector"): hash((gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())),
        ("process", "threads"): threading.active_count(),
        ("process", "signals"): hash(tuple(str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM))),
        **{
            ("setting", f"{module.__name__}.{key}"): hash(repr(value))
            for module in settings()
            for key, value in module.get_config_copy().items()
        },
    }


def identity(name: str, value: object) -> int:
    """Which object it is; one for what changes by itself: counters, what Python keeps of classes, and parts imported late."""
    kept = name.startswith("__") and not callable(value)
    return 0 if kept or isinstance(value, (ModuleType, float)) or type(value) is int else id(value)


def convert_frame_hooks() -> Sequence[object]:
    """What Dynamo calls with each frame that it compiled."""
    from torch._dynamo import convert_frame

    return [*convert_frame._bytecode_hooks.values()]


def settings() -> Sequence[Any]:
    """The modules with torch's settings."""
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    return torch._dynamo.config, torch._functorch.config, torch._inductor.config


class Prepared:
    """A program that ran already, how often it enters each site, and the attributes that it changes where nothing fails."""

    def __init__(self, program: Program, faults: Faults, entries: dict[str, int]) -> None:
        self.program, self.faults, self.entries = program, faults, entries
        self.before = attributes()
        self.changing = self.changed_by(self.whole)

    @classmethod
    def of(cls, program: Program, faults: Faults) -> Prepared:
        """Run a program twice: in the first run torch also asks what it keeps afterwards.

        Before that it runs without explorer, so that no forked process asks anew what the C++ compiler can do, for seconds.
        """
        program.plain()
        for _ in range(2):
            forget()
            faults.entries.clear()
            trace, right = program.run()
            assert right and not trace.failures, trace.failures
        entries = {site: count for site, count in faults.entries.items() if site.startswith(program.modules)}
        exempt = [site for site in entries if site.startswith(CALLED_BY_THE_PROGRAM)]
        del trace
        forget()
        gc.collect()
        gc.freeze()  # a forked process then copies less
        return cls(program, faults, {site: entries[site] for site in entries if site not in exempt})

    def whole(self) -> None:
        """Run the program where nothing fails, and hold that all is as it is where it is not forked: every site is entered."""
        self.faults.entries.clear()
        trace, right = self.program.run()
        failures = trace.failures  # this reads the trace, which enters sites too
        lacking = sorted(self.entries.keys() - self.faults.entries.keys())
        assert right and not failures and not lacking, (right, failures, lacking[:5])

    def changed_by(self, run: Callable[[], object]) -> set[tuple[str, ...]]:
        """The attributes that a run changes in which nothing fails."""

        def left() -> list[tuple[str, str]]:
            run()
            return sorted(changed(self.before, attributes()))

        if (answer := in_fork(left)) is None:
            raise SystemExit("the program does not run in a forked process, where nothing is made to fail; see above")
        return {tuple(one) for one in answer}

    @functools.cached_property
    def changing_without_explorer(self) -> set[tuple[str, ...]]:
        """The attributes that torch alone changes: a site may fail so that the program runs as without explorer."""
        return self.changed_by(self.program.plain)

    def tried(self, site: str, way: str) -> str | None:
        """What is wrong where a site fails; "" where all is as it must be, None where the process ended."""
        answer = in_fork(partial(self.fail, site, way))
        if answer is None:
            return None
        changed_ones, wrong = answer
        left = {tuple(one) for one in changed_ones} - self.changing
        if left and (left := left - self.changing_without_explorer):
            wrong.append(f"left changed: {', '.join('.'.join(one) for one in sorted(left)[:6])}")
        return "; ".join(wrong)

    def fail(self, site: str, way: str) -> tuple[list[tuple[str, str]], list[str]]:
        """Let a site fail, once in a process: which attributes are others then, and what else is wrong."""
        error, failures, right = None, [], False
        with self.faults.at(site, WAYS[way], self.entries[site]):
            try:
                trace, right = self.program.run()
                from explorer.lab.live.protocol import live_of  # after its functions were replaced

                late = getattr(live_of(trace), "late_losses", list)
                failures = [*trace.failures, *late()]  # a trace is replayed when it is read
            except BaseException as raised:  # noqa: BLE001 whatever the program meets is what is asked for
                error = raised
        left, wrong = sorted(changed(self.before, attributes())), list[str]()
        if not self.faults.failed:
            wrong.append("it did not fail: this run did not enter it")
            return left, wrong
        if issubclass(WAYS[way].error, Exception):
            if error is not None:
                wrong.append(f"the program broke: {type(error).__name__}: {error}"[:300])
            elif not right or not (site.startswith(NOTHING_LOST) or any(f"INJECTED {site}" in one.message for one in failures)):
                wrong.append(f"right {right}, named in none of {[str(f)[:100] for f in failures][:3]}")
        elif not isinstance(error, KeyboardInterrupt):
            wrong.append(f"the interrupt did not reach the program: {error!r} {[str(f)[:100] for f in failures][:3]}")
        return left, wrong


def changed(before: Attributes, after: Attributes) -> set[tuple[str, str]]:
    """The attributes that are other objects now, or gone, or new in a module or class that was there."""
    owners = {owner for owner, _ in before}
    return {key for key in before.keys() | after.keys() if before.get(key, 0) != after.get(key, 0) and key[0] in owners}


def prepared(program: str, faults: Faults) -> Prepared:
    """Load explorer's modules so that they can fail, and run a program with them."""
    import torch

    torch.set_num_threads(1)  # a process with OpenMP's threads cannot be forked
    # autograd decides in its first backward whether a forked process may run one; within a compile, torch's CUDA build says no
    torch.ones((), requires_grad=True).backward()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    warnings.simplefilter("ignore")
    setattr(builtins, ENTRY, faults.enter)
    sys.meta_path.insert(0, Finder())
    return Prepared.of(programs()[program], faults)


def in_fork(action: Callable[[], Any]) -> Any:
    """What an action gives in a process that is forked from this one; None where that ended without an answer."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            with open(writing, "w", encoding="utf-8") as answer:
                json.dump(action(), answer)
        except BaseException:  # noqa: BLE001 os._exit would end the process without a word
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(process, 0)
    return json.loads(said) if said else None


def steps(program: str) -> Callable[[Any], Iterator[Step]]:
    """In the child: the steps for an item, which is a site; for "" the sites are listed, a row for each."""
    faults = Faults()
    state: list[Prepared] = []

    def of(item: Any) -> Iterator[Step]:
        if not state:
            state.append(prepared(program, faults))
        if not item:
            return iter([("sites", lambda: {"kind": "sites", "sites": [*state[0].entries]})])
        site, ways = item
        if site not in state[0].entries:  # a warm process may know what another asked for
            return iter([(site, lambda: {"kind": "not reached"})])
        return iter([(way, partial(outcome, state[0], site, way)) for way in ways])

    return of


def outcome(prepared: Prepared, site: str, way: str) -> dict[str, Any]:
    """The row of a site that failed."""
    wrong = prepared.tried(site, way)
    return {"kind": "died" if wrong is None else "broke" if wrong else "held", "why": wrong}


def chosen_sites(command: Sequence[str], options: argparse.Namespace) -> tuple[int, list[str]]:
    """How many sites a child finds in the program, and those that were asked for."""
    one = argparse.Namespace(**{**vars(options), "jobs": 1, "within": None})
    (row,) = children.rows([""], command, one)
    if row["kind"] != "sites":
        raise SystemExit(f"{options.program}: the sites were not found: {row.get('why')}")
    found = [site for site in row["sites"] if options.only in site]
    return len(row["sites"]), children.part(found[options.start :: options.every], options.part)


def table(program: str, counts: Mapping[str, Counter[str]]) -> str:
    """A row for each way to fail: how many sites were made to fail, and how many did not hold."""
    lines = [f"{program:28}{'sites':>8}{'held':>8}{'did not':>8}{'not tried':>10}"]
    for way, kinds in counts.items():
        held, wrong = kinds["held"], kinds["broke"] + kinds["died"]
        lines.append(f"{way:28}{held + wrong:8}{held:8}{wrong:8}{kinds.total() - held - wrong:10}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run one program with each of its sites failing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=("h100", "record", "record_h100"))
    parser.add_argument("--only", default="", help="only sites whose name has this, such as observe.patch")
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth site")
    parser.add_argument("--start", type=int, default=0, help="the first site")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS], help="how a site fails")
    children.add_arguments(parser, 180)
    options = parser.parse_args(arguments)
    if options.child:
        children.serve(steps(options.program))
        return 0
    began, counts = time.perf_counter(), {way: Counter[str]() for way in options.ways}
    command = [sys.executable, __file__, options.program, "--child"]
    found, sites = chosen_sites(command, options)
    print(f"{options.program}: {found} sites run, {len(sites)} to fail", flush=True)
    for number, row in enumerate(children.rows([(site, options.ways) for site in sites], command, options)):
        for way in [row["name"]] if row["name"] in counts else options.ways:  # the whole item was not tried, or its process ended
            counts[way][row["kind"]] += 1
        if row["kind"] != "held":
            print(f"{row['kind']}: {row['name']}: {row['item'][0]}: {row.get('why', '')}", flush=True)
        if number % 200 == 199:
            print(f"{number + 1} of {len(sites) * len(options.ways)} after {time.perf_counter() - began:.0f} s", flush=True)
    print(f"\n{table(options.program, counts)}\n{time.perf_counter() - began:.0f} s", flush=True)
    return int(any(set(kinds) != {"held"} for kinds in counts.values()))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main(sys.argv[1:]))
