"""The spatial attention array as the registry lists it."""

from __future__ import annotations

import dataclasses

from accel.arch import load_architecture
from accel.attention_array import CASCADE, AttentionArray
from accel.numerics import FixedPoint
from accel.schedule import Schedule, load_template
from rtl.attention.array.core import AttentionArrayCore, array_contract
from rtl.entry import UnitEntry

__all__ = ["ENTRIES"]

_TENSOR = FixedPoint.parse("s16f12,nearest_even,saturate")


def _default() -> AttentionArray:
    """Return the array that ``einrtl rtl attention-array`` writes where nothing is said."""
    machine = load_architecture("fpga-attention-8x8")
    unit = AttentionArray.of(
        machine,
        Schedule(
            cascade=CASCADE,
            architecture=machine.name,
            tiles={"m0": 8, "p1": 4, "p0": 8},
            plan=load_template("spatial-array-1pass").plan,
        ),
        query_key_dim=64,
        value_dim=64,
        max_length=1024,
        query_format=_TENSOR,
        key_format=_TENSOR,
        value_format=_TENSOR,
        output_format=_TENSOR,
    )
    return dataclasses.replace(unit, lone_stall_cycles=16)  # what with_stalls finds, kept for speed


ENTRIES = (
    UnitEntry(
        name="attention-array",
        summary="attention in one pass over the keys on a spatial array that follows a schedule",
        make_default=_default,
        contract=array_contract,
        build=AttentionArrayCore,
    ),
)
"""The blocks of this family."""
