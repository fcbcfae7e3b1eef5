"""What the cost of a block on an FPGA is made of, read from its description: widths, lanes, tables, memories."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from accel.activation_unit import ACTIVATIONS

__all__ = ["features", "model_name"]

Features = dict[str, float]
Description = Mapping[str, Any]

_MULTIPLIER_BITS = 18
_BLOCK_SHAPES = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
"""Words and their bits in one block memory of 18 kbit."""

_SMALL_MEMORY_BITS = 1024
"""Smaller memories become look-up tables."""

_LOGIC_SEGMENTS = 64
"""Longer tables become block memory: yosys put tables of 57 segments into logic and one of 130 into a block."""


def features(model: str, description: Description) -> Features:
    """Return the structural features of a block, all 0 or more.

    Parameters
    ----------
    model : str
        Name of the block's model (``model_name``); one without features of its own gets the general ones.
    description : mapping
        Sidecar of the block: ``parameters``, ``derived``, ``input_format``, ``output_format``.

    Returns
    -------
    dict of str to float
        Features by name. ``lane_...`` is counted once for each lane.
    """
    return _STRUCTURES.get(model, _general)(description)


def model_name(unit: str, family: str) -> str:
    """Return the name of the model that serves a unit: its family's, where all units of it have one structure."""
    return family if family in _SHARED else unit


def _sizes(description: Description) -> tuple[float, float, float]:
    lanes = float(description["parameters"].get("lanes", 1))
    return lanes, float(description["input_format"]["width_bits"]), float(description["output_format"]["width_bits"])


def _general(description: Description) -> Features:
    lanes, given, result = _sizes(description)
    derived = description["derived"]
    rom_bits = sum(value for name, value in derived.items() if name.endswith("rom_bits"))
    return {
        "one": 1.0,
        "lanes": lanes,
        "lane_input_bits": lanes * given,
        "lane_output_bits": lanes * result,
        "lane_product_bits": lanes * given * result,
        "rom_bits": float(rom_bits),
        **_memories(derived),
    }


def _memories(derived: Mapping[str, Any]) -> Features:
    """Return the features of the row memories: bits of all words, of an address, and tiles of block memory."""
    words = [float(value) for name, value in derived.items() if name.endswith("_word_bits")]
    depth = float(derived.get("buffer_beats", 0))
    if not words or not depth:
        return {}
    return {
        "memory_word_bits": sum(words),
        "address_bits": math.ceil(math.log2(depth)),
        "memory_tiles": sum(_blocks(depth, word) for word in words if depth * word > _SMALL_MEMORY_BITS),
    }


def _blocks(words: float, word_bits: float) -> float:
    """Return the block memories that a memory takes in the shape that suits it best."""
    return min(math.ceil(words / depth) * math.ceil(word_bits / width) for depth, width in _BLOCK_SHAPES)


def _tiles(a: float, b: float) -> float:
    """Return the hardware multipliers of 18 x 18 bits that a product of these widths takes."""
    return math.ceil(a / _MULTIPLIER_BITS) * math.ceil(b / _MULTIPLIER_BITS)


def _unsigned_tiles(a: float, b: float) -> float:
    """Return those of a product of numbers without sign: yosys makes a last piece of one bit of look-up tables."""
    return _tiles(max(a - 1, 1), max(b - 1, 1))


def _shifter_bits(width: float) -> float:
    """Return the two-way multiplexers of a shifter by any amount."""
    return width * math.ceil(math.log2(max(width, 2)))


def _softmax(description: Description) -> Features:
    lanes, given, result = _sizes(description)
    derived = description["derived"]
    total, mantissa = float(derived["sum_bits"]), float(derived["mantissa_bits"])
    return {
        "one": 1.0,
        "lane_input_bits": lanes * given,
        "lane_output_bits": lanes * result,
        "lane_term_shifter_bits": lanes * _shifter_bits(total),
        "lane_weight_shifter_bits": lanes * _shifter_bits(2 * mantissa),
        "sum_shifter_bits": _shifter_bits(total),
        "rom_bits": float(derived["exp_rom_bits"] + derived["reciprocal_rom_bits"]),
        "lane_multipliers": lanes * (_unsigned_tiles(mantissa, mantissa) + _tiles(given, 17)),
        **_memories(derived),
    }


def _activation(description: Description) -> Features:
    lanes, given, result = _sizes(description)
    derived = description["derived"]
    degree, total = float(derived["degree"]), float(derived["total_bits"])
    function = ACTIVATIONS[description["parameters"]["function"]]
    # A function that nears a constant on both sides does without its argument at the end of the pipeline.
    delayed = given * (3 + 2 * degree) if function.positive.slope or function.negative.slope else 0.0
    long_table = derived["segments"] > _LOGIC_SEGMENTS
    return {
        "one": 1.0,
        "lane_output_bits": lanes * result,
        "lane_delay_bits": lanes * delayed,
        "lane_place_bits": lanes * degree * float(derived["low_bits"]),
        "lane_coefficient_bits": lanes * float(sum(derived["coefficient_bits"])),
        "lane_value_bits": lanes * degree * float(derived["value_bits"]),
        "lane_total_bits": lanes * total,
        "rom_bits": 0.0 if long_table else float(derived["rom_bits"]),
        "rom_blocks": lanes if long_table else 0.0,
        "lane_multipliers": lanes * degree,
    }


def _norm(description: Description) -> Features:
    lanes, given, result = _sizes(description)
    derived = description["derived"]
    denominator, centre = float(derived["denominator_bits"]), float(derived["centre_bits"])
    mean = description["parameters"].get("function") == "layernorm"
    return {
        "one": 1.0,
        "lane_input_bits": lanes * given,
        "lane_square_sum_bits": lanes * float(derived["square_sum_bits"]),
        "lane_output_bits": lanes * result,
        "lane_weight_shifter_bits": lanes * _shifter_bits(centre + 20),
        "lane_product_bits": lanes * centre,
        "denominator_shifter_bits": _shifter_bits(denominator),
        "mean_bits": float(derived["sum_bits"]) * mean,
        "lane_multipliers": lanes * (_tiles(centre, 18) + _tiles(given, given) + _tiles(given, derived["count_bits"])),
        "row_multipliers": _tiles(derived["square_sum_bits"], derived["count_bits"])
        + mean * _tiles(derived["sum_bits"], derived["sum_bits"]),
        **_memories(derived),
    }


def _reordered(description: Description) -> Features:
    derived, parameters = description["derived"], description["parameters"]
    slots, block, units = float(parameters["slots"]), float(parameters["block"]), float(derived["exp_units"])
    given = float(description["input_format"]["width_bits"])
    lanes, accumulator, score = slots * block, float(derived["accumulator_bits"]), float(derived["score_bits"])
    word = block * given
    buffers = (derived["key_buffer_bits"], derived["value_buffer_bits"])
    return {
        "one": 1.0,
        "lane_score_bits": lanes * score,
        "lane_shifter_bits": lanes * _shifter_bits(accumulator),
        "slot_bits": slots * (score + float(derived["sum_bits"])),
        "block_bits": block * accumulator,
        "rom_bits": float(derived["exp_rom_bits"]) * units + float(derived["reciprocal_rom_bits"]),
        "lane_multipliers": 2 * lanes * _tiles(given, given),
        "block_multipliers": block * _tiles(accumulator, float(derived["reciprocal_fraction_bits"])),
        "memory_tiles": sum(_blocks(bits / word, word) for bits in buffers),
    }


_STRUCTURES: Mapping[str, Callable[[Description], Features]] = {
    "activation": _activation,
    "attention-reordered": _reordered,
    "norm": _norm,
    "softmax": _softmax,
}
"""Models whose structure is described; features of others are general."""

_SHARED = ("activation", "norm")
"""Families whose units share a model; every other unit has its own."""
