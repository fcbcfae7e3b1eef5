"""Tables of the memories on chip beside the buffer's own: what inner levels hold, and how busy stated ports are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accel.cli import table
from accel.result import Result

__all__ = ["level_tables", "ports_text"]


def level_tables(result: Result) -> Iterator[Any]:
    """Yield the tables of inner levels and ports; none for an architecture that has neither."""
    if result.level_occupancy_bits:
        yield table(
            "Inner levels",
            ["level", "tensor", "bits"],
            [
                (level, tensor, f"{bits:,}")
                for level, parts in result.level_occupancy_bits.items()
                for tensor, bits in (*parts.items(), ("all", sum(parts.values())))
            ],
            right=(2,),
        )
    if result.buffer_cycles:
        yield table(
            "Ports of memories on chip",
            ["memory", "busy, cycles", "of the time"],
            [
                (unit, f"{cycles:,.0f}", f"{cycles / result.latency_cycles:.2%}")
                for unit, cycles in result.buffer_cycles.items()
            ],
            right=(1, 2),
        )


def ports_text(result: Result) -> str:
    """Return what a memory on chip that limits a result does."""
    return f"the ports of {result.limit}: its accesses take {result.buffer_cycles[result.limit]:,.0f} cycles"
