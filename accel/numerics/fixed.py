"""Fixed-point number formats: one type for models, golden models and hardware."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.errors import InputError

__all__ = ["FixedPoint", "Overflow", "Rounding", "round_shift"]

MAX_WIDTH_BITS = 62
"""Codes are held in int64; one bit is the sign and one is left for the rounding increment."""

_HUGE = 1 << MAX_WIDTH_BITS
"""Codes of this size, and their negatives, are out of the range of every format."""


class Rounding(StrEnum):
    """What happens to bits below the resolution."""

    TRUNCATE = "truncate"
    """Towards minus infinity: the bits are dropped."""
    NEAREST_EVEN = "nearest_even"
    """To the nearest code; halfway cases to the even one."""
    NEAREST_UP = "nearest_up"
    """To the nearest code; halfway cases towards plus infinity."""


class Overflow(StrEnum):
    """What happens to a value outside the range."""

    SATURATE = "saturate"
    """The nearest end of the range is taken."""
    WRAP = "wrap"
    """The bits above the width are dropped."""
    ERROR = "error"
    """An ``InputError`` names the value; in hardware the format promises that it cannot happen."""


def _integers(codes: ArrayLike) -> NDArray[np.int64]:
    """Return ``codes`` as int64; numpy alone would cut off fractions and the bits above 64 in silence."""
    given = np.asarray(codes)
    if given.dtype.kind not in "bui" and given.size:
        raise InputError(
            f"codes must be integers of at most 64 bits, not {given.dtype}", hint="quantize real values first"
        )
    if given.dtype == np.uint64 and (given >> np.uint64(63)).any():
        raise InputError("codes must be below 2**63", hint="reduce them to the width of their format first")
    return given.astype(np.int64)


def round_shift(codes: ArrayLike, shift: ArrayLike, rounding: Rounding) -> NDArray[np.int64]:
    """Return ``codes / 2**shift`` rounded to integers, exactly; ``shift`` may be negative (a left shift).

    Parameters
    ----------
    codes : ndarray[...], int64
        Integers; the caller answers for the range of a left shift.
    shift : ndarray[...], int64
        Broadcast against ``codes``; any size.
    rounding : Rounding
        Rule for the bits that are shifted out.

    Raises
    ------
    InputError
        ``codes`` or ``shift`` are not integers.
    """
    code, by = np.broadcast_arrays(_integers(codes), _integers(shift))
    right = np.clip(by, 0, 63)
    floor = code >> right
    rest = code - (floor << right)
    half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
    if rounding is Rounding.TRUNCATE:
        up = np.zeros_like(rest)
    elif rounding is Rounding.NEAREST_UP:
        up = ((right > 0) & (rest >= half)).astype(np.int64)
    else:
        up = ((right > 0) & ((rest > half) | ((rest == half) & (floor & 1 == 1)))).astype(np.int64)
    if rounding is not Rounding.TRUNCATE:
        # Here the quotient lies in [-1/2, 1/2): the nearest integer is 0, so a floor of -1 goes up.
        up = np.where(by > 63, floor & 1, up)
    shifted: NDArray[np.int64] = (floor + up) << -np.clip(by, -64, 0)
    return shifted


_TEXT = re.compile(
    r"(?P<sign>[su])(?P<width>[0-9]{1,9})f(?P<fraction>-?[0-9]{1,9}),(?P<rounding>\w+),(?P<overflow>\w+)"
)


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """A fixed-point format: the value of a code ``c`` is ``c * 2**-fraction_bits``.

    No field has a default: what happens to lost bits and to values out of range is a decision, never an accident.

    Parameters
    ----------
    signed : bool
        Two's complement if true, else non-negative only.
    width_bits : int
        All bits, the sign included; 1 to 62.
    fraction_bits : int
        Bits below the binary point; may be negative or above ``width_bits``.
    rounding : Rounding
        What happens to bits below the resolution.
    overflow : Overflow
        What happens to values out of range.

    Raises
    ------
    InputError
        ``width_bits`` outside 1 to 62, ``fraction_bits`` outside -62 to 62, or a field of another type.
    """

    signed: bool
    width_bits: int
    fraction_bits: int
    rounding: Rounding
    overflow: Overflow

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check types and ranges; a rounding or overflow given as plain text would compare unequal to every rule."""
        for name, kind, hint in (
            ("signed", bool, "pass True or False"),
            ("width_bits", int, "pass an int"),
            ("fraction_bits", int, "pass an int"),
            ("rounding", Rounding, "pass Rounding.TRUNCATE, Rounding.NEAREST_EVEN or Rounding.NEAREST_UP"),
            ("overflow", Overflow, "pass Overflow.SATURATE, Overflow.WRAP or Overflow.ERROR"),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise InputError(f"{name} must be of type {kind.__name__}, not {value!r}", hint=hint, field=(name,))
        if not 1 <= self.width_bits <= MAX_WIDTH_BITS:
            raise InputError(
                f"width_bits must be from 1 to {MAX_WIDTH_BITS}, not {self.width_bits}",
                hint="choose a narrower format" if self.width_bits > 1 else "choose a wider format",
                field=("width_bits",),
            )
        if not -MAX_WIDTH_BITS <= self.fraction_bits <= MAX_WIDTH_BITS:
            raise InputError(
                f"fraction_bits must be from {-MAX_WIDTH_BITS} to {MAX_WIDTH_BITS}, not {self.fraction_bits}",
                hint="scale the values nearer to 1",
                field=("fraction_bits",),
            )

    @classmethod
    def parse(cls, text: str) -> FixedPoint:
        """Return the format that ``text`` names: ``s16f10,nearest_even,saturate``.

        The parts are sign (``s`` or ``u``) and width, fraction bits, rounding and overflow.

        Raises
        ------
        InputError
            ``text`` has another form.
        """
        match = _TEXT.fullmatch(text.strip())
        modes = ([str(rule) for rule in Rounding], [str(rule) for rule in Overflow])
        if match is None or match["rounding"] not in modes[0] or match["overflow"] not in modes[1]:
            raise InputError(
                f"a number format must read like s16f10,nearest_even,saturate, not {text!r}",
                hint=f"give sign and width, fraction bits, rounding ({', '.join(modes[0])}) "
                f"and overflow ({', '.join(modes[1])})",
            )
        return cls(
            signed=match["sign"] == "s",
            width_bits=int(match["width"]),
            fraction_bits=int(match["fraction"]),
            rounding=Rounding(match["rounding"]),
            overflow=Overflow(match["overflow"]),
        )

    def __str__(self) -> str:
        """Return the text that ``parse`` reads."""
        sign = "s" if self.signed else "u"
        return f"{sign}{self.width_bits}f{self.fraction_bits},{self.rounding},{self.overflow}"

    @property
    def min_code(self) -> int:
        """Smallest code."""
        return -(1 << (self.width_bits - 1)) if self.signed else 0

    @property
    def max_code(self) -> int:
        """Largest code."""
        return (1 << (self.width_bits - self.signed)) - 1

    @property
    def resolution(self) -> float:
        """Value of one code step."""
        return 2.0**-self.fraction_bits

    @property
    def min_value(self) -> float:
        """Smallest value."""
        return self.min_code * self.resolution

    @property
    def max_value(self) -> float:
        """Largest value."""
        return self.max_code * self.resolution

    def quantize(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return the codes of real ``values`` (ndarray[...], float64), rounded and brought into range by the format.

        Raises
        ------
        InputError
            A value is NaN; or it is infinite and ``overflow`` is not ``saturate``; or it has 2**62 steps or more and
            ``overflow`` is ``wrap``; or it is out of range and ``overflow`` is ``error``.
        """
        real = np.asarray(values, np.float64)
        if np.isnan(real).any():
            raise InputError("values must be numbers, not NaN", hint="mask or replace the NaN first")
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ldexp(real, self.fraction_bits)
        # A value that vanishes here still has a sign, which truncation heeds.
        scaled = np.where((scaled == 0) & (real != 0), np.copysign(0.125, real), scaled)
        huge = np.abs(scaled) >= _HUGE
        if self.overflow is Overflow.WRAP and huge.any():
            raise InputError(
                f"values that wrap must stay below 2**62 steps of {self.resolution}, not {float(real[huge].flat[0])}",
                hint="use overflow 'saturate'",
            )
        # Values of 2**62 steps and more are out of any range: clipping there keeps the conversion to int64 exact.
        scaled = np.clip(scaled, -_HUGE, _HUGE)
        floor = np.floor(scaled)
        rest = scaled - floor
        if self.rounding is Rounding.TRUNCATE:
            up = np.zeros(real.shape, bool)
        elif self.rounding is Rounding.NEAREST_UP:
            up = rest >= 0.5
        else:
            up = (rest > 0.5) | ((rest == 0.5) & (np.fmod(floor, 2.0) != 0.0))
        return self._fit(floor.astype(np.int64) + up, real, 0)

    def fit(self, codes: ArrayLike) -> NDArray[np.int64]:
        """Return integer ``codes`` brought into the range of the format by its overflow rule.

        Raises
        ------
        InputError
            A code is out of range and ``overflow`` is ``error``, or ``codes`` are not integers.
        """
        code = _integers(codes)
        return self._fit(code, code, self.fraction_bits)

    def _fit(self, code: NDArray[np.int64], given: NDArray[Any], given_fraction_bits: int) -> NDArray[np.int64]:
        """Return ``code`` in range; the message names the value that was ``given``, before rounding."""
        if self.overflow is Overflow.SATURATE:
            return np.clip(code, self.min_code, self.max_code)
        if self.overflow is Overflow.WRAP:
            return self.from_bits(code)
        outside = (code < self.min_code) | (code > self.max_code)
        if outside.any():
            with np.errstate(over="ignore"):
                real = float(np.ldexp(float(given[outside].flat[0]), -given_fraction_bits))
            raise InputError(
                f"values of {self} must be from {self.min_value} to {self.max_value}, not {real}",
                hint="widen the format or let it saturate",
            )
        return code

    def convert(self, codes: ArrayLike, fraction_bits: int) -> NDArray[np.int64]:
        """Return ``codes`` of a number with ``fraction_bits`` as codes of this format; exact but for its own rounding.

        Raises
        ------
        InputError
            As ``fit``.
        """
        code = given = _integers(codes)
        shift = fraction_bits - self.fraction_bits
        if shift < 0 and self.overflow is not Overflow.WRAP:
            # A left shift must not run into the sign: what reaches 2**62 is out of range as well as what exceeds it.
            shift = max(shift, -MAX_WIDTH_BITS)
            code = np.clip(code, -(_HUGE >> -shift), _HUGE >> -shift)
        return self._fit(round_shift(code, shift, self.rounding), given, fraction_bits)

    def to_real(self, codes: ArrayLike) -> NDArray[np.float64]:
        """Return the values of ``codes`` as float64 (exact up to 53 bits)."""
        return np.ldexp(_integers(codes).astype(np.float64), -self.fraction_bits)

    def to_bits(self, codes: ArrayLike) -> NDArray[np.int64]:
        """Return the two's complement bit patterns of ``codes`` as non-negative integers."""
        bits: NDArray[np.int64] = _integers(codes) & ((1 << self.width_bits) - 1)
        return bits

    def from_bits(self, bits: ArrayLike) -> NDArray[np.int64]:
        """Return the codes whose low ``width_bits`` are those of ``bits``."""
        low = self.to_bits(bits)
        return np.where(low > self.max_code, low - (1 << self.width_bits), low)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain data, as sidecars and results show them."""
        return {
            "signed": self.signed,
            "width_bits": self.width_bits,
            "fraction_bits": self.fraction_bits,
            "rounding": str(self.rounding),
            "overflow": str(self.overflow),
        }
