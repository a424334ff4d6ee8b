"""How many small mistakes in `explorer/` the tests find: mutants, each run against the tests that cover its line.

`python benchmarks/mutants.py COVERED` makes 60 mutants with a seed, over all rooms: an operator, a constant or a condition is
changed, or a statement is dropped. COVERED is a folder of `covered_lines.py run`, which says which tests cover which line.
Each mutant runs in a copy of the checkout against those tests, the quickest first, for at most a minute, until one fails.
`--tests FILE` names the only tests that may be used, as `pytest --collect-only -q` prints them: the fast tier's, say. Prints
a row per mutant, and how many were found. The same seed gives the same mutants of the same files, so that two suites can be
compared.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from covered_lines import ROOT, Covering, room_of

#: Operator → what stands in its place.
OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}


class Mutant(NamedTuple):
    """One change: in a file, the text of a span of one line is replaced."""

    place: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def of(self, text: str) -> str:
        """The file's text with the change. Columns are those of `ast`: bytes of UTF-8."""
        lines = text.encode().split(b"\n")
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + self.after.encode() + line[self.end :]
        return b"\n".join(lines).decode()


def changed(node: ast.AST) -> str | None:
    """The text of a node after a change; None where it has nothing to change."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return ast.unparse(ast.Compare(node.left, [OTHERS[type(node.ops[0])]()], node.comparators))  # type: ignore[list-item]
    if isinstance(node, ast.BoolOp):
        return f"({ast.unparse(ast.BoolOp(OTHERS[type(node.op)](), node.values))})"  # type: ignore[arg-type]
    if isinstance(node, ast.BinOp) and type(node.op) in OTHERS:
        return f"({ast.unparse(ast.BinOp(node.left, OTHERS[type(node.op)](), node.right))})"  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"({ast.unparse(node.operand)})"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return repr(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return repr(node.value + 1)
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        return "return None"
    if isinstance(node, (ast.Assign, ast.AugAssign)) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return "pass"
    return None


def inside(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes inside functions, without annotations and what formatted strings hold, whose places `ast` tells wrongly."""
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    waiting: list[ast.AST] = [statement for function in functions for statement in function.body]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node, (ast.JoinedStr, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        seen.add(id(node))
        yield node
        fields = (value for name, value in ast.iter_fields(node) if name not in ("annotation", "returns"))
        for value in fields:
            waiting += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)]


def mutants_of(place: str, text: str) -> list[Mutant]:
    """Every change of a file that `changed` knows, in its order, where it stands on one line."""
    made = []
    for node in inside(ast.parse(text)):
        after = changed(node)
        if after is not None and node.lineno == node.end_lineno:  # type: ignore[attr-defined]
            at = (node.lineno, node.col_offset, node.end_col_offset)  # type: ignore[attr-defined]
            made.append(Mutant(place, *at, ast.get_source_segment(text, node) or "", after))
    return sorted(made)


def chosen(root: Path, count: int, seed: int) -> list[Mutant]:
    """Mutants by chance: one of each room, then of rooms by their size.

    Each has a random number of its own, so that a change of one file leaves the mutants of the others as they are.
    """
    numbers: dict[Mutant, bytes] = {}
    for path in sorted((root / "explorer").rglob("*.py")):
        place, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for mutant in mutants_of(place, text):
            key = f"{seed} {place} {lines[mutant.line - 1]} {mutant.start} {mutant.after}"
            numbers[mutant] = hashlib.sha256(key.encode()).digest()
    ordered = sorted(numbers, key=lambda mutant: (numbers[mutant], mutant))
    first: dict[str, Mutant] = {}
    for mutant in ordered:
        first.setdefault(room_of(mutant.place), mutant)
    return list(dict.fromkeys((*first.values(), *ordered)))[:count]


def tried(mutant: Mutant, copy: Path, tests: list[str], limit: float) -> str:
    """Run the tests against a mutant in a copy of the checkout; the test that failed, or why none did."""
    file = copy / mutant.place
    text = file.read_text(encoding="utf-8")
    listed = copy / ".mutant-tests"
    listed.write_text("\n".join(tests), encoding="utf-8")
    file.write_text(mutant.of(text), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", f"@{listed}"]
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "survived a minute"
    finally:
        file.write_text(text, encoding="utf-8")
    failed = [line.split()[1] for line in done.stdout.split("\n") if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else "survived" if done.returncode == 0 else f"pytest ended with {done.returncode}"


def copied(root: Path, folder: Path) -> Path:
    """A copy of a checkout's files that git knows, and of those that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder


def main() -> None:
    """Make the mutants, run them, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("covered", type=Path, help="a folder of covered_lines.py")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose tests run")
    parser.add_argument("--tests", type=Path, help="the only tests that may be used, a node id on a line")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a mutant")
    parser.add_argument("--part", default="1/1", help="the second half of the mutants: 2/2")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    covering = Covering(asked.covered)
    only = set(asked.tests.read_text(encoding="utf-8").split("\n")) if asked.tests else None
    part, parts = map(int, asked.part.split("/"))
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(asked.root, Path(folder))
        for mutant in chosen(asked.root, asked.count, asked.seed)[part - 1 :: parts]:
            tests = [test for test in covering.tests(mutant.place, mutant.line) if only is None or test in only]
            result = tried(mutant, copy, tests, asked.limit) if tests else "no test covers its line"
            rows.append(
                {**mutant._asdict(), "tests": len(tests), "result": result, "found": "::" in result or "tests/" in result}
            )
            print(f"{mutant.place}:{mutant.line}: {mutant.before!r} → {mutant.after!r}; {len(tests)} tests; {result}", flush=True)
    print(f"{sum(bool(row['found']) for row in rows)} of {len(rows)} found")
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
