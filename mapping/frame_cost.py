"""What a frame design takes of an FPGA: by the fitted models of ``accel.fpga``, by formula where a count is exact.

By formula are multipliers of the products (how many hardware multipliers one product takes follows from its widths) and
block memories (words and bits). The attention core, GELU and the norm come from fitted models, the linear unit from a
parabola through three generated ones. Where a size lies outside the samples, the answer says ``extrapolated``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from accel.errors import InputError
from accel.fpga import (
    QUANTITIES,
    CostModel,
    Device,
    Sample,
    device_names,
    features,
    load_device,
    load_model,
    load_samples,
    sample_targets,
)
from accel.frame import VisionTransformer
from accel.frame_design import FrameDesign
from mapping.frame import frame_stages, resident_tokens

__all__ = ["FrameCost", "block_memories", "dsp_per_mac", "frame_cost"]

Counts = Mapping[str, float]

_PACKED_BITS = 8
_PACKED_OPERAND_BITS = 27
"""Two products of 8 bits that share an operand fit one multiplier of 27 x 18 (AMD WP486)."""

_UNIT_BITS = 18
"""Widest numbers of the generated units; what is wider is priced as so many of them as its products take."""

_GUARD_BITS = 8
"""Further bits of running sums, as in the generated units."""

_LINEAR_BITS = 16
"""Width of the sampled linear units."""

_ATTENTION = "attention-reordered"
_ATTENTION_SAMPLE = "attention-reordered --slots 2 --block 4 --max-length 64"
"""Its tables are those of every design."""

_NORM_TARGET = "ecp5"
"""Norms were sampled there only: with look-up tables of 4 inputs, which are never fewer than those of 6."""


@dataclass(frozen=True, kw_only=True)
class FrameCost:
    """What a design takes.

    Parameters
    ----------
    parts : mapping of str to mapping of str to float
        Part to its counts of ``accel.fpga.QUANTITIES``.
    extrapolated : tuple of str
        Parts that lie outside the samples of their model.
    """

    parts: Mapping[str, Counts]
    extrapolated: tuple[str, ...]

    @property
    def total(self) -> dict[str, float]:
        """Counts of all parts."""
        return {name: math.fsum(part[name] for part in self.parts.values()) for name in QUANTITIES}


def dsp_per_mac(device: Device, a_bits: int, b_bits: int) -> float:
    """Return the hardware multipliers that a product of two signed numbers takes; half a one where two share it."""
    large, small = max(device.dsp_operand_bits), min(device.dsp_operand_bits)
    if max(a_bits, b_bits) <= _PACKED_BITS and large >= _PACKED_OPERAND_BITS:
        return 0.5

    def tiles(first: int, second: int) -> int:
        # All pieces of a number but its highest are unsigned, and so one bit narrower than a signed operand.
        return -(-(first - 1) // (large - 1)) * -(-(second - 1) // (small - 1))

    return float(min(tiles(a_bits, b_bits), tiles(b_bits, a_bits)))


def block_memories(device: Device, words: float, word_bits: float) -> float:
    """Return the block memories of a memory that is read and written once a cycle, a half being the least."""
    best, depth = math.inf, device.block_ram_bits // device.block_ram_port_bits
    width = device.block_ram_port_bits
    while width >= 1:
        best = min(best, math.ceil(words / depth) * math.ceil(word_bits / width))
        depth, width = depth * 2, width // 2
    return best


def frame_cost(model: VisionTransformer, design: FrameDesign, device: Device) -> FrameCost:
    """Return what a design takes of a device.

    Raises
    ------
    InputError
        There is no fitted model for the device's family.
    """
    if not _has_model(device.target):
        known = [name for name in device_names() if _has_model(load_device(name).target)]
        raise InputError(
            f"a frame design needs samples of the attention core on its FPGA family, and {device.target} has none",
            hint=f"use {', '.join(known)}",
        )
    linear, attention, gelu = _linear(design, device), _attention(model, design, device), _gelu(design, device)
    norm, memories = _norm(design), _memories(model, design, device)
    parts = {
        "linear unit": linear[0],
        "attention": attention[0],
        "GELU": gelu[0],
        "normalisation": norm[0],
        "memories": memories,
    }
    flags = {"linear unit": linear[1], "attention": attention[1], "GELU": gelu[1], "normalisation": norm[1]}
    return FrameCost(parts=parts, extrapolated=tuple(name for name, outside in flags.items() if outside))


def _has_model(target: str) -> bool:
    return target in sample_targets() and _ATTENTION in _model(target).families


@cache
def _model(target: str) -> CostModel:
    return load_model(target)


@cache
def _sample(target: str, command: str) -> Sample:
    return next(each for each in load_samples(target) if each.command == command)


def _wider(bits: int) -> int:
    """Return how many units of at most 18 bits stand for one of ``bits``."""
    return math.ceil(bits / _UNIT_BITS) ** 2


def _attention_description(model: VisionTransformer, design: FrameDesign) -> dict[str, Any]:
    """Return the description of the attention core, as the sidecar of the generated one has it, for any width."""
    bits, tokens, dim = design.feature_bits, model.tokens, model.head_dim
    sums = bits + _GUARD_BITS + math.ceil(math.log2(tokens)) + 1
    buffer = 2 * tokens * dim * bits if design.keys_on_chip else 0
    return {
        "parameters": {"slots": design.slots, "block": design.block},
        "input_format": {"width_bits": bits},
        "output_format": {"width_bits": bits},
        "derived": {
            "exp_units": math.ceil(design.slots / math.ceil(dim / design.block)),
            "score_bits": 2 * bits + math.ceil(math.log2(dim)),
            "sum_bits": sums,
            "accumulator_bits": sums + bits - 1,
            "reciprocal_fraction_bits": bits + 1,
            "exp_rom_bits": _sample("xilinx", _ATTENTION_SAMPLE).description["derived"]["exp_rom_bits"],
            "reciprocal_rom_bits": _sample("xilinx", _ATTENTION_SAMPLE).description["derived"]["reciprocal_rom_bits"],
            "key_buffer_bits": buffer,
            "value_buffer_bits": buffer,
        },
    }


def _outside(model: CostModel, name: str, found: Mapping[str, float]) -> bool:
    family = model.families[name]
    return any(not family.lowest[key] <= value <= family.highest[key] for key, value in found.items())


def _predict(model: CostModel, name: str, found: Mapping[str, float]) -> dict[str, float]:
    return {quantity: each.predict(found) for quantity, each in model.families[name].quantities.items()}


def _attention(model: VisionTransformer, design: FrameDesign, device: Device) -> tuple[Counts, bool]:
    fitted = _model(device.target)
    found = features(_ATTENTION, _attention_description(model, design))
    one = _predict(fitted, _ATTENTION, found)
    macs = design.slots * design.block * (2 if design.fused else 1)
    # The products of all lanes are counted from their widths; what else multiplies is fitted.
    apart = found | {"lane_score_bits": 0.0, "lane_multipliers": 0.0}
    one["dsp_count"] = fitted.families[_ATTENTION].quantities["dsp_count"].predict(apart)
    one["dsp_count"] += math.ceil(macs * dsp_per_mac(device, design.feature_bits, design.feature_bits))
    return {name: design.cores * count for name, count in one.items()}, _outside(fitted, _ATTENTION, found)


def _linear(design: FrameDesign, device: Device) -> tuple[Counts, bool]:
    """Return the counts of the linear unit: the parabola in T through the generated ones, wider with its sums."""
    sampled = {int(each.description["parameters"]["tile"]): each.counts for each in _linear_samples(device.target)}
    wider = (design.feature_bits + design.weight_bits) / (2 * _LINEAR_BITS)
    counts = {
        name: wider * _through({tile: each[name] for tile, each in sampled.items()}, design.tile)
        for name in ("lut_count", "ff_count")
    }
    # Products are counted from their widths; what else multiplies, scores and addresses, grows with T.
    others = {tile: each["dsp_count"] - tile**2 for tile, each in sampled.items()}
    products = math.ceil(design.tile**2 * dsp_per_mac(device, design.feature_bits, design.weight_bits))
    counts |= {"dsp_count": products + max(_through(others, design.tile), 0.0), "block_ram_count": 0.0}
    sampled_here = min(sampled) <= design.tile <= max(sampled) and wider == 1
    return counts, not sampled_here


@cache
def _linear_samples(target: str) -> tuple[Sample, ...]:
    return tuple(each for each in load_samples(target) if each.unit == "linear")


def _through(points: Mapping[int, float], at: int) -> float:
    """Return the value at ``at`` of the polynomial through all ``points`` (Lagrange)."""
    return math.fsum(
        value * math.prod((at - other) / (here - other) for other in points if other != here)
        for here, value in points.items()
    )


def _gelu(design: FrameDesign, device: Device) -> tuple[Counts, bool]:
    """Return the counts of T lanes: those of the sampled unit of 16 bits with as many."""
    description = dict(_sample(device.target, "gelu").description)
    lanes = design.tile
    description["parameters"] = {**description["parameters"], "lanes": lanes}
    description["derived"] = {**description["derived"], "rom_bits": description["derived"]["rom_bits"] * lanes}
    fitted = _model(device.target)
    found = features("activation", description)
    copies = _wider(design.feature_bits)
    counts = {name: copies * count for name, count in _predict(fitted, "activation", found).items()}
    return counts, copies > 1 or _outside(fitted, "activation", found)


def _norm(design: FrameDesign) -> tuple[Counts, bool]:
    """Return the counts of the sampled LayerNorm of 16 bits with as many lanes, on ECP5."""
    base = _sample(_NORM_TARGET, "layernorm").description
    lanes, derived = design.vector_lanes, dict(base["derived"])
    beats = math.ceil(derived["capacity"] / lanes)
    derived["buffer_beats"] = beats + derived["buffer_beats"] - derived["max_beats"]
    derived["max_beats"] = beats
    derived["buffer_word_bits"] = lanes * base["input_format"]["width_bits"] + 1
    description = {**base, "parameters": {**base["parameters"], "lanes": lanes}, "derived": derived}
    fitted = _model(_NORM_TARGET)
    found = features("norm", description)
    copies = _wider(design.feature_bits)
    counts = {name: copies * count for name, count in _predict(fitted, "norm", found).items()}
    counts["block_ram_count"] /= 2  # of 18 kbit there
    return counts, copies > 1 or _outside(fitted, "norm", found)


def _memories(model: VisionTransformer, design: FrameDesign, device: Device) -> Counts:
    """Return the block memories of both banks of weights, and of tokens where they stay on chip."""
    macs, largest = design.tile**2, max(each.weight_bits for each in frame_stages(model, design))
    tiles = math.ceil(largest / (macs * design.weight_bits))
    total = block_memories(device, 2 * tiles, macs * design.weight_bits)
    if design.activations_on_chip:
        words = model.tokens * math.ceil(resident_tokens(model) / design.tile)
        total += block_memories(device, words, design.tile * design.feature_bits)
    return {"lut_count": 0.0, "ff_count": 0.0, "dsp_count": 0.0, "block_ram_count": total}
