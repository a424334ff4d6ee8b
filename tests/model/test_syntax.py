"""The tree of a source: `ast.parse`'s, also where another parse comes in between."""

import ast
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from explorer.model.syntax import ATTEMPTS, definitions, parsed, parsed_expression, statements

SOURCE = Path(ast.__file__).read_text()


class Interrupted:
    """Has the garbage collector parse something, from deeper down, while `on`; counts what is parsed by `ast.parse`."""

    def __init__(self) -> None:
        self.on, self.inside, self.attempts, self.parse = False, False, 0, ast.parse

    def collected(self, phase: str, _: object) -> None:
        if phase == "stop" and self.on and not self.inside:
            self.inside = True
            self.parse("a + b")
            self.inside = False

    def counted(self, *args: Any) -> ast.AST:
        self.attempts += 1
        self.on = self.attempts < 4
        return self.parse(*args)


@pytest.fixture
def interrupted() -> Iterator[Interrupted]:
    made, thresholds = Interrupted(), gc.get_threshold()
    gc.callbacks.append(made.collected)
    gc.set_threshold(50)
    yield made
    gc.callbacks.remove(made.collected)
    gc.set_threshold(*thresholds)


def test_a_parse_in_between_changes_nothing(interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 raises SystemError for most of the parses that another one comes into; `parsed` gives the tree."""
    plain = ast.dump(ast.parse(SOURCE))
    monkeypatch.setattr(ast, "parse", interrupted.counted)
    for _ in range(20):
        interrupted.attempts = 0
        assert ast.dump(parsed(SOURCE)) == plain
        if interrupted.attempts > 1:
            break
    assert (interrupted.attempts > 1) is (sys.version_info < (3, 12))


def test_what_parse_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(parsed_expression("a + 1").body, ast.BinOp)
    with pytest.raises(SyntaxError):
        parsed("a +")
    with pytest.raises(SyntaxError):
        parsed_expression("a = 1")

    calls = []

    def fails(source: str, *_: str) -> ast.AST:
        calls.append(source)
        raise SystemError("AST constructor recursion depth mismatch (before=18, after=16)")

    monkeypatch.setattr(ast, "parse", fails)
    with pytest.raises(SystemError, match="depth mismatch"):
        parsed("a")
    assert len(calls) == ATTEMPTS


def test_statements_come_in_the_order_of_a_walk() -> None:
    """All that is no expression is found, as `ast.walk` finds it, in this file and in others of every form of statement."""
    forms = "for a in b:\n  with c:\n    try: d\n    except E: e\n    else: f\n    finally: g\n"
    forms += "match h:\n  case 1: i\nif j: k\nelse: m\n"
    for source in (SOURCE, forms, "class A:\n  async def f(s):\n    async with x: return 1\n"):
        tree = parsed(source)
        kinds = (ast.mod, ast.stmt, ast.excepthandler, ast.match_case)
        assert list(statements(tree)) == [node for node in ast.walk(tree) if isinstance(node, kinds)]


def test_definitions_are_kept_on_their_lines() -> None:
    """What a module defines stays where it is, with decorators; what it would do is blank."""
    source = "import torch\nprint(1)\nSIZES = (2, 3)\nx = torch.ones(2)\n@torch.no_grad()\ndef f(x):\n    return x\n\nf(x)\n"
    kept = ["import torch", "", "SIZES = (2, 3)", "", "@torch.no_grad()", "def f(x):", "    return x", "", "", ""]
    assert definitions(source).split("\n") == kept
