"""The arithmetic of an evaluation: operators on arrays, and the number format that rounds their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

from accel.errors import InputError
from accel.numerics import FixedPoint

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["COMPARE", "DTYPES", "MAP", "Arithmetic", "Array", "top"]

DTYPES: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")
"""Types that a cascade can be evaluated in, fixed-point formats aside."""

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

COMPARE: Mapping[str, Callable[..., Any]] = {
    "<=": np.less_equal,
    "<": np.less,
    ">=": np.greater_equal,
    ">": np.greater,
    "==": np.equal,
    "!=": np.not_equal,
}
"""Comparisons by their sign."""

_erf_of_one = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_erf_of_one(x)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # never overflows
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


MAP: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "at_least": np.greater_equal,
    "at_most": np.less_equal,
    "cos": np.cos,
    "divide": np.divide,
    "equal": np.equal,
    "erf": _erf,
    "exp": np.exp,
    "floor": np.floor,
    "greater": np.greater,
    "less": np.less,
    "log": np.log,
    "log1p": np.log1p,
    "max": np.maximum,
    "min": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "pow": np.power,
    "relu": lambda x: np.maximum(x, 0),
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": lambda chosen, a, b: np.where(chosen != 0, a, b),
    "sigmoid": _sigmoid,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tanh": np.tanh,
    "unequal": np.not_equal,
}
"""Operators of expressions, by name."""


def top(values: Array, number: int, keep: int) -> Array:
    """Return the ``number`` largest of each row of ``values`` in falling order, ``-inf`` past the end.

    Parameters
    ----------
    values : ndarray
        All axes from ``keep`` on are one row.
    number : int
        How many to return.
    keep : int
        Axes ahead of the rows.
    """
    rows = values.reshape((*values.shape[:keep], -1))
    length = rows.shape[-1]
    if number < length:
        rows = -np.partition(-rows, number - 1, axis=-1)[..., :number]
    ordered = -np.sort(-rows, axis=-1)
    missing = np.full((*ordered.shape[:-1], max(number - length, 0)), -np.inf, ordered.dtype)
    return np.concatenate([ordered, missing], axis=-1)


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """How numbers are held and rounded.

    Parameters
    ----------
    storage : numpy.dtype
        Type of the arrays of an evaluation.
    accumulator : numpy.dtype
        Type in which sums run.
    narrow : numpy.dtype, optional
        A type that numpy lacks: each operation is done in ``storage`` and rounded to it.
    fixed : FixedPoint, optional
        Inputs and the result of each Einsum are rounded to it; within an Einsum arithmetic is that of ``storage``.
    """

    storage: np.dtype[Any]
    accumulator: np.dtype[Any]
    narrow: np.dtype[Any] | None = None
    fixed: FixedPoint | None = None

    @classmethod
    def of(cls, given: DTypeLike | FixedPoint) -> Arithmetic:
        """Return the arithmetic of a type, of a fixed-point format, or of the text of one.

        Raises
        ------
        InputError
            It is neither.
        """
        if isinstance(given, str) and "," in given:
            given = FixedPoint.parse(given)
        wide = np.dtype(np.float64)
        if isinstance(given, FixedPoint):
            return cls(storage=wide, accumulator=wide, fixed=given)
        try:
            kind = np.dtype(given)
        except TypeError:
            kind = None
        if kind is None or kind.name not in DTYPES:
            raise InputError(
                f"dtype must be one of {', '.join(DTYPES)} or a fixed-point format, not {given}",
                hint="use float64 for a reference",
            )
        single = np.dtype(np.float32)
        if kind == ml_dtypes.bfloat16:
            # Single precision has more than twice the bits of bfloat16: rounding twice gives what rounding once does.
            return cls(storage=single, accumulator=single, narrow=kind)
        # Half-precision sums round away their terms; hardware keeps a wider accumulator, and so does this.
        return cls(storage=kind, accumulator=np.promote_types(kind, single))

    def operation(self, values: Any) -> Array:
        """Return the result of one operation in the type of the evaluation."""
        array = np.asarray(values)
        if self.narrow is not None:
            array = array.astype(self.narrow)
        return array.astype(self.storage, copy=False)

    def result(self, values: Any) -> Array:
        """Return the result of one Einsum as it is stored.

        Raises
        ------
        InputError
            The fixed-point format refuses a value.
        """
        array = self.operation(values)
        if self.fixed is not None:
            return np.asarray(self.fixed.to_real(self.fixed.quantize(array)))
        return array

    def final(self, array: Array) -> Array:
        """Return an array as it leaves the evaluation."""
        return array if self.narrow is None else array.astype(self.narrow)
