"""What a statement of a notebook bound, as JSON beside trace files, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.errors import ExplorerError, NotInstalledError
from explorer.model.values import Plain, Table
from explorer.tracing.recording.record import Recording
from explorer.tracing.traced import Kernel, Trace, load
from explorer.tracing.traced.comparison import Comparison, compare
from explorer.workshop.quiz.exercise import Exercise
from explorer.workshop.quiz.exercises import Question
from explorer.workshop.quiz.quiz import Quiz


class NotRecorded:
    """Stands for a value that is not in the class pack: a tensor, a module, `torch` itself. Any use of it says so."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name} is not in the class pack: it was made with PyTorch>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # IPython and copy ask for such names, to see whether they are there
            raise AttributeError(name)
        return self._refuse()

    def _refuse(self, *given: object, **named: object) -> Any:
        raise NotInstalledError(
            f"{self._name} was made with PyTorch, and is not in the class pack: this cell has to run where PyTorch is installed, "
            "pip install 'torch-compile-explorer[full]'",
            name="torch",
        )

    __call__ = __getitem__ = __iter__ = __len__ = __bool__ = __contains__ = __eq__ = __lt__ = __gt__ = __enter__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __pow__ = __matmul__ = __neg__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class Keeper:
    """Keeps the values that each statement of a notebook bound, in its process: traces as files, the rest as JSON."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._before: dict[str, Any] = {}
        self._traces: dict[int, tuple[Trace, str]] = {}

    def look(self, names: Mapping[str, Any]) -> None:
        """Note what there is before a statement."""
        self._before = dict(names)

    def bound(self, names: Mapping[str, Any]) -> dict[str, Plain]:
        """Describe each name that is another object now; a name with an underscore is nobody's."""
        own = {name: value for name, value in names.items() if not name.startswith("_") and name not in ("In", "Out")}
        return {name: self.described(value) for name, value in own.items() if self._before.get(name, self) is not value}

    def described(self, value: Any) -> Plain:
        """Describe a value as JSON; "absent" where that cannot be."""
        match value:
            case Recording() | Trace():
                trace = value.trace if isinstance(value, Recording) else value
                return {"is": type(value).__name__, "trace": self._saved(trace)}
            case Kernel():
                number = next((n for n, kernel in enumerate(value._trace.kernels) if kernel.artifact == value.artifact), None)
                return {"is": "Kernel", "trace": self._saved(value._trace), "number": number}
            case Comparison():
                return {"is": "Comparison", "traces": [self._saved(t) for t in value.traces], "names": list(value.names)}
            case Table():
                return {"is": "Table", "rows": [dict(row) for row in value], "columns": list(value.columns)}
            case Quiz() | Exercise():
                return {"is": "quiz"}
            case dict() if value and all(isinstance(each, Trace) for each in value.values()) and _is_plain(list(value)):
                return {"is": "traces", "traces": [self._saved(t) for t in value.values()], "names": list(value)}
        return {"is": "plain", "value": value} if _is_plain(value) else {"is": "absent"}

    def subjects(self, names: Mapping[str, Any]) -> dict[str, Plain]:
        """Describe, by exercise, what the truth of each question of the quizzes is found in, of those that a file can answer."""
        quizzes = [value for value in names.values() if isinstance(value, Quiz)]
        found = {each.id: self._subject(each) for quiz in quizzes for each in quiz if isinstance(each.item, Question)}
        return {id: described for id, described in found.items() if described is not None}

    def _subject(self, exercise: Exercise) -> Plain:
        """Describe an exercise's subject; None where the file of it does not have the same truth."""
        item = exercise.item
        assert isinstance(item, Question)
        try:
            subject = exercise.trace
            described = self.described(subject)
            same = item.truths(restored(item.id, described, self.folder)) == item.truths(subject)
        except (ExplorerError, ImportError):  # a compiler is missing here, or the truth is asked of what runs
            return None
        return described if same else None

    def _saved(self, trace: Trace) -> str:
        if id(trace) not in self._traces:
            file = f"trace_{len(self._traces)}.json.gz"
            trace.save(self.folder / file)
            self._traces[id(trace)] = (trace, file)  # the trace too, so that no other gets its id
        return self._traces[id(trace)][1]


def _is_plain(value: object) -> bool:
    """Whether JSON gives the value back as it was."""
    if isinstance(value, dict):
        return type(value) is dict and all(type(key) is str and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return type(value) is list and all(map(_is_plain, value))
    return value is None or type(value) in (str, int, float, bool)


def restored(name: str, described: Mapping[str, Any], folder: Path) -> Any:
    """The value that `Keeper.described` described."""
    match described["is"]:
        case "Trace":
            return load(folder / described["trace"])
        case "Recording":
            return Recording(_trace=load(folder / described["trace"]))
        case "Kernel":
            return load(folder / described["trace"]).kernels[described["number"]]
        case "Comparison":
            return compare(*(load(folder / file) for file in described["traces"]), names=described["names"])
        case "traces":
            return {key: load(folder / file) for key, file in zip(described["names"], described["traces"], strict=True)}
        case "Table":
            return Table(described["rows"], described["columns"])
        case "plain":
            return described["value"]
    return NotRecorded(name)


def files_of(described: Mapping[str, Any]) -> list[str]:
    """The trace files that a described value needs."""
    return [described["trace"]] if "trace" in described else list(described.get("traces", ()))
