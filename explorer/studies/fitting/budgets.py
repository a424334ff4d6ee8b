"""Budgets: the memory of a step of training against the time that it computes again, for several budgets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from explorer.errors import InputError
from explorer.model.values import Table
from explorer.model.wording import readable_bytes

if TYPE_CHECKING:
    from explorer.studies.fitting.answer import Fit

COLUMNS = ("budget", "peak_bytes", "fits", "seconds", "recomputed_seconds")
#: The picture's size in pixels, and the room around the curve for what is written there.
WIDTH, HEIGHT, EDGE = 420, 180, 48


@dataclass(frozen=True)
class Budgets:
    """Fits of one training step, each compiled with an `activation_memory_budget` of torch.

    `table` has one row per budget, the smallest first: the peak in bytes, whether the GPU has them, and the estimated seconds
    of a step; `recomputed_seconds` are those beyond the step without a budget. `fits` are the answers in the same order.
    """

    fits: tuple[Fit, ...] = field(repr=False)
    table: Table

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return curve(self.table) + self.table._repr_html_()


def check_shares(shares: Sequence[float]) -> list[float]:
    """Sort budgets; InputError for one that is no share from 0 to 1."""
    for share in shares:
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise InputError(
                f"a budget is the share of the activations that are saved, from 0 to 1, not {share!r}: fit.budgets((0.2, 0.5))"
            )
    if not shares:
        raise InputError("fit.budgets needs at least one budget, such as fit.budgets((0.2, 0.5))")
    return sorted(set(shares))


def budgets_of(fit: Fit, fits_by_budget: dict[float, Fit]) -> Budgets:
    """Compare fits with a budget with the one without."""
    rows: list[dict[str, Any]] = [
        {
            "budget": share,
            "peak_bytes": one.peak_bytes,
            "fits": one.fits,
            "seconds": one.seconds,
            "recomputed_seconds": one.seconds - fit.seconds,
        }
        for share, one in fits_by_budget.items()
    ]
    return Budgets(tuple(fits_by_budget.values()), Table(rows, COLUMNS))


def curve(table: Table) -> str:
    """Draw the peak against the recomputed time, a point per budget, as SVG."""
    times, peaks = [row["recomputed_seconds"] for row in table], [row["peak_bytes"] for row in table]
    xs = _spread(times, EDGE, WIDTH - EDGE)
    ys = _spread(peaks, HEIGHT - EDGE, EDGE / 2)
    points = " ".join(f"{x:.0f},{y:.0f}" for x, y in sorted(zip(xs, ys, strict=True)))
    about = "peak memory against recomputed time, by activation_memory_budget"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="{about}" font-family="sans-serif" font-size="10" style="max-width:100%;height:auto;background:#fff">',
        f'<polyline points="{points}" fill="none" stroke="#888"/>',
    ]
    for row, x, y in zip(table, xs, ys, strict=True):
        said = escape(f"budget {row['budget']:g}: {readable_bytes(row['peak_bytes'])}, {_milliseconds(row)} recomputed")
        parts.append(f'<g><title>{said}</title><circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="#235"/>')
        parts.append(f'<text x="{x + 5:.0f}" y="{y - 5:.0f}" fill="#111">{row["budget"]:g}</text></g>')
    lowest, highest = readable_bytes(min(peaks)), readable_bytes(max(peaks))
    parts.append(f'<text x="2" y="12" fill="#444">peak, {escape(lowest)} to {escape(highest)}</text>')
    ends = f"{min(times) * 1e3:.3g} to {max(times) * 1e3:.3g} ms recomputed in a step"
    parts.append(f'<text x="{WIDTH - 2}" y="{HEIGHT - 6}" fill="#444" text-anchor="end">{ends}</text></svg>')
    return "".join(parts)


def _milliseconds(row: Any) -> str:
    return f"{row['recomputed_seconds'] * 1e3:.3g} ms"


def _spread(values: Sequence[float], first: float, last: float) -> list[float]:
    """Place values between two ends; all at the first where they are equal."""
    low, high = min(values), max(values)
    return [first + (value - low) / (high - low) * (last - first) if high > low else first for value in values]


__all__ = ["Budgets", "budgets_of", "check_shares", "curve"]
