"""The linear unit and the block unit as the registry lists them."""

from __future__ import annotations

from accel.activation_unit import ActivationUnit, TableShape
from accel.block_unit import BlockUnit
from accel.encoder_block import EncoderBlock
from accel.linear_unit import LinearUnit
from accel.numerics import FixedPoint
from rtl.block.contract import block_contract
from rtl.block.engine import BlockEngine
from rtl.entry import UnitEntry

__all__ = ["DEFAULT_BLOCK", "ENTRIES", "FEATURES", "WEIGHTS"]

FEATURES = FixedPoint.parse("s16f10,nearest_even,saturate")
WEIGHTS = FixedPoint.parse("s16f14,nearest_even,saturate")

DEFAULT_BLOCK = EncoderBlock(tokens=16, features=64, heads=4, hidden_features=128, experts=4)
"""A small encoder block with experts."""


def _default_linear() -> BlockUnit:
    """Return the unit for a layer of up to 192 x 768 (Edge-MoE, arXiv 2305.18691), with GELU."""
    gelu = ActivationUnit(
        function="gelu",
        max_error=FEATURES.resolution,
        lanes=16,
        input_format=FEATURES,
        output_format=FEATURES,
        # What the search finds, kept for speed.
        shape=TableShape(degree=2, low_bits=9, fraction_bits=13),
    )
    linear = LinearUnit(
        tile=16, max_features=768, weight_tiles=576, feature_format=FEATURES, weight_format=WEIGHTS, activation=gelu
    )
    return BlockUnit(linear=linear, memory_words=16384, max_rows=256, lists=16)


ENTRIES = (
    UnitEntry(
        name="linear",
        summary="one matrix engine for all linear layers, with bias, activation, token lists and weighted addition",
        make_default=_default_linear,
        contract=block_contract,
        build=BlockEngine,
    ),
    UnitEntry(
        name="encoder-block",
        summary="a transformer encoder block: norm, attention, linear layers, experts, on one token memory",
        make_default=lambda: DEFAULT_BLOCK.fitting_unit(tile=16, feature_format=FEATURES, weight_format=WEIGHTS),
        contract=block_contract,
        build=BlockEngine,
    ),
)
"""The blocks of this family."""
