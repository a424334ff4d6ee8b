"""Record the programs of `programs.py` into `data/NAME-torchX.Y-DEVICE.events.json.gz`, to be replayed by tests.

    python tests/record_events.py [--device cpu|cuda|h100|b200] [--out DIR] [NAME …]

Run from the checkout, with `explorer` importable. Paths of this machine are rewritten, so that a file names only
"site-packages/", "python/", "cache/" and paths relative to the checkout; ids of objects are counted from 1.
"""

from __future__ import annotations

import argparse
import os
import re
import site
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from programs import PROGRAMS, VIEWED
from torch.utils._traceback import shorten_filename

import explorer
from explorer.model.values import Event, Failure, plain
from explorer.sources.files.trace_file import dump_events

CHECKOUT = Path(__file__).resolve().parent.parent
#: Ids and addresses of objects, which differ in every process.
OBJECT_ID = re.compile(r"\b(?:0x[0-9a-f]{9,16}|\d{13,16})\b")
#: Other texts that differ each time, and what is written in their place.
RANDOM = (
    (re.compile(r"(__compiled_fn_\d+)_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}"), r"\1"),
    (re.compile(r"Guard latency = [\d.]+ us"), "Guard latency = 1.00 us"),
)
#: GPUs that are not attached: programs run on the CPU, and are compiled for one.
ABSENT = ("h100", "b200")
#: Facts of `Trace.meta` that differ in every recording.
FLEETING = ("made", "cost")


def prefixes() -> list[tuple[str, str]]:
    """List (absolute path, what is written in its place), the longest path first."""
    packages = [*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values(), *found_packages()]
    caches = [os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""), os.environ.get("TRITON_CACHE_DIR", ""), torchinductor_default()]
    caches += [tempfile.gettempdir(), str(Path.home())]
    known = dict.fromkeys(caches, "cache/")
    known[os.environ.get("TORCHINDUCTOR_CUTLASS_DIR", "")] = "cutlass/"
    known |= dict.fromkeys((sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)), "python/")
    known |= {path: "site-packages/" for path in packages if path.endswith("-packages")}
    known |= {str(CHECKOUT): ""}
    both = {form.rstrip("/"): new for path, new in known.items() if path for form in (path, os.path.realpath(path))}
    return sorted(((path, new) for path, new in both.items() if path), key=lambda pair: -len(pair[0]))


def found_packages() -> Iterator[str]:
    """The folders that torch and triton were imported from."""
    for name in ("torch", "triton"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield str(Path(file).parent.parent)


def torchinductor_default() -> str:
    """Inductor's cache where no variable names one."""
    import getpass

    return os.path.join(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")


def rewriter() -> Callable[[str], str]:
    """Make a function that writes a text in the same way on every machine."""
    known = [(re.compile(rf"{re.escape(path)}(?:/|(?![\w.-]))"), new) for path, new in prefixes()]
    short = shorten_filename(str(CHECKOUT / "x"))[:-1]  # how Dynamo writes the checkout in the comments of guards
    if short:
        known.append((re.compile(rf"(?<=# ){re.escape(short)}"), ""))
    ids: dict[str, str] = {}

    def counted(match: re.Match[str]) -> str:
        number = ids.setdefault(match[0], str(len(ids) + 1))
        return f"0x{number}" if match[0].startswith("0x") else number

    def rewrite(text: str) -> str:
        for path, new in known:
            text = path.sub(lambda m, new=new: new if m[0].endswith("/") else new.rstrip("/"), text)
        for pattern, new in RANDOM:
            text = pattern.sub(new, text)
        return OBJECT_ID.sub(counted, text)

    return rewrite


def rewritten(value: Any, rewrite: Callable[[str], str]) -> Any:
    """A plain value with every string rewritten."""
    if isinstance(value, str):
        return rewrite(value)
    if isinstance(value, tuple):
        return tuple(rewritten(v, rewrite) for v in value)
    if hasattr(value, "items"):
        return plain({k: rewritten(v, rewrite) for k, v in value.items()})
    return round(value, 6) if isinstance(value, float) else value


def portable(events: Iterable[Event], failures: Iterable[Failure]) -> tuple[list[Event], list[Failure]]:
    """A recording without anything that names this machine."""
    rewrite = rewriter()
    moved = [replace(e, time=round(e.time, 6), data=rewritten(e.data, rewrite), path=rewritten(e.path, rewrite)) for e in events]
    return moved, [replace(f, message=rewrite(f.message)) for f in failures]


def record(name: str, device: str) -> bytes:
    """The bytes of one program's events file."""
    torch.compiler.reset()
    torch.manual_seed(0)
    with explorer.record(target=device, name=name, fresh=True) as recording:
        {**PROGRAMS, **VIEWED}[name]("cpu" if device in ABSENT else device)
    meta = {key: value for key, value in recording.trace.meta.items() if key not in FLEETING}
    return dump_events(*portable(recording.events, recording.failures), {**meta, "program": name, "device": device})


def main() -> None:
    """Record the programs asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = f"of {', '.join((*PROGRAMS, *VIEWED))}; without, {', '.join(PROGRAMS)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    parser.add_argument("--device", choices=("cpu", "cuda", *ABSENT), default="cpu")
    parser.add_argument("--out", type=Path, default=CHECKOUT / "tests" / "data")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    release = ".".join(torch.__version__.split(".")[:2])
    for name in chosen.names or PROGRAMS:
        path = chosen.out / ("views" if name in VIEWED else "") / f"{name}-torch{release}-{chosen.device}.events.json.gz"
        path.write_bytes(record(name, chosen.device))
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
