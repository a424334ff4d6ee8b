"""What explorer reads and replaces of torch and triton, looked up in two releases: there, changed, moved, gone.

    make torch-report TORCH=2.15.0           # the tested release beside another, which gets an environment of its own
    python benchmarks/torch_report.py report .venv/bin/python .cache/torch-2.15.0/bin/python --jobs 4

Nobody writes the names down. Those that explorer reads come from its source: what it imports from torch and triton, and the
attributes of that. Those that it replaces are noted while the smoke tests run in both environments, since some are computed;
left out is what no text of the source names, and what is in `triton.language`, where the interpreter replaces whatever is there.
An attribute of an object that is neither a module nor a class ends the name: `V.graph` is there only inside a compile.

The table has a row for each name that is not the same in both, and a line for each group of explorer with the counts:

    changed   the parameters of a function, or of a class, are others
    moved     only in the first; the row says where the second has that name
    gone      only in the first, and nothing in the second has that name
    new       only in the second
    neither   in none of the two: explorer reads it in other releases

"asked" marks a name for which the code asks first: with `hasattr`, `has_function`, or in capture/observe/versions.py.
The exit status is 1 where the smoke tests fail in the second environment, and where a name is moved or gone for which nobody
asks. CONTRIBUTING.md says what to do with each kind of row.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "explorer"
LIBRARIES = ("torch", "triton")
#: Functions to which code gives the name of an attribute that may not be there.
ASKING = ("hasattr", "getattr", "has_function")
#: The file whose functions ask what a release has.
VERSIONS = "capture/observe/versions.py"
#: At most so many places of a moved name are printed.
MAX_PLACES = 3

#: A text that is nothing but a name, as `import_module` and tables of replacements have it.
DOTTED = re.compile(rf"(?:{'|'.join(LIBRARIES)})(?:\.[A-Za-z_]\w*)+")
#: Settings of Inductor's, and others' texts that begin with a library's name: no rows where nothing is there.
NOT_NAMES = ("triton.", "torch.__trace", "torch.InductorError")
#: Where the interpreter of Triton kernels replaces whatever a release has.
WHATEVER_IS_THERE = "triton.language."
#: The kinds of rows, in the order in which they are printed.
KINDS = ("gone", "moved", "changed", "new", "neither", "same")

#: A name, such as "torch._inductor.scheduler.Scheduler.can_fuse", and the groups of explorer that have it.
Uses = dict[str, set[str]]
Row = dict[str, Any]


# What explorer reads -----------------------------------------------------------------------------------------------------


class _Reads(ast.NodeVisitor):
    """Finds the names of torch's and triton's in a file: what is imported, and the attributes of that."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.asked: set[str] = set()
        self._scopes: list[dict[str, str]] = [{}]

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            if one.name.split(".")[0] in LIBRARIES:
                self.names.add(one.name)
                self._scopes[-1][one.asname or one.name.split(".")[0]] = one.name if one.asname else one.name.split(".")[0]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module and node.module.split(".")[0] in LIBRARIES:
            for one in node.names:
                self.names.add(name := f"{node.module}.{one.name}")
                self._scopes[-1][one.asname or one.name] = name

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        given = node.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
        self._scopes.append(dict.fromkeys((parameter.arg for parameter in parameters), ""))
        self.generic_visit(node)
        self._scopes.pop()
        if any(asks_by_variable(inner) for inner in ast.walk(node)):  # of each name in a tuple of the function's
            self.asked |= texts_in(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if (name := self._name(node)) is None:
            self.generic_visit(node)
        else:
            self.names.add(name)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        match node.args:
            case [_, ast.Constant(value=str(name)), *_] if called in ASKING:
                self.asked.add(name)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            self.names.add(node.value)

    def _name(self, node: ast.expr) -> str | None:
        """The whole name of an attribute; None where it does not start at something imported."""
        match node:
            case ast.Name(id=alias):
                return next((scope[alias] for scope in reversed(self._scopes) if alias in scope), "") or None
            case ast.Attribute(value=owner, attr=attribute):
                return None if (name := self._name(owner)) is None else f"{name}.{attribute}"
            case _:
                return None


def asks_by_variable(node: ast.AST) -> bool:
    """Whether code asks whether something is there whose name is in a variable."""
    match node:
        case ast.Call(func=ast.Name(id="hasattr" | "has_function"), args=[_, ast.Name()]):
            return True
        case _:
            return False


def texts_in(tree: ast.AST) -> set[str]:
    """Every text of some code."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def read_names() -> tuple[Uses, set[str], set[str]]:
    """The names that explorer's source reads; the last parts of names for which it asks; whatever else its texts name."""
    uses: Uses = defaultdict(set)
    asked: set[str] = set()
    written: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        reads = _Reads()
        reads.visit(tree := ast.parse(path.read_text(encoding="utf-8")))
        asked |= reads.asked
        written |= texts_in(tree)
        if file == VERSIONS:
            asked |= texts_in(tree)
        for name in reads.names:
            uses[name].add("/".join(file.split("/")[:2]).removesuffix(".py"))
    return uses, asked, written


# What explorer replaces: this file is also a plugin of pytest ------------------------------------------------------------


def pytest_addoption(parser: Any) -> None:
    """Add the option that names a folder for the names that explorer replaced."""
    parser.addoption("--replaced", help="a folder: what explorer replaced of torch and triton, a file for each worker")


def pytest_configure(config: Any) -> None:
    """Note what is replaced from now on; the names are written when pytest ends."""
    if not (folder := config.getoption("--replaced")):
        return
    names: set[str] = set()
    note_replaced(names)
    file = Path(folder) / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json"
    config.add_cleanup(lambda: file.write_text(json.dumps(sorted(names)), encoding="utf-8"))


def note_replaced(names: set[str]) -> None:
    """Let the three functions through which every replacement goes add its name."""
    from explorer.capture.observe import patch

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            owner, name = [one for one in args if one is not patch._PLAIN_SIGHT][:2]
            if isinstance(owner, (types.ModuleType, type)):
                names.add(f"{name_of(owner)}.{name}")
            return function(*args)

        return noted

    for holder, name in ((patch, "_slot_of"), (patch, "_view_of"), (type(patch._PLAIN_SIGHT), "held")):
        setattr(holder, name, noting(getattr(holder, name)))


def name_of(owner: types.ModuleType | type) -> str:
    """The name by which a module or class can be looked up."""
    return owner.__name__ if isinstance(owner, types.ModuleType) else f"{owner.__module__}.{owner.__qualname__}"


# What an environment has -------------------------------------------------------------------------------------------------


def facts(replaced: Iterable[str]) -> Row:
    """What this environment has of each name that explorer reads or replaces: its form, or where its name is instead.

    A name without a form is not there; one that ends in an object is cut.
    """
    uses, asked, written = read_names()
    for name in replaced:
        if name.split(".")[0] in LIBRARIES and name.rpartition(".")[2] in written and not name.startswith(WHATEVER_IS_THERE):
            uses[name].add("replaced")
    forms: dict[str, str] = {}
    for name in sorted(uses):
        whole, form = looked_up(name)
        forms[whole] = form
        if whole != name:
            uses[whole] |= uses.pop(name)
    missing = {name.rpartition(".")[2] for name, form in forms.items() if not form}
    places = places_of(missing)
    return {
        "versions": {library: __import__(library).__version__ for library in LIBRARIES},
        "forms": forms,
        "uses": {name: sorted(groups) for name, groups in uses.items()},
        "asked": sorted(name for name in forms if name.rpartition(".")[2] in asked),
        "elsewhere": {name: places[name.rpartition(".")[2]] for name, form in forms.items() if not form},
    }


def looked_up(name: str) -> tuple[str, str]:
    """A name and its form, "" where it is not there; the name is cut where it goes on into an object."""
    found: Any = None
    parts = name.split(".")
    for number, part in enumerate(parts):
        here = ".".join(parts[: number + 1])
        if found is not None and not isinstance(found, (types.ModuleType, type)):
            return ".".join(parts[:number]), form_of(found)
        try:
            found = importlib.import_module(here) if found is None else getattr(found, part)
        except Exception:  # noqa: BLE001 torch's modules raise what they like
            try:
                found = importlib.import_module(here)
            except Exception:  # noqa: BLE001 such as a backend that is not installed
                return name, ""
    return name, form_of(found)


def form_of(found: Any) -> str:
    """What an object is: a class or function with its parameters, a module, or a value."""
    if isinstance(found, types.ModuleType):
        return "module"
    if not callable(found):
        return "value"
    kind = "class" if isinstance(found, type) else "function"
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return kind
    stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    written = [
        f"{stars.get(one.kind, '')}{one.name}{'' if one.default is one.empty else '='}"
        for one in parameters
        if one.name != "self"
    ]
    return f"{kind}({', '.join(written)})"


def places_of(names: set[str]) -> dict[str, list[str]]:
    """Where torch and triton define these names: in a module, or in a class of one."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for library in LIBRARIES:
        folder = Path(str(importlib.import_module(library).__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text(encoding="utf-8", errors="replace")
            if not any(name in text for name in names):
                continue
            module = ".".join((library, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # escapes in strings of torch's
                tree = ast.parse(text)
            for name, place in definitions(tree, module):
                if name in names:
                    found[name].append(place)
    return found


def definitions(tree: ast.AST, owner: str) -> Iterable[tuple[str, str]]:
    """Each name that a module or one of its classes defines, with its whole name."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, f"{owner}.{name}"
            case ast.ClassDef(name=name):
                yield name, f"{owner}.{name}"
                yield from definitions(node, f"{owner}.{name}")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, f"{owner}.{name}"
            case ast.If() | ast.Try():
                yield from definitions(node, owner)


# The table ---------------------------------------------------------------------------------------------------------------


def rows(first: Row, second: Row) -> list[dict[str, str]]:
    """A row for each name in two environments, those that are the same last."""
    table = []
    for name in sorted(first["forms"].keys() | second["forms"].keys()):
        old, new = first["forms"].get(name, ""), second["forms"].get(name, "")
        if not old and not new and name.startswith(NOT_NAMES):
            continue
        elsewhere = sorted(set(second["elsewhere"].get(name, ())) - {name})
        kind = kind_of(old, new, elsewhere)
        says = difference(old, new) if kind == "changed" else ", ".join(elsewhere[:MAX_PLACES]) if kind == "moved" else ""
        uses = {*first["uses"].get(name, ()), *second["uses"].get(name, ())}
        asked = "asked" if name in {*first["asked"], *second["asked"]} else ""
        table.append({"kind": kind, "name": name, "asked": asked, "by": ", ".join(sorted(uses)), "says": says})
    return sorted(table, key=lambda row: (KINDS.index(row["kind"]), row["name"]))


def kind_of(old: str, new: str, elsewhere: Sequence[str]) -> str:
    """The kind of a row, of a name's forms in both environments and of where the second has the name else."""
    if old and new:
        return "same" if old == new else "changed"
    if old:
        return "moved" if elsewhere else "gone"
    return "new" if new else "neither"


def difference(old: str, new: str) -> str:
    """What changed between two forms: the parameters that went and came, or both forms where the kind is another."""
    (kind, _, before), (other, _, after) = old.partition("("), new.partition("(")
    if kind != other or not before or not after:
        return f"{old} is {new}"
    was, now = before.removesuffix(")").split(", "), after.removesuffix(")").split(", ")
    words = [*(f"-{one}" for one in was if one and one not in now), *(f"+{one}" for one in now if one and one not in was)]
    return " ".join(words) or f"{old} is {new}"


def printed(first: Row, second: Row, whole: bool = False) -> int:
    """Print the table, with `whole` also the names that are the same; count those moved or gone for which nobody asks."""
    table = rows(first, second)
    for row in table:
        if whole or row["kind"] != "same":
            print(f"{row['kind']:8} {row['asked']:6}{row['name']}\n{'':15}{row['by']}{': ' if row['says'] else ''}{row['says']}")
    versions = [", ".join(f"{library} {version}" for library, version in one["versions"].items()) for one in (first, second)]
    print(f"\n{versions[0]} beside {versions[1]}\n{'':26}{''.join(f'{kind:>9}' for kind in KINDS)}")
    by_group: dict[str, Counter[str]] = defaultdict(Counter)
    for row in table:
        for group in ("all", *row["by"].split(", ")):
            by_group[group][row["kind"]] += 1
    for group, counts in sorted(by_group.items()):
        print(f"{group:26}{''.join(f'{counts[kind]:9}' for kind in KINDS)}")
    unasked = [row for row in table if row["kind"] in ("moved", "gone") and not row["asked"]]
    print(f"moved or gone, and nobody asks first: {len(unasked)}")
    return len(unasked)


def report(pythons: Sequence[str], jobs: int, whole: bool) -> int:
    """Run the smoke tests in two environments, look every name up in both, and print the table."""
    with tempfile.TemporaryDirectory() as place:
        smoke = []
        for number, python in enumerate(pythons):
            (folder := Path(place) / str(number)).mkdir()
            pytest = [python, "-m", "pytest", "-q", "-n", str(jobs), "-p", "torch_report", "--replaced", str(folder)]
            path = os.pathsep.join([str(Path(__file__).parent), str(ROOT)])
            smoke.append(
                subprocess.run([*pytest, "-m", "smoke", "tests"], cwd=ROOT, env={**os.environ, "PYTHONPATH": path}).returncode
            )
        answers = []
        for python in pythons:
            answer = subprocess.run([python, __file__, "facts", place], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
            answers.append(json.loads(answer.stdout.splitlines()[-1]))
    unasked = printed(answers[0], answers[1], whole)
    print("smoke tests:", "; ".join("passed" if status == 0 else f"failed (exit status {status})" for status in smoke))
    return int(bool(unasked or smoke[1]))


def main(arguments: Sequence[str]) -> int:
    """Print the table of two environments, or what this one has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    two = commands.add_parser("report", help="run the smoke tests in two environments and print the table")
    two.add_argument("first", help="the Python of the release that explorer is tested with")
    two.add_argument("second", help="the Python of another release")
    two.add_argument("--jobs", type=int, default=2, help="how many tests run at once")
    two.add_argument("--all", action="store_true", help="also list the names that are the same")
    one = commands.add_parser("facts", help="print what this environment has, as JSON")
    one.add_argument("folder", type=Path, help="where the names that were replaced are")
    options = parser.parse_args(arguments)
    if options.command == "report":
        return report([options.first, options.second], options.jobs, options.all)
    replaced = {name for file in options.folder.rglob("*.json") for name in json.loads(file.read_text(encoding="utf-8"))}
    warnings.simplefilter("ignore")
    print(json.dumps(facts(replaced)))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main(sys.argv[1:]))
