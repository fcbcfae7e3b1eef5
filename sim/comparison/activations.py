"""How far every activation unit is from the function that it computes or stands for, over all inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.activation_unit import ACTIVATIONS, ActivationUnit, fitting_output
from accel.closed_activation_unit import CLOSED_ACTIVATIONS, ClosedActivationUnit
from rtl.registry import ACTIVATION_INPUT, UNITS
from sim.comparison.models import delta_table_gelu
from sim.golden.activation import activation
from sim.golden.closed_activation import closed_activation

__all__ = ["COARSE_GELU", "ActivationFigures", "ErrorCurve", "activation_units", "compare_activations", "error_curves"]

Reals = NDArray[np.float64]

COARSE_GELU = "gelu --max-error 1e-3"
DELTA_TABLE = "Edge-MoE delta table, 150 x 16 bits (model)"
_STAND_INS = {"gelu-tanh": "gelu", "quick-gelu": "gelu"}
"""Units that are exact forms of their own, and stand-ins for another function."""


@dataclass(frozen=True, kw_only=True)
class ActivationFigures:
    """One unit, over all codes of the input format of the default activations, s16f12.

    Parameters
    ----------
    unit, function : str
        Which unit, and the function that it is compared with.
    theirs : bool
        A scheme of others, modelled in real numbers.
    max_error, mean_error : float
        Distance from the function, over all codes alike.
    normal_error : float
        Mean distance under inputs from the normal distribution of mean 0 and deviation 1.
    """

    unit: str
    function: str
    theirs: bool
    max_error: float
    mean_error: float
    normal_error: float


@dataclass(frozen=True, kw_only=True)
class ErrorCurve:
    """The error of one unit over its inputs.

    Parameters
    ----------
    unit, function : str
        As in ``ActivationFigures``.
    inputs, errors : ndarray[65536], float64
        Inputs, ascending, and the distances from the function.
    """

    unit: str
    function: str
    inputs: Reals
    errors: Reals


@cache
def activation_units() -> dict[str, Any]:
    """Return the descriptions that are compared: all defaults, and a GELU of a coarser table."""
    found = {name: UNITS[name].default for name in (*ACTIVATIONS, *CLOSED_ACTIVATIONS)}
    found[COARSE_GELU] = ActivationUnit(
        function="gelu",
        max_error=1e-3,
        lanes=1,
        input_format=ACTIVATION_INPUT,
        output_format=fitting_output("gelu", 1e-3, ACTIVATION_INPUT),
    )
    return found


def error_curves() -> tuple[ErrorCurve, ...]:
    """Return the errors of all activation units, and of a modelled one, for every input code."""
    curves = [_curve(name, unit, function) for name, unit in activation_units().items() for function in _targets(unit)]
    curves.append(_error(DELTA_TABLE, "gelu", delta_table_gelu))
    # Those of one function stand together, the nearest first.
    order = list(ACTIVATIONS)
    return tuple(sorted(curves, key=lambda each: (order.index(each.function), float(each.errors.max()))))


def compare_activations(curves: Sequence[ErrorCurve]) -> tuple[ActivationFigures, ...]:
    """Return the figures of the curves of ``error_curves``."""
    return tuple(_figures(curve) for curve in curves)


def _targets(unit: Any) -> tuple[str, ...]:
    if isinstance(unit, ClosedActivationUnit):
        return (CLOSED_ACTIVATIONS[unit.function].stands_for,)
    stands_for = _STAND_INS.get(unit.function)
    return (unit.function, stands_for) if stands_for else (unit.function,)


def _codes() -> NDArray[np.int64]:
    return np.arange(ACTIVATION_INPUT.min_code, ACTIVATION_INPUT.max_code + 1)


def _curve(name: str, unit: Any, function: str) -> ErrorCurve:
    golden = closed_activation if isinstance(unit, ClosedActivationUnit) else activation
    return _error(name, function, lambda x: unit.output_format.to_real(golden(unit, unit.input_format.quantize(x))))


def _error(name: str, function: str, compute: Callable[[Reals], Reals]) -> ErrorCurve:
    x = ACTIVATION_INPUT.to_real(_codes())
    errors = np.abs(compute(x) - ACTIVATIONS[function].exact(x))
    return ErrorCurve(unit=name, function=function, inputs=x, errors=errors)


def _figures(curve: ErrorCurve) -> ActivationFigures:
    density = np.exp(-(curve.inputs**2) / 2)
    return ActivationFigures(
        unit=curve.unit,
        function=curve.function,
        theirs=curve.unit == DELTA_TABLE,
        max_error=float(curve.errors.max()),
        mean_error=float(curve.errors.mean()),
        normal_error=float((curve.errors * density).sum() / density.sum()),
    )
