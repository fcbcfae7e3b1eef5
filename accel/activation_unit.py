"""The contract of the activation units: functions, parameters, derived widths, and the arithmetic bit by bit.

Hardware (``rtl.activation``) and golden model (``sim.golden.activation``) are two independent readings of this page.

Each function f is a straight line on either side of 0, plus or minus a residual of the distance from 0 that vanishes
far out: GELU is ``relu(x) - delta(|x|)`` with ``delta(a) = a Phi(-a)``, after Edge-MoE (arXiv 2305.18691), and the
others likewise. Only the residual needs a table, and only near 0. For an input code x, all quantities integers:

1. ``a = abs(x)``, as wide as x: the most negative code has a magnitude too, and nothing wraps.
2. ``half`` is the function's ``positive`` for x >= 0 and its ``negative`` for x < 0. The table's part is 0, but 1 for
   x < 0 if the function is not ``symmetric``.
3. ``V`` is the value of ``table`` (a ``SegmentTable``) at a in that part, with C = ``table.value_fraction_bits``, if
   the segment ``a >> table.low_bits`` is one of that part, else 0. The words of part 1 follow those of part 0.
4. ``total = half.slope * x * 2**(C - input fraction bits) + half.offset * 2**C + half.sign * V``.
5. The result is ``total`` with C fraction bits, rounded and fitted by the output format: the only rounding but the one
   in the table. Invalid lanes give 0.

Timing, the output being always ready: a beat that is offered is accepted ``interval_cycles`` after the one before it,
and stands at the output ``latency_cycles`` later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from accel.checks import check_holds, check_known, check_range, check_ranges, check_rounding, check_signed
from accel.errors import InputError
from accel.numerics import FixedPoint, Overflow, Rounding
from accel.numerics.segments import Corridor, SegmentTable, fixed_table, smallest_table

__all__ = ["ACTIVATIONS", "Activation", "ActivationUnit", "Half", "TableShape", "fitting_output"]

Reals = NDArray[np.float64]

MAX_ERROR_RANGE = (2.0**-24, 2.0**-3)
STEPS_IN_ERROR = 16
"""The finest coefficients that are searched have about this many steps in ``max_error``."""


@dataclass(frozen=True, kw_only=True)
class Half:
    """A function on one side of 0: ``slope * x + offset + sign * residual(|x|)``; slope or offset is 0."""

    slope: int
    offset: int
    sign: int


@dataclass(frozen=True, kw_only=True)
class Activation:
    """A function that the unit can compute.

    Parameters
    ----------
    name, summary : str
        As users call it; what it is.
    exact : callable
        ``exact(x)`` for ndarray[...], float64: the function itself.
    positive, negative : Half
        For x >= 0 and x < 0.
    symmetric : bool
        Both halves have the same residual.
    """

    name: str
    summary: str
    exact: Callable[[Reals], Reals]
    positive: Half
    negative: Half
    symmetric: bool


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: Reals) -> Reals:
    result: Reals = np.exp(-np.logaddexp(0.0, -x))
    return result


def _mish(x: Reals) -> Reals:
    result: Reals = x * np.tanh(np.logaddexp(0.0, x))
    return result


def _ramp(name: str, summary: str, exact: Callable[[Reals], Reals], *, sign: int, symmetric: bool = True) -> Activation:
    """Return a function that is relu(x) but for a residual."""
    halves = (Half(slope=slope, offset=0, sign=sign) for slope in (1, 0))
    return Activation(
        name=name, summary=summary, exact=exact, positive=next(halves), negative=next(halves), symmetric=symmetric
    )


ACTIVATIONS: Mapping[str, Activation] = {
    each.name: each
    for each in (
        _ramp(
            "gelu", "x Phi(x), Phi being the normal distribution", lambda x: x * _erfc(-x / math.sqrt(2)) / 2, sign=-1
        ),
        _ramp(
            "gelu-tanh",
            "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, the form of GELU that GPT-2 uses",
            lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
            sign=-1,
        ),
        _ramp(
            "quick-gelu",
            "x sigmoid(1.702 x), the form of GELU that CLIP uses",
            lambda x: x * _sigmoid(1.702 * x),
            sign=-1,
        ),
        _ramp("silu", "x sigmoid(x), also called swish", lambda x: x * _sigmoid(x), sign=-1),
        _ramp("softplus", "ln(1 + e^x)", lambda x: np.logaddexp(0.0, x), sign=1),
        _ramp("mish", "x tanh(softplus(x))", _mish, sign=-1, symmetric=False),
        Activation(
            name="sigmoid",
            summary="1 / (1 + e^-x)",
            exact=_sigmoid,
            positive=Half(slope=0, offset=1, sign=-1),
            negative=Half(slope=0, offset=0, sign=1),
            symmetric=True,
        ),
        Activation(
            name="tanh",
            summary="hyperbolic tangent",
            exact=np.tanh,
            positive=Half(slope=0, offset=1, sign=-1),
            negative=Half(slope=0, offset=-1, sign=1),
            symmetric=True,
        ),
    )
}
"""All functions by name."""


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """A point of the space in which the table is searched.

    Parameters
    ----------
    degree : int
        Of the polynomials, 1 or 2: the number of multipliers.
    low_bits : int
        log2 of the input codes in a segment; 2 to 18.
    fraction_bits : int
        Of the coefficients; 1 to 28.

    Raises
    ------
    InputError
        A number is out of range.
    """

    degree: int
    low_bits: int
    fraction_bits: int

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_ranges(self, (("degree", 1, 2), ("low_bits", 2, 18), ("fraction_bits", 1, 28)))


@dataclass(frozen=True, kw_only=True)
class ActivationUnit:
    """Parameters of an activation unit and everything that follows from them.

    Parameters
    ----------
    function : str
        One of ``ACTIVATIONS``.
    max_error : float
        Largest distance of any result from the exact function of the input code, the function being brought into the
        range of the output format; 2**-24 to 1/8, and at least the rounding error of the output.
    lanes : int
        Numbers in a beat; 1 to 64.
    input_format : FixedPoint
        Of x: signed, 4 to 18 bits, 0 to 18 fraction bits.
    output_format : FixedPoint
        Of the result: 1 to 24 fraction bits, at most 40 bits. Unless it saturates, it must hold the function's range;
        the table is then such that all results fit.
    max_degree : int
        Largest degree of the table's polynomials, which is the number of multipliers of a lane; 1 or 2.
    shape : TableShape, optional
        Shape of the table; if absent, the one with the fewest ROM bits is searched, which takes seconds.
    lanes_per_table : int
        Lanes that share a table and its multipliers, one after the other; divides ``lanes``. A beat is then accepted
        once in so many cycles: as little hardware as the rate allows.

    Raises
    ------
    InputError
        A parameter is out of range, or no table keeps ``max_error``.
    """

    function: str
    max_error: float
    lanes: int
    input_format: FixedPoint
    output_format: FixedPoint
    max_degree: int = 2
    shape: TableShape | None = None
    lanes_per_table: int = 1

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter, and find the table: an error that cannot be kept is a wrong parameter too."""
        check_known(self.function, ACTIVATIONS, "activation")
        check_ranges(
            self,
            (
                ("max_error", *MAX_ERROR_RANGE),
                ("lanes", 1, 64),
                ("max_degree", 1, 2),
                ("input_format.width_bits", 4, 18),
                ("input_format.fraction_bits", 0, 18),
                ("output_format.fraction_bits", 1, 24),
                ("output_format.width_bits", 2, 40),
            ),
        )
        if self.lanes_per_table < 1 or self.lanes % self.lanes_per_table:
            raise InputError(
                f"lanes_per_table must divide the {self.lanes} lane(s), but is {self.lanes_per_table}",
                hint=f"use {math.gcd(self.lanes, max(self.lanes_per_table, 1))}",
                field=("lanes_per_table",),
            )
        check_signed("input_format", self.input_format)
        check_rounding(self.max_error, self.output_format)
        exact = self.activation.exact(self.input_values)
        check_holds(self.output_format, float(exact.min()), float(exact.max()))
        if self.table is None:
            raise AssertionError("a table is found or an error raised")

    @property
    def activation(self) -> Activation:
        """The function."""
        return ACTIVATIONS[self.function]

    @property
    def input_values(self) -> Reals:
        """All inputs as real numbers, from the most negative code up."""
        return self.input_format.to_real(np.arange(self.input_format.min_code, self.input_format.max_code + 1))

    @cached_property
    def table(self) -> SegmentTable:
        """The table of the residual: of ``shape``, or the smallest that keeps ``max_error``.

        Raises
        ------
        InputError
            There is none.
        """
        found = _table(
            self.function, self.max_error, self.input_format, self.output_format, self.max_degree, self.shape
        )
        if found is not None:
            return found
        if self.shape is not None:
            raise InputError(
                f"shape must allow a table with max_error {self.max_error}, but degree {self.shape.degree}, low_bits "
                f"{self.shape.low_bits} and fraction_bits {self.shape.fraction_bits} do not",
                hint="leave shape out to search for one that does",
                field=("shape",),
            )
        raise InputError(
            f"max_error {self.max_error} must leave room beside the output's rounding for a table, but does not",
            hint="use one more fraction bit in output_format",
            field=("max_error",),
        )

    @cached_property
    def results(self) -> NDArray[np.int64]:
        """All results by the contract, for the input codes from the most negative up; ndarray[2**width], int64."""
        return self.output_format.convert(self._totals, self.table.value_fraction_bits)

    @cached_property
    def _totals(self) -> NDArray[np.int64]:
        table, source = self.table, self.input_format
        code = np.arange(source.min_code, source.max_code + 1)
        totals = np.zeros_like(code)
        for half, chosen in ((self.activation.positive, code >= 0), (self.activation.negative, code < 0)):
            part = int(half is self.activation.negative and not self.activation.symmetric)
            size = table.parts[part] << table.low_bits
            start = sum(table.parts[:part]) << table.low_bits
            magnitude = np.abs(code[chosen])
            value = np.where(magnitude < size, table.evaluate(start + np.minimum(magnitude, size - 1)), 0)
            line = half.slope * code[chosen] << (table.value_fraction_bits - source.fraction_bits)
            totals[chosen] = line + (half.offset << table.value_fraction_bits) + half.sign * value
        return totals

    @property
    def total_range(self) -> tuple[int, int]:
        """Smallest and largest ``total`` of step 4, over every input code."""
        return int(self._totals.min()), int(self._totals.max())

    @cached_property
    def worst_error(self) -> float:
        """Largest distance of any result from the exact function, found by trying every input code."""
        target = self.output_format
        exact = np.clip(self.activation.exact(self.input_values), target.min_value, target.max_value)
        return float(np.abs(target.to_real(self.results) - exact).max())

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a beat to its results at the output, which is idle and ready."""
        return 4 + 2 * self.table.degree + self.lanes_per_table

    @property
    def interval_cycles(self) -> int:
        """Cycles between two accepted beats, the output being ready."""
        return self.lanes_per_table

    @property
    def tables(self) -> int:
        """Tables, and pipelines, that the unit has."""
        return self.lanes // self.lanes_per_table


def _fraction_bits(max_error: float) -> int:
    """Return the fewest fraction bits whose half step is at most a third of ``max_error``."""
    return math.ceil(math.log2(1.5 / max_error))


def fitting_output(function: str, max_error: float, input_format: FixedPoint) -> FixedPoint:
    """Return an output format that suits: rounding takes at most a third of ``max_error``, and all results fit.

    Raises
    ------
    InputError
        ``function`` or ``max_error`` is out of range.
    """
    check_known(function, ACTIVATIONS, "activation")
    check_range(("max_error",), max_error, *MAX_ERROR_RANGE)
    bits = min(max(_fraction_bits(max_error), 1), 24)
    ends = input_format.to_real(np.arange(input_format.min_code, input_format.max_code + 1))
    exact = ACTIVATIONS[function].exact(ends)
    # The function stays inside these ends but for the error, which saturates.
    signed = bool(exact.min() < 0)
    most = int(np.floor(max(exact.max(), 2.0**-bits) * 2**bits))
    least = int(np.floor(-min(exact.min(), 0.0) * 2**bits))
    return FixedPoint(
        signed=signed,
        width_bits=max(most.bit_length(), least.bit_length()) + signed,
        fraction_bits=bits,
        rounding=Rounding.NEAREST_UP,
        overflow=Overflow.SATURATE,
    )


def _corridor(function: str, max_error: float, source: FixedPoint, target: FixedPoint, *, negative: bool) -> Corridor:
    """Return what the residual may be on one side.

    Limits lie round the function itself, saturated or not: bringing both into a range moves no two numbers apart. The
    code 0 belongs to the positive side; as all functions are continuous, its limits suit the negative one too.
    """
    activation = ACTIVATIONS[function]
    half = activation.negative if negative else activation.positive
    magnitude = np.arange(-source.min_code + 1 if negative else source.max_code + 1)
    code = -magnitude if negative else magnitude
    exact = activation.exact(source.to_real(code))
    scale = 2.0**target.fraction_bits
    lowest = np.ceil((exact - max_error) * scale).astype(np.int64)
    highest = np.floor((exact + max_error) * scale).astype(np.int64)
    if target.overflow is not Overflow.SATURATE:
        lowest, highest = np.maximum(lowest, target.min_code), np.minimum(highest, target.max_code)
    return Corridor(
        lowest=lowest,
        highest=highest,
        base=half.slope * code + (half.offset << source.fraction_bits),
        base_fraction_bits=source.fraction_bits,
        fraction_bits=target.fraction_bits,
        sign=half.sign,
        rounding=target.rounding,
    )


@lru_cache(maxsize=256)
def _table(
    function: str,
    max_error: float,
    source: FixedPoint,
    target: FixedPoint,
    max_degree: int,
    shape: TableShape | None,
) -> SegmentTable | None:
    sides = [_corridor(function, max_error, source, target, negative=negative) for negative in (False, True)]
    parts = [sides] if ACTIVATIONS[function].symmetric else [[side] for side in sides]
    if shape is not None:
        return fixed_table(parts, degree=shape.degree, low_bits=shape.low_bits, fraction_bits=shape.fraction_bits)
    finest = math.ceil(math.log2(STEPS_IN_ERROR / max_error))
    return smallest_table(parts, degrees=range(1, max_degree + 1), fraction_bits=range(1, finest + 1), whole=False)
