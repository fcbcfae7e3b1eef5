"""Number formats and the tables that models, golden models and hardware share."""

from accel.numerics.fixed import FixedPoint, Overflow, Rounding, round_shift
from accel.numerics.tables import LinearTable, exp2_table, reciprocal_table

__all__ = [
    "FixedPoint",
    "LinearTable",
    "Overflow",
    "Rounding",
    "exp2_table",
    "reciprocal_table",
    "round_shift",
]
