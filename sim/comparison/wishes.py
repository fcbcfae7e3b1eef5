"""What was wanted of the default units, each held against a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rtl.registry import UNITS
from sim.comparison.activations import COARSE_GELU, ActivationFigures
from sim.comparison.costs import UnitCost
from sim.comparison.inputs import random_scores
from sim.comparison.weights import WeightFigures, measure_unit, unit_for

__all__ = ["WISH_LENGTH", "WISH_ROWS", "Wish", "check_wishes", "measure_default"]

WISH_LENGTH, WISH_ROWS = 1024, 1024


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A wish and what was found.

    Parameters
    ----------
    wish : str
        In one line.
    wanted, found : str
        The limit and the figure.
    met : bool or None
        None where there is no figure.
    """

    wish: str
    wanted: str
    found: str
    met: bool | None


def measure_default(seed: int, rows: int = WISH_ROWS) -> tuple[WeightFigures, ...]:
    """Return the figures of the default softmax on ``rows`` rows of 1024 random scores of each deviation."""
    return tuple(
        measure_unit("softmax", unit_for("softmax", WISH_LENGTH), each)
        for each in random_scores(WISH_LENGTH, rows, seed)
    )


def check_wishes(
    measured: Sequence[WeightFigures], costs: Iterable[UnitCost], activations: Iterable[ActivationFigures]
) -> tuple[Wish, ...]:
    """Return the wishes, met or not.

    Parameters
    ----------
    measured : sequence of WeightFigures
        From ``measure_default``.
    costs, activations : iterable
        From ``unit_costs`` and ``compare_activations``.
    """
    cost = {each.unit: each for each in costs}
    gelu = {each.unit: each.max_error for each in activations if each.function == "gelu"}
    quality = UNITS["softmax"].contract(unit_for("softmax", WISH_LENGTH))
    return (
        *_softmax_wishes(measured, quality.max_error, float(quality.derived["row_sum_error"])),
        _smaller(cost),
        _below("default GELU: largest error over all inputs", 1e-4, gelu["gelu"], strict=False),
        _rom("default GELU: bits of ROM", 2400, cost["gelu"].rom_bits, strict=False),
        _below(f"{COARSE_GELU}: largest error over all inputs", 1e-3, gelu[COARSE_GELU], strict=False),
        _rom(f"{COARSE_GELU}: bits of ROM", 500, cost[COARSE_GELU].rom_bits, strict=True),
    )


def _softmax_wishes(measured: Sequence[WeightFigures], bound: float, sum_bound: float) -> tuple[Wish, ...]:
    error = max(each.max_error for each in measured)
    row_sum = max(each.row_sum_error for each in measured if each.row_sum_error is not None)
    agreement = min(each.argmax_agreement for each in measured if each.argmax_agreement is not None)
    rows = sum(each.rows for each in measured)
    # Both: a bound below what was measured would be wrong.
    return (
        Wish(
            wish="16-bit softmax, N = 1024: largest error of a weight",
            wanted="below 5e-5",
            found=f"{bound:.2e} proven, {error:.2e} over {rows} rows",
            met=error <= bound < 5e-5,
        ),
        Wish(
            wish="16-bit softmax, N = 1024: distance of a row's sum from 1",
            wanted=f"within 2^-12 = {2.0**-12:.2e}",
            found=f"{sum_bound:.2e} proven, {row_sum:.2e} over {rows} rows",
            met=row_sum <= sum_bound <= 2.0**-12,
        ),
        Wish(
            wish="16-bit softmax, N = 1024: argmax agreement",
            wanted="above 99.9 %",
            found=f"{100 * agreement:.2f} % of {rows // len(measured)} rows, the worst of {len(measured)} deviations",
            met=agreement > 0.999,
        ),
    )


def _smaller(cost: Mapping[str, UnitCost]) -> Wish:
    ours, theirs = cost["softmax"].lut_count, cost["online-softmax"].lut_count
    known = ours is not None and theirs is not None
    return Wish(
        wish="default softmax: look-up tables on ECP5, rows of up to 256",
        wanted="fewer than online-softmax" + (f", {theirs:g}" if known else ""),
        found=f"{ours:g}" if known else "no sample",
        met=ours < theirs if ours is not None and theirs is not None else None,
    )


def _below(wish: str, limit: float, found: float, *, strict: bool) -> Wish:
    met = found < limit if strict else found <= limit
    return Wish(wish=wish, wanted=f"{'below' if strict else 'at most'} {limit:.0e}", found=f"{found:.2e}", met=met)


def _rom(wish: str, limit: int, found: int, *, strict: bool) -> Wish:
    met = found < limit if strict else found <= limit
    return Wish(wish=wish, wanted=f"{'under' if strict else 'at most'} {limit}", found=str(found), met=met)
