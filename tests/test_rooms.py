"""The house rules that hold the rooms apart, read from the code itself: imports, private names, state, errors, words.

Each rule is one test that lists all offenders. Each exception is listed with its reason; one that is no longer needed fails a
test too. The order of the rooms is import-linter's to hold, `global` statements and missing docstrings are ruff's: both are in
pyproject.toml, and `make check` runs them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import explorer

PACKAGE = Path(explorer.__file__).parent
#: Private modules of torch, and anything inside triton, by name or by path.
PRIVATE = re.compile(
    r"\btorch(?:[./]\w+)*[./]_[a-zA-Z]\w*|(?<![\w.])_(?:inductor|dynamo|functorch)\b|(?<!stages.)\btriton[./]\w+"
)
#: (file, what is named there): the reason why it may be.
PRIVATE_NAMES_ALLOWED: dict[tuple[str, str], str] = {
    ("analysis/advice/compiling.py", "torch._inductor"): "a setting of Inductor's, by the name a user sets it by",
    ("analysis/advice/hooks.py", "torch._dynamo"): "a setting of Dynamo's, by the name a user sets it by",
    ("analysis/advice/launches.py", "torch._dynamo"): "a mark of Dynamo's, by the name a user calls it by",
    ("analysis/advice/launches.py", "triton.cudagraphs"): "an option of Inductor's, as a user passes it",
    ("analysis/advice/launches.py", "triton.cudagraph_skip_dynamic_graphs"): "an option of Inductor's, as a user passes it",
    ("analysis/advice/measured_call.py", "triton.cudagraphs"): "an option of Inductor's, as a user passes it",
    ("analysis/advice/operators.py", "triton.max_tiles"): "an option of Inductor's, as a user passes it",
    ("analysis/advice/operators.py", "triton.tile_reductions"): "an option of Inductor's, as a user passes it",
    ("analysis/advice/operators.py", "triton.prefer_nd_tiling"): "an option of Inductor's, as a user passes it",
    ("analysis/questions/data_dependent.py", "torch._check"): "torch's documented function, in the line that a user writes",
    ("lab/bisecting/fault_script.py", "torch._C"): "the text of a script, which launches as the wrapper does",
    ("lab/bisecting/fault_script.py", "torch._inductor"): "the text of a script, which compiles as the wrapper does",
    ("studies/fitting/blocks.py", "torch.utils._python_dispatch"): "where torch has TorchDispatchMode",
    (
        "studies/fitting/optimizers.py",
        "torch.utils._python_dispatch",
    ): "where torch has TorchDispatchMode",
    ("workshop/quiz/kernel_puzzles.py", "triton.jit"): "triton's public decorator, in the text of a kernel",
    ("workshop/quiz/m5.py", "triton.jit"): "triton's public decorator, in the text of a kernel",
    ("workshop/quiz/programs.py", "triton.language"): "triton's public language, which the kernels' texts name",
    ("tracing/recording/trace.py", "triton.jit"): "triton's public decorator, named in a docstring",
    ("tracing/recording/trace.py", "triton.autotune"): "triton's public decorator, named in a docstring",
}

#: How a version is asked for.
VERSION = re.compile(r"__version__|version_info|importlib\.metadata|\bhexversion\b")
VERSIONS_ALLOWED = {
    ("__init__.py", "__version__"): "explorer's own",
    ("entry/cli.py", "__version__"): "explorer's own, printed by --version",
    ("entry/mcp/server.py", "__version__"): "explorer's own, said to the client",
    ("lab/bisecting/fault_script.py", "__version__"): "torch's, printed by a script; nothing is decided by it",
    ("lab/scripts/kernel_script.py", "__version__"): "torch's, printed by a script; nothing is decided by it",
    ("lab/scripts/model_script.py", "__version__"): "torch's, printed by a script; nothing is decided by it",
    ("lab/scripts/parts.py", "__version__"): "torch's, printed by a script; nothing is decided by it",
    ("process/plugins.py", "importlib.metadata"): "entry points, not versions",
    ("workshop/classpack/notebooks.py", "importlib.metadata"): "the files of the wheel, not versions",
    ("capture/absent/target.py", "__version__"): "torch's, said in a message; nothing is decided by it",
}

#: (file, what `hasattr` is asked of torch there): the reason why it may be.
ASKED_OF_TORCH_ALLOWED = {
    (
        "capture/absent/absent_gpu.py",
        "torch._C, '_CudaDeviceProperties'",
    ): "whether this build is one with CUDA, not which version it is",
    ("capture/absent/absent_gpu.py", "torch._C, '_cudnn'"): "whether this build is one with CUDA, not which version it is",
    ("capture/absent/active_driver.py", "triton.testing, name"): "of a list of names each that there is is answered",
    ("capture/absent/active_driver.py", "torch.cpu, name"): "of a list of names each that there is not is added",
    ("capture/absent/user_kernels.py", "asked, 'has_triton_tensor_descriptor_host_tma'"): "it is answered where there is one",
    ("capture/interpret/interpreter.py", "cuda, name"): "of a list of names each that there is is answered",
    ("capture/observe/realized.py", "config, device_default"): "whether a setting has a default for the device",
}

#: Files in which an error of any kind is caught, and why.
CATCHES_EVERYTHING = {
    "entry/mcp/program.py": "what an agent's program raises is the answer to it",
    "entry/mcp/worker.py": "a process of its own: what fails is its answer",
    "studies/sweeping/cell.py": "a cell of a sweep that fails is a row of its table",
    "tracing/recording/recorder.py": "an error in a hook must not break the user's compile",
    "analysis/overview/text.py": "a trace can be printed whatever is in it",
    "stages/replay.py": "what one stage cannot render must not take the rest away",
    "tracing/recording/trace.py": "the trace up to an error goes with the error",
    "tracing/recording/eager_check.py": "whatever the program raises eagerly, the error under way is its own",
    "process/plugins.py": "code of other packages: all the rest works without a plug-in that cannot be loaded",
    "stages/described.py": "code of other packages: a trace is saved also where a function of its stage raises",
    "tracing/recording/record.py": "an error of the program is given a note on an absent GPU, and goes through",
    "process/under_way.py": "a view that cannot hear of a verb must not silence the others",
    "stages/unread.py": "facts that cannot be made when the recording is read must not take the others away",
    "tracing/traced/trace.py": "a trace that cannot be replayed when it is read says so",
    "tracing/recording/finish.py": "a program whose recording cannot be replayed gets a trace that says so",
    "capture/ladder/ladder.py": "what fails in a kernel's source, in heuristics or in triton is raised as explorer's own error",
    "capture/ladder/helion.py": "what fails in the program's code, as Helion copies it, is raised as explorer's own error",
    "tracing/recording/cold_process.py": "a process of its own: what fails is its answer",
    "tracing/traced/cold_compile.py": "a call that cannot be pickled, which runs code of the program's, is said in the answer",
    "view/widget/worker.py": "an error of what the view asked for is its answer, shown in the view",
    "lab/live/pallas.py": "what JAX raises for a kernel is what the form's text says",
    "capture/ladder/triton_worker.py": "a process of its own: what fails is its answer",
    "capture/observe/library_memory.py": "a call that does not run alone is not measured; other errors are raised again",
    "capture/observe/patch.py": "an error of explorer's in place of torch's function must not break the compile: torch's answers",
    "capture/splice/tuning_process.py": "a process of its own: what fails is its answer",
    "capture/splice/trial_process.py": "a process of its own: what fails is its answer",
    "capture/compilers/trial_process.py": "a process of its own: what fails is its answer",
    "studies/varying/session.py": "what a variation of the program raises is what the probe shows of it",
    "workshop/quiz/attempts.py": "what a learner's code raises is a miss, and no error of the cell",
    "studies/varying/lab.py": "a variation that the program refuses is not tried by itself",
    "analysis/advice/advise.py": "a check that fails on a trace must not take the other verdicts, or the view, away",
    "capture/absent/retarget.py": "a compile for a GPU you don't have, that explorer breaks is given up: the graph runs",
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


FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
#: The rooms that may look inside torch and triton.
INSIDE_TORCH = ("capture/", "lab/scripts/", "lab/stepping/")

Trees = Mapping[str, ast.Module]


@pytest.fixture(scope="module")
def trees() -> Trees:
    """Give the syntax tree of each file of the package."""
    return {file: ast.parse(path.read_text(encoding="utf-8")) for file, path in FILES.items()}


def tree_of(text: str) -> Trees:
    """The tree of a text, as if it were a file of the package."""
    return {"sample.py": ast.parse(text)}


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


def words(tree: ast.AST) -> Iterator[str]:
    """Everything that a file says to Python: dotted names, imports and all strings, docstrings too, without comments."""
    for node in ast.walk(tree):
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


def matches(trees: Trees, pattern: re.Pattern[str]) -> set[tuple[str, str]]:
    """(file, match) of a pattern in the words of these files."""
    return {(file, hit[0]) for file, tree in trees.items() for word in words(tree) for hit in pattern.finditer(word)}


def is_outside_torch(file: str) -> bool:
    """Whether a file is in a room that knows only the public names of torch and triton."""
    return not file.startswith(INSIDE_TORCH)


# Imports -----------------------------------------------------------------------------------------------------------


#: What a verb imports when it is called, and the first public name does not.
LATE = (
    "pdb",
    "explorer.lab.bisecting",
    "explorer.lab.drifting",
    "explorer.lab.stepping",
    "explorer.lab.scripts",
    "explorer.analysis.advice",
    "explorer.analysis.timing",
    "explorer.studies.varying",
    "explorer.studies.sweeping",
)


def modules_after(code: str, *names: str) -> list[str]:
    """The modules of a new process that ran some code."""
    command = [sys.executable, "-c", f"import importlib, sys\n{code}\nprint(*sys.modules)", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.compile
def test_importing_every_module_imports_neither_torch_nor_triton() -> None:
    """`import explorer`, and importing each module under it, leaves torch and triton out of the process."""
    names = sorted(grimp.build_graph("explorer", cache_dir=None).modules)
    loaded = modules_after("for name in sys.argv[1:]: importlib.import_module(name)", *names)
    assert set(names) <= set(loaded) and len(names) == len(FILES)
    assert [name for name in loaded if name.partition(".")[0] in ("torch", "triton")] == []


@pytest.mark.compile
def test_the_first_name_imports_no_room_of_a_single_verb() -> None:
    """`explorer.trace` leaves out what a verb imports when it is called: pdb, the writers of scripts, advice, profiles."""
    loaded = modules_after("import explorer; explorer.trace")
    assert "explorer.tracing.recording.trace" in loaded
    assert [name for name in loaded if name.startswith(LATE)] == []


def circle_in(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The nodes of a circle in a graph, the first one at the end again; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """No module needs itself by way of the imports written in it and in others, deferred ones and its room's included.

    Not counted: what only type checkers read, and that a submodule's import runs the `__init__` of its packages.
    """
    graph = grimp.build_graph("explorer", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert "explorer.entry.magics" in imports["explorer"], "an import inside a function counts"
    assert "explorer.tracing.recording.trace" not in imports["explorer"], "one for type checkers only does not"
    assert circle_in(imports) == []


def test_the_search_for_circles_finds_them() -> None:
    """A module that imports itself, two that import each other, and a circle further down; two ways to one module are none."""
    assert circle_in({"a": ["a"]}) == ["a", "a"]
    assert len(circle_in({"a": ["b"], "b": ["a"]})) == 3
    assert sorted(set(circle_in({"a": ["b"], "b": ["c"], "c": ["b"]}))) == ["b", "c"]
    assert circle_in({"a": ["b", "c"], "b": ["c"]}) == []


# Private names and versions ----------------------------------------------------------------------------------------


def test_private_names_of_torch_and_triton_are_only_in_the_rooms_inside_torch(trees: Trees) -> None:
    """No room but those names torch's private modules or triton's insides, in code or in a string; nor imports triton."""
    outside = {file: tree for file, tree in trees.items() if is_outside_torch(file)}
    assert matches(outside, PRIVATE) == set(PRIVATE_NAMES_ALLOWED)
    assert [(file, name) for file, tree in outside.items() for name in imported(tree) if name.partition(".")[0] == "triton"] == []


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that the import statements of a file name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def test_the_search_for_private_names_finds_them() -> None:
    """Each way to name a private module is found, in code and in strings."""
    texts = (
        "torch._dynamo.reset()",
        "from torch.utils import _pytree",
        "import torch.fx._x",
        "'torch/_inductor/ir.py'",
        "'_dynamo'",
        "triton.compiler",
    )
    assert [text for text in texts if not matches(tree_of(text), PRIVATE)] == []
    assert list(imported(ast.parse("def f():\n    import triton.language\n    from triton import jit"))) == [
        "triton.language",
        "triton",
    ]


def test_only_versions_names_what_holds_a_version_number(trees: Trees) -> None:
    """`__version__`, `version_info` and the like are named in one file; elsewhere only for the exceptions named above."""
    named = matches(trees, VERSION)
    assert {(file, name) for file, name in named if file != "capture/observe/versions.py"} == set(VERSIONS_ALLOWED)


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


def test_only_versions_asks_torch_with_hasattr(trees: Trees) -> None:
    """`hasattr` of a module or class of torch's or triton's asks which torch it is: in one file, but for those named above."""
    asked = {(file, what) for file, tree in trees.items() for what in asked_of_torch(tree)}
    assert {(file, what) for file, what in asked if file != "capture/observe/versions.py"} == set(ASKED_OF_TORCH_ALLOWED)
    assert len({what for file, what in asked if file == "capture/observe/versions.py"}) > 5


# State -------------------------------------------------------------------------------------------------------------


def collections_of(tree: ast.Module) -> set[str]:
    """The module-level names that hold a list, dict or set."""
    kinds = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    names: set[str] = set()
    for node in at_import(tree.body):
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


def test_no_list_dict_or_set_of_a_module_is_changed(trees: Trees) -> None:
    """No statement changes in place, by its name, what a module holds in a list, dict or set; names local to a function may."""
    assert any(collections_of(tree) for tree in trees.values())
    assert changed_collections(trees) == []


def changed_collections(trees: Trees) -> list[tuple[str, str, int]]:
    """(file, name, line) of each change in place of a list, dict or set that a module of these files holds."""
    held = {name for tree in trees.values() for name in collections_of(tree)}
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


def test_the_search_for_changed_collections_finds_them() -> None:
    """Each way to change a module's list, dict or set is found; a function may change its own."""
    texts = ("A = []\nA.append(1)", "A = {}\ndef f(): A['x'] = 1", "A: set = set()\ndef f(): A.add(1)", "A = {}\ndel A['x']")
    assert [text for text in texts if [name for _, name, _ in changed_collections(tree_of(text))] != ["A"]] == []
    assert changed_collections(tree_of("A = []\ndef f(A): A.append(1)")) == []


def test_no_statement_that_runs_at_import_names_the_environment(trees: Trees) -> None:
    """No statement that runs at import, default values and decorators included, names `environ`, `getenv` or `expanduser`."""
    assert [(file, code) for file, tree in trees.items() for code in reads_of_environment(tree)] == []


def reads_of_environment(tree: ast.Module) -> list[str]:
    """The expressions that are evaluated at import and name the environment."""
    code = [ast.unparse(part) for node in at_import(tree.body) for part in evaluated(node)]
    return [text for text in code if re.search(r"\benviron\b|\bgetenv\b|\bexpanduser\b", text)]


def test_the_search_for_the_environment_finds_it() -> None:
    """It is found in a class, a branch, a default value and a decorator; a function's body does not run at import."""
    texts = (
        "import os\nclass A:\n    home = os.environ['HOME']",
        "import os\nif os.getenv('A'): pass",
        "import os\ndef f(home=os.path.expanduser('~')): pass",
        "import os\n@decorate(os.environ)\ndef f(): pass",
    )
    assert [text for text in texts if not reads_of_environment(ast.parse(text))] == []
    assert reads_of_environment(ast.parse("import os\ndef f(): return os.environ")) == []


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


def test_only_the_listed_files_catch_every_error(trees: Trees) -> None:
    """`except Exception` and its like stand in all files that `CATCHES_EVERYTHING` has, with a reason each, and in no other.

    Ruff's BLE asks for a reason at each handler. It lets pass those that raise again, and `suppress(Exception)`.
    """
    assert {file for file, tree in trees.items() if catches_everything(tree)} == set(CATCHES_EVERYTHING)


def test_the_search_for_broad_handlers_finds_them() -> None:
    """Each way to catch everything is found; a named error is not."""
    handlers = ("except:", "except Exception:", "except (OSError, BaseException) as e:")
    assert [each for each in handlers if catches_everything(ast.parse(f"try: pass\n{each} raise")) != [2]] == []
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


def test_docstrings_have_a_first_line_that_ends(trees: Trees) -> None:
    """The first line of each public docstring ends with ".", ":", "?" or "…"; ruff's D1 holds that there is one."""
    documented = [(file, name, node) for file, tree in trees.items() for name, node in (("", tree), *public(tree))]
    first_lines = {(file, name): (ast.get_docstring(node) or "").partition("\n")[0] for file, name, node in documented}
    assert len(first_lines) > len(trees)
    assert {place: line for place, line in first_lines.items() if line and not re.search(r"[.:?…]$", line)} == {}


def decided_in() -> Iterator[tuple[str, str]]:
    """(file, name) that the guide's table says decides a question; a name belongs to the file before it."""
    text = (PACKAGE.parent / "docs" / "contributing" / "decided.md").read_text(encoding="utf-8")
    table = text.partition("\n## ")[0]
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
    starts = rf"^\s*(?:(?:async )?def |class |static |(?:export )?(?:function |const )?)?{name}\b(?:\(|:|\s*[:=])"
    return bool(text) and (not name or re.search(starts, text, re.MULTILINE) is not None)


def test_the_contributing_guide_names_what_is_there() -> None:
    """Each file and function that the guide's table says decides a question is in the package."""
    named = set(decided_in())
    assert len({file for file, _ in named}) > 8 and len([name for _, name in named if name]) > 10
    assert [place for place in named if not defines(*place)] == []
    assert not defines("analysis/questions/fusion.py", "_refuse") and not defines("no_such_file.py", "")


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


def test_type_checkers_see_the_names_that_are_imported_late(trees: Trees) -> None:
    """What is imported for type checkers is what __all__ names."""
    block = next(node for node in trees["__init__.py"].body if isinstance(node, ast.If))
    assert sorted(alias.asname or "" for node in block.body for alias in node.names) == explorer.__all__[:-1]  # type: ignore[attr-defined]
