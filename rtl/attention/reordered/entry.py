"""The reordered attention unit as the registry lists it."""

from __future__ import annotations

from accel.numerics import FixedPoint
from accel.reordered_unit import ReorderedUnit
from rtl.attention.reordered.core import ReorderedAttention, reordered_contract
from rtl.entry import UnitEntry

__all__ = ["DEFAULT", "ENTRIES"]

_TENSOR = FixedPoint.parse("s16f12,nearest_even,saturate")

DEFAULT = ReorderedUnit(
    max_length=128,
    key_features=64,
    value_features=64,
    slots=4,
    block=8,
    query_format=_TENSOR,
    key_format=_TENSOR,
    value_format=_TENSOR,
    output_format=_TENSOR,
)
"""Parameters that suit most models: Edge-MoE's four rows and eight features."""

ENTRIES = (
    UnitEntry(
        name="attention-reordered",
        summary="attention of p query rows at a time, with one key and one value block a cycle whatever p is",
        make_default=lambda: DEFAULT,
        contract=reordered_contract,
        build=ReorderedAttention,
    ),
)
"""The blocks of this family."""
