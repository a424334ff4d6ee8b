"""Record real stacks twice, the second time from a warm cache: links that are lost must be said to be.

    python benchmarks/stacks.py                                on the CPU, one process after another
    python benchmarks/stacks.py --target h100 --jobs 4         for an H100 (a GPU you don't have)
    python benchmarks/stacks.py --only timm-vit peft-lora --fresh

Each stack of `stack_programs.py` has a cache folder of its own, empty at first. Three processes use it in turn: one records the
cold compile, one records the warm compile, one runs the stack without explorer. With --fresh a fourth records with fresh=True,
which must give every link that the cold recording has, except those of an artifact that the program loads itself. A stack
whose library is not installed is skipped.

The table has a row per stack and stage: linked lines out of those that compute, cold and warm. A stage is "lost" where the warm
recording lacks links or texts of a graph that the cold recording has, and "said" where the trace names that. The exit status is 1
where something is lost and not said, where a recording has a failure of explorer's own, and where a stack fails or gives other
results under explorer than without.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import children
from stack_programs import STACKS

Row = dict[str, Any]
#: A text's place: its frame, graph and stage.
Place = tuple[str, str, str]
#: The forms of Triton kernels.
OF_TRITON = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
#: The texts that a cached graph brings, and what is made of them. The notice says that they have only the links that they state.
FROM_THE_CACHE = ("joint", "forward", "backward", "post_grad", "output_code", "kernel", *OF_TRITON, "assembly")
#: What the notice says of an artifact that the program loads in a recording for another GPU: it has no forms of that GPU's.
OTHER_MACHINE = "for this machine"
#: Stages about the compile itself, which a warm compile changes.
ABOUT_THE_COMPILE = ("cache", "phase", "compilation_metrics", "written_file")
#: Steps of explorer's own at which a failure is a defect.
OWN_STEPS = ("render", "link", "record", "watch", "set up", "take down")

# In the child ----------------------------------------------------------------------------------------------------------


def steps(item: tuple[str, str, str, str]) -> Iterator[children.Step]:
    """The one step of a process: run a stack "cold", "warm", "fresh" or "plain", with its caches in a folder."""
    name, how, target, folder = item
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder, "inductor"))
    os.environ["TRITON_CACHE_DIR"] = str(Path(folder, "triton"))
    yield how, functools.partial(ran, name, how, target)


def ran(name: str, how: str, target: str) -> Row:
    """Build the stack, run it, and describe the recording, if there is one."""
    import torch

    torch.manual_seed(0)
    program = STACKS[name].build()
    torch.manual_seed(0)
    if how == "plain":
        return outcome(program)
    import explorer

    with explorer.record(target, fresh=how == "fresh") as recording:
        row = outcome(program)
    return {**row, **described(recording.trace)}


def outcome(program: Any) -> Row:
    """Run a program: the sums of its tensors, or its error."""
    import torch

    try:
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(program()) if isinstance(leaf, torch.Tensor)]
    except Exception as error:  # noqa: BLE001 an error is a result that the run without explorer has to have too
        return {"kind": "raised", "why": f"{type(error).__name__}: {error}"}
    sums = [float(part.detach().double().sum()) for tensor in tensors for part in (tensor, tensor.abs())]
    return {"kind": "ran", "sums": sums}


def described(trace: Any) -> Row:
    """List each place with its lines, and what the trace says about the cache and about its own failures."""
    places: dict[Place, list[int]] = {}
    for artifact in trace.artifacts:
        numbers = places.setdefault((artifact.frame, artifact.graph, artifact.stage), [0, 0, 0])
        numbers[0] += artifact.line_count
    for row in trace.coverage():
        places[row["frame"], row["graph"], row["stage"]][1:] = [row["counted"], row["linked"]]
    return {
        "places": [[*place, *numbers] for place, numbers in places.items()],
        "not_seen": [[row["frame"], row["graph"], list(row["not_seen"])] for row in trace.compiler.caches if row["not_seen"]],
        "hits": Counter(f"{row['cache']} {row['state']}" for row in trace.compiler.caches),
        "notice": next((line for line in repr(trace).splitlines() if line.startswith("from a cache: ")), ""),
        "failures": [[failure.stage, failure.step, failure.message] for failure in trace.failures],
    }


# In the parent ---------------------------------------------------------------------------------------------------------


def recorded(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Row]:
    """Run a stack each way, in a process each: the row of each."""
    command = [sys.executable, __file__, "--child"]
    rows: dict[str, Row] = {}
    for how in ("cold", "warm", "plain", *(["fresh"] if options.fresh else [])):
        (rows[how],) = children.rows([(name, how, options.target, str(folder / name))], command, options)
        print(f"{name} {how}: {rows[how]['kind']} {rows[how].get('seconds', '')}", file=sys.stderr, flush=True)
    return rows


def places(row: Row) -> dict[Place, list[int]]:
    """The lines, the lines that compute and the linked lines of each place of a recording."""
    return {(frame, graph, stage): numbers for frame, graph, stage, *numbers in row.get("places", ())}


def lost(cold: Row, other: Row) -> list[Place]:
    """The places whose text is missing in the other recording, or whose linked lines are fewer there; [] without a recording."""
    if "places" not in other:
        return []
    there = places(other)
    return [
        place
        for place, (_, _, linked) in places(cold).items()
        if place[2] not in ABOUT_THE_COMPILE and (place not in there or there[place][2] < linked)
    ]


def is_said(place: Place, row: Row) -> bool:
    """Whether the trace names the loss: in the notice about its frame, or by a failure of the stage."""
    frame, _, stage = place
    not_seen = [stages for its, _, stages in row["not_seen"] if its == frame and row["notice"]]
    if any(stage in stages for stages in not_seen) or any(stage == failure[0] for failure in row["failures"]):
        return True
    if not_seen and stage in OF_TRITON and OTHER_MACHINE in row["notice"]:
        return True
    return bool(not_seen) and stage in FROM_THE_CACHE and any(place == tuple(its[:3]) for its in row["places"])


def silent(cold: Row, other: Row) -> list[Place]:
    """The places that are lost in the other recording, which does not say so."""
    return [place for place in lost(cold, other) if not is_said(place, other)]


def wrong(rows: dict[str, Row]) -> list[str]:
    """What is wrong with a stack, in words; [] where nothing is."""
    plain = rows["plain"]
    found = []
    for how, row in rows.items():
        if how == "plain":
            continue
        if row["kind"] != plain["kind"] or (row["kind"] == "raised" and _kind(row["why"]) != _kind(plain["why"])):
            found.append(f"{how} {row['kind']}, plain {plain['kind']}: {_short(row.get('why') or plain.get('why', ''))}")
        elif not _close(row.get("sums", []), plain.get("sums", [])):
            found.append(f"{how}: results differ from those without explorer")
        found += [f"{how}: {stage}, {step}: {_short(why)}" for stage, step, why in row.get("failures", ()) if step in OWN_STEPS]
    found += [f"lost and not said: {' '.join(place)}" for place in silent(rows["cold"], rows["warm"])]
    if "fresh" in rows:
        found += [f"lost with fresh=True: {' '.join(place)}" for place in silent(rows["cold"], rows["fresh"])]
    return found


def _kind(why: str) -> str:
    return why.partition(":")[0]


def _short(why: str) -> str:
    line = " ".join(why.split())
    return line if len(line) <= 240 else f"{line[:240]}…"


def _close(ours: Sequence[float], plain: Sequence[float]) -> bool:
    return len(ours) == len(plain) and all(abs(a - b) <= 1e-3 * max(1.0, abs(b)) for a, b in zip(ours, plain, strict=True))


def table_of(name: str, rows: dict[str, Row]) -> Iterator[str]:
    """One row per stage of a stack: linked lines of those that compute, cold and warm, and what became of the difference."""
    gone = lost(rows["cold"], rows["warm"])
    not_said = {place[2] for place in silent(rows["cold"], rows["warm"])}
    sides = {how: _by_stage(rows[how]) for how in ("cold", "warm")}
    for stage, cold in sides["cold"].items():
        verdict = "**not said**" if stage in not_said else "said" if any(place[2] == stage for place in gone) else ""
        if cold[1] or verdict:
            yield f"| {name} | {stage} | {_cell(cold)} | {_cell(sides['warm'].get(stage))} | {verdict} |"


def _by_stage(row: Row) -> dict[str, list[int]]:
    sums: dict[str, list[int]] = {}
    for (_, _, stage), numbers in places(row).items():
        sums[stage] = [a + b for a, b in zip(sums.get(stage, [0, 0, 0]), numbers, strict=True)]
    return sums


def _cell(numbers: list[int] | None) -> str:
    if numbers is None:
        return "no text"
    return f"{numbers[2]} of {numbers[1]}" if numbers[1] else f"{numbers[0]} lines"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(STACKS), default=list(STACKS), metavar="NAME")
    parser.add_argument("--target", default="auto", help="a GPU by name; left out, the device of each call")
    parser.add_argument("--fresh", action="store_true", help="record with fresh=True too")
    parser.add_argument("--json", type=Path, help="write every row there")
    children.add_arguments(parser, seconds=400.0)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and what is wrong; 1 where something is."""
    if "--child" in (sys.argv[1:] if arguments is None else arguments):
        children.serve(steps)
        return 0
    options = parse(arguments)
    skipped = {name: f"{', '.join(STACKS[name].missing)} not installed" for name in options.only if STACKS[name].missing}
    if options.target not in ("auto", "cpu"):
        skipped |= {name: STACKS[name].cpu_only for name in options.only if STACKS[name].cpu_only}
    names = [name for name in children.part(options.only, options.part) if name not in skipped]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(names, pool.map(lambda name: recorded(name, options, Path(folder)), names), strict=True))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print("| stack | stage | linked, cold | linked, warm | |\n| --- | --- | --- | --- | --- |")
    for name, rows in found.items():
        print(*table_of(name, rows), sep="\n")
    for name, why in skipped.items():
        print(f"skipped: {name}: {why}")
    defects = [f"{name}: {what}" for name, rows in found.items() for what in wrong(rows)]
    print(*defects, f"{len(found)} stacks, {len(defects)} defects", sep="\n")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
