"""The part of a contract that all blocks of the softmax family share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtl.contract import Contract

__all__ = ["describe"]


def describe(
    unit: Any,
    *,
    summary: tuple[str, ...],
    parameters: Mapping[str, Any],
    derived: Mapping[str, Any],
    latency_cycles: int,
    latency_span: str,
    pace: str = "one beat a cycle for any mix of lengths",
    actions: Mapping[str, str] | None = None,
) -> Contract:
    """Return the contract of a block of the softmax family; ``unit`` is its description."""
    shared = {"max_beats": unit.max_beats, "capacity": unit.capacity}
    memories = dict.fromkeys(
        ("buffer_beats", "buffer_word_bits", "row_queue_word_bits", "exp_rom_bits", "reciprocal_rom_bits"), 0
    )
    quality = {"row_sum_error": unit.quality.row_sum_error, "argmax": unit.quality.argmax}
    return Contract(
        unit=unit.name,
        family="softmax",
        summary=(
            *summary[:1],
            f"Rows of up to {unit.max_beats} beats of {unit.lanes} score(s); {pace}.",
            f"Scores {unit.input_format}; results {unit.output_format}.",
            *summary[1:],
        ),
        parameters={"max_length": unit.max_length, "lanes": unit.lanes, **parameters},
        derived={**shared, **memories, **derived, **quality},
        input_format=unit.input_format,
        output_format=unit.output_format,
        latency_cycles=latency_cycles,
        interval_cycles=1,
        latency_span=latency_span,
        max_error=unit.max_error,
        actions=dict(actions or {}),
    )
