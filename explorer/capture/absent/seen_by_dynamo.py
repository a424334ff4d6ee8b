"""Show a program the absent GPU while Dynamo traces it with tensors on the CPU.

Models branch on where a tensor is: a mixture of experts takes a grouped product on a GPU, and counts tokens in integers. So
`x.device`, `x.is_cuda` and the like answer for the GPU, unless the program put that tensor on the CPU itself, and what the
program makes on the GPU or moves there (`device="cuda"`, `.to("cuda")`, `.cuda()`) stands in Dynamo's graph as on the CPU: that
is the device which the graph is moved from afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from explorer.capture.absent.composites import composites_off_the_cpu
from explorer.capture.absent.disabled_functions import disabled_functions
from explorer.capture.absent.random_draws import draws_random_numbers
from explorer.capture.absent.torch_cuda import torch_cuda_answers
from explorer.capture.observe.patch import added_in_plain_sight, guard_here, guarded, guarding, replaced
from explorer.capture.observe.versions import tensor_methods_of_dynamo

if TYPE_CHECKING:
    from explorer.reference.gpus.figures import Target

#: The methods with which Dynamo answers about a tensor's device; not every torch has all of them.
ANSWERS = ("method_attr_device", "method_attr_is_cuda", "method_get_device", "method_type")
#: The attribute of Dynamo's tracer that holds the nodes whose tensors the program put on the CPU.
ON_CPU = "explorer_on_cpu"
#: Whether the rules for fake tensors see each tensor's real device, as while a graph is compiled.
_AS_THEY_ARE: ContextVar[bool] = ContextVar("explorer devices as they are", default=False)


@contextmanager
def seen_by_dynamo(target: Target, drawn: Callable[[], None]) -> Iterator[None]:
    """Show the target to a program that Dynamo traces on the CPU.

    `drawn` is called for each draw of random numbers on the target.
    """
    import torch
    from torch import _meta_registrations as rules
    from torch._dynamo.output_graph import SubgraphTracer

    gpu = torch.device(target.device, 0)

    def make_answer(original: Callable[..., Any]) -> Callable[..., Any]:
        def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
            own = self.device
            if own is None or own.type != "cpu" or _put_on_cpu(self.as_proxy()):
                return original(self, *args, **kwargs)
            self.device = gpu
            try:
                return original(self, *args, **kwargs)
            finally:
                self.device = own

        return answer

    def make_proxy(original: Callable[..., Any]) -> Callable[..., Any]:
        def create_proxy(self: Any, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **options: Any) -> Any:
            on_cpu = kind in ("call_function", "call_method") and _makes_on_cpu(target, args, kwargs)
            if _is_on(gpu.type, kwargs.get("device")) and draws_random_numbers(getattr(target, "__name__", "")):
                drawn()
            target, args, kwargs = _from_gpu(kind, target, args, kwargs, gpu.type)
            made = original(self, kind, target, args, kwargs, *rest, **options)
            if on_cpu:
                vars(self).setdefault(ON_CPU, set()).add(made.node)
            return made

        return create_proxy

    def make_hint(original: Callable[..., Any]) -> Callable[..., Any]:
        def device_hint(*args: Any, **kwargs: Any) -> str:
            device = str(original(*args, **kwargs))
            return gpu.type if device == "cpu" and not _AS_THEY_ARE.get() else device

        return device_hint

    with ExitStack() as stack:
        stack.enter_context(torch_cuda_answers(target))
        stack.enter_context(composites_off_the_cpu())
        for owner, name in tensor_methods_of_dynamo(ANSWERS):
            stack.enter_context(replaced(owner, name, make_answer))
        stack.enter_context(replaced(SubgraphTracer, "create_proxy", make_proxy))
        stack.enter_context(replaced(rules, "device_hint", make_hint))
        yield


@contextmanager
def seen_as_they_are() -> Iterator[None]:
    """Restore the rules for fake tensors, which must see each tensor's real device while a graph is compiled."""
    before = _AS_THEY_ARE.set(True)
    try:
        yield
    finally:
        _AS_THEY_ARE.reset(before)


def _put_on_cpu(proxy: Any) -> bool:
    """Whether the program put the tensor on the CPU itself."""
    return getattr(proxy, "node", None) in getattr(getattr(proxy, "tracer", None), ON_CPU, ())


def _makes_on_cpu(called: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call's result is on the CPU in a program whose inputs are on the GPU."""
    import torch
    from torch.utils import _pytree as pytree

    given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.fx.Proxy)]
    return _stays_on_cpu(called, args, kwargs, [_put_on_cpu(proxy) for proxy in given])


def _stays_on_cpu(called: Any, args: Any, kwargs: Any, given: Sequence[bool]) -> bool:
    """Whether a call's result is on the CPU; `given` says for each tensor argument if the program put it there."""
    import torch

    named = kwargs.get("device", args[1] if called == "to" and len(args) > 1 else None)
    if isinstance(named, torch.device):
        return False  # the CPU as an object is where the program's own inputs are: see `to_gpu`
    if isinstance(named, str):
        return named.partition(":")[0] == "cpu"
    if called in ("cpu", "cuda"):
        return bool(called == "cpu")
    return all(given)


def _from_gpu(kind: str, called: Any, args: Any, kwargs: Any, gpu: str) -> tuple[Any, Any, Any]:
    """Replace the GPU by the CPU, as a torch.device, in a call's arguments."""
    import torch
    from torch.utils import _pytree as pytree

    if kind not in ("call_function", "call_method") or str(getattr(called, "__module__", "")).startswith("torch.cuda"):
        return called, args, kwargs  # a question about the GPU
    here = torch.device("cpu")

    def moved(value: Any) -> Any:
        return here if isinstance(value, torch.device) and value.type == gpu and not value.index else value

    args, kwargs = pytree.tree_map(moved, (args, kwargs))
    if kind == "call_method" and called == gpu:
        return "to", (args[0], here), {name: value for name, value in kwargs.items() if name != "device"}
    if kind == "call_method" and called == "to" and len(args) > 1 and _names(args[1], gpu):
        args = (args[0], here, *args[2:])
    if kind == "call_method" and called == "type" and len(args) > 1 and isinstance(args[1], str):
        args = (args[0], args[1].replace(f"torch.{gpu}.", "torch."), *args[2:])
    if _names(kwargs.get("device"), gpu):
        kwargs = {**kwargs, "device": here}
    return called, args, kwargs


def _is_on(device: str, named: Any) -> bool:
    """Whether a `device` argument, a text or a torch.device, names a device of this type."""
    kind = getattr(named, "type", named)
    return isinstance(kind, str) and kind.partition(":")[0] == device


def _names(value: Any, gpu: str) -> bool:
    """Whether a text names the absent GPU, which is the only one."""
    return isinstance(value, str) and value in (gpu, f"{gpu}:0")


# Eager mode ----------------------------------------------------------------------------------------------------------


def seeing(function: Callable[..., Any], target: Target) -> Callable[..., Any]:
    """Wrap a function so that it sees the target when it runs in eager mode on the CPU."""
    import functools

    import torch

    @functools.wraps(function, assigned=(), updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        with _eager_mode(target.device), replaced(torch, "compile", _compiles_without_mode):
            return function(*args, **kwargs)

    return called


def _compiles_without_mode(original: Callable[..., Any]) -> Callable[..., Any]:
    """Call torch.compile outside of the mode, as flex_attention does in eager: Dynamo would trace the mode."""
    import functools

    from torch.overrides import _pop_mode_temporarily

    def compile(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if not args and kwargs.get("model") is None:
            return made  # a decorator

        @functools.wraps(made, assigned=(), updated=())
        def compiled(*args: Any, **kwargs: Any) -> Any:
            with _pop_mode_temporarily():
                return made(*args, **kwargs)

        return compiled

    return compile


@contextmanager
def seen_in_eager_mode(target: Target, drawn: Callable[[], None]) -> Iterator[None]:
    """Let this thread's program create tensors on the target; they are on the CPU, and report the GPU.

    Once the program has put a tensor on the GPU, its earlier tensors and those from compiled code or autograd report the GPU
    too. Inside compiled functions Dynamo answers. A function under `torch.compiler.disable` that they call is in eager mode
    again; other code that they run in eager mode does not see the GPU. `drawn` is called when the program first draws random
    numbers on the target.
    """
    import torch
    from torch._dynamo.eval_frame import _TorchDynamoContext

    if getattr(torch, target.device).is_available():  # the program's tensors are on this machine's own
        yield
        return

    hidden = HiddenModes()
    with hooked(_TorchDynamoContext, "enter_exit_hooks", hidden.hook()):
        with _eager_mode(target.device, used=False, drawn=drawn), disabled_functions(hidden.show):
            yield


@contextmanager
def hooked(owner: type, name: str, hook: Callable[[], Any]) -> Iterator[None]:
    """Put `hook` first in each object's list of hooks of that name, when the list is next read; take it out after the block."""
    lists: list[list[Any]] = []

    def with_hook(holder: Any) -> Any:
        hooks = vars(holder)[name]
        if hook not in hooks:
            hooks.insert(0, hook)
            lists.append(hooks)
        return hooks

    def put(holder: Any, hooks: Any) -> None:
        vars(holder)[name] = hooks

    read = guarded(lambda holder: vars(holder)[name], lambda _: with_hook, name)
    write = guarded(lambda holder, hooks: holder.__dict__.update({name: hooks}), lambda _: put, name)
    try:
        with added_in_plain_sight(owner, name, property(read, write)):
            yield
    finally:
        for hooks in lists:
            hooks.remove(hook)


class HiddenModes:
    """The modes that see the GPU and that a compiled function under way has taken off its thread's stack.

    Each is on one thread's stack, and that thread alone takes it off and puts it back.
    """

    def __init__(self) -> None:
        self._taken: list[_Placed] = []
        self._guard = guard_here()

    def hook(self) -> Callable[[], Callable[[], None]]:
        """`hide` for Dynamo, which calls it in the program's own calls: where it fails, they go on."""
        return guarded(lambda: lambda: None, lambda _: self.hide, "SeesTheGPU")

    def hide(self) -> Callable[[], None]:
        """Take the mode off, and return a function that restores it, as one of Dynamo's hooks does."""
        taken = _mode_off()
        if taken:
            self._taken.append(taken)

        def put_back() -> None:
            if taken:
                self._taken.remove(taken)
                _mode_on(taken)

        with guarding(self._guard):
            return guarded(lambda: None, lambda _: put_back, "SeesTheGPU")

    def show(self) -> Callable[[], None] | None:
        """Restore the mode that is off, and return a function that takes it off again; None where none is off."""
        if not self._taken or seen_here():
            return None
        _mode_on(self._taken[-1])

        def take_off() -> None:
            _mode_off()

        return take_off


def seen_here() -> bool:
    """Whether this thread's program sees the GPU now."""
    from torch.overrides import _get_current_function_mode_stack as stack

    return any(getattr(mode, "sees_the_gpu", False) for mode in stack())


@contextmanager
def not_seen_in_eager_mode() -> Iterator[None]:
    """Show this thread the tensors' real devices inside the block, for code that is not the user's."""
    taken = _mode_off()
    try:
        yield
    finally:
        _mode_on(taken)


#: Modes that see the GPU, each with its place in its thread's stack.
_Placed = list[tuple[int, Any]]


def _mode_off() -> _Placed:
    """Take the modes that see the GPU off this thread's stack, and return them."""
    from torch.overrides import _get_current_function_mode_stack as stack

    taken = [(place, mode) for place, mode in enumerate(stack()) if getattr(mode, "sees_the_gpu", False)]
    if taken:
        _become([mode for mode in stack() if not getattr(mode, "sees_the_gpu", False)])
    return taken


def _mode_on(taken: _Placed) -> None:
    """Put modes back where they were in this thread's stack."""
    from torch.overrides import _get_current_function_mode_stack as stack

    modes = stack()
    for place, mode in taken:
        modes.insert(place, mode)
    if taken:
        _become(modes)


def _become(modes: list[Any]) -> None:
    """Make the modes this thread's stack."""
    from torch.overrides import _get_current_function_mode_stack as stack
    from torch.overrides import _pop_mode, _push_mode

    for _ in stack():
        _pop_mode()
    for mode in modes:
        _push_mode(mode)


def _moves_to(where: str, method: str, args: Any, kwargs: Any) -> bool:
    """Whether a call moves its result to the device `where`."""
    named = kwargs.get("device", args[1] if method == "to" and len(args) > 1 else None)
    named = getattr(named, "type", named)
    return method == where or (isinstance(named, str) and named.partition(":")[0] == where)


class _Marks:
    """The storages that the program itself put on the CPU; views share their tensor's storage."""

    def __init__(self) -> None:
        from torch.utils.weak import WeakIdKeyDictionary

        self._on_cpu = WeakIdKeyDictionary()

    def on_cpu(self, tensor: Any) -> bool:
        """Whether the tensor was put on the CPU."""
        return self._key(tensor) in self._on_cpu

    def put(self, tensor: Any) -> None:
        """Note that the program put the tensor on the CPU."""
        self._on_cpu[self._key(tensor)] = True

    def _key(self, tensor: Any) -> Any:
        try:
            return tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a sparse tensor has none
            return tensor


def _eager_mode(gpu: str, used: bool = True, drawn: Callable[[], None] | None = None) -> Any:
    """A torch-function mode in which tensors on the CPU report the GPU, except those put on the CPU.

    Unless the GPU is `used` from the start, they report it only after the program has created something on it. Where explorer's
    part of a call fails, the call runs as the program wrote it.
    """
    from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

    answers = _Answers(gpu, used, drawn)
    as_written = BaseTorchFunctionMode.__torch_function__

    def make(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda mode, func, types, args=(), kwargs=None: answers.answer(func, args, kwargs or {}, call)

    own = {"sees_the_gpu": True, "__torch_function__": guarded(as_written, make, "SeesTheGPU.__torch_function__")}
    return type("SeesTheGPU", (TorchFunctionMode,), own)()


class _Answers:
    """Answers about tensors' devices, and creates the GPU's tensors on the CPU."""

    def __init__(self, gpu: str, used: bool, drawn: Callable[[], None] | None) -> None:
        import torch
        from torch.utils import _device as default

        self._gpu, self._used, self._begun, self._drawn = gpu, used, used, drawn
        self._marks = _Marks()
        self._constructors = default._device_constructors()
        self._by_question = {
            torch.Tensor.device: torch.device(gpu, 0),
            torch.Tensor.is_cuda: gpu == "cuda",
            torch.Tensor.is_xpu: gpu == "xpu",
            torch.Tensor.is_mps: gpu == "mps",
            torch.Tensor.get_device: 0,
            torch.Tensor.is_cpu: False,
        }

    def answer(self, func: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """Answer a call of a program that sees the GPU; `call(mode, func, types, args, kwargs)` makes the call itself."""
        import torch

        asked = getattr(func, "__self__", None) if getattr(func, "__name__", "") == "__get__" else func
        there = self._used and args and isinstance(args[0], torch.Tensor) and args[0].device.type == "cpu"
        if there and getattr(asked, "__hash__", None) and not self._marks.on_cpu(args[0]):
            if asked in self._by_question:
                return self._by_question[asked]
            if asked is torch.Tensor.type and len(args) == 1 and not kwargs:
                return call(None, func, (), args).replace("torch.", f"torch.{self._gpu}.")
        if func is torch.device:
            return call(None, func, (), args, kwargs)
        return self._call_on_cpu(func, args, kwargs, call)

    def _call_on_cpu(self, func: Any, args: Any, kwargs: Any, call: Callable[..., Any]) -> Any:
        """Make a call on the CPU; mark the result where the program itself puts it there."""
        import torch
        from torch.utils import _pytree as pytree

        name = getattr(func, "__name__", "")
        method = name if func is getattr(torch.Tensor, name, None) else ""
        stays, given = self._where(func, method, args, kwargs)
        self._note_draw(name, stays, kwargs)
        called, args, kwargs = _from_gpu(
            "call_method" if method else "call_function", method or func, args, {**kwargs, **given}, self._gpu
        )
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        if method == "pin_memory":
            return args[0]
        if method in ("to", "cpu", self._gpu) and stays != self._marks.on_cpu(args[0]) and (stays or self._used):
            args = args if called == "to" else (*args[:1], torch.device("cpu"))
            called, kwargs = "to", {**kwargs, "copy": True}  # it is other memory then
        if name == "histc" and not args[0].is_floating_point():
            return func(args[0].double(), *args[1:], **kwargs).to(args[0].dtype)
        made = call(None, getattr(torch.Tensor, called) if method else func, (), args, kwargs)
        if stays:
            for tensor in (leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, torch.Tensor)):
                self._marks.put(tensor)
        return made

    def _where(self, func: Any, method: str, args: Any, kwargs: Any) -> tuple[bool, dict[str, Any]]:
        """Tell whether the program puts a call's result on the CPU, and which device to name if torch's default is the GPU."""
        import torch
        from torch.utils import _device as default
        from torch.utils import _pytree as pytree

        given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        stays = _stays_on_cpu(method, args, kwargs, [self._marks.on_cpu(tensor) for tensor in given])
        if not self._begun:
            stays = stays or _moves_to("cpu", method, args, kwargs)
            self._used = self._used or _moves_to(self._gpu, method, args, kwargs)
        by_default = getattr(default.CURRENT_DEVICE, "type", "") == self._gpu
        if func in self._constructors and kwargs.get("device") is None and by_default:
            self._used = True
            return False, {"device": torch.device("cpu")}
        return stays, {}

    def _note_draw(self, name: str, stays: bool, kwargs: Any) -> None:
        """Report the first draw of random numbers on the GPU. A program may draw in each step, and one row is enough."""
        if self._drawn is None or not self._used or stays or _is_on("cpu", kwargs.get("device")):
            return
        if draws_random_numbers(name):
            self._drawn()
            self._drawn = None
