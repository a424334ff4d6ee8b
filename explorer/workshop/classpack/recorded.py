"""recorded: in a notebook of a class pack, what a statement made and put out where PyTorch was installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from explorer.errors import FileError
from explorer.workshop.classpack.values import restored
from explorer.workshop.quiz.quiz import Quiz


class Recorded:
    """What the statements of one notebook made, by their numbers.

    `recorded(3, 4, names="x t")` shows the output of the statements 3 and 4 and returns the values that they bound to `x` and
    `t`. `recorded.judge(q)` lets a quiz find the truths of its predictions in recorded traces.
    """

    def __init__(self, folder: str) -> None:
        """Read a notebook's folder in the class pack; FileError where it is not beside the notebook."""
        self.folder = Path(folder)
        try:
            data = json.loads((self.folder / "recorded.json").read_text(encoding="utf-8"))
            self.made_with: str = data["made_with"]
            self._steps: dict[str, Any] = data["steps"]
            self._subjects: dict[str, Any] = data["subjects"]
        except (ValueError, KeyError, TypeError) as error:
            raise FileError(f"{folder} of the class pack is damaged: copy the pack anew") from error
        except OSError as error:
            raise FileError(
                f"{folder} of the class pack cannot be read: {error.strerror}. Open the notebook in the folder of the pack"
            ) from error

    def __repr__(self) -> str:
        return f"<Recorded: {len(self._steps)} statements that ran with {self.made_with}>"

    def __call__(self, *numbers: int, names: str = "") -> Any:
        """Show what the statements put out, and return the values of the names: one as it is, several as a tuple."""
        steps = [self._steps[str(number)] for number in numbers]
        outputs = [output for step in steps for output in step["outputs"]]
        if outputs:
            print(f"[recorded with {self.made_with}; this is live: it needs PyTorch, and is not run here]")  # noqa: T201
        for output in outputs:
            _show(output)
        described = {name: value for step in steps for name, value in step["bound"].items()}
        values = tuple(restored(name, described[name], self.folder) for name in names.split())
        return values[0] if len(values) == 1 else values or None

    def judge(self, quiz: Quiz) -> None:
        """Let the quiz find the truths of its predictions in recorded traces."""
        subjects = {each.id: self._subjects[each.id] for each in quiz if each.id in self._subjects}
        quiz.judge_by({id: restored(id, described, self.folder) for id, described in subjects.items()})


def _show(output: dict[str, Any]) -> None:
    """Show one output of a notebook's cell again."""
    from IPython.display import publish_display_data

    match output["output_type"]:
        case "stream":
            print(output["text"], end="")  # noqa: T201
        case "error":
            print(f"{output['ename']}: {output['evalue']}")  # noqa: T201
        case _:
            publish_display_data(output["data"], output["metadata"])
