"""The primitive blocks that can be built by name."""

from __future__ import annotations

from functools import partial

from accel.activation_unit import TableShape
from accel.numerics import FixedPoint
from accel.primitive_unit import PRIMITIVES, PrimitiveUnit
from rtl.entry import UnitEntry
from rtl.primitive.core import PrimitiveBlock, primitive_contract

__all__ = ["DEFAULTS", "ENTRIES"]

DEFAULTS: dict[str, tuple[str, str, float, tuple[int, int, int]]] = {
    "exp2": ("s16f11,nearest_even,saturate", "u16f15,nearest_up,saturate", 5e-5, (2, 8, 15)),
    "exp": ("s16f11,nearest_even,saturate", "u16f15,nearest_up,saturate", 5e-5, (2, 14, 15)),
    "reciprocal": ("u16f8,nearest_even,saturate", "u16f15,nearest_up,saturate", 5e-5, (2, 11, 15)),
    "rsqrt": ("u16f8,nearest_even,saturate", "u16f12,nearest_up,saturate", 2e-4, (2, 12, 16)),
    "log2": ("u16f8,nearest_even,saturate", "s16f11,nearest_up,saturate", 5e-4, (2, 13, 12)),
}
"""Formats, error, and the shape of the smallest table (degree, low bits, fraction bits), found by the search."""


def _default(function: str) -> PrimitiveUnit:
    source, target, max_error, (degree, low_bits, fraction_bits) = DEFAULTS[function]
    return PrimitiveUnit(
        function=function,
        max_error=max_error,
        lanes=1,
        input_format=FixedPoint.parse(source),
        output_format=FixedPoint.parse(target),
        shape=TableShape(degree=degree, low_bits=low_bits, fraction_bits=fraction_bits),
    )


ENTRIES = tuple(
    UnitEntry(
        name=name,
        summary=f"{PRIMITIVES[name].summary} of every number, by the smallest table that keeps an error",
        make_default=partial(_default, name),
        contract=primitive_contract,
        build=PrimitiveBlock,
    )
    for name in DEFAULTS
)
"""For the registry of blocks."""
