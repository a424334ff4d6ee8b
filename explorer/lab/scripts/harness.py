"""What every script needs to run by itself: inputs, a judge and a clock. Its text is copied into scripts, and not run here.

A script imports what the text uses: math, statistics, time, Any, Callable and torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import math
    import statistics
    import time
    from collections.abc import Callable

    import torch

# ---- inputs -----------------------------------------------------------------------------------------------------------


def narrow(dtype: Any) -> bool:
    """Whether a dtype is one of the floats that are computed in float64 to judge by."""
    return dtype in (torch.float16, torch.bfloat16, torch.float32)


def filled(nbytes: int, dtype: Any, device: str, mean: float, std: float, low: float, high: float) -> Any:
    """Make a storage of random numbers: normal ones between `low` and `high`; for integers any number of these."""
    count = nbytes // dtype.itemsize
    generator = torch.Generator().manual_seed(0)
    if dtype.is_complex:
        values = torch.view_as_complex(torch.randn(count, 2, generator=generator) * std + mean)
    elif dtype.is_floating_point:
        values = torch.randn(count, generator=generator).mul(std).add(mean).clamp(low, high)
    else:
        values = torch.randint(int(low), int(high) + 1, (count,), generator=generator)
    return values.to(dtype).to(device).untyped_storage()


def view(storage: Any, dtype: Any, shape: Any, stride: Any, offset: int) -> Any:
    """Make a tensor on a storage, which other tensors may have too."""
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, stride)


def copies(values: Any, devices: Any = None, wide: bool = False) -> list[Any]:
    """Copy the tensors of a list, to other devices where these are given; `wide` has floats in 64 bits.

    Tensors that share memory do so in the copies too.
    """
    storages: dict[Any, Any] = {}
    copied = []
    for number, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            device = devices[number] if devices else value.device
            dtype = torch.float64 if wide and narrow(value.dtype) else value.dtype
            key = (storage.data_ptr(), storage.nbytes(), str(device), dtype)
            if key not in storages:
                kind = value.dtype if dtype != value.dtype else torch.uint8
                whole = view(storage, kind, (storage.nbytes() // kind.itemsize,), (1,), 0)
                storages[key] = whole.to(device, dtype if dtype != value.dtype else kind, copy=True).untyped_storage()
            value = view(storages[key], dtype, value.shape, value.stride(), value.storage_offset())
        copied.append(value)
    return copied


def restored(values: Any, before: Any) -> None:
    """Give tensors the numbers that they had before."""
    for value, old in zip(values, before, strict=True):
        if isinstance(value, torch.Tensor):
            whole, whole_old = (torch.empty(0, dtype=torch.uint8, device=value.device) for _ in range(2))
            whole.set_(value.untyped_storage()).copy_(whole_old.set_(old.untyped_storage()))


# ---- check ------------------------------------------------------------------------------------------------------------


def in_float64(function: Callable[..., Any], args: Any) -> Any:
    """Call a function of ATen operators in float64. Returns (its result, the arguments after it), None if that fails."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    class Float64(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args, kwargs = tree_map(
                lambda v: torch.float64 if isinstance(v, torch.dtype) and narrow(v) else v, (args, kwargs or {})
            )
            return operator(*args, **kwargs)

    wide = copies(args, wide=True)
    try:
        with Float64():
            return function(wide), wide
    except (RuntimeError, NotImplementedError):
        return None


def compared(name: str, given: Any, right: Any, exact: Any = None) -> bool:
    """Print how far a tensor is from the right one, and tell whether it is as near as rounding allows.

    `exact` is the right one as computed in float64: then the tensor may be off by what the right one is off, times a few.
    """
    if given.shape != right.shape or given.dtype != right.dtype:
        print(f"{name}: WRONG: {given.dtype} {list(given.shape)}, not {right.dtype} {list(right.shape)}")
        return False
    if not right.numel():
        print(f"{name}: right, it has no element")
        return True
    off, words = elements_off(given, right, exact)
    wrong = int(off.sum())
    print(f"{name}: {f'WRONG at {wrong} of {right.numel()} elements' if wrong else 'right'}, {words}")
    return not wrong


def elements_off(given: Any, right: Any, exact: Any) -> tuple[Any, str]:
    """Return a mask of the elements that differ by more than rounding allows, and a text on the comparison."""
    if right.is_floating_point() or right.is_complex():
        return differing(given, right, exact)
    off = given != right
    if exact is None:
        return off, "exactly"
    return off & (given != exact), "exactly, or as in float64 where eager rounds otherwise"


def differing(given: Any, right: Any, exact: Any) -> tuple[Any, str]:
    """Tell for each element of a float tensor whether it is off by more than rounding, and say how far the worst is off."""
    kind = torch.complex128 if right.is_complex() else torch.float64
    eps, small = torch.finfo(right.dtype).eps, right.dtype.itemsize < (8 if right.is_complex() else 4)
    one, other = right.to(kind), given.to(kind)
    alike = (one == other) | (one.isnan() & other.isnan())

    def apart(x: Any, y: Any) -> Any:
        return (x - y).abs().masked_fill(alike, 0.0).nan_to_num(nan=math.inf)

    def mean(x: Any) -> float:
        return float(x.masked_fill(~x.isfinite(), 0.0).square().mean().sqrt())

    off = apart(other, one)
    size = one.abs().masked_fill(~one.abs().isfinite(), 0.0)
    if exact is None:
        each, every = (1e-9, 1e-10) if eps < 1e-12 else (8 * eps, 8 * eps) if small else (1e-3, 1e-4)
        wrong = off > each * size + every * mean(size)
        return wrong, f"the largest difference is {float(off.max()):.3g}, beside a mean size of {mean(size):.3g}"
    of_right = (one - exact.to(kind)).abs()
    of_right = of_right.masked_fill(~of_right.isfinite(), 0.0)
    off = torch.minimum(off, apart(other, exact.to(kind)))
    allowed = 8 * float(of_right.max()) + (2 if small else 32) * eps * size + eps * mean(size)
    wrong = off > allowed
    if not wrong.any() and mean(off) > 4 * mean(of_right) + (1 if small else 16) * eps * mean(size):
        wrong = torch.ones_like(wrong)
    return wrong, f"off by {float(off.max()):.3g} at most, eager by {float(of_right.max()):.3g} from float64"


# ---- clock ------------------------------------------------------------------------------------------------------------


def timed(run: Callable[[], Any], reset: Callable[[], Any], device: str) -> list[float]:
    """Time calls, each after a reset that is not timed: seconds, from the shortest to the longest."""
    return sorted(on_cpu(run, reset) if device == "cpu" else on_gpu(run, reset, torch.get_device_module(device)))


def on_cpu(run: Callable[[], Any], reset: Callable[[], Any], most: float = 0.5) -> list[float]:
    """Time calls by the clock for about half a second; the caches are as the reset leaves them."""
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(seconds) < 5 or (time.perf_counter() - begin < most and len(seconds) < 1000):
        reset()
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds[len(seconds) // 10 :]


def on_gpu(run: Callable[[], Any], reset: Callable[[], Any], gpu: Any, most: float = 0.5) -> list[float]:
    """Time calls by events of the GPU, each with a cold cache: 256 MB are written before it."""
    flush = torch.empty(256 << 20, dtype=torch.int8, device=gpu.current_device())
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(seconds) < 10 or (time.perf_counter() - begin < most and len(seconds) < 1000):
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        reset()
        flush.zero_()
        start.record()
        run()
        end.record()
        gpu.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3)
    return seconds[len(seconds) // 10 :]


def in_words(seconds: list[float]) -> str:
    """The median of sorted times, and from where to where most of them lie."""
    low, high = seconds[len(seconds) // 10], seconds[-1 - len(seconds) // 10]
    scale, unit = (1e6, "µs") if seconds[0] < 1e-3 else (1e3, "ms")
    median = statistics.median(seconds)
    return f"{median * scale:.4g} {unit}, the median of {len(seconds)} (most from {low * scale:.4g} to {high * scale:.4g})"


def sizes(values: Any) -> int:
    """The bytes of the tensors among some values, each element of a view once."""
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    return sum(min(t.numel() * t.element_size(), t.untyped_storage().nbytes()) for t in tensors)


# ---- one kernel -------------------------------------------------------------------------------------------------------


def changed(before: Any, after: Any) -> list[int]:
    """List the positions of the tensors in which any bit differs."""

    def raw(tensor: Any) -> Any:
        return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.contiguous().untyped_storage())

    pairs = [(n, b, a) for n, (b, a) in enumerate(zip(before, after, strict=True)) if isinstance(b, torch.Tensor)]
    return [n for n, b, a in pairs if not torch.equal(raw(b.clone()), raw(a.clone()))]


def run_kernel(
    launch: Callable[..., Any],
    names: Any,
    args: Any,
    device: str,
    recorded: Any = None,
    eager: Any = None,
    scratch: Any = (),
) -> int:
    """Launch a kernel once, check the values it wrote, and time it. Returns the exit status of the script.

    `recorded` maps positions to the arguments' values after the recorded launch. `eager` computes the expected values from the
    arguments. The positions in `scratch` hold the kernel's own memory, which is not compared.
    """
    before = copies(args)
    launch(*args)
    after, right, compares = copies(args), True, False
    wrote = changed(before, after)
    print(f"writes {', '.join(names[n] for n in sorted({*wrote, *(recorded or {})})) or 'nothing'}")
    for number, value in (recorded or {}).items():
        if number not in scratch:
            compares = True
            right &= compared(f"{names[number]} beside the recorded result", after[number], value.to(after[number].device))
    shared = {after[n].untyped_storage().data_ptr() for n in (recorded or {})}
    for number in wrote:
        if recorded is not None and number not in recorded and after[number].untyped_storage().data_ptr() not in shared:
            right = False
            print(f"{names[number]}: WRONG: it is changed, and was not at the recorded launch")
    if eager is not None:
        exact = in_float64(eager, before)
        for number, value in eager(copies(before)).items():
            compares = True
            given = after[number]
            if given.shape != value.shape:
                given = given.as_strided(value.shape, value.stride(), given.storage_offset())
            of_exact = exact[0][number] if exact else None
            right &= compared(f"{names[number]} beside eager", given, value, of_exact)
    if not compares:
        print("nothing is checked: the inputs are random, and what eager computes in place of the kernel is not known")
    seconds = timed(lambda: launch(*args), lambda: restored(args, before), device)
    nbytes = sizes(args)
    print(f"time: {in_words(seconds)}, {'warm' if device == 'cpu' else 'cold'} cache; ", end="")
    rate = nbytes / statistics.median(seconds) / 1e9
    print(f"its arguments have {nbytes / 1e6:.3g} MB, {rate:.3g} GB/s if each byte moves once")
    return 0 if right else 1


# ---- a launch that is off ---------------------------------------------------------------------------------------------


def stored(nbytes: int, dtype: Any, device: str, elements: Any) -> Any:
    """Make a storage of zeros with some elements, by their places."""
    values = torch.zeros(nbytes // dtype.itemsize, dtype=dtype)
    for place, value in elements.items():
        values[place] = value
    return values.to(device).untyped_storage()


def run_fault(launch: Callable[..., Any], args: Any, outputs: Any, inputs_of: Callable[..., Any], eager: Any) -> int:
    """Launch kernels once, and compare their outputs with the eager nodes. Returns the exit status of the script.

    `outputs` are (name, function that takes the output from the arguments). `inputs_of` takes the inputs of `eager` from the
    arguments before and after the launch.
    """
    before = copies(args)
    launch(args)
    values = inputs_of(before, args)
    exact, wrong = in_float64(lambda wide: eager(*wide), values), 0
    for number, ((name, of), right) in enumerate(zip(outputs, eager(*copies(values)), strict=True)):
        given, truth = of(args), exact[0][number] if exact else None
        if not compared(f"{name} beside eager", given, right, truth):
            wrong += 1
            if given.shape == right.shape:
                print_elements(given, right, truth)
    if wrong:
        print_inputs(values)
    print("the fault is there" if wrong else "the fault is gone: what the launch writes is what eager computes")
    return 1 if wrong else 0


def print_elements(given: Any, right: Any, exact: Any, most: int = 3) -> None:
    """Print the first elements that are off."""
    off, _ = elements_off(given, right, exact)
    for place in torch.nonzero(off)[:most].tolist():
        at = tuple(place)
        truth = f", in float64 {exact[at].item()!r}" if exact is not None else ""
        print(f"  at {list(at)}: {given[at].item()!r}, of eager {right[at].item()!r}{truth}")


def print_inputs(values: Any, most: int = 8) -> None:
    """Print the elements of the inputs that are not zero, where they are few."""
    for number, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            places = torch.nonzero(value).tolist() if value.numel() else []
            few = ", ".join(f"{value[tuple(place)].item()!r} at {place}" for place in places[:most])
            more = f" and {len(places) - most} more" if len(places) > most else ""
            kind = f"{str(value.dtype)[6:]}{list(value.shape)}"
            print(f"  input {number}, {kind}, is 0{f' but for {few}{more}' if places else ''}")


# ---- the output code of a graph ---------------------------------------------------------------------------------------


def instantiated(module: Any, attributes: Any) -> Any:
    """Make a graph's module, with the graphs inside it and its constants."""
    inner = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    for name in inner:
        delattr(module, name)
    made = module()
    for name, value in {**{n: instantiated(v, attributes) for n, v in inner.items()}, **attributes}.items():
        setattr(made, name, value)
    return made


def tensors(values: Any) -> dict[int, Any]:
    """The tensors of a list by their positions."""
    return {n: value for n, value in enumerate(values) if isinstance(value, torch.Tensor)}


def agree(what: str, given: Any, right: Any, exact: Any = None) -> bool:
    """Compare outputs and arguments after a call, each a pair of lists, with the right ones."""
    fine = True
    for kind, here, there, truth in zip(("output", "changed argument"), given, right, exact or (None, None), strict=True):
        for number, value in tensors(there).items():
            of_truth = tensors(truth).get(number) if truth is not None else None
            fine &= compared(f"  {kind} {number} beside {what}", here[number], value.to(here[number].device), of_truth)
    return fine


def outcome(call: Callable[..., Any], args: Any) -> Any:
    """What a call returns, and the arguments that it changed, on copies of the arguments; others are None."""
    held = copies(args)
    with torch.no_grad():
        torch.manual_seed(0)
        returned = list(call(list(held)))
    after = set(changed(args, held))
    return returned, [value if number in after else None for number, value in enumerate(held)]


def run_graph(
    name: str, call: Callable[..., Any], args: Any, device: str, recorded: Any, eager: Any, draws: bool, anew: bool
) -> tuple[bool, float, float]:
    """Run a graph's output code once, check it, and time it and eager. Returns whether it is right, and both times in seconds.

    `eager` is the graph as a module, None if it is not known. A graph that `draws` random numbers is not compared. With
    `anew`, this torch compiles the graph too, and its result is compared and timed in the same way.
    """
    print(f"{name}:")
    given, right, seconds = outcome(call, args), True, [math.nan, math.nan]
    if draws:
        print("  it draws random numbers, so no result is compared")
    elif recorded is not None:
        right &= agree("the recorded result", given, recorded)
    calls = {"compiled": call}
    if eager is not None:
        calls["eager"] = lambda values: eager(*values)
        if anew:
            again = torch.compile(eager)
            calls["compiled anew"] = lambda values: again(*values)
    if eager is not None and not draws:
        want = outcome(calls["eager"], args)
        exact = in_float64(calls["eager"], args)
        right &= agree("eager", given, want, exact)
        if anew:
            print("  compiled anew:")
            right &= agree("eager", outcome(calls["compiled anew"], args), want, exact)
    for number, (what, function) in enumerate(calls.items()):
        times = time_of(function, args, device, any(value is not None for value in given[1]))
        print(f"  {what}: {in_words(times)}")
        if number < len(seconds):
            seconds[number] = statistics.median(times)
    if eager is None and recorded is None:
        print("  nothing is checked: the inputs are random, and the graph cannot be written as Python")
    return right, seconds[0], seconds[1]


def time_of(function: Callable[..., Any], args: Any, device: str, changes: bool) -> list[float]:
    """Time calls of a graph on copies of its arguments, which are put back before each where it `changes` them."""
    held = copies(args)

    def run() -> None:
        with torch.no_grad():
            function(list(held))

    return timed(run, lambda: restored(held, args) if changes else None, device)
