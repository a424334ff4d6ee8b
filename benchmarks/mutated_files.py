"""Load altered trace files: each is refused with a FileError, or is a trace whose verbs work.

    python benchmarks/mutated_files.py [--files 500] [--seed 0] [--jobs 4] [--part 1/2]

Prints how many were refused and how many loaded, each raw error with where it came from, the slowest file in seconds and
the most memory that a process took in MB, the recorded traces that the files are made of included.
"""

from __future__ import annotations

import argparse
import copy
import functools
import gzip
import hashlib
import json
import math
import operator
import random
import resource
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import explorer
from explorer.analysis.timing import perfetto
from explorer.errors import ExplorerError, FileError
from explorer.sources.files import trace_file as files
from explorer.tracing.traced import Trace, loads
from explorer.tracing.traced.guesses import ACCESSORS
from explorer.tracing.traced.trace import trace_of_events
from explorer.view.payload import payload

sys.path.insert(0, str(Path(__file__).parent))
import children
from children import Step

#: The most time and memory that a file may take.
SECONDS, MEGABYTES = 5, 1000
DATA = Path(__file__).parent.parent / "tests" / "data"
PROGRAMS = (
    "mlp_train-torch2.11-cuda",
    "toy_example-torch2.13-cpu",
    "recompile-torch2.13-cpu",
    "attention-torch2.13-cpu",
    "views/layers-torch2.13-h100",
)
#: What is put in the place of a value.
VALUES: tuple[Any, ...] = (
    *(None, 0, -1, 10**9, 10**40, 3.5, 1e308, math.nan, -math.inf, True, [], {}, [[]], {"a": [1, "b"]}),
    *("", "x", "é\ud800", "-1", "3-", "0-999999999", "9" * 5000, "s0 + 1"),
)
#: What is shown of a trace, tables and accessors with all of theirs.
SHOWN = ("compile_ids", "kernels", "dynamo", "inductor", "compiler", "profile", "collectives", "live", "stages")
#: The tables behind the accessors.
TABLES = tuple(
    f"{accessor.path[2:]}.{name}"
    for accessor in ACCESSORS
    for name, member in accessor.members()
    if isinstance(member, property) and accessor.path != "t.live" and name != "counters"
)


def traces() -> list[Trace]:
    """The recorded programs of the tests, replayed."""
    return [trace_of_events(*files.load_events((DATA / f"{name}.events.json.gz").read_bytes())) for name in PROGRAMS]


def mutants(trace: Trace, count: int, rng: random.Random) -> Iterator[bytes]:
    """Yield files of the trace with their checksums made to fit: half with one field changed, half with one to three places.

    Of the fields each has the same chance, however many rows have it, and gets a value of its own type where there is one.
    """
    whole = json.loads(gzip.decompress(files.dumps(trace)))
    fields = list(one_of_each_field(whole["trace"]))
    for _ in range(count):
        changed = copy.deepcopy(whole)
        if rng.random() < 0.5:
            *above, last = rng.choice(fields)
            holder = functools.reduce(operator.getitem, above, changed["trace"])
            alike = [value for value in VALUES if type(value) is type(holder[last])]
            holder[last] = copy.deepcopy(rng.choice(alike or VALUES))
        else:
            for _ in range(rng.choice((1, 1, 1, 3))):
                mutate(_root(changed["trace"], rng), rng)
        yield packed(changed)


def one_of_each_field(value: Any, keys: tuple[Any, ...] = (), seen: dict[Any, None] | None = None) -> Iterator[tuple[Any, ...]]:
    """Yield where the first row with each field is. The rows of a list are alike, and artifacts are where their stage is one."""
    seen = {} if seen is None else seen
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        alike = each.get("stage", "") if isinstance(each, dict) else ""
        kind = (*keys, key) if isinstance(value, dict) else (*keys, "each", alike)
        if kind not in seen:
            seen[kind] = None
            yield (key,)
        for rest in one_of_each_field(each, kind, seen):
            yield (key, *rest)


def packed(whole: dict[str, Any]) -> bytes:
    """The bytes of a trace file, with a checksum that fits."""
    text = json.dumps(whole["trace"], sort_keys=True, separators=(",", ":"))
    whole["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return gzip.compress(json.dumps(whole, separators=(",", ":")).encode(), compresslevel=1)


def _root(value: dict[str, Any], rng: random.Random) -> Any:
    """Where a change begins: anywhere, or in the data of one artifact."""
    artifacts = value.get("artifacts")
    if rng.random() < 0.3 or not isinstance(artifacts, list) or not artifacts:
        return value
    artifact = rng.choice(artifacts)
    return artifact["data"] if isinstance(artifact, dict) and isinstance(artifact.get("data"), dict) else value


def mutate(value: Any, rng: random.Random) -> None:
    """Walk down to some value and delete it, replace it, or put its neighbour in its place."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.85:
            value = value[key]
            continue
        kind = rng.randrange(len(VALUES) + 2)
        if kind < len(VALUES):
            value[key] = copy.deepcopy(VALUES[kind])
        elif kind == len(VALUES):
            del value[key]
        else:
            value[key] = copy.deepcopy(value[rng.choice(keys)])
        return


def verbs(trace: Trace, original: Trace) -> Iterator[tuple[str, Callable[[], object]]]:
    """What a user may ask of a loaded trace, by name."""
    yield "repr", lambda: (repr(trace), trace._repr_html_(), trace.stages)
    for name in (*SHOWN, *TABLES):
        yield name, lambda n=name: repr(operator.attrgetter(n)(trace))  # type: ignore[misc]
    yield "memory", lambda: (trace.memory.peak, repr(trace.memory))
    yield "kernels.table", lambda: repr(trace.kernels.table)
    yield "kernel", lambda: [(repr(k), k._repr_html_(), k.operators, [k.text(s) for s in k.stages]) for k in trace.kernels]
    yield "resources", lambda: [(k.resources, k.launches, k.candidates.table) for k in trace.kernels if "ptx" in k.stages]
    yield "fusion", lambda: (trace.fusion.table, trace.fusion.groups, trace.fusion.buffers)
    yield "why", lambda: [trace.why(a, b) for a, b in _pairs(trace)]
    yield "follow", lambda: [trace.follow(a.id, line) for a in trace.artifacts[:40] for line in (1, len(a.lines)) if a.lines]
    yield "coverage", lambda: (trace.coverage(), trace.coverage("kernel") if trace.kernels else None)
    yield "follow_module", lambda: trace.follow("h")
    yield "payload", lambda: json.dumps(payload(trace))
    yield "save", lambda: files.loads(files.dumps(trace))
    yield "compare", lambda: (repr(explorer.compare(trace, original)), repr(explorer.compare(original, trace)))
    yield "perfetto", lambda: list(perfetto.events(trace))
    yield "advise", lambda: repr(trace.advise())
    yield "diagram", lambda: trace.diagram()
    yield "tabular", lambda: [(a.edges, a.tabular, repr(a), a._repr_html_()) for a in trace.artifacts]


def _pairs(trace: Trace) -> Iterator[tuple[str, str]]:
    for graph in trace.fusion.graphs:
        names = [str(name) for name in graph.verdicts.data["names"]][:3]
        yield from ((a, b) for a in names for b in names)


def raw_errors(data: bytes, original: Trace) -> list[str] | None:
    """List the raw errors of a file, each with its verb and place; None where the file is refused."""
    try:
        trace = loads(data)
    except FileError:
        return None
    found = []
    for name, verb in verbs(trace, original):
        try:
            verb()
        except ExplorerError:
            continue
        except Exception as error:  # noqa: BLE001 a raw error is what is looked for
            place = [f for f in traceback.extract_tb(error.__traceback__) if "explorer" in f.filename][-1]
            found.append(f"{name}: {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})")
    return found


def steps(seed: int) -> Callable[[list[int]], Iterator[Step]]:
    """In the child: the steps for an item, [which of the traces, which of its files]."""
    several = traces()

    def tried(trace: Trace, data: bytes) -> dict[str, Any]:
        found = raw_errors(data, trace)
        kind = "refused" if found is None else "raw error" if found else "safe"
        return {"kind": kind, "errors": found or [], "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}

    def of(item: list[int]) -> Iterator[Step]:
        trace, number = several[item[0]], item[1]
        (data,) = mutants(trace, 1, random.Random(f"{seed} {item[0]} {number}"))
        return iter([(f"{PROGRAMS[item[0]]} {number}", lambda: tried(trace, data))])

    return of


def main() -> int:
    """Print the figures; 1 where a file gave a raw error, took too long or too much memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    children.add_arguments(parser, 60)
    options = parser.parse_args()
    if options.child:
        children.serve(steps(options.seed))
        return 0
    items = children.part([[n % len(PROGRAMS), n // len(PROGRAMS)] for n in range(options.files)], options.part)
    counts, errors, slowest, megabytes = Counter[str](), Counter[str](), 0.0, 0.0
    for row in children.rows(items, [sys.executable, __file__, "--child", "--seed", str(options.seed)], options):
        counts[row["kind"]] += 1
        errors.update(row.get("errors", ()))
        slowest, megabytes = max(slowest, row.get("seconds", 0.0)), max(megabytes, row.get("megabytes", 0.0))
        if row["kind"] not in ("safe", "refused"):
            print(row["kind"], row["item"], row.get("why", ""), *row.get("errors", ()), flush=True)
    print(f"{counts.total()} files: " + ", ".join(f"{count} {what}" for what, count in counts.most_common()))
    print(f"slowest {slowest:.1f} s of {SECONDS}, most memory {megabytes:,.0f} MB of {MEGABYTES:,}", flush=True)
    for error, count in errors.most_common():
        print(f"{count:4} {error}")
    return int(not counts or not set(counts) <= {"safe", "refused"} or slowest > SECONDS or megabytes > MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
