"""A cold compile: the caches that would skip stages are set aside, and put back on exit.

Only caches of whole stages are set aside. Compiled C++ and Triton binaries stay cached: their source is seen all
the same, and a precompiled header alone takes 17 to 35 s to make again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from explorer.hooks.patch import replaced
from explorer.hooks.versions import isolates_recompiles


@contextmanager
def cold_compile(*, many_traces: bool) -> Iterator[None]:
    """Inside the block AOTAutograd and Inductor compile every graph themselves instead of loading it.

    What Inductor measured of a kernel's configs in an earlier process or compile is measured again, so that it can be seen.
    With `many_traces` what earlier calls left is set aside as well: the sizes they were called with, which would
    make a size dynamic, and the limits on recompiles, since a trace is one more cache entry of the same code object
    where torch cannot isolate it. A recording of the user's own calls leaves both alone.
    """
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config
    from torch._dynamo import pgo
    from torch._inductor.runtime.autotune_cache import AutotuneCache

    inductor = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
    autograd = {"enable_autograd_cache": False, "enable_remote_autograd_cache": False}
    crowded = many_traces and not isolates_recompiles()
    limits = {"recompile_limit": 1024, "accumulated_recompile_limit": 4096} if crowded else {}
    with ExitStack() as stack:
        # the setting would be written into each kernel's metadata; what is measured is kept for later all the same
        stack.enter_context(replaced(AutotuneCache, "read_best", lambda _: lambda *args: None))
        stack.enter_context(torch._inductor.config.patch(inductor))
        stack.enter_context(torch._functorch.config.patch(autograd))
        stack.enter_context(torch._dynamo.config.patch(limits))
        for name in ("_CODE_STATE", "_INIT_CODE_STATE") if many_traces else ():
            stack.enter_context(replaced(pgo, name, lambda sizes_seen: None))
        yield
