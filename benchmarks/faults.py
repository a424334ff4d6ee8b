"""Make each function of explorer that runs during a compile fail in turn, and see whether the program is right.

    python benchmarks/faults.py record --jobs 8
    python benchmarks/faults.py h100 --every 10 --within 600

Every function and lambda of the package gets a call at its entry, a site, which raises where it is asked to. One run of the
program finds the sites that it enters. Exempt are `observe/patch.py`, the guard that catches what the others raise, and what the
program itself calls. For each site the program's own result must be right, and a failure of the trace must name the loss.
Prints a line for each site that does not hold, and the counts; the exit status is 1 where there is one.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import children
from children import Step

ROOT = Path(__file__).parents[1]
#: Files without sites: the guard itself, and what runs in a process of its own.
EXEMPT = ("explorer.observe.patch", "explorer.ladder.triton_worker")
#: Functions that the program itself calls: an error at their entry is the program's to see, since no guard is around it.
CALLED_BY_THE_PROGRAM = (
    "explorer.recording.trace:trace:",
    "explorer.recording.record:record:",
    "explorer.recording.record:Recording.trace:",
)
#: Modules whose functions keep their answers, which take long to find: a library that is built, and this process's folder.
KEPT = ("explorer.absent.native", "explorer.process.scratch")
#: The name of the call at each entry.
ENTRY = "__explorer_fault__"


class Faults:
    """Counts the entries of each site, and knows the site that is to fail."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.failing = ""

    def enter(self, site: str) -> bool:
        """Count the entry of a function, and tell whether it is to fail."""
        self.seen[site] = self.seen.get(site, 0) + 1
        return site == self.failing


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
        fails = ast.parse(f"if {ENTRY}({site!r}): raise RuntimeError({'INJECTED ' + site!r})").body[0]
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
        fails = ast.parse(f"1 / 0 if {ENTRY}({site!r}) else None", mode="eval").body
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


def programs() -> dict[str, tuple[Callable[[], tuple[Any, bool]], tuple[str, ...]]]:
    """Each program by name: what runs it, gives its trace and tells whether its result is right; and the modules with sites."""
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
        return trace, right(trace.result, pointwise(one, other))

    def recorded(target: str) -> tuple[Any, bool]:
        weights = [other.clone().requires_grad_() for _ in range(2)]
        with explorer.record(target) as recording:
            compiled = torch.compile(broken)
            results = [compiled(one[:n]) for n in (3, 4)]
            if target != "auto":  # a backward of the CPU's takes g++ seconds
                torch.compile(loss)(one, weights[0]).backward()
        loss(one, weights[1]).backward()
        if target != "auto":
            right(weights[0].grad, weights[1].grad)
        return recording.trace, right(results, [broken(one[:n]) for n in (3, 4)])

    around = (
        "explorer.observe.",
        "explorer.absent.",
        "explorer.ladder.",
        "explorer.interpret.",
        "explorer.compilers.",
        "explorer.stages.",
        "explorer.process.",
        "explorer.recording.",
        "explorer.replay",
        "explorer.live.call",
    )
    return {
        "h100": (traced, around),
        "record": (lambda: recorded("auto"), around),
        "record_h100": (lambda: recorded("h100"), around),
    }


def forget() -> None:
    """Make the next run ask everything again: empty Dynamo's caches, and those of explorer's functions."""
    import torch

    torch._dynamo.reset()
    for name, module in list(sys.modules.items()):
        if name.startswith("explorer.") and name not in KEPT:
            for kept in vars(module).values():
                if isinstance(kept, functools._lru_cache_wrapper):
                    kept.cache_clear()


def fail_at(site: str, faults: Faults, run: Callable[[], tuple[Any, bool]]) -> str:
    """Let a site fail and say what is wrong then: "" where the result is right and the loss is named."""
    forget()
    faults.seen.clear()
    faults.failing = site
    try:
        trace, right = run()
        failures = trace.failures  # it is replayed when it is read
    except Exception as error:  # noqa: BLE001 whatever the program meets is what is asked for
        return f"the program broke: {type(error).__name__}: {error}"[:300]
    finally:
        faults.failing = ""
    if site not in faults.seen:
        return "it did not fail: this run did not enter it"
    named = any(f"INJECTED {site}" in f.message or "division by zero" in f.message for f in failures)
    return "" if right and named else f"named {named}, right {right}: {[str(f)[:100] for f in failures][:3]}"


def sites_of(faults: Faults, run: Callable[[], tuple[Any, bool]], modules: tuple[str, ...]) -> list[str]:
    """The sites that a program enters in its second run: in the first, torch also asks what it keeps afterwards."""
    for _ in range(2):
        forget()
        faults.seen.clear()
        trace, right = run()
        assert right and not trace.failures, trace.failures
    return [site for site in faults.seen if site.startswith(modules) and not site.startswith(CALLED_BY_THE_PROGRAM)]


def prepared(program: str, faults: Faults) -> tuple[Callable[[], tuple[Any, bool]], list[str]]:
    """Load explorer's modules so that they can fail; return what runs a program, and the sites that it enters."""
    warnings.simplefilter("ignore")
    setattr(builtins, ENTRY, faults.enter)
    sys.meta_path.insert(0, Finder())
    run, modules = programs()[program]
    return run, sites_of(faults, run, modules)


def steps(program: str) -> Callable[[str], Iterator[Step]]:
    """In the child: the steps for an item, which is a site; for "" the sites are listed, a row for each."""
    faults = Faults()
    state: list[Any] = []

    def of(site: str) -> Iterator[Step]:
        if not state:
            state.extend(prepared(program, faults))
        run, sites = state
        if not site:
            return iter([("sites", lambda: {"kind": "sites", "sites": sites})])
        if site not in sites:  # a warm process may know what another asked for
            return iter([(site, lambda: {"kind": "not reached"})])
        return iter([(site, lambda: outcome(fail_at(site, faults, run)))])

    return of


def outcome(wrong: str) -> dict[str, Any]:
    """The row of a site that failed."""
    return {"kind": "broke" if wrong else "held", "why": wrong}


def chosen_sites(command: Sequence[str], options: argparse.Namespace) -> tuple[int, list[str]]:
    """How many sites a child finds in the program, and those that were asked for."""
    one = argparse.Namespace(**{**vars(options), "jobs": 1, "within": None})
    (row,) = children.rows([""], command, one)
    if row["kind"] != "sites":
        raise SystemExit(f"{options.program}: the sites were not found: {row.get('why')}")
    return len(row["sites"]), children.part(row["sites"][options.start :: options.every], options.part)


def main(arguments: Sequence[str]) -> int:
    """Run one program with each of its sites failing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=("h100", "record", "record_h100"))
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth site")
    parser.add_argument("--start", type=int, default=0, help="the first site")
    children.add_arguments(parser, 180)
    options = parser.parse_args(arguments)
    if options.child:
        children.serve(steps(options.program))
        return 0
    began, counts = time.perf_counter(), Counter[str]()
    command = [sys.executable, __file__, options.program, "--child"]
    found, sites = chosen_sites(command, options)
    print(f"{options.program}: {found} sites run, {len(sites)} to fail", flush=True)
    for row in children.rows(sites, command, options):
        counts[row["kind"]] += 1
        if row["kind"] != "held":
            print(f"{row['kind']}: {row['item']}: {row.get('why', '')}", flush=True)
        if counts.total() % 50 == 0:
            print(f"{counts.total()} of {len(sites)} after {time.perf_counter() - began:.0f} s", flush=True)
    tried = counts["held"] + counts["broke"] + counts["died"]
    print(
        f"{options.program}: {found} sites run, {tried} made to fail, {tried - counts['held']} not as they must be: "
        + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        + f"; {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return int(not tried or set(counts) != {"held"})


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main(sys.argv[1:]))
