"""The generated kernels of a trace, and the facts that its texts state about each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from explorer.model.trace_data import TraceData
from explorer.model.values import Artifact, Plain, Rows
from explorer.stages.fx_graph import input_names

_OPERATORS = re.compile(r"Original ATen: \[([^\]]*)\]")


@dataclass(frozen=True)
class KernelData:
    """One generated kernel: name, language ("triton" or "cpp"), source, and facts from its other texts."""

    trace: TraceData = field(repr=False)
    artifact: Artifact = field(repr=False)

    @property
    def name(self) -> str:
        """The kernel's name in the output code."""
        return self.artifact.kernel

    @property
    def language(self) -> str:
        """The language: "triton", "cpp", or another one that async_compile got."""
        return self.artifact.language

    @property
    def source(self) -> str:
        """The kernel's source."""
        return self.artifact.text

    @property
    def resources(self) -> Mapping[str, Plain]:
        """The GPU resources of a compiled Triton kernel; {} if the kernel was not compiled.

        num_warps, registers (a thread), shared (bytes a block), stack, spill_stores and spill_loads (bytes a thread),
        occupancy with what limits it, and where machine code is at hand its `mix`.
        """
        found = [a for a in self._forms() if "metadata" in a.data]
        mixes = [a.data["mix"] for a in found if "mix" in a.data]
        return {**found[0].data["metadata"], **({"mix": mixes[0]} if mixes else {})} if found else {}

    @property
    def operators(self) -> tuple[str, ...]:
        """The ATen operators that the kernel computes, by Inductor's comment in the output code; () where it has none."""
        found = _OPERATORS.search(str(self.artifact.data.get("comment", "")))
        return tuple(name.strip() for name in found[1].split(",") if name.strip()) if found else ()

    @property
    def launches(self) -> Rows:
        """One row per launch in the wrapper: its line there, its arguments by the kernel's names, and its grid.

        `inputs` says of those that come from the program what it calls them: "h.0.attn.weight" for a parameter.
        """
        found = next((a.data["launches"] for a in self._forms() if "launches" in a.data), ())
        names = input_names(self.trace, self.artifact.frame, self.artifact.graph)
        return Rows(
            {**row, "inputs": {key: names[value] for key, value in row["arguments"].items() if value in names}} for row in found
        )

    @property
    def candidates(self) -> Rows:
        """One row per config that Inductor or triton would try on the device; `taken` marks the compiled one.

        On an attached device each has its measured time `ms`, None where it was not timed or could not run, and configs
        that came up only while measuring are there too. `text("ttgir")` … are those of the taken one, `resources` too.
        """
        found = next((a.data for a in self._forms() if "candidates" in a.data), None)
        if found is None:
            return Rows()
        measured, tried = found.get("measured", ()), [dict(c) for c in found["candidates"]]
        times = [({k: v for k, v in row.items() if k != "ms"}, row["ms"]) for row in measured]
        tried += [config for config, _ in times if config not in tried]
        tried += [dict(found["config"])] * (found["config"] not in tried)
        shown = [{**c, **({"ms": next((ms for t, ms in times if t == c), None)} if measured else {})} for c in tried]
        return Rows({**row, "taken": c == found["config"]} for row, c in zip(shown, tried, strict=True))

    def _forms(self) -> Iterator[Artifact]:
        """The artifacts of this kernel in every stage."""
        mine = self.artifact
        for a in self.trace.artifacts:
            if (a.kernel, a.frame, a.graph) == (mine.kernel, mine.frame, mine.graph):
                yield a


def kernels_of(trace: TraceData) -> tuple[KernelData, ...]:
    """The generated kernels, in the order in which the output code defines them."""
    return tuple(KernelData(trace, a) for a in trace.find("kernel"))
