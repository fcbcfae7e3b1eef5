"""The reciprocal block."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.errors import InputError
from accel.numerics import LinearTable
from accel.numerics.tables import newton_reciprocal_error
from rtl.lookup import TableLookup
from rtl.normalise import Normalise
from rtl.stream import delay, flow

__all__ = ["Reciprocal"]


class Reciprocal(wiring.Component):
    """Computes the reciprocal of a positive integer as a mantissa and an exponent, one value a cycle.

    For a value v it finds ``e = floor(log2(v))`` and the mantissa f of ``fraction_bits`` = r fraction bits with
    ``v = f * 2**e`` but for rounding (half up, and never to 2), looks up a first guess y0 of 1/f with k fraction bits,
    and takes one Newton step: ``d = floor(2 - f * y0)`` with r fraction bits and ``y = round_half_up(y0 * d)`` with r
    fraction bits. The result is ``1 / v = y * 2**-e`` with a relative error of at most ``max_relative_error``. For v =
    0 the result means nothing. Latency ``search_cycles + 9``, interval 1.

    Parameters
    ----------
    value_bits : int
        Width of the value; at least ``fraction_bits + 1``.
    fraction_bits : int
        Fraction bits r of the normalised value and of the result.
    guess : LinearTable
        Of ``1 / (1 + u)`` with an argument of r bits.
    search_cycles : int
        1 or 2: cycles in which the leading 1 is found.

    Members
    -------
    value : In(flow(unsigned(value_bits)))
        v.
    result : Out(flow({exponent: unsigned, mantissa: unsigned(fraction_bits + 1)}))
        e and y, valid ``latency_cycles`` after their value.

    Raises
    ------
    InputError
        ``value_bits`` is too small, or the argument of ``guess`` has not ``fraction_bits`` bits.
    """

    interval_cycles = 1

    def __init__(self, *, value_bits: int, fraction_bits: int, guess: LinearTable, search_cycles: int = 1) -> None:
        if value_bits < fraction_bits + 1:
            raise InputError(
                f"value_bits must be at least fraction_bits + 1 = {fraction_bits + 1}, not {value_bits}",
                hint=f"use {fraction_bits + 1}",
                field=("value_bits",),
            )
        if guess.argument_bits != fraction_bits:
            raise InputError(
                f"the argument of guess must have fraction_bits = {fraction_bits} bits, not {guess.argument_bits}",
                hint=f"make it with argument_bits={fraction_bits}",
                field=("guess",),
            )
        self._value_bits, self._fraction_bits, self._guess = value_bits, fraction_bits, guess
        self._search_cycles = search_cycles
        super().__init__(
            {
                "value": In(flow(unsigned(value_bits))),
                "result": Out(
                    flow(data.StructLayout({"exponent": range(value_bits), "mantissa": unsigned(fraction_bits + 1)}))
                ),
            }
        )

    @staticmethod
    def latency_cycles_of(search_cycles: int = 1) -> int:
        """Return the cycles from a value to its result."""
        return search_cycles + 2 + TableLookup.latency_cycles + 4

    @property
    def latency_cycles(self) -> int:
        """Cycles from a value to its result."""
        return self.latency_cycles_of(self._search_cycles)

    @property
    def value_bits(self) -> int:
        """Width of the value."""
        return self._value_bits

    @property
    def fraction_bits(self) -> int:
        """Fraction bits of the mantissa."""
        return self._fraction_bits

    @property
    def guess(self) -> LinearTable:
        """Table of the first guess."""
        return self._guess

    @property
    def max_relative_error(self) -> float:
        """Bound on the relative error of the result."""
        return newton_reciprocal_error(self._guess, self._fraction_bits)

    def elaborate(self, platform: Any) -> Any:
        """Build: find the leading 1 (1 or 2), shift (1), round (1), look up (3), multiply and round twice (4)."""
        m = Module()
        m.submodules.normalise = normal = Normalise(
            value_bits=self._value_bits, fraction_bits=self._fraction_bits, search_cycles=self._search_cycles
        )
        wiring.connect(m, wiring.flipped(self.value), normal.value)
        fraction, exponent = normal.result.payload.fraction, normal.result.payload.exponent
        bits, guess_bits = self._fraction_bits, self._guess.result_fraction_bits

        m.submodules.lookup = lookup = TableLookup(self._guess)
        m.d.comb += lookup.argument.payload.eq(fraction)
        m.d.comb += lookup.argument.valid.eq(normal.result.valid)
        y0 = lookup.result.payload
        mantissa = Cat(delay(m, fraction, TableLookup.latency_cycles, name="fraction"), Const(1, 1))

        product = Signal(len(mantissa) + len(y0), reset_less=True)
        correction = Signal(bits + 1, reset_less=True)
        refined = Signal(len(y0) + len(correction), reset_less=True)
        result = Signal(bits + 1, reset_less=True)
        # 2 - f * y0 lies in (0, 2), for y0 is about 1 / f: r + 1 bits hold it.
        rest = Signal(bits + guess_bits + 2)
        rounded = Signal(len(refined) + 1)
        m.d.comb += rest.eq((Const(1 << (bits + guess_bits + 1), len(rest)) - product)[: len(rest)])
        m.d.comb += rounded.eq(refined + Const(1 << (guess_bits - 1), guess_bits))
        m.d.sync += [
            product.eq(mantissa * y0),
            correction.eq(rest[guess_bits:][: len(correction)]),
            refined.eq(delay(m, y0, 2, name="guess") * correction),
            result.eq(rounded[guess_bits:][: len(result)]),
        ]
        m.d.comb += [
            self.result.payload.mantissa.eq(result),
            self.result.payload.exponent.eq(delay(m, exponent, 7, name="exponent")),
            self.result.valid.eq(delay(m, lookup.result.valid, 4, name="result_valid", reset_less=False)),
        ]
        return m
