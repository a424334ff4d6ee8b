"""Say which kernel the compiler waits for or times, and which choice, while it does: each may take minutes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

from explorer.capture.observe.patch import observed
from explorer.model.stage import Emit
from explorer.model.wording import quantity


@contextmanager
def kernel_compiles(emit: Emit) -> Iterator[None]:
    """Name each kernel and choice to the progress inside the block."""
    from torch._inductor import codecache
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    names: dict[int, str] = {}  # of the futures that are waited for, by id
    places: dict[int, str] = {}  # of the choices that are timed, by id

    def waited_for(_: Any, scope: Mapping[str, Any]) -> Iterator[None]:
        kernels = {name: value for name, value in scope.items() if isinstance(value, (Future, codecache.CodeCacheFuture))}
        names.update({id(future): f"{name}, {n} of {len(kernels)}" for n, (name, future) in enumerate(kernels.items(), 1)})
        yield
        for future in kernels.values():
            names.pop(id(future), None)

    def waiting(future: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        with emit.doing(f"kernel {names.get(id(future), 'compile')}"):
            yield

    def compiling(_: Any, kernel_name: str, *args: Any, **kwargs: Any) -> Iterator[None]:
        with emit.doing(f"kernel {kernel_name}"):  # autotuning gives it by keyword
            yield

    def choosing(choices: Sequence[Any], *args: Any, **kwargs: Any) -> Iterator[None]:
        places.update({id(choice): f"{n} of {len(choices)}" for n, choice in enumerate(choices, 1)})
        yield
        places.clear()

    def choice_timed(choice: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        with emit.doing(f"choice {choice.name}, {places.get(id(choice), 'one of several')}"):
            yield

    def candidates_timed(kernel: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        with emit.doing(f"kernel {kernel.inductor_meta.get('kernel_name')}, {quantity(len(kernel.launchers), 'candidate')}"):
            yield

    with ExitStack() as stack:
        stack.enter_context(observed(AsyncCompile, "_wait_futures", waited_for))
        stack.enter_context(observed(codecache.LambdaFuture, "result", waiting))
        stack.enter_context(observed(AsyncCompile, "triton", compiling))
        stack.enter_context(observed(AlgorithmSelectorCache, "benchmark_choices", choosing))
        stack.enter_context(observed(AlgorithmSelectorCache, "benchmark_choice", choice_timed))
        stack.enter_context(observed(CachingAutotuner, "benchmark_all_configs", candidates_timed))
        yield
