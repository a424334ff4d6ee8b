"""Edit: one edit of a kernel or of a wrapper, and what came of it."""

from __future__ import annotations

import difflib
import html
from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.model.values import EMPTY, Plain, Table, text_lines

#: What an edit can come to. Only an edit IN_PLACE runs; of all others the original stayed.
IN_PLACE = "in place"
COMPILED = "compiled, not run"
NOT_COMPARED = "not compared"
WRONG = "wrong result"
SYNTAX, COMPILE, LAUNCH, CRASH, TIMEOUT = "syntax error", "compile error", "launch error", "crash", "timeout"
#: What is said of an edit in place that was asked not to be checked, and of edits that need no check.
UNCHECKED = "it was not checked"
SAME_TEXT = "only comments or blanks differ from the original: nothing to run"
SAME_CODE = "it compiles to the same {stage} as the original: nothing to run"
SAME_BITS = "its {what}, and all that the function then returns and changes, is the original's to the bit"
#: The form of an edit of output code.
WRAPPER = "wrapper"
#: How Python puts an edit in place whose values are wrong or could not be compared; a view has a button for it.
ANYWAY = "check=False puts the edit in place anyway"
#: What is said of a status beyond its name.
MEANING = {
    IN_PLACE: "what could be compared with eager is equal within rounding; the edit runs until it is reset",
    COMPILED: "it compiles for a GPU you don't have; only Triton source can be run here, by the interpreter",
    NOT_COMPARED: "it runs, but no value could be compared, so it does not take the kernel's place",
    WRONG: "its results differ from the right ones by more than rounding, so it does not take the kernel's place",
}


@dataclass(frozen=True)
class Edit:
    """One edit: which kernel or output code, which form, its text, and the result.

    `status` is "in place", or says why the original stayed: "wrong result", "syntax error", "compile error", "launch error",
    "crash", "timeout", "not compared", "compiled, not run". `message` has the compiler's words. `line` is the message's line
    in the text, 0 if it names none. `check` has the rows of the check of the whole function; if a launch of the edit alone is
    wrong already, the function is not called, and `check` has the launch's wrong values. It is empty where the edit is the
    original's code, or gives what the original gives, to the bit. `seconds` and `original_seconds` are
    median times of a launch, None if it cannot be timed. `call_seconds` are times of a call of the whole function, with the
    edit and with the original. `cost` and `original_cost` say what the compiled kernels take: registers (a thread), spills
    (bytes a thread), shared (bytes a block), warps an SM and instructions. `interpreted` says that the CPU ran the edit in
    place of a GPU you don't have. `timed` is "measured", or "predicted" from the machine code for a GPU you don't have
    (`prediction.py`). An edit of output code has the form "wrapper": its `seconds` are times of a call of that code, and
    `kernels` names the kernels that differ from the original's.
    """

    number: int
    kernel: str
    form: str
    text: str = field(repr=False)
    original: str = field(repr=False)
    status: str
    message: str = ""
    line: int = 0
    config: Mapping[str, Plain] | None = None
    original_config: Mapping[str, Plain] | None = None
    check: Table = field(default_factory=Table, repr=False)
    seconds: float | None = None
    original_seconds: float | None = None
    call_seconds: tuple[float, float] | None = None
    cost: Mapping[str, Plain] = field(default_factory=lambda: EMPTY)
    original_cost: Mapping[str, Plain] = field(default_factory=lambda: EMPTY)
    interpreted: bool = False
    timed: str = ""
    kernels: tuple[str, ...] = ()

    @property
    def runs(self) -> str:
        """What runs once with the edit: a "launch" of a kernel, or a "call" of output code."""
        return "call" if self.form == WRAPPER else "launch"

    @property
    def in_place(self) -> bool:
        """Whether the edit was put in the place of the original when it was made."""
        return self.status == IN_PLACE

    @property
    def meaning(self) -> str:
        """What the status says beyond its name; of an edit in place how it is known to be right, or that it is not."""
        return self.message if self.in_place and self.message else MEANING.get(self.status, "")

    @property
    def advice(self) -> str:
        """How Python puts the edit in place although its values are wrong or unknown; "" where it cannot."""
        return ANYWAY if self.status == NOT_COMPARED or (self.status == WRONG and self.check) else ""

    @property
    def ratio(self) -> float | None:
        """The edit's time of a launch over the original's, below 1 where it is faster; None where they were not timed."""
        if self.seconds is None or not self.original_seconds:
            return None
        return self.seconds / self.original_seconds

    @property
    def diff(self) -> str:
        """The differences from the original text, as a unified diff; "" for the same text."""
        lines = (text_lines(self.original), text_lines(self.text))
        return "\n".join(difflib.unified_diff(*lines, "original", f"edit {self.number}", lineterm=""))

    @property
    def max_abs(self) -> float | None:
        """The largest difference from the right value of any that was compared; None where none was."""
        found = [row["max_abs"] for row in self.check if row.get("max_abs") is not None]
        return max(found) if found else None

    def row(self) -> dict[str, Plain]:
        """The edit as a row of the table of edits."""
        return {
            "number": self.number,
            "kernel": self.kernel,
            "form": self.form,
            "status": self.status,
            "line": self.line or None,
            "message": self.message,
            "max_abs": self.max_abs,
            "seconds": self.seconds,
            "original_seconds": self.original_seconds,
            "ratio": self.ratio,
            "timed": self.timed,
            **{key: self.cost.get(key) for key in ("registers", "spills", "shared", "warps", "instructions")},
            "config": dict(self.config) if self.config is not None else None,
        }

    def described(self) -> str:
        """Say in words what came of it."""
        where = f", line {self.line}" if self.line else ""
        lines = [f"edit {self.number} of {self.kernel} ({self.form}): {self.status}{where}"]
        lines += [f"  {line}" for line in text_lines(self.message or MEANING.get(self.status, ""))]
        lines += [f"  {line}" for line in (self.advice, self._kernels(), self._config(), self._times(), self._costs()) if line]
        return "\n".join(lines)

    def _kernels(self) -> str:
        """The kernels in output code that are not the original's."""
        return f"other kernels than the original's: {', '.join(self.kernels)}" if self.kernels else ""

    def _config(self) -> str:
        """The config where it is not the original's."""
        if self.config is None or self.config == self.original_config:
            return ""
        original = f", the original's {_values(self.original_config)}" if self.original_config is not None else ""
        return f"config {_values(self.config)}{original}"

    def _times(self) -> str:
        """The times beside the original's."""
        if self.ratio is None or self.seconds is None or self.original_seconds is None:
            return ""
        takes = "is predicted to take" if self.timed == "predicted" else "takes"
        what = "a call of the output code" if self.form == WRAPPER else "a launch"
        launch = f"{what} {takes} {_time(self.seconds)}, the original's {_time(self.original_seconds)} ({self.ratio:.2f} times)"
        if self.timed == "predicted":
            launch += ", from their machine code: good for their ratio, while the trace's estimates are of bytes and operations"
        if self.call_seconds is None:
            return launch
        return f"{launch}; a call of the function {_time(self.call_seconds[0])} and {_time(self.call_seconds[1])}"

    def _costs(self) -> str:
        """What the compiled kernel takes, with the original's where that differs."""
        parts = []
        for key, value in self.cost.items():
            before = self.original_cost.get(key)
            if isinstance(value, (int, float)):
                parts.append(f"{COSTS.get(key, key)} {value}" + (f" (original {before})" if before not in (None, value) else ""))
        return ", ".join(parts)

    def __repr__(self) -> str:
        return self.described()

    def _repr_html_(self) -> str:
        changed = "".join(
            f'<div style="background:{_COLOURS.get(line[:1], "transparent")}">{html.escape(line) or "&nbsp;"}</div>'
            for line in text_lines(self.diff)[2:]
        )
        diff = f'<pre style="line-height:1.3">{changed}</pre>' if changed else ""
        return f"<pre>{html.escape(self.described())}</pre>{diff}"


#: What the figures of a compiled kernel are, where the name alone may be read as something else.
COSTS = {"registers": "registers a thread", "spills": "bytes spilled", "shared": "bytes shared", "warps": "resident warps an SM"}
_COLOURS = {"+": "rgba(46,160,67,.18)", "-": "rgba(248,81,73,.18)"}


def _values(config: Mapping[str, Plain]) -> str:
    """A config in words."""
    return " ".join(f"{key}={value}" for key, value in config.items())


def _time(seconds: float) -> str:
    """A time in the unit that suits it."""
    unit, size = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if seconds >= s), ("µs", 1e-6))
    return f"{seconds / size:.3g} {unit}"
