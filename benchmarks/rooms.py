"""Count what the groups of the package hold: lines, functions, signatures with `Any`, mappings with string keys.

    python benchmarks/rooms.py
    python benchmarks/rooms.py --package ../earlier/explorer

A signature counts as one with `Any` where an annotation names it, and as an open one where it names `Plain` or `object` too:
`Plain` is `Any` for mypy. A mapping with string keys and open values, such as `dict[str, Any]`, is a place where a renamed key is
found by a user. What is inside torch is counted apart: the objects of torch and triton have no types.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: The group that may look inside torch and triton, as in tests/test_rooms.py.
INSIDE_TORCH = "capture"
ANY = re.compile(r"\bAny\b")
OPEN = re.compile(r"\b(?:Any|Plain|object)\b")
MAPPING = re.compile(r"\b(?:dict|Mapping|MutableMapping)\[str, (?:Any|Plain|object)\]")


@dataclass(frozen=True)
class Function:
    """A function: where it is, how many lines it has, and the annotations of its signature."""

    file: str
    name: str
    lines: int
    annotations: str

    @property
    def group(self) -> str:
        """The folder of the package, or the file of its own."""
        return self.file.partition("/")[0].removesuffix(".py")


def functions(package: Path) -> Iterator[Function]:
    """Every function of a package, nested ones and methods included."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield Function(path.relative_to(package).as_posix(), node.name, lines, annotations_of(node))


def annotations_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The types of a function's parameters and result, as they are written."""
    given = function.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    types = [*(parameter.annotation for parameter in parameters), function.returns]
    return "; ".join(ast.unparse(each) for each in types if each is not None)


def share(functions: list[Function], pattern: re.Pattern[str]) -> str:
    """How many signatures name a type, and what part of all that is."""
    count = sum(bool(pattern.search(each.annotations)) for each in functions)
    return f"{count} of {len(functions)}, {count / max(1, len(functions)):.1%}"


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, default=Path(__file__).parents[1] / "explorer")
    package: Path = parser.parse_args().package
    lines = {
        path.relative_to(package).as_posix(): len(path.read_text(encoding="utf-8").split("\n")) - 1
        for path in package.rglob("*.py")
    }
    groups: Counter[str] = Counter()
    for file, count in lines.items():
        groups[file.partition("/")[0].removesuffix(".py")] += count
    every = list(functions(package))
    long = sorted(every, key=lambda each: -each.lines)
    print(f"{sum(lines.values())} lines in {len(lines)} files, {len(groups)} groups")
    print("largest groups: " + ", ".join(f"{group} {count}" for group, count in groups.most_common(6)))
    print("largest files: " + ", ".join(f"{file} {lines[file]}" for file in sorted(lines, key=lambda file: -lines[file])[:8]))
    over = sum(each.lines > 50 for each in every)
    print(f"{len(every)} functions, {over} of more than 50 lines, median {long[len(long) // 2].lines}")
    print("longest functions: " + ", ".join(f"{each.file}:{each.name} {each.lines}" for each in long[:5]))
    for title, inside in (("outside torch", False), ("inside torch", True)):
        chosen = [each for each in every if (each.group == INSIDE_TORCH) is inside]
        print(f"signatures with Any, {title}: {share(chosen, ANY)}; with Any, Plain or object: {share(chosen, OPEN)}")
        print(f"signatures with a mapping of open values, {title}: {share(chosen, MAPPING)}")


if __name__ == "__main__":
    main()
