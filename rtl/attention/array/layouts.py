"""Micro-operations and what travels over the links of the array."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amaranth import Mux, Shape, Value, signed
from amaranth.lib import data, enum

from accel.attention_array import AttentionArray, depths

__all__ = ["Layouts", "MatrixOp", "VectorOp", "clamp"]


class MatrixOp(enum.Enum):
    """What a PE of the array does."""

    NONE = 0
    BQK = 1
    LM = 2
    SUBTRACT = 3
    SCALE = 4
    STEP = 5
    SLD = 6
    SLNV = 7


class VectorOp(enum.Enum):
    """What a PE of the vector row does."""

    NONE = 0
    RM = 1
    SUBTRACT = 2
    SCALE = 3
    STEP = 4
    SPD = 5
    RD = 6
    SPNV = 7
    RNV = 8
    AV = 9


def clamp(value: Any, low: int, high: int) -> Any:
    """Return ``value`` brought into ``low`` to ``high``; an end that its shape cannot pass is not compared with."""
    shape = Value.cast(value).shape()
    least = -(1 << (shape.width - 1)) if shape.signed else 0
    most = (1 << (shape.width - shape.signed)) - 1
    below = Mux(value < low, low, value) if least < low else value
    return Mux(value > high, high, below) if most > high else below


def _bits(values: int) -> int:
    """Return the width of an index of ``values`` values; at least 1."""
    return max(1, (values - 1).bit_length())


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """Widths of indices, and layouts of micro-operations, for one array.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    """

    unit: AttentionArray

    @cached_property
    def depths(self) -> dict[str, int]:
        """Tiles that are kept of each value between two steps."""
        return depths(self.unit)

    @property
    def turn_bits(self) -> int:
        """Width of a turn."""
        return _bits(self.unit.turns)

    @property
    def feature_bits(self) -> int:
        """Width of an index of e or f."""
        return _bits(max(self.unit.query_key_dim, self.unit.value_dim))

    @property
    def query_index_bits(self) -> int:
        """Width of an index of e."""
        return _bits(self.unit.query_key_dim)

    @property
    def value_index_bits(self) -> int:
        """Width of an index of f."""
        return _bits(self.unit.value_dim)

    @property
    def place_bits(self) -> int:
        """Width of the number of a query tile on chip."""
        return _bits(self.unit.query_tiles)

    def slot_bits(self, einsum: str) -> int:
        """Width of the place of a value between two steps."""
        return _bits(self.depths[einsum])

    @property
    def number_bits(self) -> int:
        """Low bits of a tile's number that places need."""
        return max(self.slot_bits(einsum) for einsum in self.depths)

    @property
    def step_bits(self) -> int:
        """Width of the number of a step of the polynomial."""
        return _bits(self.unit.exponential.degree)

    @property
    def mask_bits(self) -> int:
        """Width of the distance to the first column that sees a key."""
        return self.unit.columns.bit_length()

    @property
    def lead_shape(self) -> Shape:
        """Shape of a key's index in row 0 minus the query's in column 0, cut off where the mask no longer changes."""
        return signed(1 + max(self.unit.rows, self.unit.columns).bit_length())

    @property
    def count_bits(self) -> int:
        """Width of a number of rows or columns."""
        return max(self.unit.rows, self.unit.columns).bit_length()

    @cached_property
    def matrix(self) -> data.StructLayout:
        """A micro-operation in a PE: ``mask`` columns to the right see its key first; 0 from there on."""
        return data.StructLayout(
            {
                "op": MatrixOp,
                "first": 1,
                "final": 1,
                "turn": self.turn_bits,
                "score": self.slot_bits("BQK"),
                "weight": self.slot_bits("SLN"),
                "step": self.step_bits,
                "mask": self.mask_bits,
            }
        )

    @cached_property
    def capture(self) -> data.StructLayout:
        """What the vector row takes from the row above in this cycle, and where it goes."""
        return data.StructLayout(
            {
                "op": MatrixOp,
                "feature": self.value_index_bits,
                "number": self.number_bits,
            }
        )

    @cached_property
    def vector(self) -> data.StructLayout:
        """A micro-operation in a PE of the vector row; ``lanes`` columns from here on hold queries of the job."""
        return data.StructLayout(
            {
                "op": VectorOp,
                "first": 1,
                "final": 1,
                "step": self.step_bits,
                "feature": self.value_index_bits,
                "place": self.place_bits,
                "number": self.number_bits,
                "first_tile": 1,
                "last_tile": 1,
                "ends": 1,
                "lanes": self.count_bits,
                "capture": self.capture,
            }
        )

    @cached_property
    def climb(self) -> data.StructLayout:
        """A running maximum on its way up."""
        return data.StructLayout({"valid": 1, "maximum": signed(self.unit.score_bits)})

    def payload(self, lanes: int, width_bits: int) -> Any:
        """Return the layout of a beat of ``lanes`` numbers."""
        return data.ArrayLayout(signed(width_bits), lanes)
