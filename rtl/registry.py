"""The blocks that can be built by name.

A family with blocks of its own lists them in its package (``ENTRIES``) and is named here once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from accel.activation_unit import ACTIVATIONS, ActivationUnit, TableShape, fitting_output
from accel.errors import InputError, did_you_mean
from accel.norm_unit import NORMS, NormUnit
from accel.numerics import FixedPoint, Overflow, Rounding
from accel.softmax_unit import SoftmaxUnit
from rtl.activation import ENTRIES as CLOSED_ENTRIES
from rtl.activation import ActivationBlock, activation_contract
from rtl.attention.array import ENTRIES as ARRAY_ENTRIES
from rtl.attention.reordered import ENTRIES as REORDERED_ENTRIES
from rtl.block import ENTRIES as BLOCK_ENTRIES
from rtl.entry import UnitEntry
from rtl.norm import Norm, norm_contract
from rtl.primitive import ENTRIES as PRIMITIVE_ENTRIES
from rtl.softmax import ENTRIES as SOFTMAX_ENTRIES
from rtl.softmax import Softmax, softmax_contract

__all__ = ["UNITS", "UnitEntry", "find_unit", "summaries"]


_DEFAULT_SOFTMAX = SoftmaxUnit(
    max_length=256,
    lanes=1,
    input_format=FixedPoint(
        signed=True,
        width_bits=16,
        fraction_bits=10,
        rounding=Rounding.NEAREST_EVEN,
        overflow=Overflow.SATURATE,
    ),
    output_format=FixedPoint(
        signed=False,
        width_bits=16,
        fraction_bits=16,
        rounding=Rounding.NEAREST_UP,
        overflow=Overflow.SATURATE,
    ),
    exp_segments=64,
)

ACTIVATION_INPUT = FixedPoint(
    signed=True, width_bits=16, fraction_bits=12, rounding=Rounding.NEAREST_EVEN, overflow=Overflow.SATURATE
)
ACTIVATION_ERROR = 1e-4

_FOUND_SHAPES = {
    "gelu": (2, 10, 15),
    "gelu-tanh": (2, 10, 15),
    "quick-gelu": (2, 10, 15),
    "silu": (2, 10, 14),
    "softplus": (2, 11, 16),
    "mish": (2, 10, 14),
    "sigmoid": (2, 10, 14),
    "tanh": (2, 9, 14),
}
"""Degree, low bits and fraction bits of the smallest table for each default: what the search finds, kept for speed."""


def _default_activation(function: str) -> ActivationUnit:
    degree, low_bits, fraction_bits = _FOUND_SHAPES[function]
    return ActivationUnit(
        function=function,
        max_error=ACTIVATION_ERROR,
        lanes=1,
        input_format=ACTIVATION_INPUT,
        output_format=fitting_output(function, ACTIVATION_ERROR, ACTIVATION_INPUT),
        shape=TableShape(degree=degree, low_bits=low_bits, fraction_bits=fraction_bits),
    )


NORM_INPUT = FixedPoint(
    signed=True, width_bits=16, fraction_bits=10, rounding=Rounding.NEAREST_EVEN, overflow=Overflow.SATURATE
)
NORM_OUTPUT = FixedPoint(
    signed=True, width_bits=16, fraction_bits=11, rounding=Rounding.NEAREST_EVEN, overflow=Overflow.SATURATE
)


def _norm_entry(function: str) -> UnitEntry:
    return UnitEntry(
        name=function,
        summary=f"{NORMS[function]}, with exact sums and one 1 / sqrt for each row",
        make_default=lambda: NormUnit(
            function=function, max_length=1024, lanes=1, input_format=NORM_INPUT, output_format=NORM_OUTPUT
        ),
        contract=norm_contract,
        build=Norm,
    )


def _activation_entry(function: str) -> UnitEntry:
    return UnitEntry(
        name=function,
        summary=f"{ACTIVATIONS[function].summary}, by a table of the residual with a proven error",
        make_default=lambda: _default_activation(function),
        contract=activation_contract,
        build=ActivationBlock,
    )


UNITS: Mapping[str, UnitEntry] = {
    entry.name: entry
    for entry in (
        UnitEntry(
            name="softmax",
            summary="single-pass softmax with a running maximum whose changes rescale the sum by a shift",
            make_default=lambda: _DEFAULT_SOFTMAX,
            contract=partial(softmax_contract, counters=False),
            build=Softmax,
        ),
        *SOFTMAX_ENTRIES,
        *REORDERED_ENTRIES,
        *ARRAY_ENTRIES,
        *BLOCK_ENTRIES,
        *(_activation_entry(function) for function in ACTIVATIONS),
        *CLOSED_ENTRIES,
        *(_norm_entry(function) for function in NORMS),
        *PRIMITIVE_ENTRIES,
    )
}
"""All blocks by name."""


def find_unit(name: str) -> UnitEntry:
    """Return the block called ``name``.

    Raises
    ------
    InputError
        There is none.
    """
    if name not in UNITS:
        raise InputError(f"unit must be a known block, not {name!r}", hint=did_you_mean(name, UNITS), field=("unit",))
    return UNITS[name]


def summaries() -> list[dict[str, Any]]:
    """Return what a listing shows of each block, for its default parameters, as plain data."""
    found = []
    for entry in UNITS.values():
        contract = entry.contract(entry.default)
        found.append(
            {
                "name": entry.name,
                "family": contract.family,
                "summary": entry.summary,
                "latency_cycles": contract.latency_cycles,
                "interval_cycles": contract.interval_cycles,
                "input_format": str(contract.input_format),
                "output_format": str(contract.output_format),
                "max_error": contract.max_error,
            }
        )
    return found
