"""Read what the attached GPU launches of each Triton kernel: its binary, the texts that it was made of, and its times.

Inductor compiles kernels in processes of its own and keeps only their binaries. Every text below a kernel's source is in
triton's cache, beside the binary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.capture.observe.patch import observed
from explorer.model.values import Plain, plain


@dataclass(frozen=True)
class Launched:
    """One kernel as the GPU has it: the config that won, every text and the binary of that compile, and all times.

    `file` and `first_line` say where the kernel's source is in the texts' locations. `registers` are those a thread, as
    the driver counts them; `local` its bytes of local memory. `measured` has a row for each config that was timed, with
    `ms` None where Inductor refused it for its spilled registers or the GPU could not run it.
    """

    config: Mapping[str, Plain]
    texts: Mapping[str, str] = field(repr=False)
    binary: bytes = field(repr=False)
    metadata: Mapping[str, Plain]
    file: str
    first_line: int
    registers: int
    local: int
    measured: tuple[Mapping[str, Plain], ...] = ()
    from_cache: bool = False


#: Find a kernel by the file of its output code and its name; None where the GPU has none.
Find = Callable[[str, str], Launched | None]
#: Inductor's modules of output code that were loaded, by the name of the file.
Modules = dict[str, Any]


@contextmanager
def loaded_modules() -> Iterator[Modules]:
    """Collect the modules of output code that Inductor loads inside the block; a graph's module is no other graph's."""
    from torch._inductor.codecache import PyCodeCache

    modules: Modules = {}

    def loaded(key: str, path: str, *args: Any, **kwargs: Any) -> Generator[None, Any, None]:
        module = yield
        if args or "linemap" in kwargs:  # else it is the source of a kernel
            modules[Path(path).name] = module

    with observed(PyCodeCache, "load_by_key_path", loaded):
        yield modules


def launched_of(modules: Modules, file: str, name: str) -> Launched | None:
    """Find what the attached GPU launches for a kernel, by the kernel's name and output code file; None if nothing."""
    return launched(getattr(modules.get(file), name, None))


def launched(tuner: Any) -> Launched | None:
    """What a CachingAutotuner launches; None where it has not settled on a config, or where no texts are kept."""
    launchers: Sequence[Any] = getattr(tuner, "launchers", ())
    if len(launchers) != 1:
        return None
    own = launchers[0]
    folder = triton_cache_folder(tuner, own.cache_hash)
    kept = {path.suffix[1:]: path for path in folder.iterdir() if not path.name.startswith("__grp__")} if folder.is_dir() else {}
    binary = kept.get("cubin") or kept.get("hsaco")
    if binary is None or "json" not in kept or own.n_regs is None:
        return None
    source = Path(tuner.filename).read_text(encoding="utf-8") if tuner.filename and Path(tuner.filename).is_file() else ""
    texts = {stage: path.read_text(encoding="utf-8") for stage, path in kept.items() if stage not in ("cubin", "hsaco", "json")}
    known = getattr(tuner, "autotune_cache_info", None) or {}
    return Launched(
        described(own.config),
        plain(texts),
        binary.read_bytes(),
        plain(json.loads(kept["json"].read_text(encoding="utf-8"))),
        str(tuner.filename or ""),
        1 + len(source) - len(source.lstrip("\n")),
        int(own.n_regs),
        4 * int(own.n_spills or 0),
        measured(tuner),
        known.get("autotune_cache_state") == "hit",
    )


def triton_cache_folder(tuner: Any, key: str) -> Path:
    """Return the folder of triton's cache that has a binary and its intermediate code."""
    from torch._inductor.runtime.cache_dir_utils import triton_cache_dir

    return Path(triton_cache_dir(tuner.triton_meta.get("device", 0))) / key


def described(config: Any) -> Mapping[str, Plain]:
    """A triton Config as a mapping: its own values, num_warps, num_stages, and num_ctas and maxnreg where set."""
    rest = {key: getattr(config, key, None) for key in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    unset = {"num_ctas": (None, 1), "maxnreg": (None,)}
    values = {**config.kwargs, **{key: value for key, value in rest.items() if value not in unset.get(key, (None,))}}
    made: Mapping[str, Plain] = plain(values)
    return made


def measured(tuner: Any) -> tuple[Mapping[str, Plain], ...]:
    """One row for each config that a CachingAutotuner timed, by autotuning or coordinate descent, with its `ms`."""
    known = getattr(getattr(tuner, "coordesc_tuner", None), "cached_benchmark_results", {})
    return tuple(plain({**dict(config), "ms": finite(time)}) for config, time in known.items())


def finite(time: float) -> float | None:
    """A time that was measured; None for the infinite one of a config that could not run."""
    return float(time) if math.isfinite(time) else None
