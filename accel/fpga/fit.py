"""Least squares with coefficients that are not negative: nothing that a block is made of makes it smaller."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["leave_one_out", "non_negative_least_squares"]

Reals = NDArray[np.float64]


def non_negative_least_squares(a: Reals, b: Reals) -> Reals:
    """Return the x of at least 0 that minimises ``|a x - b|`` (Lawson and Hanson, 1974, chapter 23).

    Parameters
    ----------
    a : ndarray[rows, columns], float64
        Matrix; columns may depend on each other.
    b : ndarray[rows], float64
        Right-hand side.

    Returns
    -------
    ndarray[columns], float64
    """
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1
    scaled = a / scale
    x, active = np.zeros(a.shape[1]), np.zeros(a.shape[1], bool)
    tolerance = 1e-10 * max(1.0, float(np.abs(scaled.T @ b).max(initial=0)))
    for _ in range(10 * a.shape[1]):
        gradient = scaled.T @ (b - scaled @ x)
        gradient[active] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= tolerance:
            break
        active[best] = True
        while True:
            found = np.zeros_like(x)
            found[active] = np.linalg.lstsq(scaled[:, active], b, rcond=None)[0]
            if (found[active] > 0).all():
                x = found
                break
            # Step as far as no coefficient turns negative, and drop the one that reached zero.
            low = active & (found <= 0)
            step = float(np.min(x[low] / np.maximum(x[low] - found[low], 1e-300)))
            x = x + step * (found - x)
            active &= x > 1e-12
            x[~active] = 0
            if not active.any():
                break
    result: Reals = x / scale
    return result


def leave_one_out(a: Reals, b: Reals) -> Reals:
    """Return for each row what the fit to all other rows predicts for it; ndarray[rows], float64."""
    rows = np.arange(len(b))
    return np.array([a[row] @ non_negative_least_squares(a[rows != row], b[rows != row]) for row in rows])
