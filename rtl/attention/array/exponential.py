"""The steps of an exponential that PEs of both arrays share, as expressions of explicit width."""

from __future__ import annotations

from typing import Any

from amaranth import Array, Const, Module, Mux, Signal, signed, unsigned

from accel.attention_array import LOG2E, Exponential

__all__ = ["difference", "rescale", "scale_constants", "step_constant", "weight"]


def difference(m: Module, unit: Exponential, higher: Any, lower: Any, fraction_bits: int, *, name: str) -> Any:
    """Return u of ``higher - lower``, which is not negative: rounded, and cut off just below 16."""
    exact = Signal(len(higher), name=f"{name}_exact")
    m.d.comb += exact.eq((higher - lower)[: len(higher)])
    shift = fraction_bits - unit.difference_fraction_bits
    rounded: Any
    if shift > 0:
        whole = Signal(max(1, len(exact) - shift + 1), name=f"{name}_rounded")
        half = exact[shift - 1] if shift <= len(exact) else Const(0, 1)
        m.d.comb += whole.eq(exact[shift:] + half)
        rounded = whole
    else:
        whole = Signal(len(exact) - shift, name=f"{name}_rounded")
        m.d.comb += whole.eq(exact << -shift)
        rounded = whole
    bits = unit.difference_bits
    u = Signal(bits, name=f"{name}_cut")
    m.d.comb += u.eq(Mux(rounded[bits:].any(), Const((1 << bits) - 1, bits), rounded[:bits]))
    return u


def step_constant(unit: Exponential, step: Any) -> Any:
    """Return what is added in a step of the polynomial, step 0 being the first: C[i] * 2**w and half a step."""
    w = unit.weight_fraction_bits
    shape = signed(unit.value_bits + w)
    constants = [Const((c << w) + (1 << (w - 1)), shape) for c in reversed(unit.coefficients[:-1])]
    return constants[0] if len(constants) == 1 else Array(constants)[step]


def rescale(unit: Exponential, total: Any) -> tuple[Any, Any]:
    """Return (n, f) of the product of u and LOG2E, half a step being added."""
    w, shift = unit.weight_fraction_bits, unit.scale_shift
    return total[shift + w :][: unit.exponent_bits], total[shift:][:w]


def scale_constants(unit: Exponential) -> tuple[Any, Any]:
    """Return the factor and the addend of the scaling."""
    return Const(LOG2E, signed(LOG2E.bit_length() + 1)), Const(1 << (unit.scale_shift - 1), unsigned(unit.scale_shift))


def weight(m: Module, unit: Exponential, value: Any, exponent: Any, *, name: str) -> Any:
    """Return ``rnd(y / 2**(n + 1))`` of a y that is not negative."""
    bits = unit.weight_fraction_bits + 2
    shifted = Signal(bits, name=f"{name}_shifted")
    rounded = Signal(bits + 1, name=f"{name}_rounded")
    m.d.comb += [shifted.eq(value[:bits] >> exponent), rounded.eq(shifted + 1)]
    return rounded[1:][: unit.weight_fraction_bits + 1]
