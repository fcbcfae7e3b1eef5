"""Numbers for the streams of a block with AXI4-Stream ports, as words of 64 independent streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError
from accel.numerics import FixedPoint
from sim.power.boolean import Words

__all__ = ["STREAMS", "StreamPort", "random_rows", "row_beats", "stream_ports"]

STREAMS = 64
ROW_BEATS = 64
"""Longest row that is simulated, in beats."""

_SPREAD = {"softmax": (0.0, 2.0), "norm": (0.5, 1.0), "activation": (0.0, 1.5)}
"""Mean and standard deviation of the numbers for a family; others get those of a softmax."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class StreamPort:
    """How numbers lie in the ``tdata`` of a port.

    Parameters
    ----------
    element : FixedPoint
        Their format.
    lanes : int
        Numbers in a beat.
    """

    element: FixedPoint
    lanes: int

    @property
    def lane_bits(self) -> int:
        """Bits of ``tdata`` for one number: whole bytes."""
        return 8 * -(-self.element.width_bits // 8)

    def pack(self, codes: Codes) -> Words:
        """Return one beat, ndarray[streams, lanes], as words, ndarray[bits of tdata]."""
        bits = (codes[:, :, None] >> np.arange(self.lane_bits)) & 1
        return _words(bits.reshape(STREAMS, -1))

    def unpack(self, words: Words) -> Codes:
        """Return the numbers of one beat: the inverse of ``pack``."""
        bits = (words[:, None] >> np.arange(STREAMS, dtype=np.uint64)) & np.uint64(1)
        each = bits.T.reshape(STREAMS, self.lanes, self.lane_bits)[:, :, : self.element.width_bits].astype(np.int64)
        codes: Codes = (each << np.arange(self.element.width_bits)).sum(axis=2)
        if self.element.signed:
            codes -= (codes >> (self.element.width_bits - 1)) << self.element.width_bits
        return codes


def _words(bits: Codes) -> Words:
    """Return ndarray[streams, bits] as ndarray[bits], each word with one bit of each stream."""
    weights = np.uint64(1) << np.arange(STREAMS, dtype=np.uint64)
    words: Words = (bits.astype(np.uint64) * weights[:, None]).sum(axis=0, dtype=np.uint64)
    return words


def stream_ports(description: Mapping[str, Any]) -> tuple[StreamPort, StreamPort]:
    """Return the ports in and out that a sidecar describes.

    Raises
    ------
    InputError
        The block has other ports than one AXI4-Stream in and one out.
    """
    widths = {port["name"]: port["width_bits"] for port in description.get("ports", ())}
    if description.get("wrapper") != "AxisWrapper" or not {"s_axis_tkeep", "m_axis_tkeep"} <= widths.keys():
        raise InputError(
            "energy is measured on a block with one AXI4-Stream in and one out and a sidecar that says so",
            hint="write it with: einrtl rtl ... --axi",
        )
    source, sink = (
        StreamPort(element=element, lanes=widths[f"{name}_tkeep"] // -(-element.width_bits // 8))
        for name, element in (
            ("s_axis", _format(description["input_format"])),
            ("m_axis", _format(description["output_format"])),
        )
    )
    return source, sink


def _format(fields: Mapping[str, Any]) -> FixedPoint:
    sign = "s" if fields["signed"] else "u"
    return FixedPoint.parse(
        f"{sign}{fields['width_bits']}f{fields['fraction_bits']},{fields['rounding']},{fields['overflow']}"
    )


def row_beats(description: Mapping[str, Any]) -> int:
    """Return the beats of the rows to simulate: as many as the block takes, up to ``ROW_BEATS``."""
    return min(ROW_BEATS, int(description["derived"].get("max_beats", ROW_BEATS)))


def random_rows(description: Mapping[str, Any], beats: int, seed: int) -> Codes:
    """Return normally distributed numbers of the spread that suits the family.

    Parameters
    ----------
    description : mapping
        Sidecar of the block.
    beats : int
        Beats of each stream.
    seed : int
        Of the numbers.

    Returns
    -------
    ndarray[beats, streams, lanes], int64
        Codes of the input format.
    """
    source, _ = stream_ports(description)
    mean, deviation = _SPREAD.get(str(description.get("family", "")), _SPREAD["softmax"])
    reals = np.random.default_rng(seed).normal(mean, deviation, (beats, STREAMS, source.lanes))
    codes = np.rint(np.ldexp(reals, source.element.fraction_bits)).astype(np.int64)
    return np.clip(codes, source.element.min_code, source.element.max_code)
