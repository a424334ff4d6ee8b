"""The judge: decide whether two values are the same, as far as rounding allows.

Floats are judged element by element. The rounding of each operator is varied, and each element of the result varies with
it. An element is right if it is about as near as that to eager's, or to that of the same function in float64. So a sum is
held to the scale of what it adds up, and a product to its own size. What does not vary is exact: whole numbers, booleans,
and where infinity and NaN are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.capture.observe.tensors import has_fractions

#: An element of 32 or 64 bits may be off by this many times its variation: library functions differ by several units.
VARIES = 8.0
#: The same for 16 bits, which are varied by as much as they are rounded.
VARIES_16 = 3.0
#: A value may be off by this many units in the last place, however little it varies: of 32 and 64 bits, and of 16.
UNITS, UNITS_16 = 4.0, 1.0
#: The root mean square of the errors of 16 bits may be this many times that of the varied ones.
MEAN_16 = 1.25
#: That mean is also taken of this many smallest elements, of the next four times as many, and so on.
BAND = 16
#: In that mean no error counts more than this many of its units: the bound of each element is for outliers.
OUTLIER = 4.0
#: An element may be off by this many times the largest of eager's own errors at elements that are not larger.
EAGER = 4.0
#: Where eager is farther from float64 than this many times the bound, eager does not compute what float64 computes.
ELSEWHERE = 64.0


@dataclass(frozen=True)
class Varied:
    """A result whose operators round otherwise, and the result `around` which it varies.

    `native` is True for eager's own operators. Else they are those that Inductor decomposes eager's into: such a result tells
    how much rounding can lose, but eager itself could not give it.
    """

    value: Any
    around: Any
    native: bool = True


@dataclass
class Evidence:
    """What float64 gives for one value, and how the value varies with its rounding."""

    exact: Any = None
    varied: list[Varied] = field(default_factory=list)

    @property
    def possible(self) -> list[Any]:
        """The values that eager could give if it rounded otherwise."""
        return [v.value for v in self.varied if v.native]


@dataclass(frozen=True)
class Judgement:
    """The judgement of a value: whether it is right, the bound, and its errors; `share` is the largest error over its bound."""

    equal: bool
    bound: str
    note: str = ""
    share: float | None = None
    error: float | None = None
    eager_error: float | None = None


def gaps(eager: Any, given: Any) -> tuple[float, float]:
    """Measure the largest difference of two tensors of one shape, and the largest relative one where `eager` is not 0."""
    one, other = _wide(eager), _wide(given)
    if not one.numel():
        return 0.0, 0.0
    if not one.is_floating_point() and not one.is_complex():
        apart = one != other
        gap = (one.double() - other.double()).abs().maximum(apart.double())
        return float(gap.max()), float((gap / one.double().abs().clamp_min(1.0)).max())
    gap = (one - other).abs()
    gap = gap.masked_fill(_alike(one, other), 0.0)
    return float(gap.max()), float((gap / one.abs()).masked_fill(one == 0, 0.0).max())


def zeros_of_other_sign(eager: Any, given: Any) -> int:
    """Count the elements that are 0.0 in one of two tensors of one shape and -0.0 in the other."""
    import torch

    if not has_fractions(eager):
        return 0
    one, other = (torch.view_as_real(t) if t.is_complex() else t for t in (_wide(eager), _wide(given)))
    return int(((one == 0) & (other == 0) & (one.signbit() != other.signbit())).sum())


def exactly(eager: Any, given: Any, evidence: Evidence) -> Judgement:
    """Judge whole numbers and booleans: they are eager's, or float64's, or between those that eager could give.

    A float between two whole numbers may be rounded to one or the other.
    """
    import torch

    wrong = eager != given
    if not bool(wrong.any()):
        return Judgement(True, "exact")
    if evidence.exact is not None:
        wrong = wrong & (given != evidence.exact)
    if evidence.possible:
        possible = torch.stack([eager, *evidence.possible]).long()
        wrong = wrong & ((given.long() < possible.amin(0)) | (given.long() > possible.amax(0)))
    count, of = int(wrong.sum()), wrong.numel()
    if not count:
        return Judgement(True, "exact, but where rounding decides", "some come from floats between two whole numbers")
    return Judgement(False, "exact", f"{count} of {of} are not eager's")


def judged(eager: Any, given: Any, evidence: Evidence) -> Judgement:
    """Judge floats or complex numbers of one shape and type, in strided tensors."""
    import torch

    small = eager.dtype.itemsize < (8 if eager.is_complex() else 4)
    one, other = _wide(eager), _wide(given)
    if not one.numel():
        return Judgement(True, "no element")
    exact = None if evidence.exact is None else _wide(evidence.exact)
    rounded = None if exact is None else _wide(evidence.exact.to(eager.dtype))
    unit = _unit(one, torch.finfo(eager.dtype), small)
    allowed, trusted = _allowed(one, rounded, exact, evidence, unit, small)
    off = _off(one, other, rounded, exact, evidence)
    if exact is not None:
        off = off.masked_fill(_nearer(one, other, exact, torch.finfo(eager.dtype).eps), 0.0)
    share = (off / allowed).nan_to_num(nan=math.inf)
    largest = float(share.max())
    wrong = int((share > 1).sum())
    mean = _mean_share(other, one, exact, trusted, evidence, unit) if small and exact is not None else 0.0
    words = _words(small, evidence, exact)
    errors = _errors(one, other, rounded, exact)
    notes = _overflows(one, other, exact)
    if wrong:
        note = "; ".join([f"{wrong} of {share.numel()} elements are off by more than rounding explains", *notes])
        return Judgement(False, words, note, largest, *errors)
    if mean > 1:
        note = "; ".join([f"the errors' root mean square is {mean:.2g} times what rounding gives", *notes])
        return Judgement(False, words, note, mean, *errors)
    return Judgement(True, words, "; ".join(notes), max(largest, mean), *errors)


def _unit(one: Any, info: Any, small: bool) -> Any:
    """The size of a unit in the last place of each element."""
    return info.eps * _size(one).clamp_min(info.smallest_normal) + (0.0 if small else info.smallest_normal)


def _allowed(one: Any, rounded: Any, exact: Any, evidence: Evidence, unit: Any, small: bool) -> tuple[Any, Any]:
    """Return each element's allowed error, and a mask of the elements at which float64 gives the right value."""
    import torch

    allowed = (VARIES_16 if small else VARIES) * _variation(one, evidence) + (UNITS_16 if small else UNITS) * unit
    trusted = torch.isfinite(one.abs())
    if exact is not None:
        of_eager = (exact - one).abs().masked_fill((rounded == one) | _alike(rounded, one), 0.0)
        trusted = trusted & torch.isfinite(of_eager) & (of_eager <= ELSEWHERE * allowed)
        allowed = torch.maximum(allowed, EAGER * _up_to_size(exact, of_eager.masked_fill(~trusted, 0.0)))
    return allowed, trusted


def near(eager: Any, given: Any) -> bool:
    """Tell whether all floats of 32 or 64 bits are within a few units in the last place of eager's.

    Then nothing has to be computed to judge them.
    """
    import torch

    if eager.dtype.itemsize < (8 if eager.is_complex() else 4):
        return False
    info = torch.finfo(eager.dtype)
    one, other = _wide(eager), _wide(given)
    off = (one - other).abs().masked_fill(_alike(one, other), 0.0)
    allowed = UNITS * info.eps * _size(one) + info.smallest_normal  # an infinity allows nothing but itself
    return bool((off <= allowed).all())


#: The bound of `near` in words.
NEAR = f"{UNITS:.0f} units in the last place of each of eager's"


#: The tolerance of `beside`: this share of each element, and this share of their root mean square.
GIVEN = {"float64": (1e-9, 1e-10), "float32": (1e-3, 1e-4)}


def beside(expected: Any, given: Any) -> Judgement:
    """Judge a value by an expected one of the same shape and type, without the function that computes it.

    Whole numbers are compared exactly, floats by a tolerance of their type.
    """
    if not expected.is_floating_point() and not expected.is_complex():
        return exactly(expected, given, Evidence())
    one, other = _wide(expected), _wide(given)
    if not one.numel():
        return Judgement(True, "no element")
    wrong, words = _beyond(expected, one, other)
    count = int(wrong.sum())
    note = f"{count} of {wrong.numel()} elements are off by more than rounding explains" if count else ""
    return Judgement(not count, words, "; ".join(filter(None, [note, *_overflows(one, other, None)])))


def first_off(expected: Any, given: Any) -> str:
    """Name the first element that `beside` calls wrong, with both values; "" where none is."""
    one, other = _wide(expected), _wide(given)
    is_float = expected.is_floating_point() or expected.is_complex()
    wrong = (_beyond(expected, one, other)[0] if is_float else one != other).nonzero()
    if not len(wrong):
        return ""
    at = tuple(wrong[0].tolist())
    return f"the first at {list(at)}: {given[at].item():.6g}, the original's {expected[at].item():.6g}"


def _beyond(expected: Any, one: Any, other: Any) -> tuple[Any, str]:
    """Mark the elements that are off by more than the tolerance of their type, and say this tolerance."""
    import torch

    kind = str(expected.dtype).removeprefix("torch.").replace("complex64", "float32").replace("complex128", "float64")
    of_each, of_all = GIVEN.get(kind) or (8 * torch.finfo(expected.dtype).eps,) * 2
    finite = _size(one)
    off = (one - other).abs().nan_to_num(nan=math.inf).masked_fill(_alike(one, other), 0.0)
    wrong = off > of_each * finite + of_all * float(finite.square().mean().sqrt())
    return wrong, f"{of_each:.1g} of each element and {of_all:.1g} of their root mean square: what made them is not known"


def _wide(tensor: Any) -> Any:
    """Widen floats to 64 bits; whole numbers and booleans stay as they are."""
    import torch

    tensor = tensor.detach()
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def _size(tensor: Any) -> Any:
    """The absolute value of each element; 0 for infinity and NaN."""
    return tensor.abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _alike(one: Any, other: Any) -> Any:
    """Mark where both are the same infinity or NaN; of complex numbers where neither is finite."""
    if one.is_complex():
        return ~one.abs().isfinite() & ~other.abs().isfinite()
    return one.isinf() & (one == other) | one.isnan() & other.isnan()


def _variation(one: Any, evidence: Evidence) -> Any:
    """Return the largest move of each element when the rounding of each operator is varied."""
    import torch

    vary = torch.zeros_like(one.abs())
    for varied in evidence.varied:
        vary = torch.maximum(vary, _size(_wide(varied.value) - _wide(varied.around)))
    return vary


def _off(one: Any, other: Any, rounded: Any, exact: Any, evidence: Evidence) -> Any:
    """Return each element's distance from the nearest right value: eager's, float64's, or one between varied ones.

    The distance is infinity if the element is infinite or NaN and no right value is.
    """
    import torch

    off = (other - one).abs().nan_to_num(nan=math.inf).masked_fill(_alike(one, other), 0.0)
    if exact is not None:
        other_off = (other - exact).abs().nan_to_num(nan=math.inf).masked_fill((rounded == other) | _alike(rounded, other), 0.0)
        off = torch.minimum(off, other_off)
    plain = [_wide(value) for value in evidence.possible]
    for varied in plain:
        off = off.masked_fill(_alike(varied, other), 0.0)
    if plain and not one.is_complex():
        low = torch.stack([one, *plain]).amin(0)
        high = torch.stack([one, *plain]).amax(0)
        off = off.masked_fill((other >= low) & (other <= high) & low.isfinite() & high.isfinite(), 0.0)
    return off


def _nearer(one: Any, other: Any, exact: Any, eps: float) -> Any:
    """Mark elements that are no farther from float64 than eager's, where eager's error is rounding at the tensor's scale.

    Where eager cancels all digits of a small element, its own numbers do not tell how far the element may be off.
    """
    of_eager, of_other = ((value - exact).abs().nan_to_num(nan=math.inf) for value in (one, other))
    return (of_other <= of_eager) & (of_eager <= eps * _size(exact).max())


def _up_to_size(exact: Any, errors: Any) -> Any:
    """For each element, the largest error among the elements that are not larger."""
    import torch

    sizes = _size(exact).flatten()
    order = sizes.argsort()
    running = torch.cummax(errors.flatten()[order], 0).values
    in_place = torch.empty_like(running)
    in_place[order] = running
    return in_place.view(errors.shape)


def _mean_share(other: Any, one: Any, exact: Any, trusted: Any, evidence: Evidence, unit: Any) -> float:
    """Return the root mean square of the errors in units, divided by the one that rounding causes.

    Only elements at which float64 is the truth count. The mean is taken over all of them, or over a group of elements of
    similar size if that is larger: many large elements would hide a few small ones.
    """
    import torch

    usable = trusted & torch.isfinite(other.abs())
    for value in evidence.possible:
        usable = usable & torch.isfinite(_wide(value).abs())
    if not bool(usable.any()):
        return 0.0
    scale = unit + _variation(one, evidence)
    order = exact[usable].abs().argsort()

    def squares(tensor: Any) -> Any:
        errors = ((_wide(tensor) - exact).abs() / scale)[usable].clamp_max(OUTLIER)
        return errors.square()[order]

    rounding = [squares(one), *map(squares, evidence.possible), (0.5 * unit / scale)[usable].square()[order]]
    given, count = squares(other), len(order)
    share = 0.0
    for begin, end in [(0, count), *_bands(count)]:
        chance = 1 + (end - begin) ** -0.5  # the mean of few elements is off by about this much by chance
        share = max(share, _over_rounding(given[begin:end], [r[begin:end] for r in rounding]) / (MEAN_16 * chance))
    return share


def _over_rounding(squares: Any, rounding: Sequence[Any]) -> float:
    """The root of a mean square, over the largest of those that rounding gives."""
    largest = max(float(other.mean()) for other in rounding)
    return math.sqrt(float(squares.mean()) / largest) if largest else 0.0


def _bands(count: int) -> list[tuple[int, int]]:
    """The begin and end of each group of sorted elements: the smallest few, then four times as many each time."""
    bands, begin, size = [], 0, BAND
    while count - begin >= BAND:
        end = min(begin + size, count)
        bands.append((begin, count if count - end < BAND else end))
        begin, size = bands[-1][1], 4 * size
    return bands


def _errors(one: Any, other: Any, rounded: Any, exact: Any) -> tuple[float | None, float | None]:
    """The largest distance of the given value, and of eager's, from float64; 0 where float64 rounds to the same infinity."""
    if exact is None:
        return None, None
    given, eager = [
        (exact - value).abs().masked_fill(_alike(rounded, value), 0.0).nan_to_num(nan=math.inf, posinf=math.inf).max()
        for value in (other, one)
    ]
    return float(given), float(eager)


def _words(small: bool, evidence: Evidence, exact: Any) -> str:
    """State the bound in words."""
    times, units = (VARIES_16, UNITS_16) if small else (VARIES, UNITS)
    near_what = "eager or float64" if exact is not None else "eager (it cannot be had in float64)"
    unit = "unit" if units == 1 else "units"
    if not evidence.varied:
        return f"within {units:.0f} {unit} in the last place of {near_what}"
    return f"within {units:.0f} {unit} in the last place and {times:.0f} times its rounding of {near_what}"


def _overflows(one: Any, other: Any, exact: Any) -> list[str]:
    """Note where only one of eager and compiled is infinite or NaN, which makes max_abs infinite."""
    import torch

    apart = torch.isfinite(one.abs()) != torch.isfinite(other.abs())
    count = int(apart.sum())
    if not count:
        return []
    side = "eager" if bool((apart & ~torch.isfinite(one.abs())).any()) else "compiled"
    in_float64 = ""
    if exact is not None and bool(torch.isfinite(exact.abs())[apart].all()):
        in_float64 = ", where float64 has numbers"
    return [f"{side} overflows or is NaN at {count} elements{in_float64}: max_abs says nothing there"]


__all__ = [
    "NEAR",
    "Evidence",
    "Judgement",
    "Varied",
    "beside",
    "exactly",
    "first_off",
    "gaps",
    "judged",
    "near",
    "zeros_of_other_sign",
]
