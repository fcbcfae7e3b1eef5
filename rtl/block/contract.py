"""What a block unit promises, as plain data."""

from __future__ import annotations

from accel.block_unit import BLOCK_ACTIONS, MAX_OPERATIONS, BlockUnit
from rtl.contract import Contract

__all__ = ["block_contract"]


def block_contract(unit: BlockUnit, *, counters: bool = False) -> Contract:
    """Return what a ``BlockEngine`` of these parameters promises, without building it."""
    linear = unit.linear
    parts = [name for name in ("norm", "attention", "gate") if getattr(unit, name) is not None]
    word_bits = linear.tile * linear.feature_format.width_bits
    parameters: dict[str, object] = {
        "tile": linear.tile,
        "max_features": linear.max_features,
        "weight_tiles": linear.weight_tiles,
        "weight_format": str(linear.weight_format),
        "score_fraction_bits": linear.score_fraction_bits,
        "activation": linear.activation.function if linear.activation is not None else "none",
        "memory_words": unit.memory_words,
        "max_rows": unit.max_rows,
        "lists": unit.list_count,
        "parts": ", ".join(parts) or "none",
        "counters": counters,
    }
    if unit.norm is not None:
        parameters |= {"norm": unit.norm.function, "epsilon": unit.norm.epsilon}
    if unit.attention is not None:
        parameters |= {"slots": unit.attention.slots, "head_features": unit.attention.key_features}
    if unit.gate is not None:
        parameters |= {name: getattr(unit.gate, name) for name in ("experts", "top_k", "renormalise")}
    return Contract(
        unit="encoder-block" if parts else "linear",
        family="block",
        summary=(
            f"One linear unit of {linear.tile} x {linear.tile} multiply-accumulates a cycle for all layers.",
            f"A memory of {unit.memory_words} words of {linear.tile} features; with: {', '.join(parts) or 'no more'}.",
            f"Features {linear.feature_format}; weights {linear.weight_format}, {linear.weight_tiles} tiles a bank.",
            "A layer takes rows x ceil(in / tile) x ceil(out / tile) cycles; sums are exact and rounded once.",
        ),
        parameters=parameters,
        derived={
            "accumulator_bits": linear.accumulator_bits,
            "bias_bits": linear.bias_bits,
            "product_fraction_bits": linear.product_fraction_bits,
            "fill_cycles": linear.fill_cycles,
            "bank_cycles": linear.bank_cycles,
            "multipliers": linear.tile**2,
            "weight_bank_bits": linear.bank_bits,
            "memory_bits": unit.memory_words * word_bits,
            "max_operations": MAX_OPERATIONS,
        },
        input_format=linear.feature_format,
        output_format=linear.feature_format,
        latency_cycles=linear.latency_cycles,
        interval_cycles=1,
        latency_span="from the last step of a word of outputs to its being written",
        max_error=linear.error(),
        actions={name: BLOCK_ACTIONS[name] for name in unit.action_names} if counters else {},
    )
