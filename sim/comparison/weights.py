"""How far the weights of every softmax unit are from the exact ones, on the same scores."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.softmax_family import Log2SoftmaxUnit, LogSumExpUnit, SoftpickUnit, TopKSoftmaxUnit
from accel.softmax_family.elementwise import ElementwiseUnit
from rtl.registry import UNITS
from sim.comparison.inputs import ScoreRows
from sim.comparison.models import SOFTMAX_MODELS
from sim.golden.softmax import exact_softmax
from sim.golden.softmax_family import exact_row, golden_rows

__all__ = ["LEFT_OUT", "WeightFigures", "compare_weights", "measure_unit", "unit_for", "weight_units"]

Reals = NDArray[np.float64]
LEFT_OUT = ("block-skip",)
"""Units of the family that give no number to compare: its flags are exact."""


@dataclass(frozen=True, kw_only=True)
class WeightFigures:
    """One unit on one set of rows. What does not apply is None.

    Parameters
    ----------
    unit, scores : str
        Which unit and which scores.
    theirs : bool
        A scheme of others, modelled in real numbers.
    length, rows : int
        Of the set.
    max_error, mean_error : float
        Distance of a weight from the exact function of the scores as the unit's input format holds them.
    max_error_with_input : float or None
        Largest distance from the softmax of the real scores: rounding and saturation of the scores included.
    row_sum_error : float or None
        Largest distance of a row's sum from that of the exact weights, which is 1 for a softmax.
    argmax_agreement : float or None
        Share of rows whose largest weight stands where the exact one is largest; equal weights count as agreement.
    kl_nats : float or None
        Mean over rows of sum q ln(q / p): q the unit's weights divided by their sum, p those of the softmax of the
        real scores. None where a row has only zeros.
    """

    unit: str
    scores: str
    theirs: bool
    length: int
    rows: int
    max_error: float
    mean_error: float
    max_error_with_input: float | None
    row_sum_error: float | None
    argmax_agreement: float | None
    kl_nats: float | None


def weight_units() -> tuple[str, ...]:
    """Return the names of the units of the softmax family that are compared."""
    return tuple(
        name
        for name, entry in UNITS.items()
        if name not in LEFT_OUT and entry.contract(entry.default).family == "softmax"
    )


def unit_for(name: str, length: int) -> Any:
    """Return the default description of a unit for rows of up to ``length`` scores."""
    unit = UNITS[name].default
    changes: dict[str, Any] = {"max_length": length}
    if isinstance(unit, ElementwiseUnit):
        # Both divide by the length of the row: sigmoid attention by its bias, ReLU attention by its divisor.
        changes |= {"bias": -math.log(length)} if unit.bias else {"divisor": float(length)}
    if isinstance(unit, TopKSoftmaxUnit):
        changes["k"] = min(unit.k, length)
    return replace(unit, **changes)


def compare_weights(sets: Iterable[ScoreRows]) -> tuple[WeightFigures, ...]:
    """Return the figures of all units, and of the modelled schemes of others, on every set of rows."""
    found = []
    for rows in sets:
        length = rows.scores.shape[1]
        found += [measure_unit(name, unit_for(name, length), rows) for name in weight_units()]
        found += [_measure_model(name, rows) for name in SOFTMAX_MODELS]
    return tuple(found)


def measure_unit(name: str, unit: Any, rows: ScoreRows) -> WeightFigures:
    """Return the figures of one unit, by its golden model, on one set of rows."""
    base_two = getattr(unit, "scale", None) == (1, 0)
    # A unit to the base 2 is given scores times log2(e), as its user folds that factor into the scale of the queries.
    codes = unit.input_format.quantize(rows.scores / math.log(2) if base_two else rows.scores)
    answers = golden_rows(unit, list(codes))
    exact = np.stack([exact_row(unit, row) for row in codes])
    if isinstance(unit, LogSumExpUnit):
        got = unit.output_format.to_real(np.concatenate([answer.codes[answer.keep] for answer in answers]))[:, None]
        real = np.logaddexp.reduce(rows.scores, axis=1)[:, None]
        return _figures(name, rows, got, exact, real, weights=False, softmax=False)
    length = codes.shape[1]
    held = np.stack([answer.codes[:length] for answer in answers])
    keep = np.stack([answer.keep[:length] for answer in answers])
    got = np.exp2(-held.astype(np.float64)) if isinstance(unit, Log2SoftmaxUnit) else unit.output_format.to_real(held)
    got, exact = np.where(keep, got, 0.0), np.where(keep, exact, 0.0)
    other = isinstance(unit, SoftpickUnit | ElementwiseUnit)
    real = None if other else np.where(keep, exact_softmax(rows.scores), 0.0)
    return _figures(name, rows, got, exact, real, weights=True, softmax=not other and bool(keep.all()))


def _measure_model(name: str, rows: ScoreRows) -> WeightFigures:
    exact = exact_softmax(rows.scores)
    found = _figures(name, rows, SOFTMAX_MODELS[name](rows.scores), exact, exact, weights=True, softmax=True)
    return replace(found, theirs=True)


def _figures(
    name: str, rows: ScoreRows, got: Reals, exact: Reals, real: Reals | None, *, weights: bool, softmax: bool
) -> WeightFigures:
    error = np.abs(got - exact)
    best = np.take_along_axis(got, exact.argmax(axis=1)[:, None], axis=1)[:, 0]
    return WeightFigures(
        unit=name,
        scores=rows.name,
        theirs=False,
        length=rows.scores.shape[1],
        rows=len(rows.scores),
        max_error=float(error.max()),
        mean_error=float(error.mean()),
        max_error_with_input=None if real is None else float(np.abs(got - real).max()),
        row_sum_error=float(np.abs(got.sum(axis=1) - exact.sum(axis=1)).max()) if weights else None,
        argmax_agreement=float((best == got.max(axis=1)).mean()) if weights else None,
        kl_nats=_divergence(got, exact_softmax(rows.scores)) if softmax else None,
    )


def _divergence(got: Reals, exact: Reals) -> float | None:
    total = got.sum(axis=1, keepdims=True)
    if not total.all():
        return None
    q = got / total
    terms = q * (np.log(np.where(q > 0, q, 1.0)) - np.log(exact))
    return float(max(terms.sum(axis=1).mean(), 0.0))
