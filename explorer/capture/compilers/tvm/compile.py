"""Compile a Relax module by TVM for this machine's CPU: what runs, and the text of each step on the way.

The pipeline is "zero", which fuses and tunes nothing; then what tvm.compile does by default.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.compilers.line_differences import unified
from explorer.capture.compilers.tvm.importing import Imported
from explorer.capture.compilers.tvm.origins import Origins, tir_functions
from explorer.capture.compilers.tvm.passes import Functions, RanPass, watching
from explorer.model.values import text_lines
from explorer.stages.tvm.notes import MARK

#: Passes that change no function: they call others, or choose the functions for the CPU and those for a GPU.
CHANGE_NOTHING = ("sequential", "tirx.Filter")
#: Characters of a line in the difference of two texts, where it states no FX node: TVM's checks of arguments are long.
LONGEST = 200


@dataclass
class Compile:
    """One compile by TVM: the module after the pipeline, the passes so far, and what runs."""

    source: Imported
    origins: Origins = field(init=False)
    passes: list[RanPass] = field(default_factory=list)
    fused: Any = None
    executable: Any = None
    seconds: float = 0.0
    _texts: dict[Any, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.origins = Origins(self.source)
        self.origins.note_bindings(self.source.module)

    def run(self) -> None:
        """Compile; an error is TVM's own, and `passes` has those that were over by then."""
        import tvm
        from tvm import relax

        target = host()
        began = time.perf_counter()
        context = tvm.transform.PassContext(opt_level=3, instruments=[watching(self.passes)])
        with target, context:
            fused = relax.get_pipeline("zero")(self.source.module)
        with target:
            self.origins.mark(fused, relax.transform.LegalizeOps()(self.source.module), relax.get_pipeline("zero"))
        self.fused = fused
        with target, context:
            self.executable = tvm.compile(fused, target=target)
        self.seconds = time.perf_counter() - began

    def text(self, module: Any) -> str:
        """Print a module as TVMScript, with the FX nodes at the end of each line that comes from some."""
        return script(module, self.origins.notes(module.functions.values()))

    def lowered(self) -> str:
        """The TIR that is compiled, before TVM puts the checks of arguments around it; "" before it came to that."""
        last = next((ran for ran in reversed(self.passes) if ran.name == "tirx.MakePackedAPI"), None)
        if last is None:
            return ""
        notes = self.origins.notes(last.before.values())
        return "\n\n".join(script(function, notes, name) for name, function in sorted(last.before.items()))

    def machine_code(self) -> Mapping[str, str]:
        """LLVM IR and assembly of all functions."""
        (library,) = self.executable.mod.imports
        return {"tvm_llvm": library.inspect_source("ll"), "tvm_assembly": library.inspect_source("asm")}

    def functions(self, llvm: str) -> tuple[str, ...]:
        """The functions of the machine code that compute.

        For each TIR function, TVM makes one that checks the arguments and calls a second one that computes. If there is no
        second one, the first one computes.
        """
        names = (variable.name_hint for variable in tir_functions(self.fused))
        return tuple(f"{n}_compute_" if f"@{n}_compute_(" in llvm else f"__tvm_ffi_{n}" for n in sorted(names))

    def changing_passes(self) -> Iterator[dict[str, Any]]:
        """Each pass that changed the module: the functions that it changed, and the difference of their texts."""
        for number, ran in enumerate(self.passes):
            changed = list(ran.changed())
            if not changed or ran.name in CHANGE_NOTHING:
                continue
            self._write((name, each) for name, old, new in changed for each in (old, new) if each is not None)
            facts = difference(changed, self._texts)
            if facts["text"]:
                yield {"number": number, "name": ran.name, "seconds": ran.seconds, **facts}

    def after_pass(self, number: int) -> dict[str, Any]:
        """Return the text of all functions before and after a pass."""
        ran = self.passes[number]
        before, after = (self._whole(functions) for functions in (ran.before, ran.after))
        return {"number": number, "name": ran.name, "before": before, "text": after}

    def _whole(self, functions: Functions) -> str:
        """The text of functions, by their names."""
        self._write(functions.items())
        return "\n\n".join(self._texts[function] for _, function in sorted(functions.items()))

    def _write(self, functions: Iterable[tuple[str, Any]]) -> None:
        """Print the functions whose text is not known yet."""
        fresh = {function: name for name, function in functions if function not in self._texts}
        notes = self.origins.notes(fresh) if fresh else {}
        self._texts.update({function: script(function, notes, name) for function, name in fresh.items()})


def difference(changed: Sequence[tuple[str, Any, Any]], texts: Mapping[Any, str]) -> dict[str, Any]:
    """The facts of a pass on functions that it changed: their names, their lines before and after, and the difference."""
    parts: list[str] = []
    before = after = 0
    for name, old, new in changed:
        olds, news = (text_lines(texts[each]) if each is not None else [] for each in (old, new))
        before, after = before + len(olds), after + len(news)
        parts += unified(olds, news, f"{name}, before", f"{name}, after")
    levels = {"TIR" if "PrimFunc" in type(each).__name__ else "Relax" for _, old, new in changed for each in (old, new) if each}
    return {
        "level": " and ".join(sorted(levels)),
        "functions": [name for name, _, _ in changed],
        "before": before,
        "after": after,
        "text": "\n".join(map(_shortened, parts)),
    }


def _shortened(line: str) -> str:
    """A line without its end, where that is long and no note."""
    return f"{line[:LONGEST]}…" if len(line) > LONGEST and MARK not in line else line


def script(what: Any, notes: Mapping[Any, str], name: str | None = None, with_data: bool = False) -> str:
    """A module or a function as TVMScript, which ends with no blank line; with data it can be read back."""
    return str(what.script(name=name, show_meta=with_data, obj_to_annotate=dict(notes))).rstrip()


def host() -> Any:
    """This machine's CPU, as a target."""
    from tvm.target import Target, codegen

    return Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu()})
