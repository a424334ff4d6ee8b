"""Compile Dynamo's graph for an absent GPU, and run the graph itself on the CPU.

The graph goes to the GPU where Inductor takes it over, before AOTAutograd: each of its inputs becomes a fake tensor on
the GPU, and each `torch.device` it names becomes the GPU. So AOTAutograd, its decompositions, autograd, the choice of
operators (attention, convolution, batch norm), every graph pass and all of Inductor see the target and nothing else. What
they make is recorded and kept for a check. In its place Dynamo gets a copy of its own graph, so the function returns what
eager returns.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.active_driver import answered
from explorer.capture.absent.aot_inductor import inputs_on_gpu, not_packaged, packaging
from explorer.capture.absent.compiling import compiling_for
from explorer.capture.absent.generated import Generated, compile_fx_replaced
from explorer.capture.absent.graphs import marking_dynamic, on_the_cpu, outputs_of, to_gpu
from explorer.capture.absent.in_place_of_gpu import in_place_of_gpu
from explorer.capture.absent.native import library
from explorer.capture.absent.random_draws import noting_draws
from explorer.capture.absent.seen_by_dynamo import not_seen_in_eager_mode, seen_by_dynamo, seen_in_eager_mode
from explorer.capture.absent.stand_in_runs import reporting_runs
from explorer.capture.absent.standalone import (
    artifacts_loaded_here,
    copied_graph,
    fake_tensors_of_its_own,
    has_fakes_of_dynamo,
    of_this_machine,
    standalone,
    standalone_calls_noted,
)
from explorer.capture.absent.untimed import assuming
from explorer.capture.absent.unviewed import unviewed
from explorer.capture.absent.user_kernels import captured_by_dynamo
from explorer.capture.observe.patch import ON_PURPOSE, Guard, guard_here, guarding, replaced
from explorer.capture.observe.places import OWN_FOLDER
from explorer.capture.observe.without_data import on_fakes
from explorer.errors import chain
from explorer.model.stage import Emit

if TYPE_CHECKING:
    from explorer.capture.absent.launches import Launches
    from explorer.reference.gpus.figures import Target

#: Makes what runs of the graph's copy on the CPU and of what was compiled.
Runs = Callable[[Any, Any], Any]


@contextmanager
def retargeted(
    target: Target,
    emit: Emit,
    compiled: Callable[[], object],
    generated: Generated | None = None,
    launches: Launches | None = None,
) -> Iterator[bool]:
    """Make Inductor compile for `target` what Dynamo traced on the CPU; InputError if g++ is missing.

    `compiled` is called after each compiled Dynamo graph, outside of the pretence. `generated` collects the generated code,
    and `launches` the program's launches outside of these graphs.

    The pretence is only in the thread that compiles, and only for that compile. Where explorer's part of it fails,
    the compile for the GPU is given up: a Failure says so, and the graph runs on the CPU as it does otherwise.
    """
    from torch._dynamo.backends import cudagraphs

    library()
    drawn = noting_draws(assuming(emit))
    kept = generated if generated is not None else Generated()
    guard = guard_here()
    with tempfile.TemporaryDirectory(prefix="explorer-absent-") as folder:
        compiler = _Compiler(target, emit, compiled, kept, launches, guard, folder)
        with (
            seen_in_eager_mode(target, drawn),
            compile_fx_replaced(compiler.in_place_of_compile_fx),
            replaced(cudagraphs, "cudagraphs", compiler.in_place_of_cudagraphs),
            standalone_calls_noted(),
            artifacts_loaded_here(),
            _hashed_ahead(),
            captured_by_dynamo(target),
            in_place_of_gpu(launches, target.device, assuming(emit)),
        ):
            with answered(target, launches.note if launches is not None else lambda *what: False), seen_by_dynamo(target, drawn):
                yield True


class _Inside(threading.local):
    """Whether this thread is compiling for the GPU."""

    compile = False


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of Inductor's `compile_fx`, or of another backend that takes Dynamo's graph."""

    original: Callable[..., Any]
    graph: Any
    inputs: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def of(self, compile_fx: Callable[..., Any], graph: Any, inputs: Any) -> Any:
        """Call a function with another graph and its inputs, and the other arguments of this call."""
        return compile_fx(graph, inputs, *self.args, **self.kwargs)

    def as_it_is(self) -> Any:
        """Call torch's own function with this call's own graph and arguments."""
        return self.of(self.original, self.graph, self.inputs)


@dataclass(frozen=True, eq=False)
class _Compiler:
    """Compile Dynamo's graphs for the GPU in place of Inductor's `compile_fx`."""

    target: Target
    emit: Emit
    compiled: Callable[[], object]
    generated: Generated
    launches: Launches | None
    guard: Guard
    folder: str
    inside: _Inside = field(default_factory=_Inside)
    graphs: Counter[str] = field(default_factory=Counter)

    def in_place_of_compile_fx(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Replace `compile_fx`: the graph's copy runs, and a check can run the generated code."""
        return self._in_place_of(original, self.generated.in_place_of)

    def in_place_of_cudagraphs(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Replace the backend "cudagraphs", which generates no code: the graph's copy runs."""
        return self._in_place_of(original, lambda own, _: own)

    def _in_place_of(self, original: Callable[..., Any], runs: Runs) -> Callable[..., Any]:
        def compile_fx(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if self.inside.compile:
                return original(graph, inputs, *args, **kwargs)
            call = _Call(original, graph, inputs, args, kwargs)
            self.inside.compile = True
            try:
                if packaging():
                    return self._for_aot_inductor(call)
                if standalone():
                    return self._for_standalone_compile(call)
                return self._for_dynamo(call, runs)
            finally:
                self.inside.compile = False

        return compile_fx

    def _compiling(self, graph: Any) -> AbstractContextManager[None]:
        return compiling_for(self.target, self.emit, graph, self.generated.codes.append, self.folder)

    def _for_dynamo(self, call: _Call, runs: Runs) -> Any:
        """Compile a graph of Dynamo's for the GPU, and return what runs in its place."""
        # from here on the graph is changed in place: whatever fails, its copy runs
        own, outputs = on_fakes(unviewed(on_the_cpu(call.graph))), outputs_of(call.graph)
        is_part = has_fakes_of_dynamo(call.inputs)
        fakes = fake_tensors_of_its_own(ignore_shape_env=False) if is_part else nullcontext()

        def for_the_gpu(compile_fx: Callable[..., Any]) -> Any:
            with self._compiling(call.graph), fakes:
                to_gpu(call.graph, self.target.device)
                code = call.of(compile_fx, call.graph, call.inputs)
            self.compiled()
            inside = self.launches.inside(own) if self.launches is not None else own
            return runs(reporting_runs(marking_dynamic(inside, outputs), *self._counted()), code)

        return _given_up_where_ours_fails(for_the_gpu, call.original, self.guard) or own

    def _counted(self) -> tuple[str, int]:
        """The compile id, and how many graphs were compiled for it before: DDPOptimizer makes one per bucket."""
        frame = self.emit.here().frame
        self.graphs[frame] += 1
        return frame, self.graphs[frame] - 1

    def _for_aot_inductor(self, call: _Call) -> Any:
        """Compile a copy of an exported graph for the GPU, and the program's own package as without explorer."""

        def for_the_gpu(compile_fx: Callable[..., Any]) -> bool:
            graph = on_the_cpu(call.graph)
            graph.meta.update(call.graph.meta)
            with self._compiling(graph), not_packaged(self.target, self.folder):
                to_gpu(graph, self.target.device)
                call.of(compile_fx, graph, inputs_on_gpu(graph, call.inputs, self.target.device))
            self.compiled()
            return True

        with not_seen_in_eager_mode():
            _given_up_where_ours_fails(for_the_gpu, call.original, self.guard)
            with self.emit.muted():  # the program's package, which runs on this machine
                return call.as_it_is()

    def _for_standalone_compile(self, call: _Call) -> Any:
        """Compile a copy of the graph for the GPU, and what the program saves for this machine."""
        with not_seen_in_eager_mode():
            for_gpu = self._standalone_for_gpu(call)
            # what the program saves is for this machine: its cache entry names triton's driver, and a load compares it
            with self.emit.muted(), of_this_machine():
                for_cpu = call.as_it_is()
        if for_gpu is None:
            return for_cpu
        either = self.generated.in_place_of(for_cpu, for_gpu)
        vars(either).update({name: value for name, value in vars(for_cpu).items() if name not in vars(either)})  # as `serialize`
        return either

    def _standalone_for_gpu(self, call: _Call) -> Any:
        """Compile a copy of the graph for the GPU; None, and a Failure, where that fails, in torch's part too."""

        def for_the_gpu(compile_fx: Callable[..., Any]) -> Any:
            graph = copied_graph(call.graph)
            ignores = bool(call.kwargs.get("ignore_shape_env"))
            with self._compiling(graph), fake_tensors_of_its_own(ignore_shape_env=ignores):
                to_gpu(graph, self.target.device)
                code = call.of(compile_fx, graph, call.inputs)
            self.compiled()
            return code

        try:
            return _given_up_where_ours_fails(for_the_gpu, call.original, self.guard)
        except ON_PURPOSE:
            raise
        except Exception as error:  # noqa: BLE001 torch's own for that GPU: what the program saves does not need it
            self.guard.lose("standalone_compile", error)
            return None


def _given_up_where_ours_fails(
    compile_it: Callable[[Callable[..., Any]], Any], original: Callable[..., Any], guard: Guard
) -> Any:
    """Call `compile_it` with torch's own function; None, and a Failure, if explorer's part failed."""
    torchs: list[BaseException] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            torchs.append(error)
            raise

    answers = guard.essential_here()
    try:
        with guarding(answers):
            return compile_it(call)
    except ON_PURPOSE:
        raise
    except Exception as error:
        if error in torchs and not answers.failed and not _raised_in_explorer(error):
            raise
        if not answers.failed:
            answers.lose("compile", error)
    finally:
        torchs.clear()
    answers.lose("compile", RuntimeError("explorer failed while it compiled for the GPU: the graph runs on the CPU as it is"))
    return None


def _raised_in_explorer(error: BaseException) -> bool:
    """Whether the innermost function under way was explorer's, in this error or in one that torch wraps in it.

    Torch calls such functions directly: the loaders of a graph's loops, and what answers as the GPU.
    """
    for one in chain(error):
        files = [frame.f_code.co_filename for frame, _ in walk_tb(one.__traceback__)]
        if files and files[-1].startswith(OWN_FOLDER):
            return not isinstance(one, ON_PURPOSE)
    return False


@contextmanager
def _hashed_ahead() -> Iterator[None]:
    """Compute triton's hash, which Inductor writes into each kernel, in a thread while Dynamo works (0.3 s)."""
    from torch._inductor.runtime.triton_compat import triton_key

    thread = threading.Thread(target=triton_key, name="explorer-triton-key")
    thread.start()
    try:
        yield
    finally:
        thread.join()
