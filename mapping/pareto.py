"""Pareto fronts: the designs that no other design beats in every measure."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.errors import InputError

__all__ = ["pareto_front"]


def pareto_front(measures: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows are on the Pareto front.

    A row is on it if no other row is at most as large in every measure and smaller in one. Of equal rows only the first
    is, so that the front holds each trade-off once.

    Parameters
    ----------
    measures : ndarray[designs, measures], float64
        What each design costs; less is better. Finite.

    Returns
    -------
    ndarray[designs], bool

    Raises
    ------
    InputError
        The array does not have two dimensions, or a number is not finite.
    """
    values = np.asarray(measures, dtype=np.float64)
    if values.ndim != 2:
        raise InputError(f"measures must be an array of two dimensions, not {values.ndim}")
    if not np.isfinite(values).all():
        raise InputError("measures must be finite numbers", hint="leave out designs that failed")
    on_front = np.zeros(len(values), dtype=np.bool_)
    # In lexicographic order (ties: by position) whatever dominates or equals a row stands before it.
    order = np.lexsort((np.arange(len(values)), *values.T[::-1]))
    front = np.empty_like(values)
    size = 0
    for row in order:
        if not np.any(np.all(front[:size] <= values[row], axis=1)):
            front[size] = values[row]
            size += 1
            on_front[row] = True
    return on_front
