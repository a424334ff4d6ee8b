"""What another size of an input does at the next call, as the guards of the function that was called decide it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from explorer.analysis.questions.guard_facts import GuardFact, guard_facts
from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact
from explorer.stages.dynamo.guards import Guards
from explorer.stages.dynamo.symbol import Symbols

#: What Dynamo puts into the name of a function that goes on after a graph break: nobody calls it.
RESUMED = "_resume_in_"
#: What another size does where a guard states the size.
FIXED = "another size recompiles"


class InputSize(TypedDict):
    """A tensor that the call was compiled with, and what another size does.

    "guards" and "line" are the guards' text and the line in it, "place" and "code" the user's line that made the guard necessary,
    "" if that is not known.
    """

    name: str
    dtype: str
    sizes: list[int | None]
    does: str
    place: str
    code: str
    guards: str
    line: int


def input_sizes(trace: TraceData) -> list[InputSize]:
    """List the tensors that the called function was last compiled with; [] where no guard tells of one."""
    text = _last_guards(trace)
    return list(_sizes(text, guard_facts_of(trace, text))) if text is not None else []


def guard_facts_of(trace: TraceData, guards: Artifact) -> list[GuardFact]:
    """Return the facts of the guards of one compile, with the symbols of its frame."""
    assert isinstance(guards.data, Guards)
    symbols = [row for s in trace.find("symbol", guards.frame) if isinstance(s.data, Symbols) for row in s.data.rows]
    return guard_facts(guards.data.rows, symbols)


def _last_guards(trace: TraceData) -> Artifact | None:
    """The guards of the last compile of the first function that is called, which is none that goes on after a graph break."""
    resumed = {_function(a.frame) for a in trace.find("source") if RESUMED in a.title}
    texts = [a for a in trace.find("guards") if isinstance(a.data, Guards) and _function(a.frame) not in resumed]
    return next((a for a in reversed(texts) if _function(a.frame) == _function(texts[0].frame)), None)


def _function(frame: str) -> str:
    return frame.partition("/")[0]


def _sizes(text: Artifact, facts: Sequence[GuardFact]) -> Iterator[InputSize]:
    for fact in facts:
        asks = fact.get("asks", {})
        if "passed" not in asks or "dtype" not in asks["passed"]:
            continue
        name, dtype, sizes = asks["passed"]["name"], asks["passed"]["dtype"], asks["passed"].get("sizes", [])
        fixed = [f"{name}:size:{dim}" in asks.get("equal", {}) for dim in range(len(sizes))]
        dims = [FIXED if is_fixed else _dynamic(f"{name}:size:{dim}", facts) for dim, is_fixed in enumerate(fixed)]
        # one sentence where all dimensions are alike
        each = dims[:1] if len(set(dims)) == 1 else [f"dim {dim}: {does}" for dim, does in enumerate(dims)]
        yield {
            "name": name,
            "dtype": dtype,
            "sizes": sizes,
            "does": ", ".join(each),
            "place": fact["place"],
            "code": fact["code"],
            "guards": text.id,
            "line": fact["line"],
        }


def _dynamic(size: str, facts: Sequence[GuardFact]) -> str:
    """Say which sizes a dimension may have without a recompile: the least one, and the conditions of other guards."""
    least, conditions = "", []
    for fact in facts:
        test = fact.get("asks", {}).get("test", [])
        if test[1:] == [size, "<="] and isinstance(test[0], int):
            least = f" from {test[0]}"
        elif size in test and not any(":stride:" in str(step) for step in test):
            conditions.append(fact["fact"])
    where = f", where {' and '.join(conditions)}" if conditions else ""
    return f"any size{least}{where}"


def described_sizes(inputs: Sequence[InputSize], most: int) -> str:
    """Say of the first few inputs what another size does, those with one answer together; "" without inputs."""
    answers: dict[str, list[str]] = {}
    for each in inputs[:most]:
        sizes = ", ".join("?" if size is None else str(size) for size in each["sizes"])
        answers.setdefault(each["does"], []).append(f"{each['name']} {each['dtype']} [{sizes}]")
    said = [f"{', '.join(tensors)}{f': {does}' if does else ''}" for does, tensors in answers.items()]
    more = [f"and {len(inputs) - most} more"] if len(inputs) > most else []
    return "; ".join([*said, *more])


__all__ = ["InputSize", "described_sizes", "guard_facts_of", "input_sizes"]
