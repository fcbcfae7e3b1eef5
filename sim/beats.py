"""Numbers as bytes of AXI4-Stream beats: each takes a whole number of bytes, the first the lowest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accel.numerics import FixedPoint

__all__ = ["number_bytes", "pack", "unpack"]


def number_bytes(element: FixedPoint) -> int:
    """Return the whole bytes that a number takes in a beat."""
    return -(-element.width_bits // 8)


def pack(codes: NDArray[np.int64], element: FixedPoint) -> NDArray[np.uint8]:
    """Return ``codes``, ndarray[beats, numbers], as bytes; the spare bits, which a block ignores, are inverted."""
    size = number_bytes(element)
    spare = ((1 << (8 * size)) - 1) ^ ((1 << element.width_bits) - 1)
    words = np.ascontiguousarray((codes ^ spare).astype("<i8")).view(np.uint8).reshape(*codes.shape, 8)
    return np.ascontiguousarray(words[..., :size]).reshape(len(codes), -1)


def unpack(data: NDArray[np.uint8], element: FixedPoint) -> NDArray[np.int64]:
    """Return the numbers, ndarray[beats, numbers], whose whole bytes stand in ``data``."""
    size = number_bytes(element)
    words = data.reshape(len(data), -1, size)
    top = words[..., -1:] >> 7 if element.signed else np.zeros((*words.shape[:2], 1), np.uint8)
    filled = np.concatenate([words, np.repeat(255 * top, 8 - size, axis=-1).astype(np.uint8)], axis=-1)
    return np.ascontiguousarray(filled).view("<i8")[..., 0].astype(np.int64)
