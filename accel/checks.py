"""Checks of the parameters that units have in common; every error names the parameter, its bounds and a way out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError, did_you_mean
from accel.numerics import FixedPoint, Overflow, Rounding

__all__ = [
    "check_codes",
    "check_holds",
    "check_known",
    "check_range",
    "check_ranges",
    "check_rounding",
    "check_signed",
]


def check_range(path: tuple[str, ...], value: float, low: float, high: float) -> None:
    """Check that a parameter is from ``low`` to ``high``.

    Raises
    ------
    InputError
        It is not.
    """
    if not low <= value <= high:
        raise InputError(
            f"{'.'.join(path)} must be from {low} to {high}, not {value}",
            hint=f"use {min(max(low, value), high)}",
            field=path,
        )


def check_ranges(unit: object, ranges: Iterable[tuple[str, float, float]]) -> None:
    """Check parameters of a unit in turn.

    Parameters
    ----------
    unit : object
        Whose attributes they are.
    ranges : iterable of (str, float, float)
        Name, with dots where it is a part of another parameter, smallest and largest value.

    Raises
    ------
    InputError
        One is out of range: the first.
    """
    for name, low, high in ranges:
        check_range(tuple(name.split(".")), attrgetter(name)(unit), low, high)


def check_known(function: str, known: Collection[str], kind: str) -> None:
    """Check that ``function`` is the name of one of ``known``, which are of a ``kind``.

    Raises
    ------
    InputError
        It is not.
    """
    if function not in known:
        raise InputError(
            f"function must be a known {kind}, not {function!r}",
            hint=did_you_mean(function, known),
            field=("function",),
        )


def check_signed(name: str, given: FixedPoint) -> None:
    """Check that the format of parameter ``name`` is signed.

    Raises
    ------
    InputError
        It is not.
    """
    if not given.signed:
        raise InputError(
            f"{name} must be signed, not {given}",
            hint=f"use s{given.width_bits + 1}f{given.fraction_bits}",
            field=(name, "signed"),
        )


def check_rounding(max_error: float, output_format: FixedPoint) -> None:
    """Check that rounding to the output alone keeps ``max_error``.

    Raises
    ------
    InputError
        It does not.
    """
    least = output_format.resolution / (1 if output_format.rounding is Rounding.TRUNCATE else 2)
    if max_error < least:
        raise InputError(
            f"max_error must be at least the rounding error {least} of the output, not {max_error}",
            hint=f"use at least {math.ceil(math.log2(1.5 / max_error))} fraction bits in output_format",
            field=("max_error",),
        )


def check_holds(output_format: FixedPoint, low: float, high: float) -> None:
    """Check that the output saturates, or holds all results, which are from ``low`` to ``high``.

    Raises
    ------
    InputError
        It does neither.
    """
    if output_format.overflow is not Overflow.SATURATE and (
        low < output_format.min_value or high > output_format.max_value
    ):
        raise InputError(
            f"output_format must hold {low:.6g} to {high:.6g} or saturate, but holds {output_format.min_value} to "
            f"{output_format.max_value} and has overflow '{output_format.overflow}'",
            hint="use overflow 'saturate' or more bits",
            field=("output_format", "overflow"),
        )


def check_codes(codes: NDArray[np.int64], input_format: FixedPoint) -> None:
    """Check that all codes (ndarray[...], int64) are in a format.

    Raises
    ------
    InputError
        One is not.
    """
    low, high = input_format.min_code, input_format.max_code
    if codes.size and (codes.min() < low or codes.max() > high):
        raise InputError(
            f"codes must be from {low} to {high}, not {int(codes.min())} to {int(codes.max())}",
            hint="quantize the numbers by the input format",
        )
