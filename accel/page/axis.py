"""Axes of charts: from values to places, and where the ticks stand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Axis", "fit_axis", "short"]

TICKS = 6
_LEAST, _MOST = 1e-306, 1e306


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis.

    Parameters
    ----------
    label : str
        What it shows, with its unit.
    low, high : float
        Its ends; positive where it is logarithmic.
    log : bool
        Whether it is logarithmic.
    """

    label: str
    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a value stands: 0 at the low end, 1 at the high one."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return (math.log(max(value, self.low)) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return values between the ends that are round."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            step = max(1, -(-(last - first) // TICKS))
            decades = [10.0**power for power in range(first, last + 1, step)]
            if len(decades) >= 3:
                return decades
            near = [factor * 10.0**power for power in range(first - 1, last + 1) for factor in (1, 2, 5)]
            return [value for value in near if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]
        raw = (self.high - self.low) / TICKS
        power = 10.0 ** math.floor(math.log10(raw))
        step_size = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
        begin = math.ceil(self.low / step_size - 1e-9)
        count = math.floor(self.high / step_size + 1e-9) - begin
        return [(begin + index) * step_size for index in range(count + 1)]


def fit_axis(label: str, values: Iterable[float], *, log: bool = False, zero: bool = False) -> Axis:
    """Return an axis that holds all values; with ``zero`` a linear one begins at 0."""
    finite = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = (min(finite), max(finite)) if finite else (1.0, 10.0)
    if log:
        margin = max(math.exp(0.06 * (math.log(high) - math.log(low))), 1.25)
        return Axis(label=label, low=max(low / margin, _LEAST), high=min(high * margin, _MOST), log=True)
    if zero:
        low = min(low, 0.0)
    room = 0.06 * (high - low) or max(abs(high), 1.0) * 0.1
    return Axis(label=label, low=low if zero and low == 0 else low - room, high=high + room)


def short(value: float) -> str:
    """Return a number as a reader would write it at a tick."""
    if value == 0:
        return "0"
    size = abs(value)
    if 1e-3 <= size < 1e6:
        return f"{value:,.6g}"
    mantissa, exponent = f"{value:.3g}".split("e") if "e" in f"{value:.3g}" else (f"{value:.0e}").split("e")
    return f"{mantissa}e{int(exponent)}"
