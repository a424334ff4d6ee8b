"""Observe the collectives that a program sends outside of its compiled graphs.

DDP's reducer is C++ and asks the process group directly, so replacing functions of torch.distributed would miss it. But each
collective of each backend is an operator of `c10d`, and goes through torch's dispatcher. A kernel for the key BackendSelect, for
which these operators have none, sees every call. It notes the call and passes it on unchanged.
"""

from __future__ import annotations

import gc
import linecache
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, pairwise
from types import FrameType
from typing import Any, NamedTuple

from explorer.capture.observe.context import graph_of
from explorer.capture.observe.patch import Guard, guard_here, guarding, observed
from explorer.capture.observe.places import OWN_FOLDER, in_package
from explorer.model.records import changed
from explorer.model.stage import Emit
from explorer.stages.torch_compile.eager_collective import DDP, FSDP2, PYTHON, EagerCollective, EagerCollectives, RunGraph

#: The collectives among the operators of c10d, by the names that operators in graphs have for them.
OPERATORS: Mapping[str, str] = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "_allgather_base_": "all_gather_into_tensor",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
    "_reduce_scatter_base_": "reduce_scatter_tensor",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced",
    "alltoall_base_": "all_to_all_single",
    "alltoall_": "all_to_all",
    "broadcast_": "broadcast",
    "reduce_": "reduce",
    "gather_": "gather",
    "scatter_": "scatter",
}
#: Operators whose second argument is what a rank gives; the first is what it gets.
GIVEN_SECOND = ("allgather", "_allgather", "reduce_scatter", "_reduce_scatter", "alltoall", "gather", "scatter")
#: Most rows, and most steps of the order: a job may run for days.
MAX_ROWS, MAX_STEPS = 1000, 4096
#: Files of torch, as `in_package` names them.
OF_FSDP2 = "torch/distributed/fsdp/_fully_shard/"
PARAM_GROUP = f"{OF_FSDP2}_fsdp_param_group.py"
OF_DDP = "torch/nn/parallel/distributed.py"
ENGINE = "torch/autograd/graph.py"
INTERPRETER = "torch/fx/interpreter.py"


class Sending:
    """Where the dispatcher's kernels report a collective: every recording under way observes this one function."""

    @staticmethod
    def sent(operator: str, arguments: Sequence[Any], frame: FrameType | None) -> None:
        """Do nothing; recordings observe it. `frame` is the innermost one of Python, None in autograd's own threads."""


class Running:
    """Where explorer reports a graph that runs in place of the code for an absent GPU: recordings observe this function."""

    @staticmethod
    def began(frame: str, graph: str, number: int) -> None:
        """Do nothing; recordings observe it. `number` counts the graphs of this name in their frame."""


@contextmanager
def eager_collectives(emit: Emit) -> Iterator[None]:
    """Record the collectives that are sent outside of the compiled graphs, and the graphs that run between them."""
    from torch import distributed

    if not distributed.is_available():
        yield
        return
    from torch._inductor.output_code import CompiledFxGraph

    notes = _Notes()

    def compiled(self: Any, example_inputs: Any, constants: Any, graph_kwargs: Mapping[str, Any]) -> Iterator[None]:
        notes.compiled(self, emit.here().frame, graph_of({**graph_kwargs, **self.fx_kwargs}))
        yield

    def ran(self: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        with notes.running(self):
            yield

    def began(frame: str, graph: str, number: int) -> Iterator[None]:
        notes.began(_Graph(frame, graph, number))
        yield

    def sent(operator: str, arguments: Sequence[Any], frame: FrameType | None) -> Iterator[None]:
        if not emit.here().frame:
            notes.sent(operator, arguments, frame)
        yield

    here = guard_here()
    with ExitStack() as stack:
        # the backward of tensors on a GPU, and its hooks, run in autograd's threads
        stack.enter_context(guarding(Guard(_in_autograds_thread, here.errors, stage=here.stage, here=True)))
        stack.enter_context(observed(CompiledFxGraph, "post_compile", compiled))
        stack.enter_context(observed(CompiledFxGraph, "__call__", ran))
        stack.enter_context(observed(Running, "began", began))
        stack.enter_context(observed(Sending, "sent", sent))
        stack.enter_context(_kernels())
        try:
            yield
        finally:
            if notes.rows:
                emit("eager_collective", notes.facts)


@contextmanager
def _kernels() -> Iterator[None]:
    """Have the dispatcher report each collective inside the block.

    Where two recordings overlap, the newer kernel is called; it reports to both.
    """
    import torch

    library = torch.library.Library("c10d", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
            for name in OPERATORS:
                operator = getattr(getattr(torch.ops.c10d, name, None), "default", None)
                if operator is not None:
                    library.impl(name, _kernel(operator, name), "BackendSelect", with_keyset=True, allow_override=True)
        yield
    finally:
        library._destroy()


def _kernel(operator: Any, name: str) -> Callable[..., Any]:
    import torch

    below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        Sending.sent(name, args, sys._getframe().f_back)
        return operator.redispatch(keys & below, *args, **kwargs)

    return kernel


def _in_autograds_thread() -> bool:
    """Whether this thread was started by C++, as autograd's are: the outermost frame of Python's own threads is Python's."""
    started_by_python = (each for each in threading.enumerate() if not isinstance(each, threading._DummyThread))
    return threading.get_ident() not in {each.ident for each in started_by_python}


class _Graph(NamedTuple):
    """A compiled graph, as `RunGraph` has it; records have no hash."""

    frame: str
    graph: str
    number: int


class _Notes:
    """What was sent and what ran, while the program runs."""

    def __init__(self) -> None:
        self.rows: list[EagerCollective] = []
        self.runs: list[int] = []
        self.graphs: dict[_Graph, int] = {}
        self.order: list[int] = []
        self.left_out = 0
        self._numbers: dict[tuple[object, ...], int] = {}  # of each row, by its values and the address of DDP's bucket
        self._graph_by_id: dict[int, _Graph] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._running = threading.local()
        self._ddp = _Buckets()

    def compiled(self, code: Any, frame: str, graph: str) -> None:
        """Note which graph a callable of Inductor's is."""
        number = self._counts[frame, graph] = self._counts.get((frame, graph), -1) + 1
        self._graph_by_id[id(code)] = _Graph(frame, graph, number)

    @contextmanager
    def running(self, code: Any) -> Iterator[None]:
        """Note that a compiled graph runs inside the block."""
        graph = self._graph_by_id.get(id(code))
        if graph is not None:
            self.began(graph)
        depth = getattr(self._running, "depth", 0)
        self._running.depth = depth + 1
        try:
            yield
        finally:
            self._running.depth = depth

    def began(self, graph: _Graph) -> None:
        """Note that a graph begins to run."""
        self._step(-1 - self.graphs.setdefault(graph, len(self.graphs)))
        if graph.graph != "backward":
            self._ddp.settle()

    def sent(self, operator: str, arguments: Sequence[Any], frame: FrameType | None) -> None:
        """Note a collective, unless a compiled graph sends it."""
        if _by_a_graph(frame, inside=getattr(self._running, "depth", 0) > 0):
            return
        row, buffer = _row(operator, arguments, frame)
        key = (*row.values(), buffer)
        number = self._numbers.get(key)
        if number is None:
            if len(self.rows) >= MAX_ROWS:
                self.left_out += 1
                return
            number = self._numbers[key] = len(self.rows)
            self.rows.append(row)
            self.runs.append(0)
        self.runs[number] += 1
        self._step(number)
        if buffer:
            self._ddp.reduced(number, row.bytes)

    def _step(self, step: int) -> None:
        self.order.append(step)
        if len(self.order) > 2 * MAX_STEPS:
            del self.order[:MAX_STEPS]

    def facts(self) -> EagerCollectives:
        """All of it."""
        self._ddp.settle()
        rows = []
        for number, row in enumerate(self.rows):
            bucket, parameters = self._ddp.contents.get(number, (None, row.parameters))
            rows.append(changed(row, bucket=bucket, parameters=parameters, runs=self.runs[number]))
        graphs = tuple(RunGraph(**graph._asdict()) for graph in self.graphs)
        return EagerCollectives(rows=tuple(rows), graphs=graphs, order=tuple(self.order[-MAX_STEPS:]), left_out=self.left_out)


# One call ----------------------------------------------------------------------------------------------------------------


def _by_a_graph(frame: FrameType | None, *, inside: bool) -> bool:
    """Whether a graph sends this: compiled, its operator asks the process group without more Python; else FX runs it."""
    if inside:
        return frame is None or not in_package(frame.f_code.co_filename).startswith("torch/distributed/")
    files = (each.f_code.co_filename for each in _frames(frame))
    return any(file.startswith("<eval_with_key>") or in_package(file) == INTERPRETER for file in files)


def _row(operator: str, arguments: Sequence[Any], frame: FrameType | None) -> tuple[EagerCollective, int]:
    """Describe a collective that is sent, and give the address of DDP's bucket, 0 for all others."""
    import torch

    given = arguments[1] if operator.startswith(GIVEN_SECOND) else arguments[0]
    got = list(_tensors(arguments[0]))
    tensors = list(_tensors(given))
    group = next((argument for argument in arguments if isinstance(argument, torch.ScriptObject)), None)
    name, ranks = _group_of(group)
    whole = got if "allgather" in operator else tensors
    frames = list(_frames(frame))
    files = [in_package(each.f_code.co_filename) for each in frames]
    sender, owner, hook, prefetched = PYTHON, None, "", False
    place = _place_in_program([each.f_code.co_filename for each in frames])
    if any(file.startswith(OF_FSDP2) for file in files[:place]):
        inside = [each for each, file in zip(frames, files, strict=True) if file == PARAM_GROUP]
        functions = [each.f_code.co_name for each in inside]
        sender, owner, prefetched = FSDP2, _param_group(inside), "_prefetch_unshard" in functions
        hook = next((name for name in reversed(functions) if name in HOOKS), functions[0] if functions else "")
    elif OF_DDP in files[:place]:
        sender = DDP
    by_engine = not files or files[0] == ENGINE
    reduced = by_engine and operator == "allreduce_" and len(tensors) == 1 and _is_loaded("torch.nn.parallel.distributed")
    if reduced:
        sender = DDP
    at = frames[place] if place is not None else None
    row = EagerCollective(
        operator=OPERATORS[operator],
        call=f"c10d.{operator}",
        group=name,
        ranks=ranks,
        dtype=str(tensors[0].dtype).removeprefix("torch.") if tensors else "",
        shape=tuple(tensors[0].shape) if tensors else (),
        bytes=sum(tensor.numel() * tensor.element_size() for tensor in whole),
        sender=sender,
        bucket=None,
        parameters=_parameters(owner),
        module=getattr(owner, "_module_fqn", None) or "",
        hook=hook,
        prefetched=prefetched,
        file=at.f_code.co_filename if at else "",
        line=at.f_lineno if at else 0,
        code=linecache.getline(at.f_code.co_filename, at.f_lineno).strip() if at else "",
        runs=0,
    )
    return row, tensors[0].data_ptr() if reduced else 0


#: Functions of FSDP2's parameter group that begin what its hooks do.
HOOKS = ("pre_forward", "post_forward", "pre_backward", "post_backward", "finalize_backward")


def _tensors(argument: Any) -> Iterator[Any]:
    """The tensors of an argument, which may be a list of lists."""
    if isinstance(argument, (list, tuple)):
        for each in argument:
            yield from _tensors(each)
    elif argument is not None:
        yield argument


def _group_of(boxed: Any) -> tuple[str, tuple[int, ...]]:
    """The name of a process group, and its ranks."""
    from torch import distributed

    if boxed is None:
        return "", ()
    group = distributed.ProcessGroup.unbox(boxed)
    return str(group.group_name), tuple(distributed.get_process_group_ranks(group))


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _place_in_program(files: Sequence[str]) -> int | None:
    """Where the innermost file of the program is, outside of installed packages if it has one there; None where none is."""
    own = [n for n, file in enumerate(files) if not (in_package(file) or file.startswith((OWN_FOLDER, "<")))]
    return next((n for n in own if "-packages" not in files[n]), own[0] if own else None)


def _is_loaded(module: str) -> bool:
    return module in sys.modules


def _param_group(frames: Iterable[FrameType]) -> Any:
    """FSDP2's parameter group whose method is the innermost of these frames."""
    methods = (frame.f_locals.get("self") for frame in frames if frame.f_code.co_argcount)
    return next((group for group in methods if type(group).__name__ == "FSDPParamGroup"), None)


def _parameters(group: Any) -> tuple[str, ...]:
    """The parameters of a parameter group, by their paths."""
    names = [getattr(parameter, "_param_fqn", None) for parameter in getattr(group, "fsdp_params", ())]
    return tuple(name for name in names if name)


# DDP's buckets -------------------------------------------------------------------------------------------------------------


class _Buckets:
    """Which parameters are in the buckets that DDP reduces: `contents` has number and parameters of a bucket by its row.

    The reducer gathers all parameters in one bucket in its first iteration, and makes the buckets anew for the second. It tells
    the order of the parameters one iteration later. It must not be asked while it reduces, for it holds its lock then.
    """

    def __init__(self) -> None:
        self.contents: dict[int, tuple[int, tuple[str, ...]]] = {}
        self._unsettled: dict[int, int] = {}
        self._models: list[weakref.ref[Any]] | None = None

    def reduced(self, number: int, bytes: int) -> None:
        """Note that a bucket of that many bytes was reduced."""
        if number not in self.contents:
            self._unsettled[number] = bytes
        if self._models is None:
            from torch.nn.parallel import DistributedDataParallel

            self._models = [weakref.ref(model) for model in living_modules((DistributedDataParallel,))]

    def settle(self) -> None:
        """Name the parameters of the buckets that are not known yet, where their sizes fit exactly.

        The reducer does not know its module. Where the sizes fit several models, all have to give the same names.
        """
        models = [model for reference in self._models or () if (model := reference()) is not None] if self._unsettled else []
        answers = [_contents(model, self._unsettled) for model in models]
        for number in list(self._unsettled):
            names = {answer[number] for answer in answers if number in answer}
            if len(names) == 1:
                self.contents[number] = names.pop()
                del self._unsettled[number]


def _contents(model: Any, sizes: Mapping[int, int]) -> dict[int, tuple[int, tuple[str, ...]]]:
    """The number and the parameters of each bucket by its row, if buckets of these bytes can be the model's."""
    parameters = [
        (name, parameter.numel() * parameter.element_size())
        for name, parameter in model.module.named_parameters()
        if parameter.requires_grad and name not in model.parameters_to_ignore
    ]
    whole = sum(size for _, size in parameters)
    found = {number: (0, tuple(name for name, _ in parameters)) for number, size in sizes.items() if size == whole}
    left = {number: size for number, size in sizes.items() if number not in found}
    order = _order_of_parameters(model._get_ddp_logging_data())
    if sorted(order) == list(range(len(parameters))):
        buckets = in_buckets([parameters[index] for index in order], list(left.values()))
        found |= zip(left, enumerate(buckets), strict=False)
    return found


def _order_of_parameters(logged: Mapping[str, Any]) -> list[int]:
    """The places of the parameters in the order of DDP's buckets, as its logging data has it; [] if it is not there yet."""
    said = logged.get("rebuilt_per_bucket_param_indices") or logged.get("prev_iteration_grad_ready_order_indices") or ""
    return [int(place) for place in str(said).replace(",", " ").split()]


def in_buckets(parameters: Sequence[tuple[str, int]], sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """Split parameters with their bytes into buckets of these sizes, in order; [] where they do not fit exactly."""
    ends = list(accumulate((size for _, size in parameters), initial=0))
    cuts = list(accumulate(sizes, initial=0))
    if cuts[-1] != ends[-1] or any(cut not in ends for cut in cuts):
        return []
    places = [ends.index(cut) for cut in cuts]
    return [tuple(name for name, _ in parameters[first:last]) for first, last in pairwise(places)]


def living_modules(kinds: tuple[type, ...]) -> list[Any]:
    """Every module of these classes, as the collector knows them: no list of torch's has them.

    One that explorer compiles under another class shares its `__dict__` with the program's, which was there before it.
    """
    modules: dict[int, Any] = {}
    for each in gc.get_objects():
        if issubclass(type(each), kinds):
            modules.setdefault(id(vars(each)), each)
    return list(modules.values())


__all__ = ["eager_collectives", "living_modules"]
