"""The house rules that hold the rooms apart, read from the code itself: imports, private names, state, errors, words.

Each exception is listed with its reason; one that is no longer needed fails a test too.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import explorer

PACKAGE = Path(explorer.__file__).parent
#: From the bottom up: a room imports, when it is itself imported and inside its functions, only from itself and from the rooms
#: before it.
ROOMS = (
    "errors",
    "model",
    "process",
    "gpus",
    "layouts",
    "help",
    "stages",
    "replay",
    "observe",
    "ladder",
    "interpret",
    "absent",
    "compilers",
    "splice",
    "questions",
    "timing",
    "advice",
    "files",
    "logs",
    "ranks",
    "wire",
    "payload",
    "packing",
    "compared",
    "page",
    "kept",
    "live",
    "scripts",
    "bisecting",
    "stepping",
    "widget",
    "traced",
    "recording",
    "fitting",
    "sweeping",
    "probing",
    "quiz",
    "testing",
    "magics",
    "explorer",
    "demo",
    "doctor",
    "classpack",
    "mcp",
    "cli",
    "__main__",
)

#: Private modules of torch, and anything inside triton, by name or by path.
PRIVATE = re.compile(
    r"\btorch(?:[./]\w+)*[./]_[a-zA-Z]\w*|(?<![\w.])_(?:inductor|dynamo|functorch)\b|(?<!stages.)\btriton[./]\w+"
)
#: (file, what is named there): the reason why it may be.
PRIVATE_NAMES_ALLOWED: dict[tuple[str, str], str] = {
    ("advice/launches.py", "triton.cudagraphs"): "an option of Inductor's, as a user passes it",
    ("advice/operators.py", "triton.tile_reductions"): "an option of Inductor's, as a user passes it",
    ("advice/operators.py", "triton.prefer_nd_tiling"): "an option of Inductor's, as a user passes it",
    ("bisecting/fault_script.py", "torch._C"): "the text of a script, which launches as the wrapper does",
    ("bisecting/fault_script.py", "torch._inductor"): "the text of a script, which compiles as the wrapper does",
    ("fitting/blocks.py", "torch.utils._python_dispatch"): "where torch has TorchDispatchMode",
    (
        "fitting/optimizers.py",
        "torch.utils._python_dispatch",
    ): "where torch has TorchDispatchMode",
    ("quiz/m5.py", "triton.jit"): "triton's public decorator, in the text of a kernel",
    ("quiz/programs.py", "triton.language"): "triton's public language, which the kernels' texts name",
    ("recording/handwritten.py", "triton.jit"): "triton's public decorator, named in a docstring",
    ("recording/handwritten.py", "triton.autotune"): "triton's public decorator, named in a docstring",
}

#: How a version is asked for.
VERSION = re.compile(r"__version__|version_info|importlib\.metadata|\bhexversion\b")
VERSIONS_ALLOWED = {
    ("__init__.py", "__version__"): "explorer's own",
    ("cli.py", "__version__"): "explorer's own, printed by --version",
    ("mcp/server.py", "__version__"): "explorer's own, said to the client",
    ("bisecting/fault_script.py", "__version__"): "torch's, printed by a script; nothing is decided by it",
    ("scripts/kernel_script.py", "__version__"): "torch's, printed by a script; nothing is decided by it",
    ("scripts/model_script.py", "__version__"): "torch's, printed by a script; nothing is decided by it",
    ("scripts/parts.py", "__version__"): "torch's, printed by a script; nothing is decided by it",
    ("absent/target.py", "__version__"): "torch's, said in a message; nothing is decided by it",
}

#: (file, what `hasattr` is asked of torch there): the reason why it may be.
ASKED_OF_TORCH_ALLOWED = {
    ("absent/absent_gpu.py", "torch._C, '_CudaDeviceProperties'"): "whether this build is one with CUDA, not which version it is",
    ("absent/absent_gpu.py", "torch._C, '_cudnn'"): "whether this build is one with CUDA, not which version it is",
    ("absent/active_driver.py", "triton.testing, name"): "of a list of names each that there is is answered",
    ("absent/active_driver.py", "torch.cpu, name"): "of a list of names each that there is not is added",
    ("absent/user_kernels.py", "asked, 'has_triton_tensor_descriptor_host_tma'"): "it is answered where there is one",
    ("interpret/interpreter.py", "cuda, name"): "of a list of names each that there is is answered",
    ("observe/realized.py", "config, device_default"): "whether a setting has a default for the device",
}

#: Files in which an error of any kind is caught, and why.
CATCHES_EVERYTHING = {
    "mcp/program.py": "what an agent's program raises is the answer to it",
    "mcp/worker.py": "a process of its own: what fails is its answer",
    "sweeping/cell.py": "a cell of a sweep that fails is a row of its table",
    "recording/recorder.py": "an error in a hook must not break the user's compile",
    "replay.py": "what one stage cannot render must not take the rest away",
    "recording/trace.py": "the trace up to an error goes with the error",
    "recording/record.py": "an error of the program is given a note on an absent GPU, and goes through",
    "process/under_way.py": "a view that cannot hear of a verb must not silence the others",
    "model/unread.py": "facts that cannot be made when the recording is read must not take the others away",
    "traced/trace.py": "a trace that cannot be replayed when it is read says so",
    "recording/finish.py": "a program whose recording cannot be replayed gets a trace that says so",
    "ladder/ladder.py": "what fails in a kernel's source, in heuristics or in triton is raised as explorer's own error",
    "widget/worker.py": "an error of what the view asked for is its answer, shown in the view",
    "ladder/triton_worker.py": "a process of its own: what fails is its answer",
    "observe/patch.py": "an error of explorer's in place of torch's function must not break the compile: the original answers",
    "splice/tuning_process.py": "a process of its own: what fails is its answer",
    "splice/trial_process.py": "a process of its own: what fails is its answer",
    "compilers/trial_process.py": "a process of its own: what fails is its answer",
    "probing/session.py": "what a variation of the program raises is what the probe shows of it",
    "quiz/attempts.py": "what a learner's code raises is a miss, and no error of the cell",
    "probing/lab.py": "a variation that the program refuses is not tried by itself",
    "advice/advise.py": "a check that fails on a trace must not take the other verdicts, or the view, away",
    "absent/retarget.py": "a compile for a GPU you don't have, that explorer breaks is given up: the graph runs",
}

MUTATORS = {
    "append",
    "extend",
    "insert",
    "remove",
    "pop",
    "clear",
    "sort",
    "reverse",
    "add",
    "discard",
    "update",
    "setdefault",
    "popitem",
    "__setitem__",
    "__delitem__",
}


def name_of(path: Path) -> str:
    parts = ["explorer", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {name_of(path): path for path in FILES.values()}
TREES = {file: ast.parse(path.read_text(encoding="utf-8")) for file, path in FILES.items()}
#: The rooms that may look inside torch and triton.
INSIDE_TORCH = ("observe/", "ladder/", "interpret/", "absent/", "compilers/", "splice/", "scripts/", "stepping/")
OUTSIDE_TORCH = [file for file in FILES if not file.startswith(INSIDE_TORCH)]


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "explorer"


def at_import(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, those of classes and branches included."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_import(node.orelse)
            continue
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ("body", "orelse", "finalbody", "handlers"):
                yield from at_import(getattr(node, part, []))


def imported(statements: Iterable[ast.AST]) -> Iterator[str]:
    """The modules that import statements name; of `from package import name` the submodule where `name` is one."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else str(node.module)


def without_type_checking(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node of a tree but those in a branch that only type checkers see."""
    yield tree
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from without_type_checking(other)
        else:
            yield from without_type_checking(node)


def imports_of(file: str) -> list[str]:
    """The modules that a file imports, when it is imported itself and inside its functions; not those for type checkers only."""
    return list(imported(without_type_checking(TREES[file])))


def words(file: str) -> Iterator[str]:
    """Everything that a file says to Python: dotted names, imports and all strings, docstrings too, without comments."""
    for node in ast.walk(TREES[file]):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def found(files: Iterable[str], pattern: re.Pattern[str]) -> set[tuple[str, str]]:
    return {(file, hit[0]) for file in files for word in words(file) for hit in pattern.finditer(word)}


# Imports -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("modules", [["explorer"], sorted(MODULES)], ids=["explorer", "every module"])
def test_importing_the_explorer_imports_neither_torch_nor_triton(modules: list[str]) -> None:
    """`import explorer`, and importing each module under it, leaves torch and triton out of the process."""
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('torch', 'triton')])"
    )
    done = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_first_name_imports_no_room_of_a_single_verb() -> None:
    """`explorer.trace` leaves out what a verb imports when it is called: pdb, the writers of scripts, advice, profiles."""
    code = "import sys, explorer; explorer.trace; print([m for m in sys.modules if m.startswith(tuple(sys.argv[1:]))])"
    late = (
        "pdb",
        "explorer.bisecting",
        "explorer.stepping",
        "explorer.scripts",
        "explorer.advice",
        "explorer.timing",
        "explorer.probing",
        "explorer.sweeping",
    )
    done = subprocess.run([sys.executable, "-c", code, *late], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_every_module_is_in_a_room_of_the_list() -> None:
    """A new room is put into the order by whoever builds it."""
    assert {room_of(module) for module in MODULES} - set(ROOMS) == set()


@pytest.mark.parametrize("file", FILES)
def test_rooms_import_downwards(file: str) -> None:
    """What a module imports, inside its functions too, is in its own room or in one below."""
    floor = ROOMS.index(room_of(name_of(FILES[file])))
    names = [name for name in imports_of(file) if name.partition(".")[0] == "explorer"]
    assert [name for name in names if ROOMS.index(room_of(name)) > floor] == []


def imports_by_module(imports: Callable[[str], Iterable[str]]) -> dict[str, set[str]]:
    """Each module, with the modules of the package that `imports` finds in its file."""
    files = {name: path.relative_to(PACKAGE).as_posix() for name, path in MODULES.items()}
    return {name: {other for other in imports(file) if other in MODULES and other != name} for name, file in files.items()}


def circle_in(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The nodes of a circle in a graph, the first one at the end again; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """No module needs itself by way of the imports that are written in it and in others, deferred ones and its room's included.

    Not counted: what only type checkers read, and that a submodule's import runs the `__init__` of its packages. Prints how many
    imports there are, how many rooms they lead between, and how many of them are deferred: written inside a function.
    """
    graph = imports_by_module(imports_of)
    at_the_top = imports_by_module(lambda file: imported(at_import(TREES[file].body)))
    every = {(name, other) for name, others in graph.items() for other in others}
    deferred = every - {(name, other) for name, others in at_the_top.items() for other in others}
    between = {(room_of(name), room_of(other)) for name, other in every if room_of(name) != room_of(other)}
    up = [pair for pair in between if ROOMS.index(pair[0]) < ROOMS.index(pair[1])]
    circle = circle_in(graph)
    print(
        f"\n{len(graph)} modules in {len({room_of(name) for name in graph})} rooms, {len(every)} imports of one by another, "
        f"{len(deferred)} of them deferred; {len(between)} arrows between rooms, {len(up)} of them up; "
        f"{'no circle' if not circle else 'a circle: ' + ' → '.join(circle)}"
    )
    assert len(every) > len(deferred) > 0 and circle == [] and up == []


@pytest.mark.parametrize(
    ("graph", "length"),
    [
        ({"a": ["a"]}, 2),
        ({"a": ["b"], "b": ["a"]}, 3),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, 3),
        ({"a": ["b", "c"], "b": ["c"]}, 0),
    ],
)
def test_the_search_for_circles_finds_them(graph: dict[str, list[str]], length: int) -> None:
    """A module that imports itself, two that import each other, and a circle further down; two ways to one module are none."""
    assert len(circle_in(graph)) == length


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f():\n    from explorer.widget import Explorer", ["explorer.widget"]),
        ("class A:\n    def f(self):\n        if self:\n            import explorer.page", ["explorer.page"]),
        ("if TYPE_CHECKING:\n    from explorer.traced import Trace", []),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import explorer.page", ["explorer.page"]),
    ],
)
def test_imports_inside_functions_are_counted(text: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An import counts wherever it stands, unless only type checkers read it."""
    monkeypatch.setitem(TREES, "sample.py", ast.parse(text))
    assert imports_of("sample.py") == names


# Private names and versions ----------------------------------------------------------------------------------------


def test_private_names_of_torch_and_triton_are_only_in_the_rooms_inside_torch() -> None:
    """No room but those names torch's private modules or triton's insides, in code or in a string; nor imports triton."""
    assert found(OUTSIDE_TORCH, PRIVATE) == set(PRIVATE_NAMES_ALLOWED)
    whole = [(file, name) for file in OUTSIDE_TORCH for name in imported(ast.walk(TREES[file]))]
    assert [(file, name) for file, name in whole if name.partition(".")[0] == "triton"] == []


@pytest.mark.parametrize(
    "text",
    [
        "torch._dynamo.reset()",
        "from torch.utils import _pytree",
        "import torch.fx._x",
        "'torch/_inductor/ir.py'",
        "'_dynamo'",
        "triton.compiler",
    ],
)
def test_the_search_for_private_names_finds_them(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to name a private module is found, in code and in strings."""
    monkeypatch.setitem(TREES, "sample.py", ast.parse(text))
    assert found(["sample.py"], PRIVATE)


def test_only_versions_names_what_holds_a_version_number() -> None:
    """`__version__`, `version_info` and the like are named in one file; elsewhere only for the exceptions named above."""
    assert found([f for f in FILES if f != "observe/versions.py"], VERSION) == set(VERSIONS_ALLOWED)


def asked_of_torch(tree: ast.AST) -> Iterator[str]:
    """What `hasattr` is asked of torch's or triton's modules and classes, as it is written."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in ("torch", "triton"):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            modules = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
            names |= {name for name, alias in zip(modules, node.names, strict=True) if alias.name.startswith(("torch", "triton"))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr":
            owner = ast.unparse(node.args[0])
            if owner.partition(".")[0] in names:
                yield f"{owner}, {ast.unparse(node.args[1])}"


def test_only_versions_asks_torch_with_hasattr() -> None:
    """`hasattr` of a module or class of torch's or triton's asks which torch it is: in one file, but for those named above."""
    asked = {(file, what) for file, tree in TREES.items() for what in asked_of_torch(tree)}
    assert {(file, what) for file, what in asked if file != "observe/versions.py"} == set(ASKED_OF_TORCH_ALLOWED)
    assert len({what for file, what in asked if file == "observe/versions.py"}) > 5


# State -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES)
def test_no_global_statement(file: str) -> None:
    """No function rebinds a name of its module."""
    assert [node.lineno for node in ast.walk(TREES[file]) if isinstance(node, ast.Global)] == []


def collections_of(file: str) -> set[str]:
    """The module-level names that hold a list, dict or set."""
    kinds = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    names: set[str] = set()
    for node in at_import(TREES[file].body):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        value = getattr(node, "value", None)
        made = isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in (
            "list",
            "dict",
            "set",
            "defaultdict",
            "deque",
            "OrderedDict",
            "Counter",
            "WeakKeyDictionary",
            "WeakValueDictionary",
        )
        if isinstance(value, kinds) or made:
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
    return names


def changed(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(last part of the name, line) of everything that is changed in place, outside `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            places = [node.func.value]
        elif isinstance(node, (ast.Assign, ast.Delete)):
            places = [t.value for t in node.targets if isinstance(t, ast.Subscript)]
        elif isinstance(node, ast.AugAssign):
            places = [node.target.value if isinstance(node.target, ast.Subscript) else node.target]
        else:
            continue
        for place in places:
            if isinstance(place, (ast.Name, ast.Attribute)) and not ast.unparse(place).startswith("self."):
                yield ast.unparse(place).rpartition(".")[2], node.lineno


def test_no_file_calls_splitlines() -> None:
    """str.splitlines breaks at form feeds and U+2028 too, which no compiler counts; `model.text_lines` does not."""
    assert [path.name for path in PACKAGE.rglob("*.py") if ".splitlines(" in path.read_text(encoding="utf-8")] == []


def test_only_one_file_calls_ast_parse() -> None:
    """On CPython 3.11 ast.parse fails where another thread parses too; `model.syntax.parsed` does not."""
    assert [path.name for path in PACKAGE.rglob("*.py") if "ast.parse(" in path.read_text(encoding="utf-8")] == ["syntax.py"]


def test_no_list_dict_or_set_of_a_module_is_changed() -> None:
    """No statement changes in place, by its name, what a module holds in a list, dict or set; names local to a function may."""
    assert any(collections_of(file) for file in FILES)
    assert changed_collections(FILES) == []


def changed_collections(files: Iterable[str]) -> list[tuple[str, str, int]]:
    """(file, name, line) of each change in place of a list, dict or set that a module of these files holds."""
    trees = {file: TREES[file] for file in files}
    held = {name for file in trees for name in collections_of(file)}
    local = {
        (file, name)
        for file, tree in trees.items()
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.Lambda))
        for name in assigned(function)
    }
    return [(f, n, line) for f, tree in trees.items() for n, line in changed(tree) if n in held and (f, n) not in local]


def assigned(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The names that are a function's own: its parameters and what it assigns."""
    own = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    return own | {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


@pytest.mark.parametrize(
    "text", ["A = []\nA.append(1)", "A = {}\ndef f(): A['x'] = 1", "A: set = set()\ndef f(): A.add(1)", "A = {}\ndel A['x']"]
)
def test_the_search_for_changed_collections_finds_them(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to change a module's list, dict or set is found."""
    monkeypatch.setitem(TREES, "sample.py", ast.parse(text))
    assert [(file, name) for file, name, _ in changed_collections(["sample.py"])] == [("sample.py", "A")]


@pytest.mark.parametrize("file", FILES)
def test_no_statement_that_runs_at_import_names_the_environment(file: str) -> None:
    """No statement that runs at import, default values and decorators included, names `environ`, `getenv` or `expanduser`."""
    code = [ast.unparse(part) for node in at_import(TREES[file].body) for part in evaluated(node)]
    assert [text for text in code if re.search(r"\benviron\b|\bgetenv\b|\bexpanduser\b", text)] == []


def evaluated(node: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement that are evaluated when it is reached; a function's body is not."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
    if hasattr(node, "body"):
        return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return [node]


# Errors ------------------------------------------------------------------------------------------------------------


def catches_everything(tree: ast.AST) -> list[int]:
    """The lines of `except:`, `except Exception`, also in a tuple, and `suppress(Exception)`."""
    lines: list[int] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            caught = list(node.args)
        else:
            continue
        if any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in caught):
            lines.append(node.lineno)
    return lines


def test_only_the_listed_files_catch_every_error() -> None:
    """`except Exception` and its like stand in all files that `CATCHES_EVERYTHING` has, with a reason each, and in no other."""
    assert {file for file, tree in TREES.items() if catches_everything(tree)} == set(CATCHES_EVERYTHING)


@pytest.mark.parametrize("handler", ["except:", "except Exception:", "except (OSError, BaseException) as e:"])
def test_the_search_for_broad_handlers_finds_them(handler: str) -> None:
    """Each way to catch everything is found; a named error is not."""
    assert catches_everything(ast.parse(f"try: pass\n{handler} pass")) == [2]
    assert catches_everything(ast.parse("with suppress(Exception): pass")) == [1]
    assert catches_everything(ast.parse("try: pass\nexcept (OSError, ValueError): pass")) == []


# Words -------------------------------------------------------------------------------------------------------------


def public(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """The public functions and classes of a module, and the public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{node.name}.")


@pytest.mark.parametrize("file", FILES)
def test_public_docstrings_have_a_first_line_that_ends(file: str) -> None:
    """Every public function, class and method has a docstring whose first line ends with ".", ":", "?" or "…"."""
    wrong: Mapping[str, str | None] = {
        name: doc
        for name, node in public(TREES[file])
        if not (doc := ast.get_docstring(node)) or not re.search(r"[.:?…]$", doc.splitlines()[0])
    }
    assert wrong == {}
    assert ast.get_docstring(TREES[file]), "a module says what it is"


def decided_in() -> Iterator[tuple[str, str]]:
    """(file, name) that CONTRIBUTING's table says decides a question; a name belongs to the file before it."""
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("**Where is it decided?**")[2].partition("\n\n**")[0]
    for row in (line for line in table.splitlines() if line.startswith("|")):
        file = ""
        for word in re.findall(r"`([^`]+)`", row):
            if word.endswith((".py", ".js")):
                file = word
                yield file, ""
            elif word.isidentifier() and file:
                yield file, word


def defines(file: str, name: str) -> bool:
    """Whether a file of the package defines a function, method, class or constant."""
    path = PACKAGE / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    starts = rf"^\s*(?:(?:async )?def |class |static |export )?{name}\b(?:\(|:|\s*[:=])"
    return bool(text) and (not name or re.search(starts, text, re.MULTILINE) is not None)


def test_the_contributing_guide_names_what_is_there() -> None:
    """Each file and function that the guide's table says decides a question is in the package."""
    named = set(decided_in())
    assert len({file for file, _ in named}) > 8 and len([name for _, name in named if name]) > 10
    assert [place for place in named if not defines(*place)] == []
    assert not defines("questions/fusion.py", "_refuse") and not defines("no_such_file.py", "")


def test_all_names_resolve_and_are_sorted() -> None:
    """`explorer.__all__` is sorted, the version last; each name resolves, and `dir` shows it."""
    *names, last = explorer.__all__
    assert last == "__version__" and names == sorted(names) and len(set(names)) == len(names)
    assert all(getattr(explorer, name) is not None for name in explorer.__all__)
    assert set(explorer.__all__) <= set(dir(explorer))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """A wrong name says so as Python does, so that hasattr and imports work."""
    assert not hasattr(explorer, "no_such_name")
    with pytest.raises(ImportError):
        exec("from explorer import no_such_name")


def test_type_checkers_see_the_names_that_are_imported_late() -> None:
    """What is imported for type checkers is what __all__ names."""
    block = next(node for node in TREES["__init__.py"].body if isinstance(node, ast.If))
    assert sorted(alias.asname or "" for node in block.body for alias in node.names) == explorer.__all__[:-1]  # type: ignore[attr-defined]
