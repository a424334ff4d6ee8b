"""The zoo of traces: each is made once, whoever asks, and again when it must be."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.errors import CompileError
from explorer.lab.live.protocol import live_of
from explorer.model.values import Failure
from explorer.sources.files.trace_file import load_events
from explorer.tracing.traced import Trace
from explorer.tracing.traced.trace import trace_of_events
from tests.zoo import CHECKOUT, MAX_FOLDERS, READERS, STARTS, Zoo, file_name, fingerprint, imported_modules, sources

RECORDING = CHECKOUT / "tests" / "data" / "sin_cos-torch2.13-cpu.events.json.gz"


class Made:
    """A table of one trace, which is replayed, and how often it was made."""

    def __init__(self, *failures: Failure) -> None:
        self.failures = failures
        self.times = 0

    def __call__(self) -> Trace:
        self.times += 1
        events, _, meta = load_events(RECORDING.read_bytes())
        return trace_of_events(events, self.failures, meta)


@pytest.fixture
def made() -> Made:
    return Made()


def zoo_in(folder: Path, made: Callable[[], Trace], key: str = "key") -> Zoo:
    """A zoo as another process would have it: nothing is loaded yet."""
    return Zoo(folder, {"a trace": made}, lambda: key, [])


def test_a_trace_is_made_once_and_read_by_later_runs(made: Made, tmp_path: Path) -> None:
    """Each who asks has the same value, which is a loaded one; the one who asks twice has the same object."""
    first, second = zoo_in(tmp_path, made), zoo_in(tmp_path, made)
    one = first("a trace")
    assert first("a trace") is one and second("a trace") == one and second("a trace") is not one
    assert made.times == 1 and live_of(one) is None and one == Made()()


def test_who_asks_while_another_makes_it_waits(made: Made, tmp_path: Path) -> None:
    """The second neither makes the trace again nor reads a part of it."""
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Trace:
        begun.set()
        assert go_on.wait(60)
        return made()

    traces: list[Trace] = []
    both = [threading.Thread(target=lambda: traces.append(zoo_in(tmp_path, slow)("a trace"))) for _ in range(2)]
    both[0].start()
    assert begun.wait(60)
    both[1].start()
    go_on.set()
    for thread in both:
        thread.join()
    assert made.times == 1 and traces[0] == traces[1]


#: Makes a trace of one text, and notes that it did.
ASK = """
import sys
from pathlib import Path
from explorer.model.values import Artifact
from explorer.tracing.traced import Trace
from tests.zoo import Zoo

folder = Path(sys.argv[1])

def make():
    with (folder / "made").open("a") as file:
        file.write("once ")
    return Trace({"name": "f"}, (Artifact("a", "text", "0/0", "", "a", "text", "a text"),))

zoo = Zoo(folder / "zoo", {"a trace": make}, lambda: "key", [])
print("ready", flush=True)
sys.stdin.readline()
print(zoo("a trace").artifacts[0].text)
"""


@pytest.mark.compile
def test_two_processes_that_ask_at_once_make_it_once(tmp_path: Path) -> None:
    """The lock is one of files, and both have the trace."""
    command = [sys.executable, "-c", ASK, str(tmp_path)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) for _ in range(2)
    ]
    assert [one.stdout.readline() for one in started if one.stdout] == ["ready\n"] * 2
    for one in started:
        assert one.stdin
        one.stdin.write("go\n")
        one.stdin.flush()
    assert [one.communicate(timeout=120)[0] for one in started] == ["a text\n"] * 2
    assert (tmp_path / "made").read_text() == "once "


def test_a_trace_is_made_again_when_what_it_depends_on_changes(made: Made, tmp_path: Path) -> None:
    """Few folders are kept: the newest ones."""
    for key in ("before", "after", "before"):
        zoo_in(tmp_path, made, key)("a trace")
    assert made.times == 2
    for number in range(MAX_FOLDERS + 2):
        zoo_in(tmp_path, made, f"{number}")("a trace")
    assert len(list(tmp_path.iterdir())) == MAX_FOLDERS and (tmp_path / f"{MAX_FOLDERS + 1}").is_dir()
    assert not (tmp_path / "after").exists()


def test_a_damaged_file_is_made_again(made: Made, tmp_path: Path) -> None:
    """A file that was cut, as by a full disk, is no error of the test that reads it."""
    one = zoo_in(tmp_path, made)("a trace")
    (file,) = tmp_path.glob("key/*.json.gz")
    file.write_bytes(file.read_bytes()[:100])
    assert zoo_in(tmp_path, made)("a trace") == one and made.times == 2
    assert zoo_in(tmp_path, made)("a trace") == one and made.times == 2


def test_a_source_that_changes_meanwhile_is_not_mistaken(made: Made, tmp_path: Path) -> None:
    """The trace is given, but kept for nobody: it is not known which source it was made with."""
    keys = iter(("before", "after"))
    zoo = Zoo(tmp_path, {"a trace": made}, lambda: next(keys), [])
    assert zoo("a trace").artifacts and not list(tmp_path.glob("*/*.json.gz"))


def test_a_trace_with_a_failure_is_not_kept(tmp_path: Path) -> None:
    """A compile that was ended, as under load, is an error of this test and not of all later ones."""
    failing = Made(Failure("ttir", "triton", "ended"))
    for times in (1, 2):
        with pytest.raises(CompileError, match="ended"):
            zoo_in(tmp_path, failing)("a trace")
        assert failing.times == times


def test_the_names_of_the_table_have_a_file_each() -> None:
    """No two names become one."""
    from tests.zoo_programs import ZOO

    assert len({file_name(name) for name in ZOO}) == len(ZOO) > 25


# What a trace depends on -------------------------------------------------------------------------------------------------

MODULES = {
    "explorer/__init__.py": "",
    "explorer/tracing/recording/__init__.py": "",
    "explorer/tracing/recording/trace.py": (
        "import os\nfrom explorer.capture.observe import probes\nfrom explorer.tracing.traced import Trace\n"
    ),
    "explorer/capture/observe/__init__.py": "from explorer.capture.observe.other import x\n",
    "explorer/capture/observe/other.py": "x = 1\n",
    "explorer/capture/observe/probes.py": "def f():\n    from explorer.stages.kinds import (\n        a,\n        b,\n    )\n",
    "explorer/stages/__init__.py": "",
    "explorer/stages/kinds.py": "a = b = 1\n",
    "explorer/tracing/traced/__init__.py": "from explorer.analysis.questions.costs import costs\n",
    "explorer/analysis/questions/costs.py": "costs = 1\n",
    "tests/zoo_programs.py": "",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout."""
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ("explorer/tracing/recording/trace.py", True),
        ("explorer/capture/observe/other.py", True),
        ("explorer/stages/kinds.py", True),
        ("tests/zoo_programs.py", True),
        ("explorer/analysis/questions/costs.py", False),
    ],
)
def test_a_changed_source_changes_the_hash_unless_it_only_reads_traces(changed: str, again: bool, checkout: Path) -> None:
    """What is imported counts, also inside a function, over several lines, or by a package that Python imports first."""
    before = fingerprint(checkout, sources(checkout))
    assert fingerprint(checkout, sources(checkout)) == before
    (checkout / changed).write_text(MODULES[changed] + "\n# changed\n", encoding="utf-8")
    assert (fingerprint(checkout, sources(checkout)) != before) is again


def test_what_makes_a_trace_is_found_in_this_checkout() -> None:
    """The observers, the stages and the ladder are among what a trace depends on; views, advice and tests are not."""
    found = imported_modules(CHECKOUT, STARTS, READERS)
    assert set(STARTS) <= set(found)
    rooms = {".".join(name.split(".")[1:3]) for name in found}
    assert {f"capture.{room}" for room in ("observe", "ladder", "absent", "compilers")} <= rooms
    assert {"stages", "model"} <= (groups := {name.split(".")[1] for name in found})
    assert not {"tracing.traced", "analysis.advice", "sources.ranks"} & rooms and not {"testing", "view", "workshop"} & groups


# In a run of pytest ------------------------------------------------------------------------------------------------------


def test_the_zoo_leaves_a_fast_test_fast(made: Made, tmp_path: Path) -> None:
    """What the guard of the fast tests notes while a trace is made is forgotten; what the test compiled before is not."""
    compiles = ["the test's"]

    def compiled() -> Trace:
        compiles.append("the zoo's")
        return made()

    assert Zoo(tmp_path, {"a trace": compiled}, lambda: "key", compiles)("a trace").artifacts
    assert compiles == ["the test's"] and made.times == 1


def test_the_fixture_has_the_list_of_the_guard(zoo: Zoo, pytestconfig: pytest.Config) -> None:
    """It reads the traces of this checkout."""
    assert zoo.compiles is pytestconfig.stash[pytestconfig.pluginmanager.get_plugin("tiers").COMPILES]
    assert zoo("doubled").find("dynamo") and zoo("doubled") is zoo("doubled")
